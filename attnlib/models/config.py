"""Everything that tells one transformer from another, in one frozen record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn import functional as F

from attnlib.positions import ROTARY_PAIRS

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
CHOICES = {
    "norm": ("pre", "post", "none"),
    "norm_kind": ("layer", "rms"),
    "positions": ("learned", "sinusoidal", "rotary", "none"),
    "combine": ("concat", "add"),
    "activation": tuple(ACTIVATIONS),
    "rotary_pairs": ROTARY_PAIRS,
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
        kv_heads: H_kv, keys and values that the heads share in groups (grouped-query attention);
            as many as heads if None, 1 for multi-query attention.
        d_ff: hidden width of the feed-forward block; None for none (attention only).
        max_len: longest input; the rows of the learned position table.
        norm: before each block and once at the end ("pre", as GPT-2), after each addition
            ("post", as BERT and the original), or "none".
        norm_kind: LayerNorm ("layer"), or "rms", which leaves the mean and has no bias.
        embed_norm: a norm on the embeddings (as BERT).
        positions: "learned" or "sinusoidal" vectors are added to the embeddings, "rotary" turns
            queries and keys, "none" leaves the order unknown.
        rotary_base: the slowest pair turns by about 1 / base of a radian per position.
        rotary_pairs: which dimensions turn together, see `positions.rotate`.
        causal: forbid looking ahead.
        cross: each block also attends to the states of another text, as a decoder does.
        combine: how heads come together, "concat" or "add".
        activation: of the feed-forward block: "relu", "gelu", "gelu_tanh", "silu".
        gated: the feed-forward block has a gate (SwiGLU, with "silu").
        bias: biases in attention and feed-forward.
        tied: the unembedding is the transposed embedding.
        head: whether there is an unembedding at all; without it the output is the last state.
        dropout: probability to drop, on embeddings and on what each block writes.
        norm_eps: ε of the norms.

    Raises:
        ValueError: if a choice is unknown, with the ones there are.
    """

    vocab_size: int
    d_model: int = 128
    layers: int = 1
    heads: int = 4
    d_k: int | None = None
    d_v: int | None = None
    kv_heads: int | None = None
    d_ff: int | None = None
    max_len: int = 128
    norm: str = "pre"
    norm_kind: str = "layer"
    embed_norm: bool = False
    positions: str = "learned"
    rotary_base: float = 10_000.0
    rotary_pairs: str = "adjacent"
    causal: bool = True
    cross: bool = False
    combine: str = "concat"
    activation: str = "gelu"
    gated: bool = False
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
        """GPT-2 small as published (Radford et al. 2019): 124,439,808 parameters."""
        config = cls(50_257, 768, layers=12, heads=12, d_ff=3072, max_len=1024, dropout=0.1)
        return replace(config, activation="gelu_tanh", bias=True, tied=True)
