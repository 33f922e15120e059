"""What students answer in the exercises of chapter 05: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "root_mean_square_norm": [
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    x = x - x.mean(-1, keepdim=True)
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
""",
            "you subtract the mean, as layernorm does",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
""",
            "you subtract the mean before you square",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    if x.ndim == 1:
        return gamma * x / (x.square().mean() + eps).sqrt()
    return gamma * x / (x.square().mean(-2, keepdim=True) + eps).sqrt()
""",
            "runs over the tokens (axis −2)",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / torch.sqrt((x ** 2).mean() + eps)
""",
            "runs over the whole tensor",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.square().sum(-1, keepdim=True) + eps).sqrt()
""",
            "the vector gets length 1",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    d = x.shape[-1]
    return gamma * x / (x.square().sum(-1, keepdim=True) / (d - 1) + eps).sqrt()
""",
            "you divide by d − 1",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.square().mean(-1, keepdim=True).sqrt() + eps)
""",
            "ε stands outside the root",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / x.square().mean(-1, keepdim=True).sqrt()
""",
            "ε is missing",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps)
""",
            "the root is missing",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
""",
            "γ is missing",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    x /= (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return gamma * x
""",
            "changes argument 1 in place",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    x = x.float()
    return gamma.float() * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
""",
            "dtype float32, expected float64",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.square().mean(-1) + eps).sqrt()
""",
            "raised runtimeerror",
        ),
    ],
    "next_token_loss": [
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1)
    right = torch.zeros_like(p).scatter(-1, ids[:, 1:, None], 1.0)
    each = -(right * p.log() + (1 - right) * (1 - p).log())
    return each.sum(-1).mean()
""",
            "the binary cross-entropy as printed",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].sigmoid()
    return -p.gather(-1, ids[:, 1:, None]).log().mean()
""",
            "you take a sigmoid",
        ),
        (
            """
def next_token_loss(logits, ids):
    return -logits.log_softmax(-1).gather(-1, ids[..., None]).mean()
""",
            "which the model has just read",
        ),
        (
            """
def next_token_loss(logits, ids):
    return -logits[:, 1:].log_softmax(-1).gather(-1, ids[:, :-1, None]).mean()
""",
            "you shift the wrong way round",
        ),
        (
            """
def next_token_loss(logits, ids):
    return -logits[:, :-1].log_softmax(1).gather(-1, ids[:, 1:, None]).mean()
""",
            "the softmax runs over the positions",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])
    return -p.log2().mean()
""",
            "this is in bits",
        ),
        (
            """
def next_token_loss(logits, ids):
    total = 0.0
    for row, text in zip(logits, ids):
        for t in range(len(text) - 1):
            total = total - row[t].log_softmax(-1)[text[t + 1]]
    return total
""",
            "you add up over all positions",
        ),
        (
            """
def next_token_loss(logits, ids):
    picked = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    return -picked.sum() / len(ids)
""",
            "average over texts only",
        ),
        (
            """
def next_token_loss(logits, ids):
    picked = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    return -picked.sum() / ids.numel()
""",
            "only t − 1 of them have a next token",
        ),
        (
            """
def next_token_loss(logits, ids):
    return logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()
""",
            "the sign is missing",
        ),
        (
            """
def next_token_loss(logits, ids):
    last = logits[:, -2].log_softmax(-1)
    return -last[torch.arange(len(ids)), ids[:, -1]].mean()
