"""GPT-2 at its full size, with random weights, against `transformers`: logits, maps and texts.

Small ones of other shapes are among the families.
"""

import pytest
import torch
from tiny import assert_near
from twins import gpt2

from attnlib.decoding import greedy
from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.conversion import convert

pytestmark = pytest.mark.slow


def enlarge(model, factor, seed=0):
    """Matrices times a factor, and no bias or scale left at 0 or 1.

    A fresh GPT-2 has almost uniform maps and a flat softmax, in which errors would not show.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter *= factor
            else:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


@pytest.fixture(scope="module")
def full():
    """124,439,808 random numbers, once; and a text of 8 tokens with 12 that follow."""
    config = TransformerConfig.gpt2()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = enlarge(gpt2(config), 3.0)
    with torch.device("meta"):
        ours = Transformer(config)
    ours.load_state_dict(convert(theirs.state_dict(), config, "gpt2"), assign=True)
    prompt = torch.randint(50_257, (8,), generator=torch.Generator().manual_seed(5))
    text = greedy(ours.eval(), prompt, 12)
    with torch.no_grad():
        expected = theirs(text[None], output_attentions=True)
    return theirs, ours, text, expected


@pytest.mark.claim(14)
def test_logits_and_all_144_maps(full):
    theirs, ours, text, expected = full
    assert ours.parameter_count == sum(p.numel() for p in theirs.parameters()) == 124_439_808
    trace, maps = ours.trace(text, keep="logits"), torch.cat(expected.attentions)
    assert trace.pattern.shape == maps.shape == (12, 12, 20, 20)
    assert_near(trace.pattern, maps, 1e-5)
    assert_near(trace.logits, expected.logits[0], 1e-4)
    with torch.no_grad():
        assert_near(ours(text[None]), expected.logits, 1e-4)  # the fused kernel
    # and not because everything is flat: a uniform last row would have weights of 1/20
    assert maps[..., -1, :].amax(-1).mean() > 0.25
    assert expected.logits.std() > 1


@pytest.mark.claim(14)
@torch.no_grad()
def test_the_greedy_continuation(full):
    theirs, _, text, expected = full
    prompt = text[None, :8]
    continued = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=12,
        min_new_tokens=12,
        do_sample=False,
        pad_token_id=0,
    )
    assert text.tolist() == continued[0].tolist()
    assert len(set(text[8:].tolist())) >= 4  # no token on repeat
    best = expected.logits[0, 7:-1].topk(2).values
    assert (best[:, 0] - best[:, 1]).min() > 1e-3  # no ties, which a rounding could break
