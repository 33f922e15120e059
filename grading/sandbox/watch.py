"""Starts a program, reads what it writes, and ends it when it takes more than it may.

`watch` looks at the whole tree of processes ten times a second, from outside: no process in the
tree can hide from it, or stop it. What the processes write is read as bytes up to a limit, and
nothing of it is believed.

Memory is what processes map, and what the machine's kernel may keep for their sockets. What it
keeps for files is bounded by the size of the folders and by the number of files in them; what it
keeps for pipes, by a limit of its own for each user (64 MB, as machines come). Other memory that no
process maps would not be counted, so the filter of system calls (`grading.sandbox.calls`) refuses
it. Where the machine does not tell how many sockets or files there are, as it may not tell root in
a container without rights, they are not counted.

Computing is counted from below: what a process has computed that comes and goes between two looks
is known only if its parent asks for it. The limits by the clock bound the rest.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

TICK = 0.1  # seconds between two looks at the processes
CLOCK = os.sysconf("SC_CLK_TCK")  # ticks of a second in which the machine's kernel counts
SOCKET = 256 << 10  # bytes that a socket of Unix may keep at most, as machines come


class SandboxError(RuntimeError):
    """The sandbox cannot be used: the machine's fault, never the submission's."""


class Doubt(SandboxError):
    """A run has failed, and whose fault it is can only be told by trying again."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    Seconds of computing are those that its processes have had of a processor, so that a busy
    machine makes nobody late. What waits without computing is held by the clock, with patience.

    Attributes:
        cell_seconds: of computing, in one cell.
        cell_patience: by the clock, in one cell.
        total_seconds: of computing, from the moment when the kernel answers.
        total_patience: by the clock, from that moment.
        boot_seconds: by the clock, until that moment: the machine's time, not the student's.
        memory: bytes of all processes together.
        address_space: bytes of each process.
        output: bytes that are taken from the sandbox; an honest notebook shows less than a tenth.
        file: bytes of one file.
        disk: bytes of each of the three folders that can be written.
        files: in the three folders together; an empty one takes 2 kB of memory.
        processes: all together.
        threads: all together.
    """

    cell_seconds: float = 15.0
    cell_patience: float = 120.0
    total_seconds: float = 300.0
    total_patience: float = 1200.0
    boot_seconds: float = 300.0
    memory: int = 2 << 30
    address_space: int = 8 << 30
    output: int = 32 << 20
    file: int = 64 << 20
    disk: int = 256 << 20
    files: int = 100_000
    processes: int = 16
    threads: int = 256


@dataclass(frozen=True)
class Watched:
    """What became of a program.

    Attributes:
        lines: what it wrote to standard output.
        status: "timed out" if it was ended for its time, else "crashed": who ends in good order
            says so in the last line.
        reason: why it was ended; or that it ended itself, and its last words.
    """

    lines: bytes
    status: str
    reason: str


def watch(
    argv: Sequence[str],
    environment: dict[str, str],
    job: str,
    limits: Limits,
    passed: Sequence[int] = (),
    folders: Sequence[str] = (),
) -> Watched:
    """Run a program, and end it and all its processes when they take more than they may.

    Args:
        argv: the command line.
        environment: all of its environment.
        job: what it finds on standard input.
        limits: what it may use.
        passed: file descriptors that it inherits.
        folders: those that can be written in the sandbox which the program makes; none, if it
            makes none.
    """
    with paper(job.encode()) as told:
        process = subprocess.Popen(
            argv,
            env=environment,
            stdin=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=passed,
        )
    lines, complaint = bytearray(), bytearray()
    try:
        verdict = followed(process, limits, lines, complaint, folders)
    finally:
        end(process)
    last_words = complaint.decode(errors="replace").strip().rpartition("\n")[2][-300:]
    status, reason = verdict or ("crashed", f"ended from inside {last_words}".strip())
    return Watched(bytes(lines), status, reason)


def paper(content: bytes) -> IO[bytes]:
    """An open file in memory, without a name, from whose start one can read."""
    file = os.fdopen(os.memfd_create("paper"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def followed(
    process: "subprocess.Popen[bytes]",
    limits: Limits,
    lines: bytearray,
    complaint: bytearray,
    folders: Sequence[str],
) -> tuple[str, str] | None:
    """Read until a program ends or takes too much; why it is to be ended, if it is."""
    start, next_look = time.monotonic(), 0.0
    computed_before: float | None = None  # the kernel answered; until then it boots
    computing = Computing()
    for stream, piece in pieces(process):
        (lines if stream is process.stdout else complaint).extend(piece)
        if len(lines) + len(complaint) > limits.output:
            return "crashed", f"killed: output above {limits.output:,} bytes"
        if (now := time.monotonic()) < next_look:
            continue
        next_look, pids = now + TICK, tree(process.pid)
        seconds = computing.seconds(pids)
        if lines and computed_before is None:
            start, computed_before = now, seconds
        if computed_before is None:
            if now > start + limits.boot_seconds:
                return "timed out", f"no answer within {limits.boot_seconds:g} s"
        elif verdict := excess(pids, now - start, seconds - computed_before, limits, folders):
            return verdict
    return None


def pieces(process: "subprocess.Popen[bytes]") -> Iterator[tuple[Any, bytes]]:
    """What a program writes, piece by piece; an empty piece whenever a tick has passed."""
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(TICK)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                yield key.fileobj, piece
            if not ready:
                yield None, b""


def excess(
    pids: Sequence[int], lasted: float, seconds: float, limits: Limits, folders: Sequence[str] = ()
) -> tuple[str, str] | None:
    """What processes have taken too much of, or None.

    Args:
        pids: all of them.
        lasted: seconds by the clock.
        seconds: of computing.
        limits: what they may use.
        folders: as `watch` has them.
    """
    inside = pids[1:2] if folders else []  # the first process in the sandbox, and the last
    if seconds > limits.total_seconds:
        return "timed out", f"timed out after {limits.total_seconds:g} s of computing in total"
    if lasted > limits.total_patience:
        return "timed out", f"timed out after {limits.total_patience:g} s in total"
    if len(pids) > limits.processes:
        return "crashed", f"killed: more than {limits.processes} processes"
    if sum(map(memory, pids)) + SOCKET * sum(map(sockets, inside)) > limits.memory:
        return "crashed", f"killed: memory above {limits.memory / 2**30:.3g} GB"
    if sum(files(pid, folders) for pid in inside) > limits.files:
        return "crashed", f"killed: more than {limits.files:,} files"
    return None


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat(int(name))):
            children.setdefault(int(fields[1]), []).append(int(name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def stat(pid: int) -> list[bytes]:
    """What the machine's kernel says of a process, from its state on; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


