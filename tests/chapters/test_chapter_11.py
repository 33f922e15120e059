"""What chapter 11 concludes, on other sentences, with the controls that could have refuted it.

Probes, control labels and code lengths by themselves are tested in tests/explain/test_probing.py.
"""

import math
import re
from functools import cache
from itertools import pairwise

import pytest
import torch
from cells import printed, sources
from chapter_code import definitions
from gemma import gemma_or_skip

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import probing
from attnlib.training import token_stream

pytestmark = pytest.mark.usefixtures("no_gradients")
CHAPTER = definitions(
    "11_probing",
    *("minilm", "read", "states_of", "numbered", "untrained", "singular", "irregular", "nouns"),
    *("prompts", "streams_of", "of_nouns", "log_odds", "restored", "number_probe", "exchange"),
)
NEXT = definitions(
    "more/11_next",
    *("lm", "untrained", "streams_of", "verbs", "around", "of_verbs", "same_neighbours"),
)


# -- parts of speech ---------------------------------------------------------------------------


class Corpus:
    """Sentences that the chapter does not use, with the states of MiniLM and an untrained copy."""

    def __init__(self) -> None:
        parsed = pretrained.parsed_sentences()[1200:1600]
        chosen = [s for s in parsed if all(CHAPTER.minilm.encode(w)[1:-1] for w in s.words)][:360]
        self.texts = [CHAPTER.read(s.words) for s in chosen]
        self.tags, self.K = CHAPTER.numbered([tag for s in chosen for tag in s.tags])
        self.types, count = CHAPTER.numbered([w.lower() for s in chosen for w in s.words])
        sentence = torch.arange(len(chosen)).repeat_interleave(torch.tensor([*map(len, chosen)]))
        self.sentence, self.train, self.test = sentence, sentence < 250, sentence >= 250
        self.seen = self.test & torch.isin(self.types, self.types[self.train])
        table = torch.zeros(count, self.K)
        ones = torch.ones(int(self.train.sum()))
        table.index_put_((self.types[self.train], self.tags[self.train]), ones, accumulate=True)
        self.several = self.test & ((table > 0).sum(1) > 1)[self.types]
        self.by_table = table.argmax(1)[self.types] == self.tags
        W_E = CHAPTER.minilm.model.W_E
        self.states = {
            "MiniLM": CHAPTER.states_of(CHAPTER.minilm.model, self.texts),
            "untrained": CHAPTER.states_of(
                CHAPTER.untrained(CHAPTER.minilm.model, seed=7), self.texts, depth=2
            ),
            "matrix": torch.cat([W_E[torch.tensor(ids)[at]] for ids, at in self.texts])[:, None],
        }
        self.control = probing.control_labels(self.types, self.tags[self.train], seed=5)

    @cache  # noqa: B019 - there is one corpus
    def right(self, name, labels="tags"):
        """Whether probes of every layer are right, (N, P)."""
        X, y = self.states[name], getattr(self, labels)
        probe = probing.train_probe(X[self.train], y[self.train], self.K)
        return probing.is_right(probe, X, y).float()

    def selectivity(self, name, scale):
        """The accuracy on the task minus that on the control task, on a scale."""
        shares = (self.right(name, labels)[self.seen].mean(0) for labels in ("tags", "control"))
        on_tags, on_control = map(scale, shares)
        return on_tags - on_control


def redrawn(right, sentence, times=1000):
    """Shares right when sentences are drawn anew: (times, P) for answers (N, P)."""
    labels = sentence.unique(return_inverse=True)[1]
    count = int(labels.max()) + 1
    drawn = torch.randint(count, (times, count), generator=torch.Generator().manual_seed(0))
    sums = torch.zeros(count, right.shape[1]).index_add(0, labels, right)
    return sums[drawn].sum(1) / labels.bincount()[drawn].sum(1, keepdim=True)


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


@pytest.mark.claim(72)
def test_the_states_stand_at_the_words_that_the_labels_belong_to():
    """The piece under every state is the first piece of its word."""
    words = ["the", "unwatchable", "film", "was", "unforgettable"]
    ids, places = CHAPTER.read(words)
    pieces = CHAPTER.minilm.tokenizer.tokens(ids)
    assert [pieces[int(k)] for k in places] == [
        CHAPTER.minilm.tokenizer.tokens(CHAPTER.minilm.encode(w))[1] for w in words
    ]
    texts = [CHAPTER.read(words), CHAPTER.read(words[:3]), CHAPTER.read(words[::-1])]
    together = CHAPTER.states_of(CHAPTER.minilm.model, texts)
    alone = torch.cat([CHAPTER.states_of(CHAPTER.minilm.model, [text]) for text in texts])
    assert torch.allclose(together, alone, atol=1e-4)


