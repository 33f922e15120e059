"""Encoder and decoder: read a sentence to its end, then write another one.

`Seq2Seq` is a pair of recurrent networks with a choice of what passes between them: one fixed
context vector (Sutskever et al. 2014; Cho et al. 2014), or attention over every state of the
encoder (Bahdanau, Cho and Bengio 2015). `Vocabulary` and `pad` turn words into ids.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnlib.attention import additive_attention, attention
from attnlib.trace import Trace

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<s>", "</s>")


# --- words and ids ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: the three special ones are 0, 1, 2, then the words in order.

    >>> vocabulary = Vocabulary.of([("twenty", "one"), ("one",)])
    >>> vocabulary.encode(("one",), start=True)
    [1, 3, 2]
    >>> vocabulary.decode([1, 3, 4, 2, 0, 0])
    ('one', 'twenty')
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, sequences: Iterable[Sequence[str]]) -> "Vocabulary":
        """All words that occur, in alphabetical order."""
        return cls(SPECIAL + tuple(sorted({word for words in sequences for word in words})))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Sequence[str], start: bool = False) -> list[int]:
        """The ids of the words, then </s>; with `start`, <s> comes first.

        Raises:
            ValueError: if a word is not in the vocabulary.
        """
        index = {word: i for i, word in enumerate(self.words)}
        unknown = [word for word in words if word not in index]
        if unknown:
            raise ValueError(f"not in the vocabulary: {unknown}; it has {len(self)} words")
        return [BOS] * start + [index[word] for word in words] + [EOS]

    def decode(self, ids: Sequence[int] | Tensor) -> tuple[str, ...]:
        """The words up to the first </s>, special ones left out."""
        row = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        row = row[: row.index(EOS)] if EOS in row else row
        return tuple(self.words[i] for i in row if i not in (PAD, BOS))

    def tensor(self, sequences: Iterable[Sequence[str]], start: bool = False) -> Tensor:
        """Every sequence as a row of ids, padded at the end: (N, T) int64."""
        return pad([self.encode(words, start) for words in sequences])[0]


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of different lengths as one tensor, <pad> at the end.

    Returns:
        ids (N, longest) int64 and lengths (N,) int64.

    >>> pad([[5, 2], [4, 3, 2]])
    (tensor([[5, 2, 0],
            [4, 3, 2]]), tensor([2, 3]))
    """
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    ids = torch.full((len(rows), max(lengths.tolist(), default=0)), PAD)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return ids, lengths


def trim(ids: Tensor) -> Tensor:
    """Cut off the columns that are padding in every row: (B, T) to (B, longest)."""
    return ids[:, : int((ids != PAD).sum(1).max())]


