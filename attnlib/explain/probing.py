"""What can be read out of states, and by whom: probes, their control task, their code length.

A probe is a small classifier on the states of a frozen model. What it finds may be in the states,
or in the probe. The control task tells (Hewitt and Liang 2019): random labels, one for each type of
word, are in no state, so whoever predicts them has learned words by heart. The code length counts
the effort as well (Voita and Titov 2020): the bits to send the labels to somebody who has the
states, with a probe that is trained on what was sent so far.

Probes compute in single precision, whatever the precision of the states.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnlib.training.loop import fit, shuffled

# Shares of the data at which a block ends and the probe is trained anew (Voita and Titov 2020).
ENDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


class Probe(nn.Module):
    """P probes side by side, one for each layer, say; they share nothing.

    Each is linear, x W + b, or has one hidden layer of ReLUs, relu(x W_1 + b_1) W_2 + b_2, and
    reads every coordinate of its states in units of that coordinate's spread. Weights begin uniform
    on ±1/√(rows of their matrix).

    Args:
        states: what it will be trained on, (N, P, d), for their mean and standard deviation.
        classes: K.
        width: of the hidden layer, 0 for none.
        generator: of the first weights, on the CPU, so that they are the same on every device;
            torch's own if None.

    Attributes:
        W: matrices (P, rows, columns), one or two.
        b: biases (P, 1, columns), likewise.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self, states: Tensor, classes: int, width: int = 0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        states = states.float()
        _, P, d = states.shape
        self.register_buffer("mean", states.mean(0))
        self.register_buffer("scale", states.std(0, correction=0).clamp_min(1e-6))
        self.W, self.b = nn.ParameterList(), nn.ParameterList()
        widths = (d, width, classes) if width else (d, classes)
        for rows, columns in pairwise(widths):
            drawn = torch.rand(P, rows, columns, generator=generator, device="cpu")
            self.W.append(nn.Parameter(((drawn * 2 - 1) / math.sqrt(rows)).to(states.device)))
            self.b.append(nn.Parameter(states.new_zeros(P, 1, columns)))

    def forward(self, states: Tensor) -> Tensor:
        """Logits (N, P, K) of states (N, P, d)."""
        x = (states.float() - self.mean).div_(self.scale).transpose(0, 1)  # (P, N, d)
        x = torch.baddbmm(self.b[0], x, self.W[0])
        if len(self.W) == 2:
            x = torch.baddbmm(self.b[1], x.relu(), self.W[1])
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
    states = states.detach()
    batch_size = 256
    generator = torch.Generator(device="cpu").manual_seed(seed)
    probe = Probe(states, classes, width, generator)
    with torch.enable_grad():
        fit(
            probe,
            shuffled((states, _for_each(labels, states)), batch_size, seed),
            _loss,
            steps=max(60, passes * math.ceil(len(states) / batch_size)),
            lr=1e-2,
            weight_decay=0.1,
            clip=math.inf,
            seed=seed,
            progress=False,
        )
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
    generator = torch.Generator(device="cpu").manual_seed(seed)
    occurrences = labels.cpu().bincount().double()
    label_of = torch.multinomial(
        occurrences, int(types.max()) + 1, replacement=True, generator=generator
    )
    return label_of.to(types.device)[types]


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
    N, P = labels.shape
    places = [round(share * N) for share in ends]
    rising = all(begin < end for begin, end in pairwise((0, *places)))
    if not rising or places[-1:] != [N]:
        raise ValueError(f"ends must rise to 1, with a label in every block: {ends}, {places}")
    bits = [torch.full((P,), places[0] * math.log2(classes), device=states.device)]
    for begin, end in pairwise(places):
        probe = train_probe(states[:begin], labels[:begin], classes, seed=seed)
        logits = probe(states[begin:end])  # (n, P, K)
        nats = cross_entropy(logits.mT, labels[begin:end], reduction="none")  # (n, P)
        bits.append(nats.sum(0) / math.log(2))
    return torch.stack(bits)
