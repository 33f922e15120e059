"""What the classifiers of the reviews are trained on, and how they are read.

`read` and `examples` prepare a source, `predict` and `classify_all` look. They are trained by
`recipes.classification`, where the losses of those that hide where they look stand, too.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.data import Split, reviews
from attnlib.models.classifiers import AttentionClassifier, ClassifierOutput
from attnlib.tokenizers.words import CLASSIFIER_TOKENS, PAD, Vocabulary, trim
from attnlib.training.loop import Batch

MIN_COUNT = {"rotten_tomatoes": 3, "imdb": 12}
COUNTED = {"rotten_tomatoes": None, "imdb": 5_000}  # texts of the training split


@dataclass(frozen=True)
class Examples:
    """A split as tensors.

    Attributes:
        ids: (N, T) int64, padded at the end.
        mask: True on real tokens, (N, T).
        labels: (N,) float, 1 for a positive review.
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Tensor | slice) -> "Examples":
        """Some of the examples, cut to the longest of them."""
        mask = self.mask[rows]
        longest = slice(int(mask.sum(1).max()))
        return Examples(self.ids[rows][:, longest], mask[:, longest], self.labels[rows])


@cache
def vocabulary(source: str) -> Vocabulary:
    """The words of a source: those that occur 3 times in the training split of Rotten
    Tomatoes (5,150), or 12 times in the first 5,000 training reviews of IMDB (6,770)."""
    texts = reviews(source).train.texts[: COUNTED[source]]
    return Vocabulary.most_frequent(texts, MIN_COUNT[source])


def words_hash(words: Vocabulary) -> str:
    """SHA-256 of the words in the order of their ids.

    >>> words_hash(Vocabulary(("a", "b")))[:12]
    '7e18f737311b'
    """
    return hashlib.sha256("\n".join(words.words).encode()).hexdigest()


def examples(split: Split, words: Vocabulary, max_len: int | None = None) -> Examples:
    """A split in a vocabulary; texts without any word are left out, long ones cut off."""
    ids = words.batch(split.texts, max_len)
    mask = ids != PAD
    kept = mask.any(1)
    return Examples(ids[kept], mask[kept], torch.tensor(split.labels).float()[kept])


def read(
    source: str, max_len: int | None = None, count: int | None = None
) -> tuple[Vocabulary, dict[str, Examples]]:
    """The words of a source, and in them its "train", "validation" and "test".

    Texts are cut to `max_len` words; of the training split only the first `count` are taken.
    """
    words, texts = vocabulary(source), reviews(source)
    names = ("train", "validation", "test")
    parts = {name: examples(getattr(texts, name), words, max_len) for name in names}
    return words, parts | {"train": parts["train"].take(slice(count))}


def indicative_words(data: Examples, count: int) -> Tensor:
    """The words that say most about the label, the most indicative first: ids (count,).

    Ordered by |log((n₁ + 5) / (n₀ + 5))|, where n₁ and n₀ of the positive and of the negative texts
    hold the word; the 5 keeps rare words from the top. The special tokens do not count.
    """
    size = int(data.ids.max()) + 1
    present = torch.zeros(len(data), size).scatter_(1, data.ids, 1.0)
    held = torch.stack([present[data.labels == label].sum(0) for label in (0.0, 1.0)])
    log_odds = ((held[1] + 5) / (held[0] + 5)).log().abs()
    log_odds[: len(CLASSIFIER_TOKENS)] = -1.0
    return log_odds.argsort(descending=True, stable=True)[:count]


def impermissible_mask(data: Examples, counted: Examples, count: int) -> Tensor:
    """Where the `count` most indicative words of one split stand in another: (N, T), True there."""
    return torch.isin(data.ids, indicative_words(counted, count)) & data.mask


# --- losses -----------------------------------------------------------------------------------


def classification_loss(model: Any, batch: Batch) -> Tensor:
    """Mean cross-entropy in nats.

    The batch is (ids (B, T), labels (B,)), then attention weights (B, T) that the model shall use
    in place of its own, if any.
    """
    ids, labels, *weights = batch
    keep = slice(trim(ids).shape[1])
    given = [weight[:, keep] for weight in weights]
    return F.binary_cross_entropy_with_logits(model(ids[:, keep], None, *given), labels)


# --- reading ---------------------------------------------------------------------


@torch.no_grad()
def classify_all(
    model: AttentionClassifier, data: Examples, weights: Tensor | None = None, batch_size: int = 256
) -> ClassifierOutput:
    """The reading of a whole split: logits (N,), attention (N, T), states (N, T, d).

    Weights (N, T) take the place of the model's own attention.
    """
    width, parts = data.ids.shape[1], []
    for rows in torch.arange(len(data)).split(batch_size):
        part = data.take(rows)
        given = None if weights is None else weights[rows][:, : part.ids.shape[1]]
        found = model.classify(part.ids, part.mask, given)
        short = width - part.ids.shape[1]
        attention, states = F.pad(found.attention, (0, short)), found.states
        parts.append((found.logits, attention, F.pad(states, (0, 0, 0, short))))
    logits, attention, states = (torch.cat(column) for column in zip(*parts, strict=True))
    return ClassifierOutput(logits, attention, states)


def predict(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """The function from ids (B, T) and mask (B, T) to ŷ (B,), without gradient."""

    @torch.no_grad()
    def probability(ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = model(ids, mask)
        return logits.sigmoid()

    return probability
