"""Figures for the chapters. Every one needs `alt`, the text for those who cannot see it.

Matplotlib is imported where it draws, so that importing the library stays quick. Colours are
those of Okabe and Ito; maps go from white to dark, lighter always less. Both survive colour
blindness and print.
"""

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
# 0 is the paper; the same scale as in the widgets
PALETTE = ("#ffffff", "#e0f1e4", "#b5e0d0", "#7fc8c6", "#4aa6bd", "#2b7fae", "#22568f", "#1d2f63")
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
    return Figure(buffer.getvalue(), alt)


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


def heatmap(
    weights: Any,
    destinations: Sequence[str],
    sources: Sequence[str] | None = None,
    *,
    alt: str,
    title: str = "",
    vmax: float | None = 1.0,
    vmin: float = 0.0,
    colorbar: str = "attention weight",
) -> Figure:
    """One map: rows are destinations (queries), columns are sources (keys).

    Args:
        weights: (T_q, T_k).
        destinations: names of the rows.
        sources: names of the columns; the destinations if None.
        alt: what the figure shows, in words.
        title: above the map.
        vmin, vmax: ends of the colour scale; the largest entry if vmax is None.
        colorbar: what the colour means.
    """
    return maps(
        [weights], [title], destinations, sources, alt=alt, vmin=vmin, vmax=vmax, colorbar=colorbar
    )


def maps(
    weights: Any,
    titles: Sequence[str],
    destinations: Sequence[str],
    sources: Sequence[str] | None = None,
    *,
    alt: str,
    vmax: float | None = 1.0,
    vmin: float = 0.0,
    colorbar: str = "attention weight",
) -> Figure:
    """Several maps side by side, on one colour scale. Arguments as in `heatmap`.

    Raises:
        ValueError: if a map does not fit the names of its rows and columns.
    """
    import matplotlib.pyplot as plt

    sources = destinations if sources is None else sources
    arrays = [_array(w).astype(float) for w in weights]
    expected = (len(destinations), len(sources))
    fits = all(array.shape == expected for array in arrays) and len(arrays) == len(titles)
    if not arrays or not fits:
        raise ValueError(
            f"need one title and one {expected} map each, got {len(titles)} titles and maps of "
            f"{[array.shape for array in arrays]}"
        )
    vmax = max(array.max() for array in arrays) if vmax is None else vmax
    width, height = 1.6 + 0.42 * len(sources), 1.4 + 0.38 * len(destinations)
    columns = min(len(arrays), 4)
    rows = -(-len(arrays) // columns)
    fig, grid = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained"
    )
    for axes in grid.flat[len(arrays) :]:
        axes.axis("off")
    for axes, array, title in zip(grid.flat, arrays, titles, strict=False):
        image = axes.imshow(array, vmin=vmin, vmax=vmax, cmap=colours())
        axes.set_title(title)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xticks(range(len(sources)), [_label(s) for s in sources], rotation=60, ha="left")
        axes.set_yticks(range(len(destinations)), [_label(s) for s in destinations])
        axes.set_xlabel("source (key)")
    for axes in grid[:, 0]:
        axes.set_ylabel("destination (query)")
    fig.colorbar(image, ax=grid.ravel().tolist(), label=colorbar, shrink=0.8)
    return show(fig, alt)


def colours() -> Any:
    """The palette of the maps as a matplotlib colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", PALETTE)


def _axes(title: str, xlabel: str, ylabel: str) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    return fig, axes


def _array(values: Any) -> np.ndarray[Any, Any]:
    """An array of whatever holds numbers, also of a tensor that still has its gradient."""
    return np.asarray(values.detach().float().cpu() if hasattr(values, "detach") else values)


def _label(token: str) -> str:
    """A token as an axis label: no mathematics, white space that can be seen."""
    return token.replace("$", r"\$").replace("\n", "↵").replace("\t", "⇥").replace(" ", "·")
