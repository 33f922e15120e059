"""Many maps to one: every scheme, rollout and flow, against independent computations."""

import itertools

import pytest
import torch
from erasing import falls
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.aggregation import (
    aggregate_maps,
    flow,
    reduce_map,
    rollout,
    schemes,
    with_residual,
)
from attnlib.models import TransformerClassifier
from attnlib.training.classification import Examples, fit_classifier, predict

quick = settings(max_examples=30)


def maps(layers=2, heads=3, size=4, seed=0, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    shape = (layers, heads, size, size)
    return (sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1)


def ones(*shape):
    return torch.ones(shape, dtype=torch.float64)


@pytest.mark.claim(29)
@quick
@given(seed=st.integers(0, 999), layers=st.integers(1, 4))
def test_means_products_and_single_maps_keep_rows_that_sum_to_1(seed, layers):
    A = maps(layers, seed=seed)
    for layer, head in itertools.product(("mean", "product", layers - 1), ("mean", 1)):
        torch.testing.assert_close(aggregate_maps(A, layer, head).sum(-1), ones(4))


@pytest.mark.claim(29)
def test_combinations_are_their_formulas():
    A = maps()
    mean = (A[:, 0] + A[:, 1] + A[:, 2]) / 3
    torch.testing.assert_close(aggregate_maps(A), (mean[0] + mean[1]) / 2)
    torch.testing.assert_close(aggregate_maps(A, "product"), mean[1] @ mean[0])
    torch.testing.assert_close(aggregate_maps(A, 1, 2), A[1, 2])
    largest = [[[max(A[layer, :, t, u]) for u in range(4)] for t in range(4)] for layer in (0, 1)]
    torch.testing.assert_close(aggregate_maps(A, 1, "max"), torch.tensor(largest[1]).double())
    torch.testing.assert_close(
        aggregate_maps(A, "mean", "max"), torch.tensor(largest).double().mean(0)
    )
    for t, u in itertools.product(range(4), repeat=2):
        assert aggregate_maps(A, "max", "max")[t, u] == A[:, :, t, u].max()
    batch = torch.stack([A, maps(seed=1)])
    torch.testing.assert_close(
        aggregate_maps(batch, "product", "max")[0], aggregate_maps(A, "product", "max")
    )


@pytest.mark.claim(29)
def test_a_map_is_reduced_in_four_ways():
    M = maps(1, 1)[0, 0]
    assert torch.equal(reduce_map(M, "from_first"), M[0])
    assert torch.equal(reduce_map(M, "to_first"), M[:, 0])
    for t in range(4):
        assert reduce_map(M, "column_mean")[t].item() == pytest.approx(M[:, t].sum().item() / 4)
        assert reduce_map(M, "column_max")[t] == M[:, t].max()
    mask = torch.tensor([True, True, False, False])
    for how in ("from_first", "to_first", "column_mean", "column_max"):
        small = reduce_map(M[:2, :2], how)
        assert torch.equal(reduce_map(M, how, mask), torch.cat([small, small.new_zeros(2)]))
        both = torch.stack([mask, torch.tensor([True, True, True, False])])
        alone = torch.stack([reduce_map(M, how, one) for one in both])
        torch.testing.assert_close(reduce_map(M.expand(2, 4, 4), how, both), alone)


@pytest.mark.claim(29)
def test_every_scheme_runs():
    A = maps(2, 3)
    found = {
        choice: reduce_map(aggregate_maps(A, *choice[:2]), choice[2]) for choice in schemes(2, 3)
    }
    assert len(found) == (3 + 2) * (2 + 3) * 4
    assert all(v.shape == (4,) and v.isfinite().all() for v in found.values())
    published = [c for c in schemes(12, 12) if "max" not in c[:2]]
    assert len(published) == 728  # Mylonas et al. (2023) have no maximum over layers or heads


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


@pytest.mark.claim(29)
@settings(max_examples=15)
@given(seed=st.integers(0, 999), layers=st.integers(1, 3))
def test_flow_is_at_most_the_capacity_and_at_least_every_single_way(seed, layers):
    A = maps(layers, 2, seed=seed, sharpness=2.0)
    W = with_residual(A)
    for destination in (0, 3):
        found = flow(A, destination)
        near = 1e-5
        assert (found <= W[0].sum(0) + near).all(), "more than the pipes that leave an input"
        assert (found <= W[-1, destination].sum() + near).all(), "more than what arrives"
        ways = itertools.product(range(4), repeat=layers)  # token at the bottom, …
        for path in ways:
            path = (*path, destination)
            pipe = min(W[layer, path[layer + 1], path[layer]] for layer in range(layers))
            assert found[path[0]] >= pipe - near


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


def test_flow_and_rollout_see_a_way_that_the_last_layer_hides():
    A = torch.zeros(2, 1, 3, 3, dtype=torch.float64)
    A[0, 0] = torch.tensor([[1, 0, 0], [0, 0, 1], [0, 0, 1]])  # token 1 reads token 2
    A[1, 0] = torch.tensor([[0, 1, 0], [0, 1, 0], [0, 0, 1]])  # then token 0 reads token 1
    assert aggregate_maps(A, 1)[0].tolist() == [0, 1, 0]
    assert rollout(A)[-1, 0, 2].item() == pytest.approx(0.25)
    assert flow(A)[2].item() == pytest.approx(0.5)


# --- ranked by faithfulness -------------------------------------------------------------------


@pytest.mark.claim(29)
@pytest.mark.slow
def test_schemes_of_a_trained_model_are_ranked_by_what_deletion_does():
    """The word that decides is the first token with a vote: the scheme that finds it wins."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 20, (256, 8), generator=generator)
    labels = torch.randint(2, (256,), generator=generator)
    ids[torch.arange(256), torch.randint(8, (256,), generator=generator)] = 3 + labels
    data = Examples(ids, ids > 0, labels.float())
    torch.manual_seed(0)
    model = TransformerClassifier(20, 16, layers=2, heads=2, d_ff=32, max_len=8)
    fit_classifier(model, data, 25, lr=1e-2, progress=False)
    A = model.maps(ids[:64])
    scores = {}
    for layer, head, how in schemes(2, 2):
        vector = reduce_map(aggregate_maps(A, layer, head), how)[:, 1:]
        scores[layer, head, how] = falls(predict(model), ids[:64], ids[:64] > 0, vector).mean()
    ranked = sorted(scores, key=scores.__getitem__)
    assert len(ranked) == (3 + 2) * (2 + 2) * 4
    found = {choice: scores[choice] for choice in (ranked[0], ranked[-1])}
    assert found[ranked[-1]] > 0.3 > 0.1 > found[ranked[0]], "the choice of a scheme decides"


def test_wrong_names_and_shapes_say_what_is_expected():
    for call in (
        lambda: aggregate_maps(maps(), "layers"),
        lambda: aggregate_maps(maps(), heads="heads"),
        lambda: reduce_map(maps(), "how"),
    ):
        with pytest.raises(ValueError, match="^(layers|heads|how) must be one of .*got '\\1'"):
            call()
    for shape in ((1, 1, 1, 5), (3, 3), (0, 2, 3, 3), (2, 0, 3, 3), (2, 2, 0, 0)):
        for call in (rollout, aggregate_maps):
            with pytest.raises(ValueError, match="self-attention"):
                call(torch.ones(shape))
    assert rollout(torch.ones(0, 2, 2, 3, 3)).shape == (0, 2, 3, 3), "no text is no error"
    assert with_residual(maps().half()).dtype == torch.float16
