"""Gradients and leaving out, against independent computations."""

import pytest
import torch

from attnlib.explain.saliency import (
    gradient,
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
)
from attnlib.models import AttentionClassifier, TransformerClassifier
from attnlib.training.classification import predict

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


@pytest.mark.parametrize("encoder", ["lstm", "average", "cnn"])
@pytest.mark.parametrize("batch_size", [2, 512])
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
        widths.append(ids.shape[1])
        return predict(model)(ids, mask)

    assert leave_one_out(recorded, IDS, MASK, batch_size=1).dtype == torch.float64
    assert widths == [4, 2, 1, *(1, 1), *(3, 3, 3, 3)], "texts of like length, the shortest first"
    empty = torch.zeros(1, 4, dtype=torch.int64)
    leave_one_out(recorded, empty, empty != 0)
    assert widths[-1] == 1, "a text without a word is read as one that is padding"
