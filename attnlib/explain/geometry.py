"""Where vectors point: how narrow the cone is that the keys, values or states of a text span.

The measures of Fosse et al. 2023. Vectors may have leading axes, such as batch, layer and head; a
mask is True on real tokens.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnlib.explain.precision import at_least_float32


def mean_cosine(vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """sim(A): the mean cosine over all pairs of different rows (Fosse et al. 2023, eq. 3).

    The double loop over pairs is one sum: |Σ û|² holds every pair twice, and each of the n unit
    vectors with itself once, so sim = (|Σ û|² − n) / (n (n − 1)). It lies between −1/(n − 1) and 1.

    Args:
        vectors: (..., n, d); a row of zeros has no direction and counts as orthogonal to all.
        mask: (..., n), True on rows that count; all if None.

    Returns:
        (...); NaN where fewer than two rows count.

    >>> mean_cosine(torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])).item()  # doctest: +ELLIPSIS
    0.3333...
    """
    units = normalize(at_least_float32(vectors), dim=-1)
    if mask is None:
        mask = torch.ones(vectors.shape[:-1], dtype=torch.bool, device=vectors.device)
    units = units * mask[..., None]
    count = mask.sum(-1)
    squares = units.square().sum((-2, -1))  # n, if no row is zero
    return (units.sum(-2).square().sum(-1) - squares) / (count * (count - 1))


def row_entropy(weights: Tensor, count: Tensor | int | None = None) -> Tensor:
    """The entropy of each row of attention, as a share of the most that is possible: H / ln n.

    Args:
        weights: (..., n), a row for each destination; rows sum to 1 and padding weighs 0.
        count: n, how many tokens are real, to be broadcast to (...); all if None.

    Returns:
        (...), between 0 (the row looks at one token) and 1 (uniform); 0 for a single token.

    >>> row_entropy(torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), 2).tolist()
    [1.0, 0.0]
    """
    weights = at_least_float32(weights)
    count = torch.as_tensor(weights.shape[-1] if count is None else count, device=weights.device)
    logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()  # finite slope at 0
    return (weights * -logs).sum(-1) / count.clamp_min(2).log()


def class_cosines(vectors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean cosine of two vectors of one class, and of two vectors of different classes.

    Between classes a and b, Σ û · Σ û′ is the sum over all mixed pairs, of which there are n_a n_b.

    Args:
        vectors: (N, d), one for each text.
        labels: (N,), at least two classes, with two vectors each.

    Returns:
        within, the mean over classes of their `mean_cosine`, and between, over all mixed pairs.
    """
    vectors = at_least_float32(vectors)
    groups = [vectors[labels == label] for label in labels.unique()]
    within = torch.stack([mean_cosine(group) for group in groups]).mean()

    sums = torch.stack([normalize(group, dim=-1).sum(0) for group in groups])  # (classes, d)
    sizes = sums.new_tensor([len(group) for group in groups])
    mixed = ~torch.eye(len(groups), dtype=torch.bool, device=sums.device)
    between = (sums @ sums.T)[mixed].sum() / (sizes[:, None] * sizes)[mixed].sum()
    return within, between
