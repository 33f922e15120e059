"""Tasks of chapter 08: the share of a count, both counters, their border, tied weights."""

import math
import random

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from grading.properties import varied
from grading.task import Task

Lead = tuple[int, ...]

# --- count_share ----------------------------------------------------------------------------------


def _share(T: int, D: int, c: int) -> float:
    """Place by place: the distribution of the count after each of the other places."""
    chances = [0.0, 1.0] + [0.0] * T  # before any other place the count is 1
    for _ in range(T - 1):
        chances = [
            now * (1 - 1 / D) + (chances[i - 1] if i else 0.0) / D for i, now in enumerate(chances)
        ]
    return chances[c] if 0 <= c <= T else 0.0


def _drawn_share(rng: random.Random, generator: Generator, T: int, D: int) -> tuple[int, int, int]:
    return T, D, min(T, rng.randint(1, 4))


def _borders(rng: random.Random, generator: Generator) -> list[tuple[int, int, int]]:
    """A large c; a long row; with one T and D every border of c: impossible, and the last not."""
    T, D = rng.randint(3, 6), rng.randint(3, 6)
    return [
        (25, 2, rng.randint(11, 14)),
        (300, 15, rng.randint(15, 25)),
        (1, D, 2),
        (1000, 15, 66),
        *((T, D, c) for c in (-2, -1, 0, T, T + 1, 900 * T)),
    ]


SHARE = Task(
    name="count_share",
    reference=_share,
    visible=((2, 4, 1), (10, 15, -1), (10, 15, 3), (4, 3, 0), (3, 2, 3), (3, 2, 4)),
    hidden=varied(_drawn_share, {"T": 1, "D": 2}, dtypes=(), also=_borders),
    tolerance=1e-6,
)


# --- count_by_places ------------------------------------------------------------------------------


def _sums(ids: Tensor, a: float, D: int) -> list[list[float]]:
    """Place by place, symbol by symbol; before they are rounded."""
    b = (1 - a) / (ids.shape[1] - 1)
    return [
        [
            sum(max(0.0, row.count(s) * b + (a - b) * (s == mine) - (a - b)) for s in range(D)) / b
            for mine in row
        ]
        for row in ids.tolist()
    ]


def _places(ids: Tensor, a: float, D: int) -> Tensor:
    return torch.tensor([[round(one) for one in row] for row in _sums(ids, a, D)])


def _drawn_ids(
    rng: random.Random, generator: Generator, T: int, N: int, D: int
) -> tuple[Tensor, float, int]:
    """Long rows are drawn until the counter errs; no sum is near the border of whole numbers."""
    while True:
        few = rng.randint(2, D)  # few symbols make large counts
        ids = torch.randint(few, (N, T), generator=generator)
        a = round(rng.uniform(1 / T + 0.02, 0.9), 3)
        wrong = bool((_places(ids, a, D) != (ids[:, :, None] == ids[:, None]).sum(-1)).any())
        clear = all(abs(one % 1 - 0.5) > 0.02 for row in _sums(ids, a, D) for one in row)
        if clear and (wrong or T < 4):
            return ids, a, D


def _rounded_once(rng: random.Random, generator: Generator) -> list[tuple[Tensor, float, int]]:
    """Units that, rounded one by one, add up to another count; symbols beyond the length."""
    while True:
        ids, a, D = _drawn_ids(rng, generator, 12, 2, 4)
        b = (1 - a) / 11
        amounts = b * one_hot(ids, D).sum(1, keepdim=True) + (a - b) * one_hot(ids, D)
        if (((amounts - (a - b)).relu() / b).round().sum(-1) != _places(ids, a, D)).any():
            short = [(torch.tensor([[0, 1]]), a, 2) for a in (0.5, 0.55)]
            return [(ids, a, D), (ids + 30, a, D + 30), *short]


PLACES = Task(
    name="count_by_places",
    reference=_places,
    visible=(
        (torch.tensor([[0, 0, 0, 1]]), 0.4, 2),
        (torch.tensor([[0, 0, 0, 1]]), 0.7, 2),
        (torch.tensor([[2, 0, 2, 2, 2, 1], [0, 0, 0, 1, 1, 1]]), 0.34, 4),
        (torch.tensor([[1, 3, 0, 3, 1, 3, 3, 3]]), 0.3, 5),
        (torch.tensor([[0, 0, 0, 1, 1, 16]]), 0.25, 17),
        (torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]]), 0.32, 3),  # a longer text
    ),
    hidden=varied(_drawn_ids, {"T": 2, "N": 1, "D": 2}, dtypes=(), also=_rounded_once),
)


# --- smallest_diagonal ----------------------------------------------------------------------------


def _smallest(T: int, most: int) -> float:
    """Halving: what lies above the threshold besides my own symbol must vanish."""
    low, high = 1 / T, 1.0
    for _ in range(60):
        a = (low + high) / 2
        b = (1 - a) / (T - 1)
        low, high = (a, high) if most * b > a - b else (low, a)
    return high


def _drawn_lengths(
    rng: random.Random, generator: Generator, most: int, others: int
) -> tuple[int, int]:
    return most + others, most


