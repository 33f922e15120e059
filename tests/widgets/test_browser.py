"""The widgets in a real browser, on pages without a kernel.

Every host but 127.0.0.1 is blocked and noted, so that a script from elsewhere cannot hide.
"""

import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
import torch
from javascript import functions
from playing import PAGE, PIXELS, check_sliders_move_pixels, parts, pressed

from attnlib.trace import Trace
from attnlib.widgets import AttentionView, Frames, explore
from attnlib.widgets.page import snippet

pytestmark = pytest.mark.browser
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
TOKENS = ["[CLS]", "un", "##do", "<script>window.ran=1</script>", "-->", " it", "\n", "[SEP]"]
READ = functions(Path(__file__).with_name("canvas.js"))


def example() -> AttentionView:
    weights = torch.randn(3, 4, 8, 8, generator=torch.Generator().manual_seed(5)).softmax(-1)
    trace = Trace(tuple(TOKENS), weights, word_ids=(0, 1, 1, 2, 3, 4, 5, 6))
    return explore(trace, title="A <b>bold</b> title")


def opened(page: Any, folder: Path, view: Any) -> Any:
    """A view on a page of its own, opened from the disk: its sliders, canvas and read-out."""
    path = folder / "view.html"
    path.write_text(PAGE.replace("BODY", snippet(view.state())), "utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(".attn-read, .attn-frame *")
    return parts(page)


@pytest.fixture
def saved(page: Any, tmp_path: Path) -> Any:
    """The page of the example."""
    opened(page, tmp_path, example())
    yield page
    assert page.asked == []
    assert page.errors == []


def values(sliders: Any) -> str:
    """Where the sliders stand."""
    return " ".join(slider.input_value() for slider in sliders.all())


def download(page: Any, folder: Path, ending: str) -> Path:
    """What a button of a view gives."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"download as {ending}").click()
    assert waiting.value.suggested_filename.endswith(f".{ending.lower()}")
    waiting.value.save_as(folder / f"out.{ending}")
    return folder / f"out.{ending}"


def words_of(page: Any, folder: Path) -> list[str]:
    """The words of the SVG that a view gives."""
    return list(ElementTree.parse(download(page, folder, "SVG")).getroot().itertext())


# ---------------------------------------------------------------- a page without a kernel
@pytest.mark.claim(48)
def test_sliders_move_through_layers_and_heads(saved: Any) -> None:
    check_sliders_move_pixels(saved.locator(".attn"))
    texts = saved.locator(".attn-slider output").all_inner_texts()
    assert [text.strip() for text in texts] == ["1 of 0–2", "1 of 0–3"]


def test_tokens_and_title_are_text(saved: Any) -> None:
    assert saved.locator(".attn-title").inner_text() == "A <b>bold</b> title"
    _, canvas, read = parts(saved)
    pressed(canvas, "D D D D R R R R")
    assert read.locator("q").all_inner_texts() == [TOKENS[3], TOKENS[4]]
    assert saved.evaluate("window.ran") is None


def test_a_cell_is_read_out_by_keyboard_and_by_pointer(saved: Any) -> None:
    weights = example().weights
    _, canvas, read = parts(saved)
    assert canvas.get_attribute("role") == "img"
    pressed(canvas, "D D R")  # the first enters at (0, 0)
    assert float(read.locator("b").inner_text()) == pytest.approx(float(weights[1, 1]), abs=5e-3)
    assert "un" in canvas.get_attribute("aria-label")
    canvas.press("Escape")
    assert "strongest" in read.inner_text()
    box = canvas.bounding_box()
    texts = set()
    for share in (0.4, 0.55, 0.7):
        saved.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        texts.add(read.inner_text())
    assert len(texts) == 3
    assert all("destination" in text and "source" in text for text in texts)


def test_links_show_only_the_token_pointed_at(saved: Any) -> None:
    _, canvas, read = parts(saved)
    seen = [canvas.evaluate(PIXELS)]
    saved.click("[data-value=links]")
    seen.append(canvas.evaluate(PIXELS))
    all_lines = canvas.evaluate(READ["ink"])
    pressed(canvas, "D")
    assert 0 < canvas.evaluate(READ["ink"]) < 0.6 * all_lines
    seen.append(canvas.evaluate(PIXELS))
    assert len(set(seen)) == 3
    assert read.inner_text().startswith("destination [CLS] looks at")


def thumbnails(page: Any) -> dict[str, tuple[float, float]]:
    """Where on the page each map's thumbnail is."""
    page.locator(".attn-heads").scroll_into_view_if_needed()
    places: dict[str, tuple[float, float]] = page.locator(".attn-heads").evaluate(READ["places"])
    return places


def test_a_thumbnail_is_chosen_by_click_and_by_keyboard(saved: Any) -> None:
    saved.click("[data-value=heads]")
    sliders, canvas, read = parts(saved)
    assert not canvas.is_visible()
    grid = saved.locator(".attn-heads")
    before = grid.evaluate(PIXELS)
    for key, place in (("Down", "1 0"), ("Up", "0 0"), ("Up", "0 0"), ("Left", "0 0")):
        grid.press(f"Arrow{key}")
        assert values(sliders) == place
    grid.press("ArrowRight")
    assert "all 12 maps, chosen: layer 0, head 1;" in grid.get_attribute("aria-label")
    assert read.inner_text().startswith("layer 0 · head 1: strongest")
    assert grid.evaluate(PIXELS) != before
    assert not canvas.is_visible()
    grid.press("Enter")
    assert canvas.is_visible()
    assert not grid.is_visible()  # twelve maps are too few to stand beside
    saved.click("[data-value=heads]")
    places = thumbnails(saved)
    assert len(places) == 12
    saved.mouse.click(*places["layer 2 · head 3"])
    assert values(sliders) == "2 3"
    assert canvas.is_visible()  # a click opens the map


def test_words_and_colour_scale_switch(saved: Any) -> None:
    _, canvas, _ = parts(saved)
    seen = [canvas.evaluate(PIXELS)]
    for choice in ("one", "words"):
        saved.click(f"[data-value={choice}]")
        seen.append(canvas.evaluate(PIXELS))
    assert len(set(seen)) == 3
    assert "7 destinations" in canvas.get_attribute("aria-label")


def test_a_view_that_was_hidden_while_the_theme_changed_keeps_its_size(saved: Any) -> None:
    _, canvas, _ = parts(saved)
    width = "node => node.clientWidth"
    before = canvas.evaluate(width)
    saved.evaluate("""async () => {
        const parent = document.querySelector(".attn").parentElement;
        parent.style.display = "none";
        document.body.classList.toggle("another-theme");
        await Promise.resolve();  // here the view hears of the theme, and has no place on the page
        parent.style.display = "";
    }""")
    saved.wait_for_timeout(300)
    assert canvas.evaluate(width) == before


@pytest.mark.ci
@pytest.mark.parametrize("mode", ["map", "links", "heads"])
def test_downloads(saved: Any, tmp_path: Path, mode: str) -> None:
    saved.click(f"[data-value={mode}]")
    text = " ".join(words_of(saved, tmp_path))
    assert "A <b>bold</b> title" in text
    assert mode == "heads" or "<script>" in text
    if mode == "map":  # Chromium takes seconds for a PNG
        assert download(saved, tmp_path, "PNG").read_bytes()[:4] == b"\x89PNG"


# ---------------------------------------------------------------- many maps, long texts
def causal(layers: int, heads: int, tokens: int) -> Trace:
    """Causal maps, most of them on the first token."""
    generator = torch.Generator().manual_seed(7)
    scores = torch.randn(layers, heads, tokens, tokens, generator=generator)
    scores[..., 0] += 4
    hidden = torch.ones(tokens, tokens).triu(1).bool()
    words = tuple(f" word{i % 97}" for i in range(tokens))
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return Trace(words, weights, word_ids=tuple(range(tokens)))


def test_all_maps_stand_beside_the_one_shown_and_lead_to_it(page: Any, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    trace = causal(30, 9, 16)
    sliders, canvas, read = opened(page, tmp_path, explore(trace))
    grid, seen = page.locator(".attn-heads"), {canvas.evaluate(PIXELS)}
    places = thumbnails(page)
    assert len(places) == 270
    right = [places[f"layer {layer} · head 0"][0] for layer in range(30)]
    down = [places[f"layer 0 · head {head}"][1] for head in range(9)]
    assert right == sorted(set(right)), "the layers run across"
    assert down == sorted(set(down))
    page.mouse.click(*places["layer 17 · head 5"])
    assert values(sliders) == "17 5"
    assert page.locator("[data-value=map]").get_attribute("aria-pressed") == "true"
    seen.add(canvas.evaluate(PIXELS))
    grid.press("ArrowDown")
    grid.press("ArrowRight")
    assert values(sliders) == "18 6"
    seen.add(canvas.evaluate(PIXELS))
    assert len(seen) == 3
    largest = trace.pattern[18, 6, 1:, 1:].max().item()
    assert float(read.locator("b").inner_text()) == pytest.approx(largest, abs=5e-3)
    page.click("[data-value=links]")
    assert grid.is_visible()
    assert page.errors == []


@pytest.mark.ci
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (700, 680), (390, 844)])
@pytest.mark.parametrize("size", [(6, 12, 12), (30, 9, 128), (2, 2, 512)])
def test_a_view_fits_its_window(
    page: Any, tmp_path: Path, width: int, height: int, size: tuple[int, int, int]
) -> None:
    """Nothing is wider or cut, the map is seen with its sliders and all small maps, and large."""
    page.set_viewport_size({"width": width, "height": height})
    _, canvas, _ = opened(page, tmp_path, explore(causal(*size), title="Title"))
    assert canvas.evaluate(READ["reached"]) > (180 if size[2] < 20 else 120)
    root, grid = page.locator(".attn"), page.locator(".attn-heads")
    for mode in ("map", "links", "heads"):
        page.click(f"[data-value={mode}]")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        stage = page.locator(".attn-stage")
        assert stage.evaluate("node => node.scrollWidth - node.clientWidth") == 0
        buttons = page.locator(".attn-bar button").filter(visible=True).all()
        boxes = [button.bounding_box() for button in buttons]
        assert len(boxes) >= 9
        assert all(0 <= box["x"] and box["x"] + box["width"] <= width for box in boxes)
        assert all(box["height"] >= 40 for box in boxes) or width > 600
        if width == 1280:
            first_row = page.locator(".attn-bar").first.locator("button").all()
            assert len({round(button.bounding_box()["y"]) for button in first_row}) == 1
            assert root.evaluate("node => node.offsetHeight") <= 680
        shown = [part.bounding_box() for part in (canvas, grid) if part.is_visible()]
        assert all(box["y"] + box["height"] <= height for box in shown)
        if mode == "heads":
            continue
        box = canvas.bounding_box()
        if size[2] < 20:
            assert box["y"] + box["height"] <= 680
        if width == 1280:
            assert 0.4 * height <= box["height"] <= 0.61 * height


