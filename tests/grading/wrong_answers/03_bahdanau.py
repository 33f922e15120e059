"""Answers that students give to the exercises of chapter 03, wrong ones and right ones.

WRONG: by task, the source of an answer cell and a piece of the message that must come.
RIGHT: by task, answers written differently from the solution.
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "additive_scores": [
        (
            """
def additive_scores(s, h, W, U, v):
    return ((s @ W)[:, None] * (h @ U)).sum(-1) / W.shape[1] ** 0.5
""",
            "that is the scaled dot product",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return ((h @ U) @ (s @ W)[:, :, None])[..., 0]
""",
            "that is the plain dot product",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return ((s @ W)[:, None] + h @ U) @ v
""",
            "the tanh is missing",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return torch.tanh(((s @ W)[:, None] + h @ U) @ v)
""",
            "you take tanh at the end",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return (torch.tanh(s @ W)[:, None] + torch.tanh(h @ U)) @ v
""",
            "two tanh",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return torch.tanh((s @ W)[:, None] * (h @ U)) @ v
""",
            "you multiply sw and hu",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return torch.tanh((s @ W)[:, None] + h @ U).sum(-1)
""",
            "v is missing",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return (torch.tanh((s @ W)[:, None] + h @ U) @ v).softmax(-1)
""",
            "you return weights",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return torch.tanh(s @ W + h @ U) @ v
""",
            "the query of one text meets the sources of another",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    return torch.stack([torch.tanh(s[0] @ W + text @ U) @ v for text in h])
""",
            "use the query of the first one",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    out = torch.zeros(h.shape[0], h.shape[1])
    for b in range(h.shape[0]):
        out[b] = torch.tanh(s[b] @ W + h[b] @ U) @ v
    return out
""",
            "dtype",
        ),
        (
            """
def additive_scores(s, h, W, U, v):
    h -= h.mean(-1, keepdim=True)
    return torch.tanh((s @ W)[:, None] + h @ U) @ v
""",
            "changes its argument h in place",
        ),
    ],
    "two_readings": [
        (
            """
def two_readings(d, n):
    q = torch.zeros(d); q[0] = 1
    keys = torch.zeros(n, d); keys[0, 0] = 1.6
    return q, keys
""",
            "the two sides differ by",
        ),
        (
            """
def two_readings(d, n):
    q = torch.ones(d)
    keys = torch.zeros(n, d); keys[0] = 1
    return q, keys
""",
            "so far apart that both sides",
        ),
        (
            """
def two_readings(d, n):
    q, keys = torch.eye(d)[0], torch.zeros(n, d)
    keys[0, 0] = 1.0
    return q, keys
""",
            "at most; more than 0.1 is asked",
        ),
        (
            """
def two_readings(d, n):
    return torch.zeros(d), torch.ones(n, d)
""",
            "all scores are equal",
        ),
        (
            """
def two_readings(d, n):
    return torch.ones(d), torch.ones(n, d)
""",
            "all scores are equal",
        ),
        (
            """
def two_readings(d, n):
    keys = torch.zeros(n, d)
    keys[0] = 1000
    return torch.ones(d), keys
""",
            "both sides give all to one key",
        ),
        (
            """
def two_readings(d, n):
    keys = torch.zeros(n, d)
    keys[0, 0] = 0.1
    return torch.eye(d)[0], keys
""",
            "more than 0.1 is asked",
        ),
        (
            """
def two_readings(d, n):
    keys = torch.zeros(d, n)
    keys[0, 0] = 3
    return torch.eye(d)[0], keys
""",
            "the shapes are",
        ),
        (
            """
def two_readings(d, n):
    keys = torch.zeros(n, d)
    keys[0, 0] = 3
    return torch.eye(d)[:1], keys
""",
            "the shapes are",
        ),
        (
            """
def two_readings(d, n):
    q, keys = torch.zeros(4), torch.zeros(3, 4)
    q[0], keys[0, 0] = 1, 3
    return q, keys
""",
            "the same answer whatever it is given",
        ),
        (
            """
def two_readings(d, n):
    keys = torch.zeros(n, d)
    keys[0, 0] = torch.inf
    return torch.eye(d)[0], keys
""",
            "not finite",
        ),
    ],
    "source_weights": [
        (
            """
def source_weights(scores, real):
    return scores.masked_fill(~real, -1e9).softmax(-1) * real
""",
            "you write zeros on the padding afterwards",
        ),
        (
            """
def source_weights(scores, real):
    weights = (scores * real).softmax(-1) * real
    return (weights / weights.sum(-1, keepdim=True)).nan_to_num(0.0)
