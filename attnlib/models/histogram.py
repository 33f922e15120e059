"""A one-layer, one-head model that counts: how often does the symbol at each position occur?

`HistogramModel` is the architecture that Cui et al. (2024) released for the histogram task. It is
not a case of `attnlib.models.Transformer`: its LayerNorm sits on what attention gives, with no
residual around it, and what queries and keys may see can be restricted, which makes the two minima.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import attention, check_choice
from attnlib.models.initial import uniform
from attnlib.trace import Trace, kept, token_names

SEES = ("free", "semantic", "positional")


class HistogramModel(nn.Module):
    """Token + position vectors, one head, LayerNorm without residual, a small feed-forward network.

    With `sees` other than "free", tokens live in the first half of the d_model dimensions and
    positions in the second. Queries and keys are made of x ⊙ m, where the 0/1 row m (`qk_mask`)
    keeps one half: the map is then a function of the tokens alone or of the positions alone.
    Values always see both. A count c is class c, so there are length + 1 classes.

    Args:
        vocab_size: D, different symbols.
        length: the most positions a row may have.
        d_model: width, also of queries, keys and values; even, unless `sees` is "free".
        d_hidden: p, hidden width of the feed-forward network.
        sees: what attention sees of the input, "free" (all), "semantic" (tokens) or "positional".

    Raises:
        ValueError: if `sees` is unknown, or d_model cannot be halved.
    """

    def __init__(
        self,
        vocab_size: int = 15,
        length: int = 10,
        d_model: int = 64,
        d_hidden: int = 128,
        sees: str = "free",
    ) -> None:
        super().__init__()
        check_choice("sees", sees, SEES)
        if sees != "free" and d_model % 2:
            raise ValueError(f"tokens and positions share d_model, so it must be even: {d_model}")
        self.sees = sees
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        self.W_P = nn.Parameter(torch.randn(length, d_model))
        self.W_Q = uniform(d_model, d_model, width=d_model)
        self.W_K = uniform(d_model, d_model, width=d_model)
        self.W_V = uniform(d_model, d_model, width=d_model)
        self.norm = nn.LayerNorm(d_model)
        self.W_1 = uniform(d_model, d_hidden, width=d_model)
        self.b_1 = uniform(d_hidden, width=d_model)
        self.W_2 = uniform(d_hidden, length + 1, width=d_hidden)
        self.b_2 = uniform(length + 1, width=d_hidden)
        token_half = (torch.arange(d_model) < d_model // 2).float()
        position_half = 1 - token_half
        if sees == "free":  # then each half is the whole
            token_half = position_half = torch.ones(d_model)
        self.register_buffer("token_half", token_half, persistent=False)
        self.register_buffer("position_half", position_half, persistent=False)

    @property
    def qk_mask(self) -> Tensor:
        """The 0/1 row that multiplies the inputs of W_Q and W_K, (d_model,)."""
        return self.get_buffer("position_half" if self.sees == "positional" else "token_half")

    def embed(self, ids: Tensor) -> Tensor:
        """Token plus position: (B, T) to (B, T, d_model)."""
        if ids.shape[-1] > len(self.W_P):
            raise ValueError(f"at most {len(self.W_P)} positions, got {ids.shape[-1]}")
        x = F.embedding(ids, self.W_E) * self.get_buffer("token_half")
        return x + self.W_P[: ids.shape[-1]] * self.get_buffer("position_half")

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the head reads: x (B, T, d_model) to output (B, T, d_model), weights (B, T, T)."""
        seen = x * self.qk_mask
        return attention(seen @ self.W_Q, seen @ self.W_K, x @ self.W_V)

    def readout(self, z: Tensor) -> Tensor:
        """From what the head gives, (B, T, d_model), to logits (B, T, classes)."""
        hidden: Tensor = (self.norm(z) @ self.W_1 + self.b_1).relu()
        return hidden @ self.W_2 + self.b_2

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the counts: (B, T) to (B, T, classes)."""
        z, _ = self.attend(self.embed(ids))
        return self.readout(z)

    @torch.no_grad()
    def trace(
        self,
        ids: Tensor,
        tokens: Sequence[str] | None = None,
        word_ids: Sequence[int] | None = None,
        keep: str | Iterable[str] = (),
    ) -> Trace:
        """The record of one row.

        Args:
            ids: (T,).
            tokens: their names; the numbers themselves if None.
            word_ids: word index of each symbol, if there is one.
            keep: of "v" and "logits", as in `Transformer.trace`.
        """
        tokens = token_names(ids, tokens)
        words = None if word_ids is None else tuple(word_ids)
        x = self.embed(ids[None])
        z, weights = self.attend(x)
        parts = kept(keep, v=(x @ self.W_V)[None], logits=self.readout(z)[0])
        return Trace(tokens, weights[None], None, words, **parts)
