"""Tasks of chapter 13: mean cosine, entropy of rows, aligned keys, cones, uniform weights."""

import math
import random
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from grading.task import Task


def _lead(*shape: int) -> list[tuple[int, ...]]:
    """The places of tensors whose leading axes have this shape."""
    found: list[tuple[int, ...]] = [()]
    for size in shape:
        found = [(*one, i) for one in found for i in range(size)]
    return found


def _padding(rng: random.Random, N: int, T: int, fewest: int) -> Tensor:
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


def _cosine_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    cases = [_texts(generator, (), rng.randint(4, 7), 3)]
    cases.append(_texts(generator, (3,), 6, 4, _padding(rng, 3, 6, 2)))
    mask = _padding(rng, 6, 7, 3).reshape(2, 3, 7)
    cases.append(_texts(generator, (2, 3), 7, 5, mask))
    k = rng.randint(3, 5)
    cases += [_texts(generator, (k,), k, k, _padding(rng, k, k, 2)) for _ in range(2)]
    M, mask = _texts(generator, (2,), 5, 3, torch.tensor([[True] * 5, [False, True] * 2 + [True]]))
    cases.append((M.double(), mask))
    cases.append((M.masked_fill(~mask[..., None], 0), mask))  # rows of zeros
    cases.append((M.masked_fill(~mask[..., None], 1e6), mask))
    two = torch.randn(1, 4, generator=generator)
    cases.append((torch.cat([two, -3 * two]), torch.ones(2, dtype=torch.bool)))  # opposite
    cases.append((torch.eye(5) - 0.2, torch.ones(5, dtype=torch.bool)))  # the least value
    M, mask = _texts(generator, (), 6, 3)
    cases.append((M * torch.tensor([1e-4, 1, 1, 1e3, 1, 1])[:, None], mask))  # short and long
    return [*cases, _texts(generator, (), 300, 2)]  # many rows


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
        _texts(Generator().manual_seed(4), (3,), 3, 3),
        (_texts(Generator().manual_seed(5), (), 4, 3)[0].double(), torch.ones(4) > 0),
    ),
    hidden=_cosine_hidden,
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
    """Weights (N, T, T), some exactly 0; rows of padding hold zeros, uniform weights or NaN."""
    N, T = mask.shape
    A = (2 * torch.randn(N, T, T, generator=generator)).softmax(-1)
    drop = torch.rand(N, T, T, generator=generator) < 0.2
    A = A.masked_fill(drop & ~torch.eye(T, dtype=torch.bool), 0) * mask[:, None]
    A = A / A.sum(-1, keepdim=True)
    filling = {"zeros": 0.0, "uniform": 1 / T, "nan": math.nan}[rest]
    return A.masked_fill(~mask[..., None], filling)


def _entropy_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    cases = []
    for N, T, rest in ((1, 5, "zeros"), (3, 6, "uniform"), (4, 5, "nan"), (2, 7, "zeros")):
        mask = _padding(rng, N, T, 2)
        cases.append((_maps(rng, generator, mask, rest), mask))
    k = rng.randint(4, 5)
    for _ in range(2):
        mask = _padding(rng, k, k, 2)
        cases.append((_maps(rng, generator, mask, "uniform"), mask))
    A, mask = cases[1]
    cases.append((A.double(), mask))
    one = torch.tensor([[False, True, False, False], [True, True, True, False]])  # one real token
    cases.append((_maps(rng, generator, one, "uniform"), one))
    cases.append((torch.ones(1, 1, 1), torch.ones(1, 1) > 0))
    mask = _padding(rng, 3, 4, 2)
    sharp = torch.eye(4).expand(3, 4, 4).contiguous()  # every row looks at itself alone
    cases.append((sharp, mask))
    flat = mask[:, None].float().expand(3, 4, 4) / mask.sum(-1)[:, None, None]
    return [*cases, (flat.contiguous(), mask)]


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
        (torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).double(), torch.ones(1, 2) > 0),
    ),
    hidden=_entropy_hidden,
)


# --- aligned_keys ---------------------------------------------------------------------------------


def _aligned(weights: Tensor, q: Tensor) -> Tensor:
    """Key by key: the score that its weight asks for beyond that of the least one."""
    d, size = len(q), math.sqrt(math.fsum(x * x for x in q.tolist()))
    least = min(weights.tolist())
    lengths = [1 + math.log(w / least) * math.sqrt(d) / size for w in weights.tolist()]
    keys = torch.tensor(lengths, dtype=torch.float64)[:, None] * (q.double() / size)
    return keys.to(q.dtype)


