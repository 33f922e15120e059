"""Tasks of chapter 11: what a probe must beat, its control, its code, and taking away."""

import math
import random

import torch
from torch import Generator, Tensor

from grading.properties import varied
from grading.task import Task

Lead = tuple[int, ...]

# --- table_of_words -------------------------------------------------------------------------------

Words = list[str]


def _commonest(tags: Words) -> str:
    """Of several, the one that stands first."""
    return max(tags, key=tags.count)


def _table(words: Words, tags: Words, new: Words) -> Words:
    """Word by word, from the whole list."""
    answers = []
    for word in map(str.lower, new):
        own = [tag for one, tag in zip(words, tags, strict=True) if one.lower() == word]
        answers.append(_commonest(own or tags))
    return answers


TAGS = ("NOUN", "VERB", "DET", "ADJ", "ADV")
TYPES = ("film", "like", "the", "that", "good", "well", "love", "it")


def _cased(rng: random.Random, word: str) -> str:
    return rng.choice((word, word, word.capitalize(), word.upper(), word[:-1] + word[-1].upper()))


def _drawn_texts(
    rng: random.Random, generator: Generator, n: int, m: int
) -> tuple[Words, Words, Words]:
    """Words in small and large letters, and new ones; what is usual changes within the text."""
    types = rng.sample(TYPES, rng.randint(3, 6))
    usual = {word: rng.sample(TAGS, 2) for word in types}
    words = [rng.choice(types) for _ in range(5 * n - 4)]
    tags = [usual[word][rng.random() < 2 * i / len(words)] for i, word in enumerate(words)]
    new = [rng.choice((*types, "plot", "unmet")) for _ in range(5 * m)]
    return [_cased(rng, w) for w in words], tags, [_cased(rng, w) for w in new]


def _ties(rng: random.Random, generator: Generator) -> list[tuple[Words, Words, Words]]:
    words = ["so", "So", "bad", "SO", "so", "bad"]
    # one word is most of the text, and one tag belongs to most words
    most = ["the"] * 5 + ["film", "plot", "joy", "end"]
    return [
        # the last tag of a word, and the first of all tags
        (words, ["VERB", "ADV", "ADJ", "ADV", "VERB", "NOUN"], ["bad", "so", "Bad", "new", "SO"]),
        # the first of the alphabet, and the last
        (words, ["X", "A", "X", "A", "X", "A"], ["bad", rng.choice(("SO", "so")), "new"]),
        (words, ["B", "A", "A", "C", "C", "B"], ["new", "so", "bad"]),
        # the tag that came first, in a spelling that did not
        (["so", "So", "so", "So", "so"], list("ABCBC"), ["so"]),
        # the default of most types
        (most, ["DET"] * 5 + ["NOUN"] * 4, ["end", "of", "THE", "cast"]),
        # words of points alone, and words with a stroke
        ([".", ",", ","], list("CDD"), [".", ","]),
        (["and/or", "and", "1/2"], list("CAB"), ["1/2", "And/or", "and"]),
        (["x", " new", "it"], list("ABC"), ["it", "new", "IT"]),  # a blank makes another word
        # the first tag, the last one, the first of the alphabet, and the last of three that tie
        (["so"] * 8, list("ZCACABBY"), ["so", "new"]),
        # the first that a set happens to give
        *((["so"] * 12, rng.sample("ABCDEFGHIJKL", 12), ["so", "new"]) for _ in range(2)),
    ]


TABLE = Task(
    name="table_of_words",
    reference=_table,
    visible=(
        (["I", "like", "films", "like", "these", "Like"], list("PVNNDA"), ["like", "I", "plot"]),
        (
            ["The", "the", "a", "and/or", "film", "The", "joy", "end"],
            ["DET", "DET", "DET", "NOUN", "NOUN", "DET", "NOUN", "NOUN"],
            ["THE", "film", "cast", "Joy", "cast"],
        ),
        (
            ["that", "love", "SO", "so", "love", "so", "so", "that", "that", "Love", "love"],
            ["PRON", "NOUN", "CONJ", "ADV", "VERB", "ADV", "CONJ", "DET", "DET", "NOUN", "VERB"],
            ["so", "love", "that", "unmet"],
        ),
        (
            ["as", "As", "weLL", "as", "well", "well", "well", "as", "so"],
            ["B", "C", "A", "C", "B", "A", "B", "A", "C"],
            ["As", "WELL", "new"],
        ),
        (["b", "a", "A", "a", "a", "c", "C", "B", "b"], list("ABABADCBE"), ["a", "B", "c", "d"]),
        (["go", "Go", "stop"], ["VERB", "NOUN", "NOUN"], []),
    ),
    hidden=varied(_drawn_texts, {"n": 1, "m": 0}, dtypes=(), also=_ties),
)


# --- control_labels -------------------------------------------------------------------------------


