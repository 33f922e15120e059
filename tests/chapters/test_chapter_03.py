"""The theses of chapter 03, each with its control, on starts and numbers beside the chapter's."""

from functools import cache
from typing import Any

import pytest
import torch
from chapter_code import Definitions, definitions
from torch import Tensor

from attnlib.attention import additive_attention, attention
from attnlib.data import Pairs, pairs_of, spell
from attnlib.models.seq2seq import EncoderOutput, Seq2Seq

NUMBERS = ("rng", "draw", "shown", "drawn", "short", "long", "train", "test", "en", "de")
MEASURES = ("learn", "exact", "alignment", "tens", "ones", "swapped")
RUNGS = ("CutOff", "frozen")
FRENCH = ("french_train", "fr", "thousands", "p_mille", "states_of", "without")
FRENCH += ("changes", "contexts", "exchanged")
SEED = 4  # the chapter trains from 0, and tells of 1 to 3


@cache
def chapter() -> Definitions:
    """The chapter's numbers, its training, its measures and what it asks of French."""
    return definitions("03_bahdanau", *NUMBERS, *MEASURES, *RUNGS, *FRENCH)


class Even(Seq2Seq):
    """Every source state weighs the same."""

    def attend(self, state: Tensor, encoded: EncoderOutput) -> tuple[Tensor, Tensor]:
        even = encoded.mask / encoded.mask.sum(1, keepdim=True)  # (B, S)
        return (even[:, None] @ encoded.states)[:, 0], even


@cache
def translator(kind: str | None, build: Any = Seq2Seq, steps: int = 200, lr: float = 2e-3) -> Any:
    """A model from a start that the chapter does not use, after two thirds of its steps."""
    known = chapter()
    settings = {"steps": steps, "lr": lr, "build": build}
    return known.learn(kind, known.train, known.de, seed=SEED, **settings)


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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(37)
def test_attention_holds_past_the_lengths_of_its_training_and_a_fixed_context_does_not() -> None:
    looks, remembers = translator("additive"), translator(None, steps=300, lr=5e-3)
    assert right(looks, 9) > 0.9 > 0.7 > right(remembers, 9) > 0.3
    assert right(looks, 12) > 0.8 > 0.2 > right(remembers, 12)
    assert right(looks, 14) < right(looks, 9)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(37)
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


def test_no_gradient_reaches_the_states_through_a_score_that_is_cut_off() -> None:
    known = chapter()
    source = known.en.batch([("seven", "hundred", "one")])
    for build, reached in ((known.frozen, True), (known.CutOff, False)):
        torch.manual_seed(0)
        model = build(len(known.en), len(known.de), d_model=8, attention="dot")
        encoded = model.encoder_output(source)
        state = model.initial_state(encoded).detach().requires_grad_()
        context, weights = model.attend(state, encoded)
        assert weights.max() > weights.min()
        context.sum().backward()
        assert (state.grad is not None) == reached
        assert model.W.grad is model.U.grad is None


@pytest.mark.long
@pytest.mark.slow
def test_states_learn_to_fit_random_matrices_and_not_where_the_gradient_is_cut_off() -> None:
    """Random matrices with a gradient through the score, and without: only the gradient differs."""
    known = chapter()
    frozen, cut_off = translator("dot", known.frozen), translator("dot", known.CutOff)
    torch.manual_seed(SEED)
    begun = known.frozen(len(known.en), len(known.de), d_model=128, attention="dot")
    for model in (frozen, cut_off):
        assert torch.equal(begun.W, model.W)
        assert torch.equal(begun.U, model.U)
    assert right(frozen, 9) > 0.9
    assert right(frozen, 12) > 0.8
    assert right(cut_off, 9) < right(translator("additive", Even), 9) + 0.1 < 0.4


@pytest.mark.long
@pytest.mark.slow
def test_states_beside_thousand_know_of_it() -> None:
    """On numbers that the chapter does not look at, read by a model from another start."""
    known, some = chapter(), chapter().test.numbers[:150]
    space = known.exchanged.__globals__
    space["reader"] = known.learn("additive", known.french_train, known.fr, seed=SEED, steps=200)
    space["plain"] = known.contexts([n for n in some if "thousand" not in spell(n)])
    space["average"] = known.contexts(some).mean(0)
    found = list(known.thousands(known.test.numbers[150:450]))
    elsewhere = [(n, row, place) for n, row, place in found if row.argmax() != place]
    assert len(elsewhere) > 30
    beside = [abs(int(row.argmax()) - place) == 1 for _, row, place in elsewhere]
    assert sum(beside) > 0.9 * len(beside)
    each = [known.changes(n) | known.exchanged(n) for n, _, _ in elsewhere]
    changed = (torch.tensor([one[name] for one in each]) for name in each[0])
    usual, cut, swap, gone, plain, average = changed
    assert usual.mean() > 0.95
    assert lowest(usual - cut) > 0
    for less in (swap, gone, plain):
        assert lowest(cut - less) > 0.1
    assert lowest(average - plain) > 0.2
