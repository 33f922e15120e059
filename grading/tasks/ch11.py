"""Tasks of chapter 11: what a probe must beat, its control, its code, and taking away."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

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


def _last(tags: Sequence[str]) -> str:
    return _commonest(tags, tags[::-1])


def _newest(tags: Sequence[str]) -> str:
    """Of several, the one whose first time comes last, as `>=` finds it."""
    return _commonest(tags, [*dict.fromkeys(tags)][::-1])


def _by_letters(tags: Sequence[str]) -> str:
    return _commonest(tags, sorted(tags))


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


def _with(**choices: Callable[..., str]) -> Callable[[Words, Words, Words], Words]:
    return lambda words, tags, new: _told(words, tags, new, **choices)


def _by_types(words: Words, tags: Words, new: Words) -> Words:
    """The default is the tag of most types."""
    own = _told(words, tags, [*dict.fromkeys(word.lower() for word in words)])
    return _told(words, tags, new, default=lambda tags: _first(own))


def _by_answers(words: Words, tags: Words, new: Words) -> Words:
    """The default is the commonest of what the table says of the training words."""
    own = _told(words, tags, words)
    return _told(words, tags, new, default=lambda tags: _first(own))


def _first_letter(word: str) -> str:
    return word[:1].lower() + word[1:]


def _once(words: Words, tags: Words, new: Words) -> Words:
    """Every pair of a word and a tag counts once."""
    pairs = dict.fromkeys(zip(map(str.lower, words), tags, strict=True))
    return _told([w for w, _ in pairs], [t for _, t in pairs], new)


def _no_tie(own: Sequence[str], tags: Words) -> str:
    """The default where a word has no single commonest tag."""
    times = [own.count(tag) for tag in set(own)]
    return _first(own) if times.count(max(times)) == 1 else _first(tags)


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
    mistakes={
        "capital letters count in your table: “The” and “the” are one word.": _with(
            before=str, after=str
        ),
        "the new words keep their capital letters: “The” and “the” are one word.": _with(after=str),
        "the training words keep their capital letters: “The” and “the” are one word.": _with(
            before=str
        ),
        "only the first letter is made small: “THE” and “the” are one word, too.": _with(
            before=_first_letter, after=_first_letter
        ),
        "only the first letter of the new words is made small: “THE” and “the” are one word.": (
            _with(after=_first_letter)
        ),
        "only the first letter of the training words is made small: “THE” and “the” are one word, "
        "too.": _with(before=_first_letter),
        "a word has the tag that it had last in your table: asked for is its commonest one.": (
            _with(known=lambda own: own[-1])
        ),
        "a word has the tag that it had first in your table: asked for is its commonest one.": (
            _with(known=lambda own: own[0])
        ),
        "of a word's tags that are equally common, yours is the one that comes last.": (
            _with(known=_last)
        ),
        "of a word's tags that are equally common, yours is the one that was met last of all, as "
        "with >= in place of >: the one that comes first is asked for.": _with(known=_newest),
        "of tags that are equally common, yours is the one that was met last of all, as with >= in "
        "place of >, for words and for the default.": _with(known=_newest, default=_newest),
        "of a word's tags that are equally common, yours is the one that comes first in `tags`: "
        "the one that comes first among this word's own is asked for.": lambda words, tags, new: (
            _told(words, tags, new, known=lambda own: _commonest(own, tags))
        ),
        "of a word's tags that are equally common, yours is the first one of the alphabet: the one "
        "that comes first in the training words is asked for.": _with(known=_by_letters),
        "of tags that are equally common, yours is the first one of the alphabet, for words and "
        "for the default: the one that comes first in the training words is asked for.": _with(
            known=_by_letters, default=_by_letters
        ),
        "of tags that are equally common, yours is the one that comes last, for words and for the "
        "default.": _with(known=_last, default=_last),
        "of defaults that are equally common, yours is the first one of the alphabet: the one that "
        "comes first in the training words is asked for.": _with(default=_by_letters),
        "of defaults that are equally common, yours is the one that comes last.": (
            _with(default=_last)
        ),
        "of defaults that are equally common, yours is the one that was met last of all, as with "
        ">= in place of >: the one that comes first is asked for.": _with(default=_newest),
        "your default is NOUN: it is the commonest tag of these training words.": _with(
            default=lambda tags: "NOUN"
        ),
        "your default is the first tag of all: it is the commonest one.": _with(
            default=lambda tags: tags[0]
        ),
        "your default is the tag of most types: every training word counts.": _by_types,
        "your default is the commonest of your table's own answers: it is the commonest of `tags`, "
        "every training word counted with the tag that it has there.": _by_answers,
        "every pair of a word and a tag counts once in your table: each time counts.": _once,
        "a word with two equally common tags gets the default in your table: it gets the one that "
        "comes first.": lambda words, tags, new: _told(
            words, tags, new, known=lambda own: _no_tie(own, tags)
        ),
        "every word gets the default in your table.": lambda words, tags, new: (
            [_first(tags)] * len(new)
        ),
        "these are the tags of the training words: asked for are those of the new ones.": (
            lambda words, tags, new: _told(words, tags, words)
        ),
        "a new word that occurs twice has one answer only: the list is as long as `new`.": (
            lambda words, tags, new: _told(words, tags, list(dict.fromkeys(new)))
        ),
        "words that were never met have no answer: they get the default.": (
            lambda words, tags, new: [
                tag for tag in _told(words, tags, new, default=lambda tags: "") if tag
            ]
        ),
    },
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


def _reaching(tags: Sequence[int], u: float) -> int:
    """The smallest label whose share of smaller or equal ones is u or more."""
    labels = range(max(tags) + 1)
    return next(k for k in labels if sum(tag <= k for tag in tags) / len(tags) >= u)


def _by_frequency(tags: Sequence[int], u: float) -> int:
    """The labels stand in the order of their frequency."""
    rank = [tag for tag, times in Counter(sorted(tags)).most_common() for _ in range(times)]
    return rank[math.floor(u * len(tags))]


def _evenly(tags: Sequence[int], u: float) -> int:
    return math.floor(u * (max(tags) + 1))


def _evenly_met(tags: Sequence[int], u: float) -> int:
    met = sorted(set(tags))
    return met[math.floor(u * len(met))]


def _of_types(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    """Every type counts once, with the first tag that it has."""
    first = dict(zip(types.flip(0).tolist(), tags.flip(0).tolist(), strict=True))
    return _control(types, torch.tensor(list(first.values())), u)


def _each_word(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    return _control(torch.arange(len(types)), tags, u)


def _as_they_come(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    order = {kind: n for n, kind in enumerate(dict.fromkeys(types.tolist()))}
    return _control(torch.tensor([order[kind] for kind in types.tolist()]), tags, u)


def _counted_below(types: Tensor, tags: Tensor, u: Tensor, total: int, sums: bool) -> Tensor:
    """Shares of another total, or not summed up."""
    counts = tags.bincount()
    shares = (counts.cumsum(0) if sums else counts) / total
    found: Tensor = (shares[:, None] <= u).sum(0)[types]
    return found


def _closed_tags(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    """The place of the label among those that occur."""
    return torch.searchsorted(tags.unique(), _control(types, tags, u))


def _closed_up(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    return _control(types.unique(return_inverse=True)[1], tags, u)


def _true_tag(types: Tensor, tags: Tensor, u: Tensor) -> Tensor:
    found: Tensor = torch.stack([tags[types == kind].mode().values for kind in types])
    return found


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
    mistakes={
        "every label is equally likely in your draw: a label is drawn as often as it occurs.": (
            lambda types, tags, u: _drawn(types, tags, u, _evenly)
        ),
        "every label that occurs is equally likely in your draw: it is drawn as often as it "
        "occurs.": lambda types, tags, u: _drawn(types, tags, u, _evenly_met),
        "a share that equals the number of the type is enough for you: it must be larger.": (
            lambda types, tags, u: _drawn(types, tags, u, _reaching)
        ),
        "your labels stand in the order of their frequency: they stand in their own order, 0, 1, "
        "2 …": lambda types, tags, u: _drawn(types, tags, u, _by_frequency),
        "every type counts once in your shares: every word does.": _of_types,
        "every word draws for itself: all words of a type have the same label.": _each_word,
        "the types draw in the order in which they appear: type v draws with u[v].": _as_they_come,
        "you number the types anew: type v draws with u[v], whatever types there are.": _closed_up,
        "you number the tags anew: a tag that does not occur is never drawn, and the others keep "
        "their numbers.": _closed_tags,
        "this is one label for every type: one for every word is asked for.": (
            lambda types, tags, u: _control(torch.arange(len(u)), tags, u)
        ),
        "this is the commonest true tag of each type: a control label has nothing to do with it.": (
            _true_tag
        ),
        "you compare u with the share of each label alone: the shares of the labels up to k are to "
        "be summed up, with cumsum.": lambda types, tags, u: _counted_below(
            types, tags, u, len(tags), sums=False
        ),
        "you divide by the number of types: the shares are those of the N words.": (
            lambda types, tags, u: _counted_below(types, tags, u, len(u), sums=True)
        ),
        "your shares begin at the largest label: they begin at 0.": lambda types, tags, u: (
            tags.max() - _control(types, tags.max() - tags, u)
        ),
    },
)


# --- selectivity ----------------------------------------------------------------------------------


def _met(types: Tensor, train: Tensor) -> Tensor:
    """Words whose type occurs in training."""
    known = set(types[train].tolist())
    return torch.tensor([kind in known for kind in types.tolist()])


def _mean(right: Tensor, places: Tensor) -> Tensor:
    return right.float()[..., places, :].mean(-2)


def _less(right: Tensor, control: Tensor, one: Tensor, other: Tensor | None = None) -> Tensor:
    """Task less control, each on its own words."""
    return _mean(right, one) - _mean(control, one if other is None else other).mean(0)


def _seen(types: Tensor, train: Tensor) -> Tensor:
    return ~train & _met(types, train)


def _selectivity(right: Tensor, control: Tensor, types: Tensor, train: Tensor) -> Tensor:
    """Word by word, in a loop."""
    known = {int(kind) for kind, used in zip(types, train, strict=True) if used}
    found = [
        right[n].float() - control[:, n].float().mean(0)
        for n in range(len(types))
        if not train[n] and int(types[n]) in known
    ]
    return torch.stack(found).mean(0)


Way = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _on(way: Callable[[Tensor, Tensor], Tensor]) -> Way:
    """Both tasks on other words."""
    return lambda right, control, types, train: _less(right, control, way(types, train))


def _mean_of_types(right: Tensor, control: Tensor, types: Tensor, train: Tensor) -> Tensor:
    seen = _seen(types, train)
    kinds = types[seen].unique()
    return torch.stack([_less(right, control, seen & (types == kind)) for kind in kinds]).mean(0)


def _draws(pick: Callable[[Tensor], Tensor]) -> Way:
    """The accuracies (M, P) of the draws put together in another way."""
    return lambda right, control, types, train: (
        _mean(right, _seen(types, train)) - pick(_mean(control, _seen(types, train)))
    )


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
    mistakes={
        "you count all test words: for a word whose type is not in training the control has no "
        "answer.": _on(lambda types, train: ~train),
        "you score the task on all test words and the control on the words met: both are scored on "
        "the same words.": lambda right, control, types, train: _less(
            right, control, ~train, _seen(types, train)
        ),
        "you score the task on the words met and the control on all test words: both are scored on "
        "the same words.": lambda right, control, types, train: _less(
            right, control, _seen(types, train), ~train
        ),
        "you score the task on the words met and the control on all words: both are scored on the "
        "same words.": lambda right, control, types, train: _less(
            right, control, _seen(types, train), torch.ones_like(train)
        ),
        "the sign is lost: a probe that tells the control better than the task has a selectivity "
        "below 0.": lambda right, control, types, train: _selectivity(
            right, control, types, train
        ).abs(),
        "what is below 0 is cut off: a probe that tells the control better than the task has a "
        "selectivity below 0.": lambda right, control, types, train: _selectivity(
            right, control, types, train
        ).clamp(min=0),
        "you count the training words as well: a probe knows those by heart.": _on(_met),
        "you count all words there are.": _on(lambda types, train: torch.ones_like(train)),
        "you score the words on which the probe was trained.": _on(lambda types, train: train),
        "you score the words whose type is not in training: asked for are the others.": _on(
            lambda types, train: ~_met(types, train)
        ),
        "the sign is the other way round: it is task less control.": (
            lambda right, control, types, train: -_selectivity(right, control, types, train)
        ),
        "you use the first draw only: the mean over all draws is asked for.": _draws(
            lambda found: found[0]
        ),
        "you add the draws up: their mean is asked for.": _draws(lambda found: found.sum(0)),
        "you take the best draw: their mean is asked for.": _draws(lambda found: found.amax(0)),
        "you keep a row for every draw: the mean over them is asked for.": (
            lambda right, control, types, train: (
                _mean(right, _seen(types, train)) - _mean(control, _seen(types, train))
            )
        ),
        "you take the mean of the types' means: every word counts alike.": _mean_of_types,
        "this is the share that the task gets and no draw of the control: subtract the two "
        "accuracies.": lambda right, control, types, train: _mean(
            right & ~control.any(0), _seen(types, train)
        ),
        "this is the accuracy on the task alone.": lambda right, control, types, train: _mean(
            right, _seen(types, train)
        ),
        "this is one number for all probes: each has its own.": (
            lambda right, control, types, train: (
                _selectivity(right, control, types, train).mean().expand(right.shape[1])
            )
        ),
        "you divide by the control's accuracy: subtract it.": lambda right, control, types, train: (
            _mean(right, _seen(types, train)) / _mean(control, _seen(types, train)).mean(0)
        ),
    },
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


def _priced(
    which: Callable[[int, int], int | None], unit: float = math.log(2)
) -> Callable[[Tensor, Tensor, list[int]], float]:
    """Every label by the probe that `which` names, from its block and the number of probes."""

    def length(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
        total = 0.0
        for n, label in enumerate(labels.tolist()):
            probe = which(sum(end <= n for end in ends), len(logits))
            uniform = math.log(logits.shape[-1])
            total += uniform if probe is None else _nats(logits[probe, n], label)
        return total / unit

    return length


def _own(block: int, probes: int) -> int | None:
    """The probe that was trained before the block."""
    return block - 1 if block else None


def _after(block: int, probes: int) -> int | None:
    """The probe that was trained on the block as well; the last one has none."""
    return min(block, probes - 1)


def _after_first(block: int, probes: int) -> int | None:
    return _after(block, probes) if block else None


def _as_given(unit: float) -> Callable[[Tensor, Tensor, list[int]], float]:
    """As the task prints it: the probe of a block has seen it, and the last block is missing."""
    way = _priced(lambda block, probes: block, unit)

    def length(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
        n = ends[-2] if len(ends) > 1 else 0
        return way(logits, labels[:n], ends)

    return length


def _first_block(cost: Callable[[Tensor, Tensor, list[int]], float]) -> Callable[..., float]:
    """The code with another price for the first block."""
    return lambda logits, labels, ends: (
        (_length(logits, labels, ends) - ends[0] * math.log2(logits.shape[-1]))
        + cost(logits, labels, ends)
    )


def _unnormalised(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
    bits = ends[0] * math.log2(logits.shape[-1])
    for probe, begin, end in zip(logits, ends[:-1], ends[1:], strict=True):
        rows = probe[begin:end].double()
        bits -= rows.gather(-1, labels[begin:end, None]).sum().item() / math.log(2)
    return bits


def _averaged(logits: Tensor, labels: Tensor, ends: list[int], first: int = 1) -> float:
    """The mean of a block where its sum is asked for, the first one counted so many times."""
    total = first * math.log2(logits.shape[-1])
    for i, (begin, end) in enumerate(pairwise(ends)):
        block = [_nats(logits[i, n], int(labels[n])) for n in range(begin, end)]
        total += sum(block) / len(block) / math.log(2)
    return total


def _half_mended(first: float, unit: float) -> Callable[..., float]:
    """As given, with the first block and the unit mended, or one of them, and not the probes."""
    return lambda logits, labels, ends: (
        ends[0] * math.log(logits.shape[-1]) / first + _as_given(unit)(logits, labels, ends)
    )


def _softmax_then_log(logits: Tensor, labels: Tensor, ends: list[int], more: float = 0.0) -> float:
    bits = ends[0] * math.log2(logits.shape[-1])
    for probe, begin, end in zip(logits, ends[:-1], ends[1:], strict=True):
        log_p = (probe[begin:end].softmax(-1) + more).log()
        bits -= log_p.gather(-1, labels[begin:end, None]).sum().item() / math.log(2)
    return bits


def _along_labels(log: Callable[[Tensor, int, int], Tensor]) -> Callable[..., float]:
    """A softmax along another axis than that of the classes."""

    def length(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
        bits = ends[0] * math.log2(logits.shape[-1])
        for probe, (begin, end) in zip(logits, pairwise(ends), strict=True):
            log_p = log(probe.double(), begin, end)
            bits -= log_p.gather(-1, labels[begin:end, None]).sum().item() / math.log(2)
        return bits

    return length


def _later(unit: float) -> Callable[[Tensor, Tensor, list[int]], float]:
    """The first block in bits, the others in another unit."""

    def length(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
        uniform = ends[0] * math.log(logits.shape[-1])
        nats = _priced(_own, 1.0)(logits, labels, ends)
        return uniform / math.log(2) + (nats - uniform) / unit

    return length


def _stretches(
    places: Callable[[list[int]], Sequence[tuple[int, int]]],
) -> Callable[[Tensor, Tensor, list[int]], float]:
    """The probes price other stretches of the labels than their blocks."""

    def length(logits: Tensor, labels: Tensor, ends: list[int]) -> float:
        bits = ends[0] * math.log2(logits.shape[-1])
        for probe, (begin, end) in zip(logits, places(ends), strict=True):
            for row, label in zip(probe[begin:end], labels[begin:end].tolist(), strict=True):
                bits += _nats(row, label) / math.log(2)
        return bits

    return length


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
    mistakes={
        "this is the length in nats: a bit is ln 2 of them.": _priced(_own, 1.0),
        "your first block is in bits and the others are in nats.": _later(1.0),
        "your first block is in nats and the others are in bits.": _first_block(
            lambda logits, labels, ends: ends[0] * math.log(logits.shape[-1])
        ),
        "this is still the given function: your friend has no probe that was trained on a block "
        "before the block has come.": _as_given(1.0),
        "this is the given function in bits: your friend has no probe that was trained on a block "
        "before the block has come.": _as_given(math.log(2)),
        "the first block is right, and so is the unit, but the probes are still those of the given "
        "function: the block after the first goes to the probe that was trained on the first one, "
        "number 0.": _half_mended(math.log(2), math.log(2)),
        "the first block is right; the unit and the probes are still those of the given function: "
        "the block after the first goes to the probe that was trained on the first one, number 0, "
        "and a bit is ln 2 nats.": _half_mended(math.log(2), 1.0),
        "you have added the first block, in nats; the unit and the probes are still those of the "
        "given function.": _half_mended(1.0, 1.0),
        "the probes are right; the first block and the unit are still as in the given function.": (
            lambda logits, labels, ends: (
                _priced(_own, 1.0)(logits, labels, ends) - ends[0] * math.log(logits.shape[-1])
            )
        ),
        "a block is priced by the probe that was trained on it, too: your friend has only the one "
        "before it.": _priced(_after),
        "the first block is right, and each later one is priced by the probe that was trained on "
        "it, too: your friend has only the one before it.": _priced(_after_first),
        "the last probe prices all later blocks: each has the probe that was trained just before "
        "it.": _priced(lambda block, probes: probes - 1 if block else None),
        "the last probe prices the whole message: each block has the probe that was trained just "
        "before it, and the first one has none.": _priced(lambda block, probes: probes - 1),
        "the first block is priced by probe 0, which was trained on it: your friend has no probe "
        "yet, so each of its labels costs log₂ K.": _priced(
            lambda block, probes: max(block - 1, 0)
        ),
        "each probe prices all labels from the first one to the end of its block: only those of "
        "the block are new.": _stretches(lambda ends: [(0, end) for end in ends[1:]]),
        "you take `ends` for the lengths of the blocks: they are the places where they end.": (
            _stretches(lambda ends: list(pairwise(accumulate(ends))))
        ),
        "the first probe prices all later blocks: each has the probe that was trained just before "
        "it.": _priced(lambda block, probes: 0 if block else None),
        "the first block is missing: its labels cost log₂ K each.": _first_block(
            lambda logits, labels, ends: 0.0
        ),
        "the first block costs log₂ K as a whole in your code: each of its labels costs that.": (
            _first_block(lambda logits, labels, ends: math.log2(logits.shape[-1]))
        ),
        "you count the labels that occur: K is the number of classes, the last axis of the "
        "logits.": _first_block(
            lambda logits, labels, ends: ends[0] * math.log2(len(labels.unique()))
        ),
        "you take the largest label for the last of the classes: K is the last axis of the logits, "
        "also if not every class occurs.": _first_block(
            lambda logits, labels, ends: ends[0] * math.log2(int(labels.max()) + 1)
        ),
        "a label of the first block costs one bit in your code: it costs log₂ K.": _first_block(
            lambda logits, labels, ends: float(ends[0])
        ),
        "the last block is missing.": lambda logits, labels, ends: _length(
            logits, labels[: ends[-2] if len(ends) > 1 else ends[0]], ends
        ),
        "you take the logits for logarithms of probabilities: the softmax is missing.": (
            _unnormalised
        ),
        "the logarithm comes after the softmax: for an extreme logit that has become 0 already, "
        "and the length is infinite. log_softmax does both at once.": _softmax_then_log,
        **{
            f"{more} is added to the probabilities before the logarithm: for an extreme logit the "
            "price is then too low. log_softmax needs no such number.": partial(
                _softmax_then_log, more=more
            )
            for more in (1e-8, 1e-9, 1e-10, 1e-12)
        },
        "you multiply the length by ln 2: a bit is ln 2 nats, so divide the nats by it.": (
            _priced(_own, 1 / math.log(2))
        ),
        "the first block is right, and the others are multiplied by ln 2: a bit is ln 2 nats, so "
        "divide the nats by it.": _later(1 / math.log(2)),
        "your softmax runs along the labels of a block: it runs along the classes, the last "
        "axis.": _along_labels(lambda probe, begin, end: probe[begin:end].log_softmax(0)),
        "your softmax runs along all labels of the text: it runs along the classes, the last "
        "axis.": _along_labels(lambda probe, begin, end: probe.log_softmax(0)[begin:end]),
        "each probe prices all labels from its block to the end: it has only the block that comes "
        "after its training.": _stretches(lambda ends: [(end, ends[-1]) for end in ends[:-1]]),
        "you take the mean of each block: the sum is asked for.": _averaged,
        "you take the mean of each later block: the sum is asked for.": (
            lambda logits, labels, ends: _averaged(logits, labels, ends, ends[0])
        ),
        "this is the length for one label: the whole message is asked for.": (
            lambda logits, labels, ends: _length(logits, labels, ends) / len(labels)
        ),
        "this is a share of the uniform code: the bits are asked for.": (
            lambda logits, labels, ends: (
                _length(logits, labels, ends) / (len(labels) * math.log2(logits.shape[-1]))
            )
        ),
        "this is how often the uniform code is longer: the bits are asked for.": (
            lambda logits, labels, ends: (
                len(labels) * math.log2(logits.shape[-1]) / _length(logits, labels, ends)
            )
        ),
        "the sign is the other way round.": lambda logits, labels, ends: (
            -_length(logits, labels, ends)
        ),
    },
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


def _unit(V: Tensor) -> Tensor:
    found: Tensor = V / V.norm(dim=-1, keepdim=True)
    return found


def _one_by_one(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
    """One direction after the other, though they are not orthogonal."""
    for v in V:
        x = _without(x, v[None], middle)
    return x


def _at_once(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
    """All coordinates along unit vectors, though they are not orthogonal."""
    return x - (x - middle) @ _unit(V).mT @ _unit(V)


def _no_length(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
    """One direction after the other, none of them of length 1."""
    for v in V:
        x = x - ((x - middle) @ v)[..., None] * v
    return x


def _straight_no_length(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
    """Every direction is put at right angles to all before it, by steps for length 1."""
    basis: list[Tensor] = []
    for v in V:
        for one in basis:
            v = v - (v @ one) * one
        basis.append(v)
    return _no_length(x, torch.stack(basis), middle)


def _partly_straight(
    against: int, then: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Every direction is put at right angles to one of those before it, and not to all."""

    def without(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
        basis: list[Tensor] = []
        for v in V:
            one = v - (v @ basis[against]) * basis[against] if basis else v
            basis.append(one / one.norm())
        return then(x, torch.stack(basis), middle)

    return without


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


def _rough(x: Tensor, V: Tensor, middle: Tensor) -> Tensor:
    """With a line that leaves out directions: the small singular values of V count as 0."""
    found: Tensor = x - (x - middle) @ torch.linalg.pinv(V, rtol=0.1) @ V
    return found


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
    mistakes={
        "your coordinates end at 0: they are set to those of `middle`.": (
            lambda x, V, middle: _without(x, V, torch.zeros_like(middle))
        ),
        "your directions are not of length 1: divide by it.": (
            lambda x, V, middle: x - (x - middle) @ V.mT @ V
        ),
        "you remove one direction after the other, and they are not of length 1; divided by it, "
        "they would still not be orthogonal to each other.": _no_length,
        "you put the directions at right angles, but as if they were of length 1: divide each by "
        "its length, before it is used for the next one, too.": _straight_no_length,
        "you divide by the length once, and the direction comes in twice: v · v is the length "
        "squared.": lambda x, V, middle: x - (x - middle) @ V.mT @ _unit(V),
        "you remove one direction after the other: they are not orthogonal, so removing the second "
        "brings back some of the first.": _one_by_one,
        "you remove each direction as if it were alone: they are not orthogonal, so what they "
        "share is removed twice.": _at_once,
        "each direction is put at right angles to the first one only: all those before it are to "
        "be taken off.": _partly_straight(0, _one_by_one),
        "each direction is put at right angles to the first one only, so what the others share is "
        "removed twice.": _partly_straight(0, _at_once),
        "each direction is put at right angles to the one just before it only: all those before it "
        "are to be taken off.": _partly_straight(-1, _one_by_one),
        "each direction is put at right angles to the one just before it only, so what it shares "
        "with others is removed twice.": _partly_straight(-1, _at_once),
        "only the first direction is gone.": lambda x, V, middle: _without(x, V[:1], middle),
        "only the last direction is gone.": lambda x, V, middle: _without(x, V[-1:], middle),
        "two directions that are nearly parallel count as one in yours, as with a large `rtol`: "
        "they are two, and both have to go.": _rough,
        "the sign is wrong: what changes is the part of x − middle along the directions, and it is "
        "subtracted from x, not added.": lambda x, V, middle: (
            x.double() + _part(x - middle, V)
        ).to(x.dtype),
        "this is what is removed: what stays is asked for.": (
            lambda x, V, middle: _part(x - middle, V).to(x.dtype)
        ),
        "only the directions are left: they are what is to go.": (
            lambda x, V, middle: (middle.double() + _part(x - middle, V)).to(x.dtype)
        ),
        "you add the whole of `middle`: only its coordinates along the directions come in.": (
            lambda x, V, middle: _without(x, V, torch.zeros_like(middle)) + middle
        ),
        "`middle` is subtracted and does not come back.": (
            lambda x, V, middle: _without(x, V, middle) - middle
        ),
        "you set the coordinates to the mean of the states that you were given: `middle` is the "
        "mean.": lambda x, V, middle: _without(x, V, x.reshape(-1, x.shape[-1]).mean(0)),
        "you set every coordinate to that of `middle`.": lambda x, V, middle: middle.expand_as(x),
        "the coordinates have changed sides instead of ending at `middle`.": (
            lambda x, V, middle: (x.double() - 2 * _part(x - middle, V)).to(x.dtype)
        ),
        "the mean of the directions is gone: all of them have to go.": (
            lambda x, V, middle: _without(x, V.mean(0, keepdim=True), middle)
        ),
    },
)

TASKS = (TABLE, CONTROL, SELECTIVITY, CODE, WITHOUT)
