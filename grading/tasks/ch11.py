"""Tasks of chapter 11: what a probe must beat, its control, its code, and taking away."""

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from grading.task import Task

# --- table_of_words -------------------------------------------------------------------------------

Words = list[str]


def _commonest(tags: Sequence[str], order: Sequence[str]) -> str:
    """The commonest tag; of several, the one that stands first in an order."""
    most = max(tags.count(tag) for tag in tags)
    return next(tag for tag in order if tags.count(tag) == most)


def _first(tags: Sequence[str]) -> str:
    return _commonest(tags, tags)


def _told(
    words: Words,
    tags: Words,
    new: Words,
    known: Callable[[Sequence[str]], str] = _first,
    default: Callable[[Sequence[str]], str] = _first,
    before: Callable[[str], str] = str.lower,
    after: Callable[[str], str] = str.lower,
) -> Words:
    """A table of words by its four choices: of a word's tag, the default, and the letters."""
    answers = []
    for word in map(after, new):
        own = [tag for one, tag in zip(words, tags, strict=True) if before(one) == word]
        answers.append(known(own) if own else default(tags))
    return answers


def _table(words: Words, tags: Words, new: Words) -> Words:
    """Word by word, from the whole list."""
    return _told(words, tags, new)


TAGS = ("NOUN", "VERB", "DET", "ADJ", "ADV")
TYPES = ("film", "like", "the", "that", "good", "well", "love", "it")


def _cased(rng: random.Random, word: str) -> str:
    return rng.choice((word, word, word.capitalize(), word.upper()))


def _texts(rng: random.Random, n: int, m: int, fewest: int = 0) -> tuple[Words, Words, Words]:
    """Words in small and large letters, some of them with several tags, and new ones."""
    types = rng.sample(TYPES, rng.randint(3, 6))
    usual = {word: rng.sample(TAGS, 2) for word in types}
    words = [rng.choice(types) for _ in range(n)]
    tags = [rng.choice(usual[word]) for word in words]
    new = [rng.choice((*types, "plot", "unmet")) for _ in range(m)] + ["Never"] * fewest
    return [_cased(rng, w) for w in words], tags, [_cased(rng, w) for w in new]


def _table_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Words, Words, Words]]:
    cases = [_texts(rng, n, m, 1) for n, m in ((9, 5), (14, 8), (20, 12), (30, 6), (6, 20))]
    words = ["so", "So", "bad", "SO", "so", "bad"]
    for tags in (["VERB", "ADV", "ADJ", "ADV", "VERB", "NOUN"], ["X", "A", "X", "A", "X", "A"]):
        cases.append((words, tags, ["bad", "so", "Bad", "new", rng.choice(("SO", "so"))]))
    cases.append((words, ["B", "A", "A", "C", "C", "B"], ["new", "so", "bad"]))
    # one word is most of the text, and one tag belongs to most words
    most = ["the"] * 5 + ["film", "plot", "joy", "end"]
    cases.append((most, ["DET"] * 5 + ["NOUN"] * 4, ["end", "of", "THE", "cast"]))
    # the first tag, the last one, the first of the alphabet, and the last of three that tie
    cases.append((["so"] * 8, list("ZCACABBY"), ["so", "new"]))
    cases.append((["a"], ["DET"], ["a", "b"]))
    cases.append((*_texts(rng, 8, 4)[:2], []))  # nothing is asked
    return cases


TABLE = Task(
    name="table_of_words",
    reference=_table,
    visible=(
        (["I", "like", "films", "like", "these", "Like"], list("PVNNDA"), ["like", "I", "plot"]),
        (
            ["The", "the", "a", "plot", "film", "The", "joy", "end"],
            ["DET", "DET", "DET", "NOUN", "NOUN", "DET", "NOUN", "NOUN"],
            ["THE", "film", "cast", "Joy", "cast"],
        ),
        (
            ["that", "love", "SO", "so", "love", "so", "so", "that", "that", "Love", "love"],
            ["PRON", "NOUN", "CONJ", "ADV", "VERB", "ADV", "CONJ", "DET", "DET", "NOUN", "VERB"],
            ["so", "love", "that", "unmet"],
        ),
        (
            ["as", "As", "well", "as", "well", "well", "well", "as", "so"],
            ["B", "C", "A", "C", "B", "A", "B", "A", "C"],
            ["As", "WELL", "new"],
        ),
        (["b", "a", "A", "a", "a", "c", "C", "B", "b"], list("ABABADCBE"), ["a", "B", "c", "d"]),
        (["go", "Go", "stop"], ["VERB", "NOUN", "NOUN"], []),
    ),
    hidden=_table_hidden,
)


