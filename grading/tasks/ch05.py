"""Tasks of chapter 05: a block, the loss, a training step, a text drawn, a trap for beams."""

from typing import Any

import torch
from torch import Tensor

from grading.tasks.kit import Draw, tenths
from grading.tasks.task import Args, Task

CROSS_ENTROPIES = (
    "cross_entropy",
    "nll_loss",
    "CrossEntropyLoss",
    "NLLLoss",
    "linear_cross_entropy",
)


# --- block ----------------------------------------------------------------------------------------


def _block_shapes(T: int, d: int, d_k: int, d_v: int, d_ff: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of x, W_Q, W_K, W_V, W_O, W_1 and W_2."""
    return (T, d), (d, d_k), (d, d_k), (d, d_v), (d_v, d), (d, d_ff), (d_ff, d)


def _block(draw: Draw) -> Args:
    x, *matrices = _block_shapes(*(draw.size() for _ in range(5)))
    return draw.normal(*draw.lead[:1], *x), *(draw.normal(*shape) for shape in matrices)


BLOCK = Task(
    "block",
    _block,
    visible=(
        (torch.tensor([[1.0, 3.0]]), *(torch.eye(2) for _ in range(6))),
        tuple(tenths(1 + i, *shape) for i, shape in enumerate(_block_shapes(3, 4, 2, 3, 6))),
        # two texts
        (
            tenths(20, 2, 4, 3),
            *(tenths(21 + i, *s) for i, s in enumerate(_block_shapes(4, 3, 5, 2, 4)[1:])),
        ),
    ),
)


# --- next_token_loss ------------------------------------------------------------------------------


def _next_token_loss(draw: Draw) -> Args:
    B, T, D = draw.size(), draw.size(2), draw.size(2)
    return 2 * draw.normal(B, T, D), draw.integers(0, D, B, T)


def _far_apart(draw: Draw) -> list[Args]:
    """Logits that lie some hundreds apart: the softmax rounds small probabilities to 0."""
    return [(300 * draw.normal(2, 4, 5), draw.integers(0, 5, 2, 4))]


LOSS = Task(
    "next_token_loss",
    _next_token_loss,
    also=_far_apart,
    visible=(
        (torch.zeros(1, 3, 4), torch.tensor([[0, 3, 1]])),
        (tenths(3, 2, 4, 5), torch.tensor([[0, 4, 2, 1], [3, 3, 0, 2]])),
        # as many predictions as texts
        (tenths(4, 3, 4, 6), torch.tensor([[0, 1, 2, 2], [5, 0, 4, 1], [3, 3, 1, 0]])),
        (200 * tenths(5, 1, 3, 4), torch.tensor([[1, 3, 0]])),
    ),
    forbidden=CROSS_ENTROPIES,
)


# --- training_step --------------------------------------------------------------------------------


def _training_step(draw: Draw) -> Args:
    B, T, D = draw.size(), draw.size(2), draw.size(2)
    return draw.normal(D, D), draw.integers(0, D, B, T), draw.number(0.1, 5)


STEP = Task(
    "training_step",
    _training_step,
    visible=(
        (torch.zeros(2, 2), torch.tensor([[0, 1]]), 1.0),
        (tenths(1, 4, 4), torch.tensor([[0, 3, 1, 0], [2, 2, 0, 3]]), 0.5),
        (tenths(2, 3, 3), torch.tensor([[1, 0, 2, 2, 1]]), 2.0),
    ),
)


# --- generate -------------------------------------------------------------------------------------


def _generate(draw: Draw) -> Args:
    n, T, D = draw.size(), draw.size(), draw.size(2)
    logits, ids = 1.5 * draw.normal(D, D), draw.integers(0, D, T)
    return logits, ids, draw.uniform(n), draw.choice((0.3, 0.5, 1.5, 2.0))


def _edges(draw: Draw) -> list[Args]:
    """Numbers at the edges of four equal shares; and no temperature."""
    edges = torch.tensor(draw.shuffled([0.0, 0.25, 0.5, 0.75]))
    return [
        (torch.zeros(4, 4), draw.integers(0, 4, 1), edges, 2.0),
        (draw.normal(3, 3), draw.integers(0, 3, 2), draw.uniform(6)),
    ]


BIGRAM = torch.tensor([[0.0, 1.1, -0.7], [2.0, 0.1, 0.3], [-1.0, 0.4, 0.9]])
NUMBERS = torch.tensor([0.5, 0.2, 0.83, 0.95, 0.4])

GENERATE = Task(
    "generate",
    _generate,
    also=_edges,
    visible=(
        (torch.zeros(4, 4), torch.tensor([2]), torch.tensor([0.1, 0.6, 0.25, 0.9]), 1.0),
        (BIGRAM, torch.tensor([1, 0]), NUMBERS, 0.5),
        (BIGRAM, torch.tensor([0, 2]), NUMBERS, 2.0),
        (BIGRAM, torch.tensor([2, 1, 1]), torch.tensor([0.3, 0.97, 0.97, 0.6])),
    ),
)


# --- beam_trap ------------------------------------------------------------------------------------


def _beam_trap(draw: Draw) -> Args:
    D = draw.size(3)
    return D, draw.integer(0, D - 1)


def _each_first(draw: Draw) -> list[Args]:
    """The smallest model with each of its tokens in front, and a large one."""
    return [(3, 0), (3, 1), (3, 2), (draw.integer(20, 60), draw.integer(0, 19))]


def _best_text(start: Tensor, table: Tensor, beams: int) -> tuple[list[int], float]:
    """The best text of three tokens that so many beams find, and its probability."""
    alive = sorted((-p, [s]) for s, p in enumerate(start.tolist()))[:beams]
    for _ in range(2):
        longer = [
            (p * q, [*text, s]) for p, text in alive for s, q in enumerate(table[text[-1]].tolist())
        ]
        alive = sorted(longer)[:beams]
    return alive[0][1], -alive[0][0]


def _no_trap(args: Args, answer: Any) -> str | None:
    """Why two beams do not do worse than greedy in this model, or why it is none."""
    D, first = args
    start, table = (part.double() for part in answer)
    if start.shape != (D,) or table.shape != (D, D):
        shapes = f"{tuple(start.shape)} and {tuple(table.shape)}"
        return f"the shapes are {shapes}, expected ({D},) and ({D}, {D})"
    if min(start.min(), table.min()) < 0:
        return "a probability is below 0"
    if not (start.sum() - 1).abs() <= 1e-4:
        return f"start must sum to 1, it sums to {start.sum():.3f}"
    sums = table.sum(1)
    if not (sums - 1).abs().max() <= 1e-4:
        row = int((sums - 1).abs().argmax())
        return f"every row of the table must sum to 1, row {row} sums to {sums[row]:.3f}"
    (greedy, p), (beam, q) = (_best_text(start, table, beams) for beams in (1, 2))
    if greedy[0] != first:
        return f"greedy begins with {greedy[0]}, not with {first}"
    if q > 0.99 * p:
        told = f"{beam} has the probability {q:.4f}, greedy's {greedy} has {p:.4f}"
        return f"the two beams do not do worse than greedy: {told}"
    return None


TRAP = Task(
    "beam_trap",
    _beam_trap,
    also=_each_first,
    visible=((3, 0), (3, 2), (4, 1), (5, 1)),
    accepts=_no_trap,
)

TASKS: tuple[Task, ...] = (BLOCK, LOSS, STEP, GENERATE, TRAP)
