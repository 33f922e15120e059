"""A class whose reports and gradebook are written by hand: no notebook runs."""

import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from classroom import released_class
from nbgrader.api import Gradebook

from grading.intake.receipts import Receipt, write_receipt
from grading.judging.report import GRADED, PERSON, Line, Report, write_report
from grading.release import build
from grading.release.build import points
from grading.settings import Places

NAME, BY_HAND = "04_self_attention", "explain_scale"
TASKS = points(NAME)
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
RIGHT = {task: Line(most, most, GRADED) for task, most in TASKS.items()}
RIGHT[BY_HAND] = Line(0.0, TASKS[BY_HAND], PERSON, "to be read")


def semester(home: Path, due: datetime | None = None) -> Places:
    """A class of three whose exercise is released."""
    places = released_class(NAME, home)
    with (home / "roster.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ("id", "name", "email", "number"),
                ("ada", "Ada Lovelace", "ada@example.org", "4712"),
                ("emmy", "Noether, Emmy", "emmy@example.org", "4713"),
                ("alan", "Alan Turing", "alan@example.org", "4714"),
            ]
        )
    with Gradebook(places.gradebook, "attention") as gradebook:
        utc = due.astimezone(UTC).replace(tzinfo=None) if due else None
        gradebook.update_or_create_assignment(NAME, duedate=utc)
    return places


def hand_in(places: Places, student: str, text: str = "{}", time: datetime = NOON) -> str:
    """Lay a submission where `collect` would; its SHA-256."""
    path = places.submitted / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (path.parent / "timestamp.txt").write_text(f"{time:%Y-%m-%d %H:%M:%S.%f} UTC")
    return hashlib.sha256(text.encode()).hexdigest()


def grade(
    places: Places, student: str, lines: Mapping[str, Line] | None = None, **about: Any
) -> None:
    """Hand in and write the report and the grades, as the desk would; right unless told."""
    tasks = RIGHT | dict(lines or {})
    digest = hand_in(places, student)
    report = Report(PERSON, "", tasks, exercise=NAME, student=student, submission=digest)
    write_report(replace(report, **about), places)
    with Gradebook(places.gradebook, "attention") as gradebook:
        gradebook.update_or_create_student(student)
        with gradebook.db.no_autoflush:  # else SQLAlchemy warns of nbgrader's way
            gradebook.update_or_create_submission(NAME, student)
        for grade in gradebook.find_submission_notebook(NAME, NAME, student).grades:
            line = tasks[grade.name]
            grade.auto_score = None if line.status == PERSON else line.points
        gradebook.db.commit()


def give(places: Places, student: str, task: str, **entered: Any) -> None:
    """Enter in the gradebook what a person types in Formgrader: manual_score, extra_credit."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        grade = gradebook.find_grade(task, NAME, NAME, student)
        for field, value in entered.items():
            setattr(grade, field, value)
        gradebook.db.commit()


def comment(places: Places, student: str, task: str, text: str) -> None:
    """Enter in the gradebook what a person writes about an answer in Formgrader."""
    with Gradebook(places.gradebook, "attention") as gradebook:
        cells = gradebook.find_submission_notebook(NAME, NAME, student).comments
        names = (task, f"{task}_answer")
        next(cell for cell in cells if cell.name in names).manual_comment = text
        gradebook.db.commit()


def receive(places: Places, student: str, platform: str, path: str, **about: str) -> None:
    """Keep a receipt, as `collect` would."""
    write_receipt(Receipt(platform, path, **about), student, NAME, places)


def graded_notebook(places: Places, student: str, *sources: str) -> Path:
    """Write what grading keeps of a submission: the released notebook and the student's cells."""
    notebook = json.loads((build.EXERCISE_FOLDER / NAME / f"{NAME}.ipynb").read_text())
    for number, source in enumerate(sources):
        cell = {"cell_type": "code", "id": f"own{number}", "metadata": {}, "source": source}
        notebook["cells"].append(cell | {"outputs": [], "execution_count": None})
    path = places.autograded / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def rows_of(path: Path) -> list[list[str]]:
    """The cells of a CSV file, the header first."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))
