"""`python -m book`: it runs no chapter, says what it lacks, and ends in a sentence."""

import errno
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import nbformat
import pytest
from chapter_rules import CHAPTERS, ROOT

from book import command, slides
from book.__main__ import run

NAME = "04_self_attention"


@pytest.mark.slow
def test_a_chapter_that_changed_is_shown_with_its_stored_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = nbformat.read(CHAPTERS / f"{NAME}.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = "raise RuntimeError('it is run')"
    nbformat.write(notebook, tmp_path / f"{NAME}.ipynb")
    for module in (command, slides):
        monkeypatch.setattr(module, "chapter_paths", lambda: [tmp_path / f"{NAME}.ipynb"])
    monkeypatch.setattr(command, "slides", partial(slides.slides, target=tmp_path / "slides"))
    assert command.main(["slides"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("Writing slides from 1 stored chapters and side roads; none is run.")
    assert told.out.endswith(f'This runs them: make chapters NAMES="{NAME}"\n')
    deck = (tmp_path / "slides" / f"{NAME}.html").read_text(encoding="utf-8")
    assert deck.count('<img class="figure"') > 5
    assert "data-view" not in deck


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no Ctrl-C from one process to another")
@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_ends_it_in_a_sentence(begun: bool) -> None:
    whole = [sys.executable, "-m", "book", "slides", NAME]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(whole, cwd=ROOT, **pipes) as running:
        if begun:
            running.stdout.readline()
        else:
            time.sleep(1)
        running.send_signal(signal.SIGINT)
        told = running.communicate(timeout=60)[1]
    assert (running.returncode, told) == (130, "\nStopped. The same command goes on from here.\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_is_told_and_what_is_no_news_to_us_is_raised(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise OSError(number, "what the system says")

    monkeypatch.setattr(command, "main", fail)
    if number == errno.ENOSPC:
        assert run() == 1
        assert capsys.readouterr().err.startswith("\nThe disk is full: ")
    else:
        with pytest.raises(OSError, match="what the system says"):
            run()
