"""What chapter 07 finds, computed anew on the stored classifiers: conclusions with controls."""

import itertools
import re

import nbformat
import numpy as np
import pytest
import torch
from chapter_code import definitions
from chapter_rules import CHAPTERS
from scipy.spatial.distance import jensenshannon
from scipy.stats import kendalltau

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain.adversary import adversarial_attention, exact_adversary
from attnlib.explain.faithfulness import permutation_shift, random_scores, select, uniform
from attnlib.explain.saliency import aggregate, gradient, leave_one_out
from attnlib.pretrained import classifier
from attnlib.training.classification import (
    Examples,
    accuracy,
    classify_all,
    examples,
    impermissible_mask,
    predict,
)

NAME = "07_is_attention_explanation"
CHAPTER = definitions(
    NAME,
    *("interval", "told", "answered", "toward_answer", "falls", "left_out", "signed_scores"),
    *("sign_table", "tau", "overlap", "gradients", "l2_gradients", "shuffled_null", "shuffling"),
    *("exchanged", "examine", "right", "between", "beside", "last_word_first", "audit"),
    *("scheme", "scheme_scores", "attention_gradient", "transformer_scores"),
)


def low(values):
    """The lower end of the 95 % interval of a mean."""
    return CHAPTER.interval(values)[1]


def high(values):
    """The upper end."""
    return CHAPTER.interval(values)[2]


@pytest.fixture(scope="module")
def splits():
    words = classifier("rt-lstm").tokenizer
    source = reviews("rotten_tomatoes")
    return tuple(examples(s, words) for s in (source.train, source.validation, source.test))


@pytest.fixture(scope="module")
def few(splits):
    return splits[2].take(slice(0, 200))


@pytest.fixture(scope="module")
def lstm():
    return classifier("rt-lstm").model


@pytest.fixture(scope="module")
def average():
    """The encoder whose states know one word each."""
    return classifier("rt-average").model


@pytest.fixture(scope="module")
def forty():
    """Reviews, and two models that read them."""
    words = classifier("imdb-lstm").tokenizer
    data = examples(reviews("imdb").test, words, max_len=200).take(slice(0, 40))
    return data, {name: classifier(f"imdb-{name}").model for name in ("lstm", "average")}


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
    """Of the given weights, if there are any."""
    data = splits[2].take(slice(0, 20))
    for weights in (None, uniform(data.mask)):
        found = CHAPTER.gradients(lstm, data, weights)
        for row in (0, 6, 19):
            ids = one_text(data, row)
            with torch.no_grad():
                alpha = lstm.classify(ids).attention
            if weights is not None:
                alpha = torch.full_like(alpha, 1 / ids.shape[1])
            x = lstm.embed(ids).detach().requires_grad_()
            lstm.classify_embeddings(x, ids > 0, weights=alpha).probability.sum().backward()
            size = (x.grad * x.detach()).sum(-1).abs()[0]
            torch.testing.assert_close(found[row, : ids.shape[1]], size, atol=1e-6, rtol=1e-3)
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


# --- the chapter's measures -------------------------------------------------------------------


def test_an_interval_holds_the_mean_and_narrows_with_the_texts():
    values = torch.randn(400, generator=torch.Generator().manual_seed(0)) + 3
    mean, below, above = CHAPTER.interval(torch.cat([values, torch.tensor([torch.nan])]))
    assert mean == pytest.approx(values.mean().item())
    assert above - below == pytest.approx(4 * values.std().item() / 20, rel=0.15)
    assert CHAPTER.told(torch.ones(5)) == "1.00 [1.00, 1.00]"


def test_tau_of_many_texts_is_that_of_scipy(lstm, few):
    alpha = classify_all(lstm, few).attention
    other = CHAPTER.gradients(lstm, few).round(decimals=3)  # with ties
    found = CHAPTER.tau(alpha, other, few.mask)
    for row, real in enumerate(few.mask[:40]):
        pair = (scores[row][real].double().detach().numpy() for scores in (alpha, other))
        assert found[row].item() == pytest.approx(kendalltau(*pair).statistic, abs=1e-5)


