"""Sandboxes that begin warm: each submission runs in a copy of an interpreter with torch in it.

Torch takes a second to import, and all else about a submission a quarter of one. So a process that
runs submissions keeps an interpreter that has imported what a kernel and its client need
(`grading.forkserver`). For each submission it makes an empty fence, as for a new interpreter, and
has a copy of the warm one enter it.

Why this isolates as well as a new interpreter does:

- No line of a student's runs in the interpreter that is copied, and it is told nothing of one: it
  passes on file descriptors. What a submission leaves in its copy ends with the copy.
- A copy enters each of the fence's rooms: files, processes, network, IPC, host name and control
  groups, and makes a user namespace of its own. It closes all that it has inherited, and gives back
  the rights that this took, before it becomes what a new interpreter becomes.
- The warm interpreter lives in a fence with the same files, all read-only. So the way from a
  process to its own program (/proc/self/exe), which a copy keeps, leads to nothing that can be
  written.

Copies have the same layout of addresses and the same hashes of strings, which tells none of
another. What is drawn at random differs.

Where a fence cannot be entered (a security module of the machine may forbid it), each submission
gets an interpreter of its own, and `cold` says why.
"""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from grading.cgroup import Group
from grading.fence import HOME, ONLY_CHECK, environment, fence, porch, root
from grading.watch import Limits, SandboxError, Start, Started, end, paper

HERE = Path(__file__).resolve().parent
SPACES = ("mnt", "ipc", "net", "uts", "cgroup", "pid")
STILL = ("/bin/sh", "-c", "echo && exec sleep 86400")  # all that an empty fence does
LOCK = threading.RLock()
SERVERS: dict[int, "Server"] = {}  # by process: a child of ours would speak in our stead


class Server:
    """The warm interpreter of a process.

    Raises:
        SandboxError: it did not start.
    """

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source = (HERE / "forkserver.py").read_text(encoding="utf-8")
        with theirs, paper(ONLY_CHECK) as check, paper("") as complaint:
            python = [sys.executable, "-B", "-c", source, str(theirs.fileno())]
            self.process = subprocess.Popen(
                [*porch(Limits(), check.fileno()), *python],
                env=environment(HOME),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaint,
                start_new_session=True,
                pass_fds=(check.fileno(), theirs.fileno()),
            )
            theirs.close()
            texts = {name: (HERE / f"{name}.py").read_text() for name in ("inside", "away")}
            with suppress(BrokenPipeError):
                self.channel.send(json.dumps(texts).encode())
            pid = self.channel.recv(64).decode()
            complaint.seek(0)
            told = complaint.read().strip().rpartition("\n")[2]
        atexit.register(self.close)
        if not pid:
            self.close()
            raise SandboxError(f"the warm interpreter did not start: {told}")
        self.spaces = Path("/proc", pid, "ns")

    def close(self) -> None:
        """End it; its copies go on."""
        atexit.unregister(self.close)
        self.channel.close()
        self.process.wait()

    def copy(self, spaces: Path, files: Sequence[int]) -> int:
        """The number of a copy that has entered a fence and waits.

        Args:
            spaces: the folder of the fence's namespaces.
            files: where the copy waits, and its standard input, output and error.

        Raises:
            SandboxError: it could not enter, or nobody answers.
        """
        with ExitStack() as stack:
            held = list(files)
            for name in SPACES:
                if os.readlink(spaces / name) != os.readlink(self.spaces / name):
                    held.append(os.open(spaces / name, os.O_RDONLY))
                    stack.callback(os.close, held[-1])
            with LOCK:
                socket.send_fds(self.channel, [b"copy"], held)
                answer = self.channel.recv(1 << 10).decode()
        if not answer.isdigit():
            raise SandboxError(answer or "the warm interpreter has ended")
        return int(answer)


def serving() -> Server:
    """The warm interpreter of this process, a new one where it has ended."""
    with LOCK:
        server = SERVERS.get(os.getpid())
        if server is None or server.process.poll() is not None:
            server = SERVERS[os.getpid()] = Server()
        return server


def start(job: str, limits: Limits) -> Start:
    """What starts a copy in a fence of its own, with the job on its standard input."""

    def started(group: Group | None) -> Started:
        server = serving()
        process, spaces = empty_fence(server, limits, group)
        told, complaint = os.pipe(), os.pipe()
        running = Started(process, os.fdopen(told[0], "rb"), os.fdopen(complaint[0], "rb"), ())
        waits, go = os.pipe()
        try:
            with paper(job) as held:
                pid = server.copy(spaces, (waits, held.fileno(), told[1], complaint[1]))
            if group:
                group.take(pid)
            os.write(go, b".")
        except BaseException:
            end(running)
            raise
        finally:
            for one in (told[1], complaint[1], waits, go):
                os.close(one)
        return replace(running, roots=(process.pid, pid))

    return started


def empty_fence(
    server: Server, limits: Limits, group: Group | None
) -> tuple[subprocess.Popen[bytes], Path]:
    """A fence in which nothing happens, and the folder of its namespaces.

    Raises:
        SandboxError: bubblewrap made none.
    """
    info, theirs = os.pipe()
    users = os.open(server.spaces / "user", os.O_RDONLY)
    try:
        with paper(ONLY_CHECK) as check:
            same = [] if root() else ["--userns", str(users)]
            argv = [*fence(limits, check.fileno(), *same, "--info-fd", str(theirs)), *STILL]
            process = subprocess.Popen(
                group.entered(argv) if group else argv,
                env=environment(HOME),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(check.fileno(), theirs, users),
            )
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout as ready, process.stderr as complaint:
            if not ready.read(1):
                told = complaint.read().decode(errors="replace").strip()
                process.wait()
                raise SandboxError(f"the sandbox did not start: {told}")
        return process, Path("/proc", str(json.loads(os.read(info, 1 << 12))["child-pid"]), "ns")
    finally:
        for one in (info, theirs, users):
            os.close(one)


def cold() -> str | None:
    """Why each submission needs an interpreter of its own here, or None if none does."""
    return tried(shutil.which("bwrap") or "bwrap")


@cache
def tried(command: str) -> str | None:
    """What `cold` says of a bubblewrap: whether a copy can enter a fence of it."""
    try:
        end(start("", Limits())(None))
    except SandboxError as error:
        return str(error)
    return None
