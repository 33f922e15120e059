"""One autograded task: what a student writes, and everything by which it is judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grading.tasks.kit import Draw

Function = Callable[..., Any]
Args = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """A function that a student writes, and everything by which it is judged.

    Attributes:
        name: the function's name, the grade_id of its check cell, the argument of `check`.
        draw: the arguments of one hidden case; called several times, with other sizes each time.
        visible: arguments of the cases that the student sees; one can be checked by hand.
        also: further hidden cases, for what the task is about, such as extreme scores in a mask.
        forbidden: names that would be the answer; whoever uses one gets no points.
        tolerance: of floats, absolute and relative.
        accepts: the complaint about an answer, or None, where many answers are right; the
            reference is then an example.
        reference: what is right; the solution's own function, if none is given.
        mistakes: wrong functions by the sentence that names the mistake (see `answers`).
    """

    name: str
    draw: Callable[[Draw], Args]
    visible: tuple[Args, ...]
    also: Callable[[Draw], Sequence[Args]] | None = None
    forbidden: tuple[str, ...] = ()
    tolerance: float = 1e-4
    accepts: Callable[[Args, Any], str | None] | None = None
    reference: Function | None = None
    mistakes: Mapping[str, Function] = field(default_factory=dict)

    def right(self, *args: Any) -> Any:
        """What is right for these arguments.

        Raises:
            TypeError: the task has no reference yet; `grading.tasks.exercise` gives it one.
        """
        if self.reference is None:
            raise TypeError(f"the task {self.name} has no reference: get it from exercise(name)")
        return self.reference(*args)
