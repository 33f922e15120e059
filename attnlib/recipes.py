"""How each checkpoint is made: `python -m attnlib.training NAME`, and one table of their losses.

The language models read the same tokens in the same order: batches of 32 windows of 128 tokens
from the IMDB training split, in the 4,096-token BPE of the reviews. 5,000 batches are 20.5 million
tokens; `reviews-gpt` goes on to 12,000, 49 million.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnlib import histogram_recipes, pretrained
from attnlib.bpe import BPE
from attnlib.classifier_recipes import CLASSIFIERS, classifier
from attnlib.data import REVIEWS_SHA256, Split, reviews
from attnlib.histogram import SEES
from attnlib.training import (
    bits_per_byte,
    evaluate,
    fit,
    next_token_loss,
    token_stream,
    windows,
)

STEPS, BATCH, LENGTH, VOCABULARY, SEED = 5_000, 32, 128, 4_096, 1


@dataclass(frozen=True)
class ModelRecipe:
    """How a language model is built and trained.

    Attributes:
        kind: its class, one of `pretrained.KINDS`.
        config: arguments of that class, besides the size of the vocabulary.
        lr: peak learning rate.
        steps: batches of 4,096 tokens.
        length: tokens of a window.
    """

    kind: str
    config: dict[str, Any]
    lr: float
    steps: int = STEPS
    length: int = LENGTH


# GPT-2's architecture, small: pre-norm, biases, tanh GELU, tied
GPT = {"layers": 4, "heads": 4, "d_ff": 512, "activation": "gelu_tanh", "bias": True, "tied": True}
LANGUAGE_MODELS = {  # those of the common table
    "zero-layer": ModelRecipe("ZeroLayer", {"d_model": 128}, 5e-3),
    "ngram-3": ModelRecipe("NeuralNgram", {"n": 3, "d_model": 128, "d_hidden": 128}, 3e-3),
    "ngram-5": ModelRecipe("NeuralNgram", {"n": 5, "d_model": 128, "d_hidden": 128}, 3e-3),
    "elman": ModelRecipe("Elman", {"d_model": 128, "d_hidden": 128}, 2e-3),
    "attention-1": ModelRecipe(
        "Transformer",
        {"d_model": 128, "layers": 1, "heads": 4, "max_len": LENGTH, "norm": "none"},
        3e-3,
    ),
    "reviews-gpt": ModelRecipe(
        "Transformer", {"d_model": 128, **GPT, "max_len": LENGTH}, 3e-3, 12_000
    ),
}
# one small model per kind of position, trained on short windows and asked about long ones
POSITIONS = {
    f"positions-{kind}": ModelRecipe(
        "Transformer",
        {"d_model": 64, "layers": 2, "heads": 4, "d_ff": 256, "max_len": 512, "positions": kind},
        3e-3,
        1_500,
        length=64,
    )
    for kind in ("learned", "sinusoidal", "rotary")
}


def reviews_bpe(name: str, steps: int | None, folder: Path) -> None:
    """The tokenizer of the reviews, learned from all 25,000 of IMDB."""
    splits = reviews("imdb")
    texts = [text for part in (splits.train, splits.validation, splits.test) for text in part.texts]
    about = {
        "command": f"python -m attnlib.training {name}",
        "data": {"source": "imdb", "texts": len(texts), "sha256": REVIEWS_SHA256},
        "vocab_size": VOCABULARY,
        "ties": "the pair with the smaller (left id, right id) is merged first",
    }
    pretrained.save(name, BPE.train(texts, VOCABULARY), about, folder)


def language_model(name: str, steps: int | None, folder: Path) -> None:
    """A language model of the table; the run can be interrupted and started again."""
    recipe = (LANGUAGE_MODELS | POSITIONS)[name]
    config = {"vocab_size": VOCABULARY, **recipe.config}
    stream = token_stream(reviews("imdb").train.texts, pretrained.load("reviews-bpe"))
    torch.manual_seed(SEED)
    model = pretrained.KINDS[recipe.kind](**config)
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"{name}.state"
    length = recipe.length
    history = fit(
        model,
        windows(stream, length, BATCH * LENGTH // length, SEED),
        # bfloat16 products: half the time, and the loss of the table is measured without them
        lambda model, window: next_token_loss(model, window, torch.bfloat16),
        steps=recipe.steps if steps is None else steps,
        lr=recipe.lr,
        warmup=200,
        seed=SEED,
        resume=state,
    )
    if history.interrupted:
        raise SystemExit(f"stopped at step {history.steps}; the same command goes on from there")
    every = max(1, history.steps // 50)
    blocks = [history.losses[i : i + every] for i in range(0, len(history.losses), every)]
    about = {
        "command": f"python -m attnlib.training {name}",
        "config": config,
        "parameters": sum(p.numel() for p in model.parameters()),
        "data": {"source": "imdb", "split": "train", "sha256": REVIEWS_SHA256},
        "tokenizer": "reviews-bpe",
        "seed": SEED,
        "steps": history.steps,
        "tokens": history.steps * BATCH * LENGTH,
        "window": length,
        "optimizer": {
            "name": "AdamW",
            "lr": recipe.lr,
            "warmup": 200,
            "schedule": "cosine",
            "clip": 1.0,
        },
        "loss": held_out(model, reviews("imdb").test, pretrained.load("reviews-bpe"), length),
        "curve": {"every": every, "train_loss": [round(sum(b) / len(b), 4) for b in blocks]},
    }
    pretrained.save(name, model, about, folder)
    state.unlink()


def held_out(model: Any, split: Split, bpe: BPE, length: int = LENGTH) -> dict[str, float]:
    """The held-out loss of a language model, the one way in which every number here is made.

    Args:
        model: as in `next_token_loss`.
        split: texts that it has not been trained on.
        bpe: its tokenizer.
        length: tokens of a window, the first of which is predicted from one token only.

    Returns:
        nats per token, and bits per byte of the texts with their end-of-text tokens' share.
    """
    stream = token_stream(split.texts, bpe)
    nats = evaluate(model, stream, length)
    n_bytes = sum(len(text.encode()) for text in split.texts)
    return {
        "nats_per_token": round(nats, 4),
        "bits_per_byte": round(bits_per_byte(nats, len(stream), n_bytes), 4),
    }


RECIPES: dict[str, Callable[[str, int | None, Path], None]] = {
    "reviews-bpe": reviews_bpe,
    **dict.fromkeys(LANGUAGE_MODELS | POSITIONS, language_model),
    **{f"histogram-{sees}": histogram_recipes.minimum for sees in SEES},
    "histogram-counting": histogram_recipes.counting,
    **dict.fromkeys(CLASSIFIERS, classifier),
}


def table() -> str:
    """Held-out losses of all language models on the IMDB test split, measured now."""
    bpe, test = pretrained.load("reviews-bpe"), reviews("imdb").test
    lines = ["model          parameters   training tokens   nats/token   bits/byte"]
    for name in LANGUAGE_MODELS:
        about = pretrained.card(name)
        loss = held_out(pretrained.load(name), test, bpe)
        lines.append(
            f"{name:<14} {about['parameters']:>10,}   {about['tokens']:>15,}   "
            f"{loss['nats_per_token']:>10.3f}   {loss['bits_per_byte']:>9.3f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """The command line of `python -m attnlib.training`."""
    parser = argparse.ArgumentParser(prog="python -m attnlib.training", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    parser.add_argument("--steps", type=int, help="of a language model, other than the recipe's")
    parser.add_argument("--folder", type=Path, default=pretrained.FOLDER, help="where to write")
    parser.add_argument("--table", action="store_true", help="print the held-out losses")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in RECIPES]
    if unknown or not (options.names or options.table):
        parser.error(f"name one or more of {', '.join(RECIPES)}, or ask for --table")
    for name in options.names:
        RECIPES[name](name, options.steps, options.folder)
    if options.table:
        print(table())
