"""Which exercise does a file answer? Its cells tell, and its name where they do not."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from grading.release.build import EXERCISE_FOLDER, names
from grading.tables import decoded, flat

CHECK = re.compile(r"""\bcheck\(\s*["'](\w+)["']""")
DEFINITION = re.compile(r"^def (\w+)\(", re.MULTILINE)
# a notebook's name, also with what browsers and platforms add to it: `x.ipynb (1).txt`
NOTEBOOK = re.compile(r"\.ipynb( ?\(\d+\)|-\d+)?(\.txt|\.json)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Signature:
    """What only one exercise has: the grade_ids of its cells, and the names of its tasks."""

    grade_ids: frozenset[str]
    tasks: frozenset[str]


@cache
def signatures() -> dict[str, Signature]:
    """The signature of each exercise that has been generated."""
    grade_ids, tasks = dict[str, set[str]](), dict[str, set[str]]()
    for name in names():
        path = EXERCISE_FOLDER / name / f"{name}.ipynb"
        notebook = json.loads(path.read_text("utf-8")) if path.exists() else {}
        grade_ids[name] = ids_in(notebook)
        tasks[name] = {task for text in sources(notebook) for task in CHECK.findall(text)}
    return {name: Signature(_alone(name, grade_ids), _alone(name, tasks)) for name in grade_ids}


def _alone(name: str, words: dict[str, set[str]]) -> frozenset[str]:
    """The words of one exercise that no other has."""
    others = (theirs for other, theirs in words.items() if other != name)
    return frozenset(words[name].difference(*others))


def cells(notebook: Any) -> Iterator[dict[str, Any]]:
    """The cells of a notebook of format 3 or 4; of anything else that JSON can be, none."""
    sheets = notebook.get("worksheets", [notebook]) if isinstance(notebook, dict) else []
    for sheet in sheets if isinstance(sheets, list) else []:
        inside = sheet.get("cells") if isinstance(sheet, dict) else None
        for cell in inside if isinstance(inside, list) else []:
            if isinstance(cell, dict):
                yield cell


def ids_in(notebook: Any) -> set[str]:
    """The grade_ids in a notebook."""
    ids = set()
    for cell in cells(notebook):
        metadata = cell.get("metadata")
        about = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        grade_id = about.get("grade_id") if isinstance(about, dict) else None
        if isinstance(grade_id, str):
            ids.add(grade_id)
    return ids


def sources(notebook: Any) -> Iterator[str]:
    """The text of each cell, which is a string or a list of lines."""
    for cell in cells(notebook):
        text = cell.get("source", cell.get("input", ""))
        yield "".join(map(str, text)) if isinstance(text, list) else str(text)


def usual(content: bytes) -> bytes:
    """A notebook's bytes in UTF-8 without a mark, as nbgrader reads them; UTF-8 stays as it is."""
    return content if content[:1] == b"{" and _is_utf8(content) else decoded(content).encode()


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_notebook(content: bytes) -> tuple[Any, str]:
    """A notebook's JSON, and why it cannot be read (empty if it can)."""
    if not content.strip():
        return None, "the file is empty"
    try:
        notebook = json.loads(usual(content))
    except (ValueError, RecursionError) as error:
        return None, _no_json(decoded(content), error)
    if not isinstance(notebook, dict) or not {"cells", "worksheets"} & notebook.keys():
        return notebook, "no notebook: it is JSON without a list of cells"
    return notebook, ""


def _no_json(text: str, error: Exception) -> str:
    """What a file is that Python does not read as JSON."""
    if text.lstrip().startswith("{") and isinstance(error, json.JSONDecodeError):
        lines = text.count("\n") + 1
        return f"a damaged notebook: it cannot be read from line {error.lineno} of {lines} on"
    return f"no notebook (.ipynb, which is JSON): it begins with {flat(text[:40])!r}"


def which_exercise(path: str, notebook: Any) -> str:
    """The exercise that a file answers, or empty.

    The cells' grade_ids tell; without any, the calls of `check` and the functions that are
    defined; without any, the innermost part of the path that names an exercise.

    >>> which_exercise("Ada/04 Self-Attention (2).ipynb", None)
    '04_self_attention'
    """
    text = "\n".join(sources(notebook))
    written = {*CHECK.findall(text), *DEFINITION.findall(text)}
    grade_ids = ids_in(notebook)
    by_id = {name: len(own.grade_ids & grade_ids) for name, own in signatures().items()}
    by_task = {name: len(own.tasks & written) for name, own in signatures().items()}
    return _largest(by_id) or _largest(by_task) or exercise_in(path)


def _largest(count: dict[str, int]) -> str:
    """The name with the largest count, or empty if there is none, or more than one."""
    most = max(count.values(), default=0)
    first = [name for name in count if most and count[name] == most]
    return first[0] if len(first) == 1 else ""


def exercise_in(path: str) -> str:
    """The exercise that the innermost part of a path names, or empty."""
    for part in reversed(path.split("/")):
        for name in names():
            if re.search(rf"(?<![^\W_]){exercise_pattern(name)}(?![^\W_])", part, re.IGNORECASE):
                return name
    return ""


def exercise_pattern(name: str) -> str:
    """A pattern for an exercise's name, with any of `_`, `-` and a space between its words."""
    return "[-_ ]".join(map(re.escape, name.split("_")))
