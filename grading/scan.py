"""A static look at a submission: names that would be the answer, and ways around the judge.

The judge cannot be moved by anything in the submission's kernel, so a finding here is about
*how* an answer came about, not about whether it is right. Two findings, two consequences:

- a task's forbidden name (`scaled_dot_product_attention` where attention is to be written) in
  code that the task's answer can reach: no points for that task;
- an evasion, such as eval, frame inspection, or attnlib beyond `check`: a person looks at it
  before any points are given.

The lists are short on purpose: what an honest answer of this course may need is in neither.
"""

import ast
import re
import symtable
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grading.tasks import exercise

# an answer uses torch, numpy and the standard library, without these of its rooms
OUTSIDE = {"torch", "numpy", "matplotlib", "attnlib"}
BARRED = {
    "builtins",
    "code",
    "ctypes",
    "gc",
    "importlib",
    "inspect",
    "marshal",
    "multiprocessing",
    "os",
    "pickle",
    "runpy",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "threading",
}
BUILTINS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "globals",
    "locals",
    "vars",
    "breakpoint",
    "__builtins__",
    "__loader__",
    "__spec__",
    "get_ipython",
}
ATTRIBUTES = {
    "modules",
    "_getframe",
    "_current_frames",
    "settrace",
    "setprofile",
    "f_globals",
    "f_locals",
    "f_back",
    "tb_frame",
    "gi_frame",
    "cr_frame",
    "_C",
    "ops",
    "attrgetter",
    "methodcaller",
}
# of the attributes with two underscores, those that an answer may name
HARMLESS = {"__init__", "__call__", "__len__", "__getitem__", "__name__", "__repr__", "__iter__"}
MAGICS = {"matplotlib", "time", "timeit"}
USUAL = {"torch", "np", "numpy", "math", "F", "nn"}  # imported in another cell, as a rule
OURS = ("vnd.attnlib", "ATTNLIB_")


@dataclass(frozen=True)
class Findings:
    """What was found.

    Attributes:
        forbidden: a reason for each task that uses a name that would be its answer.
        evasions: reasons for a person to look at the submission.
    """

    forbidden: dict[str, str]
    evasions: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A code cell that can be parsed: its number, tree, and the names that it binds and uses."""

    number: int
    tree: ast.Module
    binds: frozenset[str]
    imports: frozenset[str]
    uses: frozenset[str]


def code_cells(notebook: Mapping[str, Any]) -> list[str]:
    """The sources of a notebook's code cells."""
    return [str(c.get("source", "")) for c in notebook["cells"] if c.get("cell_type") == "code"]


def scan(name: str, sources: Sequence[str]) -> Findings:
    """Look at a submission.

    Args:
        name: the exercise.
        sources: the sources of its code cells, in order.
    """
    cells = list(filter(None, (read(i, source) for i, source in enumerate(sources, 1))))
    tasks = exercise(name)
    forbidden = {}
    for task in tasks.values():
        used = [
            f"cell {cell.number} uses {word}, which would be the answer: write it yourself"
            for cell in reach(task.name, cells, set(tasks))
            for word in task.forbidden
            if word in words(cell, own=task.name)
        ]
        if used:
            forbidden[task.name] = used[0]
    found = (f"cell {cell.number} {what}" for cell in cells for what in evasions(cell))
    return Findings(forbidden, tuple(dict.fromkeys(found)))


def read(number: int, source: str) -> Cell | None:
    """Parse a cell, magics and all; None if it cannot be parsed, and so cannot run either."""
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        python = TransformerManager().transform_cell(source)  # type: ignore[no-untyped-call]
        tree = ast.parse(python)
        table = symtable.symtable(python, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    shared = list(_shared(table))
    return Cell(
        number,
        tree,
        frozenset(s.get_name() for s in shared if s.is_assigned() and not s.is_imported()),
        frozenset(s.get_name() for s in shared if s.is_imported()),
        frozenset(s.get_name() for s in shared),
    )


def _shared(table: symtable.SymbolTable) -> Iterator[symtable.Symbol]:
    """The names that a cell shares with others: its outermost ones, and global ones inside."""
    for symbol in table.get_symbols():
        if table.get_type() == "module" or symbol.is_global():
            yield symbol
    for inner in table.get_children():
        yield from _shared(inner)


def reach(task: str, cells: Sequence[Cell], tasks: set[str]) -> list[Cell]:
    """The cells that a task's answer may draw on: where it is made, and what shares names with it.

    A cell joins if it makes a name that the answer uses, or uses a name that the answer's cells
    made (it may have changed it). The functions of other tasks join only if they are used.
    """
    found = [cell for cell in cells if task in cell.binds | cell.imports]
    while True:
        used = set().union(*(cell.uses for cell in found))
        made = set().union(*(cell.binds for cell in found)) - tasks
        more = [
            cell
            for cell in cells
            if cell not in found and ((cell.binds | cell.imports) & used or cell.uses & made)
        ]
        if not more:
            return sorted(found, key=lambda cell: cell.number)
        found += more


def words(cell: Cell, own: str) -> set[str]:
    """The names by which a cell may reach a library's function: attributes, imports, strings.

    A bare name reaches nothing of the library's unless it was imported, and then the import is
    found: a variable `grad`, a function `rms_norm` and a class `RNN` are the student's own. So is
    an attribute that the student's class sets on itself. A function may bear the name of the
    library's (`own`): then strings do not count either.
    """
    found: set[str] = set()
    theirs = _own_attributes(cell.tree)
    for node in ast.walk(cell.tree):
        if isinstance(node, ast.Attribute) and id(node) not in theirs:
            found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.MatchClass):
            found |= set(node.kwd_attrs)
    spoken = {word for text in strings(cell.tree) for word in re.findall(r"\w+", text)}
    return found | (spoken - {own})


