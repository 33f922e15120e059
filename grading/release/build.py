"""From solutions/ to what students get: the exercises, their visible cases, and archives.

solutions/ and grading/tasks/ are the only sources; exercises/ is generated, and never edited.
"""

import contextlib
import io
import json
import logging
import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attnlib.check.protocol import from_json, to_json
from grading.settings import ROOT, Places, configuration
from grading.tasks import EXERCISES, exercise
from grading.tasks.hidden import case, copied
from grading.tasks.task import Task
from tools.course_files import course_files

EXERCISE_FOLDER = ROOT / "exercises"
# what a student's copy does not hold
INSTRUCTORS = (
    "solutions/",
    "grading/",
    "tests/grading/",
    "tests/hub/",
    "tests/benchmarks/bench_grading.py",
    "nbgrader_config.py",
)


class BuildError(RuntimeError):
    """Something that the instructor has to do; the message says what."""


def names() -> list[str]:
    """The exercises whose solutions and tasks exist, in order."""
    return [n for n in EXERCISES if (ROOT / "solutions" / n / f"{n}.ipynb").exists()]


def known(name: str) -> str:
    """The name of an exercise, or an error that tells which there are.

    Raises:
        BuildError: if there is no such exercise.
    """
    if name not in names():
        there = ", ".join(names()) or "none"
        raise BuildError(f"no exercise is called {name!r}; there are: {there}")
    return name


def released(name: str) -> NotebookNode:
    """The exercise as the students got it."""
    path = EXERCISE_FOLDER / name / f"{name}.ipynb"
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


@cache
def points(name: str) -> dict[str, float]:
    """The points of each task of an exercise, in the order of the notebook, by hand or not."""
    about = (cell.metadata.get("nbgrader", {}) for cell in released(name).cells)
    return {cell["grade_id"]: float(cell["points"]) for cell in about if cell.get("grade")}


# the visible cases


def rounded(data: Any, digits: int = 6) -> Any:
    """Encoded data with six digits of its floats, so that another processor gives the same.

    Of double precision 15 digits stay.
    """
    if isinstance(data, float):
        return float(f"{data:.{digits}g}")
    if isinstance(data, list):
        return [rounded(item, digits) for item in data]
    if isinstance(data, dict):
        digits = 15 if data.get("dtype") == "float64" else digits
        return {key: rounded(item, digits) for key, item in data.items()}
    return data


def visible_cases(task: Task) -> list[dict[str, Any]]:
    """The visible cases of a task: arguments, what is right, what each mistake would give."""
    entries = []
    for args in task.visible:
        # what is right belongs to the rounded arguments: those are what the student gets
        told = rounded(to_json(copied(args)))
        known = case(task, from_json(told))
        entry: dict[str, Any] = {"args": told}
        if task.accepts is None:
            entry["expected"] = rounded(to_json(known.expected))
            entry["mistakes"] = {s: rounded(to_json(v)) for s, v in known.mistakes.items()}
        entries.append(entry)
    return entries


def checks(name: str) -> str:
    """The text of an exercise's checks.json: a case on a line."""
    lines = []
    for task in exercise(name).values():
        head: dict[str, Any] = {"tolerance": task.tolerance}
        head |= {"free": True} if task.accepts else {}
        head |= {"forbidden": task.forbidden} if task.forbidden else {}
        cases = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in visible_cases(task))
        lines.append(f'{json.dumps(task.name)}: {json.dumps(head)[:-1]}, "cases": [\n{cases}\n]}}')
    inside = ",\n".join(lines)
    return f'{{"exercise": {json.dumps(name)}, "tasks": {{\n{inside}\n}}}}\n'


