"""The recipes of the translators, small: what they read, what they write, and what is measured."""

import pytest
import torch

from attnlib.data import spell
from attnlib.decoding import translate
from attnlib.models.seq2seq import translation_loss
from attnlib.pretrained import checkpoints
from attnlib.tokenizers.words import BOS
from recipes import pruning, translation
from recipes.__main__ import main
from recipes.gates import p_open


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Few numbers, two tiny translators, and an empty folder."""
    monkeypatch.setattr(translation, "DRAWN", 60)
    monkeypatch.setattr(translation, "TESTED", 4)
    tiny = {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 8}
    monkeypatch.setattr(translation, "SETTINGS", translation.SETTINGS | tiny)
    monkeypatch.setattr(translation, "TRANSLATORS", {"translator": 0, "translator-2": 1})
    monkeypatch.setattr(pruning, "RANKED", 1)
    monkeypatch.setattr(pruning, "JUDGED", 2)
    monkeypatch.setattr(translation, "STEPS", 2)
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    # a word that training has not seen could not be encoded
    most = [n for n in translation.numbers(60, 0) if len(spell(n)) > 3]
    usual = translation.numbers
    for recipe in (translation, pruning):
        monkeypatch.setattr(
            recipe, "numbers", lambda c, *a, tested=False, **k: most[:c] if tested else usual(c, 0)
        )
    translation.training.cache_clear()
    yield tmp_path
    translation.training.cache_clear()


@pytest.mark.claim(57)
def test_no_number_is_both_trained_on_and_tested():
    trained = translation.numbers(300, 0)
    tested = translation.numbers(60, 1, tested=True)
    longer = translation.numbers(20, 1, translation.LONG, tested=True)
    assert len(set(trained)) == 300
    assert not {*trained} & {*tested, *longer}
    assert {len(spell(n)) for n in trained} <= {*range(1, 10)}
    assert {len(spell(n)) for n in longer} <= {*range(10, 15)}
    assert max(trained) < 10**9
    assert translation.numbers(300, 0) == trained


def test_the_first_word_says_the_language():
    sources, targets = translation.sentences([21])
    assert sources == [("de", "twenty", "one"), ("fr", "twenty", "one")]
    assert targets == [("ein", "und", "zwanzig"), ("vingt", "et", "un")]


@pytest.mark.ci
def test_the_recipes_one_after_the_other(small):
    main(["translator", "translator-2", "--steps", "2", "--folder", str(small)])
    card = checkpoints.card("translator")
    assert card["kind"] == "Translator"
    assert len(translation.vocabularies().source) == card["config"]["source_size"]
    later = ("translator-heads", "translator-gates", "translator-pruned")
    main([*later, "--steps", "2", "--folder", str(small)])
    heads, gates, pruned = (checkpoints.card(name) for name in later)
    for model in heads["models"]:
        assert torch.tensor(model["damage"]).shape == (3, 2)
        assert len(model["scores"]) == 7
        for order in model["orders"].values():
            assert sorted(order) == list(range(6))
        assert {len(curve) for curve in model["curves"].values()} == {7}
        ends = {tuple(map(tuple, (curve[0], curve[-1]))) for curve in model["curves"].values()}
        assert len(ends) == 1  # all orders begin with all heads and end with none
    assert len(gates["runs"]) == 2 * len(pruning.LAMBDAS)
    assert len(pruned["runs"]) == 2
    assert "from scratch" in pruned["runs"][0]["found"]


def test_one_pass_tells_what_greedy_translation_would_write(small):
    main(["translator", "--steps", "20", "--folder", str(small)])
    model, (_, (source, _)) = checkpoints.load("translator"), pruning.measuring_rows()
    written = translate(model, source, longest=6)
    target = torch.cat([torch.full((len(source), 1), BOS), written], 1)
    assert pruning.quality(model, (source, target))[1] == 1
    target[0, 2] = target[0, 2] % 10 + 5  # another word
    share = pruning.quality(model, (source, target))[1]
    assert share == pytest.approx(1 - 1 / len(source), abs=1e-4)


def test_the_loss_with_gates_weighs_how_many_are_open(small):
    _, (source, target) = translation.training()
    model, batch = pruning.Gated(translation.build(0)), (source[:4], target[:4])
    plain, half, whole = (pruning.penalised_loss(s, model.eval(), batch) for s in (0.0, 0.5, 1.0))
    torch.testing.assert_close(plain, translation_loss(model, batch))
    torch.testing.assert_close(half - plain, p_open(model.log_a).sum() / 2)
    torch.testing.assert_close(whole - half, half - plain)


def test_one_by_one_begins_with_the_head_that_is_missed_least(small):
    main(["translator", "--steps", "20", "--folder", str(small)])
    model, rows = checkpoints.load("translator"), pruning.measuring_rows()[1]
    order = pruning.one_by_one(model, rows)
    losses = []
    for head in range(6):
        gates = torch.ones(6)
        gates[head] = 0
        losses.append(pruning.quality(model, rows, gates.reshape(3, 2))[0])
    assert losses[order[0]] == min(losses)
    missed = torch.tensor(losses) - pruning.quality(model, rows)[0]
    torch.testing.assert_close(pruning.damages(model, rows), missed.reshape(3, 2))
