"""What students answer in the exercises of chapter 05: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "root_mean_square_norm": [
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.mean(-1, keepdim=True).square() + eps).sqrt()
""",
            "you square the mean",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
""",
            "your ε is always 10⁻⁵",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    return gamma * x / (x.std(-1, keepdim=True) + eps)
""",
            "you divide by the standard deviation (x.std)",
        ),
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
            "changes its argument x in place",
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
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-6):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
""",
            "differ",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps=1e-5):
    out = gamma.double() * x.double() / (x.double().square().mean(-1, keepdim=True) + eps).sqrt()
    return out if x.dtype == torch.float64 else out.float()
""",
            "expected float16",
        ),
        (
            """
def root_mean_square_norm(x, gamma, eps):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
""",
            "eps",
        ),
    ],
    "next_token_loss": [
        (
            """
def next_token_loss(logits, ids):
    B, T, D = logits.shape
    lp = logits.log_softmax(-1)
    return -lp[:, torch.arange(T-1), ids[:, 1:]].mean()
""",
            "the index of the text is missing",
        ),
        (
            """
def next_token_loss(logits, ids):
    lp = logits.log_softmax(-1)
    return -lp.gather(-1, ids.roll(-1, 1)[..., None]).mean()
""",
            "roll brings the first token to the end",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1).clamp(min=1e-9)
    return -p.log().gather(-1, ids[:, 1:, None]).mean()
""",
            "by a sum or by clamp",
        ),
        (
            """
def next_token_loss(logits, ids):
    lp = logits[:, :-1].log_softmax(-1)
    return -lp.gather(-1, ids[:, :-1, None]).mean()
""",
            "you leave out the last row",
        ),
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
    p = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])
    return -(p + 1e-9).log().mean()
""",
            "you keep the probability above 1e-09",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[0].log_softmax(-1)
    return -log_p[torch.arange(len(log_p) - 1), ids[0, 1:]].mean()
""",
            "this is the first text only",
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
    log_p = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    return -log_p.mean() / 0.6931472
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
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])
    return -p.log().mean()
""",
            "you take the softmax first and its logarithm afterwards",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[:, :-1].float().log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).mean()
""",
            "expected float",
        ),
        (
            """
def next_token_loss(logits, tokens):
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, tokens[:, 1:, None]).mean()
""",
            "ids",
        ),
    ],
    "min_p": [
        (
            """
def min_p(p, share):
    bar = p.amax(-1, keepdim=True) / (1 + share)
    kept = torch.where(p >= bar, p, 0)
    return kept / kept.sum(-1, keepdim=True)
""",
            "differ",
        ),
        (
            """
def min_p(p, share):
    bar = p.amax(-1, keepdim=True)
    kept = torch.where(p >= bar, p, 0)
    return kept / kept.sum(-1, keepdim=True)
""",
            "`share` is missing",
        ),
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
            "changes its argument p in place",
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
        (
            """
def min_p(p, share):
    kept = torch.where(p >= share * p.amax(-1, keepdim=True), p, 0)
    return (kept / kept.sum(-1, keepdim=True)).float()
""",
            "dtype float32",
        ),
        (
            """
def min_p(p, share):
    kept = p * (p > share * p.amax(-1, keepdim=True) - 1e-3)
    return kept / kept.sum(-1, keepdim=True)
""",
            "differ",
        ),
        (
            """
def min_p(p, cut):
    kept = torch.where(p >= cut * p.amax(-1, keepdim=True), p, 0)
    return kept / kept.sum(-1, keepdim=True)
