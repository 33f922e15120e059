"""The judge: hidden inputs from a seed, and a verdict on what a submission answered to them.

A submission runs elsewhere, and never sees more than the inputs. What it answered comes back as
JSON under one MIME type, is taken for hostile, and is compared here, in a process that has run
none of the student's code, with references that the student's code never met.
"""

import hashlib
import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from attnlib.check import MIME
from attnlib.check.comparison import complaint, difference
from attnlib.check.protocol import Case, from_json, read_answers, to_json
from grading.task import Args, Function, Task
from grading.tasks import exercise

SEED = "ATTNLIB_SEED"
DEFAULT_SEED = "course"


@dataclass(frozen=True)
class Verdict:
    """What the judge says of one task.

    Attributes:
        right: whether the hidden answers are right.
        reason: what is wrong, for the student; empty if nothing is.
        forged: whether the outputs are not what a check cell makes.
    """

    right: bool
    reason: str = ""
    forged: bool = False


def seed_in_use() -> str:
    """The instructor's seed (ATTNLIB_SEED), or the one that everybody knows."""
    return os.environ.get(SEED) or DEFAULT_SEED


def copied(value: Any) -> Any:
    """A fresh copy of a value that a task may use, by way of its JSON."""
    return from_json(to_json(value))


def draw(task: Task, seed: str) -> list[Args]:
    """The hidden inputs of one task; the first comes again, at the end."""
    digest = hashlib.sha256(f"{seed}:{task.name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    drawn = [tuple(args) for args in task.hidden(random.Random(digest), generator)]
    return [copied(args) for args in [*drawn, drawn[0]]]


@cache
def _hidden(name: str, seed: str) -> dict[str, list[Args]]:
    return {task.name: draw(task, seed) for task in exercise(name).values()}


def hidden_inputs(name: str, seed: str) -> dict[str, list[Args]]:
    """The hidden inputs of every task of an exercise.

    Args:
        name: the exercise, such as "04_self_attention".
        seed: anything; the same seed draws the same inputs.

    Returns:
        tuples of arguments by task, fresh copies.
    """
    return {task: copied(inputs) for task, inputs in _hidden(name, seed).items()}


def hidden_file(name: str, seed: str) -> str:
    """The text of the file for ATTNLIB_HIDDEN: encoded inputs by task, and nothing else."""
    tasks = exercise(name)
    return json.dumps(
        {task: encoded(tasks[task], inputs) for task, inputs in _hidden(name, seed).items()}
    )


def encoded(task: Task, inputs: Sequence[Args]) -> list[Any]:
    """Inputs as JSON. One in four lies as usual in memory; the last one's arguments have names."""
    data = [to_json(args) for args in [*inputs[:-1], task.named(inputs[-1])]]
    lies = False, True, "last", True
    return [turned(one, lies[i % 4]) for i, one in enumerate(data)]


def turned(data: Any, how: bool | str = True) -> Any:
    """Encoded data whose tensors are to lie in memory with all axes reversed, or the last two.

    Args:
        data: of `to_json`.
        how: True, "last", or False, which leaves them as they are.
    """
    if isinstance(data, list):
        return [turned(one, how) for one in data]
    if not isinstance(data, dict):
        return data
    if len(data.get("shape", ())) > 1:
        return data | {"turned": how}
    return {key: turned(one, how) for key, one in data.items()}


def case(task: Task, args: Args) -> Case:
    """An input with what it should give, and what each mistake that can answer it would give."""
    expected = copied(task.reference(*copied(args)))
    values = {sentence: _attempt(wrong, args) for sentence, wrong in task.mistakes.items()}
    told = {sentence: value[0] for sentence, value in values.items() if value}
    if task.accepts is None:
        told = {s: v for s, v in told.items() if difference(expected, v, task.tolerance)}
    return Case(copied(args), expected, told)


def _attempt(wrong: Function, args: Args) -> tuple[Any] | None:
    """What a wrong function gives, in a tuple, or None if it fails on this input."""
    try:
        return (copied(wrong(*copied(args))),)
    except Exception:
        return None


@cache
def cases(name: str, seed: str) -> dict[str, list[Case]]:
    """The hidden cases of an exercise by task; computed once, not to be changed."""
    tasks, inputs = exercise(name), _hidden(name, seed)
    found = {task: [case(tasks[task], args) for args in inputs[task]] for task in tasks}
    for task, asked in found.items():  # of the last one the arguments are given by name
        asked[-1] = replace(asked[-1], names=tuple(tasks[task].named(asked[-1].args)))
    return found


def bundles(outputs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The bundles of answers among the outputs of a cell."""
    data = (out.get("data") for out in outputs if isinstance(out, Mapping))
    return [d[MIME] for d in data if isinstance(d, Mapping) and MIME in d]


def verdict(
    name: str,
    task: str,
    outputs: Sequence[Mapping[str, Any]],
    seed: str,
    before: Sequence[Mapping[str, Any]] = (),
) -> Verdict:
    """Judge one task by the outputs of its check cell.

    Args:
        name: the exercise.
        task: the task.
        outputs: the outputs of the check cell, as executed in the sandbox; nothing in them is
            trusted.
        seed: the seed of the hidden inputs that the sandbox was given.
        before: the outputs of the cells between the task's text and its check.
    """
    asked = cases(name, seed)[task]
    found = bundles(outputs)
    if not found:
        return Verdict(False, _no_answer(outputs, before))
    if len(found) > 1:
        return Verdict(False, f"{len(found)} answers were shown where one is due", forged=True)
    try:
        answers = read_answers(found[0])
    except ValueError as error:
        return Verdict(False, f"the answers cannot be read: {error}", forged=True)
    if found[0].get("task") != task:
        return Verdict(False, "the answers are those of another task", forged=True)
    if len(answers) != len(asked):
        told = f"{len(answers)} answers to {len(asked)} questions"
        return Verdict(False, told, forged=bool(answers))
    one = exercise(name)[task]
    wrong = complaint(task, asked, answers, one.tolerance, one.accepts)
    return Verdict(wrong is None, wrong or "")


def _no_answer(outputs: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> str:
    """Why a check cell shows no answer: the error that it, or the answer's cell, ended with."""
    errors, earlier = _errors(outputs), _errors(before)
    if not errors:
        return "no answer: the cell did not run to its end"
    name, text = errors[-1]
    if name == "NotImplementedError":
        return "no answer: it is not written yet"
    if name == "NameError" and earlier:
        return "no answer: the cell above the check ended with {}: {}".format(*earlier[0]).strip()
    return f"no answer: the check cell ended with {name}: {text}".strip()


def _errors(outputs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Names and texts of the errors among outputs, cut."""
    found = (o for o in outputs if isinstance(o, Mapping) and o.get("output_type") == "error")
    return [(str(o.get("ename", ""))[:200], str(o.get("evalue", ""))[:200]) for o in found]
