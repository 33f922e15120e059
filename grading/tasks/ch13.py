"""Tasks of chapter 13: mean cosine, entropy of rows, aligned keys, cones, uniform weights."""

import math
import random
from collections.abc import Callable, Sequence
from itertools import combinations

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


def _unit(M: Tensor, dim: int = -1) -> Tensor:
    return torch.nn.functional.normalize(M, dim=dim)


def _summed(
    units: Callable[[Tensor, Tensor], Tensor] = lambda M, mask: _unit(M) * mask[..., None],
    final: Callable[[Tensor, Tensor], Tensor] = lambda s, n: (s - n) / (n * (n - 1)),
    count: Callable[[Tensor], Tensor] = lambda mask: mask.sum(-1),
) -> Callable[[Tensor, Tensor], Tensor]:
    """The sum instead of the loop, with one part replaced."""

    def cosine(M: Tensor, mask: Tensor) -> Tensor:
        squares = units(M, mask).sum(-2).square().sum(-1)
        return final(squares, count(mask)).to(M.dtype)

    return cosine


def _lengthy(M: Tensor, mask: Tensor) -> Tensor:
    """Scalar products in place of cosines; the squared lengths are taken away."""
    rows, n = M * mask[..., None], mask.sum(-1)
    squares = rows.sum(-2).square().sum(-1) - rows.square().sum((-2, -1))
    return squares / (n * (n - 1))


def _neighbours(M: Tensor, mask: Tensor) -> Tensor:
    pairs = mask[..., 1:] & mask[..., :-1]
    cosines = (_unit(M)[..., 1:, :] * _unit(M)[..., :-1, :]).sum(-1)
    return (cosines * pairs).sum(-1) / pairs.sum(-1)


def _to_mean(M: Tensor, mask: Tensor) -> Tensor:
    """The cosine of each row with the direction of the mean row."""
    mean = (M * mask[..., None]).sum(-2, keepdim=True)
    return ((_unit(M) * _unit(mean)).sum(-1) * mask).sum(-1) / mask.sum(-1)


def _absolute(M: Tensor, mask: Tensor) -> Tensor:
    units, n = _unit(M) * mask[..., None], mask.sum(-1)
    return ((units @ units.mT).abs().sum((-2, -1)) - n) / (n * (n - 1))


def _divided(M: Tensor, mask: Tensor) -> Tensor:
    """A row of zeros divided by its length is NaN, and NaN times 0 is, too."""
    lengths: Tensor = M.norm(dim=-1, keepdim=True)
    return _summed(units=lambda M, mask: M / lengths * mask[..., None])(M, mask)


def _one_sided(M: Tensor, mask: Tensor) -> Tensor:
    """Pairs of any row with a real one."""
    n = mask.sum(-1)
    both = (_unit(M).sum(-2) * (_unit(M) * mask[..., None]).sum(-2)).sum(-1)
    return (both - n) / (n * (n - 1))


def _first(M: Tensor, mask: Tensor) -> Tensor:
    """The first n rows in place of the n real ones."""
    return _summed()(M, torch.arange(mask.shape[-1]) < mask.sum(-1, keepdim=True))


