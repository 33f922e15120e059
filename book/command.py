"""The commands of `python -m book`: pages, slides, PDF files, and the README's moving picture."""

import argparse
import time

from chapter_rules import chapter_paths, side_roads
from chapter_tools import kept_views
from tqdm import tqdm

from book import BUILD, ROOT
from book.moving import moving
from book.pages import book
from book.printing import pdf
from book.slides import slides

LASTS = {  # on two idle cores, for the first time; later only what changed is made anew
    "book": "a minute, and more where the network is slow",
    "slides": "half a minute",
    "pdf": "ten minutes",
    "moving": "two minutes",
}
BAR = "{desc}{percentage:3.0f} %|{bar}| {elapsed}"


def options(words: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m book", description=__doc__)
    parser.add_argument("command", choices=list(LASTS))
    there = [path.stem for path in chapter_paths()]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="chapters such as 01_ngram, for slides alone"
    )
    found = parser.parse_args(words)
    if found.names and found.command != "slides":
        parser.error(f"{found.command} takes the whole course: name no chapters")
    if unknown := sorted(set(found.names) - set(there)):
        parser.error(f"not in chapters/: {', '.join(unknown)}; there are: {', '.join(there)}")
    return found


def main(words: list[str] | None = None) -> int:
    """Do what the command line says, and return the exit status."""
    found, began = options(words), time.monotonic()
    command, names = found.command, found.names
    paths = chapter_paths() if command == "slides" else [*chapter_paths(), *side_roads()]
    paths = [path for path in paths if not names or path.stem in names]
    print(f"Writing {command} from {len(paths)} stored chapters and side roads; none is run.")
    print(f"The first time it takes about {LASTS[command]}.", flush=True)
    views = {path.stem: kept_views(path) for path in paths}
    written = BUILD / command
    if command != "slides":
        with tqdm(total=100, bar_format=BAR, disable=None) as bar:

            def told(percent: int, step: str) -> None:
                bar.update(percent - bar.n)
                bar.set_description_str(f"{step:<27}")

            book(views, told=told)
        written = BUILD / "book" / "html"
    if command in ("slides", "pdf"):
        slides(views)
        written = BUILD / "slides"
    if command == "pdf":
        written = BUILD / "pdf"
        pdf(BUILD / "book" / "html", BUILD / "slides", written)
    if command == "moving":
        written = moving()
    first = "/index.html" if command in ("book", "slides") else ""
    seconds = time.monotonic() - began
    print(f"Written in {seconds:.0f} s: {written.relative_to(ROOT).as_posix()}{first}")
    if still := " ".join(name for name, kept in views.items() if kept is None):
        print(f"With pictures in place of sliders, for they changed since they were run: {still}.")
        print(f'This runs them: make chapters NAMES="{still}"')
    return 0
