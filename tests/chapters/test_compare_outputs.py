"""The script that compares what two sets of chapters show finds what differs, and nothing else."""

import base64
import io
from pathlib import Path

import compare_outputs
import nbformat
import numpy as np
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image


def picture(grey: int = 0, alt: str = "A black square", width: int = 4) -> NotebookNode:
    """An output with a picture whose first pixel has this shade."""
    pixels, file = np.zeros((5, width), dtype=np.uint8), io.BytesIO()
    pixels[0, 0] = grey
    Image.fromarray(pixels).save(file, "PNG")
    data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": "Figure(1)"}
    return new_output("execute_result", data=data, metadata={"image/png": {"alt": alt}})


def printed(text: str) -> NotebookNode:
    """An output of print."""
    return new_output("stream", name="stdout", text=text)


def cell(name: str, *outputs: NotebookNode) -> NotebookNode:
    """A code cell that has shown something."""
    return new_code_cell(f"# {name}", id=name, outputs=list(outputs))


def report(tmp_path: Path, before: list[NotebookNode], after: list[NotebookNode]) -> list[str]:
    """The lines that the script prints about a chapter, and at last its exit status."""
    for folder, cells in (("before", before), ("after", after)):
        (tmp_path / folder).mkdir(exist_ok=True)
        nbformat.write(new_notebook(cells=cells), tmp_path / folder / "01_one.ipynb")
    same, text = compare_outputs.chapter_report(
        tmp_path / "before" / "01_one.ipynb", tmp_path / "after" / "01_one.ipynb"
    )
    assert same == (" 0 differ" in text)
    return text.splitlines()


def test_what_shows_the_same_is_equal_whatever_its_code(tmp_path: Path) -> None:
    before = [new_markdown_cell("Old prose.", id="m"), cell("a", printed("1.5\n"), picture())]
    after = [new_markdown_cell("New prose.", id="m"), cell("a", printed("1.5\n"), picture())]
    after[1].source, after[1].execution_count = "print(3 / 2)", 7
    assert report(tmp_path, before, after) == ["01_one: 1 steps show the same, 0 differ"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (printed("a\nloss 1.25\n"), printed("a\nloss 1.5\n"), "(numbers at most 0.25 apart)"),
        (printed("1,250 of −3\n"), printed("1,300 of −3\n"), "(numbers at most 50 apart)"),
        (printed("2e-05\n"), printed("4e-05\n"), "(numbers at most 2e-05 apart)"),
        (printed("loss 1.5\n"), printed("Loss 1.5\n"), "printed: 'loss 1.5' → 'Loss 1.5'"),
        (printed("a\nc\n"), printed("a\nb\nc\n"), "printed: None → 'b'"),
        (printed("a\n"), picture(), "printed: only before"),
        (picture(), picture(alt="A white square"), "alt: 'A black square' → 'A white square'"),
        (picture(), picture(51), "picture: 5.00% of the pixels differ, by at most 51 of 255"),
        (picture(), picture(width=8), "picture: (4, 5) pixels before, (8, 5) after"),
    ],
)
def test_a_difference_is_told_in_a_line(
    tmp_path: Path, before: NotebookNode, after: NotebookNode, told: str
) -> None:
    head, *lines = report(tmp_path, [cell("a", before)], [cell("a", after)])
    assert head == "01_one: 0 steps show the same, 1 differ"
    assert any(line.startswith("  a  ") and line.endswith(told) for line in lines), lines


def test_nothing_passes_where_no_cell_has_a_partner(tmp_path: Path) -> None:
    lines = report(tmp_path, [cell("a", printed("1\n"))], [cell("b", printed("2\n"))])
    assert lines[0].endswith("1 differ")


def test_the_exit_status_tells_and_a_missing_chapter_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, [cell("a", printed("1\n"))], [cell("a", printed("1\n"))])
    folders = [str(tmp_path / name) for name in ("before", "after")]
    assert compare_outputs.main(folders) == 0
    nbformat.write(new_notebook(), tmp_path / "after" / "00_new.ipynb")
    assert compare_outputs.main(folders) == 1
    assert "00_new: not in " in capsys.readouterr().out
