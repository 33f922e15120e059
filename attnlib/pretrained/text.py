"""A model with its tokenizer: text goes in, a trace or more text comes out.

Every text model of the course is a `TextModel`: an encoder, a classifier, a language model. It
hides no part: `text_model.model` and `text_model.tokenizer` are there to be used on their own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from attnlib import decoding
from attnlib.models import AttentionClassifier, Transformer, TransformerClassifier
from attnlib.pretrained.chat import STOP, chat_ids, check_messages
from attnlib.pretrained.checkpoints import card, load, tokenizer
from attnlib.pretrained.tokenizing import (
    HuggingFaceTokenizer,
    LanguageTokenizer,
    Reading,
    Tokenizer,
    names_apart,
    spans,
)
from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.merges import visible
from attnlib.tokenizers.sentencepiece import SentencePiece
from attnlib.tokenizers.wordpiece import WordPiece
from attnlib.tokenizers.words import ReviewVocabulary
from attnlib.trace import Trace
from attnlib.training.classification import vocabulary, words_hash

OWN_GPT = "reviews-gpt"


M = TypeVar("M", bound=Transformer | AttentionClassifier | TransformerClassifier)
T = TypeVar("T", bound=Tokenizer)


@dataclass(frozen=True, eq=False, repr=False)
class TextModel(Generic[M, T]):
    """A model and the tokenizer that it was trained with.

    Attributes:
        model: ids to a trace, and to logits if it has a head.
        tokenizer: text to ids.
        name: what it is called.
    """

    model: M
    tokenizer: T
    name: str

    @property
    def device(self) -> torch.device:
        """Where the model's numbers are, and so where texts are read."""
        return next(self.model.parameters()).device

    def to(self, *where: Any, **how: Any) -> Self:
        """Move the model, or change its float, as `torch.nn.Module.to` does, and return `self`.

        `smollm2().to("cuda")` reads and writes on the GPU, `.to(torch.bfloat16)` in half the
        memory. As with any module of PyTorch, it is this model that changes: a published model is
        loaded once, so that whoever asks for `smollm2()` again gets it where it was last put.
        `copy.deepcopy(smollm2())` beforehand is a model of one's own.
        """
        self.model.to(*where, **how)
        return self

    def encode(self, text: str) -> list[int]:
        """The ids of a text, as the tokenizer gives them."""
        return self.tokenizer.encode(text)

    def trace(self, text: str, keep: str | Iterable[str] = (), **changes: Any) -> Trace:
        """The forward pass of a text, with readable tokens and the words they belong to.

        A text longer than the model reads (`max_len`) is cut at the end; the trace knows by how
        many tokens (`left_out`).

        Args:
            text: at least one token long.
            keep: what to keep beside the attention, see `Trace`.
            changes: what else the model's own `trace` takes, such as edits.

        Raises:
            TypeError: if it is no text, such as a list of several.
            ValueError: if the text is empty: without a token there is nothing to look at.
        """
        reading = self._read(text)
        ids = torch.tensor(reading.ids, dtype=torch.int64, device=self.device)
        trace = self.model.trace(ids, reading.tokens, reading.word_ids, keep, **changes)
        if reading.left_out or reading.words:
            trace = replace(trace, left_out=reading.left_out, words=reading.words)
        return trace

    def _read(self, text: str) -> Reading:
        """The text as the model reads it."""
        tokenizer: Any = self.tokenizer
        max_len: Any = getattr(self.model, "max_len", None)  # None for a model that reads all
        if not isinstance(text, str):
            raise TypeError(f"trace reads one text, got {type(text).__name__}")
        if isinstance(tokenizer, HuggingFaceTokenizer):
            return tokenizer.read(text, max_len)
        encoded = self.encode(text)
        ids = encoded[:max_len]
        left_out = len(encoded) - len(ids)
        if isinstance(tokenizer, WordPiece):  # has cut already, and ends in [SEP] all the same
            left_out = tokenizer.left_out(text)
        tokens, word_ids = tokenizer.tokens(ids), tokenizer.word_ids(ids)
        words = None
        if isinstance(tokenizer, BPE | SentencePiece):  # a character can be spread over tokens
            words = _spelled(tokenizer, ids, tokens, word_ids)
        return Reading(ids, tokens, word_ids, left_out, words)

    def generate(self, text: str, max_new_tokens: int, **settings: Any) -> str:
        """What a `LanguageModel` does.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"{self.name!r} reads texts and does not write: generate needs a LanguageModel, which "
            "is causal and has a head"
        )

    def __repr__(self) -> str:
        """Name and size, in one line."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return f"{type(self).__name__}({self.name}: {count:,} parameters)"


