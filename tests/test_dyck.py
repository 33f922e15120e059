"""Brackets: the generator against a plain parser, and two models that look at them differently."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attnlib.dyck import dyck, with_depth
from attnlib.faithfulness import jensen_shannon
from attnlib.training import fit, shuffled
from attnlib.transformer import Transformer, TransformerConfig

KINDS, DEPTH, LENGTH = 2, 3, 12


def parse(brackets):
    """Depth of each bracket and the innermost open kind after it, by a stack."""
    stack, depths, targets = [], [], []
    for bracket in brackets:
        kind, closes = divmod(bracket, 2)
        if closes:
            assert stack, "a bracket is closed that was never opened"
            depths.append(len(stack))
            assert stack.pop() == kind, "the wrong bracket is closed"
        else:
            stack.append(kind)
            depths.append(len(stack))
        targets.append(stack[-1] if stack else -1)
    return depths, targets


@settings(max_examples=30)
@given(
    length=st.integers(1, 20),
    kinds=st.integers(1, 4),
    depth=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_every_word_is_well_nested_to_its_depth(length, kinds, depth, seed):
    brackets, depths, targets = dyck(20, length, kinds, depth, seed)
    assert brackets.shape == depths.shape == targets.shape == (20, length)
    assert brackets.max() < 2 * kinds
    assert 1 <= depths.min() <= depths.max() <= depth
    for row, levels, goals in zip(
        brackets.tolist(), depths.tolist(), targets.tolist(), strict=True
    ):
        assert parse(row) == (levels, goals)
    ids = with_depth(brackets, depths, kinds)
    assert 0 <= ids.min() <= ids.max() < 2 * kinds * depth
    assert torch.equal(ids % (2 * kinds), brackets)


def test_words_differ_with_the_seed_and_use_everything():
    brackets, depths, _ = dyck(2000, LENGTH, KINDS, DEPTH)
    assert torch.equal(brackets, dyck(2000, LENGTH, KINDS, DEPTH)[0])
    assert not torch.equal(brackets, dyck(2000, LENGTH, KINDS, DEPTH, seed=1)[0])
    assert brackets.unique().tolist() == [0, 1, 2, 3]
    assert depths.unique().tolist() == [1, 2, 3]
    kinds = brackets[:, 0].bincount()
    assert (kinds[0] - kinds[2]).abs() < 150, "both kinds are as likely"
    with pytest.raises(ValueError, match="at least 1"):
        dyck(1, depth=0)


def closing_loss(model, batch):
    """Which bracket may be closed next? Positions where none is open do not count."""
    ids, targets = batch
    return F.cross_entropy(model(ids).mT, targets, ignore_index=-1)


def trained(attention):
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(2 * KINDS * DEPTH, 32, heads=1, d_ff=64, positions="none", bias=True)
    )
    layer = model.blocks[0].attention
    if attention != "free":  # the scores are decided before training, and stay so
        width = 0.0 if attention == "uniform" else 0.3
        for weight in (layer.W_Q, layer.W_K, layer.b_Q, layer.b_K):
            nn.init.normal_(weight, std=width).requires_grad_(False)
    brackets, depths, targets = dyck(4000, LENGTH, KINDS, DEPTH)
    batch = shuffled((with_depth(brackets, depths, KINDS), targets), 64)
    fit(model, batch, closing_loss, steps=500, lr=5e-3, progress=False)
    return model


@pytest.mark.claim(33)
@pytest.mark.slow
def test_models_of_equal_accuracy_look_at_different_brackets():
    brackets, depths, targets = dyck(1000, LENGTH, KINDS, DEPTH, seed=99)
    ids, counted = with_depth(brackets, depths, KINDS), targets >= 0
    maps, accuracies = [], []
    for attention in ("free", "uniform", "random"):
        model = trained(attention)
        right = model(ids)[..., :KINDS].argmax(-1) == targets
        accuracies.append(right[counted].float().mean().item())
        maps.append(torch.stack([model.trace(row).attention[0, 0] for row in ids[:100]]))
    assert min(accuracies) > 0.99, accuracies
    even = torch.ones(LENGTH, LENGTH).tril()
    torch.testing.assert_close(maps[1], (even / even.sum(-1, keepdim=True)).expand(100, -1, -1))
    for one, other in combinations(maps, 2):
        distance = jensen_shannon(one, other)[:, 4:].mean()
        assert distance > 0.05, "the same answers, other maps"
