"""Tasks of chapter 13: mean cosine, entropy of rows, aligned keys, cones, uniform weights."""

import math
import random

import torch
from torch import Generator, Tensor

from grading.properties import converted, varied
from grading.task import Task


def _lead(*shape: int) -> list[tuple[int, ...]]:
    """The places of tensors whose leading axes have this shape."""
    found: list[tuple[int, ...]] = [()]
    for size in shape:
        found = [(*one, i) for one in found for i in range(size)]
    return found


def _padding(rng: random.Random, N: int, T: int, fewest: int = 1) -> Tensor:
    """Masks of N texts (N, T): the first has no padding, the others some at either end."""
    mask = torch.zeros(N, T, dtype=torch.bool)
    mask[0] = True
    for row in mask[1:]:
        n = rng.randint(fewest, max(fewest, T - 1))
        start = rng.choice((0, T - n))
        row[start : start + n] = True
    return mask


# --- mean_cosine ----------------------------------------------------------------------------------


def _pairs(M: Tensor, mask: Tensor) -> Tensor:
    """The definition: the mean over all pairs of real rows, text by text."""
    answer = torch.zeros(M.shape[:-2], dtype=torch.float64)
    for place in _lead(*M.shape[:-2]):
        real = M[place][mask[place]].double()
        norms = real.norm(dim=-1)
        cosines = (real @ real.T) / (norms[:, None] * norms)
        i, j = torch.triu_indices(len(real), len(real), 1)
        answer[place] = cosines[i, j].mean()
    return answer.to(M.dtype)


