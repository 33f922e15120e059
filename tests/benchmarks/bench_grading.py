"""How long does a submission take in `make grade`, and a class of a thousand or ten thousand?

    python tests/benchmarks/bench_grading.py [--students 22]

The same class of right answers is graded by one process, by two, by two workers of a dask cluster
on this machine, and by nbgrader, which runs the code with the grader's rights; all must give the
same points. Then one submission is taken apart, and hours for larger classes follow from its parts.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from timing import option, timed

from grading import cluster, sandbox, warm
from grading.autograde import grade_class, pool
from grading.build import EXERCISE_FOLDER, generate
from grading.fence import environment, fence
from grading.preprocess import key
from grading.settings import ROOT, Places
from grading.submission import How, step
from grading.watch import HOME, Limits

NAME = "04_self_attention"
WANTED = 0.9  # seconds a submission with two processes


def classroom(home: Path, students: list[str]) -> Places:
    """A class in which everybody hands in the solutions."""
    places = Places(home, home / "dist")
    home.mkdir()
    generate(NAME, home / "exercises", places)
    for student in students:
        folder = places.submitted / student / NAME
        folder.mkdir(parents=True)
        shutil.copy(ROOT / "solutions" / NAME / f"{NAME}.ipynb", folder)
        shutil.copy(EXERCISE_FOLDER / NAME / "checks.json", folder)
    return places


def points(places: Places, students: list[str]) -> list[float]:
    """What the gradebook says that each student has earned."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        return [gradebook.find_submission(NAME, student).score for student in students]


def ours(places: Places, students: list[str], processes: int, elsewhere: Any = None) -> float:
    """Grade the class by our runner, and return the seconds."""
    how = How(places, "bench", force=True, unsafe=sandbox.unusable() is not None)
    pools = partial(pool, processes)
    return timed(lambda: grade_class(NAME, students, how, pools, elsewhere, progress=False))[1]


def by_dask(places: Places, students: list[str]) -> float:
    """Grade the class by a desk of one process and two workers of a cluster."""
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made,
        cluster.connected(made.scheduler_address) as elsewhere,
    ):
        return ours(places, students, 1, elsewhere)


def theirs(places: Places, students: list[str]) -> float:
    """Grade the class by nbgrader as it comes, one student after the other."""
    (places.home / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        f"c.CourseDirectory.root = {str(places.home)!r}\n"
        f"c.CourseDirectory.source_directory = {str(ROOT / 'solutions')!r}\n"
        f"c.CourseDirectory.db_url = {places.gradebook!r}\n"
        "c.CourseDirectory.course_id = 'attention'\n"
    )
    command = [sys.executable, "-m", "nbgrader", "autograde", NAME, "--student"]
    argv = [[*command, student] for student in students]
    quiet: dict[str, Any] = {"cwd": places.home, "check": True, "capture_output": True}
    return timed(lambda: [subprocess.run(one, **quiet) for one in argv])[1]


def seconds(call: Callable[[], Any], times: int = 3) -> float:
    """The median time of a call."""
    return statistics.median(timed(call)[1] for _ in range(times))


def parts(places: Places, student: str) -> dict[str, float]:
    """Seconds of the parts of one submission, one after the other, in this process."""
    how = How(places, "parts", force=True)
    job = step(NAME, student, how, {})
    assert isinstance(job, bytes)
    answers = {key(job): sandbox.execute(job)}
    step(NAME, student, how, answers)  # the references are computed once for a class
    nothing = json.dumps(json.loads(job) | {"cells": []}).encode()
    started, whole = (seconds(partial(sandbox.execute, one)) for one in (nothing, job))
    bare = seconds(empty)
    return {
        "desk: read, restore, hidden inputs": seconds(lambda: step(NAME, student, how, {})),
        "sandbox: a fence": bare,
        "sandbox: the client and the kernel, what is taken away": started - bare,
        "sandbox: the student's code and its checks": whole - started,
        "desk: judge, nbgrader, gradebook": seconds(lambda: step(NAME, student, how, answers)),
    }


def empty() -> None:
    """Make a fence and let nothing happen in it."""
    argv = [*fence(Limits(), None), "/bin/true"]
    subprocess.run(argv, check=True, env=environment(HOME))


def hours(count: int, cores: int, found: dict[str, float], desk: int) -> tuple[float, float]:
    """Hours of a class: on one machine with so many cores, and in a cluster beside a desk."""
    serial = sum(value for name, value in found.items() if name.startswith("desk"))
    inner = sum(found.values()) - serial
    elsewhere = max(count * inner / cores, count * serial / desk)
    return count * (inner + serial) / cores / 3600, elsewhere / 3600


def main() -> None:
    """Print seconds for a submission and their ratios; stop if the points differ."""
    students = [f"s{i}" for i in range(option("students", 22))]
    ways: dict[str, Callable[[Places, list[str]], float]] = {
        "one process": partial(ours, processes=1),
        "two processes": partial(ours, processes=2),
        "dask, two workers and a desk": by_dask,
        "nbgrader autograde": theirs,
    }
    if not find_spec("distributed"):
        print("no dask here (pip install distributed): left out")
        del ways["dask, two workers and a desk"]
    times, came = dict[str, float](), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, way) in enumerate(ways.items()):
            places = classroom(Path(folder, str(number)), students)
            some = students[: 5 if way is theirs else None]
            first = way(places, some[:2])  # and what starts once for a class, in each process
            times[name] = (way(places, some) - first) / (len(some) - 2)
            came[name] = points(places, some)
        found = parts(places, students[0]) if sandbox.unusable() is None else {}
    if (
        len({one for points in came.values() for one in points}) > 1
        or min(came["one process"]) == 0
    ):
        raise SystemExit(f"the points differ: {came}")
    print(
        f"{len(students)} submissions of {NAME}, {os.cpu_count()} cores, seconds for each more, "
        "what starts once for a class left out"
    )
    for name, value in times.items():
        print(f"  {name:<30} {value:6.2f}   {value / times['nbgrader autograde']:.2f}x")
    tell(found)
    print(f"two processes take {times['two processes']:.2f} s each (at most {WANTED} s is wanted)")


def tell(found: dict[str, float]) -> None:
    """Print where the time goes, and what follows for larger classes."""
    if not found:
        print("no sandbox here: no parts")
        return
    print("one submission, part by part, seconds")
    for name, value in found.items():
        print(f"  {name:<58} {value:6.2f}")
    print(f"submissions begin {'cold: ' + reason if (reason := warm.cold()) else 'warm'}")
    desk = 2
    print(
        "hours, extrapolated from these parts: on one machine, whose cores do all; in a cluster of "
        f"so many cores beside a desk of {desk}"
    )
    for count in (1_000, 10_000):
        for cores in (2, 16, 128):
            one, other = hours(count, cores, found, desk)
            print(f"  {count:>6,} submissions, {cores:>3} cores: {one:6.2f}   {other:6.2f}")


if __name__ == "__main__":
    main()
