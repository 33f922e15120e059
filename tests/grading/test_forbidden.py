"""A function that would be the answer is refused where it is tried in an ordinary way.

A hint, no lock: nothing here tries the other ways, and none is closed for their sake.
"""

import json

import nbformat
import pytest
from classroom import needs_sandbox
from each import each

from attnlib.check.means import reached, refused
from grading.preprocess import scene
from grading.sandbox import run
from grading.tasks import EXERCISES, exercise

TASKS = [
    (name, task) for name in EXERCISES for task, one in exercise(name).items() if one.forbidden
]
NAMES = [(name, task, word) for name, task in TASKS for word in exercise(name)[task].forbidden]
# where what they forbid is public, and a function
PUBLIC = {
    "torch.Tensor": "backward",
    "torch": "gru gru_cell rnn_tanh rnn_tanh_cell",
    "torch.autograd": "backward grad",
    "torch.autograd.functional": "jacobian vjp jvp",
    "torch.func": "grad jacfwd jacrev vjp jvp",
    "torch.nn": "RNN RNNCell GRU GRUCell MultiheadAttention CrossEntropyLoss NLLLoss",
    "torch.nn.functional": "scaled_dot_product_attention multi_head_attention_forward "
    "cross_entropy nll_loss linear_cross_entropy",
    "torch.nn.utils": "clip_grad_norm_ clip_grads_with_norm_ clip_grad_norm",
}


def ways(word: str, module: str = "torch.nn.functional") -> list[str]:
    """Cells in which a function is used in the ordinary ways."""
    path = f"{module}.{word}"
    return [
        f"def f(x):\n    return {path}(x)",
        f"def f(x):\n    return x.{word}(-1)",
        f"import {module} as m\ndef f(x):\n    return m.{word}(x)",
        f"from {module} import {word}\ndef f(x):\n    return {word}(x)",
        f"def f(x):\n    from {module} import {word} as g\n    return g(x)",
        f"g = {path}\ndef f(x):\n    return g(x)",
        f"g = {path}(4, 1)\ndef f(x):\n    return g(x)",
        f"class G({path}):\n    pass\ndef f(x):\n    return G(x)",
        f"def g(x):\n    return {path}(x)\ndef f(x):\n    return g(x)",
        f"f = lambda x: {path}(x)",
    ]


@each("name, task, word", NAMES)
def test_the_ordinary_ways_are_refused_in_every_task(name: str, task: str, word: str) -> None:
    for source in ways(word):
        told = refused(reached(source), exercise(name)[task].forbidden)
        assert told == f"it uses {word}, which would be the answer: write it yourself", source


@each("word", ["softmax", "scaled_dot_product_attention", "MultiheadAttention"])
def test_what_a_task_may_forbid(word: str) -> None:
    for source in (*ways(word), *ways(word, "torch"), *ways(word, "torch.nn")):
        assert word in refused(reached(source), [word]), source


@each(
    "source",
    [
        "def softmax(x):\n    return x.exp()\ndef f(x):\n    return softmax(x)",
        "def f(x):\n    softmax = 2 * x\n    return softmax",
        "class A:\n    def f(self, x):\n        self.softmax = x\n        return self.softmax",
        "def f(x):\n    'As torch.softmax does.'\n    return x  # x.softmax(-1)",
        "def f(x):\n    return x.log_softmax(-1)",
        "%time no python",
        "(" * 10_000,
        "x" + ".a" * 19_000,
        "",
    ],
)
def test_a_name_of_ones_own_is_not_refused(source: str) -> None:
    assert refused(reached(source), ["softmax"]) == ""


@needs_sandbox
@pytest.mark.parametrize("name", dict(TASKS))
def test_a_forbidden_function_is_not_there_under_any_public_name(name: str) -> None:
    """Held since before, from a star import, or as a base: calling it says what to do instead."""
    about = scene(name, "a seed")
    paths = [
        f"{m}.{w}" for m, words in PUBLIC.items() for w in words.split() if w in about.forbidden
    ]
    assert {path.rpartition(".")[2] for path in paths} == {*about.forbidden} - {"autograd"}
    tries = "\n".join(
        f"try:\n    {path}()\nexcept Exception as error:\n    told[{path!r}] = str(error)"
        for path in paths
    )
    cells = [
        nbformat.v4.new_code_cell(f"import json, torch\ntold = {{}}\n{tries}\njson.dumps(told)")
    ]
    done = run(nbformat.v4.new_notebook(cells=cells), about)
    told = json.loads(eval(done.notebook.cells[0].outputs[0].data["text/plain"]))
    for path in paths:
        word = path.rpartition(".")[2]
        assert told[path].startswith(f"this uses {word}, which would be the answer"), path
