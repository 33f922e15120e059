"""What chapter 09 concludes, with the controls that could have refuted it.

The exact part, claims 40, 41 and 44 to 46, is tested in tests/explain/test_circuits.py, too. The
texts here are others than those of the chapter.
"""

import re

import pytest
import torch
from cells import printed, sources
from chapter_code import definitions
from gemma import gemma_or_skip

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import circuits
from attnlib.explain.patching import logit_difference, path_patching
from attnlib.training import token_stream

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "09_circuits",
    *("lm", "model", "W_E", "W_P", "W_U", "layer_0", "W_Q", "W_K", "W_V", "W_O", "paths"),
    *("fall_without", "highest", "falls_of", "lm_2", "two", "prefix_matching", "copying"),
    *("gain_of", "not_receiving", "crossing", "matching", "without", "second_loss", "GEMMA"),
)
TRIGRAMS = definitions("more/09_skip_trigrams", "beyond", "ov_of", "over_sources")
SEEDS = ("attention-2", "attention-2-seed-2", "attention-2-seed-3")
CONTROLS = ("attention-2-one-layer", "attention-2-plain")
NUMBER = r"[+-]?\d?\.\d+"
FOUR = [(18, 6), (17, 4), (17, 3), (17, 5)]  # of SmolLM2, chosen on other random tokens


@pytest.fixture(scope="module")
def one():
    """The model of one layer, its OV tables, and reviews that the chapter does not read."""
    lm = pretrained.language_model("attention-1")
    held = token_stream(reviews("imdb").validation.texts, lm.tokenizer)
    return lm, list(TRIGRAMS.ov_of(lm.model)), held


@pytest.fixture(params=SEEDS)
def run(request):
    """One of the runs of two layers: its name, model and history."""
    name = request.param
    return name, pretrained.language_model(name).model, pretrained.history(name)


def twice(rows=16, period=60, vocabulary=4096, seed=11):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (rows, period), generator=generator).repeat(1, 2)


# -- one layer ---------------------------------------------------------------------------------


@pytest.mark.claim(46)
def test_paths_add_up_to_the_logits_and_none_can_be_left_out(one):
    lm, *_ = one
    ids = torch.tensor(lm.encode("I loved it, and neither did she"))
    logits, paths = lm.model(ids[None])[0], CHAPTER.paths(ids)
    assert (paths.sum(0) - logits).abs().max() < 1e-4
    for left_out in range(5):
        rest = torch.arange(5) != left_out
        assert (paths[rest].sum(0) - logits).abs().max() > 0.5
    normed = pretrained.language_model("reviews-gpt")
    trace = normed.trace("I loved it", keep="all")
    summed = (trace.resid[0] + trace.head_outputs[0].sum(0)) @ normed.model.W_U
    assert (summed - trace.logits).abs().max() > 0.5


@pytest.mark.claim(47)
def test_the_pairs_of_a_head_lose_without_it_where_it_looks(one):
    lm, tables, held = one
    ids = held[100_000 : 100_000 + 45 * 128].view(45, 128)
    often = torch.bincount(held, minlength=4096).float()
    usual = 8 * often[:, None] * often / len(held) >= 5
    lists = [CHAPTER.highest(table, usual) for table in tables[:3]]
    without = {h: CHAPTER.fall_without(lm.model, h, ids) for h in range(3)}
    falls = CHAPTER.falls_of(lists[2], without[2], ids)
    assert len(falls) > 100
    own, low, high = TRIGRAMS.over_sources(falls)
    assert 0.6 < low < own < high < 1.2
    for h in (0, 1):
        other, below, above = TRIGRAMS.over_sources(CHAPTER.falls_of(lists[h], without[2], ids))
        assert abs(other) < 0.2 * own
        assert below < 0 < above < low
    for h in (0, 1):  # these look at the destination itself
        here = CHAPTER.falls_of(lists[h], without[h], ids, [0])
        assert TRIGRAMS.over_sources(here)[0] > 3
        assert CHAPTER.falls_of(lists[h], without[2], ids, [0])[:, 1].mean() < 1
    assert CHAPTER.falls_of(lists[2], without[0], ids)[:, 1].mean().abs() < 0.2 * own
    order = torch.randperm(300, generator=torch.Generator().manual_seed(5))
    mixed = torch.stack([lists[2][:, 0], lists[2][order, 1]], -1)
    mixed = mixed[usual[mixed[:, 0], mixed[:, 1]]]
    assert TRIGRAMS.over_sources(CHAPTER.falls_of(mixed, without[2], ids))[2] < low


