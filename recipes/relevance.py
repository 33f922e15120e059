"""Layer-wise relevance: how a score is shared out, layer by layer, among what it was made of.

The score is handed back through the layers of a translator, from the logits to the embeddings, and
every layer shares what it gets among its inputs (Bach et al. 2015; for heads Voita et al. 2019).
Three things are held fixed on the way: the attention weights, the ReLU's choice of units, and the
standard deviation of each norm. What is left is linear, and a *rule* says how it is shared.

It is done as gradients are: the model's pass is made once more of steps (`_Steps`) that hand back
relevance in place of a gradient. With the z-rule the outcome is output × gradient of that linear
model. The side road on relevance shows the rules, and makes the same pass.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnlib.attention import MultiHeadAttention
from attnlib.models import Transformer, Translator
from attnlib.models.transformer import Encoded
from attnlib.tokenizers.words import PAD, padding_mask

EPSILON = 1e-30
Rule = Callable[..., Tensor]  # such as `z_rule`


def z_rule(x: Tensor, W: Tensor, relevance: Tensor, bias: Tensor | None = None) -> Tensor:
    """R_i = Σ_j x_i W_ij / z_j · R_j, with z = x W + b: to each input its part of the sum.

    Args:
        x: inputs (..., n).
        W: (..., n, m).
        relevance: R of the outputs, (..., m).
        bias: (..., m); what belongs to it is lost.

    Returns:
        R of the inputs (..., n); without bias, its sum is that of the outputs.
    """
    z = x @ W if bias is None else x @ W + bias
    return x * ((relevance / _away_from_zero(z)) @ W.mT)


def alpha_beta_rule(x: Tensor, W: Tensor, relevance: Tensor, bias: Tensor | None = None) -> Tensor:
    """One half of R_j to the positive parts of the sum z_j, one half to the negative ones.

    The αβ-rule of Bach et al. (2015) with α = β = ½: shares are never negative. Where a sum has
    only positive or only negative parts, they get all. Arguments as in `z_rule`.
    """
    plus, minus, up, down = x.clamp(min=0), x.clamp(max=0), W.clamp(min=0), W.clamp(max=0)
    b = torch.zeros(()) if bias is None else bias
    positive = plus @ up + minus @ down + b.clamp(min=0)
    negative = plus @ down + minus @ up + b.clamp(max=0)
    both = 0.5 + 0.5 * ((positive == 0) | (negative == 0)).to(x)
    p, n = (both * relevance / _away_from_zero(part) for part in (positive, negative))
    return plus * (p @ up.mT + n @ down.mT) + minus * (p @ down.mT + n @ up.mT)


class Relevance(NamedTuple):
    """Where the scores of B translations come from.

    Attributes:
        score: what was handed back, (B,).
        heads: (B, A, H), A layers of attention in the order of `recipes.gates.attention_layers`.
        source: (B, S), of the tokens read.
        target: (B, T), of the tokens written before.
    """

    score: Tensor
    heads: Tensor
    source: Tensor
    target: Tensor

    @property
    def leak(self) -> Tensor:
        """What reaches no token, (B,)."""
        return self.score - self.source.sum(-1) - self.target.sum(-1)


@torch.enable_grad()
def relevance(model: Translator, source: Tensor, target: Tensor, rule: Rule = z_rule) -> Relevance:
    """Share out the logits of the right tokens, each minus the mean of its row of logits.

    Args:
        model: with norm="pre" and a ReLU, without biases but those of its norms.
        source: ids (B, S).
        target: ids (B, T + 1), from <s> to </s>; padding at the end gets nothing.
        rule: `z_rule` or `alpha_beta_rule`.

    Raises:
        ValueError: for a model of another kind.
    """
    config, W_U = model.decoder.config, model.decoder.W_U
    if (config.norm, config.activation, config.bias) != ("pre", "relu", False) or W_U is None:
        raise ValueError("relevance is for translators with norm='pre', a ReLU and no biases")
    read, written = target[:, :-1], target[:, 1:]
    mask, steps = padding_mask(source), _Steps(rule)
    x, y = model.encoder.embed(source).detach(), model.decoder.embed(read).detach()
    inputs = x.requires_grad_(), y.requires_grad_()
    memory = steps.through(model.encoder, x, mask)
    final = steps.through(model.decoder, y, None, (memory, mask))
    columns = (W_U - W_U.mean(1, keepdim=True)).T[written].unsqueeze(-1)  # (B, T, d_model, 1)
    scores = steps.linear(final.unsqueeze(-2), columns)[..., 0, 0]
    score = scores.detach() * (written != PAD)
    R_x, R_y, *heads = torch.autograd.grad(scores, (*inputs, *steps.z), score)
    per_head = torch.stack([R.sum((2, 3)) for R in heads], 1)
    return Relevance(score.sum(1), per_head, R_x.sum(-1), R_y.sum(-1))


class _Linear(torch.autograd.Function):
    """(x W + b) / scale; what comes back as its gradient, relevance, a rule shares out."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, x: Tensor, W: Tensor, b: Tensor | None, scale: Any) -> Tensor:
        ctx.rule = rule
        ctx.save_for_backward(x, W, b)
        z: Tensor = (x @ W if b is None else x @ W + b) / scale
        return z

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> Any:
        x, W, b = ctx.saved_tensors
        return None, ctx.rule(x, W, *relevance, b), None, None, None


