"""The numbers that the course's translators read and write, and how well they do.

Numbers below 10⁹ with some digits zero and, in training, at most nine English words. A number that
leaves 5 when divided by 11 is never trained on; neither is a longer one. The first word of the
source, "de" or "fr", says which language to write.
"""

import random
from collections import defaultdict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlib.data import spell
from attnlib.decoding import translate
from attnlib.models.gates import gate_edits
from attnlib.pretrained.checkpoints import card
from attnlib.tokenizers.words import PAD, Vocabulary

LANGUAGES = ("de", "fr")
SHORT, LONG = range(1, 10), range(10, 15)  # English words of the numbers trained on, and beyond
Rows = tuple[Tensor, Tensor]


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
    written, _ = translate(model, words.source.batch(sources), longest=25)
    hits = defaultdict(list)
    for row, source, target in zip(written, sources, targets, strict=True):
        hits[len(source) - 1].append(words.target.decode(row) == target)
    return {n: round(sum(right) / len(right), 4) for n, right in sorted(hits.items())}


@torch.no_grad()
def quality(model: Any, rows: Rows, gates: Tensor | None = None) -> tuple[float, float]:
    """Nats per token, and the share of translations right to the last word.

    A greedy translation is the right one exactly if, after every right beginning, the next right
    word is the most probable; so one pass over the right translations tells.
    """
    source, target = rows
    edits = ({}, {}) if gates is None else gate_edits(model, gates)
    logits = model.eval()(source, target[:, :-1], edits)
    wanted = target[:, 1:]
    real = wanted != PAD
    loss = nn.functional.cross_entropy(logits[real], wanted[real])
    right = ((logits.argmax(-1) == wanted) | ~real).all(1)
    return round(loss.item(), 6), round(right.double().mean().item(), 4)
