"""What a head looks at, in numbers: measures of roles.

A measure takes the weights of one text with any axes in front, such as (layer, head, query, key),
or the sources that they point at, and returns one value for each destination that counts. `pooled`
takes the mean of these over many texts of any length, `interval` tells how far that mean may be
trusted. Roles are those of Voita et al. (2019).
"""

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

# --- one value per destination ----------------------------------------------------------------


def pointed_at(attention: Tensor) -> Tensor:
    """The source with the largest weight of each destination: (..., T, S) to int64 (..., T)."""
    return attention.argmax(-1)


def at_offset(pointed: Tensor, offset: int) -> Tensor:
    """Whether each destination points at the source at an offset from it.

    Args:
        pointed: (..., T), from `pointed_at`.
        offset: source minus destination: −1 is the previous token, 1 the next.

    Returns:
        bool (..., n), for the n destinations that have such a source.

    >>> at_offset(torch.tensor([2, 0, 1]), -1)
    tensor([True, True])
    """
    count = pointed.shape[-1]
    here = torch.arange(max(0, -offset), max(0, -offset, count - max(0, offset)))
    return on_sources(pointed, here, here + offset)


def on_sources(pointed: Tensor, destinations: Tensor, sources: Tensor) -> Tensor:
    """Whether each of n destinations points at its source.

    Args:
        pointed: (..., T), from `pointed_at`.
        destinations: (n,); one may occur more than once.
        sources: (n,), what each should point at.

    Returns:
        bool (..., n).
    """
    return pointed[..., destinations] == sources


# --- over many texts --------------------------------------------------------------------------


def pooled(values: Iterable[Tensor]) -> Tensor:
    """The mean over all destinations of all texts: (..., n) for each text to (...)."""
    return torch.cat(list(values), -1).float().mean(-1)


def interval(
    values: Iterable[Tensor], level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval of `pooled`: whole texts are drawn again, with replacement.

    Args:
        values: (n,) for each text; n may differ and be 0.
        level: how often such intervals should hold what they estimate.
        draws: how many times all texts are drawn.
        seed: of the drawing.

    Returns:
        its two ends.

    Raises:
        ValueError: if there is no value in any text.
    """
    rows = [(one.sum().item(), one.numel()) for one in values if one.numel()]
    if not rows:
        raise ValueError("no text has a value, so their mean has no interval")
    total, count = torch.tensor(rows, dtype=torch.float64).T
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(rows), (draws, len(rows)), generator=generator)
    means = total[drawn].sum(1) / count[drawn].sum(1)
    ends = means.quantile(torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=means.dtype))
    return ends[0].item(), ends[1].item()


def commonest_offset(arcs: Iterable[tuple[Tensor, Tensor]]) -> int:
    """The offset that most pairs of destination and source have: the best that ignores the words.

    Args:
        arcs: for each text destinations (n,) and sources (n,).

    >>> commonest_offset([(torch.tensor([0, 4]), torch.tensor([1, 5]))])
    1
    """
    found = Counter(o for here, there in arcs for o in (there - here).tolist())
    (offset, _), *_ = found.most_common(1)
    return int(offset)
