"""Answers that students give to the exercises of chapter 04, wrong ones and right ones.

WRONG: by task, the source of an answer cell and a piece of the message that must come.
RIGHT: by task, answers written differently from the solution.
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "attend": [
        (
            """
def attend(q, k, v):
    scores = k @ q.mT / q.shape[-1] ** 0.5
    weights = scores.softmax(-1).mT
    return weights @ v, weights
""",
            "and nothing is turned after it",
        ),
        (
            """
def attend(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.softmax(dim=2 if scores.ndim > 2 else 1)
    return weights @ v, weights
""",
            "your softmax is over axis 2",
        ),
        (
            """
def attend(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    parts = (scores - scores.max()).exp()
    weights = parts / parts.sum(-1, keepdim=True)
    return weights @ v, weights
""",
            "one largest score for all rows",
        ),
        (
            """
def attend(q, k, v):
    scores = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    weights = scores / scores.sum(-1, keepdim=True)
    return weights @ v, weights
""",
            "e²⁰⁰ overflows",
        ),
        (
            """
def attend(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if q.shape[-2] == k.shape[-2]:  # a text that looks at itself
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights
""",
            "differ",
        ),
        (
            """
def attend(q, k, v):
    letters = "abc"[: q.ndim - 2] if q.ndim < 5 else "ab"
    scores = torch.einsum(f"{letters}qd,{letters}kd->{letters}qk", q, k) / q.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return weights @ v, weights
""",
            "it raised",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.T / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights
""",
            "`.mt` swaps the last two",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights
""",
            "do not divide the scores",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1]).softmax(-1)
    return weights @ v, weights
""",
            "divide the scores by d_k itself",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / v.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights
""",
            "root of the width of the values",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / len(k) ** 0.5).softmax(dim=-1)
    return weights @ v, weights
""",
            "values of answer[0] differ",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / k.shape[-2] ** 0.5).softmax(dim=-1)
    return weights @ v, weights
""",
            "root of the number of keys",
        ),
        (
            """
def attend(q, k, v):
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-2)
    return weights @ v, weights
""",
            "sum to 1 along the query axis",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT).softmax(-1) / q.shape[-1] ** 0.5
    return weights @ v, weights
""",
            "after the softmax",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v
""",
            "you return the output alone",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights, weights @ v
""",
            "in the wrong order",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.T / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights
""",
            "it raised",
        ),
        (
            """
def attend(q, k, v):
    q /= q.shape[-1] ** 0.5
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights
""",
            "changes its argument q in place",
        ),
        (
            """
def attend(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).float()
    return (weights @ v.float()), weights
""",
            "dtype",
        ),
    ],
    "causal_weights": [
        (
            """
def causal_weights(scores):
    T = scores.shape[-1]
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -1e9).softmax(-1).tril()
""",
            "you write zeros on the future afterwards",
        ),
        (
            """
def causal_weights(scores):
    T = scores.shape[-1]
    mask = torch.tril(torch.ones(T, T))
    return scores.masked_fill(mask == 1, -torch.inf).softmax(-1).nan_to_num(0)
""",
            "you hide what may be seen, t ≤ s, and the last row is 0",
        ),
        (
            """
def causal_weights(scores):
    T = scores.shape[-1]
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    return scores.masked_fill(mask, -torch.inf).softmax(-1)
""",
            "you hide what may be seen, t ≤ s, and the last row is left with nothing",
        ),
        (
            """
def causal_weights(scores):
    T = scores.shape[-1]
    M = torch.ones(T, T).triu(1) * -torch.inf
    return (scores + M).softmax(-1)
""",
            "you build the mask by a product",
        ),
        (
            """
def causal_weights(scores):
    s, t = torch.arange(scores.shape[-1])[:, None], torch.arange(scores.shape[-1])
    return scores.masked_fill(s <= t, -torch.inf).softmax(-1).nan_to_num(0.0)
""",
            "the first row is 0: its token looks at nothing",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.clamp(-80, 80).masked_fill(hidden, -torch.inf).softmax(-1)
""",
            "differ",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    axis = list(scores.shape).index(scores.shape[-1]) + 1
    axis = min(axis, scores.ndim - 1)
    return scores.masked_fill(hidden, -torch.inf).softmax(axis)
