"""What chapter 09 concludes, with the controls that could have refuted it.

The exact part, claims 40, 41 and 44 to 46, is tested in tests/explain/test_circuits.py.
"""

import pytest
import torch
from chapter_code import definitions

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import circuits
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import token_stream

CHAPTER = definitions(
    "09_circuits",
    *("beyond", "ov_of", "random_head", "seen_before", "highest", "falls_of", "fall_without"),
    *("swapped", "agreement", "centred", "crossing", "gain_of", "induction_without", "repetition"),
    "replaced",
)
SPACE = CHAPTER.beyond.__globals__


@pytest.fixture(autouse=True, scope="module")
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def one():
    """The model of one layer, its OV tables, and reviews that the chapter does not read."""
    lm = pretrained.language_model("attention-1")
    held = token_stream(reviews("imdb").validation.texts, lm.tokenizer)
    SPACE.update(D=4096, bpe=lm.tokenizer, held=held, model=lm.model, W_U=lm.model.W_U)
    state = next(lm.model.run(lm.model.embed(held[: 60 * 128].view(60, 128)), need_weights=True))
    SPACE["means"] = state.mixed.mean((0, 2))
    count = CHAPTER.seen_before(held)
    expected = count.sum(1, keepdim=True) * count.sum(0) / count.sum()
    SPACE["usual"] = expected >= 5
    tables = list(CHAPTER.ov_of(lm.model))
    return lm.model, tables, held, count / expected.clamp_min(1e-9), state


def precision(pairs, lift):
    return (lift[pairs] >= 2).float().mean().item()


def test_three_heads_rest_on_themselves_and_one_looks_around(one):
    *_, state = one
    own = circuits.offset_score(state.attention, 0, 16).mean(0)
    assert (own[[0, 1, 3]] > 0.5).all()
    assert own[2] < 0.15


def test_a_copying_score_beyond_random_heads_and_yet_no_copying(one):
    model, tables, *_ = one
    layer = model.blocks[0].attention

    def score(W_V, W_O):
        small = circuits.product_eigenvalues(model.W_E @ W_V, W_O @ model.W_U)
        return circuits.copying_score(small).item()

    drawn = [score(*CHAPTER.random_head([layer.W_V[2], layer.W_O[2]], seed)) for seed in range(100)]
    for h in (0, 2):
        assert score(layer.W_V[h], layer.W_O[h]) > max(drawn)
        own = tables[h].diagonal()
        assert (own > 0).float().mean() > 0.6
        assert (tables[h] > own[:, None]).sum(1).median() > 100


@pytest.mark.claim(47)
def test_circuits_agree_with_the_text_where_the_head_looks_back(one):
    model, tables, _, lift, _ = one
    found = [precision(CHAPTER.highest(table), lift) for table in tables]
    chance = (lift[SPACE["usual"]] >= 2).float().mean().item()
    assert found[2] > 6 * chance
    assert found[2] > max(found[:2]) + 0.1  # heads that look at themselves
    s, o = CHAPTER.highest(tables[2])
    generator = torch.Generator().manual_seed(0)
    mixed = o[torch.randperm(len(o), generator=generator)]
    kept = SPACE["usual"][s, mixed]
    assert precision((s[kept], mixed[kept]), lift) < found[2] / 3  # frequencies alone
    torch.manual_seed(5)
    untrained = Transformer(TransformerConfig(**pretrained.card("attention-1")["config"]))
    table = list(CHAPTER.ov_of(untrained))[2]
    assert precision(CHAPTER.highest(table), lift) < 2 * chance
    layer = model.blocks[0].attention
    in_trained = [model.W_E @ model.W_U]  # the direct path, and random heads beside it
    for seed in (11, 12, 13):
        matrices = CHAPTER.random_head([layer.W_V[2], layer.W_O[2]], seed)
        in_trained.append(circuits.ov_circuit(model.W_E, *matrices, model.W_U))
    for table in in_trained:  # trained embeddings alone
        assert precision(CHAPTER.highest(CHAPTER.beyond(table)), lift) < found[2] / 2
    seen = CHAPTER.seen_before(token_stream(reviews("imdb").train.texts[:2000], SPACE["bpe"]))
    independent = seen.sum(1, keepdim=True) * seen.sum(0) / seen.sum()
    surplus = (seen - independent) / independent.clamp_min(1e-3).sqrt()
    assert precision(CHAPTER.highest(surplus), lift) > found[2] + 0.1  # counting knows more


