"""Tasks of chapter 15: direct attribution, effects, resampling, a path, a rank and its interval."""

import math
import random
from collections.abc import Sequence
from statistics import mean

import torch
from torch import Generator, Tensor

from attnlib.explain.patching import path_patching
from attnlib.models import Transformer, TransformerConfig
from grading.properties import converted, varied
from grading.task import Task

# --- direct_terms ---------------------------------------------------------------------------------

Parts = tuple[Tensor, Tensor, float, Tensor, int, int]


def _terms(parts: Tensor, gain: Tensor, eps: float, W_U: Tensor, right: int, wrong: int) -> Tensor:
    """Number by number."""
    whole = [math.fsum(column) for column in parts.T.tolist()]
    root = math.sqrt(mean(x * x for x in whole) + eps)
    told = [g * (u[right] - u[wrong]) for g, u in zip(gain.tolist(), W_U.tolist(), strict=True)]
    rows = [[x / root * t for x, t in zip(part, told, strict=True)] for part in parts.tolist()]
    return torch.tensor([math.fsum(row) for row in rows], dtype=parts.dtype)


def _drawn_parts(rng: random.Random, generator: Generator, n: int, d: int, D: int) -> Parts:
    """Parts beside whose size ε is nothing, a little, or as much."""
    size, eps = rng.choice(((1.0, 1e-5), (1.0, 0.3), (0.003, 1e-5)))
    parts = size * torch.randn(n, d, generator=generator)
    gain, W_U = torch.randn(d, generator=generator), torch.randn(d, D, generator=generator)
    right, wrong = rng.sample(range(D), 2)
    return parts, gain, eps, W_U, right, wrong


_CANCELLING = torch.tensor([[5.0, 0.0], [-5.0, 7.0]]), torch.ones(2), 0.0, torch.eye(2), 0, 1
TERMS = Task(
    name="direct_terms",
    reference=_terms,
    visible=(
        (torch.tensor([[5.0, 0.0], [-4.0, 7.0]]), torch.ones(2), 0.0, torch.eye(2), 0, 1),
        _drawn_parts(random.Random(7), Generator().manual_seed(1), 4, 3, 6),
        _drawn_parts(random.Random(5), Generator().manual_seed(2), 7, 6, 6),
    ),
    hidden=varied(
        _drawn_parts,
        {"n": 1, "d": 1, "D": 2},
        scaled=((0, 1e3), (0, 1e-3), (2, 0.0), (2, 1e3), (3, 60)),
        also=lambda *_: [_CANCELLING],
    ),
)


# --- restored_share -------------------------------------------------------------------------------

Runs = tuple[Tensor, Tensor, Tensor]


def _restored(patched: Tensor, clean: Tensor, corrupted: Tensor) -> Tensor:
    """Head by head."""
    gap = math.fsum(clean.tolist()) - math.fsum(corrupted.tolist())
    found = [math.fsum((head - corrupted).tolist()) / gap for head in patched.T.double()]
    return torch.tensor(found, dtype=patched.dtype)


def _drawn_runs(
    rng: random.Random, generator: Generator, n: int, H: int, sign: int | None = None
) -> Runs:
    """Some heads restore nothing, some all and more, some work the other way.

    On one prompt there is nothing to restore, on one it is the other way; `sign` is that of most.
    """
    gaps = 1 + torch.rand(n, generator=generator)
    gaps[1:2] = 0
    gaps[3:4] /= -2
    gaps = gaps[torch.randperm(n, generator=generator)] * (sign or rng.choice((-1, 1)))
    corrupted = torch.randn(n, generator=generator) + 1
    effect = 1.5 * torch.rand(H, generator=generator) - 0.3
    patched = torch.randn(n, H, generator=generator) / 3 + corrupted[:, None]
    return patched + effect * gaps[:, None], corrupted + gaps, corrupted