def _own_attributes(tree: ast.Module) -> set[int]:
    """The ids of the nodes `self.name` inside a class that binds that name itself."""
    found = set()
    for kind in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        methods = [n for n in kind.body if isinstance(n, ast.FunctionDef)]
        owners = {m.args.args[0].arg for m in methods if m.args.args}
        used = [
            n
            for m in methods
            for n in ast.walk(m)
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
        ]
        used = [n for n in used if isinstance(n.value, ast.Name) and n.value.id in owners]
        bound = {m.name for m in methods} | {n.attr for n in used if isinstance(n.ctx, ast.Store)}
        found |= {id(n) for n in used if n.attr in bound}
    return found


def strings(tree: ast.Module) -> Iterator[str]:
    """The strings of a cell by which something might be looked up.

    Not docstrings, messages (f-strings, what is printed, raised or asserted), keys and indices.
    """
    loose: set[int] = set()
    for node in ast.walk(tree):
        spoken: list[ast.expr | None] = []
        if isinstance(node, ast.Expr):
            spoken = [node.value]
        elif isinstance(node, ast.JoinedStr):
            spoken = list(node.values)
        elif isinstance(node, ast.Assert):
            spoken = [node.msg]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            spoken = list(node.exc.args)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            spoken = list(node.args)
        elif isinstance(node, ast.Dict):
            spoken = list(node.keys)
        elif isinstance(node, ast.Subscript):
            spoken = [node.slice]
        loose |= {id(one) for one in spoken}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in loose:
            yield node.value


def evasions(cell: Cell) -> Iterator[str]:
    """What a cell does that a person should see."""
    for node in ast.walk(cell.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node, cell)
        elif isinstance(node, ast.Name) and node.id in BUILTINS and not _magic(node, cell.tree):
            yield f"uses {node.id}"
        elif isinstance(node, ast.Call):
            yield from _call(node, cell)
    if "check" in cell.binds:
        yield "replaces check"
    texts = [n.value for n in ast.walk(cell.tree) if isinstance(n, ast.Constant)]
    if any(sign in text for text in texts if isinstance(text, str) for sign in OURS):
        yield "names what only the check cell uses"


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    modules = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.module == "attnlib.check" and {a.name for a in node.names} <= {"check", "NotYet"}:
            return
        if "*" in modules:
            yield f"imports everything from {node.module}"
        modules = [node.module or ""]
    for module in modules:
        top = module.partition(".")[0]
        if top == "attnlib" or top in BARRED:
            yield f"imports {module}"
        elif top not in OUTSIDE and top not in sys.stdlib_module_names:
            yield f"imports {module}: an answer uses torch, numpy and the standard library"


def _attribute(node: ast.Attribute, cell: Cell) -> Iterator[str]:
    special = node.attr.startswith("__") and node.attr.endswith("__")
    if node.attr in ATTRIBUTES or (special and node.attr not in HARMLESS):
        yield f"uses {ast.unparse(node)[:80]}"
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if not isinstance(node.ctx, ast.Load) and owner in cell.imports | USUAL:
        yield f"replaces {ast.unparse(node)[:80]}"


def _call(node: ast.Call, cell: Cell) -> Iterator[str]:
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    if called not in {"getattr", "setattr", "delattr"} or len(node.args) < 2:
        return
    owner, name = node.args[:2]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        yield f"uses {called} with a computed name"
    elif called != "getattr" and isinstance(owner, ast.Name) and owner.id in cell.imports | USUAL:
        yield f"replaces {owner.id}.{name.value}"
    elif name.value in ATTRIBUTES or name.value.startswith("__"):
        yield f"uses {called} for {name.value}"


def _magic(name: ast.Name, tree: ast.Module) -> bool:
    """Whether this get_ipython is that of a harmless magic, such as %timeit."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = node.func.value
            if isinstance(inner, ast.Call) and inner.func is name:
                texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
                inside = set(re.findall(r"\w+", " ".join(map(str, texts))))
                line = node.func.attr == "run_line_magic" and texts[:1] and texts[0] in MAGICS
                return bool(line) and not inside & (BUILTINS | ATTRIBUTES | BARRED)
    return False
