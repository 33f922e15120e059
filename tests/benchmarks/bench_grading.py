"""How long does a submission take in `make grade`, against nbgrader run student by student?

    python tests/benchmarks/bench_grading.py

Both grade the same right answers and must give the same points. Theirs starts a process for each
student and runs the code with the grader's rights; ours grades several at a time, each in a
sandbox, and judges answers to hidden inputs outside of it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nbgrader.api import Gradebook

sys.path.insert(0, str(Path(__file__).parents[2]))  # grading is not installed with attnlib

from grading import sandbox
from grading.autograde import grade_class
from grading.build import EXERCISE_FOLDER, generate
from grading.settings import ROOT, Places
from grading.submission import How

NAME = "04_self_attention"
STUDENTS = [f"s{i}" for i in range(8)]


def classroom(home: Path) -> Places:
    """A class in which everybody hands in the solutions."""
    places = Places(home, home / "dist")
    home.mkdir()
    generate(NAME, home / "exercises", places)
    for student in STUDENTS:
        folder = places.submitted / student / NAME
        folder.mkdir(parents=True)
        shutil.copy(ROOT / "solutions" / NAME / f"{NAME}.ipynb", folder)
        shutil.copy(EXERCISE_FOLDER / NAME / "checks.json", folder)
    return places


def points(places: Places) -> list[float]:
    """What the gradebook says that each student has earned."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        return [gradebook.find_submission(NAME, student).score for student in STUDENTS]


def ours(places: Places, unsafe: bool) -> float:
    """Grade the class by our runner, and return the seconds."""
    start = time.perf_counter()
    grade_class(NAME, STUDENTS, How(places, "bench", unsafe=unsafe), progress=False)
    return time.perf_counter() - start


def theirs(places: Places) -> float:
    """Grade the class by nbgrader as it comes, one student after the other."""
    (places.home / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        f"c.CourseDirectory.root = {str(places.home)!r}\n"
        f"c.CourseDirectory.source_directory = {str(ROOT / 'solutions')!r}\n"
        f"c.CourseDirectory.db_url = {places.gradebook!r}\n"
        "c.CourseDirectory.course_id = 'attention'\n"
    )
    command = [sys.executable, "-m", "nbgrader", "autograde", NAME, "--student"]
    start = time.perf_counter()
    for student in STUDENTS:
        done = subprocess.run(
            [*command, student], cwd=places.home, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
    return time.perf_counter() - start


def main() -> None:
    """Print seconds for a submission and their ratio; stop if the points differ."""
    complaint = sandbox.unusable()
    with tempfile.TemporaryDirectory() as folder:
        one, other = classroom(Path(folder, "ours")), classroom(Path(folder, "theirs"))
        our_time, their_time = ours(one, bool(complaint)), theirs(other)
        if points(one) != points(other) or min(points(one)) == 0:
            raise SystemExit(f"the points differ: {points(one)}, {points(other)}")
    count = len(STUDENTS)
    print(
        f"grading, {count} submissions of {NAME}, {os.cpu_count()} cores: "
        f"ours {our_time / count:.2f} s each{' (no sandbox here)' if complaint else ''}, "
        f"nbgrader autograde student by student {their_time / count:.2f} s each, "
        f"ratio {our_time / their_time:.2f}x (at most 0.70x is wanted)"
    )


if __name__ == "__main__":
    main()
