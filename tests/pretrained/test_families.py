"""The models that people bring: each family against its reference, with random weights."""

import copy
from functools import cache
from types import SimpleNamespace

import pytest
import tokenizers
import torch
import transformers
from devices import DEVICES, nothing_made_elsewhere
from reference_models import GROUPED, MODELS, configuration_of, reference
from tiny import assert_near, same
from torch.nn.utils import parametrize, prune

from attnlib.models import KVCache
from attnlib.pretrained import from_huggingface
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.huggingface import configuration
from attnlib.pretrained.text import LanguageModel, TextModel
from attnlib.tokenizers import BPE

BYTES = BPE(())  # 257 tokens


def opened(theirs):
    return from_huggingface(theirs, BYTES)


def ids_of(*shape):
    """Ids of no special token of any family."""
    return torch.randint(3, 250, shape, generator=torch.Generator().manual_seed(1))


def output(theirs, **inputs):
    """Logits, or the last states of an encoder."""
    found = theirs(**inputs)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


@cache
def pair(name):
    """A reference, and our model with its weights."""
    theirs = reference(name)
    return theirs, opened(theirs)


every_model = pytest.mark.parametrize("name", MODELS)
language_models = pytest.mark.parametrize("name", [n for n in MODELS if "bert" not in n])


# --- parity -----------------------------------------------------------------------------------


@pytest.mark.claim(120)
@every_model
@torch.no_grad()
def test_logits_and_maps_are_the_references(name):
    theirs, ours = pair(name)
    ids = ids_of(17)
    expected = theirs(input_ids=ids[None], output_attentions=True)
    trace = ours.model.trace(ids, keep=("logits", "final"))
    assert_near(trace.pattern, torch.cat(expected.attentions), 1e-5)
    found = trace.final if trace.logits is None else trace.logits
    wanted = output(theirs, input_ids=ids[None])
    assert_near(found, wanted[0], 1e-5)
    assert_near(ours.model(ids[None]), wanted, 1e-5)  # without maps: the fused kernel
    assert wanted.std() > 0.9
    assert trace.pattern[:, :, -1].amax(-1).mean() > 0.15  # 17 tokens: a flat row has 0.06


@pytest.mark.claim(120)
@language_models
@torch.no_grad()
def test_a_cache_changes_nothing(name):
    theirs, ours = pair(name)
    ids = ids_of(1, 17)
    cache = KVCache(ours.model.config.layers)
    parts = [ours.model(part, cache=cache) for part in ids.split([9, 1, 7], 1)]
    assert_near(torch.cat(parts, 1), output(theirs, input_ids=ids), 1e-5)


@pytest.mark.claim(120)
@every_model
@torch.no_grad()
def test_a_batch_that_is_padded_at_the_end_is_the_references(name):
    theirs, ours = pair(name)
    ids, mask = ids_of(2, 17), torch.ones(2, 17, dtype=torch.int64)
    ids[1, 11:], mask[1, 11:] = 1, 0
    expected = output(theirs, input_ids=ids, attention_mask=mask)
    real = mask.bool()
    assert_near(ours.model(ids, real)[real], expected[real], 1e-5)
    with pytest.raises(ValueError, match="padding"):
        ours.model(ids.flip(1), real.flip(1))


# --- memory, device and float -----------------------------------------------------------------


@every_model
def test_no_second_copy_is_made(name):
    """But of a few vectors: the norms of Gemma, and positions that hold the segment besides."""
    theirs, ours = pair(name)
    there = {weight.untyped_storage().data_ptr() for weight in theirs.state_dict().values()}
    copied = [
        name
        for name, weight in ours.model.named_parameters()
        if weight.untyped_storage().data_ptr() not in there
    ]
    assert all("norm" in name or name == "W_P" for name in copied)
    assert copied == [] or theirs.config.model_type[:5] in ("gemma", "bert", "rober")


