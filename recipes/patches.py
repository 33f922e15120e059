"""Two runs of a language model, what they write, and what changes when parts of them are exchanged.

All of it happens at the last token of a batch of prompts: what stands before is read once and kept
in a cache. An effect is the change of the logit difference of two answers, not normalised.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attnlib.attention import shared
from attnlib.models import KVCache, Transformer
from recipes.stories import Prompts

Edits = dict[tuple[str, int], Callable[[Tensor], Tensor]]


# --- a run --------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What a model did at the last token of a batch of prompts.

    Attributes:
        before: a cache of all tokens but the last.
        streams: (B, 1, d_model), L + 1 of them: before the first layer, and after each.
        pattern: the last token's row of each head, (B, L, H, T).
        values: each head's values of all tokens, (B, H, T, d_v), L of them.
        z: (B, H, 1, d_v), L of them: row times values.
        mlp_out: what each feed-forward block adds, (B, 1, d_model), L of them.
    """

    before: KVCache
    streams: list[Tensor]
    pattern: Tensor
    values: list[Tensor]
    z: list[Tensor]
    mlp_out: list[Tensor]


@torch.no_grad()
def read(model: Transformer, ids: Tensor) -> Run:
    """Read prompts (B, T)."""
    before = KVCache(model.config.layers)
    model.hidden(ids[:, :-1], cache=before)
    return last_token(model, model.embed(ids[:, -1:], before.length), before)


@torch.no_grad()
def last_token(model: Transformer, x: Tensor, before: KVCache, edits: Edits | None = None) -> Run:
    """Read the last token, whose embedding is x (B, 1, d_model)."""
    states = list(model.run(x, cache=copied(before), need_weights=True, edits=edits))
    rows = [state.pattern[:, :, 0] for state in states if state.pattern is not None]
    return Run(
        before=before,
        streams=[x, *(state.resid_post for state in states)],
        pattern=torch.stack(rows, 1),
        values=[shared(state.v, model.config.heads) for state in states],
        z=[state.z for state in states],
        mlp_out=[state.mlp_out for state in states if state.mlp_out is not None],
    )


def copied(cache: KVCache, times: int = 1, first: int = 0) -> KVCache:
    """A cache to go on with, each of its texts as often as asked, of the layers from `first` on."""
    new = KVCache(len(cache.keys))
    for layer in range(first, len(cache.keys)):
        keys, values = cache.keys[layer], cache.values[layer]
        if keys is not None and values is not None and times > 1:
            keys, values = keys.repeat_interleave(times, 0), values.repeat_interleave(times, 0)
        new.keys[layer], new.values[layer] = keys, values
    return new


def finish(
    model: Transformer, x: Tensor, layer: int, cache: KVCache, edits: Edits | None = None
) -> Tensor:
    """The stream (B, 1, d_model) that enters a layer, taken to the end."""
    for state in model.run(x, cache=cache, edits=edits, first=layer):
        x = state.resid_post
    return x


