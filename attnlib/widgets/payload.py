"""What an attention view is given, checked and packed into bytes for the browser.

Nothing here knows of widgets: arrays and token lists go in, a `Maps` record comes out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..trace import join_tokens, merge_words

Floats = NDArray[np.float32]
Tokens = tuple[tuple[str, ...], ...]  # one tuple of tokens, or one per item of the token axis

EXACT_LIMIT = 200_000  # up to so many entries, exact weights travel along with the drawing
TOLERANCE = 1e-3  # how far above 1 rounding may carry a weight
WHITESPACE = {" ": "·", "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}


@dataclass(frozen=True)
class Unit:
    """The maps between one kind of unit, tokens or words: weights (*axes, rows, columns)."""

    name: str
    weights: Floats
    queries: Tokens
    keys: Tokens


@dataclass(frozen=True)
class Maps:
    """All maps of a view: named axes, their labels, and the units to show them in."""

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    token_axis: int | None
    units: tuple[Unit, ...]

    def unit(self, name: str) -> Unit:
        """The unit of that name.

        Raises:
            ValueError: if the view has none of that name.
        """
        found = {unit.name: unit for unit in self.units}
        if name not in found:
            raise ValueError(f"this view has no {name!r} (it was made without `words=`)")
        return found[name]

    def shown(
        self, index: Sequence[int], unit: str
    ) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
        """One map without its padding (queries, keys), its query tokens and its key tokens."""
        chosen = self.unit(unit)
        item = 0 if self.token_axis is None else index[self.token_axis]
        queries, keys = chosen.queries[item], chosen.keys[item]
        return chosen.weights[tuple(index)][: len(queries), : len(keys)], queries, keys

    def where(self, index: Sequence[int]) -> str:
        """The position in words.

        >>> Maps(("layer", "head"), (6, 12), (tuple("012345"), tuple("abcdefghijkl")), None,
        ...      ()).where((2, 5))
        'layer 2, head f'
        """
        named = zip(self.axes, self.labels, index, strict=True)
        return ", ".join(f"{axis} {labels[i]}" for axis, labels, i in named)


def prepare(
    weights: Any,
    tokens: Any,
    *,
    sources: Any = None,
    axes: Sequence[str] = ("layer", "head"),
    labels: Mapping[str, Sequence[object]] | None = None,
    token_axis: str | None = None,
    words: Any = None,
) -> Maps:
    """Check everything a view is given; the arguments are those of `AttentionView`."""
    names = check_axes(axes, token_axis)
    array = check_weights(weights, names)
    sizes = array.shape[:-2]
    place = None if token_axis is None else names.index(token_axis)
    items = None if place is None else sizes[place]
    if sources is None and array.shape[-2] != array.shape[-1]:
        raise ValueError(
            f"the maps have {array.shape[-2]} queries and {array.shape[-1]} keys, so the keys are "
            "not the tokens: pass the key tokens as `sources=`"
        )
    queries = check_tokens("tokens", tokens, array.shape[-2], items, "queries")
    keys = (
        queries
        if sources is None
        else check_tokens("sources", sources, array.shape[-1], items, "keys")
    )
    unit = Unit("tokens", array, queries, keys)
    check_padding(unit, place)
    units = [unit]
    if words is not None:
        if sources is not None:
            raise ValueError("`words` joins queries and keys alike, so it cannot go with `sources`")
        units.append(between_words(unit, words, place))
    return Maps(names, sizes, check_labels(labels or {}, names, sizes), place, tuple(units))


def check_axes(axes: Sequence[str], token_axis: str | None) -> tuple[str, ...]:
    """The names of the axes before (query, key), as a tuple."""
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    if any(not isinstance(name, str) or not name for name in names) or len(set(names)) < len(names):
        raise ValueError(f"axes must be different, non-empty names, got {names}")
    if token_axis is not None and token_axis not in names:
        raise ValueError(f"token_axis must be one of the axes {names}, got {token_axis!r}")
    return names


def check_weights(weights: Any, axes: tuple[str, ...]) -> Floats:
    """A read-only float32 copy (*axes, query, key) of weights in 0…1.

    Checked: the number of axes, that nothing is empty, that every entry is finite, ≥ 0 and
    ≤ 1 + 0.001. That rows sum to 1 is *not* asked: a masked row is all zeros.
    """
    if isinstance(weights, torch.Tensor):
        weights = weights.detach().cpu().to(torch.float32).numpy()
    try:
        array: Floats = np.array(weights, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"weights must be one array of numbers (*axes, query, key): {error}"
        ) from None
    expected = (*axes, "query", "key")
    if array.ndim != len(expected):
        raise ValueError(
            f"weights must have {len(expected)} axes {expected}, got shape {array.shape}; "
            "name the axes before (query, key) with `axes=`"
        )
    if array.size == 0:
        raise ValueError(f"weights are empty: shape {array.shape} for axes {expected}")
    faults = (
        (~np.isfinite(array), "not finite", "look for a softmax over a row that may see nothing"),
        (array < 0, "negative", "pass the weights after the softmax, not the scores"),
        (array > 1 + TOLERANCE, "above 1", "pass the weights after the softmax, not the scores"),
    )
    for fault, what, advice in faults:
        if fault.any():
            first = tuple(int(i) for i in np.argwhere(fault)[0])
            raise ValueError(
                f"attention weights must lie in 0…1; {int(fault.sum())} of {array.size} are {what} "
                f"(the first, {array[first]}, at {first}): {advice}"
            )
    array.flags.writeable = False
    return array


def check_tokens(name: str, tokens: Any, size: int, items: int | None, side: str) -> Tokens:
    """The tokens of one side: one tuple of exactly `size`, or one per item of at most `size`."""
    if items is None:
        one = check_list(name, tokens)
        if len(one) != size:
            raise ValueError(f"the maps have {size} {side}, but `{name}` has {len(one)} tokens")
        return (one,)
    if isinstance(tokens, str) or not isinstance(tokens, Sequence) or len(tokens) != items:
        raise ValueError(f"with token_axis, `{name}` must be {items} lists of tokens, one per item")
    lists = tuple(check_list(f"{name}[{i}]", one) for i, one in enumerate(tokens))
    longest = max(len(one) for one in lists)
    if longest > size:
        raise ValueError(
            f"the maps have {size} {side}, but `{name}` has an item of {longest} tokens"
        )
    return lists


def check_list(name: str, tokens: Any) -> tuple[str, ...]:
    """One non-empty tuple of strings."""
    if isinstance(tokens, str) or not isinstance(tokens, Sequence):
        raise ValueError(
            f"`{name}` must be a list of strings, got {type(tokens).__name__}: {tokens!r:.60}"
        )
    if len(tokens) == 0:
        raise ValueError(f"`{name}` is empty: there must be one string per row of the map")
    for token in tokens:
        if not isinstance(token, str):
            raise ValueError(
                f"`{name}` must hold strings, got {token!r:.60}: use [str(t) for t in {name}]"
            )
    return tuple(tokens)


def check_labels(
    labels: Mapping[str, Sequence[object]], axes: tuple[str, ...], sizes: tuple[int, ...]
) -> tuple[tuple[str, ...], ...]:
    """One label per position of every axis; 0, 1, 2, … where none are given."""
    for name in labels:
        if name not in axes:
            raise ValueError(f"labels are given for {name!r}, but the axes are {axes}")
    result = []
    for name, size in zip(axes, sizes, strict=True):
        given = tuple(str(label) for label in labels.get(name, range(size)))
        if len(given) != size:
            raise ValueError(f"axis {name!r} has {size} positions, but {len(given)} labels")
        result.append(given)
    return tuple(result)


def check_index(index: Sequence[int], axes: Sequence[str], sizes: Sequence[int]) -> tuple[int, ...]:
    """A position on every axis, each an integer in range."""
    if len(index) != len(axes):
        raise ValueError(f"index must give one position for each of {tuple(axes)}, got {index}")
    for i, name, size in zip(index, axes, sizes, strict=True):
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < size:
            raise ValueError(f"{name} must be an integer from 0 to {size - 1}, got {i!r}")
    return tuple(int(i) for i in index)


def check_start(
    start: Mapping[str, int] | None, axes: Sequence[str], sizes: Sequence[int]
) -> tuple[int, ...]:
    """The index to begin with: what `start` names, 0 elsewhere."""
    for name in start or {}:
        if name not in axes:
            raise ValueError(f"start names {name!r}, but the axes are {tuple(axes)}")
    return check_index([(start or {}).get(name, 0) for name in axes], axes, sizes)


def check_padding(unit: Unit, token_axis: int | None) -> None:
    """Beyond an item's tokens there may only be zeros: anything else would be hidden."""
    if token_axis is None:
        return
    by_item = np.moveaxis(unit.weights, token_axis, 0)
    for i, (maps, queries, keys) in enumerate(zip(by_item, unit.queries, unit.keys, strict=True)):
        if maps[..., len(queries) :, :].any() or maps[..., len(keys) :].any():
            raise ValueError(
                f"item {i} has {len(queries)} × {len(keys)} tokens, but weights beyond them: "
                "pad the maps with zeros, or give the missing tokens"
            )


