"""The models of the histogram task: `histogram-semantic`, `-positional` and `-free`.

Each is trained on the rows of the released run. Its card also tells what became of short trainings
on new rows that differ in nothing but their seed: how well they count, what their maps have in
common, and how well they count with a map that is not that of their row.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.data import histogram, histogram_labels
from attnlib.models.histogram import SEES, HistogramModel
from attnlib.training.loop import History, fit, shuffled
from recipes.cards import finished, rounded, write

Rows = tuple[Tensor, Tensor]  # ids and counts, (N, T) each
MINIMA = tuple(f"histogram-{sees}" for sees in SEES)
ROWS, SPLIT, BATCH, SEED, STARTS = 50_000, 0.7, 128, 1, 8
STEPS = {"semantic": 10_000, "positional": 10_000, "free": 4_000}
SHORT = {"semantic": 1_000, "positional": 1_000, "free": 1_500}
LR, WARMUP, LOOKED_AT = 1e-2, 100, 2_000


def released_rows() -> tuple[Rows, Rows]:
    """Training and validation rows with their counts, as in the released run: 70 to 30."""
    ids, labels = histogram(ROWS)
    cut = int(SPLIT * len(ids))
    return (ids[:cut], labels[:cut]), (ids[cut:], labels[cut:])


def fresh(seed: int) -> Callable[[int], Rows]:
    """New uniform rows of 10 of 15 symbols with their counts at every step, for `fit`."""

    def batch(step: int) -> Rows:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        ids = torch.randint(15, (BATCH, 10), generator=generator)
        return ids, histogram_labels(ids)

    return batch


def count_loss(model: nn.Module, batch: Rows) -> Tensor:
    """Mean cross-entropy of the counts, in nats per position."""
    ids, labels = batch
    return F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())


def accuracy(answers: Tensor, labels: Tensor) -> float:
    """Share of positions counted right, from logits (N, T, classes) and labels (N, T)."""
    return (answers.argmax(-1) == labels).float().mean().item()


@torch.no_grad()
def map_facts(model: HistogramModel, ids: Tensor, labels: Tensor) -> dict[str, float]:
    """What the maps of rows (N, T) have in common, and what becomes of the counts without them.

    Returns:
        "oneself", "same" and "other": weight on oneself, on one other position with the same
        symbol, and on one with another symbol, all three over the positions whose count is 2 or
        more; "moves": mean distance of a weight from its mean over the rows, 0 if the map is the
        same for every input; "pattern" and "another": accuracy with the map of a row of the same
        pattern (every symbol exchanged for another one), and with that of another row.
    """
    x = model.embed(ids)
    values, weights = x @ model.W_V, model.attend(x)[1]
    equal, oneself = ids[:, :, None] == ids[:, None], torch.eye(ids.shape[-1]).bool()
    kinds = {"oneself": oneself & equal, "same": equal & ~oneself, "other": ~equal}
    per_place = {k: (weights * m).sum(-1) / m.sum(-1).clamp(min=1) for k, m in kinds.items()}
    facts = {kind: mean[labels > 1].mean().item() for kind, mean in per_place.items()}
    facts["moves"] = (weights - weights.mean(0)).abs().mean().item()
    symbols = torch.randperm(len(model.W_E), generator=torch.Generator().manual_seed(0))
    maps = {"pattern": model.attend(model.embed(symbols[ids]))[1], "another": weights.roll(1, 0)}
    right = {k: accuracy(model.readout(A @ values), labels) for k, A in maps.items()}
    found: dict[str, float] = rounded(facts | right)
    return found


def trained(
    sees: str, batch: Callable[[int], Any], seed: int, steps: int
) -> tuple[HistogramModel, History]:
    """A new model and how its training went.

    Raises:
        SystemExit: if it was interrupted.
    """
    torch.manual_seed(seed)
    model = HistogramModel(sees=sees)
    settings: dict[str, Any] = {"steps": steps, "lr": LR, "warmup": WARMUP, "seed": seed}
    return model, finished(fit(model, batch, count_loss, **settings))


def train(name: str, steps: int | None, folder: Path) -> None:
    """One of the two minima, or the model that is free to choose, and short ones of its kind."""
    (rows, validation), sees = released_rows(), name.removeprefix("histogram-")
    looked_at = validation[0][:LOOKED_AT], validation[1][:LOOKED_AT]
    long = STEPS[sees] if steps is None else steps
    model, history = trained(sees, shuffled(rows, BATCH, SEED), SEED, long)
    starts = []
    for seed in range(STARTS):
        one, _ = trained(sees, fresh(seed), seed, min(long, SHORT[sees]))
        right = rounded(judged(one, validation)["accuracy"])
        starts.append({"seed": seed, "accuracy": right} | map_facts(one, *looked_at))
    about = {
        "config": {"vocab_size": 15, "length": 10, "sees": sees},
        "data": {"source": "histogram", "rows": ROWS, "train": SPLIT, "seed": 42},
        "seed": SEED,
        "loss": {"nats_per_place": judged(model, validation)["loss"]},
        "accuracy": judged(model, validation)["accuracy"],
        "map": map_facts(model, *looked_at),
        "starts": starts,
    }
    write(name, model, history, folder, about)


@torch.no_grad()
def judged(model: nn.Module, validation: Rows) -> dict[str, float]:
    """Loss in nats per position, and accuracy, on the rows of the validation."""
    logits = model(validation[0])
    loss = F.cross_entropy(logits.flatten(0, 1), validation[1].flatten())
    return {"loss": rounded(loss, 5), "accuracy": rounded(accuracy(logits, validation[1]), 5)}
