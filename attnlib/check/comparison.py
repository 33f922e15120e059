"""What is wrong with an answer, in one sentence; and which mistake it looks like.

Answers are compared by shape, dtype and value (`difference`); `complaint` judges all answers of a
task together. The check cell and the judge of a class both speak through it.
"""

import math
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlib.check.errors import sentence
from attnlib.check.protocol import (
    Answer,
    Case,
    Raised,
    brief,
    describe,
    dtype_name,
    from_json,
    to_json,
)

Accepts = Callable[[tuple[Any, ...], Any], str | None]
NOT_WRITTEN = "it is not written yet: replace raise NotImplementedError()"


def _call(task: str, case: Case) -> str:
    """The call of a case, as it was made."""
    text = ", ".join(map(brief, case.args))
    return f"{task}({text if len(text) < 160 else text[:159] + '…'})"


def _spoiled(answer: Any, before: Sequence[Any], after: Any) -> str | None:
    """What is wrong whatever the right answer is: it raised, or it changed an argument."""
    if isinstance(answer, Raised):
        if answer.error.startswith("returned "):
            return f"it {answer.error}"
        if re.match(r"NotImplementedError(?!: .)", answer.error):  # torch's own has a text
            return NOT_WRITTEN
        hint = sentence(answer.error, before)
        return f"it raised {answer.error}" + (f": {hint}" if hint else "")
    changed = _changed_argument(before, after)
    if changed is None:
        return None
    is_tensor = changed < len(before) and isinstance(before[changed], Tensor)
    copy = "a copy (x.clone())" if is_tensor else "a copy"
    return f"it changes argument {changed + 1} in place: work on {copy}, and leave the caller's"


def _changed_argument(before: Sequence[Any], after: Any) -> int | None:
    """The index of the first argument that is not as it was, or None.

    The arguments come back from a process that nobody trusts: if they are not as many, it is 0.
    """
    if not isinstance(after, list | tuple) or len(after) != len(before):
        return 0
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if not same(old, new):
            return index
    return None