def _faint(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    """Small differences, to which nothing may be added; and beside large numbers."""
    small, far = (_drawn_runs(rng, generator, 4, 3) for _ in range(2))
    return [tuple(x / 1e9 for x in small), tuple(x.double() + 1e6 for x in far)]


RESTORED = Task(
    name="restored_share",
    reference=_restored,
    visible=(
        (torch.tensor([[3.0], [1.0]]), torch.tensor([4.0, 2.0]), torch.tensor([0.0, 2.0])),
        _drawn_runs(random.Random(1), Generator().manual_seed(1), 5, 3, sign=1),
        # the corrupted runs have the larger difference in the mean
        _drawn_runs(random.Random(2), Generator().manual_seed(2), 4, 4, sign=-1),
    ),
    hidden=varied(_drawn_runs, {"n": 1, "H": 1}, scaled=((0, 50),), also=_faint),
)


# --- resampled_harm -------------------------------------------------------------------------------

Head = tuple[Tensor, Tensor, Tensor, Tensor]


def _score(x: Tensor, t: Tensor) -> Tensor:
    """The logit difference of last streams (…, d), in the directions (…, d)."""
    return (x * t).sum(-1) / x.square().mean(-1).sqrt()


def _harm(stream: Tensor, written: Tensor, toward: Tensor, donors: Tensor) -> Tensor:
    """Prompt by prompt, donor by donor."""
    found, dtype = [], stream.dtype
    stream, written, toward = (part.double() for part in (stream, written, toward))
    for i, row in enumerate(donors.tolist()):
        kept, t = stream[i] - written[i], toward[i]
        after = [float(_score(kept + written[j], t)) for j in row]
        found.append(float(_score(stream[i], t)) - mean(after))
    return torch.tensor(found, dtype=dtype)


def _drawn_head(rng: random.Random, generator: Generator, n: int, R: int, d: int) -> Head:
    """A head that writes loudly into a stream of any size; some donors give twice."""
    kept, written = rng.choice((1, 0.003)) * torch.randn(2, n, d, generator=generator)
    toward = torch.randn(n, d, generator=generator)
    donors = [rng.choices([j for j in range(n) if j != i], k=R) for i in range(n)]
    return kept + 2 * written, 2 * written, toward, torch.tensor(donors)


HARM = Task(
    name="resampled_harm",
    reference=_harm,
    visible=(
        (
            torch.tensor([[1.0, 7.0], [7.0, 1.0]]),
            torch.tensor([[0.0, 6.0], [6.0, 0.0]]),
            torch.tensor([[0.0, 1.0], [0.0, 1.0]]),
            torch.tensor([[1], [0]]),
        ),
        _drawn_head(random.Random(3), Generator().manual_seed(3), 4, 3, 5),
        _drawn_head(random.Random(5), Generator().manual_seed(4), 3, 3, 3),
    ),
    hidden=varied(
        _drawn_head,
        {"n": 2, "R": 1, "d": 1},
        dtypes=(torch.float64,),  # in half, the squares of a short stream are rounded too far
        scaled=((1, 0.0), (1, 30)),
    ),
)


# --- path_effects ---------------------------------------------------------------------------------

Paths = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int]


def _paths(
    clean: Tensor,
    corrupted: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    toward: Tensor,
    receiver: int,
) -> Tensor:
    """By the course's own model and its own path patching; the tokens are the vectors given."""
    (T, d), (_, H, _, d_k) = clean.shape, W_Q.shape
    config = TransformerConfig(2 * T, d, 2, H, d_k, W_V.shape[-1], norm="none", positions="none")
    with torch.device("meta"):
        model = Transformer(config)
    weights = {"W_E": torch.cat([clean, corrupted]), "_W_U": toward[:, None].repeat(1, 2 * T)}
    for name, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V), ("W_O", W_O)):
        weights |= {f"blocks.{layer}.attention.{name}": W[layer] for layer in (0, 1)}
    model.load_state_dict(weights, assign=True)
    ids = torch.arange(2 * T)
    told = path_patching(model, ids[:T], ids[T:], lambda logits: logits[:, 0], (1, receiver))
    return told[0]


def _two_layers(
    rng: random.Random, generator: Generator, T: int, d: int, H: int, d_k: int, d_v: int
) -> Paths:
    """A model without norms, and two texts in which one or two places differ."""
    while True:
        W_Q, W_K, W_V, W_O = (
            torch.randn(2, H, *shape, generator=generator) * 1.5 / math.sqrt(shape[0])
            for shape in ((d, d_k), (d, d_k), (d, d_v), (d_v, d))
        )
        clean, toward = (torch.randn(*shape, generator=generator) for shape in ((T, d), (d,)))
        corrupted = clean.clone()
        places = rng.sample(range(T), rng.randint(1, 2))
        corrupted[places] = torch.randn(len(places), d, generator=generator)
        drawn = clean, corrupted, W_Q, W_K, W_V, W_O, toward, rng.randrange(H)
        try:
            exact = _paths(*converted(drawn, torch.float64))
        except ValueError:  # both runs end alike
            continue
        rounded = (_paths(*drawn) - exact).abs().max()  # much where the runs hardly differ
        if 0.05 < exact.abs().max() < 2 and rounded < 3e-6:
            return drawn


