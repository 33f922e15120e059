"""The theses of chapter 14, with their controls, and the claims about models of today.

What the chapter shows of Gemma 3 is stored; it is measured again where Gemma 3 is installed.
Intervals are over reviews. What is computed here reads other reviews than the chapter does.
"""

import pytest
import torch
from chapter_code import Definitions, definitions
from chapter_rules import CHAPTERS
from gemma import gemma_or_skip
from intervals import interval
from torch import Tensor

from attnlib import pretrained
from attnlib.attention import attention
from attnlib.data import reviews
from attnlib.pretrained.gguf import unpack_q4_1
from recipes import today as recipe

HERE = definitions(
    "14_today",
    *("angles_of", "turn", "Attention", "FeedForward", "Block", "cache_bytes"),
    *("one_pass", "Largest", "largest", "features", "recurrent", "linear"),
)
MODEL = ("lm", "model", "angles_of", "turn", "Attention", "FeedForward", "Block", "Model", "ours")
MODEL += ("long_reviews", "small", "like_gemma", "Centred", "layer_norm", "other_pairs", "no_gate")
MODEL += ("first_group", "BACK", "with_part", "losses_of", "cache_bytes", "measured_bytes")
MODEL += ("sentence", "with_copy_at")
LINEAR = definitions("more/14_linear", "PHI", "Recaller", "recall", "share_recalled")
BITS = definitions("more/14_four_bits", "unpacked", "block_bytes", "rounded", "review_losses")
LOCAL = [layer for layer in range(18) if layer % 6 != 5]  # of Gemma 3
GLOBAL = [5, 11, 17]
NAMES = ("smollm2", "gemma3")


@pytest.fixture(scope="module")
def today() -> Definitions:
    """What the chapter defines with SmolLM2."""
    return definitions("14_today", *MODEL)


@pytest.fixture(scope="module")
def stored() -> dict[str, Tensor]:
    """What the recipe has measured."""
    return pretrained.history("today")


@pytest.fixture(scope="module")
def gemma():
    gemma_or_skip()
    yield pretrained.gemma3()
    pretrained.gemma3.cache_clear()  # 1.1 GB


# --- the block ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.claim(88)
@pytest.mark.claim(89)
@pytest.mark.claim(90)
@torch.no_grad()
def test_our_blocks_are_those_of_the_library(today):
    """SmolLM2's with its weights, Gemma 3's with random ones, longer than the window."""
    ids = today.long_reviews(1, 48, start=60)
    torch.testing.assert_close(today.ours(ids), today.model(ids), atol=1e-3, rtol=1e-4)
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(50, (3, 30), generator=generator)
    expected = today.small(ids)
    torch.testing.assert_close(today.like_gemma(ids), expected, atol=1e-4, rtol=1e-4)
    for part in ("q_norm", "k_norm"):
        block = today.like_gemma.blocks[0].attention
        norm = getattr(block, part)
        setattr(block, part, torch.nn.Identity())
        assert (today.like_gemma(ids) - expected).abs().max() > 0.01
        setattr(block, part, norm)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(88)
@pytest.mark.claim(89)
@pytest.mark.claim(90)
def test_three_of_the_four_parts_cannot_be_taken_back(today):
    ids = today.long_reviews(3, 64, start=60)
    whole = today.losses_of(today.ours, ids, 32)
    added = {
        name: (today.losses_of(today.with_part(change), ids, 32) - whole).mean(1)
        for name, change in today.BACK.items()
    }
    assert added.pop("nothing").abs().max() == 0
    assert interval(added.pop("RMSNorm → LayerNorm"))[1] < 0.3
    assert len(added) == 3
    assert min(interval(each)[0] for each in added.values()) > 0.5


# --- what a score depends on ----------------------------------------------------------------------


@pytest.mark.claim(91)
def test_both_layouts_give_one_score_that_sees_distances_only():
    torch.manual_seed(1)
    angles = HERE.angles_of(50, 64, 100_000)
    order = torch.arange(64).view(2, 32).T.flatten()  # what stands in halves becomes neighbours

    def halves(x):
        a, b = x.chunk(2, -1)
        cos, sin = angles
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    for q, k in torch.randn(5, 2, 64):
        q, k = q.expand(50, -1), k.expand(50, -1)
        scores = HERE.turn(q[:, order], *angles) @ HERE.turn(k[:, order], *angles).T
        assert (scores[1:, 1:] - scores[:-1, :-1]).abs().max() < 1e-4
        assert (scores - halves(q) @ halves(k).T).abs().max() < 1e-4
        unordered = HERE.turn(q, *angles) @ HERE.turn(k, *angles).T
        assert (scores - unordered).abs().max() > 1


