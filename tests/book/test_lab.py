"""What `make lab` opens: views are alive before any cell is run, and nothing of it on disk."""

import asyncio
import copy
import json
from pathlib import Path

import pytest
from chapter_rules import CHAPTERS, chapter_paths
from chapter_tools import kept_views

import course
from book import lab

NAME = "chapters/00_start_here.ipynb"


def opened(root: Path, name: str = NAME) -> dict:
    """A file as JupyterLab gets it."""
    return asyncio.run(lab.Chapters(root_dir=str(root)).get(name))["content"]


def test_the_command_opens_chapters_through_it() -> None:
    command = course.lab("python", [])
    assert f"--ServerApp.contents_manager_class={lab.__name__}.Chapters" in command
    (settings,) = (word.partition("=")[2] for word in command if "app_settings_dir" in word)
    disabled = json.loads((Path(settings) / "page_config.json").read_text())["disabledExtensions"]
    assert "@jupyterlab/apputils-extension:announcements" in disabled
    assert json.loads((Path(settings) / "overrides.json").read_text())


def test_every_stored_view_of_a_chapter_is_alive_when_it_is_opened() -> None:
    shown = {
        (cell["id"], str(number)): (output["data"]["text/html"], cell["metadata"])
        for cell in opened(CHAPTERS.parent)["cells"]
        for number, output in enumerate(cell.get("outputs", []))
        if "text/html" in output.get("data", {})
    }
    stored = kept_views(chapter_paths()[0])
    assert stored
    assert set(shown) == {(cell, number) for cell, some in stored.items() for number in some}
    for (cell, number), (text, metadata) in shown.items():
        assert stored[cell][number]["_blob"] in text
        assert metadata["trusted"], "else JupyterLab runs no script"


def test_saving_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = (CHAPTERS.parent / NAME).read_bytes()
    content = opened(CHAPTERS.parent)
    assert b"alive until its cell is run" in json.dumps(content).encode()
    (tmp_path / "chapters").mkdir()
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    monkeypatch.setattr(lab, "chapter_paths", lambda: [tmp_path / NAME])
    model = {"type": "notebook", "format": "json", "content": copy.deepcopy(content)}
    asyncio.run(lab.Chapters(root_dir=str(tmp_path)).save(model, NAME))
    assert (tmp_path / NAME).read_bytes() == original


def test_what_views_are_stored_in_is_not_listed() -> None:
    listed = [one["name"] for one in opened(CHAPTERS.parent, "chapters")]
    assert "00_start_here.ipynb" in listed
    assert "views" not in listed
