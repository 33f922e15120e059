"""The maps of an attention view as bytes for the browser, and what the browser needs to read them.

A map is sent in 255 steps of its own strongest entry; where there are not too many, the exact
weights travel along for the read-out. All of it is compressed: half of a causal map is zeros, and
most other weights are near them.
"""

import struct
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlib.plots import visible

from .maps import SPECIAL, Maps, Unit

EXACT_LIMIT = 200_000  # up to so many entries, exact weights travel along with the drawing
FAST = 1  # zlib's level; 9 takes seventy times as long for a quarter less


def quantise(weights: Tensor, signed: bool = False) -> tuple[Tensor, Tensor]:
    """Each map in 255 steps of its own maximum, so that a map of weights near 1/512 still shows.

    Args:
        weights: (*axes, query, key), ≥ 0 unless signed.
        signed: 0 is step 128, and the largest absolute value is step 255 or 1.

    Returns:
        uint8 maps (n, query, key) and float32 maxima (n,): the weights are ≈ maps · maxima / 255,
        or, if signed, (maps − 128) · maxima / 127.
    """
    maps = weights.reshape(-1, *weights.shape[-2:])
    largest = maps.abs().amax((-2, -1))
    zero = 128 if signed else 0
    steps = maps / largest.where(largest > 0, 1.0)[:, None, None]
    steps = steps.mul_(255 - zero).round_().add_(zero)  # never 255 / largest: it may overflow
    return steps.to(torch.uint8), largest


def pack(maps: Maps) -> tuple[dict[str, Any], bytes]:
    """What the browser draws from: a description with offsets, and all bytes, compressed."""
    exact = sum(unit.weights.numel() for unit in maps.units) <= EXACT_LIMIT
    blob = bytearray()

    add = partial(append, blob)

    def packed(unit: Unit) -> dict[str, Any]:
        steps, largest = quantise(unit.weights, maps.signed)
        rows, columns = unit.weights.shape[-2:]
        return {
            "name": unit.name,
            "rows": rows,
            "cols": columns,
            "queries": [[visible(t) for t in one] for one in unit.queries],
            "keys": [[visible(t) for t in one] for one in unit.keys],
            "scales": add(largest),
            "maps": add(steps),
            "exact": add(unit.weights) if exact else None,
        }

    axes = zip(maps.axes, maps.labels, strict=True)
    spec = {
        "axes": [{"name": name, "labels": list(labels)} for name, labels in axes],
        "texts": maps.texts.ravel().tolist(),
        "signed": maps.signed,
        "special": SPECIAL,
        "packed": True,
        "units": [packed(unit) for unit in maps.units],
    }
    if (behind := maps.numbers) is not None:
        parts = {name: add(part) for name, part in behind._asdict().items()}
        spec["numbers"] = parts | {"width": behind.keys.shape[-1], "bytes": behind.keys.itemsize}
    return spec, zlib.compress(blob, FAST)


def append(blob: bytearray, tensor: Tensor) -> list[int]:
    """Write a tensor behind all bytes so far; where it starts, and how many bytes it is."""
    start = len(blob)
    blob.extend(little_endian(tensor))
    return [start, len(blob) - start]


def exact_map(maps: Maps, index: Sequence[int], name: str) -> bytes:
    """One map with its exact weights, behind the numbers of its unit and of the map."""
    unit, place = maps.unit(name), 0
    for i, size in zip(index, maps.sizes, strict=True):
        place = place * size + i
    header = struct.pack("<ii", maps.units.index(unit), place)
    return header + little_endian(unit.weights[tuple(index)])


def little_endian(tensor: Tensor) -> bytes:
    """The numbers of a tensor as the browser reads them."""
    array = tensor.numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
