"""The judge: what each task of a submission earns, and why, from what it answered.

The student's code ran elsewhere, and never saw more than the hidden inputs. What it answered comes
back as JSON under one MIME type and is taken for hostile. Here, in a process that has run none of
the student's code, it is compared with what is right. Whatever bytes come from inside, without the
right answers they earn nothing.

An answer that is not right earns 0 points and "graded" only if nothing suggests that its form is
to blame, and not its content: where the notebook left a doubt, where a cell stopped at a package
that is missing in grading, where a helper is defined below the check, a person has to look. Nor do
right answers earn 0 points for a forbidden name that stands only in what the function rests on.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from attnlib.check import MIME
from attnlib.check.comparison import complaint
from attnlib.check.forbidden import names_used, refusal
from attnlib.check.protocol import Raised, read_answers
from grading.intake.restore import Restored, grade_id
from grading.intake.sources import defines, statements
from grading.judging.outputs import Shown, shorten, shown, trim
from grading.judging.report import CRASHED, GRADED, PERSON, TIMED_OUT, UNREAD, Line, Report
from grading.sandbox.run import Told
from grading.tables import visible
from grading.tasks import exercise
from grading.tasks.hidden import cases
from grading.tasks.task import Task

LONGEST = 500  # characters of a reason
ABSENT = re.compile(r"No module named '([\w.]+)'|uses ([\w.]+), which is not there in grading")
FILE = re.compile(r"\(\S+\.py, (line \d+)\)")  # of a syntax error: the kernel's name for a cell
UNKNOWN = re.compile(r"NameError: name '(\w+)' is not defined")


@dataclass(frozen=True)
class Verdict:
    """What the hidden cases say of one task.

    Attributes:
        right: whether all answers are right.
        reason: what is wrong, for the student; empty if nothing is.
        forged: whether the outputs are not what a check cell makes.
        failed: whether the judge itself could not come to a verdict.
    """

    right: bool
    reason: str = ""
    forged: bool = False
    failed: bool = False


def judge(name: str, restored: Restored, told: Told, seed: str) -> tuple[Report, NotebookNode]:
    """Judge a submission.

    Args:
        name: the exercise.
        restored: the submission in released form.
        told: how the run ended, and the lines that came from inside.
        seed: that of the hidden inputs which the run was given.

    Returns:
        the report, without what only the desk knows, and the notebook to be stored: what it showed,
        with a verdict in place of each check's answers.
    """
    run, lines = shown(restored.notebook, told.lines), dict[str, Line]()
    for index, cell in enumerate(run.notebook.cells):
        task = grade_id(cell) or ""
        if utils.is_grade(cell) and utils.is_solution(cell):
            lines[task] = by_hand(cell, restored.doubts.get(task, ""))
        elif utils.is_grade(cell):
            lines[task] = Trial(name, task, index, run, restored, told, seed).line()
    for cell in run.notebook.cells:
        if cell.cell_type == "code" and grade_id(cell) in lines:
            cell.outputs = [spoken(lines[grade_id(cell) or ""])]
    trim(run.notebook)
    shorten(run.notebook)
    return Report(
        status=overall([line.status for line in lines.values()]),
        reason=clean(told.reason),
        tasks=lines,
        notes=tuple(map(clean, restored.notes)),
        seconds=round(told.seconds, 2),
        blank=tuple(
            str(grade_id(cell))
            for cell in restored.notebook.cells
            if utils.is_solution(cell) and unwritten(cell)
        ),
        exercise=name,
    ), run.notebook


def overall(statuses: Sequence[str]) -> str:
    """The status of a submission, from those of its tasks."""
    grave = (CRASHED, TIMED_OUT, PERSON)
    return next((status for status in grave if status in statuses), GRADED)


def clean(text: str) -> str:
    """A text of the report: without signs that nobody sees, and not too long."""
    return visible(text)[:LONGEST]


# a task that a person grades


def unwritten(cell: NotebookNode) -> bool:
    """Whether nobody has written anything into an answer's cell."""
    return bool(cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell))


def by_hand(cell: NotebookNode, doubt: str) -> Line:
    """The line of a task that a person grades; an answer that nobody wrote is 0 points."""
    most = float(cell.metadata.nbgrader["points"])
    if unwritten(cell) and not doubt:
        return Line(0.0, most, GRADED, "no response")
    return Line(0.0, most, PERSON, doubt if unwritten(cell) else UNREAD)


# an autograded task


