"""The language models, their tokenizer, and one table of their losses.

The models read the same tokens in the same order: batches of 32 windows of 128 tokens
from the IMDB training split, in the 4,096-token BPE of the reviews. 5,000 batches are 20.5 million
tokens; `reviews-gpt` goes on to 12,000, 49 million.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from attnlib.data import REVIEWS_SHA256, Split, reviews
from attnlib.pretrained.checkpoints import KINDS, card, load, tokenizer
from attnlib.tokenizers.bpe import BPE
from attnlib.training import bits_per_byte, evaluate, fit, token_stream, windows
from attnlib.training.loop import History
from recipes.cards import command, finished, rounded, save, write
from recipes.resumed import Resumed

STEPS, BATCH, LENGTH, VOCABULARY, SEED = 5_000, 32, 128, 4_096, 1


@dataclass(frozen=True)
class ModelRecipe:
    """How a language model is built and trained.

    Attributes:
        kind: its class, one of `KINDS`.
        config: arguments of that class, besides the size of the vocabulary.
        lr: peak learning rate.
        steps: batches of 4,096 tokens.
        length: tokens of a window.
        embedding_scale: what is learned is W_E divided by this, so that a step of AdamW moves
            W_E by so much more.
    """

    kind: str
    config: dict[str, Any]
    lr: float
    steps: int = STEPS
    length: int = LENGTH
    embedding_scale: float = 1.0


class Scaled(nn.Module):
    """A parametrization: the model sees `scale` times what is learned, both of one shape."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, learned: Tensor) -> Tensor:
        """What the model sees."""
        return self.scale * learned

    def right_inverse(self, seen: Tensor) -> Tensor:
        """What has to be learned for it."""
        return seen / self.scale


ATTENTION_ONLY = {"d_model": 128, "layers": 1, "heads": 4, "max_len": LENGTH, "norm": "none"}
GPT: dict[str, Any] = {"d_model": 128, "layers": 4, "heads": 4, "d_ff": 512, "max_len": LENGTH}
GPT |= {"activation": "gelu_tanh", "bias": True, "tied": True}  # GPT-2's architecture, small
SHORT: dict[str, Any] = {"d_model": 64, "layers": 2, "heads": 4, "d_ff": 256, "max_len": 512}
LANGUAGE_MODELS = {  # those of the common table
    "zero-layer": ModelRecipe("ZeroLayer", {"d_model": 128}, 5e-3),
    "ngram-3": ModelRecipe("NeuralNgram", {"n": 3, "d_model": 128, "d_hidden": 128}, 3e-3),
    "ngram-5": ModelRecipe("NeuralNgram", {"n": 5, "d_model": 128, "d_hidden": 128}, 3e-3),
    "elman": ModelRecipe("Elman", {"d_model": 128, "d_hidden": 128}, 2e-3),
    "attention-1": ModelRecipe("Transformer", ATTENTION_ONLY, 3e-3),
    "reviews-gpt": ModelRecipe("Transformer", GPT, 3e-3, 12_000),
}
# one small model per kind of position, trained on short windows and asked about long ones;
# embeddings as long as sinusoids need the √d_model of Vaswani et al. (2017, section 3.4) to learn
POSITIONS = {
    f"positions-{kind}": ModelRecipe(
        "Transformer", SHORT | {"positions": kind}, 3e-3, 1_500, 64, embedding_scale=scale
    )
    for kind, scale in (("learned", 1.0), ("sinusoidal", SHORT["d_model"] ** 0.5), ("rotary", 1.0))
}


def train_tokenizer(name: str, steps: int | None, folder: Path) -> None:
    """The tokenizer of the reviews, learned from all 25,000 of IMDB."""
    splits = reviews("imdb")
    texts = [text for part in (splits.train, splits.validation, splits.test) for text in part.texts]
    about = {
        "command": command(name),
        "data": {"source": "imdb", "texts": len(texts), "sha256": REVIEWS_SHA256},
        "vocab_size": VOCABULARY,
        "ties": "the pair with the smaller (left id, right id) is merged first",
    }
    save(name, BPE.train(texts, VOCABULARY), about, folder)


def train(name: str, steps: int | None, folder: Path) -> None:
    """A language model of the table; the run can be interrupted and started again."""
    model, history, about = trained(name, steps, folder)
    write(name, model, history, folder, about)


