"""What chapter 11 concludes, on other sentences, with the controls that could have refuted it.

Probes, control labels and code lengths by themselves are tested in tests/explain/test_probing.py.
"""

import math
import re
from functools import cache

import pytest
import torch
from cells import printed, sources
from chapter_code import definitions

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import probing
from attnlib.training import token_stream

CHAPTER = definitions(
    "11_probing",
    *("minilm", "read", "states_of", "numbered", "untrained", "one", "many", "nouns", "prompts"),
    *("streams_of", "log_odds", "of_nouns", "restored", "unit", "two_ways", "along"),
)
NEXT = definitions(
    "more/11_next",
    *("lm", "untrained", "streams_of", "verbs", "around", "of_verbs", "same_neighbours"),
)
MINILM, GPT = CHAPTER.minilm, NEXT.lm


@pytest.fixture(autouse=True, scope="module")
def no_gradients():
    with torch.no_grad():
        yield


# -- parts of speech ---------------------------------------------------------------------------


class Corpus:
    """Sentences that the chapter does not use, with the states of MiniLM and an untrained copy."""

    def __init__(self) -> None:
        parsed = pretrained.parsed_sentences()[1200:1500]
        chosen = [s for s in parsed if all(MINILM.encode(w)[1:-1] for w in s.words)][:260]
        self.texts = [CHAPTER.read(s.words) for s in chosen]
        self.tags, self.K = CHAPTER.numbered([tag for s in chosen for tag in s.tags])
        self.types, count = CHAPTER.numbered([w.lower() for s in chosen for w in s.words])
        sentence = torch.arange(len(chosen)).repeat_interleave(torch.tensor([*map(len, chosen)]))
        self.train, self.test = sentence < 180, sentence >= 180
        self.seen = self.test & torch.isin(self.types, self.types[self.train])
        table = torch.zeros(count, self.K)
        ones = torch.ones(int(self.train.sum()))
        table.index_put_((self.types[self.train], self.tags[self.train]), ones, accumulate=True)
        self.several = self.test & ((table > 0).sum(1) > 1)[self.types]
        self.by_table = table.argmax(1)[self.types] == self.tags
        W_E = MINILM.model.W_E
        self.states = {
            "MiniLM": CHAPTER.states_of(MINILM.model, self.texts),
            "untrained": CHAPTER.states_of(CHAPTER.untrained(MINILM.model, seed=7), self.texts),
            "matrix": torch.cat([W_E[torch.tensor(ids)[at]] for ids, at in self.texts])[:, None],
        }
        self.control = probing.control_labels(self.types, self.tags[self.train], seed=5)

    @cache  # noqa: B019 - there is one corpus
    def right(self, name, labels="tags", width=0):
        """Whether probes of every layer are right, (N, P)."""
        X, y = self.states[name], getattr(self, labels)
        probe = probing.train_probe(X[self.train], y[self.train], self.K, width)
        return probing.is_right(probe, X, y).float()

    def selectivity(self, name):
        return (self.right(name) - self.right(name, "control"))[self.seen].mean(0)


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


@pytest.mark.claim(72)
def test_the_states_stand_at_the_words_that_the_labels_belong_to():
    """The piece under every state is the first piece of its word."""
    words = ["the", "unwatchable", "film", "was", "unforgettable"]
    ids, places = CHAPTER.read(words)
    pieces = MINILM.tokenizer.tokens(ids)
    assert [pieces[int(k)] for k in places] == [
        MINILM.tokenizer.tokens(MINILM.encode(w))[1] for w in words
    ]
    texts = [CHAPTER.read(words), CHAPTER.read(words[:3]), CHAPTER.read(words[::-1])]
    together = CHAPTER.states_of(MINILM.model, texts)
    alone = torch.cat([CHAPTER.states_of(MINILM.model, [text]) for text in texts])
    assert torch.allclose(together, alone, atol=1e-4)


@pytest.mark.claim(72)
def test_most_of_what_a_probe_tells_stands_in_the_embedding_matrix(corpus):
    frozen = {k: v.clone() for k, v in MINILM.model.state_dict().items()}
    found = {name: corpus.right(name) for name in corpus.states}
    assert all(torch.equal(v, frozen[k]) for k, v in MINILM.model.state_dict().items())
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


