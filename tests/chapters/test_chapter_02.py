"""The theses of chapter 02, each with its control, on other texts and seeds than the chapter's."""

import re
from functools import cache

import nbformat
import pytest
import torch
from chapter_code import definitions
from chapter_rules import CHAPTERS, ROOT
from intervals import interval
from torch import Tensor
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.decoding import generate
from attnlib.models import Elman, Recurrent
from attnlib.training import fit
from attnlib.training.language import token_stream
from recipes import recall


@cache
def stretches(every: int = 65) -> Tensor:
    """Other reviews than the chapter's: 65 tokens, begun anew after so many."""
    stream = token_stream(reviews("imdb").test.texts[200:300], pretrained.tokenizer())
    return stream.unfold(0, 65, every)


@torch.no_grad()
def test_the_state_is_all_of_the_past_and_holds_a_dozen_tokens_of_it() -> None:
    """60 pairs of beginnings; the control is the ending after its own beginning."""
    elman, ids = pretrained.load("elman"), stretches()
    own, other, ending = ids[:60, :32], ids[60:120, :32], ids[:60, 32:49]

    def after(state: Tensor) -> Tensor:
        return (elman.states(elman.W_E[ending], state) @ elman.W_U).softmax(-1)

    swapped = after(elman.hidden(other)[:, -1])
    whole = elman(torch.cat([other, ending], 1)[:20])[:, 32:].softmax(-1)
    torch.testing.assert_close(swapped[:20], whole, atol=1e-5, rtol=0)
    moved = (swapped - after(elman.hidden(own)[:, -1])).abs().sum(-1) / 2
    assert interval(moved[:, 0])[0] > 0.1  # the state matters,
    assert interval(moved[:, 16])[1] < 0.02  # and what it handed over fades
    everything = nats("elman", 64)
    lost = {k: interval(nats("elman", k) - everything) for k in (2, 4, 16)}
    assert lost[2][0] > lost[4][1]
    assert lost[4][0] > 0.01  # a hundredth of a nat would be called an effect
    assert -0.01 < lost[16][0] < lost[16][1] < 0.01


@torch.no_grad()
def nats(name: str, k: int) -> Tensor:
    """Loss of the last token of each stretch, from the k tokens before it."""
    net, ids = pretrained.load(name), stretches(every=20)
    logits = net.hidden(ids[:, 64 - k : 64])[:, -1] @ net.W_U
    return F.cross_entropy(logits, ids[:, 64], reduction="none")


@pytest.mark.parametrize(("width", "seed"), [(32, 1), (128, 1), (128, 2), (256, 0)])
def test_the_gradient_vanishes_at_gain_1_and_explodes_at_gain_2(width: int, seed: int) -> None:
    """From the loss; the control, other inputs, moves the border."""
    chapter = definitions("02_rnn", "reach", "with_gain")

    def ratio(gain: float, inputs: float) -> float:
        net = chapter.with_gain(gain, inputs, width, seed)
        curve = chapter.reach(net, stretches()[:24, :51]).mean(0)
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

        def loss(vectors: Tensor, right: Tensor = ids[row, -1]) -> Tensor:
            return F.cross_entropy(net.states(vectors[None])[0, -1] @ net.W_U, right)

        expected = torch.autograd.functional.jacobian(loss, x[row]).norm(dim=-1).flip(0)
        torch.testing.assert_close(reach(net, ids)[row], expected, atol=1e-6, rtol=1e-4)


def test_recall_first_measures_training_time_and_then_width() -> None:
    """In every seed; a width is judged at its best rate, and the wide one's lead at any rate."""
    share = {
        int(width): {rate: torch.tensor(by_seed) for rate, by_seed in by_rate.items()}
        for width, by_rate in pretrained.card("recall")["share"].items()
    }
    best = {
        d: max(runs.values(), key=lambda c: float(c[:, -1].mean())) for d, runs in share.items()
    }
    assert float((best[128] - best[32])[:, 1].mean().abs()) < 0.04  # after 250 steps
    assert 0.935 < best[128][:, -1].min() < best[128][:, -1].max() < 0.995
    assert 2 / 3 - 0.01 < best[32][:, -1].min() < best[32][:, -1].max() < 5 / 6 + 0.01
    assert max(curves[:, -1].max() for curves in share[8].values()) < 1 / 3
    for rate in share[8]:  # the order of the widths does not hang on the rate
        ends = [share[width][rate][:, -1].mean() for width in (8, 32, 128)]
        assert ends == sorted(ends)


