"""What a map is in two models of today: the measurements of chapter 14.

SmolLM2 and Gemma 3 read the same reviews. Everything is asked of both by the same functions, so
that the chapter shows Gemma 3's answers where Gemma 3 is not installed. `today` is a card with a
history (`MEASURES`); in the history a name begins with that of its model.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.data import REVIEWS_SHA256, reviews
from attnlib.models import Transformer
from attnlib.pretrained import LanguageModel, gemma3, language_model, smollm2
from recipes.cards import result, rounded, save_history, sweep

PROMPT, NEW = "This film is", 30
MODELS: dict[str, Callable[[], LanguageModel]] = {"smollm2": smollm2, "gemma3": gemma3}
CHARACTERS, CONTEXT = 400, 100  # of a review whose bits are counted, after so many
COUNTED, TEXTS, LONG, SHORT = 40, 12, 900, 256  # reviews and their tokens
NEAR, FAR = (16, 512), 600  # queries that see the first token in each layer; from which on not
LOCAL = 512  # Gemma 3's window
LOUD = 5  # times as long as the median: a massive state
LOUD_LAYER = {"smollm2": 12, "gemma3": 8}  # the layer before which states are measured for it
MOVED_AT = {"smollm2": 12, "gemma3": 6}  # the layer before which a state is put elsewhere
KEPT = {"window": (), "first": (0,), "others": (8, 9, 10, 11)}
WINDOW = 64
MEASURES = """
near, far (texts, L, H): weight on the first token, of queries 16 to 511 and from 600 on, in 12
reviews of 900 tokens. oldest (texts, L): of queries from 600 on, on the token 511 before. loud,
beside (texts, L): the same on all tokens (but the first) whose state is more than five times as
long as the median, and on the tokens before these. beyond (texts, L): the largest weight more than
511 tokens back. value_first, value_loud (texts, L, H_kv): length of the value there over the mean
length of the others. state (texts, L, 3): length of the state after the layer at the first token,
mean at the loud ones, median. q, k (texts, L, heads, 3): length of queries and keys, fifth, middle
and 95th part of a hundred. window_NAME (texts,): added loss of tokens 128 to 255 of 256, if a token
sees itself and the 63 before (window); if the first is among its 64 (first); if tokens 8 to 11 are
(others); if the first token is left out of the text, and the model sees all others (without); whole
is the loss itself. moved (texts, 3, L, 2): weight of queries 40 to 95 on tokens 0 and 30, as it is,
with the state of token 0 put to 30, and that of token 8 put to 30; replaced (texts, L): on token 0,
if it has the state of token 8. profile (2, 900): Gemma 3's weights of the last 60 tokens of the
first review, averaged, in a local and a global layer. reach (L,): how many tokens after an
exchanged one the last state stands that moved.
"""


def long_reviews(lm: LanguageModel, tokens: int, texts: int) -> Tensor:
    """The first so many tokens of test reviews that have as many, (texts, tokens).

    A review that stands there twice is read once, so that there may be fewer texts than asked for.
    """
    rows: list[list[int]] = []
    for text in reviews("imdb").test.texts:
        ids = lm.encode(text) if len(text) > 3 * tokens else []
        if len(ids) >= tokens:
            rows.append(ids[:tokens])
        if len(rows) == texts:
            break
    distinct: Tensor = torch.tensor(rows).unique_consecutive(dim=0)
    return distinct


# --- losses and texts -----------------------------------------------------------------------------


@torch.no_grad()
def bits_per_byte(lm: LanguageModel, text: str) -> float:
    """Of what stands between CONTEXT and CHARACTERS; the tokens before are given."""
    ids = torch.tensor(lm.encode(text[:CHARACTERS]))
    vocab = cast(Any, lm.tokenizer).vocab
    sizes = torch.tensor([len(vocab[i]) for i in ids.tolist()])
    counted = (sizes.cumsum(0) - sizes >= CONTEXT)[1:]  # tokens that begin after the context
    nats = F.cross_entropy(lm.model(ids[None])[0, :-1], ids[1:], reduction="none")
    bits = nats[counted].sum() / torch.tensor(2.0).log()
    return float(bits / sizes[1:][counted].sum())


def written(lm: LanguageModel) -> dict[str, Any]:
    """The bits per byte of COUNTED reviews, and how a model continues PROMPT."""
    texts = [text for text in reviews("imdb").test.texts if len(text) > CHARACTERS]
    return {
        "bits_per_byte": rounded([bits_per_byte(lm, text) for text in texts[:COUNTED]]),
        "texts": [lm.generate(PROMPT, NEW, seed=seed) for seed in (0, 1, 2)],
    }


# --- where the weight goes ------------------------------------------------------------------------


@torch.no_grad()
def sinks(lm: LanguageModel, name: str, ids: Tensor) -> dict[str, Tensor]:
    """Weights on the first token and on massive states, in a text (LONG,)."""
    model = lm.model
    states = list(model.run(model.embed(ids[None])))
    length = states[LOUD_LAYER[name]].resid_pre[0].norm(dim=-1)
    loud = length > LOUD * length.median()
    loud[0] = False
    queries = torch.arange(FAR, LONG)
    back = torch.arange(LONG)[:, None] - torch.arange(LONG)
    rows: dict[str, list[Tensor]] = {key: [] for key in _SINKS}
    for state in model.run(model.embed(ids[None]), need_weights=True):
        assert state.pattern is not None
        A = state.pattern[0]
        far = A[:, FAR:]
        rows["near"].append(A[:, slice(*NEAR), 0].mean(1))
        rows["far"].append(far[..., 0].mean(1))
        rows["oldest"].append(A[:, queries, queries - LOCAL + 1].mean())
        rows["loud"].append(far[..., loud].sum(-1).mean())
        rows["beside"].append(far[..., loud.roll(-1)].sum(-1).mean())
        rows["beyond"].append(A[:, back >= LOCAL].max())
        value, stream = state.v[0].norm(dim=-1), state.resid_post[0].norm(dim=-1)
        usual = value[:, 1:][:, ~loud[1:]].mean(1)
        rows["value_first"].append(value[:, 0] / usual)
        rows["value_loud"].append(value[:, loud].mean(1) / usual)
        rows["state"].append(torch.stack([stream[0], stream[loud].mean(), stream.median()]))
        for part in "qk":
            sizes = getattr(state, part)[0, :, 1:].norm(dim=-1).float()
            shares = torch.tensor([0.05, 0.5, 0.95])
            rows[part].append(sizes.quantile(shares, dim=1).T)
    measured = {key: torch.stack(values).nan_to_num() for key, values in rows.items()}
    return measured | {"loud_positions": loud.nonzero()[:, 0]}


_SINKS = (
    *("near", "far", "oldest", "loud", "beside", "beyond"),
    *("value_first", "value_loud", "state", "q", "k"),
)


@torch.no_grad()
def profile(lm: LanguageModel, ids: Tensor) -> Tensor:
    """Weights of the last 60 tokens, averaged with the heads, in layers 13 and 11: (2, LONG)."""
    rows = {}
    for state in lm.model.run(lm.model.embed(ids[None]), need_weights=True):
        if state.layer in (11, 13):
            assert state.pattern is not None
            rows[state.layer] = state.pattern[0, :, -60:].mean((0, 1))
    return torch.stack([rows[13], rows[11]])


@torch.no_grad()
def reach(lm: LanguageModel, ids: Tensor, changed: int = 5) -> Tensor:
    """How far behind an exchanged token of a text (T,) states move, by layer, (L,)."""
    other = ids.clone()
    other[changed] = ids[changed + 7]
    runs = (lm.model.run(lm.model.embed(x[None])) for x in (ids, other))
    last = []
    for a, b in zip(*runs, strict=True):
        moved = (a.resid_post != b.resid_post)[0].any(-1).nonzero()[:, 0]
        last.append(moved.max() - changed)
    return torch.stack(last)


# --- what a token may see, and what it costs ------------------------------------------------------


def nats(model: Transformer, ids: Tensor, first: int, **settings: Any) -> Tensor:
    """The mean loss of the tokens of texts (B, T) from position `first` on, (B,)."""
    hidden = model.hidden(ids, **settings)[:, first - 1 : -1]
    rows = zip(hidden, ids[:, first:], strict=True)  # row by row: a vocabulary is large
    return torch.stack([F.cross_entropy(model.unembed(row), target) for row, target in rows])


def only(allowed: Tensor, layers: int) -> dict[tuple[str, int], Callable[[Tensor], Tensor]]:
    """Edits: weights outside `allowed` (T, T) are 0, and the rest of a row is shared out."""

    def share(A: Tensor) -> Tensor:
        A = A * allowed
        return A / A.sum(-1, keepdim=True)

    return {("pattern", layer): share for layer in range(layers)}


@torch.no_grad()
def windows(lm: LanguageModel, ids: Tensor) -> dict[str, Tensor]:
    """By how much the loss of a text (SHORT,) rises when tokens see less."""
    model, T, layers = lm.model, len(ids), lm.model.config.layers
    position = torch.arange(T)
    back = position[:, None] - position
    masks = {}
    for name, kept in KEPT.items():
        near = (back >= 0) & (back < WINDOW - len(kept))
        masks[name] = near | ((back >= 0) & torch.isin(position, torch.tensor(kept)))
    whole = nats(model, ids[None], T // 2)
    added = {
        f"window_{name}": nats(model, ids[None], T // 2, edits=only(mask, layers)) - whole
        for name, mask in masks.items()
    }
    without = nats(model, ids[None, 1:], T // 2 - 1) - whole
    return added | {"window_without": without, "window_whole": whole}


@torch.no_grad()
def moved(lm: LanguageModel, name: str, ids: Tensor) -> dict[str, Tensor]:
    """Whether a sink goes with its state, in a text of 96 tokens."""
    model, layer = lm.model, MOVED_AT[name]

    def put(x: Tensor, source: int, target: int) -> Tensor:
        x = x.clone()
        x[:, target] = x[:, source]
        return x

    def weights(edits: Any = None) -> Tensor:
        states = model.run(model.embed(ids[None]), need_weights=True, edits=edits)
        maps = [state.pattern for state in states if state.pattern is not None]
        return torch.stack([A[0, :, 40:][..., (0, 30)].mean((0, 1)) for A in maps])

    site = ("resid_pre", layer)
    plain = weights()
    sink, usual, gone = (
        weights({site: partial(put, source=source, target=target)})
        for source, target in ((0, 30), (8, 30), (8, 0))
    )
    return {"moved": torch.stack([plain, sink, usual]), "replaced": gone[:, 0]}


# --- all of it ------------------------------------------------------------------------------------


def measures_of(name: str) -> dict[str, Any]:
    """All that is measured of a model."""
    lm = MODELS[name]()
    rows: dict[str, list[Tensor]] = {}
    massive = []
    for ids in long_reviews(lm, LONG, TEXTS):
        row = sinks(lm, name, ids)
        positions = row.pop("loud_positions").tolist()
        massive.append([[position, lm.decode([int(ids[position])])] for position in positions])
        for key, values in row.items():
            rows.setdefault(key, []).append(values)
    for ids in long_reviews(lm, SHORT, TEXTS):
        for key, values in (windows(lm, ids) | moved(lm, name, ids[:96])).items():
            rows.setdefault(key, []).append(values.squeeze())
    tensors = {key: torch.stack(values) for key, values in rows.items()}
    if name == "gemma3":
        tensors["profile"] = profile(lm, long_reviews(lm, LONG, 1)[0])
        tensors["reach"] = reach(lm, long_reviews(lm, LONG, 2).flatten())
    return {
        "tensors": {f"{name}_{key}": rounded(x, 6) for key, x in tensors.items()},
        "about": written(lm) | {"loud": massive},
    }


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """Measure both models, and write card and history; an interrupted call goes on."""
    del steps
    measured: dict[str, Tensor] = {}
    about: dict[str, Any] = {"reviews-gpt": written(language_model())}
    for model, row in zip(MODELS, sweep(name, folder, list(MODELS), measures_of), strict=True):
        about[model] = row["about"]
        measured |= {key: torch.tensor(values) for key, values in row["tensors"].items()}
    stored = save_history(name, measured, folder)
    facts = {
        "data": {"source": "imdb", "split": "test", "sha256": REVIEWS_SHA256},
        "models": about,
        "history": stored,
        "measures": " ".join(MEASURES.split()),
    }
    return result(name, folder, facts)
