"""Encoder and decoder: read a sentence to its end, then write another one.

`Seq2Seq` is a pair of recurrent networks with a choice of what passes between them: one fixed
context vector (Sutskever et al. 2014; Cho et al. 2014), or attention over every state of the
encoder (Bahdanau, Cho and Bengio 2015). It reads and writes the ids of a `Vocabulary`.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import additive_attention, attention
from attnlib.models.config import check_choice
from attnlib.models.evaluation import evaluating
from attnlib.models.recurrent import run_padded
from attnlib.tokenizers.words import BOS, EOS, PAD, Vocabulary, pad, padding_mask, trim
from attnlib.trace import Trace, kept

LONGEST = 60  # tokens of a translation, unless told otherwise


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


class EncoderDecoder(Protocol):
    """What a model needs so that `greedy` and `beam` can write with it; see `Seq2Seq`."""

    def encoder_output(self, source: Tensor) -> EncoderOutput:
        """Read the source."""

    def initial_state(self, encoded: EncoderOutput) -> Tensor:
        """The state before the first token."""

    def step(
        self, state: Tensor, previous: Tensor, encoded: EncoderOutput, /
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The next state, the logits of the next token, and where the model looked."""


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
        return EncoderOutput(states, mask, last.transpose(0, 1).flatten(1))

    def initial_state(self, encoded: EncoderOutput) -> Tensor:
        """s_0, (B, d_model)."""
        return torch.tanh(self.start(encoded.final))

    def attend(self, state: Tensor, encoded: EncoderOutput) -> tuple[Tensor, Tensor | None]:
        """The context c_i (B, d_model) for a decoder in s_{i−1}, and its weights (B, S) or None."""
        if self.attention is None:
            return encoded.final, None
        query, mask = state.unsqueeze(1), encoded.mask.unsqueeze(1)  # (B, 1, d), (B, 1, S)
        h = encoded.states
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
        return state, self.readout(torch.cat([state, context], -1)), weights

    def teacher_forcing(
        self, encoded: EncoderOutput, target: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """What follows each token of a given target, and where the decoder looked.

        Target ids (B, T) to logits (B, T, D) and weights (B, T, S) or None.
        """
        state, logits, weights = self.initial_state(encoded), [], []
        for previous in target.unbind(1):
            state, scores, alpha = self.step(state, previous, encoded)
            logits.append(scores)
            weights += [] if alpha is None else [alpha]
        return torch.stack(logits, 1), torch.stack(weights, 1) if weights else None

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, D) of what follows each token of a target (B, T) that starts with <s>."""
        return self.teacher_forcing(self.encoder_output(source), target)[0]

    @torch.no_grad()
    def trace(
        self,
        source: Tensor,
        target: Tensor | None = None,
        vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
        keep: str | Iterable[str] = (),
    ) -> Trace:
        """Who looked where while one target was written.

        Args:
            source: ids (S,).
            target: ids (T + 1,) from <s> on, given to the decoder whatever it would have said;
                None lets it write (greedy).
            vocabularies: of source and target, to name the tokens.
            keep: of "values" (the h_j) and "logits", as in `Transformer.trace`.

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
            if target is None:
                target = torch.cat([torch.tensor([BOS]), _greedy(self, encoded)[0][0]])
            logits, weights = self.teacher_forcing(encoded, target[None, :-1])
        assert weights is not None
        sources, tokens = (
            tuple(vocabularies[side].words[i] if vocabularies else str(i) for i in ids.tolist())
            for side, ids in enumerate((source, target[1:]))
        )
        parts = kept(keep, values=encoded.states[None], logits=logits[0])
        return Trace(tokens, weights[None], sources, **parts)


