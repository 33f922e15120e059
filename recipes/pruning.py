"""Heads taken out of the translators: ranked, gated, pruned and trained again.

Three results without weights, each over the three translators:
- translator-heads: six ways to rank the heads, and what is left when they go one after another,
  without any further training;
- translator-gates: the gates that training with a penalty λ on open gates leaves open;
- translator-pruned: models with as many heads as the gates left, chosen in other ways and given
  the same training, and models trained from scratch with the heads that the gates left.
"""

import copy
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnlib.models import Translator
from attnlib.models.seq2seq import translation_loss
from attnlib.models.transformer import Edit
from attnlib.pretrained.checkpoints import card, load
from attnlib.tokenizers.words import PAD
from recipes import translation
from recipes.cards import result, rounded
from recipes.gates import attention_layers, gate_edits, gate_shape, hard_concrete, p_open, quality
from recipes.relevance import alpha_beta_rule, relevance, z_rule
from recipes.translation import Rows, numbers, rows_of, vocabularies

LAMBDAS, PRUNED = (0.01, 0.03, 0.1, 0.2, 0.4), 0.2  # PRUNED: compared with other choices
CHOICES = ("relevance, z-rule", "one by one", "magnitude", "random 0", "random 1")
RANKED, JUDGED = 60, 150  # numbers to rank heads with, and to judge what is left
TUNED, SHUFFLES = 600, 5  # steps with gates, or after pruning; random orders
SPEED = 30.0  # how much faster than the weights the gates learn, at one learning rate
M = TypeVar("M", bound=nn.Module)


class Gated(nn.Module):
    """A translator with a gate on every head, to be trained together.

    Attributes:
        model: the translator itself.
        slow: (A, H), what is learned: log a / `SPEED`.
    """

    def __init__(self, model: Translator, start: float = 2.0) -> None:
        super().__init__()
        self.model = model
        self.slow = nn.Parameter(torch.full(gate_shape(model), start / SPEED))

    @property
    def log_a(self) -> Tensor:
        """(A, H), what the gates are made of."""
        return self.slow * SPEED

    @property
    def gates(self) -> Tensor:
        """(A, H), as they are in use, without noise."""
        return hard_concrete(self.log_a)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """As the model's, with noisy gates in training and without noise in evaluation."""
        gates = self.gates
        if self.training:
            u = torch.rand_like(gates).clamp(1e-6, 1 - 1e-6)
            gates = hard_concrete(self.log_a, u)
        logits: Tensor = self.model(source, target, gate_edits(self.model, gates))
        return logits


def with_gates(model: M, gates: Tensor) -> M:
    """A copy of a model whose heads write gates[a, h] times as much.

    A head whose gate is 0 is gone for good, which no edit says: its W_V and W_O are 0, and so are
    their gradients from then on, whatever the copy is trained on.
    """
    model = copy.deepcopy(model)
    with torch.no_grad():
        for name, gate in zip(attention_layers(model), gates[..., None, None], strict=True):
            model.get_parameter(f"{name}.W_O").mul_(gate)
            model.get_parameter(f"{name}.W_V").mul_(gate != 0)
    return model


def measuring_rows() -> tuple[Rows, Rows]:
    """Two sets of numbers that were never trained on: to rank heads with, and to judge with."""
    chosen = numbers(RANKED + JUDGED, 1, tested=True)
    words = vocabularies()
    return rows_of(words, chosen[:RANKED]), rows_of(words, chosen[RANKED:])


def rankings(model: Any, rows: Rows) -> dict[str, Tensor]:
    """Importance of each head (A, H), measured in five ways."""
    found = {
        f"relevance, {name}": relevance(model, *rows, rule).heads.abs().mean(0)
        for name, rule in (("z-rule", z_rule), ("halves", alpha_beta_rule))
    }
    found["gradient × output"] = gate_gradients(model, rows).abs().mean(0)
    found["ablation"] = damages(model, rows)
    matrices = [model.get_submodule(name).W_VO for name in attention_layers(model)]
    found["magnitude"] = torch.stack([W_VO.flatten(1).norm(dim=1) for W_VO in matrices])
    return {how: scores.detach() for how, scores in found.items()}


