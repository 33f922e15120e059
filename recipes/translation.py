"""Translators of numbers, English to German and French: the pairs, the training, and a measure.

All models read the same pairs. Numbers below 10⁹ with some digits zero and, in training, at most
nine English words. A number that leaves 5 when divided by 11 is never trained on; neither is a
longer one. The first word of the source, "de" or "fr", says which language to write. The side
roads of chapter 10 draw the same numbers themselves.
"""

import random
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlib.data import spell
from attnlib.decoding import translate
from attnlib.models import Translator
from attnlib.models.seq2seq import translation_loss
from attnlib.pretrained.checkpoints import card
from attnlib.tokenizers.words import Vocabulary
from attnlib.training.loop import History, fit, shuffled
from recipes.cards import finished, write

LANGUAGES = ("de", "fr")
SHORT, LONG = range(1, 10), range(10, 15)  # English words of the numbers trained on, and beyond
Rows = tuple[Tensor, Tensor]
DRAWN, TESTED, BATCH, STEPS = 20_000, 600, 32, 1_500
RATE: dict[str, Any] = {"lr": 2e-3, "warmup": 100}
SETTINGS: dict[str, Any] = {"d_model": 64, "heads": 4, "layers": 2, "d_ff": 128}
SETTINGS |= {"activation": "relu", "positions": "rotary"}
TRANSLATORS = {"translator": 0, "translator-2": 1, "translator-3": 2}  # name → seed


class Words(NamedTuple):
    """The words that are read, and those that are written."""

    source: Vocabulary
    target: Vocabulary


def numbers(count: int, seed: int, lengths: range = SHORT, tested: bool = False) -> list[int]:
    """Different numbers below 10⁹ of so many English words, for the training or for the test.

    How many of the nine digits are zero varies from number to number.
    """
    rng = random.Random(seed)
    found: dict[int, None] = {}
    while len(found) < count:
        fill = rng.random()
        digits = (rng.randrange(1, 10) if rng.random() < fill else 0 for _ in range(9))
        number = sum(digit * 10**place for place, digit in enumerate(digits))
        if (number % 11 == 5) == tested and len(spell(number)) in lengths:
            found[number] = None
    return list(found)


def sentences(chosen: list[int]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Sources and targets, word by word, of every number in both languages."""
    pairs = [(language, number) for number in chosen for language in LANGUAGES]
    sources = [(language, *spell(number)) for language, number in pairs]
    return sources, [spell(number, language) for language, number in pairs]


def rows_of(words: Words, chosen: list[int]) -> Rows:
    """Ids of numbers in both languages: sources (N, S) and targets (N, T + 1)."""
    sources, targets = sentences(chosen)
    return words.source.batch(sources), words.target.batch(targets, start=True)


def vocabularies(name: str = "translator") -> Words:
    """The vocabularies of a trained translator, from its card."""
    known = card(name)["vocabularies"]
    return Words(Vocabulary(tuple(known["source"])), Vocabulary(tuple(known["target"])))


def exact(model: Any, words: Words, chosen: list[int]) -> dict[int, float]:
    """Share of translations right to the last word, by the number of English words."""
    sources, targets = sentences(chosen)
    written = translate(model, words.source.batch(sources), longest=25)
    hits = defaultdict(list)
    for row, source, target in zip(written, sources, targets, strict=True):
        hits[len(source) - 1].append(words.target.decode(row) == target)
    return {n: round(sum(right) / len(right), 4) for n, right in sorted(hits.items())}


@lru_cache(maxsize=1)
def training() -> tuple[Words, Rows]:
    """The vocabularies, and the pairs to train on."""
    chosen = numbers(DRAWN, seed=0)
    words = Words(*(Vocabulary.alphabetical(side) for side in sentences(chosen)))
    return words, rows_of(words, chosen)


def by_length(model: Any, words: Words) -> dict[int, float]:
    """`exact` of numbers that were never trained on, short ones and long ones."""
    tests = [numbers(TESTED, 1, lengths, tested=True) for lengths in (SHORT, LONG)]
    return exact(model, words, tests[0]) | exact(model, words, tests[1])


def learn(model: nn.Module, seed: int, steps: int, loss: Any = translation_loss) -> History:
    """Train a model on the pairs, in place."""
    batch = shuffled(training()[1], BATCH, seed)
    return finished(fit(model, batch, loss, steps=steps, seed=seed, **RATE))


def build(seed: int) -> Translator:
    """A new translator."""
    torch.manual_seed(seed)
    source, target = (len(side) for side in training()[0])
    return Translator(source, target, **SETTINGS)


def train(name: str, steps: int | None, folder: Path) -> None:
    """One of the translators."""
    words, rows = training()
    model = build(TRANSLATORS[name])
    history = learn(model, TRANSLATORS[name], STEPS if steps is None else steps)
    about = {
        "config": {"source_size": len(words.source), "target_size": len(words.target), **SETTINGS},
        "data": {"source": "num2words", "numbers": DRAWN, "words": max(SHORT)},
        "vocabularies": {"source": words.source.words, "target": words.target.words},
        "seed": TRANSLATORS[name],
        "tokens": history.steps * BATCH * rows[1].shape[1],
        "exact": by_length(model, words),
    }
    write(name, model, history, folder, about)
