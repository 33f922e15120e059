"""Tasks of chapter 05: a block, the loss, a training step, a text drawn, a trap for beams."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from grading.task import Task

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


def _block_by(
    mask: bool = True,
    scale: bool = True,
    first: bool = True,
    second: bool = True,
    act: Callable[[Tensor], Tensor] = F.relu,
    reads: str = "norm",
    correction: int = 0,
) -> Callable[..., Tensor]:
    """A block with one head, right as it stands, and wrong with another setting."""

    def norm(x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / (
            x.var(-1, correction=correction, keepdim=True) + 1e-5
        ).sqrt()

    def block(
        x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, W_1: Tensor, W_2: Tensor
    ) -> Tensor:
        seen = x if reads == "nothing" else norm(x)
        scores = torch.einsum("...ik,...jk->...ij", seen @ W_Q, seen @ W_K)
        scores = scores / W_Q.shape[1] ** 0.5 if scale else scores
        future = torch.arange(x.shape[-2]) > torch.arange(x.shape[-2])[:, None]
        A = (scores.masked_fill(future, -torch.inf) if mask else scores).softmax(-1)
        after = (x if first else 0) + A @ (seen @ W_V) @ W_O
        if reads == "stream":
            after = norm(after)
        seen = {"nothing": after, "stream": after, "before": norm(x), "late": after}.get(
            reads, norm(after)
        )
        return (after if second else 0) + act(seen @ W_1) @ W_2

    return block


def _block(
    x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, W_1: Tensor, W_2: Tensor
) -> Tensor:
    return _block_by()(x, W_Q, W_K, W_V, W_O, W_1, W_2)


def _block_args(draw: Callable[..., Tensor], lead: tuple[int, ...], *sizes: int) -> Any:
    """Inputs for T, d, d_k, d_v, d_ff."""
    T, d, d_k, d_v, d_ff = sizes
    shapes = ((d, d_k), (d, d_k), (d, d_v), (d_v, d), (d, d_ff), (d_ff, d))
    return (draw(*lead, T, d), *(draw(*shape) for shape in shapes))


def _block_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Any, ...]]:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    cases = []
    for lead in ((), (rng.randint(2, 4),), (2, 3), (1,), ()):
        sizes = rng.sample(range(3, 10), 5)
        cases.append(_block_args(draw, lead, *sizes))
    cases[2] = tuple(each.double() for each in cases[2])
    n = rng.randint(4, 6)
    cases += [_block_args(draw, (n,), n, n, n, n, n) for _ in range(2)]  # all axes alike, twice
    cases.append(_block_args(draw, (), 1, 4, 3, 2, 5))  # a single token
    small = _block_args(draw, (2,), 5, 4, 3, 6, 7)
    cases.append((0.003 * small[0], *small[1:]))  # ε decides here
    return cases


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
    hidden=_block_hidden,
    tolerance=1e-3,
)


# --- next_token_loss ------------------------------------------------------------------------------


def _loss(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].mT, ids[:, 1:])


def _loss_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, Tensor]]:
    cases = []
    for B in (1, 2, 3, rng.randint(4, 6), 2):
        T, D = rng.sample(range(3, 12), 2)
        logits = 2 * torch.randn(B, T, D, generator=generator) + rng.uniform(-3, 3)
        cases.append((logits, torch.randint(D, (B, T), generator=generator)))
    cases[-1] = (cases[-1][0].double(), cases[-1][1])
    cases.append((1000 * cases[0][0], cases[0][1]))  # exp of these is too large for a float
    n = rng.randint(4, 6)
    for shape in ((n, n, n), (n, n, n), (3, 2, 5)):  # all axes alike, twice; a single prediction
        logits = 2 * torch.randn(*shape, generator=generator)
        cases.append((logits, torch.randint(shape[-1], shape[:2], generator=generator)))
    cases.append((torch.zeros(2, 3, 4).half(), torch.randint(4, (2, 3), generator=generator)))
    return cases


LOSS = Task(
    name="next_token_loss",
    reference=_loss,
    visible=(
        (torch.zeros(1, 3, 4), torch.tensor([[0, 3, 1]])),
        (_seeded(3, 2, 4, 5), torch.tensor([[0, 4, 2, 1], [3, 3, 0, 2]])),
        (_seeded(4, 3, 3, 6).double(), torch.tensor([[0, 1, 2], [5, 0, 4], [3, 3, 1]])),
        (200 * _seeded(5, 1, 3, 4), torch.tensor([[1, 3, 0]])),
    ),
    hidden=_loss_hidden,
    forbidden=CROSS_ENTROPIES,
)


# --- training_step --------------------------------------------------------------------------------


def _step_by(
    sign: int = -1, size: Callable[[Tensor], int] = lambda ids: ids[:, 1:].numel()
) -> Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]:
    """A step along the gradient, which is p − 1 at the next token, added up at the row read."""

    def step(W: Tensor, ids: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        read, following = ids[:, :-1].flatten(), ids[:, 1:].flatten()
        log_p = W[read].log_softmax(-1)
        wrong = log_p.exp() - F.one_hot(following, W.shape[1])
        gradient = torch.zeros_like(W).index_add(0, read, wrong.to(W)) / size(ids)
        return W + sign * lr * gradient, -log_p.gather(-1, following[:, None]).mean()

    return step


def _step(W: Tensor, ids: Tensor, lr: float) -> tuple[Tensor, Tensor]:
    return _step_by()(W, ids, lr)


def _step_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Any, ...]]:
    cases: list[tuple[Any, ...]] = []
    for B in (1, 2, 3, rng.randint(4, 6), 2):
        T, D = rng.sample(range(3, 9), 2)
        W = torch.randn(D, D, generator=generator)
        cases.append(
            (W, torch.randint(D, (B, T), generator=generator), rng.choice((0.1, 1.0, 5.0)))
        )
    cases[-1] = (cases[-1][0].double(), *cases[-1][1:])
    n = rng.randint(4, 6)
    for _ in range(2):  # all axes alike, twice
        W = torch.randn(n, n, generator=generator)
        cases.append((W, torch.randint(n, (n, n), generator=generator), 2.0))
    cases.append((200 * cases[0][0], cases[0][1], 1.0))  # exp of these is too large for a float
    return cases


STEP = Task(
    name="training_step",
    reference=_step,
    visible=(
        (torch.zeros(2, 2), torch.tensor([[0, 1]]), 1.0),
        (_seeded(1, 4, 4), torch.tensor([[0, 3, 1, 0], [2, 2, 0, 3]]), 0.5),
        (_seeded(2, 3, 3).double(), torch.tensor([[1, 0, 2, 2, 1]]), 2.0),
        (100 * _seeded(3, 3, 3), torch.tensor([[1, 0, 1]]), 1.0),
    ),
    hidden=_step_hidden,
    forbidden=CROSS_ENTROPIES,
    tolerance=1e-3,
    fresh=True,
)


# --- generate -------------------------------------------------------------------------------------


def _generate_by(
    sharpen: Callable[[Tensor, float], Tensor] = lambda row, tau: (row / tau).softmax(-1),
    choose: Callable[[Tensor, float], int] = lambda p, r: int((p.cumsum(-1) <= r).sum()),
    asks: int = -1,
) -> Callable[..., Tensor]:
    def generate(table: Tensor, ids: Tensor, u: Tensor, temperature: float = 1.0) -> Tensor:
        text = ids.tolist()
        last = text[-1]
        for r in u.tolist():
            row = table[last if asks == 1 else text[asks]].double()
            text.append(choose(sharpen(row, temperature), r))
        return torch.tensor(text)

    return generate


def _generate(table: Tensor, ids: Tensor, u: Tensor, temperature: float = 1.0) -> Tensor:
    return _generate_by()(table, ids, u, temperature)


def _inside(table: Tensor, ids: Tensor, n: int, temperature: float, rng: random.Random) -> Tensor:
    """Random numbers that lie well inside the share of some token, at every step of the text."""
    text, u = ids.tolist(), []
    for _ in range(n):
        p = (table[text[-1]].double() / temperature).softmax(-1)
        token = rng.choice([s for s, share in enumerate(p.tolist()) if share > 0.02])
        u.append(float(p[:token].sum() + p[token] * rng.uniform(0.1, 0.9)))
        text.append(token)
    return torch.tensor(u, dtype=torch.float64)


def _generate_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Any, ...]]:
    cases: list[tuple[Any, ...]] = []
    for tau in (1.0, 0.5, 2.0, 0.3, None, 1.5, 0.7):
        D, T, n = rng.sample(range(3, 12), 3)
        table = 1.5 * torch.randn(D, D, generator=generator)
        ids = torch.randint(D, (T,), generator=generator)
        u = _inside(table, ids, n, 1.0 if tau is None else tau, rng)
        cases.append((table, ids, u) if tau is None else (table, ids, u, tau))
    cases[1] = (cases[1][0].double(), *cases[1][1:])
    even = torch.tensor(rng.sample([0.0, 0.25, 0.5, 0.75, 0.25, 0.5], 6), dtype=torch.float64)
    cases.append((torch.zeros(4, 4), torch.tensor([rng.randrange(4)]), even, 2.0))  # at the edges
    cases.append((cases[0][0], cases[0][1], torch.zeros(0, dtype=torch.float64), 1.0))
    return cases


_BIGRAM = torch.tensor([[0.0, 1.1, -0.7], [2.0, 0.1, 0.3], [-1.0, 0.4, 0.9]])


GENERATE = Task(
    name="generate",
    reference=_generate,
    visible=(
        (torch.zeros(4, 4), torch.tensor([2]), torch.tensor([0.1, 0.6, 0.25, 0.9]).double(), 1.0),
        (_BIGRAM, torch.tensor([1, 0]), torch.tensor([0.5, 0.2, 0.83, 0.95, 0.4]).double(), 0.5),
        (_BIGRAM, torch.tensor([0, 2]), torch.tensor([0.5, 0.2, 0.83, 0.95, 0.4]).double(), 2.0),
        (_BIGRAM, torch.tensor([2, 1, 1]), torch.tensor([0.3, 0.97, 0.97, 0.6]).double()),
    ),
    hidden=_generate_hidden,
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
    larger = [(D, rng.randrange(D)) for D in rng.sample(range(5, 12), 3)]
    return [(3, 0), (3, 1), (3, 2), (4, rng.randrange(4)), (4, 3), *larger, larger[0]]


TRAP = Task(
    name="beam_trap",
    reference=_trap,
    visible=((3, 0), (3, 2), (4, 1), (5, 1)),
    hidden=_trap_hidden,
    accepts=_refuse_trap,
)


TASKS = (BLOCK, LOSS, STEP, GENERATE, TRAP)
