"""Patching as its definition has it, one run for every patch: faster ways are held against it.

An effect is normalised: (patched − corrupted) / (clean − corrupted). All of it is for one prompt
(T,) and its counterpart, token by token, and a metric of the last token's logits (B, D).
"""

import torch


def logit_difference(right, wrong):
    """By how much the logit of one token is above another's."""
    return lambda logits: logits[..., right] - logits[..., wrong]


def read(model, ids, need_weights=False):
    """The stream before each layer and after the last, and what each layer did."""
    x = model.embed(ids[None])
    states = list(model.run(x, need_weights=need_weights))
    return [x, *(state.residual for state in states)], states


def exchange(part, places):
    """Row i of a batch gets, at places[i] of the next axis, what `part` has there."""

    def put(x):
        x = x.clone()
        for row, place in enumerate(places):
            x[row, place] = part[row if len(part) == len(x) else 0, place]
        return x

    return put


def last_logits(model, x, first, edits):
    """Logits (B, D) of the last token, from the stream (B, T, d_model) that enters a layer."""
    if first == len(model.blocks):  # after the last one there is nothing left to run
        x = edits["stream", first](x)
    for state in model.run(x, edits=edits, first=first) if first < len(model.blocks) else ():
        x = state.residual
    return model.final_norm(x[:, -1]) @ model.W_U


def normalised(found, model, metric, clean, corrupted):
    """Effects from what the metric says of patched runs, of the clean and of the corrupted one."""
    whole, none = (metric(model(ids[None])[:, -1]) for ids in (clean, corrupted))
    return (found - none) / (whole - none)


@torch.no_grad()
def activation_patching(model, clean, corrupted, metric, what="stream"):
    """Put one part of the clean run into the corrupted one, each in its turn (Meng et al. 2022).

    `what` is a site of `attnlib.models.edits`: "stream" and "feed_forward" are patched one position
    at a time, (L + 1, T) and (L, T); the others one head at a time, at all positions, (L, H).
    """
    streams, states = read(model, clean, need_weights=what == "pattern")
    base, _ = read(model, corrupted)
    name = {"pattern": "attention"}.get(what, what)
    parts = streams if what == "stream" else [getattr(state, name) for state in states]
    found = []
    for layer, part in enumerate(parts):
        count = part.shape[1]
        put = {(what, layer): exchange(part, range(count))}
        found.append(metric(last_logits(model, base[layer].expand(count, -1, -1), layer, put)))
    return normalised(torch.stack(found), model, metric, clean, corrupted)


@torch.no_grad()
def path_patching(model, clean, corrupted, metric, receiver, through="queries"):
    """What each earlier head tells one head directly (Wang et al. 2022): (receiver's layer, H).

    A sender's output of the clean run is put into the stream that the receiver reads, and into
    nothing else: heads and feed-forward blocks between keep what they wrote in the corrupted run.
    The queries, keys or values that the receiver makes of it then stand in the corrupted run.
    """
    (layer, head), heads = receiver, model.config.heads
    if through != "queries":  # those that it shares with its group
        head = head * (model.config.kv_heads or heads) // heads
    (_, donor), (base, states) = read(model, clean), read(model, corrupted)
    found = []
    for sent, kept in zip(donor[:layer], states[:layer], strict=True):
        told = (sent.mixed - kept.mixed)[0] @ sent.W_O  # (H, T, d_model)
        heard = next(model.run(base[layer] + told, first=layer))
        put = {(through, layer): exchange(getattr(heard, through), [head] * heads)}
        found.append(metric(last_logits(model, base[layer].expand(heads, -1, -1), layer, put)))
    return normalised(torch.stack(found), model, metric, clean, corrupted)
