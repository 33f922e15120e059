"""Runs the cells of one notebook; started by `grading.sandbox`, inside the sandbox.

    python -I -B -c <this file> WORK

The job comes as JSON on standard input, so that none of it lies in a file; WORK is an empty folder
for the kernel. What happens is written to standard output as it happens, one JSON object a line,
so that a run that is killed keeps what it had:

    {"started": true}                                         the kernel answers
    {"cell": 3, "outputs": [...], "ended": null, "last": false}   cell 3 has run
    {"end": "finished" | "crashed" | "timed out", "reason": ""}   nothing more will come

This file shares its sandbox with the student's kernel, so nothing here decides on marks: whoever
reads the lines treats them as the student's own words. What it does do: it puts the limits on
itself, which the kernel inherits and cannot raise, moves into a user namespace of its own, and
makes itself unreadable, so that the kernel cannot reach the pipe behind standard output.
It imports nothing of the course, for there is none inside.
"""

import contextlib
import ctypes
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PR_SET_DUMPABLE, NEW_USER_NAMESPACE = 4, 0x10000000
STUDENT = 1000  # the user inside
GRACE = 2.0  # seconds that an interrupted cell gets before its kernel is killed
BOOT = 240.0  # seconds that a kernel may take to answer for the first time


Kernel = Any  # a `subprocess.Popen`, or what does as much
Start = Callable[[dict[str, Any], Path], Kernel]


class Ended(Exception):
    """The run is over before the last cell; `args` are the status and the reason."""


def confine(job: dict[str, Any]) -> None:
    """Take the limits of `job`, give up root if there is a `uid` to change to, and hide.

    The kernel is a child of this process: it inherits all of it but the hiding, and it can
    neither raise a limit nor become root again.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if job["uid"] is not None:
        uid = job["uid"]
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if job["own users"]:
        uid, gid = os.getuid(), os.getgid()
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or the maps below would belong to root
        if libc.unshare(NEW_USER_NAMESPACE):
            raise OSError(ctypes.get_errno(), "no user namespace can be made")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{STUDENT} {gid} 1")
        Path("/proc/self/uid_map").write_text(f"{STUDENT} {uid} 1")
    # Now, for a user namespace hands on the limits with which it was made: who makes it would be
    # held, with all that runs as the same user, to the threads of one submission.
    for name, value in job["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def tell(**line: Any) -> None:
    """Write one line for whoever waits outside."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def start_kernel(work: Path, job: dict[str, Any], start: Start) -> tuple[Kernel, Any]:
    """A kernel whose files lie in `work`, and a client connected to it.

    It boots while the client is being imported. Which kernel the notebook asks for does not matter:
    it is always this Python's.
    """
    connection: Any = {
        "transport": "ipc",
        "ip": str(work / "kernel"),
        "key": os.urandom(16).hex(),
        "signature_scheme": "hmac-sha256",
        "kernel_name": "python3",
        **{
            f"{name}_port": port
            for port, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), start=1)
        },
    }
    path = work / "connection.json"
    path.write_text(json.dumps(connection))
    kernel = start(job, path)
    from jupyter_client.blocking.client import BlockingKernelClient

    client = BlockingKernelClient()
    client.load_connection_info(connection)
    client.start_channels(stdin=False, hb=False)
    return kernel, client


