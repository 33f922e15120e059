"""From ids to logits, and to a `Trace` on request: every model of the course.

Nothing here is trained or loaded, and none of them knows a tokenizer.
"""

from attnlib.models.cache import KVCache
from attnlib.models.classifiers import AttentionClassifier, ClassifierOutput
from attnlib.models.cls import TransformerClassifier
from attnlib.models.evaluation import evaluating
from attnlib.models.histogram import HistogramModel
from attnlib.models.ngram import CountModel, NeuralNgram, ZeroLayer
from attnlib.models.recurrent import Elman, Recurrent
from attnlib.models.seq2seq import Seq2Seq
from attnlib.models.transformer import Edit, Edits, LayerState, Transformer, TransformerConfig
from attnlib.models.translator import Translator

__all__ = [
    "AttentionClassifier",
    "ClassifierOutput",
    "CountModel",
    "Edit",
    "Edits",
    "Elman",
    "HistogramModel",
    "KVCache",
    "LayerState",
    "NeuralNgram",
    "Recurrent",
    "Seq2Seq",
    "Transformer",
    "TransformerClassifier",
    "TransformerConfig",
    "Translator",
    "ZeroLayer",
    "evaluating",
]
