"""The adversary: what it promises, against grids and corners."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain.adversary import exact_adversary
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
    found = exact_adversary(votes, bias, alpha, MASK, epsilon)
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
    assert found.jsd[-1] < 1e-9, "one token has no other weights"


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


def test_where_no_corner_keeps_to_epsilon_the_weights_stay():
    """One word has the largest vote and all the weight: nothing else can match it."""
    alpha, votes = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[3.0, -1.0, 0.5]])
    found = exact_adversary(votes, 0.0, alpha, torch.ones(1, 3, dtype=torch.bool), epsilon=1e-3)
    assert found.weights[0, 0] > 0.98
    assert found.jsd < 0.02


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
    with pytest.raises(ValueError, match="same texts"):
        exact_adversary(votes[:3], bias, distribution(0), MASK)
