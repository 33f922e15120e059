"""The one transformer of the course.

Language models, encoders and classifiers are configurations of it, from one layer of attention
without anything else to GPT-2. Heads keep their own matrices (see `attention.MultiHeadAttention`),
so that every head can be looked at, changed or removed on its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import MultiHeadAttention, attend, causal_mask
from attnlib.positions import rotate, sinusoidal
from attnlib.trace import Trace

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
CHOICES = {
    "norm": ("pre", "post", "none"),
    "positions": ("learned", "sinusoidal", "rotary", "none"),
    "combine": ("concat", "add"),
    "activation": tuple(ACTIVATIONS),
}


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that tells one transformer from another.

    Attributes:
        vocab_size: D, tokens known.
        d_model: width of the residual stream.
        layers, heads: L and H.
        d_k, d_v: width of a query or key, and of a value; d_model / heads if None, but d_v is
            d_model where heads are added.
        d_ff: hidden width of the feed-forward block; None for none (attention only).
        max_len: longest input; the rows of the learned position table.
        norm: LayerNorm before each block and once at the end ("pre", as GPT-2), after each
            addition ("post", as BERT and the original), or "none".
        embed_norm: LayerNorm on the embeddings (as BERT).
        positions: "learned" or "sinusoidal" vectors are added to the embeddings, "rotary" turns
            queries and keys, "none" leaves the order unknown.
        causal: forbid looking ahead.
        combine: how heads come together, "concat" or "add".
        activation: of the feed-forward block: "relu", "gelu", "gelu_tanh".
        bias: biases in attention and feed-forward.
        tied: the unembedding is the transposed embedding.
        head: whether there is an unembedding at all; without it the output is the last state.
        dropout: probability to drop, on embeddings and on what each block writes.
        norm_eps: ε of LayerNorm.

    Raises:
        ValueError: if a choice is unknown, with the ones there are.
    """

    vocab_size: int
    d_model: int = 128
    layers: int = 1
    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    d_ff: int | None = None
    max_len: int = 128
    norm: str = "pre"
    embed_norm: bool = False
    positions: str = "learned"
    causal: bool = True
    combine: str = "concat"
    activation: str = "gelu"
    bias: bool = False
    tied: bool = False
    head: bool = True
    dropout: float = 0.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")

    @classmethod
    def gpt2(cls, size: str = "small") -> "TransformerConfig":
        """GPT-2 as published (Radford et al. 2019): "small", "medium", "large" or "xl".

        Raises:
            ValueError: if there is no such size; names those there are.

        >>> f"{TransformerConfig.gpt2().parameter_count:,}"
        '124,439,808'
        """
        sizes = {  # layers, heads, d_model
            "small": (12, 12, 768),
            "medium": (24, 16, 1024),
            "large": (36, 20, 1280),
            "xl": (48, 25, 1600),
        }
        if size not in sizes:
            raise ValueError(f"size must be one of {tuple(sizes)}, got {size!r}")
        layers, heads, d_model = sizes[size]
        return cls(
            vocab_size=50_257,
            d_model=d_model,
            layers=layers,
            heads=heads,
            d_ff=4 * d_model,
            max_len=1024,
            activation="gelu_tanh",
            bias=True,
            tied=True,
            dropout=0.1,
        )

    @property
    def parameter_count(self) -> int:
        """Numbers learned, by formula, without building the model; what is tied counts once."""
        d, heads, bias = self.d_model, self.heads, int(self.bias)
        added = self.combine == "add"
        d_k = d // heads if self.d_k is None else self.d_k
        d_v = (d if added else d // heads) if self.d_v is None else self.d_v
        W_QKV = heads * (d + bias) * (2 * d_k + d_v)  # a bias is one more row of its matrix
        W_O = ((1 if added else heads) * d_v + bias) * d
        ff = 0 if self.d_ff is None else (d + bias) * self.d_ff + (self.d_ff + bias) * d
        norms = 0 if self.norm == "none" else 1 if self.d_ff is None else 2  # of a layer
        last_norms = self.embed_norm + (self.norm == "pre")
        rows = self.vocab_size * (1 + (self.head and not self.tied))
        rows += self.max_len * (self.positions == "learned")
        return rows * d + self.layers * (W_QKV + W_O + ff + norms * 2 * d) + last_norms * 2 * d


class FeedForward(nn.Module):
    """Two linear maps with a bend between, on every position alone: f(x W_1 + b_1) W_2 + b_2.

    Shapes: W_1 (d_model, d_ff), W_2 (d_ff, d_model).
    """

    def __init__(self, config: TransformerConfig, d_ff: int) -> None:
        super().__init__()
        self.bend = ACTIVATIONS[config.activation]
        self.W_1 = nn.Parameter(torch.randn(config.d_model, d_ff) * config.d_model**-0.5)
        self.W_2 = nn.Parameter(torch.randn(d_ff, config.d_model) * d_ff**-0.5)
        self.b_1 = nn.Parameter(torch.zeros(d_ff)) if config.bias else None
        self.b_2 = nn.Parameter(torch.zeros(config.d_model)) if config.bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, d_model) to the same shape."""
        return F.linear(self.bend(F.linear(x, self.W_1.T, self.b_1)), self.W_2.T, self.b_2)


class Past:
    """Keys (B, H, S, d_k) and values (B, H, S, d_v) of one layer, for the tokens read so far."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        """S, the tokens read so far."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append those of new tokens, and return all."""
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys], -2)
            values = torch.cat([self.values, values], -2)
        self.keys, self.values = keys, values
        return keys, values


