"""Cheaper ways to look back, at equal tokens: the sweep of chapter 14's side road.

Small language models of one shape read the same bytes of reviews in the same order. They differ
in what a text's past weighs: as many keys and values as heads, half as many, one for all, a window
of the last 32 tokens in each layer, or linear attention (Katharopoulos et al. 2020), whose state
does not grow. Nothing makes up for the weights that shared keys leave out. The seed draws the first
weights and the windows, so that runs of one seed are compared. The result is a card without
weights: for each kind the held-out loss by seed, in nats per byte, and the bytes in half precision
that it holds of a text of 128 tokens. Tokens are bytes here, so that a training is short.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.attention import attend, causal_mask, shared
from attnlib.data import REVIEWS_SHA256, reviews
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.transformer import Edit, Edits
from attnlib.positions import rotate
from attnlib.training import evaluate, fit, next_token_loss, windows
from recipes.cards import finished, result, rounded, sweep
from recipes.resumed import Resumed

Look = Callable[[Tensor, Tensor, Tensor], Tensor]  # q, k, v of every head to what each mixes
SEEDS, STEPS, BATCH, LENGTH, LR, WINDOW = (0, 1, 2), 3_200, 4, 128, 3e-3, 32
WARMUP, HELD_OUT = 100, 100_000  # bytes of the test reviews
CONFIG: dict[str, Any] = {"vocab_size": 256, "d_model": 64, "layers": 2, "heads": 4, "d_ff": 256}
WIDTH: int = CONFIG["d_model"] // CONFIG["heads"]  # of a query, a key or a value


def windowed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention among the last `WINDOW` tokens, the destination among them."""
    near = ~causal_mask(q.shape[-2]).tril(-WINDOW)
    return attend(q, k, v, near, causal=True)[0]


def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal linear attention with rotary positions, written as the map that it need not make.

    With φ(x) = ELU(x) + 1, what is turned is φ(q) and φ(k), and not in the divisor (Su et al. 2021,
    eq. 19): turned before φ, a score would depend on more than the distance.
    """
    q, k, places = F.elu(q) + 1, F.elu(k) + 1, torch.arange(q.shape[-2])
    weights = (rotate(q, places) @ rotate(k, places).mT).tril()
    return weights @ v / (q @ k.mT).tril().sum(-1, keepdim=True)


@dataclass(frozen=True)
class Variant:
    """A way to look back.

    Attributes:
        kv_heads: heads of keys and values.
        look: what stands in the place of attention, if anything does.
        kept: numbers that one head of keys and values holds after T tokens, in one layer.
        positions: as the model has them before it looks.
    """

    kv_heads: int
    look: Look | None = None
    kept: Callable[[int], int] = lambda T: 2 * WIDTH * T
    positions: str = "rotary"


VARIANTS = {
    "multi-head": Variant(4),
    "grouped": Variant(2),
    "multi-query": Variant(1),
    "windowed": Variant(4, windowed, lambda T: 2 * WIDTH * min(T, WINDOW)),
    # a matrix, and what divides
    "linear": Variant(4, linear, lambda T: WIDTH * (WIDTH + 1), positions="none"),
}


def looking(look: Look, layers: int) -> Edits:
    """Edits that put `look` in the place of attention in every layer."""
    seen: dict[str, Tensor] = {}

    def note(name: str, x: Tensor) -> Tensor:
        seen[name] = x
        return x

    def mix(mixed: Tensor) -> Tensor:
        k, v = (shared(seen[name], mixed.shape[1]) for name in ("k", "v"))
        return look(seen["q"], k, v)

    sites: dict[str, Edit] = {n: partial(note, n) for n in ("q", "k", "v")}
    sites["z"] = mix
    return {(name, layer): edit for layer in range(layers) for name, edit in sites.items()}


def built(kind: str, seed: int) -> Transformer:
    """An untrained model of a kind; it looks back in its own way whenever it reads."""
    torch.manual_seed(seed)
    one = VARIANTS[kind]
    config = TransformerConfig(**CONFIG, kv_heads=one.kv_heads, positions=one.positions)
    model = Transformer(config)
    if one.look is not None:
        edits = looking(one.look, config.layers)
        model.hidden = partial(model.hidden, edits=edits)  # type: ignore[method-assign]
    return model


def cache_bytes(kind: str, T: int = LENGTH) -> int:
    """What a model of a kind holds of T tokens, in bytes, in half precision."""
    one = VARIANTS[kind]
    return 2 * int(CONFIG["layers"]) * one.kv_heads * one.kept(T)


def as_bytes(texts: Sequence[str]) -> Tensor:
    """All texts end to end, an empty line after each, as bytes: (N,) int64."""
    joined = "".join(f"{text}\n\n" for text in texts).encode()
    return torch.frombuffer(bytearray(joined), dtype=torch.uint8).long()


def run(made: tuple[int, str], steps: int, folder: Path) -> float:
    """The held-out loss of one run, nats per byte; an interrupted one goes on from its state."""
    (seed, kind), splits = made, reviews("imdb")
    batch, model = windows(as_bytes(splits.train.texts), LENGTH, BATCH, seed), built(kind, seed)
    state = folder / f"variants-{kind}-{seed}.state"
    history = fit(
        model,
        batch,
        next_token_loss,
        steps=steps,
        lr=LR,
        warmup=WARMUP,
        seed=seed,
        checkpoint=Resumed(state),
    )
    finished(history, state)
    loss = evaluate(model, as_bytes(splits.test.texts)[:HELD_OUT], LENGTH)
    state.unlink()
    return loss


def train(name: str, steps: int | None, folder: Path) -> Path:
    """Make all runs and write the card; an interrupted sweep goes on where it stopped.

    Returns the path of the card.
    """
    steps, runs = STEPS if steps is None else steps, list(product(SEEDS, VARIANTS))
    folder = folder / "results"  # apart: one side road reads it, so no other is stale with it
    found = sweep(name, folder, runs, lambda made: run(made, steps, folder))
    return result(name, folder, about(steps, found))


def about(steps: int, found: list[float]) -> dict[str, Any]:
    """How the sweep was made, and by kind the losses of the seeds and the bytes of a cache."""
    table = torch.tensor(found, dtype=torch.float64).unflatten(0, (len(SEEDS), -1)).mT
    data = {"source": "imdb", "split": "train", "sha256": REVIEWS_SHA256}
    settings = {"steps": steps, "tokens": steps * BATCH * LENGTH, "lr": LR, "seeds": list(SEEDS)}
    return {
        "data": data,
        "tokenizer": "bytes",
        "config": CONFIG,
        **settings,
        "length": LENGTH,
        "window": WINDOW,
        "parameters": {kind: built(kind, 0).parameter_count for kind in VARIANTS},
        "cache_bytes": {kind: cache_bytes(kind) for kind in VARIANTS},
        "loss": dict(zip(VARIANTS, rounded(table), strict=True)),
    }
