"""Patching against hand-made effects on two layers, and against hooks on the reference model."""

from dataclasses import replace

import pytest
import torch
from each import each
from tiny import assert_near, config_of, ids_of, model_of
from twins import gpt2

from attnlib.explain.patching import (
    activation_patching,
    direct_logit_attribution,
    logit_difference,
    logit_lens,
    path_patching,
)
from attnlib.models import TransformerConfig
from attnlib.pretrained.conversion import convert

METRIC = logit_difference(3, 5)
CLEAN = ids_of(0, 6)
CORRUPTED = CLEAN.clone()
CORRUPTED[1] = (CLEAN[1] + 4) % 13
KINDS = {
    "layer norm, biases": {"d_ff": 10, "bias": True},
    "rms, gated": {"d_ff": 10, "norm_kind": "rms", "gated": True},
    "rotary, shared keys": {"norm_kind": "rms", "positions": "rotary", "kv_heads": 1},
    "no norm, attention only": {"norm": "none"},
    "heads added": {"combine": "add", "d_v": 3},
}


def normalised(value, clean, corrupted):
    return (value - corrupted) / (clean - corrupted)


def ends(model):
    return METRIC(model(CLEAN[None])[0, -1]), METRIC(model(CORRUPTED[None])[0, -1])


# --- what one run says ------------------------------------------------------------------------


@each("kind", KINDS)
def test_the_lens_reads_every_stream_and_ends_with_the_answer(kind):
    model = model_of(config_of(layers=3, **KINDS[kind]))
    lens = logit_lens(model, CLEAN, at=2)
    assert lens.shape == (4, 13)
    assert_near(lens[3], model(CLEAN[None])[0, 2])
    assert_near(lens[0], model.final_norm(model.embed(CLEAN[None])[0, 2]) @ model.W_U)


@pytest.mark.claim(101)
@each("kind", KINDS)
def test_the_terms_sum_to_the_logit_difference(kind):
    model = model_of(config_of(layers=3, **KINDS[kind]))
    found = direct_logit_attribution(model, CLEAN, 3, 5, at=4)
    assert found.heads.shape == (3, 2)
    assert found.feed_forward.shape == (3,)
    assert (found.feed_forward != 0).all() == (model.config.d_ff is not None)
    assert_near(found.total, METRIC(model(CLEAN[None])[0, 4]))
    assert found.heads.abs().min() > 0


def test_a_term_is_what_is_lost_without_it_where_nothing_comes_after():
    """Without norms and in the last layer, direct effect and total effect are one."""
    model = model_of(config_of(norm="none"))
    found = direct_logit_attribution(model, CLEAN, 3, 5)

    def without(mixed):
        mixed = mixed.clone()
        mixed[:, 1] = 0
        return mixed

    cut = METRIC(model(CLEAN[None], edits={("mixed", 1): without})[0, -1])
    assert_near(found.heads[1, 1], METRIC(model(CLEAN[None])[0, -1]) - cut)


# --- patching ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both():
    """A small GPT-2 with random weights, ours and the reference implementation."""
    config = replace(TransformerConfig.gpt2(), vocab_size=13, d_model=8, layers=3, heads=2)
    config = replace(config, d_ff=32, max_len=12)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        theirs = gpt2(config).double()
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    ours = model_of(config)
    ours.load_state_dict(convert(theirs.state_dict(), config, "gpt2"))
    return ours, theirs


def hooked(theirs, ids, module, change, before=False):
    """The metric of the reference model while a hook changes what a module takes or gives."""
    if before:
        handle = module.register_forward_pre_hook(lambda m, args: (change(args[0]), *args[1:]))
    else:
        handle = module.register_forward_hook(lambda m, args, out: change(out))
    try:
        with torch.no_grad():
            return METRIC(theirs(ids[None]).logits[0, -1])
    finally:
        handle.remove()


def seen(theirs, ids, module):
    """What a module takes."""
    kept = []
    hooked(theirs, ids, module, lambda x: kept.append(x.clone()) or x, before=True)
    return kept[0]


@each("what", ["stream", "mixed", "feed_forward"])
def test_patching_is_what_hooks_on_the_reference_model_give(both, what):
    ours, theirs = both
    with torch.no_grad():
        clean, corrupted = (METRIC(theirs(i[None]).logits[0, -1]) for i in (CLEAN, CORRUPTED))
    found = activation_patching(ours, CLEAN, CORRUPTED, METRIC, what)
    for layer, block in enumerate(theirs.transformer.h):
        module = {"stream": block, "mixed": block.attn.c_proj, "feed_forward": block.ln_1}[what]
        if what == "feed_forward":
            kept = []
            hook = block.mlp.register_forward_hook(lambda m, a, out, kept=kept: kept.append(out))
            with torch.no_grad():
                theirs(CLEAN[None])
            hook.remove()
            donor = kept[0]
        else:
            donor = seen(theirs, CLEAN, module)
        for place in range(found.shape[1]):
            part = slice(4 * place, 4 * place + 4) if what == "mixed" else place

            def change(x, part=part, donor=donor):
                x = x.clone()
                at = (0, slice(None), part) if what == "mixed" else (0, part)
                x[at] = donor[at]
                return x

            module = block.mlp if what == "feed_forward" else module
            value = hooked(theirs, CORRUPTED, module, change, before=what != "feed_forward")
            assert_near(found[layer, place], normalised(value, clean, corrupted), 1e-6)
    if what == "stream":
        assert found.shape == (4, 6)
        assert_near(found[3], torch.tensor([0.0, 0, 0, 0, 0, 1]).double())
        assert found[0, [0, 2, 3, 4, 5]].abs().max() < 1e-12
        assert_near(found[0, 1], torch.tensor(1.0).double())  # the only token that differs


