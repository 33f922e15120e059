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


def _saliency(change: Callable[[Tensor, Three], Three]) -> Callable[[Tensor], Three]:
    return lambda G: change(G, _saliencies(G))


def _no_index(G: Tensor, right: Three) -> Three:
    average, l1, l2 = right
    T = G.shape[-2]
    return (
        average.sum(-1, keepdim=True).expand_as(average) + 0,
        l1.sum(-1, keepdim=True).expand_as(l1) + 0,
        l2.square().sum(-1, keepdim=True).sqrt().expand(*l2.shape[:-1], T) + 0,
    )


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
    mistakes={
        "your third one is G-L1 again, as printed: G-L2 is the root of the sum of squares.": (
            _saliency(lambda G, r: (r[0], r[1], r[1]))
        ),
        "all words get the same number: j is summed over, the index t of the word must stay.": (
            _saliency(_no_index)
        ),
        "you sum over the words (axis −2): a word's number comes from its own row, over the last "
        "axis.": lambda G: _saliencies(G.mT),
        "the root in G-L2 is missing.": _saliency(lambda G, r: (r[0], r[1], r[2].square())),
        "G-L2 has no 1/d: it is the root of the sum of squares, not of their mean.": _saliency(
            lambda G, r: (r[0], r[1], r[2] / G.shape[-1] ** 0.5)
        ),
        "you divide G-L2 by d: it is the root of the sum of squares alone.": _saliency(
            lambda G, r: (r[0], r[1], r[2] / G.shape[-1])
        ),
        "G-avg and G-L1 lack their 1/d: they are means over the features.": _saliency(
            lambda G, r: (r[0] * G.shape[-1], r[1] * G.shape[-1], r[2])
        ),
        "G-L1 lacks its 1/d: it is the mean of the absolute values, not their sum.": _saliency(
            lambda G, r: (r[0], r[1] * G.shape[-1], r[2])
        ),
        "G-avg lacks its 1/d: it is the mean over the features, not their sum.": _saliency(
            lambda G, r: (r[0] * G.shape[-1], r[1], r[2])
        ),
        "G-L1 takes the absolute value of the mean, so positive and negative parts cancel: it is "
        "the mean of the absolute values.": _saliency(lambda G, r: (r[0], r[0].abs(), r[2])),
        "G-avg keeps its sign: the absolute value belongs to G-L1 only.": _saliency(
            lambda G, r: (r[1], r[1], r[2])
        ),
        "the order is G-avg, G-L1, G-L2.": _saliency(lambda G, r: (r[0], r[2], r[1])),
    },
    fresh=True,
)


# --- kendall_tau ----------------------------------------------------------------------------------


def _tau(x: Tensor, y: Tensor) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(x.double().numpy(), y.double().numpy()).statistic)


def _pairs(x: Tensor, y: Tensor) -> tuple[int, int, int, int, int]:
    """Concordant, discordant, all, tied in x, tied in y."""
    signs = [
        ((x[i] > x[j]).int() - (x[i] < x[j]).int(), (y[i] > y[j]).int() - (y[i] < y[j]).int())
        for i in range(len(x))
        for j in range(i)
    ]
    both = [int(a * b) for a, b in signs]
    tied = [sum(int(pair[k] == 0) for pair in signs) for k in (0, 1)]
    return both.count(1), both.count(-1), len(both), tied[0], tied[1]


def _ranks(x: Tensor) -> Tensor:
    return (x[:, None] > x).sum(1).double() + ((x[:, None] == x).sum(1).double() - 1) / 2


def _correlation(x: Tensor, y: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([x.double(), y.double()]))[0, 1])


def _by_pairs(way: Callable[[int, int, int, int, int], float]) -> Callable[[Tensor, Tensor], float]:
    return lambda x, y: float(way(*_pairs(x, y)))


def _tiny_products(x: Tensor, y: Tensor) -> float:
    _, _, n, tx, ty = _pairs(x, y)
    products = ((x[:, None] - x) * (y[:, None] - y)).sign()
    return float(products.sum() / 2) / math.sqrt((n - tx) * (n - ty))


def _tie_agrees(x: Tensor, y: Tensor) -> float:
    same = [bool((x[i] > x[j]) == (y[i] > y[j])) for i in range(len(x)) for j in range(i)]
    return (2 * sum(same) - len(same)) / len(same)


def _above_or_not(x: Tensor, y: Tensor) -> float:
    """With >=, a pair tied in both agrees, and one tied in one of them does so by its order."""
    same = [bool((x[i] >= x[j]) == (y[i] >= y[j])) for i in range(len(x)) for j in range(i)]
    return (2 * sum(same) - len(same)) / len(same)


def _diagonal_tied(x: Tensor, y: Tensor) -> float:
    """n is T (T − 1), but each word's tie with itself is taken off as well."""
    c, d, n, tx, ty = _pairs(x, y)
    return 2 * (c - d) / math.sqrt((2 * (n - tx) - len(x)) * (2 * (n - ty) - len(y)))


