"""Tasks of chapter 12: null space, another row, rank bound, log-rank, effective attention."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task

NOISE = 1e-5  # of the largest singular value: what lies below it counts as 0
Table = list[list[float]]


def _ones(T: Tensor) -> Tensor:
    return torch.cat([T, T.new_ones((*T.shape[:-1], 1))], -1)


def _rank(X: Tensor) -> int:
    values = torch.linalg.svdvals(X)
    return int((values > NOISE * values[0]).sum())


def _double(rows: Table) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _written(
    rng: random.Random,
    generator: Generator,
    n: int,
    d_v: int,
    d: int,
    hidden: Sequence[int] = (),
    size: float = 0,
    shift: float = 0,
) -> Tensor:
    """T = V W_O of n tokens, of any size; with no doubtful singular value, nor without the hidden.

    The last tokens may repeat the first ones. T is multiplied in single precision: what should be
    0 is rounding. What counts as null space sums to 0, also beside a large T.
    """
    while True:
        again = min(rng.choice((0, 0, 1, 2)), n // 2)
        V = torch.randn(n, d_v, generator=generator)[[*range(n - again), *range(again)]]
        W_O = torch.randn(d_v, d, generator=generator)
        T = (size or rng.choice((1, 1000, 0.001))) * (V @ W_O + shift).double()
        left = [i for i in range(n) if i not in hidden]
        values = [torch.linalg.svdvals(_ones(X)) for X in (T, T[left])]
        doubtful = [(v > 1e-6 * v[0]) & (v < 1e-4 * v[0]) for v in values]
        doubtful += [_null_space(X).sum(0).abs() > 1e-7 for X in (T, T[left])]
        if not any(one.any() for one in doubtful):
            return T


# --- null_space -----------------------------------------------------------------------------------


def _null_space(T: Tensor) -> Tensor:
    """By the eigenvectors of X Xᵀ, whose eigenvalues are the squares of the singular values."""
    X = _ones(T)
    basis: Tensor = torch.linalg.eigh(X @ X.mT).eigenvectors[:, : len(X) - _rank(X)]
    return basis


def _turned(shape: tuple[int, ...], X: Tensor, rank: int) -> str:
    """What is wrong with a shape that is not one column of a number for each token."""
    n, columns = X.shape
    due = (
        f"the answer has the shape {shape}, expected {(n, n - rank)}: a direction is a column of U"
    )
    if shape == (n - rank, n):
        return f"{due}, and yours is a row: the transpose is one too many"
    if shape == (columns, columns - rank):
        return f"{due}, and yours are rows of Vh, which belong to the transpose of [T, 1]"
    return f"{due}, with a number for each token"


def _not_null(answer: Tensor, X: Tensor, rank: int) -> str:
    """What other directions of the svd these are, if any."""
    N = _null_space(X[:, :-1])
    square = answer.mT @ answer
    straight = torch.allclose(square, torch.eye(len(square)).double(), atol=1e-6)
    if not (answer.numel() and straight):
        return ""
    if answer.shape[1] in (rank, len(X) - rank) and not ((N.mT @ answer).abs() > 1e-4).any():
        return (
            "these lie in the space of the columns of [T, 1], which is what the output keeps: the "
            "null space is at right angles to it, spanned by the other columns of U"
        )
    rows = torch.linalg.svd(X).U[rank:].mT
    if answer.shape == rows.shape and torch.allclose(
        answer[:rank].abs(), rows[:rank].abs(), atol=1e-6
    ):
        return "these are rows of U, from the rank on: a direction is a column, U[:, …]"
    return ""


def _miscounted(answer: Tensor, T: Tensor, nullity: int) -> str:
    """What is wrong with a basis that has too many or too few columns."""
    counts = f"there are {nullity} directions, and yours are {answer.shape[1]}"
    line = "singular values up to 1e-5 times the largest count as 0"
    if answer.shape[1] == max(0, len(T) - T.shape[1] - 1) < nullity:
        return f"{counts}, as if the sizes of [T, 1] gave its rank: it is counted, {line}"
    if answer.shape[1] < nullity:
        return f"{counts}: U must be square, and {line}"
    if answer.shape[1] == len(T) and torch.allclose(answer @ answer, answer, atol=1e-6):
        return f"{counts}: this is the projector on the null space, and a basis of it is asked for"
    if ((answer.mT @ T).norm(dim=1) > 1e-4 * torch.linalg.svdvals(_ones(T))[0]).all():
        return f"{counts}: a column times T must be 0"
    ones = "the column of ones belongs to [T, 1]"
    return f"{counts}: {ones}, and only {line} (eigenvalues of X Xᵀ are their squares)"


def _refuse_basis(args: tuple[Any, ...], answer: Any) -> str | None:
    (T,) = args
    X = _ones(T)
    n, nullity = len(T), len(T) - _rank(X)
    if not isinstance(answer, Tensor):
        return f"return a tensor, not {type(answer).__name__}"
    if answer.ndim != 2 or len(answer) != n:
        return _turned(tuple(answer.shape), X, n - nullity)
    if answer.dtype != torch.float64:
        return f"the answer has the dtype {str(answer.dtype)[6:]}, expected float64"
    if not torch.isfinite(answer).all():
        return "an entry is not a finite number"
    moves = bool(((answer.mT @ X).abs() > 1e-4 * torch.linalg.svdvals(X)[0]).any())
    counted = nullity or answer.shape[1] == n
    if moves and counted and (named := _not_null(answer, X, n - nullity)):
        return named
    if answer.shape[1] != nullity:
        return _miscounted(answer, T, nullity)
    if ((answer.mT @ T).abs() > 1e-4 * torch.linalg.svdvals(X)[0]).any():
        return "a direction changes what the head writes: a column times T must be 0"
    if (answer.sum(0).abs() > 1e-4).any():
        return (
            "a column does not sum to 0: the column of ones belongs to [T, 1], and the directions "
            "are columns of the U of svd; those of qr stand in no order"
        )
    if not nullity:
        return None
    square = answer.mT @ answer
    if (square.diagonal() - 1).abs().max() > 1e-6:
        return "a column has not the length 1"
    if (square - torch.eye(nullity).double()).abs().max() > 1e-6:
        return "two columns are not at right angles"
    return None


def _drawn_T(rng: random.Random, generator: Generator, n: int, d_v: int, d: int) -> tuple[Tensor]:
    return (_written(rng, generator, n, d_v, d),)


def _flat(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    """Constant columns: the ones add nothing. Rounding in place of rank; T near 0 beside ones.

    And a first token that no direction moves, so that the projector's first columns are none.
    """
    T = torch.randn(8, 5, generator=generator).double()
    T[:, rng.randint(0, 4)] = 2.0
    rounded = [(_written(rng, generator, 14, 4, 6, size=x),) for x in (1, 1000, 1e-8)]
    again = T[[0, 1, 0]]  # more columns than rows, and not as many directions
    common = ((T[:, :2] @ T[:2] + 3000).float().double(),)
    return [(T,), common, (again,), (torch.zeros(5, 2).double(),), (ALONE,), *rounded]


ALONE = _double([[1, 0], [0, 1], [0, 1], [0, 1]])
FOUR = _double([[1, 0], [0, 1], [1, 1], [0, 0]])
THIRDS = (
    torch.tensor([[1.0, 2], [3, -1], [-2, 1], [0, 4], [5, 1], [-1, -3], [2, 2]])
    / 3
    @ torch.tensor([[1.0, -2, 3, 5], [2, 1, -4, 1]])
    / 7
).double()
# six rows of rank 2, wider than long, in single precision
WIDE = (
    torch.tensor([[1.0, 2], [3, -1], [-2, 1], [0, 4], [5, 1], [-1, -3]])
    @ torch.tensor([[1.0, -2, 3, 5, 2, -1, 4, 1], [2, 1, -4, 1, 3, 5, -1, 2]])
    / 210
).double()
NULL_SPACE = Task(
    name="null_space",
    reference=_null_space,
    visible=(
        (FOUR,),
        (_double([[1, 2, 3], [2, 0, 1]]),),
        (_double([[1, 2, 1], [3, 1, 3], [1, 2, 1], [0, 1, 0], [3, 1, 3]]),),
        (10_000 * THIRDS,),
        (_double([[1, 2], [1, 3], [1, 5], [1, 0]]),),
    ),
    hidden=varied(_drawn_T, {"n": 1, "d_v": 1, "d": 1}, dtypes=(), also=_flat),
    accepts=_refuse_basis,
)


# --- other_row ------------------------------------------------------------------------------------


def _other_row(a: Tensor, T: Tensor) -> Tensor:
    """Along the first direction of the null space of the words that have weight."""
    seen = a > 0
    n = _null_space(T[seen])[:, 0]
    steps = [float(weight / -slope) for weight, slope in zip(a[seen], n, strict=True) if slope < 0]
    w = torch.zeros_like(a)
    w[seen] = (a[seen] + min(steps) * n).clamp(min=0)
    return w


def _refuse_row(args: tuple[Any, ...], answer: Any) -> str | None:
    a, T = args
    if not isinstance(answer, Tensor):
        return f"return a tensor of weights, not {type(answer).__name__}"
    if answer.shape != a.shape:
        return f"the weights have the shape {tuple(answer.shape)}, expected {tuple(a.shape)}"
    if answer.dtype != torch.float64:
        return f"the weights have the dtype {str(answer.dtype)[6:]}, expected float64"
    hidden = (
        "; here some words have no weight: leave them out before you look for a direction"
        if (a == 0).any()
        else ""
    )
    if not torch.isfinite(answer).all():
        return f"a weight is not a finite number{hidden}"
    if (answer[a == 0].abs() > 1e-9).any():
        return f"a word whose weight was 0 has another now, it may be hidden by a mask{hidden}"
    falling = (a > 0) & (answer < a)
    if answer.min() < -1e-6 and answer[torch.where(falling, a, torch.inf).argmin()].abs() < 1e-9:
        return (
            f"a weight is below 0: {answer.min():.3g}; the smallest weight need not be the first "
            f"to reach 0, that is the one with the smallest a / −n{hidden}"
        )
    if answer.min() < -1e-6:
        return f"a weight is below 0: {answer.min():.3g}{hidden}"
    if abs(answer.sum() - 1) > 1e-6:
        return (
            f"the weights sum to {answer.sum():.6f}, not to 1: the direction sums to 0 if the ones "
            f"stand behind T, and the step is the smallest one, cut off nothing below 0{hidden}"
        )
    moved = (answer @ T - a @ T).abs().max()
    if moved > 1e-6 * (1 + T.abs().max()):
        return f"the output moves, by {moved:.2g}: only the null space leaves it alone{hidden}"
    if answer[a > 0].min() > 1e-9:
        return f"no weight that was above 0 is 0 now: go on until the first one is{hidden}"
    return None


def _drawn_row(
    rng: random.Random, generator: Generator, n: int, d_v: int, d: int, zeros: int | None = None
) -> tuple[Tensor, Tensor]:
    """Weights, some of them 0 or all even, and T, so that words with weight have a null space."""
    while True:
        without = min(rng.choice((0, 0, 1, 2, 3)), n - 2) if zeros is None else zeros
        hidden = rng.sample(range(n), without)
        scores = rng.choice((0, 1.5, 1.5)) * torch.randn(n, generator=generator).double()
        scores[hidden] = -torch.inf
        a, T = scores.softmax(-1), _written(rng, generator, n, d_v, d, hidden)
        if _rank(_ones(T[a > 0])) < n - len(hidden):
            return a, T


def _peak(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Nearly all weight on one word, where a fixed threshold leaves out the others; long, wide.

    And a T with a column of zeros, a word of most weight that no direction moves, and a hidden
    word without which the rank is less.
    """
    a = torch.tensor([0.0] * 7 + [20.0]).double().softmax(-1)
    T = _written(rng, generator, 8, 4, 4) * torch.tensor([1.0, 0.0, 1.0, 1.0]).double()
    sizes = ((12, 3, 5, 4), (12, 5, 3, 2), (7, 2, 9, 0), (9, 2, 12, 0), (8, 3, 11, 1))
    rows = [_drawn_row(rng, generator, *size) for size in sizes]
    alone = (_double([[0.5, 0.2, 0.2, 0.1]])[0], ALONE)
    apart = (_double([[0.6, 0.4, 0.0]])[0], _double([[1, 0], [1, 0], [0, 1]]))
    return [(a, _written(rng, generator, 8, 4, 4)), (a, T), alone, apart, *rows]


