"""The recipes of the histogram task, a few steps long."""

from itertools import count

import pytest
import torch

from attnlib import pretrained
from attnlib.pretrained import checkpoints
from recipes import histogram
from recipes.__main__ import RECIPES

pytestmark = pytest.mark.long

SHIPPED = {name: pretrained.card(name) for name in histogram.MINIMA}


def counts(ids):
    """The labels, counted by the standard library."""
    return torch.tensor([[row.count(symbol) for symbol in row] for row in ids.tolist()])


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Two starts, and checkpoints in an empty folder."""
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
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


@pytest.mark.parametrize("name", histogram.MINIMA)
def test_a_recipe_writes_a_model_and_its_card(name, small):
    RECIPES[name](name, 2, small)
    card, model = pretrained.card(name), pretrained.load(name)
    assert card.keys() == SHIPPED[name].keys()
    assert card["command"] == f"python -m recipes {name}"
    assert 0 < card["accuracy"] < 1
    assert card["loss"]["nats_per_place"] > 0
    assert f"histogram-{model.sees}" == name
    assert (card["map"]["moves"] == 0) == (model.sees == "positional")
    first, second = card["starts"]
    assert first.keys() == SHIPPED[name]["starts"][0].keys()
    assert first["same"] != second["same"]  # another seed, another model


def test_new_rows_are_repeatable_and_counted():
    batch = histogram.fresh(seed=3)
    ids, labels = batch(0)
    assert ids.shape == (histogram.BATCH, 10)
    assert set(ids.unique().tolist()) == set(range(15))
    assert torch.equal(labels, counts(ids))
    assert torch.equal(batch(0)[0], ids)
    assert not torch.equal(batch(1)[0], ids)
    assert not torch.equal(histogram.fresh(seed=4)(0)[0], ids)


class Fixed:
    """A model whose map marks equal symbols and, once more, oneself; it answers what it reads."""

    W_E, W_V = torch.zeros(3, 1), torch.eye(11)

    def embed(self, ids):
        self.ids = ids
        return torch.nn.functional.one_hot(ids, 11).float()

    def attend(self, x):
        equal = x @ x.mT + torch.eye(3)
        return x, equal / equal.sum(-1, keepdim=True)

    def readout(self, mixed):
        return mixed


def test_map_facts_of_maps_that_are_known():
    """Symbols 1, 1, 2 answer 1, 1, 2 with their own map, and that of the next row misleads."""
    ids = torch.tensor([[1, 1, 2], [1, 1, 2]])
    facts = histogram.map_facts(Fixed(), ids, torch.tensor([[2, 2, 1], [2, 2, 1]]))
    weights = {"oneself": 0.6667, "same": 0.3333, "other": 0, "moves": 0}
    assert facts == pytest.approx(weights | {"pattern": 0, "another": 0})
    ids, answers = torch.tensor([[1, 1, 2], [2, 1, 1]]), torch.tensor([[1, 1, 2], [2, 1, 1]])
    facts = histogram.map_facts(Fixed(), ids, answers)
    assert facts["moves"] > 0.05
    assert facts["pattern"] == 1


@pytest.mark.parametrize("name", ["histogram-semantic", "histogram-free"])
@pytest.mark.parametrize("stopped_at", [1, 3])
def test_an_interrupt_anywhere_writes_nothing(name, stopped_at, small, monkeypatch):
    """Also in the second of several trainings: half of the starts is no card."""
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
