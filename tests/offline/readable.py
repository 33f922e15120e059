"""A matplotlib backend that refuses a figure whose text is small, cut or covered by other text.

The tests name it in MPLBACKEND, and kernels inherit that: each figure of each chapter is measured
when its cell runs, at the width of the book's column. It is not painted there: nobody would see it.
"""

from itertools import combinations
from typing import Any

from IPython import get_ipython
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

COLUMN = 688  # pixels of the book beside its two bars, at 1280
SMALLEST = 11.5  # pixels; 9 points are 12
COVERED = 0.08  # of the smaller text


def drawn(figure: Any) -> tuple[list[Text], Any]:
    """The texts that a figure really draws, and the renderer that knows where."""
    found: list[Text] = []
    draw = Text.draw

    def record(self: Text, renderer: Any, *more: Any, **others: Any) -> None:
        draw(self, renderer, *more, **others)
        if self.get_visible() and self.get_text().strip():
            found.append(self)

    Text.draw = record  # type: ignore[method-assign]
    try:
        figure.draw_without_rendering()
    finally:
        Text.draw = draw  # type: ignore[method-assign]
    return list(dict.fromkeys(found)), figure.canvas.get_renderer()


def complaints(figure: Any, dpi: float = 110) -> list[str]:
    """What of a figure's text cannot be read at the width of a column.

    Args:
        figure: a `matplotlib.figure.Figure`.
        dpi: dots of the picture to an inch.
    """
    texts, renderer = drawn(figure)
    width = figure.get_tightbbox(renderer).width * dpi
    shown = min(1, COLUMN / width) * dpi / 72  # pixels of a point
    told = [
        f"{text.get_text()!r} is {text.get_fontsize() * shown:.1f} pixels high"
        for text in texts
        if text.get_fontsize() * shown < SMALLEST
    ]
    level = [(t, t.get_window_extent(renderer)) for t in texts if t.get_rotation() % 90 == 0]
    for (one, a), (other, b) in combinations(level, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        least = min(a.width * a.height, b.width * b.height)
        if min(across, down) > 1 and across * down > COVERED * least:
            told.append(f"{one.get_text()!r} and {other.get_text()!r} cover each other")
    return told


class FigureCanvas(FigureCanvasAgg):
    """Agg's, which looks before it draws."""

    def print_figure(self, filename: Any, *more: Any, **settings: Any) -> Any:
        """As Agg does it; in a notebook something small and white.

        Raises:
            AssertionError: what cannot be read.
        """
        told = complaints(self.figure)
        assert not told, "; ".join(told)
        if get_ipython():
            return Image.new("RGB", (8, 8), "white").save(filename, "png")
        self.figure.set_layout_engine("none")  # everything has its place now
        return super().print_figure(filename, *more, **settings)
