"""Attention: the definition as loops, the framework as reference, masks, gradients.

Masks are True where a query may attend. The references here are written from the definitions or
come from torch; none of them calls the code under test.
"""

import math

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import attention_twin

from attnlib.attention import (
    MultiHeadAttention,
    additive_attention,
    attend,
    attention,
    causal_mask,
    masked_softmax,
)
from attnlib.models import Transformer, TransformerConfig
from attnlib.positions import sinusoidal

quick = settings(deadline=None, max_examples=30)
sizes = st.integers(1, 7)
seeds = st.integers(0, 9999)


def draw(seed: int, *shapes: tuple[int, ...], dtype=torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def coins(seed: int, *shape: int) -> torch.Tensor:
    """A random mask in which the last row may look at nothing."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[..., -1, :] = False
    return mask


def layer(seed: int = 0, d_model: int = 12, heads: int = 3, **options) -> MultiHeadAttention:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = MultiHeadAttention(d_model, heads, **options)
        for bias in (module.b_Q, module.b_K, module.b_V, module.b_O):
            if bias is not None:
                torch.nn.init.normal_(bias)
    return module.requires_grad_(False)


def close(ours: torch.Tensor, reference: torch.Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(ours, reference, atol=atol, rtol=1e-5)


# --- what goes in: token plus position, then queries, keys and values


@pytest.mark.claim(1)
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_embedding_is_a_token_column_plus_a_position(positions):
    x = (5, 0, 3, 3, 7, 9)
    model = Transformer(TransformerConfig(10, 8, heads=2, max_len=6, positions=positions))
    found = model.embed(torch.tensor([x]))[0]
    W_e = model.W_E.T  # the notes: one column per token
    W_p = model.W_P if positions == "learned" else sinusoidal(6, 8)
    for t, token in enumerate(x):
        assert torch.equal(found[t], W_e[:, token] + W_p[t])
    # the same token at two places differs by the two positions, and by nothing else
    close(found[3] - found[2], W_p[3] - W_p[2], 1e-6)
    assert not torch.equal(found[3], found[2])


@pytest.mark.claim(3)
@quick
@given(T=sizes, S=sizes, heads=sizes, d_k=sizes, d_v=sizes, d_source=sizes, seed=seeds)
def test_queries_keys_values_have_their_own_widths(T, S, heads, d_k, d_v, d_source, seed):
    module = layer(seed, 5, heads, d_k=d_k, d_v=d_v, d_source=d_source, bias=True)
    x, z = draw(seed, (2, T, 5), (2, S, d_source))
    q, k, v = module.project(x, z)
    assert q.shape == (2, heads, T, d_k)
    assert k.shape == (2, heads, S, d_k)
    assert v.shape == (2, heads, S, d_v)
    for b in range(2):
        for h in range(heads):
            close(q[b, h], x[b] @ module.W_Q[h] + module.b_Q[h])
            close(k[b, h], z[b] @ module.W_K[h] + module.b_K[h])
            close(v[b, h], z[b] @ module.W_V[h] + module.b_V[h])


# --- softmax and masks


@pytest.mark.claim(4)
@quick
@given(T=sizes, S=sizes, shift=st.floats(-1e4, 1e4), scale=st.floats(0, 1e4), seed=seeds)
def test_softmax_rows_sum_to_1_and_ignore_a_shift(T, S, shift, scale, seed):
    (scores,) = draw(seed, (2, T, S), dtype=torch.float64)
    mask = torch.rand(2, T, S) < 0.7
    mask[..., 0] = True
    for weights in (masked_softmax(scores * scale), masked_softmax(scores * scale, mask)):
        assert weights.isfinite().all()
        assert (weights >= 0).all()
        close(weights.sum(-1), torch.ones(2, T, dtype=torch.float64), 1e-12)
    close(masked_softmax(scores, mask), masked_softmax(scores + shift, mask), 1e-9)


@pytest.mark.claim(4)
def test_softmax_does_not_overflow():
    scores = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4]])
    assert scores.exp().isinf().any()  # the definition, taken literally, does
    expected = torch.tensor([[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]])
    close(masked_softmax(scores), expected)
    close(masked_softmax(scores, torch.ones(3, 3, dtype=torch.bool)), expected)


@pytest.mark.claim(9)
@quick
@given(T=st.integers(1, 12), seed=seeds, scale=st.floats(0, 1e4))
def test_causal_weights_are_exactly_0_above_the_diagonal(T, seed, scale):
    q, k, v = draw(seed, (3, T, 4), (3, T, 4), (3, T, 2))
    _, weights = attention(q * scale, k, v, causal_mask(T))
    for t in range(T):
        assert (weights[:, t, t + 1 :] == 0).all()
    close(weights.sum(-1), torch.ones(3, T))
    assert (weights[:, 0, 0] == 1).all()  # the first token sees itself


@pytest.mark.claim(10)
@quick
@given(T=st.integers(2, 9), data=st.data(), seed=seeds)
def test_nothing_leaks_from_the_future(T, data, seed):
    edited = data.draw(st.integers(1, T - 1))
    q, k, v = draw(seed, (T, 4), (T, 4), (T, 4))
    k2, v2 = k.clone(), v.clone()
    k2[edited], v2[edited] = 5.0, -5.0
    mask = causal_mask(T)
    past = attention(q, k, v, mask)[0][:edited], attention(q, k2, v2, mask)[0][:edited]
    assert torch.equal(*past)  # bit for bit
    leaky = attention(q, k, v)[0][:edited], attention(q, k2, v2)[0][:edited]
    assert not torch.equal(*leaky)


def test_a_mask_must_be_boolean():
    q = torch.ones(2, 2)
    with pytest.raises(TypeError, match=r"boolean, True where .* got torch.float32"):
        attention(q, q, q, torch.ones(2, 2))
    with pytest.raises(TypeError, match=r"boolean, True where .* got torch.float32"):
        attend(q, q, q, torch.ones(2, 2))


# --- attention against its definition and against the framework


def by_loops(q, k, v, mask=None):
    """A[s, t] = exp(q_s·k_t/√d) / Σ_u exp(q_s·k_u/√d); output_s = Σ_t A[s, t] v_t, in Python."""
    T, S, d = len(q), len(k), q.shape[1]
    weights = torch.zeros(T, S, dtype=q.dtype)
    output = torch.zeros(T, v.shape[1], dtype=q.dtype)
    for s in range(T):
        allowed = [t for t in range(S) if mask is None or mask[s, t]]
        scores = {t: sum(float(a * b) for a, b in zip(q[s], k[t], strict=True)) for t in allowed}
        total = sum(math.exp(score / math.sqrt(d)) for score in scores.values())
        for t in allowed:
            weights[s, t] = math.exp(scores[t] / math.sqrt(d)) / total
            output[s] += weights[s, t] * v[t]
    return output, weights


@pytest.mark.claim(5)
@pytest.mark.claim(6)
@quick
@given(T=sizes, S=sizes, d_k=sizes, d_v=sizes, masked=st.booleans(), seed=seeds)
def test_attention_equals_the_double_loop(T, S, d_k, d_v, masked, seed):
    q, k, v = draw(seed, (T, d_k), (S, d_k), (S, d_v), dtype=torch.float64)
    mask = coins(seed, T, S) if masked else None
    for found, expected in zip(attention(q, k, v, mask), by_loops(q, k, v, mask), strict=True):
        close(found, expected, 1e-12)


def test_attention_refuses_what_does_not_fit():
    q = torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"same width d_k: q is \(2, 4\), k is \(3, 5\)"):
        attention(q, torch.zeros(3, 5), torch.zeros(3, 4))
    with pytest.raises(ValueError, match="every key needs one value: 3 keys, 2 values"):
        attention(q, torch.zeros(3, 4), q)
    with pytest.raises(ValueError, match="as many keys as queries, got 3 and 2"):
        attend(q, torch.zeros(3, 4), torch.zeros(3, 4), causal=True)


def test_arguments_stay_as_they_are():
    arguments = [*draw(0, (3, 4), (3, 4), (3, 4)), coins(0, 3, 3)]
    copies = [tensor.clone() for tensor in arguments]
    attention(*arguments)
    attend(*arguments, causal=True)
    layer()(torch.ones(1, 3, 12), mask=arguments[3])
    assert all(torch.equal(a, b) for a, b in zip(arguments, copies, strict=True))


@pytest.mark.claim(11)
@quick
@given(T_x=sizes, T_z=sizes, seed=seeds)
def test_cross_attention_takes_keys_and_values_from_z(T_x, T_z, seed):
    module = layer(seed, d_source=5)
    x, z, new = draw(seed, (1, T_x, 12), (1, T_z, 5), (5,))
    output, weights = module(x, z, need_weights=True)
    assert weights.shape == (1, 3, T_x, T_z)
    assert output.shape == (1, T_x, 12)
    total = torch.zeros(T_x, 12)
    for h in range(3):
        head, A = by_loops(x[0] @ module.W_Q[h], z[0] @ module.W_K[h], z[0] @ module.W_V[h])
        close(weights[0, h], A)
        total += head @ module.W_O[h]
    close(output[0], total)
    z2 = z.clone()
    z2[0, 0] = new * 3
    assert (module(x, z2)[0] - output).abs().amax(-1).min() > 0


# --- additive attention


def additive_by_loops(query, keys, values, W, U, v):
    rows = []
    for q in query:
        scores = [torch.tanh(W.T @ q + U.T @ key) @ v for key in keys]
        weights = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
        rows.append((sum(a * value for a, value in zip(weights, values, strict=True)), weights))
    return torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])


@quick
@given(T=sizes, S=sizes, d_query=sizes, d_key=sizes, d_v=sizes, d_align=sizes, seed=seeds)
def test_additive_attention_equals_its_loop(T, S, d_query, d_key, d_v, d_align, seed):
    shapes = (T, d_query), (S, d_key), (S, d_v), (d_query, d_align), (d_key, d_align), (d_align,)
    tensors = draw(seed, *shapes, dtype=torch.float64)
    expected = additive_by_loops(*tensors)
    for found, reference in zip(additive_attention(*tensors), expected, strict=True):
        close(found, reference, 1e-12)


def test_additive_attention_takes_batches_and_masks():
    query, keys, values, W, U, v = draw(0, (2, 3, 4), (2, 5, 6), (2, 5, 7), (4, 8), (6, 8), (8,))
    mask = coins(0, 2, 3, 5)
    context, weights = additive_attention(query, keys, values, W, U, v, mask)
    assert context.shape == (2, 3, 7)
    assert (weights[~mask] == 0).all()
    close(weights.sum(-1), mask.any(-1).float())
    full = additive_attention(query[1], keys[1], values[1], W, U, v, mask[1])
    close(context[1], full[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"W": (6, 8)}, r"query of width 4 .* \(6, 8\): expected \(4, d_align\)"),
        ({"U": (4, 8)}, r"keys of width 6 .* \(4, 8\)"),
        ({"v": (7,)}, "agree on d_align, got 8, 8 and 7"),
        ({"values": (4, 7)}, "5 keys, 4 values"),
    ],
)
def test_additive_attention_refuses_what_does_not_fit(changes, message):
    shapes = {"query": (3, 4), "keys": (5, 6), "values": (5, 7)}
    shapes |= {"W": (4, 8), "U": (6, 8), "v": (8,)} | changes
    with pytest.raises(ValueError, match=message):
        additive_attention(**{name: torch.zeros(shape) for name, shape in shapes.items()})


# --- gradients, and rows that may look at nothing


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_a_row_that_sees_nothing_is_0_and_so_is_its_gradient(need_weights, causal):
    q, k, v = (t.requires_grad_() for t in draw(0, (2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 6)))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    output, weights = attend(q, k, v, mask, causal, need_weights)
    assert (output[..., 2, :] == 0).all()
    assert (output[..., [0, 1, 3], :] != 0).any(-1).all()
    if weights is not None:
        assert (weights[..., 2, :] == 0).all()
        close(weights.sum(-1)[..., [0, 1, 3]], torch.ones(2, 3, 3))
    output.square().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
    assert (q.grad[..., 2, :] == 0).all()
    assert (q.grad[..., 3, :] != 0).any()


@quick
@given(
    T=sizes,
    causal=st.booleans(),
    masked=st.booleans(),
    combine=st.sampled_from(["concat", "add"]),
    bias=st.booleans(),
    seed=seeds,
)
def test_both_roads_give_the_same(T, causal, masked, combine, bias, seed):
    """With the weights, and without them through the fused kernel: output and gradient."""
    module = layer(seed, heads=2, d_k=3, d_v=5, combine=combine, bias=bias)
    x, target = draw(seed, (2, T, 12), (2, T, 12))
    mask = coins(seed, T, T) if masked else None
    results = []
    for need_weights in (False, True):
        x_ = x.clone().requires_grad_()
        output, weights = module(x_, None, mask, causal, need_weights)
        assert (weights is not None) == need_weights
        (output * target).sum().backward()
        results.append((output.detach(), x_.grad))
    for fused, readable in zip(*results, strict=True):
        close(fused, readable)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cap", [None, 0.5])
def test_scores_are_scaled_and_bounded_as_asked(cap, masked):
    """By 0.7 in place of 1/√d_k, then softly between −c and c; on both roads."""
    q, k, v = draw(0, (2, 5, 4), (2, 5, 4), (2, 5, 3))
    mask = coins(1, 5, 5) if masked else None
    scores = 0.7 * torch.einsum("htk,hsk->hts", q, k)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
        assert scores.abs().max() < cap
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    expected = scores.softmax(-1)
    expected = expected if mask is None else expected * mask.any(-1, keepdim=True)
    for need_weights in (False, True):
        output, weights = attend(q, k, v, mask, False, need_weights, scale=0.7, cap=cap)
        close(output, expected @ v)
    close(weights, expected)


@pytest.mark.claim(121)
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_attention_stays_on_its_device_and_in_its_type(device, dtype, need_weights):
    module = layer(bias=True)
    (x,), mask = draw(0, (2, 5, 12)), coins(1, 5, 5)
    expected, _ = module(x, None, mask, causal=True)
    module, x, mask = module.to(device, dtype), x.to(device, dtype), mask.to(device)
    plain, _ = module(x, None, mask, True, need_weights)
    with nothing_made_elsewhere():
        output, _ = module(x, None, mask, True, need_weights)
    assert (output.device.type, output.dtype) == (device, dtype)
    assert torch.equal(output, plain)
    close(output.float().cpu(), expected, 1e-5 if dtype == torch.float32 else 0.05)


# --- the layer of many heads


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", ["none", "causal", "padding", "both", "cross"])
@pytest.mark.parametrize("need_weights", [False, True])
def test_layer_equals_the_frameworks(bias, case, need_weights):
    module = layer(3, d_source=7 if case == "cross" else None, bias=bias)
    x, z = draw(4, (2, 6, 12), (2, 9, 7))
    source = z if case == "cross" else x
    real = torch.arange(source.shape[1]) < torch.tensor([[4], [source.shape[1]]])  # (2, S)
    real = real if case in ("padding", "both", "cross") else None
    causal = case in ("causal", "both")
    output, weights = module(
        x,
        z if case == "cross" else None,
        None if real is None else real[:, None, None],
        causal,
        need_weights,
    )
    expected, maps = attention_twin(module)(
        x,
        source,
        source,
        key_padding_mask=None if real is None else ~real,
        attn_mask=~causal_mask(6) if causal else None,
        average_attn_weights=False,
    )
    close(output, expected)
    if need_weights:
        close(weights, maps)


@pytest.mark.claim(12)
@quick
@given(T=sizes, heads=sizes, d_k=sizes, d_v=sizes, seed=seeds)
def test_concatenation_times_W_O_is_a_sum_over_heads(T, heads, d_k, d_v, seed):
    module = layer(seed, 5, heads, d_k=d_k, d_v=d_v)
    (x,) = draw(seed, (2, T, 5))
    output, weights = module(x, need_weights=True)
    for b in range(2):
        parts = [weights[b, h] @ x[b] @ module.W_V[h] for h in range(heads)]
        by_sum = sum(part @ module.W_O[h] for h, part in enumerate(parts))
        by_concat = torch.cat(parts, -1) @ torch.cat(list(module.W_O), 0)
        close(output[b], by_sum)
        close(output[b], by_concat)


def test_added_heads_share_one_W_O():
    module = layer(0, combine="add")
    assert module.W_V.shape == (3, 12, 12)  # d_v is d_model unless told otherwise
    assert module.W_O.shape == (1, 12, 12)
    (x,) = draw(0, (2, 5, 12))
    output, weights = module(x, need_weights=True)
    heads = sum(weights[:, h] @ x @ module.W_V[h] for h in range(3))
    close(output, heads @ module.W_O[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 2, "combine": "mean"}, "combine must be one of .*, got 'mean'"),
        ({"heads": 0}, "at least one head, got 0"),
        ({"heads": 3}, "3 heads do not divide d_model 8: give d_k and d_v"),
        ({"heads": 3, "d_v": 4}, "do not divide"),
        ({"heads": 9, "combine": "add"}, "9 heads do not divide d_model 8"),
        ({"heads": 2, "d_v": 0}, "at least 1, got 4 and 0"),
    ],
)
def test_layer_refuses_what_cannot_be(changes, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, **changes)


@pytest.mark.claim(38)
@quick
@given(T=sizes, d_k=st.integers(1, 9), seed=seeds)
def test_scores_depend_on_W_QK_alone(T, d_k, seed):
    module = layer(seed, 6, 2, d_k=d_k, d_v=2)
    (x,) = draw(seed, (1, T, 6))
    q, k, _ = module.project(x)
    assert module.W_QK.shape == (2, 6, 6)
    for h in range(2):
        close(x[0] @ module.W_QK[h] @ x[0].T, q[0, h] @ k[0, h].T, 1e-4)
        assert torch.linalg.matrix_rank(module.W_QK[h].double(), rtol=1e-5) <= d_k
    # another pair of matrices with the same product gives the same attention
    twin = layer(seed, 6, 2, d_k=d_k, d_v=2)
    turn, _ = torch.linalg.qr(draw(seed + 1, (d_k, d_k))[0])
    twin.W_Q.copy_(module.W_Q @ turn)
    twin.W_K.copy_(module.W_K @ turn)
    close(module(x, need_weights=True)[1], twin(x, need_weights=True)[1], 1e-4)


@pytest.mark.claim(39)
@quick
@given(T=sizes, d_v=st.integers(1, 9), combine=st.sampled_from(["concat", "add"]), seed=seeds)
def test_outputs_depend_on_W_VO_alone(T, d_v, combine, seed):
    module = layer(seed, 6, 2, d_k=3, d_v=d_v, combine=combine)
    (x,) = draw(seed, (1, T, 6))
    output, weights = module(x, need_weights=True)
    assert module.W_VO.shape == (2, 6, 6)
    merged = sum(weights[0, h] @ x[0] @ module.W_VO[h] for h in range(2))
    close(output[0], merged, 1e-4)


# --- what attention does: averages, copies, near-uniform starts


@pytest.mark.claim(7)
@quick
@given(T=sizes, S=sizes, d_v=sizes, masked=st.booleans(), seed=seeds)
def test_outputs_lie_in_the_hull_of_the_values(T, S, d_v, masked, seed):
    q, k, v, directions = draw(seed, (T, 4), (S, 4), (S, d_v), (50, d_v), dtype=torch.float64)
    mask = torch.rand(T, S, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[:, 0] = True
    output, weights = attention(4 * q, k, v, mask if masked else None)
    assert (weights >= 0).all()
    close(weights.sum(-1), torch.ones(T, dtype=torch.float64), 1e-12)
    assert (output <= v.amax(0) + 1e-12).all()
    assert (output >= v.amin(0) - 1e-12).all()
    # a point is in the hull if and only if no direction takes it past every corner
    assert (output @ directions.T <= (v @ directions.T).amax(0) + 1e-12).all()


def start(sigma: float, T: int = 8, causal: bool = False, width: float = 1.0) -> torch.Tensor:
    """Weights of a head whose W_Q and W_K are N(0, σ²)."""
    x, W_Q, W_K = draw(0, (T, 64), (64, 16), (64, 16), dtype=torch.float64)
    q, k = sigma * width * x @ W_Q, sigma * width * x @ W_K
    return attention(q, k, x, causal_mask(T) if causal else None)[1]


@pytest.mark.claim(8)
def test_attention_at_the_start_is_near_uniform_only_for_small_weights():
    sigmas = [0.3, 0.1, 0.03, 0.01, 0.001]
    distances = [float((start(sigma) - 1 / 8).abs().max()) for sigma in sigmas]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-3 < 0.3 < distances[0]
    # the score grows with σ²: a tenth of σ is a hundredth of the distance
    assert distances[-1] == pytest.approx(distances[-2] / 100, rel=0.05)
    # what counts is σ²‖e‖²: small weights on long embeddings are no start at 1/T
    assert (start(0.001, width=300.0) - 1 / 8).abs().max() > 0.3


@pytest.mark.claim(8)
def test_a_masked_row_starts_at_1_over_what_it_sees():
    weights = start(1e-4, causal=True)
    for s in range(8):  # row s sees s + 1 tokens
        close(weights[s, : s + 1], torch.full((s + 1,), 1 / (s + 1), dtype=torch.float64), 1e-4)
    assert (weights - 1 / 8).abs().max() > 0.8


@pytest.mark.claim(42)
@quick
@given(T=st.integers(2, 7), j=st.integers(0, 6), seed=seeds)
def test_a_pattern_with_one_column_copies_that_token_everywhere(T, j, seed):
    j = j % T
    (x,) = draw(seed, (T, 5))
    q, k = torch.ones(T, 1), torch.full((T, 1), -1e4)
    k[j] = 1e4
    output, A = attention(q, k, x)
    assert torch.equal(A, torch.eye(T)[j].expand(T, T))
    assert torch.equal(output, x[j].expand(T, 5))
    # A[i, j] copies from j to i: reading it as "from i to j" gives the transpose
    assert not torch.equal(A.T @ x, output)


def test_weights_begin_at_a_size_that_keeps_the_size_of_what_passes():
    torch.manual_seed(0)
    for combine, shared in (("concat", 3), ("add", 1)):
        layer = MultiHeadAttention(40, 3, d_k=50, d_v=60, d_source=90, combine=combine)
        widths = {"W_Q": 40, "W_K": 90, "W_V": 90, "W_O": shared * 60}
        for name, width in widths.items():
            weight = getattr(layer, name)
            assert weight.std().item() == pytest.approx(width**-0.5, rel=0.05), name
            assert abs(weight.mean().item()) < 0.01
