"""Tasks of chapter 10: relations and offsets, gates, relevance, and which heads go first."""

import torch
from torch import Tensor

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- relation_accuracy: a head against the best fixed offset --------------------------------------

Arcs = list[tuple[int, int]]


def _sentence(draw: Draw, H: int, T: int) -> tuple[Tensor, Arcs]:
    """Maps, and pairs that a head finds or whose words are neighbours; two pairs of some words."""
    A = draw.rows(H, T, T, spread=2)
    arcs = set()
    for t in draw.choices(range(T), T + 2):
        found = int(A[draw.integer(0, H - 1), t].argmax())
        arcs.add((t, draw.choice((found, max(t - 1, 0), min(t + 1, T - 1)))))
    return A, draw.shuffled(sorted(arcs))


def _relation_accuracy(draw: Draw) -> Args:
    H, sentences = draw.size(), draw.size()
    drawn = [_sentence(draw, H, draw.integer(2, 8)) for _ in range(sentences)]
    some = [arcs[: draw.integer(0, len(arcs))] for _, arcs in drawn[1:]]
    return [A for A, _ in drawn], [drawn[0][1], *some]


RELATION = Task(
    "relation_accuracy",
    _relation_accuracy,
    visible=(
        ([table([[[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.3, 0.5, 0.2]]])], [[(1, 2), (0, 1)]]),
        _relation_accuracy(Draw(38)),
        _relation_accuracy(Draw(83)),
    ),
)


# --- usual_offset: where the largest weight stands most often -------------------------------------


def _usual_offset(draw: Draw) -> Args:
    """Each head likes an offset, and one offset is the commonest."""
    N, H, T = (draw.size() for _ in range(3))
    while True:
        scores = draw.normal(N, H, T, T)
        for head in range(H):
            scores[:, head].diagonal(draw.integer(-2, 2), -2, -1).add_(2)
        if _without_ties(scores):
            return (scores.softmax(-1),)


def _without_ties(scores: Tensor) -> bool:
    """Whether one offset of each head is commoner than all others."""
    offsets = (scores.argmax(-1) - torch.arange(scores.shape[-1])).transpose(0, 1).flatten(1)
    counts = [sorted(row.unique(return_counts=True)[1].tolist()) for row in offsets]
    return all(count[-1:] != count[-2:-1] for count in counts)


def _looking(*sources: int) -> Tensor:
    """The map of one head in one text whose destinations look at these sources alone."""
    return torch.eye(len(sources))[list(sources)][None, None]


TWO_HEADS = torch.cat([_looking(0, 0, 1, 2), _looking(1, 2, 3, 3)], 1)  # the token before, the next
# in two of three texts 0 is the commonest, and −1 in all together
TEXTS = torch.cat([_looking(0, 1, 1, 0), _looking(0, 1, 1, 0), _looking(1, 0, 1, 2)])


def _opposed(draw: Draw) -> list[Args]:
    """Two heads with opposite offsets; and texts of which most have another offset than all."""
    return [(TWO_HEADS.repeat(2, 1, 1, 1),), (TEXTS.repeat(draw.integer(2, 5), 1, 1, 1),)]


USUAL = Task(
    "usual_offset",
    _usual_offset,
    also=_opposed,
    visible=(
        (table([[[[0.9, 0.1, 0], [0.8, 0.2, 0], [0.3, 0.6, 0.1]]]]),),
        _usual_offset(Draw(1)),
        (TWO_HEADS,),
        (TEXTS,),
    ),
)


# --- gate_chances: the hard concrete gate ---------------------------------------------------------


def _gate_chances(draw: Draw) -> Args:
    log_a = 2 * draw.normal(*draw.lead, draw.size())
    return log_a, draw.number(0.2, 3), -draw.number(0.05, 1.5), 1 + draw.number(0.05, 1.5)


GATE = Task(
    "gate_chances",
    _gate_chances,
    visible=(
        (torch.tensor(0.0), 1.0, -1.0, 2.0),
        (table([-3, 0, 1.5]), 0.33, -0.1, 1.1),
        (table([[0.5, -1], [2, 4]]), 0.8, -0.2, 1.6),
    ),
)


# --- z_rule: relevance through a linear layer -----------------------------------------------------


def _z_rule(draw: Draw) -> Args:
    n, m = draw.size(), draw.size()
    return (
        draw.normal(*draw.lead, n),
        draw.normal(n, m),
        draw.normal(m),
        draw.normal(*draw.lead, m),
        draw.number(0.1, 0.5),
    )


def _cancelling(draw: Draw) -> list[Args]:
    """A sum z of 0, which counts as positive, and one just below 0."""
    x, W = table([[2, 2, 0], [2, 2, -1]]), table([[1], [-1], [0.125]])
    return [(x, W, torch.zeros(1), draw.normal(2, 1), draw.number(0.2, 0.6))]


Z_RULE = Task(
    "z_rule",
    _z_rule,
    also=_cancelling,
    visible=(
        (table([1, 2]), table([[3], [1]]), table([4]), table([10]), 1.0),
        (
            table([[1, -2, 0.5], [0, 1, 3]]),
            table([[1, -1, 2, 0], [0.5, 1, -1, 2], [2, 0, 1, -1]]),
            table([0.5, -1, 0, 1]),
            table([[1, 2, -1, 0.5], [3, 1, 0, -2]]),
            0.1,
        ),
        (
            table([[1, -1], [2, 1]]),
            table([[1, 2], [3, -1]]),
            table([0, 0.5]),
            table([[1, 1], [2, -1]]),
            0.5,
        ),
        # z is 0
        (table([[2, 2]]), table([[1], [-1]]), table([0]), table([[1]]), 0.5),
    ),
)


# --- pruning_order: the least relevant first ------------------------------------------------------


def _pruning_order(draw: Draw) -> Args:
    """Sentences of which some have a larger score to hand back than others."""
    N, L, H = (draw.size() for _ in range(3))
    sizes = draw.uniform(N, 1, 1, low=0.2, high=5)
    return sizes * draw.normal(N, L, H), draw.integer(L * H // 2, L * H)


ORDER = Task(
    "pruning_order",
    _pruning_order,
    visible=(
        (table([[[3, -1], [0.5, -4]]]), 2),
        (tenths(5, 2, 2, 3), 6),
        # the second sentence has the larger relevances
        (table([[[0.1, -0.5], [0.3, 0.2]], [[5, 2], [-1, 3]]]), 3),
        (table([[[0.1, 0.2, 0.15], [5, 0, 1.6]], [[0.1, -0.2, 0.3], [-5, 3, 1.6]]]), 4),
    ),
)

TASKS: tuple[Task, ...] = (RELATION, USUAL, GATE, Z_RULE, ORDER)
