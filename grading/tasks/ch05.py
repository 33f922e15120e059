"""Tasks of chapter 05: a norm, the loss, a cut of the tail, rotary scores, a trap for beams."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from grading.task import Task


def _seeded(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read."""
    drawn = torch.randn(*shape, generator=Generator().manual_seed(seed))
    return (drawn * 10).round() / 10


def _distributions(generator: Generator, *shape: int, sharpness: float = 2.0) -> Tensor:
    return (sharpness * torch.randn(*shape, generator=generator)).softmax(-1)


# --- root_mean_square_norm ------------------------------------------------------------------------


def _rms(x: Tensor, gamma: Tensor, eps: float = 1e-5) -> Tensor:
    return F.rms_norm(x.double(), (x.shape[-1],), gamma.double(), eps).to(x)


def _rms_by(size: Callable[[Tensor, float], Tensor]) -> Callable[..., Tensor]:
    """A wrong norm: x over some other size."""
    return lambda x, gamma, eps=1e-5: (gamma * x.double() / size(x.double(), eps)).to(x)


def _layer_norm(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x.double(), (x.shape[-1],), gamma.double(), None, eps).to(x)


def _mean_square(x: Tensor) -> Tensor:
    return x.square().mean(-1, keepdim=True)


def _rms_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Any, ...]]:
    cases: list[tuple[Any, ...]] = []
    for lead in ((), (rng.randint(4, 9),), (2, rng.randint(3, 5)), (1, 3), (3, 1, 2)):
        d = rng.randint(5, 12)
        x = rng.choice((0.2, 1.0, 30.0)) * torch.randn(*lead, d, generator=generator)
        gamma = torch.randn(d, generator=generator)
        cases.append((x + rng.uniform(0.5, 2), gamma, rng.choice((1e-5, 0.01, 0.5))))
    x, gamma, eps = cases[-1]
    cases[-1] = (x.double(), gamma.double(), eps)
    small = torch.cat([torch.zeros(1, 3), 0.2 * torch.randn(3, 3, generator=generator)])
    cases.append((small, torch.ones(3), 0.25))  # ε decides here
    d = rng.randint(4, 6)  # all axes alike, twice
    gamma = torch.randn(d, generator=generator)
    cases += [(torch.randn(d, d, d, generator=generator), gamma, 0.1) for _ in range(2)]
    cases.append((0.003 * torch.randn(2, d, generator=generator), gamma))  # ε as it stands
    signs = torch.tensor(rng.sample([4.0, 4.0, -4.0, 4.0, -4.0], 5))
    cases.append((signs.half(), torch.tensor([1.0, 2.0, -0.5, 4.0, 1.0]).half(), 0.0))
    return cases