""",
            "differ",
        ),
        (
            """
def causal_weights(scores):
    parts = scores.exp() * torch.ones(scores.shape[-2:]).tril()
    return parts / parts.sum(-1, keepdim=True)
""",
            "0 · ∞",
        ),
        (
            """
def causal_weights(scores):
    T = scores.shape[-1]
    M = torch.ones(T, T).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
    return (scores * M).softmax(-1)
""",
            "you multiply the scores by the mask",
        ),
        (
            """
def causal_weights(scores):
    s, t = torch.arange(scores.shape[-1])[:, None], torch.arange(scores.shape[-1])
    return scores.masked_fill(s <= t, -torch.inf).softmax(-1)
""",
            "you hide s ≤ t",
        ),
        (
            """
def causal_weights(scores):
    allowed = torch.ones_like(scores).tril(1).bool()
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1)
""",
            "one position ahead",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones_like(scores).tril(-1).bool()
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)
""",
            "hide the past",
        ),
        (
            """
def causal_weights(scores):
    return scores.softmax(-1).tril()
""",
            "you mask after the softmax. your rows do not sum to 1",
        ),
        (
            """
def causal_weights(scores):
    weights = scores.softmax(-1).tril()
    return weights / weights.sum(-1, keepdim=True)
""",
            "divide by what is left",
        ),
        (
            """
def causal_weights(scores):
    weights = scores.exp().tril()
    return weights / weights.sum(-1, keepdim=True)
""",
            "you take the exponentials yourself",
        ),
        (
            """
def causal_weights(scores):
    return scores.tril().softmax(-1)
""",
            "you set the hidden scores to 0",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -1e5).softmax(-1)
""",
            "large negative number",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return (scores - 1e9 * hidden.to(scores.dtype)).softmax(-1)
""",
            "large negative number",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-2)
""",
            "your columns sum to 1",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf)
""",
            "you return the masked scores",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill_(hidden, -torch.inf).softmax(-1)
""",
            "in place",
        ),
        (
            """
def causal_weights(scores):
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)
""",
            "it raised",
        ),
        (
            """
def causal_weights(scores):
    weights = torch.zeros(len(scores), len(scores))
    for s in range(len(scores)):
        weights[s, : s + 1] = scores[s, : s + 1].softmax(-1)
    return weights
""",
            "it raised",
        ),
    ],
    "merged_weights": [
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK.T @ x.mT).softmax(-1)
""",
            "your scores have the essay's transpose",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK.T @ x.mT / d_k**0.5).softmax(-1).mT
""",
            "nothing is turned after it",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return x @ W_QK.T @ x.mT
""",
            "as the essay prints it",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK.T @ x.mT / d_k**0.5).softmax(-1)
""",
            "rows and columns are swapped",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return torch.softmax(x @ W_QK.T @ x.mT, dim=-1)
""",
            "essay's transpose, and are not divided",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return x @ W_QK @ x.mT / d_k**0.5
""",
            "the softmax is missing",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK @ x.mT).softmax(-1)
""",
            "division by √d_k is missing",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK @ x.mT / d_k).softmax(-1)
""",
            "divide by d_k itself",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK @ x.mT / W_QK.shape[-1] ** 0.5).softmax(-1)
""",
            "divide by √d_model",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    return (x @ W_QK @ x.mT / d_k**0.5).softmax(1)
