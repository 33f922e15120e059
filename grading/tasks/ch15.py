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


def _root(x: Tensor, eps: float) -> Tensor:
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _toward(W_U: Tensor, right: int, wrong: int) -> Tensor:
    return W_U[:, right] - W_U[:, wrong]


def _divided(by: Callable[[Tensor, float], Tensor | float]) -> Callable[..., Tensor]:
    """Terms with another divisor."""

    def terms(
        parts: Tensor, gain: Tensor, eps: float, W_U: Tensor, right: int, wrong: int
    ) -> Tensor:
        return (parts / by(parts, eps) * gain) @ _toward(W_U, right, wrong)

    return terms


def _along(toward: Callable[[Tensor, int, int], Tensor]) -> Callable[..., Tensor]:
    """Terms in another direction."""

    def terms(
        parts: Tensor, gain: Tensor, eps: float, W_U: Tensor, right: int, wrong: int
    ) -> Tensor:
        return (parts / _root(parts.sum(0), eps) * gain) @ toward(W_U, right, wrong)

    return terms


def _centred(
    parts: Tensor, gain: Tensor, eps: float, W_U: Tensor, right: int, wrong: int
) -> Tensor:
    """As if the norm were a LayerNorm."""
    parts = parts - parts.mean(-1, keepdim=True)
    return _terms(parts, gain, eps, W_U, right, wrong)


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
    mistakes={
        "each part is divided by its own root mean square: the divisor is that of the sum, and "
        "held for all.": _divided(_root),
        "your divisor is the root mean square of all parts: it is that of their sum.": _divided(
            lambda parts, eps: (parts.square().mean() + eps).sqrt()
        ),
        "you divide by the length of the stream: by its root mean square.": _divided(
            lambda parts, eps: (parts.sum(0).square().sum() + eps).sqrt()
        ),
        "you divide by the mean square: by its root.": _divided(
            lambda parts, eps: parts.sum(0).square().mean() + eps
        ),
        "nothing is divided: the last norm stands between the stream and the logits.": _divided(
            lambda parts, eps: 1.0
        ),
        "ε is missing: it stands inside the root.": _divided(
            lambda parts, eps: _root(parts.sum(0), 0.0)
        ),
        "ε stands outside the root: it belongs inside.": _divided(
            lambda parts, eps: _root(parts.sum(0), 0.0) + eps
        ),
        "the gain is missing.": lambda parts, gain, eps, W_U, right, wrong: (
            parts / _root(parts.sum(0), eps) @ _toward(W_U, right, wrong)
        ),
        "the mean is subtracted: that is LayerNorm, and this model has RMSNorm.": _centred,
        "this is the logit of `right` alone: that of `wrong` is subtracted.": _along(
            lambda W_U, right, wrong: W_U[:, right]
        ),
        "the sign is turned: it is `right` less `wrong`.": _along(
            lambda W_U, right, wrong: W_U[:, wrong] - W_U[:, right]
        ),
        "you add the two logits: that of `wrong` is subtracted.": _along(
            lambda W_U, right, wrong: W_U[:, right] + W_U[:, wrong]
        ),
        "you read rows of W_U: a token has a column.": _along(
            lambda W_U, right, wrong: W_U[right] - W_U[wrong]
        ),
        "your terms are shares that sum to 1: they sum to the logit difference.": lambda *a: (
            _terms(*a) / _terms(*a).sum()
        ),
    },
)


# --- restored_share -------------------------------------------------------------------------------

Runs = tuple[Tensor, Tensor, Tensor]


def _restored(patched: Tensor, clean: Tensor, corrupted: Tensor) -> Tensor:
    """Head by head."""
    gap = math.fsum(clean.tolist()) - math.fsum(corrupted.tolist())
    found = [math.fsum((head - corrupted).tolist()) / gap for head in patched.T]
    return torch.tensor(found, dtype=patched.dtype)


def _changes(patched: Tensor, clean: Tensor, corrupted: Tensor) -> Tensor:
    return (patched - corrupted[:, None]).mean(0)


