"""The helper library of the course: small on purpose.

Chapters build an idea from nothing; `attnlib` keeps the finished version. Its modules stand on
floors, and an import only ever goes down:

- show: `plots`, `widgets`
- use: `training`, `recipes`, `pretrained`
- models: `ngram`, `recurrent`, `seq2seq`, `transformer`
- ground: `attention`, `positions`, `bpe`, `data`, `trace`

One record flows through the house, the `Trace`: tokens, attention weights and, on request,
logits, values and the residual stream.
"""

from attnlib.attention import MultiHeadAttention
from attnlib.trace import Trace

__version__ = "0.1.0"
__all__ = ["MultiHeadAttention", "Trace"]
