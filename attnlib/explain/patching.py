"""What a prediction hangs on, read off one run or found by exchanging parts of two.

The logit lens and direct logit attribution read one run. Path patching puts what a head wrote in a
clean run into a corrupted one, along a single path. (To put any part of one run into another,
whatever lies between, is an edit: see the head of `attnlib.models.transformer`.) A `Metric` turns
the logits of the last token into the number that is asked about, such as a difference of two
logits.

All of it is for a `Transformer` whose layers only add to the stream: with an unembedding, and
without norms after its additions (norm="post").
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlib.explain.precision import at_least_float32
from attnlib.models import LayerState, Transformer, evaluating
from attnlib.models.transformer import Block

Metric = Callable[[Tensor], Tensor]  # logits (..., D) to numbers (...)
THROUGH = ("q", "k", "v")


def logit_difference(right: int, wrong: int) -> Metric:
    """By how much the logit of one token is above another's.

    >>> logit_difference(0, 2)(torch.tensor([[3.0, 0.0, 1.0]]))
    tensor([2.])
    """
    return lambda logits: logits[..., right] - logits[..., wrong]


# --- what one run says ------------------------------------------------------------------------


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
        states = _run(model, ids)
        streams = [states[0].resid_pre, *(state.resid_post for state in states)]
        x = torch.cat([stream[:, at] for stream in streams])
        return model.unembed(model.final_norm(x))


class Attribution(NamedTuple):
    """The parts of a logit difference, each written directly into the last stream.

    Attributes:
        embedding: of the token and its position, ().
        heads: (L, H).
        feed_forward: (L,), zeros where there are none.
        biases: of attention's outputs, of norms and of the logits, ().
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

    The last stream is the embedding and all that attention and feed-forward blocks add; a head adds
    z W_O. Norms on the way, the last one and those on what attention adds (norm="both"), are
    linear once their divisor is held at what it is, so the parts add up to the logit difference;
    of a model that bounds its logits softly, to that before the cap. What a part does by way of
    later layers counts as theirs: this is the direct effect alone.

    Args:
        model: a language model.
        ids: a text (T,).
        right, wrong: ids of the two tokens.
        at: the position whose next token is asked about.
    """
    with evaluating(model):
        states = _run(model, ids)
        embedding = at_least_float32(states[0].resid_pre[0, at])
        final = at_least_float32(states[-1].resid_post[0, at])

        heads, feed_forward = [], []
        constant = torch.zeros_like(embedding)
        for state in states:
            of_heads, of_bias = _attention_out(_block(model, state.layer), state, at)
            heads.append(of_heads)
            constant = constant + of_bias
            mlp_out = torch.zeros_like(state.attn_out) if state.mlp_out is None else state.mlp_out
            feed_forward.append(at_least_float32(mlp_out[0, at]))

        norm = _HeldNorm(model.final_norm, final)
        assert model.W_U is not None  # see _run
        toward = at_least_float32(model.W_U[:, right]) - at_least_float32(model.W_U[:, wrong])
        biases = (norm(constant) + norm.bias) @ toward
        if model.b_U is not None:
            biases = biases + model.b_U[right] - model.b_U[wrong]
        return Attribution(
            embedding=norm(embedding) @ toward,
            heads=norm(torch.stack(heads)) @ toward,
            feed_forward=norm(torch.stack(feed_forward)) @ toward,
            biases=biases,
        )


def _attention_out(block: Block, state: LayerState, at: int) -> tuple[Tensor, Tensor]:
    """The parts of `attn_out` at a position: each head's (H, d_model), the biases' (d_model,)."""
    W_O, b_O = at_least_float32(block.attention.W_O), block.attention.b_O
    z = at_least_float32(state.z[0, :, at, None])  # (H, 1, d_v)
    heads = (z @ W_O)[:, 0]
    bias = torch.zeros_like(heads[0]) if b_O is None else at_least_float32(b_O)
    norm = _HeldNorm(block.norm_1_after, heads.sum(0) + bias)
    return norm(heads), norm(bias) + norm.bias


class _HeldNorm:
    """A norm whose divisor is held at what it is for x (d_model,), and so is linear, plus a bias.

    norm(x) is the sum of held(part) over the parts of x, plus `bias`.
    """

    def __init__(self, norm: nn.Module, x: Tensor) -> None:
        self.centred = isinstance(norm, nn.LayerNorm)
        self.divisor, self.weight, self.bias = x.new_ones(()), x.new_ones(()), torch.zeros_like(x)
        if isinstance(norm, nn.LayerNorm):
            self.divisor = (x.var(correction=0) + norm.eps).sqrt()
            self.weight, self.bias = at_least_float32(norm.weight), at_least_float32(norm.bias)
        elif isinstance(norm, nn.RMSNorm):
            assert norm.eps is not None
            self.divisor = (x.pow(2).mean() + norm.eps).sqrt()
            self.weight = at_least_float32(norm.weight)

    def __call__(self, part: Tensor) -> Tensor:
        """What the norm makes of a part of x: (..., d_model) to the same shape."""
        if self.centred:
            part = part - part.mean(-1, keepdim=True)
        return part / self.divisor * self.weight


# --- what a path carries ----------------------------------------------------------------------


@torch.no_grad()
def path_patching(
    model: Transformer,
    clean: Tensor,
    corrupted: Tensor,
    metric: Metric,
    receiver: tuple[int, int],
    through: str = "q",
) -> Tensor:
    """What each earlier head tells one head directly (Wang et al. 2022).

    A sender's output of the clean run is put into the stream that the receiver reads, and into
    nothing else: heads and feed-forward blocks between keep what they wrote in the corrupted run.
    The queries, keys or values that the receiver makes of it then stand in the corrupted run. The
    effect is normalised, (patched − corrupted) / (clean − corrupted): 0 is nothing, 1 restores all,
    below 0 is the wrong way and above 1 more than all.

    Args:
        model: a language model.
        clean, corrupted: two prompts (T,), token by token; what differs is the corruption.
        metric: what is asked.
        receiver: (layer, head).
        through: "q", "k" or "v" of the receiver; keys and values are those of all heads with which
            it shares them.

    Returns:
        effects of the senders, (layer of the receiver, H).

    Raises:
        ValueError: if there is no such receiver, the prompts do not align, or nothing is to
            restore.
    """
    layer, head = receiver
    config = model.config
    if through not in THROUGH or not (0 < layer < config.layers and 0 <= head < config.heads):
        raise ValueError(
            f"a receiver is a (layer, head) with layer 1 … {config.layers - 1} and head 0 … "
            f"{config.heads - 1}, and listens through one of {THROUGH}; got {receiver}, {through!r}"
        )
    if clean.shape != corrupted.shape:
        raise ValueError(
            f"the prompts must have as many tokens, or their parts do not align: clean has "
            f"{len(clean)}, corrupted {len(corrupted)}. Choose words of equally many tokens"
        )
    index = head  # of the receiver's query, key or value among those of its layer
    if through != "q" and config.kv_heads is not None:
        index = head // (config.heads // config.kv_heads)

    with evaluating(model):
        clean_states, corrupted_states = _run(model, clean), _run(model, corrupted)
        clean_metric = metric(_last_logits(model, clean_states[-1]))
        corrupted_metric = metric(_last_logits(model, corrupted_states[-1]))
        if (clean_metric - corrupted_metric).abs() < 1e-6:
            raise ValueError(
                f"the metric is {clean_metric.item():.4g} for both prompts: there is nothing to "
                "restore"
            )
        stream = corrupted_states[layer].resid_pre  # (1, T, d_model)
        patched_metrics = []
        for sender in range(layer):
            # Each of H streams has one head of the sender's layer write as in the clean run.
            change = _change_by_head(
                _block(model, sender), clean_states[sender], corrupted_states[sender]
            )  # (H, T, d_model)
            receiver_state = next(model.run(stream + change, first=layer))
            edit = _replaced(getattr(receiver_state, through), index)
            corrupted_streams = stream.expand(config.heads, -1, -1)
            *_, last = model.run(corrupted_streams, edits={(through, layer): edit}, first=layer)
            patched_metrics.append(metric(_last_logits(model, last)))
        effects = torch.stack(patched_metrics) - corrupted_metric
        return effects / (clean_metric - corrupted_metric)


def _change_by_head(block: Block, clean: LayerState, corrupted: LayerState) -> Tensor:
    """By how much `attn_out` changes if one head writes as in the clean run: (H, T, d_model)."""
    change = (clean.z - corrupted.z)[0] @ block.attention.W_O
    if isinstance(block.norm_1_after, nn.Identity):
        return change
    written = block.attention.write(corrupted.z)  # before the norm that follows
    changed: Tensor = block.norm_1_after(written + change)
    return changed - corrupted.attn_out


def _replaced(part: Tensor, index: int) -> Callable[[Tensor], Tensor]:
    """The edit that exchanges one head, or one shared key or value, for a part (B, H, T, d)."""

    def edit(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, index] = part[:, index]
        return x

    return edit


# --- both -------------------------------------------------------------------------------------


def _run(model: Transformer, ids: Tensor) -> list[LayerState]:
    """What each layer does with a prompt (T,)."""
    if model.W_U is None or model.config.norm == "post":
        raise ValueError(
            'this needs a model with an unembedding, and no norms after its additions (norm="post")'
        )
    if ids.ndim != 1 or len(ids) == 0:
        raise ValueError(f"a prompt is a tensor of at least one id, (T,), got {tuple(ids.shape)}")
    return list(model.run(model.embed(ids[None].to(model.W_E.device))))


def _block(model: Transformer, layer: int) -> Block:
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block


def _last_logits(model: Transformer, last: LayerState) -> Tensor:
    """Logits (B, D) of the last token, from what the last layer did."""
    return model.unembed(model.final_norm(last.resid_post[:, -1]))
