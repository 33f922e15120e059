"""What a view is given, checked one piece at a time; every error says what came instead."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1e-3  # how far above 1 rounding may carry a weight
LARGEST = 100_000_000  # weights in one view: more is more than a browser should hold
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
        nested: one level of lists or tuples for each of the names; none: a single item.
        names: of the levels.
        what: the items are called in an error.

    >>> flatten([["a", "b"], ["c", "d"], ["e", "f"]], ("n", "t"), "frames")
    (['a', 'b', 'c', 'd', 'e', 'f'], (3, 2))
    """
    items, sizes = [nested], []
    for name in names:
        lengths = {len(item) if isinstance(item, list | tuple) else -1 for item in items}
        if len(lengths) != 1 or min(lengths) < 1:
            raise ValueError(
                f"{what} must be {len(names)} levels of lists, {tuple(names)}, all of one length "
                f"and none empty; at {name!r} the lengths are {sorted(lengths)} (-1: no list)"
            )
        sizes.append(lengths.pop())
        items = [inner for item in items for inner in item]
    return items, tuple(sizes)


def check_numerals(name: str, array: Any, axes: Sequence[str]) -> Tensor:
    """An array of any library, device and precision as finite float32 on the CPU.

    Raises:
        ValueError: if it is no array, has other axes, is empty, or an entry is not finite.
    """
    try:
        numerals = torch.as_tensor(array, device="cpu").detach().to(torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be one array of numbers {tuple(axes)}: {error}. Maps of texts of "
            "different lengths are shown by explore, as a list of traces"
        ) from None
    if numerals.ndim != len(axes):
        raise ValueError(
            f"{name} must have {len(axes)} axes {tuple(axes)}, got shape {tuple(numerals.shape)}; "
            "name the axes before the last two with `axes=`"
        )
    if numerals.numel() == 0:
        raise ValueError(f"{name} are empty: shape {tuple(numerals.shape)} for axes {tuple(axes)}")
    advice = "look for a softmax over nothing but −∞"
    _refuse(name, numerals, ~numerals.isfinite(), "not finite", advice)
    return numerals


def check_weights(name: str, weights: Any, axes: Sequence[str]) -> Tensor:
    """Maps (*axes, query, key) as float32 in 0…1 on the CPU.

    That rows sum to 1 is *not* asked: a masked row is all zeros.
    """
    maps = check_numerals(name, weights, (*axes, "query", "key"))
    _refuse(name, maps, maps < 0, "negative", SOFTMAX)
    _refuse(name, maps, maps > 1 + TOLERANCE, "above 1", SOFTMAX)
    return maps


def _refuse(name: str, array: Tensor, fault: Tensor, what: str, advice: str) -> None:
    """Stop with the first entry that is at fault, if one is."""
    if fault.any():
        first = tuple(fault.nonzero()[0].tolist())
        raise ValueError(
            f"{int(fault.sum())} of {array.numel()} {name} are {what} (the first, "
            f"{array[first].item():.4g}, at {first}): {advice}"
        )


def check_strings(name: str, tokens: Any) -> tuple[str, ...]:
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


def check_fit(maps: Tensor, queries: int, keys: int) -> None:
    """Stop unless the maps have a row and a column for every token."""
    if tuple(maps.shape[-2:]) != (queries, keys):
        raise ValueError(
            f"weights have {maps.shape[-2]} queries and {maps.shape[-1]} keys, but there are "
            f"{queries} and {keys} tokens; if the keys are not the tokens, pass `sources=`"
        )


def check_size(maps: Sequence[Tensor]) -> None:
    """Stop if there is more than a browser can hold."""
    count = sum(part.numel() for part in maps)
    if count > LARGEST:
        raise ValueError(
            f"a view shows at most {LARGEST:,} weights, and these maps have {count:,}: take a "
            "shorter text, or fewer layers, such as Trace(trace.tokens, trace.pattern[20:])"
        )


def check_labels(
    labels: Mapping[str, Sequence[object]], axes: Sequence[str], sizes: Sequence[int]
) -> tuple[tuple[str, ...], ...]:
    """One label per position of every axis; 0, 1, 2, … where there are none."""
    for name in labels:
        if name not in axes:
            raise ValueError(f"labels name {name!r}, but the axes are {tuple(axes)}")
    checked = []
    for name, size in zip(axes, sizes, strict=True):
        strings = tuple(str(label) for label in labels.get(name, range(size)))
        if len(strings) != size:
            raise ValueError(f"axis {name!r} has {size} positions, but {len(strings)} labels")
        checked.append(strings)
    return tuple(checked)


def check_index(index: Sequence[int], axes: Sequence[str], sizes: Sequence[int]) -> tuple[int, ...]:
    """A position on every axis, each an integer in range."""
    if len(index) != len(axes):
        raise ValueError(f"index must give one position for each of {tuple(axes)}, got {index}")
    for i, name, size in zip(index, axes, sizes, strict=True):
        whole = hasattr(i, "__index__") and not isinstance(i, bool)
        if not whole or not 0 <= i < size:
            raise ValueError(f"{name} must be an integer from 0 to {size - 1}, got {i!r}")
    return tuple(int(i) for i in index)


def check_play(play: str | None, axes: Sequence[str]) -> str | None:
    """The axis that has a button to play it: the named one, or one whose name ends with "step"."""
    if play is not None and play not in axes:
        raise ValueError(f"play names {play!r}, but the axes are {tuple(axes)}")
    return play or next((axis for axis in axes if axis.endswith("step")), None)


def check_opened(
    opened: Sequence[int] | None, numbered: bool, size: Sequence[int]
) -> list[int] | None:
    """The cell (row, column) whose numbers are shown at first, of a map of this size, or None."""
    if opened is None:
        return None
    if not numbered:
        raise ValueError("opened shows what is behind the weight of a cell: pass `numbers=`, too")
    return list(check_index(opened, ("row", "column"), size))


def check_start(
    start: Mapping[str, int] | None, axes: Sequence[str], sizes: Sequence[int]
) -> tuple[int, ...]:
    """The index to begin with: what `start` names, 0 elsewhere."""
    for name in start or {}:
        if name not in axes:
            raise ValueError(f"start names {name!r}, but the axes are {tuple(axes)}")
    return check_index([(start or {}).get(name, 0) for name in axes], axes, sizes)
