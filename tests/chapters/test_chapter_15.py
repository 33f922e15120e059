"""The theses of chapter 15, with their controls.

What the recipes measure is tested on small models in tests/recipes; here the stored results are
read as the chapter reads them, and measured again on a prompt. Intervals are over prompts: names
and templates drawn with replacement, heads chosen on the first half and reported on the second.
"""

from types import SimpleNamespace

import pytest
import torch
from chapter_code import definitions
from patched import activation_patching
from road_rules import theses
from tiny import assert_near, config_of, ids_of, model_of

from attnlib import pretrained
from attnlib.explain.patching import direct_logit_attribution, logit_difference, logit_lens
from attnlib.models import Transformer
from recipes import stories

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "15_causes",
    *("lm", "model", "prompt", "ids", "mary", "john", "results", "FIRST", "HEADS"),
    *("FIRST_HALF", "SECOND_HALF", "prompts", "interval", "share", "head_name", "number"),
    *("patched_heads", "read", "writes", "clean", "difference", "put", "restored"),
    *("split", "choose", "report", "gaps", "held_out"),
    *("spearman", "chosen", "DOORS", "PATCHES", "doors", "quarter", "SIZES", "CARDS"),
    *("ORDER", "of_random", "of_quarter", "block_shares"),
)
ANSWER, OTHER, GIVER = range(3)
MODELS = ("SmolLM2", "Gemma 3")


def reported(field, head, model="SmolLM2"):
    """The interval of a head's share on the second half of templates and names."""
    changes = CHAPTER.results[model][field][:, CHAPTER.number(model, head)]
    gaps = CHAPTER.gaps[model]
    ends = CHAPTER.interval(lambda rows: CHAPTER.share(changes, gaps, rows), CHAPTER.held_out)
    return [float(end) for end in ends]


def over_prompts(values):
    """The interval of a mean over prompts."""
    return [float(end) for end in CHAPTER.interval(lambda rows: values[rows].mean())]


def weight_on(name, head, model="SmolLM2"):
    """A head's mean weight on one of the three names, second half."""
    weights = CHAPTER.patched_heads(model, "weight")[CHAPTER.report, :, name]
    return float(weights.mean(0)[CHAPTER.number(model, head)])


# --- what stands on the page is what it says -----------------------------------------------------


def small():
    """The chapter's functions over a small model, and two runs of it on ids that differ."""
    shape = {"layers": 3, "heads": 6, "kv_heads": 2, "d_model": 12, "d_ff": 10}
    model = model_of(config_of(norm_kind="rms", positions="rotary", **shape))
    clean = ids_of(0, 7)
    corrupted = clean.clone()
    corrupted[3] = (clean[3] + 4) % 13
    chapter = definitions(
        "15_causes",
        *("lm", "model", "prompt", "read", "clean", "writes", "difference", "put", "restored"),
        *("split", "stream_map", "head_maps", "ids"),
    )
    space = chapter.split.__globals__
    space.update(model=model)
    runs = [
        list(model.run(model.embed(ids[None]), need_weights=True)) for ids in (clean, corrupted)
    ]
    space.update(clean=runs[0])
    return SimpleNamespace(
        model=model, ids=(clean, corrupted), runs=(*runs, (3, 5)), chapter=chapter
    )


@pytest.mark.claim(102)
def test_the_stream_map_is_activation_patching():
    one = small()
    expected = activation_patching(one.model, *one.ids, logit_difference(3, 5))
    assert_near(one.chapter.stream_map(one.runs, one.runs[0]), expected[:, 3:])


