"""The helper library of the course: small on purpose.

Chapters build an idea from nothing; `attnlib` keeps the finished version. Its modules stand on
floors, and an import only ever goes down:

- show: `plots`, `widgets`, `check` and `values` (what an exercise says about an answer)
- explain: `saliency`, `faithfulness`, `adversary`, `aggregation`, `debate`
- use: `training`, `recipes`, `histogram_recipes`, `classifier_recipes`, `layouts`, `pretrained`,
  `decoding`, `classify`
- models: `ngram`, `recurrent`, `seq2seq`, `transformer`, `histogram`, `classifiers`
- ground: `attention`, `positions`, `bpe_merges`, `bpe`, `data`, `words`, `dyck`, `trace`

One record flows through the house, the `Trace`: tokens, attention weights and, on request,
logits, values and the residual stream.
"""

from attnlib.attention import MultiHeadAttention
from attnlib.trace import Trace

__version__ = "0.1.0"
__all__ = ["MultiHeadAttention", "Trace"]