def _over(gap: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The mean change, over something else."""
    return lambda patched, clean, corrupted: (
        _changes(patched, clean, corrupted) / gap(patched, clean, corrupted)
    )


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
    mistakes={
        "this is the formula as it is printed: a head that brings everything back would not get "
        "1.": _over(lambda patched, clean, corrupted: clean.mean()),
        "you take the mean of ratios: a share is the ratio of two means.": (
            lambda patched, clean, corrupted: (
                (patched - corrupted[:, None]) / (clean - corrupted)[:, None]
            ).mean(0)
        ),
        "0 and 1 have changed places: 0 is a patch that brings nothing back.": (
            lambda patched, clean, corrupted: (
                (clean[:, None] - patched).mean(0) / (clean - corrupted).mean()
            )
        ),
        "the sign is turned: it is clean less corrupted below, as it is patched less corrupted "
        "above.": _over(lambda patched, clean, corrupted: (corrupted - clean).mean()),
        "you take sizes of the differences: on a prompt where the corrupted run has the larger "
        "one, it counts against.": _over(
            lambda patched, clean, corrupted: (clean - corrupted).abs().mean()
        ),
        "this is the change itself: it is divided by what there was to restore.": _changes,
        "you divide by what is still missing: by what was missing before the patch.": _over(
            lambda patched, clean, corrupted: (clean[:, None] - patched).mean(0)
        ),
        "you divide by the corrupted run: by the difference of the two runs.": _over(
            lambda patched, clean, corrupted: corrupted.mean()
        ),
        "you divide by the number of prompts on one side only: take the mean, or the sum, of "
        "both.": _over(lambda patched, clean, corrupted: (clean - corrupted).sum()),
        "you cut effects to 0…1: one below 0 works the other way, and one above 1 overshoots.": (
            lambda *a: _restored(*a).clamp(0, 1)
        ),
        "this is the size of the effect: its sign tells for whom a head works.": (
            lambda *a: _restored(*a).abs()
        ),
        "you subtract the corrupted runs along the heads: a row is a prompt.": (
            lambda patched, clean, corrupted: (
                (patched - corrupted).mean(0) / (clean - corrupted).mean()
            )
        ),
    },
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


def _put(of: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Harm by something else in the head's place: made of what is written, and the donors."""

    def harm(stream: Tensor, written: Tensor, toward: Tensor, donors: Tensor) -> Tensor:
        after = (stream - written)[:, None] + of(written, donors)
        return _score(stream, toward) - _score(after, toward[:, None]).mean(1)

    return harm


def _after(stream: Tensor, written: Tensor, donors: Tensor) -> Tensor:
    return (stream - written)[:, None] + written[donors]


def _held(stream: Tensor, written: Tensor, toward: Tensor, donors: Tensor) -> Tensor:
    root = stream.square().mean(-1).sqrt()
    left = (_after(stream, written, donors).mean(1) * toward).sum(-1)
    return _score(stream, toward) - left / root


def _once(stream: Tensor, written: Tensor, toward: Tensor, donors: Tensor) -> Tensor:
    """With each donor of a prompt once."""
    gives = torch.zeros(len(stream), len(stream)).scatter(1, donors, 1.0).to(stream)
    after = _score((stream - written)[:, None] + written, toward[:, None])
    return _score(stream, toward) - (gives * after).sum(1) / gives.sum(1)


def _harmed(after: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Harm, with the logit differences after the exchange (n, R) found otherwise."""
    return lambda stream, written, toward, donors: (
        _score(stream, toward) - after(stream, written, toward, donors).mean(1)
    )


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
    mistakes={
        "you put zeros in the head's place: put in what it wrote for the donors.": _put(
            lambda written, donors: 0 * written[donors]
        ),
        "you put the mean of the donors in: exchange one at a time, and take the mean of what "
        "comes out.": _put(lambda written, donors: written[donors].mean(1, keepdim=True)),
        "you put the mean over all prompts in: that is mean ablation.": _put(
            lambda written, donors: written.mean(0).expand_as(written[donors])
        ),
        "you put the first donor in alone: take the mean over all of a prompt's donors.": _put(
            lambda written, donors: written[donors[:, :1]]
        ),
        "a donor that stands twice counts once in your mean.": _once,
        "what the head wrote is still there: take it out before you put another in.": _put(
            lambda written, donors: written[donors] + written[:, None]
        ),
        "you put the donor's whole stream in: of it, only what the head wrote is exchanged.": (
            _harmed(lambda x, written, t, donors: _score(x[donors], t[:, None]))
        ),
        "you put this prompt's head into the donor's run: it is the other way.": _harmed(
            lambda x, written, t, donors: _score(
                (x - written)[donors] + written[:, None], t[:, None]
            )
        ),
        "your direction is the donor's: the answer of the prompt itself is asked for.": _harmed(
            lambda x, written, t, donors: _score(_after(x, written, donors), t[donors])
        ),
        "your divisor is held at what it was: here the norm runs again.": _held,
        "nothing is divided: the last norm runs on every stream.": lambda x, written, t, donors: (
            ((x[:, None] - _after(x, written, donors)) * t[:, None]).sum(-1).mean(1)
        ),
        "the sign is turned: harm is before less after.": lambda *a: -_harm(*a),
        "this is what is left: harm is before less after.": lambda x, written, t, donors: _score(
            _after(x, written, donors), t[:, None]
        ).mean(1),
        "you sum over the donors: take their mean.": _harmed(
            lambda x, written, t, donors: (
                _score(_after(x, written, donors), t[:, None]) * donors.shape[1]
            )
        ),
    },
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
    mistakes={
        "the sender's output is put into the stream, for all to read: that is activation "
        "patching.": _followed("qkv", to_all=True, direct=True),
        "all heads of layer 1 hear the sender: only the receiver may.": _followed(to_all=True),
        "the message also goes straight to the end: what stands in the last stream is the "
        "corrupted run's.": _followed(direct=True),
        "the receiver hears it in queries, keys and values: in its queries alone.": _followed(
            "qkv"
        ),
        "the receiver hears it in its keys: in its queries.": _followed("k"),
        "the receiver hears it in its values: in its queries.": _followed("v"),
        "what the sender wrote in the corrupted run is still there: exchange it.": _followed(
            beside=True
        ),
        "the receiver gets all of its clean queries: of them, only what one sender tells "
        "it.": _followed(all_told=True),
        "this breaks the clean run: a corrupted message is put into it.": _followed(breaks=True),
        "this is the change itself: divide by the clean run's difference less the corrupted "
        "one's.": _followed(over=False),
        "this is the logit difference after the patch: subtract the corrupted run's, and "
        "divide.": _followed(less=False, over=False),
        "the corrupted run's difference is not subtracted.": _followed(less=False),
    },
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


def _nearest(values: Sequence[float], q: float) -> float:
    return sorted(values)[round(q * (len(values) - 1))]


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


def _pearson(x: Tensor, y: Tensor, row: list[int]) -> float:
    return float(torch.corrcoef(torch.stack([x[row].mean(0), y[row].mean(0)]))[0, 1])


def _orders(x: Tensor, y: Tensor, row: list[int]) -> float:
    orders = torch.stack([z[row].mean(0).argsort() for z in (x, y)]).double()
    return float(torch.corrcoef(orders)[0, 1])


def _normal(x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
    """A normal interval around the value."""
    drawn = torch.tensor([_rank(x, y, row) for row in rows.tolist()])
    own, wide = _rank(x, y, list(range(len(x)))), 1.96 * float(drawn.std())
    return torch.tensor([own, own - wide, own + wide], dtype=x.dtype)


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
    mistakes={
        "this is the correlation of the values: take their ranks first.": _interval_with(_pearson),
        "`argsort` alone gives an order, not ranks: sort that once more.": _interval_with(_orders),
        "you take the mean of the prompts' rank correlations: ranks are taken of the means over "
        "prompts.": _interval_with(
            lambda x, y, row: mean(_spearman(x[i].tolist(), y[i].tolist()) for i in row)
        ),
        "you rank sizes: here the sign counts.": _interval_with(
            lambda x, y, row: _rank(x.abs(), y.abs(), row)
        ),
        "you take sizes of the means: here the sign counts.": _interval_with(
            lambda x, y, row: _spearman(
                [abs(a) for a in _means(x, row)], [abs(a) for a in _means(y, row)]
            )
        ),
        "the two measures are drawn apart: the same prompts belong to both.": _interval_with(
            lambda x, y, row: _spearman(_means(x, row), _means(y, list(range(len(y)))))
        ),
        "a prompt that is drawn twice counts once in your mean.": _interval_with(
            lambda x, y, row: _rank(x, y, sorted(set(row)))
        ),
        "your first number is the mean of the drawn ones: it is that of all prompts.": (
            _interval_with(value=lambda own, drawn: mean(drawn))
        ),
        "your first number is the median of the drawn ones: it is that of all prompts.": (
            _interval_with(value=lambda own, drawn: _quantile(drawn, 0.5))
        ),
        "5 % lie outside at each end: it should be 2.5 %.": _interval_with(
            ends=lambda drawn: (_quantile(drawn, 0.05), _quantile(drawn, 0.95))
        ),
        "these are the least and the largest: cut 2.5 % at each end.": _interval_with(
            ends=lambda drawn: (min(drawn), max(drawn))
        ),
        "these are drawn values themselves: go between two neighbours in order.": _interval_with(
            ends=lambda drawn: (_nearest(drawn, 0.025), _nearest(drawn, 0.975))
        ),
        "this is the value ± 1.96 standard deviations: take the quantiles of what was drawn.": (
            _normal
        ),
        "the ends of the interval have changed places.": _interval_with(
            ends=lambda drawn: _ends(drawn)[::-1]
        ),
    },
)


TASKS: tuple[Task, ...] = (TERMS, RESTORED, HARM, PATHS, RANKED)
