"""Published weights under our names: renamed, and turned where they lie otherwise than ours.

Which weight is which, a family's record says (`families`); how each is turned, `turns`.
"""

import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.families import FAMILIES, FILES, Family
from attnlib.pretrained.turns import Shape, Turn


def convert(
    theirs: Mapping[str, Tensor], config: TransformerConfig, family: str
) -> dict[str, Tensor]:
    """The weights of a published model under our names.

    Args:
        theirs: as in the published file ("h.0.attn.c_attn.weight"), or as `transformers` names
            them ("transformer.h.0.attn.c_attn.weight", and "lm_head.weight").
        config: of the model that they are for.
        family: of `families.FAMILIES`, such as "gpt2"; or "llama-gguf" and "gemma3-gguf" for what
            llama.cpp keeps in a file.

    Returns:
        what `Transformer(config).load_state_dict` takes. BERT's segment embedding is the same for
        every token of a single text, so it goes into W_P, and Gemma's norms get the 1 that they
        add. All others are views of the caller's own tensors; each is asked for when its turn
        comes, so that a file need not be in memory as a whole.

    Raises:
        ValueError: if a weight is missing, unknown or of another shape (names it), or if the
            configuration turns other pairs of dimensions than the family.
    """
    record = (FAMILIES | FILES)[family]
    if record.rotary_pairs not in (None, config.rotary_pairs):
        raise ValueError(
            f"a {family} turns rotary_pairs={record.rotary_pairs!r}, and the configuration says "
            f"{config.rotary_pairs!r}"
        )
    with torch.device("meta"):  # shapes without numbers
        shapes = {name: tuple(w.shape) for name, w in Transformer(config).state_dict().items()}
    full_names = {_bare(name, record): name for name in theirs}  # by the name without its prefix
    segments = full_names.pop(record.segments, None)
    head = None if "_W_U" in shapes else full_names.pop(f"{record.head}.weight", None)
    rows = list(_rows(record, config.layers, shapes))
    expected = [their_name for _, their_name, _ in rows]
    _check_names(full_names, expected, record, f"{family} of {config.layers} layers")
    ours = {}
    for our_name, their_name, turn in rows:
        full_name = full_names[their_name]
        ours[our_name] = _turned(full_name, theirs[full_name], turn, our_name, shapes[our_name])
    if segments is not None:
        ours["W_P"] = ours["W_P"] + theirs[segments][0]
    if head is not None and config.tied and not torch.equal(theirs[head], ours["W_E"]):
        raise ValueError(f"{head} differs from the embedding, but this model's are tied")
    return ours


def _bare(name: str, record: Family) -> str:
    """A name without what stands before it in a model with a head."""
    for prefix in record.prefixes:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _rows(
    record: Family, layers: int, shapes: Mapping[str, Shape]
) -> Iterator[tuple[str, str, Turn]]:
    """Our name, theirs and the turn of every weight that our model has."""
    for ours, theirs, layout in record.weights:
        matrix, bias = ours, re.sub("_?W_", "b_", ours)
        if "W_" not in ours:  # a norm
            matrix, bias = f"{ours}.weight", f"{ours}.bias"
        for layer in range(layers if "{}" in ours else 1):
            if matrix.format(layer) in shapes:
                yield matrix.format(layer), f"{theirs.format(layer)}.weight", layout.matrix
            if bias.format(layer) in shapes:
                yield bias.format(layer), f"{theirs.format(layer)}.bias", layout.bias


def _turned(name: str, weight: Tensor, turn: Turn, ours: str, shape: Shape) -> Tensor:
    """A weight of theirs as ours, which has this shape."""
    wrong = (
        f"{name} of shape {tuple(weight.shape)} does not give {ours} the shape {shape}: is it "
        "another size, or another model?"
    )
    try:
        turned = turn(weight, shape)
    except (RuntimeError, IndexError) as error:
        raise ValueError(wrong) from error
    if turned.shape != shape:
        raise ValueError(wrong)
    return turned


def _check_names(names: Mapping[str, str], expected: list[str], record: Family, model: str) -> None:
    """Stop if a weight is missing, or there are others that a file of this family does not hold."""
    missing = [name for name in dict.fromkeys(expected) if name not in names]
    unknown = [
        name for name in names if name not in expected and not re.search(record.besides, name)
    ]
    if missing or unknown:
        listed = "; ".join(
            f"{len(wrong)} {what}: {', '.join(wrong[:4])}{', …' if len(wrong) > 4 else ''}"
            for what, wrong in (("missing", missing), ("unknown", unknown))
            if wrong
        )
        raise ValueError(
            f"expected the {len(dict.fromkeys(expected))} weights of a {model}, but of these "
            f"{listed}. Is it another size, or another model?"
        )
