"""Attention as different as can be, for the same prediction (Jain and Wallace 2019, 4.2.2).

They search for it by gradient. Where the output is linear in the weights, it can be computed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlib.explain.faithfulness import LN2, jensen_shannon
from attnlib.explain.precision import in_double


@dataclass(frozen=True)
class Adversary:
    """Other weights for the same prediction.

    All of it is in double precision, where the device of the attention has it.

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

    Raises:
        ValueError: if votes, attention and mask are not of the same texts.
    """
    if not votes.shape == attention.shape == mask.shape:
        raise ValueError(
            "votes, attention and mask must be (B, T) of the same texts, got "
            f"{tuple(votes.shape)}, {tuple(attention.shape)} and {tuple(mask.shape)}"
        )
    votes, alpha, mask = in_double(votes), in_double(attention), mask.cpu()
    bias = float(bias)  # a tensor of one number will do

    weights = torch.zeros_like(alpha)
    for row, real in enumerate(mask):
        weights[row, real] = _best_corner(votes[row, real], bias, alpha[row, real], epsilon)

    before = ((alpha * votes).sum(-1) + bias).sigmoid()
    after = ((weights * votes).sum(-1) + bias).sigmoid()
    jsd = jensen_shannon(weights, alpha)
    shift = (after - before).abs()
    return Adversary(*(_return_to(attention.device, x) for x in (weights, jsd, shift)))


def _return_to(device: torch.device, x: Tensor) -> Tensor:
    """Doubles on a device; in single precision on Apple's, which has no doubles."""
    return x.float().to(device) if device.type == "mps" else x.to(device)


def _best_corner(votes: Tensor, bias: float, alpha: Tensor, epsilon: float) -> Tensor:
    """The best corner for one text without padding.

    Args:
        votes: (T,). bias: b. alpha: α, (T,). epsilon: largest |Δŷ|.

    Returns:
        weights (T,); α itself if there is no corner, as for a text of one token.
    """
    # what ε allows: Σ α_t v_t between two planes, low and high
    y = ((alpha * votes).sum() + bias).sigmoid()
    inner = epsilon * (1 - 1e-9)  # room for rounding
    low = (y - inner).clamp_min(0).logit() - bias
    high = (y + inner).clamp_max(1).logit() - bias

    # three corners for each pair (i, j): the share of token i; token j gets the rest
    v_i, v_j = votes[:, None], votes[None, :]
    on_low = (low - v_j) / (v_i - v_j)
    on_high = (high - v_j) / (v_i - v_j)
    shares = torch.stack([on_low, on_high, torch.ones_like(on_low)])  # (3, T, T)

    possible = (shares >= 0) & (shares <= 1)  # not where votes are equal: 0/0 is no share
    possible[2] &= (v_i >= low) & (v_i <= high)  # token i alone
    possible &= ~torch.eye(len(votes), dtype=torch.bool, device=votes.device)  # i is not j
    if not possible.any():
        return alpha

    distances = _distance(alpha, shares).masked_fill(~possible, -1.0)
    corner, first, second = (int(i) for i in torch.unravel_index(distances.argmax(), shares.shape))
    weights = torch.zeros_like(alpha)
    weights[first] = shares[corner, first, second]
    weights[second] = 1 - shares[corner, first, second]
    return weights


def _distance(alpha: Tensor, shares: Tensor) -> Tensor:
    """The JSD between α (T,) and two tokens alone.

    Args:
        alpha: α, (T,).
        shares: of token i, where token j has the rest, (..., i, j).

    Returns:
        (..., i, j).
    """
    a_i, a_j = alpha[:, None], alpha[None, :]
    left_out = alpha.sum() - a_i - a_j  # a token that gets nothing adds ½ α_t ln 2
    return _term(a_i, shares) + _term(a_j, 1 - shares) + left_out * LN2 / 2


def _term(p: Tensor, q: Tensor) -> Tensor:
    """What a token with weights p and q adds to the JSD: ½ p ln(p / m) + ½ q ln(q / m)."""
    middle = ((p + q) / 2).clamp_min(torch.finfo(p.dtype).tiny)  # 0 ln 0 is 0
    return (torch.xlogy(p, p / middle) + torch.xlogy(q, q / middle)).div(2)
