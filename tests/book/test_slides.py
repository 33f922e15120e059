"""Every slide of every chapter in a browser: it fits, and the last row can read it."""

import re
from pathlib import Path
from typing import Any

import pytest
from chapter_rules import chapter_paths

pytestmark = [pytest.mark.browser, pytest.mark.long]
SIZES = [{"width": 1280, "height": 720}, {"width": 1024, "height": 768}]  # of two shapes
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
    counts = {name: len(kinds) for name, kinds in found.items()}
    record_property("slides", counts)
    assert not wrong, "\n".join(wrong)
    assert all(15 < count <= 45 for count in counts.values()), counts
    for name, kinds in found.items():
        assert kinds[0] == "title"
        assert kinds[-1] == "claims", name
        assert min(kinds.count(kind) for kind in ("predict", "figure", "notice")) > 2, name


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (".sheet.notice > p { font-size: 6rem !important; }", "is cut by|out of the screen"),
        (".sheet.predict p { font-size: 1.4rem !important; }", "P  in 22"),
        (".sheet img { height: 20rem !important; }", "a figure of"),
        (".sheet details > :not(summary) { display: none }", ""),
    ],
)
def test_what_does_not_fit_is_named(page: Any, decks: Path, break_it: str, said: str) -> None:
    shown(page, decks, "00_start_here")
    page.add_style_tag(content=break_it)
    _, wrong = page.evaluate(MEASURE)
    assert re.search(said, " ".join(wrong))
    assert bool(wrong) == bool(said), wrong


def turned_to_a_view(page: Any) -> Any:
    """The number of the first slide with a view, which is shown now."""
    return page.evaluate(
        """() => { const one = document.querySelector(".attn").closest("section");
        const { h } = Reveal.getIndices(one); Reveal.slide(h); return h; }"""
    )


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


def test_a_clicker_turns_the_page_after_a_view_was_moved_by_hand(page: Any, decks: Path) -> None:
    shown(page, decks, "04_self_attention")
    at = turned_to_a_view(page)
    slider = page.locator("section.present .attn input").first
    for touched in (slider, page.locator("section.present .attn button").first):
        touched.click()
        value = slider.input_value()
        for key, slide in (("PageDown", at + 1), ("PageUp", at)):
            page.keyboard.press(key)
            assert page.evaluate("Reveal.getIndices().h") == slide
        assert slider.input_value() == value


def test_c_opens_the_code_of_a_slide(page: Any, decks: Path) -> None:
    shown(page, decks, "01_ngram")
    page.evaluate(
        """() => { const one = document.querySelector(".figure summary").closest("section");
        Reveal.slide(Reveal.getIndices(one).h); }"""
    )
    page.keyboard.press("c")
    opened = page.locator("dialog[open]")
    size = opened.evaluate("node => getComputedStyle(node.querySelector('pre')).fontSize")
    assert float(size.removesuffix("px")) >= 24
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("name", [path.stem for path in chapter_paths()])
def test_notes_keep_a_lecture_and_answer_what_is_asked(decks: Path, name: str) -> None:
    told = (decks / f"{name}.html").read_text(encoding="utf-8")
    slides = told.split("<section>")[1:]
    notes = [slide.partition('<aside class="notes">')[2] for slide in slides]
    spans = [re.findall(r"(\d+):(\d\d)", text.partition("</p>")[0]) for text in notes]
    clock = [[60 * int(minutes) + int(seconds) for minutes, seconds in span] for span in spans]
    assert [begin for begin, _, _ in clock[1:]] == [end for _, end, _ in clock[:-1]]
    assert clock[0][0] == 0
    answers = re.findall(r"<strong>Answer.</strong>[^<]*", told)
    assert len(set(answers)) > 1 or len(answers) < 2, "predictions have answers of their own"
    assert clock[-1][1] == clock[-1][2] <= 45 * 60
    for slide, text, (begin, end, _) in zip(slides, notes, clock, strict=True):
        asks, draws = 'class="sheet predict"' in slide, 'class="sheet figure"' in slide
        assert end - begin >= 30 * (asks or draws), "a room votes, and looks"
        assert asks == ("<strong>Answer.</strong>" in text), text
        assert ("<img" in slide) == ("<strong>To see.</strong>" in text), text


def test_notes_of_a_section_stand_on_its_slides(decks: Path) -> None:
    told = (decks / "04_self_attention.html").read_text(encoding="utf-8")
    slides = dict.fromkeys(re.findall("<h2>(.*?)</h2>", told), "")
    for slide in told.split("<section>")[2:]:
        slides[re.findall("<h2>(.*?)</h2>", slide)[0]] += slide
    assert "one after the other" in slides["What it costs"]
    assert "one after the other" not in slides["Why divide by √d_k?"]
    assert "You will be able to" in told.split("<section>")[1]
    assert len(re.sub("<.*?>", " ", told).split()) > 2_000, "the prose is with the lecturer"


def test_on_paper_two_slides_stand_on_a_page_over_their_notes(page: Any, decks: Path) -> None:
    shown(page, decks, "00_start_here", "?print")
    slides = page.locator(".sheet").count()
    assert page.locator("aside.notes").filter(visible=True).count() == slides
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
