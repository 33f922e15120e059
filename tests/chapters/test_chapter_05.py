"""What chapter 05 builds by hand, against references that know nothing of it.

The chapter's own functions are taken out of the notebook and tested on inputs that it does not
use; what it measures is measured again here, on other reviews.
"""

import math
from functools import partial

import numpy as np
import pytest
import torch
from chapter_code import definitions
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.attention import attention
from attnlib.data import reviews
from attnlib.decoding import beam_search, generate, greedy
from attnlib.models.config import TransformerConfig
from attnlib.models.transformer import Transformer
from attnlib.positions import rotate, sinusoidal
from attnlib.training.language import next_token_loss, token_stream, windows

BLOCKS = (
    "layer_norm",
    "gelu",
    "feed_forward",
    "norm",
    "attend",
    "pre_norm",
    "printed_order",
    "gpt",
)
POSITIONS = ("d", "slides", "notes", "R", "turn")
DECODING = ("tempered", "top_k", "nucleus", "grams", "repetition", "distinct")


@pytest.fixture(scope="module")
def built():
    return definitions("05_gpt2", *POSITIONS, *BLOCKS, *DECODING, "like_gpt2")


@pytest.fixture(scope="module")
def streams():
    bpe, splits = pretrained.tokenizer(), reviews("imdb")
    return token_stream(splits.validation.texts[:60], bpe)


def near(ours, theirs, atol=1e-6):
    ours, theirs = torch.as_tensor(ours).double(), torch.as_tensor(theirs).double()
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- positions --------------------------------------------------------------------------------


