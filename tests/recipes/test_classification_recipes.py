"""The recipes of the classifiers, on a few reviews."""

import dataclasses

import pytest
import torch
from few import few_of
from torch.nn import functional as F

from attnlib import pretrained
from attnlib.pretrained import checkpoints, classifier
from attnlib.training import classification as training
from attnlib.training.classification import examples, vocabulary
from recipes import classification
from recipes.__main__ import main
from recipes.classification import CLASSIFIERS, MAX_LEN, accuracy

SHIPPED = {name: pretrained.card(name) for name in CLASSIFIERS}
SHIPPED_RESULT = pretrained.card("guided")


@pytest.fixture
def few_reviews(monkeypatch, tmp_path):
    """60 training and 20 test texts of each source, and checkpoints in an empty folder."""
    few = {source: few_of(source, 300, 60, 20, 20) for source in ("rotten_tomatoes", "imdb")}
    for source in few:
        vocabulary(source)  # the words are those of the whole source
    monkeypatch.setattr(training, "reviews", few.get)
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    return few, tmp_path


def run(name, folder, steps="3"):
    main([name, "--steps", steps, "--folder", str(folder)])


@pytest.mark.ci
# every model and every task once, and of the other source one model
@pytest.mark.parametrize(
    "name", [*(n for n in CLASSIFIERS if n.startswith("rt") and not n[-1].isdigit()), "imdb-lstm"]
)
def test_a_recipe_writes_a_classifier_that_loads(name, few_reviews):
    few, folder = few_reviews
    if CLASSIFIERS[name].base:
        run(CLASSIFIERS[name].base, folder)
    run(name, folder)
    card, recipe = pretrained.card(name), CLASSIFIERS[name]
    found = classifier(name)
    model, words = found.model, found.tokenizer
    assert card.keys() == SHIPPED[name].keys()
    assert card["steps"] == 3
    assert card["seed"] == recipe.seed
    assert card["task"]["name"] == recipe.task
    assert card["command"] == f"python -m recipes {name}"
    assert card["config"] == {"vocab_size": len(words), **recipe.config}
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    assert words is vocabulary(recipe.source)
    assert not model.training
    data = examples(few[recipe.source].test, words, MAX_LEN[recipe.source])
    with torch.no_grad():
        p = model(data.ids, data.mask).sigmoid()
    nats = F.binary_cross_entropy(p, data.labels).item()
    assert nats == pytest.approx(card["loss"]["nats_per_text"], abs=2e-3)
    assert accuracy(model, data) == pytest.approx(card["accuracy"], abs=0.051)  # one text of 20


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
        real = getattr(classification, loss)
        monkeypatch.setattr(
            classification, loss, lambda *a, real=real, loss=loss: used.append(loss) or real(*a)
        )
    run("rt-lstm-decoy", tmp_path, "1")
    run("rt-lstm-hiding", tmp_path, "1")
    run("rt-lstm-dot", tmp_path, "1")
    assert used == ["decoy_loss", "hiding_loss"]
    wrong = dataclasses.replace(CLASSIFIERS["rt-lstm"], task="guess")
    monkeypatch.setitem(CLASSIFIERS, "rt-lstm", wrong)
    with pytest.raises(ValueError, match="task must be one of"):
        run("rt-lstm", tmp_path, "1")


@pytest.mark.ci
def test_guided_networks_are_trained_for_every_row_and_seed(few_reviews, tmp_path, monkeypatch):
    """And they use the weights that they are given, in training and in the test."""
    few, folder = few_reviews
    for source, (base, _, count, others) in classification.GUIDED.items():
        for end in ("", "-decoy", *(f"-{n}" for n in others)):
            run(base + end, folder)
        monkeypatch.setitem(classification.GUIDED, source, (base, 2, count, others))
    used = []
    real = classification.accuracy

    def accuracy(model, data, weights=None):
        used.append((model.attention_kind, weights))
        return real(model, data, weights)

    monkeypatch.setattr(classification, "accuracy", accuracy)
    run("guided", folder, "1")
    card = pretrained.card("guided")
    shipped = SHIPPED_RESULT
    assert card.keys() == shipped.keys()
    assert card["command"] == "python -m recipes guided"
    for source, rows in card["accuracy"].items():
        assert rows.keys() == shipped["accuracy"][source].keys()
        assert {len(values) for values in rows.values()} == {2}
    assert [kind for kind, _ in used[:18]] == ["given"] * 16 + ["additive"] * 2
    data = examples(few["rotten_tomatoes"].test, vocabulary("rotten_tomatoes"))
    given = dict(zip(card["accuracy"]["rotten_tomatoes"], used[1:18:2], strict=True))
    for row, end in (("BiLSTM", ""), ("BiLSTM 4", "-4"), ("decoy", "-decoy")):
        found = training.classify_all(classifier("rt-lstm" + end).model, data).attention
        torch.testing.assert_close(given[row][1], found)
    own, mixed = given["BiLSTM"][1], given["shuffled"][1]
    torch.testing.assert_close(mixed.sort(1).values, own.sort(1).values)
    assert (mixed != own).any(1).float().mean() > 0.5
    assert (mixed[~data.mask] == 0).all()


def test_a_decoy_without_its_base_says_so(few_reviews, tmp_path):
    with pytest.raises(ValueError, match="no checkpoint 'rt-lstm'"):
        run("rt-lstm-decoy", tmp_path)


def test_an_interrupted_recipe_writes_nothing(few_reviews, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(classification, "classification_loss", stop)
    with pytest.raises(SystemExit, match=r"stopped at step 0; no checkpoint .* starts anew"):
        run("rt-lstm", tmp_path)
    assert not list(tmp_path.glob("rt-lstm*"))
