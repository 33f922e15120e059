"""The solvable model of chapter 08: its own functions against the definition, and the crossing."""

import pytest
import torch
from chapter_code import definitions

CHAPTER = definitions("08_histogram_task", "A", "two_teachers", "descend")
A = torch.tensor([[0.6, 0.4], [0.4, 0.6]])


def starts(hidden):
    """A positional and a semantic student, (draws, d, 2)."""
    return torch.cat([torch.ones_like(hidden) / hidden.shape[1] ** 0.5, hidden], -1)


def loss_of(x, y, Q):
    """Σ (ŷ − y)² / 2d + 0.01 Q² / 2 of one student, as the definition says, for one draw."""
    q = x @ Q / len(Q) ** 0.5
    student = (q[:, :, None] * q[:, None]).softmax(-1) @ x
    return (student - y).square().sum() / (2 * len(Q)) + 0.005 * Q.square().sum()


def test_the_teachers_are_those_of_the_text():
    x, y, hidden = CHAPTER.two_teachers(n=40, d=30, draws=2, seed=1)
    place = torch.ones(30) / 30**0.5
    for draw in range(2):
        noise = x[draw] - torch.stack([place, -place])
        assert noise.std().item() == pytest.approx(0.5, abs=0.05)
        score = noise @ hidden[draw, :, 0] / 30**0.5
        by_content = (score[:, :, None] * score[:, None]).softmax(-1) @ noise
        torch.testing.assert_close(y[draw], 0.7 * by_content + 0.3 * A @ noise)


def test_the_descent_is_that_of_the_definition():
    """A few steps with the framework's gradient of the loss that was not expanded."""
    x, y, hidden = CHAPTER.two_teachers(n=30, d=20, draws=2, seed=2)
    ends, losses = CHAPTER.descend(x, y, starts(hidden), steps=5)
    for draw in range(2):
        for branch in range(2):
            Q = starts(hidden)[draw, :, branch].clone().requires_grad_()
            optimizer = torch.optim.SGD([Q], lr=0.15)
            for _ in range(5):
                optimizer.zero_grad()
                loss = loss_of(x[draw], y[draw], Q)
                loss.backward()
                optimizer.step()
            torch.testing.assert_close(ends[draw, :, branch], Q.detach(), atol=1e-4, rtol=0)
            torch.testing.assert_close(losses[draw, branch], loss.detach(), atol=1e-4, rtol=0)


@pytest.mark.claim(86)
def test_the_losses_of_the_two_branches_cross_as_alpha_grows():
    """With little data the positional student fits better, with much the semantic one."""
    gaps = {}
    for alpha in (0.5, 3.0):
        x, y, hidden = CHAPTER.two_teachers(int(alpha * 100), 100, draws=3)
        positional, semantic = CHAPTER.descend(x, y, starts(hidden), steps=500)[1].T
        gaps[alpha] = positional - semantic
    assert (gaps[0.5] < 0).all()
    assert gaps[0.5].mean() < -0.02
    assert (gaps[3.0] > 0).all()
    assert gaps[3.0].mean() > 0.1
