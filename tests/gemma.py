"""Gemma 3's file, for tests; it is no part of the set-up, and they are left out where it is not."""

import os

import pytest

from attnlib.pretrained.gguf import GGUF
from attnlib.pretrained.published import gemma3_file


def gemma_or_skip() -> GGUF:
    """The published file; without it the test is skipped, or fails under ATTNLIB_GEMMA=required."""
    try:
        return gemma3_file()
    except FileNotFoundError as error:
        if os.environ.get("ATTNLIB_GEMMA") == "required":
            pytest.fail(f"ATTNLIB_GEMMA=required does not allow to skip: {error}")
        pytest.skip(f"left out, as it needs Gemma 3: {error}")
