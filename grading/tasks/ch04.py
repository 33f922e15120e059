"""Tasks of chapter 04: attention, the causal mask, W_QK, heads that add, words."""

import math

import torch

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- attend: scaled dot-product attention ---------------------------------------------------------


def _attend(draw: Draw) -> Args:
    queries, keys, d_k, d_v = (draw.size() for _ in range(4))
    lead = draw.lead
    return (
        draw.normal(*lead, queries, d_k),
        draw.normal(*lead, keys, d_k),
        draw.normal(*lead, keys, d_v),
    )


def _loud(draw: Draw) -> list[Args]:
    """Scores in the hundreds, far apart, and as many queries as keys."""
    return [(300 * draw.normal(6, 3), draw.normal(6, 3), draw.normal(6, 2))]


H = math.log(3) / 2  # a score of 4 · H / 2 = ln 3: weights 3/4 and 1/4

ATTEND = Task(
    "attend",
    _attend,
    also=_loud,
    visible=(
        (table([[1, 1, 1, 1]]), table([[H] * 4, [0] * 4]), table([[4, 0, 8], [0, 4, 8]])),
        (tenths(1, 2, 3, 5), tenths(2, 2, 4, 5), tenths(3, 2, 4, 2)),
        # a batch and its heads
        (tenths(9, 1, 2, 2, 4), tenths(10, 1, 2, 3, 4), tenths(11, 1, 2, 3, 2)),
        # scores (500, 0) and (−500, −501)
        (
            table([[1, 0, 0, 0], [0, 1, 0, 0]]),
            table([[1000, -1000, 0, 0], [0, -1002, 0, 0]]),
            table([[1], [0]]),
        ),
        # as many queries as keys, and nothing is hidden
        (tenths(12, 3, 2), tenths(13, 3, 2), tenths(14, 3, 1)),
    ),
    forbidden=(
        "scaled_dot_product_attention",
        "MultiheadAttention",
        "multi_head_attention_forward",
    ),
)


# --- causal_weights: the mask of the lecture notes, corrected -------------------------------------


def _causal_weights(draw: Draw) -> Args:
    T = draw.size()
    return (draw.normal(*draw.lead, T, T),)


def _extreme(draw: Draw) -> list[Args]:
    """Scores below any finite constant that a mask may use, and one that drowns all others."""
    low, high = draw.normal(2, 4, 4), draw.normal(2, 4, 4)
    low[..., :2] -= 10.0 ** draw.integer(10, 14) * torch.ones(4, 2).tril()
    high[..., -1] += draw.integer(150, 300)
    return [(low,), (high,)]


CAUSAL = Task(
    "causal_weights",
    _causal_weights,
    also=_extreme,
    visible=(
        (table([[1, 2, 0], [0, 0, -3], [-1, -1, -1]]),),
        (tenths(4, 2, 4, 4),),
        (table([[-1e12, 2, 5], [0, 1, 2], [0, 0, 0]]),),
        (table([[0, 300], [300, 0]]),),
        (table([[-300, -291], [150, 151]]),),
    ),
)


# --- merged_weights: A = x W_QKᵀ xᵀ, corrected ----------------------------------------------------


def _merged_weights(draw: Draw) -> Args:
    B, T, d, d_k = (draw.size() for _ in range(4))
    W_QK = draw.normal(d, d_k) @ draw.normal(d_k, d) / d**0.5
    return draw.normal(B, T, d), W_QK, d_k


L2 = 2 * math.log(2)  # with d_k = 4 the score is ln 2

MERGED = Task(
    "merged_weights",
    _merged_weights,
    visible=(
        (table([[[1, 0], [0, 1]]]), table([[0, L2], [0, 0]]), 4),
        (tenths(5, 2, 4, 3), tenths(6, 3, 2) @ tenths(15, 2, 3), 2),
    ),
    forbidden=("scaled_dot_product_attention",),
)


# --- head_contributions: concatenation is a sum ---------------------------------------------------


def _head_contributions(draw: Draw) -> Args:
    B, H, T, d_v, d = (draw.size() for _ in range(5))
    return draw.normal(B, H, T, d_v), draw.normal(H * d_v, d)


HEADS = Task(
    "head_contributions",
    _head_contributions,
    visible=(
        (
            table([[[[1, 0], [0, 1], [1, 1]], [[2, 0]] * 3]]),
            table([[1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [0, 0, 1, 0, 0], [7, 7, 7, 7, 7]]),
        ),
        (tenths(7, 2, 3, 4, 2), tenths(8, 6, 5)),
    ),
)


# --- word_map: sum to, average from ---------------------------------------------------------------


def _word_map(draw: Draw) -> Args:
    H, words = draw.size(), draw.size()
    word_ids = sorted([*range(words), *draw.choices(range(words), draw.integer(1, 4))])
    return draw.rows(H, len(word_ids), len(word_ids), spread=2), word_ids


WORDS = Task(
    "word_map",
    _word_map,
    visible=(
        (table([[[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.3, 0.6]]]), [0, 1, 1]),
        (
            table(
                [
                    [[4, 3, 2, 1], [1, 1, 6, 2], [5, 1, 2, 2], [1, 2, 3, 4]],
                    [[10, 0, 0, 0], [7, 3, 0, 0], [2, 5, 3, 0], [1, 3, 2, 4]],
                ]
            )
            / 10,
            [0, 0, 0, 1],
        ),
    ),
)

TASKS: tuple[Task, ...] = (ATTEND, CAUSAL, MERGED, HEADS, WORDS)
