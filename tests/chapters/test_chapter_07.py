"""What chapter 07 finds, computed anew on the stored classifiers by other means than its own."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from chapter_code import definitions
from scipy.spatial.distance import jensenshannon
from scipy.stats import kendalltau
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import (
    adversarial_attention,
    aggregate,
    aggregate_maps,
    erasure,
    exact_adversary,
    gradient,
    jensen_shannon,
    kendall,
    leave_one_out,
    permutation_shift,
    random_scores,
    reduce_map,
    schemes,
    select,
)
from attnlib.models import AttentionClassifier
from attnlib.pretrained import classifier
from attnlib.training.classification import (
    accuracy,
    classify_all,
    examples,
    fit_classifier,
    impermissible_mask,
    predict,
)

CHAPTER = definitions(
    "07_is_attention_explanation", "examine", "gradients", "medians_by", "shuffled_bins", "mean"
)


@pytest.fixture(scope="module")
def splits():
    words = classifier("rt-lstm").tokenizer
    source = reviews("rotten_tomatoes")
    return tuple(examples(s, words) for s in (source.train, source.validation, source.test))


@pytest.fixture(scope="module")
def lstm():
    return classifier("rt-lstm").model


@pytest.fixture(scope="module")
def average(splits):
    """The encoder whose states know one word each, of the chapter's size; two epochs are enough."""
    torch.manual_seed(1)
    size = len(classifier("rt-lstm").tokenizer)
    model = AttentionClassifier(size, 32, 32, "average", dropout=0.3)
    fit_classifier(model, splits[0], 2, lr=4e-3, seed=1, progress=False)
    return model


def one_text(data, row):
    return data.ids[row : row + 1, : int(data.mask[row].sum())]


# --- gradients --------------------------------------------------------------------------------


@pytest.mark.claim(24)
def test_the_gradient_of_a_trained_classifier_is_a_slope(splits):
    model = classifier("rt-lstm").model.double()
    ids = one_text(splits[2], 5)
    mask = ids > 0
    x = model.embed(ids).detach()
    with torch.no_grad():
        alpha = model.classify(ids).attention
    for weights, detach in ((alpha, False), (None, False)):
        score = model.scorer(mask, weights, detach)
        found = gradient(score, x)[0]
        generator = torch.Generator().manual_seed(0)
        for _ in range(6):
            way = torch.randn(x.shape, generator=generator, dtype=torch.float64)
            with torch.no_grad():
                slope = (score(x + 1e-5 * way) - score(x - 1e-5 * way)) / 2e-5
            torch.testing.assert_close((found * way).sum(), slope[0], atol=1e-8, rtol=1e-6)


@pytest.mark.claim(24)
def test_gradients_of_a_split_are_those_of_each_text(lstm, splits):
    data = splits[2].take(slice(0, 20))
    found = CHAPTER.gradients(lstm, data, batch_size=7)
    for row in (0, 6, 7, 19):
        ids = one_text(data, row)
        with torch.no_grad():
            alpha = lstm.classify(ids).attention
        x = lstm.embed(ids).detach().requires_grad_()
        lstm.classify_embeddings(x, ids > 0, weights=alpha).probability.sum().backward()
        size = (x.grad * x.detach()).sum(-1).abs()[0]
        expected = size / size.sum()
        torch.testing.assert_close(found[row, : ids.shape[1]], expected, atol=1e-5, rtol=1e-3)
        assert (found[row, ids.shape[1] :] == 0).all()


@pytest.mark.claim(25)
def test_norms_of_a_real_gradient(lstm, splits):
    ids = one_text(splits[2], 3)
    G = gradient(lstm.scorer(ids > 0, detach=True), lstm.embed(ids))[0]
    matrix = G.double().numpy()
    d = matrix.shape[1]
    norms = {order: np.linalg.norm(matrix, order, axis=1) for order in (1, 2)}
    assert aggregate(G, "avg").numpy() == pytest.approx(matrix.mean(1), rel=1e-3, abs=1e-7)
    assert aggregate(G, "l1").numpy() * d == pytest.approx(norms[1], rel=1e-4)
    assert aggregate(G, "l2").numpy() == pytest.approx(norms[2], rel=1e-4)
    assert (norms[2] <= norms[1]).all()
    assert (norms[1] <= d**0.5 * norms[2]).all()
    order = {how: aggregate(G, how).argsort().tolist() for how in ("l1", "l2")}
    assert order["l1"] != order["l2"], "the formula that is printed twice ranks words otherwise"


