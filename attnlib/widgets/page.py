"""The parts that every widget here shares: text, picture, and a live page without a kernel."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget

from .script import module, script

HERE = Path(__file__).parent
WIDGET = "application/vnd.jupyter.widget-view+json"
VIEW = "application/vnd.attnlib.view+json"

SNIPPET = """<div id="{name}"></div>
<style>{style}</style>
<script type="module">
{script}const state = {state};
const el = document.querySelector("#{name}:not([data-live])");
el.setAttribute("data-live", "");
mount(el, state);
</script>"""


def snippet(state: Mapping[str, Any]) -> str:
    """A view as HTML for any page, given its state: live sliders, no kernel, no network."""
    text = json.dumps(state).replace("<", "\\u003c")
    return SNIPPET.format(
        name=f"attn-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        style=(HERE / "widgets.css").read_text("utf-8"),
        script=script(),
        state=text,
    )


class Shown(anywidget.AnyWidget):
    """A widget that also reads as text and as a picture; a subclass says which state it has."""

    _esm = module()
    _css = HERE / "widgets.css"
    _state: tuple[str, ...] = ()

    def _picture(self) -> tuple[bytes, str] | None:
        """The default picture, a PNG, and its alt text; None where text says it all."""
        return None

    def _text(self) -> str:
        return repr(self)

    def state(self) -> dict[str, Any]:
        """All that the browser needs to show this view, as JSON has it."""
        state = {name: getattr(self, name) for name in self._state}
        state["_blob"] = base64.b64encode(state["_blob"]).decode("ascii")
        return state

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live view, a picture for places without widgets, and text.

        With ATTNLIB_STATIC=1 in the environment the bundle holds the view's `state` instead of the
        widget: the pages of the book are made of it, and need no kernel.
        """
        live = super()._repr_mimebundle_(**kwargs)
        data: dict[str, Any] = dict(live[0] if isinstance(live, tuple) else live or {})
        data["text/plain"] = self._text()
        metadata: dict[str, Any] = {}
        picture = self._picture()
        if picture is not None:
            data["image/png"] = base64.b64encode(picture[0]).decode("ascii")
            metadata["image/png"] = {"alt": picture[1]}
        if os.environ.get("ATTNLIB_STATIC") == "1":
            data.pop(WIDGET, None)
            data[VIEW] = self.state()
        return data, metadata
