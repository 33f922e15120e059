"""Lectures: each chapter as a deck of reveal.js, in one folder that a browser opens from the disk.

What stands on which slide is the matter of `book.lecture`. Here the slides become HTML: the next
key uncovers what a question asks about, and the notes keep the minutes.
"""

import html
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import sphinx_revealjs
from chapter_rules import chapter_paths, header

from book import BUILD
from book.lecture import ASKED, MARKDOWN, PAINT, SEEN, Slide, lecture, words
from book.notebooks import Assets, Views, with_assets
from book.pages import HERE, WIDGETS, live_script

REVEAL = Path(sphinx_revealjs.__file__).parent / "_static" / "revealjs"
REVEAL_FILES = ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE")
STYLES = ("reveal.css", "widgets.css", "pygments.css", "deck.css")
SCRIPTS = ("reveal.js", "notes.js", "live.js", "deck.js")
TEMPLATES = HERE / "templates"
PACE = 130  # words said in a minute
PAUSE = {"figure": 1.0, "table": 1.0, "list": 0.5, "claims": 1.0}  # minutes, to look
VOTE = 1.0  # minutes


def stopwatch(minutes: float) -> str:
    """Minutes as minutes and seconds."""
    return "{}:{:02}".format(*divmod(round(60 * minutes), 60))


def lasts(slide: Slide) -> float:
    """The minutes of a slide: to vote, to look, and to say what its notes say of it."""
    said = [MARKDOWN.render(part) for part in slide.notes if not part.startswith((SEEN, ASKED))]
    looks = PAUSE.get(slide.kind, 0) + VOTE * bool(slide.cover)
    return looks + sum(map(words, (slide.title, *said))) / PACE


def sections(slides: Sequence[Slide]) -> Iterator[str]:
    """Slides as HTML; their notes begin with the minutes."""
    notes = ["".join(MARKDOWN.render(part) for part in slide.notes) for slide in slides]
    spent = list(accumulate(lasts(slide) for slide in slides))
    begin = "0:00"
    for slide, said, until in zip(slides, notes, spent, strict=True):
        end = stopwatch(until)
        level = "h1" if slide.kind == "title" else "h2"
        topic = MARKDOWN.renderInline(slide.topic) if slide.topic != slide.title else ""
        cover = f'<div class="cover fragment custom">{slide.cover}</div>\n' if slide.cover else ""
        yield (
            f'<section>\n<div class="sheet {slide.kind}">\n'
            f"<{level}>{MARKDOWN.renderInline(slide.title)}</{level}>\n"
            f'<div class="body">{slide.body}</div>\n'
            f"<footer><span>{topic}</span>{''.join(slide.folds)}</footer>\n{cover}</div>\n"
            f'<aside class="notes"><p>{begin}–{end} of {stopwatch(spent[-1])}</p>\n'
            f"{said}</aside>\n</section>"
        )
        begin = end


def answers(views: Views | None) -> dict[tuple[str, int], str]:
    """The views of a chapter's predictions, by cell and output: ask, truth or so_far."""
    return {
        (cell, int(number)): state["_spec"].get("part", "")
        for cell, outputs in (views or {}).items()
        for number, state in outputs.items()
        if state.get("_spec", {}).get("kind") == "predict"
    }


def deck(path: Path, views: Views | None, target: Path) -> str:
    """Write the deck of one chapter, and return its title."""
    notebook = with_assets(path, views, Assets(target / "assets"), "assets")
    told = header(notebook)
    page = (
        (TEMPLATES / "deck.html")
        .read_text(encoding="utf-8")
        .format(
            title=html.escape(told.title),
            sections="\n".join(sections(lecture(notebook, answers(views)))),
            styles="\n".join(f'<link rel="stylesheet" href="assets/{name}">' for name in STYLES),
            scripts="\n".join(f'<script src="assets/{name}"></script>' for name in SCRIPTS),
        )
    )
    (target / f"{path.stem}.html").write_text(page, encoding="utf-8")
    return told.title


def slides(views: dict[str, Views | None], target: Path = BUILD / "slides") -> None:
    """Write the decks of the chapters that are named, and a page that lists them."""
    assets = Assets(target / "assets")
    for name in REVEAL_FILES:
        assets.write(Path(name).name, (REVEAL / name).read_bytes())
    assets.write("live.js", live_script())
    assets.write("pygments.css", PAINT.get_style_defs(".code").encode())
    for path in (WIDGETS / "widgets.css", *(HERE / "static" / f"deck.{x}" for x in ("css", "js"))):
        assets.write(path.name, path.read_bytes())
    rows = "\n".join(
        f'<li><a href="{path.stem}.html">'
        f"{html.escape(deck(path, views[path.stem], target))}</a></li>"
        for path in chapter_paths()
        if path.stem in views
    )
    index = (TEMPLATES / "slides.html").read_text(encoding="utf-8")
    (target / "index.html").write_text(index.format(rows=rows), encoding="utf-8")
