"""What a call leaves out: the values that the printed numbers of the chapters rest on."""

import inspect

import pytest

from attnlib.explain import adversary, aggregation, faithfulness, saliency

MEASURES = {
    name: function
    for module in (adversary, aggregation, faithfulness, saliency)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
}

DEFAULTS = {
    "adversarial_attention": {
        "epsilon": 0.05,
        "starts": 5,
        "steps": 300,
        "lr": 0.1,
        "seed": 0,
        "keep": (),
    },
    "aggregate": {"how": "l2", "mask": None},
    "aggregate_maps": {"layers": "mean", "heads": "mean"},
    "exact_adversary": {"epsilon": 0.05},
    "flow": {"destination": 0, "scale": 10**6},
    "gradient_times_input": {"mask": None},
    "integrated_gradients": {"baseline": None, "steps": 50, "mask": None},
    "leave_one_out": {"batch_size": 512},
    "permutation_shift": {"count": 100, "seed": 0},
    "permute": {"generator": None},
    "random_scores": {"seed": 0},
    "reduce_map": {"how": "from_first", "mask": None},
}


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


@pytest.mark.parametrize("name", MEASURES)
def test_the_defaults_of_a_measure(name):
    assert defaults(MEASURES[name]) == DEFAULTS.get(name, {})


def test_the_level_of_a_test():
    assert defaults(faithfulness.RankCorrelation.significant) == {"level": 0.05}
