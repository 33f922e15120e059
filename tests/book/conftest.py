"""The course's pages and slides, made once for all tests and workers, with the network cut."""

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chapter_rules import chapter_paths, side_roads
from chapter_tools import kept_views
from filelock import FileLock


@pytest.fixture(scope="session")
def views() -> dict[str, Any]:
    """What is stored of each chapter's views; None, and pictures in their place, if it is stale."""
    return {path.stem: kept_views(path) for path in (*chapter_paths(), *side_roads())}


def once(name: str, make: Callable[[Path], object], factory: pytest.TempPathFactory) -> Path:
    """A folder that the first worker makes, while the others wait for it."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with FileLock(base / f"{name}.lock"):
        if not (complete := base / f"{name}.complete").exists():
            make(base / name)
            complete.touch()
    return base / name


@pytest.fixture(scope="session")
def site(views: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages."""
    from book.pages import book

    return once("book", lambda target: book(views, target), tmp_path_factory) / "html"


@pytest.fixture(scope="session")
def decks(views: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built slides."""
    from book.slides import slides

    return once("slides", lambda target: slides(views, target), tmp_path_factory)


class Serving(SimpleHTTPRequestHandler):
    """Serves the pages, keeps what one of them sends, and prints nothing."""

    told: queue.Queue[Any] = queue.Queue()

    def do_POST(self) -> None:
        """What a browser saw."""
        self.told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of the pages on this computer."""
    if not (site / "live" / "minilm.onnx").exists():
        if os.environ.get("ATTNLIB_LIVE") == "required":
            pytest.fail("a part is missing, and ATTNLIB_LIVE=required does not allow to skip")
        pytest.skip("a part of the live page is missing: make book tells which")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Serving, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def told(served: str) -> queue.Queue[Any]:
    """What a page sends to its server."""
    return Serving.told
