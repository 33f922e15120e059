"""Tasks of chapter 10: relations and offsets, gates, relevance, and which heads go first."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from grading.task import Task

# --- relation_accuracy ----------------------------------------------------------------------------

Arcs = list[list[tuple[int, int]]]
Found = tuple[Tensor, float]


def _hits(maps: list[Tensor], arcs: Arcs, turned: bool = False) -> list[list[list[float]]]:
    """By sentence and arc: for each head, 1 if the largest weight of the destination is there."""
    found = []
    for A, pairs in zip(maps, arcs, strict=True):
        A = A.mT if turned else A
        rows = ((A[:, there, :].argmax(-1), here) for there, here in pairs)
        found.append([[float(one == here) for one in most] for most, here in rows])
    return found


def _pooled(found: list[list[list[float]]]) -> Tensor:
    return torch.tensor([row for rows in found for row in rows]).mean(0)


def _offsets(arcs: Arcs) -> list[int]:
    return [here - there for pairs in arcs for there, here in pairs]


def _share(offsets: list[int]) -> float:
    return max(offsets.count(one) for one in offsets) / len(offsets)


def _relation(maps: list[Tensor], arcs: Arcs) -> Found:
    return _pooled(_hits(maps, arcs)), _share(_offsets(arcs))


def _by_sentence(maps: list[Tensor], arcs: Arcs) -> Found:
    means = [_pooled([rows]) for rows in _hits(maps, arcs) if rows]
    return torch.stack(means).mean(0), _share(_offsets(arcs))


def _mass(maps: list[Tensor], arcs: Arcs) -> Found:
    weights = [A[:, t, s] for A, pairs in zip(maps, arcs, strict=True) for t, s in pairs]
    return torch.stack(weights).mean(0), _share(_offsets(arcs))


def _exchanged(arcs: Arcs) -> Arcs:
    return [[(s, t) for t, s in pairs] for pairs in arcs]


def _baseline(way: Callable[[list[int]], float]) -> Callable[[list[Tensor], Arcs], Found]:
    return lambda maps, arcs: (_relation(maps, arcs)[0], way(_offsets(arcs)))


def _by_text_baseline(maps: list[Tensor], arcs: Arcs) -> Found:
    best = sum(max(Counter(_offsets([pairs])).values()) for pairs in arcs if pairs)
    return _relation(maps, arcs)[0], best / len(_offsets(arcs))


def _all_words(maps: list[Tensor], arcs: Arcs) -> Found:
    words = sum(A.shape[-1] for A in maps)
    accuracy, baseline = _relation(maps, arcs)
    share = len(_offsets(arcs)) / words
    return accuracy * share, baseline * share


def _once(maps: list[Tensor], arcs: Arcs) -> Found:
    """Of the pairs of a destination the last one alone."""
    return _relation(maps, [list(dict(pairs).items()) for pairs in arcs])


def _soft(generator: Generator, *shape: int) -> Tensor:
    """Maps whose rows sum to 1, and in which no two weights of a row are equal."""
    weights: Tensor = (2 * torch.randn(*shape, generator=generator)).softmax(-1)
    return weights


def _sentences(
    rng: random.Random, generator: Generator, H: int, lengths: Sequence[int]
) -> tuple[list[Tensor], Arcs]:
    """Sentences in which some heads look where the arcs point, and some arcs share an offset."""
    maps, arcs = [], []
    for T in lengths:
        A = _soft(generator, H, T, T)
        pairs = []
        for _ in range(rng.randint(1, 4)):
            there = rng.randrange(T)
            steps = [o for o in (-2, 1, 1, 3) if 0 <= there + o < T]
            here = there + rng.choice(steps) if steps else rng.randrange(T)
            for h in range(H):
                if rng.random() < 0.5:
                    A[h, there, here] = 3.0
            pairs.append((there, here))
        maps.append(A / A.sum(-1, keepdim=True))
        arcs.append(pairs)
    return maps, arcs


def _relation_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[list[Tensor], Arcs]]:
    cases = []
    for H in (1, 2, 3, 5):
        lengths = [rng.randint(3, 9) for _ in range(rng.randint(3, 5))]
        cases.append(_sentences(rng, generator, H, lengths))
    maps, arcs = _sentences(rng, generator, 3, (5, 6, 4, 7))
    arcs[rng.choice((0, 2))] = []  # a sentence without the relation
    cases.append((maps, arcs))
    cases += [_sentences(rng, generator, 4, (4, 4, 4, 4)) for _ in range(2)]  # axes alike
    maps, arcs = _sentences(rng, generator, 2, (6,))
    arcs[0] = [(3, 1), (3, 5), (3, 1)]  # one destination, more than one arc
    cases.append((maps, arcs))
    far = _sentences(rng, generator, 2, (9, 9))[0]
    cases.append((far, [[(8, 1), (0, 2)], [(8, 1), (2, 3)]]))  # the best offset is a long one
    return cases


RELATION = Task(
    name="relation_accuracy",
    reference=_relation,
    visible=(
        ([torch.tensor([[[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.3, 0.5, 0.2]]])], [[(1, 2), (0, 1)]]),
        _sentences(random.Random(3), Generator().manual_seed(3), 2, (4, 5, 3)),
        (
            [*_soft(Generator().manual_seed(4), 2, 3, 6, 6)],
            [[(1, 0), (2, 3), (4, 1)], [(3, 2), (4, 3), (5, 1), (5, 5)]],
        ),
    ),
    hidden=_relation_hidden,
    mistakes={
        "you look along the wrong axis: a row is a destination, and its largest weight stands "
        "somewhere in that row.": lambda maps, arcs: (
            _pooled(_hits(maps, arcs, turned=True)),
            _share(_offsets(arcs)),
        ),
        "destination and source have changed places: the first number of a pair is the "
        "destination.": lambda maps, arcs: _relation(maps, _exchanged(arcs)),
        "you take the mean of the sentences' means: every pair counts alike, whatever sentence it "
        "is from.": _by_sentence,
        "this is the mean weight on the source: asked for is how often the largest weight is "
        "there.": _mass,
        "a destination with several pairs counts once in your answer: every pair counts.": _once,
        "you divide by all words: only the pairs count.": _all_words,
        "your accuracy is divided by all words: only the pairs count.": lambda maps, arcs: (
            _all_words(maps, arcs)[0],
            _relation(maps, arcs)[1],
        ),
        "your baseline is divided by all words: only the pairs count.": lambda maps, arcs: (
            _relation(maps, arcs)[0],
            _all_words(maps, arcs)[1],
        ),
        "your baseline is the commonest offset of every sentence by itself: it is one offset for "
        "all.": _by_text_baseline,
        "your baseline is the commonest distance: an offset has a sign, two before is not two "
        "after.": _baseline(lambda offsets: _share([abs(o) for o in offsets])),
        "your baseline is the offset −1: the best offset is whatever most pairs have.": _baseline(
            lambda offsets: offsets.count(-1) / len(offsets)
        ),
        "your baseline is the offset +1: the best offset is whatever most pairs have.": _baseline(
            lambda offsets: offsets.count(1) / len(offsets)
        ),
        "your baseline is the offset itself: the share of pairs that have it is asked for.": (
            _baseline(lambda offsets: float(Counter(offsets).most_common(1)[0][0]))
        ),
        "your baseline is a number of pairs: the share is asked for.": _baseline(
            lambda offsets: float(max(Counter(offsets).values()))
        ),
        "the baseline is subtracted from the accuracy: return the two beside each other.": (
            lambda maps, arcs: (
                _relation(maps, arcs)[0] - _relation(maps, arcs)[1],
                _relation(maps, arcs)[1],
            )
        ),
    },
)


# --- usual_offset ---------------------------------------------------------------------------------


def _usual(A: Tensor) -> tuple[Tensor, Tensor]:
    """Head by head, text by text, row by row."""
    offsets, shares = [], []
    for h in range(A.shape[1]):
        rows = [(row, t) for text in A[:, h] for t, row in enumerate(text)]
        count = Counter(int(row.argmax()) - t for row, t in rows)
        most = max(count.values())
        offsets.append(min(o for o, times in count.items() if times == most))
        shares.append(most / len(rows))
    return torch.tensor(offsets), torch.tensor(shares)


def _steps(A: Tensor, dim: int = -1) -> Tensor:
    """Source minus destination of every largest weight: (N, H, T)."""
    return A.argmax(dim) - torch.arange(A.shape[-1])


def _commonest(steps: Tensor, of_ties: Callable[[list[int]], int] = min) -> tuple[Tensor, Tensor]:
    """The commonest value of every row (H, n), and its share; of several, as they came, one."""
    found = []
    for row in steps.tolist():
        count = Counter(row)
        most = max(count.values())
        best = of_ties([o for o, times in count.items() if times == most])
        found.append((best, most / len(row)))
    return torch.tensor([o for o, _ in found]), torch.tensor([s for _, s in found])


def _flat(steps: Tensor) -> Tensor:
    return steps.transpose(0, 1).flatten(1)


def _by_mean_weight(A: Tensor) -> tuple[Tensor, Tensor]:
    """The diagonal with the largest mean weight, and that weight."""
    T = A.shape[-1]
    of_offset = [A.diagonal(o, -2, -1).sum(-1).mean(0) / T for o in range(1 - T, T)]
    best = torch.stack(of_offset, -1).max(-1)
    return best.indices + 1 - T, best.values


def _text_by_text(A: Tensor) -> Tensor:
    """The commonest offset of each text (H, N)."""
    return torch.stack([_commonest(steps)[0] for steps in _steps(A)], -1)


def _only_reachable(A: Tensor) -> tuple[Tensor, Tensor]:
    """Shares of the destinations that have a source at the offset."""
    offsets, shares = _commonest(_flat(_steps(A)))
    return offsets, shares * A.shape[-1] / (A.shape[-1] - offsets.abs())


def _with_share(A: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    return offset, (_flat(_steps(A)) == offset[:, None]).float().mean(1)


def _looking(*sources: int) -> Tensor:
    """The map of one head in one text whose destinations look at these sources alone."""
    return torch.eye(len(sources))[list(sources)][None, None]


def _offset_maps(rng: random.Random, generator: Generator, N: int, H: int, T: int) -> Tensor:
    """Maps of N texts in which each head has an offset that it likes."""
    A = _soft(generator, N, H, T, T)
    for h in range(H):
        liked = rng.choice([o for o in (-3, -2, -1, 1, 2) if abs(o) < T] or [0])
        for n in range(N):
            for t in range(max(0, -liked), min(T, T - liked)):
                if rng.random() < 0.6:
                    A[n, h, t, t + liked] = 2.0
    return A / A.sum(-1, keepdim=True)


def _usual_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor]]:
    cases = []
    for N, H, T in ((1, 3, 6), (4, 2, 7), (2, 5, 8), (3, 1, 5), (5, 4, 9)):
        cases.append(_offset_maps(rng, generator, N, H, T))
    n = rng.randint(4, 5)
    cases += [_offset_maps(rng, generator, n, n, n) for _ in range(2)]
    cases.append(_offset_maps(rng, generator, 3, 2, 1))  # one token: it looks at itself
    tied = _looking(1, 0, 3, 2)  # +1 and −1 twice each
    cases.append(torch.cat([tied, tied.flip(-2)], 1))
    cases.append(_looking(4, 0, 0, 0, 0))  # one source, whoever looks
    cases.append(_looking(0, 0, 0, 1, 5, 6, 2))  # −2 and 1 twice each
    alike = _looking(0, 1, 1, 0, 2)  # 0 is commonest in two texts, and −1 in all three together
    cases.append(torch.cat([alike, alike, _looking(1, 0, 1, 2, 3)]))
    return [(A,) for A in cases]


USUAL = Task(
    name="usual_offset",
    reference=_usual,
    visible=(
        (torch.tensor([[[[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.3, 0.6, 0.1]]]]),),
        (_offset_maps(random.Random(1), Generator().manual_seed(1), 3, 2, 5),),
        (_offset_maps(random.Random(7), Generator().manual_seed(7), 2, 3, 4),),
        (_looking(1, 0, 3, 2),),
        (_looking(0, 0, 0, 1, 5, 6, 2),),
        (torch.cat([_looking(0, 1, 1, 0), _looking(0, 1, 1, 0), _looking(1, 0, 1, 2)]),),
    ),
    hidden=_usual_hidden,
    mistakes={
        "your sign is the other way round: the offset is source minus destination, −1 is the "
        "token before.": lambda A: _commonest(_flat(-_steps(A))),
        "rows and columns have changed places: a row is a destination.": (
            lambda A: _commonest(_flat(_steps(A, dim=-2)))
        ),
        "this is the commonest source: the offset counts from the destination.": (
            lambda A: _commonest(_flat(A.argmax(-1)))
        ),
        "this is the diagonal with the largest mean weight: it is asked where the largest weight "
        "of each row stands.": _by_mean_weight,
        "you leave out the destinations that have no such source: all T count.": _only_reachable,
        "the commonest distance is another thing: an offset has a sign.": (
            lambda A: _commonest(_flat(_steps(A).abs()))
        ),
        "of two offsets that are as common you take the larger one.": (
            lambda A: _commonest(_flat(_steps(A)), max)
        ),
        "of two offsets that are as common you take the one that comes first: the smallest is "
        "asked for.": lambda A: _commonest(_flat(_steps(A)), lambda tied: tied[0]),
        "of two offsets that are as common you take the nearer one: the smallest is asked for, "
        "−2 rather than 1.": lambda A: _commonest(
            _flat(_steps(A)), lambda tied: min(tied, key=lambda o: (abs(o), o))
        ),
        "heads and texts are mixed in your rows: bring the axis of the heads to the front, with "
        "transpose(0, 1), before you flatten.": lambda A: _commonest(
            _steps(A).reshape(A.shape[1], -1)
        ),
        "each of your rows is a text with all its heads: bring the axis of the heads to the front, "
        "with transpose(0, 1), before you flatten.": lambda A: _commonest(_steps(A).flatten(1)),
        "you leave out the first destination: all T count.": (
            lambda A: _commonest(_flat(_steps(A)[..., 1:]))
        ),
        "you take the commonest offset of every text, and of these the commonest: all texts are "
        "counted together.": lambda A: _with_share(A, _commonest(_text_by_text(A))[0]),
        "your share is that of every text's own commonest offset: the offset is one for all "
        "texts.": lambda A: (
            _commonest(_text_by_text(A))[0],
            (_steps(A) == _text_by_text(A).T[..., None]).float().mean((0, 2)),
        ),
        "you count in the first text only: the share is over all texts.": (
            lambda A: _commonest(_steps(A)[0])
        ),
        "your share is a number of destinations: divide by all of them.": lambda A: (
            _usual(A)[0],
            _usual(A)[1] * A.shape[0] * A.shape[-1],
        ),
        "you divide by the destinations of one text: the share is over all texts.": lambda A: (
            _usual(A)[0],
            _usual(A)[1] * A.shape[0],
        ),
        "you take the mean offset: the commonest is asked for.": lambda A: (
            _flat(_steps(A)).float().mean(1).round().long(),
            _usual(A)[1],
        ),
        "your share is that of the mean offset: the commonest one is asked for.": (
            lambda A: _with_share(A, _flat(_steps(A)).float().mean(1).round().long())
        ),
        "one answer for all heads: each has its own.": lambda A: tuple(
            part[0] for part in _commonest(_steps(A).flatten()[None])
        ),
    },
)


# --- gate_chances ---------------------------------------------------------------------------------


def _logistic(z: float) -> float:
    return 0.5 * (1 + math.tanh(z / 2))


def _chances(log_a: Tensor, beta: float, low: float, high: float) -> Tensor:
    """By the two values of u at which the gate leaves 0 and reaches 1."""
    flat = []
    for one in log_a.double().flatten().tolist():
        borders = []
        for gate in (0.0, 1.0):
            part = (gate - low) / (high - low)
            s = math.log(part / (1 - part))  # σ(s) = part
            borders.append(_logistic(beta * s - one))
        flat += [borders[0], borders[1] - borders[0], 1 - borders[1]]
    return torch.tensor(flat, dtype=log_a.dtype).reshape(*log_a.shape, 3)


def _two(
    to_zero: Callable[..., Tensor], to_one: Callable[..., Tensor] | None = None
) -> Callable[[Tensor, float, float, float], Tensor]:
    """The three chances from other rules for P(g > 0) and P(g = 1)."""

    def chances(log_a: Tensor, beta: float, low: float, high: float) -> Tensor:
        above = to_zero(log_a, beta, low, high)
        one = (to_one or _one)(log_a, beta, low, high)
        return torch.stack([1 - above, above - one, one], -1)

    return chances


def _above(log_a: Tensor, beta: float, low: float, high: float) -> Tensor:
    return (log_a - beta * math.log(-low / high)).sigmoid()


def _one(log_a: Tensor, beta: float, low: float, high: float) -> Tensor:
    return (log_a - beta * math.log((1 - low) / (high - 1))).sigmoid()


def _simulated(log_a: Tensor, beta: float, low: float, high: float) -> Tensor:
    generator = Generator().manual_seed(0)
    u = torch.rand(20_000, *log_a.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
    s = (u.log() - (1 - u).log() + log_a) / beta
    g = ((high - low) * s.sigmoid() + low).clamp(0, 1)
    kinds = (g == 0, (g > 0) & (g < 1), g == 1)
    return torch.stack([kind.to(log_a.dtype).mean(0) for kind in kinds], -1)


def _gate_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, float, float, float]]:
    cases = []
    for shape in ((), (5,), (1,), (2, 4), (3, 3)):
        log_a = 2 * torch.randn(shape, generator=generator)
        low, high = -round(rng.uniform(0.05, 0.9), 2), 1 + round(rng.uniform(0.05, 0.9), 2)
        cases.append((log_a, round(rng.uniform(0.2, 1.5), 2), low, high))
    log_a = torch.randn(3, 3, generator=generator)
    usual = (0.33, -0.1, 1.1)
    cases += [(log_a, *usual), (torch.randn(3, 3, generator=generator), *usual)]
    cases.append((log_a.double(), *usual))
    cases.append((torch.tensor([-200.0, -30.0, 0.0, 30.0, 200.0]), *usual))
    cases.append((torch.randn(3, generator=generator), 0.66, -0.1, 1.4))
    return [*cases, (torch.randn(3, generator=generator), 2 / 3, -1.0, 1.5)]


GATE = Task(
    name="gate_chances",
    reference=_chances,
    visible=(
        (torch.tensor(0.0), 1.0, -1.0, 2.0),
        (torch.tensor([-3.0, 0.0, 1.5, 200.0]), 0.33, -0.1, 1.1),
        (torch.tensor([[0.5, -1.0], [2.0, 0.0]]).double(), 0.8, -0.2, 1.6),
    ),
    hidden=_gate_hidden,
    mistakes={
        "β is missing at the border: the noise is divided by it before the sigmoid.": _two(
            lambda a, beta, low, high: (a - math.log(-low / high)).sigmoid(),
            lambda a, beta, low, high: (a - math.log((1 - low) / (high - 1))).sigmoid(),
        ),
        "your borders have the wrong sign: the gate is open if ln u − ln(1 − u) + log a is above "
        "β times the border.": _two(
            lambda a, beta, low, high: (a + beta * math.log(-low / high)).sigmoid(),
            lambda a, beta, low, high: (a + beta * math.log((1 - low) / (high - 1))).sigmoid(),
        ),
        "log a has the wrong sign: the larger it is, the more often the gate is open.": (
            lambda a, beta, low, high: _chances(-a, beta, low, high)
        ),
        "your border is the value of σ(s), not of s: where σ(s) = p, s is ln(p/(1 − p)).": _two(
            lambda a, beta, low, high: (a + beta * low / (high - low)).sigmoid(),
            lambda a, beta, low, high: (a - beta * (1 - low) / (high - low)).sigmoid(),
        ),
        "you compute with 0.33, −0.1 and 1.1 whatever is given: use beta, low and high.": (
            lambda a, beta, low, high: _chances(a, 0.33, -0.1, 1.1)
        ),
        "your β is always 0.33: use what is given.": (
            lambda a, beta, low, high: _chances(a, 0.33, low, high)
        ),
        "your low and high are always −0.1 and 1.1: use what is given.": (
            lambda a, beta, low, high: _chances(a, beta, -0.1, 1.1)
        ),
        "you take 1 − low for high: the two are given, and need not lie as far from 0 and 1.": (
            lambda a, beta, low, high: _chances(a, beta, low, 1 - low)
        ),
        "exp of a large log a is infinite, and ∞/∞ is NaN: torch.sigmoid knows how to avoid it.": (
            _two(
                lambda a, beta, low, high: a.exp() / (a.exp() + (-low / high) ** beta),
                lambda a, beta, low, high: a.exp() / (a.exp() + ((1 - low) / (high - 1)) ** beta),
            )
        ),
        "you divide log a by β as well: noise and log a are both above the β, so only the border "
        "is multiplied by it.": _two(
            lambda a, beta, low, high: (a / beta - math.log(-low / high)).sigmoid(),
            lambda a, beta, low, high: (a / beta - math.log((1 - low) / (high - 1))).sigmoid(),
        ),
        "you treat the gate as open with the probability σ(log a): stretching to (low, high) moves "
        "the border.": _two(lambda a, beta, low, high: a.sigmoid()),
        "your P(g = 1) is that of σ(s) above ½: the gate is 1 where (high − low) σ(s) + low "
        "reaches 1.": _two(_above, lambda a, beta, low, high: a.sigmoid()),
        "your P(g = 1) takes the border of 0: another border belongs to 1.": _two(
            _above, lambda a, beta, low, high: _above(a, beta, low, high)
        ),
        "you take it that the gate is as often 1 at log a as it is 0 at −log a: that holds only if "
        "low and high lie as far from 0 and 1.": _two(
            _above, lambda a, beta, low, high: 1 - _above(-a, beta, low, high)
        ),
        "0 and 1 have changed places: P(g = 0) comes first.": (
            lambda a, beta, low, high: _chances(a, beta, low, high).flip(-1)
        ),
        "your second number is P(g > 0): between 0 and 1 is what is neither.": (
            lambda a, beta, low, high: torch.stack(
                [
                    1 - _above(a, beta, low, high),
                    _above(a, beta, low, high),
                    _one(a, beta, low, high),
                ],
                -1,
            )
        ),
        "this is the gate without noise: probabilities are asked for.": (
            lambda a, beta, low, high: torch.stack(
                [
                    ((((high - low) * (a / beta).sigmoid() + low).clamp(0, 1)) == 0).to(a),
                    torch.zeros_like(a),
                    ((((high - low) * (a / beta).sigmoid() + low).clamp(0, 1)) == 1).to(a),
                ],
                -1,
            )
        ),
        "the three stand in front: the last axis is theirs.": (
            lambda a, beta, low, high: _chances(a, beta, low, high).movedim(-1, 0)
        ),
    },
)


# --- z_rule ---------------------------------------------------------------------------------------


def _z_rule(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    """Output by output: every input gets its part of the sum."""
    out = torch.zeros_like(x)
    for j in range(W.shape[1]):
        parts = x * W[:, j]
        z = parts.sum(-1) + b[j]
        z = torch.where(z < 0, z - eps, z + eps)
        out += parts * (R[..., j] / z)[..., None]
    return out


Shared = tuple[Tensor, Tensor, Tensor, Tensor, float]


def _rule(
    z: Callable[..., Tensor] = lambda x, W, b, eps: _pushed(x @ W + b, eps),
    back: Callable[..., Tensor] = lambda x, W, s: x * (s @ W.mT),
) -> Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]:
    """The rule with one part replaced."""

    def share(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
        return back(x, W, R / z(x, W, b, eps))

    return share


def _pushed(z: Tensor, eps: float) -> Tensor:
    return torch.where(z < 0, z - eps, z + eps)


def _absolute(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    parts = (x[..., :, None] * W).abs()
    return (parts / parts.sum(-2, keepdim=True) * R[..., None, :]).sum(-1)


def _positive(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    parts = (x[..., :, None] * W).clamp(min=0)
    return (parts / (parts.sum(-2, keepdim=True) + eps) * R[..., None, :]).sum(-1)


def _raised(z: Tensor, eps: float) -> Tensor:
    return torch.where(z < 0, -1.0, 1.0) * z.abs().clamp(min=eps)


def _halves(pushed: bool) -> Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]:
    """The chapter's other rule: one half to positive parts, one to negative ones."""

    def share(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
        parts = x[..., :, None] * W
        up, down = parts.clamp(min=0), parts.clamp(max=0)
        plus, minus = up.sum(-2) + b.clamp(min=0), down.sum(-2) + b.clamp(max=0)
        given = R * torch.where((plus == 0) | (minus == 0), 1.0, 0.5)
        small = eps if pushed else 1e-30
        p, n = given / (plus + small), given / (minus - small)
        return (up * p[..., None, :] + down * n[..., None, :]).sum(-1)

    return share


def _equal_parts(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    z = _pushed(x @ W + b, eps)
    parts = x[..., :, None] * W + b / len(W)
    return (parts / z[..., None, :] * R[..., None, :]).sum(-1)


def _normed(x: Tensor, W: Tensor, b: Tensor, R: Tensor, eps: float) -> Tensor:
    out = _z_rule(x, W, b, R, eps)
    return out * (R.sum(-1) / out.sum(-1))[..., None]


def _case(generator: Generator, lead: tuple[int, ...], n: int, m: int, eps: float) -> Shared:
    """Inputs whose sums z are away from 0."""
    x, W, b = (torch.randn(*shape, generator=generator) for shape in ((*lead, n), (n, m), (m,)))
    z = x @ W + b
    close = z.abs() < 0.3
    R = torch.randn(*lead, m, generator=generator).masked_fill(close, 0.0)
    return x, W, b, R, eps


def _z_hidden(rng: random.Random, generator: Generator) -> Sequence[Shared]:
    cases = []
    for lead in ((), (rng.randint(2, 4),), (1,), (2, 3)):
        n, m = rng.sample(range(2, 8), 2)
        cases.append(_case(generator, lead, n, m, round(rng.uniform(0.05, 0.3), 3)))
    k = rng.randint(3, 5)
    cases += [_case(generator, (k,), k, k, 0.1) for _ in range(2)]
    x, W, b, R, eps = cases[1]
    cases.append((x.double(), W.double(), b.double(), R.double(), eps))
    cases.append((x, W, b, R, 1e-9))
    cases.append((x, W, torch.zeros_like(b), R, 0.2))
    cases.append(_case(generator, (3,), 1, 4, 0.1))
    cases.append(_case(generator, (3,), 4, 1, 0.1))
    # the parts of z cancel: it is 0, and counts as positive
    cancels = torch.tensor([[1.0], [-1.0], [0.5]])
    return [
        *cases,
        (torch.tensor([[2.0, 2.0, 0.0]]), cancels, torch.zeros(1), torch.ones(1, 1), 0.5),
    ]


Z_RULE = Task(
    name="z_rule",
    reference=_z_rule,
    visible=(
        (
            torch.tensor([1.0, 2.0]),
            torch.tensor([[3.0], [1.0]]),
            torch.tensor([4.0]),
            torch.tensor([10.0]),
            1.0,
        ),
        (
            torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]]),
            torch.tensor([[1.0, -1.0, 2.0, 0.0], [0.5, 1.0, -1.0, 2.0], [2.0, 0.0, 1.0, -1.0]]),
            torch.tensor([0.5, -1.0, 0.0, 1.0]),
            torch.tensor([[1.0, 2.0, -1.0, 0.5], [3.0, 1.0, 0.0, -2.0]]),
            0.1,
        ),
        (
            torch.tensor([[1.0, -1.0], [2.0, 1.0]]).double(),
            torch.tensor([[1.0, 2.0], [3.0, -1.0]]).double(),
            torch.tensor([0.0, 0.5]).double(),
            torch.tensor([[1.0, 1.0], [2.0, -1.0]]).double(),
            0.5,
        ),
        (
            torch.tensor([[2.0, 2.0]]),
            torch.tensor([[1.0], [-1.0]]),
            torch.tensor([0.0]),
            torch.tensor([[1.0]]),
            0.5,
        ),
    ),
    hidden=_z_hidden,
    mistakes={
        "ε always has a plus: it pushes z away from 0, so a negative z gets −ε.": _rule(
            z=lambda x, W, b, eps: x @ W + b + eps
        ),
        "ε has the wrong sign: z is pushed away from 0, not towards it.": _rule(
            z=lambda x, W, b, eps: _pushed(x @ W + b, -eps)
        ),
        "ε is missing.": _rule(z=lambda x, W, b, eps: x @ W + b),
        "sign(0) is 0, so a z of 0 gets no ε: it counts as positive.": _rule(
            z=lambda x, W, b, eps: x @ W + b + eps * (x @ W + b).sign()
        ),
        "a z of 0 counts as negative in your rule: sgn(0) is +1 here, so it gets +ε.": _rule(
            z=lambda x, W, b, eps: -_pushed(-(x @ W + b), eps)
        ),
        "you raise |z| to ε where it is smaller: ε is added to every |z|.": _rule(
            z=lambda x, W, b, eps: _raised(x @ W + b, eps)
        ),
        "ε comes before b: z is pushed when b is in it.": _rule(
            z=lambda x, W, b, eps: _pushed(x @ W, eps) + b
        ),
        "R does not occur: an input gets its part of every R_j.": (
            lambda x, W, b, R, eps: _z_rule(x, W, b, torch.ones_like(R), eps)
        ),
        "this is the rule of the two halves: in the z-rule each part gets its share of the whole "
        "sum.": _halves(pushed=False),
        "this is the rule of the two halves, with ε: in the z-rule each part gets its share of the "
        "whole sum.": _halves(pushed=True),
        "b is missing in z: the bias takes its part of the relevance, which is lost.": _rule(
            z=lambda x, W, b, eps: _pushed(x @ W, eps)
        ),
        "you share the bias among the inputs: its part is lost.": _equal_parts,
        "you stretch the result until nothing is lost: what b and ε took is not given back.": (
            _normed
        ),
        "x is missing: the part of an input is x_i W_ij.": _rule(back=lambda x, W, s: s @ W.mT),
        "W is missing: the part of an input is x_i W_ij.": _rule(
            back=lambda x, W, s: x * s.sum(-1, keepdim=True)
        ),
        "this is the gradient times the input: each output is divided by its own sum z.": _rule(
            z=lambda x, W, b, eps: torch.ones(W.shape[1], dtype=x.dtype)
        ),
        "you share by absolute values: a part may be negative, and then its share is.": _absolute,
        "only positive parts get something in your rule: the z-rule gives each part its share.": (
            _positive
        ),
        "these are the shares of the outputs, not of the inputs: the sum runs over j.": (
            lambda x, W, b, R, eps: R * (x @ W) / _pushed(x @ W + b, eps)
        ),
    },
    tolerance=1e-3,
)


