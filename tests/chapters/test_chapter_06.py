"""The theses of chapter 06, with their controls, on other texts and seeds than the chapter's.

The tokenizer itself is tested in test_bpe.py.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from chapter_code import definitions
from num2words import num2words
from torch import Tensor

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models.ngram import CountModel
from attnlib.pretrained import LanguageModel
from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.merges import pre_tokenize
from attnlib.training.language import bits_per_byte, token_stream

LINES = ("count_pairs", "merge", "byte_ids", "train", "encode", "decode")
CUTS = ("longest_match", "both_cuts")
PRICES = ("smol", "nats", "number", "cuts_into", "recut", "prices", "count_r", "spelled")
PAGE = definitions("06_bpe", *LINES, *CUTS, "same_text")
CHAPTER = definitions("06_bpe", *CUTS, *PRICES)  # loads SmolLM2
PARTS = definitions("more/06_parts_of_words", "borders_of", "no_prefix")
SENTENCES = reviews("rotten_tomatoes").test.texts
SOLUTION = Path(__file__).parents[2] / "solutions" / "06_bpe" / "06_bpe.ipynb"


def train_texts() -> tuple[str, ...]:
    return reviews("imdb").train.texts


def held_out() -> tuple[str, ...]:
    return reviews("imdb").test.texts


@cache
def gpt2() -> BPE:
    return BPE.gpt2()


@cache
def learned() -> BPE:
    """From fewer reviews than in the chapter, to be quick."""
    return BPE.train(train_texts()[:400], 4096, progress=False)


def size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def bytes_per_token(bpe: BPE, texts: Sequence[str]) -> float:
    return size(texts) / sum(len(bpe.encode(text)) for text in texts)


# -- the theses -------------------------------------------------------------------------------


def ends(pieces: Sequence[bytes]) -> set[int]:
    """Where the tokens of a word end, in bytes."""
    return set(accumulate(map(len, pieces)))


@pytest.mark.claim(13)
def test_the_first_merges_are_a_short_training_and_more_only_take_borders_away() -> None:
    """The controls: other texts; and the longest match, where more tokens do make new borders."""
    merges = BPE.train(train_texts()[:400], 600, progress=False).merges
    assert merges == learned().merges[: 600 - 257]
    other = BPE.train(train_texts()[1_000:1_100], 300, progress=False)
    assert other.merges != learned().merges[: 300 - 257]
    text, before, added = "\n".join(held_out()[:3]), None, []
    for k in (0, 1, 2, 5, 10, 50, 200, 1_000, 3_839):
        cuts = list(PAGE.both_cuts(text, BPE(learned().merges[:k])))
        now = [(ends(replayed), ends(longest)) for _, replayed, longest in cuts]
        if before is not None:
            pairs = list(zip(now, before, strict=True))
            assert all(new[0] <= old[0] for new, old in pairs)
            added.append(np.mean([not new[1] <= old[1] for new, old in pairs]))
        before = now
    assert max(added) > 0.05


@pytest.mark.claim(110)
@pytest.mark.claim(13)
def test_the_lines_on_the_page_are_the_library() -> None:
    """On shared merges and texts: the same merges, the same ids, the same text back.

    Also the ties of the chapter by hand, and its example of a greedy choice that costs a token.
    """
    for texts, n in ((SENTENCES[:20], 60), (["low", "login"], 3), (["aaa aaaa", "ébène"], 4)):
        merges = tuple(PAGE.train(texts, n))
        assert merges == BPE.train(texts, 256 + n + 1, progress=False).merges
    by_hand = BPE(tuple(PAGE.train(["low", "login"], 3)))
    assert by_hand.tokens(range(256, 259)) == ["lo", "gi", "low"]
    rng = random.Random(8)
    drawn = "".join(chr(rng.randrange(0x20, 0xD800)) for _ in range(300))
    hard = (*held_out()[40:42], "", " ", "北京 café 😀", "aaaaaaa", "It's  a $2,087 film\n", drawn)
    for bpe in (BPE(()), BPE(learned().merges[:300]), learned(), gpt2()):
        for text in hard:
            ids = PAGE.encode(text, bpe.merges)
            assert ids == bpe.encode(text)
            assert PAGE.decode(ids, bpe.merges) == bpe.decode(ids) == text
    half = gpt2().encode("😀")[:1]
    assert PAGE.decode(half, gpt2().merges) == gpt2().decode(half) == "�"

    def tokens_left(pairs: Iterable[tuple[str, str]]) -> int:
        words = [list(w) for w, times in counts.items() for _ in range(times)]
        for pair in pairs:
            words = [PAGE.merge(word, pair, "".join(pair)) for word in words]
        return sum(map(len, words))

    counts = {"abcd": 5, "bc": 3, "ab": 2, "cd": 2}
    words = [list(w) for w, times in counts.items() for _ in range(times)]
    assert PAGE.count_pairs(words).most_common(2)[0] == (("b", "c"), 8)
    assert PAGE.count_pairs(words).most_common(2)[1][1] == 7
    pairs = ("a", "bc"), ("bc", "d"), ("a", "b"), ("c", "d")
    assert min(tokens_left([("b", "c"), pair]) for pair in pairs) == 21
    assert tokens_left([("a", "b"), ("c", "d")]) == 20


@pytest.mark.long
@pytest.mark.slow
def test_a_word_cut_otherwise_is_what_smollm2_would_hardly_write() -> None:
    """The control: a random cut into as many tokens costs as much as the longest match.

    And little of the price is paid after the word; the longest match cuts many words otherwise.
    """
    smol, full, shares = CHAPTER.smol, pretrained.tokenizer(), []
    for bpe in (BPE(full.merges[:743]), full, gpt2(), smol.tokenizer):
        words = {w: cuts for t in held_out()[150:166] for w, *cuts in CHAPTER.both_cuts(t, bpe)}
        split = [replayed != longest for replayed, longest in words.values() if len(replayed) > 1]
        shares.append(np.mean(split))
    assert min(shares[1:]) > 0.3 > shares[0]
    rng = random.Random(2)
    priced = [row for text in SENTENCES[300:450] if (row := CHAPTER.prices(text, rng))]
    assert len(priced) >= 15
    for _, _, (usual, longest, drawn) in priced:
        assert b"".join(usual) == b"".join(longest) == b"".join(drawn)
        assert len(longest) == len(drawn)
        assert usual != longest != drawn != usual
    whole, after = np.array([cost for _, cost, _ in priced]).transpose(2, 0, 1)
    error = 1.96 * whole.std(0, ddof=1) / len(whole) ** 0.5
    assert (np.minimum(whole.mean(0) - error, np.median(whole, 0)) > math.log(1_000)).all()
    assert ((whole < math.log(1_000)).mean(0) < 0.5).all()
    assert abs(whole.mean(0)[0] - whole.mean(0)[1]) < whole.mean() / 2
    assert (after.mean(0) < whole.mean(0) / 3).all()


@pytest.mark.long
@pytest.mark.slow
def test_a_token_hides_letters_and_letters_do_not_make_smollm2_count() -> None:
    """Twelve other words; the controls: another word, and always saying 1."""
    vocabulary = set(CHAPTER.smol.tokenizer.vocab.values())
    seen = Counter(w for t in held_out()[:300] for w in re.findall(r"[a-z]{6,10}", t))
    words = [w for w in seen if f" {w}".encode() in vocabulary]
    drawn = random.Random(9).sample(words, 12)
    right = np.array(
        [
            [
                np.mean([a == b for a, b in zip(CHAPTER.spelled(word, *way), word, strict=True)])
                for way in ((word, False), (word, True), (other, False))
            ]
            for word, other in pairwise([*drawn, drawn[0]])
        ]
    )
    from_word, from_letters, from_other = right.mean(0)
    assert from_other + 0.05 < from_word < 0.5 < 0.8 < from_letters
    asked = [word for n in (0, 1, 2) for word in [w for w in words if w.count("r") == n][:5]]
    for form in (str, " ".join):
        answers = [CHAPTER.count_r(form(word)) for word in asked]
        hits = np.mean([a == word.count("r") for a, word in zip(answers, asked, strict=True)])
        assert hits < 0.5, "always saying 1 is right in a third"


@pytest.mark.long
def test_word_lists_fail_where_bytes_and_merges_give_the_text_back() -> None:
    """Words split at everything that is no letter; merges of reviews, of the web, and drawn.

    The controls: MiniLM's WordPiece, and SmolLM2's tokenizer, which lacks 21 bytes.
    """
    known = {w for text in train_texts() for w in re.split(r"[\W\d_]+", text.lower())}
    new = [any(w not in known for w in re.split(r"[\W\d_]+", t.lower()) if w) for t in held_out()]
    assert 0.5 < np.mean(new) < 0.6
    rng = random.Random(7)
    drawn = (chr(rng.randrange(0x110000)) for _ in range(1_000))
    characters = "".join(c for c in drawn if not "\ud800" <= c <= "\udfff")
    noise = rng.randbytes(1_000)
    drawn_merges = {(rng.randrange(256 + i), rng.randrange(256 + i)) for i in range(300)}
    anything = BPE(tuple(sorted(drawn_merges, key=max)))
    for bpe in (BPE(()), learned(), gpt2(), anything):
        assert all(bpe.decode(bpe.encode(text)) == text for text in (*held_out()[:50], characters))
        assert bpe.decode_bytes(bpe.encode(noise)) == noise
    word_piece, smol = pretrained.minilm().tokenizer, pretrained.smollm2().tokenizer
    assert "[UNK]" in word_piece.tokens(word_piece.encode("😀"))
    assert all(smol.decode(smol.encode(text)) == text for text in (*held_out()[:50], "北京 😀"))
    assert sum(not smol.encode(bytes([byte])) for byte in range(256)) == 21


def test_gpt2s_pattern_leaves_numbers_to_the_merges_and_digits_apart_do_not() -> None:
    """Of neighbours some are whole and some are cut; under SmolLM2's pattern no merge can join."""

    def cut(number: int, bpe: BPE) -> str:
        return "|".join(bpe.tokens(bpe.encode(f" {number}"))).strip(" |")

    years = [cut(year, gpt2()) for year in range(2_022, 2_027)]
    assert years == ["2022", "20|23", "2024", "2025", "20|26"]
    some = range(1_000, 10_000, 9)
    of_merges = (gpt2(), BPE(gpt2().merges[:2_000]), pretrained.tokenizer())
    shapes = [[tuple(map(len, cut(n, bpe).split("|"))) for n in some] for bpe in of_merges]
    assert min(len(set(shape)) for shape in shapes) > 1
    assert shapes[0] != shapes[1] != shapes[2] != shapes[0]
    pieces = {piece for n in some for piece in pre_tokenize(f" {n}", "smollm")}
    assert pieces == {" ", *"0123456789"}, "no merge meets two digits"


