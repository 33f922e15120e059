"""What the matrices of a head say on their own, and what its maps do on chosen tokens.

A head of an attention-only transformer is two maps between tokens (Elhage et al. 2021): the QK
circuit, W_E W_QK W_Eᵀ with W_QK = W_Q W_Kᵀ, tells which source a destination looks for, and the OV
circuit, W_E W_V W_O W_U, what a source does to the logits when it is looked at. Both are D × D and
of rank d_head; only the rows that were asked for are made.

Matrices may have leading axes, such as one for the heads.
"""

import torch
from torch import Tensor
from torch.linalg import matrix_norm

from attnlib.explain.precision import at_least_float32


def ov_circuit(sources: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Change of the logits where a source is attended to with weight 1: sources W_V W_O W_U.

    Args:
        sources: (N, d_model), such as rows of W_E.
        W_V: (..., d_model, d_v).
        W_O: (..., d_v, d_model).
        W_U: (d_model, M), all columns or some.

    Returns:
        (..., N, M), row = source.

    Raises:
        ValueError: if heads share keys and values, so that W_V and W_O have not as many of them.
    """
    if W_V.ndim == W_O.ndim == 3 and len(W_V) not in (1, len(W_O)):
        raise ValueError(
            f"{len(W_O)} heads share {len(W_V)} values here; `attention.W_VO` has both matrices of "
            "every head: sources @ attention.W_VO @ W_U"
        )
    return (sources @ W_V) @ (W_O @ W_U)


def product_eigenvalues(left: Tensor, right: Tensor) -> Tensor:
    """The eigenvalues of left @ right that need not be 0, from the small product right @ left.

    AB and BA have the same eigenvalues but for zeros, so a D × D circuit of rank r takes an r × r
    matrix.

    Args:
        left: (..., D, r).
        right: (..., r, D).

    Returns:
        (..., r), complex, on the CPU: not every device finds eigenvalues.
    """
    small = at_least_float32(right) @ at_least_float32(left)
    eigenvalues: Tensor = torch.linalg.eigvals(small.cpu())
    return eigenvalues


def copying_score(eigenvalues: Tensor) -> Tensor:
    """Re Σλ / Σ|λ| (Elhage et al. 2021): (..., r) to (...), between −1 and 1.

    1 if every eigenvalue is real and positive: what is attended to becomes more likely itself.

    >>> copying_score(torch.tensor([3.0, -1.0])).item()
    0.5
    """
    return eigenvalues.sum(-1).real / eigenvalues.abs().sum(-1)


def composition(first: Tensor, second: Tensor) -> Tensor:
    """How much of what one matrix writes the next one reads: ‖AB‖ / (‖A‖ ‖B‖), Frobenius.

    K-composition is `composition(W_VO, W_QK.mT)`: what head 1 wrote meets the keys of head 2;
    Q-composition `composition(W_VO, W_QK)`. Random matrices give about 1/√d_model, not 0.

    Args:
        first: (..., n, d).
        second: (..., d, m).

    Returns:
        (...), between 0 and 1.
    """
    first, second = at_least_float32(first), at_least_float32(second)
    together = matrix_norm(first @ second)
    apart = matrix_norm(first) * matrix_norm(second)
    share: Tensor = together / apart
    return share


def offset_score(attention: Tensor, offset: int, start: int = 0) -> Tensor:
    """The mean weight on the source that stands `offset` before the destination.

    Offset 1 is the previous-token score. On tokens that repeat with a period P, offset P − 1 from
    start = P on is the induction score: the weight on what followed the same token last time.

    Args:
        attention: (..., T, T).
        offset: at least 0.
        start: the first destination that counts, if it has such a source.

    Returns:
        (...).

    >>> offset_score(torch.eye(3), 0).item(), offset_score(torch.eye(3), 1).item()
    (1.0, 0.0)
    """
    first = max(start, offset)
    destinations = torch.arange(first, attention.shape[-1], device=attention.device)
    return at_least_float32(attention[..., destinations, destinations - offset]).mean(-1)
