"""What a class got wrong: `make insights NAME=…` writes a page for the lecturer, no name in it.

It reads the marks and the reports that grading wrote. Of each task it tells how many passed and
which mistakes how often, in the course's own sentences: no word on the page was chosen by a
student.
"""

import base64
import builtins
import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from attnlib import plots
from grading import tables
from grading.intake.due import lateness, read_due_dates
from grading.judging.report import GRADED, Report, read_report
from grading.release.build import BuildError, known, points
from grading.reports.marks import Mark, everybody, marks
from grading.settings import Places
from grading.tasks import exercise
from grading.tasks.task import Task

OTHER = "other values than the right ones, by no mistake that the task names"
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff;
  max-width: 60rem; margin: auto; padding: 1rem; }
td, th { text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top; }
td:first-child { text-align: right; white-space: nowrap; } img { max-width: 100%; }"""


@dataclass(frozen=True)
class TaskResult:
    """What became of a task in a class.

    Attributes:
        name: the task.
        passed, judged, waiting: how many students; a task that waits is not judged yet.
        mistakes: how many students made each, by its sentence.
    """

    name: str
    passed: int
    judged: int
    waiting: int
    mistakes: Counter[str]


def mistake(task: Task | None, reason: str) -> str:
    """The mistake in the reason of a mark, in words of the course alone.

    >>> mistake(None, "it raised TypeError: bad (f(float32 (2, 3)))")
    'it raised TypeError'
    >>> mistake(None, "no answer: it is not written yet")
    'not written'
    """
    for sentence in task.mistakes if task else ():
        if sentence[1:].rstrip(".") in reason:  # a reason may begin it small
            return sentence
    if "it is not written yet" in reason:
        return "not written"
    if raised := re.match(r"it raised (\w*)", reason):
        return f"it raised {exception(raised[1])}"
    beginnings = {
        "it changes ": "it changes its argument",
        "it uses ": "it uses what the task forbids",
        "no answer": "no answer: a cell stopped before it",
        "forged": "forged: what was shown is not what a check cell shows",
    }
    for beginning, text in beginnings.items():
        if reason.startswith(beginning):
            return text
    other = re.search(r"\b(shape|dtype)\b", reason)
    return f"another {other[1]} than the right one" if other else OTHER


def exception(name: str) -> str:
    """The name of an exception, if Python or torch has it; a student's own is not repeated.

    >>> exception("ValueError"), exception("AdaError")
    ('ValueError', 'an exception of its own')
    """
    known_type = getattr(builtins, name, None) or getattr(torch, name, None)
    return name if isinstance(known_type, type) else "an exception of its own"


def task_result(name: str, task: Task | None, rows: Sequence[Mark]) -> TaskResult:
    """A task over all who handed something in.

    Args:
        name: its name.
        task: how it is judged; None if a person judges it.
        rows: the marks for this task.
    """
    judged = [mark for mark in rows if mark.status == GRADED]
    wrong = [mark for mark in judged if mark.points < mark.most]
    mistakes = Counter(mistake(task, mark.reason) for mark in wrong if task)
    waiting = len(rows) - len(judged)
    return TaskResult(name, len(judged) - len(wrong), len(judged), waiting, mistakes)


# the page


def figure(points: Sequence[float], most: float) -> plots.Figure:
    """How many students have how many points."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    picture, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.hist(points, bins=range(int(most) + 2), align="left", color=plots.COLOURS[0])
    axes.set(xlabel="points", ylabel="students", xlim=(-0.7, most + 0.7))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    alt = f"Points of {len(points)} students, median {median(points):g} of {most:g}."
    return plots.show(picture, alt)


def how_long(reports: Sequence[Report], late: int) -> str:
    """How long submissions ran, and how many came late, in a sentence each."""
    seconds = [report.seconds for report in reports]
    text = f"A submission ran {median(seconds):.1f} s (median; the longest {max(seconds):.1f} s)."
    return f"{text} {late} of {len(reports)} came late."


def section(result: TaskResult) -> str:
    """A task on the page."""
    verb = "waits" if result.waiting == 1 else "wait"
    waits = f"; {result.waiting} {verb} for a person or did not run" if result.waiting else ""
    head = f"<h2>{html.escape(result.name)}</h2>"
    head += f"<p>{result.passed} of {result.judged} passed{waits}.</p>"
    rows = "".join(
        f"<tr><td>{count}</td><td>{html.escape(sentence)}</td></tr>"
        for sentence, count in result.mistakes.most_common()
    )
    return head + (f"<table><tr><th>students</th><th>mistake</th></tr>{rows}</table>" * bool(rows))


def page(name: str, picture: plots.Figure, times: str, results: Sequence[TaskResult]) -> str:
    """The page, as HTML."""
    png = base64.b64encode(picture.png).decode()
    parts = [
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html.escape(name)}</title>',
        f"<style>{STYLE}</style><h1>{html.escape(name)}: what the class did</h1>",
        f'<p>{times}</p><img alt="{html.escape(picture.alt)}" src="data:image/png;base64,{png}">',
        *map(section, results),
    ]
    return "\n".join(parts) + "\n</html>\n"


def insights(wanted: str, places: Places) -> Path:
    """Write the page of an exercise to `insights/` at the class's home, and return its path.

    Raises:
        BuildError: if nothing of it has been graded.
    """
    name = known(wanted)
    reports = {
        student.id: report
        for student in everybody(places)
        if (report := read_report(name, student.id, places)) and report.submission
    }
    if not reports:
        raise BuildError(f"nothing of {name} has been graded; run make grade NAME={name} first")
    table = [mark for mark in marks(places, [name]) if mark.student in reports]
    earned = dict.fromkeys(reports, 0.0)
    for mark in table:
        earned[mark.student] += mark.points
    dates = read_due_dates(places)
    late = sum(bool(lateness(student, name, places, dates)) for student in reports)
    tasks = exercise(name)
    results = [
        task_result(task, tasks.get(task), [mark for mark in table if mark.task == task])
        for task in points(name)
    ]
    picture = figure(list(earned.values()), sum(points(name).values()))
    text = page(name, picture, how_long(list(reports.values()), late), results)
    return tables.written(places.home / "insights" / f"{name}.html", text)
