"""The one transformer: every axis against plain loops, its causality, its cache, its trace."""

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import ACTIVATIONS, Plain
from tiny import WIDTH, D, assert_near, config_of, ids_of, model_of
from torch.nn import functional as F
from twins import layer_twin

from attnlib.models import KVCache, Transformer, TransformerConfig, evaluating
from attnlib.models.transformer import Block, FeedForward
from attnlib.positions import RotaryScaling
from attnlib.trace import OPTIONAL

SIZES = {  # layers, d_model, heads, parameters
    "small": (12, 768, 12, 124_439_808),
    "medium": (24, 1024, 16, 354_823_168),
    "large": (36, 1280, 20, 774_030_080),
    "xl": (48, 1600, 25, 1_557_611_200),
}
LLAMA_3 = RotaryScaling(8.0, low_frequency=1.0, high_frequency=4.0, original_length=16)
FAMILIES = {  # as GPT-2, Phi, and Gemma 3 are built
    "gpt2": {"bias": True, "tied": True, "activation": "gelu_tanh", "d_ff": 16},
    "phi": {
        "bias": ("qkv", "out", "mlp", "head"),
        "positions": "rotary",
        "rotary_share": 0.5,
        "parallel": True,
        "shared_norm": True,
        "d_ff": 16,
    },
    "gemma3": {
        "norm": "both",
        "norm_kind": "rms",
        "qk_norm": True,
        "positions": "rotary",
        "rotary_base": (10_000.0, 1_000_000.0),
        "rotary_scaling": (None, LLAMA_3),
        "window": (3, None),
        "kv_heads": 1,
        "score_scale": 0.4,
        "score_cap": 50.0,
        "logit_cap": 30.0,
        "embed_scale": WIDTH**0.5,
        "gated": True,
        "d_ff": 16,
    },
}
OTHERS = {
    "cross": {"cross": True, "bias": True, "d_ff": 16},
    "sinusoidal": {"positions": "sinusoidal", "norm": "post", "embed_norm": True},
}


@st.composite
def configs(draw, causal=True):
    """Small configurations along every axis at once."""

    def sometimes(value, condition=True):
        return value if condition and draw(st.booleans()) else None

    def by_layer(values):
        """One value for all layers, or one for each."""
        separate = st.tuples(*[st.sampled_from(values)] * layers)
        return draw(st.one_of(st.sampled_from(values), separate))

    layers = draw(st.integers(1, 3))
    heads = draw(st.sampled_from([1, 2, 4]))
    d_k = draw(st.sampled_from([None, 2, 4, 6]))
    turning = WIDTH // heads if d_k is None else d_k
    norm = draw(st.sampled_from(["pre", "post", "both", "none"]))
    bounded = norm in ("pre", "both")  # else numbers grow, and far beyond a cap nothing moves
    parallel = norm in ("pre", "none") and draw(st.booleans())
    return config_of(
        layers=layers,
        heads=heads,
        d_k=d_k,
        d_v=sometimes(3),
        kv_heads=sometimes(1),
        d_ff=sometimes(10),
        norm=norm,
        norm_kind=draw(st.sampled_from(["layer", "rms"])),
        norm_eps=draw(st.sampled_from([1e-5, 0.125])),
        embed_norm=draw(st.booleans()),
        embed_scale=draw(st.sampled_from([1.0, 2.5])),
        qk_norm=draw(st.booleans()),
        positions=draw(st.sampled_from(["learned", "sinusoidal", "rotary", "none"])),
        rotary_base=by_layer([100.0, 10_000.0]),
        rotary_pairs=draw(st.sampled_from(["adjacent", "halves"])),
        rotary_share=0.5 if sometimes(True, turning % 4 == 0) else 1.0,
        rotary_scaling=by_layer([None, RotaryScaling(2.0), LLAMA_3]),
        window=by_layer([None, 2, 4]) if causal else None,
        score_scale=sometimes(0.7),
        score_cap=sometimes(2.0, bounded),
        logit_cap=sometimes(30.0, bounded),
        causal=causal,
        parallel=parallel,
        shared_norm=parallel and draw(st.booleans()),
        combine=draw(st.sampled_from(["concat", "add"])),
        activation=draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"])),
        gated=bounded and draw(st.booleans()),
        bias=tuple(name for name in ("qkv", "out", "mlp", "head") if draw(st.booleans())),
        tied=draw(st.booleans()),
    )


