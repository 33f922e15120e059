"""The one transformer: its counts, its causality, its trace, and equality with the framework's."""

from dataclasses import replace

import pytest
import torch
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import WIDTH, D, assert_near, config_of, ids_of, model_of
from torch.nn import functional as F
from twins import layer_twin

from attnlib.models import KVCache, Transformer, TransformerConfig, evaluating
from attnlib.models.block import Block, FeedForward
from attnlib.trace import OPTIONAL

SIZES = {  # layers, d_model, heads, parameters
    "small": (12, 768, 12, 124_439_808),
    "medium": (24, 1024, 16, 354_823_168),
    "large": (36, 1280, 20, 774_030_080),
    "xl": (48, 1600, 25, 1_557_611_200),
}


configs = st.builds(
    config_of,
    layers=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 4]),
    d_k=st.sampled_from([None, 2, 6]),
    d_v=st.sampled_from([None, 3]),
    d_ff=st.sampled_from([None, 10]),
    norm=st.sampled_from(["pre", "post", "none"]),
    embed_norm=st.booleans(),
    positions=st.sampled_from(["learned", "sinusoidal", "rotary", "none"]),
    combine=st.sampled_from(["concat", "add"]),
    activation=st.sampled_from(["relu", "gelu", "gelu_tanh"]),
    bias=st.booleans(),
    tied=st.booleans(),
)


# --- how many numbers -------------------------------------------------------------------------


@pytest.mark.claim(14)
@each("size", SIZES)
def test_parameters_of_every_size(size):
    layers, d_model, heads, count = SIZES[size]
    sizes = {"layers": layers, "d_model": d_model, "heads": heads, "d_ff": 4 * d_model}
    config = replace(TransformerConfig.gpt2(), **sizes)
    assert (config == TransformerConfig.gpt2()) == (size == "small")
    with torch.device("meta"):  # shapes without numbers
        assert Transformer(config).parameter_count == count


def test_no_feed_forward_no_norm_no_bias_is_attention_only():
    model = model_of(config_of(norm="none", layers=1))
    names = {name for name, _ in model.named_parameters()}
    heads = {f"blocks.0.attention.W_{letter}" for letter in "QKVO"}
    assert names == {"W_E", "W_P", "_W_U"} | heads


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
@given(config=configs, seed=st.integers(0, 99), length=st.integers(2, 9), data=st.data())
def test_a_later_token_leaves_earlier_logits_alone(config, seed, length, data):
    model, ids = model_of(config, seed), ids_of(seed, 1, length)
    place = data.draw(st.integers(1, length - 1))
    other = ids.clone()
    other[0, place] = (ids[0, place] + 1) % D
    before, after = model(ids), model(other)
    assert_near(before[:, :place], after[:, :place])
    assert not torch.equal(before[:, place], after[:, place])


@each("norm", ["pre", "post", "none"])
def test_a_bidirectional_model_does_look_ahead(norm):
    model, ids = model_of(config_of(causal=False, norm=norm)), ids_of(1, 1, 6)
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % D
    assert (model(ids) - model(other))[0, :-1].abs().amax(-1).min() > 1e-4


@settings(deadline=None, max_examples=60)
@given(
    config=configs,
    causal=st.booleans(),
    seed=st.integers(0, 99),
    real=st.integers(1, 6),
    padding=st.integers(1, 5),
)
def test_padding_changes_nothing_for_real_tokens(config, causal, seed, real, padding):
    model = model_of(replace(config, causal=causal), seed)
    ids = ids_of(seed, 2, real)
    mask = torch.arange(real + padding).expand(2, -1) < real
    for filler in (0, D - 1):
        padded = F.pad(ids, (0, padding), value=filler)
        assert_near(model(padded, mask)[:, :real], model(ids))


def test_padding_without_a_mask_does_change_the_result():
    model, ids = model_of(config_of(causal=False)), ids_of(3, 1, 4)
    assert (model(F.pad(ids, (0, 3)))[:, :4] - model(ids)).abs().max() > 1e-4