@pytest.mark.claim(118)
@torch.no_grad()
def test_a_normalised_score_does_not_see_the_size_of_the_stream():
    torch.manual_seed(4)
    x, angles = torch.randn(2, 9, 32), HERE.angles_of(9, 16, 10_000)
    for qk_norm in (True, False):
        head = HERE.Attention(32, 2, 1, 16, qk_norm=qk_norm)
        maps = []
        for scale in (1, 3):
            head(scale * x, angles)
            maps.append(head.A)
        change = (maps[0] - maps[1]).abs().max()
        assert change < 1e-5 if qk_norm else change > 0.1


@pytest.mark.long
@pytest.mark.claim(118)
@torch.no_grad()
def test_gemmas_own_scores_do_not_see_how_large_its_queries_are(gemma):
    """Three times W_Q and W_K change no map; SmolLM2's would be others."""
    ids = torch.tensor([gemma.encode(reviews("imdb").test.texts[70])[:24]])
    model = gemma.model
    x = model.embed(ids)
    plain = next(model.run(x, need_weights=True)).pattern
    attention_0 = model.blocks[0].attention
    for parameter in (attention_0.W_Q, attention_0.W_K):
        before = parameter.data
        parameter.data = 3 * before
        changed = next(model.run(x, need_weights=True)).pattern
        parameter.data = before
        assert (changed - plain).abs().max() < 1e-4
    gain = attention_0.q_norm.weight
    gain.data = 3 * gain.data  # the gain is what they are multiplied by after the norm
    assert (next(model.run(x, need_weights=True)).pattern - plain).abs().max() > 0.1
    gain.data = gain.data / 3


# --- what a token may see -------------------------------------------------------------------------


@pytest.mark.claim(117)
def test_a_local_layer_gives_exactly_0_and_is_passed_on(stored):
    """In Gemma 3, stored; and in random blocks: the count says which states can move."""
    beyond = stored["gemma3_beyond"]
    assert (beyond[:, LOCAL] == 0).all()
    assert beyond[:, GLOBAL].min() > 0.5
    reached = stored["gemma3_reach"].long().tolist()
    assert reached == [min(511 * (layer + 1), 1794) for layer in range(18)]
    torch.manual_seed(3)
    angles = HERE.angles_of(40, 8, 10_000)
    x = torch.randn(1, 40, 16)
    y = x.clone()
    y[0, 4] = torch.randn(16)
    for layer in range(4):
        head = HERE.Attention(16, 2, 1, 8, window=6)
        local = HERE.Block(16, head, HERE.FeedForward(16, 20))
        with torch.no_grad():
            x, y = local(x, angles), local(y, angles)
        moved = (x != y).any(-1)[0].nonzero()[:, 0]
        assert moved.tolist() == list(range(4, 4 + 5 * (layer + 1) + 1))
        back = torch.arange(40)[:, None] - torch.arange(40)
        assert (head.A[..., (back >= 6) | (back < 0)] == 0).all()


