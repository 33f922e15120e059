"""Learning the merges of byte-pair encoding, and what learning shares with encoding.

One device serves both: a pre-token is held as a Python string whose *characters are token ids*,
`chr(id)`. A pair is then a string of two characters, and `str.split` finds all its places from
left to right, at the speed of C.

Ties: of two pairs that occur equally often, the one with the smaller (left id, right id) is
merged first. Together with GPT-2's order of the bytes, that is the rule of the `tokenizers`
library, so both learn the same merges in the same order, whatever the order of the texts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import add

import regex

# Where GPT-2 cuts: English contractions, then letters, digits and other signs, each with at most
# one space before them, then what is left of white space.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
BYTES = (*_PRINTABLE, *(byte for byte in range(256) if byte not in _PRINTABLE))  # id -> byte
ToId = Mapping[int, str | None]  # byte -> chr(id), or None for a byte that is no token
_TO_ID: ToId = {byte: chr(i) for i, byte in enumerate(BYTES)}
# SmolLM2 takes every digit for itself first, and cuts what is between them as GPT-2 does.
_DIGITS = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
_UNSEEN = {4, 6, 19, 20, 22, 29, 192, 193, 241, 242} | {*range(245, 256)}  # no tokens there


@dataclass(frozen=True)
class Scheme:
    """Where a family of tokenizers cuts a text, and the ids of its bytes and special tokens.

    Attributes:
        pattern: of a pre-token.
        bytes: those that are tokens, in the order of their ids.
        specials_first: whether the special tokens have the first ids, or the last.
    """

    pattern: "regex.Pattern[str]"
    bytes: tuple[int, ...]
    specials_first: bool


SCHEMES = {
    "gpt2": Scheme(regex.compile(PATTERN), BYTES, False),
    "smollm": Scheme(
        regex.compile(_DIGITS), tuple(byte for byte in BYTES if byte not in _UNSEEN), True
    ),
}


# -- one pre-token ----------------------------------------------------------------------------


def pre_tokenize(text: str, scheme: str = "gpt2") -> list[str]:
    """The pre-tokens of a text, which joined give it back, as one of the SCHEMES has them.

    >>> pre_tokenize("don't cut  25day!")
    ['don', "'t", ' cut', ' ', ' 25', 'day', '!']
    >>> pre_tokenize("don't cut  25day!", "smollm")
    ['don', "'t", ' cut', '  ', '2', '5', 'day', '!']
    """
    pieces: list[str] = SCHEMES[scheme].pattern.findall(text)
    return pieces


def readable(text: str | bytes) -> str:
    """A str that the pattern can cut; bytes that are not UTF-8 stand in it as U+DC80–U+DCFF."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise TypeError(f"a text must be str or bytes, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def as_ids(word: str, to_id: ToId = _TO_ID) -> str:
    """A pre-token as a string of `chr(id)`, one for each byte that is a token."""
    return word.encode("utf-8", "surrogateescape").decode("latin-1").translate(to_id)


def neighbours(form: str) -> Iterable[str]:
    """The neighbours, overlapping ones included: "aaa" has "aa" twice."""
    return map(add, form, form[1:])


def merge(form: str, pair: str, new: str) -> tuple[str, list[tuple[str, int]]]:
    """Merge a pair wherever it stands, from left to right.

    Returns:
        the new form, and how often each pair came (+1) or went (-1) around the seams.

    >>> merge("xaby", "ab", "N")
    ('xNy', [('xa', -1), ('xN', 1), ('by', -1), ('Ny', 1)])
    """
    left, right = pair[0], pair[1]
    pieces = form.split(pair)
    changes: list[tuple[str, int]] = []
    before, *rest = pieces
    for place, after in enumerate(rest):
        if before:
            changes += (before[-1] + left, -1), (before[-1] + new, 1)
        elif place:  # the left neighbour has just been merged too
            changes += (right + left, -1), (new + new, 1)
        if after:
            changes += (right + after[0], -1), (new + after[0], 1)
        before = after
    return new.join(pieces), changes