def _cosines_squared(M: Tensor, mask: Tensor) -> Tensor:
    units, n = _unit(M) * mask[..., None], mask.sum(-1)
    return ((units @ units.mT).square().sum((-2, -1)) - n) / (n * (n - 1))


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
    mistakes={
        "every row is paired with itself, too: these n cosines of 1 are taken away, and n (n − 1) "
        "are left to divide by.": _summed(final=lambda s, n: s / (n * n)),
        "the n cosines of a row with itself are still in the sum: take them away.": _summed(
            final=lambda s, n: s / (n * (n - 1))
        ),
        "you take the n pairs of a row with itself out of the sum, but not out of the number of "
        "pairs, n (n − 1).": _summed(final=lambda s, n: (s - n) / (n * n)),
        "this is half of it: the squared sum holds each pair twice, and n (n − 1) counts each "
        "twice.": _summed(final=lambda s, n: (s - n) / (2 * n * (n - 1))),
        "this is twice of it: the squared sum holds each pair twice, and n (n − 1) counts each "
        "twice.": _summed(final=lambda s, n: 2 * (s - n) / (n * (n - 1))),
        "rows have different lengths: divide each by its own before you add them up.": _lengthy,
        "the rows are not of length 1 when you add them up: divide each by its own length.": (
            _summed(units=lambda M, mask: M * mask[..., None])
        ),
        "columns are brought to length 1, and it is the rows that have to be.": _summed(
            units=lambda M, mask: _unit(M * mask[..., None], -2)
        ),
        "columns are brought to length 1, padding and all, and it is the rows that have to be.": (
            _summed(units=lambda M, mask: _unit(M, -2) * mask[..., None])
        ),
        "this is the mean of the whole table of cosines: the n pairs of a row with itself are in "
        "it, and the rows of padding.": _summed(
            final=lambda s, n: s / (n * n), count=lambda mask: torch.tensor(mask.shape[-1])
        ),
        "this is the mean of the whole table of cosines, with those of padding, and of each row "
        "with itself.": _summed(
            units=lambda M, _: _unit(M),
            final=lambda s, n: s / (n * n),
            count=lambda mask: torch.tensor(mask.shape[-1]),
        ),
        "padding is masked on one side only: both rows of a pair must be real.": _one_sided,
        "normalize without dim works along axis 1, which is the right one only if there are no "
        "leading axes: dim=-1.": _summed(units=lambda M, mask: _unit(M, 1) * mask[..., None]),
        "you divide each row by its squared length: by its length.": _summed(
            units=lambda M, mask: M / M.square().sum(-1, keepdim=True) * mask[..., None]
        ),
        "you take the squares of the cosines: the cosines themselves are asked for.": (
            _cosines_squared
        ),
        "you add up squares: first comes the sum over the rows, and then its squared length.": (
            _summed(final=lambda s, n: 0 * s)
        ),
        "the length of the sum is not squared in your answer.": _summed(
            final=lambda s, n: (s.sqrt() - n) / (n * (n - 1))
        ),
        "you take the first n rows: padding may stand anywhere, so choose the rows by the mask.": (
            _first
        ),
        "rows of padding are in your sum: only real rows make pairs.": _summed(
            units=lambda M, _: _unit(M), count=lambda mask: torch.tensor(mask.shape[-1])
        ),
        "rows of padding are in your sum, though not in n.": _summed(units=lambda M, _: _unit(M)),
        "rows of padding are counted in your n: only real rows make pairs.": _summed(
            count=lambda mask: torch.tensor(mask.shape[-1])
        ),
        "a row of padding may be zeros, and 0/0 is NaN, also after times 0: give it another "
        "length, or use normalize of torch.nn.functional.": _divided,
        "these are the cosines of neighbours: all pairs count.": _neighbours,
        "this is the cosine with the mean row: asked for is the mean over pairs of rows.": _to_mean,
        "you take absolute values: opposite rows have −1.": _absolute,
        "this is the length of the mean direction, not the mean cosine.": _summed(
            final=lambda s, n: s.sqrt() / n
        ),
        "this is the distance, 1 − cosine: the cosine is asked for.": (
            lambda M, mask: 1 - _pairs(M, mask)
        ),
        "one number for all texts: each has its own.": lambda M, mask: _pairs(M, mask).mean(),
    },
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


def _outer(A: Tensor) -> Tensor:
    """The entropies of all rows in nats, NaN counting as 0."""
    found: Tensor = torch.special.entr(A.nan_to_num()).sum(-1)
    return found


def _inner(A: Tensor, mask: Tensor) -> Tensor:
    """The entropies in nats (N, T), 0 in rows of padding."""
    return _outer(A).masked_fill(~mask, 0)


