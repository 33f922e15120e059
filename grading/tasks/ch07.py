"""Tasks of chapter 07: saliency, Kendall's τ, Jensen–Shannon, an adversary, rollout."""

import math
import random
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task

Lead = tuple[int, ...]


def _tenths(generator: Generator, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that ties occur and a case can be read."""
    return (torch.randn(*shape, generator=generator) * 10).round() / 10


def _fixed(seed: int, *shape: int) -> Tensor:
    return _tenths(Generator().manual_seed(seed), *shape)


# --- saliencies -----------------------------------------------------------------------------------

Three = tuple[Tensor, Tensor, Tensor]


def _saliencies(G: Tensor) -> Three:
    d = G.shape[-1]
    ones = torch.ones(d, dtype=torch.float64)
    found = G.double() @ ones / d, G.abs().double() @ ones / d, G.double().norm(dim=-1)
    return found[0].to(G), found[1].to(G), found[2].to(G)


def _drawn_gradient(
    rng: random.Random, generator: Generator, T: int, d: int, lead: Lead
) -> tuple[Tensor]:
    """Some words have no gradient at all."""
    felt = torch.rand(*lead, T, 1, generator=generator) < 0.8
    return (felt * torch.randn(*lead, T, d, generator=generator),)


SALIENCIES = Task(
    name="saliencies",
    reference=_saliencies,
    visible=(
        (torch.tensor([[3.0, -4.0]]),),
        (_fixed(1, 5, 3),),
        (_fixed(2, 2, 3, 4).double(),),
        (torch.tensor([[3.0, -4.0], [5.0, 12.0]]).half(),),
    ),
    hidden=varied(_drawn_gradient, {"T": 1, "d": 1}, lead=True, scaled=((0, 1e3),)),
)


# --- kendall_tau ----------------------------------------------------------------------------------


def _tau(x: Tensor, y: Tensor) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(x.double().numpy(), y.double().numpy()).statistic)


def _drawn_scores(rng: random.Random, generator: Generator, T: int) -> tuple[Tensor, Tensor]:
    """Two scores that agree a little, with ties; neither has one score for all."""
    few = rng.randint(2, T)
    x = torch.randint(few, (T,), generator=generator)
    y = x * rng.choice((0, 1)) + torch.randint(few + 1, (T,), generator=generator)
    if len(x.unique()) == 1 or len(y.unique()) == 1:
        return _drawn_scores(rng, generator, T)
    return x / 4, y / 4


def _close(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Nearly tied (a tolerance); tiny, all but one (products are 0); tied in both alike."""
    x, y = torch.randn(2, rng.randint(6, 9), generator=generator, dtype=torch.float64)
    near = 1 + 1e-9 * x
    near[0] = 1e15  # the others are not tied for that
    tied = torch.tensor([0.0, 0.0, 1.0, *rng.choices((0, 1, 2), k=4)])
    small = 1e-200 * torch.stack([x, x + y])
    small[:, 0] = 1.0
    return [(near, 1e-9 * y), (small[0], small[1]), (tied, tied)]


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
    hidden=varied(_drawn_scores, {"T": 2}, dtypes=(torch.float64,), also=_close),
)


# --- jensen_shannon -------------------------------------------------------------------------------


def _jsd(p: Tensor, q: Tensor) -> Tensor:
    """By entropies: H(m) − (H(p) + H(q)) / 2."""
    H: Callable[[Tensor], Tensor] = torch.special.entr
    one, other = p.double(), q.double()
    return torch.sum(H((one + other) / 2) - (H(one) + H(other)) / 2, -1).to(p)


def _drawn_rows(
    rng: random.Random, generator: Generator, T: int, lead: Lead
) -> tuple[Tensor, Tensor]:
    """Rows with zeros in one or in both; the first word always counts."""
    scores = 2 * torch.randn(2, *lead, T, generator=generator)
    absent = torch.rand(2, *lead, T, generator=generator) < 0.4
    absent[..., 0] = False
    p, q = scores.masked_fill(absent, -torch.inf).softmax(-1)
    return p, q


