"""`python -m book COMMAND`: writes the pages, the slides or the PDF files."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from chapter_rules import chapter_paths, side_roads
from chapter_tools import Stopped, executed, keep_views, kept_views

from book import BUILD, ROOT
from book.moving import moving
from book.notebooks import Views
from book.pages import book
from book.printing import pdf
from book.slides import slides


def all_views(paths: Iterable[Path]) -> dict[str, Views | None]:
    """What is kept of the views of these chapters and side roads; what is missing is run once.

    None for a chapter that fails: its stored outputs are shown, and pictures for its views.
    """
    views: dict[str, Views | None] = {}
    for path in paths:
        views[path.stem] = kept_views(path)
        if views[path.stem] is None:
            print(f"{path.stem}: its views are not kept yet, so it is run once ...", flush=True)
            try:
                done = executed(path)
            except Stopped as error:
                print(f"{path.stem}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            keep_views(path.stem, done)
            views[path.stem] = done.views
    return views


def main() -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m book", description=__doc__)
    parser.add_argument("command", choices=["book", "slides", "pdf", "moving"])
    there = [path.stem for path in chapter_paths()]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="chapters such as 01_ngram, for slides alone"
    )
    options = parser.parse_args()
    command, names = options.command, options.names
    if names and command != "slides":
        parser.error(f"{command} takes the whole course: name no chapters")
    if unknown := sorted(set(names) - set(there)):
        parser.error(f"not in chapters/: {', '.join(unknown)}; there are: {', '.join(there)}")
    shown = chapter_paths() if command == "slides" else [*chapter_paths(), *side_roads()]
    views = all_views(path for path in shown if not names or path.stem in names)
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
    if still := [name for name, kept in views.items() if kept is None]:
        print(f"Failed, and shown with its stored outputs, without sliders: {', '.join(still)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
