"""Decoding against exhaustive search, χ² tests and the samplers of `transformers`."""

import itertools
from functools import partial

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.decoding import beam_search, beam_steps, generate, greedy, next_distribution
from attnlib.models import (
    Elman,
    KVCache,
    NeuralNgram,
    Recurrent,
    Transformer,
    TransformerConfig,
    ZeroLayer,
)

POSITIONS = ("learned", "sinusoidal", "rotary", "none")


def tiny(seed=0, vocabulary=11, max_len=16, **settings):
    """A small transformer with sharp predictions, so that an error moves the argmax."""
    torch.manual_seed(seed)
    settings = {"layers": 2, "heads": 2, "d_ff": 16, "bias": True, **settings}
    model = Transformer(TransformerConfig(vocabulary, d_model=8, max_len=max_len, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model.eval()


LANGUAGE_MODELS = {
    "zero-layer": lambda: ZeroLayer(11, 4),
    "ngram": lambda: NeuralNgram(11, 3, 4, 8),
    "elman": lambda: Elman(11, 4, 8),
    "lstm": lambda: Recurrent(11, 4, 8, "lstm"),
    "transformer": lambda: tiny(),
    "of today": lambda: tiny(
        positions="rotary", kv_heads=1, window=(4, None), bias=("head",), logit_cap=3.0
    ),
}


def language_model(name):
    """The same random weights each time."""
    torch.manual_seed(1)
    return LANGUAGE_MODELS[name]()


def even(vocabulary):
    """A model of pairs whose distributions have several likely tokens."""
    torch.manual_seed(2)
    model = ZeroLayer(vocabulary, 4)
    with torch.no_grad():
        model.W_E.normal_()
        model.W_U.normal_(std=0.3)
    return model


def ids(*numbers):
    return torch.tensor(numbers)


def log_probability(model, text, start):
    """Of a text given its first `start` tokens, from one uncached pass."""
    with torch.no_grad():
        log_p = model(text[None])[0].cpu().double().log_softmax(-1)
    return float(log_p[range(start - 1, len(text) - 1), text[start:].cpu()].sum())


# --- the distribution -------------------------------------------------------------------------

logits_of = st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=30, unique=True)


@pytest.mark.claim(20)
@given(logits_of, st.floats(0.1, 5), st.integers(1, 30), st.floats(0.05, 1))
def test_same_distribution_as_transformers(logits, temperature, top_k, top_p):
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    top_k = min(top_k, len(logits))
    scores = torch.tensor([logits], dtype=torch.float64)
    for cut in (
        TemperatureLogitsWarper(temperature),
        TopKLogitsWarper(top_k),
        TopPLogitsWarper(top_p),
    ):
        scores = cut(None, scores)
    ours = next_distribution(torch.tensor([logits], dtype=torch.float64), temperature, top_k, top_p)
    cumulative = ours[0].sort(descending=True).values.cumsum(0)
    if (cumulative - top_p).abs().min() > 1e-6:  # on the edge, rounding decides either way
        torch.testing.assert_close(ours, scores.softmax(-1), atol=1e-9, rtol=1e-6)


@pytest.mark.claim(21)
def test_temperature_between_argmax_and_uniform():
    logits = torch.tensor([1.0, 3.0, 2.0, -4.0])
    coldest, cold, hot = (next_distribution(logits, t) for t in (1e-38, 1e-3, 1e6))
    assert torch.equal(coldest, torch.tensor([0.0, 1.0, 0.0, 0.0]))  # nothing overflows
    assert torch.equal(cold, coldest)
    torch.testing.assert_close(hot, torch.full((4,), 0.25), atol=1e-5, rtol=0)
    torch.testing.assert_close(next_distribution(logits, 2.0), (logits / 2).softmax(-1))
    entropy = [
        -torch.special.xlogy(p, p).sum()
        for p in (next_distribution(logits, t) for t in (0.2, 0.5, 1.0, 2.0, 5.0))
    ]
    assert entropy == sorted(entropy)


@pytest.mark.claim(22)
@given(st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=8), st.floats(0.05, 0.99))
def test_nucleus_is_the_smallest_set_that_reaches_the_mass(logits, top_p):
    p = torch.tensor(logits, dtype=torch.float64).softmax(-1)
    kept = next_distribution(torch.tensor(logits, dtype=torch.float64), top_p=top_p) > 0
    assert p[kept].sum() >= top_p - 1e-9
    for size in range(int(kept.sum())):  # no smaller set does, whichever tokens it takes
        best = max(p[list(chosen)].sum() for chosen in itertools.combinations(range(len(p)), size))
        assert best < top_p + 1e-9


