"""Published weights under our names.

A layout says how a model's numbers are named, cut and turned in a file. Ours keeps heads apart
and writes every matrix for row vectors. BERT's has matrices for column vectors, all heads in one.
GPT-2's has matrices for row vectors ("Conv1D"), and all heads' queries, keys and values in one.
The Llama family's are like BERT's, and differ in the pairs of dimensions that are turned together.
"""

from collections.abc import Collection, Iterator, Mapping

import torch
from torch import Tensor

from attnlib.models.config import TransformerConfig
from attnlib.models.transformer import Transformer

# Parts of a GPT-2 layer that only change their names: ours, theirs.
_SAME = {
    "norm_1.weight": "ln_1.weight",
    "norm_1.bias": "ln_1.bias",
    "attention.b_O": "attn.c_proj.bias",
    "norm_2.weight": "ln_2.weight",
    "norm_2.bias": "ln_2.bias",
    "feed_forward.W_1": "mlp.c_fc.weight",
    "feed_forward.b_1": "mlp.c_fc.bias",
    "feed_forward.W_2": "mlp.c_proj.weight",
    "feed_forward.b_2": "mlp.c_proj.bias",
}
_BUFFERS = (".attn.bias", ".attn.masked_bias")  # the causal mask, which old files hold
# The parts of a Llama: ours, a GGUF file's, those of `transformers`.
_LLAMA = {
    "W_E": ("token_embd", "embed_tokens"),
    "norm_1.weight": ("attn_norm", "input_layernorm"),
    "attention.W_Q": ("attn_q", "self_attn.q_proj"),
    "attention.W_K": ("attn_k", "self_attn.k_proj"),
    "attention.W_V": ("attn_v", "self_attn.v_proj"),
    "attention.W_O": ("attn_output", "self_attn.o_proj"),
    "norm_2.weight": ("ffn_norm", "post_attention_layernorm"),
    "feed_forward.W_gate": ("ffn_gate", "mlp.gate_proj"),
    "feed_forward.W_1": ("ffn_up", "mlp.up_proj"),
    "feed_forward.W_2": ("ffn_down", "mlp.down_proj"),
    "final_norm.weight": ("output_norm", "norm"),
    "_W_U": ("output", "lm_head"),
}


