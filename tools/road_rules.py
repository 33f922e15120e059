"""What a main road, a side road and a thesis must keep, beyond the rules of `chapter_rules`.

A chapter is a main road once it ends with *What to remember*; then the rules below hold. Its
minutes are those that two readers needed: words outside folds / 60 + lines of visible code / 4, of
all markdown but formulas, fenced code, addresses of links and the references.

A side road is counted as quicker reading: words / 120 + lines / 10 + 1.5 for every **Predict**,
with what stands in folds but for its tables.
"""

import ast
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from chapter_rules import (
    CHAPTERS,
    CLOSE,
    LONGEST_RUN,
    ROOT,
    RULES,
    asks_and_tells,
    closes_well,
    code_cells,
    has_a_slider,
    header,
    header_is_complete,
    is_folded,
    is_main_road,
    prose,
    references_are_known,
    section,
)
from nbformat import NotebookNode

MINUTES = 75
FOLD = re.compile(r"<details>.*?</details>", re.S)
ASKED = re.compile(r"^(\w+) = Predict\.(?:number|choice|order|curve)\(", re.M)
TABLE = re.compile(r"^\|.*\n?", re.M)
OUTCOMES = ("holds", "does not hold", "not asked")
BUILT_HERE = "trained here"  # what a chapter counts or trains itself, as a model of a thesis
MODELS = {path.stem for path in (ROOT / "attnlib" / "checkpoints").glob("*.json")}
MODELS |= {"minilm", "smollm2", "gemma3", BUILT_HERE}
THESIS = {"sentence", "control", "sure", "models", "shown", "test"}
THESES = CHAPTERS / "theses.toml"
NOT_FOR_SIDE_ROADS = {
    header_is_complete,
    asks_and_tells,
    closes_well,
    has_a_slider,
    references_are_known,
}


