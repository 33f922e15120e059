"""Faults of the machine, one after the other, in a class of sixteen: none becomes a verdict.

Each run goes on where the last one has stopped. Sixteen students hand in five different works, and
each work runs in the sandbox once; all the rest is as in `make grade`.
"""

import errno
import itertools
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from attacks import NAME
from classroom import needs_sandbox, released_class, reports
from each import each
from works import WORKS, as_foreseen, laid_out

from grading import preprocess, sandbox, submission
from grading.autograde import grade_class
from grading.build import BuildError
from grading.settings import Places
from grading.submission import How
from grading.watch import Limits

pytestmark = [needs_sandbox, pytest.mark.long]
LIMITS = Limits(cell_seconds=40, total_seconds=200)
STUDENTS = [f"s{i:02d}" for i in range(16)]


def raises(error: Exception) -> Callable[..., Any]:
    """A function that raises."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise error

    return function


NO_ROOM = raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
NO_DISK = raises(OSError(errno.EIO, os.strerror(errno.EIO)))
KILLED = b'{"started": true}\n{"end": "crashed", "reason": "(signal 9)"}', ("crashed", "")
# what is said, and what is put in place of what
FAULTS: dict[str, tuple[str, dict[tuple[Any, str], Any]]] = {
    "no room for the job": ("No space left", {(sandbox, "watch"): NO_ROOM}),
    "no memory for the sandbox": ("memory", {(sandbox, "watch"): raises(MemoryError())}),
    "no bubblewrap any more": ("install bubblewrap", {(sandbox.shutil, "which"): lambda _: None}),
    "a sandbox that dies before it starts": (
        "did not start",
        {(sandbox, "watch"): lambda *_: (b"", ("crashed", "ended from inside"))},
    ),
    "the machine kills for memory": (
        "run out of memory",
        {
            (sandbox, "watch"): lambda *_: KILLED,
            (sandbox, "killed_for_memory"): itertools.count().__next__,
        },
    ),
    "no memory for the judge": ("MB of memory", {(preprocess, "verdict"): raises(MemoryError())}),
    "no room for the graded notebook": ("No space left", {(submission, "written"): NO_ROOM}),
    "an unreadable disk": ("Input/output error", {(submission, "fingerprint"): NO_DISK}),
}


@contextmanager
def locked(places: Places) -> Iterator[None]:
    """Another program holds the gradebook."""
    held = sqlite3.connect(places.home / "gradebook.db", isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        held.close()


@contextmanager
def torn(places: Places) -> Iterator[None]:
    """The gradebook's file is damaged, until a copy is put back."""
    path = places.home / "gradebook.db"
    shutil.copyfile(path, path.with_suffix(".copy"))
    path.write_bytes(b"not a database at all" * 1000)
    try:
        yield
    finally:
        shutil.copyfile(path.with_suffix(".copy"), path)


def grade(places: Places, students: list[str]) -> None:
    how = How(places, "a seed of the faults", LIMITS, patience=2.0)
    grade_class(NAME, students, how, lambda: ThreadPoolExecutor(1), progress=False)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Places, dict[str, Any], Any]:
    """A class graded through all faults, what each run has said and left, and the right rows."""
    places = released_class(NAME, tmp_path_factory.mktemp("faulty") / "class")
    foreseen = laid_out(places, STUDENTS)
    real, known = sandbox.execute, dict[bytes, bytes]()

    def once(job: bytes) -> bytes:
        """Each work runs once, but for those that meet a fault."""
        if job not in known or sandbox.watch is not watch:
            done = real(job)
            return known.setdefault(job, done)
        return known[job]

    watch, told = sandbox.watch, dict[str, Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "execute", once)
        grade(places, STUDENTS[:4])
        at = 4
        for name, (_, fault) in FAULTS.items():
            before = reports(places, NAME)
            with pytest.MonkeyPatch.context() as inner:
                known_before = dict(known)
                if "bubblewrap" in name:
                    known.clear()
                for (where, what), instead in fault.items():
                    inner.setattr(where, what, instead)
                told[name] = (stopped(places, STUDENTS), before, reports(places, NAME))
                known |= known_before
            at += 1
            grade(places, STUDENTS[:at])
        for name, trouble in (("locked", locked), ("torn", torn)):
            before = reports(places, NAME)
            with trouble(places):
                told[name] = (stopped(places, STUDENTS), before, reports(places, NAME))
        grade(places, STUDENTS)
    return places, told, foreseen


def stopped(places: Places, students: list[str]) -> str:
    """What a run says that cannot go on; nothing if it went on."""
    try:
        grade(places, students)
    except BuildError as error:
        return str(error)
    return ""


@each(
    "name, word",
    [
        *((name, word) for name, (word, _) in FAULTS.items()),
        ("locked", "locked"),
        ("torn", "not a"),
    ],
)
def test_a_fault_stops_the_run_with_a_sentence_and_says_nothing_of_anybody(
    faulty: Any, name: str, word: str
) -> None:
    said, before, after = faulty[1][name]
    assert said.startswith("Grading has stopped at s"), said
    assert word in said
    assert "\n" not in said
    assert "run the same command again" in said
    # whoever is graded without what is broken is graded; nobody is judged by what is
    assert {student: after[student] for student in before} == before
    new = {student for student in after if student not in before}
    assert all(STUDENTS.index(student) % len(WORKS) == 4 for student in new), new


def test_marks_and_gradebook_are_as_foreseen_in_the_end(faulty: Any) -> None:
    as_foreseen(faulty[0], faulty[2])


def test_nothing_half_written_is_left(faulty: Any) -> None:
    assert not list(faulty[0].home.rglob("*.part"))