@pytest.mark.claim(117)
def test_sinks_in_local_and_global_layers(stored):
    """The first token where it is seen; massive states where it is not; not the oldest token."""
    near, far = (stored[f"gemma3_{part}"].mean(-1) for part in ("near", "far"))
    for layer in range(18):
        low, high = interval(near[:, layer])
        assert 0.05 < low < high < 0.7
        assert high - low < 0.05
    assert (far[:, LOCAL] == 0).all()
    for layer in GLOBAL:
        assert interval(far[:, layer])[0] > 0.3
    for layer in (layer for layer in LOCAL if layer >= 6):
        assert interval(stored["gemma3_loud"][:, layer])[0] > 0.15
        assert stored["gemma3_beside"][:, layer].mean() < 0.02
        assert stored["gemma3_oldest"][:, layer].mean() < 0.005
    massive = pretrained.card("today")["models"]["gemma3"]["loud"]
    tokens = [token for text in massive for _, token in text]
    assert all(3 <= len(text) <= 6 for text in massive)
    assert sum(token.strip() == "'" for token in tokens) > 0.8 * len(tokens)
    first, loud, median = stored["gemma3_state"].mean(0)[8]
    assert loud > 10 * median
    assert first > loud


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(117)
@pytest.mark.claim(122)
def test_what_is_stored_of_gemma_is_what_gemma_does(gemma, stored):
    ids = recipe.long_reviews(gemma, recipe.LONG, 1)[0]
    again = recipe.sinks(gemma, "gemma3", ids)
    for name in ("near", "far", "loud", "beyond", "value_first", "value_loud"):
        expected = stored[f"gemma3_{name}"][0]
        torch.testing.assert_close(again[name].float(), expected, atol=2e-3, rtol=2e-2)
    short = recipe.long_reviews(gemma, recipe.SHORT, 1)[0]
    for name, weights in recipe.moved(gemma, "gemma3", short[:96]).items():
        torch.testing.assert_close(weights, stored[f"gemma3_{name}"][0], atol=2e-3, rtol=2e-2)


# --- sinks ----------------------------------------------------------------------------------------


@pytest.mark.claim(94)
@pytest.mark.claim(122)
def test_a_sink_goes_with_its_state_in_both_models(stored):
    for name in NAMES:
        layer = recipe.MOVED_AT[name]
        plain, copied, ordinary = stored[f"{name}_moved"][:, :, layer:].mean(2).unbind(1)
        low, _ = interval(copied[:, 1] / copied[:, 0])
        assert 0.8 < low
        assert (copied[:, 1] > 0.2).all()
        assert ordinary[:, 1].max() < 0.02
        assert plain[:, 1].max() < 0.02
        assert (ordinary[:, 0] - plain[:, 0]).abs().max() < 0.01
        assert stored[f"{name}_replaced"][:, layer:].mean(1).max() < 0.02


@pytest.mark.ci
@pytest.mark.claim(94)
@torch.no_grad()
def test_a_copied_state_draws_half_of_the_weight_and_the_first_visible_token_is_the_sink(today):
    plain = today.with_copy_at(0).pattern[12:, :, -4:].mean((0, 1, 2))
    for position in (3, 8, 12):
        weights = today.with_copy_at(position).pattern[12:, :, -4:].mean((0, 1, 2))
        assert plain[position] < 0.05
        assert weights[position] > 0.7 * weights[0] > 0.15
    texts = today.long_reviews(4, 48, start=60)
    other = torch.cat([torch.full((4, 1), today.lm.encode(" film")[0]), texts[:, 1:]], 1)
    for ids in (texts, other, texts[:, 1:]):
        states = today.model.run(today.model.embed(ids), need_weights=True)
        weights = torch.stack([state.pattern[:, :, 20:, (0, 9)].mean((1, 2)) for state in states])
        first, ninth = weights.unbind(-1)  # (layer, text)
        low, high = interval(first[12:].mean(0))
        assert 0.4 < low < high < 0.9
        assert first[:3].max() < 0.4
        assert ninth[12:].mean(1).max() < 0.05


@pytest.mark.claim(94)
@pytest.mark.claim(122)
def test_the_value_of_a_sink_is_short_in_both_models(stored):
    """In layers in which the first token gets more than a fifth of the weight."""
    for name, layers, most in (("smollm2", 18, 0.6), ("gemma3", 13, 0.45)):
        sink = stored[f"{name}_near"].mean((0, 2)) > 0.2
        assert sink.sum() == layers
        value = stored[f"{name}_value_first"][:, sink]
        assert value.mean(0).max() < most
        assert (value.mean(0) < 0.5).float().mean() > 0.95
    later = [layer for layer in LOCAL if layer >= 6]
    assert stored["gemma3_value_loud"][:, later].mean(0).max() < 0.5