RMS_NORM = Task(
    name="root_mean_square_norm",
    reference=_rms,
    visible=(
        (torch.tensor([3.0, 4.0]), torch.ones(2), 0.0),
        (_seeded(1, 2, 4, 3), torch.tensor([1.0, 2.0, -0.5]), 0.1),
        (_seeded(2, 5, 2).double() + 1, torch.tensor([0.5, 3.0]).double(), 0.5),
        (torch.tensor([[0.0, 0.0], [0.003, -0.004]]), torch.tensor([1.0, 2.0])),  # ε as it stands
        (torch.tensor([4.0, -4.0, 4.0]).half(), torch.tensor([1.0, 2.0, -0.5]).half(), 0.0),
    ),
    hidden=_rms_hidden,
    mistakes={
        "you subtract the mean, as LayerNorm does: this norm divides and subtracts nothing.": (
            lambda x, gamma, eps=1e-5: _layer_norm(x, gamma, eps)
        ),
        "you subtract the mean before you square: that is the standard deviation, as in LayerNorm; "
        "here the features are squared as they are.": _rms_by(
            lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
        ),
        "your mean runs over the tokens (axis −2): a norm looks at each token alone, so the mean "
        "runs over its features, axis −1, with keepdim=True.": _rms_by(
            lambda x, eps: (x.square().mean(-2, keepdim=True) + eps).sqrt()
        ),
        "your mean runs over the whole tensor, so one token changes another: take it over the last "
        "axis only, with keepdim=True.": _rms_by(lambda x, eps: (x.square().mean() + eps).sqrt()),
        "you divide by the root of the sum of squares, so the vector gets length 1: it is the root "
        "of the mean square, and the length becomes √d.": _rms_by(
            lambda x, eps: (x.square().sum(-1, keepdim=True) + eps).sqrt()
        ),
        "you divide by d − 1 in the mean: the mean square of d features divides by d.": _rms_by(
            lambda x, eps: (x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps).sqrt()
        ),
        "your ε stands outside the root: it is added to the mean square, and then the root is "
        "taken.": _rms_by(lambda x, eps: _mean_square(x).sqrt() + eps),
        "your ε is always 10⁻⁵: use the argument eps.": lambda x, gamma, eps=1e-5: _rms(x, gamma),
        "you square the mean: it is the mean of the squares.": _rms_by(
            lambda x, eps: (x.mean(-1, keepdim=True).square() + eps).sqrt()
        ),
        "you divide by the standard deviation (x.std), which subtracts the mean and has d − 1 "
        "below: take the mean of the squares, add ε, and take the root.": _rms_by(
            lambda x, eps: x.std(-1, keepdim=True) + eps
        ),
        "ε is missing under the root: without it a vector of zeros becomes NaN.": _rms_by(
            lambda x, eps: _mean_square(x).sqrt()
        ),
        "the root is missing: you divide by the mean square itself.": _rms_by(
            lambda x, eps: _mean_square(x) + eps
        ),
        "γ is missing: the result is stretched by gamma, feature by feature.": (
            lambda x, gamma, eps=1e-5: _rms(x, torch.ones_like(gamma), eps)
        ),
        "you add γ: it multiplies, feature by feature.": (
            lambda x, gamma, eps=1e-5: _rms(x, torch.ones_like(gamma), eps) + gamma
        ),
    },
    forbidden=("rms_norm", "RMSNorm", "layer_norm", "LayerNorm"),
    tolerance=2e-3,  # half precision holds three digits
    fresh=True,
)


# --- next_token_loss ------------------------------------------------------------------------------


def _loss(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].mT, ids[:, 1:])


def _printed_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """The sum of D binary cross-entropies at each position: what the lecture notes name."""
    p, right = logits[:, :-1].softmax(-1), F.one_hot(ids[:, 1:], logits.shape[-1]).to(logits)
    return -(right * p.log() + (1 - right) * (1 - p).log()).sum(-1).mean()


def _sigmoid_loss(logits: Tensor, ids: Tensor) -> Tensor:
    return -logits[:, :-1].sigmoid().gather(-1, ids[:, 1:, None]).log().mean()


def _loss_other_axis(logits: Tensor, ids: Tensor) -> Tensor:
    return -logits[:, :-1].log_softmax(1).gather(-1, ids[:, 1:, None]).mean()


def _every_text(logits: Tensor, ids: Tensor) -> Tensor:
    """lp[:, arange(T − 1), ids]: the tokens of every text are picked in every text."""
    log_p, T = logits[:, :-1].log_softmax(-1), ids.shape[1]
    return -log_p[:, torch.arange(T - 1), ids[:, 1:]].mean()


