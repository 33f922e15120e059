"""The live page in Firefox, which types into it, and sends what it sees back to this test.

Firefox needs no driver for that: it opens a page of ours that holds the live page in a frame. It
reaches no other host, because a proxy that does not exist stands before all of them.
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

from attnlib.pretrained import language_model

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


def test_firefox_shows_the_maps_of_python(
    site: Path, served: str, told: queue.Queue[Any], tmp_path: Path
) -> None:
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None:
        pytest.skip("needs Firefox")
    page = DRIVE.read_text(encoding="utf-8").replace("TEXT", json.dumps(TEXT))
    (site / "drive.html").write_text(page, encoding="utf-8")
    (tmp_path / "user.js").write_text(ALONE, encoding="utf-8")
    command = [firefox, "--headless", "--no-remote", "--profile", str(tmp_path)]
    command.append(f"{served}/drive.html")
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen = told.get(timeout=60)
    finally:
        started.terminate()
        started.wait(20)
    model = language_model()
    trace = model.trace(TEXT, keep=("logits",))
    maps = np.frombuffer(base64.b64decode(seen["maps"]), np.float32)
    assert len(seen["tokens"]) == len(trace.tokens)
    assert np.abs(maps.reshape(trace.pattern.shape) - trace.pattern.numpy()).max() < 1e-4
    best = int(trace.logits[-1].argmax())
    share = f"{100 * trace.logits[-1].softmax(-1)[best]:.1f} %"
    assert seen["bar"] == model.tokenizer.tokens([best])[0].replace(" ", "·") + share
    assert seen["written"].startswith(TEXT)
