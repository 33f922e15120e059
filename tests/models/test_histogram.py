"""The histogram task: the model, its two minima, and counting in few dimensions."""

import itertools
import math
from collections import Counter

import pytest
import torch
from each import each

from attnlib import pretrained
from attnlib.models.histogram import (
    MIXERS,
    HistogramModel,
    SmallCounter,
    accuracy,
    count_loss,
    fresh,
    map_facts,
    symbol_ids,
)
from attnlib.training.loop import fit

MINIMA = ("semantic", "positional")


def counts(ids):
    """The labels, counted by the standard library."""
    rows = [(row, Counter(row)) for row in ids.tolist()]
    return torch.tensor([[count[symbol] for symbol in row] for row, count in rows])


def rows(n=2000, seed=999, length=10, symbols=15):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(symbols, (n, length), generator=generator)


def built(seed=0, **config):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return HistogramModel(**config).eval()


def weights_of(model, ids):
    with torch.no_grad():
        return model.attend(model.embed(ids))[1]


def by_the_book(model, ids, mask):
    """Logits of one row from the description, place by place, with loops."""
    parts = {key: value.double() for key, value in model.state_dict().items()}
    d = parts["W_E"].shape[1]
    half = torch.arange(d) < d // 2
    tokens, places = parts["W_E"][ids], parts["W_P"][: len(ids)]
    if model.sees != "free":
        tokens, places = tokens * half, places * ~half
    x = tokens + places
    q, k = x * mask @ parts["W_Q"], x * mask @ parts["W_K"]
    out = []
    for s in range(len(ids)):
        top = [math.exp(float(q[s] @ k[t]) / math.sqrt(d)) for t in range(len(ids))]
        mixed = sum(w / sum(top) * (x[t] @ parts["W_V"]) for t, w in enumerate(top))
        z = (mixed - mixed.mean()) / (mixed.var(unbiased=False) + 1e-5).sqrt()
        z = z * parts["norm.weight"] + parts["norm.bias"]
        hidden = (z @ parts["W_1"] + parts["b_1"]).clamp(min=0)
        out.append(hidden @ parts["W_2"] + parts["b_2"])
    return torch.stack(out)


# --- the model --------------------------------------------------------------------------------


@each("sees", ["free", "semantic", "positional"])
@torch.no_grad()
def test_the_model_is_that_of_its_description(sees):
    model = built(sees=sees)
    half = (torch.arange(64) < 32).double()
    mask = {"free": torch.ones(64), "semantic": half, "positional": 1 - half}[sees].double()
    ids = rows(1)[0]
    torch.testing.assert_close(
        model(ids[None])[0].double(), by_the_book(model, ids, mask), atol=1e-4, rtol=0
    )