def test_a_probe_of_the_embeddings_that_runs_two_layers_is_the_probe_of_layer_2(corpus):
    """Nothing is added; without the other words, which layer 2 has read, something is lost."""
    probe = probing.train_probe(
        corpus.states["MiniLM"][corpus.train][:, [2]], corpus.tags[corpus.train], corpus.K
    )
    second, large, alone = [], [], []
    for ids, places in corpus.texts[180:]:
        E = MINILM.model.embed(torch.tensor([ids]))
        for embedded, at, said in (
            (E, places, large),
            *((E[:, [0, int(k), -1]], torch.tensor([1]), alone) for k in places),
        ):
            layers = MINILM.model.run(embedded)
            x = (next(layers), next(layers))[1].residual
            said.append(probe(x[0, at, None]).argmax(-1)[:, 0])
    second = probe(corpus.states["MiniLM"][corpus.test][:, [2]]).argmax(-1)[:, 0]
    tags = corpus.tags[corpus.test]
    assert torch.equal(torch.cat(large), second)
    assert (torch.cat(alone) == tags).float().mean() < (second == tags).float().mean() - 0.03


def test_no_function_of_the_input_tells_more_of_a_label_and_one_of_the_label_does():
    """The data-processing inequality, counted; a map that is also given the label breaks it."""

    def information(joint):
        p = joint / joint.sum()
        independent = p.sum(0, keepdim=True) * p.sum(1, keepdim=True)
        return torch.special.xlogy(p, p / independent.clamp_min(1e-300)).sum()

    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        joint = torch.rand(9, 3, generator=generator).double() ** 3  # (input, label)
        state = torch.randint(4, (9,), generator=generator)
        read = torch.zeros(4, 3).double().index_add_(0, state, joint)
        assert information(read) < information(joint) + 1e-12
        assert information(torch.diag(joint.sum(0))) > information(joint)


@pytest.mark.claim(73)
def test_selectivity_needs_training_and_rises_while_accuracy_falls(corpus):
    found = corpus.selectivity("MiniLM")
    accuracy = corpus.right("MiniLM")[corpus.seen].mean(0)
    assert found[6] > found[2] + 0.03 > found[0] + 0.06
    assert accuracy[6] < accuracy[4] < accuracy[2]
    assert corpus.selectivity("untrained").max() < 0.03


@pytest.mark.claim(73)
def test_a_wider_probe_gains_more_on_random_labels_than_on_the_tags(corpus):
    gained = {
        labels: (corpus.right("MiniLM", labels, 128) - corpus.right("MiniLM", labels))[
            corpus.seen
        ].mean(0)[[0, 2, 6]]
        for labels in ("tags", "control")
    }
    assert (gained["control"] > 0.02).all()
    assert (gained["control"] > 1.5 * gained["tags"]).all()


@pytest.mark.claim(74)
def test_the_tags_are_sent_in_fewer_bits_than_random_labels(corpus):
    trained, blank = (corpus.states[name][:, [2]] for name in ("MiniLM", "untrained"))
    X = torch.cat([trained, trained, blank, blank], 1)[corpus.train]
    labels = torch.stack([corpus.tags, corpus.control], 1)[corpus.train].repeat(1, 2)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(11))
    found = probing.online_code(X[order], labels[order], corpus.K, seed=11).sum(0)
    task, control, blank_task, blank_control = found / (len(X) * math.log2(corpus.K))
    assert control > 2 * task
    assert blank_task > 1.8 * task
    assert (blank_control - blank_task).abs() < 0.1
    top, new = corpus.states["MiniLM"][:, [6]], corpus.test & ~corpus.seen
    probe = probing.train_probe(top[corpus.train], corpus.control[corpus.train], corpus.K)
    logits = probe(top[new])[:, 0]  # sure and wrong about words that it never met
    assert torch.nn.functional.cross_entropy(logits, corpus.control[new]) > math.log(corpus.K)


# -- number ------------------------------------------------------------------------------------


