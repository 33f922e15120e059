"""What chapter 13 concludes, with the controls that could have refuted it.

That sim is the double loop, and its least value (claim 80), is tested in
tests/explain/test_geometry.py; what the recipe measures, in tests/recipes/test_geometry_recipes.py.
"""

from dataclasses import replace

import pytest
import torch
from chapter_code import definitions
from gemma import gemma_or_skip

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain.geometry import class_cosines, mean_cosine
from attnlib.training.classification import examples

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "13_geometry",
    *("outside", "within", "cosines", "by_component"),
    *("untrained", "reads", "without_residual", "sims"),
)
DEPTH = definitions("more/13_depth", "runs", "seeds_of")
TEXTS = reviews("rotten_tomatoes").test.texts
STACKS = [("rotten_tomatoes", n) for n in (1, 2, 3, 5)] + [("imdb", n) for n in (1, 3, 5)]


@pytest.fixture(scope="module")
def deep():
    return pretrained.classifier("geometry-5")


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.claim(76)
def test_the_cone_is_a_small_and_shrinking_part_of_the_span(deep):
    """The sharper null: directions in the span of the values, where the outputs lie, too."""
    shares = []
    for text in TEXTS[20:26]:
        trace = deep.trace(text, keep="v")
        for values, weights in zip(trace.v[:, 0], trace.pattern[:, 0], strict=True):
            drawn_inside = CHAPTER.within(values, 40)
            rebuilt = drawn_inside @ torch.linalg.pinv(values) @ values
            assert torch.allclose(rebuilt, drawn_inside, atol=1e-3)
            outputs = weights @ values
            shares.append([CHAPTER.outside(y, values) for y in drawn_inside])
            assert min(CHAPTER.outside(-y, values) for y in outputs) > 0.8
    found = torch.tensor(shares).view(6, 5, 40).mean((0, 2))
    assert (found.diff() > 0).all()
    assert 0.55 < found[0] < 0.8  # values at right angles: √½
    assert found[4] > 0.95
    at_right_angles = torch.eye(20, 128)
    flat = [CHAPTER.outside(y, at_right_angles) for y in CHAPTER.within(at_right_angles, 200)]
    assert sum(flat) / 200 == pytest.approx(0.5**0.5, abs=0.02)


@pytest.mark.claim(77)
def test_a_common_part_of_the_keys_moves_their_cosine_and_no_weight():
    minilm = pretrained.minilm()
    trace = minilm.trace(TEXTS[5], keep=("q", "k"))
    q, k = trace.q.double(), trace.k.double()
    scale = k.shape[-1] ** 0.5
    far = k + 100 * drawn(6, 12, 1, k.shape[-1])
    weights = (q @ far.mT / scale).softmax(-1)
    assert torch.allclose(weights, trace.pattern.double(), atol=1e-4)
    assert mean_cosine(far).min() > 0.95
    assert mean_cosine(k).mean() < 0.8
    other = k + drawn(*k.shape)  # not common: a part of its own for every key
    assert not torch.allclose((q @ other.mT / scale).softmax(-1), weights, atol=0.05)


def test_a_common_part_before_rotary_positions_does_change_weights():
    """So the sentence is about keys as they meet the queries, after the turning."""
    keys, query, common = drawn(9, 8), drawn(8, seed=1), 3 * drawn(8, seed=2)
    angle = torch.arange(9)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
    a, b = (keys + common)[:, :4], (keys + common)[:, 4:]
    turned = torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], 1)
    a, b = keys[:, :4], keys[:, 4:]
    plain = torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], 1)
    weights = (plain @ query).softmax(-1)
    assert torch.allclose(((plain + common) @ query).softmax(-1), weights, atol=1e-5)
    assert not torch.allclose((turned @ query).softmax(-1), weights, atol=0.1)


