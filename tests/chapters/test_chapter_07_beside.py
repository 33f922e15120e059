"""The side roads of chapter 07: two measures, what is built in, and one map of many."""

import itertools

import pytest
import torch
from chapter_code import definitions
from scipy.optimize import linprog

from attnlib.explain.aggregation import rollout
from attnlib.explain.faithfulness import jensen_shannon, kendall, permute, random_scores
from attnlib.explain.heads import interval
from attnlib.explain.saliency import gradient, integrated_gradients, leave_one_out
from attnlib.pretrained import classifier
from attnlib.training.classification import classify_all, predict, read
from recipes.classification import uniform

MEASURES = definitions("more/07_measures", "sizes", "per_word", "shifted", "alike")
BUILT_IN = definitions("more/07_built_in", "sizes")
ONE_MAP = definitions(
    "more/07_one_map",
    *("LAYERS", "HEADS", "READINGS", "one_map", "row_of", "every_scheme", "falls", "flow", "flows"),
)


@pytest.fixture(scope="module")
def rt():
    return read("rotten_tomatoes")


@pytest.fixture(scope="module")
def few(rt):
    return rt[1]["test"].take(slice(0, 100))


def interval_of(end, values):
    """The lower (0) or upper (1) end of the 95 % interval of a mean over texts."""
    return interval(values[~values.isnan()])[end]


# --- two measures -----------------------------------------------------------------------------


@pytest.mark.claim(30)
def test_which_gradient_agrees_with_leaving_out(few):
    lstm = classifier("rt-lstm").model
    left_out = leave_one_out(predict(lstm), few.ids, few.mask).abs()
    assert kendall(MEASURES.sizes(lstm, few), left_out, few.mask).nanmean() > 0.7
    G = gradient(lstm.scorer(few.mask, detach=True), lstm.embed(few.ids))
    for name in ("G-L1", "G-L2"):
        found = kendall(MEASURES.per_word(G)[name], left_out, few.mask)
        assert abs(found.nanmean()) < 0.06


@pytest.mark.claim(25)
@pytest.mark.parametrize("d", [1, 2, 9])
def test_one_number_per_word_is_its_formula(d):
    G = torch.randn(2, 4, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64)
    average, l1, l2 = MEASURES.per_word(G).values()
    for n, t in itertools.product(range(2), range(4)):
        row = G[n, t].tolist()
        assert average[n, t].item() == pytest.approx(sum(row) / d)
        assert l1[n, t].item() == pytest.approx(sum(map(abs, row)) / d)
        assert l2[n, t].item() == pytest.approx(sum(g * g for g in row) ** 0.5)
    assert (l2 <= d * l1 + 1e-12).all(), "‖∇‖₂ ≤ ‖∇‖₁"
    assert (d**0.5 * l1 <= l2 + 1e-12).all(), "‖∇‖₁ ≤ √d ‖∇‖₂"


@pytest.mark.claim(31)
def test_the_states_decide_what_shuffling_moves_and_not_the_weights(few):
    models = {name: classifier(f"rt-{name}").model for name in ("lstm", "average")}
    pairs = itertools.product(models, models)
    moved = {(a, b): MEASURES.shifted(models[a], models[b], few, 30) for a, b in pairs}
    for weights in models:
        assert interval(moved["average", weights])[0] > 2 * interval(moved["lstm", weights])[1]
    assert MEASURES.alike(models["lstm"], few).mean() > 0.85
    assert MEASURES.alike(models["average"], few).mean() < 0.65


def test_uniform_weights_cannot_be_shuffled(few):
    even = classifier("rt-lstm-uniform").model
    assert MEASURES.shifted(even, even, few, 3).max() < 1e-6


@pytest.mark.claim(31)
def test_the_decoy_answers_nearly_as_its_base_and_looks_at_the_last_position(rt):
    """As the chapter says of it."""
    test = rt[1]["test"].take(slice(0, 500))
    base, rival = (classify_all(classifier(f"rt-lstm{e}").model, test) for e in ("", "-decoy"))
    right = [((one.logits > 0) == (test.labels > 0.5)).float() for one in (base, rival)]
    assert -0.04 < (right[1] - right[0]).mean() < 0
    other = classify_all(classifier("rt-lstm-3").model, test)
    far, seeds = (jensen_shannon(base.attention, one.attention) for one in (rival, other))
    assert interval(far)[0] > 3 * interval(seeds)[1], "far more than another seed does"
    last = test.mask.sum(1, keepdim=True) - 1
    assert rival.attention.gather(1, last).mean() > 0.9


