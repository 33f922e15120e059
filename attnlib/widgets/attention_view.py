"""Attention maps under sliders: a heat map, links between tokens, thumbnails of all heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from attnlib.plots import PALETTE, small_map
from attnlib.trace import Trace

from .checks import check_axes, check_index, check_opened, check_play, check_start
from .maps import Floats, Maps, has_sink, maps_of_array, strongest
from .page import Shown
from .payload import DARK, exact_map, pack
from .traces import is_encoder_decoder, maps_of, stacks


class AttentionView(Shown):
    """Look at attention maps: sliders for every axis, three views, weights on hover.

    More than twelve maps of the last two axes stand beside the one shown or below it, as small
    pictures; a click or the arrow keys choose one. A map is no higher than 60 % of the window, so
    that its sliders stay in sight. Where the first token of a causal map takes more than half of
    the attention of all others, its column and its links are left out, and the colours end at the
    largest weight besides; a switch shows them.

    Weights are read out with two decimals. Where all of them are too many to send (more than
    200,000), a page without a kernel knows only the step of a cell's colour, 1/255 of the map's
    largest weight, and puts "≈" before it.

    Links of up to four maps lie over one another, each in its colour: the map under the sliders
    and those of the last axis that are chosen in the view. With `numbers`, a click or Enter on a
    cell shows where its weight comes from: the largest terms of q·k, the division by √d_k, and the
    sum of its row, with three digits.

    The sliders live in the browser, so they also work on a page without a kernel. With one, Python
    sees and sets where they stand: `view.index = (2, 5)`. Two views are linked with
    `ipywidgets.jslink((a, "index"), (b, "index"))`.

    Args:
        weights: (*axes, query, key), an array of any library on any device; in 0…1. Rows need not
            sum to 1. Maps of several texts are put together by `explore`.
        tokens: the destinations (queries), one string for each row of a map.
        sources: the keys, one string for each column, where they are not the tokens.
        axes: names of the axes before (query, key); () for a single map.
        labels: axis → what to call its positions. Default 0, 1, 2, … as in code.
        numbers: queries (*axes, query, d_k) and keys (*axes, key, d_k); softmax(q·k / √d_k) must be
            the weights.
        title: stands above the view.
        start: axis → position to begin with.
        alt: what the maps show, for those who cannot see them; the position and the strongest
            weight are always added.
        opened: with `numbers`, the cell (row, column) whose numbers are shown at first.
        play: the axis that a button *Play* moves to its end; "step", if an axis is called so.
        sink: show the first token also where it takes more than half of the attention.

    Raises:
        ValueError: if something is missing, out of range, too large for a browser, or does not fit
            the rest.

    >>> AttentionView([[1.0, 0.0], [0.25, 0.75]], ["so", "far"], axes=())
    AttentionView(query=2, key=2)
    """

    _state = ("_spec", "_blob", "index", "overlay", "mode", "scale", "sink", "unit", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)
    _shown = traitlets.Bytes().tag(sync=True)
    index = traitlets.Tuple().tag(sync=True)
    # What the reader chooses in the browser, and finds again when the maps change:
    overlay = traitlets.Tuple().tag(sync=True)
    mode = traitlets.Enum(("map", "links", "heads"), "map").tag(sync=True)
    scale = traitlets.Enum(("max", "one"), "max").tag(sync=True)
    sink = traitlets.Enum(("out", "shown"), "out").tag(sync=True)
    unit = traitlets.Enum(("tokens", "words"), "tokens").tag(sync=True)
    font = traitlets.Int(15, min=10, max=32).tag(sync=True)

    def __init__(
        self,
        weights: Any,
        tokens: Sequence[str] = (),
        *,
        sources: Sequence[str] | None = None,
        axes: str | Sequence[str] = ("layer", "head"),
        labels: Mapping[str, Sequence[object]] | None = None,
        numbers: tuple[Any, Any] | None = None,
        title: str = "",
        start: Mapping[str, int] | None = None,
        alt: str | None = None,
        opened: tuple[int, int] | None = None,
        play: str | None = None,
        sink: bool = False,
    ) -> None:
        if isinstance(weights, Maps):  # as `explore` puts them together
            maps = weights
        else:
            maps = maps_of_array(
                weights, tokens, sources=sources, axes=axes, labels=labels, numbers=numbers
            )
        self._maps = maps
        self._title = title
        self._alt = alt or title or "Attention map"
        description, blob = pack(maps, check_play(play, maps.axes))
        about: dict[str, Any] = {"kind": "attention", "title": title, "alt": self._alt}
        size = maps.units[0].weights.shape[-2:]
        about["opened"] = check_opened(opened, maps.numbers is not None, size)
        palette = {"light": list(PALETTE), "dark": list(DARK)}
        super().__init__(
            _spec=description | about | {"palette": palette},
            _blob=blob,
            index=check_start(start, maps.axes, maps.sizes),
            sink="shown" if sink else "out",
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
            self._shown = exact_map(self._maps, self.index, self.unit)

    def show(self, other: "AttentionView") -> None:
        """Show the maps of another view in place of these; sliders and switches stay as they are.

        Raises:
            ValueError: if the other view has not the same axes, or lacks the unit now shown.
        """
        if (other._maps.axes, other._maps.sizes) != (self._maps.axes, self._maps.sizes):
            raise ValueError(f"show needs a view with the axes of {self!r}, got {other!r}")
        other._maps.unit(self.unit)
        self._maps, self._title, self._alt = other._maps, other._title, other._alt
        with self.hold_sync():  # one message: the browser never has the new words on the old maps
            self._spec, self._blob = other._spec, other._blob
            self._send_exact()

    @property
    def weights(self) -> Floats:
        """The map under the sliders, (query, key), a copy."""
        return self._maps.at(self.index, self.unit)[0].copy()

    def describe(self) -> str:
        """The map under the sliders in two sentences: its alt text."""
        weights, queries, keys = self._maps.at(self.index, self.unit)
        name = ", ".join(filter(None, (self._alt, self._maps.where(self.index))))
        size = f"{len(queries)} destinations (queries) by {len(keys)} sources (keys)"
        return f"{name}: {size}. {strongest(weights, queries, keys)}"

    def _picture(self) -> tuple[bytes, str]:
        weights, queries, keys = self._maps.at(self.index, self.unit)
        titles = [self._title, self._maps.where(self.index)]
        if self.sink == "out" and has_sink(weights, queries, keys):
            weights = weights.copy()
            weights[:, 0] = 0
            titles.append("the first token left out")
        return small_map(weights, queries, keys, " · ".join(filter(None, titles))), self.describe()

    def __repr__(self) -> str:
        sizes = self._maps.units[0].weights.shape
        axes = zip((*self._maps.axes, "query", "key"), sizes, strict=True)
        return f"AttentionView({', '.join(f'{name}={size}' for name, size in axes)})"


def explore(
    traces: Any,
    tokens: Sequence[str] | None = None,
    *,
    sources: Sequence[str] | None = None,
    word_ids: Sequence[int | None] | None = None,
    axes: str | Sequence[str] = (),
    labels: Mapping[str, Sequence[object]] | None = None,
    title: str = "",
    start: Mapping[str, int] | None = None,
    alt: str | None = None,
    play: str | None = None,
    sink: bool = False,
) -> AttentionView:
    """A view of everything that one forward pass, or many, attended to.

    `explore(outputs, tokens)` shows what another library returned for one text: its output, its
    tuple of attentions, or an array of them (see `Trace.of`). With `sources`, it shows the encoder,
    the decoder and the attention between them of a model such as T5, BART or Marian, under one
    slider.

    The axes of the view are those of the nested lists, in their order, then "layer" and "head"; of
    these two, one of size 1 is left out, unless there is no other axis. The traces may be of
    different lengths, but must have the same layers and heads.

    Args:
        traces: what a model's `trace` gave, or lists of them, nested once for every name in `axes`;
            with `tokens`, what any model returned for one text. In the lists, pairs of one map
            (query, key) and its tokens may stand in place of the traces; their rows need not sum
            to 1.
        tokens: of that text, one string for each token; a trace knows its own. Of an encoder and a
            decoder, what the decoder read.
        sources: with `tokens`, the keys where they are not the tokens: what the encoder read.
        word_ids: with `tokens`, the word index of each, as for `Trace.of`.
        axes: names of the levels of lists: "training step", "sentence", …; () for one trace.
        labels, title, start, alt, play, sink: as for `AttentionView`.

    Raises:
        ValueError: if the nesting is ragged or has no names, the traces do not fit together, or
            attentions of another library are none, or come without their tokens.

    >>> import torch
    >>> trace = Trace(("so", "far"), torch.full((2, 4, 2, 2), 0.5))
    >>> explore(trace)
    AttentionView(layer=2, head=4, query=2, key=2)
    >>> short = Trace(("so",), torch.ones(2, 4, 1, 1))
    >>> explore([trace, short, trace], axes="sentence")
    AttentionView(sentence=3, layer=2, head=4, query=2, key=2)
    >>> explore([(torch.eye(2), ["so", "far"]), (torch.eye(1), ["so"])], axes="sentence")
    AttentionView(sentence=2, query=2, key=2)
    >>> explore((torch.full((1, 4, 2, 2), 0.5),) * 2, ["so", "far"])
    AttentionView(layer=2, head=4, query=2, key=2)
    """
    names = check_axes(axes)
    named = dict(labels or {})
    nested = traces
    if tokens is not None and is_encoder_decoder(traces):
        nested, axis, positions = stacks(traces, tokens, sources)
        names = (axis,)
        named.setdefault(axis, positions)
    elif tokens is not None:
        nested = Trace.of(traces, tokens, sources, word_ids)
    maps, cut = maps_of(nested, names, named)
    full_title = " · ".join(filter(None, (title, cut)))
    return AttentionView(maps, title=full_title, start=start, alt=alt, play=play, sink=sink)
