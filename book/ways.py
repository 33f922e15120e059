"""The top of a chapter's page, and what leads from there to other pages.

A page shows its question, the minutes and the ways on in one line; goals, needs and the route stand
in a fold, so that the first figure is near.
"""

import functools
import re
from pathlib import Path

import nbformat
from chapter_rules import chapter_paths, header
from chapter_tools import SHORT

from book import ROOT

NEEDS = re.compile(r"^\*\*You need\*\* .*?(?=\n\n|\Z)", re.M | re.S)
GOALS = "**You will be able to**"
TIMES = re.compile(r"^\*\*Time\*\* (\d+ min to read) .*$", re.M)
ABOUT = "What you will be able to do, what you need, and the short route"
FOLD = """

{line}

<details class="about"><summary>{title}</summary>

{goals}

</details>"""


def with_ways(first: str, inside: Path) -> str:
    """The first cell of a chapter or an exercise, with its ways to other pages.

    Args:
        first: its Markdown.
        inside: where the notebook lies in the course.
    """
    up = "../" * (len(inside.parts) - 1)
    names = {path.name[:2]: path.name for path in chapter_paths()}

    def linked(found: re.Match[str]) -> str:
        name = names.get(found[0])
        return f"[{found[0]}]({up}chapters/{name})" if name else found[0]

    text = NEEDS.sub(lambda found: re.sub(r"\b\d\d\b", linked, found[0]), first)
    question, goals, rest = text.partition(f"\n\n{GOALS}")
    if not goals or inside.parent != Path("chapters"):
        return text
    line = " · ".join([*TIMES.findall(rest), *ways_on(inside)])
    goals = GOALS + TIMES.sub("", rest).strip() + route(inside)
    return question + FOLD.format(line=line, title=ABOUT, goals=goals)


def ways_on(inside: Path) -> list[str]:
    """What goes with a chapter: its slides, and its exercise if it has one, as links."""
    links = [f'<a href="../slides/{inside.stem}.html">slides</a>']
    exercise = ROOT / "exercises" / inside.stem / inside.name
    if exercise.exists():
        minutes = re.search(r"\*\*Time\*\* (\d+) min", exercise.read_text(encoding="utf-8"))
        target = f"../{exercise.relative_to(ROOT).as_posix()}"
        links.append(f"[exercise]({target}), {minutes[1] if minutes else '?'} min")
    return links


@functools.cache
def short_route() -> tuple[float, dict[Path, str]]:
    """The hours of the short route, and its chapters' titles."""
    short = [path for path in chapter_paths() if path.name[:2] in SHORT]
    told = {path: header(nbformat.read(path, as_version=4)) for path in short}
    hours = sum(one.read for one in told.values()) / 60
    # a number stays with the word after it
    return hours, {path: one.title.replace(" · ", "\u00a0·\u00a0") for path, one in told.items()}


def route(inside: Path) -> str:
    """Where a chapter stands on the short route, as a line of Markdown."""
    hours, short = short_route()
    steps = " → ".join(
        f"**{title}**" if path.name == inside.name else f"[{title}]({path.name})"
        for path, title in short.items()
    )
    on = "" if inside.name[:2] in SHORT else ", which passes this chapter by"
    return f"\n\n**The short route** ({hours:.0f} h{on}) {steps}"
