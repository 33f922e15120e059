"""The same views without a browser: PNG and SVG by matplotlib, imported when first used."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlib.plots import COLOURS, PALETTE, SIGNED, colours, visible

from .maps import Floats, Maps

# Lightness is strictly monotone away from 0, so safe for every kind of colour vision.
# 0 is the background: white on a light page, near black on a dark one.
DARK = ("#14171c", "#1f2a44", "#24436d", "#24648c", "#2b8899", "#55ad98", "#a2cf92", "#f4efa6")
DARK_SIGNED = (
    *("#ffc07a", "#ee983f", "#c97222", "#964f18", "#613317", "#3a2219", "#14171c"),
    *("#172b44", "#1b4370", "#2262a3", "#3a88cf", "#66acec", "#9dccff"),
)
PALETTES = {
    False: {"light": list(PALETTE), "dark": list(DARK)},
    True: {"light": list(SIGNED), "dark": list(DARK_SIGNED)},
}
FEW = 30  # labels of an axis on which not all fit: labels are what takes long to draw
Names = Sequence[str]
INK, LINE, BELOW = "#1b1f24", "#22568f", "#a34a10"
SMALL = 60_000  # bytes: the fallback picture is stored in every executed notebook


def draw(
    maps: Maps,
    index: Sequence[int],
    *,
    unit: str = "tokens",
    mode: str = "map",
    scale: str = "max",
    title: str = "",
    kind: str = "png",
    over: Sequence[Sequence[int]] = (),
) -> bytes:
    """The map, the links or the thumbnails at `index`, as the bytes of a PNG or an SVG file.

    Links of the maps at `over` lie over them, in colours of their own.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    settings: Any = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "attnlib"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a token may be in any script
        heads = mode == "heads" and maps.axes
        where = maps.where(index[:-2] if heads else index)
        if mode == "links":
            draw_links(figure, maps, (index, *over), unit, scale)
        else:
            one = draw_heads if heads else draw_map
            one(figure, maps, index, unit, scale)
        if heading := " · ".join(part for part in (title, where) if part):
            figure.suptitle(heading)
        target = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(target, format=kind, dpi=110, metadata=metadata, facecolor="white")
    return target.getvalue()


def short(token: str) -> str:
    """A token as drawn, cut to a width that fits beside the map."""
    shown = visible(token)
    return shown if len(shown) <= 16 else shown[:15] + "…"


def shade(axes: Any, values: Floats, end: float, signed: bool, interpolation: str) -> Any:
    """The cells of one map, in colours that end at `end` and, if signed, at −`end`."""
    least, palette = -end if signed else 0, colours(signed)
    return axes.imshow(values, palette, vmin=least, vmax=end, interpolation=interpolation)


