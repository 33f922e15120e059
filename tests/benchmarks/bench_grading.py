"""How long does a submission take in `make grade`, and a class of a thousand?

    python tests/benchmarks/bench_grading.py [--repetitions 5]

The solutions of an exercise are graded again and again in this process, step by step: the file is
put back into its released form, runs in a sandbox, and is judged. A sandbox in which no cell runs
says how much of the second step is its start. Hours for larger classes follow from the whole.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from timing import ROOT, option, timed

from grading.desk.submission import Work, grade, job, judged_by_a_child, restored_by_a_child
from grading.sandbox.run import execute, unusable
from grading.tasks import exercise

NAME = "04_self_attention"


def main() -> None:
    """Print the seconds of each step; stop if the solutions do not earn all points."""
    repetitions = option("repetitions", 5)
    content = (ROOT / "solutions" / NAME / f"{NAME}.ipynb").read_bytes()
    complaint = unusable()
    work = Work(NAME, "student", content, "bench", unsafe=complaint is not None)
    lines = grade(work).report.tasks  # the references are computed here, once for a class
    lost = [task for task in exercise(NAME) if lines[task].points < lines[task].most]
    if lost:
        raise SystemExit(f"the solutions have lost points: {', '.join(lost)}")
    restored = restored_by_a_child(work)
    assert not isinstance(restored, str)
    all_cells = job(work, restored)
    told = execute(all_cells)
    steps: dict[str, Callable[[], Any]] = {
        "prepare": partial(restored_by_a_child, work),
        "execute": partial(execute, all_cells),
        "  of that, without a cell": partial(execute, replace(all_cells, cells=())),
        "judge": partial(judged_by_a_child, work, restored, told),
        "the whole": partial(grade, work),
    }
    print(f"a submission of {NAME}, one process, {os.cpu_count()} cores, seconds (median)")
    if complaint:
        print(f"without a sandbox: {complaint}")
    for name, step in steps.items():
        seconds = median(timed(step)[1] for _ in range(repetitions))
        print(f"  {name:<28} {seconds:6.2f}")
    cores = os.cpu_count() or 1
    print(f"a class of 1,000 on {cores} cores: {1_000 * seconds / cores / 60:.0f} minutes")


if __name__ == "__main__":
    main()
