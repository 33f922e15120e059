"""The recall task of chapter 02, trained until more training changes little.

A chapter has time for 300 steps of a network. Here three widths, each from three starts with
three learning rates, make 4,000; the result is a card without weights: the share recalled on the
way and at the end.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.models.recurrent import Elman
from attnlib.training.loop import fit
from recipes.cards import finished, result, rounded

SYMBOLS, KEPT, BATCH, TESTED = 8, 8, 128, 2_000
STEPS, EVERY, SEEDS, RATES = 4_000, 250, (0, 1, 2), (2e-3, 5e-3, 1e-2)
WIDTHS = (8, 32, 128)  # of the state


def recall(m: int, step: int, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """Ids (batch, m + 1), m symbols and the question which was symbol i; answers (batch,)."""
    generator = torch.Generator().manual_seed(step)
    symbols = torch.randint(SYMBOLS, (batch, m), generator=generator)
    asked = torch.randint(m, (batch, 1), generator=generator)
    return torch.cat([symbols, SYMBOLS + asked], 1), symbols.gather(1, asked)[:, 0]


def answers(net: Any, ids: Tensor) -> Tensor:
    """Logits (B, D) after the last token of each row."""
    logits: Tensor = net.hidden(ids)[:, -1] @ net.W_U
    return logits


def loss(net: Any, rows: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the answers, in nats."""
    return nn.functional.cross_entropy(answers(net, rows[0]), rows[1])


def curve(width: int, lr: float, seed: int, steps: int) -> list[float]:
    """Share of 2,000 questions answered rightly by a network, before and after `EVERY` steps."""
    ids, right = recall(KEPT, 10**6, TESTED)
    found = []

    def measure(step: int, net: nn.Module) -> None:
        if step % EVERY == 0 or step == steps:
            with torch.no_grad():
                hits = answers(net, ids).argmax(-1) == right
            found.append(rounded(hits.double().mean()))

    torch.manual_seed(seed)
    net = Elman(SYMBOLS + KEPT, 16, width)
    settings: dict[str, Any] = {"steps": steps, "lr": lr, "seed": seed, "on_step": measure}
    finished(fit(net, lambda step: recall(KEPT, step + 100_000 * seed), loss, **settings))
    return found


def train(name: str, steps: int | None, folder: Path) -> Path:
    """Train all networks and write the card. Returns its path."""
    steps = STEPS if steps is None else steps
    shares = {
        str(width): {str(lr): [curve(width, lr, seed, steps) for seed in SEEDS] for lr in RATES}
        for width in WIDTHS
    }
    return result(name, folder, about(steps, shares))


def about(steps: int, shares: dict[str, dict[str, list[list[float]]]]) -> dict[str, Any]:
    """How the result was made; by width of the state and learning rate the curve of each start."""
    data = {"source": "recall", "symbols": SYMBOLS, "kept": KEPT, "rows": TESTED}
    settings = {"steps": steps, "every": EVERY, "rates": RATES, "seeds": SEEDS}
    return {"data": data, **settings, "share": shares}