def test_pairs_of_one_source_are_drawn_together():
    """One source with many pairs: an interval over pairs would be far too narrow."""
    shared = torch.tensor([(0, 1.0)] * 50 + [(s, 0.0) for s in range(1, 6)])
    mean, low, high = TRIGRAMS.over_sources(shared)
    assert mean == pytest.approx(50 / 55)
    assert low == 0
    assert high > 0.95


# -- the exercise -----------------------------------------------------------------------------


def test_the_numbers_of_task_9_6_are_the_chapters(one):
    """Its rows against what the chapter and its side road show, and the list of " New"."""
    task = sources("solutions/09_circuits/09_circuits.ipynb").partition("## 9.6")[2]
    lines = (line.replace("−", "-") for line in task.splitlines() if line.startswith("| "))
    rows = [[float(x) for x in found] for x in lines if (found := re.findall(NUMBER, x))]
    top, own, lifts, without_2, without_0 = rows
    lm, tables, _ = one
    row = tables[0][lm.encode(" New")[0]]
    assert (row.topk(5).values / row.std()).tolist() == pytest.approx(top, abs=0.051)
    chapter = printed("chapters/09_circuits.ipynb")
    side = printed("chapters/more/09_skip_trigrams.ipynb")
    shown = re.search(r"weight on itself: (.*)", chapter)[1].split()
    assert [float(x) for x in shown[:3]] == own
    kinds = ("head 0", "head 1", "head 2", "head 2, mixed", "counted in training text")
    found = [re.search(rf"{kind} (\d\.\d\d)", side)[1] for kind in kinds]
    assert [*map(float, found), float(re.search(r"All pairs: (\S+)\.", side)[1])] == lifts
    for h, numbers in ((2, without_2), (0, without_0)):
        cut = rf"without head {h}, pairs of (.*?) +([+-]\S+) \((\S+) to (\S+)\)"
        falls = {name: [*map(float, rest)] for name, *rest in re.findall(cut, side)}
        expected = [falls[name][0] for name in ("head 0", "head 1", "head 2", "2, mixed")]
        if h == 2:
            expected[3:3] = falls["head 2"][1:]
        assert numbers == expected


# -- two layers --------------------------------------------------------------------------------


def test_induction_heads_match_prefixes_and_copy_in_every_run():
    again, other = twice(), twice(period=120)[:, :120]
    for name in SEEDS:
        model = pretrained.language_model(name).model
        assert CHAPTER.prefix_matching(model, again).min() > 0.5
        assert CHAPTER.prefix_matching(model, other).max() < 0.05
        score, first = CHAPTER.copying(model, 1)
        assert score.min() > 0.95
        assert first > 0.98
        score, first = CHAPTER.copying(model, 0)
        assert score.max() < 0.2
        assert first < 0.02
    one, first = CHAPTER.copying(pretrained.language_model("attention-1").model, 0)
    assert one.max() < 0.8
    assert first < 0.05
    for name in ("attention-1", *CONTROLS):
        model = pretrained.language_model(name).model
        assert CHAPTER.prefix_matching(model, again).max() < 0.1


def test_induction_heads_look_at_what_followed_a_token_that_is_said_twice_alone():
    """No other token is repeated, at any distance: neither a block nor an offset is matched."""
    draw, rows = torch.Generator().manual_seed(3), torch.arange(128)
    ids = torch.rand(128, 4096, generator=draw).argsort(1)[:, :120]
    before = torch.randint(5, 50, (128,), generator=draw)
    again = torch.randint(60, 119, (128,), generator=draw)
    ids[rows, again] = ids[rows, before]
    for name in SEEDS:
        model = pretrained.language_model(name).model
        *_, last = model.run(model.embed(ids), need_weights=True)
        weight, earlier = (last.pattern[rows, :, k, before + 1].mean(0) for k in (again, again - 1))
        assert weight.min() > 0.35
        assert earlier.max() < 0.05


