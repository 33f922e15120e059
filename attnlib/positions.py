"""Where a token stands: sinusoids that are added, rotations that are applied.

Learned positions need no function: they are an embedding table with one row per position.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlib.attention import check_choice

ROTARY_PAIRS = ("adjacent", "halves")
CPU = torch.device("cpu")  # angles are computed there, in double precision, which not every GPU has


@dataclass(frozen=True)
class RotaryScaling:
    """How rotary frequencies are slowed, so that a model reads longer texts than it was trained on.

    With `factor` alone every frequency is divided by it (Chen et al. 2023). With the other three,
    as Llama 3.1 does: a pair that turns more than `high_frequency` times within `original_length`
    positions is left alone, a pair that turns less than `low_frequency` times is slowed by the
    factor, and between the two the change is gradual.
    """

    factor: float
    low_frequency: float | None = None
    high_frequency: float | None = None
    original_length: int | None = None

    def __post_init__(self) -> None:
        rest = (self.low_frequency, self.high_frequency, self.original_length)
        if self.factor <= 0 or (None in rest and rest != (None, None, None)):
            raise ValueError(
                "a rotary scaling has a factor above 0, and the other three together or not at "
                f"all; got {self}"
            )

    def __call__(self, frequency: Tensor) -> Tensor:
        """The slowed frequencies, in radians per position, of the same shape."""
        slowed = frequency / self.factor
        low, high, length = self.low_frequency, self.high_frequency, self.original_length
        if low is None or high is None or length is None:
            return slowed
        turns = length * frequency / (2 * math.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return kept * frequency + (1 - kept) * slowed


def frequencies(d: int, base: float = 10_000.0) -> Tensor:
    """Angular frequencies base^(−2i/d) for i = 0 … d/2 − 1, in radians per position: (d/2,)."""
    if d < 2 or d % 2:
        raise ValueError(f"positions come in sine-cosine pairs: the width must be even, got {d}")
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64, device=CPU) / d)


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
    positions = torch.arange(n, dtype=torch.float64, device=CPU)
    angle = positions[:, None] * frequencies(d)  # (n, d/2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()


def rotation(
    positions: Tensor, d: int, base: float = 10_000.0, scaling: RotaryScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angle by which each pair of dimensions turns at each position.

    Args:
        positions: (T,), whole or not, on any device.
        d: dimensions that turn, even.
        base: pair i turns by base^(−2i/d) radians per position,
        scaling: slowed by this, if there is one.

    Returns:
        two tensors (T, d/2), float64 on the CPU.
    """
    frequency = frequencies(d, base)
    if scaling is not None:
        frequency = scaling(frequency)
    angle = positions.to(CPU, torch.float64)[:, None] * frequency
    return angle.cos(), angle.sin()


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
    cos, sin = rotation(positions, x.shape[-1], base)
    return turn(x, cos.to(x), sin.to(x), pairs)


def turn(x: Tensor, cos: Tensor, sin: Tensor, pairs: str = "adjacent") -> Tensor:
    """Turn the first dimensions of x by known angles; those that are left stay as they are.

    Args:
        x: (..., T, d).
        cos: (T, n/2) for the first n ≤ d dimensions.
        sin: likewise.
        pairs: as in `rotate`.
    """
    check_choice("pairs", pairs, ROTARY_PAIRS)
    n = 2 * cos.shape[-1]
    if n < x.shape[-1]:
        return torch.cat([turn(x[..., :n], cos, sin, pairs), x[..., n:]], -1)
    if pairs == "adjacent":
        first, second, axis = x[..., 0::2], x[..., 1::2], -1
    else:
        first, second, axis = x[..., : n // 2], x[..., n // 2 :], -2
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], axis)
    return turned.flatten(-2)
