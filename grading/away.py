"""Takes away, inside a kernel that is about to run a submission, what its tasks forbid.

    python -B -c <this file> CONNECTION         settings come as JSON on standard input

That is a hint, and no lock. Under its public names a forbidden function raises a sentence that says
what to do instead; whoever finds another way to it has understood more than the task asks. The cell
of an answer is read for the same names (`attnlib.check.means`), and `grading.scan` tells the
lecturer of means that are used for little else.

Packages that an answer does not need are not there. A stand-in may be imported, not used.

A lock it puts on, too: the filter of system calls (`grading.calls`), whatever the code does then.
It imports nothing of the course but `attnlib.check`, for there is nothing else inside.
"""

import ctypes
import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER_MODE = 4, 38, 22, 2


def refusal(name: str) -> Callable[..., NoReturn]:
    """What stands in place of a forbidden function."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        why = "would be the answer, and is not there in grading"
        raise RuntimeError(f"this uses {name}, which {why}: write it yourself")

    return refuse


def take(forbidden: Sequence[str]) -> None:
    """Take functions and classes of torch away, by their public names; for good."""
    import torch

    modules = [m for n, m in sys.modules.items() if n.split(".")[0] == "torch" and "._" not in n]
    for place in (*modules, torch.Tensor):
        for name in forbidden:
            value = inspect.getattr_static(place, name, None)
            if isinstance(value, type):
                value.__init__ = refusal(name)  # type: ignore[misc]
            elif callable(value):
                setattr(place, name, refusal(name))


class Absent(types.ModuleType):
    """In place of a package, or of something in it: it may be imported, and not be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        told = "which is not there in grading: an answer uses torch, numpy and Python's own modules"
        raise RuntimeError(f"this uses {self.__name__}, {told}")


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


def give_inputs(hidden: dict[str, Any]) -> None:
    """Let `check` show the answers to hidden inputs; what it is called with stays as it was."""
    library: Any = importlib.import_module("attnlib.check")

    def check(task: str, answer: Callable[..., Any]) -> None:
        library.show(library.ask(task, answer, hidden.get(task, [])))

    check.__doc__, check.__module__ = library.check.__doc__, library.check.__module__
    library.check = check


def confine(program: bytes) -> None:
    """Put the filter of system calls on this process and its children, and hide its memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if not program:
        return
    held = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    about = Program(len(program) // 8, ctypes.addressof(held))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.byref(about), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not taken")


def main(connection: str, settings: dict[str, Any]) -> None:
    """Take away what is to be taken, and become the kernel."""
    gc.disable()  # the imports make half a million objects, none of which ever goes
    sys.path[:] = [path for path in sys.path if path]
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    from ipykernel.kernelapp import launch_new_instance

    importlib.import_module("attnlib.check")  # and torch: no student's time
    confine(bytes.fromhex(settings["filter"]))
    take(settings["forbidden"])
    sys.meta_path.insert(0, StandIns(settings["absent"]))
    give_inputs(settings["hidden"])
    gc.freeze()
    gc.enable()
    launch_new_instance(argv=["-f", connection, "--HistoryManager.hist_file=:memory:"])


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
