"""Tasks of chapter 03: Bahdanau's score, padding, reading an alignment, how sharp it is."""

import math
from typing import Any

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- additive_scores: the score that is Bahdanau's ------------------------------------------------


def _additive_scores(draw: Draw) -> Args:
    B, S, d_s, d_h, d_a = (draw.size() for _ in range(5))
    shapes = ((B, d_s), (B, S, d_h), (d_s, d_a), (d_h, d_a), (d_a,))
    return tuple(0.7 * draw.normal(*shape) for shape in shapes)


ADDITIVE = Task(
    "additive_scores",
    _additive_scores,
    visible=(
        (
            table([[1, 0]]),
            table([[[1, 0, 0], [0, 2, 0]]]),
            table([[0.5, 0], [9, 9]]),
            table([[0.5, 0], [0, 1], [9, 9]]),
            table([1, 10]),
        ),
        (tenths(1, 2, 5), tenths(2, 2, 4, 3), tenths(3, 5, 6), tenths(4, 3, 6), tenths(5, 6)),
        # as many texts as source tokens
        (tenths(6, 3, 2), tenths(7, 3, 3, 4), tenths(8, 2, 5), tenths(9, 4, 5), tenths(10, 5)),
    ),
)


# --- two_readings: a softmax without its root, set equal to a fraction with it --------------------


def _two_readings(draw: Draw) -> Args:
    return draw.size(4), draw.size(3)


def _many(draw: Draw) -> list[Args]:
    """A wide query, and hundreds of keys."""
    return [(draw.integer(50, 400), 3), (4, draw.integer(200, 900))]


def _not_a_counterexample(args: Args, answer: Any) -> str | None:
    """Why a query and its keys do not tell the two sides of the notes' formula apart."""
    d, n = args
    query, keys = answer
    if tuple(query.shape) != (d,) or tuple(keys.shape) != (n, d):
        shapes = f"{tuple(query.shape)} and {tuple(keys.shape)}"
        return f"the shapes are {shapes}, expected ({d},) and ({n}, {d})"
    scores = keys.double() @ query.double()
    if not scores.isfinite().all():
        return "a score is not finite"
    gap = (scores.softmax(0) - (scores / d**0.5).softmax(0)).abs().max().item()
    return None if gap > 0.1 else f"the two sides differ by {gap:.3f} at most, not by 0.1"


READINGS = Task(
    "two_readings",
    _two_readings,
    also=_many,
    visible=((4, 3), (9, 5), (5, 9), (64, 4), (4, 400)),
    accepts=_not_a_counterexample,
)


# --- source_weights: padding ----------------------------------------------------------------------


def _source_weights(draw: Draw) -> Args:
    B, S = draw.size(), draw.size()
    return 2 * draw.normal(B, S), draw.uniform(B, S) < 0.6


def _padded(draw: Draw) -> list[Args]:
    """Padding that has the largest score of its row, and a text without a word."""
    scores, real = draw.normal(3, 5), draw.uniform(3, 5) < 0.5
    real[:, 0], real[:, -1] = True, False
    scores[:, -1] += 4
    return [(scores, real), (draw.normal(3, 5), torch.zeros(3, 5) > 0)]


L2, L3 = math.log(2), math.log(3)

PADDING = Task(
    "source_weights",
    _source_weights,
    also=_padded,
    visible=(
        (table([[0, L3, 5], [L2, 0, L2]]), table([[1, 1, 0], [1, 1, 1]]) > 0),
        (
            table([[1, 2, 3, 4], [2, -1, 0, 9], [3, 2, 0, 5]]),
            table([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]) > 0,
        ),
        (tenths(11, 3, 5), table([[1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [1, 1, 1, 0, 0]]) > 0),
    ),
)


# --- read_map: rows belong to the token produced --------------------------------------------------

ENGLISH = ("one", "two", "three", "twenty", "thirty", "hundred", "thousand", "million")
GERMAN = ("ein", "zwei", "drei", "und", "zwanzig", "dreißig", "hundert", "tausend", "Millionen")


def _read_map(draw: Draw) -> Args:
    T, S = draw.size(), draw.size()
    few = draw.sample(GERMAN, 3)  # so that words are produced twice
    fed, sources = ["<s>", *draw.choices(few, T - 1)], [*draw.choices(ENGLISH, S - 1), "</s>"]
    return draw.rows(T, S, spread=2), fed, sources


READ = Task(
    "read_map",
    _read_map,
    visible=(
        (
            table([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.0, 0.1, 0.9]]),
            ["<s>", "ein", "und", "zwanzig"],
            ["twenty", "one", "</s>"],
        ),
        (
            table([[0.6, 0.2, 0.1, 0.1], [0.4, 0.1, 0.5, 0.0], [0.2, 0.2, 0.2, 0.4]]),
            ["<s>", "drei", "hundert"],
            ["three", "and", "hundred", "</s>"],
        ),
        # a word that is produced twice
        (
            table(
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
)


# --- words_looked_at: how sharp a row is ----------------------------------------------------------


def _words_looked_at(draw: Draw) -> Args:
    shape = (*draw.lead, draw.size())
    scores = draw.choice((1, 3)) * draw.normal(*shape)
    unseen = draw.uniform(*shape) < 0.3
    unseen[..., 0] = False
    weights: Tensor = scores.masked_fill(unseen, -torch.inf).softmax(-1)
    return (weights,)


SHARP = Task(
    "words_looked_at",
    _words_looked_at,
    visible=(
        (table([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0], [0, 0, 1, 0]]),),
        (table([[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], [[0.2, 0.2, 0.6], [0, 0.9, 0.1]]]),),
        (table([0.7, 0.1, 0.1, 0.1]),),
    ),
)

TASKS: tuple[Task, ...] = (ADDITIVE, READINGS, PADDING, READ, SHARP)
