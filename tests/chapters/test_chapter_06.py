"""What chapter 06 finds about sub-words, computed again in another way.

The tokenizer itself is tested in test_bpe.py; here stand the findings: words that are never seen
again, tokens across words, work of two trainers, German borders, languages, perplexity.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlib import pretrained
from attnlib.data import join_words, reviews, spell
from attnlib.models.ngram import CountModel
from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.merges import learn_merges, pre_tokenize
from attnlib.trace import merge_words
from attnlib.training.language import bits_per_byte, token_stream

COMPOUND = "Abwasserbehandlungsanlage"
SENTENCE = "An overlong, unwatchable melodrama, and the screenwriter knows it."


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
    return BPE.train(train_texts()[:1_000], 4096, progress=False)


def bytes_per_token(bpe: BPE, texts: tuple[str, ...]) -> float:
    return sum(len(t.encode()) for t in texts) / sum(len(bpe.encode(t)) for t in texts)


# -- words and letters ------------------------------------------------------------------------


def test_few_words_but_many_reviews_hold_one_that_was_never_seen() -> None:
    """Split at everything that is no letter, instead of finding runs of letters."""
    known: set[str] = set()
    sizes = []
    for text in train_texts():
        known.update(re.split(r"[\W\d_]+", text.lower()))
        sizes.append(len(known))
    new = [[w not in known for w in re.split(r"[\W\d_]+", t.lower()) if w] for t in held_out()]
    assert 0.005 < sum(map(sum, new)) / sum(map(len, new)) < 0.01
    assert 0.5 < np.mean([any(row) for row in new]) < 0.6
    assert sizes[-1] > 1.3 * sizes[9_999]  # no end in sight


# -- learning ---------------------------------------------------------------------------------


@pytest.mark.claim(13)
def test_low_and_login_with_a_pencil() -> None:
    """The three steps as they stand on the slide, each word written out."""
    pairs = Counter([*pairwise("low"), *pairwise("login")])
    assert pairs.most_common(1) == [(("l", "o"), 2)]
    pairs = Counter([*pairwise(["lo", "w"]), *pairwise(["lo", "g", "i", "n"])])
    assert set(pairs.values()) == {1}  # a tie of four, so the oldest tokens decide
    age = {token: i for i, token in enumerate([*"gilnow", "lo"])}
    assert min(pairs, key=lambda p: (age[p[0]], age[p[1]])) == ("g", "i")
    bpe = BPE.train(["login", "low"], 259 + 1, progress=False)
    assert bpe.tokens(range(256, 259)) == ["lo", "gi", "low"]
    assert bpe.tokens(bpe.encode("lowing")) == ["low", "i", "n", "g"]  # never seen, not unknown


def replace_all(words: Counter[str], pair: tuple[str, str]) -> Counter[str]:
    """One merge in words that are written with a bar between tokens: "|a|b|"."""
    old, new = f"|{pair[0]}|{pair[1]}|", f"|{pair[0]}{pair[1]}|"
    merged: Counter[str] = Counter()
    for word, times in words.items():
        while old in word:  # from left to right
            word = word.replace(old, new, 1)
        merged[word] += times
    return merged


@pytest.mark.claim(13)
def test_the_recipe_on_plain_text_learns_the_merges_of_the_library() -> None:
    """Counting all pairs again before each merge, on strings, with `re` instead of loops."""
    texts = [t for t in reviews("rotten_tomatoes").train.texts if t.isascii() and "|" not in t][:60]
    pieces = Counter(piece for text in texts for piece in pre_tokenize(text))
    words = Counter({f"|{'|'.join(piece)}|": times for piece, times in pieces.items()})
    age = {letter: BPE(()).encode(letter)[0] for letter in set("".join(texts))}
    found = []
    for new in range(256, 256 + 80):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for left, right in re.findall(r"(?<=\|)([^|]+)\|(?=([^|]+)\|)", word):
                pairs[left, right] += times
        best = min(pairs, key=lambda p: (-pairs[p], age[p[0]], age[p[1]]))
        found.append((age[best[0]], age[best[1]]))
        words, age["".join(best)] = replace_all(words, best), new
    assert BPE.train(texts, 256 + 80 + 1, progress=False).merges == tuple(found)


def test_every_look_at_a_word_shortens_it_so_looks_are_at_most_the_letters() -> None:
    """Words touched by a merge are those that get shorter; in all fewer than there are bytes."""
    pieces = {piece for text in train_texts()[:30] for piece in pre_tokenize(text)}
    bpe = BPE.train(train_texts()[:30], 256 + 120 + 1, progress=False)
    looks, again, before = 0, 0, [len(piece.encode()) for piece in pieces]
    for k in range(1, 121):
        part = BPE(bpe.merges[:k])
        after = [len(part._encode_word(piece)) for piece in pieces]
        looks += sum(a < b for a, b in zip(after, before, strict=True))
        again += len(pieces)
        before = after
    assert looks <= sum(len(piece.encode()) for piece in pieces)
    assert again > 15 * looks


def test_without_the_cut_tokens_lie_across_words_and_compress_a_little_better() -> None:
    texts, new = train_texts()[:150], held_out()[:40]
    bounded = BPE.train(texts, 256 + 600 + 1, progress=False)
    free = BPE(learn_merges(Counter(texts), 600, progress=False))
    pieces = [free.decode([i]) for i in range(256, 856)]
    across = sum(len(pre_tokenize(piece)) > 1 for piece in pieces)
    assert across > 0.3 * 600
    assert all(len(pre_tokenize(bounded.decode([i]))) == 1 for i in range(256, 856))
    assert sum("film" in piece for piece in pieces) > 1
    uncut = sum(len(free._encode_word(text)) for text in new)
    assert free.decode(free._encode_word(new[0])) == new[0]
    assert 0.95 < uncut / sum(len(bounded.encode(text)) for text in new) < 1


def test_the_longest_token_that_fits_is_another_cut() -> None:
    bpe = BPE(learned().merges[:300])
    known = set(bpe.vocab.values()) - {b"<|endoftext|>"}
    pieces = sorted({piece for text in held_out()[:5] for piece in pre_tokenize(text)})
    times = Counter(piece for text in held_out()[:5] for piece in pre_tokenize(text))
    other = running = 0
    for piece in pieces:
        rest, greedy = piece.encode(), []
        while rest:
            end = max(e for e in range(1, len(rest) + 1) if rest[:e] in known)
            greedy.append(rest[:end])
            rest = rest[end:]
        differs = greedy != [bpe.vocab[i] for i in bpe.encode(piece)]
        other, running = other + differs, running + differs * times[piece]
    assert other / len(pieces) > 0.15
    assert running / times.total() < 0.6 * other / len(pieces), "frequent words are cut alike"


# -- GPT-2's vocabulary -----------------------------------------------------------------------


def test_gpt2s_table_is_padded_to_a_multiple_of_64_elsewhere() -> None:
    assert gpt2().vocab_size == 50_257 == 256 + 50_000 + 1
    assert 50_304 == next(n for n in range(50_257, 51_000) if n % 64 == 0)
    with pytest.raises(ValueError, match="from 0 to 50256"):
        gpt2().decode([50_303])


def test_gpt2_has_names_that_no_review_uses_and_every_film_in_three_forms() -> None:
    texts = train_texts()[:1_000]
    used = {i for text in texts for i in gpt2().encode(text)}
    assert 0.3 < len(used) / 50_257 < 0.6
    for name in (" SolidGoldMagikarp", " RandomRedditorWithNo", " externalToEVA"):
        (number,) = gpt2().encode(name)
        assert number not in used
        assert not any(name in text for text in texts)
    assert len({gpt2().encode(form)[0] for form in (" film", "film", " Film")}) == 3
    assert gpt2().encode("film ")[-1] == gpt2().encode(" ")[0]  # a space at the end stays alone


def test_gpt2_cuts_years_whole_and_other_numbers_unevenly() -> None:
    lengths = np.array([len(gpt2().encode(f" {n}")) for n in range(10_000)])
    assert (lengths[:100] == 1).all()
    assert (lengths[1900:2021] == 1).mean() > 0.95
    assert (lengths[2100:] == 1).mean() < 0.01
    assert set(lengths[1000:]) == {1, 2, 3}
    assert gpt2().tokens(gpt2().encode(" 2087")) == [" 20", "87"]
    assert gpt2().tokens(gpt2().encode(" 9999")) == [" 9", "999"]


def test_a_model_gets_no_letters() -> None:
    (straw,) = gpt2().encode(" strawberry")
    assert gpt2().vocab[straw] == b" strawberry"
    assert sum(b"r" in token for token in gpt2().vocab.values()) == 17_279


# -- compression ------------------------------------------------------------------------------


def test_un_is_found_as_a_string_and_not_as_a_prefix() -> None:
    """Words with the prefix, and two kinds of words that only begin with its letters."""
    seen = Counter(w for text in train_texts() for w in re.findall(r"[a-z]+", text.lower()))
    words = [w for w, times in seen.items() if w.startswith("un") and len(w) > 4 and times > 2]
    letters = ("uncle", "uncles", "until", "unless")
    letters += tuple(w for w in words if re.match("uni(on|t|q|v|f|s)", w))
    under = [w for w in words if w.startswith("under")]
    prefix = [w for w in words if w not in (*letters, *under)]
    full = pretrained.tokenizer()

    def share(chosen: Sequence[str], k: int) -> float:
        bpe = BPE(full.merges[:k])
        return float(np.mean([bpe.vocab[bpe.encode(f" {w}")[0]] == b" un" for w in chosen]))

    assert share(prefix, 500) > 0.85
    assert share(letters, 500) > 0.85, "as often where it is no prefix"
    assert share(under, 500) == 0, "but not where another string was faster"
    assert BPE(full.merges[:500]).encode("nder") == [full.encode("nder")[0]]
    assert 0.5 < share(prefix, 3_839) < 0.75


def test_half_of_the_unknown_words_are_written_with_a_capital_and_the_rest_is_not_only_errors() -> (
    None
):
    known = {w for text in train_texts() for w in re.findall(r"[^\W\d_]+", text.lower())}
    unknown = [w for t in held_out() for w in re.findall(r"[^\W\d_]+", t) if w.lower() not in known]
    assert 0.4 < np.mean([w[0].isupper() for w in unknown]) < 0.7
    assert {"sanctum", "constraint", "tortilla", "waterside"} <= set(unknown)


@pytest.mark.claim(13)
def test_a_large_training_contains_every_smaller_one() -> None:
    texts = train_texts()[:1_000]
    for size in (300, 1_000):
        assert BPE.train(texts, size, progress=False).merges == learned().merges[: size - 257]


@pytest.mark.claim(13)
def test_a_merge_only_takes_borders_away() -> None:
    text = "\n".join(held_out()[:3])
    borders = None
    for k in (0, 1, 2, 5, 10, 50, 200, 1_000, 3_839):
        bpe = BPE(learned().merges[:k])
        ends = np.cumsum([len(bpe.vocab[i]) for i in bpe.encode(text)])
        assert borders is None or set(ends) <= borders
        borders = set(ends)


def test_each_doubling_of_the_vocabulary_compresses_more_but_gains_less() -> None:
    parts = [BPE(learned().merges[: size - 257]) for size in (257, 512, 1024, 2048, 4096)]
    curve = np.array([bytes_per_token(part, held_out()[:80]) for part in parts])
    assert curve[0] == 1
    gains = np.diff(curve)
    assert (gains > 0).all()
    assert (np.diff(gains) < 0).all()


@pytest.mark.long
@pytest.mark.slow
def test_merges_of_the_web_cost_a_little_at_every_size_and_gain_as_much_later() -> None:
    """The control: as many merges as GPT-2's, from the training reviews; and the leak's size."""
    large, texts = BPE.train(train_texts(), 50_257, progress=False), held_out()[150:230]
    sizes = (1_000, 3_839, 12_000, 50_000)
    own, web = (
        np.array([bytes_per_token(BPE(bpe.merges[:n]), texts) for n in sizes])
        for bpe in (large, gpt2())
    )
    assert (own > web).all()
    assert 0.8 < own[-1] - own[1] < 1.1
    assert web[-1] - web[1] > 0.9 * (own[-1] - own[1])
    assert own[1] - web[1] > own[-1] - web[-1]
    full, unspoilt = pretrained.tokenizer(), BPE(large.merges[:3_839])
    assert len(set(full.vocab.values()) & set(unspoilt.vocab.values())) > 4_000
    new, bits = held_out()[:200], []
    for bpe in (full, unspoilt):
        stream = token_stream(new, bpe)
        model = CountModel(3, bpe.vocab_size).fit(token_stream(train_texts()[:1_500], bpe))
        size = sum(len(text.encode()) for text in new)
        bits.append(bits_per_byte(model.nats_per_token(stream), len(stream), size))
    assert abs(bits[0] - bits[1]) < 0.001


def test_languages_and_code_pay_for_an_english_vocabulary() -> None:
    from num2words import num2words

    numbers = range(0, 1_000_000, 29_989)
    total = {
        language: sum(len(gpt2().encode(num2words(n, lang=language))) for n in numbers)
        for language in ("en", "de", "fi", "ru", "ja")
    }
    assert min(total, key=total.__getitem__) == "en"
    assert max(total, key=total.__getitem__) == "ru"
    assert total["ja"] < total["de"] < total["fi"]
    source = Path(re.__file__).read_text(encoding="utf-8")
    flat = "\n".join(line.lstrip() for line in source.splitlines())
    code, no_indent = (bytes_per_token(gpt2(), (text,)) for text in (source, flat))
    assert code < no_indent < 0.8 * bytes_per_token(gpt2(), held_out()[:80]), "not only indents"
    assert bytes_per_token(gpt2(), (source,)) < 0.75 * bytes_per_token(gpt2(), held_out()[:80])
    assert len(gpt2().encode("        return")) == 8  # seven spaces, and " return"


# -- German -----------------------------------------------------------------------------------


def cuts_and_borders(bpe: BPE, parts: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """Where a tokenizer cuts a German number, and where its parts meet, in bytes."""
    lengths = [len(bpe.vocab[i]) for i in bpe.encode(join_words(parts, "de"))]
    found = set(np.cumsum(lengths)[:-1].tolist())
    return found, set(np.cumsum([len(part.encode()) for part in parts])[:-1].tolist())


def test_a_german_bpe_goes_from_too_many_cuts_to_too_few() -> None:
    drawn = [spell(n, "de") for n in random.Random(6).sample(range(10**6), 1_200)]
    german = BPE.train([join_words(p, "de") for p in drawn[:1_000]], 657, progress=False)
    pieces = german.tokens(range(256, 656))
    assert pieces.index("zigtausend") < pieces.index("acht")
    both = []
    for k in (0, 20, 40, 50, 60, 80, 120, 200, 400):
        pairs = [cuts_and_borders(BPE(german.merges[:k]), parts) for parts in drawn[1_000:]]
        hit = sum(len(found & true) for found, true in pairs)
        cuts, true = (sum(map(len, sets)) for sets in zip(*pairs, strict=True))
        both.append((hit / cuts, hit / true))
    assert both[0][0] < 0.2
    assert both[0][1] == 1
    assert both[-1][0] > 0.98
    assert both[-1][1] < 0.45
    assert max(min(pair) for pair in both) < 0.75  # never both


def test_no_vocabulary_of_the_chapter_cuts_the_compound_as_the_notes_do() -> None:
    for bpe in (gpt2(), learned()):
        pieces = bpe.tokens(bpe.encode(COMPOUND))
        assert "".join(pieces) == COMPOUND
        assert pieces != ["Abwasser", "behandlungs", "anlage"]
        assert len(pieces) >= 10


# -- perplexity -------------------------------------------------------------------------------


def scores(bpe: BPE, n: int, texts: tuple[str, ...], new: tuple[str, ...]) -> tuple[float, float]:
    """Bits per byte and perplexity of an n-gram model."""
    stream = token_stream(new, bpe)
    nats = CountModel(n, bpe.vocab_size).fit(token_stream(texts, bpe)).nats_per_token(stream)
    size = sum(len(text.encode()) for text in new)
    bits = bits_per_byte(nats, len(stream), size)
    assert bits == pytest.approx(nats * len(stream) / size / math.log(2))
    return bits, math.exp(nats)


@pytest.mark.slow
@pytest.mark.parametrize("reviews_read", [200, pytest.param(1_500, marks=pytest.mark.long)])
def test_with_the_best_n_for_each_perplexity_and_bits_per_byte_rank_in_opposite_orders(
    reviews_read: int,
) -> None:
    """Every n from 2 to 6, and other reviews than in the chapter."""
    texts, new = train_texts()[4_000 : 4_000 + reviews_read], held_out()[150:300]
    best, trigram = [], []
    for k in (0, 250, 1_000, 3_839):
        bpe = BPE(learned().merges[:k])
        of_n = {n: scores(bpe, n, texts, new) for n in (2, 3, 4, 5, 6)}
        best.append(min(of_n.values()))
        trigram.append(of_n[3][0])
    bits, perplexities = map(list, zip(*best, strict=True))
    assert perplexities == sorted(perplexities)
    assert bits == sorted(bits, reverse=True)
    assert trigram[0] - bits[0] > 3 * (bits[0] - bits[-1]), "n = 3 for all is unfair to bytes"


# -- attention between words ------------------------------------------------------------------


def test_rows_of_the_word_map_sum_to_one_and_markers_are_not_inflated() -> None:
    trace = pretrained.language_model("attention-1").trace(SENTENCE)
    merged = trace.to_words()
    assert len(merged.tokens) < len(trace.tokens)
    assert "".join(merged.tokens) == SENTENCE
    torch.testing.assert_close(
        merged.attention.sum(-1), torch.ones(merged.attention.shape[:3]), atol=1e-5, rtol=0
    )
    encoder = pretrained.minilm()
    for text in reviews("rotten_tomatoes").test.texts[:8]:
        one = encoder.trace(text)
        word_ids = np.array(one.word_ids)
        by_word = merge_words(one.attention, word_ids.tolist()).numpy()
        for marker in (0, -1):  # [CLS] and [SEP]
            column = one.attention.numpy()[..., marker]
            for word in range(by_word.shape[-1]):
                expected = column[..., word_ids == word].mean(-1)  # an average, whatever is split
                np.testing.assert_allclose(by_word[..., word, marker], expected, atol=1e-6)


def test_merging_moves_the_mean_of_a_marker_by_very_little_and_both_ways() -> None:
    encoder, changes, shares = pretrained.minilm(), [], []
    for text in reviews("rotten_tomatoes").test.texts[60:100]:
        one = encoder.trace(text)
        merged = one.to_words()
        if len(merged.tokens) < len(one.tokens):
            shares.append(one.attention[..., [0, -1]].mean((0, 1, 2)))
            changes.append(merged.attention[..., [0, -1]].mean((0, 1, 2)) - shares[-1])
    cls, sep = torch.stack(changes).T
    assert (sep > 0).float().mean() > 0.8
    assert sep.mean() < 0.1 * torch.stack(shares)[:, 1].mean()
    assert cls.mean() < 0
