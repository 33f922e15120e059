"""Grades one submission: `grade_one(name, student, how) -> report`, or step by step.

What was handed in and answered is read and judged in children (`grading.preprocess.worked`), and
the student's code runs in a sandbox, here or elsewhere: `step` returns what is to be run, as the
bytes of a job, and goes on when it is called with what the job has told. This process, the desk,
takes from a child a report of a fixed form with every text cut to a length, and a notebook that it
only stores. It alone writes: the notebook, the grades, and last, in one piece, `report.json`. What
has a report of the same submission under the same seed is left alone; so nothing is graded twice.

Whatever a submission does, it costs that submission only. What stops a child is `Trouble`, what
stops a sandbox a `Doubt`; who calls tries again, or gives up with a report that says so. A fault of
the machine (a full disk, a broken gradebook) is a `MachineFault`: it leaves no report, and stops
the run until somebody has mended it.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from grading import child, sandbox
from grading.build import EXERCISE_FOLDER
from grading.child import Trouble
from grading.faults import MACHINES, MachineFault, patiently, sentence
from grading.judge import cases, seed_in_use
from grading.preprocess import GRADED, MANUAL, Answers, key, released, worked
from grading.restore import grade_id
from grading.settings import Places, find_alembic, timestamp
from grading.tables import visible, written
from grading.watch import Doubt, Limits

Report = dict[str, Any]
STATUSES = (GRADED, MANUAL, "crashed", "timed out", "not submitted")
LONGEST, LINES = 500, 60  # characters of a text in a report, and notes
HEAD = 1 << 20  # bytes of a report as a child gives it
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
        the report: exercise, student, submission (SHA-256, None if there is none, or none that
        could be processed), seed (a fingerprint), status ("graded", "needs manual grading",
        "crashed", "timed out", "not submitted"), reason, seconds, notes, and for each task points,
        max, status, reason.

    Raises:
        MachineFault: the machine cannot grade; nothing is said about this submission.
        SandboxError: it has no sandbox.
    """
    answers: dict[str, bytes] = {}
    try:
        while isinstance(found := step(name, student, how, answers), bytes):
            answers = {key(found): sandbox.execute(found)}
    except (Trouble, Doubt) as error:
        return give_up(name, student, how, str(error))
    return found


def step(name: str, student: str, how: How, answers: Answers) -> Report | bytes:
    """Go on with one submission until there is a report, or something is to be run.

    Args:
        name, student, how: as in `grade_one`.
        answers: what `sandbox.execute` has returned, by the digest of its job; none at first.

    Raises:
        Trouble: what was handed in, or what it answered, cannot be processed.
        MachineFault: as in `grade_one`.
    """
    try:
        return advance(name, student, how, answers)
    except MACHINES as error:
        raise MachineFault(sentence(error, how.places.home)) from error


def advance(name: str, student: str, how: How, answers: Answers) -> Report | bytes:
    """What `step` does; a fault of the machine comes as it is."""
    path = handed_in(name, student, how.places)
    digest = fingerprint(path)
    there = read_report(report_path(name, student, how.places))
    known = (digest, shortened(how.seed))
    if there and not how.force and (there["submission"], there["seed"]) == known:
        return there
    if digest is None:
        absent = {"status": "not submitted", "reason": "nothing was handed in"}
        return conclude(name, student, how, None, absent)
    found, rest = in_child(name, path, how, answers)
    return rest if "job" in found else conclude(name, student, how, digest, found, rest)


def rehearse(name: str, how: How, answers: Answers) -> bytes:
    """A step with the exercise as it was handed out, of which nothing is kept; a job, or nothing.

    What stops this, too, is no submission's fault.
    """
    found, rest = in_child(name, EXERCISE_FOLDER / name / f"{name}.ipynb", how, answers)
    return rest if "job" in found else b""


def in_child(name: str, path: Path, how: How, answers: Answers) -> tuple[Any, bytes]:
    """What a child has made of a submission: a line of JSON, and the bytes after it."""
    cases(name, how.seed), sandbox.version()  # which all children find there
    told = child.run(worked, name, path, how.seed, how.limits, how.unsafe, answers)
    line, _, rest = told.partition(b"\n")
    if len(line) > HEAD:
        raise Trouble(f"its report has {len(line):,} characters")
    return json.loads(line), rest


