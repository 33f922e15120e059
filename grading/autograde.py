"""Grades a class: `grade_class(name, students, how)`, several submissions at a time.

Each submission goes to and fro between a desk and workers. The desk is this machine's: processes
that read what was handed in, judge, and write to the gradebook. A worker gets a job of bytes, runs
it in a sandbox and returns bytes (`sandbox.execute`): it needs neither folders nor gradebook nor
seed, so it may be anywhere (`grading.cluster`). On one machine the desk's processes do both.

No submission can be lost, and none can stop the class: one whose worker died, or that could not be
processed for whatever reason, is tried once more alone. If that fails too, the exercise is graded
as it was handed out, by nobody: what stops that as well is the machine, and the run ends with a
sentence that says why; else the submission waits for a person, and the class goes on. A run that
was killed or has stopped is started again, and finds what is done.
"""

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from grading import cluster, sandbox, warm
from grading.build import BuildError, known, names
from grading.child import Trouble
from grading.faults import MachineFault, sentence
from grading.judge import DEFAULT_SEED, seed_in_use
from grading.preprocess import key
from grading.sandbox import SandboxError
from grading.settings import Places
from grading.submission import How, Report, give_up, rehearse, step
from grading.tables import flat
from grading.watch import Doubt

Make = Callable[[], Executor]
Settle = Callable[[str, Report], None]
Staff = Callable[[], AbstractContextManager[tuple[Executor, Executor]]]
PATIENCE = 60.0  # seconds without any news, after which we see whether there are workers
MOST_LOST = 3  # submissions that failed, after which they are tried again before others
DIED = "the process that graded it died, twice"
FAULTS = (MachineFault, SandboxError, cluster.Fault)
KEPT = "What is graded is kept; mend it, and run the same command again."


def grade_class(
    name: str,
    students: Sequence[str],
    how: How | None = None,
    desk: Make | None = None,
    workers: Make | None = None,
    progress: bool = True,
) -> list[Report]:
    """Grade an exercise for a class.

    Args:
        name: the exercise, released before.
        students: their folders' names in `submitted`; whoever has none there has not submitted.
        how: places, seed, limits.
        desk: makes what prepares and judges; called again after one of its processes died.
            A pool with a process a core if left out.
        workers: makes what runs the sandboxes; the desk does that too if left out.
        progress: whether a bar is shown.

    Returns:
        the reports, in the order of the students, each once.

    Raises:
        BuildError: the machine cannot grade; who has a report by then keeps it.
    """
    from tqdm.auto import tqdm

    how, staff = how or How(), partial(staffed, desk or pool, workers)
    order = list(dict.fromkeys(students))
    done: dict[str, Report] = {}
    with tqdm(total=len(order), desc=name, unit="submission", disable=not progress) as bar:

        def settle(student: str, report: Report) -> None:
            done[student] = report
            bar.update()

        while left := [student for student in order if student not in done]:
            # One of those that are lost may have killed its worker: alone, it takes nobody with it.
            for student in spread(name, left, how, staff, settle):
                if again := spread(name, [student], how, staff, settle):
                    blame(name, student, how, staff)
                    settle(student, give_up(name, student, how, again[student]))
    return [done[student] for student in order]


@contextmanager
def staffed(desk: Make, workers: Make | None) -> Iterator[tuple[Executor, Executor]]:
    """A desk and its workers, which end at once if something is raised."""
    with ExitStack() as stack:
        here = stack.enter_context(desk())
        there = stack.enter_context(workers()) if workers else here
        try:
            yield here, there
        except BaseException:
            for one in (here, there):
                one.shutdown(wait=False, cancel_futures=True)
            raise


def spread(
    name: str, students: Sequence[str], how: How, staff: Staff, settle: Settle
) -> dict[str, str]:
    """Grade students until some are lost; those that are to be tried again, and why."""
    with staff() as (here, there):
        way = Way(name, how, here, there, settle)
        way.go(students)
    return way.lost


def blame(name: str, student: str, how: How, staff: Staff) -> None:
    """Find out whether it is the machine's fault that a student cannot be graded.

    Raises:
        BuildError: it is: the exercise as it was handed out cannot be graded either.
    """
    with staff() as (here, there):
        try:
            job = here.submit(rehearse, name, how, {}).result()
            answers = {key(job): there.submit(sandbox.execute, job).result()}
            here.submit(rehearse, name, how, answers).result()
        except (*FAULTS, Trouble, BrokenExecutor) as error:
            raise stopped(student, error, how) from None


def stopped(student: str, error: BaseException, how: How) -> BuildError:
    """What is raised where the machine cannot grade."""
    fault = isinstance(error, SandboxError)
    told = sentence(error, how.places.home) if fault else str(error) or DIED
    return BuildError(f"Grading has stopped at {student}: {told}. {KEPT}")


