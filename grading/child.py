"""Does what touches a student's bytes in a child process: `run(work, ...)` gives a few bytes back.

A file that was handed in, or an answer, may be made to stop, stall or fill whatever reads it. So
the process that grades a class reads none. `run` makes a copy of it, which has all that is needed
in memory; the copy takes limits on time, memory and what it may write, does the work, and hands
back bytes, of which no more than a limit are taken. Whatever goes wrong in there, an exception, a
limit or its death, is `Trouble` with one submission, and never more.

What it does not do: a child has the rights of the person who grades. No line of a student's runs in
it; those run in `grading.sandbox.run`.
"""

import ctypes
import errno
import gc
import os
import re
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 30  # of computing
MEMORY = 1 << 30  # bytes more than before
LARGEST = 32 << 20  # bytes that are handed back
WAIT = 20  # times as long as it may compute a child may last, where the machine is busy
PR_SET_PDEATHSIG = 1
DONE, TROUBLE, DISK = range(3)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)  # what no file that was read can cause


class Trouble(RuntimeError):
    """A child has not done its work. The text says why, in one line of at most 300 characters."""


def run(
    work: Callable[..., bytes],
    *args: Any,
    seconds: int = SECONDS,
    most: int = LARGEST,
    writes: int = 0,
) -> bytes:
    """What `work(*args)` gives, called in a child.

    Args:
        work, args: what is to be done; what it changes in memory is lost with the child.
        seconds: of computing.
        most: bytes that are taken back.
        writes: bytes of the largest file that it may write; 0: it writes none.

    Raises:
        Trouble: it raised something, took more than it may, or died.
        OSError: the disk cannot be used.
    """
    if sys.platform != "linux":  # where no class is graded; there are no limits
        return _ended(*_done(work, args), seconds)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons fear other threads
        child = os.fork()
    if child == 0:
        _be_child(work, args, write, seconds, writes)
    os.close(write)
    why, told = "it was stopped", bytearray()
    try:
        why = _heard(read, told, WAIT * seconds, most)
    finally:
        os.close(read)
        if why:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if why:
        raise Trouble(why)
    return _ended(status, bytes(told), seconds)


def _ended(status: int, told: bytes, seconds: int) -> bytes:
    """What work gave that ended with a status; raises what `run` does."""
    text = told[:300].decode(errors="replace")
    if status == DONE:
        return told
    if status == DISK:
        raise OSError(int(text.partition(" ")[0]), text.partition(" ")[2])
    died = f"its process died (signal {-status})"
    late = f"it took more than {seconds} s of computing"
    raise Trouble(text if status == TROUBLE else late if status == -signal.SIGXCPU else died)


def _heard(read: int, told: bytearray, seconds: float, most: int) -> str:
    """Read to the end; why there is none, if there is none."""
    until = time.monotonic() + seconds
    poll = select.poll()
    poll.register(read, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(read, 1 << 16)
        told += piece
        if not piece:
            return ""
        if len(told) > most:
            return f"it gives more than {most:,} bytes"
    return f"it took more than {seconds} s"


def _done(work: Callable[..., bytes], args: Any) -> tuple[int, bytes]:
    """How work ends, and what it gives, or what is wrong."""
    try:
        return DONE, work(*args)
    except MemoryError:
        return TROUBLE, f"it takes more than {MEMORY >> 20:,} MB of memory".encode()
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in FULL:
            return DISK, f"{error.errno} {error.strerror}".encode()
        text = " ".join(f"{type(error).__name__}: {error}"[:300].split())
        return TROUBLE, text.encode(errors="replace")


def _be_child(
    work: Callable[..., bytes], args: Any, write: int, seconds: int, writes: int
) -> NoReturn:
    """Take limits, do the work, hand back what it gives, and end."""
    status = TROUBLE
    with suppress(BaseException), open(write, "wb") as file:
        try:
            _confine(seconds, writes)
        except (OSError, ValueError) as error:  # the machine's: without limits nothing is read
            ended, told = DISK, f"{errno.EPERM} no limits can be taken: {error}".encode()
        else:
            ended, told = _done(work, args)
        file.write(told)
        file.flush()
        status = ended
    os._exit(status)


def _confine(seconds: int, writes: int) -> None:
    """Take limits, and end with the parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    held = re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())
    data = MEMORY + (int(held[1]) << 10 if held else 0)
    limits = {"CPU": seconds, "DATA": data, "FSIZE": writes, "CORE": 0}
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))
    warnings.simplefilter("ignore")  # of what is read, old and odd
    gc.freeze()  # what was there before stays shared
