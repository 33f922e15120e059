"""The theses of chapter 05 with their controls, and what it and its side roads build by hand.

The functions are taken out of the notebooks and tested on inputs that these do not use; what is
measured is measured again here, on other reviews.
"""

import html
import math
import re
from dataclasses import replace

import nbformat
import numpy as np
import pytest
import torch
from cells import ROOT, printed, sources
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

MODEL = ("layer_norm", "gelu", "Attention", "Block", "Slipped", "GPT", "with_weights_of")
CHOOSING = ("tempered", "top_k", "nucleus", "grams", "repetition", "write")
FOUND = ("lm", "model", "train", "averaged", "rotate", "size")
BESIDE = ("d", "slides", "notes", "R", "turn", "back", "near", "loss_by_position")


@pytest.fixture(scope="module")
def built():
    return definitions("05_gpt2", *MODEL, *CHOOSING, *FOUND)


@pytest.fixture(scope="module")
def beside():
    """What the side road on positions builds."""
    return definitions("more/05_positions", *BESIDE)


@pytest.fixture(scope="module")
def streams():
    bpe, splits = pretrained.tokenizer(), reviews("imdb")
    return token_stream(splits.validation.texts[:60], bpe)


def rows_of(path, cell_id):
    """The rows of the HTML table that a cell of a notebook shows, as text."""
    cells = nbformat.read(ROOT / path, as_version=4).cells
    (cell,) = (cell for cell in cells if cell.id == cell_id)
    shown = next(o.data["text/html"] for o in cell.outputs if "data" in o)
    rows = re.findall(r"<tr>(.*?)</tr>", shown, flags=re.S)
    columns = (re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.S) for row in rows)
    return [tuple(map(html.unescape, row)) for row in columns if row]


def near(ours, theirs, atol=1e-6):
    ours, theirs = torch.as_tensor(ours).double(), torch.as_tensor(theirs).double()
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- the theses -------------------------------------------------------------------------------


@pytest.mark.claim(14)
@pytest.mark.claim(110)
def test_the_lines_are_the_model_and_a_moved_norm_ruins_it(built, streams):
    """On a trained model, and what the moved norm leaves of it at the best of four scales."""
    usual, moved = (built.with_weights_of(built.model, b) for b in (built.Block, built.Slipped))
    known = []
    for text in streams[: 48 * 129].view(48, 129)[40:]:
        ids, following = text[None, :-1], text[1:]
        logits = [gpt(ids)[0] for gpt in (usual, moved)]
        near(logits[0], built.model(ids)[0], 1e-3)
        best = [
            min(F.cross_entropy(said / by, following).item() for by in (1, 3, 10, 30))
            for said in logits
        ]
        known.append((math.log(4096) - best[1]) / (math.log(4096) - best[0]))
    assert interval(known)[1] < 0.1


@pytest.mark.claim(14)
@pytest.mark.claim(110)
def test_the_lines_are_any_gpt(built):
    """Other sizes, other weights, a batch of texts; GPT-2's sizes give GPT-2's parameters."""
    torch.manual_seed(6)
    shape = {"d_model": 24, "layers": 3, "heads": 3, "d_ff": 96, "max_len": 20}
    config = TransformerConfig(30, **shape, activation="gelu_tanh", bias=True, tied=True)
    model = Transformer(config).requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn_like(parameter)
    ids = torch.randint(30, (4, 17))
    torch.testing.assert_close(built.with_weights_of(model)(ids), model(ids), atol=1e-3, rtol=1e-4)
    assert (built.with_weights_of(model, built.Slipped)(ids) - model(ids)).abs().max() > 0.1
    changed = ids.clone()
    changed[:, 9:] = torch.randint(30, (4, 8))
    gpt = built.with_weights_of(model)
    near(gpt(changed)[:, :9], gpt(ids)[:, :9], 1e-5)  # the future is hidden
    with torch.device("meta"):
        large = built.GPT(D=50_257, d_model=768, heads=12, layers=12, max_len=1_024)
        library = Transformer(TransformerConfig.gpt2())
    assert built.size(large) == library.parameter_count == 124_439_808


