"""Attention: one function, its additive ancestor, and the layer of many heads.

Vectors are rows, so `q = x @ W_Q`. In every map of weights a row is a destination (query) and a
column is a source (key). Masks are boolean, True where a query may attend, as in the framework's
`scaled_dot_product_attention`.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def causal_mask(n: int) -> Tensor:
    """Who may look at whom when nobody may look ahead.

    Args:
        n: number of tokens.

    Returns:
        bool (n, n), True on and below the diagonal: destination t sees sources 0 … t.

    >>> causal_mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    if n < 0:
        raise ValueError(f"causal_mask needs a number of tokens ≥ 0, got {n}")
    return torch.ones(n, n, dtype=torch.bool).tril()


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis (the keys), among the allowed entries only.

    Forbidden scores become −∞ *before* the softmax, so that they weigh exactly 0 and the rest of
    the row still sums to 1. A row that may look at nothing has no softmax (0/0): it is all zeros,
    and so is its gradient.

    Args:
        scores: (..., T_q, T_k).
        mask: True where allowed, broadcastable to the shape of `scores`.

    Returns:
        weights, the shape of `scores`.
    """
    if mask is None:
        return scores.softmax(-1)
    _check_mask(mask)
    empty = ~mask.any(-1, keepdim=True)
    # An empty row is let through the softmax and zeroed after it: −∞ everywhere would give NaN.
    weights = scores.masked_fill(~(mask | empty), -torch.inf).softmax(-1)
    return weights.masked_fill(empty, 0.0)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention of one or many heads.

    softmax(q kᵀ / √d_k) v, the softmax over the keys (Vaswani et al. 2017, eq. 1).

    Args:
        q: queries, (..., T_q, d_k).
        k: keys, (..., T_k, d_k).
        v: values, (..., T_k, d_v).
        mask: True where a query may attend to a key, broadcastable to (..., T_q, T_k).

    Returns:
        output (..., T_q, d_v) and weights (..., T_q, T_k). A row sums to 1,
        or is all zeros where its mask allows nothing.

    Raises:
        ValueError: if the widths of q and k, or the lengths of k and v, differ.

    >>> output, weights = attention(torch.zeros(1, 4), torch.ones(3, 4), torch.eye(3))
    >>> weights
    tensor([[0.3333, 0.3333, 0.3333]])
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"queries and keys must have the same width d_k: q is {tuple(q.shape)}, "
            f"k is {tuple(k.shape)}"
        )
    _check_lengths(k, v)
    weights = masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)
    return weights @ v, weights


def additive_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    W: Tensor,
    U: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention whose score is a small network: vᵀ tanh(query W + key U).

    The alignment model of Bahdanau, Cho and Bengio (2015, appendix A.1.2).

    Args:
        query: (..., T_q, d_query).
        keys: (..., T_k, d_key).
        values: (..., T_k, d_v).
        W: (d_query, d_align).
        U: (d_key, d_align).
        v: (d_align,).
        mask: True where a query may attend to a key, broadcastable to (..., T_q, T_k).

    Returns:
        context (..., T_q, d_v) and weights (..., T_q, T_k), rows as in `attention`.

    Raises:
        ValueError: if a width does not fit its matrix, or the lengths of keys and values differ.
    """
    for name, x, matrix in (("query", query, W), ("keys", keys, U)):
        if x.shape[-1] != matrix.shape[0]:
            raise ValueError(
                f"{name} of width {x.shape[-1]} does not fit its matrix {tuple(matrix.shape)}: "
                f"expected ({x.shape[-1]}, d_align)"
            )
    if not W.shape[1] == U.shape[1] == v.shape[0]:
        raise ValueError(
            f"W, U and v must agree on d_align, got {W.shape[1]}, {U.shape[1]} and {v.shape[0]}"
        )
    _check_lengths(keys, values)
    # (..., T_q, 1, d_align) + (..., 1, T_k, d_align): every query meets every key
    scores = torch.tanh((query @ W).unsqueeze(-2) + (keys @ U).unsqueeze(-3)) @ v
    weights = masked_softmax(scores, mask)
    return weights @ values, weights


def _check_mask(mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean, True where a query may attend; got {mask.dtype}")


def _check_lengths(keys: Tensor, values: Tensor) -> None:
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"every key needs one value: {keys.shape[-2]} keys, {values.shape[-2]} values"
        )


