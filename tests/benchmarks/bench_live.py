"""How long the live page takes from a key press to the picture, in Chromium, with one thread.

A text grows and shrinks by a sign at its end, so that every key press is a new text of about the
stated length. The clock runs from the event of the box until the view's canvas is drawn (a pixel
is read back); the last column, until the browser has shown the next frame. The least tells what an
idle machine would need: on a busy one, each step waits for a core. Needs the pages of `make book`;
run it with `python tests/benchmarks/bench_live.py`.
"""

import functools
import http.server
import threading
from statistics import median

from playwright.sync_api import Page, sync_playwright
from timing import ROOT, chromium

SITE = ROOT / "build" / "book" / "html"
PRESSES = 40
MODELS = ("reviews-gpt", "minilm", "smollm2")
PRESS = """async ([model, words, presses, anew]) => {
  const root = document.getElementById(model), box = root.querySelector("textarea");
  const canvas = () => root.querySelector(".attn-stage > canvas");
  const times = [];
  for (let k = 0; k < presses; k++) {
    box.value = (anew ? ["A ", "The "][k % 2] : "") + words + ["", "!"][k % 2];
    const shown = new Promise((done) => root.addEventListener("try-shown", done, { once: true }));
    const began = performance.now();
    box.dispatchEvent(new Event("input"));
    await shown;
    canvas().getContext("2d").getImageData(200, 200, 1, 1);
    const drawn = performance.now() - began;
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push([drawn, performance.now() - began]);
  }
  return [root.querySelector(".try-told small").textContent, times.slice(5)];
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the pages, and prints nothing."""

    def log_message(self, *args: object) -> None:
        """Nothing."""


def measured(page: Page, model: str, tokens: int, anew: bool = False) -> str:
    """A row of the table; if anew, every press changes the first word."""
    told, times = page.evaluate(PRESS, [model, "film " * (tokens - 3) + "film", PRESSES, anew])
    drawn, framed = zip(*times, strict=True)
    numbers = (min(drawn), median(drawn), max(drawn), median(framed))
    return f"{model:12} {told.split(',')[0]:>11}" + "".join(f"{n:9.0f} ms" for n in numbers)


def main() -> None:
    """Print the table."""
    if not (SITE / "live" / "minilm.onnx").exists():
        raise SystemExit("The live page is not built: run make book first.")
    handler = functools.partial(Quiet, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as play:
        browser = chromium(play)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{server.server_port}/try.html")
        for model in MODELS:
            if model != "reviews-gpt":
                page.locator(f"#{model} [data-do=load]").click()
            page.locator(f"#{model} small", has_text="computed").wait_for(timeout=120_000)
        print("".join(f"{name:>12}" for name in ("", "drawn: least", "median", "most", "frame")))
        for model in MODELS:
            for tokens in (8, 33, 64, 127):
                print(measured(page, model, tokens), flush=True)
        print(measured(page, "smollm2", 33, anew=True), "(a new text)")
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()
