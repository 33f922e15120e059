"""Tasks of chapter 15: direct attribution, effects, resampling, a path, a rank and its interval.

The small models behind the inputs are made from seeds; an answer meets their parts as tensors.
"""

import math
import random
from collections.abc import Callable, Sequence
from statistics import mean

import torch
from torch import Generator, Tensor

from attnlib.explain.patching import path_patching
from attnlib.models import Transformer, TransformerConfig
from grading.task import Task


def _made(
    rng: random.Random, heads: int, layers: int, d_ff: int | None, tokens: int
) -> Transformer:
    """A small model with RMSNorms, whose heads write loudly."""
    config = TransformerConfig(
        tokens, 6, layers, heads, d_ff=d_ff, norm_kind="rms", positions="none"
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(rng.randrange(2**31))
        model = Transformer(config)
        model.W_E.mul_(25)
        _gain(model).add_(torch.randn(6) / 2)
    return model


def _gain(model: Transformer) -> Tensor:
    """What the last norm multiplies by, (d_model,)."""
    gain: Tensor = model.final_norm.weight  # type: ignore[assignment]
    return gain


# --- direct_terms ---------------------------------------------------------------------------------

Parts = tuple[Tensor, Tensor, float, Tensor, int, int]


def _terms(parts: Tensor, gain: Tensor, eps: float, W_U: Tensor, right: int, wrong: int) -> Tensor:
    """Number by number."""
    whole = [math.fsum(column) for column in parts.T.tolist()]
    root = math.sqrt(mean(x * x for x in whole) + eps)
    told = [g * (u[right] - u[wrong]) for g, u in zip(gain.tolist(), W_U.tolist(), strict=True)]
    rows = [[x / root * t for x, t in zip(part, told, strict=True)] for part in parts.tolist()]
    return torch.tensor([math.fsum(row) for row in rows], dtype=parts.dtype)


def _toward(W_U: Tensor, right: int, wrong: int) -> Tensor:
    return W_U[:, right] - W_U[:, wrong]


@torch.no_grad()
def _parts(rng: random.Random, layers: int, heads: int, tokens: int, eps: float = 1e-5) -> Parts:
    """What was written into the last stream of a small model, on a text of five tokens."""
    model = _made(rng, heads, layers, 8, tokens)
    x = model.embed(torch.tensor([[rng.randrange(tokens) for _ in range(5)]]))
    found = [x[0, -1:]]
    for state in model.run(x):
        assert state.feed_forward is not None
        found += [state.head_outputs[0, :, -1], state.feed_forward[0, -1:]]
    assert model.W_U is not None
    right, wrong = rng.sample(range(tokens), 2)
    return torch.cat(found), _gain(model).clone(), eps, model.W_U.clone(), right, wrong


def _terms_hidden(rng: random.Random, generator: Generator) -> Sequence[Parts]:
    cases = [_parts(rng, layers, heads, 9) for layers, heads in ((1, 2), (2, 3), (3, 2), (2, 6))]
    cases += [_parts(rng, 2, 2, 6), _parts(rng, 2, 2, 4, eps=0.5)]
    parts, gain, eps, W_U, right, wrong = cases[0]
    cases.append((parts[:1], gain, eps, W_U, right, wrong))
    cases.append((0.01 * parts, gain, 1e-4, W_U, wrong, right))
    return [*cases, (parts.double(), gain.double(), eps, W_U.double(), right, wrong)]


TERMS = Task(
    name="direct_terms",
    reference=_terms,
    visible=(
        (torch.tensor([[5.0, 0.0], [-4.0, 7.0]]), torch.ones(2), 0.0, torch.eye(2), 0, 1),
        _parts(random.Random(1), 1, 2, 6),
        _parts(random.Random(2), 2, 2, 7, eps=0.1),
    ),
    hidden=_terms_hidden,
)


# --- restored_share -------------------------------------------------------------------------------

Runs = tuple[Tensor, Tensor, Tensor]


def _restored(patched: Tensor, clean: Tensor, corrupted: Tensor) -> Tensor:
    """Head by head."""
    gap = math.fsum(clean.tolist()) - math.fsum(corrupted.tolist())
    found = [math.fsum((head - corrupted).tolist()) / gap for head in patched.T]
    return torch.tensor(found, dtype=patched.dtype)


def _runs(generator: Generator, n: int, H: int) -> Runs:
    """Some heads restore nothing, some all and more, some work the other way."""
    corrupted = torch.randn(n, generator=generator) + 1
    clean = corrupted + 3 * torch.rand(n, generator=generator) + 0.5
    effect = torch.linspace(-0.6, 1.3, H) + torch.randn(n, H, generator=generator) / 3
    return corrupted[:, None] + effect * (clean - corrupted)[:, None], clean, corrupted


def _below(patched: Tensor, clean: Tensor, corrupted: Tensor, prompts: int) -> Runs:
    """On the first prompts, the corrupted run has the larger difference."""
    less = corrupted - (clean - corrupted) / 2
    return patched, torch.cat([less[:prompts], clean[prompts:]]), corrupted


def _restored_hidden(rng: random.Random, generator: Generator) -> Sequence[Runs]:
    sizes = [(rng.randint(4, 9), H) for H in (1, 3, 6)]
    cases = [_runs(generator, n, H) for n, H in (*sizes, (5, 5), (1, 4))]
    patched, clean, corrupted = _runs(generator, 6, 4)
    cases.append((patched, clean, torch.cat([clean[:1], corrupted[1:]])))  # nothing to restore
    cases.append((patched - 3, clean - 3, corrupted - 3))
    cases.append(_below(patched, clean, corrupted, 1))
    cases.append(_below(patched, clean, corrupted, 6))
    cases.append((corrupted[:, None].repeat(1, 2), clean, corrupted))
    return [*cases, (patched.double(), clean.double(), corrupted.double())]


RESTORED = Task(
    name="restored_share",
    reference=_restored,
    visible=(
        (torch.tensor([[3.0], [1.0]]), torch.tensor([4.0, 2.0]), torch.tensor([0.0, 2.0])),
        _runs(Generator().manual_seed(1), 4, 3),
        _runs(Generator().manual_seed(2), 4, 4),
        _below(*_runs(Generator().manual_seed(3), 4, 3), 1),
    ),
    hidden=_restored_hidden,
)


# --- resampled_harm -------------------------------------------------------------------------------

Head = tuple[Tensor, Tensor, Tensor, Tensor]


def _score(x: Tensor, t: Tensor) -> Tensor:
    """The logit difference of last streams (…, d), in the directions (…, d)."""
    return (x * t).sum(-1) / x.square().mean(-1).sqrt()


def _harm(stream: Tensor, written: Tensor, toward: Tensor, donors: Tensor) -> Tensor:
    """Prompt by prompt, donor by donor."""
    found = []
    for i, row in enumerate(donors.tolist()):
        kept, t = stream[i] - written[i], toward[i]
        after = [float(_score(kept + written[j], t)) for j in row]
        found.append(float(_score(stream[i], t)) - mean(after))
    return torch.tensor(found, dtype=stream.dtype)


@torch.no_grad()
def _head(rng: random.Random, n: int, R: int) -> Head:
    """A head of the last layer of a small model, on n texts of five tokens."""
    model = _made(rng, 2, 2, None, 9)
    ids = torch.tensor([[rng.randrange(9) for _ in range(5)] for _ in range(n)])
    *_, state = model.run(model.embed(ids))
    assert model.W_U is not None
    pairs = [rng.sample(range(9), 2) for _ in range(n)]
    toward = torch.stack([_gain(model) * _toward(model.W_U, *pair) for pair in pairs])
    donors = [rng.sample([j for j in range(n) if j != i], R) for i in range(n)]
    written = state.head_outputs[:, rng.randrange(2), -1]
    return state.residual[:, -1].clone(), written.clone(), toward, torch.tensor(donors)


def _twice(stream: Tensor, written: Tensor, toward: Tensor, donors: Tensor) -> Head:
    """The first donor of each prompt gives twice, the second once."""
    return stream, written, toward, donors[:, [0, 0, 1]]


def _harm_hidden(rng: random.Random, generator: Generator) -> Sequence[Head]:
    cases = [_head(rng, n, R) for n, R in ((4, 2), (6, 3), (7, 6), (5, 1), (4, 3), (2, 1))]
    stream, written, toward, donors = cases[0]
    cases.append(_twice(*cases[0]))
    cases.append((stream, 0 * written, toward, donors))  # a head that writes nothing
    return [*cases, (stream.double(), written.double(), toward.double(), donors)]


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
        _head(random.Random(3), 4, 2),
        _head(random.Random(4), 5, 3),
        _twice(*_head(random.Random(5), 4, 2)),
    ),
    hidden=_harm_hidden,
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