@pytest.mark.claim(47)
def test_circuits_predict_what_is_lost_when_their_head_is_cut(one):
    _, tables, held, _, _ = one
    ids = held[100_000 : 100_000 + 60 * 128].view(60, 128)
    pairs = [CHAPTER.highest(table) for table in tables]
    without = {h: CHAPTER.fall_without(h, ids) for h in (0, 2)}
    own = CHAPTER.falls_of(pairs[2], without[2], ids, 200)
    assert len(own) > 100
    assert (own > 0).float().mean() > 0.9
    for h in (0, 1):
        assert CHAPTER.falls_of(pairs[h], without[2], ids, 200).mean() < 0.2 * own.mean()
    assert CHAPTER.falls_of(pairs[2], without[0], ids, 200).mean().abs() < 0.2 * own.mean()


@pytest.mark.claim(47)
def test_the_bug_one_table_for_all_destinations(one):
    """The full stop is raised by "at" before " all" and before " least", where it hardly stands."""
    _, _, held, *_ = one
    at, least, stop = (SPACE["bpe"].encode(word)[0] for word in (" at", " least", "."))
    here = ((held == least) & (held.roll(1) == at)).nonzero()[:, 0]
    apart = ((held == least) & (held.roll(1) != at))[:-1].nonzero()[:, 0]
    with_at, without = ((held[places + 1] == stop).float().mean() for places in (here, apart))
    assert with_at < 0.03 < 0.05 < without  # in the text "at" lowers it
    for destination in (" all", " least"):
        for other in (" the", " in", " with"):
            mean, half = CHAPTER.swapped(destination, other)
            assert mean - half > 0.2
    mean, half = CHAPTER.swapped(" all", " the", following=" the")
    assert mean < 0  # not everything is raised


def test_a_norm_takes_the_reading_away(one):
    model, _, held, *_ = one
    ids = held[: 3 * 128].view(3, 128)
    plain = torch.tensor([CHAPTER.agreement(model, ids, 0, h) for h in range(4)])
    assert (plain[:, 0] > 0.999).all()
    gpt = pretrained.language_model("reviews-gpt").model
    found = torch.tensor([[CHAPTER.agreement(gpt, ids, n, h) for h in (0, 3)] for n in (0, 3)])
    assert found[..., 0].max() < 0.9
    assert found[..., 1].max() < 0.5 < plain[:, 1].min()


# -- two layers --------------------------------------------------------------------------------

SEEDS = ("attention-2", "attention-2-seed-2", "attention-2-seed-3")
CONTROLS = [n for n in ("attention-2-one-layer", "attention-2-plain") if n in pretrained.names()]


@pytest.fixture(params=SEEDS)
def two(request):
    """One of the runs, where the functions of the chapter find it, and tokens that it never saw."""
    model = pretrained.language_model(request.param).model
    ids = circuits.repeated_tokens(32, 60, 120, 4096, torch.Generator().manual_seed(11))
    SPACE.update(two=model, random_ids=ids, D=4096)
    return model, ids, pretrained.history(request.param)


def scores(model, ids):
    maps = list(model.run(model.embed(ids), need_weights=True))[-1].attention
    return circuits.offset_score(maps, 59, 60).mean(0)


def test_an_induction_head_against_its_chance_level(two):
    model, again, _ = two
    generator = torch.Generator().manual_seed(12)
    other = circuits.repeated_tokens(32, 120, 120, 4096, generator)
    assert scores(model, again).max() > 0.4 > 0.1 > scores(model, other).max()
    for name in ("attention-1", *CONTROLS):
        control = pretrained.language_model(name).model
        assert scores(control, again).max() < 0.1


