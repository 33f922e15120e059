"""Be the adversary: what it refuses, and what a reader can do with it in a browser."""

import json
import re
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
import torch
from playing import opened

from attnlib.explain.adversary import exact_adversary
from attnlib.explain.faithfulness import jensen_shannon
from attnlib.explain.identifiability import extreme_weights, null_space
from attnlib.widgets import AdversaryView
from attnlib.widgets.page import snippet

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
TOKENS = ["a", "<b>good</b>", "film", "."]
OWN = torch.tensor([0.1, 0.5, 0.3, 0.1]).double()
VOTES = torch.tensor([0.5, 2.0, -1.0, -2.0]).double()
BIAS = 0.25
HEAD = torch.randn(8, 5, generator=torch.Generator().manual_seed(4)).double()  # T, (words, d)
ROW = torch.rand(8, generator=torch.Generator().manual_seed(2)).double().softmax(0)
FREE = null_space(HEAD)
LOWEST = extreme_weights(ROW, FREE, -torch.eye(8)[2])


def farthest(epsilon: float) -> torch.Tensor:
    mask = torch.ones(1, 4, dtype=torch.bool)
    return exact_adversary(VOTES[None], BIAS, OWN[None], mask, epsilon).weights[0]


def of_answer(**options: Any) -> AdversaryView:
    """A game with the answer of four words, as in chapter 07."""
    best = {0.1: farthest(0.1), 0.01: farthest(0.01)}
    return AdversaryView(TOKENS, OWN, VOTES, best, **({"bias": BIAS} | options))


def of_output(**options: Any) -> AdversaryView:
    """A game with the output of a head, as in chapter 12: lower the weight of word 2."""
    words = [f"w{k}" for k in range(8)]
    return AdversaryView(words, ROW, HEAD, {0.01: LOWEST}, free=FREE, lower=2, **options)


# ---------------------------------------------------------------- in Python
def test_text_and_repr_say_the_numbers() -> None:
    view = of_answer()
    assert repr(view) == "AdversaryView(words=4, ε=[0.1, 0.01])"
    data, _ = view._repr_mimebundle_()
    first, _, own, wide, narrow = data["text/plain"].split("\n")
    assert (first, own) == (
        repr(view),
        "the model's own map: “<b>good</b>” 0.50, “film” 0.30, “a” 0.10",
    )
    assert wide.startswith(f"the best within 0.1: distance {distance(farthest(0.1)):.2f}; ")
    assert narrow.startswith(f"the best within 0.01: distance {distance(farthest(0.01)):.2f}; ")
    said = of_output()._text().split("\n")[-1]
    assert said.startswith(f"the best within 0.01: “w2” {ROW[2]:.3f} → {LOWEST[2]:.3f}; ")


def distance(weights: torch.Tensor) -> float:
    return jensen_shannon(weights[None], OWN[None]).item()


