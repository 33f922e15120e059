"""What stands in place of `submission.grade` in a worker; light, as each worker imports it."""

import os
import signal
import time

from grading.desk.submission import Graded, Work, about, grade
from grading.judging.report import GRADED, TIMED_OUT, Line, Report
from grading.release.build import points


def report(work: Work, share: float = 1.0, status: str = GRADED, reason: str = "") -> Graded:
    """A work whose every task has a share of its points, and a status."""
    tasks = {
        task: Line(share * most, most, status, reason)
        for task, most in points(work.exercise).items()
    }
    return Graded(about(work, Report(status, reason, tasks)), b"{}")


def canned(work: Work) -> Graded:
    """Points as the bytes say: the model solution has all, the blank none, others a half."""
    if not work.student:
        return report(work, float(b"BEGIN SOLUTION" in work.content))
    return report(work, 0.5)


def deadly(work: Work) -> Graded:
    """A submission that kills the process that grades it; the others as they were."""
    if work.content == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return canned(work)


def slow(work: Work) -> Graded:
    """A submission that times out; the others as they were."""
    if work.content == b"slow":
        return report(work, 0.0, TIMED_OUT, "timed out after 15 s of computing in cell 5")
    return canned(work)


def now_and_then(work: Work) -> Graded:
    """A notebook is graded as it should be, in a sandbox; other files are not opened."""
    if work.student and work.content.startswith(b"{"):
        return grade(work)
    time.sleep(0.3)
    return canned(work)
