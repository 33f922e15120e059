"""What a prediction hangs on, found by exchanging parts of two runs.

The logit lens and direct logit attribution read one run; activation patching puts parts of a clean
run into a corrupted one, and path patching does so along a single path. A `Metric` turns the logits
of the last token into the number that is asked about, such as a difference of two logits; an effect
is *normalised*: (patched − corrupted) / (clean − corrupted), so that 0 is nothing, 1 restores all,
below 0 is the wrong way and above 1 more than all.

All of it is for a `Transformer` with an unembedding and norms before its blocks (or none), and
for one prompt and its counterpart, token by token; what differs between the two is the corruption.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlib.models.block import LayerState
from attnlib.models.edits import SITES, Edits
from attnlib.models.evaluation import evaluating
from attnlib.models.transformer import Transformer

Metric = Callable[[Tensor], Tensor]  # logits (B, D) to numbers (B,)
PATCHED = tuple(what for what in SITES if not what.startswith("cross_"))
THROUGH = ("queries", "keys", "values")


def logit_difference(right: int, wrong: int) -> Metric:
    """By how much the logit of one token is above another's.

    >>> logit_difference(0, 2)(torch.tensor([[3.0, 0.0, 1.0]]))
    tensor([2.])
    """
    return lambda logits: logits[..., right] - logits[..., wrong]


@torch.no_grad()
def logit_lens(model: Transformer, ids: Tensor, at: int = -1) -> Tensor:
    """What the model would say after each layer, if it stopped there (nostalgebraist 2020).

    Args:
        model: a language model.
        ids: a text (T,).
        at: the position whose next token is asked about.

    Returns:
        logits (L + 1, D): of the stream before the first layer and after each.
    """
    with evaluating(model):
        x, states = _run(model, ids)
        stream = torch.cat([x[:, at], *(state.residual[:, at] for state in states)])
        return _logits(model, stream)


class Attribution(NamedTuple):
    """The parts of a logit difference, each written directly into the last stream.

    Attributes:
        embedding: of the token and its position, ().
        heads: (L, H).
        feed_forward: (L,), zeros where there are none.
        biases: of attention's outputs and of the last norm, ().
    """

    embedding: Tensor
    heads: Tensor
    feed_forward: Tensor
    biases: Tensor

    @property
    def total(self) -> Tensor:
        """The sum of all parts: the logit difference itself, ()."""
        return self.embedding + self.heads.sum() + self.feed_forward.sum() + self.biases


@torch.no_grad()
def direct_logit_attribution(
    model: Transformer, ids: Tensor, right: int, wrong: int, at: int = -1
) -> Attribution:
    """Share a logit difference out among what was written into the stream (Elhage et al. 2021).

    The last norm's divisor is held at what it is; what is left is linear, so the parts add up. What
    a part does by way of later layers counts as theirs: this is the direct effect alone.

    Args:
        model: a language model.
        ids: a text (T,).
        right, wrong: ids of the two tokens.
        at: the position whose next token is asked about.
    """
    with evaluating(model):
        x, states = _run(model, ids)
        toward = model.W_U[:, right] - model.W_U[:, wrong]  # type: ignore[index] # checked in _run
        write, shift = _linear(model.final_norm, states[-1].residual[0, at])
        heads = torch.stack([(state.mixed[0, :, at, None] @ state.W_O)[:, 0] for state in states])
        added = [state.feed_forward for state in states]
        wide = [torch.zeros_like(x[0, at]) if y is None else y[0, at] for y in added]
        blocks: Any = model.blocks
        b_O = [torch.zeros(()) if (b := block.attention.b_O) is None else b for block in blocks]
        constant = torch.zeros_like(x[0, at]) + sum(b_O)
        return Attribution(
            write(x[0, at]) @ toward,
            write(heads) @ toward,
            write(torch.stack(wide)) @ toward,
            (write(constant) + shift) @ toward,
        )


@torch.no_grad()
def activation_patching(
    model: Transformer, clean: Tensor, corrupted: Tensor, metric: Metric, what: str = "stream"
) -> Tensor:
    """Put one part of the clean run into the corrupted one, each in its turn (Meng et al. 2022).

    Args:
        model: a language model.
        clean, corrupted: two prompts (T,), token by token.
        metric: what is asked.
        what: a site of `attnlib.models.edits`. "stream" and "feed_forward" are patched one position
            at a time, the others one head at a time, at all positions.

    Returns:
        normalised effects, (L + 1, T) for the stream, (L, T) for "feed_forward", (L, H) for the
        rest, or (L, H_kv) for keys and values.

    Raises:
        ValueError: if there is no such site, the prompts do not align, or nothing is to restore.
    """
    if what not in PATCHED:
        raise ValueError(f"what can be patched is one of {PATCHED}, got {what!r}")
    with evaluating(model):
        donor, base = _run_both(model, clean, corrupted, what == "pattern")
        sites = donor.streams if what == "stream" else [_part(s, what) for s in donor.states]
        found = []
        for layer, part in enumerate(sites):
            put = _exchange(part, range(part.shape[1]))
            x = base.streams[layer].expand(part.shape[1], -1, -1)
            found.append(metric(_last_logits(model, x, layer, {(what, layer): put})))
        return _normalised(torch.stack(found), metric, donor, base)


@torch.no_grad()
def path_patching(
    model: Transformer,
    clean: Tensor,
    corrupted: Tensor,
    metric: Metric,
    receiver: tuple[int, int],
    through: str = "queries",
) -> Tensor:
    """What each earlier head tells one head directly (Wang et al. 2022).

    A sender's output of the clean run is put into the stream that the receiver reads, and into
    nothing else: heads and feed-forward blocks between keep what they wrote in the corrupted run.
    The queries, keys or values that the receiver makes of it then stand in the corrupted run.

    Args:
        model, clean, corrupted, metric: as in `activation_patching`.
        receiver: (layer, head).
        through: "queries", "keys" or "values" of the receiver; the last two are those of all heads
            with which it shares them.

    Returns:
        normalised effects of the senders, (layer of the receiver, H).

    Raises:
        ValueError: as in `activation_patching`, or if there is no such receiver.
    """
    layer, head = receiver
    config = model.config
    if through not in THROUGH or not (0 < layer < config.layers and 0 <= head < config.heads):
        raise ValueError(
            f"a receiver is a (layer, head) with layer 1 … {config.layers - 1} and head 0 … "
            f"{config.heads - 1}, and listens through one of {THROUGH}; got {receiver}, {through!r}"
        )
    with evaluating(model):
        donor, base = _run_both(model, clean, corrupted, False)
        shared_by = 1 if through == "queries" else config.heads // (config.kv_heads or config.heads)
        found = []
        for sent, kept in zip(donor.states[:layer], base.states[:layer], strict=True):
            told = (sent.mixed - kept.mixed)[0] @ sent.W_O  # (H, T, d_model)
            heard = next(model.run(base.streams[layer] + told, first=layer))
            put = _exchange(_part(heard, through), [head // shared_by] * config.heads)
            x = base.streams[layer].expand(config.heads, -1, -1)
            found.append(metric(_last_logits(model, x, layer, {(through, layer): put})))
        return _normalised(torch.stack(found), metric, donor, base)


class _Run(NamedTuple):
    """One prompt: the stream before each layer and after the last, and what each layer did."""

    streams: list[Tensor]
    states: list[LayerState]
    logits: Tensor


def _run(model: Transformer, ids: Tensor, weights: bool = False) -> tuple[Tensor, list[LayerState]]:
    if model.W_U is None or model.config.norm == "post":
        raise ValueError("this needs a model with an unembedding, and norms before its blocks")
    if ids.ndim != 1 or len(ids) == 0:
        raise ValueError(f"a prompt is a tensor of at least one id, (T,), got {tuple(ids.shape)}")
    x = model.embed(ids[None])
    return x, list(model.run(x, need_weights=weights))


def _run_both(
    model: Transformer, clean: Tensor, corrupted: Tensor, weights: bool
) -> tuple[_Run, _Run]:
    if clean.shape != corrupted.shape:
        raise ValueError(
            f"the prompts must have as many tokens, or their parts do not align: clean has "
            f"{len(clean)}, corrupted {len(corrupted)}. Choose words of equally many tokens"
        )
    runs = []
    for ids in (clean, corrupted):
        x, states = _run(model, ids, weights)
        streams = [x, *(state.residual for state in states)]
        runs.append(_Run(streams, states, _logits(model, streams[-1][:, -1])))
    return runs[0], runs[1]


def _part(state: LayerState, what: str) -> Tensor:
    part: Tensor | None = getattr(state, {"pattern": "attention"}.get(what, what))
    if part is None:
        raise ValueError(f"this model has no {what}")
    return part


def _exchange(part: Tensor, places: Any) -> Callable[[Tensor], Tensor]:
    """Row i of a batch gets, at places[i] of the next axis, what `part` has there."""

    def put(x: Tensor) -> Tensor:
        x = x.clone()
        for row, place in enumerate(places):
            x[row, place] = part[row if len(part) == len(x) else 0, place]
        return x

    return put


def _last_logits(model: Transformer, x: Tensor, first: int, edits: Edits) -> Tensor:
    """Logits (B, D) of the last token, from the stream (B, T, d_model) that enters a layer."""
    if first == len(model.blocks):  # after the last one there is nothing left to run
        return _logits(model, edits["stream", first](x)[:, -1])
    *_, last = model.run(x, edits=edits, first=first)
    return _logits(model, last.residual[:, -1])


def _logits(model: Transformer, x: Tensor) -> Tensor:
    logits: Tensor = model.final_norm(x) @ model.W_U
    return logits


def _normalised(found: Tensor, metric: Metric, clean: _Run, corrupted: _Run) -> Tensor:
    whole, none = metric(clean.logits), metric(corrupted.logits)
    if (whole - none).abs() < 1e-6:
        raise ValueError(
            f"the metric is {whole.item():.4g} for both prompts: there is nothing to restore"
        )
    return (found - none) / (whole - none)


def _linear(norm: nn.Module, x: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """What the last norm does to a part of x, its divisor held at that of x; and what it adds."""
    if isinstance(norm, nn.LayerNorm):
        deviation = (x.var(correction=0) + norm.eps).sqrt()
        return lambda y: (y - y.mean(-1, keepdim=True)) / deviation * norm.weight, norm.bias
    if isinstance(norm, nn.RMSNorm):
        assert norm.eps is not None
        root = (x.pow(2).mean() + norm.eps).sqrt()
        return lambda y: y / root * norm.weight, torch.zeros_like(x)
    return lambda y: y, torch.zeros_like(x)
