"""Ids as they come, and as every tokenizer here reads them."""

from collections.abc import Iterable
from operator import index
from typing import Any


def checked_ids(ids: Iterable[Any], vocab_size: int) -> list[int]:
    """The ids as a list of plain ints, all of them in the vocabulary.

    Args:
        ids: token ids (T,): a list, an array, a tensor on any device.
        vocab_size: number of ids.

    Raises:
        ValueError: if an id is not in the vocabulary.
        TypeError: if `ids` are not whole numbers.

    >>> import torch
    >>> checked_ids(torch.tensor([5, 3]), vocab_size=6)
    [5, 3]
    """
    row = ids.tolist() if hasattr(ids, "tolist") else ids  # one copy from a device, not T
    try:
        plain = [index(i) for i in row]
    except TypeError as error:
        raise TypeError(
            f"ids must be whole numbers such as [15, 300], got {type(ids).__name__}: {error}"
        ) from error
    for i in plain:
        if not 0 <= i < vocab_size:
            raise ValueError(
                f"ids must be from 0 to {vocab_size - 1}, got {i}: "
                "were they made by another tokenizer?"
            )
    return plain
