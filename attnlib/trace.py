"""The one record that flows through the house: what a model did with one input.

Every model makes a `Trace`; every measure, figure and widget takes one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Trace:
    """What one forward pass did, ready to be looked at.

    Attributes:
        tokens: the destinations (queries), T strings.
        attention: weights (layer, head, query, key); a row sums to 1.
        sources: the keys, where they are not the tokens (cross-attention).
        words: word index of each token, 0, 1, 2, …; tokens of one word share an index.
        logits: (T, D) or whatever the model's head gives.
        values: (layer, head, key, d_v).
        residual: (layer + 1, T, d_model), the stream before the first layer and after each.

    Raises:
        ValueError: if a shape does not fit the tokens.
    """

    tokens: tuple[str, ...]
    attention: Tensor
    sources: tuple[str, ...] | None = None
    words: tuple[int, ...] | None = None
    logits: Tensor | None = None
    values: Tensor | None = None
    residual: Tensor | None = None

    def __post_init__(self) -> None:
        keys = self.tokens if self.sources is None else self.sources
        expected = (len(self.tokens), len(keys))
        if self.attention.ndim != 4 or tuple(self.attention.shape[2:]) != expected:
            raise ValueError(
                f"attention must be (layer, head, query, key) with {expected[0]} queries and "
                f"{expected[1]} keys, one per token; got {tuple(self.attention.shape)}"
            )
        if self.words is not None and len(self.words) != len(self.tokens):
            raise ValueError(
                f"words must name a word for each of {len(self.tokens)} tokens, "
                f"got {len(self.words)}"
            )

    def __repr__(self) -> str:
        layers, heads, queries, keys = self.attention.shape
        return f"Trace(layers={layers}, heads={heads}, queries={queries}, keys={keys})"

    def to_words(self) -> "Trace":
        """The same trace between words: split words joined in the map and in the tokens.

        Raises:
            ValueError: if the trace does not know which token belongs to which word.
        """
        if self.words is None or self.sources is not None:
            raise ValueError(
                "to_words needs `words`, the word index of every token, and no sources"
            )
        return Trace(join_tokens(self.tokens, self.words), merge_words(self.attention, self.words))


def merge_words(weights: Tensor, words: Sequence[int]) -> Tensor:
    """From attention between sub-words to attention between words.

    Attention *to* a split word is summed, attention *from* it is averaged, so a row still sums
    to 1 (Clark et al. 2019, section 3).

    Args:
        weights: (..., T, T).
        words: word index of each token: starts at 0, never falls, rises by at most 1.

    Returns:
        (..., W, W) for W words.

    >>> merge_words(torch.full((3, 3), 1 / 3), [0, 1, 1])
    tensor([[0.3333, 0.6667],
            [0.3333, 0.6667]])
    """
    if tuple(weights.shape[-2:]) != (len(words), len(words)):
        raise ValueError(f"{len(words)} word indices do not fit a map {tuple(weights.shape[-2:])}")
    index = torch.tensor(list(words))
    steps = index.diff(prepend=torch.tensor([-1]))
    if len(index) == 0 or index[0] != 0 or ((steps != 0) & (steps != 1)).any():
        raise ValueError(f"word indices must run 0, 0, 1, 2, 2, …, got {list(words)[:12]}")
    member = torch.nn.functional.one_hot(index).to(weights)  # (T, W)
    return (member / member.sum(0)).mT @ weights @ member


def join_tokens(tokens: Sequence[str], words: Sequence[int]) -> tuple[str, ...]:
    """The pieces of each word written together, without the "##" of WordPiece.

    >>> join_tokens(["[CLS]", "un", "##will", "##ing"], [0, 1, 1, 1])
    ('[CLS]', 'unwilling')
    """
    joined = [""] * (max(words, default=-1) + 1)
    for token, word in zip(tokens, words, strict=True):
        joined[word] += token.removeprefix("##") if joined[word] else token
    return tuple(joined)
