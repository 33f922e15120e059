"""Trained models, ready to use, with no network: checkpoints, and models with their tokenizer.

`language_model` and `classifier` give the course's own models, `minilm`, `smollm2`, `gpt2` and
`gemma3` published ones.
"""

from attnlib.pretrained.annotations import ParsedSentence, parsed_sentences
from attnlib.pretrained.checkpoints import card, history, load, names, tokenizer
from attnlib.pretrained.huggingface import from_huggingface
from attnlib.pretrained.published import gemma3, gpt2, minilm, smollm2
from attnlib.pretrained.text import LanguageModel, TextModel, classifier, language_model

__all__ = [
    "LanguageModel",
    "ParsedSentence",
    "TextModel",
    "card",
    "classifier",
    "from_huggingface",
    "gemma3",
    "gpt2",
    "history",
    "language_model",
    "load",
    "minilm",
    "names",
    "parsed_sentences",
    "smollm2",
    "tokenizer",
]
