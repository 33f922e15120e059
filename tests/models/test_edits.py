"""Edits: each site is where it says, for every row of the batch, and nothing else moves."""

import pytest
import torch
from each import each
from tiny import assert_near, config_of, ids_of, model_of

from attnlib.models import KVCache
from attnlib.models.edits import SITES

OWN = [what for what in SITES if not what.startswith("cross_")]
FIELDS = {"stream": "residual", "pattern": "attention"}  # what a LayerState calls them


def states(model, ids, edits=None):
    return list(model.run(model.embed(ids), need_weights=True, edits=edits))


def test_an_edit_that_changes_nothing_changes_nothing():
    model = model_of(config_of(d_ff=10, positions="rotary", heads=4, kv_heads=2, gated=True))
    edits = {(what, layer): torch.clone for what in OWN for layer in (0, 1)}
    ids = ids_of(0, 3, 7)
    assert_near(model(ids, edits=edits | {("stream", 2): torch.clone}), model(ids))


@each("what", OWN)
def test_what_another_text_has_there_stands_there(what):
    """Also the layers before stay as they were, and those after follow."""
    model, (one, other) = model_of(config_of(d_ff=10, layers=3)), ids_of(1, 2, 1, 7)
    donor, clean = states(model, other), states(model, one)
    at = 0 if what == "stream" else 1  # the stream that layer 1 reads is what layer 0 leaves
    part = getattr(donor[at], FIELDS.get(what, what))
    edited = states(model, one, {(what, 1): lambda x: part})
    assert torch.equal(getattr(edited[at], FIELDS.get(what, what)), part)
    assert at == 0 or torch.equal(edited[0].residual, clean[0].residual)
    moved = (edited[2].residual - clean[2].residual).abs().max()
    assert moved > 1e-4
    if what == "stream":
        assert_near(edited[2].residual, donor[2].residual)


def test_one_head_of_one_row_is_taken_away():
    """Zero for what a head mixes is the model without that head's W_O, in that row alone."""
    model, ids = model_of(config_of(d_ff=10)), ids_of(2, 2, 6)

    def without(mixed):
        mixed = mixed.clone()
        mixed[1, 0] = 0
        return mixed

    edited = model(ids, edits={("mixed", 1): without})
    clean = model(ids)
    with torch.no_grad():
        model.blocks[1].attention.W_O[0] = 0
    assert torch.equal(edited[0], clean[0])
    assert_near(edited[1:], model(ids[1:]))
    assert (edited[1] - clean[1]).abs().max() > 1e-3


def test_a_window_is_the_pattern_cut_and_made_to_sum_to_1_again():
    model, ids = model_of(config_of(positions="none", layers=1)), ids_of(3, 1, 8)
    near = torch.ones(8, 8).tril().triu(-1).bool()

    def window(pattern):
        cut = pattern * near
        return cut / cut.sum(-1, keepdim=True)

    for_last = model(ids, edits={("pattern", 0): window})[0, -1]
    assert_near(for_last, model(ids[:, -2:])[0, -1])  # no positions: the last two are all it sees


def test_the_edited_stream_is_what_the_trace_shows():
    model, ids = model_of(config_of(d_ff=10)), ids_of(4, 6)
    edits = {("stream", layer): lambda x: x + 3 for layer in (0, 2)}
    trace = model.trace(ids, keep="all", edits=edits)
    assert_near(trace.residual[0], model.embed(ids[None])[0] + 3)
    assert_near(trace.logits, model(ids[None], edits=edits)[0])
    assert_near(trace.final, model.final_norm(trace.residual[2]))


def test_the_attention_to_another_text_has_sites_of_its_own():
    model, ids = model_of(config_of(cross=True, d_ff=10)), ids_of(5, 2, 6)
    memory = model.embed(ids_of(6, 2, 4)), torch.ones(2, 4, dtype=torch.bool)
    silent = model(ids, memory=memory, edits={("cross_mixed", 1): torch.zeros_like})
    even = {("cross_pattern", 1): lambda p: torch.full_like(p, 0.25)}
    (state,) = list(model.run(model.embed(ids), None, None, True, memory, even))[1:]
    assert torch.equal(state.cross, torch.full_like(state.cross, 0.25))
    with torch.no_grad():
        model.blocks[1].cross_attention.W_O.zero_()
    assert_near(silent, model(ids, memory=memory))


def test_gradients_pass_through_an_edit():
    model, gate = model_of(config_of()), torch.ones(2, 1, 1, dtype=torch.float64).requires_grad_()
    model(ids_of(7, 1, 5), edits={("mixed", 0): lambda x: gate * x}).sum().backward()
    assert gate.grad.abs().min() > 0


@each(
    "edits, words",
    [
        ({"pattern": torch.clone}, r"\(what, layer\)"),
        ({("paterns", 0): torch.clone}, "no site 'paterns'; it has"),
        ({("feed_forward", 0): torch.clone}, "no site 'feed_forward'"),
        ({("cross_keys", 0): torch.clone}, "no site 'cross_keys'"),
        ({("pattern", 2): torch.clone}, r"layers are 0 … 1"),
        ({("stream", 3): torch.clone}, r"layers are 0 … 1"),
        ({("mixed", 0): lambda x: x[0]}, r"shape it got, \(1, 2, 5, 4\); it returned \(2, 5, 4\)"),
        ({("mixed", 0): lambda x: None}, "it returned NoneType"),
    ],
)
def test_what_is_no_edit_is_told(edits, words):
    with pytest.raises(ValueError, match=words):
        model_of(config_of())(ids_of(0, 1, 5), edits=edits)


def test_a_cache_holds_what_was_there_and_takes_no_edits():
    with pytest.raises(ValueError, match="read the whole text anew"):
        model_of(config_of())(
            ids_of(0, 1, 5), cache=KVCache(2), edits={("mixed", 0): torch.zeros_like}
        )
