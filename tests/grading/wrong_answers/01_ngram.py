"""Answers that students give to the exercises of chapter 01, wrong ones and right ones.

WRONG: by task, the source of an answer cell and a piece of the message that must come.
RIGHT: by task, answers written differently from the solution.
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "add_k": [
        (
            """
def add_k(c, k):
    return (c + k) / (c.sum(-1, keepdim=True) + k * c.shape[-1])
""",
            "keep their names",
        ),
        (
            """
kept = {}


def add_k(counts, k):
    if counts.shape not in kept:
        kept[counts.shape] = (counts + k) / (counts + k).sum(-1, keepdim=True)
    return kept[counts.shape]
""",
            "differ",
        ),
        (
            """
def add_k(counts, k):
    smoothed = counts + k
    return smoothed / smoothed.sum(0)
""",
            "your columns sum to 1",
        ),
        (
            """
def add_k(counts, k):
    return (counts + k) / counts.sum(-1, keepdim=True)
""",
            "k is added above and not below",
        ),
        (
            """
def add_k(counts, k):
    return (counts + k) / (counts.sum(-1, keepdim=True) + k)
""",
            "below you add k once",
        ),
        (
            """
def add_k(counts, k):
    return (counts + k) / (counts.sum(-1, keepdim=True) + k * counts.shape[0])
""",
            "below you add k for each context",
        ),
        (
            """
def add_k(counts, k):
    return (counts + k) / (counts + k).sum()
""",
            "the sum of the whole table",
        ),
        (
            """
def add_k(counts, k):
    p = counts / counts.sum(-1, keepdim=True) + k
    return p / p.sum(-1, keepdim=True)
""",
            "you add k to the probabilities",
        ),
        (
            """
def add_k(counts, k):
    smoothed = torch.where(counts == 0, k, counts)
    return smoothed / smoothed.sum(-1, keepdim=True)
""",
            "only where the count is 0",
        ),
        (
            """
def add_k(counts, k):
    return (counts + 1) / (counts + 1).sum(-1, keepdim=True)
""",
            "k makes no difference",
        ),
        (
            """
def add_k(counts, k):
    return counts / counts.sum(-1, keepdim=True)
""",
            "you do not smooth",
        ),
        (
            """
def add_k(counts, k):
    counts += 1
    return counts / counts.sum(-1, keepdim=True)
""",
            "changes its argument counts in place",
        ),
        (
            """
def add_k(counts, k):
    smoothed = counts.double() + k
    return smoothed / smoothed.sum(-1, keepdim=True)
""",
            "dtype",
        ),
    ],
    "witten_bell": [
        (
            """
def witten_bell(counts, shorter):
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts / total + shorter) / 2, shorter)
""",
            "half of your answer is the share in the counts",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    return (counts + kinds * shorter) / (total + kinds).clamp_min(1)
""",
            "never occurred gets zeros",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    mixed = (counts + kinds * shorter) / (total + kinds)
    return torch.where(total > 0, mixed, 1 / counts.shape[-1])
""",
            "gets the uniform distribution",
        ),
        (
            """
def witten_bell(counts, shorter):
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, counts / total, shorter).to(shorter.dtype)
""",
            "only where the context never occurred",
        ),
        (
            """
def witten_bell(counts, shorter):
    total = counts.sum(-1, keepdim=True)
    return torch.where(counts > 0, counts / total, shorter).to(shorter.dtype)
""",
            "your rows sum to more than 1",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(1, keepdim=True), counts.sum(1, keepdim=True)
    mixed = ((counts + kinds * shorter) / (total + kinds)).to(shorter.dtype)
    unseen = (total[:, 0] == 0).nonzero()
    if len(unseen):
        mixed[unseen[0, 0]] = shorter  # only the first
    return mixed
""",
            "nan",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds = (counts > 0).sum(-1, keepdim=True)
    return (counts + kinds * shorter) / (counts.sum(-1, keepdim=True) + kinds)
""",
            "gives nan, 0/0",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts + kinds * shorter) / total, shorter)
""",
            "the kinds above and not below",
        ),
        (
            """
def witten_bell(counts, shorter):
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts + total * shorter) / (total + total), shorter)
""",
            "the number of times that the context occurred",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(), counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts + kinds * shorter) / (total + kinds), shorter)
""",
            "the kinds of the whole table",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(0), counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts + kinds * shorter) / (total + kinds), shorter)
""",
            "kinds down the columns",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = counts.shape[1], counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts + kinds * shorter) / (total + kinds), shorter)
""",
            "your kinds are all d tokens",
        ),
        (
            """
def witten_bell(counts, shorter):
    D = counts.shape[1]
    kinds, total = (counts > 0).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    p = (counts + kinds / D) / (total + kinds)
    return torch.where(total > 0, p, 1 / D).to(shorter.dtype)
