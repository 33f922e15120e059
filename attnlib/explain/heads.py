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

from attnlib.explain.precision import at_least_float32

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
    T = pointed.shape[-1]
    destinations = torch.arange(T, device=pointed.device)
    sources = destinations + offset
    there = (sources >= 0) & (sources < T)
    return on_sources(pointed, destinations[there], sources[there])


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
    texts = [text for text in values if text.numel()]
    if not texts:
        raise ValueError("no text has a value, so their mean has no interval")
    sums = [at_least_float32(text).sum().item() for text in texts]
    total = torch.tensor(sums, dtype=torch.float64, device="cpu")
    count = torch.tensor([text.numel() for text in texts], dtype=torch.float64, device="cpu")

    generator = torch.Generator(device="cpu").manual_seed(seed)
    shape = (draws, len(texts))
    drawn = torch.randint(len(texts), shape, generator=generator, device="cpu")
    means = total[drawn].sum(1) / count[drawn].sum(1)
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64, device="cpu")
    low, high = means.quantile(ends).tolist()
    return low, high


def commonest_offset(arcs: Iterable[tuple[Tensor, Tensor]]) -> int:
    """The offset that most pairs of destination and source have: the best that ignores the words.

    Args:
        arcs: for each text destinations (n,) and sources (n,).

    >>> commonest_offset([(torch.tensor([0, 4]), torch.tensor([1, 5]))])
    1
    """
    offsets: Counter[int] = Counter()
    for destinations, sources in arcs:
        offsets.update((sources - destinations).tolist())
    offset, _ = offsets.most_common(1)[0]
    return offset
