"""The one transformer of the course.

Language models, encoders and classifiers are configurations of it, from one layer of attention
without anything else to GPT-2. Heads keep their own matrices (see `attention.MultiHeadAttention`),
so that every head can be looked at, changed or removed on its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import MultiHeadAttention, attend, causal_mask
from attnlib.models.cache import KVCache
from attnlib.models.config import ACTIVATIONS, TransformerConfig
from attnlib.models.evaluation import evaluating
from attnlib.positions import rotate, sinusoidal
from attnlib.trace import BY_LAYER, Trace, kept, token_names, wanted

Encoded = tuple[Tensor, Tensor]  # states of another text, and its mask


class FeedForward(nn.Module):
    """Two linear maps, an activation between, on every position alone: f(x W_1 + b_1) W_2 + b_2.

    Shapes: W_1 (d_model, d_ff), W_2 (d_ff, d_model).
    """

    def __init__(self, config: TransformerConfig, d_ff: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.W_1 = nn.Parameter(torch.randn(config.d_model, d_ff) * config.d_model**-0.5)
        self.W_2 = nn.Parameter(torch.randn(d_ff, config.d_model) * d_ff**-0.5)
        self.b_1 = nn.Parameter(torch.zeros(d_ff)) if config.bias else None
        self.b_2 = nn.Parameter(torch.zeros(config.d_model)) if config.bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, d_model) to the same shape."""
        return F.linear(self.activation(F.linear(x, self.W_1.T, self.b_1)), self.W_2.T, self.b_2)


class LayerState(NamedTuple):
    """What one layer did with a batch.

    Attributes:
        residual: the stream after the layer, (B, T, d_model).
        queries: (B, H, T, d_k), as they meet the keys.
        keys: (B, H, S, d_k). values: (B, H, S, d_v).
        attention: weights (B, H, T, S), or None where they were not needed.
        mixed: each head's weighted values, (B, H, T, d_v).
        W_O: what takes them to the stream, (H, d_v, d_model), or (1, …) where all heads share it.
        cross: weights over the memory (B, H, T, M), or None as above or without a memory.
    """

    residual: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    attention: Tensor | None
    mixed: Tensor
    W_O: Tensor
    cross: Tensor | None

    @property
    def head_outputs(self) -> Tensor:
        """What each head adds to the stream on its own, bias apart: (B, H, T, d_model)."""
        return self.mixed @ self.W_O


class Block(nn.Module):
    """One layer: attention, then a feed-forward block if there is one, all added to the stream.

    With `config.cross` a second attention stands between, from the stream to a memory.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        widths = config.d_model, config.heads, config.d_k, config.d_v
        kind: dict[str, Any] = {"combine": config.combine, "bias": config.bias}
        self.attention = MultiHeadAttention(*widths, **kind)
        self.cross_attention = MultiHeadAttention(*widths, **kind) if config.cross else None
        self.feed_forward = None if config.d_ff is None else FeedForward(config, config.d_ff)
        self.norm_1 = _norm(config, config.norm != "none")
        self.norm_cross = _norm(config, config.norm != "none" and config.cross)
        self.norm_2 = _norm(config, config.norm != "none" and config.d_ff is not None)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        cache: KVCache | None = None,
        layer: int = 0,
        memory: Encoded | None = None,
    ) -> LayerState:
        """What this layer does with the stream x (B, T, d_model).

        The mask is as in `MultiHeadAttention`. With a cache of S tokens, x holds those that
        follow; keys, values and weights are then of all S + T sources, and `layer` is this
        layer's number in the cache. The memory is as in `Transformer.hidden`.
        """
        pre, post = self.config.norm == "pre", self.config.norm == "post"
        q, k, v = self.attention.project(self.norm_1(x) if pre else x)
        start = 0 if cache is None else cache.length_of(layer)
        if self.config.positions == "rotary":
            positions = torch.arange(start, start + x.shape[1], device=x.device)
            q, k = rotate(q, positions), rotate(k, positions)
        causal = self.config.causal
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        if start:  # the destinations are the last T of the sources: their rows of the mask
            causal, new = False, x.shape[1]
            mask = None if new == 1 else causal_mask(k.shape[-2])[-new:].to(x.device)
        mixed, weights = attend(q, k, v, mask, causal, need_weights)
        x = x + self._drop(self.attention.write(mixed))
        x = self.norm_1(x) if post else x
        x, cross = self._look(x, memory, need_weights)
        if self.feed_forward is not None:
            x = x + self._drop(self.feed_forward(self.norm_2(x) if pre else x))
            x = self.norm_2(x) if post else x
        return LayerState(x, q, k, v, weights, mixed, self.attention.W_O, cross)

    def _look(
        self, x: Tensor, memory: Encoded | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The stream after the attention to a memory, and its weights; as it was without one."""
        if self.cross_attention is None or memory is None:
            return x, None
        states, mask = memory
        read = self.norm_cross(x) if self.config.norm == "pre" else x
        allowed = mask[:, None, None, :]
        found, weights = self.cross_attention(read, states, allowed, need_weights=need_weights)
        x = x + self._drop(found)
        return self.norm_cross(x) if self.config.norm == "post" else x, weights

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout) if self.training else x


