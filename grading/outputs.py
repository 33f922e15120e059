"""What a sandbox told, as a notebook that may be graded, stored and shown.

The lines come from the sandbox and may be forged by the student's code. So they only ever fill
the outputs of a notebook that was never inside; a line about a cell that is not there is dropped,
and two lines about one cell give that cell the outputs of both. Of each output stays what a
browser may show to the person who grades: text, PNG pictures and our own answers. HTML,
JavaScript, SVG and widgets are dropped: they would run with the grader's rights.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import nbformat
from nbformat import NotebookNode

from attnlib.check import MIME

Lines = Sequence[Mapping[str, Any]]


def ran(lines: Lines) -> frozenset[int]:
    """The indices of the cells that came to an end."""
    ended = (line.get("cell") for line in lines if not line.get("last"))
    return frozenset(i for i in ended if type(i) is int)


def late(lines: Lines) -> dict[int, str]:
    """The cells that took too long, each with its reason."""
    told = ((line.get("cell"), line.get("ended")) for line in lines)
    return {
        i: f"{ended[:100]} in cell {i + 1}"
        for i, ended in told
        if type(i) is int and isinstance(ended, str)
    }


def ending(lines: Lines, verdict: tuple[str, str]) -> tuple[str, str]:
    """The status and the reason of a run, from what it told and how it ended."""
    ends = [line for line in lines if line.get("end") in ("finished", "crashed", "timed out")]
    if not ends:
        return verdict
    if ends[-1]["end"] == "finished" and late(lines):
        return "timed out", "; ".join(late(lines).values())[:500]
    return ends[-1]["end"], str(ends[-1].get("reason", ""))[:500]


def with_outputs(notebook: NotebookNode, lines: Lines) -> NotebookNode:
    """A copy of `notebook` whose code cells hold what the lines say that they showed."""
    executed = copy.deepcopy(notebook)
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    for line in lines:
        index, outputs = line.get("cell"), line.get("outputs")
        if (
            isinstance(index, int)
            and isinstance(outputs, list)
            and 0 <= index < len(executed.cells)
        ):
            cell = executed.cells[index]
            if cell.cell_type == "code":
                cell.outputs += [good for one in outputs if (good := harmless(one))]
    return executed


def harmless(output: Any) -> NotebookNode | None:
    """The output with what a grader's browser may be shown: text, PNG pictures, our answers.

    >>> harmless({"output_type": "display_data", "data": {"text/html": "<script>"}}) is None
    True
    """
    try:
        kind = output["output_type"]
        made: dict[str, Any] = {"output_type": kind}
        if kind == "stream":
            made["name"] = "stderr" if output["name"] == "stderr" else "stdout"
            made["text"] = str(output["text"])
        elif kind == "error":
            made["ename"], made["evalue"] = str(output["ename"]), str(output["evalue"])
            made["traceback"] = [str(line) for line in output["traceback"]]
        elif kind in ("display_data", "execute_result"):
            data = {name: value for name, value in output["data"].items() if shown(name, value)}
            # never an execute_result, whose text nbgrader would read as points
            made = {"output_type": "display_data", "data": data, "metadata": {}} if data else {}
        else:
            return None
    except (KeyError, TypeError, AttributeError):
        return None
    node: NotebookNode | None = nbformat.from_dict(made) if made else None  # type: ignore[no-untyped-call]
    return node


def shown(name: str, value: Any) -> bool:
    """Whether a MIME part is kept."""
    if name == "image/png":
        return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", value) is not None
    return (name == MIME and shallow(value)) or (name == "text/plain" and isinstance(value, str))


def shallow(value: Any, levels: int = 100) -> bool:
    """Whether a JSON value is nested no deeper than any honest answer.

    >>> shallow([[1]], levels=3), shallow([[1]], levels=2)
    (True, False)
    """
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(shallow(one, levels - 1) for one in inner)