def test_texts_of_a_batch_do_not_meet():
    model, ids = model_of(config_of(causal=False, d_ff=16)), ids_of(4, 3, 7)
    assert_near(model(ids), torch.cat([model(row[None]) for row in ids]))


def test_a_text_of_padding_alone_gives_numbers():
    model, ids = model_of(config_of(causal=False, norm="post")), ids_of(5, 2, 4)
    mask = torch.tensor([[True] * 4, [False] * 4])
    out = model(ids, mask)
    out.sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_without_positions_order_is_unknown():
    ids = ids_of(6, 1, 7)
    turned = ids.flip(1)
    model = model_of(config_of(causal=False, positions="none"))
    assert_near(model(turned), model(ids).flip(1))
    for positions in ("learned", "sinusoidal", "rotary"):
        model = model_of(config_of(causal=False, positions=positions))
        assert (model(turned) - model(ids).flip(1)).abs().max() > 1e-3


@pytest.mark.claim(64)
def test_rotary_knows_only_distances():
    """A text moved to the right by padding in front of it gives the same rows; learned does not."""
    ids, mask = ids_of(7, 1, 6), torch.tensor([[False] * 4 + [True] * 6])
    moved = F.pad(ids, (4, 0))
    rotary = model_of(config_of(positions="rotary"))
    assert_near(rotary(moved, mask)[:, 4:], rotary(ids))
    learned = model_of(config_of(positions="learned"))
    assert (learned(moved, mask)[:, 4:] - learned(ids)).abs().max() > 1e-3


# --- the trace --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(config=configs, causal=st.booleans(), seed=st.integers(0, 99), length=st.integers(1, 9))
def test_trace_is_the_forward_pass_kept(config, causal, seed, length):
    config = replace(config, causal=causal)
    model, ids = model_of(config, seed), ids_of(seed, length)
    trace = model.trace(ids, keep="all")
    assert trace.tokens == tuple(str(i) for i in ids.tolist())
    assert trace.attention.shape == (config.layers, config.heads, length, length)
    assert_near(trace.attention.sum(-1), torch.ones(config.layers, config.heads, length).double())
    if causal:
        assert (trace.attention.triu(1) == 0).all()
    # the fused kernel computed forward, the readable formula the trace
    assert_near(trace.logits, model(ids[None])[0])
    assert_near(trace.final, model.hidden(ids[None])[0])
    assert_near(trace.logits, trace.final @ model.W_U)
    assert torch.equal(trace.residual[0], model.embed(ids[None])[0])
    assert_near(model.final_norm(trace.residual[-1]), trace.final)
    d_k = config.d_k or WIDTH // config.heads
    d_v = config.d_v or (WIDTH if config.combine == "add" else WIDTH // config.heads)
    by_head = (config.layers, config.heads, length)
    assert trace.queries.shape == trace.keys.shape == (*by_head, d_k)
    assert trace.values.shape == (*by_head, d_v)
    assert trace.head_outputs.shape == (*by_head, WIDTH)
    assert not any(getattr(trace, name).requires_grad for name in OPTIONAL)


@settings(deadline=None, max_examples=40)
@given(config=configs, causal=st.booleans(), seed=st.integers(0, 99), length=st.integers(1, 9))
def test_queries_and_keys_of_a_trace_give_its_attention(config, causal, seed, length):
    """softmax(q kᵀ / √d_k) among what may be seen: rotary vectors are kept as they meet."""
    model, ids = model_of(replace(config, causal=causal), seed), ids_of(seed, length)
    trace = model.trace(ids, keep=("queries", "keys"))
    scores = trace.queries @ trace.keys.mT / trace.queries.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1) > 0, -torch.inf)
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    assert_near(trace.attention, weights)


