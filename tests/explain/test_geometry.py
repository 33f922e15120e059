"""Cosines inside a text, entropies of rows, cosines by class: against loops and known answers."""

import math

import pytest
import torch
from torch.distributions import Categorical
from torch.nn.functional import cosine_similarity

from attnlib.explain.geometry import class_cosines, mean_cosine, row_entropy

DRAW = torch.Generator().manual_seed(0)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=DRAW, dtype=torch.float64)


def looped(vectors: torch.Tensor) -> float:
    """The definition: the mean over all pairs i < j."""
    n = len(vectors)
    pairs = [cosine_similarity(vectors[i], vectors[j], 0) for i in range(n) for j in range(i)]
    return torch.stack(pairs).mean().item()


@pytest.mark.claim(80)
@pytest.mark.parametrize("n", [2, 3, 17])
def test_mean_cosine_is_the_double_loop(n: int) -> None:
    vectors = random(4, n, 5) * torch.arange(1, n + 1)[:, None]  # of different lengths
    assert mean_cosine(vectors).tolist() == pytest.approx([looped(part) for part in vectors])
    lengthened = mean_cosine(vectors * random(4, n, 1).exp())
    assert torch.allclose(lengthened, mean_cosine(vectors))  # only directions count
    assert not torch.allclose(mean_cosine(vectors + 1), mean_cosine(vectors), atol=0.05)


@pytest.mark.claim(80)
@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_least_mean_cosine_is_that_of_a_simplex(n: int) -> None:
    simplex = torch.eye(n, dtype=torch.float64) - 1 / n
    assert mean_cosine(simplex).item() == pytest.approx(-1 / (n - 1))
    assert (mean_cosine(random(200, n, 3)) >= -1 / (n - 1) - 1e-9).all()


def test_padding_has_no_part_in_a_mean_cosine() -> None:
    vectors, mask = random(2, 6, 4), torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    expected = [looped(vectors[0]), looped(vectors[1, :3])]
    assert mean_cosine(vectors, mask).tolist() == pytest.approx(expected)
    vectors[1, 3:] = 1e6
    assert mean_cosine(vectors, mask).tolist() == pytest.approx(expected)


def test_one_vector_has_no_pairs_and_zero_no_direction() -> None:
    assert mean_cosine(random(1, 3)).isnan()
    with_zero = torch.cat([random(1, 3).expand(2, 3), torch.zeros(1, 3, dtype=torch.float64)])
    assert mean_cosine(with_zero).item() == pytest.approx(1 / 3)


def test_row_entropy_is_torchs_as_a_share_of_the_most() -> None:
    weights = random(3, 7, 7).softmax(-1)
    rows = Categorical(weights).entropy() / math.log(7)
    assert row_entropy(weights).flatten().tolist() == pytest.approx(rows.flatten().tolist())
    assert row_entropy(torch.full((5,), 0.2)).item() == pytest.approx(1)
    assert row_entropy(torch.eye(5)).tolist() == pytest.approx([0] * 5, abs=1e-6)


def test_padding_has_no_part_in_an_entropy() -> None:
    weights = torch.zeros(2, 5, 5, dtype=torch.float64)
    weights[0, :, :3], weights[1] = random(5, 3).softmax(-1), random(5, 5).softmax(-1)
    found = row_entropy(weights, torch.tensor([[3], [5]]))
    assert torch.allclose(found[0], row_entropy(weights[0, :, :3]))
    assert torch.allclose(found[1], row_entropy(weights[1]))
    assert not torch.allclose(found[0], row_entropy(weights[0]), atol=0.05)
    assert row_entropy(torch.ones(1, 1)).item() == 0


def test_a_weight_of_zero_has_a_finite_slope() -> None:
    scores = random(4, 4).masked_fill(~torch.ones(4, 4).tril().bool(), -torch.inf).requires_grad_()
    row_entropy(scores.softmax(-1)).mean().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert scores.grad.abs().sum() > 0


def test_class_cosines_are_means_over_pairs() -> None:
    vectors, labels = random(9, 4), torch.tensor([0, 0, 1, 1, 1, 0, 1, 0, 1])
    within, between = class_cosines(vectors, labels)
    groups = [vectors[labels == label] for label in (0, 1)]
    assert within.item() == pytest.approx(sum(looped(group) for group in groups) / 2)
    pairs = [cosine_similarity(a, b, 0) for a in groups[0] for b in groups[1]]
    assert between.item() == pytest.approx(torch.stack(pairs).mean().item())
    same = class_cosines(vectors, torch.arange(9) % 3)  # more than two classes
    assert all(value.isfinite() for value in same)