def _bounded_loss(eps: float) -> Callable[[Tensor, Tensor], Tensor]:
    def wrong(logits: Tensor, ids: Tensor) -> Tensor:
        p = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])
        return -(p + eps).log().mean()

    return wrong


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
    mistakes={
        "this is the binary cross-entropy as printed, D yes-no questions at every position: the "
        "categorical one asks a single question, and takes −log of the one probability that "
        "belongs to the next token.": _printed_loss,
        "you take a sigmoid of each logit: the D probabilities of a position must sum to 1, which "
        "softmax over the last axis sees to.": _sigmoid_loss,
        "you compare row t with token t, which the model has just read: row t speaks about token "
        "t + 1, so logits[:, :-1] goes with ids[:, 1:].": lambda logits, ids: F.cross_entropy(
            logits.mT, ids
        ),
        "you leave out the last row, and the last token where the first is due: row t still meets "
        "token t, which the model has just read; logits[:, :-1] goes with ids[:, 1:].": (
            lambda logits, ids: F.cross_entropy(logits[:, :-1].mT, ids[:, :-1])
        ),
        "roll brings the first token to the end of its text, and the last row is compared with it. "
        "That row has no next token: leave it out, logits[:, :-1] with ids[:, 1:].": (
            lambda logits, ids: F.cross_entropy(logits.mT, ids.roll(-1, 1))
        ),
        "the index of the text is missing: lp[:, t, ids] picks the tokens of *every* text in every "
        "text. Use gather, or a third index, torch.arange(B)[:, None].": _every_text,
        "you shift the wrong way round: row t + 1 is compared with token t; logits[:, :-1] goes "
        "with ids[:, 1:].": lambda logits, ids: F.cross_entropy(logits[:, 1:].mT, ids[:, :-1]),
        "you take the softmax first and its logarithm afterwards: a probability that rounds to 0 "
        "has the logarithm −∞; log_softmax, or the logit minus logsumexp, has no such trouble.": (
            lambda logits, ids: (
                -logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None]).log().mean()
            )
        ),
        **{
            f"you keep the probability above {eps:.0e}, by a sum or by clamp, so no loss is above "
            f"{-math.log(eps):.1f}: "
            "log_softmax, or the logit minus logsumexp, needs no such help.": _bounded_loss(eps)
            for eps in (1e-12, 1e-10, 1e-9, 1e-8, 1e-6)
        },
        "this is the first text only: the mean runs over all texts.": (
            lambda logits, ids: _loss(logits[:1], ids[:1])
        ),
        "the softmax runs over the positions: a distribution over the D tokens is needed at every "
        "position, the last axis.": _loss_other_axis,
        "this is in bits: use the natural logarithm for nats.": (
            lambda logits, ids: _loss(logits, ids) / math.log(2)
        ),
        "you add up over all positions: the loss is their mean.": (
            lambda logits, ids: _loss(logits, ids) * ids[:, 1:].numel()
        ),
        "you add up over the positions of a text and average over texts only: divide by the number "
        "of all predictions, B · (T − 1).": lambda logits, ids: (
            _loss(logits, ids) * (ids.shape[1] - 1)
        ),
        "you divide by T positions: only T − 1 of them have a next token.": (
            lambda logits, ids: _loss(logits, ids) * (1 - 1 / ids.shape[1])
        ),
        "the sign is missing: a loss is −log p, never below 0.": (
            lambda logits, ids: -_loss(logits, ids)
        ),
        "this is only the last position: the loss is the mean over all positions that have a next "
        "token.": lambda logits, ids: F.cross_entropy(logits[:, -2], ids[:, -1]),
    },
    forbidden=("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss", "linear_cross_entropy"),
)


# --- min_p ----------------------------------------------------------------------------------------


def _min_p(p: Tensor, share: float) -> Tensor:
    """Row by row, number by number."""
    p, out = p.contiguous(), torch.zeros(p.shape, dtype=p.dtype)
    for row, new in zip(p.reshape(-1, p.shape[-1]), out.view(-1, p.shape[-1]), strict=True):
        bar = share * row.max()
        kept = [i for i, value in enumerate(row) if value >= bar]
        new[kept] = row[kept] / row[kept].sum()
    return out


def _cut_at(bar: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, float], Tensor]:
    def wrong(p: Tensor, share: float) -> Tensor:
        kept = torch.where(p >= bar(p, share), p, 0)
        return kept / kept.sum(-1, keepdim=True)

    return wrong


def _best(p: Tensor) -> Tensor:
    return p.amax(-1, keepdim=True)


def _not_at_bar(p: Tensor, share: float) -> Tensor:
    kept = torch.where(p > share * _best(p), p, 0)
    return kept / kept.sum(-1, keepdim=True)


