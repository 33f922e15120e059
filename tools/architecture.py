"""What stands on what in attnlib, and how long it is: `python tools/architecture.py` prints both.

Everything is read from the source, and nothing is imported; an import inside of a function counts
like any other. A module of attnlib itself, or a folder with all its modules, is one room.
"""

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

LIBRARY = Path(__file__).resolve().parent.parent / "attnlib"
# From the bottom up. A room may import the layers below its own, and no other room of its layer.
LAYERS = (
    ("attention", "positions", "trace", "data"),
    ("tokenizers",),
    ("models",),
    ("training", "decoding"),
    ("pretrained",),
    ("explain",),
)
# These stand beside the layers: nothing imports them but what is named here.
BESIDE = {"plots": LAYERS[0], "widgets": (*LAYERS[0], "plots"), "check": ()}
# Lines of code, without docstrings, comments and blank lines.
LIBRARY_LINES = 4_200  # without widgets
MODULE_LINES = 200
FUNCTION_LINES = 30


class Import(NamedTuple):
    """One module of attnlib that another one imports, both by their dotted names below attnlib."""

    source: str
    target: str
    line: int
    file: str


def room_of(module: str) -> str:
    """The room of a module: the first part of its name; attnlib's own `__init__` has none."""
    return module.partition(".")[0]


def allowed(room: str) -> tuple[str, ...]:
    """The rooms that a room may import.

    Raises:
        ValueError: for a room that has no place yet.

    >>> allowed("models")
    ('attention', 'positions', 'trace', 'data', 'tokenizers')
    """
    if room == "":
        return LAYERS[0]
    if room in BESIDE:
        return BESIDE[room]
    for level, rooms in enumerate(LAYERS):
        if room in rooms:
            return tuple(other for below in LAYERS[:level] for other in below)
    raise ValueError(f"attnlib/{room} has no layer yet: give it one in tools/architecture.py")


def sources(library: Path = LIBRARY) -> dict[str, str]:
    """The text of every module of the library, by its dotted name below attnlib."""
    found = {}
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def folders(library: Path = LIBRARY) -> list[str]:
    """The rooms that are folders."""
    return sorted(path.parent.name for path in library.glob("*/__init__.py"))


