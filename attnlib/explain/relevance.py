"""Layer-wise relevance: how a score is shared out, layer by layer, among what it was made of.

The score is handed back through the layers of a translator, from the logits to the embeddings, and
every layer shares what it gets among its inputs (Bach et al. 2015; for heads Voita et al. 2019).
Three things are held fixed on the way: the attention weights, the ReLU's choice of units, and the
standard deviation of each norm. What is left is linear, and a *rule* says how it is shared.

With the z-rule the outcome is output × gradient of that linear model (`held_fixed`).
"""

import copy
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from attnlib.attention import MultiHeadAttention
from attnlib.models import Translator
from attnlib.models.block import Block, Encoded
from attnlib.tokenizers.words import PAD, padding_mask

EPSILON = 1e-30
M = TypeVar("M", bound=nn.Module)


class Rule(Protocol):
    """Shares relevance of z = x W + b (..., m) among the inputs x (..., n)."""

    def __call__(
        self, x: Tensor, W: Tensor, relevance: Tensor, bias: Tensor | None = None
    ) -> Tensor: ...


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


def halves_rule(x: Tensor, W: Tensor, relevance: Tensor, bias: Tensor | None = None) -> Tensor:
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
        heads: (B, A, H), A layers of attention in the order of `models.gates.attention_layers`.
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


@torch.no_grad()
def relevance(model: Translator, source: Tensor, target: Tensor, rule: Rule = z_rule) -> Relevance:
    """Share out the logits of the right tokens, each minus the mean of its row of logits.

    Args:
        model: with norm="pre" and a ReLU, without biases but those of its norms.
        source: ids (B, S).
        target: ids (B, T + 1), from <s> to </s>; padding at the end gets nothing.
        rule: `z_rule` or `halves_rule`.

    Raises:
        ValueError: for a model of another kind.
    """
    config = model.decoder.config
    if (config.norm, config.activation, config.bias) != ("pre", "relu", False):
        raise ValueError("relevance is for translators with norm='pre', a ReLU and no biases")
    read, written = target[:, :-1], target[:, 1:]
    mask = padding_mask(source)
    xs = _streams(model.encoder, source, mask, None)
    memory = model.encoder.final_norm(xs[-1])
    ys = _streams(model.decoder, read, None, (memory, mask))
    W_U = model.decoder.W_U
    assert W_U is not None
    final = model.decoder.final_norm(ys[-1])
    columns = (W_U - W_U.mean(1, keepdim=True)).T[written].unsqueeze(-1)  # (B, T, d_model, 1)
    scores = (final.unsqueeze(-2) @ columns).squeeze(-1) * (written != PAD).unsqueeze(-1)
    R = rule(final.unsqueeze(-2), columns, scores.unsqueeze(-2)).squeeze(-2)
    R, decoder, to_memory = _back(model.decoder, ys, R, (memory, mask), rule)
    R_source, encoder, _ = _back(model.encoder, xs, to_memory, None, rule, mask)
    heads = torch.stack([*encoder, *decoder], 1)
    return Relevance(scores.sum((1, 2)), heads, R_source.sum(-1), R.sum(-1))


def held_fixed(model: M, weights: bool = True, norms: bool = True) -> M:
    """A copy whose output is the same, but whose gradients take some parts for constants.

    Args:
        model: any with layers of attention and norms.
        weights: whether the attention weights are held fixed.
        norms: whether the standard deviation in each LayerNorm is.
    """
    model = copy.deepcopy(model)
    for module in model.modules():
        if weights and isinstance(module, MultiHeadAttention):
            module.__class__ = _FixedWeights
        elif norms and isinstance(module, nn.LayerNorm):
            module.__class__ = _FixedNorm
    return model


class _FixedWeights(MultiHeadAttention):
    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(x, source)
        return q.detach(), k.detach(), v


