"""Does the width of the keys matter? The sweep over d_k of chapter 12.

The model is that of Bhardwaj et al. (2021): one encoder layer of four heads, d_model 32, no
positions, and a classifier that reads the row of [CLS]. Runs differ in d_k, in how the heads come
together, in what divides the scores (√d_k in the paper, √d_v in the authors' code), and in the
seed. The result is a card without weights, in the order of `D_K` and one value for each seed:

- accuracy: on the test split, after the epoch that was best on the validation split;
- spread: standard deviation of a head's scores over the words of a text, mean of heads and texts.

Departures from the published protocol: reviews are cut to their first 64 words (theirs: 512), the
10,000 come from the training half of IMDB, its words are those of chapter 07 (6,770), padding is
masked, dropout spares the attention weights, and the gradient is clipped at 1.
"""

from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.data import REVIEWS_SHA256
from attnlib.models import TransformerClassifier
from attnlib.models.evaluation import evaluating
from attnlib.models.transformer import Edits
from attnlib.training import classification as training
from recipes.cards import finished, result, rounded, sweep
from recipes.classification import accuracy, fit_classifier

D_K, SEEDS = (1, 16, 256), (0, 1, 2)
ROWS = tuple((combine, divisor) for divisor in ("d_k", "d_v") for combine in ("concat", "add"))
TEXTS, MAX_LEN, BATCH, EPOCHS, LR = 10_000, 64, 64, 10, 1e-3


class OneLayer(TransformerClassifier):
    """The model of the sweep, which begins as the authors' code does.

    Args:
        vocab_size: D.
        d_k: width of queries and keys.
        combine: "concat" (d_v = d_model / heads) or "add" (d_v = d_model).
        divisor: "d_k" or "d_v", whose root divides the scores.
    """

    def __init__(self, vocab_size: int, d_k: int, combine: str, divisor: str = "d_k") -> None:
        kind: dict[str, Any] = {"d_k": d_k, "combine": combine, "dropout": 0.1, "norm": "post"}
        kind |= {"positions": "none", "activation": "relu"}
        super().__init__(vocab_size, 32, layers=1, d_ff=256, **kind)
        layer: Any = self.encoder.blocks[0].attention
        times = (d_k / layer.W_V.shape[-1]) ** 0.5 if divisor == "d_v" else 1.0
        self.divided: Edits = {("q", 0): lambda q: times * q}
        nn.init.normal_(self.encoder.W_E)
        for W in (layer.W_Q, layer.W_K, layer.W_V):
            bound = (6 / (W.shape[1] + W.shape[0] * W.shape[2])) ** 0.5
            W.detach().copy_(torch.empty(W.shape).uniform_(-bound, bound))

    def classify_embeddings(
        self, x: Tensor, mask: Tensor, need_weights: bool = False, edits: Edits | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """As of any other, with its own divisor."""
        return super().classify_embeddings(x, mask, need_weights, {**self.divided, **(edits or {})})


@torch.no_grad()
def spread(model: OneLayer, data: training.Examples) -> float:
    """Standard deviation of a head's scores over the words of a text, mean of heads and texts."""
    with evaluating(model):
        state = next(model.encoder.run(model.embed(data.ids), edits=model.divided))
        q, k = state.q[:, :, :1], state.k[:, :, 1:]  # of [CLS], and of the words
        scores = (k @ q.mT).squeeze(-1).mT / k.shape[-1] ** 0.5  # (B, T, H)
    words = zip(scores, data.mask, strict=True)
    by_text = [row[real].std(0).mean() for row, real in words if real.sum() > 1]
    return float(torch.stack(by_text).mean())


def run(
    parts: dict[str, training.Examples],
    size: int,
    made: tuple[int, int, tuple[str, str]],
    steps: int | None = None,
) -> tuple[float, float]:
    """One run: its test accuracy at the best epoch, and the spread of its scores at the end.

    Args:
        parts: "train", "validation" and "test".
        size: of the vocabulary.
        made: the seed of the first weights, the order of the texts, and dropout; d_k; and combine
            and divisor of the model.
        steps: other than ten epochs.
    """
    seed, d_k, row = made
    torch.manual_seed(seed)
    model, data = OneLayer(size, d_k, *row), parts["train"]
    per_epoch = -(-len(data) // BATCH)
    steps = EPOCHS * per_epoch if steps is None else steps
    found: list[list[float]] = []

    def measure(step: int, model: nn.Module) -> None:
        if step == steps or (step and step % per_epoch == 0):
            with evaluating(model):
                splits = (parts["validation"], parts["test"])
                found.append([accuracy(model, part) for part in splits])

    settings: dict[str, Any] = {"batch_size": BATCH, "lr": LR, "schedule": "constant", "warmup": 0}
    epochs = steps * BATCH / len(data)
    finished(fit_classifier(model, data, epochs, seed=seed, on_step=measure, **settings))
    best = max(found, key=lambda pair: pair[0])[1]
    return rounded(best), rounded(spread(model, parts["test"].take(slice(500))), 3)


def train(name: str, steps: int | None, folder: Path) -> Path:
    """Make all runs and write the card; an interrupted sweep goes on where it stopped.

    Returns the path of the card.
    """
    words, parts = training.read("imdb", MAX_LEN, TEXTS)
    runs = list(product(SEEDS, D_K, ROWS))
    found = sweep(name, folder, runs, lambda made: run(parts, len(words), made, steps))
    return result(name, folder, about(steps, found))


def about(steps: int | None, found: list[tuple[float, float]]) -> dict[str, Any]:
    """How the sweep was made, and both measures by row, d_k and seed."""
    table = torch.tensor(found, dtype=torch.float64).unflatten(0, (len(SEEDS), len(D_K), -1))
    names = [", ".join(row) for row in ROWS]
    share, spread = (
        dict(zip(names, part.tolist(), strict=True)) for part in table.permute(3, 2, 1, 0)
    )
    data = {"source": "imdb", "texts": TEXTS, "max_len": MAX_LEN, "sha256": REVIEWS_SHA256}
    steps = EPOCHS * -(-TEXTS // BATCH) if steps is None else steps
    settings = {"steps": steps, "d_k": D_K, "seeds": SEEDS}
    return {"data": data, **settings, "accuracy": share, "spread": spread}
