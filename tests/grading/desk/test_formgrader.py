"""Formgrader's button Autograde grades as `make grade` does."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import canned
import pytest
from classroom import hand_in, needs_sandbox, released_class, solved
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from grading.desk import classes
from grading.desk.classes import grade_class
from grading.desk.records import How
from grading.judging.report import read_report
from grading.settings import configuration

NAME = "04_self_attention"


@pytest.mark.slow
@needs_sandbox
def test_the_button_grades_as_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = released_class(NAME, tmp_path / "class")
    hand_in(places, NAME, "ada", solved(NAME))
    hand_in(places, NAME, "bob", b"no notebook")
    config = configuration(places)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert api.autograde(NAME, "ada")["success"]
        assert not api.autograde(NAME, "bob")["success"]
    report = read_report(NAME, "ada", places)
    assert report
    assert report.tasks["attend"].points == report.tasks["attend"].most
    monkeypatch.setattr(classes, "grade", canned.canned)  # which would give a half
    one = partial(ThreadPoolExecutor, 1)
    ada, bob = grade_class(NAME, ["ada", "bob"], How(places), one, progress=False)
    assert ada == report, "what the button has graded is graded"
    assert bob.points > 0, "what the button could not grade is left to the command"