class Number:
    """The chapter's patches in one model, with other halves of the nouns and another text."""

    def __init__(self, lm, layers, start=(), after=" that we saw") -> None:
        pairs = [
            pair for pair in CHAPTER.nouns if all(len(lm.encode(f" {word}")) == 1 for word in pair)
        ]
        dealt = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(4))
        learned, held_out = ([pairs[k] for k in half] for half in dealt.chunk(2))
        begins, n = ("The", "I think the", "In my opinion the"), len(learned)
        self.met = torch.cat([CHAPTER.of_nouns(lm, learned, b, start) for b in begins])
        number = torch.arange(2).repeat_interleave(n).repeat(3)
        apart, read_by, self.probe = CHAPTER.two_ways(self.met, number)
        unmet = CHAPTER.of_nouns(lm, held_out, "The", start)
        labels = torch.arange(2).repeat_interleave(len(held_out))
        self.readable = probing.is_right(self.probe, unmet, labels).float().mean(0)
        bit = (torch.randperm(n, generator=torch.Generator().manual_seed(8)) % 2).repeat(2)
        *by_bits, of_bits = CHAPTER.two_ways(self.met[: 4 * n], bit.repeat(2))
        self.known = probing.is_right(of_bits, self.met[4 * n :], bit).float().mean(0)
        ids, place = CHAPTER.prompts(lm, held_out, "The", after, start)
        streams = CHAPTER.streams_of(lm, ids)
        self.own = CHAPTER.log_odds(lm, streams[-1], len(streams) - 1)
        self.shares, self.each, self.by_squares = {}, {}, {}
        y, mean = 2.0 * number - 1, self.met.mean(0)
        for k in layers:
            gap = (streams[k].flip(0) - streams[k])[:, :, place]
            raw = self.met[:, k] - mean[k]  # least squares, a little ridge
            kernel = raw @ raw.T
            kernel.diagonal().add_(0.1 * kernel.diagonal().mean())
            squares = raw.T @ torch.linalg.solve(kernel, y)
            said = (unmet[:, k] - mean[k]) @ squares > 0
            self.by_squares[k] = (said == labels).float().mean().item()
            ways = {"mean": apart[k], "probe": read_by[k], "squares": CHAPTER.unit(squares)}
            ways |= {f"bits {i}": way[k] for i, way in enumerate(by_bits)}
            steps = {"nothing": 0 * gap, "whole": gap}
            steps |= {name: CHAPTER.along(gap, way, apart[k]) for name, way in ways.items()}
            for name, step in steps.items():
                found = CHAPTER.restored(lm, streams, place, k, step)
                self.shares[name, k], self.each[name, k] = found.mean().item(), found
        self.direction = read_by


@pytest.fixture(scope="module")
def smollm2():
    return Number(pretrained.smollm2(), (0, 12, 28, 30))


@pytest.fixture(scope="module")
def in_this_film():
    return Number(pretrained.smollm2(), (28,), after=" in this film")


@pytest.fixture(scope="module")
def gpt():
    return Number(GPT, (0, 2, 4), (GPT.end,), " in this film")


def test_a_probe_reads_along_its_direction_and_not_across_it(gpt):
    moved = gpt.probe(gpt.met + 3 * gpt.direction) - gpt.probe(gpt.met)
    across = torch.randn(gpt.direction.shape, generator=torch.Generator().manual_seed(0))
    across -= (across * gpt.direction).sum(-1, keepdim=True) * gpt.direction
    aside = gpt.probe(gpt.met + across) - gpt.probe(gpt.met)
    assert (moved[..., 1] - moved[..., 0]).min() > 0
    assert (aside[..., 1] - aside[..., 0]).abs().max() < 1e-3
    assert torch.allclose(gpt.direction.norm(dim=-1), torch.ones(5))


@pytest.mark.claim(75)
def test_number_stays_readable_where_a_patch_of_the_noun_does_nothing(smollm2, gpt, in_this_film):
    for found, top in ((smollm2, 30), (gpt, 4)):
        assert found.own[0].mean() < found.own[1].mean() - 1
        assert found.readable.min() > 0.85
        assert found.readable[-1] > 0.9
        assert found.shares["whole", 0] == pytest.approx(1, abs=1e-3)
        assert found.each["whole", top].abs().max() < 1e-6
        assert found.each["nothing", 0].abs().max() < 1e-3
    assert smollm2.shares["whole", 12] > 0.4
    for found in (smollm2, in_this_film):
        assert found.readable[28] > 0.9
        assert abs(found.shares["whole", 28]) < 0.05


