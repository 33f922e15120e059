"""The page of all that the course claims, made of chapters/theses.toml."""

import html
from collections.abc import Iterable, Mapping
from typing import Any

import nbformat
from chapter_rules import chapter_paths
from nbformat import NotebookNode
from road_rules import OUTCOMES, theses

from book.notebooks import Assets

ASKED = {"smollm2": "SmolLM2", "gemma3": "Gemma 3"}  # two models that people use


def thesis_entry(number: str, thesis: Mapping[str, Any], shown: str) -> str:
    """A thesis as the page of all theses has it: what it rests on, and how to run its test.

    Args:
        number: its chapter's two digits.
        thesis: its table in theses.toml.
        shown: the output that shows it, as HTML.

    >>> asked = dict(sentence="", control="", sure="", test="", models={})
    >>> 'data-smollm2="not asked"' in thesis_entry("01", asked, "")
    True
    """
    data = "".join(f' data-{name}="{outcome(thesis, name)}"' for name in ASKED)
    models = "; ".join(f"{name}: {told}" for name, told in thesis["models"].items())
    return f"""<div class="thesis" data-chapter="{number}"{data}>

**{thesis["sentence"]}**

- Control: {thesis["control"]}
- How sure: {thesis["sure"]}
- Tried on: {models}
- Test: `python -m pytest {thesis["test"]}`

<details><summary>What shows it</summary>{shown}</details>

</div>"""


def outcome(thesis: Mapping[str, Any], model: str) -> str:
    """What a model said to a thesis, in one of the words of `OUTCOMES`."""
    said = thesis["models"].get(model, "not asked")
    return next(told for told in OUTCOMES if said.startswith(told))


def choice(label: str, name: str, options: Iterable[str]) -> str:
    """One of the page's filters, as HTML; what it hides is said in CSS alone."""
    every = "".join(f'<option value="{one}">{one}</option>' for one in options)
    return (
        f'<label>{label} <select id="{name}"><option value="">all</option>{every}</select></label>'
    )


def theses_page(assets: Assets) -> str:
    """All that the course claims, chapter by chapter, to be filtered by chapter and by outcome."""
    chapters = {path.name[:2]: path for path in chapter_paths() if path.name[:2] in theses()}
    filters = {"chapter": list(chapters)} | {name: list(OUTCOMES) for name in ASKED}
    hidden = "".join(
        f'.bd-article:has(#by-{name} option[value="{one}"]:checked) :is(.thesis, section:has(> '
        f'.thesis)):not([data-{name}="{one}"], :has([data-{name}="{one}"])) {{display: none}}\n'
        for name, options in filters.items()
        for one in options
    )
    parts = [
        "# All that this course claims",
        "Each sentence with what could have refuted it, the unit over which we are sure of it, the "
        "models on which it was tried, and the test that guards it.",
        f"<style>\n{hidden}</style>",
        '<p class="filters">'
        + " ".join(
            choice("Chapter" if name == "chapter" else f"In {ASKED[name]}", f"by-{name}", options)
            for name, options in filters.items()
        )
        + "</p>",
    ]
    for number, path in chapters.items():
        cells = nbformat.read(path, 4).cells
        title = cells[0].source.splitlines()[0].removeprefix("# ")
        parts.append(f"## [{title}](chapters/{path.name})")
        outputs = {cell.id: cell.get("outputs", []) for cell in cells}
        for thesis in theses()[number]:
            shown = "".join(as_html(output, assets) for output in outputs[thesis["shown"]])
            parts.append(thesis_entry(number, thesis, shown))
    return "\n\n".join(parts) + "\n"


def as_html(output: NotebookNode, assets: Assets) -> str:
    """A stored output as HTML: its picture, or what it prints."""
    if "image/png" in output.get("data", {}):
        return assets.picture(output, "_static")
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return "<pre>" + html.escape(text.rstrip()).replace("\n\n", "\n&#8203;\n") + "</pre>"
