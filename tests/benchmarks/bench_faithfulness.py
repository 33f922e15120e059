"""How fast are the tests of chapter 07 over the whole Rotten Tomatoes test set?

    python tests/benchmarks/bench_faithfulness.py

First the adversary for all texts at once against a loop that takes one at a time, per text; then
the whole set of tests for one BiLSTM, whose training is not counted.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from attnlib.data import reviews
from attnlib.explain.adversary import adversarial_attention
from attnlib.explain.faithfulness import kendall, permutation_shift
from attnlib.explain.saliency import gradient_times_input, leave_one_out
from attnlib.models import AttentionClassifier, ClassifierOutput
from attnlib.training.classification import (
    Examples,
    classify_all,
    examples,
    fit_classifier,
    predict,
    vocabulary,
)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and its seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def adversaries(
    model: AttentionClassifier, data: Examples, found: ClassifierOutput, count: int
) -> tuple[float, float]:
    """Seconds per text, all at once and one at a time; the loop does the first `count` texts."""
    _, together = timed(
        lambda: adversarial_attention(model.predictor(found.states), found.attention, data.mask)
    )

    def loop() -> None:
        for i in range(count):
            length = int(data.mask[i].sum())
            states, alpha = found.states[i : i + 1, :length], found.attention[i : i + 1, :length]
            adversarial_attention(model.predictor(states), alpha, data.mask[i : i + 1, :length])

    return together / len(data), timed(loop)[1] / count


def main() -> None:
    """Print the ratio, then a line for each test and their sum; stop if the sum passes a minute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", type=int, default=10, help="texts that the loop takes")
    parser.add_argument("--epochs", type=float, default=0.5, help="of training before")
    options = parser.parse_args()
    words, source = vocabulary("rotten_tomatoes"), reviews("rotten_tomatoes")
    torch.manual_seed(0)
    model = AttentionClassifier(len(words))
    train = examples(source.train, words)
    fit_classifier(model, train, options.epochs, lr=2e-3, progress=False)
    data = examples(source.test, words)
    found = classify_all(model, data)
    once, one = adversaries(model, data, found, options.loop)
    print(
        f"adversary, per text: all at once {1e3 * once:.1f} ms, one at a time {1e3 * one:.0f} ms, "
        f"ratio {one / once:.0f}x"
    )
    score = model.scorer(data.mask, detach=True)
    importance, seconds = timed(
        lambda: gradient_times_input(score, model.embed(data.ids), data.mask).abs()
    )
    total = [("gradient importance", seconds)]
    left_out, seconds = timed(lambda: leave_one_out(predict(model), data.ids, data.mask).abs())
    total.append(("leave one out", seconds))
    works: dict[str, Callable[[], Any]] = {
        "τ with both": lambda: [
            kendall(found.attention, other, data.mask).significant()
            for other in (importance, left_out)
        ],
        "100 permutations": lambda: permutation_shift(
            model.predictor(found.states), found.attention, data.mask
        ),
    }
    total += [(name, timed(work)[1]) for name, work in works.items()]
    total.append(("adversary", once * len(data)))
    for name, seconds in total:
        print(f"  {name:<20} {seconds:6.1f} s")
    every = sum(seconds for _, seconds in total)
    print(f"all, {len(data)} texts: {every:.1f} s")
    if every > 60:
        raise SystemExit("more than a minute")


if __name__ == "__main__":
    main()
