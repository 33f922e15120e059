"""Hidden cases: inputs drawn from the instructor's seed, and what is right for them."""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from attnlib.check.comparison import difference
from attnlib.check.protocol import Case, from_json, to_json
from grading.tasks import exercise
from grading.tasks.kit import Draw, draws
from grading.tasks.task import Args, Function, Task

SEED = "ATTNLIB_SEED"
DEFAULT_SEED = "course"


def seed_in_use() -> str:
    """The instructor's seed (ATTNLIB_SEED), or the one that everybody knows."""
    return os.environ.get(SEED) or DEFAULT_SEED


def copied(value: Any) -> Any:
    """A fresh copy of a value that a task may use, by way of its JSON."""
    return from_json(to_json(value))


def hidden_inputs(task: Task, seed: str) -> list[Args]:
    """The hidden inputs of one task; the same seed draws the same ones."""
    own = f"{seed}:{task.name}"
    inputs = [task.draw(draw) for draw in draws(own)]
    inputs += task.also(Draw(f"{own}:also")) if task.also else []
    return [copied(tuple(args)) for args in inputs]


def hidden_file(name: str, seed: str) -> dict[str, Any]:
    """What a submission may know: the encoded hidden inputs of each task, and no answers."""
    asked = cases(name, seed)
    return {task: [to_json(case.args) for case in asked[task]] for task in asked}


def case(task: Task, args: Args, mistakes: bool = True) -> Case:
    """An input with what is right for it, and what each mistake that can answer it would give.

    Args:
        task: the task.
        args: the input.
        mistakes: whether mistakes are asked, too.
    """
    expected = copied(task.right(*copied(args)))
    answers = _mistaken(task.mistakes, args) if mistakes else {}
    if task.accepts is None:
        answers = {
            sentence: answer
            for sentence, answer in answers.items()
            if difference(expected, answer, task.tolerance)
        }
    return Case(copied(args), expected, answers)


def _mistaken(mistakes: Mapping[str, Function], args: Args) -> dict[str, Any]:
    """What mistakes answer, by their sentences; those that fail on this input are left out."""
    answers = {}
    for sentence, function in mistakes.items():
        try:
            answers[sentence] = copied(function(*copied(args)))
        except Exception:
            continue  # a mistake that cannot answer explains nothing here
    return answers


@cache
def cases(name: str, seed: str) -> dict[str, list[Case]]:
    """The hidden cases of an exercise by task; computed once, not to be changed."""
    return {
        task.name: [case(task, args) for args in hidden_inputs(task, seed)]
        for task in exercise(name).values()
    }