@each("mixer", MIXERS)
@torch.no_grad()
def test_the_small_counter_is_that_of_its_description(mixer):
    model = SmallCounter(mixer=mixer, d_model=6, d_hidden=3)
    ids = rows(1)[0]
    x = model.W_E[ids]
    scores = (x @ model.W_Q) @ (x @ model.W_K).T / 6**0.5 if "dot" in mixer else model.mix
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True) if "softmax" in mixer else scores
    hidden = torch.clamp((x + weights @ x) @ model.W_1 + model.b_1, min=0)
    expected = hidden @ model.W_2 + model.b_2
    torch.testing.assert_close(model(ids[None])[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights_of(model, ids[None])[0], weights, atol=1e-5, rtol=0)


def test_what_attention_does_not_see_moves_no_map():
    one, other = rows(50, seed=1), rows(50, seed=2)
    positional, semantic = built(sees="positional"), built(sees="semantic")
    assert torch.equal(weights_of(positional, one), weights_of(positional, other))
    order = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    moved = weights_of(semantic, one)[:, order][:, :, order]
    torch.testing.assert_close(weights_of(semantic, one[:, order]), moved, atol=1e-6, rtol=0)
    free = built()
    assert not torch.equal(weights_of(free, one), weights_of(free, other))
    assert not torch.allclose(positional(one), positional(other), atol=1e-2)  # the values do see


@each("sees", ["free", "semantic", "positional"])
def test_unfreeze_keeps_the_function_and_opens_everything(sees):
    model, ids = built(sees=sees, d_model=8, d_hidden=5), rows(20)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    free = model.unfreeze()
    assert free.sees == "free"
    torch.testing.assert_close(free(ids), model(ids), atol=1e-5, rtol=0)
    torch.testing.assert_close(weights_of(free, ids), weights_of(model, ids), atol=1e-6, rtol=0)
    zeros = {"free": 0, "semantic": 4, "positional": 4}[sees]
    assert (free.W_Q == 0).all(1).sum() == (free.W_K == 0).all(1).sum() == zeros
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    with torch.no_grad():
        for weight in (free.W_Q, free.W_K, free.W_E, free.W_P):
            weight.add_(1e-3)
    fit(free, fresh(16), count_loss, steps=2, progress=False)
    assert (free.W_Q != 0).all()
    assert (free.W_E != 0).all()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_no_residual_a_uniform_map_gives_one_answer():
    model, ids = built(), rows(20)
    with torch.no_grad():
        x = model.embed(ids)
        answers = model.readout(torch.full((10, 10), 0.1) @ (x @ model.W_V))
    torch.testing.assert_close(answers, answers[:, :1].expand_as(answers), atol=1e-5, rtol=0)


def test_trace_tells_what_forward_does():
    model, ids = built(), symbol_ids("DATAIAIAIA")
    trace = model.trace(ids, list("DATAIAIAIA"), keep="all")
    assert trace.tokens == tuple("DATAIAIAIA")
    assert trace.attention.shape == (1, 1, 10, 10)
    torch.testing.assert_close(trace.logits, model(ids[None])[0])
    mixed = trace.attention[0, 0] @ trace.values[0, 0]
    torch.testing.assert_close(model.readout(mixed), trace.logits)
    assert model.trace(ids).tokens == tuple("1030202020")
    assert not trace.logits.requires_grad


def test_short_rows_are_read_and_long_ones_refused():
    model = built()
    assert model(torch.tensor([[1, 2, 3]])).shape == (1, 3, 11)
    with pytest.raises(ValueError, match="at most 10 positions, got 11"):
        model(rows(1, length=11))


@each(
    "kind, config, message",
    [
        (HistogramModel, {"sees": "both"}, "sees must be one of"),
        (HistogramModel, {"sees": "semantic", "d_model": 5}, "must be even: 5"),
        (
            SmallCounter,
            {"d_model": 4, "d_hidden": 1, "mixer": "sum"},
            r"mixer must be one of \('dot', 'dot \+ softmax'",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(kind, config, message):
    with pytest.raises(ValueError, match=message):
        kind(**config)


def test_symbol_ids():
    assert symbol_ids("zaza!").tolist() == [2, 1, 2, 1, 0]
    with pytest.raises(ValueError, match="1 to 15 different symbols"):
        symbol_ids("abcdefghijklmnop")
    with pytest.raises(ValueError, match="1 to 15"):
        symbol_ids("")


def test_fresh_rows_are_new_and_repeatable():
    batch = fresh(64, seed=3)
    ids, labels = batch(0)
    assert ids.shape == (64, 10)
    assert set(ids.unique().tolist()) == set(range(15))
    assert torch.equal(labels, counts(ids))
    assert torch.equal(batch(0)[0], ids)
    assert not torch.equal(batch(1)[0], ids)
    assert not torch.equal(fresh(64, seed=4)(0)[0], ids)


def test_accuracy_and_loss_count_every_place():
    logits = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]]).expand(5000, -1, -1)
    labels = torch.tensor([[1, 1]]).expand(5000, -1)

    def model(ids):
        return logits[: len(ids)]

    assert accuracy(model, torch.zeros(5000, 2), labels) == 0.5
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))) / 2
    assert count_loss(model, (torch.zeros(5000, 2), labels)).item() == pytest.approx(expected)


