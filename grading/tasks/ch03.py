"""Tasks of chapter 03: Bahdanau's score, padding, reading an alignment, how sharp it is."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from grading.task import Task

INF = math.inf


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


# --- additive_scores: the score that is Bahdanau's ------------------------------------------------


def _additive_scores(s: Tensor, h: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    """One text, one source token, one hidden unit at a time."""
    answer = torch.zeros(h.shape[:2], dtype=torch.float64)
    for b in range(h.shape[0]):
        for j in range(h.shape[1]):
            for unit in range(len(v)):
                inside = float(s[b] @ W[:, unit]) + float(h[b, j] @ U[:, unit])
                answer[b, j] += float(v[unit]) * math.tanh(inside)
    return answer.to(h.dtype)


Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _score_by(score: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Score:
    """A score of sW (B, 1, d_a), hU (B, S, d_a) and v (d_a)."""
    return lambda s, h, W, U, v: score((s @ W)[:, None], h @ U, v)


def _additive_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5)):
        length, d_s, d_h, d_a = rng.sample([n for n in range(2, 10) if n != batch], 4)
        shapes = ((batch, d_s), (batch, length, d_h), (d_s, d_a), (d_h, d_a), (d_a,))
        cases.append(tuple(torch.randn(*shape, generator=generator) for shape in shapes))
    n = rng.randint(3, 5)  # as many texts as source tokens
    shapes = ((n, 2), (n, n, 6), (2, 7), (6, 7), (7,))
    cases.append(tuple(torch.randn(*shape, generator=generator) for shape in shapes))
    cases[1] = tuple(each.double() for each in cases[1])
    for _ in range(2):  # all sizes alike, and once more
        shapes = ((4, 4), (4, 4, 4), (4, 4), (4, 4), (4,))
        cases.append(tuple(torch.randn(*shape, generator=generator) for shape in shapes))
    return cases


ADDITIVE = Task(
    name="additive_scores",
    reference=_additive_scores,
    visible=(
        (
            _table([[1, 0]]),
            _table([[[1, 0, 0], [0, 2, 0]]]),
            _table([[0.5, 0], [9, 9]]),
            _table([[0.5, 0], [0, 1], [9, 9]]),
            _table([1, 10]),
        ),
        (_tenths(1, 2, 5), _tenths(2, 2, 4, 3), _tenths(3, 5, 6), _tenths(4, 3, 6), _tenths(5, 6)),
        (_tenths(6, 3, 2), _tenths(7, 3, 3, 4), _tenths(8, 2, 5), _tenths(9, 4, 5), _tenths(10, 5)),
    ),
    hidden=_additive_hidden,
    mistakes={
        "that is the scaled dot product, for which the notes cite Bahdanau. His score adds sW and "
        "hU, takes tanh, and then multiplies by v.": _score_by(
            lambda sW, hU, v: (sW * hU).sum(-1) / len(v) ** 0.5
        ),
        "that is the plain dot product of sW and hU. Bahdanau's score adds the two, takes tanh, "
        "and then multiplies by v.": _score_by(lambda sW, hU, v: (sW * hU).sum(-1)),
        "the tanh is missing. Without it s only adds the same number to every source token, and "
        "the softmax ignores that.": _score_by(lambda sW, hU, v: (sW + hU) @ v),
        "you take tanh at the end. It belongs on the hidden layer sW + hU, before the product with "
        "v.": _score_by(lambda sW, hU, v: ((sW + hU) @ v).tanh()),
        "you take two tanh and add them. Add first: tanh(sW + hU).": _score_by(
            lambda sW, hU, v: (sW.tanh() + hU.tanh()) @ v
        ),
        "you multiply sW and hU. In the additive score they are added.": _score_by(
            lambda sW, hU, v: (sW * hU).tanh() @ v
        ),
        "v is missing: you sum the hidden layer as it is. Each hidden unit has its weight in v.": (
            _score_by(lambda sW, hU, v: (sW + hU).tanh().sum(-1))
        ),
        "you return weights: a softmax has already been taken. The task asks for the "
        "scores.": lambda *args: _additive_scores(*args).softmax(-1),
        "the query of one text meets the sources of another. sW is (B, d_a), and must become "
        "(B, 1, d_a) before it is added to (B, S, d_a): (s @ W)[:, None].": (
            lambda s, h, W, U, v: (s @ W + h @ U).tanh() @ v
        ),
        "all your texts use the query of the first one.": lambda s, h, W, U, v: (
            (s[0] @ W + h @ U).tanh() @ v
        ),
    },
)


# --- two_readings: a softmax without its root, set equal to a fraction with it --------------------


def _two_readings(d: int, n: int) -> tuple[Tensor, Tensor]:
    keys = torch.zeros(n, d)
    keys[0, 0] = 3
    return torch.eye(d)[0], keys


def _not_a_counterexample(args: tuple[Any, ...], answer: Any) -> str | None:
    """Why a query and its keys do not tell the two sides of the notes' formula apart."""
    d, n = args
    pair = isinstance(answer, tuple | list) and len(answer) == 2
    if not pair or not all(isinstance(part, Tensor) for part in answer):
        return "return two tensors, the query and the keys"
    if tuple(answer[0].shape) != (d,) or tuple(answer[1].shape) != (n, d):
        shapes = " and ".join(str(tuple(part.shape)) for part in answer)
        return f"the shapes are {shapes}, expected ({d},) and ({n}, {d})"
    scores = answer[1].double() @ answer[0].double()
    if not scores.isfinite().all():
        return "a score is not finite"
    left, right = scores.softmax(0), (scores / d**0.5).softmax(0)
    gap = float((left - right).abs().max())
    if gap > 0.1:
        return None
    if float(scores.max() - scores.min()) < 1e-6:
        return "all scores are equal, so both sides are uniform: some key must match better"
    if float(right.max()) > 0.9:
        return "the scores are so far apart that both sides give all to one key: make them smaller"
    return f"the two sides differ by {gap:.3f} at most; more than 0.1 is asked"