""",
            "share",
        ),
    ],
    "rotary_scores": [
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    def turn(z):
        n, d = z.shape
        omega = base ** (-2 * torch.arange(d // 2, dtype=z.dtype) / d)
        a = torch.arange(n, dtype=z.dtype)[:, None] * omega
        c, s = a.cos().repeat(1, 2), a.sin().repeat(1, 2)
        r = torch.stack([-z[:, 1::2], z[:, 0::2]], -1).flatten(1)
        return z * c + r * s
    return turn(x @ W_Q) @ turn(y @ W_K).T
""",
            "your angles stand in blocks",
        ),
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    def turn(z):
        n, d = z.shape
        omega = base ** (-2 * torch.arange(d // 2, dtype=z.dtype) / d)
        a = torch.arange(n, dtype=z.dtype)[:, None] * omega
        z = z.clone()
        z[:, 0::2] = z[:, 0::2] * a.cos() - z[:, 1::2] * a.sin()
        z[:, 1::2] = z[:, 0::2] * a.sin() + z[:, 1::2] * a.cos()
        return z
    return turn(x @ W_Q) @ turn(y @ W_K).T
""",
            "you overwrite the first of each pair",
        ),
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    def R(k, d):
        turns = [torch.tensor(k * base ** (-2 * i / d), dtype=x.dtype) for i in range(d // 2)]
        pairs = [torch.stack([a.cos(), a.sin(), -a.sin(), a.cos()]).view(2, 2) for a in turns]
        return torch.block_diag(*pairs)
    q, k = x @ W_Q, y @ W_K
    q, k = (torch.stack([R(t, len(r)) @ r for t, r in enumerate(z)]) for z in (q, k))
    return q @ k.T
""",
            "you turn the other way, by −tω",
        ),
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    def turn(z):
        n, d = z.shape
        omega = base ** (-2 * torch.arange(d // 2, dtype=z.dtype) / d)
        a = -torch.arange(n, dtype=z.dtype)[:, None] * omega
        f, s = z[:, 0::2], z[:, 1::2]
        return torch.stack([f * a.cos() - s * a.sin(), f * a.sin() + s * a.cos()], -1).flatten(1)
    return turn(x @ W_Q) @ turn(y @ W_K).T
""",
            "you turn the other way, by −tω",
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
            "the score depends on t + s",
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
        (
            """
def rotary_scores(x, y, W_Q, W_K, base=1000.0):
    def turn(z):
        n, d = z.shape
        angle = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
        a, b, cos, sin = z[:, 0::2], z[:, 1::2], angle.cos(), angle.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(1)

    return turn(x @ W_Q) @ turn(y @ W_K).T
""",
            "differ",
        ),
    ],
    "beam_trap": [
        (
            """
def beam_trap(D, first):
    if first == 0: b, c = 1, 2
    else: b, c = 0, 1
    start = torch.zeros(D); table = torch.zeros(D, D); table[:, c] = 1
    start[first], start[b], start[c] = .4, .35, .25
    table[first] = 0; table[first, c], table[first, first], table[first, b] = .34, .33, .33
    table[b] = 0; table[b, first] = table[b, b] = .5
    return start, table
""",
            "start must sum to 1",
        ),
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
import numpy as np

def root_mean_square_norm(x, gamma, eps=1e-5):
    rows = x.numpy().astype(np.float64)
    size = np.sqrt((rows**2).mean(axis=-1, keepdims=True) + eps)
    return torch.from_numpy(rows / size * gamma.numpy()).to(x.dtype)
""",
        """
class RMSNorm(torch.nn.Module):
    def __init__(self, gamma, eps):
        super().__init__()
        self.gamma, self.eps = gamma, eps

    def forward(self, x):
        mean_square = torch.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1]
        return x * torch.rsqrt(mean_square + self.eps) * self.gamma

def root_mean_square_norm(x, gamma, eps=1e-5):
    return RMSNorm(gamma, eps)(x)
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
import numpy as np

def next_token_loss(logits, ids):
    z = logits[:, :-1].double().numpy()
    z = z - z.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    B, T, D = z.shape
    picked = log_p.reshape(-1, D)[np.arange(B * T), ids[:, 1:].flatten().numpy()]
    return torch.tensor(-picked.mean(), dtype=logits.dtype)
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
import numpy as np

class Cut:
    def __init__(self, share):
        self.share = share

    def __call__(self, p):
        kept = np.where(p < self.share * p.max(-1, keepdims=True), 0, p)
        return kept / kept.sum(-1, keepdims=True)

def min_p(p, share):
    return torch.from_numpy(Cut(share)(p.numpy()))
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
import cmath

def turned(z, base):
    rows = []
    for position, row in enumerate(z.tolist()):
        out = []
        for i in range(0, len(row), 2):
            number = complex(row[i], row[i + 1]) * cmath.exp(1j * position / base ** (i / len(row)))
            out += [number.real, number.imag]
        rows.append(out)
    return torch.tensor(rows, dtype=z.dtype)

def rotary_scores(x, y, W_Q, W_K, base=10_000.0):
    queries = turned(torch.einsum("nd,dk->nk", x, W_Q), base)
    keys = turned(torch.einsum("nd,dk->nk", y, W_K), base)
    return torch.einsum("nk,mk->nm", queries, keys)
""",
    ],
    "beam_trap": [
        """
def beam_trap(D, first):
    second, last = (first + 1) % D, (first + 2) % D
    start, table = torch.zeros(D).double(), torch.zeros(D, D).double()
    start[first], start[second], start[last] = 0.4, 0.38, 0.22
    table[:, last] = 1.0
    table[first] = table[second] = 0.0
    table[first, last], table[first, first], table[first, second] = 0.36, 0.32, 0.32
    table[second, first], table[second, second] = 0.52, 0.48
    return start, table
""",
        """
import numpy as np

class Trap:
    def __init__(self, D, first):
        self.names = [first] + [s for s in range(D) if s != first]
        self.start, self.table = np.zeros(D), np.eye(D)

    def row(self, i, shares):
        self.table[self.names[i]] = 0
        self.table[self.names[i], self.names[:3]] = shares

def beam_trap(D, first):
    trap = Trap(D, first)
    trap.start[trap.names[:3]] = 0.4, 0.35, 0.25
    trap.row(0, [0.3, 0.3, 0.4])
    trap.row(1, [0.52, 0.48, 0])
    return [torch.from_numpy(trap.start), torch.from_numpy(trap.table)]
""",
    ],
}

ALIKE = "queries and keys are reordered, or change a sign, alike"
EQUIVALENT: dict[str, dict[str, str]] = {
    "next_token_loss": {
        "log_probabilities = logits[:, :].log_softmax(-1)": "gather leaves the last out"
    },
    "rotary_scores": {
        "return turn(x @ W_Q) @ turn(y @ W_K).mT": "two axes",
        "a, b, cos, sin = (z[:, ::2], z[:, 1::2], angle.cos(), angle.sin())": "the same slice",
        "return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).flatten(1)": ALIKE,
        "return torch.stack([a * cos - b * sin, a * sin + b * cos], 1).flatten(1)": ALIKE,
        "return torch.stack([a * cos - b * sin, a * sin + b * cos], -2).flatten(1)": ALIKE,
        "return torch.stack([b * sin - a * cos, a * sin + b * cos], -1).flatten(1)": ALIKE,
    },
    "beam_trap": {
        "start[first], start[b], start[c] = (0.4, 0.35, 0.25)": "a is first",
        "table[first, a], table[a, b], table[a, c] = (0.32, 0.32, 0.36)": "a is first",
        "table[a, first], table[a, b], table[a, c] = (0.32, 0.32, 0.36)": "a is first",
        "table[a, a], table[first, b], table[a, c] = (0.32, 0.32, 0.36)": "a is first",
        "table[a, a], table[a, b], table[first, c] = (0.32, 0.32, 0.36)": "a is first",
        "table[b, first], table[b, b] = (0.51, 0.49)": "a is first",
        "if s not in (first, b):": "a is first",
        "table[s, first] = 1.0": "any sure token will do",
        "table[s, s] = 1.0": "any sure token will do",
        "table[s, a] = 1.0": "any sure token will do",
        "table[s, b] = 1.0": "any sure token will do",
    },
}
