"""Attacks on the marks: each earns nothing, is reported, and harms nobody else."""

import hashlib
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attacks import (
    ATTACKS,
    GRADED,
    HONEST,
    MANUAL,
    MIME,
    NAME,
    RIGHT,
    TARGET,
    UNSURE,
    described,
    submission,
)
from classroom import answered, hand_in, needs_sandbox, notebook, points, released_class, solved
from each import each

from grading.autograde import grade_class
from grading.restore import grade_id, locked, restore
from grading.settings import ROOT, Places
from grading.submission import How, grade_one, report_path, shortened
from grading.watch import Limits

pytestmark = [needs_sandbox, pytest.mark.long]
LIMITS = Limits(cell_seconds=10, total_seconds=90, output=6 << 20)
HONEST_STUDENTS = ("aaa", "mmm", "zzz")  # graded before, between and after the attackers
SEED = "a seed of the test's own"


def files(*folders: Path) -> dict[str, str]:
    """The digests of all files in some folders, links not followed."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Places, dict[str, Any]]:
    """A class of attackers and honest students, graded once, and its reports."""
    places = released_class(NAME, tmp_path_factory.mktemp("attacked") / "class")
    for student in HONEST_STUDENTS:
        hand_in(places, NAME, student, solved(NAME))
    for name, attack in ATTACKS.items():
        hand_in(places, NAME, name, submission(attack, notebook("exercises", NAME)))
    folders = (places.submitted, ROOT / "solutions" / NAME, ROOT / "exercises" / NAME)
    before = files(*folders)
    students = sorted([*HONEST_STUDENTS, *ATTACKS])
    reports = grade_class(NAME, students, How(places, SEED, LIMITS), progress=False)
    assert [report["student"] for report in reports] == students
    assert files(*folders) == before, "grading has changed what it was given"
    return places, {report["student"]: report for report in reports}


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 40


@each("name", ATTACKS)
def test_an_attack_earns_nothing_and_is_reported(attacked: Any, name: str) -> None:
    report, attack = attacked[1][name], ATTACKS[name]
    task = report["tasks"][TARGET]
    assert task["points"] == 0, task
    assert task["status"] == attack.target, task
    assert task["max"] == 3
    assert task["reason"]
    assert attack.told in described(report), described(report)


@each("name", ATTACKS)
def test_honest_points_are_kept_or_wait_for_a_person(attacked: Any, name: str) -> None:
    report, attack = attacked[1][name], ATTACKS[name]
    task = report["tasks"][HONEST]
    may_be = (GRADED, MANUAL) if attack.honest == UNSURE else (attack.honest.partition(",")[0],)
    assert task["status"] in may_be, described(report)
    if attack.honest == UNSURE:  # it is paid or not, as the thread's output comes late or early
        assert task["points"] in (0, 3)
    else:
        assert task["points"] == (3 if attack.honest == "graded" else 0)
    assert points(report) == task["points"]


@each("student", HONEST_STUDENTS)
def test_nobody_else_is_harmed(attacked: Any, student: str) -> None:
    report = attacked[1][student]
    assert points(report) == 16
    assert report["notes"] == []


def test_nothing_was_left_outside_of_the_sandbox(attacked: Any) -> None:
    assert not Path("/tmp/attnlib-attack").exists()
    assert not Path("/tmp/result.json").exists()


def test_nothing_that_a_browser_would_run_is_stored(attacked: Any) -> None:
    places = attacked[0]
    for path in places.autograded.rglob("*.ipynb"):
        done = json.loads(path.read_text())
        outputs = [o for cell in done["cells"] for o in cell.get("outputs", [])]
        kinds = {kind for output in outputs for kind in output.get("data", {})}
        assert kinds <= {"text/plain", "image/png", MIME}, path
        texts = "".join("".join(c["source"]) for c in done["cells"] if c["cell_type"] != "code")
        assert "<script" not in texts, path
        assert "<img" not in texts, path
        assert {cell["cell_type"] for cell in done["cells"]} <= {"code", "markdown"}
        assert not any(
            set(parts) - {"image/png", "image/jpeg"}
            for cell in done["cells"]
            for parts in cell.get("attachments", {}).values()
        )


def test_the_seed_is_in_no_file_of_a_student(attacked: Any) -> None:
    places = attacked[0]
    for path in places.autograded.rglob("*"):
        assert not path.is_file() or SEED not in path.read_text(), path


# what is handed in beside a notebook, or in place of it


def test_a_forged_report_is_not_read(tmp_path: Path) -> None:
    places, student = released_class(NAME, tmp_path / "class"), "forger"
    path = hand_in(places, NAME, student, answered(NAME, {}))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    forged = {"submission": digest, "seed": shortened(SEED), "status": "graded", "tasks": {}}
    (path.parent / "report.json").write_text(json.dumps(forged))
    (path.parent / "sitecustomize.py").write_text("raise SystemExit")
    how = How(places, SEED, LIMITS)
    report = grade_one(NAME, student, how)
    assert report["tasks"][TARGET]["points"] == 0
    assert json.loads(report_path(NAME, student, places).read_text()) == report
    there = {p.name for p in report_path(NAME, student, places).parent.iterdir()}
    assert there == {"report.json", f"{NAME}.ipynb"}, "other files of a student were copied"


@pytest.mark.parametrize("kind", ["another submission", "a secret", "a folder"])
def test_a_link_in_place_of_a_notebook_is_not_followed(tmp_path: Path, kind: str) -> None:
    places = released_class(NAME, tmp_path / "class")
    other = hand_in(places, NAME, "honest", solved(NAME))
    path = hand_in(places, NAME, "thief", None)
    (tmp_path / "secret").write_text("secret")
    targets = {"another submission": other, "a secret": tmp_path / "secret"}
    path.symlink_to(targets[kind]) if kind in targets else path.mkdir()
    report = grade_one(NAME, "thief", How(places, SEED, LIMITS))
    assert (report["status"], points(report)) == ("crashed", 0)
    assert report["reason"] == "not a notebook: not a plain file"


def test_the_right_answer_under_an_attack_of_check_is_still_right(tmp_path: Path) -> None:
    places = released_class(NAME, tmp_path / "class")
    work = answered(NAME, {"attend_answer": RIGHT, "attend": "check('attend', print)"})
    hand_in(places, NAME, "student", work)
    report = grade_one(NAME, "student", How(places, SEED, LIMITS))
    assert report["tasks"][TARGET]["points"] == 3
    assert report["notes"] == ["the cell attend was edited, and has been put back"]


@each("name", [name for name, attack in ATTACKS.items() if attack.change])
def test_restoring_needs_no_help_of_nbgraders_own(name: str) -> None:
    original = notebook("exercises", NAME)
    restored, _ = restore(submission(ATTACKS[name], original), original)
    nbformat.validate(restored)
    ours = {grade_id(cell): cell for cell in original.cells if grade_id(cell)}
    found = {grade_id(cell): cell for cell in restored.cells if grade_id(cell)}
    assert set(found) == set(ours)
    for name, cell in found.items():
        assert (cell.metadata, cell.cell_type) == (ours[name].metadata, ours[name].cell_type)
        assert cell.source == ours[name].source or not locked(ours[name])
        assert cell.get("outputs", []) == []
