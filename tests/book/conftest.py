"""The course's pages and slides, made once for all tests and workers, with the network cut."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chapter_rules import chapter_paths, side_roads
from chapter_tools import kept_views
from filelock import FileLock


@pytest.fixture(scope="session")
def views() -> dict[str, Any]:
    """What is stored of each chapter's views; None, and pictures in their place, if it is stale."""
    return {path.stem: kept_views(path) for path in (*chapter_paths(), *side_roads())}


def once(name: str, make: Callable[[Path], object], factory: pytest.TempPathFactory) -> Path:
    """A folder that the first worker makes, while the others wait for it."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with FileLock(base / f"{name}.lock"):
        if not (complete := base / f"{name}.complete").exists():
            make(base / name)
            complete.touch()
    return base / name


@pytest.fixture(scope="session")
def site(views: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages."""
    from book.pages import book

    return once("book", lambda target: book(views, target), tmp_path_factory) / "html"


@pytest.fixture(scope="session")
def decks(views: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built slides."""
    from book.slides import slides

    return once("slides", lambda target: slides(views, target), tmp_path_factory)