def test_small_maps_use_the_room_that_there_is(page: Any, tmp_path: Path) -> None:
    """Beside the map on a wide page, below it on a narrow one, never in a strip."""
    for width, place in ((1280, "beside"), (680, "below"), (390, "below")):
        page.set_viewport_size({"width": width, "height": 800})
        _, canvas, _ = opened(page, tmp_path, explore(causal(30, 9, 14)))
        shown, small = canvas.bounding_box(), page.locator(".attn-heads").bounding_box()
        assert (small["y"] >= shown["y"] + shown["height"]) == (place == "below")
        assert small["width"] > 2 * small["height"]
        room = page.locator(".attn-stage").bounding_box()["width"]
        assert small["width"] > 0.75 * (room if place == "below" else room - shown["width"])
    page.set_viewport_size({"width": 680, "height": 800})
    opened(page, tmp_path, explore(causal(6, 12, 9)))
    assert len(thumbnails(page)) == 72


def test_vs_code_shows_a_view_on_the_ground_of_its_theme(page: Any, tmp_path: Path) -> None:
    """Its Jupyter extension puts every widget on white, and calls that intended."""
    opened(page, tmp_path, example())
    page.add_style_tag(content=".cell-output-ipywidget-background { background: white !important }")
    page.evaluate(
        """() => {
            document.body.dataset.vscodeThemeKind = "vscode-dark";
            document.body.style.setProperty("--vscode-editor-background", "rgb(30, 30, 30)");
            document.querySelector(".attn").parentElement.className =
                "cell-output-ipywidget-background";
        }"""
    )
    ground = "node => getComputedStyle(node).backgroundColor"
    assert page.locator(".attn").evaluate(ground) == "rgb(30, 30, 30)"
    under = page.locator(".cell-output-ipywidget-background")
    assert under.evaluate(ground) == "rgba(0, 0, 0, 0)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_scale_says_in_which_sense_the_colours_are_read(
    page: Any, tmp_path: Path, scheme: str
) -> None:
    """Nothing is the page, and what stands out from it is much, on a screen of any width."""
    page.emulate_media(color_scheme=scheme)
    sense = {"light": "darker: more", "dark": "brighter: more"}[scheme]
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        opened(page, tmp_path, explore(causal(1, 2, 9)))
        assert {sense, "0"} <= set(words_of(page, tmp_path))