def test_whole_nucleus_keeps_every_token():
    logits = torch.linspace(0, -30, 1_000)
    assert (next_distribution(logits, top_p=1.0) > 0).all()


@pytest.mark.parametrize(
    ("settings", "count"), [({"top_k": 2}, 2), ({"top_k": 3}, 3), ({"top_p": 0.5}, 2)]
)
def test_among_equals_the_smaller_ids_are_kept_in_every_row_of_a_batch(settings, count):
    """Also where the mass of the nucleus is reached exactly: two of four equals are half."""
    rows = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 9.0, 9.0, 9.0], [9.0, 0.0, 1.0, 1.0]])
    batch = next_distribution(rows, **settings)
    for row, alone in zip(batch, rows, strict=True):
        assert torch.equal(row, next_distribution(alone, **settings))
    assert batch[0].nonzero()[:, 0].tolist() == list(range(count))
    assert batch[1].nonzero()[:, 0].tolist() == list(range(1, count + 1))


@pytest.mark.parametrize("settings", [{}, {"top_k": 300}, {"top_p": 0.9}])
def test_probabilities_of_bfloat16_logits_are_single_precision(settings):
    logits = torch.randn(5_000, generator=torch.Generator().manual_seed(0)).bfloat16()
    p = next_distribution(logits, **settings)
    assert p.dtype == torch.float32
    assert torch.equal(p, next_distribution(logits.float(), **settings))
    assert p.sum().item() == pytest.approx(1, abs=1e-5)


# --- sampling ---------------------------------------------------------------------------------


@pytest.mark.claim(19)
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"top_k": 4}, {"top_p": 0.8}])
def test_samples_follow_the_distribution(settings):
    """χ² of 4,000 first tokens; each prompt draws from a generator of its own."""
    model = even(8)
    with torch.no_grad():
        expected = next_distribution(model(ids(3)[None])[0, -1], **settings)
    texts = generate(model, [ids(3)] * 4_000, 1, seed=11, **settings)
    counts = torch.bincount(torch.stack(texts)[:, 1], minlength=8).double()
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert possible.sum() > 2
    expected = 4_000 * expected.double() / expected.double().sum()
    chi_squared = (counts - expected)[possible].square() / expected[possible]
    degrees = possible.sum() - 1
    assert torch.special.gammaincc(degrees / 2, chi_squared.sum() / 2) > 1e-3


@pytest.mark.parametrize(("u", "end"), [(0.0, 0), (1 - 2**-53, -1)])
def test_the_ends_of_the_range_draw_a_possible_token(u, end, monkeypatch):
    """The smallest random number draws the first token that is kept, the largest the last."""
    model, sums = even(500), []
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(u, dtype=torch.float64))
    for token in range(40):
        with torch.inference_mode():
            p = next_distribution(model(ids(token)[None])[0, -1], top_k=50)
        sums.append(p.double().sum().item())
        drawn = generate(model, ids(token), 1, top_k=50)[-1]
        assert drawn == p.nonzero()[end]
    assert min(sums) < 1 < max(sums)  # float32 does not sum to exactly 1


def test_one_seed_one_text():
    model = tiny()
    first = generate(model, ids(1), 12, seed=7)
    assert torch.equal(first, generate(model, ids(1), 12, seed=7))
    assert any(not torch.equal(first, generate(model, ids(1), 12, seed=s)) for s in range(8, 11))
    before = torch.get_rng_state()
    unseeded = [tuple(generate(model, ids(1), 12, temperature=5).tolist()) for _ in range(5)]
    assert len(set(unseeded)) > 1
    assert torch.equal(torch.get_rng_state(), before)  # the reader's own generator is left alone


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_prompts_together_as_alone(name):
    model = language_model(name)
    prompts = [ids(1, 2, 3, 0), ids(5), ids(6, 7)]  # the first ends with the stop
    together = generate(model, prompts, 9, seed=3, stop=0)
    for i, (prompt, text) in enumerate(zip(prompts, together, strict=True)):
        assert torch.equal(text, generate(model, prompt, 9, seed=3 + i, stop=0))
        assert torch.equal(text[: len(prompt)], prompt)
    for prompt, text in zip(prompts, greedy(model, prompts, 9), strict=True):
        assert torch.equal(text, greedy(model, prompt, 9))
        assert len(text) == len(prompt) + 9


def test_a_stop_inside_the_prompt_ends_nothing():
    model, lengths = tiny(), set()
    for stop in range(model.config.vocab_size):
        prompt = ids(1, stop, 1)
        new = greedy(model, prompt, 4)[3:].tolist()
        new = new[: new.index(stop) + 1] if stop in new else new
        for stops in (stop, {stop, -1}):
            assert greedy(model, prompt, 4, stop=stops).tolist() == prompt.tolist() + new
        lengths.add(len(new))
    assert 4 in lengths  # else this test says nothing