def draw_legend(figure: Any, axes: Any, end: float, own: bool) -> None:
    """What the colours of a signed view mean; `own`: every map has an end of its own."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(-end, end), colours(signed=True))
    bar = figure.colorbar(scale, ax=axes, shrink=0.6, label="value")
    top = "max" if own else f"{end:.3g}"
    bar.set_ticks([-end, 0, end], labels=[f"−{top}", "0", top])


def draw_map(figure: Any, maps: Maps, index: Sequence[int], unit: str, scale: str) -> None:
    """A heat map with every label that fits."""
    values, queries, keys = maps.shown(index, unit)
    end = maps.end(values, unit, scale)
    rows, columns = values.shape
    cell = min(0.42, 7.5 / max(rows, columns))
    figure.set_size_inches(max(3.4, columns * cell + 2.4), max(2.2, rows * cell + 1.7))
    axes = figure.subplots()
    image = shade(axes, values, end, maps.signed, "nearest")
    size = max(7.0, min(11.0, cell * 50))
    for axis, tokens in ((axes.xaxis, keys), (axes.yaxis, queries)):
        step = 1 if size <= 60 * cell else -(-len(tokens) // FEW)
        axis.set_ticks(range(0, len(tokens), step), [short(t) for t in tokens[::step]])
    axes.tick_params(
        labelsize=size, length=0, top=True, labeltop=True, bottom=False, labelbottom=False
    )
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="left", va="bottom", rotation_mode="anchor")
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source (key)")
    axes.set_ylabel("destination (query)")
    if maps.signed:
        draw_legend(figure, axes, end, own=False)
    else:
        figure.colorbar(image, ax=axes, shrink=0.6, label="weight")


def lines_of(values: Floats, end: float, hue: str) -> Any:
    """The links of one map, as wide as the weight is large; those below 0 have their own hue."""
    from matplotlib.collections import LineCollection

    share = np.clip(values / end, -1, 1)
    ends = np.argwhere(abs(share) >= 0.01)
    ends = ends[np.argsort(abs(share[tuple(ends.T)]))][-2000:]
    lines, strength = [[(0, i), (1, j)] for i, j in ends], share[tuple(ends.T)]
    look: Any = {"linewidths": 5 * abs(strength), "alpha": abs(strength) if lines else None}
    return LineCollection(lines, colors=np.where(strength < 0, BELOW, hue), **look)


def draw_links(
    figure: Any, maps: Maps, shown: Sequence[Sequence[int]], unit: str, scale: str
) -> None:
    """Lines from destinations (left) to sources (right) of one map, or of several in colours."""
    values, queries, keys = maps.shown(shown[0], unit)
    step = min(0.3, 9 / max(values.shape))
    figure.set_size_inches(5.5, max(values.shape) * step + 1)
    axes = figure.subplots()
    for place, (index, hue) in enumerate(zip(shown, (LINE, *COLOURS[1:4]), strict=False)):
        one = maps.shown(index, unit)[0]
        axes.add_collection(lines_of(one, maps.end(one, unit, scale), hue))
        if len(shown) > 1:
            name, x = f"{maps.axes[-1]} {maps.labels[-1][index[-1]]}", (place + 0.5) / len(shown)
            axes.text(x, -1.1, name, ha="center", color=hue, weight="bold", fontsize=8)
    size = max(3.0, min(11.0, step * 45))
    for x, side, tokens in ((-0.02, "right", queries), (1.02, "left", keys)):
        for i, token in enumerate(tokens):
            axes.text(x, i, short(token), ha=side, va="center", fontsize=size)
    for x, side, text in ((-0.02, "right", "destination (query)"), (1.02, "left", "source (key)")):
        axes.text(x, -1.1, text, ha=side, color=INK, weight="bold")
    axes.set(xlim=(-0.6, 1.6), ylim=(max(values.shape) - 0.5, -1.6))
    axes.axis("off")
    if maps.signed:
        draw_legend(figure, axes, maps.end(values, unit, scale), own=False)


def draw_heads(figure: Any, maps: Maps, index: Sequence[int], unit: str, scale: str) -> None:
    """Every map of the last two axes as a thumbnail, rows by the first of the two."""
    rows, columns = (1, *maps.sizes)[-2:]
    figure.set_size_inches(max(3.0, columns * 0.8 + 1), rows * 0.8 + 0.8)
    grid = figure.subplots(rows, columns, squeeze=False)
    for r, c in np.ndindex(rows, columns):
        values = maps.shown((*index[:-2], r, c)[-len(maps.axes) :], unit)[0]
        axes = grid[r, c]
        end = maps.end(values, unit, scale)
        shade(axes, values, end, maps.signed, "auto")
        axes.set(xticks=[], yticks=[])
        if r == 0:
            axes.set_title(f"{maps.axes[-1]} {maps.labels[-1][c]}", fontsize=7)
        if c == 0 and len(maps.axes) > 1:
            axes.set_ylabel(f"{maps.axes[-2]} {maps.labels[-2][r]}", fontsize=7)
    if maps.signed:
        draw_legend(figure, grid.ravel().tolist(), end, own=scale == "max")


def small(png: bytes, limit: int = SMALL) -> bytes:
    """The same PNG in at most `limit` bytes: 256 colours, and smaller where that is not enough."""
    from PIL import Image

    whole = Image.open(io.BytesIO(png)).convert("RGB")
    for share in (1.0, 0.75, 0.55, 0.4, 0.25):
        size = (int(whole.width * share), int(whole.height * share))
        target = io.BytesIO()
        whole.resize(size, Image.Resampling.BOX).quantize(256).save(target, "PNG")
        if len(target.getvalue()) <= limit:
            break
    return target.getvalue()
