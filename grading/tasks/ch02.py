"""Tasks of chapter 02: the Elman step, the product of slopes, a GRU's step, clipping."""

import random
from collections.abc import Callable, Sequence
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


Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _states_by(step: Step, shift: bool = False) -> Step:
    """A loop around a step of x_t, h, W_x, W_h, b; `shift`: states before reading."""

    def wrong(x: Tensor, h0: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
        h, states = h0, [h0]
        for x_t in x.unbind(1):
            h = step(x_t, h, W_x, W_h, b)
            states.append(h)
        return torch.stack(states[:-1] if shift else states[1:], 1)

    return wrong


def _step(x_t: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
    return (x_t @ W_x + h @ W_h + b).tanh()


def _deaf(x: Tensor, h0: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor) -> Tensor:
    return (x @ W_x + (h0 @ W_h)[:, None] + b).tanh()


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
    mistakes={
        "you add the embedding as it is, as the essay does. It must pass through W_x, which gives "
        "it the width of the state.": _states_by(
            lambda x_t, h, W_x, W_h, b: (x_t + h @ W_h + b).tanh()
        ),
        "you have transposed W_h. Here vectors are rows and stand on the left: h @ W_h.": (
            _states_by(lambda x_t, h, W_x, W_h, b: (x_t @ W_x + h @ W_h.T + b).tanh())
        ),
        "your first state starts from zeros. It starts from h0.": lambda x, h0, *rest: (
            _elman_states(x, torch.zeros_like(h0), *rest)
        ),
        "you return the last state alone. All of them are asked for, one for each "
        "token.": lambda *args: _elman_states(*args)[:, -1],
        "your states have slipped by one: position t must hold the state after token t has been "
        "read.": _states_by(_step, shift=True),
        "h0 is among your states. It is there before the first token: T tokens, T "
        "states.": lambda x, h0, *rest: torch.cat([h0[:, None], _elman_states(x, h0, *rest)], 1),
        "your tanh is around a part of the sum. It takes all three: tanh(x_t W_x + h W_h + "
        "b).": _states_by(lambda x_t, h, W_x, W_h, b: x_t @ W_x + (h @ W_h + b).tanh()),
        "you add b after the tanh. It belongs inside: tanh(x_t W_x + h W_h + b).": _states_by(
            lambda x_t, h, W_x, W_h, b: (x_t @ W_x + h @ W_h).tanh() + b
        ),
        "your axes are (B, d_hidden, T): torch.stack(…, 1) puts the tokens second.": (
            lambda *args: _elman_states(*args).mT
        ),
        "the tanh is missing.": _states_by(lambda x_t, h, W_x, W_h, b: x_t @ W_x + h @ W_h + b),
        "each of your states starts from h0. The state of one step goes into the next: assign it "
        "to h inside the loop.": _deaf,
        "your axes are (T, B, d_hidden): torch.stack(…, 1) puts the tokens second.": (
            lambda *args: _elman_states(*args).transpose(0, 1)
        ),
        "the bias b is missing.": lambda x, h0, W_x, W_h, b: _elman_states(
            x, h0, W_x, W_h, torch.zeros_like(b)
        ),
    },
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


Factor = Callable[[Tensor, Tensor, Tensor], Tensor]


def _product_by(
    factor: Factor, back: bool = False, drop: slice = slice(None)
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The product of factor(W_h, state before, state after), in order or `back` to front."""

    def wrong(h0: Tensor, inputs: Tensor, W_h: Tensor) -> Tensor:
        h, factors = h0, []
        for one in inputs:
            after = (one + h @ W_h).tanh()
            factors.append(factor(W_h, h, after))
            h = after
        product = torch.eye(len(h0), dtype=h0.dtype)
        for each in factors[drop]:
            product = each @ product if back else product @ each
        return product

    return wrong


def _right(W: Tensor, before: Tensor, after: Tensor) -> Tensor:
    return W * (1 - after**2)


def _entrywise(h0: Tensor, inputs: Tensor, W_h: Tensor) -> Tensor:
    h, product = h0, torch.ones_like(W_h)
    for one in inputs:
        h = (one + h @ W_h).tanh()
        product = product * _right(W_h, h, h)
    return product


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
    mistakes={
        "rows and columns are swapped: entry [i, j] says how the last state's unit j moves with "
        "the first state's unit i.": lambda h0, inputs, W_h: _product_of_slopes(
            h0, inputs, W_h
        ).T.contiguous(),
        "you multiply the factors in the wrong order. With row vectors the first step stands "
        "leftmost: product @ factor.": _product_by(_right, back=True),
        "you take the slope of tanh at the state before the step. It belongs to the state that "
        "comes out: 1 − h_t².": _product_by(lambda W, before, after: W * (1 - before**2)),
        "your slope is 1 − h. The slope of tanh is 1 − h².": _product_by(
            lambda W, before, after: W * (1 - after)
        ),
        "you scale the rows of W_h by the slope. It acts on what comes out, so it scales the "
        "columns: W_h * (1 − h²).": _product_by(
            lambda W, before, after: W * (1 - after**2)[:, None]
        ),
        "the slope of tanh is missing: you have a power of W_h alone.": _product_by(
            lambda W, before, after: W
        ),
        "one factor is missing, the last: T steps, T factors.": _product_by(
            _right, drop=slice(None, -1)
        ),
        "one factor is missing, the first: the step from h0 counts, too.": _product_by(
            _right, drop=slice(1, None)
        ),
        "you multiply entry by entry. The factors are matrices: use @.": _entrywise,
        "you leave W_h out: the slopes of tanh are only half of each factor.": _product_by(
            lambda W, before, after: torch.diag(1 - after**2)
        ),
    },
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


Gates = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _gru_by(
    mix: Gates,
    late: bool = True,
    order: Sequence[int] = (0, 1, 2),
    activation: Callable[[Tensor], Tensor] = torch.tanh,
    outside: bool = False,
) -> Callable[..., Tensor]:
    """A step with its parts exchanged; `mix` makes the state of r, z, n, h."""

    def wrong(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
        W, U, b, c = (each[list(order)] for each in (W, U, b, c))
        r = (x @ W[0] + b[0] + h @ U[0] + c[0]).sigmoid()
        z = (x @ W[1] + b[1] + h @ U[1] + c[1]).sigmoid()
        past = r * (h @ U[2] + c[2]) if late else (r * h) @ U[2] + c[2]
        if outside:
            past = r * (h @ U[2]) + c[2]
        return mix(r, z, activation(x @ W[2] + b[2] + past), h)

    return wrong


def _mix(r: Tensor, z: Tensor, n: Tensor, h: Tensor) -> Tensor:
    return (1 - z) * n + z * h


def _unreset(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
    z = (x @ W[1] + b[1] + h @ U[1] + c[1]).sigmoid()
    return _mix(z, z, (x @ W[2] + b[2] + h @ U[2] + c[2]).tanh(), h)


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
    mistakes={
        "the reset gate acts too early: you multiply h by r before the product with U[2]. In this "
        "formula r multiplies what comes out, h @ U[2] + c[2].": _gru_by(_mix, late=False),
        "the reset gate acts on h @ U[2] alone. The bias c[2] stands in the same bracket.": (
            _gru_by(_mix, outside=True)
        ),
        "the update gate works backwards: z keeps the old state, 1 − z lets the new content in.": (
            _gru_by(lambda r, z, n, h: z * n + (1 - z) * h)
        ),
        "you have exchanged the two gates: index 0 is the reset gate r, index 1 the update gate "
        "z.": _gru_by(_mix, order=(1, 0, 2)),
        "your new content has a sigmoid. The gates have one; the content has tanh, so that it can "
        "be negative.": _gru_by(_mix, activation=torch.sigmoid),
        "the reset gate is missing: r multiplies h @ U[2] + c[2].": _unreset,
        "you return the new content n. The step mixes it with the old state: "
        "(1 − z) · n + z · h.": _gru_by(lambda r, z, n, h: n),
        "you add all of the new content: (1 − z) must multiply it.": _gru_by(
            lambda r, z, n, h: n + z * h
        ),
    },
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


def _length(gradients: list[Tensor]) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(torch.cat([one.flatten() for one in gradients]))
    return length


def _scaled(factor: Callable[[list[Tensor], float], Any]) -> Callable[..., list[Tensor]]:
    return lambda gradients, limit: [one * factor(gradients, limit) for one in gradients]


def _zero_over_zero(gradients: list[Tensor], limit: float) -> Any:
    length = _length(gradients)
    return (length / length) * min(1.0, limit / max(float(length), 1e-12))


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
    mistakes={
        "you clip each tensor by its own length. That turns the step another way; one length for "
        "all of them together keeps its direction.": lambda gradients, limit: [
            one * min(1.0, limit / max(float(one.norm()), 1e-12)) for one in gradients
        ],
        "you clip each number by itself. That turns the step another way; scale all numbers by "
        "one factor.": lambda gradients, limit: [one.clamp(-limit, limit) for one in gradients],
        "you make short gradients longer. Below the limit they stay as they are: the factor is at "
        "most 1.": _scaled(lambda gradients, limit: limit / _length(gradients).clamp_min(1e-12)),
        "you scale whatever the length: short gradients become longer, and where all are 0 you get "
        "0/0. Below the limit they stay as they are.": _scaled(
            lambda gradients, limit: limit / _length(gradients)
        ),
        "where all gradients are 0 you get 0/0: there is nothing to scale, and they stay as they "
        "are.": _scaled(_zero_over_zero),
        "you add the lengths of the tensors. The length of all together is the root of the sum of "
        "their squares.": _scaled(
            lambda gradients, limit: min(
                1.0, limit / max(sum(float(one.norm()) for one in gradients), 1e-12)
            )
        ),
        "you compare the square of the length with the limit: take the root first, and then "
        "compare.": _scaled(
            lambda gradients, limit: (
                limit / _length(gradients) if _length(gradients) ** 2 > limit else 1.0
            )
        ),
        "you divide by the square of the length: the root is missing.": _scaled(
            lambda gradients, limit: min(1.0, limit / max(float(_length(gradients)) ** 2, 1e-12))
        ),
        "you divide all gradients by their length: the result has length 1, whatever the "
        "limit.": _scaled(lambda gradients, limit: 1 / _length(gradients).clamp_min(1e-12)),
        "you scale to the length 1. The new length is to be the limit: the factor is limit / "
        "ℓ.": _scaled(
            lambda gradients, limit: 1 / _length(gradients) if _length(gradients) > limit else 1.0
        ),
        "you take the largest number for the length. The length is the root of the sum of all "
        "squares.": _scaled(
            lambda gradients, limit: min(
                1.0, limit / max(*(float(one.abs().max()) for one in gradients), 1e-12)
            )
        ),
    },
    forbidden=("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_norm"),
    fresh=True,
)

TASKS: tuple[Task, ...] = (ELMAN, SLOPES, GRU, CLIP)
