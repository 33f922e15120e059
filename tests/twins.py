"""The layers, models and tokenizers of other libraries that ours are compared with."""

from typing import Any

import torch

from attnlib.models import TransformerConfig
from attnlib.pretrained.published import smollm2_file


@torch.no_grad()
def attention_twin(ours: Any) -> torch.nn.MultiheadAttention:
    """`torch.nn.MultiheadAttention` with our weights: transposed, and the heads in one matrix."""
    heads, d_model, _ = ours.W_Q.shape
    d_source, bias = ours.W_K.shape[1], ours.b_O is not None
    sizes: dict[str, Any] = {"kdim": d_source, "vdim": d_source, "dtype": ours.W_Q.dtype}
    twin = torch.nn.MultiheadAttention(d_model, heads, bias=bias, batch_first=True, **sizes).eval()
    stacked = [W.mT.flatten(0, 1) for W in (ours.W_Q, ours.W_K, ours.W_V)]
    if d_source == d_model:
        twin.in_proj_weight.copy_(torch.cat(stacked))
    else:
        for name, weight in zip("qkv", stacked, strict=True):
            getattr(twin, f"{name}_proj_weight").copy_(weight)
    twin.out_proj.weight.copy_(ours.W_O.flatten(0, 1).T)
    if bias:
        twin.in_proj_bias.copy_(torch.cat([b.flatten() for b in (ours.b_Q, ours.b_K, ours.b_V)]))
        twin.out_proj.bias.copy_(ours.b_O)
    return twin


@torch.no_grad()
def layer_twin(block: Any) -> Any:
    """`torch.nn.TransformerEncoderLayer` or `…DecoderLayer` with the weights of our block."""
    config, cross = block.config, block.cross_attention
    kind: Any = torch.nn.TransformerDecoderLayer if cross else torch.nn.TransformerEncoderLayer
    sizes = config.d_model, config.heads, config.d_ff, 0.0, config.activation, config.norm_eps
    norms, dtype = [block.norm_1, block.norm_2], block.norm_1.weight.dtype
    twin = kind(*sizes, True, norm_first=config.norm == "pre", dtype=dtype)
    twin.self_attn = attention_twin(block.attention).train()
    if cross:
        twin.multihead_attn = attention_twin(cross).train()
        norms.insert(1, block.norm_cross)
    for number, norm in enumerate(norms, 1):
        getattr(twin, f"norm{number}").load_state_dict(norm.state_dict())
    for number in "12":
        linear = getattr(twin, f"linear{number}")
        linear.weight.copy_(getattr(block.feed_forward, f"W_{number}").T)
        linear.bias.copy_(getattr(block.feed_forward, f"b_{number}"))
    return twin


def gpt2(config: TransformerConfig, **options: Any) -> Any:
    """`transformers`' own GPT-2 of the same sizes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = GPT2Config(
        vocab_size=config.vocab_size,
        n_embd=config.d_model,
        n_layer=config.layers,
        n_head=config.heads,
        n_inner=config.d_ff,
        n_positions=config.max_len,
        layer_norm_epsilon=config.norm_eps,
        **{"attn_implementation": "eager", **options},
    )
    return GPT2LMHeadModel(sizes).eval()


def llama(config: TransformerConfig, **options: Any) -> Any:
    """`transformers`' own Llama of the same sizes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.d_k,
        intermediate_size=config.d_ff,
        max_position_embeddings=config.max_len,
        rope_parameters={"rope_type": "default", "rope_theta": config.rotary_base},
        rms_norm_eps=config.norm_eps,
        tie_word_embeddings=config.tied,
        attn_implementation="eager",
        **options,
    )
    return LlamaForCausalLM(sizes).eval()


SMOLLM2_NAMES = {  # in `transformers` → in the file
    "model.layers.": "blk.",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "self_attn.o_proj": "attn_output",
    "self_attn.": "attn_",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "mlp.": "ffn_",
    "_proj": "",
}


def smollm2_twin(config: TransformerConfig, **options: Any) -> Any:
    """SmolLM2 in `transformers`, with the weights that our reader unpacks."""
    file, pairs = smollm2_file(), config.d_model // config.heads // 2
    with torch.device("meta"):
        model = llama(config, **options)
    weights = {}
    for name in model.state_dict().keys() - {"lm_head.weight"}:
        packed = name
        for theirs, in_file in SMOLLM2_NAMES.items():
            packed = packed.replace(theirs, in_file)
        weight = file[packed]
        if "q_proj" in name or "k_proj" in name:  # turned: neighbours in the file, halves here
            weight = weight.unflatten(0, (-1, pairs, 2)).transpose(1, 2).flatten(0, 2)
        weights[name] = weight
    missing, unknown = model.load_state_dict(weights, strict=False, assign=True)
    assert (missing, unknown) == (["lm_head.weight"], [])
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)  # is in no file
    return model


def bpe_twin(texts: Any, vocab_size: int) -> Any:
    """`tokenizers` trained on the same texts; its vocabulary lacks our special token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