# --- control_labels -------------------------------------------------------------------------------


def _quantile(tags: Sequence[int], u: float) -> int:
    """Of the tags in order, the one that stands at the share u."""
    return sorted(tags)[math.floor(u * len(tags))]


def _drawn(
    types: Tensor, tags: Tensor, u: Tensor, draw: Callable[[Sequence[int], float], int]
) -> Tensor:
    labels = [draw(tags.tolist(), one) for one in u.tolist()]
    return torch.tensor(labels)[types]


def _control(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    """By sorting all tags."""
    return _drawn(types, tags, u, _quantile)


def _sample(
    rng: random.Random, N: int, V: int, K: int, exact: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Types, tags of unequal frequency, and numbers that are no share, or each of them a share."""
    types = [rng.randrange(V) for _ in range(N)]
    tags = [min(rng.randrange(K), rng.randrange(K)) for _ in range(N)]
    steps = [rng.randrange(N) + (0.0 if exact else rng.uniform(0.1, 0.9)) for _ in range(V)]
    return torch.tensor(types), torch.tensor(tags), torch.tensor([step / N for step in steps])


def _control_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, Tensor, Tensor]]:
    cases = [_sample(rng, *sizes) for sizes in ((12, 5, 4), (30, 9, 6), (7, 20, 3), (50, 14, 17))]
    n = rng.randint(8, 10)
    cases += [_sample(rng, n, n, n), _sample(rng, n, n, n)]
    cases += [_sample(rng, 16, 12, 4, exact=True), _sample(rng, 8, 8, 3, exact=True)]
    types, tags, u = _sample(rng, 16, 6, 3)
    u[types[0]] = 0.0  # labels below 3 do not occur, nor does 4
    cases.append((types, 3 + 2 * (tags > 0).long(), u))
    cases.append((types.flip(0), torch.full((16,), 2), u))  # one label only
    return cases


CONTROL = Task(
    name="control_labels",
    reference=_control,
    visible=(
        (torch.tensor([0, 1, 0, 2]), torch.tensor([0, 1, 0, 2]), torch.tensor([0.6, 0.1, 0.9])),
        (
            torch.tensor([3, 1, 3, 0, 1, 3, 5, 1]),
            torch.tensor([2, 4, 2, 1, 4, 4, 1, 4]),
            torch.tensor([0.0, 0.25, 0.9, 0.5, 0.3, 0.45, 0.8, 0.7, 0.1]),
        ),
        _sample(random.Random(5), 9, 12, 4),
        _sample(random.Random(6), 20, 6, 5),
        _sample(random.Random(8), 16, 16, 3, exact=True),
    ),
    hidden=_control_hidden,
)


# --- selectivity ----------------------------------------------------------------------------------


def _met(types: Tensor, train: Tensor) -> Tensor:
    """Words whose type occurs in training."""
    known = set(types[train].tolist())
    return torch.tensor([kind in known for kind in types.tolist()])


def _selectivity(right: Tensor, control: Tensor, types: Tensor, train: Tensor) -> Tensor:
    """Word by word, in a loop."""
    known = {int(kind) for kind, used in zip(types, train, strict=True) if used}
    found = [
        right[n].float() - control[:, n].float().mean(0)
        for n in range(len(types))
        if not train[n] and int(types[n]) in known
    ]
    return torch.stack(found).mean(0)


def _probed(
    rng: random.Random, generator: Generator, M: int, N: int, P: int, V: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What probes got right, task and control apart; every third type is in training only."""
    types = torch.tensor([rng.randrange(V) for _ in range(N)])
    train = torch.rand(N, generator=generator) < 0.4
    train[types % 3 == 0] = False
    train[:2] = torch.tensor([True, False])
    types[:2] = 1  # at least one word is seen
    shares = torch.rand(2, P, generator=generator)
    right = torch.rand(N, P, generator=generator) < 0.3 + 0.6 * shares[0]
    control = torch.rand(M, N, P, generator=generator) < 0.2 + 0.6 * shares[1]
    right |= train[:, None]
    control |= train[:, None]
    control[:, ~_met(types, train)] = False  # where it has no answer
    return right, control, types, train


def _selectivity_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, Tensor, Tensor, Tensor]]:
    sizes = ((3, 40, 7, 9), (1, 25, 1, 6), (2, 60, 5, 12), (4, 30, 3, 8))
    cases = [_probed(rng, generator, *size) for size in sizes]
    cases += [_probed(rng, generator, 6, 6, 6, 4) for _ in range(2)]  # axes alike
    right, control, types, train = _probed(rng, generator, 3, 20, 2, 5)
    cases.append((right, control, types * 1000 + 7, train))  # numbers with gaps
    alone = torch.zeros(20, dtype=torch.bool)
    alone[0] = True
    cases.append((right, control, types, alone))  # a single word to train on
    cases.append((control[0], right.expand(3, 20, 2), types, train))  # below zero
    return cases


