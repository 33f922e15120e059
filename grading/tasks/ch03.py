"""Tasks of chapter 03: Bahdanau's score, padding, reading an alignment, how sharp it is."""

import math
import random
from typing import Any

import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


# --- additive_scores: the score that is Bahdanau's ------------------------------------------------


def _additive_scores(s: Tensor, h: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    """One text, one source token, one hidden unit at a time."""
    answer = torch.zeros(h.shape[:2], dtype=torch.float64)
    for b in range(h.shape[0]):
        for j in range(h.shape[1]):
            for unit in range(len(v)):
                inside = float(s[b] @ W[:, unit]) + float(h[b, j] @ U[:, unit])
                answer[b, j] += float(v[unit]) * math.tanh(inside)
    return answer.to(h.dtype)


def _drawn_states(
    rng: random.Random, generator: Generator, S: int, B: int, d_s: int, d_h: int, d_a: int
) -> tuple[Tensor, ...]:
    shapes = ((B, d_s), (B, S, d_h), (d_s, d_a), (d_h, d_a), (d_a,))
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def _opposed(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    """Two parts of several hundred that nearly cancel, where tanh is not flat."""
    one = torch.ones(1, 1)
    return [(300 * one, _table([[[-299.5], [-300.25]]]), one, one, one[0])]


ADDITIVE = Task(
    name="additive_scores",
    reference=_additive_scores,
    visible=(
        (
            _table([[1, 0]]),
            _table([[[1, 0, 0], [0, 2, 0]]]),
            _table([[0.5, 0], [9, 9]]),
            _table([[0.5, 0], [0, 1], [9, 9]]),
            _table([1, 10]),
        ),
        (_tenths(1, 2, 5), _tenths(2, 2, 4, 3), _tenths(3, 5, 6), _tenths(4, 3, 6), _tenths(5, 6)),
        (_tenths(6, 3, 2), _tenths(7, 3, 3, 4), _tenths(8, 2, 5), _tenths(9, 4, 5), _tenths(10, 5)),
    ),
    hidden=varied(
        _drawn_states,
        {"S": 1, "B": 1, "d_s": 1, "d_h": 1, "d_a": 1},
        scaled=((0, 300),),
        also=_opposed,
    ),
)


# --- two_readings: a softmax without its root, set equal to a fraction with it --------------------


def _two_readings(d: int, n: int) -> tuple[Tensor, Tensor]:
    keys = torch.zeros(n, d)
    keys[0, 0] = math.log(n)
    return torch.eye(d)[0], keys


def _not_a_counterexample(args: tuple[Any, ...], answer: Any) -> str | None:
    """Why a query and its keys do not tell the two sides of the notes' formula apart."""
    d, n = args
    pair = isinstance(answer, tuple | list) and len(answer) == 2
    if not pair or not all(isinstance(part, Tensor) for part in answer):
        return "return two tensors, the query and the keys"
    if tuple(answer[0].shape) != (d,) or tuple(answer[1].shape) != (n, d):
        shapes = " and ".join(str(tuple(part.shape)) for part in answer)
        return f"the shapes are {shapes}, expected ({d},) and ({n}, {d})"
    scores = answer[1].double() @ answer[0].double()
    if not scores.isfinite().all():
        return "a score is not finite"
    left, right = scores.softmax(0), (scores / d**0.5).softmax(0)
    gap = float((left - right).abs().max())
    if gap > 0.1:
        return None
    if float(scores.max() - scores.min()) < 1e-6:
        return "all scores are equal, so both sides are uniform: some key must match better"
    if float(right.max()) > 0.9:
        return "the scores are so far apart that both sides give all to one key: make them smaller"
    return f"the two sides differ by {gap:.3f} at most; more than 0.1 is asked"


READINGS = Task(
    name="two_readings",
    reference=_two_readings,
    visible=((4, 3), (9, 5), (5, 9), (64, 4), (4, 400)),
    hidden=lambda rng, generator: [
        (4, rng.randint(3, 4)),
        *((rng.randint(5, 70), rng.randint(3, 9)) for _ in range(4)),
        (rng.randint(200, 400), 3),  # a wide query
        (rng.randint(4, 6), rng.randint(10, 12)),
        *((4, rng.randint(2**k, 2 ** (k + 1))) for k in range(5, 9)),
        (4, rng.randint(900, 1000)),  # many keys
    ],
    accepts=_not_a_counterexample,
)


# --- source_weights: padding ----------------------------------------------------------------------


def _source_weights(scores: Tensor, real: Tensor) -> Tensor:
    """Row by row, over the real tokens only; in double precision."""
    answer = torch.zeros(scores.shape, dtype=torch.float64)
    for b in range(scores.shape[0]):
        places = [j for j in range(scores.shape[1]) if bool(real[b, j])]
        best = max((float(scores[b, j]) for j in places), default=0.0)
        parts = [math.exp(float(scores[b, j]) - best) for j in places]
        for j, part in zip(places, parts, strict=True):
            answer[b, j] = part / sum(parts)
    return answer.to(scores.dtype)


def _drawn_padded(
    rng: random.Random, generator: Generator, S: int, B: int
) -> tuple[Tensor, Tensor]:
    return 2 * torch.randn(B, S, generator=generator), torch.rand(B, S, generator=generator) < 0.6


def _loud(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Padding above all words, words below every finite mask; a single text, of padding only."""
    scores, real = _drawn_padded(rng, generator, 4, 3)
    scores += 5000  # one number below the least of them, or twice the least, is not low enough
    scores[:, -1], real[:, -1], real[:, 0] = rng.randint(5150, 5300), False, True
    low = torch.tensor([[-1, -1, 0, 0]]) * torch.finfo(torch.float32).max
    none = torch.zeros(1, 4) > 0
    return [(scores, real), (scores - 1e4, real), (low, low < 0), (scores[:1], none)]


L2, L3 = math.log(2), math.log(3)

PADDING = Task(
    name="source_weights",
    reference=_source_weights,
    visible=(
        (_table([[0, L3, 5], [L2, 0, L2]]), torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()),
        (
            _table([[1, 2, 3, 4], [2, -1, 0, 300], [300, 299, 0, 5]]),
            torch.tensor([[0] * 4, [1, 1, 0, 0], [1, 1, 1, 0]]).bool(),
        ),
        (_tenths(11, 3, 5) + 2000, torch.tensor([[1] * 5, [0, 0, 0, 1, 0], [1, 1, 1, 0, 0]]) > 0),
        (_table([[-300, -301, 5], [-1e12, -1e12, 0]]), torch.tensor([[1, 1, 0], [1, 1, 0]]).bool()),
    ),
    hidden=varied(_drawn_padded, {"S": 1, "B": 1}, scaled=((0, 300),), also=_loud),
)


# --- read_map: rows belong to the token produced --------------------------------------------------


def _read_map(weights: Tensor, fed: list[str], sources: list[str]) -> list[tuple[str, str]]:
    """By plain lists."""
    answer = []
    for i, row in enumerate(weights.tolist()):
        produced = fed[i + 1] if i + 1 < len(fed) else "</s>"
        answer.append((produced, sources[row.index(max(row))]))
    return answer


def _drawn_map(
    rng: random.Random, generator: Generator, T: int, S: int
) -> tuple[Tensor, list[str], list[str]]:
    words = ["one", "two", "three", "twenty", "thirty", "hundred", "thousand", "million"]
    ours = ["ein", "zwei", "drei", "und", "zwanzig", "dreißig", "hundert", "tausend", "Millionen"]
    weights = (2 * torch.randn(T, S, generator=generator)).softmax(-1)
    return weights, ["<s>", *rng.choices(ours, k=T - 1)], [*rng.choices(words, k=S - 1), "</s>"]


def _twice(rng: random.Random, generator: Generator) -> list[tuple[Tensor, list[str], list[str]]]:
    """A source word that stands twice, with less than another in each place; nearly a tie; long."""
    rows = torch.tensor([[[0.3, 0.348, 0.352]], [[0.1, 0.45, 0.45 + 1e-9]]], dtype=torch.float64)
    twice = [(row, ["<s>"], ["one", "one", "two"]) for row in rows]
    return [*twice, _drawn_map(rng, generator, 6, 12)]


READ = Task(
    name="read_map",
    reference=_read_map,
    visible=(
        (
            _table([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.0, 0.1, 0.9]]),
            ["<s>", "ein", "und", "zwanzig"],
            ["twenty", "one", "</s>"],
        ),
        (
            torch.tensor(
                [[0.6, 0.2, 0.1, 0.1], [0.45, 0.1, 0.45 + 1e-9, 0.0], [0.2, 0.2, 0.2, 0.4]],
                dtype=torch.float64,  # in single it would be a tie
            ),
            ["<s>", "drei", "hundert"],
            ["three", "and", "hundred", "</s>"],
        ),
        (
            _table(
                [
                    [0.7, 0.1, 0.1, 0.1, 0.0],
                    [0.2, 0.6, 0.1, 0.1, 0.0],
                    [0.1, 0.1, 0.2, 0.6, 0.0],
                    [0.0, 0.1, 0.1, 0.0, 0.8],
                ]
            ),
            ["<s>", "ein", "hundert", "ein"],
            ["a", "hundred", "and", "one", "</s>"],
        ),
    ),
    # in half two weights may be rounded to a tie
    hidden=varied(_drawn_map, {"T": 1, "S": 1}, dtypes=(torch.float64,), also=_twice),
)


# --- words_looked_at: how sharp a row is ----------------------------------------------------------


def _words_looked_at(weights: Tensor) -> Tensor:
    """By SciPy's entropy."""
    from scipy.special import entr

    nats = torch.as_tensor(entr(weights.double().numpy()).sum(-1), dtype=torch.float64)
    return nats.exp().to(weights.dtype)


def _drawn_rows(
    rng: random.Random, generator: Generator, S: int, lead: tuple[int, ...]
) -> tuple[Tensor]:
    scores = rng.choice([1, 3]) * torch.randn(*lead, S, generator=generator)
    hidden = torch.rand(*lead, S, generator=generator) < 0.3
    hidden[..., 0] = False
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1),)


def _unlike(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    """One word each; small weights and very small ones, which some take for 0."""
    small = torch.tensor([0.0] + [0.004] * rng.randint(3, 4) + [0.0004] * rng.randint(8, 12))
    small[0] = 1 - small.sum()
    order = torch.randperm(len(small), generator=generator)
    faint = torch.tensor([1 - 9e-7, 9e-7], dtype=torch.float64)
    return [(torch.eye(3)[[0, 2], :].expand(2, 2, 3).clone(),), (small[order],), (faint,)]


SHARP = Task(
    name="words_looked_at",
    reference=_words_looked_at,
    visible=(
        (_table([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0], [0, 0, 1, 0]]),),
        (torch.tensor([[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]] * 2).double(),),
        (_table([0.7, 0.1, 0.1, 0.1]),),
        (_table([0.975, *[0.005] * 4, *[0.0005] * 10]),),  # many small ones
    ),
    hidden=varied(_drawn_rows, {"S": 1}, lead=True, also=_unlike),
)

TASKS: tuple[Task, ...] = (ADDITIVE, READINGS, PADDING, READ, SHARP)
