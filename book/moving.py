"""The moving picture of the README: a visitor of the front page accuses three heads.

`python -m book moving` writes docs/moving.webp from the front page in build/book.
"""

import io
from pathlib import Path

from PIL import Image

from book import BUILD, ROOT
from book.printing import browser

ACCUSED = (((24, 4), "less likely"), ((23, 0), "less likely"), ((29, 1), "no different"))


def moving(site: Path = BUILD / "book" / "html", target: Path = ROOT / "docs") -> Path:
    """Write the animation, a frame for each act of the visitor, and return its file."""
    frames = []
    with browser() as started:
        page = started.new_page(viewport={"width": 1000, "height": 1500})
        page.goto((site / "index.html").as_uri())
        game = page.locator(".suspects")
        box = game.bounding_box()
        assert box is not None

        def photographed() -> None:
            # the height that the game has at its end, so that all frames are of one size
            shot = page.screenshot(full_page=True, clip=box | {"height": 1230})
            frames.append(Image.open(io.BytesIO(shot)).convert("RGB"))

        photographed()
        for (layer, head), guess in ACCUSED:
            game.locator(f'[aria-label^="layer {layer} · head {head}:"]').hover()
            photographed()
            game.locator(f'[aria-label^="layer {layer} · head {head}:"]').click()
            photographed()
            game.locator(f'text="{guess}"').click()
            photographed()
    written = target / "moving.webp"
    first, *rest = [*frames, frames[-1], frames[-1]]
    first.save(written, save_all=True, append_images=rest, duration=1400, loop=0, quality=60)
    return written
