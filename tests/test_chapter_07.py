"""What chapter 07 finds, computed anew on the stored classifiers by other means than its own."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import kendalltau
from torch import nn
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.adversary import adversarial_attention, exact_adversary
from attnlib.aggregation import combine, read_off, schemes
from attnlib.classifier_recipes import load_classifier
from attnlib.classifiers import AttentionClassifier
from attnlib.classify import accuracy, examples, fit_classifier, is_telling, predict, read_all
from attnlib.data import reviews
from attnlib.debate import examine, gradients
from attnlib.dyck import dyck, with_depth
from attnlib.faithfulness import deletion, jensen_shannon, random_scores, select
from attnlib.saliency import aggregate, gradient
from attnlib.training import fit, shuffled
from attnlib.transformer import Transformer, TransformerConfig


@pytest.fixture(scope="module")
def splits():
    _, words = load_classifier("rt-lstm")
    source = reviews("rotten_tomatoes")
    return tuple(examples(s, words) for s in (source.train, source.validation, source.test))


@pytest.fixture(scope="module")
def lstm():
    return load_classifier("rt-lstm")[0]


@pytest.fixture(scope="module")
def average(splits):
    """The encoder whose states know one word each, trained as in the chapter."""
    torch.manual_seed(1)
    model = AttentionClassifier(load_words_size(), 32, 32, "average", dropout=0.3)
    fit_classifier(model, splits[0], 2, lr=4e-3, seed=1, progress=False)
    return model


def load_words_size():
    return len(load_classifier("rt-lstm")[1])


def one_text(data, row):
    return data.ids[row : row + 1, : int(data.mask[row].sum())]


# --- gradients --------------------------------------------------------------------------------


@pytest.mark.claim(24)
def test_the_gradient_of_a_trained_classifier_is_a_slope(splits):
    model = load_classifier("rt-lstm")[0].double()
    ids = one_text(splits[2], 5)
    mask = ids > 0
    x = model.embed(ids).detach()
    with torch.no_grad():
        alpha = model.read(ids).attention
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
    found = gradients(lstm, data, batch_size=7)
    for row in (0, 6, 7, 19):
        ids = one_text(data, row)
        with torch.no_grad():
            alpha = lstm.read(ids).attention
        x = lstm.embed(ids).detach().requires_grad_()
        lstm.read_embeddings(x, ids > 0, weights=alpha).probability.sum().backward()
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
    pieces = [[t for t, w in enumerate(trace.words) if w == word] for word in range(9)]
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
        "lstm": examine(lstm, data, permutations=20, steps=50),
        "average": examine(average, data, permutations=20, steps=50),
    }


@pytest.mark.claim(30)
def test_tau_is_kendalls_of_every_sentence(examined):
    data, found = examined
    for one in found.values():
        taus = []
        for row, length in enumerate(data.mask.sum(1).tolist()):
            inner = slice(1, length - 1)
            pair = (one.reading.attention[row, inner], one.gradients[row, inner])
            taus.append(kendalltau(*(x.detach().double().numpy() for x in pair)).statistic)
        mean = float(np.nanmean(taus))
        assert one.attention_gradient.mean == pytest.approx(mean)
        low, high = one.attention_gradient.interval()
        assert low < mean < high
        assert high - low < 0.15


@pytest.mark.claim(30)
def test_attention_agrees_where_words_stand_alone(examined):
    """The shape of the published table: average > BiLSTM; gradient and leaving out agree best."""
    _, found = examined
    lstm, average = found["lstm"], found["average"]
    assert average.attention_gradient.interval()[0] > lstm.attention_gradient.interval()[1] + 0.1
    assert lstm.gradient_left_out.interval()[0] > lstm.attention_gradient.interval()[1] + 0.2
    assert 0 < lstm.attention_gradient.interval()[0]


@pytest.mark.claim(30)
def test_leaving_out_deletes_the_word(lstm, examined):
    data, found = examined
    ids = one_text(data, 2)
    for t in (0, 4, ids.shape[1] - 1):
        shorter = torch.cat([ids[:, :t], ids[:, t + 1 :]], 1)
        with torch.no_grad():
            fall = lstm.read(ids).probability - lstm.read(shorter).probability
        assert found["lstm"].left_out[2, t].item() == pytest.approx(abs(fall.item()), abs=1e-5)


@pytest.mark.claim(31)
def test_shuffling_moves_the_answer_only_where_states_differ(examined):
    _, found = examined
    assert found["lstm"].shift.median() < 0.1 < found["average"].shift.median()


@pytest.mark.claim(31)
def test_other_attention_gives_the_same_answer_through_the_whole_model(lstm, average, examined):
    data, found = examined
    for model, name in ((lstm, "lstm"), (average, "average")):
        one = found[name]
        with torch.no_grad():
            y = model.read(data.ids).probability
            moved = model.read(data.ids, weights=one.adversary.weights).probability
        assert (moved - y).abs().max() <= 0.05 + 1e-5
        weights, alpha = one.adversary.weights.numpy(), one.reading.attention.detach().numpy()
        jsd = jensenshannon(weights, alpha, axis=1) ** 2  # scipy gives the distance, its root
        assert one.adversary.jsd.numpy() == pytest.approx(jsd, abs=1e-5)
        assert 0.4 < jsd.mean() <= math.log(2)


@pytest.mark.claim(31)
def test_the_largest_divergence_looks_at_two_words(lstm, examined):
    data, found = examined
    one = found["lstm"]
    votes = (one.reading.states @ lstm.output.weight[0]).detach()
    alpha = one.reading.attention.detach()
    best = exact_adversary(votes, lstm.output.bias.detach(), alpha, data.mask)
    assert ((best.weights > 1e-9).sum(1) <= 2).all()
    assert (best.jsd >= one.adversary.jsd - 1e-5).all()
    assert (best.shift <= 0.05 + 1e-9).all()
    path = adversarial_attention(
        lstm.predictor(one.reading.states), alpha, data.mask, starts=2, steps=40, keep=(0, 20, 40)
    ).path
    distances = jensen_shannon(path, alpha)
    assert (distances.diff(dim=0) >= -1e-6).all(), "on the slider the map only moves away"


# --- the reply --------------------------------------------------------------------------------


@pytest.mark.claim(31)
def test_uniform_attention_is_nearly_as_good(lstm, splits):
    flat, _ = load_classifier("rt-lstm-uniform")
    assert flat.attention_kind == "uniform"
    assert accuracy(flat, splits[2]) > accuracy(lstm, splits[2]) - 0.03


@pytest.mark.claim(31)
def test_a_trained_adversary_looks_farther_away_than_another_seed(lstm, splits):
    test = splits[2]
    base = read_all(lstm, test)
    apart, moved = {}, {}
    for name in ("2", "3", "decoy"):
        model, _ = load_classifier(f"rt-lstm-{name}")
        found = read_all(model, test)
        pair = (found.attention.numpy(), base.attention.numpy())
        apart[name] = float((jensenshannon(*pair, axis=1) ** 2).mean())
        moved[name] = float((found.probability - base.probability).abs().mean())
        assert accuracy(model, test) > accuracy(lstm, test) - 0.04
    assert apart["decoy"] > 2 * max(apart["2"], apart["3"])
    assert moved["decoy"] < 0.15


@pytest.mark.claim(31)
def test_a_hiding_model_uses_what_it_does_not_seem_to_see(lstm, splits):
    train, _, test = splits
    hidden = is_telling(test, train, 300)
    hiding, _ = load_classifier("rt-lstm-hiding")
    mass = {
        name: (read_all(model, test).attention * hidden).sum(1)[hidden.any(1)].mean()
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
    model, _ = load_classifier("rt-transformer")
    data = splits[2].take(slice(0, 40))
    maps = model.maps(data.ids, data.mask)
    seen = F.pad(data.mask, (1, 0), value=True)
    found = {}
    for layers, heads, how in schemes(2, 4):
        vector = read_off(combine(maps, layers, heads), how, seen)[:, 1:]
        assert vector.isfinite().all()
        assert (vector[~data.mask] == 0).all()
        result = deletion(predict(model), data.ids, data.mask, vector, (0.2,))
        found[layers, heads, how] = result.comprehensiveness
    assert len(found) == 5 * 6 * 4
    chance = deletion(predict(model), data.ids, data.mask, random_scores(data.mask), (0.2,))
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


# --- brackets ---------------------------------------------------------------------------------


@pytest.mark.claim(33)
def test_two_models_answer_alike_and_look_elsewhere():
    """Half the training of the chapter, and the maps compared cell by cell."""
    brackets, depths, closes = dyck(500, 12, seed=99)
    ids, maps = with_depth(brackets, depths, 2), []
    for width in (None, 0.0):
        torch.manual_seed(0)
        config = TransformerConfig(12, 32, heads=1, d_ff=64, positions="none", bias=True)
        model = Transformer(config)
        layer = model.blocks[0].attention
        if width is not None:
            for weight in (layer.W_Q, layer.W_K, layer.b_Q, layer.b_K):
                nn.init.constant_(weight, width).requires_grad_(False)
        seen, levels, goals = dyck(3000, 12)
        batch = shuffled((with_depth(seen, levels, 2), goals), 64)
        loss = lambda model, b: F.cross_entropy(model(b[0]).mT, b[1], ignore_index=-1)  # noqa: E731
        fit(model, batch, loss, steps=250, lr=5e-3, progress=False)
        with torch.no_grad():
            right = model(ids)[..., :2].argmax(-1) == closes
        assert right[closes >= 0].float().mean() > 0.98
        maps.append(torch.stack([model.trace(row).attention[0, 0] for row in ids[:60]]).numpy())
    even = np.tril(np.ones((12, 12))) / np.arange(1, 13)[:, None]
    assert maps[1] == pytest.approx(np.broadcast_to(even, maps[1].shape), abs=1e-6)
    distance = jensenshannon(maps[0][:, 4:], maps[1][:, 4:], axis=-1) ** 2
    assert np.nanmean(distance) > 0.05
