"""Tasks of chapter 14: grouped queries, RMSNorm, a cache, the online softmax, four bits."""

import math
import random
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from grading.task import Task

# --- grouped_heads --------------------------------------------------------------------------------


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Head by head."""
    size = q.shape[1] // k.shape[1]
    heads = []
    for h in range(q.shape[1]):
        scores = q[:, h] @ k[:, h // size].mT / math.sqrt(q.shape[-1])
        heads.append(scores.softmax(-1) @ v[:, h // size])
    return torch.stack(heads, 1)


Heads = tuple[Tensor, Tensor, Tensor]


def _qkv(generator: Generator, sizes: tuple[int, ...]) -> Heads:
    B, H, n, T, S, d, d_v = sizes
    shapes = (B, H, T, d), (B, n, S, d), (B, n, S, d_v)
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v


def _grouped_hidden(rng: random.Random, generator: Generator) -> Sequence[Heads]:
    groups = [(6, 2), (6, 3), (8, 2), (4, 4), (4, 1), (9, 3)]
    cases = []
    for H, n in rng.sample(groups, len(groups)):
        sizes = (rng.randint(1, 3), H, n, rng.randint(2, 5), rng.randint(3, 6), 4, 3)
        cases.append(_qkv(generator, sizes))
    cases += [_qkv(generator, (4, 4, 2, 4, 4, 4, 4)), _qkv(generator, (2, 4, 2, 1, 7, 8, 5))]
    q, k, v = _qkv(generator, (2, 4, 2, 3, 5, 4, 2))
    return [*cases, (q.double(), k.double(), v.double()), (100 * q, k, v)]


def _first_qkv() -> Heads:
    q = torch.zeros(1, 4, 1, 2)
    k = torch.zeros(1, 2, 2, 2)
    return q, k, torch.tensor([[[[1.0], [3.0]], [[10.0], [30.0]]]])


GROUPED = Task(
    name="grouped_heads",
    reference=_grouped,
    visible=(
        _first_qkv(),
        _qkv(Generator().manual_seed(1), (2, 6, 3, 2, 4, 4, 3)),
        _qkv(Generator().manual_seed(2), (1, 6, 2, 3, 3, 4, 2)),
    ),
    hidden=_grouped_hidden,
)


# --- rms_rows -------------------------------------------------------------------------------------


def _rms(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Row by row."""
    rows = [row / math.sqrt(float(row.double() @ row.double()) / len(row) + eps) for row in x]
    return torch.stack(rows) * gain


Normed = tuple[Tensor, Tensor, float]


def _rms_hidden(rng: random.Random, generator: Generator) -> Sequence[Normed]:
    cases = []
    for scale, eps in ((1.0, 1e-5), (0.01, 1e-4), (100.0, 1e-5), (1.0, 0.5)):
        n, d = rng.sample(range(2, 9), 2)
        x = scale * (torch.randn(n, d, generator=generator) + 1)
        cases.append((x, torch.randn(d, generator=generator), eps))
    square = torch.randn(2, 5, 5, generator=generator)
    cases += [(square[0], square[1, 0], 0.1), (torch.zeros(2, 3), torch.ones(3), 1e-5)]
    x, gain, eps = cases[0]
    return [*cases, (x.double(), gain.double(), eps)]


RMS = Task(
    name="rms_rows",
    reference=_rms,
    visible=(
        (torch.full((1, 4), 3.0), torch.tensor([1.0, 2.0, 3.0, 4.0]), 0.0),
        (torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, 0.1]]), torch.tensor([1.0, 1.0, 2.0]), 0.01),
        (torch.tensor([[4.0, -2.0], [1.0, 1.0]]), torch.tensor([0.5, -1.0]), 0.5),
    ),
    hidden=_rms_hidden,
)


# --- cached_bytes ---------------------------------------------------------------------------------

Sizes = tuple[int, int, int, int, int, int]


def _bytes(T: int, window: int, L: int, H_kv: int, d_k: int, size: int) -> int:
    """Token by token, layer by layer."""
    kept = range(max(0, T - window), T)
    return sum(H_kv * (d_k + d_k) * size for _ in kept for _ in range(L))


def _bytes_hidden(rng: random.Random, generator: Generator) -> Sequence[Sizes]:
    cases: list[Sizes] = []
    for i in range(8):
        window = rng.randint(5, 60)
        T = window + rng.randint(1, 50) if i % 2 else window - rng.randint(1, 4)
        cases.append((T, window, rng.randint(2, 9), rng.randint(2, 8), rng.randint(3, 64), 4))
    return [*cases, (7, 7, 3, 1, 5, 2), (0, 4, 3, 2, 8, 2), (1, 1, 1, 1, 1, 1)]


