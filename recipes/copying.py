"""Heads that look at the digit to be copied, and what two models write without them: chapter 10.

SmolLM2 and Gemma 3 read the code of a safe, then other sentences, and write the code again. A
head's **score** is how often, at the four tokens before the digits, its largest weight lies on the
very digit that comes next (the retrieval score of Wu et al. 2025). Heads are ranked on some prompts
and ablated on others: at these four tokens such a head then writes its mean over the first
prompts. The control takes as many other heads of the same layers. `copying` is a card without a
history.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnlib.models import KVCache, Transformer
from attnlib.pretrained import LanguageModel, gemma3, smollm2
from recipes.cards import result, rounded, sweep

MODELS: dict[str, Callable[[], LanguageModel]] = {"smollm2": smollm2, "gemma3": gemma3}
THINGS = (
    *("The film was long.", "The room was dark.", "The music was loud.", "The coffee was cold."),
    *("The street was wet.", "The train was late.", "The story was good.", "The night was warm."),
    *("The house was old.", "The window was open."),
)
BETWEEN, DIGITS = 5, 4
RANKED_ON, REPORTED = 30, 60  # prompts
MOVED = (2, 8)  # sentences in between, by which the digits are nearer or farther
MOVED_ON = 20
TAKEN = (1, 2, 4, 8)  # heads, from the first of the ranking on
SPARED = 12  # the first of the ranking, which are never taken as a control
DRAWS = 5
Head = tuple[int, int]


# --- prompts ------------------------------------------------------------------------------------


def prompts(count: int, seed: int, sentences: int = BETWEEN) -> list[tuple[str, str]]:
    """Texts that end before a code, and the code; in between stand so many sentences.

    >>> text, code = prompts(1, 0)[0]
    >>> text[:29], text[-20:], code
    ('The code of the safe is 6902.', ' safe with the code ', '6902')
    """
    rng, drawn = random.Random(seed), []
    for _ in range(count):
        code = "".join(rng.sample("0123456789", DIGITS))
        between = " ".join(rng.sample(THINGS, sentences))
        text = f"The code of the safe is {code}. {between} She opened the safe with the code "
        drawn.append((text, code))
    return drawn


class Asked(NamedTuple):
    """A batch of prompts with their codes, read up to the last five tokens.

    Attributes:
        ids: (B, T); the last four are the code.
        sources: where the digits of the code stand in the text, (B, 4).
        before: a cache of all tokens but the last five.
    """

    ids: Tensor
    sources: Tensor
    before: KVCache

    @property
    def queries(self) -> Tensor:
        """The tokens before the digits, (B, 4)."""
        return self.ids[:, -DIGITS - 1 : -1]


@torch.no_grad()
def read(lm: LanguageModel, drawn: Sequence[tuple[str, str]]) -> Asked:
    """Read prompts, whose digits must be tokens of their own."""
    rows: list[list[int]] = []
    sources: list[list[int]] = []
    for text, code in drawn:
        row = lm.encode(text + code)
        digits = [i for i, token in enumerate(lm.tokenizer.tokens(row)) if token.isdigit()]
        if len(digits) != 2 * DIGITS:
            raise ValueError(f"a token for each digit was expected, got {len(digits)} in {text!r}")
        rows.append(row)
        sources.append(digits[:DIGITS])
    ids = torch.tensor(rows)
    before = KVCache(lm.model.config.layers)
    lm.model.hidden(ids[:, : -DIGITS - 1], cache=before)
    return Asked(ids, torch.tensor(sources), before)


def cache_of(asked: Asked) -> KVCache:
    """The cache of the prompts, to go on with."""
    before = KVCache(len(asked.before.keys))
    before.keys[:], before.values[:] = asked.before.keys, asked.before.values
    return before


# --- heads --------------------------------------------------------------------------------------


@torch.no_grad()
def looked_up(model: Transformer, asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    """Each head's score and mean weight on the digit that comes next, (L, H), and its mean z.

    The mean is over the prompts, one for each of the four tokens: (L, H, 4, d_v).
    """
    x = model.embed(asked.queries, asked.before.length)
    scores, weights, means = [], [], []
    for state in model.run(x, cache=cache_of(asked), need_weights=True):
        assert state.pattern is not None
        wanted = asked.sources[:, None, :, None].expand(-1, state.pattern.shape[1], -1, 1)
        weights.append(state.pattern.gather(-1, wanted).float().mean((0, 2, 3)))
        hits = state.pattern.argmax(-1) == asked.sources[:, None]
        scores.append(hits.float().mean((0, 2)))
        means.append(state.z.mean(0))
    return torch.stack(scores), torch.stack(weights), torch.stack(means)


@torch.no_grad()
def right_digits(
    model: Transformer, asked: Asked, heads: Iterable[Head], means: Tensor
) -> list[int]:
    """How many of the four digits are right, while some heads write their means.

    A digit is right if it is the most probable token after the right digits before it. All four are
    right exactly if the greedy continuation is the code.
    """
    edits = {}
    for layer in {layer for layer, _ in heads}:
        taken = [head for at, head in heads if at == layer]

        def put(z: Tensor, layer: int = layer, taken: list[int] = taken) -> Tensor:
            z = z.clone()
            z[:, taken] = means[layer, taken]
            return z

        edits["z", layer] = put
    x = model.embed(asked.queries, asked.before.length)
    for state in model.run(x, cache=cache_of(asked), edits=edits):
        x = state.resid_post
    said = model.unembed(model.final_norm(x)).argmax(-1)
    return [int(n) for n in (said == asked.ids[:, -DIGITS:]).sum(1)]


def others(taken: list[Head], spared: list[Head], heads: int, rng: random.Random) -> list[Head]:
    """As many heads of each layer, none of them among the first of the ranking."""
    drawn: list[Head] = []
    for layer in sorted({layer for layer, _ in taken}):
        wanted = sum(at == layer for at, _ in taken)
        free = [(layer, head) for head in range(heads) if (layer, head) not in spared]
        drawn += rng.sample(free, min(wanted, len(free)))
    return drawn


# --- all of it ----------------------------------------------------------------------------------


def measures_of(name: str) -> dict[str, Any]:
    """All that is measured of a model."""
    lm = MODELS[name]()
    config, drawn = lm.model.config, prompts(RANKED_ON + REPORTED, 0)
    scores, weights, means = looked_up(lm.model, read(lm, drawn[:RANKED_ON]))
    order = scores.flatten().argsort(descending=True, stable=True).tolist()
    ranking = [divmod(head, config.heads) for head in order]
    asked, rng = read(lm, drawn[RANKED_ON:]), random.Random(1)

    def without(heads: list[Head]) -> list[int]:
        return right_digits(lm.model, asked, heads, means)

    taken = {count: without(ranking[:count]) for count in TAKEN}
    control: dict[int, list[dict[str, Any]]] = {}
    for count in TAKEN:
        sets = [others(ranking[:count], ranking[:SPARED], config.heads, rng) for _ in range(DRAWS)]
        control[count] = [{"heads": heads, "right": without(heads)} for heads in sets]
    moved = {}
    for sentences in MOVED:
        rows = read(lm, prompts(MOVED_ON, 2, sentences))
        there = looked_up(lm.model, rows)[0]
        moved[sentences] = [there[head].item() for head in ranking[:SPARED]]
    return {
        "ranking": ranking[:SPARED],
        "scores": rounded(scores),
        "weights": rounded(weights),
        "moved": rounded(moved),
        "as it is": without([]),
        "without": taken,
        "others": control,
    }


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """Measure both models, and write the card; an interrupted call goes on."""
    del steps
    measured = sweep(name, folder, list(MODELS), measures_of)
    facts = {
        "data": {"source": "prompts of the recipe", "ranked on": RANKED_ON, "reported": REPORTED},
        "models": dict(zip(MODELS, measured, strict=True)),
        "measures": "ranking: the first heads by score. moved: their scores where the code stands "
        "nearer or farther, by sentences in between. as it is, without, others: how many of the "
        "four digits of each reported prompt are right; all four if the code is written",
    }
    return result(name, folder, facts)
