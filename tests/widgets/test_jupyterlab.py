"""The views with a kernel, in JupyterLab, which is started once for all of these tests."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from playing import PIXELS, check_sliders_move_pixels, parts, pressed, say

from attnlib.check.progress import PREDICTIONS

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "chapters" / "15_causes.ipynb"

SMALL_CELL = """
import torch
from attnlib.widgets import AttentionView
weights = torch.randn(2, 3, 200, 200, generator=torch.Generator().manual_seed(1)).softmax(-1)
view = AttentionView(weights, [f"w{i}" for i in range(200)], title="two hundred")
view
"""


TYPED_CELL = """
import torch
from attnlib.trace import Trace
from attnlib.widgets import TextView

def trace(text):
    words = text.split()
    size = (2, 3, len(words), len(words))
    weights = torch.randn(size, generator=torch.Generator().manual_seed(1)).softmax(-1)
    return Trace(tuple(words), weights)

TextView(trace, "one two three", max_tokens=6)
"""

LIVE_CELL = """
from attnlib.widgets import Suspects

def read(text):
    tokens = text.split(" ")
    if "a" not in tokens:
        raise ValueError("Write an a.")
    weights = [[[1 / len(tokens)] * len(tokens)] * 3] * 2
    removed = lambda layer, head: [0.5 + layer / 10 + head / 100, 0.1]
    return Suspects(tokens, ["a", "b"], [0.6, 0.1], weights, removed)

read("a or b").ask("a or b", read)
"""


def environment(folder: Path) -> dict[str, str]:
    """This process's environment, with settings of its own and attnlib on the path."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    settings = {"JUPYTER_CONFIG_DIR": str(folder / "config"), "PYTHONPATH": path}
    settings |= {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_DATA_DIR": str(folder / "data")}
    return {**os.environ, **settings}


@pytest.fixture(scope="module")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab on a free port of 127.0.0.1: its address with %s for a path, and its folder."""
    folder = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = "--no-browser --allow-root --ServerApp.ip=127.0.0.1 --ServerApp.port_retries=0 "
    options += (
        "--IdentityProvider.token=attn --LabApp.expose_app_in_browser=True --LabApp.news_url="
    )
    command = [sys.executable, "-m", "jupyter", "lab", *options.split()]
    command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
    with (folder / "lab.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=log, stderr=log
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/api?token=attn", server, folder / "lab.log")
        yield f"http://127.0.0.1:{port}/lab/tree/%s?token=attn&reset", folder
    finally:
        server.terminate()  # it ends its kernels, too
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:  # now and then an idle thread of AnyIO keeps it
            server.kill()
            server.wait()


def wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until the server answers; its log in the message when it does not."""
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                break
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def run_cells(page: Any, lab: tuple[str, Path], cells: list[str]) -> None:
    """Write a notebook of these cells of code, open it in JupyterLab, and run them all."""
    run_notebook(page, lab, "one.ipynb", [nbformat.v4.new_code_cell(code) for code in cells])


def run_notebook(page: Any, lab: tuple[str, Path], name: str, cells: list[Any]) -> None:
    """Write a notebook under a name, open it in JupyterLab, and run all of its cells."""
    address, folder = lab
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / name)
    page.goto(address % name)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_function(
        "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
        " === 'idle'",
        timeout=60_000,
    )
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")


def run_in_lab(page: Any, lab: tuple[str, Path], cells: list[str]) -> Any:
    """Write a notebook, open it, run all its cells; its views that have a layer slider."""
    run_cells(page, lab, cells)
    views = page.locator(".attn", has=page.locator(".attn-stage")).filter(has_text="layer")
    views.last.wait_for(state="attached", timeout=120_000)
    views.last.scroll_into_view_if_needed()
    views.last.locator(".attn-read q").first.wait_for()
    return views


@pytest.fixture(scope="module")
def notebook(pages: Any, lab: Any) -> Iterator[Any]:
    """A notebook in JupyterLab with a large view, and with a box to type into."""
    page = pages()
    run_in_lab(page, lab, [SMALL_CELL, "view.index", "1", TYPED_CELL])
    yield page
    assert page.asked == []
    assert page.errors == []


@pytest.mark.long
def test_jupyterlab_hover_is_exact_and_keys_stay_in_the_view(notebook: Any) -> None:
    view = notebook.locator(".attn", has_text="two hundred")
    check_sliders_move_pixels(view)
    sliders, canvas, read = parts(view)
    pressed(canvas, "D")
    weights = torch.randn(2, 3, 200, 200, generator=torch.Generator().manual_seed(1)).softmax(-1)
    value = read.locator("b")
    notebook.wait_for_function(
        "node => !node.textContent.includes('≈')", arg=value.element_handle()
    )
    assert float(value.inner_text()) == pytest.approx(float(weights[1, 1, 0, 0]), abs=5e-3)
    active = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    before = notebook.evaluate(active)
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "j", "b"):
        sliders.first.press(key)
    assert notebook.evaluate(active) == before
    assert notebook.locator(".jp-Notebook .jp-CodeCell").count() == 4  # "b" made no new cell


