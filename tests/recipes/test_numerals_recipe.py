"""The recipe of chapter 03's translators: its runs, and where each is on the card."""

import pytest
import torch

from attnlib.pretrained import checkpoints
from recipes import numerals
from recipes.__main__ import main


def test_every_run_is_on_the_card_under_its_model_and_size(monkeypatch, tmp_path):
    def one_run(run, steps):
        name, size, seed = run
        row = {"model": name, "size": size, "seed": seed, "exact": {"9": [name, size, seed]}}
        return row | {"swaps": seed, "rows": 9, "elsewhere": seed, "beside": steps, "p": {}}

    monkeypatch.setattr(numerals, "one_run", one_run)
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    main(["numerals", "--steps", "2", "--folder", str(tmp_path)])
    card = checkpoints.card("numerals")
    for name, by_size in card["scores"].items():
        for size, runs in by_size.items():
            wanted = [[name, float(size), seed] for seed in numerals.SCORE_SEEDS]
            assert [run["9"] for run in runs] == wanted
    assert card["scores"].keys() == {"learned", "frozen", "cut off"}
    widths = [runs[0]["9"][1] for name, runs in card["by_length"].items() if "fixed" in name]
    assert widths == [128, 256]
    assert card["swaps"] == [row["elsewhere"] for row in card["mille"]] == list(numerals.SEEDS)
    assert not list(tmp_path.glob("*.lines"))


@pytest.mark.parametrize(
    ("name", "learns"), [("learned", True), ("frozen", False), ("cut off", False)]
)
def test_random_scores_have_the_size_that_is_asked_for(name, learns):
    sizes = []
    for size in (1.0, 0.1):
        torch.manual_seed(0)
        model = numerals.with_dot(name, size, 9, 9, d_model=8)
        assert model.W.requires_grad == model.U.requires_grad == learns
        assert model.embed_source.weight.requires_grad
        sizes.append(model.W.detach())
    torch.testing.assert_close(sizes[1], 0.1 * sizes[0])
