"""Runs the cells of one notebook; started by `grading.sandbox.run`, inside the sandbox.

    python -I -B -c <this file> WORK

The job comes as JSON on standard input; WORK is an empty folder for the kernel. What happens is
written to standard output as it happens, one JSON object a line, so that a run that is killed keeps
what it had:

    {"started": true}                                             the kernel answers
    {"cell": 3, "outputs": [...], "ended": null, "last": false}   cell 3 has run
    {"end": "finished" | "crashed" | "timed out", "reason": ""}   nothing more will come

`ended` is a sentence where a cell was interrupted because it took too long, and `last` is true
where the kernel has ended in the cell.

This file shares its sandbox with the student's kernel, so nothing here decides on marks: whoever
reads the lines treats them as the student's own words. What the client does do: it puts the limits
on itself, which the kernel inherits and cannot raise. It imports nothing of the course, for there
is none inside.
"""

import contextlib
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TICK = 0.1  # seconds
GRACE = 2.0  # seconds of computing that an interrupted cell gets before its kernel is killed
PATIENCE = 20.0  # the same by the clock
CLOCK = os.sysconf("SC_CLK_TCK")  # ticks of a second in which the machine's kernel counts
ROOM = 8 << 20  # bytes that a cell may show, beside its answers to hidden inputs and its errors
SHOWN = ("text/plain", "image/png")  # nothing else is shown to the person who grades
LEFT_OUT = {
    "output_type": "stream",
    "name": "stderr",
    "text": f"\n… the rest of what this cell shows is left out: above {ROOM:,} bytes\n",
}
Kernel = subprocess.Popen[bytes]


class Ended(Exception):
    """The run is over before the last cell; `args` are the status and the reason."""


class Deadline:
    """When a cell is late: it has computed too long, or lasted too long by the clock."""

    def __init__(self, session: int, seconds: float, patience: float) -> None:
        """Begin to count.

        Args:
            session: the processes that compute for the cell.
            seconds: of computing that they have.
            patience: seconds by the clock that they have.
        """
        self.session, self.seconds, self.patience = session, seconds, patience
        self.computed, self.begun = computed(session), time.monotonic()
        self.next_look = 0.0

    def passed(self) -> str:
        """What has passed, in words, or nothing; looked at ten times a second."""
        now = time.monotonic()
        if now < self.next_look:
            return ""
        self.next_look = now + TICK
        if computed(self.session) - self.computed > self.seconds:
            return f"timed out after {self.seconds:g} s of computing"
        if now - self.begun > self.patience:
            return f"timed out after {self.patience:g} s"
        return ""


class Outputs:
    """What a cell shows, cut where it is much; answers to hidden inputs and errors never are.

    Attributes:
        kept: in the form of a notebook.
    """

    def __init__(self, answers: str) -> None:
        """Begin without any; `answers` is the MIME type of answers to hidden inputs."""
        self.kept: list[dict[str, Any]] = []
        self.answers, self.room = answers, ROOM

    def add(self, message: dict[str, Any]) -> None:
        """Keep what a message of the kernel shows, if it shows anything."""
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            self.keep({"output_type": kind, "name": content["name"], "text": content["text"]})
        elif kind in ("display_data", "execute_result"):
            parts = content["data"].items()
            data = {name: part for name, part in parts if name in (*SHOWN, self.answers)}
            self.keep({"output_type": kind, "data": data})
        elif kind == "error":
            names = ("ename", "evalue", "traceback")
            self.keep({"output_type": kind} | {name: content[name] for name in names})

    def keep(self, output: dict[str, Any]) -> None:
        """Keep an output if there is room; text of a stream goes on where the last one stopped."""
        if output["output_type"] != "error" and self.answers not in output.get("data", {}):
            if self.room < 0:
                return
            self.room -= len(json.dumps(output))
            if self.room < 0:
                output = dict(LEFT_OUT)
        last = self.kept[-1] if self.kept else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["text"] += output["text"]
        else:
            self.kept.append(output)