# ---------------------------------------------------------------- a first token that is a sink
def test_a_first_token_that_is_a_sink_is_left_out_until_it_is_asked_for(
    page: Any, tmp_path: Path
) -> None:
    rows = torch.tensor([[1, 0, 0, 0], [0.9, 0.1, 0, 0], [0.7, 0.2, 0.1, 0], [0.6, 0, 0.3, 0.1]])
    even = torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None]
    view = explore(Trace(tuple("abcd"), torch.stack([rows, even])[None]))
    sliders, canvas, read = opened(page, tmp_path, view)
    words = words_of(page, tmp_path)
    assert {"left out", "0.3", "0.30", "0.20"} <= set(words), "the colours end at what is left"
    assert not {"0.90", "0.70", "1"} & set(words)
    group = page.get_by_role("group", name="first token")
    assert "takes 73 %" in group.inner_text()
    left_out = canvas.evaluate(PIXELS)
    pressed(canvas, "D D")
    assert "0.90" in read.inner_text(), "the weight is told to those who ask for it"
    canvas.press("Escape")
    page.click("[data-value=shown]")
    assert canvas.evaluate(PIXELS) != left_out
    assert {"1.00", "0.90", "0.70"} <= set(words_of(page, tmp_path))
    page.click("[data-value=out]")
    assert canvas.evaluate(PIXELS) == left_out
    page.click("[data-value=links]")
    assert canvas.evaluate(READ["ink"]) > 0
    sliders.nth(0).press("ArrowRight")
    page.click("[data-value=map]")
    assert "takes 36 %: shown" in group.inner_text()
    assert {"1.00", "0.50"} <= set(words_of(page, tmp_path)), "no sink: nothing is left out"


