"""The static look at a submission: it finds what it should, and leaves honest answers alone."""

from typing import Any

import nbformat
import pytest
from bank import ROOT, bank, banks, solutions

from grading import scan as scanning
from grading.scan import code_cells, scan
from grading.task import Task

SET_UP = "import torch\nimport numpy as np\nfrom attnlib.check import check"
TASKS = {
    "attend": Task("attend", max, (), lambda a, b: [], forbidden=("scaled_dot_product_attention",)),
    "layer_norm": Task("layer_norm", max, (), lambda a, b: [], forbidden=("layer_norm",)),
    "other": Task("other", max, (), lambda a, b: []),
}


@pytest.fixture(autouse=True)
def exercise(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Three tasks in place of the real ones, unless a test is about those."""
    if "false_alarm" not in request.node.name:
        monkeypatch.setattr(scanning, "exercise", lambda name: TASKS)


def find(*cells: str) -> tuple[dict[str, str], tuple[str, ...]]:
    found = scan("x", [SET_UP, *cells])
    return found.forbidden, found.evasions


FUSED = "scaled_dot_product_attention"


@pytest.mark.parametrize(
    "cells",
    [
        [f"def attend(q, k, v):\n    return torch.nn.functional.{FUSED}(q, k, v)"],
        [f"attend = torch.nn.functional.{FUSED}"],
        [f"from torch.nn.functional import {FUSED} as attend"],
        [f"from torch.nn.functional import {FUSED} as f", "def attend(*a):\n    return f(*a)"],
        [f"f = getattr(torch.nn.functional, '{FUSED}')", "def attend(*a):\n    return f(*a)"],
        [
            f"def g(*a):\n    return torch.nn.functional.{FUSED}(*a)",
            "h = g",
            "def attend(*a):\n    return h(*a)",
        ],
        [
            "tools = []",
            f"tools.append(torch.nn.functional.{FUSED})",
            "def attend(*a):\n    return tools[0](*a)",
        ],
        [f"import torch.nn.functional as F\nf = F.{FUSED}\ndef attend(*a):\n    return f(*a)"],
        [
            f"def attend(*a):\n    return f(*a)\ndef put():\n    global f\n"
            f"    f = torch.nn.functional.{FUSED}\nput()"
        ],
        [
            "def attend(*a):\n    return f(*a)",
            f"def put():\n    global f\n    f = torch.nn.functional.{FUSED}\nput()",
        ],
        [f"class C:\n    f = torch.nn.functional.{FUSED}", "def attend(*a):\n    return C.f(*a)"],
    ],
)
def test_a_forbidden_name_is_found_wherever_the_answer_can_reach_it(cells: list[str]) -> None:
    forbidden, _ = find(*cells)
    assert list(forbidden) == ["attend"]
    assert f"uses {FUSED}, which would be the answer: write it yourself" in forbidden["attend"]
    assert forbidden["attend"].startswith("cell ")


def test_a_forbidden_name_costs_no_task_that_cannot_reach_it() -> None:
    forbidden, _ = find(
        f"def other(*a):\n    return torch.nn.functional.{FUSED}(*a)",
        "def attend(q, k, v):\n    return q",
        "check('attend', attend)",
        "check('other', other)",
    )
    assert forbidden == {}


def test_comparing_an_answer_with_the_librarys_in_another_cell_is_allowed() -> None:
    for cell in (
        f"torch.allclose(attend(1, 2, 3), torch.nn.functional.{FUSED}(1, 2, 3))",
        f"q = torch.ones(2, 3)\nprint(torch.nn.functional.{FUSED}(q, q, q))",
    ):
        assert find("def attend(q, k, v):\n    return [q for q in k]", cell) == ({}, ()), cell


def test_a_task_that_builds_on_another_pays_for_it() -> None:
    forbidden, _ = find(
        f"def other(*a):\n    return torch.nn.functional.{FUSED}(*a)",
        "def attend(q, k, v):\n    return other(q, k, v)",
    )
    assert list(forbidden) == ["attend"]


@pytest.mark.parametrize(
    "cell",
    [
        f'def attend(q, k, v):\n    """As {FUSED} does."""\n    return q',
        f"def attend(q, k, v):\n    # {FUSED} would do it\n    return q",
        f"def attend(q, k, v):\n    my_{FUSED} = 1\n    return q",
        f"def attend(q, k, v):\n    print('like {FUSED}')\n    return q",
        f"def attend(q, k, v):\n    assert len(q), 'not as in {FUSED}'\n    return q",
        f"def attend(q, k, v):\n    return {{'{FUSED}': q}}['{FUSED}']",
    ],
)
def test_talking_about_a_forbidden_name_is_allowed(cell: str) -> None:
    assert find(cell) == ({}, ())


@pytest.mark.parametrize(
    "cell",
    [
        f"def {FUSED}(q):\n    return q\ndef attend(q, k, v):\n    return {FUSED}(q)",
        f"def attend(q, k, v):\n    {FUSED} = q + 1\n    return {FUSED}",
        f"def attend({FUSED}, k, v):\n    return {FUSED}",
        f"class {FUSED}:\n    pass\ndef attend(q, k, v):\n    return {FUSED}()",
        f"class A:\n    def __init__(self, x):\n        self.{FUSED} = x\n"
        f"    def __call__(self):\n        return self.{FUSED}\n"
        "def attend(q, k, v):\n    return A(q)()",
        f"class A:\n    def {FUSED}(self):\n        return 1\n    def run(self):\n"
        f"        return self.{FUSED}()\ndef attend(q, k, v):\n    return A().run()",
    ],
)
def test_a_name_that_the_student_has_bound_is_the_students_own(cell: str) -> None:
    assert find(cell) == ({}, ())


@pytest.mark.parametrize(
    "cell",
    [
        f"{FUSED} = torch.nn.functional.{FUSED}\ndef attend(*a):\n    return {FUSED}(*a)",
        f"class A:\n    def __init__(self):\n        self.{FUSED} = 1\n"
        f"F = torch.nn.functional\ndef attend(*a):\n    return F.{FUSED}(*a)",
        f"class A:\n    {FUSED} = torch.nn.functional.{FUSED}\n    def run(self, *a):\n"
        f"        return self.{FUSED}(*a)\ndef attend(*a):\n    return A().run(*a)",
        f"match torch.nn.functional:\n    case object({FUSED}=f):\n        pass\n"
        "def attend(*a):\n    return f(*a)",
    ],
)
def test_binding_a_forbidden_name_to_the_librarys_function_is_found(cell: str) -> None:
    assert list(find(cell)[0]) == ["attend"]


def test_an_answer_may_bear_the_name_of_the_librarys() -> None:
    assert find("def layer_norm(x):\n    return x", "check('layer_norm', layer_norm)")[0] == {}
    assert find("def layer_norm(x):\n    return x\nlayer_norm(torch.ones(2))") == ({}, ())
    for cell in (
        "def layer_norm(x):\n    return torch.nn.functional.layer_norm(x, x.shape)",
        "from torch.nn.functional import layer_norm",
    ):
        assert list(find(cell)[0]) == ["layer_norm"], cell


EVASIONS = {
    "eval('1')": "uses eval",
    "exec('1')": "uses exec",
    "compile('1', '', 'exec')": "uses compile",
    "f = __builtins__": "uses __builtins__",
    "__import__('os')": "uses __import__",
    "import importlib": "imports importlib",
    "from importlib import import_module as f": "imports importlib",
    "import os": "imports os",
    "import os.path": "imports os.path",
    "import inspect": "imports inspect",
    "import gc": "imports gc",
    "import ctypes": "imports ctypes",
    "import subprocess as s": "imports subprocess",
    "import sys\nsys.modules['torch']": "uses sys.modules",
    "import sys\nsys._getframe(1)": "uses sys._getframe",
    "import torch.nn as nn\nnn.Module.forward = 3": None,
    "globals()['check'] = print": "uses globals",
    "vars(torch)": "uses vars",
    "locals()": "uses locals",
    "getattr(torch, 'soft' + 'max')": "uses getattr with a computed name",
    "getattr(torch, '__dict__')": "uses getattr for __dict__",
    "setattr(torch, 'allclose', print)": "replaces torch.allclose",
    "torch.allclose = lambda *a: True": "replaces torch.allclose",
    "np.allclose = lambda *a, **k: True": "replaces np.allclose",
    "import math\nmath.isclose = print": "replaces math.isclose",
    "del torch.allclose": "replaces torch.allclose",
    "torch.allclose += 1": "replaces torch.allclose",
    "torch.ops.aten": "uses torch.ops",
    "torch._C": "uses torch._C",
    "(lambda: 0).__globals__": "uses (lambda: 0).__globals__",
    "().__class__.__base__.__subclasses__()": "__subclasses__",
    "def f(): pass\nf.__code__ = 3": "uses f.__code__",
    "import operator\noperator.attrgetter('a.b')": "uses operator.attrgetter",
    "import attnlib": "imports attnlib",
    "from attnlib.attention import attention": "imports attnlib.attention",
    "from attnlib.check import complaint": "imports attnlib.check",
    "import attnlib.check as c": "imports attnlib.check",
    "import scipy": "imports scipy: an answer uses torch, numpy and the standard library",
    "from transformers import GPT2Model": "imports transformers",
    "from torch.nn.functional import *": "imports everything from torch.nn.functional",
    "def check(*a): pass": "replaces check",
    "check = print": "replaces check",
    "x = 'application/vnd.attnlib.answers+json'": "names what only the check cell uses",
    "x = 'ATTNLIB_HIDDEN'": "names what only the check cell uses",
    "!ls": "uses get_ipython",
    "x = !ls": "uses get_ipython",
    "%%bash\nls": "uses get_ipython",
    "%run a.py": "uses get_ipython",
    "%load_ext autoreload": "uses get_ipython",
    "%timeit eval('1')": "uses get_ipython",
    "%%timeit\nimport os": "uses get_ipython",
}


@pytest.mark.parametrize(("cell", "told"), EVASIONS.items())
def test_an_evasion_is_found_and_told_with_its_cell(cell: str, told: str | None) -> None:
    _, evasions = find("x = 1", cell)
    if told is None:
        assert evasions == ()
    else:
        assert any(told in one and one.startswith("cell 3 ") for one in evasions), evasions


@pytest.mark.parametrize(
    "cell",
    [
        "import math, random, itertools, collections, functools, re, sys\nprint(sys.maxsize)",
        "from functools import lru_cache\nfrom collections import Counter",
        "import torch.nn.functional as F\nx = F.softmax(torch.ones(2), -1)",
        "model = torch.nn.Linear(2, 2).eval()\nmodel.weight = None",
        "import re\nre.compile('a')",
        "class A:\n    def __init__(self):\n        super().__init__()\n        self.x = 1\n"
        "    def __len__(self):\n        return 1",
        "x = torch.ones(2)\nx.requires_grad = True\nx.grad = None",
        "getattr(torch, 'softmax')",
        "x = getattr(torch, 'softmax', None)",
        "%matplotlib inline\nimport matplotlib.pyplot as plt",
        "%timeit torch.ones(3)",
        "%time x = 1",
        "check('other', other)",
        "from attnlib.check import check, NotYet\ntry:\n    pass\nexcept NotYet as e:\n    pass",
        "torch.manual_seed(0)\ntorch.set_printoptions(precision=3)",
        "print('globals, eval and os')",
        "x = 1  # eval",
        "def evaluate(local):\n    return local",
        "this is no python",
        "",
    ],
)
def test_honest_code_is_left_alone(cell: str) -> None:
    assert find(cell) == ({}, ())


@pytest.mark.parametrize("name", solutions())
def test_no_false_alarm_on_the_solutions(name: str) -> None:
    notebook: Any = nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", as_version=4)
    found = scan(name, code_cells(notebook))
    assert found.forbidden == {}
    assert found.evasions == ()


@pytest.mark.parametrize("name", banks())
def test_no_false_alarm_on_the_right_answers(name: str) -> None:
    for task, sources in bank(name).right.items():
        for source in sources:
            found = scan(name, [SET_UP, source])
            assert found.evasions == (), f"{task}: {source}"
            assert found.forbidden == {}, f"{task}: {source}"


def test_only_code_is_looked_at() -> None:
    cells = [nbformat.v4.new_markdown_cell("eval"), nbformat.v4.new_code_cell("x = 1")]
    assert code_cells(nbformat.v4.new_notebook(cells=cells)) == ["x = 1"]
