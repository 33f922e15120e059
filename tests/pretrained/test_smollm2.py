"""SmolLM2 against `transformers`: the configuration, the weights, the logits and maps, the chat.

That our reader unpacks what `transformers` unpacks is tried at night; the logits are those of both
with the weights of our reader.
"""

from dataclasses import replace

import pytest
import torch
from tiny import assert_near, same
from twins import smollm2_twin

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models import KVCache
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.published import smollm2_file


@pytest.fixture(scope="module")
def smollm2():
    return pretrained.smollm2()


@pytest.fixture(scope="module")
def published(smollm2):
    return smollm2_twin(smollm2.model.config)


def text(length):
    """So many tokens of reviews, by their ids."""
    whole = pretrained.smollm2().encode("\n\n".join(reviews("imdb").test.texts[:10]))
    return torch.tensor(whole[length : 2 * length])


@pytest.mark.slow
def test_the_configuration_is_the_files(smollm2):
    config = smollm2.model.config
    assert smollm2.model.parameter_count == 134_515_008
    assert (config.layers, config.heads, config.kv_heads, config.max_len) == (30, 9, 3, 8192)
    told = smollm2_file().metadata
    for name, value in {
        "vocab_size": config.vocab_size,
        "embedding_length": config.d_model,
        "block_count": config.layers,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "rope.dimension_count": config.d_model // config.heads,
        "feed_forward_length": config.d_ff,
        "context_length": config.max_len,
        "rope.freq_base": config.rotary_base,
    }.items():
        assert told[f"llama.{name}"] == value, name
    assert told["llama.attention.layer_norm_rms_epsilon"] == torch.tensor(config.norm_eps).item()
    assert repr(smollm2) == (
        "LanguageModel(SmolLM2-135M-Instruct: 30 layers, 9 heads, 134,515,008 parameters)"
    )
    assert not smollm2.model.training
    assert pretrained.smollm2() is smollm2


@pytest.mark.long
def test_weights_are_those_that_transformers_makes_of_the_file(smollm2, published):
    """But for the pairs that turn: neighbours in the file, halves in `transformers`."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    path, config = str(smollm2_file().path), replace(smollm2.model.config, rotary_pairs="halves")
    weights = load_gguf_checkpoint(path, return_tensors=True, model_to_load=published)["tensors"]
    theirs = convert(weights, config, "llama")
    for name in theirs:
        if name.endswith(("W_Q", "W_K")):
            theirs[name] = theirs[name].unflatten(-1, (2, -1)).mT.flatten(-2)
    assert same(theirs, smollm2.model.state_dict())


@pytest.mark.slow
@pytest.mark.claim(92)
@torch.no_grad()
@pytest.mark.parametrize("length", [1, 13, pytest.param(120, marks=pytest.mark.ci)])
def test_logits_and_all_270_maps_equal_the_reference(smollm2, published, length):
    """In single precision a state of norm 20,000 is rounded by .001."""
    ids, model = text(length), smollm2.model
    found = published(ids[None], output_attentions=True, use_cache=False)
    layers = model.run(model.embed(ids[None]), need_weights=True)
    for state, maps in zip(layers, found.attentions, strict=True):
        assert state.pattern.shape == (1, 9, len(ids), len(ids))
        assert_near(state.pattern, maps, 5e-5)
    logits = model.final_norm(state.resid_post) @ model.W_U
    assert_near(logits, found.logits, 1e-3)
    assert_near(model(ids[None]), found.logits, 1e-3)  # the fused kernel
    cache, cut = KVCache(30), len(ids) // 2
    parts = [model(part[None], cache=cache) for part in (ids[:cut], ids[cut:]) if len(part)]
    assert_near(torch.cat(parts, 1), found.logits, 1e-3)
    assert cache.keys[0].shape == (1, 3, len(ids), 64), "the cache holds a key for three heads"


@pytest.mark.slow
def test_it_chats(smollm2):
    question = {"role": "user", "content": "What is the capital of France?"}
    answer = smollm2.chat([question], max_new_tokens=20, top_k=1)
    assert answer == "The capital of France is Paris."
    again = {"role": "user", "content": "And of Italy?"}
    talk = [question, {"role": "assistant", "content": answer}, again]
    assert "Rome" in smollm2.chat(talk, max_new_tokens=20, top_k=1)


def test_a_model_that_was_not_taught_to_chat_says_so():
    with pytest.raises(ValueError, match="was not taught to chat"):
        pretrained.language_model().chat([{"role": "user", "content": "Hi"}])
