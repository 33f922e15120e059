"""Probes on states of which we know what they hold, and code lengths against their definition."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.explain import probing

N, K = 1200, 4
HALF = slice(N // 2), slice(N // 2, N)  # to train on, to test on


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def planted():
    """States (N, 2, 8), the first of which show the label, and the labels (N,)."""
    labels = torch.randint(K, (N,), generator=torch.Generator().manual_seed(1))
    states = drawn(N, 2, 8)
    states[:, 0, :K] += 4 * torch.nn.functional.one_hot(labels, K)
    return states, labels


@pytest.fixture(scope="module")
def of_words():
    """States that hold a word's type and no more, types and labels; some words have two labels."""
    generator = torch.Generator().manual_seed(0)
    types = torch.randint(40, (N,), generator=generator)
    usual = torch.randint(K, (40,), generator=generator)[types]
    rare = torch.rand(N, generator=generator) < 0.1
    labels = torch.where(rare, (usual + 1) % K, usual)
    return drawn(40, 32)[types][:, None], types, labels


def accuracy(states, labels, passes=40, **settings):
    learn, test = HALF
    probe = probing.train_probe(states[learn], labels[learn], K, passes=passes, **settings)
    return probing.is_right(probe, states[test], labels[test]).float().mean(0)


@pytest.mark.claim(72)
def test_a_probe_finds_what_was_planted_and_nothing_in_noise(planted):
    states, labels = planted
    shown, noise = accuracy(states, labels)
    assert shown > 0.95
    assert noise < 1 / K + 0.1
    assert accuracy(states, labels[torch.randperm(N)])[0] < 1 / K + 0.1


@pytest.mark.parametrize("width", [0, 3])
def test_what_never_varies_loses_its_weight_by_decay_alone(planted, width):
    """No gradient reaches it, so AdamW shrinks it by 1 − 0.1 · rate in each of the 60 steps."""
    states, labels = planted[0][:256].clone(), planted[1][:256]
    states[:, :, 0] = 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = probing.Probe(states, K, width).W[0][:, 0]
    found = probing.train_probe(states, labels, K, width).W[0][:, 0]
    # the rate falls as a cosine from 0.01 to 0.001: 0.0055 on average
    torch.testing.assert_close(
        found / first, torch.full_like(found, math.exp(-0.1 * 0.33)), rtol=2e-3, atol=0
    )


@pytest.mark.claim(72)
def test_the_states_and_the_callers_randomness_are_left_alone(planted):
    states, labels = planted
    given_states = states.clone().requires_grad_()
    torch.manual_seed(123)
    before = torch.get_rng_state()
    probing.train_probe(given_states, labels, K)
    assert given_states.grad is None
    assert torch.equal(given_states, states)
    assert torch.equal(torch.get_rng_state(), before)


def test_probes_compute_in_single_precision(planted):
    states, labels = planted
    single, double = (probing.train_probe(x, labels, K)(x) for x in (states, states.double()))
    assert torch.equal(single, double)


def test_probes_side_by_side_share_nothing(planted):
    states, labels = planted
    other = states.clone()
    other[:, 1] = 100 * drawn(N, 8, seed=7)
    one, two = (probing.train_probe(x, labels, K) for x in (states, other))
    assert torch.equal(one(states)[:, 0], two(other)[:, 0])
    assert not torch.allclose(one(states)[:, 1], two(other)[:, 1])


def test_each_probe_may_have_labels_of_its_own(planted):
    states, labels = planted
    turned = (labels + 1) % K
    both = torch.stack([labels, turned], 1)
    same = states[:, :1].expand(-1, 2, -1)
    assert (accuracy(same, both) > 0.95).all()
    probe = probing.train_probe(same, both, K, passes=20)
    crossed = probing.is_right(probe, same, both.flip(1))
    assert crossed.shape == (N, 2)
    assert crossed.float().mean() < 0.1


def test_only_a_hidden_layer_tells_exclusive_or():
    signs = drawn(N, 1, 2).sign()
    states = signs + 0.1 * drawn(N, 1, 2, seed=1)
    labels = (signs[:, 0].prod(-1) > 0).long()
    assert accuracy(states, labels) < 0.65
    assert accuracy(states, labels, width=16) > 0.95


