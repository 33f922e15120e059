"""What main roads, side roads and theses keep, and that each rule fires on one that breaks it.

For authors. A chapter is a main road once it ends with the headings *What to remember* · *Three
questions* · *Exercises* · *Side roads* · *References*, and, if it needs one, *Appendix*. Then
tools/road_rules.py holds it to its honest minutes, and says how they are counted.

- *What to remember* is a list of three to five sentences: those of chapters/theses.toml, in order.
  The three questions have their answers in a fold.
- **Predict.** is the last paragraph of its cell. Behind it a folded cell makes a `Predict`, which
  the cell that computes the result reveals, once. A question that no cell answers is no Predict.
- A side road, chapters/more/NN_topic.ipynb, begins: `# NN · Title`; next line `*One question?*`;
  `**Side road** of [chapter NN](../NN_name.ipynb)`, to a thesis, quoted word for word; and
  `**Time** 12 min to read · 8 s to run on two cores`. Its chapter links to it as
  `[…](more/NN_topic.ipynb)`. It needs no slider, no Predict, no slides and no close.
- What backs a Notice is folded under it:
  `<details><summary><b>How we know</b></summary>`, an empty line, a table, an empty line,
  `</details>`.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chapter_rules as rules
import chapter_tools as tools
import nbformat
import pytest
import road_rules as roads
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

Breaks = Callable[[NotebookNode], object]
SENTENCES = ("Rows sum to one.", "Columns do not.", "One head looks back.")
THESES = {"98": [{"sentence": sentence} for sentence in SENTENCES]}
TIME = "**Time** 2 min to read · 3 s to run on two cores"
ASKED = 'x = Predict.number("a share", 0, 1)'
CLOSE = f"""\
## What to remember
- {SENTENCES[0]}
- {SENTENCES[1]}
- One head
  looks back.
## Three questions
Why? How? When?
## Exercises
None.
## Side roads
None.
## References
- Elman (1990), *Finding Structure in Time*. `elman1990`
## Appendix
Letters."""
NOTICE = """\
**Notice.** In chapter 04, layers 0 and 1, head 2 of GPT-2 (Elman 1990) keep .9,
1,000 and 7 %; `x[3]`.

<details><summary><b>How we know</b></summary>

| seed | share |
|---|---|
| 1 | .91 |

