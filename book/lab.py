"""The files that `make lab` opens: a stored chapter's views are alive before any cell is run.

JupyterLab shows the HTML of a cell that it trusts. So a chapter whose code is as it was executed
gets its views as HTML when it is opened, and loses them when it is saved: no file holds them.
"""

from typing import Any

from chapter_rules import chapter_paths, side_roads
from chapter_tools import LANGUAGE, kept_views
from ipykernel.ipkernel import IPythonKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from book import ROOT

MARK = "<!-- a stored view, alive until its cell is run -->\n"


def enliven(notebook: Any, views: Any) -> None:
    """Put a chapter's stored views into its outputs, and trust their cells."""
    from attnlib.widgets.page import snippet  # loads torch: not before it is needed

    for cell in notebook["cells"]:
        for number, state in views.get(cell.get("id"), {}).items():
            cell["outputs"][int(number)]["data"]["text/html"] = MARK + snippet(state)
            cell["metadata"]["trusted"] = True


def still(notebook: Any) -> None:
    """Take them out again."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if "".join(output.get("data", {}).get("text/html", "")).startswith(MARK):
                del output["data"]["text/html"]


def is_chapter(path: str) -> bool:
    """Whether a path, as JupyterLab names it, is one of the stored chapters or side roads."""
    return ROOT / path.strip("/") in (*chapter_paths(), *side_roads())


class Chapters(AsyncLargeFileManager):  # type: ignore[misc]  # untyped
    """JupyterLab's files, the chapters' views alive."""

    def should_list(self, name: str) -> bool:
        """Whether the list of files shows this; what views are stored in is for nobody to open."""
        return name != "views" and bool(super().should_list(name))

    async def get(self, path: str, content: bool = True, **options: Any) -> Any:
        model = await super().get(path, content, **options)
        if model.get("content") and is_chapter(path):
            enliven(model["content"], kept_views(ROOT / path.strip("/")) or {})
            # as a kernel tells it: else JupyterLab holds the chapter for changed at once
            model["content"]["metadata"]["language_info"] = IPythonKernel.language_info
        return model

    async def save(self, model: Any, path: str = "") -> Any:
        if model.get("content") and is_chapter(path):
            still(model["content"])
            model["content"]["metadata"]["language_info"] = LANGUAGE
        return await super().save(model, path)
