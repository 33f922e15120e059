"""The kernel of a submission, as a student knows it but for three things.

    python -B -c <this file> CONNECTION         settings come as JSON on standard input

- `check` shows the answers to hidden inputs, in place of saying whether a task is passed.
- Packages that an answer does not need have stand-ins, which may be imported, and not be used.
- What a cell prints is cut where it is long.

All of this is for honest students and protects nothing. The file imports nothing of the course but
`attnlib.check`, for there is nothing else inside.
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ipykernel.iostream import OutStream
from ipykernel.kernelapp import IPKernelApp

PRINTED = 100_000  # characters that a cell may print to each of its two streams


class Absent(types.ModuleType):
    """In place of a package, or of something in it: it may be imported, and not be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"this uses {self.__name__}, which is not there in grading: an answer uses torch, "
            "numpy and Python's own modules"
        )


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the packages that are absent."""

    def __init__(self, absent: Sequence[str]) -> None:
        self.absent = frozenset(absent)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """How a stand-in is made; None for all that is there."""
        absent = name.partition(".")[0] in self.absent
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


class CutStream(OutStream):
    """What a cell prints, of which the first `PRINTED` characters are sent."""

    cell, room = "", PRINTED

    def write(self, string: str) -> int:
        """Send a text while the cell has room; say once that the rest is left out."""
        cell = self.parent_header.get("msg_id", "")
        if cell != self.cell:
            self.cell, self.room = cell, PRINTED
        if self.room > 0:
            super().write(string[: self.room])
            self.room -= len(string)
            if self.room < 0:
                super().write(f"\n… the rest is left out: above {PRINTED:,} characters\n")
        return len(string)


class Kernel(IPKernelApp):
    """The application that runs a kernel, with streams that are cut."""

    outstream_class = f"{__name__}.CutStream"

    def init_iopub(self, context: Any) -> None:
        """Open the channel on which outputs are sent; none is dropped, however many wait."""
        context.sndhwm = 0
        super().init_iopub(context)  # type: ignore[no-untyped-call]


def give_inputs(hidden: dict[str, Any]) -> None:
    """Let `check` show the answers to hidden inputs; what it is called with stays as it was."""
    library: Any = importlib.import_module("attnlib.check")

    def check(task: str, answer: Callable[..., Any]) -> None:
        library.show(library.ask(task, answer, hidden.get(task, [])))

    check.__doc__, check.__module__ = library.check.__doc__, library.check.__module__
    library.check = check


def main(connection: str, settings: dict[str, Any]) -> None:
    """Prepare what a submission finds, and become the kernel."""
    give_inputs(settings["hidden"])  # which imports torch: no student's time
    sys.meta_path.insert(0, StandIns(settings["absent"]))
    Kernel.launch_instance(argv=["-f", connection, "--HistoryManager.hist_file=:memory:"])


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