def _small(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Zeros in both where 1e-12 is 0; many small weights: a bound on what counts. A faint one."""
    one, other = torch.rand(2, generator=generator).tolist()
    halves = (torch.tensor([x, 1 - x, 0.0]).half() for x in (one, other))
    p = torch.full((600,), 0.0005).double()
    p[300:], p[rng.randrange(300)] = 0, 1 - 299 * 0.0005
    faint = torch.tensor([[1 - 9e-7, 9e-7], [1.0, 0.0]]).double()
    return [tuple(halves), (p / p.sum(), p.flip(0) / p.sum()), (faint[0], faint[1])]  # type: ignore[list-item]


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
    hidden=varied(_drawn_rows, {"T": 1}, lead=True, also=_small),
)


# --- other_attention ------------------------------------------------------------------------------


def _chosen(votes: Tensor, alpha: Tensor, by: Callable[[Tensor], Any]) -> Tensor:
    """The weights on two words that keep the sum of the votes and are the best by some number."""
    v, found = votes.double(), []
    y = alpha.double() @ v
    for i, j in permutations(range(len(v)), 2):
        if v[i] < y <= v[j]:
            w = torch.zeros_like(v)
            w[i], w[j] = (v[j] - y) / (v[j] - v[i]), (y - v[i]) / (v[j] - v[i])
            found.append(w)
    return max(found, key=by).to(alpha)


def _farthest(votes: Tensor, alpha: Tensor, far: float = 0.0) -> Tensor:
    """The best weights on one or two words, by trying all."""
    return _chosen(votes, alpha, lambda w: _distance(w, alpha))


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


GUESSES: tuple[Callable[[Tensor, Tensor, Tensor], Any], ...] = (
    lambda votes, alpha, w: votes[w > 0].max() - votes[w > 0].min(),  # the two ends
    lambda votes, alpha, w: -alpha[w > 0].sum(),  # those with the least alpha
    lambda votes, alpha, w: (w - alpha).abs().max(),  # the largest difference of all words
)


# here the two ends hold most of alpha
ENDS = (
    torch.tensor([-2.0, -1.0, 0.5, 1.0, 2.0]),
    torch.tensor([0.35, 0.05, 0.1, 0.05, 0.45]),
    0.85,
)
# here the two words with the least alpha, one on each side of the sum, are not far enough
LEAST = (torch.tensor([-2.0, 1.5, 1.0, 0.5, 0.0]), torch.tensor([0.4, 0.25, 0.0, 0.3, 0.05]), 0.8)

# here one word votes exactly as the sum, none above it, and has to take all
EQUAL = (torch.tensor([0.0, 0.0, -1.0]), torch.tensor([1.0, 0.0, 0.0]), 0.9)
# here one word votes nearly as the sum, and has to take nearly all
# here the farthest weights are exactly as far as is asked
EXACT = (torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.25, 0.5, 0.25]), 0.5)
ALONE = (torch.tensor([-1.0, 1.0, -5e-4]), torch.tensor([0.5, 0.5, 0.0]), 0.95)


def _drawn_votes(rng: random.Random, generator: Generator, T: int) -> tuple[Tensor, Tensor, float]:
    """As far as two words can be, and farther than a guess takes them."""
    guess = rng.choice(GUESSES)
    while True:
        votes = torch.randn(T, generator=generator)
        alpha = (2 * torch.randn(T, generator=generator)).softmax(-1)
        far = math.floor(200 * _distance(_farthest(votes, alpha), alpha) - 1) / 200
        guessed = _chosen(votes, alpha, partial(guess, votes, alpha))
        if far > max(0.6, _distance(guessed, alpha)):
            return votes, alpha, far


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
    hidden=varied(_drawn_votes, {"T": 5}, dtypes=(), also=lambda *_: [ALONE, EQUAL, EXACT]),
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


def _drawn_maps(rng: random.Random, generator: Generator, T: int, L: int, H: int) -> tuple[Tensor]:
    return ((2 * torch.randn(L, H, T, T, generator=generator)).softmax(-1),)


def _double(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


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
    hidden=varied(
        _drawn_maps,
        {"L": 1, "T": 1, "H": 1},
        also=lambda *_: [(_double([[[[1 - 9e-7, 9e-7], [0, 1]]]]),), (_double([[[[1]]]] * 40),)],
    ),
)


TASKS = (SALIENCIES, KENDALL, JSD, OTHER, ROLLOUT)
