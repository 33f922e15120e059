"""Fitting a model to data: one loop, and what language models and classifiers are fitted with.

`loop` knows no model; `language` and `classification` bring batches, losses and held-out measures.
"""

from attnlib.training.language import (
    bits_per_byte,
    evaluate,
    next_token_loss,
    token_stream,
    windows,
)
from attnlib.training.loop import History, fit, shuffled

__all__ = [
    "History",
    "bits_per_byte",
    "evaluate",
    "fit",
    "next_token_loss",
    "shuffled",
    "token_stream",
    "windows",
]
