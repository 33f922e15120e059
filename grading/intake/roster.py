"""Who is in the class: the roster, as the lecturer or the platform wrote it.

`roster.csv` in the class's folder is a table of our own (`id,name`, and where wanted `email`,
`number`, `group`), or what a platform exports, dropped there as it is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from grading import tables
from grading.release.build import BuildError
from grading.settings import Places

ID = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.@-]{0,99}")  # it becomes the name of a folder


@dataclass(frozen=True)
class Student:
    """A person of the class, as platforms name one.

    Attributes:
        id: by which the course knows the student; the name of a folder.
        name: as a person writes it, such as "Ada Lovelace".
        email: an address, or empty.
        number: the platform's own id, such as Moodle's participant or Canvas's user; or empty.
        group: who has the same word here hands in together; empty for nobody.
    """

    id: str
    name: str = ""
    email: str = ""
    number: str = ""
    group: str = ""


@dataclass(frozen=True)
class Form:
    """The columns of a table of people; names are compared without capitals and underscores.

    Attributes:
        marks: the columns by which the form is known.
        id, name, email, number, group: the columns that hold it; the first that fits is taken.
    """

    marks: tuple[str, ...]
    id: tuple[str, ...]
    name: tuple[str, ...] = ("name",)
    email: tuple[str, ...] = ("email",)
    number: tuple[str, ...] = ()
    group: tuple[str, ...] = ("group",)


# A group of Moodle's participants, and a section, may be a whole seminar: neither hands in together
FORMS = (
    # Canvas, "Export gradebook"
    Form(
        marks=("student", "id", "section"),
        id=("sis login id", "sis user id", "id"),
        name=("student",),
        number=("id",),
    ),
    # GitHub Classroom, classroom_roster.csv
    Form(
        marks=("identifier", "github username"),
        id=("identifier", "github username"),
        email=("identifier",),
        number=("github username",),
        group=("group name",),
    ),
    # Moodle, an assignment's grading worksheet; where marking is blind it has no name
    Form(
        marks=("identifier", "grade"),
        id=("username", "id number", "email address", "identifier"),
        name=("full name",),
        email=("email address",),
        number=("identifier",),
    ),
    # Moodle, the participants or the grades of a course
    Form(
        marks=("first name", "last name", "email address"),
        id=("username", "id number", "email address"),
        email=("email address",),
    ),
    # Brightspace, "Export grades"
    Form(marks=("orgdefinedid",), id=("username", "orgdefinedid"), number=("orgdefinedid",)),
    # Blackboard, "Work offline: download"
    Form(
        marks=("last name", "first name", "username"),
        id=("username", "student id"),
        number=("student id",),
    ),
    # Gradescope, the roster
    Form(marks=("sid", "email"), id=("sid", "email")),
    # our own, and nbgrader's
    Form(marks=("id",), id=("id",), number=("number",)),
)


def read_roster(places: Places) -> list[Student] | None:
    """The roster, or None if there is none.

    Raises:
        BuildError: its columns are unknown, an id cannot be the name of a folder, or one stands
            there twice.
    """
    if not places.roster.exists():
        return None
    rows = [_plain_columns(row) for row in tables.read(places.roster) if any(row.values())]
    form = _form(rows, places)
    students = [_student(row, form, places) for row in rows if not _nobody(row)]
    ids = [student.id.casefold() for student in students]
    twice = sorted({student.id for student in students if ids.count(student.id.casefold()) > 1})
    if twice:
        raise BuildError(f"{places.roster}: these ids stand there twice: {', '.join(twice)}")
    return students


def _plain_columns(row: Mapping[str, str]) -> dict[str, str]:
    """A row with the usual names of columns; Brightspace writes a # before what is no number."""
    return {key.replace("_", " "): value.removeprefix("#") for key, value in row.items()}


def _form(rows: list[dict[str, str]], places: Places) -> Form:
    """The form of a table.

    Raises:
        BuildError: it has none that is known.
    """
    columns = rows[0].keys() if rows else {"id"}
    for form in FORMS:
        if columns >= set(form.marks):
            return form
    raise BuildError(
        f"{places.roster} has the columns {', '.join(columns)}. Wanted are id and name (and email,"
        " number, group, if you like), or an export of Moodle, Canvas, Gradescope, GitHub"
        " Classroom, Blackboard or Brightspace with its English column names"
    )


def _nobody(row: Mapping[str, str]) -> bool:
    """Whether a row is no student's: Canvas adds two that are not, Gradescope has the staff."""
    canvas = "student" in row and (not row.get("id") or row["student"] == "Student, Test")
    return canvas or row.get("role", "student").casefold() != "student"


def _student(row: Mapping[str, str], form: Form, places: Places) -> Student:
    """The student of a row.

    Raises:
        BuildError: no column holds what can be the name of a folder.
    """
    number = _first(row, form.number)
    blind = re.fullmatch(r"\D+ (\d+)", number)  # Moodle's "Participant 4712"
    name = _first(row, form.name) or f"{row.get('first name', '')} {row.get('last name', '')}"
    last, comma, first = name.partition(", ")
    ids = [row.get(column, "").replace(" ", "_" if blind else " ") for column in form.id]
    if not (safe := [text for text in ids if ID.fullmatch(text)]):
        raise BuildError(
            f"{places.roster}: {ids[0]!r} is no id: letters and digits, and _ . - @ between them;"
            f" it is read from the column {' or '.join(form.id)}"
        )
    return Student(
        id=safe[0].casefold() if blind and safe[0] == ids[-1] else safe[0],
        name=f"{first} {last}" if comma else name.strip(),
        email=_first(row, form.email) if "@" in _first(row, form.email) else "",
        number=blind[1] if blind else number,
        group=_first(row, form.group),
    )


def _first(row: Mapping[str, str], columns: tuple[str, ...]) -> str:
    """What the first of some columns holds that is not empty."""
    return next((row[column] for column in columns if row.get(column)), "")
