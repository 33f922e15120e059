"""Executes the chapters and stores them clean (`make chapters`).

A stored chapter holds its code's outputs and nothing that changes from run to run: no widget
state, no widget ids (a reader on the web sees the picture instead), no timing, one kernel name.
Cell ids stay. `attnlib` in its metadata tells which code and which library it was executed with.
What its live views need on a page without a kernel is stored beside it, in chapters/views, where
`make book` and `make slides` find it: they run nothing.
"""

import argparse
import copy
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from chapter_rules import (
    CHAPTERS,
    DROPPED,
    ROOT,
    chapter_paths,
    code_hash,
    header,
    side_roads,
    view_places,
)
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

README = ROOT / "README.md"
MAP = ("<!-- course map: written by make chapters -->", "<!-- end of the course map -->")
ROUTES = ("<!-- routes: written by make chapters -->", "<!-- end of the routes -->")
SHORT = ("00", "03", "04", "05", "07", "09", "15")  # the chapters of the short route
VIEWS = CHAPTERS / "views"  # a file for each chapter that has any
VIEW = "application/vnd.attnlib.view+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Kernels compute on one thread, whatever is set here; a bar is for a reader who waits.
KERNEL_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
    "ATTNLIB_STATIC": "1",  # a view brings its state along
}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}


LIBRARY = ROOT / "attnlib"
# What a chapter may need of the library; a card holds the hash of its weights.
LIBRARY_FILES = (
    "**/*.py",
    "checkpoints/*.json",
    "checkpoints/*.bpe",
    "widgets/*.js",
    "widgets/*.css",
)


