"""Views of attention that work live, on a page without a kernel, and without a browser.

`AttentionView` shows maps under sliders, also maps with a sign; `explore` shows a `Trace`, or lists
of traces with named axes; `Frames` puts a slider over anything prepared beforehand. The drawing is
one plain script, `widgets.js`, with no dependency and no build step.
"""

from .attention_view import AttentionView, explore
from .frames import Frames

__all__ = ["AttentionView", "Frames", "explore"]
