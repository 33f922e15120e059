"""Gates that are learned, and heads that are gone for good."""

import torch
from tiny import sentences, translator

from attnlib.models.seq2seq import translation_loss
from recipes.gates import gate_edits, p_open
from recipes.pruning import Gated, with_gates


def test_a_copy_with_gates_does_what_the_edits_do_and_the_model_stays_as_it_was():
    model, rows, gates = translator(), sentences(), torch.ones(6, 3).double()
    before = model(*rows)
    torch.testing.assert_close(with_gates(model, gates)(*rows), before)
    gates[2, 1], gates[3, 0], gates[5, 2] = 0, 0.4, 3
    expected = model(*rows, gate_edits(model, gates))
    torch.testing.assert_close(with_gates(model, gates)(*rows), expected)
    assert (expected - before).abs().max() > 1e-4
    assert torch.equal(model(*rows), before)


def test_a_closed_head_does_not_come_back_in_training():
    gates = torch.ones(6, 3).double()
    gates[0, 2] = gates[3, 0] = 0
    model, rows = with_gates(translator(), gates), sentences()
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
    model, rows = Gated(translator()), sentences()
    model.eval()
    assert torch.equal(model(*rows), model(*rows))
    torch.testing.assert_close(model(*rows), with_gates(model.model, model.gates)(*rows))
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model(*rows), model(*rows))
    optimizer = torch.optim.Adam([model.slow], lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        p_open(model.log_a).sum().backward()
        optimizer.step()
    assert (model.gates == 0).all()