@each("what", ["queries", "keys", "values", "pattern"])
def test_the_other_sites_are_patched_head_by_head(what):
    """In one layer after which nothing comes, all that a head has is what it mixes."""
    model = model_of(config_of(layers=1, d_ff=10))
    found = activation_patching(model, CLEAN, CORRUPTED, METRIC, what)
    donor = next(model.run(model.embed(CLEAN[None]), need_weights=True))
    part = donor.attention if what == "pattern" else getattr(donor, what)
    clean, corrupted = ends(model)
    for head in range(2):

        def put(x, head=head):
            x = x.clone()
            x[:, head] = part[:, head]
            return x

        value = METRIC(model(CORRUPTED[None], edits={(what, 0): put})[0, -1])
        assert_near(found[0, head], normalised(value, clean, corrupted))


@pytest.mark.claim(104)
@each("through", ["queries", "keys", "values"])
@each("kv_heads", [1, 2])
def test_a_path_is_what_it_is_by_hand(through, kv_heads):
    """Two layers of attention alone: every step as its equation, one matrix after the other."""
    model = model_of(config_of(norm="none", heads=2, kv_heads=kv_heads, positions="none"))
    found = path_patching(model, CLEAN, CORRUPTED, METRIC, (1, 1), through)
    clean, corrupted = ends(model)
    first, second = (block.attention for block in model.blocks)
    mask = torch.ones(6, 6).tril().bool()

    def heads(layer, q, k, v):
        k, v = (x.repeat_interleave(2 // kv_heads, 0) for x in (k, v))
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ v @ layer.W_O  # (H, T, d_model)

    def projected(layer, x):
        return {"q": x @ layer.W_Q, "k": x @ layer.W_K, "v": x @ layer.W_V}

    x, x_clean = model.embed(CORRUPTED), model.embed(CLEAN)
    told = heads(first, **projected(first, x_clean)) - heads(first, **projected(first, x))
    middle = x + heads(first, **projected(first, x)).sum(0)
    for sender in range(2):
        parts = projected(second, middle)
        letter = through[0]
        place = 1 if through == "queries" or kv_heads == 2 else 0
        parts[letter][place] = projected(second, middle + told[sender])[letter][place]
        last = (middle + heads(second, **parts).sum(0))[-1]
        value = METRIC(last @ model.W_U)
        assert_near(found[0, sender], normalised(value, clean, corrupted))


def test_the_path_leaves_out_what_lies_between():
    """Between sender and receiver other heads and feed-forward blocks keep what they wrote."""
    model = model_of(config_of(layers=3, d_ff=10))
    found = path_patching(model, CLEAN, CORRUPTED, METRIC, (2, 0), "values")
    assert found.shape == (2, 2)
    with torch.no_grad():
        model.blocks[1].attention.W_Q.zero_()  # what layer 1 would have made of the sender
        model.blocks[1].attention.W_V.zero_()
        model.blocks[1].feed_forward.W_2.zero_()
        model.blocks[1].feed_forward.W_1.zero_()
    silent = path_patching(model, CLEAN, CORRUPTED, METRIC, (2, 0), "values")
    assert (silent[1] == 0).all()


# --- what cannot be patched -------------------------------------------------------------------


@each(
    "call, words",
    [
        (lambda m: activation_patching(m, CLEAN, CLEAN[:-1], METRIC), "clean has 6, corrupted 5"),
        (lambda m: activation_patching(m, CLEAN, CLEAN, METRIC), "nothing to restore"),
        (lambda m: activation_patching(m, CLEAN, CORRUPTED, METRIC, "heads"), "got 'heads'"),
        (
            lambda m: activation_patching(m, CLEAN, CORRUPTED, METRIC, "feed_forward"),
            "no feed_forw",
        ),
        (lambda m: activation_patching(m, CLEAN[None], CORRUPTED[None], METRIC), r"\(1, 6\)"),
        (lambda m: path_patching(m, CLEAN, CORRUPTED, METRIC, (0, 0)), "layer 1 … 1"),
        (lambda m: path_patching(m, CLEAN, CORRUPTED, METRIC, (1, 2)), "head 0 … 1"),
        (lambda m: path_patching(m, CLEAN, CORRUPTED, METRIC, (1, 0), "mixed"), "'mixed'"),
    ],
)
def test_what_does_not_fit_is_told(call, words):
    with pytest.raises(ValueError, match=words):
        call(model_of(config_of()))


@each("changes", [{"head": False}, {"norm": "post"}])
def test_a_model_without_logits_or_with_norms_after_its_blocks_is_refused(changes):
    with pytest.raises(ValueError, match="an unembedding, and norms before its blocks"):
        logit_lens(model_of(config_of(**changes)), CLEAN)