def _long(rng: random.Random, generator: Generator) -> list[tuple[int, int]]:
    """A border between two hundredths, and between two thousandths (a search in steps)."""
    many = ((T, rng.randint(T // 3, T - 1)) for T in (rng.randint(90, 200), 2003))
    return [(100, 1), (2003, 1), (4003, 4002), *many]


SMALLEST = Task(
    name="smallest_diagonal",
    reference=_smallest,
    visible=((4, 1), (10, 5), (10, 9), (7, 3)),
    hidden=varied(_drawn_lengths, {"most": 1, "others": 1}, dtypes=(), also=_long),
    tolerance=1e-5,
)


# --- semantic_map ---------------------------------------------------------------------------------


def _semantic(ids: Tensor, beta: float) -> Tensor:
    """By counting: c places of my symbol against e^−β for each of the others."""
    rows = ids.reshape(-1, ids.shape[-1])
    out = torch.zeros(*rows.shape, ids.shape[-1])
    for row, new in zip(rows.tolist(), out, strict=True):
        for s, mine in enumerate(row):
            c = row.count(mine)
            mine_each = 1 / (c + (len(row) - c) * math.exp(-beta))
            other = math.exp(-beta) * mine_each
            new[s] = torch.tensor([mine_each if t == mine else other for t in row])
    return out.reshape(*ids.shape, ids.shape[-1])


def _drawn_tokens(
    rng: random.Random, generator: Generator, T: int, lead: Lead
) -> tuple[Tensor, float]:
    symbols = torch.tensor(rng.sample(range(40), rng.randint(2, 4)))
    ids = symbols[torch.randint(len(symbols), (*lead, T), generator=generator)]
    return ids, round(rng.uniform(0.4, 2.5), 2)


def _sharp(rng: random.Random, generator: Generator) -> list[tuple[Tensor, float]]:
    """e^β is too large for float32, for any float; nothing is sharp; an int."""
    ids = torch.randint(3, (2, 6), generator=generator)
    return [(ids, beta) for beta in (200.0, 1000, 0.0, rng.randint(1, 3))]


SEMANTIC = Task(
    name="semantic_map",
    reference=_semantic,
    visible=(
        (torch.tensor([0, 0, 1]), math.log(2)),
        (torch.tensor([[3, 0, 2, 0, 2], [1, 1, 1, 1, 0]]), 1.5),
        (torch.tensor([[0, 1, 0, 0]]), 1000.0),
        (torch.tensor([[0, 1], [7, 7]]), 2),
    ),
    hidden=varied(_drawn_tokens, {"T": 1}, lead=True, dtypes=(), also=_sharp),
)


# --- asymmetry ------------------------------------------------------------------------------------


def _asymmetry(x: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """Text by text, by the entries: Σ (S_st − S_ts)² over Σ S_st²; in double precision."""
    found = []
    for text in x.double():
        S = torch.einsum("sa,ak,bk,tb->st", text, W_Q.double(), W_K.double(), text)
        mirrored = sum((S[s, t] - S[t, s]) ** 2 for s in range(len(text)) for t in range(len(text)))
        found.append(torch.as_tensor(mirrored / S.square().sum()).sqrt())
    return torch.stack(found).to(x.dtype)


def _drawn_texts(
    rng: random.Random, generator: Generator, T: int, N: int, d: int, d_k: int
) -> tuple[Tensor, Tensor, Tensor]:
    W_Q, W_K = torch.randn(2, d, d_k, generator=generator) / d**0.5
    x = torch.randn(N, T, d, generator=generator)
    return x, W_Q, W_K + rng.choice((0.0, 2.0)) * W_Q  # far from tied, and nearer


def _tied(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Nearly tied, and tied: a difference of equal numbers, whose root is not small."""
    x, W, V = _drawn_texts(rng, generator, 6, 9, 5, 3)
    close = x.double(), W.double(), W.double() + 1e-8 * V.double()
    return [(x, W, W + 3e-4 * V), (x, W, W), close]


ASYMMETRY = Task(
    name="asymmetry",
    reference=_asymmetry,
    visible=(
        (torch.eye(2)[None], torch.eye(2), torch.tensor([[0.0, 1.0], [0.0, 0.0]])),
        (
            torch.tensor(
                [[[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]], [[2.0, 0.0], [1.0, 1.0], [3.0, 1.0]]]
            ),
            torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, -1.0, 0.5]]),
            torch.tensor([[1.0, 1.0, 0.0, 2.0], [0.5, 1.0, 0.0, -1.0]]),
        ),
        (
            torch.tensor([[[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]]]).double(),
            torch.tensor([[1.0], [2.0]]).double(),
            torch.tensor([[1.0], [2.0]]).double(),
        ),
    ),
    hidden=varied(
        _drawn_texts,
        {"T": 1, "N": 1, "d": 1, "d_k": 1},
        dtypes=(torch.float64,),  # in half, squares of small numbers are 0
        scaled=((0, 1e-3), (0, 1e3)),
        also=_tied,
    ),
)


TASKS = (SHARE, PLACES, SMALLEST, SEMANTIC, ASYMMETRY)
