"""The recipes of the histogram task, a few steps long."""

from itertools import count

import pytest
import torch

from attnlib import pretrained
from attnlib.models import HistogramModel, SmallCounter
from attnlib.pretrained import checkpoints
from attnlib.training import History
from recipes import histogram
from recipes.__main__ import RECIPES

NAMES = (*histogram.MINIMA, *histogram.UNFINISHED, "histogram-counting")
SHIPPED = {name: pretrained.card(name) for name in NAMES}


def counts(ids):
    """The labels, counted by the standard library."""
    return torch.tensor([[row.count(symbol) for symbol in row] for row in ids.tolist()])


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A grid of four models and two starts, and checkpoints in an empty folder."""
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    monkeypatch.setattr(histogram, "WIDTHS", (2, 3))
    monkeypatch.setattr(histogram, "HIDDEN", (1, 2))
    monkeypatch.setattr(histogram, "STARTS", 2)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    return tmp_path


def test_the_rows_of_the_released_run():
    (train, train_labels), (validation, labels) = histogram.released_rows()
    assert len(train) + len(validation) == pytest.approx(50_000, abs=5)
    assert len(validation) == pytest.approx(15_000, abs=5)
    together = torch.cat([train, validation])
    assert len(together.unique(dim=0)) == len(together)  # no row is in both parts
    assert torch.equal(labels[:500], counts(validation[:500]))
    assert torch.equal(train_labels[:500], counts(train[:500]))


@pytest.mark.parametrize(
    "name",
    ["histogram-positional", histogram.UNFINISHED[1], "histogram-free", "histogram-counting"],
)
def test_a_recipe_writes_a_model_and_its_card(name, small):
    RECIPES[name](name, 2, small)
    card, model = pretrained.card(name), pretrained.load(name)
    assert isinstance(model, SmallCounter if name == "histogram-counting" else HistogramModel)
    assert card.keys() == SHIPPED[name].keys()
    assert card["command"] == f"python -m recipes {name}"
    assert 0 < card["accuracy"] < 1
    assert card["loss"]["nats_per_place"] > 0
    if name.startswith("histogram-positional"):
        assert model.sees == "positional"
        assert card.get("map", {"moves": 0})["moves"] == 0
    elif name == "histogram-free":
        first, second = card["starts"]
        assert first["accuracy"] != second["accuracy"]  # another seed, another model
    else:
        assert set(card["grid"]["accuracy"]) == {"dot", "dot + softmax", "linear + softmax"}
        assert torch.tensor(card["grid"]["accuracy"]["dot"]).shape == (2, 2)


def test_the_loss_was_low_after_the_end_of_the_first_low_block(small, monkeypatch):
    runs = iter([[1.0] * 25 + [0.05] * 25 + [1.0] * 25, [1.0] * 75])
    ready = lambda config, seed, steps: (HistogramModel(**config), History(next(runs)))  # noqa: E731
    monkeypatch.setattr(histogram, "trained", ready)
    found = histogram.speeds("semantic", 75, histogram.released_rows()[1])
    assert [(one["seed"], one["low_after"]) for one in found] == [(0, 50), (1, None)]


@pytest.mark.parametrize("name", ["histogram-semantic", "histogram-free", "histogram-counting"])
@pytest.mark.parametrize("stopped_at", [1, 3])
def test_an_interrupt_anywhere_writes_nothing(name, stopped_at, small, monkeypatch):
    """Also in the second of several trainings: half a start or half a grid is no card."""
    real, calls = histogram.count_loss, count()

    def loss(model, batch):
        if next(calls) == stopped_at:
            raise KeyboardInterrupt
        return real(model, batch)

    monkeypatch.setattr(histogram, "count_loss", loss)
    steps = 4 if name == "histogram-semantic" else 2  # of each training
    with pytest.raises(SystemExit, match=r"stopped at step [13]; no checkpoint .* starts anew"):
        RECIPES[name](name, steps, small)
    assert next(calls) == stopped_at + 1  # nothing was trained after it
    assert not list(small.iterdir())