def test_units_of_a_coordinate_do_not_matter(planted):
    states, labels = planted
    scaled = states * torch.logspace(-3, 3, 8) + 5
    assert accuracy(scaled, labels)[0] == pytest.approx(
        accuracy(states, labels)[0].item(), abs=0.02
    )
    flat = torch.cat([states, torch.ones(N, 2, 1)], -1)  # a coordinate that never changes
    assert accuracy(flat, labels)[0] > 0.95


# -- the control task --------------------------------------------------------------------------


@pytest.mark.claim(73)
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 5))
def test_a_type_has_one_label_wherever_it_occurs(types, seed):
    types = torch.tensor(types)
    labels = torch.arange(len(types)) % 3
    found = probing.control_labels(types, labels, seed)
    assert found.shape == types.shape
    assert set(found.tolist()) <= set(labels.tolist())
    for kind in types.unique():
        assert len(found[types == kind].unique()) == 1
    assert torch.equal(found, probing.control_labels(types, labels, seed))


def test_types_draw_their_labels_as_often_as_these_occur_and_on_their_own():
    labels = torch.tensor([0] * 700 + [1] * 200 + [2] * 100)
    found = probing.control_labels(torch.arange(20_000), labels)
    shares = found.bincount(minlength=3) / len(found)
    assert torch.allclose(shares, torch.tensor([0.7, 0.2, 0.1]), atol=0.02)
    again = probing.control_labels(torch.arange(20_000), labels, seed=1)
    assert (found == again).float().mean() == pytest.approx(0.54, abs=0.02)  # .7² + .2² + .1²


@pytest.mark.claim(73)
def test_states_that_only_name_the_word_have_no_selectivity(of_words, planted):
    states, types, labels = of_words
    control = probing.control_labels(types, labels)
    by_word = accuracy(states, labels) - accuracy(states, control)
    assert by_word < -0.05  # words with two labels: memory is right about the control alone
    shows = states.clone()
    shows[:, 0, :K] += 20 * torch.nn.functional.one_hot(labels, K)
    task, memory = (accuracy(shows, y, passes=4) for y in (labels, control))
    assert task - memory > 0.1


# -- the code length ---------------------------------------------------------------------------


@pytest.mark.claim(74)
def test_the_code_is_short_for_what_is_shown_and_not_for_what_is_not(planted):
    states, labels = planted
    shown, noise = probing.online_code(states, labels, K, ends=(0.05, 0.2, 1.0)).sum(0)
    uniform = N * math.log2(K)
    assert shown < 0.6 * uniform
    assert noise > 0.95 * uniform


@pytest.mark.claim(74)
def test_the_control_costs_more_than_the_task(of_words):
    states, types, labels = of_words
    states = states.clone()
    states[:, 0, :K] += 20 * torch.nn.functional.one_hot(labels, K)
    both = torch.stack([labels, probing.control_labels(types, labels)], 1)
    ends = (0.02, 0.05, 0.1, 0.3, 1.0)
    task, control = probing.online_code(states.expand(-1, 2, -1), both, K, ends=ends).sum(0)
    assert task < 0.7 * control


def test_the_code_is_what_its_definition_says(planted):
    states, labels = planted
    found = probing.online_code(states, labels, K, seed=3, ends=(0.1, 0.5, 1.0))
    assert found.shape == (3, 2)
    assert torch.allclose(found[0], torch.tensor(120 * math.log2(K)))
    for block, (begin, end) in enumerate(((120, 600), (600, 1200)), start=1):
        probe = probing.train_probe(states[:begin], labels[:begin], K, seed=3)
        for p in range(2):
            row = probe(states[begin:end])[:, p].softmax(-1)
            chosen = row[torch.arange(end - begin), labels[begin:end]]
            assert -chosen.log2().sum().item() == pytest.approx(found[block, p].item(), rel=1e-3)


@pytest.mark.parametrize("ends", [(0.5,), (0.5, 0.4, 1.0), (0.5, 0.5, 1.0), (1e-5, 1.0), ()])
def test_blocks_must_rise_to_the_end(planted, ends):
    with pytest.raises(ValueError, match="rise to 1"):
        probing.online_code(*planted, K, ends=ends)
