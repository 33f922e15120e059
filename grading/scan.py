"""A look at a submission's source, for the person who grades: it decides no points.

What a task forbids is taken away before a submission runs (`grading.away`), so nothing has to be
searched for. What is left for a look at the source are two things:

- hints: means that an answer does not need, such as frames of the interpreter. They stand in the
  report's notes, and cost nothing;
- doors: means that are good for nothing but to get at the memory of the process, around what was
  taken away. They are shut in the sandbox; a submission that names one waits for a person all the
  same, for a door may have a gap.

Words are looked for, not meanings: every cell is read once from front to back, in a time that grows
with its length, and no more than `LONGEST` characters of all cells together.
"""

import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST = 400_000  # characters; the longest solutions have 10,000
DOORS = frozenset(
    {
        "ctypes",
        "_ctypes",
        "ctypeslib",
        "cffi",
        "__array_interface__",
        "__array_struct__",
        "get_objects",
        "get_referrers",
        "get_referents",
        "ExtensionFileLoader",
        "create_dynamic",
        "_dispatch_library",
        "__subclasses__",
        "addaudithook",
    }
)
HINTS = frozenset(
    {
        "_getframe",
        "_current_frames",
        "settrace",
        "setprofile",
        "f_globals",
        "f_locals",
        "f_back",
        "tb_frame",
        "__globals__",
        "__closure__",
        "__code__",
        "__builtins__",
        "__import__",
        "eval",
        "exec",
        "builtins",
        "importlib",
        "subprocess",
        "multiprocessing",
        "threading",
        "signal",
        "socket",
        "marshal",
        "pickle",
        "get_ipython",
        "ipykernel",
        "IPKernelApp",
        "modules",
    }
)
REPLACED = {"torch", "np", "numpy", "math", "F", "nn", "json"}
USUAL = r"from attnlib\.check import (check|NotYet)(, *(check|NotYet))? *(#.*)?$"
OURS = re.compile(r"vnd\.attnlib|ATTNLIB_")


@dataclass(frozen=True)
class Findings:
    """What was found, a sentence each with the number of the cell.

    Attributes:
        hints: for a person to read; no points hang on them.
        doors: for a person to look at before any points are given.
    """

    hints: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()


def code_cells(notebook: Mapping[str, Any]) -> list[str]:
    """The sources of a notebook's code cells."""
    return [str(c.get("source", "")) for c in notebook["cells"] if c.get("cell_type") == "code"]


def scan(sources: Sequence[str]) -> Findings:
    """Look at a submission.

    Args:
        sources: the sources of its code cells, in order.
    """
    hints, doors, room = dict[str, None](), dict[str, None](), LONGEST
    for number, source in enumerate(sources, 1):
        if len(source) > room:
            hints[f"cell {number} is too long to be looked at"] = None
            continue
        room -= len(source)
        for word in words(source):
            if word in DOORS:
                doors[f"cell {number} uses {word}"] = None
            elif word in HINTS:
                hints[f"cell {number} uses {word}"] = None
        hints |= dict.fromkeys(f"cell {number} {told}" for told in said(source))
    return Findings(tuple(hints)[:20], tuple(doors)[:20])


def words(source: str) -> Iterator[str]:
    """The names in a cell; comments and texts left out where it is Python."""
    found = []
    source = source.encode(errors="replace").decode()  # newer Pythons refuse half a character
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                found.append(token.string)
    except (
        tokenize.TokenError,
        SyntaxError,
    ):  # a magic, or no Python: better too much than nothing
        found = re.findall(r"\w+", source)
    yield from found


def said(source: str) -> Iterator[str]:
    """What a cell replaces, and what it names that only the check cell uses."""
    if OURS.search(source):
        yield "names what only the check cell uses"
    for line in map(str.strip, source.split("\n")):
        if re.match(r"def check\b|check *=[^=]", line):
            yield "replaces check"
        elif re.match(r"(from|import) +attnlib", line) and not re.match(USUAL, line):
            yield "imports attnlib beyond check"
        elif re.match(r"!|%%(bash|sh|script)\b|\w{1,80} *= *!", line):
            yield "starts a program of the machine"
        found = re.match(r"(\w{1,40})\.([\w.]{1,80}) *=[^=]", line)
        if found and found[1] in REPLACED:
            yield f"replaces {found[1]}.{found[2]}"
