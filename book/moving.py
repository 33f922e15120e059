"""The moving picture of the README: a visitor of the front page accuses three heads.

`python -m book moving` writes docs/moving.webp from the front page in build/book.
"""

import io
from pathlib import Path

from PIL import Image

from book import BUILD, ROOT
from book.printing import browser

ACCUSED = (((24, 4), "less likely"), ((23, 0), "less likely"), ((29, 1), "no different"))


def on_paper(frame: Image.Image, size: tuple[int, int]) -> Image.Image:
    """A picture at the top of a white one of so many pixels across and down."""
    paper = Image.new("RGB", size, "white")
    paper.paste(frame)
    return paper


def moving(site: Path = BUILD / "book" / "html", target: Path = ROOT / "docs") -> Path:
    """Write the animation, a frame for each act of the visitor, and return its file."""
    frames = []
    with browser() as started:
        page = started.new_page(viewport={"width": 1000, "height": 1500})
        page.goto((site / "index.html").as_uri())
        game = page.locator(".suspects")

        def photographed() -> None:
            frames.append(Image.open(io.BytesIO(game.screenshot())).convert("RGB"))

        photographed()
        for (layer, head), guess in ACCUSED:
            game.locator(f'[aria-label^="layer {layer} · head {head}:"]').click()
            photographed()
            game.locator(f'text="{guess}"').click()
            photographed()
    written = target / "moving.webp"
    whole = frames[-1].size  # the game grows; all frames are as large as the last
    first, *rest = [on_paper(frame, whole) for frame in frames]
    shown = [2000] * len(rest) + [6000]  # ms; the last holds the conclusion
    first.save(
        written, save_all=True, append_images=rest, duration=shown, loop=0, quality=50, method=6
    )
    return written
