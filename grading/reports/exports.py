"""The tables of marks: the long one, and one row a student in the form that each platform knows.

Where the forms come from:

- Moodle's *Grades > Import > CSV file* finds a student by ID number or e-mail, and asks which
  column is which assignment. An assignment's *Upload grading worksheet* needs the columns
  Identifier, Grade and Last modified (grade), skips an empty grade, and works under blind marking
  too (mod/assign/feedback/offline in Moodle's source).
- Canvas's *Grades > Import* wants Student, ID, SIS User ID, SIS Login ID, Section, then a column an
  assignment, and a row of Points Possible; it looks a student up by the first id that it knows
  (lib/gradebook_importer.rb in Canvas's source).
- Gradescope imports no marks. Its table has the form of the gradebook that it exports, which other
  tools read: four columns an assignment.

Whatever waits for a person is an empty cell in these forms, never a 0.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from grading import tables
from grading.intake.due import DueDates, lateness, read_due_dates
from grading.intake.receipts import read_receipt
from grading.intake.roster import Student
from grading.release.build import BuildError, points
from grading.reports.marks import Mark, everybody, marks, totals
from grading.settings import Places, timestamp

LONG_COLUMNS = (
    *("student", "name", "exercise", "task", "points", "max_points", "status", "reason"),
    *("late", "total"),  # of the exercise
)
LONGEST_REASON = 500  # characters


@dataclass(frozen=True)
class Table:
    """The columns and the rows of a file."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Results:
    """What the tables are made of.

    Attributes:
        places: the class.
        students: everybody, in the order of the roster.
        most: the points that each exercise gives, by its name.
        points: of a student's id and an exercise; None while something waits.
        dates: when the exercises are due.
    """

    places: Places
    students: Sequence[Student]
    most: Mapping[str, float]
    points: Mapping[tuple[str, str], float | None]
    dates: DueDates

    def of(self, student: Student) -> list[float | None]:
        """A student's points, an exercise after the other."""
        return [self.points[student.id, exercise] for exercise in self.most]


def split_name(name: str) -> tuple[str, str]:
    """The first and the last name of a person: the last name is taken for one word.

    >>> split_name("Ada King Lovelace"), split_name("Plato")
    (('Ada King', 'Lovelace'), ('', 'Plato'))
    """
    first, _, last = name.rpartition(" ")
    return first, last


def long_table(table: Sequence[Mark], results: Results) -> Table:
    """A row for each student and task."""
    full_names = {student.id: student.name for student in results.students}
    late = {key: lateness(*key, results.places, results.dates) for key in results.points}
    rows = [
        (
            *(mark.student, full_names[mark.student], mark.exercise, mark.task),
            *(mark.points, mark.most, mark.status, mark.reason[:LONGEST_REASON]),
            *(late[mark.student, mark.exercise], results.points[mark.student, mark.exercise]),
        )
        for mark in table
    ]
    return Table(LONG_COLUMNS, rows)


def wide_table(results: Results) -> Table:
    """One row a student, for whatever imports a plain table."""
    columns = ("id", "name", "email", "number", "group", *results.most)
    rows = [
        (person.id, person.name, person.email, person.number, person.group, *results.of(person))
        for person in results.students
    ]
    return Table(columns, rows)


def moodle_table(results: Results) -> Table:
    """What Moodle's grade import takes: students by ID number or e-mail."""
    columns = ("First name", "Last name", "ID number", "Email address", *results.most)
    rows = [
        (*split_name(person.name), person.id, person.email, *results.of(person))
        for person in results.students
    ]
    return Table(columns, rows)


def canvas_table(results: Results) -> Table:
    """What Canvas's gradebook imports; the id stands in both columns that may know a student."""
    columns = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *results.most)
    possible = ("Points Possible", "", "", "", "", *results.most.values())
    rows = [
        (person.name or person.id, person.number, person.id, person.id, "", *results.of(person))
        for person in results.students
    ]
    return Table(columns, [possible, *rows])


