"""Attention as different as can be, for the same prediction.

`adversarial_attention` searches by gradient, for any model and a whole test set at once;
`exact_adversary` computes the answer where the output is linear in the weights. Both keep to ε.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from attnlib.explain.faithfulness import LN2, Predict, jensen_shannon


@dataclass(frozen=True)
class Adversary:
    """Other weights for the same prediction.

    Attributes:
        weights: (B, T).
        jsd: from the model's weights, (B,), at most ln 2.
        shift: |Δŷ|, (B,), at most ε.
        path: best weights so far at `steps` of the search, (S, B, T).
        steps: their numbers, in order.
    """

    weights: Tensor
    jsd: Tensor
    shift: Tensor
    path: Tensor
    steps: tuple[int, ...] = ()


def adversarial_attention(
    predict: Predict,
    attention: Tensor,
    mask: Tensor,
    epsilon: float = 0.05,
    starts: int = 5,
    steps: int = 300,
    lr: float = 0.1,
    seed: int = 0,
    keep: Sequence[int] = (),
) -> Adversary:
    """The most different weights that leave the prediction where it is.

    Maximise JSD(α̃, α) subject to |ŷ(α̃) − ŷ(α)| ≤ ε (Jain and Wallace 2019, section 4.2.2): Adam
    on the logits of α̃ with a price on every step beyond ε, from several random starts, for all
    texts at once. What is returned keeps to ε strictly: each iterate is drawn back towards α until
    it does, and the best of them wins; α itself is where the search begins.

    Args:
        predict: weights (..., B, T) to ŷ (..., B), differentiable; a row depends on its own
            weights only.
        attention: the model's weights α, (B, T).
        mask: True on real tokens, (B, T).
        epsilon: largest |Δŷ|.
        starts: K, random starts.
        steps: of Adam.
        lr: its learning rate.
        seed: of the starts.
        keep: steps at which to keep the best weights so far, for the path.
    """
    if epsilon < 0 or starts < 1 or steps < 1:
        raise ValueError(f"need ε ≥ 0, starts and steps ≥ 1, got {epsilon}, {starts}, {steps}")
    alpha, y = attention.detach(), predict(attention).detach()
    theta, path = _random_logits(alpha, starts, seed), {}
    best, best_jsd = alpha, torch.zeros_like(y)

    def cost(weights: Tensor) -> Tensor:
        excess = ((predict(weights) - y).abs() - epsilon).relu()
        return (10 * excess - jensen_shannon(weights, alpha)).sum()

    for step, weights in _ascent(cost, theta, mask, steps, lr):
        if step % 10 == 0 or step == steps or step in keep:
            candidates = _project_to_epsilon(predict, weights, alpha, y, epsilon)
            best, best_jsd = _better(candidates, alpha, best, best_jsd)
        if step in keep:
            path[step] = best
    with torch.no_grad():
        best = torch.where(((predict(best) - y).abs() <= epsilon)[:, None], best, alpha)
        shift, jsd = (predict(best) - y).abs(), jensen_shannon(best, alpha)
    stacked = torch.stack([*path.values()]) if path else alpha.new_zeros(0, *alpha.shape)
    return Adversary(best, jsd, shift, stacked, tuple(path))


def _random_logits(alpha: Tensor, starts: int, seed: int) -> Tensor:
    """Where the search begins: logits (K, B, T), from nearly flat to nearly a single token."""
    generator = torch.Generator().manual_seed(seed)
    sharpness = torch.linspace(1, 4, starts)[:, None, None]  # the optimum is often a corner
    return torch.randn(starts, *alpha.shape, generator=generator).to(alpha) * sharpness


def _ascent(
    cost: Callable[[Tensor], Tensor], theta: Tensor, mask: Tensor, steps: int, lr: float
) -> Iterator[tuple[int, Tensor]]:
    """The way of the logits (K, B, T): every step from 0 on, and the weights (K, B, T) there."""
    theta = theta.requires_grad_()
    optimizer = torch.optim.Adam([theta], lr=lr)
    for step in count():
        weights = theta.masked_fill(~mask, -torch.inf).softmax(-1)
        yield step, weights.detach()
        if step == steps:
            return
        optimizer.zero_grad()
        cost(weights).backward()
        optimizer.step()


@torch.no_grad()
def _project_to_epsilon(
    predict: Predict, weights: Tensor, alpha: Tensor, y: Tensor, epsilon: float
) -> Tensor:
    """The farthest point from α towards the weights that bisection finds within ε."""
    inside = epsilon * (1 - 1e-4)  # room for rounding, which differs with the shape of a batch
    low = torch.zeros(weights.shape[:-1]).to(alpha)
    low = torch.where((predict(weights) - y).abs() <= inside, 1.0, low)
    high = torch.ones_like(low)
    for _ in range(8 if (low < 1).any() else 0):
        middle = (low + high) / 2
        within = (predict(_mix(alpha, weights, middle)) - y).abs() <= inside
        low, high = torch.where(within, middle, low), torch.where(within, high, middle)
    return _mix(alpha, weights, low)


def _mix(alpha: Tensor, weights: Tensor, share: Tensor) -> Tensor:
    share = share.unsqueeze(-1)
    # at share 0 or 1 it is α or the weights, to the bit
    return torch.where(share == 0, alpha, torch.lerp(alpha.expand_as(weights), weights, share))


@torch.no_grad()
def _better(
    candidates: Tensor, alpha: Tensor, best: Tensor, best_jsd: Tensor
) -> tuple[Tensor, Tensor]:
    """The best of what there was (B, T) and of the candidates (K, B, T), row by row."""
    distance, start = jensen_shannon(candidates, alpha).max(0)
    found = candidates[start, torch.arange(len(alpha))]
    wins = distance > best_jsd
    return torch.where(wins[:, None], found, best), torch.where(wins, distance, best_jsd)


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
        an Adversary without path; its JSD is the largest there is.
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
    return Adversary(weights, jsd, (moved - y).abs(), weights.new_zeros(0, *weights.shape))


def _best_corner(votes: Tensor, bias: float, alpha: Tensor, epsilon: float) -> Tensor:
    """The best corner for one text without padding: votes and α (T,) to weights (T,)."""
    y = ((alpha * votes).sum() + bias).sigmoid()
    inner = epsilon * (1 - 1e-9)  # room for rounding
    planes = torch.stack([(y - inner).clamp_min(0), (y + inner).clamp_max(1)]).logit() - bias
    gap = votes[:, None] - votes  # (T, T): v_i − v_j
    shares = (planes[:, None, None] - votes) / gap  # of token i; no number where votes are equal
    inside = (votes >= planes[0]) & (votes <= planes[1])
    alone = torch.where(inside[:, None], 1.0, torch.nan).expand_as(gap)[None]  # j gets nothing
    shares = torch.cat([shares, alone])  # outside 0 … 1 the logarithm of a weight is no number
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