@pytest.mark.parametrize("name", SEEDS)
def test_a_phase_change_in_every_run(name):
    h = pretrained.history(name)
    millions = h["step"] * 2048 / 1e6
    best, second = h["induction"][:, 1].amax(-1), h["on_random"][:, 60:].mean(1)
    early = millions < 13
    assert best[early].max() < 0.03  # two thirds of the training
    assert second[early].min() > 8.3 > 2 > second[-1]
    begun = CHAPTER.crossing(millions, best, 0.05)
    assert 13 < begun < 15
    assert 0 < CHAPTER.crossing(millions, best, 0.4) - begun < 4
    assert h["unrepeated"].max() < 0.05
    gain = h["on_random"][:, 1:59].mean(1) - second
    tenth, middle = (CHAPTER.crossing(millions, gain, share * gain[-1]) for share in (0.1, 0.5))
    assert middle - tenth < 0.1 * 4 * tenth  # a straight line takes four times the first tenth
    reviews_fall = h["on_reviews"].mean(1)
    assert (reviews_fall[~early].max() - reviews_fall[~early].min()) < 0.3  # hardly seen there


@pytest.mark.parametrize("name", CONTROLS)
def test_the_controls_never_begin(name):
    """One layer with the same tokens, and two layers without repeated windows."""
    card, h = pretrained.card(name), pretrained.history(name)
    assert (card["config"]["layers"] == 1) == bool(card["repeated"])
    assert card["tokens"] == pretrained.card("attention-2")["tokens"]
    assert h["induction"].max() < 0.1
    gain = h["on_random"][:, 1:59].mean(1) - h["on_random"][:, 60:].mean(1)
    assert gain.max() < 0.88  # a tenth of what two layers gain


def test_the_recorded_run_is_the_shipped_model(two):
    model, ids, history = two
    assert scores(model, ids).tolist() == pytest.approx(
        history["induction"][-1, 1].tolist(), abs=0.05
    )


def test_without_the_previous_token_head_there_is_no_induction(two):
    model, ids, history = two
    giver = int(history["previous"][-1, 0].argmax())
    before, gain = scores(model, ids).max(), CHAPTER.gain_of(model.hidden(ids), ids).mean()
    mixed = next(model.run(model.embed(ids))).mixed
    for h in range(4):
        after = CHAPTER.induction_without(h).max()
        assert after < 0.1 if h == giver else after > 0.8 * before
        edit = CHAPTER.replaced(h, mixed[:, h].mean((0, 1)))
        cut = model.hidden(ids, edits={("mixed", 0): edit})
        left = CHAPTER.gain_of(cut, ids).mean() / gain
        assert left < 0.1 if h == giver else left > 0.9


@pytest.mark.parametrize("name", SEEDS)
def test_composition_is_above_random_and_tells_no_time(name):
    h = pretrained.history(name)
    largest, millions = h["composition"].amax((1, 2)), h["step"] * 2048 / 1e6
    assert largest[0] < 0.1
    assert largest[(millions > 2) & (millions < 13)].min() > 0.105  # long before any induction
    assert largest[millions.sub(2).abs().argmin()] > 0.14
    giver = h["previous"][-1, 0].argmax()
    assert h["composition"][-1].amax(-1).argmax() == giver


def test_the_heads_work_on_random_tokens_and_not_on_reviews_whatever_their_order(two):
    held = token_stream(reviews("imdb").validation.texts[:200], pretrained.tokenizer())
    once = held[: 64 * 60].view(64, 60)
    order = torch.randperm(once.numel(), generator=torch.Generator().manual_seed(0))
    anything = torch.randint(4096, (64, 60), generator=torch.Generator().manual_seed(1))
    text, shuffled, random = (
        CHAPTER.repetition(x) for x in (once, once.flatten()[order].view(64, 60), anything)
    )
    assert random[0] > 0.4
    assert random[1] > 4
    for score, gain, _ in (text, shuffled):
        assert score < 0.2 * random[0]
        assert gain < 0.2 * random[1]