def between_words(unit: Unit, words: Any, token_axis: int | None) -> Unit:
    """The same maps between words: summed to a split word, averaged from it."""
    lists = [words] if token_axis is None else list(words)
    if len(lists) != len(unit.queries):
        raise ValueError(
            f"with token_axis, `words` must be {len(unit.queries)} lists, got {len(lists)}"
        )
    for tokens, one in zip(unit.queries, lists, strict=True):
        if len(one) != len(tokens):
            raise ValueError(
                f"`words` must give each of {len(tokens)} tokens its word, got {len(one)}"
            )
    joined = tuple(join_tokens(t, w) for t, w in zip(unit.queries, lists, strict=True))
    place = 0 if token_axis is None else token_axis
    items = [unit.weights] if token_axis is None else list(np.moveaxis(unit.weights, place, 0))
    size = max(len(tokens) for tokens in joined)
    merged = []
    for maps, tokens, one in zip(items, unit.queries, lists, strict=True):
        cut = torch.tensor(maps[..., : len(tokens), : len(tokens)])
        small = merge_words(cut, [int(i) for i in one]).numpy()
        pad = [(0, 0)] * (small.ndim - 2) + [(0, size - small.shape[-1])] * 2
        merged.append(np.pad(small, pad))
    array = merged[0] if token_axis is None else np.stack(merged, place)
    return Unit("words", array, joined, joined)