def test_overlap_counts_the_first_words_that_are_shared():
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    a = torch.tensor([[4.0, 3, 2, 1], [1, 2, 9, 9]])
    b = torch.tensor([[4.0, 1, 2, 3], [2, 1, 9, 9]])
    assert CHAPTER.overlap(a, b, mask, 1).tolist() == [1, 0]
    assert CHAPTER.overlap(a, b, mask, 2).tolist() == [0.5, 1]
    assert CHAPTER.overlap(a, b, mask, 3)[1] == 1, "no more than the text has"


def test_falls_are_those_of_the_words_that_are_left_text_by_text(lstm, few):
    scores = random_scores(few.mask, 3)
    found = CHAPTER.falls(lstm, few, scores)
    for n, real in enumerate(few.mask[:60]):
        words, order = few.ids[n, real], scores[n, real].argsort(descending=True)
        gone = min(-(-len(words) // 5), len(words) - 1)  # a fifth, rounded up; one word stays
        left = words[order[gone:].sort().values]
        whole, rest = (predict(lstm)(ids[None], ids[None] > 0) for ids in (words, left))
        fall = whole - rest if whole >= 0.5 else rest - whole
        assert found[n].item() == pytest.approx(fall.item(), abs=1e-5)
    assert found.std() > 0.02


# --- attention has no sign --------------------------------------------------------------------


@pytest.mark.claim(31)
@pytest.mark.parametrize("source", ["rt", "imdb"])
def test_a_sign_is_worth_more_than_a_size(lstm, few, forty, source):
    """Signed attributions far ahead, and so are random sizes with their sign, from random ones."""
    model, data = (lstm, few) if source == "rt" else (forty[1]["lstm"], forty[0])
    table = CHAPTER.sign_table(model, data, steps=8)

    def ahead(a, b):
        return low(table[a] - table[b])

    assert ahead("integrated gradients, signed", "attention") > 0.1
    assert ahead("random, sign of IG", "random") > 0.1
    assert ahead("attention, sign of IG", "attention") > 0.05
    assert ahead("attention, sign of IG", "random, sign of IG") > 0.05, "its sizes are good"
    without = table["integrated gradients, size"] - table["attention"]
    assert high(without) < 0.06, "without its sign it has no such lead"


@pytest.mark.slow
@pytest.mark.claim(31)
@pytest.mark.parametrize(
    "name",
    ["rt-lstm-2"]
    + [
        pytest.param(name, marks=pytest.mark.long)
        for name in ("rt-lstm-3", "rt-lstm-4", "rt-lstm-5", "imdb-lstm-2")
    ],
)
def test_the_sign_counts_with_every_seed_and_unsigned_sizes_have_no_fixed_order(name, few, forty):
    model, data = classifier(name).model, few if name.startswith("rt") else forty[0]
    table = CHAPTER.sign_table(model, data, steps=8)
    minus = {row: values - table["attention"] for row, values in table.items()}
    assert low(minus["integrated gradients, signed"]) > 0.15
    assert low(minus["attention, sign of IG"]) > 0.05
    for row in ("random, sign of IG", "integrated gradients, size"):
        assert -0.2 < minus[row].mean() < 0.05, "level with attention, or behind it"


def test_signed_scores_point_to_the_predicted_class(lstm, few):
    """Integrated gradients add up to the way of the predicted class from the empty text."""
    scores = CHAPTER.signed_scores(lstm, few, steps=40)
    zero = lstm.scorer(few.mask)(torch.zeros_like(lstm.embed(few.ids)))
    side = CHAPTER.toward_answer(lstm, few)[:, 0]
    way = (predict(lstm)(few.ids, few.mask) - zero) * side
    found = scores["integrated gradients"].sum(1)
    assert (found - way).abs().median() < 0.01
    assert (side.unique() == torch.tensor([-1.0, 1.0])).all()
    left_out = leave_one_out(predict(lstm), few.ids, few.mask)
    assert torch.equal(scores["leave one out"], side[:, None] * left_out)
    alpha = classify_all(lstm, few).attention.detach().requires_grad_()
    lstm.predictor(classify_all(lstm, few).states)(alpha).sum().backward()
    own = side[:, None] * alpha.grad * alpha.detach()
    y = predict(lstm)(few.ids, few.mask)
    expected = scores["attention × its gradient"] * (y * (1 - y))[:, None]
    torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-3)


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
    for s, i in whole:  # a row that is not averaged gives [SEP] what it gave
        torch.testing.assert_close(merged.attention[..., s, -1], A[..., i, -1])
    assert merged.attention[..., -1].mean() > A[..., -1].mean(), "but the mean of the rows rises"


# --- Jain and Wallace -------------------------------------------------------------------------


@pytest.mark.claim(30)
@pytest.mark.parametrize("source", ["rt", "imdb"])
def test_tau_above_what_is_built_in(lstm, average, few, forty, source):
    """Shuffled weights agree with their own gradient in the average encoder, not in the BiLSTM."""
    data, models = (few, {"lstm": lstm, "average": average}) if source == "rt" else forty
    own, null = {}, {}
    for name, model in models.items():
        alpha = classify_all(model, data).attention
        own[name] = CHAPTER.tau(alpha, CHAPTER.gradients(model, data), data.mask)
        null[name] = CHAPTER.shuffled_null(model, data)
        assert low(own[name] - null[name]) > 0.1, "attention is more than the factor"
    assert low(null["average"]) > 0.3
    assert high(null["lstm"]) < 0.12
    gap = (own["average"] - own["lstm"]).nanmean()
    assert (null["average"] - null["lstm"]).nanmean() > gap / 2, "most of the gap is built in"


@pytest.mark.claim(30)
def test_how_much_is_built_in_depends_on_the_seed(lstm, average, few):
    """The average encoder's τ above its null: once far below the BiLSTM's, twice above it."""

    def above(model):
        alpha = classify_all(model, few).attention
        own = CHAPTER.tau(alpha, CHAPTER.gradients(model, few), few.mask)
        return own - CHAPTER.shuffled_null(model, few)

    seeds = [above(m) for m in (average, *(classifier(f"rt-average-{n}").model for n in (2, 3)))]
    ahead = [seed - above(lstm) for seed in seeds]
    assert high(ahead[1]) < 0 < min(low(ahead[0]), low(ahead[2]))
    assert all(0.1 < seed.nanmean() < 0.4 for seed in seeds)


@pytest.mark.claim(30)
def test_the_order_of_all_words_and_the_first_word_are_two_questions(lstm, few):
    alpha = classify_all(lstm, few).attention
    left_out = leave_one_out(predict(lstm), few.ids, few.mask).abs()
    shares = CHAPTER.gradients(lstm, few)
    assert low(CHAPTER.tau(shares, left_out, few.mask)) > 0.6
    assert high(CHAPTER.tau(alpha, left_out, few.mask)) < 0.4
    by_chance = (1 / few.mask.sum(1)).mean()
    assert low(CHAPTER.overlap(alpha, left_out, few.mask, 1)) > 3 * by_chance
    assert abs(CHAPTER.tau(CHAPTER.l2_gradients(lstm, few), left_out, few.mask).nanmean()) < 0.1


@pytest.mark.claim(30)
def test_significance_grows_with_length_and_tau_does_not(lstm, few):
    from attnlib.explain.faithfulness import kendall

    alpha = classify_all(lstm, few).attention
    found = kendall(alpha, CHAPTER.gradients(lstm, few), few.mask)
    short, *_, long = few.mask.sum(1).argsort(stable=True).split(67)
    assert found.take(long).significant() > found.take(short).significant() + 0.1
    assert found.tau[long].nanmean() < found.tau[short].nanmean() + 0.02


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
def test_shuffling_moves_the_answer_only_where_votes_differ(lstm, average, few, forty):
    for data, one, other in ((few, lstm, average), (forty[0], *forty[1].values())):
        kept, moved = CHAPTER.shuffling(one, data, 30), CHAPTER.shuffling(other, data, 30)
        assert high(kept[0]) < low(moved[0])
        assert low(kept[1]) > high(moved[1]), "copies of the same vote"
    read = classify_all(lstm, few)
    for count in (1, 30):
        shift = permutation_shift(lstm.predictor(read.states), read.attention, few.mask, count)
        assert torch.equal(CHAPTER.shuffling(lstm, few, count)[0], shift)


@pytest.mark.claim(31)
def test_the_states_decide_what_shuffling_moves_and_not_the_weights(lstm, average, few):
    """One encoder's states with the other's weights: the answer moves as with the states' own."""
    models = {"lstm": lstm, "average": average}
    moved = {
        (a, b): CHAPTER.exchanged(models[a], models[b], few)
        for a, b in itertools.product(models, models)
    }
    for name, model in models.items():
        own = CHAPTER.shuffling(model, few)[0]
        torch.testing.assert_close(moved[name, name], own, atol=0.02, rtol=0)
    for weights in models:
        assert low(moved["average", weights]) > 2 * high(moved["lstm", weights])
    assert low(moved["average", "lstm"]) > 3 * high(moved["lstm", "average"])


@pytest.mark.claim(31)
def test_other_attention_gives_the_same_answer_through_the_whole_model(lstm, average, few):
    for model in (lstm, average):
        read = classify_all(model, few)
        follow = model.predictor(read.states)
        other = adversarial_attention(follow, read.attention, few.mask, starts=2, steps=60)
        with torch.no_grad():
            moved = model.classify(few.ids, weights=other.weights).probability
        assert (moved - read.probability).abs().max() <= 0.05 + 1e-5
        pair = (other.weights.numpy(), read.attention.detach().numpy())
        jsd = jensenshannon(*pair, axis=1) ** 2  # scipy: its root
        assert other.jsd.numpy() == pytest.approx(jsd, abs=1e-5)
        votes = (read.states @ model.output.weight[0]).detach()
        best = exact_adversary(votes, model.output.bias.item(), read.attention, few.mask)
        assert (best.jsd >= other.jsd - 1e-5).all()
        assert ((best.weights > 1e-9).sum(1) <= 2).all()
        assert (best.shift <= 0.05 + 1e-9).all()
        above = (best.jsd > 0.5).float().mean()
        assert 0.9 < above, "nearly every sentence …"
        if model is lstm:
            assert above < 1, "… but not every one"


def test_the_row_of_a_table_is_made_of_the_measures(lstm, few):
    data = few.take(slice(0, 30))
    row, alpha = CHAPTER.examine(lstm, data), classify_all(lstm, data).attention
    left_out = leave_one_out(predict(lstm), data.ids, data.mask).abs()
    shares = CHAPTER.gradients(lstm, data)
    for name, pair in {"att": (alpha, left_out), "grad": (shares, left_out)}.items():
        for k, told in ((1, "first word"), (5, "first five")):
            expected = CHAPTER.overlap(*pair, data.mask, k)
            assert torch.equal(row[f"{told}, {name}–LOO"], expected)
    for name, pair in {
        "attention–gradient": (alpha, shares),
        "attention–LOO": (alpha, left_out),
        "gradient–LOO": (shares, left_out),
        "attention–G-L2": (alpha, CHAPTER.l2_gradients(lstm, data)),
    }.items():
        assert torch.equal(row[name], CHAPTER.tau(*pair, data.mask)), name
    assert torch.equal(row["its null"], CHAPTER.shuffled_null(lstm, data))


# --- the reply --------------------------------------------------------------------------------


def test_rightness_is_accuracy(lstm, few):
    assert CHAPTER.right(lstm, few).mean().item() == pytest.approx(accuracy(lstm, few))
    flat = uniform(few.mask)
    assert CHAPTER.right(lstm, few, flat).mean().item() == pytest.approx(accuracy(lstm, few, flat))


@pytest.mark.claim(31)
def test_uniform_attention_is_nearly_as_good(splits):
    """Three seeds of each: a point or two, not more; the interval is as narrow as that."""
    names = [("rt-lstm" + end, "rt-lstm-uniform" + end) for end in ("", "-2", "-3")]
    assert all(classifier(b).model.attention_kind == "uniform" for _, b in names)
    pairs = [[CHAPTER.right(classifier(n).model, splits[2]) for n in pair] for pair in names]
    difference = torch.stack([own - flat for own, flat in pairs]).mean(0)
    assert len(difference) == 1500
    assert -0.01 < low(difference) < 0.01
    assert high(difference) < 0.03


@pytest.mark.claim(31)
def test_seeds_share_what_leaving_out_says_and_not_their_attention(lstm, few):
    models = [lstm, *(classifier(f"rt-lstm-{seed}").model for seed in (2, 3, 4, 5))]
    found = CHAPTER.between(models, few)
    assert all(len(values) == 10 for values in found.values())
    attention, left_out = (found[f"τ {kind}"] for kind in ("attention", "leave one out, size"))
    assert low((left_out - attention).nanmean(0)) > 0.2
    assert attention.nanmean(1).min() < 0.1, "some pairs share nothing beyond flatness"
    assert left_out.nanmean(1).min() > 0.4
    pairs = list(itertools.combinations(range(1, 6), 2))
    of_pair = dict(zip(pairs, attention.nanmean(1).tolist(), strict=True))
    assert min(value for pair, value in of_pair.items() if 3 not in pair) > 0.3
    assert all(high(attention[pairs.index(pair)]) < 0.05 for pair in ((1, 3), (2, 3), (3, 5)))
    nearer = found["JSD, one of them shuffled"] - found["JSD"]
    assert nearer.mean(1).min() < 0.03, "a shuffled map is hardly farther away"


@pytest.mark.claim(31)
def test_a_trained_adversary_looks_farther_away_than_another_seed(lstm, splits):
    test = splits[2]
    found = {
        name: CHAPTER.beside(classifier(f"rt-lstm-{name}").model, lstm, test)
        for name in ("2", "3", "4", "5", "decoy")
    }
    seeds = [found[name] for name in ("2", "3", "4", "5")]
    assert low(found["decoy"][0]) > 3 * max(high(one[0]) for one in seeds)
    assert found["decoy"][1].mean() < max(one[1].mean() for one in seeds) + 0.1
    assert found["decoy"][1].mean() < 0.7, "half of its answers are farther than ε"
    assert -0.04 < found["decoy"][3].mean() < 0
    model = classifier("rt-lstm-decoy").model
    top = test.ids.gather(1, classify_all(model, test).attention.argmax(1, keepdim=True))
    stop = classifier("rt-lstm").tokenizer.words.index(".")
    assert (top == stop).float().mean() > 0.9


def test_the_last_word_comes_first_and_the_others_follow():
    ids = torch.tensor([[5, 6, 7, 0], [8, 0, 0, 0], [4, 3, 2, 1]])
    labels = torch.tensor([0.0, 1, 0])
    moved = CHAPTER.last_word_first(Examples(ids, ids > 0, labels))
    assert moved.ids.tolist() == [[7, 5, 6, 0], [8, 0, 0, 0], [1, 4, 3, 2]]
    assert torch.equal(moved.mask, ids > 0)
    assert torch.equal(moved.labels, labels)


@pytest.mark.claim(31)
def test_the_adversary_looks_at_the_last_place_whatever_stands_there(splits):
    """With the full stop at the front, its weight stays behind."""
    test, stop = splits[2], classifier("rt-lstm").tokenizer.words.index(".")
    last = test.mask.sum(1, keepdim=True) - 1
    stops = test.take(test.ids.gather(1, last)[:, 0] == stop)
    assert len(stops) > 1_000
    moved, at_end = CHAPTER.last_word_first(stops), stops.mask.sum(1, keepdim=True) - 1
    assert (moved.ids[:, 0] == stop).all()
    assert (moved.ids.gather(1, at_end) == stop).float().mean() < 0.1
    decoy = classify_all(classifier("rt-lstm-decoy").model, moved).attention
    assert decoy[:, 0].mean() < 0.01
    assert decoy.gather(1, at_end).mean() > 0.9


@pytest.mark.claim(31)
def test_honest_maps_are_worth_more_than_shuffled_ones_and_differ_among_themselves():
    """Words of a network that knows no context: five maps on sentences, two on reviews."""
    accuracies = pretrained.card("guided")["accuracy"]
    gains = {
        source: {row: np.array(values) - rows["uniform"] for row, values in rows.items()}
        for source, rows in accuracies.items()
    }
    for source, networks, maps in (("rotten_tomatoes", 8, 5), ("imdb", 3, 2)):
        found = gains[source]
        assert {len(values) for values in found.values()} == {networks}
        honest = {row: gain for row, gain in found.items() if row.startswith("BiLSTM")}
        assert len(honest) == maps
        assert min(gain.min() for gain in honest.values()) > found["shuffled"].max() + 0.01
        assert max(accuracies[source]["decoy"]) < 0.55, "the adversary's are worth nothing"
    means = np.array([gains["rotten_tomatoes"][row].mean() for row in honest_rows(accuracies)])
    assert (means > 0).sum() == 4, "not every map beats even weights"
    assert 0 < means.mean() < 0.02
    assert means.std(ddof=1) > 2 * gains["rotten_tomatoes"]["BiLSTM"].std(ddof=1) / 8**0.5
    assert min(gains["imdb"]["BiLSTM"].min(), gains["imdb"]["BiLSTM 2"].min()) > 0.03


def honest_rows(accuracies):
    return [row for row in accuracies["rotten_tomatoes"] if row.startswith("BiLSTM")]


@pytest.mark.claim(31)
def test_a_hiding_model_uses_what_it_does_not_seem_to_see(lstm, average, splits):
    """More than as many other words: the control."""
    train, _, test = splits
    touched = test.take(impermissible_mask(test, train, 300).any(1))
    marked = impermissible_mask(touched, train, 300)
    keep = (marked.sum(1) < touched.mask.sum(1)).nonzero()[:, 0]
    touched, marked = touched.take(keep), impermissible_mask(touched.take(keep), train, 300)
    mass, right, fall, control, last = CHAPTER.audit(
        classifier("rt-lstm-hiding").model, touched, marked
    )
    honest = CHAPTER.audit(lstm, touched, marked)
    assert high(mass) < 0.02 < 0.1 < low(honest[0])
    assert low(fall - control) > 0.03
    assert right.mean() > honest[1].mean() - 0.04
    assert last.mean() > 0.9
    ids, mask = select(touched.ids, touched.mask, ~marked)
    with torch.no_grad():
        without = (classifier("rt-lstm-hiding").model(ids, mask) > 0) == (touched.labels > 0.5)
    assert (right - fall).mean().item() == pytest.approx(without.float().mean().item())


# --- from heads to one map --------------------------------------------------------------------


@pytest.fixture(scope="module")
def former(splits):
    return classifier("rt-transformer").model


@pytest.mark.claim(29)
def test_every_scheme_is_ranked_and_the_best_beats_chance(former, splits):
    """Chosen on other texts than it is tested on."""
    chosen_on, tested = (part.take(slice(0, 100)) for part in splits[1:])
    every = CHAPTER.scheme_scores(former, chosen_on)
    assert len(every) == 5 * 6 * 4
    fall = {}
    for key, scores in every.items():
        assert scores.isfinite().all()
        assert (scores[~chosen_on.mask] == 0).all()
        fall[key] = CHAPTER.falls(former, chosen_on, scores).mean()
    best = max(fall, key=fall.get)
    found = CHAPTER.falls(former, tested, CHAPTER.scheme_scores(former, tested)[best])
    assert low(found - CHAPTER.falls(former, tested, random_scores(tested.mask))) > 0.05
    assert max(fall.values()) > min(fall.values()) + 0.1


@pytest.mark.claim(29)
def test_signed_attributions_are_ahead_of_every_scheme(former, splits):
    """Even of the best of 120 by hindsight; without signs they are not."""
    data = splits[2].take(slice(0, 150))
    fall = {
        key: CHAPTER.falls(former, data, scores)
        for key, scores in CHAPTER.scheme_scores(former, data).items()
    }
    best = max(fall, key=lambda key: fall[key].mean())
    plain, signed = CHAPTER.transformer_scores(former, data, best, steps=8)
    along = CHAPTER.falls(former, data, signed["integrated gradients"])
    own = CHAPTER.falls(former, data, signed["attention × its gradient"])
    assert low(along - fall[best]) > 0.2
    assert low(own - fall[best]) > 0.1
    sizes = CHAPTER.falls(former, data, signed["integrated gradients"].abs())
    assert high(sizes - fall[best]) < 0.1
    chance = CHAPTER.falls(former, data, random_scores(data.mask))
    row = CHAPTER.falls(former, data, plain["[CLS] row, last layer"])
    assert high(row - chance) < 0.06, "no better than chance in this model"
    assert set(plain) == {"best scheme", "[CLS] row, last layer", "rollout", "flow"}


@pytest.mark.claim(29)
def test_the_last_row_from_cls_is_near_chance_in_three_models(former, splits):
    """Far behind signed integrated gradients, and behind random sizes that borrow their sign."""
    data = splits[2].take(slice(0, 200))
    for model in (former, *(classifier(f"rt-transformer-{seed}").model for seed in (2, 3))):
        maps = model.maps(data.ids, data.mask)
        row = CHAPTER.scheme(maps, data, 1, "mean", "from_first")
        torch.testing.assert_close(row, maps[:, 1].mean(1)[:, 0, 1:] * data.mask)
        chance = [CHAPTER.falls(model, data, random_scores(data.mask, s)) for s in range(5)]
        minus = CHAPTER.falls(model, data, row) - torch.stack(chance).mean(0)
        assert -0.06 < minus.mean() < 0.12


@pytest.mark.claim(29)
def test_attention_times_its_gradient_is_a_derivative(former, splits):
    """All weights on one token times 1 ± ε, in all layers: the answer changes at this rate."""
    data = splits[2].take(slice(2, 3))
    scores = CHAPTER.attention_gradient(former, data)

    def answer(t, factor):
        def scaled(pattern):
            pattern = pattern.clone()
            pattern[..., t + 1] *= factor  # [CLS] stands in front
            return pattern

        edits = {("pattern", layer): scaled for layer in range(former.encoder.config.layers)}
        with torch.no_grad():
            return former(data.ids, data.mask, edits).sigmoid().item()

    for t in (0, 3, data.ids.shape[1] - 1):
        slope = (answer(t, 1.01) - answer(t, 0.99)) / 0.02
        assert scores[0, t].item() == pytest.approx(slope, abs=2e-4, rel=0.02)
    assert scores.min() < 0 < scores.max(), "it has a sign"


# --- the table at the end ---------------------------------------------------------------------


def numbers(text):
    """Numbers as they are printed, with their sign."""
    return re.findall(r"[-+−]?\d*\.\d+", text.replace("−", "-"))


def test_the_table_prints_the_numbers_that_were_computed():
    """Each line that the cell before the table prints, number by number, in the table's cells."""
    notebook = nbformat.read(CHAPTERS / f"{NAME}.ipynb", as_version=nbformat.NO_CONVERT)
    (cell,) = [c for c in notebook.cells if c.id == "a07facts0"]
    facts = dict(line.split(": ", 1) for line in cell.outputs[0].text.strip().splitlines())
    (table,) = [c.source for c in notebook.cells if c.source.startswith("## What can be claimed")]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    keys = ("order", "side", "change", "needed", "seeds", "elsewhere", "use", "shows")
    keys += ("brackets", "transformer")
    assert len(rows) == len(keys)
    for key, (_, for_it, against, _) in zip(keys, rows, strict=True):
        for printed, told in ((for_it, facts.get(key)), (against, facts.get(f"{key} against"))):
            expected = [f"{float(n):g}" for n in numbers(told or "")]
            assert [f"{float(n):g}" for n in numbers(printed)] == expected, key
    assert len(facts) >= 17
