"""Classes from a platform's export to the marks: every row is known before it is graded."""

import csv
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from classroom import alive, answered, in_gradebook, needs_sandbox, released_class, solved, soon
from honest import CHANGES, DOUBTFUL, saved
from nbformat.v4 import new_code_cell

from grading.desk.classes import grade_class, handed_in, pool
from grading.desk.records import How
from grading.intake.collect import collect
from grading.judging.report import ABSENT, CRASHED, GRADED, PERSON
from grading.release.build import points
from grading.reports.exports import write_marks
from grading.sandbox.watch import Limits, tree
from grading.settings import Places

NAME, BY_HAND = "04_self_attention", "explain_scale"
TASKS = points(NAME)
LIMITS = Limits(cell_seconds=3, memory=800 << 20)
SEED = "a seed of the class"
HERE = Path(__file__).parent
Rows = dict[str, tuple[float, str]]
FULL: Rows = {task: (most, GRADED) for task, most in TASKS.items()} | {BY_HAND: (0.0, PERSON)}


@dataclass(frozen=True)
class Student:
    """What a student hands in, and the rows that must come of it.

    Attributes:
        content: of the file; None if nothing is handed in.
        rows: points and status by task.
        reasons: what rows must say.
    """

    content: bytes | None
    rows: Rows = field(default_factory=lambda: dict(FULL))
    reasons: tuple[str, ...] = ()


def every(status: str) -> Rows:
    """No points for any task."""
    return dict.fromkeys(TASKS, (0.0, status))


def with_answers(first: str = "", **answers: str) -> bytes:
    """The solutions with other answers to some tasks, and perhaps a cell at the top."""
    work = solved(NAME)
    for cell in work.cells:
        task = cell.metadata.get("nbgrader", {}).get("grade_id", "").removesuffix("_answer")
        cell.source = answers.get(task, cell.source)
    if first:
        work.cells.insert(2, new_code_cell(first))
    return saved(work)


def odd_ones() -> dict[str, Student]:
    """Students whose notebooks stop, stall, print, miss something, or are none."""
    say = "def attend(q, k, v):\n"
    no_points = (0.0, GRADED)
    loops = with_answers(
        first="for _ in range(20_000):\n    print('so many words')",
        attend=f"{say}    while True:\n        pass",
    )
    wrong = with_answers(
        attend=f"{say}    w = (q @ k.mT).softmax(-1)\n    return w @ v, w",
        causal_weights="def causal_weights(q",
        word_map="import scipy.special\nscipy.special.softmax([1])\n\ndef word_map(*_): ...",
    )
    return {
        "blank": Student(saved(answered(NAME, {})), every(GRADED), ("not written",)),
        "no notebook": Student(b"Dear tutor, my file", every(PERSON), ("hand in the",)),
        "empty": Student(b"", every(PERSON), ("hand in the",)),
        "stops": Student(
            with_answers(attend=f"import os\n\n{say}    os._exit(3)"),
            every(CRASHED) | {BY_HAND: (0.0, PERSON)},
            ("(status 3) in cell",),
        ),
        "loops": Student(loops, FULL | {"attend": (0.0, PERSON)}, ("twice: timed out after",)),
        "wrong": Student(
            wrong,
            FULL | {"attend": no_points, "causal_weights": no_points, "word_map": (0.0, PERSON)},
            ("you do not divide the scores", "Syntax", "stopped at scipy"),
        ),
        "absent": Student(None, every(ABSENT), ("nothing was handed in",)),
    }


def honest_ones() -> dict[str, Student]:
    """Students with the model answers, whatever happened to their notebooks."""
    full = {f"full {i}": Student(saved(CHANGES[c](solved(NAME)))) for i, c in enumerate(CHANGES)}
    doubts = {}
    for i, (change, tasks) in enumerate(DOUBTFUL.values()):
        waits = dict.fromkeys(tasks(solved(NAME)), (0.0, PERSON))
        doubts[f"doubt {i}"] = Student(saved(change(solved(NAME))), FULL | waits)
    return full | doubts


