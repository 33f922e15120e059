"""What the heads of SmolLM2 do for an answer, over many prompts: the measurements of chapter 15.

Two people are named, one of them gives something "to", and the answer is the other. A prompt has
four forms: the two names in both orders, and either gives. Its counterpart has a third name in the
giver's place: then nothing tells which of the two is meant. Only the last token is patched, so
all before it is read once and kept in a cache. `causes` is a card with a history (`MEASURES`).
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attnlib.models import KVCache, Transformer
from attnlib.pretrained import LanguageModel, smollm2
from recipes.cards import result, rounded, save_history, sweep

TEMPLATES = (  # the first half is for choosing, the second for reporting
    "When {} and {} went to the store, {} gave a drink to",
    "After {} and {} met at the park, {} handed a flower to",
    "While {} and {} were at work, {} sent a letter to",
    "Before {} and {} left the office, {} gave the keys to",
    "Then {} and {} had a long talk, and {} told a secret to",
    "The day {} and {} visited the museum, {} showed a picture to",
    "Once {} and {} arrived at the school, {} offered an apple to",
    "As {} and {} walked along the river, {} lent an umbrella to",
    "Because {} and {} were old friends, {} wrote a poem for",
    "At the party with {} and {}, {} brought a cake for",
    "When {} and {} sat in the kitchen, {} passed the salt to",
    "Yesterday {} and {} were playing in the garden when {} threw the ball to",
)
PAIRS = (  # of the first half of the templates, of the second
    ("Mary John", "Anna Peter", "Sarah David", "Emma James", "Laura Mark"),
    ("Alice George", "Helen Henry", "Susan Daniel", "Kate Paul", "Julia Tom"),
)
WORDS, REPEATED, TEXTS = 12, 8, 60  # of an induction text: words, how many of them again; texts
FIRST = 10  # heads are exchanged one by one from this layer on, those before all at once
RECEIVERS = ((23, 0), (23, 3), (24, 4))  # whose queries are listened to
STREAM = (0, 6, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)  # layers at which the stream is restored
MEASURES = """
right (240,): is the answer the likeliest of all tokens; clean, corrupted (240,): the difference of
the two names' logits. lens (240, 31, 3): ranks of the answer, of the other name and of one that
does not occur, in what the stream would say after each layer. weight (240, 270, 3): from the last
token to the answer, to the other name and to the giver. direct (240, 270): direct logit
attribution. gradient (240, 270): of the corrupted run, times what the clean one has more. Then by
how much the difference changes. restore (240, 180): a head of layers 10 to 29 writes at the last
token of the corrupted run what it wrote in the clean one; early (240,): all before do. In a quarter
of the prompts, in the clean run (60, 180): break (what it wrote in the corrupted one), zero, mean
(of the template), unrelated (of another template with other names); to_L_H (60, senders): heads
of layers 10 to L - 1 are restored in the queries of one; stream (60, 12, 3): the stream, before the
layers of STREAM, at the giver, between, at the last token. induction_*: the same of 60 texts that
repeat, the weight that on the word which followed.
"""


class Prompts(NamedTuple):
    """Prompts of one length, in batches: clean and corrupted ids (B, T).

    Attributes:
        right, wrong: ids of the two answers that are compared, (B,).
        places: (B, 3), of the answer, the other name and the giver; of induction texts (B, 1).
    """

    clean: Tensor
    corrupted: Tensor
    right: Tensor
    wrong: Tensor
    places: Tensor


class Read(NamedTuple):
    """A batch of prompts, read: a cache of all but the last token, and what that one did.

    Attributes:
        before: the cache.
        streams: (B, 1, d_model), L + 1 of them. z: (B, H, 1, d_v), L of them.
        pattern: of the last token, (B, L, H, T).
    """

    before: KVCache
    streams: list[Tensor]
    z: list[Tensor]
    pattern: Tensor


def drinks(lm: LanguageModel, template: int) -> Prompts:
    """The 20 prompts of a template: five pairs, two orders, two givers."""
    half = template * 2 // len(TEMPLATES)
    pairs = [pair.split() for pair in PAIRS[half]]
    rows: list[tuple[list[int], list[int], int, int, list[int]]] = []
    for number, pair in enumerate(pairs):
        third = pairs[(number + 1) % len(pairs)][number % 2]
        for first, second in (pair, pair[::-1]):
            for right, wrong in ((first, second), (second, first)):
                fill = partial(TEMPLATES[template].format, first, second)
                clean, corrupted = lm.encode(fill(wrong)), lm.encode(fill(third))
                (a,), (b,) = lm.encode(f" {right}"), lm.encode(f" {wrong}")
                giver = len(clean) - 1 - clean[::-1].index(b)
                rows.append((clean, corrupted, a, b, [clean.index(a), clean.index(b), giver]))
    return Prompts(*(torch.tensor(column) for column in zip(*rows, strict=True)))


def repeats(lm: LanguageModel, texts: int = TEXTS) -> Prompts:
    """Words drawn at random, then some of them again; corrupted, the last is another of them."""
    draw = torch.Generator().manual_seed(0)
    vocabulary = [lm.decode([i]) for i in range(lm.tokenizer.vocab_size)]
    whole = [t[:1] == " " and t[1:].isalpha() and t.islower() and len(t) > 6 for t in vocabulary]
    plain = torch.tensor(whole).nonzero()[:3000, 0]
    words = plain[torch.stack([torch.randperm(3000, generator=draw)[:WORDS] for _ in range(texts)])]
    clean = torch.cat([words, words[:, :REPEATED]], 1)
    others = torch.randint(REPEATED - 1, (texts,), generator=draw)
    corrupted, rows = clean.clone(), torch.arange(texts)
    corrupted[:, -1] = words[rows, others]
    places = torch.full((texts, 1), REPEATED)
    return Prompts(clean, corrupted, words[:, REPEATED], words[rows, others + 1], places)


@torch.no_grad()
def read(model: Transformer, ids: Tensor) -> Read:
    """Read prompts (B, T)."""
    before = KVCache(model.config.layers)
    model.hidden(ids[:, :-1], cache=before)
    x = model.embed(ids[:, -1:], before.length)
    states = list(model.run(x, cache=copied(before), need_weights=True))
    maps = [state.pattern[:, :, 0] for state in states if state.pattern is not None]
    streams, z = [x, *(s.resid_post for s in states)], [s.z for s in states]
    return Read(before, streams, z, torch.stack(maps, 1))


def copied(cache: KVCache, times: int = 1) -> KVCache:
    """A cache to go on with, each of its rows as often as asked."""
    new = KVCache(len(cache.keys))
    if times == 1:
        new.keys, new.values = list(cache.keys), list(cache.values)
        return new
    new.keys = [None if x is None else x.repeat_interleave(times, 0) for x in cache.keys]
    new.values = [None if x is None else x.repeat_interleave(times, 0) for x in cache.values]
    return new


def finish(model: Transformer, x: Tensor, layer: int, cache: KVCache, edits: Any = None) -> Tensor:
    """The stream (B, 1, d_model) that enters a layer, taken to the end."""
    for state in model.run(x, cache=cache, edits=edits, first=layer):
        x = state.resid_post
    return x


def difference(model: Transformer, x: Tensor, asked: Prompts) -> Tensor:
    """Logit of the right minus that of the wrong answer, from streams (B · n, 1, d_model)."""
    toward = model.W_E[asked.right] - model.W_E[asked.wrong]  # the unembedding is tied
    toward = toward.repeat_interleave(len(x) // len(toward), 0)
    found: Tensor = (model.final_norm(x[:, -1]) * toward).sum(-1)
    return found


@torch.no_grad()
def exchanged(model: Transformer, asked: Prompts, base: Read, donor: Sequence[Tensor]) -> Tensor:
    """How the difference changes when one head's output is the donor's, each in its turn.

    Args:
        model: the language model.
        asked: the prompts.
        base: the run that is changed.
        donor: (B, H, 1, d_v), L of them.

    Returns:
        (B, (L - FIRST) H), layer by layer.
    """
    B, H, plain = len(asked.clean), model.config.heads, difference(model, base.streams[-1], asked)
    cache, own = copied(base.before, H), torch.eye(H, dtype=torch.bool).repeat(B, 1)
    found = []
    for layer, given in list(enumerate(donor))[FIRST:]:
        put = given.repeat_interleave(H, 0)
        edits = {("z", layer): lambda z, p=put: torch.where(own[:, :, None, None], p, z)}
        x = base.streams[layer].repeat_interleave(H, 0)
        x = finish(model, x, layer, copied(cache), edits)
        found.append(difference(model, x, asked).view(B, H) - plain[:, None])
    return torch.cat(found, 1)


@torch.no_grad()
def early(model: Transformer, asked: Prompts, base: Read, donor: Sequence[Tensor]) -> Tensor:
    """The change when all heads before FIRST are exchanged at once, (B,)."""
    edits = {("z", layer): lambda _, z=donor[layer]: z for layer in range(FIRST)}
    x = finish(model, base.streams[0], 0, copied(base.before), edits)
    return difference(model, x, asked) - difference(model, base.streams[-1], asked)


def gradient(model: Transformer, asked: Prompts, clean: Read, corrupted: Read) -> Tensor:
    """What a straight line predicts of `exchanged` (attribution patching): (B, LH)."""
    zeros = [torch.zeros_like(z, requires_grad=True) for z in corrupted.z]
    edits = {("z", layer): lambda z, e=e: z + e for layer, e in enumerate(zeros)}
    x = finish(model, corrupted.streams[0], 0, copied(corrupted.before), edits)
    slopes = torch.autograd.grad(difference(model, x, asked).sum(), zeros)
    more = zip(slopes, clean.z, corrupted.z, strict=True)
    return torch.cat([(g * (a - b)).sum((-2, -1)) for g, a, b in more], 1).detach()


@torch.no_grad()
def direct(model: Transformer, asked: Prompts, run: Read) -> Tensor:
    """Direct logit attribution of all heads, (B, LH)."""
    x, norm = run.streams[-1][:, 0], cast(nn.RMSNorm, model.final_norm)
    toward = (model.W_E[asked.right] - model.W_E[asked.wrong]) * norm.weight
    assert norm.eps is not None
    toward = toward / (x.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()
    parts = []
    for block, z in zip(list[Any](model.blocks), run.z, strict=True):
        parts.append(torch.einsum("bhv,hvd,bd->bh", z[:, :, 0], block.attention.W_O, toward))
    return torch.cat(parts, 1)


@torch.no_grad()
def ranks(model: Transformer, run: Read, tokens: Tensor) -> Tensor:
    """Ranks of tokens (B, n) in what the stream says before and after each layer, (B, L + 1, n)."""
    found = []
    for x in run.streams:
        logits = model.final_norm(x[:, 0]) @ model.W_E.T
        own = logits.gather(1, tokens)
        found.append((logits[:, None] > own[..., None]).sum(-1))
    return torch.stack(found, 1)


@torch.no_grad()
def restored_stream(model: Transformer, asked: Prompts) -> Tensor:
    """The change when the stream is restored at the giver, between, at the last token."""
    start = int(asked.places[0, 2])
    before = KVCache(model.config.layers)
    model.hidden(asked.clean[:, :start], cache=before)
    sides = []
    for ids in (asked.clean, asked.corrupted):
        x = model.embed(ids[:, start:], start)
        sides.append([x, *(s.resid_post for s in model.run(x, cache=copied(before)))])
    plain, cache = difference(model, sides[1][-1], asked), copied(before, 3)
    T = sides[0][0].shape[1]
    where = torch.zeros(3, T, 1, dtype=torch.bool)
    where[0, 0] = where[1, 1:-1] = where[2, -1] = True
    where = where.repeat(len(asked.clean), 1, 1)
    found = []
    for layer in STREAM:
        good, bad = sides[0][layer], sides[1][layer]
        x = torch.where(where, good.repeat_interleave(3, 0), bad.repeat_interleave(3, 0))
        for state in model.run(x, cache=copied(cache), first=layer):
            x = state.resid_post
        found.append(difference(model, x, asked).view(-1, 3) - plain[:, None])
    return torch.stack(found, 1)


def observed(lm: LanguageModel, asked: Prompts) -> dict[str, Tensor]:
    """What one run tells of every head, the answers, and the change by what is restored."""
    model = lm.model
    clean, corrupted = read(model, asked.clean), read(model, asked.corrupted)
    each = asked.places[:, None, None].expand(-1, *clean.pattern.shape[1:3], -1)
    with torch.no_grad():
        logits = model.final_norm(clean.streams[-1][:, 0]) @ model.W_E.T
    return {
        "right": (logits.argmax(-1) == asked.right).float(),
        "clean": difference(model, clean.streams[-1], asked).detach(),
        "corrupted": difference(model, corrupted.streams[-1], asked).detach(),
        "weight": clean.pattern.gather(-1, each).flatten(1, 2),
        "direct": direct(model, asked, clean),
        "gradient": gradient(model, asked, clean, corrupted),
        "restore": exchanged(model, asked, corrupted, clean.z),
        "early": early(model, asked, corrupted, clean.z),
    }


def of_template(lm: LanguageModel, template: int) -> dict[str, Tensor]:
    """What is measured of all 20 prompts of a template in the first round."""
    asked = drinks(lm, template)
    found = observed(lm, asked)
    absent = drinks(lm, _other(template)).right
    tokens = torch.stack([asked.right, asked.wrong, absent], 1)
    return found | {"lens": ranks(lm.model, read(lm.model, asked.clean), tokens).float()}


def stream_of(lm: LanguageModel, template: int) -> dict[str, Tensor]:
    """`restored_stream` of a quarter of the prompts of a template."""
    return {"stream": restored_stream(lm.model, some(drinks(lm, template), 4))}


def ablated(lm: LanguageModel, template: int) -> dict[str, Tensor]:
    """Heads of a clean run exchanged for four other things, in a quarter of the prompts."""
    model, all_of_them = lm.model, drinks(lm, template)
    every, asked = read(model, all_of_them.clean), some(all_of_them, 4)
    clean, far = read(model, asked.clean), drinks(lm, _other(template)).clean
    order = torch.randperm(len(far), generator=torch.Generator().manual_seed(template))
    donors = {
        "break": read(model, asked.corrupted).z,
        "zero": [torch.zeros_like(z) for z in clean.z],
        "mean": [z.mean(0, keepdim=True).expand(len(asked.clean), -1, -1, -1) for z in every.z],
        "unrelated": read(model, far[order[: len(asked.clean)]]).z,
    }
    return {name: exchanged(model, asked, clean, donor) for name, donor in donors.items()}


@torch.no_grad()
def heard(
    model: Transformer, asked: Prompts, clean: Read, corrupted: Read, receiver: tuple[int, int]
) -> Tensor:
    """Path patching: the change through a receiver's queries, by sender (B, (layer - FIRST) H)."""
    (layer, head), H, B = receiver, model.config.heads, len(asked.clean)
    cache, found = copied(corrupted.before, H), []
    own, blocks = (torch.arange(H) == head)[:, None, None], list[Any](model.blocks)
    x = corrupted.streams[layer].repeat_interleave(H, 0)
    plain = difference(model, corrupted.streams[-1], asked)[:, None]
    for sender in range(FIRST, layer):
        more = clean.z[sender] - corrupted.z[sender]
        told = torch.einsum("bhtv,hvd->bhtd", more, blocks[sender].attention.W_O)
        state = next(model.run(x + told.flatten(0, 1), cache=copied(cache), first=layer))
        edits = {("q", layer): lambda q, s=state: torch.where(own, s.q, q)}
        last = finish(model, x, layer, copied(cache), edits)
        found.append(difference(model, last, asked).view(B, H) - plain)
    return torch.cat(found, 1)