READINGS = Task(
    name="two_readings",
    reference=_two_readings,
    visible=((4, 3), (9, 5), (5, 9), (64, 4), (4, 32)),
    hidden=lambda rng, generator: [
        (4, rng.randint(3, 4)),
        *((rng.randint(5, 70), rng.randint(3, 9)) for _ in range(4)),
        (rng.randint(71, 99), 3),  # a wide query
        (rng.randint(4, 6), rng.randint(10, 12)),
        (rng.randint(4, 6), rng.randint(30, 40)),  # and many keys
    ],
    accepts=_not_a_counterexample,
)


# --- source_weights: padding ----------------------------------------------------------------------


def _source_weights(scores: Tensor, real: Tensor) -> Tensor:
    """Row by row, over the real tokens only; in double precision."""
    answer = torch.zeros(scores.shape, dtype=torch.float64)
    for b in range(scores.shape[0]):
        places = [j for j in range(scores.shape[1]) if bool(real[b, j])]
        best = max((float(scores[b, j]) for j in places), default=0.0)
        parts = [math.exp(float(scores[b, j]) - best) for j in places]
        for j, part in zip(places, parts, strict=True):
            answer[b, j] = part / sum(parts)
    return answer.to(scores.dtype)


Weights = Callable[[Tensor, Tensor], Tensor]


def _hiding(constant: float, axis: int = -1, empty: bool = True, turned: bool = False) -> Weights:
    """Softmax with a constant at the padding; `empty`: rows of padding become zeros."""

    def wrong(scores: Tensor, real: Tensor) -> Tensor:
        real = ~real if turned else real
        weights = scores.masked_fill(~real, constant).softmax(axis)
        return weights * real.any(-1, keepdim=True) if empty else weights

    def with_zeros(scores: Tensor, real: Tensor) -> Tensor:
        return wrong(scores, real).nan_to_num(0.0) if empty else wrong(scores, real)

    return with_zeros


def _late(scores: Tensor, real: Tensor) -> Tensor:
    return scores.softmax(-1) * real


