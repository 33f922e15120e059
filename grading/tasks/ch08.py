"""Tasks of chapter 08: the share of a count, both counters, their border, tied weights."""

import math
import random
from collections.abc import Callable, Sequence

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


def _binomial(n: int, k: int, p: float) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k) if 0 <= k <= n else 0.0


def _possible(c: int) -> int:
    """A count; below 1 many answer 0 or raise, and no mistake says which."""
    if c < 1:
        raise ValueError("no place has a count below 1")
    return c


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
    mistakes={
        "you let all T places vary: the place itself holds my symbol for sure, only T − 1 others "
        "are left to chance.": lambda T, D, c: _binomial(T, c, 1 / D),
        "you let all T places vary, where one is sure to hold my symbol: T − 1 others are left to "
        "chance.": lambda T, D, c: _binomial(T, _possible(c), 1 / D),
        "you let T others vary: a row of T places has T − 1 others.": (
            lambda T, D, c: _binomial(T, _possible(c) - 1, 1 / D) if c <= T else 0.0
        ),
        "you ask for c others with my symbol, which with my own makes c + 1: it is c − 1 others.": (
            lambda T, D, c: _binomial(T - 1, _possible(c), 1 / D)
        ),
        "the number of ways is missing: the c − 1 others may stand at any of the T − 1 places, "
        "and an impossible c has 0.": lambda T, D, c: (1 / D) ** (c - 1) * (1 - 1 / D) ** (T - c),
        "you ask for c other places with my symbol: with my own they would be c + 1, so it is "
        "c − 1 others.": lambda T, D, c: _binomial(T - 1, c, 1 / D),
        "you count one way to place them: the c − 1 others may stand at any of the T − 1 places, "
        "math.comb(T − 1, c − 1).": lambda T, D, c: (
            _binomial(T - 1, c - 1, 1 / D) / max(1, math.comb(T - 1, max(c - 1, 0)))
        ),
        "the places with other symbols are missing: each has the probability 1 − 1/D, and there "
        "are T − c of them.": lambda T, D, c: (
            math.comb(T - 1, c - 1) / D ** (c - 1) if 1 <= c <= T else 0.0
        ),
        "this is the probability of c or more: it is asked for exactly c.": (
            lambda T, D, c: sum(_binomial(T - 1, k - 1, 1 / D) for k in range(c, T + 1))
        ),
        "this is the probability of c or fewer: it is asked for exactly c.": (
            lambda T, D, c: sum(_binomial(T - 1, k - 1, 1 / D) for k in range(1, c + 1))
        ),
        "you use 1/(D − 1) for a symbol: all D are equally likely.": (
            lambda T, D, c: _binomial(T - 1, c - 1, 1 / (D - 1))
        ),
        "this is how many places of a row to expect, T times too much: the probability at one "
        "place is asked for.": lambda T, D, c: T * _binomial(T - 1, c - 1, 1 / D),
    },
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


def _counter(
    b: Callable[[float, int], float] = lambda a, T: (1 - a) / (T - 1),
    threshold: Callable[[float, float], float] = lambda a, b: a - b,
    clip: Callable[[Tensor], Tensor] = torch.relu,
    unit: Callable[[float], float] = lambda b: b,
    whole: Callable[[Tensor], Tensor] = torch.round,
    dim: int = -1,
) -> Callable[[Tensor, float, int], Tensor]:
    """The counter with one part replaced."""

    def count(ids: Tensor, a: float, D: int) -> Tensor:
        T = ids.shape[1]
        each = b(a, T)
        fixed = torch.full((T, T), each).fill_diagonal_(a)
        amounts = fixed @ torch.nn.functional.one_hot(ids, D).float()
        total = clip(amounts - threshold(a, each)).sum(dim)
        return whole(total / unit(each)).long()

    return count


def _rounded_each(ids: Tensor, a: float, D: int) -> Tensor:
    b = (1 - a) / (ids.shape[1] - 1)
    return _counter(clip=lambda x: (x.relu() / b).round() * b)(ids, a, D)


