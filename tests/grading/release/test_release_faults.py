"""Faults that an engineer put into this room, each with the test that notices it."""

from pathlib import Path

from grading.release import build
from grading.release.build import names


def test_an_exercise_that_has_changed_is_written_anew(tmp_path: Path) -> None:
    """Else "the exercise is what its solution makes" could not fail."""
    name = names()[0]
    build.build(name, tmp_path)
    path = tmp_path / name / f"{name}.ipynb"
    before = path.read_bytes()
    path.write_bytes(b"{}")
    assert build.build(name, tmp_path) == [path.name]
    assert path.read_bytes() == before
