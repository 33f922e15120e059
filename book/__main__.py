"""`python -m book COMMAND`: writes the pages, the slides or the PDF files."""

import argparse
import sys

from chapter_rules import chapter_paths
from chapter_tools import executed, keep_views, kept_views

from book import BUILD, ROOT
from book.moving import moving
from book.notebooks import Views
from book.pages import book
from book.printing import pdf
from book.slides import slides


def all_views() -> dict[str, Views | None]:
    """What is kept of every chapter's views; a chapter of which nothing fits is run once."""
    views: dict[str, Views | None] = {}
    for path in chapter_paths():
        views[path.stem] = kept_views(path)
        if views[path.stem] is None:
            print(f"{path.stem}: its views are not kept yet, so it is run once ...", flush=True)
            done = executed(path)
            keep_views(path.stem, done)
            views[path.stem] = done.views
    return views


def main() -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m book", description=__doc__)
    parser.add_argument("command", choices=["book", "slides", "pdf", "moving"])
    command = parser.parse_args().command
    views = all_views()
    written = BUILD / command
    if command in ("book", "pdf"):
        book(views)
        written = BUILD / "book" / "html"
    if command in ("slides", "pdf"):
        slides(views)
        written = BUILD / "slides"
    if command == "pdf":
        written = BUILD / "pdf"
        pdf(BUILD / "book" / "html", BUILD / "slides", written)
    if command == "moving":
        book(views)
        written = moving()
    first = "/index.html" if command in ("book", "slides") else ""
    print(f"Written: {written.relative_to(ROOT).as_posix()}{first}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
