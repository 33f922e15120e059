"""What the code that defines an answer rests on."""

import pytest

from grading.intake.sources import resting_on

HELPERS = ["import torch", "def helper(x):\n    return x", "weights = torch.ones(2)", "y = weights"]
RESTS = {  # an answer, and the pieces of HELPERS on which it rests
    "def f(x):\n    return helper(x)": {1},
    "def f(x):\n    return [lambda: helper(i) for i in x]": {1},
    "class f:\n    def run(self, x):\n        return helper(x)": {1},
    "@helper\ndef f(x):\n    return x": {1},
    "f = helper": {1},
    "x = await helper(1)\nf = lambda: x": {1},
    "def f(x):\n    return y": {0, 2, 3},
    "def f(x):\n    weights = x + x\n    return weights": set[int](),
    "def f(x, weights):\n    return [weights for helper in x]": set[int](),
    "def f(x):\n    weights = x\n    return [lambda: weights]": set[int](),
    "def f(x):\n    return x.weights + x.helper()": set[int](),
}


@pytest.mark.parametrize("answer", RESTS)
def test_an_answer_rests_on_the_global_names_that_it_uses(answer: str) -> None:
    text = resting_on([*HELPERS, answer], "f")
    assert {i for i, helper in enumerate(HELPERS) if helper in text} == RESTS[answer]
