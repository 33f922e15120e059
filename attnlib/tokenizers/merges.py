r"""Byte-pair encoding as lists and counts: how merges are learned, and how they are applied.

A text is cut into pre-tokens, mostly words with the space before them. A pre-token is a list of
token ids, at first one for each of its bytes. To *learn*, count the pairs of neighbours in all
pre-tokens, make the most frequent pair one new token, and count again. To *encode*, apply the
merges to a pre-token in the order in which they were learned. No merge crosses the border of a
pre-token. The idea is of Sennrich et al. (2016), the code after Karpathy's *minbpe*.

Ties: of two pairs that occur equally often, the one with the smaller (left id, right id) is
merged first. Together with GPT-2's order of the bytes, that is the rule of the `tokenizers`
library, so both learn the same merges in the same order, whatever the order of the texts.

`learn_merges` counts every pair again before each merge. For many texts that takes long; `BPE`
learns with the function of the same name in `attnlib.tokenizers._fast`, which only keeps the
counts up to date, and finds the same merges.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

Pair = tuple[int, int]

# Where GPT-2 cuts: English contractions, then letters, digits and other signs, each with at most
# one space before them, then what is left of white space.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# SmolLM2 takes every digit for itself first, and cuts what is between them as GPT-2 does.
_DIGITS_ALONE = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

# The bytes in the order of their ids: those that Latin-1 prints come first.
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
BYTES = (*_PRINTABLE, *(byte for byte in range(256) if byte not in _PRINTABLE))
# SmolLM2 never met these bytes while it was trained, so they are no tokens: six control
# characters, and bytes that UTF-8 never or hardly ever has.
_UNSEEN = {4, 6, 19, 20, 22, 29, 192, 193, 241, 242, *range(245, 256)}


@dataclass(frozen=True)
class Scheme:
    """Where a family of tokenizers cuts a text, and the ids of its bytes and special tokens.

    Attributes:
        pattern: matches one pre-token.
        bytes: the bytes that are tokens, in the order of their ids.
        specials_first: whether the special tokens have the first ids or the last.
    """

    pattern: "regex.Pattern[str]"
    bytes: tuple[int, ...]
    specials_first: bool


SCHEMES = {
    "gpt2": Scheme(regex.compile(PATTERN), BYTES, specials_first=False),
    "smollm": Scheme(
        regex.compile(_DIGITS_ALONE),
        tuple(byte for byte in BYTES if byte not in _UNSEEN),
        specials_first=True,
    ),
    # As GPT-2, but nothing is cut: the whole text is one pre-token.
    "uncut": Scheme(regex.compile(r"(?s:.+)"), BYTES, specials_first=False),
}


# -- from a text to pre-tokens ----------------------------------------------------------------


def pre_tokenize(text: str, scheme: str = "gpt2") -> list[str]:
    """The pre-tokens of a text, which joined give it back, as one of the SCHEMES has them.

    >>> pre_tokenize("don't cut  25day!")
    ['don', "'t", ' cut', ' ', ' 25', 'day', '!']
    >>> pre_tokenize("don't cut  25day!", "smollm")
    ['don', "'t", ' cut', '  ', '2', '5', 'day', '!']
    """
    pre_tokens: list[str] = SCHEMES[scheme].pattern.findall(text)
    return pre_tokens


def readable(text: str | bytes) -> str:
    r"""A str that the pattern can cut.

    Bytes that are not UTF-8 stand in it as U+DC80–U+DCFF (Python's "surrogateescape"). A lone
    surrogate in a str, which no encoding can hold, becomes U+FFFD, as in `tiktoken`.

    Raises:
        TypeError: if `text` is neither str nor bytes.

    >>> readable(b"caf\xc3\xa9 \xff"), readable("\ud800")
    ('café \udcff', '�')
    """
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise TypeError(f"a text must be str or bytes, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_bytes(text: str) -> bytes:
    r"""The bytes of what `readable` returned, or of a part of it.

    >>> to_bytes("é\udcff")
    b'\xc3\xa9\xff'
    """
    return text.encode("utf-8", "surrogateescape")


# -- learning ---------------------------------------------------------------------------------


def count_pairs(words: Mapping[tuple[int, ...], int]) -> Counter[Pair]:
    """How often each pair of neighbours occurs in words that occur so often.

    Overlapping pairs count too: (7, 7, 7) has the pair (7, 7) twice.

    >>> count_pairs({(1, 2, 3): 5, (1, 2): 1})
    Counter({(1, 2): 6, (2, 3): 5})
    """
    pairs: Counter[Pair] = Counter()
    for word, times in words.items():
        for pair in pairwise(word):
            pairs[pair] += times
    return pairs


def merge(word: Sequence[int], pair: Pair, new: int) -> list[int]:
    """The word with every such pair made one new token, from left to right.

    >>> merge([7, 7, 7, 8], (7, 7), 256)
    [256, 7, 8]
    """
    left, right = pair
    merged = []
    i = 0
    while i < len(word):
        if i + 1 < len(word) and word[i] == left and word[i + 1] == right:
            merged.append(new)
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return merged


def learn_merges(words: Mapping[tuple[int, ...], int], number: int, first: int = 256) -> list[Pair]:
    """The most frequent pair, again and again, each merged into a new token.

    Args:
        words: pre-tokens as ids, and how often each occurs.
        number: how many merges to learn; fewer are returned if no pair is left.
        first: the id of the first new token.

    Returns:
        pairs of ids in the order of learning: the pair at place r makes the token first + r.

    >>> low, login = (75, 78, 86), (75, 78, 70, 72, 77)
    >>> learn_merges({low: 1, login: 1}, number=3)
    [(75, 78), (70, 72), (256, 86)]
    """
    words, merges = dict(words), []
    for new in range(first, first + number):
        pairs = count_pairs(words)
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        words = {tuple(merge(word, best, new)): times for word, times in words.items()}
        merges.append(best)
    return merges


# -- encoding ---------------------------------------------------------------------------------


def apply_merges(word: Sequence[int], joins: Mapping[Pair, int]) -> Sequence[int]:
    """The ids of one pre-token: the merges that apply to it, oldest first.

    The oldest merge makes the token with the smallest id.

    Args:
        word: the pre-token, one id for each of its bytes.
        joins: the merges: pair -> the token that it makes.

    >>> apply_merges([75, 78, 70, 72, 77], {(75, 78): 256, (70, 72): 257, (257, 77): 258})
    [256, 258]
    """
    while True:
        possible = {joins[pair]: pair for pair in pairwise(word) if pair in joins}
        if not possible:
            return word
        oldest = min(possible)
        word = merge(word, possible[oldest], oldest)


def visible(token: bytes) -> str:
    r"""A token's text, with escapes for what would not show.

    A byte that is only part of a character is \x and two digits; so is a control character of one
    byte. All other characters that do not print, such as the no-break space, are \u and four.
    """
    text = token.decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else _escape(character) for character in text
    )


def _escape(character: str) -> str:
    if "\x80" <= character <= "\xff":  # Python would write \xa0, which is a byte here
        return f"\\u{ord(character):04x}"
    return character.encode("unicode_escape").decode()
