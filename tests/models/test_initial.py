"""How the small models' weights begin: evenly within ±1/√width, and with what each width is."""

import pytest
import torch

from attnlib.models import Elman, HistogramModel, NeuralNgram, Recurrent, ZeroLayer


@pytest.mark.parametrize(
    ("build", "widths"),
    [
        (lambda: ZeroLayer(50, 16), {"W_U": 16}),
        (lambda: NeuralNgram(50, 4, 16, 25), {"W_H": 3 * 16, "W_U": 25}),
        (lambda: Elman(50, 16, 25), {"W_x": 25, "W_U": 25}),
        (lambda: Recurrent(50, 16, 25), {"W_U": 25}),
        (
            lambda: HistogramModel(d_model=36, d_hidden=49),
            {"W_Q": 36, "W_K": 36, "W_V": 36, "W_1": 36, "b_1": 36, "W_2": 49},
        ),
    ],
)
def test_weights_fill_their_range_evenly(build, widths):
    torch.manual_seed(0)
    model = build()
    for name, width in widths.items():
        share = getattr(model, name).detach() * width**0.5
        assert 1 - 20 / share.numel() < share.abs().max() <= 1, name
        assert abs(share.mean()) < 4 * (1 / 3 / share.numel()) ** 0.5, name
        assert share.square().mean() == pytest.approx(1 / 3, abs=0.06), name
