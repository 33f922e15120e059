"""`grading.warm`: what a copy of the warm interpreter finds of others, and when there is none."""

import os

import nbformat
import pytest

from grading import sandbox, warm
from grading.sandbox import SandboxError, Scene, run

REQUIRED = os.environ.get("ATTNLIB_SANDBOX") == "required"
pytestmark = pytest.mark.skipif(
    not REQUIRED and sandbox.unusable() is not None, reason=f"no sandbox: {sandbox.unusable()}"
)


def shown(source: str) -> str:
    """What a cell prints."""
    done = run(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), Scene())
    (output,) = done.notebook.cells[0].outputs
    return str(output.get("text", output))


def test_a_submission_finds_nothing_of_the_one_before() -> None:
    cell = (
        "import random, sys, numpy, torch, os\n"
        "print('before' in vars(torch), 'before' in sys.modules, os.path.exists('/tmp/before'),\n"
        "      os.path.exists('/dev/shm/before'), hasattr(__builtins__, 'before'))\n"
        "print(random.random(), numpy.random.rand(), float(torch.rand(1)))\n"
        "torch.before = sys.modules['before'] = torch\n"
        "__builtins__.before = torch.nn.functional.relu.__code__\n"
        "for name in ('/tmp/before', '/dev/shm/before'): open(name, 'w').close()"
    )
    first, second = (shown(cell).split("\n") for _ in range(2))
    assert first[0] == second[0] == "False False False False False"
    assert not set(first[1].split()) & set(second[1].split()), "both have drawn the same"


def test_here_submissions_begin_warm() -> None:
    if not REQUIRED and warm.cold():
        pytest.skip("each submission gets an interpreter of its own on this machine")
    assert warm.cold() is None


def test_a_warm_interpreter_that_has_ended_is_replaced() -> None:
    if warm.cold():
        pytest.skip("there is none on this machine")
    before = warm.serving()
    before.process.kill()
    before.process.wait()
    assert shown("print(1 + 1)") == "2\n"
    assert warm.serving() is not before


def test_where_no_fence_can_be_entered_each_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise SandboxError("a fence cannot be entered (not here)")

    monkeypatch.setattr(warm.Server, "copy", refuse)
    monkeypatch.setattr(warm, "tried", warm.tried.__wrapped__)
    assert warm.cold() == "a fence cannot be entered (not here)"
    assert shown("print(1 + 1)") == "2\n"