@pytest.mark.long
@pytest.mark.claim(72)
def test_most_of_what_a_probe_tells_stands_in_the_embedding_matrix(corpus):
    frozen = {k: v.clone() for k, v in CHAPTER.minilm.model.state_dict().items()}
    found = {name: corpus.right(name) for name in corpus.states}
    assert all(torch.equal(v, frozen[k]) for k, v in CHAPTER.minilm.model.state_dict().items())
    trained, blank, matrix = (right[corpus.test].mean(0) for right in found.values())
    table = corpus.by_table[corpus.test].float().mean()
    chance = (corpus.tags == corpus.tags[corpus.train].mode().values)[corpus.test].float().mean()
    assert blank.max() < table < trained[2]
    assert abs(matrix[0] - 0.84) < 0.04
    assert 0.02 < trained.max() - matrix[0] < 0.08
    assert chance < 0.3
    guess = corpus.by_table[corpus.several].float().mean()  # where words had several tags
    trained, blank, matrix = (right[corpus.several].mean(0) for right in found.values())
    assert trained[2] > max(guess, matrix[0]) + 0.03
    assert blank.max() < guess


@pytest.mark.ci
@pytest.mark.claim(73)
def test_selectivity_rises_in_accuracy_and_not_in_log_odds(corpus):
    """From layer 2 to 6, by 95 % intervals over sentences; longer training makes it shrink less.

    The accuracy falls meanwhile; an untrained model has no selectivity on either scale.
    """
    accuracy = corpus.right("MiniLM")[corpus.seen].mean(0)
    assert accuracy[6] < accuracy[4] < accuracy[2]
    assert corpus.selectivity("untrained", torch.clone).max() < 0.03
    assert corpus.selectivity("untrained", torch.logit).max() < 0.2
    draws = (probing.control_labels(corpus.types, corpus.tags[corpus.train], s) for s in range(3))
    labels = torch.stack([corpus.tags, *draws], 1).repeat_interleave(2, 1)  # for two layers each
    X, climbs = corpus.states["MiniLM"][:, [2, 6]].repeat(1, 4, 1), []
    for passes in (4, 12):  # as on the page, and three times as long
        probe = probing.train_probe(X[corpus.train], labels[corpus.train], corpus.K, passes=passes)
        right = probing.is_right(probe, X[corpus.seen], labels[corpus.seen]).float()
        shares = redrawn(right, corpus.sentence[corpus.seen]).unflatten(1, (4, 2))
        on_tags, on_control = shares[:, 0], shares[:, 1:].mean(1)  # of the same sentences
        gaps = (scale(on_tags) - scale(on_control) for scale in (torch.clone, torch.logit))
        climbs.append([gap[:, 1] - gap[:, 0] for gap in gaps])
    (in_accuracy, in_log_odds), (_, longer) = climbs
    assert in_accuracy.quantile(0.025) > 0.03
    assert in_log_odds.quantile(0.975) < 0
    assert longer.mean() > in_log_odds.mean() + 0.05


@pytest.mark.claim(73)
def test_a_wider_probe_gains_more_on_random_labels_than_on_the_tags(corpus):
    gained, layers = {}, [0, 2, 6]
    X = corpus.states["MiniLM"][:, layers]
    for name in ("tags", "control"):
        labels, linear = getattr(corpus, name), corpus.right("MiniLM", name)[:, layers]
        wide = probing.train_probe(X[corpus.train], labels[corpus.train], corpus.K, width=128)
        right = probing.is_right(wide, X, labels).float()
        gained[name] = (right - linear)[corpus.seen].mean(0)
    assert (gained["control"] > 0.02).all()
    assert (gained["control"] > 1.5 * gained["tags"]).all()


def bits_of_types_sent_before(X, labels, corpus, order):
    """The bits of the words whose type stands in an earlier block: X (N, P, d) to (P,)."""
    types, ends = corpus.types[corpus.train][order], [round(e * len(X)) for e in probing.ENDS]
    total = torch.zeros(X.shape[1])
    for begin, end in pairwise(ends):
        probe = probing.train_probe(X[:begin], labels[:begin], corpus.K, seed=11)
        logits, block = probe(X[begin:end]).mT, labels[begin:end]
        nats = torch.nn.functional.cross_entropy(logits, block, reduction="none")
        total += nats[torch.isin(types[begin:end], types[:begin])].sum(0)
    return total / math.log(2)


