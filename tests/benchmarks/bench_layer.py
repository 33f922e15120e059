"""How fast are our attention layer, training step and loss, against torch's own, in one run?

    python tests/benchmarks/bench_layer.py

Both sides of a comparison hold the same numbers and take turns, so that a machine that slows
down slows both. Shown are the median times and their ratio; below 1 ours is faster.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlib.attention import MultiHeadAttention
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import next_token_loss

BATCH, LENGTH, WIDTH, HEADS, HIDDEN, VOCABULARY = 32, 128, 128, 4, 512, 4096
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def compare(name: str, pair: Pair, repetitions: int, reference: str = "torch") -> float:
    """Run ours and theirs by turns, print one line, return the ratio of the medians."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for work in pair:
        work()  # what happens only once is not counted
    for _ in range(repetitions):
        for work, times in zip(pair, seconds, strict=True):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    ours, theirs = (1e3 * median(times) for times in seconds)
    times = f"ours {ours:7.1f} ms   {reference} {theirs:7.1f} ms"
    print(f"{name:<44} {times}   ratio {ours / theirs:.2f}x")
    return ours / theirs


def attention_layers(need_weights: bool) -> Pair:
    """Causal self-attention, no gradient: ours against `torch.nn.MultiheadAttention`."""
    ours = MultiHeadAttention(WIDTH, HEADS, bias=True).eval()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    share_attention(ours, theirs)
    x, forbidden = torch.randn(BATCH, LENGTH, WIDTH), later(LENGTH)

    @torch.no_grad()
    def run_ours() -> Tensor:
        return ours(x, causal=True, need_weights=need_weights)[0]

    @torch.no_grad()
    def run_theirs() -> Tensor:
        return theirs(
            x,
            x,
            x,
            attn_mask=forbidden,
            is_causal=not need_weights,
            need_weights=need_weights,
            average_attn_weights=False,
        )[0]

    torch.testing.assert_close(run_ours(), run_theirs(), atol=1e-4, rtol=1e-4)
    return run_ours, run_theirs


def training_steps() -> Pair:
    """One pre-norm layer, embeddings and logits: loss, gradient and AdamW step."""
    config = TransformerConfig(
        VOCABULARY, WIDTH, heads=HEADS, d_ff=HIDDEN, max_len=LENGTH, bias=True
    )
    ours, theirs = Transformer(config), Theirs(config)
    share_model(ours, theirs)
    window = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    losses = (lambda: next_token_loss(ours, window), lambda: plain_loss(theirs, window))
    torch.testing.assert_close(losses[0](), losses[1](), atol=1e-4, rtol=1e-4)

    def step_of(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def step() -> None:
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        return step

    return step_of(ours, losses[0]), step_of(theirs, losses[1])


def layer_steps() -> Pair:
    """The layer alone, forward and backward: ours against `torch.nn.TransformerEncoderLayer`."""
    config = TransformerConfig(
        VOCABULARY, WIDTH, heads=HEADS, d_ff=HIDDEN, max_len=LENGTH, bias=True
    )
    ours, theirs = Transformer(config), Theirs(config)
    share_model(ours, theirs)
    x, forbidden = torch.randn(BATCH, LENGTH, WIDTH), later(LENGTH)

    def run_ours() -> Tensor:
        y: Tensor = ours.blocks[0](x, None, need_weights=False)[0]
        y.sum().backward()
        return y

    def run_theirs() -> Tensor:
        y: Tensor = theirs.layer(x, src_mask=forbidden, is_causal=True)
        y.sum().backward()
        return y

    torch.testing.assert_close(run_ours(), run_theirs(), atol=1e-4, rtol=1e-4)
    return run_ours, run_theirs


def losses(dtype: torch.dtype) -> Pair:
    """The loss and its gradients, in pieces against all logits at once."""
    model = Given(torch.randn(BATCH, LENGTH, WIDTH), torch.randn(WIDTH, VOCABULARY) / WIDTH**0.5)
    window = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))

    def run_ours() -> None:
        next_token_loss(model, window, dtype).backward()

    def run_theirs() -> None:
        logits = (model.states.to(dtype) @ model.W_U.to(dtype)).float()
        F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten()).backward()

    return run_ours, run_theirs


class Theirs(nn.Module):
    """The same language model from torch's own parts."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, WIDTH)
        self.places = nn.Embedding(config.max_len, WIDTH)
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.unembed = nn.Linear(WIDTH, config.vocab_size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, D)."""
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        x = self.layer(x, src_mask=later(ids.shape[1]), is_causal=True)
        logits: Tensor = self.unembed(self.norm(x))
        return logits


class Given(nn.Module):
    """Hidden states that are parameters, so that only the loss is timed."""

    def __init__(self, states: Tensor, W_U: Tensor) -> None:
        super().__init__()
        self.states, self.W_U = nn.Parameter(states), nn.Parameter(W_U)

    def hidden(self, ids: Tensor) -> Tensor:
        """(B, T, d)."""
        return self.states


def later(n: int) -> Tensor:
    """torch's mask: True where a query may *not* attend."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def plain_loss(model: nn.Module, window: Tensor) -> Tensor:
    """Cross-entropy of all logits at once."""
    logits = model(window[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())


@torch.no_grad()
def share_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Give torch's layer our weights."""
    matrices = (ours.W_Q, ours.W_K, ours.W_V)
    theirs.in_proj_weight.copy_(torch.cat([W.mT.flatten(0, 1) for W in matrices]))
    theirs.out_proj.weight.copy_(ours.W_O.flatten(0, 1).T)


@torch.no_grad()
def share_model(ours: Transformer, theirs: Theirs) -> None:
    """Give torch's model our weights; biases and norms start alike."""
    block, layer = ours.blocks[0], theirs.layer
    share_attention(block.attention, layer.self_attn)
    layer.linear1.weight.copy_(block.feed_forward.W_1.T)
    layer.linear2.weight.copy_(block.feed_forward.W_2.T)
    for bias in (layer.linear1.bias, layer.linear2.bias):
        bias.zero_()
    theirs.tokens.weight.copy_(ours.W_E)
    theirs.places.weight.copy_(ours.W_P)
    theirs.unembed.weight.copy_(ours.W_U.T)


def main() -> None:
    """Print one line per comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=30)
    n = parser.parse_args().repetitions
    torch.manual_seed(0)
    print(
        f"batch {BATCH} x {LENGTH}, d_model {WIDTH}, {HEADS} heads, d_ff {HIDDEN}, D {VOCABULARY}"
    )
    compare("attention layer, fused kernel", attention_layers(need_weights=False), n)
    compare("attention layer, with weights", attention_layers(need_weights=True), n)
    compare("transformer layer, forward and backward", layer_steps(), n)
    compare("training step of a one-layer model", training_steps(), n)
    compare("loss and its gradients, float32", losses(torch.float32), n)
    compare("loss and its gradients, bfloat16", losses(torch.bfloat16), n)


if __name__ == "__main__":
    main()
