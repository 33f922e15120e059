"""What every chapter looks like, and that each rule fires on a chapter that breaks it.

For authors, what the rules in tools/chapter_rules.py ask of chapters/NN_name.ipynb:

- First cell: `# NN · Title`; next line `*One question?*`; `**You will be able to**` with 3 to 5
  bullets; `**You need** …`; `**Time** 40 min to read · 35 s to run on two cores`, at most 80 s.
- Heading levels step by one, and only the title has level 1. A cell that only draws or
  measures is folded (metadata jupyter.source_hidden). No line of code is longer than 88, and no
  comment talks to a tool. There are a **Predict**, a **Notice**, and a slider (AttentionView,
  explore or Frames).
- A cell whose code is the idea is tagged "slide", and has one in the lecture.
- The last headings are those of test_roads.py, none empty.
- A reference is an item of the list under References; it tells the year and ends with its key in
  references.bib in backticks: "- Elman (1990), *Finding Structure in Time*. `elman1990`".
- Alt text of 20 characters or more, without braces: in Markdown, and for an output picture in its
  metadata, {"image/png": {"alt": "…"}}, where the helpers of attnlib.plots put it.
- Nothing that ties the chapter to a machine: no path hacks, %pip, fetching, absolute paths,
  memory addresses, widget ids, timing metadata, stderr. `make chapters` executes and cleans.
"""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import chapter_rules as rules
import chapter_tools as tools
import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

Rule = Callable[[NotebookNode], list[str]]
FIRST_FIVE = ("00_start_here", "01_ngram", "02_rnn", "03_bahdanau", "04_self_attention")
HEADER = """\
# 02 · A sample
*Does the style test fire?*

**You will be able to**
- predict
- run
- explain

**You need** nothing.

**Time** 5 min to read · 12 s to run on two cores"""
CLOSE = """\
## What to remember
All of it.
## Three questions
Why? How? When?
## Exercises
None yet.
## Side roads
None.
## References
- Elman (1990), *Finding Structure in Time*. `elman1990`"""