OTHER_ROW = Task(
    name="other_row",
    reference=_other_row,
    visible=(
        (_double([[0.4, 0.3, 0.2, 0.1]])[0], FOUR),
        # the directions are ±(3, 1, −3, −1): the smallest weight is not the first to reach 0
        (_double([[0.2, 0.15, 0.4, 0.25]])[0], _double([[1, 0], [0, 2], [1, 1], [0, -1]])),
        (_double([[0.5, 0.25, 0.125, 0.125]])[0], _double([[1, 2], [3, 1], [1, 2], [0, 1]])),
        (
            _double([[0.3, 0, 0.2, 0.1, 0.4, 0]])[0],
            _double([[1, 0], [5, 1], [0, 1], [1, 1], [0, 0], [2, 2]]),
        ),
        (
            _double([[0.1, 0.2, 0.1, 0.1, 0.3, 0.1, 0.1]])[0],
            _double([[1, 2], [3, -1], [-2, 1], [0, 4], [5, 1], [-1, -3], [2, 2]]),
        ),
        (_double([[0.3, 0.2, 0.1, 0.1, 0.2, 0.1]])[0], WIDE),
    ),
    hidden=varied(_drawn_row, {"n": 2, "d_v": 1, "d": 1}, dtypes=(), also=_peak),
    accepts=_refuse_row,
)


