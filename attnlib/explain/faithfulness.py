"""Do attention weights explain a prediction? The tests of the debate, for any model.

A model is given as a function: `predict` takes weights (..., B, T) to predictions ŷ (..., B)
between 0 and 1, with everything else fixed (`AttentionClassifier.predictor` makes one), or takes
ids and mask to ŷ (B,) where words are deleted. Weights are 0 on padding, which stands at the end
and where `mask` (B, T) is False. Everything runs over a whole test set at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlib.tokenizers.words import check_padding

Predict = Callable[[Tensor], Tensor]
LN2 = math.log(2)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """How far two distributions are apart: ½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q) / 2.

    In nats, between 0 (equal) and ln 2 = 0.693 (nowhere positive together).

    Args:
        p, q: (..., T), rows sum to 1.

    Returns:
        (...).

    >>> jensen_shannon(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    tiny = torch.finfo(p.dtype).tiny  # keeps log finite, also in its gradient; 0 · log stays 0
    middle = ((p + q) / 2).clamp_min(tiny).log()
    parts = p * (p.clamp_min(tiny).log() - middle) + q * (q.clamp_min(tiny).log() - middle)
    return (parts.sum(-1) / 2).clamp(0, LN2)


def uniform(mask: Tensor) -> Tensor:
    """Equal weights for the real tokens of every row, (..., T)."""
    return mask / mask.sum(-1, keepdim=True).clamp_min(1)


# --- does attention agree with importance? ----------------------------------------------------


@dataclass(frozen=True)
class RankCorrelation:
    """Rank correlation of two scores within each text.

    Attributes:
        tau: Kendall's τ-b of each text, (N,); NaN where there is none (fewer than two tokens, or
            one score is the same for all).
        p: of the test of τ = 0, (N,).
    """

    tau: Tensor
    p: Tensor

    def significant(self, level: float = 0.05) -> float:
        """Share of the texts with a τ whose p is at most `level`."""
        defined = ~self.tau.isnan()
        return float((self.p[defined] <= level).float().mean())

    def take(self, rows: Tensor) -> "RankCorrelation":
        """Some of the texts: those of a class, say."""
        return RankCorrelation(self.tau[rows], self.p[rows])


def kendall(a: Tensor, b: Tensor, mask: Tensor) -> RankCorrelation:
    """Kendall's τ between two scores of the same tokens, text by text.

    τ = (pairs in the same order − pairs in the opposite order) / pairs, corrected for ties (τ-b),
    as `scipy.stats.kendalltau` computes it.

    Args:
        a, b: scores (N, T).
        mask: True on real tokens, (N, T).

    Returns:
        a RankCorrelation of N texts.
    """
    import warnings

    from scipy.stats import kendalltau

    rows = []
    for x, y, real in zip(a.double(), b.double(), mask, strict=True):
        x, y = x[real], y[real]
        with warnings.catch_warnings():  # one token or a constant score has no τ: NaN says so
            warnings.simplefilter("ignore")
            result = kendalltau(x.numpy(), y.numpy())
        rows.append((float(result.statistic), float(result.pvalue)))
    tau, p = torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).unbind(1)
    return RankCorrelation(tau, p)


# --- do other weights change the prediction? --------------------------------------------------


def permute(attention: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The weights of each row in a random order among its real tokens, (B, T)."""
    keys = torch.rand(attention.shape, generator=generator).masked_fill(~check_padding(mask), 2.0)
    return attention.gather(-1, keys.argsort(-1))  # padding sorts last, where it was


@torch.no_grad()
def permutation_shift(
    predict: Predict, attention: Tensor, mask: Tensor, count: int = 100, seed: int = 0
) -> Tensor:
    """Median |Δŷ| over random orders of the weights (Jain and Wallace 2019, section 4.2.1).

    Args:
        predict: weights (B, T) to ŷ (B,).
        attention: the model's weights, (B, T).
        mask: True on real tokens, (B, T).
        count: orders to try.
        seed: of the orders.

    Returns:
        (B,), between 0 and 1.
    """
    generator = torch.Generator().manual_seed(seed)
    y = predict(attention)
    shifts = [(predict(permute(attention, mask, generator)) - y).abs() for _ in range(count)]
    return torch.stack(shifts).quantile(0.5, 0)


# --- does the prediction change when the words go? --------------------------------------------


def select(ids: Tensor, mask: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """The kept tokens of every row, moved together: ids and mask, (B, longest).

    >>> ids = torch.tensor([[5, 6, 7]])
    >>> select(ids, ids > 0, torch.tensor([[True, False, True]]))
    (tensor([[5, 7]]), tensor([[True, True]]))
    """
    kept = kept & mask
    order = (~kept).byte().argsort(stable=True)[:, : int(kept.sum(-1).max())]
    kept = kept.gather(-1, order)
    return ids.gather(-1, order).masked_fill(~kept, 0), kept


def random_scores(mask: Tensor, seed: int = 0) -> Tensor:
    """Scores (N, T) that know nothing, beside which every order of words is judged."""
    return torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
