"""What the recipe of chapter 15 measures with a cache, against runs of whole texts without one."""

import json
from types import SimpleNamespace

import pytest
import torch
from patched import activation_patching
from safetensors.torch import load_file
from tiny import assert_near, config_of, ids_of, model_of

from attnlib.explain.patching import (
    direct_logit_attribution,
    logit_difference,
    logit_lens,
    path_patching,
)
from attnlib.models import KVCache
from attnlib.pretrained import LanguageModel, history
from attnlib.pretrained.published import bpe_of, smollm2_file
from recipes import causes, patches, stories

SIZE = {"layers": 3, "d_ff": 10, "norm_kind": "rms", "positions": "rotary", "kv_heads": 1}
RIGHT, WRONG = 3, 5


@pytest.fixture(params=["pre", "both"])
def model(request):
    """As SmolLM2 has its norms, and as Gemma 3."""
    return model_of(config_of(tied=True, norm=request.param, **SIZE))


def prompts(position=-1, count=3):
    """Prompts of seven tokens; in the corrupted ones the token at a position is another."""
    clean = ids_of(0, count, 7)
    corrupted = clean.clone()
    corrupted[:, position] = (clean[:, position] + 4) % 13
    ids = [torch.full((count,), i) for i in (RIGHT, WRONG)]
    return stories.Prompts(clean, corrupted, *ids, torch.tensor([[1, 0, 2]]).expand(count, -1))


def both(model, asked):
    return patches.read(model, asked.clean), patches.read(model, asked.corrupted)


def of_tiny(model, first=0, receivers=()):
    """A study of a model without a tokenizer."""
    lm = SimpleNamespace(model=model, name="tiny")
    layers = model.config.layers
    return causes.Study(lambda: lm, first, tuple(range(layers + 1)), receivers)


def answers(model, ids, edits=None):
    """Logit differences of whole texts, without a cache."""
    return logit_difference(RIGHT, WRONG)(model(ids, edits=edits)[:, -1])


def gaps(model, asked):
    return answers(model, asked.clean) - answers(model, asked.corrupted)


def one_by_one(model, asked, patching):
    """What patching finds of each prompt, not normalised."""
    metric = logit_difference(RIGHT, WRONG)
    pairs = zip(asked.clean, asked.corrupted, gaps(model, asked), strict=True)
    return torch.stack([patching(model, a, b, metric) * gap for a, b, gap in pairs])


# --- runs and patches ---------------------------------------------------------------------------


