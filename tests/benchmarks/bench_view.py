"""How long one redraw of the attention view takes, in Chromium, over a page without a kernel.

Every move sets a slider, which redraws the whole view (canvas, labels, read-out) before it
returns; a pixel is read back so that the drawing has really happened. Run it with
`python tests/benchmarks/bench_view.py`.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright

from attnlib.widgets import AttentionView

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
MOVES = """(moves) => {
  const sliders = [...document.querySelectorAll('.attn input[type=range]')];
  const canvas = document.querySelector('.attn-stage > canvas');
  const pixel = canvas.getContext('2d'), times = [];
  for (let k = 0; k < moves; k++) {
    const slider = sliders[k % sliders.length];
    slider.value = (Number(slider.value) + 1 + k % 3) % (Number(slider.max) + 1);
    const start = performance.now();
    slider.dispatchEvent(new Event('input'));
    pixel.getImageData(200, 200, 1, 1);
    document.body.offsetHeight;
    times.push(performance.now() - start);
  }
  return times;
}"""


def view(layers: int, heads: int, tokens: int) -> AttentionView:
    """Causal maps of random scores, the same at every run."""
    scores = 2 * torch.randn(
        layers, heads, tokens, tokens, generator=torch.Generator().manual_seed(7)
    )
    hidden = torch.ones(tokens, tokens).triu(1).bool()
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return AttentionView(weights, [f" word{i % 97}" for i in range(tokens)])


def measure(page: Page, path: Path, mode: str, moves: int = 300) -> dict[str, Any]:
    """Median, 95th percentile and maximum of one redraw, in milliseconds."""
    page.goto(path.as_uri())
    page.click(f"[data-value={mode}]")
    page.evaluate(MOVES, 20)  # warm up
    times = sorted(page.evaluate(MOVES, moves))
    return {"median": times[moves // 2], "p95": times[int(0.95 * moves)], "max": times[-1]}


def main() -> None:
    """Print one line per size and view."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        for size in ((6, 12, 12), (12, 12, 128), (6, 12, 512)):
            path = Path(folder, f"{'x'.join(map(str, size))}.html")
            view(*size).save_html(path)
            for mode in ("map", "links"):
                ms = measure(page, path, mode)
                print(
                    f"{'×'.join(map(str, size)):>10} {mode:5}  median {ms['median']:6.2f} ms"
                    f"  p95 {ms['p95']:6.2f} ms  max {ms['max']:6.2f} ms"
                    f"  page {path.stat().st_size / 1e6:.1f} MB"
                )
        browser.close()


if __name__ == "__main__":
    main()
