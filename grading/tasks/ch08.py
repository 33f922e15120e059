"""Tasks of chapter 08: the share of a count, both counters, their border, tied weights."""

import math
import random
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from grading.task import Task

# --- count_share ----------------------------------------------------------------------------------


def _share(T: int, D: int, c: int) -> float:
    """Place by place: the distribution of the count after each of the other places."""
    chances = [0.0, 1.0] + [0.0] * T  # before any other place the count is 1
    for _ in range(T - 1):
        chances = [
            now * (1 - 1 / D) + (chances[i - 1] if i else 0.0) / D for i, now in enumerate(chances)
        ]
    return chances[c] if 0 <= c <= T else 0.0


def _share_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[int, int, int]]:
    cases = []
    for _ in range(5):
        T, D = rng.randint(5, 14), rng.randint(3, 8)
        cases.append((T, D, rng.randint(2, 4)))
    T, D = rng.randint(3, 6), rng.randint(3, 6)
    cases += [(T, D, c) for c in (-1, 0, 1, T, T + 1)]  # T again and again, and every border
    return [*cases, (1, 5, 1), (1, 5, 2), (2, 2, 2), (4, 4, 2), (60, rng.randint(2, 5), 20)]


SHARE = Task(
    name="count_share",
    reference=_share,
    visible=((2, 4, 1), (10, 15, -1), (10, 15, 3), (4, 3, 0), (3, 2, 3), (3, 2, 4)),
    hidden=_share_hidden,
    tolerance=1e-6,
)


# --- count_by_places ------------------------------------------------------------------------------


def _places(ids: Tensor, a: float, D: int) -> Tensor:
    """Place by place, symbol by symbol."""
    T = ids.shape[1]
    b, out = (1 - a) / (T - 1), torch.zeros_like(ids)
    for row, new in zip(ids.tolist(), out, strict=True):
        for t, mine in enumerate(row):
            extra = (row.count(s) * b + (a - b) * (s == mine) - (a - b) for s in range(D))
            new[t] = round(sum(max(0.0, part) for part in extra) / b)
    return out


def _true_counts(ids: Tensor, a: float, D: int) -> Tensor:
    return (ids[:, :, None] == ids[:, None]).sum(-1)


def _clear(ids: Tensor, a: float, D: int) -> bool:
    """Whether no sum lies near the border between two whole numbers."""
    T = ids.shape[1]
    b = (1 - a) / (T - 1)
    extra = torch.arange(1, T)[:, None] - torch.tensor((a - b) / b)  # n − (a − b)/b
    sums = [extra[i].clamp(min=0) for i in range(T - 1)]
    steps = {0.0}
    for part in sums:
        steps |= {round(s + float(part), 6) for s in steps}
    return all(abs(s % 1 - 0.5) > 0.02 for s in steps)


def _places_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, float, int]]:
    cases: list[tuple[Tensor, float, int]] = []
    while len(cases) < 7:
        T, D = rng.sample(range(4, 10), 2)
        few = rng.randint(2, D)  # few symbols make large counts
        ids = torch.randint(few, (rng.randint(1, 4), T), generator=generator)
        a = round(rng.uniform(1.4 / T, 0.7), 2)
        wrong = bool((_places(ids, a, D) != _true_counts(ids, a, D)).any())
        if _clear(ids, a, D) and wrong == (len(cases) < 5):
            cases.append((ids, a, D))
    # longer than ten; all axes alike, twice; more symbols than places; a single row of two
    for N, T, D, a in ((2, 12, 3, 0.32), (5, 5, 5, 0.33), (5, 5, 5, 0.33), (1, 4, 20, 0.4)):
        cases.append((torch.randint(D, (N, T), generator=generator), a, D))
    return [*cases, (torch.tensor([[1, 1], [0, 2]]), 0.7, 3)]


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
    hidden=_places_hidden,
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


