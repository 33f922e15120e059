"""A run that keeps its state in a file, and goes on from there when it was interrupted."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlib.training.loop import Batch, History, Run


class Resumed(Run):
    """A `Run` whose state is written about once a minute and at its end.

    Args:
        path: the file; if it is there, the run goes on from it.
        model, loss, settings: as `fit` gives them.

    Raises:
        ValueError: if the run to go on with had other settings.
    """

    def __init__(self, path: Path, model: nn.Module, loss: Any, settings: dict[str, Any]) -> None:
        super().__init__(model, loss, settings)
        self.path = path
        if path.exists():
            self.history = self.load()
        self.saved = time.monotonic()
        self.start = self.saved - self.history.seconds  # as if it had never been stopped

    def go(self, *arguments: Any) -> None:
        """As a run does, then write the state."""
        super().go(*arguments)
        self.save()

    def step(self, data: Batch) -> None:
        """As a run does; now and then write the state."""
        super().step(data)
        if time.monotonic() - self.saved > 60:
            self.save()

    def save(self) -> None:
        """Write the state of the run."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")  # a run stopped while it writes keeps its last state
        torch.save(state | {"history": vars(self.history) | {"interrupted": False}}, part)
        part.replace(self.path)
        self.saved = time.monotonic()

    def load(self) -> History:
        """Take over the model and the optimizer of a run, if it had the same settings."""
        state = torch.load(self.path, weights_only=True)
        before = state["history"]["settings"]
        if before != self.settings:
            raise ValueError(
                f"{self.path.name} is the state of a run with {before}, not {self.settings}: go on "
                "with the same settings, or delete the file to start anew"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return History(**state["history"])
