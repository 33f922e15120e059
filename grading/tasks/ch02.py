"""Tasks of chapter 02: the Elman step, the product of slopes, a GRU's step, clipping."""

import random
from typing import Any

import torch
from torch import Generator, Tensor, nn

from grading.task import Task


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


def _filled(cell: nn.Module, **weights: Tensor) -> nn.Module:
    """A module of the framework with these weights and their dtype."""
    cell = cell.to(next(iter(weights.values())).dtype)
    cell.load_state_dict({name: weight.contiguous() for name, weight in weights.items()})
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
    states: Tensor = rnn(x, h0[None].contiguous())[0]
    return states


def _elman_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5), 2):
        length, d_model, d_hidden = rng.sample([n for n in range(2, 9) if n != batch], 3)
        shapes = ((batch, length, d_model), (batch, d_hidden), (d_model, d_hidden))
        shapes += ((d_hidden, d_hidden), (d_hidden,))  # type: ignore[assignment]
        cases.append(tuple(0.7 * torch.randn(*s, generator=generator) for s in shapes))
    cases[2] = tuple(each.double() for each in cases[2])
    shapes = ((3, 3, 3), (3, 3), (3, 3), (3, 3), (3,))  # type: ignore[assignment]
    for _ in range(2):  # all sizes alike, and once more
        cases.append(tuple(0.7 * torch.randn(*s, generator=generator) for s in shapes))
    return cases


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
    hidden=_elman_hidden,
    forbidden=("RNN", "RNNCell", "rnn_tanh", "rnn_tanh_cell"),
)


# --- product_of_slopes: how a change of the first state travels -----------------------------------


def _product_of_slopes(h0: Tensor, inputs: Tensor, W_h: Tensor) -> Tensor:
    """By autograd: entry [i, j] says how h_T[j] moves with h_0[i]."""

    def last(h: Tensor) -> Tensor:
        for one in inputs:
            h = (one + h @ W_h).tanh()
        return h

    slopes: Tensor = torch.autograd.functional.jacobian(last, h0)
    return slopes.T.contiguous()


def _slopes_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    cases = []
    for steps in (1, 2, rng.randint(3, 6), rng.randint(7, 9), 0):
        d = rng.choice([n for n in range(2, 7) if n != steps])
        shapes = ((d,), (steps, d), (d, d))
        cases.append(tuple(0.6 * torch.randn(*s, generator=generator) for s in shapes))
    cases[2] = tuple(each.double() for each in cases[2])
    for _ in range(2):  # as many steps as units, and once more
        cases.append(tuple(torch.randn(*s, generator=generator) for s in ((3,), (3, 3), (3, 3))))
    return cases


SLOPES = Task(
    name="product_of_slopes",
    reference=_product_of_slopes,
    visible=(
        (_table([0, 0]), _table([[0, 0]]), _table([[1, 2], [3, 4]])),
        (_tenths(11, 3) / 2, _tenths(12, 4, 3) / 2, _tenths(13, 3, 3) / 2),
        (_tenths(14, 2), torch.zeros(0, 2).double(), _tenths(15, 2, 2)),
    ),
    hidden=_slopes_hidden,
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
    state: Tensor = cell(x, h)
    return state


def _gru_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5)):
        d_x, d = rng.sample([n for n in range(2, 9) if n != batch], 2)
        shapes = ((batch, d_x), (batch, d), (3, d_x, d), (3, d, d), (3, d), (3, d))
        cases.append(tuple(torch.randn(*s, generator=generator) for s in shapes))
    cases[1] = tuple(each.double() for each in cases[1])
    shapes = ((3, 3), (3, 3), (3, 3, 3), (3, 3, 3), (3, 3), (3, 3))
    for _ in range(2):  # all sizes alike, and once more
        cases.append(tuple(torch.randn(*s, generator=generator) for s in shapes))
    return cases


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
            _tenths(22, 3, 1),
            _tenths(23, 3, 2),
            _tenths(24, 3, 1, 2),
            _tenths(25, 3, 2, 2),
            _tenths(26, 3, 2),
            _tenths(27, 3, 2),
        ),
    ),
    hidden=_gru_hidden,
    forbidden=("GRU", "GRUCell", "gru", "gru_cell"),
)


# --- clipped: one length for all gradients --------------------------------------------------------


def _clipped(gradients: list[Tensor], limit: float) -> list[Tensor]:
    """By the framework, on parameters that carry these gradients."""
    parameters = [nn.Parameter(torch.zeros_like(one)) for one in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, limit)
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _clip_hidden(rng: random.Random, generator: Generator) -> list[tuple[list[Tensor], float]]:
    cases = []
    for size in (0.01, 0.3, 3.0, 30.0):
        d, e = rng.sample(range(2, 7), 2)
        shapes = ((d, e), (e,), (2, d, 3))[: rng.randint(2, 3)]
        drawn = [size * torch.randn(*s, generator=generator) for s in shapes]
        cases.append((drawn, round(rng.uniform(0.5, 2), 2)))
    size = torch.linalg.vector_norm(torch.cat([one.flatten() for one in cases[2][0]]))
    doubled = [one.double() * 5 / float(size) for one in cases[2][0]]  # of length 5
    cases += [(doubled, 4.0), (doubled, 5.5), ([0.02 * doubled[0]], 1.0)]
    cases.append(([torch.zeros(3), torch.zeros(2, 2)], 1.0))
    return cases


CLIP = Task(
    name="clipped",
    reference=_clipped,
    visible=(
        ([_table([3, 0]), _table([[0], [4]])], 1.0),
        ([_table([0.3, 0]), _table([[0], [-0.4]])], 1.0),
        ([_table([6, 2, 9]), _table([[2, -6], [0, 0], [0, 0]])], 2.0),
        ([_table([0, 0]), _table([[0]])], 0.5),
        ([_tenths(28, 2, 2)], 0.5),
        ([_table([1.2, 0]), _table([[0.9]])], 2.0),
    ),
    hidden=_clip_hidden,
    forbidden=("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_norm"),
    fresh=True,
)

TASKS: tuple[Task, ...] = (ELMAN, SLOPES, GRU, CLIP)
