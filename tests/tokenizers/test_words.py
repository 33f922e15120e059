"""Words and their ids: cutting a text, the two vocabularies, the one padding."""

import pytest
import torch
from devices import nothing_made_elsewhere
from hypothesis import given
from hypothesis import strategies as st

from attnlib.tokenizers import ReviewVocabulary, Vocabulary, pad, split_words, trim
from attnlib.tokenizers.words import BOS, CLS, EOS, PAD, UNK, check_padding, padding_mask

SENTENCES = st.lists(st.sampled_from(["one", "two", "three", "hundred"]), max_size=6)


@given(st.text(max_size=40))
def test_words_lose_nothing_but_space_and_case(text):
    assert "".join(split_words(text)) == "".join(text.lower().split())


# --- the vocabulary of a classifier -----------------------------------------------------------


def test_a_vocabulary_of_reviews_is_ordered_by_count_then_alphabet():
    vocabulary = ReviewVocabulary.most_frequent(["b a c", "b a", "b d d"], min_count=1)
    assert vocabulary.words[3:] == ("b", "a", "d", "c")
    assert ReviewVocabulary.most_frequent(["b a c", "b a"]).words[3:] == (
        "a",
        "b",
    )  # twice at least
    assert vocabulary.words[CLS] == "[CLS]"


def test_a_text_becomes_words_and_ids():
    vocabulary = ReviewVocabulary.most_frequent(["a b"], min_count=1)
    assert vocabulary.encode("A nightingale B") == [3, UNK, 4]
    assert vocabulary.encode("a b a b", max_len=3) == [3, 4, 3]
    with nothing_made_elsewhere():
        ids = vocabulary.batch(["a nightingale", "b a b"], max_len=2)
    assert ids.tolist() == [[3, UNK], [4, 3]]
    row = torch.tensor([CLS, 4, UNK, 3, PAD])
    assert vocabulary.tokens(row) == ["[CLS]", "b", "<unk>", "a", "<pad>"]
    assert vocabulary.decode(row) == ("[CLS]", "b", "<unk>", "a")
    assert vocabulary.word_ids(row) == (0, 1, 2, 3, 4)
    with pytest.raises(ValueError, match="from 0 to 4, got -1"):
        vocabulary.tokens([-1])


def test_vocabularies_of_the_same_words_are_equal():
    words = ("<pad>", "<s>", "</s>", "one")
    assert Vocabulary(words) == Vocabulary(words)
    assert Vocabulary(words) != Vocabulary(words[:-1])
    assert Vocabulary(words) != ReviewVocabulary(words)
    assert (len(Vocabulary(words)), Vocabulary(words).index["one"]) == (4, 3)


# --- the vocabulary of a translator -----------------------------------------------------------


@given(st.lists(SENTENCES, min_size=1, max_size=6), st.booleans())
def test_words_survive_the_way_to_ids_and_back(rows: list[list[str]], start: bool) -> None:
    vocabulary = Vocabulary.alphabetical(rows)
    ids = vocabulary.batch(rows, start=start)
    assert [vocabulary.decode(row) for row in ids] == [tuple(row) for row in rows]
    assert ids.shape == (len(rows), max(map(len, rows)) + 1 + start)
    assert ((ids == EOS).sum(1) == 1).all()
    assert ((ids[:, 0] == BOS) == start).all()


def test_a_vocabulary_for_translation_is_alphabetical_and_closed() -> None:
    vocabulary = Vocabulary.alphabetical([("two", "one"), ("one",)])
    assert vocabulary.words == ("<pad>", "<s>", "</s>", "one", "two")
    assert vocabulary.encode(("two", "one")) == [4, 3, EOS]
    assert vocabulary.encode(("two",), start=True) == [BOS, 4, EOS]
    assert vocabulary.decode(torch.tensor([BOS, 4, EOS, 3, PAD])) == ("two",)
    with pytest.raises(ValueError, match="million"):
        vocabulary.encode(["one", "million"])


# --- padding ----------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5))
def test_padding_stands_at_the_end_and_the_mask_is_true(rows: list[list[int]]) -> None:
    with nothing_made_elsewhere():
        ids = pad(rows)
        mask = padding_mask(ids)
    assert ids.dtype == torch.int64
    assert ids.shape == (len(rows), max(map(len, rows), default=0))
    for row, padded in zip(rows, ids.tolist(), strict=True):
        assert padded == row + [PAD] * (len(padded) - len(row))
    assert mask.sum(1).tolist() == [len(row) for row in rows]


def test_trim_drops_what_is_padding_everywhere() -> None:
    assert trim(torch.tensor([[4, 2, 0, 0], [2, 0, 0, 0]])).tolist() == [[4, 2], [2, 0]]


@pytest.mark.parametrize("rows", [[[0, 3]], [[3, 0, 4]], [[3, 4], [0, 3]]])
def test_padding_elsewhere_is_refused(rows):
    ids = torch.tensor(rows)
    with pytest.raises(ValueError, match="only at the end of a row: <pad> is id 0"):
        padding_mask(ids)
    with pytest.raises(ValueError, match="only at the end"):
        check_padding((ids != PAD)[:, None])
