"""Tasks of chapter 08: the share of a count, both counters, their border, tied weights."""

import math

import torch

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- count_share: how often is the answer 1? ------------------------------------------------------


def _count_share(draw: Draw) -> Args:
    T, D = draw.size(), draw.size(least=2)
    return T, D, draw.integer(1, T)


def _borders(draw: Draw) -> list[Args]:
    """Counts below and above what a sequence can hold, and two that it can."""
    T, D = draw.integer(3, 6), draw.integer(3, 6)
    return [(T, D, c) for c in (0, 2, T, T + 1)]


SHARE = Task(
    "count_share",
    _count_share,
    also=_borders,
    visible=((2, 4, 1), (10, 15, 3), (4, 3, 0), (3, 2, 3), (3, 2, 4)),
)


# --- count_by_positions: the counter that compares nothing ---------------------------------------


def _count_by_positions(draw: Draw) -> Args:
    """The threshold is so low that other symbols pass it, and the counter errs.

    It is some fifths of what a symbol weighs, so that no sum lies halfway.
    """
    N, T, D = draw.size(), draw.size(least=2), draw.size(least=2)
    threshold = draw.integer(0, 8) / 5  # (a − b) / b
    return draw.integers(0, D, N, T), (threshold + 1) / (threshold + T), D


def _several_pass(draw: Draw) -> list[Args]:
    """Two other symbols pass the threshold, each by less than half of an occurrence."""
    row = [0] * 3 + [1] * 2 + [2] * 2 + [3]
    ids = torch.tensor([draw.shuffled(row) for _ in range(3)])
    return [(ids, 2.6 / 9.6, 4)]


POSITIONS = Task(
    "count_by_positions",
    _count_by_positions,
    also=_several_pass,
    visible=(
        (torch.tensor([[0, 0, 0, 1]]), 0.4, 2),
        (torch.tensor([[0, 0, 0, 1]]), 0.7, 2),
        (torch.tensor([[2, 0, 2, 2, 2, 1], [0, 0, 0, 1, 1, 1]]), 0.34, 4),
        (torch.tensor([[1, 3, 0, 3, 1, 3, 3, 3]]), 0.3, 5),
        # each of the symbols 1 and 2 passes by less than half of an occurrence
        (torch.tensor([[0, 0, 0, 1, 1, 2, 2, 3]]), 0.27, 4),
    ),
)


# --- smallest_diagonal: the border, by arithmetic -------------------------------------------------


def _smallest_diagonal(draw: Draw) -> Args:
    most = draw.size()
    return most + draw.size(), most


SMALLEST = Task("smallest_diagonal", _smallest_diagonal, visible=((4, 1), (10, 5), (10, 9), (7, 3)))


# --- semantic_map: the map that compares tokens ---------------------------------------------------


def _semantic_map(draw: Draw) -> Args:
    T, D = draw.size(), draw.size(least=2, most=4)
    return draw.integers(0, D, *draw.lead, T), draw.number(0.4, 2.5)


def _sharp(draw: Draw) -> list[Args]:
    """So sharp that e to the power of a score is too large; and not at all."""
    ids = draw.integers(0, 3, 2, 6)
    return [(ids, 100.0), (ids, 0.0)]


SEMANTIC = Task(
    "semantic_map",
    _semantic_map,
    also=_sharp,
    visible=(
        (torch.tensor([0, 0, 1]), math.log(2)),
        (torch.tensor([[3, 0, 2, 0, 2], [1, 1, 1, 1, 0]]), 1.5),
        (torch.tensor([[0, 1, 0, 0]]), 100.0),
    ),
)


# --- asymmetry: tied weights ----------------------------------------------------------------------


def _asymmetry(draw: Draw) -> Args:
    N, T, d, d_k = (draw.size() for _ in range(4))
    W_Q, W_K = draw.normal(d, d_k), draw.normal(d, d_k)
    return draw.normal(N, T, d), W_Q, W_K + draw.choice((0.0, 2.0)) * W_Q


def _tied(draw: Draw) -> list[Args]:
    W = draw.normal(5, 3)
    return [(draw.normal(4, 6, 5), W, W)]


ASYMMETRY = Task(
    "asymmetry",
    _asymmetry,
    also=_tied,
    visible=(
        (table([[[1, 0], [1, 1]]]), torch.eye(2), table([[2, -1], [1, 0]])),
        (tenths(1, 2, 3, 2), tenths(2, 2, 4), tenths(3, 2, 4)),
        # tied
        (tenths(4, 1, 3, 2), table([[1], [2]]), table([[1], [2]])),
    ),
)

TASKS: tuple[Task, ...] = (SHARE, POSITIONS, SMALLEST, SEMANTIC, ASYMMETRY)
