"""Where a token stands: sinusoids that are added, rotations that are applied.

Learned positions need no function: they are an embedding table with one row per position.
"""

import torch
from torch import Tensor

ROTARY_PAIRS = ("adjacent", "halves")


def frequencies(d: int, base: float = 10_000.0) -> Tensor:
    """Angular frequencies base^(−2i/d) for i = 0 … d/2 − 1, in radians per position: (d/2,)."""
    if d < 2 or d % 2:
        raise ValueError(f"positions come in sine-cosine pairs: the width must be even, got {d}")
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def sinusoidal(n: int, d: int) -> Tensor:
    """Fixed position vectors: sines on even, cosines on odd dimensions.

    PE[p, 2i] = sin(p · 10000^(−2i/d)), PE[p, 2i+1] = cos(the same), i = 0 … d/2 − 1
    (Vaswani et al. 2017, section 3.5).

    Args:
        n: number of positions, counted from 0.
        d: width, even.

    Returns:
        (n, d) float32.

    >>> sinusoidal(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    angle = torch.arange(n, dtype=torch.float64)[:, None] * frequencies(d)  # (n, d/2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0, pairs: str = "adjacent") -> Tensor:
    """Rotary positions: turn pairs of dimensions by an angle that grows with p.

    Queries and keys are turned, values are not; the score of two turned vectors then depends on
    the difference of their positions only (Su et al. 2021, section 3.2).

    Args:
        x: (..., T, d), d even.
        positions: (T,), whole or not.
        base: pair i turns by base^(−2i/d) radians per position.
        pairs: pair i is dimensions (2i, 2i+1), "adjacent", as the paper has it; or (i, i + d/2),
            "halves". Weights that were trained with one are wrong with the other.

    Returns:
        the shape and type of x; lengths of vectors are unchanged.

    Raises:
        ValueError: if d is odd, there is not one position per row, or there are no such pairs.
    """
    if positions.shape != (x.shape[-2],):
        raise ValueError(f"{x.shape[-2]} rows need as many positions, got {tuple(positions.shape)}")
    if pairs not in ROTARY_PAIRS:
        raise ValueError(f"pairs must be one of {ROTARY_PAIRS}, got {pairs!r}")
    angle = positions.to(torch.float64)[:, None] * frequencies(x.shape[-1], base).to(x.device)
    cos, sin = angle.cos().to(x), angle.sin().to(x)  # (T, d/2)
    axis = -1 if pairs == "adjacent" else -2
    even, odd = x.unflatten(-1, (-1, 2) if axis == -1 else (2, -1)).unbind(axis)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], axis).flatten(-2)
