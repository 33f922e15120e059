"""How fast does our GPT train and write, against GPT-2 of `transformers`, on the same weights?

    python tests/benchmarks/bench_gpt.py

Four layers, four heads, d_model 128, vocabulary 4,096. Both sides take turns, so that a machine
that slows down slows both. Shown are medians and their ratio. Then the share of the machine's peak
that a training step reaches, where the peak is that of one large matrix product in the same run.
"""

import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from timing import Pair, compare, option, timed
from torch import Tensor, nn
from twins import gpt2

from attnlib.decoding import generate, greedy
from attnlib.models import Transformer, TransformerConfig
from attnlib.pretrained.conversion import convert
from attnlib.training import next_token_loss
from recipes.language import GPT

BATCH, LENGTH, WIDTH, VOCABULARY, NEW = 32, GPT["max_len"], GPT["d_model"], 4096, 120


def both() -> tuple[Transformer, nn.Module]:
    """Our model with their weights, and theirs."""
    config = TransformerConfig(VOCABULARY, **GPT)
    ours = Transformer(config)
    drop: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    theirs = gpt2(config, bos_token_id=VOCABULARY - 1, eos_token_id=None, **drop).train()
    ours.load_state_dict(convert(theirs.transformer.state_dict(), config, "gpt2"))
    return ours, theirs


def training_steps(dtype: torch.dtype) -> Pair:
    """Loss, gradient, clipping and AdamW step; `dtype` is that of our products with W_U."""
    ours, theirs = both()
    window = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))

    def their_loss() -> Tensor:
        ids = window[:, :-1]
        logits = theirs(ids).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())

    torch.testing.assert_close(next_token_loss(ours, window), their_loss(), atol=1e-4, rtol=1e-4)
    return (
        step_of(ours, lambda: next_token_loss(ours, window, dtype)),
        step_of(theirs, their_loss),
    )


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
    one, other = torch.randn(size, size), torch.randn(size, size)
    works: dict[Callable[[], Any], float] = {
        step_of(ours, lambda: next_token_loss(ours, window)): flops(ours),
        lambda: one @ other: 2.0 * size**3,
    }
    speeds: list[list[float]] = [[], []]
    for _ in range(repetitions):
        for (work, operations), found in zip(works.items(), speeds, strict=True):
            found.append(operations / timed(work)[1])
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
    compare("training step, float32", training_steps(torch.float32), n, "transformers")
    compare("training step, bfloat16 logits", training_steps(torch.bfloat16), n, "transformers")
    speed, peak = share_of_peak(n)
    print(
        f"training step, float32, {torch.get_num_threads()} threads: {speed / 1e9:.0f} GFLOP/s, "
        f"a matrix product {peak / 1e9:.0f}, share of the peak {speed / peak:.0%}"
    )
    for name, sample in (("greedy", False), ("nucleus", True)):
        ratio = compare(f"{NEW} cached tokens, {name}", decoders(sample), n, "transformers")
        print(f"{'':<44} tokens/s, ours over theirs: {1 / ratio:.2f}x")


if __name__ == "__main__":
    main()
