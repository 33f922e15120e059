"""Adversaries: what they promise, against grids, corners and a model that is linear."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.adversary import (
    _project_to_epsilon,
    _random_logits,
    adversarial_attention,
    exact_adversary,
)
from attnlib.explain.faithfulness import LN2, jensen_shannon

MASK = torch.arange(9) < torch.tensor([9, 6, 4, 2, 1])[:, None]


def distribution(seed, mask=MASK):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def linear(seed=0, mask=MASK, scale=1.5):
    """Votes and bias of a classifier whose logit is linear in the weights."""
    generator = torch.Generator().manual_seed(seed)
    votes = scale * torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    return votes, 0.3, lambda alpha: ((alpha * votes.to(alpha)).sum(-1) + 0.3).sigmoid()


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
        torch.testing.assert_close(
            found.jsd, jensen_shannon(weights, alpha.to(weights)), atol=1e-6, rtol=0
        )
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
            alpha[i : i + 1, :length],
            MASK[i : i + 1, :length],
            starts=8,
            steps=150,
        )
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


def test_the_search_begins_between_nearly_flat_and_nearly_one_token():
    alpha = torch.zeros(40, 100, dtype=torch.float64)
    logits = _random_logits(alpha, 4, seed=3)
    assert logits.shape == (4, 40, 100)
    assert logits.dtype == torch.float64
    torch.testing.assert_close(
        logits.std((1, 2)), torch.tensor([1.0, 2, 3, 4]).double(), atol=0, rtol=0.05
    )
    assert torch.equal(logits, _random_logits(alpha, 4, seed=3))
    assert not torch.equal(logits, _random_logits(alpha, 4, seed=4))
    assert logits[0].corrcoef().fill_diagonal_(0).abs().max() < 0.5, "each text has its own start"


def test_weights_beyond_epsilon_are_drawn_back_by_eight_halvings():
    """The share of the way that a linear ŷ allows, rounded down to 1/256."""
    votes = torch.tensor([0.2, 1.2])
    alpha, weights = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 1.0]], [[0.9, 0.1]]])
    for epsilon in (0.05, 0.3, 0.77):
        drawn = _project_to_epsilon(lambda a: a @ votes, weights, alpha, alpha @ votes, epsilon)
        share = math.floor(256 * epsilon * (1 - 1e-4)) / 256
        assert drawn[0].tolist() == [[pytest.approx(1 - share), pytest.approx(share)]]
        if epsilon > 0.1:
            assert torch.equal(drawn[1], weights[1]), "what keeps to ε stays, bit for bit"


def test_every_tenth_step_the_last_one_and_those_to_keep_are_looked_at():
    alpha, seen = distribution(0), []

    def recorded(weights):
        if not torch.is_grad_enabled():
            seen.append(weights)
        return weights[..., 0] * 0

    found = adversarial_attention(recorded, alpha, MASK, starts=2, steps=31, keep=(7, 21))
    assert len(seen) == 7 + 2, "at 0, 7, 10, 20, 21, 30 and 31, then the best one twice"
    first = _random_logits(alpha, 2, 0).masked_fill(~MASK, -torch.inf).softmax(-1)
    assert torch.equal(seen[0], first), "before any step"
    assert found.path.shape == (2, 5, 9)
    assert found.steps == (7, 21)


def test_a_search_of_one_start_and_one_step_is_a_search():
    votes, bias, predict_ = linear()
    alpha = distribution(0)
    found = adversarial_attention(predict_, alpha, MASK, starts=1, steps=1)
    assert found.path.shape == exact_adversary(votes, bias, alpha, MASK).path.shape == (0, 5, 9)
    assert found.steps == exact_adversary(votes, bias, alpha, MASK).steps == ()
    assert (found.jsd[:4] > 0).all()
    for wrong in ({"starts": 0}, {"steps": 0}):
        with pytest.raises(ValueError, match="starts and steps ≥ 1"):
            adversarial_attention(predict_, alpha, MASK, **wrong)


def test_the_exact_adversary_takes_whole_votes_and_one_vote_for_all():
    alpha = torch.tensor([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]).double()
    votes = torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]).double()
    found = exact_adversary(votes, 0.0, alpha, torch.ones(2, 3, dtype=torch.bool), epsilon=0.01)
    share = found.weights[0, 2]  # of the vote 2; Σ α v = 1.1 lies between 0 and 2
    edges = torch.tensor([-0.01, 0.01]).add(torch.tensor(1.1).sigmoid()).logit()
    assert found.weights[0, 1] == 0
    assert (2 * share - edges).abs().min() < 1e-5
    assert found.weights[1].tolist() == [1, 0, 0], "the least attended of words that vote alike"


def test_votes_of_other_texts_are_refused():
    votes, bias, _ = linear()
    with pytest.raises(ValueError, match="longer"):
        exact_adversary(votes[:3], bias, distribution(0), MASK)
