"""Translators of numbers, English to German and French. All models read the same pairs."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlib.models import Translator
from attnlib.models.seq2seq import translation_loss
from attnlib.pretrained.translators import (
    LONG,
    SHORT,
    Rows,
    Words,
    exact,
    numbers,
    rows_of,
    sentences,
)
from attnlib.tokenizers.words import Vocabulary
from attnlib.training.loop import History, fit, shuffled
from recipes.cards import finished, result, write

DRAWN, TESTED, BATCH, STEPS, SEEDS = 20_000, 600, 32, 1_500, (0, 1, 2)
RATE: dict[str, Any] = {"lr": 2e-3, "warmup": 100}
SETTINGS: dict[str, Any] = {"d_model": 64, "heads": 4, "layers": 2, "d_ff": 128}
SETTINGS |= {"activation": "relu", "positions": "rotary"}
TRANSLATORS = {"translator": 0, "translator-2": 1, "translator-3": 2}  # name → seed


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


def build(positions: str, seed: int) -> Translator:
    """A new translator with positions of this kind."""
    torch.manual_seed(seed)
    source, target = (len(side) for side in training()[0])
    return Translator(source, target, **SETTINGS | {"positions": positions})


def train(name: str, steps: int | None, folder: Path) -> None:
    """One of the translators."""
    words, rows = training()
    model = build("rotary", TRANSLATORS[name])
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


def compare(name: str, steps: int | None, folder: Path) -> Path:
    """The same translators with absolute positions, by length."""
    steps = STEPS if steps is None else steps
    found: list[dict[int, float]] = []
    for seed in SEEDS:
        model = build("sinusoidal", seed)
        learn(model, seed, steps)
        found.append(by_length(model, training()[0]))
    return result(name, folder, {"steps": steps, "seeds": SEEDS, "exact": {"sinusoidal": found}})