def _late_shared(scores: Tensor, real: Tensor) -> Tensor:
    weights = _late(scores, real)
    return weights / weights.sum(-1, keepdim=True)


def _length_of_the_first(scores: Tensor, real: Tensor) -> Tensor:
    length, weights = int(real[0].sum()), torch.zeros_like(scores)
    weights[:, :length] = scores[:, :length].softmax(-1)
    return weights


def _unshifted(scores: Tensor, real: Tensor) -> Tensor:
    parts = scores.exp().masked_fill(~real, 0.0)
    return parts / parts.sum(-1, keepdim=True)


def _times_mask(scores: Tensor, real: Tensor) -> Tensor:
    parts = scores.exp() * real
    return parts / parts.sum(-1, keepdim=True)


def _zero_shared(scores: Tensor, real: Tensor) -> Tensor:
    weights = (scores * real).softmax(-1) * real
    return weights / weights.sum(-1, keepdim=True)


def _prefixes(scores: Tensor, real: Tensor) -> Tensor:
    return _source_weights(scores, torch.arange(scores.shape[1]) < real.sum(-1, keepdim=True))


def _weights_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5)):
        length = rng.choice([n for n in range(3, 9) if n != batch])
        lengths = [rng.randint(1, length) for _ in range(batch)]
        real = torch.arange(length) < torch.tensor(lengths)[:, None]
        cases.append((2 * torch.randn(batch, length, generator=generator), real))
    scores, real = cases[2][0].clone(), cases[2][1].clone()
    real[rng.randrange(3)] = False  # a text of padding only
    real[:, -1] = False
    scores[:, -1] = rng.randint(150, 300)  # the padding has the best score of all
    cases.append((scores, real))
    cases[3] = (cases[3][0].double(), cases[3][1])
    for _ in range(2):  # padding anywhere, as many texts as places; and once more
        n = 5
        anywhere = torch.rand(n, n, generator=generator) < 0.5
        anywhere[:, 1] = ~anywhere[:, 0]
        cases.append((2 * torch.randn(n, n, generator=generator), anywhere))
    high = _table([[300, 299, 0, 500], [-1e12, -1e12, 0, 0], [200, -300, 0, 0], [-300, -301, 0, 0]])
    seen = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    return [*cases, (high, seen)]


L2, L3 = math.log(2), math.log(3)

