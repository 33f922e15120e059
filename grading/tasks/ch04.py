"""Tasks of chapter 04: attention, the causal mask, W_QK, heads that add, words."""

import math
import random

import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task

Lead = tuple[int, ...]


def _table(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


# --- attend: scaled dot-product attention ---------------------------------------------------------


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """PyTorch's own; its weights are its output for values that are the unit vectors."""
    ours = torch.nn.functional.scaled_dot_product_attention
    units = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-2], -1, -1)
    return ours(q, k, v), ours(q, k, units)


def _drawn_qkv(
    rng: random.Random, generator: Generator, s: int, t: int, d_k: int, d_v: int, lead: Lead
) -> tuple[Tensor, ...]:
    shapes = ((t, d_k), (s, d_k), (s, d_v))
    return tuple(torch.randn(*lead, *shape, generator=generator) for shape in shapes)


H = math.log(3) / 2  # a score of 4 · H / 2 = ln 3: weights 3/4 and 1/4

ATTEND = Task(
    name="attend",
    reference=_attend,
    visible=(
        (_table([[1, 1, 1, 1]]), _table([[H] * 4, [0] * 4]), _table([[4, 0, 8], [0, 4, 8]])),
        (_tenths(1, 2, 3, 5), _tenths(2, 2, 4, 5), 9000 * _tenths(3, 2, 4, 2)),
        (_table([[20, 0, 0, 0]]), _table([[20, 0, 0, 0], [19.8, 0, 0, 0]]), _table([[1], [0]])),
        # a batch and its heads
        (_tenths(9, 1, 2, 2, 4), _tenths(10, 1, 2, 3, 4), _tenths(11, 1, 2, 3, 2)),
        # scores (500, 0) and (−500, −501)
        (
            _table([[1, 0, 0, 0], [0, 1, 0, 0]]),
            _table([[1000, -1000, 0, 0], [0, -1002, 0, 0]]),
            _table([[1], [0]]),
        ),
        # as many queries as keys, and nothing is hidden; three leading axes
        (_tenths(12, 2, 1, 2, 3, 2), _tenths(13, 2, 1, 2, 3, 2), _tenths(14, 2, 1, 2, 3, 1)),
    ),
    hidden=varied(
        _drawn_qkv, {"s": 1, "t": 1, "d_k": 1, "d_v": 1}, lead=True, scaled=((0, 300), (2, 300))
    ),
    forbidden=(
        "scaled_dot_product_attention",
        "MultiheadAttention",
        "multi_head_attention_forward",
    ),
)


# --- causal_weights: the mask of the lecture notes, corrected -------------------------------------


def _causal_weights(scores: Tensor) -> Tensor:
    """Row by row: the softmax of what a row may see, zeros for the rest; in double precision."""
    rows = scores.double().reshape(-1, *scores.shape[-2:])
    answer = torch.zeros_like(rows)
    for b in range(rows.shape[0]):
        for s in range(rows.shape[1]):
            seen = [float(score) for score in rows[b, s, : s + 1]]
            parts = [math.exp(score - max(seen)) for score in seen]
            answer[b, s, : s + 1] = torch.tensor(parts, dtype=torch.float64) / sum(parts)
    return answer.reshape(scores.shape).to(scores.dtype)


def _drawn_scores(rng: random.Random, generator: Generator, T: int, lead: Lead) -> tuple[Tensor]:
    return (torch.randn(*lead, T, T, generator=generator),)


