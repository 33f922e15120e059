"""The checkpoints of the course: weights in half precision, and cards that say how they were made.

`load(name)` gives a trained model, `tokenizer(name)` a trained BPE, `card(name)` its card,
`history(name)` what was measured on the way; `recipes.cards` writes them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from attnlib import models
from attnlib.data import check_sha256
from attnlib.tokenizers.bpe import BPE

FOLDER = Path(__file__).parent.parent / "checkpoints"


def _transformer(**config: Any) -> models.Transformer:
    return models.Transformer(models.TransformerConfig(**config))


# What makes a model of the configuration in its card.
KINDS: dict[str, Callable[..., nn.Module]] = {
    "AttentionClassifier": models.AttentionClassifier,
    "Elman": models.Elman,
    "HistogramModel": models.HistogramModel,
    "NeuralNgram": models.NeuralNgram,
    "Recurrent": models.Recurrent,
    "Seq2Seq": models.Seq2Seq,
    "Transformer": _transformer,
    "TransformerClassifier": models.TransformerClassifier,
    "Translator": models.Translator,
    "ZeroLayer": models.ZeroLayer,
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
    about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return about


def load(name: str) -> nn.Module:
    """A trained model, in evaluation mode and single precision.

    Raises:
        ValueError: if there is no such checkpoint (names those there are), or it is a tokenizer
            or a result without weights.
        RuntimeError: if the weights are not those that the card speaks of.
    """
    about = card(name)
    others = {
        "BPE": f"is no model: tokenizer({name!r}) loads it",
        "Result": f"is no model but a result: card({name!r}) holds it",
        "Annotations": "is no model: parsed_sentences() reads its sentences",
    }
    if about["kind"] in others:
        raise ValueError(f"{name!r} {others[about['kind']]}")
    weights = load_file(checked_file(about))
    model = KINDS[about["kind"]](**about["config"])
    model.load_state_dict({key: value.float() for key, value in weights.items()})
    return model.eval()


def tokenizer(name: str = "reviews-bpe") -> BPE:
    """A tokenizer of the course.

    Raises:
        ValueError: if there is no such checkpoint, or it is no tokenizer.
        RuntimeError: if the file is not the one that the card speaks of.
    """
    about = card(name)
    if about["kind"] != "BPE":
        raise ValueError(f"{name!r} is a {about['kind']}, no tokenizer")
    return BPE.load(checked_file(about))


def history(name: str) -> dict[str, Tensor]:
    """What a run measured on its way, by name; the recipe tells names and shapes.

    Raises:
        ValueError: if there is no such checkpoint, or its run measured nothing.
        RuntimeError: if the file is not the one that the card speaks of.
    """
    about = card(name)
    if "history" not in about:
        raise ValueError(f"{name!r} has no history: its run measured nothing on the way")
    file = checked_file(about["history"] | {"command": about["command"]})
    return {
        name: values.float() if values.is_floating_point() else values
        for name, values in load_file(file).items()
    }


def checked_file(about: dict[str, Any]) -> Path:
    """The file that a card speaks of, if it is still the same."""
    path = FOLDER / str(about["file"])
    remedy = f"Get the file again, or rebuild it with: {about.get('command', 'its recipe')}"
    check_sha256(path, about["sha256"], remedy)
    return path