@pytest.mark.claim(41)
@settings(deadline=None, max_examples=40)
@given(config=configs, seed=st.integers(0, 99))
def test_the_stream_can_be_rebuilt_from_what_the_heads_add(config, seed):
    """Σ of the heads' outputs and b_O is what attention adds, whatever norms stand around it."""
    model, ids = model_of(config, seed), ids_of(seed, 7)
    trace = model.trace(ids, keep=("residual", "head_outputs", "values"))
    for layer, block in enumerate(model.blocks):
        added = trace.head_outputs[layer].sum(0)
        weighted = trace.attention[layer] @ trace.values[layer] @ block.attention.W_O
        assert_near(trace.head_outputs[layer], weighted)
        if config.bias:
            added = added + block.attention.b_O
        x = trace.residual[layer] + added
        if config.norm == "post":
            x = block.norm_1(x)
        if block.feed_forward is not None:
            x = x + block.feed_forward(block.norm_2(x) if config.norm == "pre" else x)
            x = block.norm_2(x) if config.norm == "post" else x
        assert_near(x, trace.residual[layer + 1])


@each("name", OPTIONAL)
def test_a_trace_keeps_what_it_is_asked_for_and_no_more(name):
    model, ids = model_of(config_of(d_ff=16)), ids_of(9, 5)
    whole = model.trace(ids, keep="all")
    for keep in (name, [name], {name}):
        trace = model.trace(ids, keep=keep)
        assert torch.equal(getattr(trace, name), getattr(whole, name))
        assert all(getattr(trace, other) is None for other in OPTIONAL if other != name)
    assert torch.equal(trace.attention, whole.attention)
    assert all(getattr(model.trace(ids), other) is None for other in OPTIONAL)


def test_what_run_gives_is_each_layer():
    """Layer by layer the stream, the maps if they are needed, and the values with their mask."""
    model, ids = model_of(config_of(layers=3, causal=False)), ids_of(9, 2, 5)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    x = model.embed(ids)
    states = list(model.run(x, mask, need_weights=True))
    assert len(states) == 3
    assert_near(model.final_norm(states[-1].residual), model.hidden(ids, mask))
    for state in states:
        assert (state.attention[1, :, :, 3:] == 0).all()
        assert_near(state.mixed, state.attention @ state.values)
        x = x + state.head_outputs.sum(1)
        assert_near(state.residual, x)
    assert all(state.attention is None for state in model.run(model.embed(ids), mask))


@each("training", [True, False])
def test_evaluating_restores_the_mode(training):
    """Also of the parts, and also after an error."""
    model = model_of(config_of(dropout=0.5)).train(training)
    with evaluating(model):
        assert not any(part.training for part in model.modules())
    assert all(part.training is training for part in model.modules())

    def fail():
        with evaluating(model):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert all(part.training is training for part in model.modules())


def test_trace_keeps_names_and_words():
    model = model_of(config_of())
    trace = model.trace(ids_of(9, 3), ["un", "##will", "done"], [0, 0, 1])
    assert trace.tokens == ("un", "##will", "done")
    assert trace.to_words().tokens == ("unwill", "done")


def test_trace_has_no_dropout_and_keeps_the_mode():
    """A snapshot taken during training shows the model, and draws no random bits."""
    model, ids = model_of(config_of(dropout=0.5)), ids_of(9, 6)
    expected = model.trace(ids, keep="all")
    model.train()
    state = torch.get_rng_state()
    found = model.trace(ids, keep="all")
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.residual, expected.residual)
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(block.training for block in model.blocks)


def test_trace_of_no_layers():
    model, ids = model_of(config_of(layers=0)), ids_of(10, 4)
    trace = model.trace(ids, keep="all")
    assert trace.attention.shape == (0, 2, 4, 4)
    assert trace.residual.shape == (1, 4, WIDTH)
    assert_near(trace.logits, model(ids[None])[0])


# --- equality with the framework --------------------------------------------------------------