""",
            "you lean on the uniform distribution",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts == 1).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    return torch.where(total > 0, (counts + kinds * shorter) / (total + kinds), shorter)
""",
            "the tokens that occurred once",
        ),
        (
            """
def witten_bell(counts, shorter):
    kinds, total = (counts > 0).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    below = torch.where(total > 0, total + kinds, 1)
    p = torch.where(counts > 0, counts / below, kinds * shorter / below)
    return torch.where(total > 0, p, shorter).to(shorter.dtype)
""",
            "only where the count is 0",
        ),
        (
            """
def witten_bell(counts, shorter):
    counts = counts.float()
    kinds, total = (counts > 0).sum(-1, keepdim=True), counts.sum(-1, keepdim=True)
    p = (counts + kinds * shorter.float()) / (total + kinds)
    return torch.where(total > 0, p, shorter.float())
""",
            "dtype",
        ),
        (
            """
def witten_bell(counts, shorter):
    counts[counts.sum(-1) == 0] = 1
    kinds = (counts > 0).sum(-1, keepdim=True)
    return (counts + kinds * shorter) / (counts.sum(-1, keepdim=True) + kinds)
""",
            "changes its argument counts in place",
        ),
    ],
    "bits_per_byte": [
        (
            """
import math
def bits_per_byte(log_p, text):
    return float(-math.log2(log_p.exp().prod()) / len(text.encode()))
""",
            "math domain error",
        ),
        (
            """
def bits_per_byte(log_p, text):
    return -log_p.log2().sum().item() / len(text.encode())
""",
            "and that is nan",
        ),
        (
            """
def bits_per_byte(log_p, text):
    size = sum(1 if ord(letter) < 128 else 2 if ord(letter) < 2048 else 3 for letter in text)
    return -log_p.sum().item() / math.log(2) / size
""",
            "the answer is",
        ),
        (
            """
import unicodedata


def bits_per_byte(log_p, text):
    return -log_p.sum().item() / math.log(2) / len(unicodedata.normalize("NFC", text).encode())
""",
            "the answer is",
        ),
        (
            """
def bits_per_byte(log_p, text):
    return -log_p.sum().item() / math.log(2) / len(text.strip().encode())
""",
            "you strip the text",
        ),
        (
            """
def bits_per_byte(log_p, text):
    return -log_p.sum().item() / len(text.encode())
""",
            "those are nats per byte",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return -log_p.sum().item() * math.log(2) / len(text.encode())
""",
            "you multiply by ln 2",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return -log_p.sum().item() / math.log(2) / len(text)
""",
            "you divide by the characters",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return -log_p.mean().item() / math.log(2)
""",
            "those are bits per token",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return -log_p.mean().item() / math.log(2) / len(text.encode("utf-8"))
""",
            "averaged over the tokens and then divided",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return log_p.sum().item() / math.log(2) / len(text.encode("utf-8"))
""",
            "your answer is negative",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return len(text.encode("utf-8")) / (-log_p.sum().item() / math.log(2))
""",
            "upside down",
        ),
        (
            """
def bits_per_byte(log_p, text):
    return (-log_p).log2().sum().item() / len(text.encode())
""",
            "a second logarithm",
        ),
        (
            """
import math


def bits_per_byte(log_p, text):
    return -log_p.sum() / math.log(2) / len(text.encode())
""",
            ".item() makes a number",
        ),
        (
            """
def bits_per_byte(log_p, text):
    return 1.0
""",
            "the same answer whatever it is given",
        ),
    ],
    "windows": [
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 2, -1), e], 1)
    copies = [longer[:, n - 2 - b : n - 2 - b + T] for b in range(n - 1)]
    return torch.stack(copies, 1).reshape(B, T, -1)
""",
            "stacked the copies before the positions",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 2, -1), e], 1)
    return torch.stack([longer[:, n - 2 - b : n - 2 - b + T] for b in range(n - 1)], -1).flatten(2)
""",
            "the vectors lie interleaved",
        ),
        (
            """
def windows(e, before, n):
    out = []
    for b in range(n - 1):
        r = e.roll(b, 1).clone()
        if b: r[:, 0] = before
        out.append(r)
    return torch.cat(out, -1)
""",
            "only one position holds `before`",
        ),
        (
            """
def windows(e, before, n):
    return torch.cat([e.roll(back, dims=1) for back in range(n - 1)], -1)
""",
            "torch.roll brings the end of the text",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([e.new_zeros(B, n - 2, d), e], 1)
    return torch.cat([longer[:, n - 2 - i : n - 2 - i + T] for i in range(n - 1)], -1)
""",
            "you pad with zeros",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([e[:, :1].expand(B, n - 2, d), e], 1)
    return torch.cat([longer[:, n - 2 - i : n - 2 - i + T] for i in range(n - 1)], -1)
""",
            "you pad with the first token",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 2, d), e], 1)
    return torch.cat([longer[:, i : i + T] for i in range(n - 1)], -1)
