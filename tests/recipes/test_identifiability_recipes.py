"""The sweep over the width of the keys: its model, its recipe, and what the stored result says."""

import pytest
import torch

from attnlib import pretrained
from attnlib.recipes import identifiability as recipe
from attnlib.recipes.__main__ import main
from attnlib.training.classification import Examples


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


def batch(rows=4, length=9, size=50):
    """Ids and a mask with padding."""
    ids = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(0))
    ids[1, 5:] = 0
    return ids, ids > 0


def any_weights(model, seed=0):
    """The model with every parameter drawn at random, biases and norms as well."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("combine", ["concat", "add"])
def test_the_row_of_cls_is_that_of_the_whole_layer(combine):
    model = any_weights(recipe.ClsClassifier(50, 16, combine))
    ids, mask = batch()
    with_cls = torch.cat([torch.ones(4, 1, dtype=torch.bool), mask], 1)
    state = next(model.encoder.run(model.embed(ids), with_cls))
    whole = model.output(state.residual[:, 0]).squeeze(-1)
    assert torch.allclose(model(ids), whole, atol=1e-4)
    assert not torch.allclose(model(ids), model(ids, torch.ones_like(mask)), atol=1e-3)


@torch.no_grad()
def test_the_divisor_is_the_root_of_the_width_that_was_named():
    ids, _ = batch()
    for combine, d_v in (("concat", 8), ("add", 32)):
        found = []
        for divisor in ("d_k", "d_v"):
            model = any_weights(recipe.ClsClassifier(50, 128, combine, divisor))
            found.append(model.directions(model.embed(ids)[:, 0]))
        assert torch.allclose(found[1], found[0] * (128 / d_v) ** 0.5)


@pytest.mark.claim(55)
@torch.no_grad()
@pytest.mark.parametrize("combine", ["concat", "add"])
def test_keys_of_width_1_do_what_keys_of_width_256_do(combine):
    """So the table of accuracies compares models that can all do the same."""
    wide = any_weights(recipe.ClsClassifier(50, 256, combine))
    narrow = any_weights(recipe.ClsClassifier(50, 1, combine), seed=1)
    scores = ("W_Q", "W_K", "b_Q", "b_K")
    rest = {k: v for k, v in wide.state_dict().items() if not k.endswith(scores)}
    narrow.load_state_dict(rest, strict=False)
    ids, _ = batch()
    assert not torch.allclose(narrow(ids), wide(ids), atol=1e-2)
    narrow.layer.attention.W_Q.zero_()
    narrow.layer.attention.b_Q.fill_(1.0)
    narrow.layer.attention.W_K[..., 0] = wide.directions(wide.embed(ids)[:1, 0])[0]
    assert torch.allclose(narrow(ids), wide(ids), atol=1e-4)
    # with positions the query would still be one, but where the query differs u would have to
    moved = wide.embed(ids)
    moved[:, 0] += 1.0
    assert not torch.allclose(wide.directions(moved[:, 0]), wide.directions(moved[:, 1]), atol=0.1)


def test_the_spread_is_that_of_the_scores_of_real_words():
    model = any_weights(recipe.ClsClassifier(50, 4, "concat"))
    ids, mask = batch()
    with torch.no_grad():
        x = model.embed(ids)
        u = model.directions(x[:, 0])
        texts = [(x[n, 1:][mask[n]] @ u[n].T).std(0).mean() for n in range(4)]
    found = recipe.spread(model, Examples(ids, mask, torch.zeros(4)))
    assert found == pytest.approx(torch.stack(texts).mean().item(), abs=1e-4)


def test_a_sweep_goes_on_where_it_stopped_and_writes_a_card(tmp_path, monkeypatch):
    made = []

    def run(parts, size, about, seed, steps=None):
        if len(made) == 5:
            made.append(None)
            raise KeyboardInterrupt
        made.append((*about, seed))
        return 0.5, 1.0

    monkeypatch.setattr(recipe, "run", run)
    for _ in range(2):
        try:
            main(["key-width", "--folder", str(tmp_path)])
        except KeyboardInterrupt:
            assert [path.name for path in tmp_path.iterdir()] == ["key-width.state"]
    runs = [key for key in made if key is not None]
    assert len(runs) == len(set(runs)) == len(recipe.D_K) * len(recipe.ROWS) * len(recipe.SEEDS)
    assert [path.name for path in tmp_path.iterdir()] == ["key-width.json"]


def test_the_stored_card_is_that_of_the_recipe():
    card = pretrained.card("key-width")
    found = {
        f"{row}, {d_k}, {seed}": (card["accuracy"][row][i][j], card["spread"][row][i][j])
        for row in card["accuracy"]
        for i, d_k in enumerate(card["d_k"])
        for j, seed in enumerate(card["seeds"])
    }
    made = recipe.about(None, found)
    assert card == card | made | {"d_k": list(recipe.D_K), "seeds": list(recipe.SEEDS)}
    assert card["command"] == "python -m attnlib.recipes key-width"


def test_the_best_epoch_is_chosen_by_the_validation_split(monkeypatch):
    ids, mask = batch(rows=64)
    rows = Examples(ids, mask, (ids[:, 0] % 2).float())
    parts = {"train": rows, "validation": rows.take(slice(20)), "test": rows.take(slice(20, 60))}
    sizes = {20: iter([0.6, 0.9, 0.7]), 40: iter([0.99, 0.5, 0.98])}
    monkeypatch.setattr(recipe.training, "accuracy", lambda model, part: next(sizes[len(part)]))
    accuracy, _ = recipe.run(parts, 50, (1, "concat", "d_k"), 0, steps=3)
    assert accuracy == 0.5
