"""Agreement, permutation, deletion: identities, and independent computations."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.faithfulness import (
    LN2,
    jensen_shannon,
    kendall,
    permute,
    random_scores,
    select,
)
from attnlib.explain.heads import interval

quick = settings(max_examples=40)
MASK = torch.arange(9) < torch.tensor([9, 6, 4, 2, 1])[:, None]


def distribution(seed, mask=MASK, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


# --- distances --------------------------------------------------------------------------------


@pytest.mark.claim(31)
@quick
@given(seed=st.integers(0, 999), sharpness=st.sampled_from([0.1, 1.0, 10.0, 200.0]))
def test_jsd_lies_between_0_and_ln_2(seed, sharpness):
    p, q = distribution(seed, sharpness=sharpness), distribution(seed + 1, sharpness=sharpness)
    distance = jensen_shannon(p, q)
    assert (distance >= 0).all()
    assert (distance <= LN2).all()
    torch.testing.assert_close(distance, jensen_shannon(q, p))
    assert (jensen_shannon(p, p) == 0).all()
    m = (p + q) / 2
    entropy = lambda r: -torch.xlogy(r, r).sum(-1)  # noqa: E731
    torch.testing.assert_close(distance, entropy(m) - entropy(p) / 2 - entropy(q) / 2)


def test_jsd_is_ln_2_apart_and_has_a_gradient_at_0():
    p, q = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.5, 0.5])
    assert jensen_shannon(p, q).item() == pytest.approx(math.log(2))
    p.requires_grad_()
    near = distribution(0, torch.ones(500, 9, dtype=torch.bool)).float()
    moved = near + 1e-7 * torch.randn(near.shape, generator=torch.Generator().manual_seed(0))
    assert (jensen_shannon(near, moved) >= 0).all(), "rounding makes no distance negative"
    (slope,) = torch.autograd.grad(jensen_shannon(p, torch.tensor([0.4, 0.6, 0.0])), p)
    assert slope.isfinite().all()


# --- Kendall's τ ------------------------------------------------------------------------------


def tau_by_pairs(x, y):
    """τ-b by its definition: all pairs of tokens, one by one."""
    sign = lambda a: (a > 0) - (a < 0)  # noqa: E731
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = [(sign(x[i] - x[j]), sign(y[i] - y[j])) for i, j in pairs]
    same = sum(a * b for a, b in signs)
    tied = math.prod(sum(s[k] != 0 for s in signs) for k in (0, 1))
    return same / tied**0.5


@pytest.mark.claim(30)
@quick
@given(seed=st.integers(0, 999))
def test_tau_is_counted_over_pairs(seed):
    a, b = distribution(seed), distribution(seed + 1).round(decimals=1)  # b has ties
    found = kendall(a, b, MASK)
    for i, length in enumerate(MASK.sum(1).tolist()):
        x, y = a[i, :length].tolist(), b[i, :length].tolist()
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert found[i].item() == pytest.approx(tau_by_pairs(x, y), abs=1e-6)
        else:
            assert found[i].isnan()


@pytest.mark.claim(30)
def test_perfect_opposite_and_unrelated():
    mask = torch.ones(300, 12, dtype=torch.bool)
    a, b = distribution(0, mask), distribution(1, mask)
    assert kendall(a, a.exp(), mask).mean() == pytest.approx(1)
    assert kendall(a, -a, mask).mean() == pytest.approx(-1)
    low, high = interval(kendall(a, b, mask))
    assert low < 0 < high


# --- permutation ------------------------------------------------------------------------------


@pytest.mark.claim(31)
@quick
@given(seed=st.integers(0, 999))
def test_a_permutation_keeps_the_multiset_and_the_padding(seed):
    alpha = distribution(seed)
    found = permute(alpha, MASK, torch.Generator().manual_seed(seed))
    torch.testing.assert_close(found.sort(-1).values, alpha.sort(-1).values, atol=0, rtol=0)
    assert (found[~MASK] == 0).all()


def test_every_order_is_as_likely():
    alpha = torch.tensor([[0.1, 0.2, 0.7, 0.0]])
    mask = alpha > 0
    generator = torch.Generator().manual_seed(0)
    many = permute(alpha.expand(6000, 4), mask.expand(6000, 4), generator)
    orders, counts = many.unique(dim=0, return_counts=True)
    assert len(orders) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5  # χ², 5 degrees of freedom, p = .001


def test_padding_in_front_cannot_be_permuted():
    with pytest.raises(ValueError, match="only at the end"):
        permute(torch.tensor([[0.0, 1.0]]), torch.tensor([[False, True]]))


# --- deletion ---------------------------------------------------------------------------------

IDS = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 0, 0, 0]])


def test_selecting_moves_tokens_together():
    kept = torch.tensor([[True, False, True, True], [False, True, True, True], [True] * 4])
    ids, mask = select(IDS, IDS != 0, kept)
    assert ids.tolist() == [[3, 5, 6], [8, 0, 0], [9, 0, 0]]
    assert torch.equal(mask, ids != 0)


def test_random_scores_know_nothing():
    mask = torch.arange(400) < torch.tensor([400, 300, 1])[:, None]
    scores = random_scores(mask)
    assert (scores[~mask] == 0).all()
    assert torch.equal(scores, random_scores(mask))
    assert not torch.equal(scores, random_scores(mask, seed=1))
    assert len(scores[0].unique()) > 396, "hardly two tokens are tied"
    both = torch.stack([scores[0, :300], scores[1, :300]]).corrcoef()
    assert both[0, 1].abs() < 0.2, "every text has an order of its own"