@pytest.mark.claim(77)
def test_a_common_part_of_the_values_is_no_choice(deep):
    trace = deep.trace(TEXTS[6], keep="v")
    A, V = trace.pattern[0, 0], trace.v[0, 0]
    c = 100 * drawn(V.shape[1])
    assert mean_cosine(V + c) > 0.95
    assert torch.allclose(A @ (V + c), A @ V + c, atol=1e-3)
    assert not torch.allclose(A @ (V + drawn(*V.shape)), A @ V + V.mean(0), atol=0.1)


def last_states(model, texts):
    """The states of each text after the last layer, (T − 1, d), without the first token."""
    return [model.trace(text, keep="resid").resid[-1, 1:] for text in texts]


def share_of_three(states):
    """What three components make of sim; chosen on the first half, measured on the second."""
    added = torch.stack([CHAPTER.by_component(text) for text in states])
    first, second = added[: len(added) // 2].mean(0), added[len(added) // 2 :].mean(0)
    return second[first.topk(3).indices].sum() / second.sum()


def test_what_components_add_is_sim():
    states = drawn(9, 5) + 1
    assert CHAPTER.by_component(states).sum() == pytest.approx(mean_cosine(states).item(), abs=1e-5)
    pair = states[:2] / states[:2].norm(dim=1, keepdim=True)
    assert torch.allclose(CHAPTER.by_component(states[:2]), pair[0] * pair[1], atol=1e-6)


@pytest.mark.claim(78)
@pytest.mark.parametrize(
    ("load", "three"),
    [
        (pretrained.language_model, 0.8),
        pytest.param(pretrained.smollm2, 0.65, marks=pytest.mark.long),
    ],
)
def test_the_common_direction_of_a_language_model_is_its_own(load, three):
    """Two texts share it nearly as much as two tokens do; most of it lies in three components."""
    states = last_states(load(), TEXTS[200:216])
    inside, between, centred = CHAPTER.cosines(states)
    assert between > 0.75 * inside > 0.35
    assert centred < 0.35 * inside
    assert share_of_three(states) > three


@pytest.mark.long
@pytest.mark.claim(78)
def test_the_common_direction_of_gemma_3_is_its_own():
    gemma_or_skip()
    states = last_states(pretrained.gemma3(), TEXTS[200:212])
    inside, between, centred = CHAPTER.cosines(states)
    assert inside > 0.9
    assert between > 0.95 * inside
    assert centred < 0.3
    assert share_of_three(states) > 0.95
    parts = torch.stack([CHAPTER.by_component(text) for text in states]).mean(0)
    assert parts.max() > 0.88  # a single component


@pytest.mark.claim(78)
def test_the_direction_of_an_encoders_last_layer_is_the_texts():
    states = last_states(pretrained.minilm(), TEXTS[200:216])
    inside, between, centred = CHAPTER.cosines(states)
    assert between < 0.4 * inside
    assert centred > 0.7 * inside
    assert share_of_three(states) < 0.1


@pytest.mark.claim(78)
def test_the_common_direction_of_a_classifier_is_the_texts(deep):
    states = last_states(deep, TEXTS[200:230])
    inside, between, centred = CHAPTER.cosines(states)
    assert between < inside - 0.7
    assert centred > 0.9
    assert share_of_three(states) < 0.2


@pytest.mark.claim(78)
def test_random_weights_gather_the_states_because_all_read_the_same(deep):
    def another(n):
        return torch.randperm(n, generator=generator)

    def by_layer(model, edits=dict):
        return torch.stack([CHAPTER.sims(model, text, edits()) for text in TEXTS[50:60]]).mean(0)

    generator = torch.Generator().manual_seed(3)
    for seed in (4, 5, 6):
        model = CHAPTER.untrained(deep, seed)
        alone, apart, same = (
            by_layer(model, lambda s=source_of: CHAPTER.reads(s))[-1]
            for source_of in (torch.arange, another, lambda n: torch.zeros(n).long())
        )
        assert same > by_layer(model)[-1] > 0.45
        assert max(alone.abs(), apart.abs()) < 0.1
        # rank collapse: all rows are nearly equal at once
        assert by_layer(model, CHAPTER.without_residual)[1] > 0.99
    assert by_layer(deep, CHAPTER.without_residual)[1] > 0.9


@pytest.mark.claim(78)
def test_random_weights_as_small_as_berts_gather_nothing():
    minilm = pretrained.minilm()
    torch.manual_seed(0)
    model = type(minilm.model)(minilm.model.config).eval()
    copy = replace(minilm, model=model)
    large = [mean_cosine(states) for states in last_states(copy, TEXTS[100:106])]
    assert torch.stack(large).mean() > 0.7
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.02)
    small = [mean_cosine(states) for states in last_states(copy, TEXTS[100:106])]
    assert torch.stack(small).mean() < 0.1