@pytest.mark.long
@pytest.mark.slow
def test_with_a_schedule_of_250_steps_128_numbers_recall_hardly_more_than_32() -> None:
    """Each at its best rate. The control: at one slow rate for both, the wide network leads."""
    ids, answers = recall.recall(8, 10**6, 2_000)

    def share(width: int, lr: float, seed: int) -> float:
        torch.manual_seed(seed)
        net = Elman(16, 16, width)
        fit(
            net,
            lambda step: recall.recall(8, step + 100_000 * seed),
            recall.loss,
            steps=250,
            lr=lr,
            progress=False,
        )
        with torch.no_grad():
            best = (net.hidden(ids)[:, -1] @ net.W_U).argmax(-1)
        return float((best == answers).double().mean())

    wide, narrow, slow = (
        sum(share(width, lr, seed) for seed in range(30, 34)) / 4
        for width, lr in ((128, 0.002), (32, 0.01), (32, 0.002))
    )
    assert -0.03 < wide - narrow < 0.08
    assert wide > slow + 0.04


def test_the_chapters_recall_task_is_the_recipes() -> None:
    chapter = definitions("02_rnn", "SYMBOLS", "recall")
    for here, there in zip(chapter.recall(8, 5), recall.recall(8, 5), strict=True):
        assert torch.equal(here, there)


@torch.no_grad()
def test_one_unit_says_whether_a_bracket_is_open_and_forgets_it() -> None:
    """Other reviews; the controls are the other 127 units and an untrained network."""
    chapter = definitions("02_rnn", "bpe", "open_for", "bracketed")
    texts = reviews("imdb").test.texts[1300:1550]
    elman = pretrained.load("elman")
    states, since = chapter.bracketed(elman, texts)

    def correlations(states: Tensor, marked: Tensor) -> Tensor:
        z = (states - states.mean(0)) / states.std(0)
        is_open = marked.float()
        return (z * ((is_open - is_open.mean()) / is_open.std())[:, None]).mean(0).abs()

    trained = correlations(states, since >= 1)
    assert trained[46] > 0.5 > 0.25 > trained[torch.arange(128) != 46].max()
    torch.manual_seed(0)
    untrained, open_since = chapter.bracketed(Elman(4096, 128, 128), texts[:80])
    assert correlations(untrained, open_since >= 1).max() < 0.1
    on = {k: interval((states[since == k, 46] > 0).double()) for k in (-1, 1, 10, 20, 24)}
    assert on[-1][1] < 0.05
    assert on[1][0] > 0.97
    assert on[20][1] < on[1][0]
    assert 0.3 < sum(on[20]) / 2 < 0.8

    # a quotation counts as well, and nothing else does
    rows = [chapter.bpe.tokens(chapter.bpe.encode(text)[:300]) for text in texts]
    quoted = torch.cat([quoted_for(row) for row in rows])
    outside = since == -1
    assert interval((states[outside & (quoted == 5), 46] > 0).double())[0] > 0.95
    assert (states[outside & (quoted == -1), 46] > 0).double().mean() < 0.02
    either = correlations(states, (since >= 1) | (quoted >= 1))
    assert either[46] > trained[46] + 0.1
    assert either[torch.arange(128) != 46].max() < 0.3

    closing = [i for i in range(4096) if ")" in chapter.bpe.tokens([i])[0]]

    def moved(unit: int) -> float:
        p = []
        for value in (-1.0, 1.0):
            changed = states[:500].clone()
            changed[:, unit] = value
            p.append(elman.unembed(changed).softmax(-1)[:, closing].sum(-1).mean())
        return float(p[1] - p[0])

    assert moved(46) > 0.01
    assert max(abs(moved(unit)) for unit in (0, 23, 88, 70)) < 0.005


def quoted_for(tokens: list[str]) -> Tensor:
    """Tokens since a quotation was opened by a mark after a space: 0 at the mark, -1 outside."""
    count, counts = -1, []
    for token in tokens:
        if '"' in token:
            count = 0 if token == ' "' else -1
        elif count >= 0:
            count += 1
        counts.append(count)
    return torch.tensor(counts)


def test_how_long_a_bracket_is_open_is_counted_from_its_token() -> None:
    chapter = definitions("02_rnn", "bpe", "open_for")
    ids = chapter.bpe.encode("A film (with a dog) and")
    tokens = chapter.bpe.tokens(ids)
    counts = chapter.open_for(ids).tolist()
    first, last = tokens.index(" ("), tokens.index(")")
    assert counts[:first] == [-1] * first
    assert counts[first:last] == list(range(last - first))
    assert set(counts[last:]) == {-1}


