"""Tasks of chapter 05: a block, the loss, a training step, a text drawn, a trap for beams."""

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from grading.properties import varied
from grading.task import Task
from grading.tasks.ch01 import drawn_logits, levels

CROSS_ENTROPIES = (
    "cross_entropy",
    "nll_loss",
    "CrossEntropyLoss",
    "NLLLoss",
    "linear_cross_entropy",
)


def _seeded(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read."""
    drawn = torch.randn(*shape, generator=Generator().manual_seed(seed))
    return (drawn * 10).round() / 10


# --- block ----------------------------------------------------------------------------------------


def _normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _block(
    x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, W_1: Tensor, W_2: Tensor
) -> Tensor:
    """By the framework's norm, and its attention with its own mask."""
    one = _normed(x)
    x = x + F.scaled_dot_product_attention(one @ W_Q, one @ W_K, one @ W_V, is_causal=True) @ W_O
    return x + F.relu(_normed(x) @ W_1) @ W_2


def _block_args(draw: Callable[..., Tensor], lead: tuple[int, ...], *sizes: int) -> tuple[Any, ...]:
    """Inputs for T, d, d_k, d_v, d_ff."""
    T, d, d_k, d_v, d_ff = sizes
    shapes = ((d, d_k), (d, d_k), (d, d_v), (d_v, d), (d, d_ff), (d_ff, d))
    return (draw(*lead, T, d), *(draw(*shape) for shape in shapes))


def _drawn_block(
    rng: random.Random,
    generator: Generator,
    T: int,
    d: int,
    d_k: int,
    d_v: int,
    d_ff: int,
    lead: tuple[int, ...],
) -> tuple[Any, ...]:
    draw = partial(torch.randn, generator=generator)
    return _block_args(draw, lead, T, d, d_k, d_v, d_ff)


def _drawn(seed: int) -> Callable[..., Tensor]:
    seeds = iter(range(seed, seed + 99))
    return lambda *shape: _seeded(next(seeds), *shape)


BLOCK = Task(
    name="block",
    reference=_block,
    visible=(
        (torch.tensor([[1.0, 3.0]]), *(torch.eye(2) for _ in range(6))),
        _block_args(_drawn(1), (), 3, 4, 2, 3, 6),
        _block_args(_drawn(20), (2,), 4, 3, 5, 2, 4),
    ),
    hidden=varied(
        _drawn_block,
        dict.fromkeys(("T", "d", "d_k", "d_v", "d_ff"), 1),
        lead=True,
        dtypes=(torch.float64,),  # two norms enlarge what half has rounded
        scaled=((0, 0.003), (1, 60)),  # ε decides; scores of several hundred
    ),
    tolerance=1e-3,
)


# --- next_token_loss ------------------------------------------------------------------------------


def _loss(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].double().mT, ids[:, 1:]).to(logits.dtype)


LOSS = Task(
    name="next_token_loss",
    reference=_loss,
    visible=(
        (torch.zeros(1, 3, 4), torch.tensor([[0, 3, 1]])),
        (_seeded(3, 2, 4, 5), torch.tensor([[0, 4, 2, 1], [3, 3, 0, 2]])),
        (_seeded(4, 3, 3, 6).double(), torch.tensor([[0, 1, 2], [5, 0, 4], [3, 3, 1]])),
        (200 * _seeded(5, 1, 3, 4), torch.tensor([[1, 3, 0]])),
    ),
    hidden=varied(drawn_logits, {"T": 2, "B": 1, "D": 2}, scaled=((0, 300),), also=levels),
    forbidden=CROSS_ENTROPIES,
)


# --- training_step --------------------------------------------------------------------------------


def _step(W: Tensor, ids: Tensor, lr: float) -> tuple[Tensor, Tensor]:
    """The gradient is p − 1 at the next token, added up at the row read."""
    read, following = ids[:, :-1].flatten(), ids[:, 1:].flatten()
    log_p = W[read].log_softmax(-1)
    wrong = log_p.exp() - F.one_hot(following, W.shape[1])
    gradient = torch.zeros_like(W).index_add(0, read, wrong.to(W)) / len(read)
    return W - lr * gradient, -log_p.gather(-1, following[:, None]).mean()


