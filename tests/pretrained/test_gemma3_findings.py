"""What Gemma 3 says of the theses of chapters 04 to 06, found again with few texts.

SmolLM2 is asked in the chapters and their tests; `gemma3` in chapters/theses.toml is what this
model says, with intervals of more texts. Chapters 09, 11, 14 and 15 ask it themselves.
"""

import math
import random
import re
from collections import Counter
from itertools import islice, pairwise

import pytest
import torch
from chapter_code import definitions
from gemma import gemma_or_skip
from torch import Tensor
from torch.nn import functional as F

from attnlib.data import reviews
from attnlib.decoding import generate, greedy
from attnlib.pretrained import gemma3, language_model, smollm2

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("no_gradients")]
SELF_ATTENTION = definitions("04_self_attention", "SENTENCES", "NEUTRAL", "exchange")
GPT = definitions("05_gpt2", "grams", "repetition")
TOKENS = definitions("06_bpe", "longest_match")
FILMS = reviews("imdb").test.texts
SHORT = reviews("rotten_tomatoes").test.texts
MIDDLE = 8  # of 18 layers: after it states of an ambiguous word are compared


@pytest.fixture(scope="module")
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def lm():
    gemma_or_skip()
    yield gemma3()
    gemma3.cache_clear()  # 1.1 GB


def states_of(model, ids: Tensor, last: int = 17, **how) -> list:
    """What the layers up to `last` do with texts (n, T)."""
    return list(islice(model.run(model.embed(ids), **how), last + 1))


def nats(lm, ids: list[int]) -> Tensor:
    """Minus the log-probability of each token after the first: (T - 1,)."""
    text = torch.tensor(ids)
    return F.cross_entropy(lm.model(text[None, :-1])[0], text[1:], reduction="none")


# --- chapter 04 -------------------------------------------------------------------------------


def test_a_query_of_zeros_averages_what_the_window_shows(lm):
    """Chapter 04: a softmax of zeros is a running average; in a local layer, of 512 tokens."""
    ids = torch.tensor(lm.encode(" ".join(FILMS[:6]))[:600])[None]
    zero = {("q", layer): torch.zeros_like for layer in (4, 5)}
    local, whole = states_of(lm.model, ids, 5, edits=zero)[4:]
    for t in (0, 7, 511, 599):
        torch.testing.assert_close(whole.z[0, 3, t], whole.v[0, 0, : t + 1].mean(0))
        seen = local.v[0, 0, max(0, t - 511) : t + 1]
        torch.testing.assert_close(local.z[0, 3, t], seen.mean(0))
    assert not torch.allclose(local.z[0, 3, 599], local.v[0, 0].mean(0), atol=1e-3)


@pytest.mark.parametrize("text", SHORT[20:22])
def test_nothing_leaks_through_18_layers(lm, text):
    """Chapter 04: bit for bit; with weights zeroed after the softmax the past moves."""
    ids = torch.tensor(lm.encode(text))
    other = torch.cat([ids[:-1], (ids[-1:] + 7) % 1000])
    assert torch.equal(lm.model(ids[None])[0, :-1], lm.model(other[None])[0, :-1])
    visible = torch.ones(len(ids), len(ids)).tril()
    pairs = [states_of(lm.model, each[None]) for each in (ids, other)]
    for two in zip(*pairs, strict=True):
        z = [(s.q @ s.k.mT / 16).softmax(-1) * visible @ s.v for s in two]
        assert (z[0] - z[1])[0, :, :-1].abs().amax((1, 2)).min() > 1e-4


