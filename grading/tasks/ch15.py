"""Tasks of chapter 15: direct attribution, effects, resampling, weights or values, a rank."""

import math

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- direct_terms: who wrote it? ------------------------------------------------------------------


def _direct_terms(draw: Draw) -> Args:
    n, d, D = draw.size(), draw.size(), draw.size(2)
    right, wrong = draw.sample(range(D), 2)
    gain, W_U = draw.normal(d), draw.normal(d, D)
    return draw.normal(n, d), gain, draw.number(0.1, 1), W_U, right, wrong


TERMS = Task(
    "direct_terms",
    _direct_terms,
    visible=(
        (table([[5, 0], [-4, 7]]), table([1, 1]), 0.0, torch.eye(2), 0, 1),
        (tenths(1, 4, 3), tenths(2, 3), 0.5, tenths(3, 3, 6), 4, 2),
        (tenths(4, 2, 3), tenths(5, 3), 0.5, tenths(6, 3, 3), 2, 0),  # as many tokens as dimensions
    ),
)


# --- restored_share: how much came back, corrected ------------------------------------------------


def _restored_share(draw: Draw) -> Args:
    """Prompts of which one has runs that agree, and one, if there are three, a negative gap."""
    n, H = draw.size(), draw.size()
    corrupted, gaps = draw.normal(n), draw.uniform(n, low=0.5, high=2)
    gaps[1:2], gaps[2:3] = 0, -0.25
    return draw.normal(n, H), corrupted + gaps, corrupted


RESTORED = Task(
    "restored_share",
    _restored_share,
    visible=(
        (table([[3], [1]]), table([4, 2]), table([0, 2])),
        (
            table([[2, 0, 5, -1], [1, 0, 4, 0], [3, -1, 3, 1], [2, 1, 4, 2]]),
            table([4, 3, 2, 5]),
            table([0, 1, 3, 2]),
        ),
    ),
)


# --- resampled_harm: another prompt's output ------------------------------------------------------


def _resampled_harm(draw: Draw) -> Args:
    n, R, d = draw.size(2), draw.size(), draw.size()
    donors = (torch.arange(n)[:, None] + draw.integers(1, n, n, R)) % n  # never the prompt itself
    written = 2 * draw.normal(n, d)
    return draw.normal(n, d) + written, written, draw.normal(n, d), donors


HARM = Task(
    "resampled_harm",
    _resampled_harm,
    visible=(
        (
            table([[1, 7], [7, 1]]),
            table([[0, 6], [6, 0]]),
            table([[0, 1], [0, 1]]),
            torch.tensor([[1], [0]]),
        ),
        (
            tenths(1, 4, 3),
            tenths(2, 4, 3),
            tenths(3, 4, 3),
            torch.tensor([[1, 2, 2], [3, 0, 2], [0, 0, 3], [1, 2, 0]]),
        ),
    ),
)


# --- split_effect: where it looks, or what it takes -----------------------------------------------


def _split_effect(draw: Draw) -> Args:
    """A model without norms, and two texts whose last tokens differ in the direction t."""
    T, d = draw.size(2), draw.size(4)
    H, d_k, d_v = (draw.size() for _ in range(3))
    W_Q, W_K, W_V = (draw.normal(2, H, d, width) / d**0.5 for width in (d_k, d_k, d_v))
    W_O = draw.normal(2, H, d_v, d) / (H * d_v) ** 0.5
    clean, corrupted, toward = draw.normal(T, d), draw.normal(T, d), draw.normal(d)
    clean[-1] = corrupted[-1] + 4 * toward / toward.norm()
    return clean, corrupted, 2 * W_Q, W_K, W_V, W_O, toward, draw.integer(0, H - 1)


def _by_hand() -> Args:
    """Two tokens of four dimensions, as the text of the task describes them."""
    clean = table([[1, 0, 1, 0], [0, math.log(3), 0, 0]])
    corrupted = table([[1, 0, 0.5, 0], [0, 0, 0, 0]])
    W_Q, W_K, W_V = torch.zeros(3, 2, 1, 4, 1)
    W_O = torch.zeros(2, 1, 1, 4)
    W_Q[0, 0, 1], W_K[0, 0, 0], W_V[0, 0, 2], W_O[0, 0, 0, 3] = 1.0, 1.0, 1.0, 1.0
    W_V[1, 0, 3], W_O[1, 0, 0, 3] = 1.0, 2.0
    return clean, corrupted, W_Q, W_K, W_V, W_O, table([0, 0, 0, 1]), 0


SPLIT = Task("split_effect", _split_effect, visible=(_by_hand(), _split_effect(Draw(1))))


# --- rank_interval: a rank correlation and its interval -------------------------------------------


def _rank_interval(draw: Draw) -> Args:
    n, H, R = draw.size(), draw.size(2), draw.size()
    return _measures(draw, n, H, R)


def _measures(draw: Draw, n: int, H: int, R: int) -> Args:
    """Two measures (n, H), and R draws of prompts."""
    heads = draw.integers(-5, 6, H)  # what both measures have in common
    return _measure(draw, n, heads), _measure(draw, n, heads), draw.integers(0, n, R, n)


def _measure(draw: Draw, n: int, heads: Tensor) -> Tensor:
    """Whole numbers (n, H), and a few hundredths by which no two heads have the same mean."""
    hundredths = torch.tensor(draw.shuffled(range(len(heads)))) / 100
    return heads + draw.integers(-5, 6, n, len(heads)) + hundredths


RANKED = Task(
    "rank_interval",
    _rank_interval,
    visible=(
        (
            table([[1, 2, 3], [3, 4, 5]]),
            table([[1, 2, 3], [9, 5, 1]]),
            torch.tensor([[0, 0], [0, 1], [1, 1]]),
        ),
        _rank_interval(Draw(4)),
        _measures(Draw(0), 5, 8, 51),  # both quantiles lie between two correlations
    ),
)

TASKS: tuple[Task, ...] = (TERMS, RESTORED, HARM, SPLIT, RANKED)
