"""The same views without a browser: PNG and SVG by matplotlib, imported when first used."""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlib.plots import PALETTE, colours

from .payload import Floats, Maps, visible

# Sequential, lightness strictly monotone, so safe for every kind of colour vision.
# 0 is the background: white on a light page, near black on a dark one.
LIGHT = PALETTE
DARK = ("#14171c", "#1f2a44", "#24436d", "#24648c", "#2b8899", "#55ad98", "#a2cf92", "#f4efa6")
Names = Sequence[str]
INK, LINE = "#1b1f24", "#22568f"
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
    dpi: int = 110,
) -> bytes:
    """The map, the links or the thumbnails at `index`, as the bytes of a PNG or an SVG file."""
    import matplotlib
    from matplotlib.figure import Figure

    weights, queries, keys = maps.shown(index, unit)
    heading = " · ".join(part for part in (title, maps.where(index)) if part)
    figure = Figure(layout="constrained")
    settings: Any = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "attnlib"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a token may be in any script
        if mode == "heads" and maps.axes:
            draw_heads(figure, maps, index, unit, scale, title)
        elif mode == "links":
            draw_links(figure, weights, queries, keys, scale, heading)
        else:
            draw_map(figure, weights, queries, keys, scale, heading)
        target = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(target, format=kind, dpi=dpi, metadata=metadata, facecolor="white")
    return target.getvalue()


def top(weights: Floats, scale: str) -> float:
    """The weight that gets the darkest colour."""
    return 1.0 if scale == "one" or not weights.any() else float(weights.max())


def short(token: str) -> str:
    """A token as drawn, cut to a width that fits beside the map."""
    shown = visible(token)
    return shown if len(shown) <= 16 else shown[:15] + "…"


def draw_map(
    figure: Any, weights: Floats, queries: Names, keys: Names, scale: str, title: str
) -> None:
    """A heat map with every label that fits."""
    rows, columns = weights.shape
    cell = min(0.42, 7.5 / max(rows, columns))
    figure.set_size_inches(max(3.4, columns * cell + 2.4), max(2.2, rows * cell + 1.7))
    axes = figure.subplots()
    image = axes.imshow(weights, cmap=colours(), vmin=0, vmax=top(weights, scale), aspect="equal",
                        interpolation="nearest")  # fmt: skip
    size = max(7.0, min(11.0, cell * 50))
    for axis, tokens in ((axes.xaxis, keys), (axes.yaxis, queries)):
        step = max(1, int(np.ceil(size / 60 / cell)))
        axis.set_ticks(range(0, len(tokens), step), [short(t) for t in tokens[::step]])
    axes.tick_params(labelsize=size, length=0, top=True, labeltop=True, bottom=False,
                     labelbottom=False)  # fmt: skip
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="left", va="bottom", rotation_mode="anchor")
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source (key)")
    axes.set_ylabel("destination (query)")
    figure.colorbar(image, ax=axes, shrink=0.6, label="weight")
    if title:
        figure.suptitle(title)


def draw_links(
    figure: Any, weights: Floats, queries: Names, keys: Names, scale: str, title: str
) -> None:
    """Lines from destinations (left) to sources (right), as wide as the weight is large."""
    from matplotlib.collections import LineCollection

    step = min(0.3, 9 / max(weights.shape))
    figure.set_size_inches(5.5, max(weights.shape) * step + 1)
    axes = figure.subplots()
    share = weights / top(weights, scale)
    strongest = np.argsort(share, axis=None)[-2000:]
    chosen = [(i, j) for i, j in zip(*np.unravel_index(strongest, share.shape), strict=True)
              if share[i, j] >= 0.01]  # fmt: skip
    lines = [[(0.0, float(i)), (1.0, float(j))] for i, j in chosen]
    strength = np.array([min(1.0, float(share[i, j])) for i, j in chosen])
    axes.add_collection(LineCollection(lines, colors=LINE, linewidths=5 * strength, alpha=strength))
    size = max(3.0, min(11.0, step * 45))
    for x, side, tokens in ((-0.02, "right", queries), (1.02, "left", keys)):
        for i, token in enumerate(tokens):
            axes.text(x, i, short(token), ha=side, va="center", fontsize=size)
    axes.text(-0.02, -1.1, "destination (query)", ha="right", color=INK, weight="bold")
    axes.text(1.02, -1.1, "source (key)", ha="left", color=INK, weight="bold")
    axes.set(xlim=(-0.6, 1.6), ylim=(max(weights.shape) - 0.5, -1.6))
    axes.axis("off")
    if title:
        figure.suptitle(title)


def draw_heads(
    figure: Any, maps: Maps, index: Sequence[int], unit: str, scale: str, title: str
) -> None:
    """Every map of the first two axes as a thumbnail, rows by the first axis."""
    flat = len(maps.axes) == 1
    rows, columns = (1, maps.sizes[0]) if flat else maps.sizes[:2]
    across = maps.axes[0 if flat else 1], maps.labels[0 if flat else 1]
    figure.set_size_inches(max(3.0, columns * 0.8 + 1), rows * 0.8 + 0.8)
    grid = figure.subplots(rows, columns, squeeze=False)
    for r, c in np.ndindex(rows, columns):
        weights = maps.shown((c,) if flat else (r, c, *index[2:]), unit)[0]
        axes = grid[r, c]
        axes.imshow(weights, cmap=colours(), vmin=0, vmax=top(weights, scale))
        axes.set(xticks=[], yticks=[])
        if r == 0:
            axes.set_title(f"{across[0]} {across[1][c]}", fontsize=7)
        if c == 0 and not flat:
            axes.set_ylabel(f"{maps.axes[0]} {maps.labels[0][r]}", fontsize=7)
    if title:
        figure.suptitle(title)


def small(png: bytes, limit: int = SMALL) -> bytes:
    """The same PNG in at most `limit` bytes: 256 colours, and smaller where that is not enough."""
    from PIL import Image

    whole = Image.open(io.BytesIO(png)).convert("RGB")
    for share in (1.0, 0.75, 0.55, 0.4, 0.25):
        size = (int(whole.width * share), int(whole.height * share))
        target = io.BytesIO()
        whole.resize(size, Image.Resampling.BOX).quantize(256).save(target, "PNG", optimize=True)
        if len(target.getvalue()) <= limit:
            break
    return target.getvalue()
