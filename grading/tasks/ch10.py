"""Tasks of chapter 10: relations and offsets, gates, relevance, and which heads go first."""

import math
import random
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from grading.task import Task

# --- relation_accuracy ----------------------------------------------------------------------------

Arcs = list[list[tuple[int, int]]]
Found = tuple[Tensor, float]


def _hits(maps: list[Tensor], arcs: Arcs, turned: bool = False) -> list[list[list[float]]]:
    """By sentence and arc: for each head, 1 if the largest weight of the destination is there."""
    found = []
    for A, pairs in zip(maps, arcs, strict=True):
        A = A.mT if turned else A
        rows = ((A[:, there, :].argmax(-1), here) for there, here in pairs)
        found.append([[float(one == here) for one in most] for most, here in rows])
    return found


def _pooled(found: list[list[list[float]]]) -> Tensor:
    return torch.tensor([row for rows in found for row in rows]).mean(0)


def _offsets(arcs: Arcs) -> list[int]:
    return [here - there for pairs in arcs for there, here in pairs]


def _share(offsets: list[int]) -> float:
    return max(offsets.count(one) for one in offsets) / len(offsets)


def _relation(maps: list[Tensor], arcs: Arcs) -> Found:
    return _pooled(_hits(maps, arcs)), _share(_offsets(arcs))


def _soft(generator: Generator, *shape: int) -> Tensor:
    """Maps whose rows sum to 1, and in which no two weights of a row are equal."""
    weights: Tensor = (2 * torch.randn(*shape, generator=generator)).softmax(-1)
    return weights


def _sentences(
    rng: random.Random, generator: Generator, H: int, lengths: Sequence[int]
) -> tuple[list[Tensor], Arcs]:
    """Sentences in which some heads look where the arcs point, and some arcs share an offset."""
    maps, arcs = [], []
    for T in lengths:
        A = _soft(generator, H, T, T)
        pairs = []
        for _ in range(rng.randint(1, 4)):
            there = rng.randrange(T)
            steps = [o for o in (-2, 1, 1, 3) if 0 <= there + o < T]
            here = there + rng.choice(steps) if steps else rng.randrange(T)
            for h in range(H):
                if rng.random() < 0.5:
                    A[h, there, here] = 3.0
            pairs.append((there, here))
        maps.append(A / A.sum(-1, keepdim=True))
        arcs.append(pairs)
    return maps, arcs


def _relation_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[list[Tensor], Arcs]]:
    cases = []
    for H in (1, 2, 3, 5):
        lengths = [rng.randint(3, 9) for _ in range(rng.randint(3, 5))]
        cases.append(_sentences(rng, generator, H, lengths))
    maps, arcs = _sentences(rng, generator, 3, (5, 6, 4, 7))
    arcs[rng.choice((0, 2))] = []  # a sentence without the relation
    cases.append((maps, arcs))
    cases += [_sentences(rng, generator, 4, (4, 4, 4, 4)) for _ in range(2)]  # axes alike
    maps, arcs = _sentences(rng, generator, 2, (6,))
    arcs[0] = [(3, 1), (3, 5), (3, 1)]  # one destination, more than one arc
    cases.append((maps, arcs))
    far = _sentences(rng, generator, 2, (9, 9))[0]
    cases.append((far, [[(8, 1), (0, 2)], [(8, 1), (2, 3)]]))  # the best offset is a long one
    return cases


RELATION = Task(
    name="relation_accuracy",
    reference=_relation,
    visible=(
        ([torch.tensor([[[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.3, 0.5, 0.2]]])], [[(1, 2), (0, 1)]]),
        _sentences(random.Random(3), Generator().manual_seed(3), 2, (4, 5, 3)),
        (
            [*_soft(Generator().manual_seed(4), 2, 3, 6, 6)],
            [[(1, 0), (2, 3), (4, 1)], [(3, 2), (4, 3), (5, 1), (5, 5)]],
        ),
    ),
    hidden=_relation_hidden,
)


# --- usual_offset ---------------------------------------------------------------------------------


def _usual(A: Tensor) -> tuple[Tensor, Tensor]:
    """Head by head, text by text, row by row."""
    offsets, shares = [], []
    for h in range(A.shape[1]):
        rows = [(row, t) for text in A[:, h] for t, row in enumerate(text)]
        count = Counter(int(row.argmax()) - t for row, t in rows)
        most = max(count.values())
        offsets.append(min(o for o, times in count.items() if times == most))
        shares.append(most / len(rows))
    return torch.tensor(offsets), torch.tensor(shares)


def _looking(*sources: int) -> Tensor:
    """The map of one head in one text whose destinations look at these sources alone."""
    return torch.eye(len(sources))[list(sources)][None, None]


def _offset_maps(rng: random.Random, generator: Generator, N: int, H: int, T: int) -> Tensor:
    """Maps of N texts in which each head has an offset that it likes."""
    A = _soft(generator, N, H, T, T)
    for h in range(H):
        liked = rng.choice([o for o in (-3, -2, -1, 1, 2) if abs(o) < T] or [0])
        for n in range(N):
            for t in range(max(0, -liked), min(T, T - liked)):
                if rng.random() < 0.6:
                    A[n, h, t, t + liked] = 2.0
    return A / A.sum(-1, keepdim=True)


