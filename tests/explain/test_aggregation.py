"""Rollout and flow, against independent computations."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.aggregation import flow, rollout, with_residual

quick = settings(max_examples=30)


def maps(layers=2, heads=3, size=4, seed=0, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    shape = (layers, heads, size, size)
    return (sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1)


def ones(*shape):
    return torch.ones(shape, dtype=torch.float64)


# --- rollout ----------------------------------------------------------------------------------


@pytest.mark.claim(29)
@quick
@given(seed=st.integers(0, 999), layers=st.integers(1, 5), sharpness=st.sampled_from([0.1, 3, 50]))
def test_rollout_rows_sum_to_1(seed, layers, sharpness):
    A = maps(layers, seed=seed, sharpness=sharpness)
    found = rollout(A)
    assert found.shape == (layers, 4, 4)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(-1), ones(layers, 4))


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


# --- flow -------------------------------------------------------------------------------------


def test_flow_through_one_layer_is_its_pipe():
    A = maps(1, 2)
    torch.testing.assert_close(flow(A, 2), with_residual(A)[0, 2], atol=2e-6, rtol=0)


def test_the_thinnest_pipe_that_the_scale_knows_is_kept():
    A = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])[None, None]
    assert flow(A, 0, scale=4).tolist() == [0.75, 0.25, 0.0]
    assert flow(A, 2, scale=4).tolist() == [0.0, 0.0, 0.75], "a tenth is no quarter"


def test_flow_agrees_with_linear_programming():
    """The largest flow as a linear programme over the edges: what enters a node leaves it."""
    from scipy.optimize import linprog

    A = maps(2, 2, 3, seed=4, sharpness=2.0)
    W = with_residual(A)
    edges = [(k, u, t) for k in range(2) for t in range(3) for u in range(3)]  # from u to t
    for source in range(3):
        outside = [
            (0, 0) if k == 0 and u != source else (0, W[k, t, u].item()) for k, u, t in edges
        ]
        outside = [
            (0, 0) if k == 1 and t != 0 else bound
            for bound, (k, _, t) in zip(outside, edges, strict=True)
        ]
        balance = [
            [
                (1 if k == 0 and t == node else 0) - (1 if k == 1 and u == node else 0)
                for k, u, t in edges
            ]
            for node in range(3)
        ]
        gain = [-1 if k == 1 and t == 0 else 0 for k, _, t in edges]
        best = linprog(gain, A_eq=balance, b_eq=[0] * 3, bounds=outside)
        assert flow(A, 0)[source].item() == pytest.approx(-best.fun, abs=1e-5)


def test_wrong_shapes_say_what_is_expected():
    for shape in ((1, 1, 1, 5), (3, 3), (0, 2, 3, 3), (2, 0, 3, 3), (2, 2, 0, 0)):
        with pytest.raises(ValueError, match="self-attention"):
            rollout(torch.ones(shape))
    assert rollout(torch.ones(0, 2, 2, 3, 3)).shape == (0, 2, 3, 3), "no text is no error"
    assert with_residual(maps().half()).dtype == torch.float16
