"""The marks of a class as a table, and a page of feedback for each student.

A mark comes from the report that grading wrote; points that a person gave in Formgrader win. Who
is on the roster and handed in nothing has rows too, so that nobody is lost between two files.
"""

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from grading import child, tables
from grading.build import BuildError, known, names, nbgrader_log
from grading.child import Trouble
from grading.collect import due_dates, span
from grading.exchange import keep_secrets
from grading.preprocess import GRADED, MANUAL
from grading.settings import Places, configuration, find_alembic, timestamp
from grading.submission import fingerprint, handed_in, points, read_report, report_path
from grading.whose import read_roster

COLUMNS = (
    *("student", "name", "exercise", "task", "points", "max_points", "status", "reason"),
    *("late", "total"),  # of the exercise
)
PAGE = 60  # seconds of computing for a student's page
LARGEST_PAGE = 64 << 20  # bytes
LONGEST_FORMULA = 2_000  # characters
ALONE = (  # a page asks no host for anything, and runs nothing
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; form-action 'none'; base-uri 'none'; "
    "style-src 'unsafe-inline'; img-src data:\">"
)
ABSENT, WAITING = "not submitted", "not graded yet"
Points = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Mark:
    """A row of marks.csv."""

    student: str
    exercise: str
    task: str
    points: float
    max_points: float
    status: str
    reason: str = ""


def by_hand(name: str, places: Places) -> Points:
    """The points that people gave in Formgrader, by student and task."""
    from nbgrader.api import Gradebook, MissingEntry

    if not places.has_gradebook():
        return {}
    find_alembic()
    with Gradebook(places.gradebook, "attention") as gradebook:
        try:
            submissions = gradebook.assignment_submissions(name)
        except MissingEntry:
            return {}
        return {
            (submission.student.id, grade.name): grade.manual_score + (grade.extra_credit or 0.0)
            for submission in submissions
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.manual_score is not None
        }


def students(places: Places) -> list[str]:
    """Everybody: the roster in its order, then who handed something in without being on it."""
    on_it = [student.id for student in read_roster(places) or []]
    folders = {
        path.name
        for room in (places.submitted, places.autograded)
        if room.is_dir()
        for path in room.iterdir()
        if path.is_dir()
    }
    return on_it + sorted(folders - set(on_it))


def exercises(places: Places) -> list[str]:
    """The exercises that somebody handed in, or that have been graded."""
    return [
        name
        for name in names()
        if any(places.submitted.glob(f"*/{name}")) or any(places.autograded.glob(f"*/{name}"))
    ]


def marks_of(student: str, name: str, most: dict[str, float], places: Places) -> list[Mark]:
    """A student's marks for an exercise, before people's points.

    Args:
        student: the id.
        name: the exercise.
        most: the points of each of its tasks.
        places: the class.
    """
    report = read_report(report_path(name, student, places))
    digest = fingerprint(handed_in(name, student, places))
    if report is None or (report["status"] == ABSENT and digest is not None):
        status = ABSENT if digest is None else WAITING
        why = "nothing was handed in" if digest is None else f"run make grade NAME={name}"
        return [Mark(student, name, task, 0.0, top, status, why) for task, top in most.items()]
    told: dict[str, dict[str, Any]] = report["tasks"]
    found = [
        Mark(student, name, task, one["points"], one["max"], one["status"], one["reason"])
        for task, one in told.items()
    ]
    if report["submission"] is not None and digest not in (report["submission"], None):
        again = f"another file lies there since it was graded: run make grade NAME={name}"
        return [replace(mark, status=WAITING, reason=again) for mark in found]
    return found


def marks(places: Places) -> list[Mark]:
    """All marks of a class: a row for each student, exercise and task."""
    found, everybody = [], students(places)
    for name in exercises(places):
        most, given = points(name), by_hand(name, places)
        for student in everybody:
            for mark in marks_of(student, name, most, places):
                score = given.get((student, mark.task))
                if score is not None and mark.status != WAITING:
                    why = f"by hand; before: {mark.reason}" if mark.reason else "by hand"
                    mark = replace(mark, points=score, status=GRADED, reason=why)
                found.append(mark)
    return found


