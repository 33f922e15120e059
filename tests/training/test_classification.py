"""Training the classifiers: the data, the losses, and what a short training learns."""

import hashlib

import pytest
import torch
from devices import nothing_made_elsewhere
from torch.nn import functional as F

from attnlib.data import Split, reviews
from attnlib.models import AttentionClassifier
from attnlib.tokenizers import ReviewVocabulary, pad
from attnlib.tokenizers.words import PAD
from attnlib.training.classification import (
    Examples,
    classify_all,
    examples,
    impermissible_mask,
    indicative_words,
    predict,
    read,
    vocabulary,
    words_hash,
)
from recipes.classification import (
    accuracy,
    classification_loss,
    decoy_loss,
    fit_classifier,
    hiding_loss,
)

IDS = pad([[3, 4, 5, 6, 7], [8, 9], [10], [3, 4, 5]])


def opinions(count=240, seed=0):
    """Texts of five to nine words; the label says which of words 3 and 4 stands in it."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 20, (count, 9), generator=generator)
    lengths = torch.randint(5, 10, (count,), generator=generator)
    labels = torch.randint(2, (count,), generator=generator)
    places = (torch.rand(count, generator=generator) * lengths).long()
    ids[torch.arange(count), places] = 3 + labels
    mask = torch.arange(9) < lengths[:, None]
    return Examples(ids.masked_fill(~mask, PAD), mask, labels.float()), places


def trained(encoder="average", **options):
    """A classifier of 20 words after 15 times through 240 opinions, 112 steps."""
    torch.manual_seed(1)
    model = AttentionClassifier(20, 16, 12, encoder)
    data, _ = opinions()
    fit_classifier(model, data, epochs=15, lr=1e-2, progress=False, **options)
    return model


@pytest.fixture(scope="module")
def average():
    """`trained` with states that know one word each, and the texts that it was trained on."""
    return trained("average"), *opinions()


@pytest.fixture(scope="module")
def lstm():
    """The same with an LSTM."""
    return trained("lstm"), *opinions()


def test_a_classifier_learns_where_to_look(average):
    model, data, places = average
    assert accuracy(model, opinions(seed=1)[0]) > 0.98
    reading = classify_all(model, data, batch_size=50)
    assert (reading.attention.argmax(-1) == places).float().mean() > 0.9


def test_classifying_in_batches_equals_reading_at_once(lstm):
    model, data, _ = lstm
    at_once = model.classify(data.ids, data.mask)
    with nothing_made_elsewhere():
        in_parts = classify_all(model, data, batch_size=7)
    torch.testing.assert_close(in_parts.logits, at_once.logits)
    torch.testing.assert_close(in_parts.attention, at_once.attention)
    torch.testing.assert_close(in_parts.states, at_once.states)
    right = ((at_once.probability > 0.5) == (data.labels > 0.5)).float().mean()
    assert accuracy(model, data, batch_size=7) == pytest.approx(float(right))
    torch.testing.assert_close(predict(model)(data.ids, data.mask), at_once.probability)


def test_frozen_weights_guide_a_network_without_attention():
    data, places = opinions()
    good = F.one_hot(places, 9).float()
    bad = data.mask.float() - good
    results = []
    for weights in (good, bad / bad.sum(1, keepdim=True)):
        torch.manual_seed(1)
        model = AttentionClassifier(20, 16, 12, "average", "given")
        fit_classifier(model, data, 5, extra=(weights,), lr=1e-2, progress=False)
        results.append(accuracy(model, data, weights))
    assert results[0] > 0.98 > 0.75 > results[1]
    with pytest.raises(ValueError, match="extra="):
        fit_classifier(model, data, 1, progress=False)


def test_a_source_is_read_in_its_own_words_and_cut():
    words, parts = read("rotten_tomatoes", max_len=7, count=50)
    whole = reviews("rotten_tomatoes")
    assert words is vocabulary("rotten_tomatoes")
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 50,
        "validation": len(whole.validation),
        "test": len(whole.test),
    }
    for name, part in parts.items():
        expected = examples(getattr(whole, name), words, 7)
        assert part.ids.shape[1] == 7
        assert torch.equal(part.ids, expected.ids[: len(part)])
        assert torch.equal(part.labels, expected.labels[: len(part)])
    assert len(read("rotten_tomatoes")[1]["train"]) == len(whole.train)


def test_the_losses_are_those_of_the_formulas():
    model = AttentionClassifier(20, 8, 6)
    labels = torch.tensor([1.0, 0, 1, 0])
    reading = model.classify(IDS)
    p = torch.where(labels > 0, reading.probability, 1 - reading.probability)
    ids = F.pad(IDS, (0, 2))  # columns of padding are cut off first
    cross_entropy = -p.log().mean()
    torch.testing.assert_close(classification_loss(model, (ids, labels)), cross_entropy)
    y = torch.tensor([0.1, 0.5, 0.5, 0.9])
    base = F.pad((IDS != PAD) / (IDS != PAD).sum(1, keepdim=True), (0, 2))
    kl = sum(
        F.kl_div(base[i, :n].log(), reading.attention[i, :n], reduction="sum")
        for i, n in enumerate((IDS != PAD).sum(1))
    )
    expected = (reading.probability - y).abs().mean() - 0.3 * kl / 4
    torch.testing.assert_close(decoy_loss(0.3, model, (ids, labels, y, base)), expected)
    nowhere = torch.zeros_like(base)  # a weight of 0 counts as 1e-12
    kl = (reading.attention * (reading.attention / 1e-12).clamp_min(1e-30).log()).sum(-1)
    expected = (reading.probability - y).abs().mean() - 0.3 * kl.mean()
    torch.testing.assert_close(decoy_loss(0.3, model, (ids, labels, y, nowhere)), expected)
    hidden = ids == 4
    mass = torch.stack([reading.attention[0, 1], *torch.zeros(2), reading.attention[3, 1]])
    expected = cross_entropy - 0.7 * (1 - mass).log().mean()
    torch.testing.assert_close(hiding_loss(0.7, model, (ids, labels, hidden)), expected)


def test_settings_reach_the_loop():
    """The number of steps and the warm-up follow from the epochs; the rest is handed on."""
    data = opinions(count=50)[0]

    def run(**settings):
        torch.manual_seed(1)
        model = AttentionClassifier(20, 4, 3, "average")
        return fit_classifier(model, data, progress=False, **settings)

    history = run(epochs=2, batch_size=8)
    expected = {"steps": 12, "lr": 1e-3, "warmup": 1, "schedule": "cosine", "clip": 1.0}
    assert history.settings == expected | {"weight_decay": 1e-2, "seed": 0}
    assert history.tokens == 9 * (50 + 5 * 8)  # seven batches are an epoch, the last is of two
    given = {"lr": 0.2, "weight_decay": 0.5, "clip": 3.0, "schedule": "constant", "warmup": 2}
    assert run(epochs=0.1, seed=4, **given).settings == {"steps": 1, "seed": 4} | given
    assert run(epochs=1e-9).steps == 1
    assert run(epochs=80, batch_size=8).settings["warmup"] == 50


def test_examples_leave_out_texts_without_words():
    split = Split(("a b", " ", "b"), (1, 1, 0))
    data = examples(split, ReviewVocabulary.most_frequent(["a b"], min_count=1))
    assert data.labels.tolist() == [1, 0]
    assert data.ids.tolist() == [[3, 4], [4, 0]]
    assert data.take(torch.tensor([1])).ids.tolist() == [[4]]


@pytest.mark.claim(31)
def test_indicative_words_are_those_of_one_label():
    """Word 3 only in positive texts, 4 only in negative ones, 5 in both, 6 once."""
    rows = [[3, 5, 5], [3, 5], [4, 5], [4, 5], [4, 5], [6, 3, 5]]
    ids = pad([*rows, *rows])
    data = Examples(ids, ids > 0, torch.tensor([1.0, 1, 0, 0, 0, 1] * 2))
    with nothing_made_elsewhere():
        words, marked = indicative_words(data, 3).tolist(), impermissible_mask(data, data, 2)
    assert set(words[:2]) == {3, 4}
    assert words[2] == 6
    assert torch.equal(marked, (ids == 3) | (ids == 4))
    assert not impermissible_mask(data, data, 10)[ids == PAD].any(), "padding tells nothing"


def test_the_hash_of_the_words_depends_on_words_and_order():
    assert words_hash(ReviewVocabulary(("a", "b"))) == hashlib.sha256(b"a\nb").hexdigest()
    assert words_hash(ReviewVocabulary(("b", "a"))) != words_hash(ReviewVocabulary(("a", "b")))
    assert words_hash(ReviewVocabulary(("a", "bc"))) != words_hash(ReviewVocabulary(("ab", "c")))
