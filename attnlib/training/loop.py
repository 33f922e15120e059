"""Training: one loop for every model.

`fit` runs the loop; `shuffled` makes batches of the rows of a data set. What a language model is
trained on and with stands in `training.language`; a run that goes on where it was interrupted, in
`recipes.resumed`.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

Batch = Any  # whatever `batch(step)` gives and `loss(model, batch)` takes


@dataclass
class History:
    """What happened during a run: loss of every step, tokens, seconds, how it ended, settings."""

    losses: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps done."""
        return len(self.losses)


@dataclass
class Run:
    """One call of `fit`: a model and its optimizer, the settings, and what has happened so far."""

    model: nn.Module
    loss: Callable[[Any, Batch], Tensor]
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        rates = {name: self.settings[name] for name in ("lr", "weight_decay")}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True, **rates)
        self.history = History(settings=self.settings)
        self.start = time.monotonic()

    def go(
        self,
        batch: Callable[[int], Batch],
        seconds: float,
        on_step: Callable[[int, nn.Module], None] | None,
        progress: bool,
    ) -> None:
        """Make steps until all are made, the seconds have passed, or the reader interrupts."""
        history, steps, seed = self.history, self.settings["steps"], self.settings["seed"]
        end, draws = history.seconds + seconds, torch.default_generator
        silent = {} if progress else {"disable": True}  # unless told, tqdm asks TQDM_DISABLE
        bar = tqdm(total=steps, initial=history.steps, unit="step", mininterval=0.5, **silent)
        self.model.train()
        with torch.random.fork_rng(devices=[]), bar:
            try:
                for step in range(history.steps, steps):
                    if on_step is not None:
                        on_step(step, self.model)
                    draws.manual_seed(seed * 1_000_003 + step)  # the same step draws the same bits
                    self.step(batch(step))
                    self.show(bar)
                    if history.seconds > end:
                        break
            except KeyboardInterrupt:
                history.interrupted = True
                bar.write(
                    f"Interrupted after {history.steps} of {steps} steps; the model is usable."
                )

    def step(self, data: Batch) -> None:
        """Loss, gradient, update, and a line in the history."""
        for group in self.optimizer.param_groups:
            group["lr"] = _rate(self.history.steps, self.settings)
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(self.model, data)
        if not torch.isfinite(value):
            raise FloatingPointError(
                f"the loss became {value.item()}: lower the learning rate, or look for a 0/0 in it"
            )
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["clip"])
        self.optimizer.step()
        self.history.losses.append(value.item())
        self.history.tokens += _size(data)
        self.history.seconds = time.monotonic() - self.start

    def show(self, bar: Any) -> None:
        """Loss and pace beside the bar, every tenth step and after the last."""
        bar.update()
        history = self.history
        if history.steps % 10 == 1 or history.steps == self.settings["steps"]:
            pace = history.tokens / max(history.seconds, 1e-9)
            told = f"loss {history.losses[-1]:.3f}, {pace:,.0f} tokens/s"
            bar.set_postfix_str(told, refresh=False)


def fit(
    model: nn.Module,
    batch: Callable[[int], Batch],
    loss: Callable[[Any, Batch], Tensor],
    *,
    steps: int,
    seconds: float = math.inf,
    lr: float = 1e-3,
    warmup: int = 0,
    schedule: str = "cosine",
    clip: float = 1.0,
    weight_decay: float = 0.0,
    seed: int = 0,
    progress: bool = True,
    on_step: Callable[[int, nn.Module], None] | None = None,
    kind: Callable[..., Run] = Run,
) -> History:
    """Train a model in place with AdamW.

    Args:
        model: anything whose parameters `loss` depends on.
        batch: the data of a step, a function of its number, so that a run can be repeated
            and gone on with.
        loss: mean loss of a batch, a scalar.
        steps: stop after so many steps,
        seconds: or after so much time, whichever comes first.
        lr: peak learning rate.
        warmup: steps of linear rise before the peak.
        schedule: "cosine" falls to a tenth of the peak at `steps`; "constant" stays.
        clip: largest norm of the whole gradient.
        weight_decay: of AdamW.
        seed: of what happens inside (dropout); the caller's generator is left alone.
        progress: show a bar with the loss and the tokens per second.
        on_step: called as on_step(step, model) before each step and once after the last.
        kind: of the run; such as `recipes.resumed.Resumed`, which keeps its state in a file.

    Returns:
        the History. After an interrupt (Ctrl-C, the stop button) it says so, and the model is
        as the last finished step left it.

    Raises:
        ValueError: if the schedule is unknown, there is no step to make, or the run to go on
            with had other settings.
        FloatingPointError: if the loss is no longer finite.
    """
    if schedule not in ("cosine", "constant"):
        raise ValueError(f"schedule is 'cosine' or 'constant', got {schedule!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    settings = {"steps": steps, "lr": lr, "warmup": warmup, "schedule": schedule}
    settings |= {"clip": clip, "weight_decay": weight_decay, "seed": seed}
    run = kind(model, loss, settings)
    run.go(batch, seconds, on_step, progress)
    if on_step is not None and not run.history.interrupted:
        on_step(run.history.steps, model)
    model.eval()
    return run.history


def _rate(step: int, settings: dict[str, Any]) -> float:
    """The learning rate of a step."""
    lr, warmup = settings["lr"], settings["warmup"]
    if step < warmup:
        return float(lr * (step + 1) / (warmup + 1))
    if settings["schedule"] == "constant":
        return float(lr)
    done = (step - warmup) / max(1, settings["steps"] - warmup)
    return float(lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done))))


def _size(data: Batch) -> int:
    first = data[0] if isinstance(data, tuple | list) else data
    return int(first.numel()) if isinstance(first, Tensor) else 1


def shuffled(
    tensors: Sequence[Tensor], batch_size: int, seed: int = 0
) -> Callable[[int], tuple[Tensor, ...]]:
    """Rows of a data set in a new random order each epoch.

    Args:
        tensors: all of the same length N, one row per item.
        batch_size: rows in a batch; the last batch of an epoch may be smaller.
        seed: of the order.

    Returns:
        a function of the step that gives a tuple of rows, one per tensor.
    """
    n = len(tensors[0])
    if n == 0 or any(len(tensor) != n for tensor in tensors):
        raise ValueError(f"need tensors of one length ≥ 1, got {[len(t) for t in tensors]}")
    per_epoch = math.ceil(n / batch_size)

    def batch(step: int) -> tuple[Tensor, ...]:
        epoch, place = divmod(step, per_epoch)
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        rows = torch.randperm(n, generator=generator)[place * batch_size :][:batch_size]
        return tuple(tensor[rows] for tensor in tensors)

    return batch
