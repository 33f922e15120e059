"""What students answer in the exercises of chapter 05: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "block": [
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q, W_K, W_V, W_O, causal=False)
    return x + (norm(x) @ W_1).clamp(min=0) @ W_2
""",
            "a token sees those after it",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = norm(x + look(norm(x), W_Q, W_K, W_V, W_O))
    return x + (x @ W_1).clamp(min=0) @ W_2
""",
            "the second norm stands on the stream",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q, W_K, W_V, W_O)
    return x + (x @ W_1).clamp(min=0) @ W_2
""",
            "without a norm",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(x, W_Q, W_K, W_V, W_O)
    return x + (x @ W_1).clamp(min=0) @ W_2
""",
            "there is no norm",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    seen = norm(x)
    return x + look(seen, W_Q, W_K, W_V, W_O) + (seen @ W_1).relu() @ W_2
""",
            "both parts read the same stream",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = look(norm(x), W_Q, W_K, W_V, W_O)
    return x + (norm(x) @ W_1).relu() @ W_2
""",
            "what attention writes takes the place",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q, W_K, W_V, W_O)
    return (norm(x) @ W_1).relu() @ W_2
""",
            "what feed-forward writes takes the place",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q * W_Q.shape[1] ** 0.5, W_K, W_V, W_O)
    return x + (norm(x) @ W_1).relu() @ W_2
""",
            "not divided by √d_k",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q, W_K, W_V, W_O)
    return x + norm(x) @ W_1 @ W_2
""",
            "the activation is missing",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q, W_K, W_V, W_O)
    return x + torch.nn.functional.gelu(norm(x) @ W_1) @ W_2
""",
            "the activation is a gelu",
        ),
        (
            """
def norm(z):
    return (z - z.mean(-1, keepdim=True)) / (z.var(-1, keepdim=True) + 1e-5).sqrt()

