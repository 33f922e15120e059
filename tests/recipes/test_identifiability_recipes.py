"""The sweep over the width of the keys: its model, its recipe, and what the stored result says."""

import pytest
import torch

from attnlib import pretrained
from attnlib.training.classification import Examples
from recipes import identifiability as recipe
from recipes.__main__ import main


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


def batch(rows=4, length=9, size=50):
    """Ids and a mask with padding."""
    ids = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(0))
    ids[1, 5:] = 0
    return ids, ids > 0


def test_the_spread_is_that_of_the_scores_of_real_words():
    torch.manual_seed(0)
    model = recipe.ClsClassifier(50, 4, "concat").eval()
    ids, mask = batch()
    with torch.no_grad():
        x = model.embed(ids)
        u = model.directions(x[:, 0])
        texts = [(x[n, 1:][mask[n]] @ u[n].T).std(0).mean() for n in range(4)]
    found = recipe.spread(model, Examples(ids, mask, torch.zeros(4)))
    assert found == pytest.approx(torch.stack(texts).mean().item(), abs=1e-4)


def test_a_sweep_goes_on_where_it_stopped_and_writes_a_card(tmp_path, monkeypatch):
    made = []

    def run(parts, size, about, steps=None):
        assert parts == {"read": "imdb"}
        if len(made) == 5:
            made.append(None)
            raise KeyboardInterrupt
        made.append(about)
        return 0.5, 1.0

    monkeypatch.setattr(recipe, "run", run)
    monkeypatch.setattr(recipe.training, "read", lambda source, *_: ((), {"read": source}))
    for _ in range(2):
        try:
            main(["key-width", "--folder", str(tmp_path)])
        except KeyboardInterrupt:
            assert [path.name for path in tmp_path.iterdir()] == ["key-width.lines"]
    runs = [key for key in made if key is not None]
    assert len(runs) == len(set(runs)) == len(recipe.D_K) * len(recipe.ROWS) * len(recipe.SEEDS)
    assert [path.name for path in tmp_path.iterdir()] == ["key-width.json"]


def test_the_stored_card_is_that_of_the_recipe():
    card = pretrained.card("key-width")
    found = [
        (card["accuracy"][row][i][j], card["spread"][row][i][j])
        for j in range(len(recipe.SEEDS))
        for i in range(len(recipe.D_K))
        for row in (", ".join(names) for names in recipe.ROWS)
    ]
    made = recipe.about(None, found)
    assert card == card | made | {"d_k": list(recipe.D_K), "seeds": list(recipe.SEEDS)}
    assert card["command"] == "python -m recipes key-width"


def test_the_best_epoch_is_chosen_by_the_validation_split(monkeypatch):
    ids, mask = batch(rows=64)
    rows = Examples(ids, mask, (ids[:, 0] % 2).float())
    parts = {"train": rows, "validation": rows.take(slice(20)), "test": rows.take(slice(20, 60))}
    sizes = {20: iter([0.6, 0.9, 0.7]), 40: iter([0.99, 0.5, 0.98])}
    monkeypatch.setattr(recipe.training, "accuracy", lambda model, part: next(sizes[len(part)]))
    accuracy, _ = recipe.run(parts, 50, (0, 1, ("concat", "d_k")), steps=3)
    assert accuracy == 0.5
