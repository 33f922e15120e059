"""A model of one's own: any GPT-2, BERT or Llama of `transformers`, in the course's `Transformer`.

Nothing is fetched: model and tokenizer are already loaded, wherever they came from, and their
numbers are copied. What `transformers` computes is computed again by our readable code, and tests
compare the two.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from attnlib.models.config import TransformerConfig
from attnlib.models.transformer import Transformer
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.text import LanguageModel, TextModel
from attnlib.tokenizers.bpe import BPE, END
from attnlib.tokenizers.wordpiece import WordPiece

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}  # theirs: ours


class HuggingFaceTokenizer:
    """A tokenizer of `transformers` with the methods that all tokenizers here have.

    Args:
        tokenizer: a loaded one, such as AutoTokenizer gives.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.vocab_size = len(tokenizer)
        self.special_tokens: Mapping[str, int | None] = {END: tokenizer.eos_token_id}

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special tokens that its model expects around it."""
        return list(self.tokenizer.encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return str(self.tokenizer.decode([int(i) for i in ids]))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """A readable piece for each id."""
        return [self.decode([i]).replace("\n", "\\n") for i in ids]

    def word_ids(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The word that each token belongs to; special tokens are words of their own.

        A word begins where a piece says so: by its space, or without the "##" of WordPiece.
        """
        words: list[int] = []
        alone, before = set(self.tokenizer.all_special_ids), True
        for i, piece in zip(ids, self.tokenizer.convert_ids_to_tokens(list(ids)), strict=True):
            goes_on = piece.startswith("##") if self._is_wordpiece else piece[:1].isalpha()
            goes_on = goes_on and not before and i not in alone and piece[:1] not in "ĠĊ▁"
            words.append((words[-1] if words else -1) + (not goes_on))
            before = i in alone
        return tuple(words)

    @property
    def _is_wordpiece(self) -> bool:
        return "##s" in self.tokenizer.get_vocab()


def from_huggingface(model: Any, tokenizer: Any, name: str | None = None) -> TextModel[Any, Any]:
    """A text model of a GPT-2, BERT or Llama model that `transformers` has loaded.

    Args:
        model: of `transformers`, with or without a head. Of a BERT the encoder is taken; a GPT-2 or
            Llama becomes a `LanguageModel`.
        tokenizer: the one it was trained with, of `transformers` or of `attnlib.tokenizers`.
        name: what to call it; what the model calls itself if None.

    Raises:
        ValueError: if the architecture is another one, or differs from its family's in a way that
            is not built here; says in which.

    In three lines:

        model = AutoModelForCausalLM.from_pretrained("openai-community/gpt2")
        tokenizer = AutoTokenizer.from_pretrained("openai-community/gpt2")
        explore(from_huggingface(model, tokenizer).trace("The film was"))
    """
    theirs, config = model.config, configuration(model.config)
    family = theirs.model_type
    weights = {key: value.detach().float() for key, value in model.state_dict().items()}
    ours = Transformer(config)
    ours.load_state_dict(convert(weights, config, family))
    kind: Any = LanguageModel if config.head else TextModel
    own = isinstance(tokenizer, BPE | WordPiece)
    words = tokenizer if own else HuggingFaceTokenizer(tokenizer)
    named: TextModel[Any, Any] = kind(ours.eval(), words, name or theirs._name_or_path or family)
    return named


def configuration(theirs: Any) -> TransformerConfig:
    """Our configuration of a model of `transformers`, from its own.

    Raises:
        ValueError: as in `from_huggingface`.
    """
    family = getattr(theirs, "model_type", type(theirs).__name__)
    if family not in FAMILIES:
        raise ValueError(
            f"models of the family {family!r} are not built here; there are {', '.join(FAMILIES)}. "
            "What any model returns can be shown all the same: Trace.of(outputs, tokens)"
        )
    read, built = FAMILIES[family]
    for what, usual in built.items():
        if getattr(theirs, what, usual) != usual:
            raise ValueError(f"a {family} with {what}={getattr(theirs, what)!r} is not built here")
    config = TransformerConfig(
        theirs.vocab_size,
        theirs.hidden_size,
        theirs.num_hidden_layers,
        theirs.num_attention_heads,
        max_len=theirs.max_position_embeddings,
    )
    return replace(config, **read(theirs))


def _gpt2(theirs: Any) -> dict[str, Any]:
    act, eps = theirs.activation_function, theirs.layer_norm_epsilon
    sizes = {"d_ff": theirs.n_inner or 4 * theirs.n_embd, "bias": True, "tied": True}
    return sizes | {"activation": ACTIVATIONS.get(act, act), "norm_eps": eps}


def _bert(theirs: Any) -> dict[str, Any]:
    act, eps = theirs.hidden_act, theirs.layer_norm_eps
    kind = {"norm": "post", "embed_norm": True, "causal": False, "bias": True, "head": False}
    kind |= {"d_ff": theirs.intermediate_size, "activation": ACTIVATIONS.get(act, act)}
    return kind | {"norm_eps": eps}


def _llama(theirs: Any) -> dict[str, Any]:
    rope = getattr(theirs, "rope_parameters", None) or {"rope_theta": theirs.rope_theta}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"a llama with rope_type={rope['rope_type']!r} is not built here")
    kind = {"norm_kind": "rms", "gated": True, "activation": theirs.hidden_act}
    kind |= {"positions": "rotary", "rotary_base": rope["rope_theta"], "rotary_pairs": "halves"}
    kind |= {"d_k": theirs.head_dim, "d_v": theirs.head_dim, "kv_heads": theirs.num_key_value_heads}
    kind |= {"d_ff": theirs.intermediate_size, "norm_eps": theirs.rms_norm_eps}
    return kind | {"tied": theirs.tie_word_embeddings}


# How a configuration is read, and what is built here of what the family may also be.
FAMILIES: dict[str, tuple[Callable[[Any], dict[str, Any]], dict[str, Any]]] = {
    "gpt2": (
        _gpt2,
        {
            "scale_attn_by_inverse_layer_idx": False,
            "scale_attn_weights": True,
            "add_cross_attention": False,
            "tie_word_embeddings": True,
        },
    ),
    "bert": (_bert, {"is_decoder": False, "position_embedding_type": "absolute"}),
    "llama": (_llama, {"attention_bias": False, "mlp_bias": False}),
}
