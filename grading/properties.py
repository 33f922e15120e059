"""Hidden cases from what a task promises: sizes, leading axes, kinds of numbers, magnitudes.

The text of a task promises more than its visible cases show. `varied` draws inputs and varies them,
one promise at a time, so that no task lists such cases by hand. A task adds by hand what a promise
cannot say, such as ties, texts or rare words. How inputs lie in memory and whether they are given
by name is no promise, and the judge's own (`grading.judge.encoded`).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from grading.task import Args

Hidden = Callable[[random.Random, Generator], Sequence[Args]]
LEADS = ((), (1,), (2, 3), (2, 1, 2, 1))


def varied(
    draw: Callable[..., Args],
    least: Mapping[str, int],
    *,
    lead: bool = False,
    dtypes: Sequence[torch.dtype] = (torch.float64, torch.float16),
    scaled: Sequence[tuple[int, float]] = (),
    also: Hidden | None = None,
) -> Hidden:
    """What draws a task's hidden cases.

    Args:
        draw: arguments from (rng, generator, **sizes), and `lead=`, a tuple of sizes, if `lead`.
        least: the smallest size that is promised, by the name of the size.
        lead: whether any number of leading axes is promised.
        dtypes: the kinds of float that are promised besides float32. In half precision numbers
            are small, so that plain torch is exact enough; where it is not, half is left out.
        scaled: (place of an argument, factor): what is promised to be as large, or as small, in
            single precision; in double, if that is drawn, the factor is squared, and a million or
            a millionth at most.
        also: cases that no promise makes; they come last.

    Returns:
        for `Task.hidden`: three cases or one for each of `LEADS`, with sizes that differ; all sizes
        alike, twice; each size at its least, and at one; all at their least, and all but one; each
        long; two of each dtype and one of each scale; in double, all that is scaled small at once.
    """

    def hidden(rng: random.Random, generator: Generator) -> list[Args]:
        def case(sizes: Mapping[str, int] = {}, axes: tuple[int, ...] = ()) -> Args:
            low, high = max(2, *least.values()), 3 + len(least) + max(least.values())
            drawn = dict(zip(least, rng.sample(range(low, high), len(least)), strict=True))
            return draw(rng, generator, **drawn | dict(sizes), **{"lead": axes} if lead else {})

        alike = max(4, *least.values())
        cases = [case(axes=axes) for axes in (LEADS if lead else ((),) * 3)]
        cases += [case(dict.fromkeys(least, alike), (alike,)) for _ in range(2)]
        cases += [case({name: one}) for name, size in least.items() for one in {size, max(1, size)}]
        cases.append(case(least))
        if len(least) > 2:  # of two, one is at its least already
            cases += [case({n: one for n, one in least.items() if n != name}) for name in least]
        cases += [case({name: rng.randint(26, 32)}) for name in least]  # some ways change at 25
        for dtype in dtypes:
            cases += [converted(case(least), dtype), converted(case(axes=LEADS[2]), dtype)]
        for place, factor in scaled:
            cases.append(at_scale(case(), place, factor))
            if torch.float64 in dtypes:
                more = factor and min(max(factor**2, 1e-6), 10**6)
                cases.append(at_scale(converted(case(), torch.float64), place, more))
        if scaled and torch.float64 in dtypes:
            small = converted(case(), torch.float64)
            for place, factor in dict(sorted(scaled, reverse=True)).items():  # its least factor
                if isinstance(small[place], float) or small[place].is_floating_point():
                    small = at_scale(small, place, factor**2 if 0 < factor < 1 else 1e-6)
            cases.append(small)
        return [*cases, *(also(rng, generator) if also else ())]

    return hidden


def at_scale(args: Args, place: int, factor: float) -> Args:
    """Arguments, that at `place` times a factor."""
    return (*args[:place], args[place] * factor, *args[place + 1 :])


def converted(value: Any, dtype: torch.dtype) -> Any:
    """A value with its float tensors in another dtype, in lists and tuples too."""
    if isinstance(value, list | tuple):
        return type(value)(converted(one, dtype) for one in value)
    floats = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(dtype) if floats else value