def test_edits_without_the_residual_leave_only_what_attention_writes(deep):
    ids = torch.tensor(deep.encode(TEXTS[7]))
    trace = deep.model.trace(ids, keep="all", edits=CHAPTER.without_residual())
    written = trace.pattern[0, 0] @ trace.v[0, 0] @ deep.model.encoder.blocks[0].attention.W_O[0]
    norm = torch.nn.functional.layer_norm(written, written.shape[-1:])
    cosine = torch.cosine_similarity(norm, trace.resid_post[0], dim=-1)
    assert cosine.min() > 0.9  # the gains of the norm are all that is left


def test_the_first_state_of_smollm2_is_massive():
    states = pretrained.smollm2().trace(TEXTS[300], keep="resid").resid
    lengths = states.norm(dim=-1)
    ratio = lengths[:, 0] / lengths[:, 1:].median(-1).values
    assert ratio.max() > 100
    assert ratio[0] < 2  # it does not come with the embedding
    long = states[int(ratio.argmax()), 0].square()
    assert long.max() > 0.9 * long.sum()  # one component


@pytest.mark.claim(79)
@pytest.mark.parametrize(("source", "layers"), STACKS)
def test_the_direction_of_cls_carries_the_class_after_training(source, layers):
    asked = {"source": source, "layers": layers}
    after, before = (
        DEPTH.seeds_of("within", when, **asked) - DEPTH.seeds_of("between", when, **asked)
        for when in (False, True)
    )
    assert len(after) == 3
    assert after.min() > 0.2
    assert before.abs().max() < 0.01


@pytest.mark.claim(79)
def test_shuffled_labels_have_no_direction(deep):
    test = reviews("rotten_tomatoes").test
    rows = examples(test, deep.tokenizer, 64).take(slice(300, 500))
    x, start = deep.model.embed(rows.ids), torch.ones(200, 1, dtype=torch.bool)
    *_, last = deep.model.encoder.run(x, torch.cat([start, rows.mask], 1))
    states, labels = last.resid_post[:, 0], rows.labels
    found = torch.sub(*class_cosines(states, labels))
    draw = torch.Generator().manual_seed(0)
    null = torch.stack(
        [
            torch.sub(*class_cosines(states, labels[torch.randperm(200, generator=draw)]))
            for _ in range(100)
        ]
    )
    assert found > 0.2
    assert null.abs().max() < 0.1
    answers = (deep.model.scorer(rows.mask)(x) > 0.5).long()
    assert torch.sub(*class_cosines(states, answers)) > 2 * found, "it is rather the answer's"


# -- what is left to decide ----------------------------------------------------------------------


def test_uniform_weights_cost_no_accuracy_on_short_texts_and_a_little_on_long_ones():
    less = {
        source: torch.cat(
            [
                DEPTH.seeds_of("flat", source=source, layers=n)
                - DEPTH.seeds_of("plain", source=source, layers=n)
                for name, n in STACKS
                if name == source
            ]
        )
        for source in ("rotten_tomatoes", "imdb")
    }
    assert less["rotten_tomatoes"].abs().max() < 0.02
    assert less["rotten_tomatoes"].mean().abs() < 0.005
    assert less["imdb"].mean() < -0.015
    assert (less["imdb"] < 0).sum() >= 7
    # where the cone is as wide as can be, uniform weights are as harmless
    assert DEPTH.seeds_of("values").abs().max() < 0.05
