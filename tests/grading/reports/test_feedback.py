"""Pages for students, and the zips that Moodle and Canvas take back."""

import json
import zipfile
from pathlib import Path

from semester import (
    BY_HAND,
    NAME,
    comment,
    give,
    grade,
    graded_notebook,
    hand_in,
    receive,
    semester,
)

from grading.intake.exchange import SECRET
from grading.judging.report import GRADED, Line
from grading.reports.feedback import feedback
from grading.settings import Places


def page(places: Places, student: str) -> str:
    return (places.feedback / student / NAME / f"{NAME}.html").read_text(encoding="utf-8")


def test_a_page_shows_points_and_comments_and_runs_nothing(tmp_path: Path) -> None:
    places = semester(tmp_path)
    grade(places, "ada", {"attend": Line(0, 3, GRADED, "the softmax is over another axis")})
    graded_notebook(places, "ada", "print('<script>alert(1)</script>')")
    comment(places, "ada", BY_HAND, "well explained")
    lines = list(feedback([NAME], places))
    assert lines[0].startswith(f"{NAME}: 1 pages in")
    assert "on 1 of them a task waits for you" in lines[0]
    text = page(places, "ada")
    assert "(Score: 13.0 / 20.0 so far)" in text
    assert '<a href="#attend">attend</a> (Score: 0.0 / 3.0)' in text
    assert f'<a href="#{BY_HAND}">{BY_HAND}</a> (not graded yet)' in text
    assert "Score: 0.0 / 4.0" not in text, "a text that waits has no points, also where it stands"
    assert "well explained" in text
    assert "<math" in text
    assert "<script" not in text
    assert "default-src 'none'" in text


def test_a_file_that_cannot_be_shown_costs_nobody_elses_page(tmp_path: Path) -> None:
    places = semester(tmp_path)
    for student in ("ada", "emmy", "alan"):
        grade(places, student)
    graded_notebook(places, "ada")
    graded_notebook(places, "emmy").write_text("no notebook")
    lines = list(feedback([], places))
    assert any(line.startswith(f"{NAME}, emmy: no page:") for line in lines)
    assert "could not be shown" in page(places, "emmy")
    assert "a person will look" in page(places, "alan")  # of whom no notebook is there
    assert "<li>attend: 3 of 3</li>" in page(places, "alan")
    assert f"<li>{BY_HAND}: not graded yet</li>" in page(places, "alan")
    assert "Points" in page(places, "ada")


def test_moodle_takes_a_folder_with_the_participants_number(tmp_path: Path) -> None:
    places = semester(tmp_path)
    paths = {
        "ada": f"CS101/Ada Lovelace_9012_assignsubmission_file_/my {NAME}.ipynb",  # Moodle 3.1
        "emmy": "Participant_9013_assignsubmission_file/work.ipynb",  # blind, Moodle 4.1
        "alan": f"Alan Turing_9014_assignsubmission_file_{NAME}.ipynb",  # not in folders
    }
    for student, path in paths.items():
        grade(places, student)
        receive(places, student, "moodle", path)
    list(feedback([NAME], places))
    with zipfile.ZipFile(places.feedback / f"{NAME}_moodle.zip") as archive:
        names = archive.namelist()
        assert "a person will look" in archive.read(names[0]).decode()
    assert names == [
        f"Ada Lovelace_9012_assignsubmission_file_/{NAME}.html",
        f"Participant_9013_assignsubmission_file_/{NAME}.html",
        f"Alan Turing_9014_assignsubmission_file_/{NAME}.html",
    ]
    for name in names:  # as Moodle reads it: participant, plugin, then the file
        _, number, kind, plugin, rest = name.split("_", 4)
        assert (number.isdecimal(), kind, plugin) == (True, "assignsubmission", "file")
        assert rest == f"/{NAME}.html"


def test_canvas_takes_the_graded_notebook_under_the_name_it_gave(tmp_path: Path) -> None:
    places = semester(tmp_path)
    name = f"lovelaceada_LATE_4712_880015_{NAME}-1.ipynb"
    grade(places, "ada")
    graded_notebook(places, "ada")
    receive(places, "ada", "canvas", f"submissions/{name}")
    grade(places, "alan")  # in Ada's group: Canvas gives one file to both
    graded_notebook(places, "alan")
    receive(places, "alan", "canvas", f"submissions/{name}", by="ada")
    give(places, "ada", BY_HAND, manual_score=3.0)
    comment(places, "ada", BY_HAND, "well explained")
    list(feedback([NAME], places))
    with zipfile.ZipFile(places.feedback / f"{NAME}_canvas.zip") as archive:
        assert archive.namelist() == [name]
        first, *cells = json.loads(archive.read(name))["cells"]
    assert f"**{BY_HAND}** 3 of 4: by hand" in first["source"]
    assert "well explained" in first["source"]
    assert len(cells) > 10


def test_a_hubs_page_goes_out_by_the_name_that_its_student_knows(tmp_path: Path) -> None:
    places = semester(tmp_path)
    for student in ("ada", "emmy"):
        grade(places, student)
        (places.submitted / student / NAME / SECRET).write_text(f"secret of {student}")
    hand_in(places, "emmy", "another file")  # the page is about the one before
    list(feedback([NAME], places))
    assert (places.feedback / "ada" / NAME / SECRET).read_text() == "secret of ada"
    assert "emmy" not in (places.feedback / "emmy" / NAME / SECRET).read_text()