@pytest.mark.claim(95)
@pytest.mark.claim(122)
def test_the_first_token_repairs_a_window_and_four_others_do_not(stored):
    for name, cost in (("smollm2", 0.9), ("gemma3", 1.5)):
        added = {part: stored[f"{name}_window_{part}"] for part in (*recipe.KEPT, "without")}
        assert interval(added["window"])[0] > cost
        assert interval(added["first"])[1] < 0.4
        assert (added["window"] - added["first"] > 0.6 * added["window"]).all()
        low, high = interval((added["window"] - added["others"]) / added["window"])
        assert -0.25 < low < high < 0.25
        if name == "smollm2":
            assert -0.05 < interval(added["without"])[0] < interval(added["without"])[1] < 0.05
        else:
            assert interval(added["without"])[0] > 0.5


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(95)
def test_a_window_does_the_same_to_other_reviews(today):
    ids = today.long_reviews(3, 192, start=60)
    added = [recipe.windows(today.lm, text) for text in ids]
    window, first, others = (
        torch.stack([row[f"window_{part}"] for row in added]).flatten() for part in recipe.KEPT
    )
    assert interval(window)[0] > 0.3
    assert (window - first > 0.5 * window).all()
    assert ((window - others) / window).max() < 0.3


# --- the cache ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.claim(93)
def test_the_cache_weighs_what_the_formula_says(today):
    for heads in (9, 3, 1):
        for T in (1, 50):
            formula = today.cache_bytes(T, layers=2, kv_heads=heads, size=4)
            assert formula == today.measured_bytes(heads, T)
    config = today.model.config
    assert today.cache_bytes(1) == 2 * config.layers * config.kv_heads * 64 * 2
    half = 2 * sum(W.numel() for W in today.model.parameters())
    assert 268.5e6 < half < 269.5e6
    assert 0.695 < today.cache_bytes(8192) / half < 0.705
    assert 2 < today.cache_bytes(8192, kv_heads=9) / half < 2.2


@pytest.mark.claim(93)
def test_local_layers_make_gemmas_cache_small():
    of_layers = [HERE.cache_bytes(T, 1, 1, 256) for T in (32_768, 512)]
    assert round(18 * of_layers[0] / 1e6) == 604
    assert round((3 * of_layers[0] + 15 * of_layers[1]) / 1e6) == 109


# --- texts and losses -----------------------------------------------------------------------------


@pytest.mark.claim(109)
@pytest.mark.claim(122)
def test_models_of_today_need_fewer_bits_than_reviews_gpt():
    """On the same reviews, so that differences are taken review by review."""
    models = pretrained.card("today")["models"]
    own = torch.tensor(models["reviews-gpt"]["bits_per_byte"])
    for name in NAMES:
        difference = own - torch.tensor(models[name]["bits_per_byte"])
        assert interval(difference)[0] > 0.1


# --- one pass -------------------------------------------------------------------------------------


def not_shrunk(q: Tensor, k: Tensor, v: Tensor, size: int, keep_max: bool) -> Tensor:
    """One pass as it goes wrong: nothing shrunk, or no maximum subtracted."""
    m = torch.full((len(q), 1), -torch.inf if keep_max else 0.0)
    total, output = torch.zeros(len(q), 1), torch.zeros(len(q), v.shape[1])
    for k_block, v_block in zip(k.split(size), v.split(size), strict=True):
        scores = q @ k_block.T / q.shape[1] ** 0.5
        m = torch.maximum(m, scores.amax(1, keepdim=True)) if keep_max else m
        weights = (scores - m).exp()
        total, output = total + weights.sum(1, keepdim=True), output + weights @ v_block
    return output / total


@pytest.mark.claim(96)
def test_one_pass_is_exact_and_makes_nothing_of_the_size_of_the_map():
    torch.manual_seed(2)
    for size in (1, 7, 64, 200):
        q, k, v = torch.randn(3, 200, 64)
        exact = attention(q, k, v)[0]
        assert (HERE.one_pass(q, k, v, size) - exact).abs().max() < 5e-6
        if size < 200:
            assert (not_shrunk(q, k, v, size, True) - exact).abs().max() > 0.05
    large = attention(60 * q, k, v)[0]
    assert (HERE.one_pass(60 * q, k, v) - large).abs().max() < 1e-3
    assert not_shrunk(60 * q, k, v, 64, False).isnan().any()
    for T in (256, 1024):
        inputs = torch.randn(3, T, 64)
        assert HERE.largest(attention, *inputs) == T * T
        assert HERE.largest(HERE.one_pass, *inputs) == T * 64


# --- linear attention -----------------------------------------------------------------------------


