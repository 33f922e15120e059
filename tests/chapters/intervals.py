"""How sure a mean is, over texts, windows or reviews."""

from collections.abc import Sequence

import torch
from torch import Tensor


def interval(values: Tensor | Sequence[Tensor] | Sequence[float]) -> tuple[float, float]:
    """The ends of a 95 % interval of the mean."""
    each = torch.as_tensor([float(value) for value in values]).double()
    half = 1.96 * each.std() / len(each) ** 0.5
    return float(each.mean() - half), float(each.mean() + half)
