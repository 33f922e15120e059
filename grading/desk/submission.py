"""Grades one submission: `grade(work) -> Graded`, the same on this machine and in a cluster.

A `Work` holds all that is needed: the bytes that were handed in, and the seed of the hidden inputs.
Three steps follow one another: `prepare` puts the notebook back into its released form, `execute`
runs it in a sandbox, `judge` compares what it answered. The first and the last read a stranger's
bytes, and so they run in a child with limits (`grading.child`). Nothing here knows where a class is
kept: whoever asked for the work writes what came of it (`grading.desk.records`).
"""

import hashlib
import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import nbformat
from nbformat import NotebookNode

from grading import child
from grading.intake.restore import Restored, prepare
from grading.judging.judge import judge
from grading.judging.report import PERSON, Line, Report
from grading.release.build import EXERCISE_FOLDER, points, released
from grading.sandbox.run import Job, Told, execute
from grading.sandbox.watch import Limits, SandboxError
from grading.settings import ROOT
from grading.tasks import exercise
from grading.tasks.hidden import cases, hidden_file

COURSE_FILES = ("grading/**/*.py", "grading/**/*.toml", "attnlib/check/*", "solutions/*/*.ipynb")
LARGEST_REPORT = 64 << 20  # bytes of a report with its notebook
UNPROCESSED = "could not be processed"  # how the reason begins of what is tried again next time


@cache
def version() -> str:
    """What is to be the same wherever submissions are graded: grader, check and solutions."""
    files = sorted({path for pattern in COURSE_FILES for path in ROOT.glob(pattern)})
    return hashlib.sha256(
        b"".join(path.read_bytes() for path in files if path.is_file())
    ).hexdigest()


@dataclass(frozen=True)
class Work:
    """A submission to be graded.

    Attributes:
        exercise, student: what it answers, and whose it is.
        content: the bytes of the file.
        seed: of the hidden inputs.
        limits: what it may use.
        unsafe: whether it runs without a sandbox.
        course: the version of the clone that asks; the clone that grades has to have the same.
    """

    exercise: str
    student: str
    content: bytes
    seed: str
    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False
    course: str = field(default_factory=version)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Graded:
    """What came of a work: the report, and the graded notebook as JSON, empty if there is none."""

    report: Report
    notebook: bytes = b""


def grade(work: Work) -> Graded:
    """Grade a submission.

    Raises:
        Trouble: its file, or what it answered, cannot be processed.
        Doubt: its sandbox failed, for whatever reason.
        SandboxError: this machine has no sandbox, or another version of the course.
    """
    if work.course != version():
        host = socket.gethostname()
        raise SandboxError(f"on {host}: the course's clone is not of the version that asks")
    released(work.exercise), cases(work.exercise, work.seed)  # which all children find in memory
    restored = restored_by_a_child(work)
    if isinstance(restored, str):
        return Graded(waiting(work, restored))
    told = execute(job(work, restored))
    return judged_by_a_child(work, restored, told)


def job(work: Work, restored: Restored) -> Job:
    """What a sandbox is given: code cells, hidden inputs without answers, and the visible cases."""
    code = enumerate(restored.notebook.cells)
    visible = EXERCISE_FOLDER / work.exercise / "checks.json"
    return Job(
        cells=tuple((index, cell.source) for index, cell in code if cell.cell_type == "code"),
        hidden=hidden_file(work.exercise, work.seed),
        folder=work.exercise,
        files={visible.name: visible.read_text(encoding="utf-8")},
        limits=work.limits,
        unsafe=work.unsafe,
    )


def waiting(work: Work, reason: str) -> Report:
    """The report of a submission that a person has to look at as a whole."""
    tasks = {task: Line(0.0, most, PERSON, reason) for task, most in points(work.exercise).items()}
    return about(work, Report(PERSON, reason, tasks))


def about(work: Work, report: Report) -> Report:
    """A report that says whose it is, and under which seed it was made."""
    return replace(
        report,
        exercise=work.exercise,
        student=work.student,
        submission=work.digest,
        seed=fingerprint(work.seed),
    )


def fingerprint(seed: str) -> str:
    """A sign by which a seed is known again; the seed itself stays with the instructor."""
    return hashlib.sha256(f"report:{seed}".encode()).hexdigest()[:8]


# in children


def restored_by_a_child(work: Work) -> Restored | str:
    """The submission in its released form, or why it is no notebook."""
    answer = json.loads(child.run(_restored, work.content, work.exercise))
    if "unreadable" in answer:
        return str(answer["unreadable"])
    notebook: NotebookNode = nbformat.from_dict(answer["notebook"])  # type: ignore[no-untyped-call]
    return Restored(notebook, tuple(answer["notes"]), answer["answers"], answer["doubts"])


def _restored(content: bytes, name: str) -> bytes:
    try:
        restored = prepare(content, released(name), list(exercise(name)))
    except ValueError as error:
        return json.dumps({"unreadable": " ".join(str(error).split())[:200]}).encode()
    return json.dumps(
        {
            "notebook": restored.notebook,
            "notes": restored.notes,
            "answers": dict(restored.answers),
            "doubts": dict(restored.doubts),
        }
    ).encode()


def judged_by_a_child(work: Work, restored: Restored, told: Told) -> Graded:
    """The report and the graded notebook."""
    text = child.run(_judged, work.exercise, restored, told, work.seed, most=LARGEST_REPORT)
    head, _, notebook = text.partition(b"\n")
    answer: Mapping[str, Any] = json.loads(head)
    tasks = {task: Line(**line) for task, line in answer["tasks"].items()}
    lists = {"notes": tuple(answer["notes"]), "blank": tuple(answer["blank"])}
    return Graded(about(work, Report(**{**answer, "tasks": tasks, **lists})), notebook)


def _judged(name: str, restored: Restored, told: Told, seed: str) -> bytes:
    report, notebook = judge(name, restored, told, seed)
    graded = json.dumps(notebook, indent=1, ensure_ascii=False).encode(errors="replace")
    return json.dumps(asdict(report)).encode() + b"\n" + graded
