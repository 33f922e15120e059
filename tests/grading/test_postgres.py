"""The same class with PostgreSQL as its gradebook: a real server, started here; the same rows."""

import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from attacks import NAME
from classroom import needs_sandbox, released_class
from works import SEED, as_foreseen, can, laid_out

from grading.autograde import grade_class
from grading.marks import feedback
from grading.settings import Places
from grading.submission import How

pytest.importorskip("psycopg", reason="no driver of PostgreSQL here: pip install psycopg[binary]")
FOLDERS = os.pathsep.join(
    [os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
)
INITDB, POSTGRES = (shutil.which(name, path=FOLDERS) for name in ("initdb", "pg_ctl"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (INITDB and POSTGRES), reason="no PostgreSQL: apt install postgresql"),
    needs_sandbox,
]
STUDENTS = [f"s{i:02d}" for i in range(7)]


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
    """A graded class; with a gradebook at an address, two processes write to it at once."""
    patch.setenv("ATTNLIB_GRADEBOOK", address)
    places = released_class(NAME, home)
    foreseen = laid_out(places, STUDENTS)
    two = partial(ProcessPoolExecutor, 2, multiprocessing.get_context("spawn"))
    desk = two if address else partial(ThreadPoolExecutor, 1)
    workers = partial(ThreadPoolExecutor, 2)
    grade_class(NAME, STUDENTS, How(places, SEED), desk, workers, progress=False)
    as_foreseen(places, foreseen)
    return places


def test_postgresql_gives_the_rows_that_sqlite_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    can(tmp_path / "told", monkeypatch)
    graded(tmp_path / "lite", "", monkeypatch)
    places = graded(tmp_path / "full", server, monkeypatch)
    assert not (tmp_path / "full/gradebook.db").exists()
    assert places.has_gradebook()
    assert feedback([NAME], places)