@dataclass(frozen=True)
class Trial:
    """One autograded task of a submission, before the judge.

    Attributes:
        name, task: the exercise and the task.
        index: of the task's check cell in the notebook.
        run, restored, told, seed: as `judge` has them.
    """

    name: str
    task: str
    index: int
    run: Shown
    restored: Restored
    told: Told
    seed: str

    def line(self) -> Line:
        """What the task earns."""
        cell = self.run.notebook.cells[self.index]
        most = float(cell.metadata.nbgrader["points"])
        verdict = self.verdict()
        itself, rest = self.forbidden()
        if verdict.right and not itself and not rest:
            return Line(most, most, GRADED)
        status, reason = self.loss(verdict, itself, rest)
        return Line(0.0, most, status, clean(reason))

    def forbidden(self) -> tuple[str, str]:
        """What is said of forbidden names in the function itself, and in what it rests on."""
        names, text = exercise(self.name)[self.task].forbidden, self.restored.answers[self.task]
        parts = [statement.text for statement in statements(text) or ()] or [text]
        rest = [path for part in parts[1:] for path in names_used(part)]
        return refusal(names_used(parts[0]), names), refusal(rest, names)

    def loss(self, verdict: Verdict, itself: str, rest: str) -> tuple[str, str]:
        """The status of a task that earns nothing, and the reason.

        Args:
            verdict: what the hidden cases say.
            itself, rest: what is said of forbidden names, as `forbidden` gives it.
        """
        if verdict.forged:
            return GRADED, f"forged: {verdict.reason}"
        if verdict.right:
            helped = f"a person has to look at what the function rests on: {rest}"
            return (GRADED, itself) if itself else (PERSON, helped)
        if late := [self.run.late[i] for i in sorted(self.run.late) if i <= self.index]:
            return TIMED_OUT, late[0]
        if self.index not in self.run.ended and self.told.status in (CRASHED, TIMED_OUT):
            return self.told.status, self.told.reason or "the run ended before this task"
        if doubt := self.doubt(verdict):
            return PERSON, doubt
        return GRADED, itself or verdict.reason

    def verdict(self) -> Verdict:
        """What the hidden cases say of the answers."""
        bundles = self.bundles()
        if not bundles:
            return Verdict(False, self.no_answer())
        if len(bundles) > 1:
            reason = f"{len(bundles)} answers were shown where one is due"
            return Verdict(False, reason, forged=True)
        try:
            return compared(exercise(self.name)[self.task], bundles[0], self.name, self.seed)
        except MemoryError:
            raise
        except Exception as error:  # whatever a forged answer makes of a comparison
            return Verdict(False, f"{type(error).__name__}: {error}"[:200], failed=True)

    def bundles(self) -> list[Any]:
        """The bundles of answers that the check cell showed."""
        outputs = self.run.notebook.cells[self.index].outputs
        return [out.data[MIME] for out in outputs if MIME in out.get("data", {})]

    def errors(self) -> list[tuple[int, str]]:
        """The errors up to the check, each with its cell: those of cells and those of answers."""
        errors = [
            (i, FILE.sub(r"(\1)", f"{output.ename[:200]}: {output.evalue[:200]}"))
            for i, cell in enumerate(self.run.notebook.cells[: self.index + 1])
            for output in cell.get("outputs", [])
            if output.output_type == "error"
        ]
        return errors + [(self.index, error) for error in raised(self.bundles())]

    def no_answer(self) -> str:
        """Why the check cell shows no answer: the error that it, or the answer's cell, met."""
        errors, cells = self.errors(), self.run.notebook.cells
        last = [error for i, error in errors if i == self.index]
        if not last:
            return "no answer: the check did not run to its end"
        if last[-1].startswith("NotImplementedError"):
            return "no answer: it is not written yet"
        earlier = [
            f"no answer: cell {i + 1}, which defines {self.task}, ended with {error}"
            for i, error in errors
            if i < self.index and defines(cells[i].source, self.task)
        ]
        return [f"no answer: the check ended with {last[-1]}", *earlier][-1]

    def doubt(self, verdict: Verdict) -> str:
        """Why an answer that is not right may be right all the same; empty if nothing says so."""
        if verdict.failed:
            return f"the judge could not compare the answers: {verdict.reason}"
        if self.task in self.restored.doubts:
            return self.restored.doubts[self.task]
        for i, error in self.errors():
            if absent := ABSENT.search(error):
                package = absent[1] or absent[2]
                return f"cell {i + 1} stopped at {package}, which is not there in grading"
            unknown = UNKNOWN.search(error) if i == self.index else None
            if unknown and (below := self.defined_below(unknown[1])):
                return f"the check needs {unknown[1]}, which only cell {below}, below it, defines"
        return ""

    def defined_below(self, name: str) -> int:
        """The number of the next cell that defines a name, counted from 1; 0 if none does."""
        numbered = list(enumerate(self.run.notebook.cells, 1))[self.index + 1 :]
        return next(
            (n for n, cell in numbered if cell.cell_type == "code" and defines(cell.source, name)),
            0,
        )


def compared(task: Task, bundle: Any, name: str, seed: str) -> Verdict:
    """The verdict on a bundle of answers, which may be forged."""
    asked = cases(name, seed)[task.name]
    try:
        answers = read_answers(bundle)
    except ValueError as error:
        return Verdict(False, f"the answers cannot be read: {error}", forged=True)
    if bundle.get("task") != task.name:
        return Verdict(False, "the answers are those of another task", forged=True)
    if len(answers) != len(asked):
        reason = f"{len(answers)} answers to {len(asked)} questions"
        return Verdict(False, reason, forged=bool(answers))
    if not all(isinstance(a.output, Raised) or isinstance(a.after, tuple) for a in answers):
        return Verdict(False, "an answer comes without its arguments", forged=True)
    wrong = complaint(task.name, asked, answers, task.tolerance, task.accepts)
    return Verdict(wrong is None, wrong or "")


def raised(bundles: Sequence[Any]) -> list[str]:
    """The exceptions that answers tell of; none of a bundle that cannot be read."""
    errors = list[str]()
    for bundle in bundles:
        try:
            outputs = [answer.output for answer in read_answers(bundle)]
        except ValueError:
            continue  # forged: the verdict says so
        errors += [output.error for output in outputs if isinstance(output, Raised)]
    return errors


def spoken(line: Line) -> NotebookNode:
    """The one output of a check cell: what became of the task."""
    if line.points == line.most:
        text = f"passed: {line.points:g} of {line.most:g} points"
    elif line.status == GRADED:
        text = f"Not yet: {line.reason}"
    else:
        text = f"Left to a person: {line.reason}"
    output: NotebookNode = nbformat.v4.new_output("stream", text=text)  # type: ignore[no-untyped-call]
    return output
