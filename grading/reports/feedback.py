"""What goes back to students: a page for each, and a zip that Moodle or Canvas takes back.

Moodle's *Upload multiple feedback files in a zip* reads the participant from the name of a folder,
`Ada Lovelace_4712_assignsubmission_file_` (mod/assign/feedback/file/importziplib.php in Moodle's
source), and takes any file in it: the page. Canvas's *Upload submissions* reads two numbers from
the name of the file that was downloaded, and shows what it gets under the name that the student had
given it (infer_comment_context_from_filename in Canvas's source). A page would stand there as a
broken notebook; so Canvas gets the graded notebook, with the marks and the comments above it.
"""

import html
import io
import json
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

from book.mathml import formula
from grading import child, tables
from grading.child import Trouble
from grading.intake.exchange import SECRET
from grading.intake.platforms import in_table
from grading.intake.receipts import Receipt, read_receipt
from grading.judging.report import Report, read_report
from grading.release.build import known, nbgrader_log
from grading.reports.marks import (
    NOT_GRADED,
    Mark,
    comments,
    everybody,
    exercises,
    marks,
    notebook_path,
    one_for_each_file,
)
from grading.settings import Places, configuration

PAGE = 60  # seconds of computing for a student's page
LARGEST_PAGE = 64 << 20  # bytes
LONGEST_FORMULA = 2_000  # characters
OPEN = "not graded yet"
STYLE = """<meta name="viewport" content="width=device-width">
<style>:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto;
  padding: 0 1rem; }</style>"""
ALONE = (  # a page asks no host for anything, and runs nothing
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; form-action 'none'; base-uri 'none'; "
    "style-src 'unsafe-inline'; img-src data:\">"
)
# the start of a path in a download of Moodle's, up to the name of the student's file
MOODLE_FOLDER = re.compile(r"(?:^|/)([^/_]+_\d+_assignsubmission_[a-z]+)(?:_|/|$)")


def feedback(wanted: Sequence[str], places: Places) -> Iterator[str]:
    """Write a page for each student whose work was graded, and a zip for each platform.

    Args:
        wanted: exercises; all that were graded if none is named.
        places: the class.

    Yields:
        a line for each exercise, each zip, and each page that could not be written.
    """
    for exercise in [known(name) for name in wanted] or exercises(places):
        table = marks(places, [exercise])
        graded = [
            student.id
            for student in everybody(places)
            if (places.autograded / student.id / exercise).is_dir()
        ]
        pages = waits = 0
        for student in graded:
            own = [mark for mark in table if mark.student == student]
            trouble = write_page(exercise, student, places, own)
            pages += not trouble
            waits += not all(mark.final for mark in own)
            if trouble:
                yield f"{exercise}, {student}: no page: {trouble}"
        keep_secrets(exercise, graded, table, places)
        note = f"; on {waits} of them a task waits for you" if waits else ""
        yield f"{exercise}: {pages} pages in {places.feedback}{note}"
        yield from write_zips(exercise, graded, table, places)


def page_path(student: str, exercise: str, places: Places) -> Path:
    """Where a student's page lies."""
    return places.feedback / student / exercise / f"{exercise}.html"


# pages


def write_page(exercise: str, student: str, places: Places, own: Sequence[Mark]) -> str:
    """Write a student's page for an exercise; return what went wrong, or nothing."""
    report = read_report(exercise, student, places)
    if report is None:
        return "it has not been graded"
    open_tasks = [mark.task for mark in own if not mark.final]
    head = f"a person {'will look at' if open_tasks else 'has graded'} your file"
    trouble = ""
    if notebook_path(student, exercise, places).exists():
        try:
            work = (rendered, exercise, student, places, open_tasks)
            child.run(*work, seconds=PAGE, writes=LARGEST_PAGE)
            return ""
        except Trouble as error:
            trouble = str(error)
            head = "what was handed in is graded, and could not be shown as a page"
    tables.written(page_path(student, exercise, places), short_page(head, report, own))
    return trouble


