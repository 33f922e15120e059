"""Which tokens does a prediction depend on? Answers from the gradient, and from leaving out.

A model is given as a function of its embeddings: f = g ∘ e, e the embedding, and everything here
looks at g. It is called `score` and takes (B, T, d) to one number per row, (B,); a row must not
depend on another. Padding is where `mask` (B, T) is False, and gets importance 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.explain.precision import at_least_float32

Score = Callable[[Tensor], Tensor]
Predict = Callable[[Tensor, Tensor], Tensor]  # ids (B, T) and mask (B, T) to ŷ (B,)


def gradient(score: Score, embeddings: Tensor) -> Tensor:
    """The gradient of every row's score in its own embeddings, ∇_{e(ξ)} g.

    Args:
        score: (B, T, d) to (B,), or (T, d) to a number.
        embeddings: where to take it; it is left alone.

    Returns:
        the shape of `embeddings`.

    Raises:
        ValueError: if the score is not one number per row.

    >>> gradient(lambda x: (x**2).sum((-2, -1)), torch.tensor([[1.0, -3.0]]))
    tensor([[ 2., -6.]])
    """
    x = embeddings.detach().requires_grad_()
    with torch.enable_grad():
        y = score(x)
        if y.shape != x.shape[:-2]:
            raise ValueError(
                f"score must give one number per row: {tuple(x.shape[:-2])} for embeddings "
                f"{tuple(x.shape)}, got {tuple(y.shape)}"
            )
        # a row depends on itself alone, so the gradient of the sum holds that of every row
        return torch.autograd.grad(y.sum(), x)[0]


def gradient_times_input(score: Score, embeddings: Tensor, mask: Tensor | None = None) -> Tensor:
    """Σ_j x_{t,j} ∇_{t,j}: what a token adds to the score, were it linear.

    Args:
        score: as in `gradient`.
        embeddings: x, (..., T, d).
        mask: True on real tokens, (..., T).

    Returns:
        signed, (..., T).
    """
    slopes = at_least_float32(gradient(score, embeddings))
    return _masked((slopes * embeddings.detach()).sum(-1), mask)


def integrated_gradients(
    score: Score,
    embeddings: Tensor,
    baseline: Tensor | None = None,
    steps: int = 50,
    mask: Tensor | None = None,
) -> Tensor:
    """The gradient averaged on the straight way from a baseline, times the way (Sundararajan 2017).

    IG_{t,j} = (x − x₀)_{t,j} ∫₀¹ ∇_{t,j} g(x₀ + s (x − x₀)) ds, with the midpoint of `steps` equal
    pieces. Complete: Σ_{t,j} IG_{t,j} = g(x) − g(x₀), up to an error that falls as steps⁻².

    Args:
        score: as in `gradient`.
        embeddings: x, (..., T, d).
        baseline: x₀, broadcastable to x; zeros if None.
        steps: pieces of the way.
        mask: True on real tokens, (..., T).

    Returns:
        one number per token, the sum over j, (..., T).

    Raises:
        ValueError: if there is no step.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    x = embeddings.detach()
    start = torch.zeros_like(x) if baseline is None else baseline.detach().expand_as(x)
    total = at_least_float32(torch.zeros_like(x))
    for i in range(steps):
        total += gradient(score, start + (i + 0.5) / steps * (x - start))
    return _masked(((x - start) * total / steps).sum(-1), mask)


@torch.no_grad()
def leave_one_out(predict: Predict, ids: Tensor, mask: Tensor, batch_size: int = 512) -> Tensor:
    """ŷ − ŷ₋ₜ: how much the prediction falls when token t is deleted (not replaced).

    Args:
        predict: ids (B, T') and mask (B, T') to ŷ (B,).
        ids: (N, T), padded at the end.
        mask: True on real tokens, (N, T).
        batch_size: shortened texts at a time; there are as many as real tokens.

    Returns:
        (N, T), signed, 0 on padding and for a text of one token.
    """
    lengths = mask.sum(1)
    whole = torch.cat(
        [
            _predict_trimmed(predict, ids[rows], mask[rows])
            for rows in torch.arange(len(ids), device=ids.device).split(batch_size)
        ]
    )
    effect = whole.new_zeros(mask.shape)

    rows, places = (mask & (lengths > 1)[:, None]).nonzero(as_tuple=True)
    order = lengths[rows].argsort(stable=True)  # texts of like length share a batch
    for batch in order.split(batch_size):
        row, place = rows[batch], places[batch]
        if len(row):
            left = _without(place, ids.shape[1])
            shorter = _predict_trimmed(predict, ids[row[:, None], left], mask[row[:, None], left])
            effect[row, place] = whole[row] - shorter
    return effect


def _predict_trimmed(predict: Predict, ids: Tensor, mask: Tensor) -> Tensor:
    """ŷ (B,) of texts (B, T), their common padding cut off but for one token."""
    longest = max(1, int(mask.sum(1).max()))
    return predict(ids[:, :longest], mask[:, :longest])


def _without(places: Tensor, length: int) -> Tensor:
    """For each of n places, all other columns in their order: (n,) to (n, length − 1)."""
    columns = torch.arange(length - 1, device=places.device)
    return columns + (columns >= places[:, None])  # those after the place move up


def _masked(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return tokens if mask is None else tokens.masked_fill(~mask, 0.0)
