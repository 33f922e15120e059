"""Sinusoids against the formula in plain Python, rotations against complex numbers."""

import math

import pytest
import torch
from each import each
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.positions import frequencies, rotate, sinusoidal

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


def test_every_position_is_its_own():
    table = sinusoidal(512, 32).double()
    distances = torch.cdist(table, table) + 9 * torch.eye(512, dtype=torch.float64)
    assert distances.min() > 0.1
    torch.testing.assert_close(table.square().sum(1), torch.full((512,), 16.0).double())


def test_frequencies_fall_from_1_by_a_constant_ratio():
    found = frequencies(8)
    assert found.tolist() == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(4, base=9).tolist() == pytest.approx([1, 1 / 3])


@each("d", [-2, 0, 1, 7])
def test_widths_must_be_even(d):
    with pytest.raises(ValueError, match=f"the width must be even, got {d}"):
        frequencies(d)
    with pytest.raises(ValueError, match="sine-cosine pairs"):
        sinusoidal(3, d)


def test_rotation_needs_one_position_a_row():
    with pytest.raises(ValueError, match=r"4 rows need as many positions, got \(3,\)"):
        rotate(torch.zeros(2, 4, 6), torch.arange(3))
    with pytest.raises(ValueError, match=r"4 rows need as many positions, got \(5,\)"):
        rotate(torch.zeros(2, 4, 6), torch.arange(5))
    with pytest.raises(ValueError, match="must be even, got 5"):
        rotate(torch.zeros(4, 5), torch.arange(4))


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


@quick
@given(i=st.integers(0, 500), j=st.integers(0, 500), k=st.integers(-500, 500), seed=seeds)
def test_scores_of_rotated_vectors_depend_on_the_difference_alone(i, j, k, seed):
    q, key = draw(seed, 2, 1, 16)

    def score(i: int, j: int) -> torch.Tensor:
        return (rotate(q, torch.tensor([i])) * rotate(key, torch.tensor([j]))).sum()

    torch.testing.assert_close(score(i, j), score(i + k, j + k))
    if i != j:
        assert abs(score(i, j) - score(0, 0)) > 1e-9


@quick
@given(T=st.integers(1, 9), d=widths, seed=seeds)
def test_rotation_keeps_lengths_type_and_argument(T, d, seed):
    x = draw(seed, T, d)
    before = x.clone()
    positions = torch.arange(T) * 7
    turned = rotate(x, positions)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(x, before)
    assert torch.equal(turned[0], x[0])  # position 0 does not turn
    assert rotate(x.float(), positions).dtype == torch.float32
    torch.testing.assert_close(rotate(turned, -positions), x)


def test_rotating_a_sinusoid_moves_its_position():
    table = sinusoidal(60, 16)
    moved = rotate(table[20:40], torch.full((20,), 7))  # (sin, cos) turn the other way round
    torch.testing.assert_close(moved, table[13:33], atol=1e-5, rtol=0)


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


def test_the_base_sets_how_slowly_the_last_pair_turns():
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    turned = rotate(x, torch.tensor([1.0]), base=100.0)
    torch.testing.assert_close(turned[0, 2:], torch.tensor([math.cos(0.1), math.sin(0.1)]))


def test_pairs_that_are_none_are_told():
    with pytest.raises(ValueError, match="pairs must be one of"):
        rotate(torch.zeros(1, 2), torch.zeros(1), pairs="odd")
