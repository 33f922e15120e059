"""Attention: one function, its additive ancestor, and the layer of many heads.

Vectors are rows, so `q = x @ W_Q`. In every map of weights a row is a destination (query) and a
column is a source (key). Masks are boolean, True where a query may attend, as in the framework's
`scaled_dot_product_attention`.
"""

import math
import warnings
from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def check_choice(name: str, value: str | None, choices: Sequence[str | None]) -> None:
    """Stop if a setting is none of its choices.

    Raises:
        ValueError: with the ones there are.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def causal_mask(n: int, device: torch.device | str | None = None) -> Tensor:
    """Who may look at whom when nobody may look ahead.

    Args:
        n: number of tokens.
        device: where the mask is made; torch's default device if None.

    Returns:
        bool (n, n), True on and below the diagonal: destination t sees sources 0 … t.

    >>> causal_mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    if n < 0:
        raise ValueError(f"causal_mask needs a number of tokens ≥ 0, got {n}")
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


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
    weights = masked_softmax(scaled_scores(q, k), mask)
    return weights @ v, weights


def scaled_scores(
    q: Tensor, k: Tensor, scale: float | None = None, cap: float | None = None
) -> Tensor:
    """The scores before the softmax, q kᵀ / √d_k.

    Args:
        q: queries, (..., T_q, d_k).
        k: keys, (..., T_k, d_k).
        scale: what q kᵀ is multiplied by in place of 1/√d_k.
        cap: c, where a model bounds its scores softly: c tanh(score / c), between −c and c.

    Returns:
        scores, (..., T_q, T_k).
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1]) if scale is None else q @ k.mT * scale
    return scores if cap is None else cap * torch.tanh(scores / cap)


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
    Biases, if any: b_Q (H, d_k), b_K (H_kv, d_k), b_V (H_kv, d_v), b_O (d_model,); with
    bias=("qkv",) or ("out",) the first three or the last alone.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        d_source: int | None = None,
        combine: str = "concat",
        bias: bool | Collection[str] = False,
        kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        d_k, d_v = _widths(d_model, heads, d_k, d_v, combine)
        kv_heads = heads if kv_heads is None else kv_heads
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"kv_heads must divide the {heads} heads, got {kv_heads}")
        d_source = d_model if d_source is None else d_source
        writers = heads if combine == "concat" else 1
        self.combine = combine
        self.W_Q = _matrices(heads, d_model, d_k, fan_in=d_model)
        self.W_K = _matrices(kv_heads, d_source, d_k, fan_in=d_source)
        self.W_V = _matrices(kv_heads, d_source, d_v, fan_in=d_source)
        self.W_O = _matrices(writers, d_v, d_model, fan_in=writers * d_v)
        for weight in (self.W_Q, self.W_K, self.W_V):
            # Each column in one piece: the product with all heads at once then needs no copy.
            weight.data = weight.data.mT.contiguous().mT
        qkv, out = (bias if isinstance(bias, bool) else name in bias for name in ("qkv", "out"))
        self.b_Q = nn.Parameter(torch.zeros(heads, d_k)) if qkv else None
        self.b_K = nn.Parameter(torch.zeros(kv_heads, d_k)) if qkv else None
        self.b_V = nn.Parameter(torch.zeros(kv_heads, d_v)) if qkv else None
        self.b_O = nn.Parameter(torch.zeros(d_model)) if out else None

    def beyond_W_QK(self) -> list[str]:
        """What the scores of this layer depend on besides x, W_QK and the scale; empty if nothing.

        >>> MultiHeadAttention(8, 2, bias=True).beyond_W_QK()
        ['biases of queries and keys']
        """
        return [] if self.b_Q is None else ["biases of queries and keys"]

    @property
    def W_QK(self) -> Tensor:
        """W_Q W_Kᵀ of each head, (H, d_model, d_source): all that the scores depend on.

        Where the scores depend on more (`beyond_W_QK`), a warning says on what.
        """
        if more := self.beyond_W_QK():
            warnings.warn(
                f"the scores of this layer depend on more than W_QK: {', '.join(more)}. The q and "
                "k of a trace hold everything",
                stacklevel=2,
            )
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

    def write(self, z: Tensor) -> Tensor:
        """What all heads add together: their weighted values (B, H, T, d_v) to (B, T, d_model)."""
        if self.combine == "add":
            z = z.sum(1, keepdim=True)
        # Concatenating heads and stacking W_O[h] is the same sum over heads, in one product.
        concatenated = z.transpose(1, 2).flatten(2)  # (B, T, H · d_v)
        return F.linear(concatenated, self.W_O.flatten(0, 1).T, self.b_O)

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
        z, weights = attend(q, k, v, mask, causal, need_weights)
        return self.write(z), weights


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    need_weights: bool = False,
    scale: float | None = None,
    cap: float | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention with the weights if they are needed, with the fused kernel if not.

    Both roads give the same output, also where a row may look at nothing (zeros).
    Arguments as in `MultiHeadAttention.forward`, q, k, v already per head; fewer keys and values
    than queries are shared. Scale and cap are as in `scaled_scores`; with a cap the weights are
    always computed, since the fused kernel knows none.
    """
    if need_weights or cap is not None:
        weights = attention_weights(q, k, mask, causal, scale, cap)
        return weights @ _for_queries(v, q), weights
    _check_causal(q, k, causal)
    k, v = _for_queries(k, q), _for_queries(v, q)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale), None
    _check_mask(mask)
    if causal:
        mask = mask & causal_mask(q.shape[-2], q.device)
    empty = ~mask.any(-1, keepdim=True)
    output: Tensor = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | empty, scale=scale)
    return output.masked_fill(empty, 0.0), None


def attention_weights(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """The weights of `attend`: softmax(q kᵀ / √d_k), (B, H, T, S); arguments as there."""
    _check_causal(q, k, causal)
    if mask is not None:
        _check_mask(mask)
    if causal:
        lower = causal_mask(q.shape[-2], q.device)
        mask = lower if mask is None else mask & lower
    return masked_softmax(scaled_scores(q, _for_queries(k, q), scale, cap), mask)


def _check_causal(q: Tensor, k: Tensor, causal: bool) -> None:
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"a causal mask needs as many keys as queries, got {k.shape[-2]} and {q.shape[-2]}"
        )


def _for_queries(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values for each head that has queries; a single head has its own."""
    return shared(x, q.shape[-3]) if q.ndim > 2 else x


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
    check_choice("combine", combine, ("concat", "add"))
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
    """x W[h] + b[h] for every head: (B, T, d) and W (H, d, w) to (B, H, T, w).

    All heads are one product: W.mT, flattened, is (H · w, d), and is no copy.
    """
    y = F.linear(x, W.mT.flatten(0, 1), None if b is None else b.flatten())
    heads: Tensor = y.unflatten(-1, (W.shape[0], W.shape[2])).transpose(1, 2)
    return heads


def _matrices(heads: int, rows: int, columns: int, fan_in: int) -> nn.Parameter:
    """A matrix per head, (H, rows, columns), normal with the deviation 1/√fan_in."""
    weights = torch.empty(heads, rows, columns)
    if not weights.is_meta:  # where numbers come later, none are drawn
        nn.init.normal_(weights, std=fan_in**-0.5)
    return nn.Parameter(weights)
