"""WordPiece, as BERT's family uses it: the tokenizer of a published encoder, from its own file."""

from collections.abc import Iterable
from pathlib import Path

from attnlib.tokenizers.ids import checked_ids


class WordPiece:
    """A thin wrapper of the `tokenizers` library, with the methods that all tokenizers here have.

    Args:
        path: the `tokenizer.json` of a published model.
        max_len: tokens that the model reads, [CLS] and [SEP] among them.
    """

    def __init__(self, path: Path, max_len: int) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(path))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_len)

    def encode(self, text: str) -> list[int]:
        """The ids of a text between [CLS] and [SEP]; what is beyond `max_len` is cut off."""
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids

    def left_out(self, text: str) -> int:
        """How many tokens of a text `encode` cuts off."""
        rest = self.tokenizer.encode(text).overflowing
        return sum(piece.special_tokens_mask.count(0) for piece in rest)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id (T,); a piece that goes on a word begins with "##"."""
        known = checked_ids(ids, self.tokenizer.get_vocab_size())
        return [str(self.tokenizer.id_to_token(i)) for i in known]

    def word_ids(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The word that each token belongs to; [CLS] and [SEP] are words of their own."""
        word = -1
        word_ids = []
        for token in self.tokens(ids):
            if word < 0 or not token.startswith("##"):
                word += 1
            word_ids.append(word)
        return tuple(word_ids)