class _Steps:
    """A translator's pass, whose gradients are relevance.

    Attributes:
        z: what the heads of each layer of attention mixed, (B, H, T, d_v), in their order.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.z: list[Tensor] = []

    def through(
        self, model: Transformer, x: Tensor, mask: Tensor | None, memory: Encoded | None = None
    ) -> Tensor:
        """From embeddings (B, T, d_model) to the last state, with the model's own weights."""
        with torch.no_grad():
            states = list(model.run(x, mask, need_weights=True, memory=memory))
        blocks: Any = model.blocks
        for block, state in zip(blocks, states, strict=True):
            x = self.attend(block.attention, x, self.norm(block.norm_1, x), state.pattern)
            if memory is not None:
                x = self.attend(block.cross_attention, x, memory[0], state.cross_pattern)
            f, read = block.feed_forward, self.norm(block.norm_2, x)
            x = self.add(x, self.linear(self.linear(read, f.W_1).relu(), f.W_2))
        return self.norm(model.final_norm, x)

    def linear(self, x: Tensor, W: Tensor, b: Tensor | None = None, scale: Any = 1) -> Tensor:
        """(x W + b) / scale, with x (..., n)."""
        z: Tensor = _Linear.apply(self.rule, x, W, b, scale)  # type: ignore[no-untyped-call]
        return z

    def attend(self, layer: MultiHeadAttention, x: Tensor, source: Tensor, weights: Any) -> Tensor:
        """The stream x with what the heads write, whose weights are held fixed."""
        values = self.linear(source, layer.W_V.transpose(0, 1).flatten(1))
        per_head = values.unflatten(-1, (len(layer.W_V), -1)).transpose(1, 2)  # (B, H, S, d_v)
        self.z.append(self.linear(per_head.mT, weights.mT).mT)
        joined = self.z[-1].transpose(1, 2).flatten(2)
        return self.add(x, self.linear(joined, layer.W_O.flatten(0, 1)))

    def norm(self, norm: Any, x: Tensor) -> Tensor:
        """(x − mean) γ / σ + β: σ is held fixed, β takes its part away."""
        width = x.shape[-1]
        W = (torch.eye(width).to(x) - 1 / width) * norm.weight
        deviation = (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
        return self.linear(x, W, norm.bias * deviation, deviation)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """A sum, entry by entry."""
        return self.linear(torch.stack([x, y], -1), torch.ones(2, 1).to(x))[..., 0]


def _away_from_zero(z: Tensor) -> Tensor:
    """z, at least EPSILON away from 0."""
    return torch.where(z.abs() < EPSILON, torch.where(z < 0, -EPSILON, EPSILON).to(z), z)
