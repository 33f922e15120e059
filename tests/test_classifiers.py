"""Words, classifiers with attention, and their training."""

import dataclasses
import hashlib
import itertools
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from attnlib import classifier_recipes, pretrained, recipes
from attnlib.classifier_recipes import CLASSIFIERS, load_classifier, words_hash
from attnlib.classifiers import AttentionClassifier, TransformerClassifier
from attnlib.classify import (
    MAX_LEN,
    Examples,
    accuracy,
    classification_loss,
    decoy_loss,
    examples,
    fit_classifier,
    hiding_loss,
    is_telling,
    predict,
    read_all,
    telling_words,
    vocabulary,
)
from attnlib.data import Reviews, Split, reviews
from attnlib.words import CLS, PAD, UNK, WordVocabulary, split_words

SETTINGS = list(itertools.product(("lstm", "average", "cnn"), ("additive", "dot", "uniform")))


def classifier(encoder="lstm", attention="additive", **options):
    torch.manual_seed(0)
    return AttentionClassifier(20, 8, 6, encoder, attention, **options).double().eval()


def padded(*rows):
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    return ids


IDS = padded([3, 4, 5, 6, 7], [8, 9], [10], [3, 4, 5])


# --- words ------------------------------------------------------------------------------------


@given(st.text(max_size=40))
def test_words_lose_nothing_but_space_and_case(text):
    assert "".join(split_words(text)) == "".join(text.lower().split())


def test_a_vocabulary_is_ordered_by_count_then_alphabet():
    vocabulary = WordVocabulary.of(["b a c", "b a", "b d d"], min_count=1)
    assert vocabulary.words[3:] == ("b", "a", "d", "c")
    assert WordVocabulary.of(["b a c", "b a"], min_count=2).words[3:] == ("a", "b")
    assert len(WordVocabulary.of(["b a c"], min_count=1, max_size=5)) == 5
    assert vocabulary.words[CLS] == "[CLS]"


def test_unknown_words_long_texts_and_padding():
    vocabulary = WordVocabulary.of(["a b"], min_count=1)
    assert vocabulary.encode("A nightingale B") == [3, UNK, 4]
    assert vocabulary.encode("a b a b", max_len=3) == [3, 4, 3]
    ids, mask = vocabulary.batch(["a", "b a"])
    assert ids.tolist() == [[3, PAD], [4, 3]]
    assert mask.tolist() == [[True, False], [True, True]]
    assert vocabulary.decode(ids[0]) == ("a",)


# --- the classifier ---------------------------------------------------------------------------


@pytest.mark.parametrize(("encoder", "attention"), SETTINGS)
def test_weights_are_a_distribution_over_the_real_tokens(encoder, attention):
    found = classifier(encoder, attention).read(IDS)
    torch.testing.assert_close(found.attention.sum(-1), torch.ones(4, dtype=torch.float64))
    assert (found.attention[IDS == PAD] == 0).all()
    assert found.states.shape == (4, 5, 12 if encoder == "lstm" else 6)
    assert ((found.probability > 0) & (found.probability < 1)).all()


@pytest.mark.parametrize(("encoder", "attention"), SETTINGS)
def test_padding_changes_nothing(encoder, attention):
    model = classifier(encoder, attention)
    together = model.read(F.pad(IDS, (0, 3)))
    for i, length in enumerate((IDS != PAD).sum(1).tolist()):
        alone = model.read(IDS[i : i + 1, :length])
        torch.testing.assert_close(together.logits[i : i + 1], alone.logits)
        torch.testing.assert_close(together.attention[i, :length], alone.attention[0])


@pytest.mark.parametrize("encoder", ["lstm", "average", "cnn"])
def test_the_logit_is_the_weighted_sum_of_states_classified(encoder):
    model = classifier(encoder)
    found = model.read(IDS)
    context = torch.einsum("bt,btd->bd", found.attention, found.states)
    expected = (context @ model.output.weight.T + model.output.bias).squeeze(-1)
    torch.testing.assert_close(found.logits, expected)
    torch.testing.assert_close(model.predict_from(found.attention, found.states), expected)
    torch.testing.assert_close(model.predictor(found.states)(found.attention), found.probability)
    many = found.attention.expand(7, 4, 5)
    assert model.predict_from(many, found.states).shape == (7, 4)


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_the_scores_are_those_of_the_formula(attention):
    model = classifier("average", attention)
    states = model.read(IDS[:1]).states[0]
    if attention == "additive":
        scores = torch.tanh(states @ model.align.weight.T + model.align.bias) @ model.v
    else:
        scores = torch.stack([h @ model.q for h in states]) / states.shape[-1] ** 0.5
    torch.testing.assert_close(model.read(IDS[:1]).attention[0], scores.softmax(0))


