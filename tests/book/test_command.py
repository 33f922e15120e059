"""`python -m book`, on a course of one chapter that fails."""

import sys
from functools import partial
from pathlib import Path

import chapter_tools
import nbformat
import pytest
from chapter_rules import CHAPTERS

import book.__main__ as command
from book import slides

NAME = "04_self_attention"


@pytest.mark.slow
def test_a_chapter_that_fails_is_shown_with_its_stored_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = nbformat.read(CHAPTERS / f"{NAME}.ipynb", as_version=4)
    at = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    notebook.cells[at].source = "loss = 2\nassert loss < 1, 'too large'"
    nbformat.write(notebook, tmp_path / f"{NAME}.ipynb")
    monkeypatch.setattr(chapter_tools, "VIEWS", tmp_path / "views")
    for module in (command, slides):
        monkeypatch.setattr(module, "chapter_paths", lambda: [tmp_path / f"{NAME}.ipynb"])
    monkeypatch.setattr(command, "slides", partial(slides.slides, target=tmp_path / "slides"))
    monkeypatch.setattr(sys, "argv", ["book", "slides"])
    assert command.main() == 0
    told = capsys.readouterr()
    where = f"cell {at + 1} of {len(notebook.cells)}, `loss = 2`, stopped with"
    assert told.err == f"{NAME}: {where} AssertionError: too large\n"
    assert told.out.endswith(f"without sliders: {NAME}\n")
    assert not (tmp_path / "views").exists()
    deck = (tmp_path / "slides" / f"{NAME}.html").read_text(encoding="utf-8")
    assert deck.count('<img class="figure"') > 5
    assert "data-view" not in deck
