"""GPT-2's weights under our names: the same numbers, the same model, and what is wrong is named."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from each import each
from gpt2_layout import to_gpt2, wrong_weight
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_near, same
from twins import gpt2

from attnlib.decoding import greedy
from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.conversion import convert

TINY = replace(
    TransformerConfig.gpt2(), vocab_size=29, d_model=12, layers=2, heads=3, d_ff=20, max_len=16
)


def enlarge(model, factor, seed=0):
    """Matrices times a factor, and no bias or scale left at 0 or 1.

    A fresh GPT-2 has almost uniform maps and a flat softmax, in which errors would not show.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter *= factor
            else:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def pair(config, factor, seed=0):
    """The reference and our model, with the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        theirs = enlarge(gpt2(config), factor, seed)
    with torch.device("meta"):
        ours = Transformer(config)
    ours.load_state_dict(convert(theirs.state_dict(), config, "gpt2"), assign=True)
    return theirs, ours.eval()


def ids_of(seed, n, vocab_size):
    return torch.randint(vocab_size, (n,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.claim(14)
def test_the_reference_has_as_many_parameters():
    config = TransformerConfig.gpt2()
    with torch.device("meta"):  # shapes without numbers
        theirs = gpt2(config)
    assert sum(p.numel() for p in theirs.parameters()) == 124_439_808


# --- the published layout ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    return pair(TINY, 5.0)


@pytest.mark.claim(14)
@settings(max_examples=15)
@given(
    d_head=st.integers(1, 6),
    heads=st.sampled_from([1, 2, 5]),
    layers=st.integers(1, 3),
    d_ff=st.integers(1, 30),
    length=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@torch.no_grad()
def test_every_small_gpt2_equals_the_reference(d_head, heads, layers, d_ff, length, seed):
    config = replace(TINY, d_model=d_head * heads, heads=heads, layers=layers, d_ff=d_ff)
    theirs, ours = pair(config, 5.0, seed)
    ids = ids_of(seed, length, config.vocab_size)
    found, trace = theirs(ids[None], output_attentions=True), ours.trace(ids, keep="logits")
    assert_near(trace.logits, found.logits[0], 1e-5)
    assert_near(trace.attention, torch.cat(found.attentions), 1e-5)


@settings(max_examples=15)
@given(heads=st.sampled_from([1, 2, 4]), layers=st.integers(0, 3), seed=st.integers(0, 99))
def test_there_and_back_is_the_same_bit_for_bit(heads, layers, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = enlarge(Transformer(replace(TINY, heads=heads, layers=layers)), 1.0, seed)
    assert same(convert(to_gpt2(model), model.config, "gpt2"), model.state_dict())


def test_back_and_there_is_the_same_bit_for_bit(tiny):
    theirs, ours = tiny
    assert same(to_gpt2(ours), theirs.transformer.state_dict())


def test_names_of_the_file_and_of_the_library(tiny):
    """The published file has buffers and no prefix; the library a prefix and the tied head."""
    theirs, ours = tiny
    bare = to_gpt2(ours)
    mask = torch.ones(1, 1, 16, 16).tril()
    buffers = {f"h.{i}.attn.{name}": mask for i in range(2) for name in ("bias", "masked_bias")}
    assert same(convert({**bare, **buffers}, TINY, "gpt2"), ours.state_dict())
    prefixed = theirs.state_dict()
    assert {"lm_head.weight", "transformer.h.1.attn.c_attn.bias"} <= prefixed.keys()
    assert same(convert(prefixed, TINY, "gpt2"), ours.state_dict())


@each(
    "name",
    [
        f"h.1.{part}"
        for part in (
            "ln_1.bias",
            "attn.c_attn.weight",
            "attn.c_attn.bias",
            "attn.c_proj.weight",
            "mlp.c_fc.weight",
            "mlp.c_proj.weight",
        )
    ]
    + ["wte.weight", "wpe.weight", "ln_f.weight"],
)
def test_a_wrong_weight_is_named(tiny, name):
    wrong_weight(to_gpt2(tiny[1]), name, TINY, partial(convert, layout="gpt2"))


def test_another_size_is_refused(tiny):
    good = to_gpt2(tiny[1])
    with pytest.raises(ValueError, match=r"of 1 layers, .* 12 unknown: h\.1\..*, …"):
        convert(good, replace(TINY, layers=1), "gpt2")
    with pytest.raises(ValueError, match=r"of 3 layers, .* 12 missing: h\.2\.ln_1\.weight, .*…"):
        convert(good, replace(TINY, layers=3), "gpt2")


def test_an_untied_head_is_refused(tiny):
    good = to_gpt2(tiny[1])
    assert convert(good | {"lm_head.weight": good["wte.weight"].clone()}, TINY, "gpt2")
    with pytest.raises(ValueError, match="lm_head.weight differs"):
        convert(good | {"lm_head.weight": good["wte.weight"] + 1e-3}, TINY, "gpt2")


# --- parity at full size ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def full():
    """124,439,808 random numbers, twice; and a text of 8 tokens with 12 that follow."""
    theirs, ours = pair(TransformerConfig.gpt2(), 3.0)
    prompt = ids_of(5, 8, 50_257)
    text = greedy(ours, prompt, 12)
    with torch.no_grad():
        found = theirs(text[None], output_attentions=True)
    return theirs, ours, text, found


@pytest.mark.claim(14)
def test_full_size_logits_and_all_144_maps(full):
    theirs, ours, text, found = full
    assert ours.parameter_count == sum(p.numel() for p in theirs.parameters()) == 124_439_808
    trace, maps = ours.trace(text, keep="logits"), torch.cat(found.attentions)
    assert trace.attention.shape == maps.shape == (12, 12, 20, 20)
    assert_near(trace.attention, maps, 1e-5)
    assert_near(trace.logits, found.logits[0], 1e-4)
    with torch.no_grad():
        assert_near(ours(text[None]), found.logits, 1e-4)  # the fused kernel
    # and not because everything is flat: a uniform last row would have weights of 1/20
    assert maps[..., -1, :].amax(-1).mean() > 0.25
    assert found.logits.std() > 1


@pytest.mark.claim(14)
@torch.no_grad()
def test_full_size_greedy_continuation(full):
    theirs, _, text, found = full
    prompt = text[None, :8]
    expected = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=12,
        min_new_tokens=12,
        do_sample=False,
        pad_token_id=0,
    )
    assert text.tolist() == expected[0].tolist()
    assert len(set(text[8:].tolist())) >= 4  # no token on repeat
    best = found.logits[0, 7:-1].topk(2).values
    assert (best[:, 0] - best[:, 1]).min() > 1e-3  # no ties, which a rounding could break
