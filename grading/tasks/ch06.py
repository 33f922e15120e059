"""Tasks of chapter 06: replay of merges, the next pair, bytes back to text, bits per byte."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product
from string import ascii_lowercase, punctuation
from typing import Any

from torch import Generator

from grading.task import Task

Pair = tuple[str, str]
Merges = list[Pair]


def _joined(tokens: list[str], pair: tuple[str, ...]) -> list[str]:
    out: list[str] = []
    i = 0
    while i < len(tokens):
        two = tuple(tokens[i : i + 2]) == pair
        out.append(tokens[i] + tokens[i + 1] if two else tokens[i])
        i += 2 if two else 1
    return out


def _learn(texts: Sequence[str], number: int) -> Merges:
    """A small training, ties to the pair that comes first in the alphabet."""
    words, merges = [list(text) for text in texts], []
    for _ in range(number):
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], p))
        words = [_joined(word, best) for word in words]
        merges.append(best)
    return merges


# --- encode_word ----------------------------------------------------------------------------------


def _library(word: str, merges: Merges) -> list[str]:
    """The `tokenizers` library with these merges."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    pieces = [*sorted(set(word) | set("".join(a + b for a, b in merges)))]
    pieces += [a + b for a, b in merges]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    model = BPE(vocab=vocabulary, merges=[(left, right) for left, right in merges])
    return list(Tokenizer(model).encode(word).tokens)


def _replayed(word: str, merges: Merges) -> list[str]:
    tokens = list(word)
    for pair in merges:
        tokens = _joined(tokens, tuple(pair))
    return tokens


def _longest_first(word: str, merges: Merges) -> list[str]:
    known = {left + right for left, right in merges}
    tokens, start = [], 0
    while start < len(word):
        end = next((e for e in range(len(word), start, -1) if word[start:e] in known), start + 1)
        tokens.append(word[start:end])
        start = end
    return tokens


def _word(rng: random.Random, letters: str, low: int, high: int) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.randint(low, high)))


# on these two words every mistake below gives something else
RUNS = ("cccccabac", [("c", "c"), ("cc", "c"), ("c", "a"), ("cc", "ca")])
TAKEN = ("aaaccbccb", [("c", "b"), ("c", "c"), ("a", "cc"), ("a", "a"), ("c", "cb")])
# and on this one a single walk over the letters does, too
WALKS = ("onnoooon", [("o", "n"), ("n", "on"), ("n", "n"), ("o", "o"), ("oo", "oo")])


def _renamed(case: tuple[str, Merges], rng: random.Random, to: str = "") -> tuple[str, Merges]:
    """The same case in other letters, drawn if none are given."""
    table = str.maketrans("abc", to or "".join(rng.sample(ascii_lowercase, 3)))
    word, merges = case
    return word.translate(table), [(a.translate(table), b.translate(table)) for a, b in merges]


def _encode_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[str, Merges]]:
    cases: list[tuple[str, Merges]] = [_renamed(RUNS, rng), _renamed(TAKEN, rng)]
    cases.append(("a" * rng.choice((5, 7, 9)), [("a", "a"), ("aa", "aa")]))
    cases.append((_word(rng, "xyz", 2, 4) + "\n e\u0301", []))
    cases.append(("ab" * 1200, [("a", "b")]))  # a join for each call is too deep
    cases.append((rng.choice(("aBAb", "BaAbab")), [("a", "b"), ("A", "b"), ("B", "a")]))
    # a pattern would take these for more than signs, and a space may stand between tokens
    cases.append(_renamed(RUNS, rng, "(" + rng.choice("|.*+?$") + " "))
    cases += [_renamed(RUNS, rng, "".join(rng.sample(punctuation, 3))) for _ in range(3)]
    cases.append(("a><", [(">", "<")]))
    many = [*product(ascii_lowercase, ascii_lowercase)]  # too many for calls, too
    cases.append(("queue", many + [(x + y, z) for x, y in many for z in "aeiou"]))
    cases += [_renamed((word, TAKEN[1]), rng, "abc") for word in ("accbb", "ccb", "", "b")]
    merges = [("c", "c"), ("a", "cc"), ("b", "b"), ("c", "b"), ("c", "cb")]
    cases.append(("accbb", merges))  # a word again, as many other merges
    while len(cases) < 19:
        letters = rng.choice(("abc", "abcd", "aeinst"))
        merges = _learn([_word(rng, letters, 3, 7) for _ in range(30)], rng.randint(6, 25))
        word = _word(rng, letters, 6, 16)
        if _library(word, merges) == _replayed(word, merges) != _longest_first(word, merges):
            cases.append((word, merges))
    return cases


