"""What tests of views share: a page that holds one view, and its parts."""

from pathlib import Path
from typing import Any

from attnlib.widgets.page import snippet

PIXELS = "canvas => canvas.toDataURL()"
# A page that may load nothing, light or dark as the reader has it.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>A view</title>
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


def opened(page: Any, folder: Path, view: Any) -> None:
    """A view on a page of its own, opened from the disk."""
    path = folder / "view.html"
    path.write_text(PAGE.replace("BODY", snippet(view.state())), "utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(".attn")


def parts(scope: Any) -> tuple[Any, Any, Any]:
    """The sliders, the canvas and the read-out of one view."""
    return tuple(
        scope.locator(name) for name in ("input[type=range]", ".attn-stage > canvas", ".attn-read")
    )


def pressed(canvas: Any, keys: str) -> None:
    """Press arrow keys, named by their first letters; others by their names."""
    names = {name[0]: f"Arrow{name}" for name in ("Up", "Down", "Left", "Right")}
    for key in keys.split():
        canvas.press(names.get(key, key))


def check_sliders_move_pixels(scope: Any) -> None:
    """Both sliders, by keyboard: every step gives another picture and another read-out value."""
    sliders, canvas, read = parts(scope)
    assert sliders.count() >= 2
    seen = [(canvas.evaluate(PIXELS), read.inner_text())]
    for i in range(2):
        slider = sliders.nth(i)
        before = int(slider.input_value())
        key = "ArrowRight" if before < int(slider.get_attribute("max")) else "ArrowLeft"
        slider.focus()
        slider.press(key)
        assert int(slider.input_value()) == before + (1 if key == "ArrowRight" else -1)
        seen.append((canvas.evaluate(PIXELS), read.inner_text()))
    assert len({pixels for pixels, _ in seen}) == 3
    assert len({text for _, text in seen}) == 3


def say(ask: Any) -> None:
    """Press the button that commits an answer."""
    ask.get_by_role("button", name="Answer", exact=True).click()
