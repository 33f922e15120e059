"""The theses of chapter 02, each with its control, on other texts and starts than the chapter's."""

from functools import cache

import pytest
import torch
from chapter_code import definitions
from chapter_rules import ROOT
from intervals import interval
from torch import Tensor
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models import Elman, NeuralNgram, Recurrent
from attnlib.training.language import token_stream
from recipes import recall


@cache
def stretches(every: int = 65) -> Tensor:
    """Other reviews than the chapter's: 65 tokens, begun anew after so many."""
    stream = token_stream(reviews("imdb").test.texts[200:300], pretrained.tokenizer())
    return stream.unfold(0, 65, every)


@torch.no_grad()
def test_the_state_is_all_of_the_past() -> None:
    """60 pairs of beginnings; the control is the ending after its own beginning."""
    elman, ids = pretrained.load("elman"), stretches()
    own, other, ending = ids[:60, :32], ids[60:120, :32], ids[:60, 32:]

    def after(state: Tensor) -> Tensor:
        return (elman.states(elman.W_E[ending], state) @ elman.W_U).softmax(-1)

    swapped = after(elman.hidden(other)[:, -1])
    whole = elman(torch.cat([other, ending], 1))[:, 32:].softmax(-1)
    torch.testing.assert_close(swapped, whole, atol=1e-5, rtol=0)
    moved = (swapped - after(elman.hidden(own)[:, -1])).abs().sum(-1) / 2
    assert interval(moved[:, 0])[0] > 0.1  # the state matters,
    assert interval(moved[:, 16])[1] < 0.02  # and what it handed over fades


@torch.no_grad()
def nats(name: str, k: int) -> Tensor:
    """Loss of the last token of each stretch, from the k tokens before it."""
    net, ids = pretrained.load(name), stretches(every=10)
    logits = net.hidden(ids[:, 64 - k : 64])[:, -1] @ net.W_U
    return F.cross_entropy(logits, ids[:, 64], reduction="none")


def test_elman_uses_more_than_four_tokens_and_hardly_more_than_a_dozen() -> None:
    everything = nats("elman", 64)
    lost = {k: interval(nats("elman", k) - everything) for k in (2, 4, 16)}
    assert lost[2][0] > lost[4][1]
    assert lost[4][0] > 0.01  # a hundredth of a nat would be called an effect
    assert -0.01 < lost[16][0] < lost[16][1] < 0.01


@pytest.mark.parametrize(("width", "start"), [(32, 1), (128, 1), (128, 2), (256, 0)])
def test_the_gradient_vanishes_at_gain_1_and_explodes_at_gain_2(width: int, start: int) -> None:
    """From the loss; the control, other inputs, moves the border."""
    chapter = definitions("02_rnn", "reach", "with_gain")

    def ratio(gain: float, inputs: float) -> float:
        net = chapter.with_gain(gain, inputs, width, start)
        curve = chapter.reach(net, stretches()[:64, :51]).mean(0)
        return float(curve[40] / curve[1])

    assert ratio(1.0, 1.0) < 1e-4
    assert ratio(1.5, 1.0) < 1
    assert ratio(2.0, 1.0) > 10
    assert ratio(1.0, 0.1) < 1 < ratio(1.2, 0.1)
    assert ratio(2.0, 3.0) < 0.1 < 10 < ratio(3.0, 3.0)


def test_the_table_of_gains_in_exercise_2_5_is_the_chapters() -> None:
    row = "| ratio | 3 · 10⁻¹⁶ | 5 · 10⁻⁹ | 6 · 10⁻⁶ | 10⁻³ | 0.2 | 70 | 75,000 |"
    assert row in (ROOT / "solutions/02_rnn/02_rnn.ipynb").read_text("utf-8")
    chapter = definitions("02_rnn", "reach", "with_gain", "gains")
    stream = token_stream(reviews("imdb").test.texts[:20], pretrained.tokenizer())
    text = stream[: 64 * 51].view(64, 51)
    for gain, told in zip(chapter.gains, (3e-16, 5e-9, 6e-6, 1e-3, 0.2, 70, 75e3), strict=True):
        curve = chapter.reach(chapter.with_gain(gain), text).mean(0)
        assert float(curve[40] / curve[1]) == pytest.approx(told, rel=0.2)


