"""Tasks of chapter 09: paths, copying, from a table to a map, K-composition, induction."""

import math
import random

import numpy as np
import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task

Lead = tuple[int, ...]

# --- logit_paths ----------------------------------------------------------------------------------


def _paths(x: Tensor, A: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Head by head, with the merged matrix of each; the direct path is the unit matrix."""
    maps = [torch.einsum("...sa,ad->...sd", x, W_U)]
    for h in range(len(W_V)):
        merged = torch.einsum("av,vb,bd->ad", W_V[h], W_O[h], W_U)
        maps.append(torch.einsum("...ts,...sa,ad->...td", A[..., h, :, :], x, merged))
    return torch.stack(maps, -3)


def _drawn_layer(
    rng: random.Random, generator: Generator, T: int, d: int, d_v: int, H: int, D: int, lead: Lead
) -> tuple[Tensor, ...]:
    """A stream, maps that are causal or not, and matrices that keep the size of what they meet."""
    future = torch.ones(T, T, dtype=torch.bool).triu(rng.choice((1, T)))
    scores = 2 * torch.randn(*lead, H, T, T, generator=generator)
    return (
        torch.randn(*lead, T, d, generator=generator),
        scores.masked_fill(future, -torch.inf).softmax(-1),
        torch.randn(H, d, d_v, generator=generator) / d**0.5,
        torch.randn(H, d_v, d, generator=generator) / d_v**0.5,
        torch.randn(d, D, generator=generator) / d**0.5,
    )


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
    hidden=varied(_drawn_layer, {"T": 1, "d": 1, "d_v": 1, "H": 1, "D": 1}, lead=True),
)


# --- copying_score --------------------------------------------------------------------------------


def _copying(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Head by head, by numpy, and in double precision."""
    E, U = W_E.double().numpy(), W_U.double().numpy()
    found = []
    for V, W in zip(W_V.double().numpy(), W_O.double().numpy(), strict=True):
        values = np.linalg.eigvals(W @ (U @ (E @ V)))
        found.append(values.sum().real / np.abs(values).sum())
    return torch.tensor(found, dtype=W_E.dtype)


Embedded = tuple[Tensor, ...]


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


def _far(rng: random.Random, generator: Generator) -> list[Embedded]:
    """Such heads; with units around them, the d × d table is as far from normal. A faint value."""
    E, V, W, U = _far_from_normal(generator)
    unit = torch.eye(len(E)).double()
    faint = unit[:2, :2], unit[None, :2, :2], torch.tensor([[[1, 0], [0, -5e-7]]]).double()
    return [(E, V, W, U), (unit, E @ V, W @ U, unit), (*faint, faint[0])]


def _drawn_embedded(
    rng: random.Random, generator: Generator, D: int, d: int, d_v: int, H: int
) -> Embedded:
    """A head is no wider than the stream, and the stream no wider than the vocabulary.

    What a head writes leans on what it read, so that no eigenvalues cancel to less than rounding.
    """
    d_v, d, D = sorted((D, d, d_v))
    W_E, W_U = torch.randn(2, D, d, generator=generator)
    W_V = torch.randn(H, d, d_v, generator=generator)
    turns = torch.randn(H, d_v, d_v, generator=generator)
    return W_E, W_V, turns @ (W_U.T @ W_E @ W_V).mT, W_U.T


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
    hidden=varied(
        _drawn_embedded,
        {"D": 1, "d": 1, "d_v": 1, "H": 1},
        dtypes=(torch.float64,),  # torch has no eigenvalues in half
        scaled=tuple((place, 1e-3) for place in range(4)),
        also=_far,
    ),
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


Text = tuple[Tensor, Tensor, int]


def _drawn_text(
    rng: random.Random, generator: Generator, T: int, D: int, d_k: int, lead: Lead
) -> Text:
    table = 3 * torch.randn(D, D, generator=generator)
    return table, torch.randint(D, (*lead, T), generator=generator), d_k


def _extreme(rng: random.Random, generator: Generator) -> list[Text]:
    absent = torch.randn(6, 6, generator=generator)
    absent[:, 2] = 900  # the softmax over the vocabulary: of a token that does not occur
    ids = torch.tensor([[0, 4, 1, 5], [3, 3, 0, 1]])
    far = 4e3 * torch.randn(6, 6, generator=generator).double()  # a finite mask, exp by hand
    return [(absent, ids, 3), (far - 4e6, ids, 4), (far + 4e6, ids, 4)]


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
            torch.tensor([[1.0, 0.0, 900.0], [2.0, 1.0, -1.0], [0.0, 3.0, 0.0]]),
            torch.tensor([0, 1, 0]),
            3,
        ),
        (torch.tensor([[-4.004e6, -4.012e6], [-4.008e6, -4e6]]).double(), torch.eye(2).long(), 4),
    ),
    hidden=varied(
        _drawn_text, {"T": 1, "D": 1, "d_k": 1}, lead=True, scaled=((0, 100),), also=_extreme
    ),
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


Heads = tuple[Tensor, ...]


def _drawn_heads(
    rng: random.Random, generator: Generator, d: int, d_v: int, d_k: int, H_1: int, H_2: int
) -> Heads:
    W_V, W_O = torch.randn(2, H_1, d, d_v, generator=generator) / 2
    W_Q, W_K = torch.randn(2, H_2, d, d_k, generator=generator) / 2
    return W_V, W_O.mT, W_Q, W_K


def _all_or_nothing(rng: random.Random, generator: Generator) -> list[Heads]:
    """Roots that round below 0: a key reads all that a head writes, or nothing."""
    e = torch.eye(4)
    W_V, W_O = e[None, :, :1].expand(2, 4, 1), e[[0, 3]][:, None]
    turn = torch.linalg.qr(torch.randn(4, 4, generator=generator).double())[0]
    turned = W_V.double(), W_O.double() @ turn, e[None, :, 1:2].double(), turn.mT[None, :, :1]
    return [(W_V, W_O, e[None, :, 1:2], e[None, :, :1]), turned]


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
    hidden=varied(
        _drawn_heads,
        {"d": 1, "d_v": 1, "d_k": 1, "H_1": 1, "H_2": 1},
        scaled=((0, 1e-3), (1, 1e-3), (2, 1e-3), (3, 1e3)),
        also=_all_or_nothing,
    ),
)


# --- induction_score ------------------------------------------------------------------------------


def _induction(A: Tensor, period: int) -> Tensor:
    """Destination by destination: the weight on what followed the token one period ago."""
    weights = [A[..., t, t - period + 1] for t in range(period, A.shape[-1])]
    return torch.stack(weights, -1).mean(-1)


def _drawn_maps(
    rng: random.Random, generator: Generator, more: int, period: int, lead: Lead
) -> tuple[Tensor, int]:
    return _maps(generator, lead, period + more), period


def _maps(generator: Generator, lead: Lead, T: int) -> Tensor:
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
    hidden=varied(_drawn_maps, {"more": 1, "period": 1}, lead=True),
)


TASKS = (PATHS, COPYING, TABLE, K_COMPOSITION, INDUCTION)
