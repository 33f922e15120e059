"""The functions of the solutions notebooks: what is right, as the author wrote it."""

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from grading.settings import ROOT


def namespace() -> dict[str, Any]:
    """A fresh namespace in which an answer is executed."""
    return {"__name__": "answer", "torch": torch, "math": math, "np": np, "numpy": np}


@cache
def answer_cells(name: str) -> dict[str, str]:
    """The sources of the answer cells in a solutions notebook, by task.

    Args:
        name: the exercise, such as "04_self_attention".
    """
    path = ROOT / "solutions" / name / f"{name}.ipynb"
    sources = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if cell["cell_type"] == "code" and grade_id.endswith("_answer"):
            sources[grade_id.removesuffix("_answer")] = "".join(cell["source"])
    return sources


@cache
def solution(name: str, task: str) -> Callable[..., Any]:
    """The solution's function for a task.

    Raises:
        KeyError: the notebook has no answer cell for this task.
    """
    space = namespace()
    exec(answer_cells(name)[task], space)
    function: Callable[..., Any] = space[task]
    return function