@settings(deadline=None, max_examples=80)
@given(config=st.booleans().flatmap(configs), seed=st.integers(0, 99), length=st.integers(1, 9))
def test_every_configuration_is_its_equations(config, seed, length):
    model, ids = model_of(config, seed), ids_of(seed, length)
    with torch.no_grad():
        torch.testing.assert_close(model(ids[None])[0], Plain(model)(ids))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_its_equations_and_every_axis_of_it_matters(family):
    """Without one of its settings, with the same weights, the logits are others."""
    config, ids = config_of(**FAMILIES[family]), ids_of(0, 1, 9)
    model = model_of(config)
    with torch.no_grad():
        torch.testing.assert_close(model(ids)[0], Plain(model)(ids[0]))
    for name in FAMILIES[family].keys() - {"d_ff", "kv_heads", "shared_norm"}:
        default = TransformerConfig.__dataclass_fields__[name].default
        other = replace(config, **{name: default, "shared_norm": False})
        changed = model_of(other)
        changed.load_state_dict(model.state_dict(), strict=False)
        assert (changed(ids) - model(ids)).abs().max() > 1e-6, name


# --- how many numbers -------------------------------------------------------------------------


@pytest.mark.claim(14)
@pytest.mark.parametrize("size", SIZES)
def test_parameters_of_every_size(size):
    layers, d_model, heads, count = SIZES[size]
    sizes = {"layers": layers, "d_model": d_model, "heads": heads, "d_ff": 4 * d_model}
    config = replace(TransformerConfig.gpt2(), **sizes)
    assert (config == TransformerConfig.gpt2()) == (size == "small")
    with torch.device("meta"):  # shapes without numbers
        assert Transformer(config).parameter_count == count


def test_weights_keep_their_names():
    """Checkpoints and conversions rely on them."""
    of_layer = {
        *[f"attention.{kind}_{letter}" for kind in "Wb" for letter in "QKVO"],
        *[f"feed_forward.{name}" for name in ("W_1", "W_2", "b_1", "b_2")],
        *["attention.q_norm.weight", "attention.k_norm.weight", "feed_forward.W_gate"],
        *[f"norm_{name}.weight" for name in ("1", "2", "1_after", "2_after")],
    }
    config = config_of(**FAMILIES["gemma3"] | {"bias": ("qkv", "out", "mlp", "head")})
    names = set(model_of(config).state_dict())
    assert {name for name in names if not name.startswith("blocks")} == {
        *("W_E", "final_norm.weight", "_W_U", "b_U")
    }
    for layer in range(2):
        assert {f"blocks.{layer}.{name}" for name in of_layer} <= names
    assert len(names) == 4 + 2 * len(of_layer)
    phi = set(model_of(config_of(**FAMILIES["phi"])).state_dict())
    assert not any("norm_2" in name for name in phi)


@pytest.mark.claim(17)
def test_tied_unembedding_is_one_storage():
    model = model_of(config_of(tied=True))
    assert model.W_U.data_ptr() == model.W_E.data_ptr()
    assert torch.equal(model.W_U, model.W_E.T)
    assert not any("W_U" in name for name in model.state_dict())
    model(ids_of(0, 1, 5)).logsumexp(-1).sum().backward()
    assert (model.W_E.grad.abs().sum(1) > 0).all()  # also of tokens that the text does not have
    free = model_of(config_of(tied=False))
    assert free.W_U.data_ptr() != free.W_E.data_ptr()
    assert free.parameter_count == model.parameter_count + D * WIDTH


def test_without_a_head_the_output_is_the_last_state():
    model, ids = model_of(config_of(head=False)), ids_of(0, 2, 5)
    assert model.W_U is None
    assert torch.equal(model(ids), model.hidden(ids))
    trace = model.trace(ids[0], keep="all")
    assert trace.logits is None
    assert_near(trace.final, model(ids)[0])


# --- who sees what ----------------------------------------------------------------------------


@pytest.mark.claim(10)
@settings(deadline=None, max_examples=80)
@given(config=configs(), seed=st.integers(0, 99), length=st.integers(2, 9), data=st.data())
def test_a_later_token_leaves_earlier_logits_alone(config, seed, length, data):
    model, ids = model_of(config, seed), ids_of(seed, 1, length)
    place = data.draw(st.integers(1, length - 1))
    other = ids.clone()
    other[0, place] = (ids[0, place] + 1) % D
    before, after = model(ids), model(other)
    assert_near(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place], after[:, place])