@pytest.mark.claim(14)
@each("norm", ["pre", "post"])
@each("activation", ["relu", "gelu"])
@each("causal", [True, False])
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
        state = block(x, real[:, None, None], need_weights)
        found, weights = state.residual, state.attention
        assert_near(found[real], expected[real], atol=1e-5)
        assert (weights is not None) == need_weights
    loss = torch.randn(2, 9, 24) * real[..., None]
    (found * loss).sum().backward()
    (expected * loss).sum().backward()
    assert_near(block.feed_forward.W_1.grad.T, layer.linear1.weight.grad, atol=1e-4)
    theirs = layer.self_attn.in_proj_weight.grad[:24].unflatten(0, (3, 8)).mT
    assert_near(block.attention.W_Q.grad, theirs, atol=1e-4)


@pytest.mark.claim(58)
@each("activation", ["relu", "gelu", "gelu_tanh"])
@each("bias", [True, False])
def test_feed_forward_formula(activation, bias):
    config = config_of(activation=activation, bias=bias)
    torch.manual_seed(2)
    block, x = FeedForward(config, 20), torch.randn(3, 5, WIDTH)
    activate = {
        "relu": lambda z: z.clamp(min=0),
        "gelu": lambda z: z * torch.special.ndtr(z),
        "gelu_tanh": lambda z: (
            0.5 * z * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)))
        ),
    }[activation]
    hidden = x @ block.W_1
    if bias:
        torch.nn.init.normal_(block.b_1)
        torch.nn.init.normal_(block.b_2)
        hidden = hidden + block.b_1
    expected = activate(hidden) @ block.W_2 + (block.b_2 if bias else 0)
    assert_near(block(x), expected, atol=1e-5)
    assert (block.b_1 is None) == (not bias)


def test_embedding_by_the_formula():
    """With learned and with fixed positions: see tests/test_attention.py."""
    ids = ids_of(11, 2, 6)
    rotary = model_of(config_of(positions="rotary"))
    assert torch.equal(rotary.embed(ids), rotary.W_E[ids])
    normed = model_of(config_of(embed_norm=True, norm="post"))
    x = normed.W_E[ids] + normed.W_P[:6]
    x = x - x.mean(-1, keepdim=True)
    standard = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    norm = normed.embed_norm
    assert_near(normed.embed(ids), standard * norm.weight + norm.bias)


@each(
    "changes, scale",
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
    assert (feed_forward.b_1 is None) == (not model.config.bias)


def test_every_norm_has_the_epsilon_of_the_configuration():
    model = Transformer(config_of(norm="pre", embed_norm=True, d_ff=16, norm_eps=0.125))
    norms = [part for part in model.modules() if isinstance(part, torch.nn.LayerNorm)]
    assert [norm.eps for norm in norms] == [0.125] * 6


# --- learning ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(config=configs, seed=st.integers(0, 99))
def test_gradient_reaches_every_parameter(config, seed):
    model, ids = model_of(config, seed), ids_of(seed, 4, 12)
    weights = torch.randn(4, 12, D, generator=torch.Generator().manual_seed(seed))
    (model(ids) * weights).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if "b_K" not in name:  # adds the same to all scores of a row: the softmax does not see it
            assert parameter.grad.abs().max() > 0, name
        assert parameter.grad.isfinite().all(), name


def test_dropout_only_in_training():
    model, ids = model_of(config_of(dropout=0.5, d_ff=16)), ids_of(12, 2, 6)
    assert torch.equal(model(ids), model(ids))
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model(ids), model(ids))
    still = model_of(config_of(dropout=0.0, d_ff=16)).train()
    assert torch.equal(still(ids), still(ids))


def test_dropout_hits_embeddings_and_what_each_block_writes():
    model = model_of(config_of(dropout=1.0, norm="none", layers=1, d_ff=16)).train()
    ids = ids_of(13, 1, 5)
    assert (model.embed(ids) == 0).all()
    x = torch.randn(1, 5, WIDTH).double()
    assert torch.equal(model.blocks[0](x, None, False)[0], x)  # nothing is added to the stream
    reader = model_of(config_of(dropout=1.0, norm="none", layers=1, cross=True)).train()
    memory = torch.randn(1, 3, WIDTH).double(), torch.ones(1, 3, dtype=torch.bool)
    assert torch.equal(reader.blocks[0](x, None, False, memory=memory)[0], x)


