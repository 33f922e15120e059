"""Tasks of chapter 14: grouped queries, RMSNorm, a cache, the online softmax, four bits."""

import math
import random

import torch
from torch import Generator, Tensor

from grading.properties import converted, varied
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


def _drawn_heads(
    rng: random.Random, generator: Generator, S: int, T: int, n: int, size: int, d_k: int
) -> Heads:
    B, d_v = rng.randint(1, 4), rng.randint(1, 6)
    return _qkv(generator, (B, n * size, n, T, S, d_k, d_v))


def _first_qkv() -> Heads:
    q = torch.zeros(1, 4, 1, 2)
    k = torch.zeros(1, 2, 2, 2)
    return q, k, torch.tensor([[[[1.0], [3.0]], [[10.0], [30.0]]]])


def _faint(rng: random.Random, generator: Generator) -> list[Heads]:
    """A large value of little weight shows a root in single precision."""
    q, k, v = (one.double() for one in _qkv(generator, (1, 1, 1, 1, 2, 3, 1)))
    k[..., 1, :] = k[..., 0, :] - 11 * 3**0.5 * q[..., 0, :] / q.square().sum()
    return [(q, k, v * torch.tensor([[0.0], [1e6]]))]


GROUPED = Task(
    name="grouped_heads",
    reference=_grouped,
    visible=(
        _first_qkv(),
        _qkv(Generator().manual_seed(1), (2, 6, 3, 2, 4, 4, 3)),
        _qkv(Generator().manual_seed(2), (1, 6, 2, 3, 3, 4, 2)),
    ),
    hidden=varied(
        _drawn_heads,
        {"S": 1, "T": 1, "n": 1, "size": 1, "d_k": 1},
        scaled=((0, 5), (0, 300)),
        also=_faint,
    ),
)


# --- rms_rows -------------------------------------------------------------------------------------


