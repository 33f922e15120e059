"""Be the adversary: attention that a reader moves from word to word, under a needle."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from .checks import check_numerals, check_strings
from .page import Shown

SLACK = 1e-4  # how far rounding may carry a map beyond ε, or a free direction from 0
ALONG, FREELY = "along the null space", "to and from all words"


class AdversaryView(Shown):
    """A game: move attention, and keep what the model says within ε of what it said.

    Of T words each has a slider for its weight. What one word gains the others lose, in
    proportion to their weights; with `free` the map moves along free directions instead, so that
    the output stays, and no weight falls below 0. The browser computes the moves, the answer or
    the output, and the distance, from the arrays that are passed here. The best maps are computed
    beforehand, and shown when the reader asks for them.

    Args:
        tokens: T words.
        own: the model's own map, (T,), at least 0, with sum 1.
        values: votes (T,), of which the model makes its answer ŷ = σ(Σ_t α_t v_t + bias); or what
            a head writes of each word, (T, d), of which it makes its output Σ_t α_t v_t.
        best: ε -> the best map, (T,). Of ŷ, ε is the largest |Δŷ|; of an output, the largest
            change of one of its d numbers.
        bias: in logits, beside votes.
        free: directions that leave the output as it is, (T, n), as `null_space` finds them.
        lower: the word whose weight is to be as low as possible. Without it the map is to be as
            far as possible from the model's own, by the Jensen–Shannon divergence in nats.
        top: the weight at the end of the sliders.
        start: the ε to begin with. Default: the first.

    Raises:
        ValueError: if shapes do not fit, a map is no map, a best map is not within its ε, or a
            free direction changes the output.

    >>> AdversaryView(["good", "fun"], [0.5, 0.5], [1.0, 1.0], {0.05: [1.0, 0.0]})
    AdversaryView(words=2, ε=[0.05])
    """

    _state = ("_spec", "_blob", "budget", "move", "font")
    _spec = traitlets.Dict().tag(sync=True)
    _blob = traitlets.Bytes().tag(sync=True)  # all is in _spec
    budget = traitlets.Unicode().tag(sync=True)  # ε, as it is written
    move = traitlets.Unicode().tag(sync=True)
    font = traitlets.Int(16, min=10, max=32).tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        own: Any,
        values: Any,
        best: Mapping[float, Any],
        *,
        bias: float = 0.0,
        free: Any = None,
        lower: int | None = None,
        top: float = 1.0,
        start: float | None = None,
    ) -> None:
        words = check_strings("tokens", tokens)
        own_map = _checked_map("own", own, len(words))
        is_answer = torch.as_tensor(values).ndim == 1
        axes = ("word",) if is_answer else ("word", "dimension")
        rows = check_numerals("values", values, axes)
        rows = rows[:, None] if is_answer else rows  # (T, d); d is 1 for votes
        _check_rows("values", rows, len(words))
        if lower is not None and not 0 <= lower < len(words):
            raise ValueError(f"lower must be a word from 0 to {len(words) - 1}, got {lower}")
        if not best:
            raise ValueError("best is empty: give the best map of at least one ε")
        self._budgets = tuple(f"{epsilon:g}" for epsilon in best)
        maps = {}
        for name, (epsilon, other) in zip(self._budgets, best.items(), strict=True):
            best_map = _checked_map(f"best[{name}]", other, len(words))
            shift = _shift(own_map, best_map, rows, bias, is_answer)
            if shift > epsilon + SLACK:
                raise ValueError(
                    f"best[{name}] moves the {'answer' if is_answer else 'output'} by {shift:.3g}, "
                    f"but it may move it by {name} at most"
                )
            maps[name] = _rounded(best_map)
        self._moves = (ALONG, FREELY) if free is not None else (FREELY,)
        super().__init__(
            _spec={
                "kind": "adversary",
                "tokens": list(words),
                "own": _rounded(own_map),
                "values": _rounded(rows),
                "isAnswer": is_answer,
                "bias": float(bias),
                "best": maps,
                "free": None if free is None else _checked_free(free, rows),
                "moves": list(self._moves),
                "lower": lower,
                "top": float(top),
            },
            budget=self._budgets[0] if start is None else f"{start:g}",
            move=self._moves[0],
        )

    @traitlets.validate("budget", "move")
    def _check(self, proposal: Any) -> str:
        name: str = proposal["value"]
        names = self._budgets if proposal["trait"].name == "budget" else self._moves
        if name not in names:
            raise ValueError(f"{proposal['trait'].name} must be one of {names}, got {name!r}")
        return name

    def _text(self) -> str:
        spec = self._spec
        own, lower = torch.tensor(spec["own"]), spec["lower"]
        lines = [repr(self), "", f"the model's own map: {_heaviest(spec['tokens'], own)}"]
        for name, weights in spec["best"].items():
            other = torch.tensor(weights)
            said = f"distance {_divergence(own, other):.2f}"
            if lower is not None:
                before, after = own[lower].item(), other[lower].item()
                said = f"“{spec['tokens'][lower]}” {before:.3f} → {after:.3f}"
            lines.append(f"the best within {name}: {said}; {_heaviest(spec['tokens'], other)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"AdversaryView(words={len(self._spec['tokens'])}, ε=[{', '.join(self._budgets)}])"


def _checked_map(name: str, weights: Any, count: int) -> Tensor:
    """One map (T,) in double precision, with sum 1 to the last digit."""
    row = check_numerals(name, weights, ("word",))
    _check_rows(name, row, count)
    total = row.sum().item()
    if (row < 0).any() or abs(total - 1) > 1e-3:
        raise ValueError(
            f"{name} must be weights of at least 0 with sum 1, got a least weight of "
            f"{row.min():.3g} and the sum {total:.4g}"
        )
    exact = torch.as_tensor(weights, device="cpu").detach().double()
    return exact / exact.sum()


def _checked_free(free: Any, rows: Tensor) -> Any:
    """Free directions (T, n): each sums to 0 and writes nothing."""
    basis = check_numerals("free", free, ("word", "direction"))
    _check_rows("free", basis, len(rows))
    moved = max(basis.sum(0).abs().max().item(), (basis.T @ rows).abs().max().item())
    if moved > SLACK:
        raise ValueError(
            f"a free direction must sum to 0 and leave the output as it is, but one of them is off "
            f"by {moved:.3g}: take null_space of the same values"
        )
    return _rounded(torch.as_tensor(free, device="cpu"))


def _check_rows(name: str, array: Tensor, count: int) -> None:
    if len(array) != count:
        raise ValueError(f"{name} must have a row for each of {count} tokens, got {len(array)}")


def _shift(own: Tensor, other: Tensor, rows: Tensor, bias: float, is_answer: bool) -> float:
    """|Δŷ|, or the largest change of one number of the output."""
    before, after = own @ rows.double() + bias, other @ rows.double() + bias
    if is_answer:
        before, after = before.sigmoid(), after.sigmoid()
    shift: float = (after - before).abs().max().item()
    return shift


def _divergence(p: Tensor, q: Tensor) -> float:
    """The Jensen–Shannon divergence of two maps (T,), in nats: from 0 to ln 2."""
    middle = (p + q) / 2
    sums = [(torch.xlogy(x, x) - torch.xlogy(x, middle)).sum() for x in (p, q)]
    return float(sum(sums)) / 2


def _heaviest(tokens: Sequence[str], weights: Tensor) -> str:
    """The three largest weights above .005, with their words."""
    order = weights.argsort(descending=True)[:3].tolist()
    return ", ".join(f"“{tokens[k]}” {weights[k]:.2f}" for k in order if weights[k] > 0.005)


def _rounded(array: Tensor) -> Any:
    """Nested lists, to seven decimals: a browser needs no more."""
    return (array.double() * 1e7).round().div(1e7).tolist()
