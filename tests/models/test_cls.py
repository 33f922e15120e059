"""A classifier that reads the state of [CLS]: where it looks, and what edits change."""

from contextlib import nullcontext

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere

from attnlib.models import TransformerClassifier
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
    torch.testing.assert_close(trace.pattern, maps[1, :, :, :3, :3])
    torch.testing.assert_close(trace.logits[0], model(IDS)[1:2])  # [CLS] decides
    torch.testing.assert_close(trace.logits, model.output(trace.final))
    assert torch.equal(trace.resid[0], model.embed(IDS[1:2, :2])[0])
    plain = model.trace(IDS[1, :2])
    assert plain.tokens == ("[CLS]", "8", "9")
    assert plain.final is plain.logits is plain.resid_post is None


def test_edits_are_those_of_the_encoder():
    model, mask = former(), IDS != PAD
    silent = {(site, layer): torch.zeros_like for site in ("z", "mlp_out") for layer in (0, 1)}
    logits = model(IDS, edits=silent)
    assert (logits - model(IDS)).abs().max() > 1e-3
    torch.testing.assert_close(logits, logits[:1].expand(4))  # of the text [CLS] learns nothing
    torch.testing.assert_close(model.scorer(mask, silent)(model.embed(IDS)), logits.sigmoid())
    even = {("pattern", 0): lambda A: torch.full_like(A, 1 / A.shape[-1])}
    trace = model.trace(IDS[0], edits=even)
    torch.testing.assert_close(trace.pattern[0], torch.full((2, 6, 6), 1 / 6))


@pytest.mark.claim(121)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_a_classifier_stays_where_it_is(device, dtype):
    model = former()
    logits, maps = model(IDS).detach(), model.maps(IDS)
    model, ids = model.to(dtype).to(device), IDS.to(device)
    near = {"atol": 1e-5 if dtype == torch.float32 else 0.05, "rtol": 0}
    for context in (nullcontext, nothing_made_elsewhere):
        with context():
            results = model(ids), model.maps(ids), model.trace(ids[0], keep="all").logits[0]
        for result, expected in zip(results, (logits, maps, logits[:1]), strict=True):
            assert (result.device.type, result.dtype) == (device, dtype)
            torch.testing.assert_close(result.cpu().float(), expected, **near)
