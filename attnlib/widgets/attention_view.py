"""Attention maps under sliders: a heat map, links between tokens, thumbnails of all heads."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import traitlets
from torch import Tensor

from attnlib.plots import strongest
from attnlib.trace import Trace

from . import pictures
from .checks import check_axes, check_index, check_overlay, check_start, flatten
from .maps import Floats, ordinary, prepare
from .page import Shown
from .payload import exact_map, pack


class AttentionView(Shown):
    """Look at attention maps: sliders for every axis, three views, weights on hover.

    More than twelve maps of the last two axes stand beside the one shown, as small pictures; a
    click or the arrow keys choose one. A map is no higher than 60 % of the window, so that its
    sliders stay in sight. Weights are read out with two decimals. Where all of them are too many
    to send (more than 200,000), a page without a kernel knows only the step of a cell's colour,
    1/255 of the map's largest weight, and puts "≈" before it.

    Links of up to four maps lie over one another, each in its colour: the map under the sliders and
    those of `view.overlay`, positions on the last axis. With `numbers`, a click or Enter on a cell
    shows where its weight comes from: the largest terms of q·k, the division by √d_k, and the sum
    of its row, with three digits.

    The sliders live in the browser, so they also work on a page without a kernel. Python sees and
    sets the same state: `view.index = (2, 5)`, `view.mode = "map" | "links" | "heads"`,
    `view.scale = "max" | "one"` (colours up to this map's maximum, or on one scale for all maps),
    `view.unit = "tokens" | "words"`, `view.font` in pixels. Two views can be linked with
    `ipywidgets.jslink((a, "index"), (b, "index"))`.

    Maps of different lengths are given as nested lists, one level for each of the first axes; then
    `tokens`, and `sources` and `word_ids` if there are any, are nested in the same way. What is
    given once stands for all.

    Args:
        weights: (*axes, query, key) of any array kind, or nested lists of such arrays; in 0…1
            unless `signed`. Rows need not sum to 1.
        tokens: the destinations (queries), one string per row of a map.
        sources: the keys, one string per column, where they are not the tokens.
        axes: names of the axes before (query, key); () for a single map.
        labels: axis -> what to call its positions. Default 0, 1, 2, … as in code.
        word_ids: word index of every token (see `attnlib.trace.merge_words`); adds the switch
            between tokens and words.
        numbers: (queries, keys), (*axes, query, d_k) and (*axes, key, d_k), nested as the weights
            are; softmax(q·k / √d_k) must be the weights.
        signed: entries may be negative, and of any size: colours and links tell the sign, and 0 is
            the background. Colours end at ± this map's largest absolute value or, on one scale, at
            that of all maps.
        title: stands above the view.
        start: axis -> position to begin with.
        alt: what the maps show, for those who cannot see them; the position and the strongest
            weight (of either sign) are always added.

    Raises:
        ValueError: if something is missing, out of range, too large for a browser, or does not fit
            the rest.

    >>> AttentionView([[1.0, 0.0], [0.25, 0.75]], ["so", "far"], axes=())
    AttentionView(query=2, key=2)
    """

    _state = ("_spec", "_blob", "index", "overlay", "mode", "scale", "unit", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)
    _shown = traitlets.Bytes().tag(sync=True)
    index = traitlets.Tuple().tag(sync=True)
    overlay = traitlets.Tuple().tag(sync=True)
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
        axes: str | Sequence[str] = ("layer", "head"),
        labels: Mapping[str, Sequence[object]] | None = None,
        word_ids: Sequence[Any] | None = None,
        numbers: Sequence[Any] | None = None,
        signed: bool = False,
        title: str = "",
        start: Mapping[str, int] | None = None,
        alt: str | None = None,
    ) -> None:
        given: dict[str, Any] = {"axes": axes, "labels": labels, "word_ids": word_ids}
        given |= {"sources": sources, "signed": signed, "numbers": numbers}
        self._maps = maps = prepare(weights, tokens, **given)
        self._heading = title
        self._alt = alt or title or ("Map of values" if signed else "Attention map")
        spec, blob = pack(maps)
        spec |= {"kind": "attention", "title": title, "alt": self._alt}
        spec["palette"] = pictures.PALETTES[signed]
        super().__init__(_spec=spec, _blob=blob, index=check_start(start, maps.axes, maps.sizes))
        self._send_exact()

    @traitlets.validate("index")
    def _check_position(self, proposal: Any) -> tuple[int, ...]:
        return check_index(proposal["value"], self._maps.axes, self._maps.sizes)

    @traitlets.validate("overlay")
    def _check_overlay(self, proposal: Any) -> tuple[int, ...]:
        return check_overlay(
            proposal["value"], self._maps.axes, self._maps.sizes, self._maps.signed
        )

    @traitlets.validate("unit")
    def _check_unit(self, proposal: Any) -> str:
        return self._maps.unit(proposal["value"]).name

    @traitlets.observe("index", "unit")
    def _send_exact(self, change: object = None) -> None:
        """Where the exact weights of all maps are too many to embed, send those now shown."""
        if self._spec["units"][0]["exact"] is None:
            self._shown = exact_map(self._maps, self.index, self.unit)

    def show(self, other: "AttentionView") -> None:
        """Show the maps of another view in place of these; sliders and switches stay as they are.

        Raises:
            ValueError: if the other view has not the same axes, or lacks the unit now shown.
        """
        if (other._maps.axes, other._maps.sizes) != (self._maps.axes, self._maps.sizes):
            raise ValueError(f"show needs a view with the axes of {self!r}, got {other!r}")
        other._maps.unit(self.unit)
        self._maps, self._heading, self._alt = other._maps, other._heading, other._alt
        with self.hold_sync():  # one message: the browser never has the new words on the old maps
            self._spec, self._blob = other._spec, other._blob
            self._send_exact()

    @property
    def weights(self) -> Floats:
        """The map now shown, (query, key), a copy."""
        return self._maps.shown(self.index, self.unit)[0].copy()

    def describe(self) -> str:
        """What is now shown in one or two sentences, as its alt text says it."""
        maps, heads = self._maps, self.mode == "heads" and self._maps.axes
        where = maps.where(self.index[:-2] if heads else self.index)
        begin = f"{self._alt}{', ' if where else ''}{where}: "
        if heads:
            sizes = zip(maps.sizes[-2:], maps.axes[-2:], strict=True)
            return f"{begin}all maps side by side, {' × '.join(f'{a} ({n})' for n, a in sizes)}."
        queries, keys = maps.shown(self.index, self.unit)[1:]
        size = f"{len(queries)} destinations (queries) by {len(keys)} sources (keys). "
        over = (
            f" Over it, {maps.axes[-1]} {maps.labels[-1][one[-1]]}: {self._strongest(one)}"
            for one in self._over()
        )
        return begin + size + self._strongest(self.index) + "".join(over)

    def _strongest(self, index: Sequence[int]) -> str:
        values, queries, keys = self._maps.shown(index, self.unit)
        kept, out = ordinary(values, queries, keys)
        told = strongest(kept, queries, keys, self._maps.signed)
        return f"{told[:-1]} ({out} apart)." if out else told

    def _over(self) -> list[tuple[int, ...]]:
        """Where the maps are that lie over the one under the sliders."""
        others = [n for n in self.overlay if n != self.index[-1]] if self.mode == "links" else []
        return [(*self.index[:-1], n) for n in others]

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Write the present view as a PNG picture; no browser is needed."""
        Path(path).write_bytes(self._draw("png"))

    def save_svg(self, path: str | os.PathLike[str]) -> None:
        """Write the present view as an SVG drawing; no browser is needed."""
        Path(path).write_bytes(self._draw("svg"))

    def _draw(self, kind: str) -> bytes:
        return pictures.draw(
            self._maps,
            self.index,
            unit=self.unit,
            mode=self.mode,
            scale=self.scale,
            title=self._heading,
            kind=kind,
            over=self._over(),
        )

    def _title(self) -> str:
        return self._heading or "Attention"

    def _picture(self) -> tuple[bytes, str]:
        return pictures.small(self._draw("png")), self.describe()

    def __repr__(self) -> str:
        unit = self._maps.units[0].weights
        axes = zip((*self._maps.axes, "query", "key"), unit.shape, strict=True)
        return f"AttentionView({', '.join(f'{name}={size}' for name, size in axes)})"


def explore(
    traces: Any,
    tokens: Sequence[str] | None = None,
    *,
    axes: str | Sequence[str] = (),
    numbers: bool = False,
    **options: Any,
) -> AttentionView:
    """A view of everything that one forward pass, or many, attended to.

    `explore(outputs, tokens)` shows what another library returned for one text: its output, its
    tuple of attentions, or an array of them (see `Trace.of`).

    The axes of the view are those of the nested lists, in their order, then "layer" and "head"; of
    these two, one of size 1 is left out, unless there is no other axis. The traces may be of
    different lengths, but must have the same layers and heads.

    Args:
        traces: what a model's `trace` gave, or lists of them, nested once for every name in `axes`;
            with `tokens`, the attentions of any model for one text.
        tokens: of those attentions, one string for each; a trace knows its own.
        axes: names of the levels of lists: "training step", "sentence", …; () for one trace.
        numbers: show on demand where a weight comes from; the traces must have kept their queries
            and keys. They travel with the view: 0.11 MB for MiniLM on 13 tokens, 0.7 MB for SmolLM2
            on 16.
        options: any other argument of `AttentionView`; with `tokens`, `sources` and `word_ids` are
            those of `Trace.of`.

    Raises:
        ValueError: if the nesting is ragged or has no names, the traces do not fit together, lack
            the queries and keys of `numbers`, or attentions of another library are none, or come
            without their tokens.

    >>> import torch
    >>> trace = Trace(("so", "far"), torch.full((2, 4, 2, 2), 0.5))
    >>> explore(trace)
    AttentionView(layer=2, head=4, query=2, key=2)
    >>> short = Trace(("so",), torch.ones(2, 4, 1, 1))
    >>> explore([trace, short, trace], axes=("sentence",))
    AttentionView(sentence=3, layer=2, head=4, query=2, key=2)
    >>> explore((torch.full((1, 4, 2, 2), 0.5),) * 2, ["so", "far"])
    AttentionView(layer=2, head=4, query=2, key=2)
    """
    if tokens is not None:
        known = {name: options.pop(name, None) for name in ("sources", "word_ids")}
        traces = Trace.of(traces, tokens, **known)
    names = check_axes(axes)
    flat = _flat(traces, names)
    kept = [side for side in (0, 1) if any(trace.attention.shape[side] > 1 for trace in flat)]
    kept = kept or [1] * (not names)
    ones = tuple(side for side in (0, 1) if side not in kept)
    given: dict[str, Any] = {"axes": (*names, *(("layer", "head")[side] for side in kept))}
    if any(trace.sources is not None for trace in flat):
        given["sources"] = _each(traces, lambda trace: trace.sources or trace.tokens)
    elif all(trace.word_ids is not None for trace in flat):
        given["word_ids"] = _each(traces, lambda trace: trace.word_ids)
    if numbers:
        given["numbers"] = [_each(traces, _kept(part, ones)) for part in ("queries", "keys")]
    given["title"] = " · ".join(filter(None, (options.pop("title", ""), _cut(flat))))
    maps = _each(traces, lambda trace: trace.attention.squeeze(ones))
    return AttentionView(maps, _each(traces, lambda trace: trace.tokens), **(given | options))


def _flat(traces: Any, names: Sequence[str]) -> list[Trace]:
    """All traces in one list, checked."""
    flat, _ = flatten(traces, names, "traces")
    for trace in flat:
        if not isinstance(trace, Trace):
            raise ValueError(
                f"explore takes traces, in one level of lists for every name in axes={names}; "
                f"got {type(trace).__name__} where a trace should be. What another library "
                "returned needs its tokens, as in explore(outputs, tokens)"
            )
    return flat


def _kept(part: str, ones: tuple[int, ...]) -> Callable[[Trace], Tensor]:
    """Reads the queries or the keys of a trace, without axes of size 1."""

    def read(trace: Trace) -> Tensor:
        found: Tensor | None = getattr(trace, part)
        if found is None:
            raise ValueError(
                f"numbers=True needs traces with {part}, as model.trace(…, keep=('queries', "
                "'keys')) gives them"
            )
        return found.squeeze(ones)

    return read


def _cut(traces: Sequence[Trace]) -> str:
    """What a title says of texts that were longer than their model reads, or ""."""
    cut = [trace for trace in traces if trace.left_out]
    if len(traces) == len(cut) == 1:
        read = len(cut[0].tokens)
        return f"the first {read} of {read + cut[0].left_out:,} tokens"
    return f"{len(cut)} of {len(traces)} texts are cut" if cut else ""


def _each(traces: Any, read: Callable[[Trace], Any]) -> Any:
    """What `read` finds in every trace, nested as the traces are."""
    return read(traces) if isinstance(traces, Trace) else [_each(one, read) for one in traces]