def _smallest_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[int, int]]:
    lengths = rng.sample(range(5, 40), 5)
    drawn = [(T, rng.randint(2, T - 2)) for T in lengths]
    T, most = rng.randint(6, 12), rng.randint(2, 5)
    return [*drawn, (T, 1), (T, most), (T, T - 1), (11, 10), (3, 2), (2, 1), (2000, 1999)]


SMALLEST = Task(
    name="smallest_diagonal",
    reference=_smallest,
    visible=((4, 1), (10, 5), (10, 9), (7, 3)),
    hidden=_smallest_hidden,
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


def _semantic_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, float]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3), (2,)):
        T, D = rng.randint(5, 11), rng.randint(2, 4)
        ids = torch.randint(D, (*lead, T), generator=generator)
        cases.append((ids, round(rng.uniform(0.4, 2.5), 2)))
    ids = torch.randint(3, (2, 6), generator=generator)
    n = rng.randint(4, 6)  # all axes alike, twice
    alike = [(torch.randint(2, (n, n, n), generator=generator), 0.7) for _ in range(2)]
    alone = torch.randint(9, (3, 1), generator=generator)
    borders = [(ids, 200.0), (ids, 1000), (ids, 0.0), (ids, rng.randint(1, 3)), (alone, 1.5)]
    return [*cases, *alike, *borders]


SEMANTIC = Task(
    name="semantic_map",
    reference=_semantic,
    visible=(
        (torch.tensor([0, 0, 1]), math.log(2)),
        (torch.tensor([[3, 0, 2, 0, 2], [1, 1, 1, 1, 0]]), 1.5),
        (torch.tensor([[0, 1, 0, 0]]), 1000.0),
        (torch.tensor([[0, 1], [7, 7]]), 2),
    ),
    hidden=_semantic_hidden,
)


# --- asymmetry ------------------------------------------------------------------------------------


def _asymmetry(x: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """Text by text, by the entries: Σ (S_st − S_ts)² over Σ S_st²."""
    found = []
    for text in x:
        S = torch.einsum("sa,ak,bk,tb->st", text, W_Q, W_K, text)
        mirrored = sum((S[s, t] - S[t, s]) ** 2 for s in range(len(text)) for t in range(len(text)))
        found.append(torch.as_tensor(mirrored / S.square().sum()).sqrt())
    return torch.stack(found)


def _asymmetry_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, Tensor, Tensor]]:
    cases: list[tuple[Tensor, Tensor, Tensor]] = []
    for N in (1, 2, 3, rng.randint(4, 6)):
        T, d, d_k = rng.sample(range(2, 10), 3)
        x = torch.randn(N, T, d, generator=generator)
        W_Q, W_K = torch.randn(2, d, d_k, generator=generator)
        cases.append((x, W_Q, W_K + rng.choice((0.0, 2.0)) * W_Q))
    x, W_Q, W_K = cases[2]
    cases.append((x, W_Q, W_Q.clone()))  # tied
    cases.append((x[:, :1].expand_as(x).clone(), W_Q, W_K))  # all tokens equal
    cases.append((x.double(), W_Q.double(), W_K.double()))
    n = rng.randint(3, 6)  # all axes alike, twice; a single token
    for sizes in ((n, n, n, n), (n, n, n, n), (3, 1, 4, 2)):
        N, T, d, d_k = sizes
        x = torch.randn(N, T, d, generator=generator)
        cases.append((x, *torch.randn(2, d, d_k, generator=generator)))
    return [*cases, (torch.eye(2)[None].half(), torch.eye(2).half(), TWO.half())]


TWO = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
ASYMMETRY = Task(
    name="asymmetry",
    reference=_asymmetry,
    visible=(
        (torch.eye(2)[None], torch.eye(2), TWO),
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
        (torch.eye(2)[None].half(), torch.eye(2).half(), TWO.half()),
    ),
    hidden=_asymmetry_hidden,
    tolerance=1e-3,
)


TASKS = (SHARE, PLACES, SMALLEST, SEMANTIC, ASYMMETRY)
