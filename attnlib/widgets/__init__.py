"""Views of attention that work live, on a page without a kernel, and without a browser.

`AttentionView` shows maps under sliders, also maps with a sign; `explore` shows a `Trace`, lists
of traces with named axes, or what another library returned; `TextView` lets the reader type the
text; `Frames` puts a slider over anything prepared beforehand. The drawing is one plain script,
`widgets.js`, with no dependency and no build step.
"""

from .attention_view import AttentionView, explore
from .frames import Frames
from .text_view import TextView

__all__ = ["AttentionView", "Frames", "TextView", "explore"]