def trained(
    name: str, steps: int | None, folder: Path, seed: int = SEED
) -> tuple[nn.Module, History, dict[str, Any]]:
    """A language model of the table, its run, and what its card says of both.

    Another seed draws other first weights and other windows.
    """
    recipe, texts = (LANGUAGE_MODELS | POSITIONS)[name], reviews("imdb").train.texts
    config, length = {"vocab_size": VOCABULARY, **recipe.config}, recipe.length
    batch = windows(token_stream(texts, tokenizer()), length, BATCH * LENGTH // length, seed)
    torch.manual_seed(seed)
    model: nn.Module = KINDS[recipe.kind](**config)
    scale = recipe.embedding_scale
    if scale != 1:
        parametrize.register_parametrization(model, "W_E", Scaled(scale))
    settings = {"steps": recipe.steps if steps is None else steps, "lr": recipe.lr, "seed": seed}
    state = name if seed == SEED else f"{name}-{seed}"
    history, about = learn(state, model, batch, folder, **settings)
    if scale != 1:
        about["embedding_scale"] = scale
        parametrize.remove_parametrizations(model, "W_E")
    return model, history, {"config": config} | about


def learn(
    name: str, model: nn.Module, batch: Callable[[int], Tensor], folder: Path, **settings: Any
) -> tuple[History, dict[str, Any]]:
    """Train a model on windows of the reviews; an interrupted run goes on from its state.

    Args:
        name: of the checkpoint.
        model: as in `attnlib.training.next_token_loss`.
        batch: of a step, (B, T + 1) ids.
        folder: where the state is kept.
        settings: of `fit`, a seed among them.

    Returns:
        the history, and what the card says of the data and the held-out loss.
    """
    state = folder / f"{name}.state"
    rows, length = batch(0).shape
    history = fit(model, batch, quick_loss, warmup=200, checkpoint=Resumed(state), **settings)
    return finished(history, state), {
        "data": {"source": "imdb", "split": "train", "sha256": REVIEWS_SHA256},
        "tokenizer": "reviews-bpe",
        "seed": settings["seed"],
        "tokens": history.steps * rows * (length - 1),
        "window": length - 1,
        "loss": held_out(model, reviews("imdb").test, tokenizer(), length - 1),
    }


def quick_loss(model: Any, window: Tensor) -> Tensor:
    """`attnlib.training.next_token_loss` with products in the type that is fastest here.

    The models are trained with it; the table is measured in float32.
    """
    dtype = quickest()
    logits = model.hidden(window[:, :-1]).to(dtype) @ model.W_U.to(dtype)
    return F.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten())


def quickest() -> torch.dtype:
    """The type of number in which this processor makes the logits fastest, float32 or bfloat16.

    bfloat16 takes half the time where there are instructions for it, and many times as long where
    there are none, or where torch is held back from them. An old torch cannot tell: float32.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return torch.float32
    if not hasattr(torch.cpu, "get_capabilities"):
        return torch.float32
    processor = torch.cpu.get_capabilities()
    able = processor.get("avx512_bf16") or processor.get("amx_bf16")
    return torch.bfloat16 if able else torch.float32


def held_out(model: Any, split: Split, bpe: BPE, length: int = LENGTH) -> dict[str, float]:
    """The held-out loss of a language model, the one way in which every number here is made.

    Args:
        model: as in `attnlib.training.next_token_loss`.
        split: texts that it has not been trained on.
        bpe: its tokenizer.
        length: tokens of a window, the first of which is predicted from one token only.

    Returns:
        nats per token, and bits per byte of the texts with their end-of-text tokens' share.
    """
    stream = token_stream(split.texts, bpe)
    nats = evaluate(model, stream, length)
    n_bytes = sum(len(text.encode()) for text in split.texts)
    bits = bits_per_byte(nats, len(stream), n_bytes)
    found: dict[str, float] = rounded({"nats_per_token": nats, "bits_per_byte": bits})
    return found


def table() -> str:
    """Held-out losses of all language models on the IMDB test split, measured now."""
    bpe, test = tokenizer(), reviews("imdb").test
    lines = ["model          parameters   training tokens   nats/token   bits/byte"]
    for name in LANGUAGE_MODELS:
        about = card(name)
        loss = held_out(load(name), test, bpe)
        lines.append(
            f"{name:<14} {about['parameters']:>10,}   {about['tokens']:>15,}   "
            f"{loss['nats_per_token']:>10.3f}   {loss['bits_per_byte']:>9.3f}"
        )
    return "\n".join(lines)
