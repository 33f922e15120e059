"""What a view is given, checked one piece at a time; every error says what came instead."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1e-3  # how far above 1 rounding may carry a weight
SOFTMAX = "pass the weights after the softmax, not the scores"


def check_axes(axes: str | Sequence[str]) -> tuple[str, ...]:
    """The names of the axes before (query, key), as a tuple."""
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    if any(not isinstance(name, str) or not name for name in names) or len(set(names)) < len(names):
        raise ValueError(f"axes must be different, non-empty names, got {names}")
    return names


def flatten(nested: Any, names: Sequence[str], what: str) -> tuple[list[Any], tuple[int, ...]]:
    """Nested lists as one list, row by row, and the size of every level.

    Args:
        nested: one level of lists (or of an array) for each of the names; none: a single item.
        names: of the levels.
        what: the items are called in an error.

    >>> flatten([["a", "b"], ["c", "d"], ["e", "f"]], ("n", "t"), "frames")
    (['a', 'b', 'c', 'd', 'e', 'f'], (3, 2))
    """
    level, sizes = [nested], []
    for name in names:
        lists = [isinstance(one, list | tuple) or getattr(one, "ndim", 0) > 0 for one in level]
        lengths = {len(one) if ok else -1 for one, ok in zip(level, lists, strict=True)}
        if len(lengths) != 1 or min(lengths) < 1:
            raise ValueError(
                f"{what} must be {len(names)} levels of lists, {tuple(names)}, all of one length "
                f"and none empty; at {name!r} the lengths are {sorted(lengths)} (-1: no list)"
            )
        sizes.append(lengths.pop())
        level = [inner for one in level for inner in one]
    return level, tuple(sizes)


def levels(nested: Any, innermost: Callable[[Any], bool]) -> int:
    """How many levels of lists stand above the first thing of a kind; 0 where there is none.

    >>> levels([["a"], ["b", "c"]], lambda one: isinstance(one, str))
    2
    """
    count = 0
    while isinstance(nested, list | tuple) and nested:
        nested, count = nested[0], count + 1
    return count if innermost(nested) else 0


def check_weights(name: str, weights: Any, axes: Sequence[str], signed: bool) -> Tensor:
    """Maps as float32 (*axes, query, key), in 0…1 or, where signed, of any finite size.

    That rows sum to 1 is *not* asked: a masked row is all zeros.
    """
    try:
        maps = torch.as_tensor(weights).detach().cpu().to(torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be one array of numbers (*axes, query, key): {error}"
        ) from None
    expected = (*axes, "query", "key")
    if maps.ndim != len(expected):
        raise ValueError(
            f"{name} must have {len(expected)} axes {expected}, got shape {tuple(maps.shape)}; "
            "name the axes before (query, key) with `axes=`"
        )
    if maps.numel() == 0:
        raise ValueError(f"{name} are empty: shape {tuple(maps.shape)} for axes {expected}")
    least, most = (one.item() for one in maps.aminmax())  # NaN if there is one
    if (0 <= least and most <= 1 + TOLERANCE) or (signed and math.isfinite(least + most)):
        return maps
    refuse(name, maps, ~maps.isfinite(), "not finite", "look for a softmax over nothing but −∞")
    if not signed:
        refuse(name, maps, maps < 0, "negative", f"{SOFTMAX}; a map with a sign needs signed=True")
        refuse(name, maps, maps > 1 + TOLERANCE, "above 1", SOFTMAX)
    return maps


def refuse(name: str, maps: Tensor, fault: Tensor, what: str, advice: str) -> None:
    """Stop with the first entry that is at fault, if one is."""
    if fault.any():
        first = tuple(fault.nonzero()[0].tolist())
        raise ValueError(
            f"{name} must be finite, and in 0…1 unless signed; {int(fault.sum())} of "
            f"{maps.numel()} are {what} (the first, {maps[first].item():.4g}, at {first}): {advice}"
        )


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


def check_fit(name: str, maps: Tensor, like: Tensor, queries: int, keys: int) -> None:
    """Stop unless the maps have a row and a column per token, and the axes of the others."""
    if maps.shape[:-2] != like.shape[:-2]:
        raise ValueError(
            f"all maps must have the same axes before (query, key); {name} has "
            f"{tuple(maps.shape[:-2])}, the first {tuple(like.shape[:-2])}"
        )
    if tuple(maps.shape[-2:]) != (queries, keys):
        raise ValueError(
            f"{name} has {maps.shape[-2]} queries and {maps.shape[-1]} keys, but there are "
            f"{queries} and {keys} tokens; if the keys are not the tokens, pass `sources=`"
        )


def check_size(leaves: Sequence[Tensor], most: int) -> None:
    """Stop if there is more than a browser can hold."""
    count = sum(leaf.numel() for leaf in leaves)
    if count > most:
        raise ValueError(
            f"a view shows at most {most:,} weights, and these maps have {count:,}: take a shorter "
            "text, or fewer layers, such as Trace(trace.tokens, trace.attention[20:])"
        )


def check_labels(
    labels: Mapping[str, Sequence[object]], axes: Sequence[str], sizes: Sequence[int]
) -> tuple[tuple[str, ...], ...]:
    """One label per position of every axis; 0, 1, 2, … where none are given."""
    for name in labels:
        if name not in axes:
            raise ValueError(f"labels are given for {name!r}, but the axes are {tuple(axes)}")
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
        whole = hasattr(i, "__index__") and not isinstance(i, bool)
        if not whole or not 0 <= i < size:
            raise ValueError(f"{name} must be an integer from 0 to {size - 1}, got {i!r}")
    return tuple(int(i) for i in index)


def check_overlay(
    overlay: Sequence[int], axes: Sequence[str], sizes: Sequence[int], signed: bool
) -> tuple[int, ...]:
    """Up to three different positions on the last axis; none for signed maps."""
    if overlay and (signed or not axes):
        raise ValueError("overlay is for weights with a last axis, and not for maps with a sign")
    if len(overlay) > 3 or len(set(overlay)) < len(overlay):
        raise ValueError(f"overlay must be up to three different positions, got {overlay}")
    return tuple(check_index([i], axes[-1:], sizes[-1:])[0] for i in overlay)


def check_start(
    start: Mapping[str, int] | None, axes: Sequence[str], sizes: Sequence[int]
) -> tuple[int, ...]:
    """The index to begin with: what `start` names, 0 elsewhere."""
    for name in start or {}:
        if name not in axes:
            raise ValueError(f"start names {name!r}, but the axes are {tuple(axes)}")
    return check_index([(start or {}).get(name, 0) for name in axes], axes, sizes)
