"""Starts a process, reads what it tells, and ends it when it takes more than it may.

`watch(argv, environment, limits)` looks at the whole tree of processes ten times a second, from
outside: none of them can hide from it, or stop it. What they write is read as bytes up to a
limit, and nothing of it is believed.

What it does not see is memory that no process maps. The filter of system calls lets none be made
but files in folders of limited size, and what pipes and sockets hold. Where the machine's kernel
lets us make control groups (`grading.cgroup`), it counts all of that, and needs no looking.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading import cgroup

OUT_OF_MEMORY = "the machine has run out of memory, and has killed what it chose"
TICK = 0.1  # seconds between two looks at the processes


class SandboxError(RuntimeError):
    """The sandbox cannot be used: the machine's fault, never the submission's."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds, bytes, and numbers of processes and threads."""

    cell_seconds: float = 15.0
    total_seconds: float = 300.0  # from the moment when the kernel answers
    boot_seconds: float = 300.0  # until then: the machine's time, not the student's
    memory: int = 2 << 30  # of all processes together
    address_space: int = 8 << 30  # of each process
    output: int = 10 << 20
    file: int = 64 << 20
    disk: int = 256 << 20
    processes: int = 48
    threads: int = 256


def watch(
    argv: list[str],
    environment: dict[str, str],
    limits: Limits,
    job: str = "",
    passed: tuple[int, ...] = (),
) -> tuple[bytes, tuple[str, str]]:
    """Start the process, read what it tells, and end it when it takes more than it may.

    Args:
        argv: the command line.
        environment: all of its environment.
        limits: what it may use.
        job: what it finds on standard input.
        passed: the file descriptors that it inherits.

    Returns:
        told: what it wrote, for `parsed`.
        verdict: a status and a reason: why it was ended, or how it ended.

    Raises:
        SandboxError: the machine has run out of memory.
    """
    with cgroup.group(limits.memory, limits.threads) as group:
        process = begun(group.entered(argv) if group else argv, environment, job, passed)
        told, complaint = bytearray(), bytearray()
        try:
            verdict = followed(process, limits, told, complaint)
        finally:
            kill_tree(process)
        killed = group.killed() if group else ""
    if killed == "machine":
        raise SandboxError(OUT_OF_MEMORY)
    if killed:
        verdict = too_much_memory(limits)
    words = complaint.decode(errors="replace").strip().rpartition("\n")[2][-300:]
    return bytes(told), verdict or (
        "crashed",
        f"ended from inside (status {process.returncode}) {words}".strip(),
    )


def begun(
    argv: list[str], environment: dict[str, str], job: str, passed: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """The process, with the job on its standard input."""
    with os.fdopen(os.memfd_create("job"), "w+") as paper:
        paper.write(job)
        paper.seek(0)
        return subprocess.Popen(
            argv,
            env=environment,
            stdin=paper,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=passed,
        )


def followed(
    process: subprocess.Popen[bytes], limits: Limits, told: bytearray, complaint: bytearray
) -> tuple[str, str] | None:
    """Read until the process ends or takes too much; why it is to be ended, if it is."""
    deadline, look, begun = time.monotonic() + limits.boot_seconds, 0.0, False
    for stream, chunk in chunks(process):
        (told if stream is process.stdout else complaint).extend(chunk)
        now, verdict = time.monotonic(), None
        if not begun and told:
            begun, deadline = True, now + limits.total_seconds
        if len(told) > 2 * limits.output or len(complaint) > limits.output:
            verdict = "crashed", f"killed: output above {limits.output:,} bytes"
        elif now > deadline:
            seconds = limits.total_seconds if begun else limits.boot_seconds
            verdict = "timed out", f"timed out after {seconds:g} s in total"
        elif now > look:
            look, verdict = now + TICK, excess(process.pid, limits)
        if verdict:
            return verdict
    return None


def chunks(process: subprocess.Popen[bytes]) -> Iterator[tuple[Any, bytes]]:
    """What the process writes, piece by piece; an empty piece whenever a tick has passed."""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(TICK)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                yield key.fileobj, piece
            if not ready:
                yield None, b""


def excess(root: int, limits: Limits) -> tuple[str, str] | None:
    """What the processes below `root` have taken too much of, or None."""
    pids = tree(root)
    if len(pids) > limits.processes:
        return "crashed", f"killed: more than {limits.processes} processes"
    if sum(map(memory, pids)) > limits.memory:
        return too_much_memory(limits)
    return None


def too_much_memory(limits: Limits) -> tuple[str, str]:
    """The verdict on a submission that has taken more memory than it may."""
    return "crashed", f"killed: memory above {limits.memory / 2**30:.3g} GB"


def tree(root: int) -> list[int]:
    """`root` and all its descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # of all the machine's
                    after_name = file.read(1024).rpartition(b")")[2].split()
                children.setdefault(int(after_name[1]), []).append(int(name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def memory(pid: int) -> int:
    """Bytes of `pid` that are its own: not the libraries, which all processes share."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return 1024 * sum(map(int, re.findall(r"^(?:RssAnon|RssShmem):\s+(\d+) kB", text, re.M)))


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started; bubblewrap's death is the death of all that is inside."""
    for pid in tree(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def parsed(told: bytes) -> list[dict[str, Any]]:
    """The lines that are JSON objects; the rest is nobody's."""
    lines = []
    for text in told.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict):
                lines.append(line)
    return lines
