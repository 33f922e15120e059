"""Classifiers with attention: what they weigh, what they see, and the trace of one text."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from attnlib.models import AttentionClassifier, TransformerClassifier
from attnlib.tokenizers import pad
from attnlib.tokenizers.words import PAD

SETTINGS = list(itertools.product(("lstm", "average", "cnn"), ("additive", "dot", "uniform")))
IDS = pad([[3, 4, 5, 6, 7], [8, 9], [10], [3, 4, 5]])


def transformer(**options):
    torch.manual_seed(0)
    return TransformerClassifier(20, 16, layers=2, heads=2, d_ff=32, max_len=8, **options).eval()


def built(encoder="lstm", attention="additive", **options):
    torch.manual_seed(0)
    return AttentionClassifier(20, 8, 6, encoder, attention, **options).double().eval()


@pytest.mark.parametrize(("encoder", "attention"), SETTINGS)
def test_weights_are_a_distribution_over_the_real_tokens(encoder, attention):
    found = built(encoder, attention).classify(IDS)
    torch.testing.assert_close(found.attention.sum(-1), torch.ones(4, dtype=torch.float64))
    assert (found.attention[IDS == PAD] == 0).all()
    assert found.states.shape == (4, 5, 12 if encoder == "lstm" else 6)
    assert ((found.probability > 0) & (found.probability < 1)).all()


@pytest.mark.parametrize(("encoder", "attention"), SETTINGS)
def test_padding_changes_nothing(encoder, attention):
    model = built(encoder, attention)
    together = model.classify(F.pad(IDS, (0, 3)))
    for i, length in enumerate((IDS != PAD).sum(1).tolist()):
        alone = model.classify(IDS[i : i + 1, :length])
        torch.testing.assert_close(together.logits[i : i + 1], alone.logits)
        torch.testing.assert_close(together.attention[i, :length], alone.attention[0])


@pytest.mark.parametrize("encoder", ["lstm", "average", "cnn"])
def test_the_logit_is_the_weighted_sum_of_states_classified(encoder):
    model = built(encoder)
    found = model.classify(IDS)
    context = torch.einsum("bt,btd->bd", found.attention, found.states)
    expected = (context @ model.output.weight.T + model.output.bias).squeeze(-1)
    torch.testing.assert_close(found.logits, expected)
    torch.testing.assert_close(model.logits_from(found.attention, found.states), expected)
    many = found.attention.expand(7, 4, 5)
    assert model.logits_from(many, found.states).shape == (7, 4)


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_the_scores_are_those_of_the_formula(attention):
    model = built("average", attention)
    states = model.classify(IDS[:1]).states[0]
    if attention == "additive":
        scores = torch.tanh(states @ model.align.weight.T + model.align.bias) @ model.v
    else:
        scores = torch.stack([h @ model.q for h in states]) / states.shape[-1] ** 0.5
    torch.testing.assert_close(model.classify(IDS[:1]).attention[0], scores.softmax(0))


def test_how_far_each_encoder_sees():
    moved = {}
    for encoder in ("lstm", "average", "cnn"):
        model = built(encoder, kernel=3)
        other = IDS[:1].clone()
        other[0, 0] = 19
        moved[encoder] = (model.classify(IDS[:1]).states != model.classify(other).states).any(-1)[0]
    assert moved["average"].tolist() == [True, False, False, False, False]
    assert moved["cnn"].tolist() == [True, True, False, False, False]
    assert moved["lstm"].all()


def test_given_weights_replace_the_models_own():
    model = built()
    weights = (IDS != PAD) / (IDS != PAD).sum(1, keepdim=True)
    uniform = built(attention="uniform")
    uniform.load_state_dict(model.state_dict(), strict=False)
    assert torch.equal(model.classify(IDS, weights=weights).attention, weights)
    torch.testing.assert_close(model(IDS, weights=weights.double()), uniform(IDS))
    frozen = built("average", "given")
    assert frozen(IDS, weights=weights).shape == (4,)
    with pytest.raises(ValueError, match="pass weights"):
        frozen(IDS)


def test_detached_attention_has_no_gradient_of_its_own():
    model = built("average")
    x = model.embed(IDS[:1]).detach().requires_grad_()
    mask = IDS[:1] != PAD
    free = torch.autograd.grad(model.scorer(mask)(x).sum(), x)[0]
    cut = torch.autograd.grad(model.scorer(mask, detach=True)(x).sum(), x)[0]
    alpha = model.classify(IDS[:1]).attention.detach()
    fixed = torch.autograd.grad(model.scorer(mask, weights=alpha)(x).sum(), x)[0]
    torch.testing.assert_close(cut, fixed)
    assert not torch.allclose(cut, free)


def test_an_empty_text_gives_the_bias():
    for encoder in ("lstm", "average", "cnn"):
        model = built(encoder)
        torch.testing.assert_close(model(torch.zeros(1, 3, dtype=torch.int64)), model.output.bias)


def test_the_trace_has_one_destination():
    model = built()
    trace = model.trace(IDS[0], list("abcde"), keep="all")
    assert trace.tokens == ("prediction",)
    assert trace.sources == tuple("abcde")
    assert trace.pattern.shape == (1, 1, 1, 5)
    found = model.classify(IDS[:1])
    torch.testing.assert_close(trace.pattern[0, 0, 0], found.attention[0])
    torch.testing.assert_close(trace.logits[0], found.logits)
    torch.testing.assert_close(trace.v[0], found.states)
    torch.testing.assert_close(trace.final, found.attention @ found.states[0])
    assert trace.q is trace.resid_pre is trace.head_outputs is None  # it has none
    given = torch.tensor([0.0, 0, 1, 0, 0], dtype=torch.float64)
    elsewhere = model.trace(IDS[0], keep=("v", "final"), weights=given)
    assert elsewhere.sources == tuple("34567")
    assert torch.equal(elsewhere.pattern[0, 0, 0], given)
    assert torch.equal(elsewhere.final[0], elsewhere.v[0, 0, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "rnn"}, "encoder must be one of"),
        ({"attention": "sparse"}, "attention must be one of"),
        ({"kernel": 4}, "odd"),
    ],
)
def test_wrong_settings_say_what_there_is(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionClassifier(20, **options)


def test_padding_in_front_is_refused():
    with pytest.raises(ValueError, match="only at the end"):
        built()(torch.tensor([[0, 3, 4]]))


@pytest.mark.parametrize("build", [transformer, built])
def test_a_trace_has_no_dropout_and_keeps_the_mode(build):
    model = build(dropout=0.5)
    expected = model.trace(IDS[0], keep="logits").logits
    model.train()
    assert torch.equal(model.trace(IDS[0], keep="logits").logits, expected)
    assert model.training
    with pytest.raises(ValueError, match="one text of at least one token"):
        model.trace(IDS)
    with pytest.raises(ValueError, match="keep names"):
        model.trace(IDS[0], keep="states")
