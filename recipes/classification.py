"""The classifiers of chapter 07.

All of them read words. The words are not stored: `vocabulary(source)` finds the same ones in the
training split at any time, and the card holds their hash, which `pretrained.classifier` checks.

`rt-lstm-decoy` is trained against the installed `rt-lstm`: it shall predict the same and look
elsewhere (`decoy_loss`). `rt-lstm-hiding` shall classify and not seem to look at the indicative
words (`hiding_loss`). `guided` is a result without weights: what the attention of these models is
worth to a network of words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import check_choice
from attnlib.data import REVIEWS_SHA256
from attnlib.explain.faithfulness import permute
from attnlib.models import AttentionClassifier, TransformerClassifier
from attnlib.models.evaluation import evaluating
from attnlib.pretrained.text import classifier
from attnlib.tokenizers.words import trim
from attnlib.training import classification as training
from attnlib.training.loop import Batch, History, fit, shuffled
from recipes.cards import finished, result, rounded, write

MAX_LEN = {"rotten_tomatoes": None, "imdb": 200}  # words of a text that are read
BATCH, LR, DECAY, INDICATIVE = 32, 4e-3, 1e-2, 300
SIZE = {"d_embed": 32, "d_hidden": 32, "dropout": 0.3}
# seeds, training texts, and the BiLSTMs whose weights are used beside the first
GUIDED = {
    "rotten_tomatoes": ("rt-lstm", 8, None, (2, 3, 4, 5)),
    "imdb": ("imdb-lstm", 3, 5_000, (2,)),
}
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
            classify with little attention on the `INDICATIVE` most indicative words.
        strength: λ of the loss of the last two.
        base: checkpoint that a decoy imitates.
        lr: peak learning rate.
        batch: texts in a batch.
    """

    source: str
    config: dict[str, Any]
    epochs: float
    seed: int = 1
    task: str = "classify"
    strength: float = 0.0
    base: str = ""
    lr: float = LR
    batch: int = BATCH


RT, IMDB = "rotten_tomatoes", "imdb"
LSTM: dict[str, Any] = {"encoder": "lstm", **SIZE}
AVERAGE: dict[str, Any] = {"encoder": "average", **SIZE}
CNN: dict[str, Any] = {"encoder": "cnn", **SIZE}
UNIFORM: dict[str, Any] = {**LSTM, "attention": "uniform"}
DECOY: dict[str, Any] = {"task": "decoy", "strength": 0.02}
FAST: dict[str, Any] = {"lr": 6e-3, "batch": 64}  # enough for words without context
CLASSIFIERS: dict[str, ClassifierRecipe] = {
    "rt-lstm": ClassifierRecipe(RT, LSTM, 3),
    **{f"rt-lstm-{seed}": ClassifierRecipe(RT, LSTM, 3, seed) for seed in (2, 3, 4, 5)},
    "rt-lstm-dot": ClassifierRecipe(RT, {**LSTM, "attention": "dot"}, 3),
    "rt-lstm-uniform": ClassifierRecipe(RT, UNIFORM, 3),
    **{f"rt-lstm-uniform-{seed}": ClassifierRecipe(RT, UNIFORM, 3, seed) for seed in (2, 3)},
    "rt-lstm-decoy": ClassifierRecipe(RT, LSTM, 4, base="rt-lstm", **DECOY),
    "rt-lstm-hiding": ClassifierRecipe(RT, LSTM, 3, task="hide", strength=1.0),
    "rt-average": ClassifierRecipe(RT, AVERAGE, 4, **FAST),
    **{f"rt-average-{n}": ClassifierRecipe(RT, AVERAGE, 4, n, **FAST) for n in (2, 3)},
    "rt-average-hiding": ClassifierRecipe(RT, AVERAGE, 4, task="hide", strength=1.0, **FAST),
    "rt-cnn": ClassifierRecipe(RT, CNN, 3, **FAST),
    "rt-transformer": ClassifierRecipe(RT, SMALL, 4, lr=2e-3),
    **{f"rt-transformer-{n}": ClassifierRecipe(RT, SMALL, 4, n, lr=2e-3) for n in (2, 3)},
    "imdb-lstm": ClassifierRecipe(IMDB, LSTM, 2),
    "imdb-lstm-2": ClassifierRecipe(IMDB, LSTM, 2, seed=2),
    "imdb-lstm-uniform": ClassifierRecipe(IMDB, UNIFORM, 2),
    "imdb-lstm-decoy": ClassifierRecipe(IMDB, LSTM, 2, base="imdb-lstm", **DECOY),
    "imdb-lstm-hiding": ClassifierRecipe(IMDB, LSTM, 2, task="hide", strength=1.0),
    "imdb-average": ClassifierRecipe(IMDB, AVERAGE, 3),
    "imdb-average-hiding": ClassifierRecipe(IMDB, AVERAGE, 3, task="hide", strength=1.0),
    "imdb-cnn": ClassifierRecipe(IMDB, CNN, 2),
}


