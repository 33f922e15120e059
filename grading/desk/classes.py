"""Grades a class: `grade_class(name, students, how, make)`, several submissions at a time.

Before anybody is graded comes a rehearsal: the model solution must earn every point in the same
sandbox under the same seed, and the blank exercise none. Otherwise nothing is graded.

The class runs over one executor of `concurrent.futures`' kind: processes of this machine, or the
workers of a dask cluster (`grading.desk.cluster`). What it runs is `submission.grade`; this process
alone reads the class's folders and writes to them.

No submission can be lost, and none can stop the class. What timed out, what could not be processed,
and what died with its worker is tried once more alone. After that it waits for a person, unless the
rehearsal fails now, too: then it is the machine, and the run ends with a sentence that says why. A
run that was killed or has stopped is started again, and finds what is done.
"""

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from grading.child import Trouble
from grading.desk import cluster
from grading.desk.faults import MachineFault, sentence
from grading.desk.records import How, earlier_report, keep, work_of
from grading.desk.submission import UNPROCESSED, Graded, Work, grade, waiting
from grading.judging.report import ABSENT, PERSON, TIMED_OUT, UNREAD, Line, Report
from grading.release.build import BuildError, known, names, points
from grading.sandbox.run import unusable
from grading.sandbox.watch import Doubt, Limits, SandboxError
from grading.settings import ROOT, Places
from grading.tables import WIDEST, clipped, flat
from grading.tasks import exercise
from grading.tasks.hidden import DEFAULT_SEED, seed_in_use

Make = Callable[[], Executor]
PATIENCE = 60.0  # seconds without any news, after which we see whether there are workers
MOST_LOST = 3  # submissions that failed, after which they are tried again before others
DIED = "the process that graded it died, twice"
FAULTS = (MachineFault, SandboxError, cluster.Fault)
KEPT = "What is graded is kept; mend it, and run the same command again."


# the rehearsal


def rehearse(name: str, how: How, executor: Executor) -> None:
    """Grade the model solution and the blank exercise, of which nothing is kept.

    Raises:
        BuildError: a task does not give the solution all its points, or gives the blank some.
    """
    model = (ROOT / "solutions" / name / f"{name}.ipynb").read_bytes()
    blank = (ROOT / "exercises" / name / f"{name}.ipynb").read_bytes()
    works = [
        Work(name, "", content, how.seed, how.limits, how.unsafe) for content in (model, blank)
    ]
    futures = [executor.submit(grade, work) for work in works]
    solved, empty = (result(future, executor).report for future in futures)
    complaints = [
        f"the model solution of {task} earns {solved.tasks[task].points:g} of "
        f"{solved.tasks[task].most:g} points ({solved.tasks[task].reason})"
        for task in exercise(name)
        if solved.tasks[task].points < solved.tasks[task].most
    ] + [
        f"the blank exercise earns {empty.tasks[task].points:g} points for {task}"
        for task in exercise(name)
        if empty.tasks[task].points > 0
    ]
    if complaints:
        told = "; ".join(complaints)
        raise BuildError(
            f"Nothing of {name} is graded, because its rehearsal failed: {told}. Mend the task in "
            f"grading/tasks/ch{name[:2]}.py or its solution, and run the same command again."
        )


def rehearsed(name: str, how: How, make: Make) -> None:
    """Rehearse with an executor of its own.

    Raises:
        BuildError: as `rehearse`, or the machine cannot grade.
    """
    try:
        with staffed(make) as executor:
            rehearse(name, how, executor)
    except (*FAULTS, Trouble, BrokenExecutor) as error:
        text = str(error) or "its process died"
        raise BuildError(f"Nothing of {name} is graded, its rehearsal failed: {text}") from None


# a class


def grade_class(
    name: str,
    students: Sequence[str],
    how: How | None = None,
    make: Make | None = None,
    progress: bool = True,
) -> list[Report]:
    """Grade an exercise for a class.

    Args:
        name: the exercise, released before.
        students: their folders' names in `submitted`; whoever has none there has not submitted.
        how: places, seed, limits.
        make: makes an executor; called again after one of its processes died. A pool with a
            process a core if left out.
        progress: whether a bar is shown.

    Returns:
        the reports, in the order of the students, each once.

    Raises:
        BuildError: the machine cannot grade; who has a report by then keeps it.
    """
    from tqdm.auto import tqdm

    how, make = how or How(), make or pool
    order = list(dict.fromkeys(students))
    done = {student: report for student in order if (report := settled(name, student, how))}
    left = [student for student in order if student not in done]
    if left:
        rehearsed(name, how, make)
    with tqdm(total=len(order), desc=name, unit="submission", disable=not progress) as bar:
        bar.update(len(done))
        while left:
            run, before = Run(name, how), len(done)
            with staffed(make) as executor:
                for report in run.reports(left, executor):
                    done[report.student] = report
                    bar.update()
            if len(done) == before and not run.again:
                raise BuildError(
                    f"Grading has stopped: the processes that grade end at once. {KEPT}"
                )
            for student in run.again:  # alone, none of them takes another one with it
                done[student] = alone(name, student, how, make)
                bar.update()
            left = [student for student in order if student not in done]
    return [done[student] for student in order]


