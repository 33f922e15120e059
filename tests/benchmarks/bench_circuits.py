"""How fast, and in how much memory, are circuits read: ours against a plain loop over heads.

    python tests/benchmarks/bench_circuits.py

The plain loop multiplies W_V W_O and W_Q W_Kᵀ out and makes each D × D table as a whole, as one
would from the formula. Both sides hold the same weights and must find the same entries. Peak memory
is what a process of its own needed on top of the weights.
"""

import argparse
import multiprocessing
import resource
from collections.abc import Callable
from typing import Any

import torch
from bench_layer import Pair, compare
from torch import Tensor

from attnlib.explain import circuits
from attnlib.models import Transformer, TransformerConfig

VOCABULARY, WIDTH, LAYERS, HEADS, PERIOD, ROWS, TOP = 4096, 128, 2, 4, 60, 32, 100


def entries(model: Any) -> Pair:
    """The 100 largest entries of the OV and of the QK table of every head of the first layer."""
    a, W_E, W_U = model.blocks[0].attention, model.W_E, model.W_U

    def ours() -> Tensor:
        found = []
        for h in range(HEADS):
            for left, right in (
                (W_E @ a.W_V[h], a.W_O[h] @ W_U),
                (W_E @ a.W_Q[h], (W_E @ a.W_K[h]).T / a.W_Q.shape[-1] ** 0.5),
            ):
                found.append(circuits.largest_entries(left, right, TOP)[0])
        return torch.stack(found)

    def plain() -> Tensor:
        found = []
        for h in range(HEADS):
            ov = W_E @ (a.W_V[h] @ a.W_O[h]) @ W_U
            qk = W_E @ (a.W_Q[h] @ a.W_K[h].T) @ W_E.T / a.W_Q.shape[-1] ** 0.5
            found += [ov.flatten().topk(TOP).values, qk.flatten().topk(TOP).values]
        return torch.stack(found)

    torch.testing.assert_close(ours(), plain(), atol=1e-3, rtol=1e-3)
    return ours, plain


def copying(model: Any) -> Pair:
    """Copying scores of a layer; the plain way takes eigenvalues of a table of 512 tokens only."""
    a, few = model.blocks[0].attention, model.W_E[:512]

    def ours() -> Tensor:
        return circuits.copying_score(
            circuits.product_eigenvalues(few @ a.W_V, a.W_O @ model.W_U[:, :512])
        )

    def plain() -> Tensor:
        tables = [few @ a.W_V[h] @ a.W_O[h] @ model.W_U[:, :512] for h in range(HEADS)]
        values = [torch.linalg.eigvals(table) for table in tables]
        return torch.stack([v.sum().real / v.abs().sum() for v in values])

    torch.testing.assert_close(ours(), plain(), atol=1e-2, rtol=1e-2)
    return ours, plain


def induction(model: Any) -> Pair:
    """Induction scores of all heads on random tokens that repeat, forward pass included."""
    generator = torch.Generator().manual_seed(0)
    ids = circuits.repeated_tokens(ROWS, PERIOD, 2 * PERIOD, VOCABULARY, generator)

    def maps() -> list[Tensor]:
        return [state.attention for state in model.run(model.embed(ids), need_weights=True)]

    def ours() -> Tensor:
        scores = [circuits.offset_score(A, PERIOD - 1, PERIOD).mean(0) for A in maps()]
        return torch.stack(scores)

    def plain() -> Tensor:
        scores = torch.zeros(LAYERS, HEADS)
        for layer, A in enumerate(maps()):
            for h in range(HEADS):
                for row in A[:, h]:
                    scores[layer, h] += row.diagonal(1 - PERIOD)[1:].mean() / ROWS
        return scores

    torch.testing.assert_close(ours(), plain(), atol=1e-5, rtol=1e-4)
    return ours, plain


def peak(work: Callable[[], Any]) -> float:
    """Megabytes that a forked process needs for the work, above what it began with."""
    here = multiprocessing.get_context("fork")
    queue = here.SimpleQueue()

    def measure() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with torch.no_grad():
            work()
        queue.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)

    process = here.Process(target=measure)
    process.start()
    process.join()
    megabytes: float = queue.get()
    return megabytes


@torch.no_grad()
def main() -> None:
    """Print a line of times for each comparison, and one of memory for the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    n = parser.parse_args().repetitions
    torch.manual_seed(0)
    config = TransformerConfig(VOCABULARY, WIDTH, LAYERS, HEADS, norm="none")
    model = Transformer(config).eval()
    print(f"{LAYERS} layers, {HEADS} heads, d_model {WIDTH}, D {VOCABULARY}")
    # memory first: a process forked later would begin with the peak of the comparisons
    a = model.blocks[0].attention
    left, right = model.W_E @ a.W_V[0], a.W_O[0] @ model.W_U
    ours = peak(lambda: circuits.largest_entries(left, right, TOP))
    plain = peak(lambda: (model.W_E @ (a.W_V[0] @ a.W_O[0]) @ model.W_U).flatten().topk(TOP))
    print(f"peak memory of one OV table: ours {ours:.0f} MB, plain {plain:.0f} MB")
    compare("OV and QK tables of 4 heads, largest entries", entries(model), n, "plain")
    compare("copying scores of 4 heads, 512 tokens", copying(model), n, "plain")
    compare("induction scores of 8 heads", induction(model), n, "plain")


if __name__ == "__main__":
    main()
