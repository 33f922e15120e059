"""What a submission sees of the machine: `fence(limits)`, bubblewrap's command line."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grading.sandbox import calls, packages
from grading.sandbox.watch import Limits, SandboxError, paper

COURSE = Path(__file__).resolve().parents[2]
HOME = "/home/student"
WRITABLE = ("/tmp", "/dev/shm", HOME)  # all that a submission can write, in memory
NO_BUBBLEWRAP = (
    "Submissions run in bubblewrap, and there is no `bwrap` on this machine. Install it (Debian, "
    "Ubuntu: apt install bubblewrap). Without it every submission could read your files and change "
    "your marks; if you want that nevertheless, say --unsafe."
)


@contextmanager
def fence(limits: Limits) -> Iterator[tuple[list[str], int]]:
    """A bubblewrap, ready to be started.

    Args:
        limits: the size of the folders in memory.

    Yields:
        the command line up to the program that runs inside, and a file descriptor that
        bubblewrap has to inherit: of the filter of system calls.

    Raises:
        SandboxError: there is no bubblewrap or no filter, or a submission would see the solutions.
    """
    command = shutil.which("bwrap")
    if command is None:
        raise SandboxError(NO_BUBBLEWRAP)
    with paper(calls.program()) as rules:
        yield (
            [
                *(command, "--new-session", "--die-with-parent", "--cap-drop", "ALL", *user()),
                *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
                *("--unshare-cgroup-try", "--hostname", "localhost"),
                *("--seccomp", str(rules.fileno()), *files(limits.disk), "--chdir", HOME, "--"),
            ],
            rules.fileno(),
        )


def user() -> list[str]:
    """The options that say as whom a submission runs.

    Root would need no user namespace, and would own the machine's files there as here. So root's
    client changes to a user whom nobody is (`grading.sandbox.inside`), which takes two rights.
    """
    if os.geteuid() == 0:
        return ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return ["--unshare-user", "--uid", "1000", "--gid", "1000"]


def files(disk: int) -> list[str]:
    """The options that say which files a submission sees; `disk` in bytes, of a folder."""
    bound, folder = environments(), ["--perms", "0755", "--dir"]
    writable = ["--perms", "1777", "--size", str(disk), "--tmpfs"]
    # bubblewrap makes the folders above a bound one itself, but so that only root may enter them.
    above = [
        part
        for path in (*bound, Path("/etc/x"), Path(HOME))
        for parent in reversed(path.parents[:-1])
        for part in (*folder, str(parent))
    ]
    binds = [part for path in bound for part in ("--ro-bind", str(path), str(path))]
    return [
        *(*writable, "/tmp"),  # first: the course itself may lie under /tmp
        *(*above, *binds, *installed()),
        *("--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--proc", "/proc", "--dev", "/dev", *writable, "/dev/shm", "--remount-ro", "/dev"),
        *("--ro-bind", "/dev/null", "/dev/zero"),  # mapped, it is memory that stays when unmapped
        *(*writable, HOME, "--remount-ro", "/"),
    ]


def environments() -> list[Path]:
    """The folders that hold the system and the Python environment, none inside another one.

    Raises:
        SandboxError: one of them holds the course.
    """
    system = [Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")]
    prefixes = {
        Path(os.path.abspath(sys.prefix)),
        Path(sys.base_prefix),
        Path(sys.executable).resolve().parents[1],
        Path(os.__file__).parent,
        *packages.folders(),
    }
    outermost: list[Path] = []
    for path in [*system, *sorted(prefixes, key=lambda path: len(path.parts))]:
        if path.exists() and not any(path.is_relative_to(outer) for outer in outermost):
            outermost.append(path)
    for path in outermost:
        if COURSE.is_relative_to(path):
            raise SandboxError(
                f"The Python environment {path} contains the course, so a submission would see "
                "the solutions. Make the environment elsewhere, or inside the course as .venv."
            )
    return outermost


def installed() -> list[str]:
    """The options for folders of installed packages, with those alone that an answer may use."""
    folders, options = packages.folders(), list[str]()
    for folder in folders:
        options += ["--perms", "0755", "--tmpfs", str(folder)]
        for path in packages.visible():
            if path.parent == folder:
                options += ["--ro-bind", str(path), str(path)]
        if folder == folders[0]:  # of the library the folder `check` alone
            library = str(folder / "attnlib")
            options += ["--perms", "0755", "--dir", library]
            options += ["--ro-bind", str(COURSE / "attnlib/check"), f"{library}/check"]
        options += ["--remount-ro", str(folder)]
    return options


def python() -> str:
    """The interpreter of the environment; a path through `..` would not lead to it inside."""
    return os.path.abspath(sys.executable)


def environment(home: str) -> dict[str, str]:
    """All environment variables of a submission."""
    return {
        "HOME": home,
        "USER": "student",
        "LOGNAME": "student",
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
