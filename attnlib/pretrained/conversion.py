"""Published weights under our names.

A layout says how a model's numbers are named, cut and turned in a file. Ours keeps heads apart
and writes every matrix for row vectors. BERT's has matrices for column vectors, all heads in one.
GPT-2's has matrices for row vectors ("Conv1D"), and all heads' queries, keys and values in one.
"""

from collections.abc import Iterator, Mapping

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


def _renamed(config: TransformerConfig) -> Iterator[tuple[str, str]]:
    """Names, ours and GPT-2's, of the weights that have the same shape in both layouts."""
    yield from (("W_E", "wte.weight"), ("W_P", "wpe.weight"))
    for layer in range(config.layers):
        yield from ((f"blocks.{layer}.{mine}", f"h.{layer}.{name}") for mine, name in _SAME.items())
    yield from (("final_norm.weight", "ln_f.weight"), ("final_norm.bias", "ln_f.bias"))


def _shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The weights of the published file."""
    with torch.device("meta"):  # shapes without numbers
        ours = Transformer(config).state_dict()
    shapes, d = {name: tuple(ours[mine].shape) for mine, name in _renamed(config)}, config.d_model
    for layer in range(config.layers):
        attention = {"c_attn.weight": (d, 3 * d), "c_attn.bias": (3 * d,), "c_proj.weight": (d, d)}
        shapes |= {f"h.{layer}.attn.{name}": shape for name, shape in attention.items()}
    return shapes


def _bare(theirs: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """The weights under the names of the published file, every one of them checked."""
    shapes = _shapes(config)
    named = ((name.removeprefix("transformer."), weight) for name, weight in theirs.items())
    weights = {name: weight for name, weight in named if not name.endswith(_BUFFERS)}
    head = weights.pop("lm_head.weight", None)
    missing = [name for name in shapes if name not in weights]
    unknown = [name for name in weights if name not in shapes]
    if missing or unknown:
        found = "; ".join(
            f"{len(names)} {what}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
            for what, names in (("missing", missing), ("unknown", unknown))
            if names
        )
        raise ValueError(
            f"expected the {len(shapes)} weights of a GPT-2 of {config.layers} layers, but of "
            f"these {found}. Is it another size, or another model?"
        )
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise ValueError(
                f"{name} must be {shape} for this configuration, got "
                f"{tuple(weights[name].shape)}: is it another size, or another model?"
            )
    if head is not None and not torch.equal(head, weights["wte.weight"]):
        raise ValueError("lm_head.weight differs from wte.weight, but GPT-2's are tied")
    return weights
