"""Views of attention that work live, on a page without a kernel, and without a browser.

`AttentionView` shows the maps of one text under sliders; `explore` shows a `Trace`, lists of traces
with named axes, or what another library returned; `TextView` lets the reader type the text;
`Frames` puts a slider over anything prepared beforehand. What the browser draws is written in plain
modules of JavaScript, without a dependency; `widgets.js` is the first to read.
"""

from .attention_view import AttentionView, explore
from .frames import Frames
from .text_view import TextView

__all__ = ["AttentionView", "Frames", "TextView", "explore"]
