"""Whole words as tokens: a text in lower case, a vocabulary, and padded batches of ids."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

PAD, UNK, CLS = 0, 1, 2
SPECIAL = ("<pad>", "<unk>", "[CLS]")


def split_words(text: str) -> tuple[str, ...]:
    """A text in lower case, cut into words and single signs.

    >>> split_words("It's NOT bad -- at all!")
    ("it's", 'not', 'bad', '-', '-', 'at', 'all', '!')
    """
    return tuple(re.findall(r"\w+(?:'\w+)*|[^\w\s]", text.lower()))


@dataclass(frozen=True)
class WordVocabulary:
    """Words and their ids: <pad>, <unk> and [CLS] are 0, 1, 2, then the most frequent first.

    >>> vocabulary = WordVocabulary.of(["a good film", "a bad film"], min_count=2)
    >>> vocabulary.words
    ('<pad>', '<unk>', '[CLS]', 'a', 'film')
    >>> vocabulary.batch(["A film!", "film"])
    (tensor([[3, 4, 1],
            [4, 0, 0]]), tensor([[ True,  True,  True],
            [ True, False, False]]))
    """

    words: tuple[str, ...]

    @classmethod
    def of(
        cls, texts: Iterable[str], min_count: int = 2, max_size: int | None = None
    ) -> "WordVocabulary":
        """The words that occur `min_count` times, at most `max_size` ids; ties by alphabet."""
        counts = Counter(word for text in texts for word in split_words(text))
        kept = sorted((-n, word) for word, n in counts.items() if n >= min_count)
        return cls((SPECIAL + tuple(word for _, word in kept))[:max_size])

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def encode(self, text: str, max_len: int | None = None) -> list[int]:
        """The ids of a text, <unk> for words not known; what is beyond `max_len` is cut off."""
        return [self.index.get(word, UNK) for word in split_words(text)[:max_len]]

    def decode(self, ids: Sequence[int] | Tensor) -> tuple[str, ...]:
        """The words of some ids, padding left out."""
        row = ids.tolist() if isinstance(ids, Tensor) else ids
        return tuple(self.words[i] for i in row if i != PAD)

    def batch(self, texts: Iterable[str], max_len: int | None = None) -> tuple[Tensor, Tensor]:
        """Ids (N, T) int64, padded at the end, and their mask (N, T), True on real tokens."""
        rows = [torch.tensor(self.encode(text, max_len), dtype=torch.int64) for text in texts]
        ids = pad_sequence(rows, batch_first=True, padding_value=PAD)
        return ids, ids != PAD
