"""Tasks of chapter 09: paths, copying, from a table to a map, K-composition, induction."""

import math
import random
from collections.abc import Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from grading.task import Task

# --- logit_paths ----------------------------------------------------------------------------------


def _paths(x: Tensor, A: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Head by head, with the merged matrix of each; the direct path is the unit matrix."""
    maps = [torch.einsum("...sa,ad->...sd", x, W_U)]
    for h in range(len(W_V)):
        merged = torch.einsum("av,vb,bd->ad", W_V[h], W_O[h], W_U)
        maps.append(torch.einsum("...ts,...sa,ad->...td", A[..., h, :, :], x, merged))
    return torch.stack(maps, -3)


Layer = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _layer(
    generator: Generator, lead: tuple[int, ...], T: int, d: int, d_v: int, H: int, D: int
) -> Layer:
    """A stream, maps whose rows sum to 1 and see no future, and the matrices of a layer."""
    scores = torch.randn(*lead, H, T, T, generator=generator)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    return (
        torch.randn(*lead, T, d, generator=generator),
        scores.masked_fill(future, -torch.inf).softmax(-1),
        torch.randn(H, d, d_v, generator=generator),
        torch.randn(H, d_v, d, generator=generator),
        torch.randn(d, D, generator=generator),
    )


def _paths_hidden(rng: random.Random, generator: Generator) -> Sequence[Layer]:
    cases = []
    for lead in ((), (rng.randint(2, 3),), (1,), (2, 3)):
        T, d, d_v, H, D = rng.sample(range(2, 8), 5)
        cases.append(_layer(generator, lead, T, d, d_v, H, D))
    n = rng.randint(2, 4)  # all axes alike, twice; one head; one token
    for lead, sizes in (((n,), (n,) * 5), ((n,), (n,) * 5), ((), (4, 3, 2, 1, 5))):
        cases.append(_layer(generator, lead, *sizes))
    cases.append(_layer(generator, (2,), 1, 3, 2, 2, 4))
    x, A, W_V, W_O, W_U = (part.double() for part in cases[0])
    cases.append((x, A, W_V, W_O, W_U))
    x, A, W_V, W_O, W_U = cases[1]  # a map that is not causal
    return [*cases, (x, A.flip(-1), W_V, W_O, W_U)]


UNIT = torch.eye(2)
PATHS = Task(
    name="logit_paths",
    reference=_paths,
    visible=(
        (
            UNIT,
            torch.tensor([[[1.0, 0.0], [0.25, 0.75]]]),
            torch.tensor([[[2.0], [1.0]]]),
            torch.tensor([[[0.0, 1.0]]]),
            UNIT,
        ),
        (
            torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]),
            torch.tensor(
                [
                    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]],
                    [[0.5, 0.3, 0.2], [0.9, 0.1, 0.0], [0.0, 0.6, 0.4]],
                ]
            ),
            torch.tensor([[[1.0], [2.0]], [[0.0], [1.0]]]),
            torch.tensor([[[1.0, -1.0]], [[2.0, 0.5]]]),
            torch.tensor([[1.0, 0.0, 2.0, -1.0], [0.0, 1.0, 1.0, 0.5]]),
        ),
        (
            torch.tensor([[[1.0, 2.0]], [[0.0, -1.0]]]).double(),
            torch.ones(2, 1, 1, 1).double(),
            torch.tensor([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]]).double(),
            torch.tensor([[[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]]).double(),
            torch.tensor([[1.0], [3.0]]).double(),
        ),
    ),
    hidden=_paths_hidden,
    tolerance=1e-3,
)


# --- copying_score --------------------------------------------------------------------------------


def _copying(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """By a third product with the same eigenvalues, d_model × d_model, in double precision."""
    E, U = W_E.double().numpy(), W_U.double().numpy()
    found = []
    for V, W in zip(W_V.double().numpy(), W_O.double().numpy(), strict=True):
        values = np.linalg.eigvals(V @ W @ (U @ E))
        found.append(values.sum().real / np.abs(values).sum())
    return torch.tensor(found, dtype=W_E.dtype)


Embedded = tuple[Tensor, Tensor, Tensor, Tensor]


def _far_from_normal(generator: Generator, D: int = 40) -> Embedded:
    """Two heads whose D × D tables have entries near 10¹² and eigenvalues of a few units.

    The large entries are whole numbers that cancel two by two, so that every product is exact. But
    of the table's eigenvalues some that should be 0 come out as thousands, even in double precision
    and by whatever library: its score is 0 to three digits.
    """
    large = torch.randint(300_000, 1_000_000, (2, D // 2 - 1), generator=generator).double()
    a, b = torch.randint(2, 5, (2,), generator=generator).tolist()
    E, U = torch.zeros(2, D, 4, dtype=torch.float64)
    E[:2, 2:] = U[:2, :2] = torch.eye(2)
    E[2:, 0], U[2:, 2] = large.flatten(), torch.cat([large[1], -large[0]])
    small = torch.tensor([[[a, 0], [b, -1]], [[1, -a], [1, 1]]])
    units = torch.eye(2).expand(2, 2, 2)
    return E, torch.cat([units, units], 1).double(), torch.cat([small, units], 2).double(), U.T


def _copying_hidden(rng: random.Random, generator: Generator) -> Sequence[Embedded]:
    cases: list[Embedded] = []
    n = rng.randint(3, 4)
    sizes = [(9, 5, 3, 2), (11, 4, 2, 3), (7, 6, 4, 5), (12, 5, 1, 4), (8, 4, 3, 1)]
    for D, d, d_v, H in [*sizes, (n, n, n, n), (n, n, n, n)]:
        W_E, W_U = torch.randn(2, D, d, generator=generator)
        W_V, W_O = torch.randn(2, H, d, d_v, generator=generator)
        cases.append((W_E, W_V, W_O.mT.contiguous(), W_U.T.contiguous()))
    W_E, W_V, W_O, W_U = (part.double() for part in cases[rng.randint(0, 2)])
    cases.append((W_E, W_V, W_O, W_U))
    return [*cases, *(_far_from_normal(generator) for _ in range(2))]


TWO_TURNS = torch.tensor([[[0.0, 1.0], [-1.0, 0.0]], [[1.0, 1.0], [-1.0, 1.0]]])
COPYING = Task(
    name="copying_score",
    reference=_copying,
    visible=(
        (UNIT, UNIT[None], torch.tensor([[[3.0, 0.0], [0.0, -1.0]]]), UNIT),
        (UNIT, UNIT.expand(2, 2, 2).clone(), TWO_TURNS, UNIT),
        (
            torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [2.0, -1.0, 1.0]]),
            torch.tensor(
                [[[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [[0.0, -1.0], [1.0, 1.0], [2.0, 0.0]]]
            ),
            torch.tensor(
                [[[1.0, 1.0, 0.0], [0.0, -1.0, 2.0]], [[-2.0, 0.0, -1.0], [-1.0, -1.0, 1.0]]]
            ),
            torch.tensor([[1.0, 0.0, -1.0, 2.0], [0.0, 2.0, 1.0, 0.0], [1.0, 1.0, 0.0, -1.0]]),
        ),
        _far_from_normal(Generator().manual_seed(0)),
    ),
    hidden=_copying_hidden,
    tolerance=1e-3,
)


# --- weights_from_table ---------------------------------------------------------------------------


def _from_table(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    """Row by row, over the tokens that the row may see."""
    rows = ids.reshape(-1, ids.shape[-1]).tolist()
    out = torch.zeros(len(rows), ids.shape[-1], ids.shape[-1], dtype=table.dtype)
    for text, new in zip(rows, out, strict=True):
        for t, token in enumerate(text):
            seen = torch.stack([table[token, source] for source in text[: t + 1]]) / math.sqrt(d_k)
            powers = (seen - seen.max()).exp()
            new[t, : t + 1] = powers / powers.sum()
    return out.reshape(*ids.shape, ids.shape[-1])


def _table_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor, int]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3)):
        D, T = rng.sample(range(5, 12), 2)
        table = 3 * torch.randn(D, D, generator=generator)
        ids = torch.randint(D, (*lead, T), generator=generator)
        cases.append((table, ids, rng.choice((2, 3, 5, 8))))
    for _ in range(2):  # all axes alike
        table = 3 * torch.randn(5, 5, generator=generator)
        cases.append((table, torch.randint(5, (5, 5), generator=generator), 5))
    table, ids, d_k = cases[0]
    cases.append((table.double(), ids, d_k))
    cases.append((table, ids[:1], d_k))  # a single token
    cases.append((torch.randn(12, 12, generator=generator), torch.tensor([7, 7, 7]), 4))
    table = torch.randn(6, 6, generator=generator)
    table[:, 2] = 4e3  # of a token that does not occur
    cases.append((table, torch.tensor([[0, 4, 1, 5], [3, 3, 0, 1]]), 3))
    # several million up or down: apart by thousands, so that no order of rounding shows
    apart = 4e3 * torch.randperm(49, generator=generator).view(7, 7)
    ids = torch.stack([torch.randperm(7, generator=generator) for _ in range(2)])
    cases += [(apart + shift, ids, 4) for shift in (-4e6, 4e6)]
    return [*cases, (20 * cases[0][0], cases[0][1], 1)]


TABLE = Task(
    name="weights_from_table",
    reference=_from_table,
    visible=(
        (torch.tensor([[0.0, 5.0], [math.log(3), 0.0]]), torch.tensor([0, 1]), 1),
        (
            torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0], [4.0, 1.0, 1.0]]).double(),
            torch.tensor([[2, 0, 1, 0], [1, 1, 2, 2]]),
            4,
        ),
        (
            torch.tensor([[1.0, 0.0, 4e3], [2.0, 1.0, -1.0], [0.0, 3.0, 0.0]]),
            torch.tensor([0, 1, 0]),
            4,
        ),
        (torch.tensor([[-4.004e6, -4.012e6], [-4.008e6, -4e6]]), torch.tensor([[0, 1], [1, 0]]), 4),
    ),
    hidden=_table_hidden,
)


# --- k_composition --------------------------------------------------------------------------------


def _k_composition(W_V: Tensor, W_O: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """Pair by pair, by traces: ‖M‖² = tr(M Mᵀ); double precision."""
    out = torch.zeros(len(W_V), len(W_Q), dtype=torch.float64)
    for i, (V, W) in enumerate(zip(W_V.double(), W_O.double(), strict=True)):
        for j, (Q, K) in enumerate(zip(W_Q.double(), W_K.double(), strict=True)):
            writes, reads = V @ W, K @ Q.T
            both = writes @ reads
            size = [torch.trace(M @ M.T) for M in (both, writes, reads)]
            out[i, j] = (size[0] / (size[1] * size[2])).sqrt()
    return out.to(W_V.dtype)


Heads = tuple[Tensor, Tensor, Tensor, Tensor]


def _heads_of(generator: Generator, d: int, d_v: int, d_k: int, H_1: int, H_2: int) -> Heads:
    W_V, W_O = torch.randn(2, H_1, d, d_v, generator=generator)
    W_Q, W_K = torch.randn(2, H_2, d, d_k, generator=generator)
    return W_V, W_O.mT.contiguous(), W_Q, W_K


def _k_hidden(rng: random.Random, generator: Generator) -> Sequence[Heads]:
    n = rng.randint(3, 5)
    sizes = [rng.sample(range(2, 9), 5) for _ in range(4)]
    cases = [_heads_of(generator, *one) for one in sizes]
    cases += [_heads_of(generator, n, n, n, n, n) for _ in range(2)]
    cases += [_heads_of(generator, 6, 2, 3, 1, 4), _heads_of(generator, 6, 2, 3, 4, 1)]
    W_V, W_O, W_Q, W_K = cases[rng.randint(0, 3)]
    cases.append((W_V.double(), W_O.double(), W_Q.double(), W_K.double()))
    # the sizes of real matrices: a norm that is no norm shows, and a constant factor does not
    cases.append((W_V / 50, W_O * 20, W_Q / 50, W_K))
    # one head writes only what the keys of the other read, and one nothing of it
    e = torch.eye(4)
    W_V, W_O = e[None, :, :1].expand(2, 4, 1).clone(), e[[0, 3]][:, None]
    return [*cases, (W_V, W_O, e[None, :, 1:2].clone(), e[None, :, :1].clone())]


K_COMPOSITION = Task(
    name="k_composition",
    reference=_k_composition,
    visible=(
        (
            torch.tensor([[[1.0], [0.0]]]),
            torch.tensor([[[3.0, 4.0]]]),
            torch.tensor([[[0.0], [2.0]]]),
            torch.tensor([[[1.0], [0.0]]]),
        ),
        (
            torch.tensor(
                [
                    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
                    [[2.0, 1.0], [0.0, -1.0], [1.0, 0.0]],
                    [[0.0, 1.0], [1.0, 0.0], [-1.0, 2.0]],
                ]
            ),
            torch.tensor(
                [
                    [[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]],
                    [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]],
                    [[3.0, 0.0, 0.0], [1.0, -2.0, 0.0]],
                ]
            ),
            torch.tensor([[[1.0], [2.0], [0.0]], [[0.0], [1.0], [-1.0]]]),
            torch.tensor([[[0.0], [1.0], [1.0]], [[3.0], [0.0], [1.0]]]),
        ),
        (
            torch.tensor([[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [1.0, 1.0]]]).double(),
            torch.tensor([[[0.5, 2.0], [1.0, 0.0]], [[1.0, 1.0], [4.0, 0.0]]]).double(),
            torch.tensor([[[1.0, 0.0], [2.0, 1.0]], [[0.0, 3.0], [1.0, 1.0]]]).double(),
            torch.tensor([[[2.0, 1.0], [0.0, 1.0]], [[1.0, 1.0], [-1.0, 0.0]]]).double(),
        ),
    ),
    hidden=_k_hidden,
    tolerance=1e-3,
)


# --- induction_score ------------------------------------------------------------------------------


def _induction(A: Tensor, period: int) -> Tensor:
    """Destination by destination: the weight on what followed the token one period ago."""
    weights = [A[..., t, t - period + 1] for t in range(period, A.shape[-1])]
    return torch.stack(weights, -1).mean(-1)


def _induction_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, int]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3), (2, 1, 2)):
        period = rng.randint(3, 6)
        T = 2 * period + rng.randint(1, 2 * period)
        cases.append((_maps(generator, lead, T), period))
    n = rng.randint(4, 6)  # all axes alike, twice
    cases += [(_maps(generator, (n, n), n), 2) for _ in range(2)]
    map_, period = cases[0]
    cases += [(map_.double(), period), (map_, 1), (map_, 2), (_maps(generator, (2,), 6), 5)]
    return [*cases, (_maps(generator, (2,), 10), 5)]


def _maps(generator: Generator, lead: tuple[int, ...], T: int) -> Tensor:
    scores = 2 * torch.randn(*lead, T, T, generator=generator)
    return scores.masked_fill(torch.ones(T, T).triu(1) > 0, -torch.inf).softmax(-1)


INDUCTION = Task(
    name="induction_score",
    reference=_induction,
    visible=(
        (
            torch.tensor(
                [
                    [1.0, 0.0, 0.0, 0.0],
                    [0.7, 0.3, 0.0, 0.0],
                    [0.2, 0.4, 0.4, 0.0],
                    [0.05, 0.1, 0.8, 0.05],
                ]
            ),
            2,
        ),
        (_maps(Generator().manual_seed(1), (2,), 7).mul(64).round().div(64), 3),
        (_maps(Generator().manual_seed(2), (), 5).mul(64).round().div(64).double(), 1),
    ),
    hidden=_induction_hidden,
)


TASKS = (PATHS, COPYING, TABLE, K_COMPOSITION, INDUCTION)