def test_nothing_to_do():
    assert generate(tiny(), ids(3, 1), 0).tolist() == [3, 1]
    assert beam_search(tiny(), ids(3, 1), 0, 2)[0].ids.tolist() == [3, 1]


def test_dropout_is_off_and_the_mode_is_kept():
    model = tiny(dropout=0.9)
    expected = greedy(model, ids(1), 8)
    model.train()
    assert torch.equal(greedy(model, ids(1), 8), expected)
    assert model.training
    beam_search(model, ids(1), 3, 2)
    assert model.training


# --- the cache --------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", POSITIONS)
@settings(max_examples=30)
@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=4), batch=st.integers(1, 3))
def test_a_text_read_in_pieces_as_in_one(positions, cuts, batch):
    model = tiny(positions=positions, max_len=20)
    text = torch.randint(11, (batch, sum(cuts)), generator=torch.Generator().manual_seed(1))
    cache = KVCache(model.config.layers)
    with torch.no_grad():
        parts = [model(part, cache=cache) for part in text.split(cuts, 1)]
        torch.testing.assert_close(torch.cat(parts, 1), model(text), atol=1e-4, rtol=1e-4)
    assert (cache.length, cache.batch) == (sum(cuts), batch)


@pytest.mark.parametrize("positions", POSITIONS)
def test_cached_decoding_is_uncached_decoding(positions):
    """Token for token, also past the longest input of the model."""
    model = tiny(positions=positions, max_len=10)
    prompts = [ids(1, 2, 3), ids(4), torch.arange(11)]
    for write in (greedy, partial(generate, temperature=0.8, top_k=8, top_p=0.9, seed=2)):
        slow = write(model, prompts, 14, cached=False)
        for text, expected in zip(write(model, prompts, 14), slow, strict=True):
            assert torch.equal(text, expected)


@pytest.mark.claim(19)
def test_greedy_takes_the_argmax_after_what_fits_into_the_context():
    model = tiny(max_len=6)
    text = greedy(model, ids(1, 2), 12)
    for length in range(2, 14):
        seen = text[max(0, length - 6) : length]
        with torch.no_grad():
            assert text[length] == model(seen[None])[0, -1].argmax()


def test_every_token_is_read_once(monkeypatch):
    model, read = tiny(), []
    real = model.hidden
    monkeypatch.setattr(
        model, "hidden", lambda new, **kept: (read.append(tuple(new.shape)), real(new, **kept))[1]
    )
    greedy(model, ids(1, 2, 3), 5)
    assert read == [(1, 3), (1, 1), (1, 1), (1, 1), (1, 1)]
    read.clear()
    greedy(model, ids(1, 2, 3), 3, cached=False)
    assert read == [(1, 3), (1, 4), (1, 5)]


def test_a_cache_needs_a_causal_model_without_padding():
    with pytest.raises(ValueError, match="a cache needs a causal model"):
        tiny(causal=False)(ids(1, 2)[None], cache=KVCache(2))
    with pytest.raises(ValueError, match="without padding mask"):
        tiny()(ids(1, 2)[None], torch.tensor([[True, False]]), KVCache(2))


# --- beams ------------------------------------------------------------------------------------


@pytest.mark.claim(23)
def test_all_beams_find_the_most_probable_text():
    """With as many beams as there are texts, the search is exhaustive."""
    model, prompt = tiny(vocabulary=4), ids(1, 3)
    texts = [torch.tensor([1, 3, *rest]) for rest in itertools.product(range(4), repeat=3)]
    scores = {tuple(text.tolist()): log_probability(model, text, 2) for text in texts}
    found = beam_search(model, prompt, 3, beams=64)
    assert len(found) == 64
    best = sorted(scores, key=scores.get, reverse=True)
    assert [tuple(beam.ids.tolist()) for beam in found[:5]] == best[:5]
    for beam in found:
        assert beam.log_probability == pytest.approx(scores[tuple(beam.ids.tolist())], abs=1e-4)


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_beam_search_keeps_its_books(name):
    model = language_model(name)
    steps = beam_steps(model, ids(1, 2), 4, 3)
    assert [len(beams) for beams in steps] == [1, 3, 3, 3, 3]
    for before, after in itertools.pairwise(steps):
        values = [beam.log_probability for beam in after]
        assert values == sorted(values, reverse=True)
        for beam in after:
            assert torch.equal(beam.ids[:-1], before[beam.parent].ids)
    for beam in steps[-1]:
        assert beam.log_probability == pytest.approx(log_probability(model, beam.ids, 2), abs=1e-4)
    assert len({tuple(beam.ids.tolist()) for beam in steps[-1]}) == 3