@pytest.mark.claim(97)
def test_linear_attention_is_a_recurrence():
    torch.manual_seed(3)
    q, k, v = torch.randn(3, 150, 16)
    outputs = HERE.recurrent(q, k, v)
    assert (outputs - HERE.linear(q, k, v)).abs().max() < 1e-5
    softmax = (q @ k.T / 4).masked_fill(torch.ones(150, 150).triu(1) > 0, -torch.inf).softmax(-1)
    assert (outputs - softmax @ v).abs().max() > 0.1, "it is no softmax"


@pytest.mark.ci
@pytest.mark.claim(97)
def test_four_rows_of_state_recall_less_with_elu_and_a_linear_read_out():
    assert LINEAR.share_recalled(4, "ELU + 1", seed=3) < 0.85
    assert LINEAR.share_recalled(4, "ReLU of ±", seed=3) > 0.95, "eight rows from keys of four"


# --- four bits ------------------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.claim(98)
def test_four_bits_cost_little_if_few_share_a_scale_or_it_is_clipped():
    exact = BITS.review_losses(count=80)
    fine = BITS.review_losses(4, 32, count=80) - exact
    coarse = BITS.review_losses(4, None, count=80) - exact
    clipped = BITS.review_losses(4, None, clip=True, count=80) - exact
    at_equal_bits = BITS.review_losses(5, None, clip=True, count=80) - exact
    assert interval(fine)[1] < 0.1
    assert interval(coarse)[0] > 2 * interval(fine)[1]
    assert interval(coarse - clipped)[0] > 0.2
    assert interval(at_equal_bits - fine)[1] < 0.02


@pytest.mark.claim(98)
def test_a_block_is_unpacked_as_the_library_does():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        d_and_m = torch.randn(2, generator=generator).half().view(torch.uint8)
        q = torch.randint(256, (16,), generator=generator, dtype=torch.uint8)
        block = torch.cat([d_and_m, q])
        theirs = unpack_q4_1(block[None])[0]
        assert torch.equal(BITS.unpacked(bytes(block.tolist())), theirs)
    assert len(BITS.block_bytes) == 20


# --- cheaper heads, trained -----------------------------------------------------------------------


@pytest.mark.claim(99)
def test_a_window_helps_shared_keys_change_little_and_linear_attention_costs_most():
    """Three seeds, compared one by one; the control is a table of pairs of bytes."""
    card = pretrained.card("results/variants")
    beside = definitions("more/14_variants", "half", "as_bytes", "of_pairs")
    loss = {kind: torch.tensor(seeds) for kind, seeds in card["loss"].items()}
    assert {len(seeds) for seeds in loss.values()} == {3}
    own = loss.pop("multi-head")
    added = {kind: seeds - own for kind, seeds in loss.items()}
    ends = {
        kind: (float(x.mean() - beside.half(x)), float(x.mean() + beside.half(x)))
        for kind, x in added.items()
    }
    for kind in ("grouped", "multi-query"):
        assert added[kind].min() < 0 < added[kind].max(), "the seeds disagree"
        assert -0.1 < ends[kind][0] < 0 < ends[kind][1] < 0.1
    assert ends["windowed"][1] < 0
    assert ends["linear"][0] > 0.3
    held = card["cache_bytes"]
    assert held["windowed"] == held["multi-query"] == held["multi-head"] / 4
    assert (loss["windowed"] < loss["multi-query"]).all()
    train, test = reviews("imdb").train.texts[:2000], reviews("imdb").test.texts[:200]
    pairs = beside.of_pairs(beside.as_bytes(train, card["tokens"]), beside.as_bytes(test, 100_000))
    assert max(own) < pairs - 0.7
    assert 0.35 < pairs - loss["linear"].mean() < 0.4


@pytest.mark.claim(99)
def test_half_an_interval_over_three_seeds_is_students():
    half = definitions("more/14_variants", "half").half
    assert float(half(torch.tensor([1.0, 2.0, 3.0]))) == pytest.approx(4.303 / 3**0.5)


@pytest.mark.claim(99)
def test_the_table_of_the_side_road_is_that_of_the_card():
    text = (CHAPTERS / "more/14_variants.ipynb").read_text(encoding="utf-8")
    for kind, seeds in pretrained.card("results/variants")["loss"].items():
        assert f"| {kind} | {', '.join(f'{x:.3f}' for x in seeds)} |" in text
