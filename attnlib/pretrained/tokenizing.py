"""What a text model asks of a tokenizer, and a tokenizer of `transformers` that gives it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple, Protocol

from attnlib.trace import join_tokens


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
        words: what each word is called, where that is not its tokens joined.
    """

    ids: list[int]
    tokens: list[str]
    word_ids: tuple[int, ...] | None
    left_out: int = 0
    words: tuple[str, ...] | None = None


class HuggingFaceTokenizer:
    """A tokenizer of `transformers`: words, special tokens and chat template are its own.

    Args:
        tokenizer: a loaded one, such as AutoTokenizer gives.
        ends: ids at which its model ends an answer, besides the tokenizer's own.
        known: how many ids the model knows; as many as there are if None.
        uncounted: an id that gets no position (RoBERTa's padding); None if there is none.

    Attributes:
        vocab_size: one more than the largest id; there may be ids without a token.
        ordinary_size: the same without special tokens, which a model need not know (Gemma 3 knows
            no <image_soft_token> where it has no eyes).
        special_tokens: the id of every special token by its name.
    """

    def __init__(
        self,
        tokenizer: Any,
        ends: Iterable[int] = (),
        known: int | None = None,
        uncounted: int | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.ends = frozenset(map(int, ends))
        self.uncounted = uncounted
        named = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
        self.special_tokens: Mapping[str, int] = {name: int(i) for name, i in named}
        ids = set(tokenizer.get_vocab().values())
        self.vocab_size: int = max(ids) + 1
        self.ordinary_size: int = max(ids - self._special_ids, default=-1) + 1
        self.known = self.vocab_size if known is None else known

    @property
    def _special_ids(self) -> set[int]:
        """The ids that stand for no text."""
        return {int(i) for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}

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
        """The ids of a text, with the special tokens that its model expects around it.

        Raises:
            ValueError: if the model cannot read one of them.
        """
        return self._checked([int(i) for i in self.tokenizer(text)["input_ids"]])

    def _checked(self, ids: list[int]) -> list[int]:
        """The ids, if the model can read all of them."""
        for i in ids:
            if i >= self.known or i == self.uncounted:
                token = self.tokenizer.convert_ids_to_tokens(i)
                why = "gives it no position" if i == self.uncounted else f"has {self.known} tokens"
                raise ValueError(f"the model cannot read {token!r} (id {i}) in a text: it {why}")
        return ids

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
        """A text as a model reads it, cut at its end where it has more than `max_len` tokens.

        Special tokens that the tokenizer puts at the end stay there. Words are those of the
        tokenizer's library. Where that sees one word in a whole text, as it does for some of
        SentencePiece, a word begins at each space. Errors as in `encode`.
        """
        encoding = self.tokenizer(
            text, return_special_tokens_mask=True, return_offsets_mapping=self.tokenizer.is_fast
        )
        mask = encoding["special_tokens_mask"]
        left_out = max(0, len(mask) - max_len)
        tail = len(mask) if 0 not in mask else mask[::-1].index(0)  # special tokens at the end
        places = [*range(len(mask) - tail - left_out), *range(len(mask) - tail, len(mask))]
        ids = self._checked([int(encoding["input_ids"][place]) for place in places])
        tokens = self.tokens(ids)
        if not self.tokenizer.is_fast:
            return Reading(ids, tokens, None, left_out)
        words, offsets = encoding.word_ids(), encoding["offset_mapping"]
        word_ids = _words(
            text, [words[place] for place in places], [offsets[place] for place in places]
        )
        return Reading(ids, tokens, word_ids, left_out, self._names(ids, tokens, word_ids))

    def _names(
        self, ids: list[int], tokens: list[str], word_ids: Sequence[int]
    ) -> tuple[str, ...] | None:
        """What the words are called, or None if that is their tokens joined.

        A word is its tokens written together. Where a character is spread over several of them, or
        the pieces that go on a word are marked (WordPiece), the tokenizer writes it as a text.
        """
        marked = type(self.tokenizer.backend_tokenizer.model).__name__ == "WordPiece"
        names = []
        for word in spans(word_ids):
            name = "".join(tokens[word])
            if len(tokens[word]) > 1 and (marked or "\ufffd" in name):
                space = " " if name.startswith(" ") else ""
                decoded = str(self.tokenizer.decode(ids[word])).removeprefix(space)
                name = space + decoded.replace("\n", "\\n")
            names.append(name)
        return names_apart(names, tokens, word_ids)

    def conversation(self, messages: Sequence[Mapping[str, Any]]) -> tuple[list[int], set[int]]:
        """The ids of a conversation up to the next answer, and the ids that can end that answer.

        The text is made by the tokenizer's own chat template. Unlike `chat.chat_ids`, it lets a
        message spell out a marker. An answer ends at the tokenizer's eos_token, at `ends`, or at
        the marker that the template writes after an answer.

        Args:
            messages: each with a "role" and its "content".

        Raises:
            ValueError: if the tokenizer has no template, or nothing ends an answer.
        """
        if self.tokenizer.chat_template is None:
            raise ValueError("the tokenizer has no chat template: its model was not taught to chat")
        ids = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=False
        )
        stops = self.ends | self._end_of_answer(messages)
        if self.tokenizer.eos_token_id is not None or not stops:
            stops |= {self.end}
        return self._checked([int(i) for i in ids]), set(stops)

    def _end_of_answer(self, messages: Sequence[Mapping[str, Any]]) -> set[int]:
        """The first special token that the template writes after an answer, if there is one.

        Gemma's <end_of_turn> and Llama 3's <|eot_id|> are not always the tokenizer's own eos_token.
        The token that begins the next message is no end: it is the one before the question, too.
        """
        from jinja2 import TemplateError

        question, answer = "Which one?", "That one."
        asked = [message for message in messages[:1] if message["role"] == "system"]
        asked += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        try:
            text = self.tokenizer.apply_chat_template(asked, tokenize=False)
        except (TemplateError, TypeError):  # a template for messages of another form
            return set()
        before, _, rest = str(text).partition(question)
        after = rest.partition(answer)[2]
        return set(self._markers(after)[:1]) - set(self._markers(before)[-1:])

    def _markers(self, text: str) -> list[int]:
        """The special tokens in a text, but for the one that begins a text."""
        special = self._special_ids - {self.tokenizer.bos_token_id}
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [int(i) for i in ids if i in special]


def spans(word_ids: Sequence[int]) -> list[slice]:
    """Where the tokens of each word stand.

    >>> spans([0, 1, 1])
    [slice(0, 1, None), slice(1, 3, None)]
    """
    lengths = [len(list(places)) for _, places in groupby(word_ids)]
    ends = accumulate(lengths)
    return [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]


def names_apart(
    names: Iterable[str], tokens: Sequence[str], word_ids: Sequence[int]
) -> tuple[str, ...] | None:
    """The names of words, or None if they are their tokens joined."""
    names = tuple(names)
    return None if names == join_tokens(tokens, word_ids) else names


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