def _extreme(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    loud, tilted = (torch.randn(2, 4, 4, generator=generator) for _ in range(2))
    low = 10.0 ** rng.randint(10, 14)  # below every finite mask constant in use
    loud[..., :2] -= low * torch.ones(4, 2).tril()
    tilted[..., -1] += rng.randint(150, 300)  # the last source drowns all others
    least = torch.finfo(torch.float32).min
    far = torch.tensor([[least, 0, 0], [350, 151, 0], [150, 151, 149]])  # beyond ±80, and apart
    return [(case,) for case in (loud, tilted, far)]


CAUSAL = Task(
    name="causal_weights",
    reference=_causal_weights,
    visible=(
        (_table([[1, 2, 0], [0, 0, -3], [-1, -1, -1]]),),
        (_tenths(4, 2, 4, 4),),
        (_table([[-1e12, 2, 5], [0, 1, 2], [0, 0, 0]]),),
        (_table([[0, 300], [300, 0]]),),
        (_table([[-300, -291], [150, 151]]),),
        (_tenths(5, 3, 3, 3),),
    ),
    hidden=varied(_drawn_scores, {"T": 1}, lead=True, scaled=((0, 300), (0, 0.003)), also=_extreme),
)


# --- merged_weights: A = x W_QKᵀ xᵀ, corrected ----------------------------------------------------


def _merged_weights(x: Tensor, W_QK: Tensor, d_k: int) -> Tensor:
    """Three loops, in double precision."""
    answer = torch.zeros(x.shape[0], x.shape[1], x.shape[1], dtype=torch.float64)
    for b, text in enumerate(x.double()):
        for s, asks in enumerate(text):
            scores = [float(asks @ W_QK.double() @ answers) / math.sqrt(d_k) for answers in text]
            parts = [math.exp(score - max(scores)) for score in scores]
            answer[b, s] = torch.tensor(parts, dtype=torch.float64) / sum(parts)
    return answer.to(x.dtype)


def _drawn_merged(
    rng: random.Random, generator: Generator, T: int, B: int, d: int, d_k: int
) -> tuple[Tensor, Tensor, int]:
    left, right = torch.randn(2, d, d_k, generator=generator)
    return torch.randn(B, T, d, generator=generator), left @ right.T / d**0.5, d_k


L2 = 2 * math.log(2)  # with d_k = 4 the score is ln 2

MERGED = Task(
    name="merged_weights",
    reference=_merged_weights,
    visible=(
        (_table([[1, 0], [0, 1]])[None], _table([[0, L2], [0, 0]]), 4),
        (_tenths(5, 2, 4, 3), _tenths(6, 3, 2) @ _tenths(15, 2, 3), 2),  # of rank 2
        (30 * _tenths(12, 2, 3, 2), _tenths(13, 2, 2), 2),
    ),
    hidden=varied(
        _drawn_merged,
        {"T": 1, "B": 1, "d": 1, "d_k": 1},
        scaled=((0, 9), (1, 0.003)),
        also=lambda *_: [(torch.eye(1, 40).mT[None].double(), _table([[15.5]]).double(), 18)],
    ),  # what a root in single precision shows
    forbidden=("scaled_dot_product_attention",),
)


# --- head_contributions: concatenation is a sum ---------------------------------------------------


def _head_contributions(heads: Tensor, W_O: Tensor) -> Tensor:
    """Silence all heads but one, concatenate, multiply: what comes out is that head's share."""
    shares = []
    for alone in range(heads.shape[1]):
        silent = [head * (h == alone) for h, head in enumerate(heads.unbind(1))]
        shares.append(torch.cat(silent, dim=-1) @ W_O)
    return torch.stack(shares, dim=1)


def _drawn_heads(
    rng: random.Random, generator: Generator, T: int, B: int, H: int, d_v: int, d: int
) -> tuple[Tensor, Tensor]:
    heads = torch.randn(B, H, T, d_v, generator=generator)
    return heads, torch.randn(H * d_v, d, generator=generator)


def _one_loud(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    """Beside it the others are lost in a sum; nothing cancels, so rounding does not show."""
    heads, W_O = (part.abs() for part in _drawn_heads(rng, generator, 3, 2, 4, 2, 5))
    heads[:, rng.randrange(4)] *= 1e5
    return [(heads, W_O)]


HEADS = Task(
    name="head_contributions",
    reference=_head_contributions,
    visible=(
        (
            torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[2.0, 0.0]] * 3]]),
            _table([[1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [0, 0, 1, 0, 0], [7, 7, 7, 7, 7]]),
        ),
        (_tenths(7, 2, 3, 4, 2) * 10 ** torch.tensor([9, 0, 0])[:, None, None], _tenths(8, 6, 5)),
    ),
    hidden=varied(_drawn_heads, {"T": 1, "B": 1, "H": 1, "d_v": 1, "d": 1}, also=_one_loud),
)


# --- word_map: sum to, average from ---------------------------------------------------------------


def _word_map(weights: Tensor, word_ids: list[int]) -> Tensor:
    """Cell by cell."""
    count = max(word_ids) + 1
    answer = torch.zeros(weights.shape[0], count, count, dtype=weights.dtype)
    for h, one in enumerate(weights):
        for i in range(count):
            rows = [one[s] for s, word in enumerate(word_ids) if word == i]
            for j in range(count):
                to = [float(row[t]) for row in rows for t, word in enumerate(word_ids) if word == j]
                answer[h, i, j] = sum(to) / len(rows)
    return answer


def _drawn_words(
    rng: random.Random, generator: Generator, W: int, H: int
) -> tuple[Tensor, list[int]]:
    word_ids = sorted([*range(W), *rng.choices(range(W), k=rng.randint(1, 4))])
    scores = 2 * torch.randn(H, len(word_ids), len(word_ids), generator=generator)
    return scores.softmax(-1), word_ids


def _uncut(rng: random.Random, generator: Generator) -> list[tuple[Tensor, list[int]]]:
    """Words of one piece each, and as many heads as tokens."""
    return [(torch.randn(4, 4, 4, generator=generator).softmax(-1), list(range(4)))]


WORDS = Task(
    name="word_map",
    reference=_word_map,
    visible=(
        (_table([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.1, 0.3, 0.6]])[None], [0, 1, 1]),
        (
            torch.tensor(
                [
                    [[4, 3, 2, 1], [1, 1, 6, 2], [5, 1, 2, 2], [1, 2, 3, 4]],
                    [[10, 0, 0, 0], [7, 3, 0, 0], [2, 5, 3, 0], [1, 3, 2, 4]],
                ]
            ).double()
            / 10,
            [0, 0, 0, 1],
        ),
    ),
    hidden=varied(_drawn_words, {"W": 1, "H": 1}, also=_uncut),
)

TASKS: tuple[Task, ...] = (ATTEND, CAUSAL, MERGED, HEADS, WORDS)
