"""The pages of the book in a browser, opened from the disk: alive, light, and open to everyone.

axe-core looks at a few pages in a normal run; ATTNLIB_AXE=all sends it to every page, light and
dark, wide, narrow and printed, and takes about half an hour.
"""

import colorsys
import functools
import gzip
import io
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlparse

import axe_playwright_python
import nbformat
import numpy as np
import pytest
from chapter_rules import ROOT, chapter_paths, side_roads
from chapter_tools import SHORT
from PIL import Image
from road_rules import theses

from attnlib.pretrained import card
from book.icons import icons
from book.pages import pages_of_the_site, rooms

pytestmark = [pytest.mark.browser, pytest.mark.long]
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
PIXELS = "canvas => canvas.toDataURL()"
LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"), (794, "print")]
EVERYWHERE = os.environ.get("ATTNLIB_AXE") == "all"
PAGES = [page.removesuffix(path.suffix) for page, path in pages_of_the_site()]
PAGES += [f"api/{name}" for name, _ in rooms()]
PAGES += ["bibliography", "index", "theses", "search", "try"]
SAMPLE = {"index": 0, "chapters/00_start_here": 1, "exercises/01_ngram/01_ngram": 1, "theses": 2}
SAMPLE |= {"api/attnlib.attention": 2, "bibliography": 3, "docs/teaching": 4, "search": 0, "try": 3}
CHECKED = [
    (name, look)
    for name in (PAGES if EVERYWHERE else SAMPLE)
    for look in (LOOKS if EVERYWHERE else LOOKS[SAMPLE[name] :][:1])
]
# Highlighted code and formulas are many thousand elements; a whole run looks at them, too.
RULES = "axe.run({exclude: %s}, {resultTypes: ['violations']})"


def opened(page: Any, site: Path, name: str) -> None:
    page.goto((site / f"{name}.html").as_uri())


def uncover(page: Any) -> None:
    """From now on, pages are as for a reader who has pressed "Show everything"."""
    page.add_init_script("""localStorage['attnlib.predictions'] = '{"": {}}'""")


def test_there_is_a_page_for_all(site: Path) -> None:
    assert len(PAGES) > 30
    for name in PAGES:
        assert (site / f"{name}.html").exists(), name
    first = (site / "index.html").read_text(encoding="utf-8")
    for path in chapter_paths():
        assert f'href="chapters/{path.stem}.html"' in first
    assert list((ROOT / "exercises").glob("*/*.ipynb"))
    files = (site / "exercises").rglob("*.html")
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert "BEGIN " + "SOLUTION" not in text  # in two words, as this file goes to students
    assert text.count("NotImplementedError") > 30, "the tasks are there, and open"


@pytest.mark.claim(48)
def test_views_are_alive_without_kernel_and_network(page: Any, site: Path) -> None:
    uncover(page)
    opened(page, site, "chapters/00_start_here")
    places = page.locator(".attn-live:not([data-part])")
    assert places.count() == 2
    for place in places.all():
        place.scroll_into_view_if_needed()
        view = place.locator(".attn")
        view.wait_for()
        canvas, read = view.locator(".attn-stage > canvas"), view.locator(".attn-read")
        seen = {(canvas.evaluate(PIXELS), read.inner_text())}
        sliders = view.locator("input[type=range]").all()
        for slider in sliders:
            before = int(slider.input_value())
            key = "ArrowRight" if before < int(slider.get_attribute("max")) else "ArrowLeft"
            slider.press(key)
            assert abs(int(slider.input_value()) - before) == 1
            seen.add((canvas.evaluate(PIXELS), read.inner_text()))
        assert len(seen) == 1 + len(sliders) >= 3
    assert page.asked == []
    assert page.errors == []


