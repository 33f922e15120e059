"""What a language model is trained on and judged by: windows of a token stream, and their loss."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.models.evaluation import evaluating
from attnlib.tokenizers.bpe import BPE

ROWS = 512  # positions whose logits are held at once


def token_stream(texts: Iterable[str], bpe: BPE) -> Tensor:
    """All texts end to end as one row of token ids, an end-of-text token after each: (N,) int64."""
    end = bpe.special_tokens["<|endoftext|>"]
    ids = [token for text in texts for token in (*bpe.encode(text), end)]
    return torch.tensor(ids, dtype=torch.int64, device="cpu")


def windows(stream: Tensor, length: int, batch_size: int, seed: int = 0) -> Callable[[int], Tensor]:
    """Random stretches of a token stream, one more token than the model reads at once.

    The same stretches are drawn on every device; they lie where the stream lies.

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
        generator = torch.Generator(device="cpu").manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(
            len(stream) - length, (batch_size, 1), generator=generator, device="cpu"
        )
        places = torch.arange(length + 1, device=stream.device)
        return stream[starts.to(stream.device) + places]

    return batch


def next_token_loss(model: Any, window: Tensor) -> Tensor:
    """Mean cross-entropy of every next token of a window, in nats per token.

    It is the cross-entropy of `model(window[:, :-1])` against `window[:, 1:]`. The logits, by far
    the largest tensor, are made of a few hundred positions at a time: that needs less memory, and
    less time where the logits of all would not fit into the processor's cache.

    Args:
        model: a language model, with `hidden(ids)` (B, T, d) and `unembed(states)` (…, D).
        window: (B, T + 1) ids; token t + 1 is the target of position t.

    Returns:
        a scalar in single precision, whatever that of the model.
    """
    states = model.hidden(window[:, :-1]).flatten(0, 1)
    targets = window[:, 1:].flatten()
    sums = [
        F.cross_entropy(model.unembed(state).float(), target, reduction="sum")
        for state, target in zip(states.split(ROWS), targets.split(ROWS), strict=True)
    ]
    return torch.stack(sums).sum() / len(targets)


@torch.no_grad()
def evaluate(model: Any, stream: Tensor, length: int = 128, batch_size: int = 32) -> float:
    """Held-out loss: mean nats per token over the whole stream.

    The stream is cut into windows of `length` predictions; every model sees the same windows
    and nothing before them. A last, incomplete window is left out.

    Args:
        model: as in `next_token_loss`.
        stream: (N,) ids, on the device of the model.
        length: predictions per window.
        batch_size: windows at a time.
    """
    count = (len(stream) - 1) // length
    if count < 1:
        raise ValueError(f"a stream of {len(stream)} tokens has no window of {length} + 1")
    starts = torch.arange(count, device=stream.device)[:, None] * length
    rows = starts + torch.arange(length + 1, device=stream.device)
    total = 0.0
    with evaluating(model):
        for part in rows.split(batch_size):
            total += next_token_loss(model, stream[part]).item() * len(part)
    return total / count


def bits_per_byte(nats_per_token: float, tokens: int, n_bytes: int) -> float:
    """The loss in a unit that does not depend on the tokenizer.

    >>> round(bits_per_byte(math.log(2), tokens=100, n_bytes=400), 3)
    0.25
    """
    return nats_per_token * tokens / n_bytes / math.log(2)