def sample() -> NotebookNode:
    """A small chapter that keeps every rule."""
    picture = new_output(
        "display_data",
        data={"image/png": "iVBORw0KGgo=", "text/plain": "AttentionView(1 layer)"},
        metadata={"image/png": {"alt": "Heat map of one head: each row looks at its left"}},
    )
    cells = [
        new_markdown_cell(HEADER),
        new_markdown_cell("## A step\n**Predict.** What will it show?\n```\n# no heading\n```"),
        new_code_cell(
            "from attnlib.widgets import explore\nexplore(trace)",
            execution_count=1,
            outputs=[picture],
        ),
        new_markdown_cell("### A closer look\n**Notice.** It shows it."),
        new_markdown_cell(CLOSE),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    notebook = new_notebook(cells=cells)
    return tools.stamped(notebook)


def test_the_chapters_are_there() -> None:
    found = [path.stem for path in rules.chapter_paths()]
    assert set(FIRST_FIVE) <= set(found), f"chapters/ holds only {found}"


@pytest.fixture(scope="module")
def chapters() -> dict[str, NotebookNode]:
    """Every chapter, read once."""
    paths = rules.chapter_paths()
    return {path.name: nbformat.read(path, as_version=nbformat.NO_CONVERT) for path in paths}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_every_chapter_keeps_the_rule(chapters: dict[str, NotebookNode], rule: Rule) -> None:
    assert {name: found for name, one in chapters.items() if (found := rule(one))} == {}
    assert rule(sample()) == []


def replace(cell: int, old: str, new: str) -> Callable[[NotebookNode], object]:
    """A way to break a chapter: other text in one of its cells."""

    def breaks(notebook: NotebookNode) -> None:
        assert old in notebook.cells[cell].source
        notebook.cells[cell].source = notebook.cells[cell].source.replace(old, new)

    return breaks


def code(source: str) -> Callable[[NotebookNode], object]:
    """A way to break a chapter: other code in its only code cell."""
    return lambda notebook: notebook.cells[2].update(source=source)


def fold(cell: NotebookNode, source: str = "x = 1") -> None:
    """Hide the code of a cell."""
    cell.update(source=source)
    cell.metadata["jupyter"] = {"source_hidden": True}


def output(**fields: object) -> Callable[[NotebookNode], object]:
    """A way to break a chapter: one more output of its only code cell."""
    return lambda notebook: notebook.cells[2].outputs.append(new_output(**fields))


def shown(**data: str) -> Callable[[NotebookNode], object]:
    """A way to break a chapter: one more result of its only code cell."""
    kinds = {kind.replace("_", "/", 1): value for kind, value in data.items()}
    return output(output_type="display_data", data=kinds)


BROKEN = [
    (rules.format_is_valid, "4.5", lambda n: n.update(nbformat_minor=4)),
    (rules.format_is_valid, "share an id", lambda n: n.cells[1].update(id="cell-0")),
    (rules.format_is_valid, "not a valid", lambda n: n.cells[1].update(source=3)),
    (rules.header_is_complete, "Title", replace(0, "# 02 · A sample", "# A sample")),
    (rules.header_is_complete, "question", replace(0, "fire?", "fire.")),
    (rules.header_is_complete, "Time", replace(0, "12 s to run", "some seconds to run")),
    (rules.header_is_complete, "at most 80 s", replace(0, "12 s", "81 s")),
    (rules.header_is_complete, "3 to 5", replace(0, "- run\n", "")),
    (rules.header_is_complete, "You need", replace(0, "**You need**", "You need")),
    (rules.headings_step, "from 1 to 3", replace(1, "## A step", "### A step")),
    (rules.headings_step, "only the title", replace(1, "## A step", "# A step")),
    (rules.code_fits_a_slide, "line of 89", code(f"x = 1  # {'x' * 80}")),
    (rules.code_fits_a_slide, "line of 89", lambda n: fold(n.cells[2], f"x = 1  # {'x' * 80}")),
    (rules.code_fits_a_slide, "fmt: skip", code("x = [1,\n     2]  # fmt: skip")),
    (rules.asks_and_tells, "Predict", replace(1, "**Predict.**", "Think.")),
    (rules.asks_and_tells, "Notice", replace(3, "**Notice.**", "See.")),
    (rules.has_a_slider, "no slider", code("print(1)")),
    (rules.closes_well, "Three questions", replace(4, "## Three questions\n", "")),
    (rules.closes_well, "order", replace(4, "## References\n", "## References\n## More\n")),
    (rules.closes_well, "empty", replace(4, "None yet.", "")),
    (rules.was_executed, "not executed", lambda n: n.cells[2].update(execution_count=None)),
    (rules.was_executed, "other code", code("explore(other)")),
    (
        rules.was_executed,
        "ZeroDivisionError",
        output(output_type="error", ename="ZeroDivisionError", evalue="", traceback=[]),
    ),
    (rules.outputs_are_clean, "stderr", output(output_type="stream", name="stderr", text="10 %")),
    (rules.outputs_are_clean, "address", shown(text_plain="<object at 0x7f3a12bc00>")),
    (
        rules.outputs_are_clean,
        "widget",
        output(output_type="display_data", data={"application/vnd.jupyter.widget-view+json": {}}),
    ),
    (rules.images_have_alt, "too short", shown(image_png="iVBORw0KGgo=")),
    (rules.images_have_alt, "image/svg+xml: alt text too", shown(**{"image_svg+xml": "<svg/>"})),
    (rules.images_have_alt, "too short", lambda n: n.cells[2].outputs[0].metadata.clear()),
    (rules.images_have_alt, "image/jpeg: alt text too short", shown(image_jpeg="/9j/")),
    (rules.images_have_alt, "too short", replace(3, "It shows", "![map](map.png) It shows")),
    (rules.images_have_alt, "nothing", replace(3, "It", "![Image               1](m.png)")),
    (
        rules.images_have_alt,
        "without its f",
        replace(3, "It", "![Scores by head: {'; '.join(told)}](m.png) It"),
    ),
    (
        rules.images_have_alt,
        "braces",
        lambda n: n.cells[2].outputs[0].metadata["image/png"].update(alt="Scores: {mean:.2f} nats"),
    ),
    (rules.uses_no_hacks, "%pip", code("%pip install torch")),
    (rules.uses_no_hacks, "!pip", code("!pip install torch")),
    (rules.uses_no_hacks, "sys.path", code("import sys\nsys.path.append('..')")),
    (rules.uses_no_hacks, "fetch", code("text = requests.get(address).text")),
    (rules.uses_no_hacks, "fetch", code("page = open_page('https://example.org')")),
    (rules.names_no_absolute_path, "/home/", code("open('/home/me/reviews.csv')")),
    (rules.names_no_absolute_path, "/tmp/", shown(text_plain="saved in /tmp/map.png")),
    (rules.names_no_absolute_path, "C:", code(r"open('C:\reviews.csv')")),
    (rules.metadata_is_lean, "widgets", lambda n: n.metadata.update(widgets={})),
    (rules.metadata_is_lean, "execution", lambda n: n.cells[2].metadata.update(execution={})),
    (rules.references_are_known, "nobody1900", replace(4, "elman1990", "nobody1900")),
    (rules.references_are_known, "no key", replace(4, " `elman1990`", "")),
    (rules.references_are_known, "is of 1990", replace(4, "(1990)", "(1991)")),
    (rules.references_are_known, "needs a list", replace(4, "- Elman", "Elman")),
    (rules.is_small, "1.1 MB", shown(text_plain="x" * 1_100_000)),
]


@pytest.mark.parametrize(("rule", "told", "breaks"), BROKEN)
def test_the_rule_fires(rule: Rule, told: str, breaks: Callable[[NotebookNode], object]) -> None:
    notebook = sample()
    breaks(notebook)
    assert told in "\n".join(rule(notebook))


def test_a_cell_that_only_draws_may_be_long_if_it_is_folded() -> None:
    notebook = sample()
    drawing = copy.deepcopy(notebook.cells[2])
    fold(drawing, "x = 1\n" * 30)
    notebook.cells.insert(3, drawing)
    assert rules.code_fits_a_slide(notebook) == []


def test_every_rule_is_shown_to_fire() -> None:
    assert {rule for rule, _, _ in BROKEN} == set(rules.RULES)


def test_the_bibliography_has_no_double_and_no_gap() -> None:
    text = (rules.ROOT / "references.bib").read_text(encoding="utf-8")
    assert text.count("\n@") == len(rules.bibliography())


def test_the_course_map_of_the_readme_is_current() -> None:
    text = tools.README.read_text(encoding="utf-8")
    told = tools.with_tables(text)
    assert text == told, "the README's tables differ from the headers: run make chapters"


def test_the_course_map_quotes_the_headers(tmp_path: Path) -> None:
    path = tmp_path / "02_sample.ipynb"
    nbformat.write(sample(), path)
    row = tools.course_map([path]).splitlines()[-1]
    assert row == (
        "| [02 · A sample](chapters/02_sample.ipynb) | Does the style test fire? | 5 min | 12 s |"
    )


def test_a_map_without_its_place_in_the_readme_is_an_error() -> None:
    with pytest.raises(ValueError, match="course map"):
        tools.with_map("# A README with no markers", "| map |")


def test_measured_seconds_go_into_the_header_and_nowhere_else() -> None:
    before = sample()
    after = tools.with_seconds(before, 31.2)
    assert rules.header(after).run == 35
    assert rules.header(before).run == 12
    assert [c.source for c in after.cells[1:]] == [c.source for c in before.cells[1:]]


@pytest.mark.parametrize(("seconds", "told"), [(0.4, 1), (7.2, 8), (10, 10), (10.1, 15), (31, 35)])
def test_measured_seconds_are_rounded_up(seconds: float, told: int) -> None:
    assert tools.rounded(seconds) == told


def test_a_chapter_is_stale_when_its_code_or_the_library_changed() -> None:
    fresh = sample()
    assert not tools.is_stale(fresh)
    retold = sample()
    retold.cells[3].source += " And more."
    assert not tools.is_stale(retold)
    recoded = sample()
    recoded.cells[2].source += "\nprint(1)"
    assert tools.is_stale(recoded)
    old_library = sample()
    old_library.metadata.attnlib.library = "another"
    assert tools.is_stale(old_library)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that may be changed, in place of the course's."""
    left_out = shutil.ignore_patterns("*.safetensors", "__pycache__")
    copied = shutil.copytree(rules.ROOT / "attnlib", tmp_path / "attnlib", ignore=left_out)
    monkeypatch.setattr(tools, "LIBRARY", copied)
    return copied


@pytest.mark.parametrize(
    "file", ["explain/saliency.py", "checkpoints/rt-lstm.json", "widgets/widgets.css"]
)
def test_a_chapter_is_stale_when_the_library_changed(library: Path, file: str) -> None:
    chapter = tools.stamped(new_notebook(cells=[new_code_cell("x = 1")]))
    assert not tools.is_stale(chapter)
    with (library / file).open("a", encoding="utf-8") as changed:
        changed.write("\n")
    assert tools.is_stale(chapter)


def test_cleaning_keeps_ids_slides_and_fallbacks_and_drops_the_rest() -> None:
    notebook = sample()
    notebook.metadata.update(widgets={"state": 1}, jupytext={}, kernelspec={"name": "mine"})
    notebook.cells[2].metadata.update(execution={"iopub.status.busy": "now"}, tags=["slide"])
    notebook.cells[2].metadata.update(slideshow={"slide_type": "slide"})
    notebook.cells[2].outputs[0].data["application/vnd.jupyter.widget-view+json"] = {"model_id": 1}
    clean = tools.cleaned(notebook)
    assert rules.metadata_is_lean(clean) == rules.outputs_are_clean(clean) == []
    assert [c.id for c in clean.cells] == [c.id for c in notebook.cells]
    assert clean.cells[2].metadata == {"tags": ["slide"]}
    assert set(clean.cells[2].outputs[0].data) == {"image/png", "text/plain"}
    assert clean.metadata.kernelspec.name == "python3"
    assert "widgets" in notebook.metadata, "the argument is left as it was"


@pytest.mark.ci
def test_executing_writes_a_chapter_that_keeps_the_rules(tmp_path: Path) -> None:
    notebook = sample()
    notebook.cells[2].source = "print(6 * 7)"
    path = tmp_path / "02_sample.ipynb"
    nbformat.write(notebook, path)
    result, _, seconds = tools.executed(path)
    assert result.cells[2].outputs[0].text == "42\n"
    assert rules.was_executed(result) == rules.metadata_is_lean(result) == []
    assert [c.id for c in result.cells] == [c.id for c in notebook.cells]
    assert seconds > 0


@pytest.mark.slow
def test_a_kernel_finds_the_network_cut(tmp_path: Path) -> None:
    notebook = new_notebook(
        cells=[
            new_code_cell("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=30)")
        ]
    )
    path = tmp_path / "02_online.ipynb"
    nbformat.write(notebook, path)
    with pytest.raises(Exception, match=r"network cut, and something asked for '192\.0\.2\.1'"):
        tools.executed(path)


def test_cleaning_drops_progress_bars_and_joins_streams() -> None:
    notebook = sample()
    bar = new_output("display_data", data={"text/plain": "  0%|          | 0/300 [00:00<?]"})
    parts = [new_output("stream", name="stdout", text=text) for text in ("one\n", "two\n")]
    notebook.cells[2].outputs = [bar, *parts, notebook.cells[2].outputs[0]]
    stream, picture = tools.cleaned(notebook).cells[2].outputs
    assert stream.text == "one\ntwo\n"
    assert "image/png" in picture.data
    assert len(notebook.cells[2].outputs) == 4, "the argument is left as it was"


def test_the_state_of_views_is_kept_outside_the_chapter() -> None:
    notebook = sample()
    seen = {tools.VIEW: {"index": [1]}, "text/plain": "a view"}
    notebook.cells[2].outputs.append(new_output("display_data", data=seen))
    result, views = tools.parted(notebook)
    assert views == {notebook.cells[2].id: {"1": {"index": [1]}}}
    assert set(result.cells[2].outputs[1].data) == {"text/plain"}
    assert tools.VIEW in notebook.cells[2].outputs[1].data, "the argument is left as it was"


def test_stored_views_belong_to_this_code_and_to_this_run_or_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "VIEWS", tmp_path / "views")
    path = tmp_path / "02_sample.ipynb"
    ran = tools.stamped(sample())
    cell = ran.cells[2]
    shown, cell.outputs = cell.outputs, []
    nbformat.write(ran, path)
    assert tools.kept_views(path) == {}, "it shows none"
    cell.outputs = shown
    nbformat.write(ran, path)
    assert tools.kept_views(path) is None, "its view is not stored"
    views = {cell.id: {"0": {"index": [1]}}}
    tools.keep_views("02_sample", tools.Executed(ran, views, 1.0))
    assert tools.kept_views(path) == views
    elsewhere = tools.stamped(ran)
    elsewhere.metadata.attnlib.library = "another"
    nbformat.write(elsewhere, path)  # ours was run with the library as it is
    assert tools.kept_views(path) == views
    tools.keep_views("02_sample", tools.Executed(elsewhere, views, 1.0))
    assert tools.kept_views(path) == views  # of the same run as what is stored
    nbformat.write(ran, path)
    assert tools.kept_views(path) is None
    for wrong in ({cell.id: {"9": {}}}, {cell.id: {**views[cell.id], "9": {}}}):
        tools.keep_views("02_sample", tools.Executed(ran, wrong, 1.0))
        assert tools.kept_views(path) is None, "the view is of another output"
    tools.keep_views("02_sample", tools.Executed(ran, views, 1.0))
    cell.source += "  # changed"
    nbformat.write(ran, path)
    assert tools.kept_views(path) is None
    tools.keep_views("02_sample", tools.Executed(ran, {}, 1.0))
    assert not list((tmp_path / "views").iterdir()), "a chapter without views has no file"


@pytest.mark.parametrize(
    "path", [*rules.chapter_paths(), *rules.side_roads()], ids=lambda p: p.stem
)
def test_the_views_of_a_chapter_are_stored_with_it(path: Path) -> None:
    views = tools.kept_views(path)
    assert views is not None, f"make chapters NAMES={path.stem} stores them"
    assert (tools.VIEWS / f"{path.stem}.json").exists() == bool(views)


def test_every_file_of_views_has_its_chapter() -> None:
    chapters = {path.stem for path in (*rules.chapter_paths(), *rules.side_roads())}
    assert {path.stem for path in tools.VIEWS.iterdir()} <= chapters
