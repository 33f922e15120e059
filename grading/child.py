"""Does what touches a student's bytes in a child process: `run(work, ...)` gives a few bytes back.

A file that was handed in, or an answer, may be made to stop, stall or fill whatever reads it. So
the process that grades a class reads none. `run` makes a copy of it, which has all that is needed
in memory; the copy takes limits on time, memory and what it may write, does the work, and hands
back bytes, of which no more than a limit are taken. Whatever goes wrong in there, an exception, a
limit or its death, is `Trouble` with one submission, and never more.

What it does not do: a child has the rights of the person who grades. No line of a student's runs in
it; those run in `grading.sandbox`.
"""

import ctypes
import errno
import gc
import os
import re
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

SECONDS, MEMORY, LARGEST = (
    30,
    1 << 30,
    32 << 20,
)  # of computing; bytes more than before; handed back
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
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons fear other threads
        child = os.fork()
    if child == 0:
        _do(work, args, write, seconds, writes)
    os.close(write)
    why, told = "it was stopped", bytearray()
    try:
        why = _heard(read, told, WAIT * seconds, most)
    finally:
        os.close(read)
        if why:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == DONE and not why:
        return bytes(told)
    text = bytes(told[:300]).decode(errors="replace")
    if status == DISK and not why:
        raise OSError(int(text.partition(" ")[0]), text.partition(" ")[2])
    if status == -signal.SIGXCPU:
        why = f"it took more than {seconds} s of computing"
    raise Trouble(why or (text if status == TROUBLE else f"its process died (signal {-status})"))


def _heard(read: int, told: bytearray, seconds: float, most: int) -> str:
    """Read to the end; why there is none, if there is none."""
    until = time.monotonic() + seconds
    while select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(read, 1 << 16)
        told += piece
        if not piece:
            return ""
        if len(told) > most:
            return f"it gives more than {most:,} bytes"
    return f"it took more than {seconds} s"


def _do(work: Callable[..., bytes], args: Any, write: int, seconds: int, writes: int) -> NoReturn:
    """Be the child."""
    status, told = TROUBLE, b""
    try:
        _confine(seconds, writes)
        told, status = work(*args), DONE
    except MemoryError:
        told = f"it takes more than {MEMORY >> 20:,} MB of memory".encode()
    except BaseException as error:
        text = " ".join(f"{type(error).__name__}: {error}"[:300].split())
        told = text.encode(errors="replace")
        if isinstance(error, OSError) and error.errno in FULL:
            status, told = DISK, f"{error.errno} {error.strerror}".encode()
    finally:
        with suppress(BaseException), open(write, "wb") as file:
            file.write(told)
            file.flush()
            os._exit(status)
        os._exit(TROUBLE)


def _confine(seconds: int, writes: int) -> None:
    """Take limits, and end with the parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    held = re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())
    before = int(held[1]) << 10 if held else 0
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))  # the signal tells it apart
    resource.setrlimit(resource.RLIMIT_DATA, (before + MEMORY, before + MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (writes, writes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")  # of what is read, old and odd
    gc.freeze()  # what was there before stays shared
