"""A box to type a text into, over the maps of what a model does with it."""

import html
import os
from collections.abc import Callable
from typing import Any

import ipywidgets

from attnlib.trace import Trace

from .attention_view import explore
from .page import VIEW, WIDGET

HOW = "Press Enter, and all maps follow."
EMPTY = "The box is empty: type a few words, and press Enter."
STATIC = (
    "With a running kernel, as in JupyterLab, you can type a text of your own here, and all "
    "maps follow. This page has none, so its maps stay those of the text"
)


class TextView(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """An attention view under a box: a text is typed, and every map follows it.

    It needs a running kernel, where the model is. A text that cannot be shown is answered with a
    sentence under the box, and the maps stay. On a page without a kernel (ATTNLIB_STATIC=1) the
    first text stands fixed, over sliders that move.

    Args:
        trace: a text to its trace, such as `minilm().trace`; a ValueError is shown to the reader.
        text: to begin with.
        max_tokens: a longer text is refused: its map would be too large to read.
        options: of `explore`, such as `start` and `title`.

    Attributes:
        trace: the trace of the text now shown.
        view: the `AttentionView` of it.
        text: the box (`ipywidgets.Text`); setting `text.value` is typing.

    Raises:
        ValueError: if the first text cannot be shown.
    """

    def __init__(
        self, trace: Callable[[str], Trace], text: str, max_tokens: int = 100, **options: Any
    ) -> None:
        self._read = trace
        self._limit = max_tokens
        self._options = options
        self.trace = self._traced(text)
        self.view = explore(self.trace, **options)
        wide = ipywidgets.Layout(width="auto")
        self.text = ipywidgets.Text(
            text, description="your text", continuous_update=False, layout=wide
        )
        self._status = ipywidgets.HTML()
        self._say(HOW)
        self.text.observe(self._follow, "value")
        super().__init__([self.text, self._status, self.view])

    def _traced(self, text: str) -> Trace:
        if not text.strip():
            raise ValueError(EMPTY)
        trace = self._read(text)
        if len(trace.tokens) > self._limit:
            raise ValueError(f"This text has more than {self._limit} tokens: make it shorter.")
        return trace

    def _follow(self, change: Any) -> None:
        try:
            trace = self._traced(change["new"])
            self.view.show(explore(trace, **self._options))
        except ValueError as error:
            self._say(f"{error} The maps below are still those of the text before.")
            return
        self.trace = trace
        self._say(HOW)

    def _say(self, sentence: str) -> None:
        self._status.value = f'<span role="status">{html.escape(sentence)}</span>'

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live box and view; the view's picture and text for places without widgets."""
        data, metadata = self.view._repr_mimebundle_(**kwargs)
        if os.environ.get("ATTNLIB_STATIC") == "1":
            data[VIEW]["told"] = f"{STATIC} “{self.text.value}”"
        else:
            data[WIDGET] = super()._repr_mimebundle_(**kwargs)[WIDGET]
        return data, metadata
