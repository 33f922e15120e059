"""Tasks of chapter 06: replay of merges, the next pair, bytes back to text, bits per byte."""

from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

from grading.tasks.kit import Draw
from grading.tasks.solutions import solution
from grading.tasks.task import Args, Task

Merges = list[tuple[str, str]]


def _merges(draw: Draw, count: int) -> tuple[Merges, list[str]]:
    """Random merges of three letters, each of tokens that are older, and all the tokens."""
    tokens, merges = draw.sample("abcdefghijklmnop", 3), list[tuple[str, str]]()
    while len(merges) < count:
        left, right = draw.choices(tokens, 2)
        if left + right not in tokens:
            merges.append((left, right))
            tokens.append(left + right)
    return merges, tokens


# --- encode_word ----------------------------------------------------------------------------------


def _encode_word(draw: Draw) -> Args:
    merges, tokens = _merges(draw, draw.size(least=2))
    return "".join(draw.choices(tokens, draw.size(least=5))), merges


LOWING = [("l", "o"), ("g", "i"), ("lo", "w")]  # the merges of the chapter

# on these words every known mistake gives other tokens
HARD: tuple[tuple[str, Merges], ...] = (
    ("cccccabac", [("c", "c"), ("cc", "c"), ("c", "a"), ("cc", "ca")]),
    ("aaaccbccb", [("c", "b"), ("c", "c"), ("a", "cc"), ("a", "a"), ("c", "cb")]),
)


def _hard(draw: Draw) -> list[Args]:
    """The hard words in other letters; one letter, a word that becomes one token, and no letter."""
    a, b, c = letters = draw.sample("defghijklmnop", 3)
    to = str.maketrans("abc", "".join(letters))
    cases: list[Args] = [
        (word.translate(to), [(left.translate(to), right.translate(to)) for left, right in merges])
        for word, merges in HARD
    ]
    merges = [(a, b), (a + b, c)]
    return [*cases, (a, merges), (a + b + c, merges), ("", merges)]


ENCODE = Task(
    "encode_word",
    _encode_word,
    also=_hard,
    visible=(
        ("lowing", LOWING),
        *HARD,
        ("low", LOWING),  # it becomes one token
        ("w", LOWING),
        ("", LOWING),
    ),
)


# --- cut_differently ------------------------------------------------------------------------------


def _longest_first(word: str, merges: Merges) -> list[str]:
    """The longest known token from the left, again and again."""
    known, tokens = {left + right for left, right in merges}, []
    while word:
        end = next((n for n in range(len(word), 1, -1) if word[:n] in known), 1)
        tokens.append(word[:end])
        word = word[end:]
    return tokens


def _differ(word: str, merges: Merges) -> bool:
    replayed = solution("06_bpe", "encode_word")(word, merges)
    return bool(replayed != _longest_first(word, merges))


def _cut_differently(draw: Draw) -> Args:
    """Merges for which some word of at most five letters is cut differently."""
    count = draw.size(least=2, most=6)
    while True:
        merges, tokens = _merges(draw, count)
        words = (letters for n in range(2, 6) for letters in product(tokens[:3], repeat=n))
        if any(_differ("".join(letters), merges) for letters in words):
            return (merges,)


def _refuse_word(args: tuple[Any, ...], answer: Any) -> str | None:
    (merges,) = args
    letters = {letter for left, right in merges for letter in left + right}
    if not isinstance(answer, str):
        return f"return one word, a string, not {type(answer).__name__}"
    if not answer or not set(answer) <= letters:
        return f"{answer!r} is not made of the letters {', '.join(sorted(letters))}"
    if len(answer) > 100:
        return f"the word has {len(answer)} letters; six are enough"
    if _differ(answer, merges):
        return None
    return (
        f"{answer!r} is cut alike in both ways: {' | '.join(_longest_first(answer, merges))}; look "
        "for a later merge that wants a letter which an older merge has taken"
    )


def _short_and_long(draw: Draw) -> list[Args]:
    """Both ways give as many tokens of each word; and six letters are needed."""
    a, b, c = draw.sample("klmnopqr", 3)
    six = [(a, b), (a + b, b), (a + b + b, a + b), (a, a + b + b)]
    return [([(b, c), (a, b)],), (six,)]


CUT = Task(
    "cut_differently",
    _cut_differently,
    also=_short_and_long,
    visible=(
        ([("b", "c"), ("a", "b")],),
        ([("t", "h"), ("s", "t"), ("th", "e"), ("h", "e")],),
        # only words of six letters and more
        ([("a", "b"), ("ab", "b"), ("abb", "ab"), ("a", "abb")],),
    ),
    accepts=_refuse_word,
)


# --- best_pair ------------------------------------------------------------------------------------