def computed(session: int) -> float:
    """Seconds that the processes of a session have computed, with those of theirs that ended."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks / CLOCK


def confine(job: dict[str, Any]) -> None:
    """Change to the user whom nobody is, if the grader is root, and take the limits.

    The kernel inherits both: it can neither raise a limit nor become root again.
    """
    if (uid := job["uid"]) is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    for name, value in job["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def tell(**line: Any) -> None:
    """Write one line for whoever waits outside."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def start_kernel(job: dict[str, Any], work: Path) -> tuple[Kernel, Any]:
    """A kernel whose files lie in `work`, and a client connected to it.

    The kernel boots while the client is being imported. Which kernel the notebook asks for does not
    matter: it is always this Python's.
    """
    ports = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4, "hb": 5}
    connection: Any = {
        "transport": "ipc",
        "ip": str(work / "kernel"),
        "key": os.urandom(16).hex(),
        "signature_scheme": "hmac-sha256",
        "kernel_name": "python3",
        **{f"{name}_port": port for name, port in ports.items()},
    }
    path = work / "connection.json"
    path.write_text(json.dumps(connection))
    kernel = subprocess.Popen(
        [sys.executable, "-B", "-c", job["kernel"], str(path)],
        cwd=folder(job),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert kernel.stdin is not None
    with contextlib.suppress(BrokenPipeError), kernel.stdin as pipe:
        pipe.write(json.dumps(job["settings"]).encode())
    from jupyter_client.blocking.client import BlockingKernelClient

    client = BlockingKernelClient()
    client.context.rcvhwm = 0  # no message is dropped, however many wait
    client.load_connection_info(connection)
    client.start_channels(stdin=False, hb=False)
    return kernel, client


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
    """Wait until the kernel answers; whoever watches outside limits the time.

    Raises:
        SystemExit: the kernel died: the machine's fault, for the student's code has not begun.
    """
    questions = {client.kernel_info()}
    while kernel.poll() is None:
        message = receive(client, 0.02)
        if message is None:  # the last question may have come before the kernel listened
            questions.add(client.kernel_info())
        elif any(idle(message, question) for question in questions):
            return
    raise SystemExit(f"the kernel did not start {death(kernel.poll())}")


def idle(message: dict[str, Any], request: str) -> bool:
    """Whether a message says that a request has been dealt with."""
    return bool(
        message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
        and message["parent_header"].get("msg_id") == request
    )


def stop(kernel: Kernel) -> None:
    """Kill the kernel and all that it started in its own session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(kernel.pid, signal.SIGKILL)
    kernel.wait()


def run_cell(kernel: Kernel, client: Any, index: int, source: str, job: dict[str, Any]) -> str:
    """Run one cell and tell what it showed; a sentence if it was late, else nothing.

    Raises:
        Ended: the kernel is no more, so no later cell can run.
    """
    outputs = Outputs(job["answers"])
    request = client.execute(source, allow_stdin=False, stop_on_error=False)
    late, end = "", None
    try:
        late = follow(kernel, client, request, outputs, job)
    except Ended as ended:
        status, reason = ended.args
        end = status, f"{reason} in cell {index + 1}"
        late = reason if status == "timed out" else ""
    tell(cell=index, outputs=outputs.kept, ended=late or None, last=end is not None)
    if end:
        raise Ended(*end)
    return f"{late} in cell {index + 1}" if late else ""


def follow(kernel: Kernel, client: Any, request: str, outputs: Outputs, job: dict[str, Any]) -> str:
    """Collect what a cell shows until it ends; a sentence if it was interrupted, else nothing.

    Raises:
        Ended: it has ended the kernel, or goes on after it was interrupted.
    """
    deadline = Deadline(kernel.pid, job["cell_seconds"], job["cell_patience"])
    late = ""
    while True:
        try:
            message = receive(client, TICK)
            if message and idle(message, request):
                return late
            if message and message["parent_header"].get("msg_id") == request:
                outputs.add(message)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise Ended("crashed", "the kernel sent what is no message") from None
        if message is None and kernel.poll() is not None:
            raise Ended("crashed", f"the kernel ended itself {death(kernel.poll())}")
        if passed := deadline.passed():
            if late:
                raise Ended("timed out", f"{late}, and did not react to an interrupt")
            late = passed
            kernel.send_signal(signal.SIGINT)
            deadline = Deadline(kernel.pid, GRACE, PATIENCE)


def death(status: int | None) -> str:
    """An exit status in words.

    >>> death(3), death(-9)
    ('(status 3)', '(signal 9)')
    """
    return f"(signal {-status})" if status is not None and status < 0 else f"(status {status})"


def main(work: Path) -> None:
    """Run the cells of the job one by one, and say how it ended."""
    job = json.load(sys.stdin)
    confine(job)
    kernel, client = start_kernel(job, work)
    wait_until_ready(kernel, client)
    tell(started=True)
    late: list[str] = []
    try:
        for index, source in job["cells"]:
            late += filter(None, [run_cell(kernel, client, index, source, job)])
        end = ("timed out", "; ".join(late)) if late else ("finished", "")
    except Ended as ended:
        end = ended.args
    stop(kernel)
    tell(end=end[0], reason=end[1][:500])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
