"""The two steps that nbgrader's autograding takes from us, in place of its own execution.

`Restore` runs before anything else, and puts the submission back into the released form. `Grade`
runs it in the sandbox, looks at its source, has the hidden answers judged in this process, which
has never run a line of the student's, and writes each verdict into the outputs of its check cell.
`SaveGrades`, nbgrader's own but for one case, reads them there.

`nbgrader_config.py` names them, so that `make grade` and Formgrader's button do the same. What
was found is left in the notebook's metadata under "attnlib", from which the report is made.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Any as AnyTrait
from traitlets import Bool, Unicode

from attnlib.check.means import reached, refused
from grading.build import EXERCISE_FOLDER
from grading.judge import Verdict, hidden_file, seed_in_use, verdict
from grading.restore import grade_id, locked, restore
from grading.sandbox import Run, Scene, execute, packed, understood
from grading.scan import scan
from grading.tasks import exercise
from grading.watch import Limits

SANITIZE = [
    "grading.preprocess.Restore",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
AUTOGRADE = [
    "grading.preprocess.Grade",
    "nbgrader.preprocessors.LimitOutput",
    "grading.preprocess.SaveGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
GRADED, MANUAL = "graded", "needs manual grading"
LONGEST_ANSWER = 40_000  # characters; no solution has more than 10,000
Answers = Mapping[str, bytes]


def released(name: str, folder: Path = EXERCISE_FOLDER) -> NotebookNode:
    """The exercise as the students got it."""
    return read(folder / name / f"{name}.ipynb")


def read(path: Path) -> NotebookNode:
    """A notebook in today's format."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


class Wanted(Exception):
    """A submission cannot be judged before `job` has been run."""

    def __init__(self, job: bytes) -> None:
        super().__init__("to be run first")
        self.job = job


def key(job: bytes) -> str:
    """A sign by which the answers to a job are known."""
    return hashlib.sha256(job).hexdigest()


def job(name: str, submission: NotebookNode, seed: str, limits: Limits, unsafe: bool) -> bytes:
    """What is to be run of a submission, for `sandbox.execute`: hidden inputs, and no seed."""
    return packed(restore(submission, released(name))[0], scene(name, seed), limits, unsafe)


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """Puts a submission back into the released form; see `grading.restore`."""

    folder = Unicode(str(EXERCISE_FOLDER), help="where the released exercises lie").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Restore the cells, and note what had to be repaired."""
        original = released(resources["nbgrader"]["assignment"], Path(self.folder))
        restored, notes = restore(nb, original)
        restored.metadata["attnlib"] = {"notes": notes}
        return restored, resources


class Grade(NbGraderPreprocessor):  # type: ignore[misc]
    """Runs a restored submission in the sandbox, and writes the verdicts into its check cells."""

    seed = Unicode(help="of the hidden inputs; ATTNLIB_SEED if left out").tag(config=True)
    limits = AnyTrait(Limits(), help="what a submission may use").tag(config=True)
    unsafe = Bool(False, help="run strangers' code with your rights").tag(config=True)
    answers = AnyTrait(None, help="of jobs that were run, by digest; None: run here").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Scan, run, judge."""
        name, seed = resources["nbgrader"]["assignment"], self.seed or seed_in_use()
        theirs = [c.source if c.cell_type == "code" and not locked(c) else "" for c in nb.cells]
        used = refusals(name, nb)
        done = self.run(nb, packed(nb, scene(name, seed), self.limits, self.unsafe))
        tasks: dict[str, dict[str, Any]] = {}
        before: list[Any] = []  # what was shown since the last check
        for index, cell in enumerate(done.notebook.cells):
            if not utils.is_grade(cell):
                before += cell.get("outputs", [])
                continue
            task = grade_id(cell) or ""
            if task in exercise(name):
                judged = verdict(name, task, cell.outputs, seed, before)
                tasks[task] = entry(cell, *outcome(task, judged, used.get(task, ""), done, index))
                cell.outputs = [shown(tasks[task])]
            else:
                tasks[task] = by_hand(cell)
            before = []
        notes = nb.metadata.get("attnlib", {}).get("notes", [])
        done.notebook.metadata["attnlib"] = {
            "status": done.status,
            "reason": done.reason,
            "seconds": round(done.seconds, 2),
            "notes": [*notes, *(f"{task}: {told}" for task, told in used.items()), *scan(theirs)],
            "tasks": tasks,
        }
        return done.notebook, resources

    def run(self, nb: NotebookNode, job: bytes) -> Run:
        """The run of a job: now and here, or from the answers.

        Raises:
            Wanted: it is not among the answers.
        """
        if self.answers is None:
            return understood(nb, execute(job))
        if key(job) not in self.answers:
            raise Wanted(job)
        return understood(nb, self.answers[key(job)])