class MultiHeadAttention(nn.Module):
    """H heads side by side, each with its own four matrices.

    head_h = attention(x W_Q[h], source W_K[h], source W_V[h]), and the heads write together:
    - combine="concat": Σ_h head_h W_O[h], which is the concatenation of the heads times the
      matrices W_O[h] stacked on top of each other (Vaswani et al. 2017, section 3.2.2);
    - combine="add": (Σ_h head_h) W_O with one shared W_O (Bhardwaj et al. 2021).

    Shapes: W_Q (H, d_model, d_k), W_K (H_kv, d_source, d_k), W_V (H_kv, d_source, d_v),
    W_O (H, d_v, d_model), or (1, d_v, d_model) when heads are added. H_kv is H, or fewer: then
    H / H_kv heads in a row share their keys and values (grouped-query attention; Ainslie et al.
    2023), and with one, all do (multi-query).
    Biases, if any: b_Q (H, d_k), b_K (H_kv, d_k), b_V (H_kv, d_v), b_O (d_model,).
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        d_source: int | None = None,
        combine: str = "concat",
        bias: bool = False,
        kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        d_k, d_v = _widths(d_model, heads, d_k, d_v, combine)
        kv_heads = heads if kv_heads is None else kv_heads
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"kv_heads must divide the {heads} heads, got {kv_heads}")
        d_source = d_model if d_source is None else d_source
        self.combine = combine
        self.W_Q = nn.Parameter(torch.empty(heads, d_model, d_k))
        self.W_K = nn.Parameter(torch.empty(kv_heads, d_source, d_k))
        self.W_V = nn.Parameter(torch.empty(kv_heads, d_source, d_v))
        self.W_O = nn.Parameter(torch.empty(heads if combine == "concat" else 1, d_v, d_model))
        fan_in = d_model, d_source, d_source, len(self.W_O) * d_v
        for weight, n in zip((self.W_Q, self.W_K, self.W_V, self.W_O), fan_in, strict=True):
            if not weight.is_meta:  # where numbers come later, none are drawn
                nn.init.normal_(weight, std=n**-0.5)
        self.b_Q, self.b_K, self.b_V, self.b_O = (
            nn.Parameter(torch.zeros(shape)) if bias else None
            for shape in ((heads, d_k), (kv_heads, d_k), (kv_heads, d_v), (d_model,))
        )

    @property
    def W_QK(self) -> Tensor:
        """W_Q W_Kᵀ of each head, (H, d_model, d_source): all that the scores depend on."""
        return self.W_Q @ shared(self.W_K, len(self.W_Q)).mT

    @property
    def W_VO(self) -> Tensor:
        """W_V W_O of each head, (H, d_source, d_model): all that a head writes, but for A."""
        return shared(self.W_V, len(self.W_Q)) @ self.W_O

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, d_k) of x; keys (B, H_kv, S, d_k) and values, likewise, of source."""
        source = x if source is None else source
        return (
            _per_head(x, self.W_Q, self.b_Q),
            _per_head(source, self.W_K, self.b_K),
            _per_head(source, self.W_V, self.b_V),
        )

    def write(self, heads: Tensor) -> Tensor:
        """What the heads add together: (B, H, T, d_v) to (B, T, d_model)."""
        if self.combine == "add":
            heads = heads.sum(1, keepdim=True)
        # concatenating heads and stacking W_O[h] is the same sum over heads, in one product
        stacked = heads.transpose(1, 2).flatten(2)  # (B, T, H · d_v)
        return F.linear(stacked, self.W_O.flatten(0, 1).T, self.b_O)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x (B, T, d_model) to itself, or to source (B, S, d_source).

        Args:
            x: destinations.
            source: where keys *and* values come from; x itself if None.
            mask: True where allowed, broadcastable to (B, H, T, S); a padding mask of the
                source is (B, 1, 1, S).
            causal: also forbid sources later than the destination (self-attention only).
            need_weights: return the weights; without them the framework's fused kernel
                computes the layer.

        Returns:
            output (B, T, d_model), and weights (B, H, T, S) or None.
        """
        q, k, v = self.project(x, source)
        heads, weights = attend(q, k, v, mask, causal, need_weights)
        return self.write(heads), weights


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention with the weights if they are needed, with the fused kernel if not.

    Both roads give the same output, also where a row may look at nothing (zeros).
    Arguments as in `MultiHeadAttention.forward`, q, k, v already per head; fewer keys and values
    than queries are shared.
    """
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"a causal mask needs as many keys as queries, got {k.shape[-2]} and {q.shape[-2]}"
        )
    if q.ndim > 2:
        k, v = shared(k, q.shape[-3]), shared(v, q.shape[-3])
    if not need_weights and mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal), None
    if mask is not None:
        _check_mask(mask)
    if causal:
        lower = causal_mask(q.shape[-2]).to(q.device)
        mask = lower if mask is None else mask & lower
    if need_weights:
        return attention(q, k, v, mask)
    assert mask is not None
    empty = ~mask.any(-1, keepdim=True)
    output: Tensor = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | empty)
    return output.masked_fill(empty, 0.0), None


def shared(x: Tensor, heads: int) -> Tensor:
    """What H_kv heads have, (..., H_kv, n, d), for `heads` heads, each group's side by side.

    >>> shared(torch.tensor([[[1.0]], [[2.0]]]), 4).flatten()
    tensor([1., 1., 2., 2.])
    """
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], -3)


def _widths(
    d_model: int, heads: int, d_k: int | None, d_v: int | None, combine: str
) -> tuple[int, int]:
    """The widths d_k and d_v of a layer's heads, as given or shared out among them."""
    if combine not in ("concat", "add"):
        raise ValueError(f"combine is 'concat' or 'add', got {combine!r}")
    if heads < 1:
        raise ValueError(f"a layer needs at least one head, got {heads}")
    if d_model % heads and (d_k is None or (d_v is None and combine == "concat")):
        raise ValueError(f"{heads} heads do not divide d_model {d_model}: give d_k and d_v")
    d_k = d_model // heads if d_k is None else d_k
    if d_v is None:
        d_v = d_model // heads if combine == "concat" else d_model
    if min(d_k, d_v) < 1:
        raise ValueError(f"d_k and d_v must be at least 1, got {d_k} and {d_v}")
    return d_k, d_v


def _per_head(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    """x (B, T, d) times W (H, d, w), a product per head: (B, H, T, w)."""
    if x.shape[0] == 1:
        y = x[:, None] @ W
    else:  # for many texts one wide product is faster, though its matrix must first be laid out
        y = x @ W.transpose(0, 1).flatten(1)  # (B, T, H · w)
        y = y.unflatten(-1, (W.shape[0], W.shape[2])).transpose(1, 2)
    return y if b is None else y + b[:, None]
