"""Do attention weights explain a prediction? The measures of the debate, for any model.

Weights and scores are (N, T), and 0 on padding, which stands at the end and where `mask` (N, T) is
False. Everything runs over a whole test set at once.
"""

import math

import torch
from torch import Tensor

from attnlib.explain.precision import at_least_float32
from attnlib.tokenizers.words import check_padding

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
    p, q = at_least_float32(p), at_least_float32(q)
    tiny = torch.finfo(p.dtype).tiny  # keeps log finite, also in its gradient; 0 · log stays 0
    log_m = ((p + q) / 2).clamp_min(tiny).log()
    of_p = p * (p.clamp_min(tiny).log() - log_m)
    of_q = q * (q.clamp_min(tiny).log() - log_m)
    return ((of_p + of_q).sum(-1) / 2).clamp(0, LN2)


# --- does attention agree with importance? ----------------------------------------------------


def kendall(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    """Kendall's τ between two scores of the same tokens, text by text.

    τ = (pairs in the same order − pairs in the opposite order) / pairs, corrected for ties (τ-b),
    as `scipy.stats.kendalltau` computes it.

    Args:
        a, b: scores (N, T).
        mask: True on real tokens, (N, T).

    Returns:
        (N,); NaN where there is no τ: fewer than two tokens, or one score is the same for all.

    >>> real = torch.ones(1, 3, dtype=torch.bool)
    >>> kendall(torch.tensor([[1, 2, 3]]), torch.tensor([[1, 3, 2]]), real)
    tensor([0.3333])
    """
    pairs = mask[:, :, None] & mask[:, None, :]  # (N, T, T)
    order_a = (a[:, :, None] - a[:, None, :]).sign().float() * pairs  # 1, −1, or 0 in a tie
    order_b = (b[:, :, None] - b[:, None, :]).sign().float() * pairs
    untied_a = order_a.square().sum((-2, -1))
    untied_b = order_b.square().sum((-2, -1))
    return (order_a * order_b).sum((-2, -1)) / (untied_a * untied_b).sqrt()


# --- do other weights change the prediction? --------------------------------------------------


def permute(attention: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The weights of each row in a random order among its real tokens.

    Args:
        attention: (B, T).
        mask: True on real tokens, (B, T).
        generator: on the CPU, so that the order is the same on every device.

    Returns:
        (B, T).
    """
    keys = torch.rand(attention.shape, generator=generator, device="cpu").to(attention.device)
    order = keys.masked_fill(~check_padding(mask), 2.0).argsort(-1)  # padding last, where it was
    return attention.gather(-1, order)


# --- does the prediction change when the words go? --------------------------------------------


def select(ids: Tensor, mask: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """The kept tokens of every row, moved together.

    Args:
        ids: (B, T).
        mask: True on real tokens, (B, T).
        kept: True on those to keep, (B, T).

    Returns:
        ids and mask, (B, longest).

    >>> ids = torch.tensor([[5, 6, 7]])
    >>> select(ids, ids > 0, torch.tensor([[True, False, True]]))
    (tensor([[5, 7]]), tensor([[True, True]]))
    """
    kept = kept & mask
    longest = int(kept.sum(-1).max())
    order = (~kept).byte().argsort(stable=True)[:, :longest]  # kept ones first, in their order
    kept = kept.gather(-1, order)
    return ids.gather(-1, order).masked_fill(~kept, 0), kept


def random_scores(mask: Tensor, seed: int = 0) -> Tensor:
    """Scores (N, T) that know nothing, beside which every order of words is judged."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.rand(mask.shape, generator=generator, device="cpu").to(mask.device) * mask
