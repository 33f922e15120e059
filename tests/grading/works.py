"""Five works of exercise 04, with the rows that must come of each; and what a run of them tells."""

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import nbformat
from attacks import NAME, RIGHT, SOLVED
from classroom import answered, solved

from grading import sandbox
from grading.preprocess import MANUAL, job
from grading.submission import How, points

CANNED = "CANNED"  # the variable that says where what was told lies

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


def canned(job: bytes) -> bytes:
    """In place of `sandbox.execute`, in a worker: what a job has told before; or it runs now."""
    told: dict[bytes, bytes] = pickle.loads(Path(os.environ[CANNED]).read_bytes())
    if job not in told:
        return sandbox.execute(job)
    time.sleep(0.05)
    return told[job]


def deadly(job: bytes) -> bytes:
    """In place of `sandbox.execute`, in a worker: a submission that kills it."""
    if b"kill it" in job:
        os.kill(os.getpid(), signal.SIGKILL)
    return canned(job)


def can(path: Path, how: How) -> None:
    """Run each work that is a notebook, and write what was told where `canned` reads it."""
    jobs = [
        job(NAME, nbformat.from_dict(one), how.seed, how.limits, how.unsafe)
        for one, _ in WORKS
        if not isinstance(one, bytes)
    ]
    path.write_bytes(pickle.dumps({one: sandbox.execute(one) for one in jobs}))
