"""Chapter 01's networks, each trained three times, beside Kneser–Ney: a result without weights.

The first run of each network is the checkpoint of its name; the others differ in the seed alone,
which draws the first weights and the windows. All are judged in half precision, as they are stored.
Kneser–Ney and the mixture are those of the chapter's side road. The card holds for each network,
by seed, the "loss" of the whole test split, and of `OTHERS`, 200 reviews of that split, in nats per
token: "alone" is the loss, "behind" how much more it is than Kneser–Ney's, "mixed" what the even
mixture of the two changes of Kneser–Ney's, and "counters" what it changes of the even mixture of
two counters. All but "loss" are a mean and half of its 95 % interval, over windows.
"""

import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.data import REVIEWS_SHA256, reviews
from attnlib.models import CountModel
from attnlib.pretrained.checkpoints import card, load, tokenizer
from attnlib.training import token_stream
from recipes.cards import result, rounded, sweep
from recipes.language import LENGTH, SEED, STEPS, trained

NETWORKS, SEEDS, OTHERS = ("ngram-3", "ngram-5"), (SEED, 2, 3), slice(100, 300)


@cache
def side_road() -> Any:
    """Kneser–Ney and the mixture, out of the cells of the chapter's side road on smoothing."""
    sys.path.append(str(Path(__file__).parents[1] / "tools"))  # scripts, and no package
    from chapter_code import definitions  # type: ignore[import-not-found]

    return definitions("more/01_smoothing", "kneser_ney", "mixed")


@cache
def judged() -> tuple[Tensor, dict[int, Tensor]]:
    """The windows of these reviews, and their tokens' nats under Kneser–Ney, n = 3 and 5."""
    bpe, splits = tokenizer(), reviews("imdb")
    rows = token_stream(splits.test.texts[OTHERS], bpe).unfold(0, LENGTH + 1, LENGTH)
    counted = CountModel(5, bpe.vocab_size).fit(token_stream(splits.train.texts, bpe))
    models = side_road().kneser_ney(counted)
    return rows, {n: models[n].losses(rows)[0] for n in (3, 5)}


@torch.no_grad()
def network_losses(model: nn.Module, rows: Tensor) -> Tensor:
    """Nats of every token of the same windows under a network."""
    parts = [
        F.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten(), reduction="none")
        for part in rows.split(32)
    ]
    return torch.cat(parts).double().view(len(rows), -1)


def interval(nats: Tensor) -> list[float]:
    """The mean of (windows, tokens), and half of its 95 % interval over windows."""
    each = nats.mean(1)
    return [each.mean().item(), 1.96 * (each.std() / len(each) ** 0.5).item()]


def compared(net: Tensor, counters: dict[int, Tensor]) -> dict[str, list[float]]:
    """A network beside counters: what the card holds of one run."""
    both, two = (side_road().mixed(counters[5], other) for other in (net, counters[3]))
    found = {"alone": net, "behind": net - counters[5]}
    found |= {"mixed": both - counters[5], "counters": both - two}
    return {key: interval(nats) for key, nats in found.items()}


def run(made: tuple[str, int], steps: int, folder: Path) -> dict[str, Any]:
    """What the card holds of one training; an interrupted one goes on from its state."""
    name, seed = made
    model: nn.Module
    if seed == SEED:
        model, told = load(name), card(name)
    else:
        model, _, told = trained(name, steps, folder, seed)
        model = model.half().float()
    rows, counters = judged()
    found = compared(network_losses(model, rows), counters)
    (folder / f"{name}-{seed}.state").unlink(missing_ok=True)
    return {"loss": told["loss"]["nats_per_token"], **found}


def train(name: str, steps: int | None, folder: Path) -> Path:
    """Make all runs and write the card, whose path is returned.

    An interrupted sweep goes on where it stopped.
    """
    steps, runs = STEPS if steps is None else steps, list(product(NETWORKS, SEEDS))
    folder = folder / "results"  # apart: no chapter's code reads it
    found = sweep(name, folder, runs, lambda made: run(made, steps, folder))
    return result(name, folder, about(steps, found))


def about(steps: int, found: list[dict[str, Any]]) -> dict[str, Any]:
    """How the runs were made, and by network and quantity what was found, in the seeds' order."""
    by_network = dict(zip(NETWORKS, zip(*[iter(found)] * len(SEEDS), strict=True), strict=True))
    return {
        "data": {"source": "imdb", "split": "train", "sha256": REVIEWS_SHA256},
        "tokenizer": "reviews-bpe",
        "steps": steps,
        "seeds": list(SEEDS),
        "reviews": [OTHERS.start, OTHERS.stop],
        "networks": {
            name: {key: rounded([run[key] for run in runs], 5) for key in runs[0]}
            for name, runs in by_network.items()
        },
    }
