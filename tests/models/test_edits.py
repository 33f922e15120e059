"""Edits: each site is where it says, for every row of the batch, and nothing else moves."""

import pytest
import torch
from tiny import assert_near, config_of, ids_of, model_of

from attnlib.models import KVCache
from attnlib.models.transformer import SITES

MEMORY = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0)).double()


def states(model, ids, edits=None):
    """What each layer does with the first text of a batch, while it reads MEMORY if it can."""
    memory = None
    if model.config.cross:
        memory = MEMORY.expand(len(ids), -1, -1), torch.ones(len(ids), 4, dtype=torch.bool)
    return list(model.run(model.embed(ids), need_weights=True, memory=memory, edits=edits))


@pytest.mark.parametrize("norm", ["pre", "post", "both"])
def test_an_edit_that_changes_nothing_changes_nothing(norm):
    model = model_of(config_of(d_ff=10, heads=4, kv_heads=2, gated=True, cross=True, norm=norm))
    seen, ids = [], ids_of(0, 3, 7)

    def looked_at(site, layer):
        return lambda x: (seen.append((site, layer)), x.clone())[1]

    edits = {(site, layer): looked_at(site, layer) for site in SITES for layer in (0, 1)}
    edited, clean = states(model, ids, edits), states(model, ids)
    assert set(seen) == edits.keys()
    assert len(seen) == len(edits), "a site is passed once"
    for site in SITES:
        for layer in (0, 1):
            assert_near(getattr(edited[layer], site), getattr(clean[layer], site))


@pytest.mark.parametrize("site", SITES)
def test_what_another_text_has_there_stands_there(site):
    """The layers before stay as they were, and those after follow."""
    config = config_of(d_ff=10, layers=3, cross=site.startswith("cross_"), kv_heads=1)
    model, (text, other) = model_of(config), ids_of(1, 2, 1, 7)
    donor, clean = states(model, other), states(model, text)
    part = getattr(donor[1], site)
    if site in ("cross_k", "cross_v"):  # both texts read the same memory
        part = part.flip(-2)
    edited = states(model, text, {(site, 1): lambda x: part})
    assert torch.equal(getattr(edited[1], site), part)
    assert torch.equal(edited[0].resid_post, clean[0].resid_post)
    assert torch.equal(edited[2].resid_pre, edited[1].resid_post)
    moved = (edited[2].resid_post - clean[2].resid_post).abs().max()
    assert moved > 1e-4
    if site.startswith("resid"):
        assert_near(edited[2].resid_post, donor[2].resid_post)


def test_what_a_layer_reads_is_what_the_layer_before_left():
    """So an edit of either moves the stream, and only what is after it."""
    model, ids = model_of(config_of(d_ff=10, layers=3)), ids_of(4, 6)
    clean = model.trace(ids, keep="all")
    left = model.trace(ids, keep="all", edits={("resid_post", 0): lambda x: x + 3})
    read = model.trace(ids, keep="all", edits={("resid_pre", 1): lambda x: x + 3})
    for layer in (1, 2):
        assert torch.equal(clean.resid_pre[layer], clean.resid_post[layer - 1])
        assert torch.equal(left.resid_pre[layer], left.resid_post[layer - 1])
    assert_near(left.resid, read.resid)
    assert_near(left.logits, read.logits)
    assert_near(left.resid[1], clean.resid[1] + 3)
    assert torch.equal(left.resid[0], clean.resid[0])
    assert torch.equal(read.resid_post[0], clean.resid_post[0]), "not yet edited there"


def test_one_head_of_one_row_is_taken_away():
    """Zero for a head's z is the model without that head's W_O, in that row alone."""
    model, ids = model_of(config_of(d_ff=10)), ids_of(2, 2, 6)

    def without(z):
        z = z.clone()
        z[1, 0] = 0
        return z

    edited = model(ids, edits={("z", 1): without})
    clean = model(ids)
    with torch.no_grad():
        model.blocks[1].attention.W_O[0] = 0
    assert torch.equal(edited[0], clean[0])
    assert_near(edited[1:], model(ids[1:]))
    assert (edited[1] - clean[1]).abs().max() > 1e-3


