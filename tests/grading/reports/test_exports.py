"""One row a student, in the form that each platform imports."""

import re
from pathlib import Path

import pytest
from semester import BY_HAND, NAME, NOON, give, grade, receive, rows_of, semester

from grading.reports.exports import write_marks
from grading.settings import Places

# headers as the platforms and the tools around them write them, cut after what we fill
MOODLE = "First name,Last name,ID number"  # Grades > Export > Plain text file
CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section,Assignment 1"  # Grades > Export
GRADESCOPE = (  # Assignments > Download Grades: four columns an assignment
    "First Name,Last Name,SID,Email,HW1,HW1 - Max Points,HW1 - Submission Time,"
    "HW1 - Lateness (H:M:S)"
)
FOLDER = "Ada Lovelace_9012_assignsubmission_file_"


def exported(home: Path) -> Places:
    """A class in which Ada has nearly all points, Emmy waits, and Alan has handed in nothing."""
    places = semester(home, due=NOON)
    for student in ("ada", "emmy"):
        grade(places, student)
    give(places, "ada", BY_HAND, manual_score=3.5)
    receive(places, "ada", "moodle", f"{FOLDER}/{NAME}.ipynb", number="9012")
    write_marks(places)
    return places


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that class is kept."""
    return exported(tmp_path_factory.mktemp("class")).home


def canvas_accepts(header: list[str]) -> bool:
    """The rule by which Canvas tells a gradebook: Section ends what is said of a student."""
    ids = 5 if re.match(r"SIS\s+User\s+ID", header[2]) else 3
    known = "Student" in header[0] and "ID" in header[1]
    return known and "SIS Login ID" in header[3] and header[ids - 1] == "Section"


def test_canvas(home: Path) -> None:
    header, possible, *rows = rows_of(home / "marks_canvas.csv")
    assert header == CANVAS.replace("Assignment 1", NAME).split(",")
    assert canvas_accepts(header)
    assert possible == ["Points Possible", "", "", "", "", "20"]
    assert rows[0] == ["Ada Lovelace", "4712", "ada", "ada", "", "19.5"]
    assert rows[1][-1] == ""  # waits for a person
    assert rows[2] == ["Alan Turing", "4714", "alan", "alan", "", "0"]


def test_moodle(home: Path) -> None:
    header, *rows = rows_of(home / "marks_moodle.csv")
    assert ",".join(header).startswith(MOODLE)
    assert header[-2:] == ["Email address", NAME]
    assert rows[0] == ["Ada", "Lovelace", "ada", "ada@example.org", "19.5"]
    assert rows[1] == ["Emmy", "Noether", "emmy", "emmy@example.org", ""]


def test_moodles_worksheet_names_participants_and_no_groups(tmp_path: Path) -> None:
    places = exported(tmp_path)
    for student in ("emmy", "alan"):
        team = f"Team 7_31_assignsubmission_file_/{NAME}.ipynb"
        receive(places, student, "moodle", team, number="31", by="emmy")
    write_marks(places)
    header, *rows = rows_of(tmp_path / f"marks_moodle_{NAME}.csv")
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(header)
    assert rows == [["Participant 9012", "Ada Lovelace", "19.5", "20", ""]]


def test_gradescope(home: Path) -> None:
    header, *rows = rows_of(home / "marks_gradescope.csv")
    assert header == GRADESCOPE.replace("HW1", NAME).split(",")
    ada = ["Ada", "Lovelace", "ada", "ada@example.org", "19.5", "20"]
    assert rows[0] == [*ada, "2026-11-02 12:00:00 +0000", "00:00:00"]
    assert rows[1][4:6] == ["", "20"]
    assert rows[2][4:] == ["0", "20", "", ""]


def test_the_plain_table_has_one_row_a_student(home: Path) -> None:
    header, *rows = rows_of(home / "marks_wide.csv")
    assert header == ["id", "name", "email", "number", "group", NAME]
    assert [(row[0], row[-1]) for row in rows] == [("ada", "19.5"), ("emmy", ""), ("alan", "0")]