# --- rank_and_nullity -----------------------------------------------------------------------------

Two = tuple[int, int]


def _rank_and_nullity(ids: list[int], d_v: int, d: int, positions: bool) -> Two:
    """The rank that random values reach, counted."""
    generator = Generator().manual_seed(len(ids) + 100 * d_v + 10_000 * d)
    n = max(ids) + 1
    V, place = torch.randn(2, max(n, len(ids)), d_v, generator=generator).double()
    rows = V[torch.tensor(ids)] + (place[: len(ids)] if positions else 0)
    W_O = torch.randn(d_v, d, generator=generator).double()
    rank = int(torch.linalg.matrix_rank(_ones(rows @ W_O), rtol=1e-10))
    return rank, len(ids) - rank


def _drawn_ids(
    rng: random.Random, generator: Generator, n: int, words: int, d_v: int, d: int
) -> tuple[list[int], int, int, bool]:
    """A text of n tokens, of so many different words at most; their numbers may begin with 0."""
    first = rng.choice((0, 300))
    few = rng.sample(range(first, first + rng.choice((words, 40))), words)
    return rng.choices(few, k=n), d_v, d, rng.random() < 0.5


def _turning_points(
    rng: random.Random, generator: Generator
) -> list[tuple[list[int], int, int, bool]]:
    """As many different rows as the widths and the ones make, or one more; with and without."""
    width = rng.randint(3, 6)
    few = rng.sample(range(40), width + 2)
    texts = [few[:-1], few, [*few[:-1], few[0]], [few[0], *few[:3], few[0], few[2]]]
    cases = [(ids, width, 9, positions) for ids in texts for positions in (False, True)]
    cases += [(list(range(n)), n - 1, n, True) for n in (14, 17, 21, 38)]  # noise in single
    large = [(list(range(40)), 40, 40, True), ([1, 1001, 2001, 1, 1], 4, 8, False)]
    return [*cases, (few, 9, width, True), ([*few, *few], 9, width, False), *large]


