"""The theses of chapter 04, with their controls, on other texts and seeds than the chapter's."""

import pytest
import torch
from cells import sources
from chapter_code import definitions
from intervals import interval
from torch import Tensor

from attnlib.attention import attention, causal_mask
from attnlib.data import reviews
from attnlib.pretrained import language_model, smollm2
from attnlib.trace import Trace

CHAPTER = definitions(
    "04_self_attention",
    *("LETTERS", "DIGITS", "T", "draw", "head", "train", "fresh", "answered"),
    *("W4", "attend", "recur", "multiplications", "start"),
    *("encoder", "model", "W_p", "trained", "d_k", "look_back", "received", "marks"),
    *("dictionary", "x", "W_e", "allowed"),
    *("unmasked", "before", "after", "embed", "output", "to_first"),
)
BESIDE = definitions(
    "more/04_averages",
    *("encoder", "words", "ids", "E", "W_Q", "W_K", "fresh"),
    *("q", "k", "flat", "levels", "angle", "directions", "outside"),
)
TEXTS = reviews("rotten_tomatoes").test.texts[20:40]


def ids_of(text: str) -> Tensor:
    return torch.tensor(CHAPTER.encoder.encode(text))


@torch.no_grad()
def all_layers(e: Tensor) -> Tensor:
    """What MiniLM's six layers make of vectors (T, d_model)."""
    return [state.resid_post[0] for state in CHAPTER.model.run(e[None])][-1]


@torch.no_grad()
def masked_head(e: Tensor) -> Tensor:
    """What a head of MiniLM with a causal mask makes of them."""
    weights = (
        layer[2] for layer in (CHAPTER.trained.W_Q, CHAPTER.trained.W_K, CHAPTER.trained.W_V)
    )
    return attention(*(e @ W for W in weights), causal_mask(len(e)))[0]


@pytest.mark.parametrize("seed", [5, 6])
def test_a_head_learns_to_look_up_and_an_even_one_answers_a_third(seed):
    right, weight = CHAPTER.answered(CHAPTER.train(seed)[-1])
    assert right > 0.95
    assert weight > 0.9, "it looks at the token that is named"
    untrained, even_weight = CHAPTER.answered(CHAPTER.train(seed, steps=0)[0])
    assert untrained < 0.3
    assert even_weight < 0.3
    flat, _ = CHAPTER.answered(CHAPTER.train(seed, even=True)[-1], True)
    assert 0.25 < flat < 0.42, "better than chance, as it says a digit of the text; no look-up"


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
    assert CHAPTER.multiplications(CHAPTER.attend, 100) == 4 * 100 * 64**2 + 2 * 100**2 * 64


def test_divided_by_the_root_heads_start_alike_and_undivided_ones_get_no_gradient():
    torch.manual_seed(3)
    (level, steep), (first, last) = (
        [CHAPTER.start(width, divide) for width in (4, 1024)] for divide in (True, False)
    )
    assert abs(level[0] - steep[0]) < 0.05
    assert max(level[0], steep[0]) < 0.4
    assert 0.8 < steep[1] / level[1] < 1.25
    assert last[0] > 0.9
    assert last[1] < 0.25 * first[1]


def test_without_positions_and_mask_order_is_not_seen():
    for seed, text in enumerate(TEXTS[:5]):
        torch.manual_seed(seed)
        ids, places = ids_of(text), CHAPTER.W_p[: len(ids_of(text))]
        order = torch.randperm(len(ids))
        for look, given, same in (
            (all_layers, 0 * places, True),
            (all_layers, places, False),
            (masked_head, 0 * places, False),
        ):
            ours, theirs = (
                look(CHAPTER.model.embed_norm(CHAPTER.model.W_E[each] + given))
                for each in (ids, ids[order])
            )
            assert torch.allclose(ours[order], theirs, atol=1e-3) == same


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


def interval_back(texts: list[Tensor], first: int, rows: slice) -> tuple[float, float]:
    """The weight of some rows on the token before, with places counted from first."""
    return interval([CHAPTER.look_back(ids, first).diagonal(-1)[rows].mean() for ids in texts])


