"""What a student's code cells define, read from their text; no line of it runs here.

Lines for IPython (`%matplotlib inline`, `!pip install …`) count as nothing. Where a cell is no
Python at all, such as one with a typing error, only `def name(` at the start of a line is seen.
"""

import ast
import dis
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from types import CodeType

MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
TAKING = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}  # the value of a global name
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Statement:
    """A statement at the top level of a cell.

    Attributes:
        text: its lines, with decorators.
        sign: the same for two statements that differ in spaces, comments or quotation marks only.
        binds: the names that it gives a value: a function's own, what is assigned or imported.
        node: it, as Python reads it.
    """

    text: str
    sign: str
    binds: frozenset[str]
    node: ast.stmt = field(compare=False)

    def uses(self) -> set[str]:
        """The global names whose values it takes, or a function within it when it runs.

        None that is a function's own; none at all of a statement that Python refuses to run.
        """
        module, flags = ast.Module([self.node], []), ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of `x is 1`, and the like
                codes: list[CodeType] = [compile(module, "<cell>", "exec", flags)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return set()
        for code in codes:
            codes += [part for part in code.co_consts if isinstance(part, CodeType)]
        steps = [step for code in codes for step in dis.get_instructions(code)]
        return {step.argval for step in steps if step.opname in TAKING}


@cache
def statements(source: str) -> tuple[Statement, ...] | None:
    """The statements at the top level of a cell, or None if it is no Python."""
    lines = source.split("\n")
    for text in (source, MAGIC.sub(r"\1pass", source)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a backslash in a text, as in formulas
                return tuple(_read(node, lines) for node in ast.parse(text).body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # without its lines for IPython, or not at all
    return None


def _read(node: ast.stmt, lines: list[str]) -> Statement:
    above = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    first = min([node.lineno, *above])
    return Statement(
        text="\n".join(lines[first - 1 : node.end_lineno]),
        sign=ast.dump(node),
        binds=frozenset(_bound(node)),
        node=node,
    )


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement binds; of a function only its own, and nothing within it."""
    if isinstance(node, DEFINITIONS):
        return {node.name}
    bound = set[str]()
    for part in ast.walk(node):
        if isinstance(part, DEFINITIONS):
            bound.add(part.name)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            bound.add(part.id)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in part.names}
    return bound


def same_code(source: str, other: str) -> bool:
    """Whether two cells are the same but for spaces, comments and quotation marks."""
    left, right = statements(source), statements(other)
    if left is None or right is None:
        return source.split() == other.split()
    return [statement.sign for statement in left] == [statement.sign for statement in right]


def defines(source: str, name: str) -> bool:
    """Whether a cell binds a name at its top level."""
    body = statements(source)
    if body is None:
        return re.search(rf"^(async )?def {re.escape(name)}\(", source, re.MULTILINE) is not None
    return any(name in statement.binds for statement in body)


def definition(source: str, name: str) -> str:
    """The sign of the last statement of a cell that binds a name; of no Python the whole cell."""
    signs = [part.sign for part in statements(source) or () if name in part.binds]
    return signs[-1] if signs else source


def resting_on(sources: Iterable[str], name: str) -> str:
    """The text of the last statement that binds a name, and behind it of all on which it rests.

    Args:
        sources: code cells in their order.
        name: a function's.
    """
    last = {
        bound: statement
        for source in sources
        for statement in statements(source) or ()
        for bound in statement.binds
    }
    needed = dict.fromkeys([last[name]] if name in last else [])
    queue = list(needed)
    for statement in queue:
        new = {last[used] for used in sorted(statement.uses() & last.keys())} - needed.keys()
        needed |= dict.fromkeys(new)
        queue += new
    return "\n".join(statement.text for statement in needed)
