"""The record of one input and one forward pass, and the way from sub-words to words.

Every model that attends makes a `Trace` (`model.trace`), and the views and figures show one.
Measures over a whole split take batched tensors instead, and say so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BY_LAYER = ("queries", "keys", "values", "head_outputs")
OPTIONAL = (*BY_LAYER, "residual", "final", "logits")  # what `keep` of a model's `trace` may name
ROUNDING = 1e-3  # how far a sum of weights may be from 1: half precision, long rows


@dataclass(frozen=True)
class Trace:
    """What one forward pass did, ready to be looked at.

    Tokens and attention are always there. A model keeps the rest only when it is asked to, with
    `model.trace(…, keep=("values", "residual"))`, or `keep="all"`. What was not kept is None, and
    so is what the model does not have, such as the logits of a model without a head.

    Attributes:
        tokens: the destinations (queries), T strings.
        attention: weights (layer, head, query, key), at least 0; a row sums to 1, or is all zeros
            where nothing may be looked at.
        sources: the keys, S strings, where they are not the tokens (cross-attention).
        word_ids: word index of each token, 0, 0, 1, 2, …; tokens of one word share an index.
        queries: (layer, head, query, d_k), as they meet the keys (turned, if positions are rotary).
        keys: (layer, head, key, d_k), likewise.
        values: (layer, head, key, d_v).
        head_outputs: (layer, head, query, d_model), what each head adds to the stream, bias apart.
        residual: (layer + 1, T, d_model), the stream before the first layer and after each.
        final: (T, d), the last state: what the model's head reads.
        logits: (T, D), or None for a model without a head.

    Raises:
        ValueError: if a shape does not fit the tokens, or the weights are no weights.
    """

    tokens: tuple[str, ...]
    attention: Tensor
    sources: tuple[str, ...] | None = None
    word_ids: tuple[int, ...] | None = None
    queries: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    head_outputs: Tensor | None = None
    residual: Tensor | None = None
    final: Tensor | None = None
    logits: Tensor | None = None

    def __post_init__(self) -> None:
        T, S = len(self.tokens), len(self.tokens if self.sources is None else self.sources)
        if self.attention.ndim != 4 or tuple(self.attention.shape[2:]) != (T, S):
            raise ValueError(
                f"attention must be (layer, head, query, key) with {T} queries and {S} keys, one "
                f"per token; got {tuple(self.attention.shape)}"
            )
        check_weights(self.attention)
        L, H = self.attention.shape[:2]
        shapes = {  # but for the width, which comes last
            "queries": (L, H, T),
            "keys": (L, H, S),
            "values": (L, H, S),
            "head_outputs": (L, H, T),
            "residual": (L + 1, T),
            "final": (T,),
            "logits": (T,),
        }
        for name, shape in shapes.items():
            part = getattr(self, name)
            if part is not None and tuple(part.shape[:-1]) != shape:
                told = ", ".join(map(str, shape))
                raise ValueError(f"{name} must be ({told}, width), got {tuple(part.shape)}")
        if self.word_ids is not None:
            _check_word_ids(self.word_ids, T)

    def __repr__(self) -> str:
        layers, heads, queries, keys = self.attention.shape
        return f"Trace(layers={layers}, heads={heads}, queries={queries}, keys={keys})"

    def to_words(self) -> "Trace":
        """The same trace between words: split words joined in the map and in the tokens.

        Raises:
            ValueError: if the trace does not know which token belongs to which word.
        """
        if self.word_ids is None or self.sources is not None:
            raise ValueError(
                "to_words needs `word_ids`, the word index of every token, and no sources"
            )
        tokens = join_tokens(self.tokens, self.word_ids)
        return Trace(tokens, merge_words(self.attention, self.word_ids))


def wanted(keep: str | Iterable[str]) -> tuple[str, ...]:
    """The names in a `keep`, checked; "all" is all of `OPTIONAL`.

    Raises:
        ValueError: if a name is none of them.

    >>> wanted("logits"), len(wanted("all"))
    (('logits',), 7)
    """
    names = OPTIONAL if keep == "all" else (keep,) if isinstance(keep, str) else tuple(keep)
    unknown = [name for name in names if name not in OPTIONAL]
    if unknown:
        raise ValueError(f"keep names {unknown}; a trace can keep {OPTIONAL}, or 'all'")
    return names


def kept(keep: str | Iterable[str], **parts: Tensor) -> dict[str, Any]:
    """Of the parts that a model has, those that `keep` names, as arguments of a Trace.

    >>> kept("logits", values=torch.zeros(1), logits=torch.ones(1))
    {'logits': tensor([1.])}
    """
    names = wanted(keep)
    return {name: part for name, part in parts.items() if name in names}


def token_names(ids: Tensor, tokens: Sequence[str] | None) -> tuple[str, ...]:
    """What the tokens of one text (T,) are called: as given, or by their ids.

    Raises:
        ValueError: if there is not one text of at least one token.

    >>> token_names(torch.tensor([5, 7]), None)
    ('5', '7')
    """
    if ids.ndim != 1 or len(ids) == 0:
        raise ValueError(f"trace takes one text of at least one token, got {tuple(ids.shape)}")
    return tuple(map(str, ids.tolist())) if tokens is None else tuple(tokens)


def check_weights(attention: Tensor) -> None:
    """Stop unless every entry is at least 0 and every row sums to 1, or is all zeros.

    Raises:
        ValueError: names the first entry or row that is wrong.
    """
    wrong = ~(attention >= 0)  # NaN is not ≥ 0 either
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(
            f"attention weights are at least 0, got {attention[at].item():.4g} at {at}: pass the "
            "weights after the softmax, not the scores"
        )
    sums = attention.sum(-1)
    off = ((sums - 1).abs() > ROUNDING) & (sums != 0)
    if off.any():
        at = tuple(off.nonzero()[0].tolist())
        raise ValueError(
            f"a row of attention sums to 1, or is all zeros; row {at} sums to {sums[at].item():.4g}"
        )


def merge_words(weights: Tensor, word_ids: Sequence[int]) -> Tensor:
    """From attention between sub-words to attention between words.

    Attention *to* a split word is summed, attention *from* it is averaged, so a row still sums
    to 1 (Clark et al. 2019, section 3).

    Args:
        weights: (..., T, T).
        word_ids: word index of each token: starts at 0, never falls, rises by at most 1.

    Returns:
        (..., W, W) for W words.

    >>> merge_words(torch.full((3, 3), 1 / 3), [0, 1, 1])
    tensor([[0.3333, 0.6667],
            [0.3333, 0.6667]])
    """
    if tuple(weights.shape[-2:]) != (len(word_ids), len(word_ids)):
        raise ValueError(
            f"{len(word_ids)} word indices do not fit a map {tuple(weights.shape[-2:])}"
        )
    _check_word_ids(word_ids, len(word_ids))
    member = torch.nn.functional.one_hot(torch.tensor(list(word_ids))).to(weights)  # (T, W)
    return (member / member.sum(0)).mT @ weights @ member


def join_tokens(tokens: Sequence[str], word_ids: Sequence[int]) -> tuple[str, ...]:
    """The pieces of each word written together, without the "##" of WordPiece.

    >>> join_tokens(["[CLS]", "un", "##will", "##ing"], [0, 1, 1, 1])
    ('[CLS]', 'unwilling')
    """
    joined = [""] * (max(word_ids, default=-1) + 1)
    for token, word in zip(tokens, word_ids, strict=True):
        joined[word] += token.removeprefix("##") if joined[word] else token
    return tuple(joined)


def _check_word_ids(word_ids: Sequence[int], count: int) -> None:
    if len(word_ids) != count:
        raise ValueError(
            f"word_ids must name a word for each of {count} tokens, got {len(word_ids)}"
        )
    steps = [after - before for before, after in zip([-1, *word_ids], word_ids, strict=False)]
    if not steps or steps[0] != 1 or not set(steps) <= {0, 1}:
        raise ValueError(f"word indices must run 0, 0, 1, 2, 2, …, got {list(word_ids)[:12]}")
