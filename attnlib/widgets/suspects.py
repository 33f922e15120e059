"""Which head decided? Heads to accuse, and what their removal does to the next word."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets
from torch import Tensor

from .checks import check_numerals, check_strings, check_weights
from .typed import Typed

Removal = Callable[[int, int], Any]


class Suspects(Typed):
    """A game: accuse heads, guess what their removal does, and see them among all others.

    Args:
        tokens: of the text, T of them.
        words: that may come next, n tokens; the first is the answer, and stands in the text.
        before: their probabilities, (n,).
        weights: what each head gives each token from the last one, (layers, heads, T).
        removed: the probabilities without each head, by what stands in its place: a name ->
            (layers, heads, n); or a function of layer and head that measures them, (n,), and is
            called when a head is accused: it needs a kernel.

    Raises:
        ValueError: if the answer is not in the text, or shapes do not fit one another.

    >>> Suspects(["When", " Mary"], [" Mary", " a"], [0.9, 0.1], [[[0.2, 0.8]]],
    ...          {"zeros": [[[0.95, 0.05]]]})
    Suspects(layer=1, head=1)
    """

    accused = traitlets.Tuple().tag(sync=True)  # the head that the browser asks about
    _answers = traitlets.Dict().tag(sync=True)  # "layer,head" -> probabilities without it

    def __init__(
        self,
        tokens: Sequence[str],
        words: Sequence[str],
        before: Any,
        weights: Any,
        removed: Mapping[str, Any] | Removal,
    ) -> None:
        tokens, words = check_strings("tokens", tokens), check_strings("words", words)
        if words[0] not in tokens:
            raise ValueError(
                f"the answer {words[0]!r} is none of the tokens, so no head can look at it: give "
                "a text that names the answer"
            )
        rows = check_weights("weights", weights, ("layer",))  # (layers, heads, T)
        layers, heads, _ = rows.shape
        _fit("weights", rows, (layers, heads, len(tokens)))
        probabilities = check_numerals("before", before, ("word",))
        _fit("before", probabilities, (len(words),))
        self._remove: Removal | None = None
        self._words = len(words)
        ways = {}
        if callable(removed):
            self._remove = removed
        else:
            for way, after in removed.items():
                array = check_numerals(way, after, ("layer", "head", "word"))
                _fit(way, array, (layers, heads, len(words)))
                ways[way] = _rounded(array)
        super().__init__(
            _spec={
                "kind": "suspects",
                "tokens": list(tokens),
                "words": list(words),
                "before": _rounded(probabilities),
                "weights": _rounded(rows),
                "removed": ways,
            }
        )
        self.observe(self._answer, "accused")

    def show(self, other: "Suspects") -> None:
        """Show in this place what another view holds, and ask its function."""
        self._remove, self._words = other._remove, other._words
        self._answers = {}
        super().show(other)

    def _answer(self, change: Any) -> None:
        """Measure what happens without the head that is accused."""
        if self._remove is None or not change["new"]:
            return
        layer, head = change["new"]
        after = check_numerals("what `removed` returned", self._remove(layer, head), ("word",))
        _fit("what `removed` returned", after, (self._words,))
        self._answers = {**self._answers, f"{layer},{head}": _rounded(after)}

    def _text(self) -> str:
        spec = self._spec
        answer, head_count = spec["tokens"].index(spec["words"][0]), len(spec["weights"][0])
        word = spec["words"][0].strip()
        looks = [head[answer] for layer in spec["weights"] for head in layer]
        lines = [
            repr(self),
            "",
            f"{''.join(spec['tokens'])} … {word} {spec['before'][0]:.3f}",
            _five(f"look hardest at {word}", looks, head_count, ".2f", -1),
        ]
        for way, after in spec["removed"].items():
            left = [head[0] for layer in after for head in layer]
            lines.append(_five(f"leave {word} least, with {way} instead", left, head_count, ".3f"))
        return "\n".join(lines)

    def __repr__(self) -> str:
        weights = self._spec["weights"]
        return f"Suspects(layer={len(weights)}, head={len(weights[0])})"


def _five(what: str, values: Sequence[float], heads: int, form: str, sign: int = 1) -> str:
    """The five heads with the least values, or with sign −1 with the largest, in a sentence."""
    first = sorted(range(len(values)), key=lambda k: sign * values[k])[:5]
    said = [f"layer {k // heads} · head {k % heads} {values[k]:{form}}" for k in first]
    return f"{what}: {', '.join(said)}"


def _fit(name: str, array: Tensor, shape: tuple[int, ...]) -> None:
    """Stop unless an array has the shape that tokens and words ask for."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")


def _rounded(array: Tensor) -> Any:
    """Nested lists, to four decimals."""
    return (array.double() * 1e4).round().div(1e4).tolist()
