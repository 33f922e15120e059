"""A gate on every head: which heads can be taken away, learned with the model (pruning).

Every head of every attention layer gets a gate g between 0 and 1 that its output is multiplied
with. While it is learned the gate is random, a *hard concrete* variable (Louizos, Welling and
Kingma 2018), so that it can be exactly 0 and still has a gradient; a penalty on the probability
that gates are open closes those that are not needed (Voita et al. 2019).

Gates are tensors (A, H): one row for each layer of attention in the order of `attention_layers`.
"""

import copy
import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnlib.attention import MultiHeadAttention

TEMPERATURE, LOW, HIGH = 0.33, -0.1, 1.1  # the uniform noise is stretched to (LOW, HIGH)
M = TypeVar("M", bound=nn.Module)
SPEED = 30.0  # how much faster than the weights the gates learn, at one learning rate


def hard_concrete(log_a: Tensor, u: Tensor | None = None) -> Tensor:
    """Gates: clip((HIGH − LOW) σ(s) + LOW, 0, 1).

    Args:
        log_a: what is learned, of any shape.
        u: uniform noise in (0, 1), of the same shape: s = (ln u − ln(1 − u) + log a) / TEMPERATURE.
            Without noise, for a model in use, s = log a.

    >>> hard_concrete(torch.tensor([-9.0, 0.0, 9.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    s = log_a if u is None else (u.log() - (-u).log1p() + log_a) / TEMPERATURE
    return ((HIGH - LOW) * s.sigmoid() + LOW).clamp(0, 1)


def p_open(log_a: Tensor) -> Tensor:
    """Probability that a noisy gate is not exactly 0: σ(log a − TEMPERATURE · ln(−LOW / HIGH))."""
    return (log_a - TEMPERATURE * math.log(-LOW / HIGH)).sigmoid()


def attention_layers(model: nn.Module) -> list[str]:
    """Names of a model's layers of attention, in the order in which they were made."""
    return [name for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)]


def gate_shape(model: nn.Module) -> tuple[int, int]:
    """(A, H): layers of attention, and heads in each."""
    names = attention_layers(model)
    return len(names), len(model.get_parameter(f"{names[0]}.W_O"))


def scaled(model: nn.Module, gates: Tensor) -> dict[str, Tensor]:
    """The matrices W_O of a model, those of head h in layer a multiplied by gates[a, h].

    For `torch.func.functional_call`: every head then writes so many times what it wrote. Heads
    must be concatenated, not added, so that each has a W_O of its own.
    """
    if gates.shape != gate_shape(model):
        raise ValueError(f"expected gates of shape {gate_shape(model)}, got {tuple(gates.shape)}")
    matrices = [f"{name}.W_O" for name in attention_layers(model)]
    pairs = zip(matrices, gates, strict=True)
    return {name: g[:, None, None] * model.get_parameter(name) for name, g in pairs}


def with_gates(model: M, gates: Tensor) -> M:
    """A copy of a model whose heads write gates[a, h] times as much.

    A head whose gate is 0 is gone for good: its W_V and W_O are 0, and so are their gradients
    from then on, whatever the copy is trained on.
    """
    model = copy.deepcopy(model)
    with torch.no_grad():
        for name, W_O in scaled(model, gates).items():
            model.get_parameter(name).copy_(W_O)
        for name, open_ in zip(attention_layers(model), gates != 0, strict=True):
            model.get_parameter(f"{name}.W_V").mul_(open_[:, None, None])
    return model


class Gated(nn.Module):
    """A model with a gate on every head, to be trained together.

    Attributes:
        model: the model itself.
        log_a: (A, H), what the gates are made of.
    """

    def __init__(self, model: nn.Module, start: float = 2.0) -> None:
        super().__init__()
        self.model = model
        self.slow = nn.Parameter(torch.full(gate_shape(model), start / SPEED))

    @property
    def log_a(self) -> Tensor:
        """(A, H), what the gates are made of."""
        return self.slow * SPEED

    @property
    def gates(self) -> Tensor:
        """(A, H), as they are in use, without noise."""
        return hard_concrete(self.log_a)

    def forward(self, *inputs: Tensor) -> Any:
        """As the model's, with noisy gates in training and without noise in evaluation."""
        gates = self.gates
        if self.training:
            u = torch.rand_like(gates).clamp(1e-6, 1 - 1e-6)
            gates = hard_concrete(self.log_a, u)
        return torch.func.functional_call(self.model, scaled(self.model, gates), inputs)

    def pruned(self) -> nn.Module:
        """The model with its gates as they are in use, without noise; those at 0 are gone."""
        return with_gates(self.model, self.gates.detach())
