"""What people answer: right ones, and mistakes that students make, with a sentence that helps.

A chapter has a file beside its tasks, chNN.toml, and each task in it a list of tables:

- `right`: the text of an answer cell that is right, and another way than the solution;
- `mistake`: the sentence that the student reads, with a wrong answer as `answer`, its text, or as
  `change`: pieces of the first right answer and what replaces them, in turn.

The visible check names these mistakes, `insights` counts them, and tests grade both kinds.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from grading.tasks.solutions import namespace

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Answers:
    """The answers to one task: texts that are right, and wrong ones by the mistake's sentence."""

    right: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)


@cache
def answers(name: str) -> dict[str, Answers]:
    """The answers to an exercise by task; not to be changed.

    Raises:
        ValueError: a record is none of the two kinds, or a change does not fit its answer.
    """
    tables = tomllib.loads((FOLDER / f"ch{name[:2]}.toml").read_text(encoding="utf-8"))
    return {task: _answers(f"{name}, {task}", records) for task, records in tables.items()}


def _answers(where: str, records: list[dict[str, Any]]) -> Answers:
    right = [record["right"] for record in records if "right" in record]
    wrong = dict[str, str]()
    for record in records:
        if "right" in record:
            continue
        if record.get("mistake") in (None, *wrong) or not {"answer", "change"} & set(record):
            raise ValueError(f"{where}: a mistake needs its own sentence and an answer: {record}")
        try:
            answer = record.get("answer") or changed(right[0], *record["change"])
        except (IndexError, ValueError) as error:
            raise ValueError(f"{where}: {error} in {record}") from None
        wrong[record["mistake"]] = answer
    return Answers(right, wrong)


def changed(source: str, *pieces: str) -> str:
    """An answer with some of its pieces replaced: an old one, its new one, and so on.

    Raises:
        ValueError: a piece does not stand there exactly once.

    >>> changed("x.sum(0)", "sum", "mean", "0", "1")
    'x.mean(1)'
    """
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        if source.count(old) != 1:
            raise ValueError(f"{old!r} stands {source.count(old)} times in {source}")
        source = source.replace(old, new)
    return source


def mistakes(name: str, task: str) -> dict[str, Callable[..., Any]]:
    """The named mistakes of a task: functions by their sentences, in order."""
    functions = {}
    for sentence, source in answers(name)[task].wrong.items():
        space = namespace()
        exec(source, space)
        functions[sentence] = space[task]
    return functions
