"""A control group of the machine's kernel for one submission, where this process may make one.

The kernel then counts all memory of a submission, also what no process maps, and holds it to the
limit by itself. It takes a folder of cgroup v2 that is handed over to the user who grades, with the
controllers of memory and of numbers of processes, and without processes of its own: the folder of
this process, or the one above (systemd: Delegate=yes, DelegateSubgroup=grader). Where there is
none, `grading.watch` looks by itself, and the filter of system calls lets no memory be made that no
process maps.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
NEEDED, PREFIX = {"memory", "pids"}, "submission-"


@dataclass(frozen=True)
class Group:
    """The group of one submission, in a folder of the kernel's."""

    folder: Path

    def entered(self, argv: list[str]) -> list[str]:
        """A command line that enters the group first, before it has a child."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", enter, str(self.folder / "cgroup.procs"), *argv]

    def take(self, pid: int) -> None:
        """Put a process into the group; its children will be there too."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def killed(self) -> str:
        """For whose sake the kernel has killed: "submission", "machine", or nobody's ("")."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "memory.events").read_text().split("\n")
            events = {name: int(count) for name, _, count in (x.partition(" ") for x in lines if x)}
            if events.get("oom"):
                return "submission"
            return "machine" if events.get("oom_kill") else ""
        return ""


@contextmanager
def group(memory: int, tasks: int) -> Iterator[Group | None]:
    """A group with limits, for as long as it is used; None where none can be made.

    Args:
        memory: bytes, of all kinds together.
        tasks: processes and threads.
    """
    above = home()
    if above is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
    try:
        limits = {"memory.max": memory, "memory.swap.max": 0, "memory.oom.group": 1}
        if not (above / "memory.swap.max").exists():
            del limits["memory.swap.max"]  # swap is not counted here
        for name, value in (limits | {"pids.max": tasks}).items():
            (folder / name).write_text(str(value))
        yield Group(folder)
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Kill whoever is left in a group, and remove it."""
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
    until = time.monotonic() + 2
    while folder.exists() and time.monotonic() < until:
        with contextlib.suppress(OSError):  # the last of them is still ending
            folder.rmdir()
        time.sleep(0.01)


@cache
def home(root: Path = ROOT, own: Path = OWN) -> Path | None:
    """The folder in which groups can be made, or None."""
    try:
        lines = own.read_text().split("\n")
    except OSError:
        return None
    mine = [root / line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    for folder, inner in ((one, path) for path in mine for one in (path.parent, path)):
        with contextlib.suppress(OSError):
            if folder.is_relative_to(root) and ours(folder, inner):
                (folder / "cgroup.subtree_control").write_text("+memory +pids")
                return folder
    return None


def ours(folder: Path, inner: Path) -> bool:
    """Whether a folder offers what is needed, may be written, and holds nobody else's group."""
    offered = set((folder / "cgroup.controllers").read_text().split())
    groups = {one for one in folder.iterdir() if one.is_dir() and one != inner}
    alone = all(one.name.startswith(PREFIX) for one in groups)
    return alone and offered >= NEEDED and os.access(folder, os.W_OK)
