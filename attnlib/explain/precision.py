"""How many digits a measure needs."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """The same numbers in float32 if their dtype has fewer digits, such as bfloat16.

    A sum over many tokens in half precision loses what is added last.

    >>> at_least_float32(torch.ones(1, dtype=torch.bfloat16)).dtype
    torch.float32
    >>> at_least_float32(torch.ones(1, dtype=torch.float64)).dtype
    torch.float64
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def in_double(x: Tensor) -> Tensor:
    """The same numbers in float64 on the CPU: some devices have no doubles."""
    return x.cpu().double()