def test_ended_beams_wait_and_are_not_continued():
    model = tiny(vocabulary=3)
    steps = beam_steps(model, ids(1), 6, 4, stop=0)
    ended = [beam for beam in steps[-1] if 0 in beam.ids[1:]]
    assert ended  # else this test says nothing
    for beam in ended:
        assert beam.ids[1:].tolist().index(0) == len(beam.ids) - 2
        assert beam.log_probability == pytest.approx(log_probability(model, beam.ids, 1), abs=1e-4)
    every = [beam.log_probability for beam in steps[-1]]
    assert every == sorted(every, reverse=True)


def test_search_ends_when_every_beam_has():
    model = ZeroLayer(3, 2)
    with torch.no_grad():
        model.W_U.zero_()
        model.W_E.fill_(1.0)
        model.W_U[:, 0] = 20.0  # the end is certain
    assert len(beam_steps(model, ids(1), 50, 1, stop=0)) == 2
    assert len(beam_steps(model, ids(1), 50, 3, stop=0)) == 2, "the best has ended"
    assert len(beam_steps(model, ids(1), 50, 3, stop=[0, -1])) == 2
    assert len(beam_search(model, ids(1), 50, 1, stop=0)[0].ids) == 2
    assert len(beam_search(model, ids(1), 50, 1)[0].ids) == 51


def test_more_beams_than_texts():
    assert len(beam_search(tiny(vocabulary=3), ids(1), 1, 10)) == 3


# --- devices and floats -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_on_any_device_in_any_float(name, device, dtype):
    """Prompts may lie on the CPU or beside the model; what is written lies where its prompt is."""
    model = language_model(name).to(device, dtype)
    rounding = 1e-4 if dtype == torch.float32 else 0.1
    prompts = [ids(1, 2, 3), ids(5).to(device)]
    likeliest = greedy(model, prompts, 9)
    drawn = generate(model, prompts, 9, top_k=3, seed=4)
    searched = [beam_search(model, prompt, 9, 3)[0] for prompt in prompts]
    for i, prompt in enumerate(prompts):
        start = len(prompt)
        for text in (likeliest[i], drawn[i], searched[i].ids):
            assert text.device == prompt.device
            assert text.dtype == torch.int64
            assert torch.equal(text[:start], prompt)
            assert len(text) == start + 9
        assert below(model, likeliest[i].to(device), start, 1) < rounding
        assert below(model, drawn[i].to(device), start, 3) < rounding
        expected = log_probability(model, searched[i].ids.to(device), start)
        assert searched[i].log_probability == pytest.approx(expected, abs=9 * rounding)


def below(model, text, start, k):
    """The most that the logit of a token after the first `start` lies below the k-th best there."""
    with torch.no_grad():
        logits = model(text[None])[0, start - 1 : -1].float()
    written = logits.gather(-1, text[start:, None])[:, 0]
    return (logits.topk(k).values[:, -1] - written).max()


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_tensors_are_made_where_model_and_prompt_are(name):
    model, prompts = language_model(name), [ids(1, 2, 3), ids(5)]

    def written():
        return [
            *greedy(model, prompts, 16),  # beyond the longest input
            *generate(model, prompts, 9, 0.7, 8, 0.9, seed=3, cached=False),
            *(beam.ids for beam in beam_search(model, prompts[0], 6, 3, stop=4)),
        ]

    expected = written()
    with nothing_made_elsewhere():
        found = written()
    for here, there in zip(found, expected, strict=True):
        assert torch.equal(here, there)


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, "use greedy"),
        ({"temperature": float("inf")}, "finite"),
        ({"top_k": 12}, "1 … 11, the vocabulary; got 12"),
        ({"top_p": 0.0}, "above 0 and at most 1; got 0.0"),
        ({"max_new_tokens": -1}, "at least 0, got -1"),
        ({"ids": torch.tensor([], dtype=torch.int64)}, "give the id of <|endoftext|>"),
        ({"ids": torch.ones(2, 3, dtype=torch.int64)}, "several are a list of them; got .2, 3."),
        ({"ids": []}, "no prompt"),
        ({"model": tiny(head=False)}, "without an unembedding"),
    ],
)
def test_what_cannot_be_done_is_refused(settings, message):
    arguments = {"model": tiny(), "ids": ids(1), "max_new_tokens": 2, **settings}
    with pytest.raises(ValueError, match=message):
        generate(**arguments)


def test_no_beam_is_refused():
    with pytest.raises(ValueError, match="at least one beam, got 0"):
        beam_search(tiny(), ids(1), 2, 0)