@pytest.mark.claim(75)
def test_the_mean_difference_carries_the_patch_and_the_weights_of_a_probe_do_not(smollm2):
    """All steps are equally long; a probe that learns otherwise has weights that do more."""
    whole, mean, probe, squares, *bits = (
        smollm2.shares[name, 12]
        for name in ("whole", "mean", "probe", "squares", "bits 0", "bits 1")
    )
    assert mean > 0.6 * whole
    assert probe < 0.25 * whole
    assert smollm2.by_squares[12] > 0.95
    assert squares > 0.6 * mean
    assert smollm2.known[12] > 0.7  # random bits of nouns that it met
    assert all(abs(share) < 0.15 * whole for share in bits)


# -- this token and the next, and trajectories -------------------------------------------------


@pytest.fixture(scope="module")
def tokens():
    """States of frequent tokens followed by frequent ones, in other reviews, and both tokens."""
    stream = token_stream(reviews("imdb").train.texts[5000:5300], GPT.tokenizer)
    rows = stream[: 65 * 450].view(450, 65)
    place = torch.full((4096,), -1)
    place[rows.flatten().bincount().topk(100).indices] = torch.arange(100)
    this, following = place[rows[:, :-1]], place[rows[:, 1:]]
    kept = (this >= 0) & (following >= 0)
    kept[:, :8] = False
    copies = GPT.model, *(NEXT.untrained(GPT.model, 3, longer) for longer in (1.0, 27.0))
    states = [NEXT.streams_of(m, rows[:, :-1])[kept][:, [0, 4]] for m in copies]
    learn = kept.nonzero()[:, 0] < 300
    return torch.cat(states, 1), this[kept], following[kept], learn


def told(X, labels, learn):
    probe = probing.train_probe(X[learn], labels[learn], 100)
    return probing.is_right(probe, X[~learn], labels[~learn]).float().mean(0)


@pytest.mark.claim(87)
def test_the_next_token_is_told_better_at_the_top_and_only_with_training(tokens):
    X, this, following, learn = tokens
    bottom, top, blank_bottom, blank_top, *_ = told(X, following, learn)
    pairs = torch.zeros(100, 100)
    ones = torch.ones(int(learn.sum()))
    pairs.index_put_((this[learn], following[learn]), ones, accumulate=True)
    table = (pairs.argmax(1)[this[~learn]] == following[~learn]).float().mean()
    assert top > max(bottom, table) + 0.03
    assert blank_top < blank_bottom


@pytest.mark.claim(87)
def test_this_token_fades_most_where_nothing_was_learned_and_embeddings_are_short(tokens):
    X, this, _, learn = tokens
    bottom, top, _, blank_top, _, long_top = told(X, this, learn)
    assert blank_top < 0.6 < 0.9 < top < bottom
    assert long_top > blank_top + 0.2


@pytest.mark.claim(59)
def test_the_four_verbs_mix_in_the_upper_layers():
    texts = reviews("imdb").train.texts[3000:4500]
    chosen = [w for verb in NEXT.verbs for w in NEXT.around(verb, 30, texts)]
    which = torch.arange(4).repeat_interleave(30)
    assert [words[15] for words in chosen[::30]] == list(NEXT.verbs)
    X = NEXT.of_verbs(GPT.model, chosen)
    found = NEXT.same_neighbours(X, which).mean(0)
    assert found[1] > 0.95
    assert 0.4 < found[4] < found[1] - 0.15
    shuffled = which[torch.randperm(120, generator=torch.Generator().manual_seed(0))]
    assert (NEXT.same_neighbours(X, shuffled).mean(0) - 0.25).abs().max() < 0.08
    blank = NEXT.of_verbs(NEXT.untrained(GPT.model, seed=2), chosen)
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
