"""The record of one input and one forward pass, and the way from sub-words to words.

Every model that attends makes a `Trace` (`model.trace`), and the views and figures show one.
Measures over a whole split take batched tensors instead, and say so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

STREAM = ("resid_pre", "attn_out", "mlp_out", "resid_post")  # (layer, query, d_model)
OF_HEADS = ("q", "k", "v", "z", "head_outputs")  # (layer, head, query or key, width)
OPTIONAL = (*STREAM, *OF_HEADS, "final", "logits")  # what `keep` of a model's `trace` may name
PER_LAYER = {"pattern", *STREAM, *OF_HEADS}
ROUNDING = 1e-3  # how far a sum of weights may be from 1: half precision, long rows
NO_WEIGHTS = (
    "there are no attention weights here. The default attention of transformers returns none: load "
    'the model with from_pretrained(…, attn_implementation="eager"), and call it with '
    "output_attentions=True"
)
WHICH = (
    "a model with an encoder and a decoder has three kinds of attention; pass the one you want: "
    "outputs.encoder_attentions, outputs.decoder_attentions, or, with `sources`, "
    "outputs.cross_attentions"
)


@dataclass(frozen=True)
class Trace:
    """What one forward pass did, ready to be looked at.

    Tokens and pattern are always there. A model keeps the rest only when it is asked to, with
    `model.trace(…, keep=("v", "resid_post"))`, or `keep="all"`. What was not kept is None, and so
    is what the model does not have, such as the logits of a model without a head. The names are
    those of a layer's `SITES` (`attnlib.models.transformer`).

    Attributes:
        tokens: the destinations (queries), T strings.
        pattern: attention weights (layer, head, query, key), at least 0; a row sums to 1, or is all
            zeros where nothing may be looked at.
        sources: the keys, S strings, where they are not the tokens (cross-attention).
        word_ids: word index of each token, 0, 0, 1, 2, …; tokens of one word share an index.
        q: queries (layer, head, query, d_k), as they meet the keys (turned, if positions are
            rotary).
        k: keys (layer, head, key, d_k), likewise.
        v: values (layer, head, key, d_v).
        z: each head's weighted values (layer, head, query, d_v), its output before W_O.
        head_outputs: z W_O (layer, head, query, d_model), what each head adds to the stream, bias
            apart; with norm="both", before the norm that Gemma puts on the sum of them.
        resid_pre: the stream that each layer reads, (layer, query, d_model).
        attn_out: what attention adds to it, likewise.
        mlp_out: what the feed-forward block adds, likewise.
        resid_post: the stream that each layer leaves, likewise.
        final: (query, d), the last state: what the model's head reads.
        logits: (query, D), or None for a model without a head.
        left_out: how many tokens of the text come after these, and were not read.
        words: what each word is called, where that is not its tokens joined: a Chinese character
            can be spread over several tokens.

    Raises:
        ValueError: if a shape does not fit the tokens, or the weights are no weights.
    """

    tokens: tuple[str, ...]
    pattern: Tensor
    sources: tuple[str, ...] | None = None
    word_ids: tuple[int, ...] | None = None
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    z: Tensor | None = None
    head_outputs: Tensor | None = None
    resid_pre: Tensor | None = None
    attn_out: Tensor | None = None
    mlp_out: Tensor | None = None
    resid_post: Tensor | None = None
    final: Tensor | None = None
    logits: Tensor | None = None
    left_out: int = 0
    words: tuple[str, ...] | None = None

    @property
    def resid(self) -> Tensor:
        """The stream before the first layer and after each, (layer + 1, query, d_model).

        Raises:
            ValueError: if the trace has not kept `resid_pre` and `resid_post`.
        """
        if self.resid_pre is None or self.resid_post is None:
            raise ValueError('this trace has no stream: keep="resid" keeps it')
        return torch.cat([self.resid_pre, self.resid_post[-1:]])

    @classmethod
    def of(
        cls,
        attentions: Any,
        tokens: Sequence[str],
        sources: Sequence[str] | None = None,
        word_ids: Sequence[int | None] | None = None,
    ) -> "Trace":
        """A trace of what a model of any library returned for one text.

        Args:
            attentions: what `transformers` gives with `output_attentions=True`, the whole output or
                its tuple; or any sequence of layers, or one array of them. A layer is (head, query,
                key), with or without a batch axis of one text before it; tensors or NumPy arrays.
                They are counted from 0, whatever stands between them in the model (Jamba's layers
                without attention return none).
                Every precision becomes float32, and rows of bfloat16 are made to sum to 1 again.
            tokens: the destinations (queries), as many strings as the model read.
            sources: the keys, where they are not the tokens (cross-attention).
            word_ids: word index of each token, also as `encoding.word_ids()` of `transformers`
                gives them, with None for special tokens; each of those becomes a word of its own.

        Raises:
            ValueError: if there are no weights, or of several texts, or they do not fit the tokens.

        >>> layers = [torch.full((1, 4, 2, 2), 0.5)] * 3
        >>> Trace.of(layers, ["so", "far"])
        Trace(layers=3, heads=4, queries=2, keys=2)
        """
        maps, queries = _stacked(attentions), _strings("tokens", tokens)
        keys = None if sources is None else _strings("sources", sources)
        T, S = len(queries), len(keys or queries)
        if tuple(maps.shape[2:]) != (T, S):
            raise ValueError(
                f"the maps have {maps.shape[2]} queries and {maps.shape[3]} keys, but there are "
                f"{T} and {S} strings: name every token that the model read, special ones too; "
                "keys that are not the tokens are named by `sources`"
            )
        return cls(queries, maps, keys, None if word_ids is None else _numbered(word_ids))

    def __post_init__(self) -> None:
        T, S = len(self.tokens), len(self.tokens if self.sources is None else self.sources)
        if self.pattern.ndim != 4 or tuple(self.pattern.shape[2:]) != (T, S):
            raise ValueError(
                f"pattern must be (layer, head, query, key) with {T} queries and {S} keys, one "
                f"per token; got {tuple(self.pattern.shape)}"
            )
        check_weights(self.pattern)
        L, H = self.pattern.shape[:2]
        shapes = {  # but for the width, which comes last
            **dict.fromkeys(("q", "z", "head_outputs"), (L, H, T)),
            **dict.fromkeys(("k", "v"), (L, H, S)),
            **dict.fromkeys(STREAM, (L, T)),
            **dict.fromkeys(("final", "logits"), (T,)),
        }
        for name, shape in shapes.items():
            part = getattr(self, name)
            if part is not None and tuple(part.shape[:-1]) != shape:
                expected = ", ".join(map(str, shape))
                raise ValueError(f"{name} must be ({expected}, width), got {tuple(part.shape)}")
        if self.word_ids is not None:
            _check_word_ids(self.word_ids, T)
        if self.words is not None and len(self.words) != max(self.word_ids or (-1,)) + 1:
            raise ValueError(f"words must name each word of word_ids, got {len(self.words)}")

    def __repr__(self) -> str:
        layers, heads, queries, keys = self.pattern.shape
        return f"Trace(layers={layers}, heads={heads}, queries={queries}, keys={keys})"

    def to_words(self) -> "Trace":
        """The same trace between words: split words joined in the map and in the tokens.

        Raises:
            ValueError: if the trace does not know which token belongs to which word.
        """
        if self.word_ids is None or self.sources is not None:
            raise ValueError(
                "to_words needs `word_ids`, the word index of every token, and no sources. Of the "
                "tokenizers of transformers, the fast ones know words"
            )
        tokens = self.words or join_tokens(self.tokens, self.word_ids)
        maps = merge_words(self.pattern, self.word_ids)
        return Trace(tokens, maps, left_out=self.left_out)


def _stacked(attentions: Any) -> Tensor:
    """(layer, head, query, key) in float32, of whatever a library calls its attentions."""
    if not hasattr(attentions, "attentions") and hasattr(attentions, "cross_attentions"):
        raise ValueError(WHICH)
    maps = getattr(attentions, "attentions", attentions)
    if maps is attentions and hasattr(attentions, "to_tuple"):  # an output of transformers
        raise ValueError(
            f"a {type(attentions).__name__} has no attentions: a model that does not attend, such "
            "as Mamba, has none, and of one made of several models each has its own output"
        )
    if maps is None or (hasattr(maps, "__len__") and all(layer is None for layer in maps)):
        raise ValueError(NO_WEIGHTS)
    if not hasattr(maps, "__len__") or isinstance(maps, str | dict):
        raise ValueError(
            "attentions must be a sequence of layers, one array of them, or an output of "
            f"transformers; got {type(maps).__name__}"
        )
    layers = [_one_text(number, layer) for number, layer in enumerate(maps)]
    if shapes := {tuple(layer.shape) for layer in layers[1:]} - {tuple(layers[0].shape)}:
        raise ValueError(f"layers differ: {tuple(layers[0].shape)} in layer 0, {shapes} in others")
    return torch.stack(layers)


def _one_text(number: int, layer: Any) -> Tensor:
    """The weights (head, query, key) of one layer in float32, without the axis of the batch."""
    try:
        weights = torch.as_tensor(layer, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"layer {number} must be an array, got {type(layer).__name__}; if it is one of the "
            "steps of `generate`, call the model once with the whole text"
        ) from None
    if weights.ndim == 4 and len(weights) != 1:
        raise ValueError(
            f"layer {number} holds the maps of {len(weights)} texts, {tuple(weights.shape)}, and a "
            "trace is of one: pass tuple(a[i : i + 1] for a in attentions) and its tokens"
        )
    if weights.ndim not in (3, 4):
        raise ValueError(
            f"layer {number} must be (head, query, key), or (1, head, query, key) with a batch of "
            f"one text, got {tuple(weights.shape)}"
        )
    rows = weights.float().reshape(weights.shape[-3:])
    if weights.dtype != torch.bfloat16:
        return rows
    sums = rows.sum(-1, keepdim=True)  # of eight binary digits: within 2⁻⁷ of 1
    return torch.where((sums - 1).abs() < torch.finfo(torch.bfloat16).eps, rows / sums, rows)


def _strings(name: str, strings: Any) -> tuple[str, ...]:
    """The names of the rows or columns of a map, checked."""
    listed = isinstance(strings, Sequence) and not isinstance(strings, str)
    if listed and all(isinstance(string, str) for string in strings):
        return tuple(strings)
    raise ValueError(
        f"{name} must be a list of strings, one for each token of the text; got {strings!r:.60}"
        ". tokenizer.convert_ids_to_tokens(ids) makes them of the ids of one text"
    )


def _numbered(word_ids: Sequence[int | None]) -> tuple[int, ...]:
    """Word indices without None: each None is a word of its own, and the words after it move up.

    >>> _numbered([None, 0, 1, 1, None])
    (0, 1, 2, 2, 3)
    """
    if None not in word_ids:
        return tuple(map(int, word_ids))  # type: ignore[arg-type] # there is no None
    numbers: list[int] = []
    number, before = -1, None
    for word in word_ids:
        if word is None or word != before:
            number += 1
        numbers.append(number)
        before = word
    return tuple(numbers)


def wanted(keep: str | Iterable[str]) -> tuple[str, ...]:
    """The names in a `keep`, checked.

    "all" stands for all of `OPTIONAL`, and "resid" for what `Trace.resid` is made of.

    Raises:
        ValueError: if a name is none of them.

    >>> wanted("resid"), len(wanted("all"))
    (('resid_pre', 'resid_post'), 11)
    """
    if keep == "all":
        return OPTIONAL
    names: list[str] = []
    for name in (keep,) if isinstance(keep, str) else keep:
        names += ("resid_pre", "resid_post") if name == "resid" else (name,)
    unknown = [name for name in names if name not in OPTIONAL]
    if unknown:
        raise ValueError(f"keep names {unknown}; a trace can keep {OPTIONAL}, 'resid' or 'all'")
    return tuple(dict.fromkeys(names))


def kept(keep: str | Iterable[str], **parts: Tensor) -> dict[str, Any]:
    """Of the parts that a model has, those that `keep` names, as arguments of a Trace.

    >>> kept("logits", v=torch.zeros(1), logits=torch.ones(1))
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


