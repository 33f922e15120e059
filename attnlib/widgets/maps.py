"""The maps of an attention view, checked and put together: weights and tokens in, `Maps` out.

Nothing here knows of widgets or of bytes. Maps of texts of different lengths are padded with zeros
here, so that nobody else has to; split words are joined by `attnlib.trace`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, stack
from torch.nn.functional import pad

from attnlib.plots import visible
from attnlib.trace import join_tokens, merge_words

from . import checks
from .numbers import Numbers, check_numbers

Floats = NDArray[np.float32]
Names = tuple[str, ...]
SPECIAL = r"^(\[[A-Z]+\]|<\|?/?[a-z_]+\|?>)$"  # [CLS], <s>, <|endoftext|>; JavaScript's too


@dataclass(frozen=True)
class Text:
    """What the maps of one text are about.

    Attributes:
        queries: the destinations, one for each row of a map.
        keys: the sources, one for each column.
        word_ids: the word index of each token, if it is known, and the keys are the queries.
        words: what each word is called, where that is not its tokens joined.
    """

    queries: Names
    keys: Names
    word_ids: tuple[int, ...] | None = None
    words: Names | None = None


@dataclass(frozen=True)
class Unit:
    """The maps between tokens, or between words.

    Attributes:
        name: "tokens" or "words".
        weights: (*axes, rows, columns), zeros beyond the tokens of a shorter text.
        queries, keys: for every text, what its rows and columns are called.
    """

    name: str
    weights: Tensor
    queries: tuple[Names, ...]
    keys: tuple[Names, ...]


@dataclass(frozen=True)
class Maps:
    """All maps of a view.

    Attributes:
        axes, sizes, labels: name, size and labels of every axis before (query, key).
        texts: the number of the text at each position of the first axes, those along which the
            text changes; `Unit.queries[number]` are its tokens.
        units: in which the maps can be shown, tokens first.
        numbers: where the weights between tokens come from, if that is known.
    """

    axes: Names
    sizes: tuple[int, ...]
    labels: tuple[Names, ...]
    texts: NDArray[np.int64]
    units: tuple[Unit, ...]
    numbers: Numbers | None = None

    def unit(self, name: str) -> Unit:
        """The unit of that name.

        Raises:
            ValueError: if the view has none of that name.
        """
        for unit in self.units:
            if unit.name == name:
                return unit
        raise ValueError(f"this view has no {name!r}: it does not know the words of its tokens")

    def at(self, index: Sequence[int], unit: str) -> tuple[Floats, Names, Names]:
        """One map without its padding (queries, keys), its query tokens and its key tokens."""
        chosen = self.unit(unit)
        text = int(self.texts[tuple(index[: self.texts.ndim])])
        queries, keys = chosen.queries[text], chosen.keys[text]
        return chosen.weights[tuple(index)][: len(queries), : len(keys)].numpy(), queries, keys

    def where(self, index: Sequence[int]) -> str:
        """The position in words, such as "layer 2, head 5"."""
        named = zip(self.axes, self.labels, index, strict=True)
        return ", ".join(f"{axis} {labels[i]}" for axis, labels, i in named)


def maps_of_array(
    weights: Any,
    tokens: Sequence[str],
    *,
    sources: Sequence[str] | None,
    axes: str | Sequence[str],
    labels: Mapping[str, Sequence[object]] | None,
    numbers: tuple[Any, Any] | None,
) -> Maps:
    """The maps of one text in one array; the arguments are those of `AttentionView`."""
    names = checks.check_axes(axes)
    queries = checks.check_strings("tokens", tokens)
    keys = queries if sources is None else checks.check_strings("sources", sources)
    maps = checks.check_weights("weights", weights, names)
    checks.check_fit(maps, len(queries), len(keys))
    behind = None if numbers is None else check_numbers(maps, numbers, names)
    return put_together([maps], [Text(queries, keys)], (), names, labels or {}, behind)


def put_together(
    leaves: Sequence[Tensor],
    texts: Sequence[Text],
    sizes: tuple[int, ...],
    axes: Names,
    labels: Mapping[str, Sequence[object]],
    numbers: Numbers | None = None,
) -> Maps:
    """The maps of several texts as those of one view.

    Args:
        leaves: for each text (*inner, query, key) in float32 on the CPU; `inner` is the same.
        texts: of each of them, in the same order; equal ones are kept once.
        sizes: of the axes along which the text changes; their product is the number of texts.
        axes: the names of these axes, and of the inner ones after them.
        labels: axis → what its positions are called.
        numbers: where the weights come from.
    """
    checks.check_size(leaves)
    number_of = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    places = np.array([number_of[text] for text in texts]).reshape(sizes)
    units = [_tokens(leaves, tuple(number_of), sizes)]
    if all(text.word_ids is not None for text in texts):
        units.append(_words(leaves, texts, tuple(number_of), sizes))
    shape = tuple(units[0].weights.shape[:-2])
    named = checks.check_labels(labels, axes, shape)
    return Maps(axes, shape, named, places, tuple(units), numbers)


def _tokens(leaves: Sequence[Tensor], different: Sequence[Text], sizes: tuple[int, ...]) -> Unit:
    queries = tuple(text.queries for text in different)
    keys = tuple(text.keys for text in different)
    return Unit("tokens", _padded(leaves, sizes), queries, keys)


def _words(
    leaves: Sequence[Tensor],
    texts: Sequence[Text],
    different: Sequence[Text],
    sizes: tuple[int, ...],
) -> Unit:
    merged = [
        merge_words(leaf, text.word_ids or ()) for leaf, text in zip(leaves, texts, strict=True)
    ]
    words = tuple(
        text.words or join_tokens(text.queries, text.word_ids or ()) for text in different
    )
    return Unit("words", _padded(merged, sizes), words, words)


def _padded(leaves: Sequence[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """Maps (…, rows, columns) of different lengths as one tensor, zeros around the short ones."""
    rows = max(leaf.shape[-2] for leaf in leaves)
    columns = max(leaf.shape[-1] for leaf in leaves)
    same = [pad(leaf, (0, columns - leaf.shape[-1], 0, rows - leaf.shape[-2])) for leaf in leaves]
    return stack(same).reshape(*sizes, *same[0].shape)


def has_sink(weights: Floats, queries: Names, keys: Names) -> bool:
    """Whether the first token of a causal map takes more than half of the attention of the others.

    >>> weights = np.tril(np.full((4, 4), 0.1))
    >>> has_sink(weights, tuple("abcd"), tuple("abcd"))
    False
    >>> weights[1:, 0] = 0.6
    >>> has_sink(weights, tuple("abcd"), tuple("abcd"))
    True
    """
    causal = queries == keys and not np.triu(weights, 1).any()
    return causal and len(queries) > 3 and bool(weights[1:, 0].mean() > 0.5)


def strongest(weights: Floats, queries: Names, keys: Names) -> str:
    """The strongest weight of a map in words, and what was left out of the search.

    >>> strongest(np.array([[0.9, 0.1], [0.6, 0.4]]), ("[CLS]", "film"), ("[CLS]", "film"))
    'Strongest weight 0.40, from “film” to “film” (special tokens apart).'
    """
    searched, apart = _ordinary(weights, queries, keys)
    row, column = divmod(int(searched.argmax()), searched.shape[1])
    weight = float(searched[row, column])
    number = f"{weight:.2f}" if weight >= 0.01 or not weight else f"{weight:.2g}"
    pair = f"from “{visible(queries[row])}” to “{visible(keys[column])}”"
    return f"Strongest weight {number}, {pair}{f' ({apart} apart)' if apart else ''}."


def _ordinary(weights: Floats, queries: Names, keys: Names) -> tuple[Floats, str]:
    """A map without what draws most weight anywhere, and the name of what was taken out, or "".

    Special tokens, and the first token of a causal map, become 0, unless that leaves nothing.
    """
    special_rows = [bool(re.match(SPECIAL, name)) for name in queries]
    special_columns = [bool(re.match(SPECIAL, name)) for name in keys]
    causal = weights.shape[0] == weights.shape[1] and not np.triu(weights, 1).any()
    apart = []
    ordinary = weights.copy()
    if causal:
        apart.append("the first token")
        ordinary[0] = ordinary[:, 0] = 0
    if any(special_rows) or any(special_columns):
        apart.append("special tokens")
        ordinary[special_rows] = 0
        ordinary[:, special_columns] = 0
    return (ordinary, " and ".join(apart)) if ordinary.any() else (weights, "")
