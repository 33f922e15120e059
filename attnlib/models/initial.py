"""How weights begin."""

import math

import torch
from torch import nn


def uniform(*shape: int, width: int) -> nn.Parameter:
    """Uniform on ±1/√width."""
    return nn.Parameter((torch.rand(*shape) * 2 - 1) / math.sqrt(width))