# --- what is built in -------------------------------------------------------------------------


@pytest.mark.claim(24)
def test_sizes_are_gradients_of_each_text_with_the_weights_held_fixed(rt):
    lstm, data = classifier("rt-lstm").model, rt[1]["test"].take(slice(0, 20))
    for weights in (None, uniform(data.mask)):
        found = BUILT_IN.sizes(lstm, data, weights)
        for row in (0, 6, 19):
            ids = data.ids[row : row + 1, : int(data.mask[row].sum())]
            with torch.no_grad():
                alpha = lstm.classify(ids).attention
            if weights is not None:
                alpha = torch.full_like(alpha, 1 / ids.shape[1])
            x = lstm.embed(ids).detach().requires_grad_()
            lstm.classify_embeddings(x, ids > 0, weights=alpha).probability.sum().backward()
            size = (x.grad * x.detach()).sum(-1).abs()[0]
            torch.testing.assert_close(found[row, : ids.shape[1]], size, atol=1e-6, rtol=1e-3)
            assert (found[row, ids.shape[1] :] == 0).all()


@pytest.mark.claim(30)
@pytest.mark.parametrize(
    "name",
    [
        "rt-average",
        *(pytest.param(f"rt-average-{seed}", marks=pytest.mark.long) for seed in (2, 3)),
    ],
)
def test_what_is_built_in_and_what_is_left_without_it(name, rt, few):
    """Shuffled weights agree with their own gradient; with the factor divided out they do not."""

    def taus(model, weights):
        size = BUILT_IN.sizes(model, few, weights)
        divided = size / weights.clamp_min(1e-9)
        return [kendall(weights, of, few.mask) for of in (size, divided)]

    average, lstm = classifier(name).model, classifier("rt-lstm").model
    mixed = lambda model: permute(  # noqa: E731
        classify_all(model, few).attention, few.mask, torch.Generator().manual_seed(0)
    )
    own, left = taus(average, classify_all(average, few).attention)
    null, nothing = taus(average, mixed(average))
    count = torch.bincount(rt[1]["train"].ids.flatten(), minlength=len(rt[0]))
    rare = few.mask / (count[few.ids] + 5)
    by_rarity = taus(average, rare / rare.sum(1, keepdim=True))[1]
    assert 0.2 < interval_of(0, by_rarity)
    assert interval_of(1, by_rarity) < interval_of(0, left), "rarity agrees too, but less"
    assert interval_of(0, null) > 0.2
    assert interval_of(1, taus(lstm, mixed(lstm))[0]) < 0.12
    assert interval_of(0, own - null) > 0.1
    assert interval_of(0, left) > 0.4
    assert abs(nothing.nanmean()) < 0.05


# --- one map ----------------------------------------------------------------------------------


def drawn_maps(texts=3, size=5):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(texts, 2, 4, size, size, generator=generator).softmax(-1)


@pytest.mark.claim(29)
def test_one_map_is_its_formula():
    maps = drawn_maps()
    mean = maps.mean(2)
    torch.testing.assert_close(ONE_MAP.one_map(maps, "mean", "mean"), (mean[:, 0] + mean[:, 1]) / 2)
    torch.testing.assert_close(ONE_MAP.one_map(maps, "product", "mean"), mean[:, 1] @ mean[:, 0])
    assert torch.equal(ONE_MAP.one_map(maps, 1, 2), maps[:, 1, 2])
    assert torch.equal(ONE_MAP.one_map(maps, "max", "max"), maps.amax((1, 2)))
    for layer, head in itertools.product(("mean", "product", 1), ("mean", 1)):
        rows = ONE_MAP.one_map(maps, layer, head).sum(-1)
        torch.testing.assert_close(rows, torch.ones(3, 5))


