"""Training: one loop for every model, and the recipes of the checkpoints.

`fit` runs the loop. `python -m attnlib.training NAME` rebuilds the checkpoint NAME from the data,
goes on where an interrupted run stopped, and writes the weights with their card.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from attnlib.bpe import BPE

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
    resume: Path | None = None,
) -> History:
    """Train a model in place with AdamW.

    Args:
        model: anything whose parameters `loss` depends on.
        batch: the data of a step, a function of its number, so that a run can be repeated
            and resumed.
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
        resume: file that keeps the state of the run, about once a minute; if it is there,
            the run goes on from it.

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
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    settings = {"steps": steps, "lr": lr, "warmup": warmup, "schedule": schedule}
    settings |= {"clip": clip, "weight_decay": weight_decay, "seed": seed}
    history = _load_state(resume, model, optimizer, settings)
    model.train()
    start, saved, before = time.monotonic(), time.monotonic(), history.seconds
    silent = {} if progress else {"disable": True}  # unless told, tqdm asks TQDM_DISABLE
    bar = tqdm(total=steps, initial=history.steps, unit="step", mininterval=0.5, **silent)
    with torch.random.fork_rng(devices=[]), bar:
        try:
            for step in range(history.steps, steps):
                if on_step is not None:
                    on_step(step, model)
                torch.manual_seed(seed * 1_000_003 + step)  # the same step draws the same bits
                data = batch(step)
                value = _one_step(
                    model, data, loss, optimizer, clip, _rate(step, steps, lr, warmup, schedule)
                )
                history.losses.append(value)
                history.tokens += _size(data)
                history.seconds = before + time.monotonic() - start
                bar.update()
                if step % 10 == 0 or step == steps - 1:
                    pace = history.tokens / max(history.seconds, 1e-9)
                    bar.set_postfix_str(f"loss {value:.3f}, {pace:,.0f} tokens/s", refresh=False)
                if history.seconds - before > seconds:
                    break
                if resume is not None and time.monotonic() - saved > 60:
                    _save_state(resume, model, optimizer, history)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            history.interrupted = True
            bar.write(f"Interrupted after {history.steps} of {steps} steps; the model is usable.")
    if on_step is not None and not history.interrupted:
        on_step(history.steps, model)
    if resume is not None:
        _save_state(resume, model, optimizer, history)
    model.eval()
    return history


def _one_step(
    model: nn.Module,
    data: Batch,
    loss: Callable[[Any, Batch], Tensor],
    optimizer: torch.optim.Optimizer,
    clip: float,
    rate: float,
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    value = loss(model, data)
    if not torch.isfinite(value):
        raise FloatingPointError(
            f"the loss became {value.item()}: lower the learning rate, or look for a 0/0 in it"
        )
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return value.item()


def _rate(step: int, steps: int, lr: float, warmup: int, schedule: str) -> float:
    if step < warmup:
        return lr * (step + 1) / (warmup + 1)
    if schedule == "constant":
        return lr
    done = (step - warmup) / max(1, steps - warmup)
    return lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def _size(data: Batch) -> int:
    first = data[0] if isinstance(data, tuple | list) else data
    return int(first.numel()) if isinstance(first, Tensor) else 1


def _save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, history: History
) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")  # a run stopped while it writes keeps its last good state
    torch.save(state | {"history": vars(history) | {"interrupted": False}}, part)
    part.replace(path)


