"""The theses of chapter 15, with their controls.

What the recipe measures is tested on small models in tests/recipes/test_causes_recipe.py; here its
stored results are read, and measured again on a few prompts. Intervals are over prompts.
"""

import pytest
import torch
from chapter_code import definitions
from patched import activation_patching
from road_rules import theses
from tiny import assert_near, config_of, ids_of, model_of

from attnlib import pretrained
from attnlib.explain.patching import direct_logit_attribution, logit_difference, logit_lens
from attnlib.models import Transformer
from recipes import causes as recipe

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "15_causes",
    *("prompt", "found", "prompts", "interval", "streams", "difference", "patching_map"),
    *("written", "put_back", "exchanged", "gaps", "effect", "share", "repeated", "late"),
    *("measures", "spearman", "agreement"),
    *("quarter", "sixty", "ways", "harm", "texts", "moved", "copied", "followed", "lm"),
    *("layers", "ids"),
    *("mary", "john", "corrupted", "unrelated", "model", "heads"),
)
ANSWER, OTHER, GIVER = range(3)
REPORTED = slice(120, 240)  # the second half of the templates and of the names


def look_at(name):
    """The weights that the heads of layers 10 to 29 give to one of the three names, by prompt."""
    return CHAPTER.found["weight"][:, CHAPTER.late, name]


def head(layer, number):
    """Its place among those of layers 10 to 29."""
    return (layer - 10) * 9 + number


def over_prompts(values, forms=4, templates=range(12)):
    """The interval of a mean over prompts."""

    def sample(draw):
        return CHAPTER.prompts(draw, forms, templates)

    return [float(end) for end in CHAPTER.interval(lambda rows: values[rows].mean(), sample)]


def restored(layer, number, templates=range(12)):
    """Share of the difference in the same prompts that a head restores: an interval."""
    return shares(CHAPTER.effect[:, head(layer, number)], CHAPTER.gaps, 4, templates)


def reported(layer, number):
    """The same in the prompts on which none was chosen."""
    return restored(layer, number, range(6, 12))


def in_sixty(changes):
    """The interval of a share of the difference in a quarter of the prompts."""
    return shares(changes, CHAPTER.gaps[CHAPTER.sixty], 1)


def shares(changes, of, forms, templates=range(12)):
    """The interval of a ratio of means over the same prompts."""

    def sample(draw):
        return CHAPTER.prompts(draw, forms, templates)

    return [
        float(e) for e in CHAPTER.interval(lambda rows: CHAPTER.share(changes, rows, of), sample)
    ]


# --- what is stored is what the model does -----------------------------------------------------


@pytest.mark.slow
def test_the_stored_results_are_found_again():
    """The first form of the first template, one head at a time and without a cache."""
    one = recipe.Prompts(*(column[:1] for column in recipe.drinks(CHAPTER.lm, 0)))
    clean, other = one.clean[0], one.corrupted[0]
    assert CHAPTER.lm.decode(clean) == CHAPTER.prompt
    metric = logit_difference(int(one.right), int(one.wrong))
    assert_near(metric(CHAPTER.lm.model(one.clean)[0, -1]), CHAPTER.found["clean"][0], atol=0.01)
    none = metric(CHAPTER.lm.model(one.corrupted)[0, -1])
    given = CHAPTER.written(clean)
    for layer, number in ((23, 3), (24, 4), (20, 0)):
        changed = CHAPTER.exchanged(other, given, (layer, number)) - none
        assert_near(changed, CHAPTER.found["restore"][0, head(layer, number)], atol=0.01)
    maps = CHAPTER.lm.model.trace(clean).pattern[:, :, -1]
    assert_near(maps.flatten(0, 1)[:, 1], CHAPTER.found["weight"][0, :, 0], atol=1e-3)