def test_a_page_needs_some_kilobytes_of_numbers_and_no_model() -> None:
    state = json.dumps(of_output().state())
    assert len(state) < 4_000
    assert "<b>" not in snippet(of_answer().state())  # a word is never markup


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"own": [0.5, 0.5, 0.3, 0.1]}, r"own must be weights .* the sum 1.4"),
        ({"own": [1.1, -0.1, 0.0, 0.0]}, r"own must be weights .* least weight of -0.1"),
        ({"own": [0.5, 0.5]}, r"own must have a row for each of 4 tokens, got 2"),
        ({"values": [1.0, 2.0]}, r"values must have a row for each of 4 tokens, got 2"),
        ({"best": {}}, r"best is empty: give the best map"),
        ({"best": {0.1: [0.0, 1.0, 0.0, 0.0]}}, r"best\[0.1\] moves the answer by 0.\d+, but"),
        ({"lower": 4}, r"lower must be a word from 0 to 3, got 4"),
        ({"free": torch.tensor([[1.0], [-1.0], [0.0], [0.0]])}, r"a free direction must sum to 0"),
        ({"start": 0.3}, r"budget must be one of \('0.1', '0.01'\), got '0.3'"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    best = {0.1: farthest(0.1), 0.01: farthest(0.01)}
    arguments = {"own": OWN, "values": VOTES, "best": best, "bias": BIAS} | change
    with pytest.raises(ValueError, match=message):
        AdversaryView(TOKENS, **arguments)


def test_a_best_map_may_not_move_the_output() -> None:
    with pytest.raises(ValueError, match=r"best\[0.01\] moves the output by"):
        AdversaryView(["a", "b"], [0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], {0.01: [1.0, 0.0]})


# ---------------------------------------------------------------- in a browser
class Game:
    """A view on a page of its own."""

    def __init__(self, page: Any, folder: Path, view: AdversaryView) -> None:
        opened(page, folder, view)
        self.page, self.sliders = page, page.locator(".adversary input")

    @property
    def said(self) -> str:
        text: str = self.page.locator("[aria-live]").inner_text()
        return text

    @property
    def note(self) -> str:
        text: str = self.page.locator(".attn-note").inner_text()
        return text

    def weights(self) -> torch.Tensor:
        """As a screen reader says them, to three decimals."""
        said = [s.get_attribute("aria-valuetext") for s in self.sliders.all()]
        return torch.tensor([float(text) for text in said]).double()

    def press(self, word: int, keys: str) -> None:
        for key in keys.split():
            self.sliders.nth(word).press(key)


@pytest.fixture
def answer(page: Any, tmp_path: Path) -> Any:
    yield Game(page, tmp_path, of_answer())
    assert page.asked == []
    assert page.errors == []


@pytest.fixture
def output(page: Any, tmp_path: Path) -> Any:
    yield Game(page, tmp_path, of_output())
    assert page.asked == []
    assert page.errors == []


def short(x: float, digits: int = 2) -> str:
    return f"{x:.{digits}f}".replace("0.", ".", 1)


@pytest.mark.browser
def test_needle_and_distance_are_those_of_the_weights(answer: Any) -> None:
    before = torch.sigmoid(OWN @ VOTES + BIAS).item()
    assert (
        answer.said == f"ŷ {short(before)}, within .1 of the model's {short(before)}; distance .00."
    )
    answer.sliders.nth(3).fill("0.4")
    rest = OWN[:3] / OWN[:3].sum() * 0.6
    weights = torch.cat([rest, torch.tensor([0.4])])
    assert (answer.weights() - weights).abs().max() < 6e-4
    after = torch.sigmoid(weights @ VOTES + BIAS).item()
    assert after < before - 0.1
    assert answer.said == (
        f"ŷ {short(after)}, not within .1 of the model's {short(before)}; "
        f"distance {short(distance(weights))}."
    )
    assert answer.note == "Your best so far within .1: distance .00."  # it does not count
    turned = answer.page.locator(".attn-needle").evaluate("node => node.style.transform")
    share = ((after - before) / 0.1 + 1) / 2
    degrees = 80 * (min(1.55, max(-0.55, share)) - 0.5)
    assert float(re.findall(r"-?[\d.]+", turned)[0]) == pytest.approx(degrees, abs=0.1)


@pytest.mark.browser
def test_a_word_that_gives_all_gets_it_back_within_the_same_drag(answer: Any) -> None:
    bar = answer.sliders.nth(0).bounding_box()
    middle = bar["y"] + bar["height"] / 2
    mouse = answer.page.mouse
    mouse.move(bar["x"] + 0.1 * bar["width"], middle)
    mouse.down()
    mouse.move(bar["x"] + bar["width"] + 30, middle, steps=5)
    assert answer.weights().tolist() == [1, 0, 0, 0]
    mouse.move(bar["x"] + 0.1 * bar["width"], middle, steps=5)
    mouse.up()
    assert (answer.weights() - OWN).abs().max() < 0.04
    best = re.findall(r"distance (\.\d+)\.", answer.note)[0]
    assert 0 < float(best) < 0.7


@pytest.mark.browser
def test_keys_move_one_weight_in_large_and_in_small_steps(answer: Any) -> None:
    answer.press(1, "ArrowRight ArrowUp Shift+ArrowLeft")
    weights = answer.weights()
    assert weights[1].item() == pytest.approx(0.519)
    assert weights.sum().item() == pytest.approx(1, abs=2e-3)
    answer.press(1, "Home")
    assert answer.weights()[1] == 0
    answer.press(1, "ArrowLeft")  # there is nothing left to take
    assert answer.weights()[1] == 0
    answer.page.get_by_text("Back to the model's map").click()
    assert answer.weights().tolist() == OWN.tolist()


@pytest.mark.browser
def test_the_best_map_is_shown_beside_the_readers_best(answer: Any) -> None:
    answer.press(0, "PageUp ArrowRight ArrowRight")
    mine = answer.weights()
    reached = f"distance {short(distance(mine / mine.sum()))}"
    assert answer.note == f"Your best so far within .1: {reached}."
    assert answer.page.locator("i.best").first.is_hidden()
    answer.sliders.nth(3).fill("1")  # far, but not within ε
    answer.page.get_by_text("Show the best map").click()
    best = f"distance {short(distance(farthest(0.1)))}"
    assert answer.note == f"Within .1, your best is {reached}; the best there is, {best}."
    assert answer.weights().tolist() == mine.tolist()  # the reader's best comes back
    for slider, weight in zip(answer.sliders.all(), farthest(0.1).tolist(), strict=True):
        assert f"in the best map {short(weight)}" in slider.get_attribute("aria-label")
    answer.page.click("[data-value='0.01']")
    assert answer.note.startswith("Within .01, your best is distance .")
    assert answer.note.endswith(f"the best there is, distance {short(distance(farthest(0.01)))}.")


@pytest.mark.browser
def test_along_the_null_space_the_output_stays(output: Any) -> None:
    assert output.said == f"The output moved by .000, within .01; “w2” {short(ROW[2].item(), 3)}."
    for word, weight in ((2, "0"), (5, "1"), (0, "0"), (7, "0.5"), (2, "0")):
        output.sliders.nth(word).fill(weight)
        weights = output.weights()
        assert output.said.startswith("The output moved by .000, within .01; ")
        assert weights.min() >= 0
        assert weights.sum().item() == pytest.approx(1, abs=4e-3)
        assert ((weights - ROW) @ HEAD).abs().max() < 0.01  # of weights with three decimals
    assert LOWEST[2] > 0  # so a drag to 0 has to stop on its way
    assert output.weights()[2].item() == pytest.approx(LOWEST[2].item(), abs=1.5e-3)
    assert (output.weights() - ROW).abs().max() > 0.02


@pytest.mark.browser
def test_to_and_from_all_words_the_output_moves(output: Any) -> None:
    output.page.click("text=to and from all words")
    output.sliders.nth(2).fill("0")
    rest = ROW.clone()
    rest[2] = 0
    moved = ((rest / rest.sum() - ROW) @ HEAD).abs().max().item()
    assert output.said == f"The output moved by {short(moved, 3)}, not within .01; “w2” .000."
    assert output.note == f"Your best so far within .01: “w2” {short(ROW[2].item(), 3)}."


@pytest.mark.browser
def test_a_finger_moves_a_weight_on_a_phone(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    game = Game(context.new_page(), tmp_path, of_answer())
    bar = game.sliders.nth(2).bounding_box()
    assert bar["height"] >= 24
    game.page.touchscreen.tap(bar["x"] + 0.8 * bar["width"], bar["y"] + bar["height"] / 2)
    assert game.weights()[2].item() == pytest.approx(0.8, abs=0.03)
    assert game.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("view", [of_answer, of_output])
def test_axe_finds_nothing(page: Any, tmp_path: Path, scheme: str, width: int, view: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    game = Game(page, tmp_path, view())
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for is_shown in (False, True):
        if is_shown:
            game.sliders.nth(3).fill("0.5")  # outside of the band
            page.get_by_text("Show the best map").click()
            page.click(".attn-bar button:last-child")
        report = page.evaluate("axe.run('.attn', {resultTypes: ['violations']})")
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in report["violations"]] == []
