"""Classifiers that read the state of [CLS]: where they look, and what a layer of one row can do."""

import pytest
import torch
from each import each

from attnlib.models import ClsClassifier, TransformerClassifier
from attnlib.tokenizers import pad
from attnlib.tokenizers.words import PAD

IDS = pad([[3, 4, 5, 6, 7], [8, 9], [10], [3, 4, 5]])


def former(**options):
    torch.manual_seed(0)
    return TransformerClassifier(20, 16, layers=2, heads=2, d_ff=32, max_len=8, **options).eval()


def test_a_transformer_classifies_from_its_first_token():
    model = former()
    maps = model.maps(IDS)
    assert maps.shape == (4, 2, 2, 6, 6)
    torch.testing.assert_close(maps.sum(-1), torch.ones(4, 2, 2, 6))
    assert (maps[1, :, :, :, 3:] == 0).all(), "padding is looked at"
    x, mask = model.embed(IDS), IDS != PAD
    torch.testing.assert_close(model.scorer(mask)(x), model(IDS).sigmoid())
    with pytest.raises(ValueError, match="only at the end"):
        model(torch.tensor([[0, 3, 4]]))


def test_the_trace_of_a_transformer_has_one_token_more():
    model, maps = former(), former().maps(IDS)
    trace = model.trace(IDS[1, :2], ["good", "film"], [0, 0], keep="all")
    assert trace.tokens == ("[CLS]", "good", "film")
    assert trace.word_ids == (0, 1, 1)
    torch.testing.assert_close(trace.attention, maps[1, :, :, :3, :3])
    torch.testing.assert_close(trace.logits[0], model(IDS)[1:2])  # [CLS] decides
    torch.testing.assert_close(trace.logits, model.output(trace.final))
    assert torch.equal(trace.residual[0], model.embed(IDS[1:2, :2])[0])
    plain = model.trace(IDS[1, :2])
    assert plain.tokens == ("[CLS]", "8", "9")
    assert plain.final is plain.logits is plain.residual is None


def batch(rows=4, length=9, size=50):
    """Ids and a mask with padding."""
    ids = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(0))
    ids[1, 5:] = 0
    return ids, ids > 0


def any_weights(model, seed=0):
    """The model with every parameter drawn at random, biases and norms as well."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


@torch.no_grad()
@each("combine", ["concat", "add"])
def test_the_row_of_cls_is_that_of_the_whole_layer(combine):
    model = any_weights(ClsClassifier(50, 16, combine))
    ids, mask = batch()
    with_cls = torch.cat([torch.ones(4, 1, dtype=torch.bool), mask], 1)
    state = next(model.encoder.run(model.embed(ids), with_cls))
    whole = model.output(state.residual[:, 0]).squeeze(-1)
    assert torch.allclose(model(ids), whole, atol=1e-4)
    assert not torch.allclose(model(ids), model(ids, torch.ones_like(mask)), atol=1e-3)


@torch.no_grad()
def test_the_divisor_is_the_root_of_the_width_that_was_named():
    ids, _ = batch()
    for combine, d_v in (("concat", 8), ("add", 32)):
        found = []
        for divisor in ("d_k", "d_v"):
            model = any_weights(ClsClassifier(50, 128, combine, divisor))
            found.append(model.directions(model.embed(ids)[:, 0]))
        assert torch.allclose(found[1], found[0] * (128 / d_v) ** 0.5)


@pytest.mark.claim(55)
@torch.no_grad()
@each("combine", ["concat", "add"])
def test_keys_of_width_1_do_what_keys_of_width_256_do(combine):
    """So the table of accuracies compares models that can all do the same."""
    wide = any_weights(ClsClassifier(50, 256, combine))
    narrow = any_weights(ClsClassifier(50, 1, combine), seed=1)
    scores = ("W_Q", "W_K", "b_Q", "b_K")
    rest = {k: v for k, v in wide.state_dict().items() if not k.endswith(scores)}
    narrow.load_state_dict(rest, strict=False)
    ids, _ = batch()
    assert not torch.allclose(narrow(ids), wide(ids), atol=1e-2)
    narrow.layer.attention.W_Q.zero_()
    narrow.layer.attention.b_Q.fill_(1.0)
    narrow.layer.attention.W_K[..., 0] = wide.directions(wide.embed(ids)[:1, 0])[0]
    assert torch.allclose(narrow(ids), wide(ids), atol=1e-4)
    # with positions the query would still be one, but where the query differs u would have to
    moved = wide.embed(ids)
    moved[:, 0] += 1.0
    assert not torch.allclose(wide.directions(moved[:, 0]), wide.directions(moved[:, 1]), atol=0.1)
