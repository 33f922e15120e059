"""Grades one submission: `grade_one(name, student, how) -> report`, or step by step.

It takes the submission through nbgrader's autograding, in this process, with the steps of
`grading.preprocess`; the student's code itself runs in a sandbox, here or elsewhere: `step` returns
what is to be run, as the bytes of a job, and goes on when it is called with what the job has told.
Whatever a submission does, it costs that submission only, and ends in a report with a reason:
`report.json`, written last and in one piece beside the autograded notebook. What has a report of
the same submission under the same seed is left alone; so nothing is graded twice, and what was
interrupted is graded from its beginning. A fault of the machine (no room on the disk, no memory, a
gradebook that is locked or broken, no sandbox) is no fault of a submission: it raises
`MachineFault`, leaves no report, and stops the run until somebody has mended it.

What it does not do: it decides no marks (that is `grading.judge`), and reads nothing that a
student handed in but the one notebook.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nbgrader import api
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grading import sandbox
from grading.build import nbgrader_log
from grading.faults import MACHINES, MachineFault, legible, patiently, sentence
from grading.judge import seed_in_use
from grading.preprocess import (
    AUTOGRADE,
    GRADED,
    MANUAL,
    SANITIZE,
    Answers,
    Wanted,
    job,
    key,
    read,
    released,
)
from grading.readable import unreadable
from grading.restore import grade_id
from grading.settings import Places, configuration
from grading.tables import written
from grading.watch import Limits

Report = dict[str, Any]
ENGINES = cache(api.create_engine)
PATIENCE = 60.0  # seconds with a gradebook that another process is writing to


@dataclass(frozen=True)
class How:
    """How a class is graded; the same for all its submissions.

    Attributes:
        places: where the class is kept.
        seed: of the hidden inputs.
        limits: what a submission may use.
        force: grade again what has a report already.
        unsafe: without a sandbox.
        patience: seconds to wait for a gradebook that another process is writing to.
    """

    places: Places = field(default_factory=Places)
    seed: str = field(default_factory=seed_in_use)
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    unsafe: bool = False
    patience: float = PATIENCE


def grade_one(name: str, student: str, how: How) -> Report:
    """Grade one submission in this process, or find its report.

    Args:
        name: the exercise.
        student: the folder's name in `submitted`.
        how: places, seed, limits.

    Returns:
        the report: exercise, student, submission (SHA-256, None if there is none), seed (a
        fingerprint), status ("graded", "needs manual grading", "crashed", "timed out",
        "not submitted"), reason, seconds, notes, and for each task points, max, status, reason.

    Raises:
        MachineFault: the machine cannot grade; nothing is said about this submission.
    """
    answers: dict[str, bytes] = {}
    while isinstance(found := step(name, student, how, answers), bytes):
        try:
            answers = {key(found): sandbox.execute(found)}
        except MACHINES as error:
            raise MachineFault(sentence(error, how.places.home)) from error
    return found


def step(name: str, student: str, how: How, answers: Answers) -> Report | bytes:
    """Go on with one submission until there is a report, or something is to be run.

    Args:
        name, student, how: as in `grade_one`.
        answers: what `sandbox.execute` has returned, by the digest of its job; none at first.

    Returns:
        the report, or a job for `sandbox.execute`.

    Raises:
        MachineFault: as in `grade_one`.
    """
    try:
        with same_engine():
            return advance(name, student, how, answers)
    except MACHINES as error:
        raise MachineFault(sentence(error, how.places.home)) from error


@contextmanager
def same_engine() -> Iterator[None]:
    """Within, nbgrader opens a gradebook with the engine that it opened it with before.

    It does so nine times a submission, and SQLAlchemy would each time begin anew with writing down
    nbgrader's questions in SQL: a fifth of the time of a submission at the desk.
    """
    api.create_engine = ENGINES
    try:
        yield
    finally:
        api.create_engine = ENGINES.__wrapped__


def advance(name: str, student: str, how: How, answers: Answers) -> Report | bytes:
    """What `step` does; a fault of the machine comes as it is."""
    path = how.places.submitted / student / name / f"{name}.ipynb"
    digest = fingerprint(path)
    there = read_report(report_path(name, student, how.places))
    known = (digest, shortened(how.seed))
    if there and not how.force and (there["submission"], there["seed"]) == known:
        return there
    if digest is None:
        return give_up(name, student, how, "not submitted", "nothing was handed in")
    if not answers:
        complaint = unreadable(path)
        if complaint:
            return give_up(name, student, how, "crashed", complaint, digest)
        return job(name, read(path), how.seed, how.limits, how.unsafe)
    try:
        found = patiently(lambda: convert(name, student, how, answers), how.patience)
    except Wanted as error:  # the gradebook knows other check cells, or it was handed in anew
        return error.job
    except NbGraderException as error:
        told = f"not graded, a person has to look at it: {error}"
        return give_up(name, student, how, MANUAL, told, digest)
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
        waits = status == MANUAL
        patiently(lambda: enter_zeros(name, student, how.places, waits), how.patience)
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
    report: Report = legible(about | found)
    written(
        report_path(name, student, how.places), json.dumps(report, indent=1, ensure_ascii=False)
    )
    return report


def report_path(name: str, student: str, places: Places) -> Path:
    """Where the report of a submission lies."""
    return places.autograded / student / name / "report.json"


def read_report(path: Path) -> Report | None:
    """A report, or None if there is none that can be read."""
    try:
        report: Report = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return report if isinstance(report, dict) and "tasks" in report else None


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


class Converter(Autograde):  # type: ignore[misc]
    """nbgrader's, and what went wrong is told as it was, not in a log."""

    trouble: BaseException | None = None

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Convert a notebook; nbgrader turns every exception into one of its own."""
        try:
            super().convert_single_notebook(notebook_filename)
        except Exception as error:
            self.trouble = error
            raise


def convert(name: str, student: str, how: How, answers: Answers) -> Report:
    """Take one submission through nbgrader, and return what `grading.preprocess` found.

    Raises:
        Wanted: there is no answer to the job that this submission is.
        NbGraderException: this submission cannot be graded; the text says why.
        OSError, MemoryError, SandboxError, SQLAlchemyError: it is the machine's fault.
    """
    config = settings(name, student, how)
    config.Grade.answers = answers
    directory = CourseDirectory(config=config)
    converter = Converter(coursedir=directory, config=directory.config, force=True)
    with nbgrader_log() as log:
        try:
            converter.start()
        except NbGraderException as error:
            found = converter.trouble or error.__context__
            if isinstance(found, (Wanted, *MACHINES)):
                raise found from None
            told = f"{type(found).__name__}: {found}" if found else last_line(log.getvalue())
            raise NbGraderException(told[:300] or str(error)[:300]) from None
    done = how.places.autograded / student / name / f"{name}.ipynb"
    found = json.loads(done.read_text(encoding="utf-8"))["metadata"]["attnlib"]
    found["tasks"] = {task: found["tasks"][task] for task in points(name)}
    waiting = any(task["status"] == MANUAL for task in found["tasks"].values())
    if found["status"] == "finished":
        found["status"] = MANUAL if waiting else GRADED
    report: Report = found
    return report


def settings(name: str, student: str, how: How) -> Config:
    """nbgrader's configuration for one submission."""
    config = configuration(how.places)
    if how.places.gradebook.startswith("sqlite:") and "?" not in how.places.gradebook:
        config.CourseDirectory.db_url = f"{how.places.gradebook}?timeout={how.patience / 4:g}"
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


def last_line(log: str) -> str:
    """The last line of a log that names an error, or nothing."""
    lines = [line for line in log.splitlines() if "Error" in line and not line.startswith(" ")]
    return lines[-1] if lines else ""


def points(name: str) -> dict[str, float]:
    """The points of each task of an exercise, those that a person gives too."""
    cells = [cell for cell in released(name).cells if grade_id(cell)]
    return {
        str(grade_id(cell)): float(cell.metadata.nbgrader["points"])
        for cell in cells
        if cell.metadata.nbgrader.get("grade")
    }


def enter_zeros(name: str, student: str, places: Places, waits: bool) -> None:
    """Note in the gradebook that a submission earned nothing, or that it waits for a person."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(name, student)
        submission = gradebook.find_submission_notebook(name, name, student)
        for grade in submission.grades:
            grade.auto_score, grade.needs_manual_grade = 0.0, waits
        gradebook.db.commit()