def settled(name: str, student: str, how: How) -> Report | None:
    """The report of a student for whom nothing is to be run.

    Raises:
        BuildError: the file cannot be read.
    """
    try:
        work = work_of(name, student, how)
    except MachineFault as error:
        raise stopped(student, error, how) from None
    if work is not None:
        return earlier_report(work, how)
    reason = "nothing was handed in"
    tasks = {task: Line(0.0, most, ABSENT, reason) for task, most in points(name).items()}
    return Report(ABSENT, reason, tasks, exercise=name, student=student)


@contextmanager
def staffed(make: Make) -> Iterator[Executor]:
    """An executor, which ends at once if something is raised."""
    with make() as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass
class Run:
    """One run of submissions through an executor, never more than a few for each worker.

    Attributes:
        again: the students who are to be tried once more alone.
        broken: whether a process has died, so that nobody new begins.
    """

    name: str
    how: How
    again: list[str] = field(default_factory=list)
    broken: bool = False

    def reports(self, students: Sequence[str], executor: Executor) -> Iterator[Report]:
        """The reports as they come, written; until all are done or a process has died.

        Raises:
            BuildError: the machine, or a worker's, cannot grade.
        """
        waiting, under_way = iter(students), dict[Future[Graded], str]()
        while True:
            while len(under_way) < 2 * size(executor) + 2 and not self.full:
                if (student := next(waiting, None)) is None:
                    break
                self.send(student, executor, under_way)
            if not under_way:
                return
            ended = news(under_way, executor)
            for future in sorted(ended, key=failed):  # what is done is kept before anything stops
                if report := self.take(under_way.pop(future), future):
                    yield report

    @property
    def full(self) -> bool:
        """Whether nobody new begins, before those who are lost are tried again."""
        return self.broken or len(self.again) >= MOST_LOST

    def send(self, student: str, executor: Executor, under_way: dict[Future[Graded], str]) -> None:
        """Have a student's work graded."""
        try:
            work = present(self.name, student, self.how)
            under_way[executor.submit(grade, work)] = student
        except BrokenExecutor:
            self.broken = True  # who was not under way yet has a turn with the next executor
        except FAULTS as error:
            raise stopped(student, error, self.how) from None

    def take(self, student: str, future: Future[Graded]) -> Report | None:
        """The written report of a work that has ended, or None if it is to be tried again."""
        try:
            graded = future.result()
            if timed_out(graded.report):
                self.again.append(student)
                return None
            return keep(graded, self.how)
        except (Trouble, Doubt):
            self.again.append(student)
        except BrokenExecutor:
            self.broken = True
            self.again.append(student)
        except FAULTS as error:
            raise stopped(student, error, self.how) from None
        return None


def present(name: str, student: str, how: How) -> Work:
    """The work of a student who had handed something in when the run began.

    Raises:
        MachineFault: the file has gone, or cannot be read.
    """
    work = work_of(name, student, how)
    if work is None:
        raise MachineFault(f"the file of {student} has gone since this run began; put it back")
    return work


def failed(future: Future[Graded]) -> bool:
    """Whether a call has ended with an exception."""
    return future.exception() is not None


def alone(name: str, student: str, how: How, make: Make) -> Report:
    """Grade a student's work once more, while nothing else runs; then it waits for a person.

    Raises:
        BuildError: it is the machine's fault: the rehearsal fails, too.
    """
    try:
        work = present(name, student, how)
        work = replace(work, limits=impatient(work.limits))
        try:
            with staffed(make) as executor:
                graded = result(executor.submit(grade, work), executor)
        except (Trouble, Doubt, BrokenExecutor) as error:
            rehearsed(name, how, make)
            text = DIED if isinstance(error, BrokenExecutor) else str(error)
            reason = f"{UNPROCESSED}, a person has to look at it: {text}"
            graded = Graded(waiting(work, reason))
        return keep(replace(graded, report=for_a_person(graded.report)), how)
    except FAULTS as error:
        raise stopped(student, error, how) from None


