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

import json
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from attnlib.attention import masked_softmax
from attnlib.data import REVIEWS_SHA256, reviews
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.evaluation import evaluating
from attnlib.recipes.cards import finished, result
from attnlib.tokenizers.words import CLS, padding_mask
from attnlib.training import classification as training

D_K, SEEDS = (1, 16, 256), (0, 1, 2)
ROWS = tuple((combine, divisor) for divisor in ("d_k", "d_v") for combine in ("concat", "add"))
TEXTS, MAX_LEN, BATCH, EPOCHS, LR, DROPOUT = 10_000, 64, 64, 10, 1e-3, 0.1
SIZE: dict[str, Any] = {"d_model": 32, "heads": 4, "d_ff": 256, "activation": "relu"}
KIND: dict[str, Any] = {"norm": "post", "positions": "none", "causal": False, "bias": True}


class ClsClassifier(nn.Module):
    """One encoder layer of which only the row of [CLS] is computed, and a linear output.

    The output reads no other row, and without positions the query of [CLS] is the same in every
    text. So a head scores a word x by x · u, with u = W_K q / divisor: the width of the keys
    changes how u is made, and not what it can be.

    Args:
        vocab_size: D.
        d_k: width of queries and keys.
        combine: "concat" (d_v = d_model / heads) or "add" (d_v = d_model).
        divisor: "d_k" or "d_v", whose root divides the scores.
    """

    def __init__(self, vocab_size: int, d_k: int, combine: str, divisor: str = "d_k") -> None:
        super().__init__()
        config = TransformerConfig(
            vocab_size, d_k=d_k, combine=combine, head=False, dropout=DROPOUT, **SIZE, **KIND
        )
        self.encoder, self.output = Transformer(config), nn.Linear(config.d_model, 1)
        layer = self.layer.attention
        self.scale = (d_k if divisor == "d_k" else layer.W_V.shape[-1]) ** -0.5
        nn.init.normal_(self.encoder.W_E)  # as the authors' code begins
        for W in (layer.W_Q, layer.W_K, layer.W_V):
            bound = (6 / (W.shape[1] + W.shape[0] * W.shape[2])) ** 0.5
            nn.init.uniform_(W, -bound, bound)

    @property
    def layer(self) -> Any:
        """The encoder's only block."""
        return self.encoder.blocks[0]

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings (B, T + 1, d_model) of ids (B, T), [CLS] in front."""
        return self.encoder.embed(torch.cat([torch.full_like(ids[:, :1], CLS), ids], 1))

    def directions(self, x: Tensor) -> Tensor:
        """u of every head, (B, H, d_model), from the embedding of [CLS], (B, d_model)."""
        layer = self.layer.attention
        q = torch.einsum("bd,hdk->bhk", x, layer.W_Q) + layer.b_Q
        u: Tensor = torch.einsum("bhk,hdk->bhd", q, layer.W_K) * self.scale
        return u

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits (B,) of ids (B, T), padded at the end."""
        mask, x = padding_mask(ids) if mask is None else mask, self.embed(ids)
        with_cls = torch.cat([torch.ones_like(mask[:, :1]), mask], 1)[:, None]
        weights = masked_softmax(self.directions(x[:, 0]) @ x.mT, with_cls)  # (B, H, T + 1)
        block, p = self.layer, DROPOUT if self.training else 0.0
        layer = block.attention
        mixed = torch.einsum("bhd,hdv->bhv", weights @ x, layer.W_V) + layer.b_V
        y = block.norm_1(x[:, :1] + dropout(layer.write(mixed[:, :, None]), p))
        y = block.norm_2(y + dropout(block.feed_forward(y), p))
        logits: Tensor = self.output(y[:, 0]).squeeze(-1)
        return logits


@torch.no_grad()
def spread(model: ClsClassifier, data: training.Examples) -> float:
    """Standard deviation of a head's scores over the words of a text, mean of heads and texts."""
    with evaluating(model):
        x = model.embed(data.ids)
        scores = (model.directions(x[:, 0]) @ x[:, 1:].mT).mT  # (B, T, H)
    words = zip(scores, data.mask, strict=True)
    by_text = [row[real].std(0).mean() for row, real in words if real.sum() > 1]
    return float(torch.stack(by_text).mean())


def run(
    parts: dict[str, training.Examples],
    size: int,
    made: tuple[int, str, str],
    seed: int,
    steps: int | None = None,
) -> tuple[float, float]:
    """One run: its test accuracy at the best epoch, and the spread of its scores at the end.

    Args:
        parts: "train", "validation" and "test".
        size: of the vocabulary.
        made: d_k, combine and divisor of the model.
        seed: of the first weights, the order of the texts, and dropout.
        steps: other than ten epochs.
    """
    torch.manual_seed(seed)
    model, data = ClsClassifier(size, *made), parts["train"]
    per_epoch = -(-len(data) // BATCH)
    steps = EPOCHS * per_epoch if steps is None else steps
    found: list[list[float]] = []

    def measure(step: int, model: nn.Module) -> None:
        if step == steps or (step and step % per_epoch == 0):
            with evaluating(model):
                splits = (parts["validation"], parts["test"])
                found.append([training.accuracy(model, part) for part in splits])

    settings: dict[str, Any] = {"batch_size": BATCH, "lr": LR, "schedule": "constant", "warmup": 0}
    epochs = steps * BATCH / len(data)
    finished(training.fit_classifier(model, data, epochs, seed=seed, on_step=measure, **settings))
    accuracy = max(found, key=lambda pair: pair[0])[1]
    return round(accuracy, 4), round(spread(model, parts["test"].take(slice(500))), 3)


def train(name: str, steps: int | None, folder: Path) -> Path:
    """Make all runs and write the card; an interrupted sweep goes on where it stopped.

    Returns the path of the card.
    """
    words, splits = training.vocabulary("imdb"), reviews("imdb")
    parts = {
        split: training.examples(getattr(splits, split), words, MAX_LEN)
        for split in ("train", "validation", "test")
    }
    parts["train"] = parts["train"].take(slice(TEXTS))
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"{name}.state"
    found = json.loads(state.read_text()) if state.exists() else {}
    for seed, d_k, (combine, divisor) in product(SEEDS, D_K, ROWS):
        key = f"{combine}, {divisor}, {d_k}, {seed}"
        if key not in found:
            found[key] = run(parts, len(words), (d_k, combine, divisor), seed, steps)
            state.write_text(json.dumps(found))
    path = result(name, folder, about(steps, found))
    state.unlink()
    return path


def about(steps: int | None, found: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """How the sweep was made, and both measures by row, d_k and seed."""
    tables = [
        {
            f"{combine}, {divisor}": [
                [found[f"{combine}, {divisor}, {d_k}, {seed}"][part] for seed in SEEDS]
                for d_k in D_K
            ]
            for combine, divisor in ROWS
        }
        for part in (0, 1)
    ]
    data = {"source": "imdb", "texts": TEXTS, "max_len": MAX_LEN, "sha256": REVIEWS_SHA256}
    return {
        "data": data,
        "steps": EPOCHS * -(-TEXTS // BATCH) if steps is None else steps,
        "d_k": D_K,
        "seeds": SEEDS,
        "accuracy": tables[0],
        "spread": tables[1],
    }
