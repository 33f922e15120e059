"""The one transformer of the course, from top to bottom.

Language models, encoders and classifiers are configurations of it: one layer of attention without
anything else, GPT-2, an encoder, an encoder's reader, the models of today. A layer reads as its
equation, x = x + attn(norm(x)) and x = x + mlp(norm(x)). Heads keep their own matrices (see
`attention.MultiHeadAttention`), so that every head can be looked at, changed or removed on its own.

Whatever a layer computes passes through `LayerState.put` under its name, and there alone may an
edit replace it. So the sites of `edits`, what a layer returns and the fields of a `Trace` have the
same names:

    resid_pre  → q, k, v → pattern → z → attn_out → mlp_out → resid_post

    model(ids, edits={("pattern", 2): torch.zeros_like})      # layer 2 looks at nothing

An edit's key is (site, layer); its value is a function that takes what the model has there, with
the axis of the batch, and returns what stands there instead, of the same shape. Ablations, gates,
patches and frozen weights are all edits. Nothing in the model changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import (
    MultiHeadAttention,
    attend,
    attention_weights,
    causal_mask,
    check_choice,
    shared,
)
from attnlib.models.cache import KVCache
from attnlib.models.evaluation import evaluating
from attnlib.models.initial import normal
from attnlib.positions import ROTARY_PAIRS, RotaryScaling, rotation, sinusoidal, turn
from attnlib.tokenizers.words import check_padding
from attnlib.trace import PER_LAYER, Trace, token_names, wanted

Edit = Callable[[Tensor], Tensor]
Edits = Mapping[tuple[str, int], Edit]
Encoded = tuple[Tensor, Tensor]  # states of another text (B, M, d_model), and its mask (B, M)
Rotation = tuple[Tensor, Tensor]  # cosine and sine of each position's angles, (T, d/2)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU as GPT-2 and Gemma approximate it; a function with a name, so that models pickle."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
}
CHOICES = {
    "norm": ("pre", "post", "both", "none"),
    "norm_kind": ("layer", "rms"),
    "positions": ("learned", "sinusoidal", "rotary", "none"),
    "combine": ("concat", "add"),
    "activation": tuple(ACTIVATIONS),
    "rotary_pairs": ROTARY_PAIRS,
}
BIASES = ("qkv", "out", "mlp", "head")

OF_ATTENTION = {
    "q": "queries, (B, H, T, d_k), as they meet the keys (turned, if positions are rotary)",
    "k": "keys, (B, H_kv, S, d_k), likewise",
    "v": "values, (B, H_kv, S, d_v)",
    "pattern": "attention weights, (B, H, T, S)",
    "z": "each head's weighted values, (B, H, T, d_v): its output before W_O",
    "attn_out": "what attention adds to the stream, (B, T, d_model)",
}
SITES = {
    "resid_pre": "the stream that a layer reads, (B, T, d_model)",
    **OF_ATTENTION,
    **{f"cross_{site}": f"{what}; to another text" for site, what in OF_ATTENTION.items()},
    "mlp_out": "what the feed-forward block adds to the stream, (B, T, d_model)",
    "resid_post": "the stream that a layer leaves, (B, T, d_model)",
}


# --- configuration ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerConfig:
    """Everything that tells one transformer from another.

    Attributes:
        vocab_size: D, tokens known.
        d_model: width of the residual stream.
        layers: L.
        heads: H.
        d_k: width of a query or key; d_model / heads if None.
        d_v: width of a value; d_model / heads if None, but d_model where heads are added.
        kv_heads: H_kv, keys and values that the heads share in groups (grouped-query attention);
            as many as heads if None, 1 for multi-query attention.
        d_ff: hidden width of the feed-forward block; None for none (attention only).
        max_len: longest input; the rows of the learned position table.
        norm: before each block and once at the end ("pre", as GPT-2), after each addition
            ("post", as BERT and the original), before each block and again on what it adds
            ("both", as Gemma 2 and 3), or "none".
        norm_kind: LayerNorm ("layer"), or "rms", which leaves the mean and has no bias.
        embed_norm: a norm on the embeddings (as BERT).
        positions: "learned" or "sinusoidal" vectors are added to the embeddings, "rotary" turns
            queries and keys, "none" leaves the order unknown.
        rotary_base: the slowest pair turns by about 1 / base of a radian per position; one number,
            or one for each layer.
        rotary_pairs: which dimensions turn together, see `positions.rotate`.
        causal: forbid looking ahead.
        cross: each block also attends to the states of another text, as a decoder does.
        combine: how heads come together, "concat" or "add".
        activation: of the feed-forward block: "relu", "gelu", "gelu_tanh", "silu".
        gated: the feed-forward block has a gate (SwiGLU, with "silu").
        bias: biases of queries, keys and values ("qkv"), of what attention adds ("out"), of the
            feed-forward block ("mlp") and of the logits ("head"): a tuple of these names, or True
            for the first three.
        tied: the unembedding is the transposed embedding.
        head: whether there is an unembedding at all; without it the output is the last state.
        dropout: probability to drop, on embeddings and on what each block writes.
        norm_eps: ε of the norms.
        embed_scale: what the embeddings are multiplied by (Gemma: √d_model).
        qk_norm: each query and each key is normalised (RMSNorm over d_k) before it is turned.
        rotary_share: of the d_k dimensions, the first that turn (GPT-NeoX, Phi).
        rotary_scaling: how the frequencies are slowed; one for all layers, or one for each.
        window: how many tokens a query sees at most, the last ones with itself; None for all; one
            for all layers, or one for each.
        score_scale: what q kᵀ is multiplied by; 1/√d_k if None.
        score_cap: c, where scores are bounded softly by c tanh(score / c).
        logit_cap: the same of the logits.
        parallel: attention and feed-forward read the same stream (GPT-NeoX, Phi).
        shared_norm: and through the same norm (Phi).

    Raises:
        ValueError: if a choice is unknown, with the ones there are, or two settings exclude each
            other.
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
    rotary_base: float | tuple[float, ...] = 10_000.0
    rotary_pairs: str = "adjacent"
    causal: bool = True
    cross: bool = False
    combine: str = "concat"
    activation: str = "gelu"
    gated: bool = False
    bias: bool | tuple[str, ...] = False
    tied: bool = False
    head: bool = True
    dropout: float = 0.0
    norm_eps: float = 1e-5
    embed_scale: float = 1.0
    qk_norm: bool = False
    rotary_share: float = 1.0
    rotary_scaling: RotaryScaling | tuple[RotaryScaling | None, ...] | None = None
    window: int | tuple[int | None, ...] | None = None
    score_scale: float | None = None
    score_cap: float | None = None
    logit_cap: float | None = None
    parallel: bool = False
    shared_norm: bool = False

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in self.biases:
            check_choice("bias", name, BIASES)
        self._check_layers()
        if self.window is not None and not self.causal:
            raise ValueError("a window is the last tokens, and so needs causal=True")
        if self.parallel and (self.norm not in ("pre", "none") or self.cross):
            raise ValueError('parallel blocks need norm="pre" or "none", and cross=False')
        if self.shared_norm and not self.parallel:
            raise ValueError("shared_norm needs parallel=True")
        if self.positions == "rotary" and (self.rotary_width < 2 or self.rotary_width % 2):
            raise ValueError(
                f"rotary positions turn pairs, and {self.rotary_width} dimensions of a query are "
                "to turn: it must be an even number"
            )

    @property
    def rotary_width(self) -> int:
        """How many dimensions of a query turn with its position."""
        d_k = self.d_model // self.heads if self.d_k is None else self.d_k
        return int(self.rotary_share * d_k)

    def _check_layers(self) -> None:
        """What may have a value for each layer: as many values as layers, a window of 1 or more."""
        for name in ("rotary_base", "rotary_scaling", "window"):
            value = getattr(self, name)
            if isinstance(value, list):  # as JSON has it
                value = tuple(value)
                object.__setattr__(self, name, value)
            if isinstance(value, tuple) and len(value) != self.layers:
                raise ValueError(f"{name} names {len(value)} layers of {self.layers}")
        windows = [self.window_of(layer) for layer in range(self.layers)]
        if any(window is not None and window < 1 for window in windows):
            raise ValueError(f"a window holds at least the token itself, got {self.window}")

    @property
    def biases(self) -> tuple[str, ...]:
        """Which biases there are, by the names of `bias`."""
        if isinstance(self.bias, bool):
            return ("qkv", "out", "mlp") if self.bias else ()
        return self.bias

    def window_of(self, layer: int) -> int | None:
        """How many tokens a query of this layer sees at most, or None for all."""
        return self.window[layer] if isinstance(self.window, tuple) else self.window

    def rotary_of(self, layer: int) -> tuple[float, RotaryScaling | None]:
        """Base and scaling of the rotary positions of this layer."""
        base, scaling = self.rotary_base, self.rotary_scaling
        return (
            base[layer] if isinstance(base, tuple) else base,
            scaling[layer] if isinstance(scaling, tuple) else scaling,
        )

    @classmethod
    def gpt2(cls) -> "TransformerConfig":
        """GPT-2 small as published (Radford et al. 2019): 124,439,808 parameters."""
        return cls(
            vocab_size=50_257,
            d_model=768,
            layers=12,
            heads=12,
            d_ff=3072,
            max_len=1024,
            dropout=0.1,
            activation="gelu_tanh",
            bias=True,
            tied=True,
        )