@pytest.mark.ci
@pytest.mark.claim(74)
def test_the_tags_are_sent_in_fewer_bits_than_random_labels(corpus):
    names = ("layer 0", "layer 2", "layer 6", "untrained")
    states = [corpus.states["MiniLM"][:, [k]] for k in (0, 2, 6)]
    X = torch.cat([*states, corpus.states["untrained"][:, [0]]], 1)[corpus.train]
    X = X.repeat_interleave(2, 1)  # tags and random labels
    labels = torch.stack([corpus.tags, corpus.control], 1)[corpus.train].repeat(1, 4)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(11))
    bits = probing.online_code(X[order], labels[order], corpus.K, seed=11).sum(0)
    task, control = (bits / (len(X) * math.log2(corpus.K))).unflatten(0, (4, 2)).T
    assert (control > 2 * task)[:3].all(), dict(zip(names, task / control, strict=True))
    assert abs(control[3] - task[3]) < 0.1
    assert task[3] > 1.5 * task[0]
    met = bits_of_types_sent_before(X[order, :2], labels[order, :2], corpus, order)
    assert met[0] > 0.9 * met[1]  # in layer 0 the difference comes from new types
    top, new = corpus.states["MiniLM"][:, [6]], corpus.test & ~corpus.seen
    probe = probing.train_probe(top[corpus.train], corpus.control[corpus.train], corpus.K)
    logits = probe(top[new])[:, 0]  # sure and wrong about words that it never met
    assert torch.nn.functional.cross_entropy(logits, corpus.control[new]) > math.log(corpus.K)


# -- number ------------------------------------------------------------------------------------


class Number:
    """The chapter's patches in one model, with a split of the nouns of its own and other texts."""

    def __init__(self, lm, start=(), seed=4) -> None:
        pairs = [p for p in CHAPTER.nouns if all(len(lm.encode(f" {word}")) == 1 for word in p)]
        dealt = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))
        learned, self.held_out = ([pairs[k] for k in half] for half in dealt.chunk(2))
        self.lm, self.start, self.n = lm, start, len(learned)
        begins = ("The", "I think the", "In my opinion the")
        self.met, self.unmet = (
            torch.cat([CHAPTER.of_nouns(lm, half, begin, start) for begin in begins])
            for half in (learned, self.held_out)
        )
        self.number = torch.arange(2).repeat_interleave(self.n).repeat(3)
        self.labels = torch.arange(2).repeat_interleave(len(self.held_out)).repeat(3)

    def readable(self, k):
        """How often the chapter's probe of one layer reads the number of a noun it never met."""
        probe = probing.train_probe(self.met[:, [k]], self.number, 2, passes=20)
        return probing.is_right(probe, self.unmet[:, [k]], self.labels).float().mean()

    @cache  # noqa: B019 - there are few models
    def read(self, after):
        """The streams of a text, and the position of the noun."""
        ids, noun = CHAPTER.prompts(self.lm, self.held_out, "The", after, self.start)
        return CHAPTER.streams_of(self.lm, ids), noun

    def restored(self, k, after, way=None, tokens_on=0):
        """The share restored by exchanging a token's state, or its coordinate along a vector."""
        streams, noun = self.read(after)
        step = (streams[k].flip(0) - streams[k])[:, :, noun + tokens_on]
        if way is not None:
            step = CHAPTER.exchange(step, way)
        return CHAPTER.restored(self.lm, streams, noun + tokens_on, k, step).mean()

    def two_probes(self, k):
        """The weights of the probe of raw states, and of that of standardised ones; both read."""
        ways = []
        for standardise in (False, True):
            w, b = CHAPTER.number_probe(self.met[:, k], self.number, standardise)
            right = ((self.unmet[:, k] @ w + b > 0) == self.labels).float().mean()
            ways.append((w, right))
        return ways


@pytest.fixture(scope="module")
def smollm2():
    return Number(pretrained.smollm2())


@pytest.fixture(scope="module")
def gpt():
    return Number(NEXT.lm, (NEXT.lm.end,))


class WithoutBegin:
    """Gemma 3 as the chapter's functions use a model: its <bos> is written by the prompt alone."""

    def __init__(self, lm) -> None:
        self.model, self.begin = lm.model, lm.encode("")
        self._encode = lm.encode

    def encode(self, text):
        return self._encode(text)[len(self.begin) :]


