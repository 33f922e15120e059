"""Brackets of several kinds, nested to a bounded depth: the Dyck language of Wen et al. (2023).

What closes next is always known exactly, from the last bracket that is still open; so one can ask
whether a model that answers perfectly must also look there.
"""

import torch
from torch import Tensor


def dyck(
    count: int, length: int = 16, kinds: int = 2, depth: int = 3, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Random prefixes of bracket words, and which bracket would close each of them.

    A word opens or closes with equal chance where both are allowed; it must open at depth 0 and
    close at the largest depth. Bracket a is opened by 2a and closed by 2a + 1.

    Args:
        count: words, N.
        length: brackets in each, T; it need not close all.
        kinds: of brackets, k.
        depth: largest number that are open at once.
        seed: of the draw.

    Returns:
        brackets (N, T) with values 0 … 2k − 1; the depth of each (N, T), 1 … depth, the same for
        an opening bracket and the one that closes it; and the kind of the innermost bracket
        open after it (N, T), 0 … k − 1, or −1 where none is.

    Raises:
        ValueError: if an argument is below 1.
    """
    if min(count, length, kinds, depth) < 1:
        raise ValueError(
            f"count, length, kinds and depth must be at least 1, got {count}, {length}, {kinds} "
            f"and {depth}"
        )
    generator = torch.Generator().manual_seed(seed)
    rows, stack = torch.arange(count), torch.full((count, depth + 1), -1)  # stack[:, 0] stays −1
    level = torch.zeros(count, dtype=torch.int64)
    columns = []
    for _ in range(length):
        opens = torch.rand(count, generator=generator) < 0.5
        opens = (opens | (level == 0)) & (level < depth)
        kind = torch.randint(kinds, (count,), generator=generator)
        kind = torch.where(opens, kind, stack[rows, level])
        here = torch.where(opens, level + 1, level)
        level = torch.where(opens, here, level - 1)
        stack = stack.clone()
        stack[rows[opens], here[opens]] = kind[opens]
        columns.append(torch.stack([2 * kind + (~opens).long(), here, stack[rows, level]]))
    brackets, depths, targets = torch.stack(columns, -1)
    return brackets, depths, targets


def with_depth(brackets: Tensor, depths: Tensor, kinds: int) -> Tensor:
    """A token for each bracket at each depth: ids 0 … 2k · depth − 1, shapes as given.

    What a first layer can easily add to the bracket ("minimal first layer" of Wen et al. 2023);
    one layer of attention that is told the depth can then do the rest.

    >>> with_depth(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 2]), kinds=2)
    tensor([0, 6, 7])
    """
    return brackets + 2 * kinds * (depths - 1)