def test_what_is_no_sink_has_no_switch(page: Any, tmp_path: Path) -> None:
    look_at_first = torch.zeros(5, 5)
    look_at_first[:, 0] = 1
    looks_ahead = 0.8 * look_at_first + 0.2 * torch.eye(5).roll(1, 1)
    for weights, sources in ((looks_ahead, None), (look_at_first, list("vwxyz"))):
        view = AttentionView(weights, list("abcde"), sources=sources, axes=())
        opened(page, tmp_path, view)
        assert page.locator("[data-value=shown]").count() == 0
    opened(page, tmp_path, AttentionView(look_at_first, list("abcde"), axes=(), sink=True))
    assert page.locator("[data-value=shown]").get_attribute("aria-pressed") == "true"


def test_no_weight_is_lost_where_cells_are_smaller_than_dots(page: Any, tmp_path: Path) -> None:
    """One weight of 512 × 512 cells on some 400 dots, and on a thumbnail."""
    page.set_viewport_size({"width": 1280, "height": 800})
    weights = torch.zeros(2, 7, 512, 512)
    weights[0, 0, 400, 123] = 1
    sliders, canvas, _ = opened(page, tmp_path, AttentionView(weights, ["x"] * 512))
    assert page.locator(".attn-heads").evaluate(READ["dark"]) >= 1
    with_bar = canvas.evaluate(READ["dark"])
    sliders.nth(1).press("ArrowRight")  # nothing on this map
    assert canvas.evaluate(READ["dark"]) == with_bar - 1


