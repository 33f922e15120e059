"""Every slide of every chapter in a browser: it fits, it can be read, and tells no answer early."""

import re
from pathlib import Path
from typing import Any

import pytest
from chapter_rules import chapter_paths

pytestmark = pytest.mark.browser
SIZES = [(1280, 720), pytest.param((1920, 1080), marks=pytest.mark.long)]  # of one shape
MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")


def shown(browser: Any, decks: Path, name: str, size: tuple[int, int], words: str = "") -> Any:
    """A deck in a window of this size; hosts that it asks for are in `page.asked`."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.asked, page.errors = [], []
    page.on(
        "request",
        lambda r: None if r.url.startswith(("file", "blob", "data")) else page.asked.append(r.url),
    )
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(f"{(decks / f'{name}.html').as_uri()}{words}")
    page.wait_for_function("window.ready === true", timeout=60_000)
    return page


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_slide_of_every_chapter_fits(
    browser: Any, decks: Path, size: tuple[int, int], record_property: Any
) -> None:
    counts, wrong = {}, []
    for path in chapter_paths():
        page = shown(browser, decks, path.stem, size)
        counts[path.stem], found = page.evaluate(MEASURE, 16)
        wrong += found
        assert page.asked == []
        assert page.errors == []
        page.close()
    record_property("slides", counts)
    assert not wrong, "\n".join(wrong)
    assert all(count > 15 for count in counts.values()), counts


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (".sheet { font-size: 2.2rem !important; }", "cut or scrolls|out of the screen"),
        (".sheet pre { font-size: .9rem !important; }", "code of 14"),
        (".sheet pre { white-space: pre !important; width: 30rem; overflow: auto; }", "scrolls"),
    ],
)
def test_what_does_not_fit_is_named(browser: Any, decks: Path, break_it: str, said: str) -> None:
    page = shown(browser, decks, "00_start_here", SIZES[0])
    page.add_style_tag(content=break_it)
    _, wrong = page.evaluate(MEASURE, 16)
    assert wrong
    assert re.search(said, " ".join(wrong))
    page.close()


def test_arrow_keys_move_a_slider_and_not_the_slide(browser: Any, decks: Path) -> None:
    page = shown(browser, decks, "00_start_here", SIZES[0])
    at = page.evaluate(
        """() => { const one = document.querySelector(".attn").closest("section");
        const { h, v } = Reveal.getIndices(one); Reveal.slide(h, v, 99); return [h, v]; }"""
    )
    view = page.locator("section.present .attn").last
    canvas, slider = view.locator(".attn-stage > canvas"), view.locator("input").first
    before, value = canvas.evaluate("node => node.toDataURL()"), slider.input_value()
    slider.press("ArrowRight")
    assert slider.input_value() != value
    assert canvas.evaluate("node => node.toDataURL()") != before
    for key in ("ArrowLeft", "ArrowDown", "ArrowUp", "Space", "n", "PageDown"):
        slider.press(key)
    assert page.evaluate("[Reveal.getIndices().h, Reveal.getIndices().v]") == at
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("PageDown")
    assert page.evaluate("[Reveal.getIndices().h, Reveal.getIndices().v]") != at
    page.close()


def test_folded_code_opens_over_the_slide(browser: Any, decks: Path) -> None:
    page = shown(browser, decks, "01_ngram", SIZES[0])
    page.evaluate(
        """() => { const one = document.querySelector("summary").closest("section");
        const { h, v } = Reveal.getIndices(one); Reveal.slide(h, v, 99); }"""
    )
    page.locator("section.present summary").first.click()
    opened = page.locator("dialog[open]")
    assert opened.locator("pre, p, table").count() > 0
    size = opened.evaluate("node => getComputedStyle(node.querySelector('pre') ?? node).fontSize")
    assert float(size.removesuffix("px")) >= 16
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    page.close()


def test_notes_tell_the_minutes_and_the_point(browser: Any, decks: Path) -> None:
    page = shown(browser, decks, "04_self_attention", SIZES[0])
    notes = page.evaluate("[...document.querySelectorAll('aside.notes')].map(n => n.textContent)")
    spans = [re.match(r"(\d+)–(\d+) min of (\d+)", text) for text in notes]
    assert all(spans)
    minutes = [int(span[2]) for span in spans if span]
    assert minutes == sorted(minutes)
    assert 0.9 * int(spans[-1][3]) <= minutes[-1] <= int(spans[-1][3])
    assert sum("Notice" in text for text in notes) > 10
    page.close()


def test_the_print_version_has_a_page_for_each_slide(browser: Any, decks: Path) -> None:
    page = shown(browser, decks, "00_start_here", SIZES[0])
    slides = page.evaluate("Reveal.getTotalSlides()")
    page.close()
    page = shown(browser, decks, "00_start_here", SIZES[0], "?print")
    assert page.locator(".sheet").count() == slides
    written = page.pdf(prefer_css_page_size=True, tagged=False)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", written)) == slides
    page.close()


def test_every_deck_is_listed(decks: Path) -> None:
    listed = (decks / "index.html").read_text(encoding="utf-8")
    for path in chapter_paths():
        assert f'href="{path.stem}.html"' in listed
