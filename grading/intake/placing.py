"""Of everything that a student handed in for an exercise the latest counts: it is placed.

A notebook goes to `submitted/STUDENT/EXERCISE/EXERCISE.ipynb`, where nbgrader looks for it, with
its time if that is known, and a receipt. What lay there before is kept in `collected/`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from grading import child
from grading.child import Trouble
from grading.intake.due import DueDates, local
from grading.intake.exchange import SECRET
from grading.intake.platforms import Sender
from grading.intake.receipts import Receipt, read_receipt, receipt_path, write_receipt
from grading.intake.recognise import NOTEBOOK, read_notebook, usual
from grading.intake.roster import Student
from grading.settings import Places, timestamp
from grading.tables import written

NOBODY = Sender("")


@dataclass(frozen=True)
class HandIn:
    """What became of a file that was handed in, or that one is missing.

    Attributes:
        student, exercise: whose it is and what it answers; empty if that is not known.
        status: "collected", "late", "missing", "duplicate", "unreadable", "refused", "doubtful" or
            "not recognised".
        time: of the file; whether it is that of handing in tells `timed`.
        path: where the file lay in the export.
        reason: one sentence or more, where there is something to say.
        kept: the copy in `collected/`.
        digest: the SHA-256 of what is placed.
        secret: by which an exchange gives feedback back.
        sender: what the platform's name for the file says.
        sure: whether more than a name tells whose it is.
        by: the student or the group who handed it in.
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
    sender: Sender = NOBODY
    sure: bool = True
    by: str = ""

    @property
    def counts(self) -> bool:
        """Whether it may be placed."""
        return self.status in ("collected", "unreadable")

    @property
    def timed(self) -> bool:
        """Whether it is known when it was handed in."""
        return self.sender.timed or self.sender.time is not None

    @property
    def content(self) -> bytes:
        """What was handed in, as nbgrader can read it."""
        return usual(self.kept.read_bytes()) if self.kept else b""


def because(row: HandIn, reason: str, status: str = "") -> HandIn:
    """A row with one reason more, and another status if there is one."""
    reasons = "; ".join(filter(None, (row.reason, reason)))
    return replace(row, reason=reasons, status=status or row.status)


def keep(places: Places, row: HandIn, content: bytes) -> Path:
    """Keep a copy of a file under its content: the same file is kept once."""
    digest = hashlib.sha256(content).hexdigest()[:12]
    moment = row.time.strftime("%Y-%m-%dT%H%M%S") if row.time else "unknown"
    suffix = ".ipynb" if NOTEBOOK.search(row.path) else ".bin"
    path = places.collected / (row.exercise or "_unknown") / f"{moment}_{digest}{suffix}"
    if not path.exists():
        written(path, content)
    return path


def doubted(rows: Sequence[HandIn], places: Places) -> list[HandIn]:
    """The rows, those doubtful whose name two people may have: the platform numbers them apart."""
    numbers: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        if not row.counts or row.by != row.student:  # a team's number is nobody's
            continue
        mine = {row.sender.number, _number_placed(row, places)} - {""}
        numbers.setdefault((row.student, row.exercise), set()).update(mine)
    checked = []
    for row in rows:
        several = numbers.get((row.student, row.exercise), set())
        strange = row.sender.number != _number_placed(row, places)
        doubt = _only_named(row) and len(several) > 1 and strange
        checked.append(_with_doubt(row, sorted(several)) if doubt else row)
    return checked


def _only_named(row: HandIn) -> bool:
    """Whether a file that counts is known to be a student's by a name alone."""
    return row.counts and not row.sure


def _number_placed(row: HandIn, places: Places) -> str:
    """The number that the same platform gave to what lies in `submitted`, or empty."""
    receipt = read_receipt(row.student, row.exercise, places)
    return receipt.number if receipt and receipt.platform == row.sender.platform else ""


def _with_doubt(row: HandIn, numbers: Sequence[str]) -> HandIn:
    """A row that is not taken in, since its name stands under several numbers."""
    reason = (
        f"{row.sender.platform} has {row.sender.name!r} under the numbers {' and '.join(numbers)}."
        " Is it one person? This file is not taken in: write the numbers in the roster, or call"
        f" the file ID_{row.exercise}.ipynb"
    )
    return because(row, reason, "doubtful")


def shared(rows: Sequence[HandIn], roster: Sequence[Student]) -> list[HandIn]:
    """The rows, and one for each other member of a group, for whom the file counts as well."""
    groups = {student.id: student.group for student in roster}
    everything = list(rows)
    there = {(row.student, row.path) for row in rows}
    for row in rows:
        group = groups.get(row.student, "")
        members = [member for member in groups if group and groups[member] == group]
        for member in members if row.counts and row.by == row.student else ():
            if (member, row.path) not in there:
                handed_in = f"handed in by {row.student} for the group {group}"
                everything.append(because(replace(row, student=member), handed_in))
    return everything


