"""From text to ids and back: byte-pair encoding, pieces of published models, whole words.

Every tokenizer of a text model has `encode(text)`, `tokens(ids)` and `word_ids(ids)`. Ids come out
as lists, and go in as a list or as a tensor on any device. Padding is made in one place,
`words.pad`.
"""

from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.sentencepiece import SentencePiece
from attnlib.tokenizers.wordpiece import WordPiece
from attnlib.tokenizers.words import ReviewVocabulary, Vocabulary, pad, split_words, trim

__all__ = [
    "BPE",
    "ReviewVocabulary",
    "SentencePiece",
    "Vocabulary",
    "WordPiece",
    "pad",
    "split_words",
    "trim",
]
