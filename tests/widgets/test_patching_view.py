"""Drag the patch: what the view takes and refuses, and what a reader sees who pulls boxes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playing import opened
from traitlets import TraitError

from attnlib.widgets import Patching

CHAPTER = Path(__file__).parents[2] / "chapters" / "15_causes.ipynb"
RUNS = "John gave it to", "Anna gave it to"
STREAM = torch.tensor([[1.0, 0.0], [0.6, 0.3], [0.0, 1.0]])  # before two layers, and after
HEADS = torch.linspace(-0.5, 0.72, 8).view(2, 4)
MAPS = {"the stream": STREAM, "a head's output": HEADS}
POSITIONS = {"the stream": ("John|Anna", " to")}


def game(maps: Any = MAPS, positions: Any = POSITIONS, **more: Any) -> Patching:
    return Patching(maps, RUNS, (6.0, 1.0), ("Mary", "John"), positions, **more)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"maps": {"the stream": [[0.1, float("nan")]]}}, "not finite"),
        ({"maps": {"the stream": [0.1]}}, r"2 axes \('layer', 'place'\)"),
        ({"positions": {"the stream": ["John"]}}, "2 places, but 1 positions"),
        ({"positions": {"a stream": ["John"]}}, "positions name 'a stream'"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        game(**arguments)


def test_only_what_was_measured_can_be_put_back() -> None:
    with pytest.raises((TraitError, ValueError), match="must be one of"):
        game(what="its weights")


def test_text_stands_for_the_view_where_there_is_no_browser() -> None:
    text = game()._text()
    assert text.startswith("Patching(the stream=3×2, a head's output=2×4)\n\nclean run: John gave")
    assert "a head's output brings back most at layer 1 · head 3 +0.72" in text


def test_a_text_is_typed_and_answered() -> None:
    """Another text's boxes come into the same view; what cannot be read is told."""

    def read(text: str) -> Patching:
        if text == "wrong":
            raise ValueError("Write something else.")
        return Patching(MAPS, (text, text), (2.0, 1.0), ("a", "b"), POSITIONS)

    view = game().ask("to begin with", read)
    before = view._spec
    view.text = "wrong"
    assert "Write something else." in view._said
    view.text = " "
    assert "The box is empty" in view._said
    assert view._spec == before
    view.text = "another"
    assert view._spec["runs"] == ["another", "another"]
    assert "_caption" not in view.state()


# ---------------------------------------------------------------- in a browser, without a kernel
@pytest.fixture
def saved(page: Any, tmp_path: Path) -> Iterator[Any]:
    opened(page, tmp_path, game())
    yield page
    assert page.asked == []
    assert page.errors == []


def box(page: Any, name: str) -> Any:
    return page.locator(f'button[aria-label="{name}"]')


def map_of(page: Any) -> str:
    """The description of the corrupted run."""
    label: str = page.locator(".attn-boxes[role=img]").get_attribute("aria-label")
    return label


def needle(page: Any) -> str:
    turned: str = page.locator(".attn-needle").evaluate("node => node.style.transform")
    return turned


@pytest.mark.browser
def test_the_map_fills_only_where_a_reader_pulled_by_keyboard(saved: Any) -> None:
    assert map_of(saved) == "the corrupted run, 0 of 6 boxes tried, 0 shown"
    assert not saved.locator(".attn-known").count()
    rests = needle(saved)
    box(saved, "before layer 0, at “John|Anna”").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Enter"):  # the edge stops an arrow
        saved.keyboard.press(key)
    assert saved.locator(".attn-known").count() == 1
    said = saved.locator(".attn-said").inner_text()
    assert said == "before layer 1, at “to”: 0.30 of the difference came back."
    note = saved.locator(".attn-note").inner_text()
    assert note.startswith("The logit of Mary minus that of John is 2.50;")
    assert needle(saved) != rests
    assert map_of(saved).endswith("1 of 6 boxes tried, 1 shown: before layer 1, at “to” 0.30")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1000, 390])
def test_a_box_is_dragged_into_the_corrupted_run_and_no_other_way(saved: Any, width: int) -> None:
    saved.set_viewport_size({"width": width, "height": 844})
    saved.locator(".attn-phone" if width < 600 else ".attn:not(.attn-phone)").wait_for()
    start = box(saved, "before layer 1, at “to”").bounding_box()
    target = saved.locator(".attn-boxes[role=img]").bounding_box()
    ends = {"away": (2, 2), "there": (target["x"] + 30, target["y"] + target["height"] / 2)}
    for name, (x, y) in ends.items():
        saved.mouse.move(start["x"] + 5, start["y"] + 5)
        saved.mouse.down()
        saved.mouse.move(start["x"] + 20, start["y"] + 20)
        saved.mouse.move(x, y)
        saved.mouse.up()
        assert saved.locator(".attn-tried").count() == (name == "there")
    assert "0.30" in map_of(saved)
    assert saved.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.browser
def test_a_finger_pulls_sideways_on_a_phone(saved: Any) -> None:
    saved.set_viewport_size({"width": 390, "height": 844})
    saved.locator(".attn-phone").wait_for()
    finger = saved.context.new_cdp_session(saved)
    finger.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    start = box(saved, "before layer 1, at “to”").bounding_box()
    x, y = start["x"] + 10, start["y"] + 10
    touch = "Input.dispatchTouchEvent"
    finger.send(touch, {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 12):
        finger.send(touch, {"type": "touchMove", "touchPoints": [{"x": x + 15 * step, "y": y}]})
    finger.send(touch, {"type": "touchEnd", "touchPoints": []})
    saved.locator(".attn-tried").wait_for()
    assert map_of(saved).endswith("1 shown: before layer 1, at “to” 0.30")


@pytest.mark.browser
def test_a_switch_changes_what_is_put_back_and_the_rest_is_filled_in(saved: Any) -> None:
    box(saved, "before layer 0, at “to”").click()
    saved.get_by_role("button", name="a head's output").click()
    assert not saved.locator(".attn-known").count()
    box(saved, "layer 0 · head 0").click()
    said = saved.locator(".attn-said").inner_text()
    assert said == "layer 0 · head 0: −0.50, the patch made it worse."
    saved.click("text=Fill in the rest")
    assert saved.locator(".attn-known").count() == 8
    assert saved.locator(".attn-tried").count() == 1
    box(saved, "layer 1 · head 3").hover()
    assert saved.locator(".attn-said").inner_text().startswith("layer 1 · head 3: 0.72 of")
    saved.get_by_role("button", name="the stream").click()
    assert saved.locator(".attn-known").count() == 1  # what was tried there before


@pytest.mark.browser
def test_ten_pulls_make_the_button_plain(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path, game())
    ready = page.locator(".attn-rest.attn-ready")
    for layer in range(3):
        for position in ("John|Anna", "to"):
            when = "after the last layer" if layer == 2 else f"before layer {layer}"
            box(page, f"{when}, at “{position}”").click()
    page.get_by_role("button", name="a head's output").click()
    for head in range(4):
        assert not ready.count()
        box(page, f"layer 0 · head {head}").click()
    assert ready.count() == 1