def look(x, W_Q, W_K, W_V, W_O, causal=True):
    scores = (x @ W_Q) @ (x @ W_K).mT / W_Q.shape[1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ (x @ W_V) @ W_O

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    x = x + look(norm(x), W_Q, W_K, W_V, W_O)
    return x + (norm(x) @ W_1).relu() @ W_2
""",
            "divides by d − 1",
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
    "training_step": [
        (
            """
def training_step(W, ids, lr):
    table = W.clone().requires_grad_()
    loss = -table[ids[:, :-1]].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()
    loss.backward()
    return W + lr * table.grad, loss.detach()
""",
            "goes up the gradient",
        ),
        (
            """
def training_step(W, ids, lr):
    table = W.clone().requires_grad_()
    nats = -table[ids[:, :-1]].log_softmax(-1).gather(-1, ids[:, 1:, None])
    nats.sum().backward()
    return W - lr * table.grad, nats.mean().detach()
""",
            "that of the sum",
        ),
        (
            """
def training_step(W, ids, lr):
    table = W.clone().requires_grad_()
    nats = -table[ids[:, :-1]].log_softmax(-1).gather(-1, ids[:, 1:, None])
    (nats.sum() / len(ids)).backward()
    return W - lr * table.grad, nats.mean().detach()
""",
            "divided by the number of texts",
        ),
        (
            """
def training_step(W, ids, lr):
    def loss_of(table):
        return -table[ids[:, :-1]].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()

    table = W.clone().requires_grad_()
    loss_of(table).backward()
    new = W - lr * table.grad
    return new, loss_of(new)
""",
            "the loss after the step",
        ),
        (
            """
def training_step(W, ids, lr):
    table = W.clone().requires_grad_()
    loss = -table[ids[:, 1:]].log_softmax(-1).gather(-1, ids[:, :-1, None]).mean()
    loss.backward()
    return W - lr * table.grad, loss.detach()
""",
            "you read backwards",
        ),
        (
            """
def training_step(W, ids, lr):
    table = W.clone().requires_grad_()
    loss = -table[ids[:, :-1]].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()
    loss.backward()
    return W, loss.detach()
""",
            "comes back as it was",
        ),
        (
            """
def training_step(W, ids, lr):
    table = W.clone().requires_grad_()
    loss = -table[ids[:, :-1]].log_softmax(-1).gather(-1, ids[:, 1:, None]).mean()
    loss.backward()
    return W - table.grad, loss.detach()
""",
            "multiply it by lr",
        ),
    ],
    "generate": [
        (
            """
def generate(table, ids, u, temperature=1.0):
    for _ in u:
        ids = torch.cat([ids, table[ids[-1]].argmax()[None]])
    return ids
""",
            "this is greedy",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    for r in u:
        p = table[ids[-1]].double().softmax(-1)
        ids = torch.cat([ids, (p.cumsum(-1) <= r).sum()[None]])
    return ids
""",
            "the temperature is not used",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    for r in u:
        p = (table[ids[-1]].double() * temperature).softmax(-1)
        ids = torch.cat([ids, (p.cumsum(-1) <= r).sum()[None]])
    return ids
""",
            "you multiply the logits",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    for r in u:
        p = table[ids[-1]].double().softmax(-1) / temperature
        ids = torch.cat([ids, ((p / p.sum()).cumsum(-1) <= r).sum()[None]])
    return ids
""",
            "it divides probabilities",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    p = (table[ids[-1]].double() / temperature).softmax(-1)
    return torch.cat([ids, torch.searchsorted(p.cumsum(-1), u, right=True)])
""",
            "after the same one",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    for r in u:
        p = (table[ids[0]].double() / temperature).softmax(-1)
        ids = torch.cat([ids, (p.cumsum(-1) <= r).sum()[None]])
    return ids
""",
            "after the first token of the text",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    for r in u:
        p, order = (table[ids[-1]].double() / temperature).softmax(-1).sort(descending=True)
        ids = torch.cat([ids, order[(p.cumsum(-1) <= r).sum()][None]])
    return ids
""",
            "by their probability",
        ),
        (
            """
def generate(table, ids, u, temperature=1.0):
    prompt = len(ids)
    for r in u:
        p = (table[ids[-1]].double() / temperature).softmax(-1)
        ids = torch.cat([ids, (p.cumsum(-1) <= r).sum()[None]])
    return ids[prompt:]
""",
            "the prompt is missing",
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
    "block": [
        """
class Block(torch.nn.Module):
    def __init__(self, *matrices):
        super().__init__()
        self.matrices = matrices

    def attend(self, x):
        W_Q, W_K, W_V, W_O = self.matrices[:4]
        scores = torch.einsum("...id,dk,ek,...je->...ij", x, W_Q, W_K, x) / W_Q.size(1) ** 0.5
        T = x.size(-2)
        scores = scores + torch.full((T, T), -torch.inf, dtype=x.dtype).triu(1)
        return torch.softmax(scores, -1) @ x @ W_V @ W_O

    def forward(self, x):
        d = (x.shape[-1],)
        x = x + self.attend(torch.nn.functional.layer_norm(x, d))
        hidden = torch.nn.functional.layer_norm(x, d) @ self.matrices[4]
        return x + hidden.clamp(min=0) @ self.matrices[5]

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    return Block(W_Q, W_K, W_V, W_O, W_1, W_2)(x)
""",
        """
import numpy as np

def block(x, W_Q, W_K, W_V, W_O, W_1, W_2):
    def norm(z):
        return (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)

    stream = x.double().numpy().copy()
    Q, K, V, O, A, B = (M.double().numpy() for M in (W_Q, W_K, W_V, W_O, W_1, W_2))
    seen = norm(stream)
    wrote = np.zeros_like(stream)
    for t in range(stream.shape[-2]):
        past = seen[..., : t + 1, :]
        scores = ((past @ K) * (seen[..., t : t + 1, :] @ Q)).sum(-1) / np.sqrt(Q.shape[1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        wrote[..., t, :] = (weights[..., None] * (past @ V)).sum(-2) @ O
    stream = stream + wrote
    return torch.from_numpy(stream + np.maximum(norm(stream) @ A, 0) @ B).to(x.dtype)
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
    "training_step": [
        """
def training_step(W, ids, lr):
    gradient, loss = torch.zeros_like(W), torch.zeros((), dtype=W.dtype)
    n = ids[:, 1:].numel()
    for text in ids.tolist():
        for s, following in zip(text, text[1:]):
            log_p = W[s] - W[s].logsumexp(0)
            loss -= log_p[following] / n
            gradient[s] += log_p.exp() / n
            gradient[s, following] -= 1 / n
    return W - lr * gradient, loss
""",
        """
def training_step(W, ids, lr):
    table = torch.nn.Parameter(W.clone())
    optimizer = torch.optim.SGD([table], lr=lr)
    rows, following = table[ids[:, :-1].flatten()], ids[:, 1:].flatten()
    loss = (rows.logsumexp(-1) - rows[torch.arange(len(rows)), following]).mean()
    loss.backward()
    optimizer.step()
    return table.data, loss.detach()
""",
    ],
    "generate": [
        """
def generate(table, ids, u, temperature=1.0):
    text = ids.tolist()
    for r in u.tolist():
        p = (table[text[-1]].double() / temperature).softmax(-1).tolist()
        token, total = 0, p[0]
        while total <= r:
            token += 1
            total += p[token]
        text.append(token)
    return torch.tensor(text)
""",
        """
def generate(table, ids, u, temperature=1.0):
    ends = (table.double() / temperature).softmax(-1).cumsum(-1)
    new = torch.empty(len(u), dtype=torch.int64)
    last = ids[-1]
    for i, r in enumerate(u):
        last = new[i] = torch.searchsorted(ends[last], r, right=True)
    return torch.cat([ids, new])
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

EQUIVALENT: dict[str, dict[str, str]] = {
    "block": {
        "z = x - z.mean(-1, keepdim=True)": "z is x in both calls",
        "z = z - x.mean(-1, keepdim=True)": "z is x in both calls",
        "scores = q @ k.mT / W_Q.shape[-1] ** 0.5": "the same width",
        "scores = q @ k.mT / W_K.shape[-1] ** 0.5": "the same width",
        "scores = q @ k.mT / k.shape[-1] ** 0.5": "the same width",
    },
    "training_step": {
        "return (W - lr * gradient, loss)": "the same number",
        "table = W.requires_grad_()": "the same numbers; only a flag of W is set",
        "return (table - lr * gradient, loss.detach())": "the same numbers",
        "log_p = table[ids[:, :]].log_softmax(-1)": "gather leaves the last out",
    },
    "generate": {
        "p = (table[ids[-1]] / temperature).softmax(-0)": "one axis",
        "token = (p.cumsum(-0) <= r).sum()": "one axis",
    },
    "next_token_loss": {
        "log_probabilities = logits[:, :].log_softmax(-1)": "gather leaves the last out"
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