def _keys_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    def case(n: int, d: int, sharp: float = 1.5, long: float = 1.0) -> tuple[Tensor, Tensor]:
        weights = (sharp * torch.randn(n, generator=generator)).softmax(-1)
        return weights, long * torch.randn(d, generator=generator)

    k = rng.randint(3, 5)
    cases = [case(rng.randint(5, 7), 3), case(3, rng.randint(6, 9)), case(k, k), case(k, k)]
    cases += [case(4, 5, long=20), case(4, 6, long=0.1)]  # a long query, a short one
    cases += [case(5, 2, sharp=0.0), case(1, 3)]  # uniform weights; one key
    cases.append((case(4, 1)[0], torch.tensor([-0.5])))
    weights, q = case(4, 4)
    cases.append((weights.double(), q.double()))
    return [*cases, (torch.tensor([1e-6, 0.25, 0.75 - 1e-6]), q), case(6, 4)]


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
    hidden=_keys_hidden,
)


# --- outside_cone ---------------------------------------------------------------------------------


def _left(y: Tensor, V: Tensor) -> Tensor:
    """By the method of Lawson and Hanson, which knows no rounds."""
    from scipy.optimize import nnls

    far = nnls(V.T.double().numpy(), y.double().numpy())[1]
    return torch.tensor(far / y.double().norm().item(), dtype=y.dtype)


def _cone_case(generator: Generator, n: int, d: int, kind: str) -> tuple[Tensor, Tensor]:
    """Values around a direction, and a vector inside their cone, outside, or turned round."""
    V = torch.randn(n, d, generator=generator) + 0.7 * torch.randn(d, generator=generator)
    y = torch.rand(n, generator=generator) @ V
    if kind == "random":
        y = torch.randn(d, generator=generator)
    if kind == "mixed":
        y = torch.randn(n, generator=generator) @ V
    return (-y if kind == "turned" else y), V


def _cone_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    sizes = ((5, 6, "inside"), (2, 4, "random"), (4, 6, "turned"), (5, 7, "mixed"))
    cases = [_cone_case(generator, n, d, kind) for n, d, kind in sizes]
    k = rng.randint(3, 4)
    cases += [_cone_case(generator, k, k, "mixed") for _ in range(2)]
    cases.append(_cone_case(generator, 1, rng.randint(2, 4), "random"))
    V = torch.tensor([[1.0, 0.2], [-0.3, 1.0], [1.0, 1.0], [0.5, 2.0]])  # more than components
    cases += [(torch.tensor([3.0, -1.0]), V), (torch.tensor([-1.0, -0.5]), V)]
    y, V = _cone_case(generator, 4, 5, "mixed")
    cases += [(y.double(), V.double()), (100 * y, V), (y, V * torch.tensor([[9.0], [1], [1], [1]]))]
    cases.append((y, torch.cat([V[:2], V[:2]])))  # the same value more than once
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator))[0]
    y, V = torch.tensor([0.0, 1.0, 0.0]), torch.tensor([[1.0, 0.0, 0.0], [-3.0, 1.0, 0.0]])
    cases.append((y @ turn, V @ turn))  # each round leaves nine tenths
    turn = torch.linalg.qr(torch.randn(2, 2, generator=generator))[0]
    y, V = torch.tensor([3.0, 2.0]), torch.tensor([[2.0, 1.0], [-1.0, 0.0], [3.0, -1.0]])
    cases.append((y @ turn, V @ turn))  # inside by a value whose best coefficient is below 0
    return [*cases, _cone_case(generator, 3, 6, "mixed")]


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
    hidden=_cone_hidden,
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


def _shift_hidden(rng: random.Random, generator: Generator) -> Sequence[Weighed]:
    cases = []
    for N, T, d, rest in ((1, 5, 3, "zeros"), (3, 6, 4, "uniform"), (4, 5, 2, "zeros")):
        cases.append(_weighed(rng, generator, _padding(rng, N, T, 2), d, rest))
    k = rng.randint(3, 5)
    cases += [_weighed(rng, generator, _padding(rng, k, k, 2), k, "uniform") for _ in range(2)]
    A, V, mask = cases[1]
    cases.append((A.double(), V.double(), mask))
    cases.append((A, V.masked_fill(~mask[..., None], 1e4), mask))
    one = torch.tensor([[False, True, False, False], [True, True, False, True]])  # one real token
    cases.append(_weighed(rng, generator, one, 3, "zeros"))
    same = V[:, :1].expand_as(V).contiguous()  # all values alike: nothing to decide
    cases.append((A, same, mask))
    lengths = 1 + torch.arange(6)[:, None]
    return [*cases, (A, same * lengths, mask)]  # one direction, other lengths


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
        tuple(
            part.double() if part.is_floating_point() else part
            for part in _shown_shift(5, torch.tensor([[False, True, True], [True] * 3]), 2, "zeros")
        ),
    ),
    hidden=_shift_hidden,
)


TASKS: tuple[Task, ...] = (COSINE, ENTROPY, ALIGNED, OUTSIDE, SHIFT)