@dataclass
class Way:
    """Submissions under way: never more than a few for each worker.

    Attributes:
        desk: runs `submission.step`.
        workers: run `sandbox.execute`.
        settle: called with each report.
        under_way: the student for whom each call is waited for, and the job that it runs, if any.
        lost: the students who are to be tried again, each with the reason.
        broken: whether there is a process less, so that nobody new begins.
    """

    name: str
    how: How
    desk: Executor
    workers: Executor
    settle: Settle
    under_way: dict[Future[Any], tuple[str, bytes]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    broken: bool = False

    def go(self, students: Sequence[str]) -> None:
        """Grade students one after the other, until all are done or a process has died."""
        waiting = iter(students)
        while True:
            full = self.broken or len(self.lost) >= MOST_LOST
            room = 0 if full else self.room() - len(self.under_way)
            for student in islice(waiting, max(0, room)):
                self.send(student, b"", self.desk, step, self.name, student, self.how, {})
            if not self.under_way:
                return
            ended = wait(self.under_way, PATIENCE, "FIRST_COMPLETED").done
            if not ended and not size(self.workers):
                raise BuildError(f"Grading has stopped: the cluster has no worker any more. {KEPT}")
            for future in ended:
                self.take(future, *self.under_way.pop(future))

    def room(self) -> int:
        """How many submissions may be under way."""
        if self.workers is self.desk:
            return size(self.desk) + 2
        return 2 * size(self.workers) + size(self.desk)

    def send(self, student: str, job: bytes, to: Executor, *call: Any) -> None:
        """Have something done for a student."""
        try:
            self.under_way[to.submit(*call)] = (student, job)
        except BrokenExecutor:  # it was not under way there, and has its turn with a new one
            self.broken = True

    def take(self, future: Future[Any], student: str, job: bytes) -> None:
        """Go on with a student after a call has ended.

        Raises:
            BuildError: the machine, or a worker's, cannot grade.
        """
        try:
            found = future.result()
        except (Trouble, Doubt) as error:
            self.lost[student] = str(error)
            return
        except FAULTS as error:
            raise stopped(student, error, self.how) from None
        except BrokenExecutor:
            self.broken, self.lost[student] = True, DIED
            return
        if job:
            answers = {key(job): found}
            self.send(student, b"", self.desk, step, self.name, student, self.how, answers)
        elif isinstance(found, bytes):
            self.send(student, found, self.workers, sandbox.execute, found)
        else:
            self.settle(student, found)


def size(executor: Executor) -> int:
    """How many calls an executor runs at a time."""
    workers: int = getattr(executor, "_max_workers", 1)
    return workers


def pool(workers: int | None = None) -> Executor:
    """Processes on this machine, one a core, that end with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grading.autograde"])
    return ProcessPoolExecutor(workers or os.cpu_count(), context, start_worker)


def start_worker() -> None:
    """Take one core only, and end with the process that started this one."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait for the end of a run that was killed; without this its workers would go on waiting."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)


# the command


def grade(
    wanted: Sequence[str],
    places: Places,
    force: bool = False,
    unsafe: bool = False,
    workers: int | None = None,
    scheduler: str = "",
) -> int:
    """Grade exercises for everybody who handed something in, and print what came out.

    Args:
        wanted: the exercises; all if none is named.
        places: where the class is kept.
        force: grade again what is graded already.
        unsafe: without a sandbox.
        workers: how many processes of this machine; one a core if left out.
        scheduler: the address of a cluster that runs the sandboxes; this machine if left out.

    Raises:
        BuildError: there is no sandbox, no such cluster, or nothing to grade.
    """
    complaint = None if unsafe or scheduler else sandbox.unusable()
    if complaint:
        raise BuildError(complaint)
    warn(unsafe, bool(scheduler))
    how = How(places, force=force, unsafe=unsafe)
    with alone(places), cluster.connected(scheduler) as elsewhere:
        for name in [known(one) for one in wanted] or names():
            if not (students := handed_in(name, places)):
                print(f"{name}: nobody has handed it in")
            else:
                reports = grade_class(name, students, how, lambda: pool(workers), elsewhere)
                print("\n".join(summary(reports)))
    return 0


def warn(unsafe: bool, elsewhere: bool = False) -> None:
    """Say what is risky about this run, and what is slow."""
    if unsafe:
        print("warning: --unsafe: submissions run with your rights", file=sys.stderr)
    elif not elsewhere and (reason := warm.cold()):
        told = "each submission starts an interpreter of its own, and takes a second longer"
        print(f"warning: {told}: {reason}", file=sys.stderr)
    if seed_in_use() == DEFAULT_SEED:
        told = "everybody can draw the hidden inputs of the default seed; set ATTNLIB_SEED"
        print(f"warning: {told}", file=sys.stderr)


def handed_in(name: str, places: Places) -> list[str]:
    """The students with a folder for this exercise, whatever lies in it."""
    return sorted(path.parent.name for path in places.submitted.glob(f"*/{name}") if path.is_dir())


@contextmanager
def alone(places: Places) -> Iterator[None]:
    """Hold off a second run over the same class.

    Raises:
        BuildError: there is one already.
    """
    places.autograded.mkdir(parents=True, exist_ok=True)
    with (places.autograded / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"another run is grading in {places.home}; wait for it") from None
        yield


def summary(reports: Sequence[Report]) -> list[str]:
    """How many ended in which way, and a line for each that did not end well."""
    count: dict[str, int] = {}
    for report in reports:
        count[report["status"]] = count.get(report["status"], 0) + 1
    lines = [", ".join(f"{number} {status}" for status, number in sorted(count.items()))]
    for report in reports:
        told: list[Any] = [report["reason"], *report["notes"]]
        if any(told):
            lines.append(f"  {report['student']}: {flat('; '.join(filter(None, told)))[:300]}")
    return lines
