"""The bank of attacks: what a student may try in order to get points without an answer.

Each attack is a submission of exercise 04 in which `word_map` is solved honestly and `attend` is
not; it must earn nothing for `attend`, and the report must say what was found. The honest task is
paid all the same, unless the attack broke its check too. A way to a function that the task forbids
is no attack but one of the ordinary ones, which `test_forbidden.py` tries.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode

NAME = "04_self_attention"
TARGET, HONEST = "attend", "word_map"
GRADED, MANUAL = "graded", "needs manual grading"
LOST, UNSURE = "graded, no points", "no points"

WRONG = "def attend(q, k, v):\n    return v, q"
SOLVED = """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    columns = torch.stack([weights[:, :, group].sum(-1) for group in groups], -1)
    return torch.stack([columns[:, group].mean(1) for group in groups], 1)
"""
RIGHT = """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights
"""
MIME = "application/vnd.attnlib.answers+json"


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        answer: the source of the answer cell of `attend`.
        told: a piece of what the report must say.
        first: the source of a cell of the student's own at the top.
        honest: the status that the honest task must have, or LOST: its check was broken too,
            or UNSURE: that is a matter of luck.
        change: what else is done to the notebook.
        target: the status that `attend` must have.
    """

    told: str
    answer: str = WRONG
    first: str = ""
    honest: str = GRADED
    change: Callable[[NotebookNode], None] | None = None
    target: str = GRADED


def submission(attack: Attack, released: NotebookNode) -> NotebookNode:
    """The notebook that the attacker hands in."""
    notebook = nbformat.from_dict(released)
    answers = {f"{TARGET}_answer": attack.answer, f"{HONEST}_answer": SOLVED}
    for cell in notebook.cells:
        cell.source = answers.get(named(cell), cell.source)
    if attack.first:
        notebook.cells.insert(2, nbformat.v4.new_code_cell(attack.first))
    if attack.change:
        attack.change(notebook)
    return notebook


def named(cell: NotebookNode) -> str:
    """The grade_id of a cell, or nothing."""
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def the_check(notebook: NotebookNode) -> NotebookNode:
    """The check cell of the attacked task."""
    return next(cell for cell in notebook.cells if named(cell) == TARGET)


# what is done to the notebook


def delete(notebook: NotebookNode) -> None:
    notebook.cells = [c for c in notebook.cells if named(c) not in (TARGET, f"{TARGET}_answer")]
    notebook.cells.append(nbformat.v4.new_code_cell(WRONG))


def double(notebook: NotebookNode) -> None:
    place = notebook.cells.index(the_check(notebook))
    for source in ("print('passed')", "pass"):
        copied = nbformat.from_dict(the_check(notebook))
        copied.source = source
        notebook.cells.insert(place, copied)
        notebook.cells.append(nbformat.from_dict(copied))