class Transformer(nn.Module):
    """Embed, L blocks, unembed.

    Attributes:
        config: its `TransformerConfig`.
        W_E: embeddings (D, d_model). W_P: learned positions (max_len, d_model), or None.
        blocks: the layers.
        W_U: unembedding (d_model, D), the transposed W_E if tied; None without a head.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        # 0.02 as in GPT-2: tied to the unembedding, larger embeddings would start with sure errors
        scale = 0.02 if config.tied or config.norm == "pre" else config.d_model**-0.5
        if config.positions == "sinusoidal" and not config.tied:
            scale = 1.0  # to be seen beside sines and cosines (Vaswani et al. 2017, section 3.4)
        self.W_E = nn.Parameter(torch.randn(config.vocab_size, config.d_model) * scale)
        self.W_P = None
        if config.positions == "learned":
            self.W_P = nn.Parameter(torch.randn(config.max_len, config.d_model) * scale)
        self.embed_norm = _norm(config, config.embed_norm)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = _norm(config, config.norm == "pre")
        self._W_U = None
        if config.head and not config.tied:
            W_U = torch.randn(config.d_model, config.vocab_size) * config.d_model**-0.5
            self._W_U = nn.Parameter(W_U)

    @property
    def W_U(self) -> Tensor | None:
        """The unembedding, (d_model, D)."""
        if not self.config.head:
            return None
        return self.W_E.T if self._W_U is None else self._W_U

    @property
    def max_len(self) -> int:
        """The most tokens that it reads at once."""
        return self.config.max_len

    @property
    def parameter_count(self) -> int:
        """Numbers learned; what is tied counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """What enters the first layer: token plus position, (B, T) to (B, T, d_model).

        The first token stands at position `start`.

        Raises:
            ValueError: if the input is longer than the learned positions reach.
            IndexError: if an id lies outside 0 … D − 1.
        """
        length = start + ids.shape[-1]
        x = F.embedding(ids, self.W_E)
        if self.W_P is not None:
            if length > self.config.max_len:
                raise ValueError(
                    f"{length} tokens are more than the {self.config.max_len} positions this model "
                    "has learned: shorten the text"
                )
            x = x + self.W_P[start:length]
        elif self.config.positions == "sinusoidal":
            x = x + sinusoidal(length, self.config.d_model)[start:].to(x)
        x = self.embed_norm(x)
        return F.dropout(x, self.config.dropout, self.training)

    def run(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        need_weights: bool = False,
        memory: Encoded | None = None,
    ) -> Iterator[LayerState]:
        """Send embeddings (B, T, d_model) through the layers: what each did, one after the other.

        The one loop over the blocks; mask, cache and memory are as in `hidden`.
        """
        if self.config.cross != (memory is not None):
            wants = "needs a memory to look at" if self.config.cross else "looks at no memory"
            raise ValueError(f"a model with cross={self.config.cross} {wants}")
        allowed = None if mask is None else mask[:, None, None, :]
        for layer, block in enumerate(self.blocks):
            state: LayerState = block(x, allowed, need_weights, cache, layer, memory)
            yield state
            x = state.residual

    def hidden(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
    ) -> Tensor:
        """The last state of every position, ready to be unembedded: (B, T) to (B, T, d_model).

        Args:
            ids: (B, T).
            mask: True on real tokens, False on padding, (B, T); all real if None.
            cache: of the tokens before these, which it then takes in; needs a causal model,
                and no mask.
            memory: states (B, M, d_model) of another text and its mask (B, M), True on real
                tokens, for a model with `config.cross`.
        """
        if cache is not None and (mask is not None or not self.config.causal):
            raise ValueError("a cache needs a causal model and a batch without padding mask")
        x = self.embed(ids, 0 if cache is None else cache.length)
        for state in self.run(x, mask, cache, memory=memory):
            x = state.residual
        final: Tensor = self.final_norm(x)
        return final

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
    ) -> Tensor:
        """Logits (B, T, D) of ids (B, T), or the last state if there is no head.

        Mask, cache and memory are as in `hidden`.
        """
        x = self.hidden(ids, mask, cache, memory)
        return x if self.W_U is None else x @ self.W_U

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
    ) -> Trace:
        """Run one text and record it; without dropout, whatever the mode.

        Args:
            ids: (T,).
            tokens: their names for the axes of figures; the ids themselves if None.
            word_ids: word index of each token, if known.
            keep: what to keep beside the attention, of `attnlib.trace.OPTIONAL`; "all" for all.

        Returns:
            a Trace.
        """
        tokens, names = token_names(ids, tokens), wanted(keep)
        with evaluating(self):
            x = self.embed(ids[None])
            layers: dict[str, list[Tensor]] = {name: [] for name in names if name in BY_LAYER}
            layers["attention"] = [x.new_zeros(0, self.config.heads, len(ids), len(ids))]
            if "residual" in names:
                layers["residual"] = [x]
            for state in self.run(x, need_weights=True):
                x = state.residual
                for name, parts in layers.items():
                    parts.append(getattr(state, name))
            final = self.final_norm(x)[0]
        found = {name: torch.cat(parts) for name, parts in layers.items() if parts}
        if "logits" in names and self.W_U is not None:
            found["logits"] = final @ self.W_U
        words = None if word_ids is None else tuple(word_ids)
        return Trace(
            tokens, found.pop("attention"), None, words, **kept(names, final=final, **found)
        )


def _norm(config: TransformerConfig, needed: bool) -> nn.Module:
    return nn.LayerNorm(config.d_model, eps=config.norm_eps) if needed else nn.Identity()