def library_hash() -> str:
    """A hash of the library: its code, its views, and the cards of its checkpoints."""
    digest = hashlib.sha256()
    for path in sorted(chain(*map(LIBRARY.glob, LIBRARY_FILES))):
        digest.update(path.relative_to(LIBRARY).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def stamped(notebook: NotebookNode) -> NotebookNode:
    """The notebook, with the hashes of its code and of the library as they are now."""
    result = copy.deepcopy(notebook)
    result.metadata["attnlib"] = NotebookNode(code=code_hash(notebook), library=library_hash())
    return result


def is_stale(notebook: NotebookNode) -> bool:
    """Whether the code or the library changed since the notebook was executed."""
    return notebook.metadata.get("attnlib") != stamped(notebook).metadata.attnlib


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what changes from run to run."""
    result = copy.deepcopy(notebook)
    kept = {key: result.metadata[key] for key in ("title", "attnlib") if key in result.metadata}
    result.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": LANGUAGE, **kept})
    for cell in result.cells:
        for key in DROPPED | {"collapsed", "scrolled"}:
            cell.metadata.pop(key, None)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
        if "outputs" in cell:
            cell.outputs = joined([o for o in cell.outputs if not is_empty(o)])
    return result


def is_empty(output: NotebookNode) -> bool:
    """Whether nothing is left of an output but the first text of a progress bar."""
    if "data" not in output:
        return False
    bar = re.search(r"\d+%\|", "".join(output.data.get("text/plain", "")))
    return not output.data or (set(output.data) == {"text/plain"} and bar is not None)


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs in which a stream that came in several parts is one."""
    result: list[NotebookNode] = []
    for output in outputs:
        if result and output.get("name") and output.get("name") == result[-1].get("name"):
            result[-1].text += output.text
        else:
            result.append(copy.deepcopy(output))
    return result


class Stopped(Exception):
    """A chapter that did not run to its end: the first line says in which cell, and why."""


Views = dict[str, dict[str, Any]]  # cell id -> number of the output -> state of its view


class Executed(NamedTuple):
    """A chapter that was run from nothing."""

    notebook: NotebookNode  # cleaned and stamped
    views: Views
    seconds: float  # start of the kernel included


def executed(path: Path) -> Executed:
    """Execute a chapter from nothing.

    Raises:
        Stopped: if a cell fails, takes too long or ends its kernel.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # not that it listens on this machine alone
        resources={"metadata": {"path": str(path.parent)}},
    )
    at = [0]
    client.on_cell_start = lambda cell, cell_index: at.append(cell_index)
    began = time.perf_counter()
    try:
        client.execute(env=os.environ | KERNEL_SETTINGS)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise Stopped(stop(notebook, at[-1], error)) from error
    seconds = time.perf_counter() - began
    return Executed(*parted(stamped(cleaned(notebook))), seconds)


def stop(notebook: NotebookNode, at: int, error: Exception) -> str:
    """In which cell a chapter stopped, and why; what the kernel said follows."""
    first = notebook.cells[at].source.strip().partition("\n")[0]
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, CellExecutionError):
        why = f"{error.ename}: {error.evalue}"
    short = why.partition("\n")[0]
    return f"cell {at + 1} of {len(notebook.cells)}, `{first}`, stopped with {short}\n{error}"


def parted(notebook: NotebookNode) -> tuple[NotebookNode, Views]:
    """The notebook without the state of its views, and this state."""
    result, views = copy.deepcopy(notebook), {}
    for cell in result.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            if VIEW in output.get("data", {}):
                views.setdefault(cell.id, {})[str(number)] = output.data.pop(VIEW)
    return result, views


def keep_views(name: str, done: Executed) -> None:
    """Store what a chapter's live views need, with the stamp of what it was executed with."""
    stored = VIEWS / f"{name}.json"
    if not done.views:
        stored.unlink(missing_ok=True)
        return
    VIEWS.mkdir(parents=True, exist_ok=True)
    kept = {"attnlib": done.notebook.metadata.attnlib, "views": done.views}
    part = VIEWS / f"{name}.{os.getpid()}.part"
    part.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    part.replace(stored)  # whole or not at all


def kept_views(path: Path) -> Views | None:
    """What is stored of a chapter's views, by cell and output; empty if it shows none.

    None if a view is missing, or if they are of another run or code than the chapter.
    """
    notebook = nbformat.read(path, as_version=4)
    if not (places := view_places(notebook)):
        return {}
    stored = VIEWS / f"{path.stem}.json"
    found = json.loads(stored.read_text("utf-8")) if stored.exists() else {"views": {}}
    views: Views = found["views"]
    if places != {(cell, int(number)) for cell, several in views.items() for number in several}:
        return None
    stamps = (stamped(notebook).metadata.attnlib, notebook.metadata.get("attnlib"))
    return (
        views
        if found["attnlib"] in stamps and found["attnlib"]["code"] == code_hash(notebook)
        else None
    )


def rounded(seconds: float) -> int:
    """Seconds for a header: up to the next second below ten, to the next five above."""
    return math.ceil(seconds) if seconds <= 10 else 5 * math.ceil(seconds / 5)


def with_seconds(notebook: NotebookNode, seconds: float) -> NotebookNode:
    """The notebook, its header telling how long it runs."""
    result = copy.deepcopy(notebook)
    old, new = header(notebook).run, rounded(seconds)
    first = result.cells[0]
    first.source = first.source.replace(f"· {old} s to run", f"· {new} s to run")
    return result


def course_map(paths: Sequence[Path], beside: Sequence[Path] = ()) -> str:
    """The README's table of chapters, each with its side roads, from their headers."""
    rows = ["| Chapter | Question | To read | To run |", "|---|---|---|---|"]
    told = {path: header(nbformat.read(path, as_version=4)) for path in (*paths, *beside)}
    for path in paths:
        one, links = told[path], []
        for more in (more for more in beside if more.name[:2] == path.name[:2]):
            title, read = told[more].title.partition(" · ")[2], told[more].read
            links.append(f"[{title}](chapters/more/{more.name}) ({read} min)")
        question = "<br>Side roads: ".join([one.question, *filter(None, [", ".join(links)])])
        link = f"[{one.title}](chapters/{path.name})"
        rows.append(f"| {link} | {question} | {one.read} min | {one.run} s |")
    return "\n".join(rows)


def routes(paths: Sequence[Path], beside: Sequence[Path] = ()) -> str:
    """A table of three ways through the course, each with its hours."""
    read = {path: header(nbformat.read(path, as_version=4)).read for path in (*paths, *beside)}
    short = [path for path in paths if path.name[:2] in SHORT]
    hours = [f"{sum(read[path] for path in some) / 60:.0f}" for some in (short, paths, read)]
    tasks = [ROOT / "exercises" / path.stem / path.name for path in paths]
    texts = [path.read_text(encoding="utf-8") for path in tasks if path.exists()]
    practice = sum(int(told) for told in re.findall(r"\*\*Time\*\* (\d+) min", "".join(texts))) / 60
    numbers = ", ".join(path.name[:2] for path in short)
    rows = [
        ("Route", "What you read", "Hours"),
        ("---", "---", "---"),
        ("short", f"chapters {numbers}: attention, and whether it explains", hours[0]),
        ("a semester", f"all chapters; their exercises take {practice:.0f} h more", hours[1]),
        ("all", "the chapters and their side roads", hours[2]),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_map(text: str, table: str, marks: tuple[str, str] = MAP) -> str:
    """A text with the table between two marker lines replaced.

    Raises:
        ValueError: if the two marker lines are not there.
    """
    before, start, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (start and end):
        raise ValueError(f"a text that begins {text[:30]!r} needs the lines {marks[0]}, {marks[1]}")
    return f"{before}{start}\n{table}\n{end}{after}"


def with_tables(text: str) -> str:
    """The README's text with its course map and its routes as they are now."""
    text = with_map(text, course_map(chapter_paths(), side_roads()))
    return with_map(text, routes(chapter_paths(), side_roads()), ROUTES)


def use_two_cores() -> None:
    """Keep this process and its kernels on two cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def execute(paths: Sequence[Path], everything: bool, times: bool) -> int:
    """Execute what changed, store it, and bring the README's map up to date."""
    failed = 0
    for path in paths:
        stored = nbformat.read(path, as_version=4)
        current = not is_stale(stored) and kept_views(path) is not None
        if current and not (everything or times):
            print(f"{path.stem}: nothing changed")
            continue
        try:
            done = executed(path)
        except Stopped as error:
            failed += 1
            print(f"{path.stem}: stays as it was: {error}", file=sys.stderr)
            continue
        notebook, told = done.notebook, header(done.notebook).run
        print(f"{path.stem}: {done.seconds:.1f} s (the header says {told} s)", flush=True)
        nbformat.write(with_seconds(notebook, done.seconds) if times else notebook, path)
        keep_views(path.stem, done)
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    for path in paths:
        stored = nbformat.read(path, as_version=4)
        for cell in (cell for cell in stored.cells if ROUTES[0] in cell.source):
            cell.source = with_map(cell.source, routes(chapter_paths(), side_roads()), ROUTES)
            nbformat.write(stored, path)
    return int(failed > 0)


def main(words: Sequence[str]) -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=["execute"])
    parser.add_argument("names", nargs="*", help="such as 01_ngram; none: all, with side roads")
    parser.add_argument("--all", action="store_true", help="execute also what did not change")
    parser.add_argument("--times", action="store_true", help="write measured seconds in headers")
    options = parser.parse_args(words)
    there = {path.stem: path for path in (*chapter_paths(), *side_roads())}
    names = [Path(name).stem for name in options.names] or list(there)
    if missing := [name for name in names if name not in there]:
        print(f"Not in chapters/ or chapters/more/: {', '.join(missing)}", file=sys.stderr)
        return 1
    paths = [there[name] for name in names]
    use_two_cores()
    return execute(paths, options.all, options.times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
