"""PostgreSQL as the gradebook: a real server, started here, gives the rows that SQLite gives."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import canned
import pytest
from classroom import hand_in, in_gradebook, released_class

from grading.desk import classes
from grading.desk.classes import grade_class
from grading.desk.records import How
from grading.reports.feedback import feedback
from grading.reports.marks import marks
from grading.settings import Places

pytest.importorskip("psycopg", reason="no driver of PostgreSQL here: pip install psycopg[binary]")
FOLDERS = os.pathsep.join(
    [os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
)
INITDB, POSTGRES = (shutil.which(name, path=FOLDERS) for name in ("initdb", "pg_ctl"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (INITDB and POSTGRES), reason="no PostgreSQL: apt install postgresql"),
]
NAME, STUDENTS = "04_self_attention", [f"s{i:02d}" for i in range(7)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an empty database, whose server only listens to a file."""
    folder = Path(tempfile.mkdtemp(prefix="attnlib-"))  # short, as its name goes into a socket's
    user = "nobody" if os.geteuid() == 0 else None  # it refuses to be root
    if user:
        shutil.chown(folder, user)
    data, options = str(folder / "data"), f"-k {folder} -c listen_addresses= -c fsync=off"

    def call(*words: str | None) -> None:
        subprocess.run([*map(str, words)], check=True, user=user, capture_output=True, cwd=folder)

    call(INITDB, "-D", data, "-U", "grader", "--auth=trust", "-E", "UTF8", "--no-sync")
    call(POSTGRES, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql://grader@/postgres?host={folder}"
    finally:
        call(POSTGRES, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def graded(home: Path, address: str, patch: pytest.MonkeyPatch) -> Places:
    """A graded class with a gradebook at an address."""
    patch.setenv("ATTNLIB_GRADEBOOK", address)
    patch.setattr(classes, "grade", canned.canned)
    places = released_class(NAME, home)
    for student in STUDENTS:
        hand_in(places, NAME, student, student.encode())
    one = partial(ThreadPoolExecutor, 1)
    grade_class(NAME, STUDENTS, How(places, "a seed"), one, progress=False)
    return places


def test_postgresql_gives_the_rows_that_sqlite_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    lite = graded(tmp_path / "lite", "", monkeypatch)
    rows, table = in_gradebook(lite, NAME), marks(lite)
    assert len(rows) == len(table) == len(STUDENTS) * 6
    full = graded(tmp_path / "full", server, monkeypatch)
    assert in_gradebook(full, NAME) == rows
    assert marks(full) == table
    assert not (tmp_path / "full/gradebook.db").exists()
    assert list(feedback([NAME], full))