@pytest.mark.claim(121)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gpt2", "llama, slowed as Llama 3", "gemma2", "gemma3", "bert"])
@torch.no_grad()
def test_half_precision_is_kept_and_as_exact_as_the_references(name, device):
    single = reference(name)
    theirs = copy.deepcopy(single).to(device, torch.bfloat16)
    ours = opened(theirs)
    assert ours.device.type == device
    assert {weight.dtype for weight in ours.model.parameters()} == {torch.bfloat16}
    ids = ids_of(1, 17)
    exact = output(single, input_ids=ids)
    their_error = (output(theirs, input_ids=ids.to(device)).cpu() - exact).abs().mean()
    our_error = (ours.model(ids.to(device)).cpu() - exact).abs().mean()
    assert our_error < 1.5 * their_error
    trace = ours.trace("half", keep="all")
    assert trace.pattern.device.type == device
    if isinstance(ours, LanguageModel):
        assert ours.generate("a", 3, seed=0).startswith("a")


@pytest.mark.claim(121)
@every_model
@torch.no_grad()
def test_every_tensor_is_made_where_the_model_is(name):
    theirs, ours = pair(name)
    expected = ours.trace("some text", keep="all")
    with nothing_made_elsewhere():
        again = opened(theirs)
        trace = again.trace("some text", keep="all")
        text = again.generate("so", 4, seed=0) if isinstance(again, LanguageModel) else None
    assert torch.equal(trace.pattern, expected.pattern)
    assert torch.equal(trace.final, expected.final)
    assert text is None or text == ours.generate("so", 4, seed=0)


# --- heads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("llama", "LlamaModel"),
        ("llama", "LlamaForSequenceClassification"),
        ("llama", "LlamaForQuestionAnswering"),
        ("gpt2", "GPT2ForTokenClassification"),
        ("opt", "OPTForSequenceClassification"),
        ("bert", "BertForMaskedLM"),
        ("roberta", "RobertaForSequenceClassification"),
        ("distilbert", "DistilBertForQuestionAnswering"),
    ],
)
@torch.no_grad()
def test_a_head_for_another_task_is_left_out_and_said_to_be(name, model):
    theirs = reference(name, model)
    if theirs.base_model is theirs:
        ours = opened(theirs)
    else:
        with pytest.warns(UserWarning, match=f"the head of this {model} is left out"):
            ours = opened(theirs)
    assert type(ours) is TextModel
    ids = ids_of(1, 9)
    assert_near(ours.model(ids), theirs.base_model(ids).last_hidden_state, 1e-5)


@torch.no_grad()
def test_a_tied_model_without_any_head_has_its_embedding_for_one():
    theirs = reference("gpt2", "GPT2Model")
    ours = opened(theirs)
    assert isinstance(ours, LanguageModel)
    ids = ids_of(1, 9)
    states = theirs(ids).last_hidden_state
    assert_near(ours.model(ids), states @ theirs.wte.weight.T, 1e-5)


# --- what is not built ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        *[
            (name, {"is_causal": False}, "is_causal=False")
            for name in MODELS
            if "bert" not in name and "eyes" not in name
        ],
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse.*=True"),
        ("bert", {"is_decoder": True}, "bert: is_decoder=True is not built here, only False"),
        ("bert", {"hidden_act": "mish"}, "bert: hidden_act='mish' is not built here, only gelu, "),
        ("roberta", {"pad_token_id": 0}, "pad_token_id=0"),
        ("llama", {"mlp_bias": True}, "mlp_bias=True"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            "rope_type='dynamic' is not built here, only 'default', 'linear' and 'llama3'",
        ),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention=True"),
        ("phi", {"qk_layernorm": True}, "qk_layernorm=True"),
        ("pythia", {"rotary_pct": 0.4}, "turn pairs, and 3 dimensions of a query"),
        ("opt", {"word_embed_proj_dim": 16}, "word_embed_proj_dim=16"),
    ],
)
def test_what_of_a_family_is_not_built_is_named_with_what_works(name, changes, message):
    with pytest.raises(ValueError, match=rf"{message}.*\. .* explore\(outputs, tokens\)$"):
        configuration(configuration_of(name, **changes))


SHARE = {"partial_rotary_factor": 0.5}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *[(name, SHARE) for name in ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3")],
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0, **SHARE}}),
        ("mistral", {"attention_bias": True}),
        ("gemma3", {"attn_logit_softcapping": 2.0}),
    ],
)
@torch.no_grad()
def test_a_setting_that_the_reference_passes_over_is_passed_over(name, changes):
    theirs = reference(name, **changes)
    ids = ids_of(1, 17)
    assert_near(opened(theirs).model(ids), theirs(ids).logits, 1e-5)


