"""Agreement, permutation, adversaries, deletion: identities, and independent computations."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.adversary import adversarial_attention, exact_adversary
from attnlib.classifiers import AttentionClassifier
from attnlib.classify import Examples, fit_classifier, predict, read_all
from attnlib.faithfulness import (
    LN2,
    Agreement,
    deletion,
    jensen_shannon,
    kendall,
    medians_by,
    permutation_shift,
    permute,
    random_scores,
    select,
    uniform,
)

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
    (slope,) = torch.autograd.grad(jensen_shannon(p, torch.tensor([0.4, 0.6, 0.0])), p)
    assert slope.isfinite().all()


def test_uniform_weights():
    assert uniform(MASK).sum(-1).tolist() == pytest.approx([1] * 5)
    assert uniform(MASK)[2].tolist() == [0.25] * 4 + [0] * 5
    assert (uniform(torch.zeros(1, 3, dtype=torch.bool)) == 0).all()


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
@given(seed=st.integers(0, 999), inner=st.booleans())
def test_tau_is_counted_over_pairs(seed, inner):
    a, b = distribution(seed), distribution(seed + 1).round(decimals=1)  # b has ties
    found = kendall(a, b, MASK, inner)
    for i, length in enumerate(MASK.sum(1).tolist()):
        x, y = a[i, :length].tolist(), b[i, :length].tolist()
        x, y = (x[1:-1], y[1:-1]) if inner else (x, y)
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert found.tau[i].item() == pytest.approx(tau_by_pairs(x, y))
        else:
            assert found.tau[i].isnan()


@pytest.mark.claim(30)
def test_perfect_opposite_and_unrelated():
    mask = torch.ones(300, 12, dtype=torch.bool)
    a, b = distribution(0, mask), distribution(1, mask)
    assert kendall(a, a.exp(), mask).mean == pytest.approx(1)
    assert kendall(a, -a, mask).mean == pytest.approx(-1)
    chance = kendall(a, b, mask)
    low, high = chance.interval()
    assert low < 0 < high
    assert chance.significant() < 0.12
    assert kendall(a, a, mask).significant() == 1


@pytest.mark.claim(30)
def test_the_interval_is_that_of_the_mean():
    generator = torch.Generator().manual_seed(0)
    tau = 0.3 + 0.2 * torch.randn(800, generator=generator, dtype=torch.float64)
    tau[:20] = math.nan
    found = Agreement(tau, torch.full_like(tau, 0.01))
    low, high = found.interval(draws=2000)
    error = 1.96 * (tau[20:].std() / 780**0.5).item()  # the normal approximation
    assert low == pytest.approx(found.mean - error, abs=error / 5)
    assert high == pytest.approx(found.mean + error, abs=error / 5)
    assert found.interval(level=0.5)[0] > low
    assert found.interval() == found.interval()
    assert found.significant() == 1
    assert found.take(torch.arange(30)).tau.shape == (30,)
    with pytest.raises(ValueError, match="no text has a τ"):
        found.take(torch.arange(5)).interval()


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


def test_padding_in_front_cannot_be_permuted():
    with pytest.raises(ValueError, match="only at the end"):
        permute(torch.tensor([[0.0, 1.0]]), torch.tensor([[False, True]]))


def test_medians_by_bin():
    values, by = torch.arange(5.0), torch.tensor([0.0, 0.1, 0.5, 1.0, 0.6])
    (low, few), (none, zero), (high, many) = medians_by(values, by, (0, 0.3, 0.4, 1))
    assert (low, few, zero, high, many) == (0.5, 2, 0, 3.0, 3)
    assert math.isnan(none)


# --- adversaries ------------------------------------------------------------------------------


@pytest.mark.claim(31)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 999),
    epsilon=st.sampled_from([0.001, 0.01, 0.05, 0.3, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_adversary_respects_epsilon_and_ln_2(seed, epsilon, dtype):
    votes, bias, predict_ = linear(seed, scale=4.0)
    alpha = distribution(seed).to(dtype)
    searched = adversarial_attention(predict_, alpha, MASK, epsilon, starts=3, steps=30, seed=seed)
    exact = exact_adversary(votes, bias, alpha, MASK, epsilon)
    for found in (searched, exact):
        weights = found.weights
        assert ((predict_(weights) - predict_(alpha.to(weights))).abs() <= epsilon).all()
        assert (found.shift <= epsilon).all()
        assert (found.jsd <= LN2).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(5).to(weights))
        assert (weights >= 0).all()
        assert (weights[~MASK] == 0).all()
        torch.testing.assert_close(found.jsd, jensen_shannon(weights, alpha.to(weights)),
                                   atol=1e-6, rtol=0)  # fmt: skip
    assert (searched.jsd <= exact.jsd + 1e-6).all()
    assert exact.jsd[-1] < 1e-9, "one token has no other weights"


@pytest.mark.claim(31)
def test_the_exact_adversary_beats_a_fine_grid():
    mask = torch.ones(100, 3, dtype=torch.bool)
    votes, bias, predict_ = linear(5, mask)
    alpha = distribution(5, mask)
    n = 100
    grid = torch.tensor([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]) / n
    grid = grid.double()[:, None].expand(-1, 100, 3)
    allowed = (predict_(grid) - predict_(alpha)).abs() <= 0.05
    best = jensen_shannon(grid, alpha).masked_fill(~allowed, 0).amax(0)
    found = exact_adversary(votes, bias, alpha, mask)
    assert (found.jsd >= best - 1e-9).all()
    assert (found.jsd <= best + 0.08).all()
    assert (found.jsd - best).mean() < 0.01
    assert ((found.weights > 1e-12).sum(-1) <= 2).all(), "a corner has at most two tokens"


@pytest.mark.claim(31)
def test_the_exact_adversary_is_the_best_of_all_corners():
    mask = torch.ones(30, 7, dtype=torch.bool)
    votes, bias, predict_ = linear(6, mask)
    alpha = distribution(6, mask)
    found = exact_adversary(votes, bias, alpha, mask)
    for row in range(30):
        corners = list(torch.eye(7, dtype=torch.float64))
        y = predict_(alpha)[row]
        for i, j in itertools.combinations(range(7), 2):
            for edge in (y - 0.05, y + 0.05):
                logit = math.log(edge / (1 - edge)) if 0 < edge < 1 else math.inf
                share = (logit - bias - votes[row, j]) / (votes[row, i] - votes[row, j])
                if 0 <= share <= 1:
                    corners.append(share * corners[i] + (1 - share) * corners[j])
        every = torch.stack(corners)
        moved = ((every @ votes[row] + bias).sigmoid() - y).abs()
        best = jensen_shannon(every, alpha[row])[moved <= 0.05 + 1e-9].max()
        assert found.jsd[row].item() == pytest.approx(best.item(), abs=1e-6)


@pytest.mark.claim(31)
def test_the_search_comes_near_the_largest_jsd():
    mask = torch.arange(20) < torch.randint(8, 21, (60, 1), generator=torch.Generator())
    votes, bias, predict_ = linear(1, mask)
    alpha = distribution(1, mask)
    searched = adversarial_attention(predict_, alpha, mask, steps=200)
    exact = exact_adversary(votes, bias, alpha, mask)
    assert searched.jsd.mean() > 0.93 * exact.jsd.mean()
    assert searched.jsd.mean() > 0.45, "very different weights, the same prediction"
    assert (searched.shift <= 0.05).all()


def test_a_row_is_searched_alike_alone_and_in_a_batch():
    votes, _, predict_ = linear(2)
    alpha = distribution(2)
    found = adversarial_attention(predict_, alpha, MASK, starts=8, steps=150)
    for i, length in enumerate(MASK.sum(1).tolist()):
        alone = adversarial_attention(
            lambda a, i=i, n=length: ((a * votes[i, :n]).sum(-1) + 0.3).sigmoid(),
            alpha[i : i + 1, :length], MASK[i : i + 1, :length], starts=8, steps=150,
        )  # fmt: skip
        assert alone.jsd.item() == pytest.approx(found.jsd[i].item(), abs=0.05)


def test_the_path_never_falls_and_never_leaves_epsilon():
    _, _, predict_ = linear(3)
    alpha = distribution(3)
    found = adversarial_attention(predict_, alpha, MASK, steps=60, keep=(0, 7, 30, 60))
    assert found.steps == (0, 7, 30, 60)
    assert found.path.shape == (4, 5, 9)
    distances = jensen_shannon(found.path, alpha)
    assert (distances.diff(dim=0) >= 0).all()
    assert ((predict_(found.path) - predict_(alpha)).abs() <= 0.05).all()
    torch.testing.assert_close(found.path[-1], found.weights)


def test_impossible_searches_are_refused():
    _, _, predict_ = linear()
    with pytest.raises(ValueError, match="ε ≥ 0"):
        adversarial_attention(predict_, distribution(0), MASK, epsilon=-0.1)


def test_where_nothing_may_move_the_weights_stay():
    _, _, predict_ = linear(7)
    alpha = distribution(7)
    found = adversarial_attention(predict_, alpha, MASK, epsilon=0.0, steps=10)
    assert torch.equal(found.weights, alpha)
    assert (found.jsd == 0).all()
    assert (found.shift == 0).all()


# --- deletion ---------------------------------------------------------------------------------

IDS = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 0, 0, 0]])


def count_of_four(ids, mask):
    """ŷ is high while word 4 is in the text."""
    return torch.where((ids == 4).any(1), 0.9, 0.6)


def test_selecting_moves_tokens_together():
    kept = torch.tensor([[True, False, True, True], [False, True, True, True], [True] * 4])
    ids, mask = select(IDS, IDS != 0, kept)
    assert ids.tolist() == [[3, 5, 6], [8, 0, 0], [9, 0, 0]]
    assert torch.equal(mask, ids != 0)


def test_the_word_that_counts_is_found_by_deletion():
    mask = IDS != 0
    good, bad = (IDS == 4).float(), -(IDS == 4).float()
    results = [
        deletion(count_of_four, IDS[:1], mask[:1], s[:1], fractions=(0.25, 0.5))
        for s in (good, bad)
    ]
    assert results[0].whole == pytest.approx(0.9)
    assert results[0].comprehensiveness == pytest.approx(0.3)
    assert results[0].sufficiency == pytest.approx(0)
    assert results[1].comprehensiveness == pytest.approx(0)
    assert results[1].sufficiency == pytest.approx(0.3)


def test_a_negative_text_counts_its_own_class_and_a_token_stays():
    seen = []

    def negative(ids, mask):
        seen.append(mask.sum(1))
        return torch.full((len(ids),), 0.2)

    found = deletion(negative, IDS, IDS != 0, random_scores(IDS != 0), fractions=(0.5, 1.0))
    assert found.whole == pytest.approx(0.8)
    assert torch.stack(seen).min() == 1
    assert seen[1].tolist() == [2, 1, 1]
    assert seen[3].tolist() == [1, 1, 1]


@pytest.mark.claim(29)
def test_informed_orders_beat_random_ones():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 20, (200, 8), generator=generator)
    labels = torch.randint(2, (200,), generator=generator)
    places = torch.randint(8, (200,), generator=generator)
    ids[torch.arange(200), places] = 3 + labels
    data = Examples(ids, ids > 0, labels.float())
    torch.manual_seed(0)
    model = AttentionClassifier(20, 12, 8, "average")
    fit_classifier(model, data, 15, lr=1e-2, progress=False)
    found, mask = read_all(model, data), ids > 0
    informed = deletion(predict(model), ids, mask, found.attention, (0.1, 0.25))
    blind = deletion(predict(model), ids, mask, random_scores(mask), (0.1, 0.25))
    assert informed.comprehensiveness > blind.comprehensiveness + 0.1
    assert informed.sufficiency < blind.sufficiency - 0.1
