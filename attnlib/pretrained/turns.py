"""How a published weight lies, and how it becomes one of ours.

Ours keep the heads apart and are written for row vectors, x @ W. The linear maps of PyTorch are
stored for column vectors, with all heads in one matrix. GPT-2's ("Conv1D") are for row vectors, and
the queries, keys and values of all its heads are one matrix.

A turn takes their weight and the shape that ours has. Almost all turns give a view of their weight,
so that no number is copied.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Shape = tuple[int, ...]
Turn = Callable[[Tensor, Shape], Tensor]


def unchanged(w: Tensor, shape: Shape) -> Tensor:
    """As it is."""
    return w


def transposed(w: Tensor, shape: Shape) -> Tensor:
    """(out, in) to (in, out)."""
    return w.mT


def heads_of_columns(w: Tensor, shape: Shape) -> Tensor:
    """What reads the stream, (H · d, d_model), to (H, d_model, d)."""
    heads, _, width = shape
    by_head: Tensor = w.unflatten(0, (heads, width))
    return by_head.mT


def heads_of_rows(w: Tensor, shape: Shape) -> Tensor:
    """(H · d, …) to (H, d, …)."""
    by_head: Tensor = w.unflatten(0, shape[:2])
    return by_head


def heads_of_output(w: Tensor, shape: Shape) -> Tensor:
    """What writes to the stream, (d_model, H · d), to (H, d, d_model)."""
    by_head: Tensor = w.mT.unflatten(0, shape[:2])
    return by_head


def third_of_conv1d(number: int) -> Turn:
    """Queries (0), keys (1) or values (2) in GPT-2's (d_model, 3 · H · d), to (H, d_model, d)."""

    def turn(w: Tensor, shape: Shape) -> Tensor:
        heads, _, width = shape
        by_head: Tensor = w.chunk(3, 1)[number].unflatten(1, (heads, width))
        return by_head.transpose(0, 1)

    return turn


def third_of_bias(number: int) -> Turn:
    """The same part of GPT-2's bias (3 · H · d), to (H, d)."""

    def turn(b: Tensor, shape: Shape) -> Tensor:
        by_head: Tensor = b.chunk(3)[number].unflatten(0, shape)
        return by_head

    return turn


def third_of_each_head(number: int) -> Turn:
    """Queries, keys or values in GPT-NeoX's (H · 3 · d, d_model), to (H, d_model, d)."""

    def turn(w: Tensor, shape: Shape) -> Tensor:
        heads, _, width = shape
        by_head: Tensor = w.unflatten(0, (heads, 3, width))
        return by_head[:, number].mT

    return turn


def third_of_each_bias(number: int) -> Turn:
    """The same part of GPT-NeoX's bias (H · 3 · d), to (H, d)."""

    def turn(b: Tensor, shape: Shape) -> Tensor:
        heads, width = shape
        by_head: Tensor = b.unflatten(0, (heads, 3, width))
        return by_head[:, number]

    return turn


def after_two(w: Tensor, shape: Shape) -> Tensor:
    """Positions that are counted from 2: the first two rows are for padding, and leave."""
    return w[2:]


def one_more(w: Tensor, shape: Shape) -> Tensor:
    """A norm that multiplies by 1 + w; ours multiplies by w."""
    return 1 + w


class Layout(NamedTuple):
    """How a matrix (or a norm's scale) is turned, and the bias that belongs to it."""

    matrix: Turn
    bias: Turn = unchanged


SAME = Layout(unchanged)  # norms, embeddings, and GPT-2's feed-forward
LINEAR = Layout(transposed)
HEADS = Layout(heads_of_columns, heads_of_rows)
OUTPUT = Layout(heads_of_output)
ROWS = Layout(heads_of_rows)  # GPT-2's output
CONV1D_Q, CONV1D_K, CONV1D_V = (Layout(third_of_conv1d(i), third_of_bias(i)) for i in range(3))
NEOX_Q, NEOX_K, NEOX_V = (Layout(third_of_each_head(i), third_of_each_bias(i)) for i in range(3))
AFTER_TWO = Layout(after_two)
ONE_MORE = Layout(one_more)
