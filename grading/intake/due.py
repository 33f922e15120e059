"""When work is due, for everybody and for single students, and how late it came.

`extensions.csv` in the class's folder gives single students more time: its columns are `id`,
`exercise` (empty for all exercises) and `due`, such as 2026-12-08 or 2026-12-08T12:00.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from grading import tables
from grading.intake.receipts import read_receipt
from grading.intake.roster import read_roster
from grading.release.build import BuildError, known, names
from grading.settings import Places, find_alembic, timestamp


@dataclass(frozen=True)
class DueDates:
    """When work is due.

    Attributes:
        dates: by exercise.
        extensions: by student and exercise, which is empty for all of them.
    """

    dates: Mapping[str, datetime] = field(default_factory=dict)
    extensions: Mapping[tuple[str, str], datetime] = field(default_factory=dict)

    def due(self, student: str, exercise: str) -> datetime | None:
        """When a student's work is due: the latest date that applies, or None."""
        keys = (student.casefold(), exercise), (student.casefold(), "")
        dates = (self.dates.get(exercise), *map(self.extensions.get, keys))
        return max(filter(None, dates), default=None)

    def extended(self, student: str, exercise: str) -> bool:
        """Whether a student has more time than the others."""
        keys = (student.casefold(), exercise), (student.casefold(), "")
        return any(key in self.extensions for key in keys)

    def late(self, student: str, exercise: str, time: datetime | None) -> str:
        """How late work came that was handed in at a time, in words; empty if it was in time."""
        limit = self.due(student, exercise)
        if limit is None or time is None or time <= limit:
            return ""
        return f"{span(time - limit)} after {local(limit)}"


def read_due_dates(places: Places) -> DueDates:
    """The due dates of a class, and its extensions.

    Raises:
        BuildError: extensions.csv cannot be used.
    """
    extensions, roster = read_extensions(places), read_roster(places)
    ids = {student.id.casefold() for student in roster or ()}
    strangers = sorted({student for student, _ in extensions if roster and student not in ids})
    if strangers:
        raise BuildError(
            f"{places.extensions} gives more time to {', '.join(strangers)}, and the roster has"
            " no such id: write the ids of the roster"
        )
    return DueDates(due_dates(places), extensions)


def released_exercises(places: Places) -> set[str]:
    """The exercises that the gradebook knows; all of them if there is no gradebook."""
    if not places.has_gradebook():
        return set(names())
    from nbgrader.api import Gradebook

    find_alembic()
    with Gradebook(places.gradebook, "attention") as gradebook:
        return {assignment.name for assignment in gradebook.assignments}


def due_dates(places: Places) -> dict[str, datetime]:
    """When each exercise is due, from the gradebook, if there is one."""
    if not places.has_gradebook():
        return {}
    from nbgrader.api import Gradebook

    find_alembic()
    with Gradebook(places.gradebook, "attention") as gradebook:
        return {
            assignment.name: assignment.duedate.replace(tzinfo=UTC)
            for assignment in gradebook.assignments
            if assignment.duedate
        }


def read_extensions(places: Places) -> dict[tuple[str, str], datetime]:
    """The extensions, by student (without capitals) and exercise.

    Raises:
        BuildError: a column is missing, an exercise is unknown, or a date cannot be read.
    """
    rows = tables.read(places.extensions) if places.extensions.exists() else []
    extensions = {}
    for row in rows:
        if any(row.values()):
            if not {"id", "due"} <= row.keys():
                raise BuildError(f"{places.extensions}: the columns are id, exercise and due")
            exercise = row.get("exercise", "")
            key = (row["id"].casefold(), known(exercise) if exercise else "")
            extensions[key] = _date(row["due"], places)
    return extensions


def _date(text: str, places: Places) -> datetime:
    """A date in local time; a day without an hour lasts until its end."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        wanted = "a date such as 2026-12-08 or 2026-12-08T12:00"
        raise BuildError(f"{places.extensions}: {text!r} is not {wanted}") from None
    whole_day = timedelta(days=1, seconds=-1) if len(text) <= len("2026-12-08") else timedelta()
    return (date + whole_day).astimezone(UTC)


def lateness(student: str, exercise: str, places: Places, dates: DueDates) -> str:
    """How late the submission came that counts, in words; empty if in time, or if unknown."""
    receipt = read_receipt(student, exercise, places)
    if receipt is not None and receipt.late:
        return f"marked late by {receipt.platform}"
    time = timestamp(places.submission(exercise, student))
    return dates.late(student, exercise, time)


def span(late: timedelta) -> str:
    """A time in words.

    >>> span(timedelta(hours=25)), span(timedelta(minutes=61))
    ('1 d 1 h', '1 h 1 min')
    """
    minutes = int(late.total_seconds() // 60)
    days, hours = minutes // 1440, minutes % 1440 // 60
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min"


def local(time: datetime) -> str:
    """A time as the lecturer's clock shows it."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M")
