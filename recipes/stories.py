"""The texts of chapter 15: stories about two people, words that repeat, and sequences that fork.

Of each text there are two runs of the same length, clean and corrupted, and two tokens that
compete at its end. What differs between the two runs, and where it stands, is the corruption.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.pretrained import LanguageModel

TEMPLATES = (  # the first half is for choosing, the second for reporting
    "When {} and {} went to the store, {} gave a drink to",
    "After {} and {} met at the park, {} handed a flower to",
    "While {} and {} were at work, {} sent a letter to",
    "Before {} and {} left the office, {} gave the keys to",
    "Then {} and {} had a long talk, and {} told a secret to",
    "The day {} and {} visited the museum, {} showed a picture to",
    "Once {} and {} arrived at the school, {} offered an apple to",
    "As {} and {} walked along the river, {} lent an umbrella to",
    "Because {} and {} were old friends, {} wrote a poem for",
    "At the party with {} and {}, {} brought a cake for",
    "When {} and {} sat in the kitchen, {} passed the salt to",
    "Yesterday {} and {} were playing in the garden when {} threw the ball to",
)
PAIRS = (  # of the first half of the templates, of the second
    ("Mary John", "Anna Peter", "Sarah David", "Emma James", "Laura Mark"),
    ("Alice George", "Helen Henry", "Susan Daniel", "Kate Paul", "Julia Tom"),
)
CORRUPTIONS = {
    "third": "a third person gives, so that nothing tells which of the two is meant",
    "swapped": "the other of the two gives, so that the answer stands at the other position",
    "renamed": "the two names are exchanged throughout, so that every position keeps its role",
}
WORDS, REPEATED, TEXTS = 12, 8, 60  # of an induction text: words, how many of them again; texts
SHARED, FORKS = 3, 5  # words before the one that two sequences share; texts of a batch


class Prompts(NamedTuple):
    """Prompts of one length, in batches: clean and corrupted ids (B, T).

    Attributes:
        right, wrong: ids of the two answers that are compared, (B,).
        positions: (B, n). Of a story those of the answer, the other name and the giver; of a text
            that forks those of the answer, the other word and the word before the last; of an
            induction text that of the answer.
    """

    clean: Tensor
    corrupted: Tensor
    right: Tensor
    wrong: Tensor
    positions: Tensor


def stories(lm: LanguageModel, template: int, corruption: str = "third") -> Prompts:
    """The 20 prompts of a template: five pairs, in both orders, and either of the two gives.

    Args:
        lm: a language model to which each of the names is one token.
        template: its number.
        corruption: one of `CORRUPTIONS`.
    """
    pairs = [pair.split() for pair in PAIRS[template * 2 // len(TEMPLATES)]]
    rows: list[tuple[list[int], list[int], int, int, list[int]]] = []
    for number, pair in enumerate(pairs):
        third = pairs[(number + 1) % len(pairs)][number % 2]
        for first, second in (pair, pair[::-1]):
            for right, wrong in ((first, second), (second, first)):
                corrupted_names = {
                    "third": (first, second, third),
                    "swapped": (first, second, right),
                    "renamed": (second, first, right),
                }[corruption]
                clean = lm.encode(TEMPLATES[template].format(first, second, wrong))
                corrupted = lm.encode(TEMPLATES[template].format(*corrupted_names))
                answer, other = name_id(lm, right), name_id(lm, wrong)
                giver = len(clean) - 1 - clean[::-1].index(other)
                positions = [clean.index(answer), clean.index(other), giver]
                rows.append((clean, corrupted, answer, other, positions))
    return Prompts(*(torch.tensor(column) for column in zip(*rows, strict=True)))


def name_id(lm: LanguageModel, name: str) -> int:
    """The one token of a name within a text."""
    (token,) = lm.encode(f" {name}")[len(lm.encode("")) :]
    return token


def absent_names(lm: LanguageModel, asked: Prompts) -> Tensor:
    """The names of `PAIRS` that are neither answer of a story, (B, 18)."""
    names = torch.tensor([name_id(lm, n) for half in PAIRS for pair in half for n in pair.split()])
    rows = []
    for right, wrong in zip(asked.right, asked.wrong, strict=True):
        rows.append(names[(names != right) & (names != wrong)])
    return torch.stack(rows)


def repeats(lm: LanguageModel, texts: int = TEXTS, corruption: str = "last") -> Prompts:
    """Words drawn at random, then the first of them again; the answer is the word that followed.

    Args:
        lm: a language model.
        texts: how many.
        corruption: "last": the last word is another one of those that were repeated, and the other
            answer is what followed that one. "followed": the word that followed is a new one, which
            is then the other answer.
    """
    draw = torch.Generator().manual_seed(0)
    plain, start = long_words(lm), lm.encode("")
    words = plain[torch.stack([torch.randperm(3000, generator=draw)[:WORDS] for _ in range(texts)])]
    clean = torch.cat([words, words[:, :REPEATED]], 1)
    others = torch.randint(REPEATED - 1, (texts,), generator=draw)
    corrupted, rows = clean.clone(), torch.arange(texts)
    if corruption == "last":
        corrupted[:, -1] = words[rows, others]
        wrong = words[rows, others + 1]
    else:
        fresh = [plain[~torch.isin(plain, row)] for row in words]
        wrong = torch.stack([w[int(torch.randint(len(w), (), generator=draw))] for w in fresh])
        corrupted[:, REPEATED] = wrong
    positions = torch.full((texts, 1), REPEATED + len(start))
    clean, corrupted = preceded(start, clean), preceded(start, corrupted)
    return Prompts(clean, corrupted, words[:, REPEATED], wrong, positions)


def forks(lm: LanguageModel, batch: int) -> Prompts:
    """Two sequences of words that share one word; then one of them again, up to the shared word.

    The answer is the word that followed the shared one in this sequence. The corrupted run repeats
    the other sequence, so the last token is the same and the three before it differ. Either
    sequence is repeated: prompts 2 i and 2 i + 1 are of one text.
    """
    draw = torch.Generator().manual_seed(batch)
    plain, start, length = long_words(lm), lm.encode(""), SHARED + 2
    drawn = [torch.randperm(3000, generator=draw)[: 2 * length] for _ in range(FORKS)]
    sequences = plain[torch.stack(drawn)].view(FORKS, 2, length)
    sequences[:, 1, SHARED] = sequences[:, 0, SHARED]
    both = sequences.flatten(1)
    again = sequences[:, :, : SHARED + 1]
    texts = torch.stack([torch.cat([both, again[:, k]], 1) for k in (0, 1)], 1)  # (FORKS, 2, T)
    clean, corrupted = texts.flatten(0, 1), texts.flip(1).flatten(0, 1)
    right, wrong = sequences[:, :, -1].flatten(), sequences[:, :, -1].flip(1).flatten()
    first, second = length - 1 + len(start), 2 * length - 1 + len(start)
    before_last = clean.shape[1] - 2 + len(start)
    positions = torch.tensor([[first, second, before_last], [second, first, before_last]])
    clean, corrupted = preceded(start, clean), preceded(start, corrupted)
    return Prompts(clean, corrupted, right, wrong, positions.repeat(FORKS, 1))


@cache
def long_words(lm: LanguageModel) -> Tensor:
    """The first 3,000 tokens that are a space and a lower-case word of more than five letters."""
    vocabulary = [lm.decode([i]) for i in range(lm.tokenizer.vocab_size)]
    whole = [t[:1] == " " and t[1:].isalpha() and t.islower() and len(t) > 6 for t in vocabulary]
    return torch.tensor(whole).nonzero().flatten()[:3000]


def preceded(start: list[int], ids: Tensor) -> Tensor:
    """Texts (B, T) behind the tokens with which the model's texts begin."""
    return torch.cat([torch.tensor(start, dtype=ids.dtype).expand(len(ids), -1), ids], 1)


def some(asked: Prompts, every: int) -> Prompts:
    """One of so many prompts; of four, each pair gives another of its forms."""
    rows = torch.arange(0, len(asked.clean), every)
    return Prompts(*(column[rows + rows // every % every] for column in asked))


def other_pairs(asked: Prompts, form: int = 0) -> Tensor:
    """Clean ids of the pair after the next one, (B, T): no prompt shares a name with its own.

    Args:
        asked: the 20 prompts of a template.
        form: 0 for the same form, 1 for that in which the other of the two gives.
    """
    by_pair = asked.clean.view(-1, 2, 2, asked.clean.shape[1]).roll(-2, 0)
    return (by_pair.flip(2) if form else by_pair).flatten(0, 2)


def other_template(template: int) -> int:
    """A template of the other half, whose names are others."""
    return (template + len(TEMPLATES) // 2) % len(TEMPLATES)
