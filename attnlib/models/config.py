"""Everything that tells one transformer from another, in one frozen record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn import functional as F

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


def check_choice(name: str, value: str | None, choices: Sequence[str | None]) -> None:
    """Stop if a setting is none of its choices.

    Raises:
        ValueError: with the ones there are.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


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
        cross: each block also attends to the states of another text, as a decoder does.
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
    cross: bool = False
    combine: str = "concat"
    activation: str = "gelu"
    bias: bool = False
    tied: bool = False
    head: bool = True
    dropout: float = 0.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)

    @classmethod
    def gpt2(cls) -> "TransformerConfig":
        """GPT-2 small as published (Radford et al. 2019).

        >>> f"{TransformerConfig.gpt2().parameter_count:,}"
        '124,439,808'
        """
        config = cls(50_257, 768, layers=12, heads=12, d_ff=3072, max_len=1024, dropout=0.1)
        return replace(config, activation="gelu_tanh", bias=True, tied=True)

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
        norms += self.cross and self.norm != "none"
        attention = (1 + self.cross) * (W_QKV + W_O)
        return rows * d + self.layers * (attention + ff + norms * 2 * d) + last_norms * 2 * d