def _front(columns: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """The first n rows (and columns) in place of the real ones."""

    def entropy(A: Tensor, mask: Tensor) -> Tensor:
        answer = []
        for text, n in zip(A, mask.sum(-1).tolist(), strict=True):
            rows = text[:n, :n] if columns else text[:n]
            sums = torch.special.entr(rows).sum(-1).mean() / math.log(max(n, 2))
            answer.append(sums if n > 1 else sums * 0)
        return torch.stack(answer)

    return entropy


def _most(mask: Tensor) -> Tensor:
    return mask.sum(-1).clamp(min=2).log()


def _mean_row(A: Tensor, mask: Tensor) -> Tensor:
    rows = A.masked_fill(~mask[..., None], 0).sum(-2) / mask.sum(-1)[:, None]
    return _outer(rows) / _most(mask)


def _perplexity(A: Tensor, mask: Tensor) -> Tensor:
    n = mask.sum(-1)
    return _inner(A, mask).exp().masked_fill(~mask, 0).sum(-1) / n / n


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
    mistakes={
        "you divide by ln T: the most that is possible is ln n, with n the real tokens.": (
            lambda A, mask: _inner(A, mask).sum(-1) / mask.sum(-1) / math.log(A.shape[-1])
        ),
        "rows of padding count in your mean: they are destinations that do not exist.": (
            lambda A, mask: _outer(A).mean(-1) / _most(mask)
        ),
        "rows of padding are in your sum, though you divide by n.": (
            lambda A, mask: _outer(A).sum(-1) / mask.sum(-1) / _most(mask)
        ),
        "you divide the sum over the rows by T: only the n real rows count.": (
            lambda A, mask: _inner(A, mask).sum(-1) / A.shape[-1] / _most(mask)
        ),
        "this is the entropy in nats: divide it by ln n.": (
            lambda A, mask: _inner(A, mask).sum(-1) / mask.sum(-1)
        ),
        "this is the entropy in bits: divide it by the most that is possible, log2 n.": (
            lambda A, mask: _inner(A, mask).sum(-1) / mask.sum(-1) / math.log(2)
        ),
        "logarithms to base 2 divided by ln n: use the same logarithm above and below.": (
            lambda A, mask: _inner(A, mask).sum(-1) / mask.sum(-1) / math.log(2) / _most(mask)
        ),
        "you take the entropy of the columns: a row of weights belongs to a destination, and its "
        "sum is over the last axis.": lambda A, mask: (
            -torch.xlogy(A, A).sum(-2).masked_fill(~mask, 0).sum(-1) / mask.sum(-1) / _most(mask)
        ),
        "T stands where n belongs, in the mean and in the logarithm: only real tokens count.": (
            lambda A, mask: _inner(A, mask).mean(-1) / math.log(A.shape[-1])
        ),
        "T stands where n belongs, in the mean and in the logarithm, and rows of padding are in "
        "the sum.": lambda A, mask: -torch.xlogy(A, A).sum(-1).mean(-1) / math.log(A.shape[-1]),
        "this is the sum over the rows: divide it by n, for the mean is asked for.": (
            lambda A, mask: _inner(A, mask).sum(-1) / _most(mask)
        ),
        "this is one mean over the rows of all texts: each text has its own.": (
            lambda A, mask: (_inner(A, mask) / _most(mask)[:, None])[mask].mean()
        ),
        "you divide by n instead of ln n.": (
            lambda A, mask: _inner(A, mask).sum(-1) / mask.sum(-1) / mask.sum(-1)
        ),
        "the sign is wrong: the logarithm of a weight below 1 is negative.": (
            lambda A, mask: -_entropy(A, mask)
        ),
        "this is how far the rows are from uniform: the entropy itself is asked for.": (
            lambda A, mask: 1 - _entropy(A, mask)
        ),
        "0 · ln 0 gives NaN: a weight of 0 adds nothing (torch.xlogy and torch.special.entr know "
        "it).": lambda A, mask: (
            (-(A * A.log()).sum(-1)).masked_fill(~mask, 0).sum(-1) / mask.sum(-1) / _most(mask)
        ),
        "a text of one real token gives 0/0: its share is 0.": lambda A, mask: (
            _inner(A, mask).sum(-1) / mask.sum(-1) / mask.sum(-1).log()
        ),
        "you take the first n rows and columns: padding may stand in front, so choose by the mask "
        "(A[i][mask[i]] has the real rows of text i).": _front(columns=True),
        "you take the first n rows: padding may stand in front, so choose by the mask "
        "(A[i][mask[i]] has the real rows of text i).": _front(columns=False),
        "rows of padding may hold NaN, and NaN times 0 is NaN: masked_fill or where puts something "
        "else there.": lambda A, mask: (
            (-torch.xlogy(A, A).sum(-1) * mask).sum(-1) / mask.sum(-1) / _most(mask)
        ),
        "this is the entropy of the mean row: asked for is the mean of the rows' entropies.": (
            _mean_row
        ),
        "this is a number of tokens, e to the entropy: the entropy is asked for.": _perplexity,
        "one number for all texts: each has its own.": lambda A, mask: _entropy(A, mask).mean(),
        "you return a number for every row: the mean over the real rows is asked for.": (
            lambda A, mask: _inner(A, mask) / _most(mask)[:, None]
        ),
    },
)