@settings(deadline=None, max_examples=60)
@given(
    config=st.booleans().flatmap(configs),
    seed=st.integers(0, 99),
    real=st.integers(1, 6),
    padding=st.integers(1, 5),
)
def test_neither_padding_nor_other_texts_of_the_batch_are_seen(config, seed, real, padding):
    model, ids = model_of(config, seed), ids_of(seed, 2, real)
    alone = torch.cat([model(row[None]) for row in ids])
    mask = torch.arange(real + padding).expand(2, -1) < real
    for filler in (0, D - 1):
        padded = F.pad(ids, (0, padding), value=filler)
        assert_near(model(padded, mask)[:, :real], alone)


def test_padding_stands_at_the_end():
    """At the front it would move every position: refused."""
    model, ids = model_of(config_of()), ids_of(3, 2, 4)
    with pytest.raises(ValueError, match="only at the end"):
        model(ids, torch.tensor([[True] * 4, [False] + [True] * 3]))


def test_a_text_of_padding_alone_gives_numbers():
    model, ids = model_of(config_of(causal=False, norm="post")), ids_of(5, 2, 4)
    out = model(ids, torch.tensor([[True] * 4, [False] * 4]))
    out.sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.claim(64)
def test_rotary_knows_only_distances():
    """Moved behind other words, which its window does not reach, a text gives the same rows."""
    ids, moved = ids_of(7, 1, 6), torch.cat([ids_of(8, 1, 4), ids_of(7, 1, 6)], 1)
    settings = {"layers": 1, "window": 3, "d_ff": 10}
    rotary = model_of(config_of(positions="rotary", **settings))
    assert_near(rotary(moved)[:, 6:], rotary(ids)[:, 2:])
    assert (rotary(moved)[:, 4:6] - rotary(ids)[:, :2]).abs().amax(-1).min() > 1e-3
    learned = model_of(config_of(positions="learned", **settings))
    assert (learned(moved)[:, 6:] - learned(ids)[:, 2:]).abs().max() > 1e-3


# --- the cache --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(config=configs(), seed=st.integers(0, 99), data=st.data())
def test_what_is_read_piece_by_piece_is_what_is_read_at_once(config, seed, data):
    model, ids, cache = model_of(config, seed), ids_of(seed, 2, 9), KVCache(config.layers)
    first = data.draw(st.integers(1, 7))
    pieces = [model(part, cache=cache) for part in ids.split([first, 1, 8 - first], 1)]
    assert_near(torch.cat(pieces, 1), model(ids))
    assert (cache.length, cache.batch) == (9, 2)


