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
import selectors
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO

from grading.cgroup import Group
from grading.fence import ONLY_CHECK, environment, fence, hidden, porch, root
from grading.watch import HOME, Limits, SandboxError, Start, Started, end, paper

HERE = Path(__file__).resolve().parent
SPACES = ("mnt", "ipc", "net", "uts", "cgroup", "pid")
STILL = ("/bin/sh", "-c", "echo && exec sleep 86400")  # all that an empty fence does
GRACE = 5.0  # seconds that it gets to end by itself
PATIENCE = 300.0  # seconds until what does not answer is given up, as `Limits.boot_seconds`
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
        self.channel.settimeout(PATIENCE)
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
            pid = ""
            with suppress(OSError):  # reset, broken or silent: the complaint tells why
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
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and with bubblewrap the interpreter
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
            ours, theirs = map(stack.enter_context, socket.socketpair())
            ours.settimeout(PATIENCE)
            held = [theirs.fileno(), *files]
            for name in SPACES:
                if os.readlink(spaces / name) != os.readlink(self.spaces / name):
                    held.append(os.open(spaces / name, os.O_RDONLY))
                    stack.callback(os.close, held[-1])
                elif name != "cgroup":  # which bubblewrap leaves out where there is none
                    raise SandboxError(f"the fence has no {name} namespace of its own")
            try:
                socket.send_fds(self.channel, [b"copy"], held)
                theirs.close()
                answer = ours.recv(1 << 10).decode()
            except TimeoutError:
                self.process.kill()
                raise SandboxError("the warm interpreter does not answer") from None
        if not answer.isdigit():
            raise SandboxError(answer or "the copy, or the warm interpreter, has ended")
        return int(answer)


def serving() -> Server:
    """The warm interpreter of this process, a new one where it has ended."""
    with LOCK:
        server = SERVERS.get(os.getpid())
        if server and server.process.poll() is not None:
            server.close()
            server = None
        if server is None:
            server = SERVERS[os.getpid()] = Server()
        return server


def start(job: str, limits: Limits) -> Start:
    """What starts a copy in a fence of its own, with the job on its standard input."""

    def started(group: Group | None) -> Started:
        server = serving()
        with ExitStack() as always, ExitStack() as failed:
            told, tells = pipe(failed, always)
            complaint, complains = pipe(failed, always)
            waits, go = pipe(always, always)
            held = always.enter_context(paper(job))
            process, spaces = empty_fence(server, limits, group)
            failed.callback(end, Started(process, told, complaint, ()))
            files = [one.fileno() for one in (waits, held, tells, complains)]
            pid = server.copy(spaces, files)
            if group:
                group.take(pid)
            go.write(b".")
            failed.pop_all()
        return Started(process, told, complaint, (process.pid, pid))

    return started


def pipe(reader: ExitStack, writer: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """The two ends of a pipe, each open until a stack ends."""
    read, write = os.pipe()
    one = reader.enter_context(os.fdopen(read, "rb", buffering=0))
    return one, writer.enter_context(os.fdopen(write, "wb", buffering=0))


def empty_fence(
    server: Server, limits: Limits, group: Group | None
) -> tuple[subprocess.Popen[bytes], Path]:
    """A fence in which nothing happens, and the folder of its namespaces.

    Raises:
        SandboxError: bubblewrap made none.
    """
    with ExitStack() as stack:
        info, theirs = pipe(stack, stack)
        check = stack.enter_context(paper(ONLY_CHECK))
        users = stack.enter_context(open(server.spaces / "user", "rb", buffering=0))
        same = [] if root() else ["--userns", str(users.fileno())]
        whole = fence(limits, check.fileno(), *same, "--info-fd", str(theirs.fileno()))
        argv, options = stack.enter_context(hidden(whole))
        process = subprocess.Popen(
            group.entered([*argv, *STILL]) if group else [*argv, *STILL],
            env=environment(HOME),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=(check.fileno(), theirs.fileno(), users.fileno(), options),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout as ready, process.stderr as complaint:
            if not said(ready):
                process.kill()
                told = complaint.read().decode(errors="replace").strip()
                process.wait()
                raise SandboxError(f"the sandbox did not start: {told}")
        return process, Path("/proc", str(json.loads(info.read(1 << 12))["child-pid"]), "ns")


def said(ready: IO[bytes]) -> bool:
    """Whether something is said in time, before the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(ready, selectors.EVENT_READ)
        return bool(selector.select(PATIENCE) and ready.read(1))


def cold() -> str | None:
    """Why each submission needs an interpreter of its own here, or None if none does."""
    command = shutil.which("bwrap")
    return tried(command) if command else "there is no `bwrap` on this machine"


@cache
def tried(command: str) -> str | None:
    """What `cold` says of a bubblewrap: whether a copy can enter a fence of it."""
    try:
        end(start("", Limits())(None))
    except SandboxError as error:
        return str(error)
    return None