def test_the_habit_of_looking_back_ends_where_a_text_lies_across_place_128():
    long = [ids for ids in map(ids_of, reviews("imdb").test.texts[200:240]) if len(ids) > 255][:8]
    cut, whole = [ids[:128] for ids in long], [ids[:256] for ids in long]
    plain = CHAPTER.model.run(CHAPTER.model.embed(cut[0][None]), need_weights=True)
    torch.testing.assert_close(CHAPTER.look_back(cut[0]), next(iter(plain)).attention[0, 2])
    everyone, early, late = slice(None), slice(127), slice(127, None)
    for first in (0, 128, 200):
        assert interval_back(cut, first, everyone)[0] > 0.98, "on either side of place 128"
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
            CHAPTER.look_back(each)[1:128, 128:].sum(-1).mean() for each in (ids, other)
        )
        assert mine > 0.2
        kept.append(theirs / mine)
    assert interval(kept)[0] > 0.9, "it is the places: other words there take no less"


@torch.no_grad()
def cls_in_the_middle(text: str) -> Tensor:
    """What [CLS] receives there, with "film" at the first of places 20, 21, …: (layer,)."""
    ids = ids_of(text)
    middle, cls = len(ids) // 2, ids[0].item()
    ids[0], ids[middle] = CHAPTER.encoder.encode("film")[1], cls
    e = CHAPTER.model.embed_norm(CHAPTER.model.W_E[ids] + CHAPTER.W_p[20 : 20 + len(ids)])
    maps = torch.stack(
        [layer.pattern[0] for layer in CHAPTER.model.run(e[None], need_weights=True)]
    )
    others = torch.arange(len(ids)) != middle
    return maps[:, :, others, middle].mean((1, 2)) * len(ids)


@pytest.mark.long
def test_either_mark_keeps_the_sink_and_without_both_little_is_left():
    both, place, token, neither = torch.stack([CHAPTER.marks(text) for text in TEXTS]).mean(0)
    assert min(both[1:].min(), place[1:].min(), token[2:].min()) > 5
    assert token[1] < 0.4 * both[1], "in layer 1 the position counts most"
    assert neither.max() < 3
    assert torch.stack([cls_in_the_middle(text) for text in TEXTS]).mean(0)[2:].min() > 5
    for word in ("the", ".", "terrible"):
        first = torch.tensor(CHAPTER.encoder.encode(word)[1:2])
        given = [CHAPTER.received(torch.cat([first, ids_of(text)[1:]]), 20) for text in TEXTS]
        assert torch.stack(given).mean(0).max() < 4
    ids = ids_of(TEXTS[0])
    expected = CHAPTER.encoder.trace(TEXTS[0]).pattern[:, :, 1:, 0].mean((1, 2)) * len(ids)
    torch.testing.assert_close(CHAPTER.received(ids), expected, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def read() -> list[Trace]:
    """A few sentences, read by SmolLM2."""
    return [smollm2().trace(text) for text in TEXTS[:6]]


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
    own = torch.stack([CHAPTER.to_first(trace)[12:].mean() for trace in read])
    assert own.mean() > 0.5
    for word in (" film", " terrible", "."):
        for text, share in zip(TEXTS[:3], own, strict=False):
            ids = lm.encode(word)[:1] + lm.encode(text)[1:]
            there = CHAPTER.to_first(lm.model.trace(torch.tensor(ids)))[12:].mean()
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


def test_a_fresh_map_is_even_if_scores_hardly_differ_in_a_row_and_not_if_sigma_is_small():
    e = BESIDE.E
    for x, even in ((e, True), (1000 * e, False), (1000 * e[:1].expand(6, -1), True)):
        assert bool((BESIDE.fresh(0.01, x) - 1 / 6).abs().max() < 0.01) == even
    masked = BESIDE.fresh(0.001, mask=causal_mask(6))
    assert torch.allclose(masked, causal_mask(6) / torch.arange(1, 7)[:, None], atol=1e-3)


def test_averages_stay_in_the_hull_and_weights_of_either_sign_do_not():
    torch.manual_seed(1)
    weights = torch.randn(200, 6)
    assert BESIDE.outside(weights.softmax(-1) @ BESIDE.flat) == 0
    signed = weights / weights.sum(-1, keepdim=True)
    assert BESIDE.outside(signed @ BESIDE.flat) > 50, "that they sum to 1 is not enough"
    assert BESIDE.outside(weights.exp() @ BESIDE.flat) > 50, "nor that none is negative"