def test_a_cache_is_for_causal_models_without_padding():
    ids = ids_of(0, 1, 3)
    for model, mask in (
        (model_of(config_of(causal=False)), None),
        (model_of(config_of()), torch.ones(1, 3, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match="a cache needs a causal model and a batch without"):
            model(ids, mask, KVCache(2))


# --- the trace --------------------------------------------------------------------------------


@pytest.mark.claim(41)
@settings(deadline=None, max_examples=80)
@given(config=st.booleans().flatmap(configs), seed=st.integers(0, 99), length=st.integers(1, 9))
def test_a_trace_is_the_forward_pass_from_end_to_end(config, seed, length):
    """Every part follows from those before it, and the last is what the fused kernel gives."""
    model, ids = model_of(config, seed), ids_of(seed, length)
    trace = model.trace(ids, keep="all")
    assert trace.tokens == tuple(str(i) for i in ids.tolist())
    assert not trace.pattern.requires_grad
    assert_near(trace.logits, model(ids[None])[0])
    assert_near(trace.final, model.final_norm(trace.resid[-1]))
    assert torch.equal(trace.resid[0], model.embed(ids[None])[0])
    assert torch.equal(trace.resid[1:], trace.resid_post)
    assert torch.equal(trace.resid_pre[1:], trace.resid_post[:-1])
    for layer, block in enumerate(model.blocks):
        scale = trace.q.shape[-1] ** -0.5 if config.score_scale is None else config.score_scale
        scores = trace.q[layer] @ trace.k[layer].mT * scale
        if config.score_cap is not None:
            scores = config.score_cap * (scores / config.score_cap).tanh()
        seen = trace.pattern[layer] > 0
        ratios = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        assert_near(trace.pattern[layer], ratios)
        assert_near(trace.z[layer], trace.pattern[layer] @ trace.v[layer])
        assert_near(trace.head_outputs[layer], trace.z[layer] @ block.attention.W_O)
        added = trace.head_outputs[layer].sum(0)
        if "out" in config.bias:
            added = added + block.attention.b_O
        assert_near(trace.attn_out[layer], block.norm_1_after(added))
        x = trace.resid_pre[layer] + trace.attn_out[layer]
        if config.norm == "post":
            x = block.norm_1(x)
        if config.d_ff is not None:
            x = x + trace.mlp_out[layer]
            x = block.norm_2(x) if config.norm == "post" else x
        assert_near(x, trace.resid_post[layer])


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_trace_keeps_what_it_is_asked_for_and_no_more(name):
    model, ids = model_of(config_of(d_ff=16)), ids_of(9, 5)
    whole = model.trace(ids, keep="all")
    for keep in (name, [name], {name}):
        trace = model.trace(ids, keep=keep)
        assert torch.equal(getattr(trace, name), getattr(whole, name))
        assert all(getattr(trace, other) is None for other in OPTIONAL if other != name)
        assert torch.equal(trace.pattern, whole.pattern)
    assert all(getattr(model.trace(ids), other) is None for other in OPTIONAL)


def test_run_gives_the_patterns_of_a_padded_batch_if_they_are_needed():
    model, ids = model_of(config_of(layers=3, causal=False)), ids_of(9, 2, 5)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    states = list(model.run(model.embed(ids), mask, need_weights=True))
    assert len(states) == 3
    assert_near(model.final_norm(states[-1].resid_post), model.hidden(ids, mask))
    for state in states:
        assert (state.pattern[1, :, :, 3:] == 0).all()
        assert_near(state.z, state.pattern @ state.v)
    assert all(state.pattern is None for state in model.run(model.embed(ids), mask))


def test_a_snapshot_during_training_has_no_dropout_and_draws_no_random_bits():
    model, ids = model_of(config_of(dropout=0.5)), ids_of(9, 3)
    expected = model.trace(ids, keep="all")
    model.train()
    state = torch.get_rng_state()
    trace = model.trace(ids, ["un", "##will", "done"], [0, 0, 1], keep="all")
    assert trace.to_words().tokens == ("unwill", "done")
    assert torch.equal(trace.logits, expected.logits)
    assert torch.equal(state, torch.get_rng_state())
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_restores_the_mode_also_after_an_error(training):
    model = model_of(config_of(dropout=0.5)).train(training)

    def fail():
        with evaluating(model):
            assert not any(part.training for part in model.modules())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert all(part.training is training for part in model.modules())


# --- equality with the framework --------------------------------------------------------------


@pytest.mark.claim(14)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_block_equals_the_frameworks_layer(norm, activation, causal):
    config = config_of(
        d_model=24, heads=3, d_ff=40, norm=norm, activation=activation, bias=True, causal=causal
    )
    torch.manual_seed(1)
    block = Block(config)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    layer = layer_twin(block)
    x, real = torch.randn(2, 9, 24), torch.arange(9) < torch.tensor([[9], [6]])
    forbidden = ~torch.ones(9, 9, dtype=torch.bool).tril() if causal else None
    expected = layer(x, src_mask=forbidden, src_key_padding_mask=~real)
    for need_weights in (False, True):
        state = block(x, mask=real[:, None, None], need_weights=need_weights)
        assert_near(state.resid_post[real], expected[real], atol=1e-5)
        assert (state.pattern is not None) == need_weights
    loss = torch.randn(2, 9, 24) * real[..., None]
    (state.resid_post * loss).sum().backward()
    (expected * loss).sum().backward()
    assert_near(block.feed_forward.W_1.grad.T, layer.linear1.weight.grad, atol=1e-4)
    theirs = layer.self_attn.in_proj_weight.grad[:24].unflatten(0, (3, 8)).mT
    assert_near(block.attention.W_Q.grad, theirs, atol=1e-4)


@pytest.mark.claim(58)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward_formula(activation):
    torch.manual_seed(2)
    block = FeedForward(config_of(activation=activation, bias=True), 20)
    torch.nn.init.normal_(block.b_1)
    torch.nn.init.normal_(block.b_2)
    x = torch.randn(3, 5, WIDTH)
    expected = ACTIVATIONS[activation](x @ block.W_1 + block.b_1) @ block.W_2 + block.b_2
    assert_near(block(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "scale"),
    [
        ({"norm": "none"}, 64**-0.5),
        ({"norm": "post"}, 64**-0.5),
        ({"norm": "pre"}, 0.02),
        ({"norm": "none", "tied": True}, 0.02),
        ({"norm": "none", "positions": "sinusoidal"}, 1.0),
        ({"norm": "none", "positions": "sinusoidal", "tied": True}, 0.02),
    ],
)
def test_first_weights_are_as_large_as_said(changes, scale):
    """Embeddings and learned positions by configuration, everything else by its width."""
    torch.manual_seed(0)
    model = Transformer(config_of(vocab_size=500, d_model=64, max_len=200, d_ff=100, **changes))
    assert model.W_E.std().item() == pytest.approx(scale, rel=0.03)
    if model.W_P is not None:
        assert model.W_P.std().item() == pytest.approx(scale, rel=0.03)
    if not model.config.tied:
        assert model.W_U.std().item() == pytest.approx(64**-0.5, rel=0.03)
    feed_forward = model.blocks[0].feed_forward
    assert feed_forward.W_1.std().item() == pytest.approx(64**-0.5, rel=0.05)
    assert feed_forward.W_2.std().item() == pytest.approx(100**-0.5, rel=0.05)


# --- learning ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(config=configs(), seed=st.integers(0, 99))
def test_gradient_reaches_every_parameter(config, seed):
    model, ids = model_of(config, seed), ids_of(seed, 4, 12)
    weights = torch.randn(4, 12, D, generator=torch.Generator().manual_seed(seed))
    (model(ids) * weights).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if "b_K" not in name:  # adds the same to all scores of a row: the softmax does not see it
            assert parameter.grad.abs().max() > 0, name
        assert parameter.grad.isfinite().all(), name


def test_dropout_hits_embeddings_and_what_each_block_writes_and_only_in_training():
    model, ids = model_of(config_of(dropout=1.0, norm="none", layers=1, d_ff=16)), ids_of(13, 1, 5)
    assert torch.equal(model(ids), model(ids))
    assert not torch.equal(model(ids), model.train()(ids))
    assert (model.embed(ids) == 0).all()
    x = torch.randn(1, 5, WIDTH).double()
    assert torch.equal(model.blocks[0](x).resid_post, x)  # nothing is added to the stream
    reader = model_of(config_of(dropout=1.0, norm="none", layers=1, cross=True)).train()
    memory = torch.randn(1, 3, WIDTH).double(), torch.ones(1, 3, dtype=torch.bool)
    assert torch.equal(reader.blocks[0](x, memory=memory).resid_post, x)


# --- lengths and errors -----------------------------------------------------------------------


@pytest.mark.claim(61)
def test_learned_positions_end_and_say_so():
    model = model_of(config_of(max_len=5))
    assert model(ids_of(0, 1, 5)).shape == (1, 5, D)
    with pytest.raises(ValueError, match="6 tokens are more than the 5 positions"):
        model(ids_of(0, 1, 6))
    with pytest.raises(ValueError, match="6 tokens are more than the 5 positions"):
        model.trace(ids_of(0, 6))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "none"])
