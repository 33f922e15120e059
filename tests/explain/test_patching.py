"""The lens, the parts of a logit difference, and paths: against sums, and against edits."""

import pytest
import torch
from tiny import assert_near, config_of, ids_of, model_of
from torch.nn import functional as F

from attnlib.explain.patching import (
    direct_logit_attribution,
    logit_difference,
    logit_lens,
    path_patching,
)

METRIC = logit_difference(3, 5)
CLEAN = ids_of(0, 6)
CORRUPTED = CLEAN.clone()
CORRUPTED[1] = (CLEAN[1] + 4) % 13
FAMILIES = {
    "layer norm, biases": {"d_ff": 10, "bias": True},
    "rms, gated": {"d_ff": 10, "norm_kind": "rms", "gated": True},
    "rotary, shared keys": {"norm_kind": "rms", "positions": "rotary", "kv_heads": 1},
    "no norm, attention only": {"norm": "none"},
    "heads added": {"combine": "add", "d_v": 3},
    "norms on both sides": {"d_ff": 10, "norm": "both", "norm_kind": "rms", "logit_cap": 3.0},
    "layer norms on both sides, biases": {"d_ff": 10, "norm": "both", "bias": True},
    "parallel, every bias": {
        "d_ff": 10,
        "parallel": True,
        "shared_norm": True,
        "bias": ("qkv", "out", "mlp", "head"),
    },
}


@pytest.fixture(params=FAMILIES)
def model(request):
    return model_of(config_of(layers=3, **FAMILIES[request.param]))


# --- what one run says ------------------------------------------------------------------------


def test_the_lens_reads_every_stream_and_ends_with_the_answer(model):
    lens = logit_lens(model, CLEAN, at=2)
    assert lens.shape == (4, 13)
    assert_near(lens[3], model(CLEAN[None])[0, 2])
    assert_near(lens[0], model.unembed(model.final_norm(model.embed(CLEAN[None])[0, 2])))


@pytest.mark.claim(101)
def test_the_terms_sum_to_the_logit_difference(model):
    found = direct_logit_attribution(model, CLEAN, 3, 5, at=4)
    assert found.heads.shape == (3, 2)
    assert found.feed_forward.shape == (3,)
    assert (found.feed_forward != 0).all() == (model.config.d_ff is not None)
    assert found.heads.abs().min() > 0
    logits = F.linear(model.hidden(CLEAN[None]), model.W_U.T, model.b_U)  # before a cap
    assert_near(found.total, METRIC(logits[0, 4]))


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"heads added"}))
@torch.no_grad()
def test_a_head_that_writes_nothing_leaves_all_to_the_other(family):
    """Then the other's share is that of all that attention adds, by the linear part of norms."""
    model = model_of(config_of(layers=3, **FAMILIES[family]))
    layer = model.blocks[1].attention
    if layer.b_O is not None:
        layer.b_O.zero_()
    if getattr(model.blocks[1].norm_1_after, "bias", None) is not None:
        model.blocks[1].norm_1_after.bias.zero_()
    layer.W_O[0].zero_()
    found = direct_logit_attribution(model, CLEAN, 3, 5).heads[1]
    states = list(model.run(model.embed(CLEAN[None])))
    added, x = states[1].attn_out[0, -1], states[2].resid_post[0, -1]
    toward = model.W_U[:, 3] - model.W_U[:, 5]
    if isinstance(model.final_norm, torch.nn.LayerNorm):
        added, x = added - added.mean(), x - x.mean()
    if model.config.norm != "none":
        added = added / (x.square().mean() + model.final_norm.eps).sqrt() * model.final_norm.weight
    assert found[0] == 0
    assert_near(found[1], added @ toward)


# --- paths ------------------------------------------------------------------------------------


