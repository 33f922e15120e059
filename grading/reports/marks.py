"""The marks of a class, a row for each student and task.

A mark comes from the report that grading wrote. Points that a person gave in Formgrader win, and
extra credit adds to whichever score counts. Who is on the roster and handed in nothing has rows
too, so that nobody is lost between two files.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grading import tables
from grading.intake.due import DueDates, local, read_due_dates, released_exercises
from grading.intake.receipts import read_receipt
from grading.intake.roster import Student, read_roster
from grading.judging.report import ABSENT, GRADED, Line, Report, read_report
from grading.release.build import names, points
from grading.settings import Places, find_alembic

NOT_GRADED, NOT_DUE, UNCLEAR = "not graded yet", "not due yet", "unclear"
UNCLAIMED = ("not recognised", "doubtful", "refused")
ARCHIVES = (".zip", ".rar", ".7z", ".tar", ".gz")
FINAL = (GRADED, ABSENT)  # what a platform may be told; all else waits


@dataclass(frozen=True)
class Mark:
    """What a student has for one task.

    Attributes:
        student: the id.
        exercise, task: such as "04_self_attention" and "attend".
        points, most: what was earned so far, and what could be.
        status: one of a report's, or NOT_GRADED, NOT_DUE, or UNCLEAR.
        reason: one sentence; empty if the task is right.
    """

    student: str
    exercise: str
    task: str
    points: float
    most: float
    status: str
    reason: str = ""

    @property
    def final(self) -> bool:
        """Whether nothing waits for a person or for another run."""
        return self.status in FINAL


@dataclass(frozen=True)
class ByHand:
    """What a person entered for a task in Formgrader; None where nothing was entered."""

    score: float | None
    extra: float | None


def notebook_path(student: str, exercise: str, places: Places) -> Path:
    """Where a student's graded notebook lies, if there is one."""
    return places.autograded / student / exercise / f"{exercise}.ipynb"


def one_for_each_file(exercise: str, students: Iterable[str], places: Places) -> set[str]:
    """The students without those whose file is another one's as well, as in a group.

    Of those who share a file the one who handed it in stays, or else the first.
    """
    holders: dict[str, str] = {}
    for student in students:
        receipt = read_receipt(student, exercise, places)
        file = receipt.path if receipt else f"of {student} alone"
        if file not in holders or (receipt and receipt.by == student):
            holders[file] = student
    return set(holders.values())


def everybody(places: Places) -> list[Student]:
    """The roster in its order, then who handed something in without being on it."""
    roster = read_roster(places) or []
    rooms = [room for room in (places.submitted, places.autograded) if room.is_dir()]
    folders = {path.name for room in rooms for path in room.iterdir() if path.is_dir()}
    others = folders - {student.id for student in roster}
    return [*roster, *(Student(name) for name in sorted(others))]


def exercises(places: Places) -> list[str]:
    """The released exercises that somebody handed in, or that have been graded."""
    released = released_exercises(places)
    return [
        name
        for name in names()
        if (name in released and any(places.submitted.glob(f"*/{name}")))
        or any(places.autograded.glob(f"*/{name}/report.json"))
    ]


def unclaimed(exercise: str, places: Places) -> int:
    """How many files of an exercise the last `make collect` could give to nobody.

    An archive that could not be opened may be of any exercise.
    """
    path = places.home / "collected.csv"
    rows = tables.read(path) if path.exists() else []
    open_rows = [row for row in rows if row.get("status") in UNCLAIMED]
    return sum(
        row.get("exercise") == exercise
        or (not row.get("exercise") and row.get("file", "").casefold().endswith(ARCHIVES))
        for row in open_rows
    )


def submitted_notebooks(exercise: str, places: Places) -> Iterator[Any]:
    """What nbgrader's gradebook has of each student's notebook for an exercise."""
    from nbgrader.api import Gradebook, MissingEntry

    if not places.has_gradebook():
        return
    find_alembic()
    with Gradebook(places.gradebook, "attention") as gradebook:
        try:
            submissions = gradebook.assignment_submissions(exercise)
        except MissingEntry:
            return
        for submission in submissions:
            yield from submission.notebooks