@dataclass(frozen=True, eq=False, repr=False)
class LanguageModel(TextModel[Transformer, LanguageTokenizer]):
    """A transformer that was trained to predict the next token, with its tokenizer.

    Raises:
        ValueError: if the model is no language model, or its tokenizer has ids that it does not
            know. The model may know more ids: many vocabularies are filled up to a round number.
    """

    def __post_init__(self) -> None:
        config = self.model.config
        if not (config.causal and config.head):
            raise ValueError(f"{self.name!r} is no language model: it must be causal, with a head")
        needed = getattr(self.tokenizer, "ordinary_size", self.tokenizer.vocab_size)
        if config.vocab_size < needed:
            raise ValueError(
                f"{self.name!r} knows {config.vocab_size} tokens and its tokenizer {needed}: they "
                "do not belong together"
            )

    @property
    def end(self) -> int:
        """The id of the token that stands after every text, such as <|endoftext|>.

        Where texts have no other token at their beginning, it stands before a new one as well.
        """
        return self.tokenizer.end

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids (T,), a list or a tensor."""
        return self.tokenizer.decode(ids)

    def generate(self, text: str, max_new_tokens: int, **settings: Any) -> str:
        """Continue a text by sampling, until its end or `max_new_tokens`.

        Args:
            text: the prompt; the empty one begins a new text.
            max_new_tokens: at most so many.
            settings: of `attnlib.decoding.generate`: temperature, top_k, top_p, seed.

        Returns:
            the prompt and its continuation, without the end token.
        """
        prompt = self._ids(self.encode(text) or [self.end])
        stops = {self.end, *getattr(self.tokenizer, "ends", ())}
        ids = decoding.generate(self.model, prompt, max_new_tokens, stop=stops, **settings)
        return self._text(ids, stops)

    def chat(
        self, messages: Sequence[Mapping[str, str]], max_new_tokens: int = 256, **settings: Any
    ) -> str:
        """Answer the last message of a conversation, if the model was taught to.

        A tokenizer of `transformers` has its own template, SmolLM2 of the course that of
        `chat_ids`.

        Args:
            messages: what was said so far: [{"role": "user", "content": "…"}].
            max_new_tokens: at most so many.
            settings: as in `generate`.

        Returns:
            the answer alone.

        Raises:
            TypeError, ValueError: as in `chat_ids`, or `HuggingFaceTokenizer.conversation`.
        """
        check_messages(messages)
        if isinstance(self.tokenizer, HuggingFaceTokenizer):
            conversation, stops = self.tokenizer.conversation(messages)
        else:
            conversation = chat_ids(messages, self.tokenizer)
            stops = {self.tokenizer.special_tokens[STOP]}
        prompt = self._ids(conversation)
        ids = decoding.generate(self.model, prompt, max_new_tokens, stop=stops, **settings)
        return self._text(ids[len(prompt) :], stops)

    def _ids(self, ids: Sequence[int]) -> Tensor:
        """Ids as a tensor (T,), where the model is."""
        return torch.tensor(ids, dtype=torch.int64, device=self.device)

    def _text(self, ids: Any, stops: Collection[int]) -> str:
        """The text of what was generated, without its end.

        An id that fills up the model's vocabulary and that the tokenizer lacks has no text.
        """
        known = self.tokenizer.vocab_size
        return self.decode(i for i in ids.tolist() if i not in stops and i < known)

    def __repr__(self) -> str:
        """Name and size, in one line."""
        config, count = self.model.config, self.model.parameter_count
        size = f"{config.layers} layers, {config.heads} heads, {count:,} parameters"
        return f"LanguageModel({self.name}: {size})"


def _spelled(
    tokenizer: BPE | SentencePiece, ids: list[int], tokens: list[str], word_ids: Sequence[int]
) -> tuple[str, ...] | None:
    """What the words are called, from the bytes of their tokens; None if that is nothing new."""
    names = []
    for word in spans(word_ids):
        spelled = b"".join(tokenizer.vocab[i] for i in ids[word])
        names.append(visible(spelled) or "".join(tokens[word]))  # control tokens have no bytes
    return names_apart(names, tokens, word_ids)


def language_model(name: str = OWN_GPT) -> LanguageModel:
    """A language model of the course with its tokenizer, in evaluation mode.

    Args:
        name: of a checkpoint that is a causal `Transformer` with an unembedding.

    Raises:
        ValueError: if there is no such checkpoint, or it is of another kind.
        RuntimeError: as in `load`.
    """
    about, model = card(name), load(name)
    if not isinstance(model, Transformer) or "tokenizer" not in about:
        raise ValueError(
            f"{name!r} is a {about['kind']}; a language model here is a Transformer whose card "
            f"names its tokenizer, such as {OWN_GPT!r}"
        )
    return LanguageModel(model, tokenizer(about["tokenizer"]), name)


def classifier(
    name: str,
) -> TextModel[AttentionClassifier | TransformerClassifier, ReviewVocabulary]:
    """A trained classifier of the reviews, with the words that it reads.

    Raises:
        ValueError: if there is no such checkpoint, or it reads no words.
        RuntimeError: if the vocabulary is not the one it was trained with.
    """
    about, model = card(name), load(name)
    if not isinstance(model, AttentionClassifier | TransformerClassifier):
        raise ValueError(f"{name!r} is a {about['kind']}, no classifier of reviews")
    words = vocabulary(about["data"]["source"])
    if words_hash(words) != about["words"]["sha256"]:
        raise RuntimeError(
            f"the words of {name!r} are not those of the training split any more: rebuild it with "
            f"{about['command']}"
        )
    return TextModel(model, words, name)
