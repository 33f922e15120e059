"""Lectures: each chapter as a deck of reveal.js, in one folder that a browser opens from the disk.

A slide is no page of the notebook. Each step of the road gives its question, large and alone; then
the figure, or the view, as large as the screen; then the sentence to notice. What the chapter says
besides stands in the speaker's notes, and the code behind a key, unless its cell is tagged
`slide`: then the code is the idea, and has a slide.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
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
STYLES = ("reveal.css", "widgets.css", "pygments.css", "deck.css")
SCRIPTS = ("reveal.js", "notes.js", "live.js", "deck.js")
PAINT = HtmlFormatter(style="a11y-high-contrast-light", nowrap=True)
TEMPLATES = HERE / "templates"
MARKDOWN = (
    MarkdownIt("commonmark", {"html": True})
    .enable("table")
    .use(
        dollarmath_plugin,
        double_inline=True,
        renderer=lambda tex, options: formula(tex, options["display_mode"]),
    )
)
UNSEEN = {"Exercises", "Side roads", "References", "Appendix"}  # headings of what is not lectured
CLAIMS = "What to remember"  # the heading over the theses
WORDS = 60  # on a slide, at most
LINES, WIDTH = 7, 80  # of what is printed on a slide: more is for a reader, not for the last row
PRINTED = 36  # words of it, so that a sentence to notice has room
PACE = 130  # words said in a minute
PAUSE = {"predict": 1.0, "figure": 1.0, "list": 0.5, "claims": 1.0}  # minutes: to vote, to look
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[^a-z\s])")


@dataclass
class Slide:
    """One slide.

    Attributes:
        kind: title, predict, figure, text, code, formula, notice, list or claims: the looks of it.
        heading: of the section that it belongs to, as Markdown.
        shown: its HTML.
        folds: what opens over it, each as HTML: code, and how we know.
        notes: what the lecturer says to it, as Markdown.
        answer: to a prediction, as Markdown: what is to be noticed, some slides later.
    """

    kind: str
    heading: str
    shown: str
    folds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answer: str = ""


def letters(text: str, largest: float) -> str:
    """The style of monospaced text: as large, in rem, as its longest line has room for, or 1.5."""
    room = 75 / (0.61 * max(map(len, text.splitlines())) + 2)
    return f' style="font-size: {max(1.5, min(largest, room)):.2f}rem"'


def painted(source: str, style: str = "") -> str:
    """Code as HTML."""
    code = highlight(source, PythonLexer(), PAINT)
    return f'<pre class="code"{style}><code>{code}</code></pre>'


def fold(title: str, inside: str) -> str:
    """What opens over a slide, as HTML."""
    return f"<details><summary>{title}</summary>{inside}</details>"


def blocks(source: str) -> list[str]:
    """The blocks of a Markdown cell, each as Markdown; a fold is one block."""
    lines, found, depth = source.splitlines(), list[str](), 0
    for token in MARKDOWN.parse(source):
        if token.level or token.map is None:
            continue
        text = "\n".join(lines[token.map[0] : token.map[1]]).strip()
        if depth:
            found[-1] += "\n\n" + text
        else:
            found.append(text)
        depth += text.count("<details") - text.count("</details>")
    return found


def cut(text: str, room: int) -> tuple[str, str]:
    """As many of a paragraph's first sentences as have room, in words, but one; and the rest."""
    sentences = SENTENCE.split(text)
    counts = list(accumulate(len(one.split()) for one in sentences))
    taken = max(1, sum(count <= room for count in counts))
    return " ".join(sentences[:taken]), " ".join(sentences[taken:])


def words(text: str) -> int:
    """How many words HTML shows, formulas apart."""
    return len(re.sub(r"<math.*?</math>|<[^>]*>", " ", text, flags=re.S).split())


