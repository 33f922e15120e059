"""What the stored results of chapter 15 carry, in SmolLM2 and Gemma 3, with intervals over prompts.

Heads are chosen on the first half of the templates and names, and reported on the second. Effects
are shares of the mean difference between the clean and the corrupted runs of the same prompts. The
results are stored, so that both models' are read everywhere; some prompts are run again in SmolLM2,
and in Gemma 3 where it is installed.
"""

from functools import cache

import pytest
import torch
from gemma import gemma_or_skip

from attnlib import pretrained
from recipes import causes, patches, stories

NAMES = tuple(causes.STUDIES)
SMOLLM2, GEMMA3 = NAMES
SECOND = range(6, 12)  # the templates on which heads are reported
QUARTER = torch.arange(60) * 4 + torch.arange(60) % 5 % 4  # the 60 among the 240 prompts
WAYS = ("restore", "weights", "values")


class Results:
    """The stored results of a model, with its heads by (layer, head)."""

    def __init__(self, name):
        self.name, self.card = name, pretrained.card(name)
        self.fields = {key: x.float() for key, x in pretrained.history(name).items()}
        self.first = self.card["first"]
        sources = self.fields["weight"].shape[1]
        self.heads = 9 if name == SMOLLM2 else 4
        self.layers = sources // self.heads

    def __getitem__(self, field):
        return self.fields[field]

    def number(self, layer, head):
        """Of a head among those that are patched."""
        return (layer - self.first) * self.heads + head

    def gap(self, prompts=240):
        """Clean − corrupted."""
        gap = self["clean"] - self["corrupted"]
        return gap if prompts == 240 else gap[QUARTER]

    def loudest(self, count):
        """Heads with the largest effects in the first half."""
        order = self["restore"][:120].mean(0).abs().argsort(descending=True)[:count].tolist()
        return [(self.first + k // self.heads, k % self.heads) for k in order]

    def share(self, field, head, templates=SECOND, gap=None):
        """Share of a head's effect: an interval."""
        effect = self[field][:, self.number(*head)]
        return share(effect, self.gap(len(effect)) if gap is None else gap, templates)


@cache
def results(name):
    return Results(name)


@pytest.fixture(params=NAMES)
def both(request):
    return results(request.param)


def share(effect, gap, templates=SECOND, times=500):
    """95 % of a ratio of means: templates are drawn with replacement, and pairs within them."""
    draw = torch.Generator().manual_seed(0)
    template = torch.tensor(templates)[
        torch.randint(len(templates), (times, len(templates), 1), generator=draw)
    ]
    pair = torch.randint(5, (times, len(templates), 5), generator=draw)
    above, below = (x.view(12, 5, -1).mean(-1)[template, pair].mean((1, 2)) for x in (effect, gap))
    low, high = (above / below).quantile(torch.tensor([0.025, 0.975])).tolist()
    return low, high


def over_texts(effect, gap, times=500):
    """The same of texts that have no templates."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randint(len(gap), (times, len(gap)), generator=draw)
    low, high = (effect[rows].mean(1) / gap[rows].mean(1)).quantile(torch.tensor([0.025, 0.975]))
    return float(low), float(high)


def by_pairs(x):
    """Two forms of a text that forks are no two texts."""
    return x.view(-1, 2, *x.shape[1:]).mean(1)


def ranks(x, y):
    orders = torch.stack([z.argsort().argsort().float() for z in (x, y)])
    return float(torch.corrcoef(orders)[0, 1])


# --- the models answer --------------------------------------------------------------------------


@pytest.mark.ci
@pytest.mark.parametrize(
    "both", [SMOLLM2, pytest.param(GEMMA3, marks=pytest.mark.long)], indirect=True
)
def test_the_stored_results_are_what_the_model_does_now(both):
    """Three heads in five prompts, put in by an edit of whole texts, without a cache."""
    if both.name == GEMMA3:
        gemma_or_skip()
    study = causes.STUDIES[both.name]
    model, asked = study.lm.model, stories.some(stories.stories(study.lm, 0), 4)
    rows = QUARTER[:5]
    clean, corrupted = causes.both(study, asked)
    difference = patches.difference(model, corrupted.streams[-1], asked)
    torch.testing.assert_close(difference, both["corrupted"][rows], atol=0.02, rtol=0)
    donors = (
        clean.z,
        patches.mixed(clean.pattern, corrupted.values),
        patches.mixed(corrupted.pattern, clean.values),
    )
    for layer, head in both.loudest(3):
        for way, donor in zip(WAYS, donors, strict=True):

            def put(z, donor=donor, layer=layer, head=head):
                z = z.clone()
                z[:, head, -1] = donor[layer][:, head, 0]
                return z

            with torch.no_grad():
                last = model.hidden(asked.corrupted, edits={("z", layer): put})[:, -1]
            toward = patches.answer_minus_other(model, asked)
            changed = (last * toward).sum(-1) - difference
            stored = both[way][rows, both.number(layer, head)]
            torch.testing.assert_close(changed, stored, atol=0.02, rtol=0)


def test_most_stories_are_told_right_and_the_corrupted_ones_favour_neither_name(both):
    assert both["right"].mean() > 0.9
    assert (both["clean"] > 0).float().mean() > 0.99
    # The same corrupted prompt belongs to both givers: what one favours, the other does not.
    assert abs(float(both["corrupted"].mean())) < 0.01
    assert both["induction_right"].mean() > 0.75


# --- weights or values --------------------------------------------------------------------------

READERS = {SMOLLM2: [(23, 3), (20, 0)], GEMMA3: [(11, 3), (10, 3)]}  # of the giver
AT_HOME = {SMOLLM2: [(29, 1), (29, 0)], GEMMA3: [(15, 1), (15, 2), (15, 3)]}  # of the last token
FOR, AGAINST = (  # heads that look at the answer
    {SMOLLM2: [(23, 0), (23, 1), (23, 7)], GEMMA3: [(12, 1)]},
    {SMOLLM2: [(24, 4)], GEMMA3: [(13, 3), (17, 2)]},
)


def test_the_loudest_heads_are_the_same_in_either_half(both):
    named = READERS[both.name] + AT_HOME[both.name] + AGAINST[both.name]
    assert {*named} <= {*both.loudest(8)}
    for head in named:
        first, second = (both.share("restore", head, half) for half in (range(6), SECOND))
        assert min(abs(end) for end in (*first, *second)) > 0.03
        assert (first[0] > 0) == (second[0] > 0)


@pytest.mark.claim(113)
@pytest.mark.claim(122)
@pytest.mark.parametrize("corruption", ["", "swapped_"])
def test_the_loudest_readers_act_through_values_and_never_through_weights_alone(both, corruption):
    gap = both[f"{corruption}clean"] - both[f"{corruption}corrupted"]
    for head in READERS[both.name] + AT_HOME[both.name]:
        whole, weights, values = (both.share(f"{corruption}{way}", head, gap=gap) for way in WAYS)
        assert max(map(abs, weights)) < 0.05
        assert min(map(abs, values)) > 0.1
        assert (whole[0] > 0) == (values[0] > 0)


@pytest.mark.claim(113)
@pytest.mark.claim(122)
@pytest.mark.parametrize("corruption", ["", "swapped_"])
def test_heads_that_look_at_the_answer_act_through_weights(both, corruption):
    gap = both[f"{corruption}clean"] - both[f"{corruption}corrupted"]
    for heads, sign in ((FOR, 1), (AGAINST, -1)):
        for head in heads[both.name]:
            _, weights, values = (
                [sign * end for end in both.share(f"{corruption}{way}", head, gap=gap)]
                for way in WAYS
            )
            assert min(weights) > 0.03
            assert min(weights) > max(values)


@pytest.mark.claim(113)
def test_rows_and_values_of_the_loudest_reader_need_each_other(both):
    """Values alone restore less than the whole does: the row matters once they are there."""
    gap, number = both.gap(), both.number(*READERS[both.name][0])
    whole, values = both["restore"][:, number], both["values"][:, number]
    assert share(whole - values, gap)[0] > 0.1
    if both.name == GEMMA3:  # where it is more than half
        assert share(values - whole / 2, gap)[1] < 0


@pytest.mark.claim(113)
@pytest.mark.claim(122)
def test_a_readers_row_is_needed_and_the_same_in_every_story(both):
    gap, head = both.gap(60), READERS[both.name][0]
    assert both.share("turned", head, gap=gap)[1] < -0.2
    for reader in READERS[both.name]:
        assert max(map(abs, both.share("averaged", reader, gap=gap))) < 0.05
    looker = AGAINST[both.name][0]
    assert both.share("averaged", looker, gap=gap)[0] > 0.1


@pytest.mark.claim(113)
def test_late_heads_read_their_own_position_and_readers_read_the_giver(both):
    gap = both.gap(60)
    for heads, source in ((READERS, "values_giver"), (AT_HOME, "values_last")):
        for head in heads[both.name]:
            number = both.number(*head)
            whole = both["values"][QUARTER, number]
            assert share((whole - both[source][:, number]).abs(), gap)[1] < 0.1
            assert min(map(abs, both.share(source, head, gap=gap))) > 0.05


@pytest.mark.claim(113)
@pytest.mark.claim(122)
def test_one_head_carries_the_name_and_another_the_position(both):
    """Names exchanged, positions kept; and the values of another pair, in the same positions."""
    renamed, gap = both["renamed_clean"] - both["renamed_corrupted"], both.gap(60)
    name = READERS[both.name][0]
    assert both.share("renamed_restore", name, gap=renamed)[0] > 0.2
    assert both.share("control_values", name, gap=gap)[1] < 0.15
    for position in {SMOLLM2: [(20, 0), (19, 2)], GEMMA3: [(9, 3)]}[both.name]:
        assert max(map(abs, both.share("renamed_restore", position, gap=renamed))) < 0.05
        number = both.number(*position)
        own, other = both["values"][QUARTER, number], both["control_values"][:, number]
        assert share(other - own / 2, gap)[0] > 0


@pytest.mark.claim(113)
def test_the_rows_of_another_pair_do_as_well_and_whole_outputs_do_not(both):
    gap = both.gap(60)
    for heads, sign in ((FOR, 1), (AGAINST, -1)):
        for head in heads[both.name]:
            same, wrong = (
                both.share(f"control_weights{form}", head, gap=gap) for form in ("", "_wrong")
            )
            assert min(sign * end for end in same) > 0.02
            assert max(sign * end for end in wrong) < 0
    unrelated = both["control_whole"][30:].mean(0) / gap[30:].mean()
    own = both["restore"][120:].mean(0) / both.gap()[120:].mean()
    assert unrelated.abs().sum() < own.abs().sum() / 2


@pytest.mark.claim(113)
@pytest.mark.claim(122)
def test_the_corruption_opens_the_door(both):
    """The head that looks up what followed: by its row, by its values, by what is corrupted."""
    head = {SMOLLM2: (18, 6), GEMMA3: (11, 2)}[both.name]
    number = both.number(*head)
    for texts, door, shut in (
        ("induction", "weights", "values"),
        ("induction_renamed", "values", "weights"),
        ("fork", "weights", "values"),
    ):
        fields = {way: both[f"{texts}_{way}"][:, number] for way in WAYS}
        gap = both[f"{texts}_clean"] - both[f"{texts}_corrupted"]
        if texts == "fork":
            fields, gap = {way: by_pairs(x) for way, x in fields.items()}, by_pairs(gap)
        low, _ = over_texts(fields[door], gap)
        assert low > 0.08
        assert max(map(abs, over_texts(fields[shut], gap))) < 0.05
        assert max(map(abs, over_texts(fields["restore"] - fields[door], gap))) < 0.05


@pytest.mark.claim(113)
@pytest.mark.claim(122)
def test_with_both_doors_open_who_reads_the_clue_acts_through_values(both):
    """Texts that fork: the word before the last tells which sequence is repeated."""
    reader = {SMOLLM2: (16, 0), GEMMA3: (10, 1)}[both.name]
    number, gap = both.number(*reader), by_pairs(both["fork_clean"] - both["fork_corrupted"])
    values, weights = (
        over_texts(by_pairs(both[f"fork_{way}"][:, number]), gap) for way in ("values", "weights")
    )
    assert values[0] > 0.05
    assert max(map(abs, weights)) < 0.02
    before_last = both["fork_weight"][:, both.first * both.heads + number, 2]
    assert before_last.mean() > 0.4


# --- which reading of a map ranks with the effect -----------------------------------------------


@pytest.mark.claim(106)
@pytest.mark.claim(122)
def test_the_bare_weight_does_not_rank_with_the_effect_of_heads_that_act(both):
    effect = both["restore"].mean(0) / both.gap().mean()
    act = effect.abs() > 0.01
    weight = both["weight"][:, both.first * both.heads :, 0]
    direct, gradient = (both[x][:, both.first * both.heads :] for x in ("direct", "gradient"))
    assert 15 < act.sum() < 40
    assert abs(ranks(weight.mean(0)[act], effect[act])) < 0.2
    assert ranks(both["signed"].mean(0)[act], effect[act]) > 0.4
    assert ranks(direct.mean(0)[act], effect[act]) > 0.5
    assert ranks(gradient.mean(0)[act], effect[act]) > 0.95
    ten = {
        name: {*x.topk(10).indices.tolist()}
        for name, x in {
            "looking": weight.mean(0),
            **{way: both[way].mean(0).abs() for way in WAYS},
        }.items()
    }
    assert len(ten["looking"] & ten["weights"]) > len(ten["looking"] & ten["restore"])
    assert len(ten["looking"] & ten["weights"]) > len(ten["looking"] & ten["values"])


# --- reading meets writing ----------------------------------------------------------------------


@pytest.mark.claim(114)
@pytest.mark.claim(122)
def test_the_loudest_head_reads_the_giver_and_lowers_the_giver(both):
    terms = both["terms"][:, both.number(*READERS[both.name][0])]  # (60, source, direction)
    answer, other = terms[..., 0].sum(1), terms[..., 1].sum(1)
    one = torch.ones(60)
    assert share(other, one, range(12))[1] < -2
    assert share(other.abs() - 2 * answer.abs(), one, range(12))[0] > 0
    assert share(terms[:, 2, 1] / other, one, range(12))[0] > 0.6  # read at the giver
    weight = both["looks"][:, both.first * both.heads + both.number(*READERS[both.name][0])]
    assert weight[:, causes.SOURCES.index("giver")].mean() > 2 * weight[:, 1:3].amax(1).mean()


@pytest.mark.claim(114)
@pytest.mark.claim(122)
def test_heads_that_look_at_the_answer_raise_it_or_lower_it_from_there(both):
    for heads, sign in ((FOR, 1), (AGAINST, -1)):
        for head in heads[both.name]:
            terms = sign * both["terms"][:, both.number(*head)]
            assert share(terms[:, 0, 0], torch.ones(60), range(12))[0] > 0.5
            assert share(terms[:, 0, 0] - terms[:, 1:, 0].sum(1).abs(), torch.ones(60))[0] > 0


@pytest.mark.claim(114)
def test_the_stored_terms_sum_to_the_attribution(both):
    terms = both["terms"].sum(2)
    direct = both["direct"][:, both.first * both.heads :].view(60, 4, -1).mean(1)
    torch.testing.assert_close(terms[..., 0] - terms[..., 1], direct, atol=0.01, rtol=0.01)
    names = both["names"]
    torch.testing.assert_close(names[:, 0] - names[:, 1], names[:, 3], atol=0.03, rtol=0)


# --- feed-forward blocks ------------------------------------------------------------------------


@pytest.mark.claim(116)
@pytest.mark.claim(122)
def test_blocks_write_a_third_of_the_difference_or_less(both):
    """Attribution of a clean run also counts what a block writes in either story."""
    gap, everywhere = both.gap(), range(12)
    change = both["blocks_clean"].sum(1) - both["blocks_corrupted"].sum(1)
    low, high = share(change, gap, everywhere)
    if both.name == SMOLLM2:
        assert 0.2 < low < high < 0.4
        first = both["blocks_clean"][0].sum(), both["blocks_corrupted"][0].sum()
        assert first[0] > 0.7 * both["clean"][0]  # of one prompt most, and in either story
        assert first[1] > 0.4 * first[0]
    else:
        assert high < 0


@pytest.mark.claim(116)
@pytest.mark.claim(122)
def test_patched_together_blocks_restore_what_attribution_gives_them(both):
    gap, everywhere = both.gap(), range(12)
    change = both["blocks_clean"].sum(1) - both["blocks_corrupted"].sum(1)
    assert max(map(abs, share(change - both["blocks_frozen"], gap, everywhere))) < 0.02
    rest = share(both["heads_frozen"] + change - gap, gap, everywhere)  # but for the last norm
    assert max(map(abs, rest)) < 0.12
    alone = both["block"].mean(0) / both.gap(60).mean()
    assert alone.abs().max() < 0.15
    free = share(both["blocks_from"][:, 0], both.gap(60), everywhere)
    assert 0.1 < free[0] < free[1] < 0.35


# --- the circuit as a whole ---------------------------------------------------------------------


def of_set(both, field, name):
    """The changes of a set of heads: by prompt, or by prompt and draw."""
    return both[field][:, list(both.card["sets"]).index(name)]


CIRCUIT = {SMOLLM2: "helping-2", GEMMA3: "helping-4"}


@pytest.mark.claim(115)
@pytest.mark.claim(122)
def test_a_few_heads_restore_all_and_random_ones_of_their_layers_nothing(both):
    gap, name = both.gap(), CIRCUIT[both.name]
    low, high = share(of_set(both, "sets_together", name), gap)
    assert 0.9 < low < high < 1.25
    assert share(of_set(both, "sets_without", name), gap)[1] < -0.6
    for field, sign in (("random_together", 1), ("random_without", -1)):
        drawn = sign * of_set(both, field, name).mean(0) / both.gap(60)[30:].mean()
        assert drawn.max() < 0.2


@pytest.mark.claim(115)
@pytest.mark.claim(122)
def test_heads_chosen_by_looking_are_no_circuit(both):
    gap = both.gap()
    assert share(of_set(both, "sets_together", "looking-1"), gap)[1] < -0.1
    assert share(of_set(both, "sets_together", "looking-4"), gap)[1] < 0.3


@pytest.mark.claim(115)
def test_the_effects_of_single_heads_do_not_add_up(both):
    gap, members = both.gap(), both.card["sets"]["helping-8"]
    single = sum(both["restore"][:, both.number(*head)] for head in members)
    assert share(single - of_set(both, "sets_together", "helping-8"), gap)[0] > 0.2
    broken = both["alone"][:, :8].sum(1)  # of loud-8, helpers and opponents
    assert share(broken - of_set(both, "sets_without", "loud-8"), gap)[0] > 0.2


@pytest.mark.claim(115)
@pytest.mark.claim(122)
def test_the_head_that_works_against_the_answer_repairs(both):
    """Without the loudest head it pushes the answer down less, and no other head gains as much."""
    gap, broken, against = both.gap(60), READERS[both.name][0], AGAINST[both.name][0]
    assert both.card["sets"]["helping-1"] == [list(broken)]

    def change(head):
        return both["repair"][:, 0, head[0] * both.heads + head[1]]

    assert share(change(broken), gap)[1] < -0.4
    assert share(change(against), gap)[0] > 0.15
    others = both["repair"][:, 0].mean(0).clone()
    for layer, head in (broken, against):
        others[layer * both.heads + head] = 0
    assert others.max() < change(against).mean() / 2


def test_all_maps_together_carry_much_though_the_loudest_alone_carries_nothing(both):
    """Rows of all heads at once, values live: what one row brings depends on the others."""
    gap = both["clean"] - both["corrupted"]
    assert share(both["maps_broken"], gap)[1] < -0.8
    assert share(both["maps_restored"], gap)[0] > 0.1
