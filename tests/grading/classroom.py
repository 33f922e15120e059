"""A class in a temporary folder: an exercise released, and submissions laid out to be graded."""

import atexit
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from grading.release import build
from grading.sandbox.run import unusable
from grading.settings import ROOT, Places

# on the test machine of the project a missing sandbox fails
REQUIRED = os.environ.get("ATTNLIB_SANDBOX") == "required"
WITHOUT = unusable()  # why there is none here, or None
needs_sandbox = pytest.mark.skipif(
    not REQUIRED and WITHOUT is not None, reason=f"no sandbox: {WITHOUT}"
)


def released_class(name: str, home: Path) -> Places:
    """A class whose gradebook knows an exercise, kept in an empty folder."""
    places = Places(home, home / "dist")
    home.mkdir(parents=True, exist_ok=True)
    if os.environ.get("ATTNLIB_GRADEBOOK"):
        build.generate(name, home / "released", places)
    else:
        shutil.copytree(_fresh_class(name), home, dirs_exist_ok=True)
    return places


@functools.cache
def _fresh_class(name: str) -> Path:
    """A class such as all begin, made once in a process."""
    home = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, home)
    build.generate(name, home / "released", Places(home, home / "dist"))
    return home


@functools.cache
def notebook(folder: str, name: str) -> NotebookNode:
    """A notebook of the course; not to be changed."""
    return nbformat.read(ROOT / folder / name / f"{name}.ipynb", as_version=4)


def released(name: str) -> NotebookNode:
    """The exercise as students get it."""
    return nbformat.from_dict(notebook("exercises", name))


def answered(name: str, answers: Mapping[str, str]) -> NotebookNode:
    """The released notebook with the sources of some cells, by grade_id."""
    made = released(name)
    for cell in made.cells:
        cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    return made


def solved(name: str) -> NotebookNode:
    """What the best student hands in: the solutions."""
    return nbformat.from_dict(notebook("solutions", name))


def hand_in(places: Places, name: str, student: str, work: Any) -> Path:
    """Lay a submission where `collect` would: a notebook, the bytes of a file, or None."""
    path = places.submitted / student / name / f"{name}.ipynb"
    path.parent.mkdir(parents=True)
    if isinstance(work, bytes):
        path.write_bytes(work)
    elif work is not None:
        path.write_text(json.dumps(work))  # as it is, valid or not
    return path


def in_gradebook(places: Places, name: str) -> dict[tuple[str, str], tuple[float, bool]]:
    """By student and task: the points, and whether a person has to look."""
    from nbgrader.api import Gradebook

    with Gradebook(places.gradebook, "attention") as gradebook:
        return {
            (sent.student.id, grade.name): (grade.score, grade.needs_manual_grade)
            for sent in gradebook.assignment_submissions(name)
            for grade in sent.notebooks[0].grades
        }


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def soon(what: Callable[[], Any], seconds: float = 60) -> bool:
    """Whether something becomes true within some time."""
    deadline = time.monotonic() + seconds
    while not (true := what()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(true)
