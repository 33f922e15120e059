"""A stored notebook as the pages and the slides show it: figures are files, views are alive."""

import base64
import hashlib
import html
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

Views = Mapping[str, Mapping[str, Any]]


class Assets:
    """The files that the pages of one site share: figures, and the states of views.

    Args:
        folder: where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, data: bytes) -> str:
        """Write a file unless it is there already, and return its name."""
        path = self.folder / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return name

    def picture(self, output: NotebookNode, address: str) -> str:
        """An output's picture as HTML, its alternative text with it."""
        data = base64.b64decode(output.data["image/png"])
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        name = self.write(f"figures/{hashlib.sha256(data).hexdigest()[:16]}.png", data)
        alt = html.escape(output.metadata.get("image/png", {}).get("alt", ""))
        size = f'width="{width}" height="{height}" style="--width: {width}px"'
        return f'<img class="figure" src="{address}/{name}" alt="{alt}" {size} loading="lazy">'

    def view(self, name: str, state: Mapping[str, Any], instead: str, address: str) -> str:
        """A view as HTML: what is shown instead, until a script has loaded its state."""
        text = f"attnView({json.dumps(name)}, {json.dumps(state)});"
        self.write(f"views/{name}.js", text.encode())
        part = state["_spec"].get("part")  # of a prediction
        marked = f' data-part="{part}"' if part else ""
        place = f'data-view="{name}" data-from="{address}/views/{name}.js"{marked}'
        return f'<div class="attn-live" {place}>{instead}</div>'


def with_assets(
    path: Path,
    views: Views | None,
    assets: Assets,
    address: str,
    beside: Callable[[Mapping[str, Any]], str] = lambda state: "",
) -> NotebookNode:
    """The notebook, its pictures and views as HTML that names files.

    Args:
        path: of the notebook.
        views: what is kept of its views; None: their pictures stand for them.
        assets: where the files go.
        address: of the assets, as the page sees them.
        beside: what follows a view, from its state.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            data = output.get("data", {})
            text = html.escape(data.get("text/plain", "").partition("\n\n")[2])
            shown = f"<pre>{text}</pre>" if text else ""
            if "image/png" in data:
                shown = assets.picture(output, address)
            state = (views or {}).get(cell.id, {}).get(str(number))
            if state is not None:
                shown = assets.view(f"{path.stem}-{cell.id}-{number}", state, shown, address)
                shown += beside(state)
            if state is not None or "image/png" in data:
                output.data = NotebookNode({"text/html": shown})
    return notebook
