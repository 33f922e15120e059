"""The recall task trained long: the task, the recipe, and what the stored result says."""

import json

import pytest
import torch

from attnlib import pretrained
from recipes import recall
from recipes.__main__ import main


def last(name: str) -> list[float]:
    """The share at the end, from each start."""
    return [curve[-1] for curve in pretrained.card("recall")["share"][name]]


def test_the_answer_is_the_symbol_that_was_asked_for():
    ids, right = recall.recall(5, 3, batch=40)
    assert ids.shape == (40, 6)
    for row, answer in zip(ids.tolist(), right.tolist(), strict=True):
        assert row[row[-1] - recall.SYMBOLS] == answer
        assert max(row[:-1]) < recall.SYMBOLS <= row[-1] < recall.SYMBOLS + 5
    again, other = recall.recall(5, 3, batch=40)[0], recall.recall(5, 4, batch=40)[0]
    assert torch.equal(ids, again)
    assert not torch.equal(ids, other)


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
    assert card == card | about | {"seeds": list(recall.SEEDS)}
    assert card["share"].keys() == recall.NETWORKS.keys()
    for curves in card["share"].values():
        assert {len(curve) for curve in curves} == {1 + recall.STEPS // recall.EVERY}
        assert all(curve[0] < 0.25 for curve in curves)  # before training: guessing


def test_a_result_is_no_model():
    with pytest.raises(ValueError, match="a result: card"):
        pretrained.load("recall")


def test_after_long_training_the_width_decides_and_a_gate_alone_does_not():
    """In every start, and by more than the starts of one network differ."""
    assert max(last("Elman 8")) < min(last("Elman 32")) - 0.2
    assert max(last("Elman 32")) < min(last("Elman 128")) - 0.15
    assert min(last("Elman 128")) > 0.9
    for width in (8, 32):  # the same width with gates lies inside, or a few hundredths beside
        elman, gru = last(f"Elman {width}"), last(f"GRU {width}")
        assert min(gru) < max(elman) + 0.02
        assert max(gru) > min(elman)
    assert min(last("LSTM 32")) > max(last("Elman 32"))  # which keeps two vectors of 32


def test_the_beginning_of_a_stored_curve_is_made_again(monkeypatch):
    """The long run of one network, interrupted after its first 250 steps."""
    real = recall.recall

    def until(m, step, batch=recall.BATCH):
        if step == recall.EVERY + 1:
            raise KeyboardInterrupt
        return real(m, step, batch)

    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr(recall, "recall", until)
    monkeypatch.setattr(recall, "finished", lambda history: history)
    found = recall.curve("Elman 8", 0, recall.STEPS)
    stored = pretrained.card("recall")["share"]["Elman 8"][0]
    assert found == pytest.approx(stored[:2], abs=0.02)
