"""What a language model is trained on and judged by: windows of a token stream, and their loss."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.models.evaluation import evaluating
from attnlib.tokenizers.bpe import BPE


def token_stream(texts: Iterable[str], bpe: BPE) -> Tensor:
    """All texts end to end as one row of token ids, an end-of-text token after each: (N,) int64."""
    end = bpe.special_tokens["<|endoftext|>"]
    ids = [token for text in texts for token in (*bpe.encode(text), end)]
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


def next_token_loss(model: Any, window: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Mean cross-entropy of every next token of a window, in nats per token.

    Args:
        model: a language model with `hidden(ids)` (B, T, d) and `W_U` (d, D).
        window: (B, T + 1) ids; token t + 1 is the target of position t.
        dtype: of the products with W_U; bfloat16 halves their time where the processor has it.
    """
    logits = model.hidden(window[:, :-1]).to(dtype) @ model.W_U.to(dtype)
    return F.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten())


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
    parts = rows.split(batch_size)
    with evaluating(model):
        total = sum(next_token_loss(model, stream[part]).item() * len(part) for part in parts)
    return total / count


def bits_per_byte(nats_per_token: float, tokens: int, n_bytes: int) -> float:
    """The loss in a unit that does not depend on the tokenizer.

    >>> round(bits_per_byte(math.log(2), tokens=100, n_bytes=400), 3)
    0.25
    """
    return nats_per_token * tokens / n_bytes / math.log(2)
