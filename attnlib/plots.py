"""Figures for the chapters. Every one needs `alt`, the text for those who cannot see it.

Matplotlib is imported where it draws, so that importing the library stays quick. Colours are
those of Okabe and Ito. Maps of weights go from white to dark; maps with a sign go from white to
blue above 0 and to brown below, equally dark on both sides. All survive colour blindness.
"""

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
# 0 is the paper; the same scale as in the widgets
PALETTE = ("#ffffff", "#e0f1e4", "#b5e0d0", "#7fc8c6", "#4aa6bd", "#2b7fae", "#22568f", "#1d2f63")
SIGNED = (
    *("#5f2a06", "#8f3f0a", "#bf5f1c", "#e08b4a", "#f3b98a", "#fbdfc8", "#ffffff"),
    *("#d3e4f4", "#a3c8e8", "#64a3d4", "#2f7cbc", "#1b5a96", "#0e3a68"),
)  # brown: below 0; white: 0; blue: above
WHITESPACE = {" ": "·", "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}
CELL = 0.42  # inches of a cell of a small map
FEW = 30  # names along an axis where not all fit: names are what takes long to draw
LINE_STYLES = ["-", "--", "-.", ":"]


class Figure:
    """A finished picture with its alternative text, shown by the notebook as a PNG.

    Attributes:
        png: the picture.
        alt: what it shows, in words.
    """

    def __init__(self, png: bytes, alt: str) -> None:
        if len(alt.strip()) < 20:
            raise ValueError(f"alt must say in words what the figure shows, got {alt!r}")
        self.png, self.alt = png, alt.strip()

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {"image/png": self.png, "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt}}


def show(fig: Any, alt: str) -> Figure:
    """Turn any matplotlib figure into a `Figure` and close it.

    Args:
        fig: a `matplotlib.figure.Figure`.
        alt: what it shows, in words.
    """
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    with warnings.catch_warnings():  # a sign that the font lacks is drawn as a box: say no more
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        fig.savefig(buffer, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    plt.close(fig)
    return Figure(_with_few_colours(buffer), alt)


def _with_few_colours(png: io.BytesIO, limit: float = math.inf) -> bytes:
    """The picture with 256 colours of its own, and smaller if it has more bytes than the limit.

    256 colours are less than half the bytes, and nobody sees it.
    """
    from PIL import Image

    picture = Image.open(png).convert("RGB")
    for share in (1.0, 0.75, 0.55, 0.4, 0.25):
        size = (int(picture.width * share), int(picture.height * share))
        smaller = picture.resize(size, Image.Resampling.BOX) if share < 1 else picture
        few = smaller.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        target = io.BytesIO()
        few.save(target, "PNG", optimize=True)
        if len(target.getvalue()) <= limit:
            break
    return target.getvalue()


def lines(
    series: Mapping[str, tuple[Any, Any]],
    *,
    xlabel: str,
    ylabel: str,
    alt: str,
    title: str = "",
    logx: bool = False,
    logy: bool = False,
    marks: Mapping[str, float] | None = None,
) -> Figure:
    """Curves by name, each with its own colour and dash.

    Args:
        series: name → (x, y).
        xlabel, ylabel: of the axes, with units.
        alt: what the figure shows, in words.
        title: above the axes.
        logx, logy: logarithmic axes.
        marks: name → height of a grey horizontal line.
    """
    fig, axes = _axes(title, xlabel, ylabel)
    for index, (name, (x, y)) in enumerate(series.items()):
        style = LINE_STYLES[index % len(LINE_STYLES)]
        marker = "o" if len(x) <= 20 else None
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(_array(x), _array(y), style, color=colour, marker=marker, label=name, linewidth=2)
    for name, height in (marks or {}).items():
        axes.axhline(height, color="0.5", linewidth=1, linestyle=":")
        axes.annotate(
            name, (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom"
        )
    if logx:
        axes.set_xscale("log")
    if logy:
        axes.set_yscale("log")
    if len(series) > 1:
        axes.legend(frameon=False)
    return show(fig, alt)


def bars(
    values: Mapping[str, float],
    *,
    ylabel: str,
    alt: str,
    xlabel: str = "",
    title: str = "",
    errors: Sequence[float] | None = None,
) -> Figure:
    """One bar per name, with its value written above.

    Args:
        values: name → height.
        ylabel, xlabel: of the axes, with units.
        alt: what the figure shows, in words.
        title: above the axes.
        errors: half-length of an error bar for each.
    """
    fig, axes = _axes(title, xlabel, ylabel)
    drawn = axes.bar(list(values), list(values.values()), color=COLOURS[0], yerr=errors, capsize=4)
    axes.bar_label(drawn, fmt="{:.3g}", padding=3)
    axes.margins(y=0.15)
    return show(fig, alt)


def maps(
    weights: Any,
    titles: Sequence[str],
    destinations: Sequence[str],
    sources: Sequence[str] | None = None,
    *,
    alt: str,
    vmax: float | None = 1.0,
) -> Figure:
    """Maps side by side, as many as can be read. Rows are destinations, columns are sources.

    Args:
        weights: one (T_q, T_k) for each title, at least 0.
        titles: what stands above each map.
        destinations: names of the rows.
        sources: names of the columns; the destinations if None.
        alt: what the figure shows, in words.
        vmax: end of the colour scale, one for all; the largest entry if None.

    Raises:
        ValueError: if a map does not fit the names of its rows and columns, or an entry lies
            outside the colour scale.
    """
    import matplotlib.pyplot as plt

    sources = destinations if sources is None else sources
    arrays = _fitting(weights, titles, (len(destinations), len(sources)))
    top = _end_of_scale(arrays, vmax)
    wide = 1.6 + 0.42 * len(sources)
    columns = min(len(arrays), max(1, int(8.4 / wide)))  # those that can be read side by side
    rows = -(-len(arrays) // columns)
    size = (columns * wide, rows * (1.4 + 0.38 * len(destinations)))
    fig, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axes in grid.flat[len(arrays) :]:
        axes.axis("off")
    for axes, array, title in zip(grid.flat, arrays, titles, strict=False):
        image = _draw_map(axes, array, destinations, sources, top)
        axes.set_title(title)
        if not axes.get_subplotspec().is_first_col():
            axes.set_ylabel("")
    fig.colorbar(image, ax=grid.ravel().tolist(), label="attention weight", shrink=0.8)
    return show(fig, alt)


def _fitting(weights: Any, titles: Sequence[str], expected: tuple[int, int]) -> list[Array]:
    arrays = [_array(w).astype(float) for w in weights]
    fits = all(array.shape == expected for array in arrays) and len(arrays) == len(titles)
    if not arrays or not fits:
        raise ValueError(
            f"need one title and one {expected} map each, got {len(titles)} titles and maps of "
            f"{[array.shape for array in arrays]}"
        )
    return arrays


def _end_of_scale(arrays: Sequence[Array], vmax: float | None) -> float:
    least, most = min(a.min() for a in arrays), float(max(a.max() for a in arrays))
    if least < 0:
        raise ValueError(f"an entry is {least:.3g}: weights are at least 0")
    if vmax is not None and most > vmax + 1e-3:
        raise ValueError(f"an entry is {most:.3g}, but the colours end at {vmax}: try vmax=None")
    return (most or 1.0) if vmax is None else vmax


def small_map(
    weights: Any, destinations: Sequence[str], sources: Sequence[str], title: str = ""
) -> bytes:
    """One map of any size as a PNG of at most some 60,000 bytes.

    It stands for a view where no script runs, and is stored in every executed notebook.

    Args:
        weights: (T_q, T_k), at least 0; the colours end at the largest.
        destinations: names of the rows; of many tokens, every few have their name.
        sources: names of the columns.
        title: stands above the map.
    """
    from matplotlib.figure import Figure as Canvas

    array = _array(weights).astype(float)
    rows, columns = array.shape
    cell = min(CELL, 7.5 / max(rows, columns))  # inches
    size = (max(3.4, columns * cell + 2.4), max(2.2, rows * cell + 1.7))
    fig = Canvas(figsize=size, layout="constrained")
    axes = fig.subplots()
    font = max(7.0, min(11.0, 50 * cell))
    every = 1 if font <= 60 * cell else math.ceil(max(rows, columns) / FEW)
    image = _draw_map(axes, array, destinations, sources, array.max() or 1.0, font, every)
    fig.colorbar(image, ax=axes, shrink=0.6, label="weight")
    fig.suptitle(_without_mathematics(title))
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # as in `show`
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        fig.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return _with_few_colours(buffer, limit=60_000)


def _draw_map(
    axes: Any,
    weights: Array,
    destinations: Sequence[str],
    sources: Sequence[str],
    end: float,
    font: float = 10,
    every: int = 1,
) -> Any:
    """The cells of one map, its axes, and every so many names of rows and columns."""
    image = axes.imshow(weights, vmin=0, vmax=end, cmap=colours(), interpolation="nearest")
    for axis, names in ((axes.xaxis, sources), (axes.yaxis, destinations)):
        labels = [_label(name) for name in names[::every]]
        axis.set_ticks(range(0, len(names), every), labels)
    axes.tick_params(
        length=0, labelsize=font, top=True, labeltop=True, bottom=False, labelbottom=False
    )
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="left", va="bottom", rotation_mode="anchor")
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source (key)")
    axes.set_ylabel("destination (query)")
    return image


def colours(signed: bool = False) -> Any:
    """The palette of the maps as a matplotlib colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    anchors, count = (SIGNED, 255) if signed else (PALETTE, 256)  # 255: one of them is exactly 0's
    return LinearSegmentedColormap.from_list("attention", anchors, count)


def visible(token: str) -> str:
    """A token as it is drawn: white space and control characters can be seen.

    >>> visible(" film"), visible("\\n"), visible("")
    ('·film', '↵', '∅')
    """
    shown = "".join(WHITESPACE.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in token)
    return shown or "∅"


def _axes(title: str, xlabel: str, ylabel: str) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return fig, axes


def _array(values: Any) -> Array:
    """An array of whatever holds numbers, also of a tensor that still has its gradient."""
    return np.asarray(values.detach().float().cpu() if hasattr(values, "detach") else values)


def _label(token: str) -> str:
    """A token as an axis label: cut if it is long, and without mathematics."""
    shown = visible(token)
    return _without_mathematics(shown if len(shown) <= 16 else f"{shown[:15]}…")


def _without_mathematics(text: str) -> str:
    """Text as matplotlib draws it sign by sign."""
    return text.replace("$", r"\$")