@lru_cache
def theses(path: Path = THESES) -> dict[str, list[dict[str, Any]]]:
    """The theses of the course, by the two digits of their chapter."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """A text in one line, to be compared with another."""
    return " ".join(text.split())


def words(text: str) -> int:
    """How many words of a text count; see the top of this file."""
    text = re.sub(r"^## References$.*?(?=^#|\Z)", "", text, flags=re.M | re.S)
    text = FOLD.sub(lambda fold: TABLE.sub("", fold[0]), text)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$", "", text, flags=re.S)
    text = re.sub(r"\]\([^)]*\)|<[^<>\n]*>", " ", text)
    return sum(re.search(r"\w", word) is not None for word in text.split())


def lines(notebook: NotebookNode) -> int:
    """Lines of code that a reader sees."""
    seen = [cell.source for cell in code_cells(notebook) if not is_folded(cell)]
    return sum(bool(line.strip()) for source in seen for line in source.splitlines())


def minutes(notebook: NotebookNode) -> float:
    """How long a reader takes, by the formula; see the top of this file."""
    text = prose(notebook)
    if is_main_road(notebook):
        return words(FOLD.sub("", text)) / 60 + lines(notebook) / 4
    predictions = len(re.findall(r"^\*\*Predict", text, re.M))
    return words(text) / 120 + lines(notebook) / 10 + 1.5 * predictions


def tells_its_minutes(notebook: NotebookNode) -> list[str]:
    told, needed = header(notebook), minutes(notebook)
    complaints = []
    if abs(told.read - needed) > max(0.5, 0.05 * needed):
        complaints.append(f"the header says {told.read} min, words and code say {needed:.0f}")
    if told.read > MINUTES:
        complaints.append(f"{told.read} min to read, {MINUTES} at most")
    most = 28 if is_main_road(notebook) else LONGEST_RUN
    if told.run > most:
        complaints.append(f"{told.run} s to run, {most} at most")
    return complaints


def marks_open_a_paragraph(notebook: NotebookNode) -> list[str]:
    return [
        f"cell {cell.id}: **{word} begins a paragraph, and is not inside one"
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for word in re.findall(r"(?<!\A)(?<!\n\n)\*\*(Predict|Notice)\b", cell.source)
    ]


def predictions_are_answered(notebook: NotebookNode) -> list[str]:
    """Each **Predict** ends its cell, a `Predict` follows it, and that is revealed once."""
    code = "\n".join(cell.source for cell in code_cells(notebook))
    complaints = []
    for cell, after in pairwise([*notebook.cells, NotebookNode(source="")]):
        asked = re.search(r"^\*\*Predict\b.*", cell.source, re.M | re.S)
        if cell.cell_type != "markdown" or asked is None:
            continue
        if "\n\n" in asked[0]:
            complaints.append(f"cell {cell.id}: the question is its last paragraph")
        if not ASKED.search(after.source):
            complaints.append(f"cell {cell.id}: no x = Predict.number(…), or another, behind it")
    for name in ASKED.findall(code):
        times = len(re.findall(rf"^ *{name}\.reveal\(", code, re.M))
        if times != 1:
            complaints.append(f"{name}.reveal(…) stands {times} times in the code, not once")
    if "Predict.so_far()" not in code:
        complaints.append("no Predict.so_far() before What to remember")
    return complaints


def claims_its_theses(notebook: NotebookNode) -> list[str]:
    number = header(notebook).title[:2]
    wanted = [plain(thesis["sentence"]) for thesis in theses().get(number, [])]
    title, most = CLOSE[0], 5
    told = re.split(r"^[-*\d.]+ ", section(notebook, title), flags=re.M)
    said = [plain(item) for item in told if item.strip()]
    if said == wanted and 3 <= len(said) <= most:
        return []
    return [
        f"{title} lists the three to {most} sentences of theses.toml, word for word. Only here: "
        f"{[item for item in said if item not in wanted]}; only there: "
        f"{[item for item in wanted if item not in said]}; here {len(said)}, there {len(wanted)}"
    ]


def names_its_thesis(notebook: NotebookNode) -> list[str]:
    """A side road's first cell: its chapter as a link, and one of its theses word for word."""
    text, number = plain(notebook.cells[0].source), header(notebook).title[:2]
    complaints = []
    if not re.search(rf"\*\*Side road\*\* of \[[^\]]+\]\(\.\./{number}_\w+\.ipynb\)", text):
        complaints.append(
            f"the first cell needs '**Side road** of [chapter {number}](../{number}_….ipynb)'"
        )
    if not any(plain(thesis["sentence"]) in text for thesis in theses().get(number, [])):
        complaints.append(f"the first cell quotes no thesis of chapter {number}, word for word")
    return complaints


BOTH = (tells_its_minutes, marks_open_a_paragraph)
MAIN_ROAD = (*BOTH, predictions_are_answered, claims_its_theses)
SIDE_ROAD = (*BOTH, names_its_thesis, *(rule for rule in RULES if rule not in NOT_FOR_SIDE_ROADS))


def _is_asked(thesis: Mapping[str, Any], model: str) -> bool:
    return not thesis["models"].get(model, "not asked").startswith("not asked")


def thesis_is_whole(thesis: Mapping[str, Any]) -> list[str]:
    """What an entry of theses.toml lacks."""
    if missing := THESIS ^ {key for key, value in thesis.items() if value}:
        return [f"needs {sorted(THESIS)}, none empty; look at {sorted(missing)}"]
    complaints = [f"no model is called {name!r}" for name in thesis["models"].keys() - MODELS]
    complaints += [
        f"{name}: {told!r} begins with none of {', '.join(OUTCOMES)}"
        for name, told in thesis["models"].items()
        if not re.match(rf"(?:{'|'.join(OUTCOMES)})\b", told)
    ]
    if "gemma3" not in thesis["models"] and _is_asked(thesis, "smollm2"):
        complaints.append("tells what SmolLM2 says, and not what Gemma 3 says")
    file, _, name = thesis["test"].partition("::")
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    if not (found and name.startswith("test_") and path.name.startswith("test_")):
        return [*complaints, f"no test is called {thesis['test']!r}"]
    return complaints
