"""Which head decided? What the view takes and refuses, and what an accusation answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playing import opened

from attnlib.widgets import Suspects

TOKENS = ["When", " Mary", " gave", " it", " to"]
WORDS = [" Mary", " John"]
BEFORE = [0.9, 0.05]
WEIGHTS = torch.tensor([[[0.1, 0.8, 0.1, 0, 0], [0.9, 0.1, 0, 0, 0]], [[1.0, 0, 0, 0, 0]] * 2])
ZEROS = torch.tensor([[[0.97, 0.01], [0.9, 0.05]], [[0.2, 0.6], [0.902, 0.04]]])
MEAN = ZEROS.flip(0)


def game(**changes: Any) -> Suspects:
    arguments = {
        "tokens": TOKENS,
        "words": WORDS,
        "before": BEFORE,
        "weights": WEIGHTS,
        "removed": {"its mean": MEAN, "zeros": ZEROS},
    }
    return Suspects(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"words": [" Anna"], "before": [1.0]}, "' Anna' is none of the tokens"),
        ({"before": [0.9]}, r"before must have shape \(2,\), got \(1,\)"),
        ({"weights": WEIGHTS[..., :4]}, r"weights must have shape \(2, 2, 5\)"),
        ({"weights": -WEIGHTS}, "negative"),
        ({"removed": {"zeros": ZEROS[:1]}}, r"zeros must have shape \(2, 2, 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        game(**changes)


def test_a_function_measures_what_is_accused_and_nothing_else() -> None:
    asked = []

    def removed(layer: int, head: int) -> list[float]:
        asked.append((layer, head))
        return [0.5, 0.2]

    view = game(removed=removed)
    assert asked == []
    view.accused = (1, 0)
    assert asked == [(1, 0)]
    assert view._answers == {"1,0": [0.5, 0.2]}
    view.show(game())
    assert view._answers == {}


def test_text_stands_for_the_view_where_there_is_no_browser() -> None:
    lines = game()._text().splitlines()
    assert lines[:3] == ["Suspects(layer=2, head=2)", "", "When Mary gave it to … Mary 0.900"]
    assert lines[3].startswith("look hardest at Mary: layer 0 · head 0 0.80, layer 0 · head 1 0.10")
    assert lines[5].startswith("leave Mary least, with zeros instead: layer 1 · head 0 0.200")


# ---------------------------------------------------------------- in a browser, without a kernel
@pytest.fixture
def saved(page: Any, tmp_path: Path) -> Iterator[Any]:
    opened(page, tmp_path, game(removed={"zeros": ZEROS, "its mean": MEAN}))
    yield page
    assert page.asked == []
    assert page.errors == []


def accuse(page: Any, head: str, guess: str) -> str:
    page.locator(f'[aria-label^="{head}:"]').click()
    page.get_by_role("button", name=guess).click()
    said: str = page.locator(".trial p").inner_text()
    return said


@pytest.mark.browser
@pytest.mark.parametrize("width", [1000, 390])
def test_three_accusations_stand_among_all_heads(saved: Any, width: int) -> None:
    saved.set_viewport_size({"width": width, "height": 844})
    said = accuse(saved, "layer 0 · head 0", "less likely")
    assert said == (
        "Without layer 0 · head 0, Mary is more likely: 97.0 % instead of 90.0 %; "
        "you said less likely. Accuse 2 more."
    )
    assert "no different: 90.2 %" in accuse(saved, "layer 1 · head 1", "no different")
    assert not saved.locator("circle").count()
    assert "less likely: 20.0 %" in accuse(saved, "layer 1 · head 0", "less likely")
    assert saved.locator("circle.other").count() == 4
    assert saved.locator("circle.yours").count() == 3
    moral = saved.locator(".moral").inner_text()
    assert "looks hardest at Mary, layer 0 · head 0, Mary is more likely" in moral
    saved.click("text=its mean")
    moral = saved.locator(".moral").inner_text()
    assert "looks hardest at Mary, layer 0 · head 0, Mary is less likely" in moral
    assert not saved.locator(".attn-typed").count()  # nobody could answer a text
    assert saved.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.browser
def test_a_head_that_is_pointed_at_shows_where_it_looks(saved: Any) -> None:
    heights = "nodes => nodes.map(node => parseFloat(node.style.height || 0))"
    saved.locator('[aria-label^="layer 0 · head 0:"]').focus()
    saved.keyboard.press("ArrowDown")
    assert saved.locator(".reads").inner_text().startswith("Layer 0 · head 1 gives Mary 10.0 %")
    bars = saved.locator(".token i").evaluate_all(heights)
    assert bars[0] == pytest.approx(9 * bars[1])


@pytest.mark.browser
def test_a_line_of_the_sentence_begins_with_a_word(page: Any, tmp_path: Path) -> None:
    tokens = [*TOKENS[:3], ",", *[" Mary"] * 20, ",", " to"]
    weights = torch.zeros(2, 2, len(tokens))
    opened(page, tmp_path, game(tokens=tokens, weights=weights))
    page.set_viewport_size({"width": 390, "height": 844})
    sentence = page.locator(".sentence")
    assert sentence.text_content().strip() == f"{''.join(tokens)} …"
    starts = """all => all.filter((one, at) => !at || one.offsetTop > all[at - 1].offsetTop)
        .map(one => one.textContent)"""
    first = sentence.locator(".token").evaluate_all(starts)
    assert len(first) > 2
    assert set(first) == {"When", "Mary"}, "neither a blank nor a comma"