def _load_state(
    path: Path | None,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    settings: dict[str, Any],
) -> History:
    if path is None or not path.exists():
        return History(settings=settings)
    state = torch.load(path, weights_only=True)
    before = state["history"]["settings"]
    if before != settings:
        raise ValueError(
            f"{path.name} is the state of a run with {before}, not {settings}: go on with the same "
            "settings, or delete the file to start anew"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return History(**state["history"])


# --- data in, batches out ---------------------------------------------------------------------


def token_stream(texts: Iterable[str], bpe: BPE) -> Tensor:
    """All texts end to end as one row of token ids, an end-of-text token after each: (N,) int64."""
    end = bpe.special_tokens["<|endoftext|>"]
    ids: list[int] = []
    for text in texts:
        ids += bpe.encode(text)
        ids.append(end)
    return torch.tensor(ids, dtype=torch.int64)


def windows(stream: Tensor, length: int, batch_size: int, seed: int = 0) -> Callable[[int], Tensor]:
    """Random stretches of a token stream, one more token than the model reads at once.

    Args:
        stream: (N,) ids.
        length: T, tokens that the model reads.
        batch_size: B.
        seed: of the draw.

    Returns:
        a function of the step that gives (B, T + 1) ids.
    """
    if len(stream) <= length:
        raise ValueError(f"a stream of {len(stream)} tokens has no window of {length} + 1")

    def batch(step: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(len(stream) - length, (batch_size, 1), generator=generator)
        return stream[starts + torch.arange(length + 1)]

    return batch


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


# --- the loss of a language model -------------------------------------------------------------


class _CrossEntropy(torch.autograd.Function):
    """Softmax cross-entropy of hidden @ W_U, a few rows at a time.

    The logits of a batch, B·T rows of D numbers, are by far its largest tensor. Nobody needs them
    all at once: a block of rows gives its loss and its gradient and is forgotten. The block stays
    in the processor's cache, which makes a step two to three times as fast.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, W_U: Tensor, targets: Tensor, dtype: torch.dtype, learn: bool
    ) -> Tensor:
        grad_hidden, grad_W = torch.empty_like(hidden), torch.zeros_like(W_U)
        W, total = W_U.to(dtype), hidden.new_zeros(())
        for start in range(0, len(targets), 256):
            rows = slice(start, start + 256)
            x, target = hidden[rows].to(dtype), targets[rows, None]
            log_p = (x @ W).float().log_softmax(-1)
            total -= log_p.gather(1, target).sum()
            if not learn:
                continue
            # the gradient of the loss in the logits is softmax − one-hot
            error = (
                log_p.exp_().scatter_add_(1, target, log_p.new_full(target.shape, -1.0)).to(dtype)
            )
            grad_hidden[rows] = error @ W.T
            grad_W += x.T @ error
        ctx.save_for_backward(grad_hidden / len(targets), grad_W / len(targets))
        return total / len(targets)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_W = ctx.saved_tensors
        return grad_hidden * grads[0], grad_W * grads[0], None, None, None


def next_token_loss(model: Any, window: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Mean cross-entropy of every next token of a window, in nats per token.

    Args:
        model: a language model with `hidden(ids)` (B, T, d) and `W_U` (d, D).
        window: (B, T + 1) ids; token t + 1 is the target of position t.
        dtype: of the products with W_U; bfloat16 halves their time where the processor has it.

    Returns:
        a scalar, as `torch.nn.functional.cross_entropy` of the logits gives it.
    """
    hidden = model.hidden(window[:, :-1])
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden.flatten(0, 1), model.W_U, window[:, 1:].flatten(), dtype, torch.is_grad_enabled()
    )
    return loss


@torch.no_grad()
def evaluate(model: Any, stream: Tensor, length: int = 128, batch_size: int = 32) -> float:
    """Held-out loss: mean nats per token over the whole stream.

    The stream is cut into windows of `length` predictions; every model sees the same windows
    and nothing before them. A last, incomplete window is left out.

    Args:
        model: as in `next_token_loss`.
        stream: (N,) ids.
        length: predictions per window.
        batch_size: windows at a time.
    """
    count = (len(stream) - 1) // length
    if count < 1:
        raise ValueError(f"a stream of {len(stream)} tokens has no window of {length} + 1")
    rows = torch.arange(count)[:, None] * length + torch.arange(length + 1)
    was_training = model.training
    model.eval()
    try:
        parts = rows.split(batch_size)
        total = sum(next_token_loss(model, stream[part]).item() * len(part) for part in parts)
    finally:
        model.train(was_training)
    return total / count


def bits_per_byte(nats_per_token: float, tokens: int, n_bytes: int) -> float:
    """The loss in a unit that does not depend on the tokenizer.

    >>> round(bits_per_byte(math.log(2), tokens=100, n_bytes=400), 3)
    0.25
    """
    return nats_per_token * tokens / n_bytes / math.log(2)


if __name__ == "__main__":
    from attnlib.recipes import main

    main()
