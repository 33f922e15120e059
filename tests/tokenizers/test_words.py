"""Words and their ids: cutting a text, the one vocabulary in both its kinds, the one padding."""

import pytest
import torch
from each import each
from hypothesis import given
from hypothesis import strategies as st

from attnlib.tokenizers import Vocabulary, pad, split_words, trim
from attnlib.tokenizers.words import BOS, CLS, EOS, PAD, UNK, check_padding, padding_mask

WORDS = st.lists(st.sampled_from(["one", "two", "three", "hundred"]), max_size=6)


# --- a vocabulary of a classifier -------------------------------------------------------------


@given(st.text(max_size=40))
def test_words_lose_nothing_but_space_and_case(text):
    assert "".join(split_words(text)) == "".join(text.lower().split())


def test_a_vocabulary_is_ordered_by_count_then_alphabet():
    vocabulary = Vocabulary.most_frequent(["b a c", "b a", "b d d"], min_count=1)
    assert vocabulary.words[3:] == ("b", "a", "d", "c")
    assert Vocabulary.most_frequent(["b a c", "b a"], min_count=2).words[3:] == ("a", "b")
    assert Vocabulary.most_frequent(["b a c", "b a"]).words[3:] == ("a", "b")  # twice, if not said
    assert vocabulary.words[CLS] == "[CLS]"


def test_unknown_words_long_texts_and_padding():
    vocabulary = Vocabulary.most_frequent(["a b"], min_count=1)
    assert vocabulary.encode("A nightingale B") == [3, UNK, 4]
    assert vocabulary.encode("a b a b", max_len=3) == [3, 4, 3]
    ids = vocabulary.batch(["a", "b a"])
    assert ids.tolist() == [[3, PAD], [4, 3]]
    assert padding_mask(ids).tolist() == [[True, False], [True, True]]
    assert vocabulary.decode(ids[0]) == ("a",)


def test_classes_of_one_vocabulary_tell_tokens_and_words():
    vocabulary = Vocabulary.most_frequent(["a b"], min_count=1)
    ids = vocabulary.encode("b x a")
    assert vocabulary.tokens([CLS, *ids, PAD]) == ["[CLS]", "b", "<unk>", "a", "<pad>"]
    assert vocabulary.word_ids(ids) == (0, 1, 2)
    assert vocabulary.decode([CLS, *ids, PAD]) == ("[CLS]", "b", "<unk>", "a")  # what is no padding
    assert vocabulary.encode(("A", "b")) == [UNK, 4]  # words are taken as they are
    assert vocabulary == Vocabulary(vocabulary.words) != Vocabulary(vocabulary.words[:-1])
    assert len(vocabulary) == 5
    assert vocabulary.index["b"] == 4


# --- a vocabulary of a translator -------------------------------------------------------------


@given(st.lists(WORDS, min_size=1, max_size=6), st.booleans())
def test_words_survive_the_way_to_ids_and_back(rows: list[list[str]], start: bool) -> None:
    vocabulary = Vocabulary.alphabetical(rows)
    ids = vocabulary.batch(rows, start=start)
    assert [vocabulary.decode(row) for row in ids] == [tuple(row) for row in rows]
    assert ids.shape == (len(rows), max(map(len, rows)) + 1 + start)
    assert ((ids == EOS).sum(1) == 1).all()
    assert ((ids[:, 0] == BOS) == start).all()


def test_translations_begin_and_end() -> None:
    vocabulary = Vocabulary.alphabetical([("two", "one"), ("one",)])
    assert vocabulary.words == ("<pad>", "<s>", "</s>", "one", "two")
    assert vocabulary.encode("Two one") == [4, 3, EOS]
    assert vocabulary.encode("two one two", max_len=1, start=True) == [BOS, 4, EOS]
    assert vocabulary.decode(torch.tensor([BOS, 4, EOS, 3, PAD])) == ("two",)


# --- padding ----------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5))
def test_padding_stands_at_the_end_and_the_mask_is_true(rows: list[list[int]]) -> None:
    ids = pad(rows)
    assert ids.dtype == torch.int64
    assert ids.shape == (len(rows), max(map(len, rows), default=0))
    for row, full in zip(rows, ids.tolist(), strict=True):
        assert full[: len(row)] == row
        assert set(full[len(row) :]) <= {PAD}
    lengths = torch.tensor([len(row) for row in rows])
    assert torch.equal(padding_mask(ids).sum(1), lengths)


def test_trim_drops_what_is_padding_everywhere() -> None:
    assert trim(torch.tensor([[4, 2, 0, 0], [2, 0, 0, 0]])).tolist() == [[4, 2], [2, 0]]


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(ValueError, match="million"):
        Vocabulary.alphabetical([("one",)]).encode(["one", "million"])


@each("rows", [[[0, 3]], [[3, 0, 4]], [[3, 4], [0, 3]]])
def test_padding_elsewhere_is_refused(rows):
    ids = torch.tensor(rows)
    with pytest.raises(ValueError, match="only at the end of a row: <pad> is id 0"):
        padding_mask(ids)
    with pytest.raises(ValueError, match="only at the end"):
        check_padding((ids != PAD)[:, None])


def test_padding_at_the_end_is_any_amount_of_it():
    mask = padding_mask(torch.tensor([[3, 4, 5], [3, 0, 0], [0, 0, 0]]))
    assert mask.tolist() == [[True] * 3, [True, False, False], [False] * 3]
    assert check_padding(mask) is mask
    assert check_padding(torch.zeros(2, 0, dtype=torch.bool)).shape == (2, 0)
