"""Measures of heads against loops written from their definitions, and on planted heads."""

import pytest
import torch

from attnlib.explain import heads
from attnlib.trace import Trace

PLANTED, NULL = (1, 3), 0.5


def random_maps(length, seed, layers=2, count=6):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(layers, count, length, length, generator=generator).softmax(-1)


# --- reading a head -------------------------------------------------------------------------------


def planted_traces(strength, texts=60):
    """Traces in which head 1.3 gives some weight to one source of every second token."""
    for seed in range(texts):
        length = 8 + seed % 7
        A = random_maps(length, seed)
        here = torch.arange(0, length, 2)
        there = (here * 3 + 1) % length
        A[1, 3, here] *= 1 - strength
        A[1, 3, here, there] += strength
        yield Trace(tuple(map(str, range(length))), A), (here, there)


@pytest.mark.claim(27)
def test_a_planted_head_is_found_and_none_where_nothing_is_planted():
    rates = {}
    for strength in (0.1, 0.0):
        hits = [
            heads.on_sources(heads.pointed_at(trace.pattern), *arc)
            for trace, arc in planted_traces(strength)
        ]
        rates[strength] = heads.pooled(hits)
    found = rates[0.1].flatten().topk(2)
    assert divmod(found.indices[0].item(), 6) == PLANTED
    assert found.values[0] > 0.6 > 0.25 > found.values[1]
    assert rates[0.0].max() < 0.25


# --- values by destination, against loops ---------------------------------------------------------


def test_measures_equal_their_loops():
    A = random_maps(7, 0)
    pointed = heads.pointed_at(A)
    here, there = torch.tensor([0, 3, 3, 6]), torch.tensor([2, 3, 1, 0])
    hits = heads.on_sources(pointed, here, there)
    for layer in range(2):
        for head in range(6):
            rows = A[layer, head].tolist()
            best = [max(range(7), key=row.__getitem__) for row in rows]
            assert pointed[layer, head].tolist() == best
            pairs = zip(here.tolist(), there.tolist(), strict=True)
            assert hits[layer, head].tolist() == [best[q] == k for q, k in pairs]


@pytest.mark.parametrize("offset", range(-8, 9))
def test_offsets_equal_their_loop(offset):
    A = random_maps(6, offset + 20)
    hits = heads.at_offset(heads.pointed_at(A), offset)
    inside = [t for t in range(6) if 0 <= t + offset < 6]
    assert hits.shape == (2, 6, len(inside))
    for layer in range(2):
        for head in range(6):
            expected = [A[layer, head, t].argmax().item() == t + offset for t in inside]
            assert hits[layer, head].tolist() == expected


# --- over many texts ------------------------------------------------------------------------------


def test_pooled_is_the_mean_over_all_destinations():
    values = [torch.tensor([[True, False, True], [False] * 3]), torch.tensor([[True], [True]])]
    assert heads.pooled(values).tolist() == pytest.approx([0.75, 0.25])
    assert heads.pooled(iter(values)).tolist() == pytest.approx([0.75, 0.25])
    empty = torch.zeros(2, 0, dtype=torch.bool)
    assert heads.pooled([*values, empty]).tolist() == pytest.approx([0.75, 0.25])


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Texts differ, and the words of a text agree: only whole texts may be drawn."""
    covered, words_only = 0, 0
    for trial in range(200):
        generator = torch.Generator().manual_seed(trial)
        rate = torch.rand(60, generator=generator)
        texts = [(torch.rand(20, generator=generator) < r) for r in rate]
        low, high = heads.interval(texts, draws=300)
        covered += low <= NULL <= high
        if trial < 40:
            low, high = heads.interval([w[None] for text in texts for w in text], draws=300)
            words_only += low <= NULL <= high
    assert 180 <= covered <= 199
    assert words_only < 30


def test_an_interval_is_repeatable_and_grows_with_its_level():
    values = [torch.rand(n, generator=torch.Generator().manual_seed(n)) for n in range(1, 30)]
    wide, narrow = heads.interval(values), heads.interval(values, level=0.5)
    assert wide == heads.interval(iter(values))
    assert wide != heads.interval(values, seed=1)
    assert wide[0] < narrow[0] < heads.pooled(values) < narrow[1] < wide[1]
    with_empty = [torch.zeros(0), *values, torch.zeros(0)]
    assert heads.interval(with_empty) == wide
    with pytest.raises(ValueError, match="no text has a value"):
        heads.interval([torch.zeros(0)])


def test_an_interval_counts_destinations_and_not_texts():
    values = [torch.ones(1)] * 50 + [torch.zeros(50)] * 50
    low, high = heads.interval(values)
    assert low < heads.pooled(values) < high < 0.1


def test_the_commonest_offset():
    arcs = [
        (torch.tensor([3, 5]), torch.tensor([1, 6])),
        (torch.tensor([2, 0]), torch.tensor([0, 3])),
    ]
    assert heads.commonest_offset(arcs) == -2
