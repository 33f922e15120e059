"""Circuits against what they stand for: plain sums, whole matrices, and forward passes."""

from dataclasses import replace

import pytest
import torch

from attnlib import pretrained
from attnlib.explain import circuits
from attnlib.models import Transformer, TransformerConfig

CONFIG = TransformerConfig(vocab_size=50, d_model=24, heads=3, max_len=16, norm="none")


def small(**changes):
    torch.manual_seed(0)
    return Transformer(replace(CONFIG, **changes)).eval()


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


# --- the exact part: claims 40, 41, 44, 45, 46, on the model of the chapter -----------------------


@pytest.fixture(scope="module")
def shipped():
    model = pretrained.language_model("attention-1")
    return model, model.trace("I did not like it at all, and neither did she", keep="all")


@pytest.mark.claim(40)
def test_heads_add(shipped):
    (lm, trace) = shipped
    layer, written = lm.model.blocks[0].attention, trace.head_outputs[0]
    together, _ = layer(trace.resid[:1], causal=True)
    assert torch.allclose(written.sum(0), together[0], atol=1e-4)
    assert not torch.allclose(written[1:].sum(0), together[0], atol=0.1)  # one left out


@pytest.mark.claim(44)
def test_an_entry_of_the_qk_circuit_is_a_score_without_positions(shipped):
    lm, trace = shipped
    model, ids = lm.model, torch.tensor(lm.encode("I did not like it at all, and neither did she"))
    layer = model.blocks[0].attention
    scores = trace.q[0] @ trace.k[0].mT / 32**0.5
    of_tokens, of_places = model.W_E[ids], model.W_P[: len(ids)]
    entries = of_tokens @ layer.W_QK @ of_tokens.T / 32**0.5
    assert not torch.allclose(entries, scores, atol=0.5)  # positions have terms of their own
    q, k, _ = layer.project(of_tokens[None])
    assert torch.allclose(entries, q[0] @ k[0].mT / 32**0.5, atol=1e-4)
    for query, key in ((of_tokens, of_places), (of_places, of_tokens), (of_places, of_places)):
        entries = entries + query @ layer.W_QK @ key.T / 32**0.5
    assert torch.allclose(entries, scores, atol=1e-4)


@pytest.mark.claim(45)
def test_a_row_of_the_ov_circuit_is_the_change_of_logits_when_attended(shipped):
    """The first token looks at itself with weight 1; any other place at others as well."""
    lm, trace = shipped
    model, first = lm.model, lm.encode("I")
    layer = model.blocks[0].attention
    source = model.W_E[first] + model.W_P[:1]
    for h in range(4):
        row = circuits.ov_circuit(source, layer.W_V[h], layer.W_O[h], model.W_U)[0]
        gone = {("z", 0): lambda z, h=h: z.index_fill(1, torch.tensor(h), 0)}
        taken = lm.trace("I", "logits", edits=gone)
        change = trace.logits[0] - taken.logits[0]
        assert torch.allclose(row, change, atol=1e-3)
        assert not torch.allclose(row, trace.head_outputs[0, h, 1] @ model.W_U, atol=0.1)


# --- circuits and their numbers -------------------------------------------------------------------


def test_the_ov_circuits_of_all_heads_at_once():
    model = small()
    layer, rows = model.blocks[0].attention, model.W_E[:7]
    ov = circuits.ov_circuit(rows, layer.W_V, layer.W_O, model.W_U)
    assert ov.shape == (3, 7, 50)
    for h in range(3):
        assert torch.allclose(ov[h], rows @ layer.W_VO[h] @ model.W_U, atol=1e-5)


def test_eigenvalues_of_the_large_product_from_the_small_one():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(2, 40, 5, generator=generator, dtype=torch.float64)
    right = torch.randn(2, 5, 40, generator=generator, dtype=torch.float64)
    small = circuits.product_eigenvalues(left, right)
    assert small.shape == (2, 5)
    for h in range(2):
        large = torch.linalg.eigvals(left[h] @ right[h])
        large = large[large.abs().argsort(descending=True)]
        assert large[5:].abs().max() < 1e-9
        for value in small[h]:
            assert (large[:5] - value).abs().min() < 1e-9


def test_copying_score():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(300, 8, generator=generator)
    copies = circuits.product_eigenvalues(left, left.T)
    assert circuits.copying_score(copies).item() == pytest.approx(1, abs=1e-5)
    assert circuits.copying_score(-copies).item() == pytest.approx(-1, abs=1e-5)
    drawn = [
        circuits.copying_score(
            circuits.product_eigenvalues(left, torch.randn(8, 300, generator=generator))
        )
        for _ in range(30)
    ]
    assert abs(sum(drawn) / 30) < 0.15
    turning = torch.complex(torch.tensor([0.0, 0.0]), torch.tensor([2.0, -2.0]))
    assert circuits.copying_score(turning).item() == 0


def test_composition():
    """1 where all is read, 0 where nothing is, 1/√d for random matrices."""
    one, other = torch.zeros(6, 6), torch.zeros(6, 6)
    one[0, 2], other[2, 5] = 3.0, -2.0
    assert circuits.composition(one, other).item() == pytest.approx(1)
    assert circuits.composition(other, one).item() == 0
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 20, 100, 100, generator=generator)
    found = circuits.composition(first, second)
    assert found.shape == (20,)
    assert found.mean().item() == pytest.approx(0.1, abs=0.003)
    assert circuits.composition(first[:3, None], second[None, :2]).shape == (3, 2)


def test_offset_score_of_planted_heads():
    T, period = 12, 4
    A = torch.zeros(2, T, T)
    for t in range(T):
        A[0, t, max(t - 1, 0)] = 1  # the previous token
        A[1, t, t - period + 1 if t >= period else t] = 1  # what followed the same token last time
    assert circuits.offset_score(A, 1).tolist() == pytest.approx([1, 0])
    assert circuits.offset_score(A, period - 1, period).tolist() == pytest.approx([0, 1])
    late = torch.zeros(T, T)
    late[period:, 0] = 1
    late[range(period), range(period)] = 1
    assert circuits.offset_score(late, 0).item() == pytest.approx(period / T)
    assert circuits.offset_score(late, 0, period).item() == 0
    one = torch.zeros(6, 6)
    one[3, 2] = 1
    assert circuits.offset_score(one, 1, 3).item() == pytest.approx(1 / 3), "of 3, 4 and 5"
