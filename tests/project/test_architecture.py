"""What may import what, how long code may be, and the picture of both in docs/architecture.md."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import architecture
import pytest
from architecture import (
    BESIDE,
    FUNCTION_LINES,
    LAYERS,
    LIBRARY_LINES,
    MODULE_LINES,
    arrows,
    circles,
    folders,
    imports,
    library_imports,
    over_budget,
    room_of,
    shortest,
    sources,
    table,
    wrong_ways,
)
from each import each

ROOT = Path(__file__).parent.parent.parent
HEAVY = """matplotlib transformers tokenizers sklearn scipy pandas ipywidgets anywidget IPython
    sentence_transformers"""


# what stands on what


def test_an_import_only_goes_down() -> None:
    found = library_imports()
    assert len(found) > 50, "the imports are not read"
    assert not wrong_ways(found), "\n".join(wrong_ways(found))


def test_no_import_leads_back() -> None:
    assert not circles(library_imports()), "\n".join(circles(library_imports()))


def test_every_room_has_its_place() -> None:
    placed = {room for layer in LAYERS for room in layer} | set(BESIDE)
    assert {room_of(name) for name in sources()} == placed | {""}


@each(
    "module, line",
    [
        ("attention", "from attnlib.plots import heatmap"),
        ("attention", "import attnlib.training"),
        ("attention", "from attnlib import widgets"),
        ("attention", "from .plots import heatmap"),
        ("attention", "from . import widgets"),
        ("attention", "def f():\n    from attnlib.models import Transformer"),
        ("attention", "if TYPE_CHECKING:\n    from attnlib.models import Transformer"),
        ("attention", "from attnlib.trace import Trace"),
        ("attention", "import attnlib"),
        ("attention", "from attnlib import Trace"),
        ("trace", "from attnlib.data import reviews"),
        ("models.ngram", "from attnlib.training.loop import fit"),
        ("models.ngram", "from ..decoding import generate"),
        ("training.loop", "from attnlib.decoding import generate"),
        ("decoding", "from attnlib.training import fit"),
        ("widgets.page", "from attnlib.explain.saliency import gradient_importance"),
        ("check.protocol", "from attnlib.trace import Trace"),
        ("check.protocol", "from attnlib.plots import heatmap"),
        ("plots", "from attnlib.check import check"),
    ],
)
def test_a_wrong_way_is_found(module: str, line: str) -> None:
    texts = dict.fromkeys(sources(), "") | {module: "import math\n" + line}
    place = f"attnlib/{module.replace('.', '/')}.py:{1 + len(line.splitlines())}: "
    complaints = wrong_ways(imports(texts, {"", *folders()}))
    assert [text.startswith(place) for text in complaints] == [True], complaints


@each(
    "module, text",
    [
        ("widgets.page", "from attnlib.trace import Trace\nfrom .payload import pack"),
        ("widgets.page", "import attnlib.plots\nfrom ..trace import Trace"),
        ("explain.saliency", "from attnlib import attention, training\nimport numpy"),
        ("check.comparison", "from attnlib.check.protocol import Case"),
        ("", "from attnlib.trace import Trace"),
    ],
)
def test_a_right_way_is_not(module: str, text: str) -> None:
    texts = dict.fromkeys(sources(), "") | {module: text}
    found = imports(texts, {"", *folders()})
    assert len(found) >= len(text.splitlines()) - 1
    assert wrong_ways(found) == []


def test_a_circle_is_found() -> None:
    package = {"models": "from attnlib.models.cache import KVCache"}
    texts = {"models.cache": "def f():\n    from . import config", "models.config": "x = 1"}
    assert circles(imports(package | texts, {"models"})) == []
    texts["models.config"] = "import torch\nfrom attnlib.models import KVCache"
    told = circles(imports(package | texts, {"models"}))
    assert sorted(line.partition(": ")[0] for line in told) == [
        "attnlib/models/__init__.py:1",
        "attnlib/models/cache.py:2",
        "attnlib/models/config.py:2",
    ]


ABOVE = re.compile(r"^\s*(?:from|import)\s+(recipes|grading|book|tools|tests)\b", re.M)


def test_the_library_imports_nothing_that_stands_on_it() -> None:
    assert ABOVE.findall("import torch\ndef f():\n    from recipes.cards import write") == [
        "recipes"
    ]
    for name, text in sources().items():
        assert not ABOVE.search(text), f"attnlib.{name}"


def test_the_rooms_of_grading_keep_their_contracts() -> None:
    """The contracts stand in pyproject.toml; import-linter reads the imports."""
    if not (ROOT / "grading").is_dir():
        pytest.skip("a student's copy has no grading")
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library_imports_no_module_by_a_string() -> None:
    """Such an import would be seen by nobody here."""
    for name, text in sources().items():
        assert not re.search(r"\bimport_module\(|\b__import__\(", text), f"attnlib.{name}"


def test_importing_the_library_imports_nothing_heavy() -> None:
    code = f"print([m for m in {HEAVY.split()!r} if m in sys.modules])"
    code = f"import sys, attnlib, attnlib.plots; {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_module_is_not_hidden_by_a_function_of_its_name() -> None:
    import attnlib

    for name in filter(None, sources()):
        module = importlib.import_module(f"attnlib.{name}")
        if "." not in name:
            assert getattr(attnlib, name) is module, f"attnlib.{name} is not the module"


@each("room", folders())
def test_a_folder_says_what_lives_there(room: str) -> None:
    text = (ROOT / "attnlib" / room / "__init__.py").read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text))
    assert told is not None, f"attnlib/{room} has no docstring"
    assert len(re.findall(r"[.:]`*(\s|$)", told)) >= 2, f"attnlib/{room} is told in one sentence"
    module = importlib.import_module(f"attnlib.{room}")
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n == room]
    for name in names:
        assert getattr(module, name).__doc__ or not callable(getattr(module, name)), name


# the budget


def test_the_code_keeps_its_budget(record_property: Callable[[str, object], None]) -> None:
    """The table is printed at the end of the run: see tests/conftest.py."""
    told = table(sources(), library_imports())
    record_property("architecture", told)
    print(told)
    assert not over_budget(sources()), "\n".join(over_budget(sources()))


def test_what_is_printed_is_what_is_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"": "x = 1\n", "plots": "x = 1\ny = 2\n", "widgets.page": "x = 1\n"}
    monkeypatch.setattr(architecture, "LIBRARY_LINES", 2)
    assert "without widgets 3 of 2 lines" in table(texts, [])
    assert over_budget(texts) == ["attnlib without widgets: 3 lines of code, not 2"]
    rows = re.findall(r"^(\w*) +(\d+) ", table(sources(), library_imports()), re.M)
    rooms = sum(int(lines) for room, lines in rows if room != "widgets")
    assert rooms == architecture.library_lines(sources())


def test_code_over_its_budget_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "long": "x = 1\n" * (MODULE_LINES + 1),
        "deep": "def f():\n" + "    x = 1\n" * FUNCTION_LINES,
        "widgets.free": "x = 1\n" * MODULE_LINES,
    }
    found = over_budget(texts)
    assert len(found) == 2
    assert "attnlib.long: 201 lines" in found[0]
    assert "attnlib.deep, line 1: f has 31" in found[1]
    many = {f"m{i}": "x = 1\n" * MODULE_LINES for i in range(LIBRARY_LINES // MODULE_LINES)}
    assert over_budget(many | {"widgets.free": texts["widgets.free"]}) == []
    monkeypatch.setattr(architecture, "LIBRARY_LINES", MODULE_LINES * len(many) - 1)
    assert "attnlib without widgets" in over_budget(many)[0]


# the picture


def picture() -> str:
    """The diagram in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = re.search(r"```mermaid\n(.*?)```", text, re.S)
    assert found, "docs/architecture.md has no picture"
    return found[1]


def drawn(text: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The rooms and the arrows of a picture."""
    arrow = re.compile(r"^ *(\w+) --> (\w+)$", re.M)
    return set(re.findall(r"^ *(\w+)\[", text, re.M)), set(arrow.findall(text))


def as_drawn() -> tuple[set[str], set[tuple[str, str]]]:
    """What a picture has to show: every room, and the arrows that do not follow from others."""
    pieces = dict.fromkeys(LAYERS[0], "pieces")
    below: dict[str, set[str]] = {}
    for room, others in arrows(library_imports()).items():
        below[pieces.get(room, room)] = {pieces.get(other, other) for other in others}
    rooms = {pieces.get(room_of(name), room_of(name)) for name in filter(None, sources())}
    return rooms, shortest(below)


def test_the_picture_shows_the_imports() -> None:
    rooms, ways = as_drawn()
    shown, lines = drawn(picture())
    assert shown == rooms
    assert lines == ways
    for piece in LAYERS[0]:
        assert piece in picture(), f"the picture does not name {piece}"
