"""What the chapters' tests share.

The chapters and their side roads are executed in the same run (nbval), and a cell that asserts
what it shows fails there: what such a cell asserts is not computed again here, unless it is a
thesis, whose test reads other texts or starts from another seed.
"""

from collections.abc import Iterator

import pytest
import torch

collect_ignore = ["conftest.py"]  # for doctests: there is one in other folders, too


@pytest.fixture(scope="module")
def no_gradients() -> Iterator[None]:
    """For tests that measure, and train nothing themselves."""
    with torch.no_grad():
        yield
