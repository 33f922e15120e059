"""Tasks of chapter 01: smoothing, bits per byte, the window of an n-gram model, the loss."""

import math
import random
from typing import Any

import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


def _counts(rng: random.Random, contexts: int, tokens: int) -> Tensor:
    """Counts as a text gives them: many zeros, a few large ones, contexts that never occurred."""
    likely = (0, 0, 0, 1, 1, 2, rng.randint(3, 9), rng.randint(10, 400))
    rows = [[rng.choice(likely) for _ in range(tokens)] for _ in range(contexts)]
    return torch.tensor([row if rng.random() < 0.7 else [0] * tokens for row in rows])


# --- add_k ----------------------------------------------------------------------------------------


def _add_k(counts: Tensor, k: float) -> Tensor:
    """Cell by cell."""
    rows = counts.tolist()
    return _table([[(n + k) / (sum(row) + k * len(row)) for n in row] for row in rows])


def _drawn_counts(rng: random.Random, generator: Generator, C: int, D: int) -> tuple[Tensor, float]:
    return _counts(rng, C, D), rng.choice((1e-15, 0.02, 2.5, 2))


ADD_K = Task(
    name="add_k",
    reference=_add_k,
    visible=(
        (torch.tensor([[3, 1, 0], [0, 0, 0]]), 1),
        (torch.tensor([[8, 0, 1, 1, 0], [2, 2, 2, 2, 2], [0, 90, 0, 0, 1]]), 0.1),
        (torch.tensor([[0, 0, 7], [1, 2, 1]]), 1.0),  # the first shape again
    ),
    hidden=varied(
        _drawn_counts,
        {"D": 1, "C": 1},
        scaled=((0, 10**6),),
        also=lambda *_: [(torch.tensor([[999_999_999] * 3]), 1)],  # too many for 32 bits
    ),
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


def _drawn_bell(rng: random.Random, generator: Generator, C: int, D: int) -> tuple[Tensor, Tensor]:
    shorter = torch.rand(D, generator=generator) + 0.05
    shorter[rng.randrange(D)] *= rng.choice((0, 1))
    return _counts(rng, C, D), shorter / shorter.sum()


def _kinds(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    shorter, large = torch.tensor([0.5, 0.5, 0, 0]), [33333333, 16777217, 7, 0]
    return [
        (torch.zeros(3, 4, dtype=torch.int64), shorter.half()),  # nothing occurred
        (torch.tensor([[5, 5, 5, 0], rng.sample(range(1, 5), 4), [1, 0, 0, 0]]), shorter),
        (torch.tensor([rng.sample(large, 4)]), shorter.double()),  # not whole in single precision
        (torch.tensor([[999_999_999] * 4]), shorter),  # too many for 32 bits
    ]


BELL = Task(
    name="witten_bell",
    reference=_witten_bell,
    visible=(
        (torch.tensor([[3, 1, 2, 0], [0, 0, 0, 0]]), _table([0.5, 0.25, 0.125, 0.125])),
        (
            torch.tensor([[9, 1, 0], [0, 3, 0], [1, 1, 1], [0, 0, 70], [0, 0, 0], [0, 0, 0]]),
            torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64),
        ),
        (torch.tensor([[33333333, 16777217, 7]]), torch.tensor([0.5, 0.3, 0.2]).double()),
    ),
    hidden=varied(_drawn_bell, {"D": 1, "C": 1}, scaled=((0, 10**6),), also=_kinds),
)


# --- bits_per_byte --------------------------------------------------------------------------------


def _bits_per_byte(log_p: Tensor, text: str) -> float:
    """Each token in bits, without a rounding sum."""
    bits = math.fsum(-one * math.log2(math.e) for one in log_p.tolist())
    return bits / len(text.encode("utf-8"))


def _drawn_text(rng: random.Random, generator: Generator, T: int) -> tuple[Tensor, str]:
    words = ["film", "Amélie", "naïve", "café", "very", "…", "“great”", "Zoë", "日本", "a", "€ 10"]
    text = " ".join([rng.choice(words) for _ in range(T)] + [rng.choice(words[1:4])])
    return -4 * torch.rand(T, generator=generator) - 0.1, text


def _rare(rng: random.Random, generator: Generator) -> list[tuple[Tensor, str]]:
    """Four bytes in one character, an accent apart, İ in small letters; spaces."""
    texts = ["\U00010000 \x80\u0800", "cafe\u0301", "\u0130", "a  b", " b\r\n\n", "\nhalf \n"]
    return [(_drawn_text(rng, generator, 3)[0], text) for text in texts]


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
    hidden=varied(
        _drawn_text,
        {"T": 1},
        dtypes=(torch.float64,),  # a float is returned, which keeps more digits than half
        scaled=((0, 100),),
        also=_rare,
    ),
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


def _drawn_windows(
    rng: random.Random, generator: Generator, n: int, T: int, B: int, d: int
) -> tuple[Tensor, Tensor, int]:
    e = torch.randn(B, T, d, generator=generator)
    e[:, -1, 0] = 0  # no sign of an empty place
    return e, torch.randn(d, generator=generator), n


WINDOWS = Task(
    name="windows",
    reference=_windows,
    visible=(
        (_table([[[1, 10], [2, 20], [3, 30]]]), _table([0, -1]), 3),
        (_tenths(1, 2, 5, 3), _tenths(2, 3), 4),
        (_tenths(3, 2, 2, 2), 1e9 * _tenths(4, 2), 5),
    ),
    hidden=varied(_drawn_windows, {"n": 2, "T": 1, "B": 1, "d": 1}, scaled=((1, 1e3),)),
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


def drawn_logits(
    rng: random.Random, generator: Generator, T: int, B: int, D: int
) -> tuple[Tensor, Tensor]:
    logits = 2 * torch.randn(B, T, D, generator=generator)
    return logits, torch.randint(D, (B, T), generator=generator)


def levels(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """One text; and positions whose logits lie far apart: one number cannot shift them all."""
    logits, ids = drawn_logits(rng, generator, 4, 2, 5)
    shift = torch.tensor([-400, 400, 0, 400])[:, None]
    far = [(logits + shift, ids), (logits.double() + 10**4 * shift, ids)]
    return [drawn_logits(rng, generator, 2, 1, 3), *far]


LOSS = Task(
    name="next_token_loss",
    reference=_next_token_loss,
    visible=(
        (_table([[[0, 0, 0, 0], [0, 9, 0, 0], [5, 0, 0, 0]]]), torch.tensor([[3, 2, 1]])),
        (_tenths(5, 2, 4, 5) + 1e6, torch.tensor([[0, 3, 3, 1], [4, 2, 0, 2]])),
        (_table([[[400, 0, 0], [400, 0, 0], [0, 0, 1]]]), torch.tensor([[2, 1, 0]])),
    ),
    hidden=varied(
        drawn_logits,
        {"T": 2, "B": 1, "D": 2},
        dtypes=(torch.float64,),  # a float is returned, which keeps more digits than half
        scaled=((0, 300),),
        also=levels,
    ),
)

TASKS: tuple[Task, ...] = (ADD_K, BELL, BITS, WINDOWS, LOSS)
