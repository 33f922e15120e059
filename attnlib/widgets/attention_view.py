"""Attention maps under sliders: a heat map, links between tokens, thumbnails of all heads."""

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import traitlets

from ..trace import Trace
from . import pictures
from .page import Shown
from .payload import Floats, check_index, check_start, pack, prepare, visible


class AttentionView(Shown):
    """Look at attention maps: sliders for every axis, three views, exact weights on hover.

    The sliders live in the browser, so they also work on a page without a kernel. Python sees and
    sets the same state: `view.index = (2, 5)`, `view.mode = "map" | "links" | "heads"`,
    `view.scale = "max" | "one"` (colours up to this map's maximum, or up to 1),
    `view.unit = "tokens" | "words"`, `view.font` in pixels. Two views can be linked with
    `ipywidgets.jslink((a, "index"), (b, "index"))`.

    Args:
        weights: (*axes, query, key) in 0…1, of any array kind. Rows need not sum to 1.
        tokens: the destinations (queries), one string per row of a map.
        sources: the keys, one string per column, where they are not the tokens.
        axes: names of the axes before (query, key); () for a single map.
        labels: axis -> what to call its positions. Default 0, 1, 2, … as in code.
        token_axis: the axis along which the tokens change. Then `tokens`, `sources` and `words`
            are lists of lists, and smaller maps are padded with zeros.
        words: word index of every token (see `attnlib.trace.merge_words`); adds the switch
            between tokens and words.
        title: stands above the view.
        start: axis -> position to begin with.
        alt: what the maps show, for those who cannot see them; the position and the strongest
            weight are always added.

    Raises:
        ValueError: if something is missing, out of range, or does not fit the rest.

    >>> AttentionView([[1.0, 0.0], [0.25, 0.75]], ["so", "far"], axes=())
    AttentionView(query=2, key=2)
    """

    _state = ("_spec", "_blob", "index", "mode", "scale", "unit", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)
    _shown = traitlets.Bytes().tag(sync=True)
    index = traitlets.Tuple().tag(sync=True)
    mode = traitlets.Enum(("map", "links", "heads"), "map").tag(sync=True)
    scale = traitlets.Enum(("max", "one"), "max").tag(sync=True)
    unit = traitlets.Enum(("tokens", "words"), "tokens").tag(sync=True)
    font = traitlets.Int(15, min=10, max=32).tag(sync=True)

    def __init__(
        self,
        weights: Any,
        tokens: Sequence[Any],
        *,
        sources: Sequence[Any] | None = None,
        axes: Sequence[str] = ("layer", "head"),
        labels: Mapping[str, Sequence[object]] | None = None,
        token_axis: str | None = None,
        words: Sequence[Any] | None = None,
        title: str = "",
        start: Mapping[str, int] | None = None,
        alt: str | None = None,
    ) -> None:
        self._maps = prepare(
            weights, tokens, sources=sources, axes=axes, labels=labels,
            token_axis=token_axis, words=words,
        )  # fmt: skip
        self._heading, self._alt = title, alt or title or "Attention map"
        spec, blob = pack(self._maps)
        palette = {"light": list(pictures.LIGHT), "dark": list(pictures.DARK)}
        spec |= {"kind": "attention", "title": title, "alt": self._alt, "palette": palette}
        super().__init__(
            _spec=spec, _blob=blob, index=check_start(start, self._maps.axes, self._maps.sizes)
        )
        self._send_exact()

    @traitlets.validate("index")
    def _check_position(self, proposal: Any) -> tuple[int, ...]:
        return check_index(proposal["value"], self._maps.axes, self._maps.sizes)

    @traitlets.validate("unit")
    def _check_unit(self, proposal: Any) -> str:
        return self._maps.unit(proposal["value"]).name

    @traitlets.observe("index", "unit")
    def _send_exact(self, change: object = None) -> None:
        """Where the exact weights of all maps are too many to embed, send those now shown."""
        if self._spec["units"][0]["exact"] is None:
            unit = self._maps.unit(self.unit)
            place = int(np.ravel_multi_index(self.index, self._maps.sizes)) if self.index else 0
            header = struct.pack("<ii", self._maps.units.index(unit), place)
            self._shown = header + unit.weights[self.index].astype("<f4").tobytes()

    @property
    def weights(self) -> Floats:
        """The map now shown, (query, key), a copy."""
        return self._maps.shown(self.index, self.unit)[0].copy()

    def describe(self) -> str:
        """The map now shown in one or two sentences, as its alt text says it."""
        weights, queries, keys = self._maps.shown(self.index, self.unit)
        i, j = np.unravel_index(int(weights.argmax()), weights.shape)
        where = self._maps.where(self.index)
        size = f"{len(queries)} destinations (queries) by {len(keys)} sources (keys)"
        return (
            f"{self._alt}{', ' if where else ''}{where}: {size}. Strongest weight "
            f"{weights[i, j]:.2f}, from “{visible(queries[i])}” to “{visible(keys[j])}”."
        )

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Write the present view as a PNG picture; no browser is needed."""
        Path(path).write_bytes(self._draw("png"))

    def save_svg(self, path: str | os.PathLike[str]) -> None:
        """Write the present view as an SVG drawing; no browser is needed."""
        Path(path).write_bytes(self._draw("svg"))

    def _draw(self, kind: str) -> bytes:
        return pictures.draw(
            self._maps, self.index, unit=self.unit, mode=self.mode, scale=self.scale,
            title=self._heading, kind=kind,
        )  # fmt: skip

    def _title(self) -> str:
        return self._heading or "Attention"

    def _picture(self) -> tuple[bytes, str]:
        return pictures.small(self._draw("png")), self.describe()

    def __repr__(self) -> str:
        unit = self._maps.units[0].weights
        axes = zip((*self._maps.axes, "query", "key"), unit.shape, strict=True)
        return f"AttentionView({', '.join(f'{name}={size}' for name, size in axes)})"


def explore(trace: Trace, **options: Any) -> AttentionView:
    """A view of everything one forward pass attended to.

    Args:
        trace: what a model's `trace` gave.
        options: any argument of `AttentionView`.

    >>> import torch
    >>> explore(Trace(("so", "far"), torch.full((2, 4, 2, 2), 0.5)))
    AttentionView(layer=2, head=4, query=2, key=2)
    """
    given = {"sources": trace.sources, "words": trace.words if trace.sources is None else None}
    return AttentionView(trace.attention, trace.tokens, **(given | options))