ROWS = torch.tensor([[0.3, 0.7, 0.0], [0.5, 0.2, 0.3], [0.6, 0.4, 0.0]])
STRONGEST = [  # tokens, their weights, the pair of the strongest, and what is left out
    ("a b c", ROWS, "a b 0.70", ""),
    ("a b c", ROWS.tril(), "c b 0.40", " (the first token apart)"),
    ("[CLS] b c", ROWS, "c b 0.40", " (special tokens apart)"),
    ("</s> b c", ROWS, "c b 0.40", " (special tokens apart)"),
    ("<|endoftext|> b c", ROWS, "c b 0.40", " (special tokens apart)"),
    ("[cls] b c", ROWS, "[cls] b 0.70", ""),
    ("<br b c", ROWS, "<br b 0.70", ""),
    ("[1] b c", ROWS, "[1] b 0.70", ""),
    ("[CLS] b c", ROWS.tril(), "c b 0.40", " (the first token and special tokens apart)"),
    ("<s> [UNK] </s>", ROWS, "<s> [UNK] 0.70", ""),  # nothing else is left
]


def test_what_is_strongest_goes_by_words_and_choice(page: Any, tmp_path: Path) -> None:
    """In the read-out of the browser and in Python's alt text."""
    view = explore([(rows, tokens.split()) for tokens, rows, *_ in STRONGEST], axes="text")
    sliders, _, read = opened(page, tmp_path, view)
    for place, (_, _, strongest, apart) in enumerate(STRONGEST):
        query, key, weight = strongest.split()
        view.index = (place,)
        sliders.fill(str(place))
        sentence = re.sub("[“”]", "", read.inner_text())
        assert sentence.startswith(f"strongest{apart}: {query} → {key} {weight} ")
        words = f"Strongest weight {weight}, from “{query}” to “{key}”{apart}."
        assert view.describe().endswith(words)


def test_weights_are_read_out_with_two_decimals(page: Any, tmp_path: Path) -> None:
    rows = torch.tensor([[0.9962, 0.0038], [0.121, 0.879]])
    exact = AttentionView(rows, list("ab"), axes=())
    steps = AttentionView(rows.repeat(250, 250), ["x"] * 500, axes=())
    for view, mark in ((exact, ""), (steps, "≈ ")):  # of 250,000 weights only steps are known
        _, canvas, read = opened(page, tmp_path, view)
        for key, weight in zip("DRDL", ("1.00", "0.004", "0.88", "0.12"), strict=True):
            pressed(canvas, key)
            assert read.locator("b").inner_text() == mark + weight