def _texts(
    generator: Generator, lead: tuple[int, ...], n: int, d: int, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of different lengths around a direction, and noise in the rows of padding."""
    toward = torch.randn(*lead, 1, d, generator=generator)
    M = torch.randn(*lead, n, d, generator=generator) + toward
    M = M * (1.5 * torch.randn(*lead, n, 1, generator=generator)).exp()
    return M, torch.ones(*lead, n, dtype=torch.bool) if mask is None else mask


def _drawn_rows(
    rng: random.Random, generator: Generator, n: int, d: int, lead: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Rows of which at least two are real, and what padding may hold: zeros, much."""
    places = _lead(*lead)
    mask = torch.zeros(len(places), n, dtype=torch.bool)
    for row in mask:
        row[rng.sample(range(n), rng.randint(2, n))] = True
    M, mask = _texts(generator, lead, n, d, mask.reshape(*lead, n))
    return M.masked_fill(~mask[..., None], rng.choice((0, 6e4))), mask


def _more_rows(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Opposite rows, the least value, very short beside long ones, and many."""
    two = torch.randn(1, 4, generator=generator)
    padded = torch.cat([two, -3 * two, 1e30 * two, two / 1e30]), torch.arange(4) < 2
    M, mask = _texts(generator, (), 6, 3)
    return [
        (torch.cat([two, -3 * two]), torch.ones(2, dtype=torch.bool)),
        padded,
        (torch.eye(5) - 0.2, torch.ones(5, dtype=torch.bool)),
        (M * torch.tensor([1e-4, 1, 1, 1e3, 1, 1])[:, None], mask),
        _texts(generator, (), 300, 2),
    ]


COSINE = Task(
    name="mean_cosine",
    reference=_pairs,
    visible=(
        (torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.ones(3, dtype=torch.bool)),
        (
            torch.tensor([[2.0, -1, -1], [0, 0, 0], [-1, 2, -1], [-3, -3, 6]]),
            torch.tensor([True, False, True, True]),
        ),
        _texts(
            Generator().manual_seed(1),
            (2,),
            5,
            3,
            torch.tensor([[True] * 5, [True, True, True, False, False]]),
        ),
        _texts(Generator().manual_seed(2), (2, 2), 4, 2),
        (_texts(Generator().manual_seed(5), (1,), 4, 3)[0].double(), torch.ones(1, 4) > 0),
    ),
    hidden=varied(
        _drawn_rows,
        {"n": 2, "d": 1},
        lead=True,
        dtypes=(torch.float64,),  # in half, torch's normalize makes NaN of rows of zeros
        scaled=((0, 100), (0, 0.01)),
        also=_more_rows,
    ),
)


# --- row_entropy ----------------------------------------------------------------------------------


def _entropy(A: Tensor, mask: Tensor) -> Tensor:
    """Text by text and row by row, over the real tokens alone."""
    answer = []
    for text, real in zip(A.double(), mask, strict=True):
        rows = text[real][:, real].tolist()
        sums = [-math.fsum(w * math.log(w) for w in row if w > 0) for row in rows]
        answer.append(sum(sums) / len(rows) / math.log(len(rows)) if len(rows) > 1 else 0.0)
    return torch.tensor(answer, dtype=A.dtype)


def _maps(rng: random.Random, generator: Generator, mask: Tensor, rest: str) -> Tensor:
    """Weights (N, T, T), some exactly 0; rows of padding hold zeros, uniform weights, ∞ or NaN."""
    N, T = mask.shape
    A = (2 * torch.randn(N, T, T, generator=generator)).softmax(-1)
    drop = torch.rand(N, T, T, generator=generator) < 0.2
    A = A.masked_fill(drop & ~torch.eye(T, dtype=torch.bool), 0) * mask[:, None]
    A = A / A.sum(-1, keepdim=True)
    filling = {"zeros": 0.0, "uniform": 1 / T, "inf": math.inf, "nan": math.nan}[rest]
    return A.masked_fill(~mask[..., None], filling)


def _drawn_map(rng: random.Random, generator: Generator, T: int, N: int) -> tuple[Tensor, Tensor]:
    mask = _padding(rng, N, T)
    return _maps(rng, generator, mask, rng.choice(("zeros", "uniform", "nan"))), mask


def _extremes(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """One real token; ∞ in padding; rows of one token, with small rest; rows that are uniform."""
    one = torch.tensor([[False, True, False, False], [False, True, True, True]])
    mask = _padding(rng, 3, 4, 2)
    return [
        (_maps(rng, generator, one, "uniform"), one),
        (_maps(rng, generator, mask, "inf"), mask),
        (_maps(rng, generator, mask, "nan").double(), mask),
        (torch.eye(4).repeat(3, 1, 1), mask),
        _even_and_not(13),
    ]


def _even_and_not(n: int) -> tuple[Tensor, Tensor]:
    """In double precision: even weights, where ln n shows, and next to nothing beside 1."""
    A = torch.stack([torch.ones(n, n), torch.eye(n) + 1e-7]).double()
    return A / A.sum(-1, keepdim=True), torch.ones(2, n) > 0


def _shown_map(seed: int, mask: Tensor, rest: str) -> tuple[Tensor, Tensor]:
    return _maps(random.Random(seed), Generator().manual_seed(seed), mask, rest), mask


ENTROPY = Task(
    name="row_entropy",
    reference=_entropy,
    visible=(
        (
            torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]]),
            torch.tensor([[True, True, False]]),
        ),
        _shown_map(1, torch.tensor([[True] * 4, [False, True, True, True]]), "uniform"),
        _shown_map(2, torch.tensor([[False, True, True, True, False], [True] * 5]), "nan"),
        _shown_map(3, torch.tensor([[True] * 3, [True, False, False], [True] * 3]), "zeros"),
        _even_and_not(7),
    ),
    hidden=varied(_drawn_map, {"T": 1, "N": 1}, also=_extremes),
)


# --- aligned_keys ---------------------------------------------------------------------------------


def _aligned(weights: Tensor, q: Tensor) -> Tensor:
    """Key by key: the score that its weight asks for beyond that of the least one."""
    d, size = len(q), math.sqrt(math.fsum(x * x for x in q.tolist()))
    least = min(weights.tolist())
    lengths = [1 + math.log(w / least) * math.sqrt(d) / size for w in weights.tolist()]
    keys = torch.tensor(lengths, dtype=torch.float64)[:, None] * (q.double() / size)
    return keys.to(q.dtype)


def _drawn_keys(rng: random.Random, generator: Generator, n: int, d: int) -> tuple[Tensor, Tensor]:
    weights = (1.5 * torch.randn(n, generator=generator)).softmax(-1)
    return weights, torch.randn(d, generator=generator)


def _uneven(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Uniform weights; a weight of almost nothing; a query whose only component is below 0."""
    q = torch.randn(4, generator=generator)
    return [
        (torch.full((5,), 0.2), q),
        (torch.tensor([2e-30, 0.25, 0.75]), q),
        (torch.tensor([0.25, 0.5, 0.25]), torch.tensor([-rng.random() - 0.5])),
    ]


def _shown_keys(seed: int, n: int, d: int) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    return torch.randn(n, generator=generator).softmax(-1), torch.randn(d, generator=generator)


ALIGNED = Task(
    name="aligned_keys",
    reference=_aligned,
    visible=(
        (torch.tensor([0.25, 0.5, 0.25]), torch.tensor([4.0, 0.0, 0.0, 0.0])),
        _shown_keys(2, 5, 3),
        _shown_keys(1, 3, 3),
        (torch.tensor([0.001, 0.009, 0.99]).double(), torch.tensor([-3.0]).double()),
        (torch.tensor([0.2, 0.2, 0.2, 0.2, 0.2]), torch.tensor([1.0, -2.0])),
    ),
    hidden=varied(_drawn_keys, {"n": 1, "d": 1}, scaled=((1, 30), (1, 1e-3)), also=_uneven),
)


# --- outside_cone ---------------------------------------------------------------------------------


def _left(y: Tensor, V: Tensor) -> Tensor:
    """By the method of Lawson and Hanson, which knows no rounds."""
    from scipy.optimize import nnls

    far = nnls(V.T.double().numpy(), y.double().numpy())[1]
    return torch.tensor(far / y.double().norm().item(), dtype=y.dtype)


def _drawn_cone(rng: random.Random, generator: Generator, d: int, n: int) -> tuple[Tensor, Tensor]:
    """Values of any length around a direction; a vector in their cone, outside, or turned round."""
    n = min(n, 6)
    while True:
        V = torch.randn(n, d, generator=generator) + 0.7 * torch.randn(d, generator=generator)
        inside = torch.rand(n, generator=generator) @ V
        mixed = torch.randn(n, generator=generator) @ V
        y = rng.choice((inside, -inside, mixed, torch.randn(d, generator=generator)))
        if V.norm(dim=1).min() > 0.1 and y.norm() > 0.1 and _soon(y.double(), V.double()):
            return y, V * (1.5 * torch.randn(n, 1, generator=generator)).exp()


def _soon(y: Tensor, V: Tensor) -> bool:
    """Whether 100 of the 300 rounds are enough."""
    a = y.new_zeros(len(V))
    for _ in range(100):
        for j, v in enumerate(V):
            a[j] = (a[j] + (y - a @ V) @ v / (v @ v)).clamp(min=0)
    return bool(((y - a @ V).norm() / y.norm() - _left(y, V)).abs() < 1e-6)


def _hard_cones(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Equal values; many rounds; a value that looks as if not needed; five needed; several not."""
    y, V = _drawn_cone(rng, generator, 5, 2)
    five = torch.linalg.qr(torch.randn(6, 6, generator=generator))[0][:5]
    cases = [(y, torch.cat([V, V])), ((1 + torch.rand(5, generator=generator)) @ five, five)]
    cases += [_drawn_cone(rng, generator, d, n) for d, n in ((6, 5), (7, 6))]
    slow = torch.tensor([[8.0, 7.0], [4.0, 6.0], [7.0, 6.0], [3.0, 6.0]]).double()
    cases.append((torch.tensor([6.0, 1.0]).double(), 1e5 * slow))  # 100 rounds are too few
    for to, rows in (
        ([0.0, 1.0, 0.0], [[1.0, 0.0, 0.0], [-3.0, 1.0, 0.0]]),
        ([3.0, 2.0], [[2.0, 1.0], [-1.0, 0.0], [3.0, -1.0]]),
        # each way of dropping values leaves something else
        ([-3.0, -2.0, 2.0], [[-2.0, -3, 3], [0.0, 0, -1], [-1.0, -2, 3], [3.0, 0, 3]]),
    ):
        turn = torch.linalg.qr(torch.randn(len(to), len(to), generator=generator))[0]
        cases.append((torch.tensor(to) @ turn, torch.tensor(rows) @ turn))
    return cases


OUTSIDE = Task(
    name="outside_cone",
    reference=_left,
    visible=(
        (torch.tensor([3.0, -4.0]), torch.tensor([[1.0, 0.0], [1.0, 1.0]])),
        # inside; the second value has the least coefficient of all three, and is needed
        (torch.tensor([3.0, 2.0]), torch.tensor([[2.0, 1.0], [-1.0, 0.0], [3.0, -1.0]])),
        (
            torch.tensor([4.0, -2.0, 4.0, 0.0]),  # inside, and four values are needed
            torch.tensor(
                [
                    [1.0, 1.0, 0.0, 0.0],
                    [-2.0, 1.0, 2.0, 1.0],
                    [0.0, -1.0, 2.0, -2.0],
                    [-1.0, -1.0, -2.0, 0.0],
                    [2.0, 1.0, 1.0, 3.0],
                ]
            ),
        ),
        (
            torch.tensor([-2.0, -1.0, -1.0]).double(),
            torch.tensor([[1.0, 0.5, 1.0], [2.0, 1.0, 0.0]]).double(),
        ),
        (torch.tensor([0.0, 1.0]), torch.tensor([[1.0, 0.0], [-3.0, 1.0]])),  # many rounds
        (
            torch.tensor([2.0, -1.0, 3.0]),
            torch.tensor([[1.0, 0.0, 0.5], [0.2, 1.0, 1.0], [1.0, 0.0, 0.5], [-1.0, -1.0, 2.0]]),
        ),
    ),
    hidden=varied(
        _drawn_cone, {"d": 1, "n": 1}, scaled=((0, 100), (0, 1e-3), (1, 1e-3)), also=_hard_cones
    ),
    tolerance=1e-3,
)


# --- uniform_shift --------------------------------------------------------------------------------


def _shift(A: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    """Text by text, the real tokens alone."""
    answer = []
    for weights, values, real in zip(A.double(), V.double(), mask, strict=True):
        own = weights[real][:, real] @ values[real]
        moved = (own - values[real].mean(0)).norm(dim=-1) / own.norm(dim=-1)
        answer.append(moved.mean())
    return torch.stack(answer).to(V.dtype)


Weighed = tuple[Tensor, Tensor, Tensor]


def _weighed(rng: random.Random, generator: Generator, mask: Tensor, d: int, rest: str) -> Weighed:
    """Maps and values, which are not centred on 0."""
    N, T = mask.shape
    V = torch.randn(N, T, d, generator=generator) + 2 * torch.randn(N, 1, d, generator=generator)
    return _maps(rng, generator, mask, rest), V, mask


def _drawn_shift(rng: random.Random, generator: Generator, T: int, N: int, d: int) -> Weighed:
    mask = _padding(rng, N, T)
    A, V, _ = _weighed(rng, generator, mask, d, rng.choice(("zeros", "uniform")))
    return A, V.masked_fill(~mask[..., None], rng.choice((0, 1, 1e4))), mask


def _alike(rng: random.Random, generator: Generator) -> list[Weighed]:
    """Much in padding. Values of one direction: as long as each other, with no choice, and not.

    So many that `cdist` would square them.
    """
    A, V, mask = _weighed(rng, generator, _padding(rng, 3, 26, 2), 64, "uniform")
    same = V[:, :1].repeat(1, 26, 1)
    much = V.masked_fill(~mask[..., None], 1e30)
    return [(A, much, mask), (A, same, mask), (A, same * (1 + torch.arange(26)[:, None]), mask)]


def _shown_shift(seed: int, mask: Tensor, d: int, rest: str) -> Weighed:
    return _weighed(random.Random(seed), Generator().manual_seed(seed), mask, d, rest)


SHIFT = Task(
    name="uniform_shift",
    reference=_shift,
    visible=(
        (
            torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]]),
            torch.tensor([[[3.0, 0.0], [1.0, 0.0], [9.0, 9.0]]]),
            torch.tensor([[True, True, False]]),
        ),
        _shown_shift(1, torch.tensor([[True] * 4, [True, True, True, False]]), 3, "uniform"),
        _shown_shift(2, torch.tensor([[True] * 3, [True, False, False], [True] * 3]), 3, "zeros"),
        converted(
            _shown_shift(5, torch.tensor([[False, True, True], [True] * 3]), 2, "zeros"),
            torch.float64,
        ),
    ),
    hidden=varied(
        _drawn_shift, {"T": 1, "N": 1, "d": 2}, scaled=((1, 1000), (1, 1e-3)), also=_alike
    ),
)


TASKS: tuple[Task, ...] = (COSINE, ENTROPY, ALIGNED, OUTSIDE, SHIFT)