def test_an_exchange_gives_a_probe_the_twins_reading(gpt):
    """And it moves nothing that is orthogonal to the probe's weights, whatever their length."""
    for w, b in (CHAPTER.number_probe(gpt.met[:, 2], gpt.number, s) for s in (False, True)):
        x, twin = gpt.unmet[:7, 2], gpt.unmet[7:14, 2]
        moved = x + CHAPTER.exchange(twin - x, w)
        assert torch.allclose(moved @ w + b, twin @ w + b, atol=1e-3)
        across = torch.randn(len(w), generator=torch.Generator().manual_seed(0))
        across -= (across @ w) / (w @ w) * w
        assert torch.allclose(moved @ across, x @ across, atol=1e-3)
    gap, w = torch.tensor([[3.0, 4.0]]), torch.tensor([0.0, 2.0])
    assert CHAPTER.exchange(gap, w).tolist() == [[0, 4]]


SAW, FILM = " that we saw", " in this film"


@pytest.mark.long
@pytest.mark.claim(75)
def test_number_stays_readable_where_a_patch_of_the_noun_does_nothing(smollm2, gpt):
    for number, top, after in ((smollm2, 30, SAW), (gpt, 4, FILM)):
        own = CHAPTER.log_odds(number.lm, number.read(after)[0][-1], top)
        assert own[0].mean() < own[1].mean() - 1
        assert number.readable(top) > 0.9
        assert number.restored(0, after) == pytest.approx(1, abs=1e-3)
        assert abs(number.restored(top, after)) < 1e-6
        assert abs(number.restored(0, after, tokens_on=1)) < 1e-3  # the same token in the twin
    assert smollm2.restored(12, SAW) > 0.4
    assert smollm2.readable(28) > 0.9
    assert smollm2.restored(26, FILM) > 0.7
    for k in (12, 26):  # the other tokens do not decide yet
        assert smollm2.restored(k, FILM, tokens_on=3) < 0.2
        assert abs(smollm2.restored(k, FILM, tokens_on=2)) < 0.1
    for after in (SAW, FILM):
        assert abs(smollm2.restored(28, after)) < 0.05
        assert smollm2.restored(28, after, tokens_on=3) > 0.9  # the last token


@pytest.mark.slow
@pytest.mark.claim(75)
def test_two_probes_that_read_alike_do_not_move_the_verb_alike(smollm2):
    """Of nouns dealt anew, and in another text; random bits are read, and move nothing."""
    for k in (12, 18):
        whole = smollm2.restored(k, SAW)
        (raw, raw_right), (standardised, standardised_right) = smollm2.two_probes(k)
        assert min(raw_right, standardised_right) > 0.95
        assert smollm2.restored(k, SAW, raw) > 0.8 * whole
        assert smollm2.restored(k, SAW, standardised) < 0.2
    n, X = smollm2.n, smollm2.met[:, k]  # the controls, after the last of the two layers
    bit = torch.randperm(n, generator=torch.Generator().manual_seed(8)) % 2
    w, b = CHAPTER.number_probe(X[: 4 * n], bit.repeat(4))
    assert ((X[4 * n :] @ w + b > 0) == bit.repeat(2)).float().mean() > 0.9
    assert abs(smollm2.restored(k, SAW, w)) < 0.05 * whole
    apart = X[smollm2.number == 1].mean(0) - X[smollm2.number == 0].mean(0)
    assert smollm2.restored(k, SAW, apart) > 0.8 * whole
    pattern = torch.cov(X.T) @ standardised
    assert torch.cosine_similarity(pattern, apart, dim=0) > 0.97
    assert torch.cosine_similarity(standardised, apart, dim=0) < 0.7


@pytest.mark.long
def test_what_the_folds_of_the_chapter_say_of_gemma():
    """The stored numbers, of the chapter's own nouns and texts."""
    gemma_or_skip()
    lm = WithoutBegin(pretrained.gemma3())
    gemma = Number(lm, lm.begin, seed=0)
    assert len(gemma.held_out) == 17
    shares = {
        (k, on): gemma.restored(k, FILM, tokens_on=on) for k, on in ((13, 0), (17, 0), (14, 3))
    }
    assert shares[13, 0] == pytest.approx(0.95, abs=0.02)
    assert shares[17, 0] == pytest.approx(0.01, abs=0.02)
    assert shares[14, 3] == pytest.approx(0.75, abs=0.02)
    assert gemma.readable(17) > 0.99
    # after layer 12 rounding alone moves the share of the first probe from .84 to .87
    for k, by_raw, by_standardised in ((6, 0.86, 0.28), (12, 0.855, 0.87)):
        (raw, _), (standardised, right) = gemma.two_probes(k)
        assert right > 0.99
        assert gemma.restored(k, FILM, raw) == pytest.approx(by_raw, abs=0.03)
        assert gemma.restored(k, FILM, standardised) == pytest.approx(by_standardised, abs=0.02)