def _write(q: Tensor, k: Tensor, v: Tensor, W_O: Tensor) -> Tensor:
    """What each head adds to the stream, (H, T, d_model)."""
    later = torch.ones(q.shape[-2:-1] * 2, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ v @ W_O


def _followed(
    through: str = "q",
    to_all: bool = False,
    direct: bool = False,
    beside: bool = False,
    breaks: bool = False,
    all_told: bool = False,
    less: bool = True,
    over: bool = True,
) -> Callable[..., Tensor]:
    """Path patching that lets a message through elsewhere, or reads the effect otherwise.

    Args:
        through: what of the receiver hears the message, of "qkv".
        to_all: every head of layer 1 hears it.
        direct: it stays in the last stream.
        beside: it is added to what the sender wrote in the base run.
        breaks: the base run is the clean one.
        all_told: the receiver reads the whole stream of the other run.
        less, over: whether the base is subtracted, and the gap divides.
    """

    def effects(
        clean: Tensor,
        corrupted: Tensor,
        W_Q: Tensor,
        W_K: Tensor,
        W_V: Tensor,
        W_O: Tensor,
        toward: Tensor,
        receiver: int,
    ) -> Tensor:
        weights = {"q": W_Q, "k": W_K, "v": W_V}
        heads = slice(None) if to_all else receiver

        def read(x: Tensor, layer: int) -> dict[str, Tensor]:
            return {name: x @ W[layer] for name, W in weights.items()}

        def metric(x: Tensor, qkv: dict[str, Tensor]) -> Tensor:
            return (x + _write(**qkv, W_O=W_O[1]).sum(0))[-1] @ toward

        base, other = (clean, corrupted) if breaks else (corrupted, clean)
        ours, theirs = (_write(**read(x, 0), W_O=W_O[0]) for x in (base, other))
        kept, gave = base + ours.sum(0), other + theirs.sum(0)
        found = []
        for message in theirs if beside else theirs - ours:
            heard, qkv = read(gave if all_told else kept + message, 1), read(kept, 1)
            for name in through:
                qkv[name][heads] = heard[name][heads]
            found.append(metric(kept + message if direct else kept, qkv))
        whole, none = metric(gave, read(gave, 1)), metric(kept, read(kept, 1))
        return (torch.stack(found) - none * less) / (whole - none if over else 1)

    return effects


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
        places = rng.sample(range(T), rng.randint(1, min(2, T)))
        corrupted[places] = torch.randn(len(places), d, generator=generator)
        drawn = clean, corrupted, W_Q, W_K, W_V, W_O, toward, rng.randrange(H)
        change, effects = _followed(over=False)(*drawn), _followed()(*drawn)
        sizes = effects.abs()
        if (change / effects).abs().max() > 0.5 and sizes.min() > 0.02 and sizes.max() < 3:
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


def _paths_hidden(rng: random.Random, generator: Generator) -> Sequence[Paths]:
    sizes = [(4, 6, 3, 2, 3), (5, 4, 2, 3, 2), (3, 5, 4, 2, 2), (6, 4, 4, 4, 4), (2, 8, 2, 3, 4)]
    cases = [_two_layers(rng, generator, *size) for size in sizes]
    cases.append(_two_layers(rng, generator, 3, 3, 3, 3, 3))  # axes alike
    double = [x.double() if isinstance(x, Tensor) else x for x in cases[1]]
    return [*cases, tuple(double)]  # type: ignore[list-item]


PATHS = Task(
    name="path_effects",
    reference=_paths,
    visible=(
        _by_hand(),
        _two_layers(random.Random(5), Generator().manual_seed(5), 3, 4, 3, 2, 2),
        _two_layers(random.Random(6), Generator().manual_seed(6), 4, 4, 2, 2, 3),
    ),
    hidden=_paths_hidden,
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


def _means(x: Tensor, row: Sequence[int]) -> list[float]:
    return [mean(column[i] for i in row) for column in x.T.tolist()]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return _quantile(values, 0.025), _quantile(values, 0.975)


Rank = Callable[[Tensor, Tensor, list[int]], float]


def _rank(x: Tensor, y: Tensor, row: list[int]) -> float:
    return _spearman(_means(x, row), _means(y, row))


def _interval_with(
    rank: Rank = _rank,
    ends: Callable[[list[float]], tuple[float, float]] = _ends,
    value: Callable[[float, list[float]], float] = lambda own, drawn: own,
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The three numbers with one part replaced: of the correlation, of the interval, the first."""

    def three(x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        drawn = [rank(x, y, row) for row in rows.tolist()]
        own = rank(x, y, list(range(len(x))))
        return torch.tensor([value(own, drawn), *ends(drawn)], dtype=x.dtype)

    return three


def _ranked(rng: random.Random, generator: Generator, n: int, H: int, R: int) -> Ranked:
    """Measures that agree somewhat, on prompts that differ."""
    both = torch.randn(H, generator=generator)
    x, y = both + torch.randn(2, n, H, generator=generator)
    return x + 1, 2 * y, torch.tensor([[rng.randrange(n) for _ in range(n)] for _ in range(R)])


def _ranked_hidden(rng: random.Random, generator: Generator) -> Sequence[Ranked]:
    sizes = [(6, 5, 12), (8, 7, 28), (12, 6, 41), (5, 9, 15), (6, 6, 6), (2, 4, 9), (7, 3, 25)]
    cases = [_ranked(rng, generator, *size) for size in sizes]
    x, y, rows = cases[0]
    far_x, far_y, drawn = cases[3]  # so far from 0, half precision does not keep nine heads apart
    far = (far_x.double() + 1000, far_y.double() + 1000, drawn)
    return [*cases, (x, -y, rows), far]


RANKED = Task(
    name="rank_interval",
    reference=_interval_with(),
    visible=(
        (
            torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]),
            torch.tensor([[1.0, 2.0, 3.0], [9.0, 5.0, 1.0]]),
            torch.tensor([[0, 0], [0, 1], [1, 1]]),
        ),
        _ranked(random.Random(7), Generator().manual_seed(7), 5, 6, 9),
        _ranked(random.Random(8), Generator().manual_seed(8), 6, 5, 8),
        _ranked(random.Random(9), Generator().manual_seed(9), 5, 8, 26),
    ),
    hidden=_ranked_hidden,
)


TASKS: tuple[Task, ...] = (TERMS, RESTORED, HARM, PATHS, RANKED)
