"""What a main road, a side road and a thesis must keep, beyond the rules of `chapter_rules`.

A chapter is a main road once it ends with *What we claim*; then the bounds below hold. What is
counted, and how:

- Words: of all markdown, without fenced code, formulas, the addresses of links, the list under
  References, and tables inside a fold (`<details>`). What else stands in a fold counts.
- Lines of code: those of cells whose code is seen, without empty ones.
- Minutes: words / 120 + lines / 10 + 1.5 for every **Predict**.
- Numbers of a Notice: from **Notice** to the next heading, Predict or end of its cell, without
  folds, tables and code. "chapter 04", "layer 0, head 2", "GPT-2", W_2 and a year are names.
"""

import ast
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
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

WORDS, LINES, MINUTES, SIDE_WORDS, CLOSE_WORDS = 2_600, 260, 75, 2_000, 200
NUMBERS, IN_A_ROW = 3, 3  # numbers in a Notice; cells of code without a sentence between them
FOLD = re.compile(r"<details>.*?</details>", re.S)
TABLE = re.compile(r"^\|.*\n?", re.M)
NOTICE = re.compile(r"\*\*Notice.*?(?=^#|^\*\*Predict|\Z)", re.M | re.S)
NAMES = re.compile(
    r"\b(?:chapter|exercise|layer|head|block|position|step|figure|table)s? \d[\d.]*"
    r"(?:(?:, | and | or | to |–)\d[\d.]*)*|\b(?:19|20)\d\d\b|`[^`\n]*`",
    re.I,
)
NUMBER = re.compile(r"(?<![\w\-.,])\.?\d+(?:[.,]\d+)*")
OUTCOMES = ("holds", "does not hold", "not asked")
BUILT_HERE = "trained here"  # what a chapter counts or trains itself, as a model of a thesis
MODELS = {path.stem for path in (ROOT / "attnlib" / "checkpoints").glob("*.json")}
MODELS |= {"minilm", "smollm2", BUILT_HERE}
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
    """How long a reader takes, by the formula."""
    text = prose(notebook)
    predictions = len(re.findall(r"^\*\*Predict", text, re.M))
    return words(text) / 120 + lines(notebook) / 10 + 1.5 * predictions


def close(notebook: NotebookNode) -> str:
    """The text from the first closing heading on, without references and appendix."""
    found = re.search(rf"^## {CLOSE[0]}$.*?(?=^## References$)", prose(notebook), re.M | re.S)
    return found[0] if found else ""


def numbers(notice: str) -> list[str]:
    """The numbers that a reader of a Notice meets."""
    return NUMBER.findall(NAMES.sub("", TABLE.sub("", FOLD.sub("", notice))))


def is_short(notebook: NotebookNode) -> list[str]:
    """A main road or a side road keeps its bounds."""
    most = WORDS if is_main_road(notebook) else SIDE_WORDS
    counts = [
        (words(prose(notebook)), most, "words"),
        (lines(notebook), LINES, "lines of visible code"),
        (words(close(notebook)), CLOSE_WORDS, "words in its close"),
    ]
    return [f"{count} {what}, {most} at most" for count, most, what in counts if count > most]


def tells_its_minutes(notebook: NotebookNode) -> list[str]:
    told, needed = header(notebook), minutes(notebook)
    complaints = []
    if abs(told.read - needed) > max(0.5, 0.05 * needed):
        complaints.append(
            f"the header says {told.read} min, words, code and predictions say {needed:.0f}"
        )
    if told.read > MINUTES:
        complaints.append(f"{told.read} min to read, {MINUTES} at most")
    if told.run > LONGEST_RUN:
        complaints.append(f"{told.run} s to run, {LONGEST_RUN} at most")
    return complaints


def notices_are_plain(notebook: NotebookNode) -> list[str]:
    found = [text for cell in notebook.cells for text in NOTICE.findall(cell.source)]
    return [
        f"{len(said)} numbers in a Notice, {NUMBERS} at most: {', '.join(said)} in {text[:60]!r}"
        for text in found
        if len(said := numbers(text)) > NUMBERS
    ]


def marks_open_a_paragraph(notebook: NotebookNode) -> list[str]:
    return [
        f"cell {cell.id}: **{word} begins a paragraph, and is not inside one"
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for word in re.findall(r"(?<!\A)(?<!\n\n)\*\*(Predict|Notice)\b", cell.source)
    ]


def code_is_told(notebook: NotebookNode) -> list[str]:
    complaints, row = [], 0
    for cell in notebook.cells:
        row = row + (not is_folded(cell)) if cell.cell_type == "code" else 0
        if row == IN_A_ROW + 1:
            complaints.append(f"cell {cell.id} is the fourth of code without a sentence between")
    return complaints


def claims_its_theses(notebook: NotebookNode) -> list[str]:
    number = header(notebook).title[:2]
    wanted = [plain(thesis["sentence"]) for thesis in theses().get(number, [])]
    told = re.split(r"^[-*\d.]+ ", section(notebook, CLOSE[0]), flags=re.M)
    said = [plain(item) for item in told if item.strip()]
    if said == wanted and 3 <= len(said) <= 7:
        return []
    return [
        f"{CLOSE[0]} lists the three to seven sentences of theses.toml, word for word. Only here: "
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


BOTH = (is_short, tells_its_minutes, notices_are_plain, marks_open_a_paragraph, code_is_told)
MAIN_ROAD = (*BOTH, claims_its_theses)
SIDE_ROAD = (*BOTH, names_its_thesis, *(rule for rule in RULES if rule not in NOT_FOR_SIDE_ROADS))


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
    file, _, name = thesis["test"].partition("::")
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    if not (found and name.startswith("test_") and path.name.startswith("test_")):
        return [*complaints, f"no test is called {thesis['test']!r}"]
    return complaints
