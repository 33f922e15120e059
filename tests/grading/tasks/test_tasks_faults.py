"""Faults that an engineer put into this room, each with the test that notices it."""

import pytest

from attnlib.check.protocol import to_json
from grading.tasks import EXERCISES, exercise
from grading.tasks.hidden import hidden_inputs
from grading.tasks.kit import draws


@pytest.mark.parametrize("name", EXERCISES)
def test_the_further_hidden_cases_depend_on_the_seed_too(name: str) -> None:
    for task in exercise(name).values():
        if task.also:
            first, other = (hidden_inputs(task, seed)[5:] for seed in ("a", "b"))
            assert to_json(first) != to_json(other), task.name


def test_the_sizes_of_hidden_cases_are_of_all_kinds() -> None:
    sizes = [(draw.sizes, draw.size(1), draw.size(1)) for draw in draws("a seed")]
    assert {kind for kind, *_ in sizes} == {"different", "alike", "least"}
    assert [(a, b) for kind, a, b in sizes if kind == "least"] == [(1, 1)]
    assert all(a == b for kind, a, b in sizes if kind == "alike")
    assert all(a != b for kind, a, b in sizes if kind == "different")
