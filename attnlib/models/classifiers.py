"""A classifier with attention: a text goes in, one number comes out.

`AttentionClassifier` is the model of the debate about attention as explanation (Jain and Wallace
2019): encode every token, weigh the states, classify the weighted sum. Those that classify from
[CLS] read the same batches, see `cls`.

Batches are those of a `ReviewVocabulary`: ids padded at the end, and a mask that is True on real
tokens. Nothing here trains: see `training.classification`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlib.attention import check_choice, masked_softmax
from attnlib.models.evaluation import evaluating
from attnlib.models.recurrent import run_padded
from attnlib.tokenizers.words import check_padding, padding_mask
from attnlib.trace import Trace, kept, token_names


class ClassifierOutput(NamedTuple):
    """What a classifier made of a batch.

    Attributes:
        logits: (B,), the log-odds of the positive class.
        attention: weights (B, T); a row sums to 1, padding weighs 0.
        states: what is weighed, h (B, T, d).
    """

    logits: Tensor
    attention: Tensor
    states: Tensor

    @property
    def probability(self) -> Tensor:
        """ŷ, the probability of the positive class, (B,)."""
        return self.logits.sigmoid()


class AttentionClassifier(nn.Module):
    """Embed, encode, weigh, classify: logit = (Σ_t α_t h_t) · w + b (Jain and Wallace 2019).

    The states h come from
    - encoder="lstm": both directions of an LSTM, d = 2 · d_hidden: h_t knows the whole text;
    - "cnn": ReLU of a convolution over `kernel` tokens, d = d_hidden: h_t knows its neighbours;
    - "average": tanh of a linear map of each token alone, d = d_hidden.

    The weights are a softmax over the tokens of
    - attention="additive": v · tanh(h W + b);
    - "dot": h · q / √d with a learned q;
    - "uniform": nothing, 1/T each;
    - "given": they have no parameters and are passed in. With the encoder "average" this is the
      diagnostic network of Wiegreffe and Pinter (2019, section 3.4).

    Every method takes weights in place of the model's own. All arguments are plain numbers and
    strings, so a checkpoint's card can hold them.

    Raises:
        ValueError: if encoder or attention is unknown, with the ones there are.
    """

    def __init__(
        self,
        vocab_size: int,
        d_embed: int = 100,
        d_hidden: int = 64,
        encoder: str = "lstm",
        attention: str = "additive",
        kernel: int = 5,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("encoder", encoder, ("lstm", "average", "cnn"))
        check_choice("attention", attention, ("additive", "dot", "uniform", "given"))
        if kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, to have a token in its middle; got {kernel}")
        self.encoder_kind = encoder
        self.attention_kind = attention
        self.dropout = dropout
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_embed) * d_embed**-0.5)
        self.encoder = _encoder(encoder, d_embed, d_hidden, kernel)
        d = 2 * d_hidden if encoder == "lstm" else d_hidden
        if attention == "additive":
            self.align = nn.Linear(d, max(1, d // 2))
            self.v = nn.Parameter(torch.randn(max(1, d // 2)) * d**-0.5)
        elif attention == "dot":
            self.q = nn.Parameter(torch.randn(d))
        self.output = nn.Linear(d, 1)

    def embed(self, ids: Tensor) -> Tensor:
        """The embeddings of token ids: (B, T) to (B, T, d_embed)."""
        return nn.functional.embedding(ids, self.W_E)

    def states(self, x: Tensor, mask: Tensor) -> Tensor:
        """The states h (B, T, d) of embeddings (B, T, d_embed); padding has no influence."""
        x = nn.functional.dropout(x, self.dropout, self.training)
        if self.encoder_kind == "cnn":
            x = x * mask[:, :, None]  # or padding would be seen by its neighbours
            filtered: Tensor = self.encoder(x.mT)  # a convolution wants (B, d_embed, T)
            return filtered.mT.relu()
        if self.encoder_kind == "average":
            projected: Tensor = self.encoder(x)
            return projected.tanh()
        assert isinstance(self.encoder, nn.LSTM)
        lengths = mask.sum(1).clamp_min(1)  # an empty text is read as one that is padding
        states, _ = run_padded(self.encoder, x, lengths)
        return states

    def attention_weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """The model's own weights α (B, T) for its states (B, T, d).

        Raises:
            ValueError: if the model has none of its own.
        """
        if self.attention_kind == "given":
            raise ValueError("this classifier has no attention of its own: pass weights (B, T)")
        if self.attention_kind == "additive":
            scores = self.align(states).tanh() @ self.v
        elif self.attention_kind == "dot":
            scores = states @ self.q / states.shape[-1] ** 0.5
        else:
            scores = states.new_zeros(states.shape[:-1])
        return masked_softmax(scores, mask)

    def logits_from(self, alpha: Tensor, states: Tensor) -> Tensor:
        """Logits from any weights: α (..., B, T) and states (B, T, d) to (..., B).

        The output is linear, so every token votes h_t · w on its own and α weighs the votes.
        """
        votes = states @ self.output.weight[0]  # (B, T)
        return (alpha * votes).sum(-1) + self.output.bias

    def classify_embeddings(
        self, x: Tensor, mask: Tensor, weights: Tensor | None = None, detach: bool = False
    ) -> ClassifierOutput:
        """As `classify`, from embeddings.

        Args:
            x: (B, T, d_embed).
            mask: True on real tokens, (B, T).
            weights: (B, T), in place of the model's own attention.
            detach: let no gradient flow through the attention, as in Jain and Wallace's code.
        """
        states = self.states(x, mask)
        alpha = self.attention_weights(states, mask) if weights is None else weights
        alpha = alpha.detach() if detach else alpha
        return ClassifierOutput(self.logits_from(alpha, states), alpha, states)

    def classify(
        self, ids: Tensor, mask: Tensor | None = None, weights: Tensor | None = None
    ) -> ClassifierOutput:
        """Logits, attention and states of a batch.

        Args:
            ids: (B, T), padded at the end with 0.
            mask: True on real tokens, (B, T); all that is not 0 if None.
            weights: (B, T), in place of the model's own attention.
        """
        mask = padding_mask(ids) if mask is None else check_padding(mask)
        return self.classify_embeddings(self.embed(ids), mask, weights)

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Logits (B,) of a batch; arguments as in `classify`."""
        return self.classify(ids, mask, weights).logits

    def scorer(
        self, mask: Tensor, weights: Tensor | None = None, detach: bool = False
    ) -> Callable[[Tensor], Tensor]:
        """ŷ (B,) as a function of embeddings (B, T, d_embed): what `saliency` wants."""
        return lambda x: self.classify_embeddings(x, mask, weights, detach).probability

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
        weights: Tensor | None = None,
    ) -> Trace:
        """Where the prediction for one text looked: a map of one layer, one head and one row.

        Args:
            ids: (T,).
            tokens: their names; the ids themselves if None.
            word_ids: not used: the destination is no token of the text.
            keep: of "v" (the states), "final" (their weighted sum) and "logits" (1, 1).
            weights: (T,), in place of the model's own attention.

        Returns:
            a Trace with the destination "prediction".
        """
        sources = token_names(ids, tokens)
        if weights is not None:
            weights = weights[None]
        with evaluating(self):
            output = self.classify(ids[None], weights=weights)
        alpha, states = output.attention, output.states  # (1, T), (1, T, d)
        parts = kept(keep, v=states[None], final=alpha @ states[0], logits=output.logits[None])
        return Trace(("prediction",), alpha[None, None], sources, **parts)


def _encoder(name: str, d_embed: int, d_hidden: int, kernel: int) -> nn.Module:
    """What turns embeddings into states, by the name of `AttentionClassifier`."""
    if name == "lstm":
        return nn.LSTM(d_embed, d_hidden, batch_first=True, bidirectional=True)
    if name == "cnn":
        return nn.Conv1d(d_embed, d_hidden, kernel, padding=kernel // 2)
    return nn.Linear(d_embed, d_hidden)
