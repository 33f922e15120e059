"""How far predictions fall when words go, for the tests of whatever ranks words."""

import torch

from attnlib.explain.faithfulness import select


def falls(predict, ids, mask, scores, share=0.1, only=False):
    """The fall of each text's own class without the first words of an order, or with only them."""
    lengths = mask.sum(1, keepdim=True)
    order = scores.masked_fill(~mask, -torch.inf).argsort(descending=True, stable=True)
    count = (lengths * share - 1e-6).ceil().clamp_min(1)
    first = order.argsort(1) < (count if only else count.minimum(lengths - 1))
    whole = predict(ids, mask)
    rest = predict(*select(ids, mask, first if only else ~first))
    return torch.where(whole >= 0.5, whole - rest, rest - whole)
