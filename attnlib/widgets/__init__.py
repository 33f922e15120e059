"""Views of attention that work live, on a page without a kernel, and without a browser.

`AttentionView` shows the maps of one text under sliders; `explore` shows a `Trace`, lists of traces
with named axes, or what another library returned; `TextView` lets the reader type the text;
`Frames` puts a slider over anything prepared beforehand; `Predict` asks for a prediction, and shows
the truth beside it; `Suspects` and `Patching` are games with the heads of a model, and
`AdversaryView` is one with the weights of one map. What the browser draws is written in plain
modules of JavaScript, without a dependency; `widgets.js` is the first to read.
"""

from .adversary import AdversaryView
from .attention_view import AttentionView, explore
from .frames import Frames
from .patching import Patching
from .predict import Predict
from .suspects import Suspects
from .text_view import TextView

__all__ = [
    "AdversaryView",
    "AttentionView",
    "Frames",
    "Patching",
    "Predict",
    "Suspects",
    "TextView",
    "explore",
]
