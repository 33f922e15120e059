"""How the checkpoints of the histogram task are made: `python -m attnlib.training NAME`.

`histogram-semantic`, `histogram-positional` and `histogram-free` are trained on the rows of the
released run; the card of the last one also tells which map an unconstrained model found from each
of several starts. `histogram-counting` is the smallest counter, and its card holds the accuracy
of a grid of small ones.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlib import pretrained
from attnlib.data import histogram
from attnlib.histogram import HistogramModel, accuracy, count_loss, fresh, map_facts
from attnlib.training import History, fit, shuffled

ROWS, SPLIT, QUICK, BATCH, SEED = 50_000, 0.7, 1_500, 128, 1
STEPS = {"semantic": 10_000, "positional": 10_000, "free": 4_000}
LR, WARMUP = 1e-2, 100
MIXERS: dict[str, dict[str, Any]] = {
    "dot": {"mixer": "dot", "softmax": False},
    "dot + softmax": {"mixer": "dot", "softmax": True},
    "linear + softmax": {"mixer": "linear", "softmax": True},
}
WIDTHS, HIDDEN, STARTS = (4, 8, 16, 32), (1, 4, 16, 64), 8


def released_rows() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and validation rows with their counts, as in the released run: 70 to 30."""
    ids, labels = histogram(ROWS)
    cut = int(SPLIT * len(ids))
    return (ids[:cut], labels[:cut]), (ids[cut:], labels[cut:])


def trained(config: dict[str, Any], seed: int, steps: int) -> tuple[HistogramModel, History]:
    """A model trained on new rows at every step."""
    torch.manual_seed(seed)
    model = HistogramModel(**config)
    rows = fresh(BATCH, seed=seed)
    return model, fit(model, rows, count_loss, steps=steps, lr=LR, warmup=WARMUP, seed=seed)


def minimum(name: str, steps: int | None, folder: Path) -> None:
    """One of the two minima, or the model that is free to choose."""
    train, validation = released_rows()
    sees = name.removeprefix("histogram-")
    config = {"vocab_size": 15, "length": 10, "sees": sees}
    torch.manual_seed(SEED)
    model = HistogramModel(**config)  # type: ignore[arg-type]
    rows = shuffled(train, BATCH, SEED)
    steps = STEPS[sees] if steps is None else steps
    history = fit(model, rows, count_loss, steps=steps, lr=LR, warmup=WARMUP, seed=SEED)
    more: dict[str, Any] = {"map": rounded(map_facts(model, validation[0][:2000]))}
    if sees == "free":
        more["starts"] = starts(min(steps, QUICK), validation)
    _save(name, model, config, history, validation, more, folder)


def starts(steps: int, validation: tuple[Tensor, Tensor]) -> list[dict[str, float]]:
    """Accuracy and map of unconstrained models that differ in nothing but their seed."""
    found = []
    for seed in range(STARTS):
        model, _ = trained({"sees": "free"}, seed, steps)
        facts = {"accuracy": accuracy(model, *validation)} | map_facts(model, validation[0][:2000])
        found.append({"seed": seed} | rounded(facts))
    return found


def counting(name: str, steps: int | None, folder: Path) -> None:
    """The smallest relation-based counter, and a grid over d_model, d_hidden and the mixer."""
    steps, validation = QUICK if steps is None else steps, released_rows()[1]
    grid: dict[str, list[list[float]]] = {}
    for mixer, settings in MIXERS.items():
        grid[mixer] = []
        for d in WIDTHS:
            sizes = [settings | {"plain": True, "d_model": d, "d_hidden": p} for p in HIDDEN]
            found = [accuracy(trained(size, SEED, steps)[0], *validation) for size in sizes]
            grid[mixer].append([round(value, 4) for value in found])
    config = {"vocab_size": 15, "length": 10, "d_model": 16, "d_hidden": 1, "plain": True}
    config |= MIXERS["dot"]
    model, history = trained(config, SEED, 2 * steps)
    more = {"grid": {"d_model": WIDTHS, "d_hidden": HIDDEN, "steps": steps, "accuracy": grid}}
    _save(name, model, config, history, validation, more, folder)


def rounded(facts: dict[str, float]) -> dict[str, float]:
    """The same numbers with four decimals, for a card."""
    return {key: round(value, 4) for key, value in facts.items()}


def _save(
    name: str,
    model: HistogramModel,
    config: dict[str, Any],
    history: History,
    validation: tuple[Tensor, Tensor],
    more: dict[str, Any],
    folder: Path,
) -> None:
    if history.interrupted:
        raise SystemExit(f"stopped at step {history.steps}; nothing was written")
    with torch.no_grad():
        loss = count_loss(model, validation).item()
    every = max(1, history.steps // 50)
    blocks = [history.losses[i : i + every] for i in range(0, len(history.losses), every)]
    about = {
        "command": f"python -m attnlib.training {name}",
        "config": config,
        "parameters": sum(p.numel() for p in model.parameters()),
        "data": {"source": "histogram", "rows": ROWS, "train": SPLIT, "seed": 42},
        "seed": SEED,
        "steps": history.steps,
        "tokens": history.tokens,
        "optimizer": {"name": "AdamW", "lr": LR, "warmup": WARMUP, "schedule": "cosine"},
        "loss": {"nats_per_place": round(loss, 5)},
        "accuracy": round(accuracy(model, *validation), 5),
        "curve": {"every": every, "train_loss": [round(sum(b) / len(b), 4) for b in blocks]},
    }
    pretrained.save(name, model, about | more, folder)