def weights_by_cue(lm, number: int) -> Tensor:
    """Weight on the gap for 2 own cues, 4 of other words, 5 neutral words: (11, layer, head)."""
    names = list(SELF_ATTENTION.SENTENCES)
    cues = [
        SELF_ATTENTION.SENTENCES[names[(number + step) % 16]][step // 2 % 2]
        for step in (3, 5, 7, 9)
    ]
    cues = [*SELF_ATTENTION.SENTENCES[names[number]], *cues, *SELF_ATTENTION.NEUTRAL]
    ids = torch.tensor([lm.encode(names[number].format(cue)) for cue in cues])
    gap = len(lm.encode(names[number].partition(" {}")[0]))
    states = states_of(lm.model, ids, MIDDLE, need_weights=True)
    return torch.stack([state.pattern[:, :, -2, gap] for state in states], 1)


def test_a_head_of_gemma_looks_by_content(lm):
    """Chapter 04: chosen on the second cues; the control is another word's cue in the gap."""
    weights = torch.stack([weights_by_cue(lm, number) for number in range(16)])
    other, neutral = weights[:, 2:6].mean(1), weights[:, 6:].mean(1)
    chosen = (weights[:, 1] - other).mean(0).argmax().item()
    assert divmod(chosen, 4) == (6, 0)
    first = weights[:, 0, 6, 0] - other[:, 6, 0]
    assert first.mean() > 0.12
    own = weights[:, :2].mean(1)
    assert (own > torch.maximum(other, neutral))[:, 6, 0].all()
    assert own[:, 6, 0].mean() > 3 * other[:, 6, 0].mean()
    assert own[:, 3, 3].mean() > 5 * other[:, 3, 3].mean(), "the most selective head"


def moved_by(lm, sentence: str, cues: tuple[str, str], heads: list[tuple[int, int]]) -> Tensor:
    """The share of the difference after the middle layer that goes with each head: (head,)."""
    ids = torch.tensor([lm.encode(sentence.format(cue)) for cue in cues])
    plain = states_of(lm.model, ids, MIDDLE)
    two = plain[MIDDLE].resid_post[:, -2]
    difference, found = two[0] - two[1], []
    for layer, head in heads:
        edit = {("z", layer): SELF_ATTENTION.exchange(head)}
        states = lm.model.run(plain[layer].resid_pre, first=layer, edits=edit)
        edited = list(islice(states, MIDDLE + 1 - layer))[-1].resid_post[:, -2]
        change = (two[0] - edited[0] - two[1] + edited[1]) / 2
        found.append(change @ difference / (difference @ difference))
    return torch.stack(found)


def test_the_most_selective_head_moves_little_and_a_less_choosy_one_a_third(lm):
    heads = [(3, 3), (6, 0), (0, 0), (1, 2)]
    items = islice(SELF_ATTENTION.SENTENCES.items(), 10)
    selective, chosen, *early = torch.stack([moved_by(lm, *i, heads) for i in items]).mean(0)
    assert abs(selective) < 0.08
    assert selective < chosen < min(early)
    assert 0.22 < min(early) <= max(early) < 0.4


# --- chapter 05 -------------------------------------------------------------------------------


def test_attention_writes_longer_vectors_in_most_blocks_and_is_missed_less(lm):
    """Chapter 05: the sum holds, the lengths do not, and what is missed more is as in SmolLM2."""
    ids = [lm.encode(text) for text in FILMS[:8]]
    batch = torch.tensor([i[:81] for i in ids if len(i) > 81][:2])
    x = lm.model.embed(batch[:, :-1])
    states = list(lm.model.run(x))
    total = x + sum(state.attn_out + state.mlp_out for state in states)
    torch.testing.assert_close(total, states[-1].resid_post, rtol=1e-3, atol=1e-2)
    attention, feed_forward = (
        torch.stack([y[:, 1:].norm(dim=-1).median() for y in written])
        for written in zip(*((s.attn_out, s.mlp_out) for s in states), strict=True)
    )
    assert 5 <= (feed_forward > attention).sum() <= 8, "of 18"
    assert (feed_forward > attention)[[6, 11, 16, 17]].all()

    def only_the_mean(y: Tensor) -> Tensor:
        return torch.cat([y[:, :1], y[:, 1:].mean((0, 1)).expand_as(y[:, 1:])], 1)

    def loss(*site: str) -> Tensor:
        edits = {(s, layer): only_the_mean for s in site for layer in range(18)}
        return F.cross_entropy(lm.model(batch[:, :-1], edits=edits).mT, batch[:, 1:])

    whole = loss()
    missed = loss("attn_out") - whole, loss("mlp_out") - whole
    assert missed[0] > 2
    assert missed[1] > missed[0] + 1.5


def test_a_rotary_score_of_gemma_sees_the_distance_alone(lm):
    """Chapter 05: one state at all positions, in a local layer and in a global one."""
    x = lm.model.embed(torch.tensor(lm.encode("a film"))[None])[:, -1:].expand(1, 40, 640)
    lines = []
    for layer in (4, 5):
        state = next(lm.model.run(x, first=layer))
        scores = (state.q @ state.k.mT)[0]  # (head, query, key)
        diagonals = [scores.diagonal(offset, 1, 2) for offset in (-20, -3, 0)]
        for line in diagonals:
            torch.testing.assert_close(line, line[:, :1].expand_as(line), atol=0.02, rtol=1e-4)
        lines.append(torch.stack([line[:, 0] for line in diagonals]))
    assert all(line.std(0).max() > 1 for line in lines), "it does see the distance"


@pytest.mark.long
def test_greedy_text_of_gemma_repeats_itself(lm):
    """Chapter 05: the reviewers' own words and drawn text are the controls."""
    ids = [lm.encode(text) for text in FILMS[100:120]]
    people = [torch.tensor(text[:49]) for text in ids if len(text) >= 49][:8]
    starts = [text[:9] for text in people]  # <bos> and eight tokens
    ways = greedy(lm.model, starts, 40), generate(lm.model, starts, 40, seed=3), people
    found, drawn, theirs = (
        sum(GPT.repetition(text[9:].tolist()) for text in texts) / len(people) for texts in ways
    )
    assert found > 0.15
    assert max(drawn, theirs) < 0.08


# --- chapter 06 -------------------------------------------------------------------------------


def test_bytes_stand_for_what_is_no_piece_and_every_digit_stands_alone(lm):
    """Chapter 06: texts come back, with one character's exception."""
    tokenizer, other = lm.tokenizer, smollm2().tokenizer
    rng = random.Random(7)
    drawn = "".join(chr(rng.randrange(0x20, 0xD800)) for _ in range(500)).replace("▁", "")
    for text in (*FILMS[:20], "北京 café 😀\x00\x7f", drawn):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode("a▁b")) == "a b", "▁ is read as a space"
    assert {bytes([byte]) for byte in range(256)} <= set(tokenizer.vocab.values())
    shapes = Counter(
        "|".join(str(len(t)) for t in tokenizer.tokens(tokenizer.encode(f" {n}"))[2:])
        for n in range(1_000, 10_000, 7)
    )
    assert set(shapes) == {"1|1|1|1"}
    size = sum(len(text.encode()) for text in FILMS[:20])
    theirs, ours = (
        size / sum(len(bpe.encode(text)) for text in FILMS[:20]) for bpe in (other, tokenizer)
    )
    assert 4 < theirs < ours < 5