PADDING = Task(
    name="source_weights",
    reference=_source_weights,
    visible=(
        (_table([[0, L3, 5], [L2, 0, L2]]), torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()),
        (
            _table([[1, 2, 3, 4], [2, -1, 0, 300], [300, 299, 0, 5]]),
            torch.tensor([[0] * 4, [1, 1, 0, 0], [1, 1, 1, 0]]).bool(),
        ),
        (_tenths(11, 3, 5), torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [1, 1, 1, 0, 0]]) > 0),
        (_table([[-300, -301, 5], [-1e12, -1e12, 0]]), torch.tensor([[1, 1, 0], [1, 1, 0]]).bool()),
    ),
    hidden=_weights_hidden,
    mistakes={
        "you mask after the softmax. The padding still counts in the denominator, so the rows of "
        "short texts sum to less than 1. Put −∞ there before the softmax.": _late,
        "you mask after the softmax and divide by what is left. Where the padding has a huge score "
        "(or all is padding), what is left is 0, and 0/0 is NaN.": _late_shared,
        "the padding still counts: where it has a huge score, the words of its text are left with "
        "no weight. It must have −∞ first of all, before any softmax, exponential or largest "
        "score.": lambda scores, real: _late_shared(scores, real).nan_to_num(0.0),
        "you give the padding the score 0 and divide by what is left. Where the words score far "
        "below 0, what is left is 0, and 0/0 is NaN (so it is where all is padding). Only −∞ is "
        "low enough.": _zero_shared,
        "you give the padding the score 0 and replace NaN by 0. Where the words score far below 0, "
        "the padding has taken all their weight. Only −∞ is low enough.": (
            lambda scores, real: _zero_shared(scores, real).nan_to_num(0.0)
        ),
        "you take the exponentials yourself and replace NaN by 0: e³⁰⁰ is ∞ and e⁻³⁰⁰ is 0, so "
        "such words get no weight. Put −∞ at the padding and let softmax take them.": (
            lambda scores, real: _unshifted(scores, real).nan_to_num(0.0)
        ),
        "a text of padding only gets equal weights on its padding; it is to get zeros.": (
            lambda scores, real: _hiding(-INF, empty=False)(scores, real).nan_to_num(
                1 / scores.shape[1]
            )
        ),
        "your mask is a large negative number, and you write zeros on the padding afterwards: "
        "where the words score lower still, the padding has taken their weight, and it is lost. "
        "Only −∞ is low enough.": lambda scores, real: _hiding(-1e9)(scores, real) * real,
        "your mask is a large negative number. Where the words score lower still, the padding gets "
        "their weight. Only −∞ is low enough.": _hiding(-1e9),
        "you take the exponentials yourself: e³⁰⁰ is ∞, and ∞/∞ is NaN (so is 0/0, where all is "
        "padding). Put −∞ at the padding and let softmax take them.": _unshifted,
        "you take the exponentials yourself and multiply them by the mask: e³⁰⁰ is ∞, and 0 · ∞ "
        "is NaN. Put −∞ at the padding and let softmax take them.": _times_mask,
        "you count the words of a text and give its first places the weight. Padding may stand "
        "anywhere: use the mask itself.": _prefixes,
        "you have the mask the wrong way round: real is True where there *is* a word.": _hiding(
            -INF, turned=True
        ),
        "you have the mask the wrong way round: real is True where there *is* a word. And a text "
        "of padding only gives NaN.": _hiding(-INF, turned=True, empty=False),
        "the padding has the score 0, which the softmax turns into e⁰ = 1. Only −∞ becomes 0.": (
            _hiding(0.0, empty=False)
        ),
        "a text of padding only gives NaN: nothing is left in its row, and 0/0 has no value. It is "
        "to get zeros.": _hiding(-INF, empty=False),
        "your mask is a large negative number. A text of padding only then gets equal weights "
        "on its padding (it is to get zeros), and words below it get none.": _hiding(
            -1e9, empty=False
        ),
        "you do not use the mask at all: the padding gets weight.": lambda scores, real: (
            scores.softmax(-1)
        ),
        "you use the length of the first text for all of them. Each row of real has its own.": (
            _length_of_the_first
        ),
        "your columns sum to 1, not your rows: that shares a source position out among the texts "
        "of the batch. The softmax is over the last axis.": _hiding(-INF, axis=0),
    },
)


# --- read_map: rows belong to the token produced --------------------------------------------------


def _read_map(weights: Tensor, fed: list[str], sources: list[str]) -> list[tuple[str, str]]:
    """By plain lists."""
    answer = []
    for i, row in enumerate(weights.tolist()):
        produced = fed[i + 1] if i + 1 < len(fed) else "</s>"
        answer.append((produced, sources[row.index(max(row))]))
    return answer


Reader = Callable[[Tensor, list[str], list[str]], Any]


def _read_by(name: Callable[[list[str]], list[str]], turned: bool = False) -> Reader:
    def wrong(weights: Tensor, fed: list[str], sources: list[str]) -> list[tuple[str, str]]:
        looks = weights.argmax(0 if turned else 1).tolist()
        return [(token, sources[j]) for token, j in zip(name(fed), looks, strict=False)]

    return wrong


