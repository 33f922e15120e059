"""Tasks of chapter 10: relations and offsets, gates, relevance, and which heads go first."""

import math
import random
from collections import Counter
from itertools import product

import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task

Lead = tuple[int, ...]

# --- relation_accuracy ----------------------------------------------------------------------------

Arcs = list[list[tuple[int, int]]]


def _relation(maps: list[Tensor], arcs: Arcs) -> tuple[Tensor, float]:
    """By sentence and arc, head by head; the offsets counted."""
    found, offsets = [], Counter[int]()
    for A, pairs in zip(maps, arcs, strict=True):
        for there, here in pairs:
            rows = A[:, there].tolist()
            found.append([float(row.index(max(row)) == here) for row in rows])
            offsets[here - there] += 1
    return torch.tensor(found).mean(0), max(offsets.values()) / len(found)


def _soft(generator: Generator, *shape: int) -> Tensor:
    """Maps whose rows sum to 1, and in which no two weights of a row are equal."""
    return torch.softmax(2 * torch.randn(*shape, generator=generator), -1)


def _near(generator: Generator, *shape: int) -> Tensor:
    """Such maps in double precision, in which all weights of a row are equal in single."""
    return torch.softmax(1e-9 * torch.randn(*shape, generator=generator).double(), -1)


def _drawn_sentences(
    rng: random.Random, generator: Generator, T: int, S: int, H: int
) -> tuple[list[Tensor], Arcs]:
    """Sentences of T words and fewer, some of them without arcs; many arcs share an offset."""
    maps, arcs = [], []
    usual, must = rng.randint(1 - T, T - 1), rng.randrange(S)  # one has an arc
    for i in range(S):
        words = range(max(1, T - i % 3))
        every = list(product(words, words))
        pairs = {pair for pair in every if pair[1] - pair[0] == usual and rng.random() < 0.5}
        pairs |= set(rng.sample(every, rng.randint(i == must, min(3, len(every)))))
        A = _soft(generator, H, len(words), len(words))
        for h, (there, here) in product(range(H), sorted(pairs)):
            if rng.random() < 0.5:
                A[h, there, here] = 3 + rng.random()
        maps.append(A / A.sum(-1, keepdim=True))
        arcs.append(rng.sample(sorted(pairs), len(pairs)))
    return maps, arcs


def _far(rng: random.Random, generator: Generator) -> list[tuple[list[Tensor], Arcs]]:
    """The baseline: a best offset that is a long one, no median, and in a circle another's.

    And rows whose weights are nearly equal.
    """
    short = _soft(generator, 2, 2, 2)  # the first sentence: no other may be longer
    near = _near(generator, 2, 5, 5)
    return [
        ([*_soft(generator, 2, 2, 9, 9)], [[(8, 1), (0, 2)], [(8, 1), (2, 3)]]),
        ([short, _soft(generator, 2, 9, 9)], [[(0, 1)], [(8, 1), (7, 0), (2, 3)]]),
        ([*_soft(generator, 1, 2, 19, 19)], [[(18, 2), (17, 1), (16, 0), (2, 3), (5, 6)]]),
        ([near], [list(enumerate(near[0].argmax(-1).tolist()))]),
    ]


