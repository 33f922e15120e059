"""What of a run is stored, and shown to the person who grades."""

import json
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from attnlib.check import MIME
from grading.judging.outputs import LONGEST_OUTPUT, ROOM, harmless, shown, trim


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
