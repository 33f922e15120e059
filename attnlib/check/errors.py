"""A sentence for the errors that torch and Python raise most often in an exercise.

The error itself is told first, with its line; the sentence says what to look for.
"""

import re
from collections.abc import Sequence
from typing import Any

SENTENCES = (
    (
        r"same dtype|expected scalar type|dtypes? .*(not match|mismatch)|to have dtype|Index put",
        "two dtypes meet here, such as float32 and float64: give what you make yourself the "
        "dtype of what you were given, dtype=x.dtype",
    ),
    (
        r"unexpected keyword argument|missing \d+ required|positional arguments? but",
        "a caller may name the arguments: keep their names and their order as the task gives them",
    ),
    (
        r"Expected target size|Expected floating point type for target|only batches of spatial",
        "cross_entropy wants the classes on axis 1: a table (N, D) and N whole numbers",
    ),
    (
        r"result type Float can't",
        "a tensor of whole numbers cannot hold decimals, so += cannot work: counts + k makes a "
        "new tensor",
    ),
    (
        r"not implemented for '(Long|Int|Bool)'|floating point or complex",
        "whole numbers have no softmax, mean or logarithm: turn them into .float() first",
    ),
    (
        r"[Bb]oolean value of Tensor|truth value of an array",
        "`if` wants one True or False; torch.where chooses entry by entry",
    ),
    (
        r"converted to Scalar|converted to Python scalars|item\(\) cannot|only integer tensors",
        "a single number is wanted, and this tensor holds several: sum or pick first",
    ),
    (
        r"can only concatenate (str|tuple|list)|not 'tuple'|not 'str'|unhashable type",
        "a string, a list and a tuple are three things: tuple(…), list(…) and ''.join(…) turn "
        "one into another",
    ),
    (
        r"'NoneType' object",
        "something is None: is a `return` missing, or the name of what was returned?",
    ),
    (
        r"[Ii]ndex \S+ is out of (bounds|range)|index out of range",
        "an index is larger than its axis: compare it with the shape; the last one is length − 1",
    ),
    (
        r"Dimension out of range|axis -?\d+ is out of bounds",
        "this tensor has not so many axes: print its shape before this line. Axes are counted "
        "from 0, and dim=-1 is the last one, however many there are",
    ),
    (
        r"to satisfy the constraint",
        "some values are not what is wanted there, such as NaN, or weights that do not sum to 1: "
        "print them before this line, the rows of padding too",
    ),
)
TURNED = (
    "the shapes do not fit: print both before this line. On a tensor of more than two axes `.T` "
    "turns all of them around, the batch too; `.mT` swaps the last two and leaves the others"
)
# what torch and numpy say of shapes; a ValueError may name one and complain of the values
MEET = (
    r"^(RuntimeError|IndexError|UserWarning): .*(size|shape|dimension)"
    r"|^ValueError: .*(broadcast|aligned|[Mm]ismatch|match|same shape|reshape|inhomogeneous"
    r"|different to the input size)"
)
SHAPES = "the shapes do not fit: print both before this line, and say which axes should meet"


def sentence(error: str, args: Sequence[Any]) -> str:
    """What to look for after an error, or nothing.

    Args:
        error: its type, text and line.
        args: what the function was called with.

    >>> sentence("RuntimeError: index out of range in self", ())[:34]
    'an index is larger than its axis: '
    >>> sentence("ValueError: my own shape", ())
    ''
    """
    for pattern, told in SENTENCES:
        if re.search(pattern, error):
            return told
    if not re.search(MEET, error.partition(" (line ")[0], re.DOTALL):
        return ""
    batch = any(getattr(one, "ndim", 0) > 2 for one in args)
    return TURNED if batch and re.search(r"\.T\b", error) else SHAPES
