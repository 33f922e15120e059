"""Grades one submission: `grade_one(name, student, how) -> report`.

It takes the submission through nbgrader's autograding, in this process, with the steps of
`grading.preprocess`; the student's code itself runs in a sandbox. Whatever a submission does, it
costs that submission only, and ends in a report with a reason: `report.json`, written last and in
one piece beside the autograded notebook. What has a report of the same submission under the same
seed is left alone; so nothing is graded twice, and what was interrupted is graded from its
beginning.

What it does not do: it decides no marks (that is `grading.judge`), and reads nothing that a
student handed in but the one notebook.
"""

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import OperationalError
from traitlets.config import Config

from grading.build import nbgrader_log
from grading.judge import seed_in_use
from grading.preprocess import AUTOGRADE, GRADED, MANUAL, SANITIZE, released
from grading.restore import grade_id
from grading.sandbox import SandboxError
from grading.settings import Places, configuration
from grading.watch import Limits

Report = dict[str, Any]
LARGEST = 20 << 20  # bytes of a notebook
TRIES = 5  # of a gradebook that another process is writing to


@dataclass(frozen=True)
class How:
    """How a class is graded; the same for all its submissions.

    Attributes:
        places: where the class is kept.
        seed: of the hidden inputs.
        limits: what a submission may use.
        force: grade again what has a report already.
        unsafe: without a sandbox.
    """

    places: Places = field(default_factory=Places)
    seed: str = field(default_factory=seed_in_use)
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    unsafe: bool = False


def grade_one(name: str, student: str, how: How) -> Report:
    """Grade one submission, or find its report.

    Args:
        name: the exercise.
        student: the folder's name in `submitted`.
        how: places, seed, limits.

    Returns:
        the report: exercise, student, submission (SHA-256, None if there is none), seed (a
        fingerprint), status ("graded", "needs manual grading", "crashed", "timed out",
        "not submitted"), reason, seconds, notes, and for each task points, max, status, reason.

    Raises:
        SandboxError: the machine cannot run submissions; nothing is said about this one.
    """
    path = how.places.submitted / student / name / f"{name}.ipynb"
    digest = fingerprint(path)
    there = read_report(report_path(name, student, how.places))
    known = (digest, shortened(how.seed))
    if there and not how.force and (there["submission"], there["seed"]) == known:
        return there
    if digest is None:
        return give_up(name, student, how, "not submitted", "nothing was handed in")
    if complaint := unreadable(path):
        return give_up(name, student, how, "crashed", complaint, digest)
    try:
        found = patiently(lambda: convert(name, student, how))
    except NbGraderException as error:
        told = f"nbgrader cannot grade it: {error}"
        return give_up(name, student, how, "crashed", told, digest)
    return conclude(name, student, how, digest, found)


def give_up(
    name: str, student: str, how: How, status: str, reason: str, digest: str | None = None
) -> Report:
    """The report of a submission that cannot be graded, and its zeros in the gradebook.

    Without a `digest` the next run tries again.
    """
    tasks = {
        task: {"points": 0.0, "max": most, "status": status, "reason": reason}
        for task, most in points(name).items()
    }
    if status != "not submitted":
        patiently(lambda: enter_zeros(name, student, how.places))
    found = {"status": status, "reason": reason, "seconds": 0.0, "notes": [], "tasks": tasks}
    return conclude(name, student, how, digest, found)


def conclude(name: str, student: str, how: How, digest: str | None, found: Report) -> Report:
    """Write the report in one piece."""
    about = {
        "exercise": name,
        "student": student,
        "submission": digest,
        "seed": shortened(how.seed),
    }
    report = about | found
    path = report_path(name, student, how.places)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    part.replace(path)
    return report


def report_path(name: str, student: str, places: Places) -> Path:
    """Where the report of a submission lies."""
    return places.autograded / student / name / "report.json"


def read_report(path: Path) -> Report | None:
    """A report, or None if there is none that can be read."""
    try:
        report: Report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return report


def fingerprint(path: Path) -> str | None:
    """The SHA-256 of a file, or None if there is none."""
    if not path.exists() and not path.is_symlink():
        return None
    if path.is_symlink() or not path.is_file():
        return "no file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shortened(seed: str) -> str:
    """A sign by which a seed is known again; the seed itself stays with the instructor."""
    return hashlib.sha256(f"report:{seed}".encode()).hexdigest()[:8]


