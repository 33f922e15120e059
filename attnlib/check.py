"""The one line under every exercise: `check("causal_mask", causal_mask)`.

It calls the student's function on the inputs of checks.json, which lies beside the notebook, and
says at once whether the task is passed, or which mistake the answer looks like. When a class is
graded, the same line finds other inputs, in the file that ATTNLIB_HIDDEN names, and only *shows*
what the function answers; the verdict is spoken elsewhere, by a judge who uses `complaint` too.

Neither mode lets a function see its expected answer, and nothing here knows a solution.
"""

import json
import linecache
import os
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlib.values import brief, decode, describe, difference, encode, same

HIDDEN = "ATTNLIB_HIDDEN"
MIME = "application/vnd.attnlib.answers+json"
Accepts = Callable[[tuple[Any, ...], Any], str | None]


class NotYet(AssertionError):
    """The answer is not right yet; the message says what is wrong with it."""

    def _render_traceback_(self) -> list[str]:
        """What the notebook shows: the message, without the frames of this file.

        In lines as long as nbgrader's Validate prints them; it cuts longer ones.
        """
        return textwrap.wrap(f"Not yet: {self}", 84, break_long_words=False)


@dataclass(frozen=True)
class Raised:
    """In place of an answer: the function raised, or returned what no task returns."""

    error: str


