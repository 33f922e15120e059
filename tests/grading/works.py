"""Five works of exercise 04, with the rows that must come of each; and what a run of them tells."""

import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attacks import NAME, RIGHT, SOLVED
from canned import WHERE, canned
from classroom import answered, solved

from grading import sandbox
from grading.preprocess import MANUAL, released, scene
from grading.restore import restore
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