def test_how_far_each_encoder_sees():
    moved = {}
    for encoder in ("lstm", "average", "cnn"):
        model = classifier(encoder, kernel=3)
        other = IDS[:1].clone()
        other[0, 0] = 19
        moved[encoder] = (model.read(IDS[:1]).states != model.read(other).states).any(-1)[0]
    assert moved["average"].tolist() == [True, False, False, False, False]
    assert moved["cnn"].tolist() == [True, True, False, False, False]
    assert moved["lstm"].all()


def test_given_weights_replace_the_models_own():
    model = classifier()
    weights = (IDS != PAD) / (IDS != PAD).sum(1, keepdim=True)
    uniform = classifier(attention="uniform")
    uniform.load_state_dict(model.state_dict(), strict=False)
    assert torch.equal(model.read(IDS, weights=weights).attention, weights)
    torch.testing.assert_close(model(IDS, weights=weights.double()), uniform(IDS))
    frozen = classifier("average", "given")
    assert frozen(IDS, weights=weights).shape == (4,)
    with pytest.raises(ValueError, match="pass weights"):
        frozen(IDS)


def test_detached_attention_has_no_gradient_of_its_own():
    model = classifier("average")
    x = model.embed(IDS[:1]).detach().requires_grad_()
    mask = IDS[:1] != PAD
    free = torch.autograd.grad(model.scorer(mask)(x).sum(), x)[0]
    cut = torch.autograd.grad(model.scorer(mask, detach=True)(x).sum(), x)[0]
    alpha = model.read(IDS[:1]).attention.detach()
    fixed = torch.autograd.grad(model.scorer(mask, weights=alpha)(x).sum(), x)[0]
    torch.testing.assert_close(cut, fixed)
    assert not torch.allclose(cut, free)


def test_an_empty_text_gives_the_bias():
    for encoder in ("lstm", "average", "cnn"):
        model = classifier(encoder)
        torch.testing.assert_close(model(torch.zeros(1, 3, dtype=torch.int64)), model.output.bias)