""",
            "you give the padding the score 0 and replace nan by 0",
        ),
        (
            """
def source_weights(scores, real):
    weights = scores.masked_fill(~real, 0.0).softmax(-1) * real
    return weights / weights.sum(-1, keepdim=True)
""",
            "you give the padding the score 0 and divide",
        ),
        (
            """
def source_weights(scores, real):
    weights = scores.masked_fill(~real, -torch.inf).softmax(-1)
    return weights.nan_to_num(1 / scores.shape[1])
""",
            "a text of padding only gets equal weights",
        ),
        (
            """
def source_weights(scores, real):
    parts = (scores - scores.amax(-1, keepdim=True)).exp() * real
    return (parts / parts.sum(-1, keepdim=True)).nan_to_num(0.0)
""",
            "the padding still counts: where it has a huge score",
        ),
        (
            """
def source_weights(scores, real):
    lengths = real.sum(1)
    out = torch.zeros_like(scores)
    for i, n in enumerate(lengths):
        out[i, :n] = scores[i, :n].softmax(0)
    return out
""",
            "padding may stand anywhere",
        ),
        (
            """
def source_weights(scores, real):
    parts = scores.exp().masked_fill(~real, 0)
    return torch.nan_to_num(parts / parts.sum(-1, keepdim=True))
""",
            "you take the exponentials yourself and replace nan by 0",
        ),
        (
            """
def source_weights(scores, real):
    weights = scores.masked_fill(~real, -1e9).softmax(-1)
    return weights * real.any(-1, keepdim=True)
""",
            "where the words score lower still",
        ),
        (
            """
def source_weights(scores, real):
    parts = scores.exp() * real
    return parts / parts.sum(-1, keepdim=True)
""",
            "0 · ∞",
        ),
        (
            """
def source_weights(scores, real):
    return scores.softmax(-1) * real
""",
            "you mask after the softmax. the padding still counts",
        ),
        (
            """
def source_weights(scores, real):
    weights = scores.softmax(-1) * real
    return weights / weights.sum(-1, keepdim=True)
""",
            "divide by what is left",
        ),
        (
            """
def source_weights(scores, real):
    return scores.masked_fill(real, -torch.inf).softmax(-1).nan_to_num(0.0)
""",
            "the wrong way round",
        ),
        (
            """
def source_weights(scores, real):
    return torch.where(real, -torch.inf, scores).softmax(-1)
""",
            "the wrong way round",
        ),
        (
            """
def source_weights(scores, real):
    return (scores * real).softmax(-1)
""",
            "the padding has the score 0",
        ),
        (
            """
def source_weights(scores, real):
    return scores.masked_fill(~real, -torch.inf).softmax(-1)
""",
            "a text of padding only gives nan",
        ),
        (
            """
def source_weights(scores, real):
    return torch.where(real, scores, -1e9).softmax(-1)
""",
            "large negative number",
        ),
        (
            """
def source_weights(scores, real):
    return torch.softmax(scores, dim=-1)
""",
            "do not use the mask",
        ),
        (
            """
def source_weights(scores, real):
    return scores.masked_fill(~real, -torch.inf).softmax(0).nan_to_num(0.0)
""",
            "your columns sum to 1",
        ),
        (
            """
def source_weights(scores, real):
    scores[~real] = -torch.inf
    return scores.softmax(-1).nan_to_num(0.0)
""",
            "changes its argument scores in place",
        ),
        (
            """
def source_weights(scores, real):
    n = int(real[0].sum())
    weights = torch.zeros_like(scores)
    weights[:, :n] = scores[:, :n].softmax(-1)
    return weights
""",
            "the length of the first text",
        ),
    ],
    "read_map": [
        (
            """
def read_map(weights, fed, sources):
    out = fed[1:] + ["</s>"]
    return [(o, sources[int(weights[out.index(o)].argmax())]) for o in out]
""",
            "you find the row of a token by looking the token up",
        ),
        (
            """
def read_map(weights, fed, sources):
    looks = dict(zip(fed[1:] + ["</s>"], weights.argmax(1).tolist()))
    return [(token, sources[j]) for token, j in looks.items()]
""",
            "you collect the pairs in a dict",
        ),
        (
            """
def read_map(weights, fed, sources):
    longer, pairs = fed + ["</s>"], []
    for a, row in zip(fed, weights):
        pairs.append((longer[fed.index(a) + 1], sources[row.argmax()]))
    return pairs
""",
            "its first place only",
        ),
        (
            """
