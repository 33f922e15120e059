"""What of a student's text the person who grades is shown."""

from functools import cache
from html.parser import HTMLParser
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter

from grading.intake.texts import attached, tame

SENT: dict[str, str] = {
    "script": "<script>alert(1)</script>",
    "picture with a handler": "<img src=x onerror=alert(1)>",
    "link": "[click](javascript:alert(1))",
    "link with a title": '[click](javascript:alert(1) "t")',
    "link after a space": "[click]( javascript:alert(1))",
    "link in the next line": "[click](\njavascript:alert(1))",
    "link in brackets": "[click](<javascript:alert(1)>)",
    "link in capitals": "[click](JaVaScRiPt:alert(1))",
    "link with an entity": "[click](&#106;avascript:alert(1))",
    "link with a tab": "[click](java&Tab;script:alert(1))",
    "link to data": "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "link to a file": "[click](file:///etc/passwd)",
    "link by reference": "[click][a]\n\n[a]: javascript:alert(1)",
    "link by reference, indented": "[a]\n\n   [a]: javascript:alert(1)",
    "link by a folded reference": "[a]\n\n[a]:\n  javascript:alert(1)",
    "link that names itself": "<javascript:alert(1)>",
    "link in a list": "* [click](vbscript:x)",
    "link in a table": "| a |\n|---|\n| [click](javascript:alert(1)) |",
    "link in a heading": "# [click](javascript:alert(1))",
    "link within a link": "[a [b](javascript:alert(1))](https://b.org)",
    "link that looks right first": "[a](https://b.org)[click](javascript:alert(1))",
    "link behind a good scheme": "[click](https://x)(javascript:y) [z](javascript:https://x)",
    "picture elsewhere": "![x](https://elsewhere.org/pixel.png)",
    "picture elsewhere without scheme": "![x](//elsewhere.org/pixel.png)",
    "picture by reference": "![x][a]\n\n[a]: https://elsewhere.org/pixel.png",
    "picture in a link": "[![x](https://elsewhere.org/p.png)](https://b.org)",
    "picture with brackets": "![[x]](https://elsewhere.org/p.png)",
    "picture in a formula": "$![x](https://elsewhere.org/p.png)$",
    "style": "<style>body { background: url(https://elsewhere.org/p.png) }</style>",
    "frame": "<iframe src=https://elsewhere.org></iframe>",
    "formula": r"$\href{javascript:alert(1)}{x}$ $$\style{background:url(//elsewhere.org)}{y}$$",
}


class Addresses(HTMLParser):
    """The addresses and handlers in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src", "srcset", "action", "data") and value:
                self.addresses.append(value.strip().lower())
            self.tags |= {name} if name.startswith("on") else set()


@cache
def exporter() -> HTMLExporter:
    """Made once: it reads its templates."""
    return HTMLExporter(template_name="basic", embed_images=False)


def page(text: str) -> Addresses:
    """What nbconvert makes of a text: the feedback page and Formgrader use it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    addresses = Addresses()
    addresses.feed(exporter().from_notebook_node(notebook)[0])
    return addresses


@pytest.mark.parametrize("text", SENT.values(), ids=SENT)
def test_nothing_runs_and_nothing_is_loaded(text: str) -> None:
    seen = page(tame(text))
    allowed = ("https://", "http://", "mailto:", "#", "attachment:")
    assert [link for link in seen.addresses if not link.startswith(allowed)] == []
    assert not {tag for tag in seen.tags if tag.startswith("on")}
    assert not seen.tags & {"script", "style", "iframe", "img", "svg", "object", "form"}


def test_the_control_would_run_and_load() -> None:
    assert sum(bool(page(text).addresses) for text in SENT.values()) > 15


def test_honest_texts_are_left_as_they_are() -> None:
    for text in (
        "See [the chapter](https://example.org/a_b?c=d) or [me](mailto:a@b.org).",
        "![my sketch](attachment:sketch.png)",
        "$A[i, j]$ and $x_{[t]}$, q[0] (the first), [1] and [2].",
        "- [ ] open\n- [x] done",
    ):
        assert tame(text, {"sketch.png"}) == text


def test_of_many_blanks_few_are_left() -> None:
    """Or nbconvert looks at the rest of them for each."""
    assert tame("a" + " " * 200_000 + "b") == "a" + " " * 100 + "b"


def test_of_attachments_only_pictures_stay() -> None:
    picture, page_ = {"image/png": "iVBORw0KGgo="}, {"text/html": "<script>"}
    script = {"image/png": "<script>"}
    assert attached({"a": picture, "b": page_, "c": script, "d": 1}) == {"a": picture}
    assert attached([picture]) == {}