def settled(rows: Sequence[HandIn], places: Places, dates: DueDates) -> list[HandIn]:
    """Of each student's files for an exercise, place the latest, unless a later one lies there.

    A file that cannot be read counts only if there is no other. A file that counts for nobody has a
    row for the one who handed it in, or for one of the group.
    """
    latest: dict[tuple[str, str], HandIn] = {}
    for row in filter(_counts, rows):
        key = (row.student, row.exercise)
        if key not in latest or _rank(row) >= _rank(latest[key]):
            latest[key] = row
    settled_rows, listed = list[HandIn](), {row.path for row in latest.values()}
    for row in rows:
        winner = latest.get((row.student, row.exercise))
        if not row.counts or winner is None:
            settled_rows.append(row)
        elif row is winner:
            same = [_time(other) for other in rows if other.counts and _alike(other, row)]
            first = replace(row, time=min(same))  # handed in again unchanged is no delay
            settled_rows.append(_placed(first, places, dates))
        elif row.by == row.student or _alike(row, winner) or row.path not in listed:
            listed.add(row.path)
            why = "the same as" if _alike(row, winner) else "in its place counts"
            settled_rows.append(because(row, f"{why} {winner.path}", "duplicate"))
    return settled_rows


def _counts(row: HandIn) -> bool:
    return row.counts


def _alike(row: HandIn, other: HandIn) -> bool:
    """Whether two rows are the same work of the same student."""
    key = (other.student, other.exercise, other.digest)
    return (row.student, row.exercise, row.digest) == key


def _time(row: HandIn) -> datetime:
    assert row.time is not None, "every file has a time"
    return row.time


def _rank(row: HandIn) -> tuple[bool, datetime, str]:
    """What decides which file counts: that it can be read, then its time, then its name."""
    return row.status == "collected", _time(row), row.path


def _placed(row: HandIn, places: Places, dates: DueDates) -> HandIn:
    """Place a row's file, and say so; not if what lies there is later."""
    path = places.submission(row.exercise, row.student)
    before = _time_of_placed(row.student, row.exercise, places)
    if before is not None and path.read_bytes() == row.content:
        row = replace(row, time=min(before, _time(row)), reason=row.reason or "was here already")
    elif before is not None and before > _time(row):
        return because(row, f"a later one was collected before, of {local(before)}", "duplicate")
    elif path.exists() and row.status == "unreadable" and _is_readable(path):
        return because(row, "in its place counts the one that was collected before", "duplicate")
    marked = row.sender.late and not dates.extended(row.student, row.exercise)
    place(row, places, marked)
    late = "the platform marks it as late" if marked else ""
    late = late or dates.late(row.student, row.exercise, row.time if row.timed else None)
    return because(row, late, "late" if late and row.status == "collected" else "")


def _is_readable(path: Path) -> bool:
    """Whether the notebook that lies there can be read; it is tried in a child."""
    try:
        return not child.run(damage, path)
    except Trouble:
        return False


def damage(path: Path) -> bytes:
    """Why a notebook cannot be read, in a child; nothing if it can."""
    return read_notebook(path.read_bytes())[1].encode()


def _time_of_placed(student: str, exercise: str, places: Places) -> datetime | None:
    """The time of the file that lies in `submitted`, or None."""
    path = places.submission(exercise, student)
    receipt = read_receipt(student, exercise, places) if path.exists() else None
    return datetime.fromisoformat(receipt.time) if receipt and receipt.time else timestamp(path)


def place(row: HandIn, places: Places, late: bool) -> None:
    """Put a submission where nbgrader looks for it, in one piece, with its time and receipt."""
    path = places.submission(row.exercise, row.student)
    if path.exists() and path.read_bytes() != row.content:
        before = _time_of_placed(row.student, row.exercise, places)
        keep(places, replace(row, time=before), path.read_bytes())
    for stale in (path.parent / "timestamp.txt", path.parent / SECRET):
        stale.unlink(missing_ok=True)
    receipt_path(row.student, row.exercise, places).unlink(missing_ok=True)
    written(path, row.content)
    if row.timed:
        text = _time(row).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        written(path.parent / "timestamp.txt", text)
    if row.secret and row.by == row.student:
        written(path.parent / SECRET, row.secret)
    receipt = Receipt(
        row.sender.platform,
        row.path,
        row.sender.number,
        row.digest,
        _time(row).isoformat(),
        row.by,
        late,
    )
    write_receipt(receipt, row.student, row.exercise, places)
