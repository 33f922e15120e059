"""Published weights under our names.

Ours keeps heads apart and writes every matrix for row vectors. BERT's and Llama's matrices are for
column vectors, with all heads in one. GPT-2's are for row vectors ("Conv1D"), and all heads'
queries, keys and values are one matrix.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from attnlib.models.config import TransformerConfig
from attnlib.models.transformer import Transformer

# Ours, theirs (without ".weight" and ".bias"), and how a matrix is turned; {} is a layer.
_GPT2 = """
W_E                           wte                   same
W_P                           wpe                   same
final_norm                    ln_f                  same
blocks.{}.norm_1              h.{}.ln_1             same
blocks.{}.attention.W_Q       h.{}.attn.c_attn      queries
blocks.{}.attention.W_K       h.{}.attn.c_attn      keys
blocks.{}.attention.W_V       h.{}.attn.c_attn      values
blocks.{}.attention.W_O       h.{}.attn.c_proj      rows
blocks.{}.norm_2              h.{}.ln_2             same
blocks.{}.feed_forward.W_1    h.{}.mlp.c_fc         same
blocks.{}.feed_forward.W_2    h.{}.mlp.c_proj       same
"""
_BERT = """
W_E                           embeddings.word_embeddings                  same
W_P                           embeddings.position_embeddings              same
embed_norm                    embeddings.LayerNorm                        same
blocks.{}.attention.W_Q       encoder.layer.{}.attention.self.query       heads
blocks.{}.attention.W_K       encoder.layer.{}.attention.self.key         heads
blocks.{}.attention.W_V       encoder.layer.{}.attention.self.value       heads
blocks.{}.attention.W_O       encoder.layer.{}.attention.output.dense     output
blocks.{}.norm_1              encoder.layer.{}.attention.output.LayerNorm same
blocks.{}.feed_forward.W_1    encoder.layer.{}.intermediate.dense         turned
blocks.{}.feed_forward.W_2    encoder.layer.{}.output.dense               turned
blocks.{}.norm_2              encoder.layer.{}.output.LayerNorm           same
"""
_LLAMA = """
W_E                           embed_tokens                                same
final_norm                    norm                                        same
blocks.{}.norm_1              layers.{}.input_layernorm                   same
blocks.{}.attention.W_Q       layers.{}.self_attn.q_proj                  heads
blocks.{}.attention.W_K       layers.{}.self_attn.k_proj                  heads
blocks.{}.attention.W_V       layers.{}.self_attn.v_proj                  heads
blocks.{}.attention.W_O       layers.{}.self_attn.o_proj                  output
blocks.{}.norm_2              layers.{}.post_attention_layernorm          same
blocks.{}.feed_forward.W_gate layers.{}.mlp.gate_proj                     turned
blocks.{}.feed_forward.W_1    layers.{}.mlp.up_proj                       turned
blocks.{}.feed_forward.W_2    layers.{}.mlp.down_proj                     turned
"""
_IN_GGUF = {  # what llama.cpp calls the parts of a Llama
    "embed_tokens": "token_embd",
    "layers.": "blk.",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "attn_output",
    "self_attn.": "attn_",
    "mlp.": "ffn_",
    "_proj": "",
    " norm ": " output_norm ",
}
_GGUF = _LLAMA
for _theirs, _here in _IN_GGUF.items():
    _GGUF = _GGUF.replace(_theirs, _here)
PAIRS = {"llama": "halves", "gguf": "adjacent"}
LAYOUTS = {"gpt2": _GPT2, "bert": _BERT, "llama": _LLAMA, "gguf": _GGUF}
HEADS = ("lm_head.weight", "output.weight")  # the unembedding, in a file or in the library
_BASE = re.compile(r"^(transformer|bert|model)\.")  # before the names in a model with a head
# What a file may hold besides: masks, positions, and what was trained on top of an encoder.
_BESIDES = re.compile(
    r"\.attn\.(masked_)?bias$|position_ids$|inv_freq$|^(pooler|cls|classifier|qa_outputs)\."
)
SEGMENTS = "embeddings.token_type_embeddings.weight"

Turn = Callable[[Tensor, int], Tensor]  # a weight of theirs and the width of a head, to ours


def _same(w: Tensor, width: int) -> Tensor:
    return w


def _by_head(w: Tensor, width: int) -> Tensor:  # (H · d, …) to (H, d, …)
    heads: Tensor = w.unflatten(0, (-1, width))
    return heads


def _thirds(number: int) -> tuple[Turn, Turn]:
    """The queries, keys or values in GPT-2's matrix of all three, and in its bias."""
    return (
        lambda w, width: _by_head(w.chunk(3, 1)[number].mT, width).mT,
        lambda b, width: _by_head(b.chunk(3)[number], width),
    )