def test_a_window_is_the_pattern_cut_and_made_to_sum_to_1_again():
    ids, near = ids_of(3, 2, 8), torch.ones(8, 8).tril().triu(-2).bool()

    def cut(pattern):
        pattern = pattern * near
        return pattern / pattern.sum(-1, keepdim=True)

    edited = model_of(config_of(layers=1))(ids, edits={("pattern", 0): cut})
    assert_near(edited, model_of(config_of(layers=1, window=3))(ids))


def test_the_attention_to_another_text_is_silenced():
    model, ids = model_of(config_of(cross=True, d_ff=10)), ids_of(5, 2, 6)
    memory = model.embed(ids_of(6, 2, 4)), torch.ones(2, 4, dtype=torch.bool)
    silent = model(ids, memory=memory, edits={("cross_z", 1): torch.zeros_like})
    with torch.no_grad():
        model.blocks[1].cross_attention.W_O.zero_()
    assert_near(silent, model(ids, memory=memory))


def test_gradients_pass_through_an_edit():
    model, gate = model_of(config_of()), torch.ones(2, 1, 1, dtype=torch.float64).requires_grad_()
    model(ids_of(7, 1, 5), edits={("z", 0): lambda x: gate * x}).sum().backward()
    assert gate.grad.abs().min() > 0


def test_the_upper_layers_run_alone_piece_by_piece_and_edited():
    """From layer 1 on, with a cache: what was read stays as it was, the new tokens are edited."""
    model, ids = model_of(config_of(layers=3, positions="rotary", d_ff=10)), ids_of(8, 2, 7)
    whole = states(model, ids)
    stream, cache = whole[1].resid_pre, KVCache(3)
    pieces = [
        list(model.run(piece, cache=cache, first=1))[-1].resid_post
        for piece in stream.split([3, 1, 3], 1)
    ]
    assert_near(torch.cat(pieces, 1), whole[2].resid_post)
    silent, cache = {("z", 2): torch.zeros_like}, KVCache(3)
    list(model.run(stream[:, :4], cache=cache, first=1))
    *_, last = model.run(stream[:, 4:], cache=cache, first=1, edits=silent)
    expected = states(model, ids, {("z", 2): lambda z: z * (torch.arange(7) < 4)[:, None]})
    assert_near(last.resid_post, expected[2].resid_post[:, 4:])


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"pattern": torch.clone}, r"\(site, layer\)"),
        ({("paterns", 0): torch.clone}, "no site 'paterns'; it has"),
        ({("mlp_out", 0): torch.clone}, "no site 'mlp_out'"),
        ({("cross_k", 0): torch.clone}, "no site 'cross_k'"),
        ({("resid_pre", 2): torch.clone}, r"layers are 0 … 1"),
        ({("z", 0): lambda x: x[0]}, r"shape it got, \(1, 2, 5, 4\); it returned \(2, 5, 4\)"),
        ({("z", 0): lambda x: None}, "it returned NoneType"),
    ],
)
def test_what_is_no_edit_is_refused(edits, message):
    with pytest.raises(ValueError, match=message):
        model_of(config_of())(ids_of(0, 1, 5), edits=edits)


def test_a_cache_holds_what_was_there_and_takes_no_edits():
    edits = {("z", 0): torch.zeros_like}
    with pytest.raises(ValueError, match="read the whole text anew"):
        model_of(config_of())(ids_of(0, 1, 5), cache=KVCache(2), edits=edits)


def test_without_another_text_its_sites_are_empty():
    state, _ = states(model_of(config_of()), ids_of(0, 1, 5))
    assert all(getattr(state, site) is None for site in SITES if site.startswith("cross_"))
    assert state.mlp_out is None
