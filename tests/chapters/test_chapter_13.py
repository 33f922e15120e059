"""What chapter 13 concludes, with the controls that could have refuted it.

That sim is the double loop, and its least value (claim 80), is tested in
tests/explain/test_geometry.py; what the recipe measures, in tests/recipes/test_geometry_recipes.py.
"""

import pytest
import torch
from chapter_code import definitions

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain.geometry import class_cosines, mean_cosine

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "13_geometry",
    *("outside", "within", "cosines", "untrained", "last_sim", "first_token", "seeds_of", "runs"),
)
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


@pytest.mark.claim(77)
def test_a_common_part_of_the_values_is_no_choice(deep):
    trace = deep.trace(TEXTS[6], keep="v")
    A, V = trace.pattern[0, 0], trace.v[0, 0]
    c = 100 * drawn(V.shape[1])
    assert mean_cosine(V + c) > 0.95
    assert torch.allclose(A @ (V + c), A @ V + c, atol=1e-3)
    assert not torch.allclose(A @ (V + drawn(*V.shape)), A @ V + V.mean(0), atol=0.1)


@pytest.mark.long
@pytest.mark.claim(78)
def test_the_common_direction_of_a_language_model_is_its_own():
    """Two texts share it nearly as much; in the encoder's last layer they do not."""
    texts = TEXTS[200:215]
    for model in (pretrained.language_model(), pretrained.smollm2()):
        inside, between, centred = CHAPTER.cosines(model, texts)
        assert inside[-1] > inside[0] + 0.2
        assert between[-1] > 0.75 * inside[-1]
        assert centred[-1] < 0.35 * inside[-1]
    inside, between, centred = CHAPTER.cosines(pretrained.minilm(), texts)[:, -1]
    assert between < 0.4 * inside
    assert centred > 0.7 * inside


@pytest.mark.claim(78)
def test_the_common_direction_of_a_classifier_is_the_texts(deep):
    inside, between, centred = CHAPTER.cosines(deep, TEXTS[200:230])[:, -1]
    assert between < inside - 0.7
    assert centred > 0.9


@pytest.mark.claim(78)
def test_random_weights_gather_the_states_because_all_read_the_same(deep):
    def another(n):
        return torch.randperm(n, generator=generator)

    generator = torch.Generator().manual_seed(3)
    for seed in (4, 5, 6):
        model = CHAPTER.untrained(deep, seed)
        mixed, alone, apart, same = (
            torch.stack([CHAPTER.last_sim(model, text, place) for text in TEXTS[50:60]]).mean()
            for place in (None, torch.arange, another, lambda n: torch.zeros(n, dtype=torch.int64))
        )
        assert same > mixed > 0.45
        assert max(alone.abs(), apart.abs()) < 0.1


@pytest.mark.parametrize(
    ("model", "some", "short", "long"),
    [(pretrained.smollm2, 120, 0.3, 0.9), (pretrained.minilm, 8, 0.1, 0.35)],
)
def test_the_value_of_a_sink_is_short(model, some, short, long):
    """And that of heads which do not look there is longer."""
    weight, length = CHAPTER.first_token(model(), TEXTS[300:310])
    assert (weight > 0.5).sum() > some
    assert length[weight > 0.5].median() < short
    assert length[weight < 0.1].median() > long


def test_a_model_without_a_sink_has_no_short_value():
    weight, length = CHAPTER.first_token(pretrained.language_model(), TEXTS[300:320])
    assert weight.max() < 0.5
    assert length.median() > 0.6


def test_the_first_state_of_smollm2_is_long():
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
        CHAPTER.seeds_of("within", when, **asked) - CHAPTER.seeds_of("between", when, **asked)
        for when in (False, True)
    )
    assert len(after) == 3
    assert after.min() > 0.2
    assert before.abs().max() < 0.01


@pytest.mark.claim(79)
def test_shuffled_labels_have_no_direction(deep):
    test = reviews("rotten_tomatoes").test
    chosen = torch.arange(300, 500)
    labels = torch.tensor(test.labels)[chosen]
    states = torch.stack([deep.trace(test.texts[i], keep="final").final[0] for i in chosen])
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


# -- what is left to decide ----------------------------------------------------------------------


def test_uniform_weights_cost_no_accuracy_on_short_texts_and_a_little_on_long_ones():
    less = {
        source: torch.cat(
            [
                CHAPTER.seeds_of("flat", source=source, layers=n)
                - CHAPTER.seeds_of("plain", source=source, layers=n)
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
    assert CHAPTER.seeds_of("values").abs().max() < 0.05