# --- the model --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
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
        if attention not in ("additive", "dot", None):
            raise ValueError(f"attention is 'additive', 'dot' or None, got {attention!r}")
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

    def encode(self, source: Tensor) -> Memory:
        """Read the source (B, S).

        Raises:
            ValueError: if a row is empty or has padding before its end.
        """
        mask = source != PAD
        lengths = mask.sum(1)
        at_end = mask == (torch.arange(source.shape[1]) < lengths[:, None])
        if not at_end.all() or (lengths == 0).any():
            raise ValueError("every source row needs a token, and its <pad> (0) only at the end")
        # packing lets the backward direction start at the last real token
        packed = pack_padded_sequence(
            self.embed_source(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return Memory(states, mask, last.transpose(0, 1).flatten(1))

    def first_state(self, memory: Memory) -> Tensor:
        """s_0, (B, d_model)."""
        return torch.tanh(self.start(memory.final))

    def look(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The context c_i (B, d_model) for a decoder in s_{i−1}, and its weights (B, S) or None."""
        if self.attention is None:
            return memory.final, None
        query, mask = state.unsqueeze(1), memory.mask.unsqueeze(1)  # (B, 1, d), (B, 1, S)
        h = memory.states
        if self.attention == "additive":
            context, weights = additive_attention(query, h, h, self.W, self.U, self.v, mask)
        else:
            context, weights = attention(query @ self.W, h @ self.U, h, mask)
        return context.squeeze(1), weights.squeeze(1)

    def step(
        self, state: Tensor, previous: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Produce one token.

        Args:
            state: s_{i−1}, (B, d_model).
            previous: ids of token i − 1, (B,).
            memory: the encoded source.

        Returns:
            s_i (B, d_model), logits of token i (B, D), weights α_i (B, S) or None.
        """
        context, weights = self.look(state, memory)
        state = self.decoder(torch.cat([self.embed_target(previous), context], -1), state)
        return state, self.readout(torch.cat([state, context], -1)), weights

    def unroll(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """Teacher forcing, with the weights: logits (B, T, D) and (B, T, S) or None."""
        memory = self.encode(source)
        state, logits, weights = self.first_state(memory), [], []
        for previous in target.unbind(1):
            state, scores, alpha = self.step(state, previous, memory)
            logits.append(scores)
            weights += [] if alpha is None else [alpha]
        return torch.stack(logits, 1), torch.stack(weights, 1) if weights else None

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, D) of what follows each token of a target (B, T) that starts with <s>."""
        return self.unroll(source, target)[0]

    @torch.no_grad()
    def trace(
        self,
        source: Tensor,
        target: Tensor | None = None,
        vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    ) -> Trace:
        """Who looked where while one target was written.

        Args:
            source: ids (S,).
            target: ids (T + 1,) from <s> on, given to the decoder whatever it would have said;
                None lets it write (greedy).
            vocabularies: of source and target, to name the tokens.

        Returns:
            a Trace of one layer and one head: row i is the look of s_{i−1}, which *produced*
            token i, so the rows are named by the tokens after <s>. `values` are the h_j.

        Raises:
            ValueError: if the model has no attention.
        """
        if self.attention is None:
            raise ValueError("a model with one fixed context has no attention to trace")
        if target is None:
            target = torch.cat([torch.tensor([BOS]), greedy(self, source[None])[0][0]])
        logits, weights = self.unroll(source[None], target[None, :-1])
        assert weights is not None
        sources, tokens = (
            tuple(vocabularies[side].words[i] if vocabularies else str(i) for i in ids.tolist())
            for side, ids in enumerate((source, target[1:]))
        )
        return Trace(
            tokens=tokens,
            sources=sources,
            attention=weights.unsqueeze(0),
            logits=logits[0],
            values=self.encode(source[None]).states.unsqueeze(0),
        )


def translation_loss(model: Seq2Seq, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the target tokens after <s>, padding left out, in nats per token.

    Args:
        model: the model.
        batch: source ids (B, S) and target ids (B, T) from <s> to </s>, padded at the end.
    """
    source, target = trim(batch[0]), trim(batch[1])
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


# --- decoding ---------------------------------------------------------------------------------


def _log_p(logits: Tensor) -> Tensor:
    """Log-probabilities (B, D); <pad> and <s>, which are 0 and 1, are never written."""
    return logits.log_softmax(-1).index_fill(-1, torch.tensor([PAD, BOS]), -torch.inf)


@torch.no_grad()
def greedy(model: Seq2Seq, source: Tensor, max_length: int = 60) -> tuple[Tensor, Tensor]:
    """Always the most probable next token, until </s>.

    Args:
        model: the model.
        source: ids (B, S).
        max_length: stop there even without </s>.

    Returns:
        ids (B, T) without <s>, <pad> after </s>, and the log-probability of each row, (B,) nats.
    """
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
    memory, rows = model.encode(source), len(source)
    state, token = model.first_state(memory), torch.full((rows,), BOS)
    done, total = torch.zeros(rows, dtype=torch.bool), torch.zeros(rows)
    written: list[Tensor] = []
    while len(written) < max_length and not done.all():
        state, logits, _ = model.step(state, token, memory)
        best, token = _log_p(logits).max(-1)
        token = token.masked_fill(done, PAD)
        total = total + best.masked_fill(done, 0.0)
        written.append(token)
        done = done | (token == EOS)
    return torch.stack(written, 1), total


@torch.no_grad()
def beam(
    model: Seq2Seq, source: Tensor, beams: int = 4, max_length: int = 60, alpha: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Keep the best few beginnings at each step instead of one.

    Hypotheses are ranked by log p / length^alpha, </s> counted in the length: 0 ranks by
    probability and favours short ones, 1 by the mean per token. A beam may lose the greedy
    path, so the greedy translation is always one of the candidates at the end.

    Args:
        model: the model.
        source: ids (B, S); rows are searched one after the other.
        beams: beginnings that are kept.
        max_length: stop there even without </s>.
        alpha: strength of the normalisation by length.

    Returns:
        ids and log-probabilities (not divided by the length) of the best of each row, as `greedy`.
    """
    if beams < 1:
        raise ValueError(f"a search needs at least one beam, got {beams}")
    found = [_search(model, trim(row[None]), beams, max_length, alpha) for row in source]
    return pad([ids for ids, _ in found])[0], torch.tensor([score for _, score in found])


def _search(
    model: Seq2Seq, source: Tensor, beams: int, max_length: int, alpha: float
) -> tuple[list[int], float]:
    """The best translation of one source (1, S), and its log-probability."""

    def rank(hypothesis: tuple[list[int], float]) -> float:
        ids, score = hypothesis
        return score / math.pow(len(ids), alpha)

    ids, total = greedy(model, source, max_length)
    finished: list[tuple[list[int], float]] = [(ids[0].tolist(), float(total))]
    one = model.encode(source)
    state, live = model.first_state(one), [([BOS], 0.0)]
    for length in range(1, max_length + 1):
        n = len(live)
        memory = Memory(*(x.expand(n, *x.shape[1:]) for x in (one.states, one.mask, one.final)))
        state, logits, _ = model.step(state, torch.tensor([row[-1] for row, _ in live]), memory)
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
        if not live or max(map(rank, finished)) > live[0][1] / max_length**alpha:
            break
    return max(finished, key=rank)
