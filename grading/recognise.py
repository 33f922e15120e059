"""Whose work is it, and which exercise? From odd file names, and from what a notebook says.

Learning platforms rename what they collect ("Ada Lovelace_4711_assignsubmission_file_"), browsers
add " (1)", people add their names, umlauts and capitals. Nothing is guessed where two students
could be meant: the file is reported instead.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import Any

from grading.build import EXERCISE_FOLDER, names
from grading.tables import decoded

MOODLE = re.compile(r"^(.+?)_\d+_assignsubmission_[a-z]+_?(.*)$", re.IGNORECASE | re.DOTALL)
COPY = re.compile(r"\(\d+\)|\bcopy(\s*\d+)?\b|\bkopie\b|\bfinal\b|\bv\d+\b", re.IGNORECASE)
# names of files and folders that are nobody's
_GENERIC = (
    "abgabe abgaben answer answers assignment attempt blatt chapter exercise exercises homework "
    "loesung losung notebook sheet solution solutions student submission submissions submitted "
    "ubung untitled week woche"
)
GENERIC = frozenset(_GENERIC.split()) | {""}
_ODD, _USUAL = "ß ø Ø ł Ł æ Æ œ đ ı", "ss o O l L ae AE oe d i"
LETTERS = str.maketrans(dict(zip(_ODD.split(), _USUAL.split(), strict=True)))
ID = re.compile(r"^[A-Za-z0-9_@][A-Za-z0-9_.@-]*$")


@dataclass(frozen=True)
class Student:
    """A row of the roster."""

    id: str
    name: str = ""


@lru_cache(10_000)
def plain(text: str) -> str:
    """A text without accents, capitals and signs, its words separated by spaces.

    >>> plain("Jürgen-Weiß_04 (1)")
    'jurgen weiss 04 1'
    """
    letters = unicodedata.normalize("NFKD", text.translate(LETTERS))
    kept = "".join(c for c in letters if not unicodedata.combining(c)).casefold()
    return " ".join(re.findall(r"[^\W_]+", kept))


# which exercise


@cache
def grade_ids() -> dict[str, frozenset[str]]:
    """The grade_ids by which each exercise is known: those of no other exercise."""
    found: dict[str, set[str]] = {}
    for name in names():
        path = EXERCISE_FOLDER / name / f"{name}.ipynb"
        found[name] = ids_in(json.loads(path.read_text("utf-8"))) if path.exists() else set()
    return {
        name: frozenset(ids - set().union(*(other for n, other in found.items() if n != name)))
        for name, ids in found.items()
    }


def ids_in(notebook: Any) -> set[str]:
    """The grade_ids in a notebook, which may be anything that JSON can be."""
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    found = set()
    for cell in cells if isinstance(cells, list) else []:
        metadata = cell.get("metadata") if isinstance(cell, dict) else None
        about = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        grade_id = about.get("grade_id") if isinstance(about, dict) else None
        if isinstance(grade_id, str):
            found.add(grade_id)
    return found


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
        return None, f"no JSON: {str(error)[:100]}"
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        return notebook, "JSON, but no notebook: it has no cells"
    return notebook, ""


def which_exercise(path: str, notebook: Any) -> str | None:
    """The exercise that a file answers, by its cells, or else by its path.

    >>> which_exercise("Ada/04 Self-Attention (2).ipynb", None)
    '04_self_attention'
    """
    mine = ids_in(notebook)
    shared = {name: len(mine & ids) for name, ids in grade_ids().items()}
    best = max(shared, key=lambda name: shared[name], default="")
    if best and shared[best]:
        return best
    for part in reversed(PurePosixPath(path).parts):
        text = plain(part)
        for whole in (True, False):
            found = [n for n in names() if re.search(rf"\b{_words(n, whole)}\b", text)]
            if found:
                return max(found, key=len)
    return None


def _words(name: str, whole: bool) -> str:
    """A pattern for an exercise's name, with its number or without, in plain text."""
    return r"\s?".join(plain(name if whole else name[3:]).split())


# whose work


def candidates(path: str, ids: frozenset[str] = frozenset()) -> list[str]:
    """The names that a path offers for its student, the likeliest first.

    What the platform wrote comes before what a student may have: folders before what lies in them,
    and all of a zip's path before what is in the zip.

    Args:
        path: the path.
        ids: words that name a student even if they look like nobody's, such as "student7".

    >>> candidates("week 4/alice_04_self_attention (1).ipynb"), candidates("bob/anna.ipynb")
    (['alice'], ['bob', 'anna'])
    """
    parts = PurePosixPath(path).parts
    zips = [i for i, part in enumerate(parts) if part.casefold().endswith(".zip")]
    border = zips[0] + 1 if zips else len(parts)
    offered = [*_offered(parts[:border], ids), *_offered(parts[border:], ids)]
    return list(dict.fromkeys(offered))


def _offered(parts: Sequence[str], ids: frozenset[str]) -> Iterator[str]:
    """The names in a path, those that Moodle wrote first."""
    ends = re.compile(r"(\.ipynb|\.zip)+$", re.IGNORECASE)
    texts = [ends.sub("", part) for part in parts]
    yield from (found[1] for text in texts if (found := MOODLE.match(text)))
    for text in (_without_exercise(text) for text in texts if not MOODLE.match(text)):
        if not _generic(text) or set(plain(text).split()) & ids:
            yield text


def _generic(text: str) -> bool:
    """Whether a name is nobody's, such as "Untitled1" or "week 4"."""
    return plain(text).rstrip("0123456789 ") in GENERIC


def _without_exercise(part: str) -> str:
    """A part of a path without the exercise's name and the marks of copies."""
    text = re.sub(r"[_\s]+", " ", COPY.sub(" ", part.replace("_", " ")))
    for name in sorted(names(), key=len, reverse=True):
        for words in (name, name[3:]):
            pattern = r"[\s_-]*".join(map(re.escape, words.split("_")))
            text = re.sub(rf"(?<![^\W_]){pattern}(?![^\W_])", " ", text, flags=re.IGNORECASE)
    return text.strip(" .,-_#+")


def student_id(name: str) -> str:
    """The id that a name makes, for a class without a roster; empty if it makes none.

    >>> student_id("Jürgen Weiß")
    'jurgen_weiss'
    """
    return re.sub(r"[^a-z0-9]+", "_", plain(name)).strip("_")[:100]  # it becomes a folder


def on_roster(offered: Iterable[str], roster: Sequence[Student]) -> tuple[Student | None, str]:
    """The student whom the offered names mean, or None and why.

    An id or a whole name, in any order of its words, is looked for in each offered name; the
    first that means one student decides.
    """
    told = ""
    for text in offered:
        exact = [s for s in roster if text.casefold() == s.id.casefold()]
        words = set(plain(text).split())
        found = exact or [
            s
            for s in roster
            if _inside(plain(s.id), plain(text))
            or (s.name and words == set(plain(s.name).split()))
            or (len(plain(s.name).split()) > 1 and set(plain(s.name).split()) <= words)
        ]
        if len(found) == 1:
            return found[0], ""
        if found:
            told = told or f"{text!r} may be {' or '.join(s.id for s in found)}"
    return None, told or f"nobody on the roster is called {' or '.join(map(repr, offered)) or '?'}"


def _inside(inner: str, outer: str) -> bool:
    return bool(inner) and re.search(rf"\b{re.escape(inner)}\b", outer) is not None