def check_weights(weights: Tensor) -> None:
    """Stop unless every entry is at least 0 and every row sums to 1, or is all zeros.

    A row of n weights in half precision may be off by more than one in single precision: each is
    rounded to one part in 1/ε, and so is the sum of all.

    Raises:
        ValueError: names the first entry or row that is wrong.
    """
    wrong = ~(weights >= 0)  # NaN is not ≥ 0 either
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(
            f"attention weights are at least 0, got {weights[index].item():.4g} at {index}: pass "
            "the weights after the softmax, not the scores"
        )
    sums = weights.float().sum(-1)
    rounding = max(ROUNDING, torch.finfo(weights.dtype).eps)
    off = ((sums - 1).abs() > rounding) & (sums != 0)
    if off.any():
        index = tuple(off.nonzero()[0].tolist())
        total = sums[index].item()
        if total < 1:
            why = (
                "If the model has attention sinks, as gpt-oss has, the rest lies on them: explore "
                "shows such maps one by one, as explore([[(map, tokens), …], …], "
                'axes=("layer", "head"))'
            )
        else:
            why = "Dropout rescales the weights: call model.eval() first"
        raise ValueError(
            f"a row of attention sums to 1, or is all zeros; row {index} sums to {total:.4g}. {why}"
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
    exact = weights.to(torch.promote_types(weights.dtype, torch.float32))  # half is too coarse
    words = torch.tensor(list(word_ids), device=weights.device)
    member = torch.nn.functional.one_hot(words).to(exact)  # (T, W)
    merged: Tensor = (member / member.sum(0)).mT @ exact @ member
    return merged.to(weights)


def join_tokens(tokens: Sequence[str], word_ids: Sequence[int]) -> tuple[str, ...]:
    """The pieces of each word written together, without the "##" of WordPiece.

    WordPiece marks so every piece that goes on a word; where there is one without, "##" is text.

    >>> join_tokens(["[CLS]", "un", "##will", "##ing"], [0, 1, 1, 1])
    ('[CLS]', 'unwilling')
    >>> join_tokens(["a", "##", "b"], [0, 0, 0])
    ('a##b',)
    """
    goes_on = [word == before for before, word in zip([None, *word_ids], word_ids, strict=False)]
    marked = all(token.startswith("##") for token, on in zip(tokens, goes_on, strict=True) if on)
    joined = [""] * (max(word_ids, default=-1) + 1)
    for token, word, on in zip(tokens, word_ids, goes_on, strict=True):
        joined[word] += token.removeprefix("##") if marked and on else token
    return tuple(joined)


def _check_word_ids(word_ids: Sequence[int], count: int) -> None:
    if len(word_ids) != count:
        raise ValueError(
            f"word_ids must name a word for each of {count} tokens, got {len(word_ids)}"
        )
    steps = [after - before for before, after in zip([-1, *word_ids], word_ids, strict=False)]
    if not steps or steps[0] != 1 or not set(steps) <= {0, 1}:
        raise ValueError(f"word indices must run 0, 0, 1, 2, 2, …, got {list(word_ids)[:12]}")