def test_the_predicted_word_and_the_name():
    lm, shown = CHAPTER.lm_2, pretrained.history("attention-2")["display"]
    assert lm.tokenizer.tokens(shown[4:6].tolist()) == [" those", " wife"]
    p = CHAPTER.two(shown[None])[0].softmax(-1)
    assert p[20, shown[5]] > 0.95 > 0.01 > p[4, shown[5]]
    hanks = lm.encode(" H")[0]
    said = [torch.tensor([lm.encode(f"I like {name} in this film. Tom")]) for name in NAMES]
    tom, john, bill = (CHAPTER.two(ids)[0, -1].softmax(-1)[hanks] for ids in said)
    assert tom > 0.3 > 0.1 > max(john, bill)


NAMES = ("Tom Hanks", "John Hanks", "Bill Cosby")


def two_prompts(seed):
    """A text up to a token's second time, and the same with the token's first time exchanged."""
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(4096, (60,), generator=generator)
    k = int(torch.randint(20, 59, (), generator=generator))
    clean = torch.cat([once, once[: k + 1]])
    corrupted = clean.clone()
    corrupted[k] = torch.randint(4096, (), generator=generator)
    return clean, corrupted, logit_difference(int(once[k + 1]), int(once[k - 3]))


def restored(model, prompt, way):
    """What each head of layer 0 restores by one way into the heads of layer 1: (H,)."""
    takers = [(1, h) for h in range(4)]
    return torch.stack([path_patching(model, *prompt, taker, way)[0] for taker in takers]).sum(0)


@pytest.mark.long
def test_the_previous_token_head_speaks_through_the_keys_and_no_other_way():
    """A head that one thing in layer 1 does not receive, and path patching; in three runs."""
    prompts, ids = [two_prompts(seed) for seed in range(2)], twice(8)
    for name in SEEDS:
        model = pretrained.language_model(name).model
        giver = int(pretrained.history(name)["previous"][-1, 0].argmax())
        gain = CHAPTER.gain_of(model, ids).mean()
        for way in ("q", "k", "v"):
            effect = torch.stack([restored(model, prompt, way) for prompt in prompts]).mean(0)
            expected = torch.zeros(4)
            expected[giver] = float(way == "k")
            assert (effect - expected).abs().max() < 0.15
            for h in range(4):
                edits = CHAPTER.not_receiving(model, h, way, ids)
                lost = 1 - CHAPTER.gain_of(model, ids, edits).mean() / gain
                assert lost > 0.9 if (h, way) == (giver, "k") else abs(lost) < 0.07


@pytest.mark.ci
def test_without_the_previous_token_head_there_is_no_induction(run):
    _, model, history = run
    ids, giver = twice(), int(history["previous"][-1, 0].argmax())
    first, whole = next(model.run(model.embed(ids))), CHAPTER.gain_of(model, ids).mean()
    before = CHAPTER.prefix_matching(model, ids).max()
    for h in range(4):
        z = first.z.clone()
        z[:, h] = z[:, h].mean((0, 1))
        edits = {("z", 0): lambda _, z=z: z}
        *_, last = model.run(model.embed(ids), need_weights=True, edits=edits)
        after = circuits.offset_score(last.pattern, 59, 60).mean(0).max()
        left = CHAPTER.gain_of(model, ids, edits).mean() / whole
        assert after < 0.1 if h == giver else after > 0.8 * before
        assert left < 0.1 if h == giver else left > 0.9


def test_a_phase_change_in_every_run_and_none_in_the_controls():
    for name in SEEDS:
        h = pretrained.history(name)
        millions = h["step"] * 2048 / 1e6
        gain = h["on_random"][:, 1:59].mean(1) - h["on_random"][:, 60:].mean(1)
        tenth, half = (CHAPTER.crossing(millions, gain, part * gain[-1]) for part in (0.1, 0.5))
        assert gain[-1] > 8
        assert 14 < tenth < half < 17
        assert half - tenth < 0.1 * 4 * tenth  # a straight line takes four times the tenth
        best = h["induction"][:, 1].amax(-1)
        assert best[millions < 13].max() < 0.03 < 0.7 < best[-1]
        assert h["unrepeated"].max() < 0.05
    for name in CONTROLS:
        card, h = pretrained.card(name), pretrained.history(name)
        assert (card["config"]["layers"] == 1) == bool(card["repeated"])
        assert card["tokens"] == pretrained.card("attention-2")["tokens"]
        assert h["induction"].max() < 0.1
        gain = h["on_random"][:, 1:59].mean(1) - h["on_random"][:, 60:].mean(1)
        assert gain.max() < 0.5