@pytest.mark.long
@pytest.mark.slow
def test_bytes_per_token_stay_below_bytes_per_pre_token_unless_nothing_is_cut_first() -> None:
    texts = held_out()[150:175]
    ceiling = size(texts) / sum(len(pre_tokenize(text)) for text in texts)
    for bpe in (learned(), gpt2()):
        assert bytes_per_token(bpe, texts) < ceiling
        assert all(len(bpe.encode(text)) >= len(pre_tokenize(text)) for text in texts)
    assert bytes_per_token(gpt2(), texts) > 0.9 * ceiling
    free = BPE.train(train_texts()[5_000:6_000], 16_257, scheme="uncut", progress=False)
    reached = [
        bytes_per_token(BPE(free.merges[: vocabulary - 257], scheme="uncut"), texts)
        for vocabulary in (8_192, 16_257)
    ]
    assert reached[0] < ceiling < reached[1] / 1.03


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_numbers_are_cheap_under_merges_of_near_texts_alone(seed: int) -> None:
    """Near: ordinals. Far: five other languages, and English reviews, for English numbers too."""
    drawn = random.Random(seed).sample(range(10**6), 1_200)
    codes = "en", "de", "fr", "fi", "ru", "ja"
    spelled = [[num2words(n, lang=code) for n in drawn] for code in codes]
    new = [texts[1_000:] for texts in spelled]

    def trained(texts: Sequence[str]) -> BPE:
        return BPE.train(texts[:1_000], 256 + 80 + 1, progress=False)

    bpes = [*map(trained, spelled), BPE(pretrained.tokenizer().merges[:80])]
    price = 1 / np.array([[bytes_per_token(bpe, texts) for texts in new] for bpe in bpes])
    own = price.diagonal().copy()
    np.fill_diagonal(price, np.inf)
    assert (price.min(0) > 2.5 * own).all()
    for code, texts, cost in zip(codes[:2], new, own, strict=False):
        ordinals = trained([num2words(n, lang=code, to="ordinal") for n in drawn])
        assert 1 / bytes_per_token(ordinals, texts) < 1.2 * cost
    under_gpt2 = [bytes_per_token(gpt2(), texts) for texts in new]
    assert max(under_gpt2) == under_gpt2[0], "English is cheapest under GPT-2"