RELATION = Task(
    name="relation_accuracy",
    reference=_relation,
    visible=(
        ([torch.tensor([[[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.3, 0.5, 0.2]]])], [[(1, 2), (0, 1)]]),
        _drawn_sentences(random.Random(27), Generator().manual_seed(27), T=5, S=3, H=2),
        (
            [*_near(Generator().manual_seed(4), 2, 3, 6, 6)],
            [[(1, 0), (2, 3), (4, 1)], [(3, 2), (4, 3), (5, 1), (5, 5)]],
        ),
        ([torch.eye(13)[None]], [[(11, 0), (12, 1), (3, 3)]]),
    ),
    hidden=varied(_drawn_sentences, {"T": 1, "S": 1, "H": 1}, dtypes=(), also=_far),
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


def _drawn_offsets(
    rng: random.Random, generator: Generator, T: int, N: int, H: int
) -> tuple[Tensor]:
    """Maps of N texts in which each head has an offset that it likes."""
    A = _soft(generator, N, H, T, T)
    for h in range(H):
        liked = rng.choice([o for o in (-3, -2, -1, 1, 2) if abs(o) < T] or [0])
        for n in range(N):
            for t in range(max(0, -liked), min(T, T - liked)):
                if rng.random() < 0.6:
                    A[n, h, t, t + liked] = 2.0
    return (A / A.sum(-1, keepdim=True),)


def _ties(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    alike = _looking(0, 1, 1, 0, 2)  # 0 is commonest in two texts, and −1 in all three together
    tied = _looking(1, 0, 3, 2)  # the first, or the larger: +1 and −1 twice each
    cases = [
        torch.cat([tied, tied.flip(-2)], 1),
        _looking(0, 0, 0, 1, 5, 6, 2),  # the nearer: −2 and 1 twice each
        _looking(4, 0, 0, 0, 0),  # the commonest source: one, whoever looks
        _looking(3, 4, 2, 0, 3),  # 3 is the commonest, and farther from the smallest than T
        _near(generator, 3, 2, 4, 4),
        _looking(*range(15, 30), *range(15)),  # far
        torch.cat([alike, alike, _looking(1, 0, 1, 2, 3)]).repeat(3, 1, 1, 1),  # text by text
    ]
    return [(A,) for A in cases]


USUAL = Task(
    name="usual_offset",
    reference=_usual,
    visible=(
        (torch.tensor([[[[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.3, 0.6, 0.1]]]]),),
        _drawn_offsets(random.Random(1), Generator().manual_seed(1), T=5, N=3, H=2),
        (_near(Generator().manual_seed(7), 2, 3, 4, 4),),
        (_looking(1, 0, 3, 2),),
        (_looking(0, 0, 0, 1, 5, 6, 2),),
        (torch.cat([_looking(0, 1, 1, 0), _looking(0, 1, 1, 0), _looking(1, 0, 1, 2)]),),
    ),
    hidden=varied(_drawn_offsets, {"T": 1, "N": 1, "H": 1}, dtypes=(), also=_ties),
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


def _drawn_gates(
    rng: random.Random, generator: Generator, n: int, lead: Lead
) -> tuple[Tensor, float, float, float]:
    shape = (*lead, n) if n > 1 else lead  # a single number: no axis
    low, high = -round(rng.uniform(0.05, 1.5), 2), 1 + round(rng.uniform(0.05, 1.5), 2)
    return 2 * torch.randn(shape, generator=generator), round(rng.uniform(0.2, 3), 2), low, high


GATE = Task(
    name="gate_chances",
    reference=_chances,
    visible=(
        (torch.tensor(0.0), 1.0, -1.0, 2.0),
        (torch.tensor([-3.0, 0.0, 1.5, 200.0]), 0.33, -0.1, 1.1),
        (torch.tensor([[0.5, -1.0], [2.0, 800.0]]).double(), 0.8, -0.2, 1.6),
    ),
    hidden=varied(
        _drawn_gates,
        {"n": 1},
        lead=True,
        scaled=((0, 100),),  # exp by hand
        also=lambda *_: [(torch.tensor(0.5).half(), 0.33, -0.1, 1.1)],  # without axes: it is lifted
    ),
)


# --- z_rule ---------------------------------------------------------------------------------------


def _z_rule(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    """Output by output: every input gets its part of the sum."""
    out = torch.zeros_like(x).double()
    for j in range(W.shape[1]):
        parts = x.double() * W[:, j]
        z = parts.sum(-1) + b[j]
        z = torch.where(z < 0, z - eps, z + eps)
        out += parts * (R[..., j] / z)[..., None]
    return out.to(x.dtype)


Shared = tuple[Tensor, Tensor, Tensor, Tensor, float]


def _drawn_layer(rng: random.Random, generator: Generator, n: int, m: int, lead: Lead) -> Shared:
    """What is near 0 among the sums z has no relevance, so that rounding does not show."""
    x, W, b = (torch.randn(*shape, generator=generator) for shape in ((*lead, n), (n, m), (m,)))
    R = torch.randn(*lead, m, generator=generator).masked_fill((x @ W + b).abs() < 0.3, 0.0)
    return x, W, b, R, rng.choice((1e-9, round(rng.uniform(0.05, 0.3), 3)))


def _cancelling(rng: random.Random, generator: Generator) -> list[Shared]:
    """The sign of 0: the parts of z cancel, and it counts as positive; just below 0 it does not."""
    W = torch.tensor([[1.0], [-1.0], [0.5]])
    x, b, R = torch.tensor([[2.0, 2.0, 0.0], [2.0, 2.0, -1e-4]]), torch.zeros(1), torch.ones(2, 1)
    low = [1e-6 * torch.tensor(one).double() for one in ([-1.0], [[0.1]], [0.0], [1e6])]
    return [(x, W, b, R, 0.5), (x[:1], W, b, R[:1], 1e-9), (*low, 1e-9)]  # type: ignore[list-item]


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
    hidden=varied(_drawn_layer, {"n": 1, "m": 1}, lead=True, scaled=((0, 100),), also=_cancelling),
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


def _drawn_relevance(
    rng: random.Random, generator: Generator, H: int, A: int, N: int, left: int
) -> tuple[Tensor, int]:
    return torch.randn(N, A, H, generator=generator), max(0, A * H - left)


def _tied(rng: random.Random, generator: Generator) -> list[tuple[Tensor, int]]:
    """No step; long ties, in which an unstable sort shows; in double precision nearly equal."""
    relevance = torch.randint(-1, 2, (2, 4, 7), generator=generator).float()
    near = 1 - 1e-9 * torch.arange(6).double().reshape(1, 2, 3)
    return [(relevance, 0), (relevance, rng.randint(10, 20)), (near, 4)]


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
    hidden=varied(
        _drawn_relevance,
        {"H": 1, "A": 1, "N": 1, "left": 0},
        dtypes=(torch.float64,),  # in half, means that differ are rounded to one number
        scaled=((0, 1e-3),),
        also=_tied,
    ),
)


TASKS = (RELATION, USUAL, GATE, Z_RULE, ORDER)
