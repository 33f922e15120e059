"""What stands behind one weight: queries, keys, and the sums that a softmax divides by."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import check_numerals

CLOSE = 2.5e-3  # how far a weight of rounded queries and keys may be from the map's: two decimals


class Numbers(NamedTuple):
    """Where the weights of all maps of one text come from.

    Attributes:
        queries: (*axes, query, d_k), float16 or float32.
        keys: (*axes, key, d_k), likewise.
        rows: (*axes, query, 2): the largest score of a row, and the sum of e^(score − largest).
    """

    queries: Tensor
    keys: Tensor
    rows: Tensor


def check_numbers(weights: Tensor, pair: tuple[Any, Any], axes: Sequence[str]) -> Numbers:
    """The numbers behind the weights (*axes, query, key); a weight of 0 is one that a mask hides.

    Queries and keys are rounded to half precision where every weight stays within `CLOSE`.

    Raises:
        ValueError: if a shape does not fit, or softmax(q·k / √d_k) is not the map.
    """
    if len(pair) != 2:
        raise ValueError(f"numbers must be (queries, keys), got {len(pair)} arrays")
    q = check_numerals("queries", pair[0], (*axes, "query", "d_k"))
    k = check_numerals("keys", pair[1], (*axes, "key", "d_k"))
    *outer, rows, columns = weights.shape
    shapes = ((*outer, rows, q.shape[-1]), (*outer, columns, q.shape[-1]))
    if (tuple(q.shape), tuple(k.shape)) != shapes:
        raise ValueError(
            f"queries must be (*axes, query, d_k) and keys (*axes, key, d_k) for maps "
            f"{tuple(weights.shape)}, got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    for dtype in (torch.float16, torch.float32):
        numbers, recovered = _softmax(q.to(dtype), k.to(dtype), weights == 0)
        error = (recovered - weights).abs().max().item()
        if error <= CLOSE:
            return numbers
    raise ValueError(
        f"softmax(q·k / √d_k) of these queries and keys differs from the weights by up to "
        f"{error:.2g}: pass those that made the map (turned, where positions are rotary), without "
        "edits"
    )


def _softmax(q: Tensor, k: Tensor, hidden: Tensor) -> tuple[Numbers, Tensor]:
    """The numbers of queries and keys, and the weights that they give; a hidden cell gets none."""
    scores = q.float() @ k.float().mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(hidden, -math.inf)
    least = torch.finfo(torch.float32).min  # a row that is hidden altogether has no largest score
    largest = scores.amax(-1, keepdim=True).clamp(min=least)
    powers = (scores - largest).exp()
    total = powers.sum(-1, keepdim=True)
    return Numbers(q, k, torch.cat([largest, total], -1)), powers / total.clamp(min=1)