REPEATED = [5, 1, 5, 2, 3, 1, 4, 6, 5]
COUNT = Task(
    name="rank_and_nullity",
    reference=_rank_and_nullity,
    visible=(
        ([3, 1, 2], 4, 8, True),
        ([8, 3, 1, 6, 2, 9, 7, 5], 4, 8, True),
        (REPEATED, 7, 8, False),
        (REPEATED, 7, 8, True),
        (REPEATED, 6, 3, True),
        ([2, 5, 2, 2, 5, 2], 6, 7, False),
    ),
    hidden=varied(
        _drawn_ids, {"n": 1, "words": 1, "d_v": 1, "d": 1}, dtypes=(), also=_turning_points
    ),
)


# --- width_needed ---------------------------------------------------------------------------------


def _width_needed(A: Tensor) -> Tensor:
    """By differences of neighbouring sources, which know no constant of a row."""
    found = []
    for one in A.numpy():
        if (one > 0).all():
            values = np.linalg.svd(np.log(one[:, 1:] / one[:, :1]), compute_uv=False)
            found.append(int((values > 1e-6).sum()))
        else:
            found.append(-1)
    return torch.tensor(found)


def _centred(x: Tensor, *axes: int) -> Tensor:
    for axis in axes:
        x = x - x.mean(axis, keepdim=True)
    return x