def _map_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, list[str], Any]]:
    words = ["one", "two", "three", "twenty", "thirty", "hundred", "thousand", "million"]
    ours = ["ein", "zwei", "drei", "und", "zwanzig", "dreißig", "hundert", "tausend", "Millionen"]
    cases = []
    for _ in range(5):
        rows, columns = rng.sample(range(2, 8), 2)
        scores = 2 * torch.randn(rows, columns, generator=generator)
        fed = ["<s>", *(rng.choice(ours) for _ in range(rows - 1))]
        cases.append((scores.softmax(-1), fed, [*rng.sample(words, columns - 1), "</s>"]))
    for _ in range(2):  # as many rows as columns, and once more; the same word twice
        again = [*(rng.choice(words[:2]) for _ in range(3)), "</s>"]
        scores = 2 * torch.randn(4, 4, generator=generator)
        cases.append((scores.softmax(-1), ["<s>", *rng.sample(ours, 3)], again))
    one, other = rng.sample(ours, 2)  # a target with the same word twice
    scores = 2 * torch.randn(4, 3, generator=generator)
    scores[0, 0] = scores[2, 1] = 9.0  # whose two rows look at two words
    fed = ["<s>", one, other, one]
    return [*cases, (scores.softmax(-1), fed, [*rng.sample(words, 2), "</s>"])]


READ = Task(
    name="read_map",
    reference=_read_map,
    visible=(
        (
            _table([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.0, 0.1, 0.9]]),
            ["<s>", "ein", "und", "zwanzig"],
            ["twenty", "one", "</s>"],
        ),
        (
            _table([[0.6, 0.2, 0.1, 0.1], [0.4, 0.1, 0.5, 0.0], [0.2, 0.2, 0.2, 0.4]]),
            ["<s>", "drei", "hundert"],
            ["three", "and", "hundred", "</s>"],
        ),
        (
            _table(
                [
                    [0.7, 0.1, 0.1, 0.1, 0.0],
                    [0.2, 0.6, 0.1, 0.1, 0.0],
                    [0.1, 0.1, 0.2, 0.6, 0.0],
                    [0.0, 0.1, 0.1, 0.0, 0.8],
                ]
            ),
            ["<s>", "ein", "hundert", "ein"],
            ["a", "hundred", "and", "one", "</s>"],
        ),
    ),
    hidden=_map_hidden,
    mistakes={
        "you name each row by the token that was fed in. Row i is made before token i exists, so "
        "its name is the token that came out: the one fed in at the next step.": _read_by(
            lambda fed: fed
        ),
        "the last row is missing. It produced the end of the text, </s>.": (
            lambda weights, fed, sources: _read_map(weights, fed, sources)[:-1]
        ),
        "the names have slipped by one in the wrong direction: row 0 produced fed[1].": _read_by(
            lambda fed: ["</s>", *fed[:-1]]
        ),
        "your names run round in a circle: the last row is called <s>. It produced the end of the "
        "text, </s>.": _read_by(lambda fed: [*fed[1:], fed[0]]),
        "you look for the largest weight of each column. A row is a destination, and shares its "
        "weight out over the columns: take the largest of each row.": _read_by(
            lambda fed: [*fed[1:], "</s>"], turned=True
        ),
        "you look a token up in fed to find the next one. A word may occur twice, and index finds "
        "its first place only: go by the place.": lambda weights, fed, sources: [
            ([*fed, "</s>"][fed.index(token) + 1], sources[j])
            for token, j in zip(fed, weights.argmax(1).tolist(), strict=True)
        ],
        "you find the row of a token by looking the token up. A word may be produced twice, and "
        "index finds its first row only: go by the place, as zip does.": (
            lambda weights, fed, sources: [
                (token, sources[int(weights[[*fed[1:], "</s>"].index(token)].argmax())])
                for token in [*fed[1:], "</s>"]
            ]
        ),
        "you collect the pairs in a dict, which keeps one pair for each word. A word that is "
        "produced twice has two rows: use a list.": lambda weights, fed, sources: list(
            dict(_read_map(weights, fed, sources)).items()
        ),
        "each pair is the wrong way round: first the token produced, then the source it looked "
        "at.": lambda weights, fed, sources: [
            (source, token) for token, source in _read_map(weights, fed, sources)
        ],
        "you give the place of the source, not its word: sources[place].": (
            lambda weights, fed, sources: [
                (pair[0], place)
                for pair, place in zip(
                    _read_map(weights, fed, sources), weights.argmax(1).tolist(), strict=True
                )
            ]
        ),
    },
)


# --- words_looked_at: how sharp a row is ----------------------------------------------------------


