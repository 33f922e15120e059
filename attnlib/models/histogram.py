"""A one-layer, one-head transformer that counts: how often does the symbol at each position occur?

`HistogramModel()` is the architecture that Cui et al. (2024) released for the histogram task; with
`plain=True` it is that of Behrens et al. (2025), for counting in few dimensions. It is not a case
of `attnlib.models.Transformer`: its LayerNorm sits on what attention gives, with no residual
around it, and what queries and keys may see can be restricted, which makes the two minima.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import attention, masked_softmax
from attnlib.data import histogram_labels
from attnlib.models.config import check_choice
from attnlib.trace import Trace, kept, token_names

SEES = ("free", "semantic", "positional")


class HistogramModel(nn.Module):
    """Token + position vectors, one head, LayerNorm without residual, a small feed-forward network.

    With `sees` other than "free", tokens live in the first half of the d_model dimensions and
    positions in the second. Queries and keys are made of x ⊙ m, where the 0/1 row m (`qk_mask`)
    keeps one half: the map is then a function of the tokens alone or of the positions alone.
    Values always see both.

    Args:
        vocab_size: D, different symbols.
        length: the most positions a row may have.
        d_model: width, also of queries, keys and values; even, unless `sees` is "free".
        d_hidden: p, hidden width of the feed-forward network.
        classes: outputs per position; a count c is class c.
        sees: what attention sees of the input, "free" (all), "semantic" (tokens) or "positional".
        mixer: "dot", scores q kᵀ / √d_model; or "linear", one learned matrix for every input.
        softmax: whether the scores pass a softmax.
        plain: no positions, no W_V, no LayerNorm, and a residual around the head.

    Raises:
        ValueError: if an argument is unknown, or the arguments do not go together.
    """

    def __init__(
        self,
        vocab_size: int = 15,
        length: int = 10,
        d_model: int = 64,
        d_hidden: int = 128,
        classes: int = 11,
        sees: str = "free",
        mixer: str = "dot",
        softmax: bool = True,
        plain: bool = False,
    ) -> None:
        super().__init__()
        _check_choices(sees, mixer, d_model, plain)
        self.sees, self.softmax, self.plain = sees, softmax, plain
        self.W_E = nn.Parameter(torch.randn(vocab_size, d_model))
        self.W_P = None if plain else nn.Parameter(torch.randn(length, d_model))
        self.mix = _uniform(length, length) if mixer == "linear" else None
        self.W_Q = _uniform(d_model, d_model) if mixer == "dot" else None
        self.W_K = _uniform(d_model, d_model) if mixer == "dot" else None
        self.W_V = None if plain else _uniform(d_model, d_model)
        self.norm = None if plain else nn.LayerNorm(d_model)
        self.W_1, self.b_1 = _uniform(d_model, d_hidden), _uniform(d_hidden, fan_in=d_model)
        self.W_2, self.b_2 = _uniform(d_hidden, classes), _uniform(classes, fan_in=d_hidden)
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
        x = F.embedding(ids, self.W_E) * self.get_buffer("token_half")
        if self.W_P is None:
            return x
        return x + self.W_P[: ids.shape[-1]] * self.get_buffer("position_half")

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the head reads: x (B, T, d_model) to output (B, T, d_model), weights (B, T, T)."""
        values = x if self.W_V is None else x @ self.W_V
        if self.W_Q is not None and self.W_K is not None:
            seen = x if self.sees == "free" else x * self.qk_mask
            q, k = seen @ self.W_Q, seen @ self.W_K
            if self.softmax:
                return attention(q, k, values)
            weights = q @ k.mT / x.shape[-1] ** 0.5
        else:
            assert self.mix is not None
            scores = self.mix[: x.shape[-2], : x.shape[-2]].expand(len(x), -1, -1)
            weights = masked_softmax(scores) if self.softmax else scores
        return weights @ values, weights

    def readout(self, x: Tensor, mixed: Tensor) -> Tensor:
        """From what the head gave, (B, T, d_model), to logits (B, T, classes)."""
        hidden: Tensor = x + mixed if self.norm is None else self.norm(mixed)
        return (hidden @ self.W_1 + self.b_1).relu() @ self.W_2 + self.b_2

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the counts: (B, T) to (B, T, classes)."""
        length = self.W_P if self.mix is None else self.mix
        if length is not None and ids.shape[-1] > len(length):
            raise ValueError(f"at most {len(length)} positions, got {ids.shape[-1]}")
        x = self.embed(ids)
        return self.readout(x, self.attend(x)[0])

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
            word_ids: word index of each token, if they are pieces of words.
            keep: of "values" and "logits", as in `Transformer.trace`.

        Raises:
            ValueError: if the scores pass no softmax: what mixes the values is then no attention.
        """
        if not self.softmax:
            raise ValueError("this model mixes by raw scores, which are no weights: use `attend`")
        tokens, x = token_names(ids, tokens), self.embed(ids[None])
        mixed, weights = self.attend(x)
        values, logits = x if self.W_V is None else x @ self.W_V, self.readout(x, mixed)[0]
        words = None if word_ids is None else tuple(word_ids)
        parts = kept(keep, values=values[None], logits=logits)
        return Trace(tokens, weights[None], None, words, **parts)

    @torch.no_grad()
    def unfreeze(self) -> "HistogramModel":
        """The same function with nothing frozen: `qk_mask` is folded into W_Q and W_K.

        The unused halves become zeros. Every entry may be trained from there, so that one can ask
        whether the solution stays.

        Raises:
            ValueError: if the model has no positions, or no dot-product attention.
        """
        if self.W_P is None or self.W_Q is None or self.W_K is None:
            raise ValueError("unfreeze needs a model with positions and dot-product attention")
        sizes = len(self.W_E), len(self.W_P), self.W_E.shape[1], len(self.b_1), len(self.b_2)
        model, state = HistogramModel(*sizes, softmax=self.softmax), self.state_dict()
        for name in ("W_Q", "W_K"):
            state[name] = self.qk_mask[:, None] * state[name]
        state["W_E"] = state["W_E"] * self.get_buffer("token_half")
        state["W_P"] = state["W_P"] * self.get_buffer("position_half")
        model.load_state_dict(state)
        return model.train(self.training)


