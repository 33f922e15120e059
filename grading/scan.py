"""A look at a submission's source, for the person who grades: it decides no points.

It tells of means that an answer does not need: ways around what is taken away (`grading.away`),
frames of the interpreter, programs of the machine. Those that matter to points, to others and to
the machine lead nowhere; so a note in the report costs nothing, and `grading.insights` counts them.

Words are looked for, not meanings: every cell is read once from front to back, in a time that grows
with its length.
"""

import io
import re
import tokenize
from collections.abc import Iterator, Sequence

_SUSPICIOUS = (
    "ctypes _ctypes ctypeslib cffi __array_interface__ __array_struct__ get_objects "
    "get_referrers get_referents ExtensionFileLoader create_dynamic __subclasses__ addaudithook "
    "getattr attrgetter ops _C _VF __torch_function__ __torch_dispatch__ TorchDispatchMode "
    "decomposition_table _getframe _current_frames settrace setprofile f_globals f_locals "
    "f_back tb_frame __globals__ __closure__ __code__ __builtins__ __import__ eval exec "
    "builtins importlib subprocess multiprocessing threading signal socket marshal pickle "
    "get_ipython ipykernel IPKernelApp modules"
)
SUSPICIOUS = frozenset(_SUSPICIOUS.split())
REPLACED = {"torch", "np", "numpy", "math", "F", "nn", "json"}
USUAL = r"from attnlib\.check import (check|NotYet)(, *(check|NotYet))? *(#.*)?$"
OURS = re.compile(r"vnd\.attnlib|ATTNLIB_")


def scan(sources: Sequence[str]) -> list[str]:
    """What is to be told of a submission: at most 20 sentences, each with the number of a cell.

    Args:
        sources: the sources of its code cells, in order.
    """
    told = dict[str, None]()
    for number, source in enumerate(sources, 1):
        found = [f"uses {word}" for word in words(source) if word in SUSPICIOUS]
        told |= dict.fromkeys(f"cell {number} {one}" for one in [*found, *said(source)])
    return list(told)[:20]


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