@pytest.mark.claim(113)
def test_a_split_effect_is_its_definition_on_a_small_model():
    """Whole, weights and values, put in by an edit at the last token alone."""
    one = small()
    metric = logit_difference(3, 5)
    whole, none = (metric(one.model(ids[None])[0, -1]) for ids in one.ids)
    for layer, head in ((0, 4), (1, 1), (2, 5)):
        A, A_ = (run[layer].pattern[0, head, -1] for run in one.runs[:2])
        V, V_ = (run[layer].v[0, head // 3] for run in one.runs[:2])
        assert_near(A @ V, one.runs[0][layer].z[0, head, -1])
        told = one.chapter.split(one.runs, layer, head)
        for name, z in (("both", A @ V), ("weights alone", A @ V_), ("values alone", A_ @ V)):
            edits = {("z", layer): replaced(head, z)}
            changed = metric(one.model(one.ids[1][None], edits=edits)[0, -1])
            assert told[name] == pytest.approx(float((changed - none) / (whole - none)), abs=1e-6)


def test_what_a_reader_pulls_of_heads_is_what_split_says():
    one = small()
    maps = one.chapter.head_maps(one.runs)
    assert maps.shape == (3, 3, 6)
    for layer, head in ((0, 4), (1, 1), (2, 5)):
        told = [*one.chapter.split(one.runs, layer, head).values()]
        assert maps[:, layer, head].tolist() == pytest.approx(told, abs=1e-6)


def replaced(head, output):
    def edit(z):
        z = z.clone()
        z[0, head, -1] = output
        return z

    return edit


@pytest.mark.claim(101)
@pytest.mark.claim(114)
def test_weight_times_writing_sums_to_the_attribution_of_a_head():
    """Over the sources of every head of the prompt, and of all parts to the logit difference."""
    parts = direct_logit_attribution(CHAPTER.model, CHAPTER.ids, CHAPTER.mary, CHAPTER.john)
    asked = logit_difference(CHAPTER.mary, CHAPTER.john)(CHAPTER.model(CHAPTER.ids[None])[0, -1])
    assert_near(parts.total, asked, 1e-3)
    for layer, head in ((23, 3), (24, 4), (29, 1), (20, 0)):
        A, adds = CHAPTER.writes(layer, head)
        own = A @ (adds[:, CHAPTER.mary] - adds[:, CHAPTER.john])
        assert_near(own, parts.heads[layer, head], 1e-4)


@pytest.mark.slow
def test_the_stored_results_are_measured_again():
    """The first form of the first template, one head at a time and without a cache."""
    stored, asked = CHAPTER.results["SmolLM2"], stories.stories(CHAPTER.lm, 0, "third")
    clean, corrupted = asked.clean[0], asked.corrupted[0]
    assert CHAPTER.lm.decode(clean) == CHAPTER.prompt
    runs = [CHAPTER.read(CHAPTER.lm.decode(ids)) for ids in (clean, corrupted)]
    answers = int(asked.right[0]), int(asked.wrong[0])
    ends = [float(CHAPTER.difference(run[-1], answers)) for run in runs]
    assert ends == pytest.approx([float(stored[n][0]) for n in ("clean", "corrupted")], abs=0.01)
    for head in ("23.3", "24.4", "20.0"):
        shares = CHAPTER.split((*runs, answers), *map(int, head.split(".")))
        for field, name in (
            ("restore", "both"),
            ("weights", "weights alone"),
            ("values", "values alone"),
        ):
            change = float(stored[field][0, CHAPTER.number("SmolLM2", head)])
            assert shares[name] * (ends[0] - ends[1]) == pytest.approx(change, abs=0.01)
    maps = CHAPTER.model.trace(clean).pattern[:, :, -1]
    assert_near(maps.flatten(0, 1)[:, 1], stored["weight"][0, :, 0], atol=1e-3)


def test_prompts_of_ones_own_are_read_as_two_runs():
    own = definitions("15_causes", "lm", "read_pair")
    text = "Mary met John|Anna, who left > Mary|John"
    told, answers = own.read_pair(text)
    assert told == ["Mary met John, who left", "Mary met Anna, who left"]
    assert [own.lm.decode([name]) for name in answers] == [" Mary", " John"]
    for wrong, message in (
        ("Mary met John", "then > and two answers"),
        ("a | b > Mary|John", "then > and two answers"),
        ("one two|seventeenthly > Mary|John", "choose words of equal length"),
        ("one two > Mary|John", "two texts that differ"),
        ("one two|three > Mary|Mary", "two answers that differ"),
        ("one two|three" + " and" * 40 + " > Mary|John", "30 at most"),
    ):
        with pytest.raises(ValueError, match=message):
            own.read_pair(wrong)


@pytest.mark.slow
def test_accusations_in_ones_own_text_are_measured_as_the_stored_ones():
    own = definitions("15_causes", "lm", "model", "prompt", "ids", "without", "suspects")
    view, stored = own.suspects(own.prompt), pretrained.card("suspects")
    view.accused = (24, 4)
    words, after = view._spec["words"], view._answers["24,4"]
    assert words[0] == " Mary"
    assert after[0] == pytest.approx(stored["zero"][24][4][0], abs=2e-3)
    with pytest.raises(ValueError, match="no head can look at it"):
        own.suspects("The capital of France is")


# --- the story -----------------------------------------------------------------------------------


@pytest.mark.claim(105)
def test_both_models_name_the_right_person():
    for model in MODELS:
        stored = CHAPTER.results[model]
        assert stored["right"].shape == (240,)
        assert over_prompts(stored["right"])[0] > 0.8, model
        assert (stored["clean"] > 0).float().mean() > 0.98, model
        corrupted, clean = (over_prompts(stored[name].abs()) for name in ("corrupted", "clean"))
        assert corrupted[1] < clean[0], f"{model}: the corrupted story still says who is meant"


@pytest.mark.claim(102)
def test_the_difference_stands_at_the_giver_and_moves_to_the_last_token():
    stored = CHAPTER.results["SmolLM2"]
    layers = pretrained.card("causes")["stream"]
    gaps = CHAPTER.gaps["SmolLM2"][torch.arange(60) * 4 + torch.arange(60) % 5 % 4]

    def share_at(layer, position):
        changes = stored["stream"][:, layers.index(layer), position]

        def statistic(rows):
            return CHAPTER.share(changes, gaps, rows)

        ends = CHAPTER.interval(statistic, lambda draw: CHAPTER.prompts(draw, forms=1))
        return [float(end) for end in ends]

    for layer in (0, 6, 12, 14, 16, 18):
        assert share_at(layer, 0)[0] > 0.95
    for layer in (26, 28, 30):
        assert share_at(layer, 2)[0] > 0.85
        assert max(map(abs, share_at(layer, 0))) < 0.1
    low, high = share_at(22, 2)
    assert 0.3 < low < high < 0.6, "what the lens does not see"


@pytest.mark.claim(100)
def test_the_lens_reads_late():
    """After 22 layers it ranks the two names alike, though much of the difference has arrived."""
    lens = CHAPTER.results["SmolLM2"]["lens"]
    answer, other, absent = (lens[..., k].median(0).values + 1 for k in range(3))
    assert ((answer / other)[:23].log().abs() < 0.15).all(), "the lens tells the names apart early"
    assert (answer[24:29] < other[24:29] / 3).all()
    assert (answer[24:29] < absent[24:29] / 3).all()  # the control: a name not in the text
    assert answer[30] == 1
    torch.manual_seed(0)
    untrained = Transformer(config_of(layers=6, vocab_size=49_152, max_len=16)).eval()
    ranks = logit_lens(untrained, CHAPTER.ids).argsort(-1, descending=True).argsort(-1)
    assert ranks[1:, [CHAPTER.mary, CHAPTER.john]].min() > 100


# --- the theses ----------------------------------------------------------------------------------


@pytest.mark.claim(107)
@pytest.mark.claim(114)
def test_the_head_that_restores_most_reads_the_giver_and_lowers_the_giver():
    for model, most, lowers, raises in (
        ("SmolLM2", "23.3", "24.4", "23.0"),
        ("Gemma 3", "11.3", "13.3", "12.1"),
    ):
        helping = CHAPTER.chosen(model)["restore most"]
        assert helping[0] == CHAPTER.number(model, most)
        assert reported("restore", most, model)[0] > 0.4
        assert weight_on(GIVER, most, model) > 3 * weight_on(ANSWER, most, model)
        assert from_source(model, most, GIVER)[OTHER] < -1.5, "it lowers the giver's logit"
        # two heads that look at the answer, and write with opposite signs
        looking = CHAPTER.chosen(model)["look hardest"]
        assert {CHAPTER.number(model, head) for head in (lowers, raises)} <= set(looking)
        assert (
            from_source(model, lowers, ANSWER)[ANSWER] < -1 < reported("restore", lowers, model)[0]
        )
        assert reported("restore", lowers, model)[1] < -0.05
        assert from_source(model, raises, ANSWER)[ANSWER] > 1
        assert reported("restore", raises, model)[0] > 0.03


def from_source(model, head, source):
    """What a source adds to the answer's and to the other's logit through a head, on the mean."""
    terms = CHAPTER.results[model]["terms"][:, CHAPTER.number(model, head)]
    return terms.mean(0)[source, :2]


@pytest.mark.claim(113)
def test_the_maps_of_the_heads_that_restore_most_restore_nothing_alone():
    for model in MODELS:
        groups = CHAPTER.chosen(model)
        whole, weights, values = (
            summed(model, field, groups["restore most"])
            for field in ("restore", "weights", "values")
        )
        assert whole[0] > 0.8, model
        assert max(map(abs, weights)) < 0.06, model
        assert values[0] > 0.5, model
        # the control: heads that look at the answer act through their weights
        looking = [head for head in groups["look hardest"] if abs(effect_of(model, head)) > 0.02]
        for head in looking:
            both, alone, taken = (
                abs(effect_of(model, head, field)) for field in ("restore", "weights", "values")
            )
            assert alone > max(taken, 0.8 * both), (model, head)


def effect_of(model, head, field="restore"):
    changes = CHAPTER.results[model][field]
    return float(CHAPTER.share(changes, CHAPTER.gaps[model], CHAPTER.report)[head])


def summed(model, field, heads):
    """The interval of the summed shares of some heads, second half."""
    changes, gaps = CHAPTER.results[model][field][:, heads].sum(1), CHAPTER.gaps[model]
    ends = CHAPTER.interval(lambda rows: CHAPTER.share(changes, gaps, rows), CHAPTER.held_out)
    return [float(end) for end in ends]


@pytest.mark.claim(113)
def test_a_corruption_decides_what_weights_can_carry():
    for model, in_fork in (("SmolLM2", "18.6"), ("Gemma 3", "11.2")):
        # forced: no earlier value differs, or no weight need differ
        whole, weights, values = CHAPTER.doors(model, "induction_")
        assert weights > max(0.6 * whole, 2 * values), model
        whole, weights, values = CHAPTER.doors(model, "induction_renamed_")
        assert values > 0.9 * whole > 5 * weights, model
        # not forced: the answer stands elsewhere, and the heads that restore most do not turn
        whole, weights, values = CHAPTER.doors(model, "swapped_")
        assert values > 0.9 * whole > 10 * weights, model
        # not forced: in a look-up the head that restores most turns
        most = under("fork_", "restore", model)
        head = CHAPTER.number(model, in_fork)
        assert most.argmax() == head
        assert under("fork_", "weights", model)[head] > 0.9 * most[head] > 0.3
        assert abs(under("fork_", "values", model)[head]) < 0.05


def under(prefix, field, model):
    """Shares of all heads under a corruption, second half."""
    stored = CHAPTER.results[model]
    differences = stored[f"{prefix}clean"] - stored[f"{prefix}corrupted"]
    half = slice(len(differences) // 2, None)
    return CHAPTER.share(stored[prefix + field], differences, half)


@pytest.mark.claim(113)
def test_a_map_that_is_turned_to_the_wrong_person_costs_the_answer():
    """Also the control of the thesis above: what carries no difference may matter all the same."""
    quarter = CHAPTER.quarter
    for model, head, against, least in (
        ("SmolLM2", "23.3", "24.4", 0.5),
        ("Gemma 3", "11.3", "17.2", 0.3),
    ):
        for name, sign in ((head, -1), (against, 1)):
            changes = sign * CHAPTER.results[model]["turned"][:, CHAPTER.number(model, name)]
            gaps = CHAPTER.gaps[model][quarter]

            def statistic(rows, changes=changes, gaps=gaps):
                return CHAPTER.share(changes, gaps, rows)

            low, _ = CHAPTER.interval(statistic, lambda draw: CHAPTER.prompts(draw, forms=1))
            assert low > (least if name == head else 0.05), (model, name)
        itself = CHAPTER.results["SmolLM2"]["turned"][:, CHAPTER.number("SmolLM2", "29.1")]
        assert itself.abs().max() < 0.1  # the control: it looks at neither name


@pytest.mark.claim(115)
def test_four_heads_are_enough_and_nearly_nothing_is_left_without_them():
    for model in MODELS:
        order, gaps = CHAPTER.ORDER[model], CHAPTER.gaps[model]
        stored = CHAPTER.results[model]

        def shares(field, name, stored=stored, order=order, gaps=gaps):
            changes = stored[field][:, order.index(name)]
            ends = CHAPTER.interval(
                lambda rows: CHAPTER.share(changes, gaps, rows), CHAPTER.held_out
            )
            return [float(end) for end in ends]

        assert shares("sets_together", "helping-4")[0] > 0.9, model
        assert shares("sets_without", "helping-4")[1] < -0.8, model
        assert shares("sets_together", "looking-4")[1] < 0.35, model
        at = CHAPTER.SIZES.index(4)
        assert CHAPTER.of_random(model, "random_together")[at].max() < 0.155, model  # the control
        assert CHAPTER.of_random(model, "random_without")[at].min() > -0.15, model
        left = 1 + CHAPTER.share(
            stored["sets_without"][:, order.index("helping-4")], gaps, CHAPTER.report
        )
        assert left < 1 / 6, model


@pytest.mark.claim(115)
def test_a_head_that_works_against_the_answer_makes_up_for_a_broken_one():
    stored = CHAPTER.results["SmolLM2"]
    gap = CHAPTER.gaps["SmolLM2"][CHAPTER.quarter].mean()
    changes = (stored["repair"][:, 0].mean(0) / gap).view(30, 9)
    assert changes[23, 3] < -0.4
    assert 0.2 < changes[24, 4] / -changes[23, 3] < 0.45
    assert changes.flatten().sort().values[-1] == changes[24, 4]  # nobody makes up for more


@pytest.mark.claim(116)
def test_blocks_amplify_what_heads_bring():
    """All heads with the blocks frozen against the blocks free; single blocks; all together."""
    smol, gemma = (CHAPTER.block_shares(model) for model in MODELS)
    terms, single, together, frozen, free = (float(value) for value in smol.values())
    assert 0.25 < terms < 0.45
    assert abs(single) < 0.2
    assert single < together < terms
    assert frozen < 0.8 < free == 1
    assert abs(float(next(iter(gemma.values())))) < 0.15


@pytest.mark.claim(106)
def test_the_weight_does_not_rank_with_the_effect_and_weight_times_writing_does():
    for model, rarely in (("SmolLM2", 0.005), ("Gemma 3", 0.05)):
        stored, gaps = CHAPTER.results[model], CHAPTER.gaps[model]
        acting = CHAPTER.share(stored["restore"], gaps, CHAPTER.choose).abs() > 0.01
        assert 15 < acting.sum() < 40
        measures = {
            "weight": CHAPTER.patched_heads(model, "weight")[..., ANSWER],
            "signed": stored["signed"],
            "gradient": CHAPTER.patched_heads(model, "gradient"),
        }
        ends = {name: rank_interval(x, stored["restore"], acting) for name, x in measures.items()}
        assert -0.3 < ends["weight"][0] < ends["weight"][1] < 0.2, model
        assert ends["weight"][1] < ends["signed"][0], model
        assert ends["gradient"][0] > 0.95, model
        by_chance = {name: chance(x, stored["restore"], acting) for name, x in measures.items()}
        assert by_chance["weight"] > 0.2, model
        assert by_chance["signed"] < rarely, model
    assert by_chance["signed"] > 0.005, "in Gemma 3 it ranks hardly above chance"


def chance(x, y, heads, times=1000):
    """How often shuffled heads rank at least as well as heads do, on the second half."""
    x, y = (effects[CHAPTER.report].mean(0)[heads] for effects in (x, y))
    draw = torch.Generator().manual_seed(0)
    shuffled = [y[torch.randperm(len(y), generator=draw)] for _ in range(times)]
    own = CHAPTER.spearman(x, y)
    return sum(CHAPTER.spearman(x, other) >= own for other in shuffled) / times


def rank_interval(x, y, heads):
    def rank(rows):
        return torch.tensor(CHAPTER.spearman(x[rows].mean(0)[heads], y[rows].mean(0)[heads]))

    return [float(end) for end in CHAPTER.interval(rank, CHAPTER.held_out, times=50)]


# --- the side roads ------------------------------------------------------------------------------

REPLACED = definitions(
    "more/15_replacements", "results", "quarter", "gap", "FIELDS", "harms", "spearman", "agreement"
)
PATHS = definitions(
    "more/15_paths", "lm", "model", "card", "stored", "quarter", "gap", "whole", "read", "looks"
)


def late(layer, head):
    """The number of a head of SmolLM2 among those of layers 10 to 29."""
    return (layer - 10) * 9 + head


@pytest.mark.claim(103)
def test_replacements_agree_on_heads_that_act_and_scramble_the_idle():
    for rows in (slice(30), slice(30, 60)):
        for harm in REPLACED.harms("SmolLM2", rows).values():
            loudest = set(harm.abs().topk(4).indices.tolist())
            assert {late(23, 3), late(20, 0), late(29, 1)} <= loudest
    upper = torch.triu(torch.ones(4, 4), 1) > 0
    for model in MODELS:
        acting, idle = (REPLACED.agreement(model, idle)[upper] for idle in (False, True))
        assert acting.min() > 0.4, model
        assert idle.max() < 0.7, model
        assert acting.mean() - idle.mean() > 0.25, model
    # zeros hardly show that a head works against the answer
    for model, against, most in (("SmolLM2", "24.4", -0.1), ("Gemma 3", "13.3", -0.2)):
        harm, k = REPLACED.harms(model), CHAPTER.number(model, against)
        assert harm["corrupted"][k] < most < -0.05 < harm["zeros"][k]
    # 23.0 restores a tenth, and is not missed
    restored = REPLACED.results["SmolLM2"]["restore"][REPLACED.quarter, late(23, 0)]
    assert restored.mean() > 0.05 * REPLACED.gap("SmolLM2")
    assert all(harm[late(23, 0)] < 0.03 for harm in REPLACED.harms("SmolLM2").values())


@pytest.mark.long
@pytest.mark.claim(104)
def test_what_heads_of_layer_23_write_tells_24_4_where_to_look():
    to_24_4, to_23_0, to_23_3 = (
        PATHS.stored[f"to_{name}"].mean(0) / PATHS.gap for name in ("24_4", "23_0", "23_3")
    )
    for sender in (late(20, 0), late(19, 2)):  # through 23.0 goes a part of what they restore
        assert 0.2 < to_23_0[sender] / PATHS.whole[sender] < 0.4
    assert to_24_4[late(23, 3)] < -0.05
    assert to_24_4[late(23, 0)] < -0.05
    # the controls: a head that looks at the giver anyway, and all other senders
    assert to_23_3.abs().max() < 0.03
    others = [k for k in range(late(24, 0)) if k // 9 != 13]
    assert to_24_4[others].abs().max() < 0.03
    rows = {name: [] for name in ("nothing", "movers", "23.3", "all")}
    sets = {"nothing": [], "movers": [0, 1, 2], "23.3": [3], "all": range(4)}
    for template in (0, 7):
        asked = stories.some(stories.stories(PATHS.lm, template, "third"), 8)
        for clean, corrupted, at in zip(asked.clean, asked.corrupted, asked.positions, strict=True):
            runs = [PATHS.read(PATHS.lm.decode(ids)) for ids in (clean, corrupted)]
            for name, heads in sets.items():
                rows[name].append(PATHS.looks(*runs, heads)[at[:2]])
    answer, other = torch.stack([torch.stack(row).mean(0) for row in rows.values()]).unbind(1)
    nothing, movers, giver, everything = range(4)
    assert answer[movers] > answer[nothing] + 0.1
    assert answer[giver] < answer[nothing] + 0.05
    assert other[giver] < other[nothing] / 2
    assert answer[everything] > 0.55


# --- the theses as a list ------------------------------------------------------------------------


@pytest.mark.claim(108)
@pytest.mark.claim(122)
def test_every_thesis_about_language_models_names_smollm2():
    for number, listed in theses().items():
        for thesis in listed if number >= "04" else ():
            read = {name for name in thesis["models"] if is_language_model(name)}
            assert not read or "smollm2" in thesis["models"], thesis["sentence"]
    assert all({"smollm2", "gemma3"} <= thesis["models"].keys() for thesis in theses()["15"])


def is_language_model(name):
    """Whether a name in theses.toml is that of a language model of the course."""
    return name in pretrained.names() and "tokenizer" in pretrained.card(name)
