"""Takes in what a class handed in: a folder or a zip with whatever names, each file accounted for.

Notebooks and zips are read, by their names; other files are only counted. Whatever was read is kept
in `collected/` under its content, so that nothing is ever overwritten without a copy, and no more
than one file is in memory at a time, that of a child, which alone reads what was handed in
(`grading.child`). Nothing is unpacked by the names in an archive, and nothing in a file is run or
believed: the platform's name for it says whose it is (`platforms`, `whose`), its cells say what it
answers (`recognise`), and the latest of each student is placed (`placing`). In an exchange students
choose the names; there the machine's own word counts (`exchange`).
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from grading import child, tables
from grading.child import Trouble
from grading.intake import exchange
from grading.intake.due import local, read_due_dates, released_exercises
from grading.intake.files import LARGEST, File, Upload, uploads
from grading.intake.gradescope import METADATA, read_metadata
from grading.intake.placing import HandIn, because, doubted, keep, settled, shared
from grading.intake.platforms import HUB, Export, Sender, export, is_noise
from grading.intake.recognise import NOTEBOOK, read_notebook, signatures, usual, which_exercise
from grading.intake.roster import Student, read_roster
from grading.intake.whose import owners
from grading.release.build import BuildError
from grading.settings import Places

MOST, MOST_TOLD = 50, 4 << 20  # files of one upload, bytes of what is told of them
MOST_KEPT = 3 * LARGEST  # bytes that are kept of one upload
COLUMNS = ("student", "exercise", "status", "handed in", "file", "reason")
Reader = Callable[[str], list[Sender]]


def collect(source: Path, places: Places, pattern: str = "") -> list[HandIn]:
    """Take in a folder, a zip, or what came through nbgrader's exchange.

    Args:
        source: the folder or zip; of an exchange, its folder `inbound`.
        places: the class.
        pattern: a regular expression for names that are not in the table of platforms, with the
            named groups of nbgrader's `zip_collect`.

    Returns:
        a row for each file, or for each student for whom it counts, and one for each submission
        that is missing; the same table is written to `collected.csv` in the class's folder, the
        one before being kept.

    Raises:
        BuildError: the source, the roster, the extensions or the pattern cannot be used.
    """
    places.make()
    roster, dates = read_roster(places), read_due_dates(places)
    signatures()  # read here once, so that no child has to
    senders: Reader = from_account
    others = list[HandIn]()
    if exchange.is_exchange(source):
        there = list(exchange.uploads(source))
    else:
        there = [upload for upload in uploads(source) if not is_noise(upload.path)]
        exported = read_export(source, there, pattern, roster)
        senders, others = exported.senders, unread(there, exported.depth)
        there = [upload for upload in there if is_read(upload.path)]
    rows = others + [row for upload in there for row in received(upload, places)]
    rows = [owned for row in rows for owned in with_owners(row, senders(row.path), roster)]
    rows = shared(doubted(rows, places), roster or [])
    rows = settled(rows, places, dates)
    rows += missing(rows, roster or [], places)
    rows.sort(key=lambda row: (row.exercise, row.student, row.path))
    write(rows, places)
    return rows


def read_export(
    source: Path, there: Sequence[Upload], pattern: str, roster: Sequence[Student] | None
) -> Export:
    """How the names in an export are read.

    Raises:
        BuildError: the pattern, or what Gradescope laid beside its export, cannot be used.
    """
    students = frozenset(student.id for student in roster or ())
    exported = export([upload.path for upload in there], pattern, students)
    people: dict[str, list[dict[str, str]]] = {}
    for upload in uploads(source):
        *outside, name = upload.path.split("/")
        if name == METADATA and len(outside) == exported.depth:  # deeper ones are students'
            try:
                people |= json.loads(child.run(gradescope_metadata, upload))
            except Trouble as error:
                reason = f"{upload.path} cannot be read: {error}. Download the export again"
                raise BuildError(reason) from None
    return replace(exported, submitters=people)


def from_account(path: str) -> list[Sender]:
    """The account that a folder of an exchange belongs to."""
    return [Sender(HUB, path.partition("/")[0])]


def gradescope_metadata(upload: Upload) -> bytes:
    """Gradescope's metadata as JSON, in a child."""
    (file,) = upload.read()
    return json.dumps(read_metadata(file.content)).encode()


# what is not read


def is_read(path: str) -> bool:
    """Whether a file may be a notebook, or hold one, by its name."""
    return bool(NOTEBOOK.search(path)) or path.casefold().endswith(".zip")


def unread(there: Sequence[Upload], depth: int) -> list[HandIn]:
    """For each outermost name below the lecturer's own folders, a row that counts other files."""
    others: dict[str, list[str]] = {}
    for upload in there:
        if not is_read(upload.path):
            parts = upload.path.split("/")
            outer = "/".join(parts[: depth + 1])
            others.setdefault(outer, []).append("/".join(parts[depth + 1 :]) or parts[-1])
    return [
        HandIn("", "", "not recognised", path=outer, reason=_not_read(names))
        for outer, names in others.items()
    ]


