"""Tasks of chapter 07: saliency, Kendall's τ, Jensen–Shannon, an adversary, deletion."""

import math
from typing import Any

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.solutions import solution
from grading.tasks.task import Args, Task

# --- saliencies: one number for each word ---------------------------------------------------------


def _saliencies(draw: Draw) -> Args:
    T, d = draw.size(), draw.size()
    return (draw.normal(*draw.lead, T, d),)


SALIENCIES = Task(
    "saliencies",
    _saliencies,
    visible=((table([[3, -4]]),), (tenths(1, 5, 3),), (tenths(2, 2, 3, 4),)),
)


# --- kendall_tau: do two rankings agree? ----------------------------------------------------------


def _kendall_tau(draw: Draw) -> Args:
    """Scores with ties; neither has one score for all words."""
    T = draw.size(least=2)
    while True:
        x, y = draw.integers(0, 4, T), draw.integers(0, 5, T)
        if len(x.unique()) > 1 and len(y.unique()) > 1:
            return x / 4, y / 5


def _tied_in_both(draw: Draw) -> list[Args]:
    """Two words have the same score in x and in y."""
    x, y = draw.normal(6), draw.normal(6)
    x[3], y[3] = x[0], y[0]
    return [(x, y)]


KENDALL = Task(
    "kendall_tau",
    _kendall_tau,
    also=_tied_in_both,
    visible=(
        (table([1, 2, 3]), table([1, 3, 2])),
        (table([1, 2, 3]), table([1, 2, 2])),
        (table([0.5, 0.1, 0.1, 0.2, 0.1, 0.9]), table([0.3, 0.2, 0.2, 0.1, 0.1, 0.7])),
        (table([5, 1, 4, 2, 3]), table([-1, 8, 1, 0, 2])),
    ),
)


# --- jensen_shannon: how different are two maps? --------------------------------------------------


def _jensen_shannon(draw: Draw) -> Args:
    """Rows with zeros in one of them or in both; the first word always counts."""
    T = draw.size()
    rows = draw.rows(2, *draw.lead, T, spread=2) * (draw.uniform(2, *draw.lead, T) > 0.4)
    rows[..., 0] += 0.1
    p, q = rows / rows.sum(-1, keepdim=True)
    return p, q


JSD = Task(
    "jensen_shannon",
    _jensen_shannon,
    visible=(
        (table([1, 0]), table([0, 1])),
        (table([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]), table([[0.2, 0.2, 0.6], [0.3, 0.3, 0.4]])),
        # zeros in one row, and in both
        (
            table([[0.5, 0.5, 0, 0], [0.8, 0, 0.2, 0]]),
            table([[0.5, 0.25, 0.25, 0], [0, 0.4, 0.5, 0.1]]),
        ),
    ),
)


# --- other_attention: be the adversary ------------------------------------------------------------


def _distance(w: Tensor, alpha: Tensor) -> float:
    return float((w - alpha).abs().sum() / 2)


def _other_attention(draw: Draw) -> Args:
    """Nearly as far as two words can be."""
    T = draw.size(least=5)
    votes, alpha = draw.normal(T), draw.rows(T, spread=2)
    farthest = solution("07_is_attention_explanation", "other_attention")(votes, alpha, 1.0)
    return votes, alpha, math.floor(100 * _distance(farthest, alpha) - 1) / 100


def _refuse_weights(args: tuple[Any, ...], answer: Any) -> str | None:
    votes, alpha, far = args
    if not isinstance(answer, Tensor) or answer.shape != alpha.shape:
        return f"return a tensor of {len(alpha)} weights, one for each word"
    w = answer.to(alpha.dtype)
    if not torch.isfinite(w).all():
        return "a weight is not a finite number"
    if w.min() < -1e-4:
        return f"a weight is below 0: {w.min():.3f}"
    if abs(w.sum() - 1) > 1e-4:
        return f"the weights sum to {w.sum():.4f}, not to 1"
    before, after = alpha @ votes, w @ votes
    if abs(after - before) > 1.1e-3:
        return (
            f"the sum of the votes moves from {before:.4f} to {after:.4f}, so the prediction "
            "changes: two words need one that votes below the sum and one that votes above it"
        )
    if _distance(w, alpha) < far - 1e-4:
        return (
            f"the distance is {_distance(w, alpha):.3f}, and at least {far:.3f} is asked for: "
            "choose words that have little of alpha"
        )
    return None


OTHER = Task(
    "other_attention",
    _other_attention,
    visible=(
        (table([-1, 0, 1]), table([0, 1, 0]), 0.95),
        (table([-1, 0.5, 2, -0.5, 1]), table([0.15, 0.5, 0.05, 0.2, 0.1]), 0.75),
        # the two ends hold most of alpha
        (table([-2, -1, 0.5, 1, 2]), table([0.35, 0.05, 0.1, 0.05, 0.45]), 0.85),
        # the two words with the least alpha are not far enough
        (table([-2, 1.5, 1, 0.5, 0]), table([0.4, 0.25, 0, 0.3, 0.05]), 0.8),
    ),
    accepts=_refuse_weights,
)


# --- comprehensiveness: delete what the map shows -------------------------------------------------


def _comprehensiveness(draw: Draw) -> Args:
    T = draw.size(least=2)
    return 2 * draw.normal(T), draw.rows(T, spread=1.5), draw.integer(1, T - 1)


def _of_both_classes(draw: Draw) -> list[Args]:
    """Votes of both sides, so that the class may change; words with weight against the class."""
    votes, alpha = 2 * draw.normal(7), draw.rows(7, spread=1.5)
    sides = (votes + 2, votes - 2, votes - alpha @ votes + 0.3, votes - alpha @ votes - 0.3)
    return [(side, alpha, count) for side in sides for count in (1, 4)]


COMPREHENSIVENESS = Task(
    "comprehensiveness",
    _comprehensiveness,
    also=_of_both_classes,
    visible=(
        (table([2, 0, -2]), table([0.5, 0.25, 0.25]), 1),
        # the negative class, two words deleted
        (table([1, -3, -1, 0.5]), table([0.1, 0.4, 0.2, 0.3]), 2),
        # the fall is below 0: the word with the largest weight spoke against the class
        (table([3, -1, 2, 1]), table([0.2, 0.4, 0.3, 0.1]), 1),
    ),
)

TASKS: tuple[Task, ...] = (SALIENCIES, KENDALL, JSD, OTHER, COMPREHENSIVENESS)