ENCODE = Task(
    name="encode_word",
    reference=_library,
    visible=(
        ("lowing", [("l", "o"), ("g", "i"), ("lo", "w")]),
        (".....(+(.", [(".", "."), ("..", "."), (".", "("), ("..", ".(")]),  # RUNS, in other signs
        TAKEN,
        WALKS,
        ("", [("a", "b")]),
        # the word of WALKS with other merges: one token in the end, and capitals are other letters
        (
            "onnoooon",
            [
                *(("O", "O"), ("o", "n"), ("n", "o"), ("on", "no")),
                *(("o", "o"), ("oo", "on"), ("onno", "ooon")),
            ],
        ),
    ),
    hidden=_encode_hidden,
)


# --- cut_differently ------------------------------------------------------------------------------


def _some_word(merges: Merges) -> str:
    """The first word in the order of the alphabet, the short ones first."""
    letters = sorted(set("".join(left + right for left, right in merges)))
    for length in range(2, 7):
        for signs in product(letters, repeat=length):
            word = "".join(signs)
            if _replayed(word, merges) != _longest_first(word, merges):
                return word
    raise ValueError(f"no word of up to six letters is cut differently by {merges}")


def _refuse_word(args: tuple[Any, ...], answer: Any) -> str | None:
    (merges,) = args
    if not isinstance(answer, str):
        return f"return one word, a string, not {type(answer).__name__}"
    letters = sorted(set("".join(left + right for left, right in merges)))
    if not answer or not set(answer) <= set(letters):
        return f"{answer!r} is not made of the letters {', '.join(letters)}, as it should be"
    if len(answer) > 100:
        return f"the word has {len(answer)} letters; six are enough"
    ours, other = _replayed(answer, merges), _longest_first(answer, merges)
    if ours == other:
        return (
            f"{answer!r} is cut alike in both ways: {' | '.join(ours)}; look for a later merge "
            "that wants a letter which an older one has taken"
        )
    return None


# no word of five letters or fewer is cut differently by these
SIX = (
    [("a", "b"), ("ab", "b"), ("abb", "ab"), ("a", "abb")],
    [("b", "a"), ("ba", "ba"), ("ba", "a"), ("baa", "ba")],
)
# cut differently are words with an odd number of a before a b, three or more
ODD = [("a", "b"), ("a", "ab"), ("a", "a")]


def _cut_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Merges]]:
    x, y = rng.sample("klmno", 2)  # two chains that can be cut alike, one merge after the other
    cases: list[tuple[Merges]] = [([*pairwise("abcd"), ("q", "r"), ("p", "q")],)]
    cases.append(([(x, y), (y, x), (x + y, y + x)],))
    cases.append(([("a", "b"), ("b", "c"), ("a", "bc")],))
    cases.append(([(x, x), (y, x + x), (y + x + x, y)],))  # only a word of six letters
    while len(cases) < 9:
        letters = "".join(rng.sample("abcdefghij", 3))
        merges = _learn([_word(rng, letters, 3, 6) for _ in range(12)], rng.randint(3, 7))
        try:
            word = _some_word(merges)
        except ValueError:
            continue
        if len(word) <= 5:
            cases.append((merges,))
    cases += [
        (_renamed(("", merges), rng, "".join(rng.sample("klmno", 3)))[1],) for merges in (*SIX, ODD)
    ]
    cases.append((_renamed(("", cases[0][0]), rng, "A .")[1],))
    cases += [([(x, y), (y, x)],) for x, y in ("aA", ".a")]
    return [*cases, ([(" ", "a"), (" ", " ")],)]


CUT = Task(
    name="cut_differently",
    reference=_some_word,
    visible=(
        ([("b", "c"), ("a", "b")],),
        ([("t", "h"), ("s", "t"), ("th", "e"), ("h", "e")],),
        ([("n", "o"), ("o", "n"), ("no", "on")],),
        (SIX[0],),
        (ODD,),
    ),
    hidden=_cut_hidden,
    accepts=_refuse_word,
)


# --- best_pair ------------------------------------------------------------------------------------

Words = list[tuple[list[str], int]]


def _best(words: Words, age: dict[str, int]) -> Pair:
    """By brute force: every possible pair is counted at every position."""
    ordered = sorted(age, key=age.__getitem__)
    best: Pair = ("", "")
    most = 0
    for pair in ((left, right) for left in ordered for right in ordered):  # the oldest first
        count = sum(
            times
            for tokens, times in words
            for i in range(len(tokens) - 1)
            if (tokens[i], tokens[i + 1]) == pair
        )
        if count > most:
            best, most = pair, count
    return best


