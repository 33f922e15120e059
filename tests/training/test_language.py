"""What a language model is trained on and judged by: windows of a stream, and their loss."""

import math

import pytest
import torch
from devices import DEVICES
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Given, config_of, gpt, ids_of, model_of, stream_of
from torch.nn import functional as F

from attnlib.tokenizers import BPE
from attnlib.training import bits_per_byte, evaluate, next_token_loss, token_stream, windows

# --- the loss ---------------------------------------------------------------------------------


@pytest.mark.claim(18)
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999),
    batch=st.integers(1, 5),
    length=st.sampled_from([1, 3, 64, 300]),  # several blocks of 512 rows, and a last small one
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    factor=st.sampled_from([1.0, -2.5]),
)
def test_loss_equals_the_frameworks(seed, batch, length, scale, factor):
    g = torch.Generator().manual_seed(seed)
    states = torch.randn(batch, length, 5, generator=g) * scale
    model = Given(states, torch.randn(5, 11, generator=g))
    window = torch.randint(11, (batch, length + 1), generator=g)
    results = []
    for loss in (
        next_token_loss(model, window),
        F.cross_entropy((model.states @ model.W_U).flatten(0, 1), window[:, 1:].flatten()),
    ):
        model.zero_grad()
        (factor * loss).backward()
        results.append((loss.detach(), model.states.grad.clone(), model.W_U.grad.clone()))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)


def test_loss_is_that_of_the_logits_with_their_bias_and_soft_cap():
    model, ids = model_of(config_of(bias=("head",), logit_cap=2.0)), ids_of(0, 3, 8)
    expected = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss = next_token_loss(model, ids)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)


def test_loss_survives_huge_logits():
    model = Given(1e5 * torch.randn(2, 4, 5), torch.randn(5, 11))
    loss = next_token_loss(model, torch.randint(11, (2, 5)))
    loss.backward()
    assert loss.isfinite()
    assert model.states.grad.isfinite().all()


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
    rows = batch(step)
    assert rows.shape == (batch_size, length + 1)
    assert (rows.diff() == 1).all()
    assert torch.equal(rows, windows(stream, length, batch_size, seed)(step))


def test_windows_cover_the_stream_from_end_to_end():
    batch = windows(torch.arange(20), length=4, batch_size=8, seed=1)
    starts = torch.cat([batch(step)[:, 0] for step in range(50)])
    assert set(starts.tolist()) == set(range(16))
    assert not torch.equal(batch(0), batch(1))
    assert not torch.equal(batch(0), windows(torch.arange(20), 4, 8, seed=2)(0))


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_windows_are_drawn_everywhere(device):
    stream, before = torch.arange(20), torch.get_rng_state()
    rows = windows(stream.to(device), 4, 8)(3)
    assert rows.device.type == device
    assert torch.equal(rows.cpu(), windows(stream, 4, 8)(3))
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
    held_out = evaluate(model, stream, length=6, batch_size=batch_size)
    assert model.training
    model.eval()
    losses = []
    for start in range(0, n - 6, 6):
        log_p = model(stream[None, start : start + 6]).log_softmax(-1)[0]
        losses += [-log_p[t, stream[start + t + 1]].item() for t in range(6)]
    assert held_out == pytest.approx(sum(losses) / len(losses), abs=1e-5)


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