def test_in_the_trained_network_the_gradient_fades_over_twenty_tokens() -> None:
    curves = definitions("02_rnn", "reach").reach(pretrained.load("elman"), stretches()[:, :51])
    assert (curves[:, 20] / curves[:, 1]).median() < 1e-3


def test_reach_is_the_gradient_of_the_loss() -> None:
    reach = definitions("02_rnn", "reach").reach
    torch.manual_seed(0)
    net, ids = Elman(50, 6, 5), torch.randint(50, (2, 8))
    x = net.W_E[ids[:, :-1]].detach()
    for row in range(2):

        def loss(one: Tensor, right: Tensor = ids[row, -1]) -> Tensor:
            return F.cross_entropy(net.states(one[None])[0, -1] @ net.W_U, right)

        expected = torch.autograd.functional.jacobian(loss, x[row]).norm(dim=-1).flip(0)
        torch.testing.assert_close(reach(net, ids)[row], expected, atol=1e-6, rtol=1e-4)


def test_recall_first_measures_patience_and_then_width() -> None:
    """In every start; a width is judged at its best rate, and the wide one's lead at any rate."""
    share = {
        int(width): {rate: torch.tensor(starts) for rate, starts in by_rate.items()}
        for width, by_rate in pretrained.card("recall")["share"].items()
    }
    best = {
        d: max(runs.values(), key=lambda c: float(c[:, -1].mean())) for d, runs in share.items()
    }
    assert best[128][:, 1].mean() <= best[32][:, 1].mean()
    assert 0.935 < best[128][:, -1].min() < best[128][:, -1].max() < 0.995
    assert 2 / 3 - 0.01 < best[32][:, -1].min() < best[32][:, -1].max() < 5 / 6 + 0.01
    assert max(curves[:, -1].max() for curves in share[8].values()) < 1 / 3
    for rate in share[8]:  # the order of the widths does not hang on the rate
        ends = [share[width][rate][:, -1].mean() for width in (8, 32, 128)]
        assert ends == sorted(ends)


def test_the_chapters_recall_task_is_the_recipes() -> None:
    chapter = definitions("02_rnn", "SYMBOLS", "recall")
    for one, other in zip(chapter.recall(8, 5), recall.recall(8, 5), strict=True):
        assert torch.equal(one, other)


def test_the_queue_is_as_long_as_the_text() -> None:
    """The control is a network with a window, whose chain is 1 at every length."""
    chain = definitions("02_rnn", "longest_chain").longest_chain
    elman, window = Elman(50, 6, 5), NeuralNgram(50, n=5, d_model=6, d_hidden=5)
    for length in (1, 7, 40):
        ids = torch.randint(50, (2, length))
        assert chain(elman.hidden(ids).grad_fn) == length
        assert chain(window.hidden(ids).grad_fn) == 1


@pytest.mark.long
@pytest.mark.slow
def test_an_open_forget_gate_or_small_inputs_carry_a_symbol() -> None:
    """From a start that the chapter does not use; the control opens another gate of the LSTM."""
    names = ("SYMBOLS", "gap", "open_lstm", "gentle_elman", "cells", "carried")
    chapter = definitions("02_rnn", *names, "answer_loss", "accuracy")

    @torch.no_grad()
    def shows_all() -> Recurrent:
        net = Recurrent(16, 16, 32, "lstm")
        net.rnn.bias_ih_l0[96:] = 3.0  # the last of torch's four is the output gate
        return net

    @torch.no_grad()
    def small_inputs() -> Elman:
        net = Elman(16, 16, 32)
        net.W_E *= 0.1
        return net

    chapter.cells.update({"output gate open": shows_all, "small inputs": small_inputs})
    for name in ("GRU", "LSTM, gate open", "Elman, gentle start", "small inputs"):
        assert chapter.carried(name, 15, 3) > 0.9
    for name in ("Elman", "LSTM", "output gate open"):
        assert chapter.carried(name, 15, 3) < 0.5
