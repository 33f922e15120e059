"""Tasks of chapter 12: null space, another row, rank bound, log-rank, effective attention.

All tensors are in double precision, because a rank is decided by small numbers.
"""

import math
from typing import Any

import torch
from torch import Tensor

from attnlib.check.protocol import describe
from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task


def _double(rows: Any) -> Tensor:
    return table(rows).double()


def _ones(T: Tensor) -> Tensor:
    """[T, 1]."""
    return torch.cat([T, torch.ones_like(T[..., :1])], -1)


def _written(draw: Draw, n: int, d_v: int, d: int) -> Tensor:
    """T = V W_O of n tokens."""
    return draw.normal(n, d_v).double() @ draw.normal(d_v, d).double()


def _text(draw: Draw, n: int, d: int) -> Tensor:
    """T of n tokens, some of which may be the same word."""
    return _written(draw, n, draw.integer(1, 4), d)[draw.choices(range(n), n)]


FOUR = _double([[1, 0], [0, 1], [1, 1], [0, 0]])  # the first two write what the last two write
SEVEN = _double([[1, 2], [3, -1], [-2, 1], [0, 4], [5, 1], [-1, -3], [2, 2]])

# --- null_space: a basis of the directions that change nothing ------------------------------------


def _null_space(draw: Draw) -> Args:
    return (_text(draw, draw.size(), draw.size()),)


def _refuse_basis(args: Args, answer: Any) -> str | None:
    """What is wrong with a basis; many are right."""
    X = _ones(args[0])
    nullity = len(X) - int(torch.linalg.matrix_rank(X, rtol=1e-5))
    if not isinstance(answer, Tensor) or answer.ndim != 2 or len(answer) != len(X):
        told = f"the answer is {describe(answer)}, expected the shape {(len(X), nullity)}"
        return f"{told}: a direction is a column, with a number for each token"
    if answer.shape[1] != nullity:
        return f"there are {nullity} directions, and yours are {answer.shape[1]}"
    N = answer.double()
    if ((N.mT @ X).abs() > 1e-6 * (1 + X.abs().max())).any():
        return "a column does not give 0 with [T, 1]: the output moves, or the sum of the row"
    if not torch.allclose(N.mT @ N, torch.eye(nullity).double(), atol=1e-6):
        return "the columns are not all of length 1 and at right angles to one another"
    return None


NULL_SPACE = Task(
    "null_space",
    _null_space,
    also=lambda draw: [(_text(draw, 9, 3),), (_text(draw, 5, 8),)],  # long, and short and wide
    visible=(
        (FOUR,),
        (_double([[1, 2, 3], [2, 0, 1]]),),
        (_double([[1, 2, 1], [3, 1, 3], [1, 2, 1], [0, 1, 0], [3, 1, 3]]),),
        (SEVEN @ _double([[1, -2, 3, 5], [2, 1, -4, 1]]),),
        (_double([[1, 2], [1, 3], [1, 5], [1, 0]]),),
    ),
    accepts=_refuse_basis,
)


# --- other_row: other weights, the same output ----------------------------------------------------


def _other_row(draw: Draw, hidden: int | None = None) -> Args:
    """More words with weight than the rank of [T, 1], which is 4 at most; some may be hidden."""
    hidden = draw.integer(0, 2) if hidden is None else hidden
    d_v = draw.integer(1, 3)
    n = hidden + draw.integer(6, 9)
    scores = draw.normal(n).double()
    scores[draw.sample(range(n), hidden)] = -torch.inf
    return scores.softmax(-1), _written(draw, n, d_v, draw.size())


def _refuse_row(args: Args, w: Any) -> str | None:
    """What is wrong with other weights; many are right."""
    a, T = args
    if not isinstance(w, Tensor) or w.shape != a.shape:
        return f"the answer is {describe(w)}, expected a weight for each of the {len(a)} words"
    hint = ""
    if (a == 0).any():
        hint = "; here some words have no weight: leave them out before you look for a direction"
    if not w.isfinite().all():
        return f"a weight is not a finite number{hint}"
    if (w[a == 0].abs() > 1e-6).any():
        return f"a word whose weight was 0 has another weight now{hint}"
    if w.min() < -1e-6:
        return f"a weight is below 0: the first to reach 0 has the smallest a / −n{hint}"
    if abs(w.sum() - 1) > 1e-6:
        return f"the weights sum to {w.sum():.6f}, not to 1: is the column of ones missing?{hint}"
    if ((w.double() @ T - a @ T).abs() > 1e-6 * (1 + T.abs().max())).any():
        return f"the output moves: stay in the null space{hint}"
    if w[a > 0].min() > 1e-6:
        return f"no weight that was above 0 is 0 now: go on until the first one is{hint}"
    return None


OTHER_ROW = Task(
    "other_row",
    _other_row,
    also=lambda draw: [_other_row(draw, hidden=2) for _ in range(3)],
    visible=(
        (_double([0.4, 0.3, 0.2, 0.1]), FOUR),
        # the directions are ±(3, 1, −3, −1): the smallest weight is not the first to reach 0
        (_double([0.2, 0.15, 0.4, 0.25]), _double([[1, 0], [0, 2], [1, 1], [0, -1]])),
        (_double([0.5, 0.25, 0.125, 0.125]), _double([[1, 2], [3, 1], [1, 2], [0, 1]])),
        (
            _double([0.3, 0, 0.2, 0.1, 0.4, 0]),
            _double([[1, 0], [5, 1], [0, 1], [1, 1], [0, 0], [2, 2]]),
        ),
        (_double([0.1, 0.2, 0.1, 0.1, 0.3, 0.1, 0.1]), SEVEN),
    ),
    accepts=_refuse_row,
)


