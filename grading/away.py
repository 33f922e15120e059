"""Takes away, inside a kernel that is about to run a submission, what its tasks forbid.

    python -B -c <this file> CONNECTION         settings come as JSON on standard input

A list of forbidden names, searched for in a text, never ends: there is always another way to write
one. So the functions themselves are taken away, before a line of the student's has run. What stays
in their place raises a sentence that says what to do instead.

- Operators of torch are replaced in its dispatcher. All ways lead through it: the Python function,
  aliases, the entry points in C, `torch.ops`, a module that is imported once more.
- Functions and classes that torch writes in Python lose their code in place, so that whoever holds
  a reference holds the replacement; modules that are imported later are treated as they come.
- Where derivatives are the answer, no operator records them any more.
- Packages that an answer does not need are not there. A stand-in may be imported, not used.
- Python's own doors to the memory of the process (ctypes, what gc lists, extension modules from
  elsewhere) are closed by an audit hook, and the kernel of the machine no longer starts programs,
  takes locks or sends signals (`grading.calls`).

What it does not do: whoever writes the missing function out has answered the task. Whoever finds a
hole in the interpreter gets around it; `grading.scan` names means that are good for nothing else.
It imports nothing of the course but `attnlib.check`, for there is nothing else inside.
"""

import ctypes
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

# Whoever forbids one of a family forbids them all.
FAMILIES = (
    r"attention|multi_?head|dot_product|transformer_encoder|^Transformer",
    r"^RNN(Cell)?$|rnn_(tanh|relu)|mkldnn_rnn",
    r"^GRU(Cell)?$|(^|_)gru(_|$)",
    r"layer_?norm|rms_?norm",
    r"(?<!binary_)cross_entropy|^CrossEntropyLoss|^NLLLoss|(?<!poisson_)(?<!gaussian_)nll_loss",
    r"^clip_grad|^_?clip_grads_with|total_norm$",
)
DERIVATIVES = (
    r"^(grad|backward|_backward|grad_and_value|jacobian|jacrev|jacfwd|hessian|hvp|vhp|vjp|jvp"
    r"|linearize|make_dual|_make_dual|_engine_run_backward|run_backward)$"
)
EVERY_KEY = ("CPU", "AutogradCPU")
OTHER_KEYS = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "MkldnnCPU",
    "NestedTensorCPU",
)
SHUT = ("_ctypes", "_testcapi", "_testinternalcapi", "_xxsubinterpreters", "_interpreters")
SIZES = re.compile(r"^(sizeof|Structure|c_(?!char_p|wchar_p)\w+)$")
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER_MODE = 4, 38, 22, 2


def words(name: str) -> str:
    """The sentence that stands in place of a function."""
    why = "would be the answer, and is not there in grading"
    return f"this uses {name}, which {why}: write it yourself"


def refusal(name: str, free: tuple[str, ...] = ()) -> Callable[..., Any]:
    """A function that raises the sentence for `name`.

    Args:
        name: what it stands for.
        free: the names that its code must have from around it, to fit where another code was.
    """
    made: dict[str, Any] = {}
    bound = "".join(f"    {one} = None\n" for one in free)
    used = f"        ({', '.join(free)})\n" if free else ""
    told = f"        raise RuntimeError({words(name)!r})\n"
    source = f"def make():\n{bound}    def f(*args, **kwargs):\n{told}{used}    return f\n"
    exec(compile(source, "<grading>", "exec"), made)
    function: Callable[..., Any] = made["make"]()
    function.__name__ = function.__qualname__ = name
    return function


def empty(function: types.FunctionType, name: str) -> None:
    """Leave of a function the sentence alone, whoever holds it."""
    made = refusal(name, function.__code__.co_freevars)
    function.__code__ = made.__code__.replace(co_name=name, co_qualname=name)


# torch


def pattern(forbidden: Sequence[str]) -> re.Pattern[str] | None:
    """What is taken away where some names are forbidden; None for nothing."""
    families = [f for f in (*FAMILIES, DERIVATIVES) if any(re.search(f, n) for n in forbidden)]
    names = [rf"^{re.escape(name)}$" for name in forbidden]
    return re.compile("|".join([*families, *names])) if forbidden else None


def take_operators(taken: re.Pattern[str]) -> None:
    """Replace operators of torch by refusals, whoever calls them."""
    import torch

    rooms: dict[str, Any] = {}
    whether = torch._C._dispatch_has_kernel_for_dispatch_key
    for full in torch._C._dispatch_get_all_op_names():
        room, _, name = full.partition("::")
        if not taken.search(name.partition(".")[0]):
            continue
        if room not in rooms:
            rooms[room] = torch._C._dispatch_library("IMPL", room, "")
        for key in (*EVERY_KEY, *(one for one in OTHER_KEYS if whether(full, one))):
            rooms[room].impl(name, key, refusal(name.partition(".")[0]), False)
    keep(rooms.values())


def take_derivatives() -> None:
    """Let no operator record how its output came about: there is no way back through it."""
    import torch

    room: Any = torch._C._dispatch_library("IMPL", "aten", "")
    whether = torch._C._dispatch_has_kernel_for_dispatch_key
    for full in torch._C._dispatch_get_all_op_names():
        own = full.startswith("aten::") and not whether(full, "CompositeImplicitAutograd")
        if own and whether(full, "Autograd"):
            room.impl(full[6:], "AutogradCPU", torch.library.fallthrough_kernel, False)
    keep([room])


