"""The browser of every test that drives one, and what is said after a run of the tests.

In the browser every host but 127.0.0.1 is blocked and noted, so that a script from elsewhere cannot
hide.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlparse

import pytest

collect_ignore = ["conftest.py"]  # for doctests: there is one in other folders, too
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


def missing(what: str) -> None:
    """Skip with a reason at home; on the test machine of the project a missing browser fails."""
    if os.environ.get("ATTNLIB_BROWSER") == "required":
        pytest.fail(f"{what} is missing, and ATTNLIB_BROWSER=required does not allow to skip")
    pytest.skip(f"{what} is missing: the browser tests need Chromium and Playwright for Python")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        missing("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright")
    with ExitStack() as stack:
        try:
            play = stack.enter_context(sync_playwright())
        except Exception as error:  # its Node.js did not start, and says above what it lacks
            missing(f"what Playwright's Node.js needs ({error}; on Debian: apt install libatomic1)")
        started = play.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


def opened(browser: Any) -> Any:
    """A page of its own; see `page`."""
    context = browser.new_context(viewport={"width": 1200, "height": 1000}, accept_downloads=True)
    made = context.new_page()
    made.asked, made.errors = [], []

    def note(request: Any) -> None:
        address = urlparse(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
            made.asked.append(request.url)

    context.on("request", note)  # a route would hold up every request, and FLAGS block them
    made.on("websocket", note)
    made.on("pageerror", lambda error: made.errors.append(str(error)))
    return made


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that reaches nothing but 127.0.0.1; `page.asked` lists what else was asked for."""
    made = opened(browser)
    yield made
    made.context.close()


@pytest.fixture(scope="module")
def pages(browser: Any) -> Iterator[Callable[[], Any]]:
    """Makes pages such as `page`, each with cookies of its own, as many people have."""
    with ExitStack() as stack:

        def make() -> Any:
            made = opened(browser)
            stack.callback(made.context.close)
            return made

        yield make
