"""What chapter 11 concludes, on other sentences, with the controls that could have refuted it.

Probes, control labels and code lengths by themselves are tested in tests/explain/test_probing.py.
"""

from functools import cache

import pytest
import torch
from chapter_code import definitions

from attnlib import pretrained
from attnlib.data import reviews
from attnlib.explain import probing
from attnlib.training import token_stream

CHAPTER = definitions(
    "11_probing",
    *("minilm", "lm", "read_minilm", "read_gpt", "states_of", "numbered", "untrained"),
    *("one", "many", "nouns", "contexts", "of_noun", "singular", "plurals", "past", "present"),
    *("log_odds", "unit", "read_by", "pushed", "effect", "gap_without", "streams_of"),
    *("around", "of_verbs", "same_neighbours", "verbs"),
)
SPACE = CHAPTER.states_of.__globals__
LM, MINILM = CHAPTER.lm, CHAPTER.minilm


@pytest.fixture(autouse=True, scope="module")
def no_gradients():
    with torch.no_grad():
        yield


# -- parts of speech ---------------------------------------------------------------------------


class Corpus:
    """Sentences that the chapter does not use, with the states of four models."""

    def __init__(self) -> None:
        parsed = pretrained.parsed_sentences()[1200:1500]
        chosen = [s for s in parsed if all(MINILM.encode(w)[1:-1] for w in s.words)][:260]
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
        self.states = {}
        for name, reader, model in (
            ("MiniLM", CHAPTER.read_minilm, MINILM.model),
            ("gpt", CHAPTER.read_gpt, LM.model),
        ):
            texts = [reader(s.words) for s in chosen]
            self.states[name] = CHAPTER.states_of(model, texts)
            self.states[f"{name}, untrained"] = CHAPTER.states_of(
                CHAPTER.untrained(model, seed=7), texts
            )
        longer = CHAPTER.untrained(LM.model, seed=7)
        longer.W_E.mul_(27)
        longer.W_P.mul_(27)
        self.states["gpt, untrained, longer"] = CHAPTER.states_of(longer, texts)
        self.control = probing.control_labels(self.types, self.tags[self.train], seed=5)

    @cache  # noqa: B019 - there is one corpus
    def right(self, name, labels="tags", **settings):
        """Whether probes of every layer are right, (N, P)."""
        X, y = self.states[name], getattr(self, labels)
        probe = probing.train_probe(X[self.train], y[self.train], self.K, **settings)
        return probing.is_right(probe, X, y).float()

    def selectivity(self, name, **settings):
        task, control = self.right(name, **settings), self.right(name, "control", **settings)
        return (task - control)[self.seen].mean(0)


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


@pytest.mark.claim(72)
def test_the_states_stand_at_the_words_that_the_labels_belong_to(corpus):
    """The piece under every state is a piece of its word."""
    words = ["the", "unwatchable", "film", "was", "unforgettable"]
    ids, places = CHAPTER.read_minilm(words)
    pieces = MINILM.tokenizer.tokens(ids)
    assert [pieces[int(k)] for k in places] == [
        MINILM.tokenizer.tokens(MINILM.encode(w))[1] for w in words
    ]
    ids, places = CHAPTER.read_gpt(words)
    assert [ids[int(k)] for k in places] == [LM.encode(f" {w}")[-1] for w in words]
    texts = [CHAPTER.read_gpt(words), CHAPTER.read_gpt(words[:3]), CHAPTER.read_gpt(words[::-1])]
    together = CHAPTER.states_of(LM.model, texts)
    alone = torch.cat([CHAPTER.states_of(LM.model, [text]) for text in texts])
    assert torch.allclose(together, alone, atol=1e-3)


def test_random_layers_hide_the_word_since_its_embedding_is_short(corpus):
    """As many random numbers, with longer embeddings: then the word can be told again."""
    short, longer = (
        corpus.right(f"gpt, untrained{kind}")[corpus.test].mean(0) for kind in ("", ", longer")
    )
    assert abs(short[0] - longer[0]) < 0.02
    assert short[1:].max() < 0.35 < short[0] - 0.1
    assert longer[1:].min() > short[1:].max() + 0.1