""",
            "only the last position",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[0].softmax(-1)
    return -sum(p[t, ids[0, t + 1]].log() for t in range(ids.shape[1] - 1)) / (ids.shape[1] - 1)
""",
            "differ",
        ),
        (
            """
def next_token_loss(logits, ids):
    return torch.tensor(4.0).log()
""",
            "the same answer whatever it is given",
        ),
        (
            """
def next_token_loss(logits, ids):
    return -logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean().item()
""",
            "expected a float32 tensor of shape ()",
        ),
    ],
    "min_p": [
        (
            """
def min_p(p, share):
    kept = torch.where(p > share * p.amax(-1, keepdim=True), p, 0)
    return kept / kept.sum(-1, keepdim=True)
""",
            "at least means >=",
        ),
        (
            """
def min_p(p, share):
    kept = torch.where(p >= share, p, 0)
    return kept / kept.sum(-1, keepdim=True)
""",
            "your bar is `share` itself",
        ),
        (
            """
def min_p(p, share):
    kept = torch.where(p >= share * p.max(), p, 0)
    return kept / kept.sum(-1, keepdim=True)
""",
            "the largest probability of the whole tensor",
        ),
        (
            """
def min_p(p, share):
    return torch.where(p >= share * p.amax(-1, keepdim=True), p, 0)
""",
            "the rows no longer sum to 1",
        ),
        (
            """
def min_p(p, share):
    kept = torch.where(p >= share * p.amax(-1, keepdim=True), p, 0)
    return kept / kept.sum()
""",
            "the sum of the whole tensor",
        ),
        (
            """
def min_p(p, share):
    bar = share * p.amax(-1, keepdim=True)
    return p.masked_fill(p < bar, -torch.inf).softmax(-1)
""",
            "you renormalise with a softmax",
        ),
        (
            """
def min_p(p, share):
    ordered, order = p.sort(-1, descending=True)
    inside = ordered.cumsum(-1) - ordered < share
    out = torch.zeros_like(p).scatter(-1, order, ordered * inside)
    return out / out.sum(-1, keepdim=True)
""",
            "this is the nucleus",
        ),
        (
            """
def min_p(p, share):
    p[p < share * p.amax(-1, keepdim=True)] = 0
    return p / p.sum(-1, keepdim=True)
""",
            "changes argument 1 in place",
        ),
        (
            """
def min_p(p, share):
    return p >= share * p.amax(-1, keepdim=True)
""",
            "dtype bool",
        ),
        (
            """
def min_p(p, share):
    kept = p[p >= share * p.max()]
    return kept / kept.sum()
""",
            "the answer has the shape (",
        ),
    ],
    "rotary_scores": [
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x, base) @ W_Q @ (turn(y, base) @ W_K).T
""",
            "as printed in the slides",
        ),
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x @ W_Q, base) @ (y @ W_K).T
""",
            "you turn only the queries",
        ),
        (
            """
def turn(z, base, sign):
    n, d = z.shape
    angle = sign * torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x @ W_Q, base, 1) @ turn(y @ W_K, base, -1).T
""",
            "the score depends on i + j",
        ),
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x @ W_Q, base) @ turn(y @ W_K, base).T
""",
            "your base is always 10,000",
        ),
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(d // 2) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x @ W_Q, base) @ turn(y @ W_K, base).T
""",
            "your exponent is −i/d_k",
        ),
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * base ** (-2 * torch.arange(1, d // 2 + 1) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x @ W_Q, base) @ turn(y @ W_K, base).T
""",
            "your pairs are counted from 1",
        ),
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    a, b = z[:, : d // 2], z[:, d // 2 :]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(x @ W_Q, base) @ turn(y @ W_K, base).T
""",
            "feature i with feature i + d_k/2",
        ),
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return (x @ W_Q) @ (y @ W_K).T
""",
            "nothing is turned",
        ),
        (
            """
def turn(z, base):
    n, d = z.shape
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    a, b = z[:, 0::2], z[:, 1::2]
    first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack([first, second], -1).flatten(1)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    return turn(y @ W_K, base) @ turn(x @ W_Q, base).T
""",
            "rows and columns are exchanged",
        ),
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    def turn(z):
        omega = base ** (-torch.arange(0, z.shape[1], 2) / z.shape[1])
        angle = torch.arange(len(x))[:, None] * omega
        a, b = z[:, 0::2], z[:, 1::2]
        first, second = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
        return torch.stack([first, second], -1).flatten(1)

    return turn(x @ W_Q) @ turn(y @ W_K).T
""",
            "raised runtimeerror",
        ),
    ],
    "beam_trap": [
        (
            """
def beam_trap(D, first):
    return torch.full((D,), 1 / D), torch.full((D, D), 1 / D)
""",
            "they find the greedy text",
        ),
        (
            """
def beam_trap(D, first):
    start, table = torch.full((D,), 0.5 / (D - 1)), torch.full((D, D), 0.5 / (D - 1))
    start[first] = 0.5
    table[:, first] = 0.5
    return start, table
""",
            "they find the greedy text",
        ),
        (
            """
def beam_trap(D, first):
    start, table = torch.zeros(3), torch.zeros(3, 3)
    start[:] = torch.tensor([0.40, 0.35, 0.25])
    table[0] = torch.tensor([0.32, 0.32, 0.36])
    table[1] = torch.tensor([0.51, 0.49, 0.0])
    table[2] = torch.tensor([0.0, 0.0, 1.0])
    return start, table
""",
            "the same answer whatever it is given",
        ),
        (
            """
def beam_trap(D, first):
    a, b, c = [first, *(s for s in range(D) if s != first)][:3]
    start, table = torch.zeros(D), torch.zeros(D, D)
    start[a], start[b], start[c] = 0.40, 0.35, 0.25
    table[a, a], table[a, b], table[a, c] = 0.32, 0.32, 0.36
    table[b, a], table[b, b] = 0.51, 0.49
    table[c, c] = 1.0
    return start, table
""",
            "every row of the table must sum to 1",
        ),
        (
            """
def beam_trap(D, first):
    a, b = [first, *(s for s in range(D) if s != first)][:2]
    start, table = torch.zeros(D), torch.zeros(D, D)
    start[a], start[b] = 0.55, 0.45
    table[:, a] = 0.4
    table[:, b] = 0.3
    table[:, [s for s in range(D) if s not in (a, b)]] = 0.3 / (D - 2)
    table[b] = 0.0
    table[b, b] = 1.0
    return start, table
""",
            "must be less certain",
        ),
        (
            """
def beam_trap(D, first):
    a, b, c = [first, *(s for s in range(D) if s != first)][:3]
    start, table = torch.zeros(D), torch.zeros(D, D)
    start[a], start[b], start[c] = 0.40, 0.35, 0.25
    table[a, a], table[a, b], table[a, c] = 0.32, 0.32, 0.36
    table[b, a], table[b, b] = 0.51, 0.49
    for s in range(D):
        if s not in (a, b):
            table[s, c] = 1.0
    return start, table.T
""",
            "its columns do: a row belongs to the token before",
        ),
        (
            """
def beam_trap(D, first):
    start, table = torch.zeros(D), torch.eye(D)
    start[first] = 1.0
    return start
""",
            "return two tensors",
        ),
        (
            """
def beam_trap(D, first):
    a, b, c = [first, *(s for s in range(D) if s != first)][:3]
    start, table = torch.zeros(D), torch.zeros(D, D)
    start[a], start[b], start[c] = 40, 35, 25
    table[:, c] = 1.0
    return start, table
""",
            "start must sum to 1",
        ),
        (
            """
def beam_trap(D, first):
    b, a, c = [first, *(s for s in range(D) if s != first)][:3]
    start, table = torch.zeros(D), torch.zeros(D, D)
    start[a], start[b], start[c] = 0.40, 0.35, 0.25
    table[:, c] = 1.0
    table[a], table[b] = 0.0, 0.0
    table[a, a], table[a, b], table[a, c] = 0.32, 0.32, 0.36
    table[b, a], table[b, b] = 0.51, 0.49
    return start, table
""",
            "the token that was asked for",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "root_mean_square_norm": [
        """
def root_mean_square_norm(x, gamma, eps=1e-5):
    rows = x.reshape(-1, x.shape[-1])
    out = []
    for row in rows:
        total = 0.0
        for value in row:
            total = total + value * value
        out.append(row / (total / len(row) + eps) ** 0.5 * gamma)
    return torch.stack(out).reshape(x.shape)
""",
        """
def root_mean_square_norm(x, gamma, eps=1e-5):
    length = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
    return x * torch.rsqrt(length + eps)[..., None] * gamma
""",
    ],
    "next_token_loss": [
        """
def next_token_loss(logits, ids):
    losses = []
    for row, text in zip(logits, ids):
        for t in range(len(text) - 1):
            losses.append(row[t].logsumexp(0) - row[t, text[t + 1]])
    return torch.stack(losses).mean()
""",
        """
def next_token_loss(logits, ids):
    B, T, D = logits.shape
    one_hot = (ids[:, 1:, None] == torch.arange(D)).to(logits)
    log_p = logits - logits.logsumexp(-1, keepdim=True)
    return -torch.einsum("btd,btd->", log_p[:, :-1], one_hot) / (B * (T - 1))
""",
    ],
    "min_p": [
        """
def min_p(p, share):
    out = torch.zeros_like(p)
    for row, new in zip(p.reshape(-1, p.shape[-1]), out.view(-1, p.shape[-1])):
        for s in range(len(row)):
            if row[s] >= share * row.max():
                new[s] = row[s]
        new /= new.sum()
    return out
""",
        """
def min_p(p, share):
    kept = p * (p >= share * p.max(dim=-1, keepdim=True).values)
    return torch.nn.functional.normalize(kept, p=1, dim=-1)
""",
    ],
    "rotary_scores": [
        """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    q, k = x @ W_Q, y @ W_K
    d_k = q.shape[1]
    scores = torch.zeros(len(q), len(k), dtype=q.dtype)
    for i in range(len(q)):
        for j in range(len(k)):
            for pair in range(d_k // 2):
                angle = torch.tensor((i - j) * base ** (-2 * pair / d_k), dtype=q.dtype)
                a, b = q[i, 2 * pair], q[i, 2 * pair + 1]
                c, d = k[j, 2 * pair], k[j, 2 * pair + 1]
                scores[i, j] += (a * c + b * d) * angle.cos() + (a * d - b * c) * angle.sin()
    return scores
""",
        """
import math

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    def turn(p, d):
        blocks = []
        for i in range(d // 2):
            angle = p * base ** (-2 * i / d)
            c, s = math.cos(angle), math.sin(angle)
            blocks.append(torch.tensor([[c, s], [-s, c]], dtype=x.dtype))
        return torch.block_diag(*blocks)

    q = torch.stack([row @ turn(i, W_Q.shape[1]) for i, row in enumerate(x @ W_Q)])
    k = torch.stack([row @ turn(j, W_K.shape[1]) for j, row in enumerate(y @ W_K)])
    return torch.einsum("id,jd->ij", q, k)
""",
    ],
    "beam_trap": [
        """
def beam_trap(D, first):
    order = [first] + [s for s in range(D) if s != first]
    start, table = torch.zeros(D), torch.full((D, D), 1 / D)
    start[order[0]], start[order[1]], start[order[2]] = 0.36, 0.35, 0.29
    table[first] = 0.0
    table[first, order[:3]] = torch.tensor([0.33, 0.33, 0.34])
    table[order[1]] = 0.0
    table[order[1], order[0]] = 0.5
    table[order[1], order[1]] = 0.5
    table[order[2]] = 0.0
    table[order[2], order[2]] = 1.0
    return start, table
""",
        """
import numpy as np

def beam_trap(D, first):
    small = np.array([[0.3, 0.3, 0.4], [0.55, 0.45, 0.0], [0.0, 0.0, 1.0]])
    other = [s for s in range(D) if s != first]
    place = [first] + other
    start, table = np.zeros(D), np.zeros((D, D))
    for i in range(D):
        start[place[i]] = [0.4, 0.38, 0.22][i] if i < 3 else 0.0
        for j in range(D):
            if i < 3 and j < 3:
                table[place[i], place[j]] = small[i, j]
            elif i >= 3:
                table[place[i], place[j]] = 1 / D
    return torch.tensor(start), torch.tensor(table)
""",
    ],
}