@dataclass(frozen=True)
class Case:
    """One input of a task, what it should give, and what each known mistake would give."""

    args: tuple[Any, ...]
    expected: Any = None
    mistakes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a function answered (or `Raised`), and its arguments as they were afterwards."""

    output: Any
    after: Any


def _call(task: str, args: Sequence[Any]) -> str:
    text = ", ".join(map(brief, args))
    return f"{task}({text if len(text) < 160 else text[:159] + '…'})"


# comparison


def _spoiled(answer: Any, before: Sequence[Any], after: Any) -> str | None:
    """What is wrong whatever the right answer is: it raised, or it changed an argument."""
    if isinstance(answer, Raised):
        if answer.error.startswith("returned "):
            return f"it {answer.error}"
        if answer.error.startswith("NotImplementedError"):
            return "it is not written yet: put your code where it says raise NotImplementedError()"
        return f"it raised {answer.error}"
    pairs = zip(before, after, strict=True) if len(before) == len(after or ()) else [(0, 1)]
    changed = [i for i, (one, other) in enumerate(pairs, 1) if not same(one, other)]
    if changed:
        which = f"argument {changed[0]}" if len(before) > 1 else "its argument"
        tensor = bool(before) and isinstance(before[changed[0] - 1], Tensor)
        copy = "a copy (x.clone())" if tensor else "a copy"
        return f"it changes {which} in place: work on {copy}, the caller's stays as it was"
    return None


def _mistakes(case: Case, answer: Any, tolerance: float) -> list[str]:
    """The mistakes that would have given this very answer, and not the right one."""
    return [
        sentence
        for sentence, value in case.mistakes.items()
        if difference(value, answer, tolerance) is None
        and difference(case.expected, value, tolerance) is not None
    ]


def complaint(
    task: str,
    cases: Sequence[Case],
    answers: Sequence[Answer],
    tolerance: float,
    accepts: Accepts | None = None,
) -> str | None:
    """What is wrong with a task's answers, in one sentence with its case; None if nothing is.

    A mistake that explains every wrong answer is named before one that explains some of them.

    Args:
        task: its name.
        cases: what was asked.
        answers: what came, as many.
        tolerance: for floats, absolute and relative.
        accepts: judges an answer in place of the expected one, where many are right.
    """
    found: list[tuple[int, str]] = []
    for i, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        wrong = _spoiled(answer.output, case.args, answer.after)
        if wrong and not isinstance(answer.output, Raised):
            return f"{wrong} ({_call(task, case.args)})"
        if not wrong and accepts is not None:
            wrong = _judged(accepts, case.args, answer.output)
        elif not wrong:
            wrong = difference(case.expected, answer.output, tolerance)
        if wrong:
            found.append((i, wrong))
    if not found:
        return None
    i, message = _likeliest(found, cases, answers, tolerance)
    return f"{message.rstrip('.')} ({_call(task, cases[i].args)})"


def _judged(accepts: Accepts, args: tuple[Any, ...], output: Any) -> str | None:
    """What `accepts` says; an answer that it cannot even look at is wrong."""
    try:
        return accepts(decode(encode(args)), output)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return f"the answer is {describe(output)}, which cannot be judged ({told[:200]})"


def _likeliest(
    found: list[tuple[int, str]], cases: Sequence[Case], answers: Sequence[Answer], tolerance: float
) -> tuple[int, str]:
    """The case to show, and the best explanation of all wrong answers."""
    seen: dict[str, list[int]] = {}
    for i, _ in found:
        for sentence in _mistakes(cases[i], answers[i].output, tolerance):
            seen.setdefault(sentence, []).append(i)

    def fit(sentence: str) -> tuple[int, int]:
        """In how many cases the mistake gives the answer, and in how few it gives another."""
        pairs = [
            (c.mistakes[sentence], a)
            for c, a in zip(cases, answers, strict=True)
            if sentence in c.mistakes
        ]
        others = [difference(value, a.output, tolerance) for value, a in pairs]
        return len(seen[sentence]), others.count(None) - len(others)

    best = max(seen, key=fit, default="")
    if best and len(seen[best]) == len(found):
        return seen[best][0], best
    if _all_same([answer.output for answer in answers]) and not _all_same(
        [case.expected for case in cases]
    ):
        return found[0][0], "the same answer whatever it is given: it must depend on the input"
    raised = next((f for f in found if isinstance(answers[f[0]].output, Raised)), found[0])
    if not best:
        return raised
    could = [i for i, _ in found if best in cases[i].mistakes]
    if len(seen[best]) == len(could):
        return seen[best][0], best
    return seen[best][0], f"in {len(seen[best])} of {len(could)} cases it looks like this: {best}"


def _all_same(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(same(values[0], value) for value in values[1:])


# asking a function


def ask(task: str, function: Callable[..., Any], inputs: Sequence[Any]) -> dict[str, Any]:
    """A function's answers to encoded inputs, as the judge reads them; it never raises.

    Args:
        task: its name.
        function: the student's.
        inputs: encoded tuples of arguments.

    Returns:
        {"task": …, "answers": [{"output": …, "args": …} or {"error": …}, …]}, all JSON.
    """
    answers: list[dict[str, Any]] = []
    for data in inputs:
        args = decode(data)
        try:
            answers.append({"output": encode(function(*args)), "args": encode(args)})
        except KeyboardInterrupt:  # the time is up: what comes after has no time either
            late = {"error": "KeyboardInterrupt: it took too long"}
            answers += [late] * (len(inputs) - len(answers))
            break
        except BaseException as error:  # SystemExit as well
            answers.append({"error": _told(error, function)})
    return {"task": task, "answers": answers}


def _told(error: BaseException, function: Callable[..., Any]) -> str:
    """An exception in a line, with the line of the function that raised it."""
    try:
        text = str(error)[:300]
        if text.startswith("returned ") and isinstance(error, TypeError | ValueError):
            return text
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        line = linecache.getline(file, frames[-1].lineno or 0).strip() if file and frames else ""
        return f"{text} (line {frames[-1].lineno}: `{line}`)" if line else text
    except BaseException:  # an exception that cannot even be printed
        return "an exception that cannot be shown"


def read_answers(data: Any) -> list[Answer]:
    """The answers in a bundle that `ask` made, or that somebody forged.

    Raises:
        ValueError: if it is none.
    """
    if not isinstance(data, dict) or not isinstance(data.get("answers"), list):
        raise ValueError("no bundle of answers")
    answers = []
    for item in data["answers"]:
        if not isinstance(item, dict):
            raise ValueError("no answer in the bundle")
        if "error" in item:
            answers.append(Answer(Raised(str(item["error"])[:400]), None))
        else:
            answers.append(Answer(decode(item.get("output")), decode(item.get("args"))))
    return answers


# the check cell


def check(task: str, answer: Callable[..., Any]) -> None:
    """Say whether a task is passed, or what is wrong.

    Args:
        task: the task's name.
        answer: your function.

    Raises:
        NotYet: if the answer is not right yet (never while a class is graded).
    """
    path = os.environ.get(HIDDEN)
    if path:
        show(ask(task, answer, _hidden(Path(path), task)))
        return
    wrong = _problem(task, answer)
    if wrong:
        raise NotYet(f"{task}: {wrong}") from None
    print(f"Passed: {task} answers every visible case. Grading uses other inputs.")


def show(bundle: dict[str, Any]) -> None:
    """Show a bundle of answers, for the judge and nobody else."""
    from IPython.display import display

    display({MIME: bundle}, raw=True)  # type: ignore[no-untyped-call]


def _hidden(path: Path, task: str) -> list[Any]:
    try:
        inputs = json.loads(path.read_text(encoding="utf-8"))[task]
    except (OSError, ValueError, LookupError, TypeError):
        return []  # the judge misses the answers, and says so
    return inputs if isinstance(inputs, list) else []


def _problem(task: str, answer: Callable[..., Any]) -> str | None:
    """What is wrong with an answer on the visible cases."""
    tasks = _visible(Path.cwd())
    if task not in tasks:
        return f"no task here has this name; the tasks are {', '.join(sorted(tasks))}"
    if not callable(answer):
        return f"check wants the function itself, got {describe(answer)}: check({task!r}, {task})"
    home = getattr(answer, "__module__", None) or type(answer).__module__
    if home != "__main__":
        return f"this function comes from {home}: write your own, in the cell above"
    told = tasks[task]
    inputs = [case["args"] for case in told["cases"]]
    answers = read_answers(ask(task, answer, inputs))
    cases = [
        Case(
            decode(case["args"]),
            decode(case.get("expected")),
            {sentence: decode(value) for sentence, value in case.get("mistakes", {}).items()},
        )
        for case in told["cases"]
    ]
    free = (lambda args, output: None) if told.get("free") else None
    return complaint(task, cases, answers, told["tolerance"], free)


def _visible(folder: Path) -> dict[str, Any]:
    """The visible cases, from beside the notebook; of a solution, from beside its exercise."""
    what = f"missing: it belongs beside the notebook, in {folder}"
    for place in (folder, folder.parent.parent / "exercises" / folder.name):
        try:
            found: dict[str, Any] = json.loads((place / "checks.json").read_text("utf-8"))["tasks"]
            return found
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError) as error:
            what = f"damaged: {error}"
            break
    raise NotYet(
        f"checks.json is {what}. Unpack the whole folder of the exercise again, open the notebook "
        "there, and run it from the top"
    )