class _FixedNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        deviation = (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt().detach()
        return (x - x.mean(-1, keepdim=True)) / deviation * self.weight + self.bias


def _streams(model: Any, ids: Tensor, mask: Tensor | None, memory: Encoded | None) -> list[Tensor]:
    """The residual stream before the first layer and after each."""
    x = model.embed(ids)
    return [x, *(state.residual for state in model.run(x, mask, memory=memory))]


def _back(
    model: Any,
    xs: list[Tensor],
    R: Tensor,
    memory: Encoded | None,
    rule: Rule,
    mask: Tensor | None = None,
) -> tuple[Tensor, list[Tensor], Tensor]:
    """From the last state to the embeddings: their relevance, that of the heads, and the memory's.

    Heads come layer by layer, from the first on; where there is a memory, those that look at it
    follow those of the same layer that do not.
    """
    R = _norm(model.final_norm, xs[-1], R, rule)
    heads: list[Tensor] = []
    to_memory = torch.zeros(())
    allowed = None if mask is None else mask[:, None, None, :]
    for block, x in zip(reversed(model.blocks), reversed(xs[:-1]), strict=True):
        R, of_heads, found = _block(block, x, R, memory, rule, allowed)
        heads, to_memory = [*of_heads, *heads], to_memory + found
    return R, heads, to_memory


def _block(
    block: Any, x: Tensor, R: Tensor, memory: Encoded | None, rule: Rule, mask: Tensor | None
) -> tuple[Tensor, list[Tensor], Tensor]:
    """The same through one layer, from what it left in the stream to what it found there."""
    state = block(x, mask, True, memory=memory)
    after = between = x + block.attention.write(state.mixed)
    heads, to_memory = [], torch.zeros(())
    if memory is not None:
        allowed, read = memory[1][:, None, None, :], block.norm_cross(between)
        after = between + block.cross_attention(read, memory[0], allowed)[0]
    R = _feed_forward(block, after, R, rule)
    if memory is not None:
        R, written = _shares(between, after - between, R, rule)
        layer = block.cross_attention
        to_memory, per_head = _attention(layer, memory[0], state.cross, written, rule)
        heads = [per_head]
    R, written = _shares(x, between - x, R, rule)
    layer, normed = block.attention, block.norm_1(x)
    found, per_head = _attention(layer, normed, state.attention, written, rule)
    return R + _norm(block.norm_1, x, found, rule), [per_head, *heads], to_memory


def _feed_forward(block: Block, x: Tensor, R: Tensor, rule: Rule) -> Tensor:
    """Through x + f(norm(x)); the ReLU keeps what it lets through."""
    f, normed = block.feed_forward, block.norm_2(x)
    assert f is not None
    hidden = (normed @ f.W_1).relu()
    R, written = _shares(x, hidden @ f.W_2, R, rule)
    found = rule(normed, f.W_1, rule(hidden, f.W_2, written))
    return R + _norm(block.norm_2, x, found, rule)


def _attention(
    layer: MultiHeadAttention, source: Tensor, weights: Tensor, R: Tensor, rule: Rule
) -> tuple[Tensor, Tensor]:
    """From what a layer wrote (B, T, d_model) to its source (B, S, d_model), and heads (B, H)."""
    values = layer.project(source)[2]
    mixed = weights @ values
    R = rule(mixed.transpose(1, 2).flatten(2), layer.W_O.flatten(0, 1), R)
    per_head = R.unflatten(-1, mixed.shape[1::2]).transpose(1, 2)  # (B, H, T, d_v)
    R = rule(values.mT, weights.mT, per_head.mT).mT
    W_V = layer.W_V.transpose(0, 1).flatten(1)
    return rule(source, W_V, R.transpose(1, 2).flatten(2)), per_head.sum((2, 3))


def _norm(norm: Any, x: Tensor, R: Tensor, rule: Rule) -> Tensor:
    """Through (x − mean) γ / σ + β: σ is held fixed and cancels, β takes its part away."""
    width = x.shape[-1]
    W = (torch.eye(width).to(x) - 1 / width) * norm.weight
    deviation = (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    return rule(x, W, R, norm.bias * deviation)


def _shares(a: Tensor, b: Tensor, R: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Of a sum a + b, entry by entry."""
    parts = torch.stack([a, b], -1).unsqueeze(-2)
    shared = rule(parts, torch.ones(2, 1).to(a), R[..., None, None]).squeeze(-2)
    return shared[..., 0], shared[..., 1]


def _away_from_zero(z: Tensor) -> Tensor:
    """z, at least EPSILON away from 0."""
    return torch.where(z.abs() < EPSILON, torch.where(z < 0, -EPSILON, EPSILON).to(z), z)
