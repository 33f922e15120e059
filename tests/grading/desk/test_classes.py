"""A class is graded: everybody once, nobody lost, nobody stopped by another one or the machine."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import canned
import pytest
from classroom import hand_in, in_gradebook, released_class
from nbgrader.api import Gradebook

from grading.__main__ import main
from grading.child import Trouble
from grading.desk import classes, records
from grading.desk.classes import grade_class, only_run, pool, summary
from grading.desk.records import How, keep, work_of
from grading.desk.submission import Graded, Work
from grading.judging.report import GRADED, PERSON, TIMED_OUT, UNREAD, Line, Report, read_report
from grading.release.build import BuildError, points
from grading.sandbox.watch import Doubt, SandboxError
from grading.settings import Places

NAME = "04_self_attention"
FIRST = next(iter(points(NAME)))
one_thread = partial(ThreadPoolExecutor, 1)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return released_class(NAME, tmp_path / "class")


def graded_by(
    grade: Callable[[Work], Graded], places: Places, files: dict[str, bytes], patch: Any, **how: Any
) -> dict[str, Report]:
    """The reports of a class that another function grades, by student."""
    for student, content in files.items():
        if not (places.submitted / student).exists():
            hand_in(places, NAME, student, content)
    patch.setattr(classes, "grade", grade)
    told = grade_class(NAME, list(files), How(places, "a seed", **how), one_thread, progress=False)
    return {report.student: report for report in told}


# the rehearsal


@pytest.mark.parametrize(
    ("model", "blank", "says"),
    [(0.5, 0.0, f"the model solution of {FIRST} earns 1.5 of 3"), (1.0, 1.0, "the blank exercise")],
)
def test_nothing_is_graded_if_the_rehearsal_fails(
    model: float, blank: float, says: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grade(work: Work) -> Graded:
        assert not work.student, "somebody is graded"
        return canned.report(work, model if b"BEGIN SOLUTION" in work.content else blank)

    with pytest.raises(BuildError, match=says) as told:
        graded_by(grade, places, {"ada": b"x"}, monkeypatch)
    assert f"grading/tasks/ch{NAME[:2]}.py" in str(told.value)
    assert read_report(NAME, "ada", places) is None


# once more, alone


def test_what_timed_out_is_tried_once_more_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def grade(work: Work) -> Graded:
        tries.append(work.student)
        first = work.student == "busy" and tries.count("busy") == 1
        return canned.report(work, 0.0, TIMED_OUT, "late") if first else canned.slow(work)

    files = {"busy": b"", "slow": b"slow", "ada": b"", "bob": b""}
    reports = graded_by(grade, places, files, monkeypatch)
    assert reports["busy"].status == GRADED
    assert reports["busy"].points == sum(points(NAME).values()) / 2
    assert reports["slow"].status == PERSON
    assert reports["slow"].tasks[FIRST].reason.startswith("twice: timed out")
    assert sorted(tries[-2:]) == ["busy", "slow"], "the second tries come last"
    assert tries.count("ada") == tries.count("bob") == 1


@pytest.mark.parametrize("error", [Trouble("its process died"), Doubt("the sandbox did not start")])
def test_what_cannot_be_processed_waits_for_a_person(
    error: Exception, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grade(work: Work) -> Graded:
        if work.student == "odd":
            raise error
        return canned.canned(work)

    files = {"odd": b"", "ada": b""}
    reports = graded_by(grade, places, files, monkeypatch)
    assert (reports["odd"].status, reports["ada"].status) == (PERSON, GRADED)
    assert reports["odd"].reason.endswith(str(error))
    again = graded_by(canned.canned, places, files, monkeypatch)
    assert again["odd"].status == GRADED, "the next run tries again"


def test_a_worker_that_dies_takes_one_submission_with_it(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    students = ["a", "b", "killer", "c", "d"]
    for student in students:
        hand_in(places, NAME, student, b"kill" if student == "killer" else b"")
    monkeypatch.setattr(classes, "grade", canned.deadly)
    reports = grade_class(NAME, students, How(places, "a seed"), partial(pool, 2), progress=False)
    assert [report.student for report in reports] == students
    status = {report.student: report.status for report in reports}
    assert status.pop("killer") == PERSON
    assert set(status.values()) == {GRADED}
    assert "died, twice" in reports[2].reason


def test_the_summary_names_whom_a_person_may_want_to_look_at() -> None:
    text, doubt = Line(0.0, 4.0, PERSON, UNREAD), Line(0.0, 3.0, PERSON, "stopped at scipy")
    right, late = Line(3.0, 3.0, GRADED), Line(0.0, 3.0, PERSON, "twice: timed out")
    reports = [
        Report(PERSON, "", {"f": right, "why": text}, student="ada"),
        Report(PERSON, "", {"f": doubt, "why": text}, student="bob"),
        Report(PERSON, "timed out", {"f": late, "g": right}, ("cells were moved",), student="cy"),
    ]
    assert summary(reports) == [
        "3 needs a person",
        "  bob: f: stopped at scipy",
        "  cy: timed out; cells were moved",
    ]


# the machine


def test_a_fault_of_the_machine_stops_the_run_and_keeps_what_is_done(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grade(work: Work) -> Graded:
        if work.student == "bob":
            raise SandboxError("there is no bubblewrap on worker 7")
        return canned.canned(work)

    with pytest.raises(BuildError, match="stopped at bob: there is no bubblewrap on worker 7") as e:
        graded_by(grade, places, {"ada": b"", "bob": b"", "eve": b""}, monkeypatch)
    assert "run the same command again" in str(e.value)
    assert read_report(NAME, "ada", places)
    assert read_report(NAME, "bob", places) is None
    reports = graded_by(canned.canned, places, {"ada": b"", "bob": b"", "eve": b""}, monkeypatch)
    assert {report.status for report in reports.values()} == {GRADED}


def test_a_full_disk_is_no_verdict(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "write_report", full)
    with pytest.raises(BuildError, match=r"No space left.*room on the disk"):
        graded_by(canned.canned, places, {"ada": b""}, monkeypatch)
    monkeypatch.undo()
    assert read_report(NAME, "ada", places) is None


def test_an_exercise_that_was_not_released_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BuildError, match=f"make release NAME={NAME}"):
        graded_by(canned.canned, Places(tmp_path / "class"), {"ada": b""}, monkeypatch)


# again


def test_nobody_is_graded_twice_without_a_reason(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    graded: list[str] = []

    def grade(work: Work) -> Graded:
        graded.append(work.student)
        return canned.canned(work)

    files = {"ada": b"1", "bob": b"2", "nobody": None}
    first = graded_by(grade, places, files, monkeypatch)
    assert first["nobody"].status == "not submitted"
    assert graded_by(grade, places, files, monkeypatch) == first
    assert graded == ["", "", "ada", "bob"], "a rehearsal, and each once"
    path = places.submitted / "ada" / NAME / f"{NAME}.ipynb"
    path.write_bytes(b"another file")
    graded_by(grade, places, files, monkeypatch)
    assert graded[4:] == ["", "", "ada"]
    graded_by(grade, places, files, monkeypatch, force=True)
    assert graded[7:] == ["", "", "ada", "bob"]


def test_a_second_run_is_held_off(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    with only_run(places):
        assert main(["--home", str(places.home), "grade", NAME, "--unsafe"]) == 1
    assert "another run is grading" in capsys.readouterr().err


# points by hand


def give(places: Places, student: str, task: str, **scores: float) -> None:
    """Give points in the gradebook, as Formgrader does."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        (notebook,) = gradebook.find_submission(NAME, student).notebooks
        grade = next(grade for grade in notebook.grades if grade.name == task)
        for key, value in scores.items():
            setattr(grade, key, value)
        grade.needs_manual_grade = False
        gradebook.db.commit()


def test_points_given_to_an_earlier_hand_in_are_shown_and_asked_about(places: Places) -> None:
    how = How(places, "a seed")
    path = hand_in(places, NAME, "ada", b"first")

    def graded() -> Report:
        work = work_of(NAME, "ada", how)
        assert work
        return keep(canned.canned(work), how)

    graded()
    give(places, "ada", "explain_scale", manual_score=3.5, extra_credit=0.5)
    assert graded().before == {}, "the same file: points stay"
    assert in_gradebook(places, NAME)["ada", "explain_scale"] == (4.0, False)
    path.write_bytes(b"second")
    report = graded()
    assert report.before == {"explain_scale": 4.0}
    assert report.status == PERSON
    assert report.tasks["explain_scale"].status == PERSON
    assert report.tasks["explain_scale"].reason.startswith("4 points were given by hand")
    assert in_gradebook(places, NAME)["ada", "explain_scale"][1], "Formgrader asks for them"
    path.write_bytes(b"third")
    assert graded().before == {"explain_scale": 4.0}, "nobody has answered yet"
    give(places, "ada", "explain_scale", manual_score=2.0)
    assert graded().before == {}
    assert json.loads((places.autograded / "ada" / NAME / "report.json").read_text())["seed"]
