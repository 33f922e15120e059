"""Tasks of chapter 09: paths, copying, from a table to a map, K-composition, induction."""

import math

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

UNIT = torch.eye(2)

# --- logit_paths: a path for each head, and one for the stream ------------------------------------


def _logit_paths(draw: Draw) -> Args:
    T, d, d_v, H, D = (draw.size() for _ in range(5))
    return (
        draw.normal(*draw.lead, T, d),
        draw.rows(*draw.lead, H, T, T, spread=2),
        draw.normal(H, d, d_v) / d**0.5,
        draw.normal(H, d_v, d) / d_v**0.5,
        draw.normal(d, D) / d**0.5,
    )


PATHS = Task(
    "logit_paths",
    _logit_paths,
    visible=(
        (UNIT, table([[[1, 0], [0.25, 0.75]]]), table([[[2], [1]]]), table([[[0, 1]]]), UNIT),
        (
            table([[1, 0], [2, 1], [0, -1]]),
            table(
                [
                    [[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]],
                    [[0.5, 0.3, 0.2], [0.9, 0.1, 0], [0, 0.6, 0.4]],
                ]
            ),
            table([[[1], [2]], [[0], [1]]]),
            table([[[1, -1]], [[2, 0.5]]]),
            table([[1, 0, 2, -1], [0, 1, 1, 0.5]]),
        ),
        # three texts, and a head that is wider than the stream
        (
            tenths(1, 3, 2, 2),
            table([[[[1, 0], [last, 1 - last]]] for last in (0.3, 0.9, 0.5)]),
            tenths(2, 1, 2, 3),
            tenths(3, 1, 3, 2),
            tenths(4, 2, 3),
        ),
    ),
)


# --- copying_score: the eigenvalues of a large table, from a small one ----------------------------


def _copying_score(draw: Draw) -> Args:
    d_v, d, D = sorted(draw.size() for _ in range(3))
    H = draw.size()
    return draw.normal(D, d), draw.normal(H, d, d_v), draw.normal(H, d_v, d), draw.normal(d, D)


COPYING = Task(
    "copying_score",
    _copying_score,
    visible=(
        (UNIT, UNIT[None], table([[[3, 0], [0, -1]]]), UNIT),
        # a quarter of a turn, an eighth of a turn
        (UNIT, table([[[1, 0], [0, 1]]] * 2), table([[[0, 1], [-1, 0]], [[1, 1], [-1, 1]]]), UNIT),
        (
            table([[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, -1, 1]]),
            table([[[1, 0], [0, 2], [1, 1]], [[0, -1], [1, 1], [2, 0]]]),
            table([[[1, 1, 0], [0, -1, 2]], [[-2, 0, -1], [-1, -1, 1]]]),
            table([[1, 0, -1, 2], [0, 2, 1, 0], [1, 1, 0, -1]]),
        ),
    ),
)


# --- weights_from_table: the essay's table, corrected ---------------------------------------------


def _weights_from_table(draw: Draw) -> Args:
    T, D, d_k = (draw.size() for _ in range(3))
    return 3 * draw.normal(D, D), draw.integers(0, D, *draw.lead, T), d_k


TABLE = Task(
    "weights_from_table",
    _weights_from_table,
    visible=(
        (table([[0, 5], [math.log(3), 0]]), torch.tensor([0, 1]), 1),
        (table([[1, 2, 0], [0, -1, 3], [4, 1, 1]]), torch.tensor([[2, 0, 1, 0], [1, 1, 2, 2]]), 4),
    ),
)


# --- k_composition: what keys read of what a head writes ------------------------------------------


def _k_composition(draw: Draw) -> Args:
    d, d_v, d_k, H_1, H_2 = (draw.size() for _ in range(5))
    return (
        draw.normal(H_1, d, d_v),
        draw.normal(H_1, d_v, d),
        draw.normal(H_2, d, d_k),
        draw.normal(H_2, d, d_k),
    )


K_COMPOSITION = Task(
    "k_composition",
    _k_composition,
    visible=(
        (table([[[1], [0]]]), table([[[3, 4]]]), table([[[0], [2]]]), table([[[1], [0]]])),
        (tenths(5, 3, 3, 2), tenths(6, 3, 2, 3), tenths(7, 2, 3, 1), tenths(8, 2, 3, 1)),
        (tenths(9, 2, 2, 2), tenths(10, 2, 2, 2), tenths(11, 2, 2, 2), tenths(12, 2, 2, 2)),
    ),
)


# --- induction_score: the weight on what followed -------------------------------------------------


def _maps(draw: Draw, *shape: int) -> Tensor:
    """Causal maps whose rows sum to 1."""
    weights = draw.rows(*shape, spread=2).tril()
    return weights / weights.sum(-1, keepdim=True)


def _induction_score(draw: Draw) -> Args:
    period, more = draw.size(1, 4), draw.size()
    return _maps(draw, *draw.lead, period + more, period + more), period


INDUCTION = Task(
    "induction_score",
    _induction_score,
    visible=(
        (table([[1, 0, 0, 0], [0.7, 0.3, 0, 0], [0.2, 0.4, 0.4, 0], [0.05, 0.1, 0.8, 0.05]]), 2),
        # two maps of a text that goes round two and a half times
        (_maps(Draw(13), 2, 8, 8), 3),
        # the same token all the time
        (_maps(Draw(14), 5, 5), 1),
    ),
)

TASKS: tuple[Task, ...] = (PATHS, COPYING, TABLE, K_COMPOSITION, INDUCTION)
