"""What the heads of SmolLM2 and Gemma 3 do for an answer, over many prompts: chapter 15.

Two people are named, one of them gives something "to", and the answer is the other. A prompt has
four forms: the two names in both orders, and either gives. In its corrupted run something else
stands in the text (`stories.CORRUPTIONS`), and one part after the other of the clean run is put
there, at the last token. `causes` and `causes-gemma3` are cards with a history (`MEASURES`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from attnlib.pretrained import LanguageModel, gemma3, smollm2
from recipes import patches, stories
from recipes.cards import result, rounded, save_history, sweep
from recipes.patches import Run, exchanged, patched, put, read
from recipes.stories import PAIRS, TEMPLATES, Prompts

SOURCES = ("first", "answer", "other", "giver", "verb", "determiner", "object", "last", "rest")
SIZES = (1, 2, 4, 8, 16)  # of the sets of heads
DRAWS = 20  # random sets beside each of them
REPAIRED = ("helping-1", "helping-4")  # sets that are broken, to see what the others do then
BATCHES = 6  # of texts that fork
MEASURES = """
L layers, H heads; n of these are patched, from the layer `first` on. 240 stories; 60, a quarter of
them, is one form of each pair; the first half of the templates and names is for choosing, the
second for reporting. Effects are changes of the logit difference, answer minus other name.
right (240,): is the answer the likeliest of all tokens; clean, corrupted (240,): the difference.
lens (240, L + 1, 3): ranks of the answer, of the other name and of one that does not occur, in what
the stream would say after each layer. weight (240, L H, 3): from the last token to the answer, the
other name, the giver. direct, gradient (240, L H): direct logit attribution of the clean run;
gradient of the corrupted run, times (clean - corrupted). restore, weights, values (240, n): a head
of the corrupted run writes with its clean row and values, its clean row alone, its clean values
alone; moved (240, n): total variation between its two rows; early (240,): all heads of the layers
before `first` restored. There a third person gives in the corrupted run; swapped_* (60): the other
of the two does; renamed_* (60): the two names are exchanged throughout. induction_* (60 texts): the
last of the repeated words is another; induction_renamed_*: the word that followed is. fork_* (60):
the three words before the last are those of the other sequence; fork_weight: to the answer, the
other word, the word before the last. values_giver, values_between, values_last (60, n): the clean
values of these sources alone. turned (60, n): in the clean run a head's weights on answer and giver
are exchanged; averaged (60, n): its row is the mean over the template. maps_restored, maps_broken
(240,): the last rows of all heads at once are the clean run's in the corrupted run, or the reverse,
while values are computed anew. control_* (60, n), put in
the corrupted run: weights and values of another pair of names, weights_wrong where the other of the
two gives there; whole: the output in a prompt of another template. terms (60, n, 5, 3), means over
four forms: weight times what the head writes for answer, other name, giver, first token and the
rest, to the logits of answer and other name, both relative to the mean of 18 absent names, and of
that mean relative to the vocabulary; names (60, 4): these three of the run itself, and `clean`.
signed (240, n): the term towards answer minus other of the three names as sources. looks
(12, L H, 9): mean weight on sources. blocks_clean, blocks_corrupted (240, L): attribution of
feed-forward blocks; heads_corrupted (240,) of all heads. block, blocks_from (60, L): a block, or
it and all later ones, restored; block_break (60, L): a block of the clean run writes as in the
corrupted run. heads_frozen (240,): all heads restored while the blocks keep their corrupted output;
blocks_frozen (240,): the reverse; restore_frozen (60, n): one head restored while blocks keep their
output. sets_together, sets_without (240, sets): heads of the card's "sets" restored in the
corrupted run, broken in the clean run; random_* (30, sets, 20) likewise, in the last 30 of the 60:
as many other heads of the same layers. alone (240, 16): each head of loud-16 broken alone.
repair (60, 2, L H), repair_blocks (60, 2, L): how direct attribution changes when helping-1, and
helping-4, are broken. break, zero, mean, unrelated (60, n): a head of the clean run writes as in
the corrupted run, nothing, the template's mean, as in another template. to_L_H (60, senders):
heads restored in the queries of one. stream (60, layers, 3): the stream restored before the
layers of "stream", at the giver, between, at the last token.
"""


@dataclass(frozen=True)
class Study:
    """A model that is examined, and where.

    Attributes:
        open: loads it.
        first: heads are patched one by one from this layer on, those before all at once.
        stream: layers before which the stream is restored.
        receivers: heads whose queries others are restored in.
    """

    open: Callable[[], LanguageModel]
    first: int
    stream: tuple[int, ...]
    receivers: tuple[tuple[int, int], ...] = ()

    @property
    def lm(self) -> LanguageModel:
        """The model, which stays loaded."""
        return self.open()


STUDIES = {
    "causes": Study(
        open=smollm2,
        first=10,
        stream=(0, 6, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
        receivers=((23, 0), (23, 3), (24, 4)),
    ),
    "causes-gemma3": Study(open=gemma3, first=0, stream=tuple(range(0, 19, 2))),
}


# --- one batch of prompts -----------------------------------------------------------------------


def both(study: Study, asked: Prompts) -> tuple[Run, Run]:
    """The clean run and the corrupted run."""
    return read(study.lm.model, asked.clean), read(study.lm.model, asked.corrupted)


def split(study: Study, asked: Prompts, clean: Run, corrupted: Run) -> dict[str, Tensor]:
    """What each head restores in the corrupted run: all of it, its row alone, its values alone."""
    donors = {
        "restore": clean.z,
        "weights": patches.mixed(clean.pattern, corrupted.values),
        "values": patches.mixed(corrupted.pattern, clean.values),
    }
    moved = (clean.pattern - corrupted.pattern).abs().sum(-1)[:, study.first :] / 2
    effects = {
        name: exchanged(study.lm.model, asked, corrupted, donor, study.first)
        for name, donor in donors.items()
    }
    return effects | {"moved": moved.flatten(1)}


def outcome(study: Study, asked: Prompts, clean: Run, corrupted: Run) -> dict[str, Tensor]:
    """What the two runs answer, and where the last token of the clean run looks."""
    model, right = study.lm.model, asked.right
    positions = asked.positions[:, None, None].expand(-1, *clean.pattern.shape[1:3], -1)
    with torch.no_grad():
        logits = model.final_norm(clean.streams[-1][:, 0]) @ model.W_E.T
        return {
            "right": (logits.argmax(-1) == right).float(),
            "clean": patches.difference(model, clean.streams[-1], asked),
            "corrupted": patches.difference(model, corrupted.streams[-1], asked),
            "weight": clean.pattern.gather(-1, positions).flatten(1, 2),
        }


def observed(study: Study, asked: Prompts, clean: Run, corrupted: Run) -> dict[str, Tensor]:
    """What may stand for an effect: attribution and gradient; and the heads of early layers."""
    model = study.lm.model
    measures = {
        "direct": patches.direct(model, asked, clean)["heads"],
        "gradient": patches.gradient(model, asked, clean, corrupted),
    }
    if study.first:
        edits = put(clean.z, "z", range(study.first))
        measures["early"] = patches.changed(model, asked, corrupted, edits)
    return measures


# --- stories: weights or values -----------------------------------------------------------------


def of_template(study: Study, template: int) -> dict[str, Tensor]:
    """Outcome, attribution, gradient and the split effects of the 20 prompts of a template."""
    asked = stories.stories(study.lm, template)
    clean, corrupted = both(study, asked)
    return (
        outcome(study, asked, clean, corrupted)
        | observed(study, asked, clean, corrupted)
        | split(study, asked, clean, corrupted)
    )


def under(study: Study, corruption: str, template: int) -> dict[str, Tensor]:
    """The split effects under another corruption, in a quarter of the prompts."""
    asked = stories.some(stories.stories(study.lm, template, corruption), 4)
    clean, corrupted = both(study, asked)
    answers = outcome(study, asked, clean, corrupted)
    effects = split(study, asked, clean, corrupted)
    effects |= {name: answers[name] for name in ("clean", "corrupted")}
    return {f"{corruption}_{name}": values for name, values in effects.items()}


def turned(study: Study, template: int) -> dict[str, Tensor]:
    """In the clean run, a row whose weights on the answer and on the giver are exchanged."""
    model, asked = study.lm.model, stories.some(stories.stories(study.lm, template), 4)
    clean = read(model, asked.clean)
    donor = patches.mixed(exchanged_sources(clean.pattern, asked.positions), clean.values)
    return {"turned": exchanged(model, asked, clean, donor, study.first)}


def exchanged_sources(pattern: Tensor, positions: Tensor) -> Tensor:
    """Rows (B, L, H, T) with the weights on two sources exchanged: the answer and the giver."""
    order = torch.arange(pattern.shape[-1]).repeat(len(pattern), 1)
    answer, giver = positions[:, :1], positions[:, 2:]
    order = order.scatter(1, answer, giver).scatter(1, giver, answer)
    return pattern.gather(-1, order[:, None, None].expand_as(pattern))


def controls(study: Study, template: int) -> dict[str, Tensor]:
    """Rows and values of other prompts put in the corrupted run, in a quarter of the prompts.

    Rows fit only prompts of their own length, so they come from another pair of names in the same
    template: once in the same form, where the answer stands at the same position, and once where
    the other of the two gives.
    """
    model, whole = study.lm.model, stories.stories(study.lm, template)
    asked = stories.some(whole, 4)
    corrupted = read(model, asked.corrupted)
    same, wrong = (
        read(model, stories.some(whole._replace(clean=stories.other_pairs(whole, form)), 4).clean)
        for form in (0, 1)
    )
    donors = {
        "control_weights": patches.mixed(same.pattern, corrupted.values),
        "control_weights_wrong": patches.mixed(wrong.pattern, corrupted.values),
        "control_values": patches.mixed(corrupted.pattern, same.values),
        "control_whole": unrelated(study, template, len(asked.clean)),
    }
    effects = {
        name: exchanged(model, asked, corrupted, donor, study.first)
        for name, donor in donors.items()
    }
    clean, every = read(model, asked.clean), read(model, whole.clean)
    mean = every.pattern.mean(0, keepdim=True).expand_as(clean.pattern)
    donor = patches.mixed(mean, clean.values)
    return effects | {"averaged": exchanged(model, asked, clean, donor, study.first)}


def values_of_sources(study: Study, template: int) -> dict[str, Tensor]:
    """Clean values of some sources alone under the corrupted row, in a quarter of the prompts.

    What stands before the giver has the same values in both runs, so the three are all there is.
    """
    model, asked = study.lm.model, stories.some(stories.stories(study.lm, template), 4)
    clean, corrupted = both(study, asked)
    giver = int(asked.positions[0, 2])
    effects = {}
    for name, sources in (
        ("giver", slice(giver, giver + 1)),
        ("between", slice(giver + 1, -1)),
        ("last", slice(-1, None)),
    ):
        values = [v.clone() for v in corrupted.values]
        for new, old in zip(clean.values, values, strict=True):
            old[:, :, sources] = new[:, :, sources]
        donor = patches.mixed(corrupted.pattern, values)
        effects[f"values_{name}"] = exchanged(model, asked, corrupted, donor, study.first)
    return effects


def unrelated(study: Study, template: int, count: int) -> list[Tensor]:
    """What heads write in so many clean prompts of another template with other names."""
    far = stories.stories(study.lm, stories.other_template(template)).clean
    order = torch.randperm(len(far), generator=torch.Generator().manual_seed(template))
    return read(study.lm.model, far[order[:count]]).z


# --- other texts --------------------------------------------------------------------------------


def of_repeats(study: Study) -> dict[str, Tensor]:
    """The same of induction texts whose last word is another one."""
    asked = stories.repeats(study.lm)
    clean, corrupted = both(study, asked)
    measures = (
        outcome(study, asked, clean, corrupted)
        | observed(study, asked, clean, corrupted)
        | split(study, asked, clean, corrupted)
    )
    return {f"induction_{name}": values for name, values in measures.items()}


def of_renamed_repeats(study: Study) -> dict[str, Tensor]:
    """The split effects of induction texts in which the word that followed is another one."""
    asked = stories.repeats(study.lm, corruption="followed")
    clean, corrupted = both(study, asked)
    measures = outcome(study, asked, clean, corrupted) | split(study, asked, clean, corrupted)
    del measures["weight"], measures["right"]
    return {f"induction_renamed_{name}": values for name, values in measures.items()}


def of_forks(study: Study, batch: int) -> dict[str, Tensor]:
    """The split effects of texts that fork."""
    asked = stories.forks(study.lm, batch)
    clean, corrupted = both(study, asked)
    measures = outcome(study, asked, clean, corrupted) | split(study, asked, clean, corrupted)
    return {f"fork_{name}": values for name, values in measures.items()}


# --- what is written, and for which source ------------------------------------------------------


def written(study: Study, template: int) -> dict[str, Tensor]:
    """Reading meets writing: each head's terms by source and by name, and where the heads look."""
    model, asked = study.lm.model, stories.stories(study.lm, template)
    clean = read(model, asked.clean)
    absent = model.W_E[stories.absent_names(study.lm, asked)].mean(1)  # (B, d_model)
    answer, other = model.W_E[asked.right] - absent, model.W_E[asked.wrong] - absent
    directions = torch.stack([answer, other, absent - model.W_E.mean(0)], 1)

    terms = patches.by_source(model, clean, directions)[:, study.first :].flatten(1, 2)
    of_sources = summed(terms, asked)
    five = [of_sources[:, :, SOURCES.index(name)] for name in ("answer", "other", "giver", "first")]
    rest = of_sources[:, :, SOURCES.index("verb") :].sum(2)
    grouped = torch.stack([*five, rest], 2)  # (B, n, 5, 3)

    final = model.final_norm(clean.streams[-1])
    whole = patches.difference(model, clean.streams[-1], asked)[:, None]
    names = torch.cat([(final @ directions.mT)[:, 0], whole], 1)
    weights = summed(clean.pattern.flatten(1, 2)[..., None], asked)[..., 0]
    return {
        "terms": over_forms(grouped),
        "names": over_forms(names),
        "signed": (grouped[:, :, :3, 0] - grouped[:, :, :3, 1]).sum(-1),
        "looks": weights.mean(0, keepdim=True),
    }


