"""Attacks on the marks, end to end: each earns nothing, and costs nobody else anything.

Each attack is a submission of exercise 04 in which `word_map` is solved honestly and `attend` is
not. That whatever bytes come from inside earn nothing is tested as a property of the judge; here
stand the ways that a student would try first.
"""

from dataclasses import dataclass

import nbformat
import pytest
from classroom import answered, needs_sandbox

from attnlib.check import MIME
from grading.desk.submission import Work, grade
from grading.judging.report import CRASHED, GRADED
from grading.sandbox.fence import COURSE
from grading.sandbox.watch import Limits

pytestmark = [needs_sandbox, pytest.mark.long]
NAME, SEED = "04_self_attention", "a seed of the test's own"
LIMITS = Limits(cell_seconds=8, total_seconds=60, output=8 << 20, disk=64 << 20)

WRONG = "def attend(q, k, v):\n    return v, q"
RIGHT = """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights
"""
WORD_MAP = """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    columns = torch.stack([weights[:, :, group].sum(-1) for group in groups], -1)
    return torch.stack([columns[:, group].mean(1) for group in groups], 1)
"""
BUNDLE = {MIME: {"task": "attend", "answers": [{"output": 1, "args": 1}] * 5}}


@dataclass(frozen=True)
class Attack:
    """An attack, and what comes of it.

    Attributes:
        reason: a piece of what is said of `attend`.
        answer: the answer cell of `attend`.
        first: a cell at the top.
        status: of `attend`, which earns nothing.
        honest: the points of `word_map`, of three.
    """

    reason: str
    answer: str = WRONG
    first: str = ""
    status: str = GRADED
    honest: float = 3


def inside(lines: str) -> str:
    """An answer that does something when it is called, and then gives a wrong answer."""
    return f"def attend(q, k, v):\n    {lines.replace(chr(10), chr(10) + '    ')}\n    return v, q"


ATTACKS = {
    "comparisons that say yes": Attack(
        "expected",
        first="import torch\ntorch.allclose = torch.equal = lambda *a, **k: True\n"
        "torch.Tensor.__eq__ = lambda self, other: torch.tensor(True)",
    ),
    "a check that passes": Attack(
        "no answer", first="def check(task, answer):\n    print('passed')", honest=0
    ),
    "a forged bundle of answers": Attack(
        "forged: ", inside(f"from IPython.display import display\ndisplay({BUNDLE!r}, raw=True)")
    ),
    "answers of another cell": Attack(
        "forged: ",
        first="import attnlib.check as c\nask = c.ask\n"
        "c.ask = lambda task, answer, inputs: ask('word_map', answer, inputs)",
    ),
    "answers in a frame of the check": Attack(
        "forged: ",
        inside(
            "import inspect\nabove = inspect.currentframe().f_back.f_locals\n"
            "above['answers'].append({'output': above['inputs'], 'args': None})"
        ),
    ),
    "right answers in the memory": Attack(
        "ValueError: 0 found",
        "import gc\n\ndef attend(q, k, v):\n"
        "    found = [x for x in gc.get_objects() if type(x).__name__ == 'Case']\n"
        "    raise ValueError(f'{len(found)} found')",
    ),
    "the solutions": Attack(
        "ValueError: 0 found",
        "import os\n"
        "found = [f for _, _, files in os.walk('/') for f in files if f.endswith('.ipynb')]\n"
        f"found += [path for path in [{str(COURSE / 'solutions')!r}] if os.path.exists(path)]\n"
        "\ndef attend(q, k, v):\n    raise ValueError(f'{len(found)} found')",
    ),
    "the network": Attack(
        "OSError", inside("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)")
    ),
    "an exit": Attack("SystemExit", inside("raise SystemExit(0)")),
    "the client killed": Attack(
        "ended from inside", "import os\nos.kill(os.getppid(), 9)", status=CRASHED, honest=0
    ),
    "a fork bomb": Attack(
        "killed: ",
        inside(
            "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
        ),
        status=CRASHED,
        honest=0,
    ),
    "a memory bomb": Attack(
        "killed: memory above",
        inside("kept = [b'x' * (64 << 20) for i in range(90)]"),
        status=CRASHED,
        honest=0,
    ),
    "a full disk": Attack(
        "No space left",
        inside("for i in range(20):\n    open(f'/tmp/{i}', 'wb').write(bytes(32 << 20))"),
    ),
    "answers without end": Attack(
        "killed: ",
        inside("from attnlib.check import show\nwhile True:\n    show({'task': 'x' * 10**5})"),
        status=CRASHED,
        honest=0,
    ),
}


def work(answer: str, first: str = "") -> Work:
    """A submission with an answer to `attend`, and a cell at the top."""
    notebook = answered(NAME, {"attend_answer": answer, "word_map_answer": WORD_MAP})
    if first:
        notebook.cells.insert(2, nbformat.v4.new_code_cell(first))
    return Work(NAME, "student", nbformat.writes(notebook).encode(), SEED, LIMITS)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_earns_nothing(name: str) -> None:
    attack = ATTACKS[name]
    graded = grade(work(attack.answer, attack.first))
    attacked, honest = graded.report.tasks["attend"], graded.report.tasks["word_map"]
    assert (attacked.points, attacked.status) == (0, attack.status), attacked
    assert attack.reason in attacked.reason, attacked
    assert honest.points == attack.honest, honest
    assert SEED not in graded.notebook.decode()


def test_an_honest_answer_earns_its_points() -> None:
    """Or the attacks would earn nothing for whatever reason."""
    tasks = grade(work(RIGHT)).report.tasks
    assert (tasks["attend"].points, tasks["word_map"].points) == (3, 3)
