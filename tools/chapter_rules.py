"""The style rules of a chapter: each takes a notebook and returns complaints, none if all is well.

What a chapter must look like is told in tests/chapters/test_rules.py, which applies these rules.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).parent.parent
CHAPTERS = ROOT / "chapters"
WIDTH = 88  # of a line of code
LONGEST_RUN = 80  # seconds
# The last headings of a main road, which may have an appendix after them.
CLOSE = ("What to remember", "Three questions", "Exercises", "Side roads", "References")
TIME = re.compile(r"^\*\*Time\*\* (\d+) min to read · (\d+) s to run on two cores$", re.M)
KEPT_METADATA = {"kernelspec", "language_info", "attnlib", "title"}
DROPPED = {"execution", "ExecuteTime", "execution_time", "slideshow"}  # metadata of cells
FETCHES = re.compile(r"https?://|urlopen|urlretrieve|\brequests\.|\bhttpx\.|hf_hub|snapshot_dow")
HACKS = re.compile(r"^\s*[%!]\s*(pip|conda|cd)\b|\bsys\.path\b|\bos\.chdir\b|PYTHONPATH", re.M)
ABSOLUTE = re.compile(r"(?<![\w./:<])/(?:home|Users|root|tmp|work|usr|opt|var)/|\b[A-Z]:\\\\?\w")
MARKS = re.compile(r"# *(fmt:|noqa|type: *ignore|ruff:|pylint:)[^\n]*")
SLIDERS = re.compile(r"\b(?:AdversaryView|AttentionView|explore|Frames|Patching|Suspects)\(")
VIEWS = re.compile(r"(AdversaryView|AttentionView|Frames|Patching|Predict|Suspects)\(")


class Header(NamedTuple):
    """What the first cell of a chapter says."""

    title: str
    question: str
    read: int  # minutes
    run: int  # seconds on two cores


def chapter_paths() -> list[Path]:
    """The committed chapters, in order."""
    return sorted(CHAPTERS.glob("[0-9][0-9]_*.ipynb"))


def side_roads() -> list[Path]:
    """The committed side roads, by the numbers of their chapters."""
    return sorted((CHAPTERS / "more").glob("[0-9][0-9]_*.ipynb"))


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells with code in them."""
    return [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]


def view_places(notebook: NotebookNode) -> set[tuple[str, int]]:
    """Where a notebook shows live views: the id of the cell, and the number of the output."""
    return {
        (cell.id, number)
        for cell in notebook.cells
        for number, output in enumerate(cell.get("outputs", []))
        if VIEWS.match(output.get("data", {}).get("text/plain", ""))
    }


def prose(notebook: NotebookNode) -> str:
    """All markdown of a notebook, fenced code left out."""
    text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def headings(notebook: NotebookNode) -> list[tuple[int, str]]:
    """Level and text of every heading."""
    found = re.findall(r"^(#{1,6}) +(.+?) *$", prose(notebook), flags=re.M)
    return [(len(marks), text) for marks, text in found]


def is_main_road(notebook: NotebookNode) -> bool:
    """Whether a chapter keeps the bounds of a main road (see road_rules), and closes like one."""
    return (2, CLOSE[0]) in headings(notebook)


def section(notebook: NotebookNode, title: str) -> str:
    """The text between a heading and the next one, empty if there is none."""
    pattern = rf"^#+ +{re.escape(title)} *$(.*?)(?=^#+ |\Z)"
    found = re.search(pattern, prose(notebook), flags=re.M | re.S)
    return found[1].strip() if found else ""


def code_hash(notebook: NotebookNode) -> str:
    """A hash of the code alone, to know whether the outputs belong to it."""
    sources = [c.source for c in notebook.cells if c.cell_type == "code"]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]


def header(notebook: NotebookNode) -> Header:
    """Read the first cell.

    Raises:
        ValueError: if it lacks its title, question or times.
    """
    text = notebook.cells[0].source if notebook.cells else ""
    title = re.search(r"\A# (\d\d · .+)$", text, re.M)
    question = re.search(r"\A# .+\n\*([^*\n]+\?)\*$", text, re.M)
    times = TIME.search(text)
    for found, wanted in (
        (title, "'# NN · Title' on its first line"),
        (question, "'*one question, in italics?*' on its second line"),
        (times, "a line '**Time** N min to read · N s to run on two cores'"),
    ):
        if found is None:
            raise ValueError(f"the first cell needs {wanted}; it begins {text[:60]!r}")
    return Header(title[1], question[1], int(times[1]), int(times[2]))  # type: ignore[index]