class Cache:
    """What a causal transformer has read: the keys and values of every layer.

    A token's keys and values depend on nothing after it. Kept, they need not be computed again
    when the next token comes: `model(new_ids, cache=cache)` reads only what is new.

    Attributes:
        layers: one `Past` per layer.
    """

    def __init__(self, layers: int) -> None:
        self.layers = [Past() for _ in range(layers)]

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self.layers[0].length if self.layers else 0

    @property
    def batch(self) -> int:
        """B, texts read side by side."""
        keys = self.layers[0].keys if self.layers else None
        return 1 if keys is None else len(keys)

    def select(self, rows: Tensor) -> "Cache":
        """A new cache with these rows of the batch, in this order, repeated if asked twice."""
        chosen = Cache(len(self.layers))
        for old, new in zip(self.layers, chosen.layers, strict=True):
            if old.keys is not None and old.values is not None:
                new.extend(old.keys[rows], old.values[rows])
        return chosen


class Block(nn.Module):
    """One layer: attention, then a feed-forward block if there is one, both added to the stream."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = MultiHeadAttention(
            config.d_model,
            config.heads,
            config.d_k,
            config.d_v,
            combine=config.combine,
            bias=config.bias,
        )
        self.feed_forward = None if config.d_ff is None else FeedForward(config, config.d_ff)
        self.norm_1 = _norm(config, config.norm != "none")
        self.norm_2 = _norm(config, config.norm != "none" and config.d_ff is not None)

    def forward(
        self, x: Tensor, mask: Tensor | None, need_weights: bool, past: Past | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """The stream (B, T, d_model) after this layer, its weights and its values.

        The mask is as in `MultiHeadAttention`; weights (B, H, T, T) come if they are needed,
        values are (B, H, T, d_v). With a past of S tokens, x holds those that follow; weights
        and values are then of all S + T sources.
        """
        pre, post = self.config.norm == "pre", self.config.norm == "post"
        q, k, v = self.attention.project(self.norm_1(x) if pre else x)
        if self.config.positions == "rotary":
            start = 0 if past is None else past.length
            places = torch.arange(start, start + x.shape[1], device=x.device)
            q, k = rotate(q, places), rotate(k, places)
        causal = self.config.causal
        if past is not None and past.length:
            k, v = past.extend(k, v)
            causal = False  # the destinations are the last T of the sources: their rows of the mask
            new, length = x.shape[1], k.shape[-2]
            mask = None if new == 1 else causal_mask(length)[-new:].to(x.device)
        elif past is not None:
            past.extend(k, v)
        heads, weights = attend(q, k, v, mask, causal, need_weights)
        x = x + self._drop(self.attention.write(heads))
        x = self.norm_1(x) if post else x
        if self.feed_forward is not None:
            x = x + self._drop(self.feed_forward(self.norm_2(x) if pre else x))
            x = self.norm_2(x) if post else x
        return x, weights, v

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training)


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
        learned = config.positions == "learned"
        # 0.02 as in GPT-2: tied to the unembedding, larger embeddings would start with sure errors
        scale = 0.02 if config.tied or config.norm == "pre" else config.d_model**-0.5
        if config.positions == "sinusoidal" and not config.tied:
            scale = 1.0  # to be seen beside sines and cosines (Vaswani et al. 2017, section 3.4)
        self.W_E = nn.Parameter(torch.randn(config.vocab_size, config.d_model) * scale)
        self.W_P = (
            nn.Parameter(torch.randn(config.max_len, config.d_model) * scale) if learned else None
        )
        self.embed_norm = _norm(config, config.embed_norm)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = _norm(config, config.norm == "pre")
        self._W_U = (
            nn.Parameter(torch.randn(config.d_model, config.vocab_size) * config.d_model**-0.5)
            if config.head and not config.tied
            else None
        )

    @property
    def W_U(self) -> Tensor | None:
        """The unembedding, (d_model, D)."""
        if not self.config.head:
            return None
        return self.W_E.T if self._W_U is None else self._W_U

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

    def hidden(self, ids: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """The last state of every position, ready to be unembedded: (B, T) to (B, T, d_model).

        Args:
            ids: (B, T).
            mask: True on real tokens, False on padding, (B, T); all real if None.
            cache: of the tokens before these, which it then takes in; needs a causal model,
                and no mask.
        """
        if cache is not None and (mask is not None or not self.config.causal):
            raise ValueError("a cache needs a causal model and a batch without padding mask")
        x = self.embed(ids, 0 if cache is None else cache.length)
        pasts = [None] * len(self.blocks) if cache is None else cache.layers
        for block, past in zip(self.blocks, pasts, strict=True):
            x = block(x, _as_keys(mask), need_weights=False, past=past)[0]
        state: Tensor = self.final_norm(x)
        return state

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Logits (B, T, D) of ids (B, T), or the last state if there is no head.

        Mask and cache are as in `hidden`.
        """
        x = self.hidden(ids, mask, cache)
        return x if self.W_U is None else x @ self.W_U

    @torch.no_grad()
    def trace(
        self, ids: Tensor, tokens: Sequence[str] | None = None, words: Sequence[int] | None = None
    ) -> Trace:
        """Run one text and keep everything; without dropout, whatever the mode.

        Args:
            ids: (T,).
            tokens: their names for the axes of figures; the ids themselves if None.
            words: word index of each token, if known.

        Returns:
            a Trace with attention, values, residual stream and the output in `logits`.
        """
        if ids.ndim != 1 or len(ids) == 0:
            raise ValueError(f"trace takes one text of at least one token, got {tuple(ids.shape)}")
        was_training = self.training
        self.eval()  # a record of the model, without dropout
        try:
            x = self.embed(ids[None])
            stream, maps, values = [x], [], []
            for block in self.blocks:
                x, weights, v = block(x, None, need_weights=True)
                stream.append(x)
                maps.append(weights)
                values.append(v)
            x = self.final_norm(x)
        finally:
            self.train(was_training)
        return Trace(
            tokens=tuple(tokens) if tokens is not None else tuple(map(str, ids.tolist())),
            attention=torch.cat(maps)
            if maps
            else x.new_zeros(0, self.config.heads, *[len(ids)] * 2),
            words=None if words is None else tuple(words),
            logits=(x if self.W_U is None else x @ self.W_U)[0],
            values=torch.cat(values) if values else None,
            residual=torch.cat(stream),
        )


def _as_keys(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask[:, None, None, :]


def _norm(config: TransformerConfig, wanted: bool) -> Any:
    return nn.LayerNorm(config.d_model, eps=config.norm_eps) if wanted else nn.Identity()
