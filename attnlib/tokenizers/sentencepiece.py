"""SentencePiece's byte-pair encoding, as Gemma uses it: pieces with scores, merged by score.

Kudo and Richardson (2018) cut no text into words beforehand. A space is a letter like any other,
written ▁, and a text is one row of characters. Of all neighbours whose join is a piece, those with
the highest score are joined first, until no join is a piece. The scores say in which order the
pieces were learned, so this is byte-pair encoding, kept as its pieces instead of its merges. A
character that is no piece is written as its bytes in UTF-8.

Some pieces are found before any merging: those that the model's makers defined, such as runs of
spaces, runs of line ends, and tags of HTML. Others are never found in a text: control tokens, which
say that a text begins or ends.

What it does not do: train; the unigram model, which SentencePiece also has; normalise a text
(Gemma's does not); put a space before a text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from types import MappingProxyType

from attnlib.tokenizers.ids import checked_ids
from attnlib.tokenizers.merges import pre_tokenize, readable, to_bytes, visible

SPACE = "▁"  # U+2581
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6  # types of pieces, by SentencePiece's own codes


class SentencePiece:
    """A tokenizer made of pieces with scores.

    Args:
        pieces: the text of every id; a byte is written "<0x0A>".
        scores: of every piece; among neighbours that could be joined, the highest wins.
        types: of every piece: NORMAL, CONTROL, USER_DEFINED or BYTE.
        start: the id that begins every text.
        end: the id that ends a text.

    Attributes:
        pieces: as above, with every space as ▁.
        scores: as above.
        start: as above.
        end: as above.

    Raises:
        ValueError: if the lists differ in length, a type is another one, or a byte is missing.

    >>> normal = {"▁": 0, "l": 0, "o": 0, "w": 0, "lo": -1, "▁lo": -2, "ow": -3}
    >>> pieces = ["<eos>", "<bos>", *(byte_name(byte) for byte in range(256)), *normal]
    >>> scores = [0] * 258 + list(normal.values())
    >>> types = [CONTROL] * 2 + [BYTE] * 256 + [NORMAL] * 7
    >>> tokenizer = SentencePiece(pieces, scores, types, start=1, end=0)
    >>> tokenizer
    SentencePiece(265 tokens: 7 pieces, 0 user-defined, 256 bytes, 2 control)
    >>> tokenizer.tokens(tokenizer.encode("low low!"))
    ['<bos>', 'lo', 'w', ' lo', 'w', '!']
    """

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        types: Sequence[int],
        start: int,
        end: int,
    ) -> None:
        if not len(pieces) == len(scores) == len(types):
            raise ValueError(
                "every piece has a score and a type, but there are "
                f"{len(pieces)} pieces, {len(scores)} scores and {len(types)} types"
            )
        unknown = set(types) - {NORMAL, CONTROL, USER_DEFINED, BYTE}
        if unknown:
            raise ValueError(
                f"pieces are normal ({NORMAL}), control ({CONTROL}), user-defined "
                f"({USER_DEFINED}) or bytes ({BYTE}); there is a piece of type {min(unknown)}"
            )
        self.pieces = tuple(piece.replace(" ", SPACE) for piece in pieces)
        self.scores = tuple(scores)
        self.start = start
        self.end = end
        self._types = tuple(types)
        self._ids = {piece: i for i, piece in enumerate(self.pieces)}
        self._scores = {self.pieces[i]: scores[i] for i in self._of_type(NORMAL)}
        for byte in range(256):
            if byte_name(byte) not in self._ids:
                raise ValueError(f"every byte must be a piece, and {byte_name(byte)} is none")

    def encode(self, text: str) -> list[int]:
        """The ids of a text, `start` first.

        The name of a control token in a text is only letters. ▁ is read as a space, and a lone
        surrogate, which no encoding can hold, as U+FFFD.

        Raises:
            TypeError: if `text` is no text.
        """
        parts = self._user_defined.split(readable(text).replace(" ", SPACE))
        ids = [self.start]
        for number, part in enumerate(parts):
            if number % 2:  # between two plain parts there is always a user-defined piece
                ids.append(self._ids[part])
            else:
                ids += self._encode_plain(part)
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        """The ids of a text without user-defined pieces."""
        ids: list[int] = []
        for piece in merge(text, self._scores):
            if piece in self._scores:
                ids.append(self._ids[piece])
            else:
                ids += [self._ids[byte_name(byte)] for byte in to_bytes(piece)]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; control tokens give none, bytes that are not UTF-8 become U+FFFD.

        Args:
            ids: token ids (T,): a list, a tensor, any iterable of whole numbers.

        Raises:
            ValueError: if an id is not in the vocabulary.
            TypeError: if `ids` are not whole numbers.
        """
        spans = [self.vocab[i] for i in checked_ids(ids, self.vocab_size)]
        return b"".join(spans).decode("utf-8", "replace")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""A readable piece for each id, for the axes of a figure.

        A leading space stays a space. What would not show is written as an escape: a byte as
        `\xf0`, a new line as `\n`. Control tokens have their names. Errors as in `decode`.
        """
        return [
            self.pieces[i] if self._types[i] == CONTROL else visible(self.vocab[i])
            for i in checked_ids(ids, self.vocab_size)
        ]

    def word_ids(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The index of the word that each token belongs to, counted from 0.

        SentencePiece knows no words, so the words are those of GPT-2's tokenizer (see
        `merges.pre_tokenize`): a token begins a word if a word of the decoded text begins with it.
        A control token is a word of its own. Errors as in `decode`.
        """
        plain = checked_ids(ids, self.vocab_size)
        control = [self._types[i] == CONTROL for i in plain]
        # A line end in place of a control token keeps the words on both sides of it apart.
        spans = [b"\n" if alone else self.vocab[i] for i, alone in zip(plain, control, strict=True)]
        words = pre_tokenize(readable(b"".join(spans)))
        starts = {0, *accumulate(len(to_bytes(word)) for word in words)}
        word_ids: list[int] = []
        word, offset, after_control = -1, 0, True
        for span, alone in zip(spans, control, strict=True):
            if offset in starts or alone or after_control:
                word += 1
            word_ids.append(word)
            offset += len(span)
            after_control = alone
        return tuple(word_ids)

    @cached_property
    def vocab(self) -> Mapping[int, bytes]:
        """The bytes of every id; control tokens have none."""
        spans = {i: piece.replace(SPACE, " ").encode() for i, piece in enumerate(self.pieces)}
        for byte in range(256):
            spans[self._ids[byte_name(byte)]] = bytes([byte])
        for i in self._of_type(CONTROL):
            spans[i] = b""
        return MappingProxyType(spans)

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        """The id of every control token."""
        return MappingProxyType({self.pieces[i]: i for i in self._of_type(CONTROL)})

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.pieces)

    def __reduce__(self) -> tuple[type["SentencePiece"], tuple[object, ...]]:
        """Copy and pickle what it is made of, without what has been derived."""
        return SentencePiece, (self.pieces, self.scores, self._types, self.start, self.end)

    def __repr__(self) -> str:
        """Size, in one line."""
        count = self._types.count
        parts = (
            f"{count(NORMAL):,} pieces",
            f"{count(USER_DEFINED)} user-defined",
            f"{count(BYTE)} bytes",
            f"{count(CONTROL):,} control",
        )
        return f"SentencePiece({self.vocab_size:,} tokens: {', '.join(parts)})"

    @cached_property
    def _user_defined(self) -> "re.Pattern[str]":
        """Finds the pieces that merging must not touch; of those at one place the longest."""
        names = [self.pieces[i] for i in self._of_type(USER_DEFINED)]
        longest_first = sorted(names, key=len, reverse=True)
        nothing = "(?!)"
        return re.compile(f"({'|'.join(map(re.escape, longest_first)) or nothing})")

    def _of_type(self, wanted: int) -> list[int]:
        """The ids of all pieces of a type."""
        return [i for i, type_ in enumerate(self._types) if type_ == wanted]


