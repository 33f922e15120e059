"""The theses of chapter 14, with their controls, and the claims about a model of today.

Intervals are over reviews, others than those of the chapter.
"""

import pytest
import torch
from chapter_code import Definitions, definitions
from chapter_rules import CHAPTERS
from intervals import interval
from torch import Tensor

from attnlib import pretrained
from attnlib.attention import attention, causal_mask
from attnlib.data import reviews
from attnlib.pretrained.gguf import unpack_q4_1
from attnlib.pretrained.published import smollm2_file

HERE = definitions(
    "14_today",
    *("rms_norm", "turn", "at_all_places", "swiglu", "share", "cache_bytes"),
    *("one_pass", "Largest", "largest", "features", "linear", "recurrent"),
    *("Recaller", "recall", "share_recalled", "rounded", "review_losses"),
    *("unpacked", "block_bytes"),
)
MODEL = ("lm", "model", "rms_norm", "turn", "swiglu", "share", "block", "nats", "long_reviews")
MODEL += ("taken_back", "measured_bytes", "cache_bytes", "place", "back", "sees", "KEPT")


@pytest.fixture(scope="module")
def today() -> Definitions:
    """What the chapter defines with SmolLM2."""
    return definitions("14_today", *MODEL)


# --- four lines -----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.claim(88)
@pytest.mark.claim(89)
@pytest.mark.claim(90)
@torch.no_grad()
def test_four_lines_make_the_loaded_model_and_three_cannot_be_taken_back(today):
    ids = today.long_reviews(3, 48, start=60)
    ours = today.nats(ids, 16)
    logits = today.model(ids)[:, 15:-1]
    theirs = torch.nn.functional.cross_entropy(logits.mT, ids[:, 16:], reduction="none")
    assert (ours - theirs).abs().max() < 1e-3
    added = {
        name: (today.nats(ids, 16, **one) - ours).mean(1) for name, one in today.taken_back.items()
    }
    assert interval(added.pop("LayerNorm"))[1] < 0.3
    assert len(added) == 3
    assert min(interval(each)[0] for each in added.values()) > 0.5


@torch.no_grad()
def test_rms_norm_is_torchs_and_sees_the_mean():
    torch.manual_seed(0)
    x, gain = torch.randn(3, 5, 48), torch.randn(48)
    norm = torch.nn.RMSNorm(48, eps=1e-5)
    norm.weight.data = gain
    assert (HERE.rms_norm(x, gain) - norm(x)).abs().max() < 1e-5
    moved = HERE.rms_norm(x + 3, gain)
    assert (moved - HERE.rms_norm(x, gain)).abs().max() > 0.1, (
        "a mean is seen, other than by LayerNorm"
    )


@pytest.mark.slow
@pytest.mark.claim(91)
def test_both_layouts_give_one_score_and_the_wrong_one_breaks_the_model(today):
    torch.manual_seed(1)
    halves = torch.arange(64).view(32, 2).T.flatten()
    for q, k in torch.randn(5, 2, 64):
        scores = HERE.at_all_places(q, k, "adjacent")
        assert (scores[1:, 1:] - scores[:-1, :-1]).abs().max() < 1e-4
        other = HERE.at_all_places(q[halves], k[halves], "halves")
        assert (scores - other).abs().max() < 1e-4
        assert (scores - HERE.at_all_places(q, k, "halves")).abs().max() > 1
    ids = today.long_reviews(3, 64, start=60)
    wrong = {"turn": lambda x: HERE.turn(x, "halves")}
    none = {"turn": lambda x: x}
    whole = today.nats(ids, 32)
    for one in (wrong, none):
        assert interval((today.nats(ids, 32, **one) - whole).mean(1))[0] > 1


