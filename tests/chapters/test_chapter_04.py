"""The theses of chapter 04, with their controls, on other texts and seeds than the chapter's."""

import nbformat
import pytest
import torch
from cells import ROOT, sources
from chapter_code import definitions
from intervals import interval
from torch import Tensor

from attnlib.attention import MultiHeadAttention, attention, causal_mask
from attnlib.data import reviews
from attnlib.pretrained import language_model, smollm2
from attnlib.trace import Trace

CHAPTER = definitions(
    "04_self_attention",
    *("LETTERS", "DIGITS", "T", "draw", "encode", "head", "train", "answered"),
    *("MultiHead", "W_2", "recur", "multiplications", "at_random"),
    *("encoder", "model", "trained", "allowed"),
    *("unmasked", "before", "after", "embed", "output"),
    *("lm", "SENTENCES", "NEUTRAL", "HEADS", "layers", "fill", "looks"),
    *("exchange", "moved_by", "shares_of"),
)
POSITION = definitions(
    "more/04_previous_token", *("encoder", "model", "look_back", "received", "marks", "to_first")
)
BESIDE = definitions(
    "more/04_averages",
    *("encoder", "words", "ids", "E", "W_Q", "W_K", "fresh"),
    *("q", "k", "flat", "levels", "angle", "directions", "outside"),
)
TEXTS = reviews("rotten_tomatoes").test.texts[20:40]


def cell(chapter: str, name: str) -> str:
    """The code of one cell of a chapter."""
    cells = nbformat.read(ROOT / f"chapters/{chapter}.ipynb", as_version=4).cells
    return next(c.source for c in cells if c.id == name)


def ids_of(text: str) -> Tensor:
    return torch.tensor(POSITION.encoder.encode(text))


def weight_on_the_token_named(W: list[Tensor]) -> float:
    questions, texts, _, asked = CHAPTER.draw(500, torch.Generator().manual_seed(1))
    weights = CHAPTER.head(questions, texts, W)[1]
    return float(weights[torch.arange(500), 0, asked].mean())


@pytest.fixture(scope="module")
def history() -> list[list[Tensor]]:
    """A head that was trained from another seed than the chapter's: its matrices at every step."""
    return CHAPTER.train(5)


def test_a_head_learns_to_look_up_and_a_uniform_one_answers_a_third(history):
    assert CHAPTER.answered(history[-1]) > 0.95
    assert weight_on_the_token_named(history[-1]) > 0.9
    assert CHAPTER.answered(history[0]) < 0.3
    assert weight_on_the_token_named(history[0]) < 0.3
    uniform = CHAPTER.answered(CHAPTER.train(5, uniform=True)[-1], uniform=True)
    assert 0.25 < uniform < 0.42, "better than chance, as it says a digit of the text; no look-up"


