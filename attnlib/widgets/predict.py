"""A prediction that can be answered: a number, a choice, an order, or a curve drawn by hand.

A `Predict` is shown where its question is asked, and `reveal` shows the answer beside the truth
where the truth is computed. What is answered stays in the browser's page and its localStorage, so
that no kernel is needed; with one, it is noted in exercises/predictions.jsonl as well. On a page of
the book and in JupyterLab what follows the question is covered until it is answered or passed over
(predict.js).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import traitlets
from IPython.display import display

from attnlib.check.progress import Prediction, note_prediction, notebook

from .checks import check_strings
from .page import Shown

STEPS = 12  # a curve is drawn by so many steps, unless its axis has fewer whole numbers
Axis = tuple[str, float, float]  # what it measures, and from where to where


class _Part(Shown):
    """What is shown of predictions: a question, a truth, or the table of all so far."""

    _state: tuple[str, ...] = ("_spec", "_blob", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)
    font = traitlets.Int(16, min=10, max=32).tag(sync=True)

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(_spec={"kind": "predict", **spec})


class Predict(_Part):
    """A prediction; make it by `number`, `choice`, `order` or `curve`.

    Attributes:
        answer: what the reader answers, None before: a number, one of the options, all items in
            order, or the height of a curve at every column.
    """

    answer = traitlets.Any(None, allow_none=True).tag(sync=True)
    _made: ClassVar[WeakValueDictionary[str, "Predict"]] = WeakValueDictionary()  # by their labels

    def __init__(self, form: str, label: str, **more: Any) -> None:
        if not isinstance(label, str) or not label.strip():
            raise ValueError(f"a prediction needs a short label in words, got {label!r}")
        self._truth: Truth | None = None
        super().__init__({"part": "ask", "form": form, "label": label, **more})
        self._made.pop(label, None)
        self._made[label] = self

    @classmethod
    def number(
        cls, label: str, low: float, high: float, *, log: bool = False, unit: str = ""
    ) -> "Predict":
        """A number on a line from `low` to `high`: whole if both are and the line is long enough.

        Args:
            label: what the number is, in a few words, unlike every other label of the course.
            low: where the line begins.
            high: where it ends.
            log: whether equal distances are equal ratios.
            unit: stands behind the number, such as "%".

        Raises:
            ValueError: if the line has no length, or holds 0 on a logarithmic scale.
        """
        axis = _axis(("", low, high), log)
        step = 1 if isinstance(low, int) and isinstance(high, int) and high - low >= 10 else 0
        return cls("number", label, axis={**axis, "unit": unit, "step": 0 if log else step})

    @classmethod
    def choice(cls, label: str, options: Sequence[str]) -> "Predict":
        """One of several options.

        Raises:
            ValueError: unless there are two different options or more.
        """
        return cls("choice", label, options=_different(options, "options"))

    @classmethod
    def order(cls, label: str, items: Sequence[str]) -> "Predict":
        """An order of items; the label says from what to what. They begin in alphabetical order.

        Raises:
            ValueError: unless there are two different items or more.
        """
        return cls("order", label, options=sorted(_different(items, "items")))

    @classmethod
    def curve(cls, label: str, *, x: Axis, y: Axis, log: str = "") -> "Predict":
        """A curve over empty axes, drawn column by column.

        Args:
            label: what the curve shows.
            x: the name of the axis, where it begins and where it ends.
            y: likewise.
            log: which of the axes are logarithmic: "x", "y" or "xy".

        Raises:
            ValueError: if an axis has no length, or holds 0 on a logarithmic scale.
        """
        across, up = _axis(x, "x" in log), _axis(y, "y" in log)
        return cls("curve", label, x=across, y=up, columns=_columns(across))

    @traitlets.observe("answer")
    def _pass_on(self, change: Any) -> None:
        """Where each view has a page of its own, as in Colab, they meet in the kernel."""
        if self._truth is not None:
            self._truth.answer = self.answer

    def reveal(self, *truth: Any) -> None:
        """Show the truth, and beside it what was answered.

        Args:
            truth: a number; one of the options; all items in order; or, of a curve, the places
                on the x axis and the heights there, two sequences of one length.

        Raises:
            ValueError: if the truth does not fit the question.
        """
        spec = self._spec
        wanted = 2 if spec["form"] == "curve" else 1
        if len(truth) != wanted:
            raise ValueError(f"reveal takes {wanted} for a {spec['form']}, got {len(truth)}")
        checked = _CHECKS[spec["form"]](spec, *truth)
        self._truth = Truth({**spec, **checked, "part": "truth"})
        self._truth.answer = self.answer
        display(self._truth)  # type: ignore[no-untyped-call]

    @classmethod
    def so_far(cls) -> "SoFar":
        """What was predicted in this notebook beside the truth, and how close it was."""
        return SoFar([made._truth for made in cls._made.values() if made._truth is not None])

    def __repr__(self) -> str:
        return f"Predict({self._spec['label']!r})"


class Truth(_Part):
    """The truth of one prediction, beside the answer."""

    _state = (*_Part._state, "answer")
    answer = traitlets.Any(None, allow_none=True).tag(sync=True)
    close = traitlets.Float(None, allow_none=True).tag(sync=True)  # 0 to 1; the browser measures it

    @traitlets.observe("close")
    def _note(self, change: Any) -> None:
        """Note an answer whose truth is seen."""
        if self.close is not None:
            label, truth = self._spec["label"], self._spec["truth"]
            note_prediction(Prediction(notebook(), label, self.answer, truth, self.close))

    def _text(self) -> str:
        return f"{self!r}\n\n{_sentence({**self._spec, 'answer': self.answer})}"

    def __repr__(self) -> str:
        return f"Predict({self._spec['label']!r}).reveal(…)"


class SoFar(_Part):
    """All truths of a notebook, beside the answers."""

    def __init__(self, truths: Sequence[Truth]) -> None:
        items = [{**truth._spec, "answer": truth.answer} for truth in truths]
        super().__init__({"part": "so_far", "items": items})

    def _text(self) -> str:
        return "\n".join([f"{self!r}\n", *map(_sentence, self._spec["items"])])

    def __repr__(self) -> str:
        return f"Predict({len(self._spec['items'])} so far)"


def _axis(axis: Axis, log: bool) -> dict[str, Any]:
    """An axis as the browser draws it."""
    name, low, high = axis
    low, high = _finite(low, "the start of an axis"), _finite(high, "the end of an axis")
    if not low < high:
        raise ValueError(f"an axis goes from a smaller to a larger number, got {low} to {high}")
    if log and low <= 0:
        raise ValueError(f"a logarithmic axis begins above 0, got {low}")
    return {"name": name, "low": low, "high": high, "log": log}


def _columns(axis: dict[str, Any]) -> list[float]:
    """Where on the x axis a curve is drawn."""
    low, high = axis["low"], axis["high"]
    if axis["log"]:
        return [low * (high / low) ** (i / STEPS) for i in range(STEPS + 1)]
    whole = low == int(low) and high == int(high) and high - low <= STEPS
    steps = int(high - low) if whole and high - low > 1 else STEPS
    return [low + (high - low) * i / steps for i in range(steps + 1)]


def _different(texts: Sequence[str], what: str) -> list[str]:
    """Two different texts or more."""
    strings = check_strings(what, texts)
    if len(strings) < 2 or len(set(strings)) < len(strings):
        raise ValueError(f"the {what} must be two different ones or more, got {list(strings)}")
    return list(strings)


def _finite(number: Any, what: str) -> float:
    """A number of any library as a finite float."""
    try:
        value = float(number)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what} must be a number, got {number!r:.60}") from error
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value}")
    return value


def _widened(axis: dict[str, Any], values: Sequence[float]) -> dict[str, Any]:
    """An axis on which these values have room."""
    if axis["log"] and min(values) <= 0:
        raise ValueError(f"a logarithmic axis shows no {min(values)}: leave out log")
    ends = {"low": min(axis["low"], *values), "high": max(axis["high"], *values)}
    return {**axis, **ends}


def _check_number(spec: dict[str, Any], truth: Any) -> dict[str, Any]:
    value = _finite(truth, "the truth")
    return {"truth": value, "axis": _widened(spec["axis"], [value])}


def _check_choice(spec: dict[str, Any], truth: Any) -> dict[str, Any]:
    if truth not in spec["options"]:
        raise ValueError(f"the truth must be one of {spec['options']}, got {truth!r}")
    return {"truth": truth}


def _check_order(spec: dict[str, Any], truth: Any) -> dict[str, Any]:
    items = [truth] if isinstance(truth, str) else list(truth)
    if sorted(items) != spec["options"]:
        raise ValueError(f"the truth must order {spec['options']}, got {items}")
    return {"truth": items}


def _check_curve(spec: dict[str, Any], places: Any, heights: Any) -> dict[str, Any]:
    xs = [_finite(x, "a place on the x axis") for x in places]
    ys = [_finite(y, "a height") for y in heights]
    if len(xs) != len(ys) or len(xs) < 2:
        raise ValueError(f"a curve needs as many heights as places, got {len(ys)} and {len(xs)}")
    if sorted(set(xs)) != xs:
        raise ValueError(f"the places on the x axis must increase, got {xs}")
    points = [list(point) for point in zip(xs, ys, strict=True)]
    return {"truth": points, "x": _widened(spec["x"], xs), "y": _widened(spec["y"], ys)}


_CHECKS: dict[str, Callable[..., dict[str, Any]]] = {
    "number": _check_number,
    "choice": _check_choice,
    "order": _check_order,
    "curve": _check_curve,
}


def _sentence(item: dict[str, Any]) -> str:
    """A prediction with its answer, if there is one, and its truth."""
    answer = "" if item["answer"] is None else f"you said {_told(item, item['answer'])}; "
    measured = "measured " if item["form"] == "number" else "it is " if answer else ""
    return f"{item['label']}: {answer}{measured}{_told(item, item['truth'])}"


def _told(spec: dict[str, Any], value: Any) -> str:
    """An answer or a truth in words."""
    if spec["form"] == "number":
        return f"{_written(value, spec['axis'])} {spec['axis']['unit']}".strip()
    if spec["form"] == "choice":
        return str(value)
    if spec["form"] == "order":
        return ", ".join(value)
    heights = [point[1] for point in value] if isinstance(value[0], list) else value
    return f"a curve from {_written(heights[0], spec['y'])} to {_written(heights[-1], spec['y'])}"


def _written(value: float, axis: dict[str, Any]) -> str:
    """A number to three digits, and none finer than a thousandth of its axis."""
    if abs(value) >= 1000 or value == int(value):
        return f"{round(value):,}"
    if axis["log"]:
        return f"{value:.3g}"
    decimals = max(0, math.ceil(3 - math.log10(axis["high"] - axis["low"])))
    return f"{round(float(f'{value:.3g}'), decimals) + 0.0:g}"  # + 0.0: no minus before a zero
