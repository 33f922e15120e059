"""Runs a submission's cells where they can do no harm: `run(notebook, scene) -> Run`.

It is done in three steps, of which the second may happen on another machine, which needs this
course's clone and bubblewrap, and neither the class's folders nor the seed: `packed` makes a job of
bytes, `execute` runs it in a sandbox and returns what was told there as bytes, and `understood`
makes a notebook of that.

The submission is a stranger's program. It may try to read the solutions, other submissions and
the gradebook, to call the network, to fill memory or disk, to never end, to talk to an accomplice,
and to write its own marks. So its kernel, and the client that drives it (`grading.inside`), run in
one `bubblewrap`:

- no network, and user, process, IPC and host-name namespaces of its own;
- of the file system only /usr, the Python environment with the packages that an answer may use
  (`grading.packages`), and of `attnlib` the folder `check` are there, all read-only; /tmp, /dev/shm
  and the home folder are memory of limited size;
- no capabilities, an empty environment, and never root: as root we change to an unused user;
- limits on address space, file size and threads that are inherited, a filter of system calls
  (`grading.calls`), and a watch from outside on the memory and processes of the whole tree, on its
  time and on its output;
- what the tasks forbid is taken away before the student's code runs (`grading.away`): a hint;
- nothing outside can be written: the job goes in and results come out through pipes, and no file
  of the machine holds either of them, even if the run is killed.

What comes through the pipe is the student's word: `understood` makes it a well-formed notebook with
outputs that cannot hurt the browser of the person who grades, and `grading.judge` decides.

What it does not do: a hole in the kernel of the machine, in a call that the filter allows, is one
here. `unsafe=True` runs the same with the limits only, on machines without bubblewrap.
"""

import hashlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grading import calls, cgroup, packages, warm
from grading.fence import COURSE, ONLY_CHECK, bound, environment, fence, hidden, root
from grading.outputs import ending, late, ran, with_outputs
from grading.watch import HOME, OUT_OF_MEMORY, Doubt, Limits, paper, parsed, program, watch
from grading.watch import SandboxError as SandboxError

HERE = Path(__file__).resolve().parent
STARTED = b'{"started": true}'
PROVEN: set[str] = set()  # the bubblewraps that have worked; trying it takes a tenth of a second


@dataclass(frozen=True)
class Scene:
    """What a notebook finds when it runs.

    Attributes:
        hidden: encoded inputs by task, which `check` hands to the answers; no answers.
        forbidden: names that are taken away from torch.
        folder: the name of the folder in which it runs.
        files: the texts of the files beside it, by name.
    """

    hidden: Mapping[str, Any] = field(default_factory=dict)
    forbidden: Sequence[str] = ()
    folder: str = "notebook"
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """How a submission ran.

    Attributes:
        notebook: a copy of what was given, with the outputs that the run left.
        status: "finished", "crashed" or "timed out".
        reason: one sentence, empty if it finished without anything to report.
        seconds: the wall time it took.
        ran: the indices of the cells that came to an end.
        late: of those, the ones that took too long, each with its reason.
    """

    notebook: NotebookNode
    status: str
    reason: str
    seconds: float
    ran: frozenset[int]
    late: dict[int, str]


def run(
    notebook: NotebookNode, scene: Scene, limits: Limits | None = None, unsafe: bool = False
) -> Run:
    """Run all code cells of `notebook` in a sandbox of their own, in order.

    Args:
        notebook: the submission; its metadata and outputs play no part.
        scene: what it finds there.
        limits: what it may use; the defaults of `Limits` if left out.
        unsafe: without bubblewrap: strangers' code then runs with your rights.

    Raises:
        SandboxError: bubblewrap is missing or did not start, or the machine's memory ran out.

    >>> import nbformat
    >>> cell = nbformat.v4.new_code_cell("print(1 + 1)")
    >>> done = run(nbformat.v4.new_notebook(cells=[cell]), Scene(), unsafe=True)
    >>> done.status, done.notebook.cells[0].outputs[0].text
    ('finished', '2\\n')
    """
    return understood(notebook, execute(packed(notebook, scene, limits or Limits(), unsafe)))


def packed(notebook: NotebookNode, scene: Scene, limits: Limits, unsafe: bool) -> bytes:
    """All that a worker must know: the code cells, what they find, and what they may use."""
    cells = enumerate(notebook.cells)
    about = {
        "cells": [[index, cell.source] for index, cell in cells if cell.cell_type == "code"],
        "scene": asdict(scene),
        "limits": asdict(limits),
        "unsafe": unsafe,
        "course": version(),
    }
    return json.dumps(about).encode()


def execute(job: bytes) -> bytes:
    """Run a packed job in a sandbox of this machine.

    Returns:
        a line of JSON about how it ended, and after it what was told inside, as it came.

    Raises:
        SandboxError: as `run`; the text names the machine.
        Doubt: it did not start, or the machine's memory ran out, for whatever reason.
    """
    about = json.loads(job)
    scene, limits, unsafe = Scene(**about["scene"]), Limits(**about["limits"]), about["unsafe"]
    host = socket.gethostname()
    if about["course"] != version():
        told = "the course's clone is not of the version of the one that asks"
        raise SandboxError(f"on {host}: {told}")
    if not unsafe and (complaint := unusable()):
        raise SandboxError(f"on {host}: {complaint}")
    try:
        return tried(inner_job(about["cells"], scene, limits, unsafe), limits, unsafe)
    except (OSError, MemoryError, SandboxError) as error:
        told = "" if isinstance(error, SandboxError) else "the sandbox did not start: "
        raise Doubt(f"on {host}: {told}{error or 'no memory'}") from error