def bibliography(path: Path = ROOT / "references.bib") -> dict[str, str]:
    """The year of every entry, by key; "n.d." where a document has none."""
    entries = re.split(r"^@\w+\{", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    known = {}
    for entry in entries:
        author = re.search(r"author\s*=\s*\{\S", entry)
        year = re.search(r"year\s*=\s*\{(\d{4}|n\.d\.)\}", entry)
        if author is None or year is None:
            raise ValueError(f"references.bib: no author or year in {entry[:40]!r}")
        known[entry.partition(",")[0]] = year[1]
    return known


def format_is_valid(notebook: NotebookNode) -> list[str]:
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        return ["the format is older than 4.5 (no cell ids)"]
    ids = [c.get("id") for c in notebook.cells]
    if len(set(ids)) < len(ids):
        return ["two cells share an id"]
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        return [f"not a valid notebook: {str(error).splitlines()[0]}"]
    return []


def header_is_complete(notebook: NotebookNode) -> list[str]:
    try:
        told = header(notebook)
    except ValueError as error:
        return [str(error)]
    text = notebook.cells[0].source
    complaints = [
        f"the first cell lacks {part}"
        for part in ("**You will be able to**", "**You need**")
        if part not in text
    ]
    goals = text.partition("**You will be able to**")[2].partition("**You need**")[0]
    count = len(re.findall(r"^[-*] \S", goals, flags=re.M))
    if not 3 <= count <= 5:
        complaints.append(f"'You will be able to' needs 3 to 5 bullets, it has {count}")
    if not 0 < told.run <= LONGEST_RUN:
        complaints.append(
            f"a chapter runs in at most {LONGEST_RUN} s; its header says {told.run} s"
        )
    return complaints


def headings_step(notebook: NotebookNode) -> list[str]:
    complaints, level = [], 0
    for depth, text in headings(notebook):
        if depth > level + 1:
            complaints.append(f"heading level skipped from {level} to {depth} at {text!r}")
        if depth == 1 and level:
            complaints.append(f"only the title has level 1, not {text!r}")
        level = depth
    return complaints


def is_folded(cell: NotebookNode) -> bool:
    """Whether a reader sees what the cell shows and not its code: it only draws."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def code_fits_a_slide(notebook: NotebookNode) -> list[str]:
    complaints = []
    for c in code_cells(notebook):
        for line in c.source.splitlines():
            if len(line) > WIDTH:
                complaints.append(f"cell {c.id} has a line of {len(line)}, {WIDTH} at most: {line}")
        if found := MARKS.search(c.source):
            complaints.append(
                f"cell {c.id} has a mark for a tool, which no reader needs: {found[0]}"
            )
    return complaints


def asks_and_tells(notebook: NotebookNode) -> list[str]:
    text = prose(notebook)
    return [f"no **{word}** anywhere" for word in ("Predict", "Notice") if f"**{word}" not in text]


def has_a_slider(notebook: NotebookNode) -> list[str]:
    code = "\n".join(c.source for c in code_cells(notebook))
    return [] if SLIDERS.search(code) else ["no slider: call AttentionView, explore or Frames"]


def closes_well(notebook: NotebookNode) -> list[str]:
    texts = [text for _, text in headings(notebook)]
    texts = texts[: texts.index("Appendix")] if "Appendix" in texts else texts
    missing = [title for title in CLOSE if title not in texts]
    if missing:
        return [f"closing section missing: {title!r}" for title in missing]
    if tuple(texts[-len(CLOSE) :]) != CLOSE:
        return [f"the last headings should be, in this order: {', '.join(CLOSE)}"]
    return [f"the section {title!r} is empty" for title in CLOSE if not section(notebook, title)]


def was_executed(notebook: NotebookNode) -> list[str]:
    complaints = []
    for c in code_cells(notebook):
        if c.execution_count is None:
            complaints.append(f"cell {c.id} was not executed: run make chapters")
        complaints += [
            f"cell {c.id} stores an error: {o.ename}" for o in c.outputs if o.output_type == "error"
        ]
    if not complaints and notebook.metadata.get("attnlib", {}).get("code") != code_hash(notebook):
        complaints.append("the outputs belong to other code: run make chapters")
    return complaints


def outputs_are_clean(notebook: NotebookNode) -> list[str]:
    complaints = []
    for c in code_cells(notebook):
        for output in c.outputs:
            if output.get("name") == "stderr":
                complaints.append(f"cell {c.id} wrote to stderr: {output.text[:60]!r}")
            if "application/vnd.jupyter.widget-view+json" in output.get("data", {}):
                complaints.append(f"cell {c.id} stores a widget's id: run make chapters")
            if re.search(r" at 0x[0-9a-f]{6,}", shown_text(output)):
                complaints.append(f"cell {c.id} shows a memory address: give it a stable repr")
    return complaints


def shown_text(output: NotebookNode) -> str:
    """The text of an output, of every kind that is text."""
    data = output.get("data", {})
    texts = [str(value) for kind, value in data.items() if kind.startswith("text/")]
    return "\n".join([*texts, str(output.get("text", ""))])


def images_have_alt(notebook: NotebookNode) -> list[str]:
    complaints = []
    for c in notebook.cells:
        if c.cell_type == "markdown":
            alts = re.findall(r"!\[([^\]]*)\]\(", c.source)
            alts += re.findall(r"<img(?![^>]*alt=)", c.source)
            complaints += [f"cell {c.id}: {bad}" for alt in alts if (bad := poor_alt(alt))]
        for output in c.get("outputs", []):
            for kind in set(output.get("data", {})) & {"image/png", "image/jpeg", "image/svg+xml"}:
                alt = output.metadata.get(kind, {}).get("alt", "")
                if bad := poor_alt(alt):
                    complaints.append(f"cell {c.id}, {kind}: {bad}")
    return complaints


def poor_alt(alt: str) -> str:
    """What is wrong with an alternative text, empty if nothing."""
    if len(alt.strip()) < 20:
        return f"alt text too short to tell anything: {alt!r}"
    if re.match(r"\s*(image|figure|plot|picture)\s*\d*\s*$", alt, re.I):
        return f"alt text that says nothing: {alt!r}"
    if found := re.search(r"\{.*\}", alt, re.S):
        return f"alt text with braces, of an f-string without its f or of a dict: {found[0]!r}"
    return ""


def uses_no_hacks(notebook: NotebookNode) -> list[str]:
    complaints = []
    for c in code_cells(notebook):
        for pattern, what in ((HACKS, "a path or install hack"), (FETCHES, "a fetch from the net")):
            if found := pattern.search(c.source):
                complaints.append(f"cell {c.id} has {what}: {found[0].strip()!r}")
    return complaints


def names_no_absolute_path(notebook: NotebookNode) -> list[str]:
    complaints = []
    for c in notebook.cells:
        texts = [c.source, *(shown_text(o) for o in c.get("outputs", []))]
        complaints += [
            f"cell {c.id} names an absolute path: {found[0]!r}"
            for text in texts
            if (found := ABSOLUTE.search(text))
        ]
    return complaints


def metadata_is_lean(notebook: NotebookNode) -> list[str]:
    complaints = [
        f"the notebook's metadata hold {key!r}: run make chapters"
        for key in notebook.metadata
        if key not in KEPT_METADATA
    ]
    return complaints + [
        f"cell {c.id} stores {key!r}: run make chapters"
        for c in notebook.cells
        for key in c.metadata
        if key in DROPPED
    ]


def references_are_known(notebook: NotebookNode) -> list[str]:
    items = re.findall(r"^[-*] (.+(?:\n +.+)*)", section(notebook, "References"), flags=re.M)
    if not items:
        return ["References needs a list, each item ending with a key of references.bib in `…`"]
    known, complaints = bibliography(), []
    for item in items:
        key = re.search(r"`([\w-]+)`\.?\s*$", item)
        if key is None:
            complaints.append(f"no key in backticks ends the reference {item[:60]!r}")
        elif key[1] not in known:
            complaints.append(f"{key[1]!r} is not in references.bib")
        elif (year := known[key[1]]) not in item.replace(key[0], ""):
            complaints.append(f"{key[1]!r} is of {year}; the reference says {item[:60]!r}")
    return complaints


def is_small(notebook: NotebookNode) -> list[str]:
    size = len(nbformat.writes(notebook).encode())
    return [] if size < 1_000_000 else [f"{size / 1e6:.1f} MB, less than 1 MB wanted"]


RULES = (
    format_is_valid,
    header_is_complete,
    headings_step,
    code_fits_a_slide,
    asks_and_tells,
    has_a_slider,
    closes_well,
    was_executed,
    outputs_are_clean,
    images_have_alt,
    uses_no_hacks,
    names_no_absolute_path,
    metadata_is_lean,
    references_are_known,
    is_small,
)
