"""What of a run is stored, and shown to the person who grades."""

import json
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from attnlib.check import MIME
from grading.judging.outputs import (
    CODE,
    LONGEST_OUTPUT,
    LONGEST_TEXT,
    ROOM,
    harmless,
    shorten,
    shown,
    trim,
)


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def display(**data: Any) -> dict[str, Any]:
    return {
        "output_type": "display_data",
        "data": {k.replace("_", "/"): v for k, v in data.items()},
    }


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (stream("a"), stream("a")),
        (display(text_html="<script>", text_plain="a"), display(text_plain="a")),
        (display(image_png="iVBO/Rw0=\n"), display(image_png="iVBO/Rw0=\n")),
        (display(image_png="<script>"), None),
        (display(**{"image_svg+xml": "<svg>", "text_markdown": "<b>"}), None),
        (display(application_javascript="alert(1)"), None),
        (display(text_plain="5") | {"output_type": "execute_result"}, display(text_plain="5")),
        ({"output_type": "update_display_data", "data": {"text/plain": "a"}}, None),
        ({"output_type": "stream"}, None),
        ([1], None),
    ],
)
def test_only_what_cannot_run_in_a_browser_is_kept(
    output: Any, kept: dict[str, Any] | None
) -> None:
    made = harmless(output)
    assert (made and {k: v for k, v in made.items() if k != "metadata"}) == kept


def test_of_long_outputs_the_beginning_is_kept_and_the_notebook_stays_small() -> None:
    """A picture may be larger than a text; answers to hidden inputs are kept nowhere."""
    picture = display(image_png="A" * 900_000)
    outputs = [stream("x" * 3_000_000), display(**{MIME.replace("/", "_"): {"answers": []}})]
    line = {"cell": 0, "outputs": outputs + [picture] * 5}
    notebook = nbformat.v4.new_notebook(cells=[new_code_cell("1")])
    kept = shown(notebook, json.dumps(line).encode()).notebook
    trim(kept)
    first, *rest = kept.cells[0].outputs
    assert len(first.text) < LONGEST_OUTPUT + 100
    assert "of 3,000,0" in first.text
    assert "the rest is not kept" in first.text
    assert sum("image/png" in output.get("data", {}) for output in rest) == 2
    assert MIME not in json.dumps(kept)
    assert len(json.dumps(kept)) < ROOM + 2_000


def test_of_long_cells_the_beginning_is_kept_and_a_check_cell_is_whole() -> None:
    check = new_code_cell("check('a', a)", metadata={"nbgrader": {"locked": True}})
    empty = new_code_cell("x = 1" + "\n" * 30_000 + "    y = 2")  # colours take hours to find here
    long = [new_code_cell("x = 1\n" * 40_000) for _ in range(2)]
    text = new_markdown_cell("word " * 10_000)
    notebook = nbformat.v4.new_notebook(cells=[empty, *long, check, text])
    shorten(notebook)
    whole, first, second, same, short = [cell.source for cell in notebook.cells]
    assert whole == "x = 1" + "\n" * 96 + "    y = 2"
    assert (first, same) == ("x = 1\n" * 40_000, "check('a', a)")
    assert "of 240,000 characters the rest is not kept" in second
    assert len(whole + first + second) < CODE + 100
    assert "of 50,000 characters the rest is not kept" in short
    assert len(short) < LONGEST_TEXT + 100
