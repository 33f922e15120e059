"""The look at a submission: it says what a person should know, quickly, and decides no points."""

import time
from typing import Any

import nbformat
import pytest
from bank import ROOT, solutions
from cells import run
from each import each

from attnlib.check.means import refused_at_home
from grading import scan as scanning
from grading.scan import scan

SET_UP = "import torch\nimport numpy as np\nfrom attnlib.check import check"


def find(*cells: str) -> list[str]:
    return scan([SET_UP, *cells])


@each(
    "cell, told",
    [
        ("import ctypes", "uses ctypes"),
        ("import numpy.ctypeslib", "uses ctypeslib"),
        ("class A:\n    __array_interface__ = {}", "uses __array_interface__"),
        ("import gc\ngc.get_objects()", "uses get_objects"),
        ("!cat x\nctypes", "uses ctypes"),
        ("torch.ops.aten.softmax", "uses ops"),
        ("getattr(torch, 'soft' + 'max')", "uses getattr"),
        ("class A:\n    def __torch_function__(self): pass", "uses __torch_function__"),
        ("eval('1')", "uses eval"),
        ("import importlib", "uses importlib"),
        ("import sys\nsys._getframe(1)", "uses _getframe"),
        ("(lambda: 0).__globals__", "uses __globals__"),
        ("torch.allclose = lambda *a: True", "replaces torch.allclose"),
        ("    np.all = 3", "replaces np.all"),
        ("def check(*a): pass", "replaces check"),
        ("check = print", "replaces check"),
        ("x = 'application/vnd.attnlib.answers+json'", "names what only the check cell uses"),
        ("x = 'ATTNLIB_HIDDEN'", "names what only the check cell uses"),
        ("!ls", "starts a program"),
        ("x = !ls", "starts a program"),
        ("%%bash\nls", "starts a program"),
    ],
)
def test_a_hint_is_told_with_its_cell(cell: str, told: str) -> None:
    found = find("x = 1", cell)
    assert any(told in one and one.startswith("cell 3 ") for one in found), found


@each(
    "cell",
    [
        "import math, random, itertools, collections, functools, re, sys, os, pandas\nsys.maxsize",
        "%%time\nx = 1",
        "%timeit torch.ones(3)",
        "torch.__version__",
        "attend??",
        "from torch.nn.functional import *",
        "import gc\ngc.collect()",
        "model = torch.nn.Linear(2, 2).eval\nmodel.weight = None",
        "x = torch.ones(2)\nx.requires_grad = True\nx.grad = None",
        "grad, jacobian, cross_entropy, rms_norm = 1, 2, 3, 4",
        "class RNN:\n    pass",
        "check('other', other)",
        "print('globals, eval and ctypes')  # gc.get_objects()",
        '"""as ctypes does"""',
        "torch.manual_seed(0)\ntorch.set_printoptions(precision=3)",
        "x = {}\nx['a'] = torch.ones(2)\ny = torch.ones(1) == 1",
        "def evaluate(local):\n    return local",
        "this is no python",
        "",
    ],
)
def test_honest_code_is_left_alone(cell: str) -> None:
    assert [told for told in find(cell) if not told.endswith("uses eval")] == []


CHAIN = [f"a{i} = a{i + 1} if 0 else 0" for i in range(3_000)]


@each(
    "cells",
    [
        CHAIN,
        ["\n".join(CHAIN)],
        ["(" * 100_000],
        ["x = " + "[" * 50_000 + "]" * 50_000],
        ["\n".join(["!ls", "x = !ls", "%time x"] * 10_000)],
        ["'" * 200_000],
        ["a" * 350_000],
        ["x" + ".a" * 150_000 + " = 1"],
        [" " * 300_000],
        ["\n" * 300_000 + "check"],
        ["from " + " " * 300_000 + "x"],
        ["\\\n" * 150_000],
        ["\x00\udcff" * 1_000, "\r\n" * 100_000],
        ["x" * 10_000_000],
    ],
)
def test_no_submission_stalls_it(cells: list[str]) -> None:
    start = time.process_time()
    scan(cells)
    assert time.process_time() - start < 8


def test_half_a_character_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate, which the tokenizer of Python 3.12 and newer cannot encode."""
    whole = scanning.tokenize.generate_tokens

    def strict(readline: Any) -> Any:
        readline.__self__.getvalue().encode()
        return whole(readline)

    monkeypatch.setattr(scanning.tokenize, "generate_tokens", strict)
    found = find("import ctypes\nx = '\udcff eval'  # exec \ud800")
    assert found == ["cell 2 uses ctypes"]


@each("name", solutions())
def test_nothing_is_said_of_the_solutions(name: str) -> None:
    notebook: Any = nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", as_version=4)
    assert scan([c.source for c in notebook.cells if c.cell_type == "code"]) == []


@each(
    "source, name",
    [
        ("def f(x):\n    from scipy import stats\n    return stats", "scipy"),
        ("import scipy.stats as s\ndef f(x):\n    return s.kendalltau(x, x)", "scipy.stats"),
        ("from scipy.stats import kendalltau\ndef f(x):\n    return kendalltau(x, x)", "scipy"),
        ("def f(x):\n    def g():\n        import sklearn\n    return g()", "sklearn"),
        (
            "from attnlib.attention import attention as g\ndef f(x):\n    return g(x)",
            "attnlib.attention.attention",
        ),
        ("import os, pandas, re\ndef f(x):\n    return pandas, os, re, np, math", None),
    ],
)
def test_at_home_a_student_is_told_what_is_not_there_in_grading(
    source: str, name: str | None
) -> None:
    told = refused_at_home(run(source)["f"], ())
    assert told == "" if name is None else told.startswith(f"it uses {name}")


def test_home_and_grading_agree_on_what_is_there() -> None:
    from attnlib.check.means import THERE
    from grading import packages

    assert not THERE & {*packages.absent()}
    visible = {path.name for path in packages.visible()}
    assert {"torch", "numpy", "matplotlib", "pandas", "tqdm", "IPython", "ipywidgets"} <= visible
    assert not visible & {
        "scipy",
        "sklearn",
        "transformers",
        "tiktoken",
        "nbgrader",
        "pyseccomp.py",
    }


def test_of_two_versions_a_submission_meets_the_one_that_python_imports(tmp_path, monkeypatch):
    from grading import packages

    folders = [tmp_path / "own", tmp_path / "systems"]
    for folder in folders:
        (folder / "tqdm").mkdir(parents=True)
        (folder / "tqdm/__init__.py").touch()
        about = folder / "tqdm-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tqdm\nVersion: 1\n")
        (about / "RECORD").write_text("tqdm/__init__.py,,\ntqdm-1.dist-info/METADATA,,\n")
    monkeypatch.setattr(packages.site, "getsitepackages", lambda: [str(one) for one in folders])
    seen = packages.visible.__wrapped__()
    assert folders[0] / "tqdm" in seen
    assert not [path for path in seen if path.is_relative_to(folders[1])]