# --- pruning_order --------------------------------------------------------------------------------


def _order(relevance: Tensor, steps: int) -> Tensor:
    """One head after another, by sorting the places."""
    N, A, H = relevance.shape
    size = [
        [sum(abs(r) for r in relevance[:, a, h].tolist()) / N for h in range(H)] for a in range(A)
    ]
    places = sorted((size[a][h], a, h) for a in range(A) for h in range(H))
    gates = torch.ones(steps + 1, A, H)
    for k, (_, a, h) in enumerate(places[:steps]):
        gates[k + 1 :, a, h] = 0
    return gates


def _ranked(
    score: Callable[[Tensor], Tensor], descending: bool = False
) -> Callable[[Tensor, int], Tensor]:
    """Pruning by another score."""

    def gates(relevance: Tensor, steps: int) -> Tensor:
        flat = score(relevance).double().flatten()
        rank = flat.argsort(stable=True, dim=0, descending=descending).argsort()
        kept = rank >= torch.arange(steps + 1)[:, None]
        return kept.float().reshape(-1, *relevance.shape[1:])

    return gates


def _in_each_layer(relevance: Tensor, steps: int) -> Tensor:
    size = relevance.abs().mean(0)
    rank = size.argsort(stable=True, dim=-1).argsort(-1)
    return (rank >= torch.arange(steps + 1)[:, None, None]).float()


