"""Tasks of chapter 04: attention, the causal mask, W_QK, heads that add, words."""

import math
import random
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from grading.task import Task

INF = math.inf


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


def _attend_by(
    scale: Callable[[Tensor, Tensor, Tensor], float], axis: int = -1
) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    def wrong(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = (q @ k.mT / scale(q, k, v)).softmax(axis)
        return weights @ v, weights

    return wrong


def _attend_late(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.mT).softmax(-1) / q.shape[-1] ** 0.5
    return weights @ v, weights


def _attend_unshifted(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    parts = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    weights = parts / parts.sum(-1, keepdim=True)
    return weights @ v, weights


def _attend_one_top(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    parts = (scores - scores.max()).exp()
    weights = parts / parts.sum(-1, keepdim=True)
    return weights @ v, weights


def _attend_axis_2(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.softmax(min(2, scores.ndim - 1))
    return weights @ v, weights


def _attend_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    cases = []
    for lead in ((), (2, 3, 2), (2, 3), (1,), (3,)):
        queries, keys = rng.sample(range(2, 9), 2)
        d_k, d_v = rng.sample(range(2, 12), 2)
        shapes = ((queries, d_k), (keys, d_k), (keys, d_v))
        cases.append(tuple(torch.randn(*lead, *s, generator=generator) for s in shapes))
    cases[-1] = tuple(each.double() for each in cases[-1])
    for _ in range(2):  # all sizes alike, and once more: nothing is hidden, nothing is kept
        cases.append(tuple(torch.randn(4, 4, 4, generator=generator) for _ in "qkv"))
    loud = rng.randint(20, 40) * torch.randn(2, 3, 4, generator=generator)  # e to this overflows
    cases.append((loud, loud.clone(), torch.randn(2, 3, 2, generator=generator)))
    rows = _table([[500, 0], [-rng.randint(400, 600), 0]])  # the second far below the first
    cases.append((rows, _table([[1, 0], [1.01, 1]]), torch.randn(2, 3, generator=generator)))
    return cases


H = math.log(3) / 2  # a score of 4 · H / 2 = ln 3: weights 3/4 and 1/4

ATTEND = Task(
    name="attend",
    reference=_attend,
    visible=(
        (_table([[1, 1, 1, 1]]), _table([[H] * 4, [0] * 4]), _table([[4, 0, 8], [0, 4, 8]])),
        (_tenths(1, 2, 3, 5), _tenths(2, 2, 4, 5), _tenths(3, 2, 4, 2)),
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
    hidden=_attend_hidden,
    mistakes={
        "you subtract one largest score for all rows. Where a row lies far below it, all its "
        "exponentials are 0, and 0/0 is NaN: each row has a largest score of its own, "
        "amax(-1, keepdim=True).": _attend_one_top,
        "your softmax is over axis 2. Those are the keys where one axis stands in front; with a "
        "batch and its heads they are axis 3. Count from the end: dim=-1.": _attend_axis_2,
        "you take the exponentials yourself, and e²⁰⁰ overflows: subtract the largest score of "
        "each row first, or let softmax do it.": _attend_unshifted,
        "you do not divide the scores: before the softmax they are divided by √d_k, the square "
        "root of the width of a query.": _attend_by(lambda q, k, v: 1),
        "you divide the scores by d_k itself. It is the square root of d_k.": _attend_by(
            lambda q, k, v: q.shape[-1]
        ),
        "you divide by the root of the width of the values. What counts is d_k, the width of "
        "queries and keys: q.shape[-1].": _attend_by(lambda q, k, v: v.shape[-1] ** 0.5),
        "you divide by the root of the number of keys. What counts is d_k, their width: the last "
        "axis.": _attend_by(lambda q, k, v: k.shape[-2] ** 0.5),
        "your weights sum to 1 along the query axis: each column is shared out among the queries. "
        "The softmax goes over the keys, the last axis of q kᵀ (dim=-1), and nothing is turned "
        "after it.": _attend_by(lambda q, k, v: q.shape[-1] ** 0.5, axis=-2),
        "you divide by √d_k after the softmax. Then the rows sum to 1/√d_k; divide the scores "
        "before it.": _attend_late,
        "you return the output alone. The task asks for two things: return output, weights.": (
            lambda q, k, v: _attend(q, k, v)[0]
        ),
        "you return the weights alone. The task asks for two things: return output, weights.": (
            lambda q, k, v: _attend(q, k, v)[1]
        ),
        "you return the two in the wrong order: the output comes first, then the weights.": (
            lambda q, k, v: _attend(q, k, v)[::-1]
        ),
    },
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


def _future(scores: Tensor, shift: int = 0) -> Tensor:
    """True where the source stands more than `shift` positions after the destination."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + shift)


def _filled(constant: float, shift: int = 0, axis: int = -1) -> Callable[[Tensor], Tensor]:
    return lambda scores: scores.masked_fill(_future(scores, shift), constant).softmax(axis)


def _allowed_hidden(scores: Tensor) -> Tensor:
    return scores.masked_fill(~_future(scores), -INF).softmax(-1)


def _multiplied(scores: Tensor) -> Tensor:
    return (scores * torch.ones(scores.shape[-2:]).masked_fill(_future(scores), -INF)).softmax(-1)


def _late(scores: Tensor) -> Tensor:
    return scores.softmax(-1).masked_fill(_future(scores), 0)


def _unshifted(scores: Tensor) -> Tensor:
    parts = scores.exp().masked_fill(_future(scores), 0)
    return parts / parts.sum(-1, keepdim=True)


def _times_mask(scores: Tensor) -> Tensor:
    parts = scores.exp() * ~_future(scores)
    return parts / parts.sum(-1, keepdim=True)


def _late_shared(scores: Tensor) -> Tensor:
    weights = _late(scores)
    return weights / weights.sum(-1, keepdim=True)


def _causal_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    shapes = [(rng.randint(4, 7),), (2, rng.randint(3, 6)), (2, 3, rng.randint(2, 5)), (3, 1)]
    cases = [torch.randn(*lead, n, n, generator=generator) for *lead, n in shapes]
    cases[1] = cases[1].double()
    loud, tilted = (torch.randn(2, 4, 4, generator=generator) for _ in range(2))
    loud[..., 0] -= 10.0 ** rng.randint(10, 14)  # below every finite mask constant in use
    tilted[..., -1] += rng.randint(150, 300)  # the last source drowns all others
    far = torch.tensor([[0.0, 9], [150, 151]]) - torch.tensor([[300.0], [0.0]])  # beyond ±80
    alike = torch.randn(4, 4, 4, generator=generator)  # all axes alike
    return [(case,) for case in (*cases, loud, tilted, far, alike)]


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
    hidden=_causal_hidden,
    mistakes={
        "you multiply the scores by the mask, as the notes say. −∞ times a negative score is +∞, "
        "times zero it is NaN. Add a mask, or use masked_fill.": _multiplied,
        "you hide s ≤ t, as the notes print it: no token sees itself, and the first row, which may "
        "look at nothing, is NaN. Hide t > s: the strict upper triangle, torch.triu(…, "
        "1).": _filled(-INF, shift=-1),
        "you hide s ≤ t, as the notes print it, and the first row is 0: its token looks at "
        "nothing, and no token sees itself. Hide t > s: torch.triu(…, 1).": (
            lambda scores: _filled(-INF, shift=-1)(scores).nan_to_num(0.0)
        ),
        "you hide what may be seen, t ≤ s, and the last row is left with nothing: NaN. masked_fill "
        "writes where the mask is True; if yours is True where a token *may* look, use ~mask.": (
            _allowed_hidden
        ),
        "you hide what may be seen, t ≤ s, and the last row is 0. masked_fill writes where the "
        "mask is True; if yours is True where a token *may* look, use ~mask.": (
            lambda scores: _allowed_hidden(scores).nan_to_num(0.0)
        ),
        "you let every token see one position ahead: the diagonal above the main one must be "
        "hidden too (t > s).": _filled(-INF, shift=1),
        "you hide the past and keep the future. The rows are the destinations s, the columns the "
        "sources t, and t > s is the upper triangle.": lambda scores: _filled(-INF)(
            scores.flip(-1, -2)
        ).flip(-1, -2),
        "you mask after the softmax. Your rows do not sum to 1: the hidden scores still sit in the "
        "denominator. Put −∞ there before the softmax.": _late,
        "you take the exponentials yourself, and e³⁰⁰ overflows (or e to a very low score is 0). "
        "Subtract the largest allowed score of each row first, or let softmax do it.": _unshifted,
        "you mask after the softmax and divide by what is left. On paper that is the same; here "
        "the hidden score was so large that what is left rounds to 0, and 0/0 is NaN. Mask before "
        "the softmax.": _late_shared,
        "you take the exponentials yourself and multiply them by a mask: e³⁰⁰ is ∞, and 0 · ∞ is "
        "NaN. Let softmax take them, after the mask.": _times_mask,
        "you replace NaN by 0: such a row gives its weight to nobody. Find where the NaN comes "
        "from; with −∞ before the softmax there is none.": lambda scores: _late_shared(
            scores
        ).nan_to_num(0.0),
        "you set the hidden scores to 0. The softmax turns a 0 into e⁰ = 1, which is not nothing. "
        "Only −∞ becomes 0.": _filled(0.0),
        "your mask is a large negative number. Where a real score lies below it, a hidden position "
        "gets the weight. Only −∞ is low enough.": _filled(-1e9),
        "your mask is a large negative number, and you write zeros on the future afterwards: where "
        "a real score is lower still, the future has taken the weight, and it is lost. Only −∞ is "
        "low enough.": lambda scores: _filled(-1e9)(scores).tril(),
        "you build the mask by a product, and 0 · ∞ is NaN: use masked_fill (or torch.where).": (
            lambda scores: (scores + torch.ones(scores.shape[-2:]).triu(1) * -INF).softmax(-1)
        ),
        "your columns sum to 1, not your rows: the softmax over the sources is the last axis "
        "(dim=-1).": _filled(-INF, axis=-2),
        "you return the masked scores. The task asks for the weights: take the "
        "softmax.": lambda scores: scores.masked_fill(_future(scores), -INF),
    },
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


def _merged_by(
    scale: Callable[[Tensor, int], float], turn: bool = False, axis: int | None = -1
) -> Callable[[Tensor, Tensor, int], Tensor]:
    def wrong(x: Tensor, W_QK: Tensor, d_k: int) -> Tensor:
        scores = x @ (W_QK.T if turn else W_QK) @ x.mT / scale(x, d_k)
        return scores if axis is None else scores.softmax(axis)

    return wrong


def _root(x: Tensor, d_k: int) -> float:
    return math.sqrt(d_k)


def _merged_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, int]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5)):
        length, d_model = rng.sample(range(3, 9), 2)
        d_k = rng.choice([d for d in range(2, 12) if d != d_model])
        x = torch.randn(batch, length, d_model, generator=generator)
        left, right = torch.randn(2, d_model, d_k, generator=generator)
        cases.append((x, left @ right.T / d_model**0.5, d_k))
    x, W_QK, d_k = cases[-1]
    cases[-1] = (x.double(), W_QK.double(), d_k)
    for _ in range(2):  # all sizes alike, and once more
        drawn = (torch.randn(*shape, generator=generator) for shape in ((4, 4, 4), (4, 4)))
        cases.append((*drawn, 4))  # type: ignore[arg-type]
    loud = 9 * torch.randn(2, 3, 5, generator=generator)  # e to such scores overflows
    return [*cases, (loud, torch.eye(5), 1)]


L2 = 2 * math.log(2)  # with d_k = 4 the score is ln 2

MERGED = Task(
    name="merged_weights",
    reference=_merged_weights,
    visible=(
        (_table([[1, 0], [0, 1]])[None], _table([[0, L2], [0, 0]]), 4),
        (_tenths(5, 2, 4, 3), _tenths(6, 3, 3), 2),
    ),
    hidden=_merged_hidden,
    mistakes={
        "that is A = x W_QKᵀ xᵀ as the essay prints it: who asks and who answers have changed "
        "places, and no row sums to 1.": _merged_by(lambda x, d_k: 1, turn=True, axis=None),
        "rows and columns are swapped: with W_QK = W_Q W_Kᵀ the scores are x W_QK xᵀ, without "
        "another transpose.": _merged_by(_root, turn=True),
        "your scores have the essay's transpose, and are not divided by √d_k.": _merged_by(
            lambda x, d_k: 1, turn=True
        ),
        "these are scores, not weights: the softmax is missing.": _merged_by(_root, axis=None),
        "these are scores, not weights: the softmax is missing, and so is the division by "
        "√d_k.": _merged_by(lambda x, d_k: 1, axis=None),
        "the division by √d_k is missing. Merging the matrices does not make it go "
        "away.": _merged_by(lambda x, d_k: 1),
        "you divide by d_k itself. It is its square root.": _merged_by(lambda x, d_k: d_k),
        "you divide by √d_model, the width of W_QK. The head's own width is d_k; after the merge "
        "no shape shows it any more, so it comes as an argument.": _merged_by(
            lambda x, d_k: math.sqrt(x.shape[-1])
        ),
        "your columns sum to 1, not your rows. The softmax must go over the sources, the last axis "
        "of x W_QK xᵀ (dim=-1), and nothing is turned after it.": _merged_by(_root, axis=-2),
    },
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


def _contributions_by(
    blocks: Callable[[Tensor, int, int], Tensor],
) -> Callable[[Tensor, Tensor], Tensor]:
    """heads (B, H, T, d_v) @ blocks (H, d_v, d_model)."""
    return lambda heads, W_O: heads @ blocks(W_O, heads.shape[1], heads.shape[3])


def _reshaped(heads: Tensor, W_O: Tensor) -> Tensor:
    """The axes (H, d_v) cut from (T, H · d_v) after a reshape that forgot to move H."""
    batch, count, length, d_v = heads.shape
    mixed = heads.reshape(batch, length, count, d_v).transpose(1, 2)
    return mixed @ W_O.reshape(count, d_v, -1)


def _heads_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for batch in (1, 2, 3, 2):
        count, length, d_v, d_model = rng.sample(range(2, 8), 4)
        heads = torch.randn(batch, count, length, d_v, generator=generator)
        cases.append((heads, torch.randn(count * d_v, d_model, generator=generator)))
    heads = torch.randn(2, 1, rng.randint(3, 5), 2, generator=generator)
    cases.append((heads, torch.randn(2, 4, generator=generator)))  # a single head
    cases[1] = (cases[1][0].double(), cases[1][1].double())
    for _ in range(2):  # all sizes alike, and once more
        heads = torch.randn(3, 3, 3, 3, generator=generator)
        cases.append((heads, torch.randn(9, 3, generator=generator)))
    return cases


HEADS = Task(
    name="head_contributions",
    reference=_head_contributions,
    visible=(
        (
            torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[2.0, 0.0]] * 3]]),
            _table([[1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [0, 0, 1, 0, 0], [7, 7, 7, 7, 7]]),
        ),
        (_tenths(7, 2, 3, 4, 2), _tenths(8, 6, 5)),
    ),
    hidden=_heads_hidden,
    mistakes={
        "you return the sum over the heads, which is the output of the layer. Asked is what each "
        "head adds: keep the axis of the heads.": lambda heads, W_O: _head_contributions(
            heads, W_O
        ).sum(1),
        "you cut W_O like a comb: row 0, H, 2H, … to the first head. After a concatenation the "
        "d_v rows of a head stand together: reshape to (H, d_v, d_model).": _contributions_by(
            lambda W_O, count, d_v: W_O.reshape(d_v, count, -1).transpose(0, 1)
        ),
        "all your heads use the first block of W_O. Head h owns the rows h · d_v up to "
        "(h + 1) · d_v.": _contributions_by(
            lambda W_O, count, d_v: W_O[:d_v].expand(count, d_v, -1)
        ),
        "your blocks of W_O are in reverse order: head 0 owns the first d_v rows.": (
            _contributions_by(lambda W_O, count, d_v: W_O.reshape(count, d_v, -1).flip(0))
        ),
        "a reshape has mixed heads with tokens. reshape keeps the order in memory; to move an "
        "axis, use transpose or permute first.": _reshaped,
        "your axes are (B, T, H, d_model). Asked are (B, H, T, d_model).": (
            lambda heads, W_O: _head_contributions(heads, W_O).transpose(1, 2)
        ),
        "you give every head the same share of the sum. The heads write different things: multiply "
        "each by its own block of W_O.": lambda heads, W_O: (
            _head_contributions(heads, W_O).mean(1, keepdim=True).expand(-1, heads.shape[1], -1, -1)
        ),
    },
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


def _merge(weights: Tensor, word_ids: list[int], rows: str, columns: str) -> Tensor:
    """Pieces put together with "sum", "mean", "max" or "first", rows and columns apart."""
    groups = [[t for t, word in enumerate(word_ids) if word == w] for w in range(max(word_ids) + 1)]

    def together(table: Tensor, how: str) -> Tensor:
        parts = [table[..., group] for group in groups]
        if how == "first":
            return torch.stack([part[..., 0] for part in parts], -1)
        if how == "max":
            return torch.stack([part.amax(-1) for part in parts], -1)
        return torch.stack([getattr(part, how)(-1) for part in parts], -1)

    return together(together(weights, columns).mT, rows).mT


def _merge_by(rows: str, columns: str) -> Callable[[Tensor, list[int]], Tensor]:
    return lambda weights, word_ids: _merge(weights, word_ids, rows, columns)


def _words_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, list[int]]]:
    cases = []
    for case in range(5):
        later = [w + 1 for w in range(rng.randint(3, 6)) for _ in range(rng.randint(1, 3))]
        word_ids = [0, 0, *later] if case else list(range(4))  # all of one piece
        scores = 2 * torch.randn(case + 1, len(word_ids), len(word_ids), generator=generator)
        cases.append((scores.softmax(-1), word_ids))
    cases.append((torch.full((2, 3, 3), 1 / 3), [0, 0, 0]))  # one word only
    cases[2] = (cases[2][0].double(), cases[2][1])
    for _ in range(2):  # as many heads as tokens; the same shape and other words
        scores = 2 * torch.randn(4, 4, 4, generator=generator)
        cases.append((scores.softmax(-1), rng.choice([[0, 1, 1, 2], [0, 0, 0, 1], [0, 1, 2, 2]])))
    return cases


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
    hidden=_words_hidden,
    mistakes={
        "you average both ways. A word in three pieces then receives a third of what it was given, "
        "and your rows sum to less than 1. Sum over the pieces that are attended to (the "
        "columns).": _merge_by("mean", "mean"),
        "you average both ways and then divide each row by its sum. The rows sum to 1 again, but a "
        "word in three pieces still counts a third. Sum over the pieces that are attended to (the "
        "columns).": lambda weights, word_ids: (
            _merge(weights, word_ids, "mean", "mean")
            / _merge(weights, word_ids, "mean", "mean").sum(-1, keepdim=True)
        ),
        "you sum both ways. A word in three pieces then gives out three times as much as it has, "
        "and its row sums to 3. Average over the pieces that attend (the rows).": _merge_by(
            "sum", "sum"
        ),
        "you have rows and columns the wrong way round: sum what goes to the pieces (columns), "
        "average what comes from them (rows).": _merge_by("sum", "mean"),
        "you take the largest weight where the sum is asked for: what goes to the pieces of a word "
        "adds up.": _merge_by("mean", "max"),
        "you merge the columns only: the rows are still tokens. Average the rows of a "
        "word.": lambda weights, word_ids: torch.stack(
            [
                weights[..., [t for t, w in enumerate(word_ids) if w == word]].sum(-1)
                for word in range(max(word_ids) + 1)
            ],
            -1,
        ),
        "you let the first piece speak for the whole word. Average over all its pieces: the last "
        "may look elsewhere.": _merge_by("first", "sum"),
        "you keep only the first piece of each word, in rows and columns. The weight on the other "
        "pieces is lost.": _merge_by("first", "first"),
    },
)

TASKS: tuple[Task, ...] = (ATTEND, CAUSAL, MERGED, HEADS, WORDS)
