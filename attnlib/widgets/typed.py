"""A view that takes a text of the reader's own, where a kernel runs that can answer it."""

from collections.abc import Callable
from typing import Any, Self

import traitlets

from .page import Shown

HOW = "Press Enter, and the model reads."


class Typed(Shown):
    """A view with a box for a text; a function makes another view of each text that is typed.

    A page without a kernel has no box: its caption is no part of the state that is stored.
    """

    _state: tuple[str, ...] = ("_spec", "_blob", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)  # all is in _spec
    _caption = traitlets.Unicode().tag(sync=True)
    _said = traitlets.Unicode().tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    font = traitlets.Int(16, min=10, max=32).tag(sync=True)
    _read: Callable[[str], Self] | None = None

    def ask(
        self, text: str, read: Callable[[str], Self], caption: str = "a text of your own"
    ) -> Self:
        """Put a box above this view, and return the view.

        Args:
            text: what stands in the box to begin with.
            read: makes a view of the same kind of a text; its ValueError is shown to the reader,
                and the view stays as it was.
            caption: stands beside the box.
        """
        self.text, self._caption, self._said = text, caption, HOW
        self._read = read
        self.observe(self._follow, "text")
        return self

    def show(self, other: Self) -> None:
        """Show in this place what another view of the same kind holds."""
        self._spec = other._spec

    def _follow(self, change: Any) -> None:
        assert self._read is not None
        try:
            if not change["new"].strip():
                raise ValueError("The box is empty: type a few words, and press Enter.")
            other = self._read(change["new"])
        except ValueError as error:
            self._said = f"{error} (What is shown below is still of the text before.)"
            return
        self.show(other)
        self._said = HOW
