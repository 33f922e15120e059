"""Tasks of chapter 02: the Elman step, the product of slopes, a GRU's step, clipping."""

import random
from typing import Any

import torch
from torch import Generator, Tensor, nn

from grading.properties import varied
from grading.task import Task


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


def _filled(cell: nn.Module, **weights: Tensor) -> nn.Module:
    """A module of the framework with these weights, in double precision."""
    cell.double().load_state_dict(weights)
    return cell.requires_grad_(False)


# --- elman_states: the recurrence, with a width of its own ----------------------------------------


def _elman_states(x: Tensor, h0: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
    """The framework's recurrence; it multiplies columns, so its matrices are ours transposed."""
    rnn = _filled(
        nn.RNN(*W_x.shape, batch_first=True),
        weight_ih_l0=W_x.T,
        weight_hh_l0=W_h.T,
        bias_ih_l0=b,
        bias_hh_l0=torch.zeros_like(b),
    )
    states: Tensor = rnn(x.double(), h0[None].double())[0]
    return states.to(x.dtype)


def _drawn_texts(
    rng: random.Random, generator: Generator, T: int, B: int, d: int, d_hidden: int
) -> tuple[Tensor, ...]:
    shapes = ((B, T, d), (B, d_hidden), (d, d_hidden), (d_hidden, d_hidden), (d_hidden,))
    x, h0, W_x, W_h, b = (torch.randn(*shape, generator=generator) for shape in shapes)
    return x, h0, 0.7 * W_x, W_h / d_hidden**0.5, 0.7 * b


ELMAN = Task(
    name="elman_states",
    reference=_elman_states,
    visible=(
        (
            _table([[[1], [0]]]),
            _table([[0, 1]]),
            _table([[1, 0]]),
            _table([[0, 0], [1, 2]]),
            _table([0, -1]),
        ),
        (_tenths(1, 2, 4, 3), _tenths(2, 2, 5), _tenths(3, 3, 5), _tenths(4, 5, 5), _tenths(5, 5)),
        (_tenths(6, 3, 3, 2), _tenths(7, 3, 2), _tenths(8, 2, 2), _tenths(9, 2, 2), _tenths(10, 2)),
    ),
    hidden=varied(_drawn_texts, {"T": 1, "B": 1, "d": 1, "d_hidden": 1}, scaled=((0, 300),)),
    forbidden=("RNN", "RNNCell", "rnn_tanh", "rnn_tanh_cell"),
)


# --- product_of_slopes: how a change of the first state travels -----------------------------------


def _product_of_slopes(h0: Tensor, inputs: Tensor, W_h: Tensor) -> Tensor:
    """By autograd: entry [i, j] says how h_T[j] moves with h_0[i]."""

    def last(h: Tensor) -> Tensor:
        for one in inputs.double():
            h = (one + h @ W_h.double()).tanh()
        return h

    slopes: Tensor = torch.autograd.functional.jacobian(last, h0.double())
    return slopes.T.to(h0.dtype)


def _drawn_steps(rng: random.Random, generator: Generator, T: int, d: int) -> tuple[Tensor, ...]:
    h0, inputs, W_h = (torch.randn(*s, generator=generator) for s in ((d,), (T, d), (d, d)))
    return h0, 0.5 * inputs, 1.5 * W_h / d**0.5


def _apart(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    """Where nothing gives the identity its dtype; steps so steep that differences are none."""
    cases = [[one.double() for one in _drawn_steps(rng, generator, T, 3)] for T in (0, 1)]
    flat = (torch.zeros(2).double(), 1e3 * torch.ones(1, 2).double(), 1e3 * torch.eye(2).double())
    return [*((h0 / 99, inputs / 9, 40 * W_h) for h0, inputs, W_h in cases), flat]


SLOPES = Task(
    name="product_of_slopes",
    reference=_product_of_slopes,
    visible=(
        (_table([0, 0]), _table([[0, 0]]), _table([[1, 2], [3, 4]])),
        (_tenths(11, 3) / 2, _tenths(12, 4, 3) / 2, _tenths(13, 3, 3) / 2),
        (_tenths(11, 2) / 99, torch.zeros(1, 2).double(), 60 * _tenths(15, 2, 2)),
        (_tenths(14, 2), torch.zeros(0, 2).double(), _tenths(15, 2, 2)),
    ),
    hidden=varied(_drawn_steps, {"T": 0, "d": 1}, scaled=((1, 100),), also=_apart),
    forbidden=("autograd", "jacobian", "jacrev", "jacfwd", "backward", "grad", "vjp", "jvp"),
)


# --- gru_step: where the reset gate acts ----------------------------------------------------------


def _gru_step(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The framework's cell; its matrices stand on top of each other, transposed."""
    cell = _filled(
        nn.GRUCell(W.shape[1], W.shape[2]),
        weight_ih=W.mT.flatten(0, 1),
        weight_hh=U.mT.flatten(0, 1),
        bias_ih=b.flatten(),
        bias_hh=c.flatten(),
    )
    state: Tensor = cell(x.double(), h.double())
    return state.to(x.dtype)


def _drawn_gru(
    rng: random.Random, generator: Generator, B: int, d_x: int, d: int
) -> tuple[Tensor, ...]:
    shapes = ((B, d_x), (B, d), (3, d_x, d), (3, d, d), (3, d), (3, d))
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def _shut(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    """A gate that is shut before a large state."""
    x, h, W, *rest = (0 * one.double() for one in _drawn_gru(rng, generator, 1, 1, 1))
    W[1] = 1.0
    return [(x - 1e3, h + 1e3, W, *rest)]


GRU = Task(
    name="gru_step",
    reference=_gru_step,
    visible=(
        (
            _table([[1]]),
            _table([[4, -2]]),
            torch.zeros(3, 1, 2),
            torch.zeros(3, 2, 2),
            torch.zeros(3, 2),
            torch.zeros(3, 2),
        ),
        (
            _tenths(16, 2, 3),
            _tenths(17, 2, 4),
            _tenths(18, 3, 3, 4),
            _tenths(19, 3, 4, 4),
            _tenths(20, 3, 4),
            _tenths(21, 3, 4),
        ),
        (
            3000 * _tenths(22, 3, 1),
            _tenths(23, 3, 2),
            _tenths(24, 3, 1, 2),
            _tenths(25, 3, 2, 2),
            _tenths(26, 3, 2),
            _tenths(27, 3, 2),
        ),
    ),
    hidden=varied(_drawn_gru, {"B": 1, "d_x": 1, "d": 1}, scaled=((0, 300),), also=_shut),
    forbidden=("GRU", "GRUCell", "gru", "gru_cell"),
)


# --- clipped: one length for all gradients --------------------------------------------------------


def _clipped(gradients: list[Tensor], limit: float) -> list[Tensor]:
    """As one long vector, in double precision."""
    whole = torch.cat([one.double().flatten() for one in gradients])
    kept = min(1.0, limit / (float(whole.norm()) or 1.0))
    return [(one.double() * kept).to(one.dtype) for one in gradients]


def _drawn_gradients(
    rng: random.Random, generator: Generator, n: int, d: int
) -> tuple[list[Tensor], float]:
    size = rng.choice((0.01, 0.3, 3.0))
    shapes = [(d, n), (d,), (2, d, 3)] * n
    drawn = [size * torch.randn(*shape, generator=generator) for shape in shapes[:n]]
    return drawn, round(rng.uniform(0.5, 2), 2)


def _lengths(rng: random.Random, generator: Generator) -> list[tuple[list[Tensor], float]]:
    """Of length 5, in two dtypes, above the limit or below, its square above; short; none; huge."""
    three, four = torch.zeros(2, 3), torch.zeros(4).double()
    three[rng.randrange(2), rng.randrange(3)], four[rng.randrange(4)] = 3, -4
    five, nothing = [three, four], [torch.zeros(3), torch.zeros(()).double()]
    short = [([0.02 * three], 1.0), ([three], 0.3), (nothing, 1.0)]
    return [(five, 4.0), (five, 5.5), *short, ([three, 1e25 * four], 1.0)]


CLIP = Task(
    name="clipped",
    reference=_clipped,
    visible=(
        ([_table([3, 0]), _table([[0], [4]])], 1.0),
        ([_table([0.3, 0]), _table([[0], [-0.4]]).double()], 1.0),
        ([_table([6, 2, 9]), _table([[2, -6], [0, 0], [0, 0]])], 2.0),
        ([_table([0, 0]), _table([[0]])], 0.5),
        ([_table([1.2, 0]), _table([[0.9]])], 2.0),
        ([6e25 * torch.ones(1).double(), -8e25 * torch.ones(1, 1).double()], 1.0),
    ),
    hidden=varied(_drawn_gradients, {"n": 1, "d": 1}, also=_lengths),
    forbidden=("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_norm"),
)

TASKS: tuple[Task, ...] = (ELMAN, SLOPES, GRU, CLIP)
