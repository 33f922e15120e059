"""What a language model is trained on and judged by: windows of a token stream, and their loss."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

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
    with evaluating(model):
        parts = rows.split(batch_size)
        losses = (next_token_loss(model, stream[part]).item() * len(part) for part in parts)
        total = sum(losses)
    return total / count


def bits_per_byte(nats_per_token: float, tokens: int, n_bytes: int) -> float:
    """The loss in a unit that does not depend on the tokenizer.

    >>> round(bits_per_byte(math.log(2), tokens=100, n_bytes=400), 3)
    0.25
    """
    return nats_per_token * tokens / n_bytes / math.log(2)
