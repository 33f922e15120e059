"""The one line under every exercise: `check("causal_mask", causal_mask)`.

It calls the student's function on the inputs of checks.json, which lies beside the notebook, and
says at once whether the task is passed, or which mistake the answer looks like. When a class is
graded, `check` is another function of the same name, which asks with other inputs and only *shows*
what the student's function answers; a judge elsewhere uses `complaint` too.

A function never sees its expected answer, and nothing here knows a solution.
"""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlib.check.comparison import complaint
from attnlib.check.forbidden import refusal_of
from attnlib.check.progress import note
from attnlib.check.protocol import Case, ask, describe, from_json, read_answers

MIME = "application/vnd.attnlib.answers+json"


class NotYet(AssertionError):
    """The answer is not right yet; the message says what is wrong with it."""

    def _render_traceback_(self) -> list[str]:
        """What the notebook shows: the message, without the frames of this file.

        In lines as long as nbgrader's Validate prints them; it cuts longer ones.
        """
        return textwrap.wrap(f"Not yet: {self}", 84, break_long_words=False)


def check(task: str, answer: Callable[..., Any]) -> None:
    """Say whether a task is passed, or what is wrong.

    Args:
        task: the task's name.
        answer: your function.

    Raises:
        NotYet: if the answer is not right yet.
    """
    wrong = _problem(task, answer)
    if wrong:
        raise NotYet(f"{task}: {wrong}") from None
    print(f"Passed: {task} answers every visible case. Grading uses other inputs.")
    note(Path.cwd().name, task)


def show(bundle: dict[str, Any]) -> None:
    """Show a bundle of answers, for the judge and nobody else."""
    from IPython.display import display

    display({MIME: bundle}, raw=True)  # type: ignore[no-untyped-call]


def _problem(task: str, answer: Callable[..., Any]) -> str | None:
    """What is wrong with an answer on the visible cases."""
    tasks = _visible(Path.cwd())
    if task not in tasks:
        return f"no task here has this name; the tasks are {', '.join(sorted(tasks))}"
    if not callable(answer):
        return f"check wants the function itself, got {describe(answer)}: check({task!r}, {task})"
    own = getattr(answer, "func", answer)  # of functools.partial
    home = getattr(own, "__module__", None) or type(own).__module__
    if home not in ("__main__", "torch.jit"):  # a script is made of one's own function
        return f"this function comes from {home}: write your own, in the cell above"
    visible = tasks[task]
    inputs = [case["args"] for case in visible["cases"]]
    answers = read_answers(ask(task, answer, inputs))
    cases = [_case(case) for case in visible["cases"]]
    accepts = _something if visible.get("free") else None
    wrong = complaint(task, cases, answers, visible["tolerance"], accepts)
    if wrong:
        return wrong
    reason = refusal_of(own, visible.get("forbidden", ()))
    return f"right so far, but {reason}" if reason else None


def _something(args: tuple[Any, ...], output: Any) -> str | None:
    """Where many answers are right, the lines above `check` judge them; None is never right."""
    return "the answer is None: is a return missing?" if output is None else None


def _case(data: dict[str, Any]) -> Case:
    """A visible case."""
    mistakes = {sentence: from_json(value) for sentence, value in data.get("mistakes", {}).items()}
    return Case(from_json(data["args"]), from_json(data.get("expected")), mistakes)


def _visible(folder: Path) -> dict[str, Any]:
    """The visible cases, from beside the notebook; of a solution, from beside its exercise."""
    exercise = folder.parent.parent / "exercises" / folder.name
    files = [place / "checks.json" for place in (folder, exercise)]
    file = next((file for file in files if file.exists()), None)
    fault = f"missing: it belongs beside the notebook, in {folder}"
    if file is not None:
        try:
            tasks: dict[str, Any] = json.loads(file.read_text("utf-8"))["tasks"]
            return tasks
        except (OSError, ValueError, LookupError, TypeError) as error:
            fault = f"damaged: {error}"
    raise NotYet(
        f"checks.json is {fault}. Unpack the whole folder of the exercise again, open the notebook "
        "there, and run it from the top"
    )
