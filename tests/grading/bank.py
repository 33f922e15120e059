"""The bank of wrong and differently written right answers, one file per exercise.

Each `wrong_answers/NN_name.py` holds

- `WRONG: dict[str, list[tuple[str, str]]]`: by task, at least five answers that students give,
  each the source text of the answer cell and a lower-case fragment of the message it must get;
- `RIGHT: dict[str, list[str]]`: by task, two answers written differently from the solution, and as
  differently from each other as can be;
- `EQUIVALENT: dict[str, dict[str, str]]`: by task, one-token changes of the solution that are right
  all the same: the changed line, and the reason (see `mutants`).

What differs from a right answer by a piece or two is written as `changed(RIGHT_ANSWER, …)`.
"""

import contextlib
import io
import json
import os
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from cells import run

from attnlib import check as checking
from grading.judge import hidden_file
from grading.tasks import exercise

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(__file__).parent / "wrong_answers"


@dataclass(frozen=True)
class Bank:
    """The answers to one exercise."""

    wrong: dict[str, list[tuple[str, str]]]
    right: dict[str, list[str]]
    equivalent: dict[str, dict[str, str]]


def changed(source: str, *pieces: str) -> str:
    """An answer with some of its pieces replaced: an old one, its new one, and so on.

    >>> changed("x.sum(0)", "sum", "mean", "0", "1")
    'x.mean(1)'
    """
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {source}"
        source = source.replace(old, new)
    return source


def banks() -> list[str]:
    """The exercises that have a bank."""
    return sorted(path.stem for path in FOLDER.glob("[0-9]*.py"))


def bank(name: str) -> Bank:
    """The bank of one exercise."""
    found = runpy.run_path(str(FOLDER / f"{name}.py"))
    return Bank(found["WRONG"], found["RIGHT"], found["EQUIVALENT"])


def solutions() -> list[str]:
    """The exercises that have a solutions notebook."""
    return sorted(path.stem for path in (ROOT / "solutions").glob("*/*.ipynb"))


def solution_cells(name: str) -> list[Any]:
    """The cells of a solutions notebook."""
    path = ROOT / "solutions" / name / f"{name}.ipynb"
    return list(nbformat.read(path, as_version=4).cells)


def solved(name: str) -> dict[str, str]:
    """The source of each task's answer cell in the solutions notebook."""
    ids = {c.metadata.get("nbgrader", {}).get("grade_id"): c.source for c in solution_cells(name)}
    return {task: ids[f"{task}_answer"] for task in exercise(name)}


def answered(task: str, source: str, hidden: Path) -> list[dict[str, Any]]:
    """The outputs of a check cell under an answer, asked for the inputs of a file."""
    shown: list[dict[str, Any]] = []
    with (
        patch.dict(os.environ, {checking.HIDDEN: str(hidden)}),
        patch.object(checking, "show", shown.append),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        checking.check(task, run(source)[task])
    data = json.loads(json.dumps(shown, allow_nan=False))
    return [{"output_type": "display_data", "data": {checking.MIME: one}} for one in data]


def write_hidden(name: str, seed: str, folder: Path) -> Path:
    """The file that ATTNLIB_HIDDEN names, as the sandbox makes it."""
    path = folder / f"{name}-{seed}.json"
    path.write_text(hidden_file(name, seed), encoding="utf-8")
    return path
