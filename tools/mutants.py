"""Puts small faults into a part of the library, one at a time, and prints those no test notices.

    make mutants ROOM=attnlib/explain      or      python tools/mutants.py attnlib/explain

The faults are those of mutmut: + for −, < for ≤, another number, a missing argument, None for a
value. mutmut's own runner leaves out decorated functions (properties, no_grad), so the running is
done here. Each fault lives in a process of its own, never in a file: a copy of a process that has
torch loaded reads the changed module, and runs the tests that reach the changed function, of those
that belong to the room. It has survived if they all pass. The rest of the suite is not asked.

tools/mutants.toml says which tests belong to a room that has no folder of its own name under
tests/, and which faults change nothing that a test should see, each with a reason. It needs
`pip install mutmut` and a system with fork (Linux, macOS).
"""

import argparse
import contextlib
import difflib
import importlib.util
import os
import random
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mutants_worker as worker

ROOT = Path(__file__).parent.parent
NOTES = Path(__file__).with_suffix(".toml")
SKIPPED = ("Raise", "Assert", "Annotation", "Decorator", "Import", "ImportFrom")
NO_RESULT = ("__all__ = ", "= TypeVar(", "= Callable[")  # statements that compute nothing


class Mutant(NamedTuple):
    """A module with one fault in it.

    Attributes:
        path: of the module, relative to the course.
        line: where the fault is.
        within: the lines of the function around it, empty outside of functions' bodies.
        old, new: the changed lines.
        source: the whole module.
    """

    path: str
    line: int
    within: range
    old: str
    new: str
    source: bytes


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every fault of mutmut's operators in a file, but none in messages, types and imports."""
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, ParentNodeProvider

    text = path.read_bytes()
    tree = MetadataWrapper(cst.parse_module(text))
    parents = dict(tree.resolve(ParentNodeProvider))
    spans: Any = tree.resolve(ByteSpanPositionProvider)
    seen = {text}
    for node in parents:
        above = [*_upwards(node, parents)]
        if any(_is_skipped(one, tree.module) for one in above) or node not in spans:
            continue
        within = range(0)
        if not any(isinstance(one, cst.Param) for one in above):  # a default is no line that runs
            for span in (spans[one] for one in above if isinstance(one, cst.FunctionDef)):
                within = range(_line(text, span.start), _line(text, span.start + span.length) + 1)
        start, end = spans[node].start, spans[node].start + spans[node].length
        for changed in _changes(node):
            own, code = (tree.module.code_for_node(one) for one in (node, changed))
            # the code of a node has brackets and spaces that its span lacks
            before, _, after = own.partition(text[start:end].decode())
            code = code.removeprefix(before).removesuffix(after)
            source = text[:start] + code.encode() + text[end:]
            if source not in seen and _compiles(source):
                seen.add(source)
                about = _name(path), _line(text, start), within
                yield Mutant(*about, *_lines(text, source), source)


def _line(text: bytes, at: int) -> int:
    return text[:at].count(b"\n") + 1


def _is_skipped(node: Any, module: Any) -> bool:
    if type(node).__name__ == "SimpleStatementLine":
        return any(words in module.code_for_node(node) for words in NO_RESULT)
    return type(node).__name__ in SKIPPED


def _upwards(node: Any, parents: dict[Any, Any]) -> Iterator[Any]:
    """A node, what holds it, and so on."""
    while node is not None:
        yield node
        node = parents.get(node)


def _changes(node: Any) -> Iterator[Any]:
    """What mutmut would put in the place of a node; of its three ways to spoil a string, one."""
    from mutmut.mutation.mutators import mutation_operators

    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            found = operator(node)
            yield from [*found][:1] if kind.__name__ == "BaseString" else found