def by_hand(exercise: str, places: Places) -> dict[tuple[str, str], ByHand]:
    """What people entered in Formgrader for an exercise, by student and task."""
    return {
        (notebook.student.id, grade.name): ByHand(grade.manual_score, grade.extra_credit)
        for notebook in submitted_notebooks(exercise, places)
        for grade in notebook.grades
    }


def comments(exercise: str, places: Places) -> dict[tuple[str, str], str]:
    """What people wrote about an answer in Formgrader, by student and task."""
    return {
        (notebook.student.id, comment.name.removesuffix("_answer")): comment.manual_comment
        for notebook in submitted_notebooks(exercise, places)
        for comment in notebook.comments
        if comment.manual_comment
    }


def absent_or_waiting(student: str, exercise: str, places: Places, dates: DueDates) -> Line:
    """The line for each task of somebody whose work has no report.

    Nobody has handed in nothing as long as there are files that may be anybody's.
    """
    if places.submission(exercise, student).exists():
        return Line(0.0, 0.0, NOT_GRADED, f"run make grade NAME={exercise}")
    limit = dates.due(student, exercise)
    if limit and limit > datetime.now(UTC):
        return Line(0.0, 0.0, NOT_DUE, f"due {local(limit)}")
    if count := unclaimed(exercise, places):
        files = "1 file" if count == 1 else f"{count} files"
        why = f"{files} of the last collection may be anybody's: see collected.csv"
        return Line(0.0, 0.0, UNCLEAR, why)
    return Line(0.0, 0.0, ABSENT, "nothing was handed in")


def outdated(report: Report, places: Places) -> bool:
    """Whether another file was handed in since the report was written."""
    path = places.submission(report.exercise, report.student)
    if report.submission is None or not path.exists():
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() != report.submission


def lines_of(student: str, exercise: str, places: Places, dates: DueDates) -> dict[str, Line]:
    """The lines of a student's work by task, before people's points."""
    most = points(exercise)
    report = read_report(exercise, student, places)
    if report is None:
        line = absent_or_waiting(student, exercise, places, dates)
        return {task: replace(line, most=most[task]) for task in most}
    again = f"run make grade NAME={exercise}"
    lines = {
        task: report.tasks.get(task, Line(0.0, most[task], NOT_GRADED, again)) for task in most
    }
    if outdated(report, places):
        why = f"another file lies there since it was graded: {again}"
        return {task: replace(lines[task], status=NOT_GRADED, reason=why) for task in lines}
    return lines


def with_hand(line: Line, entered: ByHand) -> Line:
    """A line with what a person entered: a score wins, extra credit adds to what counts."""
    if line.status == NOT_GRADED:  # the points belong to another file
        return line
    extra = entered.extra or 0.0
    if entered.score is None:
        return replace(line, points=line.points + extra)
    why = f"by hand; before: {line.reason}" if line.reason else "by hand"
    return replace(line, points=entered.score + extra, status=GRADED, reason=why)


def marks(places: Places, wanted: Sequence[str] = ()) -> list[Mark]:
    """The marks of a class: one for each student, exercise and task.

    Args:
        places: the class.
        wanted: exercises; all of which there is something if none is named.
    """
    table, students, dates = list[Mark](), everybody(places), read_due_dates(places)
    for exercise in wanted or exercises(places):
        all_entered = by_hand(exercise, places)
        for student in students:
            for task, line in lines_of(student.id, exercise, places, dates).items():
                entered = all_entered.get((student.id, task), ByHand(None, None))
                row = with_hand(line, entered)
                about = (row.points, row.most, row.status, row.reason)
                table.append(Mark(student.id, exercise, task, *about))
    return table


def totals(table: Sequence[Mark]) -> dict[tuple[str, str], float | None]:
    """The points of each student in each exercise; None while something of them waits."""
    sums: dict[tuple[str, str], float | None] = {}
    for mark in table:
        key = mark.student, mark.exercise
        before = sums.get(key, 0.0)
        sums[key] = before + mark.points if mark.final and before is not None else None
    return sums
