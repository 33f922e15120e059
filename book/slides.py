"""Lectures: each chapter as a deck of reveal.js, in one folder that a browser opens from the disk.

The deck holds the chapter's cells in their order. What stands on which slide is decided when it is
opened, by `static/deck.js`, which measures: so a slide fits whatever fonts the lecture room has.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import sphinx_revealjs
from chapter_rules import chapter_paths, header, is_folded
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from book import BUILD
from book.mathml import formula
from book.notebooks import Assets, Views, with_assets
from book.pages import HERE, WIDGETS, live_script

REVEAL = Path(sphinx_revealjs.__file__).parent / "_static" / "revealjs"
REVEAL_FILES = ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE")
PAINT = HtmlFormatter(style="a11y-high-contrast-light", nowrap=True)
DECK = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
{styles}
</head>
<body>
<div class="reveal"><div class="slides"></div></div>
<main id="cells" data-minutes="{minutes}">
{cells}
</main>
{scripts}
</body>
</html>
"""
INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Slides</title>
</head>
<body style="font: 1.2rem system-ui; margin: 2rem; line-height: 1.8">
<main>
<h1>Slides</h1>
<ul>
{rows}
</ul>
</main>
</body>
</html>
"""
MARKDOWN = (
    MarkdownIt("commonmark", {"html": True})
    .enable("table")
    .use(
        dollarmath_plugin,
        double_inline=True,
        renderer=lambda tex, options: formula(tex, options["display_mode"]),
    )
)


def code(source: str, folded: bool) -> str:
    """A cell's code as HTML; folded code is opened over the slide."""
    shown = f'<pre class="code"><code>{highlight(source, PythonLexer(), PAINT)}</code></pre>'
    return f"<details><summary>Code</summary>{shown}</details>" if folded else shown


def outputs(cell: NotebookNode) -> Iterator[str]:
    """A code cell's outputs as HTML."""
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data:
            yield f'<div class="output">{data["text/html"]}</div>'
        else:
            text = output.get("text", data.get("text/plain", "")).rstrip()
            yield f'<pre class="text">{html.escape(text)}</pre>'


def cell_html(cell: NotebookNode) -> str:
    """A cell as HTML, with the kind of slide that it begins or goes on."""
    kind = cell.metadata.get("slideshow", {}).get("slide_type", "-")
    if cell.cell_type == "markdown":
        parts = [MARKDOWN.render(cell.source)]
    else:
        parts = [code(cell.source, is_folded(cell)), *outputs(cell)] if cell.source else []
    return f'<div class="cell" data-kind="{kind}">\n{"".join(parts)}\n</div>'


def deck(path: Path, views: Views | None, target: Path) -> Path:
    """Write the deck of one chapter, and return its file."""
    notebook = with_assets(path, views, Assets(target / "assets"), "assets")
    told = header(notebook)
    styles = ("reveal.css", "widgets.css", "pygments.css", "deck.css")
    scripts = ("reveal.js", "notes.js", "live.js", "deck.js")
    page = DECK.format(
        title=html.escape(told.title),
        minutes=told.read,
        cells="\n".join(map(cell_html, notebook.cells)),
        styles="\n".join(f'<link rel="stylesheet" href="assets/{name}">' for name in styles),
        scripts="\n".join(f'<script src="assets/{name}"></script>' for name in scripts),
    )
    written = target / f"{path.stem}.html"
    written.write_text(page, encoding="utf-8")
    return written


def slides(views: dict[str, Views | None], target: Path = BUILD / "slides") -> None:
    """Write the decks of the chapters that are named, and a page that lists them."""
    assets = Assets(target / "assets")
    for name in REVEAL_FILES:
        assets.write(Path(name).name, (REVEAL / name).read_bytes())
    assets.write("live.js", live_script())
    assets.write("pygments.css", PAINT.get_style_defs(".code").encode())
    for path in (
        WIDGETS / "widgets.css",
        HERE / "static" / "deck.css",
        HERE / "static" / "deck.js",
    ):
        assets.write(path.name, path.read_bytes())
    rows = []
    for path in chapter_paths():
        if path.stem in views:
            written = deck(path, views[path.stem], target)
            title = re.search("<title>(.*)</title>", written.read_text(encoding="utf-8"))
            rows.append(f'<li><a href="{written.name}">{title[1] if title else path.stem}</a></li>')
    (target / "index.html").write_text(INDEX.format(rows="\n".join(rows)), encoding="utf-8")