def test_map_facts_of_maps_that_are_known():
    class Fixed:
        def embed(self, ids):
            return ids

        def attend(self, ids):
            equal = (ids[:, :, None] == ids[:, None]).float() + torch.eye(3)
            return ids, equal / equal.sum(-1, keepdim=True)

    facts = map_facts(Fixed(), torch.tensor([[1, 1, 2], [1, 1, 2]]))
    assert facts == pytest.approx({"diagonal": 7 / 9, "same": 1 / 3, "other": 0, "moves": 0})
    assert map_facts(Fixed(), torch.tensor([[1, 1, 2], [1, 2, 3]]))["moves"] > 0.05


# --- the two minima ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MINIMA)
def minimum(request):
    return pretrained.load(f"histogram-{request.param}")


@pytest.mark.claim(32)
def test_both_minima_count_fresh_rows(minimum):
    ids = rows(20_000)
    assert accuracy(minimum, ids, counts(ids)) >= 0.998


@pytest.mark.claim(32)
def test_both_minima_answer_the_example(minimum):
    answer = minimum(symbol_ids("DATAIAIAIA")[None])[0].argmax(-1)
    assert answer.tolist() == [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]


@pytest.mark.claim(32)
def test_the_positional_map_is_one_for_all_inputs():
    model = pretrained.load("histogram-positional")
    weights = weights_of(model, rows(3000))
    assert torch.equal(weights, weights[:1].expand_as(weights))
    assert weights_of(pretrained.load("histogram-semantic"), rows(3000)).std(0).max() > 0.05
    facts = map_facts(model, rows(500))
    assert facts["moves"] < 1e-6
    assert facts["diagonal"] > 4 * facts["other"]
    assert facts["same"] == pytest.approx(facts["other"], abs=0.02)  # it cannot know which is which


@pytest.mark.claim(32)
def test_the_semantic_map_weighs_equal_tokens_equally():
    ids = rows(3000)
    weights = weights_of(pretrained.load("histogram-semantic"), ids)
    equal = ids[:, :, None] == ids[:, None]
    largest = weights.masked_fill(~equal, -1).amax(-1)
    smallest = weights.masked_fill(~equal, 2).amin(-1)
    torch.testing.assert_close(largest, smallest, atol=1e-6, rtol=0)
    labels = counts(ids)
    by_count = [largest[labels == c].mean() for c in range(1, 6)]
    assert all(more > less for more, less in itertools.pairwise(by_count))


@pytest.mark.claim(32)
@each("sees", MINIMA)
def test_a_short_training_gets_there(sees):
    model = built(sees=sees)
    fit(model, fresh(64), count_loss, steps=500, lr=1e-2, warmup=50, progress=False)
    ids = rows(4000)
    always_one = (counts(ids) == 1).double().mean().item()
    assert accuracy(model, ids, counts(ids)) > 0.8 > always_one + 0.2


@pytest.mark.claim(32)
@each("lr, seed", [(1e-3, 0), (1e-3, 1), (1e-3, 2), (1e-2, 3)])
def test_both_stay_when_everything_is_set_free(minimum, lr, seed):
    free = minimum.unfreeze().train()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in (free.W_Q, free.W_K, free.W_E, free.W_P):
            weight.add_(1e-3 * torch.randn(weight.shape, generator=generator))
    optimizer, batch = torch.optim.SGD(free.parameters(), lr=lr), fresh(32, seed=seed)
    for step in range(100):
        optimizer.zero_grad()
        count_loss(free, batch(step)).backward()
        optimizer.step()
    ids = rows(4000)
    assert accuracy(free, ids, counts(ids)) > 0.995
    moved = (weights_of(free, ids[:500]) - weights_of(minimum, ids[:500])).abs().max()
    assert 0 < moved < 0.1


# --- counting in few dimensions ---------------------------------------------------------------


@pytest.mark.claim(32)
def test_one_hidden_unit_counts_if_nothing_is_normalised():
    tiny, ids = pretrained.load("histogram-counting"), rows(4000)
    assert len(tiny.b_1) == 1
    assert accuracy(tiny, ids, counts(ids)) > 0.95
    grid = pretrained.card("histogram-counting")["grid"]
    place = grid["d_model"].index(16), grid["d_hidden"].index(1)
    plain, normalised, linear = (
        grid["accuracy"][mixer][place[0]][place[1]]
        for mixer in ("dot", "dot + softmax", "linear + softmax")
    )
    assert plain > max(normalised, linear) + 0.2
