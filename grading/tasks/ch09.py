"""Tasks of chapter 09: paths, copying, from a table to a map, K-composition, induction."""

import math
import random
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import torch
from torch import Generator, Tensor

from grading.task import Task

# --- logit_paths ----------------------------------------------------------------------------------


def _paths(x: Tensor, A: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Head by head, with the merged matrix of each; the direct path is the unit matrix."""
    maps = [torch.einsum("...sa,ad->...sd", x, W_U)]
    for h in range(len(W_V)):
        merged = torch.einsum("av,vb,bd->ad", W_V[h], W_O[h], W_U)
        maps.append(torch.einsum("...ts,...sa,ad->...td", A[..., h, :, :], x, merged))
    return torch.stack(maps, -3)


def _heads(x: Tensor, A: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    return A @ (x[..., None, :, :] @ W_V) @ W_O


def _joined(x: Tensor, written: Tensor, W_U: Tensor) -> Tensor:
    return torch.cat([(x @ W_U)[..., None, :, :], written @ W_U], -3)


Layer = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _layer(
    generator: Generator, lead: tuple[int, ...], T: int, d: int, d_v: int, H: int, D: int
) -> Layer:
    """A stream, maps whose rows sum to 1 and see no future, and the matrices of a layer."""
    scores = torch.randn(*lead, H, T, T, generator=generator)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    return (
        torch.randn(*lead, T, d, generator=generator),
        scores.masked_fill(future, -torch.inf).softmax(-1),
        torch.randn(H, d, d_v, generator=generator),
        torch.randn(H, d_v, d, generator=generator),
        torch.randn(d, D, generator=generator),
    )


def _paths_hidden(rng: random.Random, generator: Generator) -> Sequence[Layer]:
    cases = []
    for lead in ((), (rng.randint(2, 3),), (1,), (2, 3)):
        T, d, d_v, H, D = rng.sample(range(2, 8), 5)
        cases.append(_layer(generator, lead, T, d, d_v, H, D))
    n = rng.randint(2, 4)  # all axes alike, twice; one head; one token
    for lead, sizes in (((n,), (n,) * 5), ((n,), (n,) * 5), ((), (4, 3, 2, 1, 5))):
        cases.append(_layer(generator, lead, *sizes))
    cases.append(_layer(generator, (2,), 1, 3, 2, 2, 4))
    x, A, W_V, W_O, W_U = (part.double() for part in cases[0])
    cases.append((x, A, W_V, W_O, W_U))
    x, A, W_V, W_O, W_U = cases[1]  # a map that is not causal
    return [*cases, (x, A.flip(-1), W_V, W_O, W_U)]


UNIT = torch.eye(2)
PATHS = Task(
    name="logit_paths",
    reference=_paths,
    visible=(
        (
            UNIT,
            torch.tensor([[[1.0, 0.0], [0.25, 0.75]]]),
            torch.tensor([[[2.0], [1.0]]]),
            torch.tensor([[[0.0, 1.0]]]),
            UNIT,
        ),
        (
            torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]),
            torch.tensor(
                [
                    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]],
                    [[0.5, 0.3, 0.2], [0.9, 0.1, 0.0], [0.0, 0.6, 0.4]],
                ]
            ),
            torch.tensor([[[1.0], [2.0]], [[0.0], [1.0]]]),
            torch.tensor([[[1.0, -1.0]], [[2.0, 0.5]]]),
            torch.tensor([[1.0, 0.0, 2.0, -1.0], [0.0, 1.0, 1.0, 0.5]]),
        ),
        (
            torch.tensor([[[1.0, 2.0]], [[0.0, -1.0]]]).double(),
            torch.ones(2, 1, 1, 1).double(),
            torch.tensor([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]]).double(),
            torch.tensor([[[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]]).double(),
            torch.tensor([[1.0], [3.0]]).double(),
        ),
    ),
    hidden=_paths_hidden,
    mistakes={
        "rows and columns of A have changed places: a row is a destination, and takes its sources "
        "from the columns.": lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A.mT, W_V, W_O), W_U),
        "A does not occur: a head writes at a destination what it takes from the sources.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, x[..., None, :, :] @ W_V @ W_O, W_U)
        ),
        "the direct path stands last: it comes first, the heads follow in their order.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O), W_U).roll(-1, -3)
        ),
        "the heads stand in the reverse order: the direct path comes first, then head 0, head 1 "
        "and so on.": lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O).flip(-3), W_U),
        "you take a softmax of A: it holds weights already, whose rows sum to 1.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A.softmax(-1), W_V, W_O), W_U)
        ),
        "you hide a part of A: it is used as it is given, causal or not.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A.tril(), W_V, W_O), W_U)
        ),
        "these are the logits, the sum of all paths: each path is asked for.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O), W_U).sum(-3)
        ),
        "the heads are added up: each has a place of its own.": lambda x, A, W_V, W_O, W_U: _joined(
            x, _heads(x, A, W_V, W_O).sum(-3, keepdim=True), W_U
        ),
        "the direct path is missing.": lambda x, A, W_V, W_O, W_U: _heads(x, A, W_V, W_O) @ W_U,
        "each head has the direct path in it: x itself is counted once, as the first path.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O) + x[..., None, :, :], W_U)
        ),
        "these are running sums, the stream after each head: each path by itself is asked for.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O), W_U).cumsum(-3)
        ),
        "you divide by the number of heads: the logits are the sum of the paths, not a mean.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O) / len(W_V), W_U)
        ),
        "W_U is missing: these are paths in the stream, the logits come after the unembedding.": (
            lambda x, A, W_V, W_O, W_U: torch.cat([x[..., None, :, :], _heads(x, A, W_V, W_O)], -3)
        ),
        "these are probabilities: paths add up before the softmax, not after it.": (
            lambda x, A, W_V, W_O, W_U: _joined(x, _heads(x, A, W_V, W_O), W_U).softmax(-1)
        ),
        "the direct path passes through A: it leads from a token straight to its own logits.": (
            lambda x, A, W_V, W_O, W_U: _joined(A[..., 0, :, :] @ x, _heads(x, A, W_V, W_O), W_U)
        ),
    },
    tolerance=1e-3,
)


# --- copying_score --------------------------------------------------------------------------------


def _copying(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """By a third product with the same eigenvalues, d_model × d_model, in double precision."""
    E, U = W_E.double().numpy(), W_U.double().numpy()
    found = []
    for V, W in zip(W_V.double().numpy(), W_O.double().numpy(), strict=True):
        values = np.linalg.eigvals(V @ W @ (U @ E))
        found.append(values.sum().real / np.abs(values).sum())
    return torch.tensor(found, dtype=W_E.dtype)


Embedded = tuple[Tensor, Tensor, Tensor, Tensor]


def _eigen(
    way: Callable[[Tensor], Tensor], small: Callable[..., Tensor] = lambda E, V, W, U: W @ U @ E @ V
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """A score with another rule, or from other matrices; in double precision."""

    def score(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
        matrices = small(*(part.double() for part in (W_E, W_V, W_O, W_U)))
        return way(torch.linalg.eigvals(matrices)).to(W_E.dtype)

    return score


def _rule(values: Tensor) -> Tensor:
    return values.sum(-1).real / values.abs().sum(-1)


def _symmetric(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    values: Tensor = torch.linalg.eigvalsh((W_O @ W_U) @ (W_E @ W_V))
    return values.sum(-1) / values.abs().sum(-1)


def _singular(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    return _by_singular(W_O @ W_U @ W_E @ W_V).to(W_E.dtype)


def _whole_singular(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    return _by_singular(W_E @ W_V @ W_O @ W_U).to(W_E.dtype)


def _by_singular(product: Tensor) -> Tensor:
    sizes: Tensor = torch.linalg.svdvals(product.double())
    return product.diagonal(dim1=-2, dim2=-1).sum(-1) / sizes.sum(-1)


def _frobenius(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    table = W_E @ W_V @ W_O @ W_U
    return table.diagonal(dim1=-2, dim2=-1).sum(-1) / table.square().sum((-2, -1)).sqrt()


def _diagonal(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    own = (W_E @ W_V @ W_O @ W_U).diagonal(dim1=-2, dim2=-1)
    return own.sum(-1) / own.abs().sum(-1)


def _far_from_normal(generator: Generator, D: int = 40) -> Embedded:
    """Two heads whose D × D tables have entries near 10¹² and eigenvalues of a few units.

    The large entries are whole numbers that cancel two by two, so that every product is exact. But
    of the table's eigenvalues some that should be 0 come out as thousands, even in double precision
    and by whatever library: its score is 0 to three digits.
    """
    large = torch.randint(300_000, 1_000_000, (2, D // 2 - 1), generator=generator).double()
    a, b = torch.randint(2, 5, (2,), generator=generator).tolist()
    E, U = torch.zeros(2, D, 4, dtype=torch.float64)
    E[:2, 2:] = U[:2, :2] = torch.eye(2)
    E[2:, 0], U[2:, 2] = large.flatten(), torch.cat([large[1], -large[0]])
    small = torch.tensor([[[a, 0], [b, -1]], [[1, -a], [1, 1]]])
    units = torch.eye(2).expand(2, 2, 2)
    return E, torch.cat([units, units], 1).double(), torch.cat([small, units], 2).double(), U.T


def _copying_hidden(rng: random.Random, generator: Generator) -> Sequence[Embedded]:
    cases: list[Embedded] = []
    n = rng.randint(3, 4)
    sizes = [(9, 5, 3, 2), (11, 4, 2, 3), (7, 6, 4, 5), (12, 5, 1, 4), (8, 4, 3, 1)]
    for D, d, d_v, H in [*sizes, (n, n, n, n), (n, n, n, n)]:
        W_E, W_U = torch.randn(2, D, d, generator=generator)
        W_V, W_O = torch.randn(2, H, d, d_v, generator=generator)
        cases.append((W_E, W_V, W_O.mT.contiguous(), W_U.T.contiguous()))
    W_E, W_V, W_O, W_U = (part.double() for part in cases[rng.randint(0, 2)])
    cases.append((W_E, W_V, W_O, W_U))
    return [*cases, *(_far_from_normal(generator) for _ in range(2))]


TWO_TURNS = torch.tensor([[[0.0, 1.0], [-1.0, 0.0]], [[1.0, 1.0], [-1.0, 1.0]]])
COPYING = Task(
    name="copying_score",
    reference=_copying,
    visible=(
        (UNIT, UNIT[None], torch.tensor([[[3.0, 0.0], [0.0, -1.0]]]), UNIT),
        (UNIT, UNIT.expand(2, 2, 2).clone(), TWO_TURNS, UNIT),
        (
            torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [2.0, -1.0, 1.0]]),
            torch.tensor(
                [[[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [[0.0, -1.0], [1.0, 1.0], [2.0, 0.0]]]
            ),
            torch.tensor(
                [[[1.0, 1.0, 0.0], [0.0, -1.0, 2.0]], [[-2.0, 0.0, -1.0], [-1.0, -1.0, 1.0]]]
            ),
            torch.tensor([[1.0, 0.0, -1.0, 2.0], [0.0, 2.0, 1.0, 0.0], [1.0, 1.0, 0.0, -1.0]]),
        ),
        _far_from_normal(Generator().manual_seed(0)),
    ),
    hidden=_copying_hidden,
    mistakes={
        "you add the absolute values of the real parts: the real part is taken of the sum.": (
            _eigen(lambda v: v.real.abs().sum(-1) / v.abs().sum(-1))
        ),
        "you divide by the absolute value of the sum: below the line the absolute values of the "
        "single eigenvalues are added.": _eigen(lambda v: v.sum(-1).real / v.sum(-1).abs()),
        "you take the absolute value of the sum: above the line its real part is asked for, which "
        "may be negative.": _eigen(lambda v: v.sum(-1).abs() / v.abs().sum(-1)),
        "below the line you add the absolute values of the real parts: |λ| of a complex λ counts "
        "its imaginary part, too.": _eigen(lambda v: v.sum(-1).real / v.real.abs().sum(-1)),
        "every eigenvalue counts alike in your mean: Σλ and Σ|λ| are two sums, the one "
        "through the other.": (_eigen(lambda v: (v.real / v.abs()).mean(-1))),
        "this is the share of eigenvalues with a positive real part: the score weighs them by "
        "their size.": _eigen(lambda v: (v.real > 0).double().mean(-1)),
        "you divide by the root of the sum of squares: Σ|λ| is a sum of absolute values.": (
            _eigen(lambda v: v.sum(-1).real / v.abs().square().sum(-1).sqrt())
        ),
        "this is the sum of the eigenvalues, not divided by Σ|λ|.": (
            _eigen(lambda v: v.sum(-1).real)
        ),
        "you use W_V W_O alone: the table has W_E in front and W_U behind it.": (
            _eigen(_rule, lambda E, V, W, U: W @ V)
        ),
        "you turn W_U and leave out W_E: the circle that gives the small matrix is "
        "W_O W_U W_E W_V.": _eigen(_rule, lambda E, V, W, U: W @ U @ U.mT @ V),
        "W_E is used in place of W_U: they are two matrices, W_O W_U W_E W_V.": (
            _eigen(_rule, lambda E, V, W, U: W @ E.mT @ E @ V)
        ),
        "singular values are no eigenvalues: they are never negative, whatever a head copies.": (
            _singular
        ),
        "these are singular values of the table: eigenvalues are asked for.": _whole_singular,
        "you divide the trace by the size of all entries: below the line stand the absolute "
        "values of the eigenvalues.": _frobenius,
        "you use the diagonal of the table: its sum is Σλ, but its absolute values are not Σ|λ|.": (
            _diagonal
        ),
        "these are eigenvalues of the D × D table: those that should be 0 are not, by rounding, "
        "and add up below the line. Take the small matrix.": (
            _eigen(_rule, lambda E, V, W, U: E @ V @ W @ U)
        ),
        "eigvalsh takes a matrix for symmetric, and reads one half of it: yours is not symmetric, "
        "so take eigvals.": _symmetric,
        "one score for all heads: each has its own.": (
            lambda W_E, W_V, W_O, W_U: _copying(W_E, W_V, W_O, W_U).mean()
        ),
        "you add up the eigenvalues of all heads: each head has a score of its own.": (
            _eigen(lambda v: v.sum().real / v.abs().sum())
        ),
    },
    tolerance=1e-3,
)


# --- weights_from_table ---------------------------------------------------------------------------


def _from_table(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    """Row by row, over the tokens that the row may see."""
    rows = ids.reshape(-1, ids.shape[-1]).tolist()
    out = torch.zeros(len(rows), ids.shape[-1], ids.shape[-1], dtype=table.dtype)
    for text, new in zip(rows, out, strict=True):
        for t, token in enumerate(text):
            seen = torch.stack([table[token, source] for source in text[: t + 1]]) / math.sqrt(d_k)
            powers = (seen - seen.max()).exp()
            new[t, : t + 1] = powers / powers.sum()
    return out.reshape(*ids.shape, ids.shape[-1])


def _picked(table: Tensor, ids: Tensor) -> Tensor:
    return table[ids[..., :, None], ids[..., None, :]]


def _future(ids: Tensor) -> Tensor:
    return torch.ones(ids.shape[-1], ids.shape[-1], dtype=torch.bool).triu(1)


TURNED = (
    "rows and columns have changed places: the destination's token chooses the row of the table"
)
UNSCALED = "1/√d_k is missing"
SEEING = "the mask is missing: a destination sees nothing that comes after it"
PLAIN = "the softmax is missing: these are scores"
Reader = Callable[[Tensor, Tensor, int], Tensor]


def _reading(turned: bool, unscaled: bool, seeing: bool, plain: bool) -> Reader:
    """The weights with some of the four mistakes in them."""

    def read(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
        scores = _picked(table.T if turned else table, ids) / (1 if unscaled else math.sqrt(d_k))
        if not seeing:
            scores = scores.masked_fill(_future(ids), 0.0 if plain else -torch.inf)
        return scores if plain else scores.softmax(-1)

    return read


def _combined() -> dict[str, Reader]:
    """Every combination of the four mistakes, by its sentence."""
    found = {}
    for flags in product((False, True), repeat=4):
        told = zip((TURNED, UNSCALED, SEEING, PLAIN), flags, strict=True)
        parts = [text for text, there in told if there]
        if parts:
            found["; and ".join(parts) + "."] = _reading(*flags)
    return found


def _over_vocabulary(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    return _picked((table / math.sqrt(d_k)).softmax(-1), ids)


def _lost_after(weights: Tensor, ids: Tensor) -> Tensor:
    return weights.masked_fill(_future(ids), 0)


def _scaled(table: Tensor, ids: Tensor, width: float) -> Tensor:
    return (_picked(table, ids) / width).masked_fill(_future(ids), -torch.inf).softmax(-1)


def _by_column(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    scores = _picked(table, ids) / math.sqrt(d_k)
    return scores.masked_fill(_future(ids), -torch.inf).softmax(-2)


def _hiding(mask: Callable[[Tensor], Tensor]) -> Reader:
    """The weights with another mask, made from the texts; True hides."""

    def read(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
        scores = _picked(table, ids) / math.sqrt(d_k)
        return scores.masked_fill(mask(ids), -torch.inf).softmax(-1)

    return read


def _repeated(ids: Tensor) -> Tensor:
    """The future, and earlier places with the destination's own token."""
    elsewhere = ~torch.eye(ids.shape[-1], dtype=torch.bool)
    return _future(ids) | ((ids[..., :, None] == ids[..., None, :]) & elsewhere)


def _mended(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    weights = _over_vocabulary(table, ids, d_k).tril()
    return weights / weights.sum(-1, keepdim=True)


def _finite(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    return (_picked(table, ids) / math.sqrt(d_k)).masked_fill(_future(ids), -1e5).softmax(-1)


def _overflowing(table: Tensor, ids: Tensor, d_k: int) -> Tensor:
    powers = (_picked(table, ids) / math.sqrt(d_k)).exp().masked_fill(_future(ids), 0)
    return powers / powers.sum(-1, keepdim=True)


def _table_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor, int]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3)):
        D, T = rng.sample(range(5, 12), 2)
        table = 3 * torch.randn(D, D, generator=generator)
        ids = torch.randint(D, (*lead, T), generator=generator)
        cases.append((table, ids, rng.choice((2, 3, 5, 8))))
    for _ in range(2):  # all axes alike
        table = 3 * torch.randn(5, 5, generator=generator)
        cases.append((table, torch.randint(5, (5, 5), generator=generator), 5))
    table, ids, d_k = cases[0]
    cases.append((table.double(), ids, d_k))
    cases.append((table, ids[:1], d_k))  # a single token
    cases.append((torch.randn(12, 12, generator=generator), torch.tensor([7, 7, 7]), 4))
    table = torch.randn(6, 6, generator=generator)
    table[:, 2] = 4e3  # of a token that does not occur
    cases.append((table, torch.tensor([[0, 4, 1, 5], [3, 3, 0, 1]]), 3))
    # several million up or down: apart by thousands, so that no order of rounding shows
    apart = 4e3 * torch.randperm(49, generator=generator).view(7, 7)
    ids = torch.stack([torch.randperm(7, generator=generator) for _ in range(2)])
    cases += [(apart + shift, ids, 4) for shift in (-4e6, 4e6)]
    return [*cases, (20 * cases[0][0], cases[0][1], 1)]


