"""Tasks of chapter 07: saliency, Kendall's τ, Jensen–Shannon, an adversary, rollout."""

import math
import random
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Generator, Tensor

from grading.task import Task


def _tenths(generator: Generator, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that ties occur and a case can be read."""
    return (torch.randn(*shape, generator=generator) * 10).round() / 10


def _fixed(seed: int, *shape: int) -> Tensor:
    return _tenths(Generator().manual_seed(seed), *shape)


# --- saliencies -----------------------------------------------------------------------------------

Three = tuple[Tensor, Tensor, Tensor]


def _saliencies(G: Tensor) -> Three:
    d = G.shape[-1]
    ones = torch.ones(d, dtype=G.dtype)
    return G @ ones / d, G.abs() @ ones / d, torch.linalg.vector_norm(G, dim=-1)


def _saliencies_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (2, rng.randint(3, 5)), (1,), (3,)):
        T, d = rng.sample(range(2, 12), 2)
        cases.append((torch.randn(*lead, T, d, generator=generator),))
    cases[-1] = (cases[-1][0].double(),)
    n = rng.randint(3, 6)  # all axes alike, twice; a single word; a single feature
    for shape in ((n, n, n), (n, n, n), (1, n), (n, 1)):
        cases.append((torch.randn(*shape, generator=generator),))
    rows = rng.sample([[3.0, -4.0], [0.0, 0.0], [-8.0, 6.0], [5.0, 12.0]], 4)
    return [*cases, (torch.tensor(rows).half(),)]


SALIENCIES = Task(
    name="saliencies",
    reference=_saliencies,
    visible=(
        (torch.tensor([[3.0, -4.0]]),),
        (_fixed(1, 5, 3),),
        (_fixed(2, 2, 3, 4).double(),),
        (torch.tensor([[3.0, -4.0], [5.0, 12.0]]).half(),),
    ),
    hidden=_saliencies_hidden,
    fresh=True,
)


# --- kendall_tau ----------------------------------------------------------------------------------


def _tau(x: Tensor, y: Tensor) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(x.double().numpy(), y.double().numpy()).statistic)


def _tau_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    cases: list[tuple[Tensor, Tensor]] = []
    while len(cases) < 6:
        n, few = rng.randint(5, 14), rng.randint(2, 5)
        x = torch.randint(few, (n,), generator=generator) / 4 + 0.25
        y = torch.randint(few + 1, (n,), generator=generator) / 4 + x * rng.choice((0, 1))
        if len(cases) > 3:
            x, y = torch.randn(2, n, generator=generator)
        if len(x.unique()) > 1 and len(y.unique()) > 1 and abs(_tau(x, y)) > 0.05:
            cases.append((x.double(), y.double()) if len(cases) == 2 else (x, y))
    x, y = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    while not 0.1 < abs(_tau(x, y)) < 0.9:
        x, y = torch.randn(2, rng.randint(6, 9), generator=generator, dtype=torch.float64)
    # nearly tied, and tiny
    cases += [(1 + 1e-9 * x, 1e-9 * y), (1e-30 * x.float(), 1e-30 * y.float()), (x, -x)]
    steps = torch.tensor(rng.sample([0.0, 0.0, 1.0, 1.0, 2.0, 3.0], 6))
    return [*cases, (x[: len(steps)].float(), steps), (steps, steps.square())]


KENDALL = Task(
    name="kendall_tau",
    reference=_tau,
    visible=(
        (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])),
        (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 2.0])),
        (
            torch.tensor([0.5, 0.1, 0.1, 0.2, 0.1, 0.9]),
            torch.tensor([0.3, 0.2, 0.2, 0.1, 0.1, 0.7]),
        ),
        (torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0]), torch.tensor([-1.0, 8.0, 1.0, 0.0, 2.0])),
        (torch.tensor([3e-30, 1e-30, 2e-30]), torch.tensor([1e-30, 3e-30, 2e-30])),
    ),
    hidden=_tau_hidden,
    tolerance=1e-5,
)


# --- jensen_shannon -------------------------------------------------------------------------------


def _jsd(p: Tensor, q: Tensor) -> Tensor:
    """By entropies: H(m) − (H(p) + H(q)) / 2."""
    H: Callable[[Tensor], Tensor] = torch.special.entr
    one, other = p.double(), q.double()
    return torch.sum(H((one + other) / 2) - (H(one) + H(other)) / 2, -1).to(p)


def _jsd_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    cases: list[tuple[Tensor, Tensor]] = []
    for lead in ((), (rng.randint(2, 5),), (2, rng.randint(3, 4)), (1,), (3,), (2,)):
        T = rng.randint(5, 10)
        p, q = (3 * torch.randn(2, *lead, T, generator=generator)).softmax(-1)
        if len(cases) in (1, 3, 4):  # padding, and zeros of one of them
            q = torch.cat([q[..., :-2], torch.zeros_like(q[..., :2])], -1)
            p = torch.cat([p[..., :-1], torch.zeros_like(p[..., :1])], -1)
            p = p.flip(-1) if len(cases) == 4 else p  # then no word is zero in both
            p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
        cases.append((p, q))
    cases[-1] = (cases[-1][0].double(), cases[-1][1].double())
    n = rng.randint(3, 6)  # all axes alike, twice; equal rows; nothing in common; tiny weights
    cases += [tuple((2 * torch.randn(2, n, n, n, generator=generator)).softmax(-1)) for _ in "ab"]
    p = cases[0][0]
    cases.append((p, p.clone()))
    halves = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]).half()
    cases.append((halves, halves[rng.sample([[1, 2, 0], [2, 0, 1]], 1)[0]]))
    tiny = torch.tensor([1.0, 1e-30, 0.0]), torch.tensor([1e-30, 1.0, 0.0])
    return [*cases, (tiny[0][None], tiny[1][None])]


JSD = Task(
    name="jensen_shannon",
    reference=_jsd,
    visible=(
        (torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])),
        (
            torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]),
            torch.tensor([[0.2, 0.2, 0.6], [0.3, 0.3, 0.4]]),
        ),
        (
            torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.8, 0.0, 0.2, 0.0]]).double(),
            torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.0, 0.4, 0.5, 0.1]]).double(),
        ),
        (torch.tensor([0.5, 0.0, 0.5]).half(), torch.tensor([1.0, 0.0, 0.0]).half()),
        (torch.tensor([0.9995, 0.0005]), torch.tensor([0.0005, 0.9995])),
    ),
    hidden=_jsd_hidden,
    tolerance=5e-4,  # half precision holds three digits
)


# --- other_attention ------------------------------------------------------------------------------


def _farthest(votes: Tensor, alpha: Tensor, far: float = 0.0) -> Tensor:
    """The best weights on one or two words, by trying all."""
    v, y = votes.double(), (alpha.double() * votes.double()).sum()
    best, longest = alpha.double(), 0.0
    for i, j in permutations(range(len(v)), 2):
        if not v[i] < y <= v[j]:
            continue
        w = torch.zeros(len(v), dtype=torch.float64)
        w[i], w[j] = (v[j] - y) / (v[j] - v[i]), (y - v[i]) / (v[j] - v[i])
        distance = float((w - alpha).abs().sum() / 2)
        if distance > longest:
            best, longest = w, distance
    return best.to(alpha)


def _distance(w: Tensor, alpha: Tensor) -> float:
    return float((w.double() - alpha.double()).abs().sum() / 2)


def _refuse_weights(args: tuple[Any, ...], answer: Any) -> str | None:
    votes, alpha, far = args
    if not isinstance(answer, Tensor):
        return f"return a tensor of weights, not {type(answer).__name__}"
    if answer.shape != alpha.shape:
        return f"the weights have the shape {tuple(answer.shape)}, expected {tuple(alpha.shape)}"
    w = answer.double()
    if not torch.isfinite(w).all():
        return "a weight is not a finite number"
    if w.min() < -1e-6:
        return f"a weight is below 0: {w.min():.3f}"
    if abs(w.sum() - 1) > 1e-4:
        return f"the weights sum to {w.sum():.4f}, not to 1"
    before, after = ((each * votes.double()).sum() for each in (alpha.double(), w))
    if abs(after - before) > 1.1e-3:
        return (
            f"the sum of the votes moves from {before:.4f} to {after:.4f}, so the prediction "
            "changes: two words need one that votes below the sum and one that votes above"
        )
    if _distance(w, alpha) < far - 1e-4:
        return (
            f"the distance is {_distance(w, alpha):.3f}, and at least {far:.3f} is asked for: "
            "choose words that have little of alpha"
        )
    return None


def _ends(votes: Tensor, alpha: Tensor) -> Tensor:
    """Weights on the words with the smallest and the largest vote, wherever alpha lies."""
    i, j = votes.argmin(), votes.argmax()
    share = (votes[j] - (alpha * votes).sum()) / (votes[j] - votes[i])
    w = torch.zeros_like(alpha)
    w[i], w[j] = share, 1 - share
    return w


# here the two ends hold most of alpha
ENDS = (
    torch.tensor([-2.0, -1.0, 0.5, 1.0, 2.0]),
    torch.tensor([0.35, 0.05, 0.1, 0.05, 0.45]),
    0.85,
)
# here the two words with the least alpha, one on each side of the sum, are not far enough
LEAST = (torch.tensor([-2.0, 1.5, 1.0, 0.5, 0.0]), torch.tensor([0.4, 0.25, 0.0, 0.3, 0.05]), 0.8)


def _weights_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, Tensor, float]]:
    cases: list[tuple[Tensor, Tensor, float]] = []
    while len(cases) < 6:
        T = rng.randint(5, 12)
        votes = torch.randn(T, generator=generator)
        alpha = (2 * torch.randn(T, generator=generator)).softmax(-1)
        longest = _distance(_farthest(votes, alpha), alpha)
        far = math.floor(100 * longest - 2) / 100
        uniform = torch.full((T,), 1 / T)
        w = _ends(votes, alpha)
        if far > max(0.6, *(_distance(other, alpha) for other in (uniform, alpha.flip(0), w))):
            cases.append((votes, alpha, far))
    turned = [(2 * votes.flip(0), alpha.flip(0), far) for votes, alpha, far in (ENDS, LEAST)]
    return [*cases, ENDS, *turned]


OTHER = Task(
    name="other_attention",
    reference=_farthest,
    visible=(
        (torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 0.0]), 0.95),
        (
            torch.tensor([-1.0, 0.5, 2.0, -0.5, 1.0]),
            torch.tensor([0.15, 0.5, 0.05, 0.2, 0.1]),
            0.75,
        ),
        ENDS,
        LEAST,
    ),
    hidden=_weights_hidden,
    accepts=_refuse_weights,
)


# --- rollout --------------------------------------------------------------------------------------


def _rollout(A: Tensor) -> Tensor:
    """Token by token, along all paths of single steps."""
    maps = 0.5 * A.double().mean(1) + 0.5 * torch.eye(A.shape[-1]).double()
    out = maps[-1]
    for layer in reversed(range(len(maps) - 1)):
        out = torch.einsum("ts,sr->tr", out, maps[layer])
    return out.to(A)


def _rollout_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor]]:
    cases = []
    for L, H in ((1, 3), (2, 1), (3, 2), (rng.randint(2, 4), rng.randint(2, 5)), (2, 4)):
        T = rng.randint(5, 9)
        scores = 2 * torch.randn(L, H, T, T, generator=generator)
        cases.append((scores.softmax(-1),))
    cases[-1] = (cases[-1][0].double(),)
    n = rng.randint(3, 5)  # all axes alike, twice; a single token; whole steps in half precision
    for shape in ((n, n, n, n), (n, n, n, n), (2, 3, 1, 1)):
        cases.append((torch.randn(*shape, generator=generator).softmax(-1),))
    orders = [rng.sample(range(3), 3) for _ in range(4)]
    steps = torch.eye(3)[torch.tensor(orders)].unflatten(0, (2, 2))
    return [*cases, (steps.half(),)]


def _maps(seed: int, *shape: int) -> Tensor:
    return (2 * _fixed(seed, *shape)).softmax(-1)


ROLLOUT = Task(
    name="rollout",
    reference=_rollout,
    visible=(
        (torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]]),),
        (_maps(3, 2, 3, 4, 4),),
        (_maps(4, 3, 2, 5, 5).double(),),
        (torch.eye(3)[torch.tensor([[[1, 0, 2], [0, 2, 1]], [[2, 0, 1], [0, 1, 2]]])].half(),),
    ),
    hidden=_rollout_hidden,
    fresh=True,
)


TASKS = (SALIENCIES, KENDALL, JSD, OTHER, ROLLOUT)
