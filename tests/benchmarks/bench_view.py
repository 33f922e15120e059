"""What a view of attention weighs, and how long one redraw takes, in Chromium, without a kernel.

Every move sets a slider, which redraws the whole view (map, thumbnails, labels, read-out) before it
returns; a pixel is read back so that the drawing has really happened. The time that the page's
thread computed stands beside the time that passed: on a busy machine only the first says anything.
Run it with `python tests/benchmarks/bench_view.py`.
"""

import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
from playwright.sync_api import CDPSession, Page, sync_playwright
from timing import chromium

from attnlib.trace import Trace
from attnlib.widgets import explore
from attnlib.widgets.page import snippet

SIZES = ((6, 12, 12), (12, 12, 128), (12, 12, 512), (30, 9, 128), (30, 9, 512))
MOVES, WARM = 100, 10
MOVE = """(k) => {
  const sliders = document.querySelectorAll('.attn input[type=range]');
  const pixel = document.querySelector('.attn-stage > canvas').getContext('2d');
  const slider = sliders[k % sliders.length];
  slider.value = (Number(slider.value) + 1 + k % 3) % (Number(slider.max) + 1);
  const start = performance.now();
  slider.dispatchEvent(new Event('input'));
  pixel.getImageData(200, 200, 1, 1);
  document.body.offsetHeight;
  return performance.now() - start;
}"""


def trace(layers: int, heads: int, tokens: int) -> Trace:
    """Causal maps of random scores with a sink, the same at every run; shaped as a GPT's."""
    generator = torch.Generator().manual_seed(7)
    scores = 2 * torch.randn(layers, heads, tokens, tokens, generator=generator)
    scores[..., 0] += torch.linspace(2, 7, layers)[:, None, None]  # the later, the more
    scores.masked_fill_(torch.ones(tokens, tokens).triu(1).bool(), -torch.inf)
    return Trace(tuple(f" word{i % 97}" for i in range(tokens)), scores.softmax(-1))


def computed(session: CDPSession) -> float:
    """Milliseconds that the page's thread has computed so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def measure(page: Page, session: CDPSession, mode: str) -> str:
    """Median and 95th percentile of one redraw, in milliseconds."""
    page.click(f"[data-value={mode}]")
    passed, busy = [], []
    for k in range(WARM + MOVES):
        before = computed(session)
        passed.append(page.evaluate(MOVE, k))
        busy.append(computed(session) - before)
    told = (sorted(times[WARM:]) for times in (busy, passed))
    shown = (f"{one[MOVES // 2]:5.1f}, p95 {one[int(0.95 * MOVES)]:5.1f} ms" for one in told)
    return f"{mode:5}  computed {next(shown)}   passed {next(shown)}"


def main() -> None:
    """Print, for every size, what the view weighs, and one line for each kind of picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = chromium(play)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        for size in SIZES:
            one, path = trace(*size), Path(folder, "view.html")
            times = [time.process_time()]
            view = explore(one)
            times.append(time.process_time())
            view._picture()
            times.append(time.process_time())
            path.write_text(snippet(view.state()), encoding="utf-8")
            page.goto(path.as_uri())
            page.wait_for_selector(".attn-read q", timeout=60_000)
            weights = (one.pattern.numel(), len(view._blob), path.stat().st_size)
            maps, sent, saved = (f"{weight / 1e6:.1f}" for weight in weights)
            made, drawn = (after - start for start, after in pairwise(times))
            print(
                f"{'×'.join(map(str, size))}: {maps} M weights, {sent} MB sent, page {saved} MB; "
                f"made in {made:.2f} s, its picture in {drawn:.2f} s; opened after "
                f"{computed(session):.0f} ms of computing"
            )
            for mode in ("map", "links"):
                print("   ", measure(page, session, mode))
        browser.close()


if __name__ == "__main__":
    main()