def _words_looked_at(weights: Tensor) -> Tensor:
    """By SciPy's entropy."""
    from scipy.stats import entropy

    nats = torch.as_tensor(entropy(weights.double().numpy(), axis=-1), dtype=torch.float64)
    return nats.exp().to(weights.dtype)


def _entropy(weights: Tensor) -> Tensor:
    terms: Tensor = torch.special.entr(weights)
    return terms.sum(-1)


def _sharp_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor]]:
    cases = []
    for lead in ((3,), (2, 4), (1, 2), (2, 3, 2)):
        scores = rng.choice([1, 3]) * torch.randn(*lead, rng.randint(5, 9), generator=generator)
        cases.append((scores.softmax(-1),))
    cases.append((torch.eye(3)[[0, 2], :].expand(2, 2, 3).clone(),))  # one word each
    padded = cases[1][0].clone()
    padded[..., -2:] = 0
    cases.append((padded / padded.sum(-1, keepdim=True),))
    cases[0] = (cases[0][0].double(),)
    few, many = rng.randint(3, 4), rng.randint(8, 12)  # small weights, and very small ones
    small = torch.tensor([0.0] + [0.004] * few + [0.0004] * many)
    small[0] = 1 - small.sum()
    cases.append((small[torch.randperm(len(small), generator=generator)],))
    for shape in ((rng.randint(4, 6),), (4, 4, 4)):  # no axis in front; all axes alike
        cases.append((torch.randn(*shape, generator=generator).softmax(-1),))
    return cases


SHARP = Task(
    name="words_looked_at",
    reference=_words_looked_at,
    visible=(
        (_table([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0], [0, 0, 1, 0]]),),
        (torch.tensor([[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]] * 2).double(),),
        (_table([0.7, 0.1, 0.1, 0.1]),),
        (_table([0.975, *[0.005] * 4, *[0.0005] * 10]),),  # many small ones
    ),
    hidden=_sharp_hidden,
    mistakes={
        "a weight of 0 gives NaN: ln 0 is −∞, and 0 · (−∞) has no value. Such a term counts 0: use "
        "torch.where, torch.xlogy or torch.special.entr.": lambda weights: (
            -(weights * weights.log()).sum(-1)
        ).exp(),
        "that is the entropy, in nats. Its exponential is a number of words.": _entropy,
        "the sign is lost: you have exp(Σ a ln a), one divided by the number of words.": (
            lambda weights: (-_entropy(weights)).exp()
        ),
        "you mix two logarithms: the entropy with log2 goes with 2 to its power, the one with ln "
        "goes with e.": lambda weights: (_entropy(weights) / L2).exp(),
        "you average the terms where they are summed: Σ over the source, not the mean.": (
            lambda weights: (_entropy(weights) / weights.shape[-1]).exp()
        ),
        "you sum over the wrong axis: each row, along the sources (the last axis), has its own "
        "entropy.": lambda weights: torch.special.entr(weights).sum(-2).exp(),
        "you give one number for all rows. Each row has its own.": lambda weights: (
            torch.special.entr(weights).sum().exp()
        ),
        "you count the weights that are not 0. A weight of a thousandth then counts as much as "
        "one of a half.": lambda weights: (weights > 0).sum(-1).to(weights.dtype),
        **{
            f"weights below {least:g} are as good as 0 in your answer. Small ones count, too, and "
            "many of them count much: only the logarithm of an exact 0 must be replaced.": (
                lambda weights, least=least: _entropy(
                    torch.where(weights > least, weights, 0.0)
                ).exp()
            )
            for least in (1e-2, 1e-3)
        },
        "you put a smallest weight (clamp) under the logarithm, and it is larger than some weights "
        "that are not 0. Only an exact 0 needs help.": lambda weights: (
            -(weights * weights.clamp(min=1e-3).log()).sum(-1)
        ).exp(),
        "that is one over the largest weight. It knows nothing of the others.": lambda weights: (
            1 / weights.amax(-1)
        ),
    },
)

TASKS: tuple[Task, ...] = (ADDITIVE, READINGS, PADDING, READ, SHARP)