# --- rank_and_nullity: the bound, corrected -------------------------------------------------------


def _rank_and_nullity(draw: Draw) -> Args:
    few = draw.sample(range(20), draw.size())
    ids = draw.choices(few, draw.size())
    return ids, draw.size(), draw.size(), draw.choice((True, False))


def _borders(draw: Draw) -> list[Args]:
    """As many different words as the widths and the ones make, once and twice."""
    width = draw.integer(2, 4)
    few = draw.sample(range(20), width + 1)
    texts = (few, few[:-1], [*few, *few], [few[0], *few[:2], few[0]])
    return [
        (ids, *widths, positions)
        for ids in texts
        for widths in ((width, 8), (8, width))
        for positions in (True, False)
    ]


REPEATED = [5, 1, 5, 2, 3, 1, 4, 6, 5]
COUNT = Task(
    "rank_and_nullity",
    _rank_and_nullity,
    also=_borders,
    visible=(
        ([3, 1, 2], 4, 8, True),
        ([8, 3, 1, 6, 2, 9, 7, 5], 4, 8, True),
        (REPEATED, 7, 8, False),
        (REPEATED, 7, 8, True),
        (REPEATED, 6, 3, True),
        ([2, 5, 2, 2, 5, 2], 6, 7, False),
    ),
)


# --- width_needed: from weights back to scores ----------------------------------------------------


def _scores(draw: Draw, T: int, S: int, d_k: int) -> Tensor:
    """Of keys and queries of width d_k; in some maps they favour a source in every row."""
    Q, K = draw.normal(T, d_k).double(), draw.normal(S, d_k).double()
    Q[:, : draw.integer(0, 1)] = 1
    return Q @ K.mT


def _width_needed(draw: Draw) -> Args:
    """Maps of several widths; the first one has a weight of 0."""
    maps, T, S = (draw.size() for _ in range(3))
    scores = torch.stack([_scores(draw, T, S, draw.integer(0, 2)) for _ in range(maps)])
    if S > 1:
        scores[0, -1, draw.integer(0, S - 1)] = -torch.inf
    return (scores.softmax(-1),)


def _uniform(draw: Draw) -> list[Args]:
    """Rows that are uniform up to rounding errors; and rows that are all alike."""
    alike = draw.rows(2, 1, 5).double().expand(2, 4, 5)
    return [(_rounded(draw),), (alike,)]


def _rounded(draw: Draw) -> Tensor:
    """Two uniform maps of 6 sources, with errors as large as those of single precision."""
    return (1e-8 * draw.normal(2, 4, 6).double()).softmax(-1)


UNIFORM, ZERO = [0.25] * 4, [0.5, 0, 0.25, 0.25]
THIRDS, HALVES = [2 / 3, 1 / 6, 1 / 6], [1 / 2, 1 / 4, 1 / 4]  # centred logarithms of rank 1
# scores (−1, 0, 0, 1) times ln 4, and the same with the other sign: width 1, but two in the weights
TURNED = [[0.04, 0.16, 0.16, 0.64], [0.64, 0.16, 0.16, 0.04]]
WIDTH = Task(
    "width_needed",
    _width_needed,
    also=_uniform,
    visible=(
        (torch.tensor([[THIRDS, HALVES], [HALVES, HALVES[::-1]]], dtype=torch.float64),),
        (_double([[[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]]),),
        (_double([[UNIFORM] * 2, [[0.4, 0.3, 0.2, 0.1]] * 2, [UNIFORM, ZERO], TURNED]),),
        (
            _double(
                [
                    [TURNED[0], UNIFORM, TURNED[1]],
                    [UNIFORM, ZERO, UNIFORM],
                    [ZERO, UNIFORM, UNIFORM],
                ]
            ),
        ),
        (_rounded(Draw(1)),),
    ),
)


# --- effective_attention: without what has no effect ----------------------------------------------


def _effective_attention(draw: Draw) -> Args:
    Q, S, d = (draw.size() for _ in range(3))
    heads = [_text(draw, S, d) for _ in range(math.prod(draw.lead))]
    T = torch.stack(heads).reshape(*draw.lead, S, d)
    return draw.rows(*draw.lead, Q, S, spread=3).double(), T


def _heads(Q: int, S: int, d: int, *ranks: int) -> Args:
    """Heads whose T have these ranks, in hundredths."""
    T = [tenths(rank, S, rank).double() @ tenths(10 + rank, rank, d).double() for rank in ranks]
    return Draw(1).rows(len(ranks), Q, S).double(), torch.stack(T)


EFFECTIVE = Task(
    "effective_attention",
    _effective_attention,
    also=lambda draw: [(draw.rows(4, 9, spread=3).double(), _text(draw, 9, 3))],  # a long text
    visible=(
        (_double([[[0.4, 0.3, 0.2, 0.1]]]), FOUR[None]),
        _heads(6, 6, 3, 2, 1),
        _heads(2, 3, 4, 3, 1),
        # the last word is the first one again
        (_double([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]), _double([[1, 2, 0], [0, 1, 3], [1, 2, 0]])),
    ),
)

TASKS: tuple[Task, ...] = (NULL_SPACE, OTHER_ROW, COUNT, WIDTH, EFFECTIVE)