@pytest.mark.claim(72)
def test_probes_of_frozen_models_beat_a_table_and_untrained_states(corpus):
    before = {k: v.clone() for k, v in MINILM.model.state_dict().items()}
    found = {name: corpus.right(name) for name in corpus.states}
    assert all(torch.equal(v, before[k]) for k, v in MINILM.model.state_dict().items())
    accuracy = {name: right[corpus.test].mean(0) for name, right in found.items()}
    table = corpus.by_table[corpus.test].float().mean()
    assert accuracy["MiniLM"][2] > table + 0.05
    assert accuracy["gpt"][3] > table + 0.02
    for name in ("MiniLM", "gpt"):
        assert accuracy[f"{name}, untrained"].max() < table
    ambiguous = corpus.by_table[corpus.several].float().mean()
    assert found["MiniLM"][corpus.several].mean(0)[2] > ambiguous + 0.03
    assert found["MiniLM, untrained"][corpus.several].mean(0).max() < ambiguous


@pytest.mark.claim(73)
def test_selectivity_needs_training_and_grows_over_the_layers_of_minilm(corpus):
    found = {name: corpus.selectivity(name) for name in corpus.states}
    assert found["MiniLM"][6] > found["MiniLM"][0] + 0.1
    assert found["gpt"].min() > 0.12
    for name in ("MiniLM", "gpt"):
        assert found[f"{name}, untrained"].max() < 0.03


@pytest.mark.claim(73)
def test_a_larger_probe_adds_memory_and_not_accuracy(corpus):
    small, large = (corpus.selectivity("gpt", width=w, passes=12) for w in (0, 256))
    assert (large < small - 0.08).all()
    told = [corpus.right("gpt", width=w, passes=12) for w in (0, 256)]
    gain = (told[1] - told[0])[corpus.test].mean(0)
    assert gain.abs().max() < 0.04


@pytest.mark.claim(74)
@pytest.mark.parametrize("seed", [11, *(pytest.param(i, marks=pytest.mark.long) for i in (12, 13))])
def test_the_tags_are_sent_in_fewer_bits_than_random_labels(corpus, seed):
    X = torch.cat([corpus.states["gpt"][:, 2:3], corpus.states["gpt, untrained"][:, 2:3]], 1)
    X = X.repeat_interleave(2, 1)[corpus.train]
    labels = torch.stack([corpus.tags, corpus.control], 1)[corpus.train].repeat(1, 2)
    uniform = len(X) * torch.tensor(corpus.K).log2()
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    found = probing.online_code(X[order], labels[order], corpus.K, seed=seed).sum(0) / uniform
    task, control, blank_task, blank_control = found
    assert task < 0.3
    assert control > 2 * task
    assert blank_task > 2 * task
    assert (blank_control - blank_task).abs() < 0.1


