"""What a head looks at, in numbers: measures of roles, and maps with a known pattern.

A measure takes the weights of one text with any axes in front, such as (layer, head, query, key),
or the sources that they point at, and returns one value for each destination that counts. `pooled`
takes the mean of these over many texts of any length, `interval` tells how far that mean may be
trusted. Roles are those of Voita et al. (2019), the five patterns those of Kovaleva et al. (2019).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

PATTERNS = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")


# --- one value per destination ----------------------------------------------------------------


def pointed_at(attention: Tensor) -> Tensor:
    """The source with the largest weight of each destination: (..., T, S) to int64 (..., T)."""
    return attention.argmax(-1)


def confidence(attention: Tensor) -> Tensor:
    """The largest weight of each destination: (..., T, S) to (..., T)."""
    return attention.amax(-1)


def mass_on(attention: Tensor, sources: Sequence[int]) -> Tensor:
    """The weight of each destination on all of some sources together: (..., T, S) to (..., T)."""
    return attention[..., list(sources)].sum(-1)


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


def on_rarest(pointed: Tensor, frequency: Tensor) -> Tensor:
    """Whether each destination points at the least frequent source, or at one of several.

    Args:
        pointed: (..., T), from `pointed_at`.
        frequency: of the S sources, in any unit.

    Returns:
        bool (..., T).
    """
    return frequency[pointed] == frequency.min()


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


# --- five patterns ----------------------------------------------------------------------------


def planted_map(
    pattern: str,
    length: int,
    boundary: int,
    generator: torch.Generator,
    noise: float = 0.2,
    causal: bool = False,
) -> Tensor:
    """A map that has a pattern because it was made with it, mixed with random weights.

    - "vertical": all destinations share one or two sources;
    - "diagonal": the source stands at the same offset, at most 2 tokens away;
    - "vertical+diagonal": both, about half and half;
    - "block": anywhere within the destination's own part of the text;
    - "heterogeneous": for every destination other sources, few or many.

    Args:
        pattern: one of `PATTERNS`.
        length: T.
        boundary: first token of the second part of the text.
        generator: what is random comes from it.
        noise: share of the weight that is spread at random.
        causal: weights on later sources are taken away.

    Returns:
        (T, T), rows sum to 1.

    Raises:
        ValueError: if the pattern is unknown.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern must be one of {PATTERNS}, got {pattern!r}")
    part = torch.arange(length) >= boundary
    made = {
        "vertical": lambda: _vertical(length, causal, generator),
        "diagonal": lambda: _diagonal(length, causal, generator),
        "block": lambda: _spread(length, 1.0, generator) * (part[:, None] == part),
        "heterogeneous": lambda: _spread(
            length, 4 * torch.rand((), generator=generator).item(), generator
        ),
    }
    parts = [_rows(made[name](), causal) for name in pattern.split("+")]
    rest = _rows(_spread(length, 1.0, generator), causal)
    return (1 - noise) * torch.stack(parts).mean(0) + noise * rest


def pattern_features(attention: Tensor, boundary: int) -> Tensor:
    """Six numbers that tell the patterns apart, each between 0 and 1.

    The largest mean weight of a column, and of two; the largest mean weight at an offset of at
    most 2; the weight within the destination's own part; the largest weight of a row, on average;
    and how much a row differs from the mean row.

    Args:
        attention: (..., T, T).
        boundary: first token of the second part of the text.

    Returns:
        (..., 6).
    """
    length = attention.shape[-1]
    part = torch.arange(length) >= boundary
    columns = attention.mean(-2)
    diagonals = [attention.diagonal(o, -2, -1).sum(-1) / length for o in range(-2, 3)]
    features = (
        columns.amax(-1),
        columns.topk(min(2, length), -1).values.sum(-1),
        torch.stack(diagonals, -1).amax(-1),
        (attention * (part[:, None] == part)).sum(-1).mean(-1),
        confidence(attention).mean(-1),
        (attention - columns.unsqueeze(-2)).abs().sum(-1).mean(-1) / 2,
    )
    return torch.stack(features, -1)


def _rows(weights: Tensor, causal: bool) -> Tensor:
    """Rows that sum to 1; one with nothing in it becomes even over what it may see."""
    weights = weights + 1e-6
    weights = weights.tril() if causal else weights
    return weights / weights.sum(-1, keepdim=True)


def _spread(length: int, sharpness: float, generator: torch.Generator) -> Tensor:
    """Random weights; the larger the sharpness, the fewer of them are large."""
    return (sharpness * torch.randn(length, length, generator=generator)).exp()


def _vertical(length: int, causal: bool, generator: torch.Generator) -> Tensor:
    """One row for all destinations; where they look back, its sources stand early."""
    row = torch.zeros(length)
    places = torch.randint(-(-length // 4) if causal else length, (2,), generator=generator)
    row[places] = torch.rand(2, generator=generator)
    return row.expand(length, length)


def _diagonal(length: int, causal: bool, generator: torch.Generator) -> Tensor:
    offset = int(torch.randint(-2, 1 if causal else 3, (), generator=generator))
    place = torch.arange(length)
    return torch.exp(-2.0 * (place - place[:, None] - offset).abs())
