"""How fast are our attention layer, transformer layer and loss, against torch's own, in one run?

    python tests/benchmarks/bench_layer.py

Both sides of a comparison hold the same numbers and take turns, so that a machine that slows
down slows both. Shown are the median times and their ratio; below 1 ours is faster.
"""

import torch
from timing import Pair, compare, option
from tiny import Given
from torch import Tensor
from torch.nn import functional as F
from twins import attention_twin, layer_twin

from attnlib.attention import MultiHeadAttention
from attnlib.models import TransformerConfig
from attnlib.models.transformer import Block
from attnlib.training import next_token_loss

BATCH, LENGTH, WIDTH, HEADS, HIDDEN, VOCABULARY = 32, 128, 128, 4, 512, 4096


def attention_layers(need_weights: bool) -> Pair:
    """Causal self-attention, no gradient: ours against `torch.nn.MultiheadAttention`."""
    ours = MultiHeadAttention(WIDTH, HEADS, bias=True).eval()
    theirs = attention_twin(ours)
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


def layer_steps() -> Pair:
    """The layer alone, forward and backward: ours against `torch.nn.TransformerEncoderLayer`."""
    config = TransformerConfig(
        VOCABULARY, WIDTH, heads=HEADS, d_ff=HIDDEN, max_len=LENGTH, bias=True
    )
    ours = Block(config)
    theirs = layer_twin(ours)
    x, forbidden = torch.randn(BATCH, LENGTH, WIDTH), later(LENGTH)

    def run_ours() -> Tensor:
        y: Tensor = ours(x).resid_post
        y.sum().backward()
        return y

    def run_theirs() -> Tensor:
        y: Tensor = theirs(x, src_mask=forbidden, is_causal=True)
        y.sum().backward()
        return y

    torch.testing.assert_close(run_ours(), run_theirs(), atol=1e-4, rtol=1e-4)
    return run_ours, run_theirs


def losses() -> Pair:
    """The loss and its gradients, in pieces against all logits at once."""
    model = Given(torch.randn(BATCH, LENGTH, WIDTH), torch.randn(WIDTH, VOCABULARY) / WIDTH**0.5)
    window = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))

    def run_ours() -> None:
        next_token_loss(model, window).backward()

    def run_theirs() -> None:
        logits = F.linear(model.states, model.W_U.T)
        F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten()).backward()

    return run_ours, run_theirs


def later(n: int) -> Tensor:
    """torch's mask: True where a query may *not* attend."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def main() -> None:
    """Print one line per comparison."""
    n = option("repetitions", 30)
    torch.manual_seed(0)
    print(
        f"batch {BATCH} x {LENGTH}, d_model {WIDTH}, {HEADS} heads, d_ff {HIDDEN}, D {VOCABULARY}"
    )
    compare("attention layer, fused kernel", attention_layers(need_weights=False), n)
    compare("attention layer, with weights", attention_layers(need_weights=True), n)
    compare("transformer layer, forward and backward", layer_steps(), n)
    compare("loss and its gradients", losses(), n)


if __name__ == "__main__":
    main()
