"""Grades a class: `grade_class(name, students, how)`, several submissions at a time.

The map over submissions is one function, and what runs it can be exchanged: a pool of processes
on this machine, one a core, or a cluster's executor whose workers see the same folders and
gradebook. No submission can be lost: a worker that dies takes one submission with it, which is
tried once more alone; a run that was killed is started again, and finds what is done. Where the
machine cannot grade, the run stops with a sentence that says why, and goes on when it is mended.
"""

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from grading import sandbox
from grading.build import BuildError, known, names
from grading.faults import MachineFault
from grading.judge import DEFAULT_SEED, seed_in_use
from grading.settings import Places
from grading.submission import How, Report, give_up, grade_one
from grading.tables import flat

Make = Callable[[], Executor]


def grade_class(
    name: str,
    students: Sequence[str],
    how: How | None = None,
    executor: Make | None = None,
    progress: bool = True,
) -> list[Report]:
    """Grade an exercise for a class.

    Args:
        name: the exercise, released before.
        students: their folders' names in `submitted`; whoever has none there has not submitted.
        how: places, seed, limits.
        executor: makes what runs `grade_one` for each student; called again after a worker died.
            A pool with a process a core if left out.
        progress: whether a bar is shown.

    Returns:
        the reports, in the order of the students, each once.

    Raises:
        BuildError: the machine cannot grade; who has a report by then keeps it.
    """
    from tqdm.auto import tqdm

    how, make = how or How(), executor or pool
    order = list(dict.fromkeys(students))
    done: dict[str, Report] = {}
    with tqdm(total=len(order), desc=name, unit="submission", disable=not progress) as bar:

        def settle(student: str, report: Report) -> None:
            done[student] = report
            bar.update()

        lost = spread(name, order, how, make, settle)
        while lost:
            # The first ones were under way when a worker died; one of them may have killed it.
            for student in lost[: os.cpu_count() or 1]:
                if spread(name, [student], how, make, settle):
                    settle(student, abandon(name, student, how))
            lost = spread(name, [s for s in lost if s not in done], how, make, settle)
    return [done[student] for student in order]


def spread(
    name: str, students: Sequence[str], how: How, make: Make, settle: Callable[[str, Report], None]
) -> list[str]:
    """Grade students by one executor, and return those that it lost because a worker died."""
    if not students:
        return []
    with make() as workers:
        futures = {workers.submit(grade_one, name, student, how): student for student in students}
        lost = set()
        try:
            for future in as_completed(futures):
                student = futures[future]
                try:
                    settle(student, future.result())
                except BrokenExecutor:
                    lost.add(student)
                except MachineFault as error:
                    told = "What is graded is kept; mend it, and run the same command again."
                    raise BuildError(f"Grading has stopped at {student}: {error}. {told}") from None
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            raise
    return [student for student in students if student in lost]


def abandon(name: str, student: str, how: How) -> Report:
    """The report of one whose worker died whenever it was tried; the next run tries again."""
    told = "the process that graded it died, twice; make grade tries again"
    return give_up(name, student, how, "needs manual grading", told)


def pool(workers: int | None = None) -> Executor:
    """Processes on this machine, one a core, that end with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grading.autograde"])
    return ProcessPoolExecutor(workers or os.cpu_count(), context, start_worker)


def start_worker() -> None:
    """Take one core only, and end with the process that started this one."""
    import torch

    torch.set_num_threads(1)
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
) -> int:
    """Grade exercises for everybody who handed something in, and print what came out.

    Raises:
        BuildError: there is no sandbox, or nothing to grade.
    """
    complaint = None if unsafe else sandbox.unusable()
    if complaint:
        raise BuildError(complaint)
    warn(unsafe)
    how = How(places, force=force, unsafe=unsafe)
    with alone(places):
        for name in [known(one) for one in wanted] or names():
            students = handed_in(name, places)
            check_released(name, students, places)
            if students:
                for line in summary(grade_class(name, students, how, lambda: pool(workers))):
                    print(line)
    return 0


def warn(unsafe: bool) -> None:
    """Say what is risky about this run."""
    if unsafe:
        print("warning: --unsafe: submissions run with your rights", file=sys.stderr)
    if seed_in_use() == DEFAULT_SEED:
        told = "everybody can draw the hidden inputs of the default seed; set ATTNLIB_SEED"
        print(f"warning: {told}", file=sys.stderr)


def handed_in(name: str, places: Places) -> list[str]:
    """The students with a folder for this exercise, whatever lies in it."""
    return sorted(path.parent.name for path in places.submitted.glob(f"*/{name}") if path.is_dir())


def check_released(name: str, students: Sequence[str], places: Places) -> None:
    """Make sure that the gradebook knows the exercise.

    Raises:
        BuildError: it does not.
    """
    from nbgrader.api import Gradebook, MissingEntry

    if not students:
        print(f"{name}: nobody has handed it in")
        return
    with Gradebook(places.gradebook, "attention") as gradebook:
        try:
            gradebook.find_notebook(name, name)
        except MissingEntry:
            raise BuildError(
                f"the gradebook does not know {name}; run make release NAME={name} first"
            ) from None


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