@pytest.mark.claim(2)
@pytest.mark.parametrize(("n", "d"), [(1, 2), (7, 6), (90, 16)])
def test_both_index_conventions(built, n, d):
    slides, notes = built.slides(n, d), built.notes(n, d)
    assert slides.shape == notes.shape == (n, d)
    for p in range(n):
        for i in range(d // 2):  # the slides count pairs from 0, the notes from 1
            first, second = p / 10_000 ** (2 * i / d), p / 10_000 ** (2 * (i + 1) / d)
            near(slides[p, 2 * i : 2 * i + 2], [math.sin(first), math.cos(first)], 1e-5)
            near(notes[p, 2 * i : 2 * i + 2], [math.sin(second), math.cos(second)], 1e-5)


@pytest.mark.claim(62)
@pytest.mark.parametrize("d", [2, 8, 32])
def test_moving_a_sinusoid_is_one_turn(built, d):
    table, p = sinusoidal(300, d), torch.arange(60, 200)
    for k in (-60, -1, 0, 1, 17, 100):
        R = built.R(k, d)
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
def test_rotary_attention_of_a_whole_model_does_not_see_a_shift():
    """The maps of a text are the same wherever in the window it stands."""
    for kind, same in (("rotary", True), ("sinusoidal", False), ("learned", False)):
        torch.manual_seed(3)
        config = TransformerConfig(20, d_model=16, layers=2, max_len=80, positions=kind, d_ff=24)
        model = Transformer(config).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
        x, maps = model.W_E[torch.arange(9)], []
        for start in (0, 40):
            positions = torch.arange(start, start + 9)
            head, seen = model.blocks[0].attention, x
            if kind != "rotary":
                table = model.W_P if kind == "learned" else sinusoidal(80, 16).double()
                seen = x + table[positions]
            q, k, v = (t[0] for t in head.project(seen[None]))
            if kind == "rotary":
                q, k = rotate(q, positions), rotate(k, positions)
            maps.append(attention(q, k, v)[1])
        assert torch.allclose(*maps, atol=1e-9) == same, kind


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


@pytest.mark.claim(64)
def test_turning_by_matrices_is_the_librarys_rotation(built):
    x = draw(5, 40, 8).float()
    near(built.turn(x, range(3, 43)), rotate(x, torch.arange(3, 43)), 1e-4)


def spans(read, batch):
    """Mean loss at positions 0–63, 64–95 and from 64 on, of windows of 512 tokens."""
    with torch.no_grad():
        log_p = read(batch[:, :-1]).log_softmax(-1)
    loss = -log_p.gather(-1, batch[:, 1:, None])[..., 0].mean(0)  # (512,)
    return loss[:64].mean().item(), loss[64:96].mean().item(), loss[64:].mean().item()


@pytest.mark.claim(61)
def test_positions_past_the_trained_length(streams):
    """Trained on 64 positions, all three equally well: beyond, all lose, though more is known.

    The controls: inside, each has learned as much as the others, and more than a model that sees
    one token; held to the distances of its training, the rotary one loses next to nothing.
    """
    batch = streams[: len(streams) // 513 * 513].view(-1, 513)[:24]
    alone, _, _ = spans(pretrained.load("zero-layer"), batch)
    found = {}
    for kind in ("learned", "sinusoidal", "rotary"):
        found[kind] = spans(pretrained.load(f"positions-{kind}"), batch)
        inside, _, beyond = found[kind]
        assert inside < alone
        assert beyond > inside + 0.3
    insides = [inside for inside, _, _ in found.values()]
    assert max(insides) - min(insides) < 0.2
    assert found["rotary"][1] < min(found["learned"][1], found["sinusoidal"][1]) - 0.2


@pytest.mark.long
@pytest.mark.claim(61)
def test_distances_and_the_number_of_sources_both_harm_the_rotary_model(streams):
    """A window of 64 repairs it; distance alone repairs more than the number alone."""
    batch = streams[: len(streams) // 513 * 513].view(-1, 513)[:24]
    names = ("kinds", "trained", "back", "causal", "window", "lots", "order_of", "scattered")
    chapter = definitions("05_gpt2", *names, "only", "no_further")
    back = torch.arange(512)
    back = back[:, None] - back
    for seen in (chapter.window, chapter.scattered):
        assert torch.equal(seen.sum(1), torch.arange(1, 513).clamp(max=64))
        assert not seen[back < 0].any()
    assert back[chapter.window].max() == 63
    assert back[chapter.scattered].max() > 400
    rotary = pretrained.load("positions-rotary")
    plain, found = spans(rotary, batch), {}
    for seen in ("window", "causal", "scattered"):
        mask = getattr(chapter, seen)
        ways = partial(rotary, edits=chapter.only(mask)), partial(chapter.no_further, seen=mask)
        for clamp, read in enumerate(ways):
            found[seen, bool(clamp)] = spans(read, batch)
            assert found[seen, bool(clamp)][0] == pytest.approx(plain[0], abs=1e-3)
    found = {key: beyond for key, (*_, beyond) in found.items()}
    assert found["causal", False] == pytest.approx(plain[2], abs=1e-3), "as the library reads"
    assert found["window", True] == pytest.approx(found["window", False], abs=1e-3)
    assert found["window", False] < plain[0] + 0.2
    assert found["window", False] < found["causal", True] < found["scattered", False] < plain[2]
    assert found["scattered", True] < found["scattered", False] - 0.1


@pytest.mark.claim(61)
def test_trained_rows_in_place_of_the_untrained_ones_repair_little(streams):
    batch = streams[: len(streams) // 513 * 513].view(-1, 513)[:24]
    model = pretrained.load("positions-learned")
    inside, soon, _ = spans(model, batch)
    with torch.no_grad():
        model.W_P[64:] = model.W_P[63].clone()
    assert spans(model, batch)[1] < soon - 0.2
    assert spans(model, batch)[2] > inside + 0.5


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


def test_a_block_reads_at_a_fixed_size_and_its_words_drown(streams):
    """A stream 100 times as long costs what leaving the last three blocks out costs."""
    model = pretrained.language_model().model
    batch = streams[: len(streams) // 129 * 129].view(-1, 129)[:24]

    def loss(edits):
        with torch.no_grad():
            logits = model(batch[:, :-1], edits=edits)
        return F.cross_entropy(logits.mT, batch[:, 1:]).item()

    usual, loud = loss({}), loss({("stream", 1): lambda x: 100 * x})
    assert loud > usual + 1
    first = next(model.run(model.embed(batch[:, :-1]))).residual
    assert abs(loud - loss({("stream", 4): lambda x: first})) < 0.3


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


@pytest.mark.claim(58)
@pytest.mark.parametrize("activation", [None, torch.relu])
def test_feed_forward(built, activation):
    x, W_1, b_1, W_2, b_2 = draw(0, 5, 6), draw(1, 6, 20), draw(2, 20), draw(3, 20, 6), draw(4, 6)
    how = {} if activation is None else {"activation": activation}
    found = built.feed_forward(x, W_1, b_1, W_2, b_2, **how)
    for row in range(5):
        inner = [sum(x[row, a] * W_1[a, h] for a in range(6)) + b_1[h] for h in range(20)]
        if activation is None:
            inner = [F.gelu(z, approximate="tanh") for z in inner]
        else:
            inner = [max(z, torch.tensor(0.0).double()) for z in inner]
        by_hand = [sum(inner[h] * W_2[h, a] for h in range(20)) + b_2[a] for a in range(6)]
        near(found[row], torch.stack(by_hand))


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


# --- the whole --------------------------------------------------------------------------------


@pytest.mark.claim(14)
def test_the_dozen_lines_are_the_model(built):
    torch.manual_seed(6)
    config = TransformerConfig(
        30,
        d_model=24,
        layers=3,
        heads=3,
        d_ff=40,
        max_len=20,
        activation="gelu_tanh",
        bias=True,
        tied=True,
    )
    model = Transformer(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    ids = torch.randint(30, (17,))
    with torch.no_grad():
        expected = model(ids[None])[0]
        near(built.gpt(ids, model), expected, 1e-5)  # the library's LayerNorm has an ε of its own
        wrong = built.gpt(ids, model, built.printed_order)
        unfinished = built.gpt(ids, model, last=lambda x, norm: x)
    for other in (wrong, unfinished):
        assert other.shape == expected.shape
        assert (other - expected).abs().max() > 0.1


def test_without_the_last_norm_a_scale_is_lost_and_in_another_order_everything(built, streams):
    model = pretrained.language_model().model
    review = streams[2_000:2_129]
    with torch.no_grad():
        usual, wrong, loud = (
            built.gpt(review[:-1], model, *how)
            for how in ((), (built.printed_order,), (built.pre_norm, lambda x, norm: x))
        )

    def best(logits):
        return min(F.cross_entropy(logits / by, review[1:]).item() for by in (1, 3, 10, 30))

    assert F.cross_entropy(loud, review[1:]) > math.log(4096)
    assert best(loud) < best(usual) + 1.5
    assert best(wrong) > math.log(4096) - 0.4


@pytest.mark.parametrize("seed", [4, 5])
def test_gradients_at_the_start_depend_on_how_large_the_matrices_are(built, streams, seed):
    """The published direction with our start, and its reverse with GPT-2's own."""
    batch = windows(streams, 32, 8)(0)

    def lengths(norm, layers, small):
        torch.manual_seed(seed)
        config = TransformerConfig(
            4096, d_model=48, layers=layers, d_ff=192, max_len=32, norm=norm, bias=True, tied=True
        )
        model = Transformer(config)
        if small:
            built.like_gpt2(model)
        next_token_loss(model, batch).backward()
        return [block.feed_forward.W_1.grad.norm().item() for block in model.blocks]

    for small in (False, True):
        pre, post = lengths("pre", 12, small), lengths("post", 12, small)
        deep, shallow = lengths("none", 12, small)[0], lengths("none", 2, small)[0]
        if small:
            assert post[-1] < pre[-1]
            assert deep < 2 * shallow
        else:
            assert post[-1] > 1.5 * pre[-1]
            assert deep > 100 * shallow


def test_half_of_the_lead_over_attention_1_came_with_more_reading():
    """Level at five million tokens; at twenty there is half of what there is at the end."""
    cards = {name: pretrained.card(name) for name in ("attention-1", "reviews-gpt")}

    def after(name, millions):
        every, losses = cards[name]["curve"]["every"], cards[name]["curve"]["train_loss"]
        at = (np.arange(len(losses)) + 0.5) * every * 4_096 / 1e6
        return np.interp(millions, at, losses)

    ahead = {m: after("attention-1", m) - after("reviews-gpt", m) for m in (5, 20)}
    loss = {name: card["loss"]["nats_per_token"] for name, card in cards.items()}
    final = loss["attention-1"] - loss["reviews-gpt"]
    assert abs(ahead[5]) < 0.1
    assert 0.3 < ahead[20] / final < 0.75


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


def test_the_most_probable_text_is_the_dullest(built):
    """Greedy and beam search repeat themselves and surprise nobody; people write as samples do."""
    lm, texts = pretrained.language_model(), reviews("imdb").test.texts[100:124]
    human = [torch.tensor(ids[:48]) for ids in map(lm.encode, texts) if len(ids) >= 48][:16]
    starts = [text[:8] for text in human]
    written = {
        "human": human,
        "greedy": greedy(lm.model, starts, 40),
        "beam": [beam_search(lm.model, start, 40, beams=3)[0].ids for start in starts],
        "sampled": generate(lm.model, starts, 40, seed=3),
    }
    nats, repeated = {}, {}
    for name, group in written.items():
        batch = torch.stack(group)
        with torch.no_grad():
            log_p = lm.model(batch[:, :-1]).log_softmax(-1)
        nats[name] = -log_p.gather(-1, batch[:, 1:, None])[:, 7:].mean().item()
        fours = [[tuple(t[i : i + 4]) for i in range(8, 45)] for t in batch.tolist()]
        repeated[name] = sum(1 - len(set(row)) / len(row) for row in fours) / len(fours)
    assert max(nats["greedy"], nats["beam"]) < nats["human"] - 1
    assert abs(nats["human"] - nats["sampled"]) < 0.6
    assert min(repeated["greedy"], repeated["beam"]) > 0.2
    assert max(repeated["human"], repeated["sampled"]) < 0.05


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


def test_the_first_token_decides_how_many_heads_look_at_it():
    """Beginnings of other reviews than the chapter's; an end of text or a full stop before them."""
    chapter = definitions("05_gpt2", "lm", "model", "heads_below", "preceded")
    texts = reviews("imdb").test.texts[300:500]
    firsts = torch.tensor([chapter.lm.encode(text[:150])[:12] for text in texts])
    tokens = {"end": chapter.lm.end, "stop": chapter.lm.encode(".")[0]}
    rows = {"plain": firsts} | {k: chapter.preceded(firsts, token) for k, token in tokens.items()}
    most = {name: (chapter.heads_below(ids) > 8).float() for name, ids in rows.items()}
    assert torch.equal(rows["stop"][:, 1:], firsts[:, :-1])
    for name in tokens:
        less = most["plain"] - most[name]
        assert less.mean() > 0.2
        assert less.mean() > 3 * less.std() / len(less) ** 0.5
    trace = chapter.lm.trace(texts[0][:60])
    ids = torch.tensor([chapter.lm.encode(texts[0][:60])])
    even = (1 / torch.arange(2, ids.shape[1] + 1)).mean()
    below = trace.attention[:, :, 1:, 0].mean(-1) < even
    assert chapter.heads_below(ids).item() == below.sum()


# --- classification ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.claim(85)
def test_a_linear_classifier_on_the_frozen_last_layer():
    """Far above chance on reviews that the model never saw; a bag of words is the yardstick.

    The state of the last token does worst. It is where the text is cut that makes it so: after a
    few words, be they a question or not, the last state does nearly as well as the mean.
    """
    lm, splits = pretrained.language_model(), reviews("imdb")
    before = {name: value.clone() for name, value in lm.model.state_dict().items()}
    ends = {"asked": " Overall, this movie is", "told": " In the next scene, he is"}
    chapter = definitions("05_gpt2", "lm", "asking", "asked")

    def read(split, n):
        ids = [torch.tensor(lm.encode(text)[:128]) for text in split.texts[:n]]
        with torch.no_grad():
            states = [lm.model.hidden(x[None])[0].numpy() for x in ids]
            answers = {
                name: np.stack(
                    [lm.model.hidden(x[None])[0, -1].numpy() for x in chapter.asked(ids, words)]
                )
                for name, words in ((k, torch.tensor(lm.encode(end))) for k, end in ends.items())
            }
        last, mean = np.stack([x[-1] for x in states]), np.stack([x.mean(0) for x in states])
        bag = np.stack([x.bincount(minlength=4096).clip(max=1).numpy() for x in ids])
        found = {"last": last, "mean": mean, "bag": bag.astype(float)} | answers
        return found, np.array(split.labels[:n])

    (train, labels), (test, truth) = read(splits.train, 500), read(splits.validation, 500)
    hits = {}
    for name in train:
        scale = 1 if name == "bag" else train[name].std(0)
        fitted = LogisticRegression(C=0.01, max_iter=300).fit(train[name] / scale, labels)
        hits[name] = (fitted.predict(test[name] / scale) == truth).astype(float)
    assert min(hits["mean"].mean(), hits["bag"].mean(), hits["asked"].mean()) > 0.6
    for name in ("mean", "asked", "told"):  # on the same reviews
        more = hits[name] - hits["last"]
        assert more.mean() > 2 * more.std() / len(more) ** 0.5
    assert abs(hits["mean"].mean() - hits["asked"].mean()) < 0.08
    assert abs(hits["told"].mean() - hits["asked"].mean()) < 0.08, "it need not be a question"
    assert all(torch.equal(before[name], value) for name, value in lm.model.state_dict().items())


@pytest.mark.claim(85)
def test_padding_behind_a_text_needs_the_right_row(built):
    """A causal model's real states do not see the padding; the last row is the padding's own."""
    lm = pretrained.language_model()
    texts = [torch.tensor(lm.encode(t)) for t in ("A dull film.", "I loved it, and so will you.")]
    with torch.no_grad():
        alone = [lm.model.hidden(text[None])[0] for text in texts]
        batch = torch.nn.utils.rnn.pad_sequence(texts, True, lm.end)
        together = lm.model.hidden(batch)
    for row, text in enumerate(texts):
        near(together[row, : len(text)], alone[row], 1e-3)
    assert (together[0, -1] - alone[0][-1]).abs().max() > 0.1