# -- this token and the next, and trajectories -------------------------------------------------


@pytest.mark.claim(87)
def test_the_next_token_is_told_better_at_the_top_and_only_with_training():
    """Of frequent tokens followed by frequent ones, in other reviews."""
    stream = token_stream(reviews("imdb").train.texts[5000:5100], NEXT.lm.tokenizer)
    rows = stream[: 65 * 300].view(300, 65)
    place = torch.full((4096,), -1)
    place[rows.flatten().bincount().topk(100).indices] = torch.arange(100)
    this, following = place[rows[:, :-1]], place[rows[:, 1:]]
    kept = (this >= 0) & (following >= 0)
    kept[:, :8] = False
    copies = NEXT.lm.model, NEXT.untrained(NEXT.lm.model, 3)
    X = torch.cat([NEXT.streams_of(m, rows[:, :-1])[kept][:, [0, 4]] for m in copies], 1)
    this, following, learn = this[kept], following[kept], kept.nonzero()[:, 0] < 200
    probe = probing.train_probe(X[learn], following[learn], 100)
    right = probing.is_right(probe, X[~learn], following[~learn]).float().mean(0)
    bottom, top, blank_bottom, blank_top = right
    pairs = torch.zeros(100, 100)
    ones = torch.ones(int(learn.sum()))
    pairs.index_put_((this[learn], following[learn]), ones, accumulate=True)
    table = (pairs.argmax(1)[this[~learn]] == following[~learn]).float().mean()
    assert top > max(bottom, table) + 0.03
    assert blank_top < blank_bottom


@pytest.mark.claim(59)
def test_the_four_verbs_mix_in_the_upper_layers():
    texts = reviews("imdb").train.texts[3000:4500]
    chosen = [w for verb in NEXT.verbs for w in NEXT.around(verb, 30, texts)]
    which = torch.arange(4).repeat_interleave(30)
    assert [words[15] for words in chosen[::30]] == list(NEXT.verbs)
    X = NEXT.of_verbs(NEXT.lm.model, chosen)
    found = NEXT.same_neighbours(X, which).mean(0)
    assert found[1] > 0.95
    assert 0.4 < found[4] < found[1] - 0.15
    shuffled = which[torch.randperm(120, generator=torch.Generator().manual_seed(0))]
    assert (NEXT.same_neighbours(X, shuffled).mean(0) - 0.25).abs().max() < 0.08
    blank = NEXT.of_verbs(NEXT.untrained(NEXT.lm.model, seed=2), chosen)
    assert NEXT.same_neighbours(blank, which).mean(0)[4] < found[4]  # mixing needs no training


def test_neighbours_are_counted_without_the_point_itself():
    X = torch.tensor([[[0.0]], [[1.0]], [[10.0]], [[11.0]]])
    labels = torch.tensor([0, 0, 1, 0])
    assert NEXT.same_neighbours(X, labels, 1)[:, 0].tolist() == [1, 1, 0, 0]
    assert NEXT.same_neighbours(X, labels, 3)[:, 0] == pytest.approx([2 / 3, 2 / 3, 0, 2 / 3])


# -- the exercise ------------------------------------------------------------------------------


def test_the_exercise_quotes_what_the_chapter_printed():
    """Every row of numbers in 11.6 stands in an output of the chapter, as it is printed there."""
    number = re.compile(r"\d?\.\d+")
    told = printed("chapters/11_probing.ipynb").splitlines()
    lines = [{float(value) for value in number.findall(line)} for line in told]
    task = sources("solutions/11_probing/11_probing.ipynb").partition("## 11.6")[2]
    rows = [number.findall(line) for line in task.splitlines() if line[:1] == "|"]
    rows = [{float(value) for value in row} for row in rows if row]
    assert len(rows) >= 5
    for row in rows:
        assert any(row <= line for line in lines), row