# -- number ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def number():
    """The chapter's intervention with other halves of the nouns and other reviews."""
    ids = [[LM.encode(f" {word}") for word in pair] for pair in CHAPTER.nouns]
    ids_of = torch.tensor([[a[0], b[0]] for a, b in ids if len(a) == len(b) == 1])
    is_plural, pair = torch.full((2, 4096), -1)
    is_plural[ids_of] = torch.tensor([0, 1]).expand_as(ids_of)
    pair[ids_of] = torch.arange(len(ids_of))[:, None].expand_as(ids_of)
    dealt = torch.randperm(len(ids_of), generator=torch.Generator().manual_seed(4))
    learned, held_out = dealt[: len(dealt) // 2], dealt[len(dealt) // 2 :]
    SPACE["ids_of"], SPACE["plural_of"] = ids_of, is_plural
    splits = reviews("imdb")
    stream = token_stream(splits.train.texts[2000:2600], LM.tokenizer)
    found = CHAPTER.contexts(stream, torch.isin(pair[stream], learned).nonzero()[:, 0], 20)
    labels, states = is_plural[found[:, -1]], CHAPTER.of_noun(found)
    stream = token_stream(splits.train.texts[10_000:12_000], LM.tokenizer)
    verb = torch.isin(stream[1:], torch.tensor(CHAPTER.singular + CHAPTER.plurals))
    where = (torch.isin(pair[stream[:-1]], held_out) & verb).nonzero()[:, 0]
    ids = CHAPTER.contexts(stream, where, 9)
    SPACE["streams"] = CHAPTER.streams_of(ids)
    SPACE["usual"] = CHAPTER.log_odds(SPACE["streams"][0], 0)
    SPACE["sign"] = 1 - 2 * is_plural[ids[:, -1]]
    SPACE["apart"] = states[labels == 1].mean(0) - states[labels == 0].mean(0)
    SPACE["noun_states"] = states
    probe = probing.train_probe(states, labels, 2, passes=20)
    return CHAPTER.unit(SPACE["apart"]), CHAPTER.read_by(probe), ids, (states, labels, probe)


def test_contexts_end_with_the_noun_and_are_few_for_each(number):
    ids, nouns = number[2], SPACE["ids_of"].flatten()
    assert torch.isin(ids[:, -1], nouns).all()
    assert ids.shape[1] == 16
    assert ids[:, -1].bincount().max() <= 9


def test_the_direction_is_what_the_probe_reads(number):
    _, direction, _, (states, _, probe) = number
    step = 3.0
    moved = probe(states + step * direction) - probe(states)
    across = torch.randn_like(direction)
    across -= (across * direction).sum(-1, keepdim=True) * direction
    aside = probe(states + across) - probe(states)
    assert (moved[..., 1] - moved[..., 0]).min() > 0
    assert (aside[..., 1] - aside[..., 0]).abs().max() < 1e-3
    assert torch.allclose(direction.norm(dim=-1), torch.ones(5))


@pytest.mark.claim(75)
def test_a_push_along_number_moves_the_verb_more_than_any_random_one(number):
    mean, read, *_ = number
    agree = (SPACE["usual"] > 0) == (SPACE["sign"] < 0)
    assert agree.float().mean() > 0.9
    generator = torch.Generator().manual_seed(9)
    at_random = CHAPTER.unit(torch.randn(10, 128, generator=generator))
    for layer in (0, 2, 4):
        other = max(CHAPTER.effect(r, layer).mean().abs() for r in at_random)
        assert CHAPTER.effect(mean[layer], layer).mean() > max(3, 1.5 * other)
        assert CHAPTER.effect(read[layer], layer).mean() > max(2, 1.1 * other)
        assert CHAPTER.effect(mean[layer], layer, strength=0).abs().max() < 1e-3
        tense = CHAPTER.past, CHAPTER.present
        x, pushed = SPACE["streams"][layer], CHAPTER.pushed(mean[layer], layer)
        change = CHAPTER.log_odds(pushed, layer, *tense) - CHAPTER.log_odds(x, layer, *tense)
        assert change.abs().mean() < 1.5


@pytest.mark.claim(75)
def test_without_the_direction_part_of_the_agreement_is_gone(number):
    mean, read, *_ = number
    sign, usual = SPACE["sign"], SPACE["usual"]
    full = (usual[sign < 0].mean() - usual[sign > 0].mean()).item()
    random = CHAPTER.unit(torch.randn(5, 128, generator=torch.Generator().manual_seed(2)))
    for layer in (0, 2, 4):
        least = min(CHAPTER.gap_without(r, layer) for r in random) / full
        by_mean, by_probe = (CHAPTER.gap_without(d[layer], layer) / full for d in (mean, read))
        assert 0.1 < by_mean < by_probe < 0.85 < 0.93 < least
    held_out = number[2][:, -1].unique()
    the = torch.tensor([[LM.end, *LM.encode("The"), t] for t in held_out.tolist()])
    alone = CHAPTER.streams_of(the), 1 - 2 * SPACE["plural_of"][held_out]
    whole = CHAPTER.gap_without(torch.zeros(128), 0, alone)
    assert whole > 4
    for layer in (0, 2):  # the words around the noun hold a part of what remains
        share = CHAPTER.gap_without(mean[layer], layer, alone) / whole
        assert 0 < share < CHAPTER.gap_without(mean[layer], layer) / full


# -- this token and the next, and trajectories -------------------------------------------------


@pytest.mark.claim(87)
def test_the_next_token_is_told_better_at_the_top_and_only_with_training():
    stream = token_stream(reviews("imdb").train.texts[5000:5300], LM.tokenizer)
    rows = stream[: 65 * 450].view(450, 65)
    place = torch.full((4096,), -1)
    place[rows.flatten().bincount().topk(100).indices] = torch.arange(100)
    this, following = place[rows[:, :-1]], place[rows[:, 1:]]
    kept = (this >= 0) & (following >= 0)
    kept[:, :8] = False
    asked = [(row, k.nonzero()[:, 0]) for row, k in zip(rows[:, :-1].tolist(), kept, strict=True)]
    models = (LM.model, CHAPTER.untrained(LM.model, seed=3))
    X = torch.cat([CHAPTER.states_of(model, asked)[:, [0, 4]] for model in models], 1)
    learn, found = kept.nonzero()[:, 0] < 300, {}
    for name, labels in (("this", this[kept]), ("next", following[kept])):
        probe = probing.train_probe(X[learn], labels[learn], 100)
        found[name] = probing.is_right(probe, X[~learn], labels[~learn]).float().mean(0)
    bottom, top, blank_bottom, blank_top = found["next"]
    pairs = torch.zeros(100, 100)
    ones = torch.ones(int(learn.sum()))
    pairs.index_put_((this[kept][learn], following[kept][learn]), ones, accumulate=True)
    table = (pairs.argmax(1)[this[kept][~learn]] == following[kept][~learn]).float().mean()
    assert top > max(bottom, table) + 0.03
    assert blank_top < blank_bottom
    bottom, top, _, blank_top = found["this"]
    assert blank_top < 0.6 < 0.9 < top < bottom


@pytest.mark.claim(59)
def test_the_four_verbs_mix_in_the_upper_layers():
    texts = reviews("imdb").train.texts[3000:4500]
    chosen = [w for verb in CHAPTER.verbs for w in CHAPTER.around(verb, 30, texts)]
    which = torch.arange(4).repeat_interleave(30)
    assert [words[15] for words in chosen[::30]] == list(CHAPTER.verbs)
    SPACE["chosen"] = chosen
    X = CHAPTER.of_verbs(LM.model, CHAPTER.read_gpt)
    found = CHAPTER.same_neighbours(X, which).mean(0)
    assert found[1] > 0.95
    assert 0.4 < found[4] < found[1] - 0.15
    shuffled = which[torch.randperm(120, generator=torch.Generator().manual_seed(0))]
    assert (CHAPTER.same_neighbours(X, shuffled).mean(0) - 0.25).abs().max() < 0.08
    blank = CHAPTER.of_verbs(CHAPTER.untrained(LM.model, seed=2), CHAPTER.read_gpt)
    assert CHAPTER.same_neighbours(blank, which).mean(0)[4] < found[4]  # mixing needs no training


def test_neighbours_are_counted_without_the_point_itself():
    X = torch.tensor([[[0.0]], [[1.0]], [[10.0]], [[11.0]]])
    labels = torch.tensor([0, 0, 1, 0])
    assert CHAPTER.same_neighbours(X, labels, 1)[:, 0].tolist() == [1, 1, 0, 0]
    assert CHAPTER.same_neighbours(X, labels, 3)[:, 0] == pytest.approx([2 / 3, 2 / 3, 0, 2 / 3])
