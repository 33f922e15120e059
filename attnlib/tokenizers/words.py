"""Whole words as tokens: a text in lower case, a vocabulary, and padded batches of ids."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

PAD = 0  # the id of <pad> in every vocabulary
CLASSIFIER_TOKENS = ("<pad>", "<unk>", "[CLS]")
TRANSLATION_TOKENS = ("<pad>", "<s>", "</s>")
UNK, CLS = 1, 2  # in a vocabulary that begins with CLASSIFIER_TOKENS
BOS, EOS = 1, 2  # in one that begins with TRANSLATION_TOKENS


def split_words(text: str) -> tuple[str, ...]:
    """A text in lower case, cut into words and single signs.

    >>> split_words("It's NOT bad -- at all!")
    ("it's", 'not', 'bad', '-', '-', 'at', 'all', '!')
    """
    return tuple(re.findall(r"\w+(?:'\w+)*|[^\w\s]", text.lower()))


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: the special tokens first, then the words in order.

    What the special tokens are decides what `encode` does: with <unk>, unknown words are read as
    that token, without it they are an error; with </s>, every text ends in it.

    >>> vocabulary = Vocabulary.most_frequent(["a good film", "a bad film"], min_count=2)
    >>> vocabulary.words
    ('<pad>', '<unk>', '[CLS]', 'a', 'film')
    >>> vocabulary.batch(["A film!", "film"])
    tensor([[3, 4, 1],
            [4, 0, 0]])
    >>> numbers = Vocabulary.alphabetical([("twenty", "one"), ("one",)])
    >>> numbers.encode(("one",), start=True)
    [1, 3, 2]
    >>> numbers.decode([1, 3, 4, 2, 0, 0])
    ('one', 'twenty')
    """

    words: tuple[str, ...]

    @classmethod
    def most_frequent(cls, texts: Iterable[str], min_count: int = 2) -> "Vocabulary":
        """For classifiers: the words that occur `min_count` times, the most frequent first.

        Ties by alphabet.
        """
        counts = Counter(word for text in texts for word in split_words(text))
        kept = sorted((-n, word) for word, n in counts.items() if n >= min_count)
        return cls(CLASSIFIER_TOKENS + tuple(word for _, word in kept))

    @classmethod
    def alphabetical(cls, sequences: Iterable[Sequence[str]]) -> "Vocabulary":
        """For translation: all words that occur, in alphabetical order."""
        return cls(TRANSLATION_TOKENS + tuple(sorted({w for words in sequences for w in words})))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def encode(
        self, text: str | Sequence[str], max_len: int | None = None, start: bool = False
    ) -> list[int]:
        """The ids of a text.

        Args:
            text: a text, which `split_words` cuts, or its words.
            max_len: words beyond so many are cut off.
            start: put <s> in front.

        Raises:
            ValueError: if a word is not in a vocabulary that has no <unk>.
        """
        words = (split_words(text) if isinstance(text, str) else tuple(text))[:max_len]
        unknown = [word for word in words if word not in self.index]
        if unknown and "<unk>" not in self.index:
            raise ValueError(f"not in the vocabulary: {unknown}; it has {len(self)} words")
        ids = [self.index.get(word, UNK) for word in words]
        return [BOS] * start + ids + [EOS] * ("</s>" in self.index)

    def decode(self, ids: Sequence[int] | Tensor) -> tuple[str, ...]:
        """The words of some ids up to the first </s>; <pad> and <s> are left out."""
        row = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        if "</s>" in self.index and EOS in row:
            row = row[: row.index(EOS)]
        return tuple(self.words[i] for i in row if self.words[i] not in ("<pad>", "<s>"))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The name of each id, special ones included."""
        return [self.words[i] for i in ids]

    def word_ids(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The word that each token belongs to: every one is a word of its own."""
        return tuple(range(len(ids)))

    def batch(
        self, texts: Iterable[str | Sequence[str]], max_len: int | None = None, start: bool = False
    ) -> Tensor:
        """Every text as a row of ids, padded at the end: (N, longest) int64."""
        return pad([self.encode(text, max_len, start) for text in texts])


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of different lengths as one tensor, <pad> at the end: (N, longest) int64.

    >>> pad([[5, 2], [4, 3, 2]])
    tensor([[5, 2, 0],
            [4, 3, 2]])
    """
    if not rows:
        return torch.zeros(0, 0, dtype=torch.int64)
    tensors = [torch.tensor(row, dtype=torch.int64) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=PAD)


def trim(ids: Tensor) -> Tensor:
    """Cut off the columns that are padding in every row: (B, T) to (B, longest)."""
    return ids[:, : int((ids != PAD).sum(1).max())]


def padding_mask(ids: Tensor) -> Tensor:
    """Where the real tokens of padded rows stand: ids (B, T) to bool (B, T), True on real tokens.

    Raises:
        ValueError: if padding stands before the end of a row.
    """
    return check_padding(ids != PAD)


def check_padding(mask: Tensor) -> Tensor:
    """The mask (..., T), True on real tokens, if its padding stands only at the end of each row.

    Raises:
        ValueError: if it does not.
    """
    if ((~mask[..., :-1]) & mask[..., 1:]).any():
        raise ValueError("padding may stand only at the end of a row: <pad> is id 0")
    return mask