""",
            "the oldest token comes first",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([e, before.expand(B, n - 2, d)], 1)
    return torch.cat([longer[:, i : i + T] for i in range(n - 1)], -1)
""",
            "your windows look ahead",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 1, d), e], 1)
    return torch.cat([longer[:, n - 1 - i : n - 1 - i + T] for i in range(n)], -1)
""",
            "your windows hold n tokens",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 1, d), e], 1)
    return torch.cat([longer[:, n - 2 - i : n - 2 - i + T] for i in range(n - 1)], -1)
""",
            "the token at t itself is not in your window",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 2, d), e], 1)
    return sum(longer[:, i : i + T] for i in range(n - 1))
""",
            "not side by side, but added",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    longer = torch.cat([before.expand(B, n - 2, d), e], 1)
    return torch.stack([longer[:, n - 2 - i : n - 2 - i + T] for i in range(n - 1)], 2)
""",
            "on an axis of their own",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    earlier = torch.cat([before.expand(B, 1, d), e[:, :-1]], 1)
    return torch.cat([e, earlier], -1)
""",
            "always holds two tokens",
        ),
        (
            """
def windows(e, before, n):
    parts = [e]
    for i in range(1, n - 1):
        parts.append(torch.cat([before.expand(len(e), i, -1), e[:, :-i]], 1))
    return torch.cat(parts, -1)
""",
            "it raised",
        ),
        (
            """
def windows(e, before, n):
    B, T, d = e.shape
    out = torch.zeros(B, T, (n - 1) * d)
    for t in range(T):
        for i in range(n - 1):
            out[:, t, i * d : (i + 1) * d] = e[:, t - i] if t >= i else before
    return out
""",
            "dtype",
        ),
    ],
    "next_token_loss": [
        (
            """
def next_token_loss(logits, ids):
    lp = logits.log_softmax(-1)[:, :-1]
    return -lp.gather(-1, ids[:, :-1, None]).mean().item()
""",
            "you leave out the last row",
        ),
        (
            """
def next_token_loss(logits, ids):
    lp = logits[:, :-1].log_softmax(-1)
    T = ids.shape[1]
    return -lp[:, torch.arange(T-1), ids[:, 1:]].mean().item()
""",
            "the index of the text is missing",
        ),
        (
            """
def next_token_loss(logits, ids):
    return -logits[:, :-1].gather(-1, ids[:, 1:, None]).mean().item()
""",
            "the softmax is missing",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits.log_softmax(-1)
    return -log_p.gather(-1, ids[..., None]).mean().item()
""",
            "you score each token by its own row",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[:, 1:].log_softmax(-1)
    return -log_p.gather(-1, ids[:, :-1, None]).mean().item()
""",
            "shifted the wrong way",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).sum().item()
""",
            "you return the sum",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).sum().item() / ids.numel()
""",
            "you divide by all t tokens",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).sum().item() / len(ids)
""",
            "average over the texts",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].double().softmax(-1).gather(-1, ids[:, 1:, None])
    return -p.log2().mean().item()
""",
            "that is in bits",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])
    return -p.mean().item()
""",
            "you average probabilities",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])
    return -p.mean().log().item()
""",
            "the logarithm at the end",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return log_p.gather(-1, ids[:, 1:, None]).mean().item()
""",
            "the sign is wrong",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1)
    return torch.nn.functional.cross_entropy(p.flatten(0, 1), ids[:, 1:].flatten()).item()
""",
            "you take the softmax twice",
        ),
        (
            """
def next_token_loss(logits, ids):
    target = torch.nn.functional.one_hot(ids[:, 1:], logits.shape[-1]).float()
    p = logits[:, :-1].softmax(-1)
    return torch.nn.functional.binary_cross_entropy(p, target).item()
""",
            "binary cross-entropy that the notes name",
        ),
        (
            """
def next_token_loss(logits, ids):
    target = torch.nn.functional.one_hot(ids[:, 1:], logits.shape[-1]).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return loss(logits[:, :-1], target).item()
""",
            "binary cross-entropy with sigmoids",
        ),
        (
            """
def next_token_loss(logits, ids):
    e = logits[:, :-1].exp()
    p = e / e.sum(-1, keepdim=True)
    return -p.gather(-1, ids[:, 1:, None]).log().mean().item()
""",
            "overflows",
        ),
        (
            """