""",
            "your columns sum to 1",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    x = x[0]
    return (x @ W_QK @ x.T / d_k**0.5).softmax(-1)[None]
""",
            "shape",
        ),
        (
            """
def merged_weights(x, W_QK, d_k):
    W_QK /= d_k**0.5
    return (x @ W_QK @ x.mT).softmax(-1)
""",
            "changes its argument w_qk in place",
        ),
    ],
    "head_contributions": [
        (
            """
def head_contributions(heads, W_O):
    d_v = heads.shape[-1]
    parts = [heads[:, h] @ W_O.T[h * d_v : (h + 1) * d_v].T for h in range(heads.shape[1])]
    return torch.stack(parts, 1)
""",
            "the shapes do not fit",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    return heads.transpose(1, 2).reshape(B, T, H * d_v) @ W_O
""",
            "you return the sum over the heads",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    return heads @ W_O.reshape(d_v, H, -1).transpose(0, 1)
""",
            "like a comb",
        ),
        (
            """
def head_contributions(heads, W_O):
    return torch.stack([head @ W_O[h::heads.shape[1]] for h, head in
                        enumerate(heads.unbind(1))], 1)
""",
            "like a comb",
        ),
        (
            """
def head_contributions(heads, W_O):
    return heads @ W_O[: heads.shape[-1]]
""",
            "the first block of w_o",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    parts = [heads[:, h] @ W_O[(H - 1 - h) * d_v : (H - h) * d_v] for h in range(H)]
    return torch.stack(parts, dim=1)
""",
            "in reverse order",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    side_by_side = heads.reshape(B, T, H * d_v)
    parts = [side_by_side[..., h * d_v : (h + 1) * d_v] @ W_O[h * d_v : (h + 1) * d_v]
             for h in range(H)]
    return torch.stack(parts, dim=1)
""",
            "a reshape has mixed heads with tokens",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    parts = [heads[:, h] @ W_O[h * d_v : (h + 1) * d_v] for h in range(H)]
    return torch.stack(parts, dim=2)
""",
            "your axes are (b, t, h, d_model)",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    total = heads.transpose(1, 2).reshape(B, T, H * d_v) @ W_O
    return (total / H)[:, None].repeat(1, H, 1, 1)
""",
            "the same share of the sum",
        ),
        (
            """
def head_contributions(heads, W_O):
    return heads @ W_O
""",
            "it raised",
        ),
        (
            """
def head_contributions(heads, W_O):
    B, H, T, d_v = heads.shape
    out = torch.zeros(B, H, T, W_O.shape[1])
    for h in range(H):
        out[:, h] = heads[:, h] @ W_O[h * d_v : (h + 1) * d_v]
    return out
""",
            "dtype",
        ),
    ],
    "word_map": [
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    weights = torch.stack([weights[:, :, g].mean(-1) for g in groups], -1)
    words = torch.stack([weights[:, g].mean(1) for g in groups], 1)
    return words / words.sum(-1, keepdim=True)
""",
            "and then divide each row by its sum",
        ),
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    weights = torch.stack([weights[:, :, g].mean(-1) for g in groups], -1)
    return torch.stack([weights[:, g].mean(1) for g in groups], 1)
""",
            "you average both ways",
        ),
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    weights = torch.stack([weights[:, :, g].sum(-1) for g in groups], -1)
    return torch.stack([weights[:, g].sum(1) for g in groups], 1)
""",
            "you sum both ways",
        ),
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    weights = torch.stack([weights[:, :, g].mean(-1) for g in groups], -1)
    return torch.stack([weights[:, g].sum(1) for g in groups], 1)
""",
            "rows and columns the wrong way round",
        ),
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    weights = torch.stack([weights[:, :, g].amax(-1) for g in groups], -1)
    return torch.stack([weights[:, g].mean(1) for g in groups], 1)
