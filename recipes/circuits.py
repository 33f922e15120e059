"""Small attention-only models, watched while they learn: the `attention-2` of chapter 09.

They read 20 million tokens in batches of 16 windows of 128, at a constant learning rate. In every
batch four windows are random tokens that repeat with a period, the others stretches of IMDB. Three
runs differ in their seed, two are controls: one has a single layer, one reads no repeated windows.

At the steps `moments` a run measures itself, always on the same windows. The numbers stand in a
file of their own beside the weights, `pretrained.history(name)` reads it:

- step (M,);
- previous, induction, unrepeated (M, L, H): mean weight on the token before; on what followed the
  same token last time, in random tokens that repeat; and on that same diagonal where nothing
  repeats, which is its chance level;
- composition (M, H, H): K-composition of the heads of the first layer with those of the second;
- on_reviews (M, 128), on_random (M, 119), on_repeated (M, 119): nats per token at each position,
  of held-out reviews, of 60 random tokens twice, and of 60 tokens of reviews twice;
- display (32,), maps (M, L, H, 32, 32): ids of a short text, and its attention in steps of 1/255.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.data import reviews
from attnlib.explain.circuits import composition, offset_score
from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.checkpoints import tokenizer
from attnlib.tokenizers.bpe import BPE
from attnlib.training import token_stream, windows
from recipes.cards import save_history, write
from recipes.language import ATTENTION_ONLY, LENGTH, VOCABULARY, learn

STEPS, BATCH, LR, REPEATED = 10_000, 16, 2e-3, 4
PERIODS = (8, 16, 24, 32, 48, 60)
PERIOD, ROWS, REVIEWS = 60, 64, 300  # of what is measured: period, and rows of each kind
SHOWN = 16  # tokens that the displayed text repeats
EARLY, LATER, EVERY = (0, 250, 500, 1_000, 2_000, 3_000), 4_000, 300


@dataclass(frozen=True)
class Run:
    """What tells one run from the others: layers, seed, repeated windows in a batch of 16."""

    layers: int = 2
    seed: int = 1
    repeated: int = REPEATED


RUNS = {
    "attention-2": Run(),
    "attention-2-seed-2": Run(seed=2),
    "attention-2-seed-3": Run(seed=3),
    "attention-2-one-layer": Run(layers=1),
    "attention-2-plain": Run(repeated=0),
}


def moments(steps: int) -> list[int]:
    """Before which steps a run of so many is measured, and after the last: denser from 4,000 on."""
    wanted = {*EARLY, *range(LATER, steps, EVERY)}
    return sorted({step for step in wanted if step < steps} | {steps})


def repeated_tokens(
    count: int, period: int, length: int, vocab_size: int, generator: torch.Generator
) -> Tensor:
    """Random tokens, over and over with a period: ids (count, length), every row another."""
    ids = torch.randint(vocab_size, (count, period), generator=generator)
    return ids.repeat(1, -(-length // period))[:, :length]


def mixed(stream: Tensor, repeated: int, seed: int) -> Callable[[int], Tensor]:
    """Batches of review windows, the first `repeated` rows of each replaced by repeated tokens.

    Returns:
        a function of the step that gives (BATCH, LENGTH + 1) ids.
    """
    real = windows(stream, LENGTH, BATCH, seed)

    def batch(step: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed * 2_000_003 + step)
        ids = real(step)
        for row in range(repeated):
            period = PERIODS[int(torch.randint(len(PERIODS), (), generator=generator))]
            ids[row] = repeated_tokens(1, period, LENGTH + 1, VOCABULARY, generator)[0]
        return ids

    return batch


class Watch:
    """Measures a model on windows that never change, and keeps what it found in a file."""

    def __init__(self, bpe: BPE, path: Path) -> None:
        held = token_stream(reviews("imdb").validation.texts, bpe)
        generator = torch.Generator().manual_seed(0)
        random = partial(repeated_tokens, vocab_size=VOCABULARY, generator=generator)
        again = windows(held, PERIOD - 1, ROWS, seed=0)(0)
        words = [i for i in range(VOCABULARY) if _is_word(bpe.tokens([i])[0])]
        shown = torch.tensor(words)[torch.randperm(len(words), generator=generator)[:SHOWN]]
        self.display = shown.repeat(2)
        self.texts = {
            "on_random": random(ROWS, PERIOD, 2 * PERIOD),
            "on_repeated": again.repeat(1, 2),
            "on_reviews": windows(held, LENGTH, REVIEWS, seed=1)(0),
        }
        self.unrepeated = random(ROWS, 2 * PERIOD, 2 * PERIOD)
        self.path = path
        self.found: dict[int, dict[str, Tensor]] = torch.load(path) if path.exists() else {}

    @torch.no_grad()
    def measure(self, step: int, model: Any) -> None:
        """Add what the model does now; a step that was measured before is overwritten."""
        losses = {name: position_losses(model, ids) for name, ids in self.texts.items()}
        random, other = (maps(model, ids) for ids in (self.texts["on_random"], self.unrepeated))
        heads = [block.attention for block in model.blocks]
        place = (PERIOD - 1, PERIOD)
        found = losses | {
            "step": torch.tensor(step),
            "previous": offset_score(other, 1).mean(0),
            "induction": offset_score(random, *place).mean(0),
            "unrepeated": offset_score(other, *place).mean(0),
            "maps": (maps(model, self.display[None])[0] * 255).round().to(torch.uint8),
        }
        if len(heads) == 2:
            W_VO, W_QK = heads[0].W_VO[:, None], heads[1].W_QK[None]
            found["composition"] = composition(W_VO, W_QK.mT)
        self.found[step] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(self.found, self.path)

    def history(self) -> dict[str, Tensor]:
        """Everything found, step by step, and the text of the maps."""
        rows = [self.found[step] for step in sorted(self.found)]
        stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        half = {k: v.half() if v.is_floating_point() else v for k, v in stacked.items()}
        return half | {"display": self.display}


def position_losses(model: Any, ids: Tensor) -> Tensor:
    """Mean nats per token at each position: ids (N, T + 1) to (T,)."""
    total = torch.zeros(ids.shape[1] - 1)
    for part in ids.split(32):
        log_p = model(part[:, :-1]).log_softmax(-1)
        total -= log_p.gather(-1, part[:, 1:, None])[..., 0].sum(0)
    return total / len(ids)


def maps(model: Any, ids: Tensor) -> Tensor:
    """Attention of a batch, (B, L, H, T, T)."""
    states = model.run(model.embed(ids), need_weights=True)
    return torch.stack([state.pattern for state in states], 1)


def _is_word(token: str) -> bool:
    word = token.strip()
    return token.startswith(" ") and word.isalpha() and word.islower() and 4 <= len(word) <= 6


def train(name: str, steps: int | None, folder: Path) -> None:
    """One of the runs; it can be interrupted and started again."""
    run, bpe = RUNS[name], tokenizer()
    steps = STEPS if steps is None else steps
    config: dict[str, Any] = {"vocab_size": VOCABULARY, **ATTENTION_ONLY, "layers": run.layers}
    batch = mixed(token_stream(reviews("imdb").train.texts, bpe), run.repeated, run.seed)
    torch.manual_seed(run.seed)
    model = Transformer(TransformerConfig(**config))
    watch, wanted = Watch(bpe, folder / f"{name}.moments"), set(moments(steps))

    def on_step(step: int, model: nn.Module) -> None:
        if step in wanted:
            watch.measure(step, model)

    settings: dict[str, Any] = {"steps": steps, "lr": LR, "seed": run.seed}
    settings |= {"schedule": "constant", "on_step": on_step}
    history, about = learn(name, model, batch, folder, **settings)
    repeated = {"windows": f"{run.repeated} of {BATCH}", "periods": PERIODS}
    begin = {"config": config, "repeated": repeated if run.repeated else {}}
    end = {"history": save_history(name, watch.history(), folder)}
    write(name, model, history, folder, begin | about | end)
    watch.path.unlink()
