"""Agreement, permutation, adversaries, deletion: identities, and independent computations."""

import itertools
import math

import pytest
import torch
from each import each
from erasing import falls
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.faithfulness import (
    LN2,
    RankCorrelation,
    jensen_shannon,
    kendall,
    permutation_shift,
    permute,
    random_scores,
    select,
    uniform,
)
from attnlib.explain.heads import interval
from attnlib.models.classifiers import AttentionClassifier
from attnlib.training.classification import Examples, classify_all, fit_classifier, predict

quick = settings(max_examples=40)
MASK = torch.arange(9) < torch.tensor([9, 6, 4, 2, 1])[:, None]


def distribution(seed, mask=MASK, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def linear(seed=0, mask=MASK, scale=1.5):
    """Votes and bias of a classifier whose logit is linear in the weights."""
    generator = torch.Generator().manual_seed(seed)
    votes = scale * torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    return votes, 0.3, lambda alpha: ((alpha * votes.to(alpha)).sum(-1) + 0.3).sigmoid()


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


def test_uniform_weights():
    assert uniform(MASK).sum(-1).tolist() == pytest.approx([1] * 5)
    assert uniform(MASK)[2].tolist() == [0.25] * 4 + [0] * 5
    assert (uniform(torch.zeros(1, 3, dtype=torch.bool)) == 0).all()
    assert torch.equal(uniform(MASK[2]), uniform(MASK)[2]), "a single text needs no batch"


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
    assert found.tau.dtype == found.p.dtype == torch.float64
    for i, length in enumerate(MASK.sum(1).tolist()):
        x, y = a[i, :length].tolist(), b[i, :length].tolist()
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert found.tau[i].item() == pytest.approx(tau_by_pairs(x, y))
        else:
            assert found.tau[i].isnan()


@pytest.mark.claim(30)
def test_perfect_opposite_and_unrelated():
    mask = torch.ones(300, 12, dtype=torch.bool)
    a, b = distribution(0, mask), distribution(1, mask)
    assert kendall(a, a.exp(), mask).tau.mean() == pytest.approx(1)
    assert kendall(a, -a, mask).tau.mean() == pytest.approx(-1)
    chance = kendall(a, b, mask)
    low, high = interval(chance.tau[:, None])
    assert low < 0 < high
    assert chance.significant() < 0.12
    assert kendall(a, a, mask).significant() == 1


def test_a_text_without_tau_does_not_count():
    nan = math.nan
    found = RankCorrelation(
        torch.tensor([0.5, nan, 0.1, -0.2, nan]), torch.tensor([0.01, nan, 0.5, 0.05, 0.0])
    )
    assert found.significant() == pytest.approx(2 / 3), "p ≤ .05, its edge included"
    assert found.significant(0.01) == pytest.approx(1 / 3)
    rows = found.take(torch.tensor([0, 4]))
    assert rows.tau[0] == 0.5
    assert rows.tau[1].isnan()
    assert rows.significant() == 1
    assert rows.p.tolist() == pytest.approx([0.01, 0.0])


def test_scores_of_other_texts_are_no_pairs():
    a = distribution(0)
    with pytest.raises(ValueError, match="shorter"):
        kendall(a, a[:3], MASK)


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


@pytest.mark.claim(31)
def test_the_shift_is_the_median_over_all_orders():
    mask = torch.ones(3, 4, dtype=torch.bool)
    _, _, predict_ = linear(0, mask)
    alpha = distribution(0, mask)
    orders = list(itertools.permutations(range(4)))
    every = torch.stack([(predict_(alpha[:, list(o)]) - predict_(alpha)).abs() for o in orders])
    found = permutation_shift(predict_, alpha, mask, count=3000)
    low, high = (every.quantile(q, 0) for q in (0.4, 0.6))
    assert ((low <= found) & (found <= high)).all()
    assert torch.equal(found, permutation_shift(predict_, alpha, mask, count=3000))
    flat = uniform(mask).double()
    assert permutation_shift(predict_, flat, mask, count=5).max() < 1e-12


@each("count", [1, 2, 7])
def test_as_many_orders_are_tried_as_asked(count):
    """The median is that of the orders that the prediction was asked for, one by one."""
    mask = torch.arange(12) < torch.tensor([12, 7])[:, None]
    alpha, seen = distribution(3, mask), []

    def first_weight(weights):
        seen.append(weights)
        return weights[:, 0]

    found = permutation_shift(first_weight, alpha, mask, count, seed=5)
    whole, *orders = seen
    assert torch.equal(whole, alpha)
    assert len(orders) == count
    moved = torch.stack([(order[:, 0] - alpha[:, 0]).abs() for order in orders])
    torch.testing.assert_close(found, moved.quantile(0.5, dim=0))
    again, other = (permutation_shift(first_weight, alpha, mask, count, seed) for seed in (5, 6))
    assert torch.equal(again, found)
    assert not torch.equal(other, found)


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


@pytest.mark.claim(29)
def test_informed_orders_beat_random_ones():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 20, (200, 8), generator=generator)
    labels = torch.randint(2, (200,), generator=generator)
    positions = torch.randint(8, (200,), generator=generator)
    ids[torch.arange(200), positions] = 3 + labels
    data = Examples(ids, ids > 0, labels.float())
    torch.manual_seed(0)
    model = AttentionClassifier(20, 12, 8, "average")
    fit_classifier(model, data, 15, lr=1e-2, progress=False)
    found, mask = classify_all(model, data), ids > 0
    informed, blind = found.attention, random_scores(mask)
    without, only = (
        [falls(predict(model), ids, mask, scores, only=only).mean() for scores in (informed, blind)]
        for only in (False, True)
    )
    assert without[0] > without[1] + 0.1
    assert only[0] < only[1] - 0.1


def test_random_scores_know_nothing_and_differ():
    mask = torch.arange(400) < torch.tensor([400, 300, 1])[:, None]
    scores = random_scores(mask)
    assert (scores[~mask] == 0).all()
    assert torch.equal(scores, random_scores(mask))
    assert not torch.equal(scores, random_scores(mask, seed=1))
    for row, length in ((0, 400), (1, 300)):
        drawn = scores[row, :length]
        assert len(drawn.unique()) > 0.99 * length, "no two tokens are tied"
        assert drawn.mean().item() == pytest.approx(0.5, abs=0.06)
        assert drawn.std().item() == pytest.approx(12**-0.5, abs=0.03), "uniform in 0 … 1"
    both = torch.stack([scores[0, :300], scores[1, :300]]).corrcoef()
    assert both[0, 1].abs() < 0.2, "every text has an order of its own"
