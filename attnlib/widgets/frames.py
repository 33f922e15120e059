"""A slider over frames prepared beforehand: texts or figures, with or without a kernel."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from .checks import check_axes, check_index, check_labels, check_play, flatten
from .page import Shown


class Frames(Shown):
    """One prepared frame at a time, chosen by one or more sliders.

    Args:
        frames: a list of texts, or of figures with `.png` (bytes) and `.alt` (a non-empty str) as
            `attnlib.plots` makes them; nested lists for more than one slider.
        name: the name of the slider, or one name per level of nesting.
        labels: what stands beside the slider: a list, or a dict axis -> list. Default 0, 1, 2, …
        start: the position to begin with, or one per slider.
        play: the slider that a button *Play* moves to its end; "step", if a slider is called so.

    Raises:
        ValueError: if the nesting is ragged, a frame is of another kind, a figure has no alt text,
            or `play` names no slider.

    >>> Frames(["a b", "a c"], name="temperature", labels=[0.5, 1.0])
    Frames(temperature=2)
    """

    _state = ("_spec", "_blob", "index", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)
    index = traitlets.Tuple().tag(sync=True)
    font = traitlets.Int(16, min=10, max=32).tag(sync=True)

    def __init__(
        self,
        frames: Sequence[Any],
        *,
        name: str | Sequence[str],
        labels: Sequence[object] | Mapping[str, Sequence[object]] | None = None,
        start: int | Sequence[int] = 0,
        play: str | None = None,
    ) -> None:
        self._names = check_axes(name)
        self._flat, self._sizes = flatten(frames, self._names, "frames")
        if labels is not None and not isinstance(labels, Mapping):
            labels = {self._names[0]: labels}
        checked = check_labels(labels or {}, self._names, self._sizes)
        played = check_play(play, self._names)
        axes = [
            {"name": axis, "labels": list(strings), "play": axis == played}
            for axis, strings in zip(self._names, checked, strict=True)
        ]
        blob, entries = pack_frames(self._flat)
        super().__init__(
            _spec={"kind": "frames", "axes": axes, "frames": entries, "packed": True},
            _blob=zlib.compress(blob),
            index=(start,) * len(self._names) if isinstance(start, int) else tuple(start),
        )

    @traitlets.validate("index")
    def _check(self, proposal: Any) -> tuple[int, ...]:
        return check_index(proposal["value"], self._names, self._sizes)

    @property
    def frame(self) -> Any:
        """The frame under the sliders now."""
        place = 0
        for i, size in zip(self.index, self._sizes, strict=True):
            place = place * size + i
        return self._flat[place]

    def _picture(self) -> tuple[bytes, str] | None:
        return None if isinstance(self.frame, str) else (self.frame.png, self.frame.alt)

    def _text(self) -> str:
        return f"{self!r}\n\n{self.frame}" if isinstance(self.frame, str) else repr(self)

    def __repr__(self) -> str:
        sizes = zip(self._names, self._sizes, strict=True)
        return f"Frames({', '.join(f'{name}={size}' for name, size in sizes)})"


def pack_frames(frames: Sequence[Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """The pictures in one piece, and for each frame its text, or its alt text and place."""
    blob = bytearray()
    entries: list[dict[str, Any]] = []
    for i, frame in enumerate(frames):
        if isinstance(frame, str):
            entries.append({"text": frame})
            continue
        png, alt = getattr(frame, "png", None), getattr(frame, "alt", None)
        if not isinstance(png, bytes) or not isinstance(alt, str):
            raise ValueError(
                f"frame {i} must be a text or a figure from attnlib.plots, "
                f"got {type(frame).__name__}"
            )
        if not alt.strip():
            raise ValueError(f"frame {i} is a figure without alt text: say what it shows")
        entries.append({"alt": alt, "png": [len(blob), len(png)]})
        blob.extend(png)
    return bytes(blob), entries
