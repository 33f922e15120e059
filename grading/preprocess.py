"""A submission as it is read, restored and judged: `worked(...)`, which is done in a child.

`worked` puts what was handed in back into the released form, and gives the job that is to be run of
it; called again with what the job has told, it looks at the source, has the hidden answers judged,
writes each verdict into the outputs of its check cell, and gives a report and the graded notebook.
All of it handles a stranger's bytes, and so happens in a process of its own (`grading.child`), of
which the desk takes a report of a fixed form, and a file that it only stores.

`Graded` is for Formgrader's button: `nbgrader_config.py` names it, and it does what `make grade`
does.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor

from attnlib.check import MIME
from attnlib.check.means import reached, refused
from grading.build import EXERCISE_FOLDER
from grading.judge import Verdict, hidden_file, verdict
from grading.restore import grade_id, locked, restore
from grading.sandbox import Run, Scene, packed, understood
from grading.scan import scan
from grading.tasks import exercise
from grading.watch import Limits

GRADED, MANUAL = "graded", "needs manual grading"
LONGEST_OUTPUT, ROOM = 20_000, 2 << 20  # characters of one output, of all in a notebook
Answers = Mapping[str, bytes]


def released(name: str, folder: Path = EXERCISE_FOLDER) -> NotebookNode:
    """The exercise as the students got it."""
    return read(folder / name / f"{name}.ipynb")


def read(path: Path) -> NotebookNode:
    """A notebook in today's format.

    Raises:
        ValueError: it is none; the text says why.
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError("not a plain file")
    text, made = path.read_bytes(), None
    if not text.strip():
        raise ValueError("the file is empty")
    try:
        made = nbformat.reads(text.decode(), as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(made)
        json.dumps(made, ensure_ascii=False).encode()
    except MemoryError:
        raise
    except Exception as error:  # whatever a stranger's file makes of a parser
        raise ValueError(str(error).strip().split("\n")[0] or type(error).__name__) from None
    notebook: NotebookNode = made
    return notebook


def key(job: bytes) -> str:
    """A sign by which the answers to a job are known."""
    return hashlib.sha256(job).hexdigest()


def worked(
    name: str, path: Path, seed: str, limits: Limits, unsafe: bool, answers: Answers
) -> bytes:
    """Go on with one submission, in a child.

    Args:
        name, seed, limits, unsafe: the exercise, and how it is graded (see `submission.How`).
        path: what was handed in.
        answers: what its job has told, by the digest of the job; none at first.

    Returns:
        a line of JSON, and after it what it is about: {"job": true} and the job that is to be run,
        or a report (see `submission.grade_one`) and the graded notebook; with the report, under
        "blank", the cells in which nothing was written.
    """
    try:
        submission = read(path)
    except ValueError as error:
        told = f"not a notebook: {str(error)[:200]}"
        return line({"status": "crashed", "reason": told})
    restored, notes = restore(submission, released(name))
    made = packed(restored, scene(name, seed), limits, unsafe)
    if key(made) not in answers:
        return line({"job": True}) + made
    found, done = judged(name, understood(restored, answers[key(made)]), seed)
    found["notes"] = [*notes, *found["notes"]]
    return line(found) + json.dumps(done, indent=1, ensure_ascii=False).encode(errors="replace")


def line(head: dict[str, Any]) -> bytes:
    """A line of JSON."""
    return json.dumps(head).encode() + b"\n"


def judged(name: str, done: Run, seed: str) -> tuple[dict[str, Any], NotebookNode]:
    """The report of a run, and its notebook with the verdicts in place of what it answered."""
    cells, tasks = done.notebook.cells, dict[str, dict[str, Any]]()
    theirs = [c.source if c.cell_type == "code" and not locked(c) else "" for c in cells]
    used = refusals(name, done.notebook)
    before: list[Any] = []  # what was shown since the last check
    for index, cell in enumerate(cells):
        if not utils.is_grade(cell):
            before += cell.get("outputs", [])
            continue
        task = grade_id(cell) or ""
        if task in exercise(name):
            found = attempt(name, task, cell.outputs, seed, before)
            tasks[task] = entry(cell, *outcome(task, found, used.get(task, ""), done, index))
            cell.outputs = [shown(tasks[task])]
        else:
            tasks[task] = by_hand(cell)
        before = []
    trim(done.notebook)
    solutions = (cell for cell in cells if utils.is_solution(cell))
    return {
        "status": done.status,
        "reason": done.reason,
        "seconds": round(done.seconds, 2),
        "notes": [*(f"{task}: {told}" for task, told in used.items()), *scan(theirs)],
        "tasks": tasks,
        "blank": [grade_id(cell) for cell in solutions if unwritten(cell)],
    }, done.notebook


def attempt(
    name: str, task: str, outputs: list[Any], seed: str, before: list[Any]
) -> Verdict | str:
    """The verdict on a task, or why the judge could not come to one."""
    try:
        return verdict(name, task, outputs, seed, before)
    except MemoryError:
        raise
    except Exception as error:  # whatever a forged answer makes of the judge
        told = f"{type(error).__name__}: {error}"[:200]
        return f"its answers cannot be judged, a person has to look: {told}"


def unwritten(cell: NotebookNode) -> bool:
    """Whether nobody has written anything into a cell of the exercise."""
    return bool(cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell))


def trim(notebook: NotebookNode) -> None:
    """Leave of the outputs as much as a person may want to see, and no answers to hidden inputs."""
    room = ROOM
    for cell in notebook.cells:
        given, kept = cell.get("outputs", []), []
        for output in given if room > 0 else []:
            output.get("data", {}).pop(MIME, None)
            size = len(json.dumps(output))
            if size > (room if "image/png" in output.get("data", {}) else LONGEST_OUTPUT):
                text = str(output.get("text") or output.get("evalue", ""))[:LONGEST_OUTPUT]
                told = f"{text}\n[of {size:,} characters the rest is not kept]"
                output = nbformat.v4.new_output("stream", text=told)  # type: ignore[no-untyped-call]
            room -= len(json.dumps(output))
            kept += [output] if room > 0 else []
        given[:] = kept


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
        if one.forbidden:
            found[task] = refused(reached(source), one.forbidden)
    return {task: told for task, told in found.items() if told}


def outcome(
    task: str, judged: Verdict | str, used: str, done: Run, index: int
) -> tuple[bool, str, str]:
    """Whether a task's points are earned, the task's status, and the reason, if there is one."""
    if isinstance(judged, str):
        return False, MANUAL, judged
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
    """The one output of a check cell: what became of the task."""
    passed = line["points"] == line["max"]
    told = f"passed: {line['points']:g} of {line['max']:g} points"
    text = told if passed else f"Not yet: {line['reason']}"
    output: NotebookNode = nbformat.v4.new_output("stream", text=text)  # type: ignore[no-untyped-call]
    return output


class Graded(NbGraderPreprocessor):  # type: ignore[misc]
    """Formgrader's button, in place of nbgrader's own steps: what `make grade` does, for one."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The graded notebook; report and grades are written."""
        from grading.settings import Places
        from grading.submission import How, grade_one

        about, class_ = resources["nbgrader"], self.config.CourseDirectory
        places = Places(Path(class_.root, class_.submitted_directory).parent)
        name, student = about["assignment"], about["student"]
        report = grade_one(name, student, How(places, force=True))
        path = places.autograded / student / name / f"{name}.ipynb"
        if report["seconds"] == 0:
            raise NbGraderException(report["reason"])
        return read(path), resources