def next_token_loss(logits, ids):
    p = logits[:, :-1].softmax(-1)
    return -p.gather(-1, ids[:, 1:, None]).log().mean().item()
""",
            "rounded a small probability to 0",
        ),
        (
            """
def next_token_loss(logits, ids):
    log_p = logits[0].log_softmax(-1)
    losses = [-log_p[t, ids[0, t + 1]].item() for t in range(len(log_p) - 1)]
    return sum(losses) / len(losses)
""",
            "the answer is",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "add_k": [
        """
class Smoothed:
    # Remembers the constant, and is called like a function.

    def __call__(self, counts, k):
        rows = []
        for row in counts:
            total = row.sum().item() + k * row.numel()
            rows.append(torch.tensor([(n.item() + k) / total for n in row]))
        return torch.stack(rows)


add_k = Smoothed()
""",
        """
import numpy as np


def add_k(counts, k):
    smoothed = counts.numpy() + k
    p = np.einsum("cd,c->cd", smoothed, 1 / smoothed.sum(axis=1))
    return torch.from_numpy(p.astype(np.float32))
""",
    ],
    "witten_bell": [
        """
def witten_bell(counts, shorter):
    answer = np.empty(tuple(counts.shape))
    p = shorter.numpy().astype(float)
    for c, row in enumerate(counts.numpy()):
        kinds, total = np.count_nonzero(row), row.sum()
        answer[c] = p if total == 0 else (row + kinds * p) / (total + kinds)
    return torch.tensor(answer, dtype=shorter.dtype)
""",
        """
def witten_bell(counts, shorter):
    n = counts.double()
    lam = n.sum(1) / (n.sum(1) + n.sign().sum(1)).clamp(min=1)  # how far the counts are trusted
    own = n / n.sum(1, keepdim=True).clamp(min=1)
    mixed = torch.einsum("c,cd->cd", lam, own) + torch.einsum("c,d->cd", 1 - lam, shorter.double())
    return mixed.to(shorter.dtype)
""",
    ],
    "bits_per_byte": [
        """
def bits_per_byte(log_p, text):
    grad = 0.0  # a name like any other
    for one in log_p.tolist():
        grad -= one
    return grad / math.log(2) / len(bytes(text, "utf-8"))
""",
        """
from functools import reduce


def bits_per_byte(log_p, text):
    surprise = lambda total, one: total - np.log2(np.e) * float(one)
    return float(reduce(surprise, log_p.double(), 0.0) / len(bytearray(text.encode("utf8"))))
""",
    ],
    "windows": [
        """
def windows(e, before, n):
    texts = []
    for text in e:
        queue = [before] * (n - 1)
        rows = []
        for vector in text:
            queue = [vector, *queue[:-1]]
            rows.append(torch.hstack(queue))
        texts.append(torch.vstack(rows))
    return torch.stack(texts)
""",
        """
def windows(e, before, n):
    B, T, d = e.shape
    out = e.new_empty(B, T, n - 1, d)
    for t in range(T):
        for back in range(n - 1):
            out[:, t, back] = e[:, t - back] if t - back >= 0 else before
    return out.flatten(2)
""",
    ],
    "next_token_loss": [
        """
def next_token_loss(logits, ids):
    scores = logits.numpy()[:, :-1].astype(np.float64)
    scores = scores - scores.max(-1, keepdims=True)
    normal = np.log(np.exp(scores).sum(-1))
    picked = np.take_along_axis(scores, ids.numpy()[:, 1:, None], -1)[..., 0]
    return (normal - picked).mean().item()
""",
        """
def next_token_loss(logits, ids):
    total, count = 0.0, 0
    for text, row in zip(logits, ids):
        for t in range(len(row) - 1):
            total += float(torch.logsumexp(text[t], 0) - text[t, row[t + 1]])
            count += 1
    return total / count
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "add_k": {
        "return (counts + k) / (counts.sum(1, keepdim=True) + k * counts.shape[-1])": (
            "axis 1 is the last of two"
        ),
        "return (counts + k) / (counts.sum(-1, keepdim=True) + k * counts.shape[1])": (
            "axis 1 is the last of two"
        ),
    },
    "witten_bell": {
        "kinds = (counts > 0).sum(1, keepdim=True)": "axis 1 is the last of two",
        "total = counts.sum(1, keepdim=True)": "axis 1 is the last of two",
        "return torch.where(kinds > 0, mixed, shorter)": (
            "a context has kinds if and only if it occurred"
        ),
        "return torch.where(mixed > 0, mixed, shorter)": (
            "mixed is 0 only where shorter is, and NaN where nothing occurred"
        ),
    },
    "next_token_loss": {
        "log_p = logits[:, :].log_softmax(-1)": (
            "gather reads only the rows for which there is an index"
        )
    },
}
