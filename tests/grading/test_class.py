"""A class of sixteen, from the release to the marks: every row is known before it is graded."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attacks import NAME, RIGHT
from canned import deadly_step
from classroom import (
    alive,
    answered,
    hand_in,
    needs_sandbox,
    released_class,
    reports,
    run_class,
    solved,
    soon,
    told,
)
from each import each
from works import BYHAND, FULL, TASKS, as_foreseen

from grading import __main__ as command
from grading import autograde, build, child, sandbox, submission
from grading.answers import answers
from grading.child import Trouble
from grading.collect import collect
from grading.marks import write_marks
from grading.preprocess import MANUAL, worked
from grading.settings import Places
from grading.submission import How, grade_one, report_path
from grading.watch import Limits, tree

LIMITS = Limits(cell_seconds=8, total_seconds=120, memory=800 << 20)
GRADED, CRASHED, LATE, ABSENT = "graded", "crashed", "timed out", "not submitted"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Student:
    """A student: what is handed in by which name, and the rows that must come of it.

    Attributes:
        files: the content by path in the archive; none if nothing is handed in.
        rows: points and status by task; tasks that are left out are 0 points, graded.
        told: what the rows without points must say, all of them.
    """

    files: dict[str, bytes]
    rows: dict[str, tuple[float, str]] = field(default_factory=dict)
    told: str = ""

    def row(self, task: str) -> tuple[float, str]:
        """The points and the status that a task must have."""
        return self.rows.get(task, (0.0, GRADED))


IMPORTS = "import math\n\nimport numpy as np\n"  # what an answer may take for granted


def every(status: str) -> dict[str, tuple[float, str]]:
    """No points for any task."""
    return dict.fromkeys(TASKS, (0.0, status))


def file(work: Any, path: str = "{id}_" + NAME + ".ipynb") -> dict[str, bytes]:
    """One file to hand in."""
    return {path: work if isinstance(work, bytes) else json.dumps(work).encode()}


def attempt(**answers: str) -> Any:
    """The solutions with other answers to some tasks, and an answer by hand."""
    made = solved(NAME)
    for cell in made.cells:
        task = cell.metadata.get("nbgrader", {}).get("grade_id", "").removesuffix("_answer")
        cell.source = answers.get(task, cell.source)
    return made


def the_class() -> dict[str, Student]:
    """Students by id, the good and the terrible mixed; those who attack the marks: test_attacks.py.

    How each kind of limit ends a run: test_sandbox.py.
    """
    known, odd = answers(NAME), "{id} - 04 Self Attention (2).ipynb"
    twice = file(answered(NAME, {}), "{id}_old_" + NAME + ".ipynb") | file(solved(NAME))
    own_words = {f"{task}_answer": IMPORTS + one.right[0] for task, one in known.items()}
    forever = (
        "    while True:\n        try:\n            while True:\n                pass\n"
        "        except KeyboardInterrupt:\n            pass"
    )
    by_hand, say = {BYHAND: (0.0, MANUAL)}, "def attend(q, k, v):\n"
    own_cell = solved(NAME)
    own_cell.cells.append(nbformat.v4.new_code_cell("import os\nos._exit(0)"))
    everybody = [
        Student(file(solved(NAME), odd), FULL),
        Student(file(b"no notebook at all"), every(CRASHED), "not a notebook"),
        Student(twice, FULL),  # the later one counts
        Student(
            file(attempt(attend=f"import os\n\n{say}    os._exit(3)")),
            every(CRASHED) | by_hand,
            "(status 3) in cell 5",
        ),
        Student(file(answered(NAME, own_words)), FULL | {BYHAND: (0.0, GRADED)}),
        Student(file(b""), every(CRASHED), "the file is empty"),
        Student(
            file(attempt(attend=say + "    while True:\n        pass")),
            FULL | {"attend": (0.0, LATE)},
            "timed out after 8 s in cell 5",
        ),
        Student(file(answered(NAME, {}))),  # nothing written
        Student(
            file(attempt(attend=f"import os\n\n{say}    os.abort()")),
            every(CRASHED) | by_hand,
            "(signal 6) in cell 5",
        ),
        Student(
            file(attempt(merged_weights=known["merged_weights"].wrong[0].source)),
            FULL | {"merged_weights": (0.0, GRADED)},
        ),
        Student(
            file(attempt(attend=say + forever)),
            every(LATE) | by_hand,
            "timed out after 8 s in cell 5",
        ),
        Student(
            file(attempt(attend="def attend(q, k, v)\n    return")),
            FULL | {"attend": (0.0, GRADED)},
            "SyntaxError",
        ),
        Student(file(own_cell), FULL),
        Student(file(b'{"cells": [1, 2]}'), every(CRASHED), "not a notebook"),
        Student(file(nbformat.v4.new_notebook())),
        Student({}, every(ABSENT), "nothing was handed in"),
    ]
    return {f"s{place:02d}": student for place, student in enumerate(everybody)}


def archive(path: Path, students: dict[str, Student]) -> Path:
    """What the learning platform gives: a zip, each file a day after the one before."""
    with zipfile.ZipFile(path, "w") as target:
        for name, student in students.items():
            for day, (pattern, content) in enumerate(student.files.items(), 1):
                entry = zipfile.ZipInfo(pattern.format(id=name), (2026, 5, day, 12, 0, 0))
                target.writestr(entry, content)
    return path


@dataclass(frozen=True)
class Graded:
    """What a class has come to."""

    students: dict[str, Student]
    places: Places
    before: dict[str, bytes]  # the reports that were there when the first run was killed
    after: dict[str, bytes]
    rows: list[dict[str, str]]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """Sixteen submissions released, collected, graded (with a kill in the middle), and marked."""
    home = tmp_path_factory.mktemp("sixteen") / "class"
    places, students = Places(home, home / "dist"), the_class()
    assert build.release(NAME, None, places).exists()
    places.roster.write_text("id,name\n" + "".join(f"{s},Student {s}\n" for s in students))
    collected = collect(archive(home / "handed-in.zip", students), places)
    assert {row.student for row in collected} == set(students)
    assert sum(row.status == "missing" for row in collected) == 1
    assert sum(row.status == "duplicate" for row in collected) == 1
    order = autograde.handed_in(NAME, places)
    kill_in_the_middle(home, order, enough=4)
    before = reports(places, NAME)
    assert 4 <= len(before) < len(order), "the first run was not killed in its middle"
    found = run_class(NAME, home, order, LIMITS)
    assert [report["student"] for report in found] == order
    with write_marks(places).open(encoding="utf-8-sig", newline="") as table:
        rows = list(csv.DictReader(table))
    return Graded(students, places, before, reports(places, NAME), rows)


def kill_in_the_middle(home: Path, students: list[str], enough: int) -> None:
    """Start a run, and kill it when some reports are there."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom classroom import run_class\n"
        f"from test_class import LIMITS, NAME\nif __name__ == '__main__':\n"
        f"    run_class(NAME, Path({str(home)!r}), {students!r}, LIMITS)\n"
    )
    (home / "run.py").write_text(code)
    folders = [*map(str, (HERE.parents[1], HERE.parent, HERE)), os.environ.get("PYTHONPATH", "")]
    paths = os.pathsep.join(folders)
    first = subprocess.Popen(
        [sys.executable, str(home / "run.py")], env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        there = lambda: first.poll() is not None or len(reports(Places(home), NAME)) >= enough  # noqa: E731
        assert soon(there, 300)
        assert first.poll() is None, "the first run has ended by itself"
    finally:
        workers = tree(first.pid)[1:]
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert len(workers) > 2
    assert soon(lambda: not any(map(alive, workers))), "workers outlive the run that started them"


@pytest.mark.long
@needs_sandbox
def test_marks_and_gradebook_are_as_foreseen(graded: Graded) -> None:
    rows = {s: {task: one.row(task) for task in TASKS} for s, one in graded.students.items()}
    as_foreseen(graded.places, rows)


@pytest.mark.long
@needs_sandbox
@each("student", the_class())
def test_why_there_are_no_points_is_told(graded: Graded, student: str) -> None:
    for row in (row for row in graded.rows if row["student"] == student):
        assert float(row["max_points"]) == TASKS[row["task"]]
        if float(row["points"]) == 0 and (row["task"] != BYHAND or row["status"] != MANUAL):
            assert row["reason"], row
        if row["status"] in (CRASHED, LATE, ABSENT):
            assert graded.students[student].told in row["reason"], row


@pytest.mark.long
@needs_sandbox
def test_nothing_was_graded_twice_and_nothing_lost_by_the_kill(graded: Graded) -> None:
    assert set(graded.after) == {s for s, about in graded.students.items() if about.files}
    for student, report in graded.before.items():
        assert graded.after[student] == report, f"{student} was graded again"


@pytest.mark.long
@needs_sandbox
def test_a_third_run_changes_nothing(graded: Graded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(submission, "in_child")  # nobody is graded again
    how = How(graded.places, "a seed", LIMITS)
    for student, report in graded.after.items():
        assert grade_one(NAME, student, how) == json.loads(report)
    assert reports(graded.places, NAME) == graded.after


def test_a_new_submission_or_seed_is_graded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[bytes] = []

    def execute(job: bytes) -> bytes:
        jobs.append(job)
        return told()

    monkeypatch.setattr(sandbox, "execute", execute)
    places = released_class(NAME, tmp_path / "class")
    path = hand_in(places, NAME, "student", b"")
    how = How(places, "a seed", LIMITS)
    assert grade_one(NAME, "student", how)["status"] == CRASHED
    path.write_text(json.dumps(answered(NAME, {})))
    again = grade_one(NAME, "student", how)
    assert again["status"] == GRADED
    assert grade_one(NAME, "student", how) == again
    assert len(jobs) == 1
    other = grade_one(NAME, "student", How(places, "another seed", LIMITS))
    assert other["seed"] != again["seed"]
    assert len(jobs) == 2


@needs_sandbox
def test_make_grade_grades_what_was_handed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATTNLIB_SEED", raising=False)
    places = released_class(NAME, tmp_path / "class")
    hand_in(places, NAME, "student.1@x-y", answered(NAME, {"attend_answer": RIGHT}))
    hand_in(places, NAME, "empty", b"")
    words = ["--home", str(places.home), "grade", NAME, "--workers", "1"]
    assert command.main(words) == 0
    said = capsys.readouterr()
    assert "1 crashed, 1 graded" in said.out
    assert "empty: not a notebook: the file is empty" in said.out
    assert "set ATTNLIB_SEED" in said.err
    assert json.loads(report_path(NAME, "student.1@x-y", places).read_text())["status"] == GRADED
    with autograde.alone(places):
        assert command.main(words) == 1
    assert "another run is grading" in capsys.readouterr().err


def test_an_exercise_that_was_not_released_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "unusable", lambda: None)
    monkeypatch.setattr(autograde, "pool", lambda workers: ThreadPoolExecutor(1))
    monkeypatch.setenv("PATH", os.defpath)  # as `make grade` finds it: without our environment
    places = Places(tmp_path / "class")
    hand_in(places, NAME, "student", b"")
    assert command.main(["--home", str(places.home), "grade", NAME]) == 1
    assert f"make release NAME={NAME}" in capsys.readouterr().err


def test_without_a_sandbox_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    assert command.main(["--home", str(tmp_path), "grade", NAME]) == 1
    assert "--unsafe" in capsys.readouterr().err


@needs_sandbox
def test_a_worker_that_dies_takes_one_submission_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = released_class(NAME, tmp_path / "class")
    monkeypatch.setattr(autograde, "step", deadly_step)
    students = ["a", "b", "killer", "c", "d"]
    found = run_class(NAME, places.home, students, LIMITS)
    assert [report["student"] for report in found] == students
    status = {report["student"]: report["status"] for report in found}
    assert status.pop("killer") == MANUAL
    assert set(status.values()) == {GRADED}
    assert "died, twice" in found[2]["reason"]
    assert found[2]["submission"] is None, "the next run must try again"
    log = (places.home / "log").read_text().split()
    assert sorted(set(log)) == sorted(status), "somebody was not graded"


@pytest.mark.parametrize(
    ("cores", "workers", "most"), [(1, None, 3), (4, None, 6), (1, 1, 3), (2, 8, 18)]
)
def test_no_more_submissions_are_under_way_than_the_workers_take(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int | None, most: int
) -> None:
    """Two more than the desk takes, if it is alone; else two for each worker, and the desk's."""

    class Still(autograde.Executor):
        def __init__(self, size: int) -> None:
            self._max_workers, self.sent = size, list[str]()

        def submit(self, call: Any, *args: Any) -> Any:
            self.sent.append(args[1])
            return autograde.Future()

    desk = Still(cores)
    way = autograde.Way(NAME, How(), desk, Still(workers) if workers else desk, print)

    def stop(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(autograde, "wait", stop)
    with pytest.raises(InterruptedError):
        way.go([f"student {number}" for number in range(50)])
    assert len(desk.sent) == most


def test_a_notebook_of_too_many_cells_stalls_nobody(tmp_path: Path) -> None:
    cell = {"cell_type": "markdown", "metadata": {}, "source": "x"}
    about = {"metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(about | {"cells": [cell] * 150_000}))
    with pytest.raises(Trouble, match="more than 2 s of computing"):
        child.run(worked, NAME, path, "a seed", LIMITS, True, {}, seconds=2)


def test_ctrl_c_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", stopped)
    assert command.main(["--home", str(tmp_path), "grade"]) == 130
    assert "Stopped. Nothing is lost" in capsys.readouterr().err


@pytest.mark.long
def test_ctrl_c_ends_the_workers_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        "import signal\nimport time\nfrom grading.autograde import pool\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    with pool(1) as worker:\n"
        "        print(worker.submit(abs, -1).result(), flush=True)\n        time.sleep(60)\n"
    )
    folders = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "run.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "1\n"
        time.sleep(0.5)  # the worker waits for its next call again
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate(timeout=60)[1]
    assert "KeyboardInterrupt" in said  # of the run itself, whose command would say so
    assert "ForkServerProcess" not in said
