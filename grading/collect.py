"""Takes in what a class handed in: a folder or a zip with whatever names, each file accounted for.

A notebook goes to `submitted/STUDENT/EXERCISE/EXERCISE.ipynb`, where nbgrader looks for it; of
several the latest counts. Whatever was read is also kept in `collected/`, under its content, so
that nothing is ever overwritten without a copy, and no more than one file is in memory at a time,
that of a child, which alone reads what was handed in (`grading.child`).
Nothing is unpacked by the names in an archive, and nothing in a file is run or believed: the outer
folder says whose it is, and the outer time when it was handed in. In an exchange students make the
outer folder; there its owner and the machine's own time take that place (`grading.exchange`).
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from grading import child, exchange, tables
from grading.child import Trouble
from grading.intake import LARGEST, File, HandIn, hand_ins, is_noise
from grading.recognise import MOODLE, Student, read_notebook, which_exercise
from grading.settings import Places, timestamp
from grading.tables import written
from grading.whose import Row, below, counts, joined, namesakes, read_roster, whose

MOST, MOST_TOLD = 50, 4 << 20  # files of one hand-in, bytes of what is told of them
MOST_KEPT = 3 * LARGEST  # bytes that are kept of one hand-in
CALLED = "called.txt"  # beside a submission: how its file's name spelled the student
COLUMNS = ("student", "exercise", "status", "handed in", "file", "reason")


def received(one: HandIn, places: Places) -> list[Row]:
    """The rows of what a student handed in; it is read in a child."""
    try:
        found = json.loads(child.run(taken, one, places, most=MOST_TOLD, writes=4 * LARGEST))
    except Trouble as error:
        told = f"could not be processed, a person has to look at it: {error}"
        return [Row("", "", "refused", one.time, one.path, told)]
    for row in found:
        row["time"] = datetime.fromisoformat(row["time"])
        row["kept"] = row["kept"] and Path(row["kept"])
    return [Row(**row) for row in found]


def taken(one: HandIn, places: Places) -> bytes:
    """The rows of what a student handed in, as JSON, and a copy of each file."""
    found = (file for file in one.read() if not is_noise(file.path))
    rows, room = list[Row](), MOST_KEPT
    for file in islice(found, MOST):
        room -= len(file.content)
        if room < 0:  # a file of nothing but zeros takes no room, until it is kept
            file = replace(file, content=b"", refused=f"{one.path} holds too much")
        rows.append(described(file, places))
    rest = f"{one.path} holds more than {MOST} files; the others are not read"
    rows += [Row("", "", "refused", one.time, one.path, rest) for _ in islice(found, 1)]
    return json.dumps([asdict(row) for row in rows], default=str).encode()


def described(file: File, places: Places) -> Row:
    """A file's row before it is known whose it is; a copy of it is kept."""
    path, told = file.path[:1000], file.refused[:300]
    row = Row("", "", "refused", file.time, path, told, secret=file.secret)
    if file.refused:
        return row
    row = replace(row, status="not recognised", digest=hashlib.sha256(file.content).hexdigest())
    if not file.path.casefold().endswith(".ipynb"):
        told = "no notebook: its name does not end in .ipynb"
        return replace(row, reason=told, kept=keep(places, row, file.content))
    notebook, damage = read_notebook(file.content)
    row = replace(row, exercise=which_exercise(file.path, notebook) or "", reason=damage)
    row = replace(row, kept=keep(places, row, file.content))
    if row.exercise:
        return replace(row, status="unreadable" if damage else "collected")
    told = "neither its cells nor its name are those of an exercise"
    return replace(row, reason=f"{damage}; {told}" if damage else told)


# placing


def due_dates(places: Places) -> dict[str, datetime]:
    """When each exercise is due, from the gradebook, if there is one."""
    if not places.has_gradebook():
        return {}
    from nbgrader.api import Gradebook

    from grading.settings import find_alembic

    find_alembic()
    with Gradebook(places.gradebook, "attention") as gradebook:
        return {
            assignment.name: assignment.duedate.replace(tzinfo=UTC)
            for assignment in gradebook.assignments
            if assignment.duedate
        }


def keep(places: Places, row: Row, content: bytes) -> Path:
    """Keep a copy of a file, under its content: the same file is kept once."""
    digest = hashlib.sha256(content).hexdigest()[:12]
    moment = row.time.strftime("%Y-%m-%dT%H%M%S") if row.time else "unknown"
    suffix = ".ipynb" if row.path.casefold().endswith(".ipynb") else ".bin"
    path = places.collected / (row.exercise or "_unknown") / f"{moment}_{digest}{suffix}"
    if not path.exists():
        written(path, content)
    return path


def damage(path: Path) -> bytes:
    """Why a notebook cannot be read, in a child; nothing if it can."""
    return read_notebook(path.read_bytes())[1].encode()


def place(places: Places, row: Row) -> None:
    """Put a submission where nbgrader looks for it, in one piece, with its time."""
    folder = places.submitted / row.student / row.exercise
    path = folder / f"{row.exercise}.ipynb"
    if path.exists() and path.read_bytes() != row.content:
        keep(places, replace(row, time=timestamp(path)), path.read_bytes())
    written(path, row.content)
    if row.time:
        text = row.time.strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        written(folder / "timestamp.txt", text.encode())
    written(folder / CALLED, tables.visible(row.called))
    if row.secret:
        written(folder / exchange.SECRET, row.secret)