def short_page(head: str, report: Report, own: Sequence[Mark]) -> str:
    """A page for somebody whose notebook cannot be shown: why, and the points."""
    head, why = (html.escape(text) for text in (f"{report.exercise}: {head}", report.reason))
    points = "".join(f"<li>{html.escape(mark.task)}: {points_of(mark, OPEN)}</li>" for mark in own)
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{head}</title>{STYLE}'
        f"<h1>{head}</h1><p>{why[:1].upper()}{why[1:]}</p><ul>{points}</ul></html>\n"
    )


def points_of(mark: Mark, otherwise: str) -> str:
    """The points of a mark in words, or another word where they may still change."""
    return f"{mark.points:g} of {mark.most:g}" if mark.final else otherwise


def rendered(exercise: str, student: str, places: Places, open_tasks: Sequence[str]) -> bytes:
    """Render a student's page, in a child; see `write_page`.

    Raises:
        ValueError: nbgrader could not make it; the text says why.
    """
    from nbconvert.filters.markdown_mistune import IPythonRenderer
    from nbgrader.converters import GenerateFeedback
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    for name, block in (("inline_math", False), ("block_math", True), ("latex_environment", True)):
        setattr(IPythonRenderer, name, partial(set_formula, block))  # in this process alone
    config = configuration(places)
    config.CourseDirectory.assignment_id = exercise
    # nbgrader takes a student's name for a pattern
    config.CourseDirectory.student_id = re.sub(r"([*?[])", r"[\1]", student)
    config.CourseDirectory.ignore = ["*"]  # the page alone goes to the student
    directory = CourseDirectory(config=config)
    with nbgrader_log() as log:
        try:
            GenerateFeedback(coursedir=directory, config=config, force=True).start()
        except NbGraderException as error:
            why = " ".join(log.getvalue().split())[-250:]
            raise ValueError(why or "nbgrader could not make it") from error
    path = page_path(student, exercise, places)
    text = re.sub(r"(?s)<script.*?</script>", "", path.read_text(encoding="utf-8"))
    text = with_scores(text, open_tasks)
    tables.written(path, text.replace("<head>", f"<head>{ALONE}", 1))
    return b""


def with_scores(page: str, open_tasks: Sequence[str]) -> str:
    """nbgrader's page with the names of the tasks above, and no score where it may still change."""
    head, border, body = page.partition('<div class="panel-body">')
    head = re.sub(r'(<a href="#(\w+)">)[^<]*(</a> \(Score)', r"\1\2\3", head)
    for task in open_tasks:
        head = re.sub(rf"(>{task}</a>) \(Score: [^)]*\)", rf"\1 ({OPEN})", head)
        body = re.sub(rf'(?s)(<a name="{task}">.*?)Score: [^<]*', rf"\1{OPEN} ", body, count=1)
    head = head.replace(")</h4>", " so far)</h4>", 1) if open_tasks else head
    return head + border + body


def set_formula(block: bool, text: str = "", name: str = "", body: str = "") -> str:
    """A formula as MathML; what is too long, or no formula, stays as it was written."""
    tex = f"\\begin{{{name}}}{body}\\end{{{name}}}" if name else text
    if len(tex) < LONGEST_FORMULA:
        with suppress(Exception):  # whatever a stranger's formula makes of a parser
            return re.sub(r'\s(href|style|class|id)="[^"]*"', "", formula(tex, block))
    return html.escape(f"$${tex}$$" if block else f"${tex}$")


def keep_secrets(
    exercise: str, students: Sequence[str], table: Sequence[Mark], places: Places
) -> None:
    """Lay beside each page the name under which nbgrader's release_feedback gives it out on a hub.

    A page for a submission that came in another way, or that is not the one that lies in
    `submitted` now, gets a name that nobody knows.
    """
    if not any(places.submitted.glob(f"*/{exercise}/{SECRET}")):
        return
    outdated = {mark.student for mark in table if mark.status == NOT_GRADED}
    for student in students:
        secret = places.submitted / student / exercise / SECRET
        folder = page_path(student, exercise, places).parent
        if not folder.is_dir():
            continue
        if secret.exists() and student not in outdated:
            shutil.copyfile(secret, folder / SECRET)
        else:
            (folder / SECRET).write_text(secrets.token_hex(64))
        (folder / "timestamp.txt").write_text("see the marks")