def test_the_recorded_run_is_the_shipped_model(run):
    _, model, history = run
    assert CHAPTER.prefix_matching(model, twice()).tolist() == pytest.approx(
        history["induction"][-1, 1].tolist(), abs=0.05
    )


def test_composition_is_above_random_and_tells_no_time(run):
    """The side road on composition."""
    _, _, h = run
    largest, millions = h["composition"].amax((1, 2)), h["step"] * 2048 / 1e6
    assert largest[0] < 0.1
    assert largest[(millions > 2) & (millions < 13)].min() > 0.105  # long before any induction
    assert largest[millions.sub(2).abs().argmin()] > 0.14
    giver = h["previous"][-1, 0].argmax()
    assert h["composition"][-1].amax(-1).argmax() == giver
    assert pretrained.history("attention-2-plain")["composition"][-1].max() > 0.15


# -- SmolLM2 and Gemma 3 -----------------------------------------------------------------------


def states_of(model, ids):
    """What every layer did, with its weights."""
    return list(model.run(model.embed(ids), need_weights=True))


@pytest.fixture(scope="module")
def smol():
    """SmolLM2, and random tokens said twice, with what its layers did."""
    model, ids = pretrained.smollm2().model, twice(3, 24, 49_152)
    return model, ids, states_of(model, ids)


@pytest.mark.long
def test_even_draws_for_these_heads_and_reviews_for_those_of_smollm2(smol):
    validation = reviews("imdb").validation.texts
    held = token_stream(validation[:200], pretrained.tokenizer())
    once = held[: 32 * 60].view(32, 60)
    order = torch.randperm(once.numel(), generator=torch.Generator().manual_seed(0))
    texts = [once.repeat(1, 2), once.flatten()[order].view(32, 60).repeat(1, 2)]
    counts = torch.bincount(held, minlength=4096)
    draw = torch.Generator().manual_seed(1)
    places = torch.rand(32, 300, generator=draw).argsort(1)[:, :60]
    frequent = counts.topk(300).indices[places].repeat(1, 2)
    rare = (-counts).topk(2000).indices[torch.randint(2000, (32, 60), generator=draw)].repeat(1, 2)
    for name in SEEDS:
        model = pretrained.language_model(name).model
        score = CHAPTER.prefix_matching(model, twice()).max()
        gain = CHAPTER.gain_of(model, twice()).mean()
        assert score > 0.6
        assert CHAPTER.prefix_matching(model, frequent).max() < 0.3 * score
        assert CHAPTER.prefix_matching(model, rare).max() > 0.9 * score
        for ids in texts:
            assert CHAPTER.prefix_matching(model, ids).max() < 0.2 * score
            assert CHAPTER.gain_of(model, ids).mean() < 0.1 * gain
    model, _, states_random = smol
    ids = torch.tensor([pretrained.smollm2().encode(text)[:24] for text in validation[:3]])
    for states in (states_random, states_of(model, ids.repeat(1, 2))):
        scores = CHAPTER.matching(states, 24)
        assert min(scores[place] for place in FOUR) > 0.25
        assert scores.median() < 0.05  # of all 270 heads


def test_a_previous_token_head_speaks_through_keys_in_smollm2_too(smol):
    """Head 16.0 into three heads of layer 17, against another head of its layer."""
    model, _, states = smol
    stream, before = states[16].resid_post, CHAPTER.matching(states, 24)[17, [3, 4, 5]]
    for h in (0, 5):
        mixed, W_O = states[16].z[:, h], model.blocks[16].attention.W_O[h]
        heard = next(model.run(stream - (mixed - mixed.mean((0, 1))) @ W_O, first=17))
        for way in ("q", "k", "v"):
            part = getattr(heard, way)
            edits = {(way, 17): lambda _, part=part: part}
            state = next(model.run(stream, first=17, edits=edits, need_weights=True))
            after = circuits.offset_score(state.pattern[:, [3, 4, 5]], 23, 24).mean(0)
            if (h, way) == (0, "k"):
                assert after.max() < 0.1 * before.min()
            else:
                assert (after > 0.8 * before).all()