def _map(
    generator: Generator, T: int, S: int, d_k: int, bias: bool = False, zeros: int = 0
) -> Tensor:
    """A map of keys and queries of width d_k; the bias favours some sources for all."""
    while True:
        Q, K = (torch.randn(n, d_k, generator=generator).double() for n in (T, S))
        scores = 2 * Q @ K.mT / max(d_k, 1) ** 0.5
        scores += torch.randn(S, generator=generator) if bias else 0
        values = torch.linalg.svdvals(_centred(scores, -1))
        if not ((values > 1e-9) & (values < 1e-2)).any():
            break
    for _ in range(zeros):
        t, s = (int(torch.randint(n, (1,), generator=generator)) for n in (T, S))
        scores[t, s] = -torch.inf
    weights: Tensor = scores.softmax(-1)
    return weights


def _single(generator: Generator, T: int, S: int) -> Tensor:
    """Two maps of width 1 in single precision, whose errors are no width: usual, nearly even."""
    q, k = (torch.randn(n, generator=generator).double() for n in (T, S))
    scores = torch.stack([q[:, None] * k, 5e-5 * q[:, None] * k])
    return scores.softmax(-1).float().double()


def _tiny() -> Tensor:
    """Five maps of width 1, with the least weights of 1e-91, 1e-20, 1e-14, 1e-8 and 1e-4."""
    q, k = _double([[1, -1, 0.5]]), _double([[0, 1, 3]])
    return torch.stack([scale * q.mT * k for scale in (70, 15.35, 10.75, 6.1, 3)]).softmax(-1)


def _drawn_maps(
    rng: random.Random, generator: Generator, T: int, S: int, d_k: int, maps: int
) -> tuple[Tensor]:
    """Maps of any width up to d_k, some with weights of 0."""
    zeros = [min(rng.choice((0, 0, 0, 1, 2)), S - 1) for _ in range(maps)]
    how = [(rng.randint(0, d_k), rng.random() < 0.5, n) for n in zeros]
    return (torch.stack([_map(generator, T, S, *one) for one in how]),)