def targets(
    node: ast.AST, package: str, modules: set[str], handed: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The modules of attnlib that a statement imports, `package` being where it stands.

    A name that a folder hands on is imported from the folder, or from its own module, if `handed`
    (of `handed_on`) tells where that is.
    """
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        stem = ".".join([*base, *([node.module] if node.module else [])])
        names = [f"{stem}.{alias.name}" for alias in node.names]
    else:
        return
    for name in names:
        top, _, rest = name.partition(".")
        if top == "attnlib":
            if rest not in modules and isinstance(node, ast.ImportFrom):
                folder = rest.rpartition(".")[0]  # that was the name of a function or a class
                rest = folder if handed is None else handed.get(rest, folder)
            yield rest


def imports(
    texts: dict[str, str], packages: set[str], handed: Mapping[str, str] | None = None
) -> list[Import]:
    """Every import of one module of the library by another.

    Args:
        texts: the source of each module, as from `sources`.
        packages: the modules that are an `__init__`.
        handed: where the names come from that folders hand on; see `targets`.
    """
    found = []
    for name, text in texts.items():
        full = f"attnlib.{name}".rstrip(".")
        package = full if name in packages else full.rpartition(".")[0]
        file = full.replace(".", "/") + ("/__init__.py" if name in packages else ".py")
        for node in ast.walk(ast.parse(text)):
            for target in targets(node, package, set(texts), handed):
                found.append(Import(name, target, getattr(node, "lineno", 0), file))
    return found


def library_imports() -> list[Import]:
    """The imports of attnlib as it is."""
    return imports(sources(), {"", *folders()})


def handed_on(texts: dict[str, str], packages: set[str]) -> dict[str, str]:
    """The module that each name of a folder's `__init__` is from: {"models.Elman": …}."""
    found = {}
    for folder in packages:
        for node in ast.parse(texts[folder]).body:
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                one = ast.ImportFrom(node.module, [alias], node.level)
                for module in targets(one, f"attnlib.{folder}".rstrip("."), set(texts)):
                    found[f"{folder}.{alias.name}".lstrip(".")] = module
    return found


def behind(code: str, texts: dict[str, str], packages: set[str]) -> set[str]:
    """The modules that some code imports, directly or through others, and attnlib's `__init__`.

    Of a folder that hands names on, only the modules of the names that are imported count.

    >>> texts = {"": "", "a": "", "b": "from .c import f", "b.c": "from attnlib import a", "d": ""}
    >>> sorted(behind("from attnlib.b import f", texts, {"", "b"}))
    ['', 'a', 'b.c']
    """
    handed, below = _ways(frozenset(texts.items()), frozenset(packages))
    nodes = ast.walk(ast.parse(code))
    first = {"", *(name for node in nodes for name in targets(node, "", set(texts), handed))}
    return first.union(*(reach(name, below) for name in first))


@lru_cache(maxsize=2)
def _ways(
    texts: frozenset[tuple[str, str]], packages: frozenset[str]
) -> tuple[dict[str, str], dict[str, set[str]]]:
    """`handed_on`, and which module imports which others, names that are handed on followed."""
    handed, below = handed_on(dict(texts), set(packages)), defaultdict(set)
    for one in imports(dict(texts), set(packages), handed):
        below[one.source].add(one.target)
    return handed, dict(below)


def wrong_ways(found: list[Import]) -> list[str]:
    """The imports that go up, sideways or out of their place, each with its file and line."""
    complaints = []
    for one in found:
        here, there = room_of(one.source), room_of(one.target)
        if here != there and there not in allowed(here):
            name = there or "attnlib itself"
            complaints.append(f"{one.file}:{one.line}: {here or 'attnlib'} may not import {name}")
    return complaints


def circles(found: list[Import]) -> list[str]:
    """The imports that lie on a circle of modules, each with its file and line."""
    below: dict[str, set[str]] = {}
    for one in found:
        below.setdefault(one.source, set()).add(one.target)
    reached = {name: reach(name, below) for name in below}
    return [
        f"{one.file}:{one.line}: {one.target} leads back to {one.source}"
        for one in found
        if one.source == one.target or one.source in reached.get(one.target, set())
    ]


def reach(start: str, below: dict[str, set[str]]) -> set[str]:
    """Everything that a module, or a room, imports directly or through others.

    >>> sorted(reach("a", {"a": {"b"}, "b": {"c"}}))
    ['b', 'c']
    """
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in below.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def arrows(found: list[Import]) -> dict[str, set[str]]:
    """Which room imports which others, for every room that has a module or is imported."""
    result: dict[str, set[str]] = {}
    for one in found:
        if room_of(one.source) and room_of(one.source) != room_of(one.target):
            result.setdefault(room_of(one.source), set()).add(room_of(one.target))
    return result


def shortest(below: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from the others: what a picture has to show.

    >>> sorted(shortest({"a": {"b", "c"}, "b": {"c"}}))
    [('a', 'b'), ('b', 'c')]
    """
    return {
        (upper, lower)
        for upper, direct in below.items()
        for lower in direct
        if not any(lower in reach(other, below) for other in direct - {lower})
    }


# the length of the code


@dataclass(frozen=True)
class Size:
    """The code lines of a module, and those of its functions with the line where each begins."""

    lines: int
    functions: tuple[tuple[int, str, int], ...]


def size(text: str) -> Size:
    """Count code lines: every line with a token on it that is no comment and no docstring.

    >>> size('x = 1  # one\\n\\n\\ndef f():\\n    "Docstring."\\n    return 2\\n')
    Size(lines=3, functions=((2, 'f', 4),))
    """
    tree = ast.parse(text)
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty | {tokenize.ENDMARKER}:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    functions = [
        (len(lines & set(range(n.lineno, (n.end_lineno or 0) + 1))), n.name, n.lineno)
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return Size(len(lines), tuple(sorted(functions, reverse=True)))


def library_lines(texts: dict[str, str]) -> int:
    """The code lines that the budget counts: those of every module but the widgets'."""
    return sum(size(text).lines for name, text in texts.items() if room_of(name) != "widgets")


def over_budget(texts: dict[str, str]) -> list[str]:
    """The modules and functions that are too long, and the library if it is."""
    complaints, total = [], library_lines(texts)
    for name, text in texts.items():
        counted = size(text)
        if counted.lines > MODULE_LINES:
            complaints.append(f"attnlib.{name}: {counted.lines} lines of code, not {MODULE_LINES}")
        complaints += [
            f"attnlib.{name}, line {line}: {function} has {length}, not {FUNCTION_LINES}"
            for length, function, line in counted.functions
            if length > FUNCTION_LINES
        ]
    if total > LIBRARY_LINES:
        complaints.append(f"attnlib without widgets: {total} lines of code, not {LIBRARY_LINES}")
    return complaints


def table(texts: dict[str, str], found: list[Import]) -> str:
    """For every room: its code lines, its longest module and function, and what it imports.

    The room without a name is attnlib's own `__init__`.
    """
    below, rows = arrows(found), []
    order = ["", *(room for layer in LAYERS for room in layer), *BESIDE]
    for room in order:
        sizes = {name: size(text) for name, text in texts.items() if room_of(name) == room}
        lines = sum(one.lines for one in sizes.values())
        longest = max((one.lines for one in sizes.values()), default=0)
        function = max((n for one in sizes.values() for n, _, _ in one.functions), default=0)
        stands_on = ", ".join(other for other in order if other in below.get(room, ()))
        rows.append(f"{room:<11}{lines:>6}{longest:>8}{function:>10}  {stands_on or '-'}")
    head = f"{'room':<11}{'lines':>6}{'module':>8}{'function':>10}  imports"
    told = f"without widgets {library_lines(texts)} of {LIBRARY_LINES} lines"
    return "\n".join([head, *rows, told])


if __name__ == "__main__":
    print(table(sources(), library_imports()))
    for problem in wrong_ways(library_imports()) + circles(library_imports()):
        print(problem)