def summed(terms: Tensor, asked: Prompts) -> Tensor:
    """Terms of sources (B, n, T, K), summed over each of `SOURCES`: (B, n, 9, K)."""
    B, T = asked.clean.shape
    source = torch.full((B, T), SOURCES.index("rest"))
    source[:, 0] = SOURCES.index("first")
    giver = asked.positions[:, 2]
    for name, positions in (
        ("answer", asked.positions[:, 0]),
        ("other", asked.positions[:, 1]),
        ("giver", giver),
        ("verb", giver + 1),
        ("determiner", giver + 2),
        ("object", giver + 3),
        ("last", giver + 4),
    ):
        source[torch.arange(B), positions] = SOURCES.index(name)
    member = torch.nn.functional.one_hot(source, len(SOURCES)).to(terms)
    of_sources: Tensor = torch.einsum("bntk,bts->bnsk", terms, member)
    return of_sources


def over_forms(values: Tensor) -> Tensor:
    """Means over the four forms of each pair of names."""
    return values.reshape(-1, 4, *values.shape[1:]).mean(1)


def lens(study: Study, template: int) -> dict[str, Tensor]:
    """Ranks of the answer, the other name and an absent one, by layer."""
    asked = stories.stories(study.lm, template)
    absent = stories.stories(study.lm, stories.other_template(template)).right
    tokens = torch.stack([asked.right, asked.wrong, absent], 1)
    return {
        "lens": patches.ranks(study.lm.model, read(study.lm.model, asked.clean), tokens).float()
    }


