"""The encoder–decoder: equality with the framework's layer, what may see what, and its maps."""

import pytest
import torch
from each import each
from twins import layer_twin

from attnlib.decoding import translate
from attnlib.models import Transformer, TransformerConfig, Translator
from attnlib.models.block import Block
from attnlib.tokenizers.words import BOS, EOS, PAD

S, T, WIDTH = 9, 7, 8  # words known on either side, width


def translator(seed=0, **changes):
    torch.manual_seed(seed)
    settings = {"d_model": WIDTH, "heads": 2, "layers": 2, "d_ff": 16, "max_len": 12} | changes
    return Translator(S, T, **settings).double().eval()


def ids(seed, *shape, size=T):
    return torch.randint(4, size, shape, generator=torch.Generator().manual_seed(seed))


def test_parts_are_configurations_of_one_transformer():
    model = translator(positions="sinusoidal")
    assert type(model.encoder) is type(model.decoder) is Transformer
    assert not model.encoder.config.causal
    assert not model.encoder.config.cross
    assert model.encoder.W_U is None
    assert model.decoder.config.causal
    assert model.decoder.config.cross


@each("norm", ["pre", "post"])
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
    ours = block(x, causal_all(5), False, memory=(memory, mask)).residual
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(x, memory, tgt_mask=later, memory_key_padding_mask=~mask)
    torch.testing.assert_close(ours, expected, atol=1e-9, rtol=0)


def causal_all(n):
    """No further mask: the block itself forbids to look ahead."""
    return torch.ones(1, 1, 1, n, dtype=torch.bool)


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
    assert (model(other, target) - logits).abs().amin((1, 2)).shape == (2,)
    assert (model(other, target)[:, 0] - logits[:, 0]).abs().max() > 1e-6


def test_what_it_writes_is_what_it_says_is_best():
    model, source = translator(3), ids(2, 4, 5, size=S)
    written = translate(model, source, longest=6)
    logits = model(source, torch.cat([torch.full((4, 1), BOS), written[:, :-1]], 1))
    logits[..., [PAD, BOS]] = -torch.inf
    for row, ids_ in zip(logits.argmax(-1), written, strict=True):
        end = (ids_ == EOS).nonzero()
        n = int(end[0]) + 1 if len(end) else len(ids_)
        assert torch.equal(row[:n], ids_[:n])


def test_three_maps_for_every_layer_and_head():
    model, source = translator(), ids(0, 5, size=S)
    target = torch.tensor([BOS, 4, 5, 6, EOS])
    trace = model.trace(source, target)
    assert trace.encoder.attention.shape == (2, 2, 5, 5)
    assert trace.decoder.attention.shape == (2, 2, 4, 4)
    assert trace.cross.attention.shape == (2, 2, 4, 5)
    assert trace.cross.tokens == tuple(map(str, target[:-1].tolist()))
    assert trace.cross.sources == trace.encoder.tokens == tuple(map(str, source.tolist()))
    assert (trace.decoder.attention.triu(1) == 0).all()


def test_a_memory_is_wanted_where_there_is_cross_attention_and_only_there():
    model = translator()
    memory = model.encoder_output(ids(0, 1, 5, size=S))[:2]
    with pytest.raises(ValueError, match="cross=True needs a memory"):
        model.decoder(ids(1, 1, 4))
    with pytest.raises(ValueError, match="cross=False looks at no memory"):
        model.encoder(ids(1, 1, 4), memory=memory)
    with pytest.raises(ValueError, match="every source row needs a token"):
        model(torch.zeros(1, 3, dtype=torch.int64), ids(1, 1, 4))