def _saving_the_last(relevance: Tensor, steps: int) -> Tensor:
    """A head stays if it is the last one of its layer."""
    size = relevance.abs().mean(0)
    gates, now = [torch.ones_like(size)], torch.ones_like(size)
    for place in size.flatten().argsort(stable=True, dim=0).tolist():
        a, h = divmod(place, size.shape[1])
        if now[a].sum() > 1:
            now = now.clone()
            now[a, h] = 0
            gates.append(now)
    return torch.stack(gates[: steps + 1]).float()


def _repeating(gates: Tensor, steps: int) -> Tensor:
    """The gates, with the last row again until there are enough rows."""
    return torch.cat([gates, gates[-1:].expand(steps + 1 - len(gates), -1, -1)])


def _layer_by_layer(relevance: Tensor, steps: int) -> Tensor:
    """Every head of a layer, the least relevant first, and then the next layer."""
    largest = 1 + relevance.abs().max()
    above = largest * torch.arange(relevance.shape[1])
    return _order(relevance.abs().double() + above[:, None], steps)


def _by_threshold(relevance: Tensor, steps: int, together: bool) -> Tensor:
    """Heads above the k-th relevance; of equal ones all are gone, or none."""
    size = relevance.abs().mean(0)
    ends = [-1.0, *sorted(size.flatten().tolist()), math.inf]
    borders = ends[:-1] if together else ends[1:]
    rows = [(size > one) if together else (size >= one) for one in borders[: steps + 1]]
    return torch.stack(rows).float()


