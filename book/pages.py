"""The static site: Sphinx's sources in build/book/source, and the pages that it makes of them.

The sources lie as the course's own files do, so that a link from one to the other leads to a page.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

import nbformat
from chapter_rules import chapter_paths, side_roads
from chapter_tools import routes
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from road_rules import THESES

from attnlib.pretrained import card
from attnlib.widgets import Suspects
from attnlib.widgets.page import script
from book import BUILD, ROOT
from book.building import Told, silent, sphinx
from book.live import link, live_page, missing, place
from book.notebooks import Assets, Views, with_assets
from book.theses import theses_page
from book.ways import with_ways

HERE = Path(__file__).parent
WIDGETS = ROOT / "attnlib" / "widgets"
DOCUMENTS = (
    "docs/installing.md",
    "docs/teaching.md",
    "docs/library.md",
    "docs/architecture.md",
    "CONTRIBUTING.md",
)
TOCTREE = "\n```{{toctree}}\n:hidden:\n:caption: {}\n\n{}\n```\n"
LONG = 12  # lines of code: a longer cell is folded on a page
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")


def live_script() -> bytes:
    """All the JavaScript of the pages, as one plain script."""
    names = ("live.js", "linked.js", "tables.js")
    own = "".join((HERE / "static" / name).read_text("utf-8") for name in names)
    return f"(() => {{\n{script()}{own}}})();\n".encode()


def shared_files(assets: Assets) -> None:
    """The script and the styles of views."""
    assets.write("live.js", live_script())
    for path in (
        WIDGETS / "widgets.css",
        *(HERE / "static" / n for n in ("book.css", "print.css")),
    ):
        assets.write(path.name, path.read_bytes())


def tagged(notebook: NotebookNode, folds: bool = False) -> NotebookNode:
    """The notebook as myst-nb wants it: its folded cells marked, its texts marked up.

    Args:
        notebook: of the course.
        folds: whether long cells are folded, too, unless they are shown on slides.
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_callouts(with_citations(cell.source))
            continue
        shown = "slide" in cell.metadata.get("tags", []) or not folds
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
        if hidden or (not shown and lines_of_code(cell.source) > LONG):
            cell.metadata["tags"] = ["hide-input"]
            prompt = f"Code: {what_it_does(cell.source)}"
            cell.metadata["mystnb"] = {"code_prompt_show": prompt, "code_prompt_hide": prompt}
    return notebook


def lines_of_code(source: str) -> int:
    """The lines of a cell that are not empty."""
    return sum(line.strip() != "" for line in source.splitlines())


def what_it_does(source: str) -> str:
    """The title of a folded cell: its first line if that is a comment, else what it defines.

    >>> what_it_does("# draws both maps\\nmaps(a, b)"), what_it_does("def train(seed):\\n    pass")
    ('draws both maps', 'train')
    """
    first = source.partition("\n")[0]
    if first.startswith("# "):
        return first.removeprefix("# ")
    defined = re.findall(r"^(?:def|class) (\w+)", source, re.M)
    return ", ".join(defined) or f"{lines_of_code(source)} lines"


def with_callouts(text: str) -> str:
    """Text, each prediction and each notice in a box of its own."""
    asked = re.compile(r"^\*\*(Predict|Notice)\b.*?(?=\n\n|\Z)", re.M | re.S)
    return asked.sub(r'<div class="callout \1">\n\n\g<0>\n\n</div>', text)


def with_citations(text: str) -> str:
    """Text, the keys that end its references linked with the bibliography."""
    key = re.compile(r"^([-*] .+(?:\n +.+)*?)`([\w-]+)`(\.?\s*)$", re.M)
    head, heading, references = text.partition("## References\n")
    return head + heading + key.sub(r"\1{cite:p}`\2`\3", references)


def with_links(text: str, place: Path, pages: set[Path]) -> str:
    """Text without links to files that are no page: their words stay.

    A link to theses.toml leads to the page that is made of it.
    """

    def kept(found: re.Match[str]) -> str:
        target = (ROOT / place.parent / found[2]).resolve()
        if target == THESES:
            return f"[{found[1]}]({'../' * (len(place.parts) - 1)}theses.md)"
        return found[0] if target in pages else found[1]

    return LINK.sub(kept, text)


def rooms() -> Iterator[tuple[str, list[str]]]:
    """The parts of the library, each with its modules."""
    library = ROOT / "attnlib"
    for path in sorted(library.iterdir()):
        if path.suffix == ".py" and not path.name.startswith("_"):
            yield f"attnlib.{path.stem}", []
        elif (path / "__init__.py").exists():
            inside = sorted(p.stem for p in path.glob("*.py") if not p.name.startswith("_"))
            yield f"attnlib.{path.name}", [f"attnlib.{path.name}.{name}" for name in inside]