def read_map(weights, fed, sources):
    looks = weights.argmax(-1).tolist()
    return [(token, sources[j]) for token, j in zip(fed, looks)]
""",
            "by the token that was fed in",
        ),
        (
            """
def read_map(weights, fed, sources):
    return [(token, sources[row.argmax()]) for token, row in zip(fed[1:], weights)]
""",
            "the last row is missing",
        ),
        (
            """
def read_map(weights, fed, sources):
    names = ["</s>"] + fed
    return [(names[i], sources[j]) for i, j in enumerate(weights.argmax(-1).tolist())]
""",
            "slipped by one in the wrong direction",
        ),
        (
            """
def read_map(weights, fed, sources):
    T = len(fed)
    return [(fed[(i + 1) % T], sources[weights[i].argmax()]) for i in range(T)]
""",
            "run round in a circle",
        ),
        (
            """
def read_map(weights, fed, sources):
    produced = fed[1:] + ["</s>"]
    return [(token, sources[j]) for token, j in zip(produced, weights.argmax(0).tolist())]
""",
            "largest weight of each column",
        ),
        (
            """
def read_map(weights, fed, sources):
    produced = fed[1:] + ["</s>"]
    return [(sources[j], token) for token, j in zip(produced, weights.argmax(1).tolist())]
""",
            "each pair is the wrong way round",
        ),
        (
            """
def read_map(weights, fed, sources):
    return list(zip(fed[1:] + ["</s>"], weights.argmax(-1).tolist()))
""",
            "you give the place of the source",
        ),
        (
            """
def read_map(weights, fed, sources):
    fed.append("</s>")
    return [(fed[i + 1], sources[row.argmax()]) for i, row in enumerate(weights)]
""",
            "changes its argument fed in place",
        ),
        (
            """
def read_map(weights, fed, sources):
    return [("ein", "one"), ("und", "twenty"), ("zwanzig", "twenty"), ("</s>", "</s>")]
""",
            "the same answer whatever it is given",
        ),
        (
            """
def read_map(weights, fed, sources):
    produced = fed[1:] + ["</s>"]
    return dict(zip(produced, [sources[row.argmax()] for row in weights]))
""",
            "expected a list",
        ),
    ],
    "words_looked_at": [
        (
            """
def words_looked_at(weights):
    w = torch.where(weights > 0.01, weights, 1.0)
    return (-(weights * w.log()).sum(-1)).exp()
""",
            "weights below 0.01 are as good as 0",
        ),
        (
            """
def words_looked_at(weights):
    return (-(weights * weights.clamp(min=1e-3).log()).sum(-1)).exp()
""",
            "you put a smallest weight (clamp)",
        ),
        (
            """
def words_looked_at(weights):
    return torch.stack([torch.special.entr(row).sum(-1).exp() for row in weights])
""",
            "shape",
        ),
        (
            """
def words_looked_at(weights):
    return 1 / weights.amax(-1)
""",
            "one over the largest",
        ),
        (
            """
def words_looked_at(weights):
    return (-(weights * weights.log()).sum(-1)).exp()
""",
            "a weight of 0 gives nan",
        ),
        (
            """
def words_looked_at(weights):
    return -torch.xlogy(weights, weights).sum(-1)
""",
            "that is the entropy",
        ),
        (
            """
def words_looked_at(weights):
    return torch.xlogy(weights, weights).sum(-1).exp()
""",
            "the sign is lost",
        ),
        (
            """
def words_looked_at(weights):
    logs = torch.where(weights > 0, weights, 1.0).log2()
    return (-(weights * logs).sum(-1)).exp()
""",
            "you mix two logarithms",
        ),
        (
            """
def words_looked_at(weights):
    logs = torch.where(weights > 0, weights, 1.0).log()
    return (-(weights * logs).mean(-1)).exp()
""",
            "you average the terms",
        ),
        (
            """
def words_looked_at(weights):
    logs = torch.where(weights > 0, weights, 1.0).log()
    return (-(weights * logs).sum(-2)).exp()
""",
            "over the wrong axis",
        ),
        (
            """
def words_looked_at(weights):
    logs = torch.where(weights > 0, weights, 1.0).log()
    return (-(weights * logs).sum()).exp()
""",
            "one number for all rows",
        ),
        (
            """
def words_looked_at(weights):
    return (weights > 0).sum(-1).to(weights.dtype)
""",
            "you count the weights that are not 0",
        ),
        (
            """
def words_looked_at(weights):
    return 1 / weights.max(-1).values
""",
            "one over the largest weight",
        ),
        (
            """
