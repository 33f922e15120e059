"""What the chapters' tests share."""

from collections.abc import Iterator

import pytest
import torch

collect_ignore = ["conftest.py"]  # for doctests: there is one in other folders, too


@pytest.fixture(scope="module")
def no_gradients() -> Iterator[None]:
    """For tests that measure, and train nothing themselves."""
    with torch.no_grad():
        yield
