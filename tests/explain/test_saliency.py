"""Gradients and leaving out, against independent computations."""

import pytest
import torch
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.saliency import (
    aggregate,
    gradient,
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
)
from attnlib.models import AttentionClassifier, TransformerClassifier
from attnlib.training.classification import predict

quick = settings(max_examples=40)
IDS = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 0, 0, 0]])
MASK = IDS != 0


def model_of(encoder="lstm", attention="additive"):
    torch.manual_seed(0)
    return AttentionClassifier(20, 6, 5, encoder, attention).double().eval()


def scorers():
    for encoder in ("lstm", "average", "cnn"):
        model = model_of(encoder)
        yield model.scorer(MASK), model.embed(IDS).detach()
    torch.manual_seed(0)
    model = TransformerClassifier(20, 8, 2, 2, 16, 8).double().eval()
    yield model.scorer(MASK), model.embed(IDS).detach()


def grads(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


# --- the gradient -----------------------------------------------------------------------------


def differences(score, x, step=1e-6):
    """(g(x + step e) − g(x − step e)) / 2 step for every token and dimension e."""
    found = torch.zeros_like(x)
    for t in range(x.shape[1]):
        for j in range(x.shape[2]):
            move = torch.zeros_like(x)
            move[:, t, j] = step
            with torch.no_grad():
                found[:, t, j] = (score(x + move) - score(x - move)) / (2 * step)
    return found


@pytest.mark.claim(24)
def test_the_gradient_equals_finite_differences():
    for score, x in scorers():
        found = gradient(score, x)
        torch.testing.assert_close(found, differences(score, x), atol=1e-8, rtol=1e-5)
        assert found.abs().max() > 1e-3


@pytest.mark.claim(24)
def test_the_detached_gradient_equals_differences_at_fixed_attention():
    model = model_of("lstm")
    x, alpha = model.embed(IDS).detach(), model.classify(IDS).attention.detach()
    found = gradient(model.scorer(MASK, detach=True), x)
    torch.testing.assert_close(
        found, differences(model.scorer(MASK, weights=alpha), x), atol=1e-8, rtol=1e-5
    )


def test_padding_has_no_gradient():
    for score, x in list(scorers())[:-1]:
        assert (gradient(score, x)[~MASK] == 0).all()


def test_a_single_text_needs_no_batch_and_nothing_is_left_behind():
    W = grads(4, 3)
    x = grads(4, 3, seed=1).requires_grad_()
    found = gradient(lambda y: (y * W).sum(), x)
    torch.testing.assert_close(found, W)
    assert x.grad is None
    with torch.no_grad():
        torch.testing.assert_close(gradient(lambda y: (y * W).sum(), x), W)


def test_a_score_that_is_no_number_per_row_is_refused():
    with pytest.raises(ValueError, match="one number per row"):
        gradient(lambda x: x.sum(-1), torch.ones(2, 3, 4))


def test_captum_finds_the_same():
    captum = pytest.importorskip("captum.attr")
    for score, x in scorers():
        theirs = captum.Saliency(score).attribute(x.clone().requires_grad_(), abs=False)
        torch.testing.assert_close(gradient(score, x), theirs)
        theirs = captum.InputXGradient(score).attribute(x.clone().requires_grad_()).sum(-1)
        torch.testing.assert_close(gradient_times_input(score, x), theirs.detach())
    for encoder in ("lstm", "average", "cnn"):
        model = model_of(encoder)
        x, baseline = model.embed(IDS[:1]).detach(), grads(1, 4, 6, seed=3) / 10

        def score(x, model=model):  # captum makes one batch of all steps
            return model.scorer(torch.ones(x.shape[:2], dtype=torch.bool))(x)

        theirs = captum.IntegratedGradients(score).attribute(
            x, baseline, n_steps=20, method="riemann_middle"
        )
        ours = integrated_gradients(score, x, baseline, steps=20)
        torch.testing.assert_close(ours, theirs.sum(-1), atol=1e-8, rtol=1e-6)


# --- one number per token ---------------------------------------------------------------------


@pytest.mark.claim(25)
def test_the_three_aggregations_are_their_formulas():
    G = grads(2, 3, 5)
    for b in range(2):
        for t in range(3):
            row = G[b, t].tolist()
            assert aggregate(G, "avg")[b, t].item() == pytest.approx(sum(row) / 5)
            assert aggregate(G, "l1")[b, t].item() == pytest.approx(sum(map(abs, row)) / 5)
            assert aggregate(G, "l2")[b, t].item() == pytest.approx(sum(g * g for g in row) ** 0.5)


@pytest.mark.claim(25)
@quick
@given(seed=st.integers(0, 999), d=st.integers(1, 9))
def test_l2_is_at_most_l1(seed, d):
    G = grads(4, d, seed=seed)
    average, one, two = (aggregate(G, how) for how in ("avg", "l1", "l2"))
    near = 1 + 1e-12
    assert (two <= d * one * near).all(), "‖∇‖₂ ≤ ‖∇‖₁"
    assert (d**0.5 * one <= two * near).all(), "‖∇‖₁ ≤ √d ‖∇‖₂"
    assert (average.abs() <= one * near).all()
    torch.testing.assert_close(aggregate(-3 * G, "avg"), -3 * average)
    for how, value in (("l1", one), ("l2", two)):
        torch.testing.assert_close(aggregate(-3 * G, how), 3 * value)
    sparse = torch.zeros(1, d, dtype=torch.float64)
    sparse[0, 0] = -2.0  # one dimension: both norms are its size
    assert aggregate(sparse, "l2").item() == pytest.approx(d * aggregate(sparse, "l1").item())


def test_masks_and_wrong_names():
    assert (aggregate(grads(3, 4, 5), "l2", MASK)[~MASK] == 0).all()
    with pytest.raises(ValueError, match="how must be one of"):
        aggregate(grads(2, 2), "max")


def test_padding_counts_nowhere():
    """Also where a score has a gradient on it."""
    x = grads(3, 4, 6)
    straight = lambda x: (x**2).sum((-2, -1))  # noqa: E731
    for found in (
        gradient_times_input(straight, x, MASK),
        integrated_gradients(straight, x, mask=MASK),
    ):
        assert (found[~MASK] == 0).all()
        assert (found[MASK] > 0).all()


def test_gradient_times_input_of_a_linear_score_is_exact():
    w, x = grads(6), grads(2, 4, 6, seed=1)
    score = lambda x: (x @ w).sum(-1)  # noqa: E731
    torch.testing.assert_close(gradient_times_input(score, x), x @ w)


def test_integrated_gradients_of_a_square_by_hand():
    """Σ (x² − x₀²), for any number of steps: the midpoint is exact where the gradient is linear."""
    x, start = grads(2, 4, 6), grads(6, seed=1)
    square = lambda x: (x**2).sum((-2, -1))  # noqa: E731
    for steps in (1, 2, 7):
        found = integrated_gradients(square, x, start, steps)
        torch.testing.assert_close(found, (x**2 - start**2).sum(-1))
        torch.testing.assert_close(integrated_gradients(square, x, steps=steps), (x**2).sum(-1))
    with pytest.raises(ValueError, match="steps"):
        integrated_gradients(square, x, steps=0)


# --- leaving out ------------------------------------------------------------------------------


@each("encoder", ["lstm", "average", "cnn"])
@each("batch_size", [2, 512])
def test_leave_one_out_deletes_one_token(encoder, batch_size):
    model = model_of(encoder)
    found = leave_one_out(predict(model), IDS, MASK, batch_size)
    for i, row in enumerate(IDS.tolist()):
        real = [token for token in row if token]
        for t in range(len(row)):
            expected = 0.0
            if t < len(real) > 1:
                y, shorter = (
                    predict(model)(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
                    for ids in (real, real[:t] + real[t + 1 :])
                )
                expected = (y - shorter).item()
            assert found[i, t].item() == pytest.approx(expected, abs=1e-6)


def test_leave_one_out_keeps_the_precision_of_the_model_and_pads_no_more_than_it_must():
    model, widths = model_of(), []

    def recorded(ids, mask):
        assert torch.equal(mask, ids != 0)
        widths.append((len(ids), ids.shape[1]))
        return predict(model)(ids, mask)

    found = leave_one_out(recorded, IDS, MASK, batch_size=1)
    assert found.dtype == torch.float64
    assert widths[:3] == [(1, 4), (1, 2), (1, 1)]
    assert widths[3:] == [(1, 1)] * 2 + [(1, 3)] * 4, "texts of like length, the shortest first"
    empty = torch.zeros(1, 4, dtype=torch.int64)
    leave_one_out(recorded, empty, empty != 0)
    assert widths[-1] == (1, 1), "a text without a word is read as one that is padding"
