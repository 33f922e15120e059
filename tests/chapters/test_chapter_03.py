"""The theses of chapter 03, each with its control, on seeds and numbers beside the chapter's."""

from functools import cache, partial
from typing import Any

import pytest
import torch
from chapter_code import Definitions, definitions
from torch import Tensor

from attnlib.attention import additive_attention, attention
from attnlib.data import Pairs, pairs_of, spell
from attnlib.models.seq2seq import Seq2Seq
from attnlib.pretrained import card, load
from attnlib.tokenizers import Vocabulary
from recipes.numerals import SETTINGS, with_dot

NUMBERS = ("rng", "draw", "shown", "drawn")
MODELS = ("FixedContext", "Bahdanau", "learn")
MEASURES = ("exact", "alignment", "tens", "units", "swapped")
FRENCH = ("fr", "rows_of_mille", "looks_elsewhere", "states_of", "p_mille", "without")
FRENCH += ("changes", "means")
SEED = 4  # the chapter and its recipe train from 0 to 3
WORDS = card("numerals-fixed")["vocabularies"]
EN, DE = (Vocabulary(tuple(WORDS[side])) for side in ("source", "target"))


@cache
def chapter() -> Definitions:
    """The chapter's models, its measures and what it asks of French; its words from a card."""
    known = definitions("03_bahdanau", *NUMBERS, *MODELS, *MEASURES, *FRENCH)
    known.exact.__globals__["en"] = EN  # to spell all its numbers takes seconds
    return known


@cache
def german(name: str, steps: int = 200, lr: float = 2e-3, size: float = 1.0) -> Any:
    """A translator from a seed that the chapter does not use, after two thirds of its steps."""
    known, settings = chapter(), {}
    if name == "fixed":
        build, settings = known.FixedContext, {"attention": None}
    elif name == "additive":
        build = known.Bahdanau
    else:
        build = partial(with_dot, name, size)
    about = {"seed": SEED, "steps": steps, "lr": lr, **settings}
    return known.learn(build, pairs_of(training_numbers(), "de"), DE, **about)


@cache
def training_numbers() -> list[int]:
    """Those of up to nine words that the chapter draws: to train on, and a tenth to test."""
    return [n for n in chapter().drawn if len(spell(n)) <= 9]


@cache
def fresh() -> list[int]:
    """Numbers that neither training nor the chapter's tests hold."""
    known = chapter()
    taken = set(known.drawn) | set(known.shown)
    return [n for n in dict.fromkeys(known.draw(known.rng) for _ in range(4_000)) if n not in taken]


@cache
def of_length(words: int, count: int = 150) -> Pairs:
    """Fresh numbers with so many English words."""
    return pairs_of([n for n in fresh() if len(spell(n)) == words][:count], "de")


def right(model: Any, words: int) -> float:
    return float(chapter().exact(model, of_length(words), DE)[words])


def lowest(values: Tensor) -> float:
    """The lower end of a 95 % interval of the mean, over numbers."""
    return float(values.mean() - 1.96 * values.std() / len(values) ** 0.5)


@pytest.mark.claim(110)
@pytest.mark.parametrize("attention", [None, "additive"])
def test_the_step_on_the_page_is_the_librarys(attention: str | None) -> None:
    """State, logits and weights, on a batch with padding, with the same weights."""
    known = chapter()
    build = known.FixedContext if attention is None else known.Bahdanau
    torch.manual_seed(SEED)
    sizes = len(EN), len(DE)
    ours = build(*sizes, d_model=32, attention=attention)
    library = Seq2Seq(*sizes, d_model=32, attention=attention)
    library.load_state_dict(ours.state_dict())
    source = EN.batch([spell(n) for n in (7, 21_342, 734_251_468)])
    encoded = library.encoder_output(source)
    assert not encoded.mask.all()
    state, previous = torch.randn(3, 32), torch.tensor([5, 6, 7])
    pairs = zip(
        ours.step(state, previous, encoded), library.step(state, previous, encoded), strict=True
    )
    for mine, theirs in pairs:
        if attention is None and mine is theirs is None:
            continue
        torch.testing.assert_close(mine, theirs)
    if attention is not None:
        weights = ours.step(state, previous, encoded)[2]
        assert (weights[~encoded.mask] == 0).all()