def test_other_positions_go_on(positions):
    model = model_of(config_of(max_len=5, positions=positions))
    long = ids_of(0, 1, 40)
    assert model(long).isfinite().all()
    assert_near(model(long)[:, :5], model(long[:, :5]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "middle"}, r"norm must be one of \('pre', .*, got 'middle'"),
        ({"bias": ("qkv", "gate")}, "bias must be one of .*, got 'gate'"),
        ({"heads": 3}, "3 heads do not divide d_model 8"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads must divide the 4 heads, got 3"),
        ({"positions": "rotary", "d_k": 3}, "even"),
        ({"window": (3,)}, "window names 1 layers of 2"),
        ({"rotary_base": (1.0, 2.0, 3.0)}, "rotary_base names 3 layers of 2"),
        ({"rotary_scaling": (LLAMA_3,)}, "rotary_scaling names 1 layers of 2"),
        ({"window": 3, "causal": False}, "needs causal=True"),
        ({"window": (None, 0)}, "at least the token itself"),
        ({"parallel": True, "norm": "post"}, 'need norm="pre"'),
        ({"parallel": True, "cross": True}, "cross=False"),
        ({"shared_norm": True}, "needs parallel=True"),
    ],
)
def test_impossible_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Transformer(config_of(**changes))(ids_of(0, 1, 4))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bias": True}, "biases"),
        ({"qk_norm": True}, "length"),
        ({"positions": "rotary"}, "distance"),
        ({"score_cap": 5.0}, "soft cap"),
    ],
)
def test_W_QK_says_if_the_scores_depend_on_more(changes, reason):
    with pytest.warns(UserWarning, match=f"depend on more than W_QK: .*{reason}"):
        _ = model_of(config_of(**changes)).blocks[0].attention.W_QK
    with warnings.catch_warnings(action="error"):
        _ = model_of(config_of(bias=("out", "mlp"))).blocks[0].attention.W_QK


