"""Faults that an engineer put into this room, each with the test that notices it."""

import time
from dataclasses import replace
from typing import Any

import canned
import pytest
from classroom import hand_in
from nbgrader.api import Gradebook
from sqlalchemy.exc import OperationalError
from test_classes import FIRST, NAME, graded_by, places

from grading.desk.faults import patiently
from grading.desk.records import How, earlier_report, keep, work_of
from grading.desk.submission import Graded, Work, grade, waiting
from grading.judging.report import CRASHED, PERSON, TIMED_OUT, Line, read_report
from grading.release.build import BuildError
from grading.sandbox.watch import Doubt, SandboxError
from grading.settings import Places
from grading.tasks.hidden import DEFAULT_SEED

__all__ = ["places"]


def test_the_lecturers_own_seed_draws_the_hidden_inputs(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNLIB_SEED", "a phrase of mine")
    assert How(Places(tmp_path)).seed == "a phrase of mine"
    monkeypatch.delenv("ATTNLIB_SEED")
    assert How(Places(tmp_path)).seed == DEFAULT_SEED


@pytest.mark.ci
def test_another_seed_grades_anew(places: Places) -> None:
    hand_in(places, NAME, "ada", b"1")
    work = work_of(NAME, "ada", How(places, "a seed"))
    assert work
    keep(canned.canned(work), How(places, "a seed"))
    assert earlier_report(work, How(places, "a seed"))
    assert earlier_report(work, How(places, "another seed")) is None


def test_of_a_file_that_cannot_be_processed_no_earlier_notebook_is_shown(places: Places) -> None:
    how = How(places, "a seed")
    path = hand_in(places, NAME, "ada", b"first")
    work = work_of(NAME, "ada", how)
    assert work
    keep(canned.canned(work), how)
    notebook = places.autograded / "ada" / NAME / f"{NAME}.ipynb"
    assert notebook.exists()
    path.write_bytes(b"second")
    work = work_of(NAME, "ada", how)
    assert work
    keep(Graded(waiting(work, "could not be processed")), how)
    assert not notebook.exists()


def test_the_gradebook_gets_the_time_and_says_where_nothing_was_written(places: Places) -> None:
    how = How(places, "a seed")
    path = hand_in(places, NAME, "ada", b"first")
    (path.parent / "timestamp.txt").write_text("2026-11-02 12:00:00.000000 UTC")
    work = work_of(NAME, "ada", how)
    assert work
    graded = canned.canned(work)
    keep(replace(graded, report=replace(graded.report, blank=("explain_scale",))), how)
    with Gradebook(places.gradebook, "attention") as gradebook:
        sent = gradebook.find_submission(NAME, "ada")
        assert f"{sent.timestamp:%Y-%m-%d %H:%M}" == "2026-11-02 12:00"
        said = {comment.name: comment.auto_comment for comment in sent.notebooks[0].comments}
    assert said["explain_scale"] == "No response."
    assert said["attend_answer"] is None


def test_a_task_that_timed_out_in_a_run_that_crashed_is_tried_again(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def grade(work: Work) -> Graded:
        tries.append(work.student)
        graded = canned.canned(work)
        if work.student != "ada":
            return graded
        tasks = graded.report.tasks | {FIRST: Line(0.0, 3.0, TIMED_OUT, "late")}
        return replace(graded, report=replace(graded.report, status=CRASHED, tasks=tasks))

    reports = graded_by(grade, places, {"ada": b""}, monkeypatch)
    assert tries.count("ada") == 2
    assert reports["ada"].tasks[FIRST].status == PERSON


def test_a_gradebook_that_is_locked_for_a_moment_is_waited_for() -> None:
    tries: list[float] = []

    def work() -> None:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OperationalError("", {}, Exception("database is locked"))

    patiently(work, seconds=10)
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(OperationalError):
        patiently(work, seconds=0)


def test_a_worker_of_another_version_of_the_course_does_not_grade() -> None:
    with pytest.raises(SandboxError, match="not of the version that asks"):
        grade(Work(NAME, "ada", b"", "a seed", course="another"))


def test_who_failed_twice_is_no_verdict_if_the_machine_has_failed(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def grade(work: Work) -> Graded:
        calls.append(work.student)
        if work.student or "ada" in calls:
            raise Doubt("the sandbox did not start")
        return canned.canned(work)

    with pytest.raises(BuildError, match="rehearsal failed"):
        graded_by(grade, places, {"ada": b""}, monkeypatch)
    assert read_report(NAME, "ada", places) is None
