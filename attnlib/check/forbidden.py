"""What an answer must not use, read from its code, here and in grading: a hint, and no lock."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

# The modules that grading has; `grading.sandbox.packages` lets the same ones in.
AVAILABLE = {"torch", "numpy", "matplotlib", "pandas", "tqdm", "IPython", "ipywidgets", ""}
AVAILABLE |= sys.stdlib_module_names


def names_used(source: str) -> list[str]:
    """What some code imports, and the attributes that it uses; nothing where it is no Python.

    >>> names_used("from torch import nn; x.softmax(-1)")
    ['torch.nn', '.softmax']
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = []
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            names += [f"{module}.{alias.name}" if module else alias.name for alias in node.names]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    return names + [f".{node.attr}" for node in attributes if node.attr not in own]


def refusal(names: Iterable[str], forbidden: Iterable[str]) -> str:
    """What is said of an answer that uses a forbidden name; empty if it uses none.

    >>> refusal(["torch.nn", ".softmax"], ["softmax"])
    'it uses softmax, which would be the answer: write it yourself'
    """
    forbidden = set(forbidden)
    for name in names:
        for part in name.split("."):
            if part in forbidden:
                return f"it uses {part}, which would be the answer: write it yourself"
    return ""


def refusal_of(answer: Callable[..., Any], forbidden: Iterable[str]) -> str:
    """The same of a function and its helpers, and of modules that grading does not have."""
    queue = [answer]
    for item in queue:
        function: Any = inspect.unwrap(item if inspect.isfunction(item) else type(item).__call__)
        if not inspect.isfunction(function) or _origin(function):
            continue
        reached = [function.__globals__.get(name) for name in function.__code__.co_names]
        names = [*map(_origin, reached), *names_used(_source(function))]
        reason = refusal(names, forbidden) or _unavailable(names)
        if reason:
            return reason
        queue += [value for value in reached if inspect.isfunction(value) and value not in queue]
    return ""


def _source(function: Callable[..., Any]) -> str:
    """The text of a function alone: what stands beside it in its cell may be a test of it."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""  # it was not written in a cell


def _origin(value: Any) -> str:
    """Where a value comes from, such as "scipy.stats.kendalltau"; empty for the student's own."""
    if inspect.ismodule(value):
        return str(value.__name__)
    module = getattr(value, "__module__", None) or "torch"
    name = getattr(value, "__name__", type(value).__name__)
    return "" if module == "__main__" else f"{module}.{name}"


def _unavailable(names: Iterable[str]) -> str:
    """What is said of a module that grading does not have, or of what comes from it."""
    for name in names:
        if name.partition(".")[0] not in AVAILABLE and not name.startswith("attnlib.check"):
            return f"it uses {name}, which is not there in grading"
    return ""
