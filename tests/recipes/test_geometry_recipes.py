"""The classifiers of chapter 13: what their recipe measures, minimises and writes."""

import json

import pytest
import torch

from attnlib import pretrained
from attnlib.explain.geometry import mean_cosine, row_entropy
from attnlib.models import TransformerClassifier
from attnlib.training.classification import Examples
from recipes import geometry as recipe
from recipes.__main__ import main
from recipes.classification import classification_loss

LENGTHS = (9, 4, 6, 9, 5, 7)


def sharp_model(layers=2):
    """A small model with weights that are far from uniform."""
    torch.manual_seed(0)
    size = recipe.SIZE | {"vocab_size": 40, "d_model": 8, "layers": layers, "max_len": 12}
    model = TransformerClassifier(**size)
    torch.nn.init.normal_(model.encoder.W_E)
    return model.eval()


def texts():
    """Six texts with padding, three of each class."""
    ids = torch.randint(3, 40, (6, 9), generator=torch.Generator().manual_seed(1))
    ids *= torch.arange(9) < torch.tensor(LENGTHS)[:, None]
    return Examples(ids, ids > 0, torch.tensor([0.0, 1, 0, 1, 0, 1]))


def one_by_one(model, data):
    """ids without padding, and y, of each text."""
    for ids, n in zip(data.ids, LENGTHS, strict=True):
        yield ids[None, :n], model(ids[None, :n]).sigmoid().item()


@torch.no_grad()
def test_properties_are_those_of_texts_one_by_one():
    model, data = sharp_model(), texts()
    found, traces = recipe.properties(model, data), []
    for ids, _ in one_by_one(model, data):
        traces.append(model.trace(ids[0], keep="all"))
    for name, field in (("keys", "k"), ("values", "v")):
        told = torch.stack([mean_cosine(getattr(trace, field)[:, 0]) for trace in traces]).mean(0)
        assert found[name] == pytest.approx(told.tolist(), abs=1e-4)
    states = torch.stack([mean_cosine(trace.resid) for trace in traces]).mean(0)
    assert found["states"] == pytest.approx(states.tolist(), abs=1e-4)
    rows = [row_entropy(trace.pattern[:, 0]) for trace in traces]  # (L, n)
    means = {"entropy": [r.mean(1) for r in rows], "read": [r[:, 0] for r in rows]}
    means["key_norm"] = [trace.k[:, 0].norm(dim=-1).mean(1) for trace in traces]
    means["query_norm"] = [trace.q[:, 0].norm(dim=-1).mean(1) for trace in traces]
    for name, values in means.items():
        assert found[name] == pytest.approx(torch.stack(values).mean(0).tolist(), abs=1e-4)
    assert found["entropy"] != pytest.approx(found["read"], abs=0.01)
    y = torch.tensor([y for _, y in one_by_one(model, data)])
    assert found["plain"] == pytest.approx(((y > 0.5) == data.labels.bool()).float().mean().item())


@torch.no_grad()
def test_other_weights_take_the_place_of_a_layers_own():
    model, data = sharp_model(), texts()
    model.output.bias.add_(0.6)  # so that texts lie on both sides
    found, moved, flat = recipe.properties(model, data), torch.zeros(6, 2), []
    for i, (ids, y) in enumerate(one_by_one(model, data)):
        even = {("pattern", n): lambda A: torch.full_like(A, 1 / A.shape[-1]) for n in (0, 1)}
        flat.append(model(ids, edits=even).item() > 0)
        for site, edit in even.items():
            moved[i, site[1]] = abs(model(ids, edits={site: edit}).sigmoid().item() - y)
    right = (torch.tensor(flat) == data.labels.bool()).float().mean().item()
    assert found["flat"] == pytest.approx(right, abs=1e-3)
    assert found["uniform"] == pytest.approx(moved.mean(0).tolist(), abs=1e-4)
    assert moved.mean() > 0.001
    assert found["one"] != pytest.approx(found["uniform"], abs=0.001)


@pytest.mark.parametrize("rows", ["all", "read"])
def test_the_penalty_is_on_the_entropy_of_real_rows(rows):
    model, data = sharp_model(), texts()
    batch = (data.ids, data.labels)
    plain = classification_loss(model, batch)
    assert torch.allclose(recipe.penalised_loss(0.0, rows, model, batch), plain)
    shares = []
    for ids, _ in one_by_one(model, data):
        each = row_entropy(model.maps(ids)[0, :, 0]).mean(0)  # (n,), mean of the layers
        shares += each.tolist() if rows == "all" else [each[0].item()]
    told = plain.item() + 2 * sum(shares) / len(shares)
    assert recipe.penalised_loss(2.0, rows, model, batch).item() == pytest.approx(told, abs=1e-4)


def test_a_card_goes_on_where_it_stopped(tmp_path, monkeypatch):
    made = []

    def train(run, steps):
        if len(made) == 3:
            made.append(None)
            raise KeyboardInterrupt
        made.append(run)
        return None, {"accuracy": 0.5}, None

    monkeypatch.setattr(recipe, "_train", train)
    for _ in range(2):
        try:
            main(["geometry", "--folder", str(tmp_path)])
        except KeyboardInterrupt:
            assert [path.name for path in tmp_path.iterdir()] == ["geometry.lines"]
    assert [run for run in made if run is not None] == recipe.runs()
    assert [path.name for path in tmp_path.iterdir()] == ["geometry.json"]
    card = json.loads((tmp_path / "geometry.json").read_text(encoding="utf-8"))
    assert len(card["runs"]) == len(recipe.runs())


def test_the_stored_card_holds_the_runs_of_the_recipe_and_the_stored_model():
    card = pretrained.card("geometry")
    found = [recipe.Run(*(row[name] for name in recipe.Run._fields)) for row in card["runs"]]
    assert found == recipe.runs()
    assert card["example"] == recipe.EXAMPLE
    stored = pretrained.card("geometry-5")
    row = card["runs"][found.index(recipe.Run("rotten_tomatoes", layers=5))]
    assert stored["accuracy"] == row["accuracy"]
    assert stored["loss"]["nats_per_text"] == row["loss"]


@pytest.mark.long
@pytest.mark.slow
def test_the_stored_model_is_what_its_row_of_the_card_says():
    model, row = pretrained.load("geometry-5"), pretrained.card("geometry")["runs"][9]
    test = recipe.training.read("rotten_tomatoes", 64)[1]["test"]
    some = recipe._balanced(test).take(slice(1, None, 4))  # whose means are a little others
    for name, values in recipe.properties(model, some).items():
        assert row[name] == pytest.approx(values, abs=0.06), name