@pytest.mark.claim(111)
@pytest.mark.parametrize("length", [1, 6, 40])
def test_a_loop_a_triangular_matrix_and_a_softmax_of_zeros_average_alike(length):
    torch.manual_seed(length)
    values = torch.randn(length, 3)
    space = {"torch": torch, "T": length, "v": values}
    ladder = cell("04_self_attention", "ladder").partition("# their digits: (T, 1)\n")[2]
    exec(ladder, space)
    expected = torch.stack([values[: t + 1].mean(0) for t in range(length)])
    for form in (space["looped"], space["averages"] @ values, space["weights"] @ values):
        torch.testing.assert_close(form, expected, atol=1e-6, rtol=0)
    zeros = torch.zeros(length, 5)
    library = attention(zeros, zeros, values, causal_mask(length))
    torch.testing.assert_close(library[0], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(library[1], space["weights"], atol=1e-6, rtol=0)
    if length > 1:
        assert not torch.allclose(attention(zeros, zeros, values)[0], expected, atol=1e-2)


def test_with_scores_of_its_letters_a_token_averages_the_digits_of_its_letter(history):
    W_Q, W_K, _ = history[-1]
    tokens, questions = CHAPTER.encode("h2 b6 h4 h9 b8 d5")
    digits = tokens[:, 8:] @ torch.arange(10.0)[:, None]
    means, _ = attention(questions @ W_Q, tokens @ W_K, digits, causal_mask(6))
    expected = torch.tensor([2.0, 6.0, 3.0, 5.0, 7.0, 5.0])[:, None]
    assert (means - expected).abs().max() < 0.6


@pytest.mark.claim(110)
@pytest.mark.parametrize(("heads", "d_model"), [(1, 12), (3, 12), (4, 64)])
def test_the_layer_of_the_chapter_is_the_librarys(heads, d_model):
    torch.manual_seed(heads)
    ours = CHAPTER.MultiHead(d_model, heads).requires_grad_(False)
    theirs = MultiHeadAttention(d_model, heads).requires_grad_(False)
    parts = ours.qkv.weight.view(3, heads, d_model // heads, d_model).mT
    for weight, part in zip((theirs.W_Q, theirs.W_K, theirs.W_V), parts, strict=True):
        weight.copy_(part)
    theirs.W_O.copy_(ours.out.weight.T.view(heads, -1, d_model))
    x = torch.randn(2, 7, d_model)
    torch.testing.assert_close(ours(x), theirs(x, causal=True)[0])
    assert not torch.allclose(ours(x), theirs(x)[0], atol=1e-3), "it is causal"


def arrives(update, length: int) -> int:
    """Updates of all tokens, side by side, until a change in the first one moves the last."""
    x = torch.randn(length, 8, dtype=torch.float64)
    changed = torch.cat([x[:1] + 1, x[1:]])
    a, b, steps = update(x * 0, x), update(x * 0, changed), 1
    while torch.equal(a[-1], b[-1]) and steps <= length:  # or never
        a, b, steps = update(a, x), update(b, changed), steps + 1
    return steps


def test_attention_joins_any_two_tokens_at_once_and_computes_a_square():
    torch.manual_seed(0)
    turn = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64))[0]

    def recurrent(states: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(torch.cat([0 * x[:1], states[:-1]]) @ turn + 0.1 * x)

    def attending(_: Tensor, x: Tensor) -> Tensor:
        return CHAPTER.head(x, x, (turn, turn, turn))[0]

    for length in (4, 32, 64):
        assert arrives(recurrent, length) == length
        assert arrives(attending, length) == 1
        weights = CHAPTER.head(torch.randn(length, 8), torch.randn(length, 8), [turn.float()] * 3)[
            1
        ]
        assert weights.numel() == length**2
    assert CHAPTER.multiplications(CHAPTER.recur, 100) == 2 * 100 * 64**2
    layer = CHAPTER.MultiHead(64, 4)
    assert CHAPTER.multiplications(layer, 100) == 4 * 100 * 64**2 + 2 * 100**2 * 64


def test_divided_by_the_root_heads_start_alike_and_undivided_ones_get_no_gradient():
    torch.manual_seed(3)
    (level, steep), (first, last) = (
        [CHAPTER.at_random(width, divide) for width in (4, 1024)] for divide in (True, False)
    )
    assert abs(level[0] - steep[0]) < 0.05
    assert max(level[0], steep[0]) < 0.4
    assert 0.8 < steep[1] / level[1] < 1.25
    assert last[0] > 0.9
    assert last[1] < 0.25 * first[1]


def past_moves(logits, ids: Tensor) -> float:
    """Largest change before the last token, when that one becomes another."""
    other = torch.cat([ids[:-1], (ids[-1:] + 7) % 1000])
    with torch.no_grad():
        return float((logits(ids[None]) - logits(other[None]))[0, :-1].abs().max())


def renormalised(scores: Tensor) -> Tensor:
    """The shortcut repaired: weights set to 0 after the softmax, each row divided by its sum."""
    weights = CHAPTER.after(scores)
    return weights / weights.sum(-1, keepdim=True)


def test_masked_before_the_softmax_nothing_leaks_and_after_it_the_past_moves():
    ours, theirs = CHAPTER.embed("an odd but funny film"), CHAPTER.embed("an odd but funny play")
    for weigh, moves in ((CHAPTER.before, 0), (CHAPTER.after, 4), (CHAPTER.unmasked, 4)):
        moved = (CHAPTER.output(ours, weigh) - CHAPTER.output(theirs, weigh)).abs().amax(-1)
        assert (moved[:-1] > (1e-5 if moves else 0)).sum() == moves
        assert moved[-1] > 0
    repaired = CHAPTER.output(ours, renormalised) - CHAPTER.output(theirs, renormalised)
    assert repaired[:-1].abs().max() < 1e-5, "renormalised, the past moves by rounding only"
    models = language_model("reviews-gpt"), smollm2()
    for model in models:
        assert past_moves(model.model, torch.tensor(model.encode(TEXTS[0]))) == 0


OTHER_WORDS = {
    "She looked at the {} and opened the chest .": ("treasure", "lung"),
    "They heard of the {} and joined the club .": ("golf", "dance"),
    "She thought about the {} and bought the ring .": ("wedding", "boxing"),
    "He wrote about the {} and went to the court .": ("tennis", "judge"),
    "She asked for the {} and took the chip .": ("potato", "computer"),
    "We looked at the {} and the deck .": ("ship", "card"),
}


def weights_on(sentence: str, groups: list[tuple[str, ...]]) -> Tensor:
    """Mean weight from the ambiguous word to the cues of each group, by head, (group, head)."""
    ids, gap = CHAPTER.fill(sentence, [cue for group in groups for cue in group])
    states = CHAPTER.layers(ids, 9)
    by_head = [states[layer].pattern[:, head, -2, gap] for layer, head in CHAPTER.HEADS]
    each = torch.stack(by_head, dim=1)  # (cue, head)
    return torch.stack([group.mean(0) for group in each.split([len(group) for group in groups])])


@pytest.mark.claim(112)
def test_a_head_looks_by_content_and_moves_less_than_a_head_that_is_less_choosy():
    cues = list(OTHER_WORDS.values())
    own, other, neutral = torch.stack(
        [
            weights_on(sentence, [cues[i], cues[i - 2], CHAPTER.NEUTRAL[:2]])
            for i, sentence in enumerate(OTHER_WORDS)
        ],
        dim=1,
    )  # (sentence, head)
    assert (own[:, 0] > torch.maximum(other, neutral)[:, 0]).all(), "positions kept, words not"
    assert own[:, 0].mean() > 0.15
    assert max(other[:, 0].mean(), neutral[:, 0].mean()) < 0.08
    assert other[:, 2].mean() > 2 * other[:, 0].mean(), "head 4.1 looks at other cues as well"
    shares = torch.tensor([CHAPTER.shares_of(*item) for item in OTHER_WORDS.items()])
    clear, largest, early = shares.mean(0).tolist()
    assert early > 0.2
    assert max(abs(clear), abs(largest)) < 0.06


@pytest.mark.claim(112)
def test_what_the_weight_depends_on_is_the_pair_of_words():
    """Each of two cues before both words, in one frame: only its own word looks at it."""
    frame = "She sat near the {} and saw the WORD ."
    weights = {}
    for word in ("bank", "crane"):
        ids, gap = CHAPTER.fill(frame.replace("WORD", word), ("money", "bird"))
        weights[word] = CHAPTER.layers(ids, 9)[9].pattern[:, 2, -2, gap].tolist()
    assert weights["bank"][0] > 5 * weights["bank"][1]
    assert weights["crane"][1] > 5 * weights["crane"][0]


def test_all_that_is_exchanged_makes_the_share_one():
    sentence, cues = next(iter(CHAPTER.SENTENCES.items()))
    ids, _ = CHAPTER.fill(sentence, cues)
    states = [layer.resid_post[:, -2] for layer in CHAPTER.layers(ids, 14)]
    swap = {("resid_post", 14): lambda x: x.flip(0)}
    swapped = CHAPTER.layers(ids, 14, swap)[14].resid_post[:, -2]
    torch.testing.assert_close(swapped, states[14].flip(0))
    z = torch.randn(2, 9, 11, 64)
    edited = CHAPTER.exchange(3)(z)
    assert torch.equal(edited[0, 3, -2], z[1, 3, -2])
    edited[:, 3, -2] = z[:, 3, -2]
    assert torch.equal(edited, z), "nothing else moves"


def interval_back(texts: list[Tensor], first: int, rows: slice) -> tuple[float, float]:
    """The weight of some rows on the token before, with places counted from first."""
    return interval([POSITION.look_back(ids, first).diagonal(-1)[rows].mean() for ids in texts])


def test_the_habit_of_looking_back_ends_where_a_text_lies_across_place_128():
    long = [ids for ids in map(ids_of, reviews("imdb").test.texts[200:220]) if len(ids) > 255][:5]
    cut, whole = [ids[:128] for ids in long], [ids[:256] for ids in long]
    plain = POSITION.model.run(POSITION.model.embed(cut[0][None]), need_weights=True)
    torch.testing.assert_close(POSITION.look_back(cut[0]), next(iter(plain)).pattern[0, 2])
    everyone, early, late = slice(None), slice(127), slice(127, None)
    for first in (0, 128, 200):
        assert interval_back(cut, first, everyone)[0] > 0.98, "on either side of position 128"
    for first in (32, 64, 100):
        assert interval_back(cut, first, everyone)[1] < 0.93, "as long, and across it"
        assert interval_back(cut, first, slice(127 - first))[1] < 0.9
    assert interval_back(whole, 0, early)[1] < 0.65
    assert interval_back(whole, 0, late)[0] > 0.9
    kept = []
    for seed, ids in enumerate(whole):
        torch.manual_seed(seed)
        other = torch.cat([ids[:128], torch.randint(2000, 20_000, (128,))])
        mine, theirs = (
            POSITION.look_back(each)[1:128, 128:].sum(-1).mean() for each in (ids, other)
        )
        assert mine > 0.2
        kept.append(theirs / mine)
    assert interval(kept)[0] > 0.9, "it is the places: other words there take no less"


@torch.no_grad()
def cls_in_the_middle(text: str) -> Tensor:
    """What [CLS] receives there, with "film" at the first of places 20, 21, …: (layer,)."""
    ids = ids_of(text)
    middle, cls = len(ids) // 2, ids[0].item()
    ids[0], ids[middle] = POSITION.encoder.encode("film")[1], cls
    e = POSITION.model.embed_norm(POSITION.model.W_E[ids] + POSITION.model.W_P[20 : 20 + len(ids)])
    maps = torch.stack(
        [layer.pattern[0] for layer in POSITION.model.run(e[None], need_weights=True)]
    )
    others = torch.arange(len(ids)) != middle
    return maps[:, :, others, middle].mean((1, 2)) * len(ids)


@pytest.mark.long
def test_either_mark_keeps_the_sink_and_without_both_little_is_left():
    both, place, token, neither = torch.stack([POSITION.marks(text) for text in TEXTS]).mean(0)
    assert min(both[1:].min(), place[1:].min(), token[2:].min()) > 5
    assert token[1] < 0.4 * both[1], "in layer 1 the position counts most"
    assert neither.max() < 3
    assert torch.stack([cls_in_the_middle(text) for text in TEXTS]).mean(0)[2:].min() > 5
    for word in ("the", ".", "terrible"):
        first = torch.tensor(POSITION.encoder.encode(word)[1:2])
        given = [POSITION.received(torch.cat([first, ids_of(text)[1:]]), 20) for text in TEXTS]
        assert torch.stack(given).mean(0).max() < 4
    ids = ids_of(TEXTS[0])
    expected = POSITION.encoder.trace(TEXTS[0]).pattern[:, :, 1:, 0].mean((1, 2)) * len(ids)
    torch.testing.assert_close(POSITION.received(ids), expected, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def read() -> list[Trace]:
    """A few sentences, read by SmolLM2."""
    return [smollm2().trace(text) for text in TEXTS[:4]]


@pytest.mark.long
def test_smollm2_looks_back_with_four_heads_in_long_texts_too(read):
    previous = torch.stack([t.pattern.diagonal(-1, 2, 3)[..., 1:].mean(-1) for t in read])
    heads = (previous.mean(0) > 0.5).nonzero().tolist()
    assert heads == [[1, 2], [2, 1], [11, 1], [16, 0]]
    assert previous.mean(0).max() < 0.9, "none does so always"
    ids = torch.tensor(smollm2().encode(reviews("imdb").test.texts[200] * 3))
    short, long = (
        smollm2().model.trace(ids[:n]).pattern.diagonal(-1, 2, 3)[..., 1:].mean(-1)
        for n in (64, 256)
    )
    for layer, number in heads:
        assert abs(short[layer, number] - long[layer, number]) < 0.12


def test_smollm2s_sink_is_the_first_place_whatever_stands_there(read):
    lm = smollm2()
    own = torch.stack([POSITION.to_first(trace)[12:].mean() for trace in read])
    assert own.mean() > 0.5
    for word, text, share in zip((" film", " terrible", "."), TEXTS, own, strict=False):
        ids = lm.encode(word)[:1] + lm.encode(text)[1:]
        there = POSITION.to_first(lm.model.trace(torch.tensor(ids)))[12:].mean()
        assert abs(there / share - 1) < 0.1
    ids = torch.tensor(lm.encode(TEXTS[0]))
    middle = len(ids) // 2
    ids[middle] = ids[0]
    attention = lm.model.trace(ids).pattern[12:, :, middle + 4 :]
    assert attention[..., middle].mean() < 0.1 * attention[..., 0].mean()


def test_the_printed_formulas_are_wrong_where_the_appendix_says_so():
    torch.manual_seed(0)
    e, W_Q, W_K = torch.randn(6, 32), torch.randn(32, 8), torch.randn(32, 8)
    scores, place = (e @ W_Q) @ (e @ W_K).T, torch.arange(6)
    printed = scores.masked_fill(place[:, None] <= place, -torch.inf).softmax(-1)
    assert printed[0].isnan().all(), "s ≤ t hidden: the first row may look at nothing"
    multiplied = scores * torch.ones(6, 6).masked_fill(~causal_mask(6), -torch.inf)
    assert (multiplied[~causal_mask(6) & (scores < 0)] == torch.inf).any()
    merged = W_Q @ W_K.T
    torch.testing.assert_close(e @ merged @ e.T, scores, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(e @ merged.T @ e.T, scores.T, rtol=1e-3, atol=1e-2)


def test_the_table_of_task_4_6_is_the_chapters():
    name = "04_self_attention"
    task, chapter = sources(f"solutions/{name}/{name}.ipynb"), sources(f"chapters/{name}.ipynb")
    for ours, theirs in (
        ("| q · k / √d_k |", "| largest weight, divided |"),
        ("| q · k |", "| undivided |"),
    ):
        assert (
            task.partition(ours)[2].partition("\n")[0]
            == (chapter.partition(theirs)[2].partition("\n")[0])
        )


def test_a_fresh_map_is_uniform_if_scores_hardly_differ_in_a_row_and_not_if_sigma_is_small():
    e = BESIDE.E
    for x, uniform in ((e, True), (1000 * e, False), (1000 * e[:1].expand(6, -1), True)):
        assert bool((BESIDE.fresh(0.01, x) - 1 / 6).abs().max() < 0.01) == uniform
    masked = BESIDE.fresh(0.001, mask=causal_mask(6))
    assert torch.allclose(masked, causal_mask(6) / torch.arange(1, 7)[:, None], atol=1e-3)


def test_averages_stay_in_the_hull_and_weights_of_either_sign_do_not():
    torch.manual_seed(1)
    weights = torch.randn(200, 6)
    assert BESIDE.outside(weights.softmax(-1) @ BESIDE.flat) == 0
    signed = weights / weights.sum(-1, keepdim=True)
    assert BESIDE.outside(signed @ BESIDE.flat) > 50, "that they sum to 1 is not enough"
    assert BESIDE.outside(weights.exp() @ BESIDE.flat) > 50, "nor that none is negative"
