"""The maps of an attention view, checked and put together: tensors and tokens in, `Maps` out.

Nothing here knows of widgets or of bytes. Maps of different lengths are padded with zeros here, so
that nobody else has to; split words are joined by `attnlib.trace`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, stack
from torch.nn.functional import pad

from attnlib.trace import join_tokens, merge_words

from . import checks
from .numbers import Numbers, check_numbers

Floats = NDArray[np.float32]
Names = tuple[str, ...]
LARGEST = 100_000_000  # weights in one view: more is more than a browser should hold
SPECIAL = r"^(\[[A-Z]+\]|<\|?/?[a-z_]+\|?>)$"  # [CLS], <s>, <|endoftext|>; JavaScript's too


@dataclass(frozen=True)
class Unit:
    """The maps between one kind of unit, tokens or words.

    Attributes:
        name: "tokens" or "words".
        weights: (*axes, rows, columns), zeros beyond the tokens of a shorter map.
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
            tokens change; `Unit.queries[number]` are its tokens.
        units: in which the maps can be shown, tokens first.
        signed: whether entries may be negative.
        numbers: where the weights between tokens come from, if that is known.
    """

    axes: Names
    sizes: tuple[int, ...]
    labels: tuple[Names, ...]
    texts: NDArray[np.int64]
    units: tuple[Unit, ...]
    signed: bool
    numbers: Numbers | None = None

    def unit(self, name: str) -> Unit:
        """The unit of that name.

        Raises:
            ValueError: if the view has none of that name.
        """
        found = {unit.name: unit for unit in self.units}
        if name not in found:
            raise ValueError(f"this view has no {name!r} (it was made without `word_ids=`)")
        return found[name]

    def shown(self, index: Sequence[int], unit: str) -> tuple[Floats, Names, Names]:
        """One map without its padding (queries, keys), its query tokens and its key tokens."""
        chosen = self.unit(unit)
        text = int(self.texts[tuple(index[: self.texts.ndim])])
        queries, keys = chosen.queries[text], chosen.keys[text]
        return chosen.weights[tuple(index)][: len(queries), : len(keys)].numpy(), queries, keys

    def end(self, values: Floats, unit: str, scale: str) -> float:
        """Where the colours of a map end, below 0 too if signed.

        Args:
            values: the map.
            unit: "tokens" or "words".
            scale: "max", at its own largest entry; "one", at 1 or, if signed, at the largest entry
                of all maps.
        """
        if scale == "one" and not self.signed:
            return 1.0
        everything = self.unit(unit).weights.numpy() if scale == "one" else values
        return float(abs(everything).max()) or 1.0

    def where(self, index: Sequence[int]) -> str:
        """The position in words, such as "layer 2, head 5"."""
        named = zip(self.axes, self.labels, index, strict=False)
        return ", ".join(f"{axis} {labels[i]}" for axis, labels, i in named)


class Text(NamedTuple):
    """What one map is about: its queries and keys, and the word of each token, if known."""

    queries: Names
    keys: Names
    word_ids: tuple[int, ...] | None


def prepare(
    weights: Any,
    tokens: Any,
    *,
    sources: Any = None,
    axes: str | Sequence[str] = ("layer", "head"),
    labels: Mapping[str, Sequence[object]] | None = None,
    word_ids: Any = None,
    signed: bool = False,
    numbers: Sequence[Any] | None = None,
) -> Maps:
    """Check everything a view is given; the arguments are those of `AttentionView`."""
    if word_ids is not None and (signed or sources is not None):
        raise ValueError(
            "`word_ids` sums weights of tokens, so it goes with no sources and no sign"
        )
    names = checks.check_axes(axes)
    outer = names[: _depth(weights, tokens, sources, names)]
    items, sizes = checks.flatten(weights, outer, "weights")
    texts = _texts(tokens, sources, word_ids, outer, sizes)
    leaves = _leaves(items, texts, names[len(outer) :], sizes, signed)
    checks.check_size(leaves, LARGEST)
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    places = np.array([different[text] for text in texts]).reshape(sizes)
    units = _units(leaves, texts, list(different), sizes)
    shape = tuple(units[0].weights.shape[:-2])
    named = checks.check_labels(labels or {}, names, shape)
    behind = None if numbers is None else _numbers(numbers, leaves, names, sizes)
    return Maps(names, shape, named, places, units, signed, behind)


def ordinary(values: Floats, queries: Names, keys: Names) -> tuple[Floats, str]:
    """A map without what draws most weight anywhere, and the name of what was taken out, or "".

    Special tokens, and the first token of a causal map, become 0, unless that leaves nothing.

    >>> ordinary(np.array([[0.9, 0.1], [0.6, 0.4]]), ("[CLS]", "film"), ("[CLS]", "film"))
    (array([[0. , 0. ],
           [0. , 0.4]]), 'special tokens')
    """
    kept, causal = (
        values.copy(),
        values.shape[0] == values.shape[1] and not np.triu(values, 1).any(),
    )
    rows, columns = ([bool(re.match(SPECIAL, name)) for name in side] for side in (queries, keys))
    if causal:
        kept[0] = kept[:, 0] = 0
    kept[rows] = 0
    kept[:, columns] = 0
    found = {"the first token": causal, "special tokens": any(rows) or any(columns)}
    told = " and ".join(name for name, out in found.items() if out)
    return (kept, told) if kept.any() else (values, "")


def _depth(weights: Any, tokens: Any, sources: Any, names: Names) -> int:
    """Along how many of the first axes the maps are nested lists, or the tokens change."""
    depth = max(
        checks.levels(weights, lambda one: getattr(one, "ndim", 0) > 0),
        checks.levels(tokens, lambda one: isinstance(one, str)) - 1,
        checks.levels(sources, lambda one: isinstance(one, str)) - 1,
    )
    if depth > len(names):
        raise ValueError(f"there are {depth} levels of lists, but the axes are {names}: name each")
    return max(depth, 0)


def _texts(
    tokens: Any, sources: Any, word_ids: Any, outer: Names, sizes: tuple[int, ...]
) -> list[Text]:
    """The text of every item: given once for all, or nested as the maps are."""

    def each(name: str, given: Any, kind: type) -> list[Any]:
        if checks.levels(given, lambda one: isinstance(one, kind)) < 2:
            return [given] * math.prod(sizes)
        flat, found = checks.flatten(given, outer, f"`{name}`")
        if found != sizes:
            raise ValueError(f"`{name}` is nested {found}, but the maps {sizes}")
        return flat

    queries = [checks.check_list("tokens", one) for one in each("tokens", tokens, str)]
    keys = queries
    ids: list[Any] = [None] * len(queries)
    if sources is not None:
        keys = [checks.check_list("sources", one) for one in each("sources", sources, str)]
    if word_ids is not None:
        ids = [tuple(map(int, one)) for one in each("word_ids", word_ids, int)]
    return [Text(*one) for one in zip(queries, keys, ids, strict=True)]


def _leaves(
    items: list[Any], texts: list[Text], inner: Names, sizes: tuple[int, ...], signed: bool
) -> list[Tensor]:
    """The maps of every item, (*inner, query, key), checked."""
    leaves: list[Tensor] = []
    for place, item, text in zip(np.ndindex(sizes), items, texts, strict=True):
        name = _name(place)
        leaf = checks.check_weights(name, item, inner, signed)
        leaves.append(leaf)
        checks.check_fit(name, leaf, leaves[0], len(text.queries), len(text.keys))
    return leaves


def _units(
    leaves: list[Tensor], texts: list[Text], different: list[Text], sizes: tuple[int, ...]
) -> tuple[Unit, ...]:
    queries, keys = tuple(t.queries for t in different), tuple(t.keys for t in different)
    tokens = Unit("tokens", _padded(leaves, sizes), queries, keys)
    if different[0].word_ids is None:
        return (tokens,)
    merged = [merge_words(leaf, t.word_ids or ()) for leaf, t in zip(leaves, texts, strict=True)]
    words = tuple(join_tokens(t.queries, t.word_ids or ()) for t in different)
    return tokens, Unit("words", _padded(merged, sizes), words, words)


def _numbers(
    pair: Sequence[Any], leaves: list[Tensor], names: Names, sizes: tuple[int, ...]
) -> Numbers:
    """The numbers behind all maps, from (queries, keys), each nested as the maps are."""
    outer, inner, found = names[: len(sizes)], names[len(sizes) :], []
    sides = [checks.flatten(part, outer, "queries and keys") for part in pair]
    if len(sides) != 2 or any(shape != sizes for _, shape in sides):
        raise ValueError(f"numbers must be (queries, keys), each nested {sizes} as the maps are")
    for place, leaf, *two in zip(np.ndindex(sizes), leaves, *(s[0] for s in sides), strict=True):
        found.append(check_numbers(_name(place), leaf, two, inner))
    if len(widths := {one.queries.shape[-1] for one in found}) > 1:
        raise ValueError(f"all queries and keys must have one width d_k, got {sorted(widths)}")
    return Numbers(*(_padded(list(parts), sizes) for parts in zip(*found, strict=True)))


def _name(place: tuple[int, ...]) -> str:
    return "weights" + "".join(f"[{i}]" for i in place)


def _padded(leaves: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """Maps (…, rows, columns) of different lengths as one tensor, zeros around the short ones."""
    rows, columns = (max(leaf.shape[side] for leaf in leaves) for side in (-2, -1))
    same = [pad(leaf, (0, columns - leaf.shape[-1], 0, rows - leaf.shape[-2])) for leaf in leaves]
    return stack(same).reshape(*sizes, *same[0].shape)