def _not_renormalised(p: Tensor, share: float) -> Tensor:
    return torch.where(p >= share * _best(p), p, 0)


def _softmax_again(p: Tensor, share: float) -> Tensor:
    return p.masked_fill(p < share * _best(p), -torch.inf).softmax(-1)


def _one_sum(p: Tensor, share: float) -> Tensor:
    kept = _not_renormalised(p, share)
    return kept / kept.sum()


def _nucleus(p: Tensor, share: float) -> Tensor:
    ordered, order = p.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < share, ordered, 0)
    out = torch.zeros_like(p).scatter(-1, order, kept)
    return out / out.sum(-1, keepdim=True)


def _min_p_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, float]]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (2, rng.randint(3, 5)), (1,), (3,)):
        p = _distributions(generator, *lead, rng.randint(6, 20))
        cases.append((p, rng.choice((0.02, 0.1, 0.3, 0.6))))
    cases[-1] = (cases[-1][0].double(), cases[-1][1])
    eighths = torch.tensor([[0.125, 0.5, 0.25, 0.125], [0.25, 0.25, 0.25, 0.25]])
    n = rng.randint(4, 6)
    alike = [(_distributions(generator, n, n, n), rng.choice((0.1, 0.3))) for _ in range(2)]
    rare = torch.tensor([[0.0, 0.001, 0.999], [0.5, 0.5, 0.0]])  # share 0 drops nothing
    return [
        *cases,
        *alike,
        (eighths, rng.choice((0.25, 0.5))),
        (eighths.half(), 1.0),
        (rare, 0.0),
        (rare, rng.choice((0.002, 1))),
    ]


MIN_P = Task(
    name="min_p",
    reference=_min_p,
    visible=(
        (torch.tensor([0.5, 0.25, 0.125, 0.125]), 0.5),
        (torch.tensor([[0.8, 0.1, 0.06, 0.03, 0.01], [0.3, 0.25, 0.17, 0.15, 0.13]]), 0.2),
        (torch.tensor([[[0.1, 0.2, 0.7]], [[0.4, 0.35, 0.25]]]).double(), 0.3),
        (torch.tensor([[0.1, 0.2, 0.7], [0.4, 0.35, 0.25]]), 0.5),
        (torch.tensor([[0.0, 0.001, 0.999], [0.5, 0.5, 0.0]]), 0.002),
    ),
    hidden=_min_p_hidden,
    mistakes={
        "you keep what is more than the bar, and drop what is equal to it: at least means >=.": (
            _not_at_bar
        ),
        "your bar is `share` itself: it is `share` times the largest probability of the row, so it "
        "falls where the model is in doubt.": _cut_at(
            lambda p, share: torch.full_like(_best(p), share)
        ),
        "only the best token of a row is left: your bar is its probability itself. `share` is "
        "missing: the bar is `share` times that.": _cut_at(lambda p, share: _best(p)),
        "your bar is `share` times the largest probability of the whole tensor: each row has its "
        "own best, p.amax(-1, keepdim=True).": _cut_at(lambda p, share: share * p.max()),
        "your bar comes from the largest of each column (axis −2): the tokens lie on the last "
        "axis.": _cut_at(lambda p, share: share * p.amax(-2, keepdim=True)),
        "the rows no longer sum to 1: divide what is left by its sum.": _not_renormalised,
        "you divide by the sum of the whole tensor: each row is divided by its own sum, with "
        "keepdim=True.": _one_sum,
        "you renormalise with a softmax, which changes the odds between the tokens that stay: "
        "divide by the sum.": _softmax_again,
        "this is the nucleus, the fewest tokens whose sum reaches `share`: min-p compares each "
        "token with the best one.": _nucleus,
        "you keep what lies below the bar: it is the tail that goes.": (
            lambda p, share: (
                torch.where(p < share * _best(p), p, 0)
                / torch.where(p < share * _best(p), p, 0).sum(-1, keepdim=True)
            )
        ),
        "you return 0 and 1, or which tokens stay: return the probabilities.": (
            lambda p, share: (p >= share * _best(p)).to(p)
        ),
    },
    fresh=True,
)


