"""The moving picture of the README: a slider is moved, and the map follows it.

`python -m book moving` writes docs/moving.webp from the page of chapter 00 in build/book.
"""

import io
from pathlib import Path

from PIL import Image

from book import BUILD, ROOT
from book.printing import browser

STEPS = (*["ArrowRight"] * 5, "Tab", *["ArrowLeft"] * 6)  # over the layers, then over the heads


def moving(site: Path = BUILD / "book" / "html", target: Path = ROOT / "docs") -> Path:
    """Write the animation, one frame for each step of a slider, and return its file."""
    frames = []
    with browser() as started:
        page = started.new_page(viewport={"width": 1000, "height": 1100})
        page.goto((site / "chapters" / "00_start_here.html").as_uri())
        view = page.locator(".attn-live").first
        view.scroll_into_view_if_needed()
        view.locator(".attn-read q").first.wait_for()
        slider = view.locator("input[type=range]").first
        slider.fill("0")
        slider.focus()
        for step in ("", *STEPS):
            if step:
                page.keyboard.press(step)
            shot = Image.open(io.BytesIO(view.screenshot()))
            frames.append(shot.convert("RGB"))
    written = target / "moving.webp"
    first, *rest = frames
    first.save(written, save_all=True, append_images=rest, duration=700, loop=0, quality=60)
    return written
