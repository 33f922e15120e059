"""Runs a submission's cells where they can do no harm: `run(notebook, hidden) -> Run`.

The submission is a stranger's program. It may try to read the solutions, other submissions and
the gradebook, to call the network, to fill memory or disk, to never end, and to write its own
marks. So its kernel, and the client that drives it (`grading.inside`), run in one `bubblewrap`:

- no network, and process, IPC and host-name namespaces of its own;
- of the file system only /usr, the Python environment and a folder made for this run are there,
  all read-only; of `attnlib` only the folder `check`; /tmp and /dev/shm are memory of limited
  size;
- no capabilities, an empty environment, and never root: as root we change to an unused user;
- limits on address space, file size and threads that are inherited, and a watch from outside
  on the memory and processes of the whole tree, on its time and on its output;
- nothing outside can be written: results come through a pipe.

What comes through the pipe is the student's word: this file makes it a well-formed notebook with
outputs that cannot hurt the browser of the person who grades, and `grading.judge` decides.

What it does not do: without a cgroup of its own, memory that no process maps (files in memory
made with memfd_create, System V segments) is not seen by the watch, only limited in size for each
file; there is no filter of system calls, so a hole in the kernel of the machine is a hole here.
`unsafe=True` runs the same with the limits only, on machines without bubblewrap.
"""

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from grading.outputs import ending, late, ran, with_outputs
from grading.watch import Limits, watch

NOT_SOURCE = shutil.ignore_patterns("__pycache__")
HERE = Path(__file__).resolve().parent
COURSE = HERE.parent


class SandboxError(RuntimeError):
    """The sandbox cannot be used: the machine's fault, never the submission's."""


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
    notebook: NotebookNode, hidden: str, limits: Limits | None = None, unsafe: bool = False
) -> Run:
    """Run all code cells of `notebook` in a sandbox of their own, in order.

    Args:
        notebook: the submission; its metadata and outputs play no part.
        hidden: the JSON text that `ATTNLIB_HIDDEN` names inside: inputs, no answers.
        limits: what it may use; the defaults of `Limits` if left out.
        unsafe: without bubblewrap: strangers' code then runs with your rights.

    Raises:
        SandboxError: bubblewrap is missing or did not start.

    >>> import nbformat
    >>> cell = nbformat.v4.new_code_cell("print(1 + 1)")
    >>> done = run(nbformat.v4.new_notebook(cells=[cell]), "{}", unsafe=True)
    >>> done.status, done.notebook.cells[0].outputs[0].text
    ('finished', '2\\n')
    """
    limits = limits or Limits()
    if not unsafe and (complaint := unusable()):
        raise SandboxError(complaint)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attnlib-", ignore_cleanup_errors=True) as folder:
        job = Path(folder, "job")
        write_job(job, notebook, hidden, limits, unsafe)
        work = Path(folder, "work")
        work.mkdir()
        argv, environment = command(job, work, limits, unsafe)
        lines, verdict = watch(argv, environment, limits)
    if not any("started" in line for line in lines):
        status, reason = verdict
        raise SandboxError(f"the sandbox did not start: {reason or status}")
    status, reason = ending(lines, verdict)
    seconds = time.monotonic() - start
    return Run(with_outputs(notebook, lines), status, reason, seconds, ran(lines), late(lines))


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
    with tempfile.TemporaryDirectory(prefix="attnlib-") as folder:
        argv = [*fence(Path(folder), Limits()), sys.executable, "-I", "-c", ""]
        tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    if tried.returncode:
        return (
            "bubblewrap does not work on this machine (version 0.7 or newer is needed, and user "
            f"namespaces, or root with CAP_SYS_ADMIN): {tried.stderr.strip()}. In a container, "
            "allow them; see the page for teachers. --unsafe would run without it."
        )
    return None


