"""What a prediction hangs on, as one run of a model tells: the logit lens, and direct attribution.

Both are for a `Transformer` with an unembedding and norms before its blocks (or none), and for one
prompt. How parts of one run are put into another stands in chapter 15: with `edits`, or from a
layer on with `Transformer.run(x, first=…)`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnlib.models.block import LayerState
from attnlib.models.evaluation import evaluating
from attnlib.models.transformer import Transformer


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


def _run(model: Transformer, ids: Tensor) -> tuple[Tensor, list[LayerState]]:
    if model.W_U is None or model.config.norm == "post":
        raise ValueError("this needs a model with an unembedding, and norms before its blocks")
    if ids.ndim != 1 or len(ids) == 0:
        raise ValueError(f"a prompt is a tensor of at least one id, (T,), got {tuple(ids.shape)}")
    x = model.embed(ids[None])
    return x, list(model.run(x))


def _logits(model: Transformer, x: Tensor) -> Tensor:
    logits: Tensor = model.final_norm(x) @ model.W_U
    return logits


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
