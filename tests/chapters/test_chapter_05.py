"""The theses of chapter 05 with their controls, and what it and its side roads build by hand.

The functions are taken out of the notebooks and tested on inputs that these do not use; what is
measured is measured again here, on other reviews.
"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from cells import printed, sources
from chapter_code import definitions
from intervals import interval
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.decoding import beam_search, generate, greedy
from attnlib.models import TransformerConfig
from attnlib.models.transformer import Transformer
from attnlib.positions import rotate, sinusoidal
from attnlib.training.language import token_stream

MODEL = ("layer_norm", "gelu", "feed_forward", "norm", "attend", "block", "slipped", "gpt")
CHOOSING = ("tempered", "top_k", "nucleus", "grams", "repetition", "distinct")
FOUND = ("lm", "model", "written", "small", "train", "back", "near", "loss_by_position")


@pytest.fixture(scope="module")
def built():
    return definitions("05_gpt2", *MODEL, *CHOOSING, *FOUND, "write")


@pytest.fixture(scope="module")
def beside():
    """What the side road on positions builds."""
    return definitions("more/05_positions", "d", "slides", "notes", "R", "turn")


@pytest.fixture(scope="module")
def streams():
    bpe, splits = pretrained.tokenizer(), reviews("imdb")
    return token_stream(splits.validation.texts[:60], bpe)


def near(ours, theirs, atol=1e-6):
    ours, theirs = torch.as_tensor(ours).double(), torch.as_tensor(theirs).double()
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- the theses -------------------------------------------------------------------------------


@pytest.mark.claim(14)
def test_the_lines_are_the_model_and_a_moved_norm_ruins_it(built, streams):
    """On a trained model, and what the moved norm leaves of it at the best of four scales."""
    known = []
    for text in streams[: len(streams) // 129 * 129].view(-1, 129)[40:56]:
        ids, following = text[:-1], text[1:]
        usual, moved = (built.gpt(ids, built.model, how) for how in (built.block, built.slipped))
        near(usual, built.model(ids[None])[0], 1e-3)
        best = [
            min(F.cross_entropy(rows / scale, following).item() for scale in (1, 3, 10, 30))
            for rows in (usual, moved)
        ]
        known.append((math.log(4096) - best[1]) / (math.log(4096) - best[0]))
    assert interval(known)[1] < 0.1


@pytest.mark.claim(14)
def test_the_lines_are_any_gpt(built):
    torch.manual_seed(6)
    shape = {"d_model": 24, "layers": 3, "heads": 3, "d_ff": 40, "max_len": 20}
    config = TransformerConfig(30, **shape, activation="gelu_tanh", bias=True, tied=True)
    model = Transformer(config).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn_like(parameter)
    ids = torch.randint(30, (17,))
    expected = model(ids[None])[0]
    near(built.gpt(ids, model), expected, 1e-5)  # the library's LayerNorm has an ε of its own
    assert (built.gpt(ids, model, built.slipped) - expected).abs().max() > 0.1


def test_the_last_state_is_a_plain_sum_where_no_norm_stands_on_the_stream(built, streams):
    parts, last = built.written(built.model, streams[:100])
    near(sum(parts.values()), last, 1e-3)
    assert len(parts) == 1 + 2 * built.model.config.layers
    minilm = pretrained.minilm()
    ids = torch.tensor(minilm.encode("The film was not as bad as I had feared."))
    with torch.no_grad():
        parts, last = built.written(minilm.model, ids)
    assert (sum(parts.values()) - last).norm() > last.norm()


def test_feed_forward_writes_longer_vectors_in_most_blocks_and_by_training(built):
    lm = built.lm
    texts = [torch.tensor(lm.encode(t)[:128]) for t in reviews("imdb").validation.texts[:20]]

    def ratios(model):
        """Feed-forward over attention, median length, for each text and layer."""
        found = []
        for ids in texts:
            with torch.no_grad():
                parts, _ = built.written(model, ids)
            long = [part[1:].norm(dim=-1).median() for name, part in parts.items()][1:]
            found.append(torch.stack(long[1::2]) / torch.stack(long[::2]))
        return torch.stack(found)

    assert ((ratios(built.model) > 1).sum(1) == 3).all()
    for seed in range(3):
        torch.manual_seed(seed)
        untrained = ratios(Transformer(lm.model.config).eval()).mean(0)
        assert untrained[2:].max() < 1 < untrained[0]
    with torch.device("meta"):
        block = Transformer(TransformerConfig.gpt2()).blocks[0]
    sizes = [
        sum(p.numel() for p in part.parameters()) for part in (block.attention, block.feed_forward)
    ]
    assert sizes[1] / sum(sizes) == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.long
def test_below_the_frequencies_only_order_helps(built, streams):
    """Three fifths of the chapter's steps, on other reviews, with another seed."""
    frequency = streams.bincount(minlength=4096).double() / len(streams)
    entropy = -torch.special.xlogy(frequency, frequency).sum().item()
    mixed = streams[torch.randperm(len(streams), generator=torch.Generator().manual_seed(7))]
    ordered, shuffled = (built.train(s, steps=120, seed=7)[1] for s in (streams, mixed))
    assert ordered[0] > 8
    assert sum(ordered[-20:]) / 20 < entropy - 0.2
    assert abs(sum(shuffled[-20:]) / 20 - entropy) < 0.15


