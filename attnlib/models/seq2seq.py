"""Encoder and decoder: read a sentence to its end, then write another one.

`Seq2Seq` is a pair of recurrent networks with a choice of what passes between them: one fixed
context vector (Sutskever et al. 2014; Cho et al. 2014), or attention over every state of the
encoder (Bahdanau, Cho and Bengio 2015). It reads and writes the ids of a `Vocabulary`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import additive_attention, attention, check_choice
from attnlib.models.evaluation import evaluating
from attnlib.models.recurrent import run_padded
from attnlib.tokenizers.words import PAD, Vocabulary, padding_mask, trim
from attnlib.trace import Trace, kept, token_names


class EncoderOutput(NamedTuple):
    """What the decoder knows of the source.

    Attributes:
        states: h_j, one for each source token, (B, S, d_model).
        mask: True on real tokens, (B, S).
        final: where both directions of the encoder ended, (B, d_model).
    """

    states: Tensor
    mask: Tensor
    final: Tensor


class Seq2Seq(nn.Module):
    """A GRU encoder that reads both ways and a GRU decoder.

    To produce token i, the decoder in state s_{i−1} takes the token before it and a context c_i,
    and moves on to s_i; s_i and c_i give the logits. The context is
    - attention=None: the encoder's final state, the same for every i;
    - "additive": c_i = Σ_j α_ij h_j, α_i = softmax_j vᵀ tanh(s_{i−1} W + h_j U);
    - "dot": the same with the score (s_{i−1} W) · (h_j U) / √d_model.

    Source ids are padded at the end with 0 and usually close with </s>.
    """

    def __init__(
        self, source_size: int, target_size: int, d_model: int, attention: str | None = "additive"
    ) -> None:
        super().__init__()
        check_choice("attention", attention, ("additive", "dot", None))
        if d_model < 2 or d_model % 2:
            raise ValueError(f"two directions share d_model, so it must be even, got {d_model}")
        self.attention = attention
        self.embed_source = nn.Embedding(source_size, d_model)
        self.embed_target = nn.Embedding(target_size, d_model)
        self.encoder = nn.GRU(d_model, d_model // 2, batch_first=True, bidirectional=True)
        self.start = nn.Linear(d_model, d_model)
        self.decoder = nn.GRUCell(2 * d_model, d_model)
        self.readout = nn.Linear(2 * d_model, target_size)
        std = d_model**-0.5
        if attention is not None:
            self.W = nn.Parameter(torch.randn(d_model, d_model) * std)
            self.U = nn.Parameter(torch.randn(d_model, d_model) * std)
        if attention == "additive":
            self.v = nn.Parameter(torch.randn(d_model) * std)

    def encoder_output(self, source: Tensor) -> EncoderOutput:
        """Read the source (B, S).

        Raises:
            ValueError: if a row is empty or has padding before its end.
        """
        mask = padding_mask(source)
        lengths = mask.sum(1)
        if (lengths == 0).any():
            raise ValueError("every source row needs a token")
        states, last = run_padded(self.encoder, self.embed_source(source), lengths)
        final = last.transpose(0, 1).flatten(1)  # (2, B, d_model / 2) to (B, d_model)
        return EncoderOutput(states, mask, final)

    def initial_state(self, encoded: EncoderOutput) -> Tensor:
        """s_0, (B, d_model)."""
        return torch.tanh(self.start(encoded.final))

    def attend(self, state: Tensor, encoded: EncoderOutput) -> tuple[Tensor, Tensor | None]:
        """The context c_i (B, d_model) for a decoder in s_{i−1}, and its weights (B, S) or None."""
        if self.attention is None:
            return encoded.final, None
        query = state.unsqueeze(1)  # (B, 1, d_model)
        mask = encoded.mask.unsqueeze(1)  # (B, 1, S)
        h = encoded.states  # (B, S, d_model)
        if self.attention == "additive":
            context, weights = additive_attention(query, h, h, self.W, self.U, self.v, mask)
        else:
            context, weights = attention(query @ self.W, h @ self.U, h, mask)
        return context.squeeze(1), weights.squeeze(1)

    def step(
        self, state: Tensor, previous: Tensor, encoded: EncoderOutput
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Produce one token.

        Args:
            state: s_{i−1}, (B, d_model).
            previous: ids of token i − 1, (B,).
            encoded: the encoded source.

        Returns:
            s_i (B, d_model), logits of token i (B, D), weights α_i (B, S) or None.
        """
        context, weights = self.attend(state, encoded)
        state = self.decoder(torch.cat([self.embed_target(previous), context], -1), state)
        logits = self.readout(torch.cat([state, context], -1))
        return state, logits, weights

    def teacher_forcing(
        self, encoded: EncoderOutput, target: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """What follows each token of a target, and where the decoder looked.

        Target ids (B, T) to logits (B, T, D) and weights (B, T, S) or None.
        """
        state = self.initial_state(encoded)
        logits, weights = [], []
        for previous in target.unbind(1):
            state, logits_i, weights_i = self.step(state, previous, encoded)
            logits.append(logits_i)
            if weights_i is not None:
                weights.append(weights_i)
        return torch.stack(logits, 1), torch.stack(weights, 1) if weights else None

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, D) of what follows each token of a target (B, T) that starts with <s>."""
        return self.teacher_forcing(self.encoder_output(source), target)[0]

    @torch.no_grad()
    def trace(
        self,
        source: Tensor,
        target: Tensor,
        vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
        keep: str | Iterable[str] = (),
    ) -> Trace:
        """Who looked where while one target was written.

        Args:
            source: ids (S,).
            target: ids (T + 1,) from <s> on; the decoder reads them, whatever it would have said.
            vocabularies: of source and target, to name the tokens.
            keep: "v" (the h_j) or "logits" or both, as in `Transformer.trace`.

        Returns:
            a Trace of one layer and one head: row i is the attention of s_{i−1}, which *produced*
            token i, so the rows are named by the tokens after <s>.

        Raises:
            ValueError: if the model has no attention.
        """
        if self.attention is None:
            raise ValueError("a model with one fixed context has no attention to trace")
        with evaluating(self):
            encoded = self.encoder_output(source[None])
            logits, weights = self.teacher_forcing(encoded, target[None, :-1])
        assert weights is not None
        source_words, target_words = vocabularies or (None, None)
        sources = names_of(source, source_words)
        tokens = names_of(target[1:], target_words)
        parts = kept(keep, v=encoded.states[None], logits=logits[0])
        return Trace(tokens, weights[None], sources, **parts)


def names_of(ids: Tensor, vocabulary: Vocabulary | None) -> tuple[str, ...]:
    """The tokens of one text (T,) by name, or by their ids without a vocabulary."""
    if vocabulary is None:
        return token_names(ids, None)
    return token_names(ids, [vocabulary.words[i] for i in ids.tolist()])


def translation_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the target tokens after <s>, padding left out, in nats per token.

    Args:
        model: the model.
        batch: source ids (B, S) and target ids (B, T) from <s> to </s>, padded at the end.
    """
    source, target = trim(batch[0]), trim(batch[1])
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