# --- aligned_keys ---------------------------------------------------------------------------------


def _aligned(weights: Tensor, q: Tensor) -> Tensor:
    """Key by key: the score that its weight asks for beyond that of the least one."""
    d, size = len(q), math.sqrt(math.fsum(x * x for x in q.tolist()))
    least = min(weights.tolist())
    lengths = [1 + math.log(w / least) * math.sqrt(d) / size for w in weights.tolist()]
    keys = torch.tensor(lengths, dtype=torch.float64)[:, None] * (q.double() / size)
    return keys.to(q.dtype)


def _lengths(
    length: Callable[[Tensor, Tensor, float], Tensor],
    direction: Callable[[Tensor], Tensor] = lambda q: q / q.norm(),
) -> Callable[[Tensor, Tensor], Tensor]:
    """Keys of other lengths; given are ln w − min ln w, the query and √d."""

    def keys(weights: Tensor, q: Tensor) -> Tensor:
        gains = weights.log() - weights.log().min()
        return length(gains, q, math.sqrt(len(q)))[:, None] * direction(q)

    return keys


def _scaled(shortest: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Divided by one of them instead of shifted."""

    def keys(weights: Tensor, q: Tensor) -> Tensor:
        logs = weights.log()
        answer: Tensor = (logs / shortest(logs))[:, None] * q / q.norm()
        return answer

    return keys


def _right_lengths(gains: Tensor, q: Tensor, root: float) -> Tensor:
    lengths: Tensor = 1 + gains * root / q.norm()
    return lengths


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
    mistakes={
        "√d is missing: the scores are divided by it, so the lengths have it as a factor.": (
            _lengths(lambda gains, q, root: 1 + gains / q.norm())
        ),
        "you divide by √d: the scores are divided by it already, so the lengths have it as a "
        "factor.": _lengths(lambda gains, q, root: 1 + gains / root / q.norm()),
        "d is a factor of your lengths where √d belongs.": _lengths(
            lambda gains, q, root: 1 + gains * root**2 / q.norm()
        ),
        "√n instead of √d: d is the width of the query.": _lengths(
            lambda gains, q, root: 1 + gains * math.sqrt(len(gains)) / q.norm()
        ),
        "the length of the query is missing: a score is key length · |q| / √d.": _lengths(
            lambda gains, q, root: 1 + gains * root
        ),
        "the length of the query belongs below the line: a score is key length · |q| / √d.": (
            _lengths(lambda gains, q, root: 1 + gains * root * q.norm())
        ),
        "you divide by |q| twice: the lengths have it once if the direction is q/|q|.": _lengths(
            lambda gains, q, root: 1 + gains * root / q.norm() ** 2
        ),
        "√d and |q| are missing, or cancel because you divide by the shortest length: a score is "
        "key length · |q| / √d.": _lengths(lambda gains, q, root: 1 + gains),
        "your shortest key has the length √d/|q|: the 1 is added after the factor.": _lengths(
            lambda gains, q, root: (1 + gains) * root / q.norm()
        ),
        "you divide by one length until it is 1: a factor changes the weights, and only what is "
        "added to all lengths does not.": _scaled(lambda logs: logs.min()),
        "you divide all lengths by the shortest: a factor changes the weights, and only what is "
        "added to all lengths does not.": _scaled(lambda logs: logs.max()),
        "your lengths are below 0, and divided by the shortest: a factor changes the weights, and "
        "only what is added to all lengths does not.": _scaled(lambda logs: logs.abs().min()),
        "your keys are multiples of q and not of q/|q|: their lengths are |q| times too large.": (
            _lengths(_right_lengths, lambda q: q)
        ),
        "your shortest key has the length 0, which has no direction: add 1 to all lengths.": (
            _lengths(lambda gains, q, root: gains * root / q.norm())
        ),
        "your first key has the length 1, and the shortest one should.": lambda weights, q: (
            (1 + (weights / weights[0]).log()[:, None] * math.sqrt(len(q)) / q.norm())
            * (q / q.norm())
        ),
        "your lengths are counted in units of q, so your shortest key is as long as q: its length "
        "is 1.": _lengths(lambda gains, q, root: 1 + gains * root / q.norm() ** 2, lambda q: q),
        "the shortest key has length 1, and not the longest.": _lengths(
            lambda gains, q, root: 1 + (gains - gains.max()) * root / q.norm()
        ),
        "ln a_j is below 0, so your keys point away from q: all lengths may grow by the same.": (
            lambda weights, q: weights.log()[:, None] * math.sqrt(len(q)) / q.norm() * q / q.norm()
        ),
        "your shortest key is not of length 1: subtract the least logarithm first.": (
            lambda weights, q: (
                (1 + weights.log()[:, None] * math.sqrt(len(q)) / q.norm()) * q / q.norm()
            )
        ),
        "the logarithm is missing: a softmax takes e to the scores.": lambda weights, q: (
            (1 + (weights - weights.min())[:, None] * math.sqrt(len(q)) / q.norm()) * q / q.norm()
        ),
        "your lengths are in proportion to the weights: a softmax takes e to the scores.": (
            lambda weights, q: (weights / weights.min())[:, None] * q / q.norm()
        ),
        "you take another logarithm: a softmax takes e to the scores.": _lengths(
            lambda gains, q, root: 1 + gains / math.log(2) * root / q.norm()
        ),
        "the smallest weight has your longest key: the query points the same way as the keys, so "
        "a longer key has a larger score.": _lengths(
            lambda gains, q, root: 1 + (gains.max() - gains) * root / q.norm()
        ),
        "your keys point away from the query: all are positive multiples of it.": (
            lambda weights, q: -_aligned(weights, q)
        ),
        "each column is a key in your answer: the rows are.": lambda weights, q: (
            _aligned(weights, q).T
        ),
        "these are the lengths alone: return the keys (n, d).": lambda weights, q: _aligned(
            weights, q
        ).norm(dim=-1),
    },
)


# --- outside_cone ---------------------------------------------------------------------------------


def _left(y: Tensor, V: Tensor) -> Tensor:
    """By the method of Lawson and Hanson, which knows no rounds."""
    from scipy.optimize import nnls

    far = nnls(V.T.double().numpy(), y.double().numpy())[1]
    return torch.tensor(far / y.double().norm().item(), dtype=y.dtype)


def _best(y: Tensor, V: Tensor) -> Tensor:
    """The coefficients without the condition that none is below 0."""
    a: Tensor = y.double() @ torch.linalg.pinv(V.double())
    return a.to(y.dtype)


def _share(a: Tensor, y: Tensor, V: Tensor) -> Tensor:
    share: Tensor = (y - a @ V).norm() / y.norm()
    return share


def _rounds(y: Tensor, V: Tensor, rounds: int, low: float = 0.0, rate: float = 1.0) -> Tensor:
    """Coefficients after some rounds of one step each."""
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(rounds):
        for j, v in enumerate(V):
            a[j] = max(low, float(a[j] + rate * (y - a @ V) @ v / (v @ v)))
    return a


def _growing(y: Tensor, V: Tensor) -> Tensor:
    """The maximum around the step alone."""
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        for j, v in enumerate(V):
            a[j] += max(0.0, float((y - a @ V) @ v / (v @ v)))
    return a


def _forgetful(y: Tensor, V: Tensor) -> Tensor:
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        for j, v in enumerate(V):
            a[j] = max(0.0, float((y - a @ V) @ v / (v @ v)))
    return a


def _all_at_once(y: Tensor, V: Tensor) -> Tensor:
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        a = (a + V @ (y - a @ V) / V.square().sum(-1)).clamp(min=0)
    return a


def _single(y: Tensor, V: Tensor) -> Tensor:
    """The best of the values by itself."""
    shares = []
    for v in V:
        a = float(y @ v / (v @ v))
        shares.append((y - max(a, 0.0) * v).norm() / y.norm())
    return torch.stack(shares).min()


def _fit(y: Tensor, V: Tensor, chosen: list[int], low: float = -math.inf) -> Tensor:
    """The share that the best coefficients of some values leave."""
    if not chosen:
        return torch.ones_like(y[0])
    return _share(_best(y, V[chosen]).clamp(min=low), y, V[chosen])


def _dropped(y: Tensor, V: Tensor, count: int) -> Tensor:
    """The least `count` coefficients below 0 are dropped until there are none; -1 for all."""
    chosen = list(range(len(V)))
    while chosen and min(a := _best(y, V[chosen]).tolist()) < 0:
        below = sorted((x, j) for x, j in zip(a, chosen, strict=True) if x < 0)
        gone = {j for _, j in (below if count < 0 else below[:count])}
        chosen = [j for j in chosen if j not in gone]
    return _fit(y, V, chosen)


def _once_more(y: Tensor, V: Tensor, low: float = -math.inf) -> Tensor:
    return _fit(y, V, [j for j, x in enumerate(_best(y, V).tolist()) if x > 0], low)


def _of_three(y: Tensor, V: Tensor) -> Tensor:
    """The best of all sums of at most three values, with no coefficient below 0."""
    some = [list(c) for size in (1, 2, 3) for c in combinations(range(len(V)), size)]
    shares = [_fit(y, V, c) for c in some if float(_best(y, V[c]).min()) >= 0]
    return torch.stack([*shares, torch.ones_like(y[0])]).min()


def _alone(y: Tensor, V: Tensor, rounds: int) -> Tensor:
    """What is left is y itself in every round."""
    return rounds * (V @ y / V.square().sum(-1)).clamp(min=0)


def _stepped(y: Tensor, V: Tensor, divisors: Tensor) -> Tensor:
    a = torch.zeros(len(V), dtype=y.dtype)
    for _ in range(300):
        for j, v in enumerate(V):
            a[j] = (a[j] + (y - a @ V) @ v / divisors[j]).clamp(min=0)
    return a


def _hull(y: Tensor, V: Tensor) -> Tensor:
    """The distance from the convex hull: a heavy component more holds the sum at 1."""
    heavy = 1e4 * torch.ones(len(V) + 1, 1, dtype=torch.float64)
    rows = torch.cat([torch.cat([V, y[None]]).double(), heavy], 1)
    from scipy.optimize import nnls

    a = torch.tensor(nnls(rows[:-1].T.numpy(), rows[-1].numpy())[0], dtype=y.dtype)
    return _share(a, y, V)


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
    mistakes={
        "some of your coefficients are below 0: that is the span of the values, not their cone.": (
            lambda y, V: _share(_best(y, V), y, V)
        ),
        "you take the best coefficients of either sign and put 0 for those below 0: the others "
        "change with it, and one that was below 0 may be needed all the same.": lambda y, V: _share(
            _best(y, V).clamp(min=0), y, V
        ),
        "you drop the values whose best coefficients are below 0, and choose the others anew: one "
        "that was below 0 may be needed all the same.": lambda y, V: _dropped(y, V, -1),
        "you drop the value with the least coefficient again and again until none is below 0: one "
        "that was dropped may be needed all the same.": lambda y, V: _dropped(y, V, 1),
        "you drop the values whose best coefficients are below 0 and choose the others anew only "
        "once: of these some may be below 0 now, and one that was dropped may be needed.": (
            lambda y, V: _once_more(y, V)
        ),
        "you drop the values whose best coefficients are below 0, choose the others anew, and put "
        "0 for those below 0: one that was dropped may be needed all the same.": (
            lambda y, V: _once_more(y, V, 0.0)
        ),
        "this is the best sum of at most three values: more of them may come nearer.": _of_three,
        "each value is fitted by itself, to the whole of y: what the others have taken is counted "
        "twice.": lambda y, V: _share(_alone(y, V, 1), y, V),
        "r stays y in all your rounds: compute it anew before every step.": (
            lambda y, V: _share(_alone(y, V, 300), y, V)
        ),
        "your step is divided by the length of v_j: by v_j · v_j.": (
            lambda y, V: _share(_stepped(y, V, V.norm(dim=-1)), y, V)
        ),
        "your step is not divided by v_j · v_j.": (
            lambda y, V: _share(_stepped(y, V, torch.ones_like(V[:, 0])), y, V)
        ),
        "your coefficients sum to 1: in a cone they need not.": _hull,
        "you divide the coefficients by their sum: in a cone they need not sum to 1.": (
            lambda y, V: _share(_rounds(y, V, 300) / _rounds(y, V, 300).sum(), y, V)
        ),
        "you stop after one round, or your loops are the other way round: all values come in "
        "turn, and then all of them again, until nothing changes.": (
            lambda y, V: _share(_rounds(y, V, 1), y, V)
        ),
        "you stop after a few rounds: go on until nothing changes.": (
            lambda y, V: _share(_rounds(y, V, 3), y, V)
        ),
        "you stop after ten rounds or so: go on until nothing changes.": (
            lambda y, V: _share(_rounds(y, V, 10), y, V)
        ),
        "the maximum is around your step alone, so a coefficient can only grow: it belongs around "
        "a_j + step.": lambda y, V: _share(_growing(y, V), y, V),
        "you compute all coefficients from the same remainder: after each step it is another.": (
            lambda y, V: _share(_all_at_once(y, V), y, V)
        ),
        "the step takes the place of a_j: it is added to it.": (
            lambda y, V: _share(_forgetful(y, V), y, V)
        ),
        "this is the best single value: a sum of several may come nearer.": _single,
        "this is the distance: divide it by the length of y.": (
            lambda y, V: _left(y, V) * y.norm()
        ),
        "this is the share of the squared length: take the root.": (
            lambda y, V: _left(y, V).square()
        ),
        "this is the share that the cone has: asked for is what it has not.": (
            lambda y, V: (1 - _left(y, V).square()).clamp(min=0).sqrt()
        ),
        "1 minus the share of what is left: what is left is asked for.": (
            lambda y, V: 1 - _left(y, V)
        ),
        "you return the remainder itself: its length as a share of that of y is asked for.": (
            lambda y, V: y - _rounds(y, V, 300) @ V
        ),
        "you return the coefficients: what they leave of y is asked for.": (
            lambda y, V: _rounds(y, V, 300)
        ),
    },
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


def _clean(A: Tensor, V: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs of the real tokens, 1 for the others, their lengths, uniform ones, and the mask."""
    own = (A * mask[..., None] @ V).masked_fill(~mask[..., None], 1)
    even = (V * mask[..., None]).sum(-2, keepdim=True) / mask.sum(-1)[:, None, None]
    return own, own.norm(dim=-1), even, mask.to(V.dtype)


def _moved(
    final: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda A, V, mask: final(*_clean(A, V, mask))


def _mean(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).sum(-1) / w.sum(-1)


def _with_even(
    even: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The same with another output in place of the uniform one."""

    def shift(A: Tensor, V: Tensor, mask: Tensor) -> Tensor:
        own, norms, _, w = _clean(A, V, mask)
        return _mean((own - even(V, mask)).norm(dim=-1) / norms, w)

    return shift


def _number(mask: Tensor) -> Tensor:
    return mask.sum(-1)[:, None, None]


def _mean_share(own: Tensor, even: Tensor, mask: Tensor) -> Tensor:
    """The mean of the shares of the real destinations, of whatever outputs."""
    shares: Tensor = (own - even).norm(dim=-1) / own.norm(dim=-1)
    return shares.masked_fill(~mask, 0).sum(-1) / mask.sum(-1)


def _all_rows(A: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    own, even = A @ V, _clean(A, V, mask)[2]
    shares: Tensor = (own - even).norm(dim=-1) / own.norm(dim=-1)
    return shares.mean(-1)


def _nan_rows(A: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    own, even = A @ V, _clean(A, V, mask)[2]
    return _mean((own - even).norm(dim=-1) / own.norm(dim=-1), mask.to(V.dtype))


def _first_rows(A: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    """The first n tokens in place of the n real ones."""
    answer = []
    for weights, values, n in zip(A, V, mask.sum(-1).tolist(), strict=True):
        own = weights[:n, :n] @ values[:n]
        answer.append(((own - values[:n].mean(0)).norm(dim=-1) / own.norm(dim=-1)).mean())
    return torch.stack(answer)


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
    mistakes={
        "the uniform weights are 1/T in your answer, with padding among the values: they are 1/n, "
        "over the n real tokens.": _with_even(lambda V, mask: V.mean(-2, keepdim=True)),
        "you leave the padding out of the sum, but divide by T: the uniform weights are 1/n.": (
            _with_even(lambda V, mask: (V * mask[..., None]).mean(-2, keepdim=True))
        ),
        "padding is in the sum of the values, though you divide by n.": _with_even(
            lambda V, mask: V.sum(-2, keepdim=True) / mask.sum(-1)[:, None, None]
        ),
        "rows of padding count in your mean: they are destinations that do not exist.": _all_rows,
        "rows of padding are in your sum over the destinations, though you divide by n.": (
            lambda A, V, mask: _all_rows(A, V, mask) * mask.shape[-1] / mask.sum(-1)
        ),
        "you divide the sum over the destinations by T: only the n real ones count.": _moved(
            lambda own, norms, even, w: ((own - even).norm(dim=-1) / norms * w).mean(-1)
        ),
        "a row of padding may be zeros, so you divide by 0 there: NaN or ∞ times 0 is NaN, and "
        "masked_fill or where puts something else.": _nan_rows,
        "you take the first n tokens: padding may stand in front, so choose by the mask.": (
            _first_rows
        ),
        "you divide by the length of the uniform output: by that of the head's own.": _moved(
            lambda own, norms, even, w: _mean((own - even).norm(dim=-1) / even.norm(dim=-1), w)
        ),
        "this is the distance itself: divide it by the length of the head's own output.": _moved(
            lambda own, norms, even, w: _mean((own - even).norm(dim=-1), w)
        ),
        "you divide the sum of the distances by the sum of the lengths: asked for is the mean of "
        "the shares.": _moved(
            lambda own, norms, even, w: (
                ((own - even).norm(dim=-1) * w).sum(-1) / (norms * w).sum(-1)
            )
        ),
        "you take squares: the lengths themselves are divided.": _moved(
            lambda own, norms, even, w: _mean((own - even).square().sum(-1) / norms**2, w)
        ),
        "you subtract lengths: two outputs as long as each other may point elsewhere.": _moved(
            lambda own, norms, even, w: _mean((norms - even.norm(dim=-1)).abs() / norms, w)
        ),
        "this compares the weights and not the outputs.": lambda A, V, mask: _mean(
            (A - mask[:, None] / mask.sum(-1)[:, None, None]).nan_to_num().norm(dim=-1)
            / (A.norm(dim=-1) + (~mask)),
            mask.to(V.dtype),
        ),
        "each output is compared with its own value: with that of uniform weights is asked for.": (
            _with_even(lambda V, mask: V)
        ),
        "rows and columns of A have changed places: a row is a destination.": (
            lambda A, V, mask: _shift(A.mT, V, mask)
        ),
        "rows and columns of A have changed places, and padding gets in: a row is a destination.": (
            lambda A, V, mask: _mean_share(A.mT @ V, _clean(A, V, mask)[2], mask)
        ),
        "each output is compared with the mean of the outputs: with that of the values is asked "
        "for.": lambda A, V, mask: _mean_share(
            A @ V, ((A @ V) * mask[..., None]).sum(-2, keepdim=True) / _number(mask), mask
        ),
        "the uniform output is the mean of the values, and you take their sum.": _with_even(
            lambda V, mask: (V * mask[..., None]).sum(-2, keepdim=True)
        ),
        "this is the sum over the destinations: divide it by n, for the mean is asked for.": _moved(
            lambda own, norms, even, w: ((own - even).norm(dim=-1) / norms * w).sum(-1)
        ),
        "you divide by the squared length of the output: by its length.": _moved(
            lambda own, norms, even, w: _mean((own - even).norm(dim=-1) / norms**2, w)
        ),
        "one number for all texts: each has its own.": lambda A, V, mask: _shift(A, V, mask).mean(),
        "the largest shift of a text: the mean over its destinations is asked for.": _moved(
            lambda own, norms, even, w: ((own - even).norm(dim=-1) / norms * w).amax(-1)
        ),
    },
)


TASKS: tuple[Task, ...] = (COSINE, ENTROPY, ALIGNED, OUTSIDE, SHIFT)
