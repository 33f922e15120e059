"""What is kept of a graded submission: the notebook, the grades in the gradebook, the report.

The report is written last, in one piece. So a run that was killed finds a report where everything
else is there too, and grades nobody twice.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from grading.desk.faults import MACHINES, MachineFault, patiently, sentence
from grading.desk.submission import UNPROCESSED, Graded, Work, fingerprint
from grading.judging.report import PERSON, Line, Report, read_report, report_path, write_report
from grading.sandbox.watch import Limits
from grading.settings import Places, find_alembic, timestamp
from grading.tables import written
from grading.tasks.hidden import seed_in_use

PATIENCE = 60.0  # seconds with a gradebook that another process is writing to


@dataclass(frozen=True)
class How:
    """How a class is graded; the same for all its submissions.

    Attributes:
        places: where the class is kept.
        seed: of the hidden inputs.
        limits: what a submission may use.
        force: grade again what has a report already.
        unsafe: without a sandbox.
        patience: seconds to wait for a gradebook that another process is writing to.
    """

    places: Places = field(default_factory=Places)
    seed: str = field(default_factory=seed_in_use)
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    unsafe: bool = False
    patience: float = PATIENCE


def work_of(name: str, student: str, how: How) -> Work | None:
    """The work of a student, or None if nothing was handed in.

    Raises:
        MachineFault: the file cannot be read.
    """
    path = how.places.submission(name, student)
    if not path.exists():
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MachineFault(sentence(error, how.places.home)) from error
    return Work(name, student, content, how.seed, how.limits, how.unsafe)


def earlier_report(work: Work, how: How) -> Report | None:
    """The report of a work that was graded before under the same seed, unless all is to be anew."""
    report = read_report(work.exercise, work.student, how.places)
    if how.force or report is None:
        return None
    same = (report.submission, report.seed) == (work.digest, fingerprint(how.seed))
    return report if same and not report.reason.startswith(UNPROCESSED) else None


def keep(graded: Graded, how: How) -> Report:
    """Write what came of a work, and return the report as it is kept.

    Raises:
        MachineFault: something could not be written.
    """
    try:
        return _keep(graded, how)
    except MACHINES as error:
        raise MachineFault(sentence(error, how.places.home)) from error


def _keep(graded: Graded, how: How) -> Report:
    report, places = graded.report, how.places
    earlier = read_report(report.exercise, report.student, places)
    path = report_path(report.exercise, report.student, places)
    notebook = path.with_name(f"{report.exercise}.ipynb")
    if graded.notebook:
        written(notebook, graded.notebook)
    else:
        notebook.unlink(missing_ok=True)
    kept: list[Report] = []
    patiently(lambda: kept.append(enter(report, earlier, places, how.patience)), how.patience)
    write_report(kept[-1], places)
    return kept[-1]


# the gradebook


def enter(report: Report, earlier: Report | None, places: Places, patience: float) -> Report:
    """Write a report's grades into nbgrader's gradebook, as nbgrader's own steps would.

    Points that a person gave to an earlier hand-in are not kept silently: they leave the gradebook,
    and the report that is returned shows them and asks for them anew.

    Raises:
        MachineFault: the gradebook does not know the exercise as it is.
    """
    find_alembic()
    name, student, address = report.exercise, report.student, places.gradebook
    at = timestamp(places.submission(name, student))
    if address.startswith("sqlite:") and "?" not in address:
        address = f"{address}?timeout={patience / 4:g}"
    with Gradebook(address, "attention") as gradebook:
        gradebook.update_or_create_student(student)
        when = {"timestamp": at.replace(tzinfo=None)} if at else {}
        try:
            gradebook.update_or_create_submission(name, student, **when)
            notebook = gradebook.find_submission_notebook(name, name, student)
            grades = {grade.name: grade for grade in notebook.grades}
            if set(grades) != set(report.tasks):
                raise KeyError(name)
        except (MissingEntry, KeyError):
            text = f"the gradebook does not know {name} as it is; run make release NAME={name}"
            raise MachineFault(text) from None
        report = asked_anew(report, earlier, grades)
        for task, line in report.tasks.items():
            grade, waits = grades[task], line.status == PERSON
            by_hand = grade.manual_score is not None
            grade.auto_score = None if waits and task not in report.before else line.points
            grade.needs_manual_grade = waits and not by_hand
        for comment in notebook.comments:
            comment.auto_comment = "No response." if comment.name in report.blank else None
        gradebook.db.commit()
    return report


def asked_anew(report: Report, earlier: Report | None, grades: dict[str, Any]) -> Report:
    """The report, with the points that people gave to an earlier hand-in shown and asked about.

    Args:
        report: of what was handed in now.
        earlier: the report of what was graded before, if there is one.
        grades: the gradebook's rows by task; points that are asked about leave them.
    """
    before = dict[str, float]()
    another = earlier is not None and earlier.submission != report.submission
    for task, grade in grades.items():
        by_hand = grade.manual_score is not None or grade.extra_credit is not None
        if another and by_hand:
            base = grade.auto_score if grade.manual_score is None else grade.manual_score
            before[task] = (base or 0.0) + (grade.extra_credit or 0.0)
            grade.manual_score = grade.extra_credit = None
        elif earlier is not None and task in earlier.before and not by_hand:
            before[task] = earlier.before[task]
    lines = {
        task: _asking(line, before[task]) if task in before else line
        for task, line in report.tasks.items()
    }
    status = PERSON if before and report.status == "graded" else report.status
    return replace(report, tasks=lines, before=before, status=status)


def _asking(line: Line, points: float) -> Line:
    text = f"{points:g} points were given by hand for an earlier hand-in: give points again"
    machine = line.reason if line.status != PERSON else ""
    reason = f"{text}; the machine says: {machine}" if machine else text
    return replace(line, status=PERSON, reason=reason)
