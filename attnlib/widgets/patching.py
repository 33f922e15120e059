"""Drag the patch: boxes of a clean run, pulled into a corrupted run, and what each brings back."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from .checks import check_axes, check_numerals, check_strings
from .typed import Typed


class Patching(Typed):
    """A game with activation patching: a needle shows what a patch brings back.

    A reader pulls boxes of the clean run into the corrupted run, and the corrupted run becomes a
    heat map of what was tried. Nothing is computed in the browser but the logit difference from a
    share: all patches were measured beforehand.

    Args:
        shares: what is put back -> shares of the difference that come back, (layers, places); 0 is
            the corrupted run, 1 the clean run.
        runs: the texts of the clean and of the corrupted run.
        difference: the logit difference of the clean and of the corrupted run, in logits.
        answers: the two words whose logits are compared.
        positions: what is put back -> the tokens that are its places, where the residual stream is
            patched before each layer and after the last. Of all others the places are heads.
        what: is put back to begin with. Default: the first.

    Raises:
        ValueError: if shares are not finite numbers with two axes, if there are not as many
            positions as places, or if `what` is none of the names.

    >>> Patching({"a head's output": [[0.1, 0.7]]}, ("John gave", "Anna gave"), (6.1, 0.9),
    ...          ("Mary", "John"))
    Patching(a head's output=1×2)
    """

    _state = (*Typed._state, "what")
    what = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        shares: Mapping[str, Any],
        runs: tuple[str, str],
        difference: tuple[float, float],
        answers: tuple[str, str],
        positions: Mapping[str, Sequence[str]] | None = None,
        what: str = "",
    ) -> None:
        positions = positions or {}
        self._names = check_axes(tuple(shares))
        for name in positions:
            if name not in shares:
                raise ValueError(f"positions name {name!r}, but what is put back is {self._names}")
        super().__init__(
            _spec={
                "kind": "patching",
                "title": "Pull boxes of the clean run into the corrupted run",
                "runs": _pair("runs", runs),
                "difference": [float(x) for x in _pair("difference", difference)],
                "answers": _pair("answers", answers),
                "maps": [packed(name, shares[name], positions.get(name)) for name in self._names],
            },
            what=what or self._names[0],
        )

    @traitlets.validate("what")
    def _check(self, proposal: Any) -> str:
        name: str = proposal["value"]
        if name not in self._names:
            raise ValueError(f"what is put back must be one of {self._names}, got {name!r}")
        return name

    def _text(self) -> str:
        clean, corrupted = self._spec["runs"]
        lines = [repr(self), "", f"clean run: {clean}", f"corrupted run: {corrupted}"]
        for one_map in self._spec["maps"]:
            places, shares = one_map["places"], one_map["shares"]
            largest = sorted(range(len(shares)), key=lambda k: -abs(shares[k]))[:5]
            said = [
                f"layer {k // len(places)} · {places[k % len(places)]} {shares[k]:+.2f}"
                for k in largest
            ]
            lines.append(f"{one_map['name']} brings back most at {', '.join(said)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        maps = (f"{m['name']}={m['layers']}×{len(m['places'])}" for m in self._spec["maps"])
        return f"Patching({', '.join(maps)})"


def _pair(name: str, values: Sequence[Any]) -> list[Any]:
    """The values of the clean and of the corrupted run."""
    if isinstance(values, str) or len(values) != 2:
        raise ValueError(f"{name} must be two, got {values!r:.60}")
    return list(values)


def packed(name: str, shares: Any, positions: Sequence[str] | None) -> dict[str, Any]:
    """One map as the browser reads it: its shares in thousandths, row by row of a layer."""
    numerals = check_numerals(name, shares, ("layer", "place"))
    layers, count = numerals.shape
    places = [f"head {head}" for head in range(count)]
    if positions is not None:
        places = [token.strip() for token in check_strings("positions", positions)]
    if len(places) != count:
        raise ValueError(f"{name!r} has {count} places, but {len(places)} positions")
    return {
        "name": name,
        "isStream": positions is not None,
        "layers": layers,
        "places": places,
        "shares": [math.floor(1000 * x + 0.5) / 1000 for x in numerals.flatten().tolist()],
    }