TABLE = Task(
    name="weights_from_table",
    reference=_from_table,
    visible=(
        (torch.tensor([[0.0, 5.0], [math.log(3), 0.0]]), torch.tensor([0, 1]), 1),
        (
            torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0], [4.0, 1.0, 1.0]]).double(),
            torch.tensor([[2, 0, 1, 0], [1, 1, 2, 2]]),
            4,
        ),
        (
            torch.tensor([[1.0, 0.0, 4e3], [2.0, 1.0, -1.0], [0.0, 3.0, 0.0]]),
            torch.tensor([0, 1, 0]),
            4,
        ),
        (torch.tensor([[-4.004e6, -4.012e6], [-4.008e6, -4e6]]), torch.tensor([[0, 1], [1, 0]]), 4),
    ),
    hidden=_table_hidden,
    mistakes=_combined()
    | {
        "the softmax runs over the vocabulary, the rows of the table: a head shares its weight "
        "among the tokens of the text.": _over_vocabulary,
        "the softmax runs over the vocabulary, and the future is taken out after it: choose the "
        "scores of the text first, and mask them before the softmax.": lambda table, ids, d_k: (
            _lost_after(_over_vocabulary(table, ids, d_k), ids)
        ),
        "the mask comes after the softmax: the rows do not sum to 1 any more. Hide with −∞ before "
        "it.": lambda table, ids, d_k: _lost_after(
            (_picked(table, ids) / math.sqrt(d_k)).softmax(-1), ids
        ),
        "the columns sum to 1: a row is a destination, and shares its weight among the sources.": (
            _by_column
        ),
        "the past is hidden: a destination may look at itself and at what came before it.": (
            _hiding(lambda ids: _future(ids).T)
        ),
        "your mask hides the destination itself, and in the first row everything: a destination "
        "may look at itself, so hide what lies above the diagonal, triu(1).": _hiding(
            lambda ids: _future(ids) | torch.eye(ids.shape[-1], dtype=torch.bool)
        ),
        "your mask compares tokens: a place is hidden if it comes later, whatever stands there.": (
            _hiding(lambda ids: ids[..., None, :] > ids[..., :, None])
        ),
        "you hide earlier places that hold the destination's own token: a token may occur twice, "
        "and each of its places gets weight.": _hiding(_repeated),
        "the softmax runs over the vocabulary, and the rows are mended after it: a token that is "
        "not in the text may have taken all the weight, and 0/0 is left.": _mended,
        "you divide by d_k: the root of it is asked for.": lambda table, ids, d_k: _scaled(
            table, ids, d_k
        ),
        "you divide by the root of the vocabulary's size: the width d_k of the head is given.": (
            lambda table, ids, d_k: _scaled(table, ids, len(table) ** 0.5)
        ),
        "you divide by the root of the text's length: the width d_k of the head is given.": (
            lambda table, ids, d_k: _scaled(table, ids, ids.shape[-1] ** 0.5)
        ),
        "a score can be lower than your mask: only −∞ is lower than everything.": _finite,
        "exp of such a score is 0 or infinite, and 0/0 is NaN: take the softmax of the scores, or "
        "subtract the largest score of a row first.": _overflowing,
    },
)


