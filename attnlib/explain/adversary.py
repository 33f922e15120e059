"""Attention as different as can be, for the same prediction (Jain and Wallace 2019, 4.2.2).

They search for it by gradient. Where the output is linear in the weights, it can be computed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlib.explain.faithfulness import LN2, jensen_shannon


@dataclass(frozen=True)
class Adversary:
    """Other weights for the same prediction.

    Attributes:
        weights: (B, T).
        jsd: from the model's weights, (B,), at most ln 2.
        shift: |Δŷ|, (B,), at most ε.
    """

    weights: Tensor
    jsd: Tensor
    shift: Tensor


@torch.no_grad()
def exact_adversary(
    votes: Tensor, bias: float, attention: Tensor, mask: Tensor, epsilon: float = 0.05
) -> Adversary:
    """The adversary by arithmetic, for a linear output ŷ = σ(Σ_t α_t v_t + b).

    JSD is convex and what ε allows is a simplex cut by two parallel planes: the maximum lies in a
    corner, and a corner has at most two tokens: one alone, or two whose mixture lands on a plane.
    So the worst adversary of every such classifier looks at one or two words.

    Args:
        votes: v_t = h_t · w, (B, T).
        bias: b.
        attention: α, (B, T).
        mask: True on real tokens, (B, T).
        epsilon: largest |Δŷ|.

    Returns:
        an Adversary; its JSD is the largest there is.
    """
    bias = float(bias)  # a tensor of one number will do
    rows = [
        _best_corner(vote[real].double(), bias, alpha[real].double(), epsilon)
        for vote, alpha, real in zip(votes, attention, mask, strict=True)
    ]
    weights = torch.zeros(attention.shape, dtype=torch.float64)
    weights[mask] = torch.cat(rows)
    y, moved = (
        ((a * votes.double()).sum(-1) + bias).sigmoid() for a in (attention.double(), weights)
    )
    jsd = jensen_shannon(weights, attention.double())
    return Adversary(weights, jsd, (moved - y).abs())


def _best_corner(votes: Tensor, bias: float, alpha: Tensor, epsilon: float) -> Tensor:
    """The best corner for one text without padding: votes and α (T,) to weights (T,)."""
    y = ((alpha * votes).sum() + bias).sigmoid()
    inner = epsilon * (1 - 1e-9)  # room for rounding
    planes = torch.stack([(y - inner).clamp_min(0), (y + inner).clamp_max(1)]).logit() - bias
    gap = votes[:, None] - votes  # (T, T): v_i − v_j
    shares = (planes[:, None, None] - votes) / gap  # of token i; no number where votes are equal
    inside = (votes >= planes[0]) & (votes <= planes[1])
    alone = torch.where(inside[:, None], 1.0, torch.nan).expand_as(gap)[None]  # j gets nothing
    shares = torch.cat([shares, alone])
    shares = shares.where((shares >= 0) & (shares <= 1), torch.nan)  # no mixture otherwise
    i, j = alpha[:, None], alpha.expand_as(gap)
    # a token that the adversary leaves out adds ½ α_t ln 2 to the JSD
    rest = (alpha.sum() - i - j) * LN2 / 2
    distance = (_pair(i, shares) + _pair(j, 1 - shares) + rest).nan_to_num(-1.0)
    distance[:, torch.arange(len(alpha)), torch.arange(len(alpha))] = -1.0
    best = int(distance.argmax())
    if distance.flatten()[best] < 0:
        return alpha
    share = shares.flatten()[best]
    first, second = divmod(best % len(alpha) ** 2, len(alpha))
    weights = torch.zeros_like(alpha)
    weights[first], weights[second] = share, 1 - share
    return weights


def _pair(p: Tensor, q: Tensor) -> Tensor:
    """What one token with weights p and q adds to the JSD."""
    middle = (p + q) / 2
    return (torch.xlogy(p, p / middle) + torch.xlogy(q, q / middle)).div(2)