def bound() -> list[Path]:
    """The folders that hold the Python environment, without those inside another one."""
    found = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.executable).resolve().parents[1],
        Path(os.__file__).parent,
        *map(Path, site.getsitepackages()),
    }
    system = [Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")]
    folders = [*(path for path in system if path.exists()), *sorted(found, key=lambda p: p.parts)]
    kept: list[Path] = []
    for folder in folders:
        if folder.exists() and not any(folder.is_relative_to(other) for other in kept):
            kept.append(folder)
    return kept


def write_job(job: Path, notebook: NotebookNode, hidden: str, limits: Limits, unsafe: bool) -> None:
    """Write the folder that is all that the sandbox sees of the course."""
    cells = [
        [index, cell.source]
        for index, cell in enumerate(notebook.cells)
        if cell.cell_type == "code"
    ]
    rlimits = {
        "RLIMIT_AS": limits.address_space,
        "RLIMIT_FSIZE": limits.file,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 256,
    } | ({} if unsafe else {"RLIMIT_NPROC": limits.threads})
    # Root is not held by the limit on threads, and owns files: become somebody who owns nothing.
    uid = 20_000 + os.getpid() % 40_000 if os.geteuid() == 0 and not unsafe else None
    (job / "attnlib").mkdir(parents=True)
    (job / "attnlib/__init__.py").write_text('"""In grading only attnlib.check is there."""\n')
    shutil.copytree(COURSE / "attnlib/check", job / "attnlib/check", ignore=NOT_SOURCE)
    shutil.copyfile(HERE / "inside.py", job / "inside.py")
    (job / "hidden.json").write_text(hidden)
    (job / "job.json").write_text(
        json.dumps(
            {
                "cells": cells,
                "rlimits": rlimits,
                "uid": uid,
                "output": limits.output,
                "cell_seconds": limits.cell_seconds,
                "warm_up": "import attnlib.check",
            }
        )
    )


def command(
    job: Path, work: Path, limits: Limits, unsafe: bool
) -> tuple[list[str], dict[str, str]]:
    """The argument list and the whole environment of the process that runs the job."""
    python = [sys.executable, "-I", "-B"]
    inside = job if unsafe else Path("/job")
    home = work if unsafe else Path("/tmp")
    environment = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "USER": "student",
        "LOGNAME": "student",
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONPATH": str(inside),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ATTNLIB_HIDDEN": str(inside / "hidden.json"),
    }
    if unsafe:
        return [*python, str(job / "inside.py"), str(job), str(work)], environment
    return [*fence(job, limits), *python, "/job/inside.py", "/job", "/tmp"], environment


def fence(job: Path, limits: Limits) -> list[str]:
    """The bubblewrap command line up to the program that it starts."""
    root = os.geteuid() == 0
    namespaces = [
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    # Root needs no user namespace, and without one it can become another user for good.
    user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if root else ["--unshare-user"]
    # bubblewrap makes the folders on the way to a bound one, but only root may enter those.
    way = [
        part
        for folder in (*bound(), Path("/etc/x"))
        for parent in reversed(folder.parents[:-1])
        for part in ("--perms", "0755", "--dir", str(parent))
    ]
    binds = [part for folder in bound() for part in ("--ro-bind", str(folder), str(folder))]
    hidden = [
        part
        for folder in map(Path, site.getsitepackages())
        if (folder / "attnlib").exists()
        for part in ("--tmpfs", str(folder / "attnlib"))
    ]
    size = ["--perms", "1777", "--size", str(limits.disk), "--tmpfs"]
    return [
        shutil.which("bwrap") or "bwrap",
        *namespaces,
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        *user,
        "--hostname",
        "sandbox",
        *size,
        "/tmp",  # first: the course itself may lie under /tmp
        *way,
        *binds,
        *hidden,
        "--ro-bind-try",
        "/etc/alternatives",
        "/etc/alternatives",
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        *size,
        "/dev/shm",
        "--remount-ro",
        "/dev",
        "--ro-bind",
        str(job),
        "/job",
        "--remount-ro",
        "/",
        "--chdir",
        "/tmp",
        "--",
    ]