def costs_of(model, ids, states, period):
    """A function: what it costs the second time to take heads out, directly or in all."""
    base = CHAPTER.second_loss(model, states[-1].resid_post, ids, period)

    def cost(heads, direct):
        stream = CHAPTER.without(model, ids, states, heads, direct)
        return CHAPTER.second_loss(model, stream, ids, period) - base

    return cost


@pytest.mark.ci
def test_direct_is_not_total_for_the_induction_heads_of_smollm2(smol):
    model, ids, states = smol
    cost = costs_of(model, ids, states, 24)
    assert cost(FOUR, False).mean() > 3
    assert abs(cost(FOUR, True).mean()) < 0.3
    assert cost([(17, 6), (17, 7), (18, 1), (18, 3)], False).mean() < 0.5
    below = [(layer, h) for layer in range(20) for h in range(9)]
    assert abs(cost(below, True).mean()) < 0.5
    assert max(abs(cost([head], True).mean()) for head in below[-54::6]) < 0.1
    everything = [(layer, h) for layer in range(30) for h in range(9)]
    assert cost(everything, True).mean() > 3
    last = [(29, h) for h in range(4)]
    assert cost(last, True).mean() == pytest.approx(cost(last, False).mean().item(), abs=0.2)
    assert cost(last, True).mean() > 0.3
    two, again = CHAPTER.two, twice()  # no norm, nothing behind: the same, in the last layer
    states = states_of(two, again)
    total, direct = (CHAPTER.without(two, again, states, [(1, 0)], way) for way in (False, True))
    assert torch.allclose(total, direct, atol=1e-4)
    assert not torch.allclose(total, states[-1].resid_post, atol=0.1)


@pytest.fixture(scope="module")
def gemma():
    """Gemma 3, and three of the chapter's texts of random tokens said twice."""
    gemma_or_skip()
    lm = pretrained.gemma3()
    ids = twice(6, 30, 262_144)[:3]  # as the chapter's fold says, with fewer texts
    ids = torch.cat([torch.full((len(ids), 1), 2), ids], 1)  # <bos>
    return lm.model, ids, states_of(lm.model, ids)


@pytest.mark.long
def test_in_gemma_3_one_induction_head_says_what_it_finds(gemma):
    model, ids, states = gemma
    scores = CHAPTER.matching(states)
    best = [divmod(i, 4) for i in scores.flatten().topk(4).indices.tolist()]
    assert sorted(f"{layer}.{h}" for layer, h in best) == sorted(CHAPTER.GEMMA["heads"])
    assert scores.median() < 0.05
    cost = costs_of(model, ids, states, 30)
    assert 12 < cost([(11, 2)], False).mean() < 18
    assert 8 < cost([(11, 2)], True).mean() < 12
    for heads in ([(5, 1), (5, 2), (13, 3)], [(11, 0), (11, 1), (13, 0), (13, 1)]):
        assert cost(heads, False).mean() < 2
        assert cost(heads, True).mean() < 0.5
    direct = [cost([(layer, h) for h in range(4)], True).mean().item() for layer in range(18)]
    assert direct == pytest.approx(CHAPTER.GEMMA["direct"], abs=0.8)
    assert max(direct[:11]) < 0.5


@pytest.mark.long
def test_a_previous_token_head_speaks_through_keys_in_gemma_3_too(gemma):
    model, _, states = gemma
    scores = CHAPTER.matching(states)
    for sender, h, receiver, heads in ((4, 1, 5, [1, 2]), (10, 1, 11, [2])):
        before, block, state = scores[receiver, heads], model.blocks[sender], states[sender]
        z = state.z.clone()
        z[:, h] = z[:, h].mean((0, 1))
        written = block.norm_1_after(block.attention.write(z))
        stream = states[receiver].resid_pre + written - state.attn_out
        heard = next(model.run(stream, first=receiver))
        for way in ("q", "k", "v"):
            part = getattr(heard, way)
            edits = {(way, receiver): lambda _, part=part: part}
            run = model.run(
                states[receiver].resid_pre, first=receiver, edits=edits, need_weights=True
            )
            after = circuits.offset_score(next(run).pattern[:, heads], 29, 31).mean(0)
            if way == "k":
                assert (after < 0.3 * before).all()
            else:
                assert (after > 0.5 * before).all()