</details>"""


def main_road() -> NotebookNode:
    """A small chapter that is a main road and keeps every rule."""
    cells = [
        new_markdown_cell(f"# 98 · A sample\n*Is it short?*\n\n{TIME}"),
        new_markdown_cell("**Predict.** What will it show?"),
        *map(new_code_cell, (ASKED, "x.reveal(0.5)", "Predict.so_far()")),
        new_markdown_cell(NOTICE),
        new_markdown_cell(CLOSE),
    ]
    return new_notebook(cells=cells)


def side_road() -> NotebookNode:
    """A small side road that keeps every rule."""
    first = (
        "# 98 · Beside it\n*What else was tried?*\n\n**Side road** of "
        f"[chapter 98](../98_sample.ipynb), to the thesis: *{SENTENCES[2]}*\n\n"
        "**Time** 0 min to read · 3 s to run on two cores"
    )
    return new_notebook(cells=[new_markdown_cell(first)])


@pytest.fixture
def sample_theses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roads, "theses", lambda: THESES)


def read(path: Any) -> NotebookNode:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


CHAPTERS = {path: read(path) for path in rules.chapter_paths()}
MAIN_ROADS = {path: one for path, one in CHAPTERS.items() if rules.is_main_road(one)}


def test_main_roads_and_side_roads_keep_their_rules() -> None:
    found = {
        path.name: complaints
        for notebooks, kept in (
            (MAIN_ROADS, roads.MAIN_ROAD),
            ({path: read(path) for path in rules.side_roads()}, roads.SIDE_ROAD),
        )
        for path, notebook in notebooks.items()
        if (complaints := [told for rule in kept for told in rule(notebook)])
    }
    assert found == {}


def test_no_two_predictions_of_the_course_share_a_label() -> None:
    """An answer is found again by its label."""
    code = [cell.source for one in CHAPTERS.values() for cell in rules.code_cells(one)]
    asked = r"= Predict\.(?:number|choice|order|curve)\(\s*\"([^\"]+)\""
    labels = Counter(re.findall(asked, "\n".join(code)))
    assert [label for label, times in labels.items() if times > 1] == []


def test_a_chapter_with_theses_is_a_main_road_and_no_other() -> None:
    assert sorted(roads.theses()) == [path.name[:2] for path in MAIN_ROADS]


def test_every_side_road_is_linked_from_its_chapter() -> None:
    stems = [path.stem for path in (*CHAPTERS, *rules.side_roads())]
    assert len(set(stems)) == len(stems), "two notebooks have one name"
    for path in rules.side_roads():
        (chapter,) = (one for at, one in MAIN_ROADS.items() if at.name[:2] == path.name[:2])
        assert f"](more/{path.name})" in rules.prose(chapter), path.name


def test_the_tables_list_side_roads_and_add_up(tmp_path: Path) -> None:
    chapter, more = tmp_path / "98_sample.ipynb", tmp_path / "98_beside.ipynb"
    for path, notebook, minutes in ((chapter, main_road(), 90), (more, side_road(), 150)):
        first = notebook.cells[0]
        first.source = re.sub(r"\d min", f"{minutes} min", first.source)
        nbformat.write(notebook, path)
    link = "[Beside it](chapters/more/98_beside.ipynb) (150 min)"
    row = tools.course_map([chapter], [more]).splitlines()[-1]
    assert f"| Is it short?<br>Side roads: {link} | 90 min | 3 s |" in row
    ends = [row.rpartition("| ")[2] for row in tools.routes([chapter], [more]).splitlines()]
    assert ends[2:] == ["0 |", "2 |", "4 |"]


def test_the_routes_in_the_first_chapter_are_current() -> None:
    first = CHAPTERS[rules.chapter_paths()[0]]
    table = tools.routes(rules.chapter_paths(), rules.side_roads())
    assert table in rules.prose(first), "run make chapters NAMES=00_start_here"


def test_every_thesis_is_whole() -> None:
    found = [
        (thesis.get("sentence"), told)
        for listed in roads.theses().values()
        for thesis in listed
        if (told := roads.thesis_is_whole(thesis))
    ]
    assert found == []


def test_every_thesis_is_shown_by_an_output_of_its_chapter() -> None:
    outputs = {
        path.name[:2]: {cell.id for cell in one.cells if cell.get("outputs")}
        for path, one in MAIN_ROADS.items()
    }
    found = [
        (number, thesis["sentence"], thesis["shown"])
        for number, listed in roads.theses().items()
        for thesis in listed
        if thesis["shown"] not in outputs[number]
    ]
    assert found == []


@pytest.mark.usefixtures("sample_theses")
def test_a_good_road_gets_no_complaint() -> None:
    assert [told for rule in roads.MAIN_ROAD for told in rule(main_road())] == []
    assert rules.closes_well(main_road()) == []
    beside = (*roads.BOTH, roads.names_its_thesis)
    assert [told for rule in beside for told in rule(side_road())] == []


def test_what_is_counted() -> None:
    assert roads.words("## Two words\n$a b$ [a link](b c) - <b>bold</b>\n") == 5
    assert roads.words("one\n## References\n- two three\n## Appendix\nfour") == 3
    assert roads.words(NOTICE) == roads.words(NOTICE.replace("| 1 | .91 |\n", "")) > 15


def replace(cell: int, old: str, new: str) -> Breaks:
    """A way to break a road: other text in one of its cells."""

    def breaks(notebook: NotebookNode) -> None:
        assert old in notebook.cells[cell].source
        notebook.cells[cell].source = notebook.cells[cell].source.replace(old, new)

    return breaks


def add(cell: int, text: str) -> Breaks:
    """A way to break a road: more text in one of its cells."""
    return lambda notebook: notebook.cells[cell].update(source=notebook.cells[cell].source + text)


def code(source: str) -> Breaks:
    """A way to break a road: one more cell of code behind the others."""
    return lambda notebook: notebook.cells.insert(5, new_code_cell(source))


BROKEN: list[tuple[Callable[..., list[str]], str, Breaks]] = [
    (roads.tells_its_minutes, "words and code say 2", replace(0, "2 min", "5 min")),
    (roads.tells_its_minutes, "words and code say 4", add(1, " word" * 120)),
    (roads.tells_its_minutes, "words and code say 4", code("x = 1\n" * 8)),
    (roads.tells_its_minutes, "75 at most", replace(0, "2 min", "76 min")),
    (roads.tells_its_minutes, "28 at most", replace(0, "3 s", "33 s")),
    (roads.marks_open_a_paragraph, "**Predict begins", replace(1, "**P", "Now **P")),
    (roads.predictions_are_answered, "x.reveal(…) stands 0 times", replace(3, "x", "y")),
    (roads.predictions_are_answered, "no x = Predict", replace(2, "x", "x.y")),
    (roads.predictions_are_answered, "no Predict.so_far()", replace(4, "so_far", "far")),
    (roads.predictions_are_answered, "last paragraph", add(1, "\n\nMore.")),
    (roads.claims_its_theses, "only there: ['Columns do not.']", replace(6, "do not", "may")),
    (roads.claims_its_theses, "here 2, there 3", replace(6, f"- {SENTENCES[1]}\n", "")),
    (rules.closes_well, "'Three questions'", replace(6, "## Three questions\n", "")),
    (rules.closes_well, "in this order", replace(6, "## Appendix", "## More")),
    (rules.closes_well, "'Exercises' is empty", replace(6, "None.\n## Side", "## Side")),
]
BROKEN_SIDE_ROADS: list[tuple[Callable[..., list[str]], str, Breaks]] = [
    (roads.names_its_thesis, "of [chapter 98]", replace(0, "../98", "../97")),
    (roads.names_its_thesis, "quotes no thesis", replace(0, "looks back", "looks away")),
]


@pytest.mark.usefixtures("sample_theses")
def test_each_rule_fires() -> None:
    for made, cases in ((main_road, BROKEN), (side_road, BROKEN_SIDE_ROADS)):
        for rule, told, breaks in cases:
            notebook = made()
            breaks(notebook)
            assert told in "\n".join(rule(notebook)), (rule.__name__, told)
    shown = {rule for rule, _, _ in (*BROKEN, *BROKEN_SIDE_ROADS)}
    assert shown >= {*roads.MAIN_ROAD, roads.names_its_thesis}


def test_a_thesis_that_lacks_something_is_named() -> None:
    here = "tests/chapters/test_roads.py::test_what_is_counted"
    good = {"sentence": "It is.", "control": "It is not.", "sure": "3 seeds", "test": here}
    good |= {"models": {"minilm": "holds, in 3 of 3", "smollm2": "not asked"}, "shown": "a-cell"}
    assert roads.thesis_is_whole(good) == []
    for told, change in (
        ("'control'", {"control": ""}),
        ("'more'", {"more": "x"}),
        ("no model is called 'gpt-9'", {"models": {"gpt-9": "holds"}}),
        ("begins with none", {"models": {"minilm": "mostly holds"}}),
        ("not what Gemma 3 says", {"models": {"smollm2": "holds"}}),
        ("no test is called", {"test": f"{here}_not"}),
        ("no test is called", {"test": "tests/chapters/test_nowhere.py::test_it"}),
        ("no test is called", {"test": "tests/chapters/test_roads.py::replace"}),
    ):
        assert told in "\n".join(roads.thesis_is_whole(good | change)), told