def complaint(
    task: str,
    cases: Sequence[Case],
    answers: Sequence[Answer],
    tolerance: float,
    accepts: Accepts | None = None,
) -> str | None:
    """What is wrong with a task's answers, in one sentence with its case; None if nothing is.

    A mistake is named only if it explains the answers to all cases; else the values are shown.
    What is not written has no case.

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
            return f"{wrong} ({_call(task, case)})"
        if not wrong and accepts is not None:
            wrong = _judged(accepts, case.args, answer.output)
        elif not wrong:
            wrong = difference(case.expected, answer.output, tolerance)
        if wrong:
            found.append((i, wrong))
    if not found:
        return None
    i, message = _likeliest(found, cases, answers, tolerance)
    if message == NOT_WRITTEN:
        return message
    return f"{message.rstrip('.')} ({_call(task, cases[i])})"


def _judged(accepts: Accepts, args: tuple[Any, ...], output: Any) -> str | None:
    """What `accepts` says; an answer that it cannot even look at is wrong."""
    try:
        return accepts(from_json(to_json(args)), output)
    except Exception as error:
        if output is None:
            return "the answer is None: is a return missing?"
        told = f"{type(error).__name__}: {error}"
        return f"the answer is {describe(output)}, which cannot be judged ({told[:200]})"


def _likeliest(
    found: list[tuple[int, str]], cases: Sequence[Case], answers: Sequence[Answer], tolerance: float
) -> tuple[int, str]:
    """The case to show, and what to say: a mistake that explains all answers, or the values."""
    wrong, shown = {i for i, _ in found}, dict[str, list[int]]()
    for i in sorted(wrong):
        for name, value in cases[i].mistakes.items():
            gives = difference(value, answers[i].output, tolerance) is None
            if gives and difference(cases[i].expected, value, tolerance) is not None:
                shown.setdefault(name, []).append(i)
    explaining = [name for name in shown if _explains(name, wrong, cases, answers, tolerance)]
    best = max(explaining, key=lambda name: len(shown[name]), default="")
    if best:
        return shown[best][0], best
    outputs, due = [answer.output for answer in answers], [case.expected for case in cases]
    if not _is_nothing(outputs[0]) and _all_same(outputs) and not _all_same(due):
        return found[0][0], "the same answer whatever it is given: it must depend on the input"
    return next((f for f in found if isinstance(answers[f[0]].output, Raised)), found[0])


def _explains(
    mistake: str,
    wrong: AbstractSet[int],
    cases: Sequence[Case],
    answers: Sequence[Answer],
    tolerance: float,
) -> bool:
    """Whether each answer is what the mistake gives, or right where the mistake gives nothing.

    Where a mistake cannot answer a case at all, an exception is as good as nothing.
    """
    for i, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        if mistake in case.mistakes:
            if difference(case.mistakes[mistake], answer.output, tolerance) is not None:
                return False
        elif i in wrong and not isinstance(answer.output, Raised):
            return False
    return True


def _is_nothing(value: Any) -> bool:
    """Whether an answer is None or NaN: it says more than that all answers are the same."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _all_same(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(same(values[0], value) for value in values[1:])


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last bit, NaN being the same as NaN."""
    try:
        return bool(to_json(one) == to_json(other))
    except (TypeError, ValueError, RecursionError):
        return False


def difference(
    expected: Any, answer: Any, tolerance: float, name: str = "the answer"
) -> str | None:
    """What is different about an answer, or None if it is right.

    Args:
        expected: what should have come, as `from_json` makes it.
        answer: what came.
        tolerance: for floats, absolute and relative.
        name: what to call the answer.
    """
    if isinstance(expected, Tensor | np.ndarray):
        return _array_difference(expected, answer, tolerance, name)
    number = isinstance(answer, int | float) and not isinstance(answer, bool)
    if type(expected) is not type(answer) and not (isinstance(expected, float) and number):
        hint = ""
        if isinstance(expected, bool | int | float) and isinstance(answer, Tensor | np.ndarray):
            hint = ": .item() makes a number of a single value"
        if answer is None:
            hint = ": is a return missing?"
        return f"{name} is {describe(answer)}, expected {describe(expected)}{hint}"
    if not isinstance(expected, list | tuple):
        right = _close(expected, answer, tolerance) if number else expected == answer
        return None if right else f"{name} is {brief(answer)}, expected {brief(expected)}"
    if len(expected) != len(answer):
        told = f", got {brief(answer)}, expected {brief(expected)}"
        return f"{name} has {len(answer)} items, expected {len(expected)}{told}"
    inner = "answer" if name == "the answer" else name
    pairs = enumerate(zip(expected, answer, strict=True))
    found = (difference(e, a, tolerance, f"{inner}[{i}]") for i, (e, a) in pairs)
    return next(filter(None, found), None)


def _close(expected: float, answer: float, tolerance: float) -> bool:
    if isinstance(expected, int) or not math.isfinite(expected):
        return expected == answer or (expected != expected and answer != answer)
    return abs(answer - expected) <= tolerance * (1 + abs(expected))


def _array_difference(expected: Any, answer: Any, tolerance: float, name: str) -> str | None:
    if isinstance(expected, Tensor) != isinstance(answer, Tensor) or not hasattr(answer, "dtype"):
        hint = ": is a return missing?" if answer is None else ""
        if isinstance(answer, list) and isinstance(expected, Tensor):
            hint = ": torch.stack makes one of tensors, torch.tensor of numbers"
        return f"{name} is {describe(answer)}, expected {describe(expected)}{hint}"
    if tuple(expected.shape) != tuple(answer.shape):
        return f"{name} has the shape {tuple(answer.shape)}, expected {tuple(expected.shape)}"
    if sort_of(expected) != sort_of(answer):
        return f"{name} holds {sort_of(answer)}, expected {sort_of(expected)}"
    # float64 holds every float exactly, and int64 every whole number
    kind = torch.float64 if "float" in dtype_name(expected) else torch.int64
    e, a = (torch.as_tensor(x).to(kind) for x in (expected, answer))
    right = (e == a) | (e.isnan() & a.isnan())
    if kind == torch.float64:
        right |= e.isfinite() & ((a - e).abs() <= tolerance * (1 + e.abs()))
    if right.all():
        return None
    gap = (a.double() - e.double()).abs().nan_to_num(math.inf, math.inf).masked_fill(right, -1)
    place = [int(i) for i in np.unravel_index(int(gap.argmax()), tuple(gap.shape))]
    got, wanted = (_exact(expected, x[tuple(place)].item(), tolerance) for x in (a, e))
    if kind == torch.float64 and (a.isnan() & ~e.isnan()).any():
        wanted += " (NaN comes of 0/0, ∞ − ∞ or 0 · ∞; look for what is 0 or ∞ there)"
    elif kind == torch.float64 and (a.isinf() & ~e.isinf()).any():
        wanted += " (∞ comes of a division by 0, of log 0, or of numbers that grow and grow)"
    if not place:
        return f"{name} is {got}, expected {wanted}"
    return (
        f"{int((~right).sum())} of {right.numel()} values of {name} differ; "
        f"the largest difference is at {place}: got {got}, expected {wanted}"
    )


def sort_of(value: Any) -> str:
    """What the dtype of a tensor or an array stands for; all floats are of one sort.

    >>> sort_of(torch.zeros(1)), sort_of(torch.zeros(1).double()), sort_of(torch.tensor([1]))
    ('floats', 'floats', 'whole numbers')
    """
    dtype = dtype_name(value)
    if dtype == "bool":
        return "True and False"
    return "floats" if "float" in dtype else "whole numbers"


def _exact(expected: Any, value: float, tolerance: float) -> str:
    if dtype_name(expected) == "bool":
        return str(bool(value))
    return "0" if abs(value) < tolerance / 1000 else f"{value:.{6 if tolerance > 1e-6 else 10}g}"
