"""Tasks of chapter 13: mean cosine, entropy of rows, aligned keys, cones, uniform weights."""

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task


def _mask(draw: Draw, *shape: int, least: int = 1) -> Tensor:
    """True on real tokens (…, T), at least some in each row; padding stands anywhere."""
    order = draw.uniform(*shape).argsort(-1).argsort(-1)
    return order < draw.integers(least, shape[-1] + 1, *shape[:-1], 1)


# --- mean_cosine: all pairs of real rows ----------------------------------------------------------


def _mean_cosine(draw: Draw) -> Args:
    n, d = draw.size(2), draw.size()
    lengths = draw.uniform(*draw.lead, n, 1, low=0.2, high=3)
    return lengths * draw.normal(*draw.lead, n, d), _mask(draw, *draw.lead, n, least=2)


def _zeros(draw: Draw) -> list[Args]:
    """Rows of padding that are zeros."""
    mask = torch.tensor(draw.shuffled([True, True, True, False]))
    return [(draw.normal(4, 3) * mask[:, None], mask)]


COSINE = Task(
    "mean_cosine",
    _mean_cosine,
    also=_zeros,
    visible=(
        (table([[2, 0], [0, 1], [3, 0]]), torch.tensor([True, True, True])),
        (
            table([[2, -1, -1], [0, 0, 0], [-1, 2, -1], [-3, -3, 6]]),
            torch.tensor([True, False, True, True]),
        ),
        (tenths(1, 2, 4, 3), torch.tensor([[True, True, True, True], [False, True, True, False]])),
        # a batch and its heads
        (tenths(2, 2, 2, 3, 2), torch.ones(2, 2, 3, dtype=torch.bool)),
    ),
)


# --- row_entropy: how uniform are the weights? ----------------------------------------------------


def _maps(draw: Draw, mask: Tensor) -> Tensor:
    """Weights (N, T, T): those of real tokens on real tokens alone, those of padding anywhere."""
    scores = 2 * draw.normal(*mask.shape, mask.shape[-1])
    return scores.masked_fill(mask[..., None] & ~mask[:, None], -torch.inf).softmax(-1)


def _row_entropy(draw: Draw) -> Args:
    mask = _mask(draw, draw.size(), draw.size())
    return _maps(draw, mask), mask


def _nothing(draw: Draw) -> list[Args]:
    """Rows of padding that are NaN, as the softmax of nothing is."""
    mask = torch.tensor([draw.shuffled([True, True, True, False]) for _ in range(3)])
    return [(_maps(draw, mask).masked_fill(~mask[..., None], torch.nan), mask)]


NAN = float("nan")

ENTROPY = Task(
    "row_entropy",
    _row_entropy,
    also=_nothing,
    visible=(
        (
            table([[[1 / 2, 1 / 2, 0], [1, 0, 0], [1 / 4, 0, 3 / 4]]]),
            torch.tensor([[True, True, False]]),
        ),
        (
            table(
                [
                    [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0, 0.4]],
                    [[0, 0.5, 0.5], [0, 0.7, 0.3], [0, 0.1, 0.9]],
                    [[0, 1, 0], [0, 1, 0], [0, 1, 0]],
                ]
            ),
            torch.tensor([[True, True, True], [False, True, True], [False, True, False]]),
        ),
        (
            table([[[0.8, 0.2, 0], [0.4, 0.6, 0], [NAN, NAN, NAN]]]),
            torch.tensor([[True, True, False]]),
        ),
    ),
)


# --- aligned_keys: keys of one direction reach any weights ----------------------------------------


def _aligned_keys(draw: Draw) -> Args:
    return draw.rows(draw.size(), spread=2), draw.normal(draw.size())


ALIGNED = Task(
    "aligned_keys",
    _aligned_keys,
    visible=(
        (table([0.25, 0.5, 0.25]), table([3, 0, 0, 0])),
        (table([0.1, 0.4, 0.05, 0.2, 0.25]), table([2, -1, 2])),
        (table([0.2, 0.2, 0.2, 0.2, 0.2]), table([3, -4])),
    ),
)


# --- outside_cone: what no weights reach ----------------------------------------------------------


def _outside_cone(draw: Draw) -> Args:
    """Values around a direction, and a vector near their cone."""
    n = draw.size(most=4)
    d = n + draw.size()
    V = draw.normal(n, d) + draw.normal(d)
    return (1 + draw.normal(n)) @ V + draw.normal(d), V


def _span_and_plane(draw: Draw) -> list[Args]:
    """In the span of the values, not in their cone; and in the cone of three values in a plane."""
    V, turn = draw.normal(3, 5), torch.linalg.qr(draw.normal(2, 2))[0]
    return [
        (table([1, 1, -1]) @ V, V),
        (table([3, 2]) @ turn, table([[2, 1], [-1, 0], [3, -1]]) @ turn),
    ]


OUTSIDE = Task(
    "outside_cone",
    _outside_cone,
    also=_span_and_plane,
    visible=(
        (table([3, -4]), table([[1, 0], [1, 1]])),
        (table([3, 2]), table([[2, 1], [-1, 0], [3, -1]])),  # inside
        (table([-2, -1, -1]), table([[1, 0, 1], [2, 1, 0]])),  # the origin is nearest
        (tenths(1, 5), tenths(2, 3, 5)),
    ),
)


# --- uniform_shift: what the choice of the weights moves ------------------------------------------


def _uniform_shift(draw: Draw) -> Args:
    N, T, d = (draw.size() for _ in range(3))
    mask = _mask(draw, N, T)
    return _maps(draw, mask), draw.normal(N, T, d) + 2 * draw.normal(N, 1, d), mask


def _no_output(draw: Draw) -> list[Args]:
    """Rows of padding that are zeros, in the weights and in the values."""
    mask = torch.tensor([draw.shuffled([True, True, True, False]) for _ in range(3)])
    real = mask[..., None]
    return [(_maps(draw, mask) * real, draw.normal(3, 4, 2) * real, mask)]


SHIFT = Task(
    "uniform_shift",
    _uniform_shift,
    also=_no_output,
    visible=(
        (
            table([[[1, 0, 0], [0.5, 0.5, 0], [0, 0, 0]]]),
            table([[[3, 0], [1, 0], [9, 9]]]),
            torch.tensor([[True, True, False]]),
        ),
        (
            table(
                [
                    [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0, 0.4]],
                    [[0, 0.5, 0.5], [0, 0.7, 0.3], [0, 0.1, 0.9]],
                ]
            ),
            tenths(1, 2, 3, 2),
            torch.tensor([[True, True, True], [False, True, True]]),
        ),
    ),
)

TASKS: tuple[Task, ...] = (COSINE, ENTROPY, ALIGNED, OUTSIDE, SHIFT)
