"""How weights begin: the range that each model says, all of it, and the same for the same seed."""

import pytest
import torch

from attnlib.models import Elman, HistogramModel, NeuralNgram, Recurrent, ZeroLayer
from attnlib.models.initial import uniform


def fills(weight, bound):
    """Whether numbers lie evenly within ±bound: none beyond, some near both ends, mean at 0."""
    spread = weight.detach() / bound
    near = 20 / weight.numel()
    assert spread.abs().max() <= 1
    assert spread.max() > 1 - near
    assert spread.min() < near - 1
    assert abs(spread.mean()) < 4 * (1 / 3 / weight.numel()) ** 0.5
    assert spread.square().mean() == pytest.approx(1 / 3, abs=0.05)


def test_uniform_fills_its_range():
    torch.manual_seed(0)
    weight = uniform(30, 40, 5, width=9)
    assert isinstance(weight, torch.nn.Parameter)
    assert weight.shape == (30, 40, 5)
    fills(weight, 1 / 3)
    torch.manual_seed(0)
    assert torch.equal(uniform(30, 40, 5, width=9), weight)


def test_each_model_begins_as_it_says():
    torch.manual_seed(0)
    fills(ZeroLayer(50, 16).W_U, 16**-0.5)
    ngram = NeuralNgram(50, 4, 16, 25)
    fills(ngram.W_H, (3 * 16) ** -0.5)
    fills(ngram.W_U, 25**-0.5)
    elman = Elman(50, 16, 25)
    fills(elman.W_x, 25**-0.5)
    fills(elman.W_U, 25**-0.5)
    fills(Recurrent(50, 16, 25).W_U, 25**-0.5)
    counter = HistogramModel(d_model=36, d_hidden=49)
    for name in ("W_Q", "W_K", "W_V", "W_1", "b_1"):
        fills(getattr(counter, name), 1 / 6)
    fills(counter.W_2, 1 / 7)
