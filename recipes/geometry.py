"""The classifiers of chapter 13: one head in each layer, a residual and a norm, and nothing else.

They follow Fosse et al. 2023: a stack of self-attention without feed-forward blocks, classified
from [CLS]. The card `geometry` is a result without weights. Its `runs` are rows with the source,
the depth, λ of the entropy penalty, the rows that pay it ("all", or "read": that of [CLS], which
alone the output of one layer reads) and the seed; then what `properties` finds of 1,000 test
texts, and under "untrained" the same before the training; "accuracy" and "loss" on the test split;
and, of one layer, "map", A of `EXAMPLE`. `geometry-5` is one of the models, stored.

Departures from the paper: other texts; a fixed number of epochs instead of early stopping; W_O;
dropout; the penalty is on the entropy as a share of ln n.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlib.data import REVIEW_SPLITS, REVIEWS_SHA256
from attnlib.explain.geometry import class_cosines, mean_cosine, row_entropy
from attnlib.models.cls import TransformerClassifier, with_cls
from attnlib.models.evaluation import evaluating
from attnlib.tokenizers.words import padding_mask, trim
from attnlib.training import classification as training
from recipes.cards import finished, result, rounded, sweep, write
from recipes.classification import accuracy, fit_classifier, held_out

BATCH, LR, SAMPLE, SEEDS = 32, 1e-3, 1_000, (1, 2, 3)
EXAMPLE = "the film is long and slow but it has a good heart and a clever script"
SIZE: dict[str, Any] = {"heads": 1, "d_ff": None, "norm": "post", "bias": False, "dropout": 0.1}
# d_model, the words that are read of a text, the texts, the epochs
SOURCES = {"rotten_tomatoes": (128, 64, None, 6), "imdb": (64, 128, 5_000, 4)}
DEPTHS = {"rotten_tomatoes": (1, 2, 3, 5), "imdb": (1, 3, 5)}  # without a penalty
PENALTIES = {"rotten_tomatoes": (0.3, 1.0, 3.0), "imdb": (10.0,)}  # in one layer


class Run(NamedTuple):
    """One training: source, layers, λ, the rows that pay it, seed."""

    source: str
    layers: int = 1
    penalty: float = 0.0
    rows: str = "all"
    seed: int = 1


def runs() -> list[Run]:
    """All that the card holds, in the order of the trainings."""
    found = []
    for name, depths in DEPTHS.items():
        settings = [(layers, 0.0, "all") for layers in depths]
        settings += [(1, penalty, rows) for rows in ("all", "read") for penalty in PENALTIES[name]]
        found += [Run(name, *setting, seed) for setting in settings for seed in SEEDS]
    return found


def train(name: str, steps: int | None, folder: Path) -> None:
    """Train the stored model; `steps` cuts the run short."""
    run = Run("rotten_tomatoes", layers=5)
    model, found, history = _train(run, steps)
    _, max_len, texts, _ = SOURCES[run.source]
    texts = texts or REVIEW_SPLITS[run.source][0]
    data = {"source": run.source, "split": "train", "texts": texts, "max_len": max_len}
    about = {
        "config": _config(run),
        "seed": run.seed,
        "data": {**data, "sha256": REVIEWS_SHA256},
        "words": {"sha256": training.words_hash(training.vocabulary(run.source))},
        "loss": {"nats_per_text": found["loss"]},
        "accuracy": found["accuracy"],
    }
    write(name, model, history, folder, about)


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """Train them all and write the card; an interrupted call goes on where it stopped."""
    rows = sweep(name, folder, runs(), lambda run: {**run._asdict(), **_train(run, steps)[1]})
    return result(name, folder, {"example": EXAMPLE, "runs": rows})


def _config(run: Run) -> dict[str, Any]:
    d_model, max_len, _, _ = SOURCES[run.source]
    size = {"vocab_size": len(training.vocabulary(run.source)), "d_model": d_model}
    return {**size, "layers": run.layers, "max_len": max_len, **SIZE}


def _train(run: Run, steps: int | None) -> tuple[TransformerClassifier, dict[str, Any], Any]:
    """The model, what was measured before and after, and its history."""
    _, max_len, count, epochs = SOURCES[run.source]
    words, parts = training.read(run.source, max_len, count)
    rows, test = parts["train"], parts["test"]
    torch.manual_seed(run.seed)
    model = TransformerClassifier(**_config(run))
    sample = _balanced(test)
    untrained = properties(model, sample)
    passes = epochs if steps is None else steps * BATCH / len(rows)
    settings: dict[str, Any] = {"batch_size": BATCH, "lr": LR, "weight_decay": 0.0}
    loss = partial(penalised_loss, run.penalty, run.rows)
    history = fit_classifier(model, rows, passes, (), loss, seed=run.seed, **settings)
    found = properties(model, sample) | {"untrained": untrained}
    found["accuracy"] = rounded(accuracy(model, test))
    found["loss"] = rounded(held_out(model, test))
    if run.layers == 1:
        A = model.maps(torch.tensor([words.encode(EXAMPLE)]))[0, 0, 0]
        found["map"] = rounded(A)
    return model, found, finished(history)


def penalised_loss(penalty: float, rows: str, model: TransformerClassifier, batch: Any) -> Tensor:
    """Cross-entropy in nats + λ × mean entropy of rows, "all" or "read", as a share of ln n."""
    ids, labels = trim(batch[0]), batch[1]
    mask = padding_mask(ids)
    logits, maps = model.classify_embeddings(model.embed(ids), mask, penalty > 0)
    error = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    if maps is None:
        return error
    real = with_cls(mask)
    entropies = row_entropy(maps[:, :, 0], real.sum(-1)[:, None, None])  # (B, L, n)
    paying = entropies.mean(1)[real] if rows == "all" else entropies[..., 0]
    return error + penalty * paying.mean()


@torch.no_grad()
def properties(model: TransformerClassifier, data: training.Examples) -> dict[str, Any]:
    """What the card holds of a model, means over texts; lists have an entry for each layer.

    "keys", "values" (mean cosine in a text), "states" (likewise, embeddings first), "entropy"
    (of rows, share of ln n), "read" (of the row of [CLS]), "key_norm", "query_norm" (mean length),
    "uniform" and "one" (|Δŷ| when each row of the layer is uniform, or lies on a token drawn at
    random), "flat" (accuracy if all layers are uniform) beside "plain", "within" and "between"
    (cosines of the last [CLS] by class).
    """
    draw = torch.Generator().manual_seed(0)
    with evaluating(model):
        parts = [
            _batch(model, data.take(rows), draw) for rows in torch.arange(len(data)).split(250)
        ]
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    within, between = class_cosines(joined.pop("cls"), data.labels)
    found = {name: values.mean(0) for name, values in joined.items()}
    facts: dict[str, Any] = rounded(found | {"within": within, "between": between})
    return facts


def _batch(
    model: TransformerClassifier, part: training.Examples, draw: torch.Generator
) -> dict[str, Tensor]:
    """The properties of each text, (B, layers) or (B,), and its [CLS] (B, d_model)."""
    real, x, columns = with_cls(part.mask), model.embed(part.ids), []
    count, y = real.sum(-1), model(part.ids, part.mask).sigmoid()
    uniform = (real / count[:, None])[:, None].expand(-1, real.shape[1], -1)
    places = torch.rand(uniform.shape, generator=draw).masked_fill(~real[:, None], -1).argmax(-1)
    others = {"uniform": uniform, "one": nn.functional.one_hot(places, real.shape[1]).float()}
    states = [x]
    for number, state in enumerate(model.encoder.run(x, real, need_weights=True)):
        assert state.pattern is not None
        q, k, v, A = (each[:, 0] for each in (state.q, state.k, state.v, state.pattern))
        entropies = row_entropy(A, count[:, None])
        means = {"entropy": entropies, "key_norm": k.norm(dim=-1), "query_norm": q.norm(dim=-1)}
        column = {name: (each * real).sum(-1) / count for name, each in means.items()}
        column |= {"read": entropies[:, 0], "keys": mean_cosine(k, real)}
        column |= {"values": mean_cosine(v, real)}
        for name, weights in others.items():
            edits = {("pattern", number): lambda _, A=weights: A[:, None]}
            column[name] = (model.scorer(part.mask, edits)(x) - y).abs()
        states.append(state.resid_post)
        columns.append(column)
    found = {name: torch.stack([column[name] for column in columns], 1) for name in columns[0]}
    everywhere = {("pattern", layer): lambda _: uniform[:, None] for layer in range(len(columns))}
    right = {"plain": y, "flat": model.scorer(part.mask, everywhere)(x)}
    found |= {name: ((each > 0.5) == part.labels.bool()).float() for name, each in right.items()}
    cosines = torch.stack([mean_cosine(state, real) for state in states], 1)
    return found | {"states": cosines, "cls": states[-1][:, 0]}


def _balanced(test: training.Examples) -> training.Examples:
    """`SAMPLE` texts, half of each class, the first of a fixed order."""
    order = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))
    halves = [order[test.labels[order] == label][: SAMPLE // 2] for label in (0, 1)]
    return test.take(torch.cat(halves))