def test_prompts_have_four_forms_and_no_name_of_one_half_is_in_the_other():
    halves = [[recipe.drinks(CHAPTER.lm, t) for t in range(start, start + 6)] for start in (0, 6)]
    names = [{int(i) for asked in half for i in asked.right} for half in halves]
    assert len(names[0]) == len(names[1]) == 10
    assert not names[0] & names[1]
    for asked in (asked for half in halves for asked in half):
        assert len(asked.clean.unique(dim=0)) == 20
        assert ((asked.clean != asked.corrupted).sum(1) == 1).all()
        rows = torch.arange(20)
        wrong = asked.clean[rows, asked.places[:, 2]]
        assert torch.equal(wrong, asked.wrong)
        assert (asked.places[:, 0] < asked.places[:, 1]).sum() == 10


# --- the theses --------------------------------------------------------------------------------


@pytest.mark.claim(102)
@pytest.mark.claim(105)
def test_the_giver_decides_and_the_difference_moves_to_the_last_token():
    assert CHAPTER.found["right"].sum() == 226
    assert over_prompts(CHAPTER.found["right"])[0] > 0.8
    assert (CHAPTER.found["clean"] > 0).sum() >= 238
    assert (
        over_prompts(CHAPTER.found["corrupted"].abs())[1] < over_prompts(CHAPTER.found["clean"])[0]
    )
    for layer in (0, 6, 12, 14, 16, 18):
        assert restored_at(layer, 0)[0] > 0.95
    for layer in (26, 28, 30):
        assert restored_at(layer, 2)[0] > 0.85
        assert max(map(abs, restored_at(layer, 0))) < 0.1
    assert abs(restored_at(22, 2)[0] - 0.4) < 0.1, "what the lens does not see at the last token"
    assert_near(CHAPTER.found["stream"][:, 0, 0], CHAPTER.gaps[CHAPTER.sixty], atol=0.01)
    nothing = CHAPTER.patching_map(CHAPTER.ids, CHAPTER.corrupted, CHAPTER.unrelated)
    assert nothing.abs().max() < 0.25, "an unrelated run restores something"


def restored_at(layer, place):
    """Share restored by the stream before a layer, at the giver, between, or at the last token."""
    streams = (
        CHAPTER.found["stream"][:, recipe.STREAM.index(layer), place],
        CHAPTER.found["stream"][:, 0, 0],
    )

    def share(rows):
        return streams[0][rows].mean() / streams[1][rows].mean()

    return [float(end) for end in CHAPTER.interval(share, CHAPTER.quarter)]


@pytest.mark.claim(100)
def test_the_names_are_level_for_long_and_part_in_layer_23():
    answer, other, absent = (CHAPTER.found["lens"][..., k].median(0).values + 1 for k in range(3))
    assert ((answer / other)[:24].log().abs() < 0.15).all(), "the lens tells the names apart early"
    assert (answer[24:29] < other[24:29] / 3).all()
    assert (answer[24:29] < absent[24:29] / 3).all()  # the control: a name not in the text
    assert ((absent / other)[:29].log().abs() < 0.35).all(), "the giver leaves an absent name early"
    assert other[30] < absent[30] / 3
    assert answer[30] == 1
    torch.manual_seed(0)
    untrained = Transformer(config_of(layers=6, vocab_size=49_152, max_len=16)).eval()
    ranks = logit_lens(untrained, CHAPTER.ids).argsort(-1, descending=True).argsort(-1)
    assert ranks[1:, [CHAPTER.mary, CHAPTER.john]].min() > 100


@pytest.mark.claim(101)
def test_the_terms_sum_and_a_head_that_writes_nothing_restores_much():
    for template in (0, 7):
        asked = recipe.drinks(CHAPTER.lm, template)
        ids, right, wrong = asked.clean[1], int(asked.right[1]), int(asked.wrong[1])
        parts = direct_logit_attribution(CHAPTER.lm.model, ids, right, wrong)
        assert_near(
            parts.total, logit_difference(right, wrong)(CHAPTER.lm.model(ids[None])[0, -1]), 1e-3
        )
    share = CHAPTER.found["direct"] / CHAPTER.found["clean"].mean()
    low, high = over_prompts(share[:, 20 * 9])
    assert -0.02 < low < high < 0.02
    assert restored(20, 0)[0] > 0.3
    # the control: where nothing comes later, direct is all there is
    last = share[:, 29 * 9 :].mean(0)
    assert CHAPTER.spearman(last, CHAPTER.effect[:, head(29, 0) :].mean(0)) > 0.6


