"""What each head of SmolLM2 looks at in one sentence, and what its removal does to the next word.

The front page of the book lets a visitor accuse heads of having decided; all that it shows is
measured here. A head is removed by zeros in place of its output at every token, or by its mean: the
mean of its output over the other tokens of `OTHERS`, at every token but the first.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlib.pretrained import smollm2
from recipes.cards import result
from recipes.stories import TEMPLATES

PROMPT = "When Mary and John went to the store, John gave a drink to"
OTHERS = tuple(template.format("Anna", "Peter", "Peter") for template in TEMPLATES[1:])
NEXT = (" Mary", " John", " the", " his", " a")  # of the words that come next, those that are shown


@torch.no_grad()
def measured() -> dict[str, Any]:
    """Tokens, weights of the last row (L, H, T), and probabilities before and after removal."""
    lm = smollm2()
    model, ids = lm.model, torch.tensor(lm.encode(PROMPT))
    layers, heads = model.config.layers, model.config.heads
    words = torch.tensor([token for word in NEXT for token in lm.encode(word)])

    def read(tokens: list[int]) -> list[Any]:
        return list(model.run(model.embed(torch.tensor([tokens])), need_weights=True))

    def following(x: Tensor) -> Tensor:
        return model.unembed(model.final_norm(x[:, -1:]))[:, -1].softmax(-1)[:, words]

    states = read(ids.tolist())
    means = torch.zeros(layers, heads, model.config.d_model // heads)
    for text in OTHERS:
        for layer, state in enumerate(read(lm.encode(text))):
            means[layer] += state.z[0, :, 1:].mean(1) / len(OTHERS)
    own = torch.eye(heads, dtype=torch.bool)[:, :, None, None]  # row h: head h is removed
    removed: dict[str, list[Tensor]] = {"zero": [], "mean": []}
    for layer in range(layers):
        x = model.embed(ids[None]) if layer == 0 else states[layer - 1].resid_post
        z = states[layer].z
        mean = means[layer][None, :, None].expand_as(z).clone()
        mean[:, :, 0] = z[:, :, 0]
        for name, instead in (("zero", torch.zeros_like(z)), ("mean", mean)):
            edits = {("z", layer): lambda z, put=instead: torch.where(own, put, z)}
            for state in model.run(x.expand(heads, -1, -1), edits=edits, first=layer):
                last = state.resid_post
            removed[name].append(following(last))
    return {
        "prompt": PROMPT,
        "tokens": [lm.decode([token]) for token in ids.tolist()],
        "next": list(NEXT),
        "before": _rounded(following(states[-1].resid_post)[0]),
        "weights": _rounded(torch.stack([state.pattern[0, :, -1] for state in states])),
        **{name: _rounded(torch.stack(after)) for name, after in removed.items()},
    }


def _rounded(x: Tensor) -> Any:
    return (x.double() * 1e4).round().div(1e4).tolist()


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """Measure, and write the card."""
    return result(name, folder, {"model": smollm2().name} | measured())
