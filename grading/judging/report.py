"""What grading found out about one submission, and where it is kept."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grading.settings import Places
from grading.tables import written

GRADED, PERSON = "graded", "needs a person"
CRASHED, TIMED_OUT, ABSENT = "crashed", "timed out", "not submitted"
STATUSES = (GRADED, PERSON, CRASHED, TIMED_OUT, ABSENT)
UNREAD = "a text that nobody has read yet"  # the reason of a task that a person grades


@dataclass(frozen=True)
class Line:
    """What became of one task.

    Attributes:
        points, most: what was earned, and what could be.
        status: one of STATUSES.
        reason: one sentence; empty if the task is right.
    """

    points: float
    most: float
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """What became of one submission.

    Attributes:
        status, reason: of the whole.
        tasks: a line for each task, in the order of the notebook.
        notes: what was repaired, a sentence each.
        seconds: the wall time that it ran.
        blank: the cells of the exercise in which nothing was written.
        exercise, student: whose it is.
        submission: the SHA-256 of the file; None if it could not be processed.
        seed: a fingerprint of the seed of the hidden inputs.
        before: points that people gave to an earlier hand-in, by task; they are to be asked about.
    """

    status: str
    reason: str
    tasks: dict[str, Line]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    blank: tuple[str, ...] = ()
    exercise: str = ""
    student: str = ""
    submission: str | None = None
    seed: str = ""
    before: dict[str, float] = field(default_factory=dict)

    @property
    def points(self) -> float:
        return sum(line.points for line in self.tasks.values())


def report_path(exercise: str, student: str, places: Places) -> Path:
    """Where the report of a submission lies."""
    return places.autograded / student / exercise / "report.json"


def write_report(report: Report, places: Places) -> Path:
    """Keep a report, in one piece."""
    text = json.dumps(asdict(report), indent=1, ensure_ascii=False)
    return written(report_path(report.exercise, report.student, places), text)


def read_report(exercise: str, student: str, places: Places) -> Report | None:
    """The report of a submission, or None if there is none that can be read."""
    try:
        told = json.loads(report_path(exercise, student, places).read_text(encoding="utf-8"))
        lines = {task: Line(**line) for task, line in told.pop("tasks").items()}
        notes, blank = tuple(told.pop("notes")), tuple(told.pop("blank"))
        return Report(tasks=lines, notes=notes, blank=blank, **told)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
