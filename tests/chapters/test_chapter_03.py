"""The theses of chapter 03, each with its control, on starts and numbers beside the chapter's."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from chapter_code import definitions
from torch import Tensor

from attnlib.attention import additive_attention, attention
from attnlib.data import Pairs, pairs_of, spell

NUMBERS = ("rng", "draw", "shown", "drawn", "short", "long", "train", "test", "en", "de")
MEASURES = ("learn", "exact", "alignment", "tens", "ones", "swapped")
RUNGS = ("Even", "Diagonal", "frozen")
FRENCH = ("french_train", "fr", "reader", "thousands", "p_mille", "states_of", "without")
FRENCH += ("plain", "average", "kept", "used", "changes")
SEED = 4  # the chapter trains from 0, and tells of 1 to 3


@cache
def chapter() -> SimpleNamespace:
    """The chapter's numbers, its training, its measures and its reader of French."""
    return definitions("03_bahdanau", *NUMBERS, *MEASURES, *RUNGS, *FRENCH)


@cache
def translator(kind: str | None, rung: str = "", seed: int = SEED, steps: int = 300) -> Any:
    """A model from a start that the chapter does not use."""
    known = chapter()
    build = {"build": getattr(known, rung)} if rung else {}
    return known.learn(kind, known.train, known.de, seed=seed, steps=steps, **build)


@cache
def of_length(words: int, count: int = 150) -> Pairs:
    """Numbers with so many English words that neither training nor the chapter's tests hold."""
    known = chapter()
    taken = set(known.drawn) | set(known.shown)
    numbers = dict.fromkeys(known.draw(known.rng) for _ in range(9_000))
    fresh = [n for n in numbers if n not in taken and len(spell(n)) == words]
    return pairs_of(fresh[:count], "de")


def right(model: Any, words: int) -> float:
    known = chapter()
    return float(known.exact(model, of_length(words), known.de)[words])


def lowest(values: Tensor) -> float:
    """The lower end of a 95 % interval of the mean, over numbers."""
    return float(values.mean() - 1.96 * values.std() / len(values) ** 0.5)


def test_no_long_number_and_no_shown_one_is_trained_on() -> None:
    known = chapter()
    assert max(len(spell(n)) for n in known.train.numbers) == 9
    assert not set(known.train.numbers) & set(known.long.numbers + known.test.numbers + known.shown)
    assert len(known.train) == 8_427


@pytest.mark.slow
def test_attention_holds_past_the_lengths_of_its_training_and_a_fixed_context_does_not() -> None:
    looks, remembers = translator("additive"), translator(None)
    assert right(looks, 9) > 0.9 > 0.4 > right(remembers, 9)
    assert right(looks, 12) > 0.8 > 0.2 > right(remembers, 12)
    assert right(looks, 14) < right(looks, 9)


@pytest.mark.slow
@pytest.mark.long
def test_a_fixed_context_trained_twelve_times_as_long_still_fades_past_its_lengths() -> None:
    remembers = translator(None, steps=3_600)
    assert right(remembers, 9) > 0.8
    assert right(remembers, 12) < 0.75
    assert right(remembers, 14) < 0.4


@pytest.mark.slow
def test_the_swaps_are_found_under_the_right_names_and_only_after_training() -> None:
    known = chapter()
    torch.manual_seed(SEED)
    untrained = type(translator("additive"))(len(known.en), len(known.de), d_model=128)
    found = {}
    for name, model in (("trained", translator("additive")), ("untrained", untrained)):
        traces = [known.alignment(model, n, "de", known.de) for n in known.test.numbers[150:300]]
        found[name] = known.swapped(traces), known.swapped(traces, -1)
    assert found["trained"][0] > 0.9
    assert found["trained"][1] < 0.1
    assert max(found["untrained"]) < 0.1


def test_a_long_query_sharpens_the_dot_product_and_levels_the_additive_score() -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        s, h, W, U = (torch.randn(size).double() for size in ((1, 6), (5, 6), (6, 4), (6, 4)))
        v = torch.randn(4).double()
        largest = [
            [additive_attention(x * s, h, h, W, U, v)[1].max() for x in (1, 10_000)],
            [attention(x * s @ W, h @ U, h)[1].max() for x in (1, 10_000)],
        ]
        (additive, levelled), (dot, sharpened) = largest
        assert levelled < 0.21 < additive
        assert dot < sharpened
        assert sharpened > 0.99
        bound = v.abs().sum()
        assert (torch.tanh(1e6 * s @ W + h @ U) @ v).abs().max() <= bound + 1e-9


def test_even_weights_are_even_and_the_diagonal_goes_one_state_on() -> None:
    known = chapter()
    torch.manual_seed(0)
    sources = known.en.batch([("seven",), ("seven", "hundred", "one")])
    even = known.Even(len(known.en), len(known.de), d_model=8)
    encoded = even.encoder_output(sources)
    context, weights = even.attend(even.initial_state(encoded), encoded)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0, 0], [0.25] * 4]))
    torch.testing.assert_close(context[0], encoded.states[0, :2].mean(0))
    diagonal = known.Diagonal(len(known.en), len(known.de), d_model=8)
    _, looks = diagonal.teacher_forcing(encoded, torch.ones(2, 5, dtype=torch.int64))
    assert looks.argmax(-1).tolist() == [[0, 1, 1, 1, 1], [0, 1, 2, 3, 3]]
    assert (looks.sum(-1) == 1).all()


@pytest.mark.slow
def test_a_context_must_select_and_its_score_need_not_be_learned() -> None:
    """Nine words: one place at a time, or a score that never learns, against even weights."""
    frozen = translator("dot", "frozen")
    torch.manual_seed(SEED)
    begun = chapter().frozen(len(chapter().en), len(chapter().de), d_model=128, attention="dot")
    assert torch.equal(begun.W, frozen.W)
    assert torch.equal(begun.U, frozen.U)
    assert right(frozen, 9) > 0.9
    assert right(frozen, 12) > 0.8
    assert right(translator("additive", "Diagonal"), 9) > 0.8
    assert right(translator("additive", "Even"), 9) < 0.4
    assert right(translator(None), 9) < 0.4


@pytest.mark.slow
def test_states_beside_thousand_know_of_it() -> None:
    """On numbers that the chapter does not look at; the controls are two neutral contexts."""
    known = chapter()
    found = list(known.thousands(known.test.numbers[150:450]))
    elsewhere = [number for number, row, place in found if row.argmax() != place]
    assert len(elsewhere) > 30
    each = [known.changes(number, i) for i, number in enumerate(elsewhere)]
    usual, cut, swap, *neutral = (torch.tensor([one[name] for one in each]) for name in each[0])
    assert usual.mean() > 0.95
    assert lowest(usual - cut) > 0
    for less in (swap, *neutral):
        assert lowest(cut - less) > 0.1
