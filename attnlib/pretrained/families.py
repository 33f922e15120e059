"""The families of published models that open in our `Transformer`, a record each.

A record says what the family calls its weights and how they lie, how its configuration is read, and
what of all that a configuration can say is built here. `conversion` renames and turns the weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnlib.positions import RotaryScaling
from attnlib.pretrained.turns import (
    AFTER_TWO,
    CONV1D_K,
    CONV1D_Q,
    CONV1D_V,
    HEADS,
    LINEAR,
    NEOX_K,
    NEOX_Q,
    NEOX_V,
    ONE_MORE,
    OUTPUT,
    ROWS,
    SAME,
    Layout,
)

Settings = dict[str, Any]  # arguments of `TransformerConfig`
Row = tuple[str, str, Layout]


@dataclass(frozen=True)
class Family:
    """What a reader of published weights must know of a family.

    Attributes:
        weights: rows of our name, theirs, and how a weight lies. {} is a layer. Ours are names of
            parameters, a matrix standing for its bias too, or of norms; theirs lack ".weight" and
            ".bias".
        prefixes: what may stand before their names, where a model has a head.
        besides: a pattern of what a file may hold besides: masks, and what was trained on top.
        segments: an embedding of segments, of which the first is added to every position; "" if
            there is none.
        rotary_pairs: which dimensions turn together in W_Q and W_K as they lie; None without
            rotary positions.
        settings: the arguments of `TransformerConfig`, from a configuration of `transformers`.
        built: of settings of theirs, by name, the values with which the family is built here. A
            setting that a configuration lacks is as usual.
        uncounted: an id that gets no position, and so may not stand within a text; None for none.
    """

    weights: tuple[Row, ...]
    prefixes: tuple[str, ...] = ()
    besides: str = r"rotary_emb\.inv_freq$"
    segments: str = ""
    rotary_pairs: str | None = None
    settings: Callable[[Any], Settings] | None = None
    built: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    uncounted: int | None = None

    @property
    def head(self) -> str:
        """What the family calls its unembedding; "" for an encoder, whose head is left out."""
        return next((theirs for ours, theirs, _ in self.weights if ours == "_W_U"), "")


# --- how configurations of transformers are read -------------------------------------------------

ACTIVATIONS = {  # theirs: ours
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def activation(theirs: Any, setting: str) -> str:
    """Our name of the activation that a setting of theirs names.

    Raises:
        ValueError: if it is not built.
    """
    name = getattr(theirs, setting)
    if name not in ACTIVATIONS:
        raise ValueError(f"{setting}={name!r} is not built here, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def sizes(theirs: Any) -> Settings:
    """What all families call by the same names."""
    return {
        "vocab_size": theirs.vocab_size,
        "d_model": theirs.hidden_size,
        "layers": theirs.num_hidden_layers,
        "heads": theirs.num_attention_heads,
        "max_len": theirs.max_position_embeddings,
    }


def rotary(theirs: Any) -> Settings:
    """Rotary positions that are the same in every layer, and turn all dimensions.

    Many a configuration has a `partial_rotary_factor`; only GPT-NeoX and Phi make use of it.
    """
    rope = rope_of(theirs)
    return {
        "positions": "rotary",
        "rotary_pairs": "halves",
        "rotary_base": rope["rope_theta"],
        "rotary_scaling": scaling(rope),
    }


def partly_rotary(theirs: Any) -> Settings:
    """The same, where only a share of the dimensions turns."""
    share = rope_of(theirs).get("partial_rotary_factor", 1.0)
    return rotary(theirs) | {"rotary_share": share}


def rope_of(theirs: Any) -> dict[str, Any]:
    """The settings of the rotary positions, under the names of transformers 5.

    There `rope_parameters` holds all of them. In transformers 4 they are attributes, and
    `rope_scaling` holds what slows the frequencies.
    """
    rope = getattr(theirs, "rope_parameters", None)
    if rope is not None:
        return dict(rope)
    rope = {"rope_theta": theirs.rope_theta}
    share = getattr(theirs, "partial_rotary_factor", None)
    if share is not None:
        rope["partial_rotary_factor"] = share
    return rope | (getattr(theirs, "rope_scaling", None) or {})


def scaling(rope: Mapping[str, Any]) -> RotaryScaling | None:
    """How the frequencies of these rotary positions are slowed.

    Raises:
        ValueError: if they are slowed in a way that is not built.
    """
    scheme = rope.get("rope_type", rope.get("type", "default"))
    if scheme == "default":
        return None
    if scheme == "linear":
        return RotaryScaling(rope["factor"])
    if scheme == "llama3":
        return RotaryScaling(
            rope["factor"],
            low_frequency=rope["low_freq_factor"],
            high_frequency=rope["high_freq_factor"],
            original_length=rope["original_max_position_embeddings"],
        )
    raise ValueError(
        f"rope_type={scheme!r} is not built here, only 'default', 'linear' and 'llama3'"
    )


def windows(theirs: Any) -> tuple[int | None, ...]:
    """How many tokens a query sees in each layer.

    Raises:
        ValueError: if the layers are of another kind than with and without a window, or their
            kinds are not listed.
    """
    kinds = getattr(theirs, "layer_types", None)
    if kinds is None:
        raise ValueError(
            "this configuration has no layer_types, which say which layers have a window: load the "
            "model with transformers 4.53 or later"
        )
    visible = {"full_attention": None, "sliding_attention": theirs.sliding_window}
    if strange := sorted(set(kinds) - visible.keys()):
        raise ValueError(f"layer_types {strange} are not built here, only {[*visible]}")
    return tuple(visible[kind] for kind in kinds)


def gpt2_settings(theirs: Any) -> Settings:
    """GPT-2 (Radford et al. 2019)."""
    return dict(
        sizes(theirs),
        d_ff=theirs.n_inner or 4 * theirs.hidden_size,
        activation=activation(theirs, "activation_function"),
        norm_eps=theirs.layer_norm_epsilon,
        bias=True,
        tied=theirs.tie_word_embeddings,
    )


def bert_settings(theirs: Any) -> Settings:
    """BERT (Devlin et al. 2019): an encoder, without a head."""
    return dict(
        sizes(theirs),
        d_ff=theirs.intermediate_size,
        activation=activation(theirs, "hidden_act"),
        norm="post",
        norm_eps=theirs.layer_norm_eps,
        embed_norm=True,
        causal=False,
        bias=True,
        head=False,
    )


def roberta_settings(theirs: Any) -> Settings:
    """RoBERTa (Liu et al. 2019): a BERT whose positions are counted from 2."""
    return dict(bert_settings(theirs), max_len=theirs.max_position_embeddings - 2)


def distilbert_settings(theirs: Any) -> Settings:
    """DistilBERT (Sanh et al. 2019): a BERT without segments."""
    return dict(
        sizes(theirs),
        d_ff=theirs.hidden_dim,
        activation=activation(theirs, "activation"),
        norm="post",
        norm_eps=1e-12,
        embed_norm=True,
        causal=False,
        bias=True,
        head=False,
    )


def llama_settings(theirs: Any) -> Settings:
    """Llama (Touvron et al. 2023), 2 and 3."""
    width = getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
    return dict(
        sizes(theirs),
        d_k=width,
        d_v=width,
        kv_heads=theirs.num_key_value_heads,
        d_ff=theirs.intermediate_size,
        activation=activation(theirs, "hidden_act"),
        gated=True,
        norm_kind="rms",
        norm_eps=theirs.rms_norm_eps,
        bias=("qkv", "out") if getattr(theirs, "attention_bias", False) else False,
        tied=theirs.tie_word_embeddings,
        **rotary(theirs),
    )


def mistral_settings(theirs: Any) -> Settings:
    """Mistral (Jiang et al. 2023): a Llama without biases, with a window in its first version."""
    return dict(llama_settings(theirs), bias=False, window=theirs.sliding_window)


def qwen2_settings(theirs: Any) -> Settings:
    """Qwen2 and 2.5 (Yang et al. 2024): biases on queries, keys and values alone."""
    return dict(llama_settings(theirs), bias=("qkv",), window=windows(theirs))


def qwen3_settings(theirs: Any) -> Settings:
    """Qwen3 (Yang et al. 2025): queries and keys are normalised."""
    return dict(llama_settings(theirs), qk_norm=True, window=windows(theirs))


def gemma2_settings(theirs: Any) -> Settings:
    """Gemma 2 (Riviere et al. 2024): two norms a block, soft caps, windows in half the layers."""
    return dict(
        sizes(theirs),
        d_k=theirs.head_dim,
        d_v=theirs.head_dim,
        kv_heads=theirs.num_key_value_heads,
        d_ff=theirs.intermediate_size,
        activation=activation(theirs, "hidden_activation"),
        gated=True,
        norm="both",
        norm_kind="rms",
        norm_eps=theirs.rms_norm_eps,
        embed_scale=theirs.hidden_size**0.5,
        window=windows(theirs),
        score_scale=theirs.query_pre_attn_scalar**-0.5,
        score_cap=theirs.attn_logit_softcapping,
        logit_cap=theirs.final_logit_softcapping,
        bias=("qkv", "out") if theirs.attention_bias else False,
        tied=theirs.tie_word_embeddings,
        **rotary(theirs),
    )


def gemma3_settings(theirs: Any) -> Settings:
    """Gemma 3 (Kamath et al. 2025), the part that reads text.

    Layers with a window have a base of their own. A soft cap of the scores, which a configuration
    can name, is not applied, here as in `transformers`.
    """
    rope = getattr(theirs, "rope_parameters", None)
    if rope is None:  # transformers 4
        rope = {
            "full_attention": rope_of(theirs),
            "sliding_attention": {"rope_theta": theirs.rope_local_base_freq},
        }
    of_layer = [rope[kind] for kind in theirs.layer_types]
    return dict(
        sizes(theirs),
        d_k=theirs.head_dim,
        d_v=theirs.head_dim,
        kv_heads=theirs.num_key_value_heads,
        d_ff=theirs.intermediate_size,
        activation=activation(theirs, "hidden_activation"),
        gated=True,
        norm="both",
        norm_kind="rms",
        norm_eps=theirs.rms_norm_eps,
        qk_norm=True,
        embed_scale=theirs.hidden_size**0.5,
        positions="rotary",
        rotary_pairs="halves",
        rotary_base=tuple(layer["rope_theta"] for layer in of_layer),
        rotary_scaling=tuple(scaling(layer) for layer in of_layer),
        window=windows(theirs),
        score_scale=theirs.query_pre_attn_scalar**-0.5,
        logit_cap=theirs.final_logit_softcapping,
        bias=("qkv", "out") if theirs.attention_bias else False,
        tied=theirs.tie_word_embeddings,
    )


def neox_settings(theirs: Any) -> Settings:
    """GPT-NeoX (Black et al. 2022), of which the Pythia models are (Biderman et al. 2023)."""
    return dict(
        sizes(theirs),
        d_ff=theirs.intermediate_size,
        activation=activation(theirs, "hidden_act"),
        parallel=theirs.use_parallel_residual,
        norm_eps=theirs.layer_norm_eps,
        bias=("qkv", "out", "mlp") if theirs.attention_bias else ("mlp",),
        tied=theirs.tie_word_embeddings,
        **partly_rotary(theirs),
    )


def phi_settings(theirs: Any) -> Settings:
    """Phi-1, 1.5 and 2 (Gunasekar et al. 2023)."""
    return dict(
        sizes(theirs),
        kv_heads=theirs.num_key_value_heads,
        d_ff=theirs.intermediate_size,
        activation=activation(theirs, "hidden_act"),
        parallel=True,
        shared_norm=True,
        norm_eps=theirs.layer_norm_eps,
        bias=("qkv", "out", "mlp", "head"),
        tied=theirs.tie_word_embeddings,
        **partly_rotary(theirs),
    )


def opt_settings(theirs: Any) -> Settings:
    """OPT (Zhang et al. 2022).

    Raises:
        ValueError: if the embeddings have another width than the stream, as in the 350M model.
    """
    if theirs.word_embed_proj_dim != theirs.hidden_size:
        raise ValueError(
            f"word_embed_proj_dim={theirs.word_embed_proj_dim} is not built here, only "
            f"{theirs.hidden_size}, the width of the stream"
        )
    return dict(
        sizes(theirs),
        d_ff=theirs.ffn_dim,
        activation=activation(theirs, "activation_function"),
        norm="pre" if theirs.do_layer_norm_before else "post",
        bias=theirs.enable_bias,
        tied=theirs.tie_word_embeddings,
    )


# --- encoders ------------------------------------------------------------------------------------

BERT = Family(
    weights=(
        ("W_E", "embeddings.word_embeddings", SAME),
        ("W_P", "embeddings.position_embeddings", SAME),
        ("embed_norm", "embeddings.LayerNorm", SAME),
        ("blocks.{}.attention.W_Q", "encoder.layer.{}.attention.self.query", HEADS),
        ("blocks.{}.attention.W_K", "encoder.layer.{}.attention.self.key", HEADS),
        ("blocks.{}.attention.W_V", "encoder.layer.{}.attention.self.value", HEADS),
        ("blocks.{}.attention.W_O", "encoder.layer.{}.attention.output.dense", OUTPUT),
        ("blocks.{}.norm_1", "encoder.layer.{}.attention.output.LayerNorm", SAME),
        ("blocks.{}.feed_forward.W_1", "encoder.layer.{}.intermediate.dense", LINEAR),
        ("blocks.{}.feed_forward.W_2", "encoder.layer.{}.output.dense", LINEAR),
        ("blocks.{}.norm_2", "encoder.layer.{}.output.LayerNorm", SAME),
    ),
    prefixes=("bert.",),
    besides=r"position_ids$|^(pooler|cls|classifier|qa_outputs)\.",
    segments="embeddings.token_type_embeddings.weight",
    settings=bert_settings,
    built={
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "position_embedding_type": ("absolute", None),
    },
)

ROBERTA = Family(
    weights=tuple(
        (ours, theirs, AFTER_TWO if ours == "W_P" else layout)
        for ours, theirs, layout in BERT.weights
    ),
    prefixes=("roberta.",),
    besides=r"position_ids$|^(pooler|lm_head|classifier|qa_outputs)\.",
    segments=BERT.segments,
    settings=roberta_settings,
    built={**BERT.built, "pad_token_id": (1,)},  # positions begin after the id of padding
    uncounted=1,
)

DISTILBERT = Family(
    weights=(
        ("W_E", "embeddings.word_embeddings", SAME),
        ("W_P", "embeddings.position_embeddings", SAME),
        ("embed_norm", "embeddings.LayerNorm", SAME),
        ("blocks.{}.attention.W_Q", "transformer.layer.{}.attention.q_lin", HEADS),
        ("blocks.{}.attention.W_K", "transformer.layer.{}.attention.k_lin", HEADS),
        ("blocks.{}.attention.W_V", "transformer.layer.{}.attention.v_lin", HEADS),
        ("blocks.{}.attention.W_O", "transformer.layer.{}.attention.out_lin", OUTPUT),
        ("blocks.{}.norm_1", "transformer.layer.{}.sa_layer_norm", SAME),
        ("blocks.{}.feed_forward.W_1", "transformer.layer.{}.ffn.lin1", LINEAR),
        ("blocks.{}.feed_forward.W_2", "transformer.layer.{}.ffn.lin2", LINEAR),
        ("blocks.{}.norm_2", "transformer.layer.{}.output_layer_norm", SAME),
    ),
    prefixes=("distilbert.",),
    besides=r"position_ids$|^(vocab_\w+|pre_classifier|classifier|qa_outputs)\.",
    settings=distilbert_settings,
)

# --- language models -----------------------------------------------------------------------------

CAUSAL: dict[str, tuple[Any, ...]] = {"is_causal": (True,)}

GPT2 = Family(
    weights=(
        ("W_E", "wte", SAME),
        ("W_P", "wpe", SAME),
        ("blocks.{}.norm_1", "h.{}.ln_1", SAME),
        ("blocks.{}.attention.W_Q", "h.{}.attn.c_attn", CONV1D_Q),
        ("blocks.{}.attention.W_K", "h.{}.attn.c_attn", CONV1D_K),
        ("blocks.{}.attention.W_V", "h.{}.attn.c_attn", CONV1D_V),
        ("blocks.{}.attention.W_O", "h.{}.attn.c_proj", ROWS),
        ("blocks.{}.norm_2", "h.{}.ln_2", SAME),
        ("blocks.{}.feed_forward.W_1", "h.{}.mlp.c_fc", SAME),
        ("blocks.{}.feed_forward.W_2", "h.{}.mlp.c_proj", SAME),
        ("final_norm", "ln_f", SAME),
        ("_W_U", "lm_head", LINEAR),
    ),
    prefixes=("transformer.",),
    besides=r"\.attn\.(masked_)?bias$",
    settings=gpt2_settings,
    built={
        **CAUSAL,
        "scale_attn_by_inverse_layer_idx": (False,),
        "scale_attn_weights": (True,),
        "add_cross_attention": (False,),
    },
)

_LLAMA_WEIGHTS: tuple[Row, ...] = (
    ("W_E", "embed_tokens", SAME),
    ("blocks.{}.norm_1", "layers.{}.input_layernorm", SAME),
    ("blocks.{}.attention.W_Q", "layers.{}.self_attn.q_proj", HEADS),
    ("blocks.{}.attention.W_K", "layers.{}.self_attn.k_proj", HEADS),
    ("blocks.{}.attention.W_V", "layers.{}.self_attn.v_proj", HEADS),
    ("blocks.{}.attention.W_O", "layers.{}.self_attn.o_proj", OUTPUT),
    ("blocks.{}.norm_2", "layers.{}.post_attention_layernorm", SAME),
    ("blocks.{}.feed_forward.W_gate", "layers.{}.mlp.gate_proj", LINEAR),
    ("blocks.{}.feed_forward.W_1", "layers.{}.mlp.up_proj", LINEAR),
    ("blocks.{}.feed_forward.W_2", "layers.{}.mlp.down_proj", LINEAR),
    ("final_norm", "norm", SAME),
    ("_W_U", "lm_head", LINEAR),
)

LLAMA = Family(
    weights=_LLAMA_WEIGHTS,
    prefixes=("model.",),
    rotary_pairs="halves",
    settings=llama_settings,
    built={**CAUSAL, "mlp_bias": (False,)},
)

MISTRAL = Family(
    weights=_LLAMA_WEIGHTS,
    prefixes=("model.",),
    rotary_pairs="halves",
    settings=mistral_settings,
    built=CAUSAL,
)

QWEN2 = Family(
    weights=_LLAMA_WEIGHTS,
    prefixes=("model.",),
    rotary_pairs="halves",
    settings=qwen2_settings,
    built=CAUSAL,
)

QWEN3 = Family(
    weights=(
        *_LLAMA_WEIGHTS,
        ("blocks.{}.attention.q_norm", "layers.{}.self_attn.q_norm", SAME),
        ("blocks.{}.attention.k_norm", "layers.{}.self_attn.k_norm", SAME),
    ),
    prefixes=("model.",),
    rotary_pairs="halves",
    settings=qwen3_settings,
    built=CAUSAL,
)

_GEMMA2_WEIGHTS: tuple[Row, ...] = (
    ("W_E", "embed_tokens", SAME),
    ("blocks.{}.norm_1", "layers.{}.input_layernorm", ONE_MORE),
    ("blocks.{}.attention.W_Q", "layers.{}.self_attn.q_proj", HEADS),
    ("blocks.{}.attention.W_K", "layers.{}.self_attn.k_proj", HEADS),
    ("blocks.{}.attention.W_V", "layers.{}.self_attn.v_proj", HEADS),
    ("blocks.{}.attention.W_O", "layers.{}.self_attn.o_proj", OUTPUT),
    ("blocks.{}.norm_1_after", "layers.{}.post_attention_layernorm", ONE_MORE),
    ("blocks.{}.norm_2", "layers.{}.pre_feedforward_layernorm", ONE_MORE),
    ("blocks.{}.feed_forward.W_gate", "layers.{}.mlp.gate_proj", LINEAR),
    ("blocks.{}.feed_forward.W_1", "layers.{}.mlp.up_proj", LINEAR),
    ("blocks.{}.feed_forward.W_2", "layers.{}.mlp.down_proj", LINEAR),
    ("blocks.{}.norm_2_after", "layers.{}.post_feedforward_layernorm", ONE_MORE),
    ("final_norm", "norm", ONE_MORE),
    ("_W_U", "lm_head", LINEAR),
)

GEMMA2 = Family(
    weights=_GEMMA2_WEIGHTS,
    prefixes=("model.",),
    rotary_pairs="halves",
    settings=gemma2_settings,
    built={**CAUSAL, "use_bidirectional_attention": (False, None)},
)

GEMMA3 = Family(
    weights=(
        *_GEMMA2_WEIGHTS,
        ("blocks.{}.attention.q_norm", "layers.{}.self_attn.q_norm", ONE_MORE),
        ("blocks.{}.attention.k_norm", "layers.{}.self_attn.k_norm", ONE_MORE),
    ),
    prefixes=("model.language_model.", "model."),
    rotary_pairs="halves",
    settings=gemma3_settings,
    built={**CAUSAL, "use_bidirectional_attention": (False, None)},
)

GPT_NEOX = Family(
    weights=(
        ("W_E", "embed_in", SAME),
        ("blocks.{}.norm_1", "layers.{}.input_layernorm", SAME),
        ("blocks.{}.attention.W_Q", "layers.{}.attention.query_key_value", NEOX_Q),
        ("blocks.{}.attention.W_K", "layers.{}.attention.query_key_value", NEOX_K),
        ("blocks.{}.attention.W_V", "layers.{}.attention.query_key_value", NEOX_V),
        ("blocks.{}.attention.W_O", "layers.{}.attention.dense", OUTPUT),
        ("blocks.{}.norm_2", "layers.{}.post_attention_layernorm", SAME),
        ("blocks.{}.feed_forward.W_1", "layers.{}.mlp.dense_h_to_4h", LINEAR),
        ("blocks.{}.feed_forward.W_2", "layers.{}.mlp.dense_4h_to_h", LINEAR),
        ("final_norm", "final_layer_norm", SAME),
        ("_W_U", "lm_head", LINEAR),
    ),
    prefixes=("gpt_neox.",),
    besides=r"\.attention\.(masked_)?bias$|rotary_emb\.inv_freq$",
    rotary_pairs="halves",
    settings=neox_settings,
    built=CAUSAL,
)

PHI = Family(
    weights=(
        ("W_E", "embed_tokens", SAME),
        ("blocks.{}.norm_1", "layers.{}.input_layernorm", SAME),
        ("blocks.{}.attention.W_Q", "layers.{}.self_attn.q_proj", HEADS),
        ("blocks.{}.attention.W_K", "layers.{}.self_attn.k_proj", HEADS),
        ("blocks.{}.attention.W_V", "layers.{}.self_attn.v_proj", HEADS),
        ("blocks.{}.attention.W_O", "layers.{}.self_attn.dense", OUTPUT),
        ("blocks.{}.feed_forward.W_1", "layers.{}.mlp.fc1", LINEAR),
        ("blocks.{}.feed_forward.W_2", "layers.{}.mlp.fc2", LINEAR),
        ("final_norm", "final_layernorm", SAME),
        ("_W_U", "lm_head", LINEAR),
    ),
    prefixes=("model.",),
    rotary_pairs="halves",
    settings=phi_settings,
    built={**CAUSAL, "qk_layernorm": (False,)},
)

OPT = Family(
    weights=(
        ("W_E", "embed_tokens", SAME),
        ("W_P", "embed_positions", AFTER_TWO),
        ("blocks.{}.norm_1", "layers.{}.self_attn_layer_norm", SAME),
        ("blocks.{}.attention.W_Q", "layers.{}.self_attn.q_proj", HEADS),
        ("blocks.{}.attention.W_K", "layers.{}.self_attn.k_proj", HEADS),
        ("blocks.{}.attention.W_V", "layers.{}.self_attn.v_proj", HEADS),
        ("blocks.{}.attention.W_O", "layers.{}.self_attn.out_proj", OUTPUT),
        ("blocks.{}.norm_2", "layers.{}.final_layer_norm", SAME),
        ("blocks.{}.feed_forward.W_1", "layers.{}.fc1", LINEAR),
        ("blocks.{}.feed_forward.W_2", "layers.{}.fc2", LINEAR),
        ("final_norm", "final_layer_norm", SAME),
        ("_W_U", "lm_head", LINEAR),
    ),
    prefixes=("model.decoder.", "decoder."),
    settings=opt_settings,
    built={
        **CAUSAL,
        "layer_norm_elementwise_affine": (True,),
        "_remove_final_layer_norm": (False,),
    },
)

# --- the same, as llama.cpp names them in a GGUF file --------------------------------------------

LLAMA_GGUF = Family(
    weights=(
        ("W_E", "token_embd", SAME),
        ("blocks.{}.norm_1", "blk.{}.attn_norm", SAME),
        ("blocks.{}.attention.W_Q", "blk.{}.attn_q", HEADS),
        ("blocks.{}.attention.W_K", "blk.{}.attn_k", HEADS),
        ("blocks.{}.attention.W_V", "blk.{}.attn_v", HEADS),
        ("blocks.{}.attention.W_O", "blk.{}.attn_output", OUTPUT),
        ("blocks.{}.norm_2", "blk.{}.ffn_norm", SAME),
        ("blocks.{}.feed_forward.W_gate", "blk.{}.ffn_gate", LINEAR),
        ("blocks.{}.feed_forward.W_1", "blk.{}.ffn_up", LINEAR),
        ("blocks.{}.feed_forward.W_2", "blk.{}.ffn_down", LINEAR),
        ("final_norm", "output_norm", SAME),
        ("_W_U", "output", LINEAR),
    ),
    rotary_pairs="adjacent",
)

GEMMA3_GGUF = Family(
    weights=(  # the 1 of each norm has been added by whoever made the file
        ("W_E", "token_embd", SAME),
        ("blocks.{}.norm_1", "blk.{}.attn_norm", SAME),
        ("blocks.{}.attention.W_Q", "blk.{}.attn_q", HEADS),
        ("blocks.{}.attention.W_K", "blk.{}.attn_k", HEADS),
        ("blocks.{}.attention.W_V", "blk.{}.attn_v", HEADS),
        ("blocks.{}.attention.W_O", "blk.{}.attn_output", OUTPUT),
        ("blocks.{}.attention.q_norm", "blk.{}.attn_q_norm", SAME),
        ("blocks.{}.attention.k_norm", "blk.{}.attn_k_norm", SAME),
        ("blocks.{}.norm_1_after", "blk.{}.post_attention_norm", SAME),
        ("blocks.{}.norm_2", "blk.{}.ffn_norm", SAME),
        ("blocks.{}.feed_forward.W_gate", "blk.{}.ffn_gate", LINEAR),
        ("blocks.{}.feed_forward.W_1", "blk.{}.ffn_up", LINEAR),
        ("blocks.{}.feed_forward.W_2", "blk.{}.ffn_down", LINEAR),
        ("blocks.{}.norm_2_after", "blk.{}.post_ffw_norm", SAME),
        ("final_norm", "output_norm", SAME),
        ("_W_U", "output", LINEAR),
    ),
    rotary_pairs="halves",
)

FAMILIES: dict[str, Family] = {  # by the model_type of transformers
    "bert": BERT,
    "roberta": ROBERTA,
    "distilbert": DISTILBERT,
    "gpt2": GPT2,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gpt_neox": GPT_NEOX,
    "phi": PHI,
    "opt": OPT,
}
FILES: dict[str, Family] = {"llama-gguf": LLAMA_GGUF, "gemma3-gguf": GEMMA3_GGUF}