def test_heads_are_restored_as_by_activation_patching(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    expected = one_by_one(model, asked, lambda *given: activation_patching(*given, "z"))
    effects = patches.exchanged(model, asked, corrupted, clean.z)
    assert_near(effects, expected.flatten(1))
    assert_near(patches.exchanged(model, asked, corrupted, clean.z, 2), effects[:, 4:])
    back = patches.exchanged(model, asked, clean, clean.z)
    assert_near(back, torch.zeros_like(back))


def test_a_clean_row_alone_is_an_edit_of_the_pattern(model):
    asked = prompts(position=3)
    clean, corrupted = both(model, asked)
    donor = patches.mixed(clean.pattern, corrupted.values)
    effects = patches.exchanged(model, asked, corrupted, donor).view(3, 3, 2)
    plain = answers(model, asked.corrupted)
    for layer in range(3):
        for head in range(2):

            def put(pattern, layer=layer, head=head):
                pattern = pattern.clone()
                pattern[:, head, -1] = clean.pattern[:, layer, head]
                return pattern

            expected = answers(model, asked.corrupted, {("pattern", layer): put}) - plain
            assert_near(effects[:, layer, head], expected)


def test_clean_values_alone_are_an_edit_of_the_values():
    """In the last layer, where nobody but the last token is read any more."""
    own_values = {**SIZE, "kv_heads": None}
    model = model_of(config_of(tied=True, **own_values))
    asked = prompts(position=3)
    clean, corrupted = both(model, asked)
    donor = patches.mixed(corrupted.pattern, clean.values)
    effects = patches.exchanged(model, asked, corrupted, donor, first=2)
    plain = answers(model, asked.corrupted)
    for head in range(2):

        def put(v, head=head):
            v = v.clone()
            v[:, head] = clean.values[2][:, head]
            return v

        assert_near(effects[:, head], answers(model, asked.corrupted, {("v", 2): put}) - plain)


@pytest.mark.claim(113)
def test_each_door_is_seen_where_it_alone_is_open(model):
    asked = prompts(position=3)
    clean, corrupted = both(model, asked)
    study = of_tiny(model)

    def outputs(run):
        return run._replace(z=patches.mixed(run.pattern, run.values))

    same_rows = outputs(clean._replace(pattern=corrupted.pattern))
    effects = causes.split(study, asked, same_rows, corrupted)
    assert_near(effects["values"], effects["restore"])
    assert_near(effects["weights"], torch.zeros_like(effects["weights"]))
    assert effects["restore"].abs().max() > 0.01
    assert not effects["moved"].any()

    same_values = outputs(clean._replace(values=corrupted.values))
    effects = causes.split(study, asked, same_values, corrupted)
    assert_near(effects["weights"], effects["restore"])
    assert_near(effects["values"], torch.zeros_like(effects["values"]))
    assert effects["restore"].abs().max() > 0.01
    assert effects["moved"].max() > 0.01


def test_how_far_a_row_moved_is_its_total_variation(model):
    asked = prompts(position=3)
    clean, corrupted = both(model, asked)
    moved = causes.split(of_tiny(model, first=1), asked, clean, corrupted)["moved"].view(3, 2, 2)
    for layer in (1, 2):
        gained = (clean.pattern[:, layer] - corrupted.pattern[:, layer]).clamp(min=0).sum(-1)
        assert_near(moved[:, layer - 1], gained)


@pytest.mark.claim(113)
def test_row_values_and_interaction_make_the_whole_output(model):
    clean, corrupted = both(model, prompts(position=3))
    row = patches.mixed(clean.pattern - corrupted.pattern, corrupted.values)
    change = [a - b for a, b in zip(clean.values, corrupted.values, strict=True)]
    values = patches.mixed(corrupted.pattern, change)
    interaction = patches.mixed(clean.pattern - corrupted.pattern, change)
    for layer in range(3):
        whole = corrupted.z[layer] + row[layer] + values[layer] + interaction[layer]
        assert_near(whole, clean.z[layer])


def test_the_values_of_three_kinds_of_source_are_all_that_differ(model, monkeypatch):
    """The last layer is linear in z up to the norms, so it is the outputs that add up."""
    asked = prompts(position=2, count=4)
    monkeypatch.setattr(stories, "stories", lambda *_: asked)
    monkeypatch.setattr(stories, "some", lambda asked, _: asked)
    seen = []
    monkeypatch.setattr(
        causes, "exchanged", lambda model, asked, base, donor, first: seen.append(donor)
    )
    causes.values_of_sources(of_tiny(model), 0)
    clean, corrupted = both(model, asked)
    whole = patches.mixed(corrupted.pattern, clean.values)
    for layer in range(3):
        parts = sum(donor[layer] - corrupted.z[layer] for donor in seen)
        assert_near(parts, whole[layer] - corrupted.z[layer])


def test_sets_are_patched_together(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    sets = torch.zeros(2, 3, 2, dtype=torch.bool)
    sets[0, 0, 1] = sets[0, 2, 0] = sets[1, 1] = True
    effects = patches.patched(model, asked, corrupted, clean.z, sets)
    plain = answers(model, asked.corrupted)
    whole = list(model.run(model.embed(asked.clean)))
    for number, inside in enumerate(sets):
        edits = {}
        for layer in range(3):

            def put(z, layer=layer, inside=inside):
                z = z.clone()
                z[:, inside[layer], -1] = whole[layer].z[:, inside[layer], -1]
                return z

            edits["z", layer] = put
        assert_near(effects[:, number], answers(model, asked.corrupted, edits) - plain)
    nothing = patches.patched(model, asked, corrupted, clean.z, torch.zeros(1, 3, 2) > 0)
    assert not nothing.any()


@pytest.mark.claim(116)
def test_blocks_are_restored_as_by_activation_patching(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    expected = one_by_one(model, asked, lambda *given: activation_patching(*given, "mlp_out"))
    alone = torch.eye(3, dtype=torch.bool)
    effects = patches.blocks_patched(model, asked, corrupted, clean, alone)
    assert_near(effects, expected[..., -1])
    onward = patches.blocks_patched(model, asked, corrupted, clean, torch.ones_like(alone).triu())
    assert_near(onward[:, -1], expected[:, -1, -1])
    assert not torch.allclose(onward[:, 0], expected[:, 0, -1])


@pytest.mark.claim(116)
def test_heads_are_restored_while_blocks_are_frozen(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    effects = patches.exchanged(model, asked, corrupted, clean.z, frozen=True).view(3, 3, 2)
    kept = {
        ("mlp_out", layer): lambda x, out=out: torch.cat([x[:, :-1], out], 1)
        for layer, out in enumerate(corrupted.mlp_out)
    }

    def put(z):
        z = z.clone()
        z[:, 1, -1:] = clean.z[1][:, 1]
        return z

    change = answers(model, asked.corrupted, kept | {("z", 1): put}) - answers(
        model, asked.corrupted
    )
    assert_near(effects[:, 1, 1], change)


def test_the_stream_is_restored_as_by_activation_patching(model):
    asked = prompts(position=2)
    expected = one_by_one(model, asked, activation_patching)  # (B, L + 1, T)
    restored = patches.restored_stream(model, asked, (0, 1, 2, 3))
    assert_near(restored[..., 0], expected[..., 2])
    assert_near(restored[..., 2], expected[..., 6])
    states = list(model.run(model.embed(asked.clean)))
    plain = answers(model, asked.corrupted)
    for layer in range(3):

        def put(x, clean=states[layer].resid_pre):
            return torch.cat([x[:, :3], clean[:, 3:6], x[:, 6:]], 1)  # between giver and last

        together = answers(model, asked.corrupted, {("resid_pre", layer): put}) - plain
        assert_near(restored[:, layer, 1], together)


@pytest.mark.parametrize("receiver", [(1, 0), (2, 1)])
def test_heads_reach_queries_as_by_path_patching(receiver):
    model = model_of(config_of(tied=True, **SIZE))
    asked = prompts()
    expected = one_by_one(model, asked, lambda *given: path_patching(*given, receiver))
    effects = patches.through_queries(model, asked, *both(model, asked), receiver)
    assert_near(effects, expected.flatten(1))


def test_the_gradient_is_the_slope_of_the_exchange(model):
    asked = prompts()
    clean, corrupted = both(model, asked)
    slope = patches.gradient(model, asked, clean, corrupted)
    pairs = zip(corrupted.z, clean.z, strict=True)
    step = patches.exchanged(model, asked, corrupted, [b + 1e-5 * (a - b) for b, a in pairs])
    torch.testing.assert_close(step / 1e-5, slope, atol=1e-3, rtol=1e-3)


def test_reading_and_repeating_leave_the_cache_alone(model):
    run = patches.read(model, prompts().clean)
    assert run.before.length == 6
    assert run.pattern.shape == (3, 3, 2, 7)
    assert_near(run.pattern.sum(-1), torch.ones(3, 3, 2).double())
    twice = patches.copied(run.before, 2)
    assert isinstance(twice, KVCache)
    assert torch.equal(twice.keys[1], run.before.keys[1].repeat_interleave(2, 0))


# --- what is written ----------------------------------------------------------------------------


@pytest.mark.claim(114)
def test_terms_of_heads_blocks_and_sources_add_up_to_the_librarys(model):
    asked = prompts()
    clean, _ = both(model, asked)
    parts = [direct_logit_attribution(model, ids, RIGHT, WRONG) for ids in asked.clean]
    ours = patches.direct(model, asked, clean)
    heads = torch.stack([part.heads for part in parts])
    assert_near(ours["heads"], heads.flatten(1))
    assert_near(ours["blocks"], torch.stack([part.feed_forward for part in parts]))

    directions = torch.stack([model.W_E[asked.right], model.W_E[asked.wrong]], 1)
    terms = patches.by_source(model, clean, directions)
    assert terms.shape == (3, 3, 2, 7, 2)
    assert_near((terms[..., 0] - terms[..., 1]).sum(-1), heads)
    rest = torch.stack([part.embedding + part.feed_forward.sum() for part in parts])
    assert_near(heads.sum((1, 2)) + rest, answers(model, asked.clean))


def test_terms_are_summed_by_kind_of_source():
    clean = ids_of(0, 2, 10)
    asked = stories.Prompts(
        clean, clean, clean[:, 1], clean[:, 3], torch.tensor([[1, 3, 5], [3, 1, 5]])
    )
    terms = torch.arange(10.0).repeat(2, 1, 1)[..., None]  # each source's term is its position
    of_sources = causes.summed(terms, asked)[:, 0, :, 0]
    assert of_sources[0].tolist() == [0, 1, 3, 5, 6, 7, 8, 9, 2 + 4]
    assert of_sources[1].tolist() == [0, 3, 1, 5, 6, 7, 8, 9, 2 + 4]


def test_ranks_are_those_of_the_lens():
    model, asked = model_of(config_of(tied=True, **SIZE)), prompts()
    clean, _ = both(model, asked)
    tokens = torch.stack([asked.right, asked.wrong], 1)
    lenses = torch.stack([logit_lens(model, ids) for ids in asked.clean])
    expected = (lenses[:, :, None] > lenses[..., [RIGHT, WRONG]][..., None]).sum(-1)
    assert torch.equal(patches.ranks(model, clean, tokens), expected)


def test_the_weights_on_answer_and_giver_change_places():
    pattern = torch.rand(2, 3, 2, 7)
    turned = causes.exchanged_sources(pattern, torch.tensor([[1, 3, 5], [3, 1, 5]]))
    assert torch.equal(turned[0, ..., [0, 5, 2, 3, 4, 1, 6]], pattern[0])
    assert torch.equal(turned[1, ..., [0, 1, 2, 5, 4, 3, 6]], pattern[1])


# --- sets of heads ------------------------------------------------------------------------------


def test_sets_are_chosen_on_the_first_half(model):
    restore = torch.zeros(8, 4)  # heads of layers 1 and 2
    restore[:4] = torch.tensor([0.1, -3.0, 0.2, 2.0])
    restore[4:] = torch.tensor([9.0, 0.0, 0.0, 0.0])
    weight = torch.zeros(8, 6, 3)
    weight[:4, :, 0] = torch.tensor([0.9, 0.9, 0.4, 0.1, 0.2, 0.3])
    weight[4:, :, 0] = torch.tensor([0.9, 0.9, 0.0, 0.0, 0.9, 0.9])
    sets = causes.chosen_sets(of_tiny(model, first=1), {"restore": restore, "weight": weight})
    assert sets["loud-2"] == [[1, 1], [2, 1]]
    assert sets["helping-2"] == [[2, 1], [2, 0]]
    assert sets["looking-2"] == [[1, 0], [2, 1]]


def test_random_sets_are_of_the_same_layers_and_share_no_head():
    inside = torch.zeros(4, 6, dtype=torch.bool)
    inside[1, 2] = inside[3, 0] = inside[3, 5] = True
    drawn = causes.random_sets(inside, torch.Generator().manual_seed(0))
    assert drawn.shape == (causes.DRAWS, 4, 6)
    assert (drawn.sum((1, 2)) == 3).all()
    assert not (drawn & inside).any()
    assert not drawn[:, [0, 2]].any()
    assert len(drawn.unique(dim=0)) > 10


# --- texts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lm():
    """SmolLM2's tokenizer, which is all that the texts are made with, and a tiny model."""
    tokenizer = bpe_of(smollm2_file().metadata)
    tiny = model_of(config_of(vocab_size=tokenizer.vocab_size))
    return LanguageModel(tiny, tokenizer, "SmolLM2")


@pytest.mark.parametrize("corruption", stories.CORRUPTIONS)
def test_of_each_corruption_what_it_says_differs(lm, corruption):
    asked = stories.stories(lm, 0, corruption)
    rows = torch.arange(20)
    answer, other, giver = asked.positions.T
    for position, token in ((answer, asked.right), (other, asked.wrong), (giver, asked.wrong)):
        assert torch.equal(asked.clean[rows, position], token)
    assert len(asked.clean.unique(dim=0)) == 20
    differ = [{int(p) for p in row.nonzero()} for row in asked.clean != asked.corrupted]
    if corruption == "renamed":
        assert differ == [{int(p) for p in row} for row in asked.positions]
        assert torch.equal(asked.corrupted[rows, answer], asked.wrong)
        assert torch.equal(asked.corrupted[rows, giver], asked.right)
        return
    assert differ == [{int(p)} for p in giver]
    replaced = asked.corrupted[rows, giver]
    if corruption == "swapped":
        assert torch.equal(replaced, asked.right)
    else:
        assert not ((replaced == asked.right) | (replaced == asked.wrong)).any()


def test_texts_that_fork_share_a_word_and_end_alike(lm):
    asked = stories.forks(lm, 0)
    length = stories.SHARED + 2
    for row in range(2 * stories.FORKS):
        clean, corrupted = asked.clean[row], asked.corrupted[row]
        assert torch.equal(clean[: 2 * length], corrupted[: 2 * length])
        assert clean[-1] == corrupted[-1] == clean[length - 2] == clean[2 * length - 2]
        assert (clean[2 * length : -1] != corrupted[2 * length : -1]).all()
        answer, other, _ = asked.positions[row]
        assert clean[answer] == asked.right[row]
        assert clean[other] == asked.wrong[row]
        run = clean[answer - length + 1 : answer]
        assert torch.equal(run, clean[2 * length :])
    assert torch.equal(asked.clean[0::2], asked.corrupted[1::2])


def test_repeated_words_may_be_corrupted_at_either_end(lm):
    last, followed = (stories.repeats(lm, 4, way) for way in ("last", "followed"))
    assert torch.equal(last.clean, followed.clean)
    for asked, position in ((last, -1), (followed, stories.REPEATED)):
        differ = (asked.clean != asked.corrupted).nonzero()
        assert torch.equal(differ[:, 1], torch.full((4,), position % last.clean.shape[1]))
    assert torch.equal(followed.corrupted[:, stories.REPEATED], followed.wrong)
    assert torch.equal(last.clean[:, stories.REPEATED], last.right)


def test_other_pairs_share_no_name(lm):
    asked = stories.stories(lm, 0)
    names = torch.cat([asked.right, asked.corrupted[torch.arange(20), asked.positions[:, 2]]])
    for form in (0, 1):
        other = stories.other_pairs(asked, form)
        for row in range(20):
            own = {*asked.clean[row].tolist(), *asked.corrupted[row].tolist()}
            assert not own & {*other[row].tolist()} & {*names.tolist()}
        answer, first, giver = (asked.positions[:, k, None] for k in range(3))
        given = other.gather(1, giver)
        assert torch.equal(given, other.gather(1, answer if form else first))


def test_one_of_four_prompts_takes_each_form_in_turn():
    asked = prompts(count=20)
    assert torch.equal(stories.some(asked, 4).clean, asked.clean[[0, 5, 10, 15, 16]])
    assert torch.equal(stories.some(asked, 2).clean[:4], asked.clean[[0, 3, 4, 7]])


# --- all of it ----------------------------------------------------------------------------------


@pytest.mark.ci
def test_the_whole_recipe_on_a_small_model(monkeypatch, tmp_path):
    """Every field that the stored card describes is measured, for as many prompts as it says.

    The two kinds of norms are compared above, measure by measure.
    """
    model = model_of(config_of(tied=True, **SIZE))

    def of_template(lm, template, corruption="third"):
        draw = torch.Generator().manual_seed(template)
        clean = torch.stack([torch.randperm(13, generator=draw)[:9] for _ in range(20)])
        corrupted = clean.clone()
        corrupted[:, 4] = (clean[:, 4] + 4) % 13
        return stories.Prompts(
            clean, corrupted, clean[:, 1], clean[:, 2], torch.tensor([[1, 2, 4]]).expand(20, -1)
        )

    for name, texts in {
        "stories": of_template,
        "absent_names": lambda lm, asked: asked.clean[:, 6:9],
        "repeats": lambda lm, corruption="last": prompts(count=6),
        "forks": lambda lm, batch: prompts(count=6),
    }.items():
        monkeypatch.setattr(stories, name, texts)
    monkeypatch.setattr(causes, "SIZES", (1, 2))
    monkeypatch.setattr(causes, "DRAWS", 3)
    monkeypatch.setattr(causes, "REPAIRED", ("helping-1", "helping-2"))
    monkeypatch.setitem(causes.STUDIES, "tiny", of_tiny(model, 1, ((2, 1),)))
    causes.measure("tiny", None, tmp_path)
    assert not (tmp_path / "tiny.lines").exists()
    card = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    measured = load_file(tmp_path / "tiny.history.safetensors")
    choices = ("loud", "helping", "looking")
    assert card["sets"].keys() == {f"{choice}-{size}" for choice in choices for size in (1, 2)}
    n, everything = 4, 6  # heads from layer 1 on, and all
    shapes = {
        "restore": (240, n),
        "weight": (240, everything, 3),
        "swapped_values": (60, n),
        "renamed_moved": (60, n),
        "control_weights_wrong": (60, n),
        "terms": (60, n, 5, 3),
        "names": (60, 4),
        "looks": (12, everything, 9),
        "block": (60, 3),
        "sets_together": (240, 6),
        "random_without": (30, 6, causes.DRAWS),
        "repair": (60, 2, everything),
        "repair_blocks": (60, 2, 3),
        "to_2_1": (60, 2),
        "stream": (60, 4, 3),
        "lens": (240, 4, 3),
    }
    assert {name: tuple(measured[name].shape) for name in shapes} == shapes
    assert_near(measured["looks"].sum(-1).float(), torch.ones(12, everything), atol=1e-2)
    own = {name for name in measured if not name.startswith("to_")}
    assert own == {name for name in history("causes") if not name.startswith("to_")}
