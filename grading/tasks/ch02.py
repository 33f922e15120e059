"""Tasks of chapter 02: the Elman step, the product of slopes, a GRU's step, clipping."""

import math

import torch

from grading.tasks.kit import Draw, table, tenths
from grading.tasks.task import Args, Task

# --- elman_states: the recurrence, with a width of its own ----------------------------------------


def _elman_states(draw: Draw) -> Args:
    B, T, d_model, d_hidden = (draw.size() for _ in range(4))
    return (
        draw.normal(B, T, d_model),
        draw.normal(B, d_hidden),
        draw.normal(d_model, d_hidden) / d_model**0.5,
        draw.normal(d_hidden, d_hidden) / d_hidden**0.5,
        draw.normal(d_hidden),
    )


ELMAN = Task(
    "elman_states",
    _elman_states,
    visible=(
        (
            table([[[1], [0]]]),
            table([[0, 1]]),
            table([[1, 0]]),
            table([[0, 0], [1, 2]]),
            table([0, -1]),
        ),
        (tenths(1, 2, 4, 3), tenths(2, 2, 5), tenths(3, 3, 5), tenths(4, 5, 5), tenths(5, 5)),
        # as wide as the embeddings, and as many texts as tokens
        (tenths(6, 3, 3, 2), tenths(7, 3, 2), tenths(8, 2, 2), tenths(9, 2, 2), tenths(10, 2)),
    ),
    forbidden=("RNN", "RNNCell", "rnn_tanh", "rnn_tanh_cell"),
)


# --- product_of_slopes: how a change of the first state travels -----------------------------------


def _product_of_slopes(draw: Draw) -> Args:
    T, d = draw.size(0), draw.size()
    return draw.normal(d), 0.5 * draw.normal(T, d), 1.5 * draw.normal(d, d) / d**0.5


SLOPES = Task(
    "product_of_slopes",
    _product_of_slopes,
    visible=(
        (table([0, 0]), table([[0, 0]]), table([[1, 2], [3, 4]])),
        (table([0, 0]), table([[0, math.log(2)]]), table([[1, 2], [3, 4]])),  # h_1 is (0, .6)
        (tenths(11, 3) / 2, tenths(12, 4, 3) / 2, tenths(13, 3, 3) / 2),
        (tenths(14, 2), torch.zeros(0, 2), tenths(15, 2, 2)),
    ),
    forbidden=("autograd", "jacobian", "jacrev", "jacfwd", "backward", "grad", "vjp", "jvp"),
)


# --- gru_step: where the reset gate acts ----------------------------------------------------------


def _gru_step(draw: Draw) -> Args:
    B, d_x, d = (draw.size() for _ in range(3))
    shapes = ((B, d_x), (B, d), (3, d_x, d), (3, d, d), (3, d), (3, d))
    return tuple(draw.normal(*shape) for shape in shapes)


GRU = Task(
    "gru_step",
    _gru_step,
    visible=(
        (
            table([[1]]),
            table([[4, -2]]),
            torch.zeros(3, 1, 2),
            torch.zeros(3, 2, 2),
            torch.zeros(3, 2),
            torch.zeros(3, 2),
        ),
        (
            tenths(16, 2, 3),
            tenths(17, 2, 4),
            tenths(18, 3, 3, 4),
            tenths(19, 3, 4, 4),
            tenths(20, 3, 4),
            tenths(21, 3, 4),
        ),
    ),
    forbidden=("GRU", "GRUCell", "gru", "gru_cell"),
)


# --- clipped: one length for all gradients --------------------------------------------------------


def _clipped(draw: Draw) -> Args:
    rows, columns = draw.size(), draw.size()
    shapes = [(rows, columns), (columns,), (2, columns, rows)][: draw.integer(1, 3)]
    return [draw.normal(*shape) for shape in shapes], draw.number(0.5, 2)


def _short(draw: Draw) -> list[Args]:
    """Below the limit, with its square above it or not; and of length 0."""
    limit = draw.number(2, 5)
    gradients = [draw.normal(2, 3), draw.normal(4)]
    length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    below = [0.9 * limit / length * gradient for gradient in gradients]
    return [
        (below, limit),
        ([0.01 * gradient for gradient in gradients], limit),
        ([torch.zeros(2, 3), torch.zeros(4)], limit),
    ]


CLIP = Task(
    "clipped",
    _clipped,
    also=_short,
    visible=(
        ([table([3, 0]), table([[0], [4]])], 1.0),
        ([table([0.3, 0]), table([[0], [-0.4]])], 1.0),
        ([table([6, 2, 9]), table([[2, -6], [0, 0], [0, 0]])], 2.0),
        ([table([0, 0]), table([[0]])], 0.5),
        ([table([1.2, 0]), table([[0.9]])], 2.0),  # of length 1.5, whose square is above 2
    ),
    forbidden=("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_norm"),
)

TASKS: tuple[Task, ...] = (ELMAN, SLOPES, GRU, CLIP)
