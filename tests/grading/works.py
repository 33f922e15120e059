"""Five works of exercise 04, with the rows that must come of each; and what a run of them tells."""

import csv
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attacks import NAME, RIGHT, SOLVED
from canned import WHERE, canned
from classroom import answered, hand_in, in_gradebook, solved

from grading import sandbox
from grading.marks import write_marks
from grading.preprocess import MANUAL, released, scene
from grading.restore import restore
from grading.settings import Places
from grading.submission import How, points

SEED = "a seed of the works"

TASKS = points(NAME)
BYHAND = "explain_scale"
FULL = {task: (most, "graded") for task, most in TASKS.items()} | {BYHAND: (0.0, MANUAL)}
NONE = dict.fromkeys(TASKS, (0.0, "graded"))
WORKS: list[tuple[Any, dict[str, tuple[float, str]]]] = [
    (solved(NAME), FULL),
    (answered(NAME, {}), NONE),
    (answered(NAME, {"attend_answer": RIGHT}), NONE | {"attend": (3.0, "graded")}),
    (answered(NAME, {"word_map_answer": SOLVED}), NONE | {"word_map": (3.0, "graded")}),
    (b"no notebook", dict.fromkeys(TASKS, (0.0, "crashed"))),
]


@cache
def told() -> bytes:
    """What each work that is a notebook tells in a sandbox, pickled by its job."""
    how = How(seed=SEED)
    jobs = [
        sandbox.packed(
            restore(nbformat.from_dict(one), released(NAME))[0],
            scene(NAME, how.seed),
            how.limits,
            how.unsafe,
        )
        for one, _ in WORKS
        if not isinstance(one, bytes)
    ]
    return pickle.dumps({one: sandbox.execute(one) for one in jobs})


def can(path: Path, patch: pytest.MonkeyPatch, instead: Callable[[bytes], bytes] = canned) -> None:
    """Let workers tell what was told before; it lies in a file that they find."""
    path.write_bytes(told())
    patch.setenv(WHERE, str(path))
    patch.setattr(sandbox, "execute", instead)


def laid_out(places: Places, students: Sequence[str]) -> dict[str, dict[str, tuple[float, str]]]:
    """Hand the works in, one after the other, and say which rows must come of them."""
    given = dict(zip(students, cycle(WORKS)))
    for student, (one, _) in given.items():
        hand_in(places, NAME, student, one)
    return {student: rows for student, (_, rows) in given.items()}


def as_foreseen(places: Places, foreseen: dict[str, dict[str, tuple[float, str]]]) -> None:
    """Marks and gradebook say what must come of the works, row by row, and nothing else."""
    with write_marks(places).open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == len(foreseen) * len(TASKS)
    found = in_gradebook(places, NAME)
    for row in rows:
        points, status = foreseen[row["student"]][row["task"]]
        assert (float(row["points"]), row["status"]) == (points, status), row
        if status != "not submitted":
            assert found[row["student"], row["task"]] == (points, status == MANUAL), row