# --- what the Llama family exchanged ----------------------------------------------------------


@pytest.mark.claim(90)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_shared_keys_and_values_are_repeated_ones(kv_heads):
    """H_kv = H is multi-head, 1 is multi-query, and between them each group has its own."""
    ids, config = ids_of(0, 2, 9), config_of(heads=4, d_k=6, bias=True)
    few, many = model_of(replace(config, kv_heads=kv_heads)), model_of(config)
    weights = few.state_dict()
    for name in [name for name in weights if name[-3:] in ("W_K", "W_V", "b_K", "b_V")]:
        weights[name] = weights[name].repeat_interleave(4 // kv_heads, 0)
    many.load_state_dict(weights)
    cache = KVCache(2)
    assert_near(few(ids, cache=cache), many(ids))
    assert cache.keys[0].shape == (2, kv_heads, 9, 6)
    ours, theirs = few.trace(ids[0], keep="all"), many.trace(ids[0], keep="all")
    assert_near(ours.k, theirs.k)
    assert_near(ours.head_outputs, theirs.head_outputs)
    ours, theirs = few.blocks[0].attention, many.blocks[0].attention
    with pytest.warns(UserWarning, match="biases"):
        assert_near(ours.W_QK, theirs.W_QK)
    assert_near(ours.W_VO, theirs.W_VO)
    widths = ours.W_K.shape[-1] + ours.W_V.shape[-1]
    saved = (4 - kv_heads) * (WIDTH + 1) * widths  # a bias is one more row
    assert many.parameter_count - few.parameter_count == saved * config.layers


@pytest.mark.claim(88)
def test_rms_norm_keeps_the_mean_and_divides_by_the_root_mean_square():
    model = model_of(config_of(layers=0, norm_kind="rms", norm_eps=0.125, head=False))
    x, weight = model.embed(ids_of(0, 1, 5)), model.final_norm.weight
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 0.125).sqrt() * weight
    assert_near(model(ids_of(0, 1, 5)), expected)
    assert set(model.state_dict()) == {"W_E", "W_P", "final_norm.weight"}


@pytest.mark.claim(89)
def test_the_gate_multiplies_what_passes():
    config = config_of(d_ff=10, activation="silu", gated=True)
    model = model_of(config)
    x, block = torch.randn(2, 3, WIDTH).double(), model.blocks[0].feed_forward
    up, gate = x @ block.W_1, x @ block.W_gate
    assert_near(block(x), (gate * gate.sigmoid() * up) @ block.W_2)
    plain = replace(config, gated=False)
    added = model.parameter_count - Transformer(plain).parameter_count
    assert added == config.layers * WIDTH * 10
    # at equal size, a gated block is two thirds as wide
    gated, wide = replace(config, d_ff=8), replace(plain, d_ff=12)
    assert Transformer(gated).parameter_count == Transformer(wide).parameter_count


@pytest.mark.claim(118)
def test_normalised_queries_and_keys_do_not_depend_on_the_size_of_the_stream():
    ids, patterns = ids_of(0, 6), {}
    for qk_norm in (True, False):
        model = model_of(config_of(layers=1, norm="none", qk_norm=qk_norm, norm_eps=1e-12))
        louder = {("resid_pre", 0): lambda x: 3 * x}
        patterns[qk_norm] = [model.trace(ids, edits=edits).pattern for edits in ({}, louder)]
    assert_near(*patterns[True])
    assert (patterns[False][0] - patterns[False][1]).abs().max() > 1e-2