def recut(tokenizer, known: dict[str, int], sentence: str, rng: random.Random) -> list | None:
    """Ids of a sentence as usual, with its one word cut by longest match, and at random."""
    words = [word.replace(" ", "▁") for word in re.findall(r" ?\S+", sentence)]
    usual = [[tokenizer.pieces[i] for i in tokenizer.encode(word)[1:]] for word in words]
    if any(letter not in known for letter in "".join(words)):
        return None
    longest = [TOKENS.longest_match(word, known) for word in words]
    changed = [i for i in range(len(words)) if usual[i] != longest[i]]
    if len(changed) != 1:
        return None
    (i,) = changed

    def cuts_into(word: str, n: int) -> list[list[str]]:
        if n == 0:
            return [] if word else [[]]
        ends = [end for end in range(1, len(word) + 1) if word[:end] in known]
        return [[word[:end], *rest] for end in ends for rest in cuts_into(word[end:], n - 1)]

    others = [c for c in cuts_into(words[i], len(longest[i])) if c not in (usual[i], longest[i])]
    if not others:
        return None
    ways = usual[i], longest[i], rng.choice(others)
    texts = [[*usual[:i], way, *usual[i + 1 :]] for way in ways]
    return [[tokenizer.start, *(known[piece] for cut in text for piece in cut)] for text in texts]