def test_the_last_state_is_a_sum_whose_longer_terms_are_missed_less(built):
    """Lengths and losses disagree in `reviews-gpt`; post-norm there is no plain sum."""
    ids = [torch.tensor(built.lm.encode(t)[:129]) for t in reviews("imdb").validation.texts[:16]]
    batch = torch.stack([text for text in ids if len(text) == 129][:8])

    def states_of(model, ids):
        x = model.embed(ids)
        states = list(model.run(x))
        return x + sum(state.attn_out + state.mlp_out for state in states), states

    with torch.no_grad():
        total, states = states_of(built.model, batch[:, :-1])
        near(total, states[-1].resid_post, 1e-3)
        minilm = pretrained.minilm()
        text = torch.tensor(minilm.encode("The film was not as bad as I had feared."))
        total, post = states_of(minilm.model, text[None])
        assert (total - post[-1].resid_post).norm() > post[-1].resid_post.norm()

        def ratios(states):
            """Feed-forward over attention, median length, for each layer."""
            lengths = [
                [y[:, 1:].norm(dim=-1).median() for y in (state.mlp_out, state.attn_out)]
                for state in states
            ]
            return torch.tensor([mlp / attn for mlp, attn in lengths])

        assert (ratios(states) > 1).tolist() == [False, True, True, True]
        for seed in range(3):
            torch.manual_seed(seed)
            fresh = Transformer(built.model.config).eval()
            untrained = ratios(states_of(fresh, batch[:, :-1])[1])
            assert untrained[2:].max() < 1 < untrained[0]

        def losses(model):
            return F.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:], reduction="none").mean(1)

        lost = {
            site: losses(built.averaged(site)) - losses(built.model)
            for site in ("attn_out", "mlp_out")
        }
    assert interval(lost["mlp_out"])[0] > 1
    assert interval(lost["attn_out"] - lost["mlp_out"])[0] > 0.5


@pytest.mark.long
def test_below_the_frequencies_only_neighbours_help(built, streams):
    """Four fifths of the chapter's steps, on other reviews, with another seed."""
    frequency = streams.bincount(minlength=4096).double() / len(streams)
    entropy = -torch.special.xlogy(frequency, frequency).sum().item()
    mixed = streams[torch.randperm(len(streams), generator=torch.Generator().manual_seed(7))]
    ways = {"forwards": streams, "backwards": streams.flip(0), "random": mixed}
    end = {}
    for name, stream in ways.items():
        losses = built.train(stream, steps=120, seed=7)[1]
        assert losses[0] > 8
        end[name] = sum(losses[-20:]) / 20
    assert max(end["forwards"], end["backwards"]) < entropy - 0.15
    assert abs(end["random"] - entropy) < 0.15


def test_training_is_watched_before_between_and_after_its_steps(built):
    seen = []
    net, losses = built.train(
        torch.arange(4096), steps=3, watch=lambda step, net: seen.append((step, net.W_E.sum()))
    )
    assert [step for step, _ in seen] == [0, 1, 2, 3]
    assert len(losses) == 3
    assert seen[-1][1] == net.W_E.sum() != seen[0][1]


@pytest.mark.claim(109)
def test_the_losses_fall_along_the_road_and_every_model_writes():
    """The running table: the prompt, a text and a loss in each row, the highest loss first."""
    rows = rows_of("chapters/05_gpt2.ipynb", "all-texts")
    names, losses, bits, texts = zip(*rows, strict=True)
    assert all(len(text.split()) > 8 and text.startswith("This film is") for text in texts)
    assert len(set(texts)) == len(texts)
    nats = [float(loss) for loss in losses[:-1]]
    assert nats == sorted(nats, reverse=True)
    assert nats[0] == pytest.approx(math.log(4096), abs=0.05)  # step 0
    assert nats[2] < 6.79 < nats[1] + 0.3  # step 150 is below the entropy of the frequencies
    stored = {"Elman": "elman", "neural 5-gram": "ngram-5", "reviews-gpt": "reviews-gpt"}
    for row, name in stored.items():
        (at,) = (i for i, title in enumerate(names) if row in title)
        assert nats[at] == round(pretrained.card(name)["loss"]["nats_per_token"], 2)
    assert (names[-1], losses[-1]) == ("SmolLM2 (04)", "other tokens")
    assert texts[-1] in " ".join(printed("chapters/04_self_attention.ipynb").split())
    counts = {row[0]: row[1:] for row in rows_of("chapters/01_ngram.ipynb", "running-table")}
    for title in ("pairs, counted", "best counts, n = 5"):  # copied from chapter 01
        (copied,) = (row for row in rows if row[0] == f"{title} (01)")
        assert (copied[1], copied[3]) == counts[title]
    assert float(bits[-1]) < min(map(float, bits[:-1]))


@pytest.mark.claim(64)
@pytest.mark.claim(110)
def test_a_rotary_score_sees_the_distance_alone(built):
    """Any two tokens, any head; with sinusoids added the score changes along a diagonal."""
    for seed in range(3):
        x, y, W_Q, W_K = (
            draw(10 * seed + i, *s) for i, s in enumerate([(1, 16), (1, 16), (16, 16), (16, 16)])
        )
        t = torch.arange(40)
        here, there = (z.expand(40, 16) for z in (x, y))
        near(built.rotate(here, t), rotate(here, t), 1e-4)
        scores = built.rotate(here @ W_Q, t) @ built.rotate(there @ W_K, t).T
        PE = sinusoidal(40, 16).double()
        added = (here + PE) @ W_Q @ ((there + PE) @ W_K).T
        for offset in (-20, -1, 0, 7):
            line = scores.diagonal(offset)
            near(line, line[0].expand_as(line), 1e-3)
            assert added.diagonal(offset).std() > 0.1


