"""Whose is a file that was handed in? The roster decides, or else the outer folder's name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from grading import tables
from grading.build import BuildError
from grading.recognise import ID, MOODLE, Student, candidates, on_roster, plain, student_id, usual
from grading.settings import Places


@dataclass(frozen=True)
class Row:
    """What became of a file, or that one is missing.

    Attributes:
        called: how the file's path spells the student's id or name.
    """

    student: str
    exercise: str
    status: str
    time: datetime | None = None
    path: str = ""
    reason: str = ""
    kept: Path | None = None
    digest: str = ""
    secret: str = ""
    called: str = ""

    @property
    def content(self) -> bytes:
        """What was handed in, as nbgrader can read it."""
        return usual(self.kept.read_bytes()) if self.kept else b""


def counts(row: Row) -> bool:
    return row.status in ("collected", "unreadable")


def read_roster(places: Places) -> list[Student] | None:
    """The roster, or None if there is none.

    Raises:
        BuildError: if it has no column id, or an id that cannot be a folder's name, or one twice.
    """
    if not places.roster.exists():
        return None
    rows = tables.read(places.roster)
    found = [Student(row.get("id", ""), row.get("name", "")) for row in rows if any(row.values())]
    bad = [s.id for s in found if not ID.match(s.id)]
    twice = {s.id for s in found if [t.id.casefold() for t in found].count(s.id.casefold()) > 1}
    if bad or twice:
        told = f"{places.roster}: " + (
            f"the ids {sorted(twice)} stand there twice"
            if twice
            else f"{bad[0]!r} is no id (letters, digits, and _ . - @ between them)"
        )
        raise BuildError(told + "; the columns are id and name")
    return found


def whose(row: Row, name: str, roster: Sequence[Student] | None) -> Row:
    """A row with its student, as far as can be told from the path `name`."""
    if not counts(row):
        return row
    nobody = replace(row, status="not recognised")
    offered = candidates(name, frozenset(plain(s.id) for s in roster or ()))
    if roster is not None:
        student, why = on_roster(offered, roster)
        if student is None:
            return replace(nobody, reason=why)
        others = (on_roster([text], roster)[0] for text in offered)
        named = sorted({other.id for other in others if other} - {student.id})
        told = joined(row.reason, _disagree(named))
        return replace(
            row, student=student.id, reason=told, called=_called(name, offered, student.id)
        )
    if offered and (made := student_id(offered[0])):
        return replace(row, student=made, called=_called(name, offered, made))
    return replace(nobody, reason="neither its name nor its folder names a student")


def _called(path: str, offered: Sequence[str], student: str) -> str:
    """How a path spells a student: by the id itself, or else with the number that Moodle gave."""
    if any(re.search(rf"(?<!\w){re.escape(student)}(?!\w)", text) for text in offered):
        return student
    numbered = [p.split("_assignsubmission_")[0] for p in path.split("/") if MOODLE.match(p)]
    return numbered[0] if numbered else offered[0]


def _disagree(named: Sequence[str]) -> str:
    return f"it names {' and '.join(named)} too: its outer folder decides" if named else ""


def joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def below(paths: Sequence[str]) -> list[str]:
    """Paths without a folder that holds the whole class: it is nobody's name."""
    found = [PurePosixPath(path).parts for path in paths]
    while (
        len({parts[0] for parts in found if parts}) == 1
        and len({tuple(candidates("/".join(parts[1:]))[:1]) for parts in found}) > 1
        and all(candidates("/".join(parts[1:])) for parts in found)
    ):
        found = [parts[1:] for parts in found]
    return ["/".join(parts) for parts in found]


def namesakes(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Without a roster: rows that say whom else their paths name, of those who handed in."""
    everybody = {row.student for row in rows}
    return [_also(row, name, everybody) for row, name in zip(rows, names, strict=True)]


def _also(row: Row, name: str, everybody: set[str]) -> Row:
    """A row that says whom else its path names, of those who have handed something in."""
    others = {student_id(text) for text in candidates(name)} & everybody - {row.student}
    if not row.student or not others:
        return row
    return replace(row, reason=joined(row.reason, _disagree(sorted(others))))
