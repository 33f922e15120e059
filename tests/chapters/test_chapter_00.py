"""The theses of chapter 00, with their controls; its table of progress.

Intervals are over sentences, others than those of the chapter.
"""

import json
from itertools import islice
from pathlib import Path

import nbformat
import pytest
import torch
from chapter_code import definitions
from intervals import interval
from torch import Tensor

from attnlib.check.progress import FILE, READ, note
from attnlib.data import reviews
from attnlib.models import Transformer
from attnlib.pretrained import language_model
from attnlib.trace import Trace

CHAPTER = definitions(
    "00_start_here",
    *("encoder", "vector", "only_itself", "alone", "moved", "to_first", "read", "kept", "progress"),
)
TEXTS = reviews("rotten_tomatoes").test.texts[20:40]
FRESH = "No task checked and no chapter finished yet."


@pytest.fixture(scope="module")
def trained() -> list[Trace]:
    return [CHAPTER.encoder.trace(text) for text in TEXTS]


@pytest.fixture(scope="module")
def untrained() -> list[list[Trace]]:
    """Half of the sentences, read by three copies of the encoder with random weights."""
    copies = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = Transformer(CHAPTER.encoder.model.config).eval()
        copies.append(
            [model.trace(torch.tensor(CHAPTER.encoder.encode(text))) for text in TEXTS[:10]]
        )
    return copies


def previous(trace: Trace) -> Tensor:
    """Weight on the token before, mean over a text: (layer, head)."""
    return trace.pattern.diagonal(-1, 2, 3).mean(-1)


def times_uniform(trace: Trace) -> Tensor:
    """What the first token gets in layers 1 to 5, in multiples of 1/T."""
    return CHAPTER.to_first(trace)[1:].mean() * len(trace.tokens)


def test_rows_sum_to_one_and_columns_do_not(trained):
    gpt = language_model("reviews-gpt")
    for trace in (*trained, *map(gpt.trace, TEXTS)):
        assert (trace.pattern.sum(-1) - 1).abs().max() < 1e-5
    columns = [trace.pattern.sum(-2) / len(trace.tokens) for trace in trained]
    assert interval([each.max() for each in columns])[0] > 0.7
    assert max(each.min() for each in columns) < 0.01
    with pytest.raises(ValueError, match="sum"):
        Trace(("so", "far"), torch.full((1, 1, 2, 2), 0.6))


def exchanged(text: str, at: int) -> tuple[list[int], list[int]]:
    """The ids of a text, and the same with another word at one position."""
    ids = CHAPTER.encoder.encode(text)
    words = (CHAPTER.encoder.encode(word)[1] for word in ("film", "good"))
    other = next(word for word in words if word != ids[at])
    return ids, [*ids[:at], other, *ids[at + 1 :]]


def test_the_maps_are_the_only_way_between_tokens():
    without_last = {key: edit for key, edit in CHAPTER.alone.items() if key[1] != 5}
    for text in TEXTS[:4]:
        ids, other = exchanged(text, at=3)
        others = torch.arange(len(ids)) != 3
        alone = CHAPTER.moved(ids, other, CHAPTER.alone)
        assert alone[3] > 0
        assert (alone[others] == 0).all()
        assert (CHAPTER.moved(ids, other)[others] > 0.01).all()
        assert (CHAPTER.moved(ids, other, without_last)[others] > 0).all(), "one layer is enough"


def test_the_encoder_finds_a_war_without_the_word():
    """The film that the chapter finds is closer than forty that the chapter does not read."""
    films = reviews("rotten_tomatoes").test.texts
    (of_the_war,) = (film for film in films[:200] if "wwii" in film)
    assert "war" not in of_the_war.split()
    war = CHAPTER.vector("It is about a war.")
    assert war.norm() == pytest.approx(1, abs=1e-5)
    others = [float(war @ CHAPTER.vector(film)) for film in films[200:240]]
    assert float(war @ CHAPTER.vector(of_the_war)) > max(others)


def test_one_head_looks_back_in_every_sentence_and_an_untrained_one_in_none(trained, untrained):
    ours = [previous(trace) for trace in trained]
    assert min(each[0, 2] for each in ours) > 0.97
    others = [each.flatten().sort().values[-2] for each in ours]
    assert interval(others)[1] < 0.5
    for copy in untrained:
        assert interval([previous(trace).max() for trace in copy])[1] < 0.15


def test_the_first_position_is_favoured_and_only_by_training(trained, untrained):
    assert interval([CHAPTER.to_first(trace)[1:].mean() for trace in trained])[0] > 0.4
    model = CHAPTER.encoder.model
    encoded = (torch.tensor(CHAPTER.encoder.encode(text)) for text in reviews("imdb").test.texts)
    long = [ids[:256] for ids in islice((ids for ids in encoded if len(ids) > 256), 6)]
    low, high = interval([CHAPTER.to_first(model.trace(ids))[1:].mean() for ids in long])
    assert 0.15 < low < high < 0.22, "in 256 tokens less than a fifth or so, and far above 1/256"
    for copy in untrained:
        low, high = interval([times_uniform(trace) for trace in copy])
        assert 0.85 < low < high < 1.15, "an untrained copy favours the first token, or shuns it"


def drawn_at(token: str, text: str, at: int = 5) -> torch.Tensor:
    """The attention to a token put at a position, as a share of what [CLS] had in front."""
    encoder = CHAPTER.encoder
    ids = torch.tensor(encoder.encode(text))
    own = CHAPTER.to_first(encoder.model.trace(ids))[1:].mean()
    changed = ids.clone()
    changed[[0, at]] = torch.tensor([encoder.encode("film")[1], encoder.encode(token)[1]])
    return encoder.model.trace(changed).pattern[1:, :, :, at].mean() / own


def test_a_word_at_the_position_of_cls_receives_as_much():
    for word in ("film", "terrible"):
        low, high = interval([CHAPTER.kept(text, word) for text in TEXTS[:5]])
        assert 0.95 < low < high < 1.05
    elsewhere = {name: [drawn_at(name, text) for text in TEXTS[:5]] for name in ("[CLS]", "[SEP]")}
    assert interval(elsewhere["[CLS]"])[0] > 0.4, "the token [CLS] draws, too"
    assert interval(elsewhere["[SEP]"])[1] < 0.1
    text = TEXTS[0]
    assert torch.equal(CHAPTER.read(text).pattern, CHAPTER.encoder.trace(text).pattern)
    other = CHAPTER.read(text, "film")
    assert other.tokens == ("film", *CHAPTER.encoder.trace(text).tokens[1:])
    assert not torch.equal(other.pattern, CHAPTER.encoder.trace(text).pattern)


def test_in_a_very_short_text_other_heads_look_back_too():
    assert (previous(CHAPTER.encoder.trace("Yes")) > 0.5).sum() > 10


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
