"""Tasks of chapter 11: what a probe must beat, its control, its code, and taking away."""

import math

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table
from grading.tasks.task import Args, Task

# --- table_of_words: what a probe must beat -------------------------------------------------------


def _cased(draw: Draw, word: str) -> str:
    return draw.choice((word, word, word.capitalize(), word.upper()))


def _table_of_words(draw: Draw) -> Args:
    """A text whose words have several tags, and new words, of which some were never met."""
    types = draw.sample(("film", "like", "the", "that", "good", "well", "love"), 3)
    count = 4 * draw.size()
    words = [_cased(draw, draw.choice(types)) for _ in range(count)]
    tags = draw.choices(("NOUN", "VERB", "DET", "ADJ"), count)
    new = [_cased(draw, draw.choice((*types, "plot"))) for _ in range(4 * draw.size())]
    return words, tags, new


def _ties(draw: Draw) -> list[Args]:
    """Tags that are equally common, with a word and in all; and a word that is half of the text."""
    second, first, third = sorted(draw.sample("ABCDEFGH", 3))
    words = ["well", "so", "So", "so", "SO", "so", "good", "that"]
    tags = [second, first, second, first, second, third, third, first]
    most = ["the"] * 5 + ["film", "plot", "joy", "end"]
    return [
        (words, tags, ["so", "new", "Well"]),
        (most, [first] * 5 + [second] * 4, ["end", "of", "THE"]),
    ]


TABLE = Task(
    "table_of_words",
    _table_of_words,
    also=_ties,
    visible=(
        (["I", "like", "films", "like", "these", "Like"], list("PVNNDA"), ["like", "I", "plot"]),
        (
            ["The", "the", "a", "film", "The", "joy", "end", "plot"],
            ["DET", "DET", "DET", "NOUN", "DET", "NOUN", "NOUN", "NOUN"],
            ["THE", "film", "cast", "Joy", "cast"],
        ),
        (
            ["love", "so", "like", "SO", "Like", "so", "like", "so", "like", "so", "like"],
            ["VERB", "CONJ", "ADP", "ADV", "VERB", "CONJ", "ADP", "ADV", "VERB", "NOUN", "NOUN"],
            ["so", "like", "LOVE", "unmet"],
        ),
    ),
)


# --- control_labels: labels that mean nothing -----------------------------------------------------


def _labels(draw: Draw, words: int, types: int) -> tuple[Tensor, Tensor]:
    """The types of some words, and their tags, of which some are rarer and some do not occur."""
    tags = torch.minimum(draw.integers(0, 6, words), draw.integers(0, 6, words))
    return draw.integers(0, types, words), tags + draw.integer(0, 2)


def _control_labels(draw: Draw) -> Args:
    types = draw.size()
    return *_labels(draw, 3 * draw.size(), types), draw.uniform(types)


def _equal(draw: Draw) -> list[Args]:
    """Numbers that are equal to a share."""
    return [(*_labels(draw, 8, 9), draw.integers(0, 8, 9) / 8)]


CONTROL = Task(
    "control_labels",
    _control_labels,
    also=_equal,
    visible=(
        (torch.tensor([0, 1, 0, 2]), torch.tensor([0, 1, 0, 2]), table([0.6, 0.1, 0.9])),
        (
            torch.tensor([3, 1, 3, 0, 1, 3, 5, 1]),
            torch.tensor([2, 4, 2, 1, 4, 4, 1, 4]),
            table([0, 0.25, 0.9, 0.5, 0.3, 0.45, 0.8, 0.7]),
        ),
        (
            torch.tensor([1, 1, 4, 2, 1, 4, 0, 2, 1, 3]),
            torch.tensor([0, 3, 0, 1, 0, 1, 3, 3, 0, 0]),
            table([0.45, 0.95, 0.15, 0.55, 0.65]),
        ),
    ),
)


# --- selectivity: the accuracy less that on the control -------------------------------------------


def _selectivity(draw: Draw) -> Args:
    """Probes know the words of their training; type 30 does not occur there."""
    N, M, P = draw.size(least=6), draw.size(), draw.size()
    types = draw.integers(1, 4, 3 * N) * 10
    train = (draw.uniform(3 * N) < 0.4) & (types < 30)
    types[:3], train[:3] = torch.tensor([10, 10, 30]), torch.tensor([True, False, False])
    right = (draw.uniform(3 * N, P) < draw.uniform(P, low=0.3, high=0.9)) | train[:, None]
    control = (draw.uniform(M, 3 * N, P) < draw.uniform(P)) | train[:, None]
    return right, control & (types < 30)[:, None], types, train


SELECTIVITY = Task(
    "selectivity",
    _selectivity,
    visible=(
        (
            torch.tensor([[True], [True], [True], [False], [True]]),
            torch.tensor([[[True], [True], [False], [False], [False]]]),
            torch.tensor([4, 4, 4, 4, 9]),
            torch.tensor([True, False, False, False, False]),
        ),
        _selectivity(Draw(1)),
        _selectivity(Draw(2)),
    ),
)


# --- code_length: eight random labels for nothing -------------------------------------------------


def _code_length(draw: Draw) -> Args:
    """Probes that know the labels of their training well; one kind of label does not occur."""
    K, B = draw.size(least=3), draw.size(least=2)
    N = 2 * B + draw.size()
    ends = [*sorted(draw.sample(range(1, N), B - 1)), N]
    labels = draw.integers(0, K - 1, N)
    logits = 2 * draw.normal(B - 1, N, K) + draw.normal(B - 1, N, 1)
    for probe, end in zip(logits, ends, strict=False):
        probe[torch.arange(end), labels[:end]] += 4
    return logits, labels, ends


CODE = Task(
    "code_length",
    _code_length,
    visible=(
        (table([[[9, 0], [0, 0], [math.log(3), 0]]]), torch.tensor([0, 1, 1]), [1, 3]),
        _code_length(Draw(9)),
        _code_length(Draw(17)),
    ),
)


# --- without_directions: take away what the probe reads -------------------------------------------


def _without_directions(draw: Draw) -> Args:
    """Directions of several lengths that are neither orthogonal nor nearly parallel."""
    d = draw.size(least=2)
    k = min(draw.size(), d)
    orthogonal = torch.linalg.qr(draw.normal(d, d)).Q[:k]
    V = (torch.eye(k) + 0.7 * torch.ones(k, k).tril(-1)) @ orthogonal
    V *= draw.uniform(k, 1, low=0.4, high=3)
    return draw.normal(*draw.lead, d) + 1, V, draw.normal(d)


WITHOUT = Task(
    "without_directions",
    _without_directions,
    visible=(
        (table([[3, 1], [1, 3]]), table([[2, 0]]), table([2, 5])),
        (table([[4, 1, 2], [0, 2, 7]]), table([[1, 0, 0], [1, 1, 0]]), table([1, 1, 1])),
        _without_directions(Draw(1, lead=(2, 3))),
    ),
)

TASKS: tuple[Task, ...] = (TABLE, CONTROL, SELECTIVITY, CODE, WITHOUT)