def _ages(draw: Draw, tokens: list[str]) -> dict[str, int]:
    """An age for each token, in random order."""
    return dict(zip(tokens, draw.shuffled(range(len(tokens))), strict=True))


def _best_pair(draw: Draw) -> Args:
    tokens = draw.sample(["a", "b", "c", "d", "e", "ab", "ca", "st", "in"], draw.size(least=2))
    words = [
        (draw.choices(tokens, draw.integer(2, 6)), draw.integer(1, 3)) for _ in range(draw.size(3))
    ]
    return words, _ages(draw, tokens)


def _repeats(letters: Sequence[str]) -> Args:
    """(a, a) occurs eight times, if every place and every time is counted, and no pair more often.

    With less counted, another pair is ahead of it.
    """
    a, b, c, d, e, f, g = letters
    words = [([a] * 5, 2), ([b, c, b, c], 3), ([d, e], 5)]
    words += [([f, g, last], 1) for last in (b, d, e, f)]
    return words, {letter: i for i, letter in enumerate((f, g, e, d, c, b, a))}


def _ties(draw: Draw) -> list[Args]:
    """Pairs that are all equally frequent; in the first of these cases the oldest is seen last."""
    tokens = draw.sample("abcdefgh", 5)
    age, pairs = _ages(draw, tokens), list(permutations(tokens, 2))
    youngest_first = sorted(pairs, key=lambda pair: [-age[token] for token in pair])
    orders = youngest_first, draw.shuffled(pairs), draw.sample(pairs, 12)
    cases = [([([*pair], 2) for pair in order], age) for order in orders]
    return [_repeats(draw.sample("abcdefghijklmnop", 7)), *cases]


BEST = Task(
    "best_pair",
    _best_pair,
    also=_ties,
    visible=(
        ([(list("low"), 1), (list("login"), 1)], {c: i for i, c in enumerate("gilnow")}),
        (
            [(["lo", "w"], 1), (["lo", "g", "i", "n"], 1)],
            {"lo": 6, "w": 5, "o": 4, "n": 3, "l": 2, "i": 1, "g": 0},
        ),
        # across the words a and b would meet three times
        (
            [(list(word), 1) for word in ("bc", "cda", "bcd", "ca", "bd", "da", "b")],
            {"d": 0, "b": 1, "c": 2, "a": 3},
        ),
        _repeats("abcdefg"),
        # the right token decides, and the older one is seen last
        ([(["n", "o"], 2), (["k", "n"], 1), (["n", "w"], 2)], {"w": 0, "n": 1, "k": 2, "o": 3}),
        # every pair occurs once
        (
            [(list(pair), 1) for pair in ("cb", "ba", "da", "ce", "ad", "db", "cd", "dc", "ca")],
            {"d": 0, "e": 1, "c": 2, "a": 3, "b": 4},
        ),
    ),
)


# --- decode ---------------------------------------------------------------------------------------


def _decode(draw: Draw) -> Args:
    """A text whose signs have one to four bytes, after merges of random neighbours."""
    text = "".join(draw.choices("abc \nàéЖя京€😀", draw.size(least=3)))
    ids, merges = list(text.encode()), list[tuple[int, int]]()
    for new in range(256, 256 + draw.integer(1, len(ids) - 1)):
        start = draw.integer(0, len(ids) - 2)
        merges.append((ids[start], ids[start + 1]))
        ids[start : start + 2] = [new]
    return ids, merges


def _broken(draw: Draw) -> list[Args]:
    """Bytes that are no UTF-8: a sign begins in its middle, or ends there."""
    sign, merges = draw.choice(("Ж", "京", "€", "😀")).encode(), [(97, 98)]
    return [([*sign[1:], 256, 32], merges), ([10, 256, *sign[:-1]], merges)]


DECODE = Task(
    "decode",
    _decode,
    also=_broken,
    visible=(
        ([256, 33], [(104, 105)]),
        ([99, 97, 102, 195, 169], []),
        ([257, 32, 256, 169, 260], [(97, 195), (99, 98), (257, 256), (258, 169), (259, 33)]),
        ([32, 240, 159, 152, 32, 256, 10], [(111, 107)]),  # a space in front, a line break behind
    ),
)


# --- bits_per_byte --------------------------------------------------------------------------------


def _bits_per_byte(draw: Draw) -> Args:
    text = "".join(draw.choices("abc àéЖя京€😀", draw.size())) + draw.choice(("a", "é \n"))
    return draw.number(2, 200), draw.integer(1, len(text.encode())), text


BITS = Task(
    "bits_per_byte",
    _bits_per_byte,
    visible=((4.0, 6, "strawberries"), (21.4, 8, "Où est le café?"), (53.7, 9, "Смотри: film!\n")),
)

TASKS: tuple[Task, ...] = (ENCODE, CUT, BEST, DECODE, BITS)