@pytest.mark.claim(61)
def test_positions_past_the_trained_length(built, streams):
    """All three lose beyond, and inside they are level; the rotary one, held, does not lose."""
    batch = streams[: len(streams) // 513 * 513].view(-1, 513)[:12]
    inside, beyond = {}, {}
    for kind in ("learned", "sinusoidal", "rotary"):
        net = pretrained.load(f"positions-{kind}").requires_grad_(False)
        nats = built.loss_by_position(net, batch)
        inside[kind] = nats[:, :64].mean()
        beyond[kind] = interval(nats[:, 64:].mean(1) - nats[:, :64].mean(1))
        assert beyond[kind][0] > 0.3
    assert max(inside.values()) - min(inside.values()) < 0.2
    held = {("pattern", layer): built.near for layer in range(2)}
    stretches = torch.cat([batch[:, start : start + 65] for start in range(0, 512, 64)])
    anew = torch.cat(built.loss_by_position(net, stretches).split(len(batch)), 1)

    def lost(edits):
        """Beyond the trained length, over the same model started anew: the same tokens."""
        nats = built.loss_by_position(net, batch, edits)
        return interval((nats - anew)[:, 64:].mean(1))

    assert lost(held)[1] < 0.02 < 0.3 < lost({})[0]


@pytest.mark.long
def test_what_search_finds_repeats_itself(built):
    """Other prompts than the chapter's; a sample and the reviewers' own words are the controls."""
    lm = built.lm
    ids = [lm.encode(text) for text in reviews("imdb").test.texts[100:120]]
    human = [torch.tensor(text[:56]) for text in ids if len(text) >= 56][:16]
    starts = [text[:8] for text in human]
    written = {
        "greedy": greedy(lm.model, starts, 48),
        "beam": [beam_search(lm.model, start, 48, beams=4)[0].ids for start in starts],
        "drawn": generate(lm.model, starts, 48, seed=3),
        "human": human,
    }
    repeated, nats = {}, {}
    for name, group in written.items():
        repeated[name] = interval([built.repetition(text[8:].tolist()) for text in group])
        nats[name] = built.loss_by_position(lm.model, torch.stack(group))[:, 7:].mean()
    assert min(repeated["greedy"][0], repeated["beam"][0]) > 0.2
    assert max(repeated["drawn"][1], repeated["human"][1]) < 0.03
    assert max(nats["greedy"], nats["beam"]) < nats["human"] - 1
    assert abs(nats["drawn"] - nats["human"]) < 0.6


def test_writing_is_asking_drawing_appending(built):
    prompt = torch.tensor(built.lm.encode("This film is"))
    torch.manual_seed(0)
    drawn = built.write(built.model, prompt, 30)
    assert torch.equal(drawn[:3], prompt[:3])
    assert len(drawn) == len(prompt) + 30
    cold = built.write(built.model, prompt, 10, temperature=1e-6)
    assert torch.equal(cold, greedy(built.model, prompt, 10))


def test_two_layers_notice_order_by_the_mask_alone():
    setless = definitions("05_gpt2", "setless").setless
    blind = Transformer(setless).requires_grad_(False)
    ids, order = torch.randint(4096, (30,)), torch.randperm(30)
    near(blind(ids[order][None])[0], blind(ids[None])[0][order], 1e-4)
    order = torch.cat([torch.randperm(29).roll(1), torch.tensor([29])])  # the last stays last
    for layers, notices in ((1, False), (2, True)):  # what stood before it, under a causal mask
        seeing = Transformer(replace(setless, causal=True, layers=layers)).requires_grad_(False)
        change = seeing(ids[order][None])[0, -1] - seeing(ids[None])[0, -1]
        assert (change.abs().max() > 1e-3) == notices


def test_the_table_of_task_5_6_is_the_chapters():
    """Every row of the exercise is what the chapter's cell printed."""
    one = r"(\S.*?)\s+([\d.]+) nats/token\s+repetition\s+([\d.]+)%\s+distinct-2 ([\d.]+)"
    told = re.findall(one, printed("chapters/05_gpt2.ipynb"))
    task = sources("solutions/05_gpt2/05_gpt2.ipynb").partition("## 5.6")[2]
    rows = {line for line in task.splitlines() if re.search(r"\.\d\d \|$", line)}
    assert len(rows) == 9
    assert rows == {f"| {a} | {b} | {c} % | {d} |" for a, b, c, d in told}


# --- positions --------------------------------------------------------------------------------


@pytest.mark.claim(2)
@pytest.mark.parametrize(("n", "d"), [(1, 2), (7, 6), (90, 16)])
def test_both_index_conventions(beside, n, d):
    slides, notes = beside.slides(n, d), beside.notes(n, d)
    assert slides.shape == notes.shape == (n, d)
    for p in range(n):
        for i in range(d // 2):  # the slides count pairs from 0, the notes from 1
            first, second = p / 10_000 ** (2 * i / d), p / 10_000 ** (2 * (i + 1) / d)
            near(slides[p, 2 * i : 2 * i + 2], [math.sin(first), math.cos(first)], 1e-5)
            near(notes[p, 2 * i : 2 * i + 2], [math.sin(second), math.cos(second)], 1e-5)


@pytest.mark.claim(62)
@pytest.mark.parametrize("d", [2, 8, 32])
def test_moving_a_sinusoid_is_one_turn(beside, d):
    table, p = sinusoidal(300, d), torch.arange(60, 200)
    for k in (-60, -1, 0, 1, 17, 100):
        R = beside.R(k, d)
        near(table[p] @ R.T, table[p + k], 1e-4)
        near(R @ R.T, torch.eye(d), 1e-5)  # a turn: lengths stay
        blocks = torch.block_diag(*torch.ones(d // 2, 2, 2)).bool()
        assert (R[~blocks] == 0).all()  # each pair turns on its own


@pytest.mark.claim(63)
def test_bits_and_waves_have_geometric_periods():
    d, n = 16, 4_096

    def shortest_period(signal, tolerance):
        for period in range(1, n // 2):
            if max(abs(signal[period:] - signal[:-period])) < tolerance:
                return period
        raise AssertionError("no period found")

    for k in range(6):
        bit = np.array([int(f"{p:012b}"[-1 - k]) for p in range(n)])
        assert shortest_period(bit, 0.5) == 2 ** (k + 1)
    crossings = []
    for i in range(5):  # upward zero crossings of a sine, over a stretch that holds several
        wave = sinusoidal(n, d)[:, 2 * i].numpy()
        up = np.flatnonzero((wave[:-1] < 0) & (wave[1:] >= 0))
        crossings.append((up[-1] - up[0]) / (len(up) - 1))
    ratios = np.array(crossings[1:]) / crossings[:-1]
    assert np.allclose(ratios, 10_000 ** (2 / d), rtol=0.02)
    assert crossings[0] == pytest.approx(2 * math.pi, rel=0.01)


@pytest.mark.claim(64)
def test_turning_the_embeddings_instead_is_another_thing():
    x, y, W_Q, W_K = draw(0, 1, 16), draw(1, 1, 16), draw(2, 16, 16), draw(3, 16, 16)

    def scores(i, j):
        at_i, at_j = torch.tensor([i]), torch.tensor([j])
        right = rotate(x @ W_Q, at_i) @ rotate(y @ W_K, at_j).T
        printed = rotate(x, at_i) @ W_Q @ (rotate(y, at_j) @ W_K).T
        return right, printed

    (right, printed), (right_later, printed_later) = scores(20, 25), scores(140, 145)
    near(right, right_later, 1e-9)
    assert abs(printed - printed_later) > 1


# --- inside a block ---------------------------------------------------------------------------


@pytest.mark.claim(15)
@pytest.mark.parametrize("seed", range(4))
def test_layer_norm(built, seed):
    x, gamma, beta = 5 + 3 * draw(seed, 2, 7, 24), draw(seed + 10, 24), draw(seed + 20, 24)
    before = x.clone()
    near(built.layer_norm(x, gamma, beta), F.layer_norm(x, (24,), gamma, beta))
    for row in built.layer_norm(x, 1, 0, eps=0).flatten(0, 1).numpy():
        assert np.mean(row) == pytest.approx(0, abs=1e-9)
        assert np.var(row) == pytest.approx(1, abs=1e-9)
        assert np.linalg.norm(row) == pytest.approx(24**0.5)
    near(built.layer_norm(torch.zeros(3, 24).double(), gamma, beta), beta.expand(3, 24))
    assert torch.equal(x, before)


@pytest.mark.claim(16)
def test_gelu(built):
    """x Φ(x) with Φ from the error function; what is printed is far from it."""
    t = [i / 10 for i in range(-60, 61)]
    exact = [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in t]
    near(F.gelu(torch.tensor(t, dtype=torch.float64)), exact)
    tanh_form = built.gelu(torch.tensor(t, dtype=torch.float64))
    near(tanh_form, F.gelu(torch.tensor(t, dtype=torch.float64), approximate="tanh"))
    assert (tanh_form - torch.tensor(exact, dtype=torch.float64)).abs().max() < 1e-3
    # the integral by Simpson's rule, with the constant of the notes and with the right one
    bell = np.exp(-(np.linspace(-12, 12, 4_801) ** 2) / 2)
    weights = np.tile([2, 4], 2_401)[:-1]
    weights[[0, -1]] = 1
    total = (weights * bell).sum() * 0.005 / 3
    assert total / math.sqrt(2 * math.pi) == pytest.approx(1, abs=1e-9)
    assert total / (2 * math.pi) == pytest.approx(0.3989, abs=1e-4)


@pytest.mark.claim(60)
@pytest.mark.parametrize("dropped", [0.1, 0.5])
def test_the_model_drops_as_the_framework_does(dropped):
    """What is kept is divided by its share at once, and nothing happens at test time."""
    torch.manual_seed(7)
    model = Transformer(TransformerConfig(30, d_model=64, layers=1, dropout=dropped))
    ids = torch.randint(30, (4, 100))
    plain, training = model.eval().embed(ids), model.train().embed(ids)
    kept = training != 0
    near(training[kept], plain[kept] / (1 - dropped), 1e-6)
    share, n = kept.double().mean(), kept.numel()
    # a share so far from its expectation does not happen: 20 standard deviations
    assert abs(share - (1 - dropped)) < 20 * (dropped * (1 - dropped) / n) ** 0.5
    assert torch.equal(model.eval().embed(ids), plain)


# --- decoding ---------------------------------------------------------------------------------


@pytest.mark.claim(19)
@pytest.mark.claim(20)
@pytest.mark.claim(21)
@pytest.mark.claim(22)
def test_decoding_rules_of_the_chapter(built):
    logits = 3 * draw(7, 50)
    p = logits.softmax(0)
    ranked = sorted(range(50), key=lambda token: -p[token])
    for k in (1, 7, 50):
        cut = built.top_k(p, k)
        assert set(cut.nonzero()[:, 0].tolist()) == set(ranked[:k])
        near(cut[ranked[:k]], p[ranked[:k]] / sum(p[token] for token in ranked[:k]))
    for mass in (0.05, 0.5, 0.9, 0.99):
        size, total = 0, 0.0
        while total < mass:
            total += p[ranked[size]].item()
            size += 1
        near(built.nucleus(p, mass), built.top_k(p, size))
    near(built.tempered(logits, 2.0), logits.div(2).exp() / logits.div(2).exp().sum())
    assert built.tempered(logits, 0.01)[ranked[0]] > 0.999
    near(built.tempered(logits, 1e7), torch.full((50,), 0.02))


def test_repetition_and_variety(built):
    assert built.repetition([1, 2, 3, 4, 1, 2, 3, 4], n=4) == pytest.approx(1 - 4 / 5)
    assert built.repetition([1, 1, 1, 1, 1], n=2) == pytest.approx(1 - 1 / 4)
    assert built.repetition(list(range(20))) == 0
    assert built.distinct([[1, 2, 3], [2, 3, 1]], n=2) == pytest.approx(3 / 4)


@pytest.mark.claim(23)
def test_a_beam_gains_on_average_and_not_on_every_prompt():
    """At least as probable as greedy, says the claim: true on average, false on some prompts."""
    lm, texts = pretrained.language_model(), reviews("imdb").test.texts[200:216]
    gains = []
    for text in texts:
        start = torch.tensor(lm.encode(text)[:6])
        one, two = (beam_search(lm.model, start, 16, beams)[0] for beams in (1, 2))
        assert torch.equal(one.ids, greedy(lm.model, start, 16))
        gains.append(two.log_probability - one.log_probability)
    assert sum(gains) / len(gains) > 1
    assert min(gains) < -0.01


@pytest.mark.long
def test_a_sample_surprises_the_model_as_its_entropy_says_and_people_more():
    road = definitions("more/05_decoding", "lm", "model", "entropy_and_surprise")
    texts = [road.lm.encode(text) for text in reviews("imdb").validation.texts[:200]]
    human = [torch.tensor(ids[:56]) for ids in texts if len(ids) >= 56][:160]
    own = generate(road.model, [text[:8] for text in human[:64]], 48, seed=9)
    gaps = {}
    for name, group in (("own", own), ("human", human)):
        entropy, surprise = road.entropy_and_surprise(group)
        gaps[name] = interval(surprise - entropy)
    assert gaps["own"][0] < 0.05
    assert gaps["own"][1] < 0.25
    assert gaps["human"][0] > 0


# --- classification ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.claim(85)
def test_a_linear_classifier_on_the_frozen_last_layer():
    """Far above chance on reviews that the model never saw; a bag of words is the yardstick."""
    lm, splits = pretrained.language_model(), reviews("imdb")

    def read(split, n):
        ids = [torch.tensor(lm.encode(text)[:128]) for text in split.texts[:n]]
        with torch.no_grad():
            mean = np.stack([lm.model.hidden(x[None])[0].mean(0).numpy() for x in ids])
        bag = np.stack([x.bincount(minlength=4096).clip(max=1).numpy() for x in ids])
        return {"mean": mean, "bag": bag.astype(float)}, np.array(split.labels[:n])

    (train, labels), (test, truth) = read(splits.train, 300), read(splits.validation, 300)
    for name in train:
        scale = 1 if name == "bag" else train[name].std(0)
        fitted = LogisticRegression(C=0.01, max_iter=300).fit(train[name] / scale, labels)
        assert fitted.score(test[name] / scale, truth) > 0.6