def difference(model: Transformer, x: Tensor, asked: Prompts) -> Tensor:
    """Logit of the answer minus that of the other name, from streams (B · n, 1, d_model)."""
    toward = answer_minus_other(model, asked)
    toward = toward.repeat_interleave(len(x) // len(toward), 0)
    logits: Tensor = (model.final_norm(x[:, -1]) * toward).sum(-1)
    return logits


def answer_minus_other(model: Transformer, asked: Prompts) -> Tensor:
    """The direction (B, d_model) that raises the answer and lowers the other name."""
    return model.W_E[asked.right] - model.W_E[asked.wrong]  # the unembedding is tied


# --- exchanging parts ---------------------------------------------------------------------------


def mixed(pattern: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
    """What heads would write with these rows and these values: z (B, H, 1, d_v) of each layer.

    With both of one run this is its own `z`; with the rows of one and the values of another it is
    what the head would have written had only its rows, or only its values, been exchanged.

    Args:
        pattern: rows (B, L, H, T).
        values: (B, H, T, d_v), L of them.
    """
    return [pattern[:, layer, :, None] @ v for layer, v in enumerate(values)]


def put(parts: Sequence[Tensor], site: str, layers: Iterable[int], times: int = 1) -> Edits:
    """Edits that put a run's parts of these layers in their site, each as often as asked."""
    return {
        (site, layer): partial(_replaced, parts[layer].repeat_interleave(times, 0))
        for layer in layers
    }


def _replaced(part: Tensor, _: Tensor) -> Tensor:
    """An edit: the part, whatever was there."""
    return part


def _where(chosen: Tensor, part: Tensor, x: Tensor) -> Tensor:
    """An edit: the part where it was chosen."""
    return torch.where(chosen, part, x)


def head_edits(sets: Tensor, donor: Sequence[Tensor], texts: int) -> Edits:
    """Edits after which the heads of S sets (S, L, H) write what the donor says.

    Each of B texts stands S times in the batch, once for each set.
    """
    edits: Edits = {}
    for layer in sets.any(-1).any(0).nonzero().flatten().tolist():
        chosen = sets[:, layer, :, None, None].repeat(texts, 1, 1, 1)  # (B S, H, 1, 1)
        new = donor[layer].repeat_interleave(len(sets), 0)
        edits["z", layer] = partial(_where, chosen, new)
    return edits


@torch.no_grad()
def patched(
    model: Transformer,
    asked: Prompts,
    base: Run,
    donor: Sequence[Tensor],
    sets: Tensor,
    frozen: bool = False,
) -> Tensor:
    """How the difference changes when the heads of a set write what the donor says.

    Args:
        model: the language model.
        asked: the prompts.
        base: the run that is changed.
        donor: z (B, H, 1, d_v) of each layer.
        sets: S sets of heads, True where a head is in it, (S, L, H).
        frozen: the feed-forward blocks keep what they added in the base run.

    Returns:
        (B, S).
    """
    S, B = len(sets), len(asked.clean)
    layers = sets.any(-1).any(0).nonzero().flatten().tolist()
    if not layers:
        return asked.clean.new_zeros(B, S, dtype=base.streams[0].dtype)
    edits: Edits = {}
    if frozen:
        edits |= put(base.mlp_out, "mlp_out", range(layers[0], model.config.layers), S)
    edits |= head_edits(sets, donor, B)
    x = base.streams[layers[0]].repeat_interleave(S, 0)
    x = finish(model, x, layers[0], copied(base.before, S, layers[0]), edits)
    plain = difference(model, base.streams[-1], asked)
    return difference(model, x, asked).view(B, S) - plain[:, None]


def exchanged(
    model: Transformer,
    asked: Prompts,
    base: Run,
    donor: Sequence[Tensor],
    first: int = 0,
    frozen: bool = False,
) -> Tensor:
    """`patched` of every head of the layers from `first` on, one at a time: (B, (L − first) H)."""
    layers, heads = model.config.layers, model.config.heads
    alone = torch.eye(layers * heads, dtype=torch.bool).view(layers, heads, layers, heads)
    parts = [patched(model, asked, base, donor, alone[k], frozen) for k in range(first, layers)]
    return torch.cat(parts, 1)


def gradient(model: Transformer, asked: Prompts, clean: Run, corrupted: Run) -> Tensor:
    """What a straight line predicts of `exchanged` (attribution patching): (B, L H)."""
    zeros = [torch.zeros_like(z, requires_grad=True) for z in corrupted.z]
    edits: Edits = {("z", layer): partial(torch.add, zero) for layer, zero in enumerate(zeros)}
    x = finish(model, corrupted.streams[0], 0, copied(corrupted.before), edits)
    slopes = torch.autograd.grad(difference(model, x, asked).sum(), zeros)
    steps = zip(slopes, clean.z, corrupted.z, strict=True)
    return torch.cat([(g * (a - b)).sum((-2, -1)) for g, a, b in steps], 1).detach()


@torch.no_grad()
def changed(model: Transformer, asked: Prompts, base: Run, edits: Edits, layer: int = 0) -> Tensor:
    """How the difference changes under edits of the layers from `layer` on: (B,)."""
    x = finish(model, base.streams[layer], layer, copied(base.before), edits)
    return difference(model, x, asked) - difference(model, base.streams[-1], asked)


@torch.no_grad()
def blocks_patched(
    model: Transformer, asked: Prompts, base: Run, donor: Run, sets: Tensor
) -> Tensor:
    """How the difference changes when the feed-forward blocks of a set add what the donor's did.

    Args:
        model: the language model.
        asked: the prompts.
        base: the run that is changed.
        donor: the other run.
        sets: S sets of blocks, True where a layer's block is in it, (S, L).

    Returns:
        (B, S).
    """
    S, B = len(sets), len(asked.clean)
    edits: Edits = {}
    for layer in sets.any(0).nonzero().flatten().tolist():
        chosen = sets[:, layer, None, None].repeat(B, 1, 1)  # (B S, 1, 1)
        new = donor.mlp_out[layer].repeat_interleave(S, 0)
        edits["mlp_out", layer] = partial(_where, chosen, new)
    x = base.streams[0].repeat_interleave(S, 0)
    x = finish(model, x, 0, copied(base.before, S), edits)
    plain = difference(model, base.streams[-1], asked)
    return difference(model, x, asked).view(B, S) - plain[:, None]


@torch.no_grad()
def restored_stream(model: Transformer, asked: Prompts, layers: Sequence[int]) -> Tensor:
    """The change when the stream is restored at the giver, between, at the last token.

    Args:
        model: the language model.
        asked: prompts whose two runs are the same before the giver.
        layers: before which the stream is restored; L is after the last.

    Returns:
        (B, layers, 3).
    """
    giver = int(asked.positions[0, 2])
    before = KVCache(model.config.layers)
    model.hidden(asked.clean[:, :giver], cache=before)
    sides = []
    for ids in (asked.clean, asked.corrupted):
        x = model.embed(ids[:, giver:], giver)
        sides.append([x, *(s.resid_post for s in model.run(x, cache=copied(before)))])
    plain, cache = difference(model, sides[1][-1], asked), copied(before, 3)
    T = sides[0][0].shape[1]
    where = torch.zeros(3, T, 1, dtype=torch.bool)
    where[0, 0] = where[1, 1:-1] = where[2, -1] = True
    where = where.repeat(len(asked.clean), 1, 1)
    effects = []
    for layer in layers:
        clean, corrupted = sides[0][layer], sides[1][layer]
        x = torch.where(where, clean.repeat_interleave(3, 0), corrupted.repeat_interleave(3, 0))
        x = finish(model, x, layer, copied(cache))
        effects.append(difference(model, x, asked).view(-1, 3) - plain[:, None])
    return torch.stack(effects, 1)


@torch.no_grad()
def through_queries(
    model: Transformer,
    asked: Prompts,
    clean: Run,
    corrupted: Run,
    receiver: tuple[int, int],
    first: int = 0,
) -> Tensor:
    """Path patching: the change through a receiver's queries, by sender (B, (layer − first) H)."""
    (layer, head), H, B = receiver, model.config.heads, len(asked.clean)
    cache, effects = copied(corrupted.before, H, layer), []
    own, blocks = (torch.arange(H) == head)[:, None, None], list[Any](model.blocks)
    x = corrupted.streams[layer].repeat_interleave(H, 0)
    plain = difference(model, corrupted.streams[-1], asked)[:, None]
    for sender in range(first, layer):
        change = clean.z[sender] - corrupted.z[sender]
        change = torch.einsum("bhtv,hvd->bhtd", change, blocks[sender].attention.W_O)
        state = next(model.run(x + change.flatten(0, 1), cache=copied(cache), first=layer))
        edits: Edits = {("q", layer): partial(_where, own, state.q)}
        last = finish(model, x, layer, copied(cache), edits)
        effects.append(difference(model, last, asked).view(B, H) - plain)
    return torch.cat(effects, 1)


# --- what is written ----------------------------------------------------------------------------


class Reader(NamedTuple):
    """What the last stream's reader makes of what is written into it, with all norms held.

    Attributes:
        stream: (B, K, d_model): times a part of the last stream, that part's term in K directions.
        z: (B, H, d_v, K), L of them: the same of a head's z, or of a value that it takes.
    """

    stream: Tensor
    z: list[Tensor]


@torch.no_grad()
def reader(model: Transformer, run: Run, directions: Tensor) -> Reader:
    """How each writer's output becomes a term of K logits (direct logit attribution).

    Args:
        model: a language model with RMSNorm: before its blocks, or before and after them.
        run: whose norms are held at what they divide by.
        directions: of the unembedding, (B, K, d_model).
    """
    stream = directions * _held(model.final_norm, run.streams[-1])
    of_z = []
    for block, z in zip(list[Any](model.blocks), run.z, strict=True):
        toward = stream
        if model.config.norm == "both":
            toward = toward * _held(block.norm_1_after, block.attention.write(z))
        of_z.append(torch.einsum("hvd,bkd->bhvk", block.attention.W_O, toward))
    return Reader(stream, of_z)


def _held(norm: nn.Module, x: Tensor) -> Tensor:
    """What an RMSNorm multiplies x (B, 1, d_model) by: weight over root mean square."""
    rms = cast(nn.RMSNorm, norm)
    assert rms.eps is not None
    return rms.weight / (x.pow(2).mean(-1, keepdim=True) + rms.eps).sqrt()


@torch.no_grad()
def direct(model: Transformer, asked: Prompts, run: Run) -> dict[str, Tensor]:
    """Direct logit attribution of the difference: "heads" (B, L H) and "blocks" (B, L)."""
    made = reader(model, run, answer_minus_other(model, asked)[:, None])
    heads = [(z[:, :, 0, :, None] * u).sum((-2, -1)) for z, u in zip(run.z, made.z, strict=True)]
    blocks = [(out * made.stream).sum((-2, -1)) for out in run.mlp_out]
    return {"heads": torch.cat(heads, 1), "blocks": torch.stack(blocks, 1)}


@torch.no_grad()
def by_source(model: Transformer, run: Run, directions: Tensor) -> Tensor:
    """Each head's terms by where it reads: weight × what the head writes for that source.

    Returns:
        (B, L, H, T, K): summed over sources, a head's term in each of K directions.
    """
    made = reader(model, run, directions)
    return torch.stack(
        [
            run.pattern[:, layer, :, :, None] * (values @ made.z[layer])
            for layer, values in enumerate(run.values)
        ],
        1,
    )


@torch.no_grad()
def ranks(model: Transformer, run: Run, tokens: Tensor) -> Tensor:
    """Ranks of tokens (B, n) in what the stream says before and after each layer, (B, L + 1, n)."""
    by_layer = []
    for x in run.streams:
        logits = model.final_norm(x[:, 0]) @ model.W_E.T
        own = logits.gather(1, tokens)
        by_layer.append((logits[:, None] > own[..., None]).sum(-1))
    return torch.stack(by_layer, 1)
