"""Whole words as tokens: a text in lower case, two vocabularies, and padded batches of ids."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnlib.tokenizers.ids import checked_ids

PAD = 0  # the id of <pad> in every vocabulary
TRANSLATION_TOKENS = ("<pad>", "<s>", "</s>")
BOS, EOS = 1, 2  # in a `Vocabulary`
CLASSIFIER_TOKENS = ("<pad>", "<unk>", "[CLS]")
UNK, CLS = 1, 2  # in a `ReviewVocabulary`


def split_words(text: str) -> tuple[str, ...]:
    """A text in lower case, cut into words and single signs.

    >>> split_words("It's NOT bad -- at all!")
    ("it's", 'not', 'bad', '-', '-', 'at', 'all', '!')
    """
    return tuple(re.findall(r"\w+(?:'\w+)*|[^\w\s]", text.lower()))


@dataclass(frozen=True)
class _WordList:
    """Words and their ids: the special tokens first, then the words in order."""

    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}


class Vocabulary(_WordList):
    """The words of one language, for translation.

    Every sentence ends in </s>. All words are known: any other word is an error.

    >>> numbers = Vocabulary.alphabetical([("twenty", "one"), ("one",)])
    >>> numbers.words
    ('<pad>', '<s>', '</s>', 'one', 'twenty')
    >>> numbers.encode(("one",), start=True)
    [1, 3, 2]
    >>> numbers.decode([1, 3, 4, 2, 0, 0])
    ('one', 'twenty')
    """

    @classmethod
    def alphabetical(cls, sentences: Iterable[Sequence[str]]) -> "Vocabulary":
        """All words that occur, in alphabetical order."""
        words = {word for sentence in sentences for word in sentence}
        return cls(TRANSLATION_TOKENS + tuple(sorted(words)))

    def encode(self, sentence: Sequence[str], start: bool = False) -> list[int]:
        """The ids of a sentence, and </s>.

        Args:
            sentence: its words.
            start: put <s> in front.

        Raises:
            ValueError: if a word is not in the vocabulary.
        """
        unknown = [word for word in sentence if word not in self.index]
        if unknown:
            raise ValueError(f"not in the vocabulary: {unknown}; it has {len(self)} words")
        ids = [self.index[word] for word in sentence]
        return [BOS, *ids, EOS] if start else [*ids, EOS]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """The words of ids (T,) up to the first </s>; <pad> and <s> are left out."""
        row = checked_ids(ids, len(self))
        if EOS in row:
            row = row[: row.index(EOS)]
        return tuple(self.words[i] for i in row if i not in (PAD, BOS))

    def batch(self, sentences: Iterable[Sequence[str]], start: bool = False) -> Tensor:
        """Every sentence as a row of ids, padded at the end: (N, longest) int64, on the CPU."""
        return pad([self.encode(sentence, start) for sentence in sentences])


class ReviewVocabulary(_WordList):
    """The frequent words of reviews, for classifiers. All other words are read as <unk>.

    >>> vocabulary = ReviewVocabulary.most_frequent(["a good film", "a bad film"], min_count=2)
    >>> vocabulary.words
    ('<pad>', '<unk>', '[CLS]', 'a', 'film')
    >>> vocabulary.batch(["A film!", "film"])
    tensor([[3, 4, 1],
            [4, 0, 0]])
    """

    @classmethod
    def most_frequent(cls, texts: Iterable[str], min_count: int = 2) -> "ReviewVocabulary":
        """The words that occur `min_count` times, the most frequent first, ties by alphabet."""
        counts = Counter(word for text in texts for word in split_words(text))
        frequent = [word for word, count in counts.items() if count >= min_count]
        frequent.sort(key=lambda word: (-counts[word], word))
        return cls(CLASSIFIER_TOKENS + tuple(frequent))

    def encode(self, text: str, max_len: int | None = None) -> list[int]:
        """The ids of a text, of at most `max_len` words."""
        return [self.index.get(word, UNK) for word in split_words(text)[:max_len]]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """The words of ids (T,); <pad> is left out."""
        return tuple(self.words[i] for i in checked_ids(ids, len(self)) if i != PAD)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The name of each id (T,), special tokens included."""
        return [self.words[i] for i in checked_ids(ids, len(self))]

    def word_ids(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The word that each token belongs to: every token is a word of its own."""
        return tuple(range(len(ids)))

    def batch(self, texts: Iterable[str], max_len: int | None = None) -> Tensor:
        """Every text as a row of ids, padded at the end: (N, longest) int64, on the CPU."""
        return pad([self.encode(text, max_len) for text in texts])


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of different lengths as one tensor, <pad> at the end: (N, longest) int64, on the CPU.

    >>> pad([[5, 2], [4, 3, 2]])
    tensor([[5, 2, 0],
            [4, 3, 2]])
    """
    if not rows:
        return torch.zeros(0, 0, dtype=torch.int64, device="cpu")
    tensors = [torch.tensor(row, dtype=torch.int64, device="cpu") for row in rows]
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
