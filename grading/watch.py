"""Starts processes, reads what they tell, and ends them when they take more than they may.

`watch(start, limits)` looks at the whole tree of processes ten times a second, from outside: none
of them can hide from it, or stop it. What they write is read as bytes up to a
limit, and nothing of it is believed.

What it does not see is memory that no process maps. The filter of system calls lets none be made
but files in folders of limited size, and what pipes and sockets hold; sockets and names of files
are counted. Where the machine's kernel lets us make control groups (`grading.cgroup`), it counts
all of that, and needs no looking.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from grading import cgroup

OUT_OF_MEMORY = "the machine has run out of memory, and has killed what it chose"
TICK = 0.1  # seconds between two looks at the processes
NAME = 2 << 10  # bytes of a file's name, rights and times, even if it is empty
TCP = 24  # times what another socket holds
HOME = "/home/student"
FOLDERS = ("/tmp", "/dev/shm", HOME)  # which can be written inside


class SandboxError(RuntimeError):
    """The sandbox cannot be used: the machine's fault, never the submission's."""


class Doubt(SandboxError):
    """A run has failed, and whose fault it is can only be told by trying again."""


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
    sockets: int = 512  # each holds up to half a MB that no process maps; 0: not counted
    threads: int = 256


@dataclass(frozen=True)
class Started:
    """Processes that run.

    Attributes:
        process: the one whose death is the death of all.
        told: where they write what they tell.
        complaint: where they write what went wrong.
        roots: the processes from which all others descend.
    """

    process: subprocess.Popen[bytes]
    told: IO[bytes]
    complaint: IO[bytes]
    roots: tuple[int, ...]


Start = Callable[[cgroup.Group | None], Started]


def watch(start: Start, limits: Limits) -> tuple[bytes, tuple[str, str]]:
    """Start processes, read what they tell, and end them when they take more than they may.

    Args:
        start: starts them, in a control group if it is given one.
        limits: what they may use.

    Returns:
        told: what they wrote, for `parsed`.
        verdict: a status and a reason: why they were ended, or how they ended.

    Raises:
        Doubt: the machine has run out of memory.
    """
    with cgroup.group(limits.memory, limits.threads) as group:
        running = start(group)
        told, complaint = bytearray(), bytearray()
        try:
            verdict = followed(running, limits, told, complaint)
        finally:
            end(running)
        killed = group.killed() if group else ""
    if killed == "machine":
        raise Doubt(OUT_OF_MEMORY)
    if killed:
        verdict = too_much_memory(limits)
    words = complaint.decode(errors="replace").strip().rpartition("\n")[2][-300:]
    return bytes(told), verdict or ("crashed", f"ended from inside {words}".strip())


def program(
    argv: list[str], environment: dict[str, str], job: str = "", passed: tuple[int, ...] = ()
) -> Start:
    """What starts one program.

    Args:
        argv: the command line.
        environment: all of its environment.
        job: what it finds on standard input.
        passed: the file descriptors that it inherits.
    """

    def start(group: cgroup.Group | None) -> Started:
        with paper(job) as held:
            process = subprocess.Popen(
                group.entered(argv) if group else argv,
                env=environment,
                stdin=held,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=passed,
            )
        assert process.stdout is not None
        assert process.stderr is not None
        return Started(process, process.stdout, process.stderr, (process.pid,))

    return start


def paper(text: str) -> IO[str]:
    """A text in a file without a name."""
    held = os.fdopen(os.memfd_create("job"), "w+")
    held.write(text)
    held.seek(0)
    return held


def followed(
    running: Started, limits: Limits, told: bytearray, complaint: bytearray
) -> tuple[str, str] | None:
    """Read until they end or take too much; why they are to be ended, if they are."""
    deadline, look, begun = time.monotonic() + limits.boot_seconds, 0.0, False
    for stream, chunk in chunks(running):
        (told if stream is running.told else complaint).extend(chunk)
        now, verdict = time.monotonic(), None
        if not begun and told:
            begun, deadline = True, now + limits.total_seconds
        if len(told) > 2 * limits.output or len(complaint) > limits.output:
            verdict = "crashed", f"killed: output above {limits.output:,} bytes"
        elif now > deadline:
            seconds = limits.total_seconds if begun else limits.boot_seconds
            verdict = "timed out", f"timed out after {seconds:g} s in total"
        elif now > look:
            look, verdict = now + TICK, excess(running.roots, limits)
        if verdict:
            return verdict
    return None


def chunks(running: Started) -> Iterator[tuple[Any, bytes]]:
    """What processes write, piece by piece; an empty piece whenever a tick has passed."""
    with selectors.DefaultSelector() as selector:
        for stream in (running.told, running.complaint):
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


def excess(roots: Sequence[int], limits: Limits) -> tuple[str, str] | None:
    """What the processes below `roots` have taken too much of, or None."""
    pids = tree(*roots)
    if len(pids) > limits.processes:
        return "crashed", f"killed: more than {limits.processes} processes"
    inside = limits.sockets and len(pids) > len(roots)  # before that all are the machine's
    if inside and sockets(pids[-1]) > limits.sockets:
        return "crashed", f"killed: more than {limits.sockets} sockets"
    if sum(map(memory, pids)) + files(pids[-1]) > limits.memory:
        return too_much_memory(limits)
    return None


def too_much_memory(limits: Limits) -> tuple[str, str]:
    """The verdict on a submission that has taken more memory than it may."""
    return "crashed", f"killed: memory above {limits.memory / 2**30:.3g} GB"


def tree(*roots: int) -> list[int]:
    """`roots` and all their descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # of all the machine's
                    after_name = file.read(1024).rpartition(b")")[2].split()
                children.setdefault(int(after_name[1]), []).append(int(name))
    found = list(roots)
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def memory(pid: int) -> int:
    """Bytes of `pid` that are its own: not the libraries, which all processes share."""
    own = r"^(?:RssAnon|RssShmem|VmSwap|VmPTE):\s+(\d+) kB"
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return 1024 * sum(map(int, re.findall(own, text, re.M)))


def files(pid: int) -> int:
    """Bytes that the machine's kernel needs for the names of the files that `pid` may have made."""
    found, inside = 0, Path(f"/proc/{pid}/root")
    with contextlib.suppress(OSError):
        if inside.stat().st_dev != Path("/").stat().st_dev:  # or it is not in its fence yet
            for folder in FOLDERS:
                about = os.statvfs(f"{inside}{folder}")
                found += about.f_files - about.f_ffree
    return found * NAME


def sockets(pid: int) -> int:
    """The sockets in the network of `pid`, closed ones that are still on their way too.

    One of TCP, which may hold some MB, counts for many.
    """
    try:
        words = Path(f"/proc/{pid}/net/sockstat").read_text().split()
        return int(words[2]) + TCP * int(words[5])
    except (OSError, ValueError, IndexError):
        return 0


def end(running: Started) -> None:
    """Kill all; bubblewrap's death is the death of all that is inside."""
    for pid in tree(running.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.process.wait()
    for stream in (running.told, running.complaint):
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
