"""What chapter 00 finds about the favourite place of the encoder, with its controls; its table."""

import json
from pathlib import Path

import nbformat
import pytest
import torch
from chapter_code import definitions

from attnlib.check.progress import FILE, READ, note
from attnlib.data import reviews
from attnlib.models.transformer import Transformer

CHAPTER = definitions("00_start_here", "encoder", "received", "tries", "progress")
FRESH = "No task checked and no chapter finished yet."


@pytest.fixture(scope="module")
def shares() -> dict[str, torch.Tensor]:
    """Times an even share, by layer, on other sentences than the chapter's."""
    results = [CHAPTER.tries(text) for text in reviews("rotten_tomatoes").test.texts[20:30]]
    return {name: torch.stack([one[name] for one in results]).mean(0) for name in results[0]}


def test_what_one_place_receives_is_read_from_the_map():
    text = reviews("rotten_tomatoes").test.texts[20]
    attention = CHAPTER.encoder.trace(text).attention
    expected = attention[:, :, 1:, 0].mean((1, 2)) * attention.shape[-1]
    torch.testing.assert_close(
        CHAPTER.received(CHAPTER.encoder.encode(text), 0), expected, rtol=1e-3, atol=1e-3
    )


def test_the_first_place_is_favoured_whatever_token_stands_there(shares):
    cls, film, word, *_ = shares.values()
    assert cls[1:].min() > 5
    assert ((film / cls)[1:] - 1).abs().max() < 0.1
    assert ((word / cls)[1:] - 1).abs().max() < 0.15


def test_layer_one_goes_by_the_position_and_later_layers_by_either_mark(shares):
    cls, _, _, moved, middle, late, neither = shares.values()
    assert moved[1] < 0.4 * cls[1]
    assert middle[1] > 0.8 * cls[1]
    assert late[1] < 0.4 * cls[1]
    assert late[2:].min() > 0.6 * cls[2:].min()
    assert neither.max() < 3, "with neither mark the first place is a place like another"


def test_one_head_looks_back_in_every_text_and_an_untrained_one_in_none():
    for text in reviews("rotten_tomatoes").test.texts[20:40]:
        attention = CHAPTER.encoder.trace(text).attention
        previous = attention.diagonal(-1, 2, 3).mean(-1)
        assert previous[0, 2] > 0.9
        assert (previous > 0.5).sum() <= 2
    torch.manual_seed(0)
    untrained = Transformer(CHAPTER.encoder.model.config).eval()
    weights = untrained.trace(torch.tensor(CHAPTER.encoder.encode(text))).attention
    assert weights.diagonal(-1, 2, 3).mean(-1).max() < 0.2
    to_first = weights[:, :, 1:, 0].mean((1, 2)) * weights.shape[-1]
    assert (to_first - 1).abs().max() < 0.5, "an untrained model favours the first place, too"


def test_the_first_place_gets_more_than_an_even_share_and_least_in_layer_zero():
    for text in reviews("rotten_tomatoes").test.texts[20:40]:
        attention = CHAPTER.encoder.trace(text).attention
        shares = attention[:, :, 1:, 0].mean((1, 2)) * attention.shape[-1]
        assert 1 < shares[0] < shares[1:].min()
        assert shares[1:].min() > 2


def test_in_a_very_short_text_other_heads_look_back_too():
    attention = CHAPTER.encoder.trace("Yes").attention
    assert (attention.diagonal(-1, 2, 3).mean(-1) > 0.5).sum() > 10


def test_the_table_of_progress_tells_what_was_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, tasks in (("01_a", ["f", "g"]), ("02_b", ["h"])):
        folder = tmp_path / "exercises" / name
        folder.mkdir(parents=True)
        (folder / "checks.json").write_text(json.dumps({"tasks": dict.fromkeys(tasks)}))
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    assert CHAPTER.progress() == FRESH
    note("01_a", "g")
    note("01_a", "a task that there is no more")
    note("02_b", READ)
    rows = [" ".join(row.split()) for row in CHAPTER.progress().splitlines()]
    assert rows == ["01_a 1 of 2 tasks passed", "02_b read to the end 0 of 1 tasks passed"]


def test_the_stored_chapter_tells_nobodys_progress():
    chapters = Path(__file__).parents[2] / "chapters"
    notebook = nbformat.read(chapters / "00_start_here.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if "print(progress())" in cell.source]
    assert cell.outputs[0].text.strip() == FRESH, f"delete exercises/{FILE}, and run it again"
    assert cell.source.startswith("finished = []")
