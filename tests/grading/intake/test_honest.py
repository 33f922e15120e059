"""Honest students first: whatever their notebook went through, right answers earn their points.

From the model answers of three exercises each change of `honest.py` is made, put back into released
form, run and judged. Most run in this process; some go through the sandbox as well. Many changes
are gone once a notebook is in released form: what is the same then runs once.
"""

import json
from collections.abc import Callable

import pytest
from classroom import needs_sandbox, released, solved
from honest import CHANGES, DOUBTFUL, bare, is_answer, saved, stub_of, tag
from inprocess import run_here
from nbformat import NotebookNode

from grading.desk.submission import Work, grade
from grading.intake.restore import Restored, prepare
from grading.judging.judge import judge
from grading.judging.report import GRADED, PERSON, Report
from grading.tasks import exercise
from grading.tasks.hidden import hidden_file

NAMES, SEED = ("04_self_attention", "06_bpe", "15_causes"), "a seed"
REPORTS: dict[str, Report] = {}


def graded(name: str, work: NotebookNode | bytes) -> Report:
    """The report of a notebook that runs in this process, or of one that was restored alike."""
    restored = prepare(saved(work), released(name), list(exercise(name)))
    alike = (name, restored.notebook, dict(restored.answers), dict(restored.doubts))
    key = json.dumps(alike)
    if key not in REPORTS:
        REPORTS[key] = judged(name, restored)
    return REPORTS[key]


def judged(name: str, restored: Restored) -> Report:
    told = run_here(restored.notebook, hidden_file(name, SEED))
    return judge(name, restored, told, SEED)[0]


def lost(report: Report) -> dict[str, str]:
    """Of the autograded tasks that earned less than all: the status and the reason."""
    return {
        task: f"{line.status}: {line.reason}"
        for task, line in report.tasks.items()
        if line.points < line.most and not task.startswith("explain_")
    }


def left_to_a_person(report: Report) -> set[str]:
    return {task for task, line in report.tasks.items() if line.status == PERSON and line.reason}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES)
def test_right_answers_earn_everything_whatever_happened_to_the_notebook(
    name: str, change: str
) -> None:
    report = graded(name, CHANGES[change](solved(name)))
    assert lost(report) == {}
    assert len(left_to_a_person(report)) == 1, "a person reads the text"
    assert len(report.tasks) == len(exercise(name)) + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", DOUBTFUL)
def test_where_the_notebook_leaves_a_doubt_a_person_looks(name: str, change: str) -> None:
    made, tasks = DOUBTFUL[change]
    report = graded(name, made(solved(name)))
    doubtful = {task for task in left_to_a_person(report) if not task.startswith("explain_")}
    assert (set(lost(report)), doubtful) == (tasks(solved(name)), tasks(solved(name)))


def answers_deleted(work: NotebookNode) -> NotebookNode:
    work.cells = [cell for cell in work.cells if not is_answer(cell)]
    return work


def no_cells(work: NotebookNode) -> NotebookNode:
    work.cells = []
    return work


WITHOUT_ANSWERS: dict[str, tuple[Callable[[str], NotebookNode], str]] = {
    "blank": (released, GRADED),
    "blank, metadata gone": (lambda name: bare(released(name)), GRADED),
    "answers deleted": (lambda name: answers_deleted(solved(name)), PERSON),
    "another exercise": (lambda name: solved("12_identifiability"), PERSON),
    "no cells": (lambda name: no_cells(solved(name)), PERSON),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", WITHOUT_ANSWERS)
def test_without_answers_nothing_is_earned(name: str, case: str) -> None:
    made, status = WITHOUT_ANSWERS[case]
    report = graded(name, made(name))
    lines = [report.tasks[task] for task in exercise(name)]
    assert (report.points, {line.status for line in lines}) == (0, {status})
    assert report.status == status


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["nothing", "metadata gone"])
def test_a_wrong_answer_costs_its_own_points_only(name: str, change: str) -> None:
    work = solved(name)
    cell = next(cell for cell in work.cells if is_answer(cell))
    task = tag(cell).removesuffix("_answer")
    cell.source += f"\n\n{task} = lambda *args: None"
    report = graded(name, CHANGES[change](work))
    assert list(lost(report)) == [task]
    assert report.tasks[task].status == GRADED


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["nothing", "metadata gone"])
def test_a_task_that_is_not_written_is_told_so(name: str, change: str) -> None:
    work = solved(name)
    cell = next(cell for cell in work.cells if is_answer(cell))
    cell.source = stub_of(cell)
    (told,) = lost(graded(name, CHANGES[change](work))).values()
    assert told.startswith(f"{GRADED}: ")
    assert "not written" in told


@pytest.mark.ci
@needs_sandbox
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("04_self_attention", "all in two cells"),
        ("06_bpe", "Colab, metadata gone"),
        ("15_causes", "split"),
    ],
)
def test_the_same_through_the_sandbox(name: str, change: str) -> None:
    report = grade(Work(name, "ada", saved(CHANGES[change](solved(name))), SEED)).report
    assert lost(report) == {}
    assert report.status == PERSON, "a person reads the text"