def unreadable(path: Path) -> str | None:
    """Why a file is no notebook, in one line, or None if it is one."""
    if path.is_symlink() or not path.is_file():
        return "not a notebook: not a plain file"
    if (size := path.stat().st_size) > LARGEST:
        return f"not a notebook: {size:,} bytes, at most {LARGEST:,} are taken"
    read: Any = nbformat.reads
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old notebook, cells without ids: all restored
            notebook = read(path.read_text(encoding="utf-8"), as_version=4)
            nbformat.validate(notebook)
        json.dumps(notebook)
    except Exception as error:  # whatever a stranger's file makes of a parser
        told = str(error).strip().split("\n")[0][:200] or type(error).__name__
        return f"not a notebook: {told}" if size else "not a notebook: the file is empty"
    return None


def convert(name: str, student: str, how: How) -> Report:
    """Take one submission through nbgrader, and return what `grading.preprocess` found."""
    directory = CourseDirectory(config=settings(name, student, how))
    converter = Autograde(coursedir=directory, config=directory.config, force=True)
    with nbgrader_log() as log:
        try:
            converter.start()
        except NbGraderException as error:
            if isinstance(error.__context__, OperationalError):
                raise error.__context__ from None
            if "SandboxError" in log.getvalue():
                raise SandboxError(last_line(log.getvalue(), "SandboxError")) from None
            told = last_line(log.getvalue(), "Error") or str(error)[:300]
            raise NbGraderException(told) from None
    done = how.places.autograded / student / name / f"{name}.ipynb"
    found: Report = json.loads(done.read_text(encoding="utf-8"))["metadata"]["attnlib"]
    found["tasks"] = {task: found["tasks"][task] for task in points(name)}
    waiting = any(task["status"] == MANUAL for task in found["tasks"].values())
    if found["status"] == "finished":
        found["status"] = MANUAL if waiting else GRADED
    return found


def settings(name: str, student: str, how: How) -> Config:
    """nbgrader's configuration for one submission."""
    config = configuration(how.places)
    if how.places.gradebook.startswith("sqlite:") and "?" not in how.places.gradebook:
        config.CourseDirectory.db_url = f"{how.places.gradebook}?timeout=60"
    config.CourseDirectory.assignment_id = name
    config.CourseDirectory.student_id = escaped(student)
    config.CourseDirectory.notebook_id = name
    config.CourseDirectory.ignore = ["*"]  # other files that were handed in stay where they are
    config.Autograde.sanitize_preprocessors = SANITIZE
    config.Autograde.autograde_preprocessors = AUTOGRADE
    config.OverwriteCells.add_missing_cells = True
    config.Grade.seed, config.Grade.limits, config.Grade.unsafe = how.seed, how.limits, how.unsafe
    return config


def escaped(student: str) -> str:
    """A student's name for nbgrader, which takes it for a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in student)


def last_line(log: str, word: str) -> str:
    """The last line of a log in which a word stands, shortened, or nothing."""
    lines = [line for line in log.splitlines() if word in line and not line.startswith(" ")]
    return lines[-1][:300] if lines else ""


def patiently(work: Callable[[], Any]) -> Any:
    """Do some work with the gradebook; again, if somebody else had locked it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's own, about its way with SQLAlchemy
        for _ in range(TRIES - 1):
            with contextlib.suppress(OperationalError):
                return work()
        return work()


def points(name: str) -> dict[str, float]:
    """The points of each task of an exercise, those that a person gives too."""
    cells = [cell for cell in released(name).cells if grade_id(cell)]
    return {
        str(grade_id(cell)): float(cell.metadata.nbgrader["points"])
        for cell in cells
        if cell.metadata.nbgrader.get("grade")
    }


def enter_zeros(name: str, student: str, places: Places) -> None:
    """Note in the gradebook that a submission earned nothing."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(name, student)
        submission = gradebook.find_submission_notebook(name, name, student)
        for grade in submission.grades:
            grade.auto_score, grade.needs_manual_grade = 0.0, False
        gradebook.db.commit()
