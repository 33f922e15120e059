"""How fast does our GPT train and write, on the same weights as its references?

    python tests/benchmarks/bench_gpt.py

Four layers, four heads, d_model 128, vocabulary 4,096. A step of training is measured against a
`PlainGPT`, as one writes it in torch when nobody wants to look inside, and against GPT-2 of
`transformers`, with which the decoding is compared, too. All take turns, so that a machine that
slows down slows all. Shown are medians and their ratio. Then the share of the machine's peak that a
training step reaches, where the peak is that of one large matrix product in the same run.
"""

import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from timing import Pair, compare, option, timed
from torch import Tensor, nn
from torch.nn import functional as F
from twins import gpt2

from attnlib.decoding import generate, greedy
from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.conversion import convert
from attnlib.training import next_token_loss
from recipes.language import GPT

BATCH, LENGTH, WIDTH, VOCABULARY, NEW = 32, GPT["max_len"], GPT["d_model"], 4096, 120


class PlainBlock(nn.Module):
    """A layer of `PlainGPT`: one matrix for queries, keys and values, and the fused kernel."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.norm_2 = nn.LayerNorm(d_model)
        self.up = nn.Linear(d_model, 4 * d_model)
        self.down = nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, d_model) to the same shape."""
        B, T, d_model = x.shape
        parts = self.qkv(self.norm_1(x)).split(d_model, dim=-1)
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in parts)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(z.transpose(1, 2).reshape(B, T, d_model))
        hidden = F.gelu(self.up(self.norm_2(x)), approximate="tanh")
        y: Tensor = x + self.down(hidden)
        return y


class PlainGPT(nn.Module):
    """GPT-2 in idiomatic torch, without a way to look inside."""

    def __init__(self, vocab_size: int, d_model: int, layers: int, heads: int, max_len: int):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.Sequential(*(PlainBlock(d_model, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, D) of ids (B, T)."""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


@torch.no_grad()
def plain(ours: Any) -> Any:
    """A `PlainGPT` with our weights: transposed, and the heads side by side in one matrix."""
    twin = PlainGPT(VOCABULARY, WIDTH, GPT["layers"], GPT["heads"], LENGTH)
    twin.tokens.weight.copy_(ours.W_E)
    twin.positions.weight.copy_(ours.W_P)
    twin.norm.load_state_dict(ours.final_norm.state_dict())
    for theirs, block in zip(twin.blocks, ours.blocks, strict=True):
        heads, hidden = block.attention, block.feed_forward
        theirs.norm_1.load_state_dict(block.norm_1.state_dict())
        theirs.norm_2.load_state_dict(block.norm_2.state_dict())
        matrices = [W.mT.flatten(0, 1) for W in (heads.W_Q, heads.W_K, heads.W_V)]
        biases = [b.flatten() for b in (heads.b_Q, heads.b_K, heads.b_V)]
        copies = {
            theirs.qkv.weight: torch.cat(matrices),
            theirs.qkv.bias: torch.cat(biases),
            theirs.out.weight: heads.W_O.flatten(0, 1).T,
            theirs.out.bias: heads.b_O,
            theirs.up.weight: hidden.W_1.T,
            theirs.up.bias: hidden.b_1,
            theirs.down.weight: hidden.W_2.T,
            theirs.down.bias: hidden.b_2,
        }
        for to, value in copies.items():
            to.copy_(value)
    return twin.train()


def both() -> tuple[Transformer, nn.Module]:
    """Our model with the weights of `transformers`' GPT-2, and that one."""
    config = TransformerConfig(VOCABULARY, **GPT)
    ours = Transformer(config)
    drop: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    theirs = gpt2(config, bos_token_id=VOCABULARY - 1, eos_token_id=None, **drop).train()
    ours.load_state_dict(convert(theirs.transformer.state_dict(), config, "gpt2"))
    return ours, theirs


def training_steps(reference: str) -> Pair:
    """Loss, gradient, clipping and AdamW step: ours against "plain GPT" or "transformers"."""
    ours, gpt = both()
    theirs = plain(ours) if reference == "plain GPT" else gpt
    window = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))

    def their_loss() -> Tensor:
        output = theirs(window[:, :-1])
        logits = output if isinstance(output, Tensor) else output.logits
        return F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())

    torch.testing.assert_close(next_token_loss(ours, window), their_loss(), atol=1e-4, rtol=1e-4)
    return step_of(ours, lambda: next_token_loss(ours, window)), step_of(theirs, their_loss)


def step_of(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """One step of training."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def flops(model: Transformer) -> float:
    """Multiplications and additions of the matrix products in one training step.

    A token meets every matrix once (the tied W_E as the unembedding) and on average half of the
    LENGTH tokens, twice. A weight costs two operations forward and twice as many backward.
    """
    matrices = sum(p.numel() for p in model.parameters() if p.ndim > 1) - model.W_P.numel()
    looks = model.config.layers * WIDTH * LENGTH
    return 6.0 * BATCH * LENGTH * (matrices + looks)


def share_of_peak(repetitions: int, size: int = 1024) -> tuple[float, float]:
    """The operations per second of a training step, and those of a product of two matrices."""
    window, (ours, _) = torch.randint(VOCABULARY, (BATCH, LENGTH + 1)), both()
    left, right = torch.randn(size, size), torch.randn(size, size)
    works: dict[Callable[[], Any], float] = {
        step_of(ours, lambda: next_token_loss(ours, window)): flops(ours),
        lambda: left @ right: 2.0 * size**3,
    }
    speeds: list[list[float]] = [[], []]
    for _ in range(repetitions):
        for (work, operations), measured in zip(works.items(), speeds, strict=True):
            measured.append(operations / timed(work)[1])
    return median(speeds[0]), max(speeds[1])


def decoders(sample: bool) -> Pair:
    """120 tokens after one, with cached keys and values: greedy, or sampled from a nucleus."""
    ours, theirs = (model.eval() for model in both())
    prompt = torch.tensor([17])

    def run_ours() -> Any:
        return generate(ours, prompt, NEW, top_p=0.9) if sample else greedy(ours, prompt, NEW)

    def run_theirs() -> Tensor:
        settings = {"do_sample": True, "top_p": 0.9, "top_k": 0} if sample else {"do_sample": False}
        text: Tensor = theirs.generate(
            prompt[None], max_new_tokens=NEW, pad_token_id=0, **settings
        )[0]
        return text

    if not sample:
        assert torch.equal(run_ours(), run_theirs())
    return run_ours, run_theirs


def main() -> None:
    """Print one line per comparison."""
    n = option("repetitions", 20)
    warnings.filterwarnings("ignore", module="transformers")
    torch.manual_seed(0)
    print(f"batch {BATCH} x {LENGTH}, 4 layers, 4 heads, d_model {WIDTH}, D {VOCABULARY}")
    for reference in ("plain GPT", "transformers"):
        compare("training step", training_steps(reference), n, reference)
    speed, peak = share_of_peak(n)
    print(
        f"training step, {torch.get_num_threads()} threads: {speed / 1e9:.0f} GFLOP/s, "
        f"a matrix product {peak / 1e9:.0f}, share of the peak {speed / peak:.0%}"
    )
    for name, sample in (("greedy", False), ("nucleus", True)):
        ratio = compare(f"{NEW} cached tokens, {name}", decoders(sample), n, "transformers")
        print(f"{'':<44} tokens/s, ours over theirs: {1 / ratio:.2f}x")


if __name__ == "__main__":
    main()