def _not_read(names: Sequence[str]) -> str:
    """That files are not read, and why."""
    count = "1 other file is" if len(names) == 1 else f"{len(names):,} other files are"
    return f"{count} not read, such as {names[0][:100]}: no name ends in .ipynb or .zip"


# reading, in a child


def received(upload: Upload, places: Places) -> list[HandIn]:
    """The rows of an upload, before it is known whose they are; it is read in a child."""
    try:
        answer = child.run(taken, upload, places, most=MOST_TOLD, writes=4 * LARGEST)
    except Trouble as error:
        reason = f"could not be processed, a person has to look at it: {error}"
        return [HandIn("", "", "refused", upload.time, upload.path, reason)]
    rows = json.loads(answer)
    for row in rows:
        row["time"] = datetime.fromisoformat(row["time"])
        row["kept"] = row["kept"] and Path(row["kept"])
        row["sender"] = Sender("")
    return [HandIn(**row) for row in rows]


def taken(upload: Upload, places: Places) -> bytes:
    """The rows of an upload, as JSON, and a copy of each file."""
    files = (file for file in upload.read() if not is_noise(file.path))
    rows, room = list[HandIn](), MOST_KEPT
    for file in islice(files, MOST):
        room -= len(file.content)
        if room < 0:  # a file of nothing but zeros takes no room, until it is kept
            file = replace(file, content=b"", refused=f"{upload.path} holds too much")
        rows.append(described(file, places))
    rest = f"{upload.path} holds more than {MOST} files; the others are not read"
    rows += [HandIn("", "", "refused", upload.time, upload.path, rest) for _ in islice(files, 1)]
    return json.dumps([asdict(row) for row in rows], default=str).encode()


def described(file: File, places: Places) -> HandIn:
    """A file's row before it is known whose it is; a copy of it is kept."""
    path, refused = file.path[:1000], file.refused[:300]
    row = HandIn("", "", "refused", file.time, path, refused, secret=file.secret)
    if refused:
        return row
    if not NOTEBOOK.search(path):
        reason = "no notebook: its name does not end in .ipynb"
        row = replace(row, status="not recognised", reason=reason)
        return replace(row, kept=keep(places, row, file.content))
    notebook, damage = read_notebook(file.content)
    exercise = which_exercise(path, notebook)
    digest = hashlib.sha256(usual(file.content)).hexdigest()
    row = replace(row, exercise=exercise, digest=digest, reason=damage)
    row = replace(row, kept=keep(places, row, file.content))
    if exercise:
        return replace(row, status="unreadable" if damage else "collected")
    return because(row, "neither its cells nor its name are those of an exercise", "not recognised")


# whose it is


def with_owners(
    row: HandIn, senders: Sequence[Sender], roster: Sequence[Student] | None
) -> list[HandIn]:
    """The row of each student for whom a file counts, or the reason why there is nobody."""
    if not row.counts:
        return [row]
    rows = [owned for sender in senders for owned in _with_owner(row, sender, roster)]
    hint = "its name has no shape of a platform, nor is it ID_EXERCISE.ipynb or ID/…"
    if roster is None:
        hint += ": write a roster, or give a PATTERN"
    return rows or [because(row, hint, "not recognised")]


def _with_owner(row: HandIn, sender: Sender, roster: Sequence[Student] | None) -> list[HandIn]:
    """The rows of those whom one sender means."""
    owner = owners(sender, roster)
    row = replace(row, sender=sender, sure=owner.sure, by=owner.by, time=sender.time or row.time)
    if not owner.students:
        return [because(row, owner.reason, "not recognised")]
    return [replace(row, student=student) for student in owner.students]


def missing(rows: Sequence[HandIn], roster: Sequence[Student], places: Places) -> list[HandIn]:
    """Who is on the roster and has handed in nothing for an exercise that was collected."""
    exercises = sorted({row.exercise for row in rows} & released_exercises(places))
    return [
        HandIn(student.id, name, "missing", reason=f"nothing from {student.name or student.id}")
        for name in exercises
        for student in roster
        if not places.submission(name, student.id).exists()
    ]


# the table


def write(rows: Sequence[HandIn], places: Places) -> None:
    """Write collected.csv; the one of the run before is kept in `collected/`."""
    path = places.home / "collected.csv"
    if path.exists():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        places.collected.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, places.collected / f"collected_{digest}.csv")
    tables.write(path, COLUMNS, map(_cells, rows))


def _cells(row: HandIn) -> tuple[Any, ...]:
    time = local(row.time) if row.time and (row.timed or not row.sender.platform) else ""
    return row.student, row.exercise, row.status, time, row.path, row.reason


def table(rows: Sequence[HandIn]) -> str:
    """The table for the terminal, with a line that counts, and before it those who are missing."""
    if not rows:
        return "nothing was found there"
    there = [_cells(row) for row in rows if row.status != "missing"]
    absent: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "missing":
            absent.setdefault(row.exercise, []).append(row.student)
    counts = Counter(row.status for row in rows)
    return "\n".join(
        [
            tables.aligned(COLUMNS, there),
            *(f"missing for {name}: {', '.join(students)}" for name, students in absent.items()),
            ", ".join(f"{count} {status}" for status, count in sorted(counts.items())),
        ]
    )
