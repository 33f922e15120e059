"""From text to ids and back: byte-pair encoding, WordPiece of published models, whole words.

Every tokenizer here has `encode(text)`, `tokens(ids)` and `word_ids(ids)`; padding is made in one
place, `words.pad`.
"""

from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.wordpiece import WordPiece
from attnlib.tokenizers.words import Vocabulary, pad, split_words, trim

__all__ = ["BPE", "Vocabulary", "WordPiece", "pad", "split_words", "trim"]