@torch.no_grad()
def nats_of(lm: LanguageModel, text: str, step: int = 32) -> Tensor:
    """Nats of each token: (T,); in windows, a step apart, if the model cannot read all of them."""
    tokens, width = lm.tokenizer.encode(text), lm.model.max_len
    if len(tokens) <= width:
        return CHAPTER.nats(lm, tokens)
    ids = torch.tensor([lm.tokenizer.special_tokens["<|endoftext|>"], *tokens])
    nats, start = torch.empty(0), 0
    while len(nats) < len(tokens):
        window = ids[start : start + width + 1]
        log_p = lm.model(window[None, :-1])[0].log_softmax(-1)
        found = -log_p.gather(1, window[1:, None])[:, 0]
        nats = torch.cat([nats, found[len(nats) - start :]])
        start = min(start + step, len(tokens) - width)
    return nats


def judged(lm: LanguageModel, texts: Sequence[str], lengths: Sequence[int]) -> list[list[float]]:
    """Perplexity, and bits per byte, of the tokens in the first bytes of texts: a row a length."""
    assert isinstance(lm.tokenizer, BPE)
    vocab, found = lm.tokenizer.vocab, []
    read = [
        (nats_of(lm, text), np.cumsum([len(vocab[i]) for i in lm.tokenizer.encode(text)]))
        for text in texts
    ]
    for length in lengths:
        nats = torch.cat([each[ends <= length] for each, ends in read])
        count = sum(int(ends[ends <= length][-1]) for _, ends in read)
        found.append([math.exp(nats.mean()), bits_per_byte(nats.mean().item(), len(nats), count)])
    return found


