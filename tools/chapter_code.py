"""Functions out of the chapters' own cells, so that tests can guard code that lives only there."""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

import nbformat
from chapter_rules import CHAPTERS


class Definitions:
    """What a chapter defines; run when the first name is asked for, not when tests are found."""

    def __init__(self, chapter: str, names: Iterable[str]) -> None:
        self._asked = chapter, names

    def __getattr__(self, name: str) -> Any:
        if name not in self._asked[1]:  # pytest asks everything whether it is a fixture
            raise AttributeError(name)
        vars(self).update(_run(*self._asked))
        return object.__getattribute__(self, name)


def definitions(chapter: str, *names: str) -> Definitions:
    """What a chapter defines under some names, without running the rest of it.

    The chapter's import lines are run, and the functions, classes and assignments that define the
    names, in the chapter's order. They share one set of globals: a function finds another one, or
    a value, if that is named here, too.

    Args:
        chapter: such as "07_is_attention_explanation".
        names: of functions, classes or variables at the top level of its cells.

    Raises:
        ValueError: when a name is asked for, if the chapter does not define each exactly once.
    """
    return Definitions(chapter, names)


def _run(chapter: str, names: Iterable[str]) -> dict[str, Any]:
    notebook = nbformat.read(CHAPTERS / f"{chapter}.ipynb", as_version=nbformat.NO_CONVERT)
    kept, times = [], dict.fromkeys(names, 0)
    for cell in notebook.cells:
        for node in ast.parse(cell.source).body if cell.cell_type == "code" else ():
            found = set(_defined(node)) & set(names)
            times |= {name: times[name] + 1 for name in found}
            if found or isinstance(node, ast.Import | ast.ImportFrom):
                kept.append((cell.id, node))
    wrong = {name: count for name, count in times.items() if count != 1}
    if wrong:
        raise ValueError(f"{chapter} should define each name once; it defines (times): {wrong}")
    space: dict[str, Any] = {"__name__": chapter}
    for cell_id, node in kept:
        exec(compile(ast.Module([node], []), f"{chapter}, cell {cell_id}", "exec"), space)
    return {name: space[name] for name in names}


def _defined(node: ast.stmt) -> Iterator[str]:
    """The names that a statement defines at the top level."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
