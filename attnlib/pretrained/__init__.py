"""Trained models, ready to use, with no network: checkpoints, and models with their tokenizer.

`language_model` and `classifier` give the course's own, `minilm` and `gpt2` published ones.
"""

from attnlib.pretrained.checkpoints import card, load, names, tokenizer
from attnlib.pretrained.published import gpt2, minilm
from attnlib.pretrained.text import LanguageModel, TextModel, classifier, language_model

__all__ = [
    "LanguageModel",
    "TextModel",
    "card",
    "classifier",
    "gpt2",
    "language_model",
    "load",
    "minilm",
    "names",
    "tokenizer",
]
