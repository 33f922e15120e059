"""What the reader has done so far, for nobody but the reader.

`check` notes a task that is passed, and a prediction whose truth is seen is noted by the view that
shows both; the table in chapter 00 shows what is noted. It is kept in two files beside the
exercises, exercises/progress.jsonl and exercises/predictions.jsonl, which git ignores and nothing
ever sends. An exercise that lies elsewhere (a solution, a copy that is graded or tested) leaves no
note.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from IPython import get_ipython

Row = TypeVar("Row")
FILE = "progress.jsonl"
PREDICTIONS = "predictions.jsonl"
READ = "read to the end"


class Prediction(NamedTuple):
    """A prediction that was answered, and how close it was."""

    chapter: str  # the name of its notebook
    label: str
    answer: Any
    truth: Any
    close: float  # 1 if nothing was between answer and truth, 0 if nothing could be farther


def note(name: str, what: str) -> None:
    """Add a line to the file, once. Two notebooks may do so at once: no line is ever rewritten.

    A file that cannot be read or written is told in one sentence, and stops nothing.

    Args:
        name: of a chapter and its exercise, such as "04_self_attention".
        what: the task that is passed, or `READ`.
    """
    if (name, what) not in noted():
        _append(FILE, [name, what])


def noted() -> set[tuple[str, str]]:
    """Everything noted, as (name, what). Damaged lines are left out, and one sentence says so."""
    return set(_rows(FILE, lambda name, what: (str(name), str(what))))


def note_prediction(prediction: Prediction) -> None:
    """Add a prediction to its file: the first answer counts, and a later one is not noted.

    A file that cannot be read or written is told in one sentence, and stops nothing.
    """
    known = {(other.chapter, other.label) for other in predictions()}
    if (prediction.chapter, prediction.label) not in known:
        _append(PREDICTIONS, list(prediction))


def predictions() -> list[Prediction]:
    """All predictions noted. Damaged lines are left out, and one sentence says so."""
    return _rows(PREDICTIONS, _prediction)


def notebook() -> str:
    """The name of the notebook that runs here, as its editor tells it; else "a notebook"."""
    shell = get_ipython()
    names = shell.user_ns if shell else {}
    path = names.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")  # VS Code's
    return Path(path).stem if path.endswith(".ipynb") else "a notebook"


def exercises() -> Path | None:
    """The folder exercises/ of the course, from one of the exercises or from the chapters."""
    above = Path.cwd().parent
    folder = above if above.name == "exercises" else above / "exercises"
    return folder if folder.is_dir() else None


def _prediction(chapter: Any, label: Any, answer: Any, truth: Any, close: Any) -> Prediction:
    return Prediction(str(chapter), str(label), answer, truth, float(close))


def _append(name: str, row: list[Any]) -> None:
    """Add a line to a file beside the exercises."""
    folder = exercises()
    if folder is None:
        return
    try:
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(row)}")  # a half-written line before stays alone
    except OSError as error:
        print(f"This could not be noted in exercises/{name} ({error.strerror}).")


def _rows(name: str, read: Callable[..., Row]) -> list[Row]:
    """The lines of a file beside the exercises, each read from its parts."""
    folder, damaged = exercises(), 0
    rows: list[Row] = []
    try:
        text = (folder / name).read_text("utf-8", errors="replace") if folder else ""
    except OSError:  # not there yet; what else it may be, `_append` will tell
        text = ""
    for line in filter(None, text.splitlines()):
        try:
            rows.append(read(*json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            damaged += 1
    if damaged:
        print(f"{damaged} damaged lines of exercises/{name} do not count; you may delete the file.")
    return rows