# --- what a layer computes, and the one place where it may be edited ----------------------------


class LayerState:
    """What one layer does with a batch, by the names of `SITES`; `put` fills them in one by one.

    `pattern` is None where the weights were not needed; `mlp_out` without a feed-forward block, and
    what begins with `cross_` without another text, are None as well.
    """

    resid_pre: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    pattern: Tensor | None = None
    z: Tensor
    attn_out: Tensor
    cross_q: Tensor | None = None
    cross_k: Tensor | None = None
    cross_v: Tensor | None = None
    cross_pattern: Tensor | None = None
    cross_z: Tensor | None = None
    cross_attn_out: Tensor | None = None
    mlp_out: Tensor | None = None
    resid_post: Tensor

    def __init__(self, layer: int = 0, edits: Edits | None = None) -> None:
        self.layer = layer
        self.edits: dict[str, Edit] = {}  # of this layer, by site
        for (site, edited_layer), edit in (edits or {}).items():
            if edited_layer == layer:
                self.edits[site] = edit

    def put(self, site: str, x: Tensor) -> Tensor:
        """Keep a tensor under its name, and return it: as it is, or as the edit of its site has it.

        What an edit returns is taken in the float that was there.

        Raises:
            ValueError: if an edit returns something else than a tensor of the same shape.
        """
        if site in self.edits:
            edited = self.edits[site](x)
            if not isinstance(edited, Tensor) or edited.shape != x.shape:
                came = tuple(edited.shape) if isinstance(edited, Tensor) else type(edited).__name__
                raise ValueError(
                    f"the edit of {(site, self.layer)} must return a tensor of the shape it got, "
                    f"{tuple(x.shape)}; it returned {came}"
                )
            x = edited.to(x.dtype)
        setattr(self, site, x)
        return x


