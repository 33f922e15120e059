"""PDF by the browser that shows the pages: tagged, so that alternative texts stay, with bookmarks.

Chromium is asked because it sets the same HTML with the same fonts and formulas; a way over LaTeX
would need another installation and lose the tags. Views stand as their pictures: no script runs.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from book import BUILD

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ARTICLE = re.compile(r'<article class="bd-article"[^>]*>(.*?)</article>', re.S)
PAPER = {
    "format": "A4",
    "margin": dict.fromkeys(("top", "right", "bottom", "left"), "18mm"),
    "tagged": True,
    "outline": True,
}
PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="stylesheet" href="_static/pygments.css">
<link rel="stylesheet" href="_static/print.css">
</head>
<body>
{body}
</body>
</html>
"""


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, started for printing.

    Raises:
        RuntimeError: if it is not installed, or if Playwright does not start.
    """
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
    if path is None:
        raise RuntimeError("PDF is printed by Chromium, and there is none: install it first")
    with ExitStack() as stack:
        try:
            play = stack.enter_context(sync_playwright())
        except Exception as error:  # its Node.js did not start, and says above what it lacks
            raise RuntimeError(f"{error}. On Debian Playwright also needs libatomic1") from error
        started = play.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


def article(page: Path, name: str) -> str:
    """What stands on a page, its ids made unique by the name, links between pages within one."""
    found = ARTICLE.search(page.read_text(encoding="utf-8"))
    assert found is not None, f"{page} has no article"
    text = re.sub(r'(src|href)="(?:\.\./)+(_static|_images)/', r'\1="\2/', found[1])
    text = text.replace('<details class="about"', '<details open class="about"')
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    return re.sub(r'href="([\d_a-z]+)\.html(?:#([^"]*))?"', _within, text)


def _within(found: re.Match[str]) -> str:
    return f'href="#{found[1]}' + (f'-{found[2]}"' if found[2] else '"')


def pdf(site: Path, slides: Path, target: Path = BUILD / "pdf") -> None:
    """Print each chapter, the whole course, and each deck of slides.

    Args:
        site: the folder of the built pages.
        slides: the folder of the decks.
        target: where the PDF files go.
    """
    target.mkdir(parents=True, exist_ok=True)
    chapters = sorted((site / "chapters").glob("[0-9][0-9]_*.html"))
    texts = {
        path.stem: f'<section id="{path.stem}">{article(path, path.stem)}</section>'
        for path in chapters
    }
    jobs = {name: (name, text) for name, text in texts.items()}
    jobs["course"] = ("Attention", "\n".join(texts.values()))
    with browser() as started:
        context = started.new_context(java_script_enabled=False)
        page = context.new_page()
        for name, (title, body) in jobs.items():
            sheet = site / f"print-{name}.html"
            sheet.write_text(PAGE.format(title=title, body=body), encoding="utf-8")
            page.goto(sheet.as_uri())
            page.pdf(path=target / f"{name}.pdf", **PAPER)
            sheet.unlink()
        page = started.new_context(viewport={"width": 1280, "height": 720}).new_page()
        for path in sorted(slides.glob("[0-9][0-9]_*.html")):
            page.goto(f"{path.as_uri()}?print")
            page.wait_for_function("window.ready === true")
            page.pdf(
                path=target / f"{path.stem}-slides.pdf",
                prefer_css_page_size=True,
                print_background=True,
                tagged=True,
            )
