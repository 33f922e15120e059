"""The models of the histogram task.

`histogram-semantic`, `histogram-positional` and `histogram-free` are trained on the rows of the
released run. The cards of the first two also tell how fast short trainings from several starts
learned, that of the last one which map an unconstrained model found from each.
`histogram-semantic-unfinished` and `histogram-positional-unfinished` are minima that have not
arrived: 400 steps on new rows, at a rate that does not fall. `histogram-counting`
is the smallest counter; its card holds the accuracy of a grid of small ones, and that of counters
with one hidden unit from several starts.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.data import histogram
from attnlib.models.histogram import (
    MIXERS,
    SEES,
    HistogramModel,
    SmallCounter,
    accuracy,
    count_loss,
    fresh,
    map_facts,
)
from attnlib.training.loop import Batch, History, fit, shuffled
from recipes.cards import finished, rounded, write

MINIMA = tuple(f"histogram-{sees}" for sees in SEES)
UNFINISHED = tuple(f"histogram-{sees}-unfinished" for sees in ("semantic", "positional"))
ROWS, SPLIT, QUICK, BATCH, SEED = 50_000, 0.7, 1_500, 128, 1
STEPS = {"semantic": 10_000, "positional": 10_000, "free": 4_000}
LR, WARMUP = 1e-2, 100
SMALLEST: dict[str, Any] = {"vocab_size": 15, "length": 10, "d_model": 16, "d_hidden": 1}
SMALLEST |= {"mixer": "dot"}
WIDTHS, HIDDEN, STARTS = (4, 8, 16, 32), (1, 4, 16, 64), 8
FEW, FEW_SEED = 400, 0
SHORT, LOW, BLOCK = 1_000, 0.1, 25  # steps; a loss in nats per place, as a mean of so many steps


def released_rows() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and validation rows with their counts, as in the released run: 70 to 30."""
    ids, labels = histogram(ROWS)
    cut = int(SPLIT * len(ids))
    return (ids[:cut], labels[:cut]), (ids[cut:], labels[cut:])


def trained(config: dict[str, Any], seed: int, steps: int, **more: Any) -> tuple[Any, History]:
    """A model trained on new rows at every step: a `HistogramModel` if it says what it `sees`."""
    torch.manual_seed(seed)
    model = (HistogramModel if "sees" in config else SmallCounter)(**config)
    return model, run(model, fresh(BATCH, seed=seed), steps, seed, **more)


def run(
    model: nn.Module, batch: Callable[[int], Batch], steps: int, seed: int, **more: Any
) -> History:
    """Train a model in place, with more settings of `fit` if there are any.

    Raises:
        SystemExit: if it was interrupted.
    """
    settings: dict[str, Any] = {"steps": steps, "lr": LR, "warmup": WARMUP, "seed": seed}
    return finished(fit(model, batch, count_loss, **settings, **more))


def train_minimum(name: str, steps: int | None, folder: Path) -> None:
    """One of the two minima, or the model that is free to choose."""
    rows, validation = released_rows()
    sees = name.removeprefix("histogram-")
    config = {"vocab_size": 15, "length": 10, "sees": sees}
    torch.manual_seed(SEED)
    model = HistogramModel(**config)  # type: ignore[arg-type]
    steps = STEPS[sees] if steps is None else steps
    history = run(model, shuffled(rows, BATCH, SEED), steps, SEED)
    more: dict[str, Any] = {"map": rounded(map_facts(model, validation[0][:2000]))}
    if sees == "free":
        more["starts"] = starts(min(steps, QUICK), validation)
    else:
        more["speeds"] = speeds(sees, min(steps, SHORT), validation)
    write(name, model, history, folder, judged(model, validation) | {"config": config} | more)


def train_unfinished(name: str, steps: int | None, folder: Path) -> None:
    """One of the two minima that has not arrived: it was stopped while the rate was high."""
    config = {"vocab_size": 15, "length": 10, "sees": name.split("-")[1]}
    steps = FEW if steps is None else steps
    model, history = trained(config, FEW_SEED, steps, schedule="constant")
    about = {"config": config, "seed": FEW_SEED}
    write(name, model, history, folder, judged(model, released_rows()[1]) | about)


def short_runs(
    config: dict[str, Any], steps: int, validation: tuple[Tensor, Tensor]
) -> Iterator[tuple[Any, History, dict[str, float]]]:
    """Short trainings that differ in nothing but their seed: model, history, seed and accuracy."""
    for seed in range(STARTS):
        model, history = trained(config, seed, steps)
        yield model, history, {"seed": seed, "accuracy": rounded(accuracy(model, *validation))}


def starts(steps: int, validation: tuple[Tensor, Tensor]) -> list[dict[str, float]]:
    """Accuracy and map of unconstrained models that differ in nothing but their seed."""
    return [
        facts | rounded(map_facts(model, validation[0][:2000]))
        for model, _, facts in short_runs({"sees": "free"}, steps, validation)
    ]


def speeds(sees: str, steps: int, validation: tuple[Tensor, Tensor]) -> list[dict[str, Any]]:
    """Short trainings that differ in their seed: accuracy, and the step at which the loss was low.

    Returns:
        one entry per seed; "low_after" is the end of the first `BLOCK` steps with a mean loss below
        `LOW` nats per place, None if there were none.
    """
    found: list[dict[str, Any]] = []
    for _, history, facts in short_runs({"sees": sees}, steps, validation):
        ends = range(BLOCK, steps + 1, BLOCK)
        low = (end for end in ends if sum(history.losses[end - BLOCK : end]) < LOW * BLOCK)
        found.append(facts | {"low_after": next(low, None)})
    return found


def train_counting(name: str, steps: int | None, folder: Path) -> None:
    """The smallest relation-based counter, and a grid over d_model, d_hidden and the mixer."""
    steps, validation = QUICK if steps is None else steps, released_rows()[1]
    grid: dict[str, list[list[float]]] = {}
    for mixer in MIXERS:
        grid[mixer] = []
        for d in WIDTHS:
            sizes = [{"mixer": mixer, "d_model": d, "d_hidden": p} for p in HIDDEN]
            found = [accuracy(trained(size, SEED, steps)[0], *validation) for size in sizes]
            grid[mixer].append(rounded(found))
    model, history = trained(SMALLEST, SEED, 2 * steps)
    one_unit = [facts["accuracy"] for *_, facts in short_runs(SMALLEST, steps, validation)]
    facts = {"d_model": WIDTHS, "d_hidden": HIDDEN, "steps": steps, "accuracy": grid}
    about = {"config": SMALLEST, "grid": facts, "one_unit": one_unit}
    write(name, model, history, folder, judged(model, validation) | about)


def judged(model: nn.Module, validation: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """What a card says of the rows, and of a model on those of the validation."""
    with torch.no_grad():
        loss = {"nats_per_place": rounded(count_loss(model, validation), 5)}
    right = rounded(accuracy(model, *validation), 5)
    data = {"source": "histogram", "rows": ROWS, "train": SPLIT, "seed": 42}
    return {"data": data, "seed": SEED, "loss": loss, "accuracy": right}
