"""Five works of exercise 04, with the rows that must come of each; and what a run of them tells."""

import time
from typing import Any

from attacks import NAME, RIGHT, SOLVED
from classroom import answered, solved

from grading import sandbox
from grading.preprocess import MANUAL
from grading.submission import points

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


def canned(told: dict[bytes, bytes], job: bytes) -> bytes:
    """In place of `sandbox.execute`, for a worker: what a job has told before; or it runs now."""
    if job not in told:
        return sandbox.execute(job)
    time.sleep(0.05)
    return told[job]
