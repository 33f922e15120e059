"""The parts that every widget here shares: text, picture, and a live page without a kernel."""

import base64
import hashlib
import html
import json
import os
from pathlib import Path
from typing import Any

import anywidget

HERE = Path(__file__).parent
WIDGET = "application/vnd.jupyter.widget-view+json"
VIEW = "application/vnd.attnlib.view+json"

SHIM = """
async function mount(el, state) { // a view without a kernel: `el` shows `state`
  const listeners = {};
  const model = {
    get: (name) => state[name],
    set(name, value) {
      const before = JSON.stringify(state[name]);
      state[name] = value;
      if (JSON.stringify(value) !== before) for (const f of listeners[`change:${name}`] ?? []) f();
    },
    on(name, f) { (listeners[name] ??= []).push(f); },
    off(name, f) { listeners[name] = (listeners[name] ?? []).filter((g) => g !== f); },
    save_changes() {},
  };
  const text = atob(state._blob), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  state._blob = bytes;
  await render({ model, el });
  return model;
}
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>TITLE</title>
<style>
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1100px; padding: 1rem; color: #1b1f24; background: #fff; }
@media (prefers-color-scheme: dark) { body { color: #e8eaed; background: #14171c; } }
</style>
</head>
<body>
BODY
</body>
</html>
"""


def script() -> str:
    """The drawing as plain JavaScript, with `mount(el, state)` for pages without a kernel."""
    return (HERE / "widgets.js").read_text("utf-8").replace("export default { render };", SHIM)


class Shown(anywidget.AnyWidget):
    """A widget that also reads as text, as a picture and as a page; a subclass says which state."""

    _esm = HERE / "widgets.js"
    _css = HERE / "widgets.css"
    _state: tuple[str, ...] = ()

    def _title(self) -> str:
        return repr(self)

    def _picture(self) -> tuple[bytes, str] | None:
        """The default picture, a PNG, and its alt text; None where text says it all."""
        return None

    def _text(self) -> str:
        return repr(self)

    def state(self) -> dict[str, Any]:
        """All that `widgets.js` needs to show this view, as JSON has it."""
        state = {name: getattr(self, name) for name in self._state}
        state["_blob"] = base64.b64encode(state["_blob"]).decode("ascii")
        return state

    def snippet(self) -> str:
        """This view as HTML for any page: live sliders, no kernel, no network."""
        text = json.dumps(self.state()).replace("<", "\\u003c")
        name = "attn-" + hashlib.sha256(text.encode()).hexdigest()[:12]
        style = (HERE / "widgets.css").read_text("utf-8")
        return (
            f'<div id="{name}"></div>\n<style>{style}</style>\n'
            f'<script type="module">\n{script()}const state = {text};\n'
            f'const el = document.querySelector("#{name}:not([data-live])");\n'
            f'el.setAttribute("data-live", "");\nmount(el, state);\n</script>'
        )

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page of its own: one file, live sliders, no kernel, no network."""
        page = PAGE.replace("TITLE", html.escape(self._title()), 1).replace(
            "BODY", self.snippet(), 1
        )
        Path(path).write_text(page, "utf-8")

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