# --- the cache ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.claim(93)
def test_the_cache_weighs_what_the_formula_says(today):
    for heads in (9, 3, 1):
        for T in (1, 50):
            formula = today.cache_bytes(T, layers=2, kv_heads=heads, size=4)
            assert formula == today.measured_bytes(heads, T)
    assert today.cache_bytes(8192, kv_heads=9) == 3 * today.cache_bytes(8192)
    config = today.model.config
    assert today.cache_bytes(1) == 2 * config.layers * config.kv_heads * 64 * 2
    assert today.cache_bytes(8192) > smollm2_file().path.stat().st_size
    half = 2 * sum(W.numel() for W in today.model.parameters())
    assert 268.5e6 < half < 269.5e6
    assert 0.695 < today.cache_bytes(8192) / half < 0.705, "the file is smaller, being packed"
    assert 2 < today.cache_bytes(8192, kv_heads=9) / half < 2.2


# --- windows and sinks ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.claim(95)
def test_the_first_token_repairs_a_window_and_four_others_do_not(today):
    T, ids = 192, today.long_reviews(3, 192, start=60)
    whole = today.nats(ids, 96)
    added = {
        name: (today.nats(ids, 96, today.sees(64, kept)[:T, :T]) - whole).mean(1)
        for name, kept in today.KEPT.items()
    }
    assert interval(added["nothing"])[0] > 0.3
    repaired = added["nothing"] - added["the first token"]
    assert (repaired > 0.5 * added["nothing"]).all()
    gained = (added["nothing"] - added["four others"]) / added["nothing"]
    assert gained.max() < 0.3


@pytest.mark.slow
@pytest.mark.claim(94)
@torch.no_grad()
def test_the_first_place_is_a_sink_whatever_stands_there(today):
    """Weight on the first place from layer 12 on; also of another token, and of the second."""
    texts = today.long_reviews(4, 96, start=60)
    other = torch.cat([torch.full((4, 1), today.lm.encode(" film")[0]), texts[:, 1:]], 1)
    for ids in (texts, other, texts[:, 1:]):
        states = today.model.run(today.model.embed(ids), need_weights=True)
        found = torch.stack([state.pattern[:, :, 20:, (0, 9)].mean((1, 2)) for state in states])
        first, ninth = found.unbind(-1)  # (layer, text)
        low, high = interval(first[12:].mean(0))
        assert 0.4 < low < high < 0.9
        assert first[:3].max() < 0.4
        assert ninth[12:].mean(1).max() < 0.05


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


@pytest.mark.slow
@pytest.mark.claim(97)
def test_linear_attention_is_a_recurrence_and_recalls_less_with_the_same_keys():
    torch.manual_seed(3)
    q, k, v = torch.randn(3, 150, 16)
    assert (HERE.linear(q, k, v) - HERE.recurrent(q, k, v)).abs().max() < 1e-5
    _, weights = attention(q, k, v, causal_mask(150))
    assert (HERE.linear(q, k, v) - weights @ v).abs().max() > 0.1, "it is no softmax"
    assert HERE.share_recalled(4, True, 3) > 0.95
    assert HERE.share_recalled(4, False, 3) < 0.85
    assert HERE.share_recalled(16, False, 3) > 0.95


# --- four bits ------------------------------------------------------------------------------------


@pytest.mark.claim(98)
def test_four_bits_cost_little_if_few_share_a_scale():
    exact = HERE.review_losses(count=80)
    fine = HERE.review_losses(4, 32, 80) - exact
    coarse = HERE.review_losses(4, None, 80) - exact
    assert interval(fine)[1] < 0.1
    assert interval(coarse)[0] > 2 * interval(fine)[1]


def test_a_block_is_unpacked_as_the_library_does():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        d_and_m = torch.randn(2, generator=generator).half().view(torch.uint8)
        q = torch.randint(256, (16,), generator=generator, dtype=torch.uint8)
        block = torch.cat([d_and_m, q])
        theirs = unpack_q4_1(block[None])[0]
        assert torch.equal(HERE.unpacked(bytes(block.tolist())), theirs)
    assert len(HERE.block_bytes) == 20


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