@pytest.mark.claim(61)
def test_positions_past_the_trained_length(beside, streams):
    """All three lose beyond, and inside they are level; the rotary one, held, does not lose."""
    batch = streams[: 5 * 513].view(5, 513)
    inside, beyond = {}, {}
    for kind in ("learned", "sinusoidal", "rotary"):
        net = pretrained.load(f"positions-{kind}").requires_grad_(False)
        nats = beside.loss_by_position(net, batch)
        inside[kind] = nats[:, :64].mean()
        beyond[kind] = interval(nats[:, 64:].mean(1) - nats[:, :64].mean(1))
        assert beyond[kind][0] > 0.3
    assert max(inside.values()) - min(inside.values()) < 0.2
    held = {("pattern", layer): beside.near for layer in range(2)}
    stretches = torch.cat([batch[:, start : start + 65] for start in range(0, 512, 64)])
    anew = torch.cat(beside.loss_by_position(net, stretches).split(len(batch)), 1)

    def lost(edits):
        """Beyond the trained length, over the same model started anew: the same tokens."""
        nats = beside.loss_by_position(net, batch, edits)
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
    repeated = {
        name: torch.tensor([built.repetition(text[8:].tolist()) for text in group])
        for name, group in written.items()
    }
    for name in ("greedy", "beam"):
        assert interval(repeated[name])[0] > 0.2
        assert interval(repeated[name] - repeated["human"])[0] > 0.2
    assert interval(repeated["human"])[1] < 0.1
    assert interval(repeated["drawn"] - repeated["human"])[0] < 0.005
    assert repeated["drawn"].mean() <= repeated["human"].mean()


def test_writing_is_asking_drawing_appending(built):
    prompt = torch.tensor(built.lm.encode("This film is"))
    drawn = built.write(built.model, prompt, 30)
    assert torch.equal(drawn[:3], prompt[:3])
    assert len(drawn) == len(prompt) + 30
    cold = built.write(built.model, prompt, 10, temperature=1e-6)
    assert torch.equal(cold, greedy(built.model, prompt, 10))
    assert torch.equal(drawn, built.write(built.model, prompt, 30))  # a seed is a text
    assert not torch.equal(drawn, built.write(built.model, prompt, 30, seed=5))


def test_two_layers_notice_order_by_the_mask_alone():
    sizes = {"d_model": 32, "layers": 2, "d_ff": 64}
    setless = TransformerConfig(4096, **sizes, positions="none", causal=False)
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
    row = r"(\S.*?)\s+([\d.]+) nats/token\s+repetition\s+([\d.]+)%"
    printed_rows = re.findall(row, printed("chapters/05_gpt2.ipynb"))
    task = sources("solutions/05_gpt2/05_gpt2.ipynb").partition("## 5.6")[2]
    rows = {line for line in task.splitlines() if re.search(r"\d % \|$", line)}
    assert len(rows) == 9
    assert rows == {f"| {a} | {b} | {c} % |" for a, b, c in printed_rows}


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
    near(built.gelu(torch.tensor(t, dtype=torch.float64)), exact)
    tanh_form = F.gelu(torch.tensor(t, dtype=torch.float64), approximate="tanh")
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


def test_repetition(built):
    assert built.repetition([1, 2, 3, 4, 1, 2, 3, 4], n=4) == pytest.approx(1 - 4 / 5)
    assert built.repetition([1, 1, 1, 1, 1], n=2) == pytest.approx(1 - 1 / 4)
    assert built.repetition(list(range(20))) == 0
    assert built.repetition([1, 2, 1, 2]) == pytest.approx(1 - 2 / 3)  # pairs, if nothing is said


@pytest.mark.claim(23)
def test_a_beam_gains_on_average_and_not_on_every_prompt():
    """At least as probable as greedy, says the claim: true on average, false on some prompts."""
    lm, texts = pretrained.language_model(), reviews("imdb").test.texts[200:208]
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

    (train, labels), (test, truth) = read(splits.train, 150), read(splits.validation, 100)
    for name in train:
        scale = 1 if name == "bag" else train[name].std(0)
        fitted = LogisticRegression(C=0.01, max_iter=300).fit(train[name] / scale, labels)
        assert fitted.score(test[name] / scale, truth) > 0.6