def merge(symbols: Sequence[str], scores: Mapping[str, float]) -> list[str]:
    """Join neighbours whose join has a score, the highest first, the leftmost among equals.

    All joins that are possible wait in a heap, so that a text of n symbols takes n log n steps. A
    join that waits may have become impossible, because one of its two was joined to another
    neighbour meanwhile; that is seen when its turn comes.

    Args:
        symbols: the characters of a text.
        scores: of every piece.

    >>> merge("lower", {"lo": -1, "low": -5, "er": -2, "wer": -3})
    ['lo', 'wer']
    """
    parts = list(symbols)  # what stands at each place; "" where it was joined to its left neighbour
    before = [place - 1 for place in range(len(parts))]  # the neighbours of each place
    after = [place + 1 for place in range(len(parts))]
    queue: list[tuple[float, int, str]] = []

    def propose(left: int) -> None:
        """Put the join of a place and its right neighbour into the queue, if it is a piece."""
        if left >= 0 and after[left] < len(parts):
            piece = parts[left] + parts[after[left]]
            if piece in scores:
                heappush(queue, (-scores[piece], left, piece))

    for place in range(len(parts)):
        propose(place)
    while queue:
        _, left, piece = heappop(queue)
        right = after[left]
        if not parts[left] or right == len(parts) or parts[left] + parts[right] != piece:
            continue
        parts[left], parts[right] = piece, ""
        after[left] = after[right]
        if after[left] < len(parts):
            before[after[left]] = left
        propose(before[left])
        propose(left)
    return [part for part in parts if part]


def byte_name(byte: int) -> str:
    """How a byte is written as a piece.

    >>> byte_name(10)
    '<0x0A>'
    """
    return f"<0x{byte:02X}>"
