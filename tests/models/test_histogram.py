"""The model of the histogram task; test_chapter_08.py judges those that were trained."""

import math

import pytest
import torch

from attnlib.models import HistogramModel


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


@pytest.mark.parametrize("sees", ["free", "semantic", "positional"])
@torch.no_grad()
def test_the_model_is_that_of_its_description(sees):
    model = built(sees=sees)
    half = (torch.arange(64) < 32).double()
    mask = {"free": torch.ones(64), "semantic": half, "positional": 1 - half}[sees].double()
    ids = rows(1)[0]
    torch.testing.assert_close(
        model(ids[None])[0].double(), by_the_book(model, ids, mask), atol=1e-4, rtol=0
    )


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


def test_no_residual_a_uniform_map_gives_one_answer():
    model, ids = built(), rows(20)
    with torch.no_grad():
        x = model.embed(ids)
        answers = model.readout(torch.full((10, 10), 0.1) @ (x @ model.W_V))
    torch.testing.assert_close(answers, answers[:, :1].expand_as(answers), atol=1e-5, rtol=0)


def test_trace_tells_what_forward_does():
    model, ids = built(), torch.tensor([1, 0, 3, 0, 2, 0, 2, 0, 2, 0])
    trace = model.trace(ids, list("DATAIAIAIA"), keep="all")
    assert trace.tokens == tuple("DATAIAIAIA")
    assert trace.pattern.shape == (1, 1, 10, 10)
    torch.testing.assert_close(trace.logits, model(ids[None])[0])
    z = trace.pattern[0, 0] @ trace.v[0, 0]
    torch.testing.assert_close(model.readout(z), trace.logits)
    assert model.trace(ids).tokens == tuple("1030202020")
    assert not trace.logits.requires_grad


def test_short_rows_are_read_and_long_ones_refused():
    model = built()
    assert model(torch.tensor([[1, 2, 3]])).shape == (1, 3, 11)
    with pytest.raises(ValueError, match="at most 10 positions, got 11"):
        model(rows(1, length=11))


@pytest.mark.parametrize("config", [{"sees": "both"}, {"sees": "semantic", "d_model": 5}])
def test_arguments_that_do_not_fit_are_refused(config):
    with pytest.raises(ValueError, match="must be"):
        HistogramModel(**config)
