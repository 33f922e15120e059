"""The answers of `grading.answers`, run as the check cells of a submission."""

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from cells import run

from attnlib import check as checking
from grading.answers import FOLDER
from grading.judge import hidden_file
from grading.tasks import exercise

ROOT = Path(__file__).parent.parent.parent


def banks() -> list[str]:
    """The exercises that have answers."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


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