def _taken_once(ids: Tensor, a: float, D: int) -> Tensor:
    b = (1 - a) / (ids.shape[1] - 1)
    return torch.full_like(ids, round((1 - (a - b)) / b))


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
    mistakes={
        "these are the true counts, as if only my own symbol passed the threshold: with a small "
        "diagonal others pass as well, so all D units are added up, and *this* counter errs.": (
            _true_counts
        ),
        "you share the rest among nine places: there are T − 1 of them.": _counter(
            b=lambda a, T: (1 - a) / 9
        ),
        "you share the rest among all T places: the diagonal has its part, T − 1 are left.": (
            _counter(b=lambda a, T: (1 - a) / T)
        ),
        "the threshold is missing: without it all amounts add up to 1, whatever the row is.": (
            _counter(threshold=lambda a, b: 0.0)
        ),
        "your threshold is a: my symbol has a − b more than its share, and just that is taken "
        "off.": _counter(threshold=lambda a, b: a),
        "your threshold is b: my own symbol has a − b more than its share, and just that is taken "
        "off.": _counter(threshold=lambda a, b: b),
        "you round each unit, and then add: add up first, divide by b, and round once.": (
            _rounded_each
        ),
        "you clip once, after adding up: each unit is clipped at zero by itself, and then they are "
        "added.": _counter(clip=lambda x: x, whole=lambda x: x.relu().round()),
        "you take the threshold off once, after adding up: it is taken off each unit, which is "
        "clipped at zero, and then they are added.": _taken_once,
        "you do not clip at zero: other symbols must not be counted below nothing, .relu() sees to "
        "it.": _counter(clip=lambda x: x),
        "you divide by a: a symbol weighs b per occurrence.": (
            lambda ids, a, D: _counter(unit=lambda b: a)(ids, a, D)
        ),
        "you cut off what is behind the point: round to the nearest whole number.": _counter(
            whole=lambda x: x + 0.0
        ),
        "you round up: round to the nearest whole number.": _counter(whole=torch.ceil),
    },
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
    mistakes={
        "your condition is most · b ≤ a: the threshold is a − b, so it is most · b ≤ a − b.": (
            lambda T, most: most / (T - 1 + most)
        ),
        "you divide the rest among T places: b is (1 − a)/(T − 1), for the diagonal has its own.": (
            lambda T, most: (most + 1) / (T + most + 1)
        ),
        "you took T − 1 for `most`: a smaller diagonal is enough if no symbol occurs that often.": (
            lambda T, most: T / (2 * T - 1)
        ),
        "this is an even share: with it the head cannot tell which symbol is mine.": (
            lambda T, most: 1 / T
        ),
        "this leans on the rounding, which forgives half a count: the sum itself must be exact.": (
            lambda T, most: (most + 0.5) / (T - 0.5 + most)
        ),
        "this is b at the border: the diagonal a is asked for.": (
            lambda T, most: (1 - (most + 1) / (T + most)) / (T - 1)
        ),
        "this is a/b at the border: the diagonal a itself is asked for.": (
            lambda T, most: float(most + 1)
        ),
    },
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


def _same(ids: Tensor) -> Tensor:
    return (ids[..., :, None] == ids[..., None, :]).float()


def _no_self(ids: Tensor, beta: float) -> Tensor:
    return (beta * _same(ids) * (1 - torch.eye(ids.shape[-1]))).softmax(-1)


