"""Runs a submission's cells where they can do no harm: `execute(job) -> Told`.

The submission is a stranger's program. It may try to read the solutions, other submissions and
the gradebook, to call the network, to fill memory or disk, to never end, and to write its own
marks. So its kernel, and the client that drives the kernel (`grading.sandbox.inside`), run in one
`bubblewrap` that is made for them and ends with them:

- no network, and process, IPC and host-name namespaces of its own (`grading.sandbox.fence`);
- of the file system only /usr, the Python environment with the packages that an answer may use
  (`grading.sandbox.packages`), and of `attnlib` the folder `check` are there, all read-only; /tmp,
  /dev/shm and the home folder are memory of limited size;
- no rights, an environment of our own, and never root;
- limits on address space, file size and threads that are inherited, a filter of system calls
  (`grading.sandbox.calls`), and a watch from outside on the memory and processes of the whole tree,
  on its time and on its output (`grading.sandbox.watch`);
- nothing outside can be written: the job goes in and lines come out through pipes.

What comes through the pipe is the student's word. `grading.judging` makes it harmless and decides.

What it does not do: a hole in the machine's kernel, in a call that the filter allows, is one here.
An unsafe job runs with the limits only, on machines without bubblewrap.
"""

import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlib.check import MIME
from grading.sandbox import packages
from grading.sandbox.fence import COURSE, HOME, WRITABLE, environment, fence, python
from grading.sandbox.watch import Doubt, Limits, SandboxError, Watched, watch

HERE = Path(__file__).resolve().parent
STARTED = b'{"started": true}'
STATUSES = ("finished", "crashed", "timed out")
END = 4000  # bytes that the last line of a run may have


@dataclass(frozen=True)
class Job:
    """What is to be run, and what it finds there.

    Attributes:
        cells: the code cells, each with its index in the notebook.
        hidden: encoded inputs by task, which `check` hands to the answers; no answers.
        folder: the name of the folder in which it runs.
        files: the texts of the files in that folder, by name.
        limits: what it may use.
        unsafe: without bubblewrap: strangers' code then runs with your rights.
    """

    cells: tuple[tuple[int, str], ...]
    hidden: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "notebook"
    files: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False


@dataclass(frozen=True)
class Told:
    """What is known of a run.

    Attributes:
        lines: what came from inside, one JSON object a line (see `grading.sandbox.inside`), if the
            student has not made it something else: hostile bytes.
        status: "finished", "crashed", or "timed out", also if a cell was interrupted for its time
            and later ones have run.
        reason: one sentence, empty if it finished; it may be the student's, too.
        seconds: by the clock.
    """

    lines: bytes
    status: str
    reason: str
    seconds: float


def execute(job: Job) -> Told:
    """Run all cells of a job in order, in a sandbox of its own on this machine.

    Raises:
        SandboxError: this machine has no sandbox; the text names the machine and says why.
        Doubt: the sandbox did not start, or the machine's memory ran out, for whatever reason.

    >>> told = execute(Job(cells=((0, "print(1 + 1)"),), unsafe=True))
    >>> told.status, "2" in str(told.lines)
    ('finished', True)
    """
    started, killed = time.monotonic(), killed_for_memory()
    try:
        watched = unfenced(job) if job.unsafe else fenced(job)
    except SandboxError as error:
        raise SandboxError(f"on {socket.gethostname()}: {error}") from error
    except (OSError, MemoryError) as error:
        raise no_start(error or "no memory") from error
    if not watched.lines.startswith(STARTED):  # the client's own, before any line of the student's
        raise no_start(watched.reason)
    status, reason = ending(watched)
    if status != "finished" and killed_for_memory() > killed:
        told = "the machine has run out of memory, and has killed what it chose"
        raise Doubt(f"on {socket.gethostname()}: {told}")
    return Told(watched.lines, status, reason, time.monotonic() - started)


def no_start(why: object) -> Doubt:
    """What is raised where a sandbox has not started."""
    return Doubt(f"on {socket.gethostname()}: the sandbox did not start: {why}")


def ending(watched: Watched) -> tuple[str, str]:
    """The status and the reason of a run: as the client says at its end, or as it was ended."""
    line = watched.lines[-END:].rstrip().rpartition(b"\n")[2]
    try:
        said = json.loads(line)
        status, reason = said["end"], str(said["reason"])[:500]
    except (ValueError, LookupError, TypeError, RecursionError):
        return watched.status, watched.reason
    return (status, reason) if status in STATUSES else (watched.status, watched.reason)


def fenced(job: Job) -> Watched:
    """Run a job in a bubblewrap and an interpreter of its own."""
    with fence(job.limits) as (argv, rules):
        argv = [*argv, *client("/tmp")]
        return watch(argv, environment(HOME), inner(job), job.limits, [rules], WRITABLE)


def unfenced(job: Job) -> Watched:
    """Run a job with the limits only, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="attnlib-", ignore_cleanup_errors=True) as folder:
        library, work = Path(folder, "library/attnlib"), Path(folder, "work")
        library.mkdir(parents=True)
        work.mkdir()
        (library / "__init__.py").touch()  # so that it comes before one that is installed
        (library / "check").symlink_to(COURSE / "attnlib/check")
        variables = environment(str(work)) | {"PYTHONPATH": str(library.parent)}
        return watch(client(str(work)), variables, inner(job), job.limits)


def client(work: str) -> list[str]:
    """The command line of the program inside, which drives the kernel; `work` is its folder."""
    source = (HERE / "inside.py").read_text(encoding="utf-8")
    return [python(), "-I", "-B", "-c", source, work]


def inner(job: Job) -> str:
    """All that the client gets to know, as JSON."""
    root = os.geteuid() == 0 and not job.unsafe
    rlimits = {
        "RLIMIT_AS": job.limits.address_space,
        "RLIMIT_FSIZE": job.limits.file,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 128,
    }
    if not job.unsafe:  # there it would count all processes of the person who grades
        rlimits["RLIMIT_NPROC"] = job.limits.threads
    content = {
        "cells": job.cells,
        "rlimits": rlimits,
        "uid": nobody() if root else None,
        "cell_seconds": job.limits.cell_seconds,
        "cell_patience": job.limits.cell_patience,
        "folder": job.folder,
        "files": dict(job.files),
        "answers": MIME,
        "kernel": (HERE / "kernel.py").read_text(encoding="utf-8"),
        "settings": {"hidden": dict(job.hidden), "absent": packages.absent()},
    }
    return json.dumps(content)


def nobody() -> int:
    """A user of the machine whom nobody is: root is not held by limits, and owns files.

    The numbers are those that systemd gives to services for the time that they run. Submissions
    that run at the same time get different ones, for limits on threads are a user's.
    """
    return 61_184 + threading.get_native_id() % 4_000


def killed_for_memory() -> int:
    """How often this machine's kernel has killed a process because memory ran out."""
    try:
        lines = Path("/proc/vmstat").read_text().split("\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def unusable() -> str | None:
    """Why this machine cannot run submissions safely, or None if it can."""
    try:
        with fence(Limits()) as (argv, rules):
            argv = [*argv, python(), "-I", "-c", ""]
            tried = subprocess.run(argv, capture_output=True, text=True, pass_fds=[rules])
    except SandboxError as error:
        return str(error)
    if tried.returncode:
        return (
            "bubblewrap does not work on this machine (version 0.7 or newer is needed, and user "
            f"namespaces, or root with CAP_SYS_ADMIN): {tried.stderr.strip()}. In a container, "
            "allow them; see the page for teachers. --unsafe would run without it."
        )
    return None
