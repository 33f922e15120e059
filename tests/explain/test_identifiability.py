"""The algebra of identifiability: null spaces, other weights, bounds, and what a head can make."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain import identifiability as ident


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def values(d_s, d_v, d, seed=0):
    """T of random values and a random W_O, (d_s, d)."""
    return drawn(d_s, d_v, seed=seed) @ drawn(d_v, d, seed=seed + 1)


def weights(d_s, seed=0, sharpness=1.0):
    return (sharpness * drawn(d_s, d_s, seed=seed)).softmax(-1)


# -- null space --------------------------------------------------------------------------------


@pytest.mark.claim(50)
@settings(max_examples=30, deadline=None)
@given(st.integers(2, 30), st.integers(1, 12), st.integers(1, 12), st.integers(0, 5))
def test_what_the_null_space_holds_changes_neither_output_nor_sums(d_s, d_v, d, seed):
    T = values(d_s, d_v, d, seed)
    N = ident.null_space(T)
    assert N.shape == (d_s, d_s - int(ident.numerical_rank(ident.with_ones(T))))
    scale = T.abs().max()
    if N.numel():
        assert (N.T @ T).abs().max() < 1e-9 * scale
        assert N.sum(0).abs().max() < 1e-9
        assert torch.allclose(N.T @ N, torch.eye(N.shape[1]).double())


@pytest.mark.claim(50)
def test_nothing_else_leaves_the_output_alone():
    T = values(20, 8, 32)
    N, step = ident.null_space(T), drawn(20)
    outside = step - N @ (N.T @ step)
    assert N.shape[1] == 11
    assert (outside @ ident.with_ones(T)).abs().max() > 0.1


# -- the bound ---------------------------------------------------------------------------------

GRID = [(d_s, d_v, d) for d_s in (2, 5, 8, 9, 10, 25) for d_v in (1, 8, 24) for d in (4, 8, 32)]


@pytest.mark.claim(52)
@pytest.mark.parametrize(("d_s", "d_v", "d"), GRID)
def test_the_bound_is_reached_by_random_values_and_kept_by_repeated_ones(d_s, d_v, d):
    nullity = ident.null_space(values(d_s, d_v, d)).shape[1]
    assert nullity == max(0, d_s - min(d_v, d) - 1)
    rank = d_s - nullity
    assert rank == min(d_s, min(d_v, d) + 1)
    repeated = values(d_s, d_v, d)
    repeated[-1] = repeated[0]
    assert ident.null_space(repeated).shape[1] >= max(1, nullity)


@pytest.mark.claim(56)
def test_wide_values_leave_no_freedom_while_the_words_differ():
    added = [ident.null_space(values(n, 32, 32)).shape[1] for n in (5, 20, 32, 33, 34, 40)]
    concatenated = [ident.null_space(values(n, 8, 32)).shape[1] for n in (5, 20, 32)]
    assert added == [0, 0, 0, 0, 1, 7]
    assert concatenated == [0, 11, 23]
    T = values(20, 32, 32)
    T[17:] = T[:3]
    assert ident.null_space(T).shape[1] == 3


# -- other weights -----------------------------------------------------------------------------


@pytest.mark.claim(51)
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100), st.floats(0.5, 4))
def test_extreme_weights_are_weights_with_the_same_output(seed, sharpness):
    T, A = values(20, 8, 32, seed), weights(20, seed, sharpness)
    a, N = A[0], ident.null_space(T)
    goal = -torch.eye(20).double()[int(a.argmax())]
    b = ident.extreme_weights(a, N, goal)
    assert b.min() >= 0
    assert b.sum().item() == pytest.approx(1, abs=1e-9)
    assert torch.allclose(b @ T, a @ T, atol=1e-12, rtol=1e-12)
    assert goal @ b <= 0
    assert goal @ b > goal @ a + 1e-6 or a.max() < 1e-6  # it did move
    other = values(20, 8, 32, seed + 1000)
    assert not torch.allclose(b @ other, a @ other, atol=1e-6)


@pytest.mark.claim(51)
def test_extreme_weights_are_extreme():
    """No point of the same set found by chance goes farther."""
    T, a = values(12, 4, 8), weights(12)[0]
    N, goal = ident.null_space(T), torch.eye(12).double()[3]
    best = goal @ ident.extreme_weights(a, N, goal)
    for seed in range(200):
        step = N @ drawn(N.shape[1], seed=seed)
        share = (a / (-step).clamp_min(1e-12))[step < 0].min()
        assert goal @ (a + share * step) <= best + 1e-9


def test_what_a_solver_leaves_below_0_is_drawn_back_and_not_cut_off():
    """Cut off alone, [1.1, −0.1] would no longer have the output and the sum of the row."""
    row, beyond = torch.tensor([0.5, 0.5]), torch.tensor([1.1, -0.1])
    torch.testing.assert_close(ident._drawn_back(beyond, row), torch.tensor([1.0, 0.0]))


def test_without_a_null_space_there_is_nothing_else():
    T, a = values(6, 8, 32), weights(6)[0]
    N = ident.null_space(T)
    assert N.shape == (6, 0)
    assert torch.equal(ident.extreme_weights(a, N, drawn(6)), a)


# -- effective attention -----------------------------------------------------------------------


def test_effective_attention_keeps_output_and_sums_and_forgets_the_rest():
    T, A = torch.stack([values(20, 8, 32, s) for s in (0, 2)]), weights(20)
    found = ident.effective_attention(A, T)
    assert found.shape == (2, 20, 20)
    assert torch.allclose(found @ T, A @ T)
    assert torch.allclose(found.sum(-1), torch.ones(2, 20).double())
    N = ident.null_space(T[0])
    assert (found[0] @ N).abs().max() < 1e-9 < 0.1 < (A @ N).norm()
    moved = A + 0.01 * drawn(20, N.shape[1]) @ N.T
    assert torch.allclose(ident.effective_attention(moved, T[0]), found[0])


def test_effective_attention_of_a_short_text_is_attention():
    T, A = values(9, 8, 32), weights(9)
    assert torch.allclose(ident.effective_attention(A, T), A)


# -- what a head can make ----------------------------------------------------------------------


@pytest.mark.claim(54)
@settings(max_examples=20, deadline=None)
@given(st.integers(3, 20), st.integers(1, 10), st.integers(0, 50))
def test_the_log_rank_of_what_keys_of_some_width_make(n, d_k, seed):
    q, k = drawn(n, d_k, seed=seed), drawn(n, d_k, seed=seed + 1)
    A = (q @ k.T / d_k**0.5).softmax(-1)
    found = ident.log_singular_values(A)
    assert int((found > 1e-8 * found[0]).sum()) == min(d_k, n - 1)


def test_a_weight_of_zero_is_out_of_reach():
    with pytest.raises(ValueError, match="weights above 0"):
        ident.log_singular_values(torch.eye(3))
