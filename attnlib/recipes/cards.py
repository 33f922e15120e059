"""How a finished run becomes a checkpoint: one way to write every card."""

import json
from pathlib import Path
from typing import Any

from torch import nn

from attnlib.pretrained.checkpoints import save
from attnlib.training.loop import History


def command(name: str) -> str:
    """The command line that makes a checkpoint again."""
    return f"python -m attnlib.recipes {name}"


def finished(history: History, state: Path | None = None) -> History:
    """The history, if the run came to its end: half a run is no checkpoint.

    Args:
        history: of the run.
        state: the file from which the run would go on, if it keeps one.

    Raises:
        SystemExit: if the run was interrupted; says what the same command would do.
    """
    if history.interrupted:
        again = "starts anew" if state is None else f"goes on from there, with {state}"
        stopped = f"stopped at step {history.steps}; no checkpoint was written"
        raise SystemExit(f"{stopped}. The same command {again}.")
    return history


def write(
    name: str, model: nn.Module, history: History, folder: Path, about: dict[str, Any]
) -> Path:
    """Save a trained model with its card.

    Args:
        name: of the checkpoint.
        model: what was trained.
        history: of the run; its settings are the card's optimizer.
        folder: where to write.
        about: "config", the arguments that build the model, "data", "seed", the held-out "loss"
            by unit, and whatever else the card should say.

    Returns:
        path of the card.
    """
    optimizer = {k: v for k, v in history.settings.items() if k not in ("steps", "seed")}
    facts = {
        "command": command(name),
        "config": about["config"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "data": about["data"],
        "seed": about["seed"],
        "steps": history.steps,
        "tokens": history.tokens,
        "optimizer": {"name": "AdamW", **optimizer},
    }
    return save(name, model, facts | about | {"curve": curve(history.losses)}, folder)


def result(name: str, folder: Path, facts: dict[str, Any]) -> Path:
    """Write the card of a result without weights, and return its path.

    Args:
        name: of the card.
        folder: where to write.
        facts: what was measured, and how.
    """
    about = {"name": name, "kind": "Result", "command": command(name), **facts}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def curve(losses: list[float]) -> dict[str, Any]:
    """The training losses of a run, as means of some 50 blocks of `every` steps.

    >>> curve([3.0, 2.0, 1.0])
    {'every': 1, 'train_loss': [3.0, 2.0, 1.0]}
    """
    every = max(1, len(losses) // 50)
    blocks = [losses[i : i + every] for i in range(0, len(losses), every)]
    return {"every": every, "train_loss": [round(sum(b) / len(b), 4) for b in blocks]}