def apply_merges(
    word: str,
    merges: Sequence[tuple[int, int]],
    joins: Mapping[str, str],
    to_id: ToId = _TO_ID,
    first: int = 256,
) -> tuple[int, ...]:
    """The ids of one pre-token: the merges that apply to it, oldest first.

    A merge only makes pairs that are merged later than itself, so a heap of tokens to be made is
    enough, and a pre-token of 100,000 letters takes no 100,000 rounds.

    Args:
        word: the pre-token.
        merges: pairs of ids in the order of learning.
        joins: the same merges as characters: pair -> the token it makes.
        to_id: the ids of the bytes, which a `Scheme` other than GPT-2's has differently.
        first: the id of the first merge, likewise.
    """
    form, last = as_ids(word, to_id), ""
    queue = list({joins[pair] for pair in neighbours(form) if pair in joins})
    heapify(queue)
    while queue:
        new = heappop(queue)
        if new != last:
            left, right = merges[ord(new) - first]
            form, changes = merge(form, chr(left) + chr(right), new)
            for pair, change in changes:
                if change > 0 and pair in joins:
                    heappush(queue, joins[pair])
            last = new
    return tuple(map(ord, form))


# -- training ---------------------------------------------------------------------------------


def count_pre_tokens(texts: Iterable[str | bytes], progress: bool) -> Counter[str]:
    """How often each pre-token occurs."""
    from tqdm.auto import tqdm

    counts: Counter[str] = Counter()
    for text in tqdm(texts, desc="count pre-tokens", unit=" texts", **_silent(progress)):
        counts.update(pre_tokenize(readable(text)))
    return counts


def learn_merges(
    words: Mapping[str, int], wanted: int, progress: bool
) -> tuple[tuple[int, int], ...]:
    """The merges, found with an index of pairs that is kept up to date and never rebuilt.

    Args:
        words: pre-token -> how often it occurs.
        wanted: how many merges to learn at most.
        progress: show a bar.

    Returns:
        pairs of ids in the order of learning; fewer than `wanted` if no pair is left.
    """
    from tqdm.auto import tqdm

    forms, times = [as_ids(word) for word in words], list(words.values())
    counts, where = _index(forms, times)
    queue = [(-count, pair) for pair, count in counts.items()]
    heapify(queue)
    merges: list[tuple[int, int]] = []
    with tqdm(total=wanted, desc="learn merges", unit=" merges", **_silent(progress)) as bar:
        while len(merges) < wanted and (pair := _most_frequent(queue, counts)):
            new, born = chr(256 + len(merges)), set()
            merges.append((ord(pair[0]), ord(pair[1])))
            for i in where.pop(pair):
                if pair not in forms[i]:  # an earlier merge has taken it apart, or i stood twice
                    continue
                forms[i], changes = merge(forms[i], pair, new)
                for changed, change in changes:
                    counts[changed] += change * times[i]
                    if change > 0:
                        where[changed].append(i)
                        born.add(changed)
            del counts[pair]
            for fresh in born:
                heappush(queue, (-counts[fresh], fresh))
            bar.update()
    return tuple(merges)


def _index(forms: list[str], times: list[int]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Pair -> how often it occurs, and pair -> the words it occurs in, once for each occurrence."""
    where: dict[str, list[int]] = defaultdict(list)
    for i, form in enumerate(forms):
        for pair in neighbours(form):
            where[pair].append(i)
    counts = {pair: sum(times[i] for i in places) for pair, places in where.items()}
    return defaultdict(int, counts), where


def _most_frequent(queue: list[tuple[int, str]], counts: Mapping[str, int]) -> str | None:
    """Take the pair with the largest count, then the smallest ids, off the heap.

    A pair's count can only fall once it is in the heap, so a stale entry stands too early, never
    too late: put it back with its present count and look again.
    """
    while queue:
        count, pair = heappop(queue)
        if -count == counts[pair]:
            return pair
        if counts[pair] > 0:
            heappush(queue, (-counts[pair], pair))
    return None


def _silent(progress: bool) -> dict[str, bool]:
    """Arguments that keep a bar from showing; unless told, tqdm asks TQDM_DISABLE."""
    return {} if progress else {"disable": True}
