"""Tasks of chapter 01: smoothing, bits per byte, the window of an n-gram model, the loss."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from grading.task import Task


def _table(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float64."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()
    return (drawn * 10).round() / 10


def _counts(rng: random.Random, contexts: int, tokens: int) -> Tensor:
    """Counts as a text gives them: many zeros, a few large ones."""
    drawn = [
        [rng.choice((0, 0, 0, 1, 1, 2, rng.randint(3, 40))) for _ in range(tokens)]
        for _ in range(contexts)
    ]
    for row in drawn:
        row[rng.randrange(tokens)] += 1
    return torch.tensor(drawn)


# --- add_k ----------------------------------------------------------------------------------------


def _add_k(counts: Tensor, k: float) -> Tensor:
    """Cell by cell."""
    rows = counts.tolist()
    return _table([[(n + k) / (sum(row) + k * len(row)) for n in row] for row in rows])


def _add_k_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, float]]:
    cases = []
    for k in (1.0, 0.01, round(rng.uniform(0.1, 0.9), 2), 5.0):
        contexts, tokens = rng.sample(range(2, 9), 2)
        cases.append((_counts(rng, contexts, tokens), k))
    counts = _counts(rng, 3, rng.randint(4, 7))
    counts[1] = 0
    square = _counts(rng, 4, 4)  # as many contexts as tokens, and once more: nothing is kept
    return [*cases, (square, 2.0), (_counts(rng, 4, 4), 2.0), (counts, 0.5)]


ADD_K = Task(
    name="add_k",
    reference=_add_k,
    visible=(
        (torch.tensor([[3, 1, 0], [0, 0, 0]]), 1.0),
        (torch.tensor([[8, 0, 1, 1, 0], [2, 2, 2, 2, 2], [0, 90, 0, 0, 1]]), 0.1),
        (torch.tensor([[0, 0, 7], [1, 2, 1]]), 1.0),  # the first shape again
    ),
    hidden=_add_k_hidden,
    mistakes={
        "your columns sum to 1, not your rows: a row holds what followed one context. Divide by "
        "the sum along the last axis.": lambda counts, k: (
            (counts + k) / (counts + k).sum(0, keepdim=True)
        ),
        "k is added above and not below, so your rows sum to more than 1. All D tokens get k more: "
        "the sum of a row grows by k · D.": lambda counts, k: (
            (counts + k) / counts.sum(-1, keepdim=True)
        ),
        "below you add k once. Each of the D tokens gets k more, so the sum of a row grows by "
        "k · D.": lambda counts, k: (counts + k) / (counts.sum(-1, keepdim=True) + k),
        "below you add k for each context (each row). It is each token that gets k more: k times "
        "the number of columns.": lambda counts, k: (
            (counts + k) / (counts.sum(-1, keepdim=True) + k * len(counts))
        ),
        "you divide by the sum of the whole table. Each row is a distribution of its own.": (
            lambda counts, k: (counts + k) / (counts + k).sum()
        ),
        "you add k to the probabilities. It belongs to the counts, before the division: a context "
        "that is rare is smoothed more than a common one.": lambda counts, k: (
            (counts / counts.sum(-1, keepdim=True) + k)
            / (counts / counts.sum(-1, keepdim=True) + k).sum(-1, keepdim=True)
        ),
        "you add k only where the count is 0. Every count grows by k.": lambda counts, k: (
            torch.where(counts > 0, counts, k)
            / torch.where(counts > 0, counts, k).sum(-1, keepdim=True)
        ),
        "k makes no difference in your answer: that is add 1, or no smoothing.": (
            lambda counts, k: _add_k(counts, 1.0)
        ),
        "you do not smooth: what was never seen still has probability 0, and a row without counts "
        "is 0/0.": lambda counts, k: counts / counts.sum(-1, keepdim=True),
    },
)


# --- witten_bell ----------------------------------------------------------------------------------


def _witten_bell(counts: Tensor, shorter: Tensor) -> Tensor:
    """Cell by cell."""
    answer = torch.empty(counts.shape, dtype=shorter.dtype)
    for c, row in enumerate(counts.tolist()):
        total, kinds = sum(row), len([n for n in row if n])
        for w, n in enumerate(row):
            p = float(shorter[w])
            answer[c, w] = (n + kinds * p) / (total + kinds) if total else p
    return answer


def _bell_by(
    kinds: Callable[[Tensor], Any], below: bool = True, nan: bool = False
) -> Callable[[Tensor, Tensor], Tensor]:
    def wrong(counts: Tensor, shorter: Tensor) -> Tensor:
        new, total = kinds(counts), counts.sum(-1, keepdim=True)
        p = ((counts + new * shorter) / (total + new if below else total)).to(shorter.dtype)
        return p if nan else torch.where(total > 0, p, shorter)

    return wrong


def _kinds(counts: Tensor) -> Tensor:
    return (counts > 0).sum(-1, keepdim=True)


def _shares(counts: Tensor, shorter: Tensor) -> Tensor:
    return (counts / counts.sum(-1, keepdim=True)).to(shorter.dtype)


def _bell_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for _ in range(5):
        contexts, tokens = rng.sample(range(3, 10), 2)
        counts = _counts(rng, contexts, tokens)
        shorter = torch.rand(tokens, generator=generator, dtype=torch.float64) + 0.05
        cases.append((counts, (shorter / shorter.sum()).float()))
    counts, shorter = cases[3]
    unseen = counts.clone()
    unseen[1:] = 0  # all but the first context
    cases[3] = (unseen, shorter)
    cases[1] = (cases[1][0], cases[1][1].double())
    counts, shorter = cases[4]
    cases.append((_counts(rng, *counts.shape), shorter.flip(0)))  # other values, the same shapes
    square = _counts(rng, 4, 4)
    square[rng.randrange(4)] = torch.tensor([1, 2, 3, 4])  # every kind, no token once more
    return [*cases, (square, torch.tensor([0.5, 0.5, 0.0, 0.0]))]


BELL = Task(
    name="witten_bell",
    reference=_witten_bell,
    visible=(
        (torch.tensor([[3, 1, 2, 0], [0, 0, 0, 0]]), _table([0.5, 0.25, 0.125, 0.125])),
        (
            torch.tensor([[9, 1, 0], [0, 3, 0], [1, 1, 1], [0, 0, 70], [0, 0, 0], [0, 0, 0]]),
            torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64),
        ),
    ),
    hidden=_bell_hidden,
    mistakes={
        "a context that never occurred gives NaN, 0/0. Nothing is known about it, so its answer is "
        "that of the shorter context.": _bell_by(_kinds, nan=True),
        "you add the kinds above and not below: your rows sum to more than 1.": _bell_by(
            _kinds, below=False
        ),
        "half of your answer is the share in the counts, half is `shorter`: so it is if kinds is "
        "the number of times that the context occurred. It is the number of *different* tokens "
        "that followed it: count the entries above 0.": _bell_by(
            lambda counts: counts.sum(-1, keepdim=True)
        ),
        "you count the kinds of the whole table. Each context has its own number: count along "
        "each row.": _bell_by(lambda counts: (counts > 0).sum()),
        "you count kinds down the columns: in how many contexts a token occurred. It is how many "
        "tokens a context was followed by.": _bell_by(
            lambda counts: (counts > 0).sum(0, keepdim=True)
        ),
        "your kinds are all D tokens. Only those count that did follow the context.": _bell_by(
            lambda counts: counts.shape[-1]
        ),
        "you lean on the uniform distribution. It is the answer for the shorter context that gets "
        "the share of the new.": lambda counts, shorter: _witten_bell(
            counts, torch.full_like(shorter, 1 / len(shorter))
        ),
        "you have counted the tokens that occurred once. Kinds are all tokens that occurred.": (
            _bell_by(lambda counts: (counts == 1).sum(-1, keepdim=True))
        ),
        "a context that never occurred gets zeros. Nothing is known about it, so its answer is "
        "that of the shorter context.": lambda counts, shorter: torch.where(
            counts.sum(-1, keepdim=True) > 0, _witten_bell(counts, shorter), 0.0
        ).to(shorter.dtype),
        "a context that never occurred gets the uniform distribution. Its answer is that of the "
        "shorter context.": lambda counts, shorter: torch.where(
            counts.sum(-1, keepdim=True) > 0, _witten_bell(counts, shorter), 1 / len(shorter)
        ).to(shorter.dtype),
        "you use the shorter context only where the context never occurred. Every context gives it "
        "the share kinds / (count + kinds).": lambda counts, shorter: torch.where(
            counts.sum(-1, keepdim=True) > 0, _shares(counts, shorter), shorter
        ),
        "you use the shorter context only where the count is 0, and your rows sum to more than 1. "
        "The two are mixed, for every token.": lambda counts, shorter: torch.where(
            counts > 0, _shares(counts, shorter), shorter
        ),
        "you use the shorter context only where the count is 0. All tokens get their share of "
        "it.": lambda counts, shorter: torch.where(
            counts > 0,
            counts / (counts.sum(-1, keepdim=True) + _kinds(counts)),
            _witten_bell(counts, shorter),
        ).to(shorter.dtype),
    },
)


# --- bits_per_byte --------------------------------------------------------------------------------


def _bits_per_byte(log_p: Tensor, text: str) -> float:
    """From probabilities, with base 2."""
    bits = sum(-math.log2(math.exp(one)) for one in log_p.double().tolist())
    return bits / len(text.encode("utf-8"))


def _bytes_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, str]]:
    words = ["film", "Amélie", "naïve", "café", "very", "…", "“great”", "Zoë", "日本", "a", "€ 10"]
    cases = []
    for tokens in (1, rng.randint(2, 5), rng.randint(6, 12), rng.randint(13, 30)):
        text = " ".join([rng.choice(words) for _ in range(tokens)] + [rng.choice(words[1:4])])
        log_p = -4 * torch.rand(tokens, generator=generator) - 0.1
        cases.append((log_p, text))
    # four bytes in one character, a letter and its accent apart, spaces and lines at the ends
    texts = ["\nhalf \n", "\U0001f3ac \U00020bb7", "cafe\u0301 ", " b\r\n\n"]
    log_p = -4 * torch.rand(3, generator=generator) - 0.1
    cases += [(log_p, rng.choice(words) + text) for text in texts[1:]]
    cases.append((-4 * torch.rand(500, generator=generator), rng.choice(words) * 300))  # long
    return [*cases, (log_p.double().flip(0) - 100, texts[0])]


L2 = math.log(2)

BITS = Task(
    name="bits_per_byte",
    reference=_bits_per_byte,
    visible=(
        (_table([-L2, -2 * L2, -4 * L2]), "Amélie"),
        (_table([-0.5, -3.2, -1.7, -4.1]), "a naïve film"),
        (_table([-1.2, -0.4, -2.5]), " café 🎬\n"),
        (torch.arange(-90.0, 90.0) / 30 - 5, "Un café, s’il vous plaît. " * 20),
        (_table([-1.5, -0.5]), "cafe\u0301"),  # a letter and its accent by themselves
    ),
    hidden=_bytes_hidden,
    mistakes={
        "those are nats per byte. A bit is ln 2 nats: divide by ln 2.": lambda log_p, text: (
            -float(log_p.double().sum()) / len(text.encode())
        ),
        "you multiply by ln 2. A nat is more than a bit (1.44 of them), so there are more bits "
        "than nats: divide.": lambda log_p, text: (
            -float(log_p.double().sum()) * L2 / len(text.encode())
        ),
        "you divide by the characters. “é” is one character and two bytes: "
        "text.encode().": lambda log_p, text: -float(log_p.double().sum()) / L2 / len(text),
        "those are bits per token. Divide the bits of all tokens by the bytes of the "
        "text.": lambda log_p, text: -float(log_p.double().mean()) / L2,
        "you have averaged over the tokens and then divided by the bytes as well. It is all bits "
        "by all bytes.": lambda log_p, text: (
            -float(log_p.double().mean()) / L2 / len(text.encode())
        ),
        "your answer is negative: the log of a probability is, and the loss is minus "
        "that.": lambda log_p, text: -_bits_per_byte(log_p, text),
        "that is bytes per bit, upside down.": lambda log_p, text: 1 / _bits_per_byte(log_p, text),
        "you strip the text. Spaces and the ends of lines are bytes of it, too.": (
            lambda log_p, text: -float(log_p.double().sum()) / L2 / len(text.strip().encode())
        ),
        "you multiply the probabilities of all tokens. Of a long text the product is too small for "
        "a floating-point number and rounds to 0: add up the logarithms.": lambda log_p, text: (
            -float(log_p.exp().prod().log2()) / len(text.encode())
        ),
        "you take the logarithm of log_p, which is negative, and that is NaN. log_p holds "
        "logarithms already.": lambda log_p, text: (
            -float(log_p.double().log2().sum()) / len(text.encode())
        ),
        "you take a second logarithm: log_p holds logarithms already.": lambda log_p, text: (
            float(log_p.double().abs().log2().sum()) / len(text.encode())
        ),
    },
)


# --- windows: concatenation -----------------------------------------------------------------------


def _windows(e: Tensor, before: Tensor, n: int) -> Tensor:
    """Position by position."""
    batch, length, width = e.shape
    answer = torch.empty(batch, length, (n - 1) * width, dtype=e.dtype)
    for t in range(length):
        for back in range(n - 1):
            columns = slice(back * width, (back + 1) * width)
            answer[:, t, columns] = e[:, t - back] if t >= back else before
    return answer


def _windows_by(
    vector: Callable[[Tensor, Tensor, int], Tensor],
    first: int = 0,
    more: int = 0,
    oldest_first: bool = False,
) -> Callable[[Tensor, Tensor, int], Tensor]:
    """Concatenated copies of a text, moved by first, first + 1, … positions by `vector`."""

    def wrong(e: Tensor, before: Tensor, n: int) -> Tensor:
        moved = [vector(e, before, first + back) for back in range(n - 1 + more)]
        return torch.cat(moved[::-1] if oldest_first else moved, -1)

    return wrong


def _moved(e: Tensor, before: Tensor, back: int) -> Tensor:
    back = min(back, e.shape[1])
    start = before.expand(len(e), back, -1)
    return torch.cat([start, e[:, : e.shape[1] - back]], 1)


def _rolled(e: Tensor, before: Tensor, back: int) -> Tensor:
    """Moved in a circle, with `before` at the first position only."""
    moved = e.roll(back, 1)
    return torch.cat([before.expand_as(moved[:, :1]), moved[:, 1:]], 1) if back else moved


def _ahead(e: Tensor, before: Tensor, ahead: int) -> Tensor:
    return _moved(e.flip(1), before, ahead).flip(1)


def _windows_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, int]]:
    cases = []
    for n in (2, 3, 4, rng.randint(5, 6)):
        batch, length, width = rng.randint(1, 3), rng.randint(5, 8), rng.randint(2, 4)
        e = torch.randn(batch, length, width, generator=generator)
        cases.append((e, torch.randn(width, generator=generator), n))
    short = torch.randn(2, 2, 3, generator=generator)  # fewer tokens than the window
    cases.append((short, torch.randn(3, generator=generator), rng.randint(5, 6)))
    cases[1] = (cases[1][0].double(), cases[1][1].double(), 3)
    for _ in range(2):  # all sizes alike, and once more
        e = torch.randn(3, 3, 3, generator=generator)
        cases.append((e, torch.randn(3, generator=generator), 3))
    return cases


WINDOWS = Task(
    name="windows",
    reference=_windows,
    visible=(
        (_table([[[1, 10], [2, 20], [3, 30]]]), _table([0, -1]), 3),
        (_tenths(1, 2, 5, 3), _tenths(2, 3), 4),
        (_tenths(3, 2, 2, 2), _tenths(4, 2), 5),
    ),
    hidden=_windows_hidden,
    mistakes={
        "torch.roll brings the end of the text to its beginning, so the first tokens see the "
        "future. Put `before` there.": _windows_by(lambda e, before, back: e.roll(back, 1)),
        "you pad with zeros. The positions before the text hold the vector `before`.": _windows_by(
            lambda e, before, back: _moved(e, torch.zeros_like(before), back)
        ),
        "you pad with the first token. The positions before the text hold the vector `before`.": (
            lambda e, before, n: torch.cat([_windows(one[None], one[0], n) for one in e])
        ),
        "the oldest token comes first in your windows. The newest comes first: "
        "[e_t, e_(t−1), …].": _windows_by(_moved, oldest_first=True),
        "your windows look ahead: position t holds e_(t+1). A model that sees the next token has "
        "nothing left to predict.": _windows_by(_ahead),
        "your windows hold n tokens. An n-gram model sees n − 1 and predicts the n-th.": (
            _windows_by(_moved, more=1)
        ),
        "the token at t itself is not in your window: it begins with e_(t−1). The model predicts "
        "token t + 1, so it may see token t.": _windows_by(_moved, first=1),
        "your vectors are not side by side, but added. Concatenate along the last axis.": (
            lambda e, before, n: torch.stack([_moved(e, before, i) for i in range(n - 1)]).sum(0)
        ),
        "where the window reaches over the beginning, only one position holds `before`, and then "
        "comes the end of the text: torch.roll brings it to the beginning. All that lies before "
        "the text is `before`.": _windows_by(_rolled),
        "the vectors lie interleaved: first the first numbers of all, then the second ones (stack "
        "at the end, then flatten). Each vector stays whole, torch.cat(…, -1).": (
            lambda e, before, n: torch.stack(
                [_moved(e, before, i) for i in range(n - 1)], -1
            ).flatten(2)
        ),
        "you have stacked the copies before the positions, and then cut the whole anew: numbers of "
        "several positions mix. Side by side means the last axis: torch.cat(…, -1).": (
            lambda e, before, n: torch.stack(
                [_moved(e, before, i) for i in range(n - 1)], 1
            ).reshape(*e.shape[:2], -1)
        ),
        "you have stacked the vectors on an axis of their own. Side by side means the last axis: "
        "torch.cat(…, -1).": lambda e, before, n: torch.stack(
            [_moved(e, before, i) for i in range(n - 1)], 2
        ),
        "your window always holds two tokens, as in the chapter's example with n = 3. It holds "
        "n − 1.": lambda e, before, n: _windows(e, before, 3),
        "you take the token n − 2 positions back alone. All from there to t belong to the "
        "window.": lambda e, before, n: _moved(e, before, n - 2),
    },
)


# --- next_token_loss: the notes' formula, with its index ------------------------------------------


def _next_token_loss(logits: Tensor, ids: Tensor) -> float:
    """Token by token, in double precision."""
    losses = []
    for text, row in zip(logits.double().tolist(), ids.tolist(), strict=True):
        for scores, token in zip(text, row[1:], strict=False):
            top = max(scores)
            losses.append(top + math.log(sum(math.exp(s - top) for s in scores)) - scores[token])
    return float(sum(losses) / len(losses))


def _picked(logits: Tensor, ids: Tensor, shift: int = 1) -> Tensor:
    """Log-probabilities of the tokens `shift` positions further on."""
    log_p, length = logits.log_softmax(-1), ids.shape[1]
    if shift < 0:
        return log_p[:, -shift:].gather(-1, ids[:, :shift, None])[..., 0]
    return log_p[:, : length - shift].gather(-1, ids[:, shift:, None])[..., 0]


def _every_text(logits: Tensor, ids: Tensor) -> float:
    """log_p[:, arange(T − 1), ids]: the tokens of every text are picked in every text."""
    log_p = logits[:, :-1].log_softmax(-1)
    return -float(log_p[:, torch.arange(ids.shape[1] - 1), ids[:, 1:]].mean())


def _round(logits: Tensor, ids: Tensor) -> float:
    return -float(logits.log_softmax(-1).gather(-1, ids.roll(-1, 1)[..., None]).mean())


def _binary(logits: Tensor, ids: Tensor) -> float:
    wanted = torch.nn.functional.one_hot(ids[:, 1:], logits.shape[-1]).to(logits.dtype)
    p = logits[:, :-1].softmax(-1)
    return float(torch.nn.functional.binary_cross_entropy(p, wanted))


def _sigmoid(logits: Tensor, ids: Tensor) -> float:
    wanted = torch.nn.functional.one_hot(ids[:, 1:], logits.shape[-1]).to(logits.dtype)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return float(loss(logits[:, :-1], wanted))


def _loss_hidden(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor]]:
    cases = []
    for batch in (1, 2, 3, rng.randint(4, 5)):
        length, tokens = rng.sample(range(3, 10), 2)
        logits = 2 * torch.randn(batch, length, tokens, generator=generator)
        cases.append((logits, torch.randint(tokens, (batch, length), generator=generator)))
    for _ in range(2):  # all sizes alike, and once more
        logits = 2 * torch.randn(4, 4, 4, generator=generator)
        cases.append((logits, torch.randint(4, (4, 4), generator=generator)))
    loud = torch.zeros(2, 3, 5)
    loud[..., 1] = rng.randint(200, 900)  # e to this overflows
    cases.append((loud, torch.tensor([[0, 1, 1], [4, 1, rng.choice((0, 2))]])))
    return cases


LOSS = Task(
    name="next_token_loss",
    reference=_next_token_loss,
    visible=(
        (_table([[[0, 0, 0, 0], [0, 9, 0, 0], [5, 0, 0, 0]]]), torch.tensor([[3, 2, 1]])),
        (_tenths(5, 2, 4, 5).float(), torch.tensor([[0, 3, 3, 1], [4, 2, 0, 2]])),
        (_table([[[400, 0, 0], [400, 0, 0], [0, 0, 1]]]), torch.tensor([[2, 1, 0]])),
    ),
    hidden=_loss_hidden,
    mistakes={
        "you score each token by its own row. Row t predicts token t + 1: logits[:, :-1] with "
        "ids[:, 1:].": lambda logits, ids: -float(_picked(logits, ids, 0).mean()),
        "you have shifted the wrong way: your row t + 1 is scored on token t, which it has "
        "seen.": lambda logits, ids: -float(_picked(logits, ids, -1).mean()),
        "you leave out the last row, and the last token where the first is due: row t still meets "
        "token t. logits[:, :-1] goes with ids[:, 1:].": lambda logits, ids: (
            -float(_picked(logits, ids, 0)[:, :-1].mean())
        ),
        "roll brings the first token to the end of its text, and the last row is scored on it. "
        "That row predicts nothing: leave it out, logits[:, :-1] with ids[:, 1:].": _round,
        "the index of the text is missing: log_p[:, t, ids] picks the tokens of *every* text in "
        "every text. Use gather, or a third index, torch.arange(B)[:, None].": _every_text,
        "you return the sum. The loss is the mean per predicted token.": lambda logits, ids: (
            -float(_picked(logits, ids).sum())
        ),
        "you divide by all T tokens. The first is never predicted: there are T − 1 for each "
        "text.": lambda logits, ids: -float(_picked(logits, ids).sum()) / ids.numel(),
        "you sum over each text and average over the texts. The loss is the mean per "
        "token.": lambda logits, ids: -float(_picked(logits, ids).sum(1).mean()),
        "that is in bits. The loss is in nats: the natural logarithm.": lambda logits, ids: (
            -float(_picked(logits, ids).mean()) / L2
        ),
        "you average probabilities. It is the logarithm of each that counts.": lambda logits, ids: (
            -float(_picked(logits, ids).exp().mean())
        ),
        "the softmax is missing: you average logits. A logit is no log-probability before "
        "log_softmax.": lambda logits, ids: (
            -float(logits[:, :-1].gather(-1, ids[:, 1:, None]).mean())
        ),
        "you take the logarithm at the end: the mean of logarithms is not the logarithm of the "
        "mean.": lambda logits, ids: -float(_picked(logits, ids).exp().mean().log()),
        "the sign is wrong: the loss is minus the log of a probability, and never negative.": (
            lambda logits, ids: float(_picked(logits, ids).mean())
        ),
        "you take the softmax twice. cross_entropy wants logits, and takes its own.": (
            lambda logits, ids: -float(_picked(logits.softmax(-1), ids).mean())
        ),
        "that is the binary cross-entropy that the notes name: a yes or no for each of the D "
        "tokens. One token is right among D: the categorical one.": _binary,
        "that is a binary cross-entropy with sigmoids, a yes or no for each of the D tokens. One "
        "token is right among D: a softmax, and the categorical one.": _sigmoid,
        "e to a large logit overflows, and what comes out is not a number (or infinite). Use "
        "log_softmax, or subtract the largest logit first.": lambda logits, ids: (
            -float(
                (logits.exp() / logits.exp().sum(-1, keepdim=True))[:, :-1]
                .gather(-1, ids[:, 1:, None])
                .log()
                .mean()
            )
        ),
        "the softmax has rounded a small probability to 0, and its logarithm is −∞. log_softmax "
        "does both in one step.": lambda logits, ids: (
            -float(logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None]).log().mean())
        ),
    },
)

TASKS: tuple[Task, ...] = (ADD_K, BELL, BITS, WINDOWS, LOSS)