# --- words ------------------------------------------------------------------------------------


@pytest.mark.claim(26)
def test_a_real_map_between_words_is_the_formula_and_keeps_its_mass():
    trace = pretrained.minilm().trace("Unpretentious, heartwarming and wonderfully acted.")
    merged, A = trace.to_words(), trace.attention
    pieces = [[t for t, w in enumerate(trace.word_ids) if w == word] for word in range(9)]
    assert max(map(len, pieces)) >= 4
    assert len(merged.tokens) == 9
    for (s, at), (t, to) in itertools.product(enumerate(pieces), repeat=2):
        expected = sum(A[..., i, j] for i in at for j in to) / len(at)
        torch.testing.assert_close(merged.attention[..., s, t], expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(merged.attention.sum(-1), torch.ones(6, 12, 9), atol=1e-5, rtol=0)
    whole = [(s, at[0]) for s, at in enumerate(pieces) if len(at) == 1]
    for s, i in whole:  # not being split cannot inflate [SEP]
        torch.testing.assert_close(merged.attention[..., s, -1], A[..., i, -1])


# --- Jain and Wallace -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examined(lstm, average, splits):
    data = splits[2].take(slice(0, 100))
    return data, {
        name: (model, CHAPTER.examine(model, data, permutations=20, steps=50))
        for name, model in (("lstm", lstm), ("average", average))
    }


@pytest.mark.claim(30)
def test_tau_is_kendalls_of_every_sentence_without_its_ends(examined):
    """Each column of the table, from scores that are tested on their own, by scipy."""
    data, found = examined
    for model, one in found.values():
        alpha = classify_all(model, data).attention.detach()
        by_gradient = CHAPTER.gradients(model, data)
        left_out = leave_one_out(predict(model), data.ids, data.mask).abs()
        for column, pair in (
            (one.attention_gradient, (alpha, by_gradient)),
            (one.attention_left_out, (alpha, left_out)),
            (one.gradient_left_out, (by_gradient, left_out)),
        ):
            taus = []
            for row, length in enumerate(data.mask.sum(1).tolist()):
                x, y = (scores[row, 1 : length - 1].double().numpy() for scores in pair)
                taus.append(kendalltau(x, y).statistic)
            assert column.tau.numpy() == pytest.approx(np.array(taus), nan_ok=True)
            low, high = column.interval()
            assert low < np.nanmean(taus) < high
            assert high - low < 0.15


@pytest.mark.claim(30)
def test_the_ends_of_a_sentence_would_change_tau(examined):
    data, found = examined
    model, one = found["lstm"]
    alpha = classify_all(model, data).attention.detach()
    whole = kendall(alpha, CHAPTER.gradients(model, data), data.mask)
    assert (whole.tau - one.attention_gradient.tau).abs().mean() > 0.02


def test_the_accuracy_of_the_table_is_the_share_of_right_answers(examined):
    data, found = examined
    for model, one in found.values():
        rights = 0
        for row, label in enumerate(data.labels.tolist()):
            with torch.no_grad():
                rights += (model.classify(one_text(data, row)).probability.item() > 0.5) == label
        assert one.accuracy == rights / len(data) > 0.6


@pytest.mark.claim(31)
def test_the_shift_of_the_table_is_over_as_many_orders_as_asked(examined):
    data, found = examined
    for model, one in found.values():
        read = classify_all(model, data)
        follow = model.predictor(read.states)
        shift = {
            count: permutation_shift(follow, read.attention, data.mask, count) for count in (1, 20)
        }
        assert torch.equal(one.shift, shift[20])
        assert (one.shift - shift[1]).abs().median() > 1e-3, "one order is another number"
        assert torch.equal(one.largest, read.attention.amax(1))


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    edges = (0.0, 0.25, 0.5, 1.0)
    by = torch.tensor([0.0, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, -0.5])
    values = torch.tensor([1.0, 3.0, 10.0, 20.0, 30.0, 90.0, 1e3, 1e3])
    assert CHAPTER.medians_by(values, by, edges) == [(2.0, 2), (10.0, 1), (30.0, 3)]
    (_, four), *_, (_, last) = CHAPTER.medians_by(by, by)
    assert (four, last) == (2, 2), "by default four bins from 0 to 1"
    ((median, count),) = CHAPTER.medians_by(values, by, (5, 6))
    assert math.isnan(median)
    assert count == 0


def test_the_published_table_is_met_by_bins_of_five_texts_and_by_means():
    one = SimpleNamespace(
        shift=torch.arange(16.0) / 100,
        largest=torch.tensor([0.1] * 5 + [0.3] * 5 + [0.6] * 4 + [0.9] * 2),
        attention_gradient=SimpleNamespace(mean=0.456),
    )
    assert CHAPTER.shuffled_bins(one) == "0.02 → 0.07"
    assert CHAPTER.mean("attention_gradient")(one) == "0.46"


@pytest.mark.claim(30)
def test_attention_agrees_where_words_stand_alone(examined):
    """The shape of the published table: average > BiLSTM; gradient and leaving out agree best."""
    _, found = examined
    lstm, average = found["lstm"][1], found["average"][1]
    assert average.attention_gradient.interval()[0] > lstm.attention_gradient.interval()[1] + 0.1
    assert lstm.gradient_left_out.interval()[0] > lstm.attention_gradient.interval()[1] + 0.2
    assert 0 < lstm.attention_gradient.interval()[0]


@pytest.mark.claim(30)
def test_leaving_out_deletes_the_word(lstm, splits):
    data = splits[2].take(slice(0, 4))
    left_out = leave_one_out(predict(lstm), data.ids, data.mask)
    ids = one_text(data, 2)
    for t in (0, 4, ids.shape[1] - 1):
        shorter = torch.cat([ids[:, :t], ids[:, t + 1 :]], 1)
        with torch.no_grad():
            fall = lstm.classify(ids).probability - lstm.classify(shorter).probability
        assert left_out[2, t].item() == pytest.approx(fall.item(), abs=1e-5)


@pytest.mark.claim(31)
def test_shuffling_moves_the_answer_only_where_states_differ(examined):
    _, found = examined
    assert found["lstm"][1].shift.median() < 0.1 < found["average"][1].shift.median()


@pytest.mark.claim(31)
def test_other_attention_gives_the_same_answer_through_the_whole_model(examined):
    data, found = examined
    for model, one in found.values():
        with torch.no_grad():
            read = model.classify(data.ids)
            moved = model.classify(data.ids, weights=one.adversary.weights).probability
        assert (moved - read.probability).abs().max() <= 0.05 + 1e-5
        weights = one.adversary.weights.numpy()
        jsd = jensenshannon(weights, read.attention.numpy(), axis=1) ** 2  # scipy: its root
        assert one.adversary.jsd.numpy() == pytest.approx(jsd, abs=1e-5)
        assert 0.4 < jsd.mean() <= math.log(2)


@pytest.mark.claim(31)
def test_the_largest_divergence_looks_at_two_words(examined):
    data, found = examined
    model, one = found["lstm"]
    read = classify_all(model, data)
    votes = (read.states @ model.output.weight[0]).detach()
    best = exact_adversary(votes, model.output.bias.detach(), read.attention, data.mask)
    assert ((best.weights > 1e-9).sum(1) <= 2).all()
    assert (best.jsd >= one.adversary.jsd - 1e-5).all()
    assert (best.shift <= 0.05 + 1e-9).all()
    follow, kept = model.predictor(read.states), (0, 20, 40)
    moving = adversarial_attention(follow, read.attention, data.mask, starts=2, steps=40, keep=kept)
    distances = jensen_shannon(moving.path, read.attention)
    assert (distances.diff(dim=0) >= -1e-6).all(), "on the slider the map only moves away"


# --- the reply --------------------------------------------------------------------------------


@pytest.mark.claim(31)
def test_uniform_attention_is_nearly_as_good(lstm, splits):
    flat = classifier("rt-lstm-uniform").model
    assert flat.attention_kind == "uniform"
    assert accuracy(flat, splits[2]) > accuracy(lstm, splits[2]) - 0.03


@pytest.mark.claim(31)
def test_a_trained_adversary_looks_farther_away_than_another_seed(lstm, splits):
    test = splits[2]
    base = classify_all(lstm, test)
    apart, moved = {}, {}
    for name in ("2", "3", "decoy"):
        model = classifier(f"rt-lstm-{name}").model
        found = classify_all(model, test)
        pair = (found.attention.numpy(), base.attention.numpy())
        apart[name] = float((jensenshannon(*pair, axis=1) ** 2).mean())
        moved[name] = float((found.probability - base.probability).abs().mean())
        assert accuracy(model, test) > accuracy(lstm, test) - 0.04
    assert apart["decoy"] > 2 * max(apart["2"], apart["3"])
    assert moved["decoy"] < 0.15


@pytest.mark.claim(31)
def test_a_hiding_model_uses_what_it_does_not_seem_to_see(lstm, splits):
    train, _, test = splits
    hidden = impermissible_mask(test, train, 300)
    hiding = classifier("rt-lstm-hiding").model
    mass = {
        name: (classify_all(model, test).attention * hidden).sum(1)[hidden.any(1)].mean()
        for name, model in (("honest", lstm), ("hiding", hiding))
    }
    assert mass["hiding"] < 0.02 < 0.05 < mass["honest"]
    assert accuracy(hiding, test) > accuracy(lstm, test) - 0.04
    ids, mask = select(test.ids, test.mask, ~hidden)
    kept = mask.any(1)
    with torch.no_grad():
        right = ((hiding(ids[kept], mask[kept]) > 0) == (test.labels[kept] > 0.5)).float().mean()
    assert right < accuracy(hiding, test) - 0.05, "without these words it is lost"


# --- from heads to one map --------------------------------------------------------------------


@pytest.mark.claim(29)
def test_every_scheme_is_ranked_and_some_beat_chance(splits):
    model = classifier("rt-transformer").model
    data = splits[2].take(slice(0, 40))
    maps = model.maps(data.ids, data.mask)
    seen = F.pad(data.mask, (1, 0), value=True)
    found = {}
    for layers, heads, how in schemes(2, 4):
        vector = reduce_map(aggregate_maps(maps, layers, heads), how, seen)[:, 1:]
        assert vector.isfinite().all()
        assert (vector[~data.mask] == 0).all()
        result = erasure(predict(model), data.ids, data.mask, vector, (0.2,))
        found[layers, heads, how] = result.comprehensiveness
    assert len(found) == 5 * 6 * 4
    chance = erasure(predict(model), data.ids, data.mask, random_scores(data.mask), (0.2,))
    assert max(found.values()) > chance.comprehensiveness + 0.05
    assert max(found.values()) > min(found.values()) + 0.1
    # one of them again, by hand: the last layer's mean head, where [CLS] looks
    vector = maps[:, 1].mean(1)[:, 0, 1:]
    order = vector.masked_fill(~data.mask, -1).argsort(dim=1, descending=True, stable=True)
    falls = []
    for row in range(40):
        ids = one_text(data, row)[0]
        gone = set(order[row, : min(math.ceil(0.2 * len(ids)), len(ids) - 1)].tolist())
        rest = torch.tensor([[i for t, i in enumerate(ids.tolist()) if t not in gone]])
        with torch.no_grad():
            y, less = (model(part).sigmoid().item() for part in (ids[None], rest))
        falls.append(y - less if y >= 0.5 else less - y)
    assert found[1, "mean", "from_first"] == pytest.approx(sum(falls) / 40, abs=1e-4)