@pytest.mark.ci
def test_what_is_typed_in_jupyterlab_moves_every_map(notebook: Any) -> None:
    view = notebook.locator(".widget-vbox .attn", has=notebook.locator(".attn-stage"))
    view.scroll_into_view_if_needed()
    sliders, canvas, _ = parts(view)
    sliders.nth(1).press("ArrowRight")
    box, status = notebook.locator(".widget-text input"), notebook.locator("[role=status]")
    before = canvas.evaluate(PIXELS)

    def enter(text: str, size: int) -> None:
        """Type, and wait until the view's description tells so many tokens."""
        box.fill(text)
        box.press("Enter")
        notebook.wait_for_selector(f"canvas[aria-label*='{size} destinations']", timeout=20_000)

    enter("and now four words", 4)
    assert canvas.count() == 1, "the old view is gone"
    assert canvas.evaluate(PIXELS) != before
    assert sliders.nth(1).input_value() == "1"
    assert box.evaluate("node => node === document.activeElement"), "typing goes on in the box"
    check_sliders_move_pixels(view)
    pixels = canvas.evaluate(PIXELS)
    for text, sentence in (("", "The box is empty"), ("one " * 7, "more than 6 tokens")):
        box.fill(text)
        box.press("Enter")
        status.filter(has_text=sentence).wait_for(timeout=20_000)
        assert canvas.evaluate(PIXELS) == pixels
    enter("two words", 2)


@pytest.mark.ci
def test_jupyterlab_covers_what_follows_and_notes_the_answer(
    page: Any, lab: tuple[str, Path]
) -> None:
    _, folder = lab
    for name in ("chapters", "exercises"):
        (folder / name).mkdir(exist_ok=True)
    new, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [
        new("## One\n\n**Predict.** How large?"),
        code("from attnlib.widgets import Predict\nasked = Predict.number('large', 0, 1)\nasked"),
        code("print('the result')\nasked.reveal(0.5)"),
        new("**Notice.** It is half."),
        new("## Two\n\nAnother section."),
        code("Predict.so_far()"),
    ]
    run_notebook(page, lab, "chapters/04_x.ipynb", cells)
    ask = page.locator(".attn-predict", has=page.locator(".attn-say"))
    page.locator(".attn-table").wait_for(timeout=60_000)
    covered = "cells => cells.map(cell => cell.classList.contains('attn-covered'))"
    states = page.locator(".jp-Notebook .jp-Cell")
    assert states.evaluate_all(covered) == [False, False, True, True, False, False]
    ask.get_by_role("slider").press("ArrowRight")
    for _ in range(10):
        ask.get_by_role("slider").press("ArrowRight")
    say(ask)
    assert not any(states.evaluate_all(covered))
    page.locator(".attn-read", has_text="You said 0.6").wait_for()
    file = folder / "exercises" / PREDICTIONS
    page.wait_for_function("() => true")
    for _ in range(100):
        if file.exists():
            break
        page.wait_for_timeout(100)
    assert json.loads(file.read_text("utf-8")) == ["04_x", "large", 0.6, 0.5, 0.9]


@pytest.mark.long
def test_a_kernel_answers_accusations_in_a_text_of_ones_own(page: Any, lab: Any) -> None:
    run_cells(page, lab, [LIVE_CELL])
    view = page.locator(".suspects")
    view.wait_for(timeout=60_000)
    for head, guess, after in ((0, "less likely", "50.0 %"), (1, "no different", "51.0 %")):
        view.locator(f'[aria-label^="layer 0 · head {head}:"]').click()
        view.get_by_role("button", name=guess).click()
        view.locator(".trial", has_text=after).wait_for(timeout=20_000)
    box = view.locator(".attn-typed input")
    box.fill("no such word")
    box.press("Enter")
    view.get_by_text("Write an a.").wait_for(timeout=20_000)
    box.fill("a longer text")
    box.press("Enter")
    view.locator(".token", has_text="longer").wait_for(timeout=20_000)
    assert box.evaluate("node => node === document.activeElement"), "typing goes on in the box"
    view.locator('[aria-label^="layer 1 · head 2:"]').click()
    view.get_by_role("button", name="more likely").click()
    view.locator(".trial", has_text="62.0 %").wait_for(timeout=20_000)
    assert page.errors == []


@pytest.mark.long
def test_texts_typed_into_chapter_15_are_answered_by_its_model(page: Any, lab: Any) -> None:
    """Of the chapter the cells that define what both games need, and the games."""
    notebook = nbformat.read(CHAPTER, as_version=4)
    code = {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code"}
    cells = ("82de50bb", "a054bfdd", "caabe612", "suspects", "d54a11aa", "4cbb8f69", "f7447344")
    needed = (*cells, "patch-stream", "d26a4c2f", "patch-heads")
    run_cells(page, lab, [code[name] for name in needed])
    accused = page.locator(".suspects")
    pulled = page.locator(".attn:not(.suspects)", has=page.locator(".attn-typed"))
    pulled.wait_for(state="attached", timeout=300_000)
    for scope, text, answer in (
        (accused, "The sky is blue. The sky is", "no head can look at it|The sky is blue"),
        (accused, "Tom met Anna and Peter. Peter looked at", "Tom met Anna"),
        (pulled, "Mary met John > Mary|John", "two texts that differ"),
        (pulled, "The capital of France|Italy is the city of > Paris|Rome", "of Italy is the"),
    ):
        scope.scroll_into_view_if_needed()
        scope.locator(".attn-typed input").fill(text)
        scope.locator(".attn-typed input").press("Enter")
        scope.get_by_text(re.compile(answer)).first.wait_for(timeout=120_000)
    pulled.locator('button[aria-label="layer 12 · head 3"]').click()
    assert "layer 12 · head 3: " in pulled.locator(".attn-said").inner_text()
    assert page.errors == []