def keep(things: Any) -> None:
    """Hold something for good, where no list leads to it: its end would bring back what is gone."""
    for one in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def strip(module: types.ModuleType, taken: re.Pattern[str]) -> None:
    """Take the code of a module's functions and classes that are forbidden."""
    for name, value in list(vars(module).items()):
        if not isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
            continue
        meant = taken.search(name) or taken.search(value.__name__)
        if isinstance(value, type):
            if str(value.__module__).startswith("torch"):
                strip_class(value, name, taken)
        elif meant and isinstance(value, types.FunctionType):
            empty(value, name)
        elif meant:
            setattr(module, name, refusal(name))


def strip_class(kind: type, name: str, taken: re.Pattern[str]) -> None:
    """Take the code of a class, or of those of its methods that are forbidden."""
    for key, value in list(vars(kind).items()):
        inner = getattr(value, "__func__", value)
        if isinstance(inner, types.FunctionType) and (taken.search(name) or taken.search(key)):
            empty(inner, name if taken.search(name) else key)


class Later(importlib.abc.MetaPathFinder):
    """Strips the modules of torch that are imported later; packages that are absent stand in."""

    def __init__(self, taken: re.Pattern[str] | None, absent: Sequence[str]) -> None:
        self.taken, self.absent = taken, frozenset(absent)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module as it would be found without this, but for what happens after its import."""
        if name.partition(".")[0] in self.absent:
            return importlib.machinery.ModuleSpec(name, StandIn(), is_package=True)
        if self.taken is None or name.partition(".")[0] not in ("torch", "functorch"):
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and isinstance(found.loader, importlib.machinery.SourceFileLoader):
            run, taken = found.loader.exec_module, self.taken

            def run_and_strip(module: types.ModuleType) -> None:
                run(module)
                strip(module, taken)

            found.loader.exec_module = run_and_strip  # type: ignore[method-assign]
        return found


# packages


class Absent(types.ModuleType):
    """In place of a package, or of something in it: it may be imported, and not be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        told = "which is not there in grading: an answer uses torch, numpy and Python's own modules"
        raise RuntimeError(f"this uses {self.__name__}, {told}")


class StandIn(importlib.abc.Loader):
    """Makes the module of an absent package."""

    def create_module(self, spec: Any) -> types.ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def forget_ctypes() -> None:
    """Put stand-ins in place of ctypes wherever a module holds it or something of it.

    What tells the size of a type stays: torch asks for it when it imports more of itself.
    """
    sizes = {name: getattr(ctypes, name) for name in dir(ctypes) if SIZES.search(name)}
    for module in [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]:
        for name, value in list(vars(module).items()):
            if home(value) in ("ctypes", "_ctypes"):
                vars(module)[name] = sizes.get(name) or Absent(f"ctypes.{name}")
    for name in [n for n in sys.modules if n.partition(".")[0] in ("ctypes", "_ctypes")]:
        sys.modules[name] = Absent(name)
        if name == "ctypes":
            vars(sys.modules[name]).update(sizes, __path__=[])


def home(value: Any) -> str:
    """The package from which a value comes: a module, a class, a function, an instance."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0]
    kind = value if isinstance(value, type | types.FunctionType) else type(value)
    return str(kind.__module__).partition(".")[0]


def shut_doors(trusted: tuple[str, ...]) -> None:
    """Refuse, for good, what leads into the memory of this process."""

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(("ctypes.", "gc.get_")):
            raise RuntimeError(f"{event} is not there in grading")
        if event == "import" and args[0].rpartition(".")[2] in SHUT:
            raise ImportError(f"{args[0]} is not there in grading")
        if event == "import" and args[1] and not os.path.realpath(args[1]).startswith(trusted):
            raise ImportError(f"{args[1]}: extension modules of one's own are not there in grading")

    sys.addaudithook(refuse)


# the kernel


def take(forbidden: Sequence[str], absent: Sequence[str] = ()) -> None:
    """Take away what some names stand for, and packages; for good, in this process."""
    taken = pattern(forbidden)
    if taken is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, that a kernel is overridden
            take_operators(taken)
            if any(re.search(DERIVATIVES, name) for name in forbidden):
                take_derivatives()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in ("torch", "functorch"):
                strip(module, taken)
    sys.meta_path.insert(0, Later(taken, absent))


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


def roots() -> Iterator[str]:
    """Where extension modules may come from."""
    for path in [*sys.path, sys.prefix, sys.base_prefix]:
        if path and os.path.isdir(path):
            yield os.path.realpath(path) + os.sep


def main(connection: str, settings: dict[str, Any]) -> None:
    """Take away what is to be taken, and become the kernel."""
    gc.disable()  # the imports make half a million objects, none of which ever goes
    sys.path[:] = [path for path in sys.path if path]
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    from ipykernel.kernelapp import launch_new_instance

    importlib.import_module("attnlib.check")  # and torch: no student's time
    confine(bytes.fromhex(settings["filter"]))
    shut = [] if settings["unsafe"] else ["ctypes", "_ctypes"]
    take(settings["forbidden"], [*settings["absent"], *shut])
    give_inputs(settings["hidden"])
    if shut:
        forget_ctypes()
        shut_doors(tuple(roots()))
    gc.freeze()
    gc.enable()
    launch_new_instance(argv=["-f", connection, "--HistoryManager.hist_file=:memory:"])


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