# ---------------------------------------------------------------- several maps, one over another
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_up_to_four_heads_lie_over_one_another_in_colours(
    page: Any, tmp_path: Path, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    rows = [torch.eye(6).roll(-n, 0) for n in range(5)]  # head n looks n tokens on, in a circle
    maps = torch.stack([torch.stack(rows), torch.stack(rows[::-1])])
    view = explore(Trace(tuple("abcdef"), maps), title="T")
    sliders, canvas, read = opened(page, tmp_path, view)
    tiles = page.locator(".attn-tiles button")
    assert not tiles.first.is_visible()
    page.click("[data-value=links]")
    names = [tile.get_attribute("aria-label") for tile in tiles.all()]
    assert names == [f"head {n}" for n in range(5)]

    def chosen() -> list[int]:
        return [n for n in range(5) if tiles.nth(n).get_attribute("aria-pressed") == "true"]

    colours = page.locator(".attn").evaluate(READ["hues"])
    assert len(set(colours)) == 4
    for n, heads in ((0, [0]), (2, [0, 2]), (3, [0, 2, 3]), (1, [0, 1, 2, 3]), (4, [0, 1, 3, 4])):
        tiles.nth(n).press("Enter")
        assert chosen() == heads
        drawn = canvas.evaluate(READ["coloured"], colours)
        assert all(count > 30 for count in drawn[: len(heads)])
        assert not any(drawn[len(heads) :])
    pressed(canvas, "D")
    sentence = read.inner_text().replace("“", "").replace("”", "")
    assert sentence.startswith("destination a looks at head 0: a 1, ")
    for head, source in ((1, "b"), (3, "d"), (4, "e")):
        assert f"head {head}: {source} 1" in sentence
        assert f"head {head}: {source} 1" in canvas.get_attribute("aria-label")
    assert {"head 0", "head 1", "head 3", "head 4"} <= set(words_of(page, tmp_path))
    tiles.nth(3).click()
    tiles.nth(0).click()  # the head under the slider stays
    assert chosen() == [0, 1, 4]
    sliders.nth(1).press("ArrowRight")
    assert chosen() == [1, 4]
    page.click("[data-value=map]")
    assert not tiles.first.is_visible()
    assert page.errors == []


def test_a_long_axis_has_no_maps_to_lay_over(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, AttentionView(torch.eye(3).expand(17, 3, 3), list("abc"), axes="step"))
    page.click("[data-value=links]")
    assert page.locator(".attn-tiles").count() == 0


# ---------------------------------------------------------------- the numbers behind a weight
def queries_and_keys(far: float = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of two layers and three heads; scores far above 0, and all near one another."""
    draw = torch.Generator().manual_seed(3)
    q, k = (1.5 * torch.randn(2, 3, 7, 8, generator=draw) for _ in range(2))
    q[..., 0] += far
    k[..., 0] += far
    return q, k


def counted(q: torch.Tensor, k: torch.Tensor, **options: Any) -> AttentionView:
    """A causal view with the numbers behind its weights."""
    scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    return AttentionView(scores.softmax(-1), list("abcdefg"), numbers=(q, k), **options)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.parametrize(
    "far", [0, 100]
)  # with 100, queries and keys in half precision would not do
def test_the_numbers_behind_a_weight_are_those_of_python(
    page: Any, tmp_path: Path, far: float
) -> None:
    queries, keys = queries_and_keys(far)
    view = counted(queries, keys, start={"layer": 1, "head": 2})
    sliders, canvas, read = opened(page, tmp_path, view)
    panel = page.locator(".attn-numbers")
    assert not panel.is_visible()
    pressed(canvas, "D D D D D D R R Enter")
    sliders.nth(1).press("ArrowLeft")  # the panel follows the sliders
    q, k = queries[1, 1, 5].double(), keys[1, 1].double()
    terms, scores = q * k[2], k[:6] @ q / 8**0.5
    powers = (scores - scores.max()).exp()
    largest = terms.abs().sort(descending=True).indices[:4]
    lines = panel.locator("tbody").inner_text().split("\n")
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines]
    assert [int(row[0]) for row in rows[:4]] == largest.tolist()
    numbers = [[number(text) for text in row[1:]] for row in rows]
    for term, n in zip(numbers, largest, strict=False):
        assert term == pytest.approx([q[n].item(), k[2, n].item(), terms[n].item()], rel=6e-3)
    expected = [terms.sum() - terms[largest].sum(), terms.sum(), scores[2], powers[2], powers.sum()]
    expected.append(powers[2] / powers.sum())
    scale = terms.abs().max().item()
    for (last,), right, near in zip(numbers[4:], expected, [scale] * 3 + [1] * 3, strict=True):
        assert last == pytest.approx(right.item(), rel=1e-2, abs=3e-3 * near)
    assert "“f”" in panel.locator("caption").inner_text()
    page.get_by_role("button", name="close the numbers").click()
    assert not panel.is_visible()
    assert canvas.evaluate("node => node === document.activeElement")
    page.locator("[data-value=links]").press("Enter")
    assert "destination" not in read.inner_text(), "a cell of the map is not told here"
    assert page.errors == []


def test_the_numbers_come_by_pointer_and_tell_of_the_mask(page: Any, tmp_path: Path) -> None:
    _, canvas, read = opened(page, tmp_path, counted(*queries_and_keys()))
    panel, box = page.locator(".attn-numbers"), canvas.bounding_box()
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.75 * box["height"])
    assert read.locator("q").all_inner_texts()[0] in panel.locator("caption").inner_text()
    canvas.press("Escape")
    assert not panel.is_visible()
    pressed(canvas, "U U U U U U R R R R R R Enter")
    last = panel.locator("tr").last.inner_text()
    assert last.split("\t") == ["hidden by the mask: weight", "0.00"]
    page.click("[data-value=links]")
    assert not panel.is_visible()


def test_a_finger_opens_the_numbers_and_stays_on_a_token(browser: Any, tmp_path: Path) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    context = browser.new_context(**phone)
    page = context.new_page()
    _, canvas, read = opened(page, tmp_path, counted(*queries_and_keys()))
    assert "touch a cell" in read.inner_text()
    assert not re.search("point|click", page.locator(".attn").inner_text())
    for mode, words in (("map", "destination"), ("links", "looks at")):
        page.locator(f"[data-value={mode}]").tap()
        box = canvas.bounding_box()
        place = (0.5, 0.7) if mode == "map" else (0.2, 0.5)
        page.touchscreen.tap(
            *(box[s] + p * box[z] for s, p, z in zip("xy", place, ("width", "height"), strict=True))
        )
        assert words in read.inner_text()
        assert page.locator(".attn-numbers").is_visible() == (mode == "map")
    context.close()


def test_what_is_read_out_stands_still_and_the_numbers_come_into_sight(
    page: Any, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": 390, "height": 600})
    _, canvas, read = opened(page, tmp_path, counted(*queries_and_keys()))
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.7 * box["height"])
    panel = page.locator(".attn-numbers").bounding_box()
    assert panel["y"] + panel["height"] <= 601
    page.click("[data-value=links]")
    for n in (1, 2):
        page.locator(".attn-tiles button").nth(n).click()
    tops, texts = [], set()
    for share in (0.3, 0.5, 0.7, 0.9):
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + share * box["height"])
        tops.append(canvas.bounding_box()["y"])
        texts.add(read.inner_text())
        page.mouse.move(1, 1)
        tops.append(canvas.bounding_box()["y"])
    assert tops == sorted(tops)
    assert len(texts) == 4


def test_the_numbers_are_offered_and_may_be_open_at_first(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, counted(*queries_and_keys(), opened=(3, 1)))
    panel = page.locator(".attn-numbers")
    assert panel.locator("caption").inner_text() == "the query of “d” and the key of “b”"
    offer = page.get_by_role("button", name="Where does a weight come from?")
    assert not offer.is_visible()
    page.get_by_role("button", name="close the numbers").click()
    assert not panel.is_visible()
    strongest = page.locator(".attn-read q").all_inner_texts()
    offer.press("Enter")
    assert [f"“{name}”" in panel.locator("caption").inner_text() for name in strongest] == [
        True
    ] * 2
    page.click("[data-value=links]")
    assert not offer.is_visible()


@pytest.mark.parametrize(("width", "height"), [(1100, 800), (680, 800)])
def test_open_numbers_stand_beside_their_map(
    page: Any, tmp_path: Path, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    _, canvas, _ = opened(page, tmp_path, counted(*queries_and_keys(), opened=(3, 1)))
    shown, panel = canvas.bounding_box(), page.locator(".attn-numbers").bounding_box()
    assert panel["x"] >= shown["x"] + shown["width"]
    assert panel["y"] + panel["height"] <= height


def test_without_queries_and_keys_no_numbers_are_offered(saved: Any) -> None:
    _, canvas, _ = parts(saved)
    assert "q · k" not in saved.locator(".attn").inner_text() + canvas.get_attribute("aria-label")
    pressed(canvas, "D")
    before = canvas.evaluate(PIXELS)
    canvas.press("Enter")
    assert canvas.evaluate(PIXELS) == before
    assert not saved.locator(".attn-numbers").is_visible()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_links_of_several_heads_and_in_numbers(
    page: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    view = counted(*queries_and_keys(), title="Title")
    pressed(opened(page, tmp_path, view)[1], "D Enter")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for place in (".attn-numbers", ".attn-tiles"):
        assert page.locator(place).is_visible()
        report = page.evaluate("axe.run('.attn', {resultTypes: ['violations']})")
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in report["violations"]] == []
        page.click("[data-value=links]")
        page.locator(".attn-tiles button").nth(1).click()


# ---------------------------------------------------------------- traces of different lengths
def test_traces_of_different_lengths_move_with_their_sliders(page: Any, tmp_path: Path) -> None:
    def trace(*tokens: str) -> Trace:
        size = len(tokens)
        return Trace(tokens, torch.randn(1, 2, size, size, generator=generator).softmax(-1))

    generator = torch.Generator().manual_seed(2)
    texts = (("one",), ("two", "words"), ("and", "now", "four", "words"))
    traces = [[trace(*text) for text in texts] for _ in range(2)]
    view = explore(traces, axes=("λ", "text"), labels={"λ": [0.1, 1]})
    sliders, canvas, read = opened(page, tmp_path, view)
    assert page.locator(".attn-slider label").all_inner_texts() == ["λ", "text", "head"]
    for i, j, head in itertools.product(range(2), range(3), range(2)):
        for slider, value in enumerate((i, j, head)):
            sliders.nth(slider).fill(str(value))
        pressed(canvas, "Escape D")  # reads out the first cell
        size = f"{len(texts[j])} destinations (queries) by {len(texts[j])} sources (keys)"
        label = canvas.get_attribute("aria-label")
        assert f"λ {(0.1, 1)[i]}, text {j}, head {head}: {size}" in label
        exact = float(traces[i][j].pattern[0, head, 0, 0])
        assert read.locator("q").first.inner_text() == texts[j][0]
        assert float(read.locator("b").inner_text()) == pytest.approx(exact, abs=5e-3)
    page.click("[data-value=heads]")  # of the last two axes: 3 texts × 2 heads at this λ
    places = thumbnails(page)
    assert len(places) == 6
    page.mouse.click(*places["λ 1 · text 0 · head 1"])
    assert values(sliders) == "1 0 1"
    assert page.errors == []


def test_frames_page(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, Frames([["<b>a</b>", "b"], ["c", "d"]], name=("n", "t")))
    assert page.locator(".attn-text").inner_text() == "<b>a</b>"
    for slider, text in ((0, "c"), (1, "d")):
        page.locator("input[type=range]").nth(slider).press("ArrowRight")
        assert page.locator(".attn-text").inner_text() == text
    assert page.errors == []


# ---------------------------------------------------------------- play
def stepping(kind: str) -> AttentionView | Frames:
    """Four steps of a training, as maps or as texts."""
    if kind == "frames":
        return Frames([f"text {step}" for step in range(4)], name="step")
    weights = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(5)).softmax(-1)
    return AttentionView(weights, list("abc"), axes="step")


@pytest.mark.parametrize("kind", ["frames", "maps"])
def test_play_moves_through_the_steps_and_stops_at_the_end(
    page: Any, tmp_path: Path, kind: str
) -> None:
    page.clock.install()
    sliders, *_ = opened(page, tmp_path, stepping(kind))
    button, spoken = page.locator(".attn-play"), page.locator(".attn [aria-live=polite]")
    assert button.inner_text() == "Play"
    assert spoken.count() > 0
    button.click()
    assert spoken.count() == 0, "what runs past is not read out"
    seen = []
    for _ in range(5):
        seen.append((sliders.input_value(), button.inner_text()))
        page.clock.run_for(800)
    assert seen == [("0", "Pause"), ("1", "Pause"), ("2", "Pause"), ("3", "Play"), ("3", "Play")]
    assert spoken.count() > 0
    button.press("Enter")  # from the end it begins anew
    page.clock.run_for(800)
    assert (sliders.input_value(), button.inner_text()) == ("1", "Pause")
    button.click()
    page.clock.run_for(1600)
    assert (sliders.input_value(), button.inner_text()) == ("1", "Play")
    button.click()
    sliders.press("ArrowRight")  # who takes the slider stops it
    page.clock.run_for(1600)
    assert (sliders.input_value(), button.inner_text()) == ("2", "Play")
    assert page.errors == []


def test_who_wants_no_motion_presses_for_every_step(page: Any, tmp_path: Path) -> None:
    page.clock.install()
    page.emulate_media(reduced_motion="reduce")
    sliders, *_ = opened(page, tmp_path, stepping("frames"))
    button = page.locator(".attn-play")
    assert button.inner_text() == "Next"
    seen = []
    for _ in range(4):
        button.click()
        page.clock.run_for(1600)
        seen.append(sliders.input_value())
    assert seen == ["1", "2", "3", "0"]


def test_only_an_axis_over_time_is_played(page: Any, tmp_path: Path) -> None:
    pages = [["a", "b"], ["c", "d"]]
    for play, labels in ((None, []), ("n", ["n"])):
        opened(page, tmp_path, Frames(pages, name=("n", "t"), play=play))
        played = page.locator(".attn-slider", has=page.locator(".attn-play")).locator("label")
        assert played.all_inner_texts() == labels
