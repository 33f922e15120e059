"""One layer of the transformer: a block reads as its equation."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import MultiHeadAttention, attend, shared
from attnlib.models.cache import KVCache
from attnlib.models.config import ACTIVATIONS, TransformerConfig
from attnlib.models.edits import Edits, LayerEdits
from attnlib.models.initial import normal
from attnlib.positions import rotate

Encoded = tuple[Tensor, Tensor]  # states of another text (B, M, d_model), and its mask (B, M)


class FeedForward(nn.Module):
    """Two linear maps, an activation between, on every position alone: f(x W_1 + b_1) W_2 + b_2.

    With a gate (Shazeer 2020; SwiGLU, if f is SiLU): (f(x W_gate) ⊙ (x W_1 + b_1)) W_2 + b_2.

    Shapes: W_1 and W_gate (d_model, d_ff), W_2 (d_ff, d_model).
    """

    def __init__(self, config: TransformerConfig, d_ff: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        wide = config.d_model, d_ff
        self.W_1 = normal(*wide, std=config.d_model**-0.5)
        self.W_2 = normal(d_ff, config.d_model, std=d_ff**-0.5)
        self.b_1 = nn.Parameter(torch.zeros(d_ff)) if config.bias else None
        self.b_2 = nn.Parameter(torch.zeros(config.d_model)) if config.bias else None
        self.W_gate = normal(*wide, std=wide[0] ** -0.5) if config.gated else None

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, d_model) to the same shape."""
        hidden = F.linear(x, self.W_1.T, self.b_1)
        if self.W_gate is None:
            hidden = self.activation(hidden)
        else:
            hidden = self.activation(F.linear(x, self.W_gate.T)) * hidden
        return F.linear(hidden, self.W_2.T, self.b_2)


class Looked(NamedTuple):
    """What a layer of attention did with a batch.

    Attributes:
        queries: (B, H, T, d_k), as they meet the keys.
        keys: (B, H_kv, S, d_k). values: (B, H_kv, S, d_v).
        attention: weights (B, H, T, S), or None where they were not needed.
        mixed: each head's weighted values, (B, H, T, d_v).
        written: what all heads add to the stream, (B, T, d_model).
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    attention: Tensor | None
    mixed: Tensor
    written: Tensor


class LayerState(NamedTuple):
    """What one layer did with a batch.

    Attributes:
        residual: the stream after the layer, (B, T, d_model).
        queries, keys, values, attention, mixed: as in `Looked`.
        W_O: what takes them to the stream, (H, d_v, d_model), or (1, …) where all heads share it.
        cross: weights over the memory (B, H, T, M), or None as above or without a memory.
        feed_forward: what the feed-forward block added, (B, T, d_model), or None without one.
    """

    residual: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    attention: Tensor | None
    mixed: Tensor
    W_O: Tensor
    cross: Tensor | None
    feed_forward: Tensor | None

    @property
    def head_outputs(self) -> Tensor:
        """What each head adds to the stream on its own, bias apart: (B, H, T, d_model)."""
        return self.mixed @ self.W_O


class Block(nn.Module):
    """One layer: attention, then a feed-forward block if there is one, all added to the stream.

    With norm="pre": x + f(norm(x)); "post": norm(x + f(x)); "none": x + f(x). With `config.cross` a
    second attention stands between, from the stream to a memory.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        widths = config.d_model, config.heads, config.d_k, config.d_v
        kind: dict[str, Any] = {"combine": config.combine, "bias": config.bias}
        kind["kv_heads"] = config.kv_heads
        self.attention = MultiHeadAttention(*widths, **kind)
        self.cross_attention = MultiHeadAttention(*widths, **kind) if config.cross else None
        self.feed_forward = None if config.d_ff is None else FeedForward(config, config.d_ff)
        self.norm_1 = norm(config, config.norm != "none")
        self.norm_cross = norm(config, config.norm != "none" and config.cross)
        self.norm_2 = norm(config, config.norm != "none" and config.d_ff is not None)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        cache: KVCache | None = None,
        layer: int = 0,
        memory: Encoded | None = None,
        edits: Edits | None = None,
    ) -> LayerState:
        """What this layer does with the stream x (B, T, d_model).

        The mask is as in `MultiHeadAttention`. With a cache of S tokens, x holds those that
        follow; keys, values and weights are then of all S + T sources. `layer` is this layer's
        number in the cache and in the edits. The memory is as in `Transformer.hidden`.
        """
        edit, cross, added = LayerEdits(edits, layer), None, None
        q, k, v, mask = self._project(self._read(x, self.norm_1), mask, cache, layer)
        causal = self.config.causal and q.shape[-2] == k.shape[-2]
        own = _look(self.attention, (q, k, v), mask, causal, need_weights, edit)
        x = self._add(x, own.written, self.norm_1)
        if self.cross_attention is not None and memory is not None:
            qkv = self.cross_attention.project(self._read(x, self.norm_cross), memory[0])
            allowed = memory[1][:, None, None, :]
            other = _look(self.cross_attention, qkv, allowed, False, need_weights, edit.cross)
            x, cross = self._add(x, other.written, self.norm_cross), other.attention
        if self.feed_forward is not None:
            added = edit("feed_forward", self.feed_forward(self._read(x, self.norm_2)))
            x = self._add(x, added, self.norm_2)
        return LayerState(x, *own[:-1], self.attention.W_O, cross, added)

    def _read(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What a part of the block reads of the stream."""
        y: Tensor = norm(x) if self.config.norm == "pre" else x
        return y

    def _add(self, x: Tensor, written: Tensor, norm: nn.Module) -> Tensor:
        """The stream with what a part of the block writes."""
        x = x + (F.dropout(written, self.config.dropout) if self.training else written)
        return norm(x) if self.config.norm == "post" else x

    def _project(
        self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Queries, keys and values, turned and with what the cache holds, and who may look."""
        q, k, v = self.attention.project(x)
        if self.config.positions == "rotary":
            start = 0 if cache is None else cache.length_of(layer)
            positions = torch.arange(start, start + x.shape[1], device=x.device)
            kind = self.config.rotary_base, self.config.rotary_pairs
            q, k = rotate(q, positions, *kind), rotate(k, positions, *kind)
        if cache is not None:
            k, v, mask = cache.extend(layer, k, v)
        return q, k, v, mask


def _look(
    layer: MultiHeadAttention,
    qkv: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    causal: bool,
    need_weights: bool,
    edit: LayerEdits,
) -> Looked:
    """Attention from queries, keys and values to what is written, with the edits on the way."""
    q, k, v = (edit(*pair) for pair in zip(("queries", "keys", "values"), qkv, strict=True))
    mixed, weights = attend(q, k, v, mask, causal, need_weights or "pattern" in edit)
    if weights is not None and "pattern" in edit:
        weights = edit("pattern", weights)
        mixed = weights @ shared(v, weights.shape[1])
    mixed = edit("mixed", mixed)
    return Looked(q, k, v, weights, mixed, layer.write(mixed))


def norm(config: TransformerConfig, needed: bool) -> nn.Module:
    """A norm of the kind that the configuration names, or nothing."""
    if not needed:
        return nn.Identity()
    kind = nn.LayerNorm if config.norm_kind == "layer" else nn.RMSNorm
    return kind(config.d_model, eps=config.norm_eps)