def anew(job: dict[str, Any], connection: Path) -> subprocess.Popen[bytes]:
    """A kernel in an interpreter of its own: `grading.away`, whose text is in the job."""
    kernel = subprocess.Popen(
        [sys.executable, "-B", "-c", job["kernel"], str(connection)],
        cwd=folder(job),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert kernel.stdin is not None
    with contextlib.suppress(BrokenPipeError), kernel.stdin as pipe:
        pipe.write(json.dumps(job["settings"]).encode())
    return kernel


def folder(job: dict[str, Any]) -> Path:
    """The folder of the exercise as a student has it, with what lies beside the notebook."""
    made = Path(os.environ["HOME"], job["folder"])
    made.mkdir()
    for name, text in job["files"].items():
        (made / name).write_text(text)
    return made


def receive(client: Any, seconds: float) -> dict[str, Any] | None:
    """The next message of the kernel's public channel, or None after `seconds` without one."""
    try:
        message: dict[str, Any] = client.get_iopub_msg(timeout=seconds)
    except queue.Empty:
        return None
    return message


def wait_until_ready(kernel: Kernel, client: Any) -> None:
    """Wait until the kernel answers; it has imported what costs seconds, no student's time.

    Raises:
        SystemExit: it died, or took more than `BOOT` seconds: the machine's fault, not the
            student's, whose code has not begun.
    """
    deadline, questions = time.monotonic() + BOOT, {client.kernel_info()}
    while time.monotonic() < deadline and kernel.poll() is None:
        message = receive(client, 0.02)
        if message is None:  # the last question may have come before we were heard, or hear
            questions.add(client.kernel_info())
        elif any(idle(message, question) for question in questions):
            return
    raise SystemExit(f"the kernel did not start (status {kernel.poll()})")


def idle(message: dict[str, Any], asked: str) -> bool:
    """Whether `message` says that the request `asked` has been dealt with."""
    return bool(
        message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
        and message["parent_header"].get("msg_id") == asked
    )


def output_of(message: dict[str, Any], asked: str) -> dict[str, Any] | None:
    """The notebook's output that `message` stands for, if it answers the request `asked`."""
    kind, content = message["msg_type"], message["content"]
    if message["parent_header"].get("msg_id") != asked:
        return None
    if kind == "stream":
        return {"output_type": kind, "name": content["name"], "text": content["text"]}
    if kind in ("display_data", "execute_result"):
        return {"output_type": kind, "data": content["data"]}
    if kind == "error":
        return {"output_type": kind} | {
            name: content[name] for name in ("ename", "evalue", "traceback")
        }
    return None


def add(outputs: list[dict[str, Any]], output: dict[str, Any]) -> int:
    """Append `output`, and return its size; text of a stream goes on where the last one stopped."""
    size, last = len(json.dumps(output)), outputs[-1] if outputs else {}
    if output["output_type"] == "stream" and last.get("name") == output["name"]:
        last["text"] += output["text"]
    else:
        outputs.append(output)
    return size


def stop(kernel: Kernel) -> None:
    """Kill the kernel and all that it started in its own session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(kernel.pid, signal.SIGKILL)
    kernel.wait()


def run_cell(
    kernel: Kernel, client: Any, index: int, source: str, job: dict[str, Any], room: list[int]
) -> None:
    """Run one cell and tell what it showed.

    Args:
        room: one number, the bytes of output that this submission has left.

    Raises:
        Ended: the kernel is no more, so no later cell can run.
    """
    outputs: list[dict[str, Any]] = []
    asked = client.execute(source, allow_stdin=False, stop_on_error=False)
    end, late = follow(kernel, client, asked, f"in cell {index + 1}", job, outputs, room)
    ended = f"timed out after {job['cell_seconds']:g} s" if late else None
    tell(cell=index, outputs=outputs if room[0] >= 0 else [], ended=ended, last=end is not None)
    if end:
        stop(kernel)
        raise Ended(*end)


def follow(
    kernel: Kernel,
    client: Any,
    asked: str,
    where: str,
    job: dict[str, Any],
    outputs: list[dict[str, Any]],
    room: list[int],
) -> tuple[tuple[str, str] | None, bool]:
    """Collect what a cell shows; why no other can run, if none can, and whether it was late."""
    deadline, late = time.monotonic() + job["cell_seconds"], False
    while True:
        try:
            message = receive(client, 0.1)
            if message and idle(message, asked):
                return None, late
            output = message and output_of(message, asked)
        except (AttributeError, LookupError, TypeError, ValueError):
            return ("crashed", f"the kernel sent what is no message {where}"), late
        if output:
            room[0] -= add(outputs, output)
        if room[0] < 0:
            return ("crashed", f"output above {job['output']:,} bytes {where}"), late
        if message is None and kernel.poll() is not None:
            return ("crashed", f"the kernel ended itself {death(kernel.poll())} {where}"), late
        if time.monotonic() > deadline:
            if late:
                told = f"timed out after {job['cell_seconds']:g} s {where}, and did not react to"
                return ("timed out", f"{told} an interrupt"), late
            kernel.send_signal(signal.SIGINT)
            late, deadline = True, time.monotonic() + GRACE


def death(status: int | None) -> str:
    """An exit status in words.

    >>> death(3), death(-9)
    ('(status 3)', '(signal 9)')
    """
    return f"(signal {-status})" if status is not None and status < 0 else f"(status {status})"


def main(work: Path, start: Start = anew, confined: Callable[[], None] = lambda: None) -> None:
    """Run the cells of the job one by one, and say how it ended.

    Args:
        work: an empty folder.
        start: makes the kernel.
        confined: is called before that, and after the limits have been put on.
    """
    job = json.load(sys.stdin)
    confine(job)
    confined()
    kernel, client = start_kernel(work, job, start)
    wait_until_ready(kernel, client)
    tell(started=True)
    end, room = ("finished", ""), [job["output"]]
    try:
        for index, source in job["cells"]:
            run_cell(kernel, client, index, source, job, room)
    except Ended as early:
        end = early.args
    stop(kernel)
    tell(end=end[0], reason=end[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
