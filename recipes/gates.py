"""A gate on every head of a translator: which heads can be taken away.

Every head of every attention layer gets a gate g between 0 and 1 that its output is multiplied
with. While it is learned the gate is random, a *hard concrete* variable (Louizos, Welling and
Kingma 2018), so that it can be exactly 0 and still has a gradient; a penalty on the probability
that gates are open closes those that are not needed (Voita et al. 2019; `recipes.pruning`). The
side road on pruning shows the two formulas.

Gates are tensors (A, H): one row for each layer of attention in the order of `attention_layers`.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.attention import MultiHeadAttention
from attnlib.models.transformer import Edit, Edits
from attnlib.models.translator import Translator
from attnlib.tokenizers.words import PAD

TEMPERATURE, LOW, HIGH = 0.33, -0.1, 1.1  # the uniform noise is stretched to (LOW, HIGH)


def hard_concrete(log_a: Tensor, u: Tensor | None = None) -> Tensor:
    """Gates: clip((HIGH − LOW) σ(s) + LOW, 0, 1).

    Args:
        log_a: what is learned, of any shape.
        u: uniform noise in (0, 1), of the same shape: s = (ln u − ln(1 − u) + log a) / TEMPERATURE.
            Without noise, for a model in use, s = log a.

    >>> from torch import tensor
    >>> hard_concrete(tensor([-9.0, 0.0, 9.0]))
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


def gate_edits(model: Translator, gates: Tensor) -> tuple[Edits, Edits]:
    """Edits of encoder and decoder: head h of layer a mixes gates[a, h] times what it mixed.

    Raises:
        ValueError: if there is not a gate for each head.
    """
    if gates.shape != gate_shape(model):
        raise ValueError(f"expected gates of shape {gate_shape(model)}, got {tuple(gates.shape)}")
    edits: dict[str, dict[tuple[str, int], Edit]] = {"encoder": {}, "decoder": {}}
    for name, gate in zip(attention_layers(model), gates[..., None, None], strict=True):
        part, _, layer, kind = name.split(".")
        site = "z" if kind == "attention" else "cross_z"
        edits[part][site, int(layer)] = gate.mul
    return edits["encoder"], edits["decoder"]


@torch.no_grad()
def quality(
    model: Any, rows: tuple[Tensor, Tensor], gates: Tensor | None = None
) -> tuple[float, float]:
    """Nats per token, and the share of translations right to the last word.

    A greedy translation is the right one exactly if, after every right beginning, the next right
    word is the most probable; so one pass over the right translations tells.
    """
    source, target = rows
    edits = ({}, {}) if gates is None else gate_edits(model, gates)
    logits = model.eval()(source, target[:, :-1], edits)
    wanted = target[:, 1:]
    real = wanted != PAD
    loss = nn.functional.cross_entropy(logits[real], wanted[real])
    right = ((logits.argmax(-1) == wanted) | ~real).all(1)
    return round(loss.item(), 6), round(right.double().mean().item(), 4)
