"""What an answer must not use, read from its cell, here and in grading: a hint, and no lock."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

# these modules are there in grading; `grading.sandbox.packages` lets the same ones in
THERE = {"torch", "numpy", "matplotlib", "pandas", "tqdm", "IPython", "ipywidgets", ""}
THERE |= sys.stdlib_module_names


def reached(source: str) -> list[str]:
    """What a cell imports, and the attributes that it uses, such as ["torch.nn", ".softmax"]."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # no Python
    fields = [n for n in nodes if isinstance(n, ast.Attribute)]
    own = {n.attr for n in fields if isinstance(n.ctx, ast.Store)}
    imports = [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    paths = [f"{getattr(n, 'module', None) or ''}.{a.name}" for n in imports for a in n.names]
    return [p.lstrip(".") for p in paths] + [f".{n.attr}" for n in fields if n.attr not in own]


def refused(paths: Iterable[str], forbidden: Iterable[str]) -> str:
    """What is said of an answer that reaches for a forbidden name; empty if it does not."""
    name = next((part for path in paths for part in path.split(".") if part in set(forbidden)), "")
    return f"it uses {name}, which would be the answer: write it yourself" if name else ""


def refused_at_home(answer: Callable[..., Any], forbidden: Iterable[str]) -> str:
    """The same of a live function and its helpers, and of modules that are not there in grading."""
    queue = [answer]
    for one in queue:
        function: Any = inspect.unwrap(one if inspect.isfunction(one) else type(one).__call__)
        if inspect.isfunction(function) and not _path(function):
            bound = [function.__globals__.get(name) for name in function.__code__.co_names]
            paths = [*map(_path, bound), *reached(_source(function))]
            if told := refused(paths, forbidden) or _absent(paths):
                return told
            queue += [v for v in bound if inspect.isfunction(v) and v not in queue]
    return ""


def _source(function: Callable[..., Any]) -> str:
    """The text of a function alone: what stands beside it in its cell may be a test of it."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""  # it was not written in a cell


def _path(value: Any) -> str:
    """Where a value comes from, such as "scipy.stats.kendalltau"; empty for the student's own."""
    if inspect.ismodule(value):
        return str(value.__name__)
    home, name = getattr(value, "__module__", None) or "torch", type(value).__name__
    return "" if home == "__main__" else f"{home}.{getattr(value, '__name__', name)}"


def _absent(paths: Iterable[str]) -> str:
    """What is said of modules that are not there in grading, or of what comes from them."""
    gone = (p for p in paths if p.partition(".")[0] not in THERE and p[:13] != "attnlib.check")
    return next((f"it uses {path}, which is not there in grading" for path in gone), "")
