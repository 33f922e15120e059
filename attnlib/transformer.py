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

from attnlib.attention import MultiHeadAttention, attend
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
    def gpt2(cls) -> "TransformerConfig":
        """GPT-2 small: 12 layers, 12 heads, 768 wide, 124,439,808 parameters."""
        return cls(
            vocab_size=50_257,
            d_model=768,
            layers=12,
            heads=12,
            d_ff=3072,
            max_len=1024,
            activation="gelu_tanh",
            bias=True,
            tied=True,
            dropout=0.1,
        )


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
        self, x: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """The stream (B, T, d_model) after this layer, its weights and its values.

        The mask is as in `MultiHeadAttention`; weights (B, H, T, T) come if they are needed,
        values are (B, H, T, d_v).
        """
        pre, post = self.config.norm == "pre", self.config.norm == "post"
        q, k, v = self.attention.project(self.norm_1(x) if pre else x)
        if self.config.positions == "rotary":
            places = torch.arange(x.shape[1], device=x.device)
            q, k = rotate(q, places), rotate(k, places)
        heads, weights = attend(q, k, v, mask, self.config.causal, need_weights)
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

    def embed(self, ids: Tensor) -> Tensor:
        """What enters the first layer: token plus position, (B, T) to (B, T, d_model).

        Raises:
            ValueError: if the input is longer than the learned positions reach.
            IndexError: if an id lies outside 0 … D − 1.
        """
        length = ids.shape[-1]
        x = F.embedding(ids, self.W_E)
        if self.W_P is not None:
            if length > self.config.max_len:
                raise ValueError(
                    f"{length} tokens are more than the {self.config.max_len} positions this model "
                    "has learned: shorten the text"
                )
            x = x + self.W_P[:length]
        elif self.config.positions == "sinusoidal":
            x = x + sinusoidal(length, self.config.d_model).to(x)
        x = self.embed_norm(x)
        return F.dropout(x, self.config.dropout, self.training)

    def hidden(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """The last state of every position, ready to be unembedded: (B, T) to (B, T, d_model).

        Args:
            ids: (B, T).
            mask: True on real tokens, False on padding, (B, T); all real if None.
        """
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, _as_keys(mask), need_weights=False)[0]
        state: Tensor = self.final_norm(x)
        return state

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B, T, D) of ids (B, T), or the last state if there is no head.

        The mask is as in `hidden`.
        """
        x = self.hidden(ids, mask)
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