def by_edits(model, receiver, through):
    """A path by edits alone: one head exchanged, and all that lies between held where it was."""
    layer, head = receiver
    if through != "q":
        head = head * (model.config.kv_heads or 2) // 2
    sites = ["attn_out"] if model.config.d_ff is None else ["attn_out", "mlp_out"]
    clean, corrupted = (list(model.run(model.embed(x[None]))) for x in (CLEAN, CORRUPTED))
    restored, nothing = (METRIC(model(x[None])[0, -1]) for x in (CLEAN, CORRUPTED))

    def put(part, place):
        def edit(x):
            x = x.clone()
            x[:, place] = part[:, place]
            return x

        return edit

    effects = torch.zeros(layer, 2, dtype=torch.float64)
    for sender in range(layer):
        held = {
            (site, between): put(getattr(corrupted[between], site), slice(None))
            for between in range(sender, layer)
            for site in sites
            if (between, site) != (sender, "attn_out")
        }
        for h in range(2):
            edits = held | {("z", sender): put(clean[sender].z, h)}
            heard = list(model.run(model.embed(CORRUPTED[None]), edits=edits))[layer]
            edit = {(through, layer): put(getattr(heard, through), head)}
            patched = METRIC(model(CORRUPTED[None], edits=edit)[0, -1])
            effects[sender, h] = (patched - nothing) / (restored - nothing)
    return effects


@pytest.mark.claim(104)
@pytest.mark.parametrize("through", ["q", "k", "v"])
def test_a_path_is_what_it_is_by_edits(model, through):
    found = path_patching(model, CLEAN, CORRUPTED, METRIC, (2, 1), through)
    assert found.shape == (2, 2)
    assert found.abs().max() > 1e-6
    assert_near(found, by_edits(model, (2, 1), through), atol=1e-6)


@pytest.mark.claim(104)
@pytest.mark.parametrize("through", ["q", "k", "v"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_path_is_what_it_is_by_hand(through, kv_heads):
    """Two layers of attention alone: every step as its equation, one matrix after the other."""
    model = model_of(config_of(norm="none", heads=4, kv_heads=kv_heads, positions="none"))
    found = path_patching(model, CLEAN, CORRUPTED, METRIC, (1, 2), through)
    restored, nothing = (METRIC(model(x[None])[0, -1]) for x in (CLEAN, CORRUPTED))
    first, second = (block.attention for block in model.blocks)
    mask = torch.ones(6, 6).tril().bool()

    def heads(layer, q, k, v):
        k, v = (x.repeat_interleave(4 // kv_heads, 0) for x in (k, v))
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ v @ layer.W_O  # (H, T, d_model)

    def projected(layer, x):
        return {"q": x @ layer.W_Q, "k": x @ layer.W_K, "v": x @ layer.W_V}

    x, x_clean = model.embed(CORRUPTED), model.embed(CLEAN)
    change = heads(first, **projected(first, x_clean)) - heads(first, **projected(first, x))
    middle = x + heads(first, **projected(first, x)).sum(0)
    for sender in range(4):
        parts = projected(second, middle)
        own = 2 if through == "q" else 2 * kv_heads // 4  # of the receiver, head 2 of four
        parts[through][own] = projected(second, middle + change[sender])[through][own]
        last = (middle + heads(second, **parts).sum(0))[-1]
        effect = (METRIC(last @ model.W_U) - nothing) / (restored - nothing)
        assert_near(found[0, sender], effect)


# --- what cannot be asked ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clean", "corrupted", "receiver", "through", "words"),
    [
        (CLEAN, CLEAN[:-1], (1, 0), "q", "clean has 6, corrupted 5"),
        (CLEAN, CLEAN, (1, 0), "q", "nothing to restore"),
        (CLEAN[None], CORRUPTED[None], (1, 0), "q", "a prompt is"),
        (CLEAN, CORRUPTED, (0, 0), "q", "a receiver is"),
        (CLEAN, CORRUPTED, (1, 2), "q", "a receiver is"),
        (CLEAN, CORRUPTED, (1, 0), "z", "a receiver is"),
    ],
)
def test_a_path_that_is_none_is_refused(clean, corrupted, receiver, through, words):
    with pytest.raises(ValueError, match=words):
        path_patching(model_of(config_of()), clean, corrupted, METRIC, receiver, through)


@pytest.mark.parametrize("changes", [{"head": False}, {"norm": "post"}])
def test_a_model_whose_layers_do_not_add_up_to_logits_is_refused(changes):
    with pytest.raises(ValueError, match="an unembedding, and no norms after its additions"):
        logit_lens(model_of(config_of(**changes)), CLEAN)