# --- rotary_scores --------------------------------------------------------------------------------


def _turned(z: Tensor, base: float, pairs: Tensor | None = None, sign: int = 1) -> Tensor:
    """Each pair of neighbours as a complex number, turned."""
    n, d = z.shape
    i = torch.arange(d // 2, dtype=torch.float64) if pairs is None else pairs
    angle = sign * torch.arange(n, dtype=torch.float64)[:, None] * base ** (-2 * i / d)
    numbers = torch.view_as_complex(z.double().reshape(n, d // 2, 2).contiguous())
    turned = numbers * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(1).to(z)


def _rotary(x: Tensor, y: Tensor, W_Q: Tensor, W_K: Tensor, base: float = 10_000.0) -> Tensor:
    return _turned(x @ W_Q, base) @ _turned(y @ W_K, base).T


def _rotary_printed(
    x: Tensor, y: Tensor, W_Q: Tensor, W_K: Tensor, base: float = 10_000.0
) -> Tensor:
    return (_turned(x, base) @ W_Q) @ (_turned(y, base) @ W_K).T


def _rotary_by(turn: Callable[[Tensor, float], Tensor]) -> Callable[..., Tensor]:
    return lambda x, y, W_Q, W_K, base=10_000.0: turn(x @ W_Q, base) @ turn(y @ W_K, base).T


def _halves(z: Tensor, base: float) -> Tensor:
    """Feature i makes a pair with feature i + d/2."""
    in_turns = torch.stack(z.chunk(2, -1), -1).flatten(1)
    return torch.cat([_turned(in_turns, base)[:, 0::2], _turned(in_turns, base)[:, 1::2]], -1)


def _overwritten(z: Tensor, base: float) -> Tensor:
    """The second of a pair is made of a first one that is turned already."""
    angle = torch.arange(len(z)).double()[:, None] * base ** (-2 * _half(z) / z.shape[1])
    a, b = z[:, 0::2].double(), z[:, 1::2].double()
    a = a * angle.cos() - b * angle.sin()
    return torch.stack([a, a * angle.sin() + b * angle.cos()], -1).flatten(1).to(z)


def _blocks(z: Tensor, base: float) -> Tensor:
    """Neighbours are pairs, but the table of angles stands side by side twice."""
    angle = torch.arange(len(z)).double()[:, None] * base ** (-2 * _half(z) / z.shape[1])
    angle, other = angle.repeat(1, 2), torch.stack([-z[:, 1::2], z[:, 0::2]], -1).flatten(1)
    return (z * angle.cos() + other * angle.sin()).to(z)


def _half(z: Tensor) -> Tensor:
    return torch.arange(z.shape[1] // 2, dtype=torch.float64)


def _rotary_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Any, ...]]:
    cases: list[tuple[Any, ...]] = []
    n, d = rng.randint(4, 8), 2 * rng.randint(2, 4)
    sizes = [(*rng.sample(range(4, 12), 2), *rng.sample(range(4, 14, 2), 2)) for _ in range(5)]
    # all axes alike, twice; one pair; a single position; more positions
    sizes += [(d, d, d, d), (d, d, d, d), (n, 3, 5, 2), (1, n, 3, 4), (40, 30, 3, 6)]
    bases = [10_000.0, 100.0, rng.uniform(5, 50), 2.0, 1000.0, 50.0, 50.0, 3.0, 10, None]
    for (n, m, d, d_k), base in zip(sizes, bases, strict=True):
        shapes = ((n, d), (m, d), (d, d_k), (d, d_k))
        x, y, W_Q, W_K = (
            torch.randn(*shape, generator=generator) / shape[-1] ** 0.5 for shape in shapes
        )
        cases.append((x, y, W_Q, W_K) if base is None else (x, y, W_Q, W_K, base))
    cases[4] = (*(each.double() for each in cases[4][:-1]), cases[4][-1])
    return cases


ROTARY = Task(
    name="rotary_scores",
    reference=_rotary,
    visible=(
        (torch.ones(3, 2), torch.ones(2, 2), torch.eye(2), torch.eye(2), 10_000.0),
        (*(_seeded(s, *shape) for s, shape in enumerate(((5, 6), (4, 6), (6, 4), (6, 4)))), 100.0),
        (*(_seeded(s, *shape) for s, shape in enumerate(((4, 3), (5, 3), (3, 4), (3, 4)), 9)),),
        (
            *(
                _seeded(s, *shape).double()
                for s, shape in enumerate(((4, 2), (6, 2), (2, 6), (2, 6)), 5)
            ),
            7.0,
        ),
    ),
    hidden=_rotary_hidden,
    mistakes={
        "you turn the embeddings, as printed in the slides: W_Q and W_K then come in between, and "
        "the score depends on more than t − s; make queries and keys first, then turn these.": (
            _rotary_printed
        ),
        "you turn only the queries: the keys are turned too, each by its own position.": (
            lambda x, y, W_Q, W_K, base=10_000.0: _turned(x @ W_Q, base) @ (y @ W_K).T
        ),
        "you turn only the keys: the queries are turned too, each by its own position.": (
            lambda x, y, W_Q, W_K, base=10_000.0: (x @ W_Q) @ _turned(y @ W_K, base).T
        ),
        "queries and keys are turned in opposite directions, so the score depends on t + s: turn "
        "both the same way.": lambda x, y, W_Q, W_K, base=10_000.0: (
            _turned(x @ W_Q, base) @ _turned(y @ W_K, base, sign=-1).T
        ),
        "you turn the other way, by −tω (or the chapter's R stands on the other side). The scores "
        "depend on t − s as well, but they are other scores. Turn as printed: a cos tω − b sin tω, "
        "a sin tω + b cos tω.": _rotary_by(lambda z, base: _turned(z, base, sign=-1)),
        "you overwrite the first of each pair and then use it for the second: z[:, 0::2] is a view "
        "of z. Compute both halves from the old values, then lay them together.": _rotary_by(
            _overwritten
        ),
        "your angles stand in blocks, ω_0, ω_1, … and again ω_0, ω_1, …, while neighbours make a "
        "pair: each angle is needed twice in a row, repeat_interleave(2, -1).": _rotary_by(_blocks),
        "nothing is turned: these are the scores without any positions.": (
            lambda x, y, W_Q, W_K, base=10_000.0: (x @ W_Q) @ (y @ W_K).T
        ),
        "your base is always 10,000: use the argument.": _rotary_by(
            lambda z, base: _turned(z, 10_000.0)
        ),
        "your exponent is −i/d_k: pair i turns with base^(−2i/d_k), where i counts pairs.": (
            _rotary_by(lambda z, base: _turned(z, base, _half(z) / 2))
        ),
        "your pairs are counted from 1: i runs over 0 … d_k/2 − 1, and the first pair turns by one "
        "radian a step.": _rotary_by(lambda z, base: _turned(z, base, _half(z) + 1)),
        "you pair feature i with feature i + d_k/2: neighbours make a pair here, (0, 1), (2, 3).": (
            _rotary_by(_halves)
        ),
        "you divide by √d_k: these scores are asked for as they are.": (
            lambda x, y, W_Q, W_K, base=10_000.0: (
                _rotary(x, y, W_Q, W_K, base) / W_Q.shape[1] ** 0.5
            )
        ),
        "you use the angles of the model's width d: queries and keys have the width d_k.": (
            lambda x, y, W_Q, W_K, base=10_000.0: _rotary(
                x, y, W_Q, W_K, base ** (W_Q.shape[1] / W_Q.shape[0])
            )
        ),
        "rows and columns are exchanged: a row is a destination, so the shape is (n, m).": (
            lambda x, y, W_Q, W_K, base=10_000.0: _rotary(x, y, W_Q, W_K, base).T
        ),
    },
    tolerance=1e-3,
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


TASKS = (RMS_NORM, LOSS, MIN_P, ROTARY, TRAP)
