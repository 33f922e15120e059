"""Tasks of chapter 14: grouped queries, RMSNorm, a cache, the online softmax, windows."""

import math

import torch

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- grouped_heads: heads that share their keys ---------------------------------------------------


def _grouped_heads(draw: Draw) -> Args:
    groups, heads = draw.size(most=4), draw.size(most=4)
    B, T, S, d_k, d_v = (draw.size() for _ in range(5))
    return (
        draw.normal(B, groups * heads, T, d_k),
        draw.normal(B, groups, S, d_k),
        draw.normal(B, groups, S, d_v),
    )


GROUPED = Task(
    "grouped_heads",
    _grouped_heads,
    visible=(
        (torch.zeros(1, 4, 1, 2), torch.zeros(1, 2, 2, 2), table([[[[1], [3]], [[10], [30]]]])),
        (tenths(1, 2, 6, 2, 4), tenths(2, 2, 3, 4, 4), tenths(3, 2, 3, 4, 3)),
        (tenths(4, 1, 6, 3, 4), tenths(5, 1, 2, 3, 4), tenths(6, 1, 2, 3, 2)),
    ),
)


# --- rms_rows: a norm that shrinks, corrected -----------------------------------------------------


def _rms_rows(draw: Draw) -> Args:
    n, d = draw.size(), draw.size()
    return draw.normal(n, d) + 1, draw.normal(d), draw.number(0.1, 1)


def _no_length(draw: Draw) -> list[Args]:
    """A row of zeros, and a small ε as models have it."""
    return [(draw.normal(3, 4) * table([[1], [0], [1]]), draw.normal(4), 1e-5)]


RMS = Task(
    "rms_rows",
    _rms_rows,
    also=_no_length,
    visible=(
        (table([[3, 3, 3, 3]]), table([1, 2, 3, 4]), 0.0),
        (table([[1, 2, 2, 4], [0, 0, 0, 0.1], [0, 0, 0, 0]]), table([1, 1, 2, 1]), 0.01),
        # as many rows as numbers in a row
        (table([[4, -2], [1, 1]]), table([0.5, -1]), 0.5),
    ),
)


# --- cached_bytes: what a cache weighs ------------------------------------------------------------


def _cached_bytes(draw: Draw) -> Args:
    T, window, L, H_kv, d_k, size = (draw.size() for _ in range(6))
    return T, window, L, H_kv, d_k, size


def _short_and_long(draw: Draw) -> list[Args]:
    """A text that the window holds, and one that it does not."""
    window, rest = draw.integer(20, 400), (30, 3, 64, 2)
    return [(window - draw.integer(1, 9), window, *rest), (window + 5, window, *rest)]


CACHED = Task(
    "cached_bytes",
    _cached_bytes,
    also=_short_and_long,
    visible=((10, 100, 2, 3, 4, 2), (100, 10, 2, 3, 4, 2), (50, 50, 5, 1, 8, 4)),
)


# --- online_step: one step of the online softmax --------------------------------------------------


def _online_step(draw: Draw) -> Args:
    n, b, d = (draw.size() for _ in range(3))
    return (
        2 * draw.normal(n),
        draw.uniform(n, low=1, high=4),
        draw.normal(n, d),
        2 * draw.normal(n, b),
        draw.normal(b, d),
    )


def _first_and_far(draw: Draw) -> list[Args]:
    """The first block, and scores far from 0, where exponentials overflow or vanish."""
    m, total, output, scores, values = _online_step(draw)
    return [
        (torch.full_like(m, -torch.inf), 0 * total, 0 * output, scores, values),
        (m + 500, total, output, scores + 500, values),
        (m - 500, total, output, scores - 500, values),
    ]


STEP = Task(
    "online_step",
    _online_step,
    also=_first_and_far,
    visible=(
        (table([0]), table([1]), table([[4]]), table([[math.log(2), 0]]), table([[10], [20]])),
        (
            table([1, 3, 0]),
            table([1.5, 2, 1]),
            table([[1, 0], [0, 2], [1, 1]]),
            table([[2, 0, 1], [1, 2, 0], [4, 5, 3]]),
            table([[1, 2], [3, 1], [0, 1]]),
        ),
        # the first block
        (
            table([-math.inf]),
            table([0]),
            table([[0, 0]]),
            table([[300, 301]]),
            table([[1, 2], [3, 4]]),
        ),
    ),
)


# --- local_weights: what a local layer may see ----------------------------------------------------


def _local_weights(draw: Draw) -> Args:
    H, T, d_k = draw.size(most=4), draw.size(least=3), draw.size()
    window = draw.integer(1, T - 1)
    kept = draw.integer(0, window - 1)
    return draw.normal(H, T, d_k), draw.normal(H, T, d_k), window, kept


def _wide_and_all_kept(draw: Draw) -> list[Args]:
    """A window that is longer than the text, and one that is all kept tokens but one."""
    q, k = draw.normal(2, 6, 3), draw.normal(2, 6, 3)
    return [(q, k, 9, 0), (q, k, 9, 4), (q, k, 4, 3), (q, k, 1, 0)]


LOCAL = Task(
    "local_weights",
    _local_weights,
    also=_wide_and_all_kept,
    visible=(
        (torch.zeros(1, 4, 2), torch.zeros(1, 4, 2), 2, 1),
        (tenths(1, 2, 5, 3), tenths(2, 2, 5, 3), 3, 0),
        (tenths(3, 2, 6, 4), tenths(4, 2, 6, 4), 4, 2),
    ),
)

TASKS: tuple[Task, ...] = (GROUPED, RMS, CACHED, STEP, LOCAL)
