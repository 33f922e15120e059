"""What people answer: right, and wrong with what is said of it. One record, one place.

An exercise has a file here, NN_name.toml, and a task in it a list of tables. From them come the
mistakes that the check cell and the judge name, and the answers by which both are tested:

- `right`: the text of an answer cell that is right, written unlike the solution;
- `mistake`: the sentence that names a wrong answer; the student reads it;
- `told`: a wrong answer that gets the sentence of another record, or what is said of every task (it
  raised, a wrong shape): a lower-case piece of that message;
- `same`: a line to which a slip changes the solution (see tests/grading/one_token.py), and which is
  right all the same; `because` says why.

A wrong answer stands as `answer`, its text, or as `change`: pieces of a right answer and what
replaces them, in turn. `of` says of which right answer of the task, 0 unless told.
"""

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Wrong:
    """A wrong answer, its text; and the sentence that names it, or a piece of what is said."""

    source: str
    mistake: str = ""
    told: str = ""

    @property
    def fragment(self) -> str:
        """A piece of the message that it gets, in small letters."""
        return (self.told or self.mistake.rstrip(".")).lower()


@dataclass
class Answers:
    """The answers to one task; `same` holds reasons by changed line."""

    right: list[str] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)


@cache
def answers(name: str) -> dict[str, Answers]:
    """The answers to an exercise by task; not to be changed.

    Raises:
        ValueError: if a record is none of the kinds above, or a change does not fit its answer.
    """
    tables = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    found = {}
    for task, records in tables.items():
        one = found[task] = Answers([r["right"] for r in records if "right" in r])
        for record in records:
            if "same" in record:
                one.same[record["same"]] = record["because"]
            elif "right" not in record:
                try:
                    one.wrong.append(_wrong(dict(record), one.right))
                except (KeyError, IndexError, TypeError, ValueError) as error:
                    raise ValueError(f"{name}, {task}: {error!r} in {record}") from None
    return found


def _wrong(record: dict[str, Any], right: Sequence[str]) -> Wrong:
    source = record.pop("answer", None)
    if source is None:
        source = changed(right[record.pop("of", 0)], *record.pop("change"))
    return Wrong(source, **record)


def changed(source: str, *pieces: str) -> str:
    """An answer with some of its pieces replaced: an old one, its new one, and so on.

    Raises:
        ValueError: if a piece does not stand there exactly once.

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
    found = {}
    for one in answers(name)[task].wrong:
        if one.mistake:
            space: dict[str, Any] = {"torch": torch, "math": math, "np": np, "numpy": np}
            exec(one.source, space)
            found[one.mistake] = space[task]
    return found
