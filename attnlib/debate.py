"""The tests of Jain and Wallace (2019) for one classifier, over a whole split.

`gradients` runs their gradient measure in batches, `examine` runs everything: one row of the table
of chapter 07.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib.adversary import Adversary, adversarial_attention
from attnlib.classifiers import AttentionClassifier, Reading
from attnlib.classify import Examples, accuracy, predict, read_all
from attnlib.faithfulness import Agreement, kendall, permutation_shift
from attnlib.saliency import gradient_importance, leave_one_out


@dataclass(frozen=True)
class Examined:
    """What the tests say about one classifier.

    Attributes:
        accuracy: share of right answers.
        reading: predictions, attention (N, T), states.
        gradients: gradient importance, the attention held fixed, (N, T).
        left_out: |ŷ − ŷ₋ₜ|, (N, T).
        attention_gradient, attention_left_out, gradient_left_out: Kendall's τ of two of them in
            each text, without its first and last word.
        shift: median |Δŷ| over random orders of the weights, (N,).
        adversary: other weights for the same predictions.
    """

    accuracy: float
    reading: Reading
    gradients: Tensor
    left_out: Tensor
    attention_gradient: Agreement
    attention_left_out: Agreement
    gradient_left_out: Agreement
    shift: Tensor
    adversary: Adversary


def gradients(model: AttentionClassifier, data: Examples, batch_size: int = 256) -> Tensor:
    """Gradient importance of every token of a split, (N, T), with the attention held fixed.

    Rows sum to 1; padding gets 0.
    """
    rows = []
    for part in torch.arange(len(data)).split(batch_size):
        batch = data.take(part)
        score = model.scorer(batch.mask, detach=True)
        found = gradient_importance(score, model.embed(batch.ids), batch.mask)
        rows.append(F.pad(found, (0, data.ids.shape[1] - found.shape[1])))
    return torch.cat(rows)


def examine(
    model: AttentionClassifier,
    data: Examples,
    permutations: int = 100,
    epsilon: float = 0.05,
    starts: int = 3,
    steps: int = 150,
    seed: int = 0,
) -> Examined:
    """All tests for one classifier.

    Args:
        model: the classifier, in evaluation mode.
        data: the texts.
        permutations: random orders of the weights.
        epsilon, starts, steps: of the adversary, see `adversarial_attention`.
        seed: of both.
    """
    found, mask = read_all(model, data), data.mask
    alpha, follow = found.attention, model.predictor(found.states)
    by_gradient = gradients(model, data)
    left_out = leave_one_out(predict(model), data.ids, mask).abs()
    return Examined(
        accuracy(model, data),
        found,
        by_gradient,
        left_out,
        kendall(alpha, by_gradient, mask, inner=True),
        kendall(alpha, left_out, mask, inner=True),
        kendall(by_gradient, left_out, mask, inner=True),
        permutation_shift(follow, alpha, mask, permutations, seed),
        adversarial_attention(follow, alpha, mask, epsilon, starts, steps, seed=seed),
    )