def _by_tolerance(x: Tensor, y: Tensor) -> float:
    """Scores closer than 1e-8 are taken for tied."""
    by_x, by_y = ((v[:, None] - v).sign() * ((v[:, None] - v).abs() > 1e-8) for v in (x, y))
    return float((by_x * by_y).sum() / (by_x.abs().sum() * by_y.abs().sum()).sqrt())


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
    mistakes={
        "you divide by all pairs: with ties that is τ-a; for τ-b the tied pairs leave the "
        "denominator, √((n − n_x)(n − n_y)).": _by_pairs(lambda c, d, n, tx, ty: (c - d) / n),
        "you divide by the concordant and discordant pairs: for τ-b a pair tied in x only still "
        "counts for y, √((n − n_x)(n − n_y)).": _by_pairs(
            lambda c, d, n, tx, ty: (c - d) / (c + d) if c + d else 0.0
        ),
        "the root in the denominator is missing.": _by_pairs(
            lambda c, d, n, tx, ty: (c - d) / ((n - tx) * (n - ty))
        ),
        "the root in the denominator is missing, and in your tables every pair counts twice: with "
        "the root that cancels.": _by_pairs(
            lambda c, d, n, tx, ty: (c - d) / (2 * (n - tx) * (n - ty))
        ),
        "your tied pairs are all counted as discordant: a tied pair is neither, and adds nothing "
        "to C or D; τ-b takes it out of the denominator.": _by_pairs(
            lambda c, d, n, tx, ty: (2 * c - n) / n
        ),
        "tied words get an order all the same (>= is true of a tie, argsort gives them two ranks): "
        "a tied pair is neither concordant nor discordant.": _above_or_not,
        "the diagonal of your table is counted among the ties: a word makes no pair with itself, "
        "so take its T zeros out of n_x and n_y.": _diagonal_tied,
        "you take scores for tied that are merely close (isclose, rounding, a tolerance): tied are "
        "those that are exactly equal, x == y.": _by_tolerance,
        "this is the share of concordant pairs: the discordant ones are subtracted.": _by_pairs(
            lambda c, d, n, tx, ty: c / n
        ),
        "the sign is the wrong way round: concordant minus discordant.": _by_pairs(
            lambda c, d, n, tx, ty: (d - c) / math.sqrt((n - tx) * (n - ty))
        ),
        "you count a pair twice above the line and once below it: `for j in range(i)` takes every "
        "pair once.": _by_pairs(
            lambda c, d, n, tx, ty: 2 * (c - d) / math.sqrt((n - tx) * (n - ty))
        ),
        "you leave a pair that is tied in both out of n_x and n_y: it counts in both.": _by_pairs(
            lambda c, d, n, tx, ty: (c - d) / math.sqrt((c + d + tx) * (c + d + ty))
        ),
        "you multiply differences, and the product of two tiny ones rounds to 0, as if the pair "
        "were tied: compare the signs.": _tiny_products,
        "this is Pearson's correlation of the scores: τ asks for the order of pairs only.": (
            _correlation
        ),
        "this is Pearson's correlation, and NaN for tiny scores: τ asks for the order of pairs.": (
            lambda x, y: float(torch.corrcoef(torch.stack([x, y]))[0, 1])
        ),
        "this is Spearman's correlation, and tied words get different ranks: τ counts pairs.": (
            lambda x, y: _correlation(x.argsort().argsort(), y.argsort().argsort())
        ),
        "you leave out the discordant pairs: C − D stands above the line.": _by_pairs(
            lambda c, d, n, tx, ty: c / math.sqrt((n - tx) * (n - ty))
        ),
        "this is Spearman's correlation of the ranks: τ counts pairs of words.": (
            lambda x, y: _correlation(_ranks(x), _ranks(y))
        ),
        "a tied pair counts as agreement or as disagreement in your loop: it is neither, and adds "
        "nothing to C − D.": _tie_agrees,
        "you compare neighbours only: every word makes a pair with every other.": lambda x, y: (
            float((x.diff().sign() * y.diff().sign()).mean())
        ),
    },
    tolerance=1e-5,
)


# --- jensen_shannon -------------------------------------------------------------------------------


def _jsd(p: Tensor, q: Tensor) -> Tensor:
    """By entropies: H(m) − (H(p) + H(q)) / 2."""
    H: Callable[[Tensor], Tensor] = torch.special.entr
    one, other = p.double(), q.double()
    return torch.sum(H((one + other) / 2) - (H(one) + H(other)) / 2, -1).to(p)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return torch.where(p > 0, p * (p / q).log(), 0).sum(-1)


def _naive(p: Tensor, q: Tensor) -> Tensor:
    return _naive_terms(p, q).sum(-1) / 2


