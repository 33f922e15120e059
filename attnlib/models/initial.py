"""How weights begin."""

import math

import torch
from torch import nn


def normal(*shape: int, std: float) -> nn.Parameter:
    """Normal with this standard deviation; on the meta device, where numbers come later, none."""
    weight = torch.empty(shape)
    return nn.Parameter(weight if weight.is_meta else torch.randn(shape) * std)


def uniform(*shape: int, width: int) -> nn.Parameter:
    """Uniform on ±1/√width."""
    return nn.Parameter((torch.rand(*shape) * 2 - 1) / math.sqrt(width))
