"""One-layer, one-head models that count: how often does the symbol at each position occur?

`HistogramModel` is the architecture that Cui et al. (2024) released for the histogram task. It is
not a case of `attnlib.models.Transformer`: its LayerNorm sits on what attention gives, with no
residual around it, and what queries and keys may see can be restricted, which makes the two minima.
`SmallCounter` is that of Behrens et al. (2025), for counting in few dimensions.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import attention
from attnlib.data import histogram_labels
from attnlib.models.config import check_choice
from attnlib.models.initial import uniform
from attnlib.trace import Trace, kept, token_names

SEES = ("free", "semantic", "positional")
MIXERS = ("dot", "dot + softmax", "linear + softmax")


class _Counter(nn.Module):
    """What both have: a feed-forward network of one hidden layer, (…, d_model) to (…, classes)."""

    def make_network(self, d_model: int, d_hidden: int, classes: int) -> None:
        """Weights and biases, uniform on ±1/√inputs."""
        self.W_1 = uniform(d_model, d_hidden, width=d_model)
        self.b_1 = uniform(d_hidden, width=d_model)
        self.W_2 = uniform(d_hidden, classes, width=d_hidden)
        self.b_2 = uniform(classes, width=d_hidden)

    def network(self, x: Tensor) -> Tensor:
        """Logits of the counts."""
        return (x @ self.W_1 + self.b_1).relu() @ self.W_2 + self.b_2


class HistogramModel(_Counter):
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
        self.W_Q, self.W_K, self.W_V = (uniform(d_model, d_model, width=d_model) for _ in "QKV")
        self.norm = nn.LayerNorm(d_model)
        self.make_network(d_model, d_hidden, length + 1)
        first = (torch.arange(d_model) < d_model // 2).float()
        free = torch.tensor(float(sees == "free"))  # then each half is the whole
        self.register_buffer("token_half", first.maximum(free), persistent=False)
        self.register_buffer("position_half", (1 - first).maximum(free), persistent=False)

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
        values, seen = x @ self.W_V, x if self.sees == "free" else x * self.qk_mask
        return attention(seen @ self.W_Q, seen @ self.W_K, values)

    def readout(self, mixed: Tensor) -> Tensor:
        """From what the head gave, (B, T, d_model), to logits (B, T, classes)."""
        return self.network(self.norm(mixed))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the counts: (B, T) to (B, T, classes)."""
        return self.readout(self.attend(self.embed(ids))[0])

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
            word_ids: not used: a symbol is no piece of a word.
            keep: of "values" and "logits", as in `Transformer.trace`.
        """
        tokens, x = token_names(ids, tokens), self.embed(ids[None])
        mixed, weights = self.attend(x)
        values, logits = x @ self.W_V, self.readout(mixed)[0]
        words = None if word_ids is None else tuple(word_ids)
        parts = kept(keep, values=values[None], logits=logits)
        return Trace(tokens, weights[None], None, words, **parts)

    @torch.no_grad()
    def unfreeze(self) -> "HistogramModel":
        """The same function with nothing frozen: `qk_mask` is folded into W_Q and W_K.

        The unused halves become zeros. Every entry may be trained from there, so that one can ask
        whether the solution stays.
        """
        sizes = len(self.W_E), len(self.W_P), self.W_E.shape[1], len(self.b_1)
        model, state = HistogramModel(*sizes), self.state_dict()
        for name in ("W_Q", "W_K"):
            state[name] = self.qk_mask[:, None] * state[name]
        state["W_E"] = state["W_E"] * self.get_buffer("token_half")
        state["W_P"] = state["W_P"] * self.get_buffer("position_half")
        model.load_state_dict(state)
        return model.train(self.training)


class SmallCounter(_Counter):
    """Token vectors and one head without W_V, then a residual and a small feed-forward network.

    Args:
        d_model, d_hidden: as in `HistogramModel`, and so are vocab_size and length.
        mixer: "dot", the scores q kᵀ / √d_model themselves weigh the tokens; "dot + softmax"; or
            "linear + softmax", one learned matrix of scores for every input.

    Raises:
        ValueError: if the mixer is unknown.
    """

    def __init__(
        self, d_model: int, d_hidden: int, mixer: str, vocab_size: int = 15, length: int = 10
    ) -> None:
        super().__init__()
        check_choice("mixer", mixer, MIXERS)
        self.mixer = mixer
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        if mixer == "linear + softmax":
            self.mix = uniform(length, length, width=length)
        else:
            self.W_Q, self.W_K = (uniform(d_model, d_model, width=d_model) for _ in "QK")
        self.make_network(d_model, d_hidden, length + 1)

    def embed(self, ids: Tensor) -> Tensor:
        """Token vectors: (B, T) to (B, T, d_model)."""
        return F.embedding(ids, self.W_E)

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the head reads: x (B, T, d_model) to output (B, T, d_model), weights (B, T, T)."""
        if self.mixer == "linear + softmax":
            scores = self.mix.expand(len(x), -1, -1)
        else:
            scores = (x @ self.W_Q) @ (x @ self.W_K).mT / x.shape[-1] ** 0.5
        weights = scores if self.mixer == "dot" else scores.softmax(-1)
        return weights @ x, weights

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the counts: (B, T) to (B, T, classes)."""
        x = self.embed(ids)
        return self.network(x + self.attend(x)[0])


def symbol_ids(text: str, vocab_size: int = 15) -> Tensor:
    """A text as symbols, numbered in alphabetical order: (T,) int64.

    >>> symbol_ids("DATAIAIAIA").tolist()
    [1, 0, 3, 0, 2, 0, 2, 0, 2, 0]
    """
    order = {symbol: number for number, symbol in enumerate(sorted(set(text)))}
    if not 0 < len(order) <= vocab_size:
        raise ValueError(f"need 1 to {vocab_size} different symbols, {text!r} has {len(order)}")
    return torch.tensor([order[symbol] for symbol in text])


def fresh(batch_size: int, seed: int = 0) -> Callable[[int], tuple[Tensor, Tensor]]:
    """New uniform rows of 10 of 15 symbols with their counts at every step, for `fit`.

    Returns:
        a function of the step that gives ids and labels, each (batch_size, 10).
    """

    def batch(step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        ids = torch.randint(15, (batch_size, 10), generator=generator)
        return ids, histogram_labels(ids)

    return batch


def count_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the counts, in nats per position."""
    ids, labels = batch
    return F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())


@torch.no_grad()
def accuracy(model: nn.Module, ids: Tensor, labels: Tensor) -> float:
    """Share of positions counted right: ids and labels (N, T)."""
    parts = zip(ids.split(4096), labels.split(4096), strict=True)
    right = sum(int((model(x).argmax(-1) == y).sum()) for x, y in parts)
    return right / labels.numel()


@torch.no_grad()
def map_facts(model: HistogramModel, ids: Tensor) -> dict[str, float]:
    """What the maps of many rows have in common: means over rows and cells.

    Args:
        model: its maps are looked at.
        ids: rows (N, T).

    Returns:
        "diagonal": weight on oneself; "same" and "other": weight on another position with the same
        symbol, and with another one; "moves": mean distance of a weight from its mean over the
        rows, 0 if the map is the same for every input.
    """
    weights = model.attend(model.embed(ids))[1]
    oneself = torch.eye(ids.shape[-1], dtype=torch.bool).expand_as(weights)
    equal = ids[:, :, None] == ids[:, None]
    return {
        "diagonal": weights[oneself].mean().item(),
        "same": weights[equal & ~oneself].mean().item(),
        "other": weights[~equal].mean().item(),
        "moves": (weights - weights.mean(0)).abs().mean().item(),
    }
