"""The side road 08_brackets: the generator against a plain parser, and what small models do."""

import copy

import numpy as np
import pytest
import torch
from chapter_code import definitions
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from torch.nn import functional as F

KINDS, DEPTH, LENGTH = 2, 3, 12
CHAPTER = definitions(
    "more/08_brackets",
    *("dyck", "with_depth", "Bracketeers", "kinds_of", "names", "score_table", "closing_loss"),
    *("learn_brackets", "deciding", "bracket_facts"),
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
    logits = torch.randn(1, 2, 3, 2, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[0, -1, 1], [-1, 1, -1]])
    found = CHAPTER.closing_loss(lambda ids: (logits.expand(3, -1, -1, -1), None), (None, targets))
    counted = [
        F.log_softmax(logits[0, i, t], 0)[targets[i, t]] for i, t in ((0, 0), (0, 2), (1, 1))
    ]
    torch.testing.assert_close(found, -sum(counted))  # 3 models


def test_the_deciding_bracket_is_the_last_that_is_open():
    brackets, _, closes = CHAPTER.dyck(50, LENGTH, KINDS, DEPTH, seed=3)
    positions = CHAPTER.deciding(brackets)
    assert ((positions < 0) == (closes < 0)).all()
    for row, places, goals in zip(brackets, positions, closes, strict=True):
        for t in range(LENGTH):
            if places[t] >= 0:
                assert row[places[t]] == 2 * goals[t], "it opens the kind that closes next"
                assert places[t] <= t


def test_one_model_of_many_is_that_model_alone():
    """They share nothing, and none sees what comes after a bracket."""
    torch.manual_seed(0)
    tables = torch.randn(3, 12, 12)
    model = CHAPTER.Bracketeers(tables, torch.tensor([1.0, 0.0, 0.0]))
    ids = CHAPTER.with_depth(*CHAPTER.dyck(4, LENGTH, KINDS, DEPTH)[:2], KINDS)
    logits, A = model(ids)
    torch.testing.assert_close(A.sum(-1), torch.ones(A.shape[:-1]))
    assert (A.triu(1) == 0).all()
    torch.testing.assert_close(model(ids[:, :7])[0], logits[:, :, :7])
    x = model.W_E[1][ids]
    x = x + A[1] @ (x @ model.W_V[1])
    x = x + (x @ model.W_1[1]).relu() @ model.W_2[1]
    torch.testing.assert_close(logits[1], x @ model.W_U[1])


# --- the models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names():
    """Two models of each kind at most: so all models get other first weights than the chapter's."""
    return [name for name in CHAPTER.names if name[1] < 2]


@pytest.fixture(scope="module")
def model(names):
    """Trained as the chapter trains its models, half as long."""
    return CHAPTER.learn_brackets(names, steps=150)


@pytest.fixture(scope="module")
def which(names):
    return {kind: [i for i, n in enumerate(names) if n[0] == kind] for kind in CHAPTER.kinds_of}


def distances(A, one, other):
    """Mean JSD of every pair of models, one of each kind, by scipy."""
    maps = A[:, :60].numpy()
    return [
        np.nanmean(jensenshannon(maps[i][:, 4:], maps[j][:, 4:], axis=-1) ** 2)
        for i in one
        for j in other
        if i < j
    ]


@pytest.mark.claim(33)
@pytest.mark.slow
def test_models_of_equal_accuracy_look_at_different_brackets_as_they_did_before(model, which):
    """The controls: their own starting tables, frozen, and models that start from equal scores."""
    right, A, _ = CHAPTER.bracket_facts(model, LENGTH)
    assert right[which["free, random"] + which["free, equal"] + which["uniform"]].min() > 0.99
    for free, frozen in zip(which["free, random"], which["frozen start"], strict=True):
        assert torch.equal(model.fixed[free], model.fixed[frozen])
    free, start, equal = (
        distances(A, which[k], which[k]) for k in ("free, random", "frozen start", "free, equal")
    )
    assert min(free) > 0.1
    assert np.mean(free) == pytest.approx(np.mean(start), rel=0.2)
    assert max(equal) < 0.01
    even = np.tril(np.ones((LENGTH, LENGTH))) / np.arange(1, LENGTH + 1)[:, None]
    assert A[which["uniform"][0], 0].numpy() == pytest.approx(even, abs=1e-6)


@pytest.mark.slow
def test_frozen_tables_stay_as_they_were_drawn_bit_for_bit(model, names, which):
    for i, name in enumerate(names):
        assert torch.equal(model.fixed[i], CHAPTER.score_table(*name))
    moved = (model.free * model.change).abs().amax((1, 2))
    for kind, places in which.items():
        assert ((moved[places] > 0.05) == kind.startswith("free")).all()
        assert ((moved[places] == 0) != kind.startswith("free")).all()


@pytest.mark.slow
def test_without_what_attention_brings_none_of_them_is_right(model):
    """The control: the last bracket and its depth do not tell what closes next."""
    blind = copy.deepcopy(model)
    torch.nn.init.zeros_(blind.W_V)
    assert CHAPTER.bracket_facts(blind, LENGTH)[0].max() < 0.9
