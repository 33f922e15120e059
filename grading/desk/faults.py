"""Faults of the machine that grades: what they are, in a sentence.

A full disk, too little memory, a gradebook that is locked or broken, a sandbox that does not start:
none of them says anything about a submission. So none may end in a verdict.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from grading.sandbox.watch import SandboxError

MACHINES = (OSError, MemoryError, SandboxError, SQLAlchemyError)


class MachineFault(RuntimeError):
    """The machine cannot grade; nothing is said about the submission. The text says what to do."""


def sentence(error: BaseException, home: Path) -> str:
    """A fault of the machine in a sentence, with what to do about it."""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, SQLAlchemyError):
        text = f"the gradebook cannot be used ({str(getattr(error, 'orig', None) or text)[:200]})"
        remedy = "see that no other program holds it, or put back a copy of it"
    elif isinstance(error, MemoryError):
        text, remedy = "there is not enough memory", "free some, or grade with fewer workers"
    elif isinstance(error, SandboxError):
        remedy = "see whether the machine has memory, room on its disk, and a working bubblewrap"
    else:
        remedy = f"see whether there is room on the disk, and that {home} can be written"
    return f"{text}; {remedy}"


def patiently(work: Callable[[], None], seconds: float) -> None:
    """Do some work with the gradebook; again, if somebody else had locked it."""
    until = time.monotonic() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's own, about its way with SQLAlchemy
        while True:
            try:
                return work()
            except OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.1)