def _check_choices(sees: str, mixer: str, d_model: int, plain: bool) -> None:
    check_choice("sees", sees, SEES)
    check_choice("mixer", mixer, ("dot", "linear"))
    if sees != "free" and (d_model % 2 or plain or mixer == "linear"):
        raise ValueError(
            f"sees={sees!r} needs dot-product attention, positions, and an even d_model to share "
            f"between the two; got d_model {d_model}, mixer {mixer!r}, plain {plain}"
        )


def _uniform(*shape: int, fan_in: int | None = None) -> nn.Parameter:
    """Uniform within ± 1/√fan_in, the framework's own start for a linear layer."""
    bound = (shape[0] if fan_in is None else fan_in) ** -0.5
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def symbol_ids(text: str, vocab_size: int = 15) -> Tensor:
    """A text as symbols, numbered in alphabetical order: (T,) int64.

    >>> symbol_ids("DATAIAIAIA").tolist()
    [1, 0, 3, 0, 2, 0, 2, 0, 2, 0]
    """
    order = {symbol: number for number, symbol in enumerate(sorted(set(text)))}
    if not 0 < len(order) <= vocab_size:
        raise ValueError(f"need 1 to {vocab_size} different symbols, {text!r} has {len(order)}")
    return torch.tensor([order[symbol] for symbol in text])


def fresh(
    batch_size: int, length: int = 10, symbols: int = 15, seed: int = 0
) -> Callable[[int], tuple[Tensor, Tensor]]:
    """New uniform rows with their counts at every step, for `attnlib.training.fit`.

    Returns:
        a function of the step that gives ids and labels, each (batch_size, length).
    """

    def batch(step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        ids = torch.randint(symbols, (batch_size, length), generator=generator)
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
