"""Sinusoids against the formula in plain Python, rotations against complex numbers."""

import math

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.positions import RotaryScaling, frequencies, rotate, rotation, sinusoidal, turn

quick = settings(deadline=None, max_examples=40)
widths = st.integers(1, 16).map(lambda half: 2 * half)
seeds = st.integers(0, 9999)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@quick
@given(n=st.integers(0, 40), d=widths)
def test_sinusoids_equal_the_formula(n, d):
    found = sinusoidal(n, d)
    assert found.shape == (n, d)
    assert found.dtype == torch.float32
    for p in range(n):
        for i in range(d // 2):
            angle = p / 10_000 ** (2 * i / d)
            assert found[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_are_exact_far_out():
    far = sinusoidal(100_001, 8)[100_000]
    expected = [f(100_000 / 10**i) for i in range(4) for f in (math.sin, math.cos)]
    assert far.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("d", [-2, 0, 1, 7])
def test_widths_must_be_even(d):
    with pytest.raises(ValueError, match=f"the width must be even, got {d}"):
        frequencies(d)
    with pytest.raises(ValueError, match="sine-cosine pairs"):
        sinusoidal(3, d)


@pytest.mark.parametrize(
    ("x", "positions", "pairs", "message"),
    [
        ((2, 4, 6), 3, "adjacent", r"4 rows need as many positions, got \(3,\)"),
        ((4, 5), 4, "adjacent", "must be even, got 5"),
        ((1, 2), 1, "odd", "pairs must be one of"),
    ],
)
def test_rotation_refuses_what_does_not_fit(x, positions, pairs, message):
    with pytest.raises(ValueError, match=message):
        rotate(torch.zeros(x), torch.arange(positions), pairs=pairs)


@quick
@given(T=st.integers(1, 9), d=widths, seed=seeds, first=st.integers(-99, 999))
def test_rotation_is_a_product_of_complex_numbers(T, d, seed, first):
    x = draw(seed, 2, T, d)
    positions = torch.arange(first, first + T)
    pairs = torch.view_as_complex(x.unflatten(-1, (d // 2, 2)))
    speed = torch.tensor([10_000 ** (-2 * i / d) for i in range(d // 2)], dtype=torch.float64)
    turns = torch.exp(1j * positions[:, None] * speed)
    expected = torch.view_as_real(pairs * turns).flatten(-2)
    torch.testing.assert_close(rotate(x, positions), expected)


@pytest.mark.claim(64)
@quick
@given(i=st.integers(0, 500), j=st.integers(0, 500), k=st.integers(-500, 500), seed=seeds)
def test_scores_of_rotated_vectors_depend_on_the_difference_alone(i, j, k, seed):
    q, key = draw(seed, 2, 1, 16)

    def score(i: int, j: int) -> torch.Tensor:
        return (rotate(q, torch.tensor([i])) * rotate(key, torch.tensor([j]))).sum()

    torch.testing.assert_close(score(i, j), score(i + k, j + k))
    if i != j:
        assert abs(score(i, j) - score(0, 0)) > 1e-9


@pytest.mark.claim(91)
def test_both_layouts_of_pairs_give_one_score_after_the_rows_are_put_in_order():
    """Dimensions (2i, 2i+1) of one are (i, i + d/2) of the other; mixed up, scores differ."""
    q, k = torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    order = torch.arange(8).view(4, 2).T.flatten()  # 0 2 4 6 1 3 5 7
    places = torch.arange(5)

    def scores(q, k, pairs):
        return rotate(q, places, 100.0, pairs) @ rotate(k, places, 100.0, pairs).mT

    adjacent = scores(q, k, "adjacent")
    torch.testing.assert_close(scores(q[:, order], k[:, order], "halves"), adjacent)
    assert (scores(q, k, "halves") - adjacent).abs().max() > 0.1


def test_of_a_vector_the_first_dimensions_may_turn_alone():
    x = draw(0, 2, 5, 8)
    turned = turn(x, *rotation(torch.arange(5), 4))
    assert torch.equal(turned[..., 4:], x[..., 4:])
    torch.testing.assert_close(turned[..., :4], rotate(x[..., :4], torch.arange(5)))


def test_a_factor_alone_slows_every_pair():
    x, places = draw(0, 5, 8), torch.arange(5)
    turned = turn(x, *rotation(places, 8, scaling=RotaryScaling(4.0)))
    torch.testing.assert_close(turned, rotate(x, places / 4))


def test_llama_3_slows_the_slow_pairs_alone():
    """As `transformers` does with the values of Llama 3.1, 128 dimensions a head."""
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = transformers.LlamaConfig(
        hidden_size=256, num_attention_heads=2, rope_parameters=parameters
    )
    expected, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = frequencies(128, 500_000.0)
    slowed = RotaryScaling(8.0, 1.0, 4.0, 8192)(plain)
    torch.testing.assert_close(slowed.float(), expected)
    assert torch.equal(slowed[:20], plain[:20])
    torch.testing.assert_close(slowed[-20:], plain[-20:] / 8)
    assert ((slowed < plain) & (slowed > plain / 8)).any(), "gradual between them"


@pytest.mark.parametrize("settings", [(0.0,), (8.0, 1.0), (8.0, 1.0, 4.0, None)])
def test_a_scaling_is_whole_or_a_factor(settings):
    with pytest.raises(ValueError, match="the other three together or not at all; got Rotary"):
        RotaryScaling(*settings)


@pytest.mark.claim(121)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_rotation_stays_on_the_device_and_in_the_type_of_x(device, dtype):
    """Angles are exact far out, whatever the type of x."""
    x, places = draw(0, 2, 5, 8), torch.arange(5) + 100_000
    with nothing_made_elsewhere():
        table = sinusoidal(3, 4)
        turned = rotate(x.to(dtype).to(device), places.to(device))
    assert (table.device.type, turned.device.type, turned.dtype) == ("cpu", device, dtype)
    near = {"atol": 4 * torch.finfo(dtype).eps, "rtol": 4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(turned.cpu().double(), rotate(x, places), **near)