def _naive_terms(p: Tensor, q: Tensor) -> Tensor:
    m = (p + q) / 2
    return p * (p / m).log() + q * (q / m).log()


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
    mistakes={
        "where a weight is 0 you get NaN: 0 · ln 0 counts as 0, so make the logarithm harmless "
        "there first.": _naive,
        "where both weights are 0 you get NaN: the middle m is 0 as well, and 0/0 is NaN before "
        "you multiply by 0; choose after the division.": lambda p, q: (
            sum(torch.xlogy(one, 2 * one / (p + q)).sum(-1) for one in (p, q)) / 2
        ),
        "this is the KL divergence from p to q: JSD compares each of them with their middle.": _kl,
        "you compare only p with the middle: the other half is q with the middle.": (
            lambda p, q: _kl(p, (p + q) / 2)
        ),
        "one of the two halves is missing: to ½ of p with the middle comes ½ of q with the "
        "middle.": lambda p, q: _kl(p, (p + q) / 2) / 2,
        "where *either* weight is 0 you drop both terms: only the one whose own weight is 0 "
        "vanishes, the other counts.": lambda p, q: _naive_terms(p, q).nan_to_num(0).sum(-1) / 2,
        "the halves are missing: it is ½ of each of the two sums.": lambda p, q: 2 * _jsd(p, q),
        "this is in bits: take the natural logarithm.": lambda p, q: _jsd(p, q) / math.log(2),
        "this is the root of it, the Jensen–Shannon *distance*: the divergence has no root.": (
            lambda p, q: _jsd(p, q).clamp(min=0).sqrt()
        ),
        "your middle is p + q: it is half of that, and a distribution again.": lambda p, q: (
            _jsd(p, q) - math.log(2)
        ),
        "you take the mean over the words: it is their sum.": lambda p, q: _jsd(p, q) / p.shape[-1],
        "you add up the whole tensor: each pair of rows has its own divergence, so the sum runs "
        "over the last axis.": lambda p, q: _jsd(p, q).sum(),
        "the sign is the wrong way round: a divergence is never below 0.": lambda p, q: -_jsd(p, q),
        "this is the total variation, half the sum of the absolute differences.": lambda p, q: (
            (p - q).abs().sum(-1) / 2
        ),
    },
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


def _halved(A: Tensor) -> Tensor:
    return 0.5 * A.mean(1) + 0.5 * torch.eye(A.shape[-1], dtype=A.dtype)


def _product(maps: Tensor) -> Tensor:
    out = torch.eye(maps.shape[-1], dtype=maps.dtype)
    for layer in maps:
        out = layer @ out
    return out


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
    mistakes={
        "your layers are multiplied in the wrong order: the last layer stands on the left, "
        "Â_L … Â_1.": lambda A: _product(_halved(A).flip(0)),
        "the residual connection is missing: each layer counts as ½ A + ½ I.": (
            lambda A: _product(A.mean(1))
        ),
        "you add I without halving, so the rows sum to more than 1: it is ½ A + ½ I.": (
            lambda A: _product(2 * _halved(A))
        ),
        "you average over the layers (axis 0) and multiply the heads: A is (L, H, T, T), so the "
        "heads are axis 1.": lambda A: _product(
            0.5 * A.mean(0) + 0.5 * torch.eye(A.shape[-1], dtype=A.dtype)
        ),
        "you add ½ to every entry: it is ½ of the unit matrix, 0.5 * torch.eye(T).": lambda A: (
            _product(0.5 * A.mean(1) + 0.5)
        ),
        "the heads are added up: they are averaged.": lambda A: _product(
            0.5 * A.sum(1) + 0.5 * torch.eye(A.shape[-1], dtype=A.dtype)
        ),
        "you use the first head only: the heads are averaged.": lambda A: _rollout(A[:, :1]),
        "you take the largest head in each cell: the heads are averaged.": lambda A: _product(
            0.5 * A.amax(1) + 0.5 * torch.eye(A.shape[-1], dtype=A.dtype)
        ),
        "you multiply entry by entry: it is the matrix product, which follows every path.": (
            lambda A: _halved(A).prod(0)
        ),
        "you average the layers: they follow each other, so their maps are multiplied.": (
            lambda A: _halved(A).mean(0)
        ),
        "this is the last layer alone: multiply the maps of all layers.": lambda A: _halved(A)[-1],
        "rows and columns are exchanged: a row is a destination of the last layer.": (
            lambda A: _rollout(A).mT.contiguous()
        ),
        "the residual connection is added once, at the end: every layer has its own, "
        "½ A + ½ I.": lambda A: (
            0.5 * _product(A.mean(1)) + 0.5 * torch.eye(A.shape[-1], dtype=A.dtype)
        ),
    },
    fresh=True,
)


TASKS = (SALIENCIES, KENDALL, JSD, OTHER, ROLLOUT)