# --- feed-forward blocks ------------------------------------------------------------------------


def blocks(study: Study, template: int) -> dict[str, Tensor]:
    """What blocks of the last token write, and what all of them or all heads restore."""
    model, asked = study.lm.model, stories.stories(study.lm, template)
    clean, corrupted = both(study, asked)
    in_clean, in_corrupted = (patches.direct(model, asked, run) for run in (clean, corrupted))
    layers = range(model.config.layers)
    heads_only = put(clean.z, "z", layers) | put(corrupted.mlp_out, "mlp_out", layers)
    blocks_only = put(corrupted.z, "z", layers) | put(clean.mlp_out, "mlp_out", layers)
    return {
        "blocks_clean": in_clean["blocks"],
        "blocks_corrupted": in_corrupted["blocks"],
        "heads_corrupted": in_corrupted["heads"].sum(1),
        "heads_frozen": patches.changed(model, asked, corrupted, heads_only),
        "blocks_frozen": patches.changed(model, asked, corrupted, blocks_only),
    }


def each_block(study: Study, template: int) -> dict[str, Tensor]:
    """Blocks restored and broken one at a time, and restored with all later ones: a quarter."""
    model, asked = study.lm.model, stories.some(stories.stories(study.lm, template), 4)
    clean, corrupted = both(study, asked)
    alone = torch.eye(model.config.layers, dtype=torch.bool)
    onward = torch.ones_like(alone).triu()
    return {
        "block": patches.blocks_patched(model, asked, corrupted, clean, alone),
        "blocks_from": patches.blocks_patched(model, asked, corrupted, clean, onward),
        "block_break": patches.blocks_patched(model, asked, clean, corrupted, alone),
    }