def visible(token: str) -> str:
    """A token as it is drawn: white space and control characters can be seen.

    >>> visible(" film"), visible("\\n"), visible("")
    ('·film', '↵', '∅')
    """
    shown = "".join(WHITESPACE.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in token)
    return shown or "∅"


def quantise(weights: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Each map in 255 steps of its own maximum, so that a map of weights near 1/512 still shows.

    Args:
        weights: (*axes, query, key), ≥ 0.

    Returns:
        uint8 maps (n, query, key) and float32 maxima (n,); weights ≈ maps · maxima / 255.
    """
    maps = weights.reshape(-1, *weights.shape[-2:])
    largest: Floats = maps.max((-2, -1))
    steps = np.empty(maps.shape, dtype=np.uint8)
    for target, one, top in zip(steps, maps, largest, strict=True):
        target[:] = np.rint(one / top * 255) if top > 0 else 0  # no 255 / top: it may overflow
    return steps, largest


def pack(maps: Maps) -> tuple[dict[str, Any], bytes]:
    """What the browser draws from: a description with offsets, and all bytes in one piece."""
    exact = sum(unit.weights.size for unit in maps.units) <= EXACT_LIMIT
    blob = bytearray()

    def add(array: NDArray[Any]) -> list[int]:
        start = len(blob)
        blob.extend(np.ascontiguousarray(array).tobytes())
        return [start, len(blob) - start]

    units = []
    for unit in maps.units:
        steps, largest = quantise(unit.weights)
        units.append({
            "name": unit.name, "rows": unit.weights.shape[-2], "cols": unit.weights.shape[-1],
            "queries": [[visible(t) for t in one] for one in unit.queries],
            "keys": [[visible(t) for t in one] for one in unit.keys],
            "scales": add(largest.astype("<f4")), "maps": add(steps),
            "exact": add(unit.weights.astype("<f4")) if exact else None,
        })  # fmt: skip
    axes = zip(maps.axes, maps.labels, strict=True)
    spec = {
        "axes": [{"name": name, "labels": list(labels)} for name, labels in axes],
        "tokenAxis": maps.token_axis,
        "units": units,
    }
    return spec, bytes(blob)