def check_edits(edits: Edits, config: TransformerConfig) -> None:
    """Stop if a model of this configuration has no such site.

    Raises:
        ValueError: names the site, and those there are.
    """
    sites = [site for site in SITES if config.cross or not site.startswith("cross_")]
    if config.d_ff is None:
        sites.remove("mlp_out")
    for key in edits:
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int)):
            raise ValueError(f"an edit's key is (site, layer), such as ('pattern', 0); got {key!r}")
        site, layer = key
        if site not in sites:
            raise ValueError(f"this model has no site {site!r}; it has {', '.join(sites)}")
        if not 0 <= layer < config.layers:
            raise ValueError(f"{key}: this model's layers are 0 … {config.layers - 1}")


# --- one layer ----------------------------------------------------------------------------------


def norm(config: TransformerConfig, needed: bool) -> nn.Module:
    """A norm of the kind that the configuration names, or nothing."""
    if not needed:
        return nn.Identity()
    if config.norm_kind == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_eps)
    return nn.LayerNorm(config.d_model, eps=config.norm_eps)


class Attention(MultiHeadAttention):
    """The heads of one layer: project, normalise, turn, look, write."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(
            config.d_model,
            config.heads,
            config.d_k,
            config.d_v,
            combine=config.combine,
            kv_heads=config.kv_heads,
            bias=config.biases,
        )
        d_k = self.W_Q.shape[-1]
        self.config = config
        self.q_norm = nn.RMSNorm(d_k, eps=config.norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(d_k, eps=config.norm_eps) if config.qk_norm else nn.Identity()

    def beyond_W_QK(self) -> list[str]:
        """What the scores depend on besides x, W_QK and the scale; empty if nothing."""
        more = super().beyond_W_QK()
        if self.config.qk_norm:
            more.append("the length of each query and key, which is normalised")
        if self.config.positions == "rotary":
            more.append("the distance of the two tokens, by which queries and keys are turned")
        if self.config.score_cap is not None:
            more.append("a soft cap")
        return more

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As of a `MultiHeadAttention`, where the layer is no more than that.

        Raises:
            ValueError: if it also turns, normalises, scales or bounds, which `look` does.
        """
        config = self.config
        scores = config.qk_norm, config.score_scale, config.score_cap
        if config.positions == "rotary" or scores != (False, None, None):
            raise ValueError(
                "this layer does more with its queries and keys than its matrices say: "
                "`Transformer.run` and `trace` give its weights and what it writes"
            )
        return super().forward(x, source, mask, causal, need_weights)

    def look(
        self,
        x: Tensor,
        state: LayerState,
        prefix: str = "",
        source: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
        cache: KVCache | None = None,
        need_weights: bool = False,
    ) -> Tensor:
        """What this layer's attention writes, (B, T, d_model); q, k, v, pattern, z go into `state`.

        Args:
            x: what the queries are made of, (B, T, d_model).
            state: of this layer; `prefix` stands before the names of its sites.
            prefix: "" or "cross_".
            source: what keys and values are made of, (B, S, d_model); x itself if None.
            mask: as in `attention.attend`.
            causal: likewise.
            rotation: cosine and sine of the angles of x's positions, or None.
            cache: keys and values of the tokens before x, which it then takes in.
            need_weights: keep the pattern; where it is not needed, the fused kernel makes none.
        """
        q, k, v = self.project(x, source)
        q, k = self.q_norm(q), self.k_norm(k)
        if rotation is not None:
            q = turn(q, *rotation, self.config.rotary_pairs)
            k = turn(k, *rotation, self.config.rotary_pairs)
        if cache is not None:
            k, v = cache.extend(state.layer, k, v)
        q = state.put(prefix + "q", q)
        k = state.put(prefix + "k", k)
        v = state.put(prefix + "v", v)
        scale, cap = self.config.score_scale, self.config.score_cap
        if need_weights or prefix + "pattern" in state.edits:
            pattern = attention_weights(q, k, mask, causal, scale, cap)
            pattern = state.put(prefix + "pattern", pattern)
            z = pattern @ shared(v, self.config.heads)
        else:
            z, _ = attend(q, k, v, mask, causal, scale=scale, cap=cap)
        z = state.put(prefix + "z", z)
        return self.write(z)