def _lines(before: bytes, after: bytes) -> tuple[str, str]:
    """The lines that differ, on one line each way."""
    lines = [*difflib.ndiff(before.decode().splitlines(), after.decode().splitlines())]
    old, new = ([x[2:].strip() for x in lines if x.startswith(mark)] for mark in ("- ", "+ "))
    return " ".join(old), " ".join(new)


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _name(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix()


def tests_of(room: str, named: dict[str, list[str]]) -> list[str]:
    """The tests of a room: those that the notes name, or those at its place under tests/.

    >>> tests_of("attnlib/explain", {})
    ['tests/explain']
    >>> tests_of("attnlib/attention.py", {})
    ['tests/test_attention.py']
    """
    parts = Path(room).parts[1:]
    if room in named:
        return named[room]
    if not room.endswith(".py"):
        return ["/".join(("tests", *parts))]
    own = "/".join(("tests", *parts[:-1], f"test_{parts[-1]}"))
    return [own if (ROOT / own).exists() else "/".join(("tests", *parts[:-1]))]


def chosen_tests(mutant: Mutant, measured: worker.Measured) -> list[str]:
    """The tests that reach the function of a fault, the fastest first; all outside of one."""
    reach = measured.reach.get(mutant.path, {})
    names = {name for line in mutant.within for name in reach.get(line, ())}
    names = names if mutant.within else set(measured.seconds)
    return sorted(names, key=lambda name: measured.seconds.get(name, 0.0))


def options_of(words: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="mutants.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("room", help="a folder or a file, such as attnlib/explain")
    parser.add_argument("--tests", nargs="+", help="folders, files or ids, instead of the room's")
    parser.add_argument("--sample", type=int, help="try so many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which they are tried")
    parser.add_argument("--only", help="try those whose changed line contains this text")
    parser.add_argument("--seconds", type=float, default=2400, help="stop after so long (2400)")
    parser.add_argument("--at-most", type=float, default=3, help="%% that may survive (3)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Try the faults of a room, and return 1 if more of them survive than may."""
    options, notes = options_of(words), tomllib.loads(NOTES.read_text(encoding="utf-8"))
    room = _name(Path(options.room))
    files = sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / room]
    mutants = [mutant for path in files for mutant in mutants_of(path)]
    random.Random(options.seed).shuffle(mutants)
    mutants = [m for m in mutants if options.only is None or options.only in m.old]
    tests, where = options.tests or tests_of(room, notes["tests"]), [_name(path) for path in files]
    print(f"{len(mutants)} faults in {room}; tests: {' '.join(tests)} and doctests", flush=True)
    measured = worker.measure([*tests, *where], where)
    began, results = time.monotonic(), {}
    with contextlib.suppress(KeyboardInterrupt):  # the table of what was tried is printed anyway
        for mutant in mutants[: options.sample]:
            if time.monotonic() - began > options.seconds:
                break
            results[mutant] = verdict(mutant, measured, notes["equivalent"])
            if results[mutant] == "survived":
                print(
                    f"{mutant.path}, line {mutant.line}",
                    f"- {mutant.old}",
                    f"+ {mutant.new}",
                    sep="\n    ",
                    flush=True,
                )
    return report(results, where, len(mutants), options.at_most)


def verdict(mutant: Mutant, measured: worker.Measured, known: list[dict[str, Any]]) -> str:
    """What becomes of a fault: "equivalent", "killed", "too slow" or "survived"."""
    about = mutant.path, mutant.old
    if any(about == (one["file"], one["old"]) and mutant.new in one["new"] for one in known):
        return "equivalent"
    tests = chosen_tests(mutant, measured)
    if not tests:
        return "survived"
    limit = 10 + 5 * sum(measured.seconds[name] for name in tests)
    return worker.tried(mutant.path, mutant.source, tests, limit)


def report(results: dict[Mutant, str], files: Sequence[str], total: int, at_most: float) -> int:
    """Print the table; 1 if too many survived."""
    kinds = ("killed", "too slow", "equivalent", "survived")
    print(f"\n{'':<36}{'faults':>8}" + "".join(f"{kind:>12}" for kind in kinds))
    for name in (*files, "all"):
        found = [kind for mutant, kind in results.items() if name in (mutant.path, "all")]
        counts = "".join(f"{found.count(kind):>12}" for kind in kinds)
        print(f"{name:<36}{len(found):>8}{counts}")
    if len(results) < total:
        print(f"a random sample: {total - len(results)} of {total} were not tried")
    changing = [kind for kind in results.values() if kind != "equivalent"]
    share = 100 * changing.count("survived") / max(1, len(changing))
    print(f"{share:.1f} % of the faults that change something survived (at most {at_most:g} % may)")
    return int(share > at_most)


if __name__ == "__main__":
    if not hasattr(os, "fork"):
        sys.exit("this tool copies a running process (fork), which this system cannot")
    if importlib.util.find_spec("mutmut") is None:
        sys.exit("this tool needs mutmut, which the course does not: pip install mutmut")
    sys.exit(main(sys.argv[1:]))