def _usual_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor]]:
    cases = []
    for N, H, T in ((1, 3, 6), (4, 2, 7), (2, 5, 8), (3, 1, 5), (5, 4, 9)):
        cases.append(_offset_maps(rng, generator, N, H, T))
    n = rng.randint(4, 5)
    cases += [_offset_maps(rng, generator, n, n, n) for _ in range(2)]
    cases.append(_offset_maps(rng, generator, 3, 2, 1))  # one token: it looks at itself
    tied = _looking(1, 0, 3, 2)  # +1 and −1 twice each
    cases.append(torch.cat([tied, tied.flip(-2)], 1))
    cases.append(_looking(4, 0, 0, 0, 0))  # one source, whoever looks
    cases.append(_looking(0, 0, 0, 1, 5, 6, 2))  # −2 and 1 twice each
    alike = _looking(0, 1, 1, 0, 2)  # 0 is commonest in two texts, and −1 in all three together
    cases.append(torch.cat([alike, alike, _looking(1, 0, 1, 2, 3)]))
    return [(A,) for A in cases]


USUAL = Task(
    name="usual_offset",
    reference=_usual,
    visible=(
        (torch.tensor([[[[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.3, 0.6, 0.1]]]]),),
        (_offset_maps(random.Random(1), Generator().manual_seed(1), 3, 2, 5),),
        (_offset_maps(random.Random(7), Generator().manual_seed(7), 2, 3, 4),),
        (_looking(1, 0, 3, 2),),
        (_looking(0, 0, 0, 1, 5, 6, 2),),
        (torch.cat([_looking(0, 1, 1, 0), _looking(0, 1, 1, 0), _looking(1, 0, 1, 2)]),),
    ),
    hidden=_usual_hidden,
)


# --- gate_chances ---------------------------------------------------------------------------------


def _logistic(z: float) -> float:
    return 0.5 * (1 + math.tanh(z / 2))


def _chances(log_a: Tensor, beta: float, low: float, high: float) -> Tensor:
    """By the two values of u at which the gate leaves 0 and reaches 1."""
    flat = []
    for one in log_a.double().flatten().tolist():
        borders = []
        for gate in (0.0, 1.0):
            part = (gate - low) / (high - low)
            s = math.log(part / (1 - part))  # σ(s) = part
            borders.append(_logistic(beta * s - one))
        flat += [borders[0], borders[1] - borders[0], 1 - borders[1]]
    return torch.tensor(flat, dtype=log_a.dtype).reshape(*log_a.shape, 3)


def _gate_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, float, float, float]]:
    cases = []
    for shape in ((), (5,), (1,), (2, 4), (3, 3)):
        log_a = 2 * torch.randn(shape, generator=generator)
        low, high = -round(rng.uniform(0.05, 0.9), 2), 1 + round(rng.uniform(0.05, 0.9), 2)
        cases.append((log_a, round(rng.uniform(0.2, 1.5), 2), low, high))
    log_a = torch.randn(3, 3, generator=generator)
    usual = (0.33, -0.1, 1.1)
    cases += [(log_a, *usual), (torch.randn(3, 3, generator=generator), *usual)]
    cases.append((log_a.double(), *usual))
    cases.append((torch.tensor([-200.0, -30.0, 0.0, 30.0, 200.0]), *usual))
    cases.append((torch.randn(3, generator=generator), 0.66, -0.1, 1.4))
    return [*cases, (torch.randn(3, generator=generator), 2 / 3, -1.0, 1.5)]


GATE = Task(
    name="gate_chances",
    reference=_chances,
    visible=(
        (torch.tensor(0.0), 1.0, -1.0, 2.0),
        (torch.tensor([-3.0, 0.0, 1.5, 200.0]), 0.33, -0.1, 1.1),
        (torch.tensor([[0.5, -1.0], [2.0, 0.0]]).double(), 0.8, -0.2, 1.6),
    ),
    hidden=_gate_hidden,
)


# --- z_rule ---------------------------------------------------------------------------------------


