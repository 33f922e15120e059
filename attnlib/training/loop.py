"""Training: one loop for every model.

`fit` runs the loop; `shuffled` makes batches of the rows of a data set. What a language model is
trained on and judged by stands in `training.language`; a callback that keeps a run in a file, so
that it can go on after an interrupt, in `recipes.resumed`.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

Batch = Any  # whatever `batch(step)` gives and `loss(model, batch)` takes
SCHEDULES = ("cosine", "constant")


@dataclass
class History:
    """What happened during a run.

    Attributes:
        losses: of every step.
        tokens: numbers in the first tensor of every batch, added up.
        seconds: from the first step to the last; a run that goes on adds to its earlier seconds.
        interrupted: whether the reader stopped it.
        settings: of the call.
    """

    losses: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps done."""
        return len(self.losses)


OnStep = Callable[[int, nn.Module], None]
Checkpoint = Callable[[nn.Module, torch.optim.Optimizer, History], None]


def fit(
    model: nn.Module,
    batch: Callable[[int], Batch],
    loss: Callable[[Any, Batch], Tensor],
    *,
    steps: int,
    lr: float = 1e-3,
    warmup: int = 0,
    schedule: str = "cosine",
    clip: float = 1.0,
    weight_decay: float = 0.0,
    seed: int = 0,
    progress: bool = True,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> History:
    """Train a model in place with AdamW.

    Args:
        model: anything whose parameters `loss` depends on; it stays on its device.
        batch: the data of a step, a function of its number, so that a run can be repeated
            and gone on with.
        loss: mean loss of a batch, a scalar.
        steps: how many.
        lr: peak learning rate.
        warmup: steps of linear rise before the peak.
        schedule: "cosine" falls to a tenth of the peak at `steps`; "constant" stays.
        clip: largest norm of the whole gradient.
        weight_decay: of AdamW.
        seed: of what happens inside (dropout); the caller's generators are left alone.
        progress: show a bar with the loss and the tokens per second.
        on_step: called as on_step(step, model) before each step and once after the last.
        checkpoint: called as checkpoint(model, optimizer, history) before the first step, when it
            may put back what an earlier run left; after each step; and after an interrupt. See
            `recipes.resumed`.

    Returns:
        the History. After an interrupt (Ctrl-C, the stop button) it says so, and the model is
        as the last finished step left it.

    Raises:
        ValueError: if the schedule is unknown or there is no step to make.
        FloatingPointError: if the loss is no longer finite.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule is 'cosine' or 'constant', got {schedule!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    settings = {
        "steps": steps,
        "lr": lr,
        "warmup": warmup,
        "schedule": schedule,
        "clip": clip,
        "weight_decay": weight_decay,
        "seed": seed,
    }
    on_step = on_step or _nothing
    checkpoint = checkpoint or _nothing
    history = History(settings=settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)

    checkpoint(model, optimizer, history)
    start = time.monotonic() - history.seconds
    model.train()
    with _own_draws(model) as reseed, _progress_bar(history, progress) as bar:
        try:
            for step in range(history.steps, steps):
                on_step(step, model)
                reseed(seed * 1_000_003 + step)  # the same step draws the same numbers
                for group in optimizer.param_groups:
                    group["lr"] = _learning_rate(step, settings)
                data = batch(step)

                optimizer.zero_grad()
                objective = loss(model, data)
                value = _finite(objective.item())
                objective.backward()
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()

                history.losses.append(value)
                history.tokens += _size(data)
                history.seconds = time.monotonic() - start
                _show(bar, history)
                checkpoint(model, optimizer, history)
        except KeyboardInterrupt:
            history.interrupted = True
            bar.write(f"Interrupted after {history.steps} of {steps} steps; the model is usable.")
            checkpoint(model, optimizer, history)
        else:
            on_step(steps, model)
    model.eval()
    return history


def _nothing(*_: Any) -> None:
    """A callback that does nothing."""


@contextmanager
def _own_draws(model: nn.Module) -> Iterator[Callable[[int], Any]]:
    """What is drawn inside leaves the caller's generators as they were.

    Those are the CPU's and, for a model on another device, the ones of that device's type. Gives
    the function that seeds them.
    """
    device = next(model.parameters()).device
    if device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            yield torch.default_generator.manual_seed
    else:
        count = torch.get_device_module(device).device_count()
        with torch.random.fork_rng(devices=range(count), device_type=device.type):
            yield torch.manual_seed


def _learning_rate(step: int, settings: dict[str, Any]) -> float:
    """The learning rate of a step: up to the peak, then along the schedule."""
    lr, warmup, steps = settings["lr"], settings["warmup"], settings["steps"]
    if step < warmup:
        return float(lr * (step + 1) / (warmup + 1))
    if settings["schedule"] == "constant":
        return float(lr)
    done = (step - warmup) / max(1, steps - warmup)
    return float(lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done))))


def _finite(value: float) -> float:
    """The loss, if it is a number."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the loss became {value}: lower the learning rate, or look for a 0/0 in it"
        )
    return value


def _size(data: Batch) -> int:
    """Numbers in the first tensor of a batch; 1 if it holds none."""
    first = data[0] if isinstance(data, tuple | list) else data
    return first.numel() if isinstance(first, Tensor) else 1


def _progress_bar(history: History, progress: bool) -> Any:
    """A bar that stands where the history stands."""
    # tqdm reads the variable TQDM_DISABLE only where it is not told whether to show itself
    hidden = {} if progress else {"disable": True}
    return tqdm(
        total=history.settings["steps"],
        initial=history.steps,
        unit="step",
        mininterval=0.5,
        **hidden,
    )


def _show(bar: Any, history: History) -> None:
    """One step further; beside the bar loss and pace, every tenth step and after the last."""
    bar.update()
    if history.steps % 10 == 1 or history.steps == history.settings["steps"]:
        pace = history.tokens / max(history.seconds, 1e-9)
        text = f"loss {history.losses[-1]:.3f}, {pace:,.0f} tokens/s"
        bar.set_postfix_str(text, refresh=False)


def shuffled(
    tensors: Sequence[Tensor], batch_size: int, seed: int = 0
) -> Callable[[int], tuple[Tensor, ...]]:
    """Rows of a data set in a new random order each epoch, the same on every device.

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
        generator = torch.Generator(device="cpu").manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(n, generator=generator, device="cpu")
        rows = order[place * batch_size :][:batch_size]
        return tuple(tensor.index_select(0, rows.to(tensor.device)) for tensor in tensors)

    return batch