def agree(left: Any, right: Any) -> bool:
    """Whether two pieces of JSON are the same but for rounding."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-6)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(agree(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(agree, left, right))
    return bool(left == right)


def write_checks(name: str, folder: Path) -> bool:
    """Write checks.json into a folder, unless what is there differs by rounding alone."""
    path, text = folder / "checks.json", checks(name)
    if path.exists():
        try:
            if agree(json.loads(path.read_text(encoding="utf-8")), json.loads(text)):
                return False
        except ValueError:
            pass
    path.write_text(text, encoding="utf-8")
    return True


def after_generating(assignment: str, student: str, notebooks: list[str]) -> None:
    """What nbgrader calls when its own button has generated an exercise."""
    write_checks(assignment, EXERCISE_FOLDER / assignment)


# the notebooks


@contextlib.contextmanager
def nbgrader_log() -> Iterator[io.StringIO]:
    """Keep what nbgrader logs from the terminal, to be shown if it fails."""
    from traitlets import log as traitlets_log

    log: Any = traitlets_log.get_logger()
    text = io.StringIO()
    handler, before, passes = logging.StreamHandler(text), log.handlers, log.propagate
    handler.setLevel(logging.WARNING)
    log.handlers, log.propagate = [handler], False
    try:
        yield text
    finally:
        log.handlers, log.propagate = before, passes


def generate(name: str, into: Path, places: Places | None = None) -> None:
    """Make the student's notebook of an exercise.

    Args:
        name: the exercise.
        into: the folder in which the exercise's folder is made.
        places: the class in whose gradebook the exercise is noted; None for no gradebook.

    Raises:
        BuildError: if nbgrader cannot make it.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    config = configuration(places or Places())
    config.CourseDirectory.release_directory = str(into.resolve())
    config.CourseDirectory.assignment_id = name
    config.GenerateAssignment.no_database = places is None
    config.SaveCells.enabled = places is not None
    del config.GenerateAssignment.post_convert_hook
    directory = CourseDirectory(config=config)
    converter = GenerateAssignment(coursedir=directory, config=config, force=True)
    with nbgrader_log() as log:
        try:
            converter.start()
        except NbGraderException:
            raise BuildError(f"nbgrader cannot make {name}:\n{log.getvalue()}") from None
    stray = [p for p in (into / name).iterdir() if p.suffix != ".ipynb"]
    for path in stray:  # whatever else lies in the solution's folder stays with the instructor
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def build(name: str, into: Path = EXERCISE_FOLDER, places: Places | None = None) -> list[str]:
    """Make an exercise: the notebook without its solutions, and the visible cases.

    Args:
        name: the exercise.
        into: where its folder goes; files that are the same already are left alone.
        places: as in `generate`.

    Returns:
        the names of the files that changed.
    """
    folder, changed = into / known(name), []
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        generate(name, Path(temporary), places)
        for path in sorted((Path(temporary) / name).glob("*.ipynb")):
            target = folder / path.name
            if not target.exists() or target.read_bytes() != path.read_bytes():
                shutil.copyfile(path, target)
                changed.append(path.name)
    return changed + (["checks.json"] if write_checks(name, folder) else [])


# archives


def archive(path: Path, files: Iterable[tuple[str, Path]]) -> Path:
    """Write a zip with the same bytes for the same files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, source in sorted(files):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if source.stat().st_mode & 0o100 else 0o644) << 16
            target.writestr(entry, source.read_bytes())
    return path


def for_students(name: str) -> bool:
    """Whether a file of the course belongs into a student's copy."""
    return not name.startswith(INSTRUCTORS)


def student_copy(dist: Path) -> Path:
    """Write the students' copy of the whole course: dist/attention-course.zip."""
    files = [(f"attention-course/{n}", ROOT / n) for n in course_files() if for_students(n)]
    return archive(dist / "attention-course.zip", files)


def release(name: str, due: datetime | None, places: Places) -> Path:
    """Bring an exercise up to date, note it in the gradebook, and write an archive to hand out.

    Args:
        name: the exercise.
        due: when it is due; a time without a zone is local time. None leaves a due date as it is.
        places: the class.

    Returns:
        the path of the archive.
    """
    from nbgrader.api import Gradebook

    build(name)
    places.make()
    with tempfile.TemporaryDirectory() as temporary:
        generate(name, Path(temporary), places)
    if due is not None:
        utc = due.astimezone(UTC).replace(tzinfo=None)  # as nbgrader keeps it
        with Gradebook(places.gradebook, "attention") as gradebook:
            gradebook.update_or_create_assignment(name, duedate=utc)
    folder = EXERCISE_FOLDER / name
    files = [(f"{name}/{file}", folder / file) for file in (f"{name}.ipynb", "checks.json")]
    return archive(places.dist / f"{name}.zip", files)
