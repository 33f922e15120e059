"""Faults that an engineer put into this room, each with the test that notices it."""

import json
import zipfile
from datetime import timedelta
from pathlib import Path

from semester import BY_HAND, NAME, NOON, grade, graded_notebook, receive, rows_of, semester

from grading.judging.report import PERSON, Line
from grading.reports.exports import write_marks
from grading.reports.feedback import feedback
from grading.reports.insights import insights
from grading.reports.similarity import similarity


def test_gradescopes_lateness_is_hours_minutes_seconds(tmp_path: Path) -> None:
    places = semester(tmp_path, due=NOON - timedelta(hours=25, minutes=2, seconds=3))
    grade(places, "ada")
    write_marks(places)
    ada = rows_of(tmp_path / "marks_gradescope.csv")[1]
    assert ada[-1] == "25:02:03"


def test_moodles_worksheet_names_nobody_of_another_platform(tmp_path: Path) -> None:
    places = semester(tmp_path)
    for student, platform in (("ada", "moodle"), ("emmy", "canvas")):
        grade(places, student)
        receive(places, student, platform, f"{student}.ipynb", number="31")
    write_marks(places)
    rows = rows_of(tmp_path / f"marks_moodle_{NAME}.csv")[1:]
    assert [row[1] for row in rows] == ["Ada Lovelace"]


def test_who_is_late_is_told_of_each_student(tmp_path: Path) -> None:
    from semester import hand_in

    places = semester(tmp_path, due=NOON)
    for student, hours in (("ada", 0), ("emmy", 2)):
        grade(places, student)
        hand_in(places, student, time=NOON + timedelta(hours=hours))
    write_marks(places)
    header, *rows = rows_of(tmp_path / "marks.csv")
    at = header.index("late")
    late = {row[0]: row[at] for row in rows}
    assert (late["ada"], late["alan"], late["emmy"][:9]) == ("", "", "2 h 0 min")


def test_no_students_word_is_html_on_a_page(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada", status=PERSON, reason="got a file that begins with '<script>'")
    list(feedback([NAME], places))
    text = (places.feedback / "ada" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in text
    assert "<script" not in text


def test_on_canvas_what_waits_has_no_points(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    graded_notebook(places, "ada")
    receive(places, "ada", "canvas", "a_1_2_x.ipynb")
    list(feedback([NAME], places))
    with zipfile.ZipFile(places.feedback / f"{NAME}_canvas.zip") as archive:
        first = json.loads(archive.read("a_1_2_x.ipynb"))["cells"][0]["source"]
    assert f"**{BY_HAND}** needs a person: to be read" in first


def test_insights_counts_nobody_who_could_not_be_processed(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada")
    grade(places, "emmy", {"attend": Line(0, 3, PERSON, "x")}, submission=None)
    assert "0 of 1 came late" in insights(NAME, places).read_text(encoding="utf-8")


def test_a_team_stands_once_among_the_answers(tmp_path: Path) -> None:
    places = semester(tmp_path)
    for student in ("ada", "emmy", "alan"):
        grade(places, student)
        graded_notebook(places, student, f"def attend(q): return {student!r}")
    for student in ("ada", "emmy"):  # as Moodle and GitHub write a team: by its own name
        receive(places, student, "moodle", "Team 7_31_assignsubmission_file/x.ipynb", by="Team 7")
    similarity(NAME, places)
    folder = tmp_path / "similarity" / NAME / "submissions"
    assert len(list(folder.iterdir())) == 2
