"""What a text model asks of a tokenizer, and a tokenizer of `transformers` that gives it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Tokenizer(Protocol):
    """What a text model asks of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    def tokens(self, ids: Any) -> list[str]:
        """A readable piece for each id."""


class LanguageTokenizer(Tokenizer, Protocol):
    """What a language model asks besides."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""

    @property
    def vocab_size(self) -> int:
        """The tokens that it knows."""

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The id of every special token."""

    @property
    def end(self) -> int:
        """The id that stands after every text."""


class Reading(NamedTuple):
    """A text as a model reads it.

    Attributes:
        ids: the tokens that are read.
        tokens: a readable piece for each.
        word_ids: the word that each belongs to, or None where the tokenizer does not know.
        left_out: how many tokens of the text come after these, and are not read.
    """

    ids: list[int]
    tokens: list[str]
    word_ids: tuple[int, ...] | None
    left_out: int = 0


class HuggingFaceTokenizer:
    """A tokenizer of `transformers`: words, special tokens and chat template are its own.

    Args:
        tokenizer: a loaded one, such as AutoTokenizer gives.

    Attributes:
        vocab_size: the tokens that it knows.
        special_tokens: the id of every special token by its name.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.vocab_size: int = len(tokenizer)
        named = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
        self.special_tokens: Mapping[str, int] = {name: int(i) for name, i in named}

    @property
    def end(self) -> int:
        """The id of the token that ends a text.

        Raises:
            ValueError: if the tokenizer names none.
        """
        if self.tokenizer.eos_token_id is None:
            raise ValueError(
                f"{type(self.tokenizer).__name__} names no eos_token, which ends a text and begins "
                "an empty one: set tokenizer.eos_token"
            )
        return int(self.tokenizer.eos_token_id)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special tokens that its model expects around it."""
        return [int(i) for i in self.tokenizer(text)["input_ids"]]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without the special tokens among them."""
        return str(self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """A readable piece for each id: a leading space stays a space, special tokens are named."""
        ids = [int(i) for i in ids]
        pieces = self.tokenizer.convert_ids_to_tokens(ids)
        return [self._readable(i, piece) for i, piece in zip(ids, pieces, strict=True)]

    def _readable(self, i: int, piece: str | None) -> str:
        if piece is not None and "▁" in piece:  # SentencePiece writes spaces so
            shown = piece.replace("▁", " ")
        else:
            shown = str(self.tokenizer.decode([i]))
        return shown.replace("\n", "\\n")

    def read(self, text: str, max_len: int) -> Reading:
        """A text as a model reads it, cut where it has more than `max_len` tokens.

        Words are those of the tokenizer's library. Where that sees one word in a whole text, as it
        does for some of SentencePiece, a word begins at each space.
        """
        whole = self.tokenizer(text)["input_ids"]
        encoding = self.tokenizer(
            text, truncation=True, max_length=max_len, return_offsets_mapping=self.tokenizer.is_fast
        )
        ids = [int(i) for i in encoding["input_ids"]]
        words = None
        if self.tokenizer.is_fast:
            words = _words(text, encoding.word_ids(), encoding["offset_mapping"])
        return Reading(ids, self.tokens(ids), words, len(whole) - len(ids))

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> tuple[list[int], int]:
        """The ids of a conversation up to the next answer, and the id that will end that answer.

        The text is made by the tokenizer's own chat template. Unlike `chat.chat_ids`, it lets a
        message spell out a marker.

        Args:
            messages: each with a "role" and its "content".

        Raises:
            TypeError: if `messages` is a text; says what to write.
            ValueError: if there is no message, or the tokenizer has no template.
        """
        if isinstance(messages, str):
            raise TypeError(
                f'expected a list of messages: [{{"role": "user", "content": {messages!r}}}]'
            )
        if not messages:
            raise ValueError("a conversation needs a message to answer, got none")
        if self.tokenizer.chat_template is None:
            raise ValueError("the tokenizer has no chat template: its model was not taught to chat")
        ids = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=False
        )
        return [int(i) for i in ids], self._end_of_answer()

    def _end_of_answer(self) -> int:
        """The last special token that the template writes after an answer.

        Gemma's <end_of_turn> and Llama 3's <|eot_id|> are not always the tokenizer's own eos_token.
        """
        answered = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]
        ids = self.tokenizer.apply_chat_template(answered, return_dict=False)
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        markers = [int(i) for i in ids if i in special]
        return markers[-1] if markers else self.end


def _words(
    text: str, words: Sequence[int | None], offsets: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The word of each token, 0, 0, 1, …; a special token (None) is a word of its own.

    Where the library sees one word in the whole text, a word begins at each space.

    >>> _words("a bc", [None, 0, 0, 0], [(0, 0), (0, 1), (1, 3), (3, 4)])
    (0, 1, 2, 2)
    """
    undivided = len({word for word in words if word is not None}) == 1
    numbers: list[int] = []
    number, last_word, last_start = -1, None, -1
    for word, (start, _) in zip(words, offsets, strict=True):
        # the bytes of a character all have its start, and only the first of them begins a word
        at_space = start != last_start and text[start : start + 1].isspace()
        if word is None or word != last_word or (undivided and at_space):
            number += 1
        numbers.append(number)
        last_word, last_start = word, start
    return tuple(numbers)
