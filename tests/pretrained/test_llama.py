"""The Llama family under our names: SmolLM2 and random ones, against `transformers`."""

from dataclasses import replace

import pytest
import torch
from gpt2_layout import wrong_weight
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_near, same
from twins import llama, smollm2_twin

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.cache import KVCache
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.published import smollm2_file

TINY = TransformerConfig(29, 12, 2, 3, kv_heads=1, d_ff=20, max_len=16, rotary_base=50.0)
TINY = replace(TINY, norm_kind="rms", positions="rotary", activation="silu", gated=True, tied=True)
# Ours, and a GGUF file's; all of them but the norms and the embedding are turned.
GGUF_NAMES = {
    "norm_1.weight": "attn_norm",
    "attention.W_Q": "attn_q",
    "attention.W_K": "attn_k",
    "attention.W_V": "attn_v",
    "attention.W_O": "attn_output",
    "norm_2.weight": "ffn_norm",
    "feed_forward.W_gate": "ffn_gate",
    "feed_forward.W_1": "ffn_up",
    "feed_forward.W_2": "ffn_down",
}


def from_llama(weights, config):
    """By the layout that the names tell."""
    packed = any(name.startswith(("blk.", "token_embd.")) for name in weights)
    return convert(weights, config, "gguf" if packed else "llama")