# zips


def write_zips(
    exercise: str, students: Sequence[str], table: Sequence[Mark], places: Places
) -> list[str]:
    """Write EXERCISE_moodle.zip and EXERCISE_canvas.zip, as far as receipts name these platforms.

    Args:
        exercise: its name.
        students: whose work was graded.
        table: the marks of the exercise.
        places: the class.

    Returns:
        lines for the terminal: the zips, and who has no file in one.
    """
    remarks = comments(exercise, places)
    files: dict[str, dict[str, bytes]] = {"moodle": {}, "canvas": {}}
    troubles, holders = [], one_for_each_file(exercise, students, places)
    for student in students:
        receipt = read_receipt(student, exercise, places)
        page = page_path(student, exercise, places)
        notebook = notebook_path(student, exercise, places)
        if receipt is None or student not in holders:
            continue  # a group gets one file, under the name of whoever handed it in
        if receipt.platform == "moodle" and page.exists():
            files["moodle"][moodle_name(receipt, exercise)] = page.read_bytes()
        elif receipt.platform == "canvas" and notebook.exists():
            text = summary([mark for mark in table if mark.student == student], remarks)
            try:
                content = child.run(with_summary, notebook, text)
            except Trouble as error:
                troubles.append(f"{exercise}, {student}: nothing for Canvas: {error}")
            else:
                files["canvas"][canvas_name(receipt)] = content
    zips = [
        zipped(places.feedback / f"{exercise}_{platform}.zip", content)
        for platform, content in files.items()
        if content
    ]
    return [*(f"written: {path}" for path in zips), *troubles]


def moodle_name(receipt: Receipt, exercise: str) -> str:
    """The name by which Moodle takes a page back: the download's folder, and a file in it.

    >>> moodle_name(Receipt("moodle", "Ada_4712_assignsubmission_file_/a.ipynb"), "06_bpe")
    'Ada_4712_assignsubmission_file_/06_bpe.html'

    Raises:
        ValueError: the path is none of Moodle's.
    """
    folder = MOODLE_FOLDER.search(receipt.path)
    if folder is None:
        raise ValueError(f"a path of Moodle's names a participant, this one does not: {receipt}")
    return f"{folder[1]}_/{exercise}.html"


def canvas_name(receipt: Receipt) -> str:
    """The name by which Canvas takes a notebook back: that of the download, not of what was in it.

    >>> canvas_name(Receipt("canvas", "submissions/adal_11_501_work.zip/04_self_attention.ipynb"))
    'adal_11_501_work.ipynb'

    Raises:
        ValueError: the path is none of Canvas's.
    """
    for part in PurePosixPath(receipt.path).parts:
        if (sender := in_table(part)) and sender.platform == "canvas":
            return part if part.endswith(".ipynb") else f"{part.partition('.')[0]}.ipynb"
    raise ValueError(f"a path of Canvas's names a person, this one does not: {receipt}")


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    """Write a zip of files by their names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return tables.written(path, buffer.getvalue())


def summary(own: Sequence[Mark], remarks: dict[tuple[str, str], str]) -> str:
    """A student's marks and the comments on them, as Markdown."""
    lines = ["## Marks", ""]
    for mark in own:
        points = points_of(mark, mark.status)
        reason = f": {mark.reason}" if mark.reason else ""
        lines.append(f"- **{mark.task}** {points}{reason}")
        remark = remarks.get((mark.student, mark.task))
        lines += [f"  - {' '.join(remark.split())}"] if remark else []
    return "\n".join(lines)


def with_summary(path: Path, text: str) -> bytes:
    """A graded notebook with a text above it; called in a child."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    first = {"cell_type": "markdown", "id": "marks", "metadata": {}, "source": text}
    notebook["cells"].insert(0, first)
    return json.dumps(notebook, indent=1, ensure_ascii=False).encode(errors="replace")