def _late_ties(relevance: Tensor, steps: int) -> Tensor:
    turned = _order(relevance.flip(1, 2), steps)
    return turned.flip(1, 2)


def _order_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Tensor, int]]:
    cases = []
    for N, A, H in ((3, 2, 4), (5, 3, 2), (1, 4, 3), (6, 1, 5), (4, 5, 1)):
        cases.append((torch.randn(N, A, H, generator=generator), rng.randint(2, A * H - 1)))
    n = rng.randint(3, 4)
    cases += [(torch.randn(n, n, n, generator=generator), n) for _ in range(2)]
    R = torch.randn(4, 2, 3, generator=generator)
    cases += [(R, 0), (R, 6), (R.double(), 4)]
    tied = torch.randint(-2, 3, (1, 3, 3), generator=generator).float()
    cases.append((tied, 6))
    many = torch.randint(-1, 2, (1, 4, 7), generator=generator).float()  # long ties
    cases.append((many, rng.randint(10, 20)))
    # one layer is the least relevant as a whole, and goes as a whole
    weak = R.clone()
    weak[:, 1] /= 100
    return [*cases, (weak, 4)]


ORDER = Task(
    name="pruning_order",
    reference=_order,
    visible=(
        (torch.tensor([[[3.0, -1.0], [0.5, -4.0]]]), 2),
        (
            torch.tensor(
                [[[0.1, -3.0, 0.5], [0.2, 2.0, -1.0]], [[-2.7, 2.8, 0.5], [0.3, -2.5, 0.1]]]
            ),
            6,
        ),
        (torch.tensor([[[2.0, -1.0], [1.0, 2.0], [0.0, 1.0]]]), 5),
        (
            torch.tensor(
                [[[0.1, 0.2, 0.15], [5.0, 0.0, 1.6]], [[0.1, -0.2, 0.3], [-5.0, 3.0, 1.6]]]
            ),
            4,
        ),
        (torch.tensor([1.0, 2.0, 0.0, -2.0, 1.0, -1.0]).double().repeat(4).reshape(1, 4, 6), 6),
    ),
    hidden=_order_hidden,
    mistakes={
        "you take the mean first and its absolute value then: plus and minus of different "
        "sentences cancel.": _ranked(lambda R: R.mean(0).abs()),
        "the sign counts in your ranking: a head with a large negative relevance matters, so "
        "absolute values are taken, sentence by sentence.": _ranked(lambda R: R.mean(0)),
        "the most relevant heads go first in your order: it begins with the least relevant.": (
            _ranked(lambda R: R.abs().mean(0), descending=True)
        ),
        "you remove so many heads in each layer: one ranking for all layers is asked for.": (
            _in_each_layer
        ),
        "you go layer by layer: one ranking for all layers is asked for.": _layer_by_layer,
        "you spare the last head of a layer: a layer may lose all of them.": _saving_the_last,
        "the last head of a layer stays in all your rows: a layer may lose all of them.": (
            lambda relevance, steps: _repeating(_saving_the_last(relevance, steps), steps)
        ),
        "of heads with the same relevance the later one goes first in your order.": _late_ties,
        "of heads with the same relevance yours go by their number, whatever their layer: the "
        "earlier layer comes first.": lambda relevance, steps: _order(relevance.mT, steps).mT,
        "heads with the same relevance go together in your rows: row k has k gates that are 0.": (
            lambda relevance, steps: _by_threshold(relevance, steps, together=True)
        ),
        "heads with the same relevance stay together in your rows: row k has k gates that are 0.": (
            lambda relevance, steps: _by_threshold(relevance, steps, together=False)
        ),
        "your row 0 has lost a head already: in row k the k least relevant ones are gone.": (
            lambda relevance, steps: _repeating(_order(relevance, steps)[min(1, steps) :], steps)
        ),
        "0 and 1 have changed places: a gate of 1 lets the head write.": (
            lambda relevance, steps: 1 - _order(relevance, steps)
        ),
        "the first row is missing, in which all heads are there.": (
            lambda relevance, steps: _order(relevance, steps)[1:]
        ),
        "this is the last row alone: one row for every number of removed heads is asked for.": (
            lambda relevance, steps: _order(relevance, steps)[-1]
        ),
        "each row removes one head only: what is gone stays gone.": (
            lambda relevance, steps: _one_at_a_time(relevance, steps)
        ),
        "you rank by the largest relevance of a sentence: the mean over the sentences is asked "
        "for.": _ranked(lambda R: R.abs().amax(0)),
        "you rank by the median of the sentences: the mean is asked for.": _ranked(
            lambda R: R.abs().median(0).values
        ),
        "you rank by squares, so that one sentence with a large relevance outweighs the others: "
        "the mean of the absolute values is asked for.": _ranked(lambda R: R.square().mean(0)),
        "you rank by one sentence: the mean over all of them is asked for.": _ranked(
            lambda R: R[0].abs()
        ),
        "your rows count backwards: row k has k gates that are 0.": (
            lambda relevance, steps: _order(relevance, steps).flip(0)
        ),
    },
)


def _one_at_a_time(relevance: Tensor, steps: int) -> Tensor:
    gates = _order(relevance, steps)
    out = torch.ones_like(gates)
    out[1:] -= gates[:-1] - gates[1:]
    return out


TASKS = (RELATION, USUAL, GATE, Z_RULE, ORDER)
