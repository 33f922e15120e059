"""Tasks of chapter 01: smoothing, bits per byte, the window of an n-gram model, the loss."""

import math
import random
from typing import Any

import torch
from torch import Generator, Tensor

from grading.task import Task


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


def _counts(rng: random.Random, contexts: int, tokens: int) -> Tensor:
    """Counts as a text gives them: many zeros, a few large ones."""
    drawn = [
        [rng.choice((0, 0, 0, 1, 1, 2, rng.randint(3, 40))) for _ in range(tokens)]
        for _ in range(contexts)
    ]
    for row in drawn:
        row[rng.randrange(tokens)] += 1
    return torch.tensor(drawn)


# --- add_k ----------------------------------------------------------------------------------------


def _add_k(counts: Tensor, k: float) -> Tensor:
    """Cell by cell."""
    rows = counts.tolist()
    return _table([[(n + k) / (sum(row) + k * len(row)) for n in row] for row in rows])


def _add_k_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, float]]:
    cases = []
    for k in (1.0, 0.01, round(rng.uniform(0.1, 0.9), 2), 5.0):
        contexts, tokens = rng.sample(range(2, 9), 2)
        cases.append((_counts(rng, contexts, tokens), k))
    counts = _counts(rng, 3, rng.randint(4, 7))
    counts[1] = 0
    square = _counts(rng, 4, 4)  # as many contexts as tokens, and once more: nothing is kept
    return [*cases, (square, 2.0), (_counts(rng, 4, 4), 2.0), (counts, 0.5)]


ADD_K = Task(
    name="add_k",
    reference=_add_k,
    visible=(
        (torch.tensor([[3, 1, 0], [0, 0, 0]]), 1.0),
        (torch.tensor([[8, 0, 1, 1, 0], [2, 2, 2, 2, 2], [0, 90, 0, 0, 1]]), 0.1),
        (torch.tensor([[0, 0, 7], [1, 2, 1]]), 1.0),  # the first shape again
    ),
    hidden=_add_k_hidden,
)


# --- witten_bell ----------------------------------------------------------------------------------


def _witten_bell(counts: Tensor, shorter: Tensor) -> Tensor:
    """Cell by cell."""
    answer = torch.empty(counts.shape, dtype=shorter.dtype)
    for c, row in enumerate(counts.tolist()):
        total, kinds = sum(row), len([n for n in row if n])
        for w, n in enumerate(row):
            p = float(shorter[w])
            answer[c, w] = (n + kinds * p) / (total + kinds) if total else p
    return answer


def _bell_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for _ in range(5):
        contexts, tokens = rng.sample(range(3, 10), 2)
        counts = _counts(rng, contexts, tokens)
        shorter = torch.rand(tokens, generator=generator, dtype=torch.float64) + 0.05
        cases.append((counts, (shorter / shorter.sum()).float()))
    counts, shorter = cases[3]
    unseen = counts.clone()
    unseen[1:] = 0  # all but the first context
    cases[3] = (unseen, shorter)
    cases[1] = (cases[1][0], cases[1][1].double())
    counts, shorter = cases[4]
    cases.append((_counts(rng, *counts.shape), shorter.flip(0)))  # other values, the same shapes
    square = _counts(rng, 4, 4)
    square[rng.randrange(4)] = torch.tensor([1, 2, 3, 4])  # every kind, no token once more
    return [*cases, (square, torch.tensor([0.5, 0.5, 0.0, 0.0]))]


BELL = Task(
    name="witten_bell",
    reference=_witten_bell,
    visible=(
        (torch.tensor([[3, 1, 2, 0], [0, 0, 0, 0]]), _table([0.5, 0.25, 0.125, 0.125])),
        (
            torch.tensor([[9, 1, 0], [0, 3, 0], [1, 1, 1], [0, 0, 70], [0, 0, 0], [0, 0, 0]]),
            torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64),
        ),
    ),
    hidden=_bell_hidden,
)


# --- bits_per_byte --------------------------------------------------------------------------------


def _bits_per_byte(log_p: Tensor, text: str) -> float:
    """From probabilities, with base 2."""
    bits = sum(-math.log2(math.exp(one)) for one in log_p.double().tolist())
    return bits / len(text.encode("utf-8"))