def pair(config, seed=0):
    """The reference with random weights, large enough for maps that are not flat, and our model."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        theirs = llama(config)
        for parameter in theirs.parameters():
            if parameter.ndim == 2:
                parameter *= 12
            else:
                parameter += 0.1 * torch.randn_like(parameter)
    return theirs, ours_of(theirs.state_dict(), config)


def ours_of(weights, config):
    with torch.device("meta"):
        model = Transformer(config)
    model.load_state_dict(from_llama(weights, config), assign=True)
    return model.eval()


def to_gguf(model):
    """The weights of one of our models as a GGUF file names and lays them out."""
    found = {"token_embd.weight": model.W_E, "output_norm.weight": model.final_norm.weight}
    if not model.config.tied:
        found["output.weight"] = model.W_U.T
    for layer, block in enumerate(model.blocks):
        for mine, name in GGUF_NAMES.items():
            weight = block.get_parameter(mine)
            if mine == "attention.W_O":
                weight = torch.cat(list(weight)).T
            elif weight.ndim == 3:
                weight = torch.cat([head.T for head in weight])
            elif weight.ndim == 2:
                weight = weight.T
            found[f"blk.{layer}.{name}.weight"] = weight
    return {name: weight.detach().clone() for name, weight in found.items()}


# --- random models ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    return pair(TINY)


@settings(max_examples=15, deadline=None)
@given(
    d_k=st.sampled_from([2, 4, 6]),
    groups=st.sampled_from([(1, 1), (4, 2), (3, 1), (2, 2)]),
    layers=st.integers(1, 3),
    pairs=st.sampled_from(["adjacent", "halves"]),
    tied=st.booleans(),
    length=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@torch.no_grad()
def test_every_small_llama_equals_the_reference(d_k, groups, layers, pairs, tied, length, seed):
    heads, kv_heads = groups
    config = replace(TINY, heads=heads, kv_heads=kv_heads, d_k=d_k, d_v=d_k, layers=layers)
    theirs, ours = pair(replace(config, rotary_pairs=pairs, tied=tied), seed)
    ids = torch.randint(29, (length,), generator=torch.Generator().manual_seed(seed))
    found, trace = theirs(ids[None], output_attentions=True), ours.trace(ids, keep="logits")
    assert_near(trace.logits, found.logits[0], 1e-4)
    assert_near(trace.attention, torch.cat(found.attentions), 1e-5)
    if length > 1:
        assert found.logits.std() > 0.1


@settings(max_examples=15, deadline=None)
@given(
    groups=st.sampled_from([(1, 1), (4, 2), (3, 1)]),
    layers=st.integers(0, 3),
    tied=st.booleans(),
    seed=st.integers(0, 99),
)
def test_to_a_gguf_file_and_back_is_the_same_bit_for_bit(groups, layers, tied, seed):
    heads, kv_heads = groups
    config = replace(TINY, heads=heads, kv_heads=kv_heads, layers=layers, tied=tied)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(config)
    assert same(from_llama(to_gguf(model), config), model.state_dict())


@torch.no_grad()
def test_pairs_of_either_kind_give_the_same_model(tiny):
    theirs, ours = tiny
    halves = replace(TINY, rotary_pairs="halves")
    other = ours_of(theirs.state_dict(), halves)
    packed = ours_of(to_gguf(ours), halves)
    ids = torch.arange(7)[None]
    assert_near(other(ids), ours(ids), 1e-5)
    assert same(other.state_dict(), packed.state_dict())
    assert not torch.equal(other.blocks[0].attention.W_Q, ours.blocks[0].attention.W_Q)


def test_each_weight_is_asked_for_once(tiny):
    """A file unpacks a weight whenever it is asked for."""
    asked = []

    class Noted(dict):
        def __getitem__(self, name):
            asked.append(name)
            return super().__getitem__(name)

    from_llama(Noted(to_gguf(tiny[1])), TINY)
    assert sorted(asked) == sorted(to_gguf(tiny[1]))


# --- what is wrong is named -------------------------------------------------------------------


@pytest.mark.parametrize("name", [*(f"blk.1.{n}" for n in GGUF_NAMES.values()), "token_embd"])
def test_a_wrong_weight_of_a_file_is_named(tiny, name):
    wrong_weight(to_gguf(tiny[1]), f"{name}.weight", TINY, from_llama)


@pytest.mark.parametrize("name", ["layers.1.self_attn.k_proj", "layers.0.mlp.gate_proj", "norm"])
def test_a_wrong_weight_of_the_library_is_named(tiny, name):
    bare = {key.removeprefix("model."): w for key, w in tiny[0].state_dict().items()}
    wrong_weight(bare, f"{name}.weight", TINY, from_llama)


def test_another_size_and_another_family_are_refused(tiny):
    good = to_gguf(tiny[1])
    with pytest.raises(
        ValueError, match=r"of 1 layers, .* 9 unknown: blk\.1\.attn_norm\.weight, .*, …"
    ):
        from_llama(good, replace(TINY, layers=1))
    with pytest.raises(ValueError, match=r"1 unknown: blk\.0\.attn_q\.bias"):
        from_llama(good | {"blk.0.attn_q.bias": torch.zeros(12)}, TINY)
    with pytest.raises(ValueError, match=r"2 layers, .* missing: blk\.0\.attn_q\.bias"):
        from_llama(good, replace(TINY, bias=True))


def test_an_untied_head_is_refused(tiny):
    good = tiny[0].state_dict()
    assert "lm_head.weight" in good
    with pytest.raises(ValueError, match=r"lm_head.weight differs .* tied"):
        from_llama(good | {"lm_head.weight": good["lm_head.weight"] + 1e-3}, TINY)
    without = {name: weight for name, weight in good.items() if name != "lm_head.weight"}
    assert same(from_llama(without, TINY), from_llama(good, TINY))


# --- SmolLM2 ----------------------------------------------------------------------------------


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
    theirs = from_llama(published.state_dict(), smollm2.model.config)
    assert same(theirs, smollm2.model.state_dict())


@pytest.mark.slow
@pytest.mark.claim(92)
@torch.no_grad()
@pytest.mark.parametrize("length", [1, 13, 120])
def test_logits_and_all_270_maps_equal_the_reference(smollm2, published, length):
    """In single precision a state of norm 20,000 is rounded by .001."""
    ids, model = text(length), smollm2.model
    found = published(ids[None], output_attentions=True, use_cache=False)
    layers = model.run(model.embed(ids[None]), need_weights=True)
    for state, maps in zip(layers, found.attentions, strict=True):
        assert state.attention.shape == (1, 9, len(ids), len(ids))
        assert_near(state.attention, maps, 5e-5)
    logits = model.final_norm(state.residual) @ model.W_U
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