def damages(model: Any, rows: Rows) -> Tensor:
    """How much more nats per token cost without each head alone, (A, H)."""
    ones, whole = torch.ones(gate_shape(model)), quality(model, rows)[0]
    closed = (_closed(ones, [head]) for head in range(ones.numel()))
    alone = [quality(model, rows, gates)[0] - whole for gates in closed]
    return torch.tensor(alone).reshape(ones.shape)


def gate_gradients(model: Any, rows: Rows, fixed: bool = False) -> Tensor:
    """∂ score / ∂ gate of each head, sentence by sentence: (N, A, H).

    The score is that of `relevance`. A gate multiplies what its head mixes, so this is output ×
    gradient, summed (Michel, Levy and Neubig 2019). `fixed` takes the attention weights for
    constants.
    """
    detached = weights_fixed(model) if fixed else ({}, {})

    def score(gates: Tensor, source: Tensor, target: Tensor) -> Tensor:
        pairs = zip(gate_edits(model, gates), detached, strict=True)
        edits = tuple({**gated, **others} for gated, others in pairs)
        logits: Tensor = model(source[None], target[None, :-1], edits)[0]
        right = logits.gather(-1, target[1:, None])[:, 0] - logits.mean(-1)
        return (right * (target[1:] != PAD)).sum()

    gradients = []
    for source, target in zip(*rows, strict=True):
        gates = model.decoder.W_E.new_ones(gate_shape(model)).requires_grad_()
        gradients.append(torch.autograd.grad(score(gates, source, target), gates)[0])
    return torch.stack(gradients)


def weights_fixed(model: Translator) -> tuple[dict[tuple[str, int], Edit], ...]:
    """Edits of encoder and decoder: gradients take the attention weights for constants."""
    return tuple(
        {(what, layer): Tensor.detach for what in kinds for layer in range(part.config.layers)}
        for part, kinds in (
            (model.encoder, ("pattern",)),
            (model.decoder, ("pattern", "cross_pattern")),
        )
    )