class FeedForward(nn.Module):
    """Two linear maps, an activation between, on every position alone: f(x W_1 + b_1) W_2 + b_2.

    With a gate (Shazeer 2020; SwiGLU, if f is SiLU): (f(x W_gate) ⊙ (x W_1 + b_1)) W_2 + b_2.

    Shapes: W_1 and W_gate (d_model, d_ff), W_2 (d_ff, d_model).
    """

    def __init__(self, config: TransformerConfig, d_ff: int) -> None:
        super().__init__()
        d_model, bias = config.d_model, "mlp" in config.biases
        self.activation = ACTIVATIONS[config.activation]
        self.W_1 = normal(d_model, d_ff, std=d_model**-0.5)
        self.W_2 = normal(d_ff, d_model, std=d_ff**-0.5)
        self.b_1 = nn.Parameter(torch.zeros(d_ff)) if bias else None
        self.b_2 = nn.Parameter(torch.zeros(d_model)) if bias else None
        self.W_gate = normal(d_model, d_ff, std=d_model**-0.5) if config.gated else None

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, d_model) to the same shape."""
        hidden = F.linear(x, self.W_1.T, self.b_1)
        if self.W_gate is None:
            hidden = self.activation(hidden)
        else:
            hidden = self.activation(F.linear(x, self.W_gate.T)) * hidden
        return F.linear(hidden, self.W_2.T, self.b_2)


class Block(nn.Module):
    """One layer: attention, then a feed-forward block if there is one, all added to the stream.

    With norm="pre": x + f(norm(x)); "post": norm(x + f(x)); "both": x + norm′(f(norm(x))); "none":
    x + f(x). With `config.cross` a second attention stands between, from the stream to a memory.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        normed, feeds = config.norm != "none", config.d_ff is not None
        self.config = config
        self.attention = Attention(config)
        self.cross_attention = Attention(config) if config.cross else None
        self.feed_forward = None if config.d_ff is None else FeedForward(config, config.d_ff)
        self.norm_1 = norm(config, normed)
        self.norm_cross = norm(config, normed and config.cross)
        self.norm_2 = norm(config, normed and feeds and not config.shared_norm)
        self.norm_1_after = norm(config, config.norm == "both")
        self.norm_cross_after = norm(config, config.norm == "both" and config.cross)
        self.norm_2_after = norm(config, config.norm == "both" and feeds)

    def forward(
        self,
        x: Tensor,
        state: LayerState | None = None,
        mask: Tensor | None = None,
        causal: bool | None = None,
        rotation: Rotation | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
        need_weights: bool = False,
    ) -> LayerState:
        """What this layer does with the stream x (B, T, d_model).

        Args:
            x: the stream.
            state: empty, with this layer's number and edits; a new one without edits if None.
            mask: True where allowed, broadcastable to (B, H, T, S).
            causal: forbid looking ahead besides; as the configuration says if None.
            rotation: as in `Attention.look`.
            cache: of S tokens before x; keys, values and pattern are then of all S + T sources.
            memory: as in `Transformer.hidden`.
            need_weights: keep the patterns.
        """
        state = LayerState() if state is None else state
        causal = self.config.causal if causal is None else causal
        resid_pre = state.put("resid_pre", x)

        attn_out = self.attention.look(
            self._normed(resid_pre, self.norm_1),
            state,
            mask=mask,
            causal=causal,
            rotation=rotation,
            cache=cache,
            need_weights=need_weights,
        )
        attn_out = state.put("attn_out", self.norm_1_after(attn_out))
        x = self._added(resid_pre, attn_out, self.norm_1)

        if self.cross_attention is not None and memory is not None:
            states, real = memory
            attn_out = self.cross_attention.look(
                self._normed(x, self.norm_cross),
                state,
                prefix="cross_",
                source=states,
                mask=real[:, None, None, :],
                need_weights=need_weights,
            )
            attn_out = state.put("cross_attn_out", self.norm_cross_after(attn_out))
            x = self._added(x, attn_out, self.norm_cross)

        if self.feed_forward is not None:
            norm_2 = self.norm_1 if self.config.shared_norm else self.norm_2
            stream = resid_pre if self.config.parallel else x
            mlp_out = self.feed_forward(self._normed(stream, norm_2))
            mlp_out = state.put("mlp_out", self.norm_2_after(mlp_out))
            x = self._added(x, mlp_out, norm_2)

        state.put("resid_post", x)
        return state

    def _normed(self, x: Tensor, norm: nn.Module) -> Tensor:
        """norm(x), where the configuration has a norm before each part: what the part reads."""
        y: Tensor = norm(x) if self.config.norm in ("pre", "both") else x
        return y

    def _added(self, x: Tensor, out: Tensor, norm: nn.Module) -> Tensor:
        """x + out, with dropout on `out`; norm(x + out) where the norm comes last ("post")."""
        x = x + F.dropout(out, self.config.dropout, self.training)
        return norm(x) if self.config.norm == "post" else x


