"""A class graded by a cluster: a real scheduler of dask's, and workers that come and die.

Twenty-four students hand in; the works of two of them run in the workers' sandboxes, those of the
others are graded by a function of the tests (`canned`), after a while.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import canned
import pytest
from classroom import hand_in, in_gradebook, needs_sandbox, released_class, solved

from grading.__main__ import main
from grading.desk import classes, cluster
from grading.desk.classes import grade_class
from grading.desk.records import How, keep
from grading.judging.report import GRADED, PERSON, Report, read_report
from grading.release.build import BuildError, points
from grading.settings import ROOT, Places

pytest.importorskip("distributed", reason="no dask here: pip install distributed")
pytestmark = [needs_sandbox, pytest.mark.long]
NAME, SEED = "04_self_attention", "a seed of the cluster"
STUDENTS = [f"s{i:02d}" for i in range(24)]
REAL = STUDENTS[2::12]  # whose works run in sandboxes
HERE = Path(__file__).parent


@dataclass
class Dask:
    """A scheduler and its workers, processes of this machine."""

    folder: Path
    scheduler: Any = None
    workers: list[Any] = field(default_factory=list)

    def start(self, what: str, *words: str, **about: str) -> Any:
        """One of dask's commands; its workers find the tests' own functions, too."""
        paths = [str(ROOT), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
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
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()
        self.workers.clear()


@contextmanager
def dask(folder: Path) -> Iterator[Dask]:
    """A cluster to be started, and what to ask it with."""
    made = Dask(folder)
    try:
        yield made
    finally:
        made.close()


def grade(how: How, address: str, students: list[str] = STUDENTS) -> list[Report]:
    """Grade a class by a cluster."""
    with cluster.connected(address) as make:
        return grade_class(NAME, students, how, make, progress=False)


def test_a_class_whose_cluster_loses_a_worker_and_its_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wins another worker in between, and is started anew."""
    places = released_class(NAME, tmp_path / "class")
    for student in STUDENTS:
        hand_in(places, NAME, student, solved(NAME) if student in REAL else student.encode())
    how, order = How(places, SEED), list[str]()
    monkeypatch.setattr(classes, "grade", canned.now_and_then)
    with dask(tmp_path) as ours:
        events: dict[int, Callable[[], Any]] = {
            3: lambda: ours.workers[0].send_signal(signal.SIGKILL),
            6: ours.join,
            12: lambda: ours.scheduler.send_signal(signal.SIGKILL),
        }

        def kept(graded: Any, how: How) -> Report:
            report = keep(graded, how)
            order.append(report.student)
            events.pop(len(order), lambda: None)()
            return report

        monkeypatch.setattr(classes, "keep", kept)
        with pytest.raises(BuildError, match=r"stopped at s.*has gone.*the same command") as said:
            grade(how, ours.open(2))
        assert "\n" not in str(said.value)
        assert not events, "not all has happened"
        assert 12 <= len(order) < 20
        ours.close()
        found = grade(how, ours.open(2))
    assert sorted(order) == STUDENTS, "nobody is graded twice, and nobody is lost"
    assert [report.student for report in found] == STUDENTS
    most = points(NAME)
    for report in found:
        real = report.student in REAL
        assert report.status == (PERSON if real else GRADED)
        assert report.tasks["attend"].points == (most["attend"] if real else most["attend"] / 2)
        assert (report.seconds > 0.1) == real, "these have run in a worker's sandbox"
    assert len(in_gradebook(places, NAME)) == len(STUDENTS) * len(most)


def test_a_submission_that_kills_its_workers_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, students = released_class(NAME, tmp_path / "class"), ["a", "killer", "b", "c"]
    for student in students:
        hand_in(places, NAME, student, b"kill" if student == "killer" else b"")
    monkeypatch.setattr(classes, "grade", canned.deadly)
    with dask(tmp_path) as ours:
        address = ours.open(0, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
        ours.join("--nanny")  # which starts a new worker for one that has died
        found = grade(How(places, SEED), address, students)
    assert [report.status for report in found] == [GRADED, PERSON, GRADED, GRADED]
    assert "died, twice" in found[1].reason


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"PATH": "/nowhere"}, "apt install bubblewrap"),
        ({"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)}, "clone"),
    ],
)
def test_a_worker_that_cannot_grade_is_no_verdict(
    tmp_path: Path, about: dict[str, str], says: str
) -> None:
    places = released_class(NAME, tmp_path / "class")
    hand_in(places, NAME, "student", solved(NAME))
    with dask(tmp_path) as ours:
        address = ours.open(0)
        ours.join(**about)
        with pytest.raises(BuildError, match=says):
            grade(How(places, SEED), address, ["student"])
    assert read_report(NAME, "student", places) is None


def test_a_cluster_that_is_not_there_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    places = Places(tmp_path / "class")
    hand_in(places, NAME, "student", b"")
    words = ["--home", str(places.home), "grade", NAME, "--cluster"]
    assert main([*words, "tcp://127.0.0.1:9"]) == 1
    assert "No scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    with dask(tmp_path) as ours:
        address = ours.open(0)
        assert main([*words, address]) == 1
    assert f"The scheduler at {address} has no worker" in capsys.readouterr().err
