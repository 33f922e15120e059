"""A model of one's own: what `transformers` has loaded, in the course's `Transformer`.

Nothing is fetched, and next to nothing copied: model and tokenizer are already loaded, wherever
they came from, and our model is made of the same numbers in memory, on their device and in their
float. What `transformers` computes is computed again by our readable code, and tests compare the
two, family by family (`families`).
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.families import FAMILIES, Family
from attnlib.pretrained.text import LanguageModel, TextModel
from attnlib.pretrained.tokenizing import HuggingFaceTokenizer
from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.sentencepiece import SentencePiece
from attnlib.tokenizers.wordpiece import WordPiece

# Parts of names of numbers from which a weight is computed at every step, and what makes it one.
COMPUTED = {
    "base_layer": "merge the adapter first, with model = model.merge_and_unload()",
    "lora_": "merge the adapter first, with model = model.merge_and_unload()",
    "parametrizations": "torch.nn.utils.parametrize.remove_parametrizations makes it one again",
    "weight_orig": "torch.nn.utils.prune.remove makes it one again",
}


def from_huggingface(model: Any, tokenizer: Any, name: str | None = None) -> TextModel[Any, Any]:
    """A text model of a model that `transformers` has loaded, of any family of `FAMILIES`.

    The two share their numbers, and what trains one trains the other; only a few vectors (Gemma's
    norms, BERT's positions) are copies, and stay as they were. To part the two, give
    `copy.deepcopy(model)`.

    Args:
        model: of `transformers`, on one device, in any float. A model that also sees is taken for
            the part of it that reads text.
        tokenizer: the one it was trained with, of `transformers` or of `attnlib.tokenizers`.
        name: what to call it; what the model calls itself if None.

    Returns:
        a `LanguageModel` of a causal model with an unembedding, or of one without any head whose
        unembedding is its embedding. All others become a `TextModel`, whose output is the last
        state: of an encoder and of a model with a head for another task the head is left out,
        which a warning says.

    Raises:
        ValueError: if the family is another one, or the model differs from its family's in a way
            that is not built here (says in which), or if there is no tokenizer, or one of more
            tokens than the model knows (special ones apart, which a text need not have).

    A forward hook is no part of a model's numbers, and is not carried over: a warning says so, and
    `edits` of our own model do the same.

    In three lines:

        model = AutoModelForCausalLM.from_pretrained("openai-community/gpt2")
        tokenizer = AutoTokenizer.from_pretrained("openai-community/gpt2")
        explore(from_huggingface(model, tokenizer).trace("The film was"))
    """
    body = _body(model)
    config = configuration(body.config)
    words = _tokenizer(tokenizer, config.vocab_size, model)
    head = model.get_output_embeddings() if config.head else None
    tied_without_head = body is model and config.tied
    if head is None and not tied_without_head:
        config = replace(config, head=False)
    if body is not model and not config.head:
        warnings.warn(
            f"the head of this {type(model).__name__} is left out: what you get is a TextModel, "
            "whose output is the last state of every token",
            stacklevel=2,
        )
    weights = _weights(body, head)
    if any(_own_hooks(module) for module in model.modules()):
        warnings.warn(
            "the forward hooks of this model are not carried over: what it computes with them, "
            "the model that opens here computes without; edits do the same there",
            stacklevel=2,
        )
    with torch.device("meta"):  # shapes without numbers, since the numbers are there already
        ours = Transformer(config)
    ours.load_state_dict(convert(weights, config, body.config.model_type), assign=True)
    name = name or model.config.name_or_path or body.config.model_type
    if config.head:
        return LanguageModel(ours.eval(), words, name)
    return TextModel(ours.eval(), words, name)


def configuration(theirs: Any) -> TransformerConfig:
    """Our configuration of a model of `transformers`, from its own.

    Raises:
        ValueError: as in `from_huggingface`.
    """
    name = getattr(theirs, "model_type", type(theirs).__name__)
    encoder_decoder = getattr(theirs, "is_encoder_decoder", False)
    call = "explore(outputs, tokens" + (", sources=…)" if encoder_decoder else ")")
    all_the_same = (
        "The maps of any model that attends can be shown all the same: call it with "
        f"output_attentions=True, and {call}"
    )
    family = FAMILIES.get(name)
    if family is None or family.settings is None:
        raise ValueError(
            f"models of the family {name!r} are not built here; there are {', '.join(FAMILIES)}. "
            f"{all_the_same}"
        )
    try:
        _check_built(theirs, family)
        return TransformerConfig(**family.settings(theirs))
    except ValueError as error:
        raise ValueError(f"{name}: {error}. {all_the_same}") from error


def _check_built(theirs: Any, family: Family) -> None:
    """Stop if a setting has a value with which its family is not built here."""
    for setting, built in family.built.items():
        value = getattr(theirs, setting, built[0])
        if value not in built:
            raise ValueError(f"{setting}={value!r} is not built here, only {built[0]!r}")


def _body(model: Any) -> Any:
    """The part of a model that reads text, without a head.

    Raises:
        ValueError: if it is no model of `transformers`.
    """
    if not hasattr(model, "base_model") or not hasattr(model, "config"):
        what_to_do = "AutoModelForCausalLM.from_pretrained(…) loads one"
        if isinstance(model, torch.nn.DataParallel):
            what_to_do = "pass model.module, which it wraps"
        elif hasattr(model, "model") and hasattr(model, "tokenizer"):
            what_to_do = "pass pipeline.model and pipeline.tokenizer"
        raise ValueError(
            f"expected a model of transformers, got {type(model).__name__}: {what_to_do}"
        )
    return getattr(model.base_model, "language_model", model.base_model)


def _own_hooks(module: Any) -> bool:
    """Whether a module has a forward hook that `transformers` has not put there itself."""
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return any(not str(hook.__module__).startswith("transformers.") for hook in hooks)


def _tokenizer(tokenizer: Any, vocab_size: int, model: Any) -> Any:
    """The tokenizer, with the methods that all tokenizers here have.

    Raises:
        ValueError: if there is none, or it has more ids than the model knows.
    """
    if isinstance(tokenizer, BPE | SentencePiece | WordPiece):
        return tokenizer
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        what_to_do = "AutoTokenizer.from_pretrained(…) with the model's own name loads it"
        if type(tokenizer).__module__.startswith("tokenizers"):
            what_to_do = "PreTrainedTokenizerFast(tokenizer_object=…) makes one of it"
        got = "None" if tokenizer is None else type(tokenizer).__name__
        raise ValueError(f"a text model needs its tokenizer, got {got}: {what_to_do}")
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    words = HuggingFaceTokenizer(
        tokenizer,
        ends=() if ends is None else ends if isinstance(ends, Sequence) else (ends,),
        known=vocab_size,
        uncounted=FAMILIES[_body(model).config.model_type].uncounted,
    )
    if words.ordinary_size > vocab_size:
        raise ValueError(
            f"the model knows {vocab_size} tokens and its tokenizer {words.vocab_size}: they do "
            "not belong together, or the model was not resized when tokens were added"
        )
    return words


def _weights(body: Any, head: Any) -> dict[str, Tensor]:
    """The numbers of a model by their names, without a copy.

    Raises:
        ValueError: if others stand beside them, from which they are computed; if they lie on
            several devices, or are packed; or if the head is no linear map.
    """
    weights = dict(body.state_dict())
    for name in weights:
        for part, what_to_do in COMPUTED.items():
            if part in name:
                raise ValueError(
                    f"{name} is not a weight itself, but one is computed from it: {what_to_do}"
                )
    if head is not None:
        if not isinstance(head, torch.nn.Linear):
            kind = f"{type(head).__module__}.{type(head).__name__}"
            raise ValueError(
                f"the head of this model is a {kind}, and only a torch.nn.Linear is built here"
            )
        weights["lm_head.weight"] = head.weight.detach()
        if getattr(head, "bias", None) is not None:
            weights["lm_head.bias"] = head.bias.detach()
    devices = {str(weight.device) for weight in weights.values()}
    if len(devices) > 1 or "meta" in devices:
        raise ValueError(
            f"the numbers of this model lie on {', '.join(sorted(devices))}: load it on one "
            'device, without device_map="auto"'
        )
    for name, weight in weights.items():
        if name.endswith("weight") and not weight.is_floating_point():
            raise ValueError(
                f"{name} holds {weight.dtype}, packed numbers: load the model without a "
                "quantization_config"
            )
    return weights
