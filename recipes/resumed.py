"""A callback of `fit` that keeps a run in a file, so that it goes on where it was interrupted."""

import time
from pathlib import Path

import torch
from torch import nn
from torch.optim import Optimizer

from attnlib.training.loop import History

PAUSE = 60.0  # seconds between two states of a run


class Resumed:
    """Writes the state of a run about once a minute, after an interrupt and after the last step.

        fit(model, batch, loss, steps=5_000, checkpoint=Resumed(path))

    Args:
        path: the file; if it is there, the run goes on from it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.saved = time.monotonic()

    def __call__(self, model: nn.Module, optimizer: Optimizer, history: History) -> None:
        """As `fit` calls it.

        Raises:
            ValueError: if the run to go on with had other settings.
        """
        first = history.steps == 0 and not history.interrupted
        last = history.steps == history.settings["steps"] or history.interrupted
        if first and self.path.exists():
            self.load(model, optimizer, history)
        elif last or time.monotonic() - self.saved > PAUSE:
            self.save(model, optimizer, history)

    def save(self, model: nn.Module, optimizer: Optimizer, history: History) -> None:
        """Write the state of a run."""
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "history": vars(history) | {"interrupted": False},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")  # a run stopped while it writes keeps its last state
        torch.save(state, part)
        part.replace(self.path)
        self.saved = time.monotonic()

    def load(self, model: nn.Module, optimizer: Optimizer, history: History) -> None:
        """Put back the state of a run that had the same settings."""
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        before = state["history"]["settings"]
        if before != history.settings:
            raise ValueError(
                f"{self.path.name} is the state of a run with {before}, not {history.settings}: go "
                "on with the same settings, or delete the file to start anew"
            )
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        vars(history).update(state["history"])