def scene(name: str, seed: str) -> Scene:
    """What a submission of an exercise finds: hidden inputs, visible cases, nothing forbidden."""
    forbidden = {word for task in exercise(name).values() for word in task.forbidden}
    cases = EXERCISE_FOLDER / name / "checks.json"
    files = {cases.name: cases.read_text(encoding="utf-8")} if cases.exists() else {}
    return Scene(json.loads(hidden_file(name, seed)), sorted(forbidden), name, files)


def refusals(name: str, notebook: NotebookNode) -> dict[str, str]:
    """What is said of the tasks whose answer's cell reaches for a name that the task forbids."""
    cells = {grade_id(cell): cell.source for cell in notebook.cells}
    found = {}
    for task, one in exercise(name).items():
        source = cells.get(f"{task}_answer", "")
        if one.forbidden and len(source) <= LONGEST_ANSWER:
            found[task] = refused(reached(source), one.forbidden)
    return {task: told for task, told in found.items() if told}


def outcome(task: str, judged: Verdict, used: str, done: Run, index: int) -> tuple[bool, str, str]:
    """Whether a task's points are earned, the task's status, and the reason, if there is one."""
    if judged.forged:
        return False, GRADED, f"forged: {judged.reason}"
    if judged.right and not used:
        return True, GRADED, ""
    if index in done.late:
        return False, "timed out", done.late[index]
    if index not in done.ran and done.status != "finished":
        return False, done.status, done.reason
    if early := ended_early(task, done.notebook):
        return False, MANUAL, f"its cell did not run to its end, a person has to look: {early}"
    if used and (judged.right or "which would be the answer" in judged.reason):
        return False, GRADED, used
    return False, GRADED, judged.reason


def ended_early(task: str, notebook: NotebookNode) -> str:
    """What a task's answer cell tried that is not there in grading; the answer may stand below."""
    outputs = [
        o for c in notebook.cells if grade_id(c) == f"{task}_answer" for o in c.get("outputs", [])
    ]
    told = (str(o.evalue) for o in outputs if o.output_type == "error")
    return next((text[:200] for text in told if "is not there in grading" in text), "")


def entry(cell: NotebookNode, earned: bool, status: str, reason: str) -> dict[str, Any]:
    """A task's line in the report."""
    most = float(cell.metadata.nbgrader["points"])
    return {"points": most if earned else 0.0, "max": most, "status": status, "reason": reason}


def by_hand(cell: NotebookNode) -> dict[str, Any]:
    """The line of a task that a person grades; an answer that nobody wrote is 0 points."""
    points, most = utils.determine_grade(cell)
    if points is None:
        return {"points": 0.0, "max": most, "status": MANUAL, "reason": "a text, for a person"}
    return {"points": points, "max": most, "status": GRADED, "reason": "no response"}


def shown(line: dict[str, Any]) -> NotebookNode:
    """The one output of a check cell: nbgrader gives full marks for a text, none for an error."""
    if line["points"] == line["max"]:
        text = f"passed: {line['points']:g} of {line['max']:g} points"
        made = {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}
    else:
        lines = [f"Not yet: {line['reason']}"]
        made = {
            "output_type": "error",
            "ename": "NotYet",
            "evalue": line["reason"],
            "traceback": lines,
        }
    output: NotebookNode = nbformat.from_dict(made)  # type: ignore[no-untyped-call]
    return output


class SaveGrades(SaveAutoGrades):  # type: ignore[misc]
    """nbgrader's, and answers that a person has to look at wait for that person."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Save the grades of all cells."""
        tasks = nb.metadata.get("attnlib", {}).get("tasks", {})
        self.waiting = {task for task, line in tasks.items() if line["status"] == MANUAL}
        saved: tuple[NotebookNode, Any] = super().preprocess(nb, resources)
        return saved

    def _add_score(self, cell: NotebookNode, resources: Any) -> None:
        super()._add_score(cell, resources)
        if grade_id(cell) in self.waiting:
            ids = (grade_id(cell), self.notebook_id, self.assignment_id, self.student_id)
            self.gradebook.find_grade(*ids).needs_manual_grade = True
            self.gradebook.db.commit()
