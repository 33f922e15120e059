"""How fast are circuits read: ours against a plain loop over heads.

    python tests/benchmarks/bench_circuits.py

The plain loop makes each table as a whole, as one would from the formula. Both sides hold the same
weights and must find the same numbers.
"""

from typing import Any

import torch
from timing import Pair, compare, option
from torch import Tensor

from attnlib.explain import circuits
from attnlib.models import Transformer, TransformerConfig

VOCABULARY, WIDTH, LAYERS, HEADS, PERIOD, ROWS = 4096, 128, 2, 4, 60, 32


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
    ids = torch.randint(VOCABULARY, (ROWS, PERIOD), generator=generator).repeat(1, 2)

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


@torch.no_grad()
def main() -> None:
    """Print a line of times for each comparison."""
    n = option("repetitions", 10)
    torch.manual_seed(0)
    config = TransformerConfig(VOCABULARY, WIDTH, LAYERS, HEADS, norm="none")
    model = Transformer(config).eval()
    print(f"{LAYERS} layers, {HEADS} heads, d_model {WIDTH}, D {VOCABULARY}")
    compare("copying scores of 4 heads, 512 tokens", copying(model), n, "plain")
    compare("induction scores of 8 heads", induction(model), n, "plain")


if __name__ == "__main__":
    main()
