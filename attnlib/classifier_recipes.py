"""How the checkpoints of chapter 07 are made: `python -m attnlib.training NAME`.

All of them read words. The words are not stored: `classify.vocabulary(source)` finds the same ones
in the training split at any time, and the card holds their hash. `load_classifier` checks it.

`rt-lstm-decoy` is trained against the installed `rt-lstm`: it shall predict the same and look
elsewhere. `rt-lstm-hiding` shall classify and not seem to look at the telling words.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlib import pretrained
from attnlib.classifiers import AttentionClassifier, TransformerClassifier
from attnlib.classify import (
    MAX_LEN,
    Examples,
    accuracy,
    classification_loss,
    decoy_loss,
    examples,
    fit_classifier,
    hiding_loss,
    is_telling,
    read_all,
    vocabulary,
)
from attnlib.data import REVIEWS_SHA256, reviews
from attnlib.training import History
from attnlib.words import WordVocabulary

BATCH, LR, DECAY, TELLING = 32, 4e-3, 1e-2, 300
TASKS = ("classify", "decoy", "hide")
SIZE = {"d_embed": 32, "d_hidden": 32, "dropout": 0.3}
SMALL = {"d_model": 32, "layers": 2, "heads": 4, "d_ff": 64, "max_len": 64, "dropout": 0.2}


@dataclass(frozen=True)
class ClassifierRecipe:
    """How a classifier is built and trained.

    Attributes:
        source: of the reviews.
        config: arguments of the model, besides the size of the vocabulary; `TransformerClassifier`
            if there are layers among them, else `AttentionClassifier`.
        epochs: times through the training split.
        seed: of the first weights and the order of the texts.
        task: "classify"; "decoy", to predict as `base` does with other attention; or "hide", to
            classify with little attention on the `TELLING` most telling words.
        strength: λ of the loss of the last two.
        base: checkpoint that a decoy imitates.
        lr: peak learning rate.
    """

    source: str
    config: dict[str, Any]
    epochs: float
    seed: int = 1
    task: str = "classify"
    strength: float = 0.0
    base: str = ""
    lr: float = LR


RT = "rotten_tomatoes"
LSTM: dict[str, Any] = {"encoder": "lstm", **SIZE}
CLASSIFIERS: dict[str, ClassifierRecipe] = {
    "rt-lstm": ClassifierRecipe(RT, LSTM, 3),
    "rt-lstm-2": ClassifierRecipe(RT, LSTM, 3, seed=2),
    "rt-lstm-3": ClassifierRecipe(RT, LSTM, 3, seed=3),
    "rt-lstm-dot": ClassifierRecipe(RT, {**LSTM, "attention": "dot"}, 3),
    "rt-lstm-uniform": ClassifierRecipe(RT, {**LSTM, "attention": "uniform"}, 3),
    "rt-lstm-decoy": ClassifierRecipe(RT, LSTM, 4, task="decoy", strength=0.02, base="rt-lstm"),
    "rt-lstm-hiding": ClassifierRecipe(RT, LSTM, 3, task="hide", strength=1.0),
    "rt-transformer": ClassifierRecipe(RT, SMALL, 4, lr=2e-3),
    "imdb-lstm": ClassifierRecipe("imdb", LSTM, 2),
    "imdb-average": ClassifierRecipe("imdb", {"encoder": "average", **SIZE}, 3),
    "imdb-cnn": ClassifierRecipe("imdb", {"encoder": "cnn", **SIZE}, 2),
}


def words_hash(words: WordVocabulary) -> str:
    """SHA-256 of the words in the order of their ids.

    >>> words_hash(WordVocabulary(("a", "b")))[:12]
    '7e18f737311b'
    """
    return hashlib.sha256("\n".join(words.words).encode()).hexdigest()


def load_classifier(name: str) -> tuple[Any, WordVocabulary]:
    """A trained classifier and the words it reads.

    Returns:
        an `AttentionClassifier` or a `TransformerClassifier`, and its vocabulary.

    Raises:
        ValueError: if there is no such checkpoint, or it reads no words.
        RuntimeError: if the vocabulary is not the one it was trained with.
    """
    about = pretrained.card(name)
    if "words" not in about:
        raise ValueError(f"{name!r} reads no words; the classifiers are {sorted(CLASSIFIERS)}")
    words = vocabulary(about["data"]["source"])
    if words_hash(words) != about["words"]["sha256"]:
        raise RuntimeError(
            f"the words of {name!r} are not those of the training split any more: rebuild it with "
            f"{about['command']}"
        )
    return pretrained.load(name), words


def classifier(name: str, steps: int | None, folder: Path) -> None:
    """Train a classifier; `steps` cuts the run short."""
    recipe = CLASSIFIERS[name]
    source, max_len = reviews(recipe.source), MAX_LEN[recipe.source]
    words = vocabulary(recipe.source)
    train, test = (examples(split, words, max_len) for split in (source.train, source.test))
    config = {"vocab_size": len(words), **recipe.config}
    torch.manual_seed(recipe.seed)
    model: Any = (TransformerClassifier if "layers" in config else AttentionClassifier)(**config)
    epochs = recipe.epochs if steps is None else steps * BATCH / len(train)
    history = _fit(recipe, model, train, epochs)
    if history.interrupted:
        raise SystemExit(f"stopped at step {history.steps}; nothing was written")
    about = {
        "command": f"python -m attnlib.training {name}",
        "config": config,
        "parameters": sum(p.numel() for p in model.parameters()),
        "data": {
            "source": recipe.source,
            "split": "train",
            "texts": len(train),
            "max_len": max_len,
            "sha256": REVIEWS_SHA256,
        },
        "words": {"size": len(words), "sha256": words_hash(words)},
        "task": {"name": recipe.task, "strength": recipe.strength, "base": recipe.base},
        "seed": recipe.seed,
        "steps": history.steps,
        "epochs": round(epochs, 3),
        "tokens": round(int(train.mask.sum()) * epochs),
        "optimizer": {
            "name": "AdamW", "lr": recipe.lr, "weight_decay": DECAY, "schedule": "cosine"
        },
        "loss": {"nats_per_text": round(_held_out(model, test), 4)},
        "accuracy": round(accuracy(model, test), 4),
        "curve": _curve(history.losses),
    }  # fmt: skip
    pretrained.save(name, model, about, folder)


def _fit(recipe: ClassifierRecipe, model: Any, train: Examples, epochs: float) -> History:
    """Train with the loss of the recipe's task."""
    loss: Callable[[Any, Any], Tensor] = classification_loss
    extra: tuple[Tensor, ...] = ()
    if recipe.task == "decoy":
        base, _ = load_classifier(recipe.base)
        found = read_all(base, train)
        loss, extra = decoy_loss(recipe.strength), (found.probability, found.attention)
    elif recipe.task == "hide":
        loss, extra = hiding_loss(recipe.strength), (is_telling(train, train, TELLING),)
    elif recipe.task != "classify":
        raise ValueError(f"task must be one of {TASKS}, got {recipe.task!r}")
    return fit_classifier(
        model, train, epochs, extra, loss, BATCH, recipe.lr, DECAY, recipe.seed
    )  # fmt: skip


@torch.no_grad()
def _held_out(model: Any, test: Examples) -> float:
    """Mean cross-entropy of a split in nats per text."""
    total = 0.0
    for rows in torch.arange(len(test)).split(250):
        part = test.take(rows)
        total += classification_loss(model.eval(), (part.ids, part.labels)).item() * len(rows)
    return total / len(test)


def _curve(losses: list[float]) -> dict[str, Any]:
    """The losses of a run, as means of some 50 blocks."""
    every = max(1, len(losses) // 50)
    blocks = [losses[i : i + every] for i in range(0, len(losses), every)]
    return {"every": every, "train_loss": [round(sum(b) / len(b), 4) for b in blocks]}