def _self_hidden(ids: Tensor, beta: float) -> Tensor:
    own = torch.eye(ids.shape[-1], dtype=torch.bool)
    return (beta * _same(ids)).masked_fill(own, -torch.inf).softmax(-1)


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
    mistakes={
        "only the places with my symbol get weight: at a finite β the others have e^0 = 1 each.": (
            lambda ids, beta: _same(ids) / _same(ids).sum(-1, keepdim=True)
        ),
        "the columns sum to 1: a row is a destination and shares its weight among the sources, the "
        "last axis.": lambda ids, beta: (beta * _same(ids)).softmax(-2),
        "your own place has score 0: it holds my symbol, too, so its score is β.": _no_self,
        "a place does not look at itself in your map: its own score is β, as for every place with "
        "its symbol.": _self_hidden,
        "these are the scores: a softmax over the sources makes weights of them.": (
            lambda ids, beta: beta * _same(ids)
        ),
        "you divide by √T: the score is β itself.": (
            lambda ids, beta: (beta * _same(ids) / ids.shape[-1] ** 0.5).softmax(-1)
        ),
        "β is missing: the score of a place with my symbol is β, not 1.": (
            lambda ids, beta: _same(ids).softmax(-1)
        ),
        "different symbols get the weight: β belongs to the places with the *same* symbol.": (
            lambda ids, beta: (beta * (1 - _same(ids))).softmax(-1)
        ),
        "exp of a large β is infinite, and infinity through infinity is NaN: take the softmax of "
        "the scores, or subtract the largest score first.": lambda ids, beta: (
            (beta * _same(ids)).exp() / (beta * _same(ids)).exp().sum(-1, keepdim=True)
        ),
        "the weights of a row do not sum to 1: divide by the sum over the sources.": (
            lambda ids, beta: (beta * _same(ids)).exp()
        ),
    },
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


def _size(S: Tensor) -> Tensor:
    return S.square().sum((-2, -1)).sqrt()


def _scores(x: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    return (x @ W_Q) @ (x @ W_K).mT


def _of_weights(x: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    A = (_scores(x, W_Q, W_K) / W_Q.shape[1] ** 0.5).softmax(-1)
    return _size(A - A.mT) / _size(A)


def _of_plain_weights(x: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    A = _scores(x, W_Q, W_K).softmax(-1)
    return _size(A - A.mT) / _size(A)


def _of_matrix(x: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    M = W_Q @ W_K.T
    return (_size(M - M.T) / _size(M)).expand(len(x)).clone()


def _with(way: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda x, W_Q, W_K: way(_scores(x, W_Q, W_K))


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
    mistakes={
        "you compare the attention weights: the softmax divides each row by its own sum, so they "
        "are not symmetric even with tied weights; take the scores.": _of_plain_weights,
        "you compare the attention weights, after scale and softmax: the softmax divides each row "
        "by its own sum, so they are not symmetric even with tied weights; take the scores.": (
            _of_weights
        ),
        "you compare W_Q W_Kᵀ with its transpose, and the texts do not occur: the scores of each "
        "text are asked for.": _of_matrix,
        "you do not divide by the size of the scores: a model with larger scores would seem less "
        "symmetric.": _with(lambda S: _size(S - S.mT)),
        "you take one norm over all texts: each text has its own number, so the sums run over the "
        "last two axes.": _with(
            lambda S: (torch.linalg.norm(S - S.mT) / torch.linalg.norm(S)).expand(len(S)).clone()
        ),
        "the roots are missing: the norm is the root of the sum of squares.": _with(
            lambda S: _size(S - S.mT).square() / _size(S).square()
        ),
        "you add S and its transpose: the difference is 0 for symmetric scores.": _with(
            lambda S: _size(S + S.mT) / _size(S)
        ),
        "you divide by the size of S − Sᵀ: the size of S stands below the line.": _with(
            lambda S: _size(S) / _size(S - S.mT)
        ),
        "your number is 0 whatever the matrices are: one matrix makes queries and keys, or nothing "
        "is transposed, or you add up S − Sᵀ without squares, where each entry meets its mirror "
        "image. Square first, then add, then take the root.": _with(lambda S: 0 * S[:, 0, 0]),
        "you add the absolute values: the norm is the root of the sum of squares.": _with(
            lambda S: (S - S.mT).abs().sum((-2, -1)) / S.abs().sum((-2, -1))
        ),
    },
    tolerance=1e-3,
)


TASKS = (SHARE, PLACES, SMALLEST, SEMANTIC, ASYMMETRY)
