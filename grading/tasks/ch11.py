"""Tasks of chapter 11: what a probe must beat, its control, its code, and removing directions."""

import math
from collections import Counter

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table
from grading.tasks.task import Args, Task

# --- table_of_words: what a probe must beat -------------------------------------------------------


def _cased(draw: Draw, word: str) -> str:
    return draw.choice((word, word, word.capitalize(), word.upper()))


def _table_of_words(draw: Draw) -> Args:
    """A text whose words have several tags, one of them the commonest, and new words."""
    types = draw.sample(("film", "like", "the", "that", "good", "well", "love"), 3)
    count = 4 * draw.size()
    new = [_cased(draw, draw.choice((*types, "plot"))) for _ in range(4 * draw.size())]
    while True:
        words = [_cased(draw, draw.choice(types)) for _ in range(count)]
        tags = draw.choices(("NOUN", "VERB", "DET", "ADJ"), count)
        if _without_ties(words, tags):
            return words, tags, new


def _without_ties(words: list[str], tags: list[str]) -> bool:
    """Whether one tag is commoner than the others, for each word and in the whole text."""
    counts = {word.lower(): Counter[str]() for word in words} | {"": Counter(tags)}
    for word, tag in zip(words, tags, strict=True):
        counts[word.lower()][tag] += 1
    common = [[times for _, times in count.most_common(2)] for count in counts.values()]
    return all(times[0] != times[-1] or len(times) == 1 for times in common)


def _one_word(draw: Draw) -> list[Args]:
    """A word that is half of the text: words, not types, count for the default."""
    first, second = draw.sample("ABCDEFGH", 2)
    words = ["the"] * 5 + ["film", "plot", "joy", "end"]
    return [(words, [first] * 5 + [second] * 4, ["end", "of", "THE"])]


TABLE = Task(
    "table_of_words",
    _table_of_words,
    also=_one_word,
    visible=(
        (
            ["I", "like", "films", "like", "these", "films", "Like", "films"],
            list("PANVDNVN"),
            ["like", "I", "plot"],
        ),
        (
            ["The", "the", "the", "film", "the", "joy", "end", "plot", "The"],
            ["DET", "DET", "DET", "NOUN", "DET", "NOUN", "NOUN", "NOUN", "DET"],
            ["THE", "film", "cast", "Joy", "cast"],
        ),
        (
            ["love", "so", "like", "SO", "Like", "so", "like"],
            ["VERB", "ADV", "ADP", "ADV", "VERB", "CONJ", "VERB"],
            ["so", "like", "LOVE", "plot"],
        ),
    ),
)


# --- control_labels: random labels ----------------------------------------------------------------


def _labels(draw: Draw, words: int, types: int) -> tuple[Tensor, Tensor]:
    """The types of some words, and their tags, of which some are rarer and some do not occur."""
    tags = torch.minimum(draw.integers(0, 6, words), draw.integers(0, 6, words))
    return draw.integers(0, types, words), tags + draw.integer(0, 2)


def _control_labels(draw: Draw) -> Args:
    types = draw.size()
    return *_labels(draw, 3 * draw.size(), types), draw.uniform(types)


CONTROL = Task(
    "control_labels",
    _control_labels,
    visible=(
        (torch.tensor([0, 1, 0, 2]), torch.tensor([0, 1, 0, 2]), table([0.6, 0.1, 0.9])),
        (
            torch.tensor([3, 1, 3, 0, 1, 3, 5, 1]),
            torch.tensor([2, 4, 2, 1, 4, 4, 1, 4]),
            table([0.05, 0.2, 0.9, 0.45, 0.3, 0.4, 0.8, 0.7]),
        ),
        (
            torch.tensor([1, 1, 4, 2, 1, 4, 0, 2, 1, 3]),
            torch.tensor([0, 3, 0, 1, 0, 1, 3, 3, 0, 0]),
            table([0.45, 0.95, 0.15, 0.55, 0.65]),
        ),
    ),
)


# --- selectivity: the accuracy minus that on the control ------------------------------------------


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


# --- without_directions: remove what the probe reads ----------------------------------------------


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