def _by_hand() -> Paths:
    """Two tokens; what is read in each dimension stands in the text of the task."""
    clean, corrupted = torch.zeros(2, 2, 4)
    clean[0, 1] = corrupted[0, 1] = clean[1, 0] = 1.0
    W_Q, W_K, W_V = torch.zeros(3, 2, 2, 4, 1)
    W_O = torch.zeros(2, 2, 1, 4)
    W_V[0, :, 0], W_O[0, 0, 0, 2], W_O[0, 1, 0, 3] = 1.0, 2 * math.log(3), 0.5
    W_Q[1, 0, 2], W_K[1, 0, 1], W_V[1, 0, 1], W_O[1, 0, 0, 3] = 1.0, 1.0, 1.0, 1.0
    return clean, corrupted, W_Q, W_K, W_V, W_O, torch.tensor([0.0, 0.0, 0.0, 1.0]), 0


PATHS = Task(
    name="path_effects",
    reference=_paths,
    visible=(
        _by_hand(),
        _two_layers(random.Random(5), Generator().manual_seed(5), 3, 4, 3, 2, 2),
        _two_layers(random.Random(6), Generator().manual_seed(6), 4, 4, 2, 2, 3),
    ),
    hidden=varied(
        _two_layers,
        {"T": 2, "d": 1, "H": 1, "d_k": 1, "d_v": 1},
        dtypes=(torch.float64,),  # in half, rounding is as large as an effect
        scaled=((6, 0.02),),
    ),
)


# --- rank_interval --------------------------------------------------------------------------------

Ranked = tuple[Tensor, Tensor, Tensor]


def _ranks(values: Sequence[float]) -> list[int]:
    return [sum(other < value for other in values) for value in values]


def _spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """By the sum of squared differences of ranks; there are no ties."""
    H = len(x)
    d = sum((a - b) ** 2 for a, b in zip(_ranks(x), _ranks(y), strict=True))
    return 1 - 6 * d / (H * (H * H - 1))


def _quantile(values: Sequence[float], q: float) -> float:
    """Between its two neighbours in order."""
    values = sorted(values)
    place = q * (len(values) - 1)
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def _interval(x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
    """Draw by draw, after all prompts."""
    found = []
    for row in [list(range(len(x))), *rows.tolist()]:
        one, other = ([mean(column[i] for i in row) for column in z.T.tolist()] for z in (x, y))
        found.append(_spearman(one, other))
    ends = [_quantile(found[1:], q) for q in (0.025, 0.975)]
    return torch.tensor([found[0], *ends], dtype=x.dtype)


def _ranked(rng: random.Random, generator: Generator, R: int, n: int, H: int) -> Ranked:
    """Measures that agree somewhat, or disagree, on prompts that differ; no means are close."""
    while True:
        both = torch.randn(H, generator=generator)
        x, y = (1 + both + torch.randn(2, n, H, generator=generator)).half().float()
        rows = torch.tensor([[rng.randrange(n) for _ in range(n)] for _ in range(R)])
        asked = torch.cat([rows, torch.arange(n)[None]])
        means = torch.stack([x[asked].mean(1), y[asked].mean(1)])
        if means.sort().values.diff().min() > 1e-4:
            return x, rng.choice((-2, 2)) * y, rows


def _far(rng: random.Random, generator: Generator) -> list[Ranked]:
    """Many prompts: so far from 0 that single precision does not keep heads apart; and small."""
    x, y, rows = _ranked(rng, generator, 37, 22, 12)
    return [(x.double() + 1e7, y.double() + 1e7, rows), (x * 1e-5, y, rows)]


RANKED = Task(
    name="rank_interval",
    reference=_interval,
    visible=(
        (
            torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]),
            torch.tensor([[1.0, 2.0, 3.0], [9.0, 5.0, 1.0]]),
            torch.tensor([[0, 0], [0, 1], [1, 1]]),
        ),
        _ranked(random.Random(7), Generator().manual_seed(7), 9, 5, 6),
        _ranked(random.Random(8), Generator().manual_seed(8), 8, 6, 5),
        _ranked(random.Random(9), Generator().manual_seed(9), 26, 5, 8),
    ),
    hidden=varied(
        _ranked,
        {"R": 1, "n": 1, "H": 2},
        dtypes=(torch.float64,),  # in half, means that differ may be rounded to one number
        scaled=((0, 1e-3),),
        also=_far,
    ),
)


TASKS: tuple[Task, ...] = (TERMS, RESTORED, HARM, PATHS, RANKED)