# --- lengths and errors -----------------------------------------------------------------------


@pytest.mark.claim(61)
def test_learned_positions_end_and_say_so():
    model = model_of(config_of(max_len=5))
    assert model(ids_of(0, 1, 5)).shape == (1, 5, D)
    for call in (model, model.hidden):
        with pytest.raises(ValueError, match="6 tokens are more than the 5 positions"):
            call(ids_of(0, 1, 6))
    with pytest.raises(ValueError, match="6 tokens are more than the 5 positions"):
        model.trace(ids_of(0, 6))


@each("positions", ["sinusoidal", "rotary", "none"])
def test_other_positions_go_on(positions):
    model = model_of(config_of(max_len=5, positions=positions))
    long = ids_of(0, 1, 40)
    assert model(long).isfinite().all()
    assert_near(model(long)[:, :5], model(long[:, :5]))


@each("name", ["norm", "positions", "combine", "activation"])
def test_unknown_choice_lists_the_known(name):
    with pytest.raises(ValueError, match=rf"{name} must be one of .*, got 'middle'"):
        config_of(**{name: "middle"})


@each(
    "changes, message",
    [
        ({"heads": 3}, "3 heads do not divide d_model 8"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads must divide the 4 heads, got 3"),
        ({"positions": "rotary", "d_k": 3}, "even"),
    ],
)
def test_impossible_sizes(changes, message):
    with pytest.raises(ValueError, match=message):
        Transformer(config_of(**changes))(ids_of(0, 1, 4))


@each("wrong", [-1, D])
def test_an_id_outside_the_vocabulary_is_an_error(wrong):
    with pytest.raises(IndexError):
        model_of(config_of())(torch.tensor([[1, wrong]]))


# --- what the Llama family exchanged ----------------------------------------------------------


@pytest.mark.claim(90)
@each("cached", [False, True])
def test_shared_keys_and_values_are_repeated_ones(cached):
    """H_kv = H is multi-head, 1 is multi-query, and between them each group has its own."""
    ids = ids_of(0, 2, 9)
    for kv_heads in (1, 2, 4):
        few = model_of(config_of(heads=4, d_k=6, positions="rotary", kv_heads=kv_heads, bias=True))
        many = Transformer(config_of(heads=4, d_k=6, positions="rotary", bias=True)).eval().double()
        weights = few.state_dict()
        for name in [name for name in weights if name[-3:] in ("W_K", "W_V", "b_K", "b_V")]:
            weights[name] = weights[name].repeat_interleave(4 // kv_heads, 0)
        many.load_state_dict(weights)
        cache = KVCache(2) if cached else None
        logits = (
            torch.cat([few(part, cache=cache) for part in ids.split(3, 1)], 1)
            if cached
            else few(ids)
        )
        assert_near(logits, many(ids))
        assert cache is None or cache.keys[0].shape == (2, kv_heads, 9, 6)
        ours, theirs = few.trace(ids[0], keep="all"), many.trace(ids[0], keep="all")
        assert_near(ours.keys, theirs.keys)
        assert_near(ours.head_outputs, theirs.head_outputs)
        layer = few.blocks[0].attention
        assert_near(layer.W_QK, many.blocks[0].attention.W_QK)
        assert_near(layer.W_VO, many.blocks[0].attention.W_VO)
        widths = layer.W_K.shape[-1] + layer.W_V.shape[-1]
        saved = (4 - kv_heads) * (WIDTH + few.config.bias) * widths  # a bias is one more row
        assert many.parameter_count - few.parameter_count == saved * few.config.layers


@pytest.mark.claim(88)
def test_rms_norm_keeps_the_mean_and_divides_by_the_root_mean_square():
    model = model_of(config_of(layers=0, norm_kind="rms", head=False))
    x, weight = model.embed(ids_of(0, 1, 5)), model.final_norm.weight
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight
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
