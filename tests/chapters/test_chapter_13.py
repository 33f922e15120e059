"""What chapter 13 concludes, with the controls that could have refuted it.

That sim is the double loop, and its least value (claim 80), is tested in
tests/explain/test_geometry.py; what the recipe measures, in tests/recipes/test_geometry_recipes.py.
"""

from itertools import pairwise

import pytest
import torch
from chapter_code import definitions

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain.geometry import class_cosines, mean_cosine, row_entropy
from recipes import geometry as recipe

CHAPTER = definitions(
    "13_geometry",
    *("outside", "within", "cosines", "untrained", "with_spread", "last_sim", "runs", "seeds_of"),
)
TEXTS = reviews("rotten_tomatoes").test.texts
STACKS = [("rotten_tomatoes", n) for n in (1, 2, 3, 5)] + [("imdb", n) for n in (1, 3, 5)]


@pytest.fixture(autouse=True, scope="module")
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def deep():
    return pretrained.classifier("geometry-5")


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.claim(76)
@pytest.mark.parametrize("layer", range(5))
def test_outputs_lie_in_the_cone_of_the_values(deep, layer):
    for text in TEXTS[20:23]:
        trace = deep.trace(text, keep=("values",))
        values = trace.values[layer, 0]
        outputs = trace.attention[layer, 0] @ values
        assert max(CHAPTER.outside(y, values) for y in outputs) < 1e-4
        assert min(CHAPTER.outside(y, values) for y in drawn(5, values.shape[1])) > 0.5
        # with one weight below 0 the sum may leave the cone: the first value is no longer reached
        assert CHAPTER.outside(outputs[0] - 2 * values[0], values) > 0.05


@pytest.mark.claim(76)
def test_the_cone_is_a_small_and_shrinking_part_of_the_span(deep):
    """The sharper null: directions in the span of the values, where the outputs lie, too."""
    shares = []
    for text in TEXTS[20:26]:
        trace = deep.trace(text, keep=("values",))
        for values, weights in zip(trace.values[:, 0], trace.attention[:, 0], strict=True):
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
def test_aligned_keys_give_uniform_weights_only_if_equally_long():
    u, lengths = drawn(16), torch.linspace(1, 12, 9)[:, None]
    u /= u.norm()
    for seed in range(5):
        query = 4 * u + 2 * drawn(16, seed=seed + 1)
        same, longer = u.expand(9, 16) * 6, u * lengths
        assert min(mean_cosine(same), mean_cosine(longer)) > 0.999
        assert row_entropy((query @ same.T / 4).softmax(-1)) == pytest.approx(1, abs=1e-5)
        assert row_entropy((query @ longer.T / 4).softmax(-1)) < 0.8


@pytest.mark.claim(77)
def test_a_common_part_of_the_keys_moves_their_cosine_and_no_weight():
    minilm = pretrained.minilm()
    trace = minilm.trace(TEXTS[5], keep=("queries", "keys"))
    q, k = trace.queries.double(), trace.keys.double()
    scale = k.shape[-1] ** 0.5
    far = k + 100 * drawn(6, 12, 1, k.shape[-1])
    weights = (q @ far.mT / scale).softmax(-1)
    assert torch.allclose(weights, trace.attention.double(), atol=1e-4)
    assert mean_cosine(far).min() > 0.95
    assert mean_cosine(k).mean() < 0.8
    other = k + drawn(*k.shape)  # not common: a part of its own for every key
    assert not torch.allclose((q @ other.mT / scale).softmax(-1), weights, atol=0.05)