@pytest.mark.claim(106)
def test_the_weight_ranks_with_the_size_and_hardly_with_the_effect():
    (signed, _, most), (size, low, _) = (
        CHAPTER.agreement(look_at(ANSWER), CHAPTER.effect, s) for s in (0, 1)
    )
    assert abs(signed) < 0.3
    assert most < 0.4 < low < size
    wrong_name = CHAPTER.agreement(look_at(OTHER), CHAPTER.effect, True)  # the control
    assert wrong_name[1] > 0.4
    assert abs(wrong_name[0] - size) < 0.1
    assert CHAPTER.agreement(CHAPTER.measures["gradient"], CHAPTER.effect, False)[1] > 0.9
    mixed = CHAPTER.effect[:, torch.randperm(180, generator=torch.Generator().manual_seed(0))]
    assert abs(CHAPTER.agreement(look_at(ANSWER), mixed, True)[0]) < 0.2


@pytest.mark.claim(107)
def test_a_head_that_matters_looks_elsewhere_and_one_that_looks_works_against():
    """Chosen on the first half of templates and names, reported on the second."""
    first = slice(0, 120)
    assert CHAPTER.effect[first].mean(0).argmax() == head(23, 3)
    assert look_at(ANSWER)[first].mean(0).argmax() == head(24, 4)
    assert reported(23, 3)[0] > 0.35
    assert look_at(GIVER)[REPORTED, head(23, 3)].mean() > 0.4
    assert look_at(ANSWER)[REPORTED, head(23, 3)].mean() < 0.15
    assert reported(24, 4)[1] < -0.05
    assert look_at(ANSWER)[REPORTED, head(24, 4)].mean() > 0.4
    low, high = reported(22, 7)  # looks, and does nothing
    assert -0.03 < low < high < 0.03
    assert look_at(ANSWER)[REPORTED, head(22, 7)].mean() > 0.3
    others = (
        CHAPTER.share(CHAPTER.effect, REPORTED).view(20, 9)[13:15].flatten().abs()
    )  # their layers
    assert others.median() < 0.05