def test_hooks_are_not_carried_over_and_said_not_to_be(recwarn):
    theirs = reference("llama")
    theirs(ids_of(1, 5), output_attentions=True)  # puts hooks of its own
    opened(theirs)
    assert not recwarn.list
    theirs.model.layers[1].register_forward_hook(lambda module, read, written: 2 * written)
    with pytest.warns(UserWarning, match="forward hooks of this model are not carried over"):
        opened(theirs)


class Adapted(torch.nn.Module):
    """A linear map with an adapter, under the names of LoRA."""

    def __init__(self, base_layer):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A = torch.nn.Linear(base_layer.in_features, 2)


def adapted(layer):
    layer.q_proj = Adapted(layer.q_proj)


def parametrized(layer):
    parametrize.register_parametrization(layer.q_proj, "weight", torch.nn.Identity())


def pruned(layer):
    prune.l1_unstructured(layer.q_proj, "weight", 0.5)


@pytest.mark.parametrize(
    ("change", "what_to_do"),
    [
        (adapted, "merge_and_unload"),
        (parametrized, "remove_parametrizations"),
        (pruned, r"prune\.remove"),
    ],
)
def test_weights_that_are_computed_are_to_be_made_weights_first(change, what_to_do):
    theirs = reference("llama")
    change(theirs.model.layers[0].self_attn)
    with pytest.raises(ValueError, match=f"layers.0.self_attn.q_proj.*{what_to_do}"):
        opened(theirs)


def test_a_head_that_is_no_linear_map_is_refused():
    theirs = reference("llama")
    theirs.lm_head = torch.nn.Sequential(theirs.lm_head)
    with pytest.raises(ValueError, match=r"head of this model is a torch.*\.Sequential"):
        opened(theirs)


@pytest.mark.claim(120)
@pytest.mark.parametrize(
    ("family", "what_works"),
    [
        ("mixtral", r"explore\(outputs, tokens\)$"),  # mixture of experts
        ("deepseek_v3", r"explore\(outputs, tokens\)$"),  # latent attention
        ("jamba", r"explore\(outputs, tokens\)$"),  # recurrent layers between
        ("t5", r"explore\(outputs, tokens, sources=…\)$"),  # encoder and decoder
    ],
)
def test_another_family_is_refused_with_what_works(family, what_works):
    theirs = transformers.AutoConfig.for_model(family)
    with pytest.raises(ValueError, match=f"family '{family}' .*bert.*opt.*{what_works}"):
        configuration(theirs)


@pytest.mark.parametrize(
    ("model", "what_to_do"),
    [
        ("gpt2", r"got str: .*from_pretrained\(…\) loads one"),
        (torch.nn.DataParallel(torch.nn.Linear(1, 1)), "pass model.module"),
        (SimpleNamespace(model=None, tokenizer=None), "pass pipeline.model and pipeline.tokenizer"),
    ],
)
def test_what_is_no_model_is_refused(model, what_to_do):
    with pytest.raises(ValueError, match=f"expected a model of transformers, .*{what_to_do}"):
        from_huggingface(model, BYTES)


