"""An empty class for each test of the intake."""

from pathlib import Path

import pytest

from grading.settings import Places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """An empty class."""
    monkeypatch.delenv("ATTNLIB_GRADEBOOK", raising=False)
    return Places(tmp_path / "class", tmp_path / "dist")