@pytest.mark.long
@pytest.mark.claim(104)
def test_what_heads_of_layer_23_write_makes_24_4_look_at_the_answer():
    """Of what heads tell others through their queries, in a quarter of the prompts."""
    to_24_4, to_23_0, to_23_3 = (CHAPTER.found[f"to_{name}"] for name in ("24_4", "23_0", "23_3"))
    assert in_sixty(to_24_4[:, head(23, 0)])[1] < -0.02
    assert in_sixty(to_24_4[:, head(23, 3)])[1] < -0.05
    whole = CHAPTER.effect[CHAPTER.sixty]
    for sender in (head(20, 0), head(19, 2)):  # through 23.0 goes a part of what they restore
        low, high = shares(to_23_0[:, sender], whole[:, sender], 1)
        assert 0.2 < low < 0.3 < high < 0.4
    # the controls: a head that looks at the giver anyway, and all other senders
    gaps = CHAPTER.gaps[CHAPTER.sixty]
    assert CHAPTER.share(to_23_3, of=gaps).abs().max() < 0.03
    others = [k for k in range(head(24, 4) // 9 * 9) if k // 9 != 13]
    assert CHAPTER.share(to_24_4[:, others], of=gaps).abs().max() < 0.03
    weights = {}
    for name, chosen in (("none", []), ("tell", range(4)), ("look", (2, 4, 6, 7))):
        layer = 22 if name == "look" else 23
        weights[name] = looks_of_24_4([(layer, number) for number in chosen])
    assert weights["none"].mean() < 0.4
    assert (weights["tell"] - weights["none"]).mean() > 0.3
    assert (weights["look"] - weights["none"]).mean().abs() < 0.05  # which look at it, too


def looks_of_24_4(chosen):
    """Its weight on the answer in corrupted runs in which some heads are put back, by prompt."""
    found = []
    for template in (0, 7):
        asked = recipe.some(recipe.drinks(CHAPTER.lm, template), 8)
        for clean, corrupted, places in zip(
            asked.clean, asked.corrupted, asked.places, strict=True
        ):
            edits = CHAPTER.put_back(CHAPTER.written(clean), chosen)
            found.append(
                CHAPTER.lm.model.trace(corrupted, edits=edits).pattern[24, 4, -1, places[0]]
            )
    return torch.stack(found)


@pytest.mark.claim(106)
def test_in_repeated_words_the_head_that_looks_most_restores_most():
    weight = CHAPTER.followed.mean(0)
    assert weight.argmax() == CHAPTER.copied.mean(0).argmax() == head(18, 6)

    def rank(rows):
        return CHAPTER.spearman(CHAPTER.followed[rows].mean(0), CHAPTER.copied[rows].mean(0))

    low, high = CHAPTER.interval(rank, CHAPTER.texts)
    drinks = CHAPTER.agreement(look_at(ANSWER), CHAPTER.effect, False)
    assert drinks[2] < low < high < 0.6
    share = CHAPTER.share(CHAPTER.copied, of=CHAPTER.moved)
    assert share[head(24, 4)] < -0.1 < 0.3 < weight[head(24, 4)]  # works against it here, too
    assert CHAPTER.found["induction_right"].mean() > 0.6


# --- other claims ------------------------------------------------------------------------------


@pytest.mark.claim(103)
def test_ablations_name_the_same_loudest_heads_and_zeros_rank_differently():
    harm = {
        way: CHAPTER.share(x, of=CHAPTER.gaps[CHAPTER.sixty]) for way, x in CHAPTER.harm.items()
    }
    halves = torch.arange(60).split(30)
    assert all(loudest_three(rows, 4) for rows in halves)
    draw = torch.Generator().manual_seed(1)
    found = []
    for _ in range(200):
        template = torch.randint(12, (12, 1), generator=draw)
        names = torch.randint(5, (5,), generator=draw)
        found.append(loudest_three((5 * template + names).flatten(), 6))
    assert sum(found) > 0.92 * len(found)
    alike = {
        (a, b): float(CHAPTER.repeated(CHAPTER.harm[a], CHAPTER.harm[b]))
        for a in harm
        for b in harm
    }
    # the controls: one way in both halves
    assert min(alike[way, way] for way in ("zero", "mean", "corrupted")) > 0.5
    assert alike["other", "other"] < 0.3
    for way in ("mean", "corrupted"):
        assert alike["zero", way] < min(alike["zero", "zero"], alike[way, way]) - 0.25
    # a ranking that hardly repeats itself: halves that mix the names, a template left out in turn
    full, without = less("zero", "other"), []
    for left in range(12):
        without.append(less("zero", "other", [t for t in range(12) if t != left]))
    spread = torch.tensor(without)
    wide = 1.96 * (11 / 12 * (spread - spread.mean()).square().sum()).sqrt()
    assert full - wide > 0.1
    # replaced by a corrupted prompt's output 24.4 is seen to work against the answer, by zeros not
    against = {way: in_sixty(x[:, head(24, 4)]) for way, x in CHAPTER.harm.items()}
    assert against["corrupted"][1] < -0.02
    assert harm["corrupted"][head(24, 4)] < -0.1 < harm["zero"][head(24, 4)]
    # 23.0 restores a tenth, and is not missed
    assert restored(23, 0)[0] > 0.05
    assert all(in_sixty(x[:, head(23, 0)])[1] < 0.03 for x in CHAPTER.harm.values())


def loudest_three(rows, most):
    """Whether each way has 23.3, 20.0 and 29.1 among its loudest heads on these prompts."""
    three = {head(23, 3), head(20, 0), head(29, 1)}
    gaps = CHAPTER.gaps[CHAPTER.sixty][rows]
    shares = (CHAPTER.share(x[rows], of=gaps).abs() for x in CHAPTER.harm.values())
    return all(three <= set(each.topk(most).indices.tolist()) for each in shares)


def less(one, other, templates=range(12), times=50):
    """How much less two ways rank alike across parts of the templates than each with itself."""
    draw, found = torch.Generator().manual_seed(1), []
    x, y = (CHAPTER.harm[way].view(12, 5, 180)[list(templates)].mean(1) for way in (one, other))
    for _ in range(times):
        places = torch.randperm(len(x), generator=draw)
        parts = places[: len(x) // 2], places[len(x) // 2 : len(x) // 2 * 2]
        (a, b), (c, d) = ([z[rows].mean(0) for rows in parts] for z in (x, y))
        rank = CHAPTER.spearman
        found.append((rank(a, b) + rank(c, d) - rank(a, d) - rank(c, b)) / 2)
    return float(torch.stack(found).mean())


@pytest.mark.claim(102)
def test_the_map_of_the_chapter_is_activation_patching():
    """On a small model, from the first place at which the prompts differ."""
    model = model_of(config_of(layers=3, d_ff=10, norm_kind="rms", positions="rotary"))
    clean = ids_of(0, 7)
    corrupted = clean.clone()
    corrupted[3] = (clean[3] + 4) % 13
    names = (
        "streams",
        "difference",
        "patching_map",
        "written",
        "put_back",
        "exchanged",
        "mary",
        "john",
    )
    chapter = definitions("15_causes", *names, "ids", "prompt", "lm", "layers", "heads", "model")
    space = chapter.patching_map.__globals__
    space.update(model=model, layers=3, mary=3, john=5)
    metric = logit_difference(3, 5)
    expected = activation_patching(model, clean, corrupted, metric)
    assert_near(chapter.patching_map(clean, corrupted), expected[:, 3:])
    counted = []
    other = chapter.patching_map(
        clean, corrupted, names=[5, 7], told=lambda steps: (counted.append(i) or i for i in steps)
    )
    asked = logit_difference(5, 7)
    assert_near(other, activation_patching(model, clean, corrupted, asked)[:, 3:])
    assert counted == [0, 1, 2, 3]
    ends = [metric(model(ids[None])[0, -1]) for ids in (clean, corrupted)]
    found = chapter.exchanged(corrupted, chapter.written(clean), (2, 1))
    heads = activation_patching(model, clean, corrupted, metric, "z")
    assert_near((found - ends[1]) / (ends[0] - ends[1]), heads[2, 1])  # in the last layer


def test_prompts_of_ones_own_are_read_as_two_runs():
    own = definitions("15_causes", "lm", "MOST", "read_pair")
    text = "Mary met John|Anna, who left > Mary|John"
    *runs, names = own.read_pair(text)
    said = [own.lm.decode(one.tolist()) for one in runs]
    assert said == ["Mary met John, who left", "Mary met Anna, who left"]
    assert [own.lm.decode([name]) for name in names] == [" Mary", " John"]
    for wrong, told in (
        ("Mary met John", "then > and two answers"),
        ("a | b > Mary|John", "then > and two answers"),
        ("one two|seventeenthly > Mary|John", "choose words of equal length"),
        ("one two > Mary|John", "two texts that differ"),
        ("one two|three > Mary|Mary", "two answers"),
        ("one two|three" + " and" * own.MOST + " > Mary|John", "among the last 12 tokens"),
    ):
        with pytest.raises(ValueError, match=told):
            own.read_pair(wrong)


@pytest.mark.claim(108)
def test_every_thesis_about_language_models_names_smollm2():
    for number, listed in theses().items():
        for thesis in listed if number >= "04" else ():
            read = {name for name in thesis["models"] if is_language_model(name)}
            assert not read or "smollm2" in thesis["models"], thesis["sentence"]
    assert all("smollm2" in thesis["models"] for thesis in theses()["15"])


def is_language_model(name):
    """Whether a name in theses.toml is that of a language model of the course."""
    return name in pretrained.names() and "tokenizer" in pretrained.card(name)