def _counts(words: Words) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for tokens, times in words:
        for pair in pairwise(tokens):
            counts[pair] += times
    return counts


def _crossing(a: str, b: str, c: str, d: str) -> tuple[Words, dict[str, int]]:
    """Three pairs occur twice; across the words, a and b meet three times."""
    words = ("bc", "cda", "bcd", "ca", "bd", "da", "b")
    names = {"a": a, "b": b, "c": c, "d": d}
    return [([names[x] for x in word], 1) for word in words], {d: 0, b: 1, c: 2, a: 3}


def _repeating(names: Sequence[str], more: int) -> tuple[Words, dict[str, int]]:
    """(a, a) is the most frequent; other counts (overlap, per word, per kind) prefer others."""
    a, b, c, d, e, f, g = names
    words = [([a] * 5, 2 * more), ([b, c, b, c], 3 * more), ([d, e], 5 * more)]
    words += [([f, g, last], 1) for last in (b, d, e, f)]
    return words, {name: i for i, name in enumerate((f, g, e, d, c, b, a))}


def _ages(*tokens: str) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokens)}


def _right_decides(a: str, b: str, c: str, d: str) -> tuple[Words, dict[str, int]]:
    """(a, b) and (a, c) are the most frequent; c, the older one, is seen last."""
    return [([a, b], 2), ([d, a], 1), ([a, c], 2)], _ages(c, a, d, b)


def _many_equal(names: Sequence[str]) -> tuple[Words, dict[str, int]]:
    """Eleven pairs occur once each; nearly every rule takes another one of them."""
    a, b, c, d, e = names
    pairs = [(c, b), (b, a), (d, a), (c, e), (a, d), (d, b), (c, d), (d, c), (b, e), (e, b), (c, a)]
    return [([*pair], 1) for pair in pairs], _ages(d, e, c, a, b)


def _best_hidden(
    rng: random.Random, generator: Generator
) -> Sequence[tuple[Words, dict[str, int]]]:
    cases: list[tuple[Words, dict[str, int]]] = []
    while len(cases) < 5:
        tokens = rng.sample(["a", "b", "c", "d", "ab", "ca", "e", "st", "in"], rng.randint(4, 7))
        high = rng.choice((1, 3, 9))
        words = [
            ([rng.choice(tokens) for _ in range(rng.randint(1, 6))], rng.randint(1, high))
            for _ in range(rng.randint(4, 9))
        ]
        age = {token: i for i, token in enumerate(tokens)}
        counts, tied = _counts(words), len(cases) < 3  # at first several are the most frequent
        most = max(counts.values(), default=0)
        if (
            counts
            and (sum(n == most for n in counts.values()) > 1) == tied
            and (tied or _best(words, age) != _best([(word, 1) for word, _ in words], age))
        ):
            shuffled = rng.sample(sorted(age), len(age))
            cases.append((words, {token: age[token] for token in shuffled}))
    a, b, c, d, e, f, g, h = rng.sample("abcdefghijklmnop", 8)
    b, c, d, a = min(a, b, c, d), *sorted({a, b, c, d} - {min(a, b, c, d)})
    cases.append(_crossing(a, b, c, d))
    cases.append(_repeating((a, b, c, d, e, f, g), rng.randint(2, 4)))
    cases.append(([([e, f], 1), ([e, g, h, a], 1)], {g: 0, h: 1, a: 2, f: 3, e: 4}))
    cases += [_right_decides(a, b, c, d), _right_decides(a, b, d, c)]
    cases.append(_many_equal(rng.sample("qrstuvwxyz", 5)))
    cases.append(([([c, b], 1), ([a, d], 1)], {a: 0, b: 1, c: 2, d: 10**5}))
    cases.append(([([a], 9), ([], 9), ([b, c], 2), ([b, c], 2), ([d, e], 3)], _ages(e, d, c, b, a)))
    words = [([a, b + c], 2**24), ([a + b, c], 2**24), ([d, e], 2**24 + 1)]  # float32; joined names
    cases.append((words, _ages(a, b + c, a + b, c, d, e)))
    return cases


BEST = Task(
    name="best_pair",
    reference=_best,
    visible=(
        ([(list("low"), 1), (list("login"), 1)], {c: i for i, c in enumerate("gilnow")}),
        (
            [(["lo", "w"], 1), (["lo", "g", "i", "n"], 1)],
            {"lo": 6, "w": 5, "o": 4, "n": 3, "l": 2, "i": 1, "g": 0},  # in another order
        ),
        _crossing("a", "b", "c", "d"),
        _repeating("abcdefg", 1),
        _right_decides("n", "o", "w", "k"),
        _many_equal("abcde"),
    ),
    hidden=_best_hidden,
)


