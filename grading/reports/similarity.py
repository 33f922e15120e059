"""A folder of a class's answers for the tools that look for copies, JPlag and Dolos.

Both read `submissions/STUDENT/EXERCISE.py`, and both leave out what also stands in
`base/EXERCISE.py`, the code that was handed out. Dolos's web page takes the zip, in which
`info.csv` says what is a submission.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Sequence, Set
from pathlib import Path

from grading import child, tables
from grading.child import Trouble
from grading.intake.roster import Student
from grading.release.build import EXERCISE_FOLDER, BuildError, known
from grading.reports.marks import everybody, notebook_path, one_for_each_file
from grading.settings import Places, timestamp

README = """What each student wrote for {exercise}. In base/ lies the code that was handed out.

JPlag (https://github.com/jplag/JPlag, needs Java):
    java -jar jplag.jar -l python3 -bc base submissions

Dolos (https://dolos.ugent.be, needs Node.js):
    dolos run -f web -l python -i base/{exercise}.py info.csv
or upload {exercise}.zip on its web page. Names of students are in it: ask whether you may.

A high similarity is a reason to read two answers side by side, and no more than that.
"""


def code_cells(path: Path) -> list[str]:
    """The sources of the code cells of a notebook, an IPython command being a comment.

    A parser of Python reads them: a line that begins with % or ! would stop it.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [re.sub(r"(?m)^(\s*)([%!])", r"\1# \2", source) for source in sources]


def own_code(path: Path, released: Set[str]) -> bytes:
    """The code that a student wrote, cells that were handed out left out; called in a child."""
    cells = [source for source in code_cells(path) if source.strip() not in released]
    return ("\n\n".join(cells) + "\n").encode(errors="replace")


def similarity(wanted: str, places: Places) -> list[str]:
    """Write `similarity/EXERCISE` and its zip at the class's home.

    Args:
        wanted: the exercise.
        places: the class.

    Returns:
        lines for the terminal: what was written, and whose notebook could not be read.

    Raises:
        BuildError: if nothing of it has been graded.
    """
    exercise = known(wanted)
    handed_out = code_cells(EXERCISE_FOLDER / exercise / f"{exercise}.ipynb")
    answers, troubles = answers_of_class(exercise, handed_out, places)
    if not answers:
        raise BuildError(
            f"no graded notebook of {exercise} is there; run make grade NAME={exercise} first"
        )
    folder = places.home / "similarity" / exercise
    shutil.rmtree(folder, ignore_errors=True)  # who has left the class leaves it too
    tables.written(folder / "README.txt", README.format(exercise=exercise))
    tables.written(folder / "base" / f"{exercise}.py", "\n\n".join(handed_out) + "\n")
    rows = []
    for student, code in answers.items():
        name = f"submissions/{student.id}/{exercise}.py"
        tables.written(folder / name, code)
        time = timestamp(places.submission(exercise, student.id))
        created = f"{time:%Y-%m-%d %H:%M:%S %z}" if time else ""
        rows.append((name, student.name or student.id, created))
    tables.write(folder / "info.csv", ("filename", "full_name", "created_at"), rows)
    return [f"written: {folder}", f"written: {zipped(folder)}", *troubles]


def answers_of_class(
    exercise: str, handed_out: Sequence[str], places: Places
) -> tuple[dict[Student, bytes], list[str]]:
    """What each student or group wrote, and a line for each notebook that cannot be read."""
    released = frozenset(source.strip() for source in handed_out)
    answers, troubles = dict[Student, bytes](), list[str]()
    students = everybody(places)
    holders = one_for_each_file(exercise, [student.id for student in students], places)
    for student in students:
        path = notebook_path(student.id, exercise, places)
        if path.exists() and student.id in holders:
            try:
                answers[student] = child.run(own_code, path, released)
            except Trouble as error:
                troubles.append(f"{exercise}, {student.id}: left out: {error}")
    return answers, troubles


def zipped(folder: Path) -> Path:
    """Write a zip of a folder beside it."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return path
