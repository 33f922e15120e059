"""The conclusions of chapter 03, each with its control."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from chapter_code import definitions

from attnlib.data import Pairs, pairs_of, spell
from attnlib.decoding import translate

HELPERS = ("rng", "draw", "shown", "drawn", "short", "long", "train", "test", "en", "de", "learn")
MEASURES = ("exact", "alignment", "tens", "ones", "swapped", "EvenLook", "log_probability")
FRENCH = ("french_train", "fr", "reader", "p_of", "sharpest", "nothing", "without")
# beside the three of the chapter, whose own cells assert the same of two scores and even weights
LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in (4, 5)]


@cache
def chapter() -> SimpleNamespace:
    """The chapter's numbers, its training and its measures, and its reader of French."""
    return definitions("03_bahdanau", *HELPERS, *MEASURES, *FRENCH)


@cache
def translator(kind: str | None, seed: int, even: bool = False) -> Any:
    """A model from a start that the chapter does not use."""
    known = chapter()
    build = {"build": known.EvenLook} if even else {}
    return known.learn(kind, known.train, known.de, seed=seed, **build)


def of_length(words: int, count: int) -> Pairs:
    """Numbers with so many English words that neither training nor the chapter's tests hold."""
    known = chapter()
    taken = set(known.drawn) | set(known.shown)
    numbers = dict.fromkeys(known.draw(known.rng) for _ in range(9_000))
    fresh = [n for n in numbers if n not in taken and len(spell(n)) == words]
    return pairs_of(fresh[:count], "de")


def right(model: Any, words: int) -> float:
    known = chapter()
    return float(known.exact(model, of_length(words, 150), known.de)[words])


def test_no_long_number_and_no_shown_one_is_trained_on() -> None:
    known = chapter()
    assert max(len(spell(n)) for n in known.train.numbers) == 9
    assert not set(known.train.numbers) & set(known.long.numbers + known.test.numbers + known.shown)
    assert len(known.train) == 8_427


def test_even_weights_are_even_and_leave_padding_out() -> None:
    known = chapter()
    torch.manual_seed(0)
    model = known.EvenLook(len(known.en), len(known.de), d_model=8)
    encoded = model.encoder_output(known.en.batch([("seven",), ("seven", "hundred", "one")]))
    context, weights = model.attend(model.initial_state(encoded), encoded)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0, 0], [0.25] * 4]))
    torch.testing.assert_close(context[0], encoded.states[0, :2].mean(0))


@pytest.mark.slow
@pytest.mark.claim(37)
@pytest.mark.parametrize("seed", LONG)
def test_looking_helps_if_it_is_learned_and_whichever_way_it_is_scored(seed: int) -> None:
    """Nine words: learned weights of either kind against even ones and one fixed context."""
    for kind in ("additive", "dot"):
        assert right(translator(kind, seed), 9) > 0.9
    assert right(translator("additive", seed, even=True), 9) < 0.4
    assert right(translator(None, seed), 9) < 0.4


@pytest.mark.slow
@pytest.mark.claim(37)
@pytest.mark.parametrize("seed", [4, LONG[1]])
def test_past_the_trained_length_attention_holds_to_twelve_words(seed: int) -> None:
    model = translator("additive", seed)
    assert right(model, 12) > 0.8 > 0.2 > right(translator(None, seed), 12)
    assert right(model, 14) < right(model, 9)


@pytest.mark.slow
@pytest.mark.claim(37)
@pytest.mark.parametrize("seed", LONG)
def test_the_additive_score_finds_the_swaps(seed: int) -> None:
    """And none is found if the rows are named by the token fed in."""
    known = chapter()
    numbers = known.test.numbers[150:300]
    found = {}
    for kind in ("additive", "dot"):
        model = translator(kind, seed)
        traces = [known.alignment(model, n, "de", known.de) for n in numbers]
        found[kind] = known.swapped(traces)
        assert known.swapped(traces, -1) < 0.1
    assert found["additive"] > 0.95
    assert found["additive"] >= found["dot"] - 0.02


@pytest.mark.slow
def test_wrong_translations_are_more_probable_to_the_model_than_right_ones() -> None:
    """So no search could find the right ones; of the right translations it is the other way."""
    known, model = chapter(), translator("additive", 4)
    pairs = of_length(14, 150)
    ids, log_p = translate(model, known.en.batch(pairs.sources))
    written = [known.de.decode(row) for row in ids]
    found = known.log_probability(model, pairs.sources, written)
    torch.testing.assert_close(found, log_p, atol=1e-3, rtol=0)
    more = found > known.log_probability(model, pairs.sources, pairs.targets) + 1e-3
    wrong = torch.tensor([a != b for a, b in zip(written, pairs.targets, strict=True)])
    assert wrong.sum() > 10
    assert more[wrong].float().mean() > 0.5
    assert not more[~wrong].any()
    wider = translate(model, known.en.batch(pairs.sources), beams=4)[0]
    mended = [known.de.decode(row) == t for row, t in zip(wider, pairs.targets, strict=True)]
    assert sum(mended) < (~wrong).sum() + 0.5 * wrong.sum()


@pytest.mark.slow
@pytest.mark.claim(37)
def test_mille_is_written_from_several_states_at_once() -> None:
    """On numbers that the chapter does not look at; the control is a context of zeros."""
    known, found = chapter(), []
    for number in known.test.numbers[150:500]:
        t = known.alignment(known.reader, number, "fr", known.fr)
        if "mille" in t.tokens and "thousand" in t.sources:
            place = t.sources.index("thousand")
            if t.attention[0, 0, t.tokens.index("mille")].argmax() != place:
                ways = (lambda row: row), known.sharpest, known.without(place), known.nothing
                found.append([known.p_of(number, "mille", change) for change in ways])
    usual, sharp, without, alone = torch.tensor(found).T
    assert len(found) > 30
    assert usual.mean() > 0.95
    for less, more in ((sharp, usual), (without, usual), (alone, without)):
        difference = more - less
        assert difference.mean() > 2 * difference.std() / len(difference) ** 0.5
    assert usual.mean() - sharp.mean() > 0.1
    assert without.mean() - alone.mean() > 0.1
