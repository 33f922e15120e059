"""Gates on heads: their distribution, and what they do to a model."""

import pytest
import torch
from tiny import sentences, translator

from recipes.gates import (
    HIGH,
    LOW,
    TEMPERATURE,
    attention_layers,
    gate_edits,
    hard_concrete,
    p_open,
)


@pytest.mark.claim(69)
@pytest.mark.parametrize("log_a", [-3.0, -2.4, -1.0, 0.0, 0.7, 2.0])
def test_the_formula_of_an_open_gate_is_its_frequency(log_a):
    n = 200_000
    u = torch.rand(n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    a = torch.full((n,), log_a, dtype=torch.float64)
    p = p_open(a[0]).item()
    share = (hard_concrete(a, u) > 0).double().mean().item()
    error = (p * (1 - p) / n) ** 0.5
    assert abs(share - p) < 4 * error
    without_stretch = a[0].sigmoid().item()  # σ(log a) would be the wrong formula
    assert abs(share - without_stretch) > 10 * error


def test_gates_follow_their_definition_and_have_a_gradient():
    u, a = torch.tensor([0.3, 0.9, 0.01]), torch.tensor([0.2, -1.0, 0.4], requires_grad=True)
    s = 1 / (1 + torch.exp(-(torch.log(u / (1 - u)) + a) / TEMPERATURE))
    expected = torch.clamp((HIGH - LOW) * s + LOW, 0, 1)
    torch.testing.assert_close(hard_concrete(a, u), expected)
    assert 0 < hard_concrete(a, u)[0] < 1
    assert hard_concrete(a, u)[2] == 0
    (gradient,) = torch.autograd.grad(hard_concrete(a, u).sum() + p_open(a).sum(), a)
    assert (gradient != 0).all()
    quiet = hard_concrete(torch.tensor([-2.5, -2.3, 2.3, 2.5]))  # ln(.1 / 1.1) is −2.398
    assert quiet[0] == 0 < quiet[1]
    assert quiet[2] < 1 == quiet[3]


def test_layers_come_in_the_order_in_which_they_were_made():
    parts = "encoder.blocks.{}.attention", "decoder.blocks.{}.attention"
    encoder = [parts[0].format(i) for i in range(2)]
    decoder = [
        part.format(i) for i in range(2) for part in (parts[1], parts[1][:-9] + "cross_attention")
    ]
    assert attention_layers(translator()) == encoder + decoder


@pytest.mark.parametrize("value", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("row", range(6))
def test_a_gate_multiplies_what_one_head_writes(row, value):
    model, (source, target), gates = translator(), sentences(), torch.ones(6, 3).double()
    torch.testing.assert_close(
        model(source, target, gate_edits(model, gates)), model(source, target)
    )
    gates[row, 1] = value
    gated = model(source, target, gate_edits(model, gates))
    assert (gated - model(source, target)).abs().max() > 1e-4
    with torch.no_grad():
        model.get_parameter(f"{attention_layers(model)[row]}.W_O")[1] *= value
    torch.testing.assert_close(gated, model(source, target))


def test_gates_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"expected gates of shape \(6, 3\), got \(3, 6\)"):
        gate_edits(translator(), torch.ones(3, 6))
