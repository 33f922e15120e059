"""One autograded task: an independent reference, inputs, and the mistakes that people make."""

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Function = Callable[..., Any]
Args = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """A function that a student writes, and everything by which it is judged.

    Attributes:
        name: the function's name, the grade_id of its check cell, the argument of `check`.
        reference: what is right, independent of the solution.
        visible: arguments of the cases that the student sees; one can be checked by hand.
        hidden: draws the arguments of the hidden cases, sizes included.
        mistakes: plausible wrong functions by the sentence that names the mistake; the student
            reads the sentence.
        tolerance: for floats, absolute and relative.
        forbidden: names that would be the answer; whoever uses one gets no points.
        accepts: the complaint about an answer, or None, where many answers are right; the
            reference is then an example.
    """

    name: str
    reference: Function
    visible: tuple[Args, ...]
    hidden: Callable[[random.Random, torch.Generator], Sequence[Args]]
    mistakes: Mapping[str, Function] = field(default_factory=dict)
    tolerance: float = 1e-4
    forbidden: tuple[str, ...] = ()
    accepts: Callable[[Args, Any], str | None] | None = None

    def named(self, args: Args) -> dict[str, Any]:
        """Arguments by the names that the task gives them, which are those of the reference."""
        return dict(zip(inspect.signature(self.reference).parameters, args, strict=False))
