"""The book in Firefox, which types and plays, and sends what it sees back to this test.

Firefox needs no driver for that: it opens a page of ours that holds those of the book in a frame.
It reaches no other host, because a proxy that does not exist stands before all of them.
"""

import base64
import json
import queue
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlib.pretrained import card, language_model

pytestmark = [pytest.mark.browser, pytest.mark.long]
TEXT = "I liked this naïve film 👍"
ALONE = """
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.proxy.no_proxies_on", "127.0.0.1");
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
"""
DRIVE = Path(__file__).with_name("drive.html")


@pytest.fixture(scope="module")
def seen(
    site: Path, served: str, told: queue.Queue[Any], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What Firefox saw."""
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None:
        pytest.skip("needs Firefox")
    page = DRIVE.read_text(encoding="utf-8").replace("TEXT", json.dumps(TEXT))
    (site / "drive.html").write_text(page, encoding="utf-8")
    profile = tmp_path_factory.mktemp("firefox")
    (profile / "user.js").write_text(ALONE, encoding="utf-8")
    command = [firefox, "--headless", "--no-remote", "--profile", str(profile)]
    command.append(f"{served}/drive.html")
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return told.get(timeout=90)
    finally:
        started.terminate()
        started.wait(20)


def test_firefox_shows_the_maps_of_python(seen: Any) -> None:
    live = seen["live"]
    model = language_model()
    trace = model.trace(TEXT, keep=("logits",))
    maps = np.frombuffer(base64.b64decode(live["maps"]), np.float32)
    assert len(live["tokens"]) == len(trace.tokens)
    assert np.abs(maps.reshape(trace.pattern.shape) - trace.pattern.numpy()).max() < 1e-4
    best = int(trace.logits[-1].argmax())
    share = f"{100 * trace.logits[-1].softmax(-1)[best]:.1f} %"
    assert live["bar"] == model.tokenizer.tokens([best])[0].replace(" ", "·") + share
    assert live["written"].startswith(TEXT)


def test_firefox_plays_the_game_of_the_first_page(seen: Any) -> None:
    measured = card("suspects")
    before, after = measured["before"][0], measured["mean"][24][4][0]
    said = f"{100 * after:.1f} % instead of {100 * before:.1f} %"
    assert seen["accused"].startswith("Without layer 24 · head 4, Mary is more likely: " + said)


def test_firefox_uncovers_what_a_prediction_covers(seen: Any) -> None:
    assert seen["predicted"] == {"covered": "until-found", "uncovered": False, "said": "Answered."}
