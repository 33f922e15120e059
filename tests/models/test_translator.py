"""The encoder–decoder: equality with the framework's layer, what may see what, and its maps."""

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from twins import layer_twin

from attnlib.decoding import translate
from attnlib.models import TransformerConfig, Translator
from attnlib.models.transformer import Block
from attnlib.tokenizers.words import BOS, EOS, PAD

S, T, WIDTH = 9, 7, 8  # words known on either side, width


def translator(seed=0, **changes):
    torch.manual_seed(seed)
    settings = {"d_model": WIDTH, "heads": 2, "layers": 2, "d_ff": 16, "max_len": 12} | changes
    return Translator(S, T, **settings).double().eval()


def ids(seed, *shape, size=T):
    return torch.randint(4, size, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_decoder_block_equals_the_frameworks_layer(norm):
    torch.manual_seed(1)
    config = TransformerConfig(
        T, WIDTH, heads=2, d_ff=16, norm=norm, cross=True, activation="relu", bias=True
    )
    block = Block(config).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    theirs = layer_twin(block)
    x, memory = torch.randn(3, 5, WIDTH).double(), torch.randn(3, 6, WIDTH).double()
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]])
    ours = block(x, memory=(memory, mask)).resid_post
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=~mask)
    torch.testing.assert_close(ours, expected, atol=1e-9, rtol=0)


def test_nothing_ahead_and_nothing_in_the_padding_is_seen():
    model = translator()
    source, target = ids(0, 2, 5, size=S), ids(1, 2, 6)
    logits = model(source, target)
    changed = target.clone()
    changed[:, 4] = 5 - changed[:, 4] % 2
    torch.testing.assert_close(model(source, changed)[:, :4], logits[:, :4])
    assert (model(source, changed)[:, 4] - logits[:, 4]).abs().max() > 1e-6
    padded = torch.cat([source, torch.full((2, 3), PAD)], 1)
    torch.testing.assert_close(model(padded, target), logits)
    other = source.clone()
    other[:, 4] = (other[:, 4] + 1 - 4) % (S - 4) + 4
    assert (model(other, target)[:, 0] - logits[:, 0]).abs().max() > 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_what_it_writes_is_what_it_says_is_best(device, dtype):
    """On any device in any float; what is written lies beside the source."""
    if (device, dtype) == ("mps", torch.float64):
        pytest.skip("this device has no double precision")
    model, source = translator(3).to(dtype).to(device), ids(2, 4, 5, size=S)
    written = translate(model, source.to(device), longest=6)
    assert written.device.type == device
    assert torch.equal(translate(model, source, longest=6), written.cpu())
    read = torch.cat([torch.full((4, 1), BOS), written[:, :-1].cpu()], 1)
    logits = model(source.to(device), read.to(device)).detach().cpu().float()
    logits[..., [PAD, BOS]] = -torch.inf
    chosen = logits.gather(-1, written.cpu().unsqueeze(-1))[..., 0]
    rounding = 0.1 if dtype == torch.bfloat16 else 1e-4
    assert (logits.amax(-1) - chosen)[written.cpu() != PAD].max() < rounding


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_tensors_are_made_where_the_source_is(positions):
    model, source = translator(3, positions=positions), ids(2, 4, 5, size=S)
    expected = translate(model, source, longest=6)
    maps = model.trace(source[0], expected[0])
    with nothing_made_elsewhere():
        assert torch.equal(translate(model, source, longest=6), expected)
        found = model.trace(source[0], expected[0])
    for here, there in zip(found, maps, strict=True):
        assert torch.equal(here.pattern, there.pattern)


def test_three_maps_for_every_layer_and_head():
    model, source = translator(), ids(0, 5, size=S)
    target = torch.tensor([BOS, 4, 5, 6, EOS])
    trace = model.trace(source, target)
    assert trace.encoder.pattern.shape == (2, 2, 5, 5)
    assert trace.decoder.pattern.shape == (2, 2, 4, 4)
    assert trace.cross.pattern.shape == (2, 2, 4, 5)
    assert trace.cross.tokens == tuple(map(str, target[:-1].tolist()))
    assert trace.cross.sources == trace.encoder.tokens == tuple(map(str, source.tolist()))
    assert (trace.decoder.pattern.triu(1) == 0).all()


def test_a_memory_is_wanted_where_there_is_cross_attention_and_only_there():
    model = translator()
    memory = model.encoder_output(ids(0, 1, 5, size=S))[:2]
    with pytest.raises(ValueError, match="cross=True needs a memory"):
        model.decoder(ids(1, 1, 4))
    with pytest.raises(ValueError, match="cross=False looks at no memory"):
        model.encoder(ids(1, 1, 4), memory=memory)
    with pytest.raises(ValueError, match="every source row needs a token"):
        model(torch.zeros(1, 3, dtype=torch.int64), ids(1, 1, 4))