def all_maps(study: Study, template: int) -> dict[str, Tensor]:
    """The last rows of all heads exchanged at once, in either direction; values stay live."""
    model, asked = study.lm.model, stories.stories(study.lm, template)
    clean, corrupted = both(study, asked)
    layers = range(model.config.layers)

    def with_rows(run: Run, donor: Run) -> Tensor:
        rows = [donor.pattern[:, layer, :, None] for layer in layers]
        return patches.changed(model, asked, run, put(rows, "pattern", layers))

    return {
        "maps_restored": with_rows(corrupted, clean),
        "maps_broken": with_rows(clean, corrupted),
    }


def frozen(study: Study, template: int) -> dict[str, Tensor]:
    """What a head restores while feed-forward blocks keep what they added to the corrupted run."""
    asked = stories.some(stories.stories(study.lm, template), 4)
    clean, corrupted = both(study, asked)
    effects = exchanged(study.lm.model, asked, corrupted, clean.z, study.first, frozen=True)
    return {"restore_frozen": effects}


# --- sets of heads ------------------------------------------------------------------------------


def chosen_sets(study: Study, measured: dict[str, Tensor]) -> dict[str, list[list[int]]]:
    """Sets of heads, as (layer, head), chosen on the first half of the prompts."""
    H = study.lm.model.config.heads
    half = slice(len(measured["restore"]) // 2)
    restored = measured["restore"][half].mean(0)
    weight = measured["weight"][half, study.first * H :, 0].mean(0)
    sets = {}
    for name, score in (("loud", restored.abs()), ("helping", restored), ("looking", weight)):
        order = score.argsort(descending=True).tolist()
        for size in SIZES:
            sets[f"{name}-{size}"] = [[study.first + k // H, k % H] for k in order[:size]]
    return sets


def members(study: Study, sets: dict[str, list[list[int]]]) -> Tensor:
    """True where a head is in a set, (sets, L, H)."""
    config = study.lm.model.config
    inside = torch.zeros(len(sets), config.layers, config.heads, dtype=torch.bool)
    for row, heads in zip(inside, sets.values(), strict=True):
        for layer, head in heads:
            row[layer, head] = True
    return inside


def random_sets(inside: Tensor, draw: torch.Generator) -> Tensor:
    """`DRAWS` sets of as many heads as one set (L, H) has, other heads of the same layers."""
    outside = (inside.any(-1, keepdim=True) & ~inside).flatten().nonzero()[:, 0]
    sets = torch.zeros(DRAWS, inside.numel(), dtype=torch.bool)
    for row in sets:
        row[outside[torch.randperm(len(outside), generator=draw)[: int(inside.sum())]]] = True
    return sets.view(DRAWS, *inside.shape)


def together(study: Study, sets: dict[str, list[list[int]]], template: int) -> dict[str, Tensor]:
    """Sets of heads restored in the corrupted run, and broken in the clean run."""
    model, asked = study.lm.model, stories.stories(study.lm, template)
    clean, corrupted = both(study, asked)
    inside = members(study, sets)
    loudest = sets[f"loud-{max(SIZES)}"]
    alone = members(study, {f"{layer}.{head}": [[layer, head]] for layer, head in loudest})
    parts = {
        "sets_together": (corrupted, clean, inside),
        "sets_without": (clean, corrupted, inside),
        "alone": (clean, corrupted, alone),
    }
    return {
        name: torch.cat([patched(model, asked, base, donor.z, one[None]) for one in group], 1)
        for name, (base, donor, group) in parts.items()
    }


def random_together(
    study: Study, sets: dict[str, list[list[int]]], template: int
) -> dict[str, Tensor]:
    """The same of random sets, in a quarter of the prompts of a template of the second half."""
    model, asked = study.lm.model, stories.some(stories.stories(study.lm, template), 4)
    clean, corrupted = both(study, asked)
    draw = torch.Generator().manual_seed(0)  # the same sets for all templates
    groups = [random_sets(inside, draw) for inside in members(study, sets)]
    return {
        name: torch.stack([patched(model, asked, base, donor.z, group) for group in groups], 1)
        for name, base, donor in (
            ("random_together", corrupted, clean),
            ("random_without", clean, corrupted),
        )
    }


def repaired(study: Study, sets: dict[str, list[list[int]]], template: int) -> dict[str, Tensor]:
    """How the others' direct attribution changes when sets of heads are broken."""
    model, asked = study.lm.model, stories.some(stories.stories(study.lm, template), 4)
    clean, corrupted = both(study, asked)
    before = patches.direct(model, asked, clean)
    changes: dict[str, list[Tensor]] = {"heads": [], "blocks": []}
    for inside in members(study, {name: sets[name] for name in REPAIRED}):
        run = patches.last_token(
            model, clean.streams[0], clean.before, patches.head_edits(inside[None], corrupted.z, 1)
        )
        after = patches.direct(model, asked, run)
        for part, values in changes.items():
            values.append(after[part] - before[part])
    return {
        "repair": torch.stack(changes["heads"], 1),
        "repair_blocks": torch.stack(changes["blocks"], 1),
    }


# --- other replacements, other ways -------------------------------------------------------------


def ablated(study: Study, template: int) -> dict[str, Tensor]:
    """Heads of a clean run exchanged for four other things, in a quarter of the prompts."""
    model, whole = study.lm.model, stories.stories(study.lm, template)
    every, asked = read(model, whole.clean), stories.some(whole, 4)
    clean, corrupted = both(study, asked)
    donors = {
        "break": corrupted.z,
        "zero": [torch.zeros_like(z) for z in clean.z],
        "mean": [z.mean(0, keepdim=True).expand(len(asked.clean), -1, -1, -1) for z in every.z],
        "unrelated": unrelated(study, template, len(asked.clean)),
    }
    return {
        name: exchanged(model, asked, clean, donor, study.first) for name, donor in donors.items()
    }


def listened(study: Study, template: int) -> dict[str, Tensor]:
    """Path patching into the queries of each receiver, in a quarter of the prompts."""
    asked = stories.some(stories.stories(study.lm, template), 4)
    clean, corrupted = both(study, asked)
    return {
        f"to_{layer}_{head}": patches.through_queries(
            study.lm.model, asked, clean, corrupted, (layer, head), study.first
        )
        for layer, head in study.receivers
    }


def stream_of(study: Study, template: int) -> dict[str, Tensor]:
    """The stream restored, in a quarter of the prompts of a template."""
    asked = stories.some(stories.stories(study.lm, template), 4)
    return {"stream": patches.restored_stream(study.lm.model, asked, study.stream)}


# --- all of it ----------------------------------------------------------------------------------

Job = Callable[[], dict[str, Tensor]]


def first_jobs(study: Study) -> list[Job]:
    """What is measured first, batch by batch: the sets of heads are chosen by it."""
    return [partial(of_template, study, number) for number in range(len(TEMPLATES))]


def later_jobs(study: Study, sets: dict[str, list[list[int]]]) -> list[Job]:
    """What is measured then."""
    templates = range(len(TEMPLATES))

    def of_all(job: Callable[..., dict[str, Tensor]], *more: object) -> list[Job]:
        return [partial(job, study, *more, number) for number in templates]

    return [
        *of_all(written),
        *of_all(under, "swapped"),
        *[partial(of_repeats, study), partial(of_renamed_repeats, study)],
        *[partial(of_forks, study, number) for number in range(BATCHES)],
        *of_all(turned),
        *of_all(values_of_sources),
        *of_all(blocks),
        *of_all(each_block),
        *of_all(together, sets),
        *[partial(random_together, study, sets, n) for n in templates[len(templates) // 2 :]],
        *of_all(under, "renamed"),
        *of_all(controls),
        *of_all(frozen),
        *of_all(all_maps),
        *of_all(repaired, sets),
        *of_all(ablated),
        *(of_all(listened) if study.receivers else []),
        *of_all(stream_of),
        *of_all(lens),
    ]


def gathered(rows: list[dict[str, list[float]]]) -> dict[str, Tensor]:
    """Batches as they were kept, put together by the name of what was measured."""
    parts: dict[str, list[Tensor]] = {}
    for row in rows:
        for name, values in row.items():
            parts.setdefault(name, []).append(torch.tensor(values))
    return {name: torch.cat(values) for name, values in parts.items()}


def measure(name: str, steps: int | None, folder: Path) -> Path:
    """Measure everything, and write card and history; an interrupted call goes on."""
    study = STUDIES[name]
    queue = first_jobs(study)
    sets = chosen_sets(study, gathered(sweep(name, folder, queue, run_job)))
    measured = gathered(sweep(name, folder, [*queue, *later_jobs(study, sets)], run_job))
    return stored(name, folder, measured, sets)


def run_job(job: Job) -> dict[str, list[float]]:
    """One batch, rounded as it is kept."""
    numbers: dict[str, list[float]] = rounded(job())
    return numbers


def stored(
    name: str, folder: Path, measured: dict[str, Tensor], sets: dict[str, list[list[int]]]
) -> Path:
    """Write card and history."""
    study = STUDIES[name]
    history = save_history(name, {key: values.half() for key, values in measured.items()}, folder)
    facts = {
        "model": study.lm.name,
        "first": study.first,
        "stream": study.stream,
        "templates": TEMPLATES,
        "pairs": PAIRS,
        "sets": sets,
        "history": history,
        "measures": " ".join(MEASURES.split()),
    }
    return result(name, folder, facts)
