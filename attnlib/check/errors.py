"""A sentence for the errors that torch and Python raise most often in an exercise.

The error itself is told first, with its line; the sentence says what to look for. Both
stand in errors.toml.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def sentence(error: str, args: Sequence[Any]) -> str:
    """What to look for after an error, or nothing.

    Args:
        error: its type, text and line.
        args: what the function was called with.

    >>> sentence("RuntimeError: index out of range in self", ())[:34]
    'an index lies outside of its axis:'
    >>> sentence("ValueError: my own shape", ())
    ''
    """
    for known in KNOWN["error"]:
        if re.search(known["pattern"], error):
            return str(known["told"])
    shapes = KNOWN["shapes"]
    if not re.search(shapes["pattern"], error.partition(" (line ")[0], re.DOTALL):
        return ""
    batch = any(getattr(one, "ndim", 0) > 2 for one in args)
    return str(shapes["turned" if batch and re.search(r"\.T\b", error) else "told"])
