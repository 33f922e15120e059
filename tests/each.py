"""A table of cases as one test, which fails with every row that is wrong, and why."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(names: str, table: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test; fixtures are shared by all rows.

    >>> @each("x, y", [(1, 1), (2, 3)])
    ... def test(x, y):
    ...     assert x == y, f"{x} is not {y}"
    >>> test()
    Traceback (most recent call last):
    AssertionError: 1 of 2 rows:
    (2, 3): 2 is not 3
    """
    keys, cases = names.replace(" ", "").split(","), list(table)

    def one_test(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            wrong: dict[str, BaseException] = {}
            for case in cases:
                values = case if len(keys) > 1 else (case,)
                try:
                    test(**fixtures, **dict(zip(keys, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    wrong[f"{case!r:.200}: {str(error) or type(error).__name__}"] = error
            if wrong:
                told = "\n".join([f"{len(wrong)} of {len(cases)} rows:", *wrong])
                raise AssertionError(told) from next(iter(wrong.values()))
            assert cases, "a test of no rows"

        kept = inspect.signature(test).parameters.items()
        left = [parameter for name, parameter in kept if name not in keys]
        vars(every)["__signature__"] = inspect.Signature(left)
        return every

    return one_test