def settle(rows: list[Row], places: Places, due: dict[str, datetime]) -> list[Row]:
    """Of each student's files for an exercise, place the latest, unless a later one lies there.

    A file that cannot be read counts only if there is no other.
    """
    latest: dict[tuple[str, str], Row] = {}
    for row in filter(counts, rows):
        key = (row.student, row.exercise)
        if key not in latest or _rank(row) >= _rank(latest[key]):
            latest[key] = row
    settled = []
    for row in rows:
        winner = latest.get((row.student, row.exercise))
        if not counts(row) or winner is None:
            settled.append(row)
        elif row is winner:
            same = [_time(r) for r in rows if counts(r) and _alike(r, row)]
            first = replace(row, time=min(same))  # handed in again unchanged is no delay
            settled.append(_placed(first, places, due.get(row.exercise)))
        else:
            told = "the same as" if _alike(row, winner) else "in its place counts"
            settled.append(replace(row, status="duplicate", reason=f"{told} {winner.path}"))
    return settled


def _alike(one: Row, other: Row) -> bool:
    key = (other.student, other.exercise, other.digest)
    return (one.student, one.exercise, one.digest) == key


def _time(row: Row) -> datetime:
    assert row.time is not None, "every file has a time"
    return row.time


def _rank(row: Row) -> tuple[bool, datetime, str]:
    return row.status == "collected", _time(row), row.path


def _trust(row: Row) -> tuple[bool, datetime]:
    """Of two spellings a platform's own comes first, else the earlier one."""
    platform = any(map(MOODLE.match, PurePosixPath(row.path).parts))
    return not platform, _time(row)


def doubted(rows: Sequence[Row], places: Places) -> list[Row]:
    """Files that spell a student in another way than the first of them: they displace nothing."""
    first: dict[tuple[str, str], Row] = {}
    for row in sorted(filter(counts, rows), key=_trust):
        first.setdefault((row.student, row.exercise), row)
    found = []
    for row in rows:
        other = first.get((row.student, row.exercise), row)
        path = places.submitted / row.student / row.exercise / CALLED
        there = row.student and path.exists()
        spelled = path.read_text(encoding="utf-8") if there else other.called
        if counts(row) and tables.visible(row.called) != tables.visible(spelled):
            told = f"is {row.called!r} the same as {spelled!r}? Not taken in"
            row = replace(row, status="doubtful", reason=joined(row.reason, told))
        found.append(row)
    return found


def _placed(row: Row, places: Places, due: datetime | None) -> Row:
    """Place a row's file, and say so; not if what lies there is later."""
    path = places.submitted / row.student / row.exercise / f"{row.exercise}.ipynb"
    there = timestamp(path) if path.exists() else None
    if there is not None and path.read_bytes() == row.content:
        row = replace(row, time=min(there, _time(row)), reason=row.reason or "was here already")
    elif there is not None and there > _time(row):
        told = f"a later one was collected before, of {_local(there)}"
        return replace(row, status="duplicate", reason=told)
    elif path.exists() and row.status == "unreadable" and not child.run(damage, path):
        told = f"{row.reason}; in its place counts the one that was collected before"
        return replace(row, status="duplicate", reason=told)
    place(places, row)
    if due is None or _time(row) <= due:
        return row
    told = f"{span(_time(row) - due)} after {_local(due)}"
    status = "late" if row.status == "collected" else row.status
    return replace(row, status=status, reason=joined(row.reason, told))


def span(late: timedelta) -> str:
    """A time in words.

    >>> span(timedelta(hours=25)), span(timedelta(minutes=61))
    ('1 d 1 h', '1 h 1 min')
    """
    minutes = int(late.total_seconds() // 60)
    days, hours = minutes // 1440, minutes % 1440 // 60
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min"


def _local(time: datetime) -> str:
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


def missing(rows: Sequence[Row], roster: Sequence[Student], places: Places) -> list[Row]:
    """Who is on the roster and has handed in nothing for an exercise that was collected."""
    exercises = sorted({row.exercise for row in rows if row.exercise})
    return [
        Row(student.id, name, "missing", reason=f"nothing from {student.name or student.id}")
        for name in exercises
        for student in roster
        if not (places.submitted / student.id / name / f"{name}.ipynb").exists()
    ]


def collect(source: Path, places: Places) -> list[Row]:
    """Take in a folder, a zip, or what came through nbgrader's exchange.

    Args:
        source: the folder or zip; of an exchange, its folder `inbound`.
        places: the class.

    Returns:
        a row for each file, and one for each submission that is missing; the same table is
        written to `collected.csv` at the class's home, the one before being kept.

    Raises:
        BuildError: if the source or the roster cannot be used.
    """
    roster, due = read_roster(places), due_dates(places)
    inbound = exchange.is_exchange(source)
    found = exchange.hand_ins(source) if inbound else hand_ins(source)
    rows = [row for one in found for row in received(one, places)]
    names = [row.path.partition("/")[0] if inbound else row.path for row in rows]
    names = below(names) if roster is None and not inbound else names
    rows = [whose(row, name, roster) for row, name in zip(rows, names, strict=True)]
    rows = rows if roster is not None else namesakes(rows, names)
    rows = settle(rows if inbound else doubted(rows, places), places, due)
    rows += missing(rows, roster or [], places)
    rows.sort(key=lambda row: (row.exercise, row.student, row.path))
    write(rows, places)
    return rows


def write(rows: Sequence[Row], places: Places) -> None:
    """Write collected.csv; the one of the run before is kept in `collected/`."""
    path = places.home / "collected.csv"
    if path.exists():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        places.collected.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, places.collected / f"collected_{digest}.csv")
    tables.write(path, COLUMNS, map(_cells, rows))


def _cells(row: Row) -> tuple[Any, ...]:
    time = _local(row.time) if row.time else ""
    return row.student, row.exercise, row.status, time, row.path, row.reason


def table(rows: Sequence[Row]) -> str:
    """The table for the terminal, with a line that counts."""
    if not rows:
        return "nothing was found there"
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return f"{tables.aligned(COLUMNS, [_cells(row) for row in rows])}\n{told}"