@pytest.mark.parametrize(
    ("tokenizer", "what_to_do"),
    [
        (None, "got None: AutoTokenizer"),
        ("gpt2", "got str: AutoTokenizer"),
        (tokenizers.Tokenizer(tokenizers.models.BPE()), "PreTrainedTokenizerFast"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tokenizer, what_to_do):
    with pytest.raises(ValueError, match=f"needs its tokenizer, .*{what_to_do}"):
        from_huggingface(reference("gpt2"), tokenizer)


def test_numbers_that_are_packed_or_elsewhere_are_refused():
    theirs = reference("llama")
    theirs.model.norm = theirs.model.norm.to("meta")
    with pytest.raises(ValueError, match="lie on cpu, meta: load it on one device"):
        opened(theirs)
    theirs = reference("llama")
    packed = torch.zeros(4, 4, dtype=torch.uint8)
    theirs.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(packed, requires_grad=False)
    with pytest.raises(ValueError, match=r"layers\.0\.mlp\.up_proj\.weight holds torch\.uint8"):
        opened(theirs)


# --- names and shapes -------------------------------------------------------------------------


@every_model
def test_names_of_a_file_and_of_the_library(name):
    """With a head the names have a prefix, and without it they have none."""
    theirs, ours = pair(name)
    config, family = ours.model.config, theirs.config.model_type
    if family == "gemma3":
        theirs, family = theirs.model.language_model, "gemma3_text"
    assert same(convert(theirs.state_dict(), config, family), ours.model.state_dict())


def test_buffers_of_older_files_are_passed_over():
    theirs = reference("gpt2")
    config = configuration(theirs.config)
    mask = torch.ones(1, 1, 16, 16).tril()
    buffers = {
        f"h.{layer}.attn.{name}": mask for layer in (0, 2) for name in ("bias", "masked_bias")
    }
    bare = theirs.transformer.state_dict()
    assert same(convert(bare | buffers, config, "gpt2"), convert(bare, config, "gpt2"))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("gpt2", "h.1.attn.c_attn.weight"),
        ("gpt2", "h.1.attn.c_attn.bias"),
        ("gpt2", "h.2.attn.c_proj.weight"),
        ("gpt2", "wpe.weight"),
        ("llama", "layers.1.self_attn.k_proj.weight"),
        ("llama", "layers.0.self_attn.o_proj.weight"),
        ("llama", "layers.0.mlp.gate_proj.weight"),
        ("llama", "norm.weight"),
        ("pythia", "layers.0.attention.query_key_value.weight"),
        ("opt", "embed_positions.weight"),
    ],
)
def test_a_wrong_weight_is_named_with_both_shapes(family, name):
    theirs = reference(family)
    config = configuration(theirs.config)
    body = theirs.model.decoder if family == "opt" else theirs.base_model
    good = dict(body.state_dict()) | {"lm_head.weight": theirs.lm_head.weight}
    model_type = theirs.config.model_type
    missing = {key: value for key, value in good.items() if key != name}
    with pytest.raises(ValueError, match=rf"of 3 layers, .* 1 missing: {name}\. Is it"):
        convert(missing, config, model_type)
    with pytest.raises(ValueError, match=r"1 unknown: odd\.weight"):
        convert(good | {"odd.weight": good[name]}, config, model_type)
    longer = torch.cat([good[name], good[name][:1]])
    for wrong in (longer, good[name][None], good[name].reshape(-1)[:1]):
        shape = ", ".join(map(str, wrong.shape))
        with pytest.raises(ValueError, match=rf"{name} of shape \({shape},?\) does not give .*\("):
            convert(good | {name: wrong}, config, model_type)


def test_another_number_of_layers_is_refused():
    theirs = reference("llama", **GROUPED)
    fewer = configuration(configuration_of("llama", num_hidden_layers=2))
    with pytest.raises(ValueError, match=r"llama of 2 layers, .* 13 unknown: layers\.2\..*, …"):
        convert(theirs.state_dict(), fewer, "llama")


def test_a_head_that_is_not_the_embedding_of_a_tied_model_is_refused():
    theirs = reference("gpt2")
    config = configuration(theirs.config)
    weights = dict(theirs.state_dict())
    weights["lm_head.weight"] = weights["lm_head.weight"] + 1e-3
    with pytest.raises(ValueError, match="lm_head.weight differs from the embedding"):
        convert(weights, config, "gpt2")


def test_pairs_that_the_family_does_not_turn_are_refused():
    theirs = reference("llama")
    config = configuration(theirs.config)
    with pytest.raises(ValueError, match="rotary_pairs='adjacent', and the configuration says 'ha"):
        convert(theirs.state_dict(), config, "llama-gguf")


def test_the_names_of_gemma_3_in_a_gguf_file():
    """Whoever makes the file adds the 1 to the norms."""
    names = {
        "embed_tokens": "token_embd",
        "layers.": "blk.",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
        "self_attn.o_proj": "attn_output",
        "self_attn.": "attn_",
        "mlp.": "ffn_",
        "_proj": "",
    }
    theirs = reference("gemma3")
    ours = opened(theirs).model
    file = {}
    for name, weight in theirs.model.state_dict().items():
        for old, new in names.items():
            name = name.replace(old, new)
        name = "output_norm.weight" if name == "norm.weight" else name
        file[name] = weight + 1 if "norm" in name else weight
    assert same(convert(file, ours.config, "gemma3-gguf"), ours.state_dict())