def translation_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the target tokens after <s>, padding left out, in nats per token.

    Args:
        model: the model.
        batch: source ids (B, S) and target ids (B, T) from <s> to </s>, padded at the end.
    """
    source, target = trim(batch[0]), trim(batch[1])
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


# --- writing ---------------------------------------------------------------------------------


def _log_p(logits: Tensor) -> Tensor:
    """Log-probabilities (B, D); <pad> and <s>, which are 0 and 1, are never written."""
    return logits.log_softmax(-1).index_fill(-1, torch.tensor([PAD, BOS]), -torch.inf)


@torch.no_grad()
def greedy(
    model: EncoderDecoder, source: Tensor, max_length: int = LONGEST
) -> tuple[Tensor, Tensor]:
    """Always the most probable next token, until </s>.

    Args:
        model: the model.
        source: ids (B, S).
        max_length: stop there even without </s>.

    Returns:
        ids (B, T) without <s>, <pad> after </s>, and the log-probability of each row, (B,) nats.
    """
    return _greedy(model, model.encoder_output(source), max_length)


def _greedy(
    model: EncoderDecoder, encoded: EncoderOutput, max_length: int = LONGEST
) -> tuple[Tensor, Tensor]:
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
    rows = len(encoded.final)
    state, token = model.initial_state(encoded), torch.full((rows,), BOS)
    done, total = torch.zeros(rows, dtype=torch.bool), torch.zeros(rows)
    written: list[Tensor] = []
    while len(written) < max_length and not done.all():
        state, logits, _ = model.step(state, token, encoded)
        best, token = _log_p(logits).max(-1)
        token = token.masked_fill(done, PAD)
        total = total + best.masked_fill(done, 0.0)
        written.append(token)
        done = done | (token == EOS)
    return torch.stack(written, 1), total


@torch.no_grad()
def beam(
    model: EncoderDecoder, source: Tensor, beams: int = 4, max_length: int = LONGEST
) -> tuple[Tensor, Tensor]:
    """Keep the best few beginnings at each step instead of one.

    A beam may lose the greedy path, so the greedy translation is always one of the candidates at
    the end. Ranked by log p, short translations are favoured.

    Args:
        model: the model.
        source: ids (B, S); rows are searched one after the other.
        beams: beginnings that are kept.
        max_length: stop there even without </s>.

    Returns:
        ids and log-probabilities of the best of each row, as `greedy`.
    """
    if beams < 1:
        raise ValueError(f"a search needs at least one beam, got {beams}")
    found = [_search(model, trim(row[None]), beams, max_length) for row in source]
    return pad([ids for ids, _ in found]), torch.tensor([score for _, score in found])


def _search(
    model: EncoderDecoder, source: Tensor, beams: int, max_length: int
) -> tuple[list[int], float]:
    """The best translation of one source (1, S), and its log-probability."""
    one = model.encoder_output(source)
    ids, total = _greedy(model, one, max_length)
    finished: list[tuple[list[int], float]] = [(ids[0].tolist(), float(total))]
    state, live = model.initial_state(one), [([BOS], 0.0)]
    for length in range(1, max_length + 1):
        n = len(live)
        encoded = EncoderOutput(*(x.expand(n, *x.shape[1:]) for x in one))
        state, logits, _ = model.step(state, torch.tensor([row[-1] for row, _ in live]), encoded)
        scores = _log_p(logits) + torch.tensor([score for _, score in live])[:, None]
        best, place = scores.flatten().topk(min(beams, n * (scores.shape[1] - 2)))
        parents, tokens = place // scores.shape[1], place % scores.shape[1]
        grown = [
            ([*live[p][0], t], score)
            for p, t, score in zip(parents.tolist(), tokens.tolist(), best.tolist(), strict=True)
        ]
        finished += [(row[1:], s) for row, s in grown if row[-1] == EOS or length == max_length]
        alive = (tokens != EOS).nonzero()[:, 0]
        live, state = [grown[i] for i in alive.tolist()], state[parents[alive]]
        # log p only falls: stop when even the best of the living could no longer win
        if not live or max(score for _, score in finished) > live[0][1]:
            break
    return max(finished, key=lambda found: found[1])