@pytest.mark.long
def test_the_models_that_are_loaded_read_the_chapters_words() -> None:
    """Their recipe trains them on the chapter's numbers, so ids mean the same words."""
    known = definitions("03_bahdanau", *NUMBERS, "short", "long", "train", "test", "en", "de")
    cases = (("numerals-fixed", "de", known.de), ("numerals-fr", "fr", chapter().fr))
    for name, language, words in cases:
        about = card(name)
        assert about["config"]["attention"] == SETTINGS[name]["attention"]
        assert tuple(about["vocabularies"]["source"]) == known.en.words
        assert tuple(about["vocabularies"]["target"]) == words.words
        targets = pairs_of(known.train.numbers, language).targets
        assert words.words == Vocabulary.alphabetical(targets).words
        assert about["data"]["numbers"] == len(known.train)


@pytest.mark.claim(37)
def test_one_fixed_context_gets_half_of_nine_words_and_attention_all() -> None:
    """Numbers that the chapter does not use, for the loaded models, and the card's four seeds."""
    known = chapter()
    fixed, french = load("numerals-fixed"), load("numerals-fr")
    assert 0.3 < right(fixed, 9) < 0.7
    assert right(fixed, 12) < 0.2
    for words in (9, 12):
        pairs = pairs_of(of_length(words).numbers, "fr")
        assert known.exact(french, pairs, known.fr)[words] > 0.9
    by_length = card("numerals")["by_length"]
    for seed in by_length["additive"]:
        assert min(seed["9"], seed["12"]) > 0.9
    for seed in by_length["fixed, 128 numbers"]:
        assert 0.4 < seed["9"] < 0.6
        assert seed["12"] < 0.1
    for seed in by_length["fixed, 256 numbers"]:  # so the thesis says of how many numbers
        assert seed["9"] > 0.65


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(37)
def test_attention_holds_past_the_lengths_of_its_training_and_a_fixed_context_does_not() -> None:
    looks, remembers = german("additive"), german("fixed", steps=300, lr=5e-3)
    assert right(looks, 9) > 0.9 > 0.7 > right(remembers, 9) > 0.3
    assert right(looks, 12) > 0.8 > 0.2 > right(remembers, 12)
    assert right(looks, 14) < right(looks, 9)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(37)
def test_the_swaps_are_right_under_the_right_names_and_only_after_training() -> None:
    known = chapter()
    torch.manual_seed(SEED)
    untrained = known.Bahdanau(len(EN), len(DE), d_model=128)
    shares = {}
    for name, model in (("trained", german("additive")), ("untrained", untrained)):
        traces = [known.alignment(model, n, "de", DE) for n in of_length(9).numbers]
        shares[name] = known.swapped(traces), known.swapped(traces, -1)
    assert shares["trained"][0] > 0.9
    assert shares["trained"][1] < 0.1
    assert max(shares["untrained"]) < 0.1
    assert min(card("numerals")["swaps"]) > 0.9


def test_a_long_query_sharpens_the_dot_product_and_makes_the_additive_row_uniform() -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        s, h, W, U = (torch.randn(size).double() for size in ((1, 6), (5, 6), (6, 4), (6, 4)))
        v = torch.randn(4).double()
        largest = [
            [additive_attention(x * s, h, h, W, U, v)[1].max() for x in (1, 10_000)],
            [attention(x * s @ W, h @ U, h)[1].max() for x in (1, 10_000)],
        ]
        (additive, uniform), (dot, sharpened) = largest
        assert uniform < 0.21 < additive
        assert dot < sharpened
        assert sharpened > 0.99
        bound = v.abs().sum()
        assert (torch.tanh(1e6 * s @ W + h @ U) @ v).abs().max() <= bound + 1e-9


def test_no_gradient_reaches_the_states_through_scores_that_are_cut_off() -> None:
    source = EN.batch([("seven", "hundred", "one")])
    for name, reached in (("frozen", True), ("cut off", False)):
        torch.manual_seed(0)
        model = with_dot(name, 1.0, len(EN), len(DE), d_model=8)
        encoded = model.encoder_output(source)
        state = model.initial_state(encoded).detach().requires_grad_()
        context, weights = model.attend(state, encoded)
        assert weights is not None
        assert weights.max() > weights.min()
        context.sum().backward()
        assert (state.grad is not None) == reached
        assert model.W.grad is model.U.grad is None