class Lecture:
    """A chapter on its way to a deck: the slides so far, and what waits for the next one."""

    def __init__(self) -> None:
        self.slides: list[Slide] = []
        self.heading, self.seen = "", True
        self.code: list[str] = []
        self.said: list[str] = []
        self.printed = ""

    def add(self, kind: str, shown: str) -> Slide:
        """Begin a slide; what waited becomes its notes and its code."""
        made = Slide(kind, self.heading, shown, notes=self.said)
        if self.code and kind != "predict":
            made.folds.append(fold("Code", painted("\n\n".join(self.code))))
            self.code = []
        self.said = []
        self.slides.append(made)
        return made

    def flush(self) -> None:
        """Give what was printed a slide of its own, if nothing was noticed about it."""
        if self.printed:
            shown, self.printed = self.printed, ""
            self.add("text", shown)

    def end(self) -> None:
        """End a section: what is left to say belongs to its last slide, and a section has one."""
        self.flush()
        if not self.said:
            return
        if self.slides[-1].heading != self.heading:
            seen, rest = cut(self.said.pop(), WORDS)
            self.add("text", MARKDOWN.render(seen)).notes += [rest] if rest else []
        self.slides[-1].notes += self.said
        self.said = []

    def markdown(self, block: str) -> None:
        """Go on with a block of Markdown."""
        if block.startswith("## "):
            self.end()
            self.heading = block.removeprefix("## ")
            self.seen = self.heading not in UNSEEN
        elif not self.seen or block.startswith(("# ", "**Time**")):
            return
        elif block.startswith("<details") and self.slides:
            self.slides[-1].folds.append(MARKDOWN.render(block))
        elif self.heading in (CLAIMS, "Three questions"):
            self.closing(block)
        elif block.startswith("**Predict"):
            self.flush()
            self.add("predict", MARKDOWN.render(block))
        elif block.startswith("**Notice"):
            self.notice(block)
        elif block.startswith("$$"):
            self.flush()
            self.add("formula", MARKDOWN.render(re.sub(r"[.,;]\s*\$\$$", "$$", block)))
        else:
            self.said.append(block)

    def text(self, cell: NotebookNode) -> None:
        """Go on with a cell of Markdown; the first paragraph of one that is tagged has a slide."""
        begins = "slide" in cell.metadata.get("tags", [])
        for block in blocks(cell.source):
            if begins and not block.startswith("#"):
                self.flush()
                self.add("text", MARKDOWN.render(block))
                begins = False
            else:
                self.markdown(block)

    def notice(self, block: str) -> None:
        """Show the sentence to notice, under what was printed; the rest is said."""
        room = WORDS - words(self.printed)
        if len(cut(block, room)[0].split()) > room:
            self.flush()
        seen, rest = cut(block, WORDS - words(self.printed))
        shown, self.printed = self.printed, ""
        made = self.add("notice", shown + MARKDOWN.render(seen))
        made.notes += [rest] if rest else []
        for slide in self.slides:
            if slide.kind == "predict" and not slide.answer:
                slide.answer = block.replace("**Notice.**", "**Answer.**", 1)

    def closing(self, block: str) -> None:
        """Show one of the last parts, on one slide."""
        shown, last = MARKDOWN.render(block), self.slides[-1]
        if last.heading == self.heading:
            last.shown += shown
        else:
            self.add("claims" if self.heading == CLAIMS else "list", shown)

    def has_room(self, text: str) -> bool:
        """Whether what a cell prints can be read on a slide, with what is there already."""
        if "\n" not in text and len(text) > 2 * WIDTH:  # no row of numbers: a text, to be broken
            return not self.printed and len(text.split()) <= WORDS
        lines = [*self.printed.splitlines(), *text.splitlines()]
        return (
            len(lines) <= LINES
            and len(" ".join(lines).split()) <= PRINTED
            and all(len(line) <= WIDTH for line in text.splitlines())
        )

    def cell(self, cell: NotebookNode) -> None:
        """Go on with a cell of code."""
        if not (self.seen and cell.source):
            return
        if "slide" in cell.metadata.get("tags", []):
            self.flush()
            self.add("code", painted(cell.source, letters(cell.source, 2)))
        elif not is_folded(cell):
            self.code.append(cell.source)
        for output in cell.outputs:
            data = output.get("data", {})
            text = output.get("text", data.get("text/plain", "")).rstrip()
            if "text/html" in data:
                self.flush()
                shown = data["text/html"]
                made = self.add("figure", f'<div class="output">{shown}</div>')
                made.notes += [f"**To see.** {alt}" for alt in re.findall(r'alt="([^"]*)"', shown)]
            elif self.has_room(text):
                style = letters(text, 1.9) if "\n" in text else ""
                self.printed += f'<pre class="text"{style}>{html.escape(text)}</pre>'
            else:
                self.code.append("# " + text.replace("\n", "\n# "))


def lecture(notebook: NotebookNode) -> list[Slide]:
    """The slides of a chapter: its title and its question first, what it claims last."""
    made = Lecture()
    made.add("title", MARKDOWN.render("\n".join(notebook.cells[0].source.splitlines()[:2])))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            made.cell(cell)
        else:
            made.text(cell)
    made.flush()
    return sorted(made.slides, key=lambda slide: slide.heading == CLAIMS)


def stopwatch(minutes: float) -> str:
    """Minutes as minutes and seconds."""
    return "{}:{:02}".format(*divmod(round(60 * minutes), 60))


def sections(slides: Sequence[Slide]) -> Iterator[str]:
    """Slides as HTML; their notes begin with the minutes, and end with the answer."""
    notes = ["".join(MARKDOWN.render(part) for part in slide.notes) for slide in slides]
    spent = list(
        accumulate(
            PAUSE.get(slide.kind, 0) + words(said + slide.shown) / PACE
            for said, slide in zip(notes, slides, strict=True)
        )
    )
    begin = "0:00"
    for slide, said, until in zip(slides, notes, spent, strict=True):
        end = stopwatch(until)
        heading = MARKDOWN.renderInline(slide.heading)
        yield (
            f'<section>\n<div class="sheet {slide.kind}">\n'
            f"{f'<h2>{heading}</h2>' if heading else ''}\n{slide.shown}\n"
            f'<div class="folds">{"".join(slide.folds)}</div>\n</div>\n'
            f'<aside class="notes"><p>{begin}–{end} of {stopwatch(spent[-1])}</p>\n'
            f"{said}{MARKDOWN.render(slide.answer)}</aside>\n</section>"
        )
        begin = end


def deck(path: Path, views: Views | None, target: Path) -> str:
    """Write the deck of one chapter, and return its title."""
    notebook = with_assets(path, views, Assets(target / "assets"), "assets")
    told = header(notebook)
    page = (
        (TEMPLATES / "deck.html")
        .read_text(encoding="utf-8")
        .format(
            title=html.escape(told.title),
            sections="\n".join(sections(lecture(notebook))),
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
