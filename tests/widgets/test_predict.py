"""Predictions: what is asked, refused and noted, and how a reader answers in a browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
import torch
from playing import PAGE, say

from attnlib.check.progress import PREDICTIONS, Prediction, predictions
from attnlib.widgets import Predict
from attnlib.widgets.page import snippet

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
LABEL = "largest weight"


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The truths that are displayed."""
    views: list[Any] = []
    Predict._made.clear()
    monkeypatch.setattr("attnlib.widgets.predict.display", views.append)
    return views


FORMS: dict[str, Callable[[], Predict]] = {
    "number": lambda: Predict.number("largest weight", 0, 1),
    "choice": lambda: Predict.choice("what it writes", ["words", "syllables", "noise"]),
    "order": lambda: Predict.order("by repetition", ["sampling", "greedy", "beam"]),
    "curve": lambda: Predict.curve("loss", x=("step", 0, 4), y=("loss", 0, 1)),
}
TRUTHS: dict[str, tuple[Any, ...]] = {
    "number": (torch.tensor(0.97),),
    "choice": ("syllables",),
    "order": (["greedy", "beam", "sampling"],),
    "curve": (range(5), torch.linspace(1, 0, 5)),
}


# ---------------------------------------------------------------- without a browser
@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("number", "largest weight: measured 0.97"),
        ("choice", "what it writes: syllables"),
        ("order", "by repetition: greedy, beam, sampling"),
        ("curve", "loss: a curve from 1 to 0"),
    ],
)
def test_a_truth_reads_as_text_where_there_is_no_browser(
    form: str, words: str, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = FORMS[form]()
    asked.reveal(*TRUTHS[form])
    (truth,) = shown
    text = truth._repr_mimebundle_()[0]["text/plain"]
    assert text.startswith("Predict(")  # as the chapters' tools know it
    assert text.endswith(f"\n\n{words}")
    monkeypatch.setenv("ATTNLIB_STATIC", "1")
    for view, part in ((asked, "ask"), (truth, "truth")):
        data = view._repr_mimebundle_()[0]
        state = data["application/vnd.attnlib.view+json"]
        assert (state["_spec"]["kind"], state["_spec"]["part"]) == ("predict", part)
        assert "image/png" not in data
        json.dumps(state)


def test_all_so_far_are_those_whose_truth_is_known(shown: list[Any]) -> None:
    for form in FORMS:
        FORMS[form]()  # run once more, a cell asks anew
    made = {form: make() for form, make in FORMS.items()}
    made["choice"].reveal("noise")
    made["number"].reveal(0.5)
    made["number"].answer = 0.25
    text = Predict.so_far()._repr_mimebundle_()[0]["text/plain"]
    assert text.split("\n\n")[1].splitlines() == [
        "largest weight: you said 0.25; measured 0.5",
        "what it writes: noise",
    ]


def test_a_truth_outside_of_the_axes_widens_them(shown: list[Any]) -> None:
    FORMS["number"]().reveal(1.5)
    FORMS["curve"]().reveal([-1, 8], [0.5, 2])
    Predict.number("tokens", 1, 100, log=True).reveal(1000)
    number, curve, tokens = (view._spec for view in shown)
    assert (number["axis"]["low"], number["axis"]["high"]) == (0, 1.5)
    assert [curve[side][end] for side in "xy" for end in ("low", "high")] == [-1, 8, 0, 2]
    assert tokens["axis"]["high"] == 1000


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: Predict.number("", 0, 1), "short label"),
        (lambda: Predict.number("n", 1, 1), "smaller to a larger number"),
        (lambda: Predict.number("n", 0, 9, log=True), "begins above 0"),
        (lambda: Predict.choice("c", ["a", "a"]), "two different ones"),
        (lambda: Predict.choice("c", "ab"), "list of strings"),
        (lambda: FORMS["number"]().reveal(float("nan")), "finite"),
        (lambda: FORMS["number"]().reveal("much"), "must be a number"),
        (lambda: FORMS["number"]().reveal(1, 2), "reveal takes 1"),
        (lambda: FORMS["choice"]().reveal("silence"), "one of.*silence"),
        (lambda: FORMS["order"]().reveal(["greedy", "beam"]), "must order"),
        (lambda: FORMS["curve"]().reveal([0, 1], [1]), "as many heights as places"),
        (lambda: FORMS["curve"]().reveal([1, 0], [1, 1]), "must increase"),
        (lambda: Predict.number("n", 1, 9, log=True).reveal(0), "shows no 0"),
    ],
)
def test_what_does_not_fit_is_refused(act: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        act()


def test_an_answer_is_noted_once_its_truth_is_seen(
    shown: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("exercises", "chapters"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    monkeypatch.setenv("JPY_SESSION_NAME", "chapters/04_x.ipynb")
    asked = FORMS["number"]()
    asked.answer = 0.4
    assert predictions() == []
    asked.reveal(0.97)
    assert shown[0].answer == 0.4
    for close in (0.43, 0.9):  # what the browser measures; a second answer does not count
        shown[0].set_state({"answer": 0.4, "close": close})
    assert predictions() == [Prediction("04_x", LABEL, 0.4, 0.97, 0.43)]
    assert len((tmp_path / "exercises" / PREDICTIONS).read_text("utf-8").splitlines()) == 2


# ---------------------------------------------------------------- in a browser, without a kernel
def show(page: Any, folder: Path, views: list[Any]) -> Any:
    """Views on one page; its questions."""
    body = "".join(f"<section>{snippet(view.state())}</section>" for view in views)
    path = folder / "predictions.html"
    path.write_text(PAGE.replace("BODY", body), "utf-8")
    page.goto(path.as_uri())
    page.locator(".attn-predict").nth(len(views) - 1).wait_for()
    return page.locator(".attn-predict", has=page.locator(".attn-say"))


def are_apart(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two boxes do not overlap, but for the room above and below their letters."""
    sides = (("x", "width", 0), ("y", "height", 4))
    pairs = ((one, other), (other, one))
    return any(a[at] + a[size] <= b[at] + room for at, size, room in sides for a, b in pairs)


@pytest.fixture
def asks(page: Any, tmp_path: Path, shown: list[Any]) -> Any:
    """All four questions, on a page with their truths and the table of all."""
    made = [FORMS[form]() for form in FORMS]
    for form, asked in zip(FORMS, made, strict=True):
        asked.reveal(*TRUTHS[form])
    yield show(page, tmp_path, [*made, *shown, Predict.so_far()])
    assert page.asked == []
    assert page.errors == []


def answers(page: Any) -> dict[str, Any]:
    """What the page knows."""
    return {label: value["answer"] for label, value in page.evaluate("attnPredictions").items()}


@pytest.mark.browser
def test_all_forms_are_answered_by_keyboard(page: Any, asks: Any) -> None:
    line = asks.nth(0).get_by_role("slider")
    for key in ("ArrowRight", "ArrowRight", "PageUp"):  # the first puts the handle in the middle
        line.press(key)
    assert line.get_attribute("aria-valuetext") == "0.61"
    asks.nth(1).get_by_role("button", name="syllables").press("Enter")
    asks.nth(2).get_by_role("button", name="greedy, up").press("Enter")
    asks.nth(2).get_by_role("button", name="greedy, up").press("Enter")
    curve = asks.nth(3).get_by_role("slider")
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "PageDown"):
        curve.press(key)
    assert curve.get_attribute("aria-valuetext") == "2 step: 0.32"
    for n in range(4):
        say(asks.nth(n))
    assert answers(page) == {
        "largest weight": 0.61,
        "what it writes": "syllables",
        "by repetition": ["greedy", "beam", "sampling"],
        "loss": [0.52, 0.52, 0.32, 0.32, 0.32],
    }
    read = page.locator(".attn-read").all_inner_texts()
    assert read[0] == "You said 0.61. Measured: 0.97. 36 % of the axis apart."
    assert read[1] == "You said syllables. The result: syllables. Right."
    assert read[2].endswith("3 of 3 pairs in the right order.")
    apart = (0.48 + 0.23 + 0.18 + 0.07 + 0.32) / 5
    both = "– – your curve, ● measured. "
    assert read[3] == f"{both}On average {100 * apart:.0f} % of the axis apart."
    table = page.locator(".attn-table")
    assert table.locator("caption").inner_text() == "You answered 4 of 4; on average 85 % close."
    assert page.locator(".attn-axes polyline").count() == 3  # asked; measured and answered
    assert asks.nth(0).get_by_role("button", name="Predict again").is_visible()


@pytest.mark.browser
def test_a_line_a_curve_and_an_order_are_drawn_by_hand(page: Any, asks: Any) -> None:
    box = asks.nth(0).get_by_role("slider").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    curve = asks.nth(3).get_by_role("slider")
    curve.scroll_into_view_if_needed()
    box = curve.bounding_box()
    page.mouse.move(box["x"] + 70, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + 180, steps=3)
    page.mouse.up()
    row = asks.nth(2).locator("li span", has_text="sampling")
    row.scroll_into_view_if_needed()
    first = asks.nth(2).locator("li").first.bounding_box()
    row.hover()
    page.mouse.down()
    page.mouse.move(first["x"] + 20, first["y"] + 5, steps=8)
    page.mouse.up()
    for n in (0, 2, 3):
        say(asks.nth(n))
    told = answers(page)
    assert told["largest weight"] == pytest.approx(0.5, abs=0.01)
    assert told["by repetition"] == ["sampling", "beam", "greedy"]
    heights = told["loss"]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] > 0.8
    assert heights[-1] < 0.3


@pytest.mark.browser
def test_nobody_has_to_answer(page: Any, asks: Any) -> None:
    read = page.locator(".attn-read")
    assert read.first.inner_text() == "Measured: 0.97"
    asks.nth(0).get_by_role("button", name="Pass over").click()
    assert read.first.inner_text() == "Measured: 0.97"
    assert page.locator(".attn-table caption").inner_text() == "You answered 0 of 4."


@pytest.mark.browser
def test_an_answer_is_there_the_next_time_and_can_be_forgotten(
    page: Any, asks: Any, tmp_path: Path
) -> None:
    asks.nth(1).get_by_role("button", name="noise").click()
    say(asks.nth(1))
    page.reload()
    page.locator(".attn-table").wait_for()
    assert page.locator(".attn-read").nth(1).inner_text().startswith("You said noise")
    assert asks.nth(1).locator(".attn-options").evaluate("group => group.inert")
    page.get_by_role("button", name="Forget these answers").click()
    assert page.locator(".attn-read").nth(1).inner_text() == "The result: syllables"
    page.reload()
    page.locator(".attn-table").wait_for()
    assert "0 of 4" in page.locator(".attn-table caption").inner_text()


@pytest.mark.browser
def test_a_page_without_memory_remembers_as_long_as_it_is_open(
    page: Any, tmp_path: Path, shown: list[Any]
) -> None:
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('blocked'); }})"
    )
    asked = FORMS["choice"]()
    asked.reveal("noise")
    asks = show(page, tmp_path, [asked, *shown])
    asks.get_by_role("button", name="noise").click()
    say(asks)
    assert page.locator(".attn-read").inner_text() == "You said noise. The result: noise. Right."
    assert page.errors == []


@pytest.mark.ci
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_before_and_after(page: Any, asks: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.evaluate(AXE.read_text(encoding="utf-8"))

    def problems() -> list[Any]:
        report = page.evaluate("axe.run('.attn', {resultTypes: ['violations']})")
        return [(rule["id"], rule["nodes"][0]["html"]) for rule in report["violations"]]

    assert problems() == []
    for n in (0, 3):
        asks.nth(n).get_by_role("slider").press("ArrowUp")
    asks.nth(1).get_by_role("button", name="noise").click()
    assert problems() == []
    for n in (0, 1, 3):
        say(asks.nth(n))
    assert problems() == []


@pytest.mark.browser
def test_a_finger_answers_on_a_phone_and_nothing_is_cut(
    browser: Any, tmp_path: Path, shown: list[Any]
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    made = [FORMS[form]() for form in FORMS]
    for form, asked in zip(FORMS, made, strict=True):
        asked.reveal(*TRUTHS[form])
    asks = show(page, tmp_path, [*made, *shown, Predict.so_far()])
    box = asks.nth(0).get_by_role("slider").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 30)
    asks.nth(0).get_by_role("button", name="Answer", exact=True).tap()
    assert answers(page)["largest weight"] == pytest.approx(0.5, abs=0.02)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    buttons = page.locator(".attn-predict button:visible").all()
    assert min(button.bounding_box()["height"] for button in buttons) >= 32
    context.close()


@pytest.mark.browser
def test_a_truth_has_no_digit_finer_than_a_thousandth_of_its_axis(
    page: Any, tmp_path: Path, shown: list[Any]
) -> None:
    asked = Predict.number("rank correlation", -1.0, 1.0)
    asked.reveal(-0.00183)
    assert shown[0]._repr_mimebundle_()[0]["text/plain"].endswith("measured -0.002")
    show(page, tmp_path, [asked, *shown])
    assert page.locator(".attn-read").inner_text() == "Measured: −0.002"


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1000])
def test_no_label_of_an_axis_lies_on_another(
    page: Any, tmp_path: Path, shown: list[Any], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    asked = Predict.curve(
        "gain", x=("million tokens read", 0, 20), y=("second time easier by (nats)", 0, 10)
    )
    asked.answer = [1.0] * 13
    asked.reveal([0, 20], [0, 8])
    tokens = Predict.number("tokens that matter", 1, 64)
    show(page, tmp_path, [asked, tokens, *shown])
    drawings = page.locator(".attn-axes:visible")
    for drawing in drawings.all():
        boxes = [text.bounding_box() for text in drawing.locator("text").all()]
        for n, one in enumerate(boxes):
            assert one["x"] >= 0
            assert one["x"] + one["width"] <= width
            for other in boxes[:n]:
                assert are_apart(one, other), (one, other)
    assert "1" in drawings.nth(1).locator("text").all_text_contents(), "where the line begins"