def _drawn_step(
    rng: random.Random, generator: Generator, T: int, B: int, D: int
) -> tuple[Tensor, Tensor, float]:
    ids = torch.randint(D, (B, T), generator=generator)
    return torch.randn(D, D, generator=generator), ids, rng.choice((0.1, 2.0, 5.0))


def _one_prediction(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, float]]:
    """And it is quite wrong: the gradient is as long as it can be, and stays so."""
    return [(300 * torch.eye(4), torch.tensor([[0, rng.randint(1, 3)]]), 2.0)]


STEP = Task(
    name="training_step",
    reference=_step,
    visible=(
        (torch.zeros(2, 2), torch.tensor([[0, 1]]), 1.0),
        (_seeded(1, 4, 4), torch.tensor([[0, 3, 1, 0], [2, 2, 0, 3]]), 0.5),
        (_seeded(2, 3, 3).double(), torch.tensor([[1, 0, 2, 2, 1]]), 2.0),
        (100 * _seeded(3, 3, 3), torch.tensor([[1, 0, 1]]), 1.0),
    ),
    hidden=varied(_drawn_step, {"T": 2, "B": 1, "D": 2}, scaled=((0, 300),), also=_one_prediction),
    forbidden=CROSS_ENTROPIES,
    tolerance=1e-3,
)


# --- generate -------------------------------------------------------------------------------------


def _generate(table: Tensor, ids: Tensor, u: Tensor, temperature: float = 1.0) -> Tensor:
    text = ids.tolist()
    for r in u.tolist():
        p = (table[text[-1]].double() / temperature).softmax(-1)
        text.append(int((p.cumsum(-1) <= r).sum()))
    return torch.tensor(text)


def _inside(table: Tensor, ids: Tensor, n: int, temperature: float, rng: random.Random) -> Tensor:
    """Random numbers that lie well inside the share of some token, at every step of the text."""
    text, u = ids.tolist(), []
    for _ in range(n):
        p = (table[text[-1]].double() / temperature).softmax(-1)
        token = rng.choice([s for s, share in enumerate(p.tolist()) if share > 1e-4])
        u.append(float(p[:token].sum() + p[token] * rng.uniform(0.1, 0.9)))
        text.append(token)
    return torch.tensor(u, dtype=torch.float64)


def _drawn_text(
    rng: random.Random, generator: Generator, n: int, T: int, D: int, tau: float = 0.0
) -> tuple[Any, ...]:
    tau = tau or rng.choice((0.3, 0.5, 1.5, 2.0))
    table = 1.5 * torch.randn(D, D, generator=generator)
    ids = torch.randint(D, (T,), generator=generator)
    return table, ids, _inside(table, ids, n, tau, rng), tau


def _edges(rng: random.Random, generator: Generator) -> list[tuple[Any, ...]]:
    """At the edges of the shares, and of one next to 0; no temperature, long; a very low one."""
    last = torch.tensor([0.0, 0.0, 0.0, 0.0, -999.0]).repeat(5, 1)
    even = torch.tensor(rng.sample([0.0, 0.25, 0.5, 0.75, 0.25, 1 - 1e-9], 6), dtype=torch.float64)
    plain = _drawn_text(rng, generator, 1000, 3, 4, 1.0)[:3]
    cold = _drawn_text(rng, generator, 9, 3, 6, 0.01)
    cold[0][0] += 20  # a row far above the others
    wide = torch.tensor([*(math.log(j % 7 + 1) for j in range(39)), -60.0]).repeat(40, 1)
    edge = (last, torch.tensor([rng.randrange(4)]), even, 2.0)
    return [edge, plain, cold, (wide, plain[1], even.amax(0, keepdim=True))]


_BIGRAM = torch.tensor([[0.0, 1.1, -0.7], [2.0, 0.1, 0.3], [-1.0, 0.4, 0.9]])


