"""The conclusions of chapter 02, each with its control."""

from functools import cache

import pytest
import torch
from chapter_code import definitions
from torch import Tensor
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models import Elman
from attnlib.training.language import token_stream
from recipes import recall


@cache
def stretches() -> Tensor:
    """Other reviews than the chapter's, in stretches of 50 tokens."""
    stream = token_stream(reviews("imdb").test.texts[200:300], pretrained.tokenizer())
    return stream[: len(stream) // 50 * 50].view(-1, 50)


@torch.no_grad()
def nats(name: str, k: int) -> Tensor:
    """Loss of the last token of each stretch, from the k tokens before it."""
    net, ids = pretrained.load(name), stretches()
    logits = net.hidden(ids[:, 49 - k : 49])[:, -1] @ net.W_U
    return F.cross_entropy(logits, ids[:, 49], reduction="none")


def test_elman_uses_more_than_four_tokens_and_hardly_more_than_a_dozen() -> None:
    everything = nats("elman", 49)
    lost = {k: (nats("elman", k) - everything) for k in (2, 4, 16)}
    assert lost[2].mean() > lost[4].mean() + 0.05
    assert lost[4].mean() > 2 * lost[4].std() / len(everything) ** 0.5  # nothing more: 0
    assert abs(lost[16].mean()) < 0.01


def test_training_shortened_the_typical_gradient_and_the_mean_hides_it() -> None:
    """Against each of three untrained networks."""
    reach = definitions("02_rnn", "reach").reach
    trained = reach(pretrained.load("elman"), stretches())
    typical = trained.median(0).values
    for seed in range(3):
        torch.manual_seed(seed)
        before = reach(Elman(4096, 128, 128), stretches()).median(0).values
        assert 0.8 < typical[1] / before[1] < 1.2  # it is not that all gradients got shorter
        for k in (5, 10, 20, 40):
            assert 0 < typical[k] < 0.5 * before[k]
    far = trained[:, 40]
    assert far.mean() > 3 * typical[40]
    assert far.topk(len(far) // 100).values.sum() > 0.3 * far.sum()  # a few stretches make it


def test_reach_is_the_gradient_of_the_state() -> None:
    reach = definitions("02_rnn", "reach").reach
    torch.manual_seed(0)
    net, ids = Elman(50, 6, 5), torch.randint(50, (2, 7))
    u = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    u /= u.norm(dim=-1, keepdim=True)
    x = net.W_E[ids].detach()
    for row in range(2):
        jacobian = torch.autograd.functional.jacobian(
            lambda one, u=u[row]: u @ net.states(one[None])[0, -1], x[row]
        )
        expected = jacobian.norm(dim=-1).flip(0)
        torch.testing.assert_close(reach(net, ids)[row], expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("width", [32, 256])
def test_the_ridge_moves_with_the_inputs_and_not_with_the_width(width: int) -> None:
    chapter = definitions("02_rnn", "reach", "with_gain")

    def ratio(gain: float, inputs: float) -> float:
        curve = chapter.reach(chapter.with_gain(gain, inputs, width), stretches()[:64]).mean(0)
        return float(curve[40] / curve[1])

    assert ratio(1.5, 1.0) < 1 < ratio(2.0, 1.0)
    assert ratio(1.0, 0.1) < 1 < ratio(1.2, 0.1)


def test_the_chapters_recall_task_is_the_recipes() -> None:
    chapter = definitions("02_rnn", "SYMBOLS", "recall")
    for one, other in zip(chapter.recall(8, 5), recall.recall(8, 5), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.long)])
def test_a_start_on_the_ridge_crosses_the_gap_and_no_gate_is_needed(seed: int) -> None:
    """From starts that the chapter does not use."""
    names = ("SYMBOLS", "gap", "patient_lstm", "ridge_elman", "cells", "keeps", "answer_loss")
    keeps = definitions("02_rnn", *names, "accuracy").keeps
    assert keeps("Elman, on the ridge", 15, seed) > 0.95
    assert keeps("GRU", 30, seed) > 0.95
    for control in ("Elman", "LSTM"):  # the same cells from the framework's start
        assert keeps(control, 15, seed) < 0.5
    assert keeps("LSTM, gate open", 15, seed) > 0.95


def test_the_loop_that_waits_and_its_control_make_the_same_calls() -> None:
    """So a difference of their times could only come from the waiting."""
    chapter = definitions("02_rnn", "queue", "no_queue")
    rows, weights = torch.randn(128, 1, 64), torch.randn(64, 64) / 8
    calls = {}
    for name in ("queue", "no_queue"):
        with torch.profiler.profile() as profile:
            getattr(chapter, name)(rows, weights)
        found = {event.key: event.count for event in profile.key_averages()}
        calls[name] = {key: found[key] for key in ("aten::matmul", "aten::tanh")}
    assert calls["queue"] == calls["no_queue"]
    assert calls["queue"]["aten::tanh"] == 128