def _control(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    """By sorting all tags: the one that stands at the share u."""
    tags = tags.sort().values
    return torch.stack([tags[math.floor(one * len(tags))] for one in u.tolist()])[types]


def _sample(
    rng: random.Random, N: int, V: int, K: int, past: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Types, tags of unequal frequency, and numbers well between k / N and the next, or `past`."""
    kinds = sorted(rng.sample(range(5 * K), K))
    types = [rng.randrange(V) for _ in range(N)]
    tags = [kinds[min(rng.randrange(K), rng.randrange(K))] for _ in range(N)]
    steps = [rng.randrange(N) + (rng.uniform(0.1, 0.9) if past is None else past) for _ in range(V)]
    return torch.tensor(types), torch.tensor(tags), torch.tensor([step / N for step in steps])


def _drawn_labels(
    rng: random.Random, generator: Generator, N: int, V: int, K: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _sample(rng, 3 * N - 2, 3 * V - 2, K)


def _equal(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Numbers equal to a share, exactly, and just below one."""
    near = ((16, 0), (8, 0), (16, 1 - 2**-20), (22, 0.999))
    return [_sample(rng, N, 30, 4, past) for N, past in near]


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
        _sample(random.Random(8), 16, 16, 3, 0),
    ),
    hidden=varied(_drawn_labels, {"N": 1, "V": 1, "K": 1}, dtypes=(), also=_equal),
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
    rng: random.Random, generator: Generator, N: int, M: int, P: int, V: int
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
    return right, control, types * rng.choice((1, 1000)) + 7, train


def _few_and_many(rng: random.Random, generator: Generator) -> list[tuple[Tensor, ...]]:
    """Axes that are dropped: one word to train on, one to score. Types beyond the first; many."""
    sizes = ((2, 1, 1, 2), (80, 2, 3, 30), (90, 30, 1, 2))
    return [_probed(rng, generator, *one) for one in sizes]


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
        _probed(random.Random(1), Generator().manual_seed(1), 12, 3, 2, 6),
        _probed(random.Random(2), Generator().manual_seed(2), 16, 2, 3, 5),
        _probed(random.Random(3), Generator().manual_seed(3), 10, 4, 4, 4),
    ),
    hidden=varied(_probed, {"N": 6, "M": 1, "P": 1, "V": 2}, dtypes=(), also=_few_and_many),
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
    """Labels, often not of all kinds; probes know what they were trained on better."""
    kinds = rng.sample(range(K), max(2, K - 1))
    labels = torch.tensor(rng.choices(kinds, k=N))
    logits, rows = (torch.randn(len(ends) - 1, N, k, generator=generator) for k in (K, 1))
    logits = scale * (logits + rows)
    for probe, end in zip(logits, ends[:-1], strict=True):
        probe[torch.arange(end), labels[:end]] += 3.0
        probe[torch.arange(end, N), labels[end:]] += 0.5
    return logits, labels, ends


def _drawn_message(rng: random.Random, generator: Generator, N: int, K: int, B: int) -> Sent:
    N = 9 * N - 8
    ends = [*sorted(rng.sample(range(1, N), min(B, N) - 1)), N]
    return _message(rng, generator, N, K, ends)


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
    hidden=varied(
        _drawn_message, {"N": 1, "K": 2, "B": 1}, dtypes=(torch.float64,), scaled=((0, 100),)
    ),
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
    found: Tensor = (x.double() - _part(x.double() - middle, V)).to(x.dtype)
    return found


def _states(
    generator: Generator, shape: Lead, k: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """States, directions of several lengths that are neither orthogonal nor nearly parallel."""
    d = shape[-1]
    Q = torch.linalg.qr(torch.randn(d, d, generator=generator)).Q
    mixed = (torch.eye(k) + 0.7 * torch.ones(k, k).tril(-1)) @ Q[:k]
    lengths = 0.4 + 2.5 * torch.rand(k, 1, generator=generator)
    x = 2 * torch.randn(*shape, generator=generator) + 1
    middle = torch.randn(d, generator=generator) - 0.5
    return x.to(dtype), (lengths * mixed).to(dtype), middle.to(dtype)


def _parallel(generator: Generator, shape: Lead, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """As `_states`, but the last two directions are nearly parallel, their angle is .01."""
    x, V, middle = _states(generator, shape, k, torch.float64)
    Q = torch.linalg.qr(V.mT).Q
    V[-1] = 1.2 * (V[-2] + 0.01 * V[-2].norm() * Q[:, -1])
    return x, V, middle


def _drawn_states(
    rng: random.Random, generator: Generator, d: int, k: int, lead: Lead
) -> tuple[Tensor, Tensor, Tensor]:
    return _states(generator, (*lead, d), min(k, d))


def _angles(rng: random.Random, generator: Generator) -> list[tuple[Tensor, Tensor, Tensor]]:
    """A pseudo-inverse that cuts: two directions nearly parallel, or one far shorter than others.

    And states as many as wide.
    """
    close = [_parallel(generator, (3, 6), 2), _parallel(generator, (2, 2, 7), rng.randint(3, 4))]
    x, V, middle = _states(generator, (3, 6), 2, torch.float64)
    V[1] *= 1e-6
    short = (close[0][0], 1e-5 * close[0][1], close[0][2])
    return [*close, short, (x, V, middle), _states(generator, (5, 5), 3)]


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
    hidden=varied(
        _drawn_states,
        {"d": 1, "k": 1},
        lead=True,
        dtypes=(torch.float64,),  # torch has no qr in half precision
        scaled=((1, 1e-3),),
        also=_angles,
    ),
)

TASKS = (TABLE, CONTROL, SELECTIVITY, CODE, WITHOUT)