def gradescope_table(results: Results) -> Table:
    """The form of Gradescope's own export of a gradebook."""
    columns = ["First Name", "Last Name", "SID", "Email"]
    for exercise in results.most:
        suffixes = ("", " - Max Points", " - Submission Time", " - Lateness (H:M:S)")
        columns += [exercise + suffix for suffix in suffixes]
    rows = []
    for person in results.students:
        row: list[Any] = [*split_name(person.name), person.id, person.email]
        for exercise, most in results.most.items():
            row += [results.points[person.id, exercise], most]
            row += submission_times(person.id, exercise, results)
        rows.append(row)
    return Table(columns, rows)


def submission_times(student: str, exercise: str, results: Results) -> tuple[str, str]:
    """When a submission came, and how late as hours, minutes and seconds; empty if unknown."""
    time = timestamp(results.places.submission(exercise, student))
    if time is None:
        return "", ""
    limit = results.dates.due(student, exercise)
    late = max(time - limit, timedelta()) if limit else timedelta()
    minutes, seconds = divmod(int(late.total_seconds()), 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    return f"{time:%Y-%m-%d %H:%M:%S %z}", clock


def moodle_worksheet(exercise: str, results: Results) -> Table:
    """An assignment's grading worksheet: of those who handed in through Moodle, by participant.

    Groups are left out: the number in a group's receipt is the group's, and might be somebody
    else's as a participant's.
    """
    columns = ("Identifier", "Full name", "Grade", "Maximum grade", "Last modified (grade)")
    receipts = {
        student: receipt
        for student in results.students
        if (receipt := read_receipt(student.id, exercise, results.places))
    }
    times_received = Counter(receipt.path for receipt in receipts.values())
    rows = [
        (
            *(f"Participant {receipt.number}", student.name),
            *(results.points[student.id, exercise], results.most[exercise], ""),
        )
        for student, receipt in receipts.items()
        if receipt.platform == "moodle" and times_received[receipt.path] == 1
    ]
    return Table(columns, rows)


WIDE: dict[str, Callable[[Results], Table]] = {
    "marks_wide": wide_table,
    "marks_moodle": moodle_table,
    "marks_canvas": canvas_table,
    "marks_gradescope": gradescope_table,
}


def waiting(table: Sequence[Mark]) -> list[str]:
    """A line for each exercise of which something waits, and why."""
    lines = []
    for exercise in dict.fromkeys(mark.exercise for mark in table):
        unsettled = [mark for mark in table if mark.exercise == exercise and not mark.final]
        count = len({mark.student for mark in unsettled})
        if count:
            who = "1 student has" if count == 1 else f"{count} students have"
            each = Counter(status for _, status in {(m.student, m.status) for m in unsettled})
            why = ", ".join(f"{status}: {number}" for status, number in sorted(each.items()))
            lines.append(f"{exercise}: {who} no mark yet ({why}); an empty cell stands for it")
    return lines


def write_marks(places: Places) -> list[str]:
    """Write marks.csv and a table for each platform at the class's home.

    Returns:
        lines for the terminal: the files, and how many students wait.

    Raises:
        BuildError: if nobody has handed anything in.
    """
    table = marks(places)
    if not table:
        raise BuildError("there are no marks: nothing was handed in yet (make collect FROM=…)")
    exercises = dict.fromkeys(mark.exercise for mark in table)
    most = {exercise: sum(points(exercise).values()) for exercise in exercises}
    students, dates = everybody(places), read_due_dates(places)
    results = Results(places, students, most, totals(table), dates)
    files = {"marks": long_table(table, results)}
    files |= {name: make(results) for name, make in WIDE.items()}
    files |= {f"marks_moodle_{name}": moodle_worksheet(name, results) for name in exercises}
    written = [
        tables.write(places.home / f"{name}.csv", content.columns, content.rows)
        for name, content in files.items()
        if content.rows
    ]
    return [*(f"written: {path}" for path in written), *waiting(table), *above(results)]


def above(results: Results) -> list[str]:
    """A line for each total above the most: Moodle's importers skip such a grade silently."""
    return [
        f"{exercise}: {student} has {total:g} of {results.most[exercise]:g} points; Moodle skips"
        " a grade above the assignment's maximum, so set a higher maximum there"
        for (student, exercise), total in results.points.items()
        if total is not None and total > results.most[exercise]
    ]