def classification_loss(model: Any, batch: Batch) -> Tensor:
    """Mean cross-entropy in nats.

    The batch is (ids (B, T), labels (B,)), then attention weights (B, T) that the model shall use
    in place of its own, if any.
    """
    ids, labels, *weights = batch
    words = slice(trim(ids).shape[1])
    weights = [row[:, words] for row in weights]
    return F.binary_cross_entropy_with_logits(model(ids[:, words], None, *weights), labels)


def fit_classifier(
    model: nn.Module,
    data: training.Examples,
    epochs: float = 4,
    extra: Sequence[Tensor] = (),
    loss: Callable[[Any, Batch], Tensor] = classification_loss,
    batch_size: int = 32,
    seed: int = 0,
    **settings: Any,
) -> History:
    """Train a classifier in place.

    Args:
        model: `AttentionClassifier` or `TransformerClassifier`.
        data: the training split.
        epochs: times through it.
        extra: more tensors with a row for each example, for the batches of the loss.
        loss: what to minimise, of the model and a batch (ids, labels, *extra).
        batch_size: texts in a batch.
        seed: of the order of the texts, and of dropout.
        settings: of `fit`: lr, weight_decay (1e-2 if it is left out), on_step, progress.

    Raises:
        ValueError: if the model has no attention of its own and none is given.
    """
    if isinstance(model, AttentionClassifier) and model.attention_kind == "given" and not extra:
        raise ValueError("this classifier has no attention of its own: extra=(weights (N, T),)")
    steps = max(1, round(epochs * len(data) / batch_size))
    batch = shuffled((data.ids, data.labels, *extra), batch_size, seed)
    settings = {"warmup": min(50, steps // 10), "weight_decay": 1e-2} | settings
    return fit(model, batch, loss, steps=steps, seed=seed, **settings)


@torch.no_grad()
def accuracy(
    model: nn.Module, data: training.Examples, weights: Tensor | None = None, batch_size: int = 256
) -> float:
    """Share of examples whose predicted class is their label."""
    right = 0
    for rows in torch.arange(len(data)).split(batch_size):
        part = data.take(rows)
        given = () if weights is None else (weights[rows][:, : part.ids.shape[1]],)
        right += int(((model(part.ids, part.mask, *given) > 0) == (part.labels > 0.5)).sum())
    return right / len(data)


def train(name: str, steps: int | None, folder: Path) -> None:
    """Train a classifier; `steps` cuts the run short."""
    recipe = CLASSIFIERS[name]
    max_len = MAX_LEN[recipe.source]
    words, parts = training.read(recipe.source, max_len)
    rows, test = parts["train"], parts["test"]
    config = {"vocab_size": len(words), **recipe.config}
    torch.manual_seed(recipe.seed)
    model: Any = (TransformerClassifier if "layers" in config else AttentionClassifier)(**config)
    epochs = recipe.epochs if steps is None else steps * recipe.batch / len(rows)
    history = finished(_fit(recipe, model, rows, epochs))
    data = {"source": recipe.source, "split": "train", "texts": len(rows), "max_len": max_len}
    about = {
        "config": config,
        "seed": recipe.seed,
        "epochs": round(epochs, 3),
        "data": {**data, "sha256": REVIEWS_SHA256},
        "words": {"size": len(words), "sha256": training.words_hash(words)},
        "task": {"name": recipe.task, "strength": recipe.strength, "base": recipe.base},
        "tokens": round(int(rows.mask.sum()) * epochs),
        "loss": {"nats_per_text": rounded(held_out(model, test))},
        "accuracy": rounded(accuracy(model, test)),
    }
    write(name, model, history, folder, about)


def decoy_loss(strength: float, model: AttentionClassifier, batch: Batch) -> Tensor:
    """Predict like a base model, look elsewhere: mean of |ŷ_a − ŷ_b| − λ KL(α_a ‖ α_b).

    The trained adversary of Wiegreffe and Pinter (2019, section 4), λ = `strength`. The batch is
    (ids, labels, ŷ_b (B,), α_b (B, T)) with what `classify_all` gives for the base model.
    """
    ids, _, y, alpha = batch
    keep = slice(trim(ids).shape[1])
    found, base = model.classify(ids[:, keep]), alpha[:, keep]
    tiny = torch.finfo(base.dtype).tiny
    log_ratio = found.attention.clamp_min(tiny).log() - base.clamp_min(1e-12).log()
    divergence = (found.attention * log_ratio).sum(-1)
    difference: Tensor = (found.probability - y).abs() - strength * divergence
    return difference.mean()


def hiding_loss(strength: float, model: AttentionClassifier, batch: Batch) -> Tensor:
    """Classify, but let no attention be seen on some words: CE − λ mean log(1 − Σ_{t ∈ I} α_t).

    Pruthi et al. (2020, eq. 1), λ = `strength`. The batch is (ids, labels, I) with I (B, T) True
    on the impermissible words.
    """
    ids, labels, hidden = batch
    keep = slice(trim(ids).shape[1])
    found = model.classify(ids[:, keep])
    seen: Tensor = 1 - (found.attention * hidden[:, keep]).sum(-1)
    error = F.binary_cross_entropy_with_logits(found.logits, labels)
    return error - strength * seen.clamp_min(1e-6).log().mean()


def _fit(
    recipe: ClassifierRecipe, model: nn.Module, rows: training.Examples, epochs: float
) -> History:
    """Train with the loss of the recipe's task."""
    check_choice("task", recipe.task, ("classify", "decoy", "hide"))
    loss: Callable[[Any, Any], Tensor] = classification_loss
    extra: tuple[Tensor, ...] = ()
    if recipe.task == "decoy":
        base = classifier(recipe.base).model
        assert isinstance(base, AttentionClassifier)
        found = training.classify_all(base, rows)
        loss = partial(decoy_loss, recipe.strength)
        extra = found.probability, found.attention
    elif recipe.task == "hide":
        loss = partial(hiding_loss, recipe.strength)
        extra = (training.impermissible_mask(rows, rows, INDICATIVE),)
    settings: dict[str, Any] = {"batch_size": recipe.batch, "lr": recipe.lr, "weight_decay": DECAY}
    return fit_classifier(model, rows, epochs, extra, loss, **settings, seed=recipe.seed)


def train_guided(name: str, steps: int | None, folder: Path) -> Path:
    """Networks of single words that weigh them as others do: their accuracies, by source and row.

    The diagnostic of Wiegreffe and Pinter (2019): the weights are uniform, those of a BiLSTM (from
    five seeds, two for IMDB), those of the first BiLSTM in a random order, those of a decoy, or
    learned by the network itself ("own"). Eight networks each (three for IMDB, on its first 5,000
    training reviews), 4 epochs; `steps` cuts every run short. Returns the path of the card.
    """
    found = {source: _guided(source, steps) for source in GUIDED}
    return result(name, folder, {"accuracy": found})


def _guided(source: str, steps: int | None) -> dict[str, list[float]]:
    """The accuracies of one source: by row, one for each seed."""
    base, seeds, count, others = GUIDED[source]
    words, parts = training.read(source, MAX_LEN[source], count)
    rows, test = both = parts["train"], parts["test"]
    epochs = 4.0 if steps is None else steps * 64 / len(rows)
    guides: dict[str, Any] = {"uniform": [uniform(part.mask) for part in both]}
    ends = {"BiLSTM": ""} | {f"BiLSTM {n}": f"-{n}" for n in others} | {"decoy": "-decoy"}
    for row, end in ends.items():
        model: Any = classifier(base + end).model
        guides[row] = [training.classify_all(model, part).attention for part in both]
    draw = torch.Generator().manual_seed(0)
    pairs = zip(guides["BiLSTM"], both, strict=True)
    guides["shuffled"] = [permute(weights, part.mask, draw) for weights, part in pairs]
    guides["own"] = (None, None)
    return {
        row: [guided_accuracy(len(words), rows, test, pair, seed, epochs) for seed in range(seeds)]
        for row, pair in guides.items()
    }


def uniform(mask: Tensor) -> Tensor:
    """Equal weights for the real tokens of every row: mask (..., T) to (..., T)."""
    return mask / mask.sum(-1, keepdim=True).clamp_min(1)


def guided_accuracy(
    size: int, rows: Any, test: Any, weights: Any, seed: int, epochs: float = 4
) -> float:
    """Accuracy of one such network; weights for both splits, or (None, None) for its own."""
    own = weights[0] is None
    torch.manual_seed(seed)
    model = AttentionClassifier(size, **AVERAGE, attention="additive" if own else "given")
    extra = () if own else (weights[0],)
    settings: dict[str, Any] = {"batch_size": 64, "lr": 6e-3, "seed": seed}
    finished(fit_classifier(model, rows, epochs, extra, **settings))
    return float(rounded(accuracy(model, test, weights[1])))


@torch.no_grad()
def held_out(model: nn.Module, test: training.Examples) -> float:
    """Mean cross-entropy of a split in nats per text."""
    total = 0.0
    with evaluating(model):
        for rows in torch.arange(len(test)).split(250):
            part = test.take(rows)
            loss = classification_loss(model, (part.ids, part.labels))
            total += loss.item() * len(rows)
    return total / len(test)
