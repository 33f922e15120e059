"""Layer-wise relevance: the rules by their definitions, conservation, and a second way there."""

import pytest
import torch

from attnlib.models import Translator
from recipes.pruning import gate_gradients, norms_fixed
from recipes.relevance import alpha_beta_rule, relevance, z_rule

RULES = [z_rule, alpha_beta_rule]


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def translator(shift=0.3, **changes):
    """Small, with shifts in its norms unless shift is 0."""
    torch.manual_seed(0)
    settings = {"d_model": 12, "heads": 3, "layers": 2, "d_ff": 20, "positions": "rotary"}
    model = Translator(9, 8, **settings | {"activation": "relu"} | changes).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                change = shift if name.endswith("bias") else 0.3
                parameter += change * torch.randn_like(parameter)
    return model


def pair():
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(3, 9, (4, 6), generator=generator)
    target = torch.randint(3, 8, (4, 6), generator=generator)
    source[1, 4:] = target[2, 4:] = 0
    return source, target


def by_hand(rule, x, W, R, b):
    """The rules as they are printed, one pair at a time."""
    shared = torch.zeros(len(x)).double()
    for j in range(len(R)):
        parts = [(x[i] * W[i, j]).item() for i in range(len(x))]
        everything = [*parts, b[j].item()]
        if rule is z_rule:
            shared += torch.tensor([p / sum(everything) for p in parts]) * R[j]
            continue
        up, down = sum(p for p in everything if p > 0), sum(p for p in everything if p < 0)
        half = 0.5 if up and down else 1.0
        fractions = [half * p / (up if p > 0 else down) if p else 0.0 for p in parts]
        shared += torch.tensor(fractions) * R[j]
    return shared


@pytest.mark.claim(68)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["mixed", "biased", "one sign"])
def test_a_rule_is_what_its_formula_says(rule, kind):
    x, W, R = numbers(0, 5), numbers(1, 5, 3), numbers(2, 3)
    b = numbers(3, 3) if kind == "biased" else torch.zeros(3).double()
    if kind == "one sign":
        x, W = x.abs(), W.abs()
    found = rule(x, W, R, b if kind == "biased" else None)
    torch.testing.assert_close(found, by_hand(rule, x, W, R, b))
    assert (found.sum() - R.sum()).abs() < 1e-9 or kind == "biased"


def test_the_alpha_beta_rule_never_makes_a_positive_score_negative():
    shares = alpha_beta_rule(numbers(0, 50, 6), numbers(1, 6, 4), numbers(2, 50, 4).abs())
    assert (shares >= 0).all()
    assert (z_rule(numbers(0, 50, 6), numbers(1, 6, 4), numbers(2, 50, 4).abs()) < 0).any()


@pytest.mark.claim(68)
@pytest.mark.parametrize("rule", RULES)
def test_what_leaks_goes_to_the_shifts_of_the_norms(rule):
    source, target = pair()
    kept = relevance(translator(shift=0), source, target, rule)
    assert kept.leak.abs().max() < 1e-9 * kept.score.abs().max()
    lost = relevance(translator(), source, target, rule)
    assert lost.leak.abs().min() > 1e-3 * lost.score.abs().max()


def test_the_score_is_that_of_the_right_tokens():
    model, (source, target) = translator(), pair()
    logits = model(source, target[:, :-1])
    centred = logits - logits.mean(-1, keepdim=True)
    wanted = target[:, 1:]
    right = centred.gather(-1, wanted[..., None])[..., 0] * (wanted != 0)
    found = relevance(model, source, target)
    torch.testing.assert_close(found.score, right.sum(1))
    assert found.heads.shape == (4, 6, 3)
    assert (found.source[1, 4:] == 0).all()
    assert (found.target[2, 3:] == 0).all()  # nothing is asked after the last token
    assert (found.source[0] != 0).all()


@pytest.mark.claim(68)
def test_the_z_rule_is_output_times_gradient_of_the_model_held_fixed():
    """Two ways that share no code: fractions passed back by hand, and gradients of a copy."""
    model, (source, target) = translator(), pair()
    held = norms_fixed(model)
    torch.testing.assert_close(held(source, target), model(source, target))
    for row in range(len(source)):
        rows = source[row : row + 1], target[row : row + 1]
        found = relevance(model, *rows).heads
        torch.testing.assert_close(gate_gradients(held, rows, True), found, atol=1e-8, rtol=1e-6)
    for some, weights in ((model, True), (held, False), (model, False)):
        assert (gate_gradients(some, rows, weights) - found).abs().max() > 1e-3


@pytest.mark.parametrize("change", [{"norm": "post"}, {"activation": "gelu"}, {"bias": True}])
def test_models_of_another_kind_are_refused(change):
    model = translator(**change)
    with pytest.raises(ValueError, match="norm='pre', a ReLU and no biases"):
        relevance(model, *pair())