GENERATE = Task(
    name="generate",
    reference=_generate,
    visible=(
        (torch.zeros(4, 4), torch.tensor([2]), torch.tensor([0.1, 0.6, 0.25, 0.9]).double(), 1.0),
        (_BIGRAM, torch.tensor([1, 0]), torch.tensor([0.5, 0.2, 0.83, 0.95, 0.4]).double(), 0.5),
        (_BIGRAM, torch.tensor([0, 2]), torch.tensor([0.5, 0.2, 0.83, 0.95, 0.4]).double(), 2.0),
        (_BIGRAM, torch.tensor([2, 1, 1]), torch.tensor([0.3, 0.97, 0.97, 0.6]).double()),
        (_BIGRAM, torch.tensor([2, 1]), torch.zeros(0).double()),
    ),
    # half rounds the edges of the shares
    hidden=varied(_drawn_text, {"n": 0, "T": 1, "D": 2}, dtypes=(torch.float64,), also=_edges),
)


# --- beam_trap ------------------------------------------------------------------------------------


def _trap(D: int, first: int) -> tuple[Tensor, Tensor]:
    """An example: first (.4) leads to a sure end, the second best (.35) to two dead ends."""
    names = [first, *(s for s in range(D) if s != first)]
    small = torch.tensor([[0.3, 0.3, 0.4], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    small[1] = torch.tensor([0.48, 0.52, 0.0])
    start, table = torch.zeros(D), torch.zeros(D, D)
    table[:, names[2]] = 1.0
    start[names[:3]] = torch.tensor([0.4, 0.39, 0.21])
    for i in range(3):
        table[names[i]] = 0
        table[names[i], names[:3]] = small[i]
    return start, table


def _follow(start: Tensor, table: Tensor, width: int) -> tuple[float, list[int]]:
    """The best of three-token texts that so many beams find; one beam is greedy."""
    alive = sorted((-p, [s]) for s, p in enumerate(start.tolist()))[:width]
    for _ in range(2):
        longer = [
            (p * q, [*text, s]) for p, text in alive for s, q in enumerate(table[text[-1]].tolist())
        ]
        alive = sorted(longer)[:width]
    return -alive[0][0], alive[0][1]


def _refuse_trap(args: tuple[Any, ...], answer: Any) -> str | None:
    D, first = args
    two = isinstance(answer, tuple | list) and len(answer) == 2
    if not two or not all(isinstance(each, Tensor) for each in answer):
        return "return two tensors, start and table"
    start, table = (each.double() for each in answer)
    if start.shape != (D,) or table.shape != (D, D):
        return f"start has the shape {tuple(start.shape)} and table {tuple(table.shape)}, expected ({D},) and ({D}, {D})"  # noqa: E501
    if not (torch.isfinite(start).all() and torch.isfinite(table).all()):
        return "a probability is not a finite number"
    if min(start.min(), table.min()) < 0:
        return "a probability is below 0"
    if abs(start.sum() - 1) > 1e-4:
        return f"start must sum to 1, it sums to {start.sum():.3f}"
    sums = table.sum(1)
    if (sums - 1).abs().max() > 1e-4:
        row = int((sums - 1).abs().argmax())
        other = (
            " (its columns do: a row belongs to the token before)"
            if ((table.sum(0) - 1).abs().max() < 1e-4)
            else ""
        )
        return f"every row of the table must sum to 1, row {row} sums to {sums[row]:.3f}{other}"
    (p, greedy), (q, beam) = _follow(start, table, 1), _follow(start, table, 2)
    if greedy[0] != first:
        return f"greedy begins with {greedy[0]}, not with {first}, the token that was asked for"
    if beam == greedy:
        return (
            f"the two beams do not end below greedy: they find the greedy text {greedy}; at step "
            "two both of them must leave its path"
        )
    if q > 0.99 * p:
        return (
            f"the two beams do not end below greedy: {beam} has probability {q:.4f}, greedy "
            f"{greedy} has {p:.4f}; what comes after the beams' tokens must be less certain"
        )
    return None


def _trap_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[int, int]]:
    larger = [(D, rng.randrange(D)) for D in (*rng.sample(range(5, 12), 3), 94)]
    return [(3, 0), (3, 1), (3, 2), (4, rng.randrange(4)), (4, 3), *larger, larger[0]]


TRAP = Task(
    name="beam_trap",
    reference=_trap,
    visible=((3, 0), (3, 2), (4, 1), (5, 1)),
    hidden=_trap_hidden,
    accepts=_refuse_trap,
)


TASKS = (BLOCK, LOSS, STEP, GENERATE, TRAP)