SELECTIVITY = Task(
    name="selectivity",
    reference=_selectivity,
    visible=(
        (
            torch.tensor([[True], [True], [True], [False], [True]]),
            torch.tensor([[[True], [True], [False], [False], [False]]]),
            torch.tensor([4, 4, 4, 4, 9]),
            torch.tensor([True, False, False, False, False]),
        ),
        _probed(random.Random(1), Generator().manual_seed(1), 3, 12, 2, 6),
        _probed(random.Random(2), Generator().manual_seed(2), 2, 16, 3, 5),
        _probed(random.Random(3), Generator().manual_seed(3), 4, 10, 4, 4),
    ),
    hidden=_selectivity_hidden,
)


# --- code_length ----------------------------------------------------------------------------------

Sent = tuple[Tensor, Tensor, list[int]]


def _nats(logits: Tensor, label: int) -> float:
    """−ln p of one label, in double precision."""
    z = logits.double()
    return float(z.logsumexp(0) - z[label])


def _length(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
    """Label by label: which probe is the last that was trained before this label came?"""
    bits = 0.0
    for n, label in enumerate(labels.tolist()):
        trained = sum(end <= n for end in ends)
        if trained == 0:
            bits += math.log2(logits.shape[-1])
        else:
            bits += _nats(logits[trained - 1, n], label) / math.log(2)
    return bits


def _message(
    rng: random.Random, generator: Generator, N: int, K: int, ends: list[int], scale: float = 2.0
) -> Sent:
    """Labels, and probes that know what they were trained on better than the rest."""
    labels = torch.tensor([rng.randrange(K) for _ in range(N)])
    logits = scale * torch.randn(len(ends) - 1, N, K, generator=generator)
    for probe, end in zip(logits, ends[:-1], strict=True):
        probe[torch.arange(end), labels[:end]] += 3.0
        probe[torch.arange(end, N), labels[end:]] += 0.5
    return logits, labels, ends


def _length_hidden(rng: random.Random, generator: Generator) -> Sequence[Sent]:
    cases = []
    for N, K, blocks in ((12, 3, 4), (30, 17, 5), (9, 2, 3), (20, 5, 6)):
        ends = [*sorted(rng.sample(range(1, N), blocks - 1)), N]
        cases.append(_message(rng, generator, N, K, ends))
    n = rng.randint(4, 5)
    cases += [_message(rng, generator, n, n, list(range(1, n + 1))) for _ in range(2)]
    logits, labels, ends = _message(rng, generator, 10, 4, [2, 3, 7, 10])
    cases.append((logits.double(), labels, ends))
    cases.append((logits[:0], labels, [10]))  # one block: nothing is ever learned
    cases.append(_message(rng, generator, 12, 3, [2, 6, 12], scale=150.0))  # extreme logits
    # fewer labels occur than there are
    cases.append((logits, labels % 2, ends))
    return cases


CODE = Task(
    name="code_length",
    reference=_length,
    visible=(
        (
            torch.tensor([[[9.0, 0.0], [0.0, 0.0], [math.log(3), 0.0]]]),
            torch.tensor([0, 1, 1]),
            [1, 3],
        ),
        _message(random.Random(1), Generator().manual_seed(1), 8, 5, [2, 3, 8]),
        _message(random.Random(2), Generator().manual_seed(2), 6, 3, [1, 2, 4, 6]),
        _message(random.Random(3), Generator().manual_seed(3), 6, 4, [3, 5, 6], 150.0),
        (torch.zeros(0, 4, 8), torch.tensor([1, 1, 5, 0]), [4]),
    ),
    hidden=_length_hidden,
)


# --- without_directions ---------------------------------------------------------------------------


def _part(x: Tensor, V: Tensor) -> Tensor:
    """What of x (…, d) lies in the space of the rows of V, in double precision."""
    rows = V.double()
    inverse = torch.linalg.inv(rows @ rows.mT)
    found: Tensor = x.double() @ rows.mT @ inverse @ rows
    return found


def _without(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
    """By the normal equations."""
    found: Tensor = (x.double() - _part(x - middle, V)).to(x.dtype)
    return found


def _states(
    generator: Generator, shape: tuple[int, ...], k: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """States, directions of several lengths that are neither orthogonal nor nearly parallel."""
    d = shape[-1]
    Q = torch.linalg.qr(torch.randn(d, d, generator=generator)).Q
    mixed = (torch.eye(k) + 0.7 * torch.ones(k, k).tril(-1)) @ Q[:k]
    lengths = 0.4 + 2.5 * torch.rand(k, 1, generator=generator)
    x = 2 * torch.randn(*shape, generator=generator) + 1
    middle = torch.randn(d, generator=generator) - 0.5
    return x.to(dtype), (lengths * mixed).to(dtype), middle.to(dtype)


def _parallel(
    generator: Generator, shape: tuple[int, ...], k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_states`, but the last two directions are nearly parallel, their angle is .01."""
    x, V, middle = _states(generator, shape, k, torch.float64)
    Q = torch.linalg.qr(V.mT).Q
    V[-1] = 1.2 * (V[-2] + 0.01 * V[-2].norm() * Q[:, -1])
    return x, V, middle


def _without_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Tensor, Tensor, Tensor]]:
    shapes = ((7, 5), (4, 6), (3, 4, 8), (2, 3, 4, 6), (5,))
    cases = [_states(generator, shape, rng.randint(2, 3)) for shape in shapes]
    cases += [_states(generator, (9, 7), 1), _states(generator, (6,), 1)]
    cases += [_states(generator, (4, 4), 4), _states(generator, (5, 5), 3)]  # axes alike
    cases.append(_states(generator, (3, 2, 6), 3, torch.float64))
    cases.append(_states(generator, (1, 12), rng.randint(4, 5)))
    cases += [_parallel(generator, (3, 6), 2), _parallel(generator, (2, 2, 7), rng.randint(3, 4))]
    return cases


WITHOUT = Task(
    name="without_directions",
    reference=_without,
    visible=(
        (
            torch.tensor([[3.0, 1.0], [1.0, 3.0]]),
            torch.tensor([[2.0, 0.0]]),
            torch.tensor([2.0, 5.0]),
        ),
        (
            torch.tensor([[4.0, 1.0, 2.0], [0.0, 2.0, 7.0]]),
            torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]),
            torch.tensor([1.0, 1.0, 1.0]),
        ),
        _states(Generator().manual_seed(1), (2, 3, 5), 3),
        _states(Generator().manual_seed(2), (4,), 2, torch.float64),
        _parallel(Generator().manual_seed(3), (3, 5), 2),
    ),
    hidden=_without_hidden,
)

TASKS = (TABLE, CONTROL, SELECTIVITY, CODE, WITHOUT)