# Of a matrix, and of its bias.
_TURNS: dict[str, tuple[Turn, Turn]] = {
    "same": (_same, _same),
    "turned": (lambda w, width: w.mT, _same),
    "rows": (_by_head, _same),
    "heads": (lambda w, width: _by_head(w, width).mT, _by_head),
    "output": (lambda w, width: _by_head(w.mT, width), _same),
    "queries": _thirds(0),
    "keys": _thirds(1),
    "values": _thirds(2),
}


def convert(
    theirs: Mapping[str, Tensor],
    config: TransformerConfig,
    layout: str,
    into: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """The weights of a published family under our names.

    Args:
        theirs: as in the published file ("h.0.attn.c_attn.weight"), or as `transformers` names
            them ("transformer.h.0.attn.c_attn.weight", and "lm_head.weight").
        config: of the model that they are for.
        layout: "gpt2", "bert", "llama", or "gguf" for a Llama in llama.cpp's file. The last two
            turn other pairs of dimensions; `config.rotary_pairs` says which come out.
        into: tensors under our names to be filled, so that only one weight at a time is held twice.

    Returns:
        what `Transformer(config).load_state_dict` takes. BERT's segment embedding is the same for
        every token of a single text, so it goes into W_P. They are views of the caller's own
        tensors, each of which is asked for when its turn comes.

    Raises:
        ValueError: if a weight is missing, unknown or of another shape; names it.
    """
    found = {_BASE.sub("", name): name for name in theirs}
    segments, *heads = (found.pop(name, None) for name in (SEGMENTS, *HEADS))
    head = heads[0] or heads[1]
    with torch.device("meta"):  # shapes without numbers
        shapes = {name: tuple(w.shape) for name, w in Transformer(config).state_dict().items()}
    rows, ours, there = list(_rows(layout, config, shapes)), {}, config.rotary_pairs
    held = [name for name in found if not _BESIDES.search(name)]
    _check_names(held, list(dict.fromkeys(name for _, name, _ in rows)), config, layout)
    width = config.d_model // config.heads if config.d_k is None else config.d_k
    for mine, name, turn in rows:
        weight = theirs[found[name]]
        ours[mine] = _turned(weight, turn, width)
        if mine.endswith(("W_Q", "W_K")) and PAIRS.get(layout, there) != there:
            ours[mine] = _other_pairs(ours[mine], there)
        if ours[mine].shape != shapes[mine]:
            raise ValueError(
                f"{name} of shape {tuple(weight.shape)} does not give {mine} the shape "
                f"{shapes[mine]}: is it another size, or another model?"
            )
        if into is not None:
            ours[mine] = into[mine].copy_(ours[mine])
    if segments is not None:
        ours["W_P"] = ours["W_P"] + theirs[segments][0]
    if head is not None and not config.tied:
        ours["_W_U"] = theirs[head].mT
    elif head is not None and not torch.equal(theirs[head], ours["W_E"]):
        raise ValueError(f"{head} differs from the embedding, but this model's are tied")
    return ours


def _rows(
    layout: str, config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, str, Turn]]:
    """Our name, theirs and the turn of every weight that our model has."""
    table = [line.split() for line in LAYOUTS[layout].strip().splitlines()]
    for mine, theirs, turn in table:
        of_matrix, of_bias = _TURNS[turn]
        for number in range(config.layers if "{}" in mine else 1):
            ours, name = mine.format(number), theirs.format(number)
            if "W_" in mine:
                pairs = (ours, of_matrix), (ours.replace("W_", "b_"), of_bias)
            else:
                pairs = (f"{ours}.weight", _same), (f"{ours}.bias", _same)
            for (part, change), suffix in zip(pairs, ("weight", "bias"), strict=True):
                if part in shapes:
                    yield part, f"{name}.{suffix}", change


def _turned(w: Tensor, turn: Turn, width: int) -> Tensor:
    """A weight turned, or as it is where it has too few axes, or the wrong length."""
    try:
        return turn(w, width)
    except (RuntimeError, IndexError):
        return w


def _other_pairs(W: Tensor, wanted: str) -> Tensor:
    """W_Q or W_K (H, d_model, d_k), the dimensions that turn together put where they are wanted."""
    pairs: Tensor = W.unflatten(-1, (2, -1) if wanted == "adjacent" else (-1, 2))
    return pairs.mT.flatten(-2)


def _check_names(
    weights: list[str], wanted: list[str], config: TransformerConfig, layout: str
) -> None:
    missing = [name for name in wanted if name not in weights]
    unknown = [name for name in weights if name not in wanted]
    if missing or unknown:
        found = "; ".join(
            f"{len(names)} {what}: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
            for what, names in (("missing", missing), ("unknown", unknown))
            if names
        )
        raise ValueError(
            f"expected the {len(wanted)} weights of a {layout} of {config.layers} layers, but of "
            f"these {found}. Is it another size, or another model?"
        )
