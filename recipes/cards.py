"""How a finished run becomes a checkpoint: one way to write every card, one way to go on."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from attnlib.pretrained.checkpoints import FOLDER, KINDS
from attnlib.tokenizers.bpe import BPE
from attnlib.training.loop import History


def command(name: str) -> str:
    """The command line that makes a checkpoint again."""
    return f"python -m recipes {name}"


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
    """Save a trained model with its card, and delete the state of its run.

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
    path = save(name, model, facts | about | {"curve": curve(history.losses)}, folder)
    path.with_suffix(".state").unlink(missing_ok=True)
    return path


def save(name: str, thing: nn.Module | BPE, about: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write a checkpoint in half precision, and its card with the hash of the file.

    Args:
        name: of the checkpoint.
        thing: a model of one of `KINDS`, or a BPE.
        about: what the card should say besides kind, file and hash; "config" holds the
            arguments that build the model.
        folder: where to write.

    Returns:
        path of the card.

    Raises:
        ValueError: if `load` could not build such a model.
    """
    kind = type(thing).__name__
    if kind not in {"BPE", *KINDS}:
        raise ValueError(f"a checkpoint is a BPE or one of {sorted(KINDS)}, got {kind}")
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(thing, BPE):
        path = folder / f"{name}.bpe"
        thing.save(path)
    else:
        path = folder / f"{name}.safetensors"
        half = {key: value.half().contiguous() for key, value in thing.state_dict().items()}
        path.write_bytes(to_bytes(half))  # `save_file` makes files that only their owner may read
    return write_card({"name": name, "kind": kind, **file_facts(path)} | about, folder)


def save_history(name: str, found: dict[str, Tensor], folder: Path = FOLDER) -> dict[str, str]:
    """Write what a run measured on its way; returns what its card says of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.history.safetensors"
    path.write_bytes(to_bytes({key: value.contiguous() for key, value in found.items()}))
    return file_facts(path)


def file_facts(path: Path) -> dict[str, str]:
    """What a card says of a file: its name and its hash."""
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def write_card(about: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write a card; its path, which is named after `about["name"]`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{about['name']}.json"
    path.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def sweep(name: str, folder: Path, runs: Sequence[Any], one: Callable[[Any], Any]) -> list[Any]:
    """What `one` finds in each of several runs; an interrupted sweep goes on where it stopped.

    Until `result` writes the card, the findings stand in the file NAME.lines, a line for each run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = folder / f"{name}.lines"
    lines.touch()
    written = lines.read_text("utf-8").splitlines(keepends=True)
    whole = [line for line in written if line.endswith("\n")]  # the last may have been cut off
    lines.write_text("".join(whole), encoding="utf-8")
    found = [json.loads(line) for line in whole]
    with lines.open("a", encoding="utf-8") as file:
        for run in runs[len(found) :]:
            found.append(one(run))
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
    return found


def result(name: str, folder: Path, facts: dict[str, Any]) -> Path:
    """Write the card of a result without weights, delete the lines of its sweep, return its path.

    Args:
        name: of the card.
        folder: where to write.
        facts: what was measured, and how.
    """
    about = {"name": name, "kind": "Result", "command": command(name), **facts}
    path = write_card(about, folder)
    path.with_suffix(".lines").unlink(missing_ok=True)
    return path


def rounded(values: Any, digits: int = 4) -> Any:
    """Numbers as a card holds them: a number, a tensor, or a dict or list of these.

    >>> rounded({"spread": torch.tensor([0.25, 2 / 3])})
    {'spread': [0.25, 0.6667]}
    """
    values = values.tolist() if isinstance(values, torch.Tensor) else values
    if isinstance(values, dict):
        return {key: rounded(value, digits) for key, value in values.items()}
    if isinstance(values, list):
        return [rounded(value, digits) for value in values]
    return round(values, digits)


def curve(losses: list[float]) -> dict[str, Any]:
    """The training losses of a run, as means of some 50 blocks of `every` steps.

    >>> curve([3.0, 2.0, 1.0])
    {'every': 1, 'train_loss': [3.0, 2.0, 1.0]}
    """
    every = max(1, len(losses) // 50)
    blocks = [losses[i : i + every] for i in range(0, len(losses), every)]
    return {"every": every, "train_loss": [round(sum(b) / len(b), 4) for b in blocks]}