# --- any device, any float --------------------------------------------------------------------


def everything(model, ids, memory=None):
    """What a model computes in every way that it has, by name."""
    silent = {("z", 1): torch.zeros_like}
    mask = torch.arange(ids.shape[1], device=ids.device) < ids.shape[1] - 2
    mask = mask.expand(len(ids), -1)
    results = {
        "logits": model(ids, memory=memory),
        "padded": model(ids, mask, memory=memory)[mask],
        "edited": model(ids, memory=memory, edits=silent),
    }
    model.zero_grad()
    F.cross_entropy(results["logits"].flatten(0, 1).float(), ids.flatten()).backward()
    results |= {name: parameter.grad for name, parameter in model.named_parameters()}
    if memory is None:
        cache = KVCache(model.config.layers)
        parts = [model(part, cache=cache) for part in ids.split([4, 1, 3], 1)]
        results["cached"] = torch.cat(parts, 1)
        trace = model.trace(ids[0], keep="all")
        kept = {name: getattr(trace, name) for name in ("pattern", "resid", *OPTIONAL)}
        results |= {f"trace.{name}": part for name, part in kept.items() if part is not None}
        words = [0, 0, 1, 2, 2, 2, 3, 4]
        results["words"] = model.trace(ids[0], word_ids=words).to_words().pattern
    return results


def model_and_memory(family, dtype):
    """A model of this type, and the states of another text that it reads, if it does."""
    model = model_of(config_of(**(FAMILIES | OTHERS)[family])).to(dtype)
    if family != "cross":
        return model, None
    states = torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(0)).to(dtype)
    return model, (states, torch.tensor([[True] * 3, [True, True, False]]))


@pytest.mark.claim(121)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_results_are_where_and_of_the_type_that_the_model_is(family, device, dtype):
    """And the same as in double precision, as far as the type goes."""
    (model, memory), ids = model_and_memory(family, dtype), ids_of(0, 2, 8)
    exact = copy.deepcopy(model).double()
    expected = everything(exact, ids, memory and (memory[0].double(), memory[1]))
    memory = memory and (memory[0].to(device), memory[1].to(device))
    results = everything(model.to(device), ids.to(device), memory)
    assert results.keys() == expected.keys()
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.15}[dtype]
    for name, result in results.items():
        assert result.device.type == device, name
        assert result.dtype == dtype, name
        size = max(expected[name].abs().max().item(), 0.05)
        assert_near(result.detach().cpu().double(), expected[name].detach(), tolerance * size)


@pytest.mark.claim(121)
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_no_tensor_is_made_but_on_the_device_of_the_input(family):
    (model, memory), ids = model_and_memory(family, torch.float32), ids_of(0, 2, 8)
    expected = everything(model, ids, memory)
    with nothing_made_elsewhere():
        results = everything(model, ids, memory)
    assert expected.keys() == results.keys()
    assert all(torch.equal(results[name], expected[name]) for name in expected)


@pytest.mark.claim(121)
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_nothing_stays_on_the_processor(family):
    """A model on another device meets no tensor that was left behind: meta stands for a GPU."""
    model, memory = model_and_memory(family, torch.float32)
    with evaluating(model.to("meta")):
        memory = memory and (memory[0].to("meta"), None)
        x = model.embed(torch.zeros(1, 5, dtype=torch.int64, device="meta"))
        if memory is None:
            assert all(state.resid_post.is_meta for state in model.run(x, need_weights=True))


@pytest.mark.parametrize(
    "changes", [{"positions": "rotary"}, {"qk_norm": True}, {"score_cap": 2.0}]
)
def test_a_layer_that_does_more_than_its_matrices_say_is_not_run_alone(changes):
    x = torch.randn(1, 3, WIDTH, generator=torch.Generator().manual_seed(0)).double()
    with pytest.raises(ValueError, match="more with its queries and keys"):
        model_of(config_of(**changes)).blocks[0].attention(x)
    assert model_of(config_of()).blocks[0].attention(x)[0].shape == x.shape


@pytest.mark.parametrize("first", [-1, 3])
def test_a_run_begins_at_a_layer_that_there_is(first):
    model = model_of(config_of())
    with pytest.raises(ValueError, match="first"):
        list(model.run(model.embed(ids_of(0, 1, 3)), first=first))
