"""How each checkpoint is made: `python -m attnlib.training NAME`, and one table of their losses.

The language models read the same tokens in the same order: 5,000 batches of 32 windows of 128
tokens from the IMDB training split, 20.5 million tokens, in the 4,096-token BPE of the reviews.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnlib import pretrained
from attnlib.bpe import BPE
from attnlib.data import REVIEWS_SHA256, Split, reviews
from attnlib.training import (
    bits_per_byte,
    evaluate,
    fit,
    next_token_loss,
    token_stream,
    windows,
)

STEPS, BATCH, LENGTH, VOCABULARY, SEED = 5_000, 32, 128, 4_096, 1
# name: kind, configuration, peak learning rate
LANGUAGE_MODELS: dict[str, tuple[str, dict[str, Any], float]] = {
    "zero-layer": ("ZeroLayer", {"d_model": 128}, 5e-3),
    "ngram-3": ("NeuralNgram", {"n": 3, "d_model": 128, "d_hidden": 128}, 3e-3),
    "ngram-5": ("NeuralNgram", {"n": 5, "d_model": 128, "d_hidden": 128}, 3e-3),
    "elman": ("Elman", {"d_model": 128, "d_hidden": 128}, 2e-3),
    "attention-1": (
        "Transformer",
        {"d_model": 128, "layers": 1, "heads": 4, "max_len": LENGTH, "norm": "none"},
        3e-3,
    ),
}


def reviews_bpe(name: str, steps: int, folder: Path) -> None:
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


def language_model(name: str, steps: int, folder: Path) -> None:
    """A language model of the table; the run can be interrupted and started again."""
    kind, config, lr = LANGUAGE_MODELS[name]
    config = {"vocab_size": VOCABULARY, **config}
    stream = token_stream(reviews("imdb").train.texts, pretrained.load("reviews-bpe"))
    torch.manual_seed(SEED)
    model = pretrained.KINDS[kind](**config)
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"{name}.state"
    history = fit(
        model,
        windows(stream, LENGTH, BATCH, SEED),
        # bfloat16 products: half the time, and the loss of the table is measured without them
        lambda model, window: next_token_loss(model, window, torch.bfloat16),
        steps=steps,
        lr=lr,
        warmup=200,
        seed=SEED,
        resume=state,
    )
    if history.interrupted:
        raise SystemExit(f"stopped at step {history.steps}; the same command goes on from there")
    every = max(1, steps // 50)
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
        "optimizer": {"name": "AdamW", "lr": lr, "warmup": 200, "schedule": "cosine", "clip": 1.0},
        "loss": held_out(model, reviews("imdb").test, pretrained.load("reviews-bpe")),
        "curve": {"every": every, "train_loss": [round(sum(b) / len(b), 4) for b in blocks]},
    }
    pretrained.save(name, model, about, folder)
    state.unlink()


def held_out(model: Any, split: Split, bpe: BPE) -> dict[str, float]:
    """The held-out loss of a language model, the one way in which every number here is made.

    Returns:
        nats per token, and bits per byte of the texts with their end-of-text tokens' share.
    """
    stream = token_stream(split.texts, bpe)
    nats = evaluate(model, stream, LENGTH)
    n_bytes = sum(len(text.encode()) for text in split.texts)
    return {
        "nats_per_token": round(nats, 4),
        "bits_per_byte": round(bits_per_byte(nats, len(stream), n_bytes), 4),
    }


RECIPES: dict[str, Callable[[str, int, Path], None]] = {
    "reviews-bpe": reviews_bpe,
    **dict.fromkeys(LANGUAGE_MODELS, language_model),
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
    parser.add_argument("--steps", type=int, default=STEPS, help="of a language model")
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