def tried(job: dict[str, Any], limits: Limits, unsafe: bool) -> bytes:
    """What `execute` does, once everything is there; of what was told only the beginning is read.

    The first line is the client's own: no line of the student's has run by then.
    """
    start, before = time.monotonic(), killed_for_memory()
    told, verdict = started(json.dumps(job), limits, unsafe)
    if not told.startswith(STARTED):
        status, reason = verdict
        raise Doubt(f"the sandbox did not start: {reason or status}")
    ended = b'"end": "finished"' in told[-200:]
    if not ended and killed_for_memory() > before and cgroup.home() is None:
        raise Doubt(OUT_OF_MEMORY)
    about = {"verdict": verdict, "seconds": time.monotonic() - start}
    return json.dumps(about).encode() + b"\n" + told


def understood(notebook: NotebookNode, result: bytes) -> Run:
    """The run that `execute` has told of; nothing of what came from inside is believed."""
    head, _, told = result.partition(b"\n")
    about, lines = json.loads(head), parsed(told)
    status, reason = ending(lines, tuple(about["verdict"]))
    seconds = about["seconds"]
    return Run(with_outputs(notebook, lines), status, reason, seconds, ran(lines), late(lines))


@cache
def version() -> str:
    """What is to be the same for those who ask and those who run: the grader and `check`."""
    files = [*sorted(HERE.glob("*.py")), *sorted((COURSE / "attnlib/check").glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def started(job: str, limits: Limits, unsafe: bool) -> tuple[bytes, tuple[str, str]]:
    """Start the job, and watch it to its end."""
    if unsafe:
        return unfenced(job, limits)
    if warm.cold() is None:
        return watch(warm.start(job, limits), limits)
    return fenced(job, limits)


def fenced(job: str, limits: Limits) -> tuple[bytes, tuple[str, str]]:
    """Run the job in a bubblewrap and an interpreter of its own."""
    with paper(ONLY_CHECK) as check, hidden(fence(limits, check.fileno())) as (argv, options):
        passed = (check.fileno(), options)
        return watch(program([*argv, *python("/tmp")], environment(HOME), job, passed), limits)


def unfenced(job: str, limits: Limits) -> tuple[bytes, tuple[str, str]]:
    """Run the job with the limits only, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="attnlib-", ignore_cleanup_errors=True) as folder:
        library, work = Path(folder, "library/attnlib"), Path(folder, "work")
        shutil.copytree(COURSE / "attnlib/check", library / "check")
        (library / "__init__.py").write_text(ONLY_CHECK)
        work.mkdir()
        about = environment(str(work)) | {"PYTHONPATH": str(library.parent), "TMPDIR": str(work)}
        limits = replace(limits, sockets=0)  # the machine's own are in the same network
        return watch(program(python(str(work)), about, job), limits)


def killed_for_memory() -> int:
    """How often this machine's kernel has killed a process because memory ran out."""
    try:
        lines = Path("/proc/vmstat").read_text().split("\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def unusable() -> str | None:
    """Why this machine cannot run submissions safely, or None if it can."""
    if shutil.which("bwrap") is None:
        return (
            "Submissions run in bubblewrap, and there is no `bwrap` on this machine. Install it "
            "(Debian, Ubuntu: apt install bubblewrap). Without it every submission could read "
            "your files and change your marks; if you want that nevertheless, say --unsafe."
        )
    for outer in bound():
        if COURSE.is_relative_to(outer):
            return (
                f"The Python environment {outer} contains the course, so a submission would see "
                f"the solutions. Make the environment elsewhere, or inside the course as .venv."
            )
    if complaint := calls.unusable():
        return complaint
    argv = [*fence(Limits(), None), sys.executable, "-I", "-c", ""]
    if argv[0] in PROVEN:
        return None
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    if tried.returncode:
        return (
            "bubblewrap does not work on this machine (version 0.7 or newer is needed, and user "
            f"namespaces, or root with CAP_SYS_ADMIN): {tried.stderr.strip()}. In a container, "
            "allow them; see the page for teachers. --unsafe would run without it."
        )
    PROVEN.add(argv[0])
    return None


def inner_job(cells: list[Any], scene: Scene, limits: Limits, unsafe: bool) -> dict[str, Any]:
    """All that goes into the sandbox, as JSON."""
    alone = unsafe or warm.cold() is not None
    rlimits = {
        "RLIMIT_AS": limits.address_space,
        "RLIMIT_FSIZE": limits.file,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 256,
    } | ({} if unsafe else {"RLIMIT_NPROC": limits.threads})
    return {
        "cells": cells,
        "rlimits": rlimits,
        # Root is not held by the limit on threads, and owns files: become one who owns nothing,
        # another one for each submission that runs at the same time.
        "uid": nobody() if root() and not unsafe else None,
        "own users": not unsafe and (root() or not alone),
        "output": limits.output,
        "cell_seconds": limits.cell_seconds,
        "folder": scene.folder,
        "files": dict(scene.files),
        "kernel": (HERE / "away.py").read_text(encoding="utf-8"),
        "settings": {
            "hidden": dict(scene.hidden),
            "forbidden": list(scene.forbidden),
            "absent": packages.absent(),
            "filter": "" if unsafe else calls.program(2 if alone else 3).hex(),
        },
    }


def nobody() -> int:
    """A user of the machine whom nobody is, another one for each thread that runs a sandbox."""
    return 20_000 + threading.get_native_id() % 40_000


def python(work: str) -> list[str]:
    """The command line of the client."""
    source = (HERE / "inside.py").read_text(encoding="utf-8")
    return [sys.executable, "-I", "-B", "-c", source, work]
