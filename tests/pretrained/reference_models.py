"""Small models of `transformers` with random weights, of every family that opens here."""

from typing import Any

import torch
import transformers

SIZES: dict[str, Any] = {
    "vocab_size": 300,  # more than the tokenizer of these tests knows
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 10}  # 4 · 10 is not 32
GEMMA = GROUPED | {"sliding_window": 5, "query_pre_attn_scalar": 7}
LINEAR = {"rope_type": "linear", "rope_theta": 300.0, "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 300.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
EYES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
# The class of the model, that of its configuration, and what of it is not the default.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_inner": 24}),
    "gpt2, untied, relu": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"tie_word_embeddings": False, "activation_function": "relu"},
    ),
    "bert": ("BertModel", "BertConfig", {"hidden_act": "gelu_new"}),
    "roberta": ("RobertaModel", "RobertaConfig", {"type_vocab_size": 1}),
    "distilbert": ("DistilBertModel", "DistilBertConfig", {"hidden_dim": 24}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"attention_bias": True, **GROUPED}),
    "llama, slowed as Llama 3": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"rope_parameters": LLAMA3, **GROUPED},
    ),
    "llama, slowed, tied": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"rope_parameters": LINEAR, "tie_word_embeddings": True},
    ),
    "mistral": ("MistralForCausalLM", "MistralConfig", {"sliding_window": 5, **GROUPED}),
    "mistral, no window": (
        "MistralForCausalLM",
        "MistralConfig",
        {"sliding_window": None, **GROUPED},
    ),
    "qwen2": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            "num_key_value_heads": 2,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 1,
        },
    ),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"tie_word_embeddings": True, **GROUPED}),
    "gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, **GEMMA},
    ),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {"layer_types": TYPES, **GEMMA}),
    "gemma3, with eyes": (
        "Gemma3ForConditionalGeneration",
        "Gemma3Config",
        {"text_config": SIZES | GEMMA, "vision_config": EYES},
    ),
    "pythia": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {}),
    "gpt-neox, in turn": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {"use_parallel_residual": False, "attention_bias": False},
    ),
    "phi": ("PhiForCausalLM", "PhiConfig", {"num_key_value_heads": 2}),
    "opt": ("OPTForCausalLM", "OPTConfig", {"ffn_dim": 24}),
    "opt, norm after": (
        "OPTForCausalLM",
        "OPTConfig",
        {"ffn_dim": 24, "do_layer_norm_before": False, "enable_bias": False},
    ),
}


def configuration_of(name: str, **changes: Any) -> Any:
    """The configuration of a model of the table."""
    _, config, settings = MODELS[name]
    wanted = SIZES | settings | changes
    return getattr(transformers, config)(**wanted, attn_implementation="eager")


def reference(name: str, model: str | None = None, **changes: Any) -> Any:
    """A model of the table, or another `model` of its configuration; no weight is left at 0 or 1.

    The matrices are large enough for maps that are not flat.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        made = getattr(transformers, model or MODELS[name][0])(configuration_of(name, **changes))
        for parameter in made.parameters():
            parameter += (0.25 if parameter.ndim > 1 else 0.1) * torch.randn_like(parameter)
    return made.eval()
