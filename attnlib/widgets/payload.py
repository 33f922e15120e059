"""The maps of an attention view as bytes for the browser, and what the browser needs to read them.

A map is sent in 255 steps of its own strongest weight; where there are not too many, the exact
weights travel along for the read-out. All of it is compressed: half of a causal map is zeros, and
most other weights are near them. `data.js` is the other side.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnlib.plots import visible

from .maps import SPECIAL, Maps, Unit

EXACT_LIMIT = 200_000  # up to so many weights, the exact ones travel along with the drawing
FAST = 1  # zlib's level; 9 takes seventy times as long for a quarter less
# On a dark page 0 is the background, too; on a light page `plots.PALETTE` is used.
DARK = ("#14171c", "#1f2a44", "#24436d", "#24648c", "#2b8899", "#55ad98", "#a2cf92", "#f4efa6")


def quantise(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Each map in 255 steps of its own maximum, so that a map of weights near 1/512 still shows.

    Args:
        weights: (*axes, query, key), at least 0.

    Returns:
        uint8 maps (n, query, key) and float32 maxima (n,); weights ≈ maps · maxima / 255.
    """
    maps = weights.reshape(-1, *weights.shape[-2:])
    largest = maps.amax((-2, -1))
    divisor = largest.where(largest > 0, 1.0)[:, None, None]
    steps = (maps / divisor).mul_(255).round_()  # never 255 / largest: it may overflow
    return steps.to(torch.uint8), largest


def pack(maps: Maps, played: str | None = None) -> tuple[dict[str, Any], bytes]:
    """What the browser draws from: a description with offsets, and all bytes, compressed.

    `played` is the axis that a button plays.
    """
    blob = bytearray()
    exact = sum(unit.weights.numel() for unit in maps.units) <= EXACT_LIMIT
    axes = zip(maps.axes, maps.labels, strict=True)
    description = {
        "axes": [
            {"name": name, "labels": list(labels), "play": name == played} for name, labels in axes
        ],
        "texts": maps.texts.ravel().tolist(),
        "special": SPECIAL,
        "packed": True,
        "units": [_packed(unit, blob, exact) for unit in maps.units],
    }
    if maps.numbers is not None:
        parts = {name: _append(blob, part) for name, part in maps.numbers._asdict().items()}
        keys = maps.numbers.keys
        description["numbers"] = parts | {"width": keys.shape[-1], "bytes": keys.itemsize}
    return description, zlib.compress(blob, FAST)


def _packed(unit: Unit, blob: bytearray, exact: bool) -> dict[str, Any]:
    """The description of one unit, whose maps are appended to the blob."""
    steps, largest = quantise(unit.weights)
    rows, columns = unit.weights.shape[-2:]
    return {
        "name": unit.name,
        "rows": rows,
        "cols": columns,
        "queries": [[visible(token) for token in text] for text in unit.queries],
        "keys": [[visible(token) for token in text] for text in unit.keys],
        "scales": _append(blob, largest),
        "maps": _append(blob, steps),
        "exact": _append(blob, unit.weights) if exact else None,
    }


def _append(blob: bytearray, tensor: Tensor) -> list[int]:
    """Write a tensor behind all bytes so far; where it starts, and how many bytes it is."""
    start = len(blob)
    blob.extend(_little_endian(tensor))
    return [start, len(blob) - start]


def exact_map(maps: Maps, index: Sequence[int], name: str) -> bytes:
    """One map with its exact weights, behind the numbers of its unit and of the map."""
    unit = maps.unit(name)
    number = [other.name for other in maps.units].index(name)
    place = 0
    for i, size in zip(index, maps.sizes, strict=True):
        place = place * size + i
    header = struct.pack("<ii", number, place)
    return header + _little_endian(unit.weights[tuple(index)])


def _little_endian(tensor: Tensor) -> bytes:
    """The numbers of a tensor as the browser reads them."""
    array = tensor.numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
