"""What is put back into a submission, and what of its texts the person who grades is shown."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import nbformat
from each import each
from nbconvert import HTMLExporter

from grading.restore import restore, tame

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


class Found(HTMLParser):
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


def page(text: str) -> Found:
    """What nbconvert makes of a text: the feedback page and Formgrader use it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    html = HTMLExporter(template_name="basic", embed_images=False).from_notebook_node(notebook)[0]
    found = Found()
    found.feed(html)
    return found


@each("kind", SENT)
def test_nothing_runs_and_nothing_is_loaded(kind: str) -> None:
    found = page(tame(SENT[kind]))
    allowed = ("https://", "http://", "mailto:", "#", "attachment:")
    bad = [one for one in found.addresses if not one.startswith(allowed)]
    assert bad == []
    assert not {tag for tag in found.tags if tag.startswith("on")}
    assert not found.tags & {"script", "style", "iframe", "img", "svg", "object", "form"}


def test_the_control_would_run_and_load() -> None:
    dangerous = [kind for kind, text in SENT.items() if page(text).addresses]
    assert len(dangerous) > 15, dangerous


def test_honest_texts_are_left_as_they_are() -> None:
    for text in (
        "See [the chapter](https://example.org/a_b?c=d) or [me](mailto:a@b.org).",
        "![my sketch](attachment:sketch.png)",
        "$A[i, j]$ and $x_{[t]}$, q[0] (the first), [1] and [2].",
        "- [ ] open\n- [x] done",
    ):
        assert tame(text, {"sketch.png"}) == text


def exercise() -> nbformat.NotebookNode:
    """An answer and its check, as they are released."""
    check = {"grade": True, "solution": False, "locked": True, "points": 2}
    answer = {"grade": False, "solution": True, "locked": False}
    cells = []
    for name, ours in (("f_answer", answer), ("f", check)):
        cell = nbformat.v4.new_code_cell(f"# {name}", id=name)
        cell.metadata["nbgrader"] = {"grade_id": name, **ours}
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells)


def points(sent: nbformat.NotebookNode) -> None:
    sent.cells[1].metadata["nbgrader"]["points"] = 9


def kind(sent: nbformat.NotebookNode) -> None:
    sent.cells[1]["cell_type"] = "markdown"


REPAIRED = [
    (lambda sent: sent.cells[0].update(source="return 1"), None),
    (
        lambda sent: sent.cells[1].update(source="pass"),
        "the cell f was edited, and has been put back",
    ),
    (points, "the metadata of the cell f was changed: points"),
    (kind, "the metadata of the cell f was changed: type"),
    (lambda sent: sent.cells.pop(1), "the cell f was missing, and has been put back"),
    (lambda sent: sent.cells.insert(0, sent.cells[1]), "the cell f is there twice"),
    (
        lambda sent: sent.cells[0].metadata["nbgrader"].update(grade_id="g"),
        "the exercise has no cell g",
    ),
]


@each("change, note", REPAIRED)
def test_every_repair_is_reported(change: Callable[[Any], object], note: str | None) -> None:
    sent = exercise()
    change(sent)
    restored, notes = restore(sent, exercise())
    assert (note in notes) if note else (notes == [])
    checks = [c for c in restored.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "f"]
    assert [(c.cell_type, c.source, c.metadata["nbgrader"]["points"]) for c in checks] == [
        ("code", "# f", 2)
    ]


def test_line_ends_of_windows_are_no_change() -> None:
    cell = nbformat.v4.new_code_cell("a = 1\nb = 2\n", id="x")
    cell.metadata["nbgrader"] = {"grade_id": "x", "grade": True, "locked": True, "solution": False}
    released = nbformat.v4.new_notebook(cells=[cell])
    sent = nbformat.from_dict(released)
    sent.cells[0].source = "a = 1\r\nb = 2\r\n"
    restored, notes = restore(sent, released)
    assert notes == []
    assert restored.cells[0].source == "a = 1\nb = 2\n"
