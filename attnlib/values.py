"""Values that pass between a student's function and its judge: as JSON, in words, compared.

An answer comes from a process that nobody trusts, so it travels as plain JSON (`encode`, `decode`),
is told in a few words (`describe`, `brief`), and is compared by shape, dtype and value
(`difference`). Nothing here knows a task.
"""

import math
import reprlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST = 1_000_000  # values in one tensor of an answer
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip
RETURNABLE = "None, bool, int, float, str, a tensor, an array, or a list, tuple or dict of these"


# values as JSON


def encode(value: Any) -> Any:
    """A value as plain JSON, from which `decode` makes it again, NaN and dtypes included.

    Raises:
        TypeError: for anything that no task may return.
        ValueError: for a tensor that is too large.

    >>> encode((1, torch.tensor([0.5, math.nan])))
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
        return _encode_array(value)
    if isinstance(value, list | tuple):
        items = [encode(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item) for key, item in value.items()}}
    raise TypeError(f"returned {describe(value)}; a task returns {RETURNABLE}")


def _encode_array(value: Any) -> dict[str, Any]:
    kind = "tensor" if isinstance(value, Tensor) else "array"
    dtype, size = str(value.dtype).removeprefix("torch."), math.prod(value.shape)
    if dtype not in DTYPES:
        raise TypeError(f"returned {describe(value)}; known dtypes are {', '.join(DTYPES)}")
    if size > LARGEST:
        raise ValueError(f"returned {describe(value)}: {size:,} values are too many")
    flat = (value.detach().cpu() if isinstance(value, Tensor) else value).reshape(-1).tolist()
    if dtype == "bool":
        flat = [int(x) for x in flat]
    elif "float" in dtype:
        flat = [x if math.isfinite(x) else str(x) for x in flat]
    return {kind: {"dtype": dtype, "shape": list(value.shape), "data": flat}}


def decode(data: Any) -> Any:
    """The value that `encode` wrote; the data may be anything at all.

    Raises:
        ValueError: if this is no encoded value.

    >>> decode({"tuple": [1, {"float": "inf"}]})
    (1, inf)
    """
    try:
        return _decode(data)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"no encoded value: {type(error).__name__}: {error}") from None


def _decode(data: Any) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [_decode(item) for item in data]
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("expected one of the forms that encode writes")
    ((kind, inside),) = data.items()
    if kind == "float":
        return float(inside)
    if kind == "tuple":
        return tuple(_decode(item) for item in inside)
    if kind == "dict":
        return {str(key): _decode(item) for key, item in inside.items()}
    dtype, shape, flat = inside["dtype"], [int(n) for n in inside["shape"]], inside["data"]
    flat = [float(x) if "float" in dtype else int(x) for x in flat]
    if kind == "tensor":
        return torch.tensor(flat, dtype=DTYPES[dtype]).reshape(shape)
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
        return f"a {_dtype(value)} {kind} of shape {tuple(value.shape)}"
    if value is None:
        return "None"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def brief(value: Any) -> str:
    """A value for a message: itself if it is small, else its kind and shape.

    >>> brief(torch.tensor([0.25, 1.0])), brief(torch.zeros(2, 3, 4)), brief("a" * 99)[:9]
    ('tensor([0.25, 1])', 'float32 (2, 3, 4)', "'aaaaaaaa")
    """
    if isinstance(value, Tensor | np.ndarray):
        if value.ndim < 2 and math.prod(value.shape) <= 6:
            return f"tensor({brief(value.tolist())})"
        return f"{_dtype(value)} {tuple(value.shape)}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(brief, value[:8])) + (", …" if len(value) > 8 else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return reprlib.repr(value)


# comparison


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last bit, NaN being the same as NaN."""
    try:
        return bool(encode(one) == encode(other))
    except (TypeError, ValueError, RecursionError):
        return False


def difference(
    expected: Any, answer: Any, tolerance: float, name: str = "the answer"
) -> str | None:
    """What is different about an answer, or None if it is right.

    Args:
        expected: what should have come, as `decode` makes it.
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
        return f"{name} is {describe(answer)}, expected {describe(expected)}{hint}"
    if isinstance(expected, dict):
        if set(expected) != set(answer):
            return (
                f"{name} has the keys {brief(sorted(answer))}, expected {brief(sorted(expected))}"
            )
        pairs = [(key, expected[key], answer[key]) for key in expected]
    elif isinstance(expected, list | tuple):
        if len(expected) != len(answer):
            told = f", got {brief(answer)}, expected {brief(expected)}"
            return f"{name} has {len(answer)} items, expected {len(expected)}{told}"
        pairs = [(i, e, a) for i, (e, a) in enumerate(zip(expected, answer, strict=True))]
    else:
        right = _close(expected, answer, tolerance) if number else expected == answer
        return None if right else f"{name} is {brief(answer)}, expected {brief(expected)}"
    inner = "answer" if name == "the answer" else name
    found = (difference(e, a, tolerance, f"{inner}[{key!r}]") for key, e, a in pairs)
    return next(filter(None, found), None)


def _close(expected: float, answer: float, tolerance: float) -> bool:
    if isinstance(expected, int) or not math.isfinite(expected):
        return expected == answer or (expected != expected and answer != answer)
    return abs(answer - expected) <= tolerance * (1 + abs(expected))


def _array_difference(expected: Any, answer: Any, tolerance: float, name: str) -> str | None:
    if isinstance(expected, Tensor) != isinstance(answer, Tensor) or not hasattr(answer, "dtype"):
        return f"{name} is {describe(answer)}, expected {describe(expected)}"
    if tuple(expected.shape) != tuple(answer.shape):
        return f"{name} has the shape {tuple(answer.shape)}, expected {tuple(expected.shape)}"
    if expected.dtype != answer.dtype:
        return f"{name} has the dtype {_dtype(answer)}, expected {_dtype(expected)}"
    # float64 holds every float exactly, and int64 every whole number
    kind = torch.float64 if "float" in _dtype(expected) else torch.int64
    e, a = (torch.as_tensor(x).to(kind) for x in (expected, answer))
    right = (e == a) | (e.isnan() & a.isnan())
    if kind == torch.float64:
        right |= e.isfinite() & ((a - e).abs() <= tolerance * (1 + e.abs()))
    if right.all():
        return None
    gap = (a.double() - e.double()).abs().nan_to_num(math.inf, math.inf).masked_fill(right, -1)
    place = [int(i) for i in np.unravel_index(int(gap.argmax()), tuple(gap.shape))]
    got, wanted = (_exact(expected, x[tuple(place)].item()) for x in (a, e))
    return (
        f"{int((~right).sum())} of {right.numel()} values of {name} differ; "
        f"the largest difference is at {place}: got {got}, expected {wanted}"
    )


def _exact(expected: Any, value: float) -> str:
    return str(bool(value)) if _dtype(expected) == "bool" else f"{value:.6g}"