def test_frozen_scores_do_at_the_usual_size_or_larger_and_fail_below_it() -> None:
    """Three seeds of the recipe at every size, with both controls."""
    about = card("numerals")
    scores = {
        name: {float(size): [run["9"] for run in runs] for size, runs in by_size.items()}
        for name, by_size in about["scores"].items()
    }
    assert len(about["score_seeds"]) >= 3
    for runs in scores["learned"].values():
        assert min(runs) > 0.9  # from any size: it is not the size that a trained score needs
    for size, runs in scores["frozen"].items():
        if size >= 1:
            assert min(runs) > 0.85
        if size <= 0.3:
            assert max(runs) < 0.3
    for size, runs in scores["cut off"].items():
        if size <= 1:
            assert max(runs) < 0.3


@pytest.mark.long
@pytest.mark.slow
def test_states_learn_to_fit_random_matrices_of_the_usual_size_and_no_smaller() -> None:
    """From another seed; only the gradient, or only the size, differs."""
    frozen, cut_off, small = german("frozen"), german("cut off"), german("frozen", size=0.3)
    torch.manual_seed(SEED)
    begun = with_dot("frozen", 1.0, len(EN), len(DE), d_model=128)
    for model in (frozen, cut_off):
        assert torch.equal(begun.W, model.W)
        assert torch.equal(begun.U, model.U)
    assert right(frozen, 9) > 0.9
    assert right(frozen, 12) > 0.8
    assert max(right(cut_off, 9), right(small, 9)) < 0.4


def mille_is_written_from_the_word_or_its_neighbours(model: Any) -> None:
    known = chapter()
    short = [n for n in fresh() if len(spell(n)) <= 9]
    rows = list(known.rows_of_mille(model, short[:200]))
    elsewhere = known.looks_elsewhere(rows)
    assert len(elsewhere) > 30
    beside = sum(abs(int(row.argmax()) - j) == 1 for _, row, j in rows)
    assert beside > 0.9 * len(elsewhere)
    usual, no_word, no_neighbours, neither, million = known.means(model, elsewhere).values()
    assert usual.mean() > 0.95
    assert no_word.mean() > 0.75
    assert no_neighbours.mean() > 0.9
    for less in (neither, million):
        assert lowest(no_word - less) > 0.1
        assert lowest(no_neighbours - less) > 0.1


def test_mille_needs_weight_on_thousand_or_beside_it() -> None:
    """The loaded model on numbers that the chapter does not look at; and the recipe's seeds."""
    mille_is_written_from_the_word_or_its_neighbours(load_reader())
    for seed in card("numerals")["mille"]:
        usual, no_word, no_neighbours, neither, million = seed["p"].values()
        assert seed["beside"] > 0.9 * seed["elsewhere"]
        assert min(usual, no_neighbours) > 0.95
        assert no_word > 0.8
        assert max(neither, million) < no_word - 0.2


def load_reader() -> Any:
    known = chapter()
    reader = known.Bahdanau(len(EN), len(known.fr), d_model=128)
    reader.load_state_dict(load("numerals-fr").state_dict())
    return reader


@pytest.mark.long
@pytest.mark.slow
def test_mille_needs_weight_there_from_another_seed_too() -> None:
    known = chapter()
    pairs = pairs_of(training_numbers(), "fr")
    model = known.learn(known.Bahdanau, pairs, known.fr, seed=SEED, steps=200)
    mille_is_written_from_the_word_or_its_neighbours(model)


def test_the_decoder_expects_mille_and_a_context_can_forbid_it() -> None:
    """The side road, on other numbers."""
    names = ("reader", "words", "en", "fr", "draw", "rng", "drawn", "numbers", "traced")
    names += ("contexts", "plain", "average", "p_mille", "exchanged")
    beside = definitions("more/03_expects", *names)
    numbers = [n for n in (beside.draw(beside.rng) for _ in range(200)) if 8 < len(spell(n)) < 12]
    own, plain, average = beside.exchanged(numbers[:40], seed=1).values()
    assert own.mean() > 0.95
    assert plain.mean() < 0.2
    assert lowest(average - plain) > 0.3
