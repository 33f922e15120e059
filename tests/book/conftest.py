"""The course's pages and slides, made once for all tests, with the network cut."""

from pathlib import Path
from typing import Any

import pytest
from chapter_rules import CHAPTERS, chapter_paths, side_roads
from chapter_tools import executed, keep_views, kept_views

ALIVE = "00_start_here"  # always has its views; of other chapters only those that are kept


@pytest.fixture(scope="session")
def views() -> dict[str, Any]:
    """What is kept of each chapter's views; None, and pictures in their place, if nothing is."""
    path = CHAPTERS / f"{ALIVE}.ipynb"
    if kept_views(path) is None:
        keep_views(ALIVE, executed(path))
    return {path.stem: kept_views(path) for path in (*chapter_paths(), *side_roads())}


@pytest.fixture(scope="session")
def site(views: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages."""
    from book.pages import book

    target = tmp_path_factory.mktemp("book")
    book(views, target)
    return target / "html"


@pytest.fixture(scope="session")
def decks(views: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built slides."""
    from book.slides import slides

    target = tmp_path_factory.mktemp("slides")
    slides(views, target)
    return target
