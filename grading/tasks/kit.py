"""What tasks draw their hidden cases with, and write their visible ones: one kit for all.

>>> draw = Draw(seed=0)
>>> q, k = draw.normal(3, 4), draw.normal(draw.size(), 4)
>>> q.shape, draw.rows(2, 5).sum(-1)
(torch.Size([3, 4]), tensor([1., 1.]))
"""

import random
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")
LARGEST = 9  # of the sizes that are drawn
LEADS = ((), (2,), (2, 3))  # the leading axes of three cases


class Draw:
    """Sizes and numbers for one hidden case, from a seed.

    Args:
        seed: anything that `random.Random` takes; the same seed draws the same case.
        sizes: "different" (no two alike, from 2 up), "alike" (all the same), or "least" (each as
            small as its task allows).
        lead: the leading axes of this case, for tasks that promise any number of them.
    """

    def __init__(
        self, seed: int | bytes | str, sizes: str = "different", lead: tuple[int, ...] = ()
    ) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(60))
        self.sizes, self.lead = sizes, lead
        self._used: set[int] = set()
        self._alike = self.random.randint(4, 6)

    def size(self, least: int = 1, most: int = LARGEST) -> int:
        """A size from `least` to `most`, as this case wants it."""
        if self.sizes == "least":
            return least
        if self.sizes == "alike":
            return min(max(least, self._alike), most)
        free = [size for size in range(max(2, least), most + 1) if size not in self._used]
        chosen = self.random.choice(free or range(least, most + 1))
        self._used.add(chosen)
        return chosen

    def normal(self, *shape: int) -> Tensor:
        """Numbers from the standard normal distribution, float32."""
        return torch.randn(*shape, generator=self.generator)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Numbers between two bounds, float32."""
        return low + (high - low) * torch.rand(*shape, generator=self.generator)

    def rows(self, *shape: int, spread: float = 1.0) -> Tensor:
        """Positive numbers whose last axis sums to 1, as attention weights do; float32."""
        return (spread * self.normal(*shape)).softmax(-1)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from `low` up to, and without, `high`; int64."""
        return torch.randint(low, high, shape, generator=self.generator)

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return self.random.randint(low, high)

    def number(self, low: float, high: float, digits: int = 2) -> float:
        """A number between two bounds, with few digits."""
        return round(self.random.uniform(low, high), digits)

    def choice(self, items: Sequence[Item]) -> Item:
        """One of some things."""
        return self.random.choice(items)

    def choices(self, items: Sequence[Item], count: int) -> list[Item]:
        """Some things, perhaps the same more than once."""
        return self.random.choices(items, k=count)

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Some things, each at most once, in random order."""
        return self.random.sample(items, count)

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The same things in random order."""
        order: MutableSequence[Item] = list(items)
        self.random.shuffle(order)
        return list(order)


def draws(seed: str) -> Iterator[Draw]:
    """What the hidden cases of one task are drawn with: five, of different kinds of sizes."""
    for number, lead in enumerate(LEADS):
        yield Draw(f"{seed}:{number}", "different", lead)
    yield Draw(f"{seed}:alike", "alike", (2,))
    yield Draw(f"{seed}:least", "least")


# for visible cases


def table(rows: Any) -> Tensor:
    """A tensor of float32 from nested lists."""
    return torch.tensor(rows, dtype=torch.float32)


def tenths(seed: int, *shape: int) -> Tensor:
    """Normal numbers with one decimal, so that a visible case can be read; float32."""
    return (Draw(seed).normal(*shape) * 10).round() / 10
