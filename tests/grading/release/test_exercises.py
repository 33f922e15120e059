"""What students get: generated from the solutions, complete, and without anything secret."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from cells import ROOT
from classroom import notebook, released
from nbclient import NotebookClient

from attnlib.check.comparison import difference
from attnlib.check.protocol import from_json
from grading.__main__ import main
from grading.release import build
from grading.release.build import agree, checks, course_files, for_students, names
from grading.settings import Places, configuration
from grading.tasks import EXERCISES, exercise
from grading.tasks.hidden import copied

EXERCISE = ROOT / "exercises"
STUB = "raise NotImplementedError()"
MINUTES = r"\*\*Points\*\* (\d+) · \*\*Time\*\* (\d+) min"
SECRET = ("BEGIN SOLUTION", "BEGIN HIDDEN", "BEGIN MARK", "grading.tasks", "Model answer")


def meta(cell: Any) -> dict[str, Any]:
    """A cell's nbgrader metadata."""
    found: dict[str, Any] = cell.metadata.get("nbgrader", {})
    return found


def solution_cells(name: str) -> list[Any]:
    """The cells of a solutions notebook."""
    return list(notebook("solutions", name).cells)


def execute(notebook: Any, folder: Path, stop: bool = True) -> Any:
    """Run a notebook from top to bottom, in a folder."""
    NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        allow_errors=not stop,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    return notebook


def text_of(cell: Any) -> str:
    """What a cell printed."""
    return "".join(out.get("text", "") for out in cell.outputs)


# generated, and up to date


def test_every_solution_is_an_exercise() -> None:
    solutions = sorted(path.stem for path in (ROOT / "solutions").glob("*/*.ipynb"))
    assert solutions == names() == list(EXERCISES)
    assert sorted(p.name for p in EXERCISE.iterdir() if p.is_dir()) == names()


@pytest.mark.parametrize("name", names())
def test_the_exercise_is_what_its_solution_makes(name: str, tmp_path: Path) -> None:
    """But for rounding: another processor may round a last digit elsewhere."""
    shutil.copytree(EXERCISE / name, tmp_path / name)
    assert build.build(name, tmp_path) == [], "run make exercises"
    there = {p.name for p in (EXERCISE / name).iterdir()}
    assert there <= {f"{name}.ipynb", "checks.json", ".ipynb_checkpoints"}


@pytest.mark.parametrize("name", names())
def test_the_visible_cases_are_those_of_the_tasks(name: str) -> None:
    text = (EXERCISE / name / "checks.json").read_text(encoding="utf-8")
    told = json.loads(text)["tasks"]
    assert list(told) == list(exercise(name))
    for task in exercise(name).values():
        cases = told[task.name]["cases"]
        assert len(cases) == len(task.visible)
        for args, one in zip(task.visible, cases, strict=True):
            given = from_json(one["args"])
            assert difference(copied(args), given, 1e-5) is None
            if task.accepts is None:
                right = copied(task.right(*given))
                assert difference(right, from_json(one["expected"]), task.tolerance / 10) is None
            else:
                assert set(one) == {"args"}, "a task with many answers tells none"
    assert len(text) < 200_000


def nudged(data: Any) -> Any:
    """JSON whose floats are those of a processor that rounds otherwise."""
    if isinstance(data, float):
        return data * (1 + 1e-6)
    if isinstance(data, list):
        return [nudged(item) for item in data]
    return {key: nudged(item) for key, item in data.items()} if isinstance(data, dict) else data


def test_rounding_is_no_change_and_a_change_is_no_rounding(tmp_path: Path) -> None:
    one = {"a": [1.0, {"b": 0.333333}], "c": 3}
    assert agree(one, {"a": [1.000001, {"b": 0.333334}], "c": 3})
    for other in (
        {"a": [1.001, {"b": 0.333333}], "c": 3},
        {"a": [1.0, {"b": 0.333333}], "c": 4},
        {"a": [1.0], "c": 3},
        {"c": 3, "a": [1.0, {"b": 0.333333}]},
        {"a": 1},
        [],
    ):
        assert not agree(one, other), other
    assert build.rounded({"x": [0.12345678, 1, True, "0.12345678"]}) == {
        "x": [0.123457, 1, True, "0.12345678"]
    }
    name = names()[0]
    assert build.build(name, tmp_path) == [f"{name}.ipynb", "checks.json"]
    path = tmp_path / name / "checks.json"
    assert path.read_text(encoding="utf-8") == checks(name)
    text = json.dumps(nudged(json.loads(checks(name))))
    assert json.loads(text) != json.loads(checks(name))
    path.write_text(text, encoding="utf-8")
    assert build.build(name, tmp_path) == []
    assert path.read_text(encoding="utf-8") == text
    for damaged in ("{", "[]"):
        path.write_text(damaged, encoding="utf-8")
        assert build.write_checks(name, path.parent)
        assert path.read_text(encoding="utf-8") == checks(name)


