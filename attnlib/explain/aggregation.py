"""Attention followed through the layers: rollout and flow (Abnar and Zuidema 2020).

A trace holds L layers of H heads; here many maps become one, the heads averaged.
"""

import torch
from torch import Tensor


def rollout(attention: Tensor) -> Tensor:
    """Attention followed through the layers: Â_l … Â_1 with Â = ½ A + ½ I, heads averaged.

    The residual connection passes every token on unchanged; ½ I stands for it.

    Args:
        attention: (..., L, H, T, T), rows sum to 1.

    Returns:
        (..., L, T, T): after each layer, how much of each input a destination has; rows sum to 1.

    >>> rollout(torch.full((1, 1, 2, 2), 0.5))
    tensor([[[0.7500, 0.2500],
             [0.2500, 0.7500]]])
    """
    return _product(with_residual(attention))


def with_residual(attention: Tensor) -> Tensor:
    """½ A + ½ I for each layer, A the mean of the heads: (..., L, H, T, T) to (..., L, T, T)."""
    _check_square(attention)
    return attention.mean(-3) / 2 + torch.eye(attention.shape[-1]).to(attention) / 2


def flow(attention: Tensor, destination: int = 0, scale: int = 10**6) -> Tensor:
    """The most that can flow from each input token to one destination of the last layer.

    The layers are a network of pipes with the capacities ½ A + ½ I. `scipy` finds the maximum
    flow in whole numbers, so capacities are rounded to 1 / `scale`.

    Args:
        attention: (L, H, T, T).
        destination: row of the last layer.
        scale: capacities per unit.

    Returns:
        (T,): flow from each input, each computed alone, between the smallest pipe and 1.
    """
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    capacity = with_residual(attention)  # (L, T, T)
    depth, size, _ = capacity.shape
    layer, row, column = ((capacity * scale).round() >= 1).nonzero().numpy().T
    amount = (capacity[layer, row, column] * scale).round().int().numpy()
    # node l · T + i is token i after l layers; water runs from the column of a layer to its row
    start, end = layer * size + column, (layer + 1) * size + row
    nodes = (depth + 1) * size
    graph = csr_array((amount.astype(np.int32), (start, end)), shape=(nodes, nodes))
    sink = depth * size + destination % size
    found = [maximum_flow(graph, token, sink).flow_value for token in range(size)]
    return torch.tensor(found).to(attention) / scale


def _product(maps: Tensor) -> Tensor:
    """M_1, M_2 M_1, …: (..., L, T, T) to the same shape."""
    total, steps = maps[..., 0, :, :], []
    for layer in range(maps.shape[-3]):
        total = total if layer == 0 else maps[..., layer, :, :] @ total
        steps.append(total)
    return torch.stack(steps, -3)


def _check_square(attention: Tensor) -> None:
    shape = attention.shape
    if len(shape) < 4 or shape[-1] != shape[-2] or 0 in shape[-4:]:
        raise ValueError(
            f"need maps (..., layer, head, T, T) of self-attention, got {tuple(attention.shape)}"
        )