# --- k_composition --------------------------------------------------------------------------------


def _k_composition(W_V: Tensor, W_O: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """Pair by pair, by traces: ‖M‖² = tr(M Mᵀ); double precision."""
    out = torch.zeros(len(W_V), len(W_Q), dtype=torch.float64)
    for i, (V, W) in enumerate(zip(W_V.double(), W_O.double(), strict=True)):
        for j, (Q, K) in enumerate(zip(W_Q.double(), W_K.double(), strict=True)):
            writes, reads = V @ W, K @ Q.T
            both = writes @ reads
            size = [torch.trace(M @ M.T) for M in (both, writes, reads)]
            out[i, j] = (size[0] / (size[1] * size[2])).sqrt()
    return out.to(W_V.dtype)


Heads = tuple[Tensor, Tensor, Tensor, Tensor]
Norm = Callable[[Tensor], Tensor]


def _norm(M: Tensor) -> Tensor:
    return M.square().sum((-2, -1)).sqrt()


def _composed(
    reads: Callable[[Tensor, Tensor], Tensor] = lambda Q, K: K @ Q.mT,
    writes: Callable[[Tensor, Tensor], Tensor] = lambda V, W: V @ W,
    norm: Norm = _norm,
    divided: Callable[[Tensor, Tensor], Tensor] = lambda one, other: one * other,
    turned: bool = False,
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The composition with one part replaced."""

    def score(W_V: Tensor, W_O: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
        first, second = writes(W_V, W_O)[:, None], reads(W_Q, W_K)[None]
        both = second @ first if turned else first @ second
        return norm(both) / divided(norm(first), norm(second))

    return score


def _heads_of(generator: Generator, d: int, d_v: int, d_k: int, H_1: int, H_2: int) -> Heads:
    W_V, W_O = torch.randn(2, H_1, d, d_v, generator=generator)
    W_Q, W_K = torch.randn(2, H_2, d, d_k, generator=generator)
    return W_V, W_O.mT.contiguous(), W_Q, W_K


def _k_hidden(rng: random.Random, generator: Generator) -> Sequence[Heads]:
    n = rng.randint(3, 5)
    sizes = [rng.sample(range(2, 9), 5) for _ in range(4)]
    cases = [_heads_of(generator, *one) for one in sizes]
    cases += [_heads_of(generator, n, n, n, n, n) for _ in range(2)]
    cases += [_heads_of(generator, 6, 2, 3, 1, 4), _heads_of(generator, 6, 2, 3, 4, 1)]
    W_V, W_O, W_Q, W_K = cases[rng.randint(0, 3)]
    cases.append((W_V.double(), W_O.double(), W_Q.double(), W_K.double()))
    # the sizes of real matrices: a norm that is no norm shows, and a constant factor does not
    cases.append((W_V / 50, W_O * 20, W_Q / 50, W_K))
    # one head writes only what the keys of the other read, and one nothing of it
    e = torch.eye(4)
    W_V, W_O = e[None, :, :1].expand(2, 4, 1).clone(), e[[0, 3]][:, None]
    return [*cases, (W_V, W_O, e[None, :, 1:2].clone(), e[None, :, :1].clone())]


def _of_factors(W_V: Tensor, W_O: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    both = (W_V @ W_O)[:, None] @ (W_K @ W_Q.mT)
    return _norm(both) / ((_norm(W_V) * _norm(W_O))[:, None] * _norm(W_Q) * _norm(W_K))


def _of_all_heads(W_V: Tensor, W_O: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    writes, reads = W_V @ W_O, W_K @ W_Q.mT
    return _norm(writes[:, None] @ reads) / (writes.square().sum() * reads.square().sum()).sqrt()


def _spectral(M: Tensor) -> Tensor:
    largest: Tensor = torch.linalg.matrix_norm(M, 2)
    return largest


K_COMPOSITION = Task(
    name="k_composition",
    reference=_k_composition,
    visible=(
        (
            torch.tensor([[[1.0], [0.0]]]),
            torch.tensor([[[3.0, 4.0]]]),
            torch.tensor([[[0.0], [2.0]]]),
            torch.tensor([[[1.0], [0.0]]]),
        ),
        (
            torch.tensor(
                [
                    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
                    [[2.0, 1.0], [0.0, -1.0], [1.0, 0.0]],
                    [[0.0, 1.0], [1.0, 0.0], [-1.0, 2.0]],
                ]
            ),
            torch.tensor(
                [
                    [[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]],
                    [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]],
                    [[3.0, 0.0, 0.0], [1.0, -2.0, 0.0]],
                ]
            ),
            torch.tensor([[[1.0], [2.0], [0.0]], [[0.0], [1.0], [-1.0]]]),
            torch.tensor([[[0.0], [1.0], [1.0]], [[3.0], [0.0], [1.0]]]),
        ),
        (
            torch.tensor([[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [1.0, 1.0]]]).double(),
            torch.tensor([[[0.5, 2.0], [1.0, 0.0]], [[1.0, 1.0], [4.0, 0.0]]]).double(),
            torch.tensor([[[1.0, 0.0], [2.0, 1.0]], [[0.0, 3.0], [1.0, 1.0]]]).double(),
            torch.tensor([[[2.0, 1.0], [0.0, 1.0]], [[1.0, 1.0], [-1.0, 0.0]]]).double(),
        ),
    ),
    hidden=_k_hidden,
    mistakes={
        "this is Q-composition: what the first head wrote must meet W_K, the keys of the second.": (
            _composed(reads=lambda Q, K: Q @ K.mT)
        ),
        "the product is the wrong way round: this is ‖W_QKᵀ W_VO‖, or ‖W_VOᵀ W_QK‖, which is the "
        "same; ‖W_VO W_QKᵀ‖ is asked for.": _composed(turned=True),
        "this is ‖W_QK W_VO‖, or ‖W_VOᵀ W_QKᵀ‖, which is the same: in ‖W_VO W_QKᵀ‖ W_VO comes "
        "first, and W_QK alone is turned.": _composed(reads=lambda Q, K: Q @ K.mT, turned=True),
        "rows and columns of your table have changed places: a row is a head of the first layer.": (
            lambda W_V, W_O, W_Q, W_K: _k_composition(W_V, W_O, W_Q, W_K).T
        ),
        "the roots are missing: the norm is the root of the sum of squares.": _composed(
            norm=lambda M: M.square().sum((-2, -1))
        ),
        "you do not divide by the norms: large matrices would seem to compose.": _composed(
            divided=lambda one, other: torch.ones(1)
        ),
        "you divide by the norm of what is written alone: both norms stand below the line.": (
            _composed(divided=lambda one, other: one)
        ),
        "you divide by the norm of what is read alone: both norms stand below the line.": (
            _composed(divided=lambda one, other: other)
        ),
        "you divide by the norms of W_V, W_O, W_Q and W_K: those of the two products W_VO and W_QK "
        "stand below the line.": _of_factors,
        "below the line you have one norm for all heads: each head has its own.": _of_all_heads,
        "you divide by the sum of the norms: their product stands below the line.": (
            _composed(divided=lambda one, other: one + other)
        ),
        "this is the largest singular value: the norm is the root of the sum of squares.": (
            _composed(norm=_spectral)
        ),
        "this norm adds absolute values: the norm is the root of the sum of squares.": _composed(
            norm=lambda M: M.abs().sum((-2, -1))
        ),
        "the queries do not occur: W_QK is W_Q W_Kᵀ.": _composed(reads=lambda Q, K: K),
        "W_V does not occur: what a head writes comes through W_V W_O.": _composed(
            writes=lambda V, W: W
        ),
        "one number for all pairs: each has its own.": lambda W_V, W_O, W_Q, W_K: _k_composition(
            W_V, W_O, W_Q, W_K
        ).mean(),
    },
    tolerance=1e-3,
)


# --- induction_score ------------------------------------------------------------------------------


def _induction(A: Tensor, period: int) -> Tensor:
    """Destination by destination: the weight on what followed the token one period ago."""
    weights = [A[..., t, t - period + 1] for t in range(period, A.shape[-1])]
    return torch.stack(weights, -1).mean(-1)


def _along(A: Tensor, offset: int, start: int) -> Tensor:
    t = torch.arange(max(start, offset), A.shape[-1])
    return A[..., t, t - offset]


def _from_the_middle(A: Tensor, period: int) -> Tensor:
    t = torch.arange(A.shape[-1] // 2, A.shape[-1])
    return A[..., t, t - period + 1].mean(-1)


def _all_occurrences(A: Tensor, period: int) -> Tensor:
    found = [A[..., t, t % period + 1 : t + 1 : period] for t in range(period, A.shape[-1])]
    return torch.stack([weights.sum(-1) for weights in found], -1).mean(-1)


def _induction_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, int]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3), (2, 1, 2)):
        period = rng.randint(3, 6)
        T = 2 * period + rng.randint(1, 2 * period)
        cases.append((_maps(generator, lead, T), period))
    n = rng.randint(4, 6)  # all axes alike, twice
    cases += [(_maps(generator, (n, n), n), 2) for _ in range(2)]
    map_, period = cases[0]
    cases += [(map_.double(), period), (map_, 1), (map_, 2), (_maps(generator, (2,), 6), 5)]
    return [*cases, (_maps(generator, (2,), 10), 5)]


def _maps(generator: Generator, lead: tuple[int, ...], T: int) -> Tensor:
    scores = 2 * torch.randn(*lead, T, T, generator=generator)
    return scores.masked_fill(torch.ones(T, T).triu(1) > 0, -torch.inf).softmax(-1)


INDUCTION = Task(
    name="induction_score",
    reference=_induction,
    visible=(
        (
            torch.tensor(
                [
                    [1.0, 0.0, 0.0, 0.0],
                    [0.7, 0.3, 0.0, 0.0],
                    [0.2, 0.4, 0.4, 0.0],
                    [0.05, 0.1, 0.8, 0.05],
                ]
            ),
            2,
        ),
        (_maps(Generator().manual_seed(1), (2,), 7).mul(64).round().div(64), 3),
        (_maps(Generator().manual_seed(2), (), 5).mul(64).round().div(64).double(), 1),
    ),
    hidden=_induction_hidden,
    mistakes={
        "you read one source too early, the same token one period ago: what *followed* it stands "
        "one place nearer.": lambda A, period: _along(A, period, 0).mean(-1),
        "you read two sources too far: what followed the token stands period − 1 back.": (
            lambda A, period: _along(A, period + 1, 0).mean(-1)
        ),
        "you read one source too near: what followed the token stands period − 1 back.": (
            lambda A, period: _along(A, period - 2, period).mean(-1)
        ),
        "your mean begins one destination too early: the first one whose token was there before "
        "stands at period.": lambda A, period: _along(A, period - 1, 0).mean(-1),
        "your mean begins one destination too late: the one at period counts already.": (
            lambda A, period: _along(A, period - 1, period + 1).mean(-1)
        ),
        "your mean begins in the middle of the text: the first destination that counts stands at "
        "period.": _from_the_middle,
        "you add what followed every earlier occurrence: the one a period ago counts alone.": (
            _all_occurrences
        ),
        "you add the weights up: their mean is asked for.": (
            lambda A, period: _along(A, period - 1, period).sum(-1)
        ),
        "you divide by all destinations: only those count whose token was there before.": (
            lambda A, period: _along(A, period - 1, period).sum(-1) / A.shape[-1]
        ),
        "rows and columns have changed places: a row is a destination, and looks back.": (
            lambda A, period: _along(A.mT, period - 1, period).mean(-1)
        ),
        "this is the largest weight: the mean is asked for.": (
            lambda A, period: _along(A, period - 1, period).amax(-1)
        ),
        "this is the previous-token score: the source right before the destination.": (
            lambda A, period: _along(A, 1, period).mean(-1)
        ),
        "only the first repetition counts in your mean: every destination from period on does.": (
            lambda A, period: _along(A, period - 1, period)[..., :period].mean(-1)
        ),
        "one number for all maps: each has its own.": (
            lambda A, period: _along(A, period - 1, period).mean()
        ),
        "the share of destinations that look there most is another score: the mean weight is "
        "asked for.": lambda A, period: _most(A, period),
    },
)


def _most(A: Tensor, period: int) -> Tensor:
    t = torch.arange(period, A.shape[-1])
    return (A[..., t, :].argmax(-1) == t - period + 1).to(A.dtype).mean(-1)


TASKS = (PATHS, COPYING, TABLE, K_COMPOSITION, INDUCTION)