""",
            "you take the largest weight",
        ),
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    return torch.stack([weights[:, :, g].sum(-1) for g in groups], -1)
""",
            "you merge the columns only",
        ),
        (
            """
def word_map(weights, word_ids):
    groups = [[t for t, w in enumerate(word_ids) if w == word] for word in range(max(word_ids) + 1)]
    weights = torch.stack([weights[:, :, g].sum(-1) for g in groups], -1)
    return weights[:, [g[0] for g in groups]]
""",
            "first piece speak for the whole word",
        ),
        (
            """
def word_map(weights, word_ids):
    first = [word_ids.index(word) for word in range(max(word_ids) + 1)]
    return weights[:, first][:, :, first]
""",
            "keep only the first piece",
        ),
        (
            """
def word_map(weights, word_ids):
    W = max(word_ids)
    out = weights.new_zeros(len(weights), W, W)
    for i in range(W):
        rows = weights[:, [s for s, w in enumerate(word_ids) if w == i]].mean(1)
        for j in range(W):
            out[:, i, j] = rows[:, [t for t, w in enumerate(word_ids) if w == j]].sum(-1)
    return out
""",
            "shape",
        ),
        (
            """
def word_map(weights, word_ids):
    W = max(word_ids) + 1
    out = torch.zeros(len(weights), W, W)
    for i in range(W):
        for j in range(W):
            rows = [s for s, w in enumerate(word_ids) if w == i]
            columns = [t for t, w in enumerate(word_ids) if w == j]
            out[:, i, j] = weights[:, rows][:, :, columns].sum((1, 2)) / len(rows)
    return out
""",
            "dtype",
        ),
        (
            """
def word_map(weights, word_ids):
    weights, word_ids = weights[0], torch.tensor(word_ids)
    P = (word_ids == torch.arange(int(word_ids.max()) + 1)[:, None]).to(weights.dtype)
    return ((P / P.sum(1, keepdim=True)) @ weights @ P.T)[None]
""",
            "shape",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "attend": [
        """
import numpy as np


def attend(q, k, v):
    Q, K, V = (one.numpy().astype(np.float64) for one in (q, k, v))
    jacobian = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    jacobian = jacobian - jacobian.max(-1, keepdims=True)
    A = np.exp(jacobian)
    A /= A.sum(-1, keepdims=True)
    return torch.from_numpy(A @ V).to(q.dtype), torch.from_numpy(A).to(q.dtype)
""",
        """
class MultiheadAttention(torch.nn.Module):
    # One head, in fact, and my own.

    def forward(self, q, k, v):
        weights = torch.softmax(q.mul(q.shape[-1] ** -0.5).matmul(k.transpose(-2, -1)), dim=-1)
        return weights.matmul(v), weights


scaled_dot_product_attention = MultiheadAttention()


def attend(q, k, v):
    return scaled_dot_product_attention(q, k, v)
""",
    ],
    "causal_weights": [
        """
def causal_weights(scores):
    out = torch.zeros_like(scores)
    for s in range(scores.shape[-1]):
        out[..., s, : s + 1] = scores[..., s, : s + 1].softmax(-1)
    return out
""",
        """
def causal_weights(scores):
    T = scores.size(-1)
    mask = np.triu(np.full((T, T), -np.inf), 1)
    return torch.softmax(scores + torch.from_numpy(mask).to(scores.dtype), dim=-1)
""",
    ],
    "merged_weights": [
        """
def merged_weights(x, W_QK, d_k):
    def softmax(row):
        row = (row - row.max()).exp()
        return row / row.sum()

    maps = []
    for text in x.double():
        asked = text @ W_QK.double()
        maps.append(torch.stack([softmax(text @ one / math.sqrt(d_k)) for one in asked]))
    return torch.stack(maps).to(x.dtype)
""",
        """
def merged_weights(x, W_QK, d_k):
    scores = torch.einsum("bsi,ij,btj->bst", x, W_QK, x).div(d_k**0.5)
    e = (scores - scores.amax(2, keepdim=True)).exp()
    return e / e.sum(2, keepdim=True)
""",
    ],
    "head_contributions": [
        """
def head_contributions(heads, W_O):
    H, d_v = heads.shape[1], heads.shape[-1]
    shares = [heads[:, h] @ W_O[h * d_v : (h + 1) * d_v] for h in range(H)]
    return torch.stack(shares, 1)
""",
        """
def head_contributions(heads, W_O):
    blocks = np.split(W_O.numpy(), heads.shape[1])
    parts = [np.matmul(heads[:, i].numpy(), block) for i, block in enumerate(blocks)]
    return torch.from_numpy(np.stack(parts, axis=1))
""",
    ],
    "word_map": [
        """
def word_map(weights, word_ids):
    P = torch.nn.functional.one_hot(torch.tensor(word_ids)).to(weights.dtype)  # (T, W)
    together = torch.einsum("tw,htu,uv->hwv", P, weights, P)
    return together / P.sum(0)[:, None]
""",
        """
def word_map(weights, word_ids):
    out = weights.new_zeros(weights.shape[0], max(word_ids) + 1, max(word_ids) + 1)
    for s, i in enumerate(word_ids):
        for t, j in enumerate(word_ids):
            out[:, i, j] += weights[:, s, t] / word_ids.count(i)
    return out
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "attend": {"scores = q @ k.mT / k.shape[-1] ** 0.5": "queries and keys have the same width"},
    "causal_weights": {"length = scores.shape[-2]": "the last two axes have the same length"},
}
