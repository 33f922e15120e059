"""On a page of the book, what follows a prediction waits; it never gets out of reach."""

from pathlib import Path
from typing import Any

import pytest

from attnlib.widgets import Predict
from book.notebooks import Assets
from book.pages import shared_files

pytestmark = pytest.mark.browser

# As Sphinx writes a chapter: sections, in which cells lie between paragraphs.
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>A chapter</title>
<link rel="stylesheet" href="widgets.css"><script src="live.js" defer></script></head><body>
<section id="one"><h2>One</h2><p>Before.</p>
<div class="cell"><div class="cell_output">ASK0</div></div>
<p id="inside">The first result.</p>
<div class="cell"><div class="cell_output">TRUTH0</div></div>
<p>The second question.</p>
<div class="cell"><div class="cell_output">ASK1</div></div>
<p>The second result.</p>
<div class="cell"><div class="cell_output">SO_FAR</div></div>
<p>The end of one.</p>
</section>
<section id="two"><h2>Two</h2><p>Another section.</p></section>
</body></html>
"""


@pytest.fixture
def chapter(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A page with two questions in a section; its address."""
    truths: list[Any] = []
    monkeypatch.setattr("attnlib.widgets.predict.display", truths.append)
    Predict._made.clear()
    asked = [Predict.number(f"share {n}", 0, 1) for n in range(2)]
    asked[0].reveal(0.5)
    assets, text = Assets(tmp_path), PAGE
    shared_files(assets)
    views = {"ASK0": asked[0], "ASK1": asked[1], "TRUTH0": truths[0], "SO_FAR": Predict.so_far()}
    for name, view in views.items():
        text = text.replace(name, assets.view(name, view.state(), "", "."))
    path = tmp_path / "chapter.html"
    path.write_text(text, "utf-8")
    yield path.as_uri()
    assert page.errors == []


def waiting(page: Any, address: str) -> Any:
    """Open the page; its questions."""
    page.goto(address)
    page.locator(".attn-cover").nth(1).wait_for(state="attached")
    return page.locator("[data-part=ask] .attn-predict")


def seen(page: Any) -> list[str]:
    """The paragraphs that a reader sees."""
    return [
        p.inner_text() for p in page.locator("section > p, .attn-cover > p").all() if p.is_visible()
    ]


TWO = ["The end of one.", "Another section."]
FIRST = ["Before.", "The first result.", "The second question."]


def test_what_follows_comes_one_answer_after_the_other(page: Any, chapter: str) -> None:
    asks = waiting(page, chapter)
    assert seen(page) == ["Before.", *TWO]
    asks.nth(0).get_by_role("slider").press("ArrowRight")
    assert seen(page) == ["Before.", *TWO], "a draft is no answer"
    asks.nth(0).get_by_role("button", name="Answer", exact=True).click()
    assert seen(page) == [*FIRST, *TWO]
    page.locator(".attn-read", has_text="You said 0.5. Measured: 0.5").wait_for()
    asks.nth(1).get_by_role("button", name="Pass over").click()
    assert seen(page) == [*FIRST, "The second result.", *TWO]
    waiting(page, chapter)
    assert seen(page) == [*FIRST, "The second result.", *TWO]
    asks.nth(0).get_by_role("button", name="Predict again").click()
    assert seen(page) == ["Before.", *TWO]


def test_who_only_reads_sees_everything_and_the_next_time_too(page: Any, chapter: str) -> None:
    asks = waiting(page, chapter)
    asks.nth(0).get_by_role("button", name="Show everything").click()
    assert len(seen(page)) == 6
    waiting(page, chapter)
    assert len(seen(page)) == 6
    asks.nth(0).get_by_role("button", name="Cover results").click()
    assert seen(page) == ["Before.", *TWO]


def test_a_link_into_the_middle_paper_and_a_search_see_it(page: Any, chapter: str) -> None:
    waiting(page, f"{chapter}#inside")
    assert "The first result." in seen(page)
    waiting(page, chapter)
    assert page.locator(".attn-cover").first.get_attribute("hidden") == "until-found"
    page.emulate_media(media="print")
    assert len(seen(page)) == 6
    assert not page.get_by_role("button", name="Pass over").first.is_visible()
    page.emulate_media(media="screen")
    page.locator(".attn-cover").first.dispatch_event("beforematch")  # as a search in the page does
    assert seen(page) == [*FIRST, *TWO]


def test_a_link_to_a_quoted_sentence_sees_everything(page: Any, chapter: str) -> None:
    """As search engines make them: the address ends in what is to be lit."""
    waiting(page, f"{chapter}#:~:text=The%20second%20result")
    assert len(seen(page)) == 6


def test_without_scripts_everything_is_there(browser: Any, chapter: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(chapter)
    assert len(seen(page)) == 6
    context.close()
