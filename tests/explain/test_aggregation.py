"""Rollout, against every way through the layers."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.aggregation import rollout


def maps(layers=2, heads=3, size=4, seed=0, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    shape = (layers, heads, size, size)
    return (sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1)


@pytest.mark.claim(29)
@settings(max_examples=30)
@given(seed=st.integers(0, 999), layers=st.integers(1, 5), sharpness=st.sampled_from([0.1, 3, 50]))
def test_rollout_rows_sum_to_1(seed, layers, sharpness):
    found = rollout(maps(layers, seed=seed, sharpness=sharpness))
    assert found.shape == (layers, 4, 4)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(layers, 4, dtype=torch.float64))


def test_rollout_counts_every_way_through_the_layers():
    A = maps(3, 2, 3)
    W = A.mean(1) / 2 + torch.eye(3) / 2
    for top, bottom in itertools.product(range(3), repeat=2):
        ways = sum(
            W[2, top, a] * W[1, a, b] * W[0, b, bottom]
            for a, b in itertools.product(range(3), repeat=2)
        )
        torch.testing.assert_close(rollout(A)[-1, top, bottom], ways)
    torch.testing.assert_close(rollout(A)[0], W[0])
    assert rollout(torch.ones(0, 2, 2, 3, 3)).shape == (0, 2, 3, 3), "no text is no error"


@pytest.mark.parametrize("shape", [(1, 1, 1, 5), (3, 3), (0, 2, 3, 3), (2, 0, 3, 3), (2, 2, 0, 0)])
def test_maps_of_something_else_are_refused(shape):
    with pytest.raises(ValueError, match="self-attention"):
        rollout(torch.ones(shape))
