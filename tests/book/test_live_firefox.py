"""The live page in Firefox, which types into it, and sends what it sees back to this test.

Firefox needs no driver for that: it opens a page of ours that holds the live page in a frame. It
reaches no other host, because a proxy that does not exist stands before all of them.
"""

import base64
import functools
import http.server
import json
import queue
import shutil
import subprocess
import threading
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


class Driving(http.server.SimpleHTTPRequestHandler):
    """Serves the pages and one more, and keeps what that one sends."""

    told: queue.Queue[Any] = queue.Queue()

    def do_GET(self) -> None:
        """The page that types, or a file."""
        if self.path != "/drive.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        text = DRIVE.read_text(encoding="utf-8").replace("TEXT", json.dumps(TEXT))
        self.wfile.write(text.encode())
        return None

    def do_POST(self) -> None:
        """What Firefox saw."""
        self.told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing."""


def test_firefox_shows_the_maps_of_python(site: Path, tmp_path: Path) -> None:
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None or not (site / "live" / "minilm.onnx").exists():
        pytest.skip("needs Firefox, and the whole live page")
    (tmp_path / "user.js").write_text(ALONE, encoding="utf-8")
    handler = functools.partial(Driving, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/drive.html"
    command = [firefox, "--headless", "--no-remote", "--profile", str(tmp_path), address]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = Driving.told.get(timeout=60)
    finally:
        started.terminate()
        started.wait(20)
        server.shutdown()
        server.server_close()
    model = language_model()
    trace = model.trace(TEXT, keep=("logits",))
    maps = np.frombuffer(base64.b64decode(told["maps"]), np.float32)
    assert len(told["tokens"]) == len(trace.tokens)
    assert np.abs(maps.reshape(trace.attention.shape) - trace.attention.numpy()).max() < 1e-4
    best = int(trace.logits[-1].argmax())
    share = f"{100 * trace.logits[-1].softmax(-1)[best]:.1f} %"
    assert told["bar"] == model.tokenizer.tokens([best])[0].replace(" ", "·") + share
    assert told["written"].startswith(TEXT)
