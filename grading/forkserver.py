"""Has imported what every submission needs, and makes copies of itself that enter a fence.

    python -B -c <this file> CHANNEL

CHANNEL is the file descriptor of a socket to `grading.warm`, whose first message holds the texts of
`grading.inside` and `grading.away`. Each later one asks for a copy, and brings file descriptors:
where the copy's number is told, or what went wrong; where the copy waits until it may begin; its
standard input, output and error; and the namespaces that it enters. If a copy dies early, the first
of these is closed, and nobody waits in vain or takes the answer of another.

A copy enters the namespaces, and its child, which alone is in the new room of processes, closes
what it has inherited, becomes the client of `grading.inside`, and gives back all rights before it
makes the kernel: one more copy, in which the student's code runs. No line of a student's runs here.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import traceback
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

STANDARD = 3  # input, output and error
NEEDED = ("attnlib.check", "ipykernel.kernelapp", "jupyter_client.blocking.client")
PR_SET_PDEATHSIG, PR_CAP_AMBIENT, CLEAR_ALL, CAPABILITIES = 1, 47, 4, 0x20080522


def module(name: str, source: str) -> Any:
    """A module made of its text."""
    made = types.ModuleType(name)
    exec(compile(source, f"<{name}>", "exec"), vars(made))
    return made


def call(name: str, *arguments: Any) -> None:
    """Call a function of the C library.

    Raises:
        OSError: its result is not 0.
    """
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def serve(channel: socket.socket) -> None:
    """Make copies until nobody is there who could ask."""
    gc.disable()  # the imports make half a million objects, none of which ever goes
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # with bubblewrap, and so when told
    inside, away = (module(*one) for one in json.loads(channel.recv(1 << 20)).items())
    for name in NEEDED:
        importlib.import_module(name)
    gc.freeze()
    channel.send(str(os.getpid()).encode())
    while True:
        request, held, *_ = socket.recv_fds(channel, 16, 16)
        if not request:
            return
        if os.fork() == 0:
            leave(partial(copy, held, inside, away))
        for one in held:
            os.close(one)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def copy(held: list[int], inside: Any, away: Any) -> None:
    """Enter the namespaces, and go on in a child, which is to be waited for."""
    answer, begin, *standard = held[: 2 + STANDARD]
    try:
        for space in held[2 + STANDARD :]:
            call("setns", space, 0)
        child = os.fork()
    except OSError as error:
        os.write(answer, f"a fence cannot be entered ({error})".encode())
        return
    if child:
        os.write(answer, str(child).encode())
        os.closerange(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.waitpid(child, 0)
        return
    os.close(answer)
    if not os.read(begin, 1):
        return  # who asked is no more
    for number, one in enumerate(standard):
        os.dup2(one, number)
    os.closerange(STANDARD, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.setsid()
    inside.main(Path("/tmp"), lambda job, path: Kernel(job, path, inside, away), give_back)


def leave(last: Callable[[], None]) -> NoReturn:
    """Do a last thing, and end as a process of its own would."""
    status = 1
    try:
        last()
        status = 0
    except SystemExit as error:
        print(error, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def give_back() -> None:
    """Keep no right over any namespace, and no way to one."""
    call("prctl", PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)
    call("capset", (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)())


class Kernel:
    """A copy of this process that is the kernel of a submission: as much as is used of `Popen`."""

    def __init__(self, job: dict[str, Any], path: Path, inside: Any, away: Any) -> None:
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            leave(partial(self.become, job, path, inside, away))

    def become(self, job: dict[str, Any], path: Path, inside: Any, away: Any) -> None:
        """Become the kernel, in a session of its own and with nothing of the client's open."""
        os.setsid()
        os.chdir(inside.folder(job))
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(STANDARD):
            os.dup2(nothing, number)
        os.closerange(STANDARD, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        # Or all copies would draw the same. Python's own numbers begin anew with a copy, and those
        # of numpy when they are imported, by the copy.
        sys.modules["torch"].default_generator.seed()
        away.main(str(path), job["settings"])

    def poll(self) -> int | None:
        """How it has ended, or None."""
        return self.wait(os.WNOHANG)

    def wait(self, how: int = 0) -> int | None:
        """Wait until it ends, and say how."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, how)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    serve(socket.socket(fileno=int(sys.argv[1])))