def told(lm: LanguageModel, template: int) -> dict[str, Tensor]:
    """`heard` by each of `RECEIVERS`, in a quarter of the prompts."""
    model, asked = lm.model, some(drinks(lm, template), 4)
    clean, corrupted = read(model, asked.clean), read(model, asked.corrupted)
    runs = {f"to_{layer}_{head}": (layer, head) for layer, head in RECEIVERS}
    return {name: heard(model, asked, clean, corrupted, to) for name, to in runs.items()}


def of_repeats(lm: LanguageModel) -> dict[str, Tensor]:
    """What is measured of induction texts."""
    return {f"induction_{name}": found for name, found in observed(lm, repeats(lm)).items()}


def some(asked: Prompts, every: int) -> Prompts:
    """One of so many prompts; of four, each pair gives another of its forms."""
    rows = torch.arange(0, len(asked.clean), every)
    return Prompts(*(column[rows + rows // every % every] for column in asked))


def _other(template: int) -> int:
    return (template + len(TEMPLATES) // 2) % len(TEMPLATES)


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """Measure everything, and write card and history; an interrupted call goes on."""
    lm, templates = smollm2(), range(len(TEMPLATES))
    jobs = [partial(of_template, lm, number) for number in templates] + [partial(of_repeats, lm)]
    for more in (told, ablated, stream_of):
        jobs += [partial(more, lm, number) for number in templates]
    found: dict[str, Tensor] = {}
    for row in sweep(name, folder, jobs, lambda job: rounded(job())):
        for key, values in row.items():
            parts = [found[key]] if key in found else []
            found[key] = torch.cat([*parts, torch.tensor(values)])
    stored = save_history(name, {key: values.half() for key, values in found.items()}, folder)
    facts = {"model": lm.name, "templates": TEMPLATES, "pairs": PAIRS, "history": stored}
    return result(name, folder, facts | {"measures": " ".join(MEASURES.split())})