# --- decode ---------------------------------------------------------------------------------------

Ids = list[int]
Numbers = list[tuple[int, int]]


def _expand(i: int, merges: Numbers) -> bytes:
    """The bytes of one token, from the top down and from left to right."""
    todo, out = [i], b""
    while todo:
        part = todo.pop()
        if part < 256:
            out += bytes([part])
        else:
            todo += merges[part - 256][::-1]
    return out


def _text(ids: Ids, merges: Numbers) -> str:
    return b"".join(_expand(i, merges) for i in ids).decode("utf-8", errors="replace")


TEXTS = (
    "Grüße aus Köln!",
    "北京 and 東京",
    "naïve café, 3 €",
    "Смотри: ¿qué?",
    "a 😀 film",
    "हिन्दी film",
)


def _numbers(text: str, number: int, rng: random.Random) -> tuple[Ids, Numbers]:
    """A text as ids after some merges of random neighbours."""
    ids, merges = list(text.encode()), []
    for _ in range(number):
        if len(ids) < 2:
            break
        position = rng.randrange(len(ids) - 1)
        pair = (ids[position], ids[position + 1])
        merges.append(pair)
        out: Ids = []
        i = 0
        while i < len(ids):
            two = tuple(ids[i : i + 2]) == pair
            out.append(255 + len(merges) if two else ids[i])
            i += 2 if two else 1
        ids = out
    return ids, merges


def _decode_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[Ids, Numbers]]:
    cases = [_numbers(text, rng.randint(4, 12), rng) for text in rng.sample(TEXTS, 4)]
    broken, merges = _numbers("ж😀é", 1, rng)
    cases.append((broken[rng.randint(1, 2) :], merges))
    cases.append(([*"😀".encode()[: rng.randint(1, 3)], *_word(rng, "abc", 1, 4).encode()], []))
    cases.append((cases[0][0] * 2, cases[0][1]))
    cases.append((cases[0][0][::-1], [pair[::-1] for pair in cases[0][1]]))
    cases.append(([], cases[1][1]))
    text = "\ufeff\r\n " + rng.choice(TEXTS) + "\0\t\n "  # every sign counts, the unseen ones too
    cases.append(_numbers(text, rng.randint(4, 12), rng))
    cases.append((list(rng.choice(("Ж", "€", "😀")).encode()[:-1]), []))  # ends within a sign
    cases.append(([1300], [(97, 98), *((256 + i, 98) for i in range(1100))]))  # too deep for calls
    return cases


DECODE = Task(
    name="decode",
    reference=_text,
    visible=(
        ([256, 33], [(104, 105)]),
        ([99, 97, 102, 195, 169], []),
        ([257, 32, 256, 169, 260], [(97, 195), (99, 98), (257, 256), (258, 169), (259, 33)]),
        ([240, 159, 152, 32, 256], [(111, 107)]),
        ([32, 256, 33, 10], [(104, 105)]),  # a space before, a line break behind
        ([239, 187, 191, 256], [(104, 105)]),  # a mark that some programs write first
    ),
    hidden=_decode_hidden,
)


# --- bits_per_byte --------------------------------------------------------------------------------


def _bits(perplexity: float, tokens: int, text: str) -> float:
    """log₂ of the probability of the whole text, shared among its bytes."""
    return tokens * math.log2(perplexity) / sum(1 for _ in text.encode("utf-8"))


ODD_SIGNS = ("  film\r\n\n\x80\u0800\U00010000", "a\0\ufeffb\t\f\u2028")


def _bits_hidden(rng: random.Random, generator: Generator) -> Sequence[tuple[float, int, str]]:
    texts = [text + _word(rng, "aéЖ北 ", 3, 30) for text in rng.sample(TEXTS, 6)]
    texts += ["e\u0301te\u0301 😀👩‍👩‍👧", texts[0][::-1], *ODD_SIGNS]
    drawn = [(round(rng.uniform(2, 200), 2), rng.randint(2, 9), text) for text in texts]
    return [*drawn, (1.0, 3, "film"), (rng.randint(2, 9), 1, "a"), (1e6, 10**4, "é" * 9999)]


BITS = Task(
    name="bits_per_byte",
    reference=_bits,
    visible=(
        (4.0, 6, "strawberries"),
        (21.4, 8, "Où est le café?"),
        (53.7, 9, "Смотри: film!"),
        (8.5, 5, "😀 e\u0301te\u0301 \r\n"),
        (54.0, 600, "Un café, s’il vous plaît. " * 60),
    ),
    hidden=_bits_hidden,
)


TASKS = (ENCODE, CUT, BEST, DECODE, BITS)
