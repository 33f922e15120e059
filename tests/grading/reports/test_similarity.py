"""The folder of answers that JPlag and Dolos read."""

import ast
import zipfile
from pathlib import Path

import pytest
from semester import NAME, grade, graded_notebook, receive, rows_of, semester

from grading.release.build import BuildError
from grading.reports.similarity import similarity

ANSWER = "def attend(q, k, v):\n    return q\n%timeit attend(1, 2, 3)\n!ls"


def test_a_folder_a_student_a_base_and_how_to_call_the_tools(tmp_path: Path) -> None:
    places = semester(tmp_path)
    for student in ("ada", "emmy", "alan"):
        grade(places, student)
    graded_notebook(places, "ada", ANSWER)
    graded_notebook(places, "emmy", ANSWER)
    for student in ("ada", "emmy"):  # they are a group: one answer
        receive(places, student, "moodle", "x", by="ada")
    graded_notebook(places, "alan").write_text("no notebook")
    lines = similarity(NAME, places)
    folder = tmp_path / "similarity" / NAME
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    own = f"submissions/ada/{NAME}.py"
    assert files == ["README.txt", f"base/{NAME}.py", "info.csv", own]
    assert any(line.startswith(f"{NAME}, alan: left out:") for line in lines)
    code = (folder / own).read_text()
    ast.parse(code)  # as a parser of Python must
    assert code.startswith("def attend(q, k, v):\n    return q\n")
    base = (folder / f"base/{NAME}.py").read_text()
    assert "def causal_weights" in base  # which nobody changed, and so nobody handed in
    assert "causal_weights" not in code
    assert rows_of(folder / "info.csv")[1] == [own, "Ada Lovelace", "2026-11-02 12:00:00 +0000"]
    with zipfile.ZipFile(tmp_path / "similarity" / f"{NAME}.zip") as archive:
        assert sorted(archive.namelist()) == files
    assert "-bc base submissions\n" in (folder / "README.txt").read_text()
    assert f"-i base/{NAME}.py info.csv\n" in (folder / "README.txt").read_text()


def test_a_class_of_which_nothing_is_graded_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=f"make grade NAME={NAME}"):
        similarity(NAME, semester(tmp_path))
