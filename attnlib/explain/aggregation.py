"""From many attention maps to one, and from a map to one number per token.

A trace holds L layers of H heads. To call "the attention" an explanation, somebody must choose:
which layers, which heads, which row or column. `aggregate_maps` and `reduce_map` make choices in
the spirit of Mylonas et al. (2023), `schemes` lists them all, `rollout` and `flow` follow the
attention through the layers (Abnar and Zuidema 2020). None is the right one; a faithfulness score
can rank them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

LAYERS = ("mean", "max", "product")
HEADS = ("mean", "max")
VECTORS = ("from_first", "to_first", "column_mean", "column_max")


def aggregate_maps(
    attention: Tensor, layers: str | int = "mean", heads: str | int = "mean"
) -> Tensor:
    """One map from all: first over the heads of each layer, then over the layers.

    Args:
        attention: (..., L, H, T, T).
        layers: "mean", "max", "product" (the matrix product, last layer first) or a number.
        heads: "mean", "max" or a number.

    Returns:
        (..., T, T); rows sum to 1 unless there is a "max".
    """
    _check_square(attention)
    if isinstance(heads, int):
        maps = attention[..., heads, :, :]
    else:
        _check(heads, "heads", HEADS)
        maps = attention.mean(-3) if heads == "mean" else attention.amax(-3)
    if isinstance(layers, int):
        return maps[..., layers, :, :]
    _check(layers, "layers", LAYERS)
    if layers == "product":
        return _product(maps)[..., -1, :, :]
    return maps.mean(-3) if layers == "mean" else maps.amax(-3)


def reduce_map(weights: Tensor, how: str = "from_first", mask: Tensor | None = None) -> Tensor:
    """One number per token from one map (..., T, T).

    - "from_first": row 0, where the first token ([CLS]) looks;
    - "to_first": column 0, who looks at it;
    - "column_mean", "column_max": how much each token is looked at, over all that look.

    Args:
        weights: (..., T, T).
        how: one of these.
        mask: True on real tokens, (..., T): rows of padding do not count.

    Returns:
        (..., T), 0 on padding.
    """
    _check(how, "how", VECTORS)
    if mask is not None:
        weights = weights * (mask.unsqueeze(-1) & mask.unsqueeze(-2))
    if how == "from_first":
        return weights[..., 0, :]
    if how == "to_first":
        return weights[..., 0]
    if how == "column_max":
        return weights.amax(-2)
    count = weights.shape[-2] if mask is None else mask.sum(-1, keepdim=True)
    return weights.sum(-2) / count


def schemes(layers: int, heads: int) -> Iterator[tuple[str | int, str | int, str]]:
    """Every choice for L layers and H heads: arguments of `aggregate_maps`, then of `reduce_map`.

    >>> len(list(schemes(12, 12)))
    840
    """
    for layer in (*LAYERS, *range(layers)):
        for head in (*HEADS, *range(heads)):
            for vector in VECTORS:
                yield layer, head, vector


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


def _check(value: str, name: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices} or a number, got {value!r}")


def _check_square(attention: Tensor) -> None:
    shape = attention.shape
    if len(shape) < 4 or shape[-1] != shape[-2] or 0 in shape[-4:]:
        raise ValueError(
            f"need maps (..., layer, head, T, T) of self-attention, got {tuple(attention.shape)}"
        )