def norms_fixed(model: M) -> M:
    """A copy of the same output, whose gradients take each norm's deviation for a constant."""

    def hook(norm: Any, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        (x,) = inputs
        deviation = (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt().detach()
        fixed: Tensor = (x - x.mean(-1, keepdim=True)) / deviation * norm.weight + norm.bias
        return fixed

    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_hook(hook)
    return model


def gradients_held_fixed(model: Any, rows: Rows) -> dict[str, Tensor]:
    """Output × gradient with one thing held fixed that the z-rule holds fixed, too: (A, H)."""
    found = {
        "weights held fixed": gate_gradients(model, rows, fixed=True),
        "norms held fixed": gate_gradients(norms_fixed(model), rows),
    }
    return {how: gradients.abs().mean(0) for how, gradients in found.items()}


def one_by_one(model: Any, rows: Rows) -> list[int]:
    """Heads in the order in which they can be spared: each time the one whose loss is least."""
    gates = torch.ones(gate_shape(model))
    order: list[int] = []
    while len(order) < gates.numel():
        losses = {}
        for head in range(gates.numel()):
            if head not in order:
                losses[head] = quality(model, rows, _closed(gates, [*order, head]))[0]
        order.append(min(losses, key=lambda head: losses[head]))
    return order


def orders(model: Any, rows: Rows, scores: dict[str, Tensor]) -> dict[str, list[int]]:
    """Orders in which heads go, least important first, by every ranking; random ones at the end."""
    found = {name: s.flatten().argsort().tolist() for name, s in scores.items()}
    found["one by one"] = one_by_one(model, rows)
    count = len(found["one by one"])
    for seed in range(SHUFFLES):
        generator = torch.Generator().manual_seed(seed)
        found[f"random {seed}"] = torch.randperm(count, generator=generator).tolist()
    return found


def rank(name: str, steps: int | None, folder: Path) -> Path:
    """Rank the heads of the three translators, and take them out; `steps` changes nothing."""
    ranked, judged = measuring_rows()
    found = []
    for translator in translation.TRANSLATORS:
        model: Any = load(translator)
        scores = rankings(model, ranked)
        going = orders(model, ranked, scores)
        ones = torch.ones(gate_shape(model))
        curves = {
            how: [quality(model, judged, _closed(ones, order[:n])) for n in range(len(order) + 1)]
            for how, order in going.items()
        }
        scores |= gradients_held_fixed(model, ranked)
        facts = {"scores": {how: s.tolist() for how, s in scores.items()}, "orders": going}
        found.append(facts | {"damage": damages(model, judged).tolist(), "curves": curves})
    return result(name, folder, {"layers": attention_layers(model), "models": found})


def gate(name: str, steps: int | None, folder: Path) -> Path:
    """Train the three translators on with gates, for every λ."""
    steps = TUNED if steps is None else steps
    runs = [
        gated(model, strength, steps) for model in translation.TRANSLATORS for strength in LAMBDAS
    ]
    return result(name, folder, {"steps": steps, "lambdas": LAMBDAS, "runs": runs})


def gated(translator: str, strength: float, steps: int) -> dict[str, Any]:
    """One translator trained on with gates: what is open, and how good it still is."""
    ready: Any = load(translator)
    model = Gated(ready)
    translation.learn(
        model, 10 + translation.TRANSLATORS[translator], steps, partial(penalised_loss, strength)
    )
    left = model.gates.detach()
    loss, share = quality(model.model, measuring_rows()[1], left)
    facts = {"model": translator, "lambda": strength, "heads": int((left > 0).sum())}
    gates: dict[str, Any] = rounded({"gates": left, "p_open": p_open(model.log_a.detach())})
    return facts | gates | {"loss": loss, "exact": share}


def penalised_loss(strength: float, model: Any, batch: Rows) -> Tensor:
    """The loss of a gated model: the usual one plus λ times the expected number of open gates."""
    return translation_loss(model, batch) + strength * p_open(model.log_a).sum()


def prune(name: str, steps: int | None, folder: Path) -> Path:
    """Choose as many heads as the gates in other ways, and train every choice as long."""
    steps = TUNED if steps is None else steps
    runs = [run for run in card("translator-gates")["runs"] if run["lambda"] == PRUNED]
    return result(name, folder, {"steps": steps, "runs": [pruned(run, steps) for run in runs]})


def pruned(run: dict[str, Any], steps: int) -> dict[str, Any]:
    """Loss and share of exact translations of every choice, beside one run with gates."""
    place, left = translation.TRANSLATORS[run["model"]], (torch.tensor(run["gates"]) > 0).float()
    choices = {"heads of the gates": left}
    for how in CHOICES:
        order = card("translator-heads")["models"][place]["orders"][how]
        choices[how] = _closed(torch.ones_like(left), order[: left.numel() - run["heads"]])
    judged, found = measuring_rows()[1], {}
    for how, kept in choices.items():
        model = with_gates(load(run["model"]), kept)
        translation.learn(model, 10 + place, steps)
        found[how] = quality(model, judged)
    fresh = with_gates(translation.build(20 + place), left)
    translation.learn(fresh, 20 + place, translation.STEPS + steps)
    facts = {"model": run["model"], "lambda": run["lambda"], "heads": run["heads"]}
    return facts | {"found": found | {"from scratch": quality(fresh, judged)}}


def _closed(gates: Tensor, heads: list[int]) -> Tensor:
    """Gates with those of some heads at 0, heads numbered row by row."""
    closed = gates.clone()
    closed.view(-1)[heads] = 0
    return closed
