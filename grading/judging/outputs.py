"""What came out of the sandbox, as a notebook that may be graded, stored and shown.

The lines come from where the student's code runs, and may be forged by it. So they only ever fill
the outputs of a notebook that was never inside. A line about a cell that is not there is dropped,
and two lines about one cell give that cell the outputs of both. Of each output stays what a browser
may show to the person who grades: text, PNG pictures and the answers to hidden inputs. HTML,
JavaScript, SVG and widgets would run with the grader's rights, and are dropped.
"""

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode

from attnlib.check import MIME
from grading.intake.restore import locked

DEEPEST = 100  # levels of a JSON value; an honest answer has a handful
LONGEST_TEXT, CODE = 20_000, 300_000  # characters kept of one text, and of all code in a notebook
LONGEST_OUTPUT, ROOM = 20_000, 2 << 20  # characters kept of one output, and of all in a notebook


@dataclass(frozen=True)
class Shown:
    """What a run showed.

    Attributes:
        notebook: a copy of the restored notebook, with harmless outputs.
        ended: the indices of the cells that came to an end.
        late: the cells that took too long, each with its reason.
    """

    notebook: NotebookNode
    ended: frozenset[int]
    late: Mapping[int, str]


def shown(notebook: NotebookNode, told: bytes) -> Shown:
    """What the lines from inside say of the cells of a notebook, whatever bytes they are."""
    executed, ended, late = copy.deepcopy(notebook), set[int](), dict[int, str]()
    for line in parsed(told):
        index, outputs, reason = line.get("cell"), line.get("outputs"), line.get("ended")
        if type(index) is not int or not 0 <= index < len(executed.cells):
            continue
        cell = executed.cells[index]
        if cell.cell_type == "code" and isinstance(outputs, list):
            cell.outputs += [good for output in outputs if (good := harmless(output))]
        if not line.get("last"):
            ended.add(index)
        if isinstance(reason, str):
            late[index] = f"{reason[:100]} in cell {index + 1}"
    return Shown(executed, frozenset(ended), late)


def parsed(told: bytes) -> list[dict[str, Any]]:
    """The lines that are objects of JSON and not too deep; the others are dropped."""
    lines = []
    for line in told.split(b"\n"):
        try:
            value = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and shallow(value):
            lines.append(value)
    return lines


def shallow(value: Any, levels: int = DEEPEST) -> bool:
    """Whether a JSON value is nested no deeper than any honest answer.

    >>> shallow([[1]], levels=3), shallow([[1]], levels=2)
    (True, False)
    """
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(shallow(item, levels - 1) for item in inner)


def harmless(output: Any) -> NotebookNode | None:
    """The output with what a grader's browser may be shown: text, PNG pictures, our answers.

    >>> harmless({"output_type": "display_data", "data": {"text/html": "<script>"}}) is None
    True
    """
    try:
        kept = _stream(output) or _error(output) or _display(output)
    except (AttributeError, LookupError, TypeError):
        return None  # it lacks what an output of its type has
    node: NotebookNode | None = nbformat.from_dict(kept) if kept else None  # type: ignore[no-untyped-call]
    return node


def _stream(output: Any) -> dict[str, Any]:
    """A stream of text; empty if it is another output."""
    if output["output_type"] != "stream":
        return {}
    name = "stderr" if output["name"] == "stderr" else "stdout"
    return {"output_type": "stream", "name": name, "text": _text(output["text"])}


def _error(output: Any) -> dict[str, Any]:
    """An exception; empty if it is another output."""
    if output["output_type"] != "error":
        return {}
    named = {key: _text(output[key]) for key in ("ename", "evalue")}
    return {"output_type": "error", **named, "traceback": [*map(_text, output["traceback"])]}


def _display(output: Any) -> dict[str, Any]:
    """Data for the eye; empty if nothing of it may be shown.

    It never becomes an execute_result, whose text nbgrader would read as points.
    """
    if output["output_type"] not in ("display_data", "execute_result"):
        return {}
    data = output["data"]
    kept = {MIME: data[MIME]} if MIME in data else {}
    if isinstance(data.get("text/plain"), str):
        kept["text/plain"] = _text(data["text/plain"])
    picture = data.get("image/png")
    if isinstance(picture, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", picture):
        kept["image/png"] = picture
    return {"output_type": "display_data", "data": kept, "metadata": {}} if kept else {}


def _text(value: Any) -> str:
    """A text that can be written as UTF-8."""
    return str(value).encode(errors="replace").decode()


def shorten(notebook: NotebookNode) -> None:
    """Leave of the student's cells as much as Formgrader can show and a person can read.

    Of more than 100 blanks and empty lines in a row, which would stall it, 100 stay.
    """
    room = CODE
    for cell in notebook.cells:
        if locked(cell):
            continue
        cell.source = re.sub(r"\s{101,}", lambda run: run[0][-100:], cell.source)
        code, size = cell.cell_type == "code", len(cell.source)
        most = room if code else LONGEST_TEXT
        if size > most:
            told = f"of {size:,} characters the rest is not kept here: see the file handed in"
            cell.source = f"{cell.source[:most]}\n\n{'# ' if code else ''}… {told}"
        room -= min(size, room) if code else 0


def trim(notebook: NotebookNode) -> None:
    """Leave of the outputs as much as a person may want to see, and no answers to hidden inputs."""
    room = ROOM
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        outputs, cell.outputs = cell.outputs, []
        for output in outputs:
            output.get("data", {}).pop(MIME, None)
            output = cut(output, room)
            room -= len(json.dumps(output))
            if room > 0 and output.get("data") != {}:
                cell.outputs.append(output)


def cut(output: NotebookNode, room: int) -> NotebookNode:
    """An output as it is, or the beginning of its text; a picture may fill the room."""
    size = len(json.dumps(output))
    if size <= (room if "image/png" in output.get("data", {}) else LONGEST_OUTPUT):
        return output
    text = str(output.get("text") or output.get("evalue", ""))[:LONGEST_OUTPUT]
    told = f"{text}\n[of {size:,} characters the rest is not kept]"
    made: NotebookNode = nbformat.v4.new_output("stream", text=told)  # type: ignore[no-untyped-call]
    return made