# well made


@pytest.mark.parametrize("name", names())
def test_the_notebook_is_well_made_and_tells_its_points_and_minutes(name: str) -> None:
    cells = solution_cells(name)
    ids = [meta(c)["grade_id"] for c in cells if meta(c)]
    assert len(ids) == len(set(ids)), "two cells share a grade_id"
    assert {meta(c)["schema_version"] for c in cells if meta(c)} == {3}
    graded = [meta(c)["grade_id"] for c in cells if meta(c).get("grade")]
    manual = [i for i in graded if i.startswith("explain_")]
    assert [i for i in graded if i not in manual] == list(exercise(name))
    assert 3 <= len(graded) <= 7
    for cell in cells:
        about = meta(cell)
        if about.get("grade_id") in exercise(name):
            task = about["grade_id"]
            assert cell.source.splitlines()[-1] == f'check("{task}", {task})'
            assert (about["grade"], about["locked"], about["solution"]) == (True, True, False)
            assert f"{task}_answer" in ids[: ids.index(task)]
        if about.get("grade_id", "").endswith("_answer"):
            assert (about["grade"], about["locked"], about["solution"]) == (False, False, True)
            assert f"def {about['grade_id'].removesuffix('_answer')}(" in cell.source
            assert "### BEGIN SOLUTION" in cell.source
        if about.get("grade_id") in manual:
            assert cell.cell_type == "markdown"
            assert (about["grade"], about["solution"]) == (True, True)
            assert re.search(r"\bpoints?\b", cell.source), "a manual task needs its rubric"
        assert not cell.get("outputs")
    first = cells[0]
    told = re.search(MINUTES, first.source)
    assert told, f"the first cell tells no points and minutes: {first.source[:300]}"
    assert int(told[1]) == sum(meta(c)["points"] for c in cells if meta(c).get("grade"))
    assert 20 <= int(told[2]) <= 240
    assert re.search(rf"\bchapter {name[:2]}\b", first.source)


@pytest.mark.parametrize("name", names())
def test_what_a_task_asks_to_read_again_is_a_heading(name: str) -> None:
    """Of the chapter, or of one of its side roads."""
    roads = [ROOT / "chapters" / f"{name}.ipynb"]
    roads += (ROOT / "chapters" / "more").glob(f"{name[:2]}_*.ipynb")
    cells = [cell for road in roads for cell in nbformat.read(road, as_version=4).cells]
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    headings = {title.replace("*", "") for title in re.findall(r"^#+ (.+)$", text, re.M)}
    headings |= {title.removeprefix(f"{name[:2]} · ") for title in headings}
    lines = re.findall(r"re-read: (.+)$", "\n".join(c.source for c in solution_cells(name)), re.M)
    assert lines
    titles = {
        title
        for line in lines
        for part in re.findall(r"\*([^*]+)\*", line)
        for title in part.split("; ")
    }
    assert titles <= headings, titles - headings


def test_the_teaching_page_lists_every_task() -> None:
    page = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    rows = []
    for name in names():
        graded = [meta(c) for c in solution_cells(name) if meta(c).get("grade")]
        told_by = [(f"`{m['grade_id']}` {m['points']:g}", m["solution"]) for m in graded]
        machine, hand = (", ".join(t for t, m in told_by if m == by) for by in (False, True))
        told = re.search(MINUTES, solution_cells(name)[0].source)
        assert told
        rows.append(f"| {name} | {machine} | {hand} | {told[1]} | {told[2]} |")
    begins = tuple(f"| {name} " for name in names())
    assert [row for row in page.splitlines() if row.startswith(begins)] == rows


# run


