"""Cells of notebooks: an answer executed without one, and what stands in all of them."""

import linecache
import math
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import torch

ROOT = Path(__file__).parents[1]


def run(source: str) -> dict[str, Any]:
    """Execute an answer as a notebook would, in a fresh namespace."""
    file = f"<cell {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"__name__": "__main__", "torch": torch, "math": math, "np": np, "numpy": np}
    exec(compile(source, file, "exec"), space)
    return space


def sources(path: str) -> str:
    """Everything that was written into a notebook of the course."""
    cells = nbformat.read(ROOT / path, as_version=4).cells
    return "\n".join(cell.source for cell in cells)


def printed(path: str) -> str:
    """Everything that a notebook of the course printed, or says of a figure."""
    cells = nbformat.read(ROOT / path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