def test_a_word_cut_otherwise_is_what_gemma_would_hardly_write(lm):
    """Chapter 06: the longest match, and a random cut into as many tokens."""
    tokenizer, rng = lm.tokenizer, random.Random(3)
    known = {piece: i for i, piece in enumerate(tokenizer.pieces) if i in tokenizer.vocab}
    known = {piece: i for piece, i in known.items() if not re.fullmatch("<.*>", piece)}
    short = (text for text in SHORT[600:] if len(text.split()) < 16)
    priced = list(islice((r for s in short if (r := recut(tokenizer, known, s, rng))), 7))
    price = []
    for usual, *others in priced:
        assert {tokenizer.decode(ids) for ids in others} == {tokenizer.decode(usual)}
        costs = [nats(lm, ids).sum() for ids in (usual, *others)]
        price.append([cost - costs[0] for cost in costs[1:]])
    longest, drawn = torch.tensor(price).T
    assert min(longest.median(), drawn.median()) > math.log(1_000)
    assert abs(longest.mean() - drawn.mean()) < (longest + drawn).mean() / 3


def spelled(lm, word: str, shown: str, apart: bool = False) -> float:
    """The share of the letters of a word that are predicted, after the right ones."""
    pairs = [*((w, w) for w in ("mirror", "window", "garden")), (shown, word)]
    texts = [f" {' '.join(a) if apart else a} = {'-'.join(b)}\n" for a, b in pairs]
    head = lm.encode("".join(texts)[: -len("-".join(word)) - 2])
    (dash,) = lm.encode("-")[1:]
    letters = [lm.encode(f" {word[0]}")[1], *(lm.encode(letter)[1] for letter in word[1:])]
    line = [i for letter in letters for i in (letter, dash)][:-1]
    before = lm.model.hidden(torch.tensor([[*head, *line]]))[0, len(head) - 1 : -1 : 2]
    guessed = lm.model.unembed(before).argmax(-1)
    return (guessed == torch.tensor(letters)).float().mean().item()


def test_a_token_hides_letters_from_gemma_too_and_it_counts_one_r(lm):
    """Chapter 06: the word, its letters, another word."""
    words = "beautiful", "character", "language", "probably", "whatever"
    for word in words:
        assert len(lm.encode(f" {word}")) == 2, "a single token"
    right = torch.tensor(
        [
            [spelled(lm, word, *way) for way in ((word,), (word, True), (other,))]
            for word, other in pairwise([*words, words[0]])
        ]
    )
    from_word, from_letters, from_other = right.mean(0)
    assert from_other + 0.05 < from_word < 0.5 < 0.7 < from_letters
    digits = [lm.encode(digit)[1] for digit in "0123456789"]
    for word in ("strawberry", "garden"):
        for form in (word, " ".join(word)):
            ids = lm.encode(f"The number of times the letter r occurs in {form} is ")
            last = lm.model.hidden(torch.tensor([ids]))[0, -1]
            assert lm.model.unembed(last)[digits].argmax() == 1


def test_perplexity_cannot_decide_and_bits_per_byte_prefer_gemma(lm):
    """Chapter 06: the first 300 characters, read by `reviews-gpt` and a model 200 times larger."""
    toy, texts = language_model("reviews-gpt"), [text[:300] for text in FILMS[300:308]]
    losses = [
        torch.cat([nats(lm, lm.encode(text)) for text in texts]),
        torch.cat([nats(toy, [toy.end, *toy.encode(text)][:129]) for text in texts]),
    ]
    assert abs(losses[0].mean() - losses[1].mean()) < 0.5, "perplexities within a factor of 1.6"
    assert losses[0].sum() < 0.95 * losses[1].sum(), "the same bytes"