CACHED = Task(
    name="cached_bytes",
    reference=_bytes,
    visible=((10, 100, 2, 3, 4, 2), (100, 10, 2, 3, 4, 2), (50, 50, 5, 1, 8, 4)),
    hidden=_bytes_hidden,
)


# --- online_step ----------------------------------------------------------------------------------

State = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _step(m: Tensor, total: Tensor, output: Tensor, scores: Tensor, values: Tensor) -> Tensor:
    """Query by query."""
    rows = []
    for a, b, c, s in zip(m, total, output, scores, strict=True):
        top = max(float(a), float(s.max()))
        weights = (s - top).exp()
        shrink = math.exp(float(a) - top)
        row = torch.cat([b[None] * shrink + weights.sum(), c * shrink + weights @ values])
        rows.append(torch.cat([row.new_tensor([top]), row]))
    return torch.stack(rows)


def _state(rng: random.Random, generator: Generator, scale: float = 2.0) -> State:
    n, b, d = (rng.randint(2, 5) for _ in range(3))
    m = scale * torch.randn(n, generator=generator)
    total = 1 + 3 * torch.rand(n, generator=generator)
    output = torch.randn(n, d, generator=generator)
    scores = scale * torch.randn(n, b, generator=generator)
    return m, total, output, scores, torch.randn(b, d, generator=generator)


def _step_hidden(rng: random.Random, generator: Generator) -> Sequence[State]:
    cases = [_state(rng, generator) for _ in range(5)]
    m, total, output, scores, values = cases[0]
    cases.append((m - torch.inf, 0 * total, 0 * output, scores, values))
    cases.append((m + 500, total, output, scores + 490, values))
    return [*cases, tuple(part.double() for part in cases[1])]  # type: ignore[list-item]


STEP = Task(
    name="online_step",
    reference=_step,
    visible=(
        (
            torch.zeros(1),
            torch.ones(1),
            torch.tensor([[4.0]]),
            torch.tensor([[math.log(2.0), 0.0]]),
            torch.tensor([[10.0], [20.0]]),
        ),
        (
            torch.tensor([1.0, 3.0]),
            torch.tensor([1.5, 2.0]),
            torch.tensor([[1.0, 0.0], [0.0, 2.0]]),
            torch.tensor([[2.0, 0.0, 1.0], [1.0, 2.0, 0.0]]),
            torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]),
        ),
        (
            torch.tensor([-torch.inf]),
            torch.zeros(1),
            torch.zeros(1, 2),
            torch.tensor([[-3.0, -4.0]]),
            torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        ),
    ),
    hidden=_step_hidden,
)


# --- unpacked_blocks ------------------------------------------------------------------------------

Packed = tuple[Tensor, Tensor, Tensor]


def _unpacked(packed: Tensor, d: Tensor, m: Tensor) -> Tensor:
    """Number by number."""
    rows = []
    for block, scale, least in zip(packed.tolist(), d, m, strict=True):
        q = [byte % 16 for byte in block] + [byte // 16 for byte in block]
        rows.append(torch.stack([scale * x + least for x in q]))
    return torch.stack(rows)


def _blocks(generator: Generator, n: int) -> Packed:
    packed = torch.randint(256, (n, 16), generator=generator, dtype=torch.uint8)
    d, m = torch.randn(2, n, generator=generator)
    return packed, d.abs() + 0.1, m


def _unpacked_hidden(rng: random.Random, generator: Generator) -> Sequence[Packed]:
    cases = [_blocks(generator, n) for n in (1, rng.randint(2, 6), 16, rng.randint(20, 30))]
    packed, d, m = _blocks(generator, 3)
    return [*cases, (packed, d.double(), m.double()), (packed, d, 0 * m), (packed, -d, m)]


BLOCKS = Task(
    name="unpacked_blocks",
    reference=_unpacked,
    visible=(
        (torch.full((1, 16), 0x92, dtype=torch.uint8), torch.tensor([0.5]), torch.tensor([-1.0])),
        _blocks(Generator().manual_seed(3), 2),
        (
            torch.arange(0, 256, 16, dtype=torch.uint8)[None] + 3,
            torch.tensor([1.0]),
            torch.tensor([0.25]),
        ),
    ),
    hidden=_unpacked_hidden,
)


TASKS: tuple[Task, ...] = (GROUPED, RMS, CACHED, STEP, BLOCKS)