def _check_padding(mask: Tensor) -> None:
    """Stop if there is padding before a real token."""
    try:
        check_padding(mask)
    except ValueError as error:
        raise ValueError(
            'padding may stand only at the end of a row; tokenizer.padding_side = "right" puts it '
            "there"
        ) from error


# --- the transformer ----------------------------------------------------------------------------


class Transformer(nn.Module):
    """Embed, L blocks, unembed.

    Attributes:
        config: its `TransformerConfig`.
        W_E: embeddings (D, d_model). W_P: learned positions (max_len, d_model), or None.
        blocks: the layers.
        W_U: unembedding (d_model, D), the transposed W_E if tied; None without a head.
        b_U: bias of the logits (D,), or None.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        # 0.02 as in GPT-2: tied to the unembedding, larger embeddings would start with sure errors
        scale = 0.02 if config.tied or config.norm == "pre" else config.d_model**-0.5
        if config.positions == "sinusoidal" and not config.tied:
            scale = 1.0  # to be seen beside sines and cosines (Vaswani et al. 2017, section 3.4)
        self.W_E = normal(config.vocab_size, config.d_model, std=scale)
        self.W_P = None
        if config.positions == "learned":
            self.W_P = normal(config.max_len, config.d_model, std=scale)
        self.embed_norm = norm(config, config.embed_norm)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = norm(config, config.norm in ("pre", "both"))
        self._W_U = None
        if config.head and not config.tied:
            self._W_U = normal(config.d_model, config.vocab_size, std=config.d_model**-0.5)
        biased = config.head and "head" in config.biases
        self.b_U = nn.Parameter(torch.zeros(config.vocab_size)) if biased else None

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
        if self.config.embed_scale != 1.0:
            x = x * self.config.embed_scale
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
        edits: Edits | None = None,
        first: int = 0,
    ) -> Iterator[LayerState]:
        """Send embeddings (B, T, d_model) through the layers: what each did, one after the other.

        The one loop over the blocks; mask, cache, memory and edits are as in `hidden`. With a
        `first` other than 0, x is the stream that enters this layer, and those before are left out.
        Here edits go with a cache: they see the new tokens alone, and what the cache holds stays.
        """
        config = self.config
        if config.cross != (memory is not None):
            wants = "needs a memory to look at" if config.cross else "looks at no memory"
            raise ValueError(f"a model with cross={config.cross} {wants}")
        if cache is not None and (mask is not None or not config.causal):
            raise ValueError("a cache needs a causal model and a batch without padding mask")
        if mask is not None:
            _check_padding(mask)
        check_edits(edits or {}, config)
        if not 0 <= first <= config.layers:
            raise ValueError(f"first is a layer, 0 … {config.layers - 1}, got {first}")
        before = 0 if cache is None else cache.length
        rotations = self._rotations(x, before)
        for layer in range(first, config.layers):
            visible, causal = self._visible(layer, x, before, mask)
            state: LayerState = self.blocks[layer](
                x,
                LayerState(layer, edits),
                mask=visible,
                causal=causal,
                rotation=rotations[layer],
                cache=cache,
                memory=memory,
                need_weights=need_weights,
            )
            x = state.resid_post
            yield state

    def _rotations(self, x: Tensor, before: int) -> list[Rotation | None]:
        """How each layer turns the queries and keys of x (B, T, d_model), after `before` tokens.

        Layers of the same base and scaling share their angles.
        """
        config = self.config
        if config.positions != "rotary":
            return [None] * config.layers
        positions = torch.arange(before, before + x.shape[1], device="cpu")
        of_layers = [config.rotary_of(layer) for layer in range(config.layers)]
        angles = {}
        for base, scaling in set(of_layers):
            cos, sin = rotation(positions, config.rotary_width, base, scaling)
            angles[base, scaling] = cos.to(x), sin.to(x)
        return [angles[rotary] for rotary in of_layers]

    def _visible(
        self, layer: int, x: Tensor, before: int, padding: Tensor | None
    ) -> tuple[Tensor | None, bool]:
        """Whom each of the T tokens of x may look at among those before them and themselves.

        Returns:
            a mask that broadcasts to (B, H, T, before + T), or None if it would say nothing; and
            whether looking ahead is to be forbidden besides.
        """
        T, window = x.shape[1], self.config.window_of(layer)
        S = before + T
        mask = None if padding is None else padding[:, None, None, :]
        if window is not None and window < S:
            queries = torch.arange(before, S, device=x.device)[:, None]
            keys = torch.arange(S, device=x.device)
            near = (keys <= queries) & (queries - keys < window)
            return near if mask is None else near & mask, False
        if before == 0:
            return mask, self.config.causal
        if T == 1:
            return None, False  # the last token sees all of them
        return causal_mask(S, x.device)[-T:], False

    def hidden(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
        edits: Edits | None = None,
    ) -> Tensor:
        """The last state of every position, ready to be unembedded: (B, T) to (B, T, d_model).

        Args:
            ids: (B, T).
            mask: True on real tokens, False on padding, which stands at the end, (B, T); all real
                if None.
            cache: of the tokens before these, which it then takes in; needs a causal model,
                and no mask.
            memory: states (B, M, d_model) of another text and its mask (B, M), True on real
                tokens, for a model with `config.cross`.
            edits: what to replace on the way, see the head of this file; not with a cache.
        """
        if not isinstance(ids, Tensor) or ids.ndim != 2:
            got = tuple(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
            raise ValueError(
                f"ids are a tensor (B, T), such as ids[None] of one text (T,); got {got}"
            )
        if edits and cache is not None:
            raise ValueError("edits and a cache do not go together: read the whole text anew")
        x = self.embed(ids, 0 if cache is None else cache.length)
        for state in self.run(x, mask, cache, memory=memory, edits=edits):
            x = state.resid_post
        final: Tensor = self.final_norm(x)
        return final

    def unembed(self, x: Tensor) -> Tensor:
        """Logits (..., D) of last states (..., d_model); the states themselves without a head."""
        if self.W_U is None:
            return x
        logits = F.linear(x, self.W_U.T, self.b_U)
        cap = self.config.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Encoded | None = None,
        edits: Edits | None = None,
    ) -> Tensor:
        """Logits (B, T, D) of ids (B, T), or the last state if there is no head.

        Mask, cache, memory and edits are as in `hidden`.
        """
        return self.unembed(self.hidden(ids, mask, cache, memory, edits))

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
        edits: Edits | None = None,
    ) -> Trace:
        """Run one text and record it; without dropout, whatever the mode.

        Args:
            ids: (T,).
            tokens: their names for the axes of figures; the ids themselves if None.
            word_ids: word index of each token, if known.
            keep: what to keep beside the pattern, of `attnlib.trace.OPTIONAL`; "all" for all.
            edits: as in `hidden`.

        Returns:
            a Trace.
        """
        tokens, names = token_names(ids, tokens), wanted(keep)
        by_layer: dict[str, list[Tensor]] = {
            name: [] for name in ("pattern", *names) if name in PER_LAYER
        }
        with evaluating(self):
            x = self.embed(ids[None])
            for state in self.run(x, need_weights=True, edits=edits):
                x = state.resid_post
                for name, layers in by_layer.items():
                    part = self._part(state, name)
                    if part is not None:
                        layers.append(part)
            final = self.final_norm(x)[0]
        # The batch is one text, so its axis becomes that of the layers.
        parts: dict[str, Any] = {n: torch.cat(layers) for n, layers in by_layer.items() if layers}
        no_layers = x.new_zeros(0, self.config.heads, len(ids), len(ids))
        pattern = parts.pop("pattern", no_layers)
        if "final" in names:
            parts["final"] = final
        if "logits" in names and self.config.head:
            parts["logits"] = self.unembed(final)
        words = None if word_ids is None else tuple(word_ids)
        return Trace(tokens, pattern, word_ids=words, **parts)

    def _part(self, state: LayerState, name: str) -> Tensor | None:
        """A part of a layer's state by its name in a `Trace`, with the axis of the batch."""
        if name == "head_outputs":
            attention: Attention = self.blocks[state.layer].attention  # type: ignore[assignment]
            return state.z @ attention.W_O
        part: Tensor | None = getattr(state, name)
        if name in ("k", "v") and part is not None:
            return shared(part, self.config.heads)  # each head's own view
        return part