def write_marks(places: Places) -> Path:
    """Write marks.csv at the class's home, and return its path.

    Raises:
        BuildError: if nobody has handed anything in.
    """
    found = marks(places)
    if not found:
        raise BuildError("there are no marks: nothing was handed in yet (make collect FROM=…)")
    known = {student.id: student.name for student in read_roster(places) or []}
    due, total = due_dates(places), dict[tuple[str, str], float]()
    for mark in found:
        key = mark.student, mark.exercise
        total[key] = total.get(key, 0.0) + mark.points
    rows = []
    for m in found:
        at, limit = timestamp(handed_in(m.exercise, m.student, places)), due.get(m.exercise)
        late = span(at - limit) if at and limit and at > limit else ""
        about = (m.student, known.get(m.student, ""), m.exercise, m.task, m.points, m.max_points)
        rows.append((*about, m.status, m.reason[:500], late, total[m.student, m.exercise]))
    return tables.write(places.home / "marks.csv", COLUMNS, rows)


# feedback


def feedback(wanted: Sequence[str], places: Places) -> Iterator[str]:
    """Write a page for each student whose work was graded, and tell how many.

    Args:
        wanted: exercises; all that were graded if none is named.
        places: the class.

    Yields:
        a line for each exercise, and one for each page that could not be written.
    """
    waiting = {(mark.exercise, mark.student) for mark in marks(places) if mark.status == MANUAL}
    for name in [known(one) for one in wanted] or exercises(places):
        written, left = 0, sum(name == exercise for exercise, _ in waiting)
        for student in students(places):
            if (places.autograded / student / name).is_dir():
                trouble = page(name, student, places)
                written += not trouble
                if trouble:
                    yield f"{name}, {student}: no page: {trouble}"
        keep_secrets(name, students(places), places)
        told = f"; {left} of them with 0 points for a task that waits for you" if left else ""
        yield f"{name}: {written} pages in {places.feedback}{told}"


def page(name: str, student: str, places: Places) -> str:
    """Write a student's page for an exercise; what went wrong, or nothing."""
    report = read_report(report_path(name, student, places))
    if report is None:
        return "it has not been graded"
    head, trouble = report["status"], ""
    if (places.autograded / student / name / f"{name}.ipynb").exists():
        try:
            limits = {"seconds": PAGE, "writes": LARGEST_PAGE}
            trouble = child.run(rendered, name, student, places, **limits).decode()
        except Trouble as error:
            trouble = str(error)
        if not trouble:
            return ""
        head = "what was handed in is graded, and could not be shown as a page"
    head, why = (html.escape(text) for text in (f"{name}: {head}", report["reason"]))
    tables.written(
        places.feedback / student / name / f"{name}.html",
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{head}</title>'
        f"<h1>{head}</h1><p>{why}</p></html>\n",
    )
    return trouble


def rendered(name: str, student: str, places: Places) -> bytes:
    """Render a student's page, in a child; what went wrong, or nothing."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer
    from nbgrader.converters import GenerateFeedback
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    for kind, block in (("inline_math", False), ("block_math", True), ("latex_environment", True)):
        setattr(IPythonRenderer, kind, partial(set_formula, block))  # in this process alone
    config = configuration(places)
    config.CourseDirectory.assignment_id = name
    # nbgrader takes a student's name for a pattern
    config.CourseDirectory.student_id = re.sub(r"([*?[])", r"[\1]", student)
    config.CourseDirectory.ignore = ["*"]  # the page alone goes to the student
    directory = CourseDirectory(config=config)
    with nbgrader_log() as log:
        try:
            GenerateFeedback(coursedir=directory, config=config, force=True).start()
        except NbGraderException:
            why = " ".join(log.getvalue().split())[-300:]
            return (why or "nbgrader could not make it").encode()
    path = places.feedback / student / name / f"{name}.html"
    text = re.sub(r"(?s)<script.*?</script>", "", path.read_text(encoding="utf-8"))
    tables.written(path, text.replace("<head>", f"<head>{ALONE}", 1))
    return b""


def set_formula(block: bool, text: str = "", name: str = "", body: str = "") -> str:
    """A formula as MathML; what is too long, or no formula, stays as it was written."""
    tex = f"\\begin{{{name}}}{body}\\end{{{name}}}" if name else text
    if len(tex) < LONGEST_FORMULA:
        with suppress(Exception):  # whatever a stranger's formula makes of a parser
            from book.mathml import formula

            return re.sub(r'\s(href|style|class|id)="[^"]*"', "", formula(tex, block))
    return html.escape(f"$${tex}$$" if block else f"${tex}$")
