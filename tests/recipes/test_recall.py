"""The recall task trained long: the task, the recipe, and what the stored result says."""

import json

import pytest
import torch

from attnlib import pretrained
from recipes import recall
from recipes.__main__ import main


def test_the_answer_is_the_symbol_that_was_asked_for():
    ids, right = recall.recall(5, 3, batch=40)
    assert ids.shape == (40, 6)
    for row, answer in zip(ids.tolist(), right.tolist(), strict=True):
        assert row[row[-1] - recall.SYMBOLS] == answer
        assert max(row[:-1]) < recall.SYMBOLS <= row[-1] < recall.SYMBOLS + 5
    again, other = recall.recall(5, 3, batch=40)[0], recall.recall(5, 4, batch=40)[0]
    assert torch.equal(ids, again)
    assert not torch.equal(ids, other)


@pytest.mark.ci
def test_the_recipe_writes_a_card_without_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr(recall, "EVERY", 2)
    main(["recall", "--steps", "3", "--folder", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["recall.json"]
    made = json.loads((tmp_path / "recall.json").read_text("utf-8"))
    card = pretrained.card("recall")
    assert card.keys() == made.keys()
    assert card["command"] == made["command"] == "python -m recipes recall"
    assert (made["kind"], made["steps"]) == ("Result", 3)


def test_the_stored_card_is_that_of_the_recipe():
    card = pretrained.card("recall")
    about = recall.about(recall.STEPS, card["share"])
    assert card == card | about | {"seeds": list(recall.SEEDS), "rates": list(recall.RATES)}
    assert list(card["share"]) == [str(width) for width in recall.WIDTHS]
    runs = [curves for by_rate in card["share"].values() for curves in by_rate.values()]
    assert len(runs) == len(recall.WIDTHS) * len(recall.RATES)
    for curves in runs:
        assert len(curves) == len(recall.SEEDS)
        assert {len(curve) for curve in curves} == {1 + recall.STEPS // recall.EVERY}
        assert all(curve[0] < 0.25 for curve in curves)  # before training: guessing
