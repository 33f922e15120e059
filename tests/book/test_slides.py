"""Every slide of every chapter in a browser: it fits, and the last row can read it."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from chapter_rules import CHAPTERS, chapter_paths
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from book.lecture import lecture

pytestmark = [pytest.mark.browser, pytest.mark.long]
SIZES = [{"width": 1280, "height": 720}, {"width": 1024, "height": 768}]  # of two shapes
NAMES = [path.stem for path in chapter_paths()]
MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")


def shown(page: Any, decks: Path, name: str, words: str = "") -> Any:
    """The page, with a deck on it."""
    page.set_viewport_size(SIZES[0])
    page.goto(f"{(decks / f'{name}.html').as_uri()}{words}")
    page.wait_for_function("window.ready === true", timeout=60_000)
    return page


def test_every_slide_of_every_chapter_fits(page: Any, decks: Path, record_property: Any) -> None:
    found, wrong = {}, []
    for path in chapter_paths():
        shown(page, decks, path.stem)
        for size in SIZES:
            page.set_viewport_size(size)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
            found[path.stem], complaints = page.evaluate(MEASURE)
            wrong += [f"{size}, {complaint}" for complaint in complaints]
    assert page.asked == []
    assert page.errors == []
    record_property("slides", {name: len(kinds) for name, kinds in found.items()})
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (".sheet > h2 { font-size: 9rem !important; }", "is cut by|out of its place"),
        (".asked { font-size: 1.4rem !important; }", "DIV asked in 22"),
        (".question { font-size: 9rem !important; }", "no room under the question"),
        (".body img { height: 18rem !important; flex: none !important; }", "a figure of"),
        (".sheet details > :not(summary) { display: none }", ""),
    ],
)
def test_what_does_not_fit_is_named(page: Any, decks: Path, break_it: str, said: str) -> None:
    shown(page, decks, "00_start_here")
    page.add_style_tag(content=break_it)
    _, wrong = page.evaluate(MEASURE)
    assert re.search(said, " ".join(wrong))
    assert bool(wrong) == bool(said), wrong


def kinds_of(decks: Path, name: str) -> list[str]:
    """What the slides of a deck show, in order."""
    return re.findall(r'<div class="sheet (\w+)">', (decks / f"{name}.html").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_most_of_a_deck_is_to_be_looked_at(decks: Path, name: str) -> None:
    kinds = kinds_of(decks, name)
    assert (kinds[0], kinds[-1]) == ("title", "claims")
    assert 12 <= len(kinds) <= 30, kinds
    seen = sum(kind in ("figure", "table", "printed") for kind in kinds)
    assert seen >= len(kinds) / 2, kinds


@pytest.mark.parametrize("name", NAMES)
def test_code_stands_on_a_slide_only_if_its_cell_is_tagged(decks: Path, name: str) -> None:
    cells = nbformat.read(CHAPTERS / f"{name}.ipynb", as_version=4).cells
    tagged = ["slide" in c.metadata.get("tags", []) for c in cells if c.cell_type == "code"]
    shown = re.sub(
        r"<details.*?</details>", "", (decks / f"{name}.html").read_text("utf-8"), flags=re.S
    )
    assert shown.count('<pre class="code">') == kinds_of(decks, name).count("code") <= sum(tagged)
    for slide in shown.split("<section>")[1:]:
        title = re.findall(r"<h[12]>(.*?)</h[12]>", slide, re.S)[0]
        assert title.strip(), slide[:200]
        alone = '<pre class="text' in slide and '"sheet code"' not in slide
        assert not alone or len(title.split()) > 2, "what is printed stands under a sentence"


def turned_to(page: Any, what: str) -> Any:
    """The number of the first slide with something, which is shown now."""
    return page.evaluate(
        """(what) => { const one = document.querySelector(what).closest("section");
        const { h } = Reveal.getIndices(one); Reveal.slide(h); return h; }""",
        what,
    )


def turned_to_a_view(page: Any) -> Any:
    """The number of the first slide with a view, which is shown now, with nothing over it."""
    at = turned_to(page, ".body .attn:has(input)")
    if page.locator("section.present .cover:not(.visible)").count():
        page.keyboard.press("PageDown")
    return at


def test_the_next_key_uncovers_what_a_question_asks_about(page: Any, decks: Path) -> None:
    shown(page, decks, "04_self_attention")
    at = turned_to(page, ".figure .cover")
    slide = page.locator("section.present")
    cover, body, heading = slide.locator(".cover"), slide.locator(".body"), slide.locator("h2")
    assert cover.locator(".question").is_visible()
    assert body.evaluate("node => node.inert"), "the keyboard cannot reach what is covered"
    on_top = "node => { const { x, y, width, height } = node.getBoundingClientRect();"
    on_top += "return node.contains(document.elementFromPoint(x + width / 2, y + height / 2)); }"
    assert not body.evaluate(on_top)
    page.keyboard.press("c")
    assert page.locator("dialog[open]").count() == 0, "the code would tell the answer"
    page.keyboard.press("PageDown")
    assert page.evaluate("Reveal.getIndices().h") == at
    assert not cover.is_visible()
    assert heading.is_visible()
    assert body.evaluate(on_top)
    assert not body.evaluate("node => node.inert")
    page.keyboard.press("PageDown")
    assert page.evaluate("Reveal.getIndices().h") == at + 1
    page.keyboard.press("PageUp")
    assert not cover.is_visible(), "going back shows the figure"
    page.keyboard.press("PageUp")
    assert cover.is_visible()
    page.evaluate("Reveal.toggleOverview(true)")
    assert not cover.is_visible(), "all slides at a glance are uncovered"


def test_a_prediction_is_answered_under_its_question_and_revealed_where_nothing_is_drawn() -> None:
    def view(name: str) -> Any:
        data = {"text/html": f'<div class="attn-live">{name}</div>'}
        return new_code_cell("Predict", id=name, outputs=[new_output("display_data", data)])

    def told(text: str) -> Any:
        return new_markdown_cell(text)

    drawn = new_code_cell("draw", outputs=[new_output("display_data", {"text/html": "<img>"})])
    cells = [told("# 01 · A chapter\n*Why?*"), told("## A section"), told("**Predict.** How many?")]
    cells += [view("ask"), view("truth"), told("**Notice.** There are twelve.")]
    guesses = {(name, 0): name for name in ("ask", "truth")}
    slide = lecture(new_notebook(cells=cells), guesses)[1]
    assert (slide.title, slide.kind) == ("There are twelve", "figure")
    assert ">ask<" in slide.cover
    assert ">truth<" not in slide.cover
    assert ">truth<" in slide.body
    both = told("**Notice.** There are six.\n\n**Predict.** How many?")
    slides = lecture(new_notebook(cells=[*cells[:2], drawn, both, *cells[3:]]), guesses)
    assert [bool(slide.cover) for slide in slides] == [False, False, True], "one cell, two steps"
    slide = lecture(new_notebook(cells=[*cells[:5], drawn, cells[5]]), guesses)[1]
    assert "<img>" in slide.body
    assert ">truth<" not in slide.body, "the figure has the room"


def deck_of(*cells: Any) -> list[tuple[str, str]]:
    """Kind and title of the slides of one section, the title slide apart."""
    first = [new_markdown_cell("# 01 · A chapter\n*Why?*"), new_markdown_cell("## A section")]
    return [(made.kind, made.title) for made in lecture(new_notebook(cells=[*first, *cells]), {})][
        1:
    ]


def cell_of(output: Any, **metadata: Any) -> Any:
    """A cell of code that shows a picture, or prints a text."""
    if output == "<img>":
        made = new_output("display_data", {"text/html": output})
    else:
        made = new_output("stream", text=output)
    return new_code_cell("draw()", outputs=[made] if output else [], metadata=metadata)


def test_a_notice_is_about_what_follows_the_last_code_and_a_drawing_keeps_its_own_title() -> None:
    drawing = [new_markdown_cell("A layer has four heads. Here they are."), cell_of("<img>")]
    code = [new_markdown_cell("In code heads are an axis."), cell_of("", tags=["slide"])]
    sums = new_markdown_cell("The layer is a sum over its heads:\n\n$$x$$\n\nWhich can merge?")
    notice = new_markdown_cell("**Notice.** Two products matter.")
    own = [("figure", "A layer has four heads"), ("code", "In code heads are an axis")]
    assert deck_of(*drawing, *code, sums, notice) == [*own, ("formula", "Two products matter")]
    assert deck_of(*drawing, *code, cell_of("<img>"), notice)[2] == (
        "figure",
        "Two products matter",
    )
    assert deck_of(*drawing, *code, cell_of("2 of 4"), notice) == [
        *own,
        ("printed", "Two products matter"),
    ]


def test_what_a_title_leaves_out_of_its_sentence_stands_under_it() -> None:
    said = "Only two products matter in a layer: one decides where each of its heads may look."
    told = new_markdown_cell(f"**Notice.** {said[:-1]}, and the other what a head carries over.")
    cells = [new_markdown_cell("# 01 · A chapter\n*Why?*"), new_markdown_cell("## A section")]
    slide = lecture(new_notebook(cells=[*cells, cell_of("2 of 4"), told]), {})[1]
    assert slide.title == "Only two products matter in a layer"
    assert "<p>One decides where each of its heads may look, and" in slide.body


def test_a_title_in_the_metadata_of_a_cell_counts() -> None:
    notice = new_markdown_cell("**Notice.** It counts.")
    drawn = cell_of("<img>", title="Both ways tell that there are two")
    made = deck_of(cell_of("<img>"), notice, drawn)
    assert made == [("figure", "It counts"), ("figure", "Both ways tell that there are two")]


def test_a_tagged_list_has_a_slide() -> None:
    told = "A look-up is learned:\n\n- a query asks;\n- a key is found."
    assert deck_of(new_markdown_cell(told, metadata={"tags": ["slide"]}), cell_of("<img>"))[0] == (
        "list",
        "A look-up is learned",
    )


def test_a_section_with_nothing_but_a_folded_table_shows_the_table() -> None:
    table = "<details><summary>All</summary>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n</details>"
    told = new_markdown_cell(f"Models change in eight ways.\n\n{table}")
    assert deck_of(told) == [("table", "Models change in eight ways")]


def test_a_question_shows_the_prompt_that_it_asks_about(decks: Path) -> None:
    told = (decks / "15_causes.html").read_text(encoding="utf-8")
    first = re.search(r'<div class="question">(.*?)</div>', told, re.S)
    assert first is not None
    assert "When Mary and John went to the store" in first[1]
    printed = told.split('"sheet printed"')[1].partition("</section>")[0]
    assert "<blockquote><em>When Mary" in printed, "numbers that answer no question show it, too"


def test_arrow_keys_move_a_slider_and_not_the_slide(page: Any, decks: Path) -> None:
    shown(page, decks, "00_start_here")
    at = turned_to_a_view(page)
    view = page.locator("section.present .attn").last
    canvas, slider = view.locator(".attn-stage > canvas"), view.locator("input").first
    before, value = canvas.evaluate("node => node.toDataURL()"), slider.input_value()
    slider.press("ArrowRight")
    assert slider.input_value() != value
    assert canvas.evaluate("node => node.toDataURL()") != before
    for key in ("ArrowLeft", "ArrowDown", "ArrowUp", "Space", "n"):
        slider.press(key)
    assert page.evaluate("Reveal.getIndices().h") == at


def test_a_game_is_whole_on_its_slide_to_its_end(page: Any, decks: Path) -> None:
    shown(page, decks, "15_causes")
    turned_to(page, ".body .suspects")
    page.keyboard.press("PageDown")  # takes the question away
    slide = page.locator("section.present")
    for at in ("24 · head 4", "23 · head 0", "29 · head 1"):
        slide.locator(f'[aria-label^="layer {at}:"]').click()
        slide.get_by_role("button", name="more likely").click()
    assert slide.locator(".moral").is_visible()
    hidden = "body => body.scrollHeight - body.clientHeight"
    page.wait_for_timeout(100)  # its text is fitted in the next frame
    assert slide.locator(".body").evaluate(hidden) <= 1


@pytest.mark.parametrize("name", ["00_start_here", "04_self_attention"])
def test_a_map_has_the_room_of_its_slide(page: Any, decks: Path, name: str) -> None:
    shown(page, decks, name)
    count = page.evaluate("Reveal.getTotalSlides()")
    highs = []
    for number in range(count):
        page.evaluate("number => Reveal.slide(number, 0, 0)", number)
        maps = page.locator("section.present .body .attn-stage > canvas").all()
        highs += [box["height"] for box in (one.bounding_box() for one in maps) if box]
    assert highs
    assert min(highs) > 0.65 * SIZES[0]["height"], highs


def test_a_clicker_turns_the_page_after_a_view_was_moved_by_hand(page: Any, decks: Path) -> None:
    shown(page, decks, "04_self_attention")
    at = turned_to_a_view(page)
    slider = page.locator("section.present .body .attn input").first
    for touched in (slider, page.locator("section.present .body .attn button").first):
        touched.click()
        value = slider.input_value()
        for key, slide in (("PageDown", at + 1), ("PageUp", at)):
            page.keyboard.press(key)
            assert page.evaluate("Reveal.getIndices().h") == slide
        assert slider.input_value() == value


def test_c_opens_the_code_of_a_slide(page: Any, decks: Path) -> None:
    shown(page, decks, "01_ngram")
    slide = page.locator("section", has=page.locator("summary", has_text="Code"))
    slide.filter(has_not=page.locator(".cover")).first.evaluate(
        "node => Reveal.slide(Reveal.getIndices(node).h)"
    )
    page.keyboard.press("c")
    opened = page.locator("dialog[open]")
    size = opened.evaluate("node => getComputedStyle(node.querySelector('pre')).fontSize")
    assert float(size.removesuffix("px")) >= 24
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    with_output = page.locator("section", has=page.locator("summary", has_text="Output"))
    with_output.filter(has_not=page.locator('summary:text-is("Code")')).first.evaluate(
        "node => Reveal.slide(Reveal.getIndices(node).h, 0, 0)"
    )
    page.keyboard.press("c")
    assert page.locator("dialog[open]").count() == 0, "a slide without code has none to open"
    page.locator("section.present summary", has_text="Output").click()
    assert page.locator("dialog[open]").count() == 1


def folds_of(*cells: Any) -> list[list[tuple[str, str]]]:
    """The folds of each slide of one section: what opens them, and the text in them."""
    first = [new_markdown_cell("# 01 · A chapter\n*Why?*"), new_markdown_cell("## A section")]
    told = []
    for slide in lecture(new_notebook(cells=[*first, *cells]), {})[1:]:
        folds = re.findall(r"<summary>(.*?)</summary>(.*?)</details>", "".join(slide.folds), re.S)
        told.append([(name, re.sub("<.*?>", "", inside).strip()) for name, inside in folds])
    return told


def test_behind_a_slide_stands_the_code_of_what_it_shows() -> None:
    first, second, later = (cell_of("<img>"), cell_of("<img>"), cell_of(""))
    first.source, second.source, later.source = "first()", "second()", "later()"
    table = new_markdown_cell("Line by line:\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    notice = new_markdown_cell("**Notice.** It counts.")
    codes = [[("Code", "first()")], [("Code", "second()")]]
    assert folds_of(first, second, later) == codes, "no slide shows what comes later"
    assert folds_of(first, notice, second) == codes
    assert folds_of(table, first) == [[], [("Code", "first()")]]
    asked = new_markdown_cell("**Predict.** How many?")
    assert folds_of(asked, first, later, notice, second) == [
        [("Code", "first()\n\nlater()")],
        [("Code", "second()")],
    ]


def test_what_folded_code_printed_is_called_output() -> None:
    drawn, counted = cell_of("<img>"), cell_of("2 of 4\n3 of 4")
    for cell in (drawn, counted):
        cell.metadata["jupyter"] = {"source_hidden": True}
    assert folds_of(counted, drawn) == [[("Output", "2 of 4\n3 of 4")]]
    del counted.metadata["jupyter"]
    assert folds_of(counted, drawn) == [[("Code", "draw()\n\n# 2 of 4\n# 3 of 4")]]


@pytest.mark.parametrize("name", NAMES)
def test_notes_keep_a_lecture_and_answer_what_is_asked(decks: Path, name: str) -> None:
    told = (decks / f"{name}.html").read_text(encoding="utf-8")
    slides = told.split("<section>")[1:]
    notes = [slide.partition('<aside class="notes">')[2] for slide in slides]
    spans = [re.findall(r"(\d+):(\d\d)", text.partition("</p>")[0]) for text in notes]
    clock = [[60 * int(minutes) + int(seconds) for minutes, seconds in span] for span in spans]
    assert [begin for begin, _, _ in clock[1:]] == [end for _, end, _ in clock[:-1]]
    assert clock[0][0] == 0
    answers = re.findall(r"<strong>Answer.</strong>[^<]*", told)
    assert len(set(answers)) == len(answers), "predictions have answers of their own"
    assert clock[-1][1] == clock[-1][2] <= 45 * 60
    for slide, text, (begin, end, _) in zip(slides, notes, clock, strict=True):
        asks, draws = 'class="cover' in slide, 'class="sheet figure"' in slide
        assert end - begin >= 30 * (asks + draws), "a room votes, and looks"
        assert asks == ("<strong>Question.</strong>" in text), text
        assert ("<img" in slide) == ("<strong>To see.</strong>" in text), text


def test_notes_of_a_section_stand_on_its_slides(decks: Path) -> None:
    told = (decks / "04_self_attention.html").read_text(encoding="utf-8")
    slides: dict[str, str] = {}
    for slide in told.split("<section>")[2:]:
        topic = re.findall("<footer><span>(.*?)</span>", slide)[0]
        slides[topic] = slides.get(topic, "") + slide
    assert "one after the other" in slides["What it costs"]
    assert "one after the other" not in slides["Why divide by √d_k?"]
    assert "You will be able to" in told.split("<section>")[1]
    assert len(re.sub("<.*?>", " ", told).split()) > 2_000, "the prose is with the lecturer"


def test_on_paper_two_slides_stand_on_a_page_over_their_notes(page: Any, decks: Path) -> None:
    shown(page, decks, "00_start_here", "?print")
    slides = page.locator(".sheet").count()
    assert page.locator("aside.notes").filter(visible=True).count() == slides
    assert page.locator(".cover").filter(visible=True).count() == 0
    cut = """all => all.filter((view) => view.getBoundingClientRect().height >
        view.closest(".sheet").getBoundingClientRect().height * 0.9).length"""
    assert page.locator(".attn").evaluate_all(cut) == 0
    written = page.pdf(prefer_css_page_size=True, tagged=False)
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", written))
    assert slides / 2 <= pages <= slides * 0.75, (slides, pages)


def test_every_deck_is_listed(decks: Path) -> None:
    listed = (decks / "index.html").read_text(encoding="utf-8")
    for path in chapter_paths():
        assert f'href="{path.stem}.html"' in listed