def reference(name: str, modules: Sequence[str]) -> str:
    """The page of one part of the library, in reStructuredText."""
    parts = [f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n"]
    if not modules:
        parts.append("   :members:\n")
    for module in modules:
        parts.append(f"\n{module}\n{'-' * len(module)}\n\n.. automodule:: {module}\n   :members:\n")
    return "".join(parts)


def write(path: Path, text: str) -> None:
    """Write a source unless it says the same already: then Sphinx leaves its page alone."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def pages_of_the_site() -> Iterator[tuple[str, Path]]:
    """The course's own files that become pages, each under the name that it has in the sources."""
    yield "README.md", ROOT / "README.md"
    exercises = sorted((ROOT / "exercises").glob("*/*.ipynb"))
    documents = (ROOT / name for name in DOCUMENTS)
    for path in (*chapter_paths(), *side_roads(), *exercises, *documents):
        yield path.relative_to(ROOT).as_posix(), path


def notebook_source(path: Path, views: Views | None, assets: Assets, pages: set[Path]) -> str:
    """A chapter or an exercise as Sphinx reads it."""
    inside = path.relative_to(ROOT)
    up = "../" * (len(inside.parts) - 1)
    beside = functools.partial(link, address=up)
    folds = "chapters" in inside.parts
    notebook = tagged(with_assets(path, views, assets, f"{up}_static", beside), folds)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_links(cell.source, inside, pages)
    notebook.cells[0].source = with_ways(notebook.cells[0].source, inside)
    if beneath := beneath_chapter(path):
        notebook.cells.append(new_markdown_cell(beneath, id="list-of-side-roads"))
    return nbformat.writes(notebook)


def beneath_chapter(path: Path) -> str:
    """The hidden list of a chapter's exercise and side roads, empty if it has none."""
    if path.parent.name != "chapters":
        return ""
    exercise = ROOT / "exercises" / path.stem / path.name
    beneath = [f"/exercises/{path.stem}/{path.stem}"] if exercise.exists() else []
    beneath += [f"more/{p.stem}" for p in side_roads() if p.stem[:3] == path.stem[:3]]
    return hidden_list("Beside it", beneath) if beneath else ""


def hidden_list(title: str, listed: Sequence[str]) -> str:
    """Pages as the contents beside every page list them, under a title."""
    return TOCTREE.format(title, "\n".join(listed))


def contents(names: Sequence[str]) -> str:
    """The hidden lists that the first page ends with: the site's contents."""
    plain = [name.rpartition(".")[0] for name in names]
    parts = {
        "Live": ["try"],
        "Chapters": [name for name in plain if re.match(r"chapters/\d", name)],
        "About": [
            "The course in short <README>",
            "theses",
            *(name.removesuffix(".md") for name in DOCUMENTS),
            "bibliography",
        ],
    }
    return "".join(hidden_list(title, listed) for title, listed in parts.items())


def suspects(assets: Assets) -> str:
    """The front page's game, of what recipes/suspects.py measured."""
    measured = card("suspects")
    ways = {"its mean": measured["mean"], "zeros": measured["zero"]}
    tokens, words = measured["tokens"], measured["next"]
    game = Suspects(tokens, words, measured["before"], measured["weights"], ways)
    instead = "<noscript>The 270 heads need a script. The chapters do not.</noscript>"
    return assets.view("suspects", game.state(), instead, "_static")


def front_page(views: dict[str, Views | None], assets: Assets) -> str:
    """The first page: heads to accuse, the ways in, and the maps of chapter 00."""
    chapter = chapter_paths()[0]
    notebook = with_assets(chapter, views.get(chapter.stem), assets, "_static")
    shown = (
        output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])
    )
    alive = [data["text/html"] for data in shown if "MiniLM reads" in data.get("text/html", "")]
    text = (HERE / "templates" / "front.md").read_text(encoding="utf-8")
    ways = routes(chapter_paths(), side_roads())
    return Template(text).substitute(suspects=suspects(assets), view=alive[0], routes=ways)


def sources(target: Path, views: dict[str, Views | None], lacks: str | None) -> None:
    """Write the sources of the site into a folder.

    Args:
        target: the folder.
        views: what is kept of each chapter's.
        lacks: what the live page cannot have.
    """
    named, library, assets = dict(pages_of_the_site()), dict(rooms()), Assets(target / "_static")
    pages = set(named.values())
    shared_files(assets)
    for name, path in named.items():
        if path.suffix == ".ipynb":
            write(target / name, notebook_source(path, views.get(path.stem), assets, pages))
            continue
        text = with_links(path.read_text(encoding="utf-8"), path.relative_to(ROOT), pages)
        text = text.replace("```mermaid", "```text")  # its drawing needs a large script
        if name == "docs/library.md":
            text += hidden_list("The library", [f"/api/{room}" for room in library])
        write(target / name, text)
    for name, modules in library.items():
        write(target / "api" / f"{name}.rst", reference(name, modules))
    front = front_page(views, assets) + contents(list(named))
    write(target / "index.md", front)
    write(target / "try.md", live_page(assets, lacks))
    write(target / "theses.md", theses_page(assets))
    write(target / "bibliography.md", "# References\n\n```{bibliography}\n:all:\n```\n")
    for picture in (ROOT / "docs").iterdir():
        if picture.suffix in {".png", ".gif", ".webp"}:
            Assets(target / "docs").write(picture.name, picture.read_bytes())


def stand_in(name: str) -> str:
    """The page in a deck's place, which says where `make slides` writes the deck."""
    text = (HERE / "templates" / "stand_in.html").read_text(encoding="utf-8")
    return Template(text).substitute(name=name)


def book(
    views: dict[str, Views | None], target: Path = BUILD / "book", told: Told = silent
) -> None:
    """Write the site; what did not change since the last time stays as it is.

    Args:
        views: what is stored of each chapter's; None where it is of other code.
        target: the folder of the sources and of the site.
        told: hears how much is done, in percent, and what is next.

    Raises:
        RuntimeError: if Sphinx warns of anything.
    """
    told(0, "the models of the live page")
    if lacks := missing():
        print(f"The page of live models is built without them. {lacks}", flush=True)
    told(30, "the sources of the pages")
    sources(target / "source", views, lacks)
    sphinx(target, told)
    place(target / "html", lacks)
    for path in chapter_paths():
        deck = target / "html" / "slides" / f"{path.stem}.html"
        if not deck.exists():
            write(deck, stand_in(path.stem))
    told(100, "done")
