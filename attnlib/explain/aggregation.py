"""Many maps become one: attention followed through the layers (Abnar and Zuidema 2020)."""

import torch
from torch import Tensor

from attnlib.explain.precision import at_least_float32


def rollout(attention: Tensor) -> Tensor:
    """Attention followed through the layers: Â_l … Â_1 with Â = ½ A + ½ I, heads averaged.

    The residual connection passes every token on unchanged; ½ I stands for it.

    Args:
        attention: (..., L, H, T, T), rows sum to 1.

    Returns:
        (..., L, T, T): after each layer, how much of each input a destination has; rows sum to 1.

    Raises:
        ValueError: if these are no maps of self-attention.

    >>> rollout(torch.full((1, 1, 2, 2), 0.5))
    tensor([[[0.7500, 0.2500],
             [0.2500, 0.7500]]])
    """
    shape = attention.shape
    if len(shape) < 4 or shape[-1] != shape[-2] or 0 in shape[-4:]:
        raise ValueError(
            f"need maps (..., layer, head, T, T) of self-attention, got {tuple(attention.shape)}"
        )
    maps = at_least_float32(attention)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)
    steps = (maps.mean(-3) / 2 + identity / 2).unbind(-3)  # Â of each layer, (..., T, T)
    total = [steps[0]]
    for step in steps[1:]:
        total.append(step @ total[-1])
    return torch.stack(total, -3)