def ran(notebook: Any, folder: Path) -> Iterator[tuple[str, str, Exception | None]]:
    """Of each code cell, run one after the other: its name, what it prints, what it raises."""
    space = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
            error, printed = None, io.StringIO()
            with contextlib.redirect_stdout(printed):
                try:
                    exec(compile(cell.source, cell.id, "exec"), space)
                except Exception as raised:  # a warning is one, too
                    error = raised
            yield meta(cell).get("grade_id", ""), printed.getvalue(), error


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_the_solutions_run_and_pass(name: str) -> None:
    notebook = nbformat.read(ROOT / "solutions" / name / f"{name}.ipynb", as_version=4)
    told = dict[str, str]()
    for task, said, error in ran(notebook, ROOT / "solutions" / name):
        assert error is None, f"{task}: {error!r}"
        told[task] = said
    for task in exercise(name):
        assert told[task].endswith("Grading uses other inputs.\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_the_released_notebook_asks_for_every_answer(name: str) -> None:
    for task, _, error in ran(released(name), EXERCISE / name):
        wanted = {"NotYet", "NotImplementedError"} if task in exercise(name) else {"NoneType"}
        assert type(error).__name__ in wanted, f"{task}: {error}"


# nothing secret


def solution_texts(name: str) -> list[str]:
    """The lines between BEGIN and END SOLUTION, and the model answers."""
    found = []
    for cell in solution_cells(name):
        if meta(cell).get("solution") and cell.cell_type == "markdown":
            found.append(cell.source)
        found += re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.S)
    return [text.strip() for text in found]


@pytest.mark.parametrize("name", names())
def test_no_solution_is_in_the_exercise(name: str) -> None:
    cells = released(name).cells
    sources, texts = "\n".join(c.source for c in cells), solution_texts(name)
    assert len(texts) >= len(exercise(name))
    apart_from_hints = re.sub(r"<details>.*</details>", "", sources, flags=re.S)
    for text in texts:
        assert text not in sources
        for line in text.splitlines():  # a long line of a solution stands in hints alone
            assert len(line.strip()) < 40 or line.strip() not in apart_from_hints, line
    for word in SECRET:
        assert word not in sources, word
    answers = [c for c in cells if meta(c).get("solution")]
    assert len(answers) == len(texts)
    for cell in answers:
        assert (STUB if cell.cell_type == "code" else "YOUR ANSWER HERE") in cell.source
    hidden = json.loads((EXERCISE / name / "checks.json").read_text(encoding="utf-8"))
    assert set(hidden) == {"exercise", "tasks"}
    for task in hidden["tasks"].values():
        assert set(task) <= {"tolerance", "free", "forbidden", "cases"}
        assert all(set(case) <= {"args", "expected", "mistakes"} for case in task["cases"])


# the students' copy


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The students' copy of the course, unpacked."""
    folder = tmp_path_factory.mktemp("student")
    assert main(["--dist", str(folder / "dist"), "student"]) == 0
    with zipfile.ZipFile(folder / "dist" / "attention-course.zip") as packed:
        packed.extractall(folder)
    return folder / "attention-course"


@pytest.mark.ci
def test_the_students_copy_is_complete(copy: Path) -> None:
    there = {str(p.relative_to(copy)) for p in copy.rglob("*") if p.is_file()}
    assert there == {name for name in course_files() if for_students(name)}
    for name in names():
        assert {f"exercises/{name}/{name}.ipynb", f"exercises/{name}/checks.json"} <= there
        assert f"chapters/{name}.ipynb" in there
    assert {"README.md", "Makefile", "course.py", "attnlib/check/__init__.py"} <= there


def test_nothing_secret_is_in_the_students_copy(copy: Path) -> None:
    for word in ("solutions", "grading", "tests/grading", "nbgrader_config.py"):
        assert not (copy / word).exists()
    everything = "\n".join(
        p.read_text(encoding="utf-8") for p in copy.rglob("*") if p.suffix in {".py", ".ipynb"}
    )
    for name in names():
        for text in solution_texts(name):
            # short solutions may be what a chapter shows; a long one is nobody else's text
            assert len(text) < 200 or json.dumps(text)[1:-1] not in everything, text
    assert "BEGIN SOLUTION" not in everything
    assert "TASKS: tuple[Task" not in everything


def test_an_instructors_command_is_refused_in_the_students_copy(copy: Path) -> None:
    command = [sys.executable, "course.py", "grade", "--here"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 1
    assert "make grade is for instructors; this is a student's copy" in done.stderr


@pytest.mark.long
@pytest.mark.slow
def test_the_checks_work_in_the_students_copy(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = names()[-1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(copy), os.environ["PYTHONPATH"]]))
    folder = copy / "exercises" / name
    notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    own = {meta(c).get("grade_id"): c.source for c in solution_cells(name)}
    for cell in notebook.cells:
        if meta(cell).get("solution"):
            cell.source = own[meta(cell)["grade_id"]]
    where = "import attnlib.check; print(attnlib.check.__file__)"
    notebook.cells.append(nbformat.v4.new_code_cell(where))
    execute(notebook, folder)
    assert text_of(notebook.cells[-1]).startswith(str(copy))
    passed = [c for c in notebook.cells if c.cell_type == "code" and "Passed: " in text_of(c)]
    assert len(passed) == len(exercise(name))


