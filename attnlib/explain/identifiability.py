"""Could the weights be other weights? What the output of a head says about its attention.

A head writes H = A T, with T = V W_O, one row per source. Other weights A + Ã write the same, and
their rows still sum to 1, if Ã [T, 1] = 0: the rows of Ã lie in the left null space of [T, 1]
(Brunner et al. 2020; Bhardwaj et al. 2021). Whether the head itself could make them is a question
about keys and queries: `log_singular_values` answers it.

T may have leading axes, such as one for the heads. Take it in double precision: whether a singular
value is 0 is a matter of rounding, and `RELATIVE` draws the line.
"""

import torch
from torch import Tensor

from attnlib.explain.precision import at_least_float32, in_double

RELATIVE = 1e-5  # singular values below this share of the largest count as 0


def with_ones(T: Tensor) -> Tensor:
    """[T, 1]: the matrix and a column of ones, (..., d_s, d) to (..., d_s, d + 1)."""
    return torch.cat([T, torch.ones_like(T[..., :1])], -1)


def numerical_rank(matrix: Tensor, relative: float = RELATIVE) -> Tensor:
    """How many singular values are above `relative` times the largest: (..., n, m) to (...).

    >>> numerical_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]))
    tensor(1)
    """
    values = torch.linalg.svdvals(at_least_float32(matrix))
    return _counted(values, relative).sum(-1)


def _counted(values: Tensor, relative: float) -> Tensor:
    """Which singular values (..., n), the largest first, count as more than 0."""
    counted: Tensor = values > relative * values[..., :1]
    return counted


def null_space(T: Tensor, relative: float = RELATIVE) -> Tensor:
    """An orthonormal basis of the left null space of [T, 1].

    From [T, 1] = U S Wᵀ: the columns of U whose singular value is 0.

    Args:
        T: (d_s, d).
        relative: see `numerical_rank`.

    Returns:
        (d_s, nullity), one direction per column; each sums to 0, and its transpose times T is 0.
    """
    U, values, _ = torch.linalg.svd(with_ones(at_least_float32(T)))
    rank = int(_counted(values, relative).sum())
    basis: Tensor = U[:, rank:]
    return basis


def effective_attention(A: Tensor, T: Tensor, relative: float = RELATIVE) -> Tensor:
    """The part of the weights that the output depends on: A without its share in the null space.

    The orthogonal projection of every row on the columns of [T, 1], A U Uᵀ with the columns of U
    whose singular value is not 0. It gives the same output and the same row sums as A, it may be
    negative, and A and A + Ã have the same. Brunner et al. (2020) project on the columns of T
    alone, which does not keep the sums.

    Args:
        A: (..., queries, d_s).
        T: (..., d_s, d).
        relative: see `numerical_rank`.

    Returns:
        (..., queries, d_s).
    """
    A, T = at_least_float32(A), at_least_float32(T)
    U, values, _ = torch.linalg.svd(with_ones(T), full_matrices=False)
    U = U * _counted(values, relative)[..., None, :]
    projected: Tensor = A @ U @ U.mT
    return projected


def extreme_weights(a: Tensor, basis: Tensor, objective: Tensor) -> Tensor:
    """Of all weights with the same output, those whose objective is largest.

    A linear program: a + basis z has the output of a for every z; of those that are nowhere
    negative, it finds the one with the largest objective · weights.

    Args:
        a: one row of weights, (d_s,), at least 0.
        basis: of `null_space`, (d_s, nullity).
        objective: (d_s,), such as 1 for one token and 0 elsewhere.

    Returns:
        (d_s,), at least 0, with the sum of a.

    Raises:
        RuntimeError: if the solver fails.
    """
    from scipy.optimize import linprog

    if basis.shape[1] == 0:
        return a
    row, N, goal = in_double(a), in_double(basis), in_double(objective)
    solution = linprog(
        c=-(goal @ N).numpy(),  # it looks for the least
        A_ub=-N.numpy(),  # row + N z ≥ 0
        b_ub=row.numpy(),
        bounds=(None, None),
    )
    if solution.status != 0:
        raise RuntimeError(f"the linear program was not solved: {solution.message}")
    weights = row + N @ torch.as_tensor(solution.x, device="cpu")
    return _drawn_back(weights, row).to(a)


def _drawn_back(weights: Tensor, row: Tensor) -> Tensor:
    """Weights (d_s,) drawn back towards a row that is at least 0, until none is below 0.

    The solver keeps to its bounds only up to rounding.
    """
    negative = weights < 0
    if negative.any():
        share = (row / (row - weights).clamp_min(1e-300))[negative].min()
        weights = row + share * (weights - row)
    return weights.clamp_min(0)


def log_singular_values(A: Tensor) -> Tensor:
    """Singular values of log A, the mean of each row taken off: (..., T, S) to (..., min(T, S)).

    softmax(S) = A holds for S = log A + c 1ᵀ with any c, and for no other S. Of all these the one
    whose rows sum to 0 has the smallest rank, since adding c 1ᵀ adds a direction that its rows do
    not have. So keys and queries of width d_k can make A if and only if at most d_k of these
    values are above 0, as long as keys and queries may be chosen freely, one for each token.

    Args:
        A: weights above 0; where a weight is 0, no softmax makes it.

    Raises:
        ValueError: if a weight is 0.
    """
    if not (A > 0).all():
        raise ValueError("a softmax makes no weight of 0: log A needs weights above 0 everywhere")
    log_A = at_least_float32(A).log()
    values: Tensor = torch.linalg.svdvals(log_A - log_A.mean(-1, keepdim=True))
    return values
