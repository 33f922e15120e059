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


def any_weights(d_k, combine, divisor="d_k", seed=0):
    """The model with every parameter drawn at random, biases and norms as well."""
    torch.manual_seed(seed)
    model = recipe.OneLayer(50, d_k, combine, divisor)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


@torch.no_grad()
def directions(model, x):
    """u of every head, (H, d_model): word · u + c is a score, the query being that of x (1, d)."""
    layer = model.encoder.blocks[0].attention
    q = x @ layer.W_Q + layer.b_Q[:, None]  # (H, 1, d_k)
    return (layer.W_K @ q.mT)[..., 0] / layer.W_K.shape[-1] ** 0.5


@torch.no_grad()
@pytest.mark.parametrize(("combine", "d_v"), [("concat", 8), ("add", 32)])
def test_the_spread_is_that_of_the_scores_of_real_words(combine, d_v):
    """And the divisor is the root of the width that was named."""
    ids, mask = batch()
    for divisor, times in (("d_k", 1.0), ("d_v", (128 / d_v) ** 0.5)):
        model = any_weights(128, combine, divisor)
        x = model.embed(ids)
        u = times * directions(model, x[0, :1])
        texts = [(x[n, 1:][mask[n]] @ u.T).std(0).mean() for n in range(4)]
        found = recipe.spread(model, Examples(ids, mask, torch.zeros(4)))
        assert found == pytest.approx(torch.stack(texts).mean().item(), abs=1e-3)
        weights = model.classify_embeddings(x, mask, need_weights=True)[1][0, 0, :, 0]
        scores = u @ x[0].T
        assert torch.allclose(weights, scores.softmax(-1), atol=1e-4)


@pytest.mark.claim(55)
@torch.no_grad()
@pytest.mark.parametrize("combine", ["concat", "add"])
def test_keys_of_width_1_do_what_keys_of_width_256_do(combine):
    """So the table of accuracies compares models that can all do the same."""
    wide, narrow = any_weights(256, combine), any_weights(1, combine, seed=1)
    scores = ("W_Q", "W_K", "b_Q", "b_K")
    rest = {k: v for k, v in wide.state_dict().items() if not k.endswith(scores)}
    narrow.load_state_dict(rest, strict=False)
    ids, _ = batch()
    assert not torch.allclose(narrow(ids), wide(ids), atol=1e-2)
    layer, x = narrow.encoder.blocks[0].attention, wide.embed(ids)
    layer.W_Q.zero_()
    layer.b_Q.fill_(1.0)
    layer.W_K[..., 0] = directions(wide, x[0, :1])
    assert torch.allclose(narrow(ids), wide(ids), atol=1e-4)
    # with positions the query would still be one, but where the query differs u would have to
    assert not torch.allclose(directions(wide, x[0, :1]), directions(wide, x[0, 1:2]), atol=0.1)


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
    monkeypatch.setattr(recipe, "accuracy", lambda model, part: next(sizes[len(part)]))
    accuracy, _ = recipe.run(parts, 50, (0, 1, ("concat", "d_k")), steps=3)
    assert accuracy == 0.5