@torch.no_grad()
@pytest.mark.claim(36)
@pytest.mark.claim(110)
def test_the_network_on_the_page_is_the_librarys_and_the_frameworks() -> None:
    chapter = definitions("02_rnn", "ElmanNetwork")
    torch.manual_seed(0)
    page, elman = chapter.ElmanNetwork(50, 6, 5), Elman(50, 6, 5)
    elman.b += torch.randn(5)
    weights = {
        "embedding.weight": elman.W_E,
        "input.weight": elman.W_x.T,
        "input.bias": elman.b,
        "recurrent.weight": elman.W_h.T,
        "unembedding.weight": elman.W_U.T,
    }
    page.load_state_dict(weights)
    ids = torch.randint(50, (3, 9))
    logits, states = page(ids)
    torch.testing.assert_close(logits, elman(ids))
    torch.testing.assert_close(states, elman.hidden(ids))
    # a text may be read in two parts, the state handed on
    torch.testing.assert_close(page(ids[:, 4:], states[:, 3])[0], logits[:, 4:])

    framework = torch.nn.RNN(6, 5, batch_first=True)
    framework.load_state_dict(
        {
            "weight_ih_l0": elman.W_x.T,
            "weight_hh_l0": elman.W_h.T,
            "bias_ih_l0": elman.b,
            "bias_hh_l0": torch.zeros(5),
        }
    )
    torch.testing.assert_close(framework(elman.W_E[ids])[0], states)


@torch.no_grad()
@pytest.mark.claim(110)
def test_the_step_of_an_lstm_on_the_page_is_the_frameworks() -> None:
    step = definitions("02_rnn", "lstm_step").lstm_step
    torch.manual_seed(0)
    layer = torch.nn.LSTMCell(4, 7)
    x, h, c = torch.randn(3, 4), torch.randn(3, 7), torch.randn(3, 7)
    torch.testing.assert_close(step(x, h, c, layer), layer(x, (h, c)))


@torch.no_grad()
@pytest.mark.claim(109)
def test_the_network_writes_from_its_state_alone() -> None:
    """As `generate` does, which reads the whole text anew for every token."""
    chapter = definitions("02_rnn", "bpe", "ElmanNetwork", "write")
    elman, bpe = pretrained.load("elman"), chapter.bpe
    page = chapter.ElmanNetwork(4096, 128, 128)
    for ours, stored in (
        (page.embedding.weight, elman.W_E),
        (page.input.weight, elman.W_x.T),
        (page.input.bias, elman.b),
        (page.recurrent.weight, elman.W_h.T),
        (page.unembedding.weight, elman.W_U.T),
    ):
        ours.copy_(stored)
    whole = generate(elman, torch.tensor(bpe.encode("It was")), 20, seed=3)
    assert chapter.write(page, "It was", 20, seed=3) == bpe.decode(whole.tolist())


@pytest.mark.claim(109)
def test_the_running_table_goes_on_from_chapter_01() -> None:
    """The rows of chapter 01 are its own; the losses stand in their order."""

    def rows(chapter: str) -> dict[str, tuple[float, str]]:
        notebook = nbformat.read(CHAPTERS / f"{chapter}.ipynb", as_version=nbformat.NO_CONVERT)
        (cell,) = (cell for cell in notebook.cells if cell.id == "running-table")
        row = r"<tr><td>(.*?)</td><td>(.*?)</td><td[^>]*>(.*?)</td></tr>"
        found = re.findall(row, cell.outputs[0]["data"]["text/html"], re.S)
        return {name: (float(loss), text) for name, loss, text in found}

    here, before = rows("02_rnn"), rows("01_ngram")
    loss, text = here.pop("Elman")
    assert here.items() <= before.items()
    assert len(here) == 3
    assert text.startswith("This film is")
    assert loss == round(pretrained.card("elman")["loss"]["nats_per_token"], 2)
    best, network, pairs = (
        here[name][0] for name in ("best counts, n = 5", "neural 5-gram", "pairs, counted")
    )
    assert best < network < loss < pairs


@pytest.mark.long
@pytest.mark.slow
def test_an_open_forget_gate_or_a_gentle_elman_network_carries_a_symbol() -> None:
    """From a seed that the chapter does not use; the control opens the output gate."""
    names = ("SYMBOLS", "gap", "carried", "lstm", "answer_loss", "accuracy")
    chapter = definitions("02_rnn", *names)

    @torch.no_grad()
    def elman(inputs: float = 1.0, gain: float = 1.0) -> Elman:
        net = Elman(16, 16, 32)
        net.W_E *= inputs
        net.W_h *= gain
        return net

    for bias in (2, 3):
        assert chapter.carried(lambda bias=bias: chapter.lstm("forget", bias), 15, 4) > 0.8
    assert chapter.carried(lambda: elman(0.1, 1.1), 15, 4) > 0.8
    for make in (
        elman,
        lambda: chapter.lstm("forget", 0),
        lambda: chapter.lstm("output", 3),
        lambda: Recurrent(16, 16, 32, "lstm"),
    ):
        assert chapter.carried(make, 15, 4) < 0.5
