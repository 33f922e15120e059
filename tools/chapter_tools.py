"""Executes the chapters and stores them clean (`make chapters`), or exports them (`make pages`).

A stored chapter holds its code's outputs and nothing that changes from run to run: no widget
state, no widget ids (a reader on the web sees the picture instead), no timing, one kernel name.
Cell ids stay. `attnlib` in its metadata tells which code and which library it was executed with.
"""

import argparse
import copy
import hashlib
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from chapter_rules import CHAPTERS, ROOT, TIMING, chapter_paths, code_hash, header
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

README = ROOT / "README.md"
MAP = ("<!-- course map: written by make chapters -->", "<!-- end of the course map -->")
WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Kernels compute on one thread, whatever is set here; a bar is for a reader who waits.
KERNEL_SETTINGS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}


def library_hash() -> str:
    """A hash of everything in attnlib that a chapter's outputs may depend on."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "attnlib").rglob("*")):
        if path.is_file() and path.suffix in {".py", ".js", ".css", ".json", ".bpe"}:
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
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
        for key in TIMING | {"collapsed", "scrolled"}:
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


def executed(path: Path) -> tuple[NotebookNode, float]:
    """Execute a chapter from nothing.

    Returns:
        the notebook, cleaned and stamped, and the seconds it took, start of the kernel included.

    Raises:
        CellExecutionError: if a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=180,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    began = time.perf_counter()
    client.execute(env=os.environ | KERNEL_SETTINGS)
    return stamped(cleaned(notebook)), time.perf_counter() - began


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


def course_map(paths: Sequence[Path]) -> str:
    """The README's table of chapters, from their headers."""
    rows = ["| Chapter | Question | To read | To run |", "|---|---|---|---|"]
    for path in paths:
        told = header(nbformat.read(path, as_version=4))
        link = f"[{told.title}](chapters/{path.name})"
        rows.append(f"| {link} | {told.question} | {told.read} min | {told.run} s |")
    return "\n".join(rows)


def with_map(text: str, table: str) -> str:
    """The README's text with its course map replaced.

    Raises:
        ValueError: if the two marker lines are not there.
    """
    before, start, rest = text.partition(MAP[0])
    _, end, after = rest.partition(MAP[1])
    if not (start and end):
        raise ValueError(f"README.md needs the lines {MAP[0]} and {MAP[1]} around its course map")
    return f"{before}{start}\n{table}\n{end}{after}"


def use_two_cores() -> None:
    """Keep this process and its kernels on two cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def execute(paths: Sequence[Path], everything: bool, times: bool) -> int:
    """Execute what changed, store it, and bring the README's map up to date."""
    failed = 0
    for path in paths:
        stored = nbformat.read(path, as_version=4)
        if not (everything or times or is_stale(stored)):
            print(f"{path.stem}: nothing changed")
            continue
        try:
            notebook, seconds = executed(path)
        except CellExecutionError as error:
            failed += 1
            print(f"{path.stem}: failed, and stays as it was\n{error}", file=sys.stderr)
            continue
        told = header(notebook).run
        print(f"{path.stem}: {seconds:.1f} s (the header says {told} s)", flush=True)
        nbformat.write(with_seconds(notebook, seconds) if times else notebook, path)
    text = README.read_text(encoding="utf-8")
    README.write_text(with_map(text, course_map(chapter_paths())), encoding="utf-8")
    return int(failed > 0)


def with_mathml(notebook: NotebookNode) -> NotebookNode:
    """The notebook, its TeX formulas written as MathML, which a browser sets without a script."""
    from latex2mathml.converter import convert

    def formula(found: re.Match[str]) -> str:
        if found["code"]:
            return found["code"]
        if found["display"]:
            return convert(found["display"], display="block")
        return convert(found["inline"])

    pattern = r"(?P<code>```.*?```|`[^`]*`)|\$\$(?P<display>.+?)\$\$|\$(?P<inline>.+?)\$"
    result = copy.deepcopy(notebook)
    for cell in result.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(pattern, formula, cell.source, flags=re.S)
    return result


def pages(paths: Sequence[Path], target: Path) -> int:
    """Export chapters as web pages whose sliders need no kernel; they ask no host for anything."""
    from nbconvert import HTMLExporter

    target.mkdir(parents=True, exist_ok=True)
    os.environ["ATTNLIB_STATIC"] = "1"  # for the kernels
    exporter = HTMLExporter(require_js_url="", mermaid_js_url="", mathjax_url="")
    for path in paths:
        notebook, _ = executed(path)
        resources = {"metadata": {"name": header(notebook).title}}
        html, _ = exporter.from_notebook_node(with_mathml(notebook), resources)
        page = target / f"{path.stem}.html"
        page.write_text(html, encoding="utf-8")
        print(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page)
    return 0


def main(words: Sequence[str]) -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=["execute", "pages"])
    parser.add_argument("names", nargs="*", help="chapters such as 01_ngram; none: every chapter")
    parser.add_argument("--all", action="store_true", help="execute also what did not change")
    parser.add_argument("--times", action="store_true", help="write measured seconds in headers")
    options = parser.parse_args(words)
    paths = [CHAPTERS / f"{Path(name).stem}.ipynb" for name in options.names] or chapter_paths()
    missing = [path.name for path in paths if not path.exists()]
    if missing or not paths:
        print(f"Not in chapters/: {', '.join(missing) or 'any chapter'}", file=sys.stderr)
        return 1
    if options.command == "pages":
        return pages(paths, ROOT / "build" / "pages")
    use_two_cores()
    return execute(paths, options.all, options.times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