def from_gpt2(theirs: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """GPT-2's weights under our names.

    Args:
        theirs: as in the published file ("h.0.attn.c_attn.weight"), or as `transformers` names
            them ("transformer.h.0.attn.c_attn.weight", and the tied "lm_head.weight").
        config: of the model that they are for, which differs from GPT-2's in its sizes only.

    Returns:
        what `Transformer(config).load_state_dict` takes. Tensors that need not be cut are the
        caller's own, not copies.

    Raises:
        ValueError: if a weight is missing, unknown or of another shape; names it.
    """
    weights, heads = _bare(theirs, config), config.heads
    ours = {mine: weights[name] for mine, name in _renamed(config)}
    for layer in range(config.layers):
        there, here = f"h.{layer}.attn.", f"blocks.{layer}.attention."
        # columns: queries, keys, values; in each of them head 0, head 1, …
        matrices = weights[f"{there}c_attn.weight"].chunk(3, dim=1)
        biases = weights[f"{there}c_attn.bias"].chunk(3)
        for letter, W, b in zip("QKV", matrices, biases, strict=True):
            ours[f"{here}W_{letter}"] = W.unflatten(1, (heads, -1)).transpose(0, 1).contiguous()
            ours[f"{here}b_{letter}"] = b.unflatten(0, (heads, -1)).clone()
        ours[f"{here}W_O"] = weights[f"{there}c_proj.weight"].unflatten(0, (heads, -1))
    return ours


def from_bert(theirs: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """BERT's weights under our names: heads apart, matrices for row vectors.

    The published layout keeps all heads in one (H · d_k, d_model) matrix that multiplies columns.
    Its segment embedding is the same for every token of a single text, so it goes into W_P.
    """
    heads, d_model = config.heads, config.d_model

    def per_head(name: str) -> Tensor:  # (H · d_k, d_model) → (H, d_model, d_k)
        return theirs[name].view(heads, -1, d_model).mT.contiguous()

    embedding = "embeddings."
    ours = {
        "W_E": theirs[f"{embedding}word_embeddings.weight"],
        "W_P": theirs[f"{embedding}position_embeddings.weight"]
        + theirs[f"{embedding}token_type_embeddings.weight"][0],
        "embed_norm.weight": theirs[f"{embedding}LayerNorm.weight"],
        "embed_norm.bias": theirs[f"{embedding}LayerNorm.bias"],
    }
    for layer in range(config.layers):
        there, here = f"encoder.layer.{layer}.", f"blocks.{layer}."
        for letter, word in (("Q", "query"), ("K", "key"), ("V", "value")):
            name = f"{there}attention.self.{word}"
            ours[f"{here}attention.W_{letter}"] = per_head(f"{name}.weight")
            ours[f"{here}attention.b_{letter}"] = theirs[f"{name}.bias"].view(heads, -1)
        output = theirs[f"{there}attention.output.dense.weight"]  # (d_model, H · d_v)
        ours[f"{here}attention.W_O"] = output.T.reshape(heads, -1, d_model).contiguous()
        ours[f"{here}attention.b_O"] = theirs[f"{there}attention.output.dense.bias"]
        for number, name in ((1, "intermediate"), (2, "output")):
            ours[f"{here}feed_forward.W_{number}"] = theirs[f"{there}{name}.dense.weight"].T
            ours[f"{here}feed_forward.b_{number}"] = theirs[f"{there}{name}.dense.bias"]
        for number, name in ((1, "attention.output"), (2, "output")):
            for part in ("weight", "bias"):
                ours[f"{here}norm_{number}.{part}"] = theirs[f"{there}{name}.LayerNorm.{part}"]
    return ours


def from_llama(theirs: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """A Llama's weights under our names.

    Args:
        theirs: as a GGUF file names them ("blk.0.attn_q.weight"), or as `transformers` does
            ("model.layers.0.self_attn.q_proj.weight"). A GGUF file has queries and keys for pairs
            of adjacent dimensions, `transformers` for halves; `config.rotary_pairs` says which
            come out. Each is asked for once.
        config: of the model that they are for: RMSNorm, rotary positions, a gate, no biases.

    Returns:
        what `Transformer(config).load_state_dict` takes, as views where nothing changes places.

    Raises:
        ValueError: if a weight is missing, unknown or of another shape, or if such a model has
            others than a Llama; names it.
    """
    shapes = _our_shapes(config)
    packed = "token_embd.weight" in theirs
    names = {mine: _llama_name(mine, packed) for mine in shapes}
    found = {name.removeprefix("model."): name for name in theirs}
    tied = found.pop("lm_head.weight", None) if "_W_U" not in shapes else None
    _check_names(found, names.values(), f"a Llama of {config.layers} layers")
    there = "adjacent" if packed else "halves"
    ours = {}
    for mine, shape in shapes.items():
        weight = theirs[found[names[mine]]]
        _check_shape(names[mine], weight, _column_shape(mine, shape))
        ours[mine] = _for_rows(mine, weight, shape)
        if mine.endswith(("W_Q", "W_K")) and there != config.rotary_pairs:
            ours[mine] = _other_pairs(ours[mine], there)
    if tied is not None and not torch.equal(theirs[tied], ours["W_E"]):
        raise ValueError("lm_head.weight differs from embed_tokens.weight: set tied=False")
    return ours


def _llama_name(mine: str, packed: bool) -> str:
    """A weight's name in a GGUF file, or in `transformers` without its prefix."""
    block, _, part = mine.removeprefix("blocks.").partition(".")
    layer, part = ("", mine) if mine in _LLAMA else (block, part)
    if part not in _LLAMA:
        raise ValueError(f"a Llama has no {mine}: is this configuration another model's?")
    name = _LLAMA[part][0 if packed else 1]
    stem = f"{'blk' if packed else 'layers'}.{layer}." if layer else ""
    return f"{stem}{name}.weight"


def _column_shape(mine: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one of our weights in a layout for columns, where all heads are one matrix."""
    if len(shape) == 1 or mine == "W_E":
        return shape
    if len(shape) == 2:
        return shape[::-1]
    heads, rows, columns = shape
    return (columns, heads * rows) if mine.endswith("W_O") else (heads * columns, rows)


def _for_rows(mine: str, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    """One of our weights, as a view of what that layout has."""
    if len(shape) == 1 or mine == "W_E":
        return weight
    if len(shape) == 2:
        return weight.T
    heads = weight.T if mine.endswith("W_O") else weight
    apart: Tensor = heads.unflatten(0, (shape[0], -1))  # (H, d_v, d_model), or (H, d_k, d_model)
    return apart if mine.endswith("W_O") else apart.mT


def _other_pairs(W: Tensor, there: str) -> Tensor:
    """W_Q or W_K (H, d_model, d_k) with the pairs of dimensions that the other layout turns."""
    pairs: Tensor = W.unflatten(-1, (2, -1) if there == "halves" else (-1, 2))
    return pairs.transpose(-1, -2).flatten(-2)


def _renamed(config: TransformerConfig) -> Iterator[tuple[str, str]]:
    """Names, ours and GPT-2's, of the weights that have the same shape in both layouts."""
    yield from (("W_E", "wte.weight"), ("W_P", "wpe.weight"))
    for layer in range(config.layers):
        yield from ((f"blocks.{layer}.{mine}", f"h.{layer}.{name}") for mine, name in _SAME.items())
    yield from (("final_norm.weight", "ln_f.weight"), ("final_norm.bias", "ln_f.bias"))


def _our_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Every weight of our model."""
    with torch.device("meta"):  # shapes without numbers
        ours = Transformer(config).state_dict()
    return {name: tuple(weight.shape) for name, weight in ours.items()}


def _gpt2_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The weights of the published file."""
    ours, d = _our_shapes(config), config.d_model
    shapes = {name: ours[mine] for mine, name in _renamed(config)}
    for layer in range(config.layers):
        attention = {"c_attn.weight": (d, 3 * d), "c_attn.bias": (3 * d,), "c_proj.weight": (d, d)}
        shapes |= {f"h.{layer}.attn.{name}": shape for name, shape in attention.items()}
    return shapes


def _bare(theirs: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """The weights under the names of the published file, every one of them checked."""
    shapes = _gpt2_shapes(config)
    named = ((name.removeprefix("transformer."), weight) for name, weight in theirs.items())
    weights = {name: weight for name, weight in named if not name.endswith(_BUFFERS)}
    head = weights.pop("lm_head.weight", None)
    _check_names(weights, shapes, f"a GPT-2 of {config.layers} layers")
    for name, shape in shapes.items():
        _check_shape(name, weights[name], shape)
    if head is not None and not torch.equal(head, weights["wte.weight"]):
        raise ValueError("lm_head.weight differs from wte.weight, but GPT-2's are tied")
    return weights


def _check_names(found: Collection[str], expected: Collection[str], kind: str) -> None:
    """Stop if a weight is missing or unknown, and name it."""
    missing = [name for name in expected if name not in found]
    unknown = [name for name in found if name not in expected]
    if missing or unknown:
        wrong = "; ".join(
            f"{len(names)} {what}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
            for what, names in (("missing", missing), ("unknown", unknown))
            if names
        )
        raise ValueError(
            f"expected the {len(expected)} weights of {kind}, but of these {wrong}. "
            "Is it another size, or another model?"
        )


def _check_shape(name: str, weight: Tensor, shape: tuple[int, ...]) -> None:
    """Stop if a weight has another shape, and name it."""
    if weight.shape != shape:
        raise ValueError(
            f"{name} must be {shape} for this configuration, got {tuple(weight.shape)}: "
            "is it another size, or another model?"
        )
