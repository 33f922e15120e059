"""What stands behind one weight: queries, keys, and the sums that a softmax divides by."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import check_weights

CLOSE = 2.5e-3  # how far a weight of rounded queries and keys may be from the map's: two decimals


class Numbers(NamedTuple):
    """Where the weights of one item come from; any may be padded.

    Attributes:
        queries: (*axes, query, d_k), float16 or float32.
        keys: (*axes, key, d_k), likewise.
        rows: (*axes, query, 2): the largest score of a row, and the sum of e^(score − largest).
    """

    queries: Tensor
    keys: Tensor
    rows: Tensor


def check_numbers(name: str, weights: Tensor, pair: Sequence[Any], axes: Sequence[str]) -> Numbers:
    """The numbers behind the weights (*axes, query, key); a weight of 0 is one that a mask hides.

    Queries and keys are rounded to half precision where every weight stays within `CLOSE`.

    Raises:
        ValueError: if a shape does not fit, or softmax(q·k / √d_k) is not the map.
    """
    q, k = (
        check_weights(f"{kind} of {name}", part, axes, signed=True)
        for kind, part in zip(("queries", "keys"), pair, strict=True)
    )
    *outer, rows, columns = weights.shape
    shapes = ((*outer, rows, q.shape[-1]), (*outer, columns, q.shape[-1]))
    if (tuple(q.shape), tuple(k.shape)) != shapes:
        raise ValueError(
            f"queries and keys of {name} must be (*axes, query, d_k) and (*axes, key, d_k) for "
            f"maps {tuple(weights.shape)}, got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    for kind in (torch.float16, torch.float32):
        rounded = q.to(kind), k.to(kind)
        scores = rounded[0].float() @ rounded[1].float().mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(weights == 0, -math.inf)
        largest = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
        powers = (scores - largest).exp()
        total = powers.sum(-1, keepdim=True)
        error = (powers / total.clamp(min=1) - weights).abs().max().item()
        if error <= CLOSE:
            return Numbers(*rounded, torch.cat([largest, total], -1))
    raise ValueError(
        f"softmax(q·k / √d_k) of these queries and keys differs from {name} by up to {error:.2g}: "
        "pass those that made the map (turned, where positions are rotary), without edits"
    )