def _rms(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Row by row."""
    rows = [row / math.sqrt(float(row.double() @ row.double()) / len(row) + eps) for row in x]
    return torch.stack(rows) * gain


Normed = tuple[Tensor, Tensor, float]


def _drawn_rows(rng: random.Random, generator: Generator, n: int, d: int) -> Normed:
    x = torch.randn(n, d, generator=generator) + 1
    return x, torch.randn(d, generator=generator), rng.choice((1e-5, 0.1, 0.5))


def _no_length(rng: random.Random, generator: Generator) -> list[Normed]:
    """Rows of zeros (ε after the division), and ε = 0 with short rows."""
    x, gain = torch.randn(3, 4, generator=generator), torch.randn(4, generator=generator)
    short = (x.double() / 1e6, gain.double(), 0)
    return [(x * torch.tensor([[1.0], [0.0], [0.0]]), gain, 1e-5), (x / 1000, gain, 0), short]


RMS = Task(
    name="rms_rows",
    reference=_rms,
    visible=(
        (torch.full((1, 4), 3.0), torch.tensor([1.0, 2.0, 3.0, 4.0]), 0.0),
        (torch.tensor([[1.0, 2, 2], [0, 0, 0.1], [0, 0, 0]]), torch.tensor([1.0, 1, 2]), 0.01),
        (torch.tensor([[4.0, -2.0], [1.0, 1.0]]), torch.tensor([0.5, -1.0]), 0.5),
    ),
    hidden=varied(_drawn_rows, {"n": 1, "d": 1}, scaled=((0, 0.01),), also=_no_length),
)


# --- cached_bytes ---------------------------------------------------------------------------------

Sizes = tuple[int, int, int, int, int, int]


def _bytes(T: int, window: int, L: int, H_kv: int, d_k: int, size: int) -> int:
    """Token by token, layer by layer."""
    kept = range(max(0, T - window), T)
    return sum(H_kv * (d_k + d_k) * size for _ in kept for _ in range(L))


def _drawn_sizes(
    rng: random.Random,
    generator: Generator,
    T: int,
    window: int,
    L: int,
    H_kv: int,
    d_k: int,
    size: int,
) -> Sizes:
    return T, window, L, H_kv, d_k, size


CACHED = Task(
    name="cached_bytes",
    reference=_bytes,
    visible=((10, 100, 2, 3, 4, 2), (100, 10, 2, 3, 4, 2), (50, 50, 5, 1, 8, 4)),
    hidden=varied(
        _drawn_sizes,
        {"T": 0, "window": 1, "L": 1, "H_kv": 1, "d_k": 1, "size": 1},
        dtypes=(),
        # too many for 32 bits; what a part of a million rounds
        also=lambda *_: [(5000, 4097, 81, 9, 129, 3), *((k, 99, 3, 3, 11, 1) for k in range(1, 9))],
    ),
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


def _drawn_state(rng: random.Random, generator: Generator, b: int, n: int, d: int) -> State:
    m, scores = torch.randn(n, generator=generator), torch.randn(n, b, generator=generator)
    total, output = (
        1 + 3 * torch.rand(n, generator=generator),
        torch.randn(n, d, generator=generator),
    )
    return 2 * m, total, output, 2 * scores, torch.randn(b, d, generator=generator)


def _apart(rng: random.Random, generator: Generator) -> list[State]:
    """m is −∞ at first, and scores may be; no number shifts all queries; one of each."""
    m, total, output, scores, values = _drawn_state(rng, generator, 3, 4, 2)
    none = m - torch.inf, 0 * total, 0 * output
    far = torch.tensor([500.0, -500.0, 0.0, 200.0])
    return [
        (*none, scores - torch.tensor([torch.inf, 0, 0]), values),
        (*none, scores - 500, values),
        converted((*none, scores - 4e5, values), torch.float64),
        (m + far, total, output, scores + far[:, None], values),
        (scores.amax(1), total, output, scores, values),  # the block's largest is the old one
        _drawn_state(rng, generator, 1, 1, 2),
    ]


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
            torch.tensor([[-torch.inf, -1003.0, -1004.0]]),
            torch.tensor([[5.0, 6.0], [1.0, 2.0], [3.0, 4.0]]),
        ),
    ),
    hidden=varied(_drawn_state, {"b": 1, "n": 1, "d": 1}, scaled=((0, 100), (3, 100)), also=_apart),
)


# --- unpacked_blocks ------------------------------------------------------------------------------

Packed = tuple[Tensor, Tensor, Tensor]


def _unpacked(packed: Tensor, d: Tensor, m: Tensor) -> Tensor:
    """Number by number."""
    rows = []
    for block, scale, least in zip(packed.tolist(), d.tolist(), m.tolist(), strict=True):
        q = [byte % 16 for byte in block] + [byte // 16 for byte in block]
        rows.append([scale * x + least for x in q])
    return torch.tensor(rows, dtype=d.dtype)


def _blocks(rng: random.Random | None, generator: Generator, n: int) -> Packed:
    packed = torch.randint(256, (n, 16), generator=generator, dtype=torch.uint8)
    d, m = torch.randn(2, n, generator=generator)
    return packed, d, m


BLOCKS = Task(
    name="unpacked_blocks",
    reference=_unpacked,
    visible=(
        (torch.full((1, 16), 0x92, dtype=torch.uint8), torch.tensor([0.5]), torch.tensor([-1.0])),
        _blocks(None, Generator().manual_seed(3), 2),
        (
            torch.arange(0, 256, 16, dtype=torch.uint8)[None] + 3,
            torch.tensor([1.0]),
            torch.tensor([0.25]),
        ),
    ),
    hidden=varied(
        _blocks,
        {"n": 1},
        also=lambda rng, generator: [_blocks(rng, generator, 16)],  # as many as a block has bytes
    ),
)


TASKS: tuple[Task, ...] = (GROUPED, RMS, CACHED, STEP, BLOCKS)