@pytest.mark.claim(78)
def test_states_gather_with_depth_before_any_training_too(deep):
    models = {"minilm": pretrained.minilm(), "gpt": pretrained.language_model(), "deep": deep}
    texts = TEXTS[200:240]
    trained = {name: CHAPTER.cosines(model, texts) for name, model in models.items()}
    copies = {name: CHAPTER.cosines(CHAPTER.untrained(m, 7), texts) for name, m in models.items()}
    for found in (*trained.values(), *copies.values()):
        assert found[0, -1] > found[0, 0] + 0.2
    assert all((found[0].diff() > 0).all() for found in copies.values())
    assert trained["gpt"][0].diff().min() < 0.02  # not at every layer
    # against copies that begin as they did: reviews-gpt less, the classifier more
    assert trained["gpt"][0, -1] < copies["gpt"][0, -1] - 0.1
    assert trained["deep"][0, -1] > copies["deep"][0, -1] + 0.2
    # an untrained MiniLM may have any cosine: it depends on the size of its first weights
    small = CHAPTER.with_spread(CHAPTER.untrained(models["minilm"], 7), 0.02)
    assert CHAPTER.cosines(small, texts)[0, -1] < trained["minilm"][0, -1]
    assert copies["minilm"][0, -1] > trained["minilm"][0, -1] + 0.3
    # whose direction: the model's own, or the text's
    inside, between, centred = trained["gpt"][:, -1]
    assert between > inside - 0.15
    assert centred < 0.15
    inside, between, centred = trained["deep"][:, -1]
    assert between < inside - 0.7
    assert centred > 0.9


@pytest.mark.claim(78)
def test_an_untrained_stack_narrows_because_it_mixes(deep):
    CHAPTER.last_sim.__globals__["deep"] = deep
    for seed in (4, 5, 6):
        stack = CHAPTER.untrained(deep, seed).model
        mixed, alone = (
            torch.stack([CHAPTER.last_sim(stack, text, kind) for text in TEXTS[50:60]]).mean()
            for kind in (False, True)
        )
        assert mixed > 0.45
        assert alone.abs() < 0.1


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


@pytest.mark.claim(81)
@pytest.mark.parametrize("key", ["keys", "values"])
@pytest.mark.parametrize("source", ["rotten_tomatoes", "imdb"])
def test_the_last_layer_is_narrower_in_deeper_stacks(source, key):
    """In every seed; and half of it at least is what training adds."""
    depths = [n for name, n in STACKS if name == source]
    last, before = (
        [CHAPTER.seeds_of(key, when, source=source, layers=n)[:, -1] for n in depths]
        for when in (False, True)
    )
    for few, more in pairwise(last):
        assert few.max() < more.min()
    assert (last[-1] - before[-1]).min() > 0.1
    # the control: stacks that have learned nothing are narrower if deeper, too
    for few, more in pairwise(before):
        assert few.max() < more.min()
    assert before[-1].mean() > 0.35 * last[-1].mean()


@pytest.mark.claim(81)
def test_a_narrow_cone_is_not_what_accuracy_needs():
    found = [CHAPTER.seeds_of("accuracy", layers=n) for n in (1, 2, 3, 5)]
    assert torch.stack(found).max() - torch.stack(found).min() < 0.025
    assert torch.stack(found).min() > 0.7


# -- the penalty ---------------------------------------------------------------------------------

STRONG = [("rotten_tomatoes", 3.0), ("imdb", 10.0)]


def change(key, source, penalty, rows):
    """What the penalty changes, for each seed."""
    with_it = CHAPTER.seeds_of(key, source=source, penalty=penalty, rows=rows)
    return (with_it - CHAPTER.seeds_of(key, source=source)).flatten()


@pytest.mark.claim(82)
@pytest.mark.parametrize(("source", "penalty"), STRONG)
def test_a_penalty_on_all_rows_is_paid_by_rows_that_nobody_reads(source, penalty):
    assert change("entropy", source, penalty, "all").max() < -0.85
    assert change("accuracy", source, penalty, "all").abs().max() < 0.02
    assert CHAPTER.seeds_of("read", source=source, penalty=penalty).min() > 0.6
    # the control: if the row that is read must pay, accuracy falls
    assert change("read", source, penalty, "read").max() < -0.9
    assert change("accuracy", source, penalty, "read").max() < -0.15


