"""Tasks of chapter 01: smoothing, bits per byte, the window of an n-gram model, the loss."""

import math

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task


def _counts(draw: Draw) -> Tensor:
    """Counts as a text gives them: many zeros, a few large ones, a context that never occurred."""
    contexts, tokens = draw.size(), draw.size()
    counts = [draw.choices((0, 0, 0, 1, 1, 2, 5, 40), tokens) for _ in range(contexts)]
    counts[draw.integer(0, contexts - 1)] = [0] * tokens
    return torch.tensor(counts)


# --- add_k ----------------------------------------------------------------------------------------


def _add_k(draw: Draw) -> Args:
    return _counts(draw), draw.number(0.1, 3)


ADD_K = Task(
    "add_k",
    _add_k,
    visible=(
        (torch.tensor([[3, 1, 0], [0, 0, 0]]), 1),
        (torch.tensor([[8, 0, 1, 1, 0], [2, 2, 2, 2, 2], [0, 90, 0, 0, 1]]), 0.1),
    ),
)


# --- witten_bell ----------------------------------------------------------------------------------


def _witten_bell(draw: Draw) -> Args:
    counts = _counts(draw)
    return counts, draw.rows(counts.shape[1])


BELL = Task(
    "witten_bell",
    _witten_bell,
    visible=(
        (torch.tensor([[3, 1, 2, 0], [0, 0, 0, 0]]), table([0.5, 0.25, 0.125, 0.125])),
        (
            torch.tensor([[9, 1, 0], [0, 3, 0], [1, 1, 1], [0, 0, 70], [0, 0, 0], [0, 0, 0]]),
            table([0.5, 0.3, 0.2]),
        ),
    ),
)


# --- bits_per_byte --------------------------------------------------------------------------------

WORDS = ("film", "Amélie", "naïve", "café", "very", "“great”", "日本", "a", "€ 10", "🎬")


def _text(draw: Draw, tokens: int) -> Args:
    words = [*draw.choices(WORDS, tokens), "fiancée"]
    return draw.uniform(tokens, low=-4, high=-0.1), " ".join(words) + "\n"


def _bits_per_byte(draw: Draw) -> Args:
    return _text(draw, draw.size())


def _long(draw: Draw) -> list[Args]:
    """So many tokens that the product of their probabilities is 0 in a float."""
    return [_text(draw, 300)]


L2 = math.log(2)

BITS = Task(
    "bits_per_byte",
    _bits_per_byte,
    also=_long,
    visible=(
        (table([-L2, -2 * L2, -4 * L2]), "Amélie"),
        (table([-0.5, -3.2, -1.7, -4.1]), "a naïve film"),
        (table([-1.2, -0.4, -2.5]), " café 🎬\n"),
        (torch.arange(-90.0, 90.0) / 30 - 5, "Un café, s’il vous plaît. " * 20),
    ),
)


# --- windows: concatenation -----------------------------------------------------------------------


def _windows(draw: Draw) -> Args:
    n, B, T, d = draw.size(2), draw.size(), draw.size(), draw.size()
    return draw.normal(B, T, d), draw.normal(d), n


WINDOWS = Task(
    "windows",
    _windows,
    visible=(
        (table([[[1, 10], [2, 20], [3, 30]]]), table([0, -1]), 3),
        (tenths(1, 2, 5, 3), tenths(2, 3), 4),
        (tenths(3, 2, 2, 2), tenths(4, 2), 5),  # a window longer than the text
    ),
)


# --- next_token_loss: the notes' formula, with its index ------------------------------------------


def _next_token_loss(draw: Draw) -> Args:
    B, T, D = draw.size(), draw.size(2), draw.size(2)
    return 2 * draw.normal(B, T, D), draw.integers(0, D, B, T)


def _far_apart(draw: Draw) -> list[Args]:
    """Logits of some hundreds: a probability rounds to 0, or its exponential overflows."""
    return [(300 * draw.normal(2, 4, 5), draw.integers(0, 5, 2, 4))]


LOSS = Task(
    "next_token_loss",
    _next_token_loss,
    also=_far_apart,
    visible=(
        (table([[[0, 0, 0, 0], [0, 9, 0, 0], [5, 0, 0, 0]]]), torch.tensor([[3, 2, 1]])),
        (tenths(5, 2, 4, 5), torch.tensor([[0, 3, 3, 1], [4, 2, 0, 2]])),
        (table([[[400, 0, 0], [400, 0, 0], [0, 0, 1]]]), torch.tensor([[2, 1, 0]])),
    ),
)

TASKS: tuple[Task, ...] = (ADD_K, BELL, BITS, WINDOWS, LOSS)