class Computing:
    """What processes have computed, those that have ended included.

    The machine's kernel adds the time of an ended process to that of its parent, if the parent asks
    how it ended. Of one whose parent does not ask, the time at the last look counts.
    """

    def __init__(self) -> None:
        self.own: dict[tuple[int, bytes], int] = {}  # ticks, by process and its start

    def seconds(self, pids: Sequence[int]) -> float:
        """Seconds of computing so far; `pids` are the processes of now.

        Both sums are too small, and neither counts anything twice: the larger one is taken.
        """
        living = {pid: fields for pid in pids if (fields := stat(pid))}
        self.own |= {(pid, f[19]): int(f[11]) + int(f[12]) for pid, f in living.items()}
        told = sum(sum(map(int, fields[11:15])) for fields in living.values())
        return max(told, sum(self.own.values())) / CLOCK


def memory(pid: int) -> int:
    """Bytes of a process that are its own: not the libraries, which all processes share."""
    own = r"^(?:RssAnon|RssShmem|VmSwap|VmPTE):\s+(\d+) kB"
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return 1024 * sum(map(int, re.findall(own, text, re.M)))


def sockets(pid: int) -> int:
    """How many sockets there are in the network of a process, those that no process holds too."""
    try:
        text = Path(f"/proc/{pid}/net/sockstat").read_text()
    except OSError:
        return 0
    return sum(map(int, re.findall(r"^sockets: used (\d+)", text)))


def files(pid: int, folders: Sequence[str]) -> int:
    """How many files there are in folders as a process sees them, each a file system of its own."""
    try:
        told = [os.statvfs(f"/proc/{pid}/root{folder}") for folder in folders]
    except OSError:
        return 0
    return sum(system.f_files - system.f_ffree for system in told)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program and its processes; bubblewrap's death is the death of all that is inside."""
    for pid in tree(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
