"""What can be read out of states, and by whom: probes, their control task, their code length.

A probe is a small classifier on the states of a frozen model. What it finds may be in the states,
or in the probe. The control task tells (Hewitt and Liang 2019): random labels, one for each type of
word, are in no state, so whoever predicts them has learned words by heart. The code length counts
the effort as well (Voita and Titov 2020): the bits to send the labels to somebody who has the
states, with a probe that is trained on what was sent so far.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnlib.models.initial import uniform
from attnlib.training.loop import fit, shuffled

# Shares of the data at which a block ends and the probe is trained anew (Voita and Titov 2020).
ENDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


class Probe(nn.Module):
    """P probes side by side, one for each layer, say; they share nothing.

    Each is linear, or has one hidden layer of ReLUs, and reads every coordinate of its states in
    units of that coordinate's spread.

    Args:
        states: what it will be trained on, (N, P, d), for their mean and standard deviation.
        classes: K.
        width: of the hidden layer, 0 for none.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, states: Tensor, classes: int, width: int = 0) -> None:
        super().__init__()
        _, P, d = states.shape
        self.register_buffer("mean", states.mean(0))
        self.register_buffer("scale", states.std(0, correction=0).clamp_min(1e-6))
        widths = (d, width, classes) if width else (d, classes)
        pairs = list(pairwise(widths))
        self.W = nn.ParameterList(uniform(P, a, b, width=a) for a, b in pairs)
        self.b = nn.ParameterList(torch.zeros(P, 1, b) for _, b in pairs)

    def forward(self, states: Tensor) -> Tensor:
        """Logits (N, P, K) of states (N, P, d)."""
        x = ((states - self.mean) / self.scale).transpose(0, 1)
        for number, (W, b) in enumerate(zip(self.W, self.b, strict=True)):
            x = torch.baddbmm(b, x.relu() if number else x, W)
        return x.transpose(0, 1)


def train_probe(
    states: Tensor, labels: Tensor, classes: int, width: int = 0, seed: int = 0, passes: int = 4
) -> Probe:
    """Probes that learn to tell labels from states, which stay as they are.

    AdamW on batches of 256, with a weight decay of 0.1 and a rate that falls from 0.01 to a tenth,
    over the data a few times and for 60 steps at least.

    Args:
        states: (N, P, d); no gradient goes back into them.
        labels: from 0 to K − 1, (N, P), or (N,) if they are the same for all P.
        classes: K.
        width: of the hidden layer, 0 for linear probes.
        seed: of the first weights and the order.
        passes: over the data.
    """
    settings: dict[str, Any] = {"lr": 1e-2, "weight_decay": 0.1, "clip": math.inf}
    states, steps = states.detach(), max(60, passes * math.ceil(len(states) / 256))
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        probe = Probe(states, classes, width)
        batch = shuffled((states, _for_each(labels, states)), 256, seed)
        fit(probe, batch, _loss, steps=steps, seed=seed, progress=False, **settings)
    return probe


def _for_each(labels: Tensor, states: Tensor) -> Tensor:
    """Labels (N, P) for states (N, P, d)."""
    return labels if labels.ndim == 2 else labels[:, None].expand(states.shape[:2])


def _loss(probe: Probe, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The sum of all probes' mean losses, so that each learns as if it were alone."""
    states, labels = batch
    loss: Tensor = cross_entropy(probe(states).mT, labels) * labels.shape[1]
    return loss


@torch.no_grad()
def is_right(probe: Probe, states: Tensor, labels: Tensor) -> Tensor:
    """Whether each probe thinks the label the most probable, bool (N, P); labels as above."""
    right: Tensor = probe(states).argmax(-1) == _for_each(labels, states)
    return right


def control_labels(types: Tensor, labels: Tensor, seed: int = 0) -> Tensor:
    """A random label for every type of word, the same wherever the word occurs.

    Types draw from the labels as often as these occur, so that both tasks have like classes.

    Args:
        types: (N,), the number of each word's type.
        labels: (N,), of the true task.
        seed: of the draw.

    Returns:
        (N,).

    >>> control_labels(torch.tensor([0, 1, 0]), torch.tensor([2, 2, 2])).tolist()
    [2, 2, 2]
    """
    generator = torch.Generator().manual_seed(seed)
    count = int(types.max()) + 1
    weights = labels.bincount().double()
    return torch.multinomial(weights, count, replacement=True, generator=generator)[types]


@torch.no_grad()
def online_code(
    states: Tensor, labels: Tensor, classes: int, seed: int = 0, ends: Sequence[float] = ENDS
) -> Tensor:
    """The bits that the labels of each block cost, sent one block after the other.

    The first block costs log₂ K a label, since nobody knows anything yet. Every later one costs
    −log₂ p of its labels, by probes that were trained on all blocks before it. The sum is the
    length of the code; a code that needs no states takes N log₂ K.

    Args:
        states: (N, P, d), in random order.
        labels: (N, P) or (N,), from 0 to K − 1.
        classes: K.
        seed: of the probes, which are linear.
        ends: shares of N at which a block ends, rising to 1.

    Returns:
        (len(ends), P), in bits.

    Raises:
        ValueError: if the ends do not rise to 1, or a block would be empty.
    """
    labels = _for_each(labels, states)
    places = [round(share * len(labels)) for share in ends]
    if sorted({0, *places}) != [0, *places] or places[-1:] != [len(labels)]:
        raise ValueError(f"ends must rise to 1, with a label in every block: {ends}, {places}")
    bits = [torch.full((labels.shape[1],), places[0] * math.log2(classes))]
    for begin, end in pairwise(places):
        probe = train_probe(states[:begin], labels[:begin], classes, seed=seed)
        logits = probe(states[begin:end]).mT
        nats = cross_entropy(logits, labels[begin:end], reduction="none")
        bits.append(nats.sum(0) / math.log(2))
    return torch.stack(bits)
