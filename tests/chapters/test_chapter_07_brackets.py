"""Brackets of chapter 07: the generator against a plain parser, and three models that are right."""

import copy
from itertools import combinations

import numpy as np
import pytest
import torch
from chapter_code import definitions
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from torch import nn
from torch.nn import functional as F

KINDS, DEPTH, LENGTH = 2, 3, 12
CHAPTER = definitions(
    "07_is_attention_explanation",
    "dyck",
    "with_depth",
    "learned_from",
    "closing_loss",
    "learn_brackets",
    "widths",
)


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
    brackets, depths, targets = CHAPTER.dyck(20, length, kinds, depth, seed)
    assert brackets.shape == depths.shape == targets.shape == (20, length)
    assert brackets.max() < 2 * kinds
    assert 1 <= depths.min() <= depths.max() <= depth
    for row, levels, goals in zip(
        brackets.tolist(), depths.tolist(), targets.tolist(), strict=True
    ):
        assert parse(row) == (levels, goals)
    ids = CHAPTER.with_depth(brackets, depths, kinds)
    assert 0 <= ids.min() <= ids.max() < 2 * kinds * depth
    assert torch.equal(ids % (2 * kinds), brackets)
    assert torch.equal(ids // (2 * kinds), depths - 1)


def test_words_differ_with_the_seed_and_use_everything():
    brackets, depths, _ = CHAPTER.dyck(2000, LENGTH, KINDS, DEPTH)
    assert torch.equal(brackets, CHAPTER.dyck(2000, LENGTH, KINDS, DEPTH)[0])
    assert not torch.equal(brackets, CHAPTER.dyck(2000, LENGTH, KINDS, DEPTH, seed=1)[0])
    assert brackets.unique().tolist() == [0, 1, 2, 3]
    assert depths.unique().tolist() == [1, 2, 3]
    kinds = brackets[:, 0].bincount()
    assert (kinds[0] - kinds[2]).abs() < 150, "both kinds are as likely"
    second = (brackets[:, 1] % 2).float().mean()
    assert 0.45 < second < 0.55, "to open and to close are as likely"


def test_the_loss_counts_only_where_a_bracket_is_open():
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[0, -1, 1], [-1, 1, -1]])
    found = CHAPTER.closing_loss(lambda ids: logits, (None, targets))
    counted = [F.log_softmax(logits[i, t], 0)[targets[i, t]] for i, t in ((0, 0), (0, 2), (1, 1))]
    torch.testing.assert_close(found, -sum(counted) / 3)


# --- three models -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models():
    """The models of the chapter, trained as it trains them, once for all tests here."""
    return {name: CHAPTER.learn_brackets(width) for name, width in CHAPTER.widths.items()}


@pytest.fixture(scope="module")
def unseen():
    brackets, depths, closes = CHAPTER.dyck(1000, LENGTH, KINDS, DEPTH, seed=99)
    return CHAPTER.with_depth(brackets, depths, KINDS), closes


@torch.no_grad()
def right(model, unseen):
    ids, closes = unseen
    return (model(ids)[..., :KINDS].argmax(-1) == closes)[closes >= 0].float().mean().item()


@pytest.mark.claim(33)
@pytest.mark.slow
def test_models_of_equal_accuracy_look_at_different_brackets(models, unseen):
    ids, _ = unseen
    maps = {
        name: np.stack([model.trace(row).attention[0, 0].numpy() for row in ids[:100]])
        for name, model in models.items()
    }
    accuracies = {name: right(model, unseen) for name, model in models.items()}
    assert min(accuracies.values()) > 0.99, accuracies
    even = np.tril(np.ones((LENGTH, LENGTH))) / np.arange(1, LENGTH + 1)[:, None]
    assert maps["uniform"] == pytest.approx(np.broadcast_to(even, (100, LENGTH, LENGTH)), abs=1e-6)
    for one, other in combinations(maps, 2):
        distance = jensenshannon(maps[one][:, 4:], maps[other][:, 4:], axis=-1) ** 2
        assert np.nanmean(distance) > 0.05, f"{one} and {other}: the same answers, other maps"


@pytest.mark.slow
def test_frozen_scores_stay_as_they_were_drawn(models):
    for name, width in CHAPTER.widths.items():
        layer = models[name].blocks[0].attention
        for weight in (layer.W_Q, layer.W_K, layer.b_Q, layer.b_K):
            assert weight.requires_grad == (name == "free")
            if name != "free":
                assert weight.detach().square().mean().sqrt().item() == pytest.approx(
                    width, rel=0.25
                ), "of the width that it was drawn with"
        assert layer.W_V.requires_grad


@pytest.mark.slow
def test_without_what_attention_brings_none_of_them_is_right(models, unseen):
    """The control: the last bracket and its depth do not tell what closes next."""
    for model in models.values():
        blind = copy.deepcopy(model)
        for weight in (blind.blocks[0].attention.W_V, blind.blocks[0].attention.b_V):
            nn.init.zeros_(weight)
        assert right(blind, unseen) < 0.9
