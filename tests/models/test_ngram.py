"""Counting, the zero-layer transformer and the neural n-gram: what they see and what they learn."""

import math
from collections import Counter, defaultdict

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models.ngram import CountModel, NeuralNgram, ZeroLayer
from attnlib.training.language import token_stream

D = 5
streams = st.lists(st.integers(0, D - 1), max_size=40).map(lambda ids: torch.tensor(ids).long())
smoothings = st.sampled_from(["witten-bell", "absolute", 1, 0.1, 1e-3])


def by_hand(stream: list[int], context: list[int], n: int, smoothing: float | str) -> list[float]:
    """The smoothed distribution with dictionaries, straight from the definition."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for m in range(n):
        for t in range(m, len(stream)):
            counts[tuple(stream[t - m : t])][stream[t]] += 1

    def discount(m: int) -> float:
        often = Counter(k for c, after in counts.items() if len(c) == m for k in after.values())
        return max(often[1], 1) / (max(often[1], 1) + 2 * often[2])

    def p(c: tuple[int, ...], w: int) -> float:
        after = counts[c]
        shorter = p(c[1:], w) if c else 1 / D
        if not after.total():
            return shorter
        if smoothing == "absolute":
            delta = discount(len(c))
            kept = max(after[w] - delta, 0)
            return (kept + delta * len(after) * shorter) / after.total()
        return (after[w] + len(after) * shorter) / (after.total() + len(after))

    c = tuple(context[max(0, len(context) - n + 1) :])
    if isinstance(smoothing, str):
        return [p(c, w) for w in range(D)]
    total = counts[c].total() + smoothing * D
    return [(counts[c][w] + smoothing) / total for w in range(D)]


# --- counts -----------------------------------------------------------------------------------


@settings(deadline=None)
@given(streams.filter(len), st.integers(1, 4), smoothings, streams)
@example(torch.tensor([0, 1, 0, 1, 0, 2]), 2, "witten-bell", torch.tensor([0]))
def test_count_model_equals_the_definition(stream, n, smoothing, context):
    found = CountModel(n, D, smoothing).fit(stream).probabilities(context)
    if not isinstance(smoothing, str) and len(context) < n - 1 <= len(stream):
        n = len(context) + 1  # the longest context there is
    expected = by_hand(stream.tolist(), context.tolist(), min(n, len(stream)), smoothing)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_losses_tell_how_often_the_context_was_seen():
    model = CountModel(3, D).fit(torch.tensor([0, 1, 2, 0, 1, 3, 0, 1]))
    ids = torch.tensor([4, 0, 1, 2, 0])
    nats, seen = model.losses(ids)
    assert nats.shape == seen.shape == (1, 4)
    assert seen.tolist() == [[0, 0, 2, 1]]  # of "", "4 0", "0 1", "1 2"; the last 0 1 ends the text
    shorter = model.variant(2, "witten-bell").losses(ids)[0]
    assert torch.equal(nats[seen == 0], shorter[seen == 0])


@settings(deadline=None)
@given(streams, st.integers(1, 5), smoothings, st.lists(st.integers(0, D - 1), min_size=2))
def test_loss_agrees_with_the_probabilities(stream, n, smoothing, ids):
    model, ids = CountModel(n, D, smoothing).fit(stream), torch.tensor(ids)
    one_by_one = [-model.probabilities(ids[:t])[ids[t]].log() for t in range(1, len(ids))]
    expected = torch.stack(one_by_one)
    torch.testing.assert_close(model.losses(ids)[0], expected[None])
    torch.testing.assert_close(model.losses(torch.stack([ids, ids]))[0], expected.expand(2, -1))


@settings(deadline=None, max_examples=30)
@given(streams.filter(len), st.integers(1, 5), smoothings)
def test_a_variant_is_what_a_new_fit_gives(stream, n, smoothing):
    before = stream.clone()
    big = CountModel(5, D).fit(stream)
    small = CountModel(n, D, smoothing).fit(stream)
    assert torch.equal(big.variant(n, smoothing).probabilities(stream), small.probabilities(stream))
    assert torch.equal(stream, before)


@settings(deadline=None)
@given(streams.filter(lambda s: len(s) > 4), streams.filter(lambda s: len(s) > 4))
def test_unseen_shares_by_hand(stream, other):
    shares = CountModel(4, D).fit(stream).unseen(other)
    for n, share in enumerate(shares, 1):
        known = {tuple(stream[i : i + n].tolist()) for i in range(len(stream) - n + 1)}
        asked = [tuple(other[i : i + n].tolist()) for i in range(len(other) - n + 1)]
        assert share == pytest.approx(sum(gram not in known for gram in asked) / len(asked))
    assert len(shares) == 4
    assert shares == sorted(shares)
    assert CountModel(4, D).fit(stream).unseen(stream) == [0, 0, 0, 0]


def test_bad_count_models():
    with pytest.raises(ValueError, match="n ≥ 1"):
        CountModel(0, D)
    for smoothing in (0, "kneser-ney"):
        with pytest.raises(ValueError, match="'witten-bell', 'absolute' or a number > 0"):
            CountModel(2, D, smoothing)
    with pytest.raises(ValueError, match="up to n = 2"):
        CountModel(2, D).variant(3, 1)
    for call in (CountModel(2, D).fit, CountModel(2, D).probabilities):
        with pytest.raises(ValueError, match=r"0 … 4, got 1 … 5"):
            call(torch.tensor([1, 5]))
    with pytest.raises(ValueError, match="nothing to predict"):
        CountModel(2, D).losses(torch.tensor([1]))


def test_before_any_text_all_tokens_are_alike():
    nats, _ = CountModel(3, D).losses(torch.tensor([1, 2, 3]))
    assert nats[0].tolist() == pytest.approx([math.log(D)] * 2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("smoothing", ["witten-bell", "absolute", 0.1])
def test_counting_happens_on_the_cpu_wherever_the_ids_are(device, smoothing):
    stream = torch.randint(D, (200,), generator=torch.Generator().manual_seed(0))

    def results(ids):
        model = CountModel(3, D, smoothing).fit(ids)
        unseen = torch.tensor(model.unseen(ids[:9]), device="cpu")
        return [model.probabilities(ids[:2]), *model.losses(ids), unseen]

    expected = results(stream)
    with nothing_made_elsewhere():
        found = results(stream.to(device))
    for here, there in zip(found, expected, strict=True):
        assert here.device.type == "cpu"
        assert torch.equal(here, there)


# --- the zero-layer transformer ---------------------------------------------------------------


@pytest.mark.claim(34)
@settings(deadline=None, max_examples=20)
@given(st.integers(2, 30), st.integers(1, 8), st.integers(0, 99))
def test_zero_layer_is_a_table_of_low_rank(vocab_size, d_model, seed):
    torch.manual_seed(seed)
    model = ZeroLayer(vocab_size, d_model)
    ids = torch.randint(vocab_size, (2, 7))
    table = model.W_E @ model.W_U
    torch.testing.assert_close(model(ids), table[ids], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(ids), model.hidden(ids) @ model.W_U)
    assert torch.linalg.matrix_rank(table.detach().double(), tol=1e-4) <= d_model


@pytest.mark.claim(34)
def test_trained_zero_layer_agrees_with_the_bigram_counts():
    texts = reviews("imdb").train.texts[:2_000]
    stream = token_stream(texts, pretrained.tokenizer())
    counts, model = CountModel(2, 4096).fit(stream), pretrained.load("zero-layer")
    common = torch.bincount(stream, minlength=4096).topk(40).indices
    bigram = torch.stack([counts.probabilities(token[None]) for token in common])
    unigram = CountModel(1, 4096).fit(stream).probabilities(stream[:0])
    learned = model(common[:, None])[:, 0].double().log_softmax(-1)
    to_bigram = F.kl_div(learned, bigram, reduction="none").sum(-1)
    to_unigram = F.kl_div(unigram.log().expand(40, -1), bigram, reduction="none").sum(-1)
    # (the mean row closes three quarters of the way from the unigram to the bigram counts)
    assert to_bigram.mean() < 0.25 * to_unigram.mean()
    assert (to_bigram < to_unigram).all()


# --- the neural n-gram ------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.integers(1, 9), st.integers(0, 99))
def test_neural_ngram_equals_its_definition(n, length, seed):
    """Position by position: concatenate, multiply, tanh; `before` where there is no token."""
    torch.manual_seed(seed)
    model = NeuralNgram(D, n, d_model=3, d_hidden=4)
    torch.nn.init.uniform_(model.b)
    ids = torch.randint(D, (1, length))
    torch.testing.assert_close(model(ids), model.hidden(ids) @ model.W_U)
    for t, found in enumerate(model(ids)[0]):
        inputs = [model.W_E[ids[0, t - i]] if t >= i else model.before for i in range(n - 1)]
        hidden = torch.tanh(torch.cat(inputs) @ model.W_H.reshape(-1, 4) + model.b)
        torch.testing.assert_close(found, hidden @ model.W_U, atol=1e-5, rtol=1e-5)


@pytest.mark.claim(35)
@settings(deadline=None, max_examples=40)
@given(st.integers(2, 6), st.integers(0, 9), st.integers(0, 99))
def test_a_token_outside_the_window_is_invisible(n, where, seed):
    torch.manual_seed(seed)
    model, ids = NeuralNgram(D, n, d_model=3, d_hidden=4), torch.randint(D, (1, 10))
    other = ids.clone()
    other[0, where] = (ids[0, where] + 1) % D
    moved = (model(ids) != model(other)).any(-1)[0]
    inside = (torch.arange(10) >= where) & (torch.arange(10) < where + n - 1)
    assert torch.equal(moved, inside)  # outside the window: bit for bit the same


def test_a_window_of_no_tokens():
    with pytest.raises(ValueError, match="n ≥ 2 .* got n = 1"):
        NeuralNgram(D, 1, 3, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("build", [lambda: ZeroLayer(D, 3), lambda: NeuralNgram(D, 4, 3, 8)])
def test_on_any_device_in_any_float(build, device, dtype):
    torch.manual_seed(0)
    model, ids = build(), torch.randint(D, (2, 7))
    expected = model(ids)
    logits = model.to(device, dtype)(ids.to(device))
    assert (logits.device.type, logits.dtype) == (device, dtype)
    atol = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(logits.float().cpu(), expected, atol=atol, rtol=0)
    with nothing_made_elsewhere():
        assert torch.equal(model(ids.to(device)), logits)
