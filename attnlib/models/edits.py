"""One way to intervene: which part of a forward pass to replace, and by what.

`edits` is a dictionary. A key is a site, (what, layer); its value is a function that takes what the
model has there, with its batch axis, and returns what stands there instead, of the same shape:

    model(ids, edits={("pattern", 2): torch.zeros_like})      # layer 2 looks at nothing

Ablations, gates, windows, patches and frozen weights are all edits. Nothing in the model changes.
"""

from collections.abc import Callable, Mapping

from torch import Tensor

Edit = Callable[[Tensor], Tensor]
Edits = Mapping[tuple[str, int], Edit]

OF_ATTENTION = ("queries", "keys", "values", "pattern", "mixed")
SITES = {
    "stream": "what layer l reads, (B, T, d_model); l = L is what the last layer leaves",
    "queries": "(B, H, T, d_k), as they meet the keys",
    "keys": "(B, H_kv, S, d_k), likewise",
    "values": "(B, H_kv, S, d_v)",
    "pattern": "attention weights, (B, H, T, S)",
    "mixed": "each head's weighted values, (B, H, T, d_v): its output before W_O",
    "feed_forward": "what the feed-forward block adds, (B, T, d_model)",
} | {f"cross_{name}": "the same of the attention to another text" for name in OF_ATTENTION}


class LayerEdits:
    """The edits of one layer, to be called as edit(what, x): x itself where nothing is asked."""

    def __init__(self, edits: Edits | None, layer: int, prefix: str = "") -> None:
        self.edits, self.layer, self.prefix = edits or {}, layer, prefix

    @property
    def cross(self) -> "LayerEdits":
        """Those of the attention to another text."""
        return LayerEdits(self.edits, self.layer, "cross_")

    def __contains__(self, what: str) -> bool:
        return (self.prefix + what, self.layer) in self.edits

    def __call__(self, what: str, x: Tensor) -> Tensor:
        if what not in self:
            return x
        site = self.prefix + what, self.layer
        y = self.edits[site](x)
        if not isinstance(y, Tensor) or y.shape != x.shape:
            got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(
                f"the edit of {site} must return a tensor of the shape it got, "
                f"{tuple(x.shape)}; it returned {got}"
            )
        return y


def check_edits(edits: Edits, layers: int, cross: bool, feed_forward: bool) -> None:
    """Stop if a model of so many layers has no such site.

    Raises:
        ValueError: names the site, and those there are.
    """
    there = {what for what in SITES if cross or not what.startswith("cross_")}
    there -= set() if feed_forward else {"feed_forward"}
    for site in edits:
        if not (isinstance(site, tuple) and len(site) == 2 and isinstance(site[1], int)):
            raise ValueError(
                f"an edit's key is (what, layer), such as ('pattern', 0); got {site!r}"
            )
        what, layer = site
        if what not in there:
            raise ValueError(f"this model has no site {what!r}; it has {', '.join(sorted(there))}")
        if not 0 <= layer <= layers - (what != "stream"):
            raise ValueError(f"{site}: this model's layers are 0 … {layers - 1}")
