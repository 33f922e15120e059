"""How a student's function is asked, and how its answers travel: as plain JSON.

An answer comes from a process that nobody trusts. `ask` calls the function and encodes what it
gives (`to_json`), `read_answers` decodes a bundle that may be forged (`from_json`), and `describe`
and `brief` tell a value in a few words. Nothing here knows a task.
"""

import linecache
import math
import reprlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST = 1_000_000  # values in one tensor of an answer
FEW = 12  # values of a tensor that a message shows
_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _NAMES.split()}
USUAL = ("float32", "int64", "bool")  # dtypes that torch.tensor finds by itself
RETURNABLE = "None, bool, int, float, str, a tensor, an array, or a list, tuple or dict of these"


# values as JSON


def to_json(value: Any) -> Any:
    """A value as plain JSON, from which `from_json` makes it again, NaN and dtypes included.

    Raises:
        TypeError: for anything that no task may return.
        ValueError: for a tensor that is too large.

    >>> to_json((1, torch.tensor([0.5, math.nan])))
    {'tuple': [1, {'tensor': {'dtype': 'float32', 'shape': [2], 'data': [0.5, 'nan']}}]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, Tensor | np.ndarray):
        return _array_to_json(value)
    if isinstance(value, list | tuple):
        items = [to_json(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: to_json(item) for key, item in value.items()}}
    raise TypeError(f"returned {describe(value)}; a task returns {RETURNABLE}")


def _array_to_json(value: Any) -> dict[str, Any]:
    kind = "tensor" if isinstance(value, Tensor) else "array"
    dtype, size = str(value.dtype).removeprefix("torch."), math.prod(value.shape)
    if dtype not in DTYPES:
        hint = "; .real drops the imaginary part" if "complex" in dtype else ""
        raise TypeError(f"returned {describe(value)}; known dtypes are {', '.join(DTYPES)}{hint}")
    if size > LARGEST:
        raise ValueError(f"returned {describe(value)}: {size:,} values are too many")
    flat = (value.detach().cpu() if isinstance(value, Tensor) else value).reshape(-1).tolist()
    if dtype == "bool":
        flat = [int(x) for x in flat]
    elif "float" in dtype:
        flat = [x if math.isfinite(x) else str(x) for x in flat]
    return {kind: {"dtype": dtype, "shape": list(value.shape), "data": flat}}


def from_json(data: Any) -> Any:
    """The value that `to_json` wrote; the data may be anything at all.

    Raises:
        ValueError: if this is no encoded value.

    >>> from_json({"tuple": [1, {"float": "inf"}]})
    (1, inf)
    """
    try:
        return _from_json(data)
    except Exception as error:
        raise ValueError(f"no encoded value: {type(error).__name__}: {error}") from None


def _from_json(data: Any) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [_from_json(item) for item in data]
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("expected one of the forms that to_json writes")
    ((kind, inside),) = data.items()
    if kind == "float":
        return float(inside)
    if kind == "tuple":
        return tuple(_from_json(item) for item in inside)
    if kind == "dict":
        return {str(key): _from_json(item) for key, item in inside.items()}
    dtype, shape, flat = inside["dtype"], [int(n) for n in inside["shape"]], inside["data"]
    flat = [float(x) if "float" in dtype else int(x) for x in flat]
    if kind == "tensor":
        return torch.tensor(flat, dtype=DTYPES[dtype], device="cpu").reshape(shape)
    if kind == "array" and dtype in DTYPES:
        return np.array(flat, dtype=dtype).reshape(shape)
    raise ValueError(f"no value is a {kind!r}")


# values in words


def describe(value: Any) -> str:
    """What kind of thing a value is, in a few words.

    >>> describe(torch.zeros(2, 3)), describe([1, 2]), describe(0.5)
    ('a float32 tensor of shape (2, 3)', 'a list of 2', 'a float')
    """
    if isinstance(value, Tensor | np.ndarray):
        kind = "tensor" if isinstance(value, Tensor) else "numpy array"
        return f"a {dtype_name(value)} {kind} of shape {tuple(value.shape)}"
    if value is None:
        return "None"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def dtype_name(value: Any) -> str:
    """The dtype of a tensor or an array, as both are called: "float32", "int64"."""
    return str(value.dtype).removeprefix("torch.")


def brief(value: Any) -> str:
    """A value for a message: itself if it is small, else its kind and shape.

    >>> brief(torch.tensor([0.25, 1.0])), brief(torch.zeros(2, 3, 4)), brief("a" * 99)[:9]
    ('tensor([0.25, 1.0])', 'float32 (2, 3, 4)', "'aaaaaaaa")
    >>> brief(torch.ones(2).double())  # a copy of it is of the same dtype
    'tensor([1.0, 1.0], dtype=torch.float64)'
    """
    if isinstance(value, Tensor | np.ndarray):
        if math.prod(value.shape) <= FEW:
            dtype = dtype_name(value)
            told = "" if dtype in USUAL else f", dtype=torch.{dtype}"
            return f"tensor({brief(value.tolist())}{told})"
        return f"{dtype_name(value)} {tuple(value.shape)}"
    if isinstance(value, float):
        text = f"{value:.6g}"
        return f"{text}.0" if text.lstrip("-").isdigit() else text
    if isinstance(value, list | tuple):
        inside = ", ".join(map(brief, value[:8])) + (", …" if len(value) > 8 else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return reprlib.repr(value)


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
        args = from_json(data)
        try:
            output = function(*args)
            answers.append({"output": to_json(output), "args": to_json(args)})
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
            output, after = from_json(item.get("output")), from_json(item.get("args"))
            answers.append(Answer(output, after))
    return answers