def impatient(limits: Limits) -> Limits:
    """Limits for a second try, when nothing else runs: by the clock, twice what may be computed."""
    return replace(
        limits,
        cell_patience=min(limits.cell_patience, 2 * limits.cell_seconds),
        total_patience=min(limits.total_patience, 2 * limits.total_seconds),
    )


def timed_out(report: Report) -> bool:
    """Whether time ran out, in the whole or in a task."""
    statuses = [report.status, *(line.status for line in report.tasks.values())]
    return TIMED_OUT in statuses


def for_a_person(report: Report) -> Report:
    """A report whose tasks that timed out, for the second time, wait for a person."""
    if not timed_out(report):
        return report
    lines = {
        task: replace(line, status=PERSON, reason=f"twice: {line.reason}")
        if line.status == TIMED_OUT
        else line
        for task, line in report.tasks.items()
    }
    return replace(report, status=PERSON, tasks=lines)


def stopped(student: str, error: BaseException, how: How) -> BuildError:
    """What is raised where the machine cannot grade."""
    fault = isinstance(error, SandboxError)
    text = sentence(error, how.places.home) if fault else str(error) or DIED
    return BuildError(f"Grading has stopped at {student}: {text}. {KEPT}")


# executors


def news(futures: Collection[Future[Graded]], executor: Executor) -> set[Future[Graded]]:
    """The calls that have ended, as soon as one has; none if there is no news for a while.

    Raises:
        BuildError: nobody is there to work on them.
    """
    ended = wait(futures, PATIENCE, "FIRST_COMPLETED").done
    if not ended and not size(executor):
        raise BuildError(f"Grading has stopped: the cluster has no worker any more. {KEPT}")
    return ended


def result(future: Future[Graded], executor: Executor) -> Graded:
    """What a call gives, or raises."""
    while not news([future], executor):
        continue
    return future.result()


def size(executor: Executor) -> int:
    """How many calls an executor runs at a time."""
    workers: int = getattr(executor, "_max_workers", 1)
    return workers


def pool(workers: int | None = None) -> Executor:
    """Processes on this machine, one a core, that end with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grading.desk.classes"])
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


def grade_all(
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
        scheduler: the address of a cluster that grades; this machine if left out.

    Raises:
        BuildError: there is no sandbox, no such cluster, or nothing can be graded.
    """
    complaint = None if unsafe or scheduler else unusable()
    if complaint:
        raise BuildError(complaint)
    warn(unsafe)
    how = How(places, force=force, unsafe=unsafe)
    with only_run(places), cluster.connected(scheduler) as elsewhere:
        make = elsewhere or partial(pool, workers)
        for name in [known(name) for name in wanted] or names():
            if not (students := handed_in(name, places)):
                print(f"{name}: nobody has handed it in")
            else:
                print("\n".join(summary(grade_class(name, students, how, make))))
    return 0


def warn(unsafe: bool) -> None:
    """Say what is risky about this run."""
    if unsafe:
        print("warning: --unsafe: submissions run with your rights", file=sys.stderr)
    if seed_in_use() == DEFAULT_SEED:
        text = "everybody can draw the hidden inputs of the default seed; set ATTNLIB_SEED"
        print(f"warning: {text}", file=sys.stderr)


def handed_in(name: str, places: Places) -> list[str]:
    """The students with a folder for this exercise, whatever lies in it."""
    return sorted(path.parent.name for path in places.submitted.glob(f"*/{name}") if path.is_dir())


@contextmanager
def only_run(places: Places) -> Iterator[None]:
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
    """How many ended in which way, and a line for each that a person may want to look at."""
    count: dict[str, int] = {}
    for report in reports:
        count[report.status] = count.get(report.status, 0) + 1
    lines = [", ".join(f"{number} {status}" for status, number in sorted(count.items()))]
    for report in reports:
        text = "; ".join(filter(None, [report.reason, *doubtful(report), *report.notes]))
        if text:
            lines.append(f"  {report.student}: {clipped(flat(text), WIDEST)}")
    return lines


def doubtful(report: Report) -> list[str]:
    """Of which tasks it is not sure what they earn, and why; without texts that are to be read."""
    return [
        f"{task}: {line.reason}"
        for task, line in report.tasks.items()
        if line.status == PERSON
        and line.reason != UNREAD
        and not (report.reason and report.reason in line.reason)
    ]
