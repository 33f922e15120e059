"""What the classifiers of the reviews are trained on, and how they are read.

`read` and `examples` prepare a source; `classify_all` and `predict` read texts with a trained
model. The losses and the training stand in `recipes.classification`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.data import Split, reviews
from attnlib.models.classifiers import AttentionClassifier, ClassifierOutput
from attnlib.tokenizers.words import CLASSIFIER_TOKENS, PAD, ReviewVocabulary

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
def vocabulary(source: str) -> ReviewVocabulary:
    """The words of a source: those that occur 3 times in the training split of Rotten
    Tomatoes (5,150), or 12 times in the first 5,000 training reviews of IMDB (6,770)."""
    texts = reviews(source).train.texts[: COUNTED[source]]
    return ReviewVocabulary.most_frequent(texts, MIN_COUNT[source])


def words_hash(words: ReviewVocabulary) -> str:
    """SHA-256 of the words in the order of their ids.

    >>> words_hash(ReviewVocabulary(("a", "b")))[:12]
    '7e18f737311b'
    """
    return hashlib.sha256("\n".join(words.words).encode()).hexdigest()


def examples(split: Split, words: ReviewVocabulary, max_len: int | None = None) -> Examples:
    """A split in a vocabulary; texts without any word are left out, long ones cut off."""
    ids = words.batch(split.texts, max_len)
    mask = ids != PAD
    labels = torch.tensor(split.labels, dtype=torch.float32, device="cpu")
    kept = mask.any(1)
    return Examples(ids[kept], mask[kept], labels[kept])


def read(
    source: str, max_len: int | None = None, count: int | None = None
) -> tuple[ReviewVocabulary, dict[str, Examples]]:
    """The words of a source, and in them its "train", "validation" and "test".

    Texts are cut to `max_len` words; of the training split only the first `count` are taken.
    """
    words, texts = vocabulary(source), reviews(source)
    names = ("train", "validation", "test")
    parts = {name: examples(getattr(texts, name), words, max_len) for name in names}
    parts["train"] = parts["train"].take(slice(count))
    return words, parts


def indicative_words(data: Examples, count: int) -> Tensor:
    """The words that say most about the label, the most indicative first: ids (count,).

    Ordered by |log((n₁ + 5) / (n₀ + 5))|, where n₁ and n₀ of the positive and of the negative texts
    hold the word; the 5 keeps rare words from the top. The special tokens do not count.
    """
    texts, words = len(data), int(data.ids.max()) + 1
    present = torch.zeros(texts, words, device=data.ids.device).scatter_(1, data.ids, 1.0)
    negative = present[data.labels == 0].sum(0)
    positive = present[data.labels == 1].sum(0)
    log_odds = ((positive + 5) / (negative + 5)).log().abs()
    log_odds[: len(CLASSIFIER_TOKENS)] = -1.0
    return log_odds.argsort(descending=True, stable=True)[:count]


def impermissible_mask(data: Examples, counted: Examples, count: int) -> Tensor:
    """Where the `count` most indicative words of one split stand in another: (N, T), True there."""
    return torch.isin(data.ids, indicative_words(counted, count)) & data.mask


@torch.no_grad()
def classify_all(
    model: AttentionClassifier, data: Examples, weights: Tensor | None = None, batch_size: int = 256
) -> ClassifierOutput:
    """The reading of a whole split: logits (N,), attention (N, T), states (N, T, d).

    Weights (N, T) take the place of the model's own attention.
    """
    width = data.ids.shape[1]
    logits, attention, states = [], [], []
    for rows in torch.arange(len(data), device=data.ids.device).split(batch_size):
        part = data.take(rows)
        length = part.ids.shape[1]
        replaced = None if weights is None else weights[rows][:, :length]
        reading = model.classify(part.ids, part.mask, replaced)
        padding = width - length
        logits.append(reading.logits)
        attention.append(F.pad(reading.attention, (0, padding)))
        states.append(F.pad(reading.states, (0, 0, 0, padding)))
    return ClassifierOutput(torch.cat(logits), torch.cat(attention), torch.cat(states))


def predict(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """The function from ids (B, T) and mask (B, T) to ŷ (B,), without gradient."""

    @torch.no_grad()
    def probability(ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = model(ids, mask)
        return logits.sigmoid()

    return probability
