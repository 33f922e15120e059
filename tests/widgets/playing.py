"""What tests of views share: a page that holds one view, and a notebook in JupyterLab."""

from pathlib import Path
from typing import Any

import nbformat

from attnlib.widgets.page import snippet

# A page that may load nothing, light or dark as the reader has it.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>A view</title>
<style>
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1100px; padding: 1rem; color: #1b1f24; background: #fff; }
@media (prefers-color-scheme: dark) { body { color: #e8eaed; background: #14171c; } }
</style>
</head>
<body>
BODY
</body>
</html>
"""


def opened(page: Any, folder: Path, view: Any) -> None:
    """A view on a page of its own, opened from the disk."""
    path = folder / "view.html"
    path.write_text(PAGE.replace("BODY", snippet(view.state())), "utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(".attn")


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