def test_the_trace_has_one_destination():
    model = classifier()
    trace = model.trace(IDS[0], list("abcde"))
    assert trace.tokens == ("prediction",)
    assert trace.sources == tuple("abcde")
    assert trace.attention.shape == (1, 1, 1, 5)
    torch.testing.assert_close(trace.attention[0, 0, 0].double(), model.read(IDS).attention[0],
                               atol=1e-6, rtol=0)  # fmt: skip
    torch.testing.assert_close(trace.logits[0], model(IDS)[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "rnn"}, "encoder must be one of"),
        ({"attention": "sparse"}, "attention must be one of"),
        ({"kernel": 4}, "odd"),
    ],
)
def test_wrong_settings_say_what_there_is(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionClassifier(20, **options)


def test_padding_in_front_is_refused():
    with pytest.raises(ValueError, match="only at the end"):
        classifier()(torch.tensor([[0, 3, 4]]))


def test_a_transformer_classifies_from_its_first_token():
    torch.manual_seed(0)
    model = TransformerClassifier(20, 16, layers=2, heads=2, d_ff=32, max_len=8).eval()
    maps = model.maps(IDS)
    assert maps.shape == (4, 2, 2, 6, 6)
    torch.testing.assert_close(maps.sum(-1), torch.ones(4, 2, 2, 6))
    assert (maps[1, :, :, :, 3:] == 0).all(), "padding is looked at"
    trace = model.trace(IDS[1, :2], ["good", "film"])
    assert trace.tokens == ("[CLS]", "good", "film")
    torch.testing.assert_close(trace.attention, maps[1, :, :, :3, :3])
    torch.testing.assert_close(trace.logits[0], model(IDS)[1:2])
    x, mask = model.embed(IDS), IDS != PAD
    torch.testing.assert_close(model.scorer(mask)(x), model(IDS).sigmoid())


# --- training ---------------------------------------------------------------------------------


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
    torch.manual_seed(1)
    model = AttentionClassifier(20, 16, 12, encoder)
    data, _ = opinions()
    fit_classifier(model, data, epochs=15, lr=1e-2, progress=False, **options)
    return model


@pytest.fixture(scope="module")
def average():
    return trained("average"), *opinions()


@pytest.fixture(scope="module")
def lstm():
    return trained("lstm"), *opinions()


def test_a_classifier_learns_where_to_look(average):
    model, data, places = average
    assert accuracy(model, opinions(seed=1)[0]) > 0.98
    found = read_all(model, data, batch_size=50)
    assert (found.attention.argmax(-1) == places).float().mean() > 0.9


def test_reading_in_batches_equals_reading_at_once(lstm):
    model, data, _ = lstm
    at_once = model.read(data.ids, data.mask)
    in_parts = read_all(model, data, batch_size=7)
    torch.testing.assert_close(in_parts.logits, at_once.logits)
    torch.testing.assert_close(in_parts.attention, at_once.attention)
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


@pytest.mark.claim(31)
def test_a_decoy_predicts_the_same_and_looks_elsewhere(lstm):
    base, data, _ = lstm
    found = read_all(base, data)
    extra = (found.probability, found.attention)
    model = trained("lstm", extra=extra, loss=decoy_loss(0.02))
    decoy = read_all(model, data)
    assert (decoy.probability - found.probability).abs().mean() < 0.05
    difference = (decoy.attention - found.attention).abs().sum(-1) / 2
    assert difference.mean() > 0.5


@pytest.mark.claim(31)
def test_attention_hides_the_words_it_uses(lstm):
    honest, data, places = lstm
    hidden = F.one_hot(places, 9).bool()
    model = trained("lstm", extra=(hidden,), loss=hiding_loss(1.0))
    seen = (read_all(model, data).attention * hidden).sum(-1).mean()
    assert seen < 0.05 < (read_all(honest, data).attention * hidden).sum(-1).mean()
    assert accuracy(model, data) > 0.95


def test_the_losses_are_those_of_the_formulas():
    model = AttentionClassifier(20, 8, 6)
    labels = torch.tensor([1.0, 0, 1, 0])
    found = model.read(IDS)
    p = torch.where(labels > 0, found.probability, 1 - found.probability)
    ids = F.pad(IDS, (0, 2))  # columns of padding are cut off first
    cross_entropy = -p.log().mean()
    torch.testing.assert_close(classification_loss(model, (ids, labels)), cross_entropy)
    y = torch.tensor([0.1, 0.5, 0.5, 0.9])
    base = F.pad((IDS != PAD) / (IDS != PAD).sum(1, keepdim=True), (0, 2))
    kl = sum(F.kl_div(base[i, :n].log(), found.attention[i, :n], reduction="sum")
             for i, n in enumerate((IDS != PAD).sum(1)))  # fmt: skip
    expected = (found.probability - y).abs().mean() - 0.3 * kl / 4
    torch.testing.assert_close(decoy_loss(0.3)(model, (ids, labels, y, base)), expected)
    hidden = ids == 4
    mass = torch.stack([found.attention[0, 1], *torch.zeros(2), found.attention[3, 1]])
    expected = cross_entropy - 0.7 * (1 - mass).log().mean()
    torch.testing.assert_close(hiding_loss(0.7)(model, (ids, labels, hidden)), expected)


def test_examples_leave_out_texts_without_words():
    split = Split(("a b", " ", "b"), (1, 1, 0))
    found = examples(split, WordVocabulary.of(["a b"], min_count=1))
    assert found.labels.tolist() == [1, 0]
    assert found.ids.tolist() == [[3, 4], [4, 0]]
    assert found.take(torch.tensor([1])).ids.tolist() == [[4]]


@pytest.mark.claim(31)
def test_telling_words_are_those_of_one_label():
    """Word 3 only in positive texts, 4 only in negative ones, 5 in both, 6 once."""
    rows = [[3, 5, 5], [3, 5], [4, 5], [4, 5], [4, 5], [6, 3, 5]]
    ids = padded(*rows, *rows)
    data = Examples(ids, ids > 0, torch.tensor([1.0, 1, 0, 0, 0, 1] * 2))
    assert set(telling_words(data, 2).tolist()) == {3, 4}
    assert telling_words(data, 3).tolist()[2] == 6
    expected = (ids == 3) | (ids == 4)
    assert torch.equal(is_telling(data, data, 2), expected)
    assert not is_telling(data, data, 10)[ids == PAD].any(), "padding tells nothing"


# --- recipes ----------------------------------------------------------------------------------


@pytest.fixture
def few_reviews(monkeypatch, tmp_path):
    """The recipes on 60 training texts and 20 test texts, and checkpoints in a folder of ours."""
    few = {}
    for source in ("rotten_tomatoes", "imdb"):
        whole = reviews(source)
        parts = (whole.train, 60), (whole.validation, 20), (whole.test, 20)
        cut = (Split(tuple(t[:300] for t in p.texts[:n]), p.labels[:n]) for p, n in parts)
        few[source] = Reviews(*cut)
    monkeypatch.setattr(classifier_recipes, "reviews", few.get)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    return few, tmp_path


def run(name, folder, steps="3"):
    recipes.main([name, "--steps", steps, "--folder", str(folder)])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_recipe_writes_a_classifier_that_loads(name, few_reviews):
    few, folder = few_reviews
    if CLASSIFIERS[name].base:
        run(CLASSIFIERS[name].base, folder)
    run(name, folder)
    card, recipe = pretrained.card(name), CLASSIFIERS[name]
    model, words = load_classifier(name)
    assert card["steps"] == 3
    assert card["seed"] == recipe.seed
    assert card["task"]["name"] == recipe.task
    assert card["command"] == f"python -m attnlib.training {name}"
    assert card["config"] == {"vocab_size": len(words), **recipe.config}
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    assert words is vocabulary(recipe.source)
    assert not model.training
    data = examples(few[recipe.source].test, words, MAX_LEN[recipe.source])
    with torch.no_grad():
        p = model(data.ids, data.mask).sigmoid()
    nats = F.binary_cross_entropy(p, data.labels).item()
    assert nats == pytest.approx(card["loss"]["nats_per_text"], abs=2e-3)
    assert accuracy(model, data) == pytest.approx(card["accuracy"], abs=0.051)


def test_a_recipe_repeats_itself_and_its_seed_matters(few_reviews, tmp_path):
    for name, folder in (("rt-lstm", "a"), ("rt-lstm", "b"), ("rt-lstm-2", "c")):
        run(name, tmp_path / folder)
    a, b, c = (
        (tmp_path / folder / f"{name}.safetensors").read_bytes()
        for folder, name in (("a", "rt-lstm"), ("b", "rt-lstm"), ("c", "rt-lstm-2"))
    )
    assert a == b != c


def test_the_tasks_train_with_their_own_losses(few_reviews, tmp_path, monkeypatch):
    run("rt-lstm", tmp_path)
    used = []
    for loss in ("decoy_loss", "hiding_loss"):
        real = getattr(classifier_recipes, loss)
        monkeypatch.setattr(
            classifier_recipes, loss, lambda s, real=real, loss=loss: used.append(loss) or real(s)
        )
    run("rt-lstm-decoy", tmp_path, "1")
    run("rt-lstm-hiding", tmp_path, "1")
    run("rt-lstm-dot", tmp_path, "1")
    assert used == ["decoy_loss", "hiding_loss"]
    wrong = dataclasses.replace(CLASSIFIERS["rt-lstm"], task="guess")
    monkeypatch.setitem(CLASSIFIERS, "rt-lstm", wrong)
    with pytest.raises(ValueError, match="task must be one of"):
        run("rt-lstm", tmp_path, "1")


def test_a_decoy_without_its_base_says_so(few_reviews, tmp_path):
    with pytest.raises(ValueError, match="no checkpoint 'rt-lstm'"):
        run("rt-lstm-decoy", tmp_path)


def test_other_words_are_refused(few_reviews, tmp_path, monkeypatch):
    run("rt-lstm", tmp_path)
    other = WordVocabulary.of(["a film"], min_count=1)
    monkeypatch.setattr(classifier_recipes, "vocabulary", lambda source: other)
    with pytest.raises(RuntimeError, match="rebuild it with python -m attnlib.training rt-lstm"):
        load_classifier("rt-lstm")
    about = json.loads((tmp_path / "rt-lstm.json").read_text())
    del about["words"]
    (tmp_path / "rt-lstm.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="reads no words"):
        load_classifier("rt-lstm")


def test_the_hash_of_the_words_depends_on_words_and_order():
    assert words_hash(WordVocabulary(("a", "b"))) == hashlib.sha256(b"a\nb").hexdigest()
    assert words_hash(WordVocabulary(("b", "a"))) != words_hash(WordVocabulary(("a", "b")))
    assert words_hash(WordVocabulary(("a", "bc"))) != words_hash(WordVocabulary(("ab", "c")))


def test_an_interrupted_recipe_writes_nothing(few_reviews, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(classifier_recipes, "classification_loss", stop)
    with pytest.raises(SystemExit, match="stopped at step 0"):
        run("rt-lstm", tmp_path)
    assert not list(tmp_path.glob("rt-lstm*"))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_stored_classifier_is_the_one_of_its_recipe(name):
    card, recipe = pretrained.card(name), CLASSIFIERS[name]
    model, words = load_classifier(name)  # checks both hashes
    assert card["config"] == {"vocab_size": len(words), **recipe.config}
    assert card["epochs"] == recipe.epochs
    assert card["optimizer"]["lr"] == recipe.lr
    assert card["task"] == {"name": recipe.task, "strength": recipe.strength, "base": recipe.base}
    data = examples(reviews(recipe.source).test, words, MAX_LEN[recipe.source])
    data = data.take(slice(0, 300))
    assert accuracy(model, data) == pytest.approx(card["accuracy"], abs=0.08)