@pytest.mark.claim(82)
def test_sparse_rows_rest_on_one_token_which_differs_between_seeds():
    A = CHAPTER.seeds_of("map", penalty=3.0)
    places = A[:, 1:].argmax(-1)  # of the words; the row of [CLS] is the first
    common = places.mode(-1).values
    assert ((places == common[:, None]).sum(-1) > 12).all()
    assert len(common.unique()) == 3
    assert A[:, 0].amax(-1).max() < 0.5
    without = CHAPTER.seeds_of("map")[:, 1:]
    assert without.amax(-1).mean() < 0.1  # the control: without a penalty no row rests anywhere


@pytest.mark.claim(82)
def test_a_penalty_that_leaves_the_classification_alone_costs_accuracy_on_the_row_that_is_read():
    assert change("read", "rotten_tomatoes", 0.3, "read").max() < -0.5
    assert change("accuracy", "rotten_tomatoes", 0.3, "read").max() < -0.01
    assert CHAPTER.seeds_of("accuracy", penalty=0.3, rows="read").min() > 0.65


@pytest.mark.claim(82)
def test_a_small_penalty_stays_on_the_flat_top():
    assert change("entropy", "rotten_tomatoes", 0.3, "all").abs().max() < 0.01
    scores = drawn(1000, 20)
    below = [1 - row_entropy((s * scores).softmax(-1)).mean() for s in (0.05, 0.1, 3.0, 6.0)]
    assert below[1] / below[0] == pytest.approx(4, abs=0.1)
    assert below[3] / below[2] < 2  # far from the top it is no square


@pytest.mark.claim(83)
def test_the_values_narrow_a_little_and_not_in_every_seed():
    assert change("values", "rotten_tomatoes", 3.0, "all").min() > 0.05
    imdb = change("values", "imdb", 10.0, "all")
    assert imdb.mean() > 0
    assert imdb.min() < 0.01
    # they narrow as well where the predictions break down: nothing is rescued
    for source, penalty in STRONG:
        assert change("values", source, penalty, "read").min() > 0.01
        assert change("accuracy", source, penalty, "read").max() < -0.15


@pytest.mark.claim(84)
@pytest.mark.parametrize(("source", "penalty"), STRONG)
def test_keys_grow_longer_and_queries_too(source, penalty):
    for key in ("key_norm", "query_norm"):
        assert change(key, source, penalty, "all").min() > 3
    kept = CHAPTER.seeds_of("key_norm", source=source)
    assert kept.std() < 0.1  # without a penalty no seed makes them longer


@pytest.mark.claim(84)
def test_keys_do_not_become_orthogonal():
    assert change("keys", "rotten_tomatoes", 3.0, "all").min() > 0.1


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


def test_late_layers_decide_less_and_matter_less(deep):
    rows = recipe.training.examples(reviews("rotten_tomatoes").test, deep.tokenizer, 64)
    rows = rows.take(slice(300, 500))
    x = deep.model.embed(rows.ids)
    real = torch.cat([torch.ones(200, 1, dtype=torch.bool), rows.mask], 1)
    n = real.shape[1]
    draw = torch.Generator().manual_seed(0)
    chances = torch.rand(200, n, n, generator=draw).masked_fill(~real[:, None], -1)
    drawn_words = torch.nn.functional.one_hot(chances.argmax(-1), n).float()

    def moved(weights, layers):
        edits = {("pattern", layer): lambda A: weights(A) for layer in layers}
        return deep.model.scorer(rows.mask, edits)(x)

    y = moved(None, ())
    one, none = (
        torch.stack([(moved(weights, [k]) - y).abs() for k in range(5)])
        for weights in (lambda A: drawn_words[:, None], torch.zeros_like)
    )
    assert one[0].mean() > 8 * one[4].mean()
    assert none[0].mean() > 3 * none[4].mean()
    right = (moved(torch.zeros_like, range(5)) > 0.5) == rows.labels.bool()
    assert right.float().mean() < 0.6