def test_the_first_page_is_alive_and_has_three_doors(page: Any, site: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    opened(page, site, "index")
    view = page.locator(".front .attn")
    view.wait_for()
    slider, canvas = view.locator("input[type=range]").first, view.locator(".attn-stage > canvas")
    heads = page.locator('.suspects [aria-label^="layer 29 · head 8:"]').bounding_box()
    assert heads["y"] + heads["height"] < 800, "all heads are seen at once"
    assert page.locator("button[class*=search-button]:visible").count() == 1
    before = canvas.evaluate(PIXELS)
    slider.press("ArrowRight")
    assert canvas.evaluate(PIXELS) != before
    for door in page.locator(".doors a").all():
        assert (site / door.get_attribute("href")).exists()
    assert page.locator(".doors a").count() == 3
    assert page.locator('main a[href="theses.html"]').count() == 1


def test_a_prediction_and_a_notice_stand_in_boxes(page: Any, site: Path) -> None:
    uncover(page)
    opened(page, site, "chapters/04_self_attention")
    for word in ("Predict", "Notice"):
        boxes = page.locator(f".callout.{word}")
        assert boxes.count() > 5
        assert all(text.startswith(word) for text in boxes.all_inner_texts())


def test_without_a_script_a_view_is_its_picture(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()
    opened(still, site, "chapters/00_start_here")
    pictures = still.locator(".attn-live > img")
    assert pictures.count() == 2
    assert all(len(image.get_attribute("alt")) > 40 for image in pictures.all())
    context.close()


def test_theses_are_filtered_by_chapter_and_by_outcome(page: Any, site: Path) -> None:
    opened(page, site, "theses")
    listed = theses()
    entries = page.locator(".thesis").filter(visible=True)
    assert entries.count() == sum(map(len, listed.values()))
    every = [thesis for several in listed.values() for thesis in several]
    for model in ("smollm2", "gemma3"):
        page.select_option(f"#by-{model}", "does not hold")
        said = [thesis["models"].get(model, "") for thesis in every]
        denied = [outcome for outcome in said if outcome.startswith("does not hold")]
        assert 0 < entries.count() == len(denied) < len(every)
        page.select_option(f"#by-{model}", "")
    page.select_option("#by-chapter", "04")
    assert entries.count() == len(listed["04"])
    assert page.locator("h2").filter(visible=True).count() == 1
    entries.first.locator("summary").click()
    entries.first.locator("img").wait_for()
    assert listed["04"][0]["test"] in entries.first.inner_text()
    assert page.errors == []


def test_a_view_follows_the_theme(page: Any, site: Path) -> None:
    page.emulate_media(color_scheme="dark")
    opened(page, site, "chapters/00_start_here")
    page.locator(".attn-live").first.scroll_into_view_if_needed()
    page.locator(".attn.attn-dark").first.wait_for(timeout=5000)


def test_formulas_need_no_script(site: Path) -> None:
    text = (site / "chapters" / "12_identifiability.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 60
    assert not re.search(r"<script[^>]*mathjax|\$\$", re.sub(r'alttext="[^"]*"', "", text), re.I)


def test_no_line_begins_with_the_comma_behind_a_formula(page: Any, site: Path) -> None:
    uncover(page)
    opened(page, site, "chapters/12_identifiability")
    below = """() => [...document.querySelectorAll("span.math")].flatMap((formula) => {
        const after = formula.nextSibling, range = document.createRange();
        if (!/^[.,;:?!)]/.test(after?.data ?? "")) return [];
        range.setStart(after, 0);
        range.setEnd(after, 1);
        const math = formula.firstChild, { left } = math.getBoundingClientRect();
        return [[math.getAttribute("alttext"), range.getBoundingClientRect().left < left]];
        })"""
    for width in range(320, 440, 10):  # where a line ends is chance
        page.set_viewport_size({"width": width, "height": 844})
        formulas = page.evaluate(below)
        assert len(formulas) > 20
        assert not [formula for formula, is_below in formulas if is_below], width


def test_the_search_finds_a_word_a_thesis_an_exercise_and_a_symbol(page: Any, site: Path) -> None:
    thesis = theses()["04"][0]["sentence"]
    words = " ".join(sorted(re.findall(r"\b[a-z]{4,}\b", thesis), key=len)[-5:])
    wanted = {
        "comprehensiveness": "chapters/07_is_attention",
        words: "theses.html",
        "kendall_tau": "exercises/07_is_attention",
        "rollout": "api/attnlib.explain.html#attnlib.explain",
    }
    for asked, place in wanted.items():
        page.goto(f"{(site / 'search.html').as_uri()}?q={quote(asked)}")
        page.locator(f'#search-results li a[href*="{place}"]').first.wait_for(timeout=15_000)
    assert page.asked == []


def article(site: Path, name: str) -> str:
    """What a page says, the lists of other pages left out."""
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    return text.partition('<article class="bd-article"')[2].partition("</article>")[0]


def test_a_chapter_leads_to_its_exercise_and_back(site: Path) -> None:
    exercises = [path.stem for path in (ROOT / "exercises").glob("*/*.ipynb")]
    assert len(exercises) > 10
    for name in exercises:
        there = article(site, f"chapters/{name}").count(f"../exercises/{name}/{name}.html")
        assert there == 2, f"{name}: above and below"
        assert f'href="../../chapters/{name}.html"' in article(site, f"exercises/{name}/{name}")


def test_a_chapter_shows_the_route_that_it_is_on(site: Path) -> None:
    short = [path.stem for path in chapter_paths() if path.name[:2] in SHORT]
    for path in chapter_paths():
        (line,) = re.findall(
            r"<p><strong>The short route</strong>.*?</p>",
            article(site, f"chapters/{path.stem}"),
            re.S,
        )
        on = [name for name in short if f'href="{name}.html"' in line]
        assert on == [name for name in short if name != path.stem]
        assert ("passes this chapter by" in line) == (path.stem not in short)
        assert re.search(r"\(\d+ h", line)


def test_a_chapter_leads_to_its_slides(site: Path) -> None:
    for path in chapter_paths():
        assert f'href="../slides/{path.stem}.html"' in article(site, f"chapters/{path.stem}")
        told = (site / "slides" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert f"make slides\nNAMES={path.stem}" in told


@pytest.mark.parametrize("width", [1280, 390])
def test_a_chapter_begins_before_its_goals(page: Any, site: Path, width: int) -> None:
    """A step or a figure stands in the upper half of the first screen, the goals in a fold."""
    page.set_viewport_size({"width": width, "height": 844})
    for path in chapter_paths():
        opened(page, site, f"chapters/{path.stem}")
        first = page.locator("article h2, article img.figure").first.bounding_box()
        assert first["y"] < 422, path.stem
        goals = page.locator("details.about")
        assert not goals.get_by_text("You will be able to", exact=True).is_visible()
        goals.locator("summary").click()
        assert goals.get_by_text("The short route", exact=True).is_visible()


def test_long_code_is_folded_but_for_what_is_shown_on_slides(site: Path) -> None:
    for path in (*chapter_paths(), *side_roads()):
        cells = nbformat.read(path, as_version=4).cells
        text = article(site, path.relative_to(ROOT).with_suffix("").as_posix())
        hidden = len(re.findall(r'<details class="admonition hide above-input">', text))
        code = [cell for cell in cells if cell.cell_type == "code"]
        folded = [cell for cell in code if cell.metadata.get("jupyter", {}).get("source_hidden")]
        long = [
            cell
            for cell in code
            if cell not in folded
            and len(re.findall(r"^.*\S", cell.source, re.M)) > 12
            and "slide" not in cell.metadata.get("tags", [])
        ]
        assert hidden == len(folded) + len(long), path.stem


def test_the_contents_list_no_module_and_no_exercise_until_they_are_opened(
    page: Any, site: Path
) -> None:
    opened(page, site, "index")
    links = page.locator(".bd-sidebar-primary nav a:visible")
    names = [link.get_attribute("href") for link in links.all()]
    assert len(names) < 30
    assert not [name for name in names if name.startswith(("api/", "exercises/"))]
    opened(page, site, "docs/library")
    assert page.locator('.bd-sidebar-primary nav a[href="../api/attnlib.models.html"]').is_visible()


def colour_of_the_first_figure(page: Any, scheme: str) -> tuple[float, float]:
    """Lightness of a figure's corner, and the hue (0 to 1) of its coloured pixels."""
    page.emulate_media(color_scheme=scheme)
    figure = page.locator("img.figure").first
    figure.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('img.figure').complete")
    shot = Image.open(io.BytesIO(figure.screenshot())).convert("RGB")
    pixels = np.array(shot).reshape(-1, 3) / 255
    strong = pixels[pixels.max(1) - pixels.min(1) > 0.5]
    assert len(strong) > 100
    hues = [colorsys.rgb_to_hsv(*pixel)[0] for pixel in strong]
    return float(pixels[0].mean()), float(np.median(hues))


def test_a_figure_follows_the_theme_and_keeps_its_colours(page: Any, site: Path) -> None:
    opened(page, site, "chapters/02_rnn")
    light, hue = colour_of_the_first_figure(page, "light")
    dark, same = colour_of_the_first_figure(page, "dark")
    assert light > 0.95
    assert dark < 0.15
    assert abs(hue - same) < 0.06


def test_labels_of_figures_can_be_read_on_a_phone(page: Any, site: Path) -> None:
    """Labels are drawn at 14 px and more, and a figure shrinks to .88 of that."""
    uncover(page)
    page.set_viewport_size({"width": 390, "height": 844})
    share = "all => all.map(one => one.getBoundingClientRect().width / one.getAttribute('width'))"
    for path in chapter_paths():
        opened(page, site, f"chapters/{path.stem}")
        shares = page.locator("article .cell_output > .output > img.figure").evaluate_all(share)
        assert all(0.87 < one < 1.01 for one in shares), path.stem


@pytest.mark.parametrize("width", [1280, 390])
def test_a_table_of_sentences_is_a_list_on_a_phone(page: Any, site: Path, width: int) -> None:
    """A row says what its columns are, and no sentence stands in a narrow column."""
    page.set_viewport_size({"width": width, "height": 844})
    opened(page, site, "docs/teaching")
    told = page.locator("article table").first.locator("tbody tr").nth(1).locator("td")
    assert told.first.is_visible()
    named = "cell => getComputedStyle(cell, '::before').content"
    names = ["Week", "Chapter", "In the lecture, show", "Exercise out"]
    shown = [f'"{name}: "' for name in names] if width == 390 else ["none"] * 4
    assert [told.nth(at).evaluate(named) for at in range(4)] == shown
    assert told.nth(2).bounding_box()["width"] > 300
    opened(page, site, "chapters/04_self_attention")
    numbers = page.locator("article table", has_text="exponential").get_attribute("class")
    assert "sentences" not in numbers, "numbers stay in their columns"


def test_a_number_is_lit_wherever_it_stands(page: Any, site: Path) -> None:
    uncover(page)
    opened(page, site, "chapters/04_self_attention")
    lit = page.locator("data.lit")
    for act in ("hover", "focus"):
        getattr(page.locator('data[value="exp-c7"]').last, act)()
        assert lit.all_inner_texts() == ["1"] * 3, "in the notice, the table and the formula"
        assert lit.nth(1).evaluate("one => one.closest('tr').textContent").startswith("c7")
        getattr(page.locator('data[value="sum"]').last, act)()
        assert lit.all_inner_texts() == ["9.39"] * 2
    page.locator("article h1").hover()
    assert lit.count() == 0
    assert page.errors == []


def test_side_roads_stand_under_their_chapter(site: Path) -> None:
    listed = (site / "docs" / "teaching.html").read_text(encoding="utf-8")
    listed = listed.partition('class="bd-links')[2].partition("</nav>")[0]
    for path in side_roads():
        before = listed[: listed.index(f"more/{path.stem}.html")]
        above = re.findall(r'toctree-l1.*?href="\.\./chapters/([^"]*)', before, re.S)[-1]
        assert above.startswith(path.stem[:3]), f"{path.stem} stands under {above}"


def test_the_keyboard_leads_from_the_first_page_to_a_moved_slider(page: Any, site: Path) -> None:
    opened(page, site, "index")
    canvas = page.locator(".front .attn-stage > canvas")
    canvas.wait_for()
    before = canvas.evaluate(PIXELS)
    for key in ("Tab", "Enter"):
        page.keyboard.press(key)  # the first stop skips what stands on every page
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.front input[type=range]')"):
            break
    page.keyboard.press("ArrowRight")
    assert canvas.evaluate(PIXELS) != before


def test_icons_are_drawn_without_the_script_of_all_icons(page: Any, site: Path) -> None:
    opened(page, site, "chapters/00_start_here")
    page.locator("svg.theme-switch[data-mode=auto]:visible path[d]").first.wait_for(timeout=5000)
    assert page.locator("svg.fa-magnifying-glass:visible").first.bounding_box()["width"] > 10
    assert page.locator("i.fa-solid").count() == 0
    assert (site / "_static" / "scripts" / "fontawesome.js").stat().st_size < 20_000


def test_an_icon_that_the_theme_lacks_is_named() -> None:
    theme = 'x={"sun":[2,3,[1],"f0","Mregular"]},y={sun:[4,5,["day"],"f1","Msolid"]}'
    assert icons(theme, {"sun"}) == {"sun": (4, 5, "Msolid")}
    with pytest.raises(ValueError, match="moon"):
        icons(theme, {"sun", "moon"})


class Visit(NamedTuple):
    """What one look at a page on a phone showed."""

    width: int  # of all that is on it, in pixels
    first: float  # MB, gzipped, that it asks for when it is opened
    whole: float  # the same, until it is read to its end
    alive: int  # views


@functools.cache
def zipped(path: Path) -> int:
    """Bytes of a file, gzipped."""
    return len(gzip.compress(path.read_bytes()))


def visit(page: Any, site: Path, name: str) -> Visit:
    """Open a page on a phone, and read it to its end."""
    asked: set[str] = set()

    def note(request: Any) -> None:
        asked.add(re.split("[?#]", request.url)[0])

    def size() -> float:
        files = {Path(unquote(urlparse(url).path)) for url in asked if url.startswith("file:")}
        return sum(map(zipped, files)) / 1e6

    page.on("request", note)
    opened(page, site, name)
    loaded = "[...document.images].every(one => one.complete || one.loading === 'lazy')"
    page.wait_for_function(loaded)
    first = size()
    page.evaluate("document.querySelectorAll('.attn-live').forEach(attnLoad)")
    page.evaluate("document.querySelectorAll('img').forEach(one => one.loading = 'eager')")
    alive = "document.querySelectorAll('.attn-live:not(:has(.attn))').length === 0"
    page.wait_for_function(f"{loaded} && {alive}")
    page.remove_listener("request", note)
    width = page.evaluate("document.documentElement.scrollWidth")
    return Visit(width, first, size(), page.locator(".attn-live .attn").count())


@pytest.fixture(scope="module")
def visits(pages: Any, site: Path) -> dict[str, Visit]:
    """Every page, opened once."""
    page = pages()
    page.set_viewport_size({"width": 390, "height": 844})
    found = {name: visit(page, site, name) for name in PAGES}
    assert page.asked == []
    assert page.errors == []
    return found


def test_no_page_is_wider_than_a_phone(visits: dict[str, Visit]) -> None:
    assert {name: one.width for name, one in visits.items() if one.width > 390} == {}


def test_every_view_that_is_stored_comes_alive(visits: dict[str, Visit], views: Any) -> None:
    stored = {name: sum(map(len, (kept or {}).values())) for name, kept in views.items()}
    assert sum(stored.values()) > 20
    chapters = {name: one for name, one in visits.items() if name.startswith("chapters/")}
    assert {name.rpartition("/")[2]: one.alive for name, one in chapters.items()} == stored


def test_pages_are_light(visits: dict[str, Visit]) -> None:
    for name, one in visits.items():
        first = 0.7 if name in ("index", "try") else 0.6
        assert one.first <= first, f"{name} when it is opened, in MB"
        assert one.whole <= 2, f"{name} when it is read, in MB"


@pytest.mark.parametrize(("name", "look"), CHECKED)
def test_axe_finds_nothing(page: Any, site: Path, name: str, look: tuple[int, str]) -> None:
    page.set_viewport_size({"width": look[0], "height": 844})
    page.emulate_media(**({"media": "print"} if look[1] == "print" else {"color_scheme": look[1]}))
    page.emulate_media(reduced_motion="reduce")  # a colour on its way has no contrast yet
    opened(page, site, name)
    page.evaluate("document.querySelectorAll('.attn-live').forEach(attnLoad)")
    page.wait_for_function(
        "document.querySelectorAll('.attn-live:not(:has(.attn))').length === 0", timeout=15_000
    )
    page.add_script_tag(path=AXE)
    found = page.evaluate(RULES % ("[]" if EVERYWHERE else "[['math'], ['.highlight pre']]"))
    told = [(v["id"], n["html"][:200]) for v in found["violations"] for n in v["nodes"]]
    assert not told, f"{len(told)} of { ({v['id'] for v in found['violations']}) }: {told[:4]}"


def test_axe_would_find_a_picture_without_alt(page: Any, site: Path) -> None:
    opened(page, site, "docs/teaching")
    page.evaluate("document.querySelector('article').append(new Image())")
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run({runOnly: ['image-alt']})")
    assert "image-alt" in {v["id"] for v in found["violations"]}


def test_a_second_build_writes_nothing_anew(site: Path, views: Any) -> None:
    from book.pages import book

    before = {path: path.stat().st_mtime_ns for path in (site / "chapters").glob("*.html")}
    heard: list[int] = []
    book(views, site.parent, told=lambda percent, step: heard.append(percent))
    assert heard == sorted(heard)
    assert (heard[0], heard[-1]) == (0, 100)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.usefixtures("browser")
def test_pdf_has_bookmarks_tags_and_alternative_texts(site: Path, tmp_path: Path) -> None:
    from book.printing import pdf

    for name in ("chapters/00_start_here.html", "_static", "_images"):
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).symlink_to(site / name)
    with ThreadPoolExecutor(1) as apart:  # one thread drives one browser, and ours drives one
        apart.submit(pdf, tmp_path / "site", tmp_path, tmp_path / "pdf").result()
    assert {p.name for p in (tmp_path / "pdf").iterdir()} == {"00_start_here.pdf", "course.pdf"}
    written = (tmp_path / "pdf" / "00_start_here.pdf").read_bytes()
    for sign in (b"/Outlines", b"/StructTreeRoot", b"/Alt", b"/Lang"):
        assert sign in written, sign
    assert not list((tmp_path / "site").glob("print-*"))


@pytest.mark.parametrize("width", [1280, 390])
def test_an_adversary_sees_the_own_weights_at_the_ends_of_their_bars(
    page: Any, site: Path, width: int
) -> None:
    """The theme has names of its own for parts of a page: none of ours may be among them."""
    page.set_viewport_size({"width": width, "height": 844})
    opened(page, site, "chapters/12_identifiability")
    page.evaluate("document.querySelectorAll('.attn-live').forEach(attnLoad)")
    page.get_by_role("button", name="Show everything").first.click()
    page.locator(".adversary .own").first.wait_for()
    for bar in page.locator(".adversary .bar").all():
        slider, own = bar.locator("input"), bar.locator(".own").bounding_box()
        room, share = slider.bounding_box(), float(slider.input_value())
        share /= float(slider.get_attribute("max"))
        end = room["x"] + 4 + (room["width"] - 8) * share  # the middle of its handle
        assert own["x"] + own["width"] / 2 == pytest.approx(end, abs=1)


def test_a_visitor_accuses_three_heads_and_sees_them_among_all(page: Any, site: Path) -> None:
    """By keyboard alone, and what is said is what recipes/suspects.py measured."""
    opened(page, site, "index")
    measured = card("suspects")
    before = measured["before"][0]
    game = page.locator(".suspects")
    game.locator('[aria-label^="layer 24 · head 4:"]').focus()
    weight = measured["weights"][24][4][measured["tokens"].index(" Mary")]
    assert f"Layer 24 · head 4 gives Mary {100 * weight:.1f} %" in game.inner_text()
    for keys, head in (((), (24, 4)), (("ArrowLeft",), (23, 4)), (("ArrowUp",) * 4, (23, 0))):
        for key in keys:
            page.keyboard.press(key)
        page.keyboard.press("Enter")  # accuses; the first guess is reached next
        assert page.evaluate("document.activeElement.textContent") == "less likely"
        page.keyboard.press("Enter")
        after = measured["mean"][head[0]][head[1]][0]
        said = game.locator(".trial p").inner_text()
        assert f"Without layer {head[0]} · head {head[1]}, Mary is" in said
        assert f"{100 * after:.1f} % instead of {100 * before:.1f} %" in said
    assert game.locator(".accused").count() == game.locator("circle.yours").count() == 3
    assert game.locator("circle.other").count() == 270
    assert "Without the head that looks hardest at Mary, layer 24 · head 4" in game.inner_text()
    game.locator("text=zeros").click()
    assert game.locator('[aria-pressed="true"]').inner_text() == "zeros"
    assert page.errors == []
