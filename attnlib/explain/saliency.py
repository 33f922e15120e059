"""Which tokens does a prediction depend on? Answers from the gradient, and from leaving out.

A model is given as a function of its embeddings: f = g ∘ e, e the embedding, and everything here
looks at g. It is called `score` and takes (B, T, d) to one number per row, (B,); a row must not
depend on another. Padding is where `mask` (B, T) is False, and gets importance 0.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.models.config import check_choice

Score = Callable[[Tensor], Tensor]


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


def aggregate(gradients: Tensor, how: str = "l2", mask: Tensor | None = None) -> Tensor:
    """One number per token from its row of d partial derivatives.

    - "avg": G-avg_t = 1/d Σ_j ∇_{t,j}, signed (Atanasova et al. 2020);
    - "l1": G-L1_t = 1/d Σ_j |∇_{t,j}| (Li et al. 2016);
    - "l2": G-L2_t = √Σ_j ∇²_{t,j} (Poerner et al. 2018).

    The lecture notes' formulas lack the index t, and print the second one in place of the third.
    As norms, ‖∇_t‖₂ ≤ ‖∇_t‖₁ ≤ √d ‖∇_t‖₂, so √d · G-L1 ≤ G-L2 ≤ d · G-L1, and |G-avg| ≤ G-L1.

    Args:
        gradients: (..., T, d).
        how: "avg", "l1" or "l2".
        mask: True on real tokens, (..., T).

    Returns:
        (..., T).

    >>> both = torch.tensor([[3.0, -4.0]])
    >>> [aggregate(both, how).item() for how in ("avg", "l1", "l2")]
    [-0.5, 3.5, 5.0]
    """
    check_choice("how", how, ("avg", "l1", "l2"))
    means, sizes = gradients.mean(-1), gradients.abs().mean(-1)
    return _masked({"avg": means, "l1": sizes, "l2": gradients.norm(dim=-1)}[how], mask)


def gradient_times_input(score: Score, embeddings: Tensor, mask: Tensor | None = None) -> Tensor:
    """Σ_j x_{t,j} ∇_{t,j}: what a token adds to the score, were it linear; signed, (..., T)."""
    return _masked((gradient(score, embeddings) * embeddings.detach()).sum(-1), mask)


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
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    x = embeddings.detach()
    start = torch.zeros_like(x) if baseline is None else baseline.detach().expand_as(x)
    total = torch.zeros_like(x)
    for i in range(steps):
        total += gradient(score, start + (i + 0.5) / steps * (x - start))
    return _masked(((x - start) * total / steps).sum(-1), mask)


@torch.no_grad()
def leave_one_out(
    predict: Callable[[Tensor, Tensor], Tensor], ids: Tensor, mask: Tensor, batch_size: int = 512
) -> Tensor:
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
    rows, positions = (mask & (lengths > 1)[:, None]).nonzero(as_tuple=True)
    order = lengths[rows].argsort(stable=True)  # texts of like length share a batch
    whole: list[Tensor] = []
    for chunk in torch.arange(len(ids)).split(batch_size):
        longest = max(1, int(lengths[chunk].max()))
        whole.append(predict(ids[chunk, :longest], mask[chunk, :longest]))
    full = torch.cat(whole)
    effect = full.new_zeros(mask.shape)
    for part in order.split(batch_size) if len(order) else ():
        row, position = rows[part], positions[part]
        columns = torch.arange(int(lengths[row].max()) - 1)
        columns = columns + (columns >= position[:, None]).long()  # those after t move up
        shorter = predict(ids[row[:, None], columns], mask[row[:, None], columns])
        effect[row, position] = full[row] - shorter
    return effect


def _masked(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return tokens if mask is None else tokens.masked_fill(~mask, 0.0)