def _bytes_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, str]]:
    words = ["film", "Amélie", "naïve", "café", "very", "…", "“great”", "Zoë", "日本", "a", "€ 10"]
    cases = []
    for tokens in (1, rng.randint(2, 5), rng.randint(6, 12), rng.randint(13, 30)):
        text = " ".join([rng.choice(words) for _ in range(tokens)] + [rng.choice(words[1:4])])
        log_p = -4 * torch.rand(tokens, generator=generator) - 0.1
        cases.append((log_p, text))
    # four bytes in one character, a letter and its accent apart, spaces and lines at the ends
    texts = ["\nhalf \n", "\U0001f3ac \U00020bb7", "cafe\u0301 ", " b\r\n\n"]
    log_p = -4 * torch.rand(3, generator=generator) - 0.1
    cases += [(log_p, rng.choice(words) + text) for text in texts[1:]]
    cases.append((-4 * torch.rand(500, generator=generator), rng.choice(words) * 300))  # long
    return [*cases, (log_p.double().flip(0) - 100, texts[0])]


L2 = math.log(2)

BITS = Task(
    name="bits_per_byte",
    reference=_bits_per_byte,
    visible=(
        (_table([-L2, -2 * L2, -4 * L2]), "Amélie"),
        (_table([-0.5, -3.2, -1.7, -4.1]), "a naïve film"),
        (_table([-1.2, -0.4, -2.5]), " café 🎬\n"),
        (torch.arange(-90.0, 90.0) / 30 - 5, "Un café, s’il vous plaît. " * 20),
        (_table([-1.5, -0.5]), "cafe\u0301"),  # a letter and its accent by themselves
    ),
    hidden=_bytes_hidden,
)


# --- windows: concatenation -----------------------------------------------------------------------


def _windows(e: Tensor, before: Tensor, n: int) -> Tensor:
    """Position by position."""
    batch, length, width = e.shape
    answer = torch.empty(batch, length, (n - 1) * width, dtype=e.dtype)
    for t in range(length):
        for back in range(n - 1):
            columns = slice(back * width, (back + 1) * width)
            answer[:, t, columns] = e[:, t - back] if t >= back else before
    return answer


def _windows_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, int]]:
    cases = []
    for n in (2, 3, 4, rng.randint(5, 6)):
        batch, length, width = rng.randint(1, 3), rng.randint(5, 8), rng.randint(2, 4)
        e = torch.randn(batch, length, width, generator=generator)
        cases.append((e, torch.randn(width, generator=generator), n))
    short = torch.randn(2, 2, 3, generator=generator)  # fewer tokens than the window
    cases.append((short, torch.randn(3, generator=generator), rng.randint(5, 6)))
    cases[1] = (cases[1][0].double(), cases[1][1].double(), 3)
    for _ in range(2):  # all sizes alike, and once more
        e = torch.randn(3, 3, 3, generator=generator)
        cases.append((e, torch.randn(3, generator=generator), 3))
    return cases


WINDOWS = Task(
    name="windows",
    reference=_windows,
    visible=(
        (_table([[[1, 10], [2, 20], [3, 30]]]), _table([0, -1]), 3),
        (_tenths(1, 2, 5, 3), _tenths(2, 3), 4),
        (_tenths(3, 2, 2, 2), _tenths(4, 2), 5),
    ),
    hidden=_windows_hidden,
)


# --- next_token_loss: the notes' formula, with its index ------------------------------------------


def _next_token_loss(logits: Tensor, ids: Tensor) -> float:
    """Token by token, in double precision."""
    losses = []
    for text, row in zip(logits.double().tolist(), ids.tolist(), strict=True):
        for scores, token in zip(text, row[1:], strict=False):
            top = max(scores)
            losses.append(top + math.log(sum(math.exp(s - top) for s in scores)) - scores[token])
    return float(sum(losses) / len(losses))


def _loss_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5)):
        length, tokens = rng.sample(range(3, 10), 2)
        logits = 2 * torch.randn(batch, length, tokens, generator=generator)
        cases.append((logits, torch.randint(tokens, (batch, length), generator=generator)))
    for _ in range(2):  # all sizes alike, and once more
        logits = 2 * torch.randn(4, 4, 4, generator=generator)
        cases.append((logits, torch.randint(4, (4, 4), generator=generator)))
    loud = torch.zeros(2, 3, 5)
    loud[..., 1] = rng.randint(200, 900)  # e to this overflows
    cases.append((loud, torch.tensor([[0, 1, 1], [4, 1, rng.choice((0, 2))]])))
    return cases


LOSS = Task(
    name="next_token_loss",
    reference=_next_token_loss,
    visible=(
        (_table([[[0, 0, 0, 0], [0, 9, 0, 0], [5, 0, 0, 0]]]), torch.tensor([[3, 2, 1]])),
        (_tenths(5, 2, 4, 5).float(), torch.tensor([[0, 3, 3, 1], [4, 2, 0, 2]])),
        (_table([[[400, 0, 0], [400, 0, 0], [0, 0, 1]]]), torch.tensor([[2, 1, 0]])),
    ),
    hidden=_loss_hidden,
)

TASKS: tuple[Task, ...] = (ADD_K, BELL, BITS, WINDOWS, LOSS)
