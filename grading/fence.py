"""What a submission sees of the machine: bubblewrap's command line, built from what is here."""

import os
import shutil
import site
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from grading import packages
from grading.watch import HOME, Limits, paper

COURSE = Path(__file__).resolve().parent.parent
ONLY_CHECK = '"""In grading only attnlib.check is there."""\n'  # all of `attnlib` itself
# what tells one run of the machine's other runs
MACHINE = ("keys", "key-users", "locks", "loadavg", "timer_list", "diskstats", "vmstat")


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


def fence(limits: Limits, check: int | None, *more: str) -> list[str]:
    """The bubblewrap command line up to the program that it starts.

    Args:
        limits: the size of the folders in memory.
        check: the file descriptor of attnlib's only other file; None for a try without attnlib.
        more: further options, such as a user namespace to take instead of a new one.
    """
    rights = ("CAP_SETUID", "CAP_SETGID") if root() else ()
    secrets = [Path("/proc", name) for name in MACHINE]
    masks = [
        part for path in secrets if path.exists() for part in ("--ro-bind", "/dev/null", str(path))
    ]
    return [
        *begun(rights, own_users="--userns" not in more),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--hostname", "localhost", "--die-with-parent", *more),
        *files(limits, check, "--proc", "/proc", *masks),
    ]


@contextmanager
def hidden(argv: list[str]) -> Iterator[tuple[list[str], int]]:
    """A fence whose options lie in a file: its command line could be read inside.

    Yields:
        the command line up to the program, and the file's descriptor, to be passed on.
    """
    with paper("\0".join(argv[1:-1]) + "\0") as held:
        yield [argv[0], "--args", str(held.fileno()), "--"], held.fileno()


def porch(limits: Limits, check: int, *more: str) -> list[str]:
    """As `fence`, for what is ours: the same files, the machine's processes, rights over fences."""
    rights = ("CAP_SYS_ADMIN", "CAP_SYS_CHROOT", *(("CAP_SETUID", "CAP_SETGID") if root() else ()))
    return [*begun(rights), *more, *files(limits, check, "--ro-bind", "/proc", "/proc")]


def root() -> bool:
    """Whether the grader is root, who makes no user namespace for a fence, but one inside."""
    return os.geteuid() == 0


def begun(rights: Sequence[str], own_users: bool = True) -> list[str]:
    """The start of a command line: as whom a program runs, and with which rights."""
    user = [] if root() else ["--unshare-user"] * own_users + ["--uid", "1000", "--gid", "1000"]
    kept = [part for right in rights for part in ("--cap-add", right)]
    command = shutil.which("bwrap") or "bwrap"
    return [command, "--new-session", "--cap-drop", "ALL", *user, *kept]


def files(limits: Limits, check: int | None, *proc: str) -> list[str]:
    """The end of a command line: the files that a program sees; `proc` says which /proc."""
    # bubblewrap makes the folders on the way to a bound one, but only root may enter those.
    way = [
        part
        for folder in (*bound(), Path("/etc/x"))
        for parent in reversed(folder.parents[:-1])
        for part in ("--perms", "0755", "--dir", str(parent))
    ]
    binds = [part for folder in bound() for part in ("--ro-bind", str(folder), str(folder))]
    size = ["--perms", "1777", "--size", str(limits.disk), "--tmpfs"]
    return [
        *(*size, "/tmp"),  # first: the course itself may lie under /tmp
        *(*way, *binds, *installed(check)),
        *("--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *(*proc, "--dev", "/dev", *size, "/dev/shm", "--remount-ro", "/dev"),
        *("--ro-bind", "/dev/null", "/dev/zero"),  # mapped, it is memory that no process maps
        *("--perms", "0755", "--dir", str(Path(HOME).parent), *size, HOME),
        *("--remount-ro", "/", "--chdir", HOME, "--"),
    ]


def installed(check: int | None) -> list[str]:
    """The folders of installed packages, with those alone that a submission may meet."""
    found: list[str] = []
    for number, folder in enumerate(map(Path, site.getsitepackages())):
        if not folder.is_dir():
            continue
        found += ["--perms", "0755", "--tmpfs", str(folder)]
        for path in packages.visible():
            if path.parent == folder:
                found += ["--ro-bind", str(path), str(path)]
        if number == 0 and check is not None:
            inner = str(folder / "attnlib")
            found += ["--perms", "0755", "--dir", inner]
            found += ["--perms", "0644", "--ro-bind-data", str(check), f"{inner}/__init__.py"]
            found += ["--ro-bind", str(COURSE / "attnlib/check"), f"{inner}/check"]
        found += ["--remount-ro", str(folder)]
    return found


def environment(home: str) -> dict[str, str]:
    """All environment variables inside."""
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