def export(path: Path, students: Mapping[str, Student]) -> Path:
    """The class as Moodle exports it."""
    with zipfile.ZipFile(path, "w") as target:
        for number, (name, student) in enumerate(students.items(), 4700):
            folder = f"Ada {name.title()}_{number}_assignsubmission_file"
            if student.content is not None:
                entry = zipfile.ZipInfo(f"{folder}/{NAME}.ipynb", (2026, 5, 1, 12, 0, 0))
                target.writestr(entry, student.content)
    return path


def collected(home: Path, students: Mapping[str, Student]) -> Places:
    """A class whose export is taken in, and not yet graded."""
    places = released_class(NAME, home)
    roster = [f"{name.replace(' ', '_')},Ada {name.title()}" for name in students]
    places.roster.write_text("\n".join(["id,name", *roster]) + "\n", encoding="utf-8")
    rows = collect(export(home.parent / "export.zip", students), places)
    assert {row.status for row in rows} <= {"collected", "unreadable", "missing"}, rows
    return places


def run_class(places: Places, students: list[str]) -> None:
    """Grade a class by two processes, in this one or in one that is going to be killed."""
    how = How(places, SEED, LIMITS)
    grade_class(NAME, students, how, partial(pool, 2), progress=False)


def as_foreseen(places: Places, students: Mapping[str, Student]) -> None:
    """Marks and gradebook say what must come of the class, row by row, and nothing else."""
    write_marks(places)
    with (places.home / "marks.csv").open(encoding="utf-8-sig", newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == len(students) * len(TASKS)
    wrong, gradebook = [], in_gradebook(places, NAME)
    for name, student in students.items():
        own = {row["task"]: row for row in rows if row["student"] == name.replace(" ", "_")}
        for task, (most, status) in student.rows.items():
            row = own[task]
            if (float(row["points"]), row["status"]) != (most, status):
                wrong.append(f"{name}: {row}")
            if status != ABSENT and gradebook[row["student"], task] != (most, status == PERSON):
                wrong.append(f"{name}, gradebook: {gradebook[row['student'], task]}")
        said = [row["reason"] for row in own.values()]
        for reason in student.reasons:
            if not any(reason in text for text in said):
                wrong.append(f"{name}: nobody says {reason!r}: {said}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.ci
@needs_sandbox
def test_a_class_of_odd_ones(tmp_path: Path) -> None:
    students = odd_ones()
    places = collected(tmp_path / "class", students)
    run_class(places, handed_in(NAME, places))
    as_foreseen(places, students)


@pytest.mark.long
@needs_sandbox
def test_a_large_class_killed_in_the_middle(tmp_path: Path) -> None:
    students = odd_ones() | honest_ones()
    assert len(students) >= 55
    places = collected(tmp_path / "class", students)
    order = handed_in(NAME, places)
    kill_in_the_middle(places, order, enough=6)
    before = {path: path.read_bytes() for path in places.autograded.glob("*/*/report.json")}
    assert 6 <= len(before) < len(order), "the first run was not killed in its middle"
    run_class(places, order)
    for path, report in before.items():
        assert path.read_bytes() == report, f"{path} was graded again"
    as_foreseen(places, students)


def kill_in_the_middle(places: Places, students: list[str], enough: int) -> None:
    """Start a run, and kill it when some reports are there; its workers end with it."""
    code = (
        "from pathlib import Path\nfrom test_class import Places, run_class\n"
        f"places, students = Places(Path({str(places.home)!r})), {students!r}\n"
        "if __name__ == '__main__':\n    run_class(places, students)\n"
    )
    script = places.home.parent / "run.py"
    script.write_text(code)
    folders = [*map(str, (HERE.parents[2], HERE.parents[1], HERE.parent, HERE))]
    paths = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    first: Any = subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": paths})
    reports = lambda: len(list(places.autograded.glob("*/*/report.json")))  # noqa: E731
    try:
        assert soon(lambda: first.poll() is not None or reports() >= enough, 300)
        assert first.poll() is None, "the first run has ended by itself"
    finally:
        workers = tree(first.pid)[1:]
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert soon(lambda: not any(map(alive, workers))), "workers outlive the run that started them"
