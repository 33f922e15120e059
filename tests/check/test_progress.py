"""What a passed check notes for its reader: where, once, and never at the price of the check."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cells import run

from attnlib.check import check, progress
from attnlib.check.progress import (
    FILE,
    PREDICTIONS,
    READ,
    Prediction,
    exercises,
    note,
    note_prediction,
    notebook,
    noted,
    predictions,
)
from attnlib.check.protocol import to_json

CASES = [{"args": to_json((1,)), "expected": 2}]
CHECKS = {"tasks": {"double": {"tolerance": 0, "cases": CASES}}}
PASSED = "Passed: double answers every visible case. Grading uses other inputs.\n"


@pytest.fixture
def exercise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an exercise in a course, and the present one."""
    monkeypatch.delenv("ATTNLIB_HIDDEN", raising=False)
    folder = tmp_path / "exercises" / "04_x"
    for place in (folder, tmp_path / "solutions" / "04_x", tmp_path / "chapters"):
        place.mkdir(parents=True)
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    monkeypatch.chdir(folder)
    return folder


def double() -> Callable[..., Any]:
    """A right answer, as a notebook defines it."""
    found: Callable[..., Any] = run("def double(x):\n    return 2 * x")["double"]
    return found


def test_a_passed_task_is_noted_once_and_seen_from_the_chapters(
    exercise: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check("double", double())
    check("double", double())
    assert capsys.readouterr().out == 2 * PASSED
    text = (exercise.parent / FILE).read_text("utf-8")
    assert text.split("\n") == ["", '["04_x", "double"]']
    monkeypatch.chdir(exercise.parent.parent / "chapters")
    assert exercises() == exercise.parent
    note("04_x", READ)
    assert noted() == {("04_x", "double"), ("04_x", READ)}


def test_a_failed_task_is_not_noted(exercise: Path) -> None:
    with pytest.raises(AssertionError):
        check("double", run("def double(x):\n    return x")["double"])
    assert not (exercise.parent / FILE).exists()
    assert noted() == set()


@pytest.mark.parametrize("where", ["solution", "elsewhere"])
def test_nothing_is_written_outside_of_the_readers_exercises(
    where: str, exercise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "solution":
        monkeypatch.chdir(tmp_path / "solutions" / "04_x")
    else:
        alone = tmp_path / "downloads" / "04_x"
        alone.mkdir(parents=True)
        (exercise / "checks.json").rename(alone / "checks.json")
        monkeypatch.chdir(alone)
    check("double", double())
    assert list(tmp_path.rglob(FILE)) == []


def test_damaged_lines_stop_nothing_and_are_told(
    exercise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exercise.parent / FILE
    file.write_bytes(b'["04_x", "other"]\n\xff\n3\n["a", "b", "c"]\n' + b"[" * 9999 + b'\n["04_x')
    check("double", double())
    told = capsys.readouterr().out
    assert told == (
        f"{PASSED}5 damaged lines of exercises/{FILE} do not count; you may delete the file.\n"
    )
    assert noted() == {("04_x", "other"), ("04_x", "double")}, "the half line swallowed the new one"


def test_a_file_that_cannot_be_written_stops_nothing_and_is_told(
    exercise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (exercise.parent / FILE).mkdir()  # refuses even root, whom a read-only file does not stop
    check("double", double())
    told = capsys.readouterr().out.splitlines()
    assert told[0] + "\n" == PASSED
    assert told[1].startswith(f"This could not be noted in exercises/{FILE} (")
    assert len(told) == 2


def test_notebooks_that_note_at_once_lose_nothing(exercise: Path) -> None:
    code = "import runpy, sys; note = runpy.run_path(sys.argv[1])['note']\n"
    code += "for i in range(50): note('04_x', f'task {sys.argv[2]} {i}')"
    command = [sys.executable, "-c", code, progress.__file__]
    workers = [subprocess.Popen([*command, str(k)], cwd=exercise) for k in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert noted() == {("04_x", f"task {k} {i}") for k in range(3) for i in range(50)}


# ---------------------------------------------------------------- predictions
FIRST = Prediction("04_x", "largest weight", 0.4, 0.97, 0.43)
ORDER = Prediction("04_x", "by repetition", ["a", "b"], ["b", "a"], 0.0)


def test_the_first_answer_counts_and_is_noted_once(exercise: Path) -> None:
    assert predictions() == []
    for prediction in (FIRST, ORDER, FIRST._replace(answer=0.9, close=0.93)):
        note_prediction(prediction)
    assert predictions() == [FIRST, ORDER]
    text = (exercise.parent / PREDICTIONS).read_text("utf-8")
    assert text.splitlines()[1] == '["04_x", "largest weight", 0.4, 0.97, 0.43]'
    assert noted() == set()


def test_damaged_predictions_stop_nothing_and_are_told(
    exercise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (exercise.parent / PREDICTIONS).write_text('["04_x", "a", 1, 2]\n["a", "b", 1, 2, "near"]\n["')
    note_prediction(FIRST)
    told = capsys.readouterr().out
    assert told.startswith(f"3 damaged lines of exercises/{PREDICTIONS} do not count")
    assert predictions() == [FIRST]


def test_predictions_that_cannot_be_written_are_told(
    exercise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (exercise.parent / PREDICTIONS).mkdir()
    note_prediction(FIRST)
    assert f"could not be noted in exercises/{PREDICTIONS} (" in capsys.readouterr().out


def test_a_notebook_is_named_as_its_editor_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "chapters/04_x.ipynb")
    assert notebook() == "04_x"
    monkeypatch.delenv("JPY_SESSION_NAME")
    assert notebook() == "a notebook"