def _special(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    """Zeros in one row or in all, weights of 1e-20 and 1e-33, a small value beside a large one,
    single precision, even rows that round.
    """
    scores = torch.randn(3, 5, 6, generator=generator).double()
    scores[0, -1, 1] = scores[1, 0, 2] = -torch.inf
    scores[2, :, 1] = -torch.inf
    tiny = _tiny()[:, [0, 1, 2, 1]][..., [2, 0, 1]]
    even = torch.ones(2, 7, rng.choice((3, 7, 9))).double().softmax(-1)
    one = 25 * _double([[1], [-1], [0.5]]) * _double([[0, 1, 3]])
    two = one + 1e-4 * _double([[1], [1], [0]]) * _double([[1, 0, 0]])
    deep = torch.stack([one, two]).softmax(-1)
    late = _double([[0, 1, 2, -3], [0, 3, -1, -2]])[None].softmax(-1)  # nothing in a column
    return [(A,) for A in (scores.softmax(-1), tiny, deep, _single(generator, 4, 7), even, late)]


def _maps(seed: int, T: int, S: int, *made: tuple[int, bool]) -> Tensor:
    generator = Generator().manual_seed(seed)
    return torch.stack([_map(generator, T, S, *one) for one in made])


BY_HAND = [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
EVEN, ZERO = [0.25] * 4, [0.5, 0.0, 0.25, 0.25]
# scores (−1, 0, 0, 1) times ln 4, and the same with the other sign: width 1, but two in the weights
TURNED = [[0.04, 0.16, 0.16, 0.64], [0.64, 0.16, 0.16, 0.04]]
ZEROS = ([EVEN, ZERO], [ZERO[::-1], EVEN], [ZERO, ZERO[::-1]])
SMALL = ([EVEN] * 2, [[0.4, 0.3, 0.2, 0.1]] * 2, *ZEROS, TURNED)
WIDTH = Task(
    name="width_needed",
    reference=_width_needed,
    visible=(
        (_double(BY_HAND)[None],),
        (torch.stack([_double(rows) for rows in SMALL]),),
        (_maps(1, 5, 6, (1, False), (2, True), (3, False)),),
        (_single(Generator().manual_seed(1), 3, 5),),
        (_maps(2, 4, 7, (9, False), (2, False)),),
        (_tiny(),),
    ),
    hidden=varied(_drawn_maps, {"T": 1, "S": 1, "d_k": 1, "maps": 1}, dtypes=(), also=_special),
)


# --- effective_attention --------------------------------------------------------------------------


def _effective(A: Tensor, T: Tensor) -> Tensor:
    """By least squares, map by map: the combination of the columns that comes nearest to a row."""
    rows, matrices = (x.reshape(-1, *x.shape[-2:]).numpy() for x in (A, _ones(T)))
    found = [
        (X @ np.linalg.lstsq(X, one.T, rcond=NOISE)[0]).T
        for one, X in zip(rows, matrices, strict=True)
    ]
    return torch.tensor(np.stack(found)).reshape(A.shape)


def _drawn_heads(
    rng: random.Random,
    generator: Generator,
    S: int,
    Q: int,
    d_v: int,
    d: int,
    lead: tuple[int, ...] = (),
) -> tuple[Tensor, Tensor]:
    """Weights and T of heads that are unlike in rank and size."""
    A = (1.5 * torch.randn(*lead, Q, S, generator=generator)).double().softmax(-1)
    count = int(np.prod(lead))
    heads = [_written(rng, generator, S, rng.randint(1, d_v), d) for _ in range(count)]
    return A, torch.stack(heads).reshape(*lead, S, d)


AGAIN = _double([[1, 2, 0], [0, 1, 3], [1, 2, 0]])  # the last word is the first one again


def _rounded(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """A rank below the width, large, and small: no fixed line; and far from 0: that of [T, 1]."""
    A = torch.randn(3, 8, generator=generator).double().softmax(-1)
    sizes = ((1000, 0), (0.001, 0), (1, 3000))
    long, short = torch.randn(2, 8, 5, generator=generator).double()
    near = 10 * long[:, :1] * short[0] + 0.02 * short  # T in single precision is another one
    return [(A, _written(rng, generator, 8, 2, 5, (), *one)) for one in sizes] + [(A, near)]


EFFECTIVE = Task(
    name="effective_attention",
    reference=_effective,
    visible=(
        (_double([[0.4, 0.3, 0.2, 0.1]])[None], FOUR[None]),
        _drawn_heads(random.Random(1), Generator().manual_seed(1), 6, 6, 2, 3, (2,)),
        _drawn_heads(random.Random(2), Generator().manual_seed(2), 7, 2, 3, 5, (2, 1)),
        _drawn_heads(random.Random(2), Generator().manual_seed(4), 6, 2, 3, 4, (3,)),
        _drawn_heads(random.Random(3), Generator().manual_seed(3), 3, 3, 4, 4, (2,)),
        (_double([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]), AGAIN),
    ),
    hidden=varied(
        _drawn_heads, {"S": 1, "Q": 1, "d_v": 1, "d": 1}, lead=True, dtypes=(), also=_rounded
    ),
    tolerance=1.0,  # in double precision: 10⁻⁶
)

TASKS = (NULL_SPACE, OTHER_ROW, COUNT, WIDTH, EFFECTIVE)