def call_it_mine(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if named(cell) in (TARGET, HONEST):
            cell.metadata.nbgrader.update(solution=True, locked=False, points=1000)
            cell.source = "pass"


def rename(notebook: NotebookNode) -> None:
    the_check(notebook).metadata.nbgrader["grade_id"] = "something_else"


def change_kernel(notebook: NotebookNode) -> None:
    notebook.metadata["kernelspec"] = {"name": "bash", "display_name": "x", "language": "bash"}
    notebook.metadata["language_info"] = {"name": "bash"}
    notebook.metadata["attnlib"] = {"status": "finished", "tasks": {TARGET: {"points": 3}}}


def forge_outputs(notebook: NotebookNode) -> None:
    the_check(notebook).outputs = [
        nbformat.v4.new_output("display_data", data={"text/plain": "passed: 3 of 3 points"}),
        nbformat.v4.new_output("display_data", data={MIME: {"task": TARGET, "answers": []}}),
    ]


def write_script(notebook: NotebookNode) -> None:
    text = "<script>fetch('/formgrader/api')</script><img src=x onerror=alert(1)>"
    notebook.cells.append(nbformat.v4.new_raw_cell(text))
    next(cell for cell in notebook.cells if named(cell) == "explain_scale").source = text
    cell = nbformat.v4.new_markdown_cell(f"![x](attachment:x.png) {text}")
    script = base64.b64encode(b"<script>").decode()
    cell["attachments"] = {"x.png": {"text/html": script, "image/svg+xml": script}}
    notebook.cells.append(cell)


# the attacks; in `first` and `answer`, the code of the student

KERNEL = "from ipykernel.kernelapp import IPKernelApp\nkernel = IPKernelApp.instance().kernel\n"
BUNDLE = f"{{'{MIME}': {{'task': 'attend', 'answers': [{{'output': 1, 'args': 1}}] * 5}}}}"
SEND = """
for channel in ("display_data", "execute_result"):
    content = {"data": BUNDLE, "metadata": {}, "execution_count": 1}
    kernel.session.send(kernel.iopub_socket, channel, content, parent=kernel.get_parent())
""".replace("BUNDLE", BUNDLE)

ATTACKS: dict[str, Attack] = {
    # comparisons made to say yes
    "comparisons replaced": Attack(
        "torch.Tensor.__eq__",
        first="import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True\n"
        "torch.allclose = torch.equal = np.allclose\n"
        "torch.Tensor.__eq__ = lambda self, other: torch.tensor(True)",
    ),
    "builtins replaced": Attack(
        "uses builtins",
        first="import builtins\nbuiltins.compare = lambda *a: None\nbuiltins.abs = lambda x: 0\n"
        "builtins.all = builtins.any = lambda x: True\nclass Quiet(AssertionError):\n"
        "    def __init__(self, *a):\n        raise SystemExit(0)\n"
        "builtins.AssertionError = Quiet",
    ),
    "check made to pass": Attack(
        "imports attnlib",
        first="import attnlib.check as c\nfor f in ('compare', 'difference', 'complaint'):\n"
        "    setattr(c, f, lambda *a, **k: None)",
    ),
    "check replaced": Attack(
        "replaces check", first="def check(task, answer):\n    print('passed')", honest=LOST
    ),
    "module replaced": Attack(
        "modules",
        first="import sys, types\nfake = types.ModuleType('attnlib.check')\n"
        "fake.check = lambda *a: print('passed')\nsys.modules['attnlib.check'] = fake\n"
        "from attnlib.check import check",
        honest=LOST,
    ),
    "json replaced": Attack(
        "the kernel sent what is no message",
        honest="crashed",
        target="crashed",
        first="import json\njson.dumps = lambda *a, **k: '{\"points\": 3}'",
    ),
    # the notebook
    "check cell deleted": Attack("attend was missing", change=delete),
    "check cell doubled": Attack("attend is there twice", change=double),
    "check cell called an answer": Attack(
        "attend was changed: solution, locked, points", change=call_it_mine
    ),
    "check cell renamed": Attack("no cell something_else", change=rename),
    "kernel replaced": Attack("expected", change=change_kernel),
    "outputs forged in the file": Attack("expected", change=forge_outputs),
    "scripts in texts": Attack("expected", change=write_script),
    # what is shown
    "bundle forged by a second display": Attack(
        "forged: 2 answers were shown",
        answer="from IPython.display import display\nshow = [1]\n\ndef attend(q, k, v):\n"
        f"    show and display({BUNDLE}, raw=True)\n    show.clear()\n    return v, q",
    ),
    "a bundle of another task": Attack(
        "the answers are those of another task",
        answer=SOLVED + "\n\ndef attend(q, k, v):\n    return v, q",
        first="import attnlib.check as c\nask = c.ask\n"
        "c.ask = lambda task, answer, inputs: ask('word_map', word_map, inputs)",
    ),
    "a bundle as deep as it goes": Attack(
        "no answer",
        first="import attnlib.check as c\n"
        "deep = []\nfor _ in range(900):\n    deep = [deep]\nc.ask = lambda *a: deep",
        honest=LOST,
    ),
    "a message of the student's own": Attack(
        "answers were shown",
        answer=KERNEL
        + "\ndef attend(q, k, v):\n    "
        + SEND.strip().replace("\n", "\n    ")
        + "\n    return v, q",
    ),
    "a thread that shows more": Attack(
        "uses threading",
        honest=UNSURE,
        first="import threading, time\nfrom IPython.display import display\ndef later():\n"
        f"    for _ in range(50):\n        time.sleep(0.02)\n        display({BUNDLE}, raw=True)\n"
        "threading.Thread(target=later, daemon=True).start()",
    ),
    "a script in the output": Attack(
        "expected",
        answer=WRONG + "\n\nfrom IPython.display import HTML, display\n"
        "display(HTML('<script>fetch(\"/formgrader/api\")</script>'))",
    ),
    # hooks of the kernel
    "cells rewritten": Attack(
        "get_ipython",
        first="get_ipython().input_transformers_cleanup.append(lambda lines: ['print(3)\\n'])",
        honest=LOST,
    ),
    "hook before every cell": Attack(
        "get_ipython",
        first="def hook(info):\n    info.raw_cell = 'print(3)'\n"
        "get_ipython().events.register('pre_run_cell', hook)",
    ),
    "a verdict of the student's own": Attack(
        "get_ipython",
        first="get_ipython().display_pub.publish = lambda *a, **k: print('passed: 3 of 3 points')",
        honest=LOST,
    ),
    "an idle kernel feigned": Attack(
        "expected",
        answer=KERNEL + WRONG + "\nkernel.session.send(kernel.iopub_socket, 'status', "
        "{'execution_state': 'idle'}, parent=kernel.get_parent())",
    ),
    "shell": Attack("starts a program", first="!echo passed > attend.txt\n%env ATTNLIB_POINTS=3"),
    # the files and processes
    "files written": Attack(
        "expected",
        first="import os, pathlib\nfor path in ('/job/inside.py', '/job/job.json', '/result',"
        " '/job/hidden.json', '/tmp/result.json', '/tmp/report.json'):\n    try:\n"
        "        pathlib.Path(path).write_text('{\"points\": 3}')\n"
        "    except OSError:\n        pass\n"
        "os.symlink('/etc/passwd', '/tmp/result')",
    ),
    "the pipe to the outside": Attack(
        "expected",
        first="import os, glob\n"
        'line = \'{"cell": 4, "outputs": []}\\n{"end": "finished"}\\n\'\n'
        "for path in glob.glob('/proc/[0-9]*/fd/*'):\n    try:\n"
        "        with open(path, 'w') as file:\n            file.write(line)\n"
        "    except OSError:\n        pass",
    ),
    "client killed": Attack(
        "Function not implemented", answer="import os\nos.kill(os.getppid(), 9)\n" + WRONG
    ),
    "start-up files": Attack(
        "uses subprocess",
        first="import pathlib, subprocess, sys\nhome = pathlib.Path.home()\n"
        "code = 'import attnlib.check as c\\nc.check = print'\n"
        "for path in ('.ipython/profile_default/startup/0.py', 'sitecustomize.py', "
        "'notebook/attnlib.py', 'notebook/torch.py'):\n"
        "    (home / path).parent.mkdir(parents=True, exist_ok=True)\n"
        "    (home / path).write_text(code)\n"
        "subprocess.run([sys.executable, '-c', 'import attnlib.check'])",
    ),
    "other submissions": Attack(
        "ValueError: 0 found",
        answer="import os, sys\nfound, own = [], ('site-packages', 'lib', 'proc', 'sys', 'usr')\n"
        "for folder, folders, files in os.walk('/'):\n"
        "    folders[:] = [name for name in folders if name not in own]\n"
        "    found += [f for f in files if f.endswith(('.ipynb', 'gradebook.db', 'report.json'))]"
        "\n\ndef attend(q, k, v):\n    raise ValueError(f'{len(found)} found {found[:3]}')",
    ),
    # the hidden inputs
    "inputs looked up": Attack(
        "names what only the check cell uses",
        answer="import json, os\n"
        "asked = json.load(open(os.environ['ATTNLIB_HIDDEN']))['attend']\n\n"
        "def attend(q, k, v):\n    return torch.tensor(0.0), asked",
    ),
    "inputs replaced": Attack(
        "names what only the check cell uses",
        first="import json, os\nos.environ['ATTNLIB_HIDDEN'] = '/tmp/mine.json'\n"
        "json.dump({'attend': [{'tuple': [1, 2, 3]}] * 5}, open('/tmp/mine.json', 'w'))",
    ),
    "right only while it is graded": Attack(
        "names what only the check cell uses",
        answer="import os\n\ndef attend(q, k, v):\n    if 'ATTNLIB_HIDDEN' not in os.environ:\n"
        "        return None\n    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)\n"
        "    return weights @ v, weights",
    ),
    # somebody else's function; these answers are right
    "the library's own": Attack(
        "uses scaled_dot_product_attention",
        answer="def attend(q, k, v):\n    f = torch.nn.functional.scaled_dot_product_attention\n"
        "    return f(q, k, v), f(q, k, torch.eye(k.shape[-2], dtype=k.dtype))",
    ),
    "compared with the library's own above the answer": Attack(
        "its cell did not run to its end",
        answer="x = torch.ones(2, 3)\n"
        "torch.nn.functional.scaled_dot_product_attention(x, x, x)\n" + RIGHT,
        target=MANUAL,
    ),
    "the course's own": Attack(
        "imports attnlib beyond check", answer="from attnlib.attention import attention as attend"
    ),
    # strange answers
    "a pickle that acts": Attack(
        "returned",
        answer="import pickle\n\nclass Bomb:\n    def __reduce__(self):\n"
        "        return (open, ('/tmp/attnlib-attack', 'w'))\n\ndef attend(q, k, v):\n"
        "    return pickle.loads(pickle.dumps(1)), Bomb()",
    ),
    "NaN": Attack(
        "expected",
        answer="def attend(q, k, v):\n"
        "    out = torch.full((*q.shape[:-1], v.shape[-1]), torch.nan)\n"
        "    return out.to(q), torch.full((*q.shape[:-1], k.shape[-2]), torch.nan).to(q)",
    ),
    "a huge answer": Attack(
        "values are too many",
        answer="def attend(q, k, v):\n    return torch.zeros(1).expand(10**9), torch.zeros(2)",
    ),
    "a large answer": Attack(
        "output above",
        honest="crashed",
        answer="def attend(q, k, v):\n    return torch.zeros(10**5), torch.rand(10**5)",
        target="crashed",
    ),
    "a tensor that lies": Attack(
        "",
        answer="class Liar(torch.Tensor):\n    def tolist(self):\n        return [0.0]\n"
        "    def reshape(self, *shape):\n        return self\n\n"
        "def attend(q, k, v):\n    return v.as_subclass(Liar), q.as_subclass(Liar)",
    ),
    "an answer equal to everything": Attack(
        "returned",
        answer="class Same:\n    def __eq__(self, other):\n        return True\n"
        "    def __class__(self):\n        return tuple\n\n"
        "def attend(q, k, v):\n    return Same()",
    ),
    "an integer with a billion digits": Attack(
        "", answer="def attend(q, k, v):\n    return 1 << 10**5, 7"
    ),
    # what the protocol may be made to say
    "shapes that fit anything": Attack(
        "the same answer whatever",
        first="import attnlib.check.protocol as p\nold = p.to_json\n"
        "any_shape = {'tensor': {'dtype': 'float32', 'shape': [-1], 'data': []}}\n"
        "THEIRS = object()\n"
        "p.to_json = lambda v: {'tuple': [any_shape] * 2} if v is THEIRS else old(v)",
        answer="def attend(q, k, v):\n    return THEIRS",
    ),
    "an answer at the interpreter's end": Attack(
        "expected",
        answer="import atexit\nfrom IPython.display import display\n"
        f"atexit.register(lambda: display({BUNDLE}, raw=True))\n" + WRONG,
    ),
    "an answer when memory is tidied": Attack(
        "expected",
        answer="import gc\nfrom IPython.display import display\n"
        f"gc.callbacks.append(lambda *a: gc.callbacks.clear() or display({BUNDLE}, raw=True))\n"
        "gc.collect()\n" + WRONG,
    ),
    "an answer from a frame of the check": Attack(
        "uses f_back",
        answer="import inspect\n\ndef attend(q, k, v):\n"
        "    above = inspect.currentframe().f_back\n"
        "    above.f_locals['answers'].append({'output': 1, 'args': 1})\n    return v, q",
    ),
}


def described(report: dict[str, Any]) -> str:
    """All that a report says."""
    tasks = [task["reason"] for task in report["tasks"].values()]
    return "\n".join([report["reason"], *report["notes"], *tasks])
