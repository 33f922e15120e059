"""A class graded by a cluster: a real scheduler of dask's, and workers that come and die.

Twenty-four students hand in five works. What a sandbox tells of each is known, and a worker tells
it after a while; the works of some students have a cell of their own, and run in the workers'
sandboxes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attacks import NAME
from canned import deadly
from classroom import hand_in, needs_sandbox, released_class, reports
from works import SEED, WORKS, as_foreseen, can

from grading import __main__ as command
from grading import cluster, submission
from grading.autograde import grade_class
from grading.build import BuildError
from grading.preprocess import MANUAL
from grading.settings import ROOT, Places
from grading.submission import How

pytest.importorskip("distributed", reason="no dask here: pip install distributed")
pytestmark = [needs_sandbox, pytest.mark.long]
STUDENTS = [f"s{i:02d}" for i in range(24)]
REAL = STUDENTS[2::12]  # whose works run in sandboxes


@dataclass
class Dask:
    """A scheduler and its workers, processes of this machine."""

    folder: Path
    scheduler: Any = None
    workers: list[Any] = field(default_factory=list)

    def start(self, what: str, *words: str, **about: str) -> Any:
        """One of dask's commands; its workers find the tests' own functions, too."""
        paths = [str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *words]
        about = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **about}
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(command, env=about, cwd=self.folder, stdout=log, stderr=log)

    def open(self, workers: int, **about: str) -> str:
        """Start a scheduler with some workers, and return its address."""
        path = self.folder / "scheduler.json"
        path.unlink(missing_ok=True)
        words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(path)]
        self.scheduler = self.start("scheduler", *words, **about)
        until = time.monotonic() + 60
        while not (path.exists() and path.stat().st_size) and time.monotonic() < until:
            time.sleep(0.05)  # it is there before its text is
        self.address: str = json.loads(path.read_text())["address"]
        for _ in range(workers):
            self.join()
        return self.address

    def join(self, *words: str, **about: str) -> None:
        """Start one worker more."""
        words = (self.address, "--nthreads", "1", *(words or ("--no-nanny",)))
        self.workers.append(self.start("worker", *words, **about))

    def close(self) -> None:
        """End all that was started."""
        for one in [*self.workers, self.scheduler]:
            one.kill()
            one.wait()
        self.workers.clear()


@contextmanager
def dask(folder: Path) -> Iterator[Dask]:
    """A cluster to be started, and what to ask it with."""
    made = Dask(folder)
    try:
        yield made
    finally:
        made.close()


def work(student: str) -> tuple[Any, dict[str, tuple[float, str]]]:
    """What a student hands in, and the rows that must come of it."""
    if student not in REAL:
        return WORKS[STUDENTS.index(student) % len(WORKS)]
    made = nbformat.from_dict(WORKS[2][0])
    made.cells.append(nbformat.v4.new_code_cell(f"# {student}"))
    return made, WORKS[2][1]


def grade(how: How, address: str, students: list[str] = STUDENTS) -> list[Any]:
    """Grade a class by a cluster, with a desk of one thread."""
    with cluster.connected(address) as workers:
        return grade_class(
            NAME, students, how, lambda: ThreadPoolExecutor(1), workers, progress=False
        )


@dataclass(frozen=True)
class Graded:
    """What a class has come to, through two runs."""

    places: Places
    said: str  # by the first run
    before: dict[str, bytes]  # the reports that it left
    written: list[str]  # the students whose reports were written, in order
    found: list[Any]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """A class whose cluster loses a worker, wins one, loses its scheduler, and is started anew."""
    folder = tmp_path_factory.mktemp("cluster")
    places = released_class(NAME, folder / "class")
    for student in STUDENTS:
        hand_in(places, NAME, student, work(student)[0])
    how, written = How(places, SEED), list[str]()
    real = submission.written
    with pytest.MonkeyPatch.context() as patch, dask(folder) as ours:
        can(folder / "told", patch)
        events: dict[int, Callable[[], Any]] = {
            3: lambda: ours.workers[0].send_signal(signal.SIGKILL),
            6: ours.join,
            12: lambda: ours.scheduler.send_signal(signal.SIGKILL),
        }

        def write(path: Path, text: str) -> None:
            real(path, text)
            if path.name != "report.json":
                return
            written.append(path.parent.parent.name)
            events.pop(len(written), lambda: None)()

        patch.setattr(submission, "written", write)
        try:
            said = str(grade(how, ours.open(2)))
        except BuildError as error:
            said = str(error)
        assert not events, "not all has happened"
        ours.close()
        before = reports(places, NAME)
        found = grade(how, ours.open(2))
    return Graded(places, said, before, written, found)


def test_a_scheduler_that_dies_stops_the_run_with_a_sentence(graded: Graded) -> None:
    assert graded.said.startswith("Grading has stopped at s"), graded.said
    assert "has gone" in graded.said
    assert "run the same command again" in graded.said
    assert "\n" not in graded.said
    assert 12 <= len(graded.before) < 20


def test_nobody_is_graded_twice(graded: Graded) -> None:
    assert sorted(graded.written) == STUDENTS
    assert [report["student"] for report in graded.found] == STUDENTS
    after = reports(graded.places, NAME)
    assert {student: after[student] for student in graded.before} == graded.before


def test_every_row_is_as_foreseen(graded: Graded) -> None:
    as_foreseen(graded.places, {student: work(student)[1] for student in STUDENTS})


def test_some_have_run_in_the_workers_sandboxes(graded: Graded) -> None:
    seconds = {report["student"]: report["seconds"] for report in graded.found}
    ours = {seconds[student] for student in REAL}
    assert min(ours) > 0.1
    assert len(ours) == len(REAL) == 2, "each has a time of its own"
    assert len({seconds[student] for student in STUDENTS if student not in REAL}) <= len(WORKS)


def test_a_submission_that_kills_its_workers_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = released_class(NAME, tmp_path / "class")
    killer = nbformat.from_dict(WORKS[1][0])
    killer.cells.append(nbformat.v4.new_code_cell("# kill it"))
    students = ["a", "killer", "b", "c"]
    for student in students:
        hand_in(places, NAME, student, killer if student == "killer" else WORKS[1][0])
    can(tmp_path / "told", monkeypatch, deadly)
    with dask(tmp_path) as ours:
        address = ours.open(0, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
        ours.join("--nanny")  # which starts a new worker for one that has died
        found = {r["student"]: r for r in grade(How(places, SEED), address, students)}
    assert [found[student]["status"] for student in students] == [
        "graded",
        MANUAL,
        "graded",
        "graded",
    ]
    assert "died, twice" in found["killer"]["reason"]
    assert found["killer"]["submission"] is None, "the next run must try again"


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"PATH": "/nowhere"}, "apt install bubblewrap"),
        ({"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)}, "clone"),
    ],
)
def test_a_worker_that_cannot_grade_is_no_verdict(
    tmp_path: Path, about: dict[str, str], told: str
) -> None:
    places = released_class(NAME, tmp_path / "class")
    hand_in(places, NAME, "student", WORKS[2][0])
    with dask(tmp_path) as ours:
        address = ours.open(0)
        ours.join(**about)
        with pytest.raises(BuildError, match="Grading has stopped at student: .*same command") as e:
            grade(How(places, SEED), address, ["student"])
    assert told in str(e.value)
    assert ("PATH" not in about) or socket.gethostname() in str(e.value)
    assert reports(places, NAME) == {}


def test_a_cluster_that_is_not_there_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    home = tmp_path / "class"
    words = ["--home", str(home), "grade", NAME, "--cluster"]
    assert command.main([*words, "tcp://127.0.0.1:9"]) == 1
    assert "No scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    with dask(tmp_path) as ours:
        address = ours.open(0)
        assert command.main([*words, address]) == 1
    assert f"The scheduler at {address} has no worker" in capsys.readouterr().err


def test_a_client_that_has_closed_ends_every_call_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dask(tmp_path) as ours, cluster.connected(ours.open(1)) as make:
        workers = make()
        with monkeypatch.context() as patch:
            patch.setattr(workers.client, "status", "closed")
            assert "has gone" in str(workers.submit(len, "abc").exception(10))
            workers.shutdown(wait=False, cancel_futures=True)
