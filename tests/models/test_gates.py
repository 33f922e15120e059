"""Gates on heads: their distribution, what they do to a model, and that closed is closed."""

import pytest
import torch
from each import each

from attnlib.models import Transformer, TransformerConfig, Translator
from attnlib.models.gates import (
    HIGH,
    LOW,
    TEMPERATURE,
    Gated,
    attention_layers,
    hard_concrete,
    p_open,
    scaled,
    with_gates,
)
from attnlib.models.seq2seq import translation_loss


def translator(seed=0):
    torch.manual_seed(seed)
    settings = {"d_model": 12, "heads": 3, "layers": 2, "d_ff": 16, "positions": "rotary"}
    return Translator(9, 8, **settings).double().eval()


def pair(seed=0):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 9, (4, 5), generator=generator)
    return source, torch.randint(3, 8, (4, 6), generator=generator)


@pytest.mark.claim(69)
@each("log_a", [-3.0, -2.4, -1.0, 0.0, 0.7, 2.0])
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


@each("value", [0.0, 0.5, 3.0])
def test_a_gate_multiplies_what_one_head_writes(value):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(7, 8, layers=1, heads=2, norm="none")).eval()
    ids, gates = torch.tensor([[1, 4, 2, 6]]), torch.tensor([[1.0, value]])
    (state,) = model.run(model.embed(ids))
    lost = (1 - value) * state.head_outputs[:, 1] @ model.W_U
    torch.testing.assert_close(with_gates(model, gates)(ids), model(ids) - lost)
    called = torch.func.functional_call(model, scaled(model, gates), ids)
    torch.testing.assert_close(called, model(ids) - lost)


def test_open_gates_change_nothing_and_the_model_stays_as_it_was():
    model, (source, target) = translator(), pair()
    before, gates = model(source, target), torch.ones(6, 3).double()
    torch.testing.assert_close(with_gates(model, gates)(source, target), before)
    gates[2, 1] = 0
    assert (with_gates(model, gates)(source, target) - before).abs().max() > 1e-4
    assert torch.equal(model(source, target), before)


def test_a_closed_head_does_not_come_back_in_training():
    gates = torch.ones(6, 3).double()
    gates[0, 2] = gates[3, 0] = 0
    model, rows = with_gates(translator(), gates), pair()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    before = model.encoder.blocks[0].attention.W_O.clone()
    for _ in range(5):
        optimizer.zero_grad()
        translation_loss(model, rows).backward()
        optimizer.step()
    after = model.encoder.blocks[0].attention.W_O
    assert (after[2] == 0).all()
    assert (after[:2] != before[:2]).all()
    cross = model.decoder.blocks[0].cross_attention
    assert (cross.W_O[0] == 0).all()
    assert (cross.W_V[0] == 0).all()


def test_noise_is_for_training_only_and_a_penalty_closes_gates():
    model, rows = Gated(translator()), pair()
    model.eval()
    assert torch.equal(model(*rows), model(*rows))
    torch.testing.assert_close(model(*rows), model.pruned()(*rows))
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model(*rows), model(*rows))
    optimizer = torch.optim.Adam([model.slow], lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        p_open(model.log_a).sum().backward()
        optimizer.step()
    assert (model.gates == 0).all()


def test_gates_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"expected gates of shape \(6, 3\), got \(3, 6\)"):
        scaled(translator(), torch.ones(3, 6))
