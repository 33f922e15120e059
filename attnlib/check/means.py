"""Whether a function uses what grading will refuse: said at once, not weeks later.

A hint for the student, no more: it follows the live function through its own helpers, by the names
in their code. A name that the student has bound is the student's own.
"""

import dis
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

OWN = "__main__"
# what is there in grading; `grading.packages` lets the same ones in
THERE = {"torch", "numpy", "matplotlib", "pandas", "tqdm", "IPython", "ipywidgets", OWN, "", "None"}
REACHING = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_NAME", "IMPORT_FROM")


def refused(answer: Callable[..., Any], forbidden: Iterable[str]) -> str | None:
    """The first name that grading will refuse in a function, its helpers and classes, or None.

    Args:
        answer: the student's function.
        forbidden: the names that would be the answer.
    """
    names = set(forbidden)
    queue: list[Any] = [answer]
    seen: set[int] = set()
    while queue:
        one = queue.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if found := _foreign(one, names):
            return found
        for function in _functions(one):
            bound = function.__globals__
            for code in _codes(function.__code__):
                for name, is_global in _used(code):
                    if is_global and name in bound:
                        queue.append(bound[name])
                    elif name in names:
                        return name
                absent = [i.argval for i in dis.get_instructions(code) if _absent(i)]
                if absent:
                    return str(absent[0])
    return None


def _absent(step: dis.Instruction) -> bool:
    """Whether a step of a function imports what is not there in grading."""
    return step.opname == "IMPORT_NAME" and not _there(step.argval)


def _there(module: str) -> bool:
    """Whether a module is there in grading."""
    top = module.partition(".")[0]
    return top in THERE or top in sys.stdlib_module_names


def _foreign(value: Any, names: set[str]) -> str | None:
    """The name of what is not the student's and must not be used."""
    if isinstance(value, ModuleType):
        return None if _there(value.__name__) else value.__name__
    home, name = (str(getattr(value, key, "")) for key in ("__module__", "__name__"))
    if not _there(home):
        return f"{home}.{name}"
    return name if home != OWN and name in names and callable(value) else None


def _functions(value: Any) -> Iterator[FunctionType]:
    """The functions in which the student wrote what a value does."""
    if isinstance(value, FunctionType) and value.__module__ == OWN:
        yield value
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ == OWN:
        yield from (one for one in vars(kind).values() if isinstance(one, FunctionType))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _used(code: CodeType) -> Iterator[tuple[str, bool]]:
    """The names by which a piece of code reaches something, and whether each is a global one."""
    stored = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_ATTR"}
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval, True
        elif step.opname in REACHING and step.argval not in stored:
            yield step.argval, False