def _z_rule(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    """Output by output: every input gets its part of the sum."""
    out = torch.zeros_like(x)
    for j in range(W.shape[1]):
        parts = x * W[:, j]
        z = parts.sum(-1) + b[j]
        z = torch.where(z < 0, z - eps, z + eps)
        out += parts * (R[..., j] / z)[..., None]
    return out


Shared = tuple[Tensor, Tensor, Tensor, Tensor, float]


def _case(generator: Generator, lead: tuple[int, ...], n: int, m: int, eps: float) -> Shared:
    """Inputs whose sums z are away from 0."""
    x, W, b = (torch.randn(*shape, generator=generator) for shape in ((*lead, n), (n, m), (m,)))
    z = x @ W + b
    close = z.abs() < 0.3
    R = torch.randn(*lead, m, generator=generator).masked_fill(close, 0.0)
    return x, W, b, R, eps


def _z_hidden(rng: random.Random, generator: Generator) -> Sequence[Shared]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3)):
        n, m = rng.sample(range(2, 8), 2)
        cases.append(_case(generator, lead, n, m, round(rng.uniform(0.05, 0.3), 3)))
    k = rng.randint(3, 5)
    cases += [_case(generator, (k,), k, k, 0.1) for _ in range(2)]
    x, W, b, R, eps = cases[1]
    cases.append((x.double(), W.double(), b.double(), R.double(), eps))
    cases.append((x, W, b, R, 1e-9))
    cases.append((x, W, torch.zeros_like(b), R, 0.2))
    cases.append(_case(generator, (3,), 1, 4, 0.1))
    cases.append(_case(generator, (3,), 4, 1, 0.1))
    # the parts of z cancel: it is 0, and counts as positive
    cancels = torch.tensor([[1.0], [-1.0], [0.5]])
    return [
        *cases,
        (torch.tensor([[2.0, 2.0, 0.0]]), cancels, torch.zeros(1), torch.ones(1, 1), 0.5),
    ]


Z_RULE = Task(
    name="z_rule",
    reference=_z_rule,
    visible=(
        (
            torch.tensor([1.0, 2.0]),
            torch.tensor([[3.0], [1.0]]),
            torch.tensor([4.0]),
            torch.tensor([10.0]),
            1.0,
        ),
        (
            torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]]),
            torch.tensor([[1.0, -1.0, 2.0, 0.0], [0.5, 1.0, -1.0, 2.0], [2.0, 0.0, 1.0, -1.0]]),
            torch.tensor([0.5, -1.0, 0.0, 1.0]),
            torch.tensor([[1.0, 2.0, -1.0, 0.5], [3.0, 1.0, 0.0, -2.0]]),
            0.1,
        ),
        (
            torch.tensor([[1.0, -1.0], [2.0, 1.0]]).double(),
            torch.tensor([[1.0, 2.0], [3.0, -1.0]]).double(),
            torch.tensor([0.0, 0.5]).double(),
            torch.tensor([[1.0, 1.0], [2.0, -1.0]]).double(),
            0.5,
        ),
        (
            torch.tensor([[2.0, 2.0]]),
            torch.tensor([[1.0], [-1.0]]),
            torch.tensor([0.0]),
            torch.tensor([[1.0]]),
            0.5,
        ),
    ),
    hidden=_z_hidden,
    tolerance=1e-3,
)


# --- pruning_order --------------------------------------------------------------------------------


def _order(relevance: Tensor, steps: int) -> Tensor:
    """One head after another, by sorting the places."""
    N, A, H = relevance.shape
    size = [
        [sum(abs(r) for r in relevance[:, a, h].tolist()) / N for h in range(H)] for a in range(A)
    ]
    places = sorted((size[a][h], a, h) for a in range(A) for h in range(H))
    gates = torch.ones(steps + 1, A, H)
    for k, (_, a, h) in enumerate(places[:steps]):
        gates[k + 1 :, a, h] = 0
    return gates


def _order_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, int]]:
    cases = []
    for N, A, H in ((3, 2, 4), (5, 3, 2), (1, 4, 3), (6, 1, 5), (4, 5, 1)):
        cases.append((torch.randn(N, A, H, generator=generator), rng.randint(2, A * H - 1)))
    n = rng.randint(3, 4)
    cases += [(torch.randn(n, n, n, generator=generator), n) for _ in range(2)]
    R = torch.randn(4, 2, 3, generator=generator)
    cases += [(R, 0), (R, 6), (R.double(), 4)]
    tied = torch.randint(-2, 3, (1, 3, 3), generator=generator).float()
    cases.append((tied, 6))
    many = torch.randint(-1, 2, (1, 4, 7), generator=generator).float()  # long ties
    cases.append((many, rng.randint(10, 20)))
    # one layer is the least relevant as a whole, and goes as a whole
    weak = R.clone()
    weak[:, 1] /= 100
    return [*cases, (weak, 4)]


ORDER = Task(
    name="pruning_order",
    reference=_order,
    visible=(
        (torch.tensor([[[3.0, -1.0], [0.5, -4.0]]]), 2),
        (
            torch.tensor(
                [[[0.1, -3.0, 0.5], [0.2, 2.0, -1.0]], [[-2.7, 2.8, 0.5], [0.3, -2.5, 0.1]]]
            ),
            6,
        ),
        (torch.tensor([[[2.0, -1.0], [1.0, 2.0], [0.0, 1.0]]]), 5),
        (
            torch.tensor(
                [[[0.1, 0.2, 0.15], [5.0, 0.0, 1.6]], [[0.1, -0.2, 0.3], [-5.0, 3.0, 1.6]]]
            ),
            4,
        ),
        (torch.tensor([1.0, 2.0, 0.0, -2.0, 1.0, -1.0]).double().repeat(4).reshape(1, 4, 6), 6),
    ),
    hidden=_order_hidden,
)


TASKS = (RELATION, USUAL, GATE, Z_RULE, ORDER)