@pytest.mark.long
@pytest.mark.slow
def test_perplexity_prefers_the_toy_on_beginnings_and_bits_per_byte_never() -> None:
    """The control: the same reviews' first 1,000 bytes."""
    texts = [text[:1_000] for text in held_out()[100:] if len(text) >= 1_000][:16]
    models = pretrained.language_model("reviews-gpt"), pretrained.smollm2()
    beginnings, whole = zip(*(judged(lm, texts, (300, 1_000)) for lm in models), strict=True)
    for (toy, smol), toy_ahead in ((beginnings, True), (whole, False)):
        assert (toy[0] < smol[0]) == toy_ahead
        assert toy[1] > smol[1] + 0.05


# -- what stands in the folds and in the exercise ---------------------------------------------


@pytest.mark.long
@pytest.mark.slow
def test_of_counted_models_with_their_best_n_bytes_look_best_and_are_last() -> None:
    """Every n from 2 to 6, and other reviews than in the chapter."""
    texts, new, best = train_texts()[4_000:4_200], held_out()[150:300], []
    for k in (0, 250, 1_000, 3_839):
        bpe = BPE(learned().merges[:k])
        stream, read = token_stream(new, bpe), token_stream(texts, bpe)
        nats = min(
            CountModel(n, bpe.vocab_size).fit(read).losses(stream)[0].mean().item()
            for n in (2, 3, 4, 5, 6)
        )
        best.append((math.exp(nats), bits_per_byte(nats, len(stream), size(new))))
    perplexities, bits = zip(*best, strict=True)
    assert list(perplexities) == sorted(perplexities)
    assert bits[0] > max(bits[1:]) + 0.02


@pytest.mark.long
@pytest.mark.slow
def test_merges_of_the_web_cost_a_little_and_the_test_reviews_nothing() -> None:
    """As many merges as GPT-2's, from the training reviews; and what `reviews-bpe` has seen."""
    large, texts = BPE.train(train_texts(), 50_257, progress=False), held_out()[150:230]
    own, web = (
        np.array([bytes_per_token(BPE(bpe.merges[:n]), texts) for n in (3_839, 50_000)])
        for bpe in (large, gpt2())
    )
    assert (own > web).all()
    assert own[0] - web[0] > own[1] - web[1]
    new, bits = held_out()[:200], []
    for bpe in (pretrained.tokenizer(), BPE(large.merges[:3_839])):
        stream = token_stream(new, bpe)
        model = CountModel(3, bpe.vocab_size).fit(token_stream(train_texts()[:1_500], bpe))
        bits.append(bits_per_byte(model.losses(stream)[0].mean().item(), len(stream), size(new)))
    assert abs(bits[0] - bits[1]) < 0.001


def test_the_table_of_the_exercise_is_the_chapters() -> None:
    bpes = gpt2(), pretrained.tokenizer()
    text = "\n".join(cell.source for cell in nbformat.read(SOLUTION, as_version=4).cells)
    for language, sentences in PAGE.same_text.items():
        counts = [len(sentences), size([sentences]), *(len(bpe.encode(sentences)) for bpe in bpes)]
        assert f"| {language} | {' | '.join(map(str, counts))} |" in text


# -- the side road on the parts of words ------------------------------------------------------


@pytest.mark.long
def test_un_is_found_as_a_string_and_not_as_a_prefix() -> None:
    seen = Counter(w for text in train_texts() for w in re.findall(r"[a-z]+", text.lower()))
    words = [w for w, times in seen.items() if w.startswith("un") and len(w) > 4 and times > 2]
    under = [w for w in words if w.startswith("under")]
    letters = [w for w in words if PARTS.no_prefix.match(w)]
    prefix = set(words) - {*under, *letters}

    def share(chosen: Iterable[str], k: int) -> float:
        bpe = BPE(pretrained.tokenizer().merges[:k])
        return float(np.mean([bpe.vocab[bpe.encode(f" {w}")[0]] == b" un" for w in chosen]))

    assert share(prefix, 500) > 0.85
    assert share(letters, 500) > 0.85, "as often where it is no prefix"
    assert share(under, 500) == 0, "but not where another string was faster"
    assert 0.5 < share(prefix, 3_839) < 0.75
    assert share(letters, 3_839) > share(prefix, 3_839)