def test_an_archive_has_the_same_bytes_again(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("b")
    (tmp_path / "a").write_text("a")
    files = [(n, tmp_path / n) for n in ("b", "a")]
    first = build.archive(tmp_path / "x" / "1.zip", files).read_bytes()
    assert build.archive(tmp_path / "2.zip", reversed(files)).read_bytes() == first
    assert zipfile.ZipFile(tmp_path / "2.zip").namelist() == ["a", "b"]


# release


@pytest.mark.long
@pytest.mark.slow
def test_a_release_is_noted_in_the_gradebook_with_its_due_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nbgrader.api import Gradebook

    monkeypatch.delenv("ATTNLIB_GRADEBOOK", raising=False)
    name = names()[0]
    before = (EXERCISE / name / f"{name}.ipynb").read_bytes()
    words = ["--home", str(tmp_path / "class"), "--dist", str(tmp_path), "release", name]
    assert main([*words, "--due", "2026-12-01T12:00"]) == 0
    assert "due: Tuesday, 2026-12-01 12:00, local time" in capsys.readouterr().out
    assert main(words) == 0, "released a second time, the due date stays"
    assert (EXERCISE / name / f"{name}.ipynb").read_bytes() == before
    packed = zipfile.ZipFile(tmp_path / f"{name}.zip")
    assert packed.namelist() == [f"{name}/{name}.ipynb", f"{name}/checks.json"]
    with Gradebook(f"sqlite:///{tmp_path / 'class' / 'gradebook.db'}", "attention") as gradebook:
        assignment = gradebook.find_assignment(name)
        local = datetime.fromisoformat("2026-12-01T12:00").astimezone(UTC).replace(tzinfo=None)
        assert assignment.duedate == local
        cells = gradebook.find_notebook(name, name).grade_cells
        points = {cell.name: cell.max_score for cell in cells}
    assert points == {
        meta(c)["grade_id"]: meta(c)["points"] for c in solution_cells(name) if meta(c).get("grade")
    }
    again = capsys.readouterr().out
    assert "written: " in again
    assert "due: " not in again


def test_an_unknown_exercise_is_told_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--home", str(tmp_path), "--dist", str(tmp_path), "release", "99_x"]) == 1
    assert f"no exercise is called '99_x'; there are: {names()[0]}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["release", names()[0], "--due", "soon"])
    assert "'soon' is no date such as 2026-12-01T12:00" in capsys.readouterr().err


def test_the_buttons_of_nbgrader_do_what_the_commands_do(tmp_path: Path) -> None:
    config = configuration(Places(tmp_path, tmp_path))
    assert config.Autograde.sanitize_preprocessors == []
    assert config.Autograde.autograde_preprocessors == ["grading.desk.formgrader.Graded"]
    assert config.GenerateAssignment.post_convert_hook == "grading.release.build.after_generating"
    assert config.CourseDirectory.root == str(ROOT)
    assert config.CourseDirectory.submitted_directory == str(tmp_path / "submitted")


def test_another_gradebook_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTNLIB_GRADEBOOK", raising=False)
    places = Places(tmp_path, tmp_path)
    assert places.gradebook == f"sqlite:///{tmp_path / 'gradebook.db'}"
    assert not places.has_gradebook()
    (tmp_path / "gradebook.db").touch()
    assert places.has_gradebook()
    monkeypatch.setenv("ATTNLIB_GRADEBOOK", "postgresql://tutor@db/attention")
    assert configuration(places).CourseDirectory.db_url == "postgresql+psycopg://tutor@db/attention"
    assert places.has_gradebook()


def test_formgraders_button_writes_the_visible_cases_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = names()[0]
    monkeypatch.setattr(build, "EXERCISE_FOLDER", tmp_path)
    (tmp_path / name).mkdir()
    build.after_generating(assignment=name, student=".", notebooks=[f"{name}.ipynb"])
    assert (tmp_path / name / "checks.json").read_text(encoding="utf-8") == checks(name)