def give_up(name: str, student: str, how: How, why: str) -> Report:
    """The report of a submission that could not be processed; the next run tries again."""
    told = f"could not be processed, a person has to look at it: {why}"
    return conclude(name, student, how, None, {"status": MANUAL, "reason": told})


def conclude(
    name: str, student: str, how: How, digest: str | None, found: Report, notebook: bytes = b""
) -> Report:
    """Write what was found: the notebook, the grades, and the report."""
    about = {
        "exercise": name,
        "student": student,
        "submission": digest,
        "seed": shortened(how.seed),
    }
    report = about | bounded(found, points(name))
    path = report_path(name, student, how.places)
    if notebook:
        written(path.with_name(f"{name}.ipynb"), notebook)
    else:
        path.with_name(f"{name}.ipynb").unlink(missing_ok=True)
    if report["status"] != "not submitted":
        blank = found.get("blank", [])
        patiently(lambda: enter(name, student, how, report, blank), how.patience)
    written(path, json.dumps(report, indent=1, ensure_ascii=False))
    return report


def bounded(found: Report, most: dict[str, float]) -> Report:
    """A report of the fixed form, whatever was found: known tasks and statuses, texts of a length.

    >>> bounded({"status": "crashed", "reason": "x" * 999}, {"attend": 3.0})["tasks"]["attend"]
    ... # doctest: +ELLIPSIS
    {'points': 0.0, 'max': 3.0, 'status': 'crashed', 'reason': 'xxx...'}
    """
    tasks = found.get("tasks") or dict.fromkeys(most, found | {"points": 0.0})
    lines = {
        task: {
            "points": min(max(0.0, float(tasks[task]["points"])), top),
            "max": top,
            "status": STATUSES[STATUSES.index(tasks[task]["status"])],
            "reason": visible(tasks[task]["reason"])[:LONGEST],
        }
        for task, top in most.items()
    }
    status = found["status"]
    if status == "finished":
        waits = any(line["status"] == MANUAL for line in lines.values())
        status = MANUAL if waits else GRADED
    return {
        "status": STATUSES[STATUSES.index(status)],
        "reason": visible(found["reason"])[:LONGEST],
        "seconds": float(found.get("seconds", 0.0)),
        "notes": [visible(note)[:LONGEST] for note in found.get("notes", [])[:LINES]],
        "tasks": lines,
    }


def handed_in(name: str, student: str, places: Places) -> Path:
    """Where a student's notebook for an exercise lies, if there is one."""
    return places.submitted / student / name / f"{name}.ipynb"


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


def points(name: str) -> dict[str, float]:
    """The points of each task of an exercise, those that a person gives too."""
    cells = [cell for cell in released(name).cells if grade_id(cell)]
    return {
        str(grade_id(cell)): float(cell.metadata.nbgrader["points"])
        for cell in cells
        if cell.metadata.nbgrader.get("grade")
    }


def enter(name: str, student: str, how: How, report: Report, blank: list[str]) -> None:
    """Write a report's grades into the gradebook, as nbgrader's own steps would.

    Raises:
        MachineFault: the gradebook does not know the exercise as it is.
    """
    find_alembic()
    address, at = how.places.gradebook, timestamp(handed_in(name, student, how.places))
    if address.startswith("sqlite:") and "?" not in address:
        address = f"{address}?timeout={how.patience / 4:g}"
    with Gradebook(address, "attention") as gradebook:
        gradebook.update_or_create_student(student)
        when = {"timestamp": at.replace(tzinfo=None)} if at else {}
        try:
            gradebook.update_or_create_submission(name, student, **when)
            notebook = gradebook.find_submission_notebook(name, name, student)
            lines = [(grade, report["tasks"][grade.name]) for grade in notebook.grades]
        except (MissingEntry, KeyError):
            told = f"the gradebook does not know {name} as it is; run make release NAME={name}"
            raise MachineFault(told) from None
        for grade, line in lines:
            waits = line["status"] == MANUAL
            grade.auto_score = None if waits else line["points"]
            grade.needs_manual_grade = waits or grade.manual_score is not None
        for comment in notebook.comments:
            comment.auto_comment = "No response." if comment.name in blank else None
        gradebook.db.commit()