def words_looked_at(weights):
    weights[weights == 0] = 1.0
    return (-(weights * weights.log()).sum(-1)).exp()
""",
            "in place",
        ),
        (
            """
def words_looked_at(weights):
    import numpy as np

    a = weights.numpy()
    return np.exp(-(a * np.log(np.where(a > 0, a, 1))).sum(-1))
""",
            "numpy array",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "additive_scores": [
        """
def additive_scores(s, h, W, U, v):
    s_, h_, W_, U_, v_ = (one.numpy().astype("float64") for one in (s, h, W, U, v))
    hidden = np.tanh((s_ @ W_)[:, np.newaxis, :] + np.einsum("bsd,da->bsa", h_, U_))
    return torch.as_tensor(hidden @ v_).to(h.dtype)
""",
        """
def additive_scores(s, h, W, U, v):
    rows = []
    for query, text in zip(s, h):
        rows.append(torch.stack([v @ torch.tanh(query @ W + h_j @ U) for h_j in text]))
    return torch.stack(rows)
""",
    ],
    "two_readings": [
        """
def two_readings(d, n):
    q = np.full(d, 0.5, dtype=np.float32)
    keys = np.zeros((n, d), dtype=np.float32)
    keys[0] += 6 / d
    return [torch.from_numpy(q), torch.from_numpy(keys)]
""",
        """
def two_readings(d, n):
    q = torch.eye(d)[-1]
    scores = torch.zeros(n)
    scores[1] = 2.5
    return q, torch.outer(scores, q)
""",
    ],
    "source_weights": [
        """
def source_weights(scores, real):
    answer = torch.zeros_like(scores)
    for i, mask in enumerate(real):
        if mask.any():
            answer[i, mask] = torch.softmax(scores[i][mask], 0)
    return answer
""",
        """
def source_weights(scores, real):
    hidden = np.where(real.numpy(), scores.numpy().astype("float64"), -np.inf)
    top = hidden.max(axis=1, keepdims=True)
    top[np.isinf(top)] = 0.0
    parts = np.exp(hidden - top)
    total = parts.sum(axis=1, keepdims=True)
    total[total == 0] = 1.0
    return torch.tensor(parts / total, dtype=scores.dtype)
""",
    ],
    "read_map": [
        """
from collections import deque


def read_map(weights, fed, sources):
    names = deque(fed)
    names.rotate(-1)
    names[-1] = "</s>"
    best = map(sources.__getitem__, np.argmax(weights.numpy(), axis=1))
    return list(zip(names, best))
""",
        """
def read_map(weights, fed, sources):
    pairs = []
    for i in range(len(weights)):
        best = max(range(len(sources)), key=lambda j: float(weights[i, j]))
        token = fed[i + 1] if i + 1 < len(fed) else "</s>"
        pairs.append((token, sources[best]))
    return pairs
""",
    ],
    "words_looked_at": [
        """
def words_looked_at(weights):
    return torch.exp(-torch.xlogy(weights, weights).sum(dim=-1))
""",
        """
import math


def words_looked_at(weights):
    rows = weights.reshape(-1, weights.shape[-1]).tolist()
    counts = [math.prod(a**-a for a in row if a > 0) for row in rows]
    return torch.tensor(counts, dtype=weights.dtype).reshape(weights.shape[:-1])
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "two_readings": {
        "keys[1] = 3 / d": "many answers are right: any key may match",
        "keys[-1] = 4 / d": "many answers are right: a score of 4 tells the sides apart, too",
        "keys[-1] = 2 / d": "many answers are right: a score of 2 tells the sides apart, too",
        "keys[-2] = 3 / d": "many answers are right: any key may match",
        "keys[-0] = 3 / d": "many answers are right: any key may match",
    },
    "source_weights": {
        "weights = scores.masked_fill(~real, -torch.inf).softmax(1)": "axis 1 is the last of two"
    },
    "read_map": {
        "looks = weights.argmax(-1)": "a whole number in a tensor is an index as well",
        "looks = weights.argmax(1).tolist()": "axis 1 is the last of two",
        "return [(token, sources[j]) for token, j in zip(produced, looks)]": "both have T items",
        "return [(token, sources[j]) for token, j in zip(produced, looks, strict=False)]": (
            "both have T items"
        ),
    },
    "words_looked_at": {
        "logarithms = torch.where(weights > 0, weights, 2.0).log()": (
            "it is multiplied by a weight of 0"
        ),
        "logarithms = torch.where(weights > 0, weights, 0.5).log()": (
            "it is multiplied by a weight of 0"
        ),
    },
}
