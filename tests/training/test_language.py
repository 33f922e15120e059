"""What a language model is trained on and judged by: windows of a stream, and their loss."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Given, gpt, stream_of
from torch.nn import functional as F

from attnlib.tokenizers import BPE
from attnlib.training import bits_per_byte, evaluate, next_token_loss, token_stream, windows

# --- the loss ---------------------------------------------------------------------------------


def given_model(seed, batch, length, width=5, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    hidden = torch.randn(batch, length, width, generator=g) * scale
    window = torch.randint(11, (batch, length + 1), generator=g)
    return Given(hidden, torch.randn(width, 11, generator=g)), window


def both_losses(model, window, dtype=torch.float32, factor=1.0):
    """(loss, gradients) of ours and of the framework."""
    found = []
    for loss in (
        next_token_loss(model, window, dtype),
        F.cross_entropy((model.states @ model.W_U).flatten(0, 1), window[:, 1:].flatten()),
    ):
        model.zero_grad()
        (factor * loss).backward()
        found.append((loss.detach(), model.states.grad.clone(), model.W_U.grad.clone()))
    return found


@pytest.mark.claim(18)
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999),
    batch=st.integers(1, 5),
    length=st.sampled_from([1, 3, 64, 200]),  # several blocks of 256 rows, and a last small one
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    factor=st.sampled_from([1.0, -2.5]),
)
def test_loss_equals_the_frameworks(seed, batch, length, scale, factor):
    model, window = given_model(seed, batch, length, scale=scale)
    ours, theirs = both_losses(model, window, factor=factor)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_loss_in_bfloat16_is_near():
    model, window = given_model(0, 8, 100, width=32, scale=0.5)
    ours, theirs = both_losses(model, window, torch.bfloat16)
    assert ours[0].dtype == torch.float32
    assert abs(ours[0] - theirs[0]) < 0.02
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() < 0.02 * b.norm()


def test_loss_survives_huge_logits():
    model, window = given_model(5, 2, 4, scale=1e5)
    loss = next_token_loss(model, window)
    loss.backward()
    assert loss.isfinite()
    assert model.states.grad.isfinite().all()


def test_loss_without_gradients():
    """Under no_grad the value is the same, and nothing is kept."""
    model, window = given_model(6, 3, 7)
    with torch.no_grad():
        value = next_token_loss(model, window)
    assert not value.requires_grad
    assert value.item() == pytest.approx(next_token_loss(model, window).item(), abs=1e-6)


# --- data -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    n=st.integers(2, 60),
    length=st.integers(1, 59),
    batch_size=st.integers(1, 5),
    seed=st.integers(0, 99),
    step=st.integers(0, 9999),
)
def test_windows_are_stretches_of_the_stream(n, length, batch_size, seed, step):
    stream = torch.arange(n)
    if length >= n:
        with pytest.raises(ValueError, match=f"{n} tokens has no window of {length}"):
            windows(stream, length, batch_size)
        return
    batch = windows(stream, length, batch_size, seed)
    found = batch(step)
    assert found.shape == (batch_size, length + 1)
    assert (found.diff() == 1).all()
    assert torch.equal(found, windows(stream, length, batch_size, seed)(step))


def test_windows_cover_the_stream_from_end_to_end():
    batch = windows(torch.arange(20), length=4, batch_size=8, seed=1)
    starts = torch.cat([batch(step)[:, 0] for step in range(50)])
    assert set(starts.tolist()) == set(range(16))
    assert not torch.equal(batch(0), batch(1))
    assert not torch.equal(batch(0), windows(torch.arange(20), 4, 8, seed=2)(0))


def test_drawing_leaves_the_callers_random_state_alone():
    before = torch.get_rng_state()
    windows(torch.arange(20), 4, 8)(3)
    assert torch.equal(before, torch.get_rng_state())


def test_token_stream_ends_every_text():
    bpe = BPE.train(["low login low"], vocab_size=259, progress=False)
    end = bpe.special_tokens["<|endoftext|>"]
    stream = token_stream(["low", "", "login"], bpe)
    assert stream.tolist() == [*bpe.encode("low"), end, end, *bpe.encode("login"), end]
    assert stream.dtype == token_stream([], bpe).dtype == torch.int64
    assert token_stream(["<|endoftext|>"], bpe).tolist().count(end) == 1  # a text cannot end itself


# --- evaluation -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(n=st.integers(7, 90), batch_size=st.integers(1, 5), seed=st.integers(0, 99))
def test_evaluate_equals_a_plain_loop(n, batch_size, seed):
    model, stream = gpt(seed=seed).train(), stream_of(n, seed)
    found = evaluate(model, stream, length=6, batch_size=batch_size)
    assert model.training
    model.eval()
    losses = []
    for start in range(0, n - 6, 6):
        log_p = model(stream[None, start : start + 6]).log_softmax(-1)[0]
        losses += [-log_p[t, stream[start + t + 1]].item() for t in range(6)]
    assert found == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_evaluate_restores_the_mode_and_learns_nothing():
    model = gpt().eval()
    evaluate(model, stream_of(50), length=6)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(ValueError, match="6 tokens has no window of 6"):
        evaluate(model, stream_of(6), length=6)


def test_bits_per_byte():
    assert bits_per_byte(math.log(256), tokens=10, n_bytes=10) == pytest.approx(8)
    assert bits_per_byte(2 * math.log(2), tokens=100, n_bytes=400) == pytest.approx(0.5)
    uniform = math.log(4096)  # halving the tokens of a text halves its bits
    assert bits_per_byte(uniform, 50, 400) == pytest.approx(bits_per_byte(uniform, 100, 400) / 2)