@pytest.mark.claim(29)
def test_a_map_is_read_off_in_four_ways_and_padding_does_not_count():
    A = drawn_maps(1)[:, 0, 0]
    whole, short = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[True, True, False, False]])
    found = {how: ONE_MAP.row_of(A, how, whole)[0] for how in ONE_MAP.READINGS}
    assert torch.equal(found["from [CLS]"], A[0, 0, 1:])
    assert torch.equal(found["to [CLS]"], A[0, 1:, 0])
    torch.testing.assert_close(found["column mean"], A[0].mean(0)[1:])
    assert torch.equal(found["column max"], A[0].amax(0)[1:])
    for how in ONE_MAP.READINGS:
        cut = ONE_MAP.row_of(A[:, :3, :3], how, whole[:, :2])
        padded = ONE_MAP.row_of(A, how, short)
        torch.testing.assert_close(padded, torch.cat([cut, torch.zeros(1, 2)], 1))


@pytest.mark.long
@pytest.mark.claim(29)
def test_every_scheme_is_ranked_and_signed_scores_are_ahead_of_the_best(rt):
    """Chosen on other texts than it is tested on."""
    former = classifier("rt-transformer").model
    chosen_on, tested = (rt[1][part].take(slice(0, 100)) for part in ("validation", "test"))
    every = ONE_MAP.every_scheme(former, chosen_on)
    assert len(every) == 5 * 6 * 4
    fall = {key: ONE_MAP.falls(former, chosen_on, s).mean() for key, s in every.items()}
    assert max(fall.values()) > min(fall.values()) + 0.1, "the choice decides"
    best = ONE_MAP.every_scheme(former, tested)[max(fall, key=fall.get)]
    fell = ONE_MAP.falls(former, tested, best)
    chance = ONE_MAP.falls(former, tested, random_scores(tested.mask))
    assert interval(fell - chance)[0] > 0.05
    score, x = former.scorer(tested.mask), former.embed(tested.ids)
    side = (predict(former)(tested.ids, tested.mask) >= 0.5)[:, None] * 2.0 - 1
    along = side * integrated_gradients(score, x, steps=8)[:, 1:]
    assert interval(ONE_MAP.falls(former, tested, along) - fell)[0] > 0.2
    assert interval(ONE_MAP.falls(former, tested, along.abs()) - fell)[1] < 0.12


def test_flow_is_the_largest_by_linear_programming():
    """Over the edges of the network: what enters a node leaves it."""
    A = (2 * torch.randn(2, 2, 3, 3, generator=torch.Generator().manual_seed(4))).softmax(-1)
    W = A.mean(1) / 2 + torch.eye(3) / 2
    edges = [(k, u, t) for k in range(2) for t in range(3) for u in range(3)]  # from u to t
    for source in range(3):
        widths = [W[k, t, u].item() for k, u, t in edges]
        open_to = [(k == 1 or u == source) and (k == 0 or t == 0) for k, u, t in edges]
        bounds = [(0, width * is_open) for width, is_open in zip(widths, open_to, strict=True)]
        balance = [
            [(k == 0 and t == node) - (k == 1 and u == node) for k, u, t in edges]
            for node in range(3)
        ]
        gain = [-(k == 1 and t == 0) for k, u, t in edges]
        best = linprog(gain, A_eq=balance, b_eq=[0] * 3, bounds=bounds)
        assert ONE_MAP.flow(A)[source].item() == pytest.approx(-best.fun, abs=1e-5)


@pytest.mark.claim(29)
def test_flows_are_found_text_by_text_and_rank_much_as_rollout_does(few):
    former, data = classifier("rt-transformer").model, few.take(slice(0, 20))
    maps = former.maps(data.ids, data.mask)
    found = ONE_MAP.flows(maps, data.mask)
    assert (found[~data.mask] == 0).all()
    alone = data.take(slice(4, 5))
    again = ONE_MAP.flows(former.maps(alone.ids, alone.mask), alone.mask)[0]
    torch.testing.assert_close(found[4, : len(again)], again, atol=1e-4, rtol=0)
    assert kendall(found, rollout(maps)[:, -1, 0, 1:], data.mask).nanmean() > 0.3
